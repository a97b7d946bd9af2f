"""The leases of sessions, if several processes share a storage: at most one process serves a session at a time.

    add_session (a new session), or load -> this process has the lease -> renewed every third of its time
        -> give_back (handover.py), or flush at the end of the process: the lease is released, so another process can
           load the session at once
        -> the process is killed, paused or cut off: the lease ends, and another process can load the session
    load, while another process has the lease -> SessionOwned: after a second (`HANDOVER_SECONDS`) 503, and the
        client tries again after a second

The storage decides who has a lease, and refuses the writes of any other process. This module only watches the time: a
process that was paused, or that cannot reach the storage, must not serve a session whose lease has ended, so it checks
the clock before each request. That clock runs on during a pause, and on Linux while the machine is suspended. If no
other process has taken the session over, a later `renew` continues it. If one has, `save` and `renew` say so, and this
process ends its copy.

A lease counts from the start of the storage's call, because it can have been granted at any moment of the call.

Threats:
    lease-of-another-caller: a user's session; another caller who knows its id; sends a request for it to another
        process, so that the lease moves there; the storage compares the principal before it moves a lease.

Used by: durable_store.py
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Final

_CLOCK: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)  # Linux only


def now() -> float:
    """Return a time that also runs while the machine is suspended, in seconds. `time.monotonic` stands still then."""
    return time.clock_gettime(_CLOCK) if _CLOCK is not None else time.monotonic()


class Leases:
    """The leases of one process.

    Args:
        seconds: Duration of a lease after each `load`, `save` or `renew`, in seconds.
        renew: Renews leases in the storage. Returns the lost sessions, or None if the storage has failed.
        lose: Called with each session that another process has taken over.
    """

    def __init__(
        self, seconds: float, renew: Callable[[Sequence[str]], Awaitable[Collection[str] | None]],
        lose: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._seconds, self._renew, self._lose = seconds, renew, lose
        self._ends: dict[str, float] = {}  # session -> time (of `now`) at which its lease ends; infinite until saved
        self._restoring: dict[str, float] = {}  # the same for a session between `load` and `restore_session`
        self._task: asyncio.Task[None] | None = None  # renews the leases

    def has(self, session: str) -> bool:
        """Return True if this process is allowed to serve the session now."""
        return self._ends.get(session, 0.0) > now()

    def begin(self, session: str, end: float = math.inf) -> None:
        """Begin the lease of a session. That of a new session has no `end` until the storage has the session."""
        self._ends[session] = end
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._renew_all())

    def note_loaded(self, session: str, began: float) -> None:
        """Note that a `load`, which began at the time `began`, has given this process the lease."""
        self._restoring[session] = began + self._seconds

    def keep(self, session: str) -> None:
        """Keep the lease of a loaded session, because the session is in memory now."""
        end = self._restoring.pop(session, 0.0)  # `_renew_all` drops the entry of a lease that has ended
        self.begin(session, end)

    def end(self, session: str) -> None:
        self._ends.pop(session, None)

    def extend(self, sessions: Iterable[str], began: float, lost: Collection[str]) -> None:
        """Note the result of a `save` or `renew` that began at the time `began`, and end the lost sessions."""
        for session in sessions:
            if session in self._ends:
                self._ends[session] = began + self._seconds
        for session in lost:
            if self._ends.pop(session, None) is not None:
                self._lose(session)

    def end_all(self) -> list[str]:
        """Stop renewing leases. Return the sessions whose leases the storage can end."""
        if self._task is not None:
            self._task.cancel()
        sessions = [*self._ends, *self._restoring]
        self._ends.clear()
        self._restoring.clear()
        return sessions

    async def _renew_all(self) -> None:
        while self._ends:
            await asyncio.sleep(self._seconds / 3)
            began = now()
            self._restoring = {session: end for session, end in self._restoring.items() if end > began}
            sessions = [session for session, end in self._ends.items() if end != math.inf]
            lost = await self._renew(sessions) if sessions else ()
            if lost is not None:
                self.extend(sessions, began, lost)
