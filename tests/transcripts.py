"""The README's page "The same tool call in six revisions": what really goes over the wire, written down.

    python3 -m tests.transcripts        writes the page into README.md

The server is the README's own. Over pipes the frames are shown as they are, without the newline at the end; over HTTP
the heads, too, as far as the protocol gives them a meaning.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from mcp_ref import Client, Implementation
from mcp_ref.revisions import REVISIONS, Revision
from tests.support import HOME, ROOT, python

README = ROOT / "README.md"
HEADING = "## The same tool call in six revisions\n"
COMMAND = "python3 -m tests.transcripts"

ABOUT = {
    "2024-10-07": "Before the first release: a handshake, and then the call. Its result is any JSON, as `toolResult`.",
    "2024-11-05": "The first release: a result is a list of content blocks.",
    "2025-03-26": "The same on the wire. What is new is not needed here: batches, audio, annotations of tools.",
    "2025-06-18": "The result also has the data themselves, as an object; the tool's output schema describes it.",
    "2025-11-25": "The same on the wire, once more; new are tasks, icons, and elicitation by URL.",
    "2026-07-28": "No handshake: each request says for itself what was agreed on before. The first one only asks who "
    "is there; a client that knows can leave it out. Structured content is any JSON: here the number itself.",
}
"""What is to be seen in each."""


INTRODUCTION = (
    "What goes over the pipes when a client asks the calculator above to add two numbers: `->` is the client's, `<-` "
    f"the server's. (A test compares this page with the wire; `{COMMAND}` writes it anew.)"
)


OVER_HTTP = (
    f"And over HTTP, in {REVISIONS[-1]}, where the head of each request says what a proxy may want to know of it. "
    "(What HTTP itself wants, `Accept` and `Content-Length` say, is left out here.)"
)


class Written:
    """A trace that writes frames and heads down."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._carried = False

    def __call__(self, direction: Literal["->", "<-"], frame: bytes) -> None:
        """A frame; below its head, if it has one."""
        self.lines.append(f"{'  ' if self._carried else direction} {frame.decode()}")

    def head(self, direction: Literal["->", "<-"], line: str, headers: Iterable[tuple[str, str]]) -> None:
        """An HTTP head."""
        self._carried = True
        self.lines += [f"{direction} {line}", *(f"   {name}: {value}" for name, value in headers)]


async def call(server: list[str] | str, revision: Revision, written: Written) -> None:
    """Ask a server to add two numbers."""
    info = Implementation("client", "1.0")
    async with Client(server, revision=revision, info=info, trace=written) as client:
        await client.call_tool("add", {"a": 1, "b": 2})


async def over_pipes(source: str, revision: Revision) -> str:
    """What goes through the pipes."""
    written = Written()
    await call(python(source), revision, written)
    return "\n".join(written.lines)


async def over_http(path: Path, revision: Revision) -> str:
    """What is sent and answered over HTTP."""
    command = [sys.executable, "-m", "mcp_ref", "run", str(path), "--http", "--port", "0"]
    process = await asyncio.create_subprocess_exec(*command, cwd=HOME, stderr=asyncio.subprocess.PIPE)
    try:
        assert process.stderr is not None
        url = (await process.stderr.readline()).decode().split()[-1]
        written = Written()
        await call(url, revision, written)
        return "\n".join(written.lines)
    finally:
        process.terminate()
        await process.communicate()


async def page() -> str:
    """The whole page."""
    source = next(text for text in blocks("python") if text.startswith("# server.py\n"))
    parts = [
        HEADING,
        textwrap.fill(INTRODUCTION, 120) + "\n",
    ]
    for revision in REVISIONS:
        parts.append(textwrap.fill(f"**{revision}.** {ABOUT[revision.name]}", 120) + "\n")
        parts.append(f"```text\n{await over_pipes(source, revision)}\n```\n")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "server.py")
        path.write_text(source, "utf-8")
        parts.append(textwrap.fill(OVER_HTTP, 120) + "\n")
        parts.append(f"```text\n{await over_http(path, REVISIONS[-1])}\n```\n")
    return "\n".join(parts)


def blocks(language: str) -> list[str]:
    """The README's blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def present() -> str:
    """The page as it stands in the README."""
    text = README.read_text("utf-8")
    start = text.index(HEADING)
    return text[start : text.index("\n## ", start + 1)]


def main() -> None:
    """Write the page into the README."""
    text, old, new = README.read_text("utf-8"), present(), asyncio.run(page())
    README.write_text(text.replace(old, new), "utf-8")


if __name__ == "__main__":
    main()
