"""The client of HTTP+SSE: its POSTs in order, their failures, and the URL that a server may name for them."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from urllib.parse import urljoin

import pytest

from mcp_ref import ConnectionClosed
from mcp_ref.jsonrpc.errors import InvalidMessage, McpError
from mcp_ref.jsonrpc.messages import Incoming, Notification, Request, RequestFailure, Response, encode
from mcp_ref.lib.http.message import Headers
from mcp_ref.lib.http.response import HttpError
from mcp_ref.transports.http_sse import client as client_module
from mcp_ref.transports.http_sse.client import MAX_REFUSAL, SseClientTransport, _endpoint_at

URL = "http://a.example/sse?key=s3cret"
SHOWN = "http://a.example/sse"
ENDPOINT = b"event: endpoint\ndata: /messages?x\n\n"
Post = Callable[[bytes], int | Exception | None]


class FakeHttp:
    """An HTTP client whose server streams `events`, and decides on each POST: a status, an error, or no response."""

    def __init__(self, post: Post = lambda body: 202, status: int = 200, kind: str = "text/event-stream") -> None:
        self.events = asyncio.Queue[bytes | Exception | None]()
        self.posts: list[tuple[str, Mapping[str, str], bytes]] = []
        self.gets: list[tuple[str, Mapping[str, str], object]] = []
        self._post, self._status, self._kind = post, status, kind

    @contextlib.asynccontextmanager
    async def request(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, body: bytes = b"", /, **options: Any
    ) -> AsyncIterator[Any]:
        if method == "GET":
            self.gets.append((url, dict(headers or {}), options))
            yield FakeResponse(self._status, self._kind, self.events, url)
            return
        self.posts.append((url, dict(headers or {}), body))
        outcome = self._post(body)
        if isinstance(outcome, Exception):
            raise outcome
        if outcome is None:
            await asyncio.Event().wait()
        yield FakeResponse(outcome or 0, "", self.events, url)

    async def close(self) -> None: ...


class FakeResponse:
    def __init__(self, status: int, kind: str, events: asyncio.Queue[bytes | Exception | None], url: str) -> None:
        self.status, self.headers, self._events, self.url = status, Headers([("Content-Type", kind)]), events, url

    async def read(self, limit: int) -> bytes:
        assert limit == MAX_REFUSAL
        return b""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (piece := await self._events.get()) is not None:
            if isinstance(piece, Exception):
                raise piece
            yield piece


class Session:
    """A transport, with the messages and the end that it reports."""

    def __init__(self, http: FakeHttp, trace: Any = None) -> None:
        self.readable = asyncio.Event()
        self.readable.set()
        self.received: list[Incoming] = []
        self.ends: list[McpError | None] = []
        self.transport = SseClientTransport(
            URL, http=http, readable=self.readable, headers={"X-A": "b"}, trace=trace, waits_for=None
        )

    async def start(self) -> None:
        await self.transport.start(self.received.append, self.ends.append)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("last", "why"),
    [
        (None, "the server ended the stream"),
        (b"x" * 200, "a server-sent event has more than 150 bytes"),
    ],
)
async def test_messages_are_posted_in_order_to_the_endpoint_and_those_of_the_server_are_received(
    last: bytes | None, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "MAX_EVENT", 150)
    http, traced = FakeHttp(), list[tuple[str, bytes]]()
    session = Session(http, lambda direction, frame: traced.append((direction, frame)))
    http.events.put_nowait(
        b": comment\n\nevent: other\ndata: x\n\n" + ENDPOINT + b"event: endpoint\ndata: /ignored\n\n"
    )
    await session.start()
    assert http.gets == [(URL, {"X-A": "b", "Accept": "text/event-stream"}, {"extra": True})]
    sent: list[Request | Notification] = [Request(1, "a"), Notification("b"), Notification("c")]
    for message in sent:
        session.transport.send(message)
    await session.transport.drain()
    headers = {"X-A": "b", "Content-Type": "application/json"}
    assert http.posts == [("http://a.example/messages?x", headers, encode(each)) for each in sent]
    session.readable.clear()
    frame = encode(Response(1, {}))
    http.events.put_nowait(b"data: %b\n\ndata: %b\n\n" % (frame, frame))
    await settle()
    assert session.received == [Response(1, {})]  # it reads no further
    session.readable.set()
    await settle()
    assert session.received == [Response(1, {})] * 2
    assert traced == [("->", encode(each)) for each in sent] + [("<-", frame)] * 2
    http.events.put_nowait(last)
    await settle()
    assert [str(end) for end in session.ends] == [f"{SHOWN}: {why}"]
    await session.transport.close()
    await session.transport.close()
    assert len(session.ends) == 1


@pytest.mark.parametrize(
    ("outcome", "why"),
    [
        (299, None),
        (300, "the server answered HTTP 300"),
        (HttpError("lost"), "lost"),
        (ValueError("invalid"), "invalid"),
        (McpError("no token"), "no token"),
        (None, "the message was not accepted within 0 s"),
    ],
)
async def test_post_that_fails_is_the_failure_of_its_request_or_is_in_the_log(
    outcome: int | Exception | None, why: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(client_module, "POST_SECONDS", 0.0)
    http = FakeHttp(lambda body: outcome)
    session = Session(http)
    http.events.put_nowait(ENDPOINT)
    await session.start()
    session.transport.send(Request(7, "a"))
    session.transport.send(Notification("b"))
    await session.transport.drain()
    error, status = outcome if isinstance(outcome, McpError) else None, outcome if isinstance(outcome, int) else 0
    failure = RequestFailure(7, f"{SHOWN}: {why}", error=error, http_status=status)
    assert session.received == ([] if why is None else [failure])
    assert caplog.messages == ([] if why is None else [f"a message was not delivered: {SHOWN}: {why}"])
    caplog.clear()
    await session.transport.close()
    assert [str(end) for end in session.ends] == ["the connection was closed"]


@pytest.mark.parametrize(
    ("url", "endpoint", "is_allowed"),
    [
        ("http://a.example/sse", "http://a.example:80/b", True),
        ("http://a.example:80/sse", "//a.example/b", True),
        ("https://a.example/sse", "https://A.example:443/b", True),
        ("https://a.example:8443/sse", "/b", True),
        ("http://a.example/v2/sse", "messages?a=b", True),
        ("http://a.example:81/sse", "HTTP://a.example:81/m", True),
        ("http://a.example/sse", "?x", True),
        ("http://a.example/sse", "#", True),
        ("http://[::1]/sse", "http://[::1]:80/messages", True),
        ("http://LocalHost:80/sse", "http://localhost/messages", True),
        ("http://a.example/sse", "http://a.example:443/b", False),
        ("http://a.example/sse", "https://a.example/b", False),
        ("http://a.example/sse", "//b.example/b", False),
        ("http://a.example:81/sse", "http://a.example:82/b", False),
        ("http://a.example:81/sse", "http://a.example:81@b.example/", False),
        ("http://a.example/sse", "file:///m", False),
        ("http://a.example/sse", "javascript:x", False),
    ],
)
def test_endpoint_must_have_the_origin_of_the_stream(url: str, endpoint: str, is_allowed: bool) -> None:
    target = urljoin(url, endpoint)
    if is_allowed:
        assert _endpoint_at(url, endpoint) == target
        return
    with pytest.raises(InvalidMessage, match=re.escape(f"endpoint event names {target!r}, which has another origin")):
        _endpoint_at(url, endpoint)


@pytest.mark.parametrize(
    ("http", "event", "why"),
    [
        ({"status": 404}, None, f"{SHOWN}: the server answered a GET with HTTP 404, not with an event stream"),
        ({"kind": "text/html"}, None, f"{SHOWN}: the server answered a GET with HTTP 200, not with an event stream"),
        ({}, b"event: endpoint\ndata: //b.example/\n\n",
         f"{SHOWN}: the endpoint event names 'http://b.example/', which has another origin than its stream; a server "
         "behind a proxy must send only a path, or a URL of the proxy"),
        ({}, b"event: endpoint\ndata: http://[::1\n\n", f"{SHOWN}: Invalid IPv6 URL"),
        ({}, b"event: endpoint\ndata: http://a.example:x/\n\n",
         f"{SHOWN}: Port could not be cast to integer value as 'x'"),
        ({}, None, f"{SHOWN}: the server ended the stream"),
        ({}, HttpError("lost"), f"{SHOWN}: lost"),
        ({}, McpError("no token"), "no token"),
        ({}, b": nothing\n\n", f"{SHOWN} sent no endpoint event within 0.05 s"),
    ],
)  # fmt: skip
async def test_start_without_an_endpoint_event_fails_with_the_reason(
    http: dict[str, Any], event: bytes | Exception | None, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "ENDPOINT_SECONDS", 0.05)
    fake = FakeHttp(**http)
    session = Session(fake)
    fake.events.put_nowait(event)
    with pytest.raises(McpError) as caught:
        await session.start()
    assert str(caught.value) == why
    is_lasting = why == "no token" or "another origin" in why
    assert isinstance(caught.value, ConnectionClosed) is not is_lasting
    assert session.ends == [] and not session.transport._posts


async def test_close_waits_a_limited_time_for_the_last_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "CLOSE_ACCEPT_SECONDS", 0.01)
    http = FakeHttp(lambda body: None)
    session = Session(http)
    http.events.put_nowait(ENDPOINT)
    await session.start()
    session.transport.send(Notification("a"))
    session.transport.send(Notification("b"))  # it waits for the first one
    await session.transport.close()
    assert len(http.posts) == 1 and not session.transport._posts and session.received == []
