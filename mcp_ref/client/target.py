"""The server that a client connects to: a command, a URL, a server in the same program, or a transport.

Spec:  basic/transports
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, cast, runtime_checkable

from ..basic.headers import ParameterHeaders
from ..lib.time_limits import TimeLimits
from ..revisions import Revision
from ..transports.base import Transport
from ..transports.memory import memory_pair
from ..transports.stdio.client import StdioClientTransport, check_command, server_environment
from ..transports.system import chosen_trace
from .options import ClientOptions
from .session import CacheKey


@runtime_checkable
class InProcessServer(Protocol):
    """A server in the same program, such as a `Server`."""

    async def serve(self, transport: Transport) -> None:
        """Serve one client until the client closes the transport."""


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """The server to connect to, the client's options, and the revisions that the client speaks."""

    server: Sequence[str] | str | InProcessServer | Transport
    options: ClientOptions
    revisions: Sequence[Revision]

    def __post_init__(self) -> None:
        headers, authorization = self.options.get("headers") or {}, self.options.get("authorization")
        if isinstance(self.server, (list, tuple)):
            check_command(self.server)
        elif isinstance(self.server, str) and self.server.startswith(("http://", "https://")):
            check_url(self.server, headers)
        elif isinstance(self.server, type) or not isinstance(self.server, (InProcessServer, Transport)):
            kind = 'a command such as ["python3", "server.py"], an http:// or https:// URL, a transport or a Server()'
            raise TypeError(f"the server must be {kind}, not {self.server!r:.200}")
        if authorization is not None and not isinstance(self.server, str):
            raise ValueError("`authorization` is for URLs; a command gets its credentials by `env`")
        if authorization is not None and any(name.lower() == "authorization" for name in headers):
            raise ValueError("give either `authorization` or an Authorization header, not both")

    @property
    def is_process(self) -> bool:
        return isinstance(self.server, (list, tuple))

    @property
    def is_url(self) -> bool:
        return isinstance(self.server, str)

    @property
    def era_key(self) -> str | None:
        """The key in `Client(eras=...)`: a URL, or a command with its folder and environment; else None."""
        if isinstance(self.server, str):
            return self.server
        if not isinstance(self.server, (list, tuple)):
            return None
        try:
            folder = os.path.abspath(self.options.get("cwd") or "")
        except OSError:  # the working directory was deleted, which will make the start fail with an error
            return None
        return "\0".join([*self.server, _digest((folder, server_environment(self.options.get("env"))))])

    @property
    def cache_key(self) -> CacheKey:
        """The server and the user, as keys in a shared cache. Secrets are hashed."""
        server, options = self.server, self.options
        if not isinstance(server, (str, list, tuple)):
            if isinstance(server, InProcessServer):
                return cast("Hashable", server), None  # not its id(), which a later object can get
            return self, None  # a transport belongs to one client, so no other client may share its results
        headers, authorization = options.get("headers") or {}, options.get("authorization")
        # Another directory, variable, header (for a gateway) or `HttpClient` (with its proxy) may mean another server.
        routing = {name: value for name, value in headers.items() if name.lower() not in ("authorization", "cookie")}
        settings = _digest((routing, self.era_key if self.is_process else None))
        server_key = (server if isinstance(server, str) else tuple(server), settings, options.get("http"))
        user = None if authorization is None else authorization.server(cast("str", server)).id
        return server_key, (_digest(headers), user)

    def open(self, mirrored: ParameterHeaders, time_limits: TimeLimits) -> tuple[Transport, asyncio.Task[None] | None]:
        """Return a transport and, for an `InProcessServer`, the asyncio task that serves this client."""
        server, options = self.server, self.options
        trace = chosen_trace(options.get("trace"), "client")
        if isinstance(server, (list, tuple)):
            env, cwd, on_stderr = options.get("env"), options.get("cwd"), options.get("on_stderr")
            return StdioClientTransport(server, env=env, cwd=cwd, on_stderr=on_stderr, trace=trace), None
        if isinstance(server, str):
            from ..transports.streamable_http.client import StreamableHttpClientTransport  # lazy: stdio needs no HTTP

            provider = options.get("authorization")  # of access tokens
            authorize = None if provider is None else partial(
                provider.wrap, url=server, revisions=self.revisions, while_signing_in=time_limits.stopped)  # fmt: skip
            return StreamableHttpClientTransport(
                server, headers=options.get("headers"), http=options.get("http"), trace=trace,
                parameters=mirrored, authorize=authorize, time_limits=time_limits), None  # fmt: skip
        if isinstance(server, InProcessServer):
            ours, theirs = memory_pair(trace)
            return ours, asyncio.create_task(_serve(server, theirs))
        return cast(Transport, server), None


def _digest(settings: object) -> str:
    return hashlib.sha256(repr(settings).encode()).hexdigest()


def check_url(url: str, headers: Mapping[str, str]) -> None:
    """Raise ValueError if a client cannot send requests to the URL with these headers. No connection is opened."""
    from ..lib.http.client import check_request  # lazy: a command needs no HTTP

    check_request(url, headers.items())


async def _serve(server: InProcessServer, transport: Transport) -> None:
    try:
        await server.serve(transport)
    finally:
        await transport.close()  # even if the server failed, so that the client does not wait for it
