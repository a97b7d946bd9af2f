"""Streamable HTTP as plain HTTP requests: headers, sessions (legacy era only), and a stream that the client resumes.

The package's `Client` sends the same requests: see transports/streamable_http/*client.py.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator

from ..basic.headers import METHOD_HEADER, NAME_HEADER
from ..basic.versioning import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from ..jsonrpc.messages import Object
from ..lib.http.client import HttpClient
from ..lib.http.response import HttpResponse
from ..lib.http.sse import Event, EventParser
from ..revisions import LEGACY, REVISIONS
from .screen import Screen

MAX_BYTES = 1_000_000
"""Maximum size of a response body, or of one event, in bytes."""

SHOWN_HEADERS = ("Content-Type", "Mcp-Session-Id")
"""The response headers that the demo shows."""


class PlainHttp:
    """An HTTP client without MCP. It prints requests and responses with their important headers."""

    def __init__(self, screen: Screen, http: HttpClient, url: str) -> None:
        self._screen, self._http, self._url = screen, http, url

    @contextlib.asynccontextmanager
    async def request(
        self, method: str, headers: dict[str, str], message: Object | None
    ) -> AsyncIterator[HttpResponse]:
        """Send a request and yield the response, with an unread body."""
        body = ""
        if message is not None:
            body = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":"))
            headers = {**headers, "Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        self._screen.http("client", f"{method} /mcp", headers, body)
        async with self._http.request(method, self._url, headers, body.encode()) as response:
            values = {name: response.headers.get(name) for name in SHOWN_HEADERS}
            shown = {name: value for name, value in values.items() if value is not None}
            self._screen.http("server", f"status {response.status}", shown)
            yield response

    async def post(self, headers: dict[str, str], message: Object) -> HttpResponse:
        """Send a message and return the response, whose body is JSON or empty."""
        async with self.request("POST", headers, message) as response:
            self._screen.print_content((await response.read(MAX_BYTES)).decode())
            return response

    async def events(self, response: HttpResponse, max_count: int | None = None) -> list[Event]:
        """Return the next events of a stream: at most `max_count`, or all until the stream ends."""
        parser, found = EventParser(MAX_BYTES), list[Event]()
        async for piece in response:
            for event in parser.feed(piece):
                self._screen.print_content(f"id: {event.id}  data: {event.data.decode()}".rstrip())
                found.append(event)
                if len(found) == max_count:
                    return found
        return found


async def show_headers(screen: Screen, plain: PlainHttp) -> None:
    """Show the headers that repeat parts of the body, and two requests that the server refuses."""
    screen.chapter("Over HTTP: headers", "basic/transports/streamable-http#request-metadata")
    screen.say("Each message of the client is a POST. Its headers repeat the revision, the method and the tool's name.")
    screen.say("A proxy can route a request without reading its body. Here are plain HTTP requests without our client.")
    meta: Object = {PROTOCOL_VERSION: REVISIONS[-1].name, CLIENT_CAPABILITIES: {}}
    call: Object = {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": meta}
    base = {"MCP-Protocol-Version": REVISIONS[-1].name, METHOD_HEADER: "tools/call", NAME_HEADER: "add"}
    response = await plain.post(base, {"id": 1, "method": "tools/call", "params": call})
    screen.claim("the server responds to the call; no earlier request was necessary", response.status == 200)
    response = await plain.post({**base, NAME_HEADER: "divide"}, {"id": 2, "method": "tools/call", "params": call})
    screen.claim("a header that contradicts the body: status 400", response.status == 400)
    response = await plain.post({**base, METHOD_HEADER: "ping"}, {"id": 3, "method": "ping", "params": {"_meta": meta}})
    screen.claim("a method that this revision does not have: status 404", response.status == 404)


async def show_session(screen: Screen, plain: PlainHttp) -> dict[str, str]:
    """Show how a session begins. Return the header with the session's id."""
    screen.chapter("Over HTTP: sessions", "basic/transports#session-management")
    screen.say("In the legacy era the requests of one client form a session, whose id is in a header.")
    screen.say("The server sends it with the result of `initialize`, and the client repeats it in each request.")
    info: Object = {"name": "plain-http", "version": "1"}
    params: Object = {"protocolVersion": LEGACY[-1].name, "capabilities": {}, "clientInfo": info}
    response = await plain.post({}, {"id": 1, "method": "initialize", "params": params})
    session = {"Mcp-Session-Id": response.headers.get("Mcp-Session-Id") or ""}
    screen.claim("a header of the response has the session's id", response.status == 200 and any(session.values()))
    response = await plain.post(session, {"method": "notifications/initialized"})
    screen.claim("a notification has no response message: status 202", response.status == 202)
    response = await plain.post({}, {"id": 2, "method": "ping"})
    screen.claim("a request without the session's id: status 400", response.status == 400)
    return session


async def show_stream(screen: Screen, plain: PlainHttp, session: dict[str, str]) -> None:
    """Show a stream of events that is resumed after a lost connection, and the end of the session."""
    screen.chapter("Over HTTP: streams", "basic/transports#resumability-and-redelivery")
    screen.say("A tool that reports progress responds with a stream of events. The first event has only an id.")
    screen.say("To simulate a failure, the client disconnects after the second event, the first one with a message.")
    params: Object = {"name": "count", "arguments": {"to": 1}, "_meta": {"progressToken": "count"}}
    async with plain.request("POST", session, {"id": 3, "method": "tools/call", "params": params}) as response:
        seen = await plain.events(response, max_count=2)
    screen.claim("the result has not arrived", not any(b'"result"' in event.data for event in seen))
    screen.say("The call continues in the server, and the client resumes the stream after the last event it got.")
    headers = {**session, "Accept": "text/event-stream", "Last-Event-ID": seen[-1].id}
    async with plain.request("GET", headers, None) as response:
        rest = await plain.events(response)
    ids = [event.id for event in seen + rest]
    screen.claim("no event was lost or repeated", b'"result"' in rest[-1].data and len(set(ids)) == len(ids))
    screen.say("The client ends the session. Without this DELETE the session would expire after half an hour.")
    async with plain.request("DELETE", session, None) as response:
        screen.claim("the session has ended", response.status == 204)
    response = await plain.post(session, {"id": 4, "method": "ping"})
    screen.claim("a request in an ended session: status 404; a client must start a new one", response.status == 404)
