"""The scopes of resources: no spelling of a URI, and no other template, gets past them."""

from __future__ import annotations

import inspect
import json
import random
import time
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Literal
from uuid import UUID

import pytest

from mcp_ref import Client, Server
from mcp_ref.basic import access
from mcp_ref.jsonrpc.messages import JSON, Object
from mcp_ref.lib.uri import MAX_URI_LENGTH
from tests.basic.authorization.protected_server import Tokens, bearer, challenge, protection
from tests.fuzz.uris import check_uris
from tests.messages import request, stateless_request
from tests.raw_http_client import RawSession, Reply, ServedApp, served_over_http
from tests.settings import PATIENCE

ID = "123e4567-e89b-12d3-a456-42661417400a"
QUERIES = [
    "docs://plain?w=2;v=a%20b", "docs://plain?v=a+b;w=2", "docs://plain?v=a%2Bb#", "docs://report./?v=1",
    "docs://report?v=1", "docs://report?v=1#", "docs://report?v=1#f", "docs://report?v=1&w=", "docs://report?w=2&v=1",
    "docs://report?x=3&%76=1", "docs://report#?v=1", "docs://report%3Fv=1", "docs://report%3fw=2&v=1", "docs://report",
    "docs://report?w=2;v=1", "docs://report./?v=1",
    "docs://report/?&v=1", "docs://report?v=1.0", "docs://report?v=1e0&w=3", "docs://report#f",
    "query://x?id=5", "query://x?id=5#", "query://x?id=5&extra=1", "query://x?extra=1", "query://x", "query://x#f",
    "query://x?id=many", "flag://x", "flag://x?yes=true", "flag://x?yes=true#", "flag://x#?yes=false&yes=true",
]  # fmt: skip
VALUES = [
    "item://db/1", "item://db/1.0", "item://db/1e0", "item://db/10e-1", "item://db/1#x", "item://db/1e0?form=csv",
    "item://x/2.5", "item://x/2.50?form=", "item://x/25e-1", "item://x/100000000000000000000000", "item://x/1e23",
    "item://7/x", "item://7.0/x", "item://70e-1/x", "item://text/01", "item://text/x",
    "day:///2026-01-01T00:00:00Z", "day:///2026-01-01T00:00:00%2B00:00", "day:///2026-01-01T01:00:00%2B01:00",
    f"id:///{ID}", f"id:///{ID.upper()}", "set://x/a/b", "set://x/b/a", "price:///1.50", "price:///1.5", "price:///01.500",
    "level:///1", "level:///1.0", "price:///0", "price:///-0",
]  # fmt: skip
OPEN = [
    "docs://report?v=2", "docs://reports?v=1", "docs://other?v=1", "item://db/2", "item://db/1.5", "item://8/x",
    "query://y?id=5", "flag://x?yes=false", "day:///2026-01-02T00:00:00Z", "price:///1.51", "level:///2", "set://x/a",
]  # fmt: skip
LEGACY_AND_MODERN = pytest.mark.parametrize("era", ["legacy", "modern"])
PAYROLL = [
    "notes://payroll", "notes://%70ayroll", "notes://PAYROLL", "NOTES://payrol%6C", "notes://payroll:",
    "notes://%50AYROLL",
]  # fmt: skip
KEYS = [
    "docs://admin/keys", "docs://%61dmin/keys", "docs://ADMIN/keys", "Docs://admin:/%6beys", "docs://admin/./keys",
    "docs://admin/x/../keys", "docs://admin/%2e/keys", "docs://admin/x/%2E%2e/keys", "docs://admin/keys?", "docs://admin/keys#a",
    "docs://admin/keys?v=1", "docs://admin//keys", "docs://admin%2Fkeys", "docs://admin/x%2F..%2Fkeys",
    "docs://me@admin/keys", "docs://me:x%40admin/keys", "docs://admin./keys", "docs://admin%20/keys",
    "docs://admin/".ljust(MAX_URI_LENGTH, "k"),
]  # fmt: skip
TEAM = ["files:///r&d/plan", "files:///r%26d/plan", "files:/r%26d/plan", "files:///r%26d//plan", "files:///r&d%2Fplan"]


def documents() -> Server:
    """Return a server whose protected resources lie below templates without scopes."""
    server = Server("documents")
    server.resources.add("docs://{section}/{page}", lambda section, page: f"{section} {page}")
    server.resources.add("docs://Admin/{page}", lambda page: f"secret {page}", scopes={"admin"})
    server.resources.add("docs://{+all}{?v}{#part}", lambda all, v="", part="": all)
    server.resources.add("notes://{name}", lambda name: name)
    server.resources.add("notes://payroll", lambda: "secret", scopes={"payroll"})
    server.resources.add("files:///r%26d/{page}", lambda page: "secret", scopes={"team"})
    server.resources.add("files:{+path}", lambda path: path, absolute_paths=True)
    server.completion("docs://Admin/{page}", "page")(lambda value: ["keys"])
    return server


def values() -> Server:
    """Return a server with templates whose queries and values have several spellings, and secrets below."""
    server = Server("values")

    @server.resource("docs://{+all}{?v,w}{#part}")
    def document(all: str, v: int = 1, w: str = "", part: str = "") -> str:
        return "open"

    @server.resource("query://{name}{?id,extra}{#part}")
    def query(name: str, id: str = "", extra: str = "", part: str = "") -> str:
        return "open"

    @server.resource("item://{table}/{id}{?form}{#part}")
    def item(table: str, id: float, form: str = "", part: str = "") -> str:
        return "open"

    @server.resource("item://{table}/{page}")
    def page(table: int, page: str) -> str:
        return "open"

    @server.resource("item://{+all}")
    def anything(all: str) -> str:
        return "open"

    @server.resource("day:///{when}", absolute_paths=True)
    def day(when: datetime) -> str:
        return "open"

    @server.resource("id:///{id}")
    def user(id: UUID) -> str:
        return "open"

    @server.resource("set://x{/tags*}")
    def tagged(tags: set[str]) -> str:
        return "open"

    @server.resource("price:///{amount}")
    def price(amount: Decimal) -> str:
        return "open"

    @server.resource("level:///{level}")
    def level(level: Literal[1, 2]) -> str:
        return "open"

    @server.resource("flag://x{?yes}{#part}")
    def flag(yes: bool = True, part: str = "") -> str:
        return "open"

    for uri in (
        "docs://report?v=1", "docs://plain?v=a%20b",
        "flag://x?yes=true", "item://db/1", "item://x/2.50", "item://x/1e23", f"id:///{ID}",
        "day:///2026-01-01T01:00:00+01:00", "set://x/b/a", "price:///1.50", "price:///0", "level:///1",
    ):  # fmt: skip
        server.resources.add(uri, lambda: "secret", scopes={"admin"})
    server.resources.add("query://x{?id}", lambda id: "secret", scopes={"admin"})
    server.resources.add("item://7/{page}", lambda page: "secret", scopes={"admin"})

    @server.resource("item://text/{id}", scopes={"admin"})
    def row(id: int) -> str:
        return "secret"

    return server


def tokens() -> Tokens:
    """Return a verifier that knows a caller without scopes, and one with all."""
    return Tokens("none", all=["admin", "payroll", "team"])


async def listening(web: ServedApp, token: str, *uris: str) -> Reply:
    """Subscribe to resources in 2026-07-28, and return the stream after its acknowledgment."""
    wanted: Object = {"notifications": {"resourceSubscriptions": [*uris]}}
    stream = await bearer(web, token).post(stateless_request("subscriptions/listen", wanted))
    await stream.object()
    return stream


async def connected(web: ServedApp, era: str, token: str, revision: str = "2025-11-25") -> RawSession:
    """Return a client with a token, after the handshake of the legacy era."""
    talk = bearer(web, token)
    if era == "legacy":
        await talk.handshake(revision)
    return talk


def message(era: str, method: str, params: Object) -> Object:
    return request(method, params) if era == "legacy" else stateless_request(method, params)


@pytest.mark.attack("resource-spelling")
@pytest.mark.attack("resource-overlap")
@LEGACY_AND_MODERN
async def test_resources_read_needs_the_scopes_in_every_spelling_of_the_uri(era: str) -> None:
    async with served_over_http(documents(), authorization=protection(tokens())) as web:
        talk, allowed = await connected(web, era, "none"), await connected(web, era, "all")
        for scope, uris in (("payroll", PAYROLL), ("admin", KEYS), ("team", TEAM)):
            for uri in uris:
                reply = await talk.post(message(era, "resources/read", {"uri": uri}))
                assert (reply.status, challenge(reply).parameters["error"]) == (403, "insufficient_scope"), uri
                assert challenge(reply).scopes == (scope,), uri
            assert (await allowed.post(message(era, "resources/read", {"uri": uris[0]}))).status == 200
        others = (
            "docs://open/keys",
            "notes://payrolls",
            "notes://x/payroll",
            "files:///r/plan",
            "docs://administration/a",
        )
        for uri in others:
            assert (await talk.post(message(era, "resources/read", {"uri": uri}))).status == 200, uri
        long = await talk.post(message(era, "resources/read", {"uri": "docs://admin/" + "k" * MAX_URI_LENGTH}))
        assert "at most 8192 characters" in long.body.decode()


@pytest.mark.attack("resource-query")
@pytest.mark.attack("resource-value")
@LEGACY_AND_MODERN
async def test_resources_read_needs_the_scopes_with_other_queries_and_texts_of_values(era: str) -> None:
    async with served_over_http(values(), authorization=protection(tokens())) as web:
        talk = await connected(web, era, "none")
        for uri in (*QUERIES, *VALUES, *OPEN):
            reply = await talk.post(message(era, "resources/read", {"uri": uri}))
            assert reply.status == (200 if uri in OPEN else 403), uri
            if uri in OPEN:
                assert '"text": "open"' in json.dumps(reply.json), uri
            elif era == "legacy":
                assert (await talk.post(request("resources/subscribe", {"uri": uri}))).status == 403, uri
        wanted: Object = {"notifications": {"resourceSubscriptions": [*QUERIES, *VALUES, *OPEN]}}
        acknowledged = await (
            await bearer(web, "none").post(stateless_request("subscriptions/listen", wanted))
        ).object()
        assert acknowledged["params"]["notifications"] == {"resourceSubscriptions": OPEN}


@pytest.mark.attack("resource-overlap")
@LEGACY_AND_MODERN
async def test_resources_read_needs_the_scopes_of_all_entries_that_match(era: str) -> None:
    server = Server("s")
    server.resources.add("a://b", lambda: "b", scopes={"one"})
    server.resources.add("a://{x}", lambda x: x, scopes={"two"})
    server.resources.add("a://{y}{/z*}", lambda y, z=None: y, scopes={"three"})
    server.resources.add("a://{+number}", lambda number: "", scopes={"four"})
    made = tokens()
    made.grant("most", "one", "two", "three")
    async with served_over_http(server, authorization=protection(made)) as web:
        talk = await connected(web, era, "most")
        reply = await talk.post(message(era, "resources/read", {"uri": "a://%62"}))
        assert (reply.status, challenge(reply).scopes) == (403, ("four", "one", "three", "two"))
        made.grant("most", "one", "two", "three", "four")
        assert (await talk.post(message(era, "resources/read", {"uri": "a://b"}))).status == 200
        server.resources.remove("A://b")
        assert server.resources.access.scopes_of("a://b") == {"two", "three", "four"}


@pytest.mark.attack("resource-spelling")
async def test_batch_completion_and_subscriptions_need_the_scopes_in_every_spelling() -> None:
    ref: Object = {"type": "ref/resource", "uri": "DOCS://%61dmin/{page}"}
    complete: Object = {"ref": ref, "argument": {"name": "page", "value": ""}}
    async with served_over_http(documents(), authorization=protection(tokens())) as web:
        talk, allowed = await connected(web, "legacy", "none"), await connected(web, "legacy", "all")
        for uri in KEYS:
            assert (await talk.post(request("resources/subscribe", {"uri": uri}))).status == 403, uri
        for form in (request("completion/complete", complete), stateless_request("completion/complete", complete)):
            assert (await talk.post(form, Mcp_Session_Id=talk.id if "_meta" not in str(form) else None)).status == 403
        completed = (await allowed.post(request("completion/complete", complete))).json
        assert '"keys"' in json.dumps(completed)
        listed = (await talk.post(request("resources/templates/list"))).json
        assert "docs://Admin/{page}" in json.dumps(listed)  # as the author wrote it
        wanted: Object = {"notifications": {"resourceSubscriptions": [*KEYS, *PAYROLL, *TEAM, "NOTES://open"]}}
        reply = await bearer(web, "none").post(stateless_request("subscriptions/listen", wanted))
        acknowledged = await reply.object()
        assert acknowledged["params"]["notifications"] == {"resourceSubscriptions": ["NOTES://open"]}
        batching = await connected(web, "legacy", "none", "2025-03-26")
        batch: list[JSON] = [{**request("resources/read", {"uri": uri}), "id": uri} for uri in ("notes://a", KEYS[1])]
        assert (await batching.post(batch)).status == 403


@pytest.mark.attack("resource-overlap")
async def test_list_without_forbidden_items_hides_a_template_in_any_spelling() -> None:
    async with served_over_http(documents(), authorization=protection(tokens(), hide_forbidden=True)) as web:
        talk = await connected(web, "legacy", "none")
        listed = json.dumps((await talk.post(request("resources/templates/list"))).json)
        assert "docs://{section}/{page}" in listed and "dmin" not in listed


@pytest.mark.attack("list-of-hidden-resource")
@LEGACY_AND_MODERN
async def test_lists_and_completions_use_the_scopes_that_a_read_needs(era: str) -> None:
    server = Server("s")
    for uri in ("docs://{section}/{page}", "docs://admin/{page}", "docs://admin/x/{sub}", "all://{+path}"):
        scopes = {"admin"} if uri == "docs://admin/{page}" else set[str]()
        types = dict.fromkeys([name for name in ("section", "page", "sub", "path") if f"{name}}}" in uri], str)
        server.resources.add(uri, reader(**types), name=uri, scopes=scopes)
    server.resources.add("docs://admin/{page}{?v}", lambda page, v="": "", name="docs://admin/{page}{?v}")
    server.completion("docs://admin/{page}{?v}", "page")(lambda value: ["keys"])
    for uri in ("docs://admin/keys", "docs://ADMIN/keys#a", "docs://admin%2Fkeys", "docs://open/keys", "all://x"):
        server.resources.add(uri, lambda: "", name=uri)
    shown = {
        "resources": ["docs://open/keys", "all://x"],
        "resourceTemplates": ["docs://{section}/{page}", "docs://admin/x/{sub}", "all://{+path}"],
    }
    complete: Object = {
        "ref": {"type": "ref/resource", "uri": "docs://admin/{page}{?v}"},
        "argument": {"name": "page", "value": ""},
    }
    async with served_over_http(server, authorization=protection(tokens(), hide_forbidden=True)) as web:
        for token, hidden in (("none", True), ("all", False)):
            talk = await connected(web, era, token)
            for member, method in (("resources", "resources/list"), ("resourceTemplates", "resources/templates/list")):
                listed = json.loads((await talk.post(message(era, method, {}))).body)["result"][member]
                names = [each["name"] for each in listed]
                assert names == shown[member] if hidden else len(names) == 5, names
            assert (await talk.post(message(era, "completion/complete", complete))).status == (403 if hidden else 200)


@pytest.mark.attack("list-of-hidden-resource")
@LEGACY_AND_MODERN
@pytest.mark.parametrize(
    ("name", "typed", "others", "is_hidden"),
    [
        ("page", "ke", {"section": "admin"}, True),
        ("page", "", {"section": "Admin"}, True),
        ("page", "ke", {"section": "open"}, False),
        ("page", "ke", {}, False),
        ("section", "admin", {}, False),
        ("all", "admin/ke", {}, True),
        ("all", "open/ke", {}, False),
        ("all", "admin", {}, False),
    ],
)
async def test_completion_needs_the_scopes_of_the_uri_that_its_arguments_make(
    era: str, name: str, typed: str, others: Object, is_hidden: bool
) -> None:
    server = documents()
    for template, argument in (("docs://{section}/{page}", "page"), ("docs://{section}/{page}", "section")):
        server.completion(template, argument)(lambda value: ["keys"])
    server.completion("docs://{+all}{?v}{#part}", "all")(lambda value: ["admin/keys"])
    uri = "docs://{+all}{?v}{#part}" if name == "all" else "docs://{section}/{page}"
    params: Object = {
        "ref": {"type": "ref/resource", "uri": uri},
        "argument": {"name": name, "value": typed},
        "context": {"arguments": others},
    }
    async with served_over_http(server, authorization=protection(tokens())) as web:
        for token in ("none", "all"):
            reply = await (await connected(web, era, token)).post(message(era, "completion/complete", params))
            assert reply.status == (403 if is_hidden and token == "none" else 200)


def reader(**types: object) -> Callable[..., str]:
    """Return a function whose parameters have these types."""

    def read(**variables: object) -> str:
        return ""

    parameters = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=types[name]) for name in types]
    read.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return read


@pytest.mark.attack("public-copy-of-secret")
async def test_contents_that_need_a_scope_are_never_public() -> None:
    server = Server("s")
    server.resources.add("a://{name}", lambda name: "", cache_ttl=60, cache_scope="public")
    server.resources.add("a://b", lambda: "", scopes={"admin"}, cache_ttl=60, cache_scope="public")
    server.resources.add("a://secret", lambda: "", scopes={"admin"})
    async with served_over_http(server, authorization=protection(tokens())) as web:
        for uri in ("a://b", "a://%62?", "a://secret#", "a://c"):
            scope = "public" if uri == "a://c" else "private"
            reply = (await bearer(web, "all").post(stateless_request("resources/read", {"uri": uri}))).json
            assert "result" not in reply or reply["result"]["cacheScope"] == scope, uri


@pytest.mark.attack("update-of-hidden-child")
async def test_subscriber_of_a_parent_gets_no_update_of_a_child_without_its_scope() -> None:
    server = documents()
    server.resources.add("docs://admin", lambda: "open")
    for era in ("legacy", "modern"):
        for token, expected in (("none", []), ("all", ["DOCS://Admin/keys"])):
            async with served_over_http(server, authorization=protection(tokens())) as web:
                talk = await connected(web, era, token)
                if era == "legacy":
                    assert (await talk.post(request("resources/subscribe", {"uri": "DOCS://Admin"}))).status == 200
                    stream = await talk.get()
                else:
                    stream = await listening(web, token, "DOCS://Admin")
                server.resource_updated("docs://admin/%6Beys")
                server.resource_updated("docs://admin")
                for uri in [*expected, "DOCS://Admin"]:  # in the spelling of the subscriber
                    assert (await stream.object())["params"]["uri"] == uri


@pytest.mark.attack("update-of-hidden-child")
async def test_subscriber_of_a_parent_gets_no_update_of_a_text_whose_scopes_are_unknown() -> None:
    server = documents()
    server.resources.add("docs://admin", lambda: "open")
    async with served_over_http(server, authorization=protection(tokens())) as web:
        stream = await listening(web, "none", "docs://admin")
        for uri in ("docs://admin/the keys", "docs://admin/" + "k" * MAX_URI_LENGTH, "docs://admin"):
            server.resource_updated(uri)
        assert (await stream.object())["params"]["uri"] == "docs://admin"


@pytest.mark.attack("update-of-hidden-child")
async def test_subscriber_gets_no_update_of_a_resource_that_was_given_a_scope_later() -> None:
    server = Server("s")
    server.resources.add("a://b", lambda: "")
    server.resources.add("a://c", lambda: "")
    async with served_over_http(server, authorization=protection(tokens())) as web:
        stream = await listening(web, "none", "a://b", "a://c")
        server.resources.remove("a://b")
        server.resources.add("a://b", lambda: "", scopes={"admin"})
        server.resource_updated("a://b")
        server.resource_updated("a://c")
        assert (await stream.object())["params"]["uri"] == "a://c"


@pytest.mark.attack("resource-value")
@pytest.mark.parametrize(
    ("protected", "uris"),
    [
        ("x://a/1.0/{p}", ["x://a/1.0/z", "x://a/1/z", "x://a/1e0/z", "x://a/10e-1/z", "x://a/1/7"]),
        ("x://b/1e1/{p}", ["x://b/1e1/7", "x://b/10/7", "x://b/10.0/7.0"]),
        ("x://c/{p}/1.0/{q}", ["x://c/z/1/7", "x://c/z/1.0/7", "x://c/z/1e0/7.0"]),
        ("x://d?v=1.0{&w}", ["x://d?v=1.0&w=2", "x://d?v=1&w=2", "x://d?v=1"]),
        ("x://e/1.0{/rest*}", ["x://e/1/z", "x://e/1.0/y/z"]),
    ],
)
async def test_protected_template_with_another_text_of_a_value_holds_for_all_texts(
    protected: str, uris: list[str]
) -> None:
    server = Server("s")
    server.resources.add("x://a/{n}/{p}", reader(n=float, p=str))
    server.resources.add("x://b/{n}/{p}", reader(n=float, p=int))
    server.resources.add("x://c/{p}/{n}/{q}", reader(p=str, n=float, q=int))
    server.resources.add("x://e/{n}{/rest*}", reader(n=float, rest=list[str]))

    @server.resource("x://d{?v,w}")
    def numbers(v: float = 0.0, w: int = 0) -> str:
        return ""

    names = {name: type_ for name, type_ in {"p": str, "q": str, "rest": list[str]}.items() if name in protected[4:]}
    server.resources.add(protected, (lambda w="": "") if "w" in protected else reader(**names), scopes={"admin"})
    async with served_over_http(server, authorization=protection(tokens())) as web:
        talk = bearer(web, "none")
        for uri in uris:
            assert (await talk.post(stateless_request("resources/read", {"uri": uri}))).status == 403, uri
        for uri in ("x://a/2/z", "x://b/11/7", "x://c/z/2/7", "x://d?v=2&w=1", "x://e/2/z"):
            assert (await talk.post(stateless_request("resources/read", {"uri": uri}))).status == 200, uri


@pytest.mark.attack("list-of-hidden-resource")
@LEGACY_AND_MODERN
async def test_pages_and_cursors_do_not_show_that_hidden_items_exist(era: str) -> None:
    server = Server("s", page_size=2)
    for number in range(9):
        scopes: set[str] = set() if number in (2, 4, 5) else {"admin"}
        server.resources.add(f"a://{number}", lambda: "", scopes=scopes)
    async with served_over_http(server, authorization=protection(tokens(), hide_forbidden=True)) as web:
        for token, pages in {"none": [2, 1], "all": [2, 2, 2, 2, 1]}.items():
            talk, cursor, found = await connected(web, era, token), None, list[int]()
            for _ in range(9):
                params: Object = {"cursor": cursor} if cursor is not None else {}
                reply = await talk.post(message(era, "resources/list", params))
                result = (reply.json if reply.kind == "application/json" else await reply.object())["result"]
                found.append(len(result["resources"]))
                cursor = result.get("nextCursor")
                if cursor is None:
                    break
            assert found == pages


@pytest.mark.attack("subscription-of-an-old-token")
@pytest.mark.parametrize("scopes", [(), ("admin",)])
async def test_subscription_of_a_session_has_the_rights_of_a_newer_token_after_the_end_of_its_own(
    scopes: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, made = Server("s"), Tokens()
    server.resources.add("a://open", lambda: "")
    server.resources.add("a://secret", lambda: "", scopes={"admin"})
    made.grant("old", "admin")
    made.grant("newer", *scopes, expires_at=time.time() + 9000)
    async with served_over_http(server, authorization=protection(made)) as web:
        talk = await connected(web, "legacy", "old")
        for uri in ("a://open", "a://secret"):
            assert "result" in json.dumps((await talk.post(request("resources/subscribe", {"uri": uri}))).json)
        monkeypatch.setattr(access, "time", SimpleNamespace(time=lambda: time.time() + 4000))
        talk.authorization = "Bearer newer"
        stream = await talk.get()
        for uri in ("a://secret", "a://open"):
            server.resource_updated(uri)
        heard = [(await stream.object())["params"]]
        assert heard == [{"uri": "a://secret" if scopes else "a://open"}]


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_client_gets_contents_and_updates_in_its_own_spelling(revision: str) -> None:
    server = documents()
    async with Client(server, revision=revision, timeout=PATIENCE) as client:
        assert (await client.read_resource("NOTES://%50ayroll")).contents[0].uri == "NOTES://%50ayroll"
        async with client.subscribe("NOTES://Payroll") as one, client.subscribe("notes://%70ayroll") as two:
            server.resource_updated("notes://PAYROLL")
            assert (await anext(one), await anext(two)) == ("NOTES://Payroll", "notes://%70ayroll")
            server.resource_updated("notes://payroll/%61")
            assert (await anext(one), await anext(two)) == ("NOTES://Payroll/a", "notes://%70ayroll/a")
        async with client.subscribe("notes://open") as one:
            async with client.subscribe("notes://OPEN"):
                pass
            server.resource_updated("notes://open")  # the end of the other subscription did not end this one
            assert await anext(one) == "notes://open"


def test_resources_in_equal_spellings_cannot_be_registered_twice() -> None:
    server = documents()
    for uri in ("notes://PAYROLL", "NOTES://%70ayroll", "docs://admin:/{page}"):
        with pytest.raises(ValueError, match=r"^the resource( template)? '.*' is already registered"):
            server.resources.add(uri, (lambda page: page) if "{" in uri else lambda: "")
    with pytest.raises(ValueError, match=r"no '\.\.' after a variable"):
        server.resources.add("docs://x/{section}/../{page}", lambda section, page: page)


@pytest.mark.attack("resource-spelling")
@pytest.mark.attack("resource-overlap")
def test_random_policies_decide_equally_about_all_spellings_and_open_no_protected_file() -> None:
    for seed in range(15):
        check_uris(random.Random(f"uris:{seed}"))
