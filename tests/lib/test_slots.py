"""Slots: things that only a number of tasks can use at the same time."""

from __future__ import annotations

import asyncio

from mcp_ref.lib.slots import Slots


async def test_slots_go_to_waiting_tasks_in_their_order() -> None:
    slots, got = Slots(1), list[int]()

    async def use(number: int) -> None:
        assert slots.take_now() or await slots.take()
        got.append(number)

    tasks = [asyncio.create_task(use(number)) for number in range(3)]
    for number in range(3):
        await asyncio.wait_for(tasks[number], 5)
        assert got == list(range(number + 1))
        assert not slots.take_now()
        slots.give_back()
    assert slots.take_now()


async def test_slots_pass_over_cancelled_tasks() -> None:
    slots = Slots(1)
    assert slots.take_now()
    waiting, served, next_one = [asyncio.create_task(slots.take()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    slots.give_back()
    served.cancel()  # it has the slot, and passes it on
    assert await asyncio.wait_for(next_one, 5)
    slots.give_back()
    assert slots.take_now()
