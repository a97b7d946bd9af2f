"""Servers that do not start, are silent, die, flood or loop: each costs only itself."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from mcp_ref import (
    Client,
    ConnectionClosed,
    Host,
    RequestTimeout,
    Server,
    ServerStatus,
    ServerUnavailable,
    TokenRefused,
)
from mcp_ref.client.target import InProcessServer
from mcp_ref.host import host as host_module
from mcp_ref.host import supervisor
from mcp_ref.host.supervisor import Pauses
from mcp_ref.host.throttle import MAX_BURST, Throttle
from mcp_ref.jsonrpc.messages import Notification, Object
from mcp_ref.lib.http.client import HttpClient
from mcp_ref.transports.streamable_http.client import StreamableHttpClientTransport
from tests.host.peers import Fragile, LegacyServer, Person, calculator, error, lines, opened, state, tool
from tests.settings import PATIENCE, ROOT, eventually, pass_time

ADD: Object = {"a": 1, "b": 2}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the pauses between two starts, and between two lists."""
    monkeypatch.setattr(supervisor, "MIN_PAUSE", 0.01)


@pytest.mark.acceptance("23")
async def test_missing_command_fails_at_once_and_names_it() -> None:
    async with opened(Host({"gone": ["/nowhere/server"], "s": calculator()})) as host:
        assert state(host, "gone") == "failed" and "'/nowhere/server'" in error(host, "gone")
        with pytest.raises(ServerUnavailable, match=r"the server gone has failed: cannot start.*is it installed"):
            await host.call_tool("gone.x")
        assert (await host.call_tool("s.add", ADD)).text == "3"


@pytest.mark.acceptance("24")
async def test_silent_server_costs_only_its_own_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = {"command": sys.executable, "args": ["-c", "import time; time.sleep(60)"], "startup_timeout_sec": 5}
    start = time.monotonic()
    async with opened(Host({"silent": silent, "s": calculator()}, startup_wait=0.05)) as host:
        assert time.monotonic() - start < PATIENCE
        assert (await host.call_tool("s.add", ADD, wait=5)).text == "3"
        with pytest.raises(ServerUnavailable, match="the server silent is starting"):
            await host.call_tool("silent.x")
        pass_time(monkeypatch, 5.0)
        await eventually(lambda: host.status()[0].next_try)
        assert error(host, "silent") == "the server was not ready within 5 s"
        with pytest.raises(ServerUnavailable, match=r"next try in [01] s"):
            await host.call_tool("silent.x")


@pytest.mark.acceptance("25", "A14")
@pytest.mark.spec("2026-07-28/basic/transports/stdio#unexpected-termination-1")
async def test_server_that_dies_in_a_call_is_restarted_and_the_call_is_not_repeated(quick: None) -> None:
    called: list[int] = []
    server, working = calculator(), asyncio.Event()

    @server.tool()
    async def work() -> str:
        called.append(1)
        working.set()
        await asyncio.Event().wait()
        return ""

    fragile, audit = Fragile(server), list[str]()
    async with opened(Host({"s": fragile, "other": calculator()}, audit=audit.append)) as host:
        call = asyncio.create_task(host.call_tool("s.work"))
        await working.wait()
        assert host.status()[0].in_flight == 1
        await fragile.die()
        with pytest.raises(ConnectionClosed, match="it is not known if the tool ran"):
            await call
        assert (await host.call_tool("other.add", ADD)).text == "3"
        assert (await host.call_tool("s.add", ADD, wait=5)).text == "3"
        assert host.status()[0].restarts == 1 and fragile.starts == 2
        assert host._hosted["s"].tools._expiry is None  # the tools are not removed after the grace period
        (restart,) = [line for line in lines(audit) if line["event"] == "restart"]
        assert restart["server"] == "s" and restart["reason"]
    assert called == [1]


async def test_host_call_to_a_server_that_cannot_be_reached_says_that_it_was_not_sent() -> None:
    server = calculator()
    server.resource("test://r")(calculator)
    async with contextlib.AsyncExitStack() as stack:
        url = await stack.enter_async_context(server.serve_http())
        async with opened(Host({"s": url})) as host:
            await stack.aclose()
            transport = host._server("s").check_ready().session.transport
            assert isinstance(transport, StreamableHttpClientTransport) and isinstance(transport._http, HttpClient)
            kept = transport._http._free  # a request on one of these would be sent if the client had not seen its end
            await eventually(lambda: not any(connection.is_open() for connection in kept))
            with pytest.raises(ConnectionClosed, match=r"cannot be reached: [^;]*$") as lost:
                await host.call_tool("s.add", ADD)
            assert lost.value.is_unsent
            with pytest.raises(ConnectionClosed) as lost:
                await host.read_resource("s", "test://r")
            assert lost.value.is_unsent


@pytest.mark.acceptance("26")
def test_server_that_responds_and_exits_starts_at_most_seven_times_in_a_minute() -> None:
    pauses, now, starts = Pauses(), 0.0, 1
    while (pause := pauses.after_failure(now, ready_seconds=0.01)) is not None and now < 60:
        now += pause
        starts += 1
    assert starts <= 7 and pause is None


@pytest.mark.acceptance("26")
def test_pause_is_short_again_after_a_minute_of_readiness_only() -> None:
    pauses = Pauses()
    found = [pauses.after_failure(time, ready) for time, ready in [(0, 1), (700, 59), (1400, 60), (2100, 0)]]
    for pause, expected in zip(found, (1, 2, 1, 2), strict=True):
        assert pause is not None and 0.8 * expected <= pause <= 1.2 * expected


@pytest.mark.acceptance("26")
def test_failures_that_are_far_apart_are_followed_by_a_start_after_a_minute_at_most() -> None:
    pauses = Pauses()
    for number in range(10):
        pause = pauses.after_failure(120.0 * number, ready_seconds=1)  # six are ten minutes apart
        assert pause is not None and pause <= 1.2 * supervisor.MAX_PAUSE


@pytest.mark.attack("restart-loop")
@pytest.mark.acceptance("26")
async def test_server_that_ends_at_each_start_fails_after_six_starts(quick: None) -> None:
    fragile = Fragile(fails=True)
    async with opened(Host({"s": fragile})) as host:
        await eventually(lambda: state(host, "s") == "failed")
        assert fragile.starts == 6
        fragile.fails = False
        await host.restart("s")
        assert (await host.call_tool("s.add", ADD, wait=5)).text == "3"


@pytest.mark.acceptance("26")
async def test_supervisor_counts_each_process_of_a_handshake_as_a_start(quick: None, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    command = [sys.executable, "-c", f"open({str(starts)!r}, 'a').write('x')"]
    async with opened(Host({"s": command}, startup_wait=0)) as host:
        await eventually(lambda: state(host, "s") == "failed")
    assert starts.read_text() == "x" * 6


FLOOD = """
import sys, json
def reply(id, result): print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        reply(message["id"], {"protocolVersion": "2025-11-25", "capabilities": {"logging": {}, "tools": {}},
                              "serverInfo": {"name": "flood", "version": "1"}})
    elif message.get("method") == "tools/list":
        reply(message["id"], {"tools": []})
        log = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x" * 50}}
        frames = (json.dumps(log) + "\\n") * 200
        while True:
            sys.stdout.write(frames)
            sys.stdout.flush()
    elif "id" in message:
        error = {"code": -32601, "message": "no"}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
"""


@pytest.mark.acceptance("27", "A13")
async def test_server_that_floods_waits_and_others_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_ref.host.hosted.MAX_LOG_RATE", 1)
    logs: list[str] = []
    servers: dict[str, list[str] | InProcessServer] = {"flood": [sys.executable, "-c", FLOOD], "s": calculator()}
    async with opened(Host(servers, on_log=lambda server, message: logs.append(server), startup_wait=15)) as host:
        assert state(host, "flood") == "ready"
        for _ in range(50):
            await host.call_tool("s.add", ADD)
            await asyncio.sleep(0)
        await eventually(lambda: host.status()[0].dropped.get("log messages", 0) > 0)
    assert 0 < len(logs) < 100


@pytest.mark.acceptance("27", "A13")
async def test_client_pauses_reading_after_a_burst_of_messages_that_are_not_responses() -> None:
    calls: list[str] = []
    resumed = asyncio.Event()
    throttle = Throttle(None)
    transport = SimpleNamespace(
        pause_reading=lambda: calls.append("pause"), resume_reading=resumed.set, waits_for=lambda id: id == 7
    )  # fmt: skip
    throttle.client = SimpleNamespace(transport=transport)  # type: ignore[assignment]
    for _ in range(1000):  # requests and their responses
        throttle("->", b"{}")
        throttle("<-", b'{"jsonrpc":"2.0","id":7,"result":{"x":"%b"}}' % (b"x" * 10_000))
    assert calls == []
    for _ in range(3 * MAX_BURST):
        throttle("<-", b"{}")
    assert calls
    await asyncio.wait_for(resumed.wait(), 5)
    calls.clear()
    throttle = Throttle(None)
    throttle.client = SimpleNamespace(transport=transport)  # type: ignore[assignment]
    for _ in range(2):  # the time before the first message lets it pass
        throttle("<-", b'{"jsonrpc":"2.0","method":"notifications/message","params":{"x":"%b"}}' % (b"x" * 100_000))
    assert calls == ["pause"]


@pytest.mark.attack("list-loop")
@pytest.mark.acceptance("28", "A13")
async def test_list_that_reports_its_own_change_is_fetched_ever_more_rarely(quick: None) -> None:
    listed: list[float] = []

    def respond(method: str, params: Object) -> Object:
        if method == "tools/list":
            listed.append(time.monotonic())
        assert server.transport is not None
        for _ in range(20):
            server.transport.send(Notification("notifications/tools/list_changed", {}))
        return {"tools": [tool("t")]}

    server = LegacyServer(respond)
    async with opened(Host({"s": server})):
        await eventually(lambda: len(listed) == 5)
    pauses = [after - before for before, after in itertools.pairwise(listed)]
    assert all(pause >= least for pause, least in zip(pauses, (0.009, 0.018, 0.036, 0.072), strict=True)), pauses


@pytest.mark.acceptance("28")
@pytest.mark.parametrize(
    "fault", ["endless pages", "one cursor", "too many tools", "a large definition", "many large definitions"]
)
async def test_list_over_a_limit_costs_only_its_server(fault: str, quick: None) -> None:
    numbers = itertools.count()

    def respond(method: str, params: Object) -> Object:
        match fault:
            case "endless pages":
                return {"tools": [], "nextCursor": str(next(numbers))}
            case "one cursor":
                return {"tools": [], "nextCursor": "again"}
            case "too many tools":
                return {"tools": [tool(f"t{number}") for number in range(1005)]}
            case "many large definitions":
                return {"tools": [tool(f"t{number}", "x" * 60_000) for number in range(70)]}
        return {"tools": [tool("large", "x" * 70_000), tool("small")]}

    server = LegacyServer(respond)
    async with opened(Host({"s": server, "other": calculator()})) as host:
        if fault in ("endless pages", "one cursor"):
            await eventually(lambda: state(host, "s") == "failed")
            assert "pages do not end" in error(host, "s")
        else:
            kept = {"too many tools": 1000, "a large definition": 1, "many large definitions": 69}[fault]
            dropped = {"too many tools": 5}.get(fault, 1)
            assert host.status()[0].dropped == {"tools": dropped} and host.status()[0].tools == kept
        assert server.received.count("tools/list") <= 600
        assert (await host.call_tool("other.add", ADD, wait=PATIENCE)).text == "3"


async def test_refresh_that_fails_keeps_the_tools(quick: None) -> None:
    lists = iter([{"tools": [tool("t")]}, {"tools": "nonsense"}])
    server = LegacyServer(lambda method, params: next(lists))  # type: ignore[arg-type, return-value]
    async with opened(Host({"s": server})) as host:
        assert server.transport is not None
        server.transport.send(Notification("notifications/tools/list_changed", {}))
        await eventually(lambda: error(host, "s"))
        assert [each.full_name for each in await host.list_tools()] == ["s.t"]
        assert state(host, "s") == "ready"


@pytest.mark.acceptance("29")
async def test_tools_of_a_server_that_is_away_stay_for_the_grace_period(
    quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "GRACE_SECONDS", 5.0)
    events: list[ServerStatus] = []
    fragile = Fragile()
    async with opened(Host({"s": fragile}, on_event=events.append)) as host:
        fragile.fails = True
        await fragile.die()
        await eventually(lambda: state(host, "s") == "backing_off")
        (away,) = await host.list_tools()
        assert away.full_name == "s.add" and not away.available
        with pytest.raises(ServerUnavailable):
            await host.call_tool("s.add", ADD)
        pass_time(monkeypatch, 5.0)
        await eventually(lambda: events[-1].tools == 0)
        assert await host.list_tools() == []
        assert [tools for tools, _ in itertools.groupby(event.tools for event in events)] == [0, 1, 0]
        fragile.fails = False
        await host.restart("s")
        await host.call_tool("s.add", ADD, wait=5)
        assert (await host.list_tools())[0].available


@pytest.mark.acceptance("30")
async def test_reload_keeps_unchanged_servers_and_lets_calls_finish(monkeypatch: pytest.MonkeyPatch) -> None:
    finish, working = asyncio.Event(), asyncio.Event()
    leaving = Server("leaving")

    @leaving.tool()
    async def work() -> str:
        working.set()
        await finish.wait()
        return "done"

    kept, gone = Fragile(), Fragile(leaving)
    async with opened(Host({"kept": kept, "gone": gone})) as host:
        call = asyncio.create_task(host.call_tool("gone.work"))
        await working.wait()
        reload = asyncio.create_task(host.reload({"kept": kept, "new": calculator()}))
        await asyncio.sleep(0.05)
        finish.set()
        assert (await call).text == "done"
        await reload
        assert [status.name for status in host.status()] == ["kept", "new"] and kept.starts == 1
        assert (await host.call_tool("new.add", ADD)).text == "3"
        with pytest.raises(LookupError, match="unknown server 'gone'"):
            await host.call_tool("gone.work")
        with pytest.raises(ValueError, match="cannot read the configuration"):
            await host.reload("/nowhere/mcp.json")
        assert len(host.status()) == 2


async def test_reload_that_was_cancelled_can_be_repeated_with_the_old_servers() -> None:
    working, server = asyncio.Event(), calculator()

    @server.tool()
    async def work() -> None:
        working.set()
        await asyncio.Event().wait()

    async with opened(Host({"s": server})) as host:
        call = asyncio.create_task(host.call_tool("s.work"))
        await working.wait()
        reload = asyncio.create_task(host.reload({}))
        await eventually(lambda: host._hosted["s"].is_closed)  # now it waits for the call
        reload.cancel()
        await asyncio.wait([reload])
        call.cancel()
        await host.reload({"s": server})
        await host.restart("s")
        assert (await host.call_tool("s.add", ADD, wait=5)).text == "3"


def is_running(process: int) -> bool:
    """Return True if a process runs. A killed process can be a zombie until its parent reads its exit code."""
    try:
        return " Z " not in Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False


REPORTS_OLD_CHILD = """
import json, pathlib, subprocess, sys
record, script = pathlib.Path(sys.argv[1]), sys.argv[2]
line = record.read_text() if record.exists() else ""
for stat in [pathlib.Path(f"/proc/{line}/stat")] if line else []:
    alive = stat.exists() and " Z " not in stat.read_text()
    print("alive" if alive else "gone", file=sys.stderr, flush=True)
record.write_text(str(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]).pid))
import runpy
sys.argv = [script]
runpy.run_path(script, run_name="__main__")
"""
"""A server that starts a child. Its next process says if this child still runs when the new process starts."""


@pytest.mark.acceptance("31")
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the test reads the states of processes in /proc")
async def test_children_of_a_server_are_gone_before_it_starts_again(tmp_path: Path) -> None:
    said: list[bytes] = []
    record = tmp_path / "child"
    command = [sys.executable, "-c", REPORTS_OLD_CHILD, str(record), str(ROOT / "examples" / "weather.py")]
    async with opened(Host({"s": command}, on_stderr=lambda server, data: said.append(data), startup_wait=15)) as host:
        await host.restart("s")
        await host.call_tool("s.get_sunrise", {}, wait=15)
        assert b"".join(said).split() == [b"gone"]
        last = int(record.read_text())
    await eventually(lambda: not is_running(last))


@pytest.mark.acceptance("32")
async def test_five_lost_calls_suspend_a_server_until_a_ping(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "SUSPEND_SECONDS", 5.0)
    responds = False

    def respond(method: str, params: Object) -> Object | None:
        if method == "tools/list":
            return {"tools": [tool("t")]}
        return {"content": []} if method == "tools/call" and responds else {} if method == "ping" else None

    server = LegacyServer(respond)
    async with opened(Host({"s": server})) as host:
        for _ in range(5):
            with pytest.raises(RequestTimeout, match="it is not known if the tool ran"):
                await host.call_tool("s.t", timeout=0.01)
        await eventually(lambda: state(host, "s") == "suspended")
        with pytest.raises(ServerUnavailable, match=r"the server s is suspended; next try in \d s: several calls"):
            await host.call_tool("s.t")
        assert server.received.count("tools/call") == 5
        responds = True
        pass_time(monkeypatch, 5.0)
        await host.call_tool("s.t", wait=5)
        assert server.received.count("initialize") == 1 and "ping" in server.received


@pytest.mark.acceptance("32")
async def test_suspended_server_without_response_to_the_ping_is_restarted(
    quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "SUSPEND_SECONDS", 0.05)
    monkeypatch.setattr(supervisor, "PING_SECONDS", 0.05)
    server = LegacyServer(lambda method, params: {"tools": [tool("t")]} if method == "tools/list" else None)
    async with opened(Host({"s": server})) as host:
        for _ in range(5):
            with pytest.raises(RequestTimeout):
                await host.call_tool("s.t", timeout=0.01)
        await eventually(lambda: server.received.count("initialize") == 2)


@pytest.mark.acceptance("32")
async def test_suspended_server_that_ends_is_restarted_at_once(quick: None) -> None:
    server = LegacyServer(lambda method, params: {"tools": [tool("t")]} if method == "tools/list" else None)
    async with opened(Host({"s": server})) as host:
        for _ in range(5):
            with pytest.raises(RequestTimeout):
                await host.call_tool("s.t", timeout=0.01)
        await eventually(lambda: state(host, "s") == "suspended")
        assert server.transport is not None
        await server.transport.close()
        await eventually(lambda: server.received.count("initialize") == 2)
        assert "ping" not in server.received


@pytest.mark.parametrize("is_lazy", [False, True])
async def test_required_server_that_does_not_start_fails_the_opening_and_ends_the_others(is_lazy: bool) -> None:
    host = Host({"s": {"command": "/nowhere/server", "required": True}, "t": calculator()}, lazy=is_lazy)
    with pytest.raises(ServerUnavailable, match="the server s has failed"):
        async with host:
            raise AssertionError("the host must not open")
    assert [status.state.value for status in host.status()] == ["stopped", "stopped"]


async def test_servers_start_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    running: list[int] = []
    most, enough = 0, asyncio.Event()

    class Slow(Fragile):
        async def serve(self, transport: object) -> None:
            nonlocal most
            running.append(1)
            most = max(most, len(running))
            if most == host_module.STARTS_AT_ONCE:
                enough.set()
            await enough.wait()
            await asyncio.sleep(0.05)  # in which others would start, too, if they could
            running.pop()
            await super().serve(transport)  # type: ignore[arg-type]

    async with opened(Host({f"s{number}": Slow() for number in range(20)}, startup_wait=15)) as host:
        assert {status.state.value for status in host.status()} == {"ready"}
    assert most == host_module.STARTS_AT_ONCE


@pytest.mark.acceptance("A14")
@pytest.mark.parametrize("moment", ["handshake", "list", "resource subscription"])
async def test_death_at_each_moment_is_followed_by_a_restart(moment: str, quick: None) -> None:
    deaths = iter([True])

    def respond(method: str, params: Object) -> Object | None:
        if moment == "list" and next(deaths, False):
            asyncio.ensure_future(server.transport.close())  # type: ignore[union-attr]  # noqa: RUF006
            return None
        return {"tools": [tool("t")]} if method == "tools/list" else {"content": []}

    server = LegacyServer(respond)
    fragile = Fragile(calculator(), fails=moment == "handshake")
    fragile.server.resource("note://a")(lambda: "text")
    async with opened(Host({"s": server if moment == "list" else fragile}, approve=Person())) as host:
        if moment == "handshake":
            await eventually(lambda: fragile.starts == 1)
            fragile.fails = False
        if moment == "resource subscription":
            watching = host.watch("s", "note://a")
            first = asyncio.ensure_future(anext(watching))
            announcers = fragile.server.catalog.announcers
            await eventually(lambda: any("note://a" in each.subscribed_uris() for each in announcers))
            await fragile.die()
            change = await first  # the subscription is requested again, and a change could have been missed
            assert (change.server, change.uri) == ("s", "note://a")
            await watching.aclose()  # type: ignore[attr-defined]
        await host.call_tool("s.t" if moment == "list" else "s.add", ADD, wait=5)


@pytest.mark.parametrize("status", ["401", "403"])
async def test_http_server_that_refuses_the_client_is_not_tried_again(status: str) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 %b No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % status.encode())
        await writer.drain()
        writer.close()

    listener = await asyncio.start_server(refuse, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    async with listener, opened(Host({"s": f"http://127.0.0.1:{port}/mcp"})) as host:
        assert state(host, "s") == "failed" and status in error(host, "s")


@pytest.mark.parametrize(
    "failure",
    [
        ConnectionClosed("the server answered HTTP 502: the API answered HTTP 401"),
        TokenRefused("https://as.example", 0),
    ],
)
def test_server_is_started_again_after_a_failure_that_can_pass(failure: Exception) -> None:
    assert not supervisor._is_permanent(failure)


async def test_time_to_start_is_a_limit_of_the_client_which_stops_while_a_user_signs_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    running: list[float | None] = []

    async def connect(client: Client) -> None:
        running.extend(limit.seconds for limit in client.connector.time_limits.running)
        raise ConnectionClosed("no server")

    monkeypatch.setattr(Client, "connect", connect)
    async with opened(Host({"s": {"command": "server", "startup_timeout_sec": 7}})):
        assert running[0] == 7.0
