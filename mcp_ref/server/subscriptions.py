"""The request `subscriptions/listen` on the server. It stays open, and the server sends notifications on its stream.

    client -> subscriptions/listen, with a filter: the wanted notifications
    server -> `notifications/subscriptions/acknowledged`, with the accepted part of the filter
    server -> a notification for each change
    server -> the result, when the server ends the subscription

In the legacy era, a session stores the subscriptions of `resources/subscribe`. The modern era has no sessions, so the
open request is the subscription [2026-07-28 changelog#major-changes].

Spec:  2026-07-28 basic/patterns/subscriptions
Wire:  C->S subscriptions/listen; S->C notifications/subscriptions/acknowledged
"""

from __future__ import annotations

import asyncio
import dataclasses
from functools import partial
from typing import cast

from ..basic.access import Access, until_expiry
from ..basic.cancellation import CancelledNotificationParams
from ..basic.channel import RequestContext
from ..basic.content import includes_uri
from ..basic.lifecycle import declares
from ..basic.meta import EmptyResult, NotificationParams
from ..basic.subscriptions import (
    MAX_RESOURCES,
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotificationParams,
    SubscriptionsListenRequestParams,
)
from ..basic.versioning import SUBSCRIPTION_ID, MissingCapability
from ..features import lazy as features
from ..features.task_augmentation import EXTENSION_CAPABILITY
from ..jsonrpc.errors import ProtocolError
from ..jsonrpc.messages import INVALID_PARAMS, Object
from .catalog import Announcer, Catalog, OpenSubscriptions
from .context import YIELD_INTERVAL


class OpenSubscription:
    """One open `subscriptions/listen` request."""

    def __init__(self, catalog: Catalog, accepted: SubscriptionFilter, context: RequestContext) -> None:
        self.ended: asyncio.Future[None] = context.channel.loop.create_future()
        drain = partial(context.channel.drain, context.request_id)
        self.announcer = Announcer(self._wants, self._send_change, drain)
        self._catalog, self._accepted, self._context = catalog, accepted, context
        # [2026-07-28 basic/patterns/subscriptions#receiving-notifications] MUST have the request's id, of the same type
        self.meta: Object = {SUBSCRIPTION_ID: context.request_id}

    def _wants(self, method: str, subject: str | None) -> bool:
        if self.ended.done():
            return False
        accepted = self._accepted
        match method:
            case "notifications/tasks":
                return subject in (accepted.task_ids or ())
            case "notifications/tools/list_changed":
                return accepted.tools_list_changed is True
            case "notifications/prompts/list_changed":
                return accepted.prompts_list_changed is True
            case "notifications/resources/list_changed":
                return accepted.resources_list_changed is True
            case _:
                uris = accepted.resource_subscriptions or ()
                return subject is not None and any(includes_uri(uri, subject) for uri in uris)

    def _send_change(self, method: str, subject: str | None) -> None:
        if self.ended.done():
            return
        if subject is None:
            self.notify(method, NotificationParams(self.meta))
        elif method == "notifications/tasks":
            task = self._catalog.tasks.store.get(subject, self._context.channel.task_owner)
            if task is not None:
                self.notify(method, dataclasses.replace(task, meta=self.meta))
        else:
            self.notify(method, features.resources.ResourceUpdatedNotificationParams(subject, self.meta))

    def notify(self, method: str, params: object) -> None:
        self._context.channel.notify(method, params, self._context.request_id)


async def _subscribable(catalog: Catalog, uris: list[str], access: Access | None) -> list[str]:
    """Return the URIs that belong to resources for which the caller has the scopes.

    Let other requests run meanwhile: a thousand URIs take long.
    """
    found = []
    for number, uri in enumerate(uris):
        if number % YIELD_INTERVAL == YIELD_INTERVAL - 1:
            await asyncio.sleep(0)
        is_allowed = access is None or access.refusal_for(catalog.resources.scopes_of(uri)) is None
        if is_allowed and catalog.resources.accepts_subscription(uri):
            found.append(uri)
    return found


async def listen(
    catalog: Catalog,
    subscriptions: OpenSubscriptions,
    params: SubscriptionsListenRequestParams,
    context: RequestContext,
) -> EmptyResult:
    """Serve `subscriptions/listen` until the client cancels the request, or the server ends the subscription."""
    wanted = params.notifications
    if max(len(wanted.resource_subscriptions or ()), len(wanted.task_ids or ())) > MAX_RESOURCES:
        text = f"Invalid params: a subscription must not name more than {MAX_RESOURCES} resources or tasks"
        raise ProtocolError(INVALID_PARAMS, text)
    offered = catalog.capabilities()
    tasks: list[str] | None = None
    if wanted.task_ids is not None and offered.extensions is not None:
        if not declares(context.channel.peer_capabilities, EXTENSION_CAPABILITY):
            raise MissingCapability(EXTENSION_CAPABILITY)
        owner = context.channel.task_owner
        tasks = [id for id in wanted.task_ids if catalog.tasks.store.get(id, owner) is not None]
    accepted = SubscriptionFilter(
        True if wanted.tools_list_changed and offered.tools is not None else None,
        True if wanted.prompts_list_changed and offered.prompts is not None else None,
        True if wanted.resources_list_changed and offered.resources is not None else None,
        await _subscribable(catalog, wanted.resource_subscriptions, context.access)
        if wanted.resource_subscriptions is not None and offered.resources is not None
        else None,
        tasks,
    )
    subscription = OpenSubscription(catalog, accepted, context)
    # [2026-07-28 basic/patterns/subscriptions#acknowledgment] the acknowledgement MUST be the first message
    acknowledged = SubscriptionsAcknowledgedNotificationParams(accepted, subscription.meta)
    subscription.notify("notifications/subscriptions/acknowledged", acknowledged)
    catalog.announcers.add(subscription.announcer)
    subscriptions.serving_tasks[subscription.ended] = cast("asyncio.Task[object]", asyncio.current_task())
    try:
        await until_expiry(subscription.ended, context.access.ends_at if context.access is not None else None)
    finally:
        catalog.announcers.discard(subscription.announcer)
        del subscriptions.serving_tasks[subscription.ended]
        subscription.announcer.close()
        subscription.ended.cancel()
    if subscriptions.shares_stream:
        # [2026-07-28 basic/patterns/cancellation#intro] a server that ends a subscription MUST send `cancelled`. The
        # schema limits this rule to stdio, because over HTTP the end of the stream shows the end of the subscription.
        cancelled = CancelledNotificationParams(context.request_id, meta=subscription.meta)
        subscription.notify("notifications/cancelled", cancelled)
    return EmptyResult(subscription.meta)
