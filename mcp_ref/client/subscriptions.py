"""Notifications from the server: changed lists, log messages, and the updates of `client.subscribe(uri)`.

    legacy era   the server sends notifications on the session; `resources/subscribe` requests updates of one resource
    modern era   the request `subscriptions/listen` stays open and lists the wanted notifications

A modern server MUST NOT send notifications that the client did not request, and sends log messages only while it serves
a request [2026-07-28 basic/patterns/subscriptions#opening-a-stream]. If a modern subscription loses its connection, the
client requests it again. The subscription for the callbacks of `Client` is also requested again if the server ends it.
After the acknowledgement, the client tells the program that all subscribed resources and lists have changed, because it
may have missed notifications. In the legacy era, it tells this when the transport has replaced a session that the
server ended.

Spec:  2026-07-28 basic/patterns/subscriptions; 2025-11-25 server/resources#subscriptions
Wire:  C->S resources/subscribe, resources/unsubscribe (legacy); C->S subscriptions/listen (modern)
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, cast

from ..basic.lifecycle import CapabilityError
from ..basic.meta import EmptyResult
from ..basic.subscriptions import (
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotificationParams,
    SubscriptionsListenRequestParams,
)
from ..basic.versioning import LOG_LEVEL
from ..jsonrpc.errors import ConnectionClosed, McpError, RequestTimeout
from ..jsonrpc.messages import RequestId
from ..lib.time_limits import TimeLimit
from ..lib.uri import MAX_URI_LENGTH, canonical_uri, includes_uri, respelled
from ..transports.base import finish
from .options import ClientOptions
from .requests import ClientRequests

if TYPE_CHECKING:
    from ..features.logging import LoggingLevel, LoggingMessageNotificationParams
    from ..features.resources import ResourceUpdatedNotificationParams

log = logging.getLogger(__name__)

MAX_UPDATES = 1000
"""Maximum number of unread updates of one subscription. Above it, the oldest is dropped."""

ACKNOWLEDGE_SECONDS = 5.0
"""Time for the server to acknowledge the request for list changes, in seconds. A timeout is only logged."""

MAX_ATTEMPTS = 5
"""Maximum number of new requests for a lost subscription if the server acknowledges none of them."""
MIN_RETRY_PAUSE = 0.1
"""Pause before the first new attempt, in seconds. Each later one is twice as long."""
MAX_RETRY_PAUSE = 30.0
"""Maximum pause between two attempts, in seconds."""

RESOURCE_UPDATED = "notifications/resources/updated"


class ServerNotifications:
    """The callbacks of `Client`, the modern-era request for changed lists, and the legacy subscriptions."""

    def __init__(self, options: ClientOptions, invalidate: Callable[[str, str | None], None]) -> None:
        self._on_log = options.get("on_log")
        self._on_changed = {
            "tools": options.get("on_tools_changed"),
            "resources": options.get("on_resources_changed"),
            "prompts": options.get("on_prompts_changed"),
        }
        self._invalidate = invalidate  # removes outdated results from the cache
        self._listening: ListenRequest | None = None  # for the callbacks, in the modern era
        self._restoring: asyncio.Task[None] | None = None  # runs `_restore`, in the legacy era
        self.subscriptions: list[Subscription] = []  # the open ones of the legacy era

    async def listen(self, client: ClientRequests) -> None:
        """Request the notifications that have a callback. A legacy server needs no request."""
        if client.revision.era == "legacy":
            client.session.transport.on_new_session = partial(self._restore_soon, client)
            return
        if self._on_log is not None:
            client.session.request_meta[LOG_LEVEL] = "debug"
        wanted = SubscriptionFilter()
        for kind, function in self._on_changed.items():
            if function is not None and client.server_can(f"{kind}.listChanged"):
                setattr(wanted, f"{kind}_list_changed", True)
        if wanted == SubscriptionFilter():
            return  # no change is wanted
        request = ListenRequest(client, wanted, self._list_changed, self._log_end, _is_permanent=True)
        try:
            await request.open(ACKNOWLEDGE_SECONDS)
            self._listening = request
        except McpError as error:
            log.warning("the server does not report changes of its lists: %s", _first_line(error))

    async def close(self) -> None:
        if self._listening is not None:
            await self._listening.close()
        await finish(self._restoring, cancel=True)

    def _restore_soon(self, client: ClientRequests) -> None:
        # If this new session replaces one in which `_restore` still runs, give up. Otherwise a server that ends the
        # session at each request would keep `_restore` running forever.
        if self._restoring is not None and not self._restoring.done():
            return self.end_subscriptions()
        self._restoring = asyncio.get_running_loop().create_task(self._restore(client))

    async def _restore(self, client: ClientRequests) -> None:
        """Repeat the log level and subscriptions in a legacy server's new session, and report all lists as changed."""
        level = client.session.logging_level
        if level is not None:
            with contextlib.suppress(McpError):
                await client.set_logging_level(cast("LoggingLevel", level))
        for subscription in tuple(self.subscriptions):
            await subscription.restore()
        for kind in self._on_changed:
            if client.server_can(f"{kind}.listChanged"):
                self._list_changed(f"notifications/{kind}/list_changed")

    def end_subscriptions(self) -> None:
        """End the legacy subscriptions, because their session is lost."""
        for subscription in self.subscriptions:
            subscription.end(ConnectionClosed("the connection to the server was lost"))

    def receive(self, method: str, params: object) -> None:
        """Call the callback, or queue the update, for a notification that belongs to no `ListenRequest`."""
        uri = cast("ResourceUpdatedNotificationParams", params).uri if method == RESOURCE_UPDATED else None
        self._invalidate(method, uri)
        if uri is not None:
            for subscription in self.subscriptions:
                subscription.receive(method, uri)
        elif method == "notifications/message":
            if self._on_log is not None:
                self._on_log(cast("LoggingMessageNotificationParams", params))
        else:
            self._list_changed(method)

    def _list_changed(self, method: str, _uri: str | None = None) -> None:  # a list has no URI
        for subscription in self.subscriptions:
            subscription.receive(method, None)
        function = self._on_changed.get(method.removeprefix("notifications/").removesuffix("/list_changed"))
        if function is not None:
            try:
                function()
            except Exception:  # a failed callback must not stop other receivers
                log.exception("the handler of %s failed", method)

    def _log_end(self, reason: Exception | None) -> None:
        text = _first_line(reason) if reason is not None else "it ended the subscription"
        log.warning("the server no longer reports changes of its lists: %s", text)


class Subscription:
    """A subscription to one resource or to lists. `async with` opens it, and `async for` yields its updates.

    An update is the URI of a changed resource: the subscribed URI as the program wrote it, or a URI that continues it
    after a slash. For lists, it is the name of a list, such as "tools". Until the program reads an update, further
    changes of the same resource or list add no second one. The iterator ends when the server ends the subscription, and
    raises ConnectionClosed when an error ends it, such as a lost connection to a legacy server. `async with` raises
    CapabilityError if the server does not support subscriptions, or (modern era) does not accept this URI.
    """

    def __init__(
        self, client: ClientRequests, legacy_subscriptions: list[Subscription], uri: str, lists: Sequence[str] = ()
    ) -> None:
        self.uri, self._client, self._lists = uri, client, lists
        self._canonical = canonical_uri(uri) or uri
        self._legacy_subscriptions = legacy_subscriptions  # all open ones of the client
        self._changed: dict[str, None] = {}  # unread URIs, or names of lists, without duplicates, in order of change
        self._wakeup = asyncio.Event()  # set to make `__anext__` look at the attributes again
        self._request: ListenRequest | None = None  # None in the legacy era
        self._is_open = False  # True inside the `async with` block
        self._ended = False  # True when the server or an error has ended the subscription
        self._error: Exception | None = None  # the error that has ended it

    async def __aenter__(self) -> Subscription:
        for name in self._lists:
            if not self._client.server_can(f"{name}.listChanged"):
                raise CapabilityError(f"the server does not offer {name}.listChanged, so it reports no changes")
        self._ended, self._error = False, None  # this object may have been entered before
        if self._client.revision.era == "modern":
            wanted = SubscriptionFilter(resource_subscriptions=None if self._lists else [self.uri])
            for name in self._lists:
                setattr(wanted, f"{name}_list_changed", True)
            self._request = ListenRequest(self._client, wanted, self.receive, self.end)
            await self._request.open(self._client.timeout)
            self._is_open = True
            return self
        self._is_open = True
        self._legacy_subscriptions.append(self)  # before the request, because an update may overtake its response
        if self._lists:
            return self  # legacy servers report changed lists without a request
        try:
            await self._client.request_by_name("resources/subscribe", None, uri=self.uri)
        except BaseException:
            self._legacy_subscriptions.remove(self)
            raise
        return self

    async def __aexit__(self, exception_type: type[BaseException] | None = None, *exception: object) -> None:
        self._is_open = False
        self._wakeup.set()  # another task may be waiting for an update
        if self._request is not None:
            return await self._request.close()
        self._legacy_subscriptions.remove(self)
        is_shared = any(other._canonical == self._canonical for other in self._legacy_subscriptions)
        if self._lists or self._ended or is_shared:
            return
        try:
            await self._client.request_by_name("resources/unsubscribe", None, uri=self.uri)
        except McpError:
            if exception_type is None:  # it must not replace an exception of the block, such as its cancellation
                raise

    async def restore(self) -> None:
        """Subscribe again in a new session of a legacy server, and report an update, because one may be lost."""
        if self._lists or self._ended or not self._is_open:
            return
        try:
            await self._client.request_by_name("resources/subscribe", None, uri=self.uri)
            self.receive(RESOURCE_UPDATED, self.uri)
        except McpError as error:
            self.end(error)

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> str:
        while not self._changed:
            if self._error is not None:
                raise ConnectionClosed(f"the subscription to {self.uri} ended because of an error: {self._error}")
            if self._ended:
                raise StopAsyncIteration
            if not self._is_open:
                raise RuntimeError("the subscription is not open: use `async with client.subscribe(...) as updates`")
            self._wakeup.clear()
            await self._wakeup.wait()
        uri = next(iter(self._changed))
        del self._changed[uri]
        return uri

    def receive(self, method: str, uri: str | None) -> None:
        """Queue an update if it belongs to this subscription."""
        if uri is None:
            changed = method.removeprefix("notifications/").removesuffix("/list_changed")
            if changed not in self._lists:
                return
        else:
            start = uri[:MAX_URI_LENGTH]  # enough to see whether the subscription includes it
            canonical = canonical_uri(start) or start
            if not includes_uri(self._canonical, canonical):
                return
            is_long = len(uri) > MAX_URI_LENGTH or len(canonical) > MAX_URI_LENGTH
            # A long URI is reported as the subscribed one, because a queue of long URIs would fill the memory.
            changed = self.uri if is_long else respelled(canonical, self._canonical, self.uri)
        self._changed[changed] = None
        if len(self._changed) > MAX_UPDATES:
            del self._changed[next(iter(self._changed))]
        self._wakeup.set()

    def end(self, error: Exception | None) -> None:
        """End the iteration after the queued updates, with ConnectionClosed if an `error` ended the subscription."""
        self._ended, self._error = True, error
        self._wakeup.set()


class ListenState(Enum):
    """The state of a modern-era subscription.

    OPENING --acknowledged--> LISTENING <--acknowledged-- RECONNECTING
       |                          |-----connection lost------->|
       +------ refused, ended, closed or lost, in any state ---+----> ENDED
    A lost connection ends the subscription in OPENING, or if the client must not try again.
    """

    OPENING = auto()
    LISTENING = auto()
    RECONNECTING = auto()
    ENDED = auto()


@dataclass(eq=False)
class ListenRequest:
    """One `subscriptions/listen` request, which is sent again if its connection is lost."""

    _client: ClientRequests
    _wanted: SubscriptionFilter
    _on_change: Callable[[str, str | None], None]  # gets the method and, for a resource, the URI
    _on_end: Callable[[Exception | None], None]  # called when an acknowledged subscription ends, unless by `close`
    _is_permanent: bool = False  # True to send it again without a limit, even after the server has ended it
    _state: ListenState = ListenState.OPENING
    _acknowledged: asyncio.Future[SubscriptionFilter] = field(default_factory=asyncio.Future)
    _timeout: float | None = None  # time limit for the acknowledgement, in seconds
    _timer: TimeLimit | None = None  # raises TimeoutError if the acknowledgement does not come in time
    _attempts: int = 0  # number of attempts since the last acknowledgement
    _pause: float = MIN_RETRY_PAUSE  # pause before the next attempt, in seconds
    _task: asyncio.Task[None] | None = None

    async def open(self, timeout: float | None) -> SubscriptionFilter:
        """Start to listen, and return the accepted part of the filter. Raise CapabilityError if that is empty.

        `timeout` limits the time until each acknowledgement, in seconds. Other exceptions are as in `Session.request`.
        """
        self._timeout = timeout
        self._task = asyncio.create_task(self._listen())
        try:
            accepted = await asyncio.shield(self._acknowledged)
            if not any(vars(accepted).values()):
                wanted = ", ".join(self._wanted.resource_subscriptions or ["its lists"])
                raise CapabilityError(f"the server does not report changes of {wanted:.200}")
        except BaseException:
            await self.close()
            raise
        return accepted

    async def close(self) -> None:
        self._state = ListenState.ENDED
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._acknowledged.done() and not self._acknowledged.cancelled():
            self._acknowledged.exception()  # marks it as read, or asyncio would log it as never retrieved

    def receive(self, method: str, params: object) -> None:
        if isinstance(params, SubscriptionsAcknowledgedNotificationParams):
            return self._receive_acknowledgement(params.notifications)
        self._pause = MIN_RETRY_PAUSE  # because the stream works
        uri = cast("ResourceUpdatedNotificationParams", params).uri if method == RESOURCE_UPDATED else None
        self._report(method, uri)

    def _receive_acknowledgement(self, accepted: SubscriptionFilter) -> None:
        self._attempts = 0
        if self._timer is not None:
            self._timer.postpone(math.inf)  # the request now stays open without a time limit
        if not self._acknowledged.done():
            self._acknowledged.set_result(accepted)
        if self._state is ListenState.RECONNECTING:  # the client may have missed a change
            for uri in self._wanted.resource_subscriptions or ():
                self._report(RESOURCE_UPDATED, uri)
            for kind in ("tools", "prompts", "resources"):
                if getattr(self._wanted, f"{kind}_list_changed"):
                    self._report(f"notifications/{kind}/list_changed", None)
        if self._state is not ListenState.ENDED:
            self._state = ListenState.LISTENING

    def _report(self, method: str, uri: str | None) -> None:
        server, _user = self._client.connector.target.cache_key
        self._client.cache.invalidate(server, method, uri)
        self._on_change(method, uri)

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        while self._state is not ListenState.ENDED:
            start = loop.time()
            reason: Exception | None = None  # why the request has ended; None if the server has sent its result
            try:
                await self._listen_once()
            except Exception as error:
                reason = error
            if not self._may_request_again(reason):
                return self._end_listening(reason)
            text = "the server sent its result" if reason is None else _first_line(reason)
            log.info("a subscription has ended and is requested again: %s", text)
            if loop.time() - start > 10 * self._pause:
                self._pause = MIN_RETRY_PAUSE  # the connection had worked for some time before it was lost
            self._state = ListenState.RECONNECTING
            self._attempts += 1
            pause = self._pause
            self._pause = min(2 * pause, MAX_RETRY_PAUSE)
            await self._wait_to_retry(pause)

    def _may_request_again(self, reason: Exception | None) -> bool:
        is_temporary = isinstance(reason, McpError) and reason.is_temporary
        if reason is not None and not is_temporary and not isinstance(reason, ConnectionClosed):
            return False  # an error response, a timeout, or a request that cannot be sent
        if self._state is ListenState.OPENING or not self._client.connector.can_reconnect():
            return False
        return self._is_permanent or (reason is not None and self._attempts < MAX_ATTEMPTS)

    async def _wait_to_retry(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._client.connector.ended.wait()  # a client that closes does not wait for the pause

    async def _listen_once(self) -> None:
        """Send the request, and return when the server has sent its result."""
        session = await self._client.connector.ready()
        ids: list[RequestId] = []  # gets the id of the request when that is sent

        def register(id: RequestId) -> None:
            ids.append(id)
            session.listeners[id] = self.receive

        try:
            params = SubscriptionsListenRequestParams(self._wanted)
            with session.dispatcher.time_limits.timeout(self._timeout) as self._timer:
                await session.request("subscriptions/listen", params, EmptyResult, timeout=None, before_send=register)
        except TimeoutError:
            raise RequestTimeout(f"the server did not acknowledge the subscription within {self._timeout} s") from None
        finally:
            for id in ids:
                del session.listeners[id]

    def _end_listening(self, error: Exception | None) -> None:
        if self._state is ListenState.ENDED:
            return
        self._state = ListenState.ENDED
        if self._acknowledged.done():
            self._on_end(error)
        else:  # `open` raises this error
            self._acknowledged.set_exception(error or ConnectionClosed("the server ended the subscription at once"))


def _first_line(error: Exception) -> str:
    """Return the reason without the lines of the server's standard error, which can contain secrets."""
    return str(error).partition("\n")[0]
