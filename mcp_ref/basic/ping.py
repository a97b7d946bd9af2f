"""Ping: either side checks that the other still responds. The result is empty, and comes at once.

The receiver MUST respond promptly; no response means a dead connection, which the sender MAY close. Senders SHOULD
ping periodically, but not so often that it loads the network. A ping is allowed before the handshake is done.
[2025-11-25 basic/utilities/ping#behavior-requirements]

    2024-10-07 to 2025-11-25  either side may ping; the rules did not change
    2026-07-28                removed: a peer without a session has nothing to keep alive
                              [2026-07-28 changelog#major-changes]

Spec:  basic/utilities/ping (2024-11-05 to 2025-11-25)
Wire:  {"jsonrpc": "2.0", "id": "123", "method": "ping"}
       {"jsonrpc": "2.0", "id": "123", "result": {}}
"""

from __future__ import annotations

from .meta import EmptyResult, RequestParams


async def ping(params: RequestParams, context: object) -> EmptyResult:
    """Return the empty result of a ping."""
    return EmptyResult()
