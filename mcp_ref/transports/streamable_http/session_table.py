"""The table of the sessions of one Streamable HTTP endpoint: it begins, finds and ends sessions.

A server MAY assign a session id in the `Mcp-Session-Id` header of the response to `initialize`, which the client MUST
then repeat on every request [2025-11-25 basic/transports#session-management].

Rules, and their reasons:
- An id is random (192 bits from the operating system), because an attacker who guesses one could hijack its session:
  send requests and read streams. With `Server(node="a")`, it begins with "a.", so a load balancer finds the process.
- A session belongs to the principal (the authenticated caller) that opened it, so a stolen id is useless to others.
  They get 404, as for an unknown session, because another status would tell an attacker that a guessed id exists.
- The number of sessions is limited, and idle ones end, because a client can disappear without sending DELETE. A caller
  who has used up a share of the sessions or of their memory loses an idle session for each new one.

Through a store, a session can continue in a later or another process (durable_store.py, handover.py). It keeps its id,
principal, revision, capabilities, log level, subscriptions to resources, and events, so its client can resume streams.
It loses the requests in flight (restoration.py), the server's own requests, and tasks without authentication.

Spec:  basic/transports#session-management (2025-03-26 to 2025-11-25)
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Coroutine
from typing import Final

from ...basic.access import Access, ScopeTable
from ...jsonrpc.messages import Request, decode
from ...lib.shares import ShareExceeded, Shares, memory_of
from ..base import Begin, Trace, finish
from .checks import HttpRefusal, unknown_session
from .event_store import MemoryEventStore, SessionOwned, StoreFailed
from .handover import Handover, interrupted, shutting_down
from .idle_order import MANY_SESSIONS, IdleOrder, report_crowd
from .posted_session import RETRY_LATER, SESSION_COST, EndpointLimits
from .restoration import repeat_requests, served_elsewhere
from .session import HttpSession

log = logging.getLogger(__name__)

CLOSE_SECONDS: Final = 2.0
"""Time for sessions to end when the server stops, and again after they were cancelled, in seconds."""
FLUSH_SECONDS: Final = 1.0
"""Time to save the last events when the server stops, in seconds."""


class SessionTable:
    """The sessions of one endpoint, by id. A session has an asyncio task only while it begins or ends."""

    def __init__(
        self, begin: Begin, store: MemoryEventStore, limits: EndpointLimits, trace: Trace | None, in_flight: Shares,
        id_prefix: str, scopes: ScopeTable,
    ) -> None:  # fmt: skip
        self.by_id: dict[str, HttpSession] = {}
        self.store = store
        self._idle_order = IdleOrder()
        self._idle_order_of: dict[str, IdleOrder] = {}  # by caller
        self._begin_serving, self._limits, self._trace = begin, limits, trace
        self._in_flight, self._id_prefix, self._scopes = in_flight, id_prefix, scopes
        self._shares = Shares("sessions", limits.session_bytes_per_caller, limits.session_bytes)
        self._on_end = self._end_soon  # stored, because each `self._end_soon` would be a new object in every session
        self._tasks: set[asyncio.Task[None]] = set()
        store.on_lost = self._lose
        self.is_draining = False  # True if the server will stop soon, so that no session begins any more
        self._handover: Handover | None = None  # not None if this process drains and the store is shared
        self.is_closing = False  # True after the server has begun to stop, which may happen during any `await`

    def begin(self, initialize: bytes, access: Access) -> HttpSession:
        """Return a new session with a random id. Raise HttpRefusal if a limit is reached and no session is idle."""
        size = self._free_place(access.caller, initialize)
        # [2025-11-25 basic/transports#session-management] the id SHOULD be unique and secure, MUST be visible ASCII
        id = self._id_prefix + secrets.token_urlsafe(24)
        self.store.add_session(id, initialize, access.id, access.caller)
        return self._add(id, access, size)

    def _add(self, id: str, access: Access, size: int) -> HttpSession:
        session = self.by_id[id] = HttpSession(
            id, access, self.store, self._limits, self._trace, self._in_flight, self._on_end, size)  # fmt: skip
        order_of_caller = self._idle_order_of.setdefault(session.caller, IdleOrder())
        for order in (self._idle_order, order_of_caller):
            order.size += 1
            order.add(session)
        if order_of_caller.size == MANY_SESSIONS and access.id is None and access.address is not None:
            report_crowd(access.address[0])
        self._run(self._open(session))
        return session

    def _run(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.Task(work)  # never an eager one, which could end the session before its POST opens a stream
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _open(self, session: HttpSession) -> None:
        try:
            session.served = await self._begin_serving(session)
        except Exception:
            log.exception("a session failed and has ended")
            session.refusal_at_end = lambda: HttpRefusal(503, "no session can begin now; try again later", RETRY_LATER)
        finally:
            if session.served is None or session.has_ended:  # otherwise `_end_soon` will call `_finish`
                await self._finish(session)

    def _end_soon(self, session: HttpSession) -> None:
        if session.initialized.done() and not session.initialized.result():
            self._remove(session)  # at once, because `initialize` has failed
        if session.served is not None:  # otherwise `_open` will call `_finish`
            self._run(self._finish(session))

    async def _finish(self, session: HttpSession) -> None:
        try:
            if session.served is not None:
                await session.served.finish()
        except Exception:
            log.exception("a session failed and has ended")
        finally:
            if not self.is_closing:  # a store in a file keeps the sessions for the next process
                self._remove(session)
            await session.close()

    async def find(self, id: str, access: Access) -> HttpSession:
        """Return the caller's session with this id. Raise HttpRefusal: 404 if unknown, 503 if it cannot be served."""
        session = self.by_id.get(id) or await self._restore(id, access)
        if session is None or session.principal != access.id:
            raise unknown_session()  # before the lease is checked, because 503 would say that the session exists
        if self.store.leases is not None and not self.store.leases.has(id):
            raise served_elsewhere()
        if not session.initialized.done():
            await asyncio.shield(session.initialized)
            if self.is_closing:
                raise shutting_down()
        if session.restoration is not None:
            await asyncio.wait([session.restoration])
        session.admit(access)
        return session

    async def _restore(self, id: str, access: Access) -> HttpSession | None:
        if self._handover is not None:
            await self._handover.refuse(id)
        try:
            stored = await self.store.find_session(id, access.id, access.caller)
        except SessionOwned:
            raise served_elsewhere() from None
        except StoreFailed as failure:
            why = "the server cannot read its stored sessions now; try again later"
            raise HttpRefusal(503, why, RETRY_LATER) from failure
        if self._handover is not None and stored is not None and not self.is_closing:
            await self._handover.refuse_loaded(id, stored, access.caller)
        if id in self.by_id:
            return self.by_id[id]  # another request has restored the session meanwhile
        if stored is None or stored.principal != access.id:
            return None
        message = decode(stored.initialize)
        if not isinstance(message, Request):
            return None
        size = self._free_place(access.caller, stored.initialize)
        self.store.restore_session(id, stored, access.caller)
        session = self._add(id, access, size)
        # a task of its own, because the request may be cancelled
        session.restoration = self._run(self._continue(session, message, stored.kept, access))
        return session

    async def _continue(self, session: HttpSession, initialize: Request, kept: bytes, access: Access) -> None:
        is_restored = await repeat_requests(session, initialize, kept, access, self._scopes)
        if not is_restored and not self.is_closing:
            self.end(session)

    def _free_place(self, caller: str, initialize: bytes) -> int:
        """Reserve memory for a session, ending idle ones if needed, and return its size. Raise HttpRefusal if full."""
        if self.is_draining:
            raise shutting_down()
        order_of_caller, limits = self._idle_order_of.get(caller, IdleOrder()), self._limits
        size = SESSION_COST + memory_of(initialize)
        while True:  # each round ends one idle session
            if order_of_caller.size >= limits.sessions_per_caller:
                crowded, why = order_of_caller, f"your {limits.sessions_per_caller} sessions are in use"
            elif self._idle_order.size >= limits.sessions:
                crowded, why = self._idle_order, f"all {limits.sessions} sessions are in use"
            else:
                try:
                    self._shares.take(caller, size)
                    return size
                except ShareExceeded as error:
                    crowded, why = order_of_caller, str(error)
            idle = crowded.next_idle()
            if idle is None:
                raise HttpRefusal(503, f"{why}; try again later", RETRY_LATER)
            self.end(idle)

    def end(self, session: HttpSession) -> None:
        """End a session now, and delete its events, unless another process can continue it."""
        self._remove(session)
        session.end()

    def _lose(self, id: str) -> None:
        """End the copy of a session that another process has taken over."""
        if (session := self.by_id.get(id)) is not None:
            session.refusal_at_end, session.store = interrupted, None
            self.end(session)

    def _remove(self, session: HttpSession) -> None:
        if self.by_id.get(session.id) is session:  # it may have ended and been restored meanwhile
            del self.by_id[session.id]
            session.store = None
            self._shares.give_back(session.caller, session.size)
            for order in (self._idle_order, self._idle_order_of[session.caller]):
                order.size -= 1
                order.remove(session)
            if not self._idle_order_of[session.caller].size:
                del self._idle_order_of[session.caller]
            try:
                has_begun = session.initialized.done() and session.initialized.result()
                if has_begun or session.restoration is None:  # a restoration that failed can succeed later
                    self.store.delete_session(session.id)
            except Exception:
                log.exception("an ended session could not be deleted from the store")

    def drain(self) -> None:
        """Begin no more sessions, and hand the sessions of a shared store over to other processes."""
        if not self.is_draining:
            self.is_draining = True
            if self.store.leases is not None:
                self._handover = Handover(tuple(self.by_id.values()), self.store, self.end)

    def keep_alive(self) -> None:
        """Send a comment on every stream, and end the sessions that were idle too long."""
        oldest = time.monotonic() - self._limits.session_idle
        for session in tuple(self.by_id.values()):
            for stream in session.streams.values():
                stream.keep_alive()
            if session.is_idle and session.last_used < oldest:
                self.end(session)

    async def close(self) -> None:
        """End all sessions, though a durable store keeps them for the next process."""
        self.is_closing = self.is_draining = True
        for session in tuple(self.by_id.values()):
            session.refusal_at_end = interrupted if session.initialized.done() else shutting_down
            session.end()
        await finish(*self._tasks, timeout=CLOSE_SECONDS)
        await finish(*self._tasks, cancel=True, timeout=CLOSE_SECONDS)
        await self.store.flush(FLUSH_SECONDS)
