"""Changes: the notifications about resources and lists that a server sends outside of calls.

    subscription of a client -> a subscription of our own client to the same resource -> updates -> this client only
    changed list of a server -> all clients of the bridge, because the list of the bridge has changed too

If the connection to a server is lost, its resources are subscribed to again, and each client gets an update of each of
them, because updates can be lost in the meantime. A list that keeps changing is reported at growing intervals.

Threats:
    bridge-all-subscriptions: the updates of other users; a client; opens subscriptions until the bridge has no room for
        more; each principal has at most half of them.

Spec:  2025-11-25 server/resources#subscriptions; 2026-07-28 basic/patterns/subscriptions
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final

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
from .back_client import BackClient, Caller, caller_of
from .backs import MAX_PAUSE, BackServer, growing_pause
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
    """A subscription to one resource for one client. `report` gets the URIs of the updates."""

    def __init__(self, server: BackServer, caller: Caller, uri: str, report: Callable[[str], None]) -> None:
        self._server, self._caller, self._uri, self._report = server, caller, uri, report
        self.principal = caller.principal
        self.accepted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the server has accepted the subscription, or with McpError if it has refused."""
        self.task = asyncio.create_task(self._run())
        """Ends with the subscription. Its cancellation unsubscribes."""
        self.task.add_done_callback(self._note_end)

    async def _run(self) -> None:
        """Subscribe, and report the updates. If the connection is lost, or the server ends it, subscribe again."""
        pause = 0.0
        while True:
            try:
                client = await self._server.shared(self._caller)
                # not `async with`, which would raise the error of an unsubscription in place of the cancellation
                updates = await client.subscribe(self._uri).__aenter__()
                pause = 0.0
                await self._pass_on(client, updates)
                pause = MIN_PAUSE  # the server has ended the subscription, for example because it is being replaced
            except McpError:
                if not self.accepted.done() or pause > MAX_PAUSE:
                    raise
            await asyncio.sleep(pause)
            pause = max(MIN_PAUSE, 2 * pause)

    async def _pass_on(self, client: BackClient, updates: Subscription) -> None:
        client.watchers += 1
        try:
            if self.accepted.done():
                self._report(self._uri)  # an update can be lost between two connections
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
    """The subscriptions of the clients. The subject of an announcement names the principal that the update is for."""

    def accepts_subscription(self, uri: str) -> bool:
        return True  # the server behind the bridge has decided

    def update_for(
        self, subscriptions: Subscriptions, changed: str, meta: Object | None = None, latest: Access | None = None
    ) -> object:
        principal, _, uri = changed.partition("\n")
        access = next(iter(subscriptions.values())).access  # the same for all subscriptions of a client
        owner = access.id if access is not None else None
        return super().update_for(subscriptions, uri, meta, latest) if (owner or "") == principal else None


class Changes:
    """The subscriptions of all clients of a bridge, and the changed lists of its servers."""

    def __init__(self, servers: dict[str, BackServer], names: Namespace) -> None:
        self.announcers = Announcers()
        """The sessions and subscriptions of the front."""
        self._servers, self._names = servers, names
        self._watches: dict[tuple[object, str], Watch] = {}  # by legacy session or `listen` request, and by URI
        self._reports: dict[str, tuple[int, float, float]] = {}
        """By list, its last report: the number since the list was quiet, the pause before the report, and its time."""
        self._timers: dict[str, asyncio.TimerHandle] = {}  # of the next reports, by list
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
        session.subscriptions.add(canonical, SubscribedResource(uri, access))
        try:
            await self._open((session, canonical), uri, context, session.announce)
        except BaseException:
            session.subscriptions.remove(canonical)
            raise
        return {}

    async def _close_watch(self, key: tuple[object, str]) -> None:
        watch = self._watches.pop(key, None)
        if watch is not None:
            watch.task.cancel()
            await asyncio.wait([watch.task])

    async def _open(
        self, key: tuple[object, str], uri: str, context: RequestContext, announce: Callable[[str, str], None]
    ) -> None:
        """Open a subscription for a client. Raise ProtocolError if the server refuses it."""
        name, original = self._names.split_uri(uri)
        server, caller = self._servers[name], caller_of(context)

        def report(changed: str) -> None:
            shown = self._names.uri_for_client(name, changed)
            announce(RESOURCE_UPDATED, f"{caller.principal or ''}\n{canonical_uri(shown) or shown}")

        watch = self._watches.get(key)
        if watch is None or watch.task.done():
            of_principal = sum(each.principal == caller.principal for each in self._watches.values())
            limit = MAX_WATCHES if caller.principal is None else MAX_WATCHES // 2
            if of_principal >= limit or len(self._watches) >= MAX_WATCHES:
                text = f"the bridge has {len(self._watches)} subscriptions, {of_principal} of this caller"
                raise ProtocolError(INTERNAL_ERROR, f"{text}; end some of them first")
            watch = self._watches[key] = Watch(server, caller, original, report)
        try:
            await asyncio.shield(watch.accepted)
        except BaseException as error:
            self._watches.pop(key, None)
            watch.task.cancel()
            raise self._refusal(error, server, original, context) from None

    def _refusal(self, error: BaseException, server: BackServer, uri: str, context: RequestContext) -> BaseException:
        """Return the exception for a client whose subscription has failed."""
        if isinstance(error, ProtocolError):
            client = server.latest_client
            source = client.revision if client is not None else context.revision
            return convert_error(error, "resources/read", source, context.revision)
        if not isinstance(error, McpError):
            return error
        # only to the log, because the text can quote the standard error of the server
        log.warning("%s: no subscription to %.200r: %s", server.name, uri, server.hosted.mask(str(error)))
        return ProtocolError(INTERNAL_ERROR, f"{server.name} does not report changes of this resource")

    async def listen(
        self, handler: Callable[[SubscriptionsListenRequestParams, RequestContext], Awaitable[object]],
        params: SubscriptionsListenRequestParams, context: RequestContext,
    ) -> object:  # fmt: skip
        """Serve `subscriptions/listen` of a modern client, and accept only the resources that the servers accept."""
        owner = object()  # stands for this request in the keys of `_watches`
        accepted: list[str] = []
        wanted = params.notifications
        try:
            for uri in dict.fromkeys(wanted.resource_subscriptions or ()):
                with contextlib.suppress(ProtocolError):
                    await self._open((owner, uri), uri, context, self.announcers.announce)
                    accepted.append(uri)
            if wanted.resource_subscriptions is not None:
                wanted.resource_subscriptions = accepted
            return await handler(params, context)
        finally:
            await asyncio.gather(*(self._close_watch((owner, uri)) for uri in accepted))

    def end_session(self, session: object) -> None:
        """Forget the subscriptions of a legacy session. Its client of the server is closed too."""
        for key in [key for key in self._watches if key[0] is session]:
            self._watches.pop(key).task.cancel()

    def list_changed(self, kind: str) -> None:
        """Report a changed list of a server to all clients, but not too often."""
        if kind in self._timers:
            return
        loop = asyncio.get_running_loop()
        reports, pause, reported_at = self._reports.get(kind, (0, 0.0, 0.0))
        if loop.time() - reported_at > 2 * max(pause, MIN_PAUSE):
            reports = 0  # the list did not change for a while
        reports += 1
        pause = growing_pause(reports - BURST)
        self._reports[kind] = reports, pause, loop.time() + pause
        self._timers[kind] = loop.call_later(pause, self._report_list, kind)

    def _report_list(self, kind: str) -> None:
        del self._timers[kind]
        self.announcers.announce(f"notifications/{kind}/list_changed")

    async def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        await asyncio.gather(*(self._close_watch(key) for key in tuple(self._watches)))
