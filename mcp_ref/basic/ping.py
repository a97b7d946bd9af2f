"""Ping: either side may ask whether the other still answers; the answer is an empty result, at once.

Spec:  basic/utilities/ping (2024-11-05 to 2025-11-25; gone in 2026-07-28)
Wire:  {"jsonrpc": "2.0", "id": "123", "method": "ping"}
       {"jsonrpc": "2.0", "id": "123", "result": {}}
"""

from __future__ import annotations

from .meta import EmptyResult, RequestParams


async def ping(params: RequestParams, context: object) -> EmptyResult:
    """Answer a ping. [2025-11-25 basic/utilities/ping#behavior-requirements] promptly, with an empty response"""
    return EmptyResult()
