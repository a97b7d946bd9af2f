"""The order in which idle sessions end, when a new session needs their place.

Used by: session_table.py
"""

from __future__ import annotations

from collections import OrderedDict

from .session import HttpSession


class IdleOrder:
    """The order in which the table ends the idle sessions of one caller, or of all callers.

    Sessions without a request come first, then the sessions that were used longest ago. A use does not move a session:
    `next_idle` moves the first session to the end if it was used since the last look, so a use costs at most one move.
    """

    def __init__(self) -> None:
        self.size = 0
        """Number of sessions, idle or not."""
        self._unused: OrderedDict[HttpSession, float] = OrderedDict()  # session -> time of its last known use
        self._used: OrderedDict[HttpSession, float] = OrderedDict()

    def add(self, session: HttpSession) -> None:
        """Add a session at the end."""
        (self._used if session.was_used else self._unused)[session] = session.last_used

    def remove(self, session: HttpSession) -> None:
        """Remove a session that has ended."""
        self._unused.pop(session, None)
        self._used.pop(session, None)
        session.at_next_use.clear()

    def next_idle(self) -> HttpSession | None:
        """Return the session to end, or None if no session is idle."""
        for queue in (self._unused, self._used):
            while queue:
                session, since = queue.popitem(last=False)
                if not session.is_idle:
                    session.at_next_use.append(self.add)
                elif session.last_used == since:
                    return session
                else:
                    self.add(session)
        return None
