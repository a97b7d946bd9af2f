"""Time limits that stop while a user signs in."""

from __future__ import annotations

import asyncio
import gc
import math
import time
import weakref

import pytest

from mcp_ref.lib.time_limits import TimeLimits
from tests.settings import PATIENCE, pass_time


async def test_time_limit_ends_after_its_time() -> None:
    with pytest.raises(TimeoutError), TimeLimits().timeout(0.01):
        await asyncio.Event().wait()


async def test_time_limit_on_another_event_loop_raises_runtime_error() -> None:
    limits = TimeLimits()

    async def limit() -> None:
        with limits.timeout(100):
            pass

    await limit()
    with pytest.raises(RuntimeError, match="belongs to another event loop"):
        await asyncio.to_thread(asyncio.run, limit())


async def test_time_limits_that_begin_later_can_end_earlier() -> None:
    limits = TimeLimits()
    with limits.timeout(100) as long:
        for _ in range(2):  # afterwards, the timer watches the long limit again
            with pytest.raises(TimeoutError), limits.timeout(0.01) as short:
                await asyncio.wait_for(asyncio.Event().wait(), PATIENCE)
            assert short.has_ended and limits.running == {long}
    assert not limits.running


async def test_time_limits_that_run_at_the_same_time_end_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    limits, ended = TimeLimits(), list[float]()

    async def wait(seconds: float) -> None:
        with pytest.raises(TimeoutError), limits.timeout(seconds):
            await asyncio.Event().wait()
        ended.append(seconds)

    waits = [asyncio.create_task(wait(seconds)) for seconds in (10.0, 5.0)]
    for task in reversed(waits):
        await asyncio.sleep(0)
        pass_time(monkeypatch, 5.0)
        await asyncio.wait_for(task, PATIENCE)
    assert ended == [5.0, 10.0]


async def test_time_limit_leaves_a_cancellation_of_its_task_alone() -> None:
    async def wait() -> None:
        with TimeLimits().timeout(100):
            await asyncio.Event().wait()

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_time_limit_that_ends_with_a_cancellation_of_its_task_goes_on_as_a_cancellation() -> None:
    limits = TimeLimits()

    async def wait() -> None:
        with limits.timeout(100):
            await asyncio.Event().wait()

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    (limit,) = limits.running
    limit.expire()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_time_limit_without_seconds_never_ends() -> None:
    limits = TimeLimits()
    with limits.timeout(None) as limit:
        with limits.stopped():
            pass
        assert limit.end == math.inf


async def test_time_limit_restarts_up_to_its_deadline() -> None:
    limits, begun = TimeLimits(), asyncio.get_running_loop().time()
    with limits.timeout(1000, 1500) as limit:
        first = limit.end
        limit.restart()
        assert first <= limit.end <= begun + 1001
        limit.deadline = begun + 1  # as if most of the time were over
        limit.restart()
        assert limit.end == begun + 1
    with limits.timeout(1000) as limit:
        first = limit.end
        limit.restart()
        assert limit.end == first


async def test_stopped_limit_keeps_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = TimeLimits()
    with limits.timeout(100, 200) as limit:
        end, deadline, began = limit.end, limit.deadline, time.monotonic()
        with limits.stopped():
            pass_time(monkeypatch, 5.0)
        stop = time.monotonic() - began
    assert 5.0 <= limit.end - end <= stop
    assert limit.deadline - deadline == pytest.approx(limit.end - end)


async def test_limits_that_begin_during_a_stop_are_stopped_too() -> None:
    limits = TimeLimits()
    with limits.stopped(), limits.timeout(0.01):
        await asyncio.sleep(0.03)


async def test_limits_go_on_after_the_last_of_several_stops() -> None:
    limits = TimeLimits()
    with pytest.raises(TimeoutError), limits.timeout(0.01):
        with limits.stopped():
            with limits.stopped():
                pass
            await asyncio.sleep(0.03)
        await asyncio.wait_for(asyncio.Event().wait(), 5)


async def test_limit_that_ended_during_a_stop_is_left_alone() -> None:
    limits = TimeLimits()
    with limits.stopped(), limits.timeout(100):
        pass
    began = time.monotonic()
    with pytest.raises(TimeoutError), limits.timeout(0.01):
        with limits.stopped():
            pass
        time.sleep(0.02)
        with limits.stopped():
            await asyncio.sleep(0)
        await asyncio.sleep(10)
    assert time.monotonic() < began + 5
    assert not limits.running


async def test_limit_that_a_stop_finds_overdue_does_not_cancel_the_task_after_its_block() -> None:
    limits = TimeLimits()
    with limits.timeout(0.01):
        time.sleep(0.02)  # the event loop was busy
        with limits.stopped():
            pass
    task = asyncio.current_task()
    assert task is not None and task.cancelling() == 0
    await asyncio.sleep(0)  # a cancellation of the block would be raised here


async def test_limits_of_blocks_that_end_during_a_stop_are_forgotten() -> None:
    limits = TimeLimits()

    async def end_at_once() -> None:
        with limits.timeout(100):
            pass

    with limits.stopped():
        task = asyncio.create_task(end_at_once())
        await task
        known = weakref.ref(task)
        del task
        await asyncio.sleep(0)  # the event loop forgets the task too
        gc.collect()
        assert known() is None


async def test_limit_that_runs_on_after_a_close_ends_after_its_time() -> None:
    limits = TimeLimits()

    async def wait() -> None:
        with limits.timeout(0.01):
            await asyncio.Event().wait()

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)
    limits.close()
    await asyncio.wait([waiting], timeout=PATIENCE)
    assert waiting.done() and isinstance(waiting.exception(), TimeoutError)
