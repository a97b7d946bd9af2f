"""The table of the sessions of one Streamable HTTP endpoint: it begins, finds and ends sessions.

A server MAY assign a session id: it sends the id in the `Mcp-Session-Id` header of the response to `initialize`. The
client then repeats the id on every request [2025-11-25 basic/transports#session-management].

Reasons:
- An id is random (192 bits from the operating system). An attacker who guesses an id could send requests in another
  client's session, or read its streams (session hijacking).
- A session belongs to the principal (the authenticated caller) that opened it. A stolen id is useless to other callers.
- A request for another principal's session gets 404, like a request for an unknown session. Another status would tell
  an attacker that a guessed id exists. After 404, a client MUST send a new `initialize`.
- The number of sessions is limited, and idle sessions end, because a client can disappear without sending DELETE.

2025-03-26 added sessions, and 2026-07-28 removed them [2026-07-28 changelog#major-changes], because a load balancer had
to send every request of a session to the same process.

Spec:  basic/transports#session-management (2025-03-26 to 2025-11-25)
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine

from ...jsonrpc.messages import Notification, Request, decode
from ..base import Trace, Transport
from .checks import HttpRefusal
from .event_store import EventStore
from .session import EndpointLimits, HttpSession

log = logging.getLogger(__name__)

Serve = Callable[[Transport], Coroutine[object, object, None]]
"""A function that serves one session over a transport until the session ends: `Server.serve`."""


class SessionTable:
    """The sessions of one endpoint, by id. Each session is served in a separate task."""

    def __init__(self, serve: Serve, store: EventStore, limits: EndpointLimits, trace: Trace | None) -> None:
        self.by_id: dict[str, HttpSession] = {}
        self.store = store
        self._serve, self._limits, self._trace = serve, limits, trace
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False

    def begin(self, principal: str | None) -> HttpSession:
        """Return a new session with a random id. Raises HttpRefusal if the table is full of sessions in use."""
        # [2025-11-25 basic/transports#session-management] id: SHOULD be unique and secure, MUST be visible ASCII
        return self._begin(secrets.token_urlsafe(24), principal)

    def _begin(self, id: str, principal: str | None) -> HttpSession:
        self._free_slot()
        session = self.by_id[id] = HttpSession(id, principal, self.store, self._limits, self._trace)
        task = asyncio.create_task(self._serve_session(session))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return session

    async def _serve_session(self, session: HttpSession) -> None:
        try:
            await self._serve(session)
        except Exception:
            log.exception("a session failed and has ended")
        finally:
            if not self._closing:  # a store in a file keeps the sessions for the next process
                self._remove(session)
            await session.close()

    async def find(self, id: str, principal: str | None) -> HttpSession:
        """Return the principal's session with this id. Raises HttpRefusal: 404 for other ids, or 503."""
        session = self.by_id.get(id) or await self._restore(id, principal)
        if session is None or not await asyncio.shield(session.initialized) or session.principal != principal:
            # [2025-11-25 basic/transports#session-management] ended: MUST be 404; another principal's session: 404 too
            raise HttpRefusal(404, "unknown session, or it has ended: begin a new one with an initialize request")
        session.touch()
        return session

    async def _restore(self, id: str, principal: str | None) -> HttpSession | None:
        """Restore a session of an earlier process: handle its stored `initialize` message again, without the client."""
        found = self.store.find_session(id)
        message = decode(found[0]) if found is not None and found[1] == principal else None
        if not isinstance(message, Request):
            return None
        session = self._begin(id, principal)
        session.open_stream((message.id,), accepts_json=True, accepts_sse=False)
        await session.receive(message, b"")
        if not await asyncio.shield(session.initialized):
            self.end(session)
            return None
        await session.receive(Notification("notifications/initialized"), b"")
        return session

    def _free_slot(self) -> None:
        if len(self.by_id) < self._limits.sessions:
            return
        idle = [session for session in self.by_id.values() if session.is_idle]
        if not idle:
            why = f"all {self._limits.sessions} sessions are in use; try again later"
            raise HttpRefusal(503, why, [("Retry-After", "5")])
        self.end(min(idle, key=lambda session: session.last_used))

    def end(self, session: HttpSession) -> None:
        """End a session now, and delete its events."""
        self._remove(session)
        session.end()

    def _remove(self, session: HttpSession) -> None:
        if self.by_id.pop(session.id, None) is not None:
            session.store = None
            self.store.delete_session(session.id)

    def keep_alive(self) -> None:
        """Send a comment on every stream, and end the sessions that were idle too long."""
        oldest = asyncio.get_running_loop().time() - self._limits.session_idle
        for session in tuple(self.by_id.values()):
            session.keep_alive()
            if session.is_idle and session.last_used < oldest:
                self.end(session)

    async def close(self) -> None:
        """End all sessions. A store in a file keeps the sessions for the next process."""
        self._closing = True
        for session in tuple(self.by_id.values()):
            session.end()
        if self._tasks:
            await asyncio.wait(self._tasks)
