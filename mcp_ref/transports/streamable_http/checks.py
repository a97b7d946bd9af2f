"""The checks that the head of an HTTP request must pass before the server looks at its body.

The checks run in this order, and the first failure is sent. It is an HTTP status, and a JSON-RPC error without an id,
whose message names the fault and the remedy.

    1  no header that a decision depends on is duplicate     400
    2  `Host` is a name of this server                       403
    3  `Origin`, if present, may use this server             403
    4  the endpoint supports the HTTP method                 405
    5  the caller is authenticated, if the server asks       401   (the `authenticate` function)
    6  the body is JSON                                      415
    7  the client accepts a content type that we can send    406
    8  the server supports the revision                      400

Reasons:
- 1: a proxy may act on the first of two headers, and the server on the second. An attacker could then show the proxy
  one session or origin, and the server another.
- 2 and 3 stop DNS rebinding, by which a web page attacks a server on the visitor's own machine. The page comes from
  evil.example. Then the attacker's DNS server changes the address of that name to 127.0.0.1. The browser still regards
  requests to that name as the page's own, and lets the page read the responses. But each request has
  `Host: evil.example`, and a POST `Origin` too. So only the names of loopback are allowed by default, as a local server
  SHOULD bind to loopback only.
- 6: a browser lets every web page send a form or text/plain. It asks the server before a page may send JSON.

    Revision    Origin                                   MCP-Protocol-Version
    2025-03-26  MUST be validated                        does not exist
    2025-06-18  MUST be validated                        MUST be sent after the handshake; unsupported: MUST be 400
    2025-11-25  present and invalid: MUST be 403         as before
    2026-07-28  present and invalid: MUST be 403         MUST be on every POST, and equal to the body's (stateless.py)

Spec:  basic/transports#security-warning, #protocol-version-header (2025-03-26 to 2025-11-25);
       2026-07-28 basic/transports/streamable-http
Above: server.py, stateless.py, ../http_sse/server.py
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from ...jsonrpc.messages import INVALID_REQUEST, JSON, Error, ErrorResponse, encode
from ...lib.http.message import Exchange, HeaderList, Headers, HttpRequest
from ...revisions import LEGACY, Revision, find_revision

SESSION_HEADER: Final = "Mcp-Session-Id"
VERSION_HEADER: Final = "MCP-Protocol-Version"
JSON_TYPE: Final = "application/json"
SSE_TYPE: Final = "text/event-stream"
JSON_HEADERS: Final = [("Content-Type", JSON_TYPE)]
SSE_HEADERS: Final = [
    ("Content-Type", SSE_TYPE),
    ("Cache-Control", "no-cache, no-transform"),
    # [2026-07-28 basic/transports/streamable-http#receiving-messages] SHOULD: nginx must not hold events back
    ("X-Accel-Buffering", "no"),
]

STREAMED_METHODS: Final = frozenset({"subscriptions/listen"})
"""The methods whose response is always an event stream. It stays open until one side closes it."""
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
"""The host names of this machine that only its own programs can connect to."""
UNIQUE_HEADERS: Final = ("host", "origin", "authorization", "content-type", "mcp-session-id", "mcp-protocol-version",
                   "last-event-id")  # fmt: skip
"""The headers that a decision of the server depends on. Each may be sent only once."""
_PARAMETER_HEADER: Final = re.compile(r"mcp-param-[!#$%&'*+\-.^_`|~0-9a-z]+", re.IGNORECASE)

PREFLIGHT_SECONDS: Final = 600
"""Time for which a browser may remember the response to a preflight request, in seconds."""
MAX_QUOTED: Final = 100
"""Maximum length of a header value that a refusal quotes, in characters."""
Authenticate = Callable[[HttpRequest], Awaitable[str | None]]
"""A function that returns the principal of a request, or None to refuse it with 401."""


class HttpRefusal(Exception):
    """A failed check of an HTTP request: the status and the reason, which become the response."""

    def __init__(self, status: int, why: str, headers: HeaderList | None = None, code: int = INVALID_REQUEST) -> None:
        super().__init__(why)
        self.status, self.headers, self.code = status, headers or [], code

    def body(self) -> bytes:
        """Return the reason as a JSON-RPC error."""
        # [2025-11-25 basic/transports#sending-messages-to-the-server] the body MAY be an error response without an id
        return encode(ErrorResponse(None, Error(self.code, str(self)), omit_id=True))

    def copy(self) -> HttpRefusal:
        """Return a copy to raise. Raising a stored exception would keep its traceback alive."""
        return HttpRefusal(self.status, str(self), self.headers, self.code)


@dataclass(slots=True)
class CheckedRequest:
    """The head of a request that passed checks 1 to 4."""

    method: str
    cors: HeaderList
    """The CORS headers of the response. They let a web page of the request's origin read it."""
    session_id: str | None
    revision: str | None
    """The revision that the request names."""
    last_event_id: str | None
    accepts_json: bool
    accepts_sse: bool
    deferred_failure: HttpRefusal | None
    """The first failed check of 6 to 8. Raised after authentication."""
    compared_fields: tuple[JSON, str, str | None] | None = None
    """The fields of a stateless body that the headers mirror, once compared (`headers.mirrored_fields`)."""


class RequestChecks:
    """The checks of one endpoint.

    Args:
        allowed_hosts: Values that `Host` may have, with a port for that port only. Default: the names of loopback.
        allowed_origins: Origins whose web pages may use the endpoint, such as "https://app.example". Default: loopback.
        methods: The HTTP methods of the endpoint.
        session_revisions: The revisions that a session may speak.
        modern: True if stateless requests are served too.

    "*" in either set allows every value: for a server behind a proxy that checks.
    """

    def __init__(
        self,
        allowed_hosts: Collection[str] | None = None,
        allowed_origins: Collection[str] | None = None,
        methods: tuple[str, ...] = ("GET", "POST", "DELETE"),
        session_revisions: Sequence[Revision] = LEGACY,
        modern: bool = False,
    ) -> None:
        self._hosts = None if allowed_hosts is None else frozenset(host.lower() for host in allowed_hosts)
        self._origins = None if allowed_origins is None else frozenset(origin.lower() for origin in allowed_origins)
        self._methods, self._session_revisions, self._modern = methods, session_revisions, modern
        self._allow = ("Allow", ", ".join((*methods, "OPTIONS")))
        # The outcome depends only on the method and the headers, which never change. A keep-alive connection whose
        # head repeats gives the same Headers object, so that the repeated request skips the checks (9 of 135 us).
        self._known: WeakKeyDictionary[Headers, CheckedRequest] = WeakKeyDictionary()

    async def guard(
        self,
        exchange: Exchange,
        authenticate: Authenticate | None,
        serve: Callable[[Exchange, CheckedRequest, str | None], Awaitable[None]],
    ) -> None:
        """Make all checks, then call `serve(exchange, checked, principal)`. Respond with the failure of a check."""
        request, checked = exchange.request, None
        try:
            checked = self.check(request)
            if request.method == "OPTIONS":
                return await exchange.respond(204, self.preflight(request, checked), b"")
            principal = await authenticate(request) if authenticate is not None else None
            if authenticate is not None and principal is None:
                headers = [("WWW-Authenticate", "Bearer")]
                raise HttpRefusal(401, "authentication required: send an Authorization header", headers)
            if checked.deferred_failure is not None:
                raise checked.deferred_failure.copy()
            await serve(exchange, checked, principal)
        except HttpRefusal as refused:
            cors = checked.cors if checked is not None else []
            await exchange.respond(refused.status, [*JSON_HEADERS, *refused.headers, *cors], refused.body())

    def check(self, request: HttpRequest) -> CheckedRequest:
        """Make checks 1 to 4, and note the first failure of 6 to 8. Raises HttpRefusal."""
        headers = request.headers
        if (known := self._known.get(headers)) is not None and known.method == request.method:
            return known
        for name in UNIQUE_HEADERS:
            if len(headers.get_all(name)) > 1:
                raise HttpRefusal(400, f"duplicate header {name}: send it once")
        host = headers.get("host")
        if host is None or not self._is_our_host(host.lower()):
            raise HttpRefusal(403, f"Host {_quoted(host)} is not allowed here; the setting allowed_hosts can allow it")
        origin = headers.get("origin")
        # [2025-11-25 basic/transports#security-warning] MUST validate Origin; present and invalid: MUST be 403
        if origin is not None and not self._is_allowed_origin(origin.lower()):
            why = f"web pages of {_quoted(origin)} may not use this server; the setting allowed_origins can allow them"
            raise HttpRefusal(403, why)
        cors = _cors(origin)
        if request.method not in (*self._methods, "OPTIONS"):
            why = f"this endpoint does not support {request.method}, only {', '.join(self._methods)}"
            raise HttpRefusal(405, why, [self._allow, *cors])
        accepts = accepted_types(headers)
        failure = self._deferred_failure(request, *accepts)
        session, revision, last = headers.get(SESSION_HEADER), headers.get(VERSION_HEADER), headers.get("last-event-id")
        checked = self._known[headers] = CheckedRequest(
            request.method, cors, session, revision, last, *accepts, failure
        )
        return checked

    def preflight(self, request: HttpRequest, checked: CheckedRequest) -> HeaderList:
        """Return the headers that tell a browser what a page may send."""
        if not checked.cors:
            return [self._allow]
        sendable = f"Accept, Authorization, Content-Type, Last-Event-ID, {SESSION_HEADER}, {VERSION_HEADER}"
        if self._modern:
            # [2026-07-28 basic/transports/streamable-http#schema-extension] tools' schemas add Mcp-Param-* headers
            wanted = ",".join(request.headers.get_all("access-control-request-headers")).split(",")
            named = [name.strip() for name in wanted if _PARAMETER_HEADER.fullmatch(name.strip())]
            sendable = ", ".join([sendable, "Mcp-Method, Mcp-Name", *named])
        return [
            *checked.cors,
            ("Access-Control-Allow-Methods", ", ".join(self._methods)),
            ("Access-Control-Allow-Headers", sendable),
            ("Access-Control-Max-Age", str(PREFLIGHT_SECONDS)),
        ]

    def _deferred_failure(self, request: HttpRequest, accepts_json: bool, accepts_sse: bool) -> HttpRefusal | None:
        """Return the first failure of checks 6 to 8."""
        headers = request.headers
        if request.method == "POST":
            if (kind := media_type(headers)) != JSON_TYPE:
                return HttpRefusal(415, f"Content-Type must be {JSON_TYPE}, not {_quoted(kind)}")
            if not (accepts_json or accepts_sse):
                # [2025-11-25 basic/transports#sending-messages-to-the-server] the client MUST list both
                # DEVIATION: a client that lists one of them is served, with that content type.
                return HttpRefusal(406, f"Accept must list {JSON_TYPE} and {SSE_TYPE}")
        elif request.method == "GET" and not accepts_sse:
            # [2025-11-25 basic/transports#listening-for-messages-from-the-server] MUST list text/event-stream
            return HttpRefusal(406, f"Accept must list {SSE_TYPE}")
        name = headers.get(VERSION_HEADER)
        if self._modern and request.method == "POST":
            return None  # whether the revision is supported depends on the body too
        revision = find_revision(name)
        if self._modern and revision is not None and revision not in LEGACY:
            # [2026-07-28 basic/transports/streamable-http#earlier-streamable-http-revisions] only POST is left
            return HttpRefusal(405, f"{name} has no {request.method}; POST each request", [("Allow", "POST, OPTIONS")])
        if name is not None and revision not in LEGACY:
            return self.unsupported_revision(name)
        return None

    def unsupported_revision(self, name: str) -> HttpRefusal:
        """Return the refusal of a revision that no session of this server can speak."""
        # [2025-11-25 basic/transports#protocol-version-header] invalid or unsupported: MUST respond with 400
        known = ", ".join(map(str, self._session_revisions))
        return HttpRefusal(400, f"{VERSION_HEADER} {_quoted(name)} is not supported here; supported: {known}")

    def _is_our_host(self, host: str) -> bool:
        name = _without_port(host)
        return name in LOOPBACK if self._hosts is None else not self._hosts.isdisjoint((host, name, "*"))

    def _is_allowed_origin(self, origin: str) -> bool:
        if self._origins is not None:
            return not self._origins.isdisjoint((origin, "*"))
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and _without_port(parts.netloc) in LOOPBACK


def accepted_types(headers: Headers) -> tuple[bool, bool]:
    """Return (True if the client accepts JSON, True if it accepts event streams). Without `Accept` it accepts both."""
    values = headers.get_all("accept")
    kinds = set()
    for item in ",".join(values).lower().split(","):
        kind, *parameters = (part.strip() for part in item.split(";"))
        if not any(re.fullmatch(r"q=0(\.0*)?", parameter) for parameter in parameters):
            kinds.add(kind)
    if not values or "*/*" in kinds:
        return True, True
    return not kinds.isdisjoint((JSON_TYPE, "application/*")), not kinds.isdisjoint((SSE_TYPE, "text/*"))


def media_type(headers: Headers) -> str:
    """Return the content type without its parameters, or "" without the header."""
    return (headers.get("content-type") or "").partition(";")[0].strip().lower()


def public_url(url: str) -> str:
    """Return a URL for errors and logs: without credentials and query, which may hold a secret."""
    try:
        parts = urlsplit(url)
    except ValueError:  # an invalid URL, whose credentials cannot be found
        return url if url.isprintable() and not {"@", "?"} & set(url) else "the server's URL"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _cors(origin: str | None) -> HeaderList:
    exposed = ("Access-Control-Expose-Headers", SESSION_HEADER)
    return [("Access-Control-Allow-Origin", origin), ("Vary", "Origin"), exposed] if origin is not None else []


def _without_port(host: str) -> str:
    return re.sub(r":\d*$", "", host)


def _quoted(text: str | None) -> str:
    return "(none)" if text is None else repr(text[:MAX_QUOTED])
