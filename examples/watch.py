"""A server that watches a folder. When a file changes on the disk, it notifies the subscribers of the file.

New here: changes that come from outside the server. A thread compares the folder with its earlier state, and calls
`server.resource_updated(uri)`. This method notifies the subscribers of the file and of the whole folder, in both eras:
clients that sent `resources/subscribe`, and in 2026-07-28 clients with an open `subscriptions/listen` request.

    FOLDER=. python3 examples/watch.py                  serves over stdio
    python3 examples/watch_client.py                    watches a file in both eras, and changes it
    python3 -m mcp_ref watch folder://all -- env FOLDER=. python3 examples/watch.py        until you press Ctrl-C

Watch it fail: a client cannot subscribe to a URI that does not exist.

    python3 -m mcp_ref watch folder://other -- env FOLDER=. python3 examples/watch.py
"""

import os
import threading
import time
from contextlib import suppress
from pathlib import Path

from mcp_ref import ResourceNotFound, Server

server = Server("watch", "1.0", instructions="folder://all lists the files. Subscribe to it for all changes.")
FOLDER = Path(os.environ.get("FOLDER", "."))
INTERVAL, MAX_FILES, MAX_BYTES = 0.1, 1000, 200_000  # the interval is in seconds


def look() -> dict[str, tuple[int, int]]:
    """Return the modification time, in nanoseconds, and the size, in bytes, of each file in the folder, by name."""
    found = {}
    for entry in sorted(os.scandir(FOLDER), key=lambda entry: entry.name)[:MAX_FILES]:
        if entry.is_file(follow_symlinks=False):
            state = entry.stat(follow_symlinks=False)
            found[entry.name] = (state.st_mtime_ns, state.st_size)
    return found


def keep_looking(before: dict[str, tuple[int, int]]) -> None:
    """Announce every file that was added, changed or deleted since the last look."""
    while True:
        time.sleep(INTERVAL)
        with suppress(OSError):  # a file was deleted during `look`; the next round announces the deletion
            now = look()
            for name in before.keys() | now.keys():
                if before.get(name) != now.get(name):
                    server.resource_updated(f"folder://all/{name}")
            before = now


@server.resource("folder://all", title="The folder", mime_type="application/json")
def folder() -> list[str]:
    """List the names of the files."""
    return list(look())


@server.resource("folder://all/{name}", title="A file")
def file(name: str) -> bytes:
    """Read a file."""
    if name not in look():  # accept only the name of a file in the folder, never a path
        raise ResourceNotFound
    with open(FOLDER / name, "rb") as source:
        return source.read(MAX_BYTES)


threading.Thread(target=keep_looking, args=(look(),), daemon=True).start()

if __name__ == "__main__":
    server.run()
