"""Ping: a request by which a client or server checks that its peer still responds.

The receiver MUST respond promptly with an empty result. If no response comes, the sender MAY close the connection. A
client or server SHOULD send pings periodically, but too many pings would load the network. A ping can be sent before
the end of the handshake. [2025-11-25 basic/utilities/ping#behavior-requirements]

    2024-10-07 to 2025-11-25  client and server can send pings
    2026-07-28                ping is removed, because sessions are removed [2026-07-28 changelog#major-changes]

Spec:  basic/utilities/ping (2024-11-05 to 2025-11-25)
Wire:  {"jsonrpc": "2.0", "id": "123", "method": "ping"}
       {"jsonrpc": "2.0", "id": "123", "result": {}}
"""

from __future__ import annotations

from .meta import EmptyResult, RequestParams


async def ping(params: RequestParams, context: object) -> EmptyResult:
    return EmptyResult()
