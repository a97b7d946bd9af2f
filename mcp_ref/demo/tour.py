"""The demo's client: meets the demo's server, another process, and uses every feature, one after the other.

    python3 -m mcp_ref demo             over the server's stdin and stdout
    python3 -m mcp_ref demo --http      over HTTP

Each chapter is a function: it says what comes, does it with the client's ordinary methods, and claims what was seen. A
claim that does not hold ends the demo with an AssertionError, so this is a test as well.

Below: `server.py`, the other side; `ways.py`, how the two meet; `screen.py`, which prints the messages as they pass.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TextIO

from .. import (
    Client,
    ConnectionClosed,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    PromptReference,
    RemoteError,
    RequestTimeout,
    TextContent,
    UnsupportedRevision,
)
from ..revisions import LEGACY
from ..runtime.connection import TIMEOUT
from ..server.utilities.logging import LoggingMessageNotificationParams
from .screen import Screen
from .ways import PACKAGE, OverHttp, OverPipes, Way

PATIENCE = 60.0
"""Seconds after which a demo that is stuck gives up."""

FIRST_RELEASE = LEGACY[1]
"""The last revision whose HTTP transport was another one."""


async def tour(out: TextIO, http: bool = False) -> None:
    """Show everything on `out`, over pipes or over HTTP. Raises AssertionError for a claim that does not hold."""
    screen, start = Screen(out), time.monotonic()
    async with asyncio.timeout(PATIENCE), contextlib.AsyncExitStack() as servers:
        way: Way = OverHttp(servers) if http else OverPipes()
        screen.say(
            f"""{way.about} "client ->" was written by the client, "server <-" by the server. The server is
            {PACKAGE.replace(".", "/")}/demo/server.py; what you read now is printed by tour.py beside it."""
        )
        await handshake(screen, way)
        await way.own(screen)
        await features(screen, way)
        await failures(screen, way)
        await earlier_revisions(screen, way)
    seconds, folder = time.monotonic() - start, PACKAGE.replace(".", "/")
    out.write("\n")
    screen.say(
        f"""Shown: {screen.chapters} chapters with {screen.frames} messages, all {len(LEGACY)} handshake revisions, and
        {screen.claims} claims that held, in {seconds:.1f} s. Read next: {folder}/demo/server.py and tour.py, which did
        this; then {folder}/__init__.py, which says in which order to read the rest."""
    )


# ---------------------------------------------------------------------------------------------------- the handshake


async def handshake(screen: Screen, way: Way) -> None:
    """How every conversation begins, and what happens when the two do not speak the same revision."""
    screen.chapter("Handshake", "basic/lifecycle")
    screen.say(
        "The client names the revision it would like. The server agrees; both say who they are and what they can do."
    )
    async with way.meet(screen) as client:
        screen.claim("both speak the latest of the five revisions", client.revision is LEGACY[-1])
        screen.claim("the client knows who answers", client.server_info.name == "demo")
        screen.claim("and what it offers", client.server_can("tools") and client.server_can("resources.subscribe"))
        await client.ping()
        screen.claim("a ping is answered: the server is alive", True)

    screen.chapter("Version negotiation", "basic/lifecycle#version-negotiation")
    screen.say(
        "Here is a server that speaks 2024-11-05 alone. It answers with that, and the client, which can, goes along."
    )
    old = ("--revision", FIRST_RELEASE.name)
    async with way.meet(screen, *old) as client:
        screen.claim(f"asked for {LEGACY[-1]}, got {client.revision}", client.revision is FIRST_RELEASE)
    screen.say("A client that insists on 2025-11-25 disconnects instead.")
    try:
        async with way.meet(screen, *old, revision=LEGACY[-1]):
            raise AssertionError("the client accepted a revision that it does not speak")
    except UnsupportedRevision as error:
        screen.claim(f"UnsupportedRevision: {error}", True)


# ---------------------------------------------------------------------------------------------------- the features


async def features(screen: Screen, way: Way) -> None:
    """One connection, on which the client uses all that the server offers, and serves all that it asks."""
    logged: list[LoggingMessageNotificationParams] = []
    changed: asyncio.Queue[str] = asyncio.Queue()
    completed: list[str] = []
    screen.chapter("A client that can do more", "basic/lifecycle#capability-negotiation")
    screen.say(
        "This one has a model, a user and directories to offer, and declares it: the server may now ask for them."
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
        on_elicitation_complete=completed.append,
    ) as client:
        await tools(screen, client)
        await while_a_tool_runs(screen, client, logged)
        await resources(screen, client)
        await prompts(screen, client)
        await changing_lists(screen, client, changed)
        await tasks(screen, client)
        await server_asks(screen, client, completed)
    screen.chapter("The end", "basic/lifecycle#shutdown")
    way.end(screen)


async def tools(screen: Screen, client: Client) -> None:
    """Functions for a model to call."""
    screen.chapter("Tools", "server/tools")
    screen.say("Which tools are there? A server may answer in pages: this one does, six tools at a time.")
    listed = await client.list_tools()
    screen.claim(f"{len(listed)} tools, in several pages", len(listed) > 6)

    screen.say("A call. The result comes as text, for the model, and as data that match the tool's output schema.")
    result = await client.call_tool("add", {"a": 1, "b": 2})
    screen.claim("text is '3', structured content is {'result': 3}", result.text == "3")
    screen.claim("the client has checked the data by the schema", result.structured_content == {"result": 3})

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
    screen.chapter("Progress and logging", "basic/utilities/progress, server/utilities/logging")
    screen.say(
        "The request carries a progress token, so the server may report. The client wants log messages from info on."
    )
    await client.set_logging_level("info")
    seen: list[float] = []
    await client.call_tool("count", {"to": 2}, on_progress=lambda progress, total, message: seen.append(progress))
    screen.claim("progress came before the answer: 1, then 2", seen == [1, 2])
    screen.claim("the debug message was not sent", [message.level for message in logged] == ["info", "info"])

    screen.chapter("Cancellation and timeouts", "basic/utilities/cancellation, basic/lifecycle#timeouts")
    screen.say("A call that takes 30 seconds is cancelled by its caller: one notification, and no answer comes.")
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
    await refused(screen, "an unknown URI", -32002, client.read_resource("notes://"))

    screen.say("The client watches the note. Someone changes it, here the client itself, through a tool.")
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


async def tasks(screen: Screen, client: Client) -> None:
    """Work that takes longer than a request should wait."""
    screen.chapter("Tasks", "basic/utilities/tasks")
    screen.say(
        "The call is answered at once, by a task. The client looks how it is from time to time, and gets the result."
    )
    bread = await client.start_tool("bake", {"what": "bread"}, ttl=60)
    status = await bread.status()
    screen.claim("it is under way", status is not None and status.status in ("working", "completed"))
    screen.claim("its result is had later", (await bread.result()).text == "bread, still warm")
    cake = await client.start_tool("bake", {"what": "cake"})
    await cake.cancel()
    kept = [task.status for task in await client.list_tasks()]
    screen.claim("the server still knows of both: completed, and cancelled", kept == ["completed", "cancelled"])


# ---------------------------------------------------------------------------------------------------- the server asks


async def model(request: CreateMessageRequestParams) -> CreateMessageResult:
    """Stand in for a language model: a real client calls one here, and lets its user see and change what is sent."""
    return CreateMessageResult("assistant", TextContent("Groceries"), model="a-model", stop_reason="endTurn")


async def user(request: ElicitRequestFormParams | ElicitRequestURLParams) -> ElicitResult:
    """Stand in for a person, who fills in two of three fields, and agrees to visit the page."""
    if isinstance(request, ElicitRequestURLParams):
        return ElicitResult("accept")  # a real client shows the whole URL first, and opens it only on a yes
    return ElicitResult("accept", {"guests": 2, "time": "20:00"})


async def server_asks(screen: Screen, client: Client, completed: list[str]) -> None:
    """Requests go both ways: here each call makes the server ask something back before it answers."""
    screen.chapter("Sampling", "client/sampling")
    screen.say(
        "The server asks the client's model. Watch the order: the call is answered after the question it led to."
    )
    result = await client.call_tool("summarize", {"text": "Buy bread, milk and eggs."})
    screen.claim("the tool used what the model said", result.text == "Groceries")

    screen.chapter("Elicitation", "client/elicitation")
    screen.say("The server asks the user: a flat schema becomes a form. What the user leaves alone keeps its default.")
    result = await client.call_tool("book_table")
    screen.claim("the tool has the answers", result.text == "a table for 2 at 20:00")
    screen.say(
        "What must not pass through the client, such as a password, is typed on a web page: a URL instead of a form."
    )
    result = await client.call_tool("connect_account")
    screen.claim(
        "the user agreed, and was done before the call was", result.text == "connected" and len(completed) == 1
    )

    screen.chapter("Roots", "client/roots")
    screen.say("The server asks which directories it may work in; they may change while the connection is open.")
    result = await client.call_tool("where")
    screen.claim("one directory", result.structured_content == {"result": ["file:///home/ada/project"]})
    await client.set_roots(["file:///home/ada/project", "file:///home/ada/notes"])
    result = await client.call_tool("where")
    screen.claim("now two", result.structured_content is not None and len(str(result.text).split(",")) == 2)


# ---------------------------------------------------------------------------------------------------- failures


async def failures(screen: Screen, way: Way) -> None:
    """Calls fail; they never hang."""
    screen.chapter("A server that dies", "basic/lifecycle#error-handling")
    screen.say("The server's process ends in the middle of a call. Whoever waits is told so.")
    async with way.meet(screen) as client:
        start = time.monotonic()
        try:
            await client.call_tool("crash")
        except ConnectionClosed as error:
            screen.claim(f"ConnectionClosed: {error}", way.death in str(error))
        screen.claim("at once, not when its time limit was over", time.monotonic() - start < TIMEOUT / 2)


async def refused(screen: Screen, what: str, code: int, request: object) -> None:
    """Await a request, and claim that it is answered by an error with this code."""
    try:
        await request  # type: ignore[misc]
    except RemoteError as error:
        screen.claim(f"{what} is refused: {error}", error.code == code)
    else:
        raise AssertionError(f"{what} was not refused")


# ---------------------------------------------------------------------------------------------------- earlier revisions


async def earlier_revisions(screen: Screen, way: Way) -> None:
    """The same server and the same client, in the revisions before the latest."""
    for revision in reversed(LEGACY[:-1]):
        screen.chapter(f"The same in {revision}", f"python3 -m {PACKAGE} revisions {revision}")
        older = revision <= FIRST_RELEASE
        async with way.meet(
            screen, "--revision", revision.name, older=older, revision=revision, elicitation=user
        ) as client:
            screen.claim(f"{revision} is spoken", client.revision is revision)
            await CHAPTERS[revision.name](screen, client)


async def in_2025_06_18(screen: Screen, client: Client) -> None:
    """What 2025-11-25 changed: forms have a mode, invalid arguments are results."""
    screen.say("Elicitation is new here: forms only, so they do not say their mode.")
    screen.claim("a form", (await client.call_tool("book_table")).text == "a table for 2 at 20:00")
    screen.say(
        "Arguments that break a tool's schema are a JSON-RPC error still; from 2025-11-25 on, the model sees them."
    )
    await refused(screen, "a text for a number", -32602, client.call_tool("add", {"a": "one", "b": 2}))


async def in_2025_03_26(screen: Screen, client: Client) -> None:
    """What 2025-06-18 changed: batches are gone, structured content has come."""
    screen.say("The only revision with batches: several requests in one line, their answers in another.")
    pong, answer = await client.batch(client.ping(), client.call_tool("add", {"a": 1, "b": 2}))
    screen.claim("both are answered", pong is None and getattr(answer, "text", None) == "3")
    screen.claim("structured content is not there yet: text alone", getattr(answer, "structured_content", 0) is None)


async def in_2024_11_05(screen: Screen, client: Client) -> None:
    """What 2025-03-26 changed: audio, tool annotations, completions that are declared."""
    screen.say(
        "The first release. There is no audio and no link yet: the server writes them as text, so nothing is lost."
    )
    types = [block.type for block in (await client.call_tool("gallery")).content]
    screen.claim(f"the blocks are {', '.join(types)}", types == ["text", "image", "text", "text"])


async def in_2024_10_07(screen: Screen, client: Client) -> None:
    """What 2024-11-05 changed: content blocks, pages, instructions."""
    screen.say("Before the release a result was bare: `toolResult`, any JSON. And lists came whole, without pages.")
    result = await client.call_tool("add", {"a": 1, "b": 2})
    screen.claim("the caller gets it as text, as in any revision", result.text == "3")


CHAPTERS = {
    "2025-06-18": in_2025_06_18,
    "2025-03-26": in_2025_03_26,
    "2024-11-05": in_2024_11_05,
    "2024-10-07": in_2024_10_07,
}
