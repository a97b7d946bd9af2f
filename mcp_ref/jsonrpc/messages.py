"""JSON-RPC 2.0 messages: functions that read them from bytes and write them to bytes.

A frame is one JSON text as bytes. `decode` turns it into a dataclass below; `Malformed` has the error for the sender.

A proxy and a server must understand a message in the same way. If the proxy checked the first of two `"name"` keys but
the server used the second, the server would run a call that nobody had checked, so `decode` refuses duplicate keys, and
likewise NaN, Infinity and lone surrogates. Limits on nesting, batches and digits keep a small frame from taking long.

The rules differ between revisions: [2025-11-25 basic/index#requests] [2026-07-28 basic/index#requests]
    id of a request     all: MUST be a string or an integer; MUST NOT be null, although JSON-RPC allows it
                        2024-11-05 to 2025-11-25: the sender must not use an id twice in a session
                        2026-07-28: the client must not use the id of another unfinished request
    unreadable request  up to 2025-06-18: the error response has "id": null; from 2025-11-25 on: it can omit the id
    batches             2025-03-26 only: receivers MUST accept batches, senders MAY send batches

Spec:  JSON-RPC 2.0; basic/index#messages (all revisions); batches: 2025-03-26 basic/index#batching
Wire:  {"jsonrpc": "2.0", "id": 1, "method": "ping"}
       {"jsonrpc": "2.0", "id": 1, "result": {}}
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias, TypeGuard

from ..lib.shares import REQUEST_COST, request_memory
from .outline import nesting_depth, search_members

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
Object: TypeAlias = dict[str, JSON]
RequestId: TypeAlias = str | int

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

MAX_DEPTH: Final = 200
"""Maximum nesting of arrays and objects, in levels. RFC 8259, section 9 allows this limit."""
MAX_BATCH: Final = 1000
"""Maximum number of messages in one batch."""
MAX_ID_LENGTH: Final = 1000
"""Maximum length of an id or a progress token, in characters. It is limited because many messages can repeat it."""
ID_SEARCH_BYTES: Final = 1 << 18
"""Maximum number of bytes, from the start of an unreadable frame, that `decode` searches for the `id` (256 KiB)."""
MAX_QUOTED: Final = 200
"""Maximum number of bytes that the log quotes from a frame that is not a JSON object."""


@dataclass(slots=True)
class Error:
    """The `error` member of an error response. `data` is any JSON; None means that the message has no `data`."""

    code: int
    message: str
    data: JSON = None


@dataclass(slots=True)
class Request:
    """A message that requires one response with the same `id`. `params` is {} if the message has no params."""

    id: RequestId
    method: str
    params: Object = field(default_factory=dict)
    memory: int = field(default=REQUEST_COST, compare=False, repr=False)  # estimate in bytes, while it is served


@dataclass(slots=True)
class Notification:
    """A message without an id. The receiver never responds to it."""

    method: str
    params: Object = field(default_factory=dict)


@dataclass(slots=True)
class Response:
    """The response to the request with this `id`, which succeeded."""

    id: RequestId
    result: Object


@dataclass(slots=True)
class ErrorResponse:
    """The response to a request that failed."""

    id: RequestId | None  # None if it is unreadable
    error: Error
    omit_id: bool = False  # True to omit an unknown id; JSON-RPC 2.0, section 5 requires null instead


@dataclass(slots=True)
class Malformed:
    """A frame, or a batch member, that is not a valid message. `error` tells its sender what is wrong."""

    error: Error
    id: RequestId | None = None  # None if it is unreadable
    expects_no_response: bool = False  # True for an invalid response, or a notification with invalid params
    text: str = field(default="", compare=False)  # the start of a frame that is not a JSON object, for the log


@dataclass(slots=True)
class RequestFailure:
    """A transport's report that our request with this `id` will get no response."""

    id: RequestId
    reason: str
    unrecognized_reply: bool = False  # True if the reply is not JSON-RPC, so the peer is probably of the legacy era
    unsent: bool = False  # True if nothing of the request was sent
    error: Exception | None = None  # raised in the caller; None to raise a `ConnectionClosed` with the `reason`
    http_status: int = 0  # the status of an HTTP response without a JSON-RPC response


Message: TypeAlias = Request | Notification | Response | ErrorResponse


@dataclass(slots=True)
class Batch:
    """The messages in one frame that is a JSON array. `Malformed` members occur only in a received batch."""

    messages: list[Message | Malformed]


Outgoing: TypeAlias = Message | Batch
Incoming: TypeAlias = Message | Malformed | Batch | RequestFailure


class RefusedJSON(ValueError):
    """A legal JSON text that this package refuses: too deep, or with a duplicate key, for example."""


class _InvalidJSON(ValueError):
    """The error for NaN and Infinity, which are not JSON, although `json.loads` accepts them."""


def _object_without_duplicates(pairs: list[tuple[str, JSON]]) -> Object:
    """Return a JSON object with these members. Raise RefusedJSON for a duplicate key. (RFC 8259, section 4)"""
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    [(duplicate, _)] = Counter(name for name, _ in pairs).most_common(1)
    raise RefusedJSON(f"the key {duplicate[:80]!r} must not appear twice in one object")


def _refuse_constant(name: str) -> JSON:
    raise _InvalidJSON(f"JSON has no number {name}")


_read_json = json.JSONDecoder(object_pairs_hook=_object_without_duplicates, parse_constant=_refuse_constant).raw_decode


def parse_json(frame: bytes | bytearray | memoryview) -> JSON:
    """Return the value of a JSON text in UTF-8. Raise ValueError for invalid JSON, RefusedJSON for JSON that we refuse.

    The exception quotes at most one key and no values, because the text can contain secrets.
    """
    kind: type[ValueError] = ValueError
    try:
        text = str(frame, "utf-8").strip(" \t\r\n")
        # Check the depth before parsing, because some Pythons, such as Pyodide, crash when the parser recurses too far.
        if len(text) > MAX_DEPTH and text.count("[") + text.count("{") > MAX_DEPTH and nesting_depth(text) > MAX_DEPTH:
            raise RecursionError
        value: JSON
        value, end = _read_json(text)
        if end != len(text):
            raise json.JSONDecodeError("Extra data", text, end)
        if "\\" in text and ("\\ud" in text or "\\uD" in text):  # perhaps half of a surrogate pair
            json.dumps(value, ensure_ascii=False).encode()  # raises UnicodeEncodeError for such a half
        return value
    except RecursionError:
        kind, fault = RefusedJSON, f"arrays and objects are nested deeper than {MAX_DEPTH} levels"
    except UnicodeDecodeError as error:
        # [2025-11-25 basic/transports#intro] JSON-RPC messages MUST be UTF-8 encoded
        fault = f"byte {error.start} is not valid UTF-8"
    except UnicodeEncodeError:
        kind, fault = RefusedJSON, "a string has a lone surrogate (half of a \\uD800-\\uDFFF pair)"
    except (RefusedJSON, _InvalidJSON) as error:
        kind, fault = type(error), str(error)
    except json.JSONDecodeError as error:
        fault = f"{error.msg} at character {error.pos}"
    except ValueError:  # int() refuses more than 4,300 digits (sys.get_int_max_str_digits)
        kind, fault = RefusedJSON, "a number has too many digits"
    raise kind(fault)  # a new exception, because the caught one would keep the text alive


def decode(frame: bytes | bytearray | memoryview) -> Incoming:
    """Read one frame, the UTF-8 bytes of one JSON text. Never raises, because anything wrong becomes `Malformed`.

    Its code is -32700 for invalid JSON, -32600 for JSON that is not a message, and -32602 if `params` is an array.
    """
    try:
        value = parse_json(frame)
    except ValueError as error:
        return _unreadable(frame, Error(PARSE_ERROR, f"Parse error: {error}"))
    if type(value) is dict:
        message = read_message(value)
        if type(message) is Request:
            message.memory = request_memory(frame)
        return message
    if type(value) is list:
        return _read_batch(value, request_memory(frame))
    return _unreadable(frame, Error(INVALID_REQUEST, "Invalid Request: a message must be a JSON object"))


def read_message(value: Object) -> Message | Malformed:
    id = value.get("id")
    valid_id = id if type(id) is int or is_request_id(id) else None  # the first test is the fastest for most messages
    if "method" not in value and ("result" in value or "error" in value):
        if type(id) is float and id.is_integer():  # some peers write 1 as 1.0, which JSON Schema counts as an integer
            valid_id = int(id)
        return _read_response(value, valid_id)
    if value.get("jsonrpc") != "2.0":
        return invalid_request('a message must have "jsonrpc": "2.0"', valid_id)
    method = value.get("method")
    if type(method) is not str:
        return invalid_request("a request or notification must have a method (a string)", valid_id)
    if "result" in value or "error" in value:
        return invalid_request("a message must not have a method and also a result or error", valid_id)
    params = value.get("params", {})
    if type(params) is not dict:
        code = INVALID_PARAMS if type(params) is list else INVALID_REQUEST  # JSON-RPC itself allows arrays
        return Malformed(Error(code, "params must be an object"), valid_id, expects_no_response="id" not in value)
    if valid_id is not None:
        return Request(valid_id, method, params)
    if "id" not in value:
        return Notification(method, params)
    # [2025-11-25 basic/index#requests] a string or integer ID; unlike base JSON-RPC, never null
    return invalid_request(_ID_RULE)


def _read_response(value: Object, id: RequestId | None) -> Message | Malformed:
    if value.get("jsonrpc") != "2.0":
        return _invalid_response('"jsonrpc": "2.0" is missing', id)
    if "result" in value and "error" in value:
        # [2025-06-18 basic/index#responses] a response MUST NOT set both
        return _invalid_response("a response must not have both a result and an error", id)
    if "result" in value:
        result = value["result"]
        if type(result) is not dict:
            return _invalid_response("the result must be an object", id)
        return Response(id, result) if id is not None else _invalid_response(_ID_RULE, id)
    error = value["error"]
    if type(error) is not dict or type(error.get("code")) is not int or type(error.get("message")) is not str:
        # [2025-11-25 basic/index#error-responses] code and message are required; codes MUST be integers
        return _invalid_response("the error must have an integer code and a string message", id)
    return ErrorResponse(id, Error(error["code"], error["message"], error.get("data")))  # type: ignore[arg-type]


def _read_batch(values: list[JSON], memory: int) -> Incoming:
    if not values:
        return invalid_request("a batch must have at least one member")  # [JSON-RPC 2.0, section 7]
    if len(values) > MAX_BATCH:
        return invalid_request(f"a batch must have at most {MAX_BATCH} members, got {len(values)}")
    not_object = invalid_request("a message must be a JSON object")
    batch = Batch([read_message(value) if type(value) is dict else not_object for value in values])
    requests = [member for member in batch.messages if isinstance(member, Request)]
    for request in requests:
        request.memory = memory // len(requests)
    return batch


def is_request_id(value: object) -> TypeGuard[RequestId]:
    """Return True for a string of limited length or an integer, but not for a boolean, which is an int in Python."""
    return (type(value) is str and len(value) <= MAX_ID_LENGTH) or type(value) is int


_ID_RULE = f"the id must be a string or an integer; a string may have at most {MAX_ID_LENGTH} characters"


def invalid_request(rule: str, id: RequestId | None = None) -> Malformed:
    return Malformed(Error(INVALID_REQUEST, f"Invalid Request: {rule}"), id)


def _invalid_response(fault: str, id: RequestId | None) -> Malformed:
    return Malformed(Error(INVALID_REQUEST, f"Invalid response: {fault}"), id, expects_no_response=True)


def oversize(start: bytes, limit: int) -> Malformed:
    """Return the error for a frame longer than `limit` bytes. The transport has stored only the frame's `start`."""
    return _unreadable(start, invalid_request(f"the message is longer than {limit} bytes").error, max_quoted=0)


def _unreadable(frame: bytes | bytearray | memoryview, error: Error, max_quoted: int = MAX_QUOTED) -> Malformed:
    """Return the error for an unreadable frame, with the frame's id if it can be found, because the sender needs it."""
    keys, id = search_members(str(frame[:ID_SEARCH_BYTES], "utf-8", "replace"))
    is_response = "method" not in keys and ("result" in keys or "error" in keys)
    text = str(frame[:max_quoted], "utf-8", "replace")
    return Malformed(error, id if is_request_id(id) else None, is_response, text)


def json_writer(separators: tuple[str, str]) -> Callable[[object], str]:
    """Return a function that writes a value as one line of JSON. `separators` are written after an item and a key."""
    # ensure_ascii=False leaves non-ASCII characters as they are, so that `encode` fails at a lone surrogate.
    # check_circular=False, because a cycle exceeds Python's recursion limit anyway.
    encoder = json.JSONEncoder(ensure_ascii=False, check_circular=False, allow_nan=False, separators=separators)
    make = getattr(json.encoder, "c_make_encoder", None)  # only CPython has it
    if make is None:
        return encoder.encode
    # `JSONEncoder.encode` would make this C encoder again at every call, doubling the time for a short message.
    after_item, after_key = separators
    options = (None, after_key, after_item, False, False, False)  # indent, separators, sort_keys, skipkeys, allow_nan
    write = make(None, encoder.default, json.encoder.encode_basestring, *options)  # None: it searches for no cycles
    return lambda value: "".join(write(value, 0))


_write_json = json_writer((",", ":"))


def encode(message: Outgoing) -> bytes:
    """Write one message or batch as a frame: UTF-8, one line, no trailing newline.

    Raise ValueError for NaN, Infinity or a lone surrogate, RecursionError for a cycle or nesting that is too deep, and
    TypeError for a Python object that has no JSON form.
    """
    # We write the outer object ourselves, because for a short message that saves a fourth of the encoder's time.
    if isinstance(message, Response):
        return f'{{"jsonrpc":"2.0","id":{_write_id(message.id)},"result":{_write_json(message.result)}}}'.encode()
    if isinstance(message, (Notification, Request)):
        id = f'"id":{_write_id(message.id)},' if isinstance(message, Request) else ""
        params = f',"params":{_write_json(message.params)}' if message.params else ""
        return f'{{"jsonrpc":"2.0",{id}"method":{_write_method(message.method)}{params}}}'.encode()
    if isinstance(message, Batch):
        return b"[" + b",".join(encode(member) for member in message.messages) + b"]"  # type: ignore[arg-type]
    error: Object = {"code": message.error.code, "message": message.error.message}
    if message.error.data is not None:
        error["data"] = message.error.data
    id_member: Object = {} if message.id is None and message.omit_id else {"id": message.id}
    return _write_json({"jsonrpc": "2.0", **id_member, "error": error}).encode()


def _write_id(id: RequestId) -> str:
    return str(id) if type(id) is int else _write_json(id)


@functools.lru_cache(maxsize=64)
def _write_method(method: str) -> str:
    return _write_json(method)
