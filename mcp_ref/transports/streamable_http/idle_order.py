"""The order in which idle sessions end when a new session needs their place, and a warning if one address has many.

Used by: session_table.py
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from functools import cache
from ipaddress import ip_address
from typing import Final

from .session import HttpSession

log = logging.getLogger(__name__)

MANY_SESSIONS: Final = 100
"""Number of unauthenticated sessions at which a private address is probably that of a proxy."""


class IdleOrder:
    """The order in which the table ends the idle sessions of one caller, or of all callers.

    Sessions that have had no request come first, then those that were used longest ago. Using a session does not move
    it, because that would cost time at every request. Instead, `next_idle` moves a session that was used in the
    meantime to the end.
    """

    def __init__(self) -> None:
        self.size = 0
        """Number of sessions, idle or not."""
        self._unused: OrderedDict[HttpSession, float] = OrderedDict()  # session -> time of its last known use
        self._used: OrderedDict[HttpSession, float] = OrderedDict()

    def add(self, session: HttpSession) -> None:
        queue = self._used if session.was_used else self._unused
        queue[session] = session.last_used

    def remove(self, session: HttpSession) -> None:
        self._unused.pop(session, None)
        self._used.pop(session, None)
        session.at_next_use.clear()

    def next_idle(self) -> HttpSession | None:
        """Return the session to end, or None if no session is idle."""
        for queue in (self._unused, self._used):
            while queue:
                session, last_known_use = queue.popitem(last=False)
                if not session.is_idle:
                    session.at_next_use.append(self.add)  # the end of its request, at the latest, is a use
                elif session.last_used == last_known_use:
                    return session
                else:
                    self.add(session)
        return None


@cache
def report_crowd(address: str) -> None:
    """Warn once about an address with many unauthenticated sessions, unless it is public and so hardly a proxy."""
    if ip_address(address.partition("%")[0]).is_private:  # which includes loopback
        log.warning(
            "%d sessions come from %s. If it is a proxy, its clients share the limits of one caller: set "
            'trusted_proxies=["%s"], or --trust-proxy',
            MANY_SESSIONS, address, address,
        )  # fmt: skip
