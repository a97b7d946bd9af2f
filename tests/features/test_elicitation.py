"""Elicitation on the wire: forms and URLs, from the server that asks to the user who may say no."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from mcp_ref import (
    Client,
    Context,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    InvalidMessage,
    RemoteError,
    Server,
    url_required,
)
from mcp_ref.features.elicitation import ElicitationHandler
from mcp_ref.jsonrpc.messages import JSON, Object
from mcp_ref.revisions import LEGACY
from tests.matrix import KINDS, LATEST_OF_BOTH_ERAS
from tests.messages import Received, notification, request
from tests.raw_peers import Wire, answer_of, connected_client, handshake, raw_server, raw_session
from tests.settings import MODERN, PATIENCE

NAMES = [revision.name for revision in LEGACY if revision.name >= "2025-06-18"]
EARLIER = [revision.name for revision in LEGACY if revision.name < "2025-06-18"]
REVISIONS = pytest.mark.parametrize("revision", NAMES)
ALL_REVISIONS = pytest.mark.parametrize("revision", [*NAMES, MODERN])

FORM: Object = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "default": 30}},
    "required": ["name"],
}
URL = "https://example.com/join?visit=1"
PERHAPS = ElicitResult("perhaps")  # type: ignore[arg-type]
Question = ElicitRequestFormParams | ElicitRequestURLParams


class User:
    """Answers as told, and remembers what was asked."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[Question] = []

    async def __call__(self, question: Question) -> Any:
        self.asked.append(question)
        return self.answer


def accepting(**content: str | int | float | bool | list[str]) -> User:
    return User(ElicitResult("accept", content))


# ------------------------------------------------------------------------------------------------ declaring


@pytest.mark.spec(
    "2025-06-18..2025-11-25/client/elicitation#capabilities-1", "2025-11-25/client/elicitation#capabilities-2"
)
@REVISIONS
async def test_elicitation_capability_names_the_modes_of_the_client(revision: str) -> None:
    both: Object = {"form": {}, "url": {}} if revision == "2025-11-25" else {}
    for url, declared in ((False, Object()), (True, both)):  # an empty object means forms
        make = partial(Client, elicitation=accepting(), elicitation_url=url, revision=revision)
        async with raw_server(make) as (client, wire):
            assert (await handshake(client, wire, revision))["capabilities"] == {"elicitation": declared}


@pytest.mark.parametrize("revision", EARLIER)
async def test_elicitation_is_not_declared_and_not_requested_before_2025_06_18(revision: str) -> None:
    async with raw_server(partial(Client, elicitation=accepting(), revision=revision)) as (client, wire):
        assert (await handshake(client, wire, revision))["capabilities"] == {}
        refused = await wire.ask("elicitation/create", {"message": "?", "requestedSchema": FORM})
        assert refused["error"]["code"] == -32601


async def answer_of_user(user: User, revision: str, params: Object, **options: Any) -> Received:
    """Return the answer of a client with this user. Raise `InvalidMessage` if it refuses the params."""
    make = partial(Client, elicitation=user, revision=revision, **options)
    return await answer_of(make, revision, "elicitation/create", params)


def visit(revision: str) -> Object:
    """Return the params that ask the user to open a URL."""
    id: Object = {} if revision == MODERN else {"elicitationId": "1"}
    return {"mode": "url", "message": "Join", "url": URL, **id}


@contextlib.asynccontextmanager
async def client_of(user: User, revision: str = "2025-11-25", **options: Any) -> AsyncIterator[Wire]:
    """Give the raw server of a connected client with this user."""
    async with raw_session(partial(Client, elicitation=user, revision=revision, **options), revision) as (_, wire):
        yield wire


# ------------------------------------------------------------------------------------------------ the client: forms


@pytest.mark.spec(
    "2025-11-25..2026-07-28/client/elicitation#elicitation-requests-2",
    "2025-11-25/client/elicitation#form-mode-elicitation-requests-1",
    "2026-07-28/client/elicitation#capabilities-2",
)
@ALL_REVISIONS
@pytest.mark.parametrize("mode", [{}, {"mode": "form"}])
async def test_elicitation_create_without_mode_is_a_form(revision: str, mode: Object) -> None:
    user = accepting(name="Ada", age=36)
    answer = await answer_of_user(user, revision, {"message": "Who?", "requestedSchema": FORM, **mode})
    assert answer == {"action": "accept", "content": {"name": "Ada", "age": 36}}
    (question,) = user.asked
    assert isinstance(question, ElicitRequestFormParams)
    assert (question.message, question.requested_schema) == ("Who?", FORM)


@pytest.mark.spec("2025-11-25..2026-07-28/client/elicitation#user-interaction-model-4,5")
@ALL_REVISIONS
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_elicitation_create_declined_or_cancelled_has_no_content(revision: str, action: str) -> None:
    user = User(ElicitResult(action, {"name": "half typed"}))  # type: ignore[arg-type]
    answer = await answer_of_user(user, revision, {"message": "Who?", "requestedSchema": FORM})
    assert answer == {"action": action}


@ALL_REVISIONS
async def test_elicitation_create_form_fills_in_defaults(revision: str) -> None:
    answer = await answer_of_user(accepting(name="Ada"), revision, {"message": "Who?", "requestedSchema": FORM})
    assert answer == {"action": "accept", "content": {"name": "Ada", "age": 30}}


@REVISIONS
async def test_elicitation_create_form_checks_content(revision: str) -> None:
    async with client_of(accepting(age=-1), revision) as wire:
        refused = await wire.ask("elicitation/create", {"message": "Who?", "requestedSchema": FORM})
        assert refused["error"]["code"] == -32603, "our own handler broke the form: the server is not to blame"


@pytest.mark.spec(
    "2025-11-25/client/elicitation#elicitation-requests-1",
    "2025-11-25/client/elicitation#form-mode-elicitation-requests-1",
)
@pytest.mark.parametrize(
    "params",
    [
        {"requestedSchema": FORM},
        {"message": "?"},
        {"message": 1, "requestedSchema": FORM},
        {"message": "?", "requestedSchema": {"type": "string"}},
        {"message": "?", "requestedSchema": {"type": "object", "properties": {"a": {"type": "object"}}}},
        {"message": "?", "requestedSchema": {"type": "object", "properties": {"a": {"type": "array"}}}},
        {"message": "?", "requestedSchema": {"type": "object", "properties": {"a": {"$ref": "#/b"}}}},
        {"message": "?", "requestedSchema": {"type": "object", "properties": {"a": {"type": "string", "format": "x"}}}},
        {"message": "?", "requestedSchema": FORM, "mode": "hologram"},
        {},
    ],
)
@LATEST_OF_BOTH_ERAS
async def test_elicitation_create_invalid_form_is_invalid_params_and_not_shown(params: Object, revision: str) -> None:
    user = accepting(name="Ada")
    with pytest.raises(InvalidMessage):
        await answer_of_user(user, revision, params)
    assert user.asked == []


async def test_elicitation_create_with_an_array_is_invalid_before_2025_11_25() -> None:
    schema: Object = {"type": "object", "properties": {"a": {"type": "array", "items": {"enum": ["x"]}}}}
    with pytest.raises(InvalidMessage, match="a: a form's field can be an array only since 2025-11-25"):
        await answer_of_user(accepting(a=["x"]), "2025-06-18", {"message": "?", "requestedSchema": schema})


# ------------------------------------------------------------------------------------------------ the client: URLs


@pytest.mark.spec("2025-11-25/client/elicitation#error-handling-2")
@LATEST_OF_BOTH_ERAS
async def test_elicitation_create_undeclared_mode_is_invalid_params(revision: str) -> None:
    user = accepting()
    with pytest.raises(InvalidMessage):
        await answer_of_user(user, revision, visit(revision))
    assert user.asked == []


@pytest.mark.spec(
    "2025-11-25..2026-07-28/client/elicitation#safe-url-handling-5,6,7,8",
    "2025-11-25..2026-07-28/client/elicitation#user-interaction-model-6",
)
@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
@LATEST_OF_BOTH_ERAS
async def test_elicitation_create_url_goes_to_the_user_unchanged_and_is_not_fetched(
    action: str, revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.getaddrinfo", lambda *a, **k: pytest.fail("a name was looked up"))
    monkeypatch.setattr("webbrowser.open", lambda *a, **k: pytest.fail("a browser was opened"))
    user = User(ElicitResult(action, {"ignored": True}))  # type: ignore[arg-type]
    answer = await answer_of_user(user, revision, visit(revision), elicitation_url=True)
    assert answer == {"action": action}, "what happens at a URL is not sent"
    assert user.asked == [ElicitRequestURLParams("Join", URL, None if revision == MODERN else "1")]


@pytest.mark.spec(
    "2025-11-25/client/elicitation#url-mode-elicitation-requests-1,2",
    "2026-07-28/client/elicitation#safe-url-handling-5",
)
@pytest.mark.parametrize(
    "change",
    [
        *({"url": url} for url in ("javascript:alert(1)", "file:///etc/passwd", "https://", "https://a b/", "")),
        {"url": "https://a/\u202e"},
        *({member: None} for member in ("url", "elicitationId", "message")),
    ],
)
@LATEST_OF_BOTH_ERAS
async def test_elicitation_create_invalid_url_is_invalid_params_and_not_shown(change: Object, revision: str) -> None:
    if revision == MODERN and "elicitationId" in change:
        pytest.skip("2026-07-28 has no such ids")
    user, params = accepting(), visit(revision) | change
    params = {name: value for name, value in params.items() if value is not None}
    with pytest.raises(InvalidMessage):
        await answer_of_user(user, revision, params, elicitation_url=True)
    assert user.asked == []


@pytest.mark.spec("2025-11-25/client/elicitation#completion-notifications-for-url-mode-elicitation-3")
async def test_elicitation_complete_notification_is_taken_once_and_only_for_known_ids() -> None:
    done: list[str] = []
    async with client_of(accepting(), elicitation_url=True, on_elicitation_complete=done.append) as wire:

        async def complete(id: str) -> None:
            await wire.send(notification("notifications/elicitation/complete", {"elicitationId": id}))
            await wire.nothing_more()

        await complete("1")
        assert done == [], "nobody was sent anywhere"
        await wire.ask("elicitation/create", {"mode": "url", "message": "J", "url": URL, "elicitationId": "1"})
        for id in ("2", "1", "1"):
            await complete(id)
        assert done == ["1"]
        long = "3" * 1001  # a thousand ids of a megabyte would fill the client's memory
        await wire.ask("elicitation/create", {"mode": "url", "message": "J", "url": URL, "elicitationId": long})
        await complete(long)
        assert done == ["1"]


@pytest.mark.spec("2025-11-25/client/elicitation#url-elicitation-required-error-2,3")
async def test_url_elicitation_required_error_reaches_the_caller_and_can_be_completed() -> None:
    done: list[str] = []
    options = {"elicitation": accepting(), "elicitation_url": True, "on_elicitation_complete": done.append}
    async with raw_server(partial(Client, **options)) as (client, wire):  # type: ignore[arg-type]
        await handshake(client, wire, capabilities={"tools": {}})
        calling = asyncio.create_task(client.call_tool("x"))
        asked = await wire.receive_object()
        visit: Object = {"mode": "url", "message": "J", "url": URL, "elicitationId": "7"}
        error: Object = {"code": -32042, "message": "first", "data": {"elicitations": [visit]}}
        await wire.send({"jsonrpc": "2.0", "id": asked["id"], "error": error})
        with pytest.raises(RemoteError) as caught:
            await asyncio.wait_for(calling, PATIENCE)
        assert (caught.value.code, caught.value.data) == (-32042, {"elicitations": [visit]})
        await wire.send(notification("notifications/elicitation/complete", {"elicitationId": "7"}))
        await wire.nothing_more()
        assert done == ["7"]


# ------------------------------------------------------------------------------------------------ the server


def server_that_asks() -> Server:
    server = Server("s")

    @server.tool()
    async def form(context: Context) -> str:
        answer = await context.elicit("Who?", FORM)
        return f"{answer.action} {json.dumps(answer.content)}"

    @server.tool()
    async def url(context: Context) -> str:
        answer = await context.elicit_url("Join", URL, "visit-1")
        await context.elicitation_complete("visit-1")
        return answer.action

    @server.tool()
    async def required(context: Context) -> str:
        raise url_required("Join first", [ElicitRequestURLParams("Join", URL, "visit-2")])

    return server


async def call(wire: Wire, tool: str, result: Object) -> tuple[Object, list[Object]]:
    """Call a tool and answer what it asks; the params of that, and all that came after."""
    await wire.send(request("tools/call", {"name": tool, "arguments": {}}))
    asked = await wire.receive_object()
    assert asked["method"] == "elicitation/create"
    params = asked["params"]
    await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": result})
    frames = [await wire.receive_object()]
    while "id" not in frames[-1]:
        frames.append(await wire.receive_object())
    return params, frames


@pytest.mark.spec(
    "2025-11-25/client/elicitation#elicitation-requests-1",
    "2025-11-25/client/elicitation#form-mode-elicitation-requests-1",
)
@KINDS
@REVISIONS
async def test_context_elicit_sends_a_form(kind: str, revision: str) -> None:
    async with connected_client(server_that_asks(), kind, revision, {"elicitation": {}}) as wire:
        params, (answer,) = await call(wire, "form", {"action": "accept", "content": {"name": "Ada"}})
        mode: Object = {"mode": "form"} if revision == "2025-11-25" else {}
        assert params == {"message": "Who?", "requestedSchema": FORM, **mode}
        assert 'accept {"name": "Ada"}' in str(answer["result"])
        _, (answer,) = await call(wire, "form", {"action": "decline"})
        assert "decline null" in str(answer["result"])
        _, (answer,) = await call(wire, "form", {"action": "accept", "content": {"age": "old"}})
        assert "does not match" in str(answer["result"]), "a client that does not keep to the form is not believed"


@pytest.mark.spec(
    "2025-11-25/client/elicitation#url-mode-elicitation-requests-1",
    "2025-11-25/client/elicitation#completion-notifications-for-url-mode-elicitation-1,2",
)
@KINDS
async def test_context_elicit_url_notifies_only_that_client_of_completion(kind: str) -> None:
    server = server_that_asks()
    both: Object = {"elicitation": {"form": {}, "url": {}}}
    async with (
        connected_client(server, kind, "2025-11-25", both) as wire,
        connected_client(server, kind, "2025-11-25", both) as bystander,
    ):
        params, (notice, answer) = await call(wire, "url", {"action": "accept"})
        assert params == {"mode": "url", "message": "Join", "url": URL, "elicitationId": "visit-1"}
        assert notice["method"] == "notifications/elicitation/complete"
        assert notice["params"] == {"elicitationId": params["elicitationId"]}
        assert "accept" in str(answer["result"])
        await bystander.nothing_more()


@pytest.mark.spec("2025-11-25/client/elicitation#capabilities-3")
@pytest.mark.parametrize(
    ("tool", "capability"), [("url", {}), ("url", {"form": {}}), ("form", {"url": {}}), ("form", None), ("url", None)]
)
async def test_context_elicit_refuses_a_mode_that_the_client_did_not_declare(tool: str, capability: JSON) -> None:
    capabilities: Object = {} if capability is None else {"elicitation": capability}
    async with connected_client(server_that_asks(), "memory", "2025-11-25", capabilities) as wire:
        answer = await wire.ask("tools/call", {"name": tool, "arguments": {}})
        assert answer["result"]["isError"] is True
        assert "elicitation" in str(answer["result"]["content"])
        await wire.nothing_more()


@pytest.mark.spec(
    "2025-11-25/client/elicitation#error-handling-1",
    "2025-11-25/client/elicitation#url-elicitation-required-error-1,2,3",
)
async def test_url_elicitation_required_error_is_sent_only_for_url_required() -> None:
    capabilities: Object = {"elicitation": {"url": {}}}
    async with connected_client(server_that_asks(), "memory", "2025-11-25", capabilities) as wire:
        error = (await wire.ask("tools/call", {"name": "required", "arguments": {}}))["error"]
        visit: Object = {"mode": "url", "message": "Join", "url": URL, "elicitationId": "visit-2"}
        assert error == {"code": -32042, "message": "Join first", "data": {"elicitations": [visit]}}
        other = await wire.ask("tools/call", {"name": "form", "arguments": {}})
        assert "-32042" not in str(other)


@pytest.mark.attack("elicitation-url")
@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)", "ftp://a/b", "not a url", "https:///x", "", "https://evil.example\\@bank.example/",
        "https:a.b", "https://bank.example@evil.example/", "https://[x", "https://0x7f.1/", "https://a%2eb/",
        "https://\u0430.example/",
    ],
)  # fmt: skip
@pytest.mark.spec("2025-11-25..2026-07-28/client/elicitation#url-mode-elicitation-requests-2")
@LATEST_OF_BOTH_ERAS
async def test_context_elicit_url_refuses_an_invalid_url(url: str, revision: str) -> None:
    server = Server("s")

    @server.tool()
    async def send(context: Context) -> str:
        with pytest.raises(ValueError, match="URL"):
            await context.elicit_url("Join", url, "1")
        return "refused"

    async with connected_client(server, "memory", revision, {"elicitation": {"url": {}}}) as wire:
        assert "refused" in str(await wire.ask("tools/call", {"name": "send", "arguments": {}}))
        await wire.nothing_more()


@LATEST_OF_BOTH_ERAS
@pytest.mark.parametrize(
    ("user", "fault"),
    [
        (lambda question: None, " must be an `async def` function, not a plain `def` function"),
        (User("yes"), " must return ElicitResult(...), not str"),
        (User(PERHAPS), " returned an invalid result: ElicitResult.action must be 'accept' "),
        (accepting(count="one"), "'s content does not match the requested schema: count: expected an "),
    ],
)
async def test_elicitation_handler_that_is_invalid_is_the_same_error_in_both_eras(
    user: ElicitationHandler, fault: str, revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    server, fault = Server("s"), f"the elicitation handler{fault}"

    @server.tool()
    async def ask(context: Context) -> str:
        try:
            return str(await context.elicit("?", {"type": "object", "properties": {"count": {"type": "integer"}}}))
        except RemoteError as error:
            return error.message

    async with Client(server, elicitation=user, revision=revision) as client:
        if revision == "2025-11-25":
            assert fault in (await client.call_tool("ask")).text
        else:
            with pytest.raises(InvalidMessage, match=re.escape(fault)):
                await client.call_tool("ask")
    assert [record.getMessage()[: len(fault)] for record in caplog.records] == [fault]


async def test_url_elicitation_required_error_becomes_input_required_in_2026_07_28() -> None:
    visits: list[str] = []
    server = Server("s")

    @server.tool()
    async def join() -> str:
        if len(visits) < 2:
            raise url_required("Join first", [ElicitRequestURLParams("Join", URL, "visit-1")])
        return "joined"

    async def user(question: Question) -> ElicitResult:
        assert isinstance(question, ElicitRequestURLParams)
        assert (question.message, question.url, question.elicitation_id) == ("Join", URL, None)
        visits.append(question.url)
        return ElicitResult("accept")

    async with Client(server, elicitation=user, elicitation_url=True, revision="2026-07-28") as client:
        assert (await client.call_tool("join")).text == "joined"
    visits.clear()
    declining = User(ElicitResult("decline"))
    async with Client(server, elicitation=declining, elicitation_url=True, revision="2026-07-28") as client:
        with pytest.raises(RemoteError, match="did not agree") as refused:
            await client.call_tool("join")
        assert refused.value.code == -32602
    async with Client(server, elicitation=user, revision="2026-07-28") as client:
        with pytest.raises(RemoteError) as missing:
            await client.call_tool("join")
        assert missing.value.code == -32021
        assert missing.value.data == {"requiredCapabilities": {"elicitation": {"url": {}}}}
    assert visits == []
