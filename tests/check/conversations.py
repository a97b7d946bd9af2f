"""Conversations for the tests of the judge, written as short lists.

A conversation over stdio is a list of messages, each made by `from_client(...)` or `from_server(...)`. A conversation
over HTTP is an `HttpRecording`, to which `post(...)` and `get(...)` add exchanges. `broken_rules` returns the names of
the rules that a conversation breaks.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mcp_ref.check.conversation import Conversation
from mcp_ref.check.recording import (
    Content,
    Event,
    Frame,
    Head,
    HttpBody,
    HttpEnd,
    HttpEvent,
    HttpRequest,
    HttpResponse,
    Side,
    content,
)
from mcp_ref.check.rules import Finding

STARTED = Head("stdio", command=("server",))
HTTP = Head("http", url="http://127.0.0.1:8000/mcp")
MODERN = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"

Messages = list[tuple[Side, Any]]


def from_client(id: Any = None, method: str = "", params: Any = None, **members: Any) -> tuple[Side, Any]:
    """Return a request of the client, a notification without `id`, or a response without `method`."""
    return "client", _message(id, method, params, members)


def from_server(id: Any = None, method: str = "", params: Any = None, **members: Any) -> tuple[Side, Any]:
    """Return the same of the server."""
    return "server", _message(id, method, params, members)


def answered(id: Any, method: str = "ping", params: Any = None, **response: Any) -> Messages:
    """Return a request of the client and its response, by default an empty result."""
    return [from_client(id, method, params), from_server(id, **(response or {"result": {}}))]


def asked(id: Any, method: str = "ping", params: Any = None, **response: Any) -> Messages:
    """Return a request of the server and its response, by default an empty result."""
    return [from_server(id, method, params), from_client(id, **(response or {"result": {}}))]


def _message(id: Any, method: str, params: Any, members: Mapping[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"jsonrpc": "2.0"}
    message |= {} if id is None else {"id": id}
    message |= {"method": method} if method else {}
    message |= {} if params is None else {"params": params}
    return {**message, **members}


def error(code: Any, message: str = "no", **members: Any) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, **members}}


def handshake(revision: str = "2025-11-25", server: Any = None, client: Any = None) -> Messages:
    """Return the messages that open a session. By default, both sides have all capabilities."""
    of_client = ALL_OF_CLIENT if client is None else client
    of_server = ALL_OF_SERVER if server is None else server
    client_info, server_info = {"name": "c", "version": "1"}, {"name": "s", "version": "1"}
    params = {"protocolVersion": revision, "capabilities": of_client, "clientInfo": client_info}
    result = {"protocolVersion": revision, "capabilities": of_server, "serverInfo": server_info}
    return [
        from_client(0, "initialize", params),
        from_server(0, result=result),
        from_client(None, "notifications/initialized"),
    ]


ALL_OF_SERVER: dict[str, Any] = {
    "tools": {"listChanged": True}, "resources": {"subscribe": True, "listChanged": True}, "logging": {},
    "prompts": {"listChanged": True}, "completions": {},
    "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}},
}  # fmt: skip
ALL_OF_CLIENT: dict[str, Any] = {
    "roots": {"listChanged": True}, "sampling": {"tools": {}, "context": {}}, "elicitation": {"form": {}, "url": {}},
}  # fmt: skip


def stateless_params(revision: str = MODERN, capabilities: Any = None, **more: Any) -> dict[str, Any]:
    """Return the params of a stateless request, with `more` members of `_meta`, as in `logLevel="debug"`."""
    fields = {"protocolVersion": revision, "clientInfo": {"name": "c", "version": "1"},
              "clientCapabilities": ALL_OF_CLIENT if capabilities is None else capabilities, **more}  # fmt: skip
    return {"_meta": {PREFIX + name: value for name, value in fields.items()}}


def stateless(id: Any, method: str, params: Any = None, **more: Any) -> tuple[Side, Any]:
    """Return a stateless request."""
    return from_client(id, method, {**(params or {}), **stateless_params(**more)})


def complete(id: Any, **members: Any) -> tuple[Side, Any]:
    """Return a complete result of a stateless request."""
    return from_server(
        id,
        result={"resultType": "complete", "_meta": {PREFIX + "serverInfo": {"name": "s", "version": "1"}}, **members},
    )


def cacheable(id: Any, **members: Any) -> tuple[Side, Any]:
    """Return a complete, cacheable result."""
    return complete(id, **{"ttlMs": 0, "cacheScope": "public", **members})


def frames(messages: Iterable[tuple[Side, Any]]) -> list[Event]:
    return [Frame(side, _content(value), connection=1) for side, value in messages]


def findings(events: Sequence[Event], head: Head | None = STARTED) -> list[Finding]:
    conversation = Conversation(head=head)
    found = [finding for event in events for finding in conversation.receive(event)]
    return found + conversation.close()


def broken_rules(events: Sequence[Event], head: Head | None = STARTED, advice: bool = False) -> list[str]:
    """Return the names of the broken rules."""
    found = findings(events, head)
    assert {finding.side for finding in found} <= {"client", "server"}
    return sorted(f.rule.name for f in found if advice or f.level != "advice")


class HttpRecording:
    """A recording over HTTP under construction."""

    def __init__(self, revision: str | None = None, session: str | None = None) -> None:
        self.events: list[Event] = []
        self._numbers = itertools.count(1)
        self._revision, self._session = revision, session
        self.at = 0.0

    def exchange(
        self, method: str, message: Any = None, *, headers: Mapping[str, str | None] | None = None, status: int = 200,
        reply: Any = None, stream: Sequence[Any] | None = None, answer: Mapping[str, str | None] | None = None,
        end: str = "complete", target: str = "/mcp", connection: int = 1,
    ) -> HttpRecording:  # fmt: skip
        """Add an exchange.

        `headers` and `answer` are the headers of the request and of the response that differ from the usual ones; None
        leaves a header out. `reply` is the body of the response. Each item of `stream` is a message, or the dict of an
        event: its data is `sse` (None for no data), and it can have `id` and `retry`.
        """
        number = next(self._numbers)
        is_stateless = isinstance(message, dict) and PREFIX + "protocolVersion" in str(message.get("params"))
        sent: dict[str, str | None] = {"Host": "a", "Accept": "application/json, text/event-stream"}
        sent |= {"Content-Type": "application/json"} if message is not None else {}
        sent |= {"MCP-Protocol-Version": self._revision} if self._revision else {}
        sent |= {"Mcp-Session-Id": self._session} if self._session else {}
        if is_stateless:
            params = message["params"]
            name = params.get("name", params.get("uri"))
            sent |= {"Mcp-Method": message["method"], "MCP-Protocol-Version": MODERN, "Mcp-Name": name}
        common: dict[str, Any] = {"at": self.at, "connection": connection}
        self.events.append(HttpRequest(number, method, target, _pairs(sent, headers), _content(message), **common))
        given: dict[str, str | None] = {}
        if stream is not None:
            given = {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
        elif reply is not None:
            given = {"Content-Type": "application/json"}
        self.events.append(HttpResponse(number, status, _pairs(given, answer), **common))
        if reply is not None:
            self.events.append(HttpBody(number, _content(reply), **common))
        for item in stream or ():
            fields = item if isinstance(item, dict) and "sse" in item else {"sse": item}
            self.events.append(
                HttpEvent(number, _content(fields["sse"]), fields.get("id"), fields.get("retry"), **common)
            )
        if end:
            self.events.append(HttpEnd(number, end, **common))  # type: ignore[arg-type]
        return self

    def post(self, message: Any, **more: Any) -> HttpRecording:
        return self.exchange("POST", message, **more)

    def get(self, **more: Any) -> HttpRecording:
        return self.exchange("GET", **more)

    def open(self, revision: str = "2025-11-25", session: str | None = "abc", **more: Any) -> HttpRecording:
        """Add a handshake. Later requests name the session and the revision."""
        opening, result, initialized = (message for _, message in handshake(revision, **more))
        self.post(opening, reply=result, answer={"Mcp-Session-Id": session})
        self._session, self._revision = session, revision
        return self.post(initialized, status=202)


def _content(value: Any) -> Content:
    """Return bytes as they are, None as no content, and any other value as JSON."""
    if value is None:
        return content(b"")
    return content(value if isinstance(value, bytes) else json.dumps(value).encode())


def _pairs(*headers: Mapping[str, str | None] | None) -> tuple[tuple[str, str], ...]:
    merged: dict[str, str | None] = {}
    for each in headers:
        merged |= each or {}
    return tuple((name, value) for name, value in merged.items() if value is not None)
