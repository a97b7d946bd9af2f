"""One exchange: a client's request is converted and sent to a server, and the server's result is converted.

    params -> conversion -> `BackClient.send` -> the server -> conversion -> result

If the two sides speak different revisions, the client may not understand the server's first result, so the bridge goes
on until it has the final one. If a modern server requires input of a legacy client, the bridge asks the client, and
sends the request again (calls.py). If the server runs a tool as a task, the bridge waits until the task is over.

Spec:  2026-07-28 basic/patterns/mrtr; 2025-11-25 basic/utilities/tasks
"""

from __future__ import annotations

import contextlib
from typing import Final, TypeVar, cast

from ..basic import mrtr
from ..basic.lifecycle import declares
from ..basic.versioning import MISSING_REQUIRED_CLIENT_CAPABILITY
from ..codec import ShapeError, codec_for
from ..extensions.tasks.requestor import CANCEL_TIMEOUT_SECONDS, RunningTask
from ..extensions.tasks.types import CreateTaskResult, Task, TaskRequestParams
from ..features.task_augmentation import TASKS_CAPABILITY
from ..jsonrpc.errors import McpError, ProtocolError, RemoteError
from ..jsonrpc.messages import INTERNAL_ERROR, METHOD_NOT_FOUND, Object
from ..revisions import SPECIFIED, find_method
from ..server.context import Context
from .back_client import MAX_TOOLS, QUICK_REQUEST_SECONDS, BackClient
from .backs import BackServer
from .callers import caller_of
from .calls import Call, SessionCall, complete_call, refusal
from .conversion import convert_error, convert_params, convert_result
from .relayed import RelayedObject, without_hop_meta

T = TypeVar("T")

LISTS: Final = {
    "tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}  # fmt: skip
"""The list methods, and the members of their results."""


async def exchange(client: BackClient, method: str, params: Object, call: Call, timeout: float | None = None) -> Object:
    """Convert a request, send it to a server, and convert its result. Raise ProtocolError for an error response.

    Args:
        client: The connection to the server.
        method: The method of the request.
        params: Its params, in the revision of the client in front.
        call: The request of the client in front.
        timeout: Time limit in seconds. Default: that of `client`.
    """
    front, back = call.revision, client.revision
    is_converted = front is not back and method in SPECIFIED  # methods of extensions are the same in all revisions
    if is_converted and find_method(method, back, "client") is None:
        raise ProtocolError(METHOD_NOT_FOUND, f"{method} does not exist in {back}, the revision of the server")
    converted = convert_params(method, params, front, back, call.losses) if is_converted else without_hop_meta(params)
    try:
        result = await _final_result(client, method, converted, call, timeout)
    except ProtocolError as error:
        if _needs_task(error) and not client.back.is_only_server:
            text = f"{client.back.name} runs this tool only as a task, and a bridge of several servers offers no tasks"
            raise ProtocolError(INTERNAL_ERROR, text) from None
        raise convert_error(error, method, back, front) from None
    finally:
        call.end()
    if result.get("resultType") == "input_required" or method not in SPECIFIED:
        return result  # needs no conversion: both sides are modern, or the method belongs to an extension
    if method == "tools/list":
        client.back.note_tools(result)
    passed = convert_result(method, result, back, front, call.losses) if is_converted else without_hop_meta(result)
    if method in LISTS and result.get("nextCursor") is not None:
        passed["nextCursor"] = result["nextCursor"]  # lost in a revision without pages, but lists.py needs it
    return passed


async def _final_result(client: BackClient, method: str, params: Object, call: Call, timeout: float | None) -> Object:
    """Send a request. Request input, and await a task, if the client in front cannot. Return the final result."""
    back = client.revision
    # If both sides speak the same revision, the client in front handles input requests and tasks itself. But it cannot
    # use the tasks of several legacy servers, so the bridge awaits those.
    client_completes = call.revision is back and (client.back.is_only_server or back.era == "modern")
    if client_completes or method not in mrtr.MULTI_ROUND_TRIP_METHODS:
        return await client.send(method, params, call, timeout)
    if method == "tools/call" and client.back.task_support.get(str(params.get("name"))) == "required":
        call.allows_task = True
    if back.built_in_tasks and call.allows_task:
        # [2025-11-25 basic/utilities/tasks#tool-level-negotiation] MUST request a task, if the tool requires it
        params = {**params, "task": {}}
        call.task_id = ""  # the call has a task, whose id `BackClient.send` sets with `tasks/result`

    async def send(one_round: Object) -> Object:
        return await _send_or_retry_as_task(client, method, one_round, call, timeout)

    if back.era == "modern":  # so the client in front is legacy
        result = await complete_call(call, params, send, back)
    else:
        result = await send(params)
    is_legacy_task = call.allows_task and "task" in result
    if is_legacy_task or result.get("resultType") == "task":
        return await _task_result(client, call, result)
    return result


async def _send_or_retry_as_task(
    client: BackClient, method: str, params: Object, call: Call, timeout: float | None
) -> Object:
    """Send a request. If it calls a modern tool that runs only as a task, send it again, and allow a task."""
    try:
        return await client.send(method, params, call, timeout)
    except ProtocolError as error:
        if call.allows_task or not _needs_task(error) or not client.server_can(TASKS_CAPABILITY):
            raise
    call.allows_task = True
    task_support = client.back.task_support
    if len(task_support) < MAX_TOOLS:
        task_support[str(params.get("name"))] = "required"  # so that the next call needs only one attempt
    return await client.send(method, params, call, timeout)


def _needs_task(error: ProtocolError) -> bool:
    """Return True for the error of a modern tool that runs only as a task."""
    required = error.data.get("requiredCapabilities") if isinstance(error.data, dict) else None
    is_missing = error.code == MISSING_REQUIRED_CLIENT_CAPABILITY and isinstance(required, dict)
    return is_missing and declares(cast(Object, required), TASKS_CAPABILITY)


async def _task_result(client: BackClient, call: Call, created: Object) -> Object:
    """Wait for a task of the server, and return its result. If that fails or is cancelled, cancel the task.

    `created` is the server's `CreateTaskResult`.
    """
    client.watchers += 1  # keeps the client open between two polls
    try:
        return await _await_task(client, call, created)
    except RemoteError:
        raise  # the task has failed, or is unknown, so it need not be cancelled
    except BaseException as error:
        task = created.get("task") if client.revision.built_in_tasks else created
        if isinstance(task, dict) and "taskId" in task:  # not in every malformed task
            with contextlib.suppress(ProtocolError):
                await client.send("tasks/cancel", {"taskId": task["taskId"]}, call, CANCEL_TIMEOUT_SECONDS)
        if isinstance(error, McpError) and not isinstance(error, ProtocolError):
            raise ProtocolError(INTERNAL_ERROR, f"{client.back.name}: {error}") from None
        raise
    finally:
        client.watchers -= 1


async def _await_task(client: BackClient, call: Call, created: Object) -> Object:
    """Wait for a task. Meanwhile, show its status as that of the call, and request the input that it needs."""
    codec = codec_for(client.revision)

    def decoded(cls: type[T], wire: Object) -> T:
        try:
            return codec.decode(cls, wire)
        except ShapeError as error:
            raise ProtocolError(INTERNAL_ERROR, f"{client.back.name} sent a malformed task: {error}") from None

    async def request(method: str, params: object, result_type: type[T]) -> T:
        timeout = None if method == "tasks/result" else QUICK_REQUEST_SECONDS
        result = decoded(result_type, await client.send(method, codec.encode(params), call, timeout))
        if isinstance(result, Task):
            call.set_status(result.status_message)
        return result

    async def respond(needed: mrtr.InputRequest) -> Object:
        try:
            return await call.ask(needed.method, needed.params, client.revision)
        except Exception as error:
            raise refusal(error) from None

    task = decoded(CreateTaskResult, created).task
    call.set_status(task.status_message)
    if client.revision.built_in_tasks:  # this request waits for the task, while the server requests input itself
        result = await request("tasks/result", TaskRequestParams(task.task_id), RelayedObject)
    else:
        result = await RunningTask(request, client.revision, task, RelayedObject, handle_input=respond).result()
    return result.members


async def exchange_on_shared_client(server: BackServer, method: str, params: Object, context: Context) -> Object:
    """Exchange a request that takes no input, such as a list, over the client that the caller's requests share."""
    client = await server.shared(caller_of(context))
    return await exchange(client, method, params, SessionCall(context, server.losses), QUICK_REQUEST_SECONDS)
