"""The session: its beginning and its end, by either side and with anything in flight.

The facts about processes, such as exit codes, signals and grandchildren, are in transports/test_stdio.py.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from mcp_ref import Client, Context, Server
from mcp_ref.basic.content import TextContent
from mcp_ref.features.completion import PromptReference
from mcp_ref.features.sampling import CreateMessageRequestParams, CreateMessageResult
from mcp_ref.jsonrpc.errors import ConnectionClosed, InvalidMessage, McpError
from mcp_ref.jsonrpc.messages import Object, Outgoing, Request, RequestId
from mcp_ref.transports.base import OnEnd, Receive, Transport
from mcp_ref.transports.memory import MemoryTransport
from mcp_ref.transports.stdio.client import StdioClientTransport
from tests.forked_python import quick_python
from tests.messages import request
from tests.raw_peers import close_server_end, connected_client, raw_server, raw_session
from tests.settings import PATIENCE, SERVER_TRANSPORTS

EVERYTHING: Object = {"tools": {}, "resources": {"subscribe": True}, "prompts": {}, "logging": {}, "completions": {}}

CALLS: list[Callable[[Client], Awaitable[object]]] = [
    lambda client: client.ping(),
    lambda client: client.list_tools(),
    lambda client: client.call_tool("t", on_progress=lambda *progress: None),
    lambda client: client.list_resources(),
    lambda client: client.list_resource_templates(),
    lambda client: client.read_resource("test://a"),
    lambda client: client.subscribe("test://a").__aenter__(),
    lambda client: client.list_prompts(),
    lambda client: client.get_prompt("p"),
    lambda client: client.complete(PromptReference("p"), "a", ""),
    lambda client: client.set_logging_level("info"),
]


def patient(transport: MemoryTransport) -> Client:
    """Return a client without a time limit."""
    return Client(transport, timeout=None, roots=[])


# ------------------------------------------------------------------------------------------------ endings


@pytest.mark.parametrize("how", ["the server leaves", "the client closes"])
async def test_session_end_fails_pending_and_later_calls_at_once(how: str) -> None:
    async with raw_session(patient, "2025-11-25", EVERYTHING) as (client, wire):
        waiting = [asyncio.ensure_future(call(client)) for call in CALLS]
        for _ in CALLS:
            await wire.receive_object()
        if how == "the server leaves":
            close_server_end(client)
            expected = "the peer closed the connection"
        else:
            await client.close()
            expected = "the connection was closed"
        for future in waiting:
            with pytest.raises(ConnectionClosed, match=expected):
                await asyncio.wait_for(future, PATIENCE)
        for call in CALLS:
            with pytest.raises(ConnectionClosed, match=expected):
                await asyncio.wait_for(call(client), PATIENCE)
        await asyncio.wait_for(client.set_roots([]), PATIENCE)  # tells nobody
        assert client.session.dispatcher.pending == {}
        assert wire.frames.empty()  # no cancellations: nobody is there to be told


async def test_client_block_exception_reaches_the_caller_and_the_session_is_closed() -> None:
    kept: list[Client] = []
    with pytest.raises(ZeroDivisionError):
        async with Client(Server("s")) as client:
            kept.append(client)
            _ = 1 / 0
    assert kept[0].session.ended.done()
    with pytest.raises(ConnectionClosed):
        await kept[0].ping()


@pytest.mark.parametrize("ending", ["close", "leave"])
async def test_client_handler_is_cancelled_when_the_session_ends_and_may_clean_up(ending: str) -> None:
    begun, tidied = asyncio.Event(), asyncio.Event()

    async def model(params: CreateMessageRequestParams) -> CreateMessageResult:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            tidied.set()
        raise AssertionError

    async with raw_session(lambda transport: Client(transport, sampling=model)) as (client, wire):
        content: Object = {"role": "user", "content": {"type": "text", "text": "x"}}
        await wire.send(request("sampling/createMessage", {"messages": [content], "maxTokens": 1}))
        await asyncio.wait_for(begun.wait(), PATIENCE)
        if ending == "leave":
            close_server_end(client)
            await asyncio.wait_for(client.session.ended, PATIENCE)
        await asyncio.wait_for(client.close(), PATIENCE)
        assert tidied.is_set()
        assert wire.frames.empty()


async def test_client_handler_may_close_its_own_client() -> None:
    client: Client

    async def model(params: CreateMessageRequestParams) -> CreateMessageResult:
        await client.close()
        return CreateMessageResult("assistant", TextContent("too late"), "m")

    server = Server("s")

    @server.tool()
    async def ask(context: Context) -> str:
        return (await context.sample("?", max_tokens=1)).text

    client = Client(server, sampling=model, timeout=None)
    async with client:
        with pytest.raises(ConnectionClosed):
            await asyncio.wait_for(client.call_tool("ask"), PATIENCE)


@pytest.mark.parametrize(("revision", "opening"), [("2025-11-25", "initialize"), ("2026-07-28", "server/discover")])
async def test_client_close_is_safe_from_many_tasks_and_while_connecting(revision: str, opening: str) -> None:
    async with raw_server(lambda t: Client(t, timeout=None, revision=revision)) as (client, wire):
        connecting = asyncio.create_task(client.connect())
        assert (await wire.receive_object())["method"] == opening
        await asyncio.wait_for(asyncio.gather(*(client.close() for _ in range(10))), PATIENCE)
        with pytest.raises(ConnectionClosed):
            await asyncio.wait_for(connecting, PATIENCE)
        with pytest.raises(RuntimeError, match="not connected"):
            await client.ping()
        assert wire.frames.empty()  # a request of the handshake is never cancelled


@pytest.mark.breaks("response_id")
async def test_client_holds_no_messages_while_it_refuses_initialize() -> None:
    # The HTTP transports of a client cannot stop reading, so a server could send messages to hold without end.
    async with raw_session(patient, "2025-11-25") as (client, wire):
        for id, method in enumerate(["initialize", "initialize", "ping"]):
            client.session.dispatcher.receive(Request(id, method))
        assert client.session.dispatcher._held is None
        responses = [await wire.receive_object() for _ in range(3)]
        assert [(response["id"], "error" in response) for response in responses] == [(0, True), (1, True), (2, False)]


async def test_client_close_that_was_cancelled_can_be_repeated() -> None:
    begun, leave = asyncio.Event(), asyncio.Event()

    async def model(params: CreateMessageRequestParams) -> CreateMessageResult:
        begun.set()
        while not leave.is_set():
            try:
                await leave.wait()
            except asyncio.CancelledError:
                continue  # it holds the closing up for as long as it may
        return CreateMessageResult("assistant", TextContent("x"), "m")

    async with raw_session(lambda transport: Client(transport, sampling=model)) as (client, wire):
        content: Object = {"role": "user", "content": {"type": "text", "text": "x"}}
        await wire.send(request("sampling/createMessage", {"messages": [content], "maxTokens": 1}))
        await asyncio.wait_for(begun.wait(), PATIENCE)
        closing = asyncio.create_task(client.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        leave.set()
        await asyncio.wait_for(client.close(), PATIENCE)
        await asyncio.wait_for(wire.closed.wait(), PATIENCE)


@pytest.mark.parametrize("kind", SERVER_TRANSPORTS)
@pytest.mark.usefixtures("short_finish")
async def test_server_cancels_its_handlers_when_the_client_leaves(kind: str) -> None:
    server, begun, stopped = Server("s"), asyncio.Event(), asyncio.Event()

    @server.tool()
    async def wait() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with connected_client(server, kind) as wire:
        await wire.send(request("tools/call", {"name": "wait"}))
        await asyncio.wait_for(begun.wait(), PATIENCE)
    assert stopped.is_set()  # before `serve` returned


# ------------------------------------------------------------------------------------------------ transports that fail


class Broken(Transport):
    """A transport that fails in one of its methods, and counts its closings."""

    def __init__(self, method: str, error: Exception) -> None:
        self.method, self.error = method, error
        self.closings = 0
        self.on_end: OnEnd | None = None

    def _fail_in(self, method: str) -> None:
        if method == self.method:
            raise self.error

    async def start(self, receive: Receive, on_end: OnEnd) -> None:
        self.lost = on_end
        self._fail_in("start")

    def send(self, message: Outgoing, related: RequestId | None = None) -> None:
        self._fail_in("send")

    async def drain(self, related: RequestId | None = None) -> None:
        self._fail_in("drain")

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    async def close(self) -> None:
        self.closings += 1


@pytest.mark.parametrize("method", ["start", "send", "drain"])
@pytest.mark.parametrize("error", [ConnectionClosed("no route"), OSError("broken"), ValueError("a mistake")])
async def test_transport_error_while_connecting_reaches_the_caller_and_closes_the_transport(
    method: str, error: Exception
) -> None:
    transport = Broken(method, error)
    client = Client(transport, timeout=None)
    with pytest.raises(type(error), match=str(error)):
        await asyncio.wait_for(client.connect(), PATIENCE)
    assert transport.closings == 1
    with pytest.raises(RuntimeError, match="not connected"):
        await client.ping()


@pytest.mark.parametrize("error", [None, ConnectionClosed("the line was cut"), InvalidMessage("no JSON at all")])
async def test_transport_reason_for_the_end_is_the_error_of_pending_calls(error: McpError | None) -> None:
    transport = Broken("none", OSError())
    client = Client(transport, timeout=None)
    connecting = asyncio.create_task(client.connect())
    while not (client.connector._latest_session is not None and client.connector._latest_session.dispatcher.pending):
        assert not connecting.done(), connecting.exception()
        await asyncio.sleep(0)
    assert transport.lost is not None
    transport.lost(error)
    expected = str(error) if error is not None else "the peer closed the connection"
    with pytest.raises(type(error) if error is not None else ConnectionClosed, match=expected):
        await asyncio.wait_for(connecting, PATIENCE)
    assert transport.closings == 1


# ------------------------------------------------------------------------------------------------ server processes

GREETED = """
import json, os
asked = json.loads(sys.stdin.readline())
if asked["method"] == "server/discover":
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "what?"}}), flush=True)
    asked = json.loads(sys.stdin.readline())
info = {"name": "s", "version": "1"}
result = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
sys.stdin.readline()
sys.stdin.readline()
"""


@pytest.mark.parametrize(
    ("ending", "expected"),
    [
        ("", "exited with code 0"),
        ("os.write(2, b'\\xff'); sys.exit('out of memory')", "(?s)exited with code 1.*\ufffdout of memory"),
        ("os.close(1); sys.stdin.read()", "closed its output and"),
        ("os.close(1); import time; time.sleep(0.5); os._exit(3)", "exited with code 3"),
        ('print(\'{"jsonrpc":"2.0","id":2,"resu\', end=\'\'); sys.exit(4)', "exited with code 4"),
    ],
    ids=["quietly", "with an error", "closes its output only", "ends slowly", "in the middle of an answer"],
)
async def test_server_that_leaves_during_a_request_fails_it_with_the_reason(ending: str, expected: str) -> None:
    grace = 0.1 if expected.startswith("closed") else PATIENCE
    async with Client(StdioClientTransport(quick_python(GREETED + ending), grace=grace), timeout=None) as client:
        with pytest.raises(ConnectionClosed, match=expected):
            await asyncio.wait_for(client.call_tool("t"), PATIENCE)
        with pytest.raises(ConnectionClosed, match=expected):
            await asyncio.wait_for(client.ping(), PATIENCE)


@pytest.mark.parametrize("grace", [0.01, PATIENCE])
async def test_request_to_a_server_that_no_longer_reads_its_input_fails_at_once_but_earlier_ones_after_the_grace(
    grace: float, tmp_path: Path
) -> None:
    flag, changed = tmp_path / "flag", '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
    result = '{"jsonrpc":"2.0","id":3,"result":{"content":[]}}'
    source = f"""{GREETED}import time; os.close(0); print({changed!r}, flush=True)
while not os.path.exists({str(flag)!r}): time.sleep(0.01)
print({result!r}, flush=True)"""
    closed = asyncio.Event()
    transport = StdioClientTransport(quick_python(source), grace=grace)
    async with Client(transport, timeout=None, on_tools_changed=closed.set) as client:
        calling = asyncio.create_task(client.call_tool("t"))
        await asyncio.wait_for(closed.wait(), PATIENCE)
        if grace == PATIENCE:
            with pytest.raises(ConnectionClosed, match="closed its input") as failed:
                await client.ping()
            assert failed.value.is_unsent
            flag.touch()
            assert (await asyncio.wait_for(calling, PATIENCE)).content == []
        else:
            with pytest.raises(ConnectionClosed, match="closed its input"):
                await client.ping()
            with pytest.raises(ConnectionClosed, match="closed its input"):
                await asyncio.wait_for(calling, PATIENCE)
            assert isinstance(await asyncio.wait_for(client.session.ended, PATIENCE), ConnectionClosed)


async def test_request_that_a_server_has_read_only_in_part_fails_when_its_input_is_closed() -> None:
    source = f"{GREETED}import time; os.read(0, 1); os.close(0); time.sleep(60)"
    async with Client(StdioClientTransport(quick_python(source), grace=0.01), timeout=None) as client:
        calling = asyncio.create_task(client.call_tool("t"))  # which the server has read
        await asyncio.sleep(0)  # it is sent first, on each Python
        with pytest.raises(ConnectionClosed, match="closed its input"):
            await asyncio.wait_for(client.call_tool("t", {"text": "x" * 1_000_000}), PATIENCE)
        with pytest.raises(ConnectionClosed, match="closed its input"):
            await asyncio.wait_for(calling, PATIENCE)


async def test_request_that_is_written_just_after_the_server_has_closed_its_input_fails(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    os.mkfifo(closed)
    source = f"{GREETED}import time; os.close(0); open({str(closed)!r}, 'w').close(); time.sleep(60)"
    async with Client(StdioClientTransport(quick_python(source), grace=0.01), timeout=None) as client:
        calling = asyncio.create_task(client.call_tool("t"))
        await asyncio.sleep(0)  # it is sent
        closed.read_text()  # blocks the event loop, so that it does not notice the closed input before the next write
        for call in (client.ping(), calling):
            with pytest.raises(ConnectionClosed, match="closed its input"):
                await asyncio.wait_for(call, PATIENCE)


async def test_stdio_missing_working_directory_is_named_in_the_error() -> None:
    with pytest.raises(ConnectionClosed, match="'/no-such-directory'; its working directory must exist"):
        async with Client(quick_python("pass"), cwd="/no-such-directory"):
            pass


async def test_stdio_command_that_is_not_a_program_is_an_error(tmp_path: object) -> None:
    path = f"{tmp_path}/server.py"
    with open(path, "w") as file:
        file.write("print('not executable')")

    with pytest.raises(ConnectionClosed, match=r"server\.py.*[Pp]ermission"):
        async with Client([path]):
            pass


async def test_notification_in_flight_when_the_server_leaves_is_delivered_before_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lines = '{"jsonrpc":"2.0","method":"unknown"}\n{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
    heard: list[str] = []
    source = GREETED + f"print({lines!r}, flush=True); sys.exit(7)"
    async with Client(quick_python(source), timeout=None, on_tools_changed=lambda: heard.append("changed")) as client:
        with pytest.raises(ConnectionClosed, match="code 7"):
            await asyncio.wait_for(client.call_tool("t"), PATIENCE)
        assert heard == ["changed"] and not caplog.records
