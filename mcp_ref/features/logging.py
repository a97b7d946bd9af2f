"""Logging: a server sends structured log messages, and the client says from which level on it wants them.

Spec:  server/utilities/logging (2024-10-07 to 2026-07-28); schema: SetLevelRequest, LoggingMessageNotification
Wire:  {"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": "info"}}
       {"jsonrpc": "2.0", "method": "notifications/message",
        "params": {"level": "error", "logger": "database", "data": {"error": "Connection failed"}}}
Elsewhere: what a tool calls is `Context.log`. Messages hold no credentials and no personal data: that is their
author's duty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

from ..basic.meta import EmptyResult
from ..jsonrpc.messages import JSON, Object
from .invoke import Scope

LoggingLevel: TypeAlias = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]

LEVELS: Final[tuple[LoggingLevel, ...]] = (
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency",
)  # fmt: skip
"""The severities of RFC 5424, the least first."""


@dataclass
class SetLevelRequestParams:
    """The least severe level that the client wants to receive."""

    level: LoggingLevel
    meta: Object | None = None


@dataclass
class LoggingMessageNotificationParams:
    """One log message. `data` is any JSON; `logger` names the part of the server that speaks."""

    level: LoggingLevel
    data: JSON
    logger: str | None = None
    meta: Object | None = None


class LevelScope(Scope, Protocol):
    """The request of a client whose level is kept."""

    logging_level: LoggingLevel


async def set_level(params: SetLevelRequestParams, scope: LevelScope) -> EmptyResult:
    """Serve `logging/setLevel`. An unknown level never gets here: it is -32602."""
    scope.logging_level = params.level
    return EmptyResult()


def is_wanted(level: LoggingLevel, minimum: LoggingLevel | None) -> bool:
    """Whether a message of `level` reaches a client that asked for `minimum` and above; None asks for none."""
    if level not in LEVELS:
        raise ValueError(f"{level!r} is no log level; these are: {', '.join(LEVELS)}")
    return minimum is not None and LEVELS.index(level) >= LEVELS.index(minimum)
