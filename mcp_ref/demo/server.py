"""The demo's server: one tool, resource or prompt for each feature, as short as each can be.

It is a server like any other. To see it from any MCP host, or from the command line:

    python3 -m mcp_ref list -- python3 -m mcp_ref run mcp_ref.demo.server

Below: what `from mcp_ref import ...` gives. Elsewhere: the client that calls all this is `tour.py`.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import Literal

from .. import (
    AudioContent,
    Context,
    ElicitResult,
    ImageContent,
    PromptMessage,
    ResourceLink,
    Server,
    TextContent,
    ToolAnnotations,
    ToolError,
)

server = Server(
    "demo",
    "1.0",
    title="The Demo's Server",
    instructions="Call `add` to add.",
    page_size=6,
    cache_ttl={"tools/list": 60.0},
)

# ---------------------------------------------------------------------------------------------------- tools


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> int:
    """Add two numbers. The annotations make the schemas; the int comes back as text and as structured content."""
    return a + b


@server.tool()
def divide(a: float, b: float) -> float:
    """Divide; a ToolError's text is for the model, which may try again."""
    if b == 0:
        raise ToolError("b is 0: choose another divisor")
    return a / b


@server.tool()
def gallery() -> list[TextContent | ImageContent | AudioContent | ResourceLink]:
    """Give one content block of several types. Clients of older revisions get text in place of what they lack."""
    return [
        TextContent("some text"),
        ImageContent.of(b"GIF89a", "image/gif"),
        AudioContent.of(b"RIFF", "audio/wav"),
        ResourceLink("notes://today", "today's note"),
    ]


@server.tool()
async def count(to: int, context: Context) -> str:
    """Count, slowly, and say how far it is."""
    await context.log("debug", "about to count")
    for number in range(1, to + 1):
        await context.report_progress(number, to, f"counted {number}")
        await context.log("info", {"counted": number})
    return "done"


interrupted: list[str] = []


@server.tool()
async def sleep(seconds: float, context: Context) -> str:
    """Take some time. When the client cancels, the `await` raises CancelledError: tidy up, and let it go on."""
    await context.report_progress(0, seconds)
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        interrupted.append("sleep")
        raise
    return "rested"


@server.tool()
def learn() -> str:
    """Add a tool, a resource and a prompt while the server runs: every client is told which lists have changed."""

    def shout(text: str) -> str:
        """Say it in capitals."""
        return text.upper()

    server.tools.add(shout)
    server.resources.add("notes://new", lambda: "Learnt to shout.")
    server.prompts.add(shout, "shout")
    return "learnt to shout"


@server.tool()
def crash() -> str:
    """End the server's process on the spot, as a bug in a C extension would."""
    os._exit(70)


# ---------------------------------------------------------------------------------------------------- asking the client


@server.tool()
async def summarize(text: str, context: Context) -> str:
    """Ask the client's language model: the server needs none of its own."""
    answer = await context.sample(f"Summarize in one word: {text}", max_tokens=20)
    return answer.text


@dataclass
class Booking:
    """The form that `book_table` shows to the user."""

    guests: int
    time: Literal["18:00", "20:00"]
    window: bool = False


@server.tool()
async def book_table(context: Context) -> str:
    """Ask the user to fill in a form, in the middle of the call."""
    answer: ElicitResult = await context.elicit("A table for tonight?", Booking)
    if answer.action != "accept" or answer.content is None:
        return "no table then"
    return f"a table for {answer.content['guests']} at {answer.content['time']}"


@server.tool()
async def connect_account(context: Context) -> str:
    """Send the user to a web page: what they type there passes through neither client nor model."""
    visit = "visit-7f3a"  # a real server makes one that nobody can guess, with the `secrets` module
    answer = await context.elicit_url("Sign in to your account", "https://example.com/sign-in", visit)
    if answer.action != "accept":
        return "not connected"
    await context.elicitation_complete(visit)
    return "connected"


server.tasks.poll_interval = 100  # milliseconds: the tour is in a hurry


@dataclass
class Doneness:
    """The form that `bake` shows to the user."""

    brown: bool = True


@server.tool(task="optional")
async def bake(context: Context) -> str:
    """Take long, and ask in the middle: a client may have a task of it, do something else, and come back."""
    await context.set_status("in the oven")
    answer = await context.elicit("Is it brown?", Doneness)
    return "a cake" if answer.content is not None and answer.content["brown"] else "dough"


@server.tool()
async def where(context: Context) -> list[str]:
    """Ask which directories the user has opened to this server."""
    return [root.uri for root in await context.list_roots()]


# ---------------------------------------------------------------------------------------------------- resources

notes = {"today": "Buy milk."}


@server.resource("notes://today", mime_type="text/plain")
def today() -> str:
    """Today's note, at a fixed URI."""
    return notes["today"]


@server.resource("notes://{day}/words", mime_type="application/json")
def words(day: str) -> list[str]:
    """The words of any day's note: a template, with the day in its URI."""
    return notes[day].split()


@server.resource("demo://interrupted", mime_type="application/json")
def interruptions() -> list[str]:
    """The calls that were cancelled, for the tour to look at."""
    return interrupted


@server.tool()
def write_note(text: str) -> str:
    """Change today's note, and tell whoever watches it."""
    notes["today"] = text
    server.resource_updated("notes://today")
    return "written"


# ---------------------------------------------------------------------------------------------------- prompts


@server.prompt()
def translate(text: str, language: str) -> list[PromptMessage]:
    """Messages for a model, filled in with what the user typed."""
    return [PromptMessage("user", TextContent(f"Translate into {language}: {text}"))]


@server.completion("translate", "language")
def languages(value: str) -> list[str]:
    """Suggest languages for what is typed so far."""
    return [name for name in ("French", "Frisian", "German", "Greek") if name.lower().startswith(value.lower())]


if __name__ == "__main__":
    server.run()
