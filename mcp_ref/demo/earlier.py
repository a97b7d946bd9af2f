"""The demo's second half: the same server and the same client in the revisions that open with a handshake.

What is the same in both eras was shown before, in `tour.py`. Here is what was different: a conversation that both sides
remember, requests that the server sends, resources that are watched one by one.

Above: `tour.py`. Below: `ways.py`, `people.py`, `screen.py`.
"""

from __future__ import annotations

import asyncio

from .. import Client, UnsupportedRevision
from ..features.logging import LoggingMessageNotificationParams
from ..revisions import LEGACY
from .people import model, refused, user
from .screen import Screen
from .ways import PACKAGE, Way

FIRST_RELEASE = LEGACY[1]
"""The last revision whose HTTP transport was another one."""


async def handshake(screen: Screen, way: Way) -> None:
    """How every conversation begins, and what happens when the two do not speak the same revision."""
    screen.chapter("The earlier era: a handshake", "basic/lifecycle")
    screen.say(
        f"""Until {LEGACY[-1]} a conversation began with a handshake, and both sides remembered what was said in it. The
        same server does that as well, for clients that know no other way. The client names the revision it would like.
        The server agrees; both say who they are and what they can do."""
    )
    async with way.meet(screen, revision=LEGACY[-1]) as client:
        screen.claim(f"both speak {LEGACY[-1]}", client.revision is LEGACY[-1])
        screen.claim("the client knows who answers", client.server_info.name == "demo")
        screen.claim("and what it offers", client.server_can("tools") and client.server_can("resources.subscribe"))
        await client.ping()
        screen.claim("a ping is answered: the server is alive", True)

    screen.chapter("Version negotiation", "basic/lifecycle#version-negotiation")
    screen.say(
        f"""Here is a server that speaks {FIRST_RELEASE} alone. It does not know the question of the later era; so the
        client offers a handshake instead. The server answers with its revision, and the client, which can, goes
        along."""
    )
    old = ("--revision", FIRST_RELEASE.name)
    async with way.meet(screen, *old) as client:
        screen.claim(f"offered {LEGACY[-1]}, got {client.revision}", client.revision is FIRST_RELEASE)
    screen.say(f"A client that insists on {LEGACY[-1]} disconnects instead.")
    try:
        async with way.meet(screen, *old, revision=LEGACY[-1]):
            raise AssertionError("the client accepted a revision that it does not speak")
    except UnsupportedRevision as error:
        screen.claim(f"UnsupportedRevision: {error}", True)


# ---------------------------------------------------------------------------------------------------- both ways


async def both_ways(screen: Screen, way: Way) -> None:
    """What a conversation makes possible: the server remembers what it was told, and sends requests of its own."""
    logged: list[LoggingMessageNotificationParams] = []
    completed: list[str] = []
    screen.chapter("What is said once", "basic/lifecycle#capability-negotiation")
    screen.say(
        """This client has a model, a user and directories to offer. It says so in the handshake, once for all that
        follows."""
    )
    async with way.meet(
        screen,
        revision=LEGACY[-1],
        sampling=model,
        elicitation=user,
        elicitation_url=True,
        roots=["file:///home/ada/project"],
        on_log=logged.append,
        on_elicitation_complete=completed.append,
    ) as client:
        screen.say("So it is with the level of log messages, and with what is watched: until it is taken back.")
        await client.set_logging_level("info")
        await client.call_tool("count", {"to": 1})
        screen.claim("the debug message was not sent", [message.level for message in logged] == ["info"])
        async with client.subscribe("notes://today") as updates:
            await client.call_tool("write_note", {"text": "Buy bread."})
            screen.claim("the update names what has changed", await anext(updates) == "notes://today")
        await stop_waiting(screen, client)
        await server_asks(screen, client, completed)
        await tasks(screen, client)
    screen.chapter("The end of a conversation", "basic/lifecycle#shutdown")
    screen.say("Over pipes the client closes the server's stdin. Over HTTP it sends a DELETE: the session is no more.")
    screen.claim("nothing is left of it", True)


async def stop_waiting(screen: Screen, client: Client) -> None:
    """A cancellation is a message, whatever carries it."""
    screen.say("A call that takes 30 seconds is cancelled: by a notification, over pipes and HTTP alike.")
    begun = asyncio.Event()
    call = asyncio.create_task(client.call_tool("sleep", {"seconds": 30}, on_progress=lambda *_: begun.set()))
    await begun.wait()
    call.cancel()
    await asyncio.wait([call])
    stopped = await client.read_resource("demo://interrupted")
    screen.claim("it has stopped inside the server", "sleep" in getattr(stopped.contents[0], "text", ""))


async def server_asks(screen: Screen, client: Client, completed: list[str]) -> None:
    """Requests go both ways: each call makes the server ask something back before it answers."""
    screen.chapter("The server asks, by requests", "client/sampling, client/elicitation, client/roots")
    screen.say(
        "The tools are the same as before. But now the server sends its questions, and the call waits for the answers."
    )
    result = await client.call_tool("summarize", {"text": "Buy bread, milk and eggs."})
    screen.claim("the tool used what the model said", result.text == "Groceries")
    result = await client.call_tool("book_table")
    screen.claim("and what the user answered", result.text == "a table for 2 at 20:00")
    result = await client.call_tool("connect_account")
    screen.claim(
        "the server also says when a visit to a URL is done", result.text == "connected" and len(completed) == 1
    )
    await client.set_roots(["file:///home/ada/project", "file:///home/ada/notes"])
    result = await client.call_tool("where")
    screen.claim("the roots may change: it is told, and asks again", len(str(result.text).split(",")) == 2)


async def tasks(screen: Screen, client: Client) -> None:
    """Tasks began as an experiment: there the client says when it wants one."""
    screen.chapter("Tasks, the experiment", "basic/utilities/tasks")
    screen.say("Here the client says that it wants a task, and `tasks/result` waits; what the server asks, it sends.")
    task = await client.start_tool("bake")
    screen.claim("one task is known", [known.task_id for known in await client.list_tasks()] == [task.id])
    screen.claim("the result has come", (await task.result()).text == "a cake")
    other = await client.start_tool("bake")
    await other.cancel()
    status = await other.status()
    screen.claim("another is cancelled, and known to be", status is not None and status.status == "cancelled")


# ---------------------------------------------------------------------------------------------------- the others


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
