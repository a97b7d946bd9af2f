"""The recorded client sends its requests to a server again, and everything that differs is printed.

Before each message, it waits for the responses that the recorded client had at this moment. So the order is the same,
but the client does not pause. Values that a server invents, such as a cursor, are replaced by those of the new server.

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
    """The state of one run."""

    transport: Transport
    answers: dict[RequestId, asyncio.Future[Object]] = field(default_factory=dict)
    client_answers: deque[Object] = field(default_factory=deque)
    """The recorded client's responses to the server's own requests, in order."""
    replaced: dict[str, str] = field(default_factory=dict)
    """Invented value of the recorded server -> value of the new server."""
    has_ended: bool = False
    why: str = "the connection was closed"
    """The reason for the end of the connection, as the error of every request without a response."""
    has_response: bool = False
    failure: str = ""
    """The reason why the transport got no response to a request."""

    def receive(self, message: Incoming) -> None:
        """Note a response or a failure. To a request of the server, respond as the recorded client did."""
        if isinstance(message, Response | ErrorResponse | RequestFailure):
            if isinstance(message, RequestFailure):
                self.failure = message.reason
            else:
                self.has_response = True
            waiting = self.answers.get(message.id) if message.id is not None else None
            if waiting is not None and not waiting.done():
                waiting.set_result(_outcome(message))
        elif isinstance(message, Request):
            recorded = self.client_answers.popleft() if self.client_answers else {}
            value = read_message({"jsonrpc": "2.0", **recorded, "id": message.id})
            if not isinstance(value, Response | ErrorResponse):
                value = ErrorResponse(message.id, Error(METHOD_NOT_FOUND, "the recorded client did not answer"))
            self.transport.send(value)

    def end(self, error: McpError | None) -> None:
        self.why = str(error) if error is not None else self.why
        for waiting in self.answers.values():
            if not waiting.done():
                waiting.set_result({"error": {"message": self.why}})
        self.has_ended = True


def _outcome(message: Response | ErrorResponse | RequestFailure) -> Object:
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
    requests = requests_of(messages)
    expected = {id(each.request): each for each in requests if each.response is not None}
    answered = {json.dumps(each.request.value) for each in expected.values()}
    unanswered = [each.request for each in requests if each.response is None]
    # an HTTP client has sent each of these again, to another endpoint
    repeated = {id(sent) for sent in unanswered if json.dumps(sent.value) in answered}
    from_client = [each.value for each in messages if each.sender == "client"]
    run.client_answers.extend(value for value in from_client if "method" not in value)
    await transport.start(run.receive, run.end)
    try:
        found = list[Difference]()
        waiting = list[tuple[RecordedRequest, RequestId]]()
        seen = set[int]()  # the `id()` of each message so far
        for sent in messages:
            seen.add(id(sent))
            if sent.sender != "client" or "method" not in sent.value:
                continue
            for recorded, request_id in tuple(waiting):
                if id(recorded.response) in seen:
                    waiting.remove((recorded, request_id))
                    found += await _compare(run, recorded, request_id)
            new_id = None if id(sent) in repeated else _send(run, sent.value)
            if new_id is not None and id(sent) in expected:
                waiting.append((expected[id(sent)], new_id))
        for recorded, request_id in waiting:
            found += await _compare(run, recorded, request_id)
        if run.failure and not run.has_response:
            raise ConnectionClosed(run.failure)
        return found
    finally:
        await transport.close()


def _send(run: _Rerun, value: Object) -> RequestId | None:
    """Send a recorded message, unless it is a mistake of the client. Return the id of a request that was sent."""
    message = read_message(_replaced(value, run.replaced))
    if not isinstance(message, Request | Notification):
        return None  # this transport sends only valid messages
    if isinstance(message, Request):
        run.answers[message.id] = asyncio.get_running_loop().create_future()
    if run.has_ended:
        run.end(None)  # for this request, too
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
            new = await run.answers[id]
    _learn(old.get("result"), new.get("result"), run.replaced)
    lines = list(differences(_without_null_data(_replaced(old, run.replaced)), _without_null_data(new)))
    return [Difference(shown(recorded.request.value), lines)] if lines else []


def _without_null_data(outcome: Object) -> Object:
    """Return an outcome, without the `data` of its error if that is null, which means the same."""
    error = outcome.get("error")
    if not isinstance(error, dict) or error.get("data") is not None:
        return outcome
    return {"error": {name: value for name, value in error.items() if name != "data"}}


def _learn(old: JSON, new: JSON, replaced: dict[str, str]) -> None:
    """Note the values that both servers have invented for the same thing."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return
    for name, value in old.items():
        other = new.get(name)
        if name in _INVENTED and isinstance(value, str) and isinstance(other, str):
            replaced[value] = other
        elif name == "task":
            _learn(value, other, replaced)


def _replaced(value: Object, replaced: dict[str, str]) -> Object:
    """Return a message with the new server's values in place of the recorded ones."""
    names = {*_INVENTED, *_INVENTED.values()}

    def replace(name: str, each: JSON) -> JSON:
        return replaced.get(each, each) if name in names and isinstance(each, str) else each

    return {name: with_replaced_members(each, replace) for name, each in value.items()}
