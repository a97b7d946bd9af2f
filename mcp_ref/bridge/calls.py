"""Calls: the requests of clients that the bridge has sent to servers, each with the way back to its client.

While a server works on a request, it can send three things to the client: progress, log messages, and requests for
input (elicitation, sampling, roots). A `Call` passes them on. How an input request gets to the client and its user
depends on the server's era and on the client's:

    server     client     the input request
    legacy     legacy     is sent to the client, on the stream of the client's own request (`SessionCall`)
    legacy     modern     becomes a result of the client's request, because such a client gets no requests (held.py)
    modern     legacy     comes in a result of the server: `complete_call` sends it to the client, and repeats the call
                          with the response
    modern     modern     comes in a result of the server, which is passed on

Spec:  basic/utilities/progress, server/utilities/logging (all revisions), 2026-07-28 basic/patterns/mrtr
"""

from __future__ import annotations

import asyncio
import itertools
import math
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
    """One request of a client that a server is serving. This class refuses the server's input requests, and its
    subclasses pass them on.

    Args:
        context: The client's request.
        losses: Counts the server's values that the client's revision lacks.
        prefix: The start of each elicitation's message, which names the server; "" if there is only one server.

    Args of methods:
        source: The revision that the server speaks.
    """

    def __init__(self, context: Context, losses: Losses, prefix: str = "") -> None:
        self.context: Context | None = None
        """The client's request. None while no request is open (held.py)."""
        self.revision, self.losses, self._prefix = context.revision, losses, prefix
        self.loop = asyncio.get_running_loop()
        self.on_held: Callable[[], None] = lambda: None
        """Called each time the call begins to wait for the user of a modern client (held.py)."""
        self.allows_task = False
        """True if the server can run the call as a task, whose result the bridge awaits. Set by relay.py and
        exchange.py."""
        self.task_id: JSON = None
        """The server's own id of the task whose result this call awaits; "" until it is known, None without a task."""
        self._url_elicitations: list[str] = []  # the ids that `_with_elicitation_id` has invented
        self._counted_second, self._sent = 0, 0  # a second of the loop's clock, and the notifications in it
        self.attach(context)

    def attach(self, context: Context) -> None:
        """Use a request of the client from now on: the first one, or its retry."""
        self.context, self.capabilities = context, context.channel.peer_capabilities
        self.token, self._last_progress = progress_token(context.meta), -math.inf
        default = "debug" if self.revision.era == "legacy" else None  # a modern client gets messages only on request
        self.level = context.channel.logging_level or default
        """The lowest level of the log messages that the client wants, or None for no messages."""

    async def ask(self, method: str, params: Object, source: Revision) -> Object:
        """Pass an input request of the server to the client. Return the client's response, in the revision `source`."""
        self.converted_input_request(method, params, source)  # raises the error if the client is the reason
        text = f"{method} is refused: this bridge does not hold calls open until users respond"
        raise ProtocolError(METHOD_NOT_FOUND, text)

    def converted_input_request(self, method: str, params: Object, source: Revision) -> Object:
        """Return the params of an input request of the server in the client's revision, with the server's name in the
        message. Raise ProtocolError if the client does not support the request."""
        # A modern client gets input requests in results, so its revision has no such methods.
        if self.revision.era == "legacy" and find_method(method, self.revision, "server") is None:
            raise ProtocolError(METHOD_NOT_FOUND, f"{method} does not exist in {self.revision}, the client's revision")
        input_request = mrtr.INPUT_REQUESTS.get(method)
        capability = input_request.capability if input_request is not None else None
        if capability is None or not declares(self.capabilities, capability):
            raise ProtocolError(METHOD_NOT_FOUND, f"the client did not declare the capability for {method}")
        if "url" in params and source.era == "modern" and self.revision.era == "legacy":
            params = self._with_elicitation_id(params)
        wire = convert_params(method, params, source, self.revision, self.losses)
        if method == "elicitation/create" and source is not self.revision:
            self._check_elicitation(wire)
        if self._prefix and "includeContext" in wire:
            wire = {**wire, "includeContext": "none"}  # to the client, "thisServer" is the bridge with all its servers
        return with_prefix(wire, self._prefix)

    def _with_elicitation_id(self, params: Object) -> Object:
        """Add the id of a URL elicitation, which a legacy client needs and a modern server does not send."""
        id = str(uuid.uuid4())
        self._url_elicitations.append(id)
        return {**params, "elicitationId": id}

    def _check_elicitation(self, params: Object) -> None:
        """Raise ProtocolError if the client's revision does not have this kind of elicitation (its mode, or a field of
        its form), or the client did not declare the mode. A server of the same revision must check this itself."""
        form_or_url = codec_for(self.revision).decode(ElicitRequestParams, params).request
        capability = self.capabilities["elicitation"]
        modes = elicitation.supported_modes(capability if isinstance(capability, dict) else {})
        elicitation.check_request(form_or_url, set(modes), self.revision)

    def receive(self, method: str, params: Object, source: Revision) -> None:
        """Pass a progress notification or a log message on, if the client wants it."""
        level = params.get("level")
        if method == "notifications/progress":
            if self.token is not None:
                self.report_progress(params, source, self.token)
        elif level in LEVELS and is_wanted(level, self.level):
            self.notify(method, params, source, {})

    def report_progress(self, params: Object, source: Revision, token: RequestId) -> None:
        """Send progress to the client, with the client's `token`."""
        if self.revision.era == "modern":  # in this era, a call that runs as a task reports a status, not progress
            self.set_status(params.get("message"))
        progress = params.get("progress")
        if isinstance(progress, int | float):
            # [2025-11-25 basic/utilities/progress#progress-flow] the value MUST increase with each notification, but
            # a modern server, which runs the call again after each input request, reports the same values again
            if progress <= self._last_progress:
                return
            self._last_progress = progress
        self.notify("notifications/progress", params, source, {"progressToken": token})

    def set_status(self, message: JSON) -> None:
        """Set the status message of the bridge's own task, if the call runs as one."""
        if isinstance(message, str) and self.context is not None:
            self.context.channel.set_status(message)

    def notify(self, method: str, params: Object, source: Revision, added: Object) -> None:
        """Send a notification for the client's request, with `added` members. Drop it if there are too many."""
        second = int(self.loop.time())
        if second != self._counted_second:
            self._counted_second, self._sent = second, 0
        self._sent += 1
        if self._sent > MAX_NOTIFICATIONS:
            return self.losses.add(f"{method} came too often")
        wire = {**converted(params, params_type(method), source, self.revision, self.losses), **added}
        context = self.context
        if context is not None and context.channel.is_serving(context.request_id):
            context.channel.notify(method, RelayedObject(wire), context.request_id)

    def end(self) -> None:
        """Tell a legacy client that its URL elicitations are complete, which a modern server does not do."""
        for id in self._url_elicitations:
            self.notify("notifications/elicitation/complete", {"elicitationId": id}, self.revision, {})
        self._url_elicitations.clear()


class SessionCall(Call):
    """A call whose input requests are sent to the client: in a legacy session, or in a task of the bridge (tasks.py).
    Also used for a modern server, whose input requests come in results (`complete_call`)."""

    async def ask(self, method: str, params: Object, source: Revision) -> Object:
        wire = self.converted_input_request(method, params, source)
        result = await self.request(method, RelayedObject(wire))
        return convert_result(method, result.members, self.revision, source, self.losses)

    async def request(self, method: str, params: RelayedObject) -> RelayedObject:
        """Send a request to the client, on the stream of its own request."""
        assert self.context is not None
        id = self.context.request_id
        return await self.context.channel.request_input(
            method, params, RelayedObject, timeout=None, related=id, key=None
        )


class OutsideCall(SessionCall):
    """Stands for the call if a server sends a request to a legacy session that has no call in flight, such as
    `roots/list` after the handshake."""

    async def request(self, method: str, params: RelayedObject) -> RelayedObject:
        assert self.context is not None and isinstance(self.context.channel, ServerSession)
        return await self.context.channel.request(method, params, RelayedObject, timeout=None)


async def complete_call(
    call: Call, params: Object, send: Callable[[Object], Awaitable[Object]], source: Revision
) -> Object:
    """Send a legacy client's request to a modern server, with `send`. Return the complete result.

    The client gets all input requests of a round at once. If it refuses one, the call fails, because a modern server
    accepts only results as responses, not errors.
    """
    for rounds in itertools.count():
        result = await send(params)
        if result.get("resultType") != "input_required":
            return result
        if rounds == mrtr.MAX_ROUNDS:
            break
        requests = mrtr.read_input_requests(result)
        tasks: dict[str, asyncio.Task[Object]] = {}
        try:
            async with asyncio.TaskGroup() as group:
                for key, request in requests.items():
                    tasks[key] = group.create_task(call.ask(request.method, request.params, source))
        except ExceptionGroup as failed:
            raise refusal(failed.exceptions[0]) from None
        responses: Object = {key: task.result() for key, task in tasks.items()}
        params = mrtr.retry_params(params, result, responses)
    raise ProtocolError(INTERNAL_ERROR, f"the server still requires input after {mrtr.MAX_ROUNDS} rounds")


def refusal(error: Exception) -> ProtocolError:
    """Return the error of a call whose input request the client has not served, because of `error`."""
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
