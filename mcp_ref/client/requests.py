"""The messages of a client that belong to no feature: pages of lists, pings, log levels, batches, custom methods.

Spec:  basic/index; 2025-03-26 basic/index#batching; server/utilities/pagination, server/utilities/logging
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, TypeVar

from ..basic.lifecycle import CapabilityError
from ..basic.meta import EmptyResult, RequestParams
from ..basic.versioning import LOG_LEVEL
from ..features.pagination import all_pages
from ..jsonrpc.errors import RemoteError
from ..jsonrpc.messages import INVALID_PARAMS, METHOD_NOT_FOUND
from ..revisions import METHODS, NotInRevision
from ..session import load_type
from .connector import Connector

if TYPE_CHECKING:
    from ..features.logging import LoggingLevel

log = logging.getLogger(__name__)
F = TypeVar("F", bound=Callable[..., object])


class Requests(Connector):
    """The base class of `Client` with the messages that belong to no feature."""

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
            if error.code != INVALID_PARAMS or not self.response_cache.forget(self.cache_key[0], method):
                raise
        return await all_pages(fetch, self.max_pages, self.max_items)

    async def ping(self, *, timeout: float | None = None) -> None:
        """Check that the server responds. Sends `server/discover` in the modern era, which has no `ping`.

        Args:
            timeout: Time limit in seconds. Defaults to the client's `timeout`.
        """
        method = "ping" if self.revision.era == "legacy" else "server/discover"
        self.response_cache.forget(self.cache_key[0], method)  # a cached result would not show that the server responds
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
        if self.is_used:
            raise RuntimeError("register methods before the client connects, because it then declares their extensions")
        from ..features.custom_methods import registrar  # lazy: few clients have custom methods

        return registrar(self.custom_methods, self.extensions, None, name, extension, notification)
