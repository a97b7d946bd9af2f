"""Watches a folder for its clients: whoever has subscribed to a file is told when it changes on the disk.

New here: changes that no tool has made. A thread looks at the folder, and says `server.resource_updated(uri)`, which
tells whoever watches that resource, or one above it. How they are told is not its business: in the earlier era by a
notification for those who said `resources/subscribe`; in 2026-07-28 on a stream that each client has opened with
`subscriptions/listen`, and with that stream's id on each update.

    FOLDER=. python3 examples/watch.py                  serves over stdio
    python3 examples/watch_client.py                    watches a file in both eras, and changes it
    python3 -m mcp_ref watch folder://all -- env FOLDER=. python3 examples/watch.py        until you press Ctrl-C

Watch it fail: what there is not cannot be watched.

    python3 -m mcp_ref watch folder://other -- env FOLDER=. python3 examples/watch.py
"""

import os
import threading
import time
from contextlib import suppress
from pathlib import Path

from mcp_ref import Context, Server
from mcp_ref.features.resources import not_found

server = Server("watch", "1.0", instructions="folder://all is the list of the files; watch it to hear of all of them.")
FOLDER = Path(os.environ.get("FOLDER", "."))
SECONDS, MAX_FILES, MAX_BYTES = 0.1, 1000, 200_000


def look() -> dict[str, tuple[int, int]]:
    """The files of the folder, each with what changes when it does."""
    found = {}
    for entry in sorted(os.scandir(FOLDER), key=lambda entry: entry.name)[:MAX_FILES]:
        if entry.is_file(follow_symlinks=False):
            state = entry.stat(follow_symlinks=False)
            found[entry.name] = (state.st_mtime_ns, state.st_size)
    return found


def keep_looking(before: dict[str, tuple[int, int]]) -> None:
    """Tell of every file that has come, changed or gone since the last look."""
    while True:
        time.sleep(SECONDS)
        with suppress(OSError):  # a file that went while we looked; the next look will tell
            now = look()
            for name in before.keys() | now.keys():
                if before.get(name) != now.get(name):
                    server.resource_updated(f"folder://all/{name}")
            before = now


@server.resource("folder://all", title="The folder", mime_type="application/json")
def folder() -> list[str]:
    """The names of the files."""
    return list(look())


@server.resource("folder://all/{name}", title="A file")
def file(name: str, context: Context) -> bytes:
    """What is in a file."""
    if name not in look():  # so it is a name, and no path
        raise not_found(f"folder://all/{name}", context)
    with open(FOLDER / name, "rb") as source:
        return source.read(MAX_BYTES)


threading.Thread(target=keep_looking, args=(look(),), daemon=True).start()

if __name__ == "__main__":
    server.run()
