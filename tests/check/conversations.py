"""Conversations for the tests of the judge, written as short lists.

A conversation over stdio is a list of messages: `c(...)` is of the client, `s(...)` of the server. Over HTTP it is a
list of exchanges: `post(...)`, `get(...)`. `judge` returns the names of the rules that it breaks.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mcp_ref.check.conversation import Conversation
from mcp_ref.check.recording import (
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


def c(id: Any = None, method: str = "", params: Any = None, **members: Any) -> tuple[Side, Any]:
    """Return a request of the client, a notification without `id`, or a response without `method`."""
    return "client", _message(id, method, params, members)


def s(id: Any = None, method: str = "", params: Any = None, **members: Any) -> tuple[Side, Any]:
    """Return the same of the server."""
    return "server", _message(id, method, params, members)


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
    return [
        c(0, "initialize", {"protocolVersion": revision, "capabilities": ALL_OF_CLIENT if client is None else client,
                            "clientInfo": {"name": "c", "version": "1"}}),
        s(0, result={"protocolVersion": revision, "capabilities": ALL_OF_SERVER if server is None else server,
                     "serverInfo": {"name": "s", "version": "1"}}),
        c(None, "notifications/initialized"),
    ]  # fmt: skip


ALL_OF_SERVER: dict[str, Any] = {
    "tools": {"listChanged": True}, "resources": {"subscribe": True, "listChanged": True}, "logging": {},
    "prompts": {"listChanged": True}, "completions": {},
    "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}},
}  # fmt: skip
ALL_OF_CLIENT: dict[str, Any] = {
    "roots": {"listChanged": True}, "sampling": {"tools": {}, "context": {}}, "elicitation": {"form": {}, "url": {}},
}  # fmt: skip


def meta(revision: str = MODERN, capabilities: Any = None, **more: Any) -> dict[str, Any]:
    """Return the params of a stateless request, with `more` members of `_meta`, as in `logLevel="debug"`."""
    fields = {"protocolVersion": revision, "clientInfo": {"name": "c", "version": "1"},
              "clientCapabilities": ALL_OF_CLIENT if capabilities is None else capabilities, **more}  # fmt: skip
    return {"_meta": {PREFIX + name: value for name, value in fields.items()}}


def m(id: Any, method: str, params: Any = None, **more: Any) -> tuple[Side, Any]:
    """Return a stateless request."""
    return c(id, method, {**(params or {}), **meta(**more)})


def done(id: Any, **members: Any) -> tuple[Side, Any]:
    """Return a complete result of a stateless request."""
    return s(
        id,
        result={"resultType": "complete", "_meta": {PREFIX + "serverInfo": {"name": "s", "version": "1"}}, **members},
    )


def page(id: Any, **members: Any) -> tuple[Side, Any]:
    """Return a complete, cacheable result."""
    return done(id, **{"ttlMs": 0, "cacheScope": "public", **members})


def frames(messages: Iterable[tuple[Side, Any]]) -> list[Event]:
    return [Frame(side, content(value if isinstance(value, bytes) else json.dumps(value).encode()), connection=1)
            for side, value in messages]  # fmt: skip


def findings(events: Sequence[Event], head: Head | None = STARTED) -> list[Finding]:
    conversation = Conversation(head=head)
    found = [finding for event in events for finding in conversation.receive(event)]
    return found + conversation.close()


def broken(events: Sequence[Event], head: Head | None = STARTED, advice: bool = False) -> list[str]:
    """Return the names of the broken rules."""
    found = findings(events, head)
    assert {finding.side for finding in found} <= {"client", "server"}
    return sorted(f.rule.name for f in found if advice or f.level != "advice")


class Web:
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
    ) -> Web:  # fmt: skip
        """Add an exchange. Headers with None are left out. `stream` has messages, or dicts with `sse` members."""
        number = next(self._numbers)
        stateless = isinstance(message, dict) and PREFIX + "protocolVersion" in str(message.get("params"))
        sent: dict[str, str | None] = {"Host": "a", "Accept": "application/json, text/event-stream"}
        sent |= {"Content-Type": "application/json"} if message is not None else {}
        sent |= {"MCP-Protocol-Version": self._revision} if self._revision else {}
        sent |= {"Mcp-Session-Id": self._session} if self._session else {}
        if stateless:
            params = message["params"]
            name = params.get("name", params.get("uri"))
            sent |= {"Mcp-Method": message["method"], "MCP-Protocol-Version": MODERN, "Mcp-Name": name}
        body = message if isinstance(message, bytes) else json.dumps(message).encode() if message is not None else b""
        self._add(HttpRequest(number, method, target, _pairs(sent, headers), content(body), **self._common(connection)))
        kind = (
            None if reply is None and stream is None else "application/json" if stream is None else "text/event-stream"
        )
        given: dict[str, str | None] = {"Content-Type": kind, "X-Accel-Buffering": "no" if stream is not None else None}
        self._add(HttpResponse(number, status, _pairs(given, answer), **self._common(connection)))
        if reply is not None:
            data = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
            self._add(HttpBody(number, content(data), **self._common(connection)))
        for item in stream or ():
            fields = item if isinstance(item, dict) and "sse" in item else {"sse": item}
            data = b"" if fields["sse"] is None else json.dumps(fields["sse"]).encode()
            self._add(
                HttpEvent(number, content(data), fields.get("id"), fields.get("retry"), **self._common(connection))
            )
        if end:
            self._add(HttpEnd(number, end, **self._common(connection)))  # type: ignore[arg-type]
        return self

    def _add(self, event: Event) -> None:
        self.events.append(event)

    def _common(self, connection: int) -> dict[str, Any]:
        return {"at": self.at, "connection": connection}

    def post(self, message: Any, **more: Any) -> Web:
        return self.exchange("POST", message, **more)

    def get(self, **more: Any) -> Web:
        return self.exchange("GET", **more)

    def open(self, revision: str = "2025-11-25", session: str | None = "abc", **more: Any) -> Web:
        """Add a handshake. Later requests name the session and the revision."""
        opening, result, initialized = (message for _, message in handshake(revision, **more))
        self.post(opening, reply=result, answer={"Mcp-Session-Id": session})
        self._session, self._revision = session, revision
        return self.post(initialized, status=202)


def _pairs(*headers: Mapping[str, str | None] | None) -> tuple[tuple[str, str], ...]:
    merged: dict[str, str | None] = {}
    for each in headers:
        merged |= each or {}
    return tuple((name, value) for name, value in merged.items() if value is not None)
