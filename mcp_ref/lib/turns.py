"""Turns: large messages take turns, so that they do not delay small messages.

The event loop needs some milliseconds to encode and send a message of 1 MB, so if a client asked for 400 of them at
once, all other clients would wait for seconds. Therefore one large message is encoded in every `ITERATIONS_PER_TURN`
iterations of the loop, and other work goes on in between. Small messages never wait.

When `MAX_WAITING` large results wait already, a request that can add another one waits too, before its handler runs,
because all the results together would fill the memory. Each turn starts the newest request, and the oldest one too if
fewer results wait: if requests started only in their order, the queue of one busy client would delay all the others.
While clients have too much unread data, no large result is sent. Requests still start at each turn until
`MAX_WAITING_FULL` results wait, and from then on only every `FULL_SECONDS`.

    async def respond(result):
        turn = turn_for(result)
        if turn is not None:
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
from typing import Final

LARGE_MESSAGE: Final = 64 * 1024
"""Size from which a message needs a turn, in bytes."""

ITERATIONS_PER_TURN: Final = 8
"""Number of iterations of the event loop from one large message to the next. The iterations between them are short, so
the other clients, whose requests take several iterations each, hardly notice."""

MAX_WAITING: Final = 4
"""Number of waiting messages from which requests wait too, before their handlers run."""

MAX_WAITING_FULL: Final = 64
"""Number of waiting messages from which requests no longer start at each turn, if clients have too much unread data."""

FULL_SECONDS: Final = 0.05
"""Pause between two calls of `has_room` while clients have too much unread data, in seconds."""


class Turns:
    """The large messages of one server, which wait for their turns.

    Args:
        has_room: A function that returns False while clients have too much unread data. Large messages then wait.
    """

    def __init__(self, has_room: Callable[[], bool] = lambda: True) -> None:
        self.is_taken = False
        """True while a large message must wait, because another one was encoded just now."""
        self._has_room = has_room
        self._waiting: deque[asyncio.Future[None]] = deque()  # the turns of large messages, the oldest first
        self._starting: deque[asyncio.Future[None]] = deque()  # the turns of requests that have not started

    @property
    def is_crowded(self) -> bool:
        """True while a request that can have a large result must wait before its handler runs."""
        return bool(self._starting) or len(self._waiting) >= MAX_WAITING

    def take(self) -> None:
        """Note that a large message was encoded in this iteration of the event loop, so that the next one waits."""
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
        self.take()  # starts the turns again if they have ended since the caller looked, or nothing would end this wait
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # cancelled after it got the turn, which it does not need now
                _give_turn(queue)
            raise

    def _pass_later(self, iterations: int) -> None:
        """Call `_pass_on` after this number of iterations of the event loop."""
        loop = asyncio.get_running_loop()
        if iterations > 1:
            loop.call_soon(self._pass_later, iterations - 1)
        else:
            loop.call_soon(self._pass_on)

    def _pass_on(self) -> None:
        """Let the next message go, start the next requests, and call this again as long as others wait."""
        has_room = self._has_room()
        if has_room:
            _give_turn(self._waiting)
        else:
            self._forget_cancelled_messages()
        if len(self._waiting) < MAX_WAITING:
            _give_turn(self._starting)
        _give_turn(self._starting, newest=True)  # however many messages wait
        may_start_more = bool(self._starting) and len(self._waiting) < MAX_WAITING_FULL
        if not has_room and not may_start_more:
            # Look again later. Until clients have read, large messages wait, so `is_taken` stays True in any case.
            asyncio.get_running_loop().call_later(FULL_SECONDS, self._pass_on)
        elif self._waiting or self._starting:
            self._pass_later(ITERATIONS_PER_TURN)
        else:
            self.is_taken = False

    def _forget_cancelled_messages(self) -> None:
        """Remove the turns of cancelled messages, which would pile up while no message goes."""
        pending = [turn for turn in self._waiting if not turn.done()]
        self._waiting.clear()
        self._waiting.extend(pending)


def _give_turn(queue: deque[asyncio.Future[None]], newest: bool = False) -> None:
    """Give the oldest waiter in a queue its turn, or the newest, and skip those that were cancelled."""
    while queue:
        turn = queue.pop() if newest else queue.popleft()
        if not turn.done():
            return turn.set_result(None)


current_turns: ContextVar[Turns | None] = ContextVar("current_turns", default=None)
"""The turns of the server that serves the current request; None without such a server."""


def turn_for(value: object) -> Awaitable[None] | None:
    """Return the turn to wait for, or None if a message with this value is small, or no other was encoded just now."""
    turns = current_turns.get()
    if turns is None or not turns.is_taken or not is_large(value):
        return None
    return turns.wait()


async def take_turn_to_start() -> None:
    """Wait for a turn to start a request with a large body, because decoding the body takes time too."""
    turns = current_turns.get()
    if turns is None:
        return
    if turns.is_taken:
        await turns.wait_to_start()
    turns.take()


def note_size(size: int) -> None:
    """Note that a message of this size, in bytes, was encoded."""
    if size > LARGE_MESSAGE and (turns := current_turns.get()) is not None:
        turns.take()


def is_large(value: object) -> bool:
    """Estimate if the JSON of a value needs more than `LARGE_MESSAGE` bytes. Stop as soon as that is certain."""
    bytes_left = LARGE_MESSAGE
    parts = [value]  # whose size is not subtracted yet
    while parts and bytes_left > 0:
        part = parts.pop()
        if isinstance(part, str):
            bytes_left -= len(part)
        elif isinstance(part, (dict, list)):
            bytes_left -= 4 * len(part)  # a small item, such as `1, `, needs about four bytes
            if bytes_left >= 0:
                parts.extend(part.values() if isinstance(part, dict) else part)
    return bytes_left <= 0
