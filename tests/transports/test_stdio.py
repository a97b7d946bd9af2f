"""stdio, with real processes on both sides: purity of stdout, endings, environments, and the death of a side."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

import mcp_ref.transports.stdio.client as stdio_client
import mcp_ref.transports.stdio.server as stdio_server
from mcp_ref import Client, ConnectionClosed, InvalidMessage, Limits, RemoteError, RequestTimeout, Server
from mcp_ref.jsonrpc.messages import (
    Batch,
    Incoming,
    Message,
    Notification,
    Object,
    Request,
    RequestFailure,
    Response,
)
from mcp_ref.transports.stdio.client import INHERITED_VARIABLES, StdioClientTransport, server_environment
from mcp_ref.transports.stdio.server import StdioServerTransport
from tests.forked_python import python, quick_python
from tests.messages import initialize, notification, request, result_of, stateless_request
from tests.settings import HOME, PATIENCE, Clock, run

pytestmark = pytest.mark.skipif(os.name == "nt", reason="these tests speak of signals and process groups")

SERVER = """
import asyncio, os, subprocess, sys, time
from mcp_ref import Server
server = Server("under-test", "1.0")

@server.tool()
def noisy() -> str:
    print("print", flush=True)
    os.write(1, b"fd 1\\n")
    os.system("echo a child")
    sys.__stdout__.write("no newline")
    sys.stdout.buffer.write(b"\\xff\\xfe")
    return "stdin: " + repr(sys.stdin.read()) + repr(subprocess.run(["cat"], capture_output=True).stdout)

@server.tool()
async def echo(text: str) -> str:
    return text

@server.tool()
async def wait() -> str:
    await asyncio.sleep(600)
    return "never"

@server.tool()
def block() -> str:
    time.sleep(600)
    return "never"

@server.tool()
def leave(code: int) -> str:
    print("last words", file=sys.stderr, flush=True)
    os._exit(code)

@server.tool()
def environment() -> dict[str, str]:
    return dict(os.environ)

@server.tool()
def chatter(size: int) -> int:
    return sys.stderr.write("e" * size)

if __name__ == "__main__":
    server.run()
"""


def server_command() -> list[str]:
    return python(SERVER)


def quick_server_command(prefix: str = "") -> list[str]:
    return quick_python(prefix + SERVER)


def lines_of(messages: list[Object]) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def talk(messages: list[Object], env: dict[str, str] | None = None) -> list[Object]:
    """Feed messages to a server's stdin, close it, and give what came out of its stdout."""
    command, feed = quick_server_command(), lines_of(messages)
    done = subprocess.run(command, input=feed, capture_output=True, timeout=20, check=True, env=env)
    return [json.loads(line) for line in done.stdout.splitlines()]


def talk_over_a_socket(command: list[str], messages: list[Object]) -> list[Object]:
    """Do the same with one socket as the server's stdin and stdout."""
    ours, theirs = socket.socketpair()
    with ours, subprocess.Popen(command, stdin=theirs.fileno(), stdout=theirs.fileno()) as process:
        theirs.close()
        ours.settimeout(PATIENCE)
        ours.sendall(lines_of(messages))
        ours.shutdown(socket.SHUT_WR)
        output = b"".join(iter(partial(ours.recv, 65536), b""))
        assert process.wait(PATIENCE) == 0
    return [json.loads(line) for line in output.splitlines()]


HANDSHAKE: list[Object] = [initialize(), notification("notifications/initialized")]
ERAS = ["legacy", "modern"]
NOISY_CALL = request("tools/call", {"name": "noisy"})


@pytest.mark.spec(
    "2024-11-05..2025-11-25/basic/transports#stdio-3",
    "2024-11-05..2025-06-18/basic/transports#stdio-2",
    "2025-11-25/basic/transports#stdio-4",
    "2025-03-26..2025-11-25/basic/transports#intro-1",
    "2026-07-28/basic/transports/stdio#intro-1,3",
    "2026-07-28/basic/transports/stdio#receiving-messages-2",
    "2026-07-28/basic/transports/index#messages-1",
)
@pytest.mark.parametrize(
    ("opening", "call"), [(HANDSHAKE, request), ([], partial(stateless_request, capabilities={"roots": {}}))], ids=ERAS
)
def test_stdio_messages_are_utf_8_under_any_locale_and_contain_nothing_that_a_tool_prints(
    opening: list[Object], call: Callable[[str, Object, int], Object]
) -> None:
    text = "caf\u00e9 \u2028\n\U0001f600"
    env = {**os.environ, "LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "latin-1"}
    echo: Object = {"name": "echo", "arguments": {"text": text}}
    answers = talk([*opening, call("tools/call", {"name": "noisy"}, 1), call("tools/call", echo, 2)], env=env)
    found = {answer["id"]: result_of(answer) for answer in answers}  # only responses, each on a line
    assert len(found) == len(opening[:1]) + 2
    assert "stdin: ''b''" in json.dumps(found[1])  # and its children get no input
    assert found[2]["content"] == [{"type": "text", "text": text}]


CLAIMS = """
import os
from mcp_ref.transports.stdio.server import claimed_stdio

with claimed_stdio() as (source, sink):
    print("printed inside", flush=True)
    os.set_blocking(source, False)
    os.set_blocking(sink, False)
    os.write(sink, b"hidden input: %r, " % os.read(0, 9))
assert os.get_blocking(0) and os.get_blocking(1)
print("input afterwards:", input())
"""


def test_standard_input_and_output_are_the_programs_own_again_after_serving() -> None:
    done = subprocess.run(python(CLAIMS), input=b"a line\n", capture_output=True, timeout=PATIENCE)
    assert (done.stdout, done.stderr) == (b"hidden input: b'', input afterwards: a line\n", b"printed inside\n")


CLOSES_STDOUT = """
import sys
from mcp_ref.transports.stdio.server import claimed_stdio

with claimed_stdio():
    print("noise")
    sys.stdout.close()
print("end", file=sys.stderr)
"""


def test_stdio_server_exits_normally_although_a_tool_has_closed_its_standard_output() -> None:
    done = subprocess.run(python(CLOSES_STDOUT), capture_output=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"noise\nend\n")


def test_stdio_server_without_a_standard_error_sends_no_printed_text() -> None:
    """Do not let a `print` write into another file that has the descriptor 2, such as a copy of stdin."""
    command = ["sh", "-c", 'exec "$@" 2>&-', "sh", *server_command()]
    answers = talk_over_a_socket(command, [*HANDSHAKE, NOISY_CALL])
    assert [answer["id"] for answer in answers] == ["init", 1] and not result_of(answers[1]).get("isError")


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_stdio_server_without_a_standard_input_or_output_says_what_is_missing(closed: str) -> None:
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", *server_command()]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == b"RuntimeError: standard input and standard output must be open"


def test_requests_right_before_the_end_of_the_input_are_answered() -> None:
    answers = talk([*HANDSHAKE, *(request("ping", id=id) for id in range(300))])
    assert sorted(answer["id"] for answer in answers[1:]) == list(range(300))  # type: ignore[type-var]


def test_stdio_server_input_and_output_may_be_files_or_a_socket(tmp_path: Path) -> None:
    messages = [*HANDSHAKE, request("ping", id=9)]
    (tmp_path / "in").write_bytes(lines_of(messages))
    with open(tmp_path / "in", "rb") as source, open(tmp_path / "out", "wb") as sink:
        subprocess.run(quick_server_command(), stdin=source, stdout=sink, timeout=20, check=True)
    over_files = [json.loads(line) for line in (tmp_path / "out").read_bytes().splitlines()]
    for answers in (over_files, talk_over_a_socket(quick_server_command(), messages)):
        assert [answer["id"] for answer in answers] == ["init", 9]


def test_stdio_server_without_input_exits_at_once() -> None:
    """Read /dev/null, for which the event loop cannot wait: epoll refuses it."""
    done = subprocess.run(server_command(), stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux that is always full")
def test_stdio_server_whose_output_cannot_be_written_exits_without_a_traceback() -> None:
    with open("/dev/full", "wb") as sink:
        done = subprocess.run(
            server_command(), input=lines_of(HANDSHAKE), stdout=sink, stderr=subprocess.PIPE, timeout=20
        )
    assert (done.returncode, done.stderr) == (0, b"")


def test_server_with_all_slots_used_exits_soon_after_the_end_of_its_input() -> None:
    excess = 39  # one by one, these calls would take 39 s, longer than `talk` waits
    calls = [request("tools/call", {"name": "wait"}, number) for number in range(2 * Limits().max_in_flight + excess)]
    assert talk([*HANDSHAKE, *calls])[0]["id"] == "init"


@pytest.mark.parametrize(
    ("tool", "number"), [("wait", None), ("block", None), ("wait", signal.SIGINT), ("wait", signal.SIGTERM)]
)
@pytest.mark.spec("2024-11-05..2025-11-25/basic/lifecycle#stdio-1")
def test_stdio_server_exits_soon_after_the_end_of_its_input_or_a_signal_even_during_a_tool_call(
    tool: str, number: signal.Signals | None
) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen(server_command(), stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        process.stdin.write(lines_of([*HANDSHAKE, request("tools/call", {"name": tool}, 2), request("ping", id=3)]))
        process.stdin.flush()
        assert [json.loads(process.stdout.readline())["id"] for _ in range(2)] == ["init", 3]
        if number is None:
            process.stdin.close()
        else:
            process.send_signal(number)
        assert process.wait(PATIENCE) == 0
        said = process.stderr.read()
        assert b"Traceback" not in said and (number is None or said == b"")


# ------------------------------------------------------------------------------------------------ our client

GARBAGE = "import sys\nfor line in sys.stdin:\n    print('Content-Length: 5', flush=True)\n"
MALFORMED = """
import json, sys
for line in sys.stdin:
    print(json.dumps({"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": {}}), flush=True)
"""


@pytest.mark.parametrize(
    ("command", "error", "why"),
    [
        (["no-such-command-anywhere"], ConnectionClosed, "no-such-command-anywhere"),
        (["server.py"], ConnectionClosed, "write python3 server.py$"),
        (["build/index.js"], ConnectionClosed, "write node build/index.js$"),
        (["127.0.0.1:8000/mcp"], ConnectionClosed, "write http://127.0.0.1:8000/mcp$"),
        (["localhost:8000"], ConnectionClosed, "write http://localhost:8000$"),
        (["example.com/mcp"], ConnectionClosed, "write http://example.com/mcp$"),
        (["ws://localhost:8000/mcp"], ConnectionClosed, "write http://localhost:8000/mcp$"),
        (["npx -y server"], ConnectionClosed, "write npx -y server, as separate words$"),
        (["python3 server.py"], ConnectionClosed, "write python3 server.py, as separate words$"),
        (["server"], ConnectionClosed, "is it installed, and on the PATH?"),
        (["./bin/server"], ConnectionClosed, "is it installed, and on the PATH?"),
        (["bin/server"], ConnectionClosed, "is it installed, and on the PATH?"),
        (["cat"], ConnectionClosed, "repeats our messages: it is not an MCP server"),
        (python("pass"), ConnectionClosed, r"exited with code 0 and .*; is a call such as `server.run\(\)` missing"),
        (python(MALFORMED), InvalidMessage, "protocolVersion"),
        (python(GARBAGE), TimeoutError, "initialize: no response within"),
    ],
    ids=lambda value: value[-1][-30:] if isinstance(value, list) else "",
)
async def test_client_of_a_command_without_a_server_says_why_it_cannot_connect(
    command: list[str], error: type[Exception], why: str
) -> None:
    with pytest.raises(error, match=why):
        await Client(command, timeout=0.5 if error is TimeoutError else PATIENCE).connect()


async def test_text_that_a_server_prints_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with Client(
        quick_server_command("print('Starting up ...', 7, flush=True)\nprint(42, flush=True)\n")
    ) as client:
        await client.ping()
    advice = "if a `print` in the server wrote this, print to standard error"
    assert [record.getMessage() for record in caplog.records if record.name.startswith("mcp_ref")] == [
        f"ignored an invalid JSON-RPC message: 'Starting up ... 7'; {advice}",
        f"ignored an invalid JSON-RPC message: '42'; {advice}",
    ]


@pytest.mark.skipif(os.name == "nt", reason="sleep")
async def test_server_that_has_sent_nothing_is_ended_without_the_grace() -> None:
    transport = StdioClientTransport(["sleep", "1000"], grace=1000.0)  # longer than this test may take
    with pytest.raises(RequestTimeout, match=r"server/discover and initialize: no response within 0\.5 seconds"):
        await Client(transport, timeout=0.5).connect()


def test_run_at_a_terminal_says_that_it_waits_for_a_client() -> None:
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    try:
        os.write(ours, b"\x04")
        done = subprocess.run(server_command(), stdin=theirs, capture_output=True, timeout=20, check=True)
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.stdout == b"" and done.stderr.decode().startswith("under-test: waiting for the messages of a client")


async def test_stdio_server_that_exits_at_once_is_reported_with_its_exit_code_and_standard_error() -> None:
    with pytest.raises(ConnectionClosed, match=r"(?s)exited with code 3.*cannot start: no config$") as caught:
        await Client(python("sys.exit(print('cannot start: no config', file=sys.stderr) or 3)")).connect()
    assert caught.value.__context__ is None, "the traceback shows the error of the second attempt only"


@pytest.mark.parametrize(
    ("number", "expected"),
    [(None, "exited with code 5"), (signal.SIGKILL, "killed by signal SIGKILL"), (40, "killed by signal 40")],
)
async def test_stdio_server_that_dies_fails_all_calls_in_flight_without_the_grace(
    number: int | None, expected: str
) -> None:
    grace = 1000.0  # longer than this test may take
    async with Client(
        StdioClientTransport(server_command(), grace=grace), revision="2025-11-25", timeout=None
    ) as client:
        waiting = [asyncio.create_task(client.call_tool("wait")) for _ in range(3)]
        await client.ping()
        if number is None:
            waiting.append(asyncio.create_task(client.call_tool("leave", {"code": 5})))
        else:
            transport = client.session.transport
            assert isinstance(transport, StdioClientTransport) and transport.pid is not None
            os.kill(transport.pid, number)
        for call in waiting:
            with pytest.raises(ConnectionClosed, match=expected):
                await call
        with pytest.raises(ConnectionClosed):
            await client.ping()


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return (
        "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3] if os.path.isdir("/proc/self") else True
    )


@pytest.mark.spec("2024-11-05..2025-11-25/basic/lifecycle#stdio-1")
@pytest.mark.parametrize("stubborn", ["", "signal.signal(signal.SIGTERM, signal.SIG_IGN)"])
def test_closing_leaves_no_process_behind_grandchildren_included(stubborn: str, tmp_path: Path) -> None:
    """Close a wrapper that ignores all signals, and a grandchild that would live on."""
    source = f"""
import signal, subprocess, sys
{stubborn}
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stdin=subprocess.DEVNULL)
open({str(tmp_path / "pid")!r}, "w").write(str(child.pid))
real = subprocess.Popen([sys.executable, "-c", {SERVER!r}], env={{"PYTHONPATH": {str(HOME)!r}}})
import time
time.sleep(600)
"""

    async def test() -> int:
        transport = StdioClientTransport(python(source), grace=0.3)
        async with Client(transport) as client:
            await client.ping()
            assert transport.pid is not None
            return transport.pid

    pid = run(test())
    grandchild = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + PATIENCE
    while (_alive(pid) or _alive(grandchild)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _alive(pid)
    assert not _alive(grandchild)


async def test_stdio_client_leaves_nothing_behind_after_cancelled_connects() -> None:
    clients = [Client(StdioClientTransport(["sleep", "600"], grace=0.2)) for _ in range(25)]
    tasks = [asyncio.create_task(client.connect()) for client in clients]
    await asyncio.sleep(0.05)
    for task in tasks:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(result, asyncio.CancelledError) for result in results)


async def test_connect_and_close_may_happen_in_different_tasks_and_close_many_times_at_once() -> None:
    client = Client(server_command())
    await asyncio.create_task(client.connect())
    await client.ping()
    await asyncio.gather(*(client.close() for _ in range(100)))
    with pytest.raises(ConnectionClosed):
        await client.ping()


async def test_stdio_client_reads_all_of_the_standard_error_and_keeps_its_end() -> None:
    seen: list[bytes] = []
    async with Client(quick_server_command(), on_stderr=seen.append) as client:
        result = await client.call_tool("chatter", {"size": 1_000_000})
        assert result.structured_content == 1_000_000
        transport = client.session.transport
        assert isinstance(transport, StdioClientTransport)
        await client.ping()
    assert sum(map(len, seen)) == 1_000_000
    assert transport.stderr_tail == b"e" * 8192


async def test_stdio_server_inherits_only_the_listed_variables_and_those_of_the_caller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    assert "AWS_SECRET_ACCESS_KEY" not in server_environment()
    assert server_environment({"A": "1"})["A"] == "1"
    async with Client(server_command(), env={"GIVEN": "yes"}) as client:
        seen = (await client.call_tool("environment")).structured_content
        assert isinstance(seen, dict)
        assert seen["GIVEN"] == "yes"
        assert seen["PATH"] == os.environ["PATH"]
        assert "AWS_SECRET_ACCESS_KEY" not in seen
        assert set(seen) - {"GIVEN", "LC_CTYPE", "_", "PWD", "SHLVL"} <= set(INHERITED_VARIABLES)


async def test_large_messages_pass_both_ways() -> None:
    async with Client(quick_server_command()) as client:
        text = "\u00e9" * 500_000
        assert (await client.call_tool("echo", {"text": text})).text == text


async def test_stdio_response_over_the_maximum_line_fails_its_call_and_the_next_one_works() -> None:
    async with Client(StdioClientTransport(quick_server_command(), max_line=10_000)) as client:
        with pytest.raises(InvalidMessage, match="longer than 10000 bytes"):
            await client.call_tool("echo", {"text": "x" * 20_000})
        await client.ping()


async def test_stdio_request_over_the_maximum_line_is_refused_with_its_id_and_the_next_one_works() -> None:
    limited = SERVER.replace(
        "server.run()",
        "from mcp_ref.transports.stdio.server import StdioServerTransport\n"
        "    StdioServerTransport.__init__.__kwdefaults__['max_line'] = 10_000\n"
        "    server.run()",
    )
    async with Client(python(limited)) as client:
        with pytest.raises(RemoteError, match="longer than 10000 bytes"):
            await client.call_tool("echo", {"text": "x" * 20_000})
        await client.ping()


def test_stdio_client_refuses_a_command_in_one_string_with_advice() -> None:
    with pytest.raises(TypeError, match=r'\["python3", "server.py"\]'):
        StdioClientTransport("python3 server.py")


def test_stdio_client_that_never_reads_stalls_only_itself() -> None:
    """Flood a server with requests and read nothing: its memory stays bounded, and once read, every answer is there."""
    with subprocess.Popen(server_command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(lines_of(HANDSHAKE))
        process.stdout.readline()
        os.set_blocking(process.stdin.fileno(), False)
        sent, frame, arguments = 0, b"", Object(text="x" * 10_000)
        idle_since = time.monotonic()
        while time.monotonic() - idle_since < 0.5 and sent < 4000:
            frame = frame or lines_of([request("tools/call", {"name": "echo", "arguments": arguments}, sent)])
            try:
                frame = frame[os.write(process.stdin.fileno(), frame) :]
            except BlockingIOError:
                time.sleep(0.01)
                continue
            idle_since = time.monotonic()
            sent += not frame
        assert sent < 4000, "the server kept on reading although nobody took its answers"
        if sys.platform == "linux":
            status = Path(f"/proc/{process.pid}/status").read_text()
            resident = int(status.split("VmRSS:")[1].split()[0])
            assert resident < 80_000, f"{resident} kB"
        os.set_blocking(process.stdin.fileno(), True)
        output, _ = process.communicate(frame, timeout=20)
        assert {json.loads(line)["id"] for line in output.splitlines()} >= set(range(sent))
        assert process.returncode == 0


async def test_stdio_server_whose_client_leaves_does_not_wait_until_the_client_reads() -> None:
    source, feeder = os.pipe()
    unread, sink = os.pipe()
    transport = StdioServerTransport(source, sink)
    await transport.start(lambda incoming: None, lambda error: None)
    while transport._writable.is_set():
        transport.send(Response(1, {"text": "x" * 10_000}))
    waiting = asyncio.create_task(transport.drain())
    await asyncio.sleep(0)
    os.close(feeder)
    await asyncio.wait_for(waiting, PATIENCE)
    os.close(unread)
    await transport.close()
    for descriptor in (source, sink):
        os.close(descriptor)


async def test_stdio_client_that_pauses_reading_gets_the_last_output_of_a_server_that_ends() -> None:
    received, ended = list[Incoming](), asyncio.Event()
    program = """input(); print('{"jsonrpc": "2.0", "id": 1, "result": {}}')"""
    transport = StdioClientTransport(python(program))
    await transport.start(received.append, lambda error: ended.set())
    pipe = transport._input()
    transport.pause_reading()
    assert pipe is not None and not pipe.is_reading()
    transport.send(Request(1, "ping"))
    await asyncio.wait_for(ended.wait(), PATIENCE)
    assert received == [Response(1, {})]
    await transport.close()


async def test_stdio_client_sends_nothing_before_the_start_and_after_the_end(caplog: pytest.LogCaptureFixture) -> None:
    transport = StdioClientTransport(["cat"])
    transport.send(Request(1, "ping"))
    received: list[Incoming] = []
    await transport.start(received.append, lambda error: None)
    await transport.close()
    for _ in range(10):  # asyncio warns of the fifth write to a closed pipe
        transport.send(Request(1, "ping"))
    assert (received, caplog.text) == ([], "")


async def test_stdio_client_that_closes_reads_further_output_only_for_a_trace() -> None:
    for trace, expected in (
        (None, [Response(1, {})]),
        (lambda direction, frame: None, [Response(1, {}), Response(2, {})]),
    ):
        transport, received = StdioClientTransport(["sh"], trace=trace), list[Incoming]()
        transport._lines.receive = received.append
        transport.pipe_data_received(1, b'{"jsonrpc": "2.0", "id": 1, "result": {}}\n')
        await transport.close()
        transport.pipe_data_received(1, b'{"jsonrpc": "2.0", "id": 2, "result": {}}\n')
        assert received == expected


@pytest.mark.parametrize("is_queued", [False, True], ids=["sent at once", "queued"])
@pytest.mark.parametrize("batch", [False, True], ids=["one message", "batch"])
async def test_requests_to_a_closed_input_fail_with_the_reason_in_standard_error(
    is_queued: bool, batch: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio_client, "EXIT_SECONDS", 0)
    transport, failed = StdioClientTransport(["sh"]), asyncio.Queue[Incoming]()
    transport._lines.receive = failed.put_nowait
    if is_queued:
        transport.data_received(b"")
    messages: list[Message] = [Request(1, "ping"), Notification("notifications/initialized"), Request(2, "ping")]
    for message in [Batch([*messages])] if batch else messages:
        transport.send(message)
    transport.pipe_data_received(2, b"no such table")  # after the write, before the end is noticed
    for id in (1, 2):
        failure = await asyncio.wait_for(failed.get(), PATIENCE)
        assert isinstance(failure, RequestFailure) and failure.unsent and failure.id == id
        assert failure.reason.endswith("; its standard error ends with:\nno such table")


async def test_many_messages_to_a_closed_input_report_the_end_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio_client, "EXIT_SECONDS", 0.01)
    transport, failed, ends = StdioClientTransport(["sh"], grace=0), asyncio.Queue[Incoming](), list[object]()
    transport._lines.receive = failed.put_nowait
    transport._end_report.deliver_to(ends.append)
    for id in (1, 2, 3):
        transport.send(Request(id, "ping"))
    for _ in range(3):
        await asyncio.wait_for(failed.get(), PATIENCE)
    assert len(ends) == 1


@pytest.mark.parametrize("end", ["the server closes its input", "the server exits", "the client closes"])
async def test_stdio_client_whose_server_leaves_does_not_wait_until_the_server_reads(end: str, tmp_path: Path) -> None:
    full = tmp_path / "full"
    os.mkfifo(full)
    command = "exec 3<&0; sleep 600 & read line"  # a child process keeps the server's input open
    if end == "the server closes its input":
        command = 'read line <"$1"; exec 0<&-; exec sleep 600'
    transport = StdioClientTransport(["sh", "-c", command, "sh", str(full)], grace=0.1)
    await transport.start(lambda incoming: None, lambda error: None)
    while transport._writable.is_set():
        transport.send(Request(1, "ping", {"text": "x" * 10_000}))
    waiting = asyncio.create_task(transport.drain())
    await asyncio.sleep(0)
    if end == "the server closes its input":
        full.write_text("\n")
    closing = asyncio.create_task(transport.close()) if end == "the client closes" else None
    await asyncio.wait_for(waiting, PATIENCE)
    await (closing or transport.close())


async def test_client_that_reads_slowly_after_the_end_of_input_gets_every_response(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, calls, clock = Server("slow"), 60, Clock()
    monkeypatch.setattr(stdio_server, "time", SimpleNamespace(monotonic=clock))

    @server.tool()
    async def large() -> str:
        return "x" * 40_000

    to_server, from_client = os.pipe()
    to_client, from_server = os.pipe()
    serving = asyncio.create_task(server.serve(StdioServerTransport(to_server, from_server)))
    requests = [request("tools/call", {"name": "large"}, number) for number in range(calls)]
    os.write(from_client, lines_of([*HANDSHAKE, *requests]))
    os.close(from_client)

    def read_slowly() -> int:
        lines = 0
        while data := os.read(to_client, 64 * 1024):
            lines += data.count(b"\n")
            clock.now += 0.4 * stdio_server.FLUSH_SECONDS
        return lines

    reading = asyncio.create_task(asyncio.to_thread(read_slowly))
    await serving
    os.close(from_server)
    assert await reading == calls + 1
    os.close(to_server)
    os.close(to_client)
