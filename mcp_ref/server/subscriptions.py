"""Serving `subscriptions/listen`: a request that stays open, and tells of what changes.

    listen -> acknowledged, with what is honoured -> changes, each told once however often it comes -> the result

Spec:  2026-07-28 basic/patterns/subscriptions
Above: stateless.py, which serves it like any request; server.py, which announces. Below: its page's types
Elsewhere: the client's side (subscribing.py)
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, cast

from ..basic.subscriptions import (
    MAX_RESOURCES,
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotificationParams,
    SubscriptionsListenRequestParams,
    covers,
)
from ..basic.versioning import SUBSCRIPTION_ID, MissingCapability
from ..codec import codec_for
from ..extensions.tasks.types import EXTENSION_CAPABILITY
from ..jsonrpc.errors import ProtocolError
from ..jsonrpc.messages import INVALID_PARAMS, Object, RequestId
from .context import TURN, Context

if TYPE_CHECKING:
    from .server import Server
    from .stateless import StatelessRequest

log = logging.getLogger(__name__)

FAREWELL = 0.5
"""Seconds that the last word on the subscriptions of a carrier may take when it stops."""

MAX_CHANGES = 10_000
"""Changes that wait to be told on one subscription; when its client reads too slowly, the oldest are forgotten."""


class Subscriptions:
    """The subscriptions that are open on one carrier, a connection or an endpoint, for it to end when it stops.

    shared: whether all of them, and their answers, go over one channel.
    """

    def __init__(self, shared: bool) -> None:
        self.shared = shared
        self.open: set[Listener] = set()

    async def end(self) -> None:
        """End them in good order: each gets its answer, if its client takes it within `FAREWELL` seconds."""
        serving = {listener.task for listener in self.open if listener.task is not None}
        for listener in tuple(self.open):
            listener.end()
        if serving:
            await asyncio.wait(serving, timeout=FAREWELL)


class Listener:
    """One open subscription."""

    def __init__(self, wanted: SubscriptionFilter, id: RequestId, call: StatelessRequest) -> None:
        self.loop = call.loop
        self.ended: asyncio.Future[None] = self.loop.create_future()
        self.task = asyncio.current_task()
        self._wanted = wanted
        self._id = id
        self._call = call
        self._changes: dict[tuple[str, str | None], None] = {}  # in order, each once
        self._teller: asyncio.Task[None] | None = None

    def wants(self, method: str, uri: str | None) -> bool:
        """Whether the client has asked for this. uri: of a resource; or the id of a task."""
        wanted = self._wanted
        match method:
            case "notifications/tasks":
                return uri in (wanted.task_ids or ())
            case "notifications/tools/list_changed":
                return wanted.tools_list_changed is True
            case "notifications/prompts/list_changed":
                return wanted.prompts_list_changed is True
            case "notifications/resources/list_changed":
                return wanted.resources_list_changed is True
            case _:
                return uri is not None and any(covers(known, uri) for known in wanted.resource_subscriptions or ())

    def tell(self, method: str, params: Object) -> None:
        """Send a notification, with the id of the subscription that it belongs to."""
        # [2026-07-28 basic/patterns/subscriptions#receiving-notifications] MUST include the id, of the same type
        self._call._tell(method, {**params, "_meta": {SUBSCRIPTION_ID: self._id}})

    def announce(self, method: str, uri: str | None) -> None:
        """Tell that something has changed: once, however often that happens before it can be told."""
        self._changes[method, uri] = None
        if len(self._changes) > MAX_CHANGES:
            del self._changes[next(iter(self._changes))]
        if self._teller is None and not self.ended.done():
            self._teller = self.loop.create_task(self._tell_all())

    async def _tell_all(self) -> None:
        try:
            while self._changes and not self.ended.done():
                method, uri = next(iter(self._changes))
                del self._changes[method, uri]
                try:
                    self._tell_change(method, uri)
                except Exception:  # the task store, or what JSON cannot hold
                    log.exception("a subscription was not told that something has changed (%s)", method)
                await self._call.drain(self._id)
        finally:
            self._teller = None

    def _tell_change(self, method: str, uri: str | None) -> None:
        if method != "notifications/tasks":
            return self.tell(method, {} if uri is None else {"uri": uri})
        task = self._call.server.tasks.store.get(cast(str, uri), self._call.task_owner)
        if task is not None:
            self.tell(method, codec_for(self._call.revision).encode(task))

    def close(self) -> None:
        """Nothing more is told of what changes."""
        self.end()
        if self._teller is not None:
            self._teller.cancel()

    def end(self) -> None:
        """The server ends it, in good order."""
        if not self.ended.done():
            self.ended.set_result(None)


async def _watchable(server: Server, uris: list[str]) -> list[str]:
    """Those that can be watched. To look up a thousand takes a while: others have their turn meanwhile."""
    found = []
    for number, uri in enumerate(uris):
        if number % TURN == TURN - 1:
            await asyncio.sleep(0)
        if server.resources.can_be_watched(uri):
            found.append(uri)
    return found


async def listen(params: SubscriptionsListenRequestParams, context: Context) -> object:
    """Serve `subscriptions/listen`: until the client ends it, or the server."""
    from ..basic.meta import EmptyResult

    call = cast("StatelessRequest", context._channel)
    server, wanted = call.server, params.notifications
    if max(len(wanted.resource_subscriptions or ()), len(wanted.task_ids or ())) > MAX_RESOURCES:
        raise ProtocolError(
            INVALID_PARAMS, f"Invalid params: a subscription names {MAX_RESOURCES} resources or tasks at most"
        )
    offered = server.capabilities()
    tasks: list[str] | None = None
    if wanted.task_ids is not None and offered.extensions is not None:
        if not context.client_can(EXTENSION_CAPABILITY):
            raise MissingCapability(EXTENSION_CAPABILITY)
        tasks = [id for id in wanted.task_ids if server.tasks.store.get(id, call.task_owner) is not None]
    honoured = SubscriptionFilter(
        True if wanted.tools_list_changed and offered.tools is not None else None,
        True if wanted.prompts_list_changed and offered.prompts is not None else None,
        True if wanted.resources_list_changed and offered.resources is not None else None,
        await _watchable(server, wanted.resource_subscriptions)
        if wanted.resource_subscriptions is not None and offered.resources is not None
        else None,
        tasks,
    )
    listener = Listener(honoured, context.request_id, call)
    acknowledged = codec_for(call.revision).encode(SubscriptionsAcknowledgedNotificationParams(honoured))
    # [2026-07-28 basic/patterns/subscriptions#acknowledgment] MUST be the first message
    listener.tell("notifications/subscriptions/acknowledged", acknowledged)
    server.listeners.add(listener)
    carrier = call.carrier
    if carrier is not None:
        carrier.open.add(listener)
    try:
        await listener.ended
    finally:
        server.listeners.discard(listener)
        if carrier is not None:
            carrier.open.discard(listener)
        listener.close()
    if carrier is not None and carrier.shared:
        # [2026-07-28 basic/patterns/cancellation#intro] MUST send it for a subscription that the server ends. The
        # schema has it on stdio alone: over HTTP the end of the stream says it. The answer follows in both.
        listener.tell("notifications/cancelled", {"requestId": context.request_id})
    return EmptyResult(meta={SUBSCRIPTION_ID: context.request_id})
