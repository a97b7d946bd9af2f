"""A client that allows files.py to read one folder, reads a file there, and then tries to read files outside it.

New here: *roots* in the client. They are paths of folders. `set_roots` changes them and notifies the server.

    python3 examples/files_client.py                    uses a temporary folder
    python3 examples/files_client.py README.md          reads a file of the current directory

Watch it fail: a path outside the current directory.

    python3 examples/files_client.py ../secret.txt
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from mcp_ref import Client

SERVER = [sys.executable, str(Path(__file__).with_name("files.py"))]


async def show(path: str) -> None:
    """Read one file, with the current directory as the only root."""
    async with Client(SERVER, roots=["."]) as client:
        result = await client.call_tool("read_file", {"path": path})
        if result.is_error:
            sys.exit(f"refused: {result.text}")
        print(result.text)


async def demonstrate(folder: Path) -> None:
    """Create a folder with a note and links to a secret outside the folder. Then try to read all these files."""
    opened, secret = folder / "opened", folder / "secret.txt"
    opened.mkdir()
    secret.write_text("the secret")
    (opened / "note.txt").write_text("hello")
    (opened / "link.txt").symlink_to(secret)
    (opened / "up").symlink_to(folder)
    (opened / "circle").symlink_to("circle")
    (folder / "opened-too").mkdir()  # another folder, whose name begins with the root's name
    (folder / "opened-too" / "note.txt").write_text("the secret")

    async with Client(SERVER, roots=[opened]) as client:
        note = await client.call_tool("read_file", {"path": "note.txt"})
        assert note.text == "hello", note
        print("note.txt holds", repr(note.text))
        for path in (
            "../secret.txt",
            str(secret),
            f"{opened}/../secret.txt",
            "link.txt",
            "up/secret.txt",
            "up/opened/../secret.txt",
            "../opened-too/note.txt",
            "circle",
            "note.txt\0.png",
            "/dev/zero",
            "/proc/self/environ",
            "~/.ssh/id_ed25519",
            "%2e%2e/secret.txt",
        ):
            result = await client.call_tool("read_file", {"path": path})
            assert result.is_error and "the secret" not in result.text, (path, result)
            print("refused:", result.text)
        await client.set_roots([])  # the user no longer allows the folder
        assert (await client.call_tool("read_file", {"path": "note.txt"})).is_error
        print("The client has no roots now, so the server does not read the note either.")


if __name__ == "__main__":
    if sys.argv[1:]:
        asyncio.run(show(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(demonstrate(Path(folder)))
