"""Ping: a request by which a client or server checks that its peer still responds.

The receiver MUST respond promptly with an empty result. If it does not, the sender MAY close the connection. Both sides
SHOULD send pings periodically, though not so many that they load the network, and may do so even before the handshake
has ended. Revision 2026-07-28 has no ping, because it has no sessions.
[2025-11-25 basic/utilities/ping#behavior-requirements] [2026-07-28 changelog#major-changes]

Spec:  basic/utilities/ping (2024-11-05 to 2025-11-25)
"""

from __future__ import annotations

from .meta import EmptyResult, RequestParams


async def ping(params: RequestParams, context: object) -> EmptyResult:
    return EmptyResult()
