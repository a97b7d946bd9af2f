"""Streamable HTTP of the modern era, on the server: each POST is one request with one response."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import cast

import pytest

from mcp_ref import Context, Server, TextContent
from mcp_ref.basic.versioning import UNSUPPORTED_PROTOCOL_VERSION
from mcp_ref.jsonrpc.messages import INVALID_PARAMS, INVALID_REQUEST, JSON, METHOD_NOT_FOUND, PARSE_ERROR, Object
from mcp_ref.lib.http.message import HttpRequest
from mcp_ref.transports.streamable_http.posted_session import EndpointLimits
from tests.messages import complete, error_of, notification, request, result_of, stateless_request
from tests.raw_http_client import (
    BOTH_TYPES,
    JSON_TYPE,
    SSE_TYPE,
    HoldingServer,
    RawSession,
    Reply,
    http_session,
    log_message,
    messages,
    served_over_http,
)
from tests.settings import META, MODERN, PATIENCE, eventually

SPEAKS = pytest.mark.parametrize("speaks", [["2025-11-25", MODERN], [MODERN]], ids=["both eras", "modern alone"])


def _scope_of(message: Object) -> dict[str, object]:
    """Return the ASGI scope of a POST of a stateless request."""
    headers = {"host": "localhost", "content-type": "application/json", "accept": "application/json, text/event-stream",
               "mcp-protocol-version": MODERN, "mcp-method": str(message["method"])}  # fmt: skip
    params = message["params"]
    if isinstance(params, dict) and "name" in params:
        headers["mcp-name"] = str(params["name"])
    fields = [(name.encode(), text.encode()) for name, text in headers.items()]
    return {"type": "http", "method": "POST", "path": "/mcp", "scheme": "http", "query_string": b"", "headers": fields,
            "client": ("127.0.0.1", 1)}  # fmt: skip


def _inbox_of(message: Object) -> asyncio.Queue[dict[str, object]]:
    """Return a queue with the ASGI event of a message's body."""
    inbox = asyncio.Queue[dict[str, object]]()
    inbox.put_nowait({"type": "http.request", "body": json.dumps(message).encode()})
    return inbox


class Site(HoldingServer):
    """A held server that speaks some revisions."""

    def __init__(self, speaks: list[str] | None = None) -> None:
        super().__init__(speaks or ["2025-11-25", MODERN])


def call(tool: str, id: JSON = 1, /, level: str | None = "info", **arguments: JSON) -> Object:
    return stateless_request("tools/call", {"name": tool, "arguments": arguments}, id, logLevel=level)


def answered(text: str, id: JSON = 1) -> Object:
    return complete(id, content=[{"type": "text", "text": text}])


async def opened(reply: Reply) -> Reply:
    """Check that a reply is an event stream, and return it."""
    assert (reply.status, reply.kind) == (200, SSE_TYPE)
    # [2026-07-28 basic/transports/streamable-http#receiving-messages] proxies must not hold events back
    assert reply.headers["x-accel-buffering"] == "no" and "no-cache" in reply.headers["cache-control"]
    return reply


# ------------------------------------------------------------------------------------------------ answers


@SPEAKS
@pytest.mark.spec(
    "2026-07-28/basic/transports/streamable-http#sending-messages-9",
    "2026-07-28/basic/transports/streamable-http#intro-1",
    "2026-07-28/basic/transports/index#messages-2",
)
async def test_response_without_a_message_before_it_is_json(speaks: list[str]) -> None:
    async with served_over_http(Site(speaks).server) as web:
        reply = await RawSession(web).post(call("add", a=1, b=2))
        assert (reply.status, reply.kind, reply.json) == (200, JSON_TYPE, answered("3"))
        assert "mcp-session-id" not in reply.headers


@SPEAKS
@pytest.mark.spec(
    "2026-07-28/basic/transports/streamable-http#sending-messages-9",
    "2026-07-28/basic/transports/streamable-http#receiving-messages-1,3,4",
    "2026-07-28/basic/index#notifications-2",
)
async def test_response_after_other_messages_is_the_last_event_of_a_stream(speaks: list[str]) -> None:
    async with served_over_http(Site(speaks).server) as web:
        reply = await opened(await RawSession(web).post(call("count", to=3)))
        events = await reply.events()
        assert messages(events) == [log_message(0), log_message(1), log_message(2), answered("counted")]
        assert all("id" not in event and "retry" not in event for event in events)  # nothing to come back for


@pytest.mark.parametrize(
    ("accept", "json_responses"), [(JSON_TYPE, False), (BOTH_TYPES, True)], ids=["accept", "option"]
)
async def test_post_accepting_only_json_or_to_a_server_with_json_responses_gets_one_json_response(
    accept: str, json_responses: bool
) -> None:
    async with served_over_http(Site().server, json_responses=json_responses) as web:
        reply = await RawSession(web, accept=accept).post(call("count", to=3))
        assert (reply.status, reply.kind, reply.json) == (200, JSON_TYPE, answered("counted"))


async def test_post_accepting_only_events_gets_the_response_as_event_and_refusals_as_json() -> None:
    for json_responses in (False, True):
        async with served_over_http(Site().server, json_responses=json_responses) as web:
            talk = RawSession(web, accept=SSE_TYPE)
            reply = await opened(await talk.post(call("add", a=1, b=2)))
            assert await reply.messages() == [answered("3")]
            refused = await talk.post(stateless_request("no/such"))
            assert refused.status == 404
            error_of(refused.json, METHOD_NOT_FOUND)


async def test_subscription_of_a_client_that_accepts_no_event_stream_is_406() -> None:
    async with served_over_http(Site().server) as web:
        frame = stateless_request("subscriptions/listen", {"notifications": {}})
        reply = await RawSession(web, accept=JSON_TYPE).post(frame)
        assert (reply.status, "text/event-stream" in reply.why) == (406, True)


async def test_error_response_of_a_handler_has_the_status_of_its_code() -> None:
    server = Site().server

    @server.prompt()
    def broken() -> str:
        raise OSError("no")

    async with served_over_http(server) as web:
        for frame, code in (
            (call("none"), INVALID_PARAMS),
            (stateless_request("tools/call", {"name": "add", "arguments": 3}), INVALID_PARAMS),
            (stateless_request("tools/list", {"cursor": "x"}), INVALID_PARAMS),
            (stateless_request("prompts/get", {"name": "broken"}), -32603),
        ):
            reply = await RawSession(web).post(frame)
            assert (reply.status, reply.kind) == (200, JSON_TYPE)
            error_of(reply.json, code)


@SPEAKS
@pytest.mark.parametrize("method", ["no/such", "ping", "initialize", "resources/list", "roots/list", ""])
@pytest.mark.spec("2026-07-28/basic/transports/streamable-http#protocol-version-header-5")
async def test_unknown_method_is_404_with_the_json_rpc_error(speaks: list[str], method: str) -> None:
    async with served_over_http(Site(speaks).server) as web:
        reply = await RawSession(web).post(stateless_request(method, {}, "m"))
        assert (reply.status, reply.kind) == (404, JSON_TYPE)
        error_of(reply.json, METHOD_NOT_FOUND, "m")


# ------------------------------------------------------------------------------------------------ other messages

NOTIFICATIONS: list[Object] = [
    notification("notifications/cancelled", {"requestId": 1, "_meta": {f"{META}protocolVersion": MODERN}}),
    notification("notifications/initialized"),
    notification("notifications/no/such", {"a": 1}),
]


@SPEAKS
@pytest.mark.parametrize("message", NOTIFICATIONS, ids=lambda message: message["method"])
@pytest.mark.spec(
    "2026-07-28/basic/transports/streamable-http#sending-messages-7", "2026-07-28/basic/index#notifications-1"
)
async def test_notification_is_202_without_a_body(speaks: list[str], message: Object) -> None:
    held = Site(speaks)
    async with served_over_http(held.server) as web:
        talk = RawSession(web)
        waiting = await talk.send(call("hold", name="a"))
        await held.has_begun()
        reply = await talk.post(message, MCP_Protocol_Version=MODERN)
        assert (reply.status, reply.body) == (202, b"")
        held.go.set()
        assert (await talk.web.take(waiting)).json == answered("a")  # no request of another POST is cancelled


async def test_notification_to_a_modern_server_needs_no_header_but_a_wrong_one_is_400() -> None:
    async with served_over_http(Site([MODERN]).server) as web:
        assert (await RawSession(web).post(NOTIFICATIONS[1], MCP_Protocol_Version=None)).status == 202
        for version in ("2025-11-25", "x", ""):
            reply = await RawSession(web).post(NOTIFICATIONS[1], MCP_Protocol_Version=version)
            assert reply.status == 400 and "must be a modern revision" in reply.why


@SPEAKS
@pytest.mark.parametrize(
    "meta", [None, {}, {"progressToken": 1}], ids=["no meta", "empty meta", "meta without revision"]
)
@pytest.mark.parametrize("version", ["", "1.0", "2099-01-01", "x" * 1000])
@pytest.mark.spec("2026-07-28/basic/transports/streamable-http#protocol-version-header-4")
async def test_unsupported_version_header_is_named_before_a_missing_meta(
    speaks: list[str], meta: JSON, version: str
) -> None:
    params: Object = {} if meta is None else {"_meta": meta}
    async with served_over_http(Site(speaks).server) as web:
        reply = await RawSession(web).post(request("tools/list", params), MCP_Protocol_Version=version)
        supported: list[JSON] = [*sorted(speaks, reverse=True)]
        error = error_of(reply.json, UNSUPPORTED_PROTOCOL_VERSION)
        assert reply.status == 400 and error["data"] == {"supported": supported, "requested": version[:100]}
        reply = await RawSession(web).post(request("tools/list", params), MCP_Protocol_Version=MODERN)
        assert reply.status == 400 and error_of(reply.json, INVALID_PARAMS)  # this revision is supported


async def test_legacy_version_header_at_a_modern_server_is_unsupported() -> None:
    async with served_over_http(Site([MODERN]).server) as web:
        reply = await RawSession(web).post(request("tools/list"), MCP_Protocol_Version="2025-11-25")
        error = error_of(reply.json, UNSUPPORTED_PROTOCOL_VERSION)
        assert reply.status == 400 and error["data"] == {"supported": [MODERN], "requested": "2025-11-25"}


@SPEAKS
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", PARSE_ERROR),
        (b"{", PARSE_ERROR),
        (b"\xff", PARSE_ERROR),
        (b"3", INVALID_REQUEST),
        (b"[]", INVALID_REQUEST),
        (b"{}", INVALID_REQUEST),
        (json.dumps([stateless_request("tools/list")]).encode(), INVALID_REQUEST),
        (json.dumps([NOTIFICATIONS[1]]).encode(), INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": 1, "result": {}}', INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}}', INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": 1, "result": 3}', INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": null, "method": "tools/list"}', INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": 1, "result": {}, "method": 3}', INVALID_REQUEST),
    ],
)
@pytest.mark.spec("2026-07-28/basic/transports/streamable-http#sending-messages-8")
async def test_post_of_a_response_or_batch_is_400(speaks: list[str], body: bytes, code: int) -> None:
    async with served_over_http(Site(speaks).server) as web:
        reply = await RawSession(web).post(body, MCP_Protocol_Version=MODERN)
        assert reply.status == 400
        assert reply.json["error"]["code"] == code and reply.json.get("id", 1) == 1


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "HEAD", "PATCH"])
@pytest.mark.spec("2026-07-28/basic/transports/streamable-http#earlier-streamable-http-revisions-1")
async def test_get_and_delete_are_405_on_a_modern_server(method: str) -> None:
    async with served_over_http(Site([MODERN]).server) as web:
        for lines in ((), ("Mcp-Session-Id: x",), (f"MCP-Protocol-Version: {MODERN}",), ("Last-Event-ID: 1",)):
            reply = await web.send(method, "/mcp", b"", f"Accept: {BOTH_TYPES}", *lines)
            head = await asyncio.wait_for(reply.reader.readuntil(b"\r\n\r\n"), PATIENCE)
            assert head.startswith(b"HTTP/1.1 405 ") and b"\r\nAllow: POST, OPTIONS\r\n" in head
        for path in ("/sse", "/messages"):
            assert (await web.ask("GET", path, b"", f"Accept: {SSE_TYPE}")).status == 404


# ------------------------------------------------------------------------------------------------ no sessions


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_get_and_delete_naming_a_modern_revision_are_405_beside_the_legacy_era(method: str) -> None:
    async with http_session(Site().server) as talk:
        headers = talk.lines(Content_Type=None, MCP_Protocol_Version=MODERN)
        reply = await talk.web.ask(method, talk.web.site.path, b"", *headers)
        assert reply.status == 405 and reply.headers["allow"] == "POST, OPTIONS"
        assert f"{MODERN} has no {method}" in reply.why
        assert (await talk.post(request("ping"))).status == 200


@SPEAKS
@pytest.mark.spec("2026-07-28/basic/transports/streamable-http#earlier-streamable-http-revisions-2,3")
async def test_session_id_of_a_request_is_ignored_and_no_session_begins(speaks: list[str]) -> None:
    async with served_over_http(Site(speaks).server) as web:
        for id in (None, "x", "", "\u00e9"):
            for frame in (call("add", a=1, b=2), stateless_request("server/discover"), call("count", to=1)):
                reply = await RawSession(web, id).post(frame, Last_Event_ID="7")
                assert reply.status == 200 and "mcp-session-id" not in reply.headers
        assert not web.site._endpoint.sessions


async def test_stateless_request_with_a_session_id_is_served_without_the_session() -> None:
    held = Site()
    async with http_session(held.server, capabilities={"roots": {}}) as talk:
        reply = await talk.post(call("ask"))
        assert reply.status == 400 and "mcp-session-id" not in reply.headers
        error_of(reply.json, -32021)
        listed = await talk.post(request("tools/list"))
        assert listed.status == 200 and "resultType" not in result_of(listed.json)
        assert (await talk.delete()).status == 204
        assert (await talk.post(call("add", a=1, b=2))).json == answered("3")


async def test_batch_in_a_session_serves_no_stateless_request() -> None:
    async with http_session(Site(["2025-03-26", MODERN]).server, "2025-03-26") as talk:
        members = [
            call("add", 1, a=1, b=2),
            stateless_request("server/discover", id=2),
            stateless_request("subscriptions/listen", id=3),
        ]
        reply = await talk.post([*members])
        answers = reply.json
        assert reply.status == 200
        by_id = {answer["id"]: answer for answer in answers if isinstance(answer, dict)}
        assert "resultType" not in result_of(by_id[1])
        for id in (2, 3):
            error_of(by_id[id], METHOD_NOT_FOUND, id)


# ------------------------------------------------------------------------------------------------ leaving


@pytest.mark.parametrize("say", [False, True], ids=["before an answer in JSON", "in the middle of a stream"])
@pytest.mark.parametrize("how", ["reset", "close", "half"])
@pytest.mark.spec(
    "2026-07-28/basic/transports/streamable-http#cancellation-1,2,3",
    "2026-07-28/basic/patterns/cancellation#transport-specific-cancellation-1",
)
async def test_disconnection_cancels_a_request_of_the_modern_era(
    say: bool, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    held = Site()
    async with served_over_http(held.server) as web:
        talk = RawSession(web)
        one, other = await talk.send(call("hold", name="a", say=say)), await talk.send(call("hold", name="b"))
        assert {await held.has_begun(), await held.has_begun()} == {"a", "b"}
        if say:
            assert await (await web.take(one)).message() == log_message("a begins")
        if how == "reset":
            await one.cut()
        elif how == "close":
            one.writer.close()
        else:  # which looks the same
            one.writer.write_eof()
        await eventually(lambda: held.ended == ["a was cancelled"])
        if how == "half" and not say:
            assert await asyncio.wait_for(one.reader.read(), PATIENCE) == b""
        held.go.set()
        assert (await web.take(other)).json == answered("b")
        assert held.ended == ["a was cancelled", "b came to its end"]
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]  # nothing is wrong


@pytest.mark.parametrize("how", ["reset", "half"])
@pytest.mark.parametrize("say", [False, True], ids=["before an answer in JSON", "in the middle of a stream"])
@pytest.mark.spec("2026-07-28/basic/transports/streamable-http#cancellation-3")
async def test_handler_that_ignores_its_cancellation_ends_without_a_response(
    how: str, say: bool, caplog: pytest.LogCaptureFixture
) -> None:
    server, go, steps = Server("s"), asyncio.Event(), list[str]()

    @server.tool()
    async def insists(context: Context) -> str:
        if say:
            await context.log("info", "it begins")
        try:
            steps.append("begun")
            await go.wait()
        except asyncio.CancelledError:
            steps.append("cancelled")
            await go.wait()
        await context.log("info", "it goes on")
        steps.append("done")
        return "its result"

    async with served_over_http(server) as web:
        reply = await RawSession(web).send(call("insists"))
        await eventually(lambda: steps == ["begun"])
        if say:
            assert await (await web.take(reply)).message() == log_message("it begins")
        if how == "reset":
            await reply.cut()
        else:
            reply.writer.write_eof()
        await eventually(lambda: steps == ["begun", "cancelled"])
        go.set()
        await eventually(lambda: steps == ["begun", "cancelled", "done"])
        if how == "half":
            assert await asyncio.wait_for(reply.reader.read(), PATIENCE) == b""
        await eventually(lambda: not web.site._endpoint.requests)
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]


@pytest.mark.parametrize("error", [asyncio.CancelledError, SystemExit, KeyboardInterrupt, GeneratorExit])
async def test_handler_exception_ends_its_request_only(error: type[BaseException]) -> None:
    server = Server("s")

    @server.prompt()
    async def p() -> str:
        raise error

    async with served_over_http(server) as web:
        for _ in range(2):
            reply = await RawSession(web).post(stateless_request("prompts/get", {"name": "p"}))
            assert reply.status == 200
            assert error_of(reply.json, -32603)["message"] == "Internal error"


@pytest.mark.parametrize("say", [False, True], ids=["a response in JSON", "a stream"])
@pytest.mark.parametrize("site", ["http", "asgi"])
async def test_handler_that_cancels_its_own_task_gets_an_error_response(site: str, say: bool) -> None:
    server = Server("s")

    @server.tool()
    async def cancel_itself(context: Context) -> str:
        if say:
            await context.log("info", "it begins")
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.Event().wait()
        return ""

    message = call("cancel_itself")
    if site == "http":
        async with served_over_http(server) as web, asyncio.timeout(PATIENCE):
            reply = await RawSession(web).post(message)
            last = (await reply.messages())[-1] if say else reply.json
    else:
        inbox, pieces = _inbox_of(message), list[bytes]()

        async def send(event: Mapping[str, object]) -> None:
            pieces.append(cast(bytes, event.get("body", b"")))

        await server.asgi()(_scope_of(message), inbox.get, send)
        last = json.loads(b"".join(pieces).splitlines()[-2 if say else -1].removeprefix(b"data: "))
    assert "stopped serving the request" in error_of(last, -32603)["message"]


# ------------------------------------------------------------------------------------------------ streams


async def test_keep_alive_comments_are_sent_on_a_silent_stream() -> None:
    held = Site()
    async with served_over_http(held.server, limits=EndpointLimits(keep_alive=0.01)) as web:
        talk = RawSession(web)
        streams = [await talk.post(call("hold", name="a", say=True))]
        streams.append(await talk.post(stateless_request("subscriptions/listen", {"notifications": {}}, 2)))
        for stream in streams:
            await stream.message()
            for _ in range(2):
                assert (await stream.block() or "").startswith(":")
        held.go.set()
        assert (await streams[0].messages())[-1] == answered("a")


async def test_client_that_does_not_read_makes_only_its_own_tool_wait() -> None:
    server, number, size, sent = Server("s"), 400, 64 * 1024, 0

    @server.tool()
    async def talk_on(context: Context) -> None:
        nonlocal sent
        for _ in range(number):
            await context.log("info", "x" * size)
            sent += 1

    @server.tool()
    async def add(a: int, b: int) -> TextContent:
        return TextContent(str(a + b))

    async with served_over_http(server) as web:
        talk = RawSession(web)
        slow = await talk.post(call("talk_on"))
        slow.writer.transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(100):
            assert (await talk.post(call("add", a=1, b=2))).json == answered("3")
        assert sent < number * 3 / 4  # only the buffers of the sockets
        slow.writer.transport.resume_reading()  # type: ignore[attr-defined]
        came = await slow.messages()
        assert len(came) == number + 1 and result_of(came[-1])["content"] == []


@pytest.mark.spec("2026-07-28/server/utilities/logging#per-request-log-level-2")
async def test_many_are_served_at_once_and_each_hears_what_belongs_to_its_request() -> None:
    held, number = Site(), 50
    async with served_over_http(held.server) as web:
        talk = RawSession(web)
        # all with the same id: it is unique among those of one client, and these may be many
        sent = [await talk.send(call("hold", 1, name=f"n{i}", say=True)) for i in range(number)]
        replies = [await web.take(reply) for reply in sent]
        listening = await talk.post(
            stateless_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, 1)
        )
        await listening.message()
        for i, reply in enumerate(replies):
            assert await reply.message() == log_message(f"n{i} begins")
        held.announce()
        held.go.set()
        for i, reply in enumerate(replies):
            assert await reply.messages() == [log_message(f"n{i} goes on"), answered(f"n{i}")]
        assert (await listening.object())["method"] == "notifications/tools/list_changed"


@pytest.mark.spec(
    "2026-07-28/basic/transports/streamable-http#receiving-messages-2",
    "2026-07-28/basic/patterns/index#intro-1",
    "2026-07-28/basic/patterns/mrtr#intro-1",
)
async def test_elicitation_ends_the_stream_with_an_input_required_result() -> None:
    server = Server("s")

    @server.tool()
    async def ask(context: Context) -> TextContent:
        await context.log("info", "asking")
        return TextContent(str(len(await context.list_roots())))

    async with served_over_http(server) as web:
        frame = stateless_request("tools/call", {"name": "ask"}, 1, {"roots": {}}, logLevel="info")
        logged, answer = await (await RawSession(web).post(frame)).messages()
        assert logged == log_message("asking")
        result = result_of(answer)
        assert result["resultType"] == "input_required"
        assert result["inputRequests"] == {"1": {"method": "roots/list", "params": {}}}


@pytest.mark.spec("2026-07-28/server/tools#security-considerations-3")
async def test_stateless_requests_and_subscriptions_have_limits_of_their_own() -> None:
    # The package limits concurrent requests. A rate for each client is the policy of the server's author.
    held = Site()
    async with served_over_http(held.server, limits=EndpointLimits(requests=2, subscriptions=1)) as web:
        talk, listen = RawSession(web), stateless_request("subscriptions/listen", {"notifications": {}})
        waiting = [await talk.send(call("hold", name=name)) for name in ("a", "b")]
        assert {await held.has_begun(), await held.has_begun()} == {"a", "b"}
        listening = await talk.post(listen)
        await listening.message()
        for frame in (call("add", a=1, b=2), listen):
            refused = await talk.post(frame)
            assert refused.status == 503 and refused.headers["retry-after"] and "already serves" in refused.why
        held.go.set()
        assert [(await web.take(reply)).status for reply in waiting] == [200, 200]
        assert (await talk.post(call("add", a=1, b=2))).json == answered("3")
        await listening.cut()
        await eventually(lambda: not web.site._endpoint._subscriptions)
        assert (await talk.post(listen)).status == 200


def named(request: HttpRequest) -> str | None:
    return request.headers.get("authorization")


async def test_stateless_requests_and_subscriptions_of_one_caller_leave_places_to_another() -> None:
    held, limits = Site(), EndpointLimits(requests_per_caller=1, subscriptions_per_caller=1)
    async with served_over_http(held.server, limits=limits, authenticate=named) as web:
        talk, other = (RawSession(web, authorization=f"Bearer {name}") for name in ("me", "other"))
        listen = stateless_request("subscriptions/listen", {"notifications": {}})
        waiting = await talk.send(call("hold", name="a"))
        assert await held.has_begun() == "a"
        listening = await talk.post(listen)
        await listening.message()
        for frame in (call("add", a=1, b=2), listen):
            refused = await talk.post(frame)
            why = "your 1 requests are still in flight; try again later"
            assert (refused.status, refused.headers["retry-after"], refused.why) == (503, "5", why)
            assert (await other.post(frame)).status == 200
        held.go.set()
        assert (await web.take(waiting)).status == 200
        await listening.cut()
        await eventually(lambda: len(web.site._endpoint._subscriptions) == 1)
        assert (await talk.post(listen)).status == (await talk.post(call("add", a=1, b=2))).status == 200


async def test_asgi_call_of_subscriptions_listen_that_is_cancelled_gives_its_place_back() -> None:
    application = Server("s").asgi(limits=EndpointLimits(subscriptions_per_caller=1))
    message = stateless_request("subscriptions/listen", {"notifications": {}})
    for _ in range(3):
        inbox, statuses = _inbox_of(message), []

        async def send(message: Mapping[str, object]) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])  # noqa: B023
                serving.cancel()  # noqa: B023

        serving: asyncio.Task[None] = asyncio.Task(application(_scope_of(message), inbox.get, send))  # type: ignore[arg-type]
        await asyncio.wait([serving], timeout=PATIENCE)
        assert (serving.cancelled(), statuses) == (True, [200])


async def test_asgi_call_of_a_tool_that_is_cancelled_ends_as_cancelled() -> None:
    held, message = HoldingServer(["2025-11-25", MODERN]), call("hold", name="a")
    inbox = _inbox_of(message)

    async def send(event: Mapping[str, object]) -> None:
        pass

    serving = asyncio.ensure_future(held.server.asgi()(_scope_of(message), inbox.get, send))
    assert await held.has_begun() == "a"
    serving.cancel()
    await asyncio.wait([serving], timeout=PATIENCE)
    assert serving.cancelled() and held.ended == ["a was cancelled"]


# ------------------------------------------------------------------------------------------------ ends


async def test_stopping_server_ends_its_streams_and_refuses_new_requests_with_503() -> None:
    held = Site()
    async with served_over_http(held.server) as web:
        talk = RawSession(web)
        listening = await talk.post(stateless_request("subscriptions/listen", {"notifications": {}}, "l"))
        waiting = await talk.post(call("hold", name="a", say=True))
        await listening.message()
        closing = asyncio.create_task(web.site.close())
        assert await listening.messages() == [complete("l") | {"result": _ended("l")}]
        assert (await talk.post(call("add", a=1, b=2))).status == 503
        held.go.set()  # requests in flight have time to end
        assert (await waiting.messages())[-1] == answered("a")
        await closing


def _ended(id: JSON) -> Object:
    result = result_of(complete())
    meta = result["_meta"]
    return {**result, "_meta": {**meta, f"{META}subscriptionId": id}}


async def test_requests_in_flight_end_when_the_listener_closes() -> None:
    held = Site()
    async with served_over_http(held.server) as web:
        waiting = await RawSession(web).post(call("hold", name="a", say=True))
        assert await waiting.message() == log_message("a begins")
    assert held.ended == ["a was cancelled"]


async def test_trace_sees_every_frame_of_stateless_requests() -> None:
    held, seen = Site(), list[tuple[str, JSON]]()
    held.server.trace = lambda direction, frame: seen.append((direction, json.loads(frame)))
    async with served_over_http(held.server) as web:
        frame = call("count", to=1)
        await (await RawSession(web).post(frame)).messages()
        await RawSession(web).post(NOTIFICATIONS[0])
        assert seen == [("<-", frame), ("->", log_message(0)), ("->", answered("counted")), ("<-", NOTIFICATIONS[0])]


async def test_close_stream_does_nothing_for_a_stateless_request() -> None:
    server = Server("s")

    @server.tool()
    async def let_go(context: Context) -> TextContent:
        await context.log("info", "begun")
        return TextContent(str(context.close_stream()))

    async with served_over_http(server) as web:
        assert (await (await RawSession(web).post(call("let_go"))).messages())[-1] == answered("False")


# ------------------------------------------------------------------------------------------------ authentication


async def test_preflight_allows_the_headers_that_a_request_needs() -> None:
    origin = "http://localhost:3000"
    for speaks in ([MODERN], ["2025-11-25", MODERN]):
        async with served_over_http(Site(speaks).server) as web:
            wanted = "Access-Control-Request-Headers: mcp-param-region,mcp-method, Mcp-Param-A_b,x-evil,mcp-param-"
            asked = await web.ask("OPTIONS", "/mcp", b"", f"Origin: {origin}", wanted)
            assert asked.status == 204
            allowed = [name.strip().lower() for name in asked.headers["access-control-allow-headers"].split(",")]
            for name in ("mcp-protocol-version", "mcp-method", "mcp-name", "mcp-param-region", "mcp-param-a_b"):
                assert name in allowed
            assert "x-evil" not in allowed and "mcp-param-" not in allowed
            assert "POST" in asked.headers["access-control-allow-methods"]
            reply = await RawSession(web).post(call("add", a=1, b=2), Origin=origin)
            assert reply.json == answered("3") and reply.headers["access-control-allow-origin"] == origin
