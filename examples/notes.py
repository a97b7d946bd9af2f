"""Notes as resources: a user selects them, a model writes them, and subscribers are notified of changes.

New here: *resources*. Each note has a URI. `resources/list` lists the existing notes, while a URI template describes
all URIs, and clients can complete its variable. A client subscribes to one note, or to all of them with `note://all`.
The notes are files in the folder NOTES, or in a temporary folder. The server announces only changes by its own tools.

    NOTES=~/notes python3 examples/notes.py             serves over stdio
    python3 examples/notes_client.py                    changes a note and receives the notification
    python3 -m mcp_ref call write_note name=milk text=buy -- python3 examples/notes.py

Watch it fail: a note that does not exist, and a name that is a path.

    python3 -m mcp_ref read note://all/nothing -- python3 examples/notes.py
    python3 -m mcp_ref call write_note name=../oops text=! -- python3 examples/notes.py
"""

import atexit
import os
import re
import tempfile
from functools import partial
from pathlib import Path
from typing import Annotated

from mcp_ref import ResourceNotFound, Server, ToolError

server = Server("notes", "1.0", instructions="Notes are the resources note://all/{name}; write_note creates them.")


def temporary() -> str:
    """Create a folder that is deleted at the end."""
    folder = tempfile.TemporaryDirectory(prefix="mcp_ref-")
    atexit.register(folder.cleanup)
    return folder.name


FOLDER = Path(os.environ.get("NOTES") or temporary()).expanduser()
NAME = r"^[a-z0-9][a-z0-9-]{0,59}$"  # a valid name is always a plain file name
Name = Annotated[str, "Lower-case letters, digits and hyphens", {"pattern": NAME}]


def names() -> list[str]:
    """Return the names of all notes."""
    return sorted(path.stem for path in FOLDER.glob("*.md") if re.fullmatch(NAME, path.stem))


@server.resource("note://all/{name}", title="Notes", mime_type="text/markdown")
def note(name: str) -> str:
    """Read a note by its name."""
    if name not in names():
        raise ResourceNotFound
    return (FOLDER / f"{name}.md").read_text("utf-8")


@server.resource("note://all", title="All notes", mime_type="application/json")
def index() -> list[str]:
    """List the names of the notes. Subscribers of this resource are notified of every change of a note."""
    return names()


@server.completion("note://all/{name}", "name")
def complete_name(value: str) -> list[str]:
    """Suggest the names of notes that begin with the typed value."""
    return [name for name in names() if name.startswith(value)]


def list_note(name: str) -> None:
    """Add a note to `resources/list`, and notify the clients that the list has changed."""
    server.resources.add(f"note://all/{name}", partial(note, name), name=name, mime_type="text/markdown")


@server.tool()
async def write_note(name: Name, text: Annotated[str, "In Markdown", {"maxLength": 100_000}]) -> str:
    """Create or replace a note."""  # an async function without `await`, so that two calls cannot overlap
    is_new = name not in names()
    (FOLDER / f".{name}.part").write_text(text, "utf-8")
    (FOLDER / f".{name}.part").replace(FOLDER / f"{name}.md")  # in one step, so that a reader cannot see half a note
    if is_new:
        list_note(name)
    server.resource_updated(f"note://all/{name}")
    return f"note://all/{name}"


@server.tool()
async def delete_note(name: Name) -> None:
    """Delete a note."""
    if name not in names():
        raise ToolError(f"No note is named {name}")
    (FOLDER / f"{name}.md").unlink()
    server.resources.remove(f"note://all/{name}")
    server.resource_updated(f"note://all/{name}")


for name in names():
    list_note(name)

if __name__ == "__main__":
    server.run()
