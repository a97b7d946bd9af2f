"""The HTTP headers of a stateless request that repeat fields of its body.

Thanks to them, gateways, load balancers and rate limiters can handle requests without reading bodies. But an attacker
could send `Mcp-Name: read_report`, which the gateway allows, and `delete_all` in the body. So a server MUST refuse a
request whose headers and body differ, with -32020 and HTTP 400. A gateway that relies on the headers SHOULD refuse
older revisions, whose servers do not compare them. [2026-07-28 basic/transports/streamable-http#server-validation]

    MCP-Protocol-Version: 2026-07-28        _meta."io.modelcontextprotocol/protocolVersion"
    Mcp-Method: tools/call                  method
    Mcp-Name: execute_sql                   params.name; for resources/read params.uri, for tasks/... params.taskId
    Mcp-Param-Region: us-west1              an argument whose property in the tool's input schema has x-mcp-header

A client MUST encode a value as `=?base64?...?=` if it is not plain ASCII, begins or ends with a space, or looks like an
encoded value. A client over HTTP MUST ignore a tool with an invalid `x-mcp-header`; over stdio, it MAY ignore the
annotation instead. After error -32020, a client SHOULD list the tools again and retry, because a schema may have
changed. Servers SHOULD NOT use `x-mcp-header` for passwords, tokens or personal data, which gateways could then read.

    2024-11-05, 2025-03-26  these headers do not exist
    2025-06-18, 2025-11-25  the client MUST send MCP-Protocol-Version with each request after `initialize`. If it is
                            missing, the server SHOULD assume 2025-03-26; if invalid, it responds with HTTP 400
    2026-07-28              the client MUST send MCP-Protocol-Version and Mcp-Method with each request, Mcp-Name for the
                            methods in `NAME_FIELDS`, and Mcp-Param-* for each argument with `x-mcp-header` that is not
                            null. Without MCP-Protocol-Version, the error is -32020; a server that also supports
                            legacy clients MAY assume 2025-03-26

Threats:
    header-smuggling: A client calls a tool that its gateway forbids, by naming an allowed tool in the headers and the
        forbidden one in the body. The server compares both and refuses the request.
    header-injection: A server or a model that chooses an argument changes the requests of other users with a line break
        in a value that becomes a header. The client sends such a value as Base64.
    header-flood: A hostile server blocks the client's event loop with a tool that has 16,000 annotated properties. The
        client looks each name up in a set, so twice as many properties take only twice the time.

Spec:  2026-07-28 basic/transports/streamable-http#request-metadata, server/tools#x-mcp-header
       [2025-06-18 basic/transports#protocol-version-header]
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from ..jsonrpc.errors import ProtocolError
from ..jsonrpc.messages import JSON, Object, Request
from .versioning import HEADER_MISMATCH, PROTOCOL_VERSION, read_required_meta

if TYPE_CHECKING:
    from ..lib.http.message import Headers

METHOD_HEADER: Final = "Mcp-Method"
NAME_HEADER: Final = "Mcp-Name"
PARAM_PREFIX: Final = "Mcp-Param-"

NAME_FIELDS: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri", "tasks/get": "taskId",
                      "tasks/update": "taskId", "tasks/cancel": "taskId"}  # fmt: skip
"""Method -> the params member that Mcp-Name repeats. By a task's id, a proxy can route to its process."""
MAX_SAFE_INTEGER: Final = 2**53 - 1
"""Maximum integer in a header (53 bits), because JavaScript rounds larger ones. The minimum is -(2**53 - 1)."""

_HEADER_NAME: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_PLAIN_VALUE: Final = re.compile(r"[!-~]([ -~\t]*[!-~])?|")
_ENCODED_VALUE: Final = re.compile(r"=\?base64\?(.*)\?=", re.DOTALL)


def encode_value(value: JSON) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    # [2026-07-28 basic/transports/streamable-http#value-encoding] the client MUST encode it if it is not plain ASCII
    is_name = text.isidentifier() and text.isascii()  # usual, and found faster than by the pattern
    if is_name or (_PLAIN_VALUE.fullmatch(text) and not (text.startswith("=?base64?") and text.endswith("?="))):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def decode_value(header: str) -> str:
    """Return the text of a header value. Raise ValueError for invalid characters or a wrong encoding."""
    text = header.strip(" \t")
    encoded = _ENCODED_VALUE.fullmatch(text)
    if encoded is None:
        if not _PLAIN_VALUE.fullmatch(text):
            raise ValueError("the value must have only visible ASCII characters, spaces and tabs")
        return text
    try:
        data = base64.b64decode(encoded[1], validate=True)
        if base64.b64encode(data).decode() != encoded[1]:  # a gateway compares texts, so each value has one encoding
            raise ValueError("the last character has unused bits")
        return data.decode()
    except ValueError as error:
        raise ValueError(f"invalid Base64: {error}") from None


ArgumentPath = tuple[str, ...]
ParameterHeaders = Mapping[str, dict[str, ArgumentPath]]  # the `parameter_headers` of tools, by the tool's name


def parameter_headers(schema: JSON) -> dict[str, ArgumentPath]:
    """Return the Mcp-Param headers of a tool: header name without `Mcp-Param-` -> path to the argument.

    Raise ValueError if an `x-mcp-header` breaks a rule. [2026-07-28 basic/transports/streamable-http#schema-extension]
    """
    found: dict[str, ArgumentPath] = {}
    used = set[str]()  # in lower case, because header names have no case
    for subschema, path in _annotated_schemas(schema, ()):
        name = subschema["x-mcp-header"]
        if not isinstance(name, str) or not re.fullmatch(_HEADER_NAME, name):
            raise ValueError(f"x-mcp-header must be a valid header name, not {str(name)[:80]!r}")
        if not path:
            raise ValueError(f"x-mcp-header {name!r} must be on an argument that is reached through `properties` only")
        if subschema.get("type") not in ("string", "integer", "boolean"):
            raise ValueError(f"x-mcp-header {name!r} must be on a string, an integer or a boolean")
        if name.lower() in used:
            raise ValueError(f"x-mcp-header {name!r} must not be used twice")
        used.add(name.lower())
        found[name] = path
    return found


def _annotated_schemas(value: JSON, path: ArgumentPath | None) -> Iterator[tuple[Object, ArgumentPath | None]]:
    """Yield each subschema with `x-mcp-header`, and its path; None if another keyword than `properties` leads to it."""
    if isinstance(value, list):
        for item in value:
            yield from _annotated_schemas(item, None)
    elif isinstance(value, dict):
        if "x-mcp-header" in value:
            yield value, path
        for keyword, inner in value.items():
            if keyword in ("const", "default", "enum", "examples", "x-mcp-header"):
                continue  # these keywords hold data, not schemas
            is_table = keyword in ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
            if is_table and isinstance(inner, dict):  # maps names to schemas
                parent = path if keyword == "properties" else None
                for name, subschema in inner.items():
                    yield from _annotated_schemas(subschema, None if parent is None else (*parent, name))
            else:
                yield from _annotated_schemas(inner, None)


def argument_at(arguments: JSON, path: ArgumentPath) -> JSON:
    for name in path:
        arguments = arguments.get(name) if isinstance(arguments, dict) else None
    return arguments


def parameter_values(arguments: JSON, paths: dict[str, ArgumentPath]) -> list[tuple[str, str]]:
    """Return the Mcp-Param headers of a call as (name, value). Skip absent and null arguments."""
    values = ((name, argument_at(arguments, path)) for name, path in paths.items())
    return [(f"{PARAM_PREFIX}{name}", encode_value(value)) for name, value in values if value is not None]


def _is_equal(text: str, value: JSON) -> bool:
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):  # JSON Schema: 42.0 is an integer
        integer = re.fullmatch(r"(-?[0-9]{1,16})(\.0+)?", text)  # `MAX_SAFE_INTEGER` has 16 digits
        # [2026-07-28 basic/transports/streamable-http#schema-extension] integers MUST be within the safe range
        if integer is None or abs(value) > MAX_SAFE_INTEGER:
            return False
        # [2026-07-28 basic/transports/streamable-http#server-validation] the server SHOULD compare them as numbers
        return int(integer[1]) == value
    return text == value


def mirrored_fields(request: Request) -> tuple[str, str, str | None]:
    """Return the fields that headers repeat: revision, method, and a name or None. Raise MalformedRequest."""
    _, version, _ = read_required_meta(request.params)
    return version, request.method, _name_in(request)


def _name_in(request: Request) -> str | None:
    field = NAME_FIELDS.get(request.method)
    name = request.params.get(field) if field is not None else None
    return name if isinstance(name, str) else None


def request_headers(request: Request, parameters: ParameterHeaders) -> dict[str, str]:
    """Return the headers that mirror a request. [2026-07-28 basic/transports/streamable-http#client-behavior]"""
    meta: dict[str, str] = request.params["_meta"]  # type: ignore[assignment]  # the client itself has written it
    headers, name = {"MCP-Protocol-Version": meta[PROTOCOL_VERSION], METHOD_HEADER: request.method}, _name_in(request)
    if name is not None:
        headers[NAME_HEADER] = encode_value(name)
        if request.method == "tools/call" and (paths := parameters.get(name)):
            headers.update(parameter_values(request.params.get("arguments"), paths))
    return headers


def header_mismatch(why: str) -> ProtocolError:
    return ProtocolError(HEADER_MISMATCH, f"Header mismatch: {why}")


def check_headers(headers: Headers, fields: tuple[str, str, str | None]) -> None:
    """Raise ProtocolError if the headers differ from the `mirrored_fields` of a request."""
    version, method, name = fields
    _check(headers, "MCP-Protocol-Version", version, may_be_encoded=False)
    _check(headers, METHOD_HEADER, method, may_be_encoded=False)
    if name is not None:
        _check(headers, NAME_HEADER, name)


def check_parameters(headers: Headers, arguments: JSON, paths: dict[str, ArgumentPath]) -> None:
    """Raise ProtocolError if the Mcp-Param headers differ from the arguments at the `paths` of `parameter_headers`."""
    for name, path in paths.items():
        value = argument_at(arguments, path)
        if value is not None:
            _check(headers, f"{PARAM_PREFIX}{name}", value)
        elif headers.get_all(f"{PARAM_PREFIX}{name}"):
            raise header_mismatch(f"{PARAM_PREFIX}{name} is present, but the body does not have this argument")


def _check(headers: Headers, name: str, value: JSON, may_be_encoded: bool = True) -> None:
    given = headers.get_all(name)
    if len(given) != 1:
        raise header_mismatch(f"{name} is {'missing' if not given else 'present more than once'}")
    try:
        text = decode_value(given[0]) if may_be_encoded else given[0].strip(" \t")
    except ValueError as error:
        raise header_mismatch(f"{name}: {error}") from None
    if not _is_equal(text, value):
        raise header_mismatch(f"{name} is {given[0][:100]!r}, but the body needs {encode_value(value)[:100]!r}")
