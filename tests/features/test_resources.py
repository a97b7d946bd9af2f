"""Resources: listed, read, watched; which URIs are served, and how bytes travel."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from dataclasses import dataclass
from typing import Annotated, Literal

import pytest

from mcp_ref import (
    Annotations,
    BlobResourceContents,
    Client,
    Icon,
    ResourceNotFound,
    Server,
    TextContent,
    TextResourceContents,
)
from mcp_ref.basic import access
from mcp_ref.jsonrpc.messages import INTERNAL_ERROR, INVALID_PARAMS, JSON, Object
from mcp_ref.lib.uri import MAX_URI_LENGTH
from tests.matrix import EVERY_REVISION, KINDS, LATEST_OF_BOTH_ERAS, LEGACY_REVISIONS
from tests.messages import Received, notification, result_of, stateless_request
from tests.raw_peers import Wire, connected_client, raw_client, raw_session, serve_call
from tests.settings import MODERN, PATIENCE


def naming(revision: str) -> tuple[str, ...]:
    """Return the methods with a URI in their params."""
    return ("resources/read",) if revision == MODERN else ("resources/read", "resources/subscribe")


def updated(uri: str) -> Object:
    return notification("notifications/resources/updated", {"uri": uri})


async def read(wire: Wire, uri: str) -> list[Received]:
    """Return the contents of a resource."""
    contents: list[Received] = result_of(await wire.ask("resources/read", {"uri": uri}))["contents"]
    return contents


async def error_of(wire: Wire, method: str, params: Object) -> Received:
    error: Received = (await wire.ask(method, params))["error"]
    return error


# ------------------------------------------------------------------------------------------------ lists


@EVERY_REVISION
async def test_resources_list_shows_the_members_that_the_revision_has(revision: str) -> None:
    server = Server("s")
    hints = Annotations(["user"], 0.8, "2025-01-12T15:00:58Z")

    @server.resource(
        "file:///project/README.md",
        name="README.md",
        title="Project Documentation",
        mime_type="text/markdown",
        annotations=hints,
        size=7,
        icons=[Icon("https://example.com/i.png", "image/png", ["48x48"])],
        meta={"com.example/x": 1},
    )
    async def readme() -> str:
        "A description of the project."
        return "# Read"

    @server.resource("file:///{path}", title="Files", mime_type="text/plain", annotations=hints)
    async def files(path: str) -> str:
        "Every file."
        return path

    shown: Object = {"audience": ["user"], "priority": 0.8}
    if revision >= "2025-06-18":
        shown["lastModified"] = "2025-01-12T15:00:58Z"
    resource: Object = {"uri": "file:///project/README.md", "name": "README.md", "mimeType": "text/markdown"}
    resource["description"] = "A description of the project."
    template: Object = {"uriTemplate": "file:///{path}", "name": "files", "description": "Every file."}
    template["mimeType"] = "text/plain"
    if revision >= "2024-11-05":
        resource |= {"size": 7, "annotations": shown}
        template |= {"annotations": shown}
    if revision >= "2025-06-18":
        resource |= {"title": "Project Documentation", "_meta": {"com.example/x": 1}}
        template |= {"title": "Files"}
    if revision >= "2025-11-25":
        icon: Object = {"src": "https://example.com/i.png", "mimeType": "image/png", "sizes": ["48x48"]}
        resource["icons"] = [icon]
    async with connected_client(server, revision=revision) as wire:
        assert (await wire.ask("resources/list"))["result"] == {"resources": [resource]}
        assert (await wire.ask("resources/templates/list"))["result"] == {"resourceTemplates": [template]}


# ------------------------------------------------------------------------------------------------ reading


@pytest.mark.spec("2024-11-05..2026-07-28/server/resources#security-considerations-3")
@KINDS
@EVERY_REVISION
@pytest.mark.parametrize("size", [0, 1, 2, 3, 256, 100_000])
async def test_resources_read_bytes_are_base64_and_come_back_unchanged(kind: str, revision: str, size: int) -> None:
    data = bytes(number % 256 for number in range(size))
    server = Server("s")
    server.resources.add("test://plain", lambda: data)
    server.resources.add("test://image", lambda: bytearray(data), mime_type="image/png")
    server.resources.add("test://{name}", lambda name: memoryview(data))
    async with connected_client(server, kind, revision) as wire:
        for uri, mime_type in (
            ("test://plain", "application/octet-stream"),
            ("test://image", "image/png"),
            ("test://other", "application/octet-stream"),
        ):
            (contents,) = await read(wire, uri)
            assert base64.b64decode(contents.pop("blob"), validate=True) == data
            assert contents == {"uri": uri, "mimeType": mime_type}, "and no text beside"


@pytest.mark.spec("2024-11-05..2026-07-28/server/resources#security-considerations-3")
@LATEST_OF_BOTH_ERAS
@pytest.mark.parametrize("blob", ["not base64!", "AAA", "AA==AA", "é", "AA\nAA", "_-8="])
async def test_resources_read_invalid_base64_is_not_sent(revision: str, blob: str) -> None:
    server = Server("s")
    server.resources.add("test://a", lambda: BlobResourceContents("test://a", blob))
    async with connected_client(server, revision=revision) as wire:
        assert (await error_of(wire, "resources/read", {"uri": "test://a"}))["code"] == INTERNAL_ERROR


@dataclass
class Weather:
    degrees: float
    sky: str | None = None


@KINDS
@EVERY_REVISION
async def test_resources_read_makes_contents_of_the_returned_value(kind: str, revision: str) -> None:
    text = 'line\nbreak\r\n\u2028 "quotes" \\ é 💡 \x00'
    server = Server("s")
    server.resources.add("test://text", lambda: text)
    server.resources.add("test://page", lambda: "<p>", mime_type="text/html")
    server.resources.add("test://json", lambda: Weather(21.5, "clear"))
    server.resources.add("test://list", lambda: [1, None, "é"])
    part = TextResourceContents("test://folder/a", "A", "text/plain")
    blob = BlobResourceContents.of("test://folder/b", b"\x00\xff", "image/png")
    server.resources.add("test://folder", lambda: [part, blob, "and a text of its own"])
    async with connected_client(server, kind, revision) as wire:
        assert await read(wire, "test://text") == [{"uri": "test://text", "mimeType": "text/plain", "text": text}]
        assert await read(wire, "test://page") == [{"uri": "test://page", "mimeType": "text/html", "text": "<p>"}]
        (weather,) = await read(wire, "test://json")
        assert weather["mimeType"] == "application/json"
        assert json.loads(weather["text"]) == {"degrees": 21.5, "sky": "clear"}
        (listed,) = await read(wire, "test://list")
        assert listed["text"] == '[1, null, "é"]'
        assert await read(wire, "test://folder") == [
            {"uri": "test://folder/a", "mimeType": "text/plain", "text": "A"},
            {"uri": "test://folder/b", "mimeType": "image/png", "blob": "AP8="},
            {"uri": "test://folder", "mimeType": "text/plain", "text": "and a text of its own"},
        ]


@pytest.mark.parametrize(
    ("value", "kind"), [(None, "NoneType"), (TextContent("x"), "TextContent"), ([TextContent("x")], "TextContent")]
)
async def test_resources_read_of_a_value_for_a_tool_tells_the_author_what_to_return(
    value: object, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("s")
    server.resources.add("test://a", lambda: value)
    async with connected_client(server) as wire:
        assert (await error_of(wire, "resources/read", {"uri": "test://a"}))["message"] == "Internal error"
    assert f"test://a must return a str, bytes, JSON or TextResourceContents, not {kind}" in caplog.text


# ------------------------------------------------------------------------------------------------ which URIs


@pytest.mark.spec(
    "2024-11-05..2025-11-25/server/resources#error-handling-1", "2026-07-28/server/resources#error-handling-1,4"
)
@EVERY_REVISION
async def test_resources_read_unknown_uri_is_an_error_with_the_uri_as_data(revision: str) -> None:
    def note(name: str) -> str:
        raise ResourceNotFound

    server = Server("s")
    server.resources.add("file:///there.txt", lambda: "")
    server.resources.add("note:///{name}", note)
    async with connected_client(server, revision=revision) as wire:
        requests = [(method, "file:///nonexistent.txt") for method in naming(revision)]
        for method, uri in [*requests, ("resources/read", "note:///nonexistent")]:
            error = await error_of(wire, method, {"uri": uri})
            assert error["code"] == {"2024-10-07": -32001, MODERN: INVALID_PARAMS}.get(revision, -32002)
            assert error["message"] == f"Resource not found: {uri}"
            assert error["data"] == {"uri": uri}


@pytest.mark.spec(
    "2026-07-28/server/resources#security-considerations-5",
    "2024-11-05..2026-07-28/server/resources#security-considerations-1",
)
@EVERY_REVISION
async def test_resources_read_uri_must_be_registered_or_match_a_template(revision: str) -> None:
    outside = ["", "project", "file:///docs", " file:///docs/a", "http://localhost/docs/a"]
    names = [
        "", "../etc/passwd", "..", "%2e%2e/etc/passwd", "..%2Fetc%2Fpasswd", "a/b", "a%2Fb", "a\\b", "a%5Cb", "a%00",
        "a\x00", "a\nb", "%ff", "%zz", "{name}", "a?x=y", "a#b",
    ]  # fmt: skip
    paths = ["a/../../b", "/etc/passwd", "%2Fetc%2Fpasswd", "C:/secret", "%5C%5Chost%5Cshare"]
    numbers = ["1.5", "", "1e999", "1_0", " 1", "true", "0x10", "9" * 5000]
    hostile = [*outside, *(f"file:///docs/{name}" for name in names), *(f"file:///tree/{path}" for path in paths)]
    hostile += [f"test://number/{number}" for number in numbers]
    server = Server("s")
    asked: list[str | int] = []

    @server.resource("file:///docs/{name}")
    async def document(name: str) -> str:
        asked.append(name)
        return name

    @server.resource("test://number/{n}")
    async def number(n: int) -> str:
        asked.append(n)
        return str(n)

    @server.resource("file:///tree/{+path}")
    async def tree(path: str) -> str:
        asked.append(path)
        return path

    async with connected_client(server, revision=revision) as wire:
        for uri in hostile:
            for method in naming(revision):
                code = (await error_of(wire, method, {"uri": uri}))["code"]
                assert code in (INVALID_PARAMS, -32002, -32001), (uri, code)
        assert asked == []
        await read(wire, "file:///docs/read%20me.md")
        await read(wire, "test://number/42")
        assert asked == ["read me.md", 42]


@pytest.mark.spec("2024-11-05..2026-07-28/server/resources#security-considerations-1")
@EVERY_REVISION
async def test_resources_read_uri_that_is_not_text_or_too_long_is_invalid_params(revision: str) -> None:
    server = Server("s")
    server.resources.add("test://{name}", lambda name: name)
    wrong: list[JSON] = [None, 3, ["test://a"], {"uri": "test://a"}, "test://" + "a" * MAX_URI_LENGTH]
    async with connected_client(server, revision=revision) as wire:
        for uri in wrong:
            for method in naming(revision):
                assert (await error_of(wire, method, {"uri": uri}))["code"] == INVALID_PARAMS, uri
        for method in (*naming(revision), *(() if revision == MODERN else ("resources/unsubscribe",))):
            assert (await error_of(wire, method, {}))["code"] == INVALID_PARAMS


@pytest.mark.spec("2025-06-18..2026-07-28/server/resources#custom-uri-schemes-1")
@pytest.mark.parametrize(
    "uri",
    [
        "", "readme", "/readme", "//host/readme", ":readme", "1test://a", "te_st://a", "té://a", "test ://a", "-a:b",
        "test://a b", "test://a\nb", "test://é", "test://<a>", "test://a%", "test://a%zz", 'test://"', "test://a\\b",
        "{scheme}://a", "te{x}st://a", "{x}", "test://a#b#c",
    ],
)  # fmt: skip
def test_resources_add_uri_outside_rfc_3986_raises(uri: str) -> None:
    server = Server("s")

    def reader(scheme: str = "", x: str = "") -> str:
        return ""

    with pytest.raises(ValueError):
        server.resources.add(uri, reader)


@pytest.mark.spec("2025-06-18..2026-07-28/server/resources#custom-uri-schemes-1")
@pytest.mark.parametrize(
    "uri",
    [
        "a:", "urn:isbn:0451450523", "x+y.z-1://h", "git://host/repo.git?ref=main#L1", "file:///%E2%82%AC",
        "test://[::1]:80/a;b=c,d@e!$&'()*+~", "mailto:jane@example.org", "UPPER://CASE",
    ],
)  # fmt: skip
@LATEST_OF_BOTH_ERAS
async def test_resources_add_takes_every_scheme_of_rfc_3986(uri: str, revision: str) -> None:
    server = Server("s")
    server.resources.add(uri, lambda: "here")
    async with connected_client(server, revision=revision) as wire:
        assert await read(wire, uri) == [{"uri": uri, "mimeType": "text/plain", "text": "here"}]


@pytest.mark.spec("2024-11-05..2025-11-25/server/resources#error-handling-2")
@EVERY_REVISION
async def test_resources_read_failing_function_is_internal_error_without_details(revision: str) -> None:
    server = Server("s")

    @server.resource("test://a")
    async def failing() -> str:
        raise FileNotFoundError("/home/jane/secret")

    @server.resource("test://{name}")
    def failing_in_a_thread(name: str) -> str:
        raise SystemExit(f"/home/jane/{name}")

    server.resources.add("test://unfit", lambda: object())
    server.resources.add("test://none", lambda: None)
    async with connected_client(server, revision=revision) as wire:
        for uri in ("test://a", "test://b", "test://unfit", "test://none"):
            error = await error_of(wire, "resources/read", {"uri": uri})
            assert error["code"] == INTERNAL_ERROR
            assert "jane" not in json.dumps(error)
        assert "result" in await wire.ask("resources/list")


async def test_resources_read_tries_resources_first_and_then_templates_in_order() -> None:
    server = Server("s")
    server.resources.add("test://{any}", lambda any: f"first {any}")
    server.resources.add("test://{other}", lambda other: f"second {other}")
    server.resources.add("test://one", lambda: "itself")
    async with connected_client(server) as wire:
        (one,), (two,) = await read(wire, "test://one"), await read(wire, "test://two")
        assert (one["text"], two["text"]) == ("itself", "first two")


async def test_resources_read_variable_is_converted_to_the_type_of_its_parameter() -> None:
    server = Server("s")

    @server.resource("test://log/{level}/{line}{?full,limit,rate}")
    async def log(
        level: Literal["info", "error"],
        line: Literal["last"] | int,
        full: bool | None = None,
        limit: Annotated[int, {"minimum": 1}] = 9,
        rate: float = 1.0,
    ) -> str:
        return repr((level, line, full, limit, rate))

    right = {
        "test://log/info/last": "('info', 'last', None, 9, 1.0)",
        "test://log/error/-3?full=false&limit=1&rate=2": "('error', -3, False, 1, 2.0)",
        "test://log/error/3?full=true&rate=1e-7": "('error', 3, True, 9, 1e-07)",
    }
    wrong = ["debug/3", "info/first", "info/3?full=no", "info/3?limit=0", "info/3?rate=fast", "info/3?rate=1e999"]
    async with connected_client(server) as wire:
        for uri, expected in right.items():
            (contents,) = await read(wire, uri)
            assert contents["text"] == expected
        for rest in wrong:
            assert (await error_of(wire, "resources/read", {"uri": f"test://log/{rest}"}))["code"] == -32002, rest


async def test_resources_templates_may_contain_letters_that_uris_encode() -> None:
    server = Server("s")
    server.resources.add("test://café/{name}", lambda name: name)
    async with connected_client(server) as wire:
        (contents,) = await read(wire, "test://caf%C3%A9/x")
        assert contents["text"] == "x"


def test_resources_add_mistakes_of_the_author_raise() -> None:
    server = Server("s")
    server.resources.add("test://a", lambda: "")
    with pytest.raises(ValueError, match="already registered"):
        server.resources.add("test://a", lambda: "")
    with pytest.raises(ValueError, match="requires id"):
        server.resources.add("test://b", lambda id: "")
    with pytest.raises(ValueError, match="no parameter for id"):
        server.resources.add("test://b/{id}", lambda: "")
    for template, parameter_type in (("{id*}", str), ("{id*}", dict[str, str]), ("{?id*}", int), ("{id}", list[str])):

        def read(id: object) -> str:
            raise NotImplementedError

        read.__annotations__["id"] = parameter_type
        with pytest.raises(ValueError, match="annotate id as"):
            server.resources.add(f"test://b/{template}", read)
    with pytest.raises(TypeError, match="a template must not have the option size"):
        server.resources.add("test://b/{id}", lambda id: "", size=3)
    with pytest.raises(KeyError):
        server.resources.remove("test://b")
    with pytest.raises(TypeError, match="parentheses"):
        server.resource(lambda: "")  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------ subscriptions


@KINDS
@LEGACY_REVISIONS
async def test_resources_subscribe_brings_updates_of_the_uri_and_below_until_unsubscribed(
    kind: str, revision: str
) -> None:
    server = Server("s")
    server.resources.add("test://a", lambda: "a")
    server.resources.add("test://ab", lambda: "ab")
    server.resources.add("test://dir/{name}", lambda name: name)
    async with connected_client(server, kind, revision) as wire, connected_client(server) as bystander:
        server.resource_updated("test://a")
        await wire.nothing_more()
        for uri in ("test://a", "test://a", "test://dir/x"):  # twice is like once
            assert (await wire.ask("resources/subscribe", {"uri": uri}))["result"] == {}
        server.resource_updated("test://ab")
        server.resource_updated("test://a")
        assert await wire.receive() == updated("test://a")
        server.resource_updated("test://a/part")
        assert await wire.receive() == updated("test://a/part")
        server.resource_updated("test://dir/y")
        server.resource_updated("test://dir/x")
        assert await wire.receive() == updated("test://dir/x")
        assert (await wire.ask("resources/unsubscribe", {"uri": "TEST://a"}))["result"] == {}
        assert (await wire.ask("resources/unsubscribe", {"uri": "test://never"}))["result"] == {}
        server.resource_updated("test://a")
        await wire.nothing_more()
        await bystander.nothing_more()


async def test_subscriptions_listen_resource_subscriptions_must_be_readable() -> None:
    server = Server("s")
    server.resource("note://a")(lambda: "a")
    server.resource("user://{id}")(lambda id: id)
    async with raw_client(server) as wire:
        for id, asked, agreed in (
            (1, ["note://a", "user://1", "note://b"], ["note://a", "user://1"]),
            (2, ["note://b", "note://" + "b" * MAX_URI_LENGTH], []),
        ):
            wanted: Object = {"notifications": {"resourceSubscriptions": [*asked]}}
            await wire.send(stateless_request("subscriptions/listen", wanted, id))
            acknowledged = await wire.receive_object()
            assert acknowledged["params"]["notifications"] == {"resourceSubscriptions": agreed}


@KINDS
async def test_resources_updated_that_cannot_be_sent_holds_no_other_back(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("s")
    server.resources.add("test://a", lambda: "a")
    async with connected_client(server, kind) as wire:
        await wire.ask("resources/subscribe", {"uri": "test://a"})
        with caplog.at_level(logging.CRITICAL):
            server.resource_updated("test://a/\ud800")  # no JSON text can hold this
            await asyncio.to_thread(server.resource_updated, "test://a/b")  # any thread may call it
            assert await wire.receive() == updated("test://a/b")


async def test_resources_subscribe_number_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "MAX_SUBSCRIPTIONS", 3)
    server = Server("s")
    server.resources.add("test://{name}", lambda name: name)
    async with connected_client(server) as wire:
        for name in ("a", "b", "c"):
            await wire.ask("resources/subscribe", {"uri": f"test://{name}"})
        assert (await error_of(wire, "resources/subscribe", {"uri": "test://d"}))["code"] == INVALID_PARAMS
        assert "result" in await wire.ask("resources/subscribe", {"uri": "test://a"}), "this one it has"
        await wire.ask("resources/unsubscribe", {"uri": "test://a"})
        assert "result" in await wire.ask("resources/subscribe", {"uri": "test://d"})


# ------------------------------------------------------------------------------------------------ the client


@LEGACY_REVISIONS
async def test_client_read_resource_takes_text_and_bytes(revision: str) -> None:
    async with raw_session(Client, revision, {"resources": {}}) as (client, wire):
        text: Object = {"uri": "test://a", "text": "é"}
        blob: Object = {"uri": "test://b", "blob": "AP8=", "mimeType": "x/y"}
        result, asked = await serve_call(client.read_resource("test://a"), wire, {"contents": [text, blob]})
        assert (asked["method"], asked["params"]) == ("resources/read", {"uri": "test://a"})
        assert result.contents == [
            TextResourceContents("test://a", "é"),
            BlobResourceContents("test://b", "AP8=", "x/y"),
        ]


@LEGACY_REVISIONS
async def test_client_subscription_yields_updates_and_unsubscribes_at_its_end(revision: str) -> None:
    async with raw_session(Client, revision, {"resources": {"subscribe": True}}) as (client, wire):

        async def watch() -> list[str]:
            async with client.subscribe("test://a") as updates:
                return [await anext(updates), await anext(updates)]

        watching = asyncio.create_task(watch())
        asked = await wire.receive_object()
        assert (asked["method"], asked["params"]) == ("resources/subscribe", {"uri": "test://a"})
        await wire.send(updated("test://a"))  # may come before the answer
        await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": {}})
        await wire.send(updated("test://elsewhere"))
        await wire.send(updated("test://a/part"))
        asked = await wire.receive_object()
        assert (asked["method"], asked["params"]) == ("resources/unsubscribe", {"uri": "test://a"})
        await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": {}})
        async with asyncio.timeout(PATIENCE):
            assert await watching == ["test://a", "test://a/part"]
