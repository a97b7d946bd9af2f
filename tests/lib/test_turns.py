"""Turns: large messages are encoded one by one, and small messages do not wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import pytest

import mcp_ref.lib.turns as turns_module
from mcp_ref.lib.turns import (
    ITERATIONS_PER_TURN,
    LARGE_MESSAGE,
    MAX_WAITING,
    MAX_WAITING_FULL,
    Turns,
    current_turns,
    is_large,
    note_size,
    turn_for,
)

LARGE = "x" * LARGE_MESSAGE


@pytest.mark.parametrize(
    ("value", "large"),
    [
        (None, False),
        ("x" * 1000, False),
        (LARGE, True),
        ({"content": [{"text": LARGE}]}, True),
        ({"content": [{"text": "x" * 1000}] * 100}, True),
        ([1] * LARGE_MESSAGE, True),
        ([1] * (LARGE_MESSAGE // 4 - 1), False),
        ([1] * 1000, False),
    ],
)
def test_is_large_estimates_the_size_of_the_json(value: object, large: bool) -> None:
    assert is_large(value) is large


class Site:
    """Messages that are encoded one after the other."""

    def __init__(self, room: bool = True) -> None:
        self.room = room
        self.turns = Turns(lambda: self.room)
        self.encoded: list[str] = []
        current_turns.set(self.turns)

    async def encode(self, name: str, value: str) -> None:
        if (turn := turn_for(value)) is not None:
            await turn
        note_size(len(value))
        self.encoded.append(name)


async def test_small_messages_overtake_large_messages_which_keep_their_order() -> None:
    site = Site()
    large = [asyncio.create_task(site.encode(f"{number}", LARGE + "x")) for number in range(5)]
    await asyncio.sleep(0)
    await site.encode("small", "x")
    await asyncio.gather(*large)
    assert site.encoded == ["0", "small", "1", "2", "3", "4"]


async def test_large_messages_wait_for_some_iterations_of_the_event_loop_each() -> None:
    site, iterations = Site(), 0

    async def count() -> None:
        nonlocal iterations
        while True:
            iterations += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await asyncio.gather(*(site.encode("large", LARGE + "x") for _ in range(20)))
    counting.cancel()
    assert iterations >= 19 * ITERATIONS_PER_TURN
    while site.turns.is_taken:
        await asyncio.sleep(0)
    await site.encode("alone", LARGE + "x")  # at once


async def test_cancelled_message_loses_its_turn() -> None:
    site = Site()
    large = [asyncio.create_task(site.encode(f"{number}", LARGE + "x")) for number in range(4)]
    await asyncio.sleep(0)
    large[1].cancel()
    await asyncio.wait(large)
    assert site.encoded == ["0", "2", "3"]


async def test_large_messages_wait_while_the_receivers_have_no_room() -> None:
    site = Site(room=False)
    await site.encode("first", LARGE + "x")
    second = asyncio.create_task(site.encode("second", LARGE + "x"))
    await site.encode("small", "x")
    assert not (await asyncio.wait([second], timeout=0.1))[0]
    site.room = True
    await second
    assert site.encoded == ["first", "small", "second"]


async def test_newest_waiting_request_starts_with_each_iteration() -> None:
    site = Site()
    large = [asyncio.create_task(site.encode("large", LARGE + "x")) for _ in range(20)]
    await asyncio.sleep(0)
    assert site.turns.is_crowded
    older = [asyncio.create_task(site.turns.wait_to_start()) for _ in range(100)]
    await asyncio.sleep(0)
    await site.turns.wait_to_start()
    assert len(site.encoded) < 10 and sum(each.done() for each in older) < 10
    await asyncio.gather(*large, *older)


async def test_oldest_and_newest_waiting_request_start_by_turns() -> None:
    turns, started = Turns(lambda: True), list[int]()
    turns.take()

    async def start(number: int) -> None:
        await turns.wait_to_start()
        started.append(number)

    await asyncio.gather(*(start(number) for number in range(6)))
    assert started == [0, 5, 1, 4, 2, 3]


async def test_requests_wait_to_start_while_many_large_messages_wait() -> None:
    site, most = Site(), 0

    async def serve() -> None:
        nonlocal most
        if site.turns.is_crowded:
            await site.turns.wait_to_start()
        most = max(most, len(site.turns._waiting) + 1)
        await site.encode("large", LARGE + "x")

    await asyncio.gather(*(serve() for _ in range(50)))
    assert len(site.encoded) == 50 and most <= MAX_WAITING + 3
    while site.turns.is_taken:
        await asyncio.sleep(0)
    assert not site.turns.is_crowded


async def test_cancelled_messages_are_forgotten_while_clients_have_too_much_unread() -> None:
    has_room = False
    turns = Turns(lambda: has_room)
    turns.take()
    waits = [asyncio.create_task(turns.wait()) for _ in range(10)]
    await asyncio.sleep(0)
    for wait in waits[1:]:
        wait.cancel()
    assert turns.is_crowded
    async with asyncio.timeout(5.0):
        while turns.is_crowded:
            await asyncio.sleep(0.005)
        assert len(turns._waiting) == 1
        has_room = True
        await waits[0]


@pytest.mark.parametrize("wait", [Turns.wait, Turns.wait_to_start])
async def test_wait_ends_although_the_last_turn_ended_before_it_began(
    wait: Callable[[Turns], Coroutine[object, object, None]],
) -> None:
    turns = Turns()
    turns.take()
    task = asyncio.create_task(wait(turns))  # runs after the turn has ended
    await task
    await wait(turns)  # nobody has taken a turn


@pytest.mark.parametrize("wait", [Turns.wait, Turns.wait_to_start])
async def test_cancelled_wait_passes_its_turn_to_the_next(
    monkeypatch: pytest.MonkeyPatch, wait: Callable[[Turns], Coroutine[object, object, None]]
) -> None:
    turns = Turns()
    waits = [asyncio.create_task(wait(turns)) for _ in range(3)]
    await asyncio.sleep(0)
    queue = turns._waiting or turns._starting
    first, second = queue[0], queue[1]
    monkeypatch.setattr(turns, "_pass_on", lambda: None)
    queue.popleft().set_result(None)
    waits[0].cancel()
    await asyncio.wait([waits[0]])
    assert waits[0].cancelled() and first.done() and second.done()
    for task in waits:
        task.cancel()
    await asyncio.wait(waits)


@pytest.mark.parametrize("waiting", [MAX_WAITING, MAX_WAITING_FULL])
async def test_requests_start_without_a_pause_until_many_messages_wait_for_clients_to_read(
    monkeypatch: pytest.MonkeyPatch, waiting: int
) -> None:
    monkeypatch.setattr(turns_module, "FULL_SECONDS", 1000.0)
    turns = Turns(lambda: False)
    messages = [asyncio.create_task(turns.wait()) for _ in range(waiting)]
    starts = [asyncio.create_task(turns.wait_to_start()) for _ in range(50)]
    await asyncio.sleep(0)
    turns.take()
    for _ in range(60 * ITERATIONS_PER_TURN):
        await asyncio.sleep(0)
    started = sum(start.done() for start in starts)
    assert started == (50 if waiting == MAX_WAITING else 1)
    for task in (*messages, *starts):
        task.cancel()
