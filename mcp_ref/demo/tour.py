"""The demo's client: meets the demo's server, another process, and uses every feature, one after the other.

    python3 -m mcp_ref demo             over the server's stdin and stdout
    python3 -m mcp_ref demo --http      over HTTP

Each chapter is a function: it says what comes, does it with the client's ordinary methods, and claims what was seen. A
claim that does not hold ends the demo with an AssertionError, so this is a test as well.

Below: `server.py`, the other side; `earlier.py`, the same in the revisions before; `people.py`, who stands behind the
client; `ways.py`, how the two meet; `screen.py`, which prints the messages as they pass.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import time
from typing import TextIO

from .. import Client, ConnectionClosed, PromptReference, RequestTimeout
from ..basic.versioning import with_request_meta
from ..features.logging import LoggingMessageNotificationParams
from ..jsonrpc.messages import Object
from ..revisions import REVISIONS
from ..session import TIMEOUT
from . import earlier
from .people import model, refused, user
from .screen import Screen
from .ways import PACKAGE, OverHttp, OverPipes, Way

PATIENCE = 60.0
"""Seconds after which a demo that is stuck gives up."""


def main(http: bool) -> None:
    """Run the demo on standard output, over pipes or over HTTP."""
    asyncio.run(tour(sys.stdout, http))


async def tour(out: TextIO, http: bool = False) -> None:
    """Show everything on `out`, over pipes or over HTTP. Raises AssertionError for a claim that does not hold."""
    screen, start = Screen(out), time.monotonic()
    logging.getLogger(PACKAGE).addHandler(logging.NullHandler())  # a server that dies is a chapter, not a warning
    async with asyncio.timeout(PATIENCE), contextlib.AsyncExitStack() as servers:
        way: Way = OverHttp(servers) if http else OverPipes()
        screen.say(
            f"""{way.about} "client ->" was written by the client, "server <-" by the server. The server is
            {PACKAGE.replace(".", "/")}/demo/server.py; what you read now is printed by tour.py beside it."""
        )
        await discovery(screen, way)
        await way.own_heads(screen)
        await features(screen, way)
        await failures(screen, way)
        await earlier.handshake(screen, way)
        await way.own_sessions(screen)
        await earlier.both_ways(screen, way)
        await earlier.earlier_revisions(screen, way)
    seconds, folder = time.monotonic() - start, PACKAGE.replace(".", "/")
    out.write("\n")
    screen.say(
        f"""Shown: {screen.chapters} chapters with {screen.frames} messages, all {len(REVISIONS)} revisions, and
        {screen.claims} claims that held, in {seconds:.1f} s. Read next: {folder}/demo/server.py and tour.py, which did
        this; then {folder}/__init__.py, which says in which order to read the rest."""
    )


# ---------------------------------------------------------------------------------------------------- who is there


async def discovery(screen: Screen, way: Way) -> None:
    """How a client finds out who is there; there is no handshake."""
    screen.chapter("Discovery", "server/discover, basic/versioning")
    screen.say(
        """The client asks who is there. Each request says, in `_meta`, which revision it is in and what its client can
        do; each result says who has made it. (What is the same in each is shown once, and then as {...}.)"""
    )
    async with way.meet(screen) as client:
        screen.claim(f"both speak {REVISIONS[-1]}, the latest of six revisions", client.revision is REVISIONS[-1])
        screen.claim("the client knows who answers", client.server_info.name == "demo")
        screen.claim("and what it offers", client.server_can("tools") and client.server_can("resources.subscribe"))

        screen.chapter("A call that stands alone", "basic/index#statelessness")
        screen.say(
            """Nothing was agreed on, and nothing is remembered: any process of the server could get this request as
            its first, and serve it."""
        )
        result = await client.call_tool("add", {"a": 1, "b": 2})
        screen.claim("the result is there at once", result.text == "3")


# ---------------------------------------------------------------------------------------------------- the features


async def features(screen: Screen, way: Way) -> None:
    """One client, which uses all that the server offers, and answers all that it asks."""
    logged: list[LoggingMessageNotificationParams] = []
    changed: asyncio.Queue[str] = asyncio.Queue()
    screen.chapter("A client that can do more", "basic/index#meta, basic/patterns/subscriptions")
    screen.say(
        """This one has a model, a user and directories to offer, and says so with each request. And it wants to hear of
        changes: for that there is one request that stays open. What belongs to it says its id."""
    )
    async with way.meet(
        screen,
        sampling=model,
        elicitation=user,
        elicitation_url=True,
        roots=["file:///home/ada/project"],
        on_log=logged.append,
        on_tools_changed=lambda: changed.put_nowait("tools"),
        on_resources_changed=lambda: changed.put_nowait("resources"),
        on_prompts_changed=lambda: changed.put_nowait("prompts"),
    ) as client:
        await tools(screen, client)
        await while_a_tool_runs(screen, client, logged)
        await resources(screen, client)
        await prompts(screen, client)
        await changing_lists(screen, client, changed)
        await server_asks(screen, client)
        await tasks(screen, client)
    screen.chapter("The end", "basic/transports/stdio#shutdown")
    way.end(screen)


async def tools(screen: Screen, client: Client) -> None:
    """Functions for a model to call."""
    screen.chapter("Tools", "server/tools")
    screen.say("Which tools are there? A server may answer in pages: this one does, six tools at a time.")
    listed = await client.list_tools()
    screen.claim(f"{len(listed)} tools, in several pages", len(listed) > 6)
    screen.say("Each page says how long it may be kept, and by whom: `ttlMs`, `cacheScope`. So the client asks again:")
    before = screen.frames
    screen.claim("the same list, and not one message", await client.list_tools() == listed and screen.frames == before)

    screen.say("A call. The result comes as text, for the model, and as data that match the tool's output schema.")
    result = await client.call_tool("add", {"a": 1, "b": 2})
    screen.claim("text is '3', structured content is the number 3", result.text == "3")
    screen.claim("the client has checked the data by the schema", result.structured_content == 3)

    screen.say("A result is made of content blocks: text, images, audio, links to resources.")
    result = await client.call_tool("gallery")
    types = [block.type for block in result.content]
    screen.claim(f"the blocks are {', '.join(types)}", types == ["text", "image", "audio", "resource_link"])

    screen.say(
        "What goes wrong inside a tool is a result too, with isError, so that the model sees it and can do better."
    )
    result = await client.call_tool("divide", {"a": 1, "b": 0})
    screen.claim(f"isError, and the text says: {result.text}", result.is_error)
    result = await client.call_tool("add", {"a": "one", "b": 2})
    screen.claim("so are arguments that break the tool's schema", result.is_error and "a: expected" in result.text)

    screen.say("What is wrong with the request itself is a JSON-RPC error.")
    await refused(screen, "an unknown tool", -32602, client.call_tool("subtract"))


async def while_a_tool_runs(screen: Screen, client: Client, logged: list[LoggingMessageNotificationParams]) -> None:
    """Progress and log messages come before the answer; a request can be cancelled, and does not wait for ever."""
    screen.chapter("Progress and logging", "basic/patterns/progress, server/utilities/logging")
    screen.say(
        """The request carries a progress token, so the server may report; and the level from which on log messages are
        wanted."""
    )
    await client.set_logging_level("info")
    seen: list[float] = []
    await client.call_tool("count", {"to": 2}, on_progress=lambda progress, total, message: seen.append(progress))
    screen.claim("progress came before the answer: 1, then 2", seen == [1, 2])
    screen.claim("the debug message was not sent", [message.level for message in logged] == ["info", "info"])

    screen.chapter("Cancellation and timeouts", "basic/patterns/cancellation")
    screen.say(
        """A call that takes 30 seconds is cancelled by its caller, and no answer comes. Over pipes that is a
        notification; over HTTP the client closes the response, and need not say more."""
    )
    begun = asyncio.Event()
    call = asyncio.create_task(client.call_tool("sleep", {"seconds": 30}, on_progress=lambda *_: begun.set()))
    await begun.wait()
    call.cancel()
    await asyncio.wait([call])
    screen.claim("the caller is free at once", call.cancelled())
    screen.say("One that nobody cancels has a time limit. When it is over, the server is told just the same.")
    try:
        await client.call_tool("sleep", {"seconds": 30}, timeout=0.2)
    except RequestTimeout as error:
        screen.claim(f"RequestTimeout: {error}", True)
    stopped = await client.read_resource("demo://interrupted")
    screen.claim(
        "both calls have stopped inside the server", getattr(stopped.contents[0], "text", "") == '["sleep", "sleep"]'
    )


async def resources(screen: Screen, client: Client) -> None:
    """Data to read and to watch."""
    screen.chapter("Resources", "server/resources")
    screen.say("Data under URIs; and templates, for families of URIs.")
    uris = [resource.uri for resource in await client.list_resources()]
    templates = [template.uri_template for template in await client.list_resource_templates()]
    screen.claim(f"a resource {uris[0]} and a template {templates[0]}", "{day}" in templates[0])
    (note,) = (await client.read_resource("notes://today")).contents
    screen.claim("its contents are text", getattr(note, "text", None) == "Buy milk.")
    (words,) = (await client.read_resource("notes://today/words")).contents
    screen.claim("a URI that matches the template works too", getattr(words, "text", None) == '["Buy", "milk."]')
    await refused(screen, "an unknown URI", -32602, client.read_resource("notes://"))

    screen.say(
        "The client watches the note, by another request that stays open. Someone changes it, here the client itself."
    )
    async with client.subscribe("notes://today") as updates:
        await client.call_tool("write_note", {"text": "Buy bread."})
        changed = await anext(updates)
    screen.claim("the update names what has changed; to see how, read it again", changed == "notes://today")


async def prompts(screen: Screen, client: Client) -> None:
    """Messages for a person to choose; and suggestions while they type."""
    screen.chapter("Prompts and completion", "server/prompts, server/utilities/completion")
    screen.say(
        "A prompt is for the user to choose, in a menu, say. It asks for arguments, and the server helps to type them."
    )
    (prompt,) = await client.list_prompts()
    screen.claim(
        "the prompt asks for a text and a language", [a.name for a in prompt.arguments or []] == ["text", "language"]
    )
    suggested = await client.complete(PromptReference("translate"), "language", "fr")
    screen.claim("'fr' may become French or Frisian", suggested.values == ["French", "Frisian"])
    filled = await client.get_prompt("translate", {"text": "cheese", "language": "French"})
    content = filled.messages[0].content
    screen.claim("the prompt is filled in", getattr(content, "text", None) == "Translate into French: cheese")


async def changing_lists(screen: Screen, client: Client, changed: asyncio.Queue[str]) -> None:
    """A server is not frozen: what it offers may change while it runs."""
    screen.chapter("Lists that change", "server/tools#list-changed-notification")
    screen.say("This tool adds a tool, a resource and a prompt. The server says that its lists have changed.")
    await client.call_tool("learn")
    told = {await changed.get() for _ in range(3)}
    screen.claim("one notification for each list", told == {"tools", "resources", "prompts"})
    screen.claim("there is a new tool", "shout" in [tool.name for tool in await client.list_tools()])
    screen.claim("and it can be called", (await client.call_tool("shout", {"text": "hello"})).text == "HELLO")


# ---------------------------------------------------------------------------------------------------- the server asks


async def server_asks(screen: Screen, client: Client) -> None:
    """A server has no way to send requests: what it wants to know, it says in a result."""
    screen.chapter("The server asks: several rounds", "basic/patterns/mrtr, client/sampling")
    screen.say(
        """This tool needs the client's model. The call ends, with `input_required` and the question. The client sends
        the call again, with the answer; the tool runs anew, from its first line, and this time the answer is there. In
        between the server remembers nothing: what it has to know is in `requestState`, sealed with its own key."""
    )
    before = screen.sent["tools/call"]
    result = await client.call_tool("summarize", {"text": "Buy bread, milk and eggs."})
    screen.claim("the tool used what the model said", result.text == "Groceries")
    screen.claim("that was one call of the program, and two requests", screen.sent["tools/call"] == before + 2)
    screen.say("A state that this server has not sealed, or for another call, is refused. By hand:")
    again: Object = {"name": "summarize", "arguments": {"text": "?"}, "requestState": "eyJhbnN3ZXJzIjp7fX0=.forged"}
    params = with_request_meta(again, client.revision, {}, {"name": "by hand", "version": "1"}, None)
    forged = client.session.dispatcher.request("tools/call", params, timeout=TIMEOUT)
    await refused(screen, "a forged state", -32602, forged)

    screen.chapter("Elicitation", "client/elicitation")
    screen.say("The server asks the user: a flat schema becomes a form. What the user leaves alone keeps its default.")
    result = await client.call_tool("book_table")
    screen.claim("the tool has the answers", result.text == "a table for 2 at 20:00")
    screen.say(
        "What must not pass through the client, such as a password, is typed on a web page: a URL instead of a form."
    )
    result = await client.call_tool("connect_account")
    screen.claim("the user agreed to go there", result.text == "connected")

    screen.chapter("Roots", "client/roots")
    screen.say("The server asks which directories it may work in; the next time, there may be others.")
    result = await client.call_tool("where")
    screen.claim("one directory", result.structured_content == ["file:///home/ada/project"])
    await client.set_roots(["file:///home/ada/project", "file:///home/ada/notes"])
    result = await client.call_tool("where")
    screen.claim("now two", isinstance(result.structured_content, list) and len(result.structured_content) == 2)


async def tasks(screen: Screen, client: Client) -> None:
    """Calls that take longer than anybody wants to wait."""
    screen.chapter("Tasks", "the extension io.modelcontextprotocol/tasks")
    screen.say(
        """A tool that takes long may answer with a task. The client does something else, and asks from time to time how
        it is; and so it learns that the task waits for an answer."""
    )
    task = await client.start_tool("bake")
    status = await task.status()
    screen.claim("it has begun, and nobody waits", task.id is not None and status is not None)
    screen.claim("the result has come", (await task.result()).text == "a cake")


# ---------------------------------------------------------------------------------------------------- failures


async def failures(screen: Screen, way: Way) -> None:
    """Calls fail; they never hang."""
    screen.chapter("A server that dies", "basic/transports/stdio#unexpected-termination")
    screen.say("The server's process ends in the middle of a call. Whoever waits is told so.")
    async with way.meet(screen, "--revision", REVISIONS[-1].name) as client:  # one that nobody needs afterwards
        start = time.monotonic()
        try:
            await client.call_tool("crash")
        except ConnectionClosed as error:
            screen.claim(f"ConnectionClosed: {error}", way.death in str(error))
        screen.claim("at once, not when its time limit was over", time.monotonic() - start < TIMEOUT / 2)
        if way.rebirth:
            screen.say("A request that stands alone needs nothing of what went with it: a new process serves the next.")
            result = await client.call_tool("add", {"a": 1, "b": 2})
            screen.claim("the client has started the server anew", result.text == "3")
