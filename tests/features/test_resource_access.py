"""The scopes of resources: no spelling of a URI, and no other template, gets past them."""

from __future__ import annotations

import json
import random

import pytest

from mcp_ref import Client, Server
from mcp_ref.jsonrpc.messages import JSON, Object
from tests.basic.authorization.protected_server import Tokens, bearer, challenge, protection
from tests.fuzz.uris import check_uris
from tests.messages import request, stateless_request
from tests.raw_http_client import Talk, Web, served_over_http
from tests.settings import PATIENCE

LEGACY_AND_MODERN = pytest.mark.parametrize("era", ["legacy", "modern"])
PAYROLL = [
    "notes://payroll", "notes://%70ayroll", "notes://PAYROLL", "NOTES://payrol%6C", "notes://payroll:",
    "notes://%50AYROLL",
]  # fmt: skip
KEYS = [
    "docs://admin/keys", "docs://%61dmin/keys", "docs://ADMIN/keys", "Docs://admin:/%6beys", "docs://admin/./keys",
    "docs://admin/x/../keys", "docs://admin/%2e/keys", "docs://admin/x/%2E%2e/keys", "docs://admin/keys?", "docs://admin/keys#a",
    "docs://admin/keys?v=1", "docs://admin//keys", "docs://admin%2Fkeys", "docs://admin/x%2F..%2Fkeys",
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


def tokens() -> Tokens:
    """Return a verifier that knows a caller without scopes, and one with all."""
    made = Tokens()
    made.grant("none")
    made.grant("all", "admin", "payroll", "team")
    return made


async def connected(web: Web, era: str, token: str, revision: str = "2025-11-25") -> Talk:
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
        for uri in (
            "docs://open/keys",
            "notes://payrolls",
            "notes://x/payroll",
            "files:///r/plan",
            "docs://administration/a",
        ):
            assert (await talk.post(message(era, "resources/read", {"uri": uri}))).status == 200, uri


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
        assert acknowledged["params"]["notifications"] == {"resourceSubscriptions": ["NOTES://open"]}  # type: ignore[call-overload,index]
        batching = await connected(web, "legacy", "none", "2025-03-26")
        batch: list[JSON] = [{**request("resources/read", {"uri": uri}), "id": uri} for uri in ("notes://a", KEYS[1])]
        assert (await batching.post(batch)).status == 403


@pytest.mark.attack("resource-overlap")
async def test_list_without_forbidden_items_hides_a_template_in_any_spelling() -> None:
    async with served_over_http(documents(), authorization=protection(tokens(), hide_forbidden=True)) as web:
        talk = await connected(web, "legacy", "none")
        listed = json.dumps((await talk.post(request("resources/templates/list"))).json)
        assert "docs://{section}/{page}" in listed and "dmin" not in listed


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
                    wanted: Object = {"notifications": {"resourceSubscriptions": ["DOCS://Admin"]}}
                    stream = await talk.post(stateless_request("subscriptions/listen", wanted))
                    await stream.object()
                server.resource_updated("docs://admin/%6Beys")
                server.resource_updated("docs://admin")
                for uri in [*expected, "DOCS://Admin"]:  # in the spelling of the subscriber
                    assert (await stream.object())["params"]["uri"] == uri  # type: ignore[call-overload,index]


@pytest.mark.attack("update-of-hidden-child")
async def test_subscriber_gets_no_update_of_a_resource_that_was_given_a_scope_later() -> None:
    server = Server("s")
    server.resources.add("a://b", lambda: "")
    server.resources.add("a://c", lambda: "")
    async with served_over_http(server, authorization=protection(tokens())) as web:
        wanted: Object = {"notifications": {"resourceSubscriptions": ["a://b", "a://c"]}}
        stream = await bearer(web, "none").post(stateless_request("subscriptions/listen", wanted))
        await stream.object()
        server.resources.remove("a://b")
        server.resources.add("a://b", lambda: "", scopes={"admin"})
        server.resource_updated("a://b")
        server.resource_updated("a://c")
        assert (await stream.object())["params"]["uri"] == "a://c"  # type: ignore[call-overload,index]


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
        with pytest.raises(ValueError, match="already registered"):
            server.resources.add(uri, (lambda page: page) if "{" in uri else lambda: "")
    with pytest.raises(ValueError, match=r"no '\.\.' after a variable"):
        server.resources.add("docs://x/{section}/../{page}", lambda section, page: page)


@pytest.mark.attack("resource-spelling")
@pytest.mark.attack("resource-overlap")
def test_random_policies_decide_equally_about_all_spellings_and_open_no_protected_file() -> None:
    for seed in range(15):
        check_uris(random.Random(f"uris:{seed}"))
