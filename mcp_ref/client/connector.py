"""The connection of a client: it opens transports and sessions, negotiates, and restarts the server's process.

    Target.open -> transport -> ClientSession -> negotiate -> requests -> close

If the process of a modern server ends, the client starts it again. This loses only the open requests, because there is
no session [2026-07-28 basic/transports/stdio#unexpected-termination]. After a legacy server's end, all requests fail.

Spec:  basic/lifecycle; 2026-07-28 basic/versioning, basic/transports/stdio#unexpected-termination
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, MutableMapping
from enum import Enum, auto

from ..jsonrpc.errors import ConnectionClosed
from ..lib.time_limits import TimeLimits
from ..revisions import Era
from ..transports.base import Transport, finish
from .negotiation import ClientOffer, negotiate
from .session import ClientSession, OnSessionEnd
from .target import Target

log = logging.getLogger(__name__)

MAX_RESTARTS = 3
"""Maximum number of times that the client restarts the server's process without getting a response."""


class ConnectionState(Enum):
    """The state of the connection. Each comment names the next states. From any state, the client can go to CLOSED."""

    NEW = auto()  # -> CONNECTING
    CONNECTING = auto()  # -> CONNECTED when a revision is negotiated
    CONNECTED = auto()  # -> RESTARTING when the process of a modern server ends; LOST after any other end
    RESTARTING = auto()  # -> CONNECTED when the new process runs; LOST after `max_restarts`
    LOST = auto()
    CLOSED = auto()  # the client is closing or closed


class Connector:
    """The connection of one client to its server. It calls `on_disconnect` whenever a session ends."""

    def __init__(
        self, target: Target, make_session: Callable[[OnSessionEnd, Transport], ClientSession],
        eras: MutableMapping[str, Era], on_disconnect: Callable[[], None],  # eras by `Target.era_key`
    ) -> None:  # fmt: skip
        self.target, self.state = target, ConnectionState.NEW
        self.ready_session: ClientSession | None = None  # None until the client is connected, and during a restart
        self.parameter_headers: dict[str, dict[str, tuple[str, ...]]] = {}
        """The tool arguments to copy to HTTP headers: tool name -> header name -> path. The transports read it too."""
        self.time_limits = TimeLimits()
        self.max_restarts = MAX_RESTARTS  # 0 in a `Host`, which restarts servers itself
        self.starts = 0  # number of opened transports, including the second one if a process ends at the probe
        self.make_session, self._eras, self._on_disconnect = make_session, eras, on_disconnect
        self._latest_session: ClientSession | None = None  # even if it is not negotiated yet, or has ended
        self._server_task: asyncio.Task[None] | None = None  # runs the `serve` of an InProcessServer
        self._restart_task: asyncio.Task[None] | None = None
        self._restarts = 0  # number of restarts since the last response
        self.ended = asyncio.Event()  # set when the connection is lost, or as soon as the client begins to close

    def _change_state(self, state: ConnectionState) -> None:
        if self.state is not ConnectionState.CLOSED:  # the final state
            self.state = state
        if state in (ConnectionState.LOST, ConnectionState.CLOSED):
            self.ended.set()

    @property
    def negotiated_session(self) -> ClientSession:
        """The latest session, even if it has ended. Raises RuntimeError until the negotiation is complete."""
        if self._latest_session is None or self._latest_session.peer_info is None:
            raise RuntimeError("not connected: use `async with Client(...) as client`")
        return self._latest_session

    @property
    def transport(self) -> Transport | None:
        """The transport, even during the negotiation; None before the client connects."""
        return self._latest_session.transport if self._latest_session is not None else None

    async def connect(self, offer: ClientOffer) -> None:
        """Open a transport to the server, and negotiate a revision. Raises the same exceptions as `Client.connect`."""
        self._change_state(ConnectionState.CONNECTING)
        key = self.target.era_key
        known_era = self._eras.get(key) if key is not None else None
        await negotiate(self._open_session, offer, known_era, self.target.is_process)
        self._change_state(ConnectionState.CONNECTED)
        self.ready_session = self.negotiated_session
        if key is not None and offer.revisions_of("modern"):  # a legacy client does not probe for the era
            self._eras[key] = self.negotiated_session.revision.era

    async def _open_session(self) -> ClientSession:
        if self.state is ConnectionState.CLOSED:
            raise ConnectionClosed("the client was closed")
        session = self._latest_session = self._new_session()
        await session.open()
        return session

    def _new_session(self) -> ClientSession:
        self.starts += 1
        transport, self._server_task = self.target.open(self.parameter_headers, self.time_limits)
        session = self.make_session(self._disconnected, transport)
        session.dispatcher.time_limits = self.time_limits  # shared with the transport, because a sign-in stops them
        return session

    async def stop_reconnecting(self) -> None:
        """Begin to close: end all restarts of the server's process, but leave the session open for last messages."""
        self._change_state(ConnectionState.CLOSED)
        await finish(self._restart_task, cancel=True)

    async def close(self) -> None:
        """Close the session and its transport. Wait at most 5 seconds for an `InProcessServer`, and raise its error."""
        if self._latest_session is not None:
            await self._latest_session.close()
        task = self._server_task
        await finish(task, timeout=5.0)
        await finish(task, cancel=True, timeout=1.0)  # in case it still runs
        if task is not None and task.done() and not task.cancelled():
            task.result()

    def _disconnected(self, session: ClientSession) -> None:
        self._on_disconnect()
        if session.has_responded:
            self._restarts = 0
        if session is not self._latest_session or self.state is not ConnectionState.CONNECTED:
            return  # `negotiate`, `_restart` or `close` deals with the end of this session
        if self.can_reconnect() and self.target.is_process and self._restarts < self.max_restarts:
            # [2026-07-28 basic/transports/stdio#unexpected-termination] a client SHOULD restart the process
            self._change_state(ConnectionState.RESTARTING)
            self.ready_session = None
            self._restart_task = asyncio.get_running_loop().create_task(self._restart(session))
        else:
            self._change_state(ConnectionState.LOST)

    async def _restart(self, session: ClientSession) -> None:
        """Replace a session that has ended, until a new process runs or `max_restarts` is reached."""
        while session.ended.done() and self._restarts < self.max_restarts:
            self._restarts += 1
            log.warning("the server's process has ended and is started again")
            await session.close()
            new_session = self._new_session()
            new_session.continue_from(session)
            session = self._latest_session = new_session
            try:
                await session.open()
            except ConnectionClosed as error:
                session.transport_ended(error)  # so `session.ended` is done, and the loop tries again
        self._change_state(ConnectionState.LOST if session.ended.done() else ConnectionState.CONNECTED)
        self.ready_session = session  # even if it is lost, because its requests then raise ConnectionClosed

    def can_reconnect(self) -> bool:
        """Return True if the connection is open, and the server is modern and has a command or a URL."""
        has_address = self.target.is_url or self.target.is_process
        is_open = self.state in (ConnectionState.CONNECTED, ConnectionState.RESTARTING)
        return is_open and self.negotiated_session.revision.era == "modern" and has_address

    async def ready(self) -> ClientSession:
        """Return the session, as soon as the server's process is no longer being restarted."""
        await finish(self._restart_task)
        return self.negotiated_session
