"""A file server that reads only inside the client's *roots*: the folders that the user has allowed it to read.

New here: *a request from the server*. During a tool call, the server sends `roots/list` to the client. The user can
change the roots at any time, so the server requests them in each call. If a client has no roots, the server reads no
file. The server follows every `..` and symbolic link in a path before it compares the path with the roots. The tools
are plain `def` functions, because they wait for a disk. In a plain function, `context.run(...)` replaces `await`.

    python3 examples/files.py                           serves over stdio
    python3 examples/files_client.py                    allows one folder, and tries to read files outside it

Watch it fail: this client has no roots, so the server reads no file.

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

server = Server("files", "1.0", instructions="Paths are relative to a root, or absolute and inside a root.")
READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
MAX_BYTES, MAX_FOUND = 200_000, 500
OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)

RelativePath = Annotated[str, "A path inside the roots", {"maxLength": 1000}]


def inside(path: str, context: Context) -> Path:
    """Return the resolved path. The error for a path outside the roots does not reveal if the path exists."""
    for uri in [urlsplit(root.uri) for root in context.run(context.list_roots())]:
        if uri.scheme == "file" and uri.netloc in ("", "localhost"):
            root = Path(url2pathname(uri.path)).resolve()
            try:
                found = (root / path).resolve()  # if `path` is absolute, the result is `path`, without the root
                if found.is_relative_to(root) and found.exists():
                    return found
            except (OSError, RuntimeError, ValueError):
                continue  # a loop of links, a name that is too long, or a NUL character in the path
    raise ToolError(f"{path!r:.200} is not in any of the roots")


def names_below(folder: Path, pattern: str) -> Iterator[str]:
    """Yield matching paths relative to the folder, as valid Unicode. Symbolic links are not followed."""
    for where, folders, files in os.walk(folder):
        for name in sorted(fnmatch.filter(folders + files, pattern)):
            yield os.fsencode(os.path.relpath(os.path.join(where, name), folder)).decode("utf-8", "replace")


@server.tool(annotations=READS)
def find_files(
    context: Context, folder: RelativePath = ".", pattern: Annotated[str, "A pattern, such as *.py"] = "*"
) -> list[str]:
    """List the files and folders below a folder whose names match a pattern. Returns at most 500 paths."""
    return list(islice(names_below(inside(folder, context), pattern), MAX_FOUND))


@server.tool(annotations=READS)
def read_file(path: RelativePath, context: Context) -> str:
    """Read a text file."""
    found = inside(path, context)
    try:
        # NOFOLLOW refuses a file that has become a link since the check. NONBLOCK does not wait for a named pipe.
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
