"""A protected server over HTTP: the decision about each request, the scopes, and the life of sessions and streams."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from mcp_ref import Client, Context, JwtVerifier, Principal, Protection, Server
from mcp_ref.basic.access import checked_scopes
from mcp_ref.basic.authorization.errors import VerificationUnavailable
from mcp_ref.basic.authorization.metadata import MAX_TOKEN, parse_resource_metadata
from mcp_ref.basic.authorization.server import Verifier, Verify
from mcp_ref.jsonrpc.messages import JSON, Object
from mcp_ref.lib.http.message import Headers, HttpRequest
from mcp_ref.lib.http.server import start_server
from tests.basic.authorization.protected_server import (
    DOCUMENT,
    ISSUER,
    RESOURCE,
    WELL_KNOWN,
    Tokens,
    bearer,
    challenge,
    legacy_call,
    modern_call,
    notes,
    protection,
    read,
)
from tests.http_wire import under_asgi
from tests.messages import Received, initialize, notification, request, stateless_request
from tests.raw_http_client import JSON_TYPE, SSE_TYPE, RawSession, Reply, call, served_over_http

BOTH_ERAS = pytest.mark.parametrize("make_call", [modern_call, legacy_call], ids=["modern", "legacy"])


async def begun(talk: RawSession, make_call: Callable[..., Received]) -> RawSession:
    """Make the handshake if the call belongs to a session."""
    if make_call is legacy_call:
        await talk.handshake()
    return talk


def text_of(reply: Reply) -> str:
    """Return the text of the result of a tool."""
    return json.dumps(reply.json["result"])


# ------------------------------------------------------------------------------------------------ the decision


@pytest.mark.spec(
    "2026-07-28/basic/authorization/index#token-requirements-1",
    "2026-07-28/basic/authorization/index#scope-selection-strategy-1",
    "2026-07-28/basic/authorization/index#error-handling-1",
    "2025-06-18/basic/authorization#authorization-server-location-3",
)
async def test_request_without_a_token_is_401_with_the_metadata_and_without_error() -> None:
    server, calls = notes()
    async with served_over_http(server, authorization=protection(Tokens(), "notes:read", "notes:list")) as web:
        reply = await bearer(web, None).post(modern_call("whoami"))
        assert reply.status == 401
        assert dict(challenge(reply).parameters) == {"resource_metadata": DOCUMENT, "scope": "notes:list notes:read"}
        assert reply.why == "authentication required: send an access token in the Authorization header"
        in_query = await web.ask("POST", "/mcp?access_token=good", b"{}", f"Content-Type: {JSON_TYPE}")
        assert in_query.status == 401
    assert not calls


@pytest.mark.spec(
    "2026-07-28/basic/authorization/index#token-handling-3",
    "2025-06-18..2025-11-25/basic/authorization#token-handling-3",
    "2025-03-26/basic/authorization#token-handling-2",
)
@pytest.mark.parametrize(
    "authorization",
    [
        "Bearer", "Bearer ", "Bearer a b", "Bearer a,b", "Bearer good, Bearer good", 'Bearer "good"', "good",
        "Basic Zm8=",
    ],
)  # fmt: skip
@pytest.mark.attack("A1")
async def test_malformed_authorization_is_400_invalid_request(authorization: str) -> None:
    tokens = Tokens("good")
    async with served_over_http(notes()[0], authorization=protection(tokens)) as web:
        reply = await RawSession(web, authorization=authorization).post(modern_call("whoami"))
        assert (reply.status, challenge(reply).parameters["error"]) == (400, "invalid_request")
        assert "good" not in reply.why
    assert not tokens.asked


@pytest.mark.attack("A1")
async def test_duplicate_authorization_header_is_400() -> None:
    tokens = Tokens("good")
    async with served_over_http(notes()[0], authorization=protection(tokens)) as web:
        lines = ["Authorization: Bearer good", "authorization: Bearer good"]
        assert (await web.ask("POST", "/mcp", b"{}", *lines)).status == 400
    assert not tokens.asked


BAD: dict[str, dict[str, object]] = {
    "audience": {"audience": {"https://other.example/mcp"}},
    "audience of an ancestor": {"audience": {"https://mcp.example"}},
    "audience with a slash": {"audience": {RESOURCE + "/"}},
    "audience in upper case": {"audience": {"https://MCP.example/mcp"}},
    "longer path": {"audience": {RESOURCE + "2"}},
    "shorter path": {"audience": {RESOURCE[:-1]}},
    "no audience": {"audience": ()},
    "audience as a longer string": {"audience": RESOURCE + "/evil"},
    "foreign issuer": {"issuer": "https://other.example"},
    "issuer with a slash": {"issuer": ISSUER + "/"},
    "expired": {"expires_at": 1.0},
    "expires at no time": {"expires_at": float("nan")},
    "bound to a key": {"claims": {"cnf": {"jkt": "x"}}},
}


@pytest.mark.spec(
    "2026-07-28/basic/authorization/index#token-handling-1,2,3,4,6",
    "2025-06-18..2025-11-25/basic/authorization#token-handling-4,6",
    "2025-03-26/basic/authorization#token-handling-3",
    "2026-07-28/basic/authorization/security-considerations#token-audience-binding-and-validation-2",
    "2026-07-28/basic/authorization/security-considerations#access-token-privilege-restriction-1,3",
    "2025-03-26..2025-11-25/basic/authorization#token-handling-1,2",
    "2025-06-18..2025-11-25/basic/authorization#token-audience-binding-and-validation-2",
    "2025-06-18..2025-11-25/basic/authorization#access-token-privilege-restriction-1,3",
)
@pytest.mark.attack("A1")
async def test_token_that_is_not_for_this_server_is_401_with_one_body_for_all_reasons() -> None:
    server, calls = notes()
    tokens = Tokens()
    for name, changes in BAD.items():
        tokens.grant(name.replace(" ", "-"), **changes)  # type: ignore[arg-type]
    tokens.grant("expired-beyond-the-skew", expires_at=time.time() - 31)
    bodies = set()
    async with served_over_http(server, authorization=protection(tokens)) as web:
        for token in [*tokens.known, "unknown", "x" * (MAX_TOKEN + 1)]:
            reply = await bearer(web, token).post(modern_call("whoami"))
            assert (reply.status, challenge(reply).parameters["error"]) == (401, "invalid_token"), token
            bodies.add((reply.body, reply.headers["www-authenticate"]))
        assert len(bodies) == 1
        assert (await bearer(web, tokens.grant("good")).post(modern_call("whoami"))).status == 200
        late = tokens.grant("late", expires_at=time.time() - 5)
        assert (await bearer(web, late).post(modern_call("whoami"))).status == 200  # within the skew
    assert calls == ["whoami", "whoami"]
    assert "x" * (MAX_TOKEN + 1) not in tokens.asked


async def test_each_reason_for_refused_tokens_is_a_warning_once(caplog: pytest.LogCaptureFixture) -> None:
    tokens = Tokens()
    tokens.grant("foreign", issuer="https://other.example")
    async with served_over_http(notes()[0], authorization=protection(tokens)) as web:
        for token in ("foreign", "unknown", "foreign"):
            await bearer(web, token).post(modern_call("whoami"))
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [
        "a token was refused: its issuer is not one of `issuers` (the log level INFO shows all refusals)",
        "a token was refused: the verifier does not accept it (the log level INFO shows all refusals)",
    ]


@pytest.mark.attack("A1")
async def test_token_with_the_scheme_dpop_is_401() -> None:
    async with served_over_http(notes()[0], authorization=protection(Tokens("good"))) as web:
        reply = await RawSession(web, authorization="DPoP good").post(modern_call("whoami"))
        assert (reply.status, challenge(reply).parameters["error"]) == (401, "invalid_token")


async def test_verifier_without_its_keys_is_503_with_retry_after() -> None:
    async def verify(token: str) -> Principal | None:
        raise VerificationUnavailable("marker: no route to the keys", retry_after=7)

    async with served_over_http(notes()[0], authorization=Protection(RESOURCE, [ISSUER], verify)) as web:
        reply = await bearer(web, "good").post(modern_call("whoami"))
        assert (reply.status, reply.headers["retry-after"]) == (503, "7")
        assert "www-authenticate" not in reply.headers and "marker" not in reply.why
    assert VerificationUnavailable("by default").retry_after == 30


async def test_verifier_that_returns_another_object_gives_no_access_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def verify(token: str) -> Any:
        return {"sub": "the secret"}

    server, calls = notes()
    async with served_over_http(server, authorization=Protection(RESOURCE, [ISSUER], verify)) as web:
        assert (await bearer(web, "good").post(modern_call("whoami"))).status == 500
    assert "the verifier returned an object of dict; it must return a Principal, or None" in caplog.text
    assert "the secret" not in caplog.text and not calls


async def test_verifier_that_has_checked_the_audience_itself_says_so() -> None:
    tokens = Tokens()
    tokens.grant("checked", audience=(), audience_checked=True)
    tokens.grant("text", audience=RESOURCE)
    async with served_over_http(notes()[0], authorization=protection(tokens)) as web:
        for token in tokens.known:
            assert (await bearer(web, token).post(modern_call("whoami"))).status == 200


async def test_refusal_of_a_request_is_not_remembered_with_its_token() -> None:
    class Remembered(Verifier):
        def for_server(self, resource: str, issuers: Sequence[str]) -> Verify:
            return tokens

    tokens = Tokens("good")
    protected = Protection(RESOURCE, [ISSUER], Remembered())
    async with served_over_http(notes()[0], authorization=protected) as web:
        for call_tool in (modern_call("remove", number=1), modern_call("whoami")) * 2:
            reply = await bearer(web, "good").post(call_tool)
            assert reply.status == (403 if "remove" in json.dumps(call_tool) else 200)
    assert tokens.asked == ["good"]


async def test_authorization_is_decided_again_for_each_request() -> None:
    tokens = Tokens("good")
    async with served_over_http(notes()[0], authorization=protection(tokens)) as web:
        talk = bearer(web, "good")
        assert (await talk.post(modern_call("whoami"))).status == 200
        tokens.grant("good", expires_at=time.time() - 60)
        assert (await talk.post(modern_call("whoami"))).status == 401
    assert tokens.asked == ["good", "good"]


# ------------------------------------------------------------------------------------------------ every way in


EVERY_WAY: list[tuple[str, str, bytes]] = [
    ("POST", "/mcp", json.dumps(modern_call("whoami")).encode()),
    ("POST", "/mcp", json.dumps(initialize()).encode()),
    ("POST", "/mcp", json.dumps([legacy_call("whoami")]).encode()),
    ("POST", "/mcp", json.dumps(notification("notifications/initialized")).encode()),
    ("POST", "/mcp", b"{"),
    ("GET", "/mcp", b""),
    ("DELETE", "/mcp", b""),
    ("GET", "/sse", b""),
    ("POST", "/messages?session=x", json.dumps(legacy_call("whoami")).encode()),
]


@pytest.mark.spec("2025-03-26/basic/authorization#example%3A-authorization-code-grant-1")
@pytest.mark.parametrize("mount", ["own sockets", "asgi"])
@pytest.mark.parametrize("authorization", [None, "Bearer bad", "Bearer few"])
@pytest.mark.attack("A20")
async def test_protection_guards_every_path_except_preflight_and_metadata(
    mount: str, authorization: str | None
) -> None:
    server, calls = notes()
    protected = protection(Tokens(few=["other"]), "notes:read")
    async with served_over_http(server, authorization=protected) as web:
        if mount == "asgi":
            listening = await start_server(under_asgi(server.asgi(authorization=protected)))
            web.address = listening.address
        lines = [f"Authorization: {authorization}"] if authorization is not None else []
        for method, path, body in EVERY_WAY:
            kind = [f"Content-Type: {JSON_TYPE}"] if method == "POST" else []
            reply = await web.ask(method, path, body, *lines, *kind, f"Accept: {JSON_TYPE}, {SSE_TYPE}")
            assert reply.status == (403 if authorization == "Bearer few" else 401), (method, path, body)
            assert challenge(reply).scopes == ("notes:read",)
            assert "mcp-session-id" not in reply.headers
        for path in ("/mcp", "/sse", "/messages", f"{WELL_KNOWN}/mcp"):
            reply = await web.ask("OPTIONS", path, b"", "Origin: http://localhost")
            assert reply.status == 204
        assert (await web.ask("GET", f"{WELL_KNOWN}/mcp")).status == 200
        if mount == "asgi":
            await listening.close(0.2)
    assert not calls


@pytest.mark.spec(
    "2026-07-28/basic/authorization/index#overview-3",
    "2026-07-28/basic/authorization/authorization-server-discovery#authorization-server-location-1,2",
    "2026-07-28/basic/authorization/authorization-server-discovery#protected-resource-metadata-discovery-requirements-1",
    "2025-06-18..2025-11-25/basic/authorization#overview-3",
    "2025-06-18..2025-11-25/basic/authorization#authorization-server-location-1",
    "2025-11-25/basic/authorization#protected-resource-metadata-discovery-requirements-1",
)
async def test_metadata_names_the_configured_resource_and_is_readable_for_every_origin() -> None:
    protected = protection(Tokens(), "notes:read")
    async with served_over_http(notes()[0], authorization=protected) as web:
        for path in (f"{WELL_KNOWN}/mcp", WELL_KNOWN):
            reply = await web.ask("GET", path, b"", "Origin: https://anywhere.example", f"Accept: {JSON_TYPE}")
            assert (reply.status, reply.kind) == (200, JSON_TYPE)
            assert reply.json == protected.metadata()
            assert reply.headers["access-control-allow-origin"] == "https://anywhere.example"
            found = parse_resource_metadata(reply.body)
            assert (found.resource, found.authorization_servers) == (RESOURCE, (ISSUER,))
            assert (found.scopes_supported, found.bearer_methods_supported) == (("notes:read",), ("header",))
            assert (await web.ask("GET", path, b"", host="evil.example")).status == 403
            assert (await web.ask("POST", path, b"{}")).status == 405
        assert (await web.ask("GET", f"{WELL_KNOWN}/other")).status == 404
    async with served_over_http(Server("s")) as web:
        assert (await web.ask("GET", f"{WELL_KNOWN}/mcp")).status == 404


async def test_metadata_below_a_mount_are_only_at_the_url_that_clients_ask() -> None:
    protected = Protection("https://mcp.example/notes/mcp", [ISSUER], Tokens())
    async with served_over_http(notes()[0], authorization=protected) as web:
        found = {}
        for root, path in (
            ("/notes", f"{WELL_KNOWN}/mcp"),
            ("/notes", f"{WELL_KNOWN}/notes/mcp"),
            ("", f"{WELL_KNOWN}/notes/mcp"),
            ("/.well-known", "/oauth-protected-resource/notes/mcp"),
        ):
            request = HttpRequest("GET", path, "", Headers([("Host", "localhost")]), root=root)
            exchange = Mock(request=request, read_body=AsyncMock())
            if (rest := web.site.handle(exchange)) is not None:
                await rest
            found[root, path] = exchange.respond.call_args.args[0]
    assert [*found.values()] == [404, 404, 200, 200]


async def test_page_of_an_allowed_origin_can_read_the_challenge() -> None:
    async with served_over_http(notes()[0], authorization=protection(Tokens())) as web:
        asked = await web.ask("OPTIONS", "/mcp", b"", "Origin: http://localhost", "Access-Control-Request-Method: POST")
        sendable = {name.strip() for name in asked.headers["access-control-allow-headers"].split(",")}
        assert sendable >= {"Authorization", "DPoP"}
        reply = await bearer(web, None).post(modern_call("whoami"), Origin="http://localhost")
        assert reply.status == 401 and reply.headers["access-control-allow-origin"] == "http://localhost"
        assert {"WWW-Authenticate", "DPoP-Nonce"} <= {*reply.headers["access-control-expose-headers"].split(", ")}


# ------------------------------------------------------------------------------------------------ scopes


@BOTH_ERAS
@pytest.mark.spec(
    "2026-07-28/basic/authorization/index#runtime-insufficient-scope-errors-1,2,3,4",
    "2025-11-25/basic/authorization#runtime-insufficient-scope-errors-1,2,3",
)
async def test_tool_with_scopes_is_403_with_all_scopes_of_the_operation(make_call: Callable[..., Received]) -> None:
    server, calls = notes()
    tokens = Tokens(reader=["notes:read"], writer=["notes:read", "notes:write", "notes:call"])
    protected = protection(tokens, "notes:read", needs={"tools/call": {"notes:call"}})
    async with served_over_http(server, authorization=protected) as web:
        reply = await (await begun(bearer(web, "reader"), make_call)).post(make_call("add"))
        assert (reply.status, challenge(reply).parameters["error"]) == (403, "insufficient_scope")
        assert challenge(reply).scopes == ("notes:call", "notes:read", "notes:write")
        assert reply.why == "the access token lacks scopes; needed are: notes:call notes:read notes:write"
        assert not calls
        reply = await (await begun(bearer(web, "writer"), make_call)).post(make_call("add"))
        assert reply.status == 200 and calls == ["add"]


async def test_token_without_the_scope_of_all_requests_is_403_although_no_tool_has_scopes() -> None:
    tokens, server = Tokens(), Server("s")

    @server.tool()
    async def t() -> str:
        return "done"

    tokens.grant("other", "notes:other")
    async with served_over_http(server, authorization=protection(tokens, "notes:read")) as web:
        reply = await bearer(web, "other").post(modern_call("t"))
        assert (reply.status, challenge(reply).scopes) == (403, ("notes:read",))


async def test_tool_with_scopes_is_403_over_http_sse() -> None:
    server, calls = notes()
    protected = protection(Tokens(reader=["notes:read"]), "notes:read")
    async with served_over_http(server, authorization=protected) as web:
        token = "Authorization: Bearer reader"
        stream = await web.ask("GET", "/sse", b"", "Accept: text/event-stream", token)
        endpoint = await stream.event()
        assert endpoint is not None
        body = json.dumps(legacy_call("add")).encode()
        reply = await web.ask("POST", endpoint["data"], body, token, "Content-Type: application/json")
        assert (reply.status, challenge(reply).parameters["error"]) == (403, "insufficient_scope")
    assert not calls


def completion(ref: Object) -> Received:
    return request("completion/complete", {"ref": ref, "argument": {}})


@pytest.mark.parametrize(
    ("message", "scope"),
    [
        (read("notes://secret"), "notes:secret"),
        (read("notes://team/blue"), "notes:team"),
        (request("resources/subscribe", {"uri": "notes://secret"}), "notes:secret"),
        (request("prompts/get", {"name": "plan", "arguments": {"topic": "x"}}), "notes:prompt"),
        (completion({"type": "ref/prompt", "name": "plan"}), "notes:prompt"),
        (completion({"type": "ref/resource", "uri": "notes://team/{name}", "name": "none"}), "notes:team"),
    ],
    ids=lambda value: str(value.get("method")) if isinstance(value, dict) else value,
)
async def test_resource_template_and_prompt_have_scopes(message: Received, scope: str) -> None:
    server, calls = notes()
    async with served_over_http(server, authorization=protection(Tokens("none", some=[scope]))) as web:
        talk = bearer(web, "none")
        await talk.handshake()
        for form in (message, stateless_request(message["method"], message["params"])):
            reply = await talk.post(form, Mcp_Session_Id=talk.id if form is message else None)
            assert (reply.status, challenge(reply).scopes) == (403, (scope,))
        assert not calls
        talk = bearer(web, "some")
        await talk.handshake()
        assert (await talk.post(message)).status == 200


@pytest.mark.attack("A20")
async def test_batch_needs_the_scopes_of_all_its_members() -> None:
    server, calls = notes()
    protected = protection(Tokens("reader", all=["notes:write", "notes:secret"]))
    batch: list[JSON] = [call("whoami", 1), call("add", 2), {**read("notes://secret"), "id": 3}]
    async with served_over_http(server, authorization=protected) as web:
        talk = bearer(web, "reader")
        await talk.handshake("2025-03-26")
        reply = await talk.post(batch)
        assert (reply.status, challenge(reply).scopes) == (403, ("notes:secret", "notes:write"))
        assert not calls
        talk.authorization = "Bearer all"
        assert (await talk.post(batch)).status == 200
        assert sorted(calls) == ["add", "secret", "whoami"]


@pytest.mark.attack("A20")
async def test_handshake_without_the_scopes_begins_no_session() -> None:
    protected = protection(Tokens("few"), needs={"initialize": {"mcp"}})
    async with served_over_http(notes()[0], authorization=protected) as web:
        assert (await bearer(web, "few").post(initialize())).status == 403
        assert not web.site._endpoint.sessions


@BOTH_ERAS
@pytest.mark.parametrize("tool", ["remove", "remove_in_thread"])
async def test_require_in_a_handler_is_403_if_nothing_was_sent(make_call: Callable[..., Received], tool: str) -> None:
    server, calls = notes()
    protected = protection(Tokens(reader=["notes:read"], admin=["notes:read", "notes:admin"]), "notes:read")
    arguments: Object = {"number": 1} if tool == "remove" else {}
    async with served_over_http(server, authorization=protected) as web:
        talk = await begun(bearer(web, "reader"), make_call)
        reply = await talk.post(make_call(tool, **arguments))
        assert (reply.status, challenge(reply).scopes) == (403, ("notes:admin", "notes:read"))
        assert not calls
        assert (await talk.post(make_call("whoami"))).status == 200  # the session goes on
        talk.authorization = "Bearer admin"
        reply = await talk.post(make_call(tool, **arguments))
        assert reply.status == 200 and "removed" in text_of(reply)


@BOTH_ERAS
async def test_require_after_a_notification_is_a_tool_error_with_the_scopes(make_call: Callable[..., Received]) -> None:
    server, calls = notes()
    async with served_over_http(server, authorization=protection(Tokens("reader"))) as web:
        talk = await begun(bearer(web, "reader"), make_call)
        message = make_call("remove", number=-1)
        if make_call is modern_call:
            message["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = "info"
        reply = await talk.post(message)
        assert (reply.status, reply.kind) == (200, SSE_TYPE)
        assert (await reply.object())["method"] == "notifications/message"
        result = (await reply.object())["result"]
        assert result["isError"] is True and "notes:admin" in json.dumps(result)
    assert not calls


async def test_require_in_a_batch_fails_one_member() -> None:
    async with served_over_http(notes()[0], authorization=protection(Tokens("reader"))) as web:
        talk = bearer(web, "reader")
        await talk.handshake("2025-03-26")
        reply = await talk.post([call("whoami", 1), call("remove", 2, number=1)])
        assert reply.status == 200 and isinstance(reply.json, list)
        found = {answer["id"]: answer["result"].get("isError") for answer in reply.json}
        assert found == {1: None, 2: True}


@pytest.mark.parametrize("kind", ["resource", "prompt"])
async def test_require_in_a_resource_or_prompt_is_403(kind: str) -> None:
    async def needs_a(context: Context) -> str:
        context.require("a")
        return ""

    server = Server("s")
    server.resources.add("a://b", needs_a)
    server.prompts.add(needs_a, "prompt")
    messages = {
        "resource": stateless_request("resources/read", {"uri": "a://b"}),
        "prompt": stateless_request("prompts/get", {"name": "prompt"}),
    }
    async with served_over_http(server, authorization=protection(Tokens("reader"))) as web:
        reply = await bearer(web, "reader").post(messages[kind])
        assert (reply.status, challenge(reply).scopes) == (403, ("a",))


@pytest.mark.spec("2026-07-28/basic/authorization/index#step-up-authorization-flow-5")
@pytest.mark.parametrize("as_function", [False, True])
async def test_broader_scope_implies_the_narrower_ones(as_function: bool) -> None:
    table = {"admin": {"notes:write"}, "notes:write": {"notes:read"}, "a": {"b"}, "b": {"a"}}
    server, tokens = notes()[0], Tokens(admin=["admin"], writer=["notes:write"], loop=["a"])

    def implies(held: frozenset[str], needed: str) -> bool:
        return "admin" in held or ("notes:write" in held and needed == "notes:read")

    protected = protection(tokens, "notes:read", implies=implies if as_function else table)
    async with served_over_http(server, authorization=protected) as web:
        for token, expected in (("admin", 200), ("writer", 200), ("loop", 403)):
            assert (await bearer(web, token).post(modern_call("add"))).status == expected


@pytest.mark.parametrize("hide", [False, True])
async def test_lists_hide_forbidden_items_only_if_asked(hide: bool) -> None:
    server, tokens = notes()[0], Tokens()
    server.catalog.cache_hints["tools/list"] = server.catalog.cache_hints["tools/list"]._replace(ttl_ms=1)
    tokens.grant("none")
    tokens.grant("all", "notes:write", "notes:secret", "notes:team", "notes:prompt")
    lists = {"tools": "tools/list", "resources": "resources/list", "prompts": "prompts/list"}
    lists["resourceTemplates"] = "resources/templates/list"
    seen: dict[str, set[str]] = {}
    async with served_over_http(server, authorization=protection(tokens, hide_forbidden=hide)) as web:
        for token in tokens.known:
            seen[token] = set()
            for member, method in lists.items():
                result = (await bearer(web, token).post(stateless_request(method))).json["result"]
                seen[token] |= {item["name"] for item in result[member]}
                assert result["cacheScope"] == ("private" if hide else "public")
    assert seen["all"] - seen["none"] == ({"add", "secret", "team", "plan"} if hide else set())
    assert {"whoami", "remove", "opened"} <= seen["none"]


@pytest.mark.attack("listen-without-scope")
async def test_subscription_leaves_out_resources_whose_scopes_are_missing() -> None:
    async with served_over_http(notes()[0], authorization=protection(Tokens("none"))) as web:
        wanted: Object = {"resourceSubscriptions": ["notes://secret", "notes://open", "notes://team/a"]}
        reply = await bearer(web, "none").post(stateless_request("subscriptions/listen", {"notifications": wanted}))
        assert "notes://open" in json.dumps(acknowledged := await reply.object())
        assert "secret" not in json.dumps(acknowledged) and "team" not in json.dumps(acknowledged)


async def test_scopes_without_authorization_are_an_error_at_the_start() -> None:
    with pytest.raises(ValueError, match="authorization=Protection"):
        notes()[0].asgi()
    with pytest.raises(ValueError, match="authorization=Protection"):
        async with notes()[0].serve_http():
            pass

    async def authenticate(request: HttpRequest) -> str | None:
        return "alice"

    async with served_over_http(notes()[0], authenticate=authenticate) as web:  # it starts; nobody has the scope
        assert (await bearer(web, "x").post(modern_call("add"))).status == 403
        assert "alice" in text_of(await bearer(web, "x").post(modern_call("whoami")))


async def test_tool_with_scopes_that_is_added_later_is_refused_without_authorization() -> None:
    server = Server("s")
    async with served_over_http(server) as web:

        @server.tool(scopes={"a"})
        async def late(context: Context) -> None:
            raise AssertionError

        @server.tool()
        async def asks(context: Context) -> None:
            context.require("a")
            raise AssertionError

        for tool in ("late", "asks"):
            assert (await RawSession(web).post(modern_call(tool))).status == 403


async def test_scopes_do_not_matter_without_http() -> None:
    server = notes()[0]
    async with Client(server) as client:
        assert (await client.call_tool("add")).text == "added"
        assert (await client.call_tool("remove", {"number": 1})).text == "removed"
        assert (await client.call_tool("whoami")).text == "nobody"


async def test_server_inside_a_handler_does_not_see_the_outer_principal() -> None:
    inner, outer = notes()[0], Server("outer")

    @outer.tool()
    async def ask(context: Context) -> str:
        assert context.principal is not None
        async with Client(inner) as client:
            return (await client.call_tool("whoami")).text

    async with served_over_http(outer, authorization=protection(Tokens("good"))) as web:
        assert "nobody" in text_of(await bearer(web, "good").post(modern_call("ask")))


# ------------------------------------------------------------------------------------------------ configuration


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"resource": "http://mcp.example/mcp"}, "https"),
        ({"resource": "https://user:pass@mcp.example/mcp"}, "credentials"),
        ({"resource": "https://mcp.example/mcp#x"}, "fragment"),
        ({"resource": "https://mcp.example/mcp?x=1"}, "query"),
        ({"resource": "mcp.example/mcp"}, "http"),
        ({"verify": JwtVerifier}, "verify must be a verifier"),
        ({"verify": None}, "verify must be Verifier | a function"),
        ({"issuers": []}, "issuers"),
        ({"issuers": "https://auth.example"}, "issuers"),
        ({"issuers": ["http://auth.example"]}, "https"),
        ({"issuers": ["https://auth.example?x"]}, "query"),
        ({"issuers": ["https://auth.example"] * 17}, "issuers"),
        ({"scopes": "notes:read"}, r"write \['notes:read'\]"),
        ({"scopes": {"two scopes"}}, "a scope must be"),
        ({"scopes": {'a"b'}}, "a scope must be"),
        ({"scopes": {""}}, "a scope must be"),
        ({"scopes": {"offline_access"}}, "offline_access"),
        ({"needs": {"tools/call": {"offline_access"}}}, "offline_access"),
    ],
)
@pytest.mark.spec(
    "2026-07-28/basic/authorization/index#refresh-tokens-4",
    "2026-07-28/basic/authorization/security-considerations#communication-security-2",
)
def test_protection_refuses_an_unsafe_configuration(options: dict[str, object], fault: str) -> None:
    usual: dict[str, object] = {"resource": RESOURCE, "issuers": [ISSUER], "verify": Tokens()}
    with pytest.raises((ValueError, TypeError), match=fault):
        Protection(**{**usual, **options})  # type: ignore[arg-type]


def test_protection_allows_plain_http_on_loopback() -> None:
    allowed = Protection("http://127.0.0.1:8000/mcp", ["http://localhost:9000"], Tokens())
    well_known = "/.well-known/oauth-protected-resource"
    assert allowed.paths == {well_known, f"{well_known}/mcp"}


async def test_authorization_and_authenticate_together_are_an_error() -> None:
    async def authenticate(request: HttpRequest) -> str | None:
        return "alice"

    with pytest.raises(ValueError, match="not both"):
        Server("s").asgi(authorization=protection(Tokens()), authenticate=authenticate)


@pytest.mark.parametrize("scopes", ["notes:write", {"a b"}, {"offline_access"}])
def test_options_of_an_item_have_checked_scopes(scopes: set[str]) -> None:
    server = Server("s")
    for add, name in ((server.tool, "t"), (server.resource, "a://b"), (server.prompt, "p")):
        with pytest.raises((ValueError, TypeError), match=r"scope|offline_access"):
            add(name, scopes=scopes)(lambda: "")
    assert checked_scopes(["a", "a"]) == {"a"}
