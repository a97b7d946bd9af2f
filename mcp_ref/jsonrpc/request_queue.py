"""The queue of the peer's requests that wait for a slot, because the dispatcher already serves as many as it may.

As many requests may wait as there are slots. While there is room for more, the transport keeps reading, because a
handler may need the peer's response or cancellation; once the queue is full, it stops. If no waiting request gets a
slot within `Limits.patience` seconds, and running handlers use all slots, all waiting requests are refused.

Used by: dispatcher.py
"""

from __future__ import annotations

import asyncio
from collections.abc import Sized

from .messages import RequestId
from .requester import MessageTransport


class RequestQueue:
    """The queue of one dispatcher.

    Args:
        slots: number of slots.
        patience: time after which the waiting requests are refused, in seconds.
        tasks: the tasks that use a slot or wait for one. They are only counted.
        unfinished: the peer's requests without a response, including waiting ones. They are only counted.
    """

    def __init__(
        self, slots: int, patience: float, transport: MessageTransport, tasks: Sized, unfinished: Sized
    ) -> None:
        self._slots, self._patience, self._transport = slots, patience, transport
        self._tasks, self._unfinished = tasks, unfinished
        self._waiting: dict[RequestId, asyncio.Future[bool]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_paused = False

    @property
    def is_full(self) -> bool:
        """True if no further request can wait."""
        return len(self._tasks) >= 2 * self._slots

    def add(self, id: RequestId) -> asyncio.Future[bool]:
        """Let a request wait. Return a future: True when the request has a slot, False if it is refused."""
        got_slot = self._waiting[id] = asyncio.get_running_loop().create_future()
        if len(self._waiting) == 1:
            self._restart_timer()
        return got_slot

    def remove(self, id: RequestId) -> None:
        """Forget a request. Do nothing if it does not wait."""
        self._waiting.pop(id, None)

    def pause_if_full(self) -> None:
        """Stop reading if no further request can wait. Called when a task begins."""
        if not self._is_paused and self.is_full:
            self._is_paused = True
            self._transport.pause_reading()

    def give_free_slots(self) -> None:
        """Give waiting requests the slots that a task has freed, and read again if further requests can wait."""
        while self._waiting and len(self._tasks) - len(self._waiting) < self._slots:  # a task uses a slot or waits
            self._end_wait(next(iter(self._waiting)), has_slot=True)
            self._restart_timer()
        if self._is_paused and not self.is_full:
            self._is_paused = False
            self._transport.resume_reading()

    def close(self) -> None:
        """Give no more slots, and neither stop nor resume reading."""
        self._waiting.clear()
        self._is_paused = False  # so that `give_free_slots` does not resume reading
        if self._timer is not None:
            self._timer.cancel()

    def _end_wait(self, id: RequestId, has_slot: bool) -> None:
        got_slot = self._waiting.pop(id)
        if not got_slot.done():  # it is done if the request was cancelled and its task has not yet called `remove`
            got_slot.set_result(has_slot)

    def _restart_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(self._patience, self._refuse_waiting)

    def _refuse_waiting(self) -> None:
        """Refuse the waiting requests if running handlers use all slots.

        Otherwise, a response that the peer has not read yet uses a slot. The requests then go on waiting, because the
        peer can free this slot itself.
        """
        running = len(self._unfinished) - len(self._waiting)
        if running >= self._slots:
            for id in list(self._waiting):
                self._end_wait(id, has_slot=False)
