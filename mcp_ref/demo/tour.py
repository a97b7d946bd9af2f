"""The demo's client. It connects to the demo's server, which is another process, and uses every feature.

    python3 -m mcp_ref demo             over the server's stdin and stdout
    python3 -m mcp_ref demo --http      over HTTP

Each chapter prints explanations, calls methods of a `Client`, and checks claims about the results. A claim that does
not hold ends the demo with an AssertionError, so the demo is a test too.
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
from ..session import DEFAULT_TIMEOUT
from . import legacy
from .authorization import authorization
from .connections import PACKAGE, Connections, HttpConnections, StdioConnections
from .host import ALL_FEATURES, NOTES, PROJECT, cancel_call, claim_server_info
from .screen import Screen


def main(http: bool) -> None:
    """Run the demo on standard output, over stdio or over HTTP."""
    asyncio.run(tour(sys.stdout, http))


async def tour(out: TextIO, http: bool = False) -> None:
    """Print the demo to `out`, over stdio or over HTTP. Raise AssertionError if a claim does not hold."""
    screen, start, folder = Screen(out), time.monotonic(), PACKAGE.replace(".", "/")
    logging.getLogger(PACKAGE).addHandler(logging.NullHandler())  # no log messages: one chapter crashes a server
    async with asyncio.timeout(60), contextlib.AsyncExitStack() as exit_stack:
        connections: Connections = HttpConnections(exit_stack) if http else StdioConnections()
        screen.say(
            f"""{connections.introduction} "client ->" marks a message of the client, and "server <-" marks a message of
            the server. The server's code is {folder}/demo/server.py. The client's code is tour.py beside it."""
        )
        await discovery(screen, connections)
        await connections.modern_transport_chapters(screen)
        await features(screen, connections)
        await dead_server(screen, connections)
        await authorization(screen)
        await legacy.handshake(screen, connections)
        await connections.legacy_transport_chapters(screen)
        await legacy.session(screen, connections)
        await legacy.older_revisions(screen, connections)
    out.write("\n")
    screen.say(
        f"""Shown: {screen.chapters} chapters with {screen.messages} messages, all {len(REVISIONS)} revisions, and
        {screen.claims} claims that held, in {time.monotonic() - start:.1f} s. Read next: {folder}/demo/server.py and
        tour.py, the two programs of this demo; then {folder}/__init__.py, which gives the order of the other files."""
    )


async def discovery(screen: Screen, connections: Connections) -> None:
    """Show `server/discover`, and a stateless request."""
    screen.chapter("Discovery", "server/discover, basic/versioning")
    screen.say("The client asks for the server's name, revisions and capabilities.")
    screen.say("The `_meta` of a request has the revision and the client's capabilities.")
    screen.say("The `_meta` of a result has the server's name. The demo prints {...} for a repeated `_meta`.")
    async with connections.connect(screen) as client:
        claim_server_info(screen, client, REVISIONS[-1])

        screen.chapter("A stateless request", "basic/index#statelessness")
        screen.say("Without a handshake or a session, any process of the server can serve this request.")
        result = await client.call_tool("add", {"a": 1, "b": 2})
        screen.claim("the result is 3", result.text == "3")


async def features(screen: Screen, connections: Connections) -> None:
    """Show the features with one client."""
    logged: list[LoggingMessageNotificationParams] = []
    changed: asyncio.Queue[str] = asyncio.Queue()
    screen.chapter("A client with capabilities", "basic/index#meta, basic/patterns/subscriptions")
    screen.say("This client has a model, a user and directories, and declares these capabilities in each request.")
    screen.say("One request stays open for notifications of changes, each of which repeats the request's id.")
    async with connections.connect(
        screen,
        **ALL_FEATURES,
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
        await input_requests(screen, client)
        await tasks(screen, client)
    screen.chapter("The end", "basic/transports/stdio#shutdown")
    connections.show_end(screen)


async def tools(screen: Screen, client: Client) -> None:
    """Show tools: the functions that a model can call."""
    screen.chapter("Tools", "server/tools")
    screen.say("A server can divide a list into pages; those of this server have at most six tools.")
    listed = await client.list_tools()
    screen.claim(f"{len(listed)} tools, in several pages", len(listed) > 6)
    screen.say("`ttlMs` and `cacheScope` allow the client to cache a page, so a second list needs no request.")
    before = screen.messages
    screen.claim("the same list, without a message", await client.list_tools() == listed and screen.messages == before)

    screen.say("The result of a call is text for the model, and data that match the tool's output schema.")
    result = await client.call_tool("add", {"a": 1, "b": 2})
    screen.claim("the text is '3', the structured content is the number 3", result.text == "3")
    screen.claim("the client has checked the data against the schema", result.structured_content == 3)

    screen.say("A result consists of content blocks, such as text, images, audio, and links to resources.")
    types = [block.type for block in (await client.call_tool("gallery")).content]
    screen.claim(f"the blocks are {', '.join(types)}", types == ["text", "image", "audio", "resource_link"])

    screen.say("An error inside a tool is a result with `isError`, so that the model sees it and can try again.")
    result = await client.call_tool("divide", {"a": 1, "b": 0})
    screen.claim(f"isError is true, and the text is: {result.text}", result.is_error)
    result = await client.call_tool("add", {"a": "one", "b": 2})
    screen.claim("invalid arguments are such a result too", result.is_error and "a: expected" in result.text)

    screen.say("An error in the request itself is a JSON-RPC error.")
    await screen.claim_error("an unknown tool", -32602, client.call_tool("subtract"))


async def while_a_tool_runs(screen: Screen, client: Client, logged: list[LoggingMessageNotificationParams]) -> None:
    """Show progress, log messages, cancellation and timeouts."""
    screen.chapter("Progress and logging", "basic/patterns/progress, server/utilities/logging")
    screen.say("A request asks for progress with a progress token, and for log messages with a minimum level.")
    await client.set_logging_level("info")
    seen: list[float] = []
    await client.call_tool("count", {"to": 2}, on_progress=lambda progress, total, message: seen.append(progress))
    screen.claim("the progress 1 and 2 came before the result", seen == [1, 2])
    screen.claim("the server did not send its debug message", [log.level for log in logged] == ["info", "info"])

    screen.chapter("Cancellation and timeouts", "basic/patterns/cancellation")
    screen.say("The caller cancels a call of 30 seconds, and the server sends no result.")
    screen.say("Over stdio the client sends a notification; over HTTP it closes the response instead.")
    screen.claim("the caller continues at once", await cancel_call(client))
    screen.say("Every request has a time limit, after which the client cancels it.")
    try:
        await client.call_tool("sleep", {"seconds": 30}, timeout=0.2)
    except RequestTimeout as error:
        screen.claim(f"RequestTimeout: {error}", True)
    (interrupted,) = (await client.read_resource("demo://interrupted")).contents
    have_stopped = getattr(interrupted, "text", "") == '["sleep", "sleep"]'
    screen.claim("both calls have stopped inside the server", have_stopped)


async def resources(screen: Screen, client: Client) -> None:
    """Show resources: data that the host can read and watch."""
    screen.chapter("Resources", "server/resources")
    screen.say("A resource is data with a URI, and a resource template describes many URIs.")
    uris = [resource.uri for resource in await client.list_resources()]
    templates = [template.uri_template for template in await client.list_resource_templates()]
    screen.claim(f"there is a resource {uris[0]} and a template {templates[0]}", "{day}" in templates[0])
    (note,) = (await client.read_resource("notes://today")).contents
    screen.claim("the contents of the resource are text", getattr(note, "text", None) == "Buy milk.")
    (words,) = (await client.read_resource("notes://today/words")).contents
    screen.claim("the client can read a URI of the template", getattr(words, "text", None) == '["Buy", "milk."]')
    await screen.claim_error("an unknown URI", -32602, client.read_resource("notes://"))

    screen.say("The client subscribes to the note with a request that stays open, and then a tool changes the note.")
    async with client.subscribe("notes://today") as updates:
        await client.call_tool("write_note", {"text": "Buy bread."})
        changed = await anext(updates)
    screen.claim("the update has only the URI; a client can then read the new contents", changed == "notes://today")


async def prompts(screen: Screen, client: Client) -> None:
    """Show prompts: messages that a user chooses, and suggestions for their arguments."""
    screen.chapter("Prompts and completion", "server/prompts, server/utilities/completion")
    screen.say("The user chooses a prompt, for example from a menu, and the server suggests values for its arguments.")
    (prompt,) = await client.list_prompts()
    screen.claim("the prompt has two arguments", [one.name for one in prompt.arguments or []] == ["text", "language"])
    suggested = await client.complete(PromptReference("translate"), "language", "fr")
    screen.claim("the suggestions for 'fr' are French and Frisian", suggested.values == ["French", "Frisian"])
    (message,) = (await client.get_prompt("translate", {"text": "cheese", "language": "French"})).messages
    filled = getattr(message.content, "text", None) == "Translate into French: cheese"
    screen.claim("the message contains both arguments", filled)


async def changing_lists(screen: Screen, client: Client, changed: asyncio.Queue[str]) -> None:
    """Show the notifications of a server that changes its tools, resources and prompts while it runs."""
    screen.chapter("Lists that change", "server/tools#list-changed-notification")
    screen.say("This tool adds a tool, a resource and a prompt, so the server tells the client that the lists changed.")
    await client.call_tool("learn")
    lists = {await changed.get() for _ in range(3)}
    screen.claim("one notification for each list", lists == {"tools", "resources", "prompts"})
    screen.claim("there is a new tool", "shout" in [tool.name for tool in await client.list_tools()])
    screen.claim("the client can call it", (await client.call_tool("shout", {"text": "hello"})).text == "HELLO")


async def input_requests(screen: Screen, client: Client) -> None:
    """Show a server that asks the client for input: sampling, elicitation and roots."""
    screen.chapter("Input from the client: several rounds", "basic/patterns/mrtr, client/sampling")
    screen.say("This tool needs the client's model, but a server of this revision cannot send requests.")
    screen.say("So the result is `input_required`, and the client repeats the call with the input and `requestState`.")
    screen.say("The tool runs again from its first line, because the server keeps nothing between the two calls.")
    screen.say("(A legacy server sends a request instead, and the command `bridge` converts between these two ways.)")
    before = screen.sent_counts["tools/call"]
    result = await client.call_tool("summarize", {"text": "Buy bread, milk and eggs."})
    screen.claim("the tool used the reply of the model", result.text == "Groceries")
    screen.claim("one call in the program became two requests", screen.sent_counts["tools/call"] == before + 2)
    screen.say("The server signs each state for one call, and refuses every other state, such as this forged one:")
    retry: Object = {"name": "summarize", "arguments": {"text": "?"}, "requestState": "eyJhbnN3ZXJzIjp7fX0=.forged"}
    params = with_request_meta(retry, client.revision, {}, {"name": "forger", "version": "1"})
    forged = client.session.dispatcher.request("tools/call", params, timeout=DEFAULT_TIMEOUT)
    await screen.claim_error("a forged state", -32602, forged)

    screen.chapter("Elicitation", "client/elicitation")
    screen.say("The server asks the user, for whom the host shows a form. A skipped field keeps its default.")
    result = await client.call_tool("book_table")
    screen.claim("the tool has the input of the user", result.text == "a table for 2 at 20:00")
    screen.say("A secret such as a password must not reach the client, so the user types it on a web page instead.")
    result = await client.call_tool("connect_account")
    screen.claim("the user agreed to visit the page", result.text == "connected")

    screen.chapter("Roots", "client/roots")
    screen.say("The server asks which directories the user works in, because they can change between two calls.")
    result = await client.call_tool("where")
    screen.claim("there is one directory", result.structured_content == [PROJECT])
    await client.set_roots([PROJECT, NOTES])
    result = await client.call_tool("where")
    screen.claim("now there are two directories", result.structured_content == [PROJECT, NOTES])


async def tasks(screen: Screen, client: Client) -> None:
    """Show a call that continues as a task."""
    screen.chapter("Tasks", "the extension io.modelcontextprotocol/tasks")
    screen.say("The result of a slow tool can be a task, whose status the client gets from time to time.")
    screen.say("Here it is `input_required`, because the task waits for the user.")
    task = await client.start_tool("bake")
    status = await task.status()
    screen.claim("the task has begun, and the caller does not wait", task.id is not None and status is not None)
    screen.claim("the task has its result", (await task.result()).text == "a cake")


async def dead_server(screen: Screen, connections: Connections) -> None:
    """Show that a call fails at once when the server dies, and that the next call can succeed."""
    screen.chapter("A server that dies", "basic/transports/stdio#unexpected-termination")
    screen.say(f"Another process of the server, which speaks only {REVISIONS[-1]}, ends in the middle of a call.")
    # with an option, `connect` starts a separate server, so that the crash does not affect other chapters
    async with connections.connect(screen, "--revision", REVISIONS[-1].name) as client:
        start = time.monotonic()
        try:
            await client.call_tool("crash")
        except ConnectionClosed as error:
            screen.claim(f"ConnectionClosed: {error}", connections.crash_error in str(error))
        screen.claim("the error came at once, not after the time limit", time.monotonic() - start < DEFAULT_TIMEOUT / 2)
        if connections.restarts_server:
            screen.say("A stateless request needs no earlier request, so a new process can serve the next call.")
            result = await client.call_tool("add", {"a": 1, "b": 2})
            screen.claim("the client has started the server again", result.text == "3")
