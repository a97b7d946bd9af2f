"""The blocking client: an ordinary program's view, with real servers within it and as processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from mcp_ref import Client, Context, Server, SyncClient
from mcp_ref.server.utilities.logging import LoggingMessageNotificationParams
from tests.support import ROOT


def chatty_server() -> Server:
    server = Server("chatty")

    @server.tool()
    async def greet(name: str, context: Context) -> str:
        await context.log("info", "greeting")
        return f"Hello, {name}!"

    return server


def ends(call: Callable[[], object]) -> bool:
    """Whether a call comes to an end by itself."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(10)
    return not thread.is_alive()


def test_a_program_without_asyncio_calls_a_tool() -> None:
    with SyncClient(Client(chatty_server())) as client:
        assert [tool.name for tool in client.list_tools()] == ["greet"]
        assert client.call_tool("greet", {"name": "Ada"}).text == "Hello, Ada!"


def test_a_call_before_the_connection_is_open_or_after_it_was_closed_says_what_to_write() -> None:
    client = SyncClient(Client(chatty_server()))
    errors: list[BaseException] = []

    def call() -> None:
        try:
            client.list_tools()
        except RuntimeError as error:
            errors.append(error)

    assert ends(call)
    with client:
        client.ping()
    assert ends(call)
    assert [str(error) for error in errors] == ["not connected: use `with SyncClient(...) as client`"] * 2


def test_a_callback_that_would_wait_for_its_own_thread_is_told_so() -> None:
    errors: list[str] = []
    client: SyncClient

    def on_log(params: LoggingMessageNotificationParams) -> None:
        try:
            client.ping()
        except RuntimeError as error:
            errors.append(str(error))

    client = SyncClient(Client(chatty_server(), on_log=on_log))

    def session() -> None:
        with client:
            client.call_tool("greet", {"name": "Ada"})

    assert ends(session)
    assert len(errors) == 1
    assert "callback" in errors[0]


@pytest.mark.skipif(os.name == "nt", reason="it sends a signal")
def test_a_connect_that_is_interrupted_leaves_no_server_behind() -> None:
    program = """
import os, sys
from mcp_ref import Client, SyncClient
silent = "import sys, time; print('x', file=sys.stderr, flush=True); time.sleep(600)"
client = SyncClient(Client([sys.executable, "-c", silent], on_stderr=lambda data: print("started", flush=True)))
try:
    with client:
        pass
except KeyboardInterrupt:
    pid = client.client._connection.transport.pid
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        print("nothing is left")
"""
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"started\n"  # and now it waits for the handshake, in vain
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=20)
    assert output == b"nothing is left\n"
