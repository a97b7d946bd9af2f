"""Registry: a store of a server's tools, resources or prompts, which returns them in pages.

A server SHOULD list its tools in the same order each time (here, the order of registration), so that clients can cache
the list, and a model's provider can cache the prompt that contains it [2026-07-28 server/tools#capabilities].

Spec:  server/utilities/pagination (2024-11-05 to 2026-07-28)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable
from itertools import count, islice
from operator import itemgetter
from typing import TypeVar

from ..basic.access import checked_scopes
from ..basic.channel import RequestContext
from .pagination import cursor_of, serial_of

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])


class Registry(dict[str, T]):
    """Items under unique keys, in the order of registration. A key is a name, a URI or a URI template."""

    def __init__(self, kind: str, page_size: int, on_change: Callable[[], None]) -> None:
        super().__init__()
        self._kind, self._page_size, self._on_change = kind, page_size, on_change  # the kind is, for example, "tool"
        self.scopes: dict[str, frozenset[str]] = {}  # key of each item that needs scopes -> these scopes
        self._serials: dict[str, int] = {}  # key -> its number, increasing; a cursor contains the last number of a page
        self._next_serial = count(1)

    def add(self, key: str, item: T, scopes: Collection[str] = ()) -> None:
        """Register an item. Raise ValueError for a key in use or an invalid scope, TypeError if `scopes` is a str."""
        if key in self:
            raise ValueError(f"the {self._kind} {key!r} is already registered; remove it first")
        if needed := checked_scopes(scopes):
            self.scopes[key] = needed
        self[key] = item
        self._serials[key] = next(self._next_serial)
        self._on_change()

    def remove(self, key: str) -> None:
        del self[key], self._serials[key]
        self.scopes.pop(key, None)
        self._on_change()

    def page(self, cursor: str | None, context: RequestContext) -> tuple[list[T], str | None]:
        """Return the page for a cursor (None for the first), and the next cursor (None after the last page)."""
        if not context.revision.pagination:
            return [self[key] for key in list(self) if context.caller_may_see(key, self._scopes_of)], None
        entries = list(self._serials.items())  # one copy, because another thread may be adding an item
        # [2026-07-28 server/utilities/pagination#implementation-guidelines] "" is a cursor, not the first page
        start = 0 if cursor is None else bisect_right(entries, serial_of(cursor), key=itemgetter(1))
        shown: Iterable[tuple[str, int]] = entries[start:]
        if context.access is not None:  # hide items before paging, because short pages would reveal hidden items
            shown = (entry for entry in shown if context.caller_may_see(entry[0], self._scopes_of))
        found = list(islice(shown, self._page_size + 1))  # one too many if another page follows
        page = found[: self._page_size]
        next_cursor = cursor_of(page[-1][1]) if len(found) > len(page) else None
        return [self[key] for key, _ in page], next_cursor

    def _scopes_of(self, key: str) -> Collection[str]:  # resource_access.py overrides this
        return self.scopes.get(key, ())


def registering(name: str, argument: object, add: Callable[[F], object]) -> Callable[[F], F]:
    """Return the decorator `@server.NAME(argument)`, which registers a function by calling `add`."""
    if not isinstance(argument, str | None):  # `@server.tool` without parentheses passes the function itself
        raise TypeError(f"write @server.{name}(...), with parentheses, and a str in them, not {argument!r:.100}")

    def register(function: F) -> F:
        add(function)
        return function

    return register
