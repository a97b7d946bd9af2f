"""A task whose handler runs in this process.

`LiveTask` runs the handler and writes the state of the task to the store. It is also the channel through which the
handler requests input from the requestor. The row `input` of the table in types.py compares the two ways to do so.

Spec:  2025-11-25 basic/utilities/tasks; the extension io.modelcontextprotocol/tasks (SEP-2663) beside 2026-07-28
Used by: receiver.py. Uses: types.py, store.py, basic/channel.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TypeVar, cast

from ...basic.channel import Channel, RequestContext
from ...basic.lifecycle import Implementation
from ...basic.progress import ProgressNotificationParams
from ...basic.versioning import without_legacy_codes
from ...codec import ShapeError, codec_for
from ...features.task_augmentation import add_related_task
from ...jsonrpc.errors import ConnectionClosed, McpError, ProtocolError, RemoteError, RequestTimeout
from ...jsonrpc.failures import error_for_peer
from ...jsonrpc.messages import INTERNAL_ERROR, INVALID_PARAMS, Object, RequestId
from ...revisions import Revision
from .store import TaskStore
from .types import Task, TaskStatus, chosen_ttl, new_task, with_status

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(slots=True)
class _OpenInputRequest:
    request: Object
    result_type: type
    response: asyncio.Future[object]


class _OpenInputRequests:
    """The requests of one task's handler to the requestor that have no response yet, by key."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._open: dict[str, _OpenInputRequest] = {}
        self._used_keys: set[str] = set()

    def add(self, request: Object, result_type: type, key: str | None) -> tuple[str, asyncio.Future[object]]:
        """Add a request, and return its key and the future of its response. Raise ValueError for a used key."""
        key = key or str(len(self._used_keys) + 1)
        if key in self._used_keys:
            # SEP-2663: a task MUST use each key for only one request
            raise ValueError(f"two input requests of one task have the key {key!r}; use another key")
        self._used_keys.add(key)
        added = self._open[key] = _OpenInputRequest(request, result_type, self._loop.create_future())
        return key, added.response

    def remove(self, key: str) -> bool:
        """Remove a request. Return False if it has its response already."""
        return self._open.pop(key, None) is not None

    def set_responses(self, responses: dict[str, Object], revision: Revision) -> None:
        """Pass responses to the handler, except those with unknown keys. Raise ProtocolError if any is invalid."""
        decoded: dict[str, object] = {}
        for key in responses.keys() & self._open.keys():
            try:
                decoded[key] = codec_for(revision).decode(self._open[key].result_type, responses[key])
            except ShapeError as error:
                text = f"Invalid params: the response to {self._open[key].request['method']} is invalid: {error}"
                raise ProtocolError(INVALID_PARAMS, text) from None
        for key, result in decoded.items():
            response = self._open.pop(key).response
            if not response.done():
                response.set_result(result)

    def as_json(self) -> Object | None:
        """Return the open requests by key, or None without one."""
        return {key: entry.request for key, entry in self._open.items()} or None

    def cancel(self) -> None:
        for entry in self._open.values():
            entry.response.cancel()


class _ResultRequests:
    """The open `tasks/result` requests for one task. The handler's messages are sent on the stream of the latest."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._waiting: list[tuple[Channel, RequestId]] = []
        self._new_request = asyncio.Event()
        self.ended: asyncio.Future[None] = loop.create_future()  # done when the task is over

    def latest(self) -> tuple[Channel, RequestId] | None:
        """Return the channel and id of the latest request that has a connected requestor, or None."""
        for channel, id in reversed(self._waiting):
            if channel.is_serving(id) and not channel.is_disconnected:
                return channel, id
        return None

    async def wait_latest(self) -> tuple[Channel, RequestId]:
        """Return the channel and id of the latest request, after waiting for one if necessary."""
        while (latest := self.latest()) is None:
            self._new_request.clear()
            await self._new_request.wait()
        return latest

    async def wait_until_ended(self, context: RequestContext) -> None:
        """Wait until the task has ended. Until then, the handler may use the stream of this `tasks/result` request."""
        request = context.channel, context.request_id
        self._waiting.append(request)
        self._new_request.set()
        try:
            await asyncio.shield(self.ended)
        finally:
            self._waiting.remove(request)


class _StoredTask:
    """The state of one task, in memory and, until the task expires, in the store. `ttl` is in milliseconds."""

    def __init__(self, store: TaskStore, owner: str, ttl: int) -> None:
        self.state: Task | None = None
        self.owner = owner
        self._store, self._ttl = store, ttl
        self._expires_at = 0.0  # in seconds since the epoch
        self._expiry: asyncio.TimerHandle | None = None

    def create(self, poll_interval: int, id_prefix: str, on_expiry: Callable[[], None]) -> Task:
        """Create the task in the store. Call `on_expiry` if the task expires before it is over."""
        now = time.time()
        task = new_task(self._ttl, poll_interval, now, id_prefix)
        self._expires_at = now + self._ttl / 1000
        self._store.put(task, self.owner, self._expires_at)
        # [2025-11-25 basic/utilities/tasks#audit-and-logging] we SHOULD log it, but the whole id must stay secret
        log.debug("task %.6s... of %s has begun", task.task_id, self.owner or "no owner")
        self.state = task
        self._expiry = asyncio.get_running_loop().call_later(self._ttl / 1000, on_expiry)
        return task

    def replace(self, task: Task) -> None:
        """Store a new state of the task. If the store refuses a final state that has no result, remove the task."""
        try:
            if time.time() < self._expires_at:  # an expired task must not take room from others
                self._store.put(task, self.owner, self._expires_at)
        except Exception:
            if not task.is_over or task.result is not None:
                raise  # `LiveTask.run` then tries to store an error, which needs less room than a result
            log.exception("the store of tasks refused the final status of a task, so the task was removed")
            with contextlib.suppress(Exception):  # a store that has failed altogether keeps it until it expires
                self._store.remove(task.task_id)
        self.state = task
        if task.is_over:
            log.debug("task %.6s... is %s", task.task_id, task.status)
            if self._expiry is not None:
                self._expiry.cancel()

    def expire(self) -> None:
        """Store no further state of the task."""
        self._expires_at = 0.0

    def remove(self) -> None:
        if self.state is not None:
            self._store.remove(self.state.task_id)


class LiveTask(Channel):
    """A task that runs in this process, and the channel from its handler to the requestor.

    Until the task begins, the handler's messages go to the channel of the original request. From then on, the handler's
    requests stay in `inputs` until the requestor responds.

        no task -- `begin_task` --> running task -- the handler ends, or `stop` --> ended task
           |-- the handler fails: no task is created, and the request returns the error
           '-- the handler ends (since 2026-07-28): no task is created, and the request returns the result

    Args:
        origin: The channel of the request that becomes a task.
        ttl: Requested time from the creation of the task to its deletion, in milliseconds; None for the default.
        poll_interval: Suggested time between two `tasks/get` requests, in milliseconds.
        on_change: Called with this object when the task has begun, and when its state has changed.
    """

    def __init__(
        self, origin: Channel, ttl: int | None, poll_interval: int, store: TaskStore,
        on_change: Callable[[LiveTask], None],
    ) -> None:  # fmt: skip
        self.revision, self.loop, self.shared = origin.revision, origin.loop, origin.shared
        self.peer_capabilities = origin.peer_capabilities
        self.begun: asyncio.Future[Task] = self.loop.create_future()
        """Done when the task begins. The value is the state of the new task. Cancelled with the request."""
        self.inputs = _OpenInputRequests(self.loop)
        self.result_requests = _ResultRequests(self.loop)
        self.handler: asyncio.Task[object] | None = None
        """The asyncio task that runs the handler; None until it starts."""
        self._origin, self._poll_interval, self._on_change = origin, poll_interval, on_change
        self._stored = _StoredTask(store, origin.task_owner, chosen_ttl(ttl))

    @property
    def task(self) -> Task | None:
        """The state of the task; None until the task begins."""
        return self._stored.state

    @property
    def is_running(self) -> bool:
        return self.task is not None and not self.task.is_over

    def begin_task(self) -> None:
        if self.task is not None:
            return
        if self.begun.cancelled():
            raise asyncio.CancelledError("the request was cancelled before its task began")
        id_prefix = self.shared.id_prefix if self.shared is not None else ""
        self.begun.set_result(self._stored.create(self._poll_interval, id_prefix, self.expire))
        self._on_change(self)

    async def run(self, work: Callable[[Channel], Coroutine[object, object, object]]) -> object:
        """Run the handler. Store its result in the task, or return it if the task has not begun."""
        try:
            outcome = await work(self)
            if self.revision.built_in_tasks:
                self.begin_task()  # the requestor asked for a task, so it gets one even if the handler is done already
            if self.task is None:
                return outcome
            self._complete(outcome)
        except BaseException as error:
            if self.task is None:
                raise
            was_stopped = not self.is_running and isinstance(error, asyncio.CancelledError)
            if not was_stopped:
                self._fail(error)  # the handler failed, or its result is not JSON, or the store refused the result
        return None

    def _complete(self, outcome: object) -> None:
        result = codec_for(self.revision).encode(outcome)
        if not self.revision.built_in_tasks:
            # [2026-07-28 basic/index#result-responses] every result MUST have `resultType`
            result = {"resultType": "complete", **result}
        # [2025-11-25 basic/utilities/tasks#task-execution-errors] `isError` means `failed`, but not in the extension
        if self.revision.built_in_tasks and result.get("isError") is True:
            text = getattr(outcome, "text", "")  # a `CallToolResult` says there why it failed
            self._change("failed", str(text) or None, result=result)
        else:
            self._change("completed", result=result)

    def _fail(self, error: BaseException) -> None:
        if not isinstance(error, ProtocolError) or isinstance(error, RemoteError):
            log.error("the handler of a task failed", exc_info=error)
            error = ProtocolError(INTERNAL_ERROR, error_for_peer(error).message)
        if self.revision.era == "modern":
            error = without_legacy_codes(error)
        wire: Object = {"code": error.code, "message": error.message}
        if error.data is not None:
            wire["data"] = error.data
        self._change("failed", error.message, error=wire)

    def stop(self, reason: str) -> None:
        """Cancel the task and its handler. `reason` becomes the status message."""
        if self.is_running:
            if self.handler is not None:
                self.handler.cancel()
            self._change("cancelled", reason)

    def expire(self, reason: str = "The task expired before it was completed.") -> None:
        """Stop the task, and remove it from the store."""
        # [2025-11-25 basic/utilities/tasks#ttl-and-resource-management] receivers MAY delete it in any status
        self._stored.expire()
        self.stop(reason)
        self._stored.remove()

    def _change(self, status: TaskStatus, message: str | None = None, **fields: Object | None) -> None:
        if self.task is None or self.task.is_over:
            return  # [2025-11-25 basic/utilities/tasks#task-cancellation] it MUST stay cancelled if the handler goes on
        task = with_status(self.task, status, time.time(), message, **fields)
        self._stored.replace(task)
        if task.is_over:
            self.result_requests.ended.set_result(None)
            self.inputs.cancel()
        # [2025-11-25 basic/utilities/tasks#task-notifications] we MAY notify, and SHOULD NOT add the id to `_meta`
        if self.revision.built_in_tasks:
            self._origin.notify("notifications/tasks/status", task)
        self._on_change(self)

    # --------------------------------------------------------------------------------------- methods of `Channel`

    @property
    def task_owner(self) -> str:
        return self._stored.owner

    @property
    def logging_level(self) -> str | None:  # type: ignore[override]  # read-only: a task cannot set the level
        return self._origin.logging_level

    @property
    def peer_info(self) -> Implementation | None:
        return self._origin.peer_info

    def capability_error(self, capability: str) -> McpError:
        return self._origin.capability_error(capability)

    def is_serving(self, id: RequestId) -> bool:
        return self._origin.is_serving(id) if self.task is None else not self.task.is_over

    def close_stream(self, related: RequestId) -> bool:
        return self.task is None and self._origin.close_stream(related)

    def set_status(self, message: str) -> None:
        if self.task is not None and message != self.task.status_message:
            self._change(self.task.status, message, input_requests=self.task.input_requests)

    def notify(self, method: str, params: object, related: RequestId | None = None) -> bool:
        if self.task is None:
            return self._origin.notify(method, params, related)
        if not self.revision.built_in_tasks:
            # SEP-2663: a task sends neither progress nor log messages, so progress becomes the status message.
            if isinstance(params, ProgressNotificationParams) and params.message is not None:
                self.set_status(params.message)
            return False
        add_related_task(params, self.task.task_id)
        channel, id = self.result_requests.latest() or (self._origin, None)
        return channel.notify(method, params, id)

    async def drain(self, related: RequestId | None = None) -> None:
        if self.task is None or self.revision.built_in_tasks:
            channel, id = self.result_requests.latest() or (self._origin, related)
            await channel.drain(id)

    async def request_input(
        self, method: str, params: object, result: type[T], timeout: float | None, related: RequestId, key: str | None
    ) -> T:
        if self.task is None:
            return await self._origin.request_input(method, params, result, timeout, related, key)
        if self.task.is_over:
            raise McpError(f"{method} was not sent, because the task is over")
        if self.revision.built_in_tasks:
            add_related_task(params, self.task.task_id)
        wire = codec_for(self.revision).encode(params)
        key, response = self.inputs.add({"method": method, "params": wire}, result, key)
        self.update_input_status()  # in 2025-11-25, the entry in `inputs` has no other purpose than this status
        try:
            async with asyncio.timeout(timeout):
                if self.revision.built_in_tasks:
                    return await self._request_on_result_stream(method, params, result)
                return cast(T, await response)
        except TimeoutError:
            raise RequestTimeout(f"{method}: no response within {timeout} seconds") from None
        finally:
            if self.inputs.remove(key):
                self.update_input_status()

    async def _request_on_result_stream(self, method: str, params: object, result: type[T]) -> T:
        """Send a request on the response stream of a `tasks/result` request, after waiting for one if necessary."""
        while True:
            channel, id = await self.result_requests.wait_latest()
            try:
                return await channel.request_input(method, params, result, None, id, None)
            except ConnectionClosed:
                continue  # the requestor can reconnect and send `tasks/result` again

    def update_input_status(self) -> None:
        """Set the status to `input_required` if the handler waits for responses to its requests, else to `working`."""
        requests = self.inputs.as_json()
        # [2025-11-25 basic/utilities/tasks#input-required-status] SHOULD be input_required if the task needs input
        self._change("working" if requests is None else "input_required", input_requests=requests)
