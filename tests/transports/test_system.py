"""The differences between operating systems. The choices for Windows are tested on the system at hand."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

from mcp_ref import Client, ConnectionClosed
from mcp_ref.jsonrpc.messages import Incoming, Notification
from mcp_ref.transports import system
from mcp_ref.transports.stdio import server as stdio_server
from mcp_ref.transports.stdio.client import StdioClientTransport, server_environment
from mcp_ref.transports.stdio.server import StdioServerTransport
from mcp_ref.transports.system import MAX_UNSENT, Posix, Windows
from tests.forked_python import python
from tests.settings import PATIENCE, eventually

pytestmark = pytest.mark.skipif(os.name == "nt", reason="these tests use programs and signals of POSIX")

SERVER = """
from mcp_ref import Server
from mcp_ref.transports import system

system.SYSTEM = system.Windows()
server = Server("s")

@server.tool()
def echo(text: str) -> str:
    return text

server.run()
"""


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the choices for Windows, except the flags that only Windows has. Programs need no ending such as .exe."""
    monkeypatch.setenv("PATHEXT", ";.CMD")
    monkeypatch.setattr(system, "SYSTEM", Windows())
    monkeypatch.setattr(Windows, "creation_flags", 0)


def test_pipes_and_sockets_are_pollable_and_plain_files_are_not(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    first, second = socket.socketpair()
    with first, second, (tmp_path / "file").open("wb") as file:
        descriptors = [reading, writing, first.fileno(), file.fileno()]
        assert [Posix().is_pollable(each) for each in descriptors] == [True, True, True, False]
        assert not any(Windows().is_pollable(each) for each in descriptors)
    os.close(reading)
    os.close(writing)


async def test_windows_server_reads_and_writes_in_threads() -> None:
    async with Client(python(SERVER)) as client:
        for size in (1, MAX_UNSENT * 5):
            assert (await client.call_tool("echo", {"text": "x" * size})).text == "x" * size


async def test_windows_server_whose_client_does_not_read_keeps_its_event_loop_free(windows: None) -> None:
    source, feeder = os.pipe()
    reader, sink = os.pipe()
    received: list[Incoming] = []
    transport = StdioServerTransport(source, sink)
    await transport.start(received.append, lambda error: None)
    transport.send(Notification("n", {"text": "x" * (1 << 20)}))  # more than a pipe takes
    waiting = asyncio.create_task(transport.drain())
    os.write(feeder, b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    await eventually(lambda: received)
    assert not waiting.done()
    size = 0
    while size < 1 << 20:
        size += len(await asyncio.to_thread(os.read, reader, 1 << 16))
    await asyncio.wait_for(waiting, PATIENCE)
    await transport.close()
    for each in (feeder, reader, source, sink):
        os.close(each)


@dataclass
class PausedServer:
    """A server's transport that does not read, and the client's ends of its pipes."""

    transport: StdioServerTransport
    feeder: int
    reader: int
    ended: asyncio.Event


@contextlib.asynccontextmanager
async def paused_server() -> AsyncIterator[PausedServer]:
    """Yield a paused server. Its client must close the server's input, and the server must then end."""
    source, feeder = os.pipe()
    reader, sink = os.pipe()
    ended = asyncio.Event()
    transport = StdioServerTransport(source, sink)
    await transport.start(lambda message: None, lambda error: ended.set())
    transport.pause_reading()
    yield PausedServer(transport, feeder, reader, ended)
    await asyncio.wait_for(ended.wait(), PATIENCE)
    await transport.close()
    for each in (reader, source, sink):
        os.close(each)


async def test_stdio_server_that_does_not_read_notices_that_the_client_has_closed_its_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stdio_server, "PAUSED_CHECK_SECONDS", 0.001)
    async with paused_server() as server:
        os.write(server.feeder, b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        await asyncio.sleep(0.02)  # several checks
        assert not server.ended.is_set()
        os.close(server.feeder)


async def test_stdio_server_that_does_not_read_serves_a_client_that_has_closed_its_input_and_reads_slowly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stdio_server, "PAUSED_CHECK_SECONDS", PATIENCE)  # so that only this test calls the check
    async with paused_server() as server:
        transport = server.transport
        transport.send(Notification("notifications/message", {"level": "info", "data": "x" * 2_000_000}))
        os.close(server.feeder)
        while unread := transport._unread():
            os.read(server.reader, 65536)
            await eventually(lambda before=unread: transport._unread() < before)  # type: ignore[misc]
            transport._check_paused_input(unread)
            assert not server.ended.is_set()
        transport._check_paused_input(0)  # the client has read nothing since the last check


def test_windows_server_ends_at_ctrl_c_while_its_thread_reads() -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen(python(SERVER), stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        process.stdin.flush()
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
        assert process.stderr.read() == b""


def program(path: Path) -> str:
    """Write a program, and return its path."""
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_windows_program_is_found_with_the_endings_of_pathext(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATHEXT", ".EXE;.CMD")
    npx, python3 = program(tmp_path / "npx.CMD"), program(tmp_path / "python3.EXE")
    find, path = Windows().find_program, str(tmp_path)
    assert find(["npx", "-y", "server", "C:\\a b"], path, None) == [npx, "-y", "server", "C:\\a b"]
    assert find(["python3", "a&b"], path, None) == find(["python3.EXE", "a&b"], path, None) == [python3, "a&b"]
    with pytest.raises(OSError, match="not safe for the batch file"):
        find(["npx", "%PATH%"], path, None)
    with pytest.raises(FileNotFoundError, match="'unknown'"):
        find(["unknown", "%"], path, None)


@pytest.mark.attack("program-in-current-directory")
@pytest.mark.parametrize(("platform", "name"), [(Posix(), "our-npx"), (Windows(), "our-npx.cmd")])
def test_program_without_a_folder_is_found_in_absolute_folders_of_the_path_only(
    platform: Posix, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATHEXT", ".exe;.cmd")
    monkeypatch.chdir(tmp_path)
    here, real = program(tmp_path / name), program(tmp_path / "bin" / name)
    for path in (None, "", ".", ":", "./bin", "bin", ":/nowhere:"):
        with pytest.raises(FileNotFoundError):
            platform.find_program(["our-npx"], path, tmp_path)
    assert platform.find_program(["our-npx", "a"], f":.:bin:{tmp_path / 'bin'}", None) == [real, "a"]
    assert platform.find_program([f"./{name}"], "", tmp_path)[0] == f"{tmp_path}/./{name}"
    assert platform.find_program([f"../{name}"], "", "bin")[0] == f"{tmp_path}/bin/../{name}"
    Path(here).chmod(0o644)
    with pytest.raises(PermissionError):
        platform.find_program([here], "", None)


@pytest.mark.attack("file-of-another-user")
def test_file_is_shared_if_another_user_can_change_or_replace_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    path = Path(program(folder / "mcp.json"))
    (tmp_path / "link").symlink_to("folder/../folder")  # `folder` and its link are checked
    is_shared, linked = Posix().is_shared, str(tmp_path / "link" / "mcp.json")
    assert (is_shared(str(path)), is_shared(linked)) == (False, False)
    for changed, mode, found in ((path, 0o646, True), (folder, 0o777, True), (folder, 0o1777, False)):
        before = changed.stat().st_mode
        changed.chmod(mode)
        assert (is_shared(str(path)), is_shared(linked)) == (found, found)
        changed.chmod(before)
    with pytest.raises(FileNotFoundError):
        is_shared(f"{path}x")
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(OSError, match="symbolic links"):
        is_shared(str(tmp_path / "circle"))
    read = os.lstat

    def lstat(path: str) -> os.stat_result:  # the link belongs to another user
        status = read(path)
        return os.stat_result((*status[:4], 54321, *status[5:])) if path.endswith("link") else status

    monkeypatch.setattr(os, "lstat", lstat)
    assert (is_shared(str(path)), is_shared(linked)) == (False, True)


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (OSError("no such file"), "no such file"),
        (NotImplementedError(), "this event loop cannot start processes; on Windows, use asyncio's default loop"),
    ],
)
async def test_windows_server_gets_a_hidden_console_and_a_failed_start_has_a_reason(
    error: Exception, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def subprocess_exec(*command: object, **options: object) -> NoReturn:
        asked.update(options)
        raise error

    asked: dict[str, object] = {}
    monkeypatch.setattr(system, "SYSTEM", Windows())
    monkeypatch.setattr(asyncio.get_running_loop(), "subprocess_exec", subprocess_exec)
    server = program(tmp_path / "server.exe")
    with pytest.raises(ConnectionClosed, match=re.escape(f"cannot start the server {server!r}: {why}")):
        await StdioClientTransport([server]).start(lambda message: None, lambda error: None)
    create_no_window = 0x08000000
    assert (asked["creationflags"], asked["start_new_session"]) == (create_no_window, False)


def test_windows_environment_variables_have_no_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "inherited")
    extra = {"Path": "mine", "Home": None}
    assert server_environment(extra).keys() >= {"PATH", "Path"}
    monkeypatch.setattr(system, "SYSTEM", Windows())
    changed = server_environment(extra)
    assert (changed["PATH"], changed.get("Path"), "HOME" in changed) == ("mine", None, False)


@pytest.mark.attack("batch-file-argument")
@pytest.mark.parametrize("word", ["a&calc", "%PATH%", 'a"b', "a\nb", "a|b", "a>b", "a^b", "!a!"])
async def test_windows_batch_file_with_an_unsafe_argument_is_not_started(
    word: str, windows: None, tmp_path: Path
) -> None:
    path = program(tmp_path / "npx.CMD")
    with pytest.raises(ConnectionClosed, match=f"is not safe for the batch file {re.escape(path)}"):
        await Client([path, word]).connect()


async def test_windows_client_first_asks_a_server_and_its_child_processes_to_end_and_then_ends_them_with_taskkill(
    windows: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    taskkill, log = tmp_path / "System32" / "taskkill.exe", tmp_path / "log"
    taskkill.parent.mkdir()
    taskkill.write_text(f"#!/bin/sh\necho $* >> {log}\ncase $* in *F) kill -KILL $2; esac\n")
    taskkill.chmod(0o755)
    monkeypatch.setenv("SYSTEMROOT", str(tmp_path))  # a taskkill.exe in the current directory must not run
    transport = StdioClientTransport(["sleep", "600"], grace=0.1)
    await transport.start(lambda message: None, lambda error: None)
    await transport.close()
    assert log.read_text() == f"/PID {transport.pid} /T\n/PID {transport.pid} /T /F\n"
