"""Subscriptions: the notifications that a client asked for, and no others.

Spec:  2026-07-28 basic/patterns/subscriptions, server/resources#subscriptions (2024-11-05 to 2025-11-25)
Used by: conversation.py
"""

from __future__ import annotations

from typing import Final

from ..basic.versioning import SUBSCRIPTION_ID
from ..lib.uri import includes_uri
from .memory import subscription_of
from .rules import MUST, SHOULD, Fault, Verdict, legacy_rule, modern_rule
from .shapes import is_string_or_integer
from .state import Exchange, Message, an_object, quoted

_PAGE: Final = "2026-07-28/basic/patterns/subscriptions"
_FILTERS: Final = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
    "notifications/resources/updated": "resourceSubscriptions",
}
_SUBSCRIBED_METHODS: Final = " ".join(_FILTERS)
_ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"


@modern_rule(MUST, "2026-07-28/basic/index#meta-16", "notification", methods=f"{_SUBSCRIBED_METHODS} {_ACKNOWLEDGED}")
def subscription_id(message: Message) -> Verdict:
    """A notification of a subscription has its subscriptionId in _meta."""
    id, listen = message.meta.get(SUBSCRIPTION_ID), subscription_of(message)
    if id is None:
        return f"{message.method} has no {SUBSCRIPTION_ID} in its _meta"
    if not is_string_or_integer(id):
        return f"{message.method} has the subscriptionId {quoted(id)}, which is not a string or an integer"
    if listen is not None:
        if id == listen.id:
            return None
        return Fault(f"{message.method} has the subscriptionId {quoted(id)}, not {listen.id!r}", (listen.event,))
    # the recording may lack the `subscriptions/listen` request, which over HTTP would be the request of this exchange
    if message.exchange is not None or not message.dialogue.is_fully_seen:
        return None
    if id in message.receiver.finished:  # notifications may still arrive when their subscription has ended
        return None
    return f"{message.method} has the subscriptionId {quoted(id)}, which no subscription has"


@modern_rule(MUST, f"{_PAGE}#acknowledgment-1", "notification", methods=_SUBSCRIBED_METHODS)
def acknowledged_first(message: Message) -> Verdict:
    """The first message of a subscription acknowledges it."""
    listen = subscription_of(message)
    if listen is None or listen.acknowledged is not None:
        return None
    # the default key is the method, which would give a finding for each method of the same subscription
    return Fault(f"{message.method} comes before {_ACKNOWLEDGED}", (listen.event,), key="")


@modern_rule(MUST, f"{_PAGE}#opening-a-stream-1", "notification", methods=f"{_SUBSCRIBED_METHODS} {_ACKNOWLEDGED}")
def only_requested(message: Message) -> Verdict:
    """A subscription has only notifications that its client asked for."""
    listen = subscription_of(message)
    if listen is None or not listen.has_known_params:
        return None
    wanted = an_object(listen.params.get("notifications"))
    if message.method == _ACKNOWLEDGED:
        for name, value in an_object(message.body.get("notifications")).items():
            if value and not wanted.get(name):
                return Fault(f"the server acknowledges {name[:80]}, which the client did not ask for", (listen.event,))
        return None
    member = _FILTERS[message.method]
    if member == "resourceSubscriptions":
        return _unwanted_update(message, wanted.get(member), listen.event)
    text = f"{message.method} comes, but the client did not ask for {member}"
    return None if wanted.get(member) else Fault(text, (listen.event,))


def _unwanted_update(message: Message, uris: object, event: int) -> Verdict:
    uri = str(message.body.get("uri"))
    subscribed = [str(each) for each in uris] if isinstance(uris, list) else []
    if any(each == uri or includes_uri(each, uri) for each in subscribed):
        return None
    return Fault(f"{message.method} comes for {quoted(uri)}, which the client did not subscribe to", (event,))


@legacy_rule(SHOULD, "schema/ResourceUpdatedNotification",
             "notification", methods="notifications/resources/updated", needs="seen unshared")  # fmt: skip
def subscribed_resource(message: Message) -> Verdict:
    """Updates come only for resources that the client subscribed to."""
    dialogue = message.dialogue
    if dialogue.initialize is None or dialogue.subscribed.forgot:  # a subscription that is not remembered may exist
        return None
    return _unwanted_update(message, [*dialogue.subscribed], dialogue.initialize.event)


@modern_rule(SHOULD, f"{_PAGE}#graceful-closure-1", "end")
def graceful_end(exchange: Exchange) -> Verdict:
    """A subscription that the server ends gets a result."""
    if exchange.subscription is None or not exchange.ends_stream or exchange.response_count:
        return None
    return "the server ends the stream of subscriptions/listen without a result"
