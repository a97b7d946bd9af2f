"""Input requests in results of 2026-07-28, at the client: forms, URLs, models and roots."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine

import pytest

from mcp_ref import Client, ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult, InvalidMessage, RemoteError
from mcp_ref.basic.content import TextContent
from mcp_ref.features.completion import PromptReference
from mcp_ref.features.roots import Root
from mcp_ref.features.sampling import CreateMessageRequestParams, CreateMessageResult
from mcp_ref.jsonrpc.messages import JSON, Object
from mcp_ref.transports.memory import MemoryTransport
from tests.raw_peers import raw_session, served
from tests.raw_stateless_server import answer, asked_for, meta_of, params_of, refusal, soon
from tests.settings import MODERN, run

OFFERS: Object = {"tools": {}, "prompts": {}, "resources": {"subscribe": True}, "completions": {}}
FORM: Object = {"type": "object", "properties": {"name": {"type": "string"}}}
URL = "https://example.com/join?visit=1"
DONE: Object = {"resultType": "complete", "content": []}
Make = Callable[[MemoryTransport], Client]
Question = ElicitRequestFormParams | ElicitRequestURLParams


async def ask(make: Make, method: str, params: Object) -> JSON:
    """Ask one question in the result of a call; gives the client's answer to it."""
    async with raw_session(make, MODERN, OFFERS) as (client, wire):
        calling = asyncio.create_task(client.call_tool("t"))
        question: Object = {"method": method, "params": params}
        first = await asked_for(wire, "tools/call")
        await wire.send(answer(first, {"resultType": "input_required", "inputRequests": {"q": question}}))
        sent = asyncio.create_task(asked_for(wire, "tools/call"))
        done, _ = await asyncio.wait([sent, calling], return_when=asyncio.FIRST_COMPLETED)
        if calling in done:
            sent.cancel()
            await calling  # which raises
        again = await sent
        await wire.send(answer(again, DONE))
        await soon(calling)
        answers: dict[str, JSON] = params_of(again)["inputResponses"]
        assert answers.keys() == {"q"}
        return answers["q"]


def asking(user: Callable[[Question], Awaitable[ElicitResult]], url: bool = False) -> Make:
    return lambda transport: Client(transport, elicitation=user, elicitation_url=url)


# ------------------------------------------------------------------------------------------------ every request

Call = Callable[[Client], Coroutine[object, object, object]]
REQUESTS: list[tuple[str, Call, Object]] = [
    ("tools/list", lambda client: client.list_tools(), {"tools": []}),
    ("tools/call", lambda client: client.call_tool("t"), {"content": []}),
    ("prompts/list", lambda client: client.list_prompts(), {"prompts": []}),
    ("prompts/get", lambda client: client.get_prompt("p"), {"messages": []}),
    ("resources/list", lambda client: client.list_resources(), {"resources": []}),
    ("resources/templates/list", lambda client: client.list_resource_templates(), {"resourceTemplates": []}),
    ("resources/read", lambda client: client.read_resource("test://a"), {"contents": []}),
    (
        "completion/complete",
        lambda client: client.complete(PromptReference("p"), "a", ""),
        {"completion": {"values": []}},
    ),
]


@pytest.mark.spec(
    "2026-07-28/server/tools#intro-1",
    "2026-07-28/server/prompts#intro-1",
    "2026-07-28/server/resources#intro-1",
    "2026-07-28/server/utilities/completion#intro-1",
    "2026-07-28/server/utilities/pagination#intro-1",
    "2026-07-28/basic/transports/stdio#intro-4",
)
@pytest.mark.parametrize(("method", "ask_for", "result"), REQUESTS, ids=[method for method, _, _ in REQUESTS])
async def test_input_requests_have_the_members_of_their_kind_and_no_others(
    method: str, ask_for: Call, result: Object
) -> None:
    async with raw_session(Client, MODERN, OFFERS) as (client, wire):
        caching: Object = {"ttlMs": 0, "cacheScope": "public"}
        _, asked = await served(ask_for(client), wire, {"resultType": "complete", **caching, **result})
        assert asked["method"] == method and meta_of(asked)  # the members that every request must have
        assert wire.frames.empty()


@pytest.mark.spec("2026-07-28/basic/index#error-codes-3")
@pytest.mark.parametrize("code", [-32000, -32001, -32003, -32004, -32010, -32019])
async def test_legacy_error_codes_have_no_meaning_in_2026_07_28(code: int) -> None:
    """Check that the client does nothing special about codes that SDKs used for lost sessions or timeouts."""
    async with raw_session(Client, MODERN, OFFERS) as (client, wire):
        calling = asyncio.create_task(client.call_tool("t"))
        await wire.send(refusal(await asked_for(wire, "tools/call"), code, "as you like", {"a": 1}))
        with pytest.raises(RemoteError, match="as you like") as found:
            await soon(calling)
        assert (found.value.code, found.value.data) == (code, {"a": 1})
        assert wire.frames.empty()


# ------------------------------------------------------------------------------------------------ forms


@pytest.mark.spec("2026-07-28/client/elicitation#user-interaction-model-4,5")
@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_input_request_elicitation_declined_or_cancelled_has_no_content(action: str) -> None:
    async def user(question: Question) -> ElicitResult:
        return ElicitResult(action, {"name": "half typed"})  # type: ignore[arg-type]

    params: Object = {"mode": "form", "message": "Who?", "requestedSchema": FORM}
    assert run(ask(asking(user), "elicitation/create", params)) == {"action": action}


@pytest.mark.spec(
    "2026-07-28/client/elicitation#elicitation-requests-2", "2026-07-28/client/elicitation#capabilities-2"
)
def test_input_request_elicitation_without_mode_is_a_form() -> None:
    asked: list[Question] = []

    async def user(question: Question) -> ElicitResult:
        asked.append(question)
        return ElicitResult("accept", {"name": "Ada"})

    said = run(ask(asking(user), "elicitation/create", {"message": "Who?", "requestedSchema": FORM}))
    assert said == {"action": "accept", "content": {"name": "Ada"}}
    assert [type(question) for question in asked] == [ElicitRequestFormParams]


# ------------------------------------------------------------------------------------------------ web pages


@pytest.mark.spec(
    "2026-07-28/client/elicitation#safe-url-handling-5,6,7,8", "2026-07-28/client/elicitation#user-interaction-model-6"
)
@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
def test_input_request_elicitation_url_goes_to_the_user_unchanged_and_is_not_fetched(
    action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that the handler gets the unchanged URL, and that the package opens no connection and no browser."""
    monkeypatch.setattr("socket.getaddrinfo", lambda *a, **k: pytest.fail("a name was looked up"))
    monkeypatch.setattr("webbrowser.open", lambda *a, **k: pytest.fail("a browser was opened"))
    asked: list[str] = []

    async def user(question: Question) -> ElicitResult:
        assert isinstance(question, ElicitRequestURLParams)
        asked.append(question.url)
        return ElicitResult(action, {"ignored": True})  # type: ignore[arg-type]

    params: Object = {"mode": "url", "message": "Join", "url": URL}
    assert run(ask(asking(user, url=True), "elicitation/create", params)) == {"action": action}
    assert asked == [URL]


@pytest.mark.spec("2026-07-28/client/elicitation#safe-url-handling-5")
@pytest.mark.parametrize("url", ["javascript:alert(1)", "file:///etc/passwd", "https://", "https://a\u202e/", ""])
def test_input_request_elicitation_invalid_url_is_not_shown(url: str) -> None:
    async def user(question: Question) -> ElicitResult:
        pytest.fail("the user was bothered")

    with pytest.raises(InvalidMessage, match="elicitation/create"):
        run(ask(asking(user, url=True), "elicitation/create", {"mode": "url", "message": "Join", "url": url}))


# ------------------------------------------------------------------------------------------------ models


def model_of(answers: Callable[[CreateMessageRequestParams], CreateMessageResult], tools: bool = False) -> Make:
    async def model(params: CreateMessageRequestParams) -> CreateMessageResult:
        return answers(params)

    return lambda transport: Client(transport, sampling=model, sampling_tools=tools)


SAMPLING: Object = {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}], "maxTokens": 7}


@pytest.mark.spec("2026-07-28/client/sampling#sampling-parameters-1")
def test_input_request_sampling_max_tokens_reaches_the_model() -> None:
    seen: list[int] = []

    def answers(params: CreateMessageRequestParams) -> CreateMessageResult:
        seen.append(params.max_tokens)
        return CreateMessageResult("assistant", TextContent("hello"), "m")

    said = run(ask(model_of(answers), "sampling/createMessage", SAMPLING))
    assert said == {"role": "assistant", "content": {"type": "text", "text": "hello"}, "model": "m"}
    assert seen == [7]


@pytest.mark.spec("2026-07-28/client/sampling#tools-in-sampling-1")
@pytest.mark.parametrize("declared", [False, True])
def test_input_request_sampling_tools_need_the_sampling_tools_capability(declared: bool) -> None:
    def answers(params: CreateMessageRequestParams) -> CreateMessageResult:
        assert declared and [tool.name for tool in params.tools or ()] == ["clock"]
        return CreateMessageResult("assistant", TextContent("noon"), "m")

    params: Object = {**SAMPLING, "tools": [{"name": "clock", "inputSchema": {"type": "object"}}]}
    asked = ask(model_of(answers, tools=declared), "sampling/createMessage", params)
    if declared:
        assert isinstance(run(asked), dict)
    else:
        with pytest.raises(InvalidMessage, match=r"sampling\.tools"):
            run(asked)


@pytest.mark.spec("2026-07-28/client/sampling#security-considerations-5")
async def test_input_request_sampling_failure_of_the_model_is_not_disclosed() -> None:
    async def broken(params: CreateMessageRequestParams) -> CreateMessageResult:
        raise RuntimeError("the key sk-123 was not accepted")

    async with raw_session(lambda t: Client(t, sampling=broken), MODERN, OFFERS) as (client, wire):
        calling = asyncio.create_task(client.call_tool("t"))
        question: Object = {"method": "sampling/createMessage", "params": SAMPLING}
        required: Object = {"resultType": "input_required", "inputRequests": {"q": question}}
        await wire.send(answer(await asked_for(wire, "tools/call"), required))
        with pytest.raises(RuntimeError, match="sk-123"):  # the caller's own, and the caller's alone
            await soon(calling)
        assert wire.frames.empty()


# ------------------------------------------------------------------------------------------------ directories


@pytest.mark.spec("2026-07-28/client/roots#security-considerations-1")
@pytest.mark.parametrize("roots", [[], ["file:///home/user/project"]])
def test_input_request_roots_are_only_those_that_the_program_named(roots: list[str]) -> None:
    said = run(ask(lambda t: Client(t, roots=[Root(uri) for uri in roots]), "roots/list", {}))
    assert said == {"roots": [{"uri": uri} for uri in roots]}
