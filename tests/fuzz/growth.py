"""Target: the time that parsers of a peer's data need for inputs of doubling size.

An input is a start, a repeated part and an end. `#` in the repeated part is the number of the repetition, so that names
can differ. The parts come from the language of the parser, so that they reach its loops; the generator chooses which of
them repeat, alone or in pairs, because a person would only think of those that look dangerous.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from mcp_ref.basic.authorization.addresses import canonical_resource
from mcp_ref.basic.authorization.authorization_code import SignIn, read_response
from mcp_ref.basic.authorization.challenges import parse_challenges, split_scopes
from mcp_ref.basic.authorization.metadata import parse_resource_metadata, parse_server_metadata
from mcp_ref.basic.content import check_media
from mcp_ref.basic.headers import decode_value, parameter_headers
from mcp_ref.basic.meta import check_meta_keys
from mcp_ref.basic.mrtr import read_input_requests
from mcp_ref.codec import codec_for
from mcp_ref.features.elicitation import content_errors, schema_fault
from mcp_ref.features.prompts import GetPromptResult
from mcp_ref.features.sampling import CreateMessageRequestParams
from mcp_ref.features.tools import CallToolResult, ListToolsResult
from mcp_ref.host.approval import hidden_text_warnings
from mcp_ref.host.results import cut_result
from mcp_ref.jsonrpc.large_messages import is_response
from mcp_ref.jsonrpc.messages import JSON, Object, decode
from mcp_ref.lib.http.framing import ChunkDecoder, parse_response_head
from mcp_ref.lib.http.message import HttpLimits
from mcp_ref.lib.http.origin import parse_url
from mcp_ref.lib.http.parser import RequestParser
from mcp_ref.lib.http.proxies import _values_of_for
from mcp_ref.lib.http.sse import EventParser
from mcp_ref.lib.jose.keys import parse_key_set
from mcp_ref.lib.jose.tokens import parse_jws
from mcp_ref.lib.jsonschema import compile_schema
from mcp_ref.lib.text import escape_hidden, show_text
from mcp_ref.lib.uri import MAX_URI_LENGTH, canonical_uri, readings
from mcp_ref.lib.uritemplate import UriTemplate
from mcp_ref.lib.web_url import browser_host, look_alike_warnings
from mcp_ref.revisions import R2025_11_25, R2026_07_28
from mcp_ref.transports.stdio.lines import LineReader
from mcp_ref.transports.trace import redact

SIZE = 256 * 1024
"""Size of the largest input of most parsers, in characters."""
FAST = 0.004
"""Processor time that is not compared, in seconds, because it is mostly noise."""
MAX_RATIO = 9.0
"""Maximum ratio of the times for sizes with the ratio 4. It is 4.7 for n log n, and 16 for a square."""
PIECE = 512
"""Size of the pieces that reach a parser of a stream, in bytes."""


@dataclass(frozen=True)
class Parser:
    """A parser, and parts of its language: the possible starts, repeated parts and ends of an input."""

    parse: Callable[[str], object]
    starts: Sequence[str]
    repeated: Sequence[str]
    ends: Sequence[str] = ("",)
    size: int = SIZE
    """Size of the largest input, in characters. It is smaller if the package calls the parser with no larger input."""


def _in_pieces(feed: Callable[[bytes], object], text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    for start in range(0, len(data), PIECE):
        feed(data[start : start + PIECE])


def _requests(text: str) -> None:
    parser = RequestParser(HttpLimits())

    def feed(piece: bytes) -> None:
        parser.buffer += piece
        while (parser.head or parser.next_head()) and parser.next_body() is not None:
            pass

    _in_pieces(feed, text)


def _chunks(text: str) -> None:
    buffer = bytearray()
    decoder = ChunkDecoder(buffer)

    def feed(piece: bytes) -> None:
        buffer.extend(piece)
        decoder.decode()

    _in_pieces(feed, text)


def _match(template: str, uri: str) -> None:
    UriTemplate(template).match(uri)


def _valid(schema: JSON, text: str) -> None:
    compile_schema(schema).errors(json.loads(text))


def _json(use: Callable[[Object], object]) -> Callable[[str], object]:
    return lambda text: use(json.loads(text))


def _read(cls: type) -> Callable[[str], object]:
    codec = codec_for(R2026_07_28)
    return _json(lambda value: codec.decode(cls, value))


def _cut(text: str) -> object:
    return cut_result(codec_for(R2025_11_25).decode(CallToolResult, json.loads(text)), 1000)


OPEN = ["", "a", "[", "{", '"', "x://", "https://", "https://a/", "https://[", "é"]
TEXT = ["a", "#", " ", "\t", "\n", "\r\n", "/", "../", "./", "%41", "%ff", "%", ".", ":", "@", ",", ";", "=", "&", '"',
        "\\", "\\u0041", "\\ud83d", "{", "}", "[", "]", "é", "\u202e", "\U0001f600", "\0", "xn--", "-", "~", "*",
        "\u0301", "\u0345\u0301", "\ufb03", "ß", "İ", "\U000e0041"]  # fmt: skip
"""The repeated parts for every parser."""

NAMES = '"n#":'
BLOCKS = [
    '{"type":"text","text":"a"},', '{"type":"image","data":"AAAA","mimeType":"a/b"},', '{"type":"t#"},',
    '{"type":"resource_link","uri":"a:#","name":"n"},', '{"type":"resource","resource":{"uri":"a:#","text":""}},',
]  # fmt: skip
PROPERTY = '"n#":{"type":"string","x-mcp-header":"H#"},'
SCHEMA = ['"allOf":[{', '}],"n#":[{', '"items":{', '"$ref":"#/a",', '"n#":true,', '"pattern":"a*",', '"a":{"a":{']
INNER = '{"type":"object","properties":{'
UNIQUE: Object = {"uniqueItems": True, "items": {"enum": [[n] for n in range(200)]}}
OBJECT: Object = {
    "patternProperties": {"^a+$": {}, "n.*9": {}}, "additionalProperties": False, "unevaluatedProperties": False,
    "propertyNames": {"maxLength": 4}, "dependentRequired": {"a": ["b"]},
}  # fmt: skip
PATTERN: Object = {"pattern": "(a|a)*b", "format": "uri"}

PARSERS: dict[str, Parser] = {
    "message": Parser(lambda text: decode(text.encode()), ['{"params":{', '{"params":[', "[", '{"id":"'],
        ['"n#":1,', '"n":1,', "1,", "[", "{", '"n":{', "\\u0041", '"\\n",', '{"method":"m","id":#},', "9"],
        ["", '"n":1},"jsonrpc":"2.0","method":"m","id":1}', "1]", '"}']),
    "search_ends": Parser(lambda text: is_response(text.encode(), None), ['{"result":{', "{", '{"id":"'],
        [NAMES, '"n":1,', "1,", "[", "]", "{", "}", "\\", '\\"', '"', '"id":#,', "9"], ["", '},"id":7}']),
    "lines": Parser(lambda text: _in_pieces(LineReader(lambda message: None).feed, text), OPEN,
        ["\n", " ", '{"jsonrpc":"2.0","method":"m"}\n', "[]\n", "\r\n"], ["", "\n"]),
    "requests": Parser(
        _requests,
        [
            "", "POST / HTTP/1.1\r\nHost: a\r\n", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", "GET /",
        ],
        [
            *("\r\n", "N#: a\r\n", "a: b\r\n", " ", "1\r\na\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
            *("1;a=b\r\n", "Content-Length: 1\r\n", "Transfer-Encoding: chunked\r\n", "chunked, "),
        ],
        ["", "\r\n\r\n"],
    ),
    "response": Parser(lambda text: parse_response_head(text.encode(), 100), ["HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 "],
        ["N#: a\r\n", "a: b\r\n", "\r\n", " ", "Content-Length: 1\r\n"], ["", "\r\n\r\n"]),
    "chunks": Parser(_chunks, ["", "ffff\r\n"], ["1\r\na\r\n", "0", "1;a=b\r\na\r\n", ";a=b", "a:b\r\n", "\r\n"],
        ["", "0\r\n\r\n"]),
    "events": Parser(lambda text: _in_pieces(EventParser().feed, text), ["", "data: "],
        ["data: a\n", "data\n", "\n", "id: #\n", "event: e#\n", ": c\n", "data: a\n\n", "\r", "retry: 1\n"],
        ["", "\n\n"]),
    "forwarded": Parser(_values_of_for, ["for=a", '"', ""], ["for=#,", '"', "\\\\", ";", " ", 'a="b";', "="],
        ["", '"']),
    "uri": Parser(canonical_uri, ["a://b/", "a:", *OPEN], ["a#/"], size=8 * MAX_URI_LENGTH),
    "readings": Parser(readings, ["a://b/", "a:", *OPEN], ["a#/"], size=8 * MAX_URI_LENGTH),
    "web URL": Parser(browser_host, ["https://a/", *OPEN], ["a.", "xn--a."]),
    "look-alike host": Parser(look_alike_warnings, ["", "xn--"], ["a.", "xn--a.", "\u0430", "xn--80ak6aa92e."]),
    "origin": Parser(parse_url, ["http://", *OPEN], ["a."]),
    "resource": Parser(canonical_resource, ["https://", *OPEN], ["a."]),
    "template": Parser(UriTemplate, ["a:", ""], ["{a#}", "{", "{+a#*}", "{?a#,b#}", "{a:5}", ",a#"], ["", "}"]),
    "match path": Parser(partial(_match, "a:{b}{c}{d}"), ["a:"], ["a", "#"], size=MAX_URI_LENGTH),
    "match list": Parser(partial(_match, "a:{/b*}{.c*}{;d*}"), ["a:"], ["/a", ".a", ";a=#"], size=MAX_URI_LENGTH),
    "match query": Parser(partial(_match, "a:{+b}/{c}{?d,e*}"), ["a:", "a:?"], ["/a", "d=#&", "&n#=1", "?"],
        size=MAX_URI_LENGTH),
    "challenges": Parser(lambda text: parse_challenges([text]), ["Bearer ", ""],
        ["a#=b, ", 'a="b', "Bearer a=b, ", "Basic ", "a,", "=", '\\"', "a=b ", "AAAA"]),
    "scopes": Parser(lambda text: split_scopes([text]), [""], ["s# ", "s "]),
    "response of a sign-in": Parser(partial(read_response, SignIn("https://a", True, "", "", "s", "")), ["code=a&"],
        ["n#=1&", "code=a&", "state=s&"]),
    "resource metadata": Parser(lambda text: parse_resource_metadata(text.encode()),
        ['{"resource":"https://a","authorization_servers":[', '{"resource":"https://a",'],
        ['"https://a/#",', '"n#":"a",'], ['"https://a"]}', '"a":1}']),
    "server metadata": Parser(lambda text: parse_server_metadata(text.encode(), "https://a", "s"),
        ['{"issuer":"https://a","scopes_supported":[', '{"issuer":"https://a",'], ['"s#",', '"n#":"a",'],
        ['"a"]}', '"a":1}']),
    "key set": Parser(lambda text: parse_key_set(text.encode()), ['{"keys":['],
        ['{"kty":"EC","crv":"P-256","kid":"#","x":"AA","y":"AA"},', '{"kty":"a#"},'], ["{}]}"]),
    "token": Parser(parse_jws, ["", "e30."], ["e30.", "a", "A", "."]),
    "header value": Parser(decode_value, ["", "=?base64?"], ["QUFB", " ", "\t"], ["", "?=", "x"]),
    "parameter headers": Parser(
        _json(parameter_headers),
        [INNER],
        [
            PROPERTY,
            '"n#":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"H#"}}},',
            '"n#":{"properties":{',
            '"n#":{"allOf":[{"x-mcp-header":"H#"}]},',
        ],
        ['"a":{}}}'],
    ),
    "meta keys": Parser(_json(check_meta_keys), ["{"], ['"n#":1,', '"a.b#/c":1,'], ['"a":1}']),
    "media": Parser(lambda text: check_media(text, "image/png"), [""], ["AAAA", "=", "\n"]),
    "input requests": Parser(_json(read_input_requests), ['{"inputRequests":{'],
        ['"n#":{"method":"roots/list"},', '"n#":{},'], ['"a":{"method":"roots/list"}}}']),
    "tools": Parser(
        _read(ListToolsResult),
        ['{"tools":['],
        ['{"name":"n#","inputSchema":{"type":"object"}},', '{"name":"n","icons":[{"src":"a:#"}],"inputSchema":{}},'],
        ['{"name":"n","inputSchema":{"type":"object"}}],"ttlMs":0,"cacheScope":"private","resultType":"complete"}'],
    ),
    "call result": Parser(_read(CallToolResult), ['{"resultType":"complete","content":['], BLOCKS,
        ['{"type":"text","text":""}]}']),
    "cut result": Parser(_cut, ['{"content":[', '{"content":[],"structuredContent":['], [*BLOCKS, '[{"a#":', "1,"],
        ['{"type":"text","text":""}]}']),
    "prompt": Parser(_read(GetPromptResult), ['{"resultType":"complete","messages":['],
        ['{"role":"user","content":{"type":"text","text":"#"}},'],
        ['{"role":"user","content":{"type":"text","text":""}}]}']),
    "sampling": Parser(
        _read(CreateMessageRequestParams),
        ['{"maxTokens":1,"messages":['],
        [
            '{"role":"user","content":{"type":"text","text":"#"}},',
            '{"role":"user","content":[{"type":"tool_result","toolUseId":"#","content":[]}]},',
        ],
        ['{"role":"user","content":{"type":"text","text":""}}]}'],
    ),
    "elicitation schema": Parser(_json(lambda value: schema_fault(value, R2025_11_25)),
        [INNER, '{"type":"object","required":['],
        ['"n#":{"type":"string"},', '"n#":{"type":"string","enum":["a"]},', '"n#",'],
        ['"a":{"type":"string"}}}', '"a"],"properties":{}}']),
    "elicitation content": Parser(
        _json(partial(content_errors, {"type": "object", "properties": {"a": {"type": "string"}}})), ["{"],
        ['"n#":1,', '"n#":"a",'], ['"a":1}']),
    "schema": Parser(
        _json(compile_schema),
        ["{", INNER, '{"$defs":{"a":{', '{"enum":[', '{"required":['],
        [*SCHEMA, PROPERTY, '"n#":{"$ref":"#/$defs/a"},', '"n#",', '"n#":{"$anchor":"n#"},', '"n#":{"$id":"n#"},'],
        ['"a":true}', '"a":true}}', '"a"]}', "}}}"],
    ),
    "unique items": Parser(partial(_valid, UNIQUE), ["["], ["[#],", '"a#",', '{"a":#},', "1.0,", "#e1,"], ["0]"]),
    "properties": Parser(partial(_valid, OBJECT), ["{"], ['"n#":1,', '"a#":1,'], ['"a":1}']),
    "pattern": Parser(partial(_valid, PATTERN), ['"'], ["a", "b", "#"], ['"', 'x"']),
    "redact": Parser(_json(redact), ['{"a":[', '{"a":"'],
        ['{"name":"Authorization","value":"a"},', '{"token":"#"},', "Bearer a ", "token=a&", "a"], ["0]}", '"}']),
    "hidden text": Parser(_json(hidden_text_warnings), ['{"a":[', '{"a":"'], ['"\\u202e",', "\\u202e", "a"],
        ["0]}", '"}']),
    "escape": Parser(escape_hidden, [""], []),
    "show": Parser(lambda text: show_text(text, io.StringIO()), [""], []),
}  # fmt: skip


def _seconds(parser: Parser, text: str, attempts: int) -> float:
    """Return the least processor time of a few attempts, in seconds."""
    least = float("inf")
    for _ in range(attempts):
        start = time.process_time()
        with contextlib.suppress(Exception):  # the other targets check which exceptions a parser raises
            parser.parse(text)
        least = min(least, time.process_time() - start)
    return least


def check_growth(rng: random.Random) -> None:
    """Check that a parser needs at most little more than four times as long for an input of four times the size."""
    name = rng.choice(list(PARSERS))
    parser = PARSERS[name]
    part = rng.choice(parser.repeated or TEXT)
    if rng.random() < 0.5:
        part = "".join(
            rng.sample(["", part, rng.choice([*TEXT, *parser.repeated]), rng.choice(TEXT)], rng.randint(2, 4))
        )
    start, end = rng.choice(parser.starts), rng.choice(parser.ends)

    def input_of(length: int) -> str:
        return start + "".join(part.replace("#", str(n)) for n in range(length // max(1, len(part)))) + end

    small, large = input_of(parser.size // 4), input_of(parser.size)
    if _seconds(parser, large, 1) < FAST:
        return
    ratios = []
    for _ in range(3):  # other programs can disturb one comparison
        ratios.append(_seconds(parser, large, 2) / max(_seconds(parser, small, 3), FAST / 4))
        if ratios[-1] <= MAX_RATIO:
            return
    raise AssertionError(f"{name}: {start!r} + n * {part!r} + {end!r}: 4 times the size takes {ratios} times as long")
