"""The parts of the server that both HTTP transports share: limits, the base class of sessions, and the heartbeat.

In both, the client sends each message of a session by POST. They differ in the way the responses come back: on the
streams of Streamable HTTP (session.py), or on the single stream of HTTP+SSE (../http_sse/server.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ...basic.access import Access
from ...jsonrpc.errors import ConnectionClosed, McpError
from ...jsonrpc.messages import Incoming
from ...lib.fields import CheckedTimes
from ...lib.shares import Shares
from ..base import EndReport, OnEnd, Receive, Trace, Transport
from .checks import HttpRefusal


@dataclass(frozen=True, slots=True)
class EndpointLimits(CheckedTimes):
    """The limits of one HTTP endpoint."""

    sessions: int = 10_000
    """Maximum number of sessions. A new one replaces an idle one. If none is idle, or in HTTP+SSE, it gets 503."""
    sessions_per_caller: int = 1000
    """Maximum number of sessions of one caller: a principal, or else everyone at one IP address or IPv6 network."""
    session_idle: float = 1800.0
    """Time after which the server ends an idle session (no request in flight, and no listening client), in seconds."""
    initialize: int = 64 * 1024
    """Maximum size of an `initialize` message, which the session stores, in bytes (64 KiB). A larger one gets 413."""
    session_bytes_per_caller: int = 64 * 1024 * 1024
    """Maximum memory of one caller's sessions without their events, which the event store limits, in bytes (64 MiB)."""
    session_bytes: int = 256 * 1024 * 1024
    """Maximum memory of the sessions of all callers, in bytes (256 MiB)."""
    request_bytes_per_caller: int = 128 * 1024 * 1024
    """Maximum memory of one caller's requests in flight, in bytes (128 MiB). More get 503, or an error in a session."""
    request_bytes: int = 512 * 1024 * 1024
    """Maximum memory of all callers' requests in flight, in bytes (512 MiB). More get 503, or an error in a session."""
    streams: int = 512
    """Maximum number of streams of one session. A further POST of a request gets 429."""
    requests: int = 1000
    """Maximum number of stateless requests in flight, except subscriptions. The server refuses more with 503."""
    requests_per_caller: int = 500
    """Maximum number of stateless requests of one caller in flight, except subscriptions. More get 503."""
    subscriptions: int = 10_000
    """Maximum number of open `subscriptions/listen` requests. The server refuses a further one with 503."""
    subscriptions_per_caller: int = 1000
    """Maximum number of open `subscriptions/listen` requests of one caller. More get 503."""
    keep_alive: float = 15.0
    """Time between two comments on a stream, in seconds. Without comments, a proxy could close a silent stream."""
    retry: int = 1000
    """Time after which a client reconnects to a stream whose connection the server closed early, in milliseconds."""


RETRY_LATER: Final = [("Retry-After", "5")]  # of a 503 response: time until the client can try again, in seconds
SESSION_COST: Final = 16 * 1024  # memory of a session in addition to its `initialize` message, in bytes


def check_initialize(frame: bytes, limits: EndpointLimits) -> None:
    if len(frame) > limits.initialize:
        raise HttpRefusal(413, f"an initialize message must have at most {limits.initialize} bytes")


class SessionTransport(Transport):
    """The server's transport of a session whose client sends each message by POST."""

    def __init__(self, access: Access, trace: Trace | None, shares: Shares) -> None:
        self.principal, self.caller = access.id, access.caller
        self.shares_and_caller = (shares, access.caller)  # shares limit the memory of each caller's requests in flight
        self._trace = trace
        self._receive: Receive | None = None
        self._end_report = EndReport()
        self._resumed: asyncio.Event | None = asyncio.Event()  # set when a pause ends; None without a pause

    async def start(self, receive: Receive, on_end: OnEnd) -> None:
        self._receive = receive
        self.resume_reading()
        self._end_report.deliver_to(on_end)

    @property
    def is_paused(self) -> bool:
        """True if `wait_until_reading` must be awaited before `receive`."""
        return self._resumed is not None

    async def wait_until_reading(self) -> None:
        while self._resumed is not None:  # a loop, because the session may be paused again before this task runs
            await self._resumed.wait()

    def receive(self, message: Incoming, frame: bytes) -> None:
        if self._trace is not None and frame:  # empty if the server repeats a request to restore the session
            self._trace("<-", frame)
        if self._receive is not None:
            self._receive(message)

    def pause_reading(self) -> None:
        self._resumed = self._resumed or asyncio.Event()

    def resume_reading(self) -> None:
        if self._resumed is not None:
            self._resumed.set()
            self._resumed = None

    def end(self, error: McpError | None = None) -> None:
        self._end_report.send(error)

    async def close(self) -> None:
        self._receive = None
        self.resume_reading()
        self.end(ConnectionClosed("the session has ended"))


class Heartbeat:
    """A timer that calls the function `beat` at regular intervals, from `start` until `beat` returns False."""

    def __init__(self, seconds: float, beat: Callable[[], bool]) -> None:
        self._seconds, self._beat = seconds, beat
        self._timer: asyncio.TimerHandle | None = None  # None while it does not run

    def start(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._run)

    def _run(self) -> None:
        self._timer = None
        if self._beat():
            self.start()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
