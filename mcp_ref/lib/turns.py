"""Turns: large messages take turns, so that they do not delay small messages.

The event loop needs some milliseconds to encode and send a message of 1 MB, so if a client asked for 400 of them at
once, all other clients would wait for seconds. Therefore one large message is encoded in every `ITERATIONS_PER_TURN`
iterations of the loop, and other work goes on in between. Small messages never wait.

When a few results wait already, requests wait too, before their handlers run, because their results together would fill
the memory. At each turn the newest request starts, so that the queue of one client does not delay the others. While
clients have too much unread data, results wait, but requests keep starting until `MAX_WAITING_FULL` results wait.

    async def respond(result):
        if (turn := turn_for(result)) is not None:
            await turn
        data = encode(result)
        note_size(len(data))

A server sets `current_turns` at its start, and all asyncio tasks of the server inherit it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from typing import Final

LARGE_MESSAGE: Final = 64 * 1024
"""Size from which a message needs a turn, in bytes."""

ITERATIONS_PER_TURN: Final = 8
"""Number of iterations of the event loop for each large message. An iteration without one takes much less time, so the
other clients, whose requests take several iterations each, hardly notice."""

MAX_WAITING: Final = 4
"""Number of waiting messages from which requests wait too, before their handlers run."""

MAX_WAITING_FULL: Final = 64
"""Number of waiting messages from which requests start only every `FULL_SECONDS`, if there is too much unread data."""

FULL_SECONDS: Final = 0.05
"""Pause between two calls of `has_room` while clients have too much unread data, in seconds."""


class Turns:
    """The large messages of one server, which wait for their turns.

    Args:
        has_room: A function that returns False while clients have too much unread data. Large messages then wait.
    """

    def __init__(self, has_room: Callable[[], bool] = lambda: True) -> None:
        self.is_taken = False
        """True while a large message must wait."""
        self._has_room = has_room
        self._waiting: deque[asyncio.Future[None]] = deque()  # messages
        self._starting: deque[asyncio.Future[None]] = deque()  # requests

    @property
    def is_crowded(self) -> bool:
        """True while a request that can have a large result must wait before its handler runs."""
        return bool(self._starting) or len(self._waiting) >= MAX_WAITING

    def take(self) -> None:
        """Note that a large message was encoded in this iteration of the event loop."""
        if not self.is_taken:
            self.is_taken = True
            self._pass_later(ITERATIONS_PER_TURN)

    async def wait(self) -> None:
        """Wait until a large message can be encoded, at least until the next iteration of the event loop."""
        await self._wait_in(self._waiting)

    async def wait_to_start(self) -> None:
        """Wait until a request can start, at least until the next iteration of the event loop."""
        await self._wait_in(self._starting)

    async def _wait_in(self, queue: deque[asyncio.Future[None]]) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        self.take()  # the caller may have found a taken turn that has ended since, so nobody else would end this wait
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # cancelled after it got the turn, which it does not need now
                _end_one(queue)
            raise

    def _pass_later(self, iterations: int) -> None:
        step = partial(self._pass_later, iterations - 1) if iterations > 1 else self._pass_on
        asyncio.get_running_loop().call_soon(step)

    def _pass_on(self) -> None:
        """Give the turn to the next message, and start the next request."""
        has_room = self._has_room()
        if has_room:
            _end_one(self._waiting)
        else:  # cancelled messages must not pile up
            pending = [turn for turn in self._waiting if not turn.done()]
            self._waiting.clear()
            self._waiting.extend(pending)
        if len(self._waiting) < MAX_WAITING:
            _end_one(self._starting)  # the oldest request
        _end_one(self._starting, newest=True)  # even now, so that a queue of one client does not delay the others
        if not has_room and (not self._starting or len(self._waiting) >= MAX_WAITING_FULL):
            asyncio.get_running_loop().call_later(FULL_SECONDS, self._pass_on)
        elif self._waiting or self._starting:
            self._pass_later(ITERATIONS_PER_TURN)
        else:
            self.is_taken = False


def _end_one(turns: deque[asyncio.Future[None]], newest: bool = False) -> None:
    """End the oldest or the newest wait that was not cancelled."""
    while turns:
        turn = turns.pop() if newest else turns.popleft()
        if not turn.done():
            return turn.set_result(None)


current_turns: ContextVar[Turns | None] = ContextVar("current_turns", default=None)
"""The turns of the server that serves the current request; None without such a server."""


def turn_for(value: object) -> Awaitable[None] | None:
    """Return the turn to wait for, if a message with this value will be large, and another was encoded just now."""
    turns = current_turns.get()
    return turns.wait() if turns is not None and turns.is_taken and is_large(value) else None


async def take_turn_to_start() -> None:
    """Wait for a turn to start a request with a large body, because decoding the body takes time too."""
    if (turns := current_turns.get()) is not None:
        if turns.is_taken:
            await turns.wait_to_start()
        turns.take()


def note_size(size: int) -> None:
    """Note that a message of this size, in bytes, was encoded."""
    if size > LARGE_MESSAGE and (turns := current_turns.get()) is not None:
        turns.take()


def is_large(value: object) -> bool:
    """Estimate if the JSON of a value needs more than `LARGE_MESSAGE` bytes, without looking at more of the value."""
    left, values = LARGE_MESSAGE, [value]
    while values and left > 0:
        part = values.pop()
        if isinstance(part, str):
            left -= len(part)
        elif isinstance(part, (dict, list)):
            left -= 4 * len(part)  # a small item, such as `1, `
            if left >= 0:
                values.extend(part.values() if isinstance(part, dict) else part)
    return left <= 0
