"""Changes: the notifications about resources and lists that a server sends outside of calls.

    a client subscribes to a resource -> the bridge subscribes to it at the server -> updates -> this client only
    a list of a server changes        -> all clients of the bridge, because the list of the bridge has changed too

If the connection to a server is lost, the bridge subscribes again, and tells each client that the resource has changed,
because it may have missed an update in the meantime. A list that keeps changing is reported at growing intervals.

Threats:
    bridge-all-subscriptions: A client cuts other users off from their updates by opening subscriptions until the bridge
        has no room for more. Each principal can have at most half of all subscriptions.

Spec:  2025-11-25 server/resources#subscriptions; 2026-07-28 basic/patterns/subscriptions
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from ..basic.access import Access, SubscribedResource, Subscriptions
from ..basic.channel import RequestContext
from ..basic.subscriptions import SubscriptionsListenRequestParams
from ..client.subscriptions import RESOURCE_UPDATED, Subscription
from ..features.resources import Resources
from ..jsonrpc.errors import ConnectionClosed, McpError, ProtocolError
from ..jsonrpc.messages import INTERNAL_ERROR, Object
from ..lib.uri import canonical_uri
from ..server.announcements import Announcers
from ..server.context import Context
from ..server.session import ServerSession
from .back_client import BackClient
from .backs import MAX_PAUSE, BackServer, growing_pause
from .callers import Caller, caller_of
from .conversion import convert_error
from .namespaces import Namespace

log = logging.getLogger(__name__)

BURST: Final = 5
"""Number of changes of one list that are reported without a pause."""

MIN_PAUSE: Final = 1.0
"""Shortest pause between two reports after `BURST`, or between two attempts to subscribe again, in seconds."""

MAX_WATCHES: Final = 10_000
"""Maximum number of open subscriptions of a bridge, half of which one authenticated caller can have."""


class Watch:
    """A subscription of the bridge to one resource of a server, for one client in front.

    Args:
        server: The server.
        caller: The client in front.
        uri: The server's own URI of the resource.
        report: Function that reports an update, and gets its URI: `uri`, or the URI of a part of this resource.
    """

    def __init__(self, server: BackServer, caller: Caller, uri: str, report: Callable[[str], None]) -> None:
        self._server, self._caller, self._uri, self._report = server, caller, uri, report
        self.principal = caller.principal
        self.accepted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the server has accepted the subscription, or with McpError if it has refused."""
        self.task = asyncio.create_task(self._run())
        """Ends with the subscription. Its cancellation unsubscribes."""
        self.task.add_done_callback(self._note_end)

    async def _run(self) -> None:
        """Subscribe, and report the updates. Subscribe again if the connection is lost, or if the server ends the
        subscription. Each failed attempt doubles the pause; raise its error if the pause would exceed `MAX_PAUSE`."""
        pause = 0.0  # before the next attempt, in seconds
        while True:
            try:
                client = await self._server.shared(self._caller)
                # Not `async with`, because an error of unsubscribing could replace a cancellation. `_report_updates`
                # calls `__aexit__`, and suppresses its error.
                updates = await client.subscribe(self._uri).__aenter__()
                pause = 0.0  # after a success, try again at once if the connection is lost (McpError)
                await self._report_updates(client, updates)
                pause = MIN_PAUSE  # the server has ended the subscription, for example because it is being replaced
            except McpError:
                if not self.accepted.done() or pause > MAX_PAUSE:  # refused at first, or failed too often since
                    raise
            await asyncio.sleep(pause)
            pause = max(MIN_PAUSE, 2 * pause)

    async def _report_updates(self, client: BackClient, updates: Subscription) -> None:
        """Report updates until the server ends the subscription. Raise McpError if the connection is lost."""
        client.watchers += 1  # so the client stays open
        try:
            if self.accepted.done():  # by an earlier connection, after which an update can have been missed
                self._report(self._uri)
            else:
                self.accepted.set_result(None)
            async for uri in updates:
                self._report(uri)
        finally:
            client.watchers -= 1
            with contextlib.suppress(McpError):
                await updates.__aexit__()

    def _note_end(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if not self.accepted.done():
            self.accepted.set_exception(error or ConnectionClosed("the subscription was closed"))
        elif error is not None:
            log.warning("%s: the subscription to %.200r was lost", self._server.name, self._uri)
        self.accepted.exception()  # reading the exception stops asyncio from logging it


class FrontResources(Resources):
    """The resources feature of the front. Nothing is registered in it, but it chooses the clients that get an update.

    An `Announcers` offers each update to all sessions and subscriptions of the front. The subject that it announces
    (`_subject`) names the principal besides the URI, so that no other user learns of the update.
    """

    def accepts_subscription(self, uri: str) -> bool:
        return True  # the server behind the bridge has decided

    def update_for(
        self, subscriptions: Subscriptions, changed: str, meta: Object | None = None, latest: Access | None = None
    ) -> object:
        """Return the params of an update for one client, or None if the update is not for it. `changed` is the
        subject of the announcement."""
        access = next(iter(subscriptions.values())).access  # the same for all subscriptions of a client
        owner = access.id if access is not None else None
        principal, _, uri = changed.partition("\n")
        if principal != (owner or ""):
            return None
        return super().update_for(subscriptions, uri, meta, latest)


def _subject(principal: str | None, uri: str) -> str:
    """Return the subject of an announcement that `FrontResources.update_for` reads."""
    return f"{principal or ''}\n{uri}"


class _Report(NamedTuple):
    """The latest report of a changed list, which is already sent, or waits for its time."""

    number: int
    """Number of reports since the list was quiet."""
    pause: float
    """Time between the change and the report, in seconds."""
    at: float
    """Time of the report, in seconds of the loop's clock."""


class Changes:
    """The subscriptions of all clients of a bridge, and the changed lists of its servers."""

    def __init__(self, servers: dict[str, BackServer], names: Namespace) -> None:
        self.announcers = Announcers()
        """The sessions and subscriptions of the front."""
        self._servers, self._names = servers, names
        self._watches: dict[tuple[object, str], Watch] = {}  # (session or `listen` request, URI) -> watch
        self._reports: dict[str, _Report] = {}  # by list: "tools", "prompts" or "resources"
        self._timers: dict[str, asyncio.TimerHandle] = {}  # of the reports that wait for their time, by list
        for server in servers.values():
            server.on_list_changed = self.list_changed

    async def subscribe(self, method: str, params: Object, context: Context) -> Object:
        """Serve `resources/subscribe` and `resources/unsubscribe` of a legacy client."""
        session = context.channel
        assert isinstance(session, ServerSession)
        uri = str(params.get("uri"))
        canonical = canonical_uri(uri) or uri
        if method == "resources/unsubscribe":
            session.subscriptions.remove(canonical)
            await self._close_watch((session, canonical))
            return {}
        access = context.access.without_headers() if context.access is not None else None
        # add it before the server knows of it, because an update without a subscription is dropped
        session.subscriptions.add(canonical, SubscribedResource(uri, access))
        try:
            await self._open_watch((session, canonical), uri, context, session.announce)
        except BaseException:
            session.subscriptions.remove(canonical)
            raise
        return {}

    async def _close_watch(self, key: tuple[object, str]) -> None:
        watch = self._watches.pop(key, None)
        if watch is not None:
            watch.task.cancel()
            await asyncio.wait([watch.task])

    async def _open_watch(
        self, key: tuple[object, str], uri: str, context: RequestContext, announce: Callable[[str, str], None]
    ) -> None:
        """Open a subscription for a client. Raise ProtocolError if the server refuses it.

        Args:
            key: The key of the watch in `_watches`.
            uri: The URI that the client has sent.
            context: The client's request.
            announce: Function that gets the method and the subject of each update.
        """
        server_name, own_uri = self._names.split_uri(uri)
        server, caller = self._servers[server_name], caller_of(context)

        def report(changed: str) -> None:
            shown = self._names.uri_for_client(server_name, changed)
            announce(RESOURCE_UPDATED, _subject(caller.principal, canonical_uri(shown) or shown))

        watch = self._watches.get(key)
        if watch is None or watch.task.done():
            self._check_limit(caller)
            watch = self._watches[key] = Watch(server, caller, own_uri, report)
        try:
            await asyncio.shield(watch.accepted)
        except BaseException as error:
            self._watches.pop(key, None)
            watch.task.cancel()
            raise self._refusal(error, server, own_uri, context) from None

    def _check_limit(self, caller: Caller) -> None:
        """Raise ProtocolError if the bridge, or this caller, already has the maximum number of subscriptions."""
        of_principal = sum(each.principal == caller.principal for each in self._watches.values())
        limit = MAX_WATCHES if caller.principal is None else MAX_WATCHES // 2
        if of_principal >= limit or len(self._watches) >= MAX_WATCHES:
            text = f"the bridge has {len(self._watches)} subscriptions, {of_principal} of this caller"
            raise ProtocolError(INTERNAL_ERROR, f"{text}; end some of them first")

    def _refusal(self, error: BaseException, server: BackServer, uri: str, context: RequestContext) -> BaseException:
        """Return the exception for a client whose subscription has failed."""
        if isinstance(error, ProtocolError):
            client = server.latest_client
            source = client.revision if client is not None else context.revision
            # as for a read, because both have the error of an unknown resource, whose code depends on the revision
            return convert_error(error, "resources/read", source, context.revision)
        if not isinstance(error, McpError):
            return error  # such as the cancellation of the client's request
        # only to the log, because the text can quote the standard error of the server
        log.warning("%s: no subscription to %.200r: %s", server.name, uri, server.hosted.mask(str(error)))
        return ProtocolError(INTERNAL_ERROR, f"{server.name} does not report changes of this resource")

    async def listen(
        self, handler: Callable[[SubscriptionsListenRequestParams, RequestContext], Awaitable[object]],
        params: SubscriptionsListenRequestParams, context: RequestContext,
    ) -> object:  # fmt: skip
        """Serve `subscriptions/listen` of a modern client, and accept only the resources that the servers accept.

        `handler` serves this method in a server without a bridge. It acknowledges the subscription, and returns when
        the subscription ends.
        """
        owner = object()  # stands for this request in the keys of `_watches`
        accepted: list[str] = []
        wanted = params.notifications
        try:
            for uri in dict.fromkeys(wanted.resource_subscriptions or ()):
                with contextlib.suppress(ProtocolError):
                    await self._open_watch((owner, uri), uri, context, self.announcers.announce)
                    accepted.append(uri)
            if wanted.resource_subscriptions is not None:
                wanted.resource_subscriptions = accepted
            return await handler(params, context)
        finally:
            await asyncio.gather(*(self._close_watch((owner, uri)) for uri in accepted))

    def end_session(self, session: object) -> None:
        """End the subscriptions of a legacy session without waiting, because its connections are closed too."""
        for key in [key for key in self._watches if key[0] is session]:
            self._watches.pop(key).task.cancel()

    def list_changed(self, kind: str) -> None:
        """Report a changed list of a server to all clients, but not too often."""
        if kind in self._timers:
            return  # the report that waits for its time includes this change
        loop = asyncio.get_running_loop()
        last = self._reports.get(kind, _Report(0, 0.0, 0.0))
        # while a list keeps changing, the next change follows soon after a report, before twice the pause has passed
        was_quiet = loop.time() - last.at > 2 * max(last.pause, MIN_PAUSE)
        number = 1 if was_quiet else last.number + 1
        pause = growing_pause(number - BURST)  # none for the first reports
        self._reports[kind] = _Report(number, pause, loop.time() + pause)
        self._timers[kind] = loop.call_later(pause, self._report_list, kind)

    def _report_list(self, kind: str) -> None:
        del self._timers[kind]
        self.announcers.announce(f"notifications/{kind}/list_changed")

    async def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        await asyncio.gather(*(self._close_watch(key) for key in tuple(self._watches)))
