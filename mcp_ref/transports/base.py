"""The contract between a transport and the session above it.

A transport carries JSON-RPC messages as bytes over one medium, such as a pipe or HTTP. It knows neither methods nor
features, because MCP means the same on every transport [2026-07-28 basic/transports/index#messages]. Anybody may add a
transport that keeps the message format [2025-11-25 basic/transports#custom-transports].

    start(receive, on_end)  ->  receive(message) for each message  ->  on_end(error or None), once

A slow peer must not fill our memory: `send` returns at once, and `drain` waits until the peer has read enough.

Spec:  basic/transports (2024-11-05 to 2025-11-25); 2026-07-28 basic/transports/index
Above: session.py
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal, Protocol, runtime_checkable

from ..jsonrpc import requester
from ..jsonrpc.errors import McpError
from ..jsonrpc.messages import Incoming, Object, RequestId

Direction = Literal["->", "<-"]
"""The direction of a frame: "->" for a frame that we send, "<-" for a frame that we receive."""
Trace = Callable[[Direction, bytes], None]
"""A function that sees every frame. If it has a method `head`, it sees HTTP heads too (`trace.HeadTrace`)."""
Receive = Callable[[Incoming], None]
"""A function that takes each received message: `Dispatcher.receive`."""
OnEnd = Callable[[McpError | None], None]
"""A function that is called once, when the transport has ended: with None after an orderly end, or with the reason."""
Notify = Callable[[str, Object], None]
"""A function that sends a notification (method, params) on the response of a stateless request."""
Drain = Callable[[], Awaitable[None]]
"""A function that waits until the client has read enough of the response to a stateless request."""


def no_trace(direction: Direction, frame: bytes) -> None:
    """Do nothing: the trace of a transport without a trace."""


async def finish(*tasks: asyncio.Task[object] | None, cancel: bool = False, timeout: float | None = None) -> None:
    """Wait until the tasks are done, for at most `timeout` seconds. `cancel` cancels them first. None is skipped."""
    pending = [task for task in tasks if task is not None and not task.done()]
    for task in pending if cancel else ():
        task.cancel()
    if pending:
        await asyncio.wait(pending, timeout=timeout)


@runtime_checkable
class Transport(requester.Transport, Protocol):
    """One end of a connection that carries the messages of one session."""

    principal: str | None = None
    """The authenticated caller, or None if the transport authenticates nobody. It does not change."""

    async def start(self, receive: Receive, on_end: OnEnd) -> None:
        """Open the transport. Deliver messages to `receive` from now on. Raises ConnectionClosed if it cannot open."""

    def close_stream(self, related: RequestId) -> bool:
        """Close the connection that the peer's request `related` waits on. The peer reconnects. Return True if closed.

        A transport without a connection per request returns False.
        """
        return False

    async def close(self) -> None:
        """Close the transport and release its resources. May be called at any time, from any task, repeatedly."""


class EndReport:
    """A transport's report to its session that the transport has ended. Only the first report is delivered."""

    def __init__(self) -> None:
        self.is_sent = False
        """True if the end was reported."""
        self._error: McpError | None = None
        self._on_end: OnEnd | None = None

    def deliver_to(self, on_end: OnEnd) -> None:
        """Deliver the report to `on_end`, at once if the transport has ended already."""
        if self.is_sent:
            on_end(self._error)
        else:
            self._on_end = on_end

    def send(self, error: McpError | None) -> None:
        """Report the end. Later reports are ignored."""
        if not self.is_sent:
            self.is_sent, self._error = True, error
            on_end, self._on_end = self._on_end, None
            if on_end is not None:
                on_end(error)
