"""Headers that repeat the body: their encoding, and the check that header and body are equal."""

from __future__ import annotations

import asyncio
import base64
import json
import sys

import pytest

from mcp_ref import Server, TextContent
from mcp_ref.basic.headers import (
    MAX_SAFE_INTEGER,
    ArgumentPath,
    argument_at,
    check_parameters,
    decode_value,
    encode_value,
    parameter_headers,
    parameter_values,
)
from mcp_ref.basic.versioning import HEADER_MISMATCH
from mcp_ref.jsonrpc.errors import ProtocolError
from mcp_ref.jsonrpc.messages import INVALID_PARAMS, JSON, Object
from mcp_ref.lib.http.message import Headers
from tests.messages import error_of, request, result_of, stateless_request
from tests.raw_http_client import BOTH_TYPES, JSON_TYPE, RawSession, Reply, ServedApp, served_over_http
from tests.settings import MODERN, PATIENCE

MISMATCH = -32020

ENCODED: dict[str, str] = {
    "us-west1": "us-west1",
    "Hello, \u4e16\u754c": "=?base64?SGVsbG8sIOS4lueVjA==?=",
    " padded ": "=?base64?IHBhZGRlZCA=?=",
    "line1\nline2": "=?base64?bGluZTEKbGluZTI=?=",
    "=?base64?literal?=": "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=",
}
"""The examples of the spec."""


def encoded(text: str) -> str:
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


# ------------------------------------------------------------------------------------------------ values


@pytest.mark.parametrize(("text", "header"), ENCODED.items())
@pytest.mark.spec("2026-07-28/basic/transports/streamable-http#value-encoding-1,2,6")
def test_encode_value_writes_base64_for_other_than_plain_ascii(text: str, header: str) -> None:
    assert encode_value(text) == header
    assert decode_value(header) == text


@pytest.mark.parametrize(
    "text",
    [
        "", "a", "a b", "a\tb", "~!", "\t", " ", "a ", " a", "\x7f", "\x00", "\r", "a\r\nX: y", "\u00e9", "\u00a0",
        "\u0085", "\U0001f600", "x" * 5000, "=?BASE64?x?=", "=?base64?x", "x?=", "=?base64?=", "=?base64??=",
    ],
)  # fmt: skip
@pytest.mark.attack("header-injection")
def test_encode_value_of_any_text_decodes_to_it_and_is_plain_ascii(text: str) -> None:
    header = encode_value(text)
    assert decode_value(header) == text
    assert all(" " <= character <= "~" or character == "\t" for character in header)
    assert header == header.strip(" \t")
    if text.startswith("=?base64?") and text.endswith("?="):
        assert header != text


@pytest.mark.parametrize(
    ("value", "header"),
    [(42, "42"), (-7, "-7"), (0, "0"), (MAX_SAFE_INTEGER, "9007199254740991"), (True, "true"), (False, "false")],
)
def test_encode_value_writes_integers_in_decimals_and_booleans_in_lower_case(value: JSON, header: str) -> None:
    assert encode_value(value) == header


@pytest.mark.parametrize(
    "header", ["=?BASE64?SGk=?=", "=?Base64?SGk=?=", "=?base64?SGk=", "base64?SGk=?=", "=?base64?="]
)
@pytest.mark.spec("2026-07-28/basic/transports/streamable-http#value-encoding-3")
def test_decode_value_takes_markers_in_another_case_or_incomplete_literally(header: str) -> None:
    assert decode_value(header) == header


@pytest.mark.parametrize(
    "inner",
    [
        "SGk", "SGk==", "SGl=", "S Gk=", "SGk=\n", "SG_k", "SG-k", "%%%%", "=", "/w==", "7aCA", "SGk\u00e9", "?",
        "SGk=SGk=",
    ],
)  # fmt: skip
def test_decode_value_reads_base64_strictly(inner: str) -> None:
    with pytest.raises(ValueError, match="Base64"):
        decode_value(f"=?base64?{inner}?=")


@pytest.mark.parametrize("header", ["\u00e9", "a\x00b", "a\x7f", "a\nb", "\x0b"])
def test_decode_value_other_than_plain_ascii_is_an_error(header: str) -> None:
    with pytest.raises(ValueError, match="visible ASCII"):
        decode_value(header)


def test_decode_value_ignores_blanks_around() -> None:
    assert decode_value(" \ta b\t ") == "a b"
    assert decode_value(" =?base64?SGk=?= ") == "Hi"


# ------------------------------------------------------------------------------------------------ schemas


def schema(**properties: JSON) -> Object:
    return {"type": "object", "properties": properties}


def marked(name: JSON, kind: JSON = "string", **more: JSON) -> Object:
    return {"type": kind, "x-mcp-header": name, **more}


def test_parameter_headers_finds_marked_arguments_at_any_depth_of_properties() -> None:
    inner = schema(zone=marked("Zone", "integer"), on=marked("On", "boolean"), other={"type": "string"})
    found = parameter_headers(schema(region=marked("Region"), place=inner, **{"x-mcp-header": marked("Own")}))
    assert found.pop("Own") == ("x-mcp-header",)  # an argument of that name
    assert found == {"Region": ("region",), "Zone": ("place", "zone"), "On": ("place", "on")}
    arguments: Object = {"region": "us", "place": {"zone": 3, "on": False}}
    assert [argument_at(arguments, path) for path in found.values()] == ["us", 3, False]
    values = {"Mcp-Param-Region": "us", "Mcp-Param-Zone": "3", "Mcp-Param-On": "false"}
    assert parameter_values(arguments, found) == [*values.items()]


@pytest.mark.parametrize(
    "arguments", [None, {}, {"place": None}, {"place": 3}, {"place": [1]}, {"place": {"zone": None}}]
)
def test_parameter_values_skip_absent_and_null_arguments(arguments: JSON) -> None:
    assert parameter_values(arguments, {"Zone": ("place", "zone")}) == []


def test_parameter_headers_ignores_marks_inside_data_keywords() -> None:
    value: JSON = {"x-mcp-header": "X"}
    for word in ("default", "const"):
        assert parameter_headers(schema(a={"type": "object", word: value})) == {}
    for word in ("enum", "examples"):
        assert parameter_headers(schema(a={"type": "object", word: [value]})) == {}
    assert parameter_headers(True) == {}


@pytest.mark.parametrize(
    "name", ["", " ", "a b", "a:b", "a\r\nb", "\x00", "a\x7f", "\u00e9", "a/b", "(a)", 3, None, ["a"], {"a": "b"}, True]
)
@pytest.mark.spec(
    "2026-07-28/basic/transports/streamable-http#schema-extension-1,2,3", "2026-07-28/server/tools#x-mcp-header-1,2,3"
)
def test_parameter_headers_mark_must_be_a_header_name(name: JSON) -> None:
    with pytest.raises(ValueError, match="must be a valid header name"):
        parameter_headers(schema(a=marked(name)))


@pytest.mark.spec(
    "2026-07-28/basic/transports/streamable-http#schema-extension-4", "2026-07-28/server/tools#x-mcp-header-4"
)
def test_parameter_headers_same_mark_on_two_arguments_is_refused() -> None:
    for again in ("Region", "REGION", "region"):
        with pytest.raises(ValueError, match="twice"):
            parameter_headers(schema(a=marked("Region"), b=schema(c=marked(again))))
    one = marked("Region")
    with pytest.raises(ValueError, match="twice"):
        parameter_headers(schema(a=one, b=one))


@pytest.mark.attack("header-flood")
def test_parameter_headers_of_thousands_of_properties_need_one_look_at_each() -> None:
    def schema(size: int) -> Object:
        return {"properties": {f"p{n}": {"type": "string", "x-mcp-header": f"H{n}"} for n in range(size)}}

    def calls(size: int) -> int:
        made, value = 0, schema(size)

        def count(frame: object, event: str, argument: object) -> None:
            nonlocal made
            made += 1

        sys.setprofile(count)
        try:
            parameter_headers(value)
        finally:
            sys.setprofile(None)
        return made

    assert calls(800) < 2.1 * calls(400)


@pytest.mark.parametrize("kind", ["number", "object", "array", "null", None, ["string", "null"], ["string"], 3])
@pytest.mark.spec(
    "2026-07-28/basic/transports/streamable-http#schema-extension-5", "2026-07-28/server/tools#x-mcp-header-5"
)
def test_parameter_headers_only_for_strings_integers_and_booleans(kind: JSON) -> None:
    with pytest.raises(ValueError, match="on a string, an integer or a boolean"):
        parameter_headers(schema(a=marked("A", kind)))


@pytest.mark.parametrize(
    "place",
    [
        lambda inner: {"a": {"type": "array", "items": inner}},
        lambda inner: {"a": {"type": "array", "prefixItems": [inner]}},
        lambda inner: {"a": {"contains": inner}},
        lambda inner: {"a": {"additionalProperties": inner}},
        lambda inner: {"a": {"patternProperties": {"const": inner}}},
        lambda inner: {"a": {"anyOf": [inner]}},
        lambda inner: {"a": {"oneOf": [{"properties": {"b": inner}}]}},
        lambda inner: {"a": {"allOf": [inner, {}]}},
        lambda inner: {"a": {"not": inner}},
        lambda inner: {"a": {"if": inner}},
        lambda inner: {"a": {"then": inner}},
        lambda inner: {"a": {"else": {"properties": {"b": inner}}}},
        lambda inner: {"a": {"$ref": "#/properties/a/$defs/x", "$defs": {"x": inner, "default": inner}}},
        lambda inner: {"a": {"dependentSchemas": {"enum": inner}}},
        lambda inner: {"a": {"definitions": {"examples": inner}}},
        lambda inner: {"a": {"properties": [inner]}},
    ],
)
@pytest.mark.spec(
    "2026-07-28/basic/transports/streamable-http#schema-extension-7,8", "2026-07-28/server/tools#x-mcp-header-7"
)
def test_parameter_headers_only_along_properties(place: object) -> None:
    with pytest.raises(ValueError, match="reached through `properties` only"):
        parameter_headers(schema(**place(marked("A"))))  # type: ignore[operator]


def test_parameter_headers_mark_on_the_schema_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="reached through `properties` only"):
        parameter_headers({**schema(), "x-mcp-header": "A"})


def test_add_tool_with_invalid_mark_is_refused() -> None:
    server = Server("s")
    with pytest.raises(ValueError, match="must be a valid header name"):
        server.tool("t", input_schema=schema(a=marked("")))(lambda a: a)
    assert not server.catalog.tools.parameter_headers("t")


# ------------------------------------------------------------------------------------------------ comparing

WANTED: dict[str, ArgumentPath] = {"V": ("v",)}


def agrees(value: JSON, *headers: str) -> bool:
    try:
        check_parameters(Headers([("Mcp-Param-V", header) for header in headers]), {"v": value}, WANTED)
    except ProtocolError as error:
        assert error.code == MISMATCH
        return False
    return True


@pytest.mark.parametrize("header", ["42", "42.0", "42.000", " 42 ", "042", encoded("42")])
@pytest.mark.parametrize("value", [42, 42.0])
@pytest.mark.spec("2026-07-28/basic/transports/streamable-http#server-validation-2")
def test_check_parameters_compares_integers_as_numbers(header: str, value: JSON) -> None:
    assert agrees(value, header)


@pytest.mark.parametrize(
    "header", ["43", "42.5", "4.2e1", "0x2a", "+42", "", "x", "42.", ".42", "\u0664\u0662", "true"]
)
def test_check_parameters_other_number_or_none_is_header_mismatch(header: str) -> None:
    assert not agrees(42, header)
    assert not agrees(42, encoded(header))


@pytest.mark.spec(
    "2026-07-28/basic/transports/streamable-http#schema-extension-6", "2026-07-28/server/tools#x-mcp-header-6"
)
def test_check_parameters_integer_beyond_safe_range_is_header_mismatch() -> None:
    for value in (MAX_SAFE_INTEGER, -MAX_SAFE_INTEGER):
        assert agrees(value, str(value))
    for value in (MAX_SAFE_INTEGER + 1, -MAX_SAFE_INTEGER - 1, 10**30):
        assert not agrees(value, str(value))
    assert not agrees(MAX_SAFE_INTEGER, str(MAX_SAFE_INTEGER + 1))
    assert not agrees(9007199254740993.0, "9007199254740993")


def test_check_parameters_booleans_match_only_true_and_false() -> None:
    assert agrees(True, "true") and agrees(False, "false")
    for header in ("True", "TRUE", "1", "false", "yes", ""):
        assert not agrees(True, header)
    assert not agrees(1, "true") and not agrees(0, "false")


@pytest.mark.parametrize(
    ("value", "header", "wanted"), [(True, "True", "true"), ("\u00e9", encoded("e"), encoded("\u00e9"))]
)
def test_check_parameters_mismatch_names_the_header_that_the_body_wants(value: JSON, header: str, wanted: str) -> None:
    with pytest.raises(ProtocolError) as refused:
        check_parameters(Headers([("Mcp-Param-V", header)]), {"v": value}, WANTED)
    assert refused.value.message == f"Header mismatch: Mcp-Param-V is {header!r}, but the body needs {wanted!r}"


def test_check_parameters_compares_texts_exactly() -> None:
    assert agrees("", "") and agrees("1", "1") and agrees("True", "True") and agrees("\u00e9", encoded("\u00e9"))
    assert agrees("a", encoded("a"))
    assert not agrees("a", "A") and not agrees("1", "1.0") and not agrees("a", "b") and not agrees("a", "")
    assert not agrees("\u00e9", "\u00e9") and not agrees("=?base64?YQ==?=", "=?base64?YQ==?=")


@pytest.mark.parametrize("value", [[], {}, 1.5, ["a"]])
def test_check_parameters_other_types_match_no_header(value: JSON) -> None:
    assert not agrees(value, json.dumps(value))


def test_check_parameters_missing_duplicate_or_surplus_header_is_header_mismatch() -> None:
    assert not agrees("a")
    assert not agrees("a", "a", "a")
    assert agrees(None)
    assert not agrees(None, "a") and not agrees(None, "")


# ------------------------------------------------------------------------------------------------ on the wire

REGION = schema(
    region=marked("Region"), count=marked("Count", "integer"), on=marked("On", "boolean"), text={"type": "string"}
)


def make_server() -> Server:
    server = Server("s")

    @server.tool("q", input_schema=REGION)
    async def query(
        region: str | None = None, count: int | None = None, on: bool | None = None, text: str | None = None
    ) -> TextContent:
        return TextContent("run")

    @server.tool("w\u00e4hle")
    async def choose() -> TextContent:
        return TextContent("run")

    server.prompt("p")(lambda: "hi")
    server.resource("test://a")(lambda: "a")
    return server


async def refused(reply: Reply, id: JSON = 1) -> str:
    assert reply.status == 400 and reply.kind == JSON_TYPE
    return str(error_of(reply.json, MISMATCH, id)["message"])


CALLS: dict[str, Object] = {
    "tools/call": {"name": "q", "arguments": {}},
    "prompts/get": {"name": "p"},
    "resources/read": {"uri": "test://a"},
    "tools/list": {},
    "server/discover": {},
}


@pytest.mark.parametrize("method", CALLS)
@pytest.mark.spec(
    "2026-07-28/basic/transports/streamable-http#server-validation-1,3,4",
    "2026-07-28/basic/transports/streamable-http#protocol-version-header-3",
)
@pytest.mark.attack("header-smuggling")
@pytest.mark.breaks("tool_names")
async def test_standard_headers_are_required_and_must_equal_the_body(method: str) -> None:
    async with served_over_http(make_server()) as web:
        talk, frame = RawSession(web), stateless_request(method, CALLS[method])
        assert (await talk.post(frame)).status == 200
        names = ["MCP-Protocol-Version", "Mcp-Method", *(["Mcp-Name"] if CALLS[method] else [])]
        for name in names:
            for wrong in (None, "", "x", method.upper(), "2025-11-25", "q, q", "2026-07-28x"):
                why = await refused(await talk.post(frame, **{name.replace("-", "_"): wrong}))
                assert name in why


async def test_method_without_a_name_needs_no_mcp_name_even_if_a_member_of_params_has_no_name() -> None:
    async with served_over_http(Server("s")) as web:
        assert (await RawSession(web).post(stateless_request("server/discover", {"": "x"}))).status == 200


@pytest.mark.spec("2026-07-28/basic/transports/streamable-http#protocol-version-header-6")
async def test_version_header_is_required_on_each_request_of_a_modern_server() -> None:
    server = Server("s", revisions=[MODERN])
    async with served_over_http(server) as web:
        why = await refused(await RawSession(web).post(stateless_request("server/discover"), MCP_Protocol_Version=None))
        assert why == "Header mismatch: MCP-Protocol-Version is missing"


async def test_version_header_mismatch_comes_before_unsupported_revision() -> None:
    async with served_over_http(make_server()) as web:
        for version in ("1900-01-01", "2025-11-25"):
            frame = stateless_request("tools/list", protocolVersion=version)
            await refused(await RawSession(web).post(frame, MCP_Protocol_Version=MODERN))


async def test_missing_meta_is_reported_before_missing_headers() -> None:
    async with served_over_http(make_server()) as web:
        frame = stateless_request("tools/list", clientCapabilities=None)
        reply = await RawSession(web).post(frame, Mcp_Method=None)
        assert reply.status == 400
        error_of(reply.json, INVALID_PARAMS)


async def post(web: ServedApp, frame: Object, *lines: str) -> Reply:
    """POST with these headers and no others that say anything of the body."""
    body = json.dumps(frame).encode()
    return await web.ask("POST", "/mcp", body, f"Accept: {BOTH_TYPES}", f"Content-Type: {JSON_TYPE}", *lines)


async def test_header_check_is_repeated_for_each_body_on_one_connection() -> None:
    def calls(name: str, region: str, **meta: JSON) -> Object:
        return stateless_request("tools/call", {"name": name, "arguments": {"region": region}}, 1, None, **meta)

    async with served_over_http(make_server()) as web:
        reader, writer = await asyncio.open_connection(*web.address)
        head = "\r\n".join(
            [
                *("POST /mcp HTTP/1.1", "Host: localhost", f"Accept: {BOTH_TYPES}", f"Content-Type: {JSON_TYPE}"),
                *(VERSION, "Mcp-Method: tools/call", "Mcp-Name: q", "Mcp-Param-Region: us"),
                *("Content-Length: 500", "", ""),
            ]
        )

        async def ask(frame: Object) -> JSON:
            writer.write(head.encode() + json.dumps(frame).encode().ljust(500))
            async with asyncio.timeout(PATIENCE):
                told = await reader.readuntil(b"\r\n\r\n")
                size = int(told.lower().partition(b"content-length: ")[2].split()[0])
                answer: JSON = json.loads(await reader.readexactly(size))
            return answer

        for _ in range(2):
            result_of(await ask(calls("q", "us")))
            error_of(await ask(calls("other", "us")), HEADER_MISMATCH)
            error_of(await ask(calls("q", "eu")), HEADER_MISMATCH)
            error_of(await ask(calls("q", "us", protocolVersion="2025-11-25")), HEADER_MISMATCH)
            result_of(await ask(calls("q", "us")))
            error_of(await ask(calls("q", "eu", clientCapabilities=None)), INVALID_PARAMS)
        writer.close()


VERSION = f"MCP-Protocol-Version: {MODERN}"


@pytest.mark.spec("2026-07-28/basic/transports/streamable-http#case-sensitivity-1")
async def test_header_names_ignore_case_and_values_do_not() -> None:
    async with served_over_http(make_server()) as web:
        frame = stateless_request("tools/call", {"name": "q", "arguments": {"region": "us"}})
        lines = [VERSION, "Mcp-Method: tools/call", "Mcp-Name: q", "Mcp-Param-Region: us"]
        for change in (str.upper, str.lower):
            changed = [change(name) + colon + value for name, colon, value in (x.partition(":") for x in lines)]
            assert (await post(web, frame, *changed)).status == 200
        for line in lines[1:]:
            others = [other for other in lines if other != line]
            name, _, value = line.partition(":")
            await refused(await post(web, frame, *others, f"{name}:{value.upper()}"))


async def test_duplicate_header_is_refused() -> None:
    async with served_over_http(make_server()) as web:
        frame = stateless_request("tools/call", {"name": "q", "arguments": {"region": "us"}})
        lines = [VERSION, "Mcp-Method: tools/call", "Mcp-Name: q", "Mcp-Param-Region: us"]
        for line in lines:
            assert (await post(web, frame, *lines, line)).status == 400
        for line in lines[1:]:
            assert "more than once" in await refused(await post(web, frame, *lines, line))


@pytest.mark.spec(
    "2026-07-28/basic/transports/streamable-http#value-encoding-4,5",
    "2026-07-28/basic/transports/streamable-http#server-validation-5",
    "2026-07-28/basic/transports/streamable-http#standard-request-headers-2",
)
async def test_mcp_name_header_is_base64_for_other_than_plain_ascii() -> None:
    async with served_over_http(make_server()) as web:
        talk, plain = RawSession(web), stateless_request("tools/call", {"name": "q", "arguments": {}})
        other = stateless_request("tools/call", {"name": "w\u00e4hle", "arguments": {}})
        assert (await talk.post(plain, Mcp_Name=encoded("q"))).status == 200
        assert (await talk.post(other, Mcp_Name=encoded("w\u00e4hle"))).status == 200
        assert (await talk.post(plain, Mcp_Name="  q\t")).status == 200
        for wrong in ("w\u00e4hle", encoded("wahle"), "=?base64?d8OkaGxl", "=?base64?d8OkaGx?="):
            await refused(await talk.post(other, Mcp_Name=wrong))
        await refused(await talk.post(plain, Mcp_Method=encoded("tools/call")))
        await refused(await talk.post(plain, MCP_Protocol_Version=encoded(MODERN)))


async def test_tools_call_without_name_is_invalid_params_with_any_mcp_name() -> None:
    async with served_over_http(make_server()) as web:
        wrong: list[Object] = [{}, {"name": 3}, {"name": None}]
        for params in wrong:
            for name in (None, "q"):
                reply = await RawSession(web).post(stateless_request("tools/call", params), Mcp_Name=name)
                error_of(reply.json, INVALID_PARAMS)


@pytest.mark.spec("2026-07-28/basic/transports/streamable-http#server-behavior-for-custom-headers-2,3,4,6,8,10,11")
@pytest.mark.parametrize(
    ("arguments", "headers", "status"),
    [
        ({}, {}, 200),
        ({"text": "x"}, {}, 200),
        ({"region": "us"}, {"Region": "us"}, 200),
        ({"count": 3, "on": False, "region": "us"}, {"Count": "3.0", "On": "false", "Region": "us"}, 200),
        ({"region": "us"}, {}, 400),
        ({"region": "us"}, {"Region": "eu"}, 400),
        ({"region": "us"}, {"Other": "us"}, 400),
        ({}, {"Region": "us"}, 400),
        ({"region": None}, {"Region": "null"}, 400),
        ({}, {"Unknown": "\u00e9"}, 200),
    ],
    ids=str,
)
async def test_tools_call_marked_arguments_are_required_in_headers(
    arguments: Object, headers: dict[str, str], status: int
) -> None:
    async with served_over_http(make_server()) as web:
        frame = stateless_request("tools/call", {"name": "q", "arguments": arguments})
        reply = await RawSession(web).post(frame, **{f"Mcp_Param_{name}": value for name, value in headers.items()})
        assert reply.status == status
        if status == 400:
            await refused(reply)
        else:
            assert result_of(reply.json)["content"] == [{"type": "text", "text": "run"}]


async def test_param_headers_are_checked_only_on_http_and_in_the_modern_era() -> None:
    async with served_over_http(make_server()) as web:
        talk = RawSession(web)
        await talk.handshake()
        reply = await talk.post(request("tools/call", {"name": "q", "arguments": {"region": "us"}}))
        assert "result" in (await reply.object() if reply.kind != JSON_TYPE else reply.json)


async def test_param_headers_of_an_unknown_tool_are_ignored() -> None:
    async with served_over_http(make_server()) as web:
        reply = await RawSession(web).post(stateless_request("tools/call", {"name": "none"}), Mcp_Param_Region="us")
        error_of(reply.json, INVALID_PARAMS)


async def test_header_mismatch_never_reaches_the_tool_and_quotes_values_shortened() -> None:
    server, called = make_server(), asyncio.Event()
    server.tool("set", input_schema=REGION)(lambda **arguments: called.set())
    async with served_over_http(server) as web:
        frame = stateless_request("tools/call", {"name": "set", "arguments": {"region": "x" * 5000}})
        assert len(await refused(await RawSession(web).post(frame, Mcp_Param_Region="y" * 5000))) < 400
        assert not called.is_set()
