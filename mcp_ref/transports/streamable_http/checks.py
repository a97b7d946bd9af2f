"""The checks that the head of an HTTP request must pass before the server reads its body.

The server makes the checks in this order, and responds to the first failure with an HTTP status and a JSON-RPC error
without an id. (In the modern era, server.py makes check 8 of a POST after reading the body, so this error has an id.)

    1  no header of `UNIQUE_HEADERS` is sent twice                        400
    2  `Host` is a name of this server                                    403
    3  `Origin`, if present, is allowed                                   403
    4  the endpoint supports the HTTP method                              405
    5  the option `authenticate` accepts the caller, or a token is valid  401, or 400, 403, 503
    6  POST: the content type is JSON, without compression                415
    7  POST: the client accepts JSON or events; GET: events               406
    8  the server supports the revision                                   400

Reasons:
- 1: a proxy may use the first value and the server the second, so an attacker could show them two sessions or origins.
- 2 and 3 stop DNS rebinding, by which a web page attacks a server on the visitor's own machine. The page comes from
  evil.example, whose DNS server then changes its address to 127.0.0.1, so that the browser lets the page send requests
  to the local server and read the responses. But these requests still name evil.example in `Host`, and POSTs also in
  `Origin`, so by default only the names of loopback are allowed. A local server SHOULD bind to loopback only.
- 6: a browser lets every web page send a form or plain text to every server. Before it lets a page send JSON, it asks
  the server for permission (a preflight request), which this server gives only to allowed origins.

Servers MUST validate `Origin`, and since 2025-11-25 MUST refuse an invalid one with 403. Since 2025-06-18, they MUST
refuse an unsupported `MCP-Protocol-Version` with 400 (basic/headers.py).

Spec:  basic/transports#security-warning, #protocol-version-header (2025-03-26 to 2025-11-25);
       2026-07-28 basic/transports/streamable-http
"""

from __future__ import annotations

import functools
import re
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from ...basic.access import Access, AccessRefused, current_access
from ...jsonrpc.messages import INTERNAL_ERROR, INVALID_REQUEST, Error, ErrorResponse, encode
from ...lib.http.message import Exchange, HeaderList, HttpRequest, Rest, network_of
from ...lib.turns import LARGE_MESSAGE, take_turn_to_start
from ...revisions import LEGACY, Revision, find_revision

SESSION_HEADER: Final = "Mcp-Session-Id"
VERSION_HEADER: Final = "MCP-Protocol-Version"
JSON_TYPE: Final = "application/json"
SSE_TYPE: Final = "text/event-stream"
JSON_HEADERS: Final = [("Content-Type", JSON_TYPE)]
# [2026-07-28 basic/transports/streamable-http#receiving-messages] servers SHOULD send X-Accel-Buffering, for nginx
SSE_HEADERS: Final = [("Content-Type", SSE_TYPE), ("Cache-Control", "no-cache, no-transform"),
                ("X-Accel-Buffering", "no")]  # fmt: skip

STREAMED_METHODS: Final = frozenset({"subscriptions/listen"})
"""The methods whose response is always an event stream, which stays open until one side closes it."""
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
"""The host names of loopback, to which only programs on this machine can connect."""
UNIQUE_HEADERS: Final = ("host", "origin", "authorization", "dpop", "content-type", "mcp-session-id",
                   "mcp-protocol-version", "last-event-id")  # fmt: skip
"""The headers that a request must not have twice (check 1)."""
_PARAMETER_HEADER: Final = re.compile(r"mcp-param-[!#$%&'*+\-.^_`|~0-9a-z]+", re.IGNORECASE)
MAX_QUOTED: Final = 100
"""Maximum length of a header value that an error quotes, in characters."""
Authorize = Callable[[HttpRequest], Awaitable[Access]]
"""A function that returns the rights of a request's caller, or raises AccessRefused."""


class HttpRefusal(Exception):
    """The refusal of an HTTP request: the status and the reason, which become the response."""

    def __init__(self, status: int, why: str, headers: HeaderList | None = None) -> None:
        super().__init__(why)
        self.status, self.headers = status, headers or []

    def copy(self) -> HttpRefusal:
        """Return a copy to raise, because raising a stored exception would keep its traceback alive."""
        return HttpRefusal(self.status, str(self), self.headers)


def unknown_session() -> HttpRefusal:
    # [2025-11-25 basic/transports#session-management] a request for an ended session MUST get 404
    return HttpRefusal(404, "unknown session, or it has ended: begin a new one with an initialize request")


@dataclass(slots=True)
class CheckedRequest:
    """The head of a request that has passed checks 1 to 4. Requests with the same head share this object."""

    checks: RequestChecks
    method: str
    cors: HeaderList  # headers for the response, which let a web page of the request's origin read the response
    session_id: str | None
    revision: str | None  # the value of the header `MCP-Protocol-Version`
    may_be_modern: bool  # True if that header names a modern revision or an unknown one
    session_failure: HttpRefusal | None  # the failure of check 8, raised if the request needs a session
    last_event_id: str | None
    accepts_json: bool
    accepts_sse: bool
    deferred_failure: HttpRefusal | None  # the first one of checks 6 to 8, raised after check 5 (authentication)
    compared_fields: tuple[str, str, str | None] | None = None  # `mirrored_fields` of the last body that matched


Serve = Callable[[Exchange, CheckedRequest, Access], Rest]
"""A function that serves a request that has passed all checks, or raises HttpRefusal."""


class RequestChecks:
    """The checks of one endpoint.

    Args:
        allowed_hosts: Allowed values of `Host`. A value with a port allows that port only. Default: names of loopback.
        allowed_origins: Allowed origins of web pages, such as "https://app.example". Default: origins on loopback.
        has_messages: False for an endpoint that serves a document, for which checks 6 to 8 are left out.

    "*" in `allowed_hosts` or `allowed_origins` allows every value, and is only for use behind a proxy that checks them.
    """

    def __init__(
        self, allowed_hosts: Collection[str] | None = None, allowed_origins: Collection[str] | None = None,
        methods: tuple[str, ...] = ("GET", "POST", "DELETE"), revisions: Sequence[Revision] = LEGACY,
        has_messages: bool = True,
    ) -> None:  # fmt: skip
        self._hosts = LOOPBACK if allowed_hosts is None else frozenset(host.lower() for host in allowed_hosts)
        self._origins = None if allowed_origins is None else frozenset(origin.lower() for origin in allowed_origins)
        self._methods, self.revisions, self._has_messages = methods, revisions, has_messages
        self.session_revisions = frozenset(revisions).intersection(LEGACY)  # a set, because comparing revisions is slow
        self._serves_stateless = any(revision not in LEGACY for revision in revisions)
        self._allow = ("Allow", ", ".join((*methods, "OPTIONS")))

    def guard(self, exchange: Exchange, authorize: Authorize | None, serve: Serve) -> Rest:
        """Make all checks, then call `serve`. Send any refusal. Return a coroutine for the rest of the work, if any."""
        request = exchange.request
        cors: HeaderList = []
        try:
            checked = self.check(request)
            cors = checked.cors
            if request.method == "OPTIONS":
                exchange.respond(204, self.preflight(request, checked), b"")
                return None
            # If there is nothing to wait for, not even the body, serve at once, without the coroutine `_serve_later`.
            is_ready = authorize is None and checked.deferred_failure is None and exchange.take_body()
            if is_ready and len(request.body) <= LARGE_MESSAGE:
                rest = _serve_with(Access(), exchange, checked, serve)
            else:
                rest = _serve_later(exchange, checked, authorize, serve)
        except (HttpRefusal, AccessRefused) as refused:
            refuse(exchange, refused, cors)
            return None
        return _finish(rest, exchange, cors) if rest is not None else None

    def check(self, request: HttpRequest) -> CheckedRequest:
        """Make checks 1 to 4, and store the first failure among checks 6 to 8. Raises HttpRefusal."""
        headers = request.headers
        # The HTTP server reuses the `Headers` object if the same head comes again, so the outcome is kept in it.
        earlier = headers.attachment
        if type(earlier) is CheckedRequest and earlier.checks is self and earlier.method == request.method:
            return earlier
        for name in headers.duplicates():
            if name in UNIQUE_HEADERS:
                raise HttpRefusal(400, f"duplicate header {name}: send it once")
        host = headers.get("host")  # in HTTP/1.0, it can be missing, which only "*" allows
        lowered = (host or "").lower()
        if self._hosts.isdisjoint((lowered, _without_port(lowered), "*")):
            raise HttpRefusal(403, f"Host {_quoted(host)} is not allowed; allow it with allowed_hosts= or --allow-host")
        origin = headers.get("origin")
        cors: HeaderList = []
        if origin is not None:
            # [2025-11-25 basic/transports#security-warning] servers MUST validate Origin; a bad one MUST get 403
            if not self._is_allowed_origin(origin.lower()):
                why = f"Origin {_quoted(origin)} is not allowed; allow it with allowed_origins= or --allow-origin"
                raise HttpRefusal(403, why)
            exposed = ("Access-Control-Expose-Headers", f"{SESSION_HEADER}, WWW-Authenticate, DPoP-Nonce")
            cors = [("Access-Control-Allow-Origin", origin), ("Vary", "Origin"), exposed]
        if request.method not in (*self._methods, "OPTIONS"):
            why = f"this endpoint does not support {request.method}, only {', '.join(self._methods)}"
            raise HttpRefusal(405, why, [self._allow, *cors])
        accepts_json, accepts_sse = accepted_types(",".join(headers.get_all("accept") or ("*/*",)))
        deferred = self._deferred_failure(request, accepts_json, accepts_sse) if self._has_messages else None
        version = headers.get(VERSION_HEADER)
        revision = find_revision(version)
        session_failure, may_be_modern = None, version is not None and revision not in LEGACY
        if version is not None and revision not in self.session_revisions:
            session_failure = self.unsupported_revision(version)
        session_id, last_id = headers.get(SESSION_HEADER), headers.get("last-event-id")
        headers.attachment = checked = CheckedRequest(
            self, request.method, cors, session_id, version, may_be_modern, session_failure, last_id,
            accepts_json, accepts_sse, deferred)  # fmt: skip
        return checked

    def preflight(self, request: HttpRequest, checked: CheckedRequest) -> HeaderList:
        """Return the headers that tell a browser which methods and headers a page is allowed to send."""
        if not checked.cors:
            return [self._allow]
        sendable = f"Accept, Authorization, Content-Type, DPoP, Last-Event-ID, {SESSION_HEADER}, {VERSION_HEADER}"
        if self._serves_stateless:
            # [2026-07-28 basic/transports/streamable-http#schema-extension] tools define Mcp-Param-* headers
            wanted = ",".join(request.headers.get_all("access-control-request-headers")).split(",")
            named = [name.strip() for name in wanted if _PARAMETER_HEADER.fullmatch(name.strip())]
            sendable = ", ".join([sendable, "Mcp-Method, Mcp-Name", *named])
        methods = ("Access-Control-Allow-Methods", ", ".join(self._methods))
        headers = ("Access-Control-Allow-Headers", sendable)
        max_age = ("Access-Control-Max-Age", "600")  # time for which the browser may reuse this response, in seconds
        return [*checked.cors, methods, headers, max_age]

    def _deferred_failure(self, request: HttpRequest, accepts_json: bool, accepts_sse: bool) -> HttpRefusal | None:
        headers = request.headers
        if request.method == "POST":
            if headers.media_type != JSON_TYPE:
                return HttpRefusal(415, f"Content-Type must be {JSON_TYPE}, not {_quoted(headers.media_type)}")
            if (headers.get("content-encoding") or "identity").lower() != "identity":
                return HttpRefusal(415, "send the body without Content-Encoding", [("Accept-Encoding", "identity")])
            if not (accepts_json or accepts_sse):
                # [2025-11-25 basic/transports#sending-messages-to-the-server] the client MUST list both
                # DEVIATION: a client that lists only one content type is served, with that content type.
                return HttpRefusal(406, f"Accept must list {JSON_TYPE} and {SSE_TYPE}")
        elif request.method == "GET" and not accepts_sse:
            # [2025-11-25 basic/transports#listening-for-messages-from-the-server] the client MUST list events
            return HttpRefusal(406, f"Accept must list {SSE_TYPE}")
        if self._serves_stateless and request.method == "POST":
            return None  # server.py makes check 8, because the revision is also in the body
        name = headers.get(VERSION_HEADER)
        revision = find_revision(name)
        if name is None or revision in LEGACY:
            return None  # for a legacy revision that this server does not support, see `session_failure`
        if self._serves_stateless and revision is not None:
            # [2026-07-28 basic/transports/streamable-http#earlier-streamable-http-revisions] only POST exists
            return HttpRefusal(405, f"revision {name} has no {request.method}; use POST", [("Allow", "POST, OPTIONS")])
        return self.unsupported_revision(name)

    def unsupported_revision(self, name: str) -> HttpRefusal:
        # [2025-11-25 basic/transports#protocol-version-header] the server MUST respond to an unsupported one with 400
        known = ", ".join(str(revision) for revision in self.revisions if revision in self.session_revisions)
        return HttpRefusal(400, f"{VERSION_HEADER} {_quoted(name)} is not supported here; supported: {known}")

    def _is_allowed_origin(self, origin: str) -> bool:
        if self._origins is not None:
            return not self._origins.isdisjoint((origin, "*"))
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and _without_port(parts.netloc) in LOOPBACK


async def _serve_later(exchange: Exchange, checked: CheckedRequest, authorize: Authorize | None, serve: Serve) -> None:
    access = await authorize(exchange.request) if authorize is not None else Access()
    if checked.deferred_failure is not None:
        raise checked.deferred_failure.copy()
    await exchange.read_body()
    if len(exchange.request.body) > LARGE_MESSAGE:
        await take_turn_to_start()
    if (rest := _serve_with(access, exchange, checked, serve)) is not None:
        await rest


def _serve_with(access: Access, exchange: Exchange, checked: CheckedRequest, serve: Serve) -> Rest:
    request = exchange.request
    access.headers, access.address = request.headers, request.client
    access.caller = access.id or (network_of(request.client[0]) if request.client is not None else "")
    current_access.set(access)  # all asyncio tasks that this request starts inherit it
    return serve(exchange, checked, access)


async def _finish(rest: Coroutine[object, object, None], exchange: Exchange, cors: HeaderList) -> None:
    try:
        await rest
    except (HttpRefusal, AccessRefused) as refused:
        refuse(exchange, refused, cors)


def refuse(exchange: Exchange, refused: HttpRefusal | AccessRefused, cors: HeaderList) -> None:
    # [2025-11-25 basic/transports#sending-messages-to-the-server] the body MAY be an error response without an id
    code = INVALID_REQUEST if refused.status < 500 else INTERNAL_ERROR  # a client may try again after an internal error
    body = encode(ErrorResponse(None, Error(code, str(refused)), omit_id=True))
    exchange.respond(refused.status, [*JSON_HEADERS, *refused.headers, *cors], body)


@functools.lru_cache(maxsize=64)  # clients send the same few values
def accepted_types(accept: str) -> tuple[bool, bool]:
    """Return two booleans: whether a client with this `Accept` header accepts JSON, and event streams."""
    kinds = set()
    for item in accept.lower().split(","):
        kind, *parameters = (part.strip() for part in item.split(";"))
        if not any(re.fullmatch(r"q=0(\.0*)?", parameter) for parameter in parameters):
            kinds.add(kind)
    if "*/*" in kinds:
        return True, True
    return not kinds.isdisjoint((JSON_TYPE, "application/*")), not kinds.isdisjoint((SSE_TYPE, "text/*"))


def _without_port(host: str) -> str:
    return re.sub(r":\d*$", "", host)


def _quoted(text: str | None) -> str:
    return "(none)" if text is None else repr(text[:MAX_QUOTED])
