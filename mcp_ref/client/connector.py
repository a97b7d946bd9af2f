"""The part of a client that belongs to no feature: it connects, negotiates, sends messages and reconnects.

    Target.open -> transport -> ClientSession -> negotiate -> requests -> close

If the process of a modern server ends, the client starts the process again. Open requests are lost, but no session,
because a modern server has none [2026-07-28 basic/transports/stdio#unexpected-termination]. If the process of a legacy
server ends, all further requests fail.

If a modern request that changes nothing (`REPEATABLE`) gets no response because the connection was lost, the client
sends the request again with a new id [2026-07-28 changelog#major-changes]. A tool call is never repeated automatically,
because the first call could already have sent a mail or moved money.

Spec:  basic/lifecycle; 2026-07-28 basic/versioning, basic/transports/stdio#unexpected-termination; basic/index;
       2025-03-26 basic/index#batching; server/utilities/pagination, server/utilities/logging
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, MutableMapping
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from ..basic.lifecycle import CapabilityError, Implementation, declares
from ..basic.meta import EmptyResult, RequestParams
from ..basic.progress import ProgressHandler
from ..basic.versioning import LOG_LEVEL
from ..features.caching import ResponseCache
from ..features.pagination import MAX_ITEMS, MAX_PAGES, all_pages
from ..jsonrpc.dispatcher import Limits
from ..jsonrpc.errors import ConnectionClosed, InvalidMessage, RemoteError, UnrecognizedReply
from ..jsonrpc.messages import INVALID_PARAMS, METHOD_NOT_FOUND, Object, RequestId
from ..jsonrpc.time_limits import TimeLimits
from ..revisions import METHODS, SPECIFIED, Era, NotInRevision, Revision
from ..session import load_type
from ..transports.base import Transport, finish
from .negotiation import ClientIdentity, negotiate
from .session import ClientSession
from .target import Target

if TYPE_CHECKING:
    from ..features.custom_methods import CustomMethod
    from ..features.logging import LoggingLevel
    from .handlers import ClientHandlers

log = logging.getLogger(__name__)
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])

MAX_RESTARTS = 3
"""Maximum number of times that the client restarts the server's process without getting a response."""

REPEATABLE = frozenset({
    "server/discover", "tools/list", "prompts/list", "prompts/get", "resources/list", "resources/templates/list",
    "resources/read", "completion/complete", "tasks/get",
})  # fmt: skip
"""The methods that change nothing on the server. A request of these methods can be sent twice without harm."""


class ConnectionState(Enum):
    """The state of the connection. RESTARTING is only for the process of a modern-era server.

    NEW --> CONNECTING --negotiated--> CONNECTED --process ended--> RESTARTING
                                        |     ^---process runs------    |
                      any other end --> v                               |
                                       LOST <--MAX_RESTARTS-------------+      close(), in any state --> CLOSED
    """

    NEW = auto()
    CONNECTING = auto()
    CONNECTED = auto()
    RESTARTING = auto()
    LOST = auto()
    CLOSED = auto()


class Connector:
    """The base class of `Client`, without the features of the server."""

    def __init__(
        self, target: Target, limits: Limits | None, handlers: ClientHandlers | None, cache: ResponseCache,
        timeout: float | None, eras: MutableMapping[str, Era], on_notification: Callable[[str, object], None],
        on_disconnect: Callable[[], None],
    ) -> None:  # fmt: skip
        self.timeout = timeout
        """Default time limit of a request, in seconds. None means no limit."""
        self.target, self.cache = target, cache
        """The server to connect to, and the cache of modern-era results."""
        self.state = ConnectionState.NEW
        self.custom_methods: dict[str, CustomMethod] = {}
        """The handlers of custom methods, by name."""
        self.extensions: Object = {}
        """The extensions that the client declares."""
        self.parameter_headers: dict[str, dict[str, tuple[str, ...]]] = {}
        """The tool arguments to copy to HTTP headers: tool name -> header name -> path of the argument."""
        settings = (limits, handlers, cache, lambda: target.cache_key)
        self.max_restarts = MAX_RESTARTS
        """Maximum number of restarts of the server's process without a response. A `Host` restarts servers itself."""
        self.starts = 0
        """Number of transports that the client has opened. The start of a server's process needs up to two."""
        self.max_pages, self.max_items = MAX_PAGES, MAX_ITEMS
        """Maximum number of pages and of items of one list."""
        self._make_session = partial(ClientSession, *settings, on_notification, self._disconnected)
        self._eras, self._on_disconnect = eras, on_disconnect
        self._session: ClientSession | None = None
        self._server_task: asyncio.Task[None] | None = None  # runs the `serve` of an InProcessServer
        self._is_negotiated = False
        self._restart_task: asyncio.Task[None] | None = None
        self._restarts = 0  # number of restarts since the last response
        self._closed = asyncio.Event()

    def _change_state(self, state: ConnectionState) -> None:
        """Change the state, except after `close`: CLOSED is final."""
        if self.state is not ConnectionState.CLOSED:
            self.state = state

    @property
    def session(self) -> ClientSession:
        """The session with the server. Raises RuntimeError before the negotiation is complete."""
        if self._session is None or not self._is_negotiated:
            raise RuntimeError("not connected: use `async with Client(...) as client`")
        return self._session

    @property
    def transport(self) -> Transport | None:
        """The transport, also during the negotiation. None before the client connects."""
        return self._session.transport if self._session is not None else None

    @property
    def revision(self) -> Revision:
        """The negotiated revision."""
        return self.session.revision

    @property
    def server_info(self) -> Implementation:
        """The name and version that the server claims. They are unverified."""
        return cast(Implementation, self.session.peer_info)

    @property
    def server_capabilities(self) -> Object:
        """The capabilities that the server declared, as JSON: `{"tools": {"listChanged": True}, ...}`."""
        return self.session.peer_capabilities

    @property
    def instructions(self) -> str | None:
        """The server's instructions for the model."""
        return self.session.instructions

    def server_can(self, capability: str) -> bool:
        """Return True if the server declared a capability.

        Args:
            capability: Path of the capability, such as "tools" or "resources.subscribe".
        """
        return declares(self.session.peer_capabilities, capability)

    async def _connect(self, identity: ClientIdentity) -> None:
        """Open a transport to the server, and negotiate a revision. `Client.connect` documents the exceptions."""
        self._change_state(ConnectionState.CONNECTING)
        name = self.target.name
        known_era = self._eras.get(name) if name is not None else None
        try:
            await negotiate(self._open_session, identity, self.timeout, known_era, self.target.is_process)
        except (ConnectionClosed, RemoteError):
            if self.state is not ConnectionState.CLOSED and self._server_task is not None and self._server_task.done():
                self._server_task.result()  # raises the error of the server in this program, such as a wrong setting
            raise
        self._is_negotiated = True
        self._change_state(ConnectionState.CONNECTED)
        if name is not None and identity.revisions_of("modern"):  # else the client sent no probe
            self._eras[name] = self.revision.era

    async def _open_session(self) -> ClientSession:
        if self.state is ConnectionState.CLOSED:
            raise ConnectionClosed("the client was closed")
        session = self._session = self._new_session()
        await session.open()
        return session

    def _new_session(self) -> ClientSession:
        self.starts += 1
        limits = TimeLimits()
        transport, self._server_task = self.target.open(lambda tool: self.parameter_headers.get(tool, {}), limits)
        session = self._make_session(transport)
        session.custom_methods = self.custom_methods
        session.dispatcher.time_limits = limits  # the transport shares them, so all limits stop during a sign-in
        return session

    async def stop_reconnecting(self) -> None:
        """Change the state to CLOSED, so that the server's process is not restarted. The session stays open."""
        self._change_state(ConnectionState.CLOSED)
        self._closed.set()
        if self._restart_task is not None:
            self._restart_task.cancel()
            await asyncio.wait([self._restart_task])

    async def _close_session(self) -> None:
        """Close the session and its transport. Wait at most 5 seconds for the end of an `InProcessServer`.

        Raise the exception of an `InProcessServer`, for example of its lifespan.
        """
        if self._session is not None:
            await self._session.close()
        if (task := self._server_task) is not None:
            await finish(task, timeout=5.0)
            await finish(task, cancel=True, timeout=1.0)
            if task.done() and not task.cancelled():
                task.result()

    def _disconnected(self, session: ClientSession) -> None:
        """Report the end of a session. Restart the server's process (modern era), or change the state to LOST."""
        self._on_disconnect()
        if session.has_responded:
            self._restarts = 0
        if session is not self._session or self.state is not ConnectionState.CONNECTED:
            return
        if self.can_reconnect() and self.target.is_process and self._restarts < self.max_restarts:
            # [2026-07-28 basic/transports/stdio#unexpected-termination] a client SHOULD restart the process
            self._change_state(ConnectionState.RESTARTING)
            self._restart_task = asyncio.get_running_loop().create_task(self._restart(session))
        else:
            self._change_state(ConnectionState.LOST)

    async def _restart(self, old: ClientSession) -> None:
        """Restart the server's process. If the new process ends at once, try again, at most `max_restarts` times."""
        while old.ended.done() and self._restarts < self.max_restarts:
            self._restarts += 1
            log.warning("the server's process has ended and is started again")
            await old.close()
            new = self._new_session()
            new.continue_from(old)
            self._session = new
            try:
                await new.open()
            except ConnectionClosed as error:
                new.transport_ended(error)
            old = new
        self._change_state(ConnectionState.LOST if old.ended.done() else ConnectionState.CONNECTED)

    def can_reconnect(self) -> bool:
        """Return True if the client is not closed or lost, and the modern-era server has a command or a URL."""
        is_open = self.state in (ConnectionState.CONNECTED, ConnectionState.RESTARTING)
        return is_open and self.revision.era == "modern" and (self.target.is_url or self.target.is_process)

    async def pause(self, seconds: float) -> None:
        """Sleep for some seconds. Return earlier if the client is closed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closed.wait()

    async def ready(self) -> ClientSession:
        """Return the session. If the server's process is being restarted, wait for the new session."""
        if self.state is ConnectionState.RESTARTING and self._restart_task is not None:
            await asyncio.wait([self._restart_task])
        return self.session

    async def request(
        self, method: str, params: object, returns: type[T], timeout: float | None = None,
        max_timeout: float | None = None, on_progress: ProgressHandler | None = None,
        before_send: Callable[[RequestId], None] | None = None, extension: str | None = None,
    ) -> T:  # fmt: skip
        """Send a request and return its result. If the connection is lost, repeat a modern `REPEATABLE` request.

        For a method of the specification, `params` and `returns` are dataclasses of this package: the first page of a
        list is `client.request("tools/list", PaginatedRequestParams(), ListToolsResult)`. For a custom method, they can
        be any dataclass, model or dict. The extension of a custom method is by default the first two parts of its name.
        In 2026-07-28, a request raises CapabilityError if client and server did not both declare this extension.

        `Session.request` documents the other arguments and exceptions. Without a `timeout`, use the client's timeout.
        """
        seconds = timeout if timeout is not None else self.timeout
        session = await self.ready()
        if method not in SPECIFIED:
            from ..features import custom_methods as custom  # lazy: few clients send custom requests

            custom.check_sendable(method, extension, session.revision, session.capabilities, session.peer_capabilities)
            data = await session.request(
                method, custom.data_of(params), custom.CustomData, timeout=seconds, max_timeout=max_timeout,
                on_progress=on_progress, before_send=before_send)  # fmt: skip
            return custom.read_result(method, data, returns)
        try:
            return await session.request(
                method, params, returns, timeout=seconds, max_timeout=max_timeout, on_progress=on_progress,
                before_send=before_send)  # fmt: skip
        except InvalidMessage:
            self.cache.forget(self.target.cache_key[0], method)  # otherwise the cache would return this result again
            raise
        except ConnectionClosed as error:
            if isinstance(error, UnrecognizedReply) or method not in REPEATABLE or not self.can_reconnect():
                raise
        # [2026-07-28 changelog#major-changes] MUST send a lost request again with a new request ID
        session = await self.ready()
        return await session.request(method, params, returns, timeout=seconds)

    async def request_by_name(self, method: str, timeout: float | None, **params: object) -> object:
        """Send a request with these params, and return its result. `METHODS` names their dataclasses."""
        row = next(row for row in METHODS if row.name == method)
        return await self.request(method, load_type(row.params)(**params), load_type(row.result or ""), timeout)

    async def request_all_pages(self, method: str, member: str, timeout: float | None) -> list[object]:
        """Return the items of all pages of a list. `member` is the name of the attribute that contains them."""

        async def fetch(cursor: str | None) -> tuple[list[object], str | None]:
            page = vars(await self.request_by_name(method, timeout, cursor=cursor))
            return page[member], page["next_cursor"]

        try:
            return await all_pages(fetch, self.max_pages, self.max_items)
        except RemoteError as error:
            if error.code == METHOD_NOT_FOUND:  # a server can declare a capability, and lack one of its lists
                log.info("the server has no %s: %s", method, error)
                return []
            # [2026-07-28 server/utilities/caching#interaction-with-pagination] SHOULD discard the cached pages
            if error.code != INVALID_PARAMS or not self.cache.forget(self.target.cache_key[0], method):
                raise
        return await all_pages(fetch, self.max_pages, self.max_items)

    async def ping(self, *, timeout: float | None = None) -> None:
        """Check that the server responds. Sends `server/discover` in the modern era, which has no `ping`.

        Args:
            timeout: Time limit in seconds. Defaults to the client's `timeout`.
        """
        method = "ping" if self.revision.era == "legacy" else "server/discover"
        self.cache.forget(self.target.cache_key[0], method)  # a cached result would not show that the server responds
        await self.request(method, RequestParams(), EmptyResult, timeout)

    async def set_logging_level(self, level: LoggingLevel, *, timeout: float | None = None) -> None:
        """Set the lowest level of the log messages that the server sends from now on.

        Before this call, a legacy server chooses the level. A modern server sends all messages to a client with
        `on_log`, and none to other clients.

        Args:
            level: The level, such as "warning".
            timeout: Time limit in seconds. Defaults to the client's `timeout`.
        """
        if self.revision.era == "modern":
            # [2026-07-28 server/utilities/logging#per-request-log-level] every request names the level
            self.session.request_meta[LOG_LEVEL] = level
        else:
            await self.request_by_name("logging/setLevel", timeout, level=level)

    async def batch(self, *calls: Coroutine[object, object, object]) -> list[object]:
        """Send several requests in one JSON-RPC batch (2025-03-26): `await client.batch(client.ping(), ...)`.

        Args:
            *calls: Coroutines of this client's methods. Each one must send one request.

        Returns:
            The results in the order of the calls. The list contains the exception of a failed call.

        Raises:
            CapabilityError: The negotiated revision does not allow batches.
        """
        if not self._is_negotiated or not self.revision.batch:
            for call in calls:
                call.close()
            raise CapabilityError(f"revision {self.revision} does not allow batches: send the requests one by one")
        return await self.session.dispatcher.batch(*calls)

    async def notify(self, method: str, params: object = None) -> None:
        """Send a notification with a custom method.

        Args:
            method: The method, such as `com.example/seen`.
            params: The params, such as a dataclass or a dict. Default: no params.

        Raises:
            NotInRevision: The revision is 2026-07-28, in which servers ignore such notifications. Send a request.
        """
        from ..features import custom_methods  # lazy: few clients send custom notifications

        session = await self.ready()
        custom_methods.extension_of(method, None)
        if session.revision.era == "modern":
            why = "servers ignore custom notifications, because a notification declares no extension: send a request"
            raise NotInRevision(f"{method} was not sent: in revision {session.revision}, {why}")
        session.notify(method, custom_methods.data_of(params))
        await session.transport.drain()

    def method(self, name: str, *, extension: str | None = None, notification: bool = False) -> Callable[[F], F]:
        """Return a decorator that registers a handler of a custom method. `Server.method` documents the function.

        Args:
            name: The method, such as `com.example/confirm`.
            extension: The extension of the method. Default: the first two parts of the name. The client declares it.
            notification: True for notifications. The function is then a plain `def` without a result.

        Raises:
            RuntimeError: The client has connected before.
        """
        if self.state is not ConnectionState.NEW:
            raise RuntimeError("register methods before the client connects, because a client declares extensions once")
        from ..features.custom_methods import registrar  # lazy: few clients have custom methods

        return registrar(self.custom_methods, self.extensions, None, name, extension, notification)
