"""Multi round-trip requests, the client's side: input requests in the result, and the responses in a retry.

A bare server, so that every frame is seen. That the same callbacks serve both eras is held by test_matrix.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable

import pytest

from mcp_ref import (
    Client,
    ConnectionClosed,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    InvalidMessage,
    McpError,
    RemoteError,
    RequestTimeout,
    TextContent,
)
from mcp_ref.basic import mrtr
from mcp_ref.jsonrpc import bounded_waits
from mcp_ref.jsonrpc.messages import JSON, Object
from mcp_ref.lib.http.message import Exchange
from mcp_ref.transports.memory import MemoryTransport
from tests.messages import Received, request
from tests.raw_peers import Wire, raw_session
from tests.raw_stateless_server import META, MODERN, answer, asked_for, discovered, params_of, refusal
from tests.scripted_http_server import JSON_HEADERS, Step, frame, respond_with, scripted
from tests.settings import PATIENCE, eventually, pass_time

OFFERS: Object = {"tools": {}, "resources": {}, "prompts": {}, "completions": {}}
DONE: Object = {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}
FORM: Object = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
Question = ElicitRequestFormParams | ElicitRequestURLParams


class Person:
    """A user or a model that notes the requests, and signs the responses."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}
        self.left: list[str] = []

    async def elicit(self, question: Question) -> ElicitResult:
        self.asked.append(question.message)
        if (gate := self.gates.get(question.message)) is not None:
            try:
                await gate.wait()
            except asyncio.CancelledError:
                self.left.append(question.message)
                raise
        if isinstance(question, ElicitRequestURLParams):
            return ElicitResult("accept")
        return ElicitResult("accept", {"name": f"Ada {question.message}"})

    async def sample(self, params: CreateMessageRequestParams) -> CreateMessageResult:
        self.asked.append("sample")
        return CreateMessageResult("assistant", TextContent("hello"), "m")


def offering(person: Person, **options: object) -> Callable[[MemoryTransport], Client]:
    everything: dict[str, object] = {
        "elicitation": person.elicit,
        "elicitation_url": True,
        "sampling": person.sample,
        "roots": ["file:///home/user"],
        "timeout": PATIENCE,
    }
    return lambda transport: Client(transport, **{**everything, **options})  # type: ignore[arg-type]


def elicit(**params: JSON) -> Received:
    return {"method": "elicitation/create", "params": {"message": "x", **params}}


def ask_user(message: str = "who?") -> Received:
    return elicit(mode="form", message=message, requestedSchema=FORM)


def sample(**params: JSON) -> Received:
    return {"method": "sampling/createMessage", "params": params}


def asks(state: JSON = None, **questions: JSON) -> Object:
    """Return an `input_required` result."""
    result: Object = {"resultType": "input_required"}
    if questions:
        result["inputRequests"] = dict(questions)
    if state is not None:
        result["requestState"] = state
    return result


async def call(client: Client, name: str = "t", **arguments: object) -> str:
    return (await client.call_tool(name, arguments)).text


async def begin(client: Client, wire: Wire, result: Object) -> asyncio.Task[str]:
    """Begin a call whose first request gets this result."""
    calling = asyncio.create_task(call(client))
    await wire.send(answer(await asked_for(wire, "tools/call"), result))
    return calling


# ------------------------------------------------------------------------------------------------ one round


@pytest.mark.spec(
    "2026-07-28/basic/patterns/mrtr#client-requirements-basic-workflow-1,2,5", "2026-07-28/basic/patterns/mrtr#intro-2"
)
async def test_several_questions_are_answered_in_one_retry_that_is_the_request_again() -> None:
    person = Person()
    async with raw_session(offering(person), MODERN, OFFERS) as (client, wire):
        calling = asyncio.create_task(call(client, x=1))
        first = await asked_for(wire, "tools/call")
        messages: JSON = [{"role": "user", "content": {"type": "text", "text": "hi"}}]
        questions: Object = {
            "user": ask_user(),
            "model": sample(messages=messages, maxTokens=5),
            "roots": {"method": "roots/list"},
            "url": elicit(mode="url", message="go there", url="https://example.com/x"),
            "an odd key!": {"method": "roots/list", "params": {}},
        }
        await wire.send(answer(first, asks("s1", **questions)))
        again = await asked_for(wire, "tools/call")
        assert again["id"] != first["id"]
        params = params_of(again)
        responses = params.pop("inputResponses")
        assert params.pop("requestState") == "s1"
        assert params == params_of(first)  # also its `_meta`
        assert responses == {
            "user": {"action": "accept", "content": {"name": "Ada who?"}},
            "model": {"role": "assistant", "content": {"type": "text", "text": "hello"}, "model": "m"},
            "roots": {"roots": [{"uri": "file:///home/user"}]},
            "url": {"action": "accept"},
            "an odd key!": {"roots": [{"uri": "file:///home/user"}]},
        }
        await wire.send(answer(again, DONE))
        assert await calling == "done"
        assert sorted(person.asked) == ["go there", "sample", "who?"]


STATES = ["s", "", " ", "eyJ=.ä€😀\u2028", "\x00\r\n", '{"a":  1}', "x" * 100_000, "null"]


@pytest.mark.spec(
    "2026-07-28/basic/patterns/mrtr#client-requirements-basic-workflow-2,3",
    "2026-07-28/basic/patterns/mrtr#inputrequiredresult-1",
)
@pytest.mark.parametrize("state", STATES, ids=lambda state: repr(state[:12]))
@pytest.mark.parametrize("asking", [True, False], ids=["with a question", "alone"])
async def test_request_state_is_sent_back_unchanged(state: str, asking: bool) -> None:
    async with raw_session(offering(Person()), MODERN, OFFERS) as (client, wire):
        calling = await begin(client, wire, asks(state, **({"q": ask_user()} if asking else {})))
        again = await asked_for(wire, "tools/call")
        assert params_of(again)["requestState"] == state
        assert ("inputResponses" in params_of(again)) == asking
        await wire.send(answer(again, DONE))
        assert await calling == "done"


@pytest.mark.spec("2026-07-28/basic/patterns/mrtr#client-requirements-basic-workflow-2,4")
async def test_retry_carries_the_responses_and_the_state_of_its_own_round_only() -> None:
    async with raw_session(offering(Person()), MODERN, OFFERS) as (client, wire):
        calling = asyncio.create_task(call(client))
        rounds = [asks("s1", a=ask_user("a")), asks(b=ask_user("b")), asks("s3"), asks("s4", a=ask_user("c"))]
        asked = await asked_for(wire, "tools/call")
        ids, found = {json.dumps(asked["id"])}, []
        for each in rounds:
            await wire.send(answer(asked, each))
            asked = await asked_for(wire, "tools/call")
            ids.add(json.dumps(asked["id"]))
            params = params_of(asked)
            found.append((params.get("inputResponses"), params.get("requestState")))
        await wire.send(answer(asked, DONE))
        assert await calling == "done" and len(ids) == 5

        def said(name: str) -> Object:
            return {"action": "accept", "content": {"name": f"Ada {name}"}}

        assert found == [({"a": said("a")}, "s1"), ({"b": said("b")}, None), (None, "s3"), ({"a": said("c")}, "s4")]


CONTENTS: Object = {"resultType": "complete", "contents": [], "ttlMs": 0, "cacheScope": "private"}
REQUESTS: dict[str, tuple[Callable[[Client], Awaitable[object]], Object]] = {
    "tools/call": (lambda client: client.call_tool("t"), DONE),
    "prompts/get": (lambda client: client.get_prompt("p"), {"resultType": "complete", "messages": []}),
    "resources/read": (lambda client: client.read_resource("test://x"), CONTENTS),
}


@pytest.mark.parametrize("method", REQUESTS)
async def test_requests_that_may_require_input_are_retried_with_the_responses(method: str) -> None:
    ask, result = REQUESTS[method]
    async with raw_session(offering(Person()), MODERN, OFFERS) as (client, wire):
        calling = asyncio.ensure_future(ask(client))
        await wire.send(answer(await asked_for(wire, method), asks("s", q=ask_user())))
        again = await asked_for(wire, method)
        assert params_of(again)["inputResponses"]
        await wire.send(answer(again, result))
        await calling


@pytest.mark.spec(
    "2026-07-28/client/elicitation#capabilities-1",
    "2026-07-28/client/sampling#capabilities-1",
    "2026-07-28/client/roots#capabilities-1",
    "2026-07-28/basic/index#meta-6",
)
async def test_every_request_declares_the_capabilities_of_the_client() -> None:
    async with raw_session(offering(Person(), sampling_tools=True), MODERN, OFFERS) as (client, wire):
        calling = asyncio.create_task(call(client))
        for result in (asks("s", q=ask_user()), DONE):
            asked = await asked_for(wire, "tools/call")
            meta = params_of(asked)["_meta"]
            capabilities = meta[f"{META}clientCapabilities"]
            assert capabilities["elicitation"] == {"form": {}, "url": {}}
            assert capabilities["sampling"] == {"tools": {}} and "roots" in capabilities
            await wire.send(answer(asked, result))
        assert await calling == "done"


# ------------------------------------------------------------------------------------------------ invalid requests


async def test_server_that_requires_input_in_every_round_is_an_invalid_message_at_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mrtr, "MAX_ROUNDS", 3)
    async with raw_session(offering(Person()), MODERN, OFFERS) as (client, wire):
        calling = asyncio.create_task(call(client))
        for _ in range(4):
            await wire.send(answer(await asked_for(wire, "tools/call"), asks("s")))
        with pytest.raises(InvalidMessage, match="still requires input after 3 rounds"):
            await calling
        assert wire.frames.empty()


BAD: dict[str, tuple[Object, str]] = {
    "nothing at all": ({"resultType": "input_required"}, "neither inputRequests nor requestState"),
    "a state of a number": ({"resultType": "input_required", "requestState": 5}, "requestState"),
    "a state of an object": (asks({"a": 1}, q=ask_user()), "requestState"),
    "questions in a list": ({"resultType": "input_required", "inputRequests": [ask_user()]}, "inputRequests"),
    "questions of text": ({"resultType": "input_required", "inputRequests": "x", "requestState": "s"}, "inputRequests"),
    "a question of text": (asks(q="who?"), "inputRequests.q"),
    "no method": (asks(q={"params": {}}), "inputRequests.q"),
    "a method of a number": (asks(q={"method": 5}), "inputRequests.q"),
    "params in a list": (asks(q={"method": "roots/list", "params": []}), "inputRequests.q"),
    "too many": (asks(**{str(n): ask_user() for n in range(101)}), "at most 100 inputRequests, got 101"),
    "an unknown method": (asks(q={"method": "tools/call", "params": {"name": "x"}}), "tools/call"),
    "ping": (asks(q={"method": "ping"}), "ping"),
    "a notification": (asks(q={"method": "notifications/message", "params": {}}), "notifications/message"),
    "no schema": (asks(q=elicit(mode="form")), "expected an object"),
    "a nested schema": (
        asks(q=elicit(requestedSchema={"type": "object", "properties": {"a": {"type": "object"}}})),
        "must be one of",
    ),
    "a url of javascript": (asks(q=elicit(mode="url", url="javascript:alert(1)")), "must begin with https:// or http"),
    "one of two": (asks(a=ask_user(), b={"method": "ping"}), "ping"),
    "no messages": (asks(q=sample(maxTokens=1)), "messages"),
    "an unknown type": ({"resultType": "surprise", "content": []}, "'surprise'"),
    "a type of a number": ({"resultType": 5, "content": []}, "type"),
    "a type of null": ({"resultType": None, "content": []}, "type"),
}


async def refuses(
    result: Object, why: str, ask: Callable[[Client], Awaitable[object]], method: str, **options: object
) -> None:
    """Check that a client refuses a result without asking anybody, and that its next call works."""
    person = Person()
    async with raw_session(offering(person, **options), MODERN, OFFERS) as (client, wire):
        asking = asyncio.ensure_future(ask(client))
        await wire.send(answer(await asked_for(wire, method), result))
        with pytest.raises(InvalidMessage, match=why):
            await asking
        assert wire.frames.empty() and person.asked == []
        assert await (await begin(client, wire, DONE)) == "done"


@pytest.mark.spec("2026-07-28/basic/index#resulttype-2")
@pytest.mark.parametrize("what", BAD)
async def test_invalid_input_required_result_is_an_invalid_message_and_the_user_is_not_asked(what: str) -> None:
    result, why = BAD[what]
    await refuses(result, why, call, "tools/call")


@pytest.mark.parametrize(
    ("method", "ask"),
    [
        ("tools/list", lambda client: client.list_tools()),
        ("server/discover", lambda client: client.ping()),
        ("prompts/list", lambda client: client.list_prompts()),
    ],
)
async def test_input_required_result_of_another_method_is_an_invalid_message(
    method: str, ask: Callable[[Client], Awaitable[object]]
) -> None:
    await refuses(asks("s", q=ask_user()), "input_required", ask, method)


UNDECLARED: dict[str, tuple[Object, dict[str, object]]] = {
    "elicitation": (ask_user(), {"elicitation": None, "elicitation_url": False}),
    "url": (elicit(mode="url", url="https://example.com"), {"elicitation_url": False}),
    "sampling": (sample(messages=[], maxTokens=1), {"sampling": None}),
    "sampling.tools": (sample(messages=[], maxTokens=1, tools=[{"name": "t", "inputSchema": {"type": "object"}}]), {}),
    "roots": ({"method": "roots/list"}, {"roots": None}),
}


@pytest.mark.parametrize("what", UNDECLARED)
async def test_input_request_for_an_undeclared_capability_is_an_invalid_message(what: str) -> None:
    question, options = UNDECLARED[what]
    await refuses(asks(q=question), "did not declare|does not support", call, "tools/call", **options)


@pytest.mark.spec("2026-07-28/basic/index#resulttype-3")
async def test_result_without_a_result_type_is_complete() -> None:
    async with raw_session(offering(Person()), MODERN, OFFERS) as (client, wire):
        assert await (await begin(client, wire, {"content": DONE["content"]})) == "done"


@pytest.mark.spec("2026-07-28/basic/transports/stdio#sending-messages-1")
async def test_request_from_a_modern_server_gets_no_response_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    person = Person()
    async with raw_session(offering(person), MODERN, OFFERS) as (client, wire):
        await wire.send({"jsonrpc": "2.0", "id": 1, **ask_user()})
        await wire.send(request("ping", None, 2))
        await wire.send(b'[{"jsonrpc":"2.0","id":3,"method":"ping"}]')
        await wire.send(b'{"jsonrpc":"2.0","id":4,"method":5}')
        assert await (await begin(client, wire, DONE)) == "done"  # its request is the next frame of all
        assert person.asked == []
    assert "must not send" in caplog.text


# ------------------------------------------------------------------------------------------------ handlers


@pytest.mark.parametrize("error", [ValueError("not today"), RemoteError(-1, "rejected")])
async def test_input_request_handler_error_is_raised_from_the_call_as_itself(error: Exception) -> None:
    async def refuse(question: Question) -> ElicitResult:
        raise error

    person = Person()
    person.gates["slow"] = asyncio.Event()

    async def user(question: Question) -> ElicitResult:
        return await (person.elicit(question) if question.message == "slow" else refuse(question))

    async with raw_session(offering(person, elicitation=user), MODERN, OFFERS) as (client, wire):
        calling = await begin(client, wire, asks(q=ask_user("slow"), r=ask_user("quick")))
        with pytest.raises(type(error)) as found:
            await calling
        assert found.value is error
        assert person.left == ["slow"]  # the others are not left asking
        assert wire.frames.empty()
        assert await (await begin(client, wire, DONE)) == "done"


async def test_input_request_handler_that_raises_cancelled_error_does_not_cancel_the_caller() -> None:
    async def user(question: Question) -> ElicitResult:
        raise asyncio.CancelledError

    async with raw_session(offering(Person(), elicitation=user), MODERN, OFFERS) as (client, wire):
        calling = asyncio.create_task(call(client))
        await wire.send(answer(await asked_for(wire, "tools/call"), asks(q=ask_user())))
        with pytest.raises(McpError, match="handler of an input request was cancelled"):
            await calling


async def test_elicitation_handler_with_an_invalid_return_value_fails_the_call() -> None:
    answers: list[object] = [None, ElicitResult("accept", {"name": 5})]

    async def user(question: Question) -> ElicitResult:
        return answers.pop(0)  # type: ignore[return-value]

    async with raw_session(offering(Person(), elicitation=user), MODERN, OFFERS) as (client, wire):
        for _ in range(len(answers)):
            calling = await begin(client, wire, asks(q=ask_user()))
            with pytest.raises(InvalidMessage, match="the elicitation handler"):
                await calling
        assert wire.frames.empty()


async def test_call_ends_although_an_input_request_handler_ignores_its_cancellation(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(bounded_waits, "CANCEL_SECONDS", 0.02)
    go = asyncio.Event()

    async def user(question: Question) -> ElicitResult:
        if question.message == "quick":
            raise ValueError("not today")
        while not go.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await go.wait()
        return ElicitResult("decline")

    async with raw_session(offering(Person(), elicitation=user), MODERN, OFFERS) as (client, wire):
        calling = await begin(client, wire, asks(q=ask_user("stubborn"), r=ask_user("quick")))
        with pytest.raises(ValueError, match="not today"):
            await calling
        assert "handlers of input requests ignore their cancellation, and still run: 1" in caplog.text
        go.set()


@pytest.mark.spec("2026-07-28/basic/patterns/cancellation#behavior-requirements-2")
async def test_call_cancelled_during_an_elicitation_leaves_nothing_behind() -> None:
    person = Person()
    person.gates["who?"] = asyncio.Event()
    async with raw_session(offering(person), MODERN, OFFERS) as (client, wire):
        calling = await begin(client, wire, asks(q=ask_user()))
        await eventually(lambda: person.asked)
        calling.cancel()
        await asyncio.wait([calling], timeout=PATIENCE)
        assert calling.cancelled() and person.left == ["who?"]
        assert wire.frames.empty()  # the request is answered already: there is nothing to cancel


@pytest.mark.spec(
    "2026-07-28/basic/patterns/cancellation#transport-specific-cancellation-2",
    "2026-07-28/basic/transports/stdio#cancellation-1",
    "2026-07-28/basic/patterns/cancellation#behavior-requirements-1",
)
@pytest.mark.parametrize("how", ["leaves", "time is up"])
async def test_call_cancelled_during_a_retry_cancels_the_retry(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with raw_session(offering(Person()), MODERN, OFFERS) as (client, wire):
        calling = asyncio.create_task(client.call_tool("t", timeout=5.0 if how == "time is up" else None))
        await wire.send(answer(await asked_for(wire, "tools/call"), asks(q=ask_user())))
        again = await asked_for(wire, "tools/call")
        if how == "leaves":
            calling.cancel()
        else:
            pass_time(monkeypatch, 5.0)
        with pytest.raises(RequestTimeout if how == "time is up" else asyncio.CancelledError):
            await calling
        cancelled = await wire.receive_object()
        assert cancelled["method"] == "notifications/cancelled"
        assert params_of(cancelled)["requestId"] == again["id"]


@pytest.mark.spec("2026-07-28/basic/patterns/mrtr#client-requirements-basic-workflow-6")
async def test_calls_in_parallel_do_not_mix_their_answers_and_states() -> None:
    person = Person()
    person.gates = {str(n): asyncio.Event() for n in range(20)}
    async with raw_session(offering(person), MODERN, OFFERS) as (client, wire):
        calls = [asyncio.create_task(call(client, n=n)) for n in range(20)]
        for _ in calls:
            asked = await asked_for(wire, "tools/call")
            n = str(params_of(asked)["arguments"]["n"])
            await wire.send(answer(asked, asks(f"state {n}", q=ask_user(n))))
        for gate in reversed(person.gates.values()):
            gate.set()
            await asyncio.sleep(0)
        for _ in calls:
            params = params_of(asked := await asked_for(wire, "tools/call"))
            n = str(params["arguments"]["n"])
            assert params["requestState"] == f"state {n}"
            assert params["inputResponses"] == {"q": {"action": "accept", "content": {"name": f"Ada {n}"}}}
            text: Object = {"resultType": "complete", "content": [{"type": "text", "text": n}]}
            await wire.send(answer(asked, text))
        assert await asyncio.gather(*calls) == [str(n) for n in range(20)]


async def test_connection_that_closes_while_the_user_answers_fails_the_call() -> None:
    person = Person()
    async with raw_session(offering(person), MODERN, OFFERS) as (client, wire):
        person.gates["who?"] = asyncio.Event()
        calling = await begin(client, wire, asks(q=ask_user()))
        await eventually(lambda: person.asked)
        await client.close()
        person.gates["who?"].set()
        with pytest.raises(ConnectionClosed):
            await calling


# ------------------------------------------------------------------------------------------------ header mismatch


def tool(name: str, header: JSON = None) -> Object:
    marked: Object = {"type": "string", **({} if header is None else {"x-mcp-header": header})}
    return {"name": name, "inputSchema": {"type": "object", "properties": {"where": marked}}}


def lists(*tools: Object) -> Step:
    return respond_with({"tools": [*tools], "ttlMs": 60_000, "cacheScope": "public"})


async def mismatch(exchange: Exchange, message: Object) -> None:
    exchange.respond(400, JSON_HEADERS, frame(refusal(message, -32020, "Header mismatch: Mcp-Param-Where")))


@pytest.mark.spec("2026-07-28/basic/transports/streamable-http#client-behavior-6")
@pytest.mark.parametrize("before", ["nothing", "an old list, which may be kept"])
async def test_header_mismatch_reloads_the_list_of_tools_and_retries_once(before: str) -> None:
    async with scripted() as site:
        site.on("server/discover", respond_with(discovered(capabilities=OFFERS)))
        site.on("tools/call", mismatch, respond_with(DONE), respond_with(DONE))
        if before != "nothing":
            site.on("tools/list", lists(tool("t")))
        site.on("tools/list", lists(tool("t", "Where")))
        async with Client(site.url, timeout=PATIENCE) as client:
            if before != "nothing":
                await client.list_tools()
            assert await call(client, where="here") == "done"
            assert await call(client, where="there") == "done"
        found = [headers.get("mcp-param-where") for headers in site.headers("tools/call")]
        assert found == [None, "here", "there"]
        assert site.keys.count("tools/list") == 1 + (before != "nothing")


@pytest.mark.parametrize("then", ["the same list", "refused again"])
async def test_header_mismatch_after_the_retry_is_raised(then: str) -> None:
    async with scripted() as site:
        site.on("server/discover", respond_with(discovered(capabilities=OFFERS)))
        site.on("tools/call", mismatch, mismatch)
        site.on("tools/list", *[lists(tool("t", "Where" if then == "refused again" else None))] * 3)
        async with Client(site.url, timeout=PATIENCE) as client:
            with pytest.raises(RemoteError, match="Header mismatch") as found:
                await call(client, where="here")
            assert found.value.code == -32020
        assert site.keys.count("tools/call") == (2 if then == "refused again" else 1)
        assert site.keys.count("tools/list") == 1


ARRAY: Object = {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}
WRONG: dict[str, Object] = {
    "a number": tool("bad", 5),
    "a newline": tool("bad", "a\r\nX"),
    "in a list": {"name": "bad", "inputSchema": {"type": "object", "properties": {"a": ARRAY}}},
}


@pytest.mark.spec(
    "2026-07-28/basic/transports/streamable-http#schema-extension-9,10,11",
    "2026-07-28/server/tools#x-mcp-header-8,9,10",
)
@pytest.mark.parametrize("what", WRONG)
async def test_tool_with_an_invalid_x_mcp_header_is_omitted_over_http_with_a_warning(
    what: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with scripted() as site:
        site.on("server/discover", respond_with(discovered(capabilities=OFFERS)))
        site.on("tools/list", lists(tool("good", "Where"), WRONG[what], tool("plain")))
        async with Client(site.url, timeout=PATIENCE) as client:
            assert [tool.name for tool in await client.list_tools()] == ["good", "plain"]
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "'bad'" in record.message and "x-mcp-header" in record.message


@pytest.mark.parametrize("what", WRONG)
async def test_tool_with_invalid_x_mcp_header_is_listed_on_stdio(what: str) -> None:
    async with raw_session(offering(Person()), MODERN, OFFERS) as (client, wire):
        listing = asyncio.create_task(client.list_tools())
        result: Object = {"resultType": "complete", "tools": [WRONG[what]], "ttlMs": 0, "cacheScope": "public"}
        await wire.send(answer(await asked_for(wire, "tools/list"), result))
        assert [tool.name for tool in await listing] == ["bad"]
        calling = asyncio.create_task(call(client, "bad"))
        await wire.send(refusal(await asked_for(wire, "tools/call"), -32020, "odd"))
        with pytest.raises(McpError, match="odd"):
            await calling
        assert wire.frames.empty()  # without headers nothing is listed again


@pytest.mark.spec("2026-07-28/basic/patterns/cancellation#behavior-requirements-2")
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
async def test_call_cancelled_after_its_response_came_sends_no_cancelled(revision: str) -> None:
    async with raw_session(offering(Person()), revision, OFFERS) as (client, wire):
        calling = asyncio.create_task(client.call_tool("t"))
        asked = await wire.receive_object()
        pending = client.session.dispatcher.pending[asked["id"]]
        await wire.send(answer(asked, DONE))
        while pending.outcome is None:
            await asyncio.sleep(0)
        calling.cancel()  # before it could go on
        await asyncio.wait([calling], timeout=PATIENCE)
        await client.close()
        assert wire.frames.empty()
