"""The settings of a test run: the data of the specification, the transports, the time that a wait may take."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import TypeVar

import mcp_ref

MODERN = "2026-07-28"
"""The revision in which every request stands alone."""

META = "io.modelcontextprotocol/"
"""Before the names of what every request of it says about itself."""

T = TypeVar("T")

ROOT = Path(__file__).resolve().parent.parent
HOME = Path(mcp_ref.__file__).parent.parent
"""Where the package is imported from: this project, or a zip."""

PATIENCE = 10.0
"""Seconds that any single wait of a test may take before the test fails."""


def _find_data() -> Path | None:
    named = os.environ.get("MCP_REF_DATA")
    path = Path(named) if named else ROOT.parent / "shared" / "data"
    if path.is_dir():
        return path
    if os.environ.get("CI"):
        raise RuntimeError(f"the spec's data are not at {path}; in CI they must be: set MCP_REF_DATA")
    return None


DATA = _find_data()
"""The spec's schemas and requirements; None where they are not, and tests that need them are skipped."""


def run(test: Coroutine[object, object, T], seconds: float = 30.0) -> T:
    """Run a test's coroutine on a fresh loop, for at most so many seconds."""

    async def bounded() -> T:
        async with asyncio.timeout(seconds):
            return await test

    return asyncio.run(bounded())


SERVER_TRANSPORTS = os.environ.get("MCP_REF_TRANSPORTS", "memory stdio http").split()
"""The kinds of `raw_client`: every one is to give the same behaviour. CI runs them all, once: also "http-json",
"http+sse" and "asgi"."""

STATELESS_TRANSPORTS = [kind for kind in SERVER_TRANSPORTS if kind != "http+sse"]
"""Those that 2026-07-28 has."""

CONNECTED_TRANSPORTS = [kind for kind in SERVER_TRANSPORTS if kind in ("memory", "stdio", "http+sse")]
"""Those on which something can be said before the handshake, and its errors come back as messages."""
