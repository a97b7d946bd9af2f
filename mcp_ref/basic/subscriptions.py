"""Subscriptions: a request that stays open, and brings the notifications that the client asked for.

    subscriptions/listen {filter} -> notifications/subscriptions/acknowledged {what is honoured}
                                     notifications/tools/list_changed, notifications/resources/updated, ...
                                     the result, when the server ends it

Everything on it carries the id of the request, so that several can share a connection.

Spec:  2026-07-28 basic/patterns/subscriptions
Wire:  C->S subscriptions/listen; S->C notifications/subscriptions/acknowledged
Above: runtime/listening.py. Elsewhere: in the earlier revisions, resources/subscribe (server/resources.py)
"""

from __future__ import annotations

from dataclasses import dataclass

from ..jsonrpc.messages import Object

MAX_RESOURCES = 1000
"""Resources, and tasks, that one subscription may name."""


@dataclass
class SubscriptionFilter:
    """What to be told of. `resource_subscriptions`: the URIs of resources, each also standing for those below it.
    `task_ids`: tasks, see tasks.py."""

    tools_list_changed: bool | None = None
    prompts_list_changed: bool | None = None
    resources_list_changed: bool | None = None
    resource_subscriptions: list[str] | None = None
    task_ids: list[str] | None = None


@dataclass
class SubscriptionsListenRequestParams:
    """What a client wants to be told of, until it ends the request."""

    notifications: SubscriptionFilter
    meta: Object | None = None


@dataclass
class SubscriptionsAcknowledgedNotificationParams:
    """What the server will tell of."""

    notifications: SubscriptionFilter
    meta: Object | None = None


def covers(subscribed: str, updated: str) -> bool:
    """True if an update concerns a subscription: it names the same URI, or one below it."""
    # [2025-11-25 server/resources#subscriptions] it might be a sub-resource of the one that the client subscribed to
    return updated == subscribed or updated.startswith(subscribed if subscribed.endswith("/") else f"{subscribed}/")
