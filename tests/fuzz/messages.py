"""Targets: JSON-RPC messages, the cursors of pages, and `requestState`."""

from __future__ import annotations

import base64
import json
import random

from mcp_ref.basic.mrtr import STATE_SECONDS, request_digest, sign_state, verify_state
from mcp_ref.features.pagination import cursor_of, serial_of
from mcp_ref.jsonrpc.errors import ProtocolError
from mcp_ref.jsonrpc.messages import (
    INVALID_PARAMS,
    JSON,
    MAX_BATCH,
    MAX_DEPTH,
    MAX_ID_LENGTH,
    Batch,
    ErrorResponse,
    Malformed,
    Notification,
    Object,
    Request,
    Response,
    decode,
    encode,
)
from tests.fuzz.inputs import JSON_FRAGMENTS, damaged, value, within_limits, word

MEMBERS: dict[str, list[JSON]] = {
    "jsonrpc": ["2.0", "2.0", "2.0", "1.0", 2.0],
    "id": [1, "a", 0, -1, "", 10**30, 1.0, 1.5, True, None, [], {}],
    "method": ["ping", "tools/call", "", 1, None],
    "params": [{}, {"a": 1}, [], 1, None],
    "result": [{}, {"content": []}, [], 1, None],
    "error": [{"code": -32600, "message": "m"}, {"code": 1, "message": "m", "data": {}}, {"code": 1.0, "message": "m"},
              {"code": True, "message": ""}, {"message": "m"}, [], None],
}  # fmt: skip
SHAPES = [
    ["jsonrpc", "id", "method", "params"], ["jsonrpc", "method"], ["jsonrpc", "id", "result"],
    ["jsonrpc", "id", "error"],
]  # fmt: skip
"""The members of a request, a notification, a response and an error response."""


def _message(rng: random.Random) -> Object:
    names = set(rng.choice(SHAPES)) ^ ({rng.choice(list(MEMBERS))} if rng.random() < 0.3 else set())
    message = {name: rng.choice(MEMBERS[name]) for name in rng.sample(sorted(names), len(names))}
    if isinstance(message.get("params"), dict):
        message["params"] = {"x": value(rng)}
    return message


def _kind(message: JSON) -> type:
    """Return the class of a message, by a second, simpler implementation: one condition for each class."""
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        return Malformed
    names, id = message.keys() - {"jsonrpc"}, message.get("id")
    has_id = len(id) <= MAX_ID_LENGTH if isinstance(id, str) else type(id) is int
    has_number = isinstance(id, float) and id.is_integer()  # 1.0 is the id 1, but only in a response
    has_call = isinstance(message.get("method"), str) and isinstance(message.get("params", {}), dict)
    error = message.get("error")
    has_error = isinstance(error, dict) and type(error.get("code")) is int and isinstance(error.get("message"), str)
    classes = {
        Request: has_call and has_id and not names & {"result", "error"},
        Notification: has_call and "id" not in names and not names & {"result", "error"},
        Response: (has_id or has_number)
        and isinstance(message.get("result"), dict)
        and not names & {"method", "error"},
        ErrorResponse: has_error and not names & {"method", "result"},
    }
    return next((kind for kind, holds in classes.items() if holds), Malformed)


def _depth(item: JSON) -> int:
    if isinstance(item, dict):
        return 1 + max(map(_depth, item.values()), default=0)
    if isinstance(item, list):
        return 1 + max(map(_depth, item), default=0)
    return 0


def _strings(item: JSON) -> str:
    """Return all strings in a value, joined."""
    if isinstance(item, dict):
        return "".join(name + _strings(member) for name, member in item.items())
    if isinstance(item, list):
        return "".join(map(_strings, item))
    return item if isinstance(item, str) else ""


def _strict_json(frame: bytes) -> JSON:
    """Return the value of a JSON text. Raise ValueError for a text that the package must refuse."""

    def members(pairs: list[tuple[str, JSON]]) -> Object:
        assert len({name for name, _ in pairs}) == len(pairs)
        return dict(pairs)

    def constant(name: str) -> JSON:
        raise ValueError(name)

    try:
        found: JSON = json.loads(frame.decode(), object_pairs_hook=members, parse_constant=constant)
        assert _depth(found) <= MAX_DEPTH
        _strings(found).encode()
    except (AssertionError, RecursionError) as error:
        raise ValueError from error
    return found


def check_message(rng: random.Random) -> None:
    """Check that `decode` and `_kind` find the same class, and that a valid message is read back."""
    content: JSON = _message(rng) if rng.random() < 0.8 else [_message(rng) for _ in range(rng.randint(0, 3))]
    frame = json.dumps(content, ensure_ascii=rng.random() < 0.5).encode()
    frame = frame if rng.random() < 0.4 else damaged(rng, frame, JSON_FRAGMENTS)
    with within_limits():
        found = decode(frame)
    try:
        content = _strict_json(frame)
    except ValueError:
        assert isinstance(found, Malformed) and found.error.code == -32700, (frame[:500], found)
        return
    if isinstance(content, list) and 0 < len(content) <= MAX_BATCH:
        assert isinstance(found, Batch), found
        assert [type(each) for each in found.messages] == [_kind(each) for each in content], (frame, found)
    else:
        assert type(found) is _kind(content), (frame[:500], found)
    if isinstance(found, (Request, Notification, Response, ErrorResponse)) and "inf" not in repr(found):
        assert decode(encode(found)) == found


def check_cursor(rng: random.Random) -> None:
    """Check that a cursor is read back, and that a changed cursor is valid too, or refused with -32602."""
    serial = rng.choice([0, 1, rng.randrange(10**6), rng.randrange(10**19)])
    cursor = cursor_of(serial)
    assert serial_of(cursor) == serial
    inner = damaged(rng, b"after:%d" % serial, [b"after:", b"-1", b"9" * 30, b"\xd9\xa1", b" ", b"\0"])
    outer = damaged(rng, cursor.encode(), [b"=", b"-_", b"\xc3\xa9", b" ", b"\n"]).decode("utf-8", "replace")
    for changed in (base64.urlsafe_b64encode(inner).decode(), outer):
        with within_limits():
            try:
                assert serial_of(changed) >= 0
            except ProtocolError as error:
                assert error.code == INVALID_PARAMS and len(str(error)) < 500


def check_state(rng: random.Random) -> None:
    """Check that a state is read back only for its own request, principal, key and time, and never after a change."""
    data, params, now = {word(rng): value(rng)}, {word(rng): value(rng)}, float(rng.randrange(2**32))
    principal = rng.choice([None, word(rng)])
    digest = request_digest("tools/call", params)
    assert request_digest("tools/call", {**params, "requestState": "s", "inputResponses": {}}) == digest
    with within_limits():
        state = sign_state(b"key", data, digest, principal, now)
        assert verify_state(b"key", state, digest, principal, now + STATE_SECONDS - 1) == data
    changed: JSON = damaged(rng, state.encode(), [b".", b"=", b"\xc3\xa9", b"A"]).decode("utf-8", "replace")
    refused: list[tuple[bytes, JSON, str, str | None, float]] = [
        (b"key", changed if changed != state else None, digest, principal, now),
        (b"key", value(rng), digest, principal, now),
        (b"other", state, digest, principal, now),
        (b"key", state, request_digest("tools/call", {**params, "more": 1}), principal, now),
        (b"key", state, request_digest("prompts/get", params), principal, now),
        (b"key", state, digest, "other" if principal is None else None, now),
        (b"key", state, digest, principal, now + STATE_SECONDS + 1),
    ]
    for arguments in refused:
        with within_limits():
            try:
                verify_state(*arguments)
            except ProtocolError as error:
                assert error.code == INVALID_PARAMS and len(str(error)) < 500
            else:
                raise AssertionError(f"accepted: {arguments}")
