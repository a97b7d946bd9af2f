"""The demo's connections, over stdio or over Streamable HTTP.

Most chapters are the same over both transports, so this module has only the differences: how a server process starts
and ends, and the chapters about HTTP itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager as AsyncContextManager
from pathlib import Path
from typing import Any

from .. import Client
from ..lib.http.client import HttpClient
from ..transports.stdio.client import StdioClientTransport
from .plain_http import PlainHttp, show_headers, show_session, show_stream
from .screen import Screen

PACKAGE = (__package__ or "").rpartition(".")[0]
"""The import name of this package. It is not just `mcp_ref` if the package is vendored."""

ENVIRONMENT = {"PYTHONPATH": str(Path(__file__).parents[len(PACKAGE.split(".")) + 1])}
"""Environment variables of a server process. PYTHONPATH is the folder or zip file that contains this package."""


def server_command(*options: str) -> list[str]:
    """Return the command that starts the demo's server."""
    return [sys.executable, "-m", PACKAGE, "run", *options, f"{PACKAGE}.demo.server"]


class Connections:
    """The connections of the demo over one transport."""

    introduction: str  # the first sentences of the demo
    crash_error: str  # text in the client's error after the server has crashed
    restarts_server: bool  # True if the client restarts a crashed server

    def connect(
        self, screen: Screen, *options: str, sse: bool = False, **client_options: Any
    ) -> AsyncContextManager[Client]:
        """Connect a client to a server with these server options. `sse`: use HTTP+SSE instead of Streamable HTTP."""
        raise NotImplementedError

    async def modern_transport_chapters(self, screen: Screen) -> None:
        """Show the chapters of the modern era that only this transport has."""

    async def legacy_transport_chapters(self, screen: Screen) -> None:
        """Show the chapters of the legacy era that only this transport has."""

    def show_end(self, screen: Screen) -> None:
        """Show the end of the last connection."""


class StdioConnections(Connections):
    """Connections over stdio: the client starts one server process for each connection."""

    introduction = """A client (this process) and a server (a child process) talk MCP. Each line of the child's stdin
        and stdout is one JSON-RPC message."""
    crash_error = "exited with code 70"
    restarts_server = True

    @contextlib.asynccontextmanager
    async def connect(
        self, screen: Screen, *options: str, sse: bool = False, **client_options: Any
    ) -> AsyncIterator[Client]:
        async with Client(server_command(*options), env=ENVIRONMENT, trace=screen, **client_options) as connected:
            assert isinstance(connected.session.transport, StdioClientTransport)
            self._pid = connected.session.transport.pid or 0
            yield connected

    def show_end(self, screen: Screen) -> None:
        screen.say("There is no closing message: the client closes the server's stdin, and the server exits.")
        if os.name != "nt":  # where signal 0 is Ctrl-C, while elsewhere it only checks that the process exists
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, 0)
                raise AssertionError("the server's process still runs")
        screen.claim("the server's process has ended", True)


class HttpConnections(Connections):
    """Connections over HTTP: a server process listens on a free port and serves any number of clients."""

    introduction = """A client (this process) and a server (another process) talk MCP over Streamable HTTP. Each message
        of the client is the body of a POST. Each message of the server is the body of a response, or an event in a
        stream."""
    crash_error = "ended without a response"
    restarts_server = False

    def __init__(self, exit_stack: contextlib.AsyncExitStack) -> None:
        self._exit_stack = exit_stack
        self._servers: dict[tuple[str, ...], tuple[str, asyncio.subprocess.Process]] = {}  # options -> URL, process

    async def _url(self, *options: str) -> str:
        """Return the URL of a server with these options. Start the server if it does not run."""
        if options in self._servers:
            url, process = self._servers[options]
            if process.returncode is None:
                return url
        process = await asyncio.create_subprocess_exec(
            *server_command("--http", "--port", "0", *options), env={**os.environ, **ENVIRONMENT},
            stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        self._exit_stack.push_async_callback(_stop_process, process)
        assert process.stderr is not None
        url = (await process.stderr.readline()).decode().rpartition(" ")[2].strip()  # "demo: http://..."
        self._servers[options] = url, process
        return url

    @contextlib.asynccontextmanager
    async def connect(
        self, screen: Screen, *options: str, sse: bool = False, **client_options: Any
    ) -> AsyncIterator[Client]:
        url = await self._url(*options)
        if sse:
            url = url.replace("/mcp", "/sse")
            screen.say("Revision 2025-03-26 introduced Streamable HTTP. HTTP+SSE is the older transport.")
            screen.say("The client tries a POST first, which this server refuses, and then opens a stream with a GET.")
        async with Client(url, trace=screen, **client_options) as connected:
            yield connected

    async def modern_transport_chapters(self, screen: Screen) -> None:
        async with HttpClient() as http:
            url = await self._url()
            await show_headers(screen, PlainHttp(screen, http, url))

    async def legacy_transport_chapters(self, screen: Screen) -> None:
        async with HttpClient() as http:
            url = await self._url()
            plain = PlainHttp(screen, http, url)
            session = await show_session(screen, plain)
            await show_stream(screen, plain, session)

    def show_end(self, screen: Screen) -> None:
        screen.say("There is no session to end. The server keeps running for other clients.")
        _, process = self._servers[()]
        screen.claim("the server's process still runs", process.returncode is None)


async def _stop_process(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    await process.communicate()
