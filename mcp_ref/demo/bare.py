"""What Streamable HTTP adds to the messages, as bare requests: heads that say what the body says; in the earlier era a
session, and streams that can be taken up again.

Our client does all this unseen; see basic/transports/streamable_http_client.py.

Above: `ways.py`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator

from ..basic.headers import METHOD_HEADER, NAME_HEADER
from ..basic.versioning import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from ..jsonrpc.messages import Object
from ..lib.http.client import HttpClient, HttpResponse
from ..lib.http.sse import Event, EventParser
from ..revisions import LEGACY, REVISIONS
from .screen import Screen

MAX = 1_000_000
"""Bytes of an answer, or of an event."""

SHOWN = ("Content-Type", "Mcp-Session-Id")
"""The headers of an answer that matter here."""


class Bare:
    """A client that knows nothing of MCP: it makes HTTP requests, and shows them with the headers that matter."""

    def __init__(self, screen: Screen, http: HttpClient, url: str) -> None:
        self._screen, self._http, self._url = screen, http, url

    @contextlib.asynccontextmanager
    async def request(
        self, method: str, headers: dict[str, str], message: Object | None = None
    ) -> AsyncIterator[HttpResponse]:
        """One request, and its answer, whose body is still to be read."""
        body = ""
        if message is not None:
            body = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":"))
            headers = {**headers, "Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        self._screen.http("client", f"{method} /mcp", headers, body)
        async with self._http.request(method, self._url, headers, body.encode()) as response:
            shown = {name: value for name in SHOWN if (value := response.headers.get(name)) is not None}
            self._screen.http("server", f"status {response.status}", shown)
            yield response

    async def post(self, headers: dict[str, str], message: Object) -> HttpResponse:
        """A message that is answered by JSON, or not at all."""
        async with self.request("POST", headers, message) as response:
            self._screen.body((await response.read(MAX)).decode())
            return response

    async def events(self, response: HttpResponse, most: int | None = None) -> list[Event]:
        """The next events of a stream, so many at most."""
        parser, found = EventParser(MAX), list[Event]()
        async for piece in response:
            for event in parser.feed(piece):
                self._screen.body(f"id: {event.id}  data: {event.data}".rstrip())
                found.append(event)
                if len(found) == most:
                    return found
        return found


async def heads(screen: Screen, bare: Bare) -> None:
    """What a request says twice, and what becomes of one that contradicts itself."""
    screen.chapter("What HTTP adds: headers", "basic/transports/streamable-http#request-metadata")
    screen.say(
        """Over HTTP every message is a POST, on any connection. What a proxy may want to know of it stands in its head,
        too: the revision, the method, the tool's name. Here it is without our client, as bare requests."""
    )
    meta: Object = {PROTOCOL_VERSION: REVISIONS[-1].name, CLIENT_CAPABILITIES: {}}
    call: Object = {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": meta}
    head = {"MCP-Protocol-Version": REVISIONS[-1].name, METHOD_HEADER: "tools/call", NAME_HEADER: "add"}
    answer = await bare.post(head, {"id": 1, "method": "tools/call", "params": call})
    screen.claim("it is served, and there was nothing before it", answer.status == 200)
    answer = await bare.post({**head, NAME_HEADER: "divide"}, {"id": 2, "method": "tools/call", "params": call})
    screen.claim("a head that says something else than the body fools nobody: it is a 400", answer.status == 400)
    answer = await bare.post({**head, METHOD_HEADER: "ping"}, {"id": 3, "method": "ping", "params": {"_meta": meta}})
    screen.claim("a method that there is not, here one of the earlier era, is a 404", answer.status == 404)


async def sessions(screen: Screen, bare: Bare) -> dict[str, str]:
    """What ties the requests of one client together; gives the header that does."""
    screen.chapter("What HTTP adds: sessions", "basic/transports#session-management")
    screen.say(
        """In this era, what makes a conversation of requests is a session: the answer to `initialize` names one, and
        each later request says that name. Again as bare requests."""
    )
    info: Object = {"name": "bare", "version": "1"}
    hello: Object = {"protocolVersion": LEGACY[-1].name, "capabilities": {}, "clientInfo": info}
    answer = await bare.post({}, {"id": 1, "method": "initialize", "params": hello})
    session = {"Mcp-Session-Id": answer.headers.get("Mcp-Session-Id") or ""}
    screen.claim("the answer is JSON, and its head names the session", answer.status == 200 and any(session.values()))
    answer = await bare.post(session, {"method": "notifications/initialized"})
    screen.claim("what has no answer gets a 202", answer.status == 202)
    answer = await bare.post({}, {"id": 2, "method": "ping"})
    screen.claim("a request that names no session is refused", answer.status == 400)
    return session


async def streams(screen: Screen, bare: Bare, session: dict[str, str]) -> None:
    """What a server says before its answer; and how nothing of it is lost when the connection breaks."""
    screen.chapter("What HTTP adds: streams", "basic/transports#resumability-and-redelivery")
    screen.say(
        """A tool that has something to say before its answer gets a stream of events in the place of JSON. Each event
        has an id; the first is there only for that. Now the client leaves at the first message, as if its connection
        had broken."""
    )
    params: Object = {"name": "count", "arguments": {"to": 1}, "_meta": {"progressToken": "count"}}
    async with bare.request("POST", session, {"id": 3, "method": "tools/call", "params": params}) as response:
        seen = await bare.events(response, most=2)
    screen.claim("the answer has not come", not any('"result"' in event.data for event in seen))
    screen.say("The call goes on. The client comes back for the rest, and says which event it saw last.")
    last = {"Last-Event-ID": seen[-1].id}
    async with bare.request("GET", {**session, "Accept": "text/event-stream", **last}) as response:
        rest = await bare.events(response)
    ids = [event.id for event in seen + rest]
    screen.claim("nothing was lost, and nothing came twice", '"result"' in rest[-1].data and len(set(ids)) == len(ids))
    screen.say("Who is done says so; otherwise the session would end after half an hour without use.")
    async with bare.request("DELETE", session) as response:
        screen.claim("the session has ended", response.status == 204)
    answer = await bare.post(session, {"id": 4, "method": "ping"})
    screen.claim("who names it now is told that it is no more, and would begin another", answer.status == 404)
