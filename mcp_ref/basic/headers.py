"""What a request of the stateless era says twice: in its body, and in the headers of its POST.

Whoever stands between client and server can then route and count requests without reading their bodies; and so that
nobody is fooled, a server refuses a request whose headers say something else than its body.

    MCP-Protocol-Version: 2026-07-28        _meta."io.modelcontextprotocol/protocolVersion"
    Mcp-Method: tools/call                  method
    Mcp-Name: execute_sql                   params.name, or params.uri of resources/read, params.taskId of tasks/...
    Mcp-Param-Region: us-west1              an argument that the tool's schema marks with x-mcp-header

Spec:  2026-07-28 basic/transports/streamable-http#request-metadata, server/tools#x-mcp-header
Above: basic/transports/http_alone.py, streamable_http_client.py, server/tools.py. All functions are pure
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

from ..jsonrpc.errors import ProtocolError
from ..jsonrpc.messages import JSON, Object, Request
from .versioning import HEADER_MISMATCH, PROTOCOL_VERSION

METHOD_HEADER: Final = "Mcp-Method"
NAME_HEADER: Final = "Mcp-Name"
PARAM_PREFIX: Final = "Mcp-Param-"

NAME_FIELDS: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""The methods whose name stands in a header, and the member that it is. For a task it leads to the process that runs
it."""

MAX_SAFE: Final = 2**53 - 1
"""The largest integer that a header carries, and without its sign the smallest."""

_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_PLAIN: Final = re.compile(r"[!-~]([ -~\t]*[!-~])?|")
_SENTINEL: Final = re.compile(r"=\?base64\?(.*)\?=", re.DOTALL)


class HeaderFields(Protocol):
    """The fields of a request's head."""

    def get_all(self, name: str) -> Sequence[str]:
        """All values of that name."""

    def __contains__(self, name: str) -> bool: ...


# ---------------------------------------------------------------------------------------------------- values


def encode_value(value: JSON) -> str:
    """How a string, integer or boolean is written in a header."""
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
    # [2026-07-28 basic/transports/streamable-http#value-encoding] MUST be Base64 where it is not plain ASCII
    if _PLAIN.fullmatch(text) and not (text.startswith("=?base64?") and text.endswith("?=")):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def decode_value(header: str) -> str:
    """What a header's value says. Raises ValueError for one that was encoded wrongly."""
    encoded = _SENTINEL.fullmatch(header.strip(" \t"))
    if encoded is None:
        if not _PLAIN.fullmatch(header.strip(" \t")):
            raise ValueError("it has other characters than visible ASCII, space and tab")
        return header.strip(" \t")
    try:
        data = base64.b64decode(encoded[1], validate=True)
        if base64.b64encode(data).decode() != encoded[1]:  # what differs is nothing that an encoder would write
            raise ValueError("there are bits that mean nothing")
        return data.decode()
    except ValueError as error:
        raise ValueError(f"its Base64 cannot be read: {error}") from None


# ---------------------------------------------------------------------------------------------------- parameters

ArgumentPath = tuple[str, ...]

ParameterHeaders = Callable[[str], dict[str, ArgumentPath]]
"""The headers that a tool's arguments go in, and the path to each argument, by the tool's name."""


def parameter_headers(schema: JSON) -> dict[str, ArgumentPath]:
    """The headers that a tool's input schema asks for: name -> path to the argument. Raises ValueError for wrong ones.

    [2026-07-28 basic/transports/streamable-http#schema-extension]
    """
    found: dict[str, ArgumentPath] = {}
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


def _properties(schema: JSON, path: ArgumentPath) -> Iterator[tuple[ArgumentPath, Object]]:
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


def argument_at(arguments: JSON, path: ArgumentPath) -> JSON:
    """The argument that a path leads to; None where there is none."""
    for name in path:
        arguments = arguments.get(name) if isinstance(arguments, dict) else None
    return arguments


def parameter_values(arguments: JSON, headers: dict[str, ArgumentPath]) -> list[tuple[str, str]]:
    """The headers for a call's arguments. Absent and null ones have none."""
    values = ((name, argument_at(arguments, path)) for name, path in headers.items())
    return [(f"{PARAM_PREFIX}{name}", encode_value(value)) for name, value in values if value is not None]


def _is_same(text: str, value: JSON) -> bool:
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):  # 42.0 is an integer in JSON
        # [2026-07-28 basic/transports/streamable-http#schema-extension] MUST be within the safe range
        is_integer = re.fullmatch(r"-?[0-9]{1,16}(\.0+)?", text) is not None and abs(value) <= MAX_SAFE
        # [2026-07-28 basic/transports/streamable-http#server-validation] SHOULD compare integers as numbers
        return is_integer and int(text.partition(".")[0]) == value
    return text == value


def mirrored_fields(request: Request) -> tuple[JSON, str, str | None]:
    """What a request's headers are to repeat: revision, method, and a name where the method has one."""
    meta = request.params.get("_meta")
    version = meta.get(PROTOCOL_VERSION) if isinstance(meta, dict) else None
    name = request.params.get(NAME_FIELDS.get(request.method, ""))
    return version, request.method, name if isinstance(name, str) else None


def request_headers(request: Request, parameters: ParameterHeaders) -> dict[str, str]:
    """The headers that repeat what a request says, for a client to send. [2026-07-28
    basic/transports/streamable-http#client-behavior]"""
    version, method, name = mirrored_fields(request)
    headers = {"MCP-Protocol-Version": str(version), METHOD_HEADER: method}
    if name is not None:
        headers[NAME_HEADER] = encode_value(name)
        if method == "tools/call":
            headers.update(parameter_values(request.params.get("arguments"), parameters(name)))
    return headers


# ---------------------------------------------------------------------------------------------------- checking


def header_mismatch(why: str) -> ProtocolError:
    """The error for headers that do not say what the body says."""
    return ProtocolError(HEADER_MISMATCH, f"Header mismatch: {why}")


def check_headers(headers: HeaderFields, said: tuple[JSON, str, str | None]) -> None:
    """The headers repeat what a request says. Raises ProtocolError."""
    version, method, name = said
    if version is not None:  # that it is missing is another error
        _check(headers, "MCP-Protocol-Version", version, encoded=False)
    _check(headers, METHOD_HEADER, method, encoded=False)
    if name is not None:
        _check(headers, NAME_HEADER, name)


def check_parameters(headers: HeaderFields, arguments: JSON, wanted: dict[str, ArgumentPath]) -> None:
    """The marked arguments of a call stand in its headers. Raises ProtocolError."""
    for name, path in wanted.items():
        value = argument_at(arguments, path)
        if value is not None:
            _check(headers, f"{PARAM_PREFIX}{name}", value)
        elif f"{PARAM_PREFIX}{name}" in headers:
            raise header_mismatch(f"{PARAM_PREFIX}{name} is there, but the argument is not")


def _check(headers: HeaderFields, name: str, value: JSON, encoded: bool = True) -> None:
    given = headers.get_all(name)
    if len(given) != 1:
        raise header_mismatch(f"{name} is {'missing' if not given else 'there more than once'}")
    try:
        text = decode_value(given[0]) if encoded else given[0].strip(" \t")
    except ValueError as error:
        raise header_mismatch(f"{name}: {error}") from None
    if not _is_same(text, value):
        raise header_mismatch(f"{name} is {text[:100]!r}, and the body says {str(value)[:100]!r}")
