"""The trace: what an operator sees of the wire, and what must not be seen."""

from __future__ import annotations

import io
import json
import re

import pytest

from mcp_ref import Client, Server, tracer
from mcp_ref.basic.transports.trace import MAX_SHOWN, redact, trace_from_environment
from mcp_ref.jsonrpc.messages import JSON
from tests.support import run


def line_of(frame: bytes, color: bool = False) -> str:
    out = io.StringIO()
    tracer(out, color)("->", frame)
    assert out.getvalue().endswith("\n") and out.getvalue().count("\n") == 1
    return out.getvalue()[:-1]


def test_a_conversation_is_one_line_a_frame_with_time_revision_and_direction() -> None:
    async def test() -> None:
        async with Client(Server("s", "1"), revision="2025-06-18", trace=tracer(out, False)) as client:
            await client.ping()

    out = io.StringIO()
    run(test())
    pattern = re.compile(r"\d\d:\d\d:\d\d\.\d{3}  (-|2025-06-18) +(->|<-)  (\{.*\})")
    found = [pattern.fullmatch(line) for line in out.getvalue().splitlines()]
    assert all(found), out.getvalue()
    shown = [(match[1], match[2], json.loads(match[3]).get("method")) for match in found if match]
    assert shown == [
        ("-", "->", "initialize"),
        ("2025-06-18", "<-", None),
        ("2025-06-18", "->", "notifications/initialized"),
        ("2025-06-18", "->", "ping"),
        ("2025-06-18", "<-", None),
    ]


@pytest.mark.parametrize(
    "name", ["password", "Authorization", "access_token", "API_KEY", "apiKey", "x-api-key", "clientSecret", "Cookie"]
)
def test_secrets_are_left_out_wherever_they_stand(name: str) -> None:
    nested: JSON = {"params": [{"arguments": {name: "hunter2", "city": "Bern"}}]}
    assert redact(nested) == {"params": [{"arguments": {name: "***", "city": "Bern"}}]}
    assert redact({name: ["hunter2"]}) == {name: "***"}
    line = line_of(json.dumps(nested).encode())
    assert "hunter2" not in line and "Bern" in line


def test_progress_tokens_and_numbers_of_tokens_are_no_secrets() -> None:
    value: JSON = {"progressToken": "abc", "maxTokens": 100, "inputTokens": [1], "name": "token"}
    assert redact(value) == value


@pytest.mark.parametrize("frame", [b"\x1b[2J\x07boo", b'{"a": "\\u001b[2J\\u202e\\u0007"}', b"\xff\xfe\n\r{", b"\n"])
def test_a_hostile_frame_cannot_write_to_the_terminal(frame: bytes) -> None:
    line = line_of(frame)
    assert line.isprintable(), repr(line)


def test_a_long_frame_is_cut() -> None:
    line = line_of(json.dumps({"text": "x" * 100_000}).encode())
    assert len(line) < MAX_SHOWN + 100
    assert "(100012 characters)" in line


def test_nesting_that_json_cannot_read_does_not_break_the_trace() -> None:
    assert "no JSON" in line_of(b"[" * 100_000)


def test_colour_is_for_terminals() -> None:
    assert "\x1b[32m->" in line_of(b"{}", color=True)
    out = io.StringIO()
    tracer(out)("<-", b"{}")
    assert "\x1b" not in out.getvalue()


def test_the_environment_switches_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, on in (("", False), ("0", False), ("1", True)):
        monkeypatch.setenv("MCP_REF_TRACE", value)
        assert (trace_from_environment() is not None) is on
    monkeypatch.delenv("MCP_REF_TRACE")
    assert trace_from_environment() is None
