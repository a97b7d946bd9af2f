"""The clients that a bridge has for one server: which of them a request can use, and when a new one is connected.

In this module, a client is one of the bridge's own (`BackClient`), and a caller is a client in front of the bridge.
Callers with the same *key* share clients. No two users do, because a shared session would send the messages of one user
to the other, so each key names the principal, the authenticated user. The rest of the key depends on the server: a
legacy server keeps state for each session, and sends only requests that the capabilities in the handshake allow.

    caller                          legacy server                             modern server
    a legacy session                one client, for its life                  one client for each principal
    a modern request                a pool of clients for each principal      one client for each principal
                                    and set of capabilities

A legacy server's request does not say to which call it belongs. So if a caller's capabilities let the server send
requests, each client of its pool serves only one call at a time: it is *leased*. This also holds over Streamable HTTP,
where a request can come on the stream of its call, because the server can use the GET stream as well. A call that waits
for its user keeps its client, but frees its place in the pool, because users can take minutes.

The credentials for the server come from the bridge's configuration, never from the caller. A client for a session tells
a legacy server the name of the session's own client. The other clients tell it the bridge's name.

Threats:
    bridge-shared-session: A caller gets another user's messages by using the same request ids and progress tokens. Each
        principal has its own clients, and each client its own ids.
    bridge-all-clients: A caller shuts others out of a server: it opens sessions, or names other capabilities in each
        request, until no more clients can connect. Each principal has at most half of the clients.
    bridge-restart-loop: A server keeps the user's computer busy by ending after each start. The pauses before it grow.

Spec:  basic/lifecycle (2024-11-05 to 2025-11-25), 2026-07-28 basic/versioning, basic/index#statelessness
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from ..basic.lifecycle import Implementation
from ..client.connector import ConnectionState
from ..codec import codec_for
from ..host.hosted import HostedServer
from ..host.launch import Launch
from ..jsonrpc.bounded_waits import retrieve_exception
from ..jsonrpc.errors import ProtocolError
from ..jsonrpc.messages import INTERNAL_ERROR, Object
from ..revisions import Era, Revision
from ..server.session import ServerSession
from .back_client import BackClient, ServerNotes
from .callers import Caller, session_key
from .calls import Call

log = logging.getLogger(__name__)

MAX_CLIENTS_PER_KEY: Final = 4
"""Maximum number of clients in one pool. Further calls wait."""
MAX_CLIENTS: Final = 32
"""Maximum number of clients of one server for modern requests. One authenticated caller gets at most half of them."""
MAX_SESSION_CLIENTS: Final = 256
"""Maximum number of clients of one server for legacy sessions. One authenticated caller gets at most half of them."""

POOL_SECONDS: Final = 30.0
"""Time that a call waits for a client of a full pool, in seconds."""

SHORT_LIFE: Final = 10.0
"""Time within which the end of a connection counts as a failure of the server, in seconds."""

MAX_PAUSE: Final = 60.0
"""Longest pause between two attempts to start a server, in seconds. The first pause is one second."""

MAX_COUNTED_KEYS: Final = 128
"""Maximum number of keys whose failures are counted. Above it, all counts begin again."""


def growing_pause(count: int) -> float:
    """Return the pause after `count` events in a row, in seconds: none, 1, 2, 4, and so on until `MAX_PAUSE`."""
    if count <= 0:
        return 0.0
    exponent = min(count - 1, 10)  # without this limit, the power overflows after hours
    return min(2.0**exponent, MAX_PAUSE)


class _Failures(NamedTuple):
    """A number of failures in a row, and the time of the next attempt, in seconds of the monotonic clock."""

    number: int
    next_start: float


class _SessionInfo(Implementation):
    """The name that a client for a legacy session tells the server, whose era is not known yet. A legacy server gets
    that of the session's own client; a modern one that of the bridge, because all sessions will share this client."""

    def __init__(self, info: Implementation, bridge_info: Implementation) -> None:
        super().__init__(**vars(info))
        self._bridge_info = bridge_info

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        return wire if revision.era == "legacy" else codec_for(revision).encode(self._bridge_info)


class BackServer(ServerNotes):
    """One server behind the bridge, and the clients for it.

    Args:
        hosted: The server, with its configuration and its policy.
        info: The name and version of the bridge.
        max_clients: Maximum number of clients in one pool.
        revisions: The revisions to speak with the server. Default: all.
    """

    def __init__(
        self, hosted: HostedServer, info: Implementation, max_clients: int, revisions: Sequence[Revision | str] | None
    ) -> None:
        super().__init__(hosted)
        self.is_modern: bool | None = None
        """True if the server speaks the modern era; None until the first client has connected."""
        self.latest_client: BackClient | None = None
        """The client that connected last. It knows the server's name, capabilities and instructions."""
        self.on_connected: Callable[[], None] = lambda: None
        """Called when `latest_client` has changed."""
        self.on_list_changed: Callable[[str], None] = lambda kind: None
        """Called with "tools", "prompts" or "resources" when a list of the server has changed."""
        self.clients: list[BackClient] = []
        """All clients, also those that are still connecting."""
        self.starts = 0
        self.last_error = ""
        self._info, self._max_clients, self._revisions = info, max_clients, revisions
        self._eras: dict[str, Era] = {}  # in which `Client` stores the server's era, so that it negotiates only once
        self._launch: Launch | None = None  # the server's program or URL, once its start is approved
        self._connecting: dict[Hashable, asyncio.Task[BackClient]] = {}  # by key
        self._shared: dict[Hashable, BackClient] = {}  # by key, the client that has connected last
        self._places: WeakValueDictionary[Hashable, asyncio.Semaphore] = WeakValueDictionary()  # in the pools, by key
        self._closing: set[asyncio.Task[None]] = set()
        self._failures: dict[Hashable, _Failures] = {}
        """By key: connections that ended within `SHORT_LIFE` seconds. With the key None: the failed starts."""

    def _key(self, caller: Caller) -> Hashable:
        return ("modern", caller.principal) if self.is_modern else caller.key_for_legacy_server

    async def shared(self, caller: Caller) -> BackClient:
        """Return a client that can serve several requests of this caller at the same time. Connect it if necessary."""
        key = self._key(caller)
        client = self._shared.get(key)
        if client is not None and client.is_open:
            return client
        if key not in self._connecting:
            self._connecting[key] = asyncio.create_task(self._connect(caller))
            self._connecting[key].add_done_callback(partial(self._note_connected, key))
        return await asyncio.shield(self._connecting[key])  # it continues if the request that began it is cancelled

    def _note_connected(self, key: Hashable, task: asyncio.Task[BackClient]) -> None:
        if self._connecting.get(key) is task:  # otherwise `end_session` has cancelled it
            del self._connecting[key]
        retrieve_exception(task)

    @contextlib.asynccontextmanager
    async def leased(self, caller: Caller, call: Call) -> AsyncIterator[BackClient]:
        """Return a context manager with a client for a modern caller's call to a legacy server. If the caller has
        capabilities, so that the server can send requests to it, the client serves no other call meanwhile.

        Raise ProtocolError if the pool stays full, or if the server cannot be started.
        """
        if not caller.capabilities:
            yield await self.shared(caller)
            return
        key = caller.key_for_legacy_server
        place = await self._take_place(key)
        with place:
            if self._max_clients > 1:  # otherwise the server may allow only one connection, so a held call keeps it
                call.on_held = place.close
            free = [each for each in self.clients if each.key == key and each.is_open and not each.is_leased]
            client = free[0] if free else await self._connect(caller)
            client.is_leased = True
            try:
                yield client
            finally:
                client.is_leased = False

    async def _take_place(self, key: Hashable) -> contextlib.ExitStack:
        """Wait for a place in a pool. Close the result to free the place; closing it twice frees it only once."""
        places = self._places.setdefault(key, asyncio.Semaphore(self._max_clients))
        try:
            async with asyncio.timeout(POOL_SECONDS):
                await places.acquire()
        except TimeoutError:
            raise ProtocolError(INTERNAL_ERROR, f"{self.name}: all clients are in use; try again later") from None
        place = contextlib.ExitStack()
        place.callback(places.release)
        return place

    async def _connect(self, caller: Caller) -> BackClient:
        """Return a new client. Raise ProtocolError if the server cannot be started now."""
        if caller.session is not None and caller.session.ended.done():
            raise ProtocolError(INTERNAL_ERROR, "the session has ended")  # nobody would close its client
        self._check_pause(caller)
        self.starts += 1
        try:
            self._launch = self._launch or await self.hosted.approved_launch()
            client = self._new_client(caller, self._launch)
        except Exception as error:
            raise self._start_error(error) from None
        self._make_room(caller)
        self.clients.append(client)
        try:
            await client.connect()
        except Exception as error:
            raise self._start_error(error) from None
        finally:
            if not client.is_open:  # failed, cancelled or discarded
                self._forget(client)
        self._note_connection(client)
        if client.caller.session is not None:
            await client.set_level(client.caller.session.logging_level)
        return client

    def _check_pause(self, caller: Caller) -> None:
        """Raise ProtocolError during the pause after a failed start, or after a lost connection of the same key."""
        failures = [self._failures[key] for key in (None, self._key(caller)) if key in self._failures]
        seconds = max((each.next_start for each in failures), default=0.0) - time.monotonic()
        if seconds > 0:
            text = f"{self.name} failed to start ({self.last_error}), and is tried again in {seconds:.0f} s"
            raise ProtocolError(INTERNAL_ERROR, text)

    def _note_connection(self, client: BackClient) -> None:
        """Note the era of a server to which a client has just connected, and let callers with this key share it."""
        self.is_modern, self.latest_client = client.is_modern, client
        self._failures.pop(None, None)
        client.key = self._key(client.caller)  # only now, because it depends on the server's era
        self._shared[client.key] = client
        if client.is_modern:
            client.caller = replace(client.caller, session=None)  # all sessions of the principal share it
        self.on_connected()
        connected_at = time.monotonic()
        client.session.ended.add_done_callback(lambda _: self._note_end(client, time.monotonic() - connected_at))

    def _new_client(self, caller: Caller, launch: Launch) -> BackClient:
        session_info = caller.session.peer_info if caller.session is not None else None
        return self.hosted.new_client(
            launch, partial(BackClient, back=self, caller=caller),
            info=self._info if session_info is None else _SessionInfo(session_info, self._info),
            on_tools_changed=partial(self.on_list_changed, "tools"),
            on_prompts_changed=partial(self.on_list_changed, "prompts"),
            on_resources_changed=partial(self.on_list_changed, "resources"),
            revisions=self._revisions, eras=self._eras, cache=False,
        )  # fmt: skip

    def _start_error(self, error: Exception) -> ProtocolError:
        """Note a failed start. Return the exception for the callers."""
        self.last_error = type(error).__name__  # not the text, which can quote secrets of the server's standard error
        log.warning("%s could not be started: %s", self.name, self.hosted.mask(str(error)))
        self._count_failure(None, failures_without_pause=0)
        return ProtocolError(INTERNAL_ERROR, f"{self.name} could not be started: {self.last_error}")

    def _make_room(self, caller: Caller) -> None:
        """Close an unused client if the server or the principal has too many. Raise ProtocolError if all are in use."""
        # clients for legacy sessions have a limit of their own
        is_for_session = caller.session is not None and not self.is_modern
        limit = MAX_SESSION_CLIENTS if is_for_session else MAX_CLIENTS
        counted = [each for each in self.clients if (each.caller.session is not None) == is_for_session]
        of_principal = [each for each in counted if each.caller.principal == caller.principal]
        if caller.principal is not None and len(of_principal) >= limit // 2:
            candidates = of_principal  # so that no principal can close the clients of the others
        elif len(counted) >= limit:
            candidates = counted
        else:
            return
        unused = next((each for each in candidates if each.is_unused), None)
        if unused is None:
            raise ProtocolError(INTERNAL_ERROR, f"{self.name} has {len(candidates)} clients in use; try again later")
        self.discard(unused)

    def _note_end(self, client: BackClient, seconds: float) -> None:
        """Forget a client whose connection has ended after `seconds`. If that was early, callers with the same key have
        to wait before the next start.

        Other callers do not wait, because otherwise one caller could keep a server away from all of them.
        """
        if client.connector.state is ConnectionState.CLOSED:
            return  # the bridge has closed it
        self.last_error = "the connection was lost"
        if seconds < SHORT_LIFE:
            self._count_failure(client.key, failures_without_pause=1)
        else:
            self._failures.pop(client.key, None)
        self.discard(client)

    def _count_failure(self, key: Hashable, failures_without_pause: int) -> None:
        """Count a failure. From now on, callers with this key wait before the next start, and longer each time."""
        if len(self._failures) >= MAX_COUNTED_KEYS:
            self._failures.clear()
        count = self._failures[key].number + 1 if key in self._failures else 1
        pause = growing_pause(count - failures_without_pause)
        self._failures[key] = _Failures(count, time.monotonic() + pause)

    def _forget(self, client: BackClient) -> None:
        if client in self.clients:
            self.clients.remove(client)
        if self._shared.get(client.key) is client:
            del self._shared[client.key]

    def discard(self, client: BackClient) -> None:
        """Forget a client, and close it in the background."""
        self._forget(client)
        task = asyncio.create_task(client.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def end_session(self, session: ServerSession) -> None:
        """Close the clients of a legacy session that has ended."""
        key = session_key(session)
        self._failures.pop(key, None)
        connecting = self._connecting.pop(key, None)
        if connecting is not None:
            connecting.cancel()
        for client in [each for each in self.clients if each.caller.session is session]:
            self.discard(client)

    async def close(self) -> None:
        """Close all clients, also those that are still connecting."""
        connecting = list(self._connecting.values())
        for task in connecting:
            task.cancel()
        for client in tuple(self.clients):
            self.discard(client)
        await asyncio.gather(*connecting, *self._closing, return_exceptions=True)
