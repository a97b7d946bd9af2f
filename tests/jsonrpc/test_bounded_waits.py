"""The wait for cancelled handlers, some of which go on."""

from __future__ import annotations

import asyncio

import pytest

from mcp_ref.jsonrpc import bounded_waits
from mcp_ref.jsonrpc.bounded_waits import end_handlers
from tests.settings import PATIENCE


async def test_end_handlers_waits_for_cleanups_and_leaves_those_that_ignore_their_cancellation(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(bounded_waits, "CANCEL_SECONDS", 0.05)
    go, ends = asyncio.Event(), list[str]()

    async def handler(name: str) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if name == "stubborn":
                await go.wait()
            elif name == "fails":
                raise ValueError("the cleanup failed") from None
            await asyncio.sleep(0)
            ends.append(name)

    tasks = {name: asyncio.create_task(handler(name)) for name in ("tidy", "fails", "stubborn")}
    await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE):
        await end_handlers([tasks["tidy"], tasks["fails"]])
        assert ends == ["tidy"] and tasks["fails"].done() and caplog.text == ""
        await end_handlers(tasks.values())
        assert "handlers of input requests ignore their cancellation, and still run: 1" in caplog.text
        go.set()
        await tasks["stubborn"]
