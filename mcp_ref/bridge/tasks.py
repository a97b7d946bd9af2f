"""Tasks through a bridge: the server's own if both sides speak one revision, the bridge's own between the eras.

    equal revisions      the task of the server. For authenticated users, the bridge seals its id (relayed.py)
    2025-11-25 with      a task of the bridge, with its lifetime and limits, that makes the call. The server can run
    2026-07-28           the call as a task of its own, whose result the bridge awaits (exchange.py):

                         client               bridge                                   server
                           |-- tools/call ------>|-- tools/call ------------------------->|
                           |<-- the bridge's task|<------------ the server's task --------|
                           |-- tasks/get ------->|-- tasks/get, or tasks/result (2025) -->|
                           |<-- input request ---|<------------ input request ------------|
                           |-- its response ---->|-- its response ----------------------->|
                           |<-- result ----------|<------------ result -------------------|

A call can become a task if a modern client declares the extension, or if the call of a client of 2025-11-25 has `task`.
Any other client gets the result, even if the tool requires a task, because then the bridge awaits the task. A bridge
that changes names, because it has several servers or `prefix=True`, offers no tasks, because a task id names no server.

Threats:
    bridge-foreign-task: A client reads another user's result with a task id that it has seen elsewhere. The bridge
        seals the id for one principal, or makes this principal the owner of the bridge's own task.

Spec:  2025-11-25 basic/utilities/tasks; the extension io.modelcontextprotocol/tasks (SEP-2663) beside 2026-07-28
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import TypeVar, cast

from ..basic.access import current_access
from ..basic.channel import RequestContext
from ..basic.lifecycle import ServerCapabilities, declares
from ..basic.meta import extended_meta
from ..basic.subscriptions import SubscriptionFilter
from ..basic.versioning import SUBSCRIPTION_ID, MissingCapability
from ..client.subscriptions import ListenRequest
from ..codec import ShapeError, codec_for
from ..extensions.tasks.receiver import Tasks
from ..features.registered_tools import RegisteredTool
from ..features.task_augmentation import RELATED_TASK, SERVER_TASKS, TASKS_CAPABILITY, TASKS_EXTENSION, TaskSupport
from ..features.tools import CallToolRequestParams, CallToolResult
from ..jsonrpc.errors import McpError, ProtocolError
from ..jsonrpc.messages import INVALID_PARAMS, JSON, METHOD_NOT_FOUND, Object
from ..revisions import Revision
from ..server.catalog import HANDLERS, Catalog
from ..server.context import Context
from ..server.stateless import StatelessRequest
from .back_client import BackClient
from .backs import BackServer
from .callers import caller_of
from .calls import SessionCall
from .conversion import params_type
from .exchange import exchange
from .relayed import RelayedObject, sealed, unsealed, without_hop_meta

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True)
class _AnyTool:
    """The members of a `RegisteredTool` that `Tasks.call_tool` reads. The bridge has no registered tools."""

    task: TaskSupport = "optional"
    asks_first: bool = False


class FrontTasks(Tasks):
    """The tasks of the bridge itself."""

    async def known(self, ids: Collection[str], owner: str) -> list[str]:
        """Return all ids, because they can be the server's, and `BridgeTasks.updates` has removed the unknown ones."""
        return list(ids)


class _TaskUpdates(ListenRequest):
    """A subscription to tasks of the server, which passes their notifications on to the client in front.

    Args:
        client: The connection to the server.
        ids: The server's own ids of the tasks.
        channel: The `subscriptions/listen` request of the client in front.
        context: The context of this request.
    """

    def __init__(self, client: BackClient, ids: list[str], channel: StatelessRequest, context: Context) -> None:
        super().__init__(client, SubscriptionFilter(task_ids=ids), lambda method, uri: None, self._log_end)
        self._back_client, self._ids, self._context = client, ids, context
        self._call = SessionCall(context, client.back.losses)
        self._is_acknowledged = False  # True if the client in front has got its acknowledgement
        # The front acknowledges the subscription through `channel.send_notification`. Replace it, to learn when.
        self._send = channel.send_notification
        channel.send_notification = self._send_and_note

    def _send_and_note(self, method: str, params: Object) -> None:
        self._send(method, params)
        self._is_acknowledged = True  # because the first notification is the acknowledgement

    def receive(self, method: str, params: object) -> None:
        """Receive a message of the server for this subscription. Changes of tasks come as `RelayedObject`."""
        if not isinstance(params, RelayedObject):
            super().receive(method, params)
        elif self._is_acknowledged:
            # [2026-07-28 basic/patterns/subscriptions#acknowledgment] the acknowledgement MUST be the first message
            meta = extended_meta(without_hop_meta(params.members), {SUBSCRIPTION_ID: self._context.request_id})
            self._call.notify("notifications/tasks", params.members, self._back_client.revision, {"_meta": meta})

    def _log_end(self, error: Exception | None) -> None:
        log.warning("%s no longer reports changes of its tasks (%d)", self._back_client.back.name, len(self._ids))


class BridgeTasks:
    """The tasks of all clients of a bridge.

    Args:
        server: The server behind the bridge; None if the bridge offers no tasks.
        key: The key that seals task ids.
    """

    def __init__(self, server: BackServer | None, key: bytes) -> None:
        self._server, self._key = server, key
        if server is not None:
            server.is_only_server, server.seal = True, self.seal

    def declare(self, declared: ServerCapabilities) -> None:
        """Change the capabilities of the server to those that the clients of the bridge can use.

        Each era declares tasks in its own way: 2025-11-25 as `tasks`, 2026-07-28 as an extension. If the server
        declares one of them, the bridge declares both.
        """
        if self._server is None:
            declared.tasks = declared.extensions = None
        elif TASKS_EXTENSION in (declared.extensions or {}):
            declared.tasks = SERVER_TASKS
        elif declared.tasks is not None:
            if declares(declared.tasks, "requests.tools.call"):
                declared.extensions = {TASKS_EXTENSION: {}}
            access = current_access.get()
            if access is not None and access.id is not None:  # `serve` refuses `tasks/list` to authenticated users
                declared.tasks = {name: value for name, value in declared.tasks.items() if name != "list"}

    def are_ours(self, front: Revision) -> bool:
        """Return True if clients of the revision `front` get tasks of the bridge itself: if both sides have tasks, but
        in different eras. The server must be connected."""
        client = self._server.latest_client if self._server is not None else None
        if client is None:
            return False
        if front.built_in_tasks:
            return client.is_modern and client.server_can(TASKS_CAPABILITY)
        if front.era == "modern":
            return client.revision.built_in_tasks and client.server_can("tasks.requests.tools.call")
        return False

    def with_task_support(self, page: Object, front: Revision) -> Object:
        """Let each tool of a page support tasks if the tasks are ours, because a modern server does not say which of
        its tools do."""
        tools = page.get("tools")
        if not isinstance(tools, list) or not front.built_in_tasks or not self.are_ours(front):
            return page
        execution: Object = {"taskSupport": "optional"}
        return {**page, "tools": [{**cast(Object, tool), "execution": execution} for tool in tools]}

    async def create(self, work: Callable[[Context], Awaitable[Object]], params: Object, context: Context) -> Object:
        """Run a tool call as a task of the bridge itself, and return the `CreateTaskResult`."""

        async def run(task: RequestContext) -> CallToolResult:
            return _decoded(CallToolResult, await work(cast(Context, task)), context.revision)

        decoded = _decoded(CallToolRequestParams, params, context.revision)
        created = await _catalog_of(context).tasks.call_tool(run, cast(RegisteredTool, _AnyTool()), decoded, context)
        return codec_for(context.revision).encode(created)

    async def serve(self, method: str, params: Object, context: Context) -> Object:
        """Serve a request about a task, such as `tasks/get`. Raise ProtocolError for an error response."""
        caller, server = caller_of(context), self._server
        if server is None:
            raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {method}")
        client = await server.shared(caller)
        if self.are_ours(context.revision):
            return await self._serve_own(method, params, context)
        if client.revision is not context.revision:
            raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {method}")
        if caller.principal is not None and method == "tasks/list":
            # all principals use the server with the bridge's credentials, so it would list the tasks of all of them
            raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {method}; keep the ids of your tasks")
        if "taskId" in params:
            params = {**params, "taskId": self._server_id(params["taskId"], server, caller.principal)}
        result = await exchange(client, method, params, SessionCall(context, server.losses))
        return self.seal(result, caller.principal)

    async def _serve_own(self, method: str, params: Object, context: Context) -> Object:
        """Serve a request about a task of the bridge, with the handler that a usual server has for it."""
        if context.revision.era == "modern" and not declares(context.channel.peer_capabilities, TASKS_CAPABILITY):
            raise MissingCapability(TASKS_CAPABILITY)
        handler = HANDLERS[method](_catalog_of(context))
        result = await handler(_decoded(params_type(method), params, context.revision), context)
        return codec_for(context.revision).encode(result)

    def _server_id(self, id: JSON, server: BackServer, principal: str | None) -> JSON:
        """Return the server's own id of a task. Raise ProtocolError for the task of another principal."""
        if principal is None:
            return id
        _, server_id = unsealed(self._key, "task id", principal, id, (server.name,))
        return server_id

    def seal(self, message: Object, principal: str | None) -> Object:
        """Return params or a result whose task ids are valid for this principal only. An id can be in the message
        itself, in its `task`, and in its `_meta`."""
        server = self._server
        if principal is None or server is None:
            return message

        def with_sealed_id(task: JSON) -> JSON:
            if isinstance(task, dict) and isinstance(task.get("taskId"), str):
                return {**task, "taskId": sealed(self._key, "task id", server.name, principal, task["taskId"])}
            return task

        changed = cast(Object, with_sealed_id(message))
        meta = changed.get("_meta")
        if isinstance(meta, dict) and RELATED_TASK in meta:
            changed = {**changed, "_meta": {**meta, RELATED_TASK: with_sealed_id(meta[RELATED_TASK])}}
        if isinstance(changed.get("task"), dict):
            changed = {**changed, "task": with_sealed_id(changed["task"])}
        return changed

    @contextlib.asynccontextmanager
    async def updates(self, wanted: SubscriptionFilter, context: RequestContext) -> AsyncIterator[None]:
        """Return a context manager that passes on the notifications about a client's tasks. On entry, remove unknown
        tasks from `wanted`, the filter of the client's `subscriptions/listen` request."""
        channel, ids, server = context.channel, wanted.task_ids, self._server
        assert isinstance(channel, StatelessRequest)
        if not ids or server is None or not declares(channel.peer_capabilities, TASKS_CAPABILITY):
            yield
        elif self.are_ours(channel.revision):  # the front announces their changes itself
            # the method of the base class, because that of `FrontTasks` leaves the check to this line
            wanted.task_ids = await Tasks.known(channel.catalog.tasks, ids, channel.task_owner)
            yield
        else:
            async with self._updates_of_server(server, ids, wanted, channel, cast(Context, context)):
                yield

    @contextlib.asynccontextmanager
    async def _updates_of_server(
        self, server: BackServer, ids: list[str], wanted: SubscriptionFilter, channel: StatelessRequest,
        context: Context,
    ) -> AsyncIterator[None]:  # fmt: skip
        """Subscribe to tasks of the server. `ids` are those that the client knows, which may be sealed."""
        caller = caller_of(context)
        id_for_client: dict[str, str] = {}  # by the server's own id
        for id in ids:
            with contextlib.suppress(ProtocolError):
                server_id = str(self._server_id(id, server, caller.principal))
                id_for_client[server_id] = id
        wanted.task_ids = []
        client = await server.shared(caller)
        updates = _TaskUpdates(client, list(id_for_client), channel, context)
        try:
            with contextlib.suppress(McpError):  # then the client learns that no task was accepted
                accepted = await updates.open(client.timeout)
                wanted.task_ids = [id_for_client[id] for id in accepted.task_ids or () if id in id_for_client]
            yield
        finally:
            await updates.close()


def _decoded(cls: type[T], params: Object, revision: Revision) -> T:
    try:
        return codec_for(revision).decode(cls, params)
    except ShapeError as error:
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: {error}") from None


def _catalog_of(context: RequestContext) -> Catalog:
    return cast(StatelessRequest, context.channel).catalog  # or a `ServerSession`, which has a catalog too
