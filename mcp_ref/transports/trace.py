"""The trace: messages and HTTP heads (start line and headers), one line each, on standard error.

    12:00:01.234  2025-11-25  ->  {"jsonrpc":"2.0","id":1,"method":"ping"}
    12:00:01.234  2026-07-28  ->  POST /mcp  MCP-Protocol-Version: 2026-07-28  Mcp-Method: tools/call  Mcp-Name: add

"->" marks a message that this program sends, and "<-" one that it receives; in the code, the bytes of one message are a
frame. The trace shows "***" for values whose names suggest secrets, and escapes for control characters. Of the headers,
it shows `SHOWN_HEADERS` and the names of `Mcp-Param-...`, and a head may come before or after the messages in its body.
If a frame is not JSON, such as the output of a `print`, only its start is shown, up to a word that suggests a secret.

To switch the trace on, use `--trace` on the command line, or set MCP_REF_TRACE=1 in the environment, or pass `tracer()`
as the `trace` of a `Server` or `Client`. With MCP_REF_TRACE=talk.jsonl, it is a recording instead (recorded.py).

Threats:
    trace-secrets: A reader of the trace finds passwords and tokens under their names, inside an object, as numbers, or
        beside their names in a pair. The trace shows "***" instead.
    trace-escapes: A hostile peer manipulates the operator's terminal with escape sequences in a frame, a header or the
        revision that it names. The trace shows every hidden character as an escape.

This module imports only types from lib/http, because a stdio server would otherwise load the HTTP library.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Final, ParamSpec, Protocol, TextIO, TypeGuard, Unpack

from ..basic.versioning import PROTOCOL_VERSION
from ..jsonrpc.messages import JSON, Object
from ..lib.text import escape_hidden
from .base import Direction, Trace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ..lib.http.client import HttpClient, HttpSender, RequestOptions
    from ..lib.http.message import Exchange, HeaderList, HttpRequest, StreamingResponse
    from ..lib.http.response import HttpResponse

log = logging.getLogger(__name__)
P = ParamSpec("P")

SECRET_NAMES = ("authorization", "password", "passwd", "passphrase", "secret", "token", "apikey", "privatekey",
                "cookie", "credential", "codeverifier")  # fmt: skip
"""Words that mark secrets, in names without their separators. If a name contains one, the trace shows "***" instead of
the member or header."""
_HARMLESS_NAMES = (  # they contain "token", but no secret
    "progresstoken", "maxtokens", "inputtokens", "outputtokens", "token_type", "token_endpoint",
    "token_endpoint_auth_method", "token_endpoint_auth_methods_supported",
)  # fmt: skip
_SCHEMAS = ("inputSchema", "outputSchema", "requestedSchema")
"""The members that hold a JSON Schema. A schema describes secrets, but contains them only under `_VALUE_KEYWORDS`."""
_TABLE_KEYWORDS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
"""The keywords of JSON Schema that map names to schemas."""
_VALUE_KEYWORDS = ("default", "const", "enum", "examples")
_NAME_MEMBERS = ("name", "key", "header", "field", "id", "parameter")
_VALUE_MEMBERS = ("value", "values", "val", "default")
"""The members that hold name and value in a pair such as `{"name": "Authorization", "value": "Bearer ..."}`."""
_CREDENTIALS = re.compile(r"\b(Bearer|Basic|DPoP)[ \t]+[^\s\"']+", re.IGNORECASE)
"""The value of an `Authorization` header: its scheme, and the secret."""
_SEPARATORS = re.compile("[-_. ]+")

_PASSWORD = re.compile(r"(?<=://)([^/?#@:\s\"'<>]*):[^/?#\s\"'<>]+@")
"""The user and the password in a URL, such as that of a database."""

_SECRET = re.compile("|".join(SECRET_NAMES), re.IGNORECASE)
_QUERY = re.compile(r"(?<=[?&#])([^?&=\s\"]{1,200})=([^&#\s\"]+)")
"""A parameter of a URL's query or fragment: its name and its value."""
_ASSIGNMENT = re.compile(r"\b([A-Za-z][\w-]{0,99})=([^\s,;&\"'<>]+)")
"""A variable in a text, such as `API_KEY=...`: its name and its value."""
_PERCENT = re.compile("%([0-9A-Fa-f]{2})")
_QUERY_SECRETS = ("code", "device_code", "assertion", "client_assertion", "key", "auth", "sig", "signature")
"""The parameters of OAuth and of signed URLs that are secrets, although no word in their names says so."""

MAX_SHOWN = 4000
"""Maximum length of a frame or head in the trace, in characters. The rest is cut off."""
MAX_SHOWN_UNREADABLE = 200
"""Maximum size of the part of a frame that is not JSON in the trace, in bytes."""
SHOWN_HEADERS: Final = frozenset(
    {"content-type", "last-event-id", "mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id"}
)
"""The headers that the trace shows, in addition to the names of `Mcp-Param-...`."""


class Tracer:
    """A trace that writes one line for each frame and each HTTP head."""

    def __init__(self, out: TextIO | None = None, color: bool | None = None) -> None:
        self._out, self._color = out, color
        self._revision = "-"

    def __call__(self, direction: Direction, frame: bytes) -> None:
        """Write a line for a frame."""
        try:
            value = json.loads(frame)
            self._revision = _revision_in(value) or self._revision
            text = json.dumps(redact(value), ensure_ascii=False)
        except (ValueError, RecursionError) as error:
            start = frame[:MAX_SHOWN_UNREADABLE].decode("utf-8", "backslashreplace")
            found = _SECRET.search(start)
            if found is not None:
                start = f"{start[: found.end()]}***"
            unit = "byte" if len(frame) == 1 else "bytes"
            text = f"(not JSON, {len(frame)} {unit}: {error}) {start}"
        self._write(direction, text)

    def head(self, direction: Direction, line: str, headers: Iterable[tuple[str, str]]) -> None:
        """Write a line for an HTTP head. `line` is the start of the head: "POST /mcp" or "200"."""
        fields = [f"{name}: {'***' if _SECRET.search(name) else value}" for name, value in headers]
        self._write(direction, "  ".join([line, *fields]))

    def _write(self, direction: Direction, text: str) -> None:
        stream = self._out or sys.stderr
        if len(text) > MAX_SHOWN:
            text = f"{text[:MAX_SHOWN]}... ({len(text)} characters)"
        now = time.time()
        clock = f"{time.strftime('%H:%M:%S', time.localtime(now))}.{int(now * 1000) % 1000:03d}"
        paint = stream.isatty() if self._color is None else self._color
        green_or_cyan = "32" if direction == "->" else "36"
        arrow = f"\x1b[{green_or_cyan}m{direction}\x1b[0m" if paint else direction
        revision, shown = escape_hidden(self._revision, keep=""), escape_hidden(text, keep="")
        with contextlib.suppress(OSError):  # the conversation goes on if nobody reads the trace, or the disk is full
            stream.write(f"{clock}  {revision:<10}  {arrow}  {shown}\n")


def tracer(out: TextIO | None = None, color: bool | None = None) -> Tracer:
    """Return a trace for the `trace` parameter of a `Server` or `Client`.

    Each line shows the revision that the latest `_meta` or handshake named; "-" if none.

    Args:
        out: The stream to write to. Default: standard error.
        color: True to color the arrows. Default: True if `out` is a terminal.
    """
    return Tracer(out, color)


def redact(value: JSON) -> JSON:
    """Return a copy with "***" for each value whose name suggests a secret, including in pairs of name and value."""
    if isinstance(value, str):
        return _redact_text(value)
    if isinstance(value, list):
        if len(value) == 2 and isinstance(value[1], str) and suggests_secret(value[0]):
            return [value[0], "***"]
        return [redact(item) for item in value]
    if not isinstance(value, dict):
        return value
    names_secret = any(name.lower() in _NAME_MEMBERS and suggests_secret(member) for name, member in value.items())
    shown: Object = {}
    for name, member in value.items():
        if _is_secret(name, member) or (names_secret and name.lower() in _VALUE_MEMBERS):
            shown[name] = "***"
        else:
            shown[name] = _redact_schema(member, is_secret=False) if name in _SCHEMAS else redact(member)
    return shown


def _redact_text(text: str) -> str:
    # Tools often repeat their structured content as JSON in a text.
    if text.lstrip().startswith(("{", "[")) and _SECRET.search(_SEPARATORS.sub("", text)):
        with contextlib.suppress(ValueError):
            value = json.loads(text)
            shown = redact(value)
            if shown != value:
                return json.dumps(shown, ensure_ascii=False)
    text = _CREDENTIALS.sub(r"\1 ***", text)
    text = _PASSWORD.sub(r"\1:***@", text)
    text = redact_query(text)
    if "=" not in text:
        return text
    return _ASSIGNMENT.sub(lambda found: f"{found[1]}=***" if suggests_secret(found[1]) else found[0], text)


def redact_query(text: str) -> str:
    """Return a text with "***" instead of each secret in the query of a URL, such as `?token=...`."""
    if "=" not in text:
        return text
    return _QUERY.sub(lambda found: f"{found[1]}=***" if is_query_secret(found[1]) else found[0], text)


def is_query_secret(name: str) -> bool:
    """Return True if the parameter of a query or of a form holds a secret."""
    name = _PERCENT.sub(lambda found: chr(int(found[1], 16)), name)
    return name.lower() in _QUERY_SECRETS or suggests_secret(name)


def _redact_schema(schema: JSON, is_secret: bool) -> JSON:
    """Return a schema that still describes secrets, but has no default or example of one.

    Args:
        schema: The schema, or the value of one of its keywords.
        is_secret: True if the value that the schema describes is a secret.
    """
    if isinstance(schema, list):
        return [_redact_schema(item, is_secret) for item in schema]
    if not isinstance(schema, dict):
        return redact(schema)
    return {name: _redact_keyword(name, member, is_secret) for name, member in schema.items()}


def _redact_keyword(name: str, member: JSON, is_secret: bool) -> JSON:
    if name in _TABLE_KEYWORDS and isinstance(member, dict):
        return {key: _redact_property(key, schema) for key, schema in member.items()}
    if _is_secret(name, member) or (is_secret and name in _VALUE_KEYWORDS):
        return "***"
    return _redact_schema(member, is_secret)


def _redact_property(name: str, schema: JSON) -> JSON:
    if suggests_secret(name) and not isinstance(schema, dict | bool):
        return "***"  # not a schema
    return _redact_schema(schema, suggests_secret(name))


def _is_secret(name: str, member: JSON) -> bool:
    return suggests_secret(name) and member is not None and not isinstance(member, bool)


def suggests_secret(name: JSON) -> bool:
    """Return True if a value under this name may be a secret."""
    if not isinstance(name, str) or len(name) > MAX_SHOWN_UNREADABLE:
        return False
    return _SECRET.search(_SEPARATORS.sub("", name)) is not None and name.lower() not in _HARMLESS_NAMES


def _revision_in(value: JSON) -> str | None:
    """Return the revision that a message names, or None. Return "-" for `initialize`: no revision is agreed yet."""
    if not isinstance(value, dict):
        return None
    params, result = value.get("params"), value.get("result")
    meta = params.get("_meta") if isinstance(params, dict) else None
    version = meta.get(PROTOCOL_VERSION) if isinstance(meta, dict) else None
    if version is None and isinstance(result, dict):
        version = result.get("protocolVersion")
    if version is None and value.get("method") == "initialize":
        return "-"
    return version[:10] if isinstance(version, str) else None


class HeadTrace(Protocol):
    """A trace that logs HTTP heads too."""

    def __call__(self, direction: Direction, frame: bytes, /) -> None:
        """Log a frame."""

    def head(self, direction: Direction, line: str, headers: Iterable[tuple[str, str]], /) -> None:
        """Log a head. `line` is the start of the head: "POST /mcp" or "200"."""


def is_head_trace(trace: Trace | None) -> TypeGuard[HeadTrace]:
    """Return True if the trace has a method `head`."""
    return hasattr(trace, "head")


def guarded_trace(trace: Trace) -> Trace:
    """Return a trace that logs the exceptions of another one, because a message must arrive even if its trace fails."""
    guarded = _guarded(trace)
    if is_head_trace(trace):
        guarded.head = _guarded(trace.head)  # type: ignore[attr-defined]  # so that `is_head_trace` is true again
    return guarded


def _guarded(function: Callable[P, None]) -> Callable[P, None]:
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            function(*args, **kwargs)
        except Exception:
            log.exception("the trace failed, so it lacks a message or a head")

    return guarded


def _shown_headers(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    shown = []
    for name, value in headers:
        if name.lower() in SHOWN_HEADERS:
            shown.append((name, value))
        elif name.lower().startswith("mcp-param-"):  # a server chooses its name, which need not suggest a secret
            shown.append((name, "***"))
    return shown


class TracedHttpClient:
    """An HTTP client that traces the heads of its requests and responses."""

    def __init__(self, http: HttpClient, trace: HeadTrace) -> None:
        self._http, self._trace = http, trace

    def request(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, body: bytes = b"", /,
        **options: Unpack[RequestOptions],
    ) -> AbstractAsyncContextManager[HttpResponse]:  # fmt: skip
        """Make a request. Trace the head now, before the caller traces the message in the body."""
        _, _, host_and_path = url.partition("?")[0].partition("://")  # without the query, which may hold a secret
        _, _, path = host_and_path.partition("/")
        self._trace.head("->", f"{method} /{path}", _shown_headers((headers or {}).items()))
        return self._request(method, url, headers, body, options)

    @asynccontextmanager
    async def _request(
        self, method: str, url: str, headers: Mapping[str, str] | None, body: bytes, options: RequestOptions
    ) -> AsyncIterator[HttpResponse]:
        async with self._http.request(method, url, headers, body, **options) as response:
            self._trace.head("<-", str(response.status), _shown_headers(response.headers))
            yield response

    async def close(self) -> None:
        await self._http.close()


def traced_http_client(http: HttpClient, trace: Trace | None) -> HttpSender:
    """Return a client that traces heads if the trace has a method `head`, else the given client."""
    return TracedHttpClient(http, trace) if is_head_trace(trace) else http


class TracedExchange:
    """An HTTP request on the server, and its response. The trace shows the heads of both."""

    def __init__(self, exchange: Exchange, trace: HeadTrace) -> None:
        self.request: HttpRequest = exchange.request
        self.read_body, self.take_body, self.forget_body = exchange.read_body, exchange.take_body, exchange.forget_body
        self.on_disconnect, self.respond_later = exchange.on_disconnect, exchange.respond_later
        self._exchange, self._trace = exchange, trace
        trace.head("<-", f"{self.request.method} {self.request.path}", _shown_headers(self.request.headers))

    def respond(self, status: int, headers: HeaderList, body: bytes) -> None:
        self._trace.head("->", str(status), _shown_headers(headers))
        self._exchange.respond(status, headers, body)

    def stream(self, status: int, headers: HeaderList) -> StreamingResponse:
        self._trace.head("->", str(status), _shown_headers(headers))
        return self._exchange.stream(status, headers)


def traced_exchange(exchange: Exchange, trace: Trace | None) -> Exchange:
    """Return an exchange that traces heads if the trace has a method `head`, else the given exchange."""
    return TracedExchange(exchange, trace) if is_head_trace(trace) else exchange
