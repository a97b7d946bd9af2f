"""Leases: if several processes share a storage, only the process that has the lease of a session serves the session.

    a new session, or `load` of a stored one -> this process has the lease, and renews it every `lease_seconds / 3`
        -> give_back (handover.py), or flush at the end of the process: the lease is released, so another process can
           load the session at once
        -> the process is killed, paused or cut off: when the lease ends, another process can load the session
    `load` of a session whose lease another process has -> this process waits for a second (`HANDOVER_SECONDS`), because
        the other may be about to give the session back; then SessionOwned: 503, and the client tries again

The storage decides which process has a lease, and rejects changes by every other process. This module only watches the
time: a process that was paused, or that cannot reach the storage, must not serve a session whose lease has ended, so it
checks the clock before each request. This clock also counts a pause, and on Linux the time while the machine is
suspended. If another process has taken the session over meanwhile, `save` and `renew` report it, and this process ends
its copy. Otherwise the next `renew` makes the lease valid again.

A lease counts from the call to the storage, not from the response, because the storage may have granted the lease at
any time in between.

Threats:
    lease-of-another-caller: A caller that knows the id of a user's session interrupts it, by sending a request for it
        to another process, so that the lease moves there. The storage compares the principal before it moves a lease.

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
    """Return the time, in seconds, by a clock that on Linux also runs while the machine is suspended."""
    return time.clock_gettime(_CLOCK) if _CLOCK is not None else time.monotonic()


class Leases:
    """The leases that this process has.

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
        self._restoring: dict[str, float] = {}  # session between `load` and `restore_session` -> end of its lease
        self._task: asyncio.Task[None] | None = None  # renews the leases

    def has(self, session: str) -> bool:
        """Return True if this process is allowed to serve the session now."""
        return self._ends.get(session, 0.0) > now()

    def begin(self, session: str, end: float = math.inf) -> None:
        """Begin a lease. Until a new session is saved, its lease is endless, because no other process can load it."""
        self._ends[session] = end
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._renew_all())

    def note_loaded(self, session: str, began: float) -> None:
        """Note that a `load`, which began at the time `began`, has given this process the lease."""
        self._restoring[session] = began + self._seconds

    def keep(self, session: str) -> None:
        """Keep the lease of a loaded session, because the session is in memory now."""
        end = self._restoring.pop(session, 0.0)  # 0.0 if `_renew_all` has dropped the lease, because it had ended
        self.begin(session, end)

    def end(self, session: str) -> None:
        self._ends.pop(session, None)

    def extend(self, sessions: Iterable[str], began: float, lost: Collection[str]) -> None:
        """Extend the leases after a `save` or `renew` that began at the time `began`, and end the lost sessions."""
        for session in sessions:
            if session in self._ends:
                self._ends[session] = began + self._seconds
        for session in lost:
            if self._ends.pop(session, None) is not None:
                self._lose(session)

    def end_all(self) -> list[str]:
        """Stop renewing leases. Return the sessions whose leases the storage can release."""
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
            saved = [session for session, end in self._ends.items() if end != math.inf]
            lost = await self._renew(saved) if saved else ()
            if lost is not None:
                self.extend(saved, began, lost)
