"""The settings of a test run: the data of the specification, the transports, the time that a wait may take."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

import mcp_ref

MODERN = "2026-07-28"
"""The revision of the modern era: every request is stateless."""

META = "io.modelcontextprotocol/"
"""The prefix of the `_meta` keys of a stateless request."""

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
"""The revisions of the specification that requirements.json has, oldest first."""

T = TypeVar("T")

ROOT = Path(__file__).resolve().parent.parent
HOME = Path(mcp_ref.__file__).parent.parent
"""The folder or zip that holds the imported package."""

PATIENCE = 10.0
"""Maximum time of a single wait in a test, in seconds."""

PHASE_SECONDS = 120.0
"""Maximum time of a test's setup, call or teardown, in seconds. No test needs half of it on a slow machine."""


def _find_data() -> Path | None:
    named = os.environ.get("MCP_REF_DATA")
    path = Path(named) if named else ROOT.parent / "shared" / "data"
    if path.is_dir():
        return path
    if os.environ.get("CI"):
        raise RuntimeError(f"the spec's data are not at {path}; in CI they must be: set MCP_REF_DATA")
    return None


DATA = _find_data()
"""The specification's schemas and requirements. None if they are missing: tests that need them are skipped."""


def requirement_ids(named: str) -> list[str]:
    """Return the ids that a `spec` mark names: "2025-06-18..2025-11-25/server/tools#tool-1,2" are four ids."""
    revisions, _, sentences = named.partition("/")
    first, _, last = revisions.partition("..")
    between = REVISIONS[REVISIONS.index(first) : REVISIONS.index(last) + 1] if last else (revisions,)
    heading, dash, numbers = sentences.rpartition("-")
    return [f"{each}/{heading}{dash}{number}" for each in between for number in numbers.split(",")]


def run(test: Coroutine[object, object, T], seconds: float = 60.0) -> T:
    """Run a test's coroutine on a fresh event loop, for at most `seconds`. Fail if it leaves an unfinished task."""

    async def bounded() -> T:
        async with asyncio.timeout(seconds):
            result = await test
        left = {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}
        if left:
            _, left = await asyncio.wait(left, timeout=1.0)
        assert not left, f"left behind: {left}"
        return result

    return asyncio.run(bounded())


async def eventually(is_true: Callable[[], object]) -> None:
    """Wait until a condition is true, for at most `PATIENCE` seconds."""
    async with asyncio.timeout(PATIENCE):
        while not is_true():
            await asyncio.sleep(0.002)


def pass_time(patch: pytest.MonkeyPatch, seconds: float) -> None:
    """Move the clocks of this process on, so that a test of a time limit need neither wait nor be quick.

    asyncio's event loop follows `time.monotonic`, so also the time limits of the test itself have less time left.
    """
    monotonic, wall = time.monotonic, time.time
    patch.setattr(time, "monotonic", lambda: monotonic() + seconds)
    patch.setattr(time, "time", lambda: wall() + seconds)


@dataclass
class Clock:
    """A time that passes when a test sets it."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def _words(variable: str, default: str, known: str) -> list[str]:
    """Return the words of a variable of the environment, each of which must be known."""
    words = os.environ.get(variable, default).split()
    if not words or not {*words} <= {*known.split()}:
        raise RuntimeError(f"{variable} must consist of these words: {known}")
    return words


SERVER_TRANSPORTS = _words("MCP_REF_TRANSPORTS", "memory stdio http", "memory stdio http http-json http+sse asgi")
"""The kinds of `raw_client`, all with the same behavior. CI runs the others once: "http-json", "http+sse", "asgi"."""

COMBINATIONS = _words("MCP_REF_COMBINATIONS", "values", "values pairs all")[0]
"""The combinations in which a test over a transport runs (`conftest.select_combinations`): with "values" each transport
and each revision comes once, with "pairs", as in CI on one Python, each with every other parameter, and "all" leaves
none out."""

IS_JUDGED = os.environ.get("MCP_REF_JUDGE") != "no"
"""True to check each message and each conversation of the package in every test (`conftest.rules_of_every_test`), which
takes a quarter of the time. CI leaves it out where the messages are the same as elsewhere: on the Pythons between the
oldest and the newest, on uvloop, and on WebAssembly."""

STATELESS_TRANSPORTS = [kind for kind in SERVER_TRANSPORTS if kind != "http+sse"]
"""The kinds that 2026-07-28 has."""

TASK_FACTORIES = [None, *([vars(asyncio)["eager_task_factory"]] if sys.version_info >= (3, 12) else [])]
"""Task factories of event loops: the default, and from Python 3.12 the factory whose tasks run at once."""

CONNECTED_TRANSPORTS = [kind for kind in SERVER_TRANSPORTS if kind in ("memory", "stdio", "http+sse")]
"""The kinds on which a client can send other messages before the handshake, and receives errors as messages."""
