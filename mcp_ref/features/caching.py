"""Caching: a server says how long its result stays fresh. Until that time a client may reuse the result.

Six results have caching hints: `server/discover`, the four lists, and `resources/read`. `ttlMs` is the time for which
the result is fresh, in milliseconds; 0 forbids reuse. A notification of a change makes the cached result stale at once.
`cacheScope` says which callers may share the result:

    public    all users [2026-07-28 server/utilities/caching#cache-scope-field]
    private   callers with the same authorization context, such as the same access token

A shared cache can bypass access control. If a server marks one user's result as public, or a cache ignores "private",
an attacker with any account on the same gateway can read that result. So a cache MUST NOT share private results across
authorization contexts; this cache has the credential in its key. A server MUST NOT rely on the scope alone, and checks
each access [2026-07-28 server/utilities/caching#security-considerations].

The hints came with 2026-07-28 (SEP-2549). Results of earlier revisions have no time of validity, and are not cached.

Spec:  2026-07-28 server/utilities/caching; schema: CacheableResult
Wire:  {"jsonrpc": "2.0", "id": 1, "result": {"resultType": "complete", "tools": [], "ttlMs": 300000,
        "cacheScope": "public"}}
Above: the pages of these results; client/session.py asks a `ResponseCache` first. Below: basic/subscriptions.py
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias, cast, get_args

from ..basic.subscriptions import includes_uri
from ..jsonrpc.messages import JSON, Object
from ..revisions import R2026_07_28, Availability, Revision

CacheScope: TypeAlias = Literal["public", "private"]

DISCOVER_AND_LISTS: Final = (
    "server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list",
)  # fmt: skip
"""The methods whose results get the caching hints that the server was created with."""

CACHEABLE: Final = (*DISCOVER_AND_LISTS, "resources/read")
"""The methods with cacheable results. [2026-07-28 server/utilities/caching#cacheable-results]"""

MAX_CACHED_RESULTS = 1000
"""Maximum number of results in a cache. The oldest are dropped first."""

MAX_CACHED_BYTES = 64 * 1024 * 1024
"""Maximum total size of the results in a cache, as JSON, in bytes (64 MiB)."""

_MAX_TTL_MS = 2**53 - 1
"""Maximum `ttlMs`, in milliseconds. A float, as which some peers read all numbers, cannot hold a larger integer."""


@dataclass(kw_only=True)
class CacheableResult:
    """The caching hints in the six results. The default forbids reuse."""

    ttl_ms: Annotated[int, Availability(since=R2026_07_28, required_since=R2026_07_28)] = 0
    cache_scope: Annotated[CacheScope, Availability(since=R2026_07_28, required_since=R2026_07_28)] = "private"

    @staticmethod
    def from_wire(wire: Object, revision: Revision) -> Object:
        """Replace missing or invalid hints with 0 and "private", so that the rest of the result can be used."""
        hints = read_hints(wire)
        return {**wire, "ttlMs": hints.ttl_ms, "cacheScope": hints.scope}


class CacheHints(NamedTuple):
    """The two hints of one result: the time for which the result is fresh, in milliseconds, and the scope."""

    ttl_ms: int
    scope: CacheScope


# ---------------------------------------------------------------------------------------------------- server


def hints_for(ttl: float, scope: CacheScope) -> CacheHints:
    """Return the hints for `ttl` seconds and a scope. Raise ValueError if either is invalid."""
    # [2026-07-28 server/utilities/caching#time-to-live-ttl-field] MUST be >= 0
    if not (math.isfinite(ttl) and 0 <= ttl * 1000 <= _MAX_TTL_MS):
        raise ValueError(f"cache_ttl is a number of seconds, 0 or more, not {ttl}")
    if scope not in get_args(CacheScope):
        raise ValueError(f'cache_scope is "public" or "private", not {scope!r}')
    return CacheHints(round(ttl * 1000), scope)


def hints_by_method(
    ttl: float | Mapping[str, float], scope: CacheScope | Mapping[str, CacheScope]
) -> dict[str, CacheHints]:
    """Return the hints of each method in `DISCOVER_AND_LISTS`. The defaults are 0 seconds and "public".

    The time, in seconds, and the scope are given for all methods or by method.
    """
    # [2026-07-28 server/utilities/caching#interaction-with-pagination] MUST be the same cacheScope on all pages, so the
    # hints are fixed for each method
    ttls = ttl if isinstance(ttl, Mapping) else dict.fromkeys(DISCOVER_AND_LISTS, ttl)
    scopes = scope if isinstance(scope, Mapping) else dict.fromkeys(DISCOVER_AND_LISTS, scope)
    for method in (*ttls, *scopes):
        if method not in DISCOVER_AND_LISTS:
            raise ValueError(f"no cache_ttl or cache_scope for {method!r}, only for {', '.join(DISCOVER_AND_LISTS)}")
    return {method: hints_for(ttls.get(method, 0.0), scopes.get(method, "public")) for method in DISCOVER_AND_LISTS}


# ---------------------------------------------------------------------------------------------------- client


def read_hints(result: Object) -> CacheHints:
    """Return the hints in a result. A missing or invalid hint becomes 0 milliseconds or "private"."""
    ttl, scope = result.get("ttlMs"), result.get("cacheScope")
    if type(ttl) is float and ttl.is_integer():
        ttl = int(ttl)  # 1.0 is an integer in JSON
    # [2026-07-28 server/utilities/caching#time-to-live-ttl-field] absent or negative is like 0
    return CacheHints(ttl if type(ttl) is int and ttl > 0 else 0, "public" if scope == "public" else "private")


class _Key(NamedTuple):
    """The server and request of a cached result. The owner is a credential, or None for a public result."""

    server: Hashable
    method: str
    params: str
    owner: Hashable | None


class _CachedResult(NamedTuple):
    """A result as JSON text, so that a caller cannot change the result that another caller gets."""

    result: bytes
    uri: JSON  # of `resources/read`, else None
    received: float  # time in seconds, by the cache's clock
    ttl_ms: int


class ResponseCache:
    """A cache of results for one client, or for several clients on one event loop.

    In the methods, `server` identifies the server, for example by its URL. `credential` is equal only for callers that
    may see the same private results.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, max_results: int | None = None) -> None:
        self.invalidations = 0
        """Number of invalidations. A response that was requested before the latest one is not cached."""
        self._clock = clock  # in seconds
        self._max_results = max_results
        self._results: dict[_Key, _CachedResult] = {}  # the oldest first
        self._size = 0  # in bytes

    def get(self, server: Hashable, credential: Hashable, method: str, params: Object) -> Object | None:
        """Return the fresh result of a request, or None if the cache has none."""
        for key in _keys(server, credential, method, params):
            if (kept := self._results.get(key)) is not None:
                # [2026-07-28 server/utilities/caching#freshness-calculation] fresh while now < t_received + ttlMs
                if (self._clock() - kept.received) * 1000 < kept.ttl_ms:
                    return cast(Object, json.loads(kept.result))
                self._drop(key)
        return None

    def put(
        self,
        server: Hashable,
        credential: Hashable,
        method: str,
        params: Object,
        result: Object,
        invalidations: int | None = None,
    ) -> None:
        """Replace the cached result of a request with a new result, which is cached only if its hints allow that.

        `invalidations` is `self.invalidations` at the time of the request. If it has grown, the result may be outdated.
        """
        keys = _keys(server, credential, method, params)
        for key in keys:
            self._drop(key)
        hints = read_hints(result)
        outdated = invalidations is not None and invalidations != self.invalidations
        # [2026-07-28 server/utilities/caching#cacheable-results] input_required is not cacheable
        if not keys or outdated or not hints.ttl_ms or result.get("resultType", "complete") != "complete":
            return
        key = keys[1] if hints.scope == "public" else keys[0]
        kept = _CachedResult(json.dumps(result).encode(), params.get("uri"), self._clock(), hints.ttl_ms)
        self._results[key] = kept
        self._size += _size(key, kept)
        limit = MAX_CACHED_RESULTS if self._max_results is None else self._max_results
        while len(self._results) > limit or self._size > MAX_CACHED_BYTES:
            self._drop(next(iter(self._results)))

    def invalidate(self, server: Hashable, method: str, uri: str | None = None) -> None:
        """Drop the results that a notification of the server makes stale. `uri` is the URI in the notification."""
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
        """Drop all results of a method or, with `uri`, those that an update of `uri` concerns. Return True if any."""
        self.invalidations += 1
        before = len(self._results)
        for key, kept in tuple(self._results.items()):
            if (key.server, key.method) == (server, method) and (uri is None or _is_same_or_nested(uri, kept.uri)):
                self._drop(key)
        return len(self._results) < before

    def _drop(self, key: _Key) -> None:
        if (kept := self._results.pop(key, None)) is not None:
            self._size -= _size(key, kept)


def _keys(server: Hashable, credential: Hashable, method: str, params: Object) -> tuple[_Key, _Key] | tuple[()]:
    """Return the keys for a private and a public result of a request, or () if the result must not be cached."""
    # [2026-07-28 server/utilities/caching#cache-key] the result of a retry with input MUST NOT be cached
    if method not in CACHEABLE or "inputResponses" in params or "requestState" in params:
        return ()
    # [2026-07-28 server/utilities/caching#cache-key] MUST NOT reuse a result for other parameters
    text = json.dumps({name: value for name, value in params.items() if name != "_meta"}, sort_keys=True)
    # [2026-07-28 server/utilities/caching#cache-scope-field] MUST NOT share private results across credentials
    return _Key(server, method, text, credential), _Key(server, method, text, None)


def _size(key: _Key, kept: _CachedResult) -> int:
    return len(key.params) + len(kept.result)


def _is_same_or_nested(updated: str, read: JSON) -> bool:
    """Return True if one of the two URIs is the other URI, or a path below it."""
    return isinstance(read, str) and (includes_uri(updated, read) or includes_uri(read, updated))
