"""Caching: a server says how long a client can reuse a result, and for which users.

Six methods have cacheable results: `server/discover`, the four list methods, and `resources/read`. Each of these
results has two hints. `ttlMs` is the time in milliseconds for which the result is fresh, unless a change notification
makes it stale earlier. `cacheScope` says which users may get the cached result:

    public    all users [2026-07-28 server/utilities/caching#cache-scope-field]
    private   users with the same authorization context, such as the same access token

A shared cache can bypass access control: if a server marks one user's result as public, or a cache ignores "private",
another user of the cache can read that result. So a cache MUST NOT share private results across authorization contexts
(here, their key contains the user's credential), and a server MUST NOT rely on `cacheScope` alone but MUST control the
access to each tool, resource and prompt [2026-07-28 server/utilities/caching#security-considerations].

2026-07-28 added the hints (SEP-2549), so results of earlier revisions are not cached.

Threats:
    cache-of-another-server: A server replaces another server's results in a shared cache: it has the same command in
        another directory, and marks its results as public. The key contains the directory and the environment, too.
    cache-of-another-user: Another user of the cache gets a private result by sending the same request. The key of a
        private result contains the user's credential.
    stale-spelling: A server or a proxy keeps an outdated resource in the cache by announcing the change with another
        spelling of its URI. A notification drops the results for all spellings, and a request is served only with a
        result for exactly its own URI.

Spec:  2026-07-28 server/utilities/caching; schema: CacheableResult
Wire:  {"jsonrpc": "2.0", "id": 1, "result": {"resultType": "complete", "tools": [], "ttlMs": 300000,
        "cacheScope": "public"}}
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias, cast, get_args

from ..jsonrpc.messages import JSON, Object
from ..revisions import R2026_07_28, Availability, Revision

CacheScope: TypeAlias = Literal["public", "private"]

DISCOVER_AND_LISTS: Final = (
    "server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list",
)  # fmt: skip
"""The methods whose hints are arguments of `Server`. For `resources/read`, each resource has hints of its own."""

CACHEABLE: Final = (*DISCOVER_AND_LISTS, "resources/read")
"""The methods whose results MUST have the hints. [2026-07-28 server/utilities/caching#cacheable-results]"""

MAX_CACHED_RESULTS = 1000
"""Default maximum number of results in a cache. A full cache drops the oldest result."""

MAX_CACHED_BYTES = 64 * 1024 * 1024
"""Maximum total size of a cache, in bytes of JSON (64 MiB)."""

_MAX_TTL_MS = 2**53 - 1
"""Maximum `ttlMs`, in milliseconds, because some peers read every number as a float, which rounds larger ones."""


@dataclass(kw_only=True)
class CacheableResult:
    """The fields that the six cacheable results share. By default, a client does not reuse a result."""

    ttl_ms: Annotated[int, Availability(since=R2026_07_28, required_since=R2026_07_28)] = 0
    cache_scope: Annotated[CacheScope, Availability(since=R2026_07_28, required_since=R2026_07_28)] = "private"

    @staticmethod
    def from_wire(wire: Object, revision: Revision) -> Object:
        """Replace a missing or invalid hint with 0 or "private", instead of refusing the whole result for it."""
        hints = read_hints(wire)
        return {**wire, "ttlMs": hints.ttl_ms, "cacheScope": hints.scope}


class CacheHints(NamedTuple):
    ttl_ms: int
    scope: CacheScope


# ---------------------------------------------------------------------------------------------------- server


def hints_for(ttl: float, scope: CacheScope) -> CacheHints:
    """Return the hints for `ttl`, in seconds, and `scope`. Raise ValueError if an argument is invalid."""
    # [2026-07-28 server/utilities/caching#time-to-live-ttl-field] ttlMs MUST be >= 0
    if not (math.isfinite(ttl) and 0 <= ttl * 1000 <= _MAX_TTL_MS):
        raise ValueError(f"cache_ttl must be a number of seconds from 0 to {_MAX_TTL_MS // 1000}, not {ttl}")
    if scope not in get_args(CacheScope):
        raise ValueError(f'cache_scope must be "public" or "private", not {scope!r}')
    return CacheHints(round(ttl * 1000), scope)


def hints_by_method(
    ttl: float | Mapping[str, float], scope: CacheScope | Mapping[str, CacheScope]
) -> dict[str, CacheHints]:
    """Return the hints of each method in `DISCOVER_AND_LISTS`.

    Args:
        ttl: Seconds for all methods, or a mapping from methods to seconds. A missing method has 0 seconds.
        scope: Scope for all methods, or a mapping from methods to scopes. A missing method has "public".
    """
    # [2026-07-28 server/utilities/caching#interaction-with-pagination] all pages MUST have one cacheScope, the method's
    ttls = ttl if isinstance(ttl, Mapping) else dict.fromkeys(DISCOVER_AND_LISTS, ttl)
    scopes = scope if isinstance(scope, Mapping) else dict.fromkeys(DISCOVER_AND_LISTS, scope)
    for method in (*ttls, *scopes):
        if method not in DISCOVER_AND_LISTS:
            allowed = ", ".join(DISCOVER_AND_LISTS)
            raise ValueError(f"cache_ttl and cache_scope accept only {allowed}, not {method!r}")
    return {method: hints_for(ttls.get(method, 0.0), scopes.get(method, "public")) for method in DISCOVER_AND_LISTS}


# ---------------------------------------------------------------------------------------------------- client


def read_hints(result: Object) -> CacheHints:
    """Return the hints of a result. Without a valid `ttlMs`, return 0; without a valid `cacheScope`, "private"."""
    ttl, scope = result.get("ttlMs"), result.get("cacheScope")
    if type(ttl) is float and ttl.is_integer():
        ttl = int(ttl)  # JSON does not distinguish 1.0 from 1
    # [2026-07-28 server/utilities/caching#time-to-live-ttl-field] SHOULD treat a missing or negative ttlMs as 0
    ttl_ms = ttl if type(ttl) is int and ttl > 0 else 0
    return CacheHints(ttl_ms, "public" if scope == "public" else "private")


class _Key(NamedTuple):
    server: Hashable
    method: str
    params: str
    credential: Hashable | None  # None for a public result


class _CachedResult(NamedTuple):
    result: bytes  # JSON text and not a dict, which its callers would share and could change
    uri: JSON  # the URI in the params of `resources/read`; None for other methods
    received: float  # time of the response in seconds, by the cache's clock
    ttl_ms: int


class ResponseCache:
    """A cache of results for one client, or for several clients on one event loop.

    In all methods, `server` identifies the server, for example by its URL, and `credential` the user: users who may see
    different results must have different credentials.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, max_results: int | None = None) -> None:
        self.invalidations = 0
        """Number of calls of `forget` so far."""
        self._clock = clock  # in seconds
        self._max_results = max_results
        self._results: dict[_Key, _CachedResult] = {}  # the oldest result first
        self._size = 0  # in bytes

    def get(self, server: Hashable, credential: Hashable, method: str, params: Object) -> Object | None:
        """Return the cached result of a request, or None if the cache has no fresh one."""
        for key in _keys(server, credential, method, params):
            cached = self._results.get(key)
            if cached is None:
                continue
            # [2026-07-28 server/utilities/caching#freshness-calculation] fresh as long as now < t_received + ttlMs
            if (self._clock() - cached.received) * 1000 < cached.ttl_ms:
                return cast(Object, json.loads(cached.result))
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
        """Drop the cached result of a request, and store the new one if its hints allow that.

        `invalidations` is the value of `self.invalidations` when the client sent the request. If the number has grown
        since then, the result is not stored, because it may be older than the latest change.
        """
        keys = _keys(server, credential, method, params)
        for key in keys:
            self._drop(key)
        hints = read_hints(result)
        is_outdated = invalidations is not None and invalidations != self.invalidations
        # [2026-07-28 server/utilities/caching#cacheable-results] an `input_required` result is not cacheable
        is_complete = result.get("resultType", "complete") == "complete"
        if not keys or is_outdated or not is_complete or hints.ttl_ms == 0:
            return
        private_key, public_key = keys
        key = public_key if hints.scope == "public" else private_key
        cached = _CachedResult(json.dumps(result).encode(), params.get("uri"), self._clock(), hints.ttl_ms)
        self._results[key] = cached
        self._size += _size(key, cached)
        limit = MAX_CACHED_RESULTS if self._max_results is None else self._max_results
        while len(self._results) > limit or self._size > MAX_CACHED_BYTES:
            self._drop(next(iter(self._results)))

    def invalidate(self, server: Hashable, method: str, uri: str | None = None) -> None:
        """Drop the results that a notification makes stale. `uri` is the URI in the notification's params."""
        # [2026-07-28 server/utilities/caching#interaction-with-notifications] the results are immediately stale
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
        """Drop the results of a method. Return True if the cache had any.

        With `uri`, drop only the results for this URI, its parents, and the URIs below it.
        """
        self.invalidations += 1
        before = len(self._results)
        for key, cached in tuple(self._results.items()):
            if (key.server, key.method) == (server, method) and (uri is None or _is_same_or_nested(uri, cached.uri)):
                self._drop(key)
        return len(self._results) < before

    def _drop(self, key: _Key) -> None:
        cached = self._results.pop(key, None)
        if cached is not None:
            self._size -= _size(key, cached)


def _keys(server: Hashable, credential: Hashable, method: str, params: Object) -> tuple[_Key, _Key] | tuple[()]:
    """Return the keys under which a private and a public result are stored; () if the result must not be cached."""
    # [2026-07-28 server/utilities/caching#cache-key] the result of a retry with user input MUST NOT be cached
    if method not in CACHEABLE or "inputResponses" in params or "requestState" in params:
        return ()
    # [2026-07-28 server/utilities/caching#cache-key] a cache MUST NOT reuse a result for a request with other params
    text = json.dumps({name: value for name, value in params.items() if name != "_meta"}, sort_keys=True)
    # [2026-07-28 server/utilities/caching#cache-scope-field] a cache MUST NOT share private results across credentials
    return _Key(server, method, text, credential), _Key(server, method, text, None)


def _size(key: _Key, cached: _CachedResult) -> int:
    return len(key.params) + len(cached.result)


def _is_same_or_nested(updated: str, read: JSON) -> bool:
    from ..lib.uri import canonical_uri, includes_uri  # lazy: a server uses only the hints of this module

    if not isinstance(read, str):
        return False
    updated, read = canonical_uri(updated) or updated, canonical_uri(read) or read  # as sent, if it is not a valid URI
    return includes_uri(updated, read) or includes_uri(read, updated)
