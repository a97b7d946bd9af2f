"""The client's requests in a recording, each with the messages that the server sent because of it.

    request   tools/call with the id 4
    messages  progress, a log message, elicitation/create, and at the end the response with the id 4

The id, the progress token or, over HTTP, the stream of a message says to which request it belongs. Any other
notification of the server belongs to the request that began last, so that a replay sends it at the same place of the
conversation. A replay finds a request by its *signature*: its method and params, which stay the same when a client
repeats it, unlike its id.

Used by: replay.py, regression.py. Uses: check/recording.py, transports/trace.py
"""

from __future__ import annotations

import difflib
import functools
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, cast

from ..basic.versioning import PROTOCOL_VERSION
from ..check.recording import Event, Frame, HttpBody, HttpEvent, HttpRequest, Side
from ..jsonrpc.messages import INTERNAL_ERROR, JSON, Object, parse_json
from ..jsonrpc.outline import search_ends
from ..transports.trace import redact

_CHOSEN_BY_CLIENT: Final = ("clientInfo", "capabilities", "protocolVersion")
"""The params of `initialize` that differ from client to client."""
MAX_IN_FLIGHT: Final = 1000
"""Maximum number of requests that wait for a response. If there are more, the oldest one counts as never answered."""
MAX_UNKNOWN: Final = 100
"""Maximum number of lines in `Cassette.unrecorded`, one for each request that was not recorded."""
MAX_COMPARED: Final = 1000
"""Maximum number of recorded requests that are compared with an unknown one, to name the nearest."""
SHOWN_CHARACTERS: Final = 160
"""Maximum length of a request in a report, in characters."""


@dataclass(frozen=True)
class Sent:
    """One message of either side in a recording."""

    at: float
    """Time since the start of the recording, in seconds."""
    sender: Side
    value: Object
    number: int = 0
    """Number of its HTTP request in the recording. 0 over stdio."""
    is_cut: bool = False
    """True if the recording has only the start of this response, and the value is an error that says so."""


@dataclass(eq=False)
class RecordedRequest:
    """A request of the client, and the messages of the server that belong to it."""

    request: Sent
    messages: list[Sent] = field(default_factory=list)
    """The messages in their order. The last one is the response, or the error in place of a response that is cut."""
    response: Sent | None = None
    """The response. None if the recording does not have all of it."""

    @property
    def is_answered(self) -> bool:
        """True if there was a response, even if the recording has only its start."""
        return any("method" not in sent.value for sent in self.messages)

    @property
    def progress_token(self) -> JSON:
        """The token of its progress notifications, or None."""
        return member(self.request.value, "params", "_meta", "progressToken")


def messages_of(events: Iterable[Event]) -> Iterator[Sent]:
    """Yield the messages in their order, those of a batch one by one. Contents that are not messages are skipped."""
    for event in events:
        match event:
            case Frame():
                sender, number = event.sender, 0
            case HttpRequest():
                sender, number = "client", event.number
            case HttpBody() | HttpEvent():
                sender, number = "server", event.number
            case _:
                continue
        if event.content.is_whole:
            messages = [each for each in objects_in(event.content.data) if each.get("jsonrpc") == "2.0"]
            yield from (Sent(event.at, sender, message, number) for message in messages)
        elif sender == "server":
            keys, id = search_ends(event.content.data)
            if "result" in keys or "error" in keys:
                text = f"the recording has only the start of this response, which had {event.content.size} bytes"
                error: JSON = {"code": INTERNAL_ERROR, "message": text}
                response: Object = {"jsonrpc": "2.0", "id": cast("JSON", id), "error": error}
                yield Sent(event.at, sender, response, number, is_cut=True)


def objects_in(data: bytes) -> list[Object]:
    """Return the JSON objects in these bytes: one, those of a batch, or none if the bytes are not JSON."""
    try:
        value = parse_json(data)
    except ValueError:
        return []
    values = value if isinstance(value, list) else [value]
    return [each for each in values if isinstance(each, dict)]


def requests_of(messages: Iterable[Sent]) -> list[RecordedRequest]:
    """Return the client's requests in their order, with the messages that belong to each."""
    found: list[RecordedRequest] = []
    in_flight = deque[RecordedRequest](maxlen=MAX_IN_FLIGHT)
    for sent in messages:
        if sent.sender == "client":
            if "method" in sent.value and "id" in sent.value:
                request = RecordedRequest(sent)
                found.append(request)
                in_flight.append(request)
        elif "method" in sent.value:  # a notification or a request of the server
            owner = _owner(in_flight, sent)
            if owner is None and found:
                owner = found[-1]
            if owner is not None:
                owner.messages.append(sent)
        else:
            answered = _answered_request(in_flight, sent)
            if answered is not None:
                answered.messages.append(sent)
                answered.response = None if sent.is_cut else sent
                in_flight.remove(answered)
    return found


def _answered_request(in_flight: deque[RecordedRequest], response: Sent) -> RecordedRequest | None:
    """Return the request in flight to which a response belongs; the latest, if several have its id."""
    id = json.dumps(response.value.get("id"))  # as JSON, because 1 and true are equal in Python
    same_id = [each for each in reversed(in_flight) if json.dumps(each.request.value["id"]) == id]
    # over HTTP, several clients can use the same id at the same time
    same_stream = [each for each in same_id if each.request.number == response.number]
    if response.is_cut and id == "null" and len(in_flight) == 1:
        return in_flight[0]  # its id stood at the end, as in the messages of the TypeScript SDK
    candidates = same_stream or same_id
    return candidates[0] if candidates else None


def _owner(in_flight: deque[RecordedRequest], sent: Sent) -> RecordedRequest | None:
    """Return the request in flight to which a notification or request of the server belongs: the one with its progress
    token or, without a token, the latest on its stream. None if neither is found."""
    token = member(sent.value, "params", "progressToken")
    if token is None:
        return next((each for each in reversed(in_flight) if each.request.number == sent.number), None)
    return next((each for each in reversed(in_flight) if each.progress_token == token), None)


def signature(request: Object) -> str:
    """Return a text that equal requests have in common: method and params, without `_meta` and secrets."""
    params = request.get("params")
    params = params if isinstance(params, dict) else {}
    kept = {name: value for name, value in params.items() if name != "_meta"}
    if kept.get("arguments") == {}:
        del kept["arguments"]  # some clients leave them out
    if request.get("method") == "initialize":
        kept = {name: value for name, value in kept.items() if name not in _CHOSEN_BY_CLIENT}
    return json.dumps([request.get("method"), redact(kept)], sort_keys=True)


def shown(request: Object) -> str:
    """Return a request as one line for a person, without secrets."""
    method, params = json.loads(signature(request))
    return _cut(f"{method} {json.dumps(params, ensure_ascii=False)}" if params else str(method))


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."


class Cassette:
    """The recorded requests, from which a replay takes them by their signatures. Requests with the same signature are
    taken in their order, and when only the last one is left, it is taken again and again.

    Args:
        events: The events of a recording.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self.requests = requests_of(messages_of(events))
        by_signature: dict[str, list[RecordedRequest]] = {}
        for recorded in self.requests:
            by_signature.setdefault(signature(recorded.request.value), []).append(recorded)
        self._by_signature: dict[str, list[RecordedRequest]] = {}  # those that `take` can still return
        for request_signature, repetitions in by_signature.items():
            # A request without a response was cancelled, or sent again: to an HTTP+SSE server, for example, a client
            # sends `initialize` twice, because it tries Streamable HTTP first.
            answered = [recorded for recorded in repetitions if recorded.is_answered]
            self._by_signature[request_signature] = answered or repetitions
        self.unrecorded: list[str] = []
        """A line for each of the first `MAX_UNKNOWN` requests that were not recorded."""

    @functools.cached_property
    def revision(self) -> str:
        """The name of the revision of the first request that had a result, or ""."""
        for recorded in self.requests:
            if recorded.response is None or "result" not in recorded.response.value:
                continue  # a client tries a revision that the server does not speak, and then another one
            name = member(recorded.response.value, "result", "protocolVersion")
            name = name or member(recorded.request.value, "params", "_meta", PROTOCOL_VERSION)
            if isinstance(name, str):
                return name
        return ""

    def take(self, request: Object) -> RecordedRequest | None:
        """Return the next recording of this request with its messages, or None."""
        same = self._by_signature.get(signature(request), [])
        if len(same) > 1:
            return same.pop(0)
        return same[0] if same else None

    def note_unknown(self, request: Object) -> str:
        """Note a request that was not recorded. Return a text that names the nearest recorded one."""
        method = request.get("method")
        requests = [recorded.request.value for recorded in self.requests]
        same_method = [each for each in requests if each["method"] == method]
        lines = [shown(each) for each in (same_method or requests)[:MAX_COMPARED]]
        near = difflib.get_close_matches(shown(request), lines, n=1, cutoff=0.0)
        text = f"not recorded: {shown(request)}"
        if near:
            text += f"; the nearest recorded request is: {near[0]}"
        if len(self.unrecorded) < MAX_UNKNOWN:
            self.unrecorded.append(text)
        return text


_MISSING: Final = "(missing)"  # stands for a member or an item that only the other value has


def differences(old: JSON, new: JSON, path: str = "") -> Iterator[str]:
    """Yield a line for each place at which two results differ. `_meta` is not compared."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in {**old, **new}:
            if name != "_meta":
                place = f"{path}.{name}" if path else name
                yield from differences(old.get(name, _MISSING), new.get(name, _MISSING), place)
    elif isinstance(old, list) and isinstance(new, list):
        before, after = _by_name(old), _by_name(new)
        if before.keys() == after.keys() and list(before) != list(after):
            yield f"{path}: the same items in another order"
        for name in {**before, **after}:
            yield from differences(before.get(name, _MISSING), after.get(name, _MISSING), f"{path}[{name}]")
    elif not _is_equal(old, new):
        yield f"{path}: {_short(old)} -> {_short(new)}"


def _is_equal(old: JSON, new: JSON) -> bool:
    """Return True for equal JSON values. With `==` alone, true would equal 1, and `_MISSING` the text "(missing)"."""
    if isinstance(old, bool) != isinstance(new, bool) or (old is _MISSING) != (new is _MISSING):
        return False
    return old == new


def _by_name(items: list[JSON]) -> dict[str, JSON]:
    """Return the items of a list, such as tools, by their names. An item without a name gets its number; if two items
    have the same name, all get their numbers."""
    names = [str(member(item, "name") or number) for number, item in enumerate(items)]
    if len(set(names)) < len(names):
        names = [str(number) for number in range(len(items))]
    return dict(zip(names, items, strict=True))


def _short(value: JSON) -> str:
    return value if value is _MISSING else _cut(json.dumps(value, ensure_ascii=False))


def with_replaced_members(value: JSON, replace: Callable[[str, JSON], JSON]) -> JSON:
    """Return a copy of a JSON value, in which `replace(name, value)` replaces the value of each member at any depth,
    except objects and arrays, whose own members it replaces instead."""
    if isinstance(value, list):
        return [with_replaced_members(item, replace) for item in value]
    if isinstance(value, dict):
        changed: Object = {}
        for name, each in value.items():
            is_nested = isinstance(each, dict | list)
            changed[name] = with_replaced_members(each, replace) if is_nested else replace(name, each)
        return changed
    return value


def member(value: JSON, *names: str) -> JSON:
    """Return the value under a path of names in a message; None if it is missing."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value
