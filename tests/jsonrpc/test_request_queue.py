"""The queue of requests that wait for a slot: its order, its limits, and when reading pauses."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from mcp_ref.jsonrpc.request_queue import RequestQueue
from mcp_ref.jsonrpc.requester import MessageTransport
from tests.settings import PATIENCE


class Reading:
    """A transport whose reading can be paused."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")


class Bench:
    """A queue with two slots. `tasks` use a slot or wait, and `serving` have no response yet."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self.transport = Reading()
        self.tasks: list[int] = []
        self.serving: list[int] = []
        self.queue = RequestQueue(2, patience, cast(MessageTransport, self.transport), self.tasks, self.serving)

    def begin(self, id: int, waits: bool = True) -> asyncio.Future[bool] | None:
        """Begin a task of a request, which waits for a slot or has one."""
        self.tasks.append(id)
        self.serving.append(id)
        self.queue.pause_if_full()
        return self.queue.add(id) if waits else None

    def end(self, id: int) -> None:
        """End a task."""
        self.tasks.remove(id)
        self.serving.remove(id)
        self.queue.give_free_slots()


async def test_request_queue_gives_slots_in_order_and_pauses_reading_while_it_is_full() -> None:
    bench = Bench()
    for id in (1, 2):
        bench.begin(id, waits=False)
    waiting = [bench.begin(3)]
    assert bench.transport.calls == [] and not bench.queue.is_full
    waiting.append(bench.begin(4))
    bench.queue.pause_if_full()
    assert bench.transport.calls == ["pause"] and bench.queue.is_full
    bench.queue.give_free_slots()
    assert not any(each and each.done() for each in waiting)
    bench.end(1)
    assert [each and each.done() for each in waiting] == [True, False]
    assert bench.transport.calls == ["pause", "resume"]
    bench.begin(5)
    assert bench.transport.calls == ["pause", "resume", "pause"]
    bench.queue.remove(5)
    bench.queue.remove(4)
    bench.queue.remove(4)
    bench.end(2)
    assert waiting[0] is not None and waiting[0].result() and waiting[1] is not None and not waiting[1].done()
    bench.queue.close()


@pytest.mark.parametrize(("held", "is_refused"), [(0, True), (1, False)])
async def test_request_queue_refuses_requests_after_its_patience_unless_a_slot_waits_for_the_peer(
    held: int, is_refused: bool
) -> None:
    bench = Bench(patience=0.001)
    for id in (1, 2):
        bench.begin(id, waits=False)
    waiting = [bench.begin(3), bench.begin(4)]
    del bench.serving[:held]  # the peer has not read this response
    await asyncio.sleep(0.02)
    assert [each and each.done() for each in waiting] == [is_refused] * 2
    assert [each.result() for each in waiting if each is not None and each.done()] == [False, False] * is_refused
    bench.queue.close()


async def test_request_queue_measures_its_patience_from_the_first_request_that_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timers: list[float] = []
    loop = asyncio.get_running_loop()
    call_later = loop.call_later

    def note(delay: float, *call: Any) -> asyncio.TimerHandle:
        timers.append(delay)
        return call_later(delay, *call)

    monkeypatch.setattr(loop, "call_later", note)
    bench = Bench()
    for id in (1, 2):
        bench.begin(id, waits=False)
    bench.begin(3)
    assert timers == [PATIENCE]
    bench.begin(4)
    assert timers == [PATIENCE]
    first = bench.queue._timer
    bench.end(1)  # request 3 gets its slot, and the patience begins again
    assert timers == [PATIENCE, PATIENCE] and first is not None and first.cancelled()
    second = bench.queue._timer
    bench.queue.close()
    assert second is not None and second.cancelled()
    bench.end(2)
    assert timers == [PATIENCE, PATIENCE] and bench.transport.calls == ["pause", "resume"]


async def test_request_queue_that_is_closed_does_not_resume_reading() -> None:
    bench = Bench()
    for id in range(4):
        bench.begin(id, waits=id > 1)
    bench.queue.close()
    bench.end(0)
    assert bench.transport.calls == ["pause"]
