"""Registry: the tools, resources or prompts of a server, each under a unique name or URI, listed in pages.

The list has the order of registration, so it is the same for every request. A client's cache and its model's prompt
cache need a stable order [2026-07-28 server/tools#capabilities]. Every change of the registry calls `changed`, and the
server then sends a list_changed notification.

Spec:  server/utilities/pagination (2024-11-05 to 2026-07-28)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from itertools import count
from typing import TypeVar

from ..revisions import Revision
from .pagination import cursor_of, serial_of

T = TypeVar("T")


class Registry(dict[str, T]):
    """Items under unique keys, in the order of registration. `kind` names an item in error messages."""

    def __init__(self, kind: str, page_size: int, on_change: Callable[[], None]) -> None:
        super().__init__()
        self._kind, self._page_size, self._on_change = kind, page_size, on_change
        self._serials: dict[str, int] = {}
        self._next_serial = count(1)

    def add(self, key: str, item: T) -> None:
        """Register an item. Raise ValueError if the key is taken."""
        if key in self:
            raise ValueError(f"a {self._kind} {key!r} is already registered; remove it first, or choose another name")
        self[key] = item
        self._serials[key] = next(self._next_serial)
        self._on_change()

    def remove(self, key: str) -> None:
        """Remove an item. Raise KeyError if the key is unknown."""
        del self[key], self._serials[key]
        self._on_change()

    def page(self, cursor: str | None, revision: Revision) -> tuple[list[T], str | None]:
        """Return the page that starts after `cursor`, and the next cursor: None after the last page.

        Raise ProtocolError -32602 for a cursor that this server did not make.
        """
        items = list(self.values())
        if not revision.pagination:
            return items, None
        serials = list(self._serials.values())
        # [2026-07-28 server/utilities/pagination#implementation-guidelines] "" is a cursor; only None is the first page
        start = 0 if cursor is None else bisect_right(serials, serial_of(cursor))
        end = start + self._page_size
        return items[start:end], cursor_of(serials[end - 1]) if end < len(items) else None
