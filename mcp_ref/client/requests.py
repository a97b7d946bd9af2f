"""The requests of a client: any method, all pages of a list, ping, log level, batches, and methods of your own.

If the connection is lost before a modern request that changes nothing (`REPEATABLE`) has its response, the client sends
it again with a new id [2026-07-28 changelog#major-changes]. A tool call is never repeated automatically, because the
first call may already have sent a mail or moved money.

Spec:  basic/index; 2025-03-26 basic/index#batching; server/utilities/pagination, server/utilities/logging
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from ..basic.lifecycle import CapabilityError, Implementation, declares
from ..basic.meta import EmptyResult, RequestParams
from ..basic.progress import ProgressHandler
from ..basic.versioning import LOG_LEVEL
from ..features.caching import ResponseCache
from ..features.pagination import MAX_ITEMS, MAX_PAGES, all_pages
from ..jsonrpc.errors import ConnectionClosed, InvalidMessage, RemoteError, UnrecognizedReply
from ..jsonrpc.messages import INVALID_PARAMS, METHOD_NOT_FOUND, Object, RequestId
from ..revisions import METHODS, SPECIFIED, NotInRevision, Revision, load_type
from ..transports.base import Transport
from .connector import ConnectionState, Connector
from .session import ClientSession

if TYPE_CHECKING:
    from ..features.custom_methods import CustomMethod
    from ..features.logging import LoggingLevel

log = logging.getLogger(__name__)
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])

REPEATABLE = frozenset({
    "server/discover", "tools/list", "prompts/list", "prompts/get", "resources/list", "resources/templates/list",
    "resources/read", "completion/complete", "tasks/get",
})  # fmt: skip
"""The methods that change nothing on the server, so that a request can be sent twice without harm."""


class ClientRequests:
    """The base class of `Client`, whose methods know nothing about tools, resources or prompts."""

    def __init__(
        self, connector: Connector, cache: ResponseCache, timeout: float | None, custom_methods: dict[str, CustomMethod]
    ) -> None:
        self.connector, self.cache = connector, cache
        self.timeout = timeout  # in seconds, for requests whose caller gives none; None for no limit
        self.custom_methods = custom_methods
        self.extensions: Object = {}  # name -> settings of each extension that the client declares
        self.max_pages, self.max_items = MAX_PAGES, MAX_ITEMS  # limits of each list that the server has

    @property
    def session(self) -> ClientSession:
        """The session with the server. Raises RuntimeError until the negotiation is complete."""
        return self.connector.negotiated_session

    @property
    def transport(self) -> Transport | None:
        return self.connector.transport

    @property
    def revision(self) -> Revision:
        return self.session.revision

    @property
    def server_info(self) -> Implementation:
        """The name and version that the server claims to have."""
        return cast(Implementation, self.session.peer_info)

    @property
    def server_capabilities(self) -> Object:
        """The capabilities that the server declared, as JSON: `{"tools": {"listChanged": True}, ...}`."""
        return self.session.peer_capabilities

    @property
    def instructions(self) -> str | None:
        """The server's instructions for the model, which nobody has verified."""
        return self.session.instructions

    def server_can(self, capability: str) -> bool:
        """Return True if the server declared a `capability`, such as "tools" or "resources.subscribe"."""
        return declares(self.session.peer_capabilities, capability)

    async def request(
        self, method: str, params: object, returns: type[T], timeout: float | None = None,
        max_timeout: float | None = None, on_progress: ProgressHandler | None = None,
        before_send: Callable[[RequestId], None] | None = None, extension: str | None = None,
    ) -> T:  # fmt: skip
        """Send a request and return its result. If the connection is lost, repeat a modern `REPEATABLE` request.

        For a method of the specification, `params` and `returns` are dataclasses of this package, as in
        `client.request("tools/list", PaginatedRequestParams(), ListToolsResult)`, which returns the first page. For a
        custom method, they can be any dataclass, model or dict. In 2026-07-28, both sides must declare its `extension`
        (default: its name's first two parts). Default `timeout`: the client's. `Session.request` documents the rest.
        """
        session = self.connector.ready_session or await self.connector.ready()
        send = partial(
            ClientSession.request, timeout=timeout if timeout is not None else self.timeout, max_timeout=max_timeout,
            on_progress=on_progress, before_send=before_send)  # fmt: skip
        if method not in SPECIFIED:
            from ..features import custom_methods as custom  # lazy: few clients send custom requests

            custom.check_sendable(method, extension, session.revision, session.capabilities, session.peer_capabilities)
            data = await send(session, method, custom.data_of(params), custom.CustomData)
            return custom.read_result(method, data, returns)
        try:
            return await send(session, method, params, returns)
        except InvalidMessage:
            self.forget_results(method)  # otherwise the cache would return this result again
            raise
        except UnrecognizedReply:
            raise  # the server has read the request, and would only send such a reply again
        except ConnectionClosed:
            if method not in REPEATABLE or not self.connector.can_reconnect():
                raise
        # [2026-07-28 changelog#major-changes] a client that repeats a lost request MUST give it a new id
        return await send(await self.connector.ready(), method, params, returns)

    def forget_results(self, method: str) -> bool:
        """Remove this server's results of a method from the cache. Return True if there were any."""
        return self.cache.forget(self.connector.target.cache_key[0], method)

    async def request_by_name(self, method: str, timeout: float | None, **params: object) -> object:
        """Send a request, and return its result, as the dataclasses that `METHODS` names for the method."""
        known = next(each for each in METHODS if each.name == method)
        return await self.request(method, load_type(known.params)(**params), load_type(known.result or ""), timeout)

    async def request_all_pages(self, method: str, member: str, timeout: float | None) -> list[object]:
        """Return the items of all pages of a list. `member` is the attribute of a page that contains its items."""

        async def fetch(cursor: str | None) -> tuple[list[object], str | None]:
            page = vars(await self.request_by_name(method, timeout, cursor=cursor))
            return page[member], page["next_cursor"]

        try:
            return await all_pages(fetch, self.max_pages, self.max_items)
        except RemoteError as error:
            if error.code == METHOD_NOT_FOUND:  # a server may declare a capability but lack one of its lists
                log.info("the server has no %s: %s", method, error)
                return []
            # [2026-07-28 server/utilities/caching#interaction-with-pagination] we SHOULD discard the cached pages
            if error.code != INVALID_PARAMS or not self.forget_results(method):
                raise
        return await all_pages(fetch, self.max_pages, self.max_items)

    async def ping(self, *, timeout: float | None = None) -> None:
        """Check that the server responds. Sends `server/discover` in the modern era, which has no `ping`."""
        method = "ping" if self.revision.era == "legacy" else "server/discover"
        self.forget_results(method)  # a cached result would not show that the server responds
        await self.request(method, RequestParams(), EmptyResult, timeout)

    async def set_logging_level(self, level: LoggingLevel, *, timeout: float | None = None) -> None:
        """Set the lowest `level` of the log messages that the server sends from now on, such as "warning".

        Before that, a legacy server chooses the level; a modern one sends all messages, or none without an `on_log`.
        """
        from ..features.logging import check_level  # lazy: few clients set the level

        check_level(level)
        if self.revision.era == "modern":
            # [2026-07-28 server/utilities/logging#per-request-log-level] every request names the level
            self.session.request_meta[LOG_LEVEL] = level
        else:
            await self.request_by_name("logging/setLevel", timeout, level=level)
            self.session.logging_level = level

    async def batch(self, *calls: Coroutine[object, object, object]) -> list[object]:
        """Send several requests in one JSON-RPC batch (2025-03-26): `await client.batch(client.ping(), ...)`.

        Each of the `calls` is a coroutine of this client that sends one request. Return their results in the same
        order, with the exceptions of failed ones. Raise CapabilityError if the revision has no batches.
        """
        session = self.connector.ready_session
        if session is None or not session.revision.batch:
            for call in calls:
                call.close()
            raise CapabilityError(f"revision {self.revision} does not allow batches: send the requests one by one")
        return await session.dispatcher.batch(*calls)

    async def notify(self, method: str, params: object = None) -> None:
        """Send a notification with a custom `method`, such as `com.example/seen`. `params` is a dataclass or a dict.

        Raise NotInRevision in 2026-07-28, because its servers ignore such notifications. Send a request instead.
        """
        from ..features import custom_methods  # lazy: few clients send custom notifications

        session = self.connector.ready_session or await self.connector.ready()
        custom_methods.extension_of(method, None)
        if session.revision.era == "modern":
            why = "servers ignore custom notifications, because a notification declares no extension: send a request"
            raise NotInRevision(f"{method} was not sent: in revision {session.revision}, {why}")
        session.notify(method, custom_methods.data_of(params))
        await session.transport.drain()

    def method(self, name: str, *, extension: str | None = None, notification: bool = False) -> Callable[[F], F]:
        """Return a decorator for a handler of a custom method, as `Server.method` does. Use it before connecting."""
        if self.connector.state is not ConnectionState.NEW:
            raise RuntimeError("register methods before the client connects, because a client declares extensions once")
        from ..features.custom_methods import registrar  # lazy: few clients have custom methods

        return registrar(self.custom_methods, self.extensions, None, name, extension, notification)
