"""Calls: the requests of a client that a bridge has sent to a server, and the way back to this client.

While a server works on a request, it can send three things to the client: progress, log messages, and requests for
input (elicitation, sampling, roots). A `Call` passes them on. The way of an input request depends on the client's era:

    legacy client    `SessionCall`: the bridge sends the request to the client, on the stream of the client's request
    modern client    the client accepts no requests, only input requests in a result (held.py)

A modern server returns its input requests in a result instead. `complete_call` sends them to a legacy client all at
once, and repeats the call with the responses.

Spec:  basic/utilities/progress, server/utilities/logging (all revisions), 2026-07-28 basic/patterns/mrtr
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Final

from ..basic import mrtr
from ..basic.lifecycle import declares
from ..basic.progress import progress_token
from ..codec import codec_for
from ..features import elicitation
from ..features.elicitation import ElicitRequestParams
from ..features.logging import LEVELS, is_wanted
from ..jsonrpc.errors import McpError, ProtocolError, RemoteError
from ..jsonrpc.messages import INTERNAL_ERROR, JSON, METHOD_NOT_FOUND, Object, RequestId
from ..revisions import Revision, find_method
from ..server.context import Context
from ..server.session import ServerSession
from .conversion import Losses, convert_params, convert_result, converted, params_type
from .relayed import RelayedObject

MAX_NOTIFICATIONS: Final = 1000
"""Maximum number of log messages and progress notifications of one call that a client gets in one second."""

REFUSED: Final = -1
"""The error code for a request that the user has refused. [2025-11-25 client/sampling#error-handling]"""


class Call:
    """One request of a client that a server is serving.

    Args:
        context: The client's request.
        losses: Counts the server's values that the client's revision lacks.
        prefix: The start of each elicitation's message, which names the server; "" if there is only one server.
    """

    def __init__(self, context: Context, losses: Losses, prefix: str = "") -> None:
        self.context: Context | None = None
        """The client's request. None while no request is open (held.py)."""
        self.revision, self.losses, self._prefix = context.revision, losses, prefix
        self.loop = asyncio.get_running_loop()
        self.on_held: Callable[[], None] = lambda: None
        """Called each time the call begins to wait for the user of a modern client (held.py)."""
        self.allows_task = False
        """True if a server of another revision can run the call as a task, whose result the bridge awaits."""
        self.task_id: JSON = None
        """The server's own id of the task whose result this call awaits; "" before it is known, None without a task."""
        self._elicitations: list[str] = []  # the ids of the URLs that a modern server has shown to a legacy client
        self._second, self._sent = 0, 0  # a second of the loop's clock, and the number of notifications in it
        self.attach(context)

    def attach(self, context: Context) -> None:
        """Use a request of the client from now on: the first one, or its retry."""
        self.context, self.capabilities = context, context.channel.peer_capabilities
        self.token = progress_token(context.meta)
        default = "debug" if self.revision.era == "legacy" else None
        self.level = context.channel.logging_level or default
        """The lowest level of the log messages that the client wants, or None for no messages."""

    async def ask(self, method: str, params: Object, source: Revision) -> Object:
        """Pass an input request of the server on. Return the client's response, in the revision `source`."""
        raise ProtocolError(METHOD_NOT_FOUND, f"{method} is refused: this bridge holds no calls of this client")

    def read_input_request(self, method: str, params: Object, source: Revision) -> Object:
        """Return the params of an input request for the client. Raise ProtocolError if the client cannot have it."""
        if self.revision.era == "legacy" and find_method(method, self.revision, "server") is None:
            raise ProtocolError(METHOD_NOT_FOUND, f"{method} does not exist in {self.revision}, the client's revision")
        request = mrtr.INPUT_REQUESTS.get(method)
        if request is None or not declares(self.capabilities, request.capability or ""):
            raise ProtocolError(METHOD_NOT_FOUND, f"the client did not declare the capability for {method}")
        if "url" in params and source.era == "modern" and self.revision.era == "legacy":
            id = str(uuid.uuid4())  # a legacy client needs an id, which a modern server does not send
            self._elicitations.append(id)
            params = {**params, "elicitationId": id}
        wire = convert_params(method, params, source, self.revision, self.losses)
        if method == "elicitation/create" and source is not self.revision:
            form_or_url = codec_for(self.revision).decode(ElicitRequestParams, wire).request
            capability = self.capabilities["elicitation"]
            modes = elicitation.supported_modes(capability if isinstance(capability, dict) else {})
            elicitation.check_request(form_or_url, set(modes), self.revision)
        if self._prefix and "includeContext" in wire:
            wire = {**wire, "includeContext": "none"}  # the context of "this server" would be that of all servers
        return with_prefix(wire, self._prefix)

    def receive(self, method: str, params: Object, source: Revision) -> None:
        """Pass a progress notification or a log message on, if the client wants it."""
        level = params.get("level")
        if method == "notifications/progress":
            if self.token is not None:
                self.report_progress(params, source, self.token)
        elif level in LEVELS and is_wanted(level, self.level):
            self.notify(method, params, source, {})

    def report_progress(self, params: Object, source: Revision, token: RequestId) -> None:
        if self.revision.era == "modern":  # a task of this era has no progress, so the text becomes its status
            self.set_status(params.get("message"))
        self.notify("notifications/progress", params, source, {"progressToken": token})

    def set_status(self, message: JSON) -> None:
        """Set the status message of the bridge's own task, if the call runs as one."""
        if isinstance(message, str) and self.context is not None:
            self.context.channel.set_status(message)

    def notify(self, method: str, params: Object, source: Revision, added: Object) -> None:
        """Send a notification for the client's request, with `added` members. Drop it if there are too many."""
        context, second = self.context, int(self.loop.time())
        self._sent = self._sent + 1 if second == self._second else 1
        self._second = second
        if self._sent > MAX_NOTIFICATIONS:
            return self.losses.add(f"{method} came too often")
        wire = {**converted(params, params_type(method), source, self.revision, self.losses), **added}
        if context is not None and context.channel.is_serving(context.request_id):
            context.channel.notify(method, RelayedObject(wire), context.request_id)

    def end(self) -> None:
        """Tell a legacy client that the elicitations with URLs of a modern server are complete."""
        for id in self._elicitations:
            self.notify("notifications/elicitation/complete", {"elicitationId": id}, self.revision, {})
        self._elicitations.clear()


class SessionCall(Call):
    """A request of a legacy client, which can get requests itself."""

    async def ask(self, method: str, params: Object, source: Revision) -> Object:
        wire = self.read_input_request(method, params, source)
        result = await self.request(method, RelayedObject(wire))
        return convert_result(method, result.members, self.revision, source, self.losses)

    async def request(self, method: str, params: RelayedObject) -> RelayedObject:
        """Send a request to the client, on the stream of its own request."""
        assert self.context is not None
        id = self.context.request_id
        return await self.context.channel.request_input(method, params, RelayedObject, None, id, None)


class OutsideCall(SessionCall):
    """A server's request to a legacy session that has no call in flight, such as `roots/list` after the handshake."""

    async def request(self, method: str, params: RelayedObject) -> RelayedObject:
        assert self.context is not None and isinstance(self.context.channel, ServerSession)
        return await self.context.channel.request(method, params, RelayedObject, timeout=None)


async def complete_call(
    call: Call, params: Object, send: Callable[[Object], Awaitable[Object]], source: Revision
) -> Object:
    """Send a legacy client's request to a modern server, with `send`. Return the complete result.

    The client responds to the input requests of each round. If it refuses one, the call fails, because an input
    response cannot say so.
    """
    rounds = 0
    while True:
        result = await send(params)
        if result.get("resultType") != "input_required":
            return result
        if rounds == mrtr.MAX_ROUNDS:
            raise ProtocolError(INTERNAL_ERROR, f"the server still requires input after {rounds} rounds")
        rounds += 1
        requests = mrtr.read_input_requests(result)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = {
                    key: group.create_task(call.ask(each.method, each.params, source)) for key, each in requests.items()
                }
        except ExceptionGroup as failed:
            raise refusal(failed.exceptions[0]) from None
        responses: Object = {key: task.result() for key, task in tasks.items()}
        params = mrtr.retry_params(params, result, responses)


def refusal(error: Exception) -> ProtocolError:
    """Return the error of a call whose input request has failed with `error`."""
    if isinstance(error, RemoteError):
        return ProtocolError(INTERNAL_ERROR, f"the user refused, or the client failed: {error.message}")
    if isinstance(error, ProtocolError):
        return ProtocolError(INTERNAL_ERROR, f"an input request of the server cannot be passed on: {error.message}")
    text = str(error) if isinstance(error, McpError) and error.is_for_peer else "the client did not respond"
    return ProtocolError(INTERNAL_ERROR, f"an input request of the server failed: {text}")


def with_prefix(params: Object, prefix: str) -> Object:
    """Return the params of an input request, whose message to the user names the server with `prefix`."""
    if not prefix or "message" not in params:
        return params
    return {**params, "message": f"{prefix}{params['message']}"}
