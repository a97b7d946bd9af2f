"""The recorded client sends its requests to a server again, and everything that differs is reported.

Before each message, the new client waits for the responses that the recorded client had at this moment. So the order is
the same, but the client does not pause. Values that a server invents, such as a cursor, differ from server to server,
so in later requests the new server's values replace the recorded ones.

Used by: cli/replay.py. Uses: exchanges.py, transports/stdio/client.py, transports/streamable_http/client.py
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

from ..jsonrpc.errors import ConnectionClosed, McpError
from ..jsonrpc.messages import (
    JSON,
    METHOD_NOT_FOUND,
    Error,
    ErrorResponse,
    Incoming,
    Notification,
    Object,
    Request,
    RequestFailure,
    RequestId,
    Response,
    read_message,
)
from ..transports.base import Transport
from ..transports.stdio.client import StdioClientTransport
from ..transports.streamable_http.client import StreamableHttpClientTransport
from .exchanges import RecordedRequest, Sent, differences, requests_of, shown, with_replaced_members

RESPONSE_SECONDS: Final = 60.0
"""Maximum time for a response, in seconds."""
_INVENTED: Final = {"nextCursor": "cursor", "requestState": "requestState", "taskId": "taskId"}
"""Members of results whose value the server invents, and the params in which the client sends it back."""


@dataclass
class Difference:
    """A recorded request that now has another response."""

    request: str
    lines: list[str]


@dataclass
class _Rerun:
    """A run: the connection to the new server, and the outcomes of the requests so far."""

    transport: Transport
    outcomes: dict[RequestId, asyncio.Future[Object]] = field(default_factory=dict)
    """By id of each request that was sent: its `_outcome`."""
    recorded_responses: deque[Object] = field(default_factory=deque)
    """The recorded client's responses to the server's own requests, in order."""
    replaced: dict[str, str] = field(default_factory=dict)
    """Invented value of the recorded server -> value of the new server."""
    has_ended: bool = False
    end_reason: str = "the connection was closed"
    """The error of every request without a response after the end of the connection."""
    has_response: bool = False
    """True if at least one request got a response."""
    failure: str = ""
    """The reason why the transport got no response to a request."""

    def receive(self, message: Incoming) -> None:
        """Note a response or a failure. To a request of the server, respond as the recorded client did."""
        if isinstance(message, Request):
            self._respond(message)
        elif isinstance(message, Response | ErrorResponse | RequestFailure):
            if isinstance(message, RequestFailure):
                self.failure = message.reason
            else:
                self.has_response = True
            outcome = self.outcomes.get(message.id) if message.id is not None else None
            if outcome is not None and not outcome.done():
                outcome.set_result(_outcome(message))

    def _respond(self, request: Request) -> None:
        recorded = self.recorded_responses.popleft() if self.recorded_responses else {}
        response = read_message({"jsonrpc": "2.0", **recorded, "id": request.id})
        if not isinstance(response, Response | ErrorResponse):
            response = ErrorResponse(request.id, Error(METHOD_NOT_FOUND, "the recorded client did not answer"))
        self.transport.send(response)

    def end(self, error: McpError | None) -> None:
        """Note the end of the connection. Every request without a response fails."""
        if error is not None:
            self.end_reason = str(error)
        self.has_ended = True
        self.fail_open_requests()

    def fail_open_requests(self) -> None:
        for outcome in self.outcomes.values():
            if not outcome.done():
                outcome.set_result({"error": {"message": self.end_reason}})


def _outcome(message: Response | ErrorResponse | RequestFailure) -> Object:
    """Return the result, or the error, as in the response of a recording."""
    if isinstance(message, Response):
        return {"result": message.result}
    if isinstance(message, RequestFailure):
        return {"error": {"message": message.reason}}
    return {"error": asdict(message.error)}


async def rerun(messages: Sequence[Sent], server: str | Sequence[str]) -> list[Difference]:
    """Send the messages of a recorded client to a server, and return what differs.

    Args:
        messages: The messages of both sides.
        server: The URL of a server, or the command that starts it.

    Raises:
        ConnectionClosed: The server cannot be started, or no request got a response over HTTP.
    """
    transport: Transport = (
        StreamableHttpClientTransport(server) if isinstance(server, str) else StdioClientTransport(server)
    )
    run = _Rerun(transport)
    from_client = [each.value for each in messages if each.sender == "client"]
    run.recorded_responses.extend(value for value in from_client if "method" not in value)
    await transport.start(run.receive, run.end)
    try:
        found = await _send_all(run, messages)
        if run.failure and not run.has_response:
            raise ConnectionClosed(run.failure)
        return found
    finally:
        await transport.close()


async def _send_all(run: _Rerun, messages: Sequence[Sent]) -> list[Difference]:
    """Send the client's messages, and compare each response with the recorded one."""
    requests = requests_of(messages)
    # two messages can be equal, so these look them up by `id()`
    with_response = {id(each.request): each for each in requests if each.response is not None}
    repeated = _repeated_requests(requests)
    found = list[Difference]()
    open_requests = list[tuple[RecordedRequest, RequestId]]()
    passed = set[int]()  # the messages of the recording so far
    for sent in messages:
        passed.add(id(sent))
        if sent.sender != "client" or "method" not in sent.value:
            continue
        for recorded, request_id in tuple(open_requests):
            if id(recorded.response) in passed:  # the recorded client had this response before it sent this message
                open_requests.remove((recorded, request_id))
                found += await _compare(run, recorded, request_id)
        new_id = None if id(sent) in repeated else _send(run, sent.value)
        if new_id is not None and id(sent) in with_response:
            open_requests.append((with_response[id(sent)], new_id))
    for recorded, request_id in open_requests:
        found += await _compare(run, recorded, request_id)
    return found


def _repeated_requests(requests: Sequence[RecordedRequest]) -> set[int]:
    """Return the `id()` of each request without a response that the client has sent again, as an HTTP client does if it
    finds the server at another endpoint. These need not be sent."""
    answered = {json.dumps(each.request.value) for each in requests if each.response is not None}
    unanswered = [each.request for each in requests if each.response is None]
    return {id(sent) for sent in unanswered if json.dumps(sent.value) in answered}


def _send(run: _Rerun, value: Object) -> RequestId | None:
    """Send a recorded message, unless it is a mistake of the client. Return the id of a request that was sent."""
    message = read_message(_replaced(value, run.replaced))
    if not isinstance(message, Request | Notification):
        return None  # this transport sends only valid messages
    if isinstance(message, Request):
        run.outcomes[message.id] = asyncio.get_running_loop().create_future()
    if run.has_ended:
        run.fail_open_requests()
    else:
        run.transport.send(message)
    return message.id if isinstance(message, Request) else None


async def _compare(run: _Rerun, recorded: RecordedRequest, id: RequestId) -> list[Difference]:
    """Wait for a response. Return what differs from the recorded one."""
    assert recorded.response is not None
    old = {name: value for name, value in recorded.response.value.items() if name in ("result", "error")}
    new: Object = {"error": {"message": f"no response within {RESPONSE_SECONDS:g} seconds"}}
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(RESPONSE_SECONDS):
            new = await run.outcomes[id]
    _note_invented_values(old.get("result"), new.get("result"), run.replaced)
    lines = list(differences(_without_null_data(_replaced(old, run.replaced)), _without_null_data(new)))
    return [Difference(shown(recorded.request.value), lines)] if lines else []


def _without_null_data(outcome: Object) -> Object:
    """Return an outcome, without the `data` of its error if that is null, which means the same."""
    error = outcome.get("error")
    if not isinstance(error, dict) or error.get("data") is not None:
        return outcome
    return {"error": {name: value for name, value in error.items() if name != "data"}}


def _note_invented_values(old: JSON, new: JSON, replaced: dict[str, str]) -> None:
    """Note the values that both servers have invented for the same thing, in `replaced`."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return
    for name, value in old.items():
        other = new.get(name)
        if name in _INVENTED and isinstance(value, str) and isinstance(other, str):
            replaced[value] = other
        elif name == "task":
            _note_invented_values(value, other, replaced)


def _replaced(value: Object, replaced: dict[str, str]) -> Object:
    """Return a message with the new server's values in place of the recorded ones."""
    names = {*_INVENTED, *_INVENTED.values()}

    def replace(name: str, each: JSON) -> JSON:
        return replaced.get(each, each) if name in names and isinstance(each, str) else each

    return {name: with_replaced_members(each, replace) for name, each in value.items()}
