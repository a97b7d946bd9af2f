"""`Context.run` at the end of the event loop."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor
from types import SimpleNamespace
from typing import cast

import pytest

from mcp_ref import Context
from tests.settings import PATIENCE


def test_context_run_whose_coroutine_the_loop_never_begins_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, submitted = asyncio.new_event_loop(), threading.Event()
    monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *_: submitted.set())  # too late for the last turn
    channel = SimpleNamespace(loop=loop)
    context = cast(Context, SimpleNamespace(channel=channel, _until_cancelled=lambda coroutine: coroutine))
    coroutine = asyncio.sleep(0)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(Context.run, context, coroutine)
        assert submitted.wait(PATIENCE)
        loop.close()
        with pytest.raises(CancelledError):
            running.result(PATIENCE)
    coroutine.close()
