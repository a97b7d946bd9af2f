"""Schedules: conversations over all transports, on event loops that run asyncio tasks in a random order.

    python3 -m tests.chaos.schedules                             a minute, with a new seed
    python3 -m tests.chaos.schedules --seed 7 --seconds 30       the same rounds for the same seed
    python3 -m tests.chaos.schedules --seed 7 --round 12         only round 12 of seed 7
    python3 -m tests.chaos.schedules --uvloop                    on uvloop's event loop

Each round has a new event loop, a server on all transports, and some clients of both eras, which all run in this loop.
Every request must end with a correct result (`PATIENCE`), and no task and no counted memory may be left.

asyncio promises that `call_soon` keeps its order, and a program can rely on it: `data_received` comes before
`connection_lost`, and the callbacks of a future run in the order in which they were added. So this loop keeps the order
of all callbacks, with one exception: a task starts, or continues after its future is done, up to `MAX_DELAY` iterations
later. No program can rely on that moment, because one more future in between would change it. In some rounds, some or
all tasks start at once (from Python 3.12 on). The loop also notices ready sockets and pipes in any order, and some of
them an iteration later. Only uvloop's loop cannot do that.

The seed decides all of this, but the operating system decides when bytes arrive. So a fault appears again in most runs
of the same round, but not in each.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import importlib
import json
import logging
import os
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextvars import Context as ContextVariables
from typing import Any, TypeVar

from mcp_ref import Client, Context, ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult, Server
from mcp_ref.jsonrpc.messages import Object
from mcp_ref.lib.http.asgi import application
from mcp_ref.lib.http.server import start_server
from mcp_ref.lib.shares import Shares
from mcp_ref.server.http import HttpApp
from mcp_ref.transports.stdio.server import StdioServerTransport
from tests.http_wire import mirrored_headers, under_asgi
from tests.messages import initialize, notification, request, stateless_request
from tests.settings import MODERN

PATIENCE = 12.0
"""Maximum time in which no request of a round ends, in seconds. Most end after a few milliseconds."""
ROUND_SECONDS = 300.0
"""Maximum time of a round, with the start and the end of its server, in seconds. Most take less than a second."""
MAX_DELAY = 3
"""Maximum number of iterations of the event loop by which a task is delayed."""
SIZES = [10] * 8 + [5_000] * 3 + [100_000] * 6 + [1_000_000]
"""Sizes of the texts that the server returns, in bytes."""
KINDS = ["memory", "stdio", "http", "http", "http-json", "asgi", "sse"]
REVISIONS = ["2025-03-26", "2025-06-18", "2025-11-25", "2025-11-25", MODERN, MODERN, MODERN]

T = TypeVar("T")
Job = Callable[["World", random.Random], Coroutine[object, object, str]]
Selected = list[tuple[Any, int]]
"""Ready sockets and pipes: the selector's key (of asyncio's own type), and its events."""


def is_step(callback: object) -> bool:
    """Return True if a callback starts or continues a task."""
    is_continuation = isinstance(getattr(callback, "__self__", None), asyncio.Task)
    return is_continuation or type(callback).__name__ == "TaskStepMethWrapper"


class _Unordered:
    """The part that is the same for asyncio's event loop and for uvloop's."""

    rng: random.Random

    def call_soon(
        self, callback: Callable[..., object], *args: object, context: ContextVariables | None = None
    ) -> asyncio.Handle:
        call_soon: Callable[..., asyncio.Handle] = super().call_soon  # type: ignore[misc]  # the event loop's

        def call_after(iterations: int) -> asyncio.Handle:
            if iterations == 0:
                return call_soon(callback, *args, context=context)
            return call_soon(call_after, iterations - 1)

        return call_after(self.rng.choice((0, 0, *range(1, MAX_DELAY + 1))) if is_step(callback) else 0)


class UnorderedLoop(_Unordered, asyncio.SelectorEventLoop):
    """asyncio's event loop, with delayed tasks and events."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        super().__init__()

    def _process_events(self, event_list: Selected) -> None:
        self.rng.shuffle(event_list)
        ready = [event for event in event_list if self.rng.random() < 0.7]  # the selector reports the others again
        super()._process_events(ready)  # type: ignore[misc]  # a private method of asyncio


def make_loop(rng: random.Random, uses_uvloop: bool) -> asyncio.AbstractEventLoop:
    if not uses_uvloop:
        return _with_tasks(UnorderedLoop(rng), rng)
    uvloop = importlib.import_module("uvloop")  # not installed where the linters run
    loop_class = type("UnorderedUvloop", (_Unordered, uvloop.Loop), {"rng": rng})
    loop: asyncio.AbstractEventLoop = loop_class()
    return _with_tasks(loop, rng)


def _with_tasks(loop: asyncio.AbstractEventLoop, rng: random.Random) -> asyncio.AbstractEventLoop:
    """Let all, some or none of the tasks of a loop start at once."""
    share = rng.choice([0, 0.5, 1])

    def make_task(loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any], **options: Any) -> asyncio.Task[Any]:
        options.setdefault("eager_start", rng.random() < share)
        return asyncio.Task(coro, loop=loop, **options)

    if sys.version_info >= (3, 12) and share:
        loop.set_task_factory(make_task)  # type: ignore[arg-type]
    return loop


def make_server() -> Server:
    server = Server("schedules")
    server.resources.add("chaos://one", lambda: "one")

    @server.tool()
    async def echo(text: str) -> str:
        return text

    @server.tool()
    def plain(text: str) -> str:
        return text

    @server.tool()
    async def pause(text: str, iterations: int) -> str:
        for _ in range(iterations):
            await asyncio.sleep(0)
        return text

    @server.tool()
    async def count(to: int, context: Context) -> int:
        for number in range(to):
            await context.log("info", number)
            await context.report_progress(number, to)
        return to

    @server.tool()
    async def ask(context: Context) -> str:
        form = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        return str((await context.elicit("Your name?", form)).content)

    @server.tool()
    async def stay() -> str:
        await asyncio.sleep(1000)
        return "never"

    @server.tool()
    async def change() -> str:
        server.resource_updated("chaos://one")
        return "changed"

    return server


class World:
    """The server of one round, on all transports."""

    def __init__(self, server: Server, rng: random.Random, ports: dict[str, int]) -> None:
        self.server, self.rng, self.ports = server, rng, ports
        self.requests = 0
        """Number of requests that have ended."""

    async def count(self, ending: Awaitable[T]) -> T:
        """Wait for a request, and count it."""
        result = await ending
        self.requests += 1
        return result

    def url(self, kind: str) -> str:
        return f"http://127.0.0.1:{self.ports[kind]}/{'sse' if kind == 'sse' else 'mcp'}"

    @contextlib.asynccontextmanager
    async def client(self, kind: str, revision: str, **options: Any) -> AsyncIterator[Client]:
        """Connect a client over one kind of transport."""
        revision = "2024-11-05" if kind == "sse" else revision
        options |= {"revision": revision, "timeout": None, "elicitation": _answer}
        if kind == "memory":
            async with Client(self.server, **options) as client:
                yield client
        elif kind == "stdio":
            async with _pipes(self.server) as transport, Client(transport, **options) as client:
                yield client
        else:
            async with Client(self.url(kind), **options) as client:
                yield client


async def _answer(request: ElicitRequestFormParams | ElicitRequestURLParams) -> ElicitResult:
    return ElicitResult("accept", {"name": "Ada"})


@contextlib.asynccontextmanager
async def _pipes(server: Server) -> AsyncIterator[StdioServerTransport]:
    """Serve on two pipes. Yield a transport for their other ends; its code is the same as on the server's ends."""
    to_server, from_client = os.pipe()
    to_client, from_server = os.pipe()
    serving = asyncio.create_task(server.serve(StdioServerTransport(to_server, from_server)))
    try:
        yield StdioServerTransport(to_client, from_client)
    finally:
        os.close(from_client)
        os.close(to_client)
        await serving
        os.close(to_server)
        os.close(from_server)


@contextlib.asynccontextmanager
async def open_world(rng: random.Random) -> AsyncIterator[World]:
    """Serve on all transports."""
    server = make_server()
    async with contextlib.AsyncExitStack() as stack:
        urls = {
            "http": await stack.enter_async_context(server.serve_http()),
            "http-json": await stack.enter_async_context(server.serve_http(json_responses=True)),
        }
        ports = {kind: int(url.split(":")[2].split("/")[0]) for kind, url in urls.items()}
        app = HttpApp(server.catalog)
        stack.push_async_callback(app.close)
        listening = await start_server(under_asgi(application(app.handle)))
        stack.push_async_callback(listening.close, 0.5)
        stack.push_async_callback(app.end_sessions)
        yield World(server, rng, {**ports, "sse": ports["http"], "asgi": listening.address[1]})


async def some_iterations(rng: random.Random) -> None:
    """Let the others run for a moment."""
    for _ in range(rng.choice([0, 0, 1, 2, 5, 30])):
        await asyncio.sleep(0)


async def echo(client: Client, rng: random.Random) -> None:
    """Call a tool that returns its argument."""
    text, name = "x" * rng.choice(SIZES), rng.choice(["echo", "echo", "plain", "pause"])
    arguments: dict[str, object] = {"text": text} if name != "pause" else {"text": text, "iterations": rng.randrange(5)}
    assert (await client.call_tool(name, arguments)).text == text


async def count(client: Client, rng: random.Random) -> None:
    """Call a tool that sends notifications."""
    to = rng.choice([1, 10, 300])
    assert (await client.call_tool("count", {"to": to}, on_progress=lambda *_: None)).text == str(to)


async def ask(client: Client, rng: random.Random) -> None:
    """Call a tool that asks the user."""
    if client.revision.name >= "2025-06-18":
        assert "Ada" in (await client.call_tool("ask")).text


async def leave(client: Client, rng: random.Random) -> None:
    """Cancel a call."""
    calls: list[tuple[str, dict[str, object]]] = [
        ("stay", {}),
        ("echo", {"text": "x" * rng.choice(SIZES)}),
        ("count", {"to": 300}),
    ]
    name, arguments = rng.choice(calls)
    call = asyncio.create_task(client.call_tool(name, arguments))
    await some_iterations(rng)
    call.cancel()
    await asyncio.wait([call])


async def subscribe(client: Client, rng: random.Random) -> None:
    """Subscribe to a resource, and wait for an update."""
    if client.server_can("resources.subscribe"):
        async with client.subscribe("chaos://one") as updates:
            await client.call_tool("change")
            assert await anext(updates) == "chaos://one"


CALLS = [echo, echo, echo, count, ask, leave, subscribe]


async def by_client(world: World, rng: random.Random) -> str:
    """Make up to three groups of calls with our client. The calls of a group run at the same time."""
    kind, revision = rng.choice(KINDS), rng.choice(REVISIONS)
    await some_iterations(rng)
    async with world.client(kind, revision) as client:
        for _ in range(rng.randint(1, 3)):
            calls = [rng.choice(CALLS) for _ in range(rng.randint(1, 4))]
            await asyncio.gather(*(world.count(call(client, rng)) for call in calls))
    return f"{kind} {client.revision.name}"


async def by_wire(world: World, rng: random.Random) -> str:
    """Make some requests over HTTP, each on a new connection, or all on one."""
    kind, is_modern = rng.choice(["http", "http-json", "asgi"]), rng.random() < 0.3
    post = Post(world, kind, rng.random() < 0.3, rng)
    if not is_modern:
        await post.open_session()
    for _ in range(rng.randint(1, 3)):
        await some_iterations(rng)
        await post.echo(rng.choice(SIZES), is_modern)
    await post.close()
    return f"raw {kind} {'modern' if is_modern else 'legacy'}"


async def large_and_small(world: World, rng: random.Random) -> str:
    """Let some clients make a large request at once, and others a small one on a new connection, many times."""
    posts = [Post(world, "http", False, rng) for _ in range(16)]
    await asyncio.gather(*(post.open_session() for post in posts))

    async def one(post: Post) -> None:
        if rng.random() < 0.3:
            await post.echo(100_000, False)
        else:
            await some_iterations(rng)
            assert b'"result"' in await post(request("ping"))

    for _ in range(40):
        await asyncio.gather(*(one(post) for post in posts))
    return "raw http, large and small"


class Post:
    """A raw HTTP client."""

    def __init__(self, world: World, kind: str, keeps: bool, rng: random.Random) -> None:
        self._world, self._port, self._keeps, self._rng, self._session = world, world.ports[kind], keeps, rng, ""
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __call__(self, message: Object) -> bytes:
        """POST a message in two pieces. Return the body of the response."""
        body = json.dumps(message).encode()
        whole = self._head(body) + body
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 24)
        reader, writer = self._streams
        end_of_first = self._rng.choice([0, len(whole) // 2, len(whole) - len(body)])
        for piece in (whole[:end_of_first], whole[end_of_first:]):
            writer.write(piece)
            await some_iterations(self._rng)
        response = await self._world.count(self._response(reader))
        if not self._keeps:
            await self.close()
        return response

    def _head(self, body: bytes) -> bytes:
        headers = {
            "Host": f"127.0.0.1:{self._port}", "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json", "Content-Length": str(len(body)), **mirrored_headers(body),
        }  # fmt: skip
        if self._session:
            headers |= {"Mcp-Session-Id": self._session, "MCP-Protocol-Version": "2025-11-25"}
        if not self._keeps:
            headers["Connection"] = "close"
        lines = ["POST /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        return "\r\n".join(lines).encode()

    async def open_session(self) -> None:
        """Make the handshake."""
        await self(initialize())
        await self(notification("notifications/initialized"))

    async def echo(self, size: int, is_modern: bool) -> None:
        """Call a tool that returns its argument."""
        text = "x" * size
        call: Object = {"name": "echo", "arguments": {"text": text}}
        body = await self(stateless_request("tools/call", call) if is_modern else request("tools/call", call))
        assert text.encode() in body, body[:300]

    async def _response(self, reader: asyncio.StreamReader) -> bytes:
        first, *lines = (await reader.readuntil(b"\r\n\r\n"))[:-4].decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        assert first.split()[1] in ("200", "202"), first
        self._session = headers.get("mcp-session-id", self._session)
        if headers.get("transfer-encoding") != "chunked":
            return await reader.readexactly(int(headers.get("content-length", "0")))
        body = b""
        while size := int(await reader.readuntil(b"\r\n"), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readexactly(2)
        return body

    async def close(self) -> None:
        """Close the connection, if one is open."""
        if self._streams is not None:
            (_, writer), self._streams = self._streams, None
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


def _mixed(rng: random.Random) -> list[Job]:
    return [rng.choice([by_client, by_client, by_wire]) for _ in range(16)]


async def play_round(rng: random.Random, outcomes: Counter[str]) -> None:
    """Run some conversations at the same time. Raise AssertionError if one does not end, or leaves a task behind."""
    errors: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: errors.append(context))
    before = asyncio.all_tasks()
    async with open_world(rng) as world:
        jobs = [large_and_small] if rng.random() < 0.5 else _mixed(rng)
        tasks = [asyncio.create_task(job(world, random.Random(rng.random()))) for job in jobs]
        await _wait_while_requests_end(tasks, world)
        outcomes.update(task.result() for task in tasks)
    await _wait_for_end_of_tasks(before)
    gc.collect()
    await asyncio.sleep(0)
    shares = [each for each in gc.get_objects() if isinstance(each, Shares) and each.contents != "sessions"]
    kept = {each.contents: each.by_caller for each in shares if each.by_caller or each.used}
    assert not kept, f"requests have ended, but their memory still counts: {kept}"
    assert not errors, f"the event loop reports {errors}"


async def _wait_while_requests_end(conversations: list[asyncio.Task[str]], world: World) -> None:
    """Wait for the end of all conversations, as long as some request of theirs ends within `PATIENCE`."""
    pending, requests = set(conversations), -1
    while pending and world.requests > requests:
        requests = world.requests
        _, pending = await asyncio.wait(pending, timeout=PATIENCE)
    if pending:
        _show_tasks()
        raise AssertionError(f"{len(pending)} of {len(conversations)} conversations wait for a response without end")


async def _wait_for_end_of_tasks(expected: set[asyncio.Task[Any]]) -> None:
    """Wait until only the expected tasks run."""
    deadline = time.monotonic() + PATIENCE
    while left := asyncio.all_tasks() - expected:
        if time.monotonic() > deadline:
            _show_tasks()
            raise AssertionError(f"tasks are left: {left}")
        await asyncio.sleep(0.001)


def _show_tasks() -> None:
    for task in asyncio.all_tasks():
        print(f"\n{task.get_name()}")
        chain: Any = task.get_coro()
        while chain is not None:
            frame = getattr(chain, "cr_frame", None) or getattr(chain, "ag_frame", None)
            if frame is not None:
                print("   ", "".join(traceback.format_stack(frame, 1)).strip().replace("\n", " "))
            chain = getattr(chain, "cr_await", None) or getattr(chain, "ag_await", None)


def play(seed: int, seconds: float, only: int | None, uses_uvloop: bool) -> None:
    """Play rounds until the time is over. Raise AssertionError if a conversation fails."""
    outcomes: Counter[str] = Counter()
    number, end = only or 0, time.monotonic() + seconds
    while time.monotonic() < end and (only is None or number == only):
        rng = random.Random(f"{seed}/{number}")
        try:
            with asyncio.Runner(loop_factory=lambda rng=rng: make_loop(rng, uses_uvloop)) as runner:  # type: ignore[misc]
                runner.run(asyncio.wait_for(play_round(rng, outcomes), ROUND_SECONDS))
        except BaseException:
            print(f"\nseed {seed} failed in round {number}")
            raise
        number += 1
    print(f"seed {seed}: {number} rounds, {sum(outcomes.values())} conversations")
    for name, times in sorted(outcomes.items()):
        print(f"    {times:6} {name}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--round", type=int, help="play only this round")
    parser.add_argument("--uvloop", action="store_true", help="use uvloop's event loop")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    play(options.seed, options.seconds, options.round, options.uvloop)
