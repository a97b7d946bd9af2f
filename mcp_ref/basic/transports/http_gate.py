"""What an HTTP request must satisfy before anyone looks at its body. Pure functions: a request in, a refusal or nothing.

The checks are rungs; the first that fails answers. A refusal is an HTTP status and a text that says what was wrong and
what to do, as a JSON-RPC error without an id where the client can read one.

Spec:  basic/transports#streamable-http, its security warning and header rules (2024-11-05 to 2025-11-25)
Above: streamable_http.py, http_sse.py. Below: http/message.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from ...http.message import Headers, Request
from ...jsonrpc.messages import INVALID_REQUEST, Error, ErrorResponse, encode
from ...revisions import LEGACY, Revision, find_revision

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
"""Host names that only a program on this machine can mean."""

SESSION_HEADER = "Mcp-Session-Id"
VERSION_HEADER = "MCP-Protocol-Version"

_CRITICAL = ("host", "origin", "content-type", "mcp-session-id", "mcp-protocol-version", "last-event-id", "authorization")


class Refused(Exception):
    """A request may not come in."""

    def __init__(self, status: int, why: str, headers: list[tuple[str, str]] | None = None) -> None:
        super().__init__(why)
        self.status, self.why, self.headers = status, why, headers or []

    def body(self) -> bytes:
        """The reason as a JSON-RPC error."""
        # [2025-11-25 basic/transports#sending-messages-to-the-server] the body MAY be an error response without an id
        return encode(ErrorResponse(None, Error(INVALID_REQUEST, self.why), omit_id=True))


@dataclass
class Gate:
    """Who may talk to an endpoint.

    allowed_hosts: names that the `Host` header may have; with a port, that port only. None for the names of loopback.
    allowed_origins: origins, such as "https://app.example", whose web pages may; None for those of loopback.
    """

    allowed_hosts: frozenset[str] | None = None
    allowed_origins: frozenset[str] | None = None
    _seen: dict[tuple[str | None, str | None], bool] = field(default_factory=dict, repr=False)

    def check(self, headers: Headers) -> None:
        """Refuse foreign hosts and origins: 403.

        Without this, a web page that the user happens to visit could talk to a server on their machine (DNS
        rebinding): it reaches the loopback address under the attacker's own name.
        """
        for name in _CRITICAL:
            if len(headers.get_all(name)) > 1:
                raise Refused(400, f"the header {name} stands there twice; it must be unambiguous")
        host = headers.get("host")
        if host is None or not self._host_is_allowed(host):
            raise Refused(403, f"the Host {_shown(host)} is not served here; the setting allowed_hosts names those that are")
        origin = headers.get("origin")
        # [2025-11-25 basic/transports#security-warning] MUST validate Origin; present and invalid is 403
        if origin is not None and not self.origin_is_allowed(origin):
            raise Refused(403, f"pages of {_shown(origin)} may not use this server; allowed_origins names those that may")

    def _host_is_allowed(self, host: str) -> bool:
        name = _without_port(host.lower())
        if self.allowed_hosts is None:
            return name in LOOPBACK
        return host.lower() in self.allowed_hosts or name in self.allowed_hosts or "*" in self.allowed_hosts

    def origin_is_allowed(self, origin: str) -> bool:
        """Whether pages of this origin may use the endpoint."""
        if self.allowed_origins is not None:
            return origin in self.allowed_origins or "*" in self.allowed_origins
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and _without_port(parts.netloc.lower()) in LOOPBACK

    def cors(self, headers: Headers) -> list[tuple[str, str]]:
        """The headers that let a page of an allowed origin read the answer; none where no page asks."""
        origin = headers.get("origin")
        if origin is None or not self.origin_is_allowed(origin):
            return []
        return [("Access-Control-Allow-Origin", origin), ("Vary", "Origin"), ("Access-Control-Expose-Headers", SESSION_HEADER)]

    def preflight(self, headers: Headers) -> list[tuple[str, str]]:
        """The answer to a browser that asks what a page may send."""
        return [
            *self.cors(headers),
            ("Access-Control-Allow-Methods", "GET, POST, DELETE"),
            (
                "Access-Control-Allow-Headers",
                f"Accept, Authorization, Content-Type, Last-Event-ID, {SESSION_HEADER}, {VERSION_HEADER}",
            ),
            ("Access-Control-Max-Age", "600"),
        ]


def _without_port(host: str) -> str:
    return re.sub(r":\d*$", "", host)


def _shown(text: str | None) -> str:
    return "(none)" if text is None else repr(text[:100])


def check_content_type(request: Request) -> None:
    """Messages are JSON: anything else is 415."""
    kind = (request.headers.get("content-type") or "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refused(415, f"Content-Type must be application/json, not {_shown(kind)}")


def check_accept(request: Request, *needed: str) -> None:
    """The client must be ready for each of these content types: 406 otherwise."""
    # [2025-11-25 basic/transports#sending-messages-to-the-server] MUST list application/json and text/event-stream
    accepted = set()
    for item in ",".join(request.headers.get_all("accept")).split(","):
        kind, *parameters = (part.strip().lower() for part in item.split(";"))
        if not any(re.fullmatch(r"q=0(\.0*)?", parameter) for parameter in parameters):
            accepted.add(kind)
    for kind in needed:
        if not accepted & {kind, kind.partition("/")[0] + "/*", "*/*"}:
            raise Refused(406, f"Accept must list {' and '.join(needed)}")


def check_version(request: Request) -> Revision | None:
    """The revision that the request says it is in; None where it does not say. An unknown one is 400."""
    name = request.headers.get(VERSION_HEADER)
    if name is None:
        return None
    revision = find_revision(name)
    if revision not in LEGACY:
        # [2025-11-25 basic/transports#protocol-version-header] invalid or unsupported: MUST respond with 400
        known = ", ".join(map(str, LEGACY))
        raise Refused(400, f"{VERSION_HEADER} {_shown(name)} is not supported here; supported are {known}")
    return revision
