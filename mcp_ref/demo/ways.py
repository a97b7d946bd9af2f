"""How the demo's client meets the demo's server: over pipes, or over HTTP.

Nearly all of the tour is the same on both ways. What is not is here: how a server is started, what is there besides
messages, how a conversation ends, what becomes of it when the server dies.

Above: `tour.py`. Below: `bare.py`, HTTP without our client. Elsewhere: the transports themselves, which are
basic/transports/stdio.py and streamable_http.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from .. import Client
from ..lib.http.client import HttpClient
from ..transports.stdio import StdioClientTransport
from .bare import Bare, heads, sessions, streams
from .screen import Screen

PACKAGE = (__package__ or "").rpartition(".")[0]
"""This package's name, which is another one where it is vendored."""

IMPORT_PATH = str(Path(__file__).parents[len(PACKAGE.split(".")) + 1])
"""The folder, or zip file, that the package is imported from."""

ENVIRONMENT = {"PYTHONPATH": IMPORT_PATH}
"""What the server process needs to know to find the package, wherever the demo is started."""


def demo_server(*options: str) -> list[str]:
    """The command that starts the demo's server."""
    return [sys.executable, "-m", PACKAGE, "run", *options, f"{PACKAGE}.demo.server"]


Meeting: TypeAlias = contextlib.AbstractAsyncContextManager[Client]
"""A client while it is connected."""


class Way(Protocol):
    """One way to meet a server."""

    about: str
    """What the reader should know about it before anything is shown."""
    death: str
    """What a client is told whose server dies."""
    rebirth: bool
    """Whether the client starts it anew, in the stateless era."""

    def meet(self, screen: Screen, *options: str, older: bool = False, **client: Any) -> Meeting:
        """A client, and the server that it talks to, started with these options. older: by the way's older variant, if
        it has one. client: options of the client."""

    async def own_heads(self, screen: Screen) -> None:
        """Chapters that only this way has, in the stateless era."""

    async def own_sessions(self, screen: Screen) -> None:
        """Chapters that only this way has, in the era of the handshake."""

    def end(self, screen: Screen) -> None:
        """How the last conversation has ended."""


# ---------------------------------------------------------------------------------------------------- over pipes


class OverPipes:
    """stdio: the client starts the server, one process for each conversation."""

    about = """A client (this process) and a server (a child process) talk MCP over the child's stdin and stdout: one
        JSON-RPC message a line."""
    death = "exited with code 70"
    rebirth = True
    _pid: int | None = None

    @contextlib.asynccontextmanager
    async def meet(self, screen: Screen, *options: str, older: bool = False, **client: Any) -> AsyncIterator[Client]:
        """See Way."""
        async with Client(demo_server(*options), env=ENVIRONMENT, trace=screen, **client) as met:
            assert isinstance(met.session.transport, StdioClientTransport)
            self._pid = met.session.transport.pid
            yield met

    async def own_heads(self, screen: Screen) -> None:
        """See Way."""

    async def own_sessions(self, screen: Screen) -> None:
        """See Way."""

    def end(self, screen: Screen) -> None:
        """See Way."""
        screen.say("No message says goodbye: the client closes the server's stdin, and the server exits.")
        screen.claim("the server's process is gone", self._pid is not None and not is_running(self._pid))


def is_running(pid: int) -> bool:
    """Whether there is a process of that number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# ---------------------------------------------------------------------------------------------------- over HTTP


class OverHttp:
    """Streamable HTTP: a server listens, and any number of clients come to it."""

    about = """A client (this process) and a server (another one, which listens on a free port of this machine) talk MCP
        over Streamable HTTP: what the client says is the body of a POST, one JSON-RPC message each; what the server
        says is the body of an answer, or an event in a stream."""
    death = "ended without a response"
    rebirth = False

    def __init__(self, servers: contextlib.AsyncExitStack) -> None:
        self._servers = servers
        self._processes: dict[tuple[str, ...], tuple[str, asyncio.subprocess.Process]] = {}

    async def _serve(self, *options: str) -> str:
        """The URL of a server with these options, which is started when it is first asked for."""
        found = self._processes.get(options)
        if found is None or found[1].returncode is not None:
            process = await asyncio.create_subprocess_exec(
                *demo_server("--http", "--port", "0", *options), env={**os.environ, **ENVIRONMENT},
                stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            self._servers.push_async_callback(_stop, process)
            assert process.stderr is not None
            url = (await process.stderr.readline()).decode().rpartition(" ")[2].strip()  # "demo: http://..."
            found = self._processes[options] = url, process
        return found[0]

    @contextlib.asynccontextmanager
    async def meet(self, screen: Screen, *options: str, older: bool = False, **client: Any) -> AsyncIterator[Client]:
        """See Way."""
        url = await self._serve(*options)
        if older:
            url = url.replace("/mcp", "/sse")
            screen.say(
                """Streamable HTTP came with 2025-03-26. Before it there was HTTP+SSE: one stream for all that the
                server says. The client finds that out: its first POST is refused, so it opens that stream instead."""
            )
        async with Client(url, trace=screen, **client) as met:
            yield met

    async def own_heads(self, screen: Screen) -> None:
        """See Way."""
        async with HttpClient() as http:
            await heads(screen, Bare(screen, http, await self._serve()))

    async def own_sessions(self, screen: Screen) -> None:
        """See Way."""
        async with HttpClient() as http:
            bare = Bare(screen, http, await self._serve())
            session = await sessions(screen, bare)
            await streams(screen, bare, session)

    def end(self, screen: Screen) -> None:
        """See Way."""
        screen.say("There is nothing to end: no session, no connection that matters. The server stays, for all others.")
        screen.claim("the server's process runs on", self._processes[()][1].returncode is None)


async def _stop(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    await process.communicate()
