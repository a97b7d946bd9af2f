"""The rows of the benchmark: each measures one kind of work of one implementation, in short turns.

A row's function starts a process, prepares the load, and yields the figures of one turn at each step. So several
implementations can be alive at once and take turns. Processor time is the time of the measured process alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial

from tests.bench.implementations import LIMIT, Implementation, Process, running
from tests.bench.load import ADD, FIRST_ID, HELLO, Connection, HttpLoad, Streams, call_over_stdio, encode


@dataclass(frozen=True)
class Size:
    """The amount of work of a turn."""

    seconds: float = 0.2
    """Time of load over HTTP."""
    warm_up: float = 3.0
    """Time of load over HTTP before the first turn. The just-in-time compilers of other languages need it."""
    http_calls: int = 0
    """Minimum number of calls of a turn over HTTP. The new connections of a turn count less then."""
    events: int = 2000
    """Number of progress notifications."""
    calls: int = 1280
    """Number of calls over stdio and of calls of a client; a multiple of 64."""
    streams: int = 1000
    """Number of open streams and of sessions."""
    tools: int = 10_000
    """Number of tools of the server with many tools."""


@dataclass(frozen=True)
class Figure:
    """One measured value of a row."""

    title: str
    unit: str
    asked: str = ""
    """The largest acceptable ratio to the limit, or "" for any ratio."""


Turns = Generator[tuple[float, ...], None, None]
"""The values of the figures in each turn."""

Measure = Callable[[Implementation, Size], Turns]
"""A function that prepares the work, and then does the work of a turn at each step."""


@dataclass(frozen=True)
class Row:
    """A kind of work."""

    name: str
    figures: tuple[Figure, ...]
    measure: Measure
    is_slow: bool = False
    """True if a turn of the slowest implementation takes many seconds. A third of the rounds is enough then."""


def port_of(server: Process) -> int:
    """Return the port of a server that prints its URL."""
    return int(server.read_line().split(b":")[2].split(b"/")[0])


def measure_http(implementation: Implementation, size: Size, *, modern: bool, reconnect: bool = False) -> Turns:
    """Yield the processor time of a tool call over 16 connections, in microseconds."""
    with running(implementation, "http", "0") as server:
        load = HttpLoad(port_of(server), modern, 16)
        load.run(size.warm_up, reconnect)
        while True:
            before = server.processor_time()
            calls = load.run(size.seconds, reconnect, size.http_calls)
            yield ((server.processor_time() - before) / calls * 1e6,)


def measure_progress(implementation: Implementation, size: Size, *, modern: bool) -> Turns:
    """Yield the processor time of a progress notification as a server-sent event, in microseconds."""
    with running(implementation, "sse", "0") as server, ExitStack() as stack:
        connection = stack.enter_context(closing(Connection(port_of(server), modern)))
        params = {"name": "count", "arguments": {"to": size.events}, "_meta": {"progressToken": "t"}}
        connection.ask("tools/call", params, FIRST_ID)  # the first call of a tool builds its validator
        while True:
            connection.reconnect()
            before = server.processor_time()
            _, body = connection.ask("tools/call", params, FIRST_ID)
            used = server.processor_time() - before
            assert body.count(b"notifications/progress") == size.events, body[:500]
            yield (used / size.events * 1e6,)


def measure_stdio(implementation: Implementation, size: Size, *, modern: bool) -> Turns:
    """Yield the processor time of a tool call over stdio, in microseconds."""
    with running(implementation, "stdio", "0") as server:
        greet(server, modern)
        call_over_stdio(server, modern, size.calls // 2)
        while True:
            before = server.processor_time()
            call_over_stdio(server, modern, size.calls)
            yield ((server.processor_time() - before) / size.calls * 1e6,)


def greet(server: Process, modern: bool) -> None:
    """Send the first request over stdio and wait for its response."""
    server.write(encode("server/discover" if modern else "initialize", {} if modern else HELLO, 1, modern) + b"\n")
    response = server.read_line()
    assert b'"result"' in response, response
    if not modern:
        server.write(encode("notifications/initialized", {}, None, False) + b"\n")


def measure_client(implementation: Implementation, size: Size, *, kind: str, program: str = "client") -> Turns:
    """Yield the processor time of a client's call to the limit's server of a kind, in microseconds."""
    with running(LIMIT, "http" if kind == "stdio" else kind, "0") as server:
        url = server.read_line().decode()
        target = [*LIMIT.command, "stdio", "0"] if kind == "stdio" else [url]
        with running(implementation, program, *target) as client:
            client.read_line()

            def turn(calls: int) -> float:
                before = client.processor_time()
                client.write(b"%d\n" % calls)
                client.read_line()
                return client.processor_time() - before

            turn(size.calls)
            while True:
                turn(64)  # a client closes connections that it has not used for some seconds
                yield (turn(size.calls) / size.calls * 1e6,)


def measure_streams(implementation: Implementation, size: Size, *, modern: bool) -> Turns:
    """Yield the processor time to notify all streams, in ms, and the memory of a stream and of a session, in kB."""
    with running(implementation, "sse", "0") as server, ExitStack() as stack:
        caller = stack.enter_context(closing(Connection(port_of(server), modern)))
        caller.ask("tools/call", ADD, FIRST_ID)
        start = server.resident()
        sessions = [caller.session] * size.streams
        for number in range(1, size.streams if not modern else 0):
            caller.open_session()
            sessions[number] = caller.session
        opened = server.resident()
        streams = stack.enter_context(closing(Streams([caller.open_stream(session) for session in sessions])))
        memory = ((server.resident() - opened) / size.streams / 1e3, (opened - start) / size.streams / 1e3)
        caller.reconnect()
        for caller.session in sessions if not modern else ():
            caller.ask("tools/call", {"name": "join", "arguments": {}}, FIRST_ID)
        while True:
            caller.reconnect()
            before = server.processor_time()
            caller.ask("tools/call", {"name": "announce", "arguments": {}}, FIRST_ID)
            streams.wait_for_change()
            used = (server.processor_time() - before) * 1e3
            yield (used, memory[0]) if modern else (used, *memory)


def measure_start(implementation: Implementation, size: Size, *, many: bool) -> Turns:
    """Yield the processor time until the response to `initialize`, in ms, and the resident memory, in MB."""
    while True:
        with running(implementation, "stdio", str(size.tools if many else 0)) as server:
            greet(server, modern=False)
            yield server.processor_time() * 1e3, server.resident() / 1e6


def measure_list(implementation: Implementation, size: Size) -> Turns:
    """Yield the processor time to send the whole list of many tools, in ms."""
    with running(implementation, "stdio", str(size.tools)) as server:
        greet(server, modern=False)
        while True:
            before = server.processor_time()
            params: dict[str, str] | None = {}
            while params is not None:
                server.write(encode("tools/list", params, FIRST_ID, False) + b"\n")
                following = json.loads(server.read_line())["result"].get("nextCursor")
                params = {"cursor": following} if following else None
            yield ((server.processor_time() - before) * 1e3,)


_CALL = "processor µs a call"
_NOTIFICATION = "processor µs a notification"
_START = Figure("start to the response to initialize", "processor ms", "1.5")
_MEMORY = Figure("memory after it", "MB", "1.15")


def _row(name: str, title: str, unit: str, asked: str, measure: Measure) -> Row:
    """Return a row of one figure."""
    return Row(name, (Figure(title, unit, asked),), measure)


ROWS = [
    _row("http-session", "HTTP session, 16 connections", _CALL, "2.4", partial(measure_http, modern=False)),
    _row("http-stateless", "HTTP stateless, 16 connections", _CALL, "2.4", partial(measure_http, modern=True)),
    _row("http-connections", "a new connection for each of 16 calls at a time", _CALL, "2.0",
         partial(measure_http, modern=False, reconnect=True)),
    _row("progress-legacy", "progress over SSE, legacy", _NOTIFICATION, "2.2", partial(measure_progress, modern=False)),
    _row("progress-modern", "progress over SSE, modern", _NOTIFICATION, "2", partial(measure_progress, modern=True)),
    _row("stdio-legacy", "stdio, 64 in flight, legacy", _CALL, "2.4", partial(measure_stdio, modern=False)),
    _row("stdio-modern", "stdio, 64 in flight, modern", _CALL, "2.6", partial(measure_stdio, modern=True)),
    _row("client-session", "client over HTTP, 64 in flight, session", _CALL, "2.8",
         partial(measure_client, kind="legacy")),
    _row("client-stateless", "client over HTTP, 64 in flight, stateless", _CALL, "2.6",
         partial(measure_client, kind="http")),
    _row("client-host", "client over HTTP, 64 in flight, stateless, in a host", _CALL, "",
         partial(measure_client, kind="http", program="host")),
    _row("client-stdio", "client over stdio, 64 in flight", _CALL, "", partial(measure_client, kind="stdio")),
    Row("streams-legacy", (Figure("list_changed to 1,000 GET streams", "processor ms", "3.2"),
                           Figure("memory of a GET stream", "kB", "2.6"), Figure("memory of a session", "kB")),
        partial(measure_streams, modern=False)),
    Row("streams-modern", (Figure("list_changed to 1,000 subscriptions", "processor ms", "2.3"),
                           Figure("memory of a subscription", "kB", "2.8")), partial(measure_streams, modern=True)),
    Row("start", (_START, _MEMORY), partial(measure_start, many=False)),
    Row("start-10000", (Figure("start with 10,000 tools", "processor ms", "7"),
                        Figure("memory with 10,000 tools", "MB")), partial(measure_start, many=True), is_slow=True),
    _row("list-10000", "list 10,000 tools", "processor ms", "2", measure_list),
]  # fmt: skip
"""The rows in the order of the table. `asked` is the largest acceptable ratio of mcp_ref to the limit."""
