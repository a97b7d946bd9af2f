"""Shares: limits on the bytes that a table keeps for one caller, and for all callers together.

A limit on the number of entries is not enough if entries can be large, and a limit for all callers together is not
enough either, because one hostile caller could use it up. So a table that keeps callers' data asks its shares first:

    shares.take(caller, size)         before an entry is stored; raises ShareExceeded
    shares.give_back(caller, size)    after it is removed

The size of a message says little about the memory that it needs, because JSON can need 25 times its size as Python
objects: `[[],[],[],...]` has a list in every three bytes. So `memory_of` counts the characters that stand for objects.

Threats:
    request-memory: A caller fills the server's memory with many requests whose small text becomes many objects, and
        whose tools take long. The server limits the estimated memory of each caller's requests in flight.
    session-memory: A caller fills the server's memory with large `initialize` messages, or with messages that wait for
        a GET that never comes. The server limits the bytes of each caller's sessions, and those of the event store.
    queue-memory: A client fills the server's memory by opening a thousand streams, reading none of them, and causing
        many changes. The server limits the bytes of one caller's queued changes, and of all callers' changes together.
"""

from __future__ import annotations

from typing import Final

SMALL_FRAME: Final = 4 * 1024
"""Maximum size of a frame (the JSON text of a message) whose memory is estimated by its size alone, in bytes."""
MAX_OBJECT_COST: Final = 50
"""Maximum memory that each byte of such a frame needs as Python objects, in bytes."""
MAX_QUEUED_BYTES_PER_CALLER: Final = 8 * 1024 * 1024
"""Maximum memory of the changes in the queues of one caller, in bytes (8 MiB). Above it, a queue drops its oldest."""
MAX_QUEUED_BYTES: Final = 64 * 1024 * 1024
"""Maximum memory of the changes in the queues of all callers, in bytes (64 MiB)."""
QUEUED_COST: Final = 300
"""Memory of a queued change in addition to its text, in bytes."""
REQUEST_COST: Final = 16 * 1024
"""Memory of a request in flight beside its params, in bytes: its asyncio task, stream, context and frames."""
ITEM_BYTES, LIST_BYTES, OBJECT_BYTES, STRING_BYTES = 40, 96, 200, 56
"""Estimated memory of an item of a list or an object, of a list, an object, and a string beside its text, in bytes."""


def memory_of(text: bytes | bytearray | memoryview) -> int:
    """Estimate the memory of a JSON text as Python objects, in bytes: usually twice what it needs, and never less."""
    text = bytes(text)
    # one character above U+FFFF makes each character of its string need four bytes
    character_bytes = 1 if text.isascii() and b"\\u" not in text else 4
    items = ITEM_BYTES * (text.count(b",") + text.count(b":"))
    containers = LIST_BYTES * text.count(b"[") + OBJECT_BYTES * text.count(b"{")
    strings = STRING_BYTES // 2 * text.count(b'"')  # a string has two quotation marks
    return character_bytes * len(text) + items + containers + strings


def request_memory(frame: bytes | bytearray | memoryview) -> int:
    """Estimate the memory that a request needs while it is served, in bytes."""
    if len(frame) <= SMALL_FRAME:
        return REQUEST_COST + MAX_OBJECT_COST * len(frame)  # quicker than `memory_of`, and never too low
    return REQUEST_COST + memory_of(frame)


class ShareExceeded(Exception):
    """One caller would exceed its share, or all of them together would exceed the total. The text says which."""


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
        """Number of bytes that are kept for all callers."""
        self.by_caller: dict[str, int] = {}
        """Number of bytes that are kept for each caller. A caller without bytes has no entry."""

    def take(self, caller: str, size: int) -> None:
        """Count bytes that are kept for a caller. Raise ShareExceeded, and count nothing, if a limit is exceeded."""
        own = self.by_caller.get(caller, 0) + size
        if own > self.per_caller:
            raise ShareExceeded(f"your {self.contents} need more than {self.per_caller} bytes, which is the limit")
        if self.used + size > self.total:
            raise ShareExceeded(f"the {self.contents} of all clients need more than {self.total} bytes; retry later")
        self.by_caller[caller] = own
        self.used += size

    def give_back(self, caller: str, size: int) -> None:
        """Stop counting bytes that were taken, because they are no longer kept."""
        self.used -= size
        left = self.by_caller[caller] - size
        if left:
            self.by_caller[caller] = left
        else:
            del self.by_caller[caller]


class CountedQueue(dict[tuple[str, "str | None"], None]):
    """A queue of changes for one client, the oldest first and each only once, which counts for the caller's share.

    A change is the method of a notification, and a text such as the URI of a resource, or None.

    Args:
        shares: The shares of all queues.
        caller: The caller.
        max_length: Maximum number of changes. At a limit, `add` drops the oldest.
    """

    def __init__(self, shares: Shares, caller: str, max_length: int) -> None:
        super().__init__()
        self._shares, self._caller, self._max_length = shares, caller, max_length

    def add(self, change: tuple[str, str | None]) -> None:
        """Queue a change, and drop older ones if it exceeds a limit.

        Drop the change itself if it exceeds the share even in an empty queue, because other queues have the rest.
        """
        if change in self:
            return
        if len(self) >= self._max_length:
            self.take()
        _, text = change
        while text is not None and not self._take_share(text):
            if not self:
                return
            self.take()
        self[change] = None

    def take(self) -> tuple[str, str | None]:
        """Return the oldest change, and remove it."""
        oldest = next(iter(self))
        del self[oldest]
        _, text = oldest
        if text is not None:
            self._shares.give_back(self._caller, QUEUED_COST + len(text))
        return oldest

    def _take_share(self, text: str) -> bool:
        """Count the memory of a change with this text. Return False, and count nothing, if a limit is exceeded."""
        try:
            self._shares.take(self._caller, QUEUED_COST + len(text))
        except ShareExceeded:
            return False
        return True
