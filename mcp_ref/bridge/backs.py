"""The clients of a bridge towards one server.

A legacy server keeps state for each session, and decides by the capabilities in `initialize`. So the key of a client
decides which callers can use it:

    caller                          legacy server                             modern server
    a legacy session                its own client, for its life              one for each principal
    a modern request                a pool for each principal and set of      one for each principal
                                    client capabilities

A legacy server's request does not say to which call it belongs. So a client of a pool serves one call at a time, if the
caller has declared a capability, which the server could use: the client is *leased*. A held call keeps its client, but
not its place in the pool, because a user can take minutes. Over Streamable HTTP, a request
arrives on the stream of its call, but the lease holds there too, because a server can use the GET stream instead. Log
messages do not name their call either: if calls of several callers are in flight, they are dropped and counted.

Reasons to share no more: a bridge that shares one session sends the messages of one user to others. Every key has the
principal, and the credentials for the server come from the bridge's own configuration, never from the caller.

Threats:
    bridge-shared-session: the messages of another user; a client; uses the same ids and tokens; each principal has its
        own clients, and each client its own ids.
    bridge-restart-loop: the user's computer; a server; ends after each start; the pauses between the starts grow.

Spec:  basic/lifecycle (2024-11-05 to 2025-11-25), 2026-07-28 basic/versioning, basic/index#statelessness
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Final, cast

from ..basic.channel import RequestContext
from ..basic.lifecycle import ClientCapabilities, declares
from ..basic.progress import progress_token
from ..basic.versioning import CLIENT_CAPABILITIES, LOG_LEVEL
from ..client.client import Client
from ..client.connector import ConnectionState
from ..codec import ShapeError, codec_for
from ..jsonrpc.errors import ConnectionClosed, McpError, ProtocolError, RemoteError, RequestTimeout
from ..jsonrpc.messages import INTERNAL_ERROR, METHOD_NOT_FOUND, Object, RequestId
from ..revisions import METHODS, Revision
from ..server.context import Context
from ..server.session import ServerSession
from ..server.stateless import StatelessRequest
from .calls import Call, OutsideCall
from .conversion import Losses
from .relayed import RelayedObject, relayed_method

log = logging.getLogger(__name__)

MAX_CLIENTS_PER_KEY: Final = 4
"""Maximum number of clients of one server with the same key. Further calls wait."""
MAX_CLIENTS: Final = 32
"""Maximum number of clients of one server with all keys."""

POOL_SECONDS: Final = 30.0
"""Time that a call waits for a client of a full pool, in seconds."""

ROOTS_SECONDS: Final = 30.0
"""Time that a request of a server outside of a call waits for the next call, in seconds."""

KEEP_ALIVE_SECONDS: Final = 15.0
"""Pause between the progress notifications for a server that waits for a user, in seconds."""

MAX_PAUSE: Final = 60.0
"""Longest pause between two attempts to start a server, in seconds. The first pause is one second."""

_FROM_SERVER: Final = [row.name for row in METHODS if row.sender in ("server", "both") and row.name != "ping"]
_NATIVE: Final = frozenset({
    "notifications/cancelled", "notifications/subscriptions/acknowledged", "notifications/resources/updated",
    "notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed",
})  # fmt: skip
"""The notifications of a server that the client handles itself."""


@dataclass(slots=True)
class Caller:
    """A client in front of the bridge, as far as the choice of a client for the server depends on it."""

    revision: Revision
    principal: str | None
    capabilities: Object
    session: ServerSession | None = None
    """The legacy session; None for a modern request."""

    @property
    def key(self) -> Hashable:
        if self.session is not None:
            return "session", self.session
        return "pool", self.principal, repr(sorted(self.capabilities.items()))


def caller_of(context: RequestContext) -> Caller:
    """Return the client that has sent a request."""
    channel = context.channel
    if isinstance(channel, ServerSession):
        return session_caller(channel, channel.revision, channel.peer_capabilities)
    principal = channel.principal if isinstance(channel, StatelessRequest) else None
    return Caller(channel.revision, principal, channel.peer_capabilities)


def session_caller(session: ServerSession, revision: Revision, capabilities: Object) -> Caller:
    """Return the client of a legacy session. During the handshake, the session does not know the last two yet."""
    return Caller(revision, session.transport.principal, capabilities, session)


class BackClient(Client):
    """A client of the bridge, which passes all messages on as JSON."""

    def __init__(self, server: Any, *, back: BackServer, caller: Caller, **options: Any) -> None:
        super().__init__(server, **options)
        self.back, self.caller = back, caller
        self.calls: dict[RequestId, Call] = {}
        """The calls in flight, by the ids of the requests to the server."""
        self.level: str | None = None
        """The log level that the server has got."""
        self.uses = 0
        """Number of requests in flight, for which the client must stay open."""
        self.free_slot: Callable[[], None] = lambda: None
        """Lets another call begin while the call of this leased client is held. With `clients=1`, it does nothing."""
        self._call_began = asyncio.Event()
        for name in _FROM_SERVER:
            if name in _NATIVE:
                continue
            is_notification = name.startswith("notifications/")
            receive = self._receive if is_notification else None
            self.custom_methods[name] = relayed_method(name, self._serve, receive)

    def capabilities(self) -> ClientCapabilities:
        wire = {name: value for name, value in self.caller.capabilities.items() if name != "tasks"}
        try:
            return codec_for(self.caller.revision).decode(ClientCapabilities, wire)
        except ShapeError:
            return ClientCapabilities()

    @property
    def is_open(self) -> bool:
        return self.connector.state is ConnectionState.CONNECTED

    @property
    def is_modern(self) -> bool:
        return self.revision.era == "modern"

    async def send(self, method: str, params: Object, call: Call | None, timeout: float | None = None) -> Object:
        """Send a request, and return the result as JSON, which can be an `input_required` result.

        Raise ProtocolError for an error of the server, and for a lost connection.
        """
        session = self.connector.usable or await self.connector.ready()
        if self.is_modern:
            meta: Object = params.get("_meta") or {}  # type: ignore[assignment]
            params = {**params, "_meta": {**meta, **self._own_meta(call)}}
        token: list[RequestId] = []

        def began(id: RequestId) -> None:
            token.append(id)
            if call is not None:
                self.calls[id] = call
                self._call_began.set()

        def progressed(notification: object) -> None:
            if call is not None and isinstance(notification, dict):
                call.report_progress(notification, self.revision)

        wants_progress = call is not None and call.token is not None
        self.uses += 1
        try:
            return await session.dispatcher.request(
                method, params, timeout=timeout, on_progress=progressed if wants_progress else None, before_send=began
            )
        except RequestTimeout as error:
            raise ProtocolError(INTERNAL_ERROR, f"{self.back.name}: {error}") from None
        except ConnectionClosed as error:
            log.warning("%s: the connection was lost during %s: %s", self.back.name, method, self.back.mask(str(error)))
            unknown = "; it is not known whether the tool ran" if method == "tools/call" else ""
            raise ProtocolError(INTERNAL_ERROR, f"{self.back.name}: the connection was lost{unknown}") from None
        finally:
            self.uses -= 1
            for id in token:
                self.calls.pop(id, None)
            if not self.calls:
                self._call_began.clear()

    def _own_meta(self, call: Call | None) -> Object:
        """Return the fields of a stateless request: the capabilities are those of the caller of this request."""
        fields = dict(self.session.request_meta)
        if call is None:
            return fields
        if call.revision is self.revision:
            fields[CLIENT_CAPABILITIES] = call.capabilities
        else:
            declared = codec_for(call.revision).decode(ClientCapabilities, call.capabilities)
            fields[CLIENT_CAPABILITIES] = codec_for(self.revision).encode(declared)
        if call.level is not None and self.server_can("logging"):
            fields[LOG_LEVEL] = call.level
        return fields

    def _receive(self, method: str, params: Object) -> None:
        """Pass a notification of the server on."""
        if method == "notifications/progress":
            token = progress_token({"progressToken": params.get("progressToken")})
            pending = self.session.dispatcher.pending.get(token) if token is not None else None
            if pending is not None and pending.on_progress is not None:
                pending.extend()
                pending.on_progress(params)
        elif method == "notifications/message" and (call := self._current_call()) is not None:
            call.log(params, self.revision)
        else:
            self.back.pass_notification(self, method, params)

    def _current_call(self) -> Call | None:
        """Return the call to which a message of the server belongs, which does not say it; None if that is unknown.

        Several calls can be in flight: then they must be of one session.
        """
        calls = list(self.calls.values())
        of_session = self.caller.session is not None and not self.is_modern
        return calls[0] if len(calls) == 1 or (calls and of_session) else None

    async def _serve(self, method: str, params: Object, context: RequestContext) -> Object:
        """Serve a request of the server: pass it on to the caller, and report progress while its user thinks."""
        token = progress_token(context.meta)
        asking = asyncio.ensure_future(self._ask(method, params))
        progress = 0
        try:
            while not (await asyncio.wait([asking], timeout=KEEP_ALIVE_SECONDS))[0]:
                progress += 1
                if token is not None:
                    wire: Object = {"progressToken": token, "progress": progress}
                    context.channel.notify("notifications/progress", RelayedObject(wire), context.request_id)
            return asking.result()
        except RemoteError as error:
            raise ProtocolError(error.code, error.message, error.data) from None
        except ProtocolError:
            raise
        except McpError as error:
            raise ProtocolError(METHOD_NOT_FOUND, f"{method} cannot reach the client: {error}") from None
        finally:
            asking.cancel()

    async def _ask(self, method: str, params: Object) -> Object:
        call = self._current_call()
        if call is None and self.caller.session is not None:
            outside = OutsideCall(Context(self.caller.session, -1, None), self.back.losses)
            return await outside.ask(method, params, self.revision)
        if call is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ROOTS_SECONDS):
                    await self._call_began.wait()
            call = self._current_call()
        if call is not None:
            return await call.ask(method, params, self.revision)
        if method == "roots/list":
            return {"roots": []}
        raise ProtocolError(METHOD_NOT_FOUND, f"{method} came outside of a call, so no client can respond")


@dataclass(eq=False)
class _Pool:
    """The clients with one key."""

    slots: asyncio.Semaphore
    clients: list[BackClient] = field(default_factory=list)
    idle: list[BackClient] = field(default_factory=list)
    """The clients that are not leased."""
    connecting: asyncio.Task[BackClient] | None = None

    def open_client(self) -> BackClient | None:
        return next((client for client in self.clients if client.is_open), None)


MakeClient = Callable[["BackServer", Caller], Awaitable[BackClient]]
"""A function that returns a new client for a caller. It is async, because it can ask for consent first."""

PassNotification = Callable[[BackClient, str, Object], None]
"""A function that gets the notifications that belong to no call: client, method and params."""


class BackServer:
    """One server behind the bridge, and the clients for it.

    Args:
        name: The server name.
        make: Makes a client, which is not connected yet.
        clients: Maximum number of clients with one key.
        pass_notification: Gets the notifications of all clients that belong to no call.
    """

    def __init__(self, name: str, make: MakeClient, clients: int, pass_notification: PassNotification) -> None:
        self.name, self.pass_notification, self.losses = name, pass_notification, Losses(name)
        self.is_modern: bool | None = None
        """True if the server speaks the modern era; None until the first client has connected."""
        self.facts: BackClient | None = None
        """The client that has connected last. It knows the server's name, capabilities and instructions."""
        self.starts, self.last_error = 0, ""
        self.parameter_headers: dict[str, dict[str, tuple[str, ...]]] = {}
        """The HTTP headers that mirror arguments, by the server's own name of the tool."""
        self.task_tools: set[str] = set()
        """The tools that a server of 2025-11-25 runs only as tasks, by the server's own names."""
        self.mask: Callable[[str], str] = lambda text: text
        """Replaces the secrets of the configuration in a text."""
        self.allows: Callable[[str], bool] = lambda tool: True
        """The rule of the configuration: True for a tool that clients can use."""
        self._make, self._most = make, clients
        self._pools: dict[Hashable, _Pool] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._failures, self._next_start = 0, 0.0

    @property
    def clients(self) -> list[BackClient]:
        return [client for pool in self._pools.values() for client in pool.clients]

    def _pool(self, caller: Caller) -> _Pool:
        key = ("modern", caller.principal) if self.is_modern else caller.key
        if key not in self._pools:
            self._pools[key] = _Pool(asyncio.Semaphore(self._most))
        return self._pools[key]

    async def shared(self, caller: Caller) -> BackClient:
        """Return a client that can serve several requests of this caller at the same time. Connect it if necessary."""
        pool = self._pool(caller)
        client = pool.open_client()
        if client is not None:
            return client
        if pool.connecting is None:
            pool.connecting = asyncio.create_task(self._connect(caller))
            pool.connecting.add_done_callback(lambda task: task.cancelled() or task.exception())
        connecting = pool.connecting
        try:
            return await asyncio.shield(connecting)
        finally:
            if connecting.done() and pool.connecting is connecting:
                pool.connecting = None

    def needs_lease(self, caller: Caller) -> bool:
        """Return True if a client can serve only one call of this caller at a time. The era must be known."""
        return not self.is_modern and caller.session is None and bool(caller.capabilities)

    @contextlib.asynccontextmanager
    async def leased(self, caller: Caller) -> AsyncIterator[BackClient]:
        """Return a context manager with a client for one call.

        Raise ProtocolError if the pool stays full, or if the server cannot be started.
        """
        pool = self._pool(caller)
        try:
            async with asyncio.timeout(POOL_SECONDS):
                await pool.slots.acquire()
        except TimeoutError:
            raise ProtocolError(INTERNAL_ERROR, f"{self.name}: all clients are in use; try again later") from None
        slot = [pool.slots]

        def free_slot() -> None:
            if slot:
                slot.pop().release()

        try:
            client = next((each for each in pool.idle if each.is_open), None) or await self._connect(caller)
            pool.idle.remove(client)
            client.free_slot = free_slot if self._most > 1 else lambda: None
            try:
                yield client
            finally:
                if client.is_open:
                    pool.idle.append(client)
        finally:
            free_slot()

    async def _connect(self, caller: Caller) -> BackClient:
        """Return a new client, which is idle. Raise ProtocolError if the server cannot be started now."""
        left = self._next_start - time.monotonic()
        if left > 0:
            why = f"{self.name} failed to start ({self.last_error}), and is tried again in {left:.0f} s"
            raise ProtocolError(INTERNAL_ERROR, why)
        if len(self.clients) >= MAX_CLIENTS:
            self._close_an_idle_client()
        self.starts += 1
        try:
            client = await self._make(self, caller)
            client.connector.parameter_headers = self.parameter_headers
            await client.connect()
        except Exception as error:
            self._note_failure(error)
            raise ProtocolError(INTERNAL_ERROR, f"{self.name} could not be started: {self.last_error}") from None
        self.is_modern, self.facts = client.is_modern, client
        pool = self._pool(caller)  # after the line before: the key depends on the era
        pool.clients.append(client)
        pool.idle.append(client)
        began = time.monotonic()
        client.session.ended.add_done_callback(lambda _: self._note_end(client, time.monotonic() - began))
        return client

    def _note_failure(self, error: Exception) -> None:
        self.last_error = type(error).__name__  # its text can quote secrets of the server's standard error
        log.warning("%s could not be started: %s", self.name, self.mask(str(error)))
        self._failures += 1
        self._next_start = time.monotonic() + min(2.0 ** (self._failures - 1), MAX_PAUSE)

    def _note_end(self, client: BackClient, seconds: float) -> None:
        """Forget a client whose connection has ended. After a short life, the next start has to wait."""
        if client.connector.state is ConnectionState.CLOSED:
            return
        self.last_error = "the connection was lost"
        self._failures = 0 if seconds > MAX_PAUSE else self._failures + 1
        if self._failures > 1:
            self._next_start = time.monotonic() + min(2.0 ** (self._failures - 2), MAX_PAUSE)
        self.discard(client)

    def _close_an_idle_client(self) -> None:
        idle = next((client for pool in self._pools.values() for client in pool.idle if not client.calls), None)
        if idle is None:
            raise ProtocolError(INTERNAL_ERROR, f"{self.name} has {MAX_CLIENTS} clients in use; try again later")
        self.discard(idle)

    def discard(self, client: BackClient) -> None:
        """Forget a client, and close it in the background."""
        for pool in self._pools.values():
            for clients in (pool.clients, pool.idle):
                if client in clients:
                    clients.remove(client)
        task = asyncio.create_task(client.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def end_session(self, session: ServerSession) -> None:
        """Close the client of a legacy session that has ended."""
        pool = self._pools.pop(("session", session), None)
        for client in tuple(pool.clients) if pool is not None else ():
            self.discard(client)

    def note_task_tools(self, page: Object) -> None:
        """Note the tools of a page that the server runs only as tasks."""
        tools = page.get("tools")
        for tool in tools if isinstance(tools, list) else ():
            execution = tool.get("execution") if isinstance(tool, dict) else None
            if isinstance(execution, dict) and execution.get("taskSupport") == "required":
                self.task_tools.add(str(cast(Object, tool).get("name")))

    def offers(self, capability: str) -> bool:
        return self.facts is not None and declares(self.facts.server_capabilities, capability)

    async def close(self) -> None:
        """Close all clients."""
        for client in self.clients:
            self.discard(client)
        await asyncio.gather(*self._closing, return_exceptions=True)
