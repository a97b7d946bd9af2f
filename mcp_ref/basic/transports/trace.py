"""See the wire: every frame on standard error, with its time, direction and revision, secrets left out.

    12:00:01.234  2025-11-25  ->  {"jsonrpc":"2.0","id":1,"method":"ping"}

Switched on by `--trace` on the command line, by `MCP_REF_TRACE=1` in the environment, or by handing `tracer()` to a
`Server` or `Client`. It costs nothing when off.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Literal, TextIO

from ...jsonrpc.messages import JSON
from . import Trace

SECRET_NAMES = (
    "authorization",
    "password",
    "passwd",
    "secret",
    "token",
    "apikey",
    "api_key",
    "api-key",
    "cookie",
    "credential",
)
"""A member whose name contains one of these is shown as "***". Progress tokens are no secrets."""

_HARMLESS = ("progresstoken", "maxtokens", "inputtokens", "outputtokens")

MAX_SHOWN = 4000
"""Characters of a frame that are shown."""


def tracer(out: TextIO | None = None, color: bool | None = None) -> Trace:
    """A function to give as `trace`: writes one line for each frame to `out` (standard error by default)."""
    revision = "-"

    def trace(direction: Literal["->", "<-"], frame: bytes) -> None:
        nonlocal revision
        stream = out or sys.stderr
        try:
            value = json.loads(frame)
            revision = _negotiated(value) or revision
            text = json.dumps(redact(value), ensure_ascii=False)
        except (ValueError, RecursionError):
            text = f"(no JSON, {len(frame)} bytes) {frame[:200].decode('utf-8', 'backslashreplace')}"
        if len(text) > MAX_SHOWN:
            text = f"{text[:MAX_SHOWN]}... ({len(text)} characters)"
        now = time.time()
        clock = f"{time.strftime('%H:%M:%S', time.localtime(now))}.{int(now * 1000) % 1000:03d}"
        paint = stream.isatty() if color is None else color
        arrow = {"->": "\x1b[32m->\x1b[0m", "<-": "\x1b[36m<-\x1b[0m"}[direction] if paint else direction
        stream.write(f"{clock}  {revision:<10}  {arrow}  {_printable(text)}\n")

    return trace


def trace_from_environment() -> Trace | None:
    """The tracer that MCP_REF_TRACE=1 asks for, or None."""
    return tracer() if os.environ.get("MCP_REF_TRACE", "") not in ("", "0") else None


def redact(value: JSON) -> JSON:
    """A copy in which the members that look like secrets read "***"."""
    if isinstance(value, list):
        return [redact(item) for item in value]
    if isinstance(value, dict):
        return {name: "***" if _is_secret(name, member) else redact(member) for name, member in value.items()}
    return value


def _is_secret(name: str, member: JSON) -> bool:
    folded = name.lower()
    if not isinstance(member, (str, list)) or folded in _HARMLESS:
        return False
    return any(word in folded for word in SECRET_NAMES)


def _negotiated(value: JSON) -> str | None:
    result = value.get("result") if isinstance(value, dict) else None
    version = result.get("protocolVersion") if isinstance(result, dict) else None
    return version[:10] if isinstance(version, str) else None


def _printable(text: str) -> str:
    """Control characters of a hostile peer must not reach the terminal."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
