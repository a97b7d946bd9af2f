"""The handover: a process that drains (will stop soon) gives its sessions back to the shared store while it still runs.

    no request of the session is in flight    the session ends here, its changes are saved, and its lease ends
    a request is in flight                    the same happens when the last request has its response
    the session is being loaded               its lease ends after the load
    a request comes later                     503, as soon as another process can load the session

A load balancer sends a request that got 503 to another process, which continues the session. So a rolling restart loses
no request, and waits only for the requests in flight, although clients go on sending new ones. A session whose requests
always overlap stays until the process ends.

Used by: session_table.py. Uses: session.py, event_store.py (`give_back`)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, NoReturn

from ...jsonrpc.failures import INTERRUPTED
from .checks import HttpRefusal
from .event_store import MemoryEventStore, StoredSession
from .posted_session import RETRY_LATER
from .session import HttpSession

REFUSE_SECONDS: Final = 1.0
"""Maximum time for which the refusal of a request waits until another process can load the session, in seconds."""


class Handover:
    """The sessions that a process has when it begins to drain.

    Args:
        sessions: The sessions.
        store: The shared store.
        end: Ends a session in this process.
    """

    def __init__(
        self, sessions: Iterable[HttpSession], store: MemoryEventStore, end: Callable[[HttpSession], None]
    ) -> None:
        self._store, self._end_session = store, end
        self._given_back: dict[str, asyncio.Event] = {}  # session -> set when another process can load it
        for session in sessions:
            self._give_back_when_idle(session)

    def _give_back_when_idle(self, session: HttpSession) -> None:
        if session.has_ended:
            return
        if session.streams_by_request or session.restoration is not None or not session.initialized.done():
            session.at_next_use.append(self._look_again_soon)
        else:
            self._given_back[session.id] = self._store.give_back(session.id)
            self._end_session(session)

    def _look_again_soon(self, session: HttpSession) -> None:
        # not at once, because a request that ends notes its use of the session before it leaves `streams_by_request`
        asyncio.get_running_loop().call_soon(self._give_back_when_idle, session)

    async def refuse_loaded(self, id: str, stored: StoredSession, caller: str) -> NoReturn:
        """Refuse a request whose session was still being loaded when the drain began, and give the session back."""
        given_back = self._given_back.get(id)
        is_being_given_back = given_back is not None and not given_back.is_set()  # by a parallel request
        if not is_being_given_back:
            self._store.restore_session(id, stored, caller)
            self._given_back[id] = self._store.give_back(id)
        await self.refuse(id)

    async def refuse(self, id: str) -> NoReturn:
        """Raise HttpRefusal 503 for a request of a session, as soon as another process can load the session."""
        if (given_back := self._given_back.get(id)) is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(REFUSE_SECONDS):
                    await given_back.wait()
        raise shutting_down()


def shutting_down() -> HttpRefusal:
    """Return the refusal of a request that comes, or still waits, while the server drains or stops."""
    return HttpRefusal(503, "the server is shutting down", RETRY_LATER)


def interrupted() -> HttpRefusal:
    """Return the refusal of a request that was in flight when its session ended here, and may have had effects."""
    # not 503, after which a load balancer sends the request to another process, so that a tool could run twice
    return HttpRefusal(500, INTERRUPTED)
