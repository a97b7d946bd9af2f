"""The second half of the demo: the same server and client in the legacy era (the revisions with a handshake).

`tour.py` shows the features in the modern era, so these chapters show only the differences: a session that both sides
remember, requests that the server sends, and a subscription for each resource.
"""

from __future__ import annotations

from .. import Client, UnsupportedRevision
from ..features.logging import LoggingMessageNotificationParams
from ..revisions import LEGACY, R2024_11_05
from .connections import PACKAGE, Connections
from .host import ALL_FEATURES, NOTES, PROJECT, cancel_call, claim_server_info, user
from .screen import Screen

LAST_WITH_HTTP_SSE = R2024_11_05
"""The last revision with HTTP+SSE instead of Streamable HTTP."""


async def handshake(screen: Screen, connections: Connections) -> None:
    """Show the handshake that begins every session, and a negotiation that fails."""
    screen.chapter("The legacy era: a handshake", "basic/lifecycle")
    screen.say(f"Up to {LEGACY[-1]} a session begins with a handshake. The same server still supports older clients.")
    screen.say("The client offers a revision, and the server agrees. Both send their names and capabilities.")
    screen.say("They remember the result of this handshake until the session ends.")
    async with connections.connect(screen, revision=LEGACY[-1]) as client:
        claim_server_info(screen, client, LEGACY[-1])
        await client.ping()
        screen.claim("the server responds to a ping", True)

    screen.chapter("Version negotiation", "basic/lifecycle#version-negotiation")
    screen.say(f"A server of {LAST_WITH_HTTP_SSE} refuses `server/discover`, so the client tries a handshake.")
    screen.say("The server responds with its own revision, and the client accepts it.")
    options = ("--revision", LAST_WITH_HTTP_SSE.name)
    async with connections.connect(screen, *options) as client:
        screen.claim(f"offered {LEGACY[-1]}, agreed on {client.revision}", client.revision is LAST_WITH_HTTP_SSE)
    screen.say(f"A client that speaks only {LEGACY[-1]} refuses this revision, and disconnects.")
    try:
        async with connections.connect(screen, *options, revision=LEGACY[-1]):
            raise AssertionError("the client accepted a revision that it does not speak")
    except UnsupportedRevision as error:
        screen.claim(f"UnsupportedRevision: {error}", True)


async def session(screen: Screen, connections: Connections) -> None:
    """Show a session in which the server remembers settings and sends requests of its own."""
    logged: list[LoggingMessageNotificationParams] = []
    completed: list[str] = []
    screen.chapter("Capabilities and settings of a session", "basic/lifecycle#capability-negotiation")
    screen.say("This client has a model, a user and directories. The handshake declares these capabilities.")
    async with connections.connect(
        screen, revision=LEGACY[-1], **ALL_FEATURES, on_log=logged.append, on_elicitation_complete=completed.append
    ) as client:
        screen.say("The log level and each resource subscription stay in force until the client changes them.")
        await client.set_logging_level("info")
        await client.call_tool("count", {"to": 1})
        screen.claim("the server did not send its debug message", [message.level for message in logged] == ["info"])
        async with client.subscribe("notes://today") as updates:
            await client.call_tool("write_note", {"text": "Buy bread."})
            screen.claim("the update has the URI of the resource", await anext(updates) == "notes://today")
        screen.say("The client cancels a call of 30 seconds with a notification, over stdio and over HTTP.")
        await cancel_call(client)
        (interrupted,) = (await client.read_resource("demo://interrupted")).contents  # the cancelled tools
        screen.claim("the call has stopped inside the server", "sleep" in getattr(interrupted, "text", ""))
        await server_requests(screen, client, completed)
        await tasks(screen, client)
    screen.chapter("The end of a session", "basic/lifecycle#shutdown")
    screen.say("Over stdio the client closes the server's stdin. Over HTTP the client sends a DELETE.")
    screen.claim("the session has ended", client.session.ended.done())


async def server_requests(screen: Screen, client: Client, completed: list[str]) -> None:
    """Show the requests that a server sends: sampling, elicitation and roots."""
    screen.chapter("Requests of the server", "client/sampling, client/elicitation, client/roots")
    screen.say("The tools are the same, but here the server sends requests, and the tool waits for the responses.")
    result = await client.call_tool("summarize", {"text": "Buy bread, milk and eggs."})
    screen.claim("the tool used the reply of the model", result.text == "Groceries")
    result = await client.call_tool("book_table")
    screen.claim("the tool has the input of the user", result.text == "a table for 2 at 20:00")
    result = await client.call_tool("connect_account")
    done = result.text == "connected" and len(completed) == 1
    screen.claim("the server notifies the client when the user has finished on the web page", done)
    await client.set_roots([PROJECT, NOTES])
    result = await client.call_tool("where")
    screen.claim("after the roots have changed, the server gets the new roots", len(str(result.text).split(",")) == 2)


async def tasks(screen: Screen, client: Client) -> None:
    """Show the experimental tasks of 2025-11-25: the client asks for a task, and can list and cancel its tasks."""
    screen.chapter("Experimental tasks", "basic/utilities/tasks")
    screen.say("The client asks for a task. While the client waits in `tasks/result`, the server asks the user.")
    task = await client.start_tool("bake")
    screen.claim("the server lists one task", [known.task_id for known in await client.list_tasks()] == [task.id])
    screen.claim("the task has its result", (await task.result()).text == "a cake")
    other = await client.start_tool("bake")
    await other.cancel()
    status = await other.status()
    screen.claim("another task is cancelled", status is not None and status.status == "cancelled")


async def older_revisions(screen: Screen, connections: Connections) -> None:
    """Show differences of each older revision. The code of the server and of the client stays the same."""
    for revision in reversed(LEGACY[:-1]):
        screen.chapter(f"Revision {revision}", f"python3 -m {PACKAGE} revisions {revision}")
        options, sse = ("--revision", revision.name), revision <= LAST_WITH_HTTP_SSE
        async with connections.connect(screen, *options, sse=sse, revision=revision, elicitation=user) as client:
            screen.claim(f"both speak {revision}", client.revision is revision)
            await differences(screen, client)


async def differences(screen: Screen, client: Client) -> None:
    """Show differences between the client's revision and the revisions before and after it."""
    match client.revision.name:
        case "2025-06-18":
            screen.say("This revision added elicitation. Every elicitation is a form, so the request has no `mode`.")
            result = await client.call_tool("book_table")
            screen.claim("the tool has the input of the user", result.text == "a table for 2 at 20:00")
            screen.say("Invalid arguments are a JSON-RPC error. From 2025-11-25 on they are a result for the model.")
            await screen.claim_error("a string for a number", -32602, client.call_tool("add", {"a": "one", "b": 2}))
        case "2025-03-26":
            screen.say("Only this revision has batches: one message has two requests, and another both responses.")
            pong, added = await client.batch(client.ping(), client.call_tool("add", {"a": 1, "b": 2}))
            screen.claim("both requests have their results", pong is None and getattr(added, "text", None) == "3")
            screen.claim("the result has no structured content", getattr(added, "structured_content", 0) is None)
        case "2024-11-05":
            screen.say("The first release has no audio and no links. The server sends text instead.")
            types = [block.type for block in (await client.call_tool("gallery")).content]
            screen.claim(f"the blocks are {', '.join(types)}", types == ["text", "image", "text", "text"])
        case _:
            screen.say("Before the first release the result of a tool is `toolResult`, and there is no pagination.")
            result = await client.call_tool("add", {"a": 1, "b": 2})
            screen.claim("the caller gets text, as in every revision", result.text == "3")
