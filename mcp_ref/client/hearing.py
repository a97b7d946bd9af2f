"""What a server tells a client of its own accord, and who is told: changes, log messages, updates of resources.

    earlier era      it comes on the connection, to whoever wants it
    stateless era    it is asked for: changes by a `subscriptions/listen`, log messages with each request

Spec:  the pages of server/; 2026-07-28 basic/patterns/subscriptions
Above: client.py, reaching.py. Below: subscribing.py
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from ..basic.subscriptions import SubscriptionFilter, covers
from ..features.caching import ServerCache
from ..jsonrpc.errors import ConnectionClosed, McpError
from .subscriptions import Stream, Subscription

if TYPE_CHECKING:
    from ..features.logging import LoggingMessageNotificationParams
    from ..features.resources import ResourceUpdatedNotificationParams
    from .connector import Connector

log = logging.getLogger(__name__)

LISTEN_SECONDS = 5.0
"""Seconds that a server may take to acknowledge what the `on_…_changed` functions listen for; it is no error then."""


class News:
    """Who is told what. on_log: takes log messages. on_changed: takes changes of "tools", "resources" or "prompts"."""

    def __init__(
        self,
        on_log: Callable[[LoggingMessageNotificationParams], None] | None,
        on_changed: dict[str, Callable[[], None] | None],
        cache: ServerCache,
    ) -> None:
        self.watched: dict[str, list[Subscription]] = {}
        """Who watches what in the earlier era, by URI."""
        self._on_log = on_log
        self._on_changed = {f"notifications/{kind}/list_changed": function for kind, function in on_changed.items()}
        self._cache = cache
        self._stream: Stream | None = None

    async def listen(self, reach: Connector) -> None:
        """In the stateless era, a server tells of changes, and logs, only to who asks for it."""
        if reach.revision.era == "legacy":
            return
        if self._on_log is not None:
            reach.session.log_level = "debug"

        def is_wanted(kind: str) -> bool | None:
            function = self._on_changed[f"notifications/{kind}/list_changed"]
            return True if function is not None and reach.server_can(f"{kind}.listChanged") else None

        wanted = SubscriptionFilter(is_wanted("tools"), is_wanted("prompts"), is_wanted("resources"))
        if wanted == SubscriptionFilter():
            return
        stream = Stream(reach, wanted, lambda method, uri: self._tell_of_change(method), _tell_of_the_end)
        try:
            await stream.open(LISTEN_SECONDS)
            self._stream = stream
        except McpError as error:
            log.warning("the server will not tell of changes: %s", error)

    async def close(self) -> None:
        """Stop listening."""
        if self._stream is not None:
            await self._stream.close()

    def lost(self) -> None:
        """The connection has ended, and with it what was watched over it."""
        for subscriptions in self.watched.values():
            for subscription in subscriptions:
                subscription.end(ConnectionClosed("the server is gone"))

    def heard(self, method: str, params: object) -> None:
        """Take a notification that has come on the connection."""
        self._cache.invalidate(method, getattr(params, "uri", None))
        if method == "notifications/resources/updated":
            self._tell_of_update(cast("ResourceUpdatedNotificationParams", params).uri)
        elif method == "notifications/message" and self._on_log is not None:
            self._on_log(cast("LoggingMessageNotificationParams", params))
        else:
            self._tell_of_change(method)

    def _tell_of_change(self, method: str) -> None:
        function = self._on_changed.get(method)
        if function is not None:
            try:
                function()
            except Exception:  # its own fault, which keeps nothing from the others
                log.exception("the handler of %s failed", method)

    def _tell_of_update(self, uri: str) -> None:
        for subscribed, subscriptions in self.watched.items():
            if covers(subscribed, uri):
                for subscription in subscriptions:
                    subscription.put(uri)


def _tell_of_the_end(why: Exception | None) -> None:
    log.warning("the server no longer tells of changes: %s", why or "it has ended the subscription")
