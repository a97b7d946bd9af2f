"""The interface between a transport and the session that uses it.

A transport sends and receives JSON-RPC messages as bytes. It leaves methods and features to the session, because they
are the same on every transport [2026-07-28 basic/transports/index#messages]. Anybody MAY write another transport, which
MUST keep the format of messages and their life cycle [2025-11-25 basic/transports#custom-transports].

    the session calls     start(receive, on_end), once
    the transport calls   receive(message), for each message from the peer (the program at the other end)
                          on_end(error or None), once, when the transport has ended

`send` returns at once. The sender then awaits `drain`, so that a peer that reads slowly cannot fill our memory.

Spec:  basic/transports (2024-11-05 to 2025-11-25); 2026-07-28 basic/transports/index
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from ..jsonrpc.errors import McpError
from ..jsonrpc.messages import Incoming, Object, RequestId
from ..jsonrpc.requester import MessageTransport

if TYPE_CHECKING:
    from ..basic.access import Access

Direction = Literal["->", "<-"]  # sent and received
Trace = Callable[[Direction, bytes], None]
"""A function that logs each frame (a message as bytes). A trace with a method `head` logs HTTP heads too (trace.py)."""
Receive = Callable[[Incoming], None]
"""A function that handles one received message, normally `Dispatcher.receive`."""
OnEnd = Callable[[McpError | None], None]
"""A function that a transport calls once, with the error that ended it, or with None after a normal end."""
Notify = Callable[[str, Object], None]
"""A function that sends a notification (method, params) on the stream of a stateless request, before its response."""
Drain = Callable[[], Coroutine[object, object, None]]
"""A function that waits until the client has read most of the notifications that `Notify` has sent."""


async def finish(*tasks: asyncio.Task[object] | None, cancel: bool = False, timeout: float | None = None) -> None:
    """Wait at most `timeout` seconds until the tasks are done. With `cancel`, cancel them first. Skip None."""
    pending = [task for task in tasks if task is not None and not task.done()]
    if cancel:
        for task in pending:
            task.cancel()
    if pending:
        await asyncio.wait(pending, timeout=timeout)


@runtime_checkable
class Transport(MessageTransport, Protocol):
    """The object through which a client or a server exchanges messages with its peer."""

    principal: str | None = None
    """The authenticated caller, which never changes; None if the transport authenticates no callers."""
    latest_access: Access | None = None
    """On a server over HTTP, the rights of the caller's newest access token; None without tokens."""
    waits_for: Callable[[RequestId], bool] | None = None
    """On a client, returns True if a request with this id waits for its response. Only such responses may be large."""
    on_new_session: Callable[[], None] | None = None
    """On a client over HTTP, called when a new session has replaced the one that the server has ended."""
    may_initialize_again: bool = False
    """True if a second `initialize` on this transport begins a new session. Over HTTP, each session has its own."""

    @property
    def has_room(self) -> bool:
        """True if `drain()` would return at once."""
        return False

    async def start(self, receive: Receive, on_end: OnEnd) -> None:
        """Open the transport, and from now on pass each message to `receive`. Raise ConnectionClosed on failure."""

    def close_stream(self, related: RequestId) -> bool:
        """Close the stream of the peer's request `related`. Return False if the peer cannot reconnect and resume it."""
        return False

    async def close(self) -> None:
        """Close the transport. Safe to call from any task, at any time, and more than once."""


class ServedSession(Protocol):
    """A session that a server serves on a transport."""

    async def finish(self) -> None:
        """Wait until the transport has ended, then end the session."""


Begin = Callable[["Transport"], Coroutine[object, object, ServedSession]]
"""A function that begins to serve a session on a transport: `server.session.begin`."""


class HeldResponse(Protocol):
    """The response to a stateless request, held back while the stream of the request stays open."""

    @property
    def has_room(self) -> bool:
        """True if a notification on the stream need not wait for the client to read."""

    def release(self) -> None:
        """Send the response, which ends the stream."""


Hold = Callable[[Callable[[], object]], HeldResponse]
"""A function that holds back a response, with no task that waits. It calls its argument if the client disconnects."""


class EndReport:
    """The report that a transport has ended, which the session receives only once."""

    is_sent = False
    _error: McpError | None = None
    _on_end: OnEnd | None = None  # not None between `deliver_to` and the report

    def deliver_to(self, on_end: OnEnd) -> None:
        """Set the function that receives the report. If the transport has ended already, call it now."""
        if self.is_sent:
            on_end(self._error)
        else:
            self._on_end = on_end

    def send(self, error: McpError | None) -> None:
        if not self.is_sent:
            self.is_sent, self._error = True, error
            on_end, self._on_end = self._on_end, None
            if on_end is not None:
                on_end(error)
