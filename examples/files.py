"""A file server that reads only where its user allows it: in the client's *roots*, wherever a path may point.

New here: *the server asks the client*. `roots/list` goes the other way, in the middle of a tool's call, and the user
may change the roots at any time, so they are asked for at each call. A client that declares none has opened nothing.
Paths are resolved first, with every `..` and symbolic link, and compared then: what counts is where a path leads.
The tools are plain `def`, as they wait for a disk; `context.run` is what `await` is in an `async def`.

    python3 examples/files.py                           serves over stdio
    python3 examples/files_client.py                    gives it a folder, and tries to break out of it

Watch it fail: this client has no roots, so no file is inside of them.

    python3 -m mcp_ref call read_file path=README.md -- python3 examples/files.py
"""

import fnmatch
import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit
from urllib.request import url2pathname

from mcp_ref import Context, Server, ToolAnnotations, ToolError

server = Server("files", "1.0", instructions="Paths are relative to a root, or absolute and inside of one.")
READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
MAX_BYTES, MAX_FOUND = 200_000, 500
OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)

RelativePath = Annotated[str, "A path inside the roots", {"maxLength": 1000}]


def inside(path: str, context: Context) -> Path:
    """Where a path leads, which is inside a root. Outside, the answer is the same whether there is a file or not."""
    for uri in [urlsplit(root.uri) for root in context.run(context.list_roots())]:
        if uri.scheme == "file" and uri.netloc in ("", "localhost"):
            root = Path(url2pathname(uri.path)).resolve()
            try:
                found = (root / path).resolve()  # an absolute path replaces the root, and is compared like any other
                if found.is_relative_to(root) and found.exists():
                    return found
            except (OSError, RuntimeError, ValueError):
                continue  # a circle of links, a name that is too long, a NUL
    raise ToolError(f"{path!r:.200} is not in any of the roots")


def names_below(folder: Path, pattern: str) -> Iterator[str]:
    """Paths relative to the folder, as text that JSON can hold. Links are named, and not followed."""
    for where, folders, files in os.walk(folder):
        for name in sorted(fnmatch.filter(folders + files, pattern)):
            yield os.fsencode(os.path.relpath(os.path.join(where, name), folder)).decode("utf-8", "replace")


@server.tool(annotations=READS)
def find_files(
    context: Context, folder: RelativePath = ".", pattern: Annotated[str, "Of the name, such as *.py"] = "*"
) -> list[str]:
    """Name the files and folders below a folder that match a pattern, the first 500 of them."""
    return list(islice(names_below(inside(folder, context), pattern), MAX_FOUND))


@server.tool(annotations=READS)
def read_file(path: RelativePath, context: Context) -> str:
    """Read a text file."""
    found = inside(path, context)
    try:
        # NOFOLLOW: not even if the file became a link since we looked. NONBLOCK: a named pipe must not hold us up.
        with open(os.open(found, OPEN_FLAGS), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ToolError(f"{path!r:.200} is no file")
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ToolError(f"{path!r:.200} is larger than {MAX_BYTES} bytes")
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ToolError(f"{path!r:.200} is not text in UTF-8") from None
    except OSError as error:
        raise ToolError(f"{path!r:.200}: {error.strerror}") from None


if __name__ == "__main__":
    server.run()
