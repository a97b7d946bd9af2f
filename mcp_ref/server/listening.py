"""A server over HTTP that listens on a socket of its own. Under ASGI, another program listens.

Used by: server.py. Uses: http.py (the server without sockets), lib/http/
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from ssl import SSLContext
from typing import Final, TypedDict, Unpack

from ..jsonrpc.dispatcher import Limits
from ..jsonrpc.messages import Batch, Request, decode
from ..lib.fields import check_options
from ..lib.http.message import HttpLimits, bracket_ipv6
from ..lib.http.server import start_server
from ..transports.base import Trace
from ..transports.streamable_http.checks import LOOPBACK
from .catalog import Catalog
from .http import FINISH_SECONDS, HttpApp
from .http_options import HttpOptions

LAST_REQUEST_SECONDS: Final = 0.5
"""Time for which open connections still accept requests after a drained server (main.py) has closed its port, in
seconds. Such a request gets 503, so that the load balancer gives it to another process."""

_ALL_ADDRESSES: Final = frozenset({"", "0.0.0.0", "::"})
_SMALL_RESULTS: Final = frozenset({"ping", "initialize", "server/discover", "logging/setLevel"})
"""The methods whose results are always small, so that the HTTP server can serve any number of them at once."""


class _ListeningOptions(TypedDict):
    host: str
    port: int
    ssl: SSLContext | None
    http_limits: HttpLimits | None


def has_small_result(body: bytes) -> bool:
    """Return True if the message in a POST has no result, or a result that is always small."""
    message = decode(body)
    if isinstance(message, Request):
        return message.method in _SMALL_RESULTS
    return not isinstance(message, Batch)  # a batch can have a large result, other messages have none


@contextlib.asynccontextmanager
async def serve_http(
    catalog: Catalog, session_limits: Limits | None, trace: Trace | None, host: str, port: int,
    ssl: SSLContext | None, http_limits: HttpLimits | None, **options: Unpack[HttpOptions],
) -> AsyncIterator[str]:  # fmt: skip
    """Serve over HTTP while the `async with` block runs. Yield the URL of the MCP endpoint."""
    check_options({"host": host, "port": port, "ssl": ssl, "http_limits": http_limits}, _ListeningOptions)
    # On all addresses, the names under which clients know the server are unknown, so only loopback's stay allowed.
    if "allowed_hosts" not in options and host not in _ALL_ADDRESSES:
        options["allowed_hosts"] = LOOPBACK | {bracket_ipv6(host)}
    app = HttpApp(catalog, session_limits, trace, **options)
    try:
        await app.start()
        listening = await start_server(app.handle, host, port, ssl, http_limits, has_small_result)
        try:
            name, bound_port = listening.address
            loopback_of = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # no client can connect to "all addresses"
            shown = loopback_of.get(name, name)
            yield f"{'https' if ssl else 'http'}://{bracket_ipv6(shown)}:{bound_port}{app.path}"
        finally:
            last_request_seconds = LAST_REQUEST_SECONDS if app.is_draining else 0.0
            try:
                await app.end_sessions()  # first, because `listening.close` cuts off what has not ended
            finally:  # even if this task is cancelled while sessions end
                await listening.close(FINISH_SECONDS, last_request_seconds)
    finally:
        await catalog.service.remove(app)
