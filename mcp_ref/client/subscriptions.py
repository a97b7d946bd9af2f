"""What a client watches: `client.subscribe(uri)`, the same in both eras, and what carries it.

    earlier era      resources/subscribe; notifications come on the connection, and go by the resource's URI
    stateless era    subscriptions/listen, a request that stays open; notifications go by its id

A stream that breaks, or a server that was started anew, is asked again; what is watched may have changed meanwhile, and
counts as changed.

Spec:  2026-07-28 basic/patterns/subscriptions; 2025-11-25 server/resources#subscriptions
Above: client.py; hearing.py, for lists that change. Below: reaching.py
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..basic.lifecycle import CapabilityError
from ..basic.meta import EmptyResult
from ..basic.subscriptions import (
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotificationParams,
    SubscriptionsListenRequestParams,
    covers,
)
from ..jsonrpc.errors import ConnectionClosed, RequestTimeout
from ..jsonrpc.messages import RequestId

if TYPE_CHECKING:
    from .connector import Connector

log = logging.getLogger(__name__)

MAX_UPDATES = 1000
"""Updates of one subscription that wait to be read; the oldest are forgotten."""

ATTEMPTS = 5
"""Times that a subscription is asked for again in vain, before it ends."""

MIN_PAUSE = 0.1
"""Seconds before the first such attempt; each pause is twice as long as the one before, until a stream lasts."""

MAX_PAUSE = 30.0
"""Seconds between two such attempts, at most."""


class Subscription:
    """The updates of one watched resource: an async context manager, and within it an async iterator of URIs.

    Each URI that is yielded has changed since it was last yielded: the one that was subscribed to, or one below it. The
    iterator ends when the server ends the subscription in good order, and raises ConnectionClosed when the connection
    ends. Entering raises CapabilityError where the server does not let resources be watched.
    """

    def __init__(self, reach: Connector, uri: str) -> None:
        self.uri = uri
        self._connector = reach
        self._changed: dict[str, None] = {}  # in order, each once: a second change before reading says nothing new
        self._waker = asyncio.Event()
        self._stream: Stream | None = None
        self._ended = False
        self._why: Exception | None = None

    async def __aenter__(self) -> Subscription:
        if self._connector.revision.era == "modern":
            wanted = SubscriptionFilter(resource_subscriptions=[self.uri])
            self._stream = Stream(self._connector, wanted, self._heard, self.end)
            await self._stream.open(self._connector.timeout)
            return self
        from ..features.resources import SubscribeRequestParams

        sharers = self._connector.news.watched.setdefault(self.uri, [])
        sharers.append(self)  # first: the update may come before the answer is read
        try:
            await self._connector.ask("resources/subscribe", SubscribeRequestParams(self.uri), EmptyResult, None)
        except BaseException:
            self._leave()
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        from ..features.resources import UnsubscribeRequestParams

        if self._stream is not None:
            await self._stream.close()
        elif self._leave() and not self._ended:
            await self._connector.ask("resources/unsubscribe", UnsubscribeRequestParams(self.uri), EmptyResult, None)

    def _leave(self) -> bool:
        """Stop receiving; True when nobody else watches the same resource."""
        sharers = self._connector.news.watched.get(self.uri, [])
        if self in sharers:
            sharers.remove(self)
        if not sharers:
            self._connector.news.watched.pop(self.uri, None)
        return not sharers

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> str:
        while not self._changed:
            if self._why is not None:
                raise ConnectionClosed(f"the connection ended, and with it the subscription to {self.uri}: {self._why}")
            if self._ended:
                raise StopAsyncIteration
            self._waker.clear()
            await self._waker.wait()
        uri = next(iter(self._changed))
        del self._changed[uri]
        return uri

    def _heard(self, method: str, uri: str | None) -> None:
        if uri is not None and covers(self.uri, uri):
            self.put(uri)

    def put(self, uri: str) -> None:
        """An update has come."""
        self._changed[uri] = None
        if len(self._changed) > MAX_UPDATES:
            del self._changed[next(iter(self._changed))]
        self._waker.set()

    def end(self, why: Exception | None) -> None:
        """Nothing more will come. why: None for an end in good order."""
        self._ended, self._why = True, why
        self._waker.set()


class Stream:
    """One `subscriptions/listen` request, and those that follow it when it breaks.

    changed: called with the method and, for a resource, the URI of each notification. ended: called once, when nothing
    more will come after it was opened, with None for an end in good order.
    """

    def __init__(
        self,
        reach: Connector,
        wanted: SubscriptionFilter,
        changed: Callable[[str, str | None], None],
        ended: Callable[[Exception | None], None],
    ) -> None:
        self._connector = reach
        self._wanted = wanted
        self._changed, self._ended = changed, ended
        self._acknowledged: asyncio.Future[SubscriptionFilter] = asyncio.get_running_loop().create_future()
        self._patience: float | None = None
        self._clock: asyncio.Timeout | None = None  # runs until the request under way is acknowledged
        self._attempts = 0  # since the last one that was acknowledged
        self._pause = MIN_PAUSE
        self._again = False
        self._done = False
        self._task: asyncio.Task[None] | None = None

    async def open(self, timeout: float | None) -> SubscriptionFilter:
        """Begin to listen; gives what the server honours. timeout: seconds that it may take, this time and again.

        Raises CapabilityError where it honours nothing of it, and what a request raises.
        """
        self._patience = timeout
        self._task = asyncio.create_task(self._listen())
        try:
            honoured = await asyncio.shield(self._acknowledged)
        except BaseException:
            await self.close()
            raise
        if not any(vars(honoured).values()):
            await self.close()
            watched = ", ".join(self._wanted.resource_subscriptions or ["its lists"])
            raise CapabilityError(f"the server does not tell of changes of {watched:.200}")
        return honoured

    async def close(self) -> None:
        """Stop listening, and tell the server."""
        self._done = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._acknowledged.done() and not self._acknowledged.cancelled():
            self._acknowledged.exception()

    def heard(self, method: str, params: object) -> None:
        """A notification of this subscription has come."""
        from ..features.resources import ResourceUpdatedNotificationParams

        if isinstance(params, SubscriptionsAcknowledgedNotificationParams):
            self._attempts = 0
            if self._clock is not None and not self._clock.expired():
                self._clock.reschedule(None)
            if not self._acknowledged.done():
                self._acknowledged.set_result(params.notifications)
            elif self._again:
                self._may_have_changed()
            self._again = False
        else:
            self._pause = MIN_PAUSE
            self._tell(method, params.uri if isinstance(params, ResourceUpdatedNotificationParams) else None)

    def _tell(self, method: str, uri: str | None) -> None:
        self._connector.cache.invalidate(method, uri)
        self._changed(method, uri)

    def _may_have_changed(self) -> None:
        """What was missed while nobody listened cannot be known."""
        wanted = self._wanted
        for uri in wanted.resource_subscriptions or ():
            self._tell("notifications/resources/updated", uri)
        for kind in ("tools", "prompts", "resources"):
            if getattr(wanted, f"{kind}_list_changed"):
                self._tell(f"notifications/{kind}/list_changed", None)

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._done:
            began = loop.time()
            try:
                await self._listen_once()
                return self._end(None)
            except ConnectionClosed as error:
                if not self._acknowledged.done() or not self._connector.reaches_again() or self._attempts >= ATTEMPTS:
                    return self._end(error)
                log.info("a subscription broke, and is asked for again: %s", error)
            except Exception as error:  # a refusal; or what cannot be sent
                return self._end(error)
            if loop.time() - began > 10 * self._pause:
                self._pause = MIN_PAUSE  # it lasted
            self._again = True
            self._attempts += 1
            pause, self._pause = min(self._pause, MAX_PAUSE), min(2 * self._pause, MAX_PAUSE)
            await self._connector.rest(pause)

    async def _listen_once(self) -> None:
        connection = await self._connector.live()

        ids: list[RequestId] = []

        def began(id: RequestId) -> None:
            ids.append(id)
            connection.listeners[id] = self

        try:
            params = SubscriptionsListenRequestParams(self._wanted)
            async with asyncio.timeout(self._patience) as self._clock:
                await connection.request("subscriptions/listen", params, EmptyResult, timeout=None, before_send=began)
        except TimeoutError:
            text = f"the server did not acknowledge a subscription within {self._patience} s"
            raise RequestTimeout(text) from None
        finally:
            for id in ids:
                del connection.listeners[id]

    def _end(self, why: Exception | None) -> None:
        if self._done:
            return
        self._done = True
        if self._acknowledged.done():
            self._ended(why)
        else:  # whoever opens it is told
            self._acknowledged.set_exception(why or ConnectionClosed("the server ended the subscription at once"))
