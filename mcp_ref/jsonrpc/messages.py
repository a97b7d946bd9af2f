"""JSON-RPC 2.0 messages: bytes in, messages out, and back. Pure functions; no I/O, no MCP.

A frame is the bytes of one JSON text. `decode` says what a frame is: a `Request` (someone wants an answer), a
`Notification` (nobody does), a `Response` or an `ErrorResponse` (the answer), a `Batch` of these, or `Malformed`, which
carries the error that the sender deserves. It never raises, whatever the bytes are.

Spec:  JSON-RPC 2.0; basic/index#messages (all revisions); batches: 2025-03-26 basic/index#batching
Wire:  {"jsonrpc": "2.0", "id": 1, "method": "ping"}
       {"jsonrpc": "2.0", "id": 1, "result": {}}
Above: `dispatcher.py`. Elsewhere: whether an array is welcome at all (the dispatcher asks the negotiated revision).

JSON is read more strictly than `json.loads` does by itself, because two readers of one message must never disagree on
what it says: no duplicate keys, no NaN or Infinity, no lone surrogates, no integers beyond Python's digit limit
(4,300), no nesting beyond `MAX_DEPTH`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Final, TypeAlias, TypeGuard

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
Object: TypeAlias = dict[str, JSON]
RequestId: TypeAlias = str | int

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

MAX_DEPTH: Final = 200
"""Arrays and objects within each other, at most. RFC 8259, section 9 lets a parser set it; deeper is a parse error."""

MAX_BATCH: Final = 1000
"""Members of one batch, at most."""

RECOVERY_WINDOW: Final = 1 << 20
"""Bytes at the start of an unreadable frame in which its `id` is looked for (1 MiB)."""


@dataclass(slots=True)
class Error:
    """The `error` member of an error response. `data` is free-form and left out when None."""

    code: int
    message: str
    data: JSON = None


@dataclass(slots=True)
class Request:
    """A call that wants an answer with the same `id`. `params` is {} when the wire has none."""

    id: RequestId
    method: str
    params: Object = field(default_factory=dict)


@dataclass(slots=True)
class Notification:
    """A one-way message; the receiver never answers it."""

    method: str
    params: Object = field(default_factory=dict)


@dataclass(slots=True)
class Response:
    """The successful answer to the request with this `id`."""

    id: RequestId
    result: Object


@dataclass(slots=True)
class ErrorResponse:
    """The failed answer. `id` is None where the request's id could not be read.

    `omit_id` says how an unknown id is written: left out (MCP from 2025-11-25 on), or `null` (JSON-RPC 2.0, section 5).
    """

    id: RequestId | None
    error: Error
    omit_id: bool = False


@dataclass(slots=True)
class Malformed:
    """What could not be read as a message, and the error its sender deserves.

    `id` is the request's where it could be read. An `answer` was itself meant as an answer, so it gets none: JSON-RPC
    knows no errors about responses; its `id`, if known, says whose wait is over.
    """

    error: Error
    id: RequestId | None = None
    is_response: bool = False


@dataclass(slots=True)
class Undelivered:
    """A transport's word that our request `id` will not be answered, and why. Not a message: nothing of it was sent.

    foreign: the peer is there, and answered with what is no message of this protocol.
    """

    id: RequestId
    reason: str
    foreign: bool = False


Message: TypeAlias = Request | Notification | Response | ErrorResponse


@dataclass(slots=True)
class Batch:
    """Several messages in one frame, a JSON array. Received ones may hold `Malformed` members."""

    messages: list[Message | Malformed]


Outgoing: TypeAlias = Message | Batch
Incoming: TypeAlias = Message | Malformed | Batch | Undelivered


# ---------------------------------------------------------------------------------------------------- reading


class _NotJSON(ValueError):
    """The text breaks a rule of JSON that `json.loads` would let pass."""


def _unique(pairs: list[tuple[str, JSON]]) -> Object:
    """Build an object, refusing duplicate names. [RFC 8259, section 4: their meaning is unpredictable]"""
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        name = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise _NotJSON(f"the name {name[:80]!r} stands twice in one object")
    return members


def _no_constant(name: str) -> JSON:
    raise _NotJSON(f"{name} is no JSON number")


_read_json = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant).decode


def decode(frame: bytes | bytearray | memoryview) -> Incoming:
    """Read one frame, the UTF-8 bytes of one JSON text, and say what it is. Never raises.

    Gives a `Message`, a `Batch` (whose members are read the same way), or `Malformed` with the error to answer:
    -32700 when it is no JSON, -32600 when it is JSON but no message, -32602 when `params` is an array.
    """
    try:
        text = str(frame, "utf-8")
    except UnicodeDecodeError as error:
        # [2025-11-25 basic/transports#intro] JSON-RPC messages MUST be UTF-8 encoded
        return _unreadable(frame, f"byte {error.start} is not valid UTF-8")
    try:
        value = _read_json(text)
        if text.count("[") + text.count("{") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
            raise RecursionError
        if "\\u" in text and ("\\ud" in text or "\\uD" in text):  # an escape that may name half a character
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        return _unreadable(frame, f"it nests deeper than {MAX_DEPTH} levels")
    except UnicodeEncodeError:
        return _unreadable(frame, "a string holds a lone surrogate (half of a \\uD800-\\uDFFF pair)")
    except _NotJSON as error:
        return _unreadable(frame, str(error))
    except json.JSONDecodeError as error:
        return _unreadable(frame, f"{error.msg} at character {error.pos}")
    except ValueError:  # int() refuses more digits than sys.get_int_max_str_digits()
        return _unreadable(frame, "a number has too many digits")
    if type(value) is dict:
        return read_message(value)
    if type(value) is list:
        return _read_batch(value)
    return _invalid("a message is a JSON object")


def read_message(value: Object) -> Message | Malformed:
    """Say which message a JSON object is, checking every rule of basic/index#messages."""
    id = value.get("id")
    known_id = id if is_request_id(id) else None
    if "method" not in value and ("result" in value or "error" in value):
        return _read_response(value, known_id)
    if value.get("jsonrpc") != "2.0":
        return _invalid('a message has "jsonrpc": "2.0"', known_id)
    method = value.get("method")
    if type(method) is not str:
        return _invalid("a request or notification has a method, a string", known_id)
    if "result" in value or "error" in value:
        return _invalid("a message is a request or a response, not both", known_id)
    params = value.get("params", {})
    if type(params) is not dict:
        code = INVALID_PARAMS if type(params) is list else INVALID_REQUEST
        return Malformed(Error(code, "params must be an object"), known_id, is_response="id" not in value)
    if known_id is not None:
        return Request(known_id, method, params)
    if "id" not in value:
        return Notification(method, params)
    # [2025-11-25 basic/index#requests] a string or integer ID; unlike base JSON-RPC, never null
    return _invalid("an id is a string or an integer, never null, a fraction or a boolean")


def _read_response(value: Object, id: RequestId | None) -> Message | Malformed:
    if value.get("jsonrpc") != "2.0":
        return _bad_answer('it lacks "jsonrpc": "2.0"', id)
    if "result" in value and "error" in value:
        # [2025-06-18 basic/index#responses] a response MUST NOT set both
        return _bad_answer("it has both a result and an error", id)
    if "result" in value:
        result = value["result"]
        if type(result) is not dict:
            return _bad_answer("its result is not an object", id)
        return Response(id, result) if id is not None else _bad_answer("its id is missing or no string or integer", id)
    error = value["error"]
    if type(error) is not dict or type(error.get("code")) is not int or type(error.get("message")) is not str:
        # [2025-11-25 basic/index#error-responses] code and message are required; codes MUST be integers
        return _bad_answer("its error lacks an integer code or a message", id)
    return ErrorResponse(id, Error(error["code"], error["message"], error.get("data")))  # type: ignore[arg-type]


def _read_batch(values: list[JSON]) -> Incoming:
    if not values:
        return _invalid("a batch has at least one member")  # [JSON-RPC 2.0, section 7]
    if len(values) > MAX_BATCH:
        return _invalid(f"a batch has at most {MAX_BATCH} members, not {len(values)}")
    return Batch([read_message(v) if type(v) is dict else _invalid("a message is a JSON object") for v in values])


def is_request_id(value: JSON) -> TypeGuard[RequestId]:
    """True for a string or an integer; `True` is an int in Python, but no integer in JSON."""
    return type(value) is str or type(value) is int


def _invalid(rule: str, id: RequestId | None = None) -> Malformed:
    return Malformed(Error(INVALID_REQUEST, f"Invalid Request: {rule}"), id)


def _bad_answer(fault: str, id: RequestId | None) -> Malformed:
    return Malformed(Error(INVALID_REQUEST, f"Invalid response: {fault}"), id, is_response=True)


# ------------------------------------------------------------------------------- saving the id of a bad frame

_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_TOKEN = re.compile(_STRING + r'|[\[\]{},:]|[^\s"\[\]{},:]++')


def _unreadable(frame: bytes | bytearray | memoryview, fault: str) -> Malformed:
    """A parse error, addressed to the request it spoilt if that can be made out. It is never silence."""
    text = str(frame[:RECOVERY_WINDOW], "utf-8", "replace")
    id, answer = _recover(text)
    return Malformed(Error(PARSE_ERROR, f"Parse error: {fault}"), id, answer)


def oversize(start: bytes, limit: int) -> Malformed:
    """What stands for a frame longer than the transport's `limit` in bytes, of which only the `start` was kept."""
    id, answer = _recover(str(start[:RECOVERY_WINDOW], "utf-8", "replace"))
    return Malformed(Error(INVALID_REQUEST, f"Invalid Request: the message is longer than {limit} bytes"), id, answer)


def _recover(text: str) -> tuple[RequestId | None, bool]:
    """Find the outermost object's `id`, and whether it is an answer, in a text that is no good JSON.

    One pass over its tokens with a depth counter, so no input can exhaust the stack.
    """
    depth, name, id, keys = 0, "", None, set[str]()
    previous = ""
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in "[{":
            depth += 1
        elif token in "]}":
            depth -= 1
        elif depth == 1 and token == ":":
            name = previous
            keys.add(name)
        elif depth == 1 and previous == ":" and name == '"id"' and id is None:
            try:
                value = json.loads(token)
            except ValueError:
                value = None
            id = value if is_request_id(value) and _is_text(value) else None
        previous = token
    return id, '"method"' not in keys and ('"result"' in keys or '"error"' in keys)


def _is_text(id: RequestId) -> bool:
    return type(id) is int or str(id).encode(errors="replace").decode() == id


def _depth(text: str) -> int:
    """How deep a text that parsed as JSON nests."""
    depth = deepest = 0
    for match in re.finditer(_STRING + r"|[\[\]{}]", text):
        if match[0] in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif match[0] in "]}":
            depth -= 1
    return deepest


# ---------------------------------------------------------------------------------------------------- writing

# ensure_ascii=False: UTF-8 as it is, and a lone surrogate fails here instead of at the peer. allow_nan=False: NaN is
# no JSON. Raw newlines cannot occur: JSON escapes them inside strings and the compact separators add none.
_write_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def encode(message: Outgoing) -> bytes:
    """Write one message or batch as a frame: UTF-8, one line, no trailing newline.

    Raises ValueError, which also covers UnicodeEncodeError, for what JSON cannot hold: NaN, Infinity, a lone surrogate,
    a cycle; RecursionError for nesting beyond the interpreter's stack; TypeError for a Python object of another type.
    """
    if type(message) is Batch:
        return b"[" + b",".join(encode(member) for member in message.messages) + b"]"  # type: ignore[arg-type]
    return _write_json(_to_object(message)).encode()  # type: ignore[arg-type]


def _to_object(message: Message) -> Object:
    match message:
        case Response():
            return {"jsonrpc": "2.0", "id": message.id, "result": message.result}
        case Request():
            value: Object = {"jsonrpc": "2.0", "id": message.id, "method": message.method}
        case Notification():
            value = {"jsonrpc": "2.0", "method": message.method}
        case ErrorResponse():
            error: Object = {"code": message.error.code, "message": message.error.message}
            if message.error.data is not None:
                error["data"] = message.error.data
            if message.id is None and message.omit_id:
                return {"jsonrpc": "2.0", "error": error}
            return {"jsonrpc": "2.0", "id": message.id, "error": error}
    if message.params:
        value["params"] = message.params
    return value
