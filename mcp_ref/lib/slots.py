"""Slots: a limit on the number of things that are in use at the same time, such as connections.

    if not slots.take_now():        # usual: a slot is free, so no coroutine is needed
        await slots.take()
    ...
    slots.give_back()

`asyncio.Semaphore` does the same, but even if a slot is free, it costs a coroutine and a search of its waiting tasks.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import Literal


class Slots:
    """A number of slots, which tasks get in the order in which they asked."""

    def __init__(self, number: int) -> None:
        self._free = number
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take_now(self) -> bool:
        """Take a slot, if one is free. Return False if not."""
        if self._free:
            self._free -= 1
            return True
        return False

    async def take(self) -> Literal[True]:
        """Wait until another task gives a slot back, and take it. Call this only after `take_now` has returned False.

        Return True, so that a caller can write `take_now() or await take()`.
        """
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                with contextlib.suppress(ValueError):  # `give_back` may have removed the cancelled future before
                    self._waiting.remove(turn)
            else:  # `give_back` gave this task the slot just before, so pass the slot on
                self.give_back()
            raise
        return True

    def give_back(self) -> None:
        """Give a slot to the task that has waited longest, or free it."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # otherwise its task was cancelled
                return turn.set_result(None)
        self._free += 1
