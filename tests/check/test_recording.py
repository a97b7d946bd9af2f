"""The recording: the format of its lines, and the secrets that must not be in them."""

from __future__ import annotations

import ast
import dataclasses
import json
from pathlib import Path

import pytest

from mcp_ref.check import recording
from mcp_ref.check.masking import mask, mask_head
from mcp_ref.check.recording import (
    MAX_CONTENT,
    Content,
    End,
    ErrorOutput,
    Event,
    Frame,
    Gap,
    Head,
    HttpBody,
    HttpEnd,
    HttpEvent,
    HttpRequest,
    HttpResponse,
    RecordingError,
    content,
    format_event,
    format_head,
    parse_event,
    parse_head,
    read_events,
)


def examples() -> list[list[bytes]]:
    """Return the recordings in the module's docstring. A line with an indentation of eight continues the one above."""
    docstring = ast.get_docstring(ast.parse(Path(recording.__file__).read_text("utf-8"))) or ""
    found: list[list[bytes]] = []
    for line in docstring.splitlines():
        if line.startswith("        "):
            found[-1][-1] += b" " + line.strip().encode()
        elif line.startswith('    {"mcp_recording"'):
            found.append([line.strip().encode()])
        elif line.startswith("    {"):
            found[-1].append(line.strip().encode())
    return found


def test_recording_reads_and_writes_the_examples_of_its_docstring() -> None:
    kinds = set[type[Event]]()
    stdio, http = examples()
    for head, *lines in (stdio, http):
        assert format_head(parse_head(head)) == head
        for line in lines:
            event = parse_event(line)
            assert event is not None and format_event(event) == line
            kinds.add(type(event))
    assert kinds == {Frame, ErrorOutput, End, Gap, HttpRequest, HttpResponse, HttpBody, HttpEvent, HttpEnd}


@pytest.mark.parametrize(
    "data", [b"", b"\xff\x00\r", b'{"a": "\\ud800"}', "\u2028\x85é".encode(), b"\x00", bytes(range(256))]
)
def test_frame_of_any_bytes_is_read_as_it_was_written(data: bytes) -> None:
    event = Frame("client", content(data), at=1.0, connection=2)
    line = format_event(event)
    assert b"\n" not in line and parse_event(line) == event


@pytest.mark.parametrize(
    "event",
    [
        Frame("server", content(b"x"), partial=True, at=1.5, connection=2, masked=True),
        Gap(3, 4, "the disk was full", at=1.0),
        ErrorOutput(content(b"\xff"), connection=1),
        End("client", 3),
        End("server", None),
        HttpRequest(1, "POST", "/a", (("A", "b"),), content(b"x"), masked=True),
        HttpResponse(1, 200, (("A", "b"),)),
        HttpEvent(1, content(b"x"), "id", 5, "endpoint"),
        HttpEvent(1, content(b""), None, None),
        HttpBody(1, content(b"x")),
        HttpEnd(1, "client"),
        HttpEnd(1, "complete"),
    ],
)
def test_event_is_read_as_it_was_written(event: Event) -> None:
    assert parse_event(format_event(event)) == event


def test_content_above_the_limit_keeps_its_start_its_size_and_its_digest() -> None:
    data = "é".encode() * MAX_CONTENT
    event = parse_event(format_event(Frame("server", content(b"x" + data))))
    assert isinstance(event, Frame) and not event.content.is_whole
    assert event.content.size == 2 * MAX_CONTENT + 1 and len(event.content.sha256) == 64
    assert (b"x" + data).startswith(event.content.data)


def test_read_events_makes_a_gap_of_an_invalid_line_and_skips_unknown_events() -> None:
    lines = [b'{"at": 1, "weather": "fine"}', b'{"at": 2, "connection": 1, "from": "cli', b"\xff", b"",
             b'{"at": 1%b, "connection": 1, "end": "client"}' % (b"0" * 400),
             b'{"at": "1", "connection": 1, "end": "client"}', b'{"connection": 1, "end": "nobody"}',
             b'{"response": 1, "status": true}', b'{"response": 1, "event": []}', b'{"response": 1, "weather": "fine"}',
             b'{"connection": 1, "from": "client", "frame_base64": "%"}',
             b'{"at": 3, "connection": 1, "end": "client", "new": 1}']  # fmt: skip
    events = list(read_events(lines))
    assert [type(event) for event in events] == [Gap] * 8 + [End]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"at": 2, "connection": 1, "from": "cli', "the line is not JSON, perhaps because it was cut off"),
        (b'{"connection": 1, "frame": "{}"}', "not an event of a recording: the member 'from' is missing"),
        (b'{"connection": "1", "frame": "{}"}', "not an event of a recording: at or connection is not a number"),
    ],
)
def test_parse_event_says_in_words_why_a_line_is_not_an_event(line: bytes, reason: str) -> None:
    with pytest.raises(RecordingError) as caught:
        parse_event(line)
    assert str(caught.value) == reason


@pytest.mark.parametrize(
    "line", [b"", b"[]", b"{}", b'{"mcp_recording": 2}', b'{"mcp_recording": 1, "transport": "x"}']
)
def test_parse_head_refuses_a_file_that_is_not_a_recording(line: bytes) -> None:
    with pytest.raises(RecordingError):
        parse_head(line)


SECRET = "hunter2"


@pytest.mark.attack("recording-secrets")
@pytest.mark.parametrize(
    "text",
    [
        '{"params": {"arguments": {"password": "hunter2"}}}',
        *('{"token": "hunter2", "token": "x"}', '{"x": [{"api_key": {"a": "hunter2"}}]}'),
        '{"access_token": "hunter2", "token_type": "Bearer"}',
        '{"uri": "https://example.com/?api_key=hunter2&a=b"}',
        '{"inputSchema": {"properties": {"token": {"type": "string", "default": "hunter2"}}}}',
        '{"inputSchema": {"token": "hunter2"}}',
        '{"inputSchema": {"properties": {"token": "hunter2"}}}',
        '{"half": 1, "client_secret": "hunter2',
        "grant_type=authorization_code&code=hunter2&client_id=a",
        *("Authorization: Bearer hunter2", "the api key is hunter2", "-----BEGIN PRIVATE KEY-----\nhunter2\n"),
    ],
)
def test_mask_hides_a_secret_in_a_content(text: str) -> None:
    data = [text.encode(), text.encode() + b"\xff", text.encode("utf-16-le")]
    for each in data[:2] if "=" in text and "://" not in text else data:
        events: list[Event] = [Frame("client", content(each)), ErrorOutput(content(each)), HttpBody(1, content(each))]
        events.append(HttpRequest(1, "POST", "/mcp", (), content(each)))
        for event in events:
            shown = mask(event)
            line = format_event(shown)
            kept = shown.content.data if isinstance(shown, Frame | ErrorOutput | HttpBody | HttpRequest) else b""
            assert SECRET.encode() not in line + kept.replace(b"\0", b"") and shown.masked, (line, each)


@pytest.mark.attack("recording-secrets")
@pytest.mark.parametrize(
    "words",
    [
        ("postgres://user:hunter2@host/db",),
        ("--dsn=postgres://user:hunter2@host/db",),
        ("--header", "X-Api-Key:hunter2"),
        ("--token", "-hunter2"),
        ('{"token":"hunter2"}',),
        ("-c", "psql postgres://user:hunter2@host/db"),
    ],
)
def test_mask_head_hides_a_secret_in_the_words_of_a_command(words: tuple[str, ...]) -> None:
    head = mask_head(Head("stdio", command=("server", *words, "--verbose", "last")))
    assert SECRET.encode() not in format_head(head)
    assert head.command[0] == "server" and head.command[-2:] == ("--verbose", "last")


TEXTS = [
    '{"dsn": "postgres://user:hunter2@host/db"}',
    '{"uri": "https://a/cb#access_token=hunter2"}', '{"uri": "https://a/cb?t%6Fken=hunter2"}',
    '{"uri": "https://a/cb?x=1&key=hunter2"}',
    '{"content": [{"type": "text", "text": "{\\"token\\": \\"hunter2\\"}"}]}',
    '{"content": [{"type": "text", "text": "set API_KEY=hunter2 and restart"}]}',
]  # fmt: skip
"""Secrets in a URL, or in JSON within a text."""
DISGUISED = ["pa\u017f\u017fword", "to\u212aen", "\\u0074oken", "T-O-K-E-N", "api key"]
HEADERS = [
    ("X-Auth", "hunter2"), ("Ocp-Apim-Subscription-Key", "hunter2"), ("DPoP", "hunter2"),
    ("X-Other", "Bearer\thunter2"), ("WWW-Authenticate", 'Bearer resource_metadata="https://a/?token=hunter2"'),
    ("Location", "https://a/cb#access_token=hunter2"), ("Origin", "http://user:hunter2@a"),
]  # fmt: skip


@pytest.mark.attack("recording-secrets")
@pytest.mark.parametrize(
    "event",
    [
        *(Frame("client", content(text.encode() + end)) for text in TEXTS for end in (b"", b"\xff")),
        *(Frame("client", content(f'{{"{name}": "hunter2"}}'.encode())) for name in DISGUISED),
        *(HttpResponse(1, 200, (header,)) for header in HEADERS),
        Gap(1, because="a header line must be `name: value`, not 'Authorization : hunter2'"),
        HttpRequest(1, "POST", "/token", (), content(b"code=hunter2&client_secret=hunter2\r\n")),
        HttpEvent(1, content(b"{}"), id="token=hunter2"),
    ],
    ids=str,
)
def test_mask_hides_a_secret_in_a_url_a_text_a_header_a_gap_a_form_or_an_event_id(event: Event) -> None:
    shown = mask(event)
    assert shown.masked and SECRET.encode() not in format_event(shown)


@pytest.mark.attack("recording-secrets")
def test_mask_hides_secrets_in_headers_targets_and_commands() -> None:
    headers = (("Authorization", "Bearer hunter2"), ("X-Api-Key", "hunter2"), ("Mcp-Param-Pin", "hunter2"))
    request = HttpRequest(1, "POST", "/mcp?token=hunter2", headers, content(b'{"password": "hunter2"}'))
    response = HttpResponse(
        1, 302, (("Set-Cookie", "hunter2"), ("Location", "http://u:hunter2@a/cb?code=hunter2&state=s"))
    )
    head = Head(
        "stdio", "", ("server", "--token", "hunter2", "--api-key=hunter2", "API_TOKEN=hunter2"), "http://a:hunter2@b/"
    )
    lines = [format_event(mask(request)), format_event(mask(response)), format_head(mask_head(head))]
    assert mask_head(head).command == ("server", "--token", "***", "--api-key=***", "API_TOKEN=***")
    lines.append(format_head(mask_head(dataclasses.replace(head, transport="http"))))
    assert SECRET.encode() not in b"".join(lines)
    assert b"state=s" in lines[1]


def test_mask_returns_an_event_without_secrets_as_it_is() -> None:
    schema = '{ "inputSchema":{"properties":{"token":{"type":"string"}},"required":["token","x"]},"progressToken":1.0}'
    for text in (schema, '{"token_endpoint": "https://a/token", "maxTokens": 5}', "plain text", '{"a": NaN, "a": 1}'):
        event = Frame("server", content(text.encode()))
        assert mask(event) is event
    metadata = (("WWW-Authenticate", 'Bearer resource_metadata="https://a/x"'), ("Vary", "Authorization"))
    response = HttpResponse(1, 401, (*metadata, ("Access-Control-Allow-Headers", "Authorization, X-Api-Key")))
    assert mask(response) is response


@pytest.mark.attack("recording-secrets")
def test_mask_hides_a_secret_at_the_start_of_a_large_frame() -> None:
    whole = json.dumps({"password": SECRET, "rest": "x" * MAX_CONTENT}).encode()
    shown = mask(Frame("client", content(whole)))
    assert isinstance(shown, Frame) and shown.content.size == len(whole)
    assert SECRET.encode() not in format_event(shown)
    assert mask(Frame("client", Content(b"abc", 9, "f"))) == Frame("client", Content(b"abc", 9, "f"))
