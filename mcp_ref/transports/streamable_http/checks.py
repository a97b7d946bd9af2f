"""What the head of an HTTP request must satisfy before anyone looks at its body.

The checks are rungs; the first that fails answers. A refusal is an HTTP status and a text that says what was wrong and
what to do, written as a JSON-RPC error without an id, so that programs can read it too.

    1 no header that decides something stands there twice   400
    2 Host is one of ours                                   403   (DNS rebinding)
    3 Origin, if there is one, may use us                   403   (foreign web pages)
    4 the method is one of ours                             405
    5 whoever sends it is known, if we ask                  401   (the `authenticate` hook)
    6 a body is JSON                                        415
    7 the client takes an answer that we can give           406
    8 the revision it names is one of ours                  400

Spec:  basic/transports#streamable-http (2025-03-26 to 2025-11-25), its security warning and header rules
Above: streamable_http.py, http_sse.py. Below: http/message.py
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from ...jsonrpc.messages import INVALID_REQUEST, JSON, Error, ErrorResponse, encode
from ...lib.http.message import HeaderList, Headers, HttpRequest
from ...revisions import LEGACY, Revision, find_revision

SESSION_HEADER: Final = "Mcp-Session-Id"
VERSION_HEADER: Final = "MCP-Protocol-Version"

JSON_TYPE: Final = "application/json"
SSE_TYPE: Final = "text/event-stream"

JSON_HEADERS: Final = [("Content-Type", "application/json")]
SSE_HEADERS: Final = [
    ("Content-Type", "text/event-stream"),
    ("Cache-Control", "no-cache, no-transform"),
    ("X-Accel-Buffering", "no"),  # nginx and the like must not hold events back
]

STREAMED: Final = frozenset({"subscriptions/listen"})
"""The methods whose answer is a stream that stays open, whatever a server would rather give."""

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
"""Host names by which only programs on this machine reach it."""

CRITICAL: Final = (
    "host",
    "origin",
    "authorization",
    "content-type",
    "mcp-session-id",
    "mcp-protocol-version",
    "last-event-id",
)
"""Headers on which something depends: two of a kind could be understood in two ways."""

_PARAMETER: Final = re.compile(r"mcp-param-[!#$%&'*+\-.^_`|~0-9a-z]+", re.IGNORECASE)

PREFLIGHT_SECONDS: Final = 600
"""How long a browser may remember what a page may send."""


Authenticate = Callable[[HttpRequest], Awaitable[str | None]]
"""Who sends a request; None for nobody we know, who gets 401. Sessions belong to who began them."""


class HttpRefusal(Exception):
    """A request may not come in: an HTTP status, and why."""

    def __init__(self, status: int, why: str, headers: HeaderList | None = None, code: int = INVALID_REQUEST) -> None:
        super().__init__(why)
        self.status, self.headers, self.code = status, headers or [], code

    def body(self) -> bytes:
        """The reason as a JSON-RPC error."""
        # [2025-11-25 basic/transports#sending-messages-to-the-server] the body MAY be an error response without an id
        return encode(ErrorResponse(None, Error(self.code, str(self)), omit_id=True))

    def again(self) -> HttpRefusal:
        """The same, to be raised: an exception holds on to the frames it went through; one that is kept must not."""
        return HttpRefusal(self.status, str(self), self.headers, self.code)


@dataclass(slots=True)
class CheckedRequest:
    """What the head of an admitted request says."""

    cors: HeaderList
    """What the answer must say so that a page of the request's origin may read it."""
    session: str | None
    revision: str | None
    """The revision that it names."""
    last_event_id: str | None
    takes_json: bool
    takes_sse: bool
    fault: HttpRefusal | None
    """What is wrong by rung 6 to 8: to be said once the client is known."""
    repeats: tuple[JSON, str, str | None] | None = None
    """What its headers were found to repeat of a request's body, in the stateless era; see `headers.said_twice`."""


class RequestChecks:
    """Who may talk to an endpoint.

    allowed_hosts: names that `Host` may have, with a port for that port only; None for those of loopback.
    allowed_origins: origins, such as "https://app.example", whose web pages may use it; None for those of loopback.
    methods: what the endpoint serves. handshakes: the revisions that a session can be in. modern: whether the stateless
    era is served, too.
    "*" in either set allows any: for a server behind a proxy that checks.
    """

    def __init__(
        self,
        allowed_hosts: Collection[str] | None = None,
        allowed_origins: Collection[str] | None = None,
        methods: tuple[str, ...] = ("GET", "POST", "DELETE"),
        handshakes: Sequence[Revision] = LEGACY,
        modern: bool = False,
    ) -> None:
        self._hosts = None if allowed_hosts is None else frozenset(host.lower() for host in allowed_hosts)
        self._origins = None if allowed_origins is None else frozenset(origin.lower() for origin in allowed_origins)
        self._methods = methods
        self._handshakes = handshakes
        self._modern = modern

    def check(self, request: HttpRequest) -> CheckedRequest:
        """Rungs 1 to 4, and the fault by 6 to 8, if there is one. Raises Refused."""
        headers = request.headers
        for name in CRITICAL:
            if len(headers.get_all(name)) > 1:
                raise HttpRefusal(400, f"the header {name} stands there twice, and only one can count")
        host = headers.get("host")
        if host is None or not self._host_is_ours(host.lower()):
            # A web page that the user visits could reach this machine under the page's own name (DNS rebinding).
            raise HttpRefusal(403, f"Host {_shown(host)} is not served here; the setting allowed_hosts names what is")
        origin = headers.get("origin")
        # [2025-11-25 basic/transports#security-warning] MUST validate Origin; present and invalid: MUST be 403
        if origin is not None and not self._origin_is_allowed(origin.lower()):
            why = f"web pages of {_shown(origin)} may not use this server; the setting allowed_origins names which may"
            raise HttpRefusal(403, why)
        cors = _cors(origin)
        if request.method not in (*self._methods, "OPTIONS"):
            allow = [("Allow", ", ".join((*self._methods, "OPTIONS"))), *cors]
            raise HttpRefusal(
                405, f"this endpoint does not take {request.method}, only {', '.join(self._methods)}", allow
            )
        takes_json, takes_sse = accepted(headers)
        return CheckedRequest(
            cors,
            headers.get(SESSION_HEADER),
            headers.get(VERSION_HEADER),
            headers.get("last-event-id"),
            takes_json,
            takes_sse,
            self._fault(request, takes_json, takes_sse),
        )

    def preflight(self, request: HttpRequest, checked: CheckedRequest) -> HeaderList:
        """The answer to a browser that asks what a page may send."""
        if not checked.cors:
            return [("Allow", ", ".join((*self._methods, "OPTIONS")))]
        sendable = f"Accept, Authorization, Content-Type, Last-Event-ID, {SESSION_HEADER}, {VERSION_HEADER}"
        if self._modern:
            # [2026-07-28 basic/transports/streamable-http#schema-extension] the last are named by the tools' schemas
            wanted = ",".join(request.headers.get_all("access-control-request-headers")).split(",")
            named = [name.strip() for name in wanted if _PARAMETER.fullmatch(name.strip())]
            sendable = ", ".join([sendable, "Mcp-Method, Mcp-Name", *named])
        return [
            *checked.cors,
            ("Access-Control-Allow-Methods", ", ".join(self._methods)),
            ("Access-Control-Allow-Headers", sendable),
            ("Access-Control-Max-Age", str(PREFLIGHT_SECONDS)),
        ]

    def _fault(self, request: HttpRequest, takes_json: bool, takes_sse: bool) -> HttpRefusal | None:
        headers = request.headers
        if request.method == "POST":
            kind = media_type(headers)
            if kind != JSON_TYPE:
                # What a web page can send without asking first, text/plain say, never reaches a tool.
                return HttpRefusal(415, f"Content-Type must be {JSON_TYPE}, not {_shown(kind)}")
            if not (takes_json or takes_sse):
                # [2025-11-25 basic/transports#sending-messages-to-the-server] MUST list both. Who lists one gets that.
                return HttpRefusal(406, f"Accept must list {JSON_TYPE} and {SSE_TYPE}")
        elif request.method == "GET" and not takes_sse:
            # [2025-11-25 basic/transports#listening-for-messages-from-the-server] MUST list text/event-stream
            return HttpRefusal(406, f"Accept must list {SSE_TYPE}")
        name = headers.get(VERSION_HEADER)
        if self._modern and request.method == "POST":
            return None  # its body says more
        revision = find_revision(name)
        if self._modern and revision is not None and revision not in LEGACY:
            # [2026-07-28 basic/transports/streamable-http#earlier-streamable-http-revisions] GET and DELETE are earlier
            return HttpRefusal(405, f"{name} has no {request.method}; POST each request", [("Allow", "POST, OPTIONS")])
        if name is not None and revision not in LEGACY:
            return self.unsupported(name)
        return None

    def unsupported(self, name: str) -> HttpRefusal:
        """The refusal of a revision that no session here can be in."""
        # [2025-11-25 basic/transports#protocol-version-header] invalid or unsupported: MUST respond with 400
        known = ", ".join(map(str, self._handshakes))
        return HttpRefusal(400, f"{VERSION_HEADER} {_shown(name)} is not supported here; supported are {known}")

    def _host_is_ours(self, host: str) -> bool:
        name = _without_port(host)
        if self._hosts is None:
            return name in LOOPBACK
        return host in self._hosts or name in self._hosts or "*" in self._hosts

    def _origin_is_allowed(self, origin: str) -> bool:
        if self._origins is not None:
            return origin in self._origins or "*" in self._origins
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and _without_port(parts.netloc) in LOOPBACK


async def principal_of(request: HttpRequest, authenticate: Authenticate | None) -> str | None:
    """Rung 5: who sends the request; None where nobody is asked. Raises Refused."""
    if authenticate is None:
        return None
    principal = await authenticate(request)
    if principal is None:
        raise HttpRefusal(401, "this server asks who you are: send an Authorization", [("WWW-Authenticate", "Bearer")])
    return principal


def accepted(headers: Headers) -> tuple[bool, bool]:
    """Whether the client takes JSON, and whether it takes an event stream. Without `Accept` it takes anything."""
    values = headers.get_all("accept")
    kinds = set()
    for item in ",".join(values).lower().split(","):
        kind, *parameters = (part.strip() for part in item.split(";"))
        if not any(re.fullmatch(r"q=0(\.0*)?", parameter) for parameter in parameters):
            kinds.add(kind)
    anything = not values or "*/*" in kinds
    takes_json = anything or not kinds.isdisjoint((JSON_TYPE, "application/*"))
    return takes_json, anything or not kinds.isdisjoint((SSE_TYPE, "text/*"))


def media_type(headers: Headers) -> str:
    """The content type, without its parameters."""
    return (headers.get("content-type") or "").partition(";")[0].strip().lower()


def named(url: str) -> str:
    """A URL as errors and logs name it: without credentials and the query, which may hold a secret."""
    try:
        parts = urlsplit(url)
    except ValueError:  # no URL at all: it cannot be told where credentials would be
        return url if url.isprintable() and not {"@", "?"} & set(url) else "the server's URL"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _cors(origin: str | None) -> HeaderList:
    if origin is None:
        return []
    exposed = ("Access-Control-Expose-Headers", SESSION_HEADER)
    return [("Access-Control-Allow-Origin", origin), ("Vary", "Origin"), exposed]


def _without_port(host: str) -> str:
    return re.sub(r":\d*$", "", host)


def _shown(text: str | None) -> str:
    return "(none)" if text is None else repr(text[:100])
