"""Transports move messages between two peers. They know JSON-RPC, but no method and no feature.

A transport turns bytes into messages (`jsonrpc.messages.decode`) and hands them to one receiver; it turns messages
into bytes and lets the other side take its time: nothing waits on a slow peer but those who send to it.

    start(receive, lost)  ->  receive(message)*  ->  lost(error or None)

Spec:  basic/transports (2024-11-05 to 2025-11-25)
Files: `lines.py` (bytes to lines), `stdio.py` (a server process), `memory.py` (two peers in one program), `trace.py`
       (to see every frame; `trace.py`: and every head)
Above: `runtime/connection.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal, Protocol

from ..jsonrpc import requester
from ..jsonrpc.errors import McpError
from ..jsonrpc.messages import Incoming, Object, RequestId

Trace = Callable[[Literal["->", "<-"], bytes], None]
"""Sees every frame: "->" for one that we send, "<-" for one that we receive. One that has a method `head` sees the
heads of HTTP requests and responses as well; see trace.py."""

Receive = Callable[[Incoming], None]
"""Takes one frame's content; `Dispatcher.receive`."""

Lost = Callable[[McpError | None], None]
"""Called once, when nothing more will come: with None for an orderly end, else with what happened."""

Tell = Callable[[str, Object], None]
"""Sends a notification, by method and params, on the way that a request of the stateless era came."""

Drain = Callable[[], Awaitable[None]]
"""Waits until the client has taken enough of what was sent on that way."""


class Transport(requester.Transport, Protocol):
    """What carries one connection."""

    principal: str | None = None
    """The authenticated caller, or None where the transport authenticates nobody. It does not change."""

    async def start(self, receive: Receive, lost: Lost) -> None:
        """Open it. Messages arrive at `receive` from then on. Raises ConnectionClosed where it cannot be opened."""

    def interrupt(self, related: RequestId) -> bool:
        """Let go of what carries the peer's request `related`, which the peer takes up again later. False where
        nothing carries a single request."""
        return False

    async def close(self) -> None:
        """Close it and release all that it holds. May be called at any time, from any task, any number of times."""


class FlowControl:
    """Flow control: closed while the peer does not take what was sent, open otherwise."""

    def __init__(self) -> None:
        self._opened: asyncio.Future[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether nobody has to wait."""
        return self._opened is None

    def shut(self) -> None:
        """Senders shall wait from now on."""
        if self._opened is None:
            self._opened = asyncio.get_running_loop().create_future()

    def open(self) -> None:
        """Senders shall go on."""
        if self._opened is not None and not self._opened.done():
            self._opened.set_result(None)
        self._opened = None

    async def wait(self) -> None:
        """Return at once if open, else when it opens."""
        if self._opened is not None:
            await asyncio.shield(self._opened)  # one waiter that is cancelled must not cancel it for all
