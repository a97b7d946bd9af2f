"""The way to a server: it is started or met, found to speak one era or the other, asked, lost and reached again.

    Address -> transport -> ClientConnection -> greet -> ask ... ask -> close
                                 the process ended: a new one, in the stateless era

Spec:  basic/lifecycle; 2026-07-28 basic/versioning, basic/transports/stdio#unexpected-termination
Above: client.py. Below: opening.py, client_connection.py, basic/transports
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Callable, Hashable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from ..basic.lifecycle import declares
from ..basic.meta import PaginatedRequestParams
from ..basic.progress import ProgressHandler
from ..features.caching import ServerCache
from ..jsonrpc.errors import ConnectionClosed, ForeignAnswer, InvalidMessage, RemoteError
from ..jsonrpc.messages import INVALID_PARAMS, RequestId
from ..revisions import Era, Revision
from .negotiation import ClientIdentity, ServerIdentity, negotiate
from .session import ClientSession

if TYPE_CHECKING:
    import os

    from ..basic.headers import ParameterHeaders
    from ..jsonrpc.dispatcher import Limits
    from ..lib.http.client import HttpClient
    from ..server.server import Server
    from ..transports.base import Trace, Transport
    from .handlers import ClientHandlers
    from .hearing import News

log = logging.getLogger(__name__)
T = TypeVar("T")

MAX_RESTARTS = 3
"""Times that a server process which ended is started anew before it has answered anything again."""


REPEATABLE = frozenset(
    {
        "server/discover", "tools/list", "prompts/list", "prompts/get", "resources/list", "resources/templates/list",
        "resources/read", "completion/complete", "tasks/get",
    }
)  # fmt: skip
"""Requests that change nothing at the server. A tool's call may; what became of one that was lost nobody knows."""


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """Where a server is, and how it is reached; see `Client`, which takes the same."""

    server: Sequence[str] | str | Server | Transport
    env: Mapping[str, str] | None
    cwd: str | os.PathLike[str] | None
    on_stderr: Callable[[bytes], None] | None
    headers: Mapping[str, str] | None
    http: HttpClient | None
    trace: Trace | None

    @property
    def is_process(self) -> bool:
        """Whether it is a command that we start."""
        return isinstance(self.server, (list, tuple))

    @property
    def is_url(self) -> bool:
        """Whether it is reached over HTTP."""
        return isinstance(self.server, str)

    @property
    def is_within(self) -> bool:
        """Whether it is a `Server` within this program."""
        return hasattr(self.server, "serve")

    @property
    def name(self) -> str | None:
        """What the server is known by, from one client to the next; None for one that has no name."""
        if isinstance(self.server, str):
            return self.server
        return "\0".join(self.server) if isinstance(self.server, (list, tuple)) else None

    @property
    def identity(self) -> Hashable:
        """What tells the server from others, in a cache that clients share. Nobody else comes by a transport's."""
        # The objects themselves, not where they lie in memory: another may lie there later.
        return self.name or (cast("Server", self.server) if self.is_within else self)

    @property
    def credential(self) -> Hashable:
        """Who we are to the server, as far as what it keeps private goes; `http` may show a certificate, or add more.

        What may be secret is not kept in the clear.
        """
        return hashlib.sha256(repr((self.headers, self.env, self.cwd)).encode()).hexdigest(), self.http

    def transport(self, parameters: ParameterHeaders) -> tuple[Transport, asyncio.Task[None] | None]:
        """A transport to it; and what serves a `Server` that is within this program, until its transport is closed."""
        from ..transports.trace import trace_from_environment

        server, trace = self.server, self.trace or trace_from_environment()
        if isinstance(server, (list, tuple)):
            from ..transports.stdio import StdioClientTransport

            return StdioClientTransport(server, env=self.env, cwd=self.cwd, on_stderr=self.on_stderr, trace=trace), None
        if isinstance(server, str):
            if not server.startswith(("http://", "https://")):
                command = 'a command as a list, ["python3", "server.py"]'
                raise TypeError(f"give a URL that begins with http:// or https://, or {command}, not {server!r}")
            from ..transports.streamable_http.client import StreamableHttpClientTransport

            return StreamableHttpClientTransport(
                server, headers=self.headers, http=self.http, trace=trace, parameters=parameters
            ), None
        if self.is_within:
            from ..transports.memory import memory_pair

            ours, theirs = memory_pair(trace)
            return ours, asyncio.get_running_loop().create_task(cast("Server", server).serve(theirs))
        if not hasattr(server, "send"):
            kinds = "a command as a list, a URL, a Server or a transport"
            raise TypeError(f"a client is of {kinds}, not of {server!r}")
        return cast("Transport", server), None


class Page(Protocol):
    """One page of a list."""

    @property
    def next_cursor(self) -> str | None:
        """Where the next page begins; None for the last."""


P = TypeVar("P", bound=Page)


class Connector:
    """The way to one server. timeout: seconds for each request, by default; eras: what is known of servers, by name."""

    def __init__(
        self,
        address: Target,
        answers: ClientHandlers,
        news: News,
        cache: ServerCache,
        timeout: float | None,
        limits: Limits | None,
        eras: MutableMapping[str, Era],
    ) -> None:
        self.address = address
        self.news = news
        self.cache = cache
        self.timeout = timeout
        self.parameters: dict[str, dict[str, tuple[str, ...]]] = {}
        """The arguments that go in headers, by tool, as far as the tools were listed."""
        self._answers = answers
        self._limits = limits
        self._eras = eras
        self._session: ClientSession | None = None
        self._within: asyncio.Task[None] | None = None
        self._server_identity: ServerIdentity | None = None
        self._restarting: asyncio.Task[None] | None = None
        self._restarts = 0
        self._closing = asyncio.Event()

    # ------------------------------------------------------------------------------------- opening and closing

    @property
    def is_open(self) -> bool:
        """Whether it was opened, and the server has said who it is."""
        return self._server_identity is not None

    @property
    def is_used(self) -> bool:
        """Whether it has been opened, even if in vain."""
        return self._session is not None

    async def open(self, ours: ClientIdentity) -> None:
        """Start or reach the server, and find out what it speaks. See `Client` for what this raises."""
        name = self.address.name
        known = self._eras.get(name) if name is not None else None
        connection = await self._begin()
        try:
            self._server_identity = await negotiate(connection, ours, self.timeout, known)
        except (ConnectionClosed, RemoteError) as error:
            if self._closing.is_set():
                raise
            if known == "legacy" and ours.of("modern"):
                # [2026-07-28 basic/versioning#backward-compatibility-with-initialization-based-versions] what was known
                # fails: find out anew
                again: Era | None = None
            elif self.address.is_process and connection.ended.done() and ours.of("legacy") and known != "legacy":
                again = "legacy"  # it ends when it is asked what it does not know
            else:
                raise
            log.debug("the server is asked in the other way: %s", error)
            if connection.ended.done():
                await connection.close()
                connection = await self._begin()
            self._server_identity = await negotiate(connection, ours, self.timeout, again)
        if name is not None and ours.of("modern"):  # else its era was not asked for
            self._eras[name] = self.revision.era

    async def _begin(self) -> ClientSession:
        if self._closing.is_set():
            raise ConnectionClosed("the client was closed")
        connection = self._session = self._make_connection()
        await connection.open()
        return connection

    def _make_connection(self) -> ClientSession:
        transport, self._within = self.address.transport(lambda tool: self.parameters.get(tool, {}))
        return ClientSession(transport, self._limits, self._answers, self.news, self.cache, self._lost)

    async def stay_away(self) -> None:
        """From now on, a server that is lost is not reached again."""
        self._closing.set()
        if self._restarting is not None:
            self._restarting.cancel()
            await asyncio.wait([self._restarting])

    async def close(self) -> None:
        """End the connection, and the server if we started it. Any number of times, from any task."""
        await self.stay_away()
        if self._session is not None:
            await self._session.close()
        if self._within is not None:
            await asyncio.wait([self._within], timeout=5.0)

    # ------------------------------------------------------------------------------------- lost, and reached again

    def _lost(self, connection: ClientSession) -> None:
        """A connection has ended: so do its subscriptions; in the stateless era, a server process is started anew."""
        self.news.lost()
        if connection.has_answered:
            self._restarts = 0
        if connection is not self._session or not self.address.is_process or not self._may_reach_again():
            return
        if not self._is_restarting() and self._restarts < MAX_RESTARTS:
            # [2026-07-28 basic/transports/stdio#unexpected-termination] the client SHOULD restart it
            self._restarting = asyncio.get_running_loop().create_task(self._restart(connection))

    def reaches_again(self) -> bool:
        """Whether a server that was lost can be reached again, without anything that it would have to remember."""
        if not self._may_reach_again():
            return False
        is_there = self._is_restarting() or not self.session.ended.done()
        return self.address.is_url or (self.address.is_process and is_there)

    def _may_reach_again(self) -> bool:
        return not self._closing.is_set() and self._server_identity is not None and self.revision.era == "modern"

    async def rest(self, seconds: float) -> None:
        """Wait before the server is asked again; no longer than until the client is closed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closing.wait()

    def _is_restarting(self) -> bool:
        return self._restarting is not None and not self._restarting.done()

    async def _restart(self, old: ClientSession) -> None:
        """Start the server process anew, until it stays for a moment, or enough is enough."""
        while old.ended.done() and self._restarts < MAX_RESTARTS:
            self._restarts += 1
            log.warning("the server process has ended, and is started anew")
            await old.close()
            new = self._make_connection()
            new.take_over(old)
            self._session = new
            try:
                await new.open()
            except ConnectionClosed as error:
                new.lost(error)
            old = new

    # ------------------------------------------------------------------------------------- who is there

    @property
    def session(self) -> ClientSession:
        """The session with the server. Raises RuntimeError before `connect`."""
        if self._session is None or self._server_identity is None:
            raise RuntimeError("not connected: use `async with Client(...) as client`")
        return self._session

    @property
    def server_identity(self) -> ServerIdentity:
        """What the server has said of itself; RuntimeError before the connection is open."""
        _ = self.session
        assert self._server_identity is not None
        return self._server_identity

    @property
    def revision(self) -> Revision:
        """The revision that is spoken."""
        return self.session.revision

    def server_can(self, capability: str) -> bool:
        """Whether the server declared a capability, such as "tools" or "resources.subscribe"."""
        return declares(self.session.peer_capabilities, capability)

    # ------------------------------------------------------------------------------------- asking

    async def live(self) -> ClientSession:
        """The connection, once a server that is being started anew is there."""
        if self._restarting is not None:
            await asyncio.wait([self._restarting])
        return self.session

    async def ask(
        self,
        method: str,
        params: object,
        result: type[T],
        timeout: float | None,
        max_timeout: float | None = None,
        on_progress: ProgressHandler | None = None,
        before_send: Callable[[RequestId], None] | None = None,
    ) -> T:
        """Send any request of the protocol, and wait for its result. See `Connection.request`.

        In the stateless era, one that was lost on the way, and that changes nothing, is sent once more.
        """
        seconds = timeout if timeout is not None else self.timeout

        async def send() -> T:
            connection = await self.live()
            return await connection.request(
                method,
                params,
                result,
                timeout=seconds,
                max_timeout=max_timeout,
                on_progress=on_progress,
                before_send=before_send,
            )

        try:
            return await send()
        except InvalidMessage:
            self.cache.forget(method)  # or it would be read again, as long as it is fresh
            raise
        except ForeignAnswer:
            raise
        except ConnectionClosed:
            if method not in REPEATABLE or not self.reaches_again():
                raise
        # [2026-07-28 changelog#major-changes] MUST re-issue it as a new request with a new request ID
        return await send()

    async def ask_all(
        self, method: str, page: type[P], items: Callable[[P], list[T]], timeout: float | None
    ) -> list[T]:
        """All items of a list, page by page. items: those of one page. timeout: seconds for each."""
        from ..features.pagination import all_pages

        async def ask(cursor: str | None) -> tuple[list[T], str | None]:
            answer = await self.ask(method, PaginatedRequestParams(cursor), page, timeout)
            return items(answer), answer.next_cursor

        try:
            return await all_pages(ask)
        except RemoteError as error:
            # [2026-07-28 server/utilities/caching#interaction-with-pagination] a cursor from the cache may be invalid
            # by now: SHOULD discard all cached pages
            if error.code != INVALID_PARAMS or not self.cache.forget(method):
                raise
        return await all_pages(ask)
