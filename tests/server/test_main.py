"""A program that runs only a server: its start, and its effects on the program that called it."""

from __future__ import annotations

import asyncio
import json
import math
import os
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcp_ref import Client, HttpClient, McpError, Server
from tests.messages import initialize, notification, request
from tests.server_programs import Program, serving
from tests.settings import PATIENCE, ROOT, eventually, run


@pytest.mark.parametrize(
    ("run", "advice"),
    [
        (lambda: Server("s").run(), r"use `await server\.serve_stdio\(\)`"),
        (lambda: Server("s").run_http(port=0), r"use `async with server\.serve_http\("),
    ],
    ids=["run", "run_http"],
)
async def test_run_inside_an_event_loop_recommends_the_asynchronous_form(run: Callable[[], None], advice: str) -> None:
    with warnings.catch_warnings(), pytest.raises(RuntimeError, match=advice):
        warnings.simplefilter("error")
        run()


def test_run_http_with_a_port_in_use_ends_with_the_reason() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SystemExit) as ended:
            Server("s").run_http(port=port)
    why = "the port is in use; stop the other program, or choose another port"
    assert ended.value.code == f"s: cannot serve on 127.0.0.1:{port}: {why}"


HOST = """
import signal
from mcp_ref import Server

def stop(number, frame):
    raise SystemExit(7)

for handler in (stop, signal.SIG_IGN, signal.SIG_DFL):
    signal.signal(signal.SIGTERM, handler)
    Server("s").run()
    assert signal.getsignal(signal.SIGTERM) is handler
signal.signal(signal.SIGTERM, stop)
Server("s").run()
signal.raise_signal(signal.SIGTERM)
"""


@pytest.mark.parametrize(
    ("seconds", "error", "reason"),
    [
        ("x", TypeError, "drain_seconds must be float, not str"),
        (True, TypeError, "drain_seconds must be float, not bool"),
        (-1, ValueError, "drain_seconds must be 0 or more, not -1"),
        (math.nan, ValueError, "drain_seconds must be 0 or more, not nan"),
    ],
)
def test_run_http_with_wrong_drain_seconds_raises_before_it_serves(
    seconds: Any, error: type[Exception], reason: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(error, match=f"^{reason}$"):
        Server("s").run_http(port=taken.getsockname()[1], drain_seconds=seconds)


def test_run_restores_the_sigterm_handler_of_the_program() -> None:
    command = [sys.executable, "-c", HOST]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, stdin=subprocess.DEVNULL, timeout=PATIENCE)
    assert (ended.returncode, ended.stderr) == (7, b"")


def test_run_in_a_thread_leaves_the_signals_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)
    source = (
        "import threading; from mcp_ref import Server; program = threading.Thread(target=Server('s').run)\n"
        "program.start(); program.join()"  # while Python exits, no further thread can start
    )
    command = [sys.executable, "-c", source]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, stdin=subprocess.DEVNULL, timeout=PATIENCE)
    assert (ended.returncode, ended.stderr) == (0, b"") and signal.getsignal(signal.SIGTERM) is before


PIPED = """
import asyncio
from mcp_ref import Server

server = Server("s")

@server.middleware
async def wait(request, context, proceed):
    await asyncio.sleep(0.05)
    return await proceed(request)

@server.tool()
async def ok() -> str:
    return "done"

server.run()
"""


@pytest.mark.parametrize("count", [1, 600])
def test_run_responds_to_requests_that_a_slow_initialize_held_up_when_the_input_ended(count: int) -> None:
    # The input has ended before the middleware lets `initialize` pass, so the tool call is still held.
    calls = [request("tools/call", {"name": "ok"}, number) for number in range(count)]
    messages = [initialize(), notification("notifications/initialized"), *calls]
    sent = "".join(json.dumps(message) + "\n" for message in messages)
    command = [sys.executable, "-c", PIPED]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, input=sent, text=True, timeout=PATIENCE)
    responses = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [each["id"] for each in responses if "result" in each] == ["init", *range(count)]


HOSTILE_LOG = r"""
import contextlib, logging
from mcp_ref import Server

@contextlib.asynccontextmanager
async def log_at_start(server):
    logging.getLogger("app").warning("red \x1b[31m")
    yield

Server("s", lifespan=log_at_start).run()
"""


def test_run_escapes_log_records_at_a_terminal() -> None:
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    try:
        command = [sys.executable, "-c", HOSTILE_LOG]
        subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stderr=theirs, timeout=PATIENCE, check=True)
        assert os.read(ours, 1000) == b"red \\u{1b}[31m\r\n"
    finally:
        os.close(ours)
        os.close(theirs)


STUCK = """
import asyncio, logging, sys, threading
from mcp_ref import Server

logging.basicConfig(filename=sys.argv[1], format="%(message)s")
server = Server("s")

@server.tool()
async def ignores() -> None:
    print("half a line", end="", file=sys.stderr)
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass

@server.tool()
def blocks() -> None:
    print("half a line", end="", file=sys.stderr)
    threading.Event().wait()

# The program logs that it exits, when stdout is no longer the transport's.
logging.getLogger("mcp_ref.server.main").addFilter(lambda record: print("bye", end="") is None)
server.run()
"""


@pytest.mark.parametrize(
    ("tool", "reason"),
    [
        ("ignores", "a tool that ignores its cancellation is still running"),
        ("blocks", "a tool is still running in a worker thread"),
    ],
)
def test_run_exits_although_a_tool_cannot_be_ended_and_loses_no_output(tool: str, reason: str, tmp_path: Path) -> None:
    messages = [initialize(), notification("notifications/initialized"), request("tools/call", {"name": tool})]
    sent = "".join(json.dumps(message) + "\n" for message in messages)
    command = [sys.executable, "-B", "-c", STUCK, str(tmp_path / "log")]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}  # which would hide a loss
    ended = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, input=sent, text=True, timeout=PATIENCE)
    assert (ended.returncode, ended.stderr, ended.stdout.splitlines()[-1]) == (0, "half a line", "bye")
    assert (tmp_path / "log").read_text("utf-8").splitlines()[-1] == f"the program exits although {reason}"


SLOW = """
import asyncio, pathlib, sys
from mcp_ref import Server
from mcp_ref.lib.http import server as http_server
from mcp_ref.server import http, listening

http.FINISH_SECONDS = listening.FINISH_SECONDS = http_server.CANCEL_SECONDS = 0.1  # the test waits for all three
server = Server("slow")

@server.tool()
async def wait_for(path: str) -> str:
    pathlib.Path(path + "-begun").touch()
    while not pathlib.Path(path).exists():
        await asyncio.sleep(0.01)
    return "found"

@server.tool()
async def ignore_cancellations(path: str) -> None:
    pathlib.Path(path + "-begun").touch()
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
"""


def test_sigterm_lets_the_calls_of_both_eras_finish_and_exits_with_0(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    flag = tmp_path / "flag"

    async def drain(program: Program) -> None:
        health = program.url.replace("/mcp", "/readyz")
        async with (
            HttpClient() as http,
            Client(program.url) as modern,
            Client(program.url, revision="2025-11-25") as legacy,
        ):
            calls = [asyncio.create_task(each.call_tool("wait_for", {"path": str(flag)})) for each in (modern, legacy)]
            await eventually((tmp_path / "flag-begun").exists)
            await legacy.ping()  # a session starts its requests in order, so its call has begun too
            program.process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(PATIENCE):
                while True:
                    async with http.request("GET", health, {}) as response:
                        if response.status == 503:
                            break
            await legacy.ping()  # sessions go on until their calls have ended
            flag.touch()
            assert [(await each).text for each in calls] == ["found", "found"]

    with serving(tmp_path / "slow.py", "--health") as program:
        run(drain(program))
        assert program.process.wait(PATIENCE) == 0


@pytest.mark.parametrize("tool", ["wait_for", "ignore_cancellations"])
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_second_signal_ends_the_calls_at_once(second: signal.Signals, tool: str, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)

    async def begin(program: Program) -> None:
        async with Client(program.url) as client:
            calling = asyncio.create_task(client.call_tool(tool, {"path": str(tmp_path / "never")}))
            await eventually((tmp_path / "never-begun").exists)
            program.process.send_signal(signal.SIGTERM)
            await asyncio.sleep(0.1)
            assert program.process.poll() is None  # it drains
            await asyncio.to_thread(program.stop, second, PATIENCE)
            with pytest.raises(McpError, match=r"stopped serving the request|the connection ended"):
                await calling

    with serving(tmp_path / "slow.py", "--drain", "60") as program:
        run(begin(program))
