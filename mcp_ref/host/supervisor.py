"""The supervision of one server: start it, list its tools, notice its end, and start it again.

Each server has its own asyncio task, so a server that does not start, is silent, floods us with messages or keeps
ending does not disturb the others.

    Restart   The pauses are 1, 2, 4 ... 60 seconds, each up to 20 % longer or shorter, at random. They begin
              again at 1 second only after the server was ready for 60 seconds, not after each successful start.
    Calls     After five calls in a row without a response, the server gets no calls for 30 seconds, and then a ping.
    Tools     While the server is not ready, its tools stay in the list for 60 seconds, but calls fail at once.
    Changes   After a change, the tools are fetched at most once a second. Each fetch that finds no difference doubles
              this pause, up to 60 seconds.

Threats:
    restart-loop: A server keeps the user's computer busy by ending after each start. The pauses between its starts
        grow, and after 6 failures in 10 minutes the host does not start it again.
    list-loop: A server wastes the host's processor time by reporting changes although its tools stay the same.
        Each fetch that finds no difference doubles the pause before the next.

Spec:  2026-07-28 basic/transports/stdio#unexpected-termination, server/tools#list-changed-notification
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from enum import Enum

from ..basic.authorization.errors import AuthorizationError, SignInNeeded
from ..basic.lifecycle import UnsupportedRevision
from ..client.client import Client
from ..features.tools import Tool
from ..jsonrpc.errors import ConnectionClosed, McpError, RequestTimeout
from .approval import Refused
from .configuration import ConfigurationError, ServerConfig
from .names import model_names

log = logging.getLogger(__name__)

STARTUP_SECONDS = 30.0
"""Default time limit for starting a server, negotiating, and fetching its first list of tools, in seconds."""

GRACE_SECONDS = 60.0
"""Time for which the tools of a server that is not ready stay in the list, in seconds."""

MIN_PAUSE, MAX_PAUSE = 1.0, 60.0
"""Shortest and longest pause before a restart (without the random part) or the next list of tools, in seconds."""

READY_SECONDS = 60.0
"""Time for which a server must be ready before the pauses are short again, in seconds."""

MAX_FAILURES, FAILURE_SECONDS = 6, 600.0
"""Number of failures in 600 seconds that ends the restarts: failed starts, and ends of a ready server."""

MAX_LOST_CALLS = 5
"""Number of calls in a row without a response after which a server is suspended."""

SUSPEND_SECONDS, PING_SECONDS = 30.0, 5.0
"""Time for which a server is suspended, and time limit of the ping that follows, in seconds."""

MAX_TOOLS, MAX_PAGES = 1000, 100
"""Maximum number of tools of one server, and maximum number of pages of one list."""

MAX_TOOL_BYTES, MAX_TOOLS_BYTES = 64 * 1024, 4 * 1024 * 1024
"""Maximum size of one definition, and of all definitions of one server, in bytes (64 KiB, 4 MiB)."""


class ServerState(Enum):
    """The state of a server in a host.

    IDLE         -> UNAPPROVED if a configuration file names the server, otherwise STARTING
                 -> DISABLED or MISCONFIGURED if the configuration says so or has an error
    UNAPPROVED   -> STARTING if the user allows the start
    STARTING     -> READY when the tools are fetched
    READY        -> SUSPENDED after several calls in a row without a response
    SUSPENDED    -> READY if the server responds to a ping
    BACKING_OFF  -> UNAPPROVED or STARTING after a pause, as from IDLE

    STARTING, READY and SUSPENDED lead to BACKING_OFF when the server fails, ends or is silent, or to FAILED if restarts
    are useless or too many. `Host.restart` leads from every state except STOPPED to IDLE. STOPPED is the last state:
    the host was closed, or `Host.reload` has removed the server.
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


@dataclass
class ServerStatus:
    """The state of one server, as plain data without secrets."""

    name: str
    transport: str
    """"stdio", "http" or "memory"."""
    config_file: str | None
    warnings: list[str]
    state: ServerState = ServerState.IDLE
    since: float = 0.0
    """Time of the latest change of the state, in seconds since 1970."""
    next_try: float | None = None
    """Time of the next start, or of the ping that ends SUSPENDED, in seconds since 1970."""
    last_error: str | None = None
    restarts: int = 0
    """Number of restarts after failures."""
    revision: str | None = None
    era: str | None = None
    tools: int = 0
    """Number of tools in the list."""
    unapproved_tools: dict[str, str] = field(default_factory=dict)
    """The tools whose definitions are not allowed, with the reason: "new", "changed", "hidden characters", or "not
    stored" if the record of approved definitions cannot be written."""
    in_flight: int = 0
    """Number of calls that wait for a result."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Number of dropped items by kind: "log messages", and "tools" over a limit."""
    needs_sign_in: bool = False
    """True if the user must sign in before the server can start."""


class ServerUnavailable(McpError):
    """A request that was not sent, because its server is not ready. The text says why, and when the next try is."""


class Pauses:
    """The pauses between the starts of one server. The caller passes the time, because this class has no clock."""

    def __init__(self) -> None:
        self._pause = MIN_PAUSE
        self._failures: deque[float] = deque(maxlen=MAX_FAILURES)

    def after_failure(self, now: float, ready_seconds: float, starts: int = 1) -> float | None:
        """Return the pause before the next start, in seconds, or None after too many failures.

        `now` is the time of the failure, `ready_seconds` the time for which the server was ready, and `starts` the
        number of processes that the client has started, because it may need two to negotiate the era.
        """
        if ready_seconds >= READY_SECONDS:
            self._pause = MIN_PAUSE
        self._failures.extend([now] * starts)
        if len(self._failures) == MAX_FAILURES and now - self._failures[0] < FAILURE_SECONDS:
            return None
        pause = self._pause * random.uniform(0.8, 1.2)
        self._pause = min(2 * self._pause, MAX_PAUSE)
        return pause


class ToolList(dict[str, Tool]):
    """The approved tools of one server, by name. They outlive the server by `GRACE_SECONDS`."""

    def __init__(self, server: str, on_change: Callable[[], None]) -> None:
        super().__init__()
        self.by_model_name: dict[str, tuple[str, str]] = {}
        """Pairs of server name and tool name, by the tool's model name (names.py)."""
        self.is_stale = False
        """True if the server has reported a change of its tools."""
        self.pause = MIN_PAUSE
        """Minimum time between two fetches, in seconds. Each fetch doubles it, and a changed list resets it."""
        self._server, self._on_change = server, on_change
        self._expiry: asyncio.TimerHandle | None = None  # removes the tools of a server that is not ready

    def replace(self, tools: dict[str, Tool]) -> None:
        if tools != self:
            self.clear()
            self.update(tools)
            self.by_model_name = model_names((self._server, name) for name in tools)
            self.pause = MIN_PAUSE
            self._on_change()

    def cancel_removal(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    def remove_later(self) -> None:
        """Remove the tools in `GRACE_SECONDS`, unless the server has started by then."""
        if self._expiry is None:
            self._expiry = asyncio.get_running_loop().call_later(GRACE_SECONDS, self._expire)

    def _expire(self) -> None:
        self._expiry = None
        self.replace({})


class Supervisor:
    """The base class of `HostedServer`. `start_limit` limits the number of servers that start at once."""

    def __init__(
        self, config: ServerConfig, start_limit: asyncio.Semaphore, is_lazy: bool,
        on_event: Callable[[ServerStatus], None] | None,
    ) -> None:  # fmt: skip
        self.config, self._start_limit, self._on_event = config, start_limit, on_event
        self.status = ServerStatus(config.name, config.transport, config.file, list(config.warnings))
        self.is_lazy = is_lazy and not config.entry.get("required")
        """True if the first request starts the server."""
        self.client: Client | None = None  # None unless the server is ready
        self._latest_client: Client | None = None  # kept after a failure, so that `stop` can close it
        self.tools = ToolList(config.name, self._report)
        self.calls: list[str] = []
        """The full name (server and tool) of the tool of each call in flight."""
        self.mask: Callable[[str], str] = lambda text: text  # until `HostedServer` knows the secrets
        """Function that removes the secrets of the server from a text."""
        self.attempted = asyncio.Event()
        """Set when the first start has succeeded or failed."""
        self.is_closed = False
        """True as soon as the end of the server begins, after which it is not started again."""
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()  # set, and replaced by a new one, whenever the state changes
        self._wake = asyncio.Event()  # wakes `_serve`
        self._lost_calls = 0  # in a row

    async def prepare(self) -> Client:
        """Return a new client. Raise ConfigurationError, or Refused without the user's consent."""
        raise NotImplementedError

    def approved(self, tools: list[Tool]) -> list[Tool]:
        """Return the tools that the configuration and the policy allow."""
        raise NotImplementedError

    def snapshot(self) -> ServerStatus:
        return replace(self.status, tools=len(self.tools), in_flight=len(self.calls))

    def _report(self) -> None:
        if self._on_event is not None:
            self._on_event(self.snapshot())

    async def start(self) -> None:
        """Start the server. A running server is stopped first. Raise ServerUnavailable after `close`."""
        await self.stop()
        if self.is_closed:
            raise ServerUnavailable(f"the server {self.config.name} is stopped, and cannot be started again")
        self._change(ServerState.IDLE)
        self._task = asyncio.create_task(self._run(), name=f"supervise {self.config.name}")

    async def stop(self) -> None:
        """End the task, and then close the client, which the task may have left open because it was cancelled.

        Another caller may start the server again during a wait, so both are checked again after each wait.
        """
        while self._task is not None:
            client = self._latest_client
            if not self._task.done():
                if not self._task.cancelling():  # a second cancellation would interrupt the end of the client
                    self._task.cancel()
                await asyncio.wait([self._task])
            elif client is not None:
                with contextlib.suppress(Exception):  # `_run` has logged it
                    await client.close()
                if self._latest_client is client:
                    self._latest_client = None
            else:
                break
        self.tools.cancel_removal()  # so that no timer outlives the supervision

    def list_changed(self) -> None:
        self.tools.is_stale = True
        self._wake.set()

    def call_ended(self, is_lost: bool) -> None:
        """Count calls in a row without a response, and wake `_serve` if there are too many."""
        self._lost_calls = self._lost_calls + 1 if is_lost else 0
        if self._lost_calls >= MAX_LOST_CALLS:
            self._wake.set()

    async def ready_client(self, wait: float) -> Client:
        """Return the client of the server. Raise ServerUnavailable if the server is not ready after `wait` seconds."""
        if self.is_lazy and not self.attempted.is_set():
            if self._task is None:
                await self.start()
            await self.attempted.wait()
        if wait > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    while self.status.state is not ServerState.READY and self._task and not self._task.done():
                        await self._changed.wait()
        return self.check_ready()

    def check_ready(self) -> Client:
        """Return the client of the server. Raise ServerUnavailable if the server is not ready."""
        status = self.status
        if self.client is not None and status.state is ServerState.READY:
            return self.client
        retry = f"; next try in {max(0.0, status.next_try - time.time()):.0f} s" if status.next_try else ""
        reason = f": {status.last_error}" if status.last_error else ""
        state = "has failed" if status.state is ServerState.FAILED else f"is {status.state.value.replace('_', ' ')}"
        raise ServerUnavailable(f"the server {status.name} {state}{retry}{reason}")

    def _change(self, state: ServerState, error: str | None = None, pause: float | None = None) -> None:
        status, now = self.status, time.time()
        status.state, status.since = state, now
        if error:
            status.last_error = self.mask(error)
        status.next_try = None if pause is None else now + pause
        if state not in (ServerState.IDLE, ServerState.UNAPPROVED, ServerState.STARTING):
            self.attempted.set()
        self._changed.set()
        self._changed = asyncio.Event()
        self._report()

    async def _run(self) -> None:
        """Start and serve the server, again and again, until it cannot be started or the task is cancelled."""
        try:
            if self.config.is_disabled:
                return self._change(ServerState.DISABLED)
            pauses = Pauses()
            while (pause := await self._run_once(pauses)) is not None:
                await asyncio.sleep(pause)
                self.status.restarts += 1
        except ConfigurationError as error:
            self._change(ServerState.MISCONFIGURED, str(error))
        except Refused as error:
            self._change(ServerState.UNAPPROVED, str(error))
        except Exception as error:  # a fault of this package or of the program's callback
            log.exception("the supervision of %s failed", self.config.name)
            self._change(ServerState.FAILED, f"internal error: {error}")
        finally:
            self.attempted.set()

    async def _run_once(self, pauses: Pauses) -> float | None:
        """Start the server, and wait until it ends. Return the pause before a restart, or None without a restart."""
        if self.config.file is not None:
            self._change(ServerState.UNAPPROVED)
        client = self._latest_client = await self.prepare()
        ready_at: float | None = None
        self._change(ServerState.STARTING)
        seconds = self.config.entry.get("startup_timeout_sec", STARTUP_SECONDS)
        error: Exception
        try:
            async with self._start_limit:
                with client.connector.time_limits.timeout(seconds):  # its clock stops while a user signs in
                    await client.connect()
                    await self._refresh(client)
            ready_at = time.monotonic()
            error = await self._serve(client)
        except TimeoutError:
            error = RequestTimeout(f"the server was not ready within {seconds:g} s")
        except (McpError, TypeError, ValueError, OSError) as failure:
            error = failure
        finally:
            self.client = None
            self.tools.remove_later()
            await client.close()  # so that the old process has ended before a new one starts
        self.status.needs_sign_in = isinstance(error, SignInNeeded)
        text = self.mask("\n".join([str(error), *getattr(error, "__notes__", ())]))
        log.warning("the server %s is not available: %s", self.config.name, text)
        now = time.monotonic()
        ready_seconds = 0.0 if ready_at is None else now - ready_at
        pause = pauses.after_failure(now, ready_seconds, client.connector.starts)
        if pause is None or _is_permanent(error):
            self._change(ServerState.FAILED, text)
            return None
        self._change(ServerState.BACKING_OFF, text, pause)
        return pause

    async def _serve(self, client: Client) -> Exception:
        """Fetch changed lists, and suspend a server that loses calls, until it ends. Return the reason for its end."""
        self.tools.cancel_removal()
        self.client = client
        loop, ended = asyncio.get_running_loop(), client.session.ended
        refreshed_at = loop.time()
        ended.add_done_callback(self._session_ended)
        self.status.revision, self.status.era = client.revision.name, client.revision.era
        self._lost_calls, self.tools.pause = 0, MIN_PAUSE
        self._change(ServerState.READY)
        while not ended.done():
            self._wake.clear()
            if self._lost_calls >= MAX_LOST_CALLS:
                await self._suspend(client, ended)
                continue
            refresh_at = refreshed_at + self.tools.pause if self.tools.is_stale else None
            if refresh_at is not None and loop.time() >= refresh_at:
                try:
                    await self._refresh(client)
                except (McpError, OSError) as error:  # keep the old list
                    self.status.last_error = self.mask(str(error))
                refreshed_at = loop.time()
            else:  # wait for `list_changed`, `call_ended` or the end, but not longer than until the next fetch
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(refresh_at):
                        await self._wake.wait()
        return ended.result() or ConnectionClosed("the server has ended the connection")

    async def _suspend(self, client: Client, ended: asyncio.Future[McpError | None]) -> None:
        """Let calls fail at once for `SUSPEND_SECONDS`, and then ping the server. Raise the failure of the ping."""
        self._change(ServerState.SUSPENDED, "several calls in a row got no response", SUSPEND_SECONDS)
        await asyncio.wait([ended], timeout=SUSPEND_SECONDS)
        if ended.done():
            return
        await client.ping(timeout=PING_SECONDS)
        self._lost_calls = 0
        self._change(ServerState.READY)

    def _session_ended(self, ended: asyncio.Future[McpError | None]) -> None:
        """Change the state at once, so that the callers of lost requests already see it when they continue.

        `_run_once` then adds the time of the next start, or changes the state to FAILED.
        """
        if self.client is not None:
            self.client = None
            self._change(ServerState.BACKING_OFF, str(ended.result() or "the connection has ended"))
        self._wake.set()

    async def _refresh(self, client: Client) -> None:
        """Fetch the tools, leaving out those over a limit, and keep the ones that `approved` returns."""
        self.tools.is_stale = False
        self.tools.pause = min(2 * self.tools.pause, MAX_PAUSE)  # `replace` makes it short again if it finds a change
        listed = await client.list_tools() if client.server_can("tools") else []
        kept: list[Tool] = []
        total_size = 0
        for tool in listed:
            size = len(json.dumps(asdict(tool)))
            total_size += size
            if size <= MAX_TOOL_BYTES and total_size <= MAX_TOOLS_BYTES and len(kept) < MAX_TOOLS:
                kept.append(tool)
        if len(kept) < len(listed):
            self.status.dropped["tools"] = len(listed) - len(kept)
        self.tools.replace({tool.name: tool for tool in self.approved(kept)})


def _is_permanent(error: Exception) -> bool:
    """Return True if a restart would fail too, because a program, a permission or a common revision is missing, or
    because a value of the configuration has the wrong type (TypeError)."""
    if isinstance(error, McpError) and error.is_temporary:
        return False
    if isinstance(error, AuthorizationError | UnsupportedRevision | TypeError):
        return True
    is_refused = isinstance(error, ConnectionClosed) and error.http_status in (401, 403)
    return is_refused or isinstance(error.__cause__, FileNotFoundError | PermissionError | NotADirectoryError)
