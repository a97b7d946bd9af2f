"""Streamable HTTP of the modern era, on the client: its POSTs, and how it reads the responses."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from mcp_ref import (
    Client,
    ConnectionClosed,
    GetPromptResult,
    InvalidMessage,
    RemoteError,
    RequestTimeout,
    Server,
    TextContent,
)
from mcp_ref.basic.versioning import UNSUPPORTED_PROTOCOL_VERSION
from mcp_ref.features.prompts import GetPromptRequestParams
from mcp_ref.jsonrpc.errors import UnrecognizedReply
from mcp_ref.jsonrpc.messages import JSON, Error, ErrorResponse, Notification, Object, Request, RequestId
from mcp_ref.lib.http.client import HttpClient
from mcp_ref.lib.http.message import Exchange, Headers
from mcp_ref.lib.http.response import ClientLimits
from mcp_ref.lib.http.sse import encode_event
from mcp_ref.transports.streamable_http import stateless_client
from mcp_ref.transports.streamable_http.client import StreamableHttpClientTransport
from mcp_ref.transports.streamable_http.stateless_client import (
    MAX_DETAIL,
    NOT_AN_ENDPOINT,
    http_error_text,
    suggests_legacy_era,
)
from tests.messages import notification
from tests.raw_stateless_server import META, MODERN, answer, discovered, params_of
from tests.scripted_http_server import (
    JSON_HEADERS,
    SSE,
    ScriptedServer,
    Step,
    after,
    events,
    frame,
    log_message,
    respond_with,
    scripted,
    silence,
    status,
)
from tests.settings import PATIENCE, eventually

OFFERS: Object = {"tools": {}, "resources": {}, "prompts": {}, "completions": {}, "logging": {}}
HTML = ("Content-Type", "text/html")
USUAL = {"host", "accept-encoding", "content-length"}


def streams(*before: bytes, result: Object | None = None, then: bytes = b"", hold: bool = False) -> Step:
    """Return a step that responds with events: notifications, the result if there is one, and later events."""

    async def step(exchange: Exchange, message: Object) -> None:
        stream = exchange.stream(200, SSE)
        for piece in before:
            stream.write(piece)
        if result is not None:
            stream.write(encode_event(frame(answer(message, {"resultType": "complete", **result}))))
        stream.write(then)
        if hold:
            await stream.ended

    return step


def text(said: str) -> Object:
    """Return the result of a tool."""
    return {"content": [{"type": "text", "text": said}]}


def marked(name: str, **properties: Object) -> Object:
    """Return a tool, as in a list."""
    return {"name": name, "inputSchema": {"type": "object", "properties": {**properties}}}


def listed(*tools: Object) -> Object:
    """Return the result of `tools/list`."""
    return {"tools": [*tools], "ttlMs": 0, "cacheScope": "private"}


@contextlib.asynccontextmanager
async def met(site: ScriptedServer, **options: object) -> AsyncIterator[Client]:
    """Yield a client that is connected to a scripted modern server, whose log of requests is empty."""
    site.on("server/discover", respond_with(discovered(capabilities=OFFERS)))
    options = {"timeout": PATIENCE, **options}
    async with Client(site.url, **options) as client:  # type: ignore[arg-type]
        assert client.revision.era == "modern"
        site.asked.clear()
        yield client


def under_way(client: Client) -> int:
    transport = client.session.transport
    assert isinstance(transport, StreamableHttpClientTransport)
    assert isinstance(transport._http, HttpClient)
    return len(transport._http._all) - len(transport._http._free)  # the connections in use


# ------------------------------------------------------------------------------------------------ requests


@pytest.mark.spec(
    "2026-07-28/basic/transports/streamable-http#sending-messages-1,2,3,4,5",
    "2026-07-28/basic/transports/streamable-http#protocol-version-header-1,2",
    "2026-07-28/basic/transports/streamable-http#standard-request-headers-1",
    "2026-07-28/basic/transports/streamable-http#client-behavior-1,2",
    "2026-07-28/basic/index#meta-6",
)
async def test_each_request_is_a_post_whose_headers_repeat_its_body() -> None:
    async with scripted() as site:
        hints: Object = {"ttlMs": 0, "cacheScope": "private"}
        site.on("tools/call", respond_with(text("x")))
        site.on("prompts/get", respond_with({"messages": []}))
        site.on("resources/read", respond_with({"contents": [], **hints}))
        site.on("tools/list", respond_with(listed()))
        async with met(site, headers={"Authorization": "Bearer t"}) as client:
            await client.call_tool("add", {"a": 1})
            await client.get_prompt("greet")
            await client.read_resource("test://a?b=c")
            await client.list_tools()
            site.on("server/discover", respond_with(discovered()))
            await client.ping()
        names = {"tools/call": "add", "prompts/get": "greet", "resources/read": "test://a?b=c"}
        assert sorted(site.keys) == sorted([*names, "tools/list", "server/discover"])
        for key, request in site.asked:
            body = json.loads(request.body)
            found = {name.lower(): value for name, value in request.headers}
            expected = {
                "authorization": "Bearer t",
                "content-type": "application/json",
                "accept": "application/json, text/event-stream",
                "mcp-protocol-version": body["params"]["_meta"][f"{META}protocolVersion"],
                "mcp-method": key,
                **({"mcp-name": names[key]} if key in names else {}),
            }
            assert {name: value for name, value in found.items() if name not in USUAL} == expected
            assert request.method == "POST" and expected["mcp-protocol-version"] == MODERN and body["id"]


PLAIN = ["add", "us-west1", "a b", "a\tb", "test://x/y?z#é"[:-2], "x" * 1000, "~!", "=?base64?", "=?BASE64?YQ==?="]
CODED = ["ä", "日本", " a", "a ", "\ta", "a\r\nX: y", "\x00", "\x7f", "=?base64?YQ==?=", "=?base64??=", "😀", " "]


@pytest.mark.spec(
    "2026-07-28/basic/transports/streamable-http#standard-request-headers-2",
    "2026-07-28/basic/transports/streamable-http#value-encoding-1,2,3,6",
    "2026-07-28/basic/transports/streamable-http#client-behavior-3,4,5",
    "2026-07-28/basic/transports/streamable-http#custom-headers-from-tool-parameters-1,2",
    "2026-07-28/basic/transports/streamable-http#server-behavior-for-custom-headers-5",
)
async def test_headers_encode_a_name_or_argument_in_base64_if_it_is_not_plain() -> None:
    values = [*PLAIN, *CODED]
    tools = [marked(value, where={"type": "string", "x-mcp-header": "Where"}) for value in values]
    async with scripted() as site:
        site.on("tools/list", respond_with(listed(*tools)))
        site.on("tools/call", *[respond_with(text("x"))] * len(values))
        async with met(site) as client:
            await client.list_tools()
            for value in values:
                await client.call_tool(value, {"where": value})
        calls = [request for key, request in site.asked if key == "tools/call"]
        for value, headers, called in zip(values, site.headers("tools/call"), calls, strict=True):
            expected = f"=?base64?{base64.b64encode(value.encode()).decode()}?=" if value in CODED else value
            assert headers["mcp-name"] == headers["mcp-param-where"] == expected
            params = json.loads(called.body)["params"]
            assert params["name"] == value and params["arguments"] == {"where": value}


@pytest.mark.spec(
    "2026-07-28/basic/transports/streamable-http#custom-headers-from-tool-parameters-2",
    "2026-07-28/basic/transports/streamable-http#server-behavior-for-custom-headers-5,7,9",
)
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"n": 7, "b": True, "deep": {"s": "x"}}, {"mcp-param-n": "7", "mcp-param-b": "true", "mcp-param-deep-s": "x"}),
        ({"n": -1, "b": False, "other": "x"}, {"mcp-param-n": "-1", "mcp-param-b": "false"}),
        ({"n": None, "b": None, "deep": None}, {}),
        ({"deep": {"s": None}}, {}),
        ({"deep": {}}, {}),
        ({"deep": 5}, {}),
        ({"deep": {"s": ""}}, {"mcp-param-deep-s": ""}),
        ({}, {}),
        (None, {}),
    ],
)
async def test_marked_arguments_stand_in_headers_and_those_that_are_not_there_do_not(
    arguments: Object | None, expected: dict[str, str]
) -> None:
    async with scripted() as site:
        tool = marked(
            "t",
            n={"type": "integer", "x-mcp-header": "N"},
            b={"type": "boolean", "x-mcp-header": "B"},
            deep={"type": "object", "properties": {"s": {"type": "string", "x-mcp-header": "Deep-S"}}},
            other={"type": "string"},
        )
        site.on("tools/list", respond_with(listed(tool, marked("u", n={"type": "integer"}))))
        site.on("tools/call", *[respond_with(text("x"))] * 3)
        async with met(site) as client:
            await client.call_tool("t", arguments)  # not known yet what it asks for
            await client.list_tools()
            await client.call_tool("t", arguments)
            await client.call_tool("u", arguments)
        before, after, other = (
            {name: value for name, value in found.items() if name.startswith("mcp-param-")}
            for found in site.headers("tools/call")
        )
        assert (before, after, other) == ({}, expected, {})


@pytest.mark.breaks("tool_names")
async def test_our_own_server_takes_the_headers_that_we_write() -> None:
    server = Server("s", "1")
    schema: Object = {
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "count": {"type": "integer", "x-mcp-header": "Count"},
            "dry": {"type": "boolean", "x-mcp-header": "Dry"},
        },
    }

    @server.tool("prüfen", input_schema=schema)
    async def check(region: str, count: int, dry: bool) -> TextContent:
        return TextContent(json.dumps({"region": region, "count": count, "dry": dry}))

    async with server.serve_http() as url, Client(url, timeout=PATIENCE) as client:
        assert client.revision.era == "modern"
        await client.list_tools()
        for region in (*PLAIN, *CODED, ""):
            arguments: Object = {"region": region, "count": -3, "dry": False}
            result = await client.call_tool("prüfen", arguments)
            assert json.loads(result.text) == arguments


@pytest.mark.spec("2026-07-28/basic/transports/streamable-http#sending-messages-6")
async def test_modern_client_sends_no_session_id_and_no_response() -> None:
    async with scripted() as site:
        asking = frame({"jsonrpc": "2.0", "id": 5, "method": "ping"})
        site.on("tools/call", streams(encode_event(asking, id="7"), result=text("x")), respond_with(text("y")))
        body = frame(answer({"id": 1}, discovered(capabilities=OFFERS)))
        site.on("server/discover", status(200, body, *JSON_HEADERS, ("Mcp-Session-Id", "s1")))
        async with Client(site.url, timeout=PATIENCE) as client:
            assert (await client.call_tool("t")).text == "x"
            assert (await client.call_tool("t")).text == "y"
        assert site.keys == ["server/discover", "tools/call", "tools/call"]  # no GET, no DELETE, no answer
        for key in set(site.keys):
            for found in site.headers(key):
                assert not {"mcp-session-id", "last-event-id"} & found.keys()


# ------------------------------------------------------------------------------------------------ responses


@pytest.mark.spec("2026-07-28/basic/transports/streamable-http#sending-messages-10")
@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8", "", "text/plain"])
async def test_json_response_is_read(kind: str) -> None:
    async with scripted() as site:
        site.on("tools/call", respond_with(text("ä"), kind))
        async with met(site) as client:
            assert (await client.call_tool("t")).text == "ä"


@pytest.mark.spec("2026-07-28/basic/transports/streamable-http#sending-messages-10")
async def test_notifications_before_the_answer_are_heard_and_nothing_after_it_is_waited_for() -> None:
    logged, steps, traced = list[JSON](), list[float](), list[str]()

    async def step(exchange: Exchange, message: Object) -> None:
        token = params_of(message)["_meta"]["progressToken"]
        progress = notification("notifications/progress", {"progressToken": token, "progress": 1, "total": 2})
        before = [encode_event(each) for each in (log_message("1"), frame(progress), log_message("2"))]
        late = encode_event(log_message("late"))
        await streams(b": hi\n\n", *before, result=text("x"), then=late, hold=True)(exchange, message)

    async with scripted() as site:
        site.on("tools/call", step)
        options: dict[str, Any] = {
            "on_log": lambda message: logged.append(message.data), "trace": lambda way, frame: traced.append(way),
        }  # fmt: skip
        async with met(site, **options) as client:
            traced.clear()
            result = await client.call_tool("t", on_progress=lambda progress, *_: steps.append(progress))
            assert traced[:5] == ["->", "<-", "<-", "<-", "<-"]
            assert (result.text, logged[:2], steps) == ("x", ["1", "2"], [1])
            await eventually(lambda: site.under_way == 0)  # the stream is left, though it goes on
            assert under_way(client) == 0


NO_RESPONSE = "the event stream ended without the JSON-RPC response"
NOT_JSON_RPC = "the body of type application/json is not the JSON-RPC response"
ENDS: dict[str, tuple[Step, str]] = {
    "no events": (events(), NO_RESPONSE),
    "notifications alone": (events(encode_event(log_message("x"), id="1")), NO_RESPONSE),
    "half an event": (events(b'data: {"jsonrpc":"2.0","id":2'), NO_RESPONSE),
    "the answer to another": (events(b'data: {"jsonrpc":"2.0","id":99,"result":{}}\n\n'), NO_RESPONSE),
    "neither a result nor an error": (status(200, b'{"jsonrpc":"2.0","id":2}'), NOT_JSON_RPC),
    "an event with neither": (events(b'data: {"jsonrpc":"2.0","id":2}\n\n'), NO_RESPONSE),
    "nothing": (status(200), "the response is empty"),
    "accepted": (status(202), "the response is empty"),
    "html": (status(200, b"<p>", HTML), "the body of type text/html is not the JSON-RPC response"),
    "no json": (status(200, b"{"), NOT_JSON_RPC),
    "a batch": (status(200, b"[]"), NOT_JSON_RPC),
    "a notification": (status(200, log_message("x")), NOT_JSON_RPC),
    "another's result": (status(200, b'{"jsonrpc":"2.0","id":99,"result":{}}'), NOT_JSON_RPC),
    "an encoding": (status(200, b"x", ("Content-Encoding", "gzip")), "encoded"),
    "404": (status(404), "the server answered HTTP 404"),
    "404 of text": (status(404, b"no such path", ("Content-Type", "text/plain")), "HTTP 404: no such path"),
    "401": (status(401), "the server answered HTTP 401"),
    "500": (status(500, b"<h1>", HTML), "HTTP 500"),
    "500 of events": (status(500, b"data: x\n\n", *SSE), "HTTP 500"),
}


@pytest.mark.parametrize("how", ENDS)
async def test_response_without_the_json_rpc_response_fails_its_request_and_the_next_one_works(how: str) -> None:
    step, why = ENDS[how]
    async with scripted() as site:
        site.on("tools/call", step, respond_with(text("y")))
        async with met(site) as client:
            with pytest.raises(ConnectionClosed, match=why) as found:
                await client.call_tool("t")
            assert site.url in str(found.value) and str(found.value).startswith("tools/call: ")
            assert (await client.call_tool("t")).text == "y"
            assert site.keys == ["tools/call"] * 2  # it is not asked for again, nor taken up with a GET
            await eventually(lambda: under_way(client) == 0)


async def broken(exchange: Exchange, message: Object) -> None:
    """Break the connection within the response."""
    exchange.stream(200, JSON_HEADERS).write(b'{"jsonrpc":')
    raise ConnectionResetError


@pytest.mark.parametrize("large", [1024 * 1024, 0])
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
async def test_response_whose_id_is_a_string_ends_its_call_before_its_stream_ends(
    revision: str, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stateless_client, "MAX_UNREQUESTED", large)

    async def step(exchange: Exchange, message: Object) -> None:
        stream = exchange.stream(200, SSE)
        response = answer(message, {"resultType": "complete", **discovered()})
        stream.write(encode_event(frame({**response, "id": str(message["id"])})))
        await stream.ended

    async with scripted() as site:
        site.on("server/discover", respond_with(discovered()), step)
        site.on("ping", step)
        async with Client(site.url, revisions=[revision]) as client, asyncio.timeout(PATIENCE):
            await client.ping(timeout=None)


@pytest.mark.breaks("no_batch")
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
async def test_response_in_an_array_fails_its_call_before_its_stream_ends(revision: str) -> None:
    async def step(exchange: Exchange, message: Object) -> None:
        stream = exchange.stream(200, SSE)
        stream.write(encode_event(frame([answer(message, {"resultType": "complete", **discovered()})])))
        await stream.ended

    async with scripted() as site:
        site.on("server/discover", respond_with(discovered()), step)
        site.on("ping", step)
        async with Client(site.url, revisions=[revision]) as client, asyncio.timeout(PATIENCE):
            with pytest.raises(InvalidMessage, match="only revision 2025-03-26 has batches"):
                await client.ping(timeout=None)


@pytest.mark.spec("2026-07-28/changelog#major-changes-6")
@pytest.mark.parametrize("lost", [events(encode_event(log_message("x"))), broken], ids=["an event stream", "JSON"])
async def test_read_only_request_is_repeated_when_its_response_breaks_and_a_tool_call_is_not(lost: Step) -> None:
    async with scripted() as site:
        site.on("prompts/get", lost, respond_with({"messages": []}))
        site.on("tools/call", lost)
        async with met(site) as client:
            assert (await client.get_prompt("p")).messages == []
            with pytest.raises(ConnectionClosed, match=r"tools/call: http://.*ended") as found:
                await client.call_tool("pay")  # which may have been paid
            assert not isinstance(found.value, UnrecognizedReply)  # the server has shown that it speaks MCP
            assert site.keys == ["prompts/get", "prompts/get", "tools/call"]
        first, repeated, _ = [json.loads(request.body)["id"] for _, request in site.asked]
        assert first != repeated


async def test_repeated_request_reports_its_progress_too() -> None:
    async def report(exchange: Exchange, message: Object) -> None:
        progress = notification("notifications/progress", {"progressToken": message["id"], "progress": 1})
        await streams(encode_event(frame(progress)), result={"messages": []})(exchange, message)

    reported, sent = list[float](), list[RequestId]()
    async with scripted() as site:
        site.on("prompts/get", status(503), report)
        async with met(site) as client:
            await client.request(
                "prompts/get", GetPromptRequestParams("p"), GetPromptResult, PATIENCE, before_send=sent.append,
                on_progress=lambda progress, total, message: reported.append(progress))  # fmt: skip
    assert (reported, len(sent)) == ([1], 2)


@pytest.mark.parametrize("kind", ["json", "events"])
@pytest.mark.parametrize("id", [None, "its own", "a string"])
@pytest.mark.parametrize("code", [200, 400, 404, 429, 500])
async def test_error_response_raises_remote_error_with_its_id_as_a_string_or_without_id(
    kind: str, id: str | None, code: int
) -> None:
    async def step(exchange: Exchange, message: Object) -> None:
        told: Object = {"code": -32601, "message": "Method not found", "data": {"x": 1}}
        said: Object = {"jsonrpc": "2.0", "error": told}
        if id is not None:
            said["id"] = str(message["id"]) if id == "a string" else message["id"]
        if kind == "json" or code != 200:
            return exchange.respond(code, JSON_HEADERS, frame(said))
        await events(encode_event(frame(said)), hold=True)(exchange, message)

    async with scripted() as site:
        site.on("tools/call", step)
        async with met(site) as client:
            with pytest.raises(RemoteError) as found:
                await client.call_tool("t")
            assert (found.value.code, found.value.message, found.value.data) == (-32601, "Method not found", {"x": 1})


@pytest.mark.parametrize("how", ["json", "one event", "an event without end", "a refusal"])
async def test_response_over_the_maximum_size_fails_only_its_request(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stateless_client, "MAX_RESPONSE", 2000)
    monkeypatch.setattr(stateless_client, "MAX_UNREQUESTED", 2000)
    large = text("x" * 3000)
    steps = {
        "json": respond_with(large),
        "one event": streams(result=large, hold=True),
        "an event without end": events(b"data: " + b"x" * 3000, hold=True),
        "a refusal": status(404, b"x" * 3000, ("Content-Type", "text/plain")),
    }
    async with scripted() as site:
        site.on("tools/call", steps[how], respond_with(text("y")))
        async with met(site) as client:
            with pytest.raises(ConnectionClosed, match="2000"):
                await client.call_tool("t")
            assert (await client.call_tool("t")).text == "y"
            await eventually(lambda: site.under_way == 0)


# ------------------------------------------------------------------------------------------------ leaving


@pytest.mark.spec("2026-07-28/basic/patterns/cancellation#timeouts-2", "2026-07-28/basic/patterns/cancellation#intro-1")
@pytest.mark.parametrize("how", ["the caller leaves", "time is up"])
@pytest.mark.parametrize("begun", [True, False], ids=["in the middle of the response", "before it"])
async def test_cancelling_closes_the_response_and_posts_nothing(how: str, begun: bool) -> None:
    async with scripted() as site:
        held = streams(encode_event(log_message("begun")), hold=True)
        site.on("tools/call", held if begun else silence, respond_with(text("y")))
        async with met(site) as client:
            call = asyncio.create_task(client.call_tool("t", timeout=0.05 if how == "time is up" else None))
            await eventually(lambda: site.keys == ["tools/call"])
            if how == "time is up":
                with pytest.raises(RequestTimeout):
                    await call
            else:
                call.cancel()
                await asyncio.wait([call], timeout=PATIENCE)
                assert call.cancelled()
            await eventually(lambda: site.under_way == 0 and under_way(client) == 0)
            assert (await client.call_tool("t")).text == "y"
        assert site.keys == ["tools/call"] * 2


async def test_post_of_a_ping_that_timed_out_is_closed() -> None:
    async with scripted() as site, met(site) as client:
        site.on("server/discover", events(b": wait\n\n", hold=True))
        with pytest.raises(RequestTimeout):
            await client.ping(timeout=0.05)
        await eventually(lambda: site.under_way == 0 and under_way(client) == 0)


@pytest.mark.parametrize("step", [silence, events(b": wait\n\n", hold=True)])
async def test_closing_with_requests_in_flight_ends_them_all_and_leaves_nothing(step: Step) -> None:
    async with scripted() as site:
        site.on("tools/call", *[step] * 20)
        async with met(site, timeout=None) as client:
            calls = [asyncio.create_task(client.call_tool("t")) for _ in range(20)]
            await eventually(lambda: site.keys.count("tools/call") == 20)
            await client.close()
            found = await asyncio.gather(*calls, return_exceptions=True)
            assert all(isinstance(each, ConnectionClosed) for each in found), found
            assert under_way(client) == 0
        await eventually(lambda: site.under_way == 0)
        assert set(site.keys) == {"tools/call"}  # nothing was said on leaving


async def test_many_requests_in_flight_get_what_is_theirs_in_whatever_order() -> None:
    gate = asyncio.Event()

    async def echo(exchange: Exchange, message: Object) -> None:
        arguments = params_of(message)["arguments"]
        number, said = arguments["n"], text(str(arguments["n"]))
        step = respond_with(said) if number % 2 else streams(encode_event(log_message("x")), result=said)
        await (after(gate, step) if number % 3 else step)(exchange, message)

    async with scripted() as site:
        site.on("tools/call", *[echo] * 200)
        async with met(site) as client:
            calls = [asyncio.create_task(client.call_tool("t", {"n": n})) for n in range(200)]
            await eventually(lambda: len(site.keys) >= 80)
            gate.set()
            assert [result.text for result in await asyncio.gather(*calls)] == [str(n) for n in range(200)]
        ids = [json.loads(request.body)["id"] for _, request in site.asked]
        assert len(set(ids)) == 200


async def test_subscription_has_a_connection_beside_those_of_the_calls() -> None:
    server = Server("s", "1")

    @server.resource("test://x")
    async def x() -> str:
        return "x"

    @server.tool()
    async def touch() -> str:
        server.resource_updated("test://x")
        return "touched"

    http = HttpClient(limits=ClientLimits(connections=1, head_time=None, idle=None))
    async with (
        server.serve_http() as url,
        Client(url, http=http, timeout=PATIENCE) as client,
        client.subscribe("test://x") as one,
        client.subscribe("test://x") as two,
    ):
        assert (await client.call_tool("touch")).text == "touched"
        assert (await anext(one), await anext(two)) == ("test://x", "test://x")


@pytest.mark.parametrize("id", [1, 99, "x", None])
async def test_cancellation_of_a_request_that_is_not_in_flight_is_not_sent(id: JSON) -> None:
    async with scripted() as site, met(site) as client:
        transport = client.session.transport
        # The fixture that holds frames to the schema is on the instance.
        type(transport).send(transport, Notification("notifications/cancelled", {"requestId": id}))
        await transport.drain()
        site.on("tools/call", respond_with(text("x")))
        assert (await client.call_tool("t")).text == "x"
        assert site.keys == ["tools/call"]


@pytest.mark.parametrize("revision", [None, MODERN, "2025-11-25"])
@pytest.mark.parametrize("url", ["http://user:hunter2@127.0.0.1:1/mcp", "http://127.0.0.1:1/mcp?token=hunter2"])
async def test_errors_and_log_contain_no_secret_of_a_url(
    url: str, revision: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises((ConnectionClosed, ValueError), match=r"http://127\.0\.0\.1:1/mcp: |credentials") as found:
        await Client(url, revision=revision, timeout=PATIENCE).connect()
    assert "hunter2" not in str(found.value) + caplog.text


@pytest.mark.parametrize(
    ("status", "suggests"),
    [(200, True), (299, True), (300, False), (399, False), (400, True), (401, False), (404, True), (499, True),
     (500, False), (503, False)],
)  # fmt: skip
def test_status_without_json_rpc_suggests_a_legacy_server_unless_a_proxy_or_a_fault_explains_it(
    status: int, suggests: bool
) -> None:
    assert suggests_legacy_era(status) is suggests


@pytest.mark.parametrize(
    ("method", "status", "code", "id", "is_error"),
    [
        ("ping", 500, -32603, 7, True),
        ("ping", 500, -32603, None, True),
        ("ping", 200, -32603, 8, False),
        ("server/discover", 500, -32603, 7, False),
        ("server/discover", 500, UNSUPPORTED_PROTOCOL_VERSION, 7, True),
        ("server/discover", 404, -32603, 7, True),
    ],
)
def test_error_for_server_discover_must_be_conclusive_and_may_lack_its_id(
    method: str, status: int, code: int, id: int | None, is_error: bool
) -> None:
    error = Error(code, "why")
    found = stateless_client._error_for(Request(7, method), status, ErrorResponse(id, error))
    assert found == (ErrorResponse(7, error) if is_error else None)


@pytest.mark.parametrize(
    ("status", "kind", "body", "text"),
    [
        (500, "application/json", b'{"jsonrpc":"2.0","error":{"code":1,"message":"no  way"}}', ": no way"),
        (404, "application/json", b'{"jsonrpc":"2.0","error":{"code":1,"message":"no"}}', ": no"),
        (500, "text/plain", b"a\n b\xff", ": a b\ufffd"),
        (500, "", b"x" * (MAX_DETAIL + 1), f": {'x' * MAX_DETAIL}"),
        (500, "text/html", b"<p>", ""),
        (404, "text/html", b"<p>", f"; {NOT_AN_ENDPOINT}"),
        (405, "text/plain", b"", f"; {NOT_AN_ENDPOINT}"),
        (501, "text/plain", b"", f"; {NOT_AN_ENDPOINT}"),
    ],
)
def test_http_error_text_quotes_an_error_or_a_short_plain_text(status: int, kind: str, body: bytes, text: str) -> None:
    response = SimpleNamespace(status=status, headers=Headers([("Content-Type", kind)]))
    assert http_error_text(response, body) == f"the server answered HTTP {status}{text}"  # type: ignore[arg-type]
