"""Ping: a request by which a client or server checks that its peer still responds.

The receiver MUST respond promptly with an empty result. If it does not, the sender MAY close the connection. Both sides
SHOULD send pings periodically, though not so many that they load the network, and may do so even before the handshake
has ended. [2025-11-25 basic/utilities/ping#behavior-requirements]

    2024-10-07 to 2025-11-25  client and server can send pings
    2026-07-28                ping is removed, together with the sessions [2026-07-28 changelog#major-changes]

Spec:  basic/utilities/ping (2024-11-05 to 2025-11-25)
Wire:  {"jsonrpc": "2.0", "id": "123", "method": "ping"}
       {"jsonrpc": "2.0", "id": "123", "result": {}}
"""

from __future__ import annotations

from .meta import EmptyResult, RequestParams


async def ping(params: RequestParams, context: object) -> EmptyResult:
    return EmptyResult()
