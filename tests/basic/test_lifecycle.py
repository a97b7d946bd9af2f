"""The handshake: its order, the negotiated revision, and the capabilities that may be used afterwards."""

from __future__ import annotations

import asyncio

import pytest

from mcp_ref import (
    CapabilityError,
    Client,
    Context,
    ElicitResult,
    Implementation,
    PromptReference,
    RemoteError,
    RequestTimeout,
    Server,
    UnsupportedRevision,
)
from mcp_ref.basic.lifecycle import capability_keys, choose_revision, declares
from mcp_ref.jsonrpc.messages import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, Object
from mcp_ref.revisions import LEGACY, R2024_10_07, R2024_11_05, R2025_03_26, R2025_06_18, Revision
from tests.matrix import KINDS, LEGACY_REVISIONS, NAMES
from tests.messages import initialize, notification, request
from tests.raw_peers import (
    connected_client,
    handshake,
    legacy_initialize,
    raw_client,
    raw_server,
    raw_session,
    serve_call,
)
from tests.settings import CONNECTED_TRANSPORTS, PATIENCE, SERVER_TRANSPORTS, pass_time


def everything() -> Server:
    """Return a server that offers everything but tools."""
    server = Server("under-test", "1.2.3", title="Under Test", instructions="Read first.")

    @server.resource("test://{name}/text", title="Text")
    def text(name: str) -> str:
        return name

    @server.prompt(title="Greeting")
    def greeting(name: str) -> str:
        return f"Hello {name}"

    @server.completion("greeting", "name")
    def names(value: str) -> list[str]:
        return [value + "!"]

    return server


# ------------------------------------------------------------------------------------------------ the server


@pytest.mark.spec("2024-11-05..2025-11-25/basic/lifecycle#initialization-1")
@KINDS
@pytest.mark.parametrize("method", ["resources/list", "prompts/list", "logging/setLevel", "no/such/method"])
async def test_request_before_initialize_is_refused_and_initialize_still_works(kind: str, method: str) -> None:
    async with raw_client(everything(), kind) as wire:
        refused = await wire.ask(method, {}, 1)
        assert refused["error"]["code"] == INVALID_REQUEST
        assert "initialize" in str(refused["error"]["message"])
        await wire.send(initialize())
        assert "result" in await wire.receive_object()


@pytest.mark.spec("2024-11-05..2025-11-25/basic/lifecycle#initialization-1")
@pytest.mark.parametrize("kind", [kind for kind in SERVER_TRANSPORTS if "http" in kind or kind == "asgi"])
async def test_initialize_comes_once_in_a_session_over_http(kind: str) -> None:
    async with connected_client(everything(), kind, "2024-11-05") as wire:
        await wire.send(initialize("2025-11-25", id="again"))
        again = await wire.receive_object()
        assert (again["id"], again["error"]["code"]) == ("again", INVALID_REQUEST)
        listed = await wire.ask("prompts/list")
        assert "title" not in str(listed)  # the first handshake still holds


@pytest.mark.parametrize("kind", [kind for kind in SERVER_TRANSPORTS if kind in ("memory", "stdio")])
async def test_initialize_on_a_connection_with_a_session_begins_a_new_session(kind: str) -> None:
    # a bridge, such as one from stdio to HTTP+SSE, can connect one client after the other to the same process
    server = everything()
    entered, ended = asyncio.Event(), asyncio.Event()

    @server.tool()
    async def wait_for_ever() -> str:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    @server.tool()
    async def say(context: Context) -> None:
        await context.log("debug", "said")

    async with connected_client(server, kind, "2024-11-05") as wire:
        assert "result" in await wire.ask("resources/subscribe", {"uri": "test://a/text"})
        assert "result" in await wire.ask("logging/setLevel", {"level": "emergency"})
        await wire.send(request("tools/call", {"name": "wait_for_ever", "arguments": {}}, id="old"))
        await entered.wait()
        await wire.send(initialize("2025-11-25", id="again"))
        again = await wire.receive_object()
        assert (again["id"], again["result"]["protocolVersion"]) == ("again", "2025-11-25")
        await ended.wait()
        server.list_changed("tools")
        await wire.nothing_more()
        assert [each.is_ready for each in server.catalog.announcers] == [False]
        await wire.send(notification("notifications/initialized"))
        assert (await wire.receive_object())["method"] == "notifications/tools/list_changed"
        assert "title" in str(await wire.ask("prompts/list"))
        server.resource_updated("test://a/text")
        await wire.nothing_more()
        logged = await wire.ask("tools/call", {"name": "say"})
        assert (logged["method"], logged["params"]["data"]) == ("notifications/message", "said")


@pytest.mark.spec("2025-03-26/basic/lifecycle#initialization-5")
@pytest.mark.parametrize("kind", CONNECTED_TRANSPORTS)
async def test_messages_after_initialize_wait_for_its_response(kind: str) -> None:
    async with raw_client(everything(), kind) as wire:
        await wire.send(initialize("2025-03-26"))
        await wire.send(notification("notifications/initialized"))
        await wire.send([request("ping", id=2), request("prompts/list", id=3)])
        await wire.send(request("ping", id=4))
        assert (await wire.receive_object())["result"]["protocolVersion"] == "2025-03-26"
        later = [await wire.receive(), await wire.receive()]
        [batch] = [message for message in later if isinstance(message, list)]
        assert {response["id"] for response in batch} == {2, 3}
        assert {"jsonrpc": "2.0", "id": 4, "result": {}} in later


@pytest.mark.spec("2025-03-26/basic/lifecycle#initialization-5")
@KINDS
async def test_initialize_in_a_batch_is_refused_without_effect(kind: str) -> None:
    async with raw_client(everything(), kind) as wire:
        await wire.send([initialize("2025-03-26"), request("ping", id=2)])
        assert (await wire.receive())["error"]["code"] == INVALID_REQUEST
        await wire.send(initialize("2025-03-26"))
        assert (await wire.receive())["result"]["protocolVersion"] == "2025-03-26"
        await wire.send([initialize("2025-03-26", id="late"), request("ping", id=3)])
        answers = await wire.receive()
        by_id = {str(answer["id"]): answer for answer in answers}
        assert by_id["late"]["error"]["code"] == INVALID_REQUEST
        assert by_id["3"]["result"] == {}


@pytest.mark.spec(
    "2025-06-18..2025-11-25/basic/lifecycle#initialization-5",
    "2024-11-05/basic/lifecycle#initialization-5",
    "2025-03-26/basic/lifecycle#initialization-6",
    "2024-11-05..2025-11-25/basic/lifecycle#version-negotiation-3",
)
@KINDS
@pytest.mark.parametrize("revision", LEGACY, ids=str)
async def test_initialize_result_has_same_revision_capabilities_and_server_info(kind: str, revision: Revision) -> None:
    info: Object = {"name": "under-test", "version": "1.2.3"}
    changing: Object = {"listChanged": True}
    capabilities: Object = {"logging": {}, "prompts": changing, "resources": {"subscribe": True, "listChanged": True}}
    expected: Object = {"protocolVersion": revision.name, "capabilities": capabilities, "serverInfo": info}
    if revision.name >= "2024-11-05":
        expected["instructions"] = "Read first."
    if revision.name >= "2025-03-26":
        capabilities["completions"] = {}
    if revision.name >= "2025-06-18":
        info["title"] = "Under Test"
    async with raw_client(everything(), kind) as wire:
        await wire.send(initialize(revision.name))
        answer = await wire.receive_object()
        assert (answer["jsonrpc"], answer["id"]) == ("2.0", "init")
        assert answer["result"] == expected


@pytest.mark.spec(
    "2024-11-05..2025-11-25/basic/lifecycle#version-negotiation-4,5",
    "2024-11-05..2025-11-25/basic/lifecycle#error-handling-1",
)
@KINDS
@pytest.mark.parametrize("asked", ["1.0.0", "", "v999", "2099-01-01", "2025-03-27", "2026-07-28"])
async def test_initialize_with_unknown_revision_gets_the_latest(kind: str, asked: str) -> None:
    async with raw_client(everything(), kind) as wire:
        await wire.send(initialize(asked))
        assert (await wire.receive())["result"]["protocolVersion"] == "2025-11-25"
        await wire.send(notification("notifications/initialized"))
        await wire.nothing_more()


@pytest.mark.spec("2024-11-05..2025-11-25/basic/lifecycle#version-negotiation-4,5")
@pytest.mark.parametrize("asked", NAMES)
async def test_initialize_on_a_server_of_some_revisions_gets_one_of_them(asked: str) -> None:
    server = Server("old", revisions=[R2025_03_26, R2024_11_05])  # in any order
    async with raw_client(server) as wire:
        await wire.send(initialize(asked))
        offered = (await wire.receive())["result"]["protocolVersion"]
        assert offered == (asked if asked in ("2024-11-05", "2025-03-26") else "2025-03-26")


@pytest.mark.spec("2024-11-05..2025-11-25/basic/lifecycle#error-handling-1")
@pytest.mark.parametrize(
    ("params", "fault"),
    [
        ({}, "protocolVersion"),
        ({"protocolVersion": 2, "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}, "protocolVersion"),
        ({"protocolVersion": "2025-11-25", "clientInfo": {"name": "a", "version": "1"}}, "capabilities"),
        ({"protocolVersion": "2025-11-25", "capabilities": {}}, "clientInfo"),
        ({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a"}}, "clientInfo.version"),
    ],
)
async def test_initialize_without_its_members_is_invalid_params_and_may_be_repeated(params: Object, fault: str) -> None:
    async with raw_client(everything()) as wire:
        answer = await wire.ask("initialize", params)
        assert answer["error"]["code"] == INVALID_PARAMS
        assert fault in str(answer["error"]["message"])
        await wire.send(initialize())
        assert "result" in await wire.receive_object()


@pytest.mark.spec(
    "2025-06-18..2025-11-25/basic/lifecycle#initialization-8",
    "2024-11-05/basic/lifecycle#initialization-8",
    "2025-03-26/basic/lifecycle#initialization-9",
)
@KINDS
async def test_server_before_initialized_sends_only_responses_and_logs(kind: str) -> None:
    server = everything()

    @server.resource("test://roots")
    async def roots(context: Context) -> str:
        await context.log("info", "about to ask")
        return str(len(await context.list_roots()))

    async with raw_client(server, kind) as wire:
        await wire.send(initialize(capabilities={"roots": {}}))
        assert "result" in await wire.receive_object()
        server.prompts.add(lambda: "new", "new")  # a change to be announced
        await wire.send(request("resources/read", {"uri": "test://roots"}, 5))
        assert (await wire.receive_object())["method"] == "notifications/message"
        await wire.nothing_more()
        await wire.send(notification("notifications/initialized"))
        came = [await wire.receive_object(), await wire.receive_object()]
        methods = {message["method"]: message for message in came}
        assert set(methods) == {"roots/list", "notifications/prompts/list_changed"}
        await wire.send({"jsonrpc": "2.0", "id": methods["roots/list"]["id"], "result": {"roots": []}})
        assert (await wire.receive_object())["id"] == 5


# ------------------------------------------------------------------------------------------------ the client


@pytest.mark.spec(
    "2024-11-05..2025-11-25/basic/lifecycle#initialization-1,2,3,4",
    "2025-06-18..2025-11-25/basic/lifecycle#initialization-6",
    "2024-11-05/basic/lifecycle#initialization-6",
    "2025-03-26/basic/lifecycle#initialization-5,7",
    "2024-11-05..2025-11-25/basic/lifecycle#version-negotiation-1",
)
@pytest.mark.parametrize("revision", LEGACY, ids=str)
async def test_client_sends_initialize_waits_and_confirms(revision: Revision) -> None:
    us: Object = {"name": "me", "version": "2"}
    if revision.name >= "2025-06-18":
        us["title"] = "Me"
    if revision.name >= "2025-11-25":
        us |= {"description": "A test", "websiteUrl": "https://example.org"}
    expected: Object = {
        "protocolVersion": revision.name,
        "capabilities": {"roots": {"listChanged": True}},
        "clientInfo": us,
    }
    info = Implementation("me", "2", title="Me", description="A test", website_url="https://example.org")
    async with raw_server(lambda t: Client(t, revision=revision, info=info, roots=[])) as (client, wire):
        connecting = asyncio.create_task(client.connect())
        asked = await wire.receive_object()  # one object: initialize is never part of a batch
        assert asked == {"jsonrpc": "2.0", "id": asked["id"], "method": "initialize", "params": expected}
        await wire.nothing_more()  # not confirmed before it is answered
        theirs: Object = {"name": "raw", "version": "1"}
        result: Object = {"protocolVersion": revision.name, "capabilities": {}, "serverInfo": theirs}
        await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": result})
        assert await wire.receive() == {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await connecting
        assert (client.revision, client.server_info) == (revision, Implementation("raw", "1"))
        await wire.nothing_more()


@pytest.mark.spec("2024-11-05..2025-11-25/basic/lifecycle#version-negotiation-1,2")
@pytest.mark.parametrize("answered", NAMES)
async def test_client_offers_its_latest_revision_and_accepts_any_that_it_knows(answered: str) -> None:
    async with raw_server(Client) as (client, wire):
        params = await handshake(client, wire, answered)
        assert params["protocolVersion"] == "2025-11-25"
        assert client.revision.name == answered


@pytest.mark.spec(
    "2024-11-05..2025-11-25/basic/lifecycle#version-negotiation-6",
    "2024-11-05..2025-11-25/basic/lifecycle#error-handling-1",
)
@pytest.mark.parametrize(
    ("only", "answered"),
    [(None, "2026-07-28"), (None, "1.0"), ("2024-11-05", "2025-11-25"), ("2025-06-18", ""), (None, None)],
)
async def test_client_disconnects_from_a_server_of_an_unknown_revision_or_that_answers_with_an_error(
    only: str | None, answered: str | None
) -> None:
    error: Object = {"code": -32602, "message": "Unsupported protocol version", "data": {"supported": ["x"]}}
    theirs: Object = {"name": "raw", "version": "1"}
    result: Object = {"protocolVersion": answered, "capabilities": {}, "serverInfo": theirs}
    async with raw_server(lambda t: Client(t, revision=only)) as (client, wire):
        connecting = asyncio.create_task(client.connect())
        asked = await legacy_initialize(wire)
        outcome: Object = {"error": error} if answered is None else {"result": result}
        await wire.send({"jsonrpc": "2.0", "id": asked["id"], **outcome})
        expected = (RemoteError, "^Unsupported") if answered is None else (UnsupportedRevision, "this client speaks")
        with pytest.raises(expected[0], match=expected[1]):
            await connecting
        await asyncio.wait_for(wire.closed.wait(), PATIENCE)
        assert wire.frames.empty()  # no initialized, no cancellation


# ------------------------------------------------------------------------------------------------ operation


@pytest.mark.spec("2024-11-05..2025-11-25/basic/lifecycle#operation-1")
@KINDS
@pytest.mark.parametrize("revision", LEGACY, ids=str)
async def test_server_keeps_to_the_negotiated_revision(kind: str, revision: Revision) -> None:
    async with connected_client(everything(), kind, revision.name) as wire:
        prompts = (await wire.ask("prompts/list"))["result"]["prompts"]
        assert ("title" in str(prompts[0])) is (revision.name >= "2025-06-18")
        await wire.send([request("ping", id=1), request("ping", id=2)])
        answer = await wire.receive()
        if revision.batch:
            assert [one["id"] for one in answer] == [1, 2]
        else:
            assert answer["error"]["code"] == INVALID_REQUEST
            # over HTTP, such an error never has an id
            no_id = revision.name >= "2025-11-25" or kind not in CONNECTED_TRANSPORTS
            unknown: Object = {} if no_id else {"id": None}
            assert {name: answer[name] for name in answer if name == "id"} == unknown
        await wire.nothing_more()


@pytest.mark.spec("2024-11-05..2025-11-25/basic/lifecycle#operation-1")
@pytest.mark.parametrize("revision", LEGACY, ids=str)
async def test_client_keeps_to_the_negotiated_revision(revision: Revision) -> None:
    async def elicitation(params: object) -> ElicitResult:
        return ElicitResult("decline")

    async with raw_server(lambda t: Client(t, elicitation=elicitation)) as (client, wire):
        await handshake(client, wire, revision.name, {"completions": {}, "prompts": {}})
        reference = PromptReference("greeting")
        completion: Object = {"completion": {"values": ["Ada"]}}
        completed, asked = await serve_call(client.complete(reference, "name", "A", {"other": "x"}), wire, completion)
        assert ("context" in str(asked["params"])) is (revision.name >= "2025-06-18")
        assert completed.values == ["Ada"]
        form: Object = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
        answer = await wire.ask("elicitation/create", form)
        if revision.name >= "2025-06-18":
            assert answer["result"] == {"action": "decline"}
        else:
            assert answer["error"]["code"] == METHOD_NOT_FOUND
        if not revision.batch:
            with pytest.raises(CapabilityError, match="does not allow batches"):
                await client.batch(client.ping())
            await wire.nothing_more()


@pytest.mark.spec("2024-11-05..2025-11-25/basic/lifecycle#operation-2")
@LEGACY_REVISIONS
async def test_server_sends_no_request_that_the_client_did_not_declare(revision: str) -> None:
    server = Server("under-test")

    @server.resource("test://asks")
    async def asks(context: Context) -> str:
        refused = []
        for ask in (
            lambda: context.list_roots(),
            lambda: context.sample("hello", max_tokens=1),
            lambda: context.elicit("hello", {"type": "object", "properties": {}}),
            lambda: context.elicit_url("hello", "https://example.org", "1"),
        ):
            with pytest.raises(CapabilityError, match="declare"):
                await ask()
            refused.append("refused")
        return " ".join(refused)

    async with connected_client(server, revision=revision) as wire:
        answer = await wire.ask("resources/read", {"uri": "test://asks"})
        assert str(answer).count("refused") == 4, answer


@pytest.mark.spec("2024-11-05..2025-11-25/basic/lifecycle#operation-2")
@LEGACY_REVISIONS
async def test_server_without_a_feature_neither_serves_nor_announces_it(revision: str) -> None:
    server = Server("under-test", logging=False)

    @server.resource("test://logs")
    async def logs(context: Context) -> str:
        await context.log("emergency", "unheard")
        return "done"

    async with connected_client(server, revision=revision) as wire:
        for method in ("prompts/list", "prompts/get", "tools/list", "tools/call", "completion/complete"):
            answer = await wire.ask(method, {"name": "x"})
            assert answer["error"]["code"] == METHOD_NOT_FOUND, method
        answer = await wire.ask("logging/setLevel", {"level": "info"})
        assert answer["error"]["code"] == METHOD_NOT_FOUND
        assert "done" in str(await wire.ask("resources/read", {"uri": "test://logs"}))
        server.prompts.add(lambda: "late", "late")  # after the handshake: this client was never told of prompts
        await wire.nothing_more()


@pytest.mark.spec(
    "2024-11-05..2025-11-25/basic/lifecycle#operation-2",
    "2024-11-05..2025-11-25/basic/lifecycle#error-handling-2",
    "2024-11-05..2025-11-25/server/prompts#implementation-considerations-3",
)
@LEGACY_REVISIONS
async def test_client_sends_no_request_that_the_server_did_not_declare(revision: str) -> None:
    async with raw_session(Client, revision, {"resources": {"subscribe": False}}) as (client, wire):
        for ask in (
            lambda: client.list_tools(),
            lambda: client.call_tool("x"),
            lambda: client.list_prompts(),
            lambda: client.get_prompt("x"),
            lambda: client.set_logging_level("info"),
            lambda: client.subscribe("test://x").__aenter__(),
        ):
            with pytest.raises(CapabilityError, match="the server does not offer"):
                await ask()
        if revision >= "2025-03-26":  # before, completions were not declared
            with pytest.raises(CapabilityError, match="completions"):
                await client.complete(PromptReference("x"), "a", "b")
        with pytest.raises(CapabilityError, match="did not declare roots"):
            await client.set_roots([])
        await wire.nothing_more()


@pytest.mark.spec("2024-11-05..2025-11-25/basic/lifecycle#operation-2")
@LEGACY_REVISIONS
async def test_client_without_a_feature_does_not_serve_it(revision: str) -> None:
    async with raw_server(Client) as (client, wire):
        params = await handshake(client, wire, revision)
        assert params["capabilities"] == {}
        for method in ("roots/list", "sampling/createMessage", "elicitation/create"):
            answer = await wire.ask(method, {})
            assert answer["error"]["code"] == METHOD_NOT_FOUND, method


@pytest.mark.parametrize(
    ("capabilities", "path", "declared"),
    [
        ({"tools": {}}, "tools", True),  # an empty object is false in Python, and true here
        ({}, "tools", False),
        ({"tools": None}, "tools", False),
        ({"resources": {"subscribe": True}}, "resources.subscribe", True),
        ({"resources": {"subscribe": False}}, "resources.subscribe", False),
        ({"resources": {}}, "resources.subscribe", False),
        ({"elicitation": {"url": {}}}, "elicitation.url", True),
        ({"resources": "yes"}, "resources.subscribe", False),
    ],
)
def test_capability_is_declared_by_its_presence(capabilities: Object, path: str, declared: bool) -> None:
    assert declares(capabilities, path) is declared


@pytest.mark.parametrize(
    ("path", "keys"),
    [
        ("tools", ["tools"]),
        ("resources.subscribe", ["resources", "subscribe"]),
        ("tasks.requests.tools.call", ["tasks", "requests", "tools", "call"]),
        ("extensions", ["extensions"]),
        ("extensions.io.example/a.b", ["extensions", "io.example/a.b"]),
    ],
)
def test_capability_keys_keep_the_name_of_an_extension_whole(path: str, keys: list[str]) -> None:
    assert capability_keys(path) == keys


def test_choose_revision_looks_names_up_instead_of_comparing_them() -> None:
    assert choose_revision("2024-11-05", [R2024_10_07, R2025_06_18]) is R2025_06_18
    assert choose_revision("2024-10-07", [R2024_10_07, R2025_06_18]) is R2024_10_07


# ------------------------------------------------------------------------------------------------ timeouts


@pytest.mark.spec(
    "2025-03-26..2025-11-25/basic/lifecycle#timeouts-1,2,3",
    "2025-03-26..2025-11-25/basic/lifecycle#error-handling-3",
    "2024-11-05/basic/lifecycle#error-handling-5",
    "2024-11-05..2025-11-25/basic/utilities/ping#error-handling-1",
    "2024-11-05..2025-11-25/server/tools#security-considerations-8",
)
@LEGACY_REVISIONS
async def test_request_timeout_is_per_request_and_sends_cancelled(revision: str) -> None:
    async with raw_session(Client, revision) as (client, wire):
        with pytest.raises(RequestTimeout, match=r"ping: no response within 0\.01 seconds"):
            await client.ping(timeout=0.01)
        asked = await wire.receive_object()
        assert asked["method"] == "ping"
        if revision != "2024-10-07":  # which has no cancellation
            params: Object = {"requestId": asked["id"], "reason": "the request timed out"}
            assert await wire.receive() == notification("notifications/cancelled", params)
        await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": {}})  # too late, and ignored
        await wire.nothing_more()


@pytest.mark.spec("2025-03-26..2025-11-25/basic/lifecycle#timeouts-4")
async def test_progress_extends_a_request_but_not_beyond_its_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = asyncio.Queue[float]()

    def note(progress: float, total: float | None, message: str | None) -> None:
        seen.put_nowait(progress)

    async with raw_session(Client, capabilities={"tools": {}}) as (client, wire):
        call = asyncio.create_task(client.call_tool("slow", timeout=6.0, max_timeout=12.0, on_progress=note))
        asked = await wire.receive_object()
        token = asked["params"]["_meta"]["progressToken"]
        for step in (1, 2):
            pass_time(monkeypatch, 4.0)
            await wire.send(notification("notifications/progress", {"progressToken": token, "progress": step}))
            assert await asyncio.wait_for(seen.get(), PATIENCE) == step
        ended, _ = await asyncio.wait([call], timeout=0.05)
        assert not ended  # although more than 6 seconds have passed
        pass_time(monkeypatch, 4.0)
        with pytest.raises(RequestTimeout):
            await asyncio.wait_for(call, 1.0)  # half of the time that the last progress would give it
        assert (await wire.receive_object())["method"] == "notifications/cancelled"


async def test_connections_of_one_server_speak_their_own_revisions() -> None:
    server = everything()
    async with connected_client(server, "memory", "2024-11-05") as old, connected_client(server) as new:
        assert "title" not in str(await old.ask("prompts/list"))
        assert "title" in str(await new.ask("prompts/list"))
