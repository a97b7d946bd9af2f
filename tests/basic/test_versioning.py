"""Stateless requests: their required metadata, and that nothing else decides how they are served."""

from __future__ import annotations

import asyncio

import pytest

from mcp_ref import Client, Context, Server, TextContent
from mcp_ref.basic.versioning import is_stateless, read_request_meta
from mcp_ref.features.task_augmentation import TASKS_EXTENSION
from mcp_ref.jsonrpc.errors import ProtocolError
from mcp_ref.jsonrpc.messages import INVALID_PARAMS, INVALID_REQUEST, JSON, METHOD_NOT_FOUND, Object
from mcp_ref.revisions import LEGACY, REVISIONS
from tests.matrix import CONNECTED_KINDS, LEGACY_REVISIONS, STATELESS_KINDS
from tests.messages import (
    Received,
    error_of,
    initialize,
    notification,
    request,
    result_of,
    server_info_meta,
    stateless_request,
    text_of,
)
from tests.raw_http_client import RawSession, served_over_http
from tests.raw_peers import Wire, connected_client, raw_client
from tests.settings import META, MODERN, PATIENCE

UNSUPPORTED, MISSING_CAPABILITY = -32022, -32021
ALL = [revision.name for revision in reversed(REVISIONS)]
SPEAKS = pytest.mark.parametrize("speaks", [ALL, [MODERN]], ids=["both eras", "modern alone"])

REMOVED: dict[str, Object] = {
    "initialize": {"protocolVersion": MODERN, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}},
    "ping": {},
    "logging/setLevel": {"level": "debug"},
    "resources/subscribe": {"uri": "test://a"},
    "resources/unsubscribe": {"uri": "test://a"},
}
NEVER_A_REQUEST = [
    "roots/list", "sampling/createMessage", "elicitation/create", "notifications/cancelled", "no/such", "",
]  # fmt: skip


def make_server(speaks: list[str] | None = None) -> Server:
    """Return a server with a tool that tells the metadata of its request."""
    server = Server("s", revisions=speaks or ALL)

    @server.tool()
    async def look(context: Context) -> TextContent:
        for level in ("debug", "error"):
            await context.log(level, level)
        info = context.client_info
        able = ",".join(sorted(context.channel.peer_capabilities))
        return TextContent(f"{context.revision} {info.name if info else None} {able}")

    @server.tool()
    async def ask(context: Context) -> TextContent:
        return TextContent(str(len(await context.list_roots())))

    @server.tool()
    async def trace(context: Context) -> TextContent:
        return TextContent(str([context.meta.get(name) for name in ("traceparent", "tracestate", "baggage")]))

    @server.resource("test://a")
    def a() -> str:
        return "a"

    return server


LOOK: Object = {"name": "look", "arguments": {}}
ASK: Object = {"name": "ask", "arguments": {}}


async def logged(wire: Wire, frame: Object) -> tuple[list[JSON], Object]:
    """Send a request; gives the levels of the log messages before its answer, and that."""
    await wire.send(frame)
    levels: list[JSON] = []
    while "method" in (came := await wire.receive_object()):
        assert came["method"] == "notifications/message" and isinstance(came["params"], dict)
        levels.append(came["params"]["level"])
    return levels, came


# ------------------------------------------------------------------------------------------------ a request alone


@STATELESS_KINDS
@SPEAKS
@pytest.mark.spec(
    "2026-07-28/basic/index#intro-1",
    "2026-07-28/basic/index#messages-1",
    "2026-07-28/basic/transports/index#custom-transports-1",  # "memory" is one
    "2026-07-28/basic/index#result-responses-2,3",
    "2026-07-28/basic/index#resulttype-1",
    "2026-07-28/basic/index#meta-13",
    "2026-07-28/server/discover#discoverresult-1",
)
async def test_result_of_a_stateless_request_has_result_type_and_server_info(kind: str, speaks: list[str]) -> None:
    server = make_server(speaks)
    server.prompt("p")(lambda x="": "hi")
    server.resource("test://{x}")(lambda x: x)
    server.completion("p", "x")
    async with raw_client(server, kind) as wire:
        asked: list[tuple[str, Object]] = [
            ("server/discover", {}),
            ("tools/list", {}),
            ("prompts/list", {}),
            ("prompts/get", {"name": "p"}),
            ("resources/list", {}),
            ("resources/templates/list", {}),
            ("resources/read", {"uri": "test://a"}),
            ("tools/call", LOOK),
        ]
        for method, params in asked:
            result = result_of(await wire.ask_stateless(method, params))
            assert result["resultType"] == "complete" and result["_meta"] == server_info_meta(), method
        result = result_of(await wire.ask_stateless("tools/call", ASK, capabilities={"roots": {}}))
        assert result["resultType"] == "input_required" and result["_meta"] == server_info_meta()


@STATELESS_KINDS
@pytest.mark.parametrize("id", [0, -1, 2**53, "", "0", "q", "\u00e4\n"])
@pytest.mark.spec(
    "2026-07-28/basic/index#result-responses-1",
    "2026-07-28/basic/index#error-responses-1,2,3",
    "2026-07-28/basic/index#requests-1",
)
async def test_response_has_the_id_of_its_request(kind: str, id: JSON) -> None:
    async with raw_client(make_server(), kind) as wire:
        answer = await wire.ask_stateless("tools/call", LOOK, id)
        assert answer["id"] == id and type(answer["id"]) is type(id)
        for wrong in (
            stateless_request("tools/call", {}, id),
            stateless_request("no/such", {}, id),
            stateless_request("tools/list", {}, id, clientCapabilities=None),
            stateless_request("tools/list", {}, id, protocolVersion="1900-01-01"),
            stateless_request("tools/call", ASK, id),
        ):
            await wire.send(wrong)
            answer = await wire.receive_object()
            assert "error" in answer and answer["id"] == id and type(answer["id"]) is type(id)


@CONNECTED_KINDS
@pytest.mark.parametrize("id", [None, True, 1.5, [], {}])
@pytest.mark.spec("2026-07-28/basic/index#requests-2")
async def test_request_id_of_another_type_is_refused(kind: str, id: JSON) -> None:
    async with raw_client(make_server(), kind) as wire:
        answer = await wire.ask_stateless("tools/list", {}, id)
        assert answer["error"]["code"] == INVALID_REQUEST
        assert "id" not in answer
        await wire.nothing_else()


@CONNECTED_KINDS
@pytest.mark.spec("2026-07-28/basic/index#requests-3")
async def test_request_id_may_be_reused_once_it_has_a_response(kind: str) -> None:
    async with raw_client(make_server(), kind) as wire:
        for _ in range(2):
            assert "result" in await wire.ask_stateless("tools/list", {}, 7)
        await wire.send(stateless_request("subscriptions/listen", {"notifications": {}}, 7))
        assert (await wire.receive_object())["method"] == "notifications/subscriptions/acknowledged"
        error_of(await wire.ask_stateless("tools/list", {}, 7), INVALID_REQUEST, 7)
        assert "result" in await wire.ask_stateless("tools/list", {}, "7")


# ------------------------------------------------------------------------------------------------ required metadata


@STATELESS_KINDS
@pytest.mark.parametrize(
    "meta",
    [
        {"protocolVersion": 20260728}, {"protocolVersion": [MODERN]}, {"clientCapabilities": None},
        {"clientCapabilities": []}, {"clientCapabilities": "roots"}, {"clientCapabilities": False},
    ],
    ids=str,
)  # fmt: skip
@SPEAKS
@pytest.mark.spec("2026-07-28/basic/index#meta-7")
async def test_meta_without_a_required_field_is_malformed_request(kind: str, speaks: list[str], meta: Object) -> None:
    async with raw_client(make_server(speaks), kind) as wire:
        for method in ("tools/list", "tools/call", "server/discover", "no/such", "ping"):
            error = error_of(await wire.ask_stateless(method, LOOK, **meta), INVALID_PARAMS)  # type: ignore[arg-type]
            assert META + next(iter(meta)) in str(error["message"])


@STATELESS_KINDS
@pytest.mark.parametrize("meta", [None, {}, [], "x", {"progressToken": 1}, {META + "clientCapabilities": {}}], ids=str)
@pytest.mark.spec("2026-07-28/basic/index#meta-7")
async def test_request_without_revision_is_malformed_on_a_modern_server(kind: str, meta: JSON) -> None:
    async with raw_client(make_server([MODERN]), kind) as wire:
        for method in ("tools/list", "tools/call", "ping", "server/discover", "no/such"):
            params: Object = {**LOOK} if meta is None else {**LOOK, "_meta": meta}
            error = error_of(await wire.ask(method, params, 1), INVALID_PARAMS)
            assert f"{META}protocolVersion" in str(error["message"])
        error = error_of(await wire.ask("tools/list", None, 1), INVALID_PARAMS)
        assert str(error["message"]).endswith(f"it must have {META}protocolVersion and {META}clientCapabilities")


@pytest.mark.parametrize(
    "wrong",
    [{}, {"clientCapabilities": {}}, {"protocolVersion": MODERN}, {"protocolVersion": 1, "clientCapabilities": {}}],
)
@pytest.mark.spec("2026-07-28/basic/index#meta-8")
async def test_request_without_meta_is_http_400_even_with_version_header(wrong: Object) -> None:
    for speaks in (ALL, [MODERN]):
        async with served_over_http(make_server(speaks)) as web:
            meta: Object = {META + name: value for name, value in wrong.items()}
            frame = request("tools/list", {"_meta": meta} if wrong else {})
            reply = await RawSession(web).post(frame, MCP_Protocol_Version=MODERN, Mcp_Method="tools/list")
            assert reply.status == 400
            error_of(reply.json, INVALID_PARAMS)


@pytest.mark.parametrize("info", [None, "me", {}, {"name": 1}, {"name": "raw"}, []])
@pytest.mark.spec("2026-07-28/basic/index#meta-14")
async def test_client_info_is_optional_and_decides_nothing(info: JSON) -> None:
    async with raw_client(make_server()) as wire:
        assert text_of(await wire.ask_stateless("tools/call", LOOK, clientInfo=info)) == f"{MODERN} None "


@pytest.mark.spec("2026-07-28/basic/index#meta-17")
async def test_traceparent_passes_through_unchanged() -> None:
    async with raw_client(make_server()) as wire:
        said = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01", "tracestate": "a=b"}
        answer = await wire.ask_stateless("tools/call", {"name": "trace"}, 1, None, baggage="k=v", **said)
        assert text_of(answer) == str([*said.values(), "k=v"])


@pytest.mark.spec("2026-07-28/basic/versioning#extension-negotiation-2")
async def test_extension_unknown_to_the_server_falls_back_to_the_core_protocol() -> None:
    async with raw_client(make_server()) as wire:
        plain = await wire.ask_stateless("tools/list")
        able: Object = {"extensions": {"com.example/x": {"a": 1}}}
        assert await wire.ask_stateless("tools/list", {}, 1, able) == plain
        assert text_of(await wire.ask_stateless("tools/call", LOOK, 1, able)) == f"{MODERN} raw extensions"


# ------------------------------------------------------------------------------------------------ its revision


@STATELESS_KINDS
@SPEAKS
@pytest.mark.parametrize("version", ["1900-01-01", "2026-07-29", "9999-99-99", "v999", "", *(map(str, LEGACY))])
@pytest.mark.spec("2026-07-28/basic/versioning#protocol-version-negotiation-1")
async def test_unsupported_revision_error_lists_the_supported_ones(kind: str, speaks: list[str], version: str) -> None:
    async with raw_client(make_server(speaks), kind) as wire:
        for method in ("tools/list", "server/discover", "no/such"):
            error = error_of(await wire.ask_stateless(method, protocolVersion=version), UNSUPPORTED)
            assert error["data"] == {"supported": speaks, "requested": version}


@SPEAKS
@pytest.mark.parametrize("version", ["1900-01-01", "2025-11-25"])
@pytest.mark.spec("2026-07-28/basic/transports/streamable-http#protocol-version-header-4")
async def test_unsupported_revision_is_http_400(speaks: list[str], version: str) -> None:
    async with served_over_http(make_server(speaks)) as web:
        reply = await RawSession(web).post(stateless_request("tools/list", protocolVersion=version))
        assert reply.status == 400
        assert error_of(reply.json, UNSUPPORTED)["data"] == {"supported": speaks, "requested": version}


def test_unsupported_revision_error_quotes_a_long_name_shortened() -> None:
    with pytest.raises(ProtocolError) as caught:
        read_request_meta(stateless_request("x", protocolVersion="x" * 5000)["params"], REVISIONS)
    assert isinstance(caught.value.data, dict) and caught.value.data["requested"] == "x" * 100


@pytest.mark.parametrize(
    ("params", "it_does"),
    [({}, False), ({"_meta": None}, False), ({"_meta": []}, False), ({"_meta": {}}, False)]
    + [({"_meta": {f"{META}protocolVersion": value}}, True) for value in (None, "", 0, MODERN, "2025-11-25")],
)
def test_request_with_a_revision_in_meta_is_stateless(params: Object, it_does: bool) -> None:
    assert is_stateless(params) is it_does


# ------------------------------------------------------------------------------------------------ methods


@STATELESS_KINDS
@SPEAKS
@pytest.mark.parametrize("method", [*REMOVED, *NEVER_A_REQUEST])
async def test_legacy_method_in_a_stateless_request_is_method_not_found(
    kind: str, speaks: list[str], method: str
) -> None:
    async with raw_client(make_server(speaks), kind) as wire:
        error_of(await wire.ask_stateless(method, REMOVED.get(method, {})), METHOD_NOT_FOUND)


@pytest.mark.parametrize("method", [*REMOVED])
async def test_legacy_method_in_a_stateless_request_leaves_the_session_unchanged(method: str) -> None:
    async with connected_client(make_server()) as wire:
        error_of(await wire.ask_stateless(method, REMOVED[method]), METHOD_NOT_FOUND)
        levels, answer = await logged(wire, request("tools/call", LOOK))
        assert levels == ["debug", "error"] and text_of(answer) == "2025-11-25 raw "
        await wire.nothing_more()


async def test_method_of_a_feature_is_served_once_it_is_offered() -> None:
    server = Server("s")
    async with raw_client(server) as wire:
        for method in ("tools/list", "tools/call", "prompts/list", "prompts/get", "completion/complete"):
            error_of(await wire.ask_stateless(method, {"name": "x"}), METHOD_NOT_FOUND)
        server.tool("t")(lambda: None)
        assert "tools" in result_of(await wire.ask_stateless("tools/list"))


# ------------------------------------------------------------------------------------------------ both eras at once


@STATELESS_KINDS
@LEGACY_REVISIONS
@pytest.mark.spec("2026-07-28/basic/index#statelessness-2")
async def test_server_serves_both_eras_on_one_connection(kind: str, revision: str) -> None:
    async with raw_client(make_server(), kind) as wire:
        assert text_of(await wire.ask_stateless("tools/call", LOOK)) == f"{MODERN} raw "
        await wire.send(initialize(revision, {"roots": {}}))
        assert result_of(await wire.receive_object())["protocolVersion"] == revision
        assert text_of(await wire.ask_stateless("tools/call", LOOK)) == f"{MODERN} raw "
        await wire.send(notification("notifications/initialized"))
        assert text_of(await wire.ask_stateless("tools/call", LOOK)) == f"{MODERN} raw "
        listed = result_of(await wire.ask("tools/list", {}))
        assert "tools" in listed and not listed.keys() & {"resultType", "_meta", "ttlMs", "cacheScope"}
        assert result_of(await wire.ask_stateless("tools/list"))["resultType"] == "complete"


@STATELESS_KINDS
@pytest.mark.spec("2026-07-28/basic/versioning#backward-compatibility-with-initialization-based-versions-2")
async def test_initialize_on_a_modern_server_is_refused_with_its_revisions(kind: str) -> None:
    async with raw_client(make_server([MODERN]), kind) as wire:
        await wire.send(initialize("2025-11-25"))
        error = error_of(await wire.receive_object(), UNSUPPORTED, "init")
        assert error["data"] == {"supported": [MODERN], "requested": "2025-11-25"}


@pytest.mark.parametrize("version", [None, "2025-11-25", MODERN])
@pytest.mark.spec("2026-07-28/basic/versioning#backward-compatibility-with-initialization-based-versions-2")
async def test_initialize_on_a_modern_server_is_http_400(version: str | None) -> None:
    async with served_over_http(make_server([MODERN])) as web:
        reply = await RawSession(web).post(initialize(), MCP_Protocol_Version=version)
        assert reply.status == 400 and "mcp-session-id" not in reply.headers
        assert error_of(reply.json, UNSUPPORTED, "init")["data"] == {"supported": [MODERN], "requested": "2025-11-25"}


@CONNECTED_KINDS
async def test_legacy_server_refuses_stateless_requests_as_legacy(kind: str) -> None:
    """Send no modern error: a dual-era client that sees one would not fall back to the handshake."""

    server = make_server([str(revision) for revision in LEGACY])
    async with raw_client(server, kind) as wire:
        error_of(await wire.ask_stateless("server/discover"), INVALID_REQUEST)
        await wire.send(initialize())
        assert result_of(await wire.receive_object())["protocolVersion"] == "2025-11-25"
        await wire.send(notification("notifications/initialized"))
        error_of(await wire.ask_stateless("server/discover"), METHOD_NOT_FOUND)
        assert "resultType" not in result_of(await wire.ask_stateless("tools/list"))


async def test_legacy_server_on_http_refuses_2026_07_28_without_a_modern_error() -> None:
    async with served_over_http(make_server([str(revision) for revision in LEGACY])) as web:
        reply = await RawSession(web).post(stateless_request("server/discover"))
        assert reply.status == 400 and "is not supported here" in reply.why


# ------------------------------------------------------------------------------------------------ nothing leaks


@STATELESS_KINDS
@pytest.mark.spec(
    "2026-07-28/basic/index#statelessness-1",
    "2026-07-28/server/utilities/logging#per-request-log-level-1",
    "2026-07-28/changelog#major-changes-4",
)
async def test_log_level_of_one_request_does_not_affect_another(kind: str) -> None:
    if kind == "http-json":
        pytest.skip("answers by JSON alone leave no way to tell")
    async with connected_client(make_server(), kind) as wire:
        assert await wire.ask("logging/setLevel", {"level": "error"}) == {"jsonrpc": "2.0", "id": "q", "result": {}}
        silent, loud = (
            stateless_request("tools/call", LOOK),
            stateless_request("tools/call", LOOK, logLevel="debug"),
        )
        for frame, expected in (
            (silent, []),
            (loud, ["debug", "error"]),
            (silent, []),
            (stateless_request("tools/call", LOOK, logLevel="error"), ["error"]),
            (stateless_request("tools/call", LOOK, logLevel="emergency"), []),
            (request("tools/call", LOOK), ["error"]),
        ):
            assert (await logged(wire, frame))[0] == expected


@STATELESS_KINDS
@pytest.mark.spec("2026-07-28/basic/index#statelessness-1", "2026-07-28/basic/index#meta-10,11")
async def test_client_capabilities_are_those_of_the_request(kind: str) -> None:
    async with connected_client(make_server(), kind, capabilities={"roots": {}, "sampling": {}}) as wire:
        error = error_of(await wire.ask_stateless("tools/call", ASK), MISSING_CAPABILITY)
        assert error["data"] == {"requiredCapabilities": {"roots": {}}}
        answer = await wire.ask_stateless("tools/call", ASK, capabilities={"roots": {}})
        assert result_of(answer)["resultType"] == "input_required"
        error_of(await wire.ask_stateless("tools/call", ASK), MISSING_CAPABILITY)
        assert text_of(await wire.ask_stateless("tools/call", LOOK)) == f"{MODERN} raw "
        able = await wire.ask_stateless("tools/call", LOOK, capabilities={"elicitation": {}}, clientInfo=None)
        assert text_of(able) == f"{MODERN} None elicitation"
        assert text_of((await logged(wire, request("tools/call", LOOK)))[1]) == "2025-11-25 raw roots,sampling"


@pytest.mark.spec("2026-07-28/basic/index#meta-12")
async def test_missing_client_capability_is_http_400() -> None:
    async with served_over_http(make_server()) as web:
        reply = await RawSession(web).post(stateless_request("tools/call", ASK))
        assert reply.status == 400
        error_of(reply.json, MISSING_CAPABILITY)


@pytest.mark.spec(
    "2026-07-28/server/tools#capabilities-2,3",
    "2026-07-28/server/resources#capabilities-2,3",
    "2026-07-28/server/prompts#capabilities-2,3",
)
async def test_lists_are_the_same_on_each_connection() -> None:
    server = make_server()
    server.prompt("p")(lambda: "hi")
    methods = ("tools/list", "resources/list", "prompts/list")
    async with raw_client(server) as one, connected_client(server, "memory", "2025-06-18") as other:
        first = [result_of(await one.ask_stateless(method)) for method in methods]
        await other.ask_stateless("tools/call", LOOK, capabilities={"sampling": {}}, clientInfo=None)
        await one.ask_stateless("tools/call", LOOK, logLevel="debug", protocolVersion="1900-01-01")
        for wire in (other, one):
            assert [result_of(await wire.ask_stateless(method)) for method in methods] == first


# ------------------------------------------------------------------------------------------------ codes


@STATELESS_KINDS
@pytest.mark.spec("2026-07-28/basic/index#error-codes-1,2,4,5,6,7")
async def test_error_codes_are_of_json_rpc_or_of_2026_07_28(kind: str) -> None:
    async with raw_client(make_server(), kind) as wire:
        wrong = [
            stateless_request("resources/read", {"uri": "test://none"}), stateless_request("resources/read", {}),
            stateless_request("tools/call", {"name": "none"}),
            stateless_request("tools/call", {"name": "look", "arguments": 3}), stateless_request("tools/call", ASK),
            stateless_request("tools/call", {**ASK, "requestState": "x"}, capabilities={"roots": {}}),
            stateless_request("tools/list", {"cursor": "x"}), stateless_request("no/such"),
            stateless_request("tools/list", protocolVersion="x"),
            stateless_request("tools/list", clientCapabilities=None), stateless_request("subscriptions/listen"),
        ]  # fmt: skip
        for frame in wrong:
            await wire.send(frame)
            error = (await wire.receive_object())["error"]
            assert error["code"] in (-32603, -32602, -32601, -32600, -32020, -32021, -32022)


@pytest.mark.parametrize(("raised", "said"), [(-32042, -32603), (-32002, INVALID_PARAMS), (7, 7)])
@pytest.mark.spec("2026-07-28/basic/index#error-codes-6,7")
async def test_legacy_error_codes_are_replaced(raised: int, said: int) -> None:
    server = Server("s")
    extended: Object = {"extensions": {TASKS_EXTENSION: {}}}
    visit: JSON = [{"mode": "url", "message": "m", "url": "https://example.com/", "elicitationId": "e"}]

    async def refuse(value: str = "") -> list[str]:
        raise ProtocolError(raised, "not so", {"elicitations": visit})

    server.tool("refuse", task="required")(refuse)
    server.prompt("prompt")(lambda name: name)
    server.completion("prompt", "name")(refuse)
    async with raw_client(server) as wire:
        asked: Object = {"ref": {"type": "ref/prompt", "name": "prompt"}, "argument": {"name": "name", "value": ""}}
        assert error_of(await wire.ask_stateless("completion/complete", asked), said)["message"] == "not so"
        created = result_of(await wire.ask_stateless("tools/call", {"name": "refuse"}, capabilities=extended))
        id: Object = {"taskId": created["taskId"]}
        async with asyncio.timeout(PATIENCE):
            task: Received = {}
            while task.get("status") != "failed":
                task = result_of(await wire.ask_stateless("tasks/get", id, capabilities=extended))
        assert task["error"]["code"] == said


# ------------------------------------------------------------------------------------------------ extensions


@pytest.mark.spec("2026-07-28/basic/versioning#extension-negotiation-1")
@pytest.mark.parametrize("name", ["ui", "com.example", "/ui", "1com/ui", "com..example/ui", ""])
def test_extension_name_needs_a_prefix(name: str) -> None:
    with pytest.raises(ValueError, match="is not a valid extension name"):
        Server("s", extensions={name: {}})
    with pytest.raises(ValueError, match="is not a valid extension name"):
        Client(["s"], extensions={name: {}})


async def test_extensions_are_declared_in_2026_07_28_only() -> None:
    seen: list[bool] = []
    server = Server("s", extensions={"com.example/ui": {"mimeTypes": ["text/html"]}})

    @server.tool()
    async def look(context: Context) -> None:
        seen.append(context.client_can("extensions.com.example/ui"))

    for revision in ("2026-07-28", "2025-11-25"):
        async with Client(server, revision=revision, extensions={"com.example/ui": {}}) as client:
            await client.call_tool("look")
            seen.append(client.server_can("extensions.com.example/ui"))
    assert seen == [True, True, False, False]
