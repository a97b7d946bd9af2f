"""Shares: how many bytes of a table one caller can fill, and how many all callers together.

A limit on the number of entries is not enough if the entries can be large, and a limit for all callers is not enough
either: one hostile caller would take everything. So a table that keeps data of callers asks its shares first:

    shares.take(caller, size)         before an entry is stored; raises ShareExceeded
    shares.give_back(caller, size)    after it is removed

Threats:
    session-memory: the server's memory; a caller; begins sessions with large `initialize` messages, or lets messages
        wait for a GET that never comes; sessions are counted in bytes for each caller, and the store has a limit.
"""

from __future__ import annotations


class ShareExceeded(Exception):
    """A caller would keep more bytes than its share, or all callers more than the table has. The text says which."""


class Shares:
    """The shares of one table.

    Args:
        contents: The name of the kept data, for errors, such as "subscriptions".
        per_caller: Maximum number of bytes of one caller.
        total: Maximum number of bytes of all callers.
    """

    def __init__(self, contents: str, per_caller: int, total: int) -> None:
        self.contents, self.per_caller, self.total = contents, per_caller, total
        self.used = 0
        """Number of bytes of all callers."""
        self.by_caller: dict[str, int] = {}
        """Number of bytes of each caller. A caller without bytes has no entry."""

    def take(self, caller: str, size: int) -> None:
        """Count bytes that a caller makes us keep. Raise ShareExceeded, and count nothing, if a limit is exceeded."""
        own = self.by_caller.get(caller, 0) + size
        if own > self.per_caller:
            raise ShareExceeded(f"your {self.contents} need more than {self.per_caller} bytes, which is the limit")
        if self.used + size > self.total:
            raise ShareExceeded(f"the {self.contents} of all clients need more than {self.total} bytes; retry later")
        self.by_caller[caller] = own
        self.used += size

    def give_back(self, caller: str, size: int) -> None:
        """Count bytes that were taken, and are no longer kept."""
        self.used -= size
        left = self.by_caller[caller] - size
        if left:
            self.by_caller[caller] = left
        else:
            del self.by_caller[caller]
