"""The contract between a transport and the session above it.

A transport turns bytes into JSON-RPC messages on one medium, and messages into bytes. It knows no method and no
feature, because MCP means the same on every transport [2026-07-28 basic/transports/index#messages]. Anybody may add a
transport, if it keeps the message format [2025-11-25 basic/transports#custom-transports].

    start(receive, lost)  ->  receive(message) for each message  ->  lost(error or None), once

A slow peer must not fill our memory: `send` returns at once, and `drain` waits until the peer has read enough.

Spec:  basic/transports (2024-11-05 to 2025-11-25); 2026-07-28 basic/transports/index
Above: session.py
"""

from __future__ import annotations

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
"""The function that takes each received message: `Dispatcher.receive`."""
Lost = Callable[[McpError | None], None]
"""The function that is called once when no further message can arrive: with None after an orderly end, else with the
reason."""
Tell = Callable[[str, Object], None]
"""A function that sends a notification (method, params) on the response of a stateless request."""
Drain = Callable[[], Awaitable[None]]
"""A function that waits until the client has read enough of that response."""


@runtime_checkable
class Transport(requester.Transport, Protocol):
    """One end of a connection that carries the messages of one session."""

    principal: str | None = None
    """The authenticated caller, or None if the transport authenticates nobody. It does not change."""

    async def start(self, receive: Receive, lost: Lost) -> None:
        """Open the transport. Deliver messages to `receive` from now on. Raises ConnectionClosed if it cannot open."""

    def interrupt(self, related: RequestId) -> bool:
        """Close the connection of the peer's request `related`; the peer reconnects later. Return True if done.

        A transport without a connection per request returns False.
        """
        return False

    async def close(self) -> None:
        """Close the transport and release its resources. May be called at any time, from any task, repeatedly."""


class EndReport:
    """The report of a transport's end to the session above: sent exactly once, with the first reason."""

    def __init__(self) -> None:
        self.is_sent = False
        """True if the end was reported."""
        self._error: McpError | None = None
        self._lost: Lost | None = None

    def deliver_to(self, lost: Lost) -> None:
        """Deliver the report to `lost`; at once if the transport has ended already."""
        if self.is_sent:
            lost(self._error)
        else:
            self._lost = lost

    def send(self, error: McpError | None) -> None:
        """Report the end; later reports are ignored."""
        if self.is_sent:
            return
        self.is_sent, self._error = True, error
        lost, self._lost = self._lost, None
        if lost is not None:
            lost(error)
