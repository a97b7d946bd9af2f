"""Streamable HTTP of the stateless era: a POST is a request, its response is the answer, and that is all.

No sessions, no GET, nothing to take up again. A client that closes the connection cancels its request. What a proxy may
want to know of the body stands in headers too, and must be the same there:

    MCP-Protocol-Version: 2026-07-28        _meta."io.modelcontextprotocol/protocolVersion"
    Mcp-Method: tools/call                  method
    Mcp-Name: execute_sql                   params.name, or params.uri of resources/read
    Mcp-Param-Region: us-west1              an argument that the tool's schema marks with x-mcp-header

Spec:  2026-07-28 basic/transports/streamable-http
Above: streamable_http.py, which tells the eras apart. Below: mcp_ref/http
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from ...http.message import Exchange, HeaderList, Headers
from ...http.message import Stream as Carrier
from ...http.sse import encode_comment, encode_event
from ...jsonrpc.errors import ProtocolError
from ...jsonrpc.messages import JSON, METHOD_NOT_FOUND, ErrorResponse, Notification, Object, Request, Response, encode
from ..versioning import (
    HEADER_MISMATCH,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    PROTOCOL_VERSION,
    UNSUPPORTED_PROTOCOL_VERSION,
    MalformedRequest,
)

METHOD_HEADER: Final = "Mcp-Method"
NAME_HEADER: Final = "Mcp-Name"
PARAM_PREFIX: Final = "Mcp-Param-"

NAMED: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The methods whose name stands in a header, and the member that it is."""

_BAD_REQUEST: Final = (HEADER_MISMATCH, MISSING_REQUIRED_CLIENT_CAPABILITY, UNSUPPORTED_PROTOCOL_VERSION)

MAX_SAFE: Final = 2**53 - 1
"""The largest integer that a header may carry."""

_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_PLAIN: Final = re.compile(r"[!-~]([ -~\t]*[!-~])?|")
_SENTINEL: Final = re.compile(r"=\?base64\?(.*)\?=", re.DOTALL)


# ---------------------------------------------------------------------------------------------------- values


def header_value(value: JSON) -> str:
    """How a string, integer or boolean is written in a header."""
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
    # [2026-07-28 basic/transports/streamable-http#value-encoding] MUST be Base64 where it is not plain ASCII
    if _PLAIN.fullmatch(text) and not _SENTINEL.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def text_of(header: str) -> str:
    """What a header's value says. Raises ValueError for one that was encoded wrongly."""
    encoded = _SENTINEL.fullmatch(header.strip(" \t"))
    if encoded is None:
        if not _PLAIN.fullmatch(header.strip(" \t")):
            raise ValueError("it has other characters than visible ASCII, space and tab")
        return header.strip(" \t")
    try:
        return base64.b64decode(encoded[1], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ValueError(f"its Base64 cannot be read: {error}") from None


# ---------------------------------------------------------------------------------------------------- parameters

Path = tuple[str, ...]


def parameter_headers(schema: JSON) -> dict[str, Path]:
    """The headers that a tool's input schema asks for: name -> path to the argument. Raises ValueError for wrong ones.

    [2026-07-28 basic/transports/streamable-http#schema-extension]
    """
    found: dict[str, Path] = {}
    allowed = {id(holder): path for path, holder in _properties(schema, ())}
    for holder in _annotated(schema):
        name, path = holder["x-mcp-header"], allowed.get(id(holder))
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise ValueError(f"x-mcp-header is the name of a header, not {str(name)[:80]!r}")
        if path is None:
            raise ValueError(f"x-mcp-header {name!r} is not on an argument that `properties` alone lead to")
        if holder.get("type") not in ("string", "integer", "boolean"):
            raise ValueError(f"x-mcp-header {name!r} is for a string, an integer or a boolean")
        if name.lower() in (known.lower() for known in found):
            raise ValueError(f"x-mcp-header {name!r} stands there twice")
        found[name] = path
    return found


def _properties(schema: JSON, path: Path) -> Iterator[tuple[Path, Object]]:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    for name, inner in properties.items() if isinstance(properties, dict) else ():
        if isinstance(inner, dict):
            yield (*path, name), inner
            yield from _properties(inner, (*path, name))


def _annotated(value: JSON) -> Iterator[Object]:
    """All objects with the annotation, wherever in a schema. What are values there, not schemas, is looked over."""
    if isinstance(value, list):
        for item in value:
            yield from _annotated(item)
    elif isinstance(value, dict):
        if "x-mcp-header" in value:
            yield value
        for keyword, inner in value.items():
            if keyword in ("const", "default", "enum", "examples", "x-mcp-header"):
                continue
            if keyword in ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"):
                inner = list(inner.values()) if isinstance(inner, dict) else inner
            yield from _annotated(inner)


def argument_at(arguments: JSON, path: Path) -> JSON:
    """The argument that a path leads to; None where there is none."""
    for name in path:
        arguments = arguments.get(name) if isinstance(arguments, dict) else None
    return arguments


def parameter_values(arguments: JSON, headers: dict[str, Path]) -> HeaderList:
    """The headers for a call's arguments. Absent and null ones have none."""
    values = ((name, argument_at(arguments, path)) for name, path in headers.items())
    return [(f"{PARAM_PREFIX}{name}", header_value(value)) for name, value in values if value is not None]


def _is_same(text: str, value: JSON) -> bool:
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    if isinstance(value, int):
        # [2026-07-28 basic/transports/streamable-http#server-validation] SHOULD compare integers as numbers
        return re.fullmatch(r"-?\d{1,16}(\.0+)?", text) is not None and int(text.partition(".")[0]) == value
    return text == value


# ---------------------------------------------------------------------------------------------------- checking


def mismatch(why: str) -> ProtocolError:
    """The error for headers that do not say what the body says."""
    return ProtocolError(HEADER_MISMATCH, f"Header mismatch: {why}")


def check_headers(headers: Headers, request: Request) -> None:
    """What every request says twice is the same. Raises ProtocolError."""
    meta = request.params.get("_meta")
    version = meta.get(PROTOCOL_VERSION) if isinstance(meta, dict) else None
    if version is not None:  # that it is missing is another error
        _check(headers, "MCP-Protocol-Version", version, encoded=False)
    _check(headers, METHOD_HEADER, request.method, encoded=False)
    member = NAMED.get(request.method)
    if member is not None and isinstance(request.params.get(member), str):
        _check(headers, NAME_HEADER, request.params[member])


def check_parameters(headers: Headers, arguments: JSON, wanted: dict[str, Path]) -> None:
    """The marked arguments of a call stand in its headers. Raises ProtocolError."""
    for name, path in wanted.items():
        value = argument_at(arguments, path)
        if value is not None:
            _check(headers, f"{PARAM_PREFIX}{name}", value)
        elif f"{PARAM_PREFIX}{name}" in headers:
            raise mismatch(f"{PARAM_PREFIX}{name} is there, but the argument is not")


def _check(headers: Headers, name: str, value: JSON, encoded: bool = True) -> None:
    given = headers.get_all(name)
    if len(given) != 1:
        raise mismatch(f"{name} is {'missing' if not given else 'there more than once'}")
    try:
        text = text_of(given[0]) if encoded else given[0].strip(" \t")
    except ValueError as error:
        raise mismatch(f"{name}: {error}") from None
    if not _is_same(text, value):
        raise mismatch(f"{name} is {text[:100]!r}, and the body says {str(value)[:100]!r}")


def status_of(error: ProtocolError) -> int:
    """The HTTP status of an error that is the whole response."""
    if error.code == METHOD_NOT_FOUND:
        return 404  # [2026-07-28 basic/transports/streamable-http#protocol-version-header] MUST be 404
    return 400 if error.code in _BAD_REQUEST or isinstance(error, MalformedRequest) else 200


# ---------------------------------------------------------------------------------------------------- one request

Tell = Callable[[str, Object], None]
Answer = Callable[[Tell, Callable[[], Awaitable[None]]], Awaitable[Object]]
"""Serves a request, given ways to send notifications and to wait until the client takes them; gives its result."""


class Post:
    """One request and its response: JSON, or events if there is something to say before the answer."""

    def __init__(self, exchange: Exchange, request: Request, headers: HeaderList, sse_headers: HeaderList) -> None:
        self._exchange = exchange
        self._request = request
        self._headers = headers
        self._sse_headers = sse_headers
        self._carrier: Carrier | None = None
        self._waiting: list[bytes] = []
        self._told = asyncio.Event()

    async def serve(self, answer: Answer, takes_sse: bool) -> None:
        """Serve it. The client's leaving is its cancellation."""
        tell = self._tell if takes_sse else _say_nothing
        serving = asyncio.ensure_future(answer(tell, self._drain))
        told = asyncio.ensure_future(self._told.wait())
        gone = self._exchange.gone()
        try:
            await asyncio.wait([serving, told, gone], return_when=asyncio.FIRST_COMPLETED)
            if not serving.done() and not gone.done():
                self._carrier = await self._exchange.stream(200, [*self._sse_headers, *self._headers])
                for piece in self._waiting:
                    self._carrier.write(piece)
                await asyncio.wait([serving, self._carrier.gone], return_when=asyncio.FIRST_COMPLETED)
        finally:
            # [2026-07-28 basic/transports/streamable-http#cancellation] MUST be treated as cancellation
            told.cancel()
            left = serving.cancel()
            await asyncio.wait([serving, told])
        if not left:
            await self._respond(serving)

    async def _respond(self, serving: asyncio.Future[Object]) -> None:
        status = 200
        try:
            frame = encode(Response(self._request.id, serving.result()))
        except ProtocolError as error:
            status = status_of(error)
            frame = encode(ErrorResponse(self._request.id, error.to_error()))
        if self._carrier is None and not self._waiting:
            json_type = ("Content-Type", "application/json")
            return await self._exchange.respond(status, [json_type, *self._headers], frame)
        if self._carrier is None:
            self._carrier = await self._exchange.stream(200, [*self._sse_headers, *self._headers])
            for piece in self._waiting:
                self._carrier.write(piece)
        self._carrier.write(encode_event(frame))
        self._carrier.close()

    def _tell(self, method: str, params: Object) -> None:
        piece = encode_event(encode(Notification(method, params)))
        if self._carrier is None:
            self._waiting.append(piece)
            self._told.set()
        else:
            self._carrier.write(piece)

    async def _drain(self) -> None:
        if self._carrier is not None:
            await self._carrier.drain()
        else:
            await asyncio.sleep(0)

    def keep_alive(self) -> None:
        """Show that we are there."""
        if self._carrier is not None:
            self._carrier.write(encode_comment())


def _say_nothing(method: str, params: Object) -> None:
    """For a client that takes JSON alone."""
