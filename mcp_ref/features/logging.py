"""Logging: log messages that a server sends to its client, with the severities of syslog (RFC 5424).

The client chooses the least severe level that it wants. A server that sends log messages MUST declare the capability
`logging`. Handlers send log messages with `Context.log`.

Logging is deprecated since 2026-07-28 (SEP-2577), and may be removed in the first revision on or after 2027-07-28. Use
stderr on stdio, or OpenTelemetry: both are mature, and made for logs [2026-07-28 changelog#deprecated].

The client may show or store log messages. So they MUST NOT contain credentials, personal data, or internals that help
an attacker [2025-11-25 server/utilities/logging#security]. Servers SHOULD limit the rate of log messages.

    2024-10-07  `logging/setLevel` for the whole session. Before the client sets a level, the server chooses the
                messages (this package: all). An unknown level is -32602 (SHOULD since 2024-11-05).
    2026-07-28  `logging/setLevel` was removed with the session, which kept the level. Each request names its level in
                `_meta["io.modelcontextprotocol/logLevel"]`. Without a level the server MUST NOT send messages for that
                request. Messages go on the request's own response stream, never on `subscriptions/listen`
                [2026-07-28 server/utilities/logging#per-request-log-level].

Spec:  server/utilities/logging (2024-11-05 to 2026-07-28); schema: SetLevelRequest, LoggingMessageNotification
Wire:  {"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": "info"}}
       {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "error", "data": "down"}}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from ..basic.channel import RequestContext
from ..basic.meta import EmptyResult
from ..jsonrpc.messages import JSON, Object

LoggingLevel: TypeAlias = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]

LEVELS: Final[tuple[LoggingLevel, ...]] = get_args(LoggingLevel)
"""The severities of RFC 5424, the least severe first."""


@dataclass
class SetLevelRequestParams:
    """The least severe level that the client wants to receive."""

    level: LoggingLevel
    meta: Object | None = None


@dataclass
class LoggingMessageNotificationParams:
    """One log message."""

    level: LoggingLevel
    data: JSON
    """The message as any JSON: a text, or an object with details."""
    logger: str | None = None
    """The part of the server that logs."""
    meta: Object | None = None


async def set_level(params: SetLevelRequestParams, context: RequestContext) -> EmptyResult:
    """Serve `logging/setLevel`. The codec has already refused unknown levels with -32602."""
    context.channel.logging_level = params.level
    return EmptyResult()


def is_wanted(level: LoggingLevel, minimum: str | None) -> bool:
    """Return True if the client wants messages of `level`. With a `minimum` of None the client wants no messages."""
    if level not in LEVELS:
        raise ValueError(f"{level!r} is not a log level; choose one of {', '.join(LEVELS)}")
    return minimum is not None and LEVELS.index(level) >= LEVELS.index(minimum)
