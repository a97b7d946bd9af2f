"""The demo's server: one short tool, resource or prompt for each feature.

Every MCP host can use this server, and so can you from the command line:

    python3 -m mcp_ref list -- python3 -m mcp_ref run mcp_ref.demo.server
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import Literal

from .. import (
    AudioContent,
    Context,
    ImageContent,
    PromptMessage,
    ResourceLink,
    Server,
    TextContent,
    ToolAnnotations,
    ToolError,
)

server = Server("demo", "1.0", title="The Demo's Server", instructions="Call `add` to add.", page_size=6,
                cache_ttl={"tools/list": 60.0})  # fmt: skip


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> int:
    """Add two numbers. Both schemas come from the type hints; the result is text and structured content."""
    return a + b


@server.tool()
def divide(a: float, b: float) -> float:
    """Divide two numbers. The model sees the text of a ToolError and can try again."""
    if b == 0:
        raise ToolError("b is 0: choose another divisor")
    return a / b


@server.tool()
def gallery() -> list[TextContent | ImageContent | AudioContent | ResourceLink]:
    """Return four types of content blocks. A client of an older revision gets text instead of a newer type."""
    return [
        TextContent("some text"),
        ImageContent.of(b"GIF89a", "image/gif"),
        AudioContent.of(b"RIFF", "audio/wav"),
        ResourceLink("notes://today", "today's note"),
    ]


@server.tool()
async def count(to: int, context: Context) -> str:
    """Count, report progress, and send log messages."""
    await context.log("debug", "about to count")
    for number in range(1, to + 1):
        await context.report_progress(number, to, f"counted {number}")
        await context.log("info", {"counted": number})
    return "done"


interrupted: list[str] = []


@server.tool()
async def sleep(seconds: float, context: Context) -> str:
    """Sleep. If the client cancels the call, `await` raises CancelledError: clean up, and raise the exception again."""
    await context.report_progress(0, seconds)
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        interrupted.append("sleep")
        raise
    return "rested"


@server.tool()
def learn() -> str:
    """Add a tool, a resource and a prompt while the server runs. Clients are notified of the changed lists."""

    def shout(text: str) -> str:
        """Return the text in capitals."""
        return text.upper()

    server.tools.add(shout)
    server.resources.add("notes://new", lambda: "Learnt to shout.")
    server.prompts.add(shout, "shout")
    return "learnt to shout"


@server.tool()
def crash() -> str:
    """End the server's process at once, as a crash in a C extension would."""
    os._exit(70)


@server.tool()
async def summarize(text: str, context: Context) -> str:
    """Ask the client's language model. The server needs no model of its own."""
    reply = await context.sample(f"Summarize in one word: {text}", max_tokens=20)
    return reply.text


@dataclass
class Booking:
    """The form that `book_table` shows to the user."""

    guests: int
    time: Literal["18:00", "20:00"]
    window: bool = False


@server.tool()
async def book_table(context: Context) -> str:
    """Ask the user to fill in a form during the call."""
    result = await context.elicit("A table for tonight?", Booking)
    if result.action != "accept" or result.content is None:
        return "no table then"
    return f"a table for {result.content['guests']} at {result.content['time']}"


@server.tool()
async def connect_account(context: Context) -> str:
    """Send the user to a web page. The text typed there reaches neither the client nor the model."""
    elicitation_id = "visit-7f3a"  # a real server makes a random id with the `secrets` module
    result = await context.elicit_url("Sign in to your account", "https://example.com/sign-in", elicitation_id)
    if result.action != "accept":
        return "not connected"
    await context.elicitation_complete(elicitation_id)  # a real server first waits until the user has signed in
    return "connected"


server.tasks.poll_interval = 100  # milliseconds


@dataclass
class Doneness:
    """The form that `bake` shows to the user."""

    brown: bool = True


@server.tool(task="optional")
async def bake(context: Context) -> str:
    """Bake a cake, and ask the user. This tool can run as a task, and the client gets the result later."""
    await context.set_status("in the oven")
    result = await context.elicit("Is it brown?", Doneness)
    return "a cake" if result.content is not None and result.content["brown"] else "dough"


@server.tool()
async def where(context: Context) -> list[str]:
    """Ask for the directories that the user has opened to this server."""
    return [root.uri for root in await context.list_roots()]


notes = {"today": "Buy milk."}


@server.resource("notes://today", mime_type="text/plain")
def today() -> str:
    """Today's note, a resource with a fixed URI."""
    return notes["today"]


@server.resource("notes://{day}/words", mime_type="application/json")
def words(day: str) -> list[str]:
    """The words of a day's note, a resource template with the day in its URI."""
    return notes[day].split()


@server.resource("demo://interrupted", mime_type="application/json")
def interruptions() -> list[str]:
    """The names of the cancelled tools."""
    return interrupted


@server.tool()
def write_note(text: str) -> str:
    """Change today's note, and notify the subscribers."""
    notes["today"] = text
    server.resource_updated("notes://today")
    return "written"


@server.prompt()
def translate(text: str, language: str) -> list[PromptMessage]:
    """Messages for a model, with the user's text and language."""
    return [PromptMessage("user", TextContent(f"Translate into {language}: {text}"))]


@server.completion("translate", "language")
def languages(value: str) -> list[str]:
    """Suggest languages that begin with the typed text."""
    return [name for name in ("French", "Frisian", "German", "Greek") if name.lower().startswith(value.lower())]


if __name__ == "__main__":
    server.run()
