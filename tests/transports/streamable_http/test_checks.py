"""The checks before every HTTP endpoint: which requests pass, and how the others are refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest

from mcp_ref import Server
from mcp_ref.jsonrpc.messages import JSON
from mcp_ref.lib.http.message import Headers, HttpRequest
from mcp_ref.revisions import LEGACY, REVISIONS, Revision
from mcp_ref.transports.streamable_http.checks import (
    UNIQUE_HEADERS,
    CheckedRequest,
    HttpRefusal,
    RequestChecks,
    accepted_types,
)
from tests.messages import initialize, notification, request
from tests.raw_http_client import (
    BOTH_TYPES,
    JSON_TYPE,
    LATEST_LEGACY,
    SSE_TYPE,
    STREAMABLE,
    RawSession,
    ServedApp,
    http_session,
    served_over_http,
)

EVERYWHERE = [
    ("POST", "/mcp"),
    ("GET", "/mcp"),
    ("DELETE", "/mcp"),
    ("OPTIONS", "/mcp"),
    ("PUT", "/mcp"),
    ("GET", "/sse"),
    ("OPTIONS", "/sse"),
    ("POST", "/messages?session=x"),
    ("OPTIONS", "/messages"),
]
"""Every method and path that an endpoint serves, and one method that it does not."""


def check(
    checks: RequestChecks, method: str = "GET", *fields: tuple[str, str], host: str | None = "localhost"
) -> CheckedRequest:
    own = [("Host", host)] if host is not None else []
    return checks.check(HttpRequest(method, "/mcp", "", Headers([*own, *fields])))


def refusal(
    checks: RequestChecks, method: str = "GET", *fields: tuple[str, str], host: str | None = "localhost"
) -> HttpRefusal:
    with pytest.raises(HttpRefusal) as caught:
        check(checks, method, *fields, host=host)
    return caught.value


def test_request_checks_of_known_headers_are_repeated_for_another_method() -> None:
    checks, headers = RequestChecks(), Headers([("Host", "localhost"), ("Accept", "text/event-stream")])
    methods = [checks.check(HttpRequest(method, "/mcp", "", headers)).method for method in ("GET", "GET", "DELETE")]
    assert methods == ["GET", "GET", "DELETE"]


def fault(method: str, *fields: tuple[str, str]) -> tuple[int, str] | None:
    found = check(RequestChecks(), method, *fields).deferred_failure
    return (found.status, str(found)) if found is not None else None


# ------------------------------------------------------------------------------------------------ 1: twice


@pytest.mark.parametrize("name", [name for name in UNIQUE_HEADERS if name != "host"])
@pytest.mark.parametrize("second", ["same", "other"])
def test_duplicate_header_of_the_protocol_is_400(name: str, second: str) -> None:
    found = refusal(RequestChecks(), "POST", (name, "same"), (name.upper(), second))
    assert (found.status, str(found)) == (400, f"duplicate header {name}: send it once")


async def test_duplicate_header_is_400_on_every_path_and_method() -> None:
    found = refusal(RequestChecks(), "GET", ("Host", "localhost"))  # which the HTTP server itself refuses too
    assert (found.status, str(found)) == (400, "duplicate header host: send it once")
    async with served_over_http(Server("s")) as web:
        for method, path in EVERYWHERE:
            reply = await web.ask(method, path, b"", "Origin: http://localhost", "Origin: http://localhost")
            assert (reply.status, reply.why) == (400, "duplicate header origin: send it once")


# ------------------------------------------------------------------------------------------------ 2, 3: Host and Origin


@pytest.mark.spec(
    "2024-11-05..2025-11-25/basic/transports#security-warning-1", "2025-11-25/basic/transports#security-warning-2"
)
@pytest.mark.parametrize(
    "origin",
    [
        *("http://evil.example", "https://localhost.evil.example", "http://localhost@evil.example", "http://[::1", ""),
        *("http://evil.example@localhost", "http://evil.example#localhost", "http://evil.example/http://localhost"),
        *("http://127.0.0.1.evil.example", "http://0.0.0.0", "http://localhost:80:80", "http://", "//localhost"),
        *("null", "file://", "file://localhost", "localhost", "chrome-extension://localhost"),
        *("http://localhost, http://evil.example", "http://localhost http://evil.example"),
    ],
)
def test_origin_of_a_foreign_web_page_is_403(origin: str) -> None:
    found = refusal(RequestChecks(), "POST", ("Origin", origin))
    why = f"Origin {origin!r} is not allowed; allow it with allowed_origins= or --allow-origin"
    assert (found.status, str(found)) == (403, why)


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "127.0.0.1.evil.example:80", "localhost.", "0.0.0.0", "x@localhost", "192.168.0.1", "127.1"),
        *("localhost.evil.example", "localhost@evil.example", "evil.example#localhost", "[::ffff:127.0.0.1]"),
        *("localhost:80:80", "localhost:port", "[::1].evil.example"),
    ],
)
def test_host_with_a_foreign_name_is_403(host: str) -> None:
    found = refusal(RequestChecks(), host=host)
    why = f"Host {host!r} is not allowed; allow it with allowed_hosts= or --allow-host"
    assert (found.status, str(found)) == (403, why)


@pytest.mark.spec(
    "2024-11-05..2025-11-25/basic/transports#security-warning-1", "2025-11-25/basic/transports#security-warning-2",
    "2026-07-28/basic/transports/streamable-http#security-%26-endpoint-1,2",
)  # fmt: skip
@pytest.mark.parametrize(
    ("host", "origin"), [("evil.example", "http://localhost"), ("localhost", "http://evil.example")]
)
async def test_foreign_host_or_origin_is_403_on_every_path_and_method(host: str, origin: str) -> None:
    async with served_over_http(Server("s")) as web:
        for method, path in EVERYWHERE:
            reply = await web.ask(method, path, b"", f"Origin: {origin}", f"Accept: {BOTH_TYPES}", host=host)
            assert reply.status == 403 and "evil.example' is not allowed" in reply.why, (method, path)
            assert not [name for name in reply.headers if name.startswith("access-control")]
        assert not web.site._endpoint.sessions


def test_host_missing_is_403() -> None:
    found = refusal(RequestChecks(), host=None)
    assert (found.status, str(found)) == (
        403,
        "Host (none) is not allowed; allow it with allowed_hosts= or --allow-host",
    )


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:8000"])
def test_host_with_a_name_of_this_machine_is_allowed(host: str) -> None:
    check(RequestChecks(), host=host)


def test_allowed_hosts_are_names_or_names_with_a_port() -> None:
    checks = RequestChecks(allowed_hosts=["Api.example", "other.example:8000"])
    for host in ("api.example", "API.EXAMPLE:443", "other.example:8000"):
        check(checks, host=host)
    for host in ("other.example", "other.example:80", "localhost", "x.api.example"):
        assert refusal(checks, host=host).status == 403, host
    check(RequestChecks(allowed_hosts=["*"]), host="anything.example:5")


def test_allowed_origins_are_whole_origins() -> None:
    checks = RequestChecks(allowed_origins=["https://App.example"])
    assert ("Access-Control-Allow-Origin", "https://app.example") in check(
        checks, "GET", ("Origin", "https://app.example")
    ).cors
    for origin in ("http://app.example", "https://app.example:444", "https://x.app.example", "http://localhost"):
        assert refusal(checks, "GET", ("Origin", origin)).status == 403, origin
    assert check(RequestChecks(allowed_origins=["*"]), "GET", ("Origin", "null")).cors


@pytest.mark.parametrize("origin", ["http://localhost", "https://127.0.0.1:3000", "http://[::1]:80"])
def test_origin_of_this_machine_is_allowed(origin: str) -> None:
    assert check(RequestChecks(), "GET", ("Origin", origin)).cors


def test_refusal_of_a_long_host_or_origin_is_short() -> None:
    assert len(str(refusal(RequestChecks(), host="x" * 10_000))) < 300
    assert len(str(refusal(RequestChecks(), "GET", ("Origin", "x" * 10_000)))) < 300


@pytest.mark.spec(
    "2024-11-05..2025-06-18/basic/transports#security-warning-2", "2025-11-25/basic/transports#security-warning-3"
)
async def test_by_default_a_server_is_bound_to_this_machine() -> None:
    async with Server("s").serve_http() as url:
        assert url.startswith("http://127.0.0.1:")


# ------------------------------------------------------------------------------------------------ browsers


async def test_page_of_an_allowed_origin_may_use_the_server_and_read_the_responses() -> None:
    origin = "https://app.example"

    async with served_over_http(Server("s"), allowed_origins=[origin]) as web:
        talk = RawSession(web)
        asked = await web.ask("OPTIONS", "/mcp", b"", f"Origin: {origin}", "Access-Control-Request-Method: POST")
        assert (asked.status, asked.body) == (204, b"")
        assert asked.headers["access-control-allow-methods"] == "GET, POST, DELETE"
        sendable = {name.strip().lower() for name in asked.headers["access-control-allow-headers"].split(",")}
        assert sendable >= {"content-type", "authorization", "mcp-session-id", "mcp-protocol-version"}
        assert sendable >= {"accept", "last-event-id"}
        assert "mcp-session-id" not in asked.headers
        begun = await talk.post(initialize(), Origin=origin)
        talk.id = begun.headers["mcp-session-id"]
        replies = [
            asked,
            begun,
            await talk.post(request("ping"), Origin=origin),
            await talk.post(request("ping"), Origin=origin, Mcp_Session_Id="other"),
            await talk.post(b"{", Origin=origin),
            await talk.post(b"{}", Origin=origin, Content_Type="text/plain"),
            await web.ask("PUT", "/mcp", b"", f"Origin: {origin}"),
            await web.ask("POST", "/messages?session=x", b"{}", f"Origin: {origin}", f"Content-Type: {JSON_TYPE}"),
            await web.ask("GET", "/sse", b"", f"Origin: {origin}"),
            await talk.get(Origin=origin),
            await talk.delete(Origin=origin),
        ]
        assert [reply.status for reply in replies] == [204, 200, 200, 404, 400, 415, 405, 404, 200, 200, 204]
        for reply in replies:
            assert reply.headers["access-control-allow-origin"] == origin, reply
            assert reply.headers["access-control-expose-headers"] == "Mcp-Session-Id, WWW-Authenticate, DPoP-Nonce"
            assert reply.headers["vary"] == "Origin"
            assert "access-control-allow-credentials" not in reply.headers


async def test_response_to_a_request_without_origin_has_no_cors_headers() -> None:
    async with http_session(Server("s")) as talk:
        for reply in (await talk.web.ask("OPTIONS", "/mcp"), await talk.post(request("ping"))):
            assert not [name for name in reply.headers if name.startswith("access-control") or name == "vary"]
        assert (await talk.web.ask("OPTIONS", "/mcp")).headers["allow"] == "GET, POST, DELETE, OPTIONS"


# ------------------------------------------------------------------------------------------------ 4: the method


@pytest.mark.parametrize(
    ("path", "allowed"), [("/mcp", "GET, POST, DELETE"), ("/sse", "GET"), ("/messages", "POST")], ids=str
)
async def test_http_method_unsupported_is_405_and_allow_lists_the_supported_ones(path: str, allowed: str) -> None:
    async with served_over_http(Server("s")) as web:
        for method in {"GET", "POST", "DELETE", "PUT", "PATCH", "TRACE"} - set(allowed.split(", ")):
            reply = await web.ask(method, path)
            assert reply.status == 405, method
            assert reply.headers["allow"] == f"{allowed}, OPTIONS"
            assert reply.why.startswith(f"this endpoint does not support {method}, only {allowed}")
        head = await web.send("HEAD", path)
        assert (await head.reader.readline()).startswith(b"HTTP/1.1 405 ")


# ------------------------------------------------------------------------------------------- 6, 7: the body, the answer


@pytest.mark.parametrize(
    "kind",
    [
        *("text/plain", "text/plain; application/json", "application/x-www-form-urlencoded"),
        *("multipart/form-data; boundary=x", "", None),
    ],
)
async def test_content_type_that_a_web_page_can_send_without_preflight_is_415(kind: str | None) -> None:
    async with http_session(Server("s")) as talk:
        reply = await talk.post(request("ping"), Content_Type=kind)
        assert (reply.status, reply.why) == (
            415,
            f"Content-Type must be application/json, not {(kind or '').partition(';')[0]!r}",
        )
        lines = [] if kind is None else [f"Content-Type: {kind}"]
        assert (await talk.web.ask("POST", "/messages?session=x", b"{}", *lines)).status == 415


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8", "application/json;x"])
def test_json_may_have_parameters(kind: str) -> None:
    assert fault("POST", ("Content-Type", kind)) is None
    assert Headers([("Content-Type", kind)]).media_type == "application/json"


@pytest.mark.parametrize(
    ("value", "json", "sse"),
    [
        ("*/*", True, True),
        (BOTH_TYPES, True, True),
        (JSON_TYPE, True, False),
        (SSE_TYPE, False, True),
        ("Application/*", True, False),
        ("text/*;q=0.1 , x/y", False, True),
        (f"{JSON_TYPE};q=0, {SSE_TYPE};q=0.5", False, True),
        (f"{JSON_TYPE}; q=0.0", False, False),
        (f"{JSON_TYPE};q=0.001", True, False),
        ("text/html", False, False),
        ("", False, False),
    ],
)
def test_accept_header_says_which_content_types_the_client_accepts(value: str, json: bool, sse: bool) -> None:
    assert accepted_types(value) == (json, sse)


@pytest.mark.parametrize("headers", [[], [("Accept", JSON_TYPE), ("accept", SSE_TYPE)]])
def test_accept_may_be_missing_or_several_headers(headers: list[tuple[str, str]]) -> None:
    checked = check(RequestChecks(), "GET", *headers)
    assert (checked.accepts_json, checked.accepts_sse) == (True, True)


@pytest.mark.parametrize("accept", ["text/html", "application/json;q=0", ""])
async def test_accept_without_a_type_of_the_server_is_406_and_names_the_types(accept: str) -> None:
    async with http_session(Server("s")) as talk:
        post = await talk.post(request("ping"), Accept=accept)
        assert (post.status, post.why) == (406, f"Accept must list {JSON_TYPE} and {SSE_TYPE}")
        for get in (await talk.get(Accept=accept), await talk.get(Accept=JSON_TYPE)):
            assert (get.status, get.why) == (406, f"Accept must list {SSE_TYPE}")
        assert (await talk.web.ask("GET", "/sse", b"", f"Accept: {JSON_TYPE}")).status == 406


# ------------------------------------------------------------------------------------------------ 8: the revision


@pytest.mark.spec("2025-06-18..2025-11-25/basic/transports#protocol-version-header-4")
@pytest.mark.parametrize("revisions", [LEGACY, REVISIONS], ids=["one era", "both eras"])
@pytest.mark.parametrize("version", ["", "1.0", "2025-11-26", "2025-06-18, 2025-06-18", "x" * 1000])
async def test_unknown_mcp_protocol_version_is_400_for_every_http_method(
    version: str, revisions: Sequence[Revision]
) -> None:
    async with http_session(Server("s", revisions=revisions), LATEST_LEGACY) as talk:
        messages: list[JSON | bytes] = [request("ping"), initialize(), b"{", []]
        replies = [await talk.post(each, MCP_Protocol_Version=version) for each in messages]
        replies.append(await talk.post(notification("notifications/initialized"), MCP_Protocol_Version=version))
        assert [reply.status for reply in replies] == [400] * 5
        replies = [await talk.get(MCP_Protocol_Version=version), await talk.delete(MCP_Protocol_Version=version)]
        if revisions is LEGACY:  # otherwise a POST gets the error of 2026-07-28
            replies.append(await talk.post(request("ping"), MCP_Protocol_Version=version))
            replies.append(await RawSession(talk.web).post(initialize(), MCP_Protocol_Version=version))
        for reply in replies:
            assert reply.status == 400
            assert reply.why.startswith(f"MCP-Protocol-Version {version[:100]!r} is not supported here;")
            assert all(revision in reply.why for revision in STREAMABLE)
        assert (await talk.post(request("ping"))).status == 200  # the refused DELETE ended nothing
        assert len(talk.web.site._endpoint.sessions) == 1


@pytest.mark.spec("2025-06-18..2025-11-25/basic/transports#protocol-version-header-4")
@pytest.mark.parametrize("more", [[], ["2026-07-28"]], ids=["one era", "both eras"])
async def test_mcp_protocol_version_that_this_server_does_not_speak_is_400(more: list[str]) -> None:
    async with http_session(Server("s", revisions=["2025-03-26", "2025-06-18", *more]), "2025-06-18") as talk:
        for reply in (
            await talk.post(request("ping"), MCP_Protocol_Version="2025-11-25"),
            await talk.post(notification("notifications/initialized"), MCP_Protocol_Version="2025-11-25"),
            await talk.get(MCP_Protocol_Version="2025-11-25"),
            await talk.delete(MCP_Protocol_Version="2024-11-05"),
        ):
            assert reply.status == 400
            assert reply.why.endswith(" is not supported here; supported: 2025-03-26, 2025-06-18")
        assert (await talk.post(request("ping"))).status == 200
        # the handshake agrees on a revision by itself: the header that the client sends before it does not count
        assert (await RawSession(talk.web).post(initialize(), MCP_Protocol_Version="2025-11-25")).status == 200


@pytest.mark.spec("2025-06-18..2025-11-25/basic/transports#protocol-version-header-3")
@pytest.mark.parametrize("revision", STREAMABLE)
async def test_without_the_header_the_session_says_which_revision_is_spoken(revision: str) -> None:
    async with http_session(Server("s"), revision) as talk:
        for header in (None, revision):
            reply = await talk.post([request("ping", id=1)], MCP_Protocol_Version=header)
            assert reply.status == (200 if revision == "2025-03-26" else 400)


# ------------------------------------------------------------------------------------------------ which one answers


async def _ask(web: ServedApp, *lines: str, host: str = "127.0.0.1", method: str = "POST") -> int:
    return (await web.ask(method, "/mcp", b"{}", *lines, host=host)).status


@pytest.mark.parametrize(
    ("status", "changed"),
    [
        (403, {"Host": "evil.example"}),
        (403, {"Origin": "https://evil.example"}),
        (405, {"method": "PUT"}),
        (401, {"Authorization": "Basic x"}),
        (415, {"Content-Type": "text/plain"}),
        (415, {"Content-Encoding": "gzip"}),
        (406, {"Accept": "text/html"}),
        (404, {"path": "/elsewhere"}),
        (413, {"Content-Length": "5000000"}),
    ],
)
async def test_head_is_refused_before_the_body_arrives(status: int, changed: dict[str, str]) -> None:
    fields = {
        "method": "POST", "path": "/mcp", "Host": "localhost", "Authorization": "Bearer me", "Accept": BOTH_TYPES,
        "Content-Type": JSON_TYPE, "Content-Length": "4000000", **changed,
    }  # fmt: skip
    first = f"{fields.pop('method')} {fields.pop('path')} HTTP/1.1"
    head = "\r\n".join([first, *(f"{name}: {value}" for name, value in fields.items()), "", ""])

    def authenticate(request: HttpRequest) -> str | None:
        assert request.body == b""
        return "me" if request.headers.get("authorization") == "Bearer me" else None

    async with served_over_http(Server("s"), authenticate=authenticate) as web:
        reader, writer = await asyncio.open_connection(*web.address)
        web.writers.append(writer)
        writer.write(head.encode() + b"x" * 1000)
        assert (await reader.readline()).startswith(b"HTTP/1.1 %d " % status)


async def test_post_with_content_encoding_identity_in_any_case_is_not_compressed() -> None:
    async with served_over_http(Server("s")) as web:
        expected = {"gzip": (415, "identity"), "identity": (400, None), "Identity": (400, None), "": (400, None)}
        for coding, status_and_accepted in expected.items():
            own = f"Content-Type: {JSON_TYPE}", f"Accept: {BOTH_TYPES}", f"Content-Encoding: {coding}"
            reply = await web.ask("POST", "/mcp", b"{}", *own)
            assert (reply.status, reply.headers.get("accept-encoding")) == status_and_accepted


async def test_first_check_that_fails_decides_the_status() -> None:
    async def nobody(_: HttpRequest) -> None:
        return None

    twice = ["Content-Type: a", "Content-Type: a"]
    origin, accept, version = "Origin: http://evil.example", "Accept: x/y", "MCP-Protocol-Version: 1"
    own = f"Content-Type: {JSON_TYPE}"
    async with served_over_http(Server("s"), authenticate=nobody) as web:
        assert await _ask(web, *twice, origin, accept, version, host="evil", method="PUT") == 400
        assert await _ask(web, origin, accept, version, host="evil", method="PUT") == 403
        assert await _ask(web, origin, accept, version, method="PUT") == 403
        assert await _ask(web, accept, version, method="PUT") == 405
        assert await _ask(web, accept, version) == 401
    async with served_over_http(Server("s")) as web:
        assert await _ask(web, accept, version) == 415
        assert await _ask(web, own, accept, version) == 406
        assert await _ask(web, own, version) == 400


async def test_endpoint_accepts_a_slash_at_the_end_of_its_path() -> None:
    async with served_over_http(Server("s")) as web:
        reply = await web.ask(
            "POST", "/mcp/", json.dumps(initialize()).encode(), f"Content-Type: {JSON_TYPE}", f"Accept: {BOTH_TYPES}"
        )
        assert reply.status == 200


@pytest.mark.parametrize("name", ["alice", None, "", False, 5, b"alice"])
@pytest.mark.parametrize("waits", [True, False])
async def test_authenticate_returns_a_non_empty_string_with_or_without_await(
    name: object, waits: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def later(_: HttpRequest) -> str:
        return name  # type: ignore[return-value]

    def at_once(_: HttpRequest) -> str:
        return name  # type: ignore[return-value]

    async with served_over_http(Server("s"), authenticate=later if waits else at_once) as web:
        for _ in range(2):
            reply = await RawSession(web).post(initialize())
            assert reply.status == (200 if name == "alice" else 401)
    assert caplog.text.count("authenticate returned") == (name not in ("alice", None))


async def test_unknown_path_is_404_and_names_the_endpoint() -> None:
    async with served_over_http(Server("s")) as web:
        for path in ("/", "/mcp//", "/MCP", "//mcp", "/mcp/../mcp", "/%6dcp"):
            reply = await web.ask("POST", path, b"{}", f"Content-Type: {JSON_TYPE}")
            assert (reply.status, reply.why) == (404, f"there is nothing at {path!r}; the MCP endpoint is /mcp")
