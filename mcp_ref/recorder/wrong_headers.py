"""Requests with wrong HTTP headers, which a server must refuse. They are sent at the end of a drive (drive.py).

    the usual request                                 must succeed, or the others would show nothing and are not sent
    a foreign Origin                                  must be refused
    a foreign Host                                    should be refused by a server on this machine
    modern era: without MCP-Protocol-Version          must be refused, unless it fits an earlier revision
    legacy era: the id of an unknown session          must be refused, unless the server has no sessions

Spec:  2025-11-25 basic/transports#security-warning, basic/transports#session-management;
       2026-07-28 basic/transports/streamable-http#server-validation
Used by: drive.py. Uses: lib/http/origin.py
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from ..basic.versioning import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from ..jsonrpc.messages import Object
from ..lib.http.origin import parse_url
from ..revisions import Revision
from ..version import __version__

NO_SUCH_SESSION: Final = "mcp-ref-no-such"
"""A session id that no server has given to its client."""
SUCCESS: Final = range(200, 300)
"""The statuses of accepted requests."""


class Trial(NamedTuple):
    """A request with wrong headers, and the response of the server."""

    what: str
    """A text for a person, such as "a foreign Origin"."""
    status: int
    """The HTTP status; 0 without a response."""
    must_be_refused: bool
    """False if a server may accept the request."""


async def try_wrong_headers(
    url: str, revision: Revision, headers: Mapping[str, str], seconds: float, *, is_local: bool, needs_version: bool
) -> list[Trial]:
    """Send requests with wrong headers, unless the server refuses the same request with valid headers.

    Args:
        url: The server's URL, or the recorder's.
        revision: The latest revision that the server speaks, in one of the two eras.
        headers: Further headers of every request, such as a token.
        seconds: Time limit of each request, in seconds.
        is_local: True if the server is on this machine.
        needs_version: True if all revisions of the server have the header MCP-Protocol-Version.
    """
    valid = _valid_request(url, revision, headers, seconds)
    if await valid.status({}) not in SUCCESS:
        return []  # the server needs a token, for example, or speaks HTTP+SSE
    trials = [Trial("a foreign Origin", await valid.status({"Origin": "https://mcp-ref.invalid"}), True)]
    if is_local:
        # no revision demands this check, but it keeps out web pages that use DNS rebinding
        trials.append(Trial("a foreign Host", await valid.status({"Host": "mcp-ref.invalid"}), False))
    if revision.era == "modern":
        status = await valid.status({"MCP-Protocol-Version": None})
        # a server that also speaks a revision without this header may take it for a request of that revision
        trials.append(Trial("a request without MCP-Protocol-Version", status, needs_version))
    else:
        ping = replace(valid, method="ping", params={})
        status = await ping.status({"Mcp-Session-Id": NO_SUCH_SESSION})
        if status not in SUCCESS:  # a server without sessions may ignore the id
            trials.append(Trial("an unknown session", status, True))
    return trials


@dataclass(frozen=True)
class _Request:
    """A request that is sent as it is, or with changed headers."""

    url: str
    headers: Mapping[str, str]
    method: str
    params: Object
    seconds: float
    """Time limit, in seconds."""

    async def status(self, changed: Mapping[str, str | None]) -> int:
        """Send the request, and return the status. None in `changed` leaves a header out."""
        headers = {name: value for name, value in {**self.headers, **changed}.items() if value is not None}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": self.method, "params": self.params}).encode()
        return await _post(self.url, headers, body, self.seconds)


def _valid_request(url: str, revision: Revision, headers: Mapping[str, str], seconds: float) -> _Request:
    """Return a request that a client of this revision can send first."""
    usual = {"Host": str(parse_url(url)[1]), "Content-Type": "application/json",
             "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": revision.name,
             **headers}  # fmt: skip
    if revision.era == "modern":
        params: Object = {"_meta": {PROTOCOL_VERSION: revision.name, CLIENT_CAPABILITIES: {}}}
        return _Request(url, {**usual, "Mcp-Method": "tools/list"}, "tools/list", params, seconds)
    client: Object = {"name": "mcp_ref", "version": __version__}
    params = {"protocolVersion": revision.name, "capabilities": {}, "clientInfo": client}
    return _Request(url, usual, "initialize", params, seconds)


async def _post(url: str, headers: Mapping[str, str], body: bytes, seconds: float) -> int:
    """Send a POST. Return the status, or 0 without a response. (`HttpClient` would send its own Host.)"""
    parts, origin = parse_url(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = [f"POST {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    lines += ["Connection: close", f"Content-Length: {len(body)}", "", ""]
    with contextlib.suppress(OSError, TimeoutError, ValueError, IndexError):
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_connection(origin.host, origin.port)
            try:
                writer.write("\r\n".join(lines).encode("latin-1") + body)
                status_line = await reader.readline()
                return int(status_line.split()[1])
            finally:
                writer.close()
    return 0
