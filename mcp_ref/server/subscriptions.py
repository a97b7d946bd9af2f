"""`subscriptions/listen` on the server: a request that stays open, while notifications are sent on its stream.

In the legacy era, a session stores the subscriptions of `resources/subscribe`. Because the modern era has no sessions,
the open request itself is the subscription [2026-07-28 changelog#major-changes] (basic/subscriptions.py).

Threats:
    listen-without-scope: A caller without the scope of a resource learns of its changes by naming it in the filter. The
        server leaves the resource out when it accepts the filter, and checks each update again.
    listen-after-expiry: A caller keeps listening after its token has expired. The subscription ends with the token.

Spec:  2026-07-28 basic/patterns/subscriptions
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Collection
from typing import Protocol

from ..basic.access import Access, SubscribedResource, Subscriptions
from ..basic.cancellation import CancelledNotificationParams
from ..basic.channel import Channel, RequestContext
from ..basic.lifecycle import declares
from ..basic.meta import EmptyResult
from ..basic.subscriptions import MAX_RESOURCES, SubscriptionFilter, SubscriptionsAcknowledgedNotificationParams
from ..basic.versioning import SUBSCRIPTION_ID, MissingCapability
from ..codec import codec_for
from ..features.task_augmentation import TASKS_CAPABILITY, TASKS_EXTENSION
from ..jsonrpc.errors import ProtocolError
from ..jsonrpc.messages import INVALID_PARAMS, Object, RequestId
from ..transports.base import Drain, HeldResponse, Hold, Notify
from .announcements import Announcer, OpenSubscriptions
from .catalog import Catalog
from .context import YIELD_INTERVAL


class ListeningChannel(Channel, Protocol):
    """The part of `StatelessRequest` (stateless.py) that serves `subscriptions/listen`."""

    catalog: Catalog
    open_subscriptions: OpenSubscriptions
    send_notification: Notify
    drain_notifications: Drain
    hold: Hold | None  # None on stdio, where all responses share one stream


class OpenSubscription(Announcer):
    """One open `subscriptions/listen` request: either its `task` waits, or its response is `held` (see `listen`)."""

    def __init__(
        self, accepted: SubscriptionFilter, subscribed: Subscriptions, channel: ListeningChannel, id: RequestId
    ) -> None:
        self.loop, self._catalog, self._accepted, self._id = channel.loop, channel.catalog, accepted, id
        self.shares, self.task_ids = channel.catalog.announcers.queued, accepted.task_ids or ()
        self._open_subscriptions, self._subscribed = channel.open_subscriptions, subscribed
        self._revision, self._task_owner = channel.revision, channel.task_owner
        self._send_notification, self._drain = channel.send_notification, channel.drain_notifications
        self.task: asyncio.Task[object] | None = None
        self._ended: asyncio.Future[None] | None = None  # not None while `task` waits for the end
        self.held: HeldResponse | None = None  # not None while the transport holds back the response
        self._expiry: asyncio.TimerHandle | None = None  # ends the subscription when the access token expires

    @property
    def meta(self) -> Object:
        # [2026-07-28 basic/patterns/subscriptions#receiving-notifications] each notification MUST have the request's id
        return {SUBSCRIPTION_ID: self._id}

    def open(self, ends_at: float | None) -> None:
        """Acknowledge the subscription, and announce changes until `ends_at`, in seconds since 1970, if given."""
        # [2026-07-28 basic/patterns/subscriptions#acknowledgment] the acknowledgement MUST be the first message
        acknowledged = SubscriptionsAcknowledgedNotificationParams(self._accepted, self.meta)
        self.notify("notifications/subscriptions/acknowledged", acknowledged)
        self._catalog.announcers.add(self)
        self._open_subscriptions.add(self)
        if ends_at is not None:
            self._expiry = self.loop.call_later(max(0.0, ends_at - time.time()), self.end)

    async def wait_ended(self) -> None:
        """Wait until the subscription ends. Cancelling this wait ends it too."""
        self.task, self._ended = asyncio.current_task(), self.loop.create_future()
        try:
            await self._ended
        finally:
            self.close()

    def end(self) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)  # `wait_ended` then closes it
        if self.held is not None:
            self.close()
            self.held.release()

    def close(self) -> None:
        self._catalog.announcers.discard(self)
        self._open_subscriptions.discard(self)
        self._subscribed.clear()
        self.stop_announcing()
        if self._expiry is not None:
            self._expiry.cancel()

    @property
    def has_room(self) -> bool:
        return self.held is not None and self.held.has_room  # if not `held`, changes are always queued

    async def drain_changes(self) -> None:
        await self._drain()

    def subscribed_uris(self) -> Collection[str]:
        return self._subscribed

    def wants(self, method: str, subject: str | None) -> bool:
        match method:
            case "notifications/tasks":
                return subject in self.task_ids
            case "notifications/tools/list_changed":
                return self._accepted.tools_list_changed is True
            case "notifications/prompts/list_changed":
                return self._accepted.prompts_list_changed is True
            case "notifications/resources/list_changed":
                return self._accepted.resources_list_changed is True
            case _:
                return subject is not None and self._update_params(subject) is not None

    def send_change(self, method: str, subject: str | None) -> None:
        if subject is None:
            self._send_notification(method, {"_meta": self.meta})
        elif method == "notifications/tasks":
            task = self._catalog.tasks.store.get(subject, self._task_owner)
            if task is not None:
                self.notify(method, dataclasses.replace(task, meta=self.meta))
        else:
            update = self._update_params(subject)
            if update is not None:  # None if the caller may not read the resource any more
                self.notify(method, update)

    def _update_params(self, uri: str) -> object:
        return self._catalog.resources.update_for(self._subscribed, uri, self.meta) if self._subscribed else None

    def notify(self, method: str, params: object) -> None:
        self._send_notification(method, codec_for(self._revision).encode(params))


async def _subscribe(subscriptions: Subscriptions, uris: list[str], catalog: Catalog, access: Access | None) -> None:
    """Subscribe to the existing resources that the caller may read. Raise ProtocolError if there are too many."""
    from ..lib.uri import canonical_uri  # lazy: not every server has resources

    stored_access = access.without_headers() if access is not None else None
    try:
        for number, uri in enumerate(uris, 1):
            if number % YIELD_INTERVAL == 0:  # let other requests run, because a thousand URIs take a long time
                await asyncio.sleep(0)
            is_allowed = access is None or access.refusal_for(catalog.resources.access.scopes_of(uri)) is None
            if is_allowed and catalog.resources.accepts_subscription(uri):
                subscriptions.add(canonical_uri(uri) or uri, SubscribedResource(uri, stored_access))
    except BaseException:  # including a cancellation, because no `OpenSubscription` exists yet that would clear them
        subscriptions.clear()
        raise


async def _accept(
    wanted: SubscriptionFilter, subscriptions: Subscriptions, channel: ListeningChannel, access: Access | None
) -> SubscriptionFilter:
    """Return the part of a filter that the server accepts, after adding its resources to `subscriptions`."""
    if max(len(wanted.resource_subscriptions or ()), len(wanted.task_ids or ())) > MAX_RESOURCES:
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: name at most {MAX_RESOURCES} resources or tasks")
    offered = channel.catalog.capabilities()
    task_ids = uris = None
    if wanted.task_ids is not None and TASKS_EXTENSION in (offered.extensions or ()):
        if not declares(channel.peer_capabilities, TASKS_CAPABILITY):
            raise MissingCapability(TASKS_CAPABILITY)
        task_ids = await channel.catalog.tasks.known(wanted.task_ids, channel.task_owner)
    if wanted.resource_subscriptions is not None and offered.resources is not None:
        await _subscribe(subscriptions, wanted.resource_subscriptions, channel.catalog, access)
        uris = [each.uri for each in subscriptions.values()]
    return SubscriptionFilter(
        tools_list_changed=True if wanted.tools_list_changed and offered.tools is not None else None,
        prompts_list_changed=True if wanted.prompts_list_changed and offered.prompts is not None else None,
        resources_list_changed=True if wanted.resources_list_changed and offered.resources is not None else None,
        resource_subscriptions=uris, task_ids=task_ids)  # fmt: skip


async def listen(channel: ListeningChannel, wanted: SubscriptionFilter, context: RequestContext) -> EmptyResult:
    """Serve `subscriptions/listen` until the client cancels the request, or the server ends the subscription.

    Over HTTP, return at once, and let the transport hold back the response, because thousands of waiting asyncio tasks
    would take much memory. With middleware, wait here, because for middleware a request ends when its handler returns.
    """
    subscriptions = Subscriptions(channel.catalog.service.subscribed)
    accepted = await _accept(wanted, subscriptions, channel, context.access)
    subscription = OpenSubscription(accepted, subscriptions, channel, context.request_id)
    if context.access is not None:
        subscription.caller = context.access.caller
    subscription.open(context.access.ends_at if context.access is not None else None)
    if channel.hold is not None and not channel.catalog.middleware:
        subscription.held = channel.hold(subscription.close)
        return EmptyResult(subscription.meta)
    await subscription.wait_ended()
    if channel.hold is None:
        # [2026-07-28 basic/patterns/cancellation#intro] a server that ends a subscription MUST send `cancelled`. The
        # schema limits this rule to stdio, because over HTTP the end of the stream means the same.
        cancelled = CancelledNotificationParams(context.request_id, meta=subscription.meta)
        subscription.notify("notifications/cancelled", cancelled)
    return EmptyResult(subscription.meta)
