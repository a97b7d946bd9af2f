r"""A recording: the conversation of a client and a server as a file, one JSON object a line, encoded as UTF-8.

The first line is the head, and each other line is one event, in the order in which the recorder saw them. A recording
of a server that runs as a child process (stdio) has a line for each frame, which is one line of the server's standard
input or output without its line feed:

    {"mcp_recording": 1, "transport": "stdio", "command": ["python3", "server.py"], "started": "2026-11-23T12:00:00Z"}
    {"at": 0.012, "connection": 1, "from": "client", "frame": "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"}
    {"at": 0.02, "connection": 1, "from": "server", "frame_base64": "/w=="}
    {"at": 0.021, "connection": 1, "from": "server", "stderr": "warning: no configuration\n"}
    {"at": 0.03, "connection": 1, "from": "server", "frame": "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}"}
    {"at": 0.5, "gap": 12, "bytes": 3400, "because": "the disk was too slow"}
    {"at": 1.5, "connection": 1, "end": "server", "exit": 0}

`at` is the time since `started`, in seconds. `connection` counts processes or TCP connections from 1. Over HTTP, a
request and everything that belongs to its response have the same number:

    {"mcp_recording": 1, "transport": "http", "url": "http://127.0.0.1:8000/mcp", "started": "2026-11-23T12:00:00Z"}
    {"at": 0.1, "connection": 1, "request": 7, "method": "POST", "target": "/mcp", "headers": [["Host", "a"],
        ["Authorization", "***"]], "body": "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", "masked": true}
    {"at": 0.2, "connection": 1, "response": 7, "status": 200, "headers": [["Content-Type", "text/event-stream"]]}
    {"at": 0.3, "connection": 1, "response": 7, "event": {"id": "1", "retry": 500, "type": "message"}, "data": "{}"}
    {"at": 0.4, "connection": 1, "response": 7, "body": "a body that is not an event stream"}
    {"at": 0.5, "connection": 1, "response": 7, "end": "complete"}

(Each event is one line of the file; the request is broken here to fit the page.) The contents of `frame`, `stderr`,
`body` and `data` are text. Content that is not UTF-8 is written in base64, in a member whose name ends with
`_base64`. Of content above `MAX_CONTENT`, only the start is kept, with the size and the digest of the whole:
`"frame": "{\"jsons", "frame_size": 2000000, "frame_sha256": "..."`. `"masked": true` marks an event in which `***`
replaces a secret, so neither the type nor the size of that value is known. `"partial": true` marks a frame that ended
without a line feed, because the process died or closed its output. With the transport `messages`, a program has
recorded its own messages, so each is a frame, and nothing is known about their real framing. Other programs can write
this format, too, because a reader ignores members and events that it does not know.

Used by: recorder/, cli/ and the rest of check/. Below: nothing
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from ..jsonrpc.messages import JSON

FORMAT: Final = 1
"""The version of the format. It grows with each change that old readers cannot ignore."""
MAX_CONTENT: Final = 1024 * 1024
"""Maximum size of content that is kept as a whole, in bytes."""
KEPT_START: Final = 4096
"""Size of the start that is kept of larger content, in bytes."""
Side = Literal["client", "server"]
Ending = Literal["complete", "client", "server"]
Transport = Literal["stdio", "http", "messages"]


class RecordingError(ValueError):
    """A file or line that is not a recording of this format."""


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes of a frame, body or event, or above `MAX_CONTENT` only their start, with the size and the digest."""

    data: bytes
    """All bytes, or their start if `sha256` is not empty."""
    size: int
    """Number of all bytes."""
    sha256: str = ""
    """SHA-256 of all bytes in hexadecimal, or "" if `data` has all of them."""

    @property
    def is_whole(self) -> bool:
        """True if `data` has all bytes."""
        return not self.sha256


def content(data: bytes) -> Content:
    """Return bytes as the content of an event. Of more than `MAX_CONTENT` bytes, only the start is kept."""
    if len(data) <= MAX_CONTENT:
        return Content(data, len(data))
    return Content(data[:KEPT_START], len(data), hashlib.sha256(data).hexdigest())


@dataclass(frozen=True, slots=True)
class Head:
    """The first line of a recording."""

    transport: Transport
    started: str = ""
    """The time of the start, in the form of RFC 3339, or ""."""
    command: tuple[str, ...] = ()
    """The program of the server and its arguments, over stdio."""
    url: str = ""
    """The server's URL, over HTTP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """The common part of all events."""

    at: float = 0.0
    """Time since the start of the recording, in seconds."""
    connection: int = 0
    """Number of the process or of the TCP connection, from 1; or 0 in a gap, which concerns all connections."""
    masked: bool = False
    """True if `***` replaces a secret in this event."""


@dataclass(frozen=True, slots=True)
class Frame(Event):
    """One line of stdio, or one message of a program's own trace."""

    sender: Side
    content: Content
    partial: bool = False
    """True if no line feed came after these bytes."""


@dataclass(frozen=True, slots=True)
class ErrorOutput(Event):
    """A piece of the server's standard error."""

    content: Content


@dataclass(frozen=True, slots=True)
class End(Event):
    """The end of a connection: the client has closed the input, or the server's process has ended."""

    side: Side
    exit: int | None = None
    """Exit code of the server's process, the negative number of the signal that killed it, or None if unknown."""


@dataclass(frozen=True, slots=True)
class HttpRequest(Event):
    """A request over HTTP, with its body."""

    number: int
    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    content: Content


@dataclass(frozen=True, slots=True)
class HttpResponse(Event):
    """The head of the response to the request of the same number."""

    number: int
    status: int
    headers: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class HttpBody(Event):
    """The body of a response that is not an event stream."""

    number: int
    content: Content


@dataclass(frozen=True, slots=True)
class HttpEvent(Event):
    """One event of a response that is an event stream (SSE)."""

    number: int
    content: Content
    """The data of the event. An event without data has a size of 0."""
    id: str | None = None
    """The event's own id, or None if it has none."""
    retry: int | None = None
    """Milliseconds until a reconnect, or None if the event does not say so."""
    type: str = "message"


@dataclass(frozen=True, slots=True)
class HttpEnd(Event):
    """The end of a response, which is complete unless one side has closed the connection too early."""

    number: int
    how: Ending


@dataclass(frozen=True, slots=True)
class Gap(Event):
    """Events that the recording lost. A reader cannot know what happened here."""

    events: int
    size: int = 0
    """Size of the lost contents, in bytes."""
    because: str = ""


def format_head(head: Head) -> bytes:
    """Return the first line of a recording, without a line feed."""
    line: dict[str, JSON] = {"mcp_recording": FORMAT, "transport": head.transport}
    if head.transport == "stdio":
        line["command"] = list(head.command)
    if head.transport == "http":
        line["url"] = head.url
    return _line({**line, "started": head.started})


def format_event(event: Event) -> bytes:
    """Return the line of an event, without a line feed."""
    line: dict[str, JSON] = {"at": round(event.at, 6)}
    if not isinstance(event, Gap):
        line["connection"] = event.connection
    match event:
        case Frame():
            line |= {"from": event.sender, **_format_content("frame", event.content)}
            if event.partial:
                line["partial"] = True
        case ErrorOutput():
            line |= {"from": "server", **_format_content("stderr", event.content)}
        case End():
            line["end"] = event.side
            if event.exit is not None:
                line["exit"] = event.exit
        case HttpRequest():
            line |= {"request": event.number, "method": event.method, "target": event.target}
            line |= {"headers": [list(pair) for pair in event.headers], **_format_content("body", event.content)}
        case HttpResponse():
            line |= {"response": event.number, "status": event.status}
            line |= {"headers": [list(pair) for pair in event.headers]}
        case HttpBody():
            line |= {"response": event.number, **_format_content("body", event.content)}
        case HttpEvent():
            fields: dict[str, JSON] = {"id": event.id, "retry": event.retry, "type": event.type}
            given: JSON = {name: value for name, value in fields.items() if value is not None}
            line |= {"response": event.number, "event": given, **_format_content("data", event.content)}
        case HttpEnd():
            line |= {"response": event.number, "end": event.how}
        case Gap():
            line |= {"gap": event.events, "bytes": event.size, "because": event.because}
    return _line({**line, "masked": True} if event.masked else line)


def _line(value: JSON) -> bytes:
    # a header that is not UTF-8 arrives with lone surrogates, which only an escape can write
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")


def _format_content(name: str, content: Content) -> dict[str, JSON]:
    data = content.data
    try:
        members: dict[str, JSON] = {name: data.decode()}
    except UnicodeDecodeError as error:
        ends_in_character = error.start >= len(data) - 3  # a character has at most four bytes
        if content.is_whole or not ends_in_character:
            members = {f"{name}_base64": base64.b64encode(data).decode()}
        else:  # only the start of the content was kept
            members = {name: data[: error.start].decode()}
    if not content.is_whole:
        members |= {f"{name}_size": content.size, f"{name}_sha256": content.sha256}
    return members


def parse_head(line: bytes) -> Head:
    """Return the head of a recording. Raise RecordingError if the line is not one."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or "mcp_recording" not in value:
        raise RecordingError('not a recording: the first line is not an object with the member "mcp_recording"')
    if value["mcp_recording"] != FORMAT:
        raise RecordingError(f"the format {value['mcp_recording']!r:.20} is not known here, only {FORMAT}")
    transport, command = value.get("transport"), value.get("command")
    if transport not in ("stdio", "http", "messages"):
        raise RecordingError(f"the transport {transport!r:.40} is not known here")
    words = tuple(map(str, command)) if isinstance(command, list) else ()
    return Head(transport, str(value.get("started", "")), words, str(value.get("url", "")))


def parse_event(line: bytes) -> Event | None:
    """Return the event of a line, or None for an unknown kind. Raise RecordingError if the line is not an event."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise RecordingError("the line is not JSON, perhaps because it was cut off") from None
    try:
        return _event(value) if isinstance(value, dict) else None
    except KeyError as error:
        raise RecordingError(f"not an event of a recording: the member {error} is missing") from None
    except (ValueError, TypeError, OverflowError) as error:
        raise RecordingError(f"not an event of a recording: {error!s:.200}") from None


def _event(value: dict[str, Any]) -> Event | None:
    at, connection = value.get("at", 0.0), value.get("connection", 0)
    if not isinstance(at, int | float) or not isinstance(connection, int):
        raise TypeError("at or connection is not a number")
    common: dict[str, Any] = {"at": float(at), "connection": connection, "masked": value.get("masked") is True}
    if "gap" in value:
        return Gap(_number(value["gap"]), _number(value.get("bytes", 0)), str(value.get("because", "")), at=float(at))
    if "request" in value:
        headers, body = _headers(value.get("headers")), _parse_content("body", value)
        method, target = str(value["method"]), str(value["target"])
        return HttpRequest(_number(value["request"]), method, target, headers, body, **common)
    if "response" in value:
        return _response_event(_number(value["response"]), value, common)
    if "end" in value:
        code = value.get("exit")
        return End(_side(value["end"]), code if isinstance(code, int) else None, **common)
    if "stderr" in value or "stderr_base64" in value:
        return ErrorOutput(_parse_content("stderr", value), **common)
    if "frame" in value or "frame_base64" in value:
        return Frame(_side(value["from"]), _parse_content("frame", value), value.get("partial") is True, **common)
    return None


def _response_event(number: int, value: dict[str, Any], common: dict[str, Any]) -> Event | None:
    if "status" in value:
        return HttpResponse(number, _number(value["status"]), _headers(value.get("headers")), **common)
    if "event" in value:
        fields = value["event"]
        if not isinstance(fields, dict):
            raise TypeError("event is not an object")
        id, retry = fields.get("id"), fields.get("retry")
        data, type = _parse_content("data", value), str(fields.get("type", "message"))
        id = id if isinstance(id, str) else None
        retry = retry if isinstance(retry, int) else None
        return HttpEvent(number, data, id, retry, type, **common)
    if "end" in value:
        return HttpEnd(number, "complete" if value["end"] == "complete" else _side(value["end"]), **common)
    if "body" in value or "body_base64" in value:
        return HttpBody(number, _parse_content("body", value), **common)
    return None


def _parse_content(name: str, value: dict[str, JSON]) -> Content:
    encoded = value.get(f"{name}_base64")
    if encoded is not None:
        try:
            data = base64.b64decode(str(encoded), validate=True)
        except binascii.Error as error:
            raise ValueError(f"{name}_base64 is not base64: {error}") from None
    else:
        data = str(value.get(name, "")).encode("utf-8", "surrogatepass")
    size, digest = value.get(f"{name}_size"), value.get(f"{name}_sha256")
    return Content(data, size if isinstance(size, int) else len(data), digest if isinstance(digest, str) else "")


def _number(value: JSON) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r:.40} is not a whole number")
    return value


def _side(value: JSON) -> Side:
    if value == "client":
        return "client"
    if value == "server":
        return "server"
    raise ValueError(f"{value!r:.40} is not a side")


def _headers(value: JSON) -> tuple[tuple[str, str], ...]:
    pairs = value if isinstance(value, list) else []
    return tuple((str(pair[0]), str(pair[1])) for pair in pairs if isinstance(pair, list) and len(pair) == 2)


def read_events(lines: Iterable[bytes]) -> Iterator[Event]:
    """Yield the events of the lines after the head. An invalid line, such as one that was cut, becomes a `Gap`."""
    at = 0.0
    for line in lines:
        if not line.strip():
            continue
        try:
            event = parse_event(line)
        except RecordingError as error:
            event = Gap(1, len(line), str(error), at=at)
        if event is not None:
            at = event.at
            yield event
