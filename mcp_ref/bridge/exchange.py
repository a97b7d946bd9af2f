"""One exchange: a request of a client in front, converted, sent to a server, and its converted result.

    params -> conversion -> `BackClient.send` -> the server -> conversion -> result
                            for a modern server and a legacy client, in several rounds (calls.py)

Spec:  2026-07-28 basic/patterns/mrtr; 2025-11-25 basic/utilities/tasks
"""

from __future__ import annotations

from typing import Final, cast

from ..basic import mrtr
from ..jsonrpc.errors import ProtocolError
from ..jsonrpc.messages import METHOD_NOT_FOUND, Object
from ..revisions import SPECIFIED, find_method
from ..server.context import Context
from .back_client import LIST_SECONDS, BackClient, caller_of
from .backs import BackServer
from .calls import Call, SessionCall, complete_call
from .conversion import convert_error, convert_params, convert_result

LISTS: Final = {
    "tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}  # fmt: skip
"""The list methods, and the members of their results."""


async def exchange(client: BackClient, method: str, params: Object, call: Call, timeout: float | None = None) -> Object:
    """Send a request to a server, and return the result, both converted. Raise ProtocolError for its error."""
    front, back = call.revision, client.revision
    if method in SPECIFIED and find_method(method, back, "client") is None:
        raise ProtocolError(METHOD_NOT_FOUND, f"{method} does not exist in {back}, the revision of the server")
    wire = convert_params(method, params, front, back, call.losses) if method in SPECIFIED else params
    try:
        result = await _send(client, method, wire, call, timeout)
    except ProtocolError as error:
        raise convert_error(error, method, back, front) from None
    finally:
        call.end()
    if result.get("resultType") == "input_required" or method not in SPECIFIED:
        return result
    if method == "tools/list":
        client.back.note_tools(result)
    shown = convert_result(method, result, back, front, call.losses)
    if method in LISTS and result.get("nextCursor") is not None:
        shown["nextCursor"] = result["nextCursor"]  # also for a client without pages, which gets all of them
    return shown


async def _send(client: BackClient, method: str, wire: Object, call: Call, timeout: float | None) -> Object:
    """Send a request, in as many messages as the server needs for it. Return the server's result."""
    front, back = call.revision, client.revision
    if front.era == "legacy" and back.era == "modern" and method in mrtr.INPUT_METHODS:

        async def send(params: Object) -> Object:
            return await client.send(method, params, call, timeout)

        return await complete_call(call, wire, send, back)
    is_mixed = back.tasks_are_core and not front.tasks_are_core
    if method == "tools/call" and is_mixed and wire["name"] in client.back.task_tools:
        # [2025-11-25 basic/utilities/tasks#tool-level-negotiation] MUST request a task, if the tool requires it
        created = await client.send(method, {**wire, "task": {}}, call, timeout)
        id = cast(Object, created["task"])["taskId"]
        return await client.send("tasks/result", {"taskId": id}, call, timeout)
    return await client.send(method, wire, call, timeout)


async def exchange_simply(server: BackServer, method: str, params: Object, context: Context) -> Object:
    client = await server.shared(caller_of(context))
    return await exchange(client, method, params, SessionCall(context, server.losses), LIST_SECONDS)
