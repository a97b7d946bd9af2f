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
        """Wait for a slot, and take it."""
        slot: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(slot)
        try:
            await slot
        except asyncio.CancelledError:
            if slot.cancelled():  # it got no slot, and must not get one later
                with contextlib.suppress(ValueError):  # `give_back` may have removed it already
                    self._waiting.remove(slot)
            else:  # `give_back` gave it the slot just before, so pass the slot on
                self.give_back()
            raise
        return True

    def give_back(self) -> None:
        """Give a slot to the task that has waited longest, or free it."""
        while self._waiting:
            slot = self._waiting.popleft()
            if not slot.done():
                return slot.set_result(None)
        self._free += 1
