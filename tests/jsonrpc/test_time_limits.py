"""Time limits that stop while a user signs in."""

from __future__ import annotations

import asyncio
import time

import pytest

from mcp_ref.jsonrpc.time_limits import TimeLimits


async def test_time_limit_ends_after_its_time() -> None:
    with pytest.raises(TimeoutError):
        async with TimeLimits().timeout(0.01):
            await asyncio.Event().wait()


async def test_time_limit_without_seconds_never_ends() -> None:
    limits = TimeLimits()
    async with limits.timeout(None) as timer:
        with limits.stopped():
            pass
        assert timer.when() is None


async def test_stopped_limit_keeps_the_time_that_is_left() -> None:
    limits, stops = TimeLimits(), list[float]()
    async with asyncio.timeout(100) as timer:
        limits.running[timer] = stops.append
        before = timer.when()
        with limits.stopped():
            assert timer.when() is None
            await asyncio.sleep(0.02)
        after = timer.when()
    assert before is not None and after is not None and after - before == pytest.approx(stops[0], abs=0.01)
    assert stops[0] >= 0.02


async def test_limits_that_begin_during_a_stop_are_stopped_too() -> None:
    limits = TimeLimits()
    with limits.stopped():
        async with limits.timeout(0.01) as timer:
            assert timer.when() is None
            await asyncio.sleep(0.03)


async def test_limits_go_on_after_the_last_of_several_stops() -> None:
    limits = TimeLimits()
    async with limits.timeout(100) as timer:
        with limits.stopped():
            with limits.stopped():
                pass
            assert timer.when() is None
        assert timer.when() is not None


async def test_limit_that_ended_during_a_stop_is_left_alone() -> None:
    limits = TimeLimits()
    with limits.stopped():
        async with limits.timeout(100):
            pass
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        async with limits.timeout(0.01):
            with limits.stopped():
                pass
            time.sleep(0.02)
            with limits.stopped():
                await asyncio.sleep(0)
            await asyncio.sleep(10)
    assert time.monotonic() < began + 5
    assert not limits.running
