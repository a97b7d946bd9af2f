"""The README's section "One tool call in six revisions", with the messages that really go over the pipes.

    python3 -m tests.transcripts        writes the section into README.md

The server is the README's own. Each frame is one line, without its newline.
"""

from __future__ import annotations

import asyncio
import re
import textwrap
from typing import Literal

from mcp_ref import Client, Implementation
from mcp_ref.revisions import LEGACY, REVISIONS, Revision
from tests.forked_python import quick_python
from tests.settings import ROOT

README = ROOT / "README.md"
HEADING = "## One tool call in six revisions\n"
COMMAND = "python3 -m tests.transcripts"

HANDSHAKE = (
    "Here `client.py` calls `add` over pipes; `->` marks lines from the client, `<-` lines from the server. Up to "
    "revision 2025-11-25, in the *legacy era*, a session begins with a handshake:"
)
RESULTS = "Older revisions differ only in the date and the result:"
STATELESS = (
    "From 2026-07-28 on, in the *modern era*, requests are stateless, so each one names its revision and the "
    "capabilities of its client. The first request below asks for the server's revisions and capabilities; a client "
    "may leave it out."
)


class Written:
    """A trace that keeps the frames."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, direction: Literal["->", "<-"], frame: bytes) -> None:
        """Keep one frame."""
        self.lines.append(f"{direction} {frame.decode()}")


async def call(server: list[str] | str, revision: Revision, written: Written) -> None:
    """Call the tool `add`."""
    info = Implementation("client", "1.0")
    async with Client(server, revision=revision, info=info, trace=written) as client:
        await client.call_tool("add", {"a": 1, "b": 2})


async def over_pipes(source: str, revision: Revision) -> str:
    """Return the frames of one call over pipes, one line each."""
    written = Written()
    await call(quick_python(source), revision, written)
    return "\n".join(written.lines)


async def page() -> str:
    """Return the whole section."""
    source = next(text for text in blocks("python") if text.startswith("# server.py\n"))
    shown = await asyncio.gather(*(over_pipes(source, revision) for revision in REVISIONS))
    frames = dict(zip(REVISIONS, shown, strict=True))
    results = [f"{revision}  {frames[revision].splitlines()[-1]}" for revision in LEGACY[:-1]]
    parts = [(HANDSHAKE, frames[LEGACY[-1]]), (RESULTS, "\n".join(results)), (STATELESS, frames[REVISIONS[-1]])]
    return f"{HEADING}\n" + "\n".join(f"{textwrap.fill(text, 120)}\n\n```text\n{shown}\n```\n" for text, shown in parts)


def blocks(language: str) -> list[str]:
    """Return the code blocks of the README in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def present() -> str:
    """Return the section as the README shows it."""
    text = README.read_text("utf-8")
    start = text.index(HEADING)
    return text[start : text.index("\n## ", start + 1)]


def main() -> None:
    """Write the section into the README."""
    text, old, new = README.read_text("utf-8"), present(), asyncio.run(page())
    README.write_text(text.replace(old, new), "utf-8")


if __name__ == "__main__":
    main()
