"""JSON-RPC 2.0 messages: valid and invalid frames, and the errors for the invalid ones."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import pytest

from mcp_ref.jsonrpc import messages
from mcp_ref.jsonrpc.messages import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    MAX_BATCH,
    MAX_DEPTH,
    PARSE_ERROR,
    Batch,
    Error,
    ErrorResponse,
    Malformed,
    Notification,
    Request,
    Response,
    decode,
    encode,
    json_writer,
    oversize,
)
from mcp_ref.jsonrpc.outline import nesting_depth


def refused(frame: bytes) -> Malformed:
    """Return the `Malformed` that `decode` makes of an invalid frame."""
    found = decode(frame)
    assert isinstance(found, Malformed), found
    return found


@pytest.mark.spec("2025-03-26..2025-11-25/basic/index#requests-1", "2024-11-05/basic/messages#requests-1")
@pytest.mark.parametrize("id", [1, 0, -7, "", "0", "abc", 2**53, -(2**63), "x" * 1000], ids=lambda id: str(id)[:20])
def test_decode_id_is_a_string_or_integer_and_keeps_its_type(id: str | int) -> None:
    request = decode(json.dumps({"jsonrpc": "2.0", "id": id, "method": "ping"}).encode())
    assert request == Request(id, "ping", {})
    assert type(request.id) is type(id)
    assert json.loads(encode(Response(id, {})))["id"] == id


@pytest.mark.parametrize("rest", [{"method": "ping"}, {"result": {}}, {"method": "ping", "params": 1}])
def test_decode_id_with_too_many_characters_is_invalid_and_not_repeated(rest: dict[str, object]) -> None:
    malformed = decode(json.dumps({"jsonrpc": "2.0", "id": "x" * 1001, **rest}).encode())
    assert isinstance(malformed, Malformed) and malformed.id is None
    assert len(malformed.error.message) < 200


@pytest.mark.spec("2025-03-26..2025-11-25/basic/index#requests-1,2", "2024-11-05/basic/messages#requests-1,2")
@pytest.mark.parametrize("id", ["true", "null", "1.0", "1.5", "[1]", "{}", "1e2"])
def test_decode_id_of_another_type_is_invalid_request(id: str) -> None:
    found = refused(b'{"jsonrpc":"2.0","id":%s,"method":"ping"}' % id.encode())
    assert (found.error.code, found.id, found.expects_no_response) == (INVALID_REQUEST, None, False)


@pytest.mark.parametrize("id", ["1.0", "1e0", "10E-1"])
def test_decode_response_with_a_fraction_in_its_integer_id_has_that_id(id: str) -> None:
    assert decode(b'{"jsonrpc":"2.0","id":%s,"result":{}}' % id.encode()) == Response(1, {})


@pytest.mark.parametrize("id", ["1.5", "true", "null", "1e400"])
def test_decode_response_with_an_id_of_another_type_is_malformed(id: str) -> None:
    found = decode(b'{"jsonrpc":"2.0","id":%s,"result":{}}' % id.encode())
    assert isinstance(found, Malformed) and found.id is None


@pytest.mark.parametrize(
    "frame",
    [
        b"{}", b'{"jsonrpc":"2.0"}', b'{"jsonrpc":"2.0","id":1}', b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
        b'{"jsonrpc":2.0,"id":1,"method":"ping"}', b'{"id":1,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":7}', b'{"jsonrpc":"2.0","id":1,"Method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}', b'"ping"', b"1", b"null", b"true", b"[]",
    ],
)  # fmt: skip
@pytest.mark.spec("2025-03-26..2025-11-25/basic/index#messages-1", "2024-11-05/basic/index#intro-1")
def test_decode_json_without_a_message_is_invalid_request(frame: bytes) -> None:
    found = refused(frame)
    assert found.error.code == INVALID_REQUEST
    assert found.id == (1 if b'"id":1' in frame else None)


def test_decode_params_by_position_are_invalid_params() -> None:
    found = refused(b'{"jsonrpc":"2.0","id":"a","method":"ping","params":[1]}')
    assert (found.error.code, found.id) == (INVALID_PARAMS, "a")


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","method":"pong"}', "twice"),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":1,"a":2}}', "twice"),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":NaN}}', "NaN"),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":Infinity}}', "Infinity"),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":-Infinity}}', "-Infinity"),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":"\\ud800"}}', "surrogate"),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"\\uDFFF":1}}', "surrogate"),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":"\xff"}}', "UTF-8"),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":' + b"9" * 100_000 + b"}}", "digits"),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}", "deeper"),
        (b'{"params":' + b'{"a":' * 40_000 + b"1" + b"}" * 40_000 + b',"id":7,"jsonrpc":"2.0","method":"x"}', "deeper"),
        (b'{"jsonrpc":"2.0","method":x,"id":7}', "value"),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping"', "delimiter"),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping",}', "character"),  # Python 3.13 words it differently
        (b"{'jsonrpc':'2.0'}", "property name"),
        (b"hello", "value"),
        (b"\xef\xbb\xbf{}", "value"),
    ],
)
@pytest.mark.spec("2025-03-26..2025-11-25/basic/transports#intro-1")
def test_decode_invalid_json_is_parse_error_with_the_id_if_readable(frame: bytes, why: str) -> None:
    found = refused(frame)
    assert found.error.code == PARSE_ERROR
    assert why in found.error.message
    assert found.id == (7 if b'"id":7' in frame else None)


def test_decode_surrogate_pair_is_one_character() -> None:
    found = decode(b'{"jsonrpc":"2.0","method":"x","params":{"a":"\\ud83d\\ude00"}}')
    assert found == Notification("x", {"a": "\U0001f600"})


def test_decode_invalid_json_whose_id_cannot_be_sent_back_has_no_id() -> None:
    assert refused(b'{"jsonrpc":"2.0","id":"\\ud800","method":x}').id is None


@pytest.mark.parametrize("depth", [0, 1, 7, 8, 9, 20])
def test_nesting_depth_counts_arrays_and_objects_outside_of_strings(depth: int) -> None:
    text = "[{" * (depth // 2) + "[" * (depth % 2) + ',"[{"' + "]" * (depth % 2) + "}]" * (depth // 2)
    assert nesting_depth(text) == depth


def test_decode_depth_limit_is_exact() -> None:
    def nested(depth: int) -> bytes:  # the message and its params are two levels
        return b'{"jsonrpc":"2.0","method":"x","params":{"b":[],"a":' + b"[" * (depth - 2) + b"]" * (depth - 2) + b"}}"

    assert isinstance(decode(nested(MAX_DEPTH)), Notification)
    assert refused(nested(MAX_DEPTH + 1)).error.code == PARSE_ERROR
    siblings = ',"b":[' + ",".join(['"[[[{"', "[{}]", "[]"] * MAX_DEPTH) + "]"
    assert isinstance(decode(nested(MAX_DEPTH)[:-1] + siblings.encode() + b"}"), Notification)
    assert refused(nested(MAX_DEPTH + 1)[:-1] + siblings.encode() + b"}").error.code == PARSE_ERROR
    shallow = b'{"jsonrpc":"2.0","method":"x"' + siblings.encode() + b"}"
    assert isinstance(decode(shallow), Notification)


@pytest.mark.parametrize(
    "frame",
    [
        b"[" * (MAX_DEPTH + 1),
        b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1),
        b'{"a":' * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1),
        b"[" * (MAX_DEPTH + 1) + b'"' + b"]" * (MAX_DEPTH + 1),
        b'["' + b"]" * 300 + b'",' + b"[" * MAX_DEPTH,
        b"[" * (MAX_DEPTH + 1) + b'"' + b'\\"' * 500_000,  # in linear time
    ],
    ids=lambda frame: frame[:20] + frame[-20:],
)
def test_decode_checks_the_depth_before_it_reads_the_values(frame: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "_read_json", None)  # some versions of Python end if nesting exhausts the stack
    assert "deeper than 200 levels" in refused(frame).error.message


@pytest.mark.spec("2025-03-26..2025-11-25/basic/index#notifications-2", "2024-11-05/basic/messages#notifications-1")
def test_decode_notification_has_no_id() -> None:
    assert decode(b'{"jsonrpc":"2.0","method":"x"}') == Notification("x")
    assert b'"id"' not in encode(Notification("x"))


@pytest.mark.parametrize(
    "frame",
    [
        b'{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"x"}}',
        b'{"jsonrpc":"2.0","id":1,"result":[]}', b'{"jsonrpc":"2.0","id":1,"result":null}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":"1","message":"x"}}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":"x"}}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":true,"message":"x"}}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1}}', b'{"jsonrpc":"2.0","id":1,"error":"x"}',
        b'{"id":1,"result":{}}',
    ],
)  # fmt: skip
@pytest.mark.spec(
    "2025-03-26..2025-06-18/basic/index#responses-3,5",
    "2024-11-05/basic/messages#responses-3,4",
    "2025-11-25/basic/index#error-responses-3",
)
def test_decode_malformed_response_is_marked_and_names_its_request(frame: bytes) -> None:
    found = refused(frame)
    assert found.expects_no_response
    assert found.id == 1


def test_decode_error_response_may_have_null_or_no_id() -> None:
    error = Error(-32700, "x", {"a": 1})
    for id in (b"", b'"id":null,'):
        frame = b'{"jsonrpc":"2.0",%b"error":{"code":-32700,"message":"x","data":{"a":1}}}' % id
        assert decode(frame) == ErrorResponse(None, error)
    assert json.loads(encode(ErrorResponse(None, error)))["id"] is None
    assert "id" not in json.loads(encode(ErrorResponse(None, error, omit_id=True)))


@pytest.mark.spec("2025-03-26/basic/index#batching-1")
def test_decode_batch_is_read_member_by_member() -> None:
    found = decode(b'[{"jsonrpc":"2.0","id":1,"method":"a"},7,{"jsonrpc":"2.0","method":"b"},{"id":2}]')
    assert isinstance(found, Batch)
    kinds = [type(member) for member in found.messages]
    assert kinds == [Request, Malformed, Notification, Malformed]


def test_decode_empty_or_oversize_batch_is_invalid_request() -> None:
    assert refused(b"[]").error.code == INVALID_REQUEST
    assert "at most" in refused(b"[" + b",".join([b"1"] * (MAX_BATCH + 1)) + b"]").error.message
    assert isinstance(decode(b"[" + b",".join([b"1"] * MAX_BATCH) + b"]"), Batch)


@pytest.fixture(params=["C", "Python"])
def encoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `encode` use the JSON encoder in C, or the one in Python, as it does where Python has no other."""
    if request.param == "Python":
        monkeypatch.setattr(json.encoder, "c_make_encoder", None)
        monkeypatch.setattr(messages, "_write_json", json_writer((",", ":")))


@pytest.mark.usefixtures("encoder")
@pytest.mark.parametrize(
    "message",
    [
        Request(1, "tools/call", {"name": "x"}),
        Request("", "ping"),
        Notification("notifications/initialized"),
        Response(0, {"a": [1, 2.5, None, True, "\u2028\u00e9"]}),
        ErrorResponse("x", Error(-32601, "Method not found")),
    ],
)
@pytest.mark.spec("2026-07-28/basic/transports/stdio#intro-1", "2024-11-05..2025-11-25/basic/transports#stdio-1")
def test_encode_writes_one_line_of_utf8_that_decodes_to_the_same(message: Any) -> None:
    frame = encode(message)
    assert b"\n" not in frame
    assert decode(frame) == message
    assert decode(b"[" + frame + b"]") == Batch([message])


@pytest.mark.usefixtures("encoder")
@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800", {"\udfff": 1}, object(), {1, 2}, b"x"])
def test_encode_refuses_values_that_json_cannot_hold(value: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        encode(Response(1, {"value": value}))


@pytest.mark.usefixtures("encoder")
def test_encode_refuses_a_cycle() -> None:
    value: dict[str, Any] = {}
    value["self"] = value
    with pytest.raises(RecursionError):
        encode(Response(1, value))


def test_oversize_frame_keeps_its_id_if_its_start_has_one() -> None:
    assert oversize(b'{"jsonrpc":"2.0","id":"big","method":"x","params":{"a":"....', 10).id == "big"
    answer = oversize(b'{"jsonrpc":"2.0","id":4,"result":{"a":"....', 10)
    assert (answer.id, answer.expects_no_response) == (4, True)
    assert oversize(b'{"params":{"id":4,"a":"....', 10).id is None


def test_decode_searches_only_the_start_of_an_unreadable_frame_for_the_id() -> None:
    # The search takes ten times as long as reading valid JSON.
    for numbers, id in [(100_000, 7), (150_000, None)]:
        found = decode(b'{"params":[' + b"0," * numbers + b'0],"id":7')
        assert isinstance(found, Malformed) and found.id == id


def test_decode_of_a_string_without_an_end_takes_linear_time() -> None:
    start = time.process_time()
    found = decode(b'{"id":7,"method":"' + b'\\"' * 100_000)
    assert isinstance(found, Malformed) and found.id == 7
    assert time.process_time() - start < 2  # in quadratic time: a minute


def test_decode_never_raises() -> None:
    """Decode seeded noise: mutations of a message, and random bytes."""
    random.seed(20251125)
    seed = (
        b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a","arguments":{"x":[1,2,{"y":"\\u00e9"}]}}}'
    )
    for _ in range(2000):
        frame = bytearray(seed)
        for _ in range(random.randint(1, 8)):
            at = random.randrange(len(frame))
            match random.randrange(4):
                case 0:
                    frame[at] = random.randrange(256)
                case 1:
                    del frame[at]
                case 2:
                    frame.insert(at, random.randrange(256))
                case 3:
                    frame[at:at] = frame[: random.randrange(len(frame))]
        found = decode(bytes(frame))
        assert isinstance(found, (Request, Notification, Response, ErrorResponse, Malformed, Batch))
