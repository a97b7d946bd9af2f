"""Multi round-trip requests: input requests are in the result, and the responses come with the retry."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from mcp_ref import (
    Client,
    Context,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    Server,
    TextContent,
    ToolError,
)
from mcp_ref.basic.mrtr import (
    MAX_STATE_LENGTH,
    STATE_SECONDS,
    HandlerNeedsInput,
    request_digest,
    sign_state,
    verify_state,
)
from mcp_ref.features.elicitation import ElicitationHandler
from mcp_ref.features.sampling import ToolChoice
from mcp_ref.features.tools import Tool
from mcp_ref.jsonrpc.errors import McpError, ProtocolError
from mcp_ref.jsonrpc.messages import INTERNAL_ERROR, INVALID_PARAMS, JSON, Object
from mcp_ref.server import stateless
from tests.matrix import STATELESS_KINDS
from tests.messages import Received, error_of, result_of, server_info_meta, stateless_request
from tests.raw_peers import Wire, connected_client, raw_client
from tests.settings import TASK_FACTORIES

MISSING_CAPABILITY = -32021
KEY = b"k" * 32
NOW = 1_800_000_000.0

FORM: Object = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
ABLE: Object = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}


def form(message: str) -> Object:
    params: Object = {"mode": "form", "message": message, "requestedSchema": FORM}
    return {"method": "elicitation/create", "params": params}


def accept(name: str) -> Object:
    return {"action": "accept", "content": {"name": name}}


LIST_ROOTS: Object = {"method": "roots/list", "params": {}}
CAPITAL: JSON = [{"role": "user", "content": {"type": "text", "text": "Capital?"}}]
SAMPLE: Object = {"method": "sampling/createMessage", "params": {"messages": CAPITAL, "maxTokens": 9}}
ROOTS: Object = {"roots": [{"uri": "file:///a"}, {"uri": "file:///b"}]}
SAID: Object = {"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "m"}


def make_server(**options: bytes) -> Server:
    server = Server("s", **options)  # type: ignore[arg-type]

    @server.tool()
    async def greet(context: Context, greeting: str = "Hello") -> TextContent:
        result = await context.elicit("Who?", FORM)
        return TextContent(f"{greeting} {(result.content or {}).get('name', result.action)}")

    @server.tool()
    async def journey(context: Context) -> TextContent:
        one = await context.elicit("From?", FORM)
        assert one.content is not None
        other = await context.elicit(f"From {one.content['name']} to?", FORM)
        assert other.content is not None
        again = await context.list_roots()
        return TextContent(f"{one.content['name']} to {other.content['name']} with {len(again)}")

    @server.tool()
    async def all_at_once(context: Context) -> TextContent:
        roots, answer, said = await context.gather_inputs(
            context.list_roots(), context.elicit("Who?", FORM, key="who"), context.sample("Capital?", max_tokens=9)
        )
        return TextContent(f"{len(roots)} {answer.content['name']} {said.text}")  # type: ignore

    @server.prompt()
    async def p(context: Context, x: str = "") -> str:
        return (await context.sample("Capital?", max_tokens=9)).text

    @server.resource("test://r")
    async def r(context: Context) -> str:
        return str(len(await context.list_roots()))

    return server


class Asker:
    """A client that sends one request again and again."""

    def __init__(self, wire: Wire, method: str, params: Object, capabilities: Object | None = None) -> None:
        self.wire, self.method, self.params = wire, method, params
        self.capabilities = ABLE if capabilities is None else capabilities
        self.state: JSON = None
        self.id = 0

    async def send(self, responses: JSON = None, **more: JSON) -> Received:
        """Send one attempt, with the state of the attempt before."""
        self.id += 1
        own: Object = {} if responses is None else {"inputResponses": responses}
        state: Object = {} if self.state is None else {"requestState": self.state}
        answer = await self.wire.ask_stateless(
            self.method, {**self.params, **own, **state, **more}, self.id, self.capabilities
        )
        assert answer["id"] == self.id
        return answer

    async def asked(self, responses: JSON = None, **more: JSON) -> Received:
        """Send one attempt, and return its input requests."""
        result = result_of(await self.send(responses, **more))
        assert result.keys() == {"resultType", "inputRequests", "requestState", "_meta"}, result
        assert result["resultType"] == "input_required" and result["_meta"] == server_info_meta()
        self.state = result["requestState"]
        assert isinstance(self.state, str)
        return {**result["inputRequests"]}

    async def done(self, responses: JSON = None, **more: JSON) -> str:
        """Send one attempt, and return the text of its result."""
        result = result_of(await self.send(responses, **more))
        assert result["resultType"] == "complete", result
        block = next(result[name] for name in ("content", "messages", "contents") if name in result)
        return str(block[0].get("content", block[0])["text"])


def tool(wire: Wire, name: str, capabilities: Object | None = None, **arguments: JSON) -> Asker:
    return Asker(wire, "tools/call", {"name": name, "arguments": arguments}, capabilities)


@contextlib.asynccontextmanager
async def asking(name: str, server: Server | None = None) -> AsyncIterator[Asker]:
    """Give a client that calls a tool of a server, by default of `make_server`."""
    async with raw_client(server or make_server()) as wire:
        yield tool(wire, name)


# ------------------------------------------------------------------------------------------------ rounds


METHODS: dict[str, tuple[Object, Object, Object, str]] = {
    "tools/call": ({"name": "greet"}, form("Who?"), accept("Ada"), "Hello Ada"),
    "prompts/get": ({"name": "p"}, SAMPLE, SAID, "Paris"),
    "resources/read": ({"uri": "test://r"}, LIST_ROOTS, ROOTS, "2"),
}


@STATELESS_KINDS
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.spec(
    "2026-07-28/client/elicitation#elicitation-requests-1",
    "2026-07-28/client/elicitation#form-mode-elicitation-requests-1",
    "2026-07-28/basic/transports/stdio#receiving-messages-2",
    "2026-07-28/basic/patterns/mrtr#intro-1",
    "2026-07-28/basic/patterns/mrtr#server-requirements-basic-workflow-2,10",
    "2026-07-28/basic/patterns/index#intro-1",
    "2026-07-28/basic/index#statelessness-5",
    "2026-07-28/server/tools#input-required-tool-results-1",
)
async def test_input_required_ends_the_request_and_the_retry_brings_the_response(kind: str, method: str) -> None:
    params, question, answer, text = METHODS[method]
    async with raw_client(make_server(), kind) as wire:
        asker = Asker(wire, method, params)
        assert await asker.asked() == {"1": question}
        assert await asker.done({"1": answer}) == text


@STATELESS_KINDS
@pytest.mark.spec("2026-07-28/basic/patterns/mrtr#supported-requests-1")
async def test_input_required_is_never_used_for_other_requests(kind: str) -> None:
    server = make_server()

    @server.completion("p", "x")
    async def suggest(value: str, context: Context) -> list[str]:
        return [str(len(await context.list_roots()))]

    async with raw_client(server, kind) as wire:
        params: Object = {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "x", "value": ""}}
        responses: Object = {"inputResponses": {"1": ROOTS}}
        for more in ({}, responses):
            answer = await wire.ask_stateless("completion/complete", {**params, **more}, 1, ABLE)
            error_of(answer, INTERNAL_ERROR)
        for method in ("tools/list", "resources/list", "prompts/list", "server/discover"):
            wrong: list[Object] = [{"requestState": "x"}, {"inputResponses": 3}]
            for more in (responses, *wrong):
                assert result_of(await wire.ask_stateless(method, more, 1, ABLE))["resultType"] == "complete"


@pytest.mark.spec("2026-07-28/basic/patterns/mrtr#server-requirements-basic-workflow-1")
async def test_request_state_keeps_responses_over_several_rounds() -> None:
    async with asking("journey") as asker:
        assert await asker.asked() == {"1": form("From?")}
        # a response before its input request is ignored
        assert await asker.asked({"1": accept("Rome"), "2": accept("Bern")}) == {"2": form("From Rome to?")}
        assert await asker.asked({"2": accept("Oslo")}) == {"3": LIST_ROOTS}
        assert await asker.done({"3": ROOTS}) == "Rome to Oslo with 2"


async def test_input_requests_that_are_gathered_come_in_one_round() -> None:
    async with asking("all_at_once") as asker:
        assert await asker.asked() == {"1": LIST_ROOTS, "who": form("Who?"), "3": SAMPLE}
        assert await asker.done({"who": accept("Ada"), "3": SAID, "1": ROOTS}) == "2 Ada Paris"


@pytest.mark.spec(
    "2026-07-28/basic/patterns/mrtr#server-requirements-basic-workflow-13",
    "2026-07-28/basic/patterns/mrtr#error-handling-4",
)
async def test_input_requests_without_response_are_repeated_alone() -> None:
    async with asking("all_at_once") as asker:
        first = await asker.asked()
        assert await asker.asked() == first
        assert await asker.asked({}) == first
        assert await asker.asked({"who": accept("Ada")}) == {"1": first["1"], "3": first["3"]}
        assert await asker.asked({"3": SAID}) == {"1": first["1"]}
        assert await asker.done({"1": ROOTS}) == "2 Ada Paris"


async def test_input_response_without_its_request_state_is_invalid_params() -> None:
    """Refuse the response: only the state tells the text that the user agreed to. An author's key needs no state."""
    async with asking("all_at_once") as asker:
        assert (await asker.asked({"who": accept("Ada")})).keys() == {"1", "3"}
        asker.state = None
        error = error_of(await asker.send({"1": ROOTS}), INVALID_PARAMS, asker.id)
        assert "the response '1' in inputResponses needs the requestState" in str(error["message"])


@pytest.mark.spec("2026-07-28/basic/patterns/mrtr#error-handling-3")
async def test_input_responses_without_request_are_ignored() -> None:
    async with asking("greet") as asker:
        await asker.asked()
        assert await asker.done({"1": accept("Ada"), "x": {"a": 1}, "": {}, "2": ROOTS}) == "Hello Ada"
        await asker.asked({"x": {"long": "x" * 10_000}})
        assert len(str(asker.state)) < 1000  # nor are they kept


@pytest.mark.parametrize("action", ["decline", "cancel"])
@pytest.mark.spec("2026-07-28/client/elicitation#error-handling-2")
async def test_input_responses_may_decline(action: str) -> None:
    async with asking("greet") as asker:
        await asker.asked()
        assert await asker.done({"1": {"action": action}}) == f"Hello {action}"


async def test_input_required_restarts_the_handler_on_each_retry() -> None:
    server, begun, left = Server("s"), [0], [0]

    @server.tool()
    async def work(context: Context) -> TextContent:
        begun[0] += 1
        try:
            await context.elicit("Who?", FORM)
        except Exception:  # HandlerNeedsInput is not an Exception
            raise AssertionError from None
        finally:
            left[0] += 1
        return TextContent("done")

    async with asking("work", server) as asker:
        await asker.asked()
        assert (begun, left) == ([1], [1])
        assert await asker.done({"1": accept("Ada")}) == "done"
        assert (begun, left) == ([2], [2])


async def test_input_required_after_the_response_is_an_error_of_the_author() -> None:
    server, left = Server("s"), list[asyncio.Task[object]]()

    @server.tool()
    async def leave(context: Context) -> None:
        left.append(asyncio.create_task(ask_later(context)))

    async def ask_later(context: Context) -> object:
        await answered.wait()
        return await context.elicit("Who?", FORM)

    answered = asyncio.Event()
    async with raw_client(server) as wire:
        assert result_of(await wire.ask_stateless("tools/call", {"name": "leave"}, capabilities=ABLE))["content"] == []
        answered.set()
        with pytest.raises(McpError, match="is complete"):
            await left[0]


@pytest.mark.parametrize("task_factory", TASK_FACTORIES)
async def test_input_required_works_in_plain_functions_and_task_groups(task_factory: Any) -> None:
    asyncio.get_running_loop().set_task_factory(task_factory)
    server = Server("s")

    @server.tool()
    def plain(context: Context) -> TextContent:
        return TextContent(str(len(context.run(context.list_roots()))))

    @server.tool()
    async def grouped(context: Context) -> TextContent:
        async with asyncio.TaskGroup() as group:
            roots = group.create_task(context.list_roots(key="r"))
            answer = group.create_task(context.elicit("Who?", FORM, key="w"))
        return TextContent(f"{len(roots.result())} {answer.result().action}")

    async with raw_client(server) as wire:
        asker = tool(wire, "plain")
        assert await asker.asked() == {"1": LIST_ROOTS}
        assert await asker.done({"1": ROOTS}) == "2"
        asker = tool(wire, "grouped")
        assert await asker.asked() == {"r": LIST_ROOTS, "w": form("Who?")}
        assert await asker.done({"r": ROOTS, "w": accept("Ada")}) == "2 accept"
    server.catalog.service.executor.shutdown()


async def test_input_required_yields_to_another_failure_beside_it() -> None:
    server = Server("s")

    async def fail() -> None:
        raise ToolError("broken")

    @server.tool()
    async def grouped(context: Context) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(context.list_roots())
            group.create_task(fail())

    @server.tool()
    async def gathered(context: Context) -> None:
        await context.gather_inputs(context.list_roots(), fail())

    async with raw_client(server) as wire:
        for name in ("grouped", "gathered"):
            result = result_of(await tool(wire, name).send())
            assert result["isError"] is True
            assert result["content"] == [{"type": "text", "text": "broken"}], name


async def test_gathered_request_that_needs_no_input_but_a_retry_ends_the_handler() -> None:
    server = Server("s")

    async def retry_later() -> None:
        raise HandlerNeedsInput({})

    @server.tool()
    async def gathered(context: Context) -> str:
        await context.gather_inputs(retry_later())
        return "went on"

    async with raw_client(server) as wire:
        result = result_of(await tool(wire, "gathered").send())
        assert result["resultType"] == "input_required" and result["inputRequests"] == {}


async def test_input_requests_of_one_request_have_different_keys() -> None:
    server = Server("s")

    @server.tool()
    async def twice(context: Context) -> None:
        await context.list_roots(key="k")
        await context.elicit("Who?", FORM, key="k")

    async with asking("twice", server) as asker:
        assert await asker.asked() == {"k": LIST_ROOTS}
        assert result_of(await asker.send({"k": ROOTS}))["isError"] is True


@STATELESS_KINDS
async def test_input_required_ends_the_progress_of_its_request(kind: str) -> None:
    if kind == "http-json":
        pytest.skip("answers by JSON alone leave no way to tell")
    server = Server("s")

    @server.tool()
    async def work(context: Context) -> None:
        await context.report_progress(1, 2)
        await context.list_roots()

    async with raw_client(server, kind) as wire:
        await wire.send(stateless_request("tools/call", {"name": "work"}, 1, ABLE, progressToken="t"))
        progress = await wire.receive_object()
        assert progress["params"] == {"progressToken": "t", "progress": 1, "total": 2}
        assert result_of(await wire.receive_object())["resultType"] == "input_required"
        await wire.nothing_else()


# ------------------------------------------------------------------------------------------------ both eras


@STATELESS_KINDS
async def test_handler_with_elicitation_serves_both_eras(kind: str) -> None:
    async with connected_client(make_server(), kind, capabilities=ABLE) as wire:
        await wire.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "journey"}})
        for answer in (accept("Rome"), accept("Oslo"), ROOTS):
            asked = await wire.receive_object()
            assert isinstance(asked["id"], int) and "method" in asked
            await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": answer})
        legacy = result_of(await wire.receive_object())
        asker = tool(wire, "journey")
        await asker.asked()
        await asker.asked({"1": accept("Rome")})
        await asker.asked({"2": accept("Oslo")})
        modern = result_of(await asker.send({"3": ROOTS}))
        assert modern == {**legacy, "resultType": "complete", "_meta": server_info_meta()}


# ------------------------------------------------------------------------------------------------ capabilities

CLOCK = Tool("t", {"type": "object"})
Ask = Callable[[Context], Coroutine[object, object, object]]
ASKS: dict[str, tuple[Ask, Object, Object]] = {
    "form": (lambda context: context.elicit("Who?", FORM), {}, {"elicitation": {}}),
    "form of a client with url alone": (
        lambda context: context.elicit("Who?", FORM), {"elicitation": {"url": {}}}, {"elicitation": {"form": {}}},
    ),
    "url": (
        lambda context: context.elicit_url("Visit", "https://a.example", "unguessable"),
        {"elicitation": {}}, {"elicitation": {"url": {}}},
    ),
    "sample": (
        lambda context: context.sample("Capital?", max_tokens=9), {"elicitation": {}, "roots": {}}, {"sampling": {}},
    ),
    "tools": (
        lambda context: context.sample("Capital?", max_tokens=9, tools=[CLOCK]),
        {"sampling": {}}, {"sampling": {"tools": {}}},
    ),
    "choice": (
        lambda context: context.sample("Capital?", max_tokens=9, tool_choice=ToolChoice("auto")),
        {"sampling": {"context": {}}}, {"sampling": {"tools": {}}},
    ),
    "roots": (lambda context: context.list_roots(), {"sampling": {}, "elicitation": {}}, {"roots": {}}),
    "gathered": (
        lambda context: context.gather_inputs(context.elicit("Who?", FORM), context.list_roots()),
        {"elicitation": {}}, {"roots": {}},
    ),
}  # fmt: skip
"""Requests to the client, the capabilities that it declares, and those that are missing."""


@pytest.mark.parametrize("what", ASKS)
@pytest.mark.spec(
    "2026-07-28/basic/patterns/mrtr#server-requirements-basic-workflow-11,12",
    "2026-07-28/basic/index#meta-10,11",
    "2026-07-28/client/elicitation#capabilities-3",
    "2026-07-28/client/sampling#tools-in-sampling-2",
)
async def test_input_requests_stay_within_declared_capabilities(what: str) -> None:
    ask, declared, missing = ASKS[what]
    server = Server("s")

    @server.tool("ask")
    async def run(context: Context) -> None:
        await ask(context)

    async with raw_client(server) as wire:
        error = error_of(await tool(wire, "ask", declared).send(), MISSING_CAPABILITY)
        assert error["data"] == {"requiredCapabilities": missing}
        assert await tool(wire, "ask").asked()


@pytest.mark.spec("2026-07-28/client/elicitation#url-mode-elicitation-requests-1")
async def test_input_request_for_a_url_has_no_elicitation_id() -> None:
    server = Server("s")

    @server.tool()
    async def visit(context: Context) -> TextContent:
        result = await context.elicit_url("Visit", "https://a.example", "unguessable")
        await context.elicitation_complete("unguessable")  # which this revision does not have
        return TextContent(result.action)

    async with asking("visit", server) as asker:
        params: Object = {"mode": "url", "message": "Visit", "url": "https://a.example"}
        assert await asker.asked() == {"1": {"method": "elicitation/create", "params": params}}
        assert await asker.done({"1": {"action": "accept"}}) == "accept"


async def test_input_request_leaves_out_undeclared_optional_parts() -> None:
    server = Server("s")

    @server.tool()
    async def ask(context: Context) -> TextContent:
        return TextContent(str(len(await context.list_roots())) if context.client_can("roots") else "none")

    async with raw_client(server) as wire:
        assert await tool(wire, "ask", {}).done() == "none"
        assert await tool(wire, "ask", {"roots": {}}).asked()


# ------------------------------------------------------------------------------------------------ wrong answers


@pytest.mark.parametrize(
    "responses",
    [3, [], "x", {"1": 3}, {"1": None}, {"1": []}, {"x": "y"}, {"1": {}}, {"1": {"action": "yes"}},
     {"1": {"action": "accept", "content": 3}}, {"1": {"roots": 3}}, {"1": {"role": "x"}}],
    ids=str,
)  # fmt: skip
@pytest.mark.spec("2026-07-28/basic/patterns/mrtr#error-handling-1,2")
async def test_input_responses_must_be_an_object_of_results(responses: JSON) -> None:
    async with raw_client(make_server()) as wire:
        for method, (params, _, _, _) in METHODS.items():
            asker = Asker(wire, method, params)
            await asker.asked()
            error_of(await asker.send(responses), INVALID_PARAMS, 2)


async def test_input_response_that_breaks_its_form_never_reaches_the_handler() -> None:
    server = make_server()

    @server.prompt()
    async def q(context: Context) -> str:
        return str(await context.elicit("Who?", FORM))

    async with raw_client(server) as wire:
        for content in ({}, {"name": 3}):
            answer: Object = {"action": "accept", "content": {**content}}
            asker = tool(wire, "greet")
            await asker.asked()
            assert result_of(await asker.send({"1": answer}))["isError"] is True
            asker = Asker(wire, "prompts/get", {"name": "q"})
            await asker.asked()
            error_of(await asker.send({"1": answer}), INVALID_PARAMS, 2)


@pytest.mark.parametrize("uri", ["https://a/b", "/a", "", "file:///a/../b"])
@pytest.mark.spec("2026-07-28/client/roots#root-1")
async def test_input_response_with_roots_other_than_file_uris_is_refused(uri: str) -> None:
    async with raw_client(make_server()) as wire:
        asker = Asker(wire, "resources/read", {"uri": "test://r"})
        await asker.asked()
        error_of(await asker.send({"1": {"roots": [{"uri": uri}]}}), INVALID_PARAMS, 2)


# ------------------------------------------------------------------------------------------------ wrong questions


@pytest.mark.parametrize("mode", ["required", "none"])
@pytest.mark.spec("2026-07-28/client/sampling#tool-choice-modes-1,2", "2026-07-28/client/sampling#messages-1")
async def test_input_request_for_sampling_keeps_the_tool_choice(mode: Literal["required", "none"]) -> None:
    # The choice is the client's to enforce.
    server = Server("s")

    @server.tool()
    async def think(context: Context) -> None:
        await context.sample("Time?", max_tokens=9, tools=[CLOCK], tool_choice=ToolChoice(mode))

    async with asking("think", server) as asker:
        params = (await asker.asked())["1"]["params"]
        assert params["tools"] == [{"name": "t", "inputSchema": {"type": "object"}}]
        assert params["toolChoice"] == {"mode": mode}


# ------------------------------------------------------------------------------------------------ the state

REQUEST = request_digest("tools/call", {"name": "greet", "arguments": {}})


def opens(
    state: JSON, key: bytes = KEY, request: str = REQUEST, principal: str | None = "ada", now: float = NOW
) -> bool:
    try:
        verify_state(key, state, request, principal, now)
    except ProtocolError as error:
        assert error.code == INVALID_PARAMS
        return False
    return True


@pytest.mark.spec(
    "2026-07-28/basic/patterns/mrtr#server-requirements-basic-workflow-3,4,5",
    "2026-07-28/basic/patterns/mrtr#security-considerations-1",
)
def test_unseal_refuses_a_state_that_was_changed_anywhere() -> None:
    state = sign_state(KEY, {"1": accept("Ada")}, REQUEST, "ada", NOW)
    assert verify_state(KEY, state, REQUEST, "ada", NOW) == {"1": accept("Ada")}
    for place in range(len(state)):
        for other in ("A", "B", "=", ".", " ", "\u00e9"):
            changed = state[:place] + other + state[place + 1 :]
            assert opens(changed) is (changed == state), (place, other)
        assert not opens(state[:place]) and not opens(state[:place] + state[place + 1 :])
        assert not opens(state[:place] + "A" + state[place:]) or state[:place] + "A" + state[place:] == state
    texts = ["", ".", "..", "a.b", state + "=", state + "\n", "x" * (MAX_STATE_LENGTH + 1), "\ud800"]
    rubbish: list[JSON] = [3, None, [], {}, True, *texts]
    for wrong in rubbish:
        assert not opens(wrong)


def test_unseal_refuses_another_key_request_principal_or_late_state() -> None:
    state = sign_state(KEY, {}, REQUEST, "ada", NOW)
    assert opens(state) and opens(state, now=NOW + STATE_SECONDS)
    assert not opens(state, now=NOW + STATE_SECONDS + 1)
    assert not opens(state, key=b"x" * 32)
    for person in (None, "", "bob", "ada "):
        assert not opens(state, principal=person)
    for method, params in (
        ("prompts/get", {"name": "greet", "arguments": {}}),
        ("tools/call", {"name": "other", "arguments": {}}),
        ("tools/call", {"name": "greet", "arguments": {"greeting": "Hi"}}),
        ("tools/call", {"name": "greet"}),
    ):
        assert not opens(state, request=request_digest(method, params))  # type: ignore[arg-type]


def test_seal_hides_the_principal_from_the_client() -> None:
    text = sign_state(KEY, {}, REQUEST, "row-4711", NOW).partition(".")[0]
    assert b"4711" not in base64.urlsafe_b64decode(text)


def test_request_digest_ignores_members_that_change_from_round_to_round() -> None:
    params: Object = {"name": "greet", "arguments": {"b": 1, "a": 2}}
    round_two: Object = {"arguments": {"a": 2, "b": 1}, "_meta": {"x": 1}, "name": "greet", "inputResponses": {}}
    assert request_digest("tools/call", params) == request_digest("tools/call", {**round_two, "requestState": "s"})


def test_seal_refuses_a_state_beyond_max_state() -> None:
    long: Object = {"1": {"content": "x" * MAX_STATE_LENGTH}}
    with pytest.raises(ProtocolError, match="send shorter"):
        sign_state(KEY, long, REQUEST, None, NOW)


@pytest.mark.spec(
    "2026-07-28/basic/patterns/mrtr#server-requirements-basic-workflow-5,8",
    "2026-07-28/basic/patterns/mrtr#security-considerations-1",
)
async def test_request_state_that_is_invalid_is_an_error_instead_of_a_new_input_request() -> None:
    async with raw_client(make_server()) as wire:
        asker = tool(wire, "greet")
        await asker.asked()
        good = asker.state
        assert isinstance(good, str)
        rubbish: list[JSON] = ["x", "", 3, [], {"a": 1}]
        for asker.state in (good[:-2] + "AA", good + "A", good.swapcase(), *rubbish):
            error_of(await asker.send(), INVALID_PARAMS, asker.id)
            error_of(await asker.send({"1": accept("Ada")}), INVALID_PARAMS, asker.id)
        asker.state = good
        error_of(await asker.send({"1": accept("Ada")}, arguments={"greeting": "Hi"}), INVALID_PARAMS, asker.id)
        error_of(await asker.send({"1": accept("Ada")}, name="journey"), INVALID_PARAMS, asker.id)
        other = Asker(wire, "prompts/get", {"name": "p"})
        other.state = good
        error_of(await other.send({"1": SAID}), INVALID_PARAMS)
        assert await asker.done({"1": accept("Ada")}) == "Hello Ada"


@pytest.mark.spec("2026-07-28/basic/patterns/mrtr#server-requirements-basic-workflow-7")
async def test_request_state_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [NOW]
    monkeypatch.setattr(stateless, "time", SimpleNamespace(time=lambda: clock[0]))
    async with asking("journey") as asker:
        await asker.asked()
        clock[0] += STATE_SECONDS
        await asker.asked({"1": accept("Rome")})  # which begins a new time
        clock[0] += STATE_SECONDS
        await asker.asked({"2": accept("Oslo")})
        clock[0] += STATE_SECONDS + 1
        error = error_of(await asker.send({"3": ROOTS}), INVALID_PARAMS, 4)
        assert "expired" in str(error["message"])


@pytest.mark.spec("2026-07-28/basic/index#statelessness-3")
async def test_request_state_is_accepted_by_processes_with_the_same_key_only() -> None:
    one, other, foreign = make_server(state_key=KEY), make_server(state_key=KEY), make_server()
    async with raw_client(one) as a, raw_client(other) as b, raw_client(foreign) as c:
        asker = tool(a, "journey")
        await asker.asked()
        asker.wire = b
        await asker.asked({"1": accept("Rome")})
        asker.wire = c
        error_of(await asker.send({"2": accept("Oslo")}), INVALID_PARAMS, 3)
        asker.wire = a
        await asker.asked({"2": accept("Oslo")})


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        (b"", ValueError, "state_key"),
        (b"short", ValueError, "state_key"),
        ("0123456789abcdef", TypeError, "must have the type bytes"),
    ],
)
def test_state_key_that_is_too_short_or_text_is_refused(key: bytes, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Server("s", state_key=key)


# ---------------------------------------------------------------------------------------- responses belong to requests

NOTHING: Object = {"type": "object", "properties": {}}


def agreeing(asked: list[str]) -> ElicitationHandler:
    """Return a user who accepts every form, and whose messages are appended to a list."""

    async def agree(question: ElicitRequestFormParams | ElicitRequestURLParams) -> ElicitResult:
        asked.append(question.message)
        return ElicitResult("accept", {})

    return agree


@pytest.mark.parametrize(("key", "deleted"), [(None, 8), ("files", 8), ("{files} files", 8)])
async def test_input_response_counts_only_for_the_input_request_that_was_sent(key: str | None, deleted: int) -> None:
    """Delete files with a key of the author, a constant key, and no key.

    A user that agreed to delete two files is asked again for eight, unless the author's constant key says otherwise.
    """
    server, asked, files = Server("s"), list[str](), iter([2, 8, 8])

    @server.tool()
    async def delete(context: Context) -> int:
        count = next(files)
        name = None if key is None else key.format(files=count)
        answer = await context.elicit(f"Delete {count} files?", NOTHING, key=name)
        assert answer.action == "accept"
        return count

    async with Client(server, elicitation=agreeing(asked), revision="2026-07-28") as client:
        assert (await client.call_tool("delete")).text == str(deleted)
    assert asked == (["Delete 2 files?"] if key == "files" else ["Delete 2 files?", "Delete 8 files?"])


async def test_input_response_is_kept_when_another_input_request_comes_first() -> None:
    server, asked, runs = Server("s"), list[str](), iter(range(10))

    @server.tool()
    async def plan(context: Context) -> str:
        names = [["a"], ["b"], ["a", "b"]][min(next(runs), 2)]
        return " ".join([str((await context.elicit(name, NOTHING, key=name)).action) for name in names])

    async with Client(server, elicitation=agreeing(asked), revision="2026-07-28") as client:
        assert (await client.call_tool("plan")).text == "accept accept"
    assert asked == ["a", "b"]
