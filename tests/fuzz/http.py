"""Targets: HTTP requests and responses, and server-sent events."""

from __future__ import annotations

import random
import re

from mcp_ref.lib.http.framing import CHUNKED, BadMessage, ChunkDecoder, body_length, parse_response_head
from mcp_ref.lib.http.message import HttpLimits
from mcp_ref.lib.http.parser import RequestParser
from mcp_ref.lib.http.sse import Event, EventParser, EventTooLarge, encode_event
from tests.fuzz.inputs import damaged, pieces, within_limits, word

MAX_READ = 256 * 1024
"""Maximum number of bytes that asyncio reads from a socket in one turn of the event loop."""

Http = tuple[str, list[tuple[str, str]], bytes]
"""The first line of a message, its headers, and its body."""

HTTP_FRAGMENTS = [
    b"\r\n", b"\n", b"\r", b" ", b"\t", b":", b"\0", b"\r\n\r\n", b"\r\n ", b",", b"chunked", b"Host: b\r\n", b"\xff",
    b"Content-Length: 3\r\n", b"Content-Length: +3\r\n", b"Transfer-Encoding: chunked\r\n", b"0\r\n\r\n", b"1\r\na\r\n",
    b"Expect: 100-continue\r\n", b"HTTP/1.0", b"http://b/", b"http://[/", b"#", b"?", b"0x", b";a=b", b"X: y\r\n",
]  # fmt: skip


def _body(rng: random.Random) -> tuple[bytes, list[tuple[str, str]], bytes]:
    """Return a body, the headers that describe it, and the bytes on the wire."""
    body = rng.randbytes(rng.randint(0, 30))
    if rng.random() < 0.5:
        return body, [("Content-Length", str(len(body)))], body
    extension = rng.choice([b"", b";a=b", b" ;c"])
    chunks = [b"%X%b\r\n%b\r\n" % (len(part), extension, part) for part in pieces(rng, body) if part]
    return body, [("Transfer-Encoding", "chunked")], b"".join([*chunks, b"0\r\n\r\n"])


def _message(rng: random.Random, first: str) -> tuple[bytes, Http]:
    """Return a valid message on the wire, and its meaning."""
    body, length, raw = _body(rng)
    headers = [("Host", "a"), *rng.sample([("Accept", "a/b, c"), ("X-Empty", ""), ("x-empty", "\x80 ~")], 2), *length]
    rng.shuffle(headers)
    lines = [first, *(f"{name}:{' ' * rng.randrange(3)}{text}" for name, text in headers)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + raw, (first, headers, body)


def _parse(parts: list[bytes]) -> tuple[list[Http], int]:
    """Return the requests that the package reads, and the status of the error after them, or 0."""
    parser, found = RequestParser(HttpLimits()), list[Http]()
    for part in parts:
        parser.buffer += part
        try:
            while head := parser.head or parser.next_head():
                body = parser.next_body()
                if body is None:
                    break  # the rest of it is in a later part
                target = head.path + ("?" + head.query if head.query else "")
                version = "1.0" if head.is_http_1_0 else "1.1"
                found.append((f"{head.method} {target} HTTP/{version}", list(head.headers), body))
        except BadMessage as error:
            assert 400 <= error.status <= 505, error.status
            return found, error.status
    return found, 0


def _read_simply(data: bytes, count: int) -> list[Http]:
    """Return the first requests in the data as a simple proxy reads them."""
    found = list[Http]()
    while len(found) < count:
        head, _, data = re.sub(rb"\A(\r\n)+", b"", data).partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = [(name, text.strip(" \t")) for name, _, text in (line.partition(":") for line in lines)]
        named, body = {name.lower(): text for name, text in headers}, b""
        size = int(named.get("content-length", 0))
        body, data = data[:size], data[size:]
        while "transfer-encoding" in named:
            line, _, data = data.partition(b"\r\n")
            size = int(re.split(b"[ \t;]", line)[0], 16)
            if size == 0:
                break
            body, data = body + data[:size], data[size + 2 :]
        trailer = b"x" if "transfer-encoding" in named else b""
        while trailer:
            trailer, _, data = data.partition(b"\r\n")
        found.append((first, headers, body))
    return found


def check_requests(rng: random.Random) -> None:
    """Check that requests are refused, or read as by a simple proxy, no matter how the data is split."""
    valid = [_message(rng, f"{rng.choice(['GET', 'POST', 'X-Y'])} {rng.choice(['/mcp', '/?a=b'])} HTTP/1.1")
             for _ in range(rng.randint(1, 3))]  # fmt: skip
    data = b"".join(raw for raw, _ in valid)
    with within_limits():
        assert _parse(pieces(rng, data)) == ([meaning for _, meaning in valid], 0)
    data = damaged(rng, data, HTTP_FRAGMENTS, MAX_READ)
    with within_limits():
        found, status = _parse([data])
    with within_limits():
        again, error = _parse(pieces(rng, data))
    assert (again, error > 0) == (found, status > 0)  # a long head can be refused for its size or for its syntax
    expected = _read_simply(data, len(found))
    for seen, simple in zip(found, expected, strict=True):
        assert seen[1:] == simple[1:], (seen, simple)
        first = re.sub(r"^([^?]*)\? ", r"\1 ", simple[0])  # a query can be empty
        first = re.sub(r"HTTP/1\.[2-9]$", "HTTP/1.1", first)  # [RFC 9110 2.5] a later minor version is read as 1.1
        assert seen[0] == first or " http" in first, (seen, simple)


def check_response(rng: random.Random) -> None:
    """Check that a response is read back, and that a damaged response raises only BadMessage."""
    raw, (first, headers, body) = _message(rng, f"HTTP/1.1 {rng.randint(100, 599)} OK")
    for data in (raw, damaged(rng, raw, HTTP_FRAGMENTS, MAX_READ)):
        head, _, rest = data.partition(b"\r\n\r\n")
        try:
            with within_limits():
                status, version, found = parse_response_head(head + b"\r\n\r\n", 100)
                length, buffer = body_length(found), bytearray()
                decoder, read = ChunkDecoder(buffer), b""
                for part in pieces(rng, rest) if length == CHUNKED else []:
                    buffer += part
                    read += decoder.decode() if not decoder.done else b""
        except BadMessage:
            assert data is not raw
            continue
        if data is raw:
            assert (f"{version} {status} OK", list(found)) == (first, headers)
            assert (read if length == CHUNKED else rest) == body and length in (CHUNKED, len(body)) and not buffer


EVENT_FRAGMENTS = [b"\r", b"\n", b"\r\n", b"\n\n", b":", b"data", b"data:", b"data: x\n", b"id: 7\n", b"id\n", b"\0"]
EVENT_FRAGMENTS += [b"event: e\n", b"retry: 10\n", b"retry: -1\n", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\xff", b" "]


def _events(parts: list[bytes], limit: int) -> tuple[list[Event], str, int | None] | None:
    """Return the events that the package reads, the last id and `retry`, or None if an event is too large."""
    parser, found = EventParser(limit), list[Event]()
    try:
        for part in parts:
            found += parser.feed(part)
    except EventTooLarge:
        return None
    return found, parser.last_event_id, parser.retry


def _read_events_simply(data: bytes) -> tuple[list[Event], str, int | None]:
    """Return the events, the last id and `retry` of a stream, by the steps in the HTML standard."""
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    found, lines, name, id, last, retry = list[Event](), list[str](), "", "", "", None
    for line in re.split("\r\n|\r|\n", text)[:-1]:
        field, _, content = line.partition(":")
        content = content.removeprefix(" ")
        if line == "":
            last = id
            found += [Event("\n".join(lines).encode(), name or "message", id)] if lines else []
            lines, name = [], ""
        elif field == "data":
            lines.append(content)
        elif field == "event":
            name = content
        elif field == "id" and "\0" not in content:
            id = content
        elif field == "retry" and re.fullmatch("[0-9]{1,15}", content):
            retry = int(content)
    return found, last, retry


def check_events(rng: random.Random) -> None:
    """Check that events are read back, and as by the steps of the standard, no matter how the data is split."""
    sent = [(word(rng), rng.choice(["message", "endpoint"]), str(n)) for n in range(rng.randint(1, 4))]
    data = b"".join(encode_event(text.encode(), id=id, event=event) for text, event, id in sent)
    with within_limits():
        expected = [Event(text.encode(), *rest) for text, *rest in sent]
        assert _events(pieces(rng, data), 10**6) == (expected, sent[-1][2], None)
    data, limit = damaged(rng, data, EVENT_FRAGMENTS, MAX_READ), rng.choice([30, 10**7])
    with within_limits():
        found = _events([data], limit)
    with within_limits():
        assert _events(pieces(rng, data), limit) == found
    if found is not None:
        as_text = [Event(event.data.decode("utf-8", "replace").encode(), event.event, event.id) for event in found[0]]
        assert (as_text, *found[1:]) == _read_events_simply(data)
    assert found is not None or limit == 30
