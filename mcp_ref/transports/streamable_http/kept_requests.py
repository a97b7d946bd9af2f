"""Kept requests: the requests that set the state of a session. An event store keeps them beside the events.

They are the latest `logging/setLevel`, and a `resources/subscribe` for each resource with a subscription. Another
process that continues the session handles them again (restoration.py).

A request in flight is lost with its process, so that other process must send an error for it. It finds the request's id
in the name of the stream, where the last two functions write it and read it.

Spec:  server/utilities/logging, server/resources#subscriptions (2025-03-26 to 2025-11-25)
Used by: session.py, restoration.py
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ...jsonrpc.messages import JSON, ErrorResponse, Request, RequestId, Response
from ...lib.uri import canonical_uri

STATE_METHODS: Final = frozenset({"initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"})
"""The methods that set the state of a session."""
MAX_UNSETTLED: Final = 1000
"""Maximum number of requests of one session with these methods that wait for their responses. The oldest is dropped."""
MAX_ID_IN_NAME: Final = 64
"""Maximum length of a request's id in the name of its stream, in characters."""


class KeptRequests:
    """The kept requests of one session.

    Args:
        save: Called with the requests as JSON when they have changed.
    """

    def __init__(self, save: Callable[[bytes], None]) -> None:
        self._save = save
        self._unsettled: dict[RequestId, tuple[Request, Callable[[], object]]] = {}  # without a response yet
        self._kept: dict[str, list[JSON]] = {}  # the URI, or "" for the log level -> method and params

    def note(self, request: Request, then: Callable[[], object] = lambda: None) -> None:
        """Note a request with one of the `STATE_METHODS`. `then` is called when it has its response."""
        self._unsettled[request.id] = request, then
        if len(self._unsettled) > MAX_UNSETTLED:  # a cancelled request gets no response
            del self._unsettled[next(iter(self._unsettled))]

    def settle(self, outcome: object) -> None:
        """Note the response to a request."""
        if not isinstance(outcome, (Response, ErrorResponse)) or outcome.id is None:
            return
        noted = self._unsettled.pop(outcome.id, None)
        if noted is None:
            return
        request, then = noted
        then()
        if isinstance(outcome, ErrorResponse):
            return
        match request.method, request.params:
            case "initialize", _:  # the client begins again, so the server has forgotten its state
                self._kept.clear()
            case "logging/setLevel", {"level": level}:
                self._kept[""] = [request.method, {"level": level}]
            case "resources/subscribe", {"uri": str(uri)}:
                self._kept[canonical_uri(uri) or uri] = [request.method, {"uri": uri}]
            case "resources/unsubscribe", {"uri": str(uri)}:
                self._kept.pop(canonical_uri(uri) or uri, None)
        self._save(json.dumps([*self._kept.values()]).encode())


def stored_requests(kept: bytes, prefix: str) -> Iterator[Request]:
    """Yield the kept requests, as the event store has them, with new ids that begin with the prefix."""
    for number, (method, params) in enumerate(json.loads(kept or b"[]")):
        yield Request(f"{prefix}-{number}", method, params)


def name_with_id(name: str, ids: Sequence[RequestId]) -> str:
    """Return the name of a stream, with the id of its request if it has only one, and the id is not too long."""
    id = str(ids[0])
    if len(ids) > 1 or len(id) > MAX_ID_IN_NAME:
        return name
    if type(ids[0]) is int:
        return f"{name}-{id}"
    # In base64, because the name must not contain ".", which separates it from an event's number. `s` marks a string.
    return f"{name}-s{urlsafe_b64encode(id.encode()).decode()}"


def request_id_of(stream: str) -> RequestId | None:
    """Return the id of the request that a stream has in its name, or None."""
    parts = stream.split("-", 2)  # prefix-number-id, or prefix-number
    if len(parts) < 3 or not parts[2]:
        return None
    id = parts[2]
    return urlsafe_b64decode(id[1:]).decode() if id.startswith("s") else int(id)
