"""Subscriptions of the modern era: one request stays open, and brings the notifications that the client chose.

    subscriptions/listen {filter} -> notifications/subscriptions/acknowledged {honored subset}     MUST come first
                                     notifications/tools/list_changed, notifications/resources/updated, ...
                                     the result, if the server ends the subscription (SHOULD)

The client is in control: a server MUST NOT send a type that the filter does not name. Each message carries the id of
the request in `_meta`, because on stdio all subscriptions share one channel. After a lost connection the client sends
the request again, because the server stores nothing. Notifications in between are lost, so it reads the lists again.

    2024-10-07 to 2025-11-25  resources/subscribe names one resource (capability `resources.subscribe`). List changes
                              come unasked (capability `listChanged`), on Streamable HTTP by the GET stream
    2026-07-28                subscriptions/listen replaced both, and the GET stream: state tied to one request needs
                              no session. `subscribe` now allows `resourceSubscriptions` in the filter. Progress and
                              log messages stay on the stream of their own request
[2026-07-28 basic/patterns/subscriptions#opening-a-stream] [2026-07-28 changelog#major-changes]

Spec:  2026-07-28 basic/patterns/subscriptions
Wire:  {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {"_meta": {
           "io.modelcontextprotocol/protocolVersion": "2026-07-28",
           "io.modelcontextprotocol/clientCapabilities": {}}, "notifications": {"toolsListChanged": true}}}
       {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {"_meta": {
           "io.modelcontextprotocol/subscriptionId": 1}, "notifications": {"toolsListChanged": true}}}
Above: `server/subscriptions.py`, `client/subscriptions.py`. The legacy methods are in `features/resources.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..jsonrpc.messages import Object

MAX_RESOURCES = 1000
"""Maximum number of resources, and of tasks, that one subscription names."""


@dataclass
class SubscriptionFilter:
    """The notifications that a client wants. A URI includes the URIs below it; `task_ids` is of the tasks extension."""

    tools_list_changed: bool | None = None
    prompts_list_changed: bool | None = None
    resources_list_changed: bool | None = None
    resource_subscriptions: list[str] | None = None
    task_ids: list[str] | None = None


@dataclass
class SubscriptionsListenRequestParams:
    """The params of `subscriptions/listen`."""

    notifications: SubscriptionFilter
    meta: Object | None = None


@dataclass
class SubscriptionsAcknowledgedNotificationParams:
    """The part of the filter that the server honors."""

    notifications: SubscriptionFilter
    meta: Object | None = None


def includes_uri(subscribed: str, updated: str) -> bool:
    """Return True if an updated URI is the subscribed one, or below it."""
    # [2025-11-25 server/resources#subscriptions] it might be a sub-resource of the one that the client subscribed to
    return updated == subscribed or updated.startswith(subscribed if subscribed.endswith("/") else f"{subscribed}/")
