"""Subscriptions of the modern era: while one request is open, the server sends the notifications that the client chose.

    subscriptions/listen {filter} -> notifications/subscriptions/acknowledged {accepted filter}     MUST come first
                                     notifications/tools/list_changed, notifications/resources/updated, ...
                                     the result, if the server ends the subscription (SHOULD)

A server MUST NOT send types of notifications that are not in the filter. Each notification has the id of the request in
`_meta`, because on stdio those of all subscriptions arrive on one pipe. The server stores no subscriptions, so after a
lost connection the client sends the request again, and reads the lists again, which may have changed in between.

    2024-10-07 to 2025-11-25  resources/subscribe subscribes to one resource (capability `resources.subscribe`). A
                              server with the capability `listChanged` sends list changes without a subscription. On
                              Streamable HTTP, it sends them on the GET stream
    2026-07-28                subscriptions/listen, which needs no session, replaced resources/subscribe and the GET
                              stream. With `resources.subscribe`, its filter can contain `resourceSubscriptions`
[2026-07-28 basic/patterns/subscriptions#opening-a-stream] [2026-07-28 changelog#major-changes]

Spec:  2026-07-28 basic/patterns/subscriptions
Wire:  {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {"_meta": {
           "io.modelcontextprotocol/protocolVersion": "2026-07-28",
           "io.modelcontextprotocol/clientCapabilities": {}}, "notifications": {"toolsListChanged": true}}}
       {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {"_meta": {
           "io.modelcontextprotocol/subscriptionId": 1}, "notifications": {"toolsListChanged": true}}}
"""

from __future__ import annotations

from dataclasses import dataclass

from ..jsonrpc.messages import Object

MAX_RESOURCES = 1000
"""Maximum number of resources, and of tasks, in one filter."""


@dataclass
class SubscriptionFilter:
    """The notifications that a client wants, or, in the acknowledgement, those that the server will send."""

    tools_list_changed: bool | None = None
    prompts_list_changed: bool | None = None
    resources_list_changed: bool | None = None
    resource_subscriptions: list[str] | None = None  # URIs, each of which stands for all URIs below it, too
    task_ids: list[str] | None = None  # of the tasks extension


@dataclass
class SubscriptionsListenRequestParams:
    notifications: SubscriptionFilter
    meta: Object | None = None


@dataclass
class SubscriptionsAcknowledgedNotificationParams:
    notifications: SubscriptionFilter  # the part of the filter that the server accepted
    meta: Object | None = None
