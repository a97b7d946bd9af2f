"""The trace: the frames that an operator sees, and the secrets that must stay hidden."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
from collections.abc import Iterable
from typing import Annotated

import pytest

from mcp_ref import Client, Server, tracer
from mcp_ref.jsonrpc.messages import JSON
from mcp_ref.lib.text import hidden_characters
from mcp_ref.transports.base import Direction, Trace
from mcp_ref.transports.system import trace_from_environment
from mcp_ref.transports.trace import MAX_SHOWN, redact
from tests.settings import run


def line_of(frame: bytes, color: bool = False) -> str:
    out = io.StringIO()
    tracer(out, color)("->", frame)
    assert out.getvalue().endswith("\n") and out.getvalue().count("\n") == 1
    return out.getvalue()[:-1]


def test_trace_has_one_line_for_each_frame_with_time_revision_and_direction() -> None:
    async def test() -> None:
        async with Client(Server("s", "1"), revision="2025-06-18", trace=trace) as client:
            await client.ping()

    out = io.StringIO()
    trace = tracer(out, False)
    run(test())
    run(test())
    pattern = re.compile(r"\d\d:\d\d:\d\d\.\d{3}  (-|2025-06-18) +(->|<-)  (\{.*\})")
    found = [pattern.fullmatch(line) for line in out.getvalue().splitlines()]
    assert all(found), out.getvalue()
    shown = [(match[1], match[2], json.loads(match[3]).get("method")) for match in found if match]
    assert shown[5:] == shown[:5]  # a second handshake has no revision either
    assert shown[:5] == [
        ("-", "->", "initialize"),
        ("2025-06-18", "<-", None),
        ("2025-06-18", "->", "notifications/initialized"),
        ("2025-06-18", "->", "ping"),
        ("2025-06-18", "<-", None),
    ]


@pytest.mark.attack("trace-secrets")
@pytest.mark.parametrize(
    "name", ["password", "Authorization", "access_token", "API_KEY", "apiKey", "x-api-key", "clientSecret", "Cookie"]
)
def test_secrets_are_left_out_wherever_they_stand(name: str) -> None:
    nested: JSON = {"params": [{"arguments": {name: "hunter2", "city": "Bern"}}]}
    assert redact(nested) == {"params": [{"arguments": {name: "***", "city": "Bern"}}]}
    secrets: list[JSON] = [["hunter2"], {"value": "hunter2"}, 4711, 1.5]
    for secret in secrets:
        assert redact({name: secret}) == {name: "***"}
    assert redact({name: None, "a": {name: True}}) == {name: None, "a": {name: True}}
    for member in ("name", "key", "header"):
        assert redact([{member: name, "value": {"a": "hunter2"}}]) == [{member: name, "value": "***"}]
    line = line_of(json.dumps(nested).encode())
    assert "hunter2" not in line and "Bern" in line


@pytest.mark.parametrize(
    ("frame", "shown"),
    [
        (b'{"id": 1, "params": {"access_token": "hunter2"', '{"id": 1, "params": {"access_token***'),
        (b"\xffAUTHORIZATION: Bearer hunter2", "\\xffAUTHORIZATION***"),
        (b"Listening on port 3000", "Listening on port 3000"),
        (b"[" * 300, "[" * 200),
    ],
)
def test_frame_that_is_not_json_is_shown_up_to_a_word_that_suggests_a_secret(frame: bytes, shown: str) -> None:
    line = line_of(frame)
    assert f"(not JSON, {len(frame)} bytes: " in line and line.endswith(f") {shown}")


def test_frame_of_one_byte_that_is_not_json_has_a_size_of_1_byte() -> None:
    assert "(not JSON, 1 byte: " in line_of(b"x")


@pytest.mark.attack("trace-secrets")
def test_secrets_in_other_pairs_and_texts_are_redacted() -> None:
    secrets: list[JSON] = [
        ["Authorization", "hunter2"],
        {"Name": "Authorization", "Value": "hunter2"},
        {"field": "password", "default": "hunter2"},
        {"private-key": "hunter2", "Code Verifier": "hunter2", "API key": "hunter2", "passphrase": "hunter2"},
        "curl -H 'Authorization: Bearer hunter2'",
        "set API_KEY=hunter2 and restart",
    ]
    for secret in secrets:
        assert "hunter2" not in json.dumps(redact({"params": [secret]})), secret


@pytest.mark.attack("trace-secrets")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (' {"Zürich": {"password": "hunter2"}}', '{"Zürich": {"password": "***"}}'),
        ('[["token", "hunter2"], 1]', '[["token", "***"], 1]'),
        ("https://a.example/?code=hunter2&c=d", "https://a.example/?code=***&c=d"),
        ("https://a.example/?%63ode=hunter2", "https://a.example/?%63ode=***"),
    ],
)
def test_text_is_redacted_as_json_or_as_a_query(text: str, shown: str) -> None:
    assert redact(text) == shown


def test_schema_describes_a_secret_without_its_default() -> None:
    password: JSON = {"type": "string", "default": "hunter2"}
    shown: JSON = {"type": "string", "default": "***"}
    assert redact({"inputSchema": {"properties": {"password": password, "city": password}}}) == {
        "inputSchema": {"properties": {"password": shown, "city": password}}
    }


@pytest.mark.parametrize(
    "value",
    [
        {"progressToken": "abc", "maxTokens": 100, "inputTokens": [1], "name": "token"},
        ["city", "Bern"],
        {"name": "city", "value": "Bern"},
        {"inputSchema": {"type": "string", "default": "Bern"}},
    ],
)
def test_values_whose_names_suggest_no_secret_are_not_redacted(value: JSON) -> None:
    assert redact(value) == value


@pytest.mark.attack("trace-escapes")
@pytest.mark.parametrize(
    "frame",
    [
        *(b"\x1b[2J\x07boo", b'{"a": "\\u001b[2J\\u202e\\u0007"}', b"\xff\xfe\n\r{", b"\n"),
        b'{"result": {"protocolVersion": "\\u001b[2J\\u180b"}}',
    ],
)
def test_trace_contains_no_control_characters_of_a_frame(frame: bytes) -> None:
    line = line_of(frame)
    assert line.isprintable() and not hidden_characters(line, keep=""), repr(line)


def test_trace_cuts_a_long_frame() -> None:
    longest = json.dumps("x" * (MAX_SHOWN - 2))
    assert line_of(longest.encode()).endswith(f"  {longest}")
    too_long = json.dumps("x" * (MAX_SHOWN - 1))
    assert line_of(too_long.encode()).endswith(f"  {too_long[:-1]}... ({MAX_SHOWN + 1} characters)")


def test_nesting_that_json_cannot_read_does_not_break_the_trace() -> None:
    assert "not JSON" in line_of(b"[" * 100_000)


def test_color_is_for_terminals() -> None:
    assert "\x1b[32m->" in line_of(b"{}", color=True)
    out = io.StringIO()
    tracer(out)("<-", b"{}")
    assert "\x1b" not in out.getvalue()


def test_trace_is_enabled_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, on in (("", False), ("0", False), ("1", True)):
        monkeypatch.setenv("MCP_REF_TRACE", value)
        assert (trace_from_environment("client") is not None) is on
    monkeypatch.delenv("MCP_REF_TRACE")
    assert trace_from_environment("client") is None


# ---------------------------------------------------------------------------------------------------- heads


def parts_of(line: str) -> tuple[str, str, str]:
    """Return the parts of a line of a trace: revision, direction and text."""
    match = re.fullmatch(r"\S+  (\S+) +(->|<-)  (.*)", line)
    assert match is not None, line
    return match[1], match[2], match[3]


def heads_of(lines: list[str]) -> list[tuple[str, str]]:
    """Return the heads among the lines of a trace, as (direction, first line)."""
    return [(direction, text.split("  ")[0]) for _, direction, text in map(parts_of, lines) if text[0] != "{"]


async def traced(url: str, revision: str) -> list[str]:
    """Return the trace of a client that calls a tool with a marked argument, and sends an Authorization."""
    out, headers = io.StringIO(), {"Authorization": "Bearer s3cret", "Cookie": "s3cret"}
    async with Client(url, revision=revision, headers=headers, trace=tracer(out, False)) as client:
        await client.list_tools()
        await client.call_tool("lay", {"where": "Zürich", "token": "s3cret"})
    return out.getvalue().splitlines()


def bridges(trace: Trace | None = None) -> Server:
    """Return a server whose tool has two arguments in headers."""
    server = Server("s", "1", trace=trace)

    @server.tool()
    def lay(where: Annotated[str, {"x-mcp-header": "Where"}], token: Annotated[str, {"x-mcp-header": "Token"}]) -> str:
        return where

    return server


async def test_over_http_each_head_is_shown_before_what_it_carries() -> None:
    async with bridges().serve_http() as url:
        lines = await traced(url, "2026-07-28")
    kinds = [(direction, text[:4].strip()) for _, direction, text in map(parts_of, lines)]
    assert kinds == [("->", "POST"), ("->", '{"js'), ("<-", "200"), ("<-", '{"js')] * 3
    *_, call, _, answer, _ = lines
    assert parts_of(call) == (
        "2026-07-28",
        "->",
        "POST /mcp  Content-Type: application/json  MCP-Protocol-Version: 2026-07-28  Mcp-Method: tools/call"
        "  Mcp-Name: lay  Mcp-Param-Where: ***  Mcp-Param-Token: ***",
    )
    assert parts_of(answer)[2] == "200  Content-Type: application/json"
    assert "s3cret" not in "".join(lines)


async def test_heads_of_the_legacy_era_show_the_session_and_the_listening_stream() -> None:
    async with bridges().serve_http() as url:
        lines = await traced(url, "2025-11-25")
    heads = heads_of(lines)
    assert heads[:2] == [("->", "POST /mcp"), ("<-", "200")] and heads[-2:] == [("->", "DELETE /mcp"), ("<-", "204")]
    assert ("->", "GET /mcp") in heads and ("<-", "202") in heads
    (session,) = {match[1] for line in lines if (match := re.search(r"Mcp-Session-Id: (\S+)", line))}
    assert sum(session in line for line in lines) > 4
    assert "MCP-Protocol-Version: 2025-11-25" in lines[-2]
    assert "s3cret" not in "".join(lines)


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", "2026-07-28"])
async def test_trace_of_an_http_server_shows_request_heads_and_statuses(revision: str) -> None:
    out = io.StringIO()
    async with bridges(tracer(out, False)).serve_http() as url:
        seen = heads_of(await traced(url.replace("/mcp", "/sse") if revision == "2024-11-05" else url, revision))
    lines = out.getvalue().splitlines()
    posts = [(direction, text) for direction, text in heads_of(lines) if text.startswith("POST")]
    assert posts == [("<-", text) for direction, text in seen if text.startswith("POST")]
    assert {direction for direction, text in heads_of(lines) if text == "200"} == {"->"}
    assert "s3cret" not in "".join(lines)


async def test_trace_function_receives_only_frames() -> None:
    frames: list[bytes] = []
    async with bridges(lambda direction, frame: frames.append(frame)).serve_http() as url:
        for revision in ("2025-11-25", "2026-07-28"):
            async with Client(url, revision=revision, trace=lambda _, frame: frames.append(frame)) as client:
                await client.ping()
    assert len(frames) == 2 * (5 + 4) and all(json.loads(frame) for frame in frames)


async def test_tracer_whose_reader_has_left_does_not_disturb_the_conversation() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    out = os.fdopen(writing, "w", buffering=1)
    async with Client(bridges(), trace=tracer(out)) as client:
        assert [tool.name for tool in await client.list_tools()] == ["lay"]
    with contextlib.suppress(BrokenPipeError):  # the lines that could not be written are still in its buffer
        out.close()


class BrokenTrace:
    """A trace whose frames and heads all fail."""

    def __call__(self, direction: Direction, frame: bytes) -> None:
        raise ValueError("a frame")

    def head(self, direction: Direction, line: str, headers: Iterable[tuple[str, str]]) -> None:
        raise ValueError("a head")


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", "2026-07-28"])
async def test_trace_that_raises_an_exception_is_logged_and_loses_no_message(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = bridges(BrokenTrace())
    async with server.serve_http() as url:
        url = url.replace("/mcp", "/sse") if revision == "2024-11-05" else url
        for target in (server, url):
            async with Client(target, revision=revision, trace=BrokenTrace(), timeout=10) as client:
                assert [tool.name for tool in await client.list_tools()] == ["lay"]
    assert {record.message for record in caplog.records} == {"the trace failed, so it lacks a message or a head"}
    faults = {str(record.exc_info[1]) for record in caplog.records if record.exc_info}
    assert faults == {"a frame", "a head"}
