"""Logging: log messages that a server sends to its client, with the severity levels of syslog (RFC 5424).

The client chooses a minimum level, and the server leaves out less severe messages. A server that sends log messages
MUST declare the capability `logging`. Handlers send them with `Context.log`. Because the client may show or store a log
message, it MUST NOT contain credentials, personal data, or internal details that help an attacker
[2025-11-25 server/utilities/logging#security]. Servers SHOULD limit the rate of messages.

Logging is deprecated since 2026-07-28 (SEP-2577), and the first revision on or after 2027-07-28 can remove it. Use
stderr on stdio, or OpenTelemetry [2026-07-28 changelog#deprecated].

    2024-10-07  `logging/setLevel` sets the minimum level of the session. Before that request, the server decides which
                messages it sends (this package sends all). An unknown level is -32602 (SHOULD since 2024-11-05).
    2026-07-28  `logging/setLevel` was removed, because no session is left that could store the level. Each request
                has its minimum level in `_meta["io.modelcontextprotocol/logLevel"]`; without it, the server MUST NOT
                send log messages. It MUST send them only on the response stream of that request, not on
                `subscriptions/listen` [2026-07-28 server/utilities/logging#per-request-log-level].

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
"""The levels of RFC 5424, the least severe level first."""


@dataclass
class SetLevelRequestParams:
    """The minimum level of the messages that the client wants to receive."""

    level: LoggingLevel
    meta: Object | None = None


@dataclass
class LoggingMessageNotificationParams:
    level: LoggingLevel
    data: JSON
    """The message as any JSON, for example a string, or an object with details."""
    logger: str | None = None
    """The name of the part of the server that logs."""
    meta: Object | None = None


async def set_level(params: SetLevelRequestParams, context: RequestContext) -> EmptyResult:
    """Store the level. The codec has already refused unknown ones with -32602."""
    context.channel.logging_level = params.level
    return EmptyResult()


def check_level(level: str) -> None:
    """Raise ValueError for an unknown level."""
    if level not in LEVELS:
        raise ValueError(f"the log level must be one of {', '.join(LEVELS)}, not {level!r}")


def is_wanted(level: LoggingLevel, minimum: str | None) -> bool:
    """Return True if the client wants messages of `level`. Without a `minimum`, it asked for none."""
    check_level(level)
    return minimum is not None and LEVELS.index(level) >= LEVELS.index(minimum)
