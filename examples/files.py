"""A file server that reads only inside the client's *roots*: the folders that the user opened to it.

New here: *a request of the server*. `roots/list` goes from the server to the client, in the middle of a tool call. The
user can change the roots at any time, so each call requests them again. A client without roots has opened nothing. The
server first resolves a path, with every `..` and symbolic link, and then compares it. The tools are plain `def`
functions, because they wait for a disk. In a plain function, `context.run(...)` replaces `await`.

    python3 examples/files.py                           serves over stdio
    python3 examples/files_client.py                    opens a folder, and tries to break out of it

Watch it fail: this client has no roots, so it can read no file.

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
    """Return the resolved path. Raise the same error for every path outside the roots, existing or not."""
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
    """Yield matching paths relative to the folder, as text that JSON can hold. Links are not followed."""
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
        # NOFOLLOW: the file may have become a link since the check. NONBLOCK: a named pipe must not block us.
        with open(os.open(found, OPEN_FLAGS), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ToolError(f"{path!r:.200} is not a regular file")
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
