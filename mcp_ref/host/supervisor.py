"""The supervision of one server: start it, list its tools, notice its end, and start it again.

One asyncio task owns one server, and makes all transitions of its state. So a server that does not start, that is
silent or floods, or that ends again and again, costs only itself.

    Restart   after 1, 2, 4 ... 60 seconds, with 20 % of chance. The pause is short again after 60 seconds of readiness,
              not after each successful start: a server that responds once and exits would start thousands of times.
    Tools     of a server that is away stay in the list for 60 seconds, and their calls fail at once.
    Changes   of the list of tools are fetched at most once a second, and ever more rarely if nothing has changed.

Spec:  2026-07-28 basic/transports/stdio#unexpected-termination, server/tools#list-changed-notification,
       basic/patterns/cancellation#timeouts
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Literal

from ..basic.authorization.errors import AuthorizationError
from ..basic.lifecycle import UnsupportedRevision
from ..client.client import Client
from ..features.tools import Tool
from ..jsonrpc.errors import ConnectionClosed, McpError, RequestTimeout
from ..transports.base import Direction, Trace
from .configuration import ConfigurationError, ServerConfig
from .launch import Launch
from .policy import Refused

log = logging.getLogger(__name__)

STARTUP_SECONDS = 30.0
"""Default time limit for the start, the negotiation and the first list of tools, in seconds."""

GRACE_SECONDS = 60.0
"""Time for which the tools of a server that is away stay in the list, in seconds."""

MIN_PAUSE = 1.0
"""Pause before the first restart, and minimum time between two lists of tools, in seconds."""

MAX_PAUSE = 60.0
"""Maximum pause before a restart, and maximum time between two lists of tools, in seconds."""

READY_SECONDS = 60.0
"""Time of readiness after which the pause before a restart is short again, in seconds."""

MAX_FAILURES = 6
"""Maximum number of failures within `FAILURE_SECONDS`. After them, the server is not started again."""

FAILURE_SECONDS = 600.0
"""The time in which failures are counted, in seconds (10 minutes)."""

MAX_LOST_CALLS = 5
"""Number of successive calls without a response after which the server gets no calls for `SUSPEND_SECONDS`."""

SUSPEND_SECONDS = 30.0
"""Time without calls after `MAX_LOST_CALLS`, in seconds. Then a ping decides."""

MAX_TOOLS, MAX_PAGES = 1000, 100
"""Maximum number of tools of one server, and maximum number of pages of one list."""

MAX_TOOL_BYTES, MAX_TOOLS_BYTES = 64 * 1024, 4 * 1024 * 1024
"""Maximum size of one definition of a tool, and of all definitions of one server, in bytes (64 KiB, 4 MiB)."""

MAX_RATE = 1000.0
"""Maximum number of messages per second that a server can send without being asked. More messages wait."""

MAX_BURST = 20
"""Maximum number of such messages that are handled at once."""


_HTTP_REFUSED = re.compile(r"\bHTTP 40[13]\b")


class ServerState(Enum):
    """The state of a server in a host.

    DISABLED      IDLE --first use or start--> UNAPPROVED --allowed--> STARTING --ready--> READY <---> SUSPENDED
                   |                               |                    | ^                   |             |
    MISCONFIGURED <+                               +--denied: stays     v |                   v             v
                                                        FAILED <-- BACKING_OFF <--ended, or a lost connection
    A person, or a changed configuration, starts a server again from every state. STOPPED: the host is closed.
    """

    IDLE = "idle"
    DISABLED = "disabled"
    MISCONFIGURED = "misconfigured"
    UNAPPROVED = "unapproved"
    STARTING = "starting"
    READY = "ready"
    SUSPENDED = "suspended"
    BACKING_OFF = "backing_off"
    FAILED = "failed"
    STOPPED = "stopped"


_FINAL = {ServerState.DISABLED, ServerState.MISCONFIGURED, ServerState.FAILED, ServerState.STOPPED}


@dataclass
class ServerStatus:
    """The state of one server, as plain data without secrets."""

    name: str
    state: ServerState = ServerState.IDLE
    since: float = 0.0
    """Time of the last transition, in seconds since 1970."""
    revision: str | None = None
    era: str | None = None
    transport: str = "stdio"
    """"stdio", "http" or "memory"."""
    tools: int = 0
    """Number of tools in the list."""
    unapproved_tools: list[str] = field(default_factory=list)
    """Names of the tools whose definition changed and was not allowed."""
    restarts: int = 0
    """Number of restarts since the host was opened."""
    next_try: float | None = None
    """Time until the next restart when the state began, in seconds."""
    last_error: str | None = None
    in_flight: int = 0
    """Number of calls that wait for a result."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Numbers of dropped things, by kind: log messages, and tools over a limit."""
    config_file: str | None = None
    warnings: list[str] = field(default_factory=list)


class ServerUnavailable(McpError):
    """A request to a server that is away. Nothing was sent. The text says the state, the reason and the next try."""


class Pauses:
    """The pauses between the starts of one server. It has no clock: each method gets the time."""

    def __init__(self, jitter: Callable[[], float] = lambda: random.uniform(0.8, 1.2)) -> None:
        self._jitter = jitter
        self._pause = MIN_PAUSE
        self._failures: deque[float] = deque(maxlen=MAX_FAILURES)

    def after_failure(self, now: float, ready_seconds: float) -> float | None:
        """Return the pause before the next start, in seconds, or None if the server must not be started again.

        Args:
            now: The time, in seconds.
            ready_seconds: Time for which the server was ready, in seconds.
        """
        if ready_seconds >= READY_SECONDS:
            self._pause = MIN_PAUSE
        self._failures.append(now)
        if len(self._failures) == MAX_FAILURES and now - self._failures[0] < FAILURE_SECONDS:
            return None
        pause, self._pause = self._pause, min(2 * self._pause, MAX_PAUSE)
        return pause * self._jitter()


class Throttle:
    """A pause of reading for a server that sends many messages without being asked. It is the client's `trace`."""

    def __init__(self, trace: Trace | None) -> None:
        self.client: Client | None = None
        self._trace = trace
        self._excess = 0.0  # received minus sent messages, less `MAX_RATE` for each second
        self._checked = 0.0

    def __call__(self, direction: Direction, frame: bytes) -> None:
        if self._trace is not None:
            self._trace(direction, frame)
        self._excess += 1 if direction == "<-" else -1
        if self._excess > MAX_BURST:
            self._slow_down()

    def _slow_down(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._excess = max(0.0, self._excess - (now - self._checked) * MAX_RATE)
        self._checked = now
        transport = self.client.transport if self.client is not None else None
        if self._excess > MAX_BURST and transport is not None:
            transport.pause_reading()
            loop.call_later(MAX_BURST / MAX_RATE, transport.resume_reading)


class Supervisor:
    """The owner of one server. The host gives it functions to create a client, to approve, and to report changes.

    Args:
        config: The server.
        prepare: Asks for consent, and returns the server with its variables replaced, or None for an in-process server.
        connect: Creates the client of one start.
        accept: Returns the tools whose definitions are approved.
        report: Called with "state" or "tools" after each change.
        starting: Limits the number of servers that start at the same time.
        is_lazy: True if the server starts at its first use.
    """

    def __init__(
        self, config: ServerConfig, prepare: Callable[[], Awaitable[Launch]],
        connect: Callable[[Launch, Supervisor], Client], accept: Callable[[Launch, list[Tool]], list[Tool]],
        report: Callable[[Literal["state", "tools"]], None], starting: asyncio.Semaphore, is_lazy: bool = False,
    ) -> None:  # fmt: skip
        self.config, self.is_lazy, self._starting = config, is_lazy, starting
        self._prepare, self._connect, self._accept, self._report = prepare, connect, accept, report
        self.status = ServerStatus(config.name, config_file=config.file, warnings=list(config.warnings))
        self.client: Client | None = None
        self.launch: Launch | None = None
        self.tools: dict[str, Tool] = {}
        """The approved tools by name. After the end of the server they stay for `GRACE_SECONDS`."""
        self.attempted = asyncio.Event()
        """Set when the first start has succeeded or failed."""
        self.lost_calls = 0
        """Number of successive calls without a response."""
        self.stale = False
        """True if the server has reported a change of its tools that was not fetched yet."""
        self._wake, self._used, self._moved = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._refreshed, self._interval = 0.0, MIN_PAUSE
        self._grace: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._pauses = Pauses()

    def start(self) -> None:
        """Start the supervision, also again after its end."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name=f"supervise {self.config.name}")

    async def stop(self) -> None:
        """End the supervision and close the client. The state is then STOPPED."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._change(ServerState.STOPPED)
        if self._grace is not None:
            self._grace.cancel()

    async def restart(self) -> None:
        """Start the server again, from every state, as a person has asked."""
        await self.stop()
        self._pauses, self._task = Pauses(), None
        self._used.set()
        self._change(ServerState.IDLE)
        self.start()

    def wake(self) -> None:
        """Make the task look at the server again."""
        self._wake.set()

    def list_changed(self) -> None:
        """Note that the server has reported a change of its tools."""
        self.stale = True
        self._wake.set()

    async def ready_client(self, wait: float = 0.0) -> Client:
        """Return the client of a server that is ready.

        Args:
            wait: Maximum time to wait for a server that is away, in seconds. A lazy server always gets the time for
                one start.

        Raises:
            ServerUnavailable: If the server is away.
        """
        if self.client is not None and self.status.state is ServerState.READY:
            return self.client
        if self.is_lazy and not self._used.is_set():
            self._used.set()
            wait = max(wait, (self.config.startup_seconds or STARTUP_SECONDS) + 1)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):
                while self.status.state is not ServerState.READY and self.status.state not in _FINAL and wait > 0:
                    await self._moved.wait()
        if self.client is None or self.status.state is not ServerState.READY:
            raise self.unavailable()
        return self.client

    def unavailable(self) -> ServerUnavailable:
        status = self.status
        retry = f"; the next start is in at most {status.next_try:.0f} s" if status.next_try is not None else ""
        reason = f": {status.last_error}" if status.last_error else ""
        return ServerUnavailable(f"the server {status.name} is {status.state.value}{retry}{reason}")

    def _change(self, state: ServerState, error: str | None = None, next_try: float | None = None) -> None:
        status = self.status
        status.next_try = next_try
        status.last_error = error if error is not None else status.last_error
        if status.state is not state:
            status.state, status.since = state, time.time()
            self._moved.set()
            self._moved = asyncio.Event()
            self._report("state")

    async def _run(self) -> None:
        """Make all transitions, until the server cannot be started or the task is cancelled."""
        try:
            if self.config.is_disabled:
                return self._change(ServerState.DISABLED)
            if self.is_lazy:
                await self._used.wait()
            while (pause := await self._run_once()) is not None:
                self._change(ServerState.BACKING_OFF, next_try=pause)
                self.attempted.set()
                await asyncio.sleep(pause)
                self.status.restarts += 1
        except Exception as error:  # a fault of this package, or of a callback: it must not end other servers
            log.exception("the supervision of %s failed", self.config.name)
            self._change(ServerState.FAILED, f"internal error: {error}")
        finally:
            self.attempted.set()

    async def _run_once(self) -> float | None:
        """Start the server once, and serve it until it ends. Return the pause before the next start, or None."""
        loop, ready_at = asyncio.get_running_loop(), None
        try:
            self._change(ServerState.UNAPPROVED)
            self.launch = await self._prepare()
            self._change(ServerState.STARTING)
            self.client = client = self._connect(self.launch, self)
            async with self._starting, asyncio.timeout(self.config.startup_seconds or STARTUP_SECONDS):
                await client.connect()
                await self._refresh(client)
            ready_at = loop.time()
            error: Exception = await self._serve(client)
        except ConfigurationError as fault:
            self._change(ServerState.MISCONFIGURED, str(fault))
            return None
        except Refused as refusal:
            self._change(ServerState.UNAPPROVED, str(refusal))
            return None
        except TimeoutError:
            seconds = self.config.startup_seconds or STARTUP_SECONDS
            error = RequestTimeout(f"the server was not ready within {seconds:g} s")
        except (McpError, OSError, ValueError) as failure:
            error = failure
        finally:
            await self._end()
        text = self._masked(error)
        log.warning("the server %s is away: %s", self.config.name, text)
        pause = self._pauses.after_failure(loop.time(), 0.0 if ready_at is None else loop.time() - ready_at)
        if _is_permanent(error) or pause is None:
            self._change(ServerState.FAILED, text)
            return None
        self.status.last_error = text
        return pause

    async def _end(self) -> None:
        """Close the client, so that its process has ended before another one starts."""
        client, self.client = self.client, None
        if client is not None:
            self._grace = asyncio.get_running_loop().call_later(GRACE_SECONDS, self._drop_tools)
            await client.close()

    async def _serve(self, client: Client) -> Exception:
        """Serve a ready server: fetch changed lists, and send a ping to a suspended server. Return why it ended."""
        if self._grace is not None:
            self._grace.cancel()
        loop, ended = asyncio.get_running_loop(), client.session.ended
        ended.add_done_callback(lambda _: self._wake.set())
        self.lost_calls, suspended_until = 0, 0.0
        self.status.revision, self.status.era = str(client.revision), client.revision.era
        self._change(ServerState.READY)
        self.attempted.set()
        while not ended.done():
            self._wake.clear()
            now = loop.time()
            if self.lost_calls >= MAX_LOST_CALLS and self.status.state is ServerState.READY:
                suspended_until = now + SUSPEND_SECONDS
                self._change(ServerState.SUSPENDED, f"{self.lost_calls} successive calls had no response", 
                             SUSPEND_SECONDS)  # fmt: skip
            elif self.status.state is ServerState.SUSPENDED and now >= suspended_until:
                try:
                    await client.ping(timeout=MIN_PAUSE * 5)
                except (McpError, OSError) as error:
                    return error
                self.lost_calls = 0
                self._change(ServerState.READY)
            elif self.stale and now >= self._refreshed + self._interval:
                await self._refresh_changed(client)
            due = [self._refreshed + self._interval] if self.stale else []
            due += [suspended_until] if self.status.state is ServerState.SUSPENDED else []
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(min(due) if due else None):
                    await self._wake.wait()
        return ended.result() or ConnectionClosed("the server has ended the connection")

    async def _refresh_changed(self, client: Client) -> None:
        """Fetch the tools after a change. A failure keeps the old list. An unchanged list doubles the interval."""
        before = self.tools
        try:
            await self._refresh(client)
        except (McpError, OSError) as error:
            self.status.last_error = self._masked(error)
        is_changed = self.tools != before
        self._interval = MIN_PAUSE if is_changed else min(2 * self._interval, MAX_PAUSE)
        if is_changed:
            self._report("tools")

    async def _refresh(self, client: Client) -> None:
        """Fetch the tools. Skip those that the configuration, the limits or the policy do not allow."""
        self.stale = False
        self._refreshed = asyncio.get_running_loop().time()
        listed = await client.list_tools() if client.server_can("tools") else []
        kept: list[Tool] = []
        size = 0
        for tool in listed:
            bytes_of_tool = len(json.dumps(asdict(tool)))
            size += bytes_of_tool
            if len(kept) >= MAX_TOOLS or bytes_of_tool > MAX_TOOL_BYTES or size > MAX_TOOLS_BYTES:
                self.status.dropped["tools"] = self.status.dropped.get("tools", 0) + 1
            elif self.config.allows_tool(tool.name):
                kept.append(tool)
        assert self.launch is not None
        accepted = self._accept(self.launch, kept)
        self.tools = {tool.name: tool for tool in accepted}
        self.status.tools = len(self.tools)

    def _drop_tools(self) -> None:
        """Remove the tools of a server that stayed away."""
        if self.tools and self.client is None:
            self.tools, self.status.tools = {}, 0
            self._report("tools")

    def _masked(self, error: BaseException) -> str:
        text = str(error) or type(error).__name__
        return self.launch.mask(text) if self.launch is not None else text


def _is_permanent(error: BaseException) -> bool:
    """Return True if the next start would fail too: no such program, no permission, or no common revision."""
    if isinstance(error, AuthorizationError | UnsupportedRevision | TypeError):
        return True
    is_refused = isinstance(error, ConnectionClosed) and _HTTP_REFUSED.search(str(error)) is not None
    return is_refused or isinstance(error.__cause__, FileNotFoundError | PermissionError | NotADirectoryError)
