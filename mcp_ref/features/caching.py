"""Caching: a server says how long a result may be kept, and by whom; a client that keeps it need not ask again.

Six results say so: `server/discover`, the four lists, `resources/read`. `ttlMs` is how long the result is fresh, in
milliseconds; `cacheScope` is "public" where everybody may be given it, "private" where only who has asked. A
notification that the list or the resource has changed ends the freshness at once.

Spec:  server/utilities/caching (2026-07-28); schema: CacheableResult
Wire:  {"jsonrpc": "2.0", "id": 1, "result": {"resultType": "complete", "tools": [], "ttlMs": 300000,
        "cacheScope": "public"}}
Above: the pages whose results these are; runtime/client_connection.py asks a `ServerCache` first. Below: nothing.
Elsewhere: how a change is learned of (basic/patterns/subscriptions.py).
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias, get_args

from ..basic.subscriptions import covers
from ..jsonrpc.messages import JSON, Object
from ..revisions import R2026_07_28, Life, Revision

CacheScope: TypeAlias = Literal["public", "private"]

DISCOVER_AND_LISTS: Final = (
    "server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list",
)  # fmt: skip
"""Whose hints are a setting of the server."""

CACHEABLE: Final = (*DISCOVER_AND_LISTS, "resources/read")
"""The requests whose results may be kept. [2026-07-28 server/utilities/caching#cacheable-results]"""

MAX_CACHED_RESULTS = 1000
"""Results that a client's cache keeps; the oldest are forgotten."""

MAX_CACHED_BYTES = 64 * 1024 * 1024
"""Bytes of these, as JSON."""

_MAX_TTL_MS = 2**53 - 1  # beyond, a peer whose numbers are all floats reads another integer

# ---------------------------------------------------------------------------------------------------- types


@dataclass(kw_only=True)
class CacheableResult:
    """What the six results have in common. ttl_ms: milliseconds. Where a peer does not say, it is not to be kept."""

    ttl_ms: Annotated[int, Life(since=R2026_07_28, required_since=R2026_07_28)] = 0
    cache_scope: Annotated[CacheScope, Life(since=R2026_07_28, required_since=R2026_07_28)] = "private"

    @staticmethod
    def from_wire(wire: Object, revision: Revision) -> Object:
        """Hints that are missing or wrong are no reason to refuse the result."""
        hints = read_hints(wire)
        return {**wire, "ttlMs": hints.ttl_ms, "cacheScope": hints.scope}


class CacheHints(NamedTuple):
    """How many milliseconds a result may be kept, and by whom."""

    ttl_ms: int
    scope: CacheScope


# ---------------------------------------------------------------------------------------------------- server


def hints_for(ttl: float, scope: CacheScope) -> CacheHints:
    """The hints for so many seconds. Raises ValueError for what cannot be said."""
    # [2026-07-28 server/utilities/caching#time-to-live-ttl-field] MUST be >= 0
    if not (math.isfinite(ttl) and 0 <= ttl * 1000 <= _MAX_TTL_MS):
        raise ValueError(f"cache_ttl is a number of seconds, 0 or more, not {ttl}")
    if scope not in get_args(CacheScope):
        raise ValueError(f'cache_scope is "public" or "private", not {scope!r}')
    return CacheHints(round(ttl * 1000), scope)


def hints_by_method(
    ttl: float | Mapping[str, float], scope: CacheScope | Mapping[str, CacheScope]
) -> dict[str, CacheHints]:
    """The hints of `server/discover` and each list: one for all of them, or by method; else 0 seconds and "public".

    They are settled once, when the server is made, so that all pages of a list say the same.
    """
    # [2026-07-28 server/utilities/caching#interaction-with-pagination] MUST be the same cacheScope on all pages
    ttls = ttl if isinstance(ttl, Mapping) else dict.fromkeys(DISCOVER_AND_LISTS, ttl)
    scopes = scope if isinstance(scope, Mapping) else dict.fromkeys(DISCOVER_AND_LISTS, scope)
    for method in (*ttls, *scopes):
        if method not in DISCOVER_AND_LISTS:
            raise ValueError(f"no cache_ttl or cache_scope for {method!r}, only for {', '.join(DISCOVER_AND_LISTS)}")
    return {method: hints_for(ttls.get(method, 0.0), scopes.get(method, "public")) for method in DISCOVER_AND_LISTS}


# ---------------------------------------------------------------------------------------------------- client


def read_hints(result: Object) -> CacheHints:
    """What a result says; where it says nothing that can be understood: not to be kept, and not to be shared."""
    ttl, scope = result.get("ttlMs"), result.get("cacheScope")
    if type(ttl) is float and ttl.is_integer():
        ttl = int(ttl)  # 1.0 is an integer in JSON
    # [2026-07-28 server/utilities/caching#time-to-live-ttl-field] absent or negative is like 0
    return CacheHints(ttl if type(ttl) is int and ttl > 0 else 0, "public" if scope == "public" else "private")


class _Key(NamedTuple):
    """What a kept result is the answer to. owner: whose it is, by credential; None where it is everybody's."""

    server: Hashable
    method: str
    params: str
    owner: Hashable | None


class _Kept(NamedTuple):
    """A result as JSON, so that who is given it cannot change it for others; when it came, in seconds."""

    result: bytes
    uri: JSON
    received: float
    ttl_ms: int


class ResponseCache:
    """Results that are still fresh, by what was asked: of one client, or of several that share what is public.

    server: whose result it is, such as its URL. credential: anything that is the same for those only who may see the
    same private results; "" for none. clock: seconds since whenever. It does no I/O and is not locked: the clients
    that share one run on one event loop.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.changes = 0
        """How many changes were told of. A request that is sent between two of them may be answered as of before."""
        self._clock = clock
        self._kept: dict[_Key, _Kept] = {}  # the oldest first
        self._size = 0

    def get(self, server: Hashable, credential: Hashable, method: str, params: Object) -> Object | None:
        """A fresh result of this very request; None where there is none."""
        for key in _keys(server, credential, method, params):
            kept = self._kept.get(key)
            if kept is None:
                continue
            # [2026-07-28 server/utilities/caching#freshness-calculation] fresh while now < t_received + ttlMs
            if (self._clock() - kept.received) * 1000 < kept.ttl_ms:
                found: Object = json.loads(kept.result)
                return found
            self._drop(key)
        return None

    def put(
        self,
        server: Hashable,
        credential: Hashable,
        method: str,
        params: Object,
        result: Object,
        changes: int | None = None,
    ) -> None:
        """Keep a result that has just come, where it may be kept; it takes the place of an earlier one.

        changes: `self.changes` as it was when the request was sent. A result that may be older than a change that was
        told of since then is not kept.
        """
        keys = _keys(server, credential, method, params)
        for key in keys:
            self._drop(key)
        hints = read_hints(result)
        outdated = changes is not None and changes != self.changes
        # [2026-07-28 server/utilities/caching#cacheable-results] input_required is not cacheable
        if not keys or outdated or not hints.ttl_ms or result.get("resultType", "complete") != "complete":
            return
        private, public = keys
        key = public if hints.scope == "public" else private
        kept = _Kept(json.dumps(result).encode(), params.get("uri"), self._clock(), hints.ttl_ms)
        self._kept[key] = kept
        self._size += _size(key, kept)
        while len(self._kept) > MAX_CACHED_RESULTS or self._size > MAX_CACHED_BYTES:
            self._drop(next(iter(self._kept)))

    def invalidate(self, server: Hashable, method: str, uri: str | None = None) -> None:
        """A server's notification has come, with the URI that it names: what it says has changed is fresh no longer."""
        # [2026-07-28 server/utilities/caching#interaction-with-notifications] immediately stale
        match method:
            case "notifications/tools/list_changed":
                self.forget(server, "tools/list")
            case "notifications/prompts/list_changed":
                self.forget(server, "prompts/list")
            case "notifications/resources/list_changed":
                self.forget(server, "resources/list")
                self.forget(server, "resources/templates/list")
            case "notifications/resources/updated" if uri is not None:
                self.forget(server, "resources/read", uri)

    def forget(self, server: Hashable, method: str, uri: str | None = None) -> bool:
        """Drop the results of a method, with all pages; of `resources/read`, those that an update of `uri` concerns.

        False where there were none.
        """
        self.changes += 1
        before = len(self._kept)
        for key, kept in tuple(self._kept.items()):
            if (key.server, key.method) == (server, method) and (uri is None or _concerns(uri, kept.uri)):
                self._drop(key)
        return len(self._kept) < before

    def _drop(self, key: _Key) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._size -= _size(key, kept)


class ServerCache:
    """A `ResponseCache` as one client uses it: for one server, with one credential. Without one, nothing is kept."""

    def __init__(self, cache: ResponseCache | None, server: Hashable, credential: Hashable) -> None:
        self._cache = cache
        self._server = server
        self._credential = credential

    @property
    def changes(self) -> int:
        """See `ResponseCache.changes`."""
        return self._cache.changes if self._cache is not None else 0

    def get(self, method: str, params: Object) -> Object | None:
        """See `ResponseCache.get`."""
        return self._cache.get(self._server, self._credential, method, params) if self._cache is not None else None

    def put(self, method: str, params: Object, result: Object, changes: int) -> None:
        """See `ResponseCache.put`."""
        if self._cache is not None:
            self._cache.put(self._server, self._credential, method, params, result, changes)

    def invalidate(self, method: str, uri: str | None) -> None:
        """See `ResponseCache.invalidate`."""
        if self._cache is not None:
            self._cache.invalidate(self._server, method, uri)

    def forget(self, method: str) -> bool:
        """See `ResponseCache.forget`."""
        return self._cache is not None and self._cache.forget(self._server, method)


def _keys(server: Hashable, credential: Hashable, method: str, params: Object) -> tuple[_Key, _Key] | tuple[()]:
    """Under which a result is kept where it is private, and where it is public; none where it may not be."""
    # [2026-07-28 server/utilities/caching#cache-key] what a retry brings MUST NOT be cached
    if method not in CACHEABLE or "inputResponses" in params or "requestState" in params:
        return ()
    # [2026-07-28 server/utilities/caching#cache-key] MUST NOT serve it where method or parameters differ
    asked = json.dumps({name: value for name, value in params.items() if name != "_meta"}, sort_keys=True)
    # [2026-07-28 server/utilities/caching#cache-scope-field] private ones MUST NOT be shared across credentials
    return _Key(server, method, asked, credential), _Key(server, method, asked, None)


def _size(key: _Key, kept: _Kept) -> int:
    return len(key.params) + len(kept.result)


def _concerns(updated: str, read: JSON) -> bool:
    """Whether an update may have changed what was read: the same resource, one within it, or one that it is in."""
    return isinstance(read, str) and (covers(updated, read) or covers(read, updated))
