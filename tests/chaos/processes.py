"""The server's process, and a proxy in front of it that delays and cuts connections."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import signal
import sys

from mcp_ref.lib.http.client import HttpClient
from tests.settings import ROOT

State = dict[str, int]
"""The numbers that `tests.chaos.server.held` returns."""

MAX_LOG = 200_000
"""Maximum length of the server's log of one round, in characters."""


class ServerProcess:
    """A process of tests/chaos/server.py that serves over HTTP. It can be killed and started again."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments
        self.log = b""
        """The standard error of the latest process."""

    async def start(self) -> None:
        """Start the process, and wait until it serves."""
        command = [sys.executable, "-m", "tests.chaos.server", *self._arguments]
        self.process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stderr=asyncio.subprocess.PIPE)
        assert self.process.stderr is not None
        async with asyncio.timeout(20):
            line = await self.process.stderr.readline()
        self.log = b""
        self.port = int(line.decode().rpartition(":")[2].partition("/")[0])
        self._reading = asyncio.create_task(self._read_log(self.process.stderr))

    async def _read_log(self, stream: asyncio.StreamReader) -> None:
        while data := await stream.read(65536):
            self.log += data

    async def stop(self, number: signal.Signals, seconds: float = 10.0) -> int:
        """Send a signal, wait at most `seconds` for the end, and return the exit code."""
        self.process.send_signal(number)
        async with asyncio.timeout(seconds):
            code = await self.process.wait()
            await self._reading
        return code

    def check_log(self) -> None:
        """Check that the log is short and contains no unhandled error. Then clear the log."""
        text = self.log.decode(errors="replace")
        signs = ("never retrieved", "was destroyed", "never awaited")
        assert len(text) < MAX_LOG and not any(sign in text for sign in signs), text[-3000:]
        self.log = b""

    def limit(self, kind: int, value: int | None) -> None:
        """Set a soft resource limit of the process. None sets it to the hard limit."""
        hard = resource.prlimit(self.process.pid, kind)[1]
        resource.prlimit(self.process.pid, kind, (hard if value is None else value, hard))

    async def get(self, path: str) -> State:
        """Return the result of a path of tests/chaos/server.py, such as /state. The proxy is not used."""
        async with asyncio.timeout(10), contextlib.AsyncExitStack() as stack:
            http = HttpClient()
            stack.push_async_callback(http.close)
            response = await stack.enter_async_context(http.request("GET", f"http://127.0.0.1:{self.port}{path}", {}))
            found: State = json.loads(await response.read(10_000))
        return found


class Proxy:
    """A TCP proxy between the clients and the server. Its port stays the same when the server starts again."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._tasks: set[asyncio.Task[None]] = set()
        self.delay = 0.0
        """Delay of each piece of data, in seconds."""

    async def start(self) -> None:
        """Listen on a free port."""
        self._listening = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._listening.sockets[0].getsockname()[1]}/mcp"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._server.port)
            writers.append(far_writer)
            pumps = [asyncio.create_task(self._pump(*ends)) for ends in ((reader, far_writer), (far_reader, writer))]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            for each in writers:
                each.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await asyncio.sleep(self.delay)
                writer.write(data)
                await writer.drain()

    def cut(self) -> None:
        """Reset all connections."""
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        """End all connections, and stop listening."""
        self._listening.close()
        self.cut()
        while self._tasks:
            await asyncio.sleep(0.01)
