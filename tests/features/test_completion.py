"""Completion: suggestions for an argument of a prompt or of a resource template."""

from __future__ import annotations

import datetime
import enum
import json
from collections.abc import Callable

import pytest

from mcp_ref import Client, Completion, PromptReference, Server
from mcp_ref import ResourceTemplateReference as TemplateReference
from mcp_ref.jsonrpc.messages import INTERNAL_ERROR, INVALID_PARAMS, JSON, METHOD_NOT_FOUND, Object
from tests.matrix import EVERY_REVISION, KINDS, LEGACY_REVISIONS
from tests.messages import Received, initialize, notification
from tests.raw_peers import Wire, connected_client, raw_client, raw_session, serve_call

TEMPLATE = "test://{owner}/{repo}"
PROMPT: Object = {"type": "ref/prompt", "name": "review"}
RESOURCE: Object = {"type": "ref/resource", "uri": TEMPLATE}


def completing_server() -> Server:
    """Return a server that completes a prompt's argument and a template's variable; `style` has no completer."""
    server = Server("s")

    @server.prompt()
    async def review(language: str, style: str = "") -> str:
        return language

    @server.resource(TEMPLATE)
    async def repository(owner: str, repo: str) -> str:
        return owner + repo

    @server.completion("review", "language")
    async def languages(value: str) -> list[str]:
        return [each for each in ("python", "pytorch", "pyside", "rust") if each.startswith(value)]

    @server.completion(TEMPLATE, "repo")
    def repositories(value: str, arguments: dict[str, str]) -> list[str]:
        return [f"{arguments.get('owner', 'nobody')}/{value}"]

    return server


def completing(ref: JSON, name: JSON = "language", value: JSON = "py", **more: JSON) -> Object:
    """Return the params of a completion/complete."""
    return {"ref": ref, "argument": {"name": name, "value": value}, **more}


async def suggestions(wire: Wire, params: Object) -> Received:
    completion: Received = (await wire.ask("completion/complete", params))["result"]["completion"]
    return completion


async def error_of(wire: Wire, params: JSON) -> Received:
    error: Received = (await wire.ask("completion/complete", params))["error"]  # type: ignore[arg-type]
    return error


# ------------------------------------------------------------------------------------------------ the server


@pytest.mark.spec(
    "2025-03-26..2026-07-28/server/utilities/completion#capabilities-1",
    "2025-03-26..2026-07-28/server/utilities/completion#error-handling-1",
)
@EVERY_REVISION
async def test_completions_capability_is_declared_and_without_it_the_method_is_not_found(revision: str) -> None:
    bare = Server("bare")
    bare.prompts.add(lambda: "", "review")
    for server, completes in ((completing_server(), True), (bare, False)):
        async with raw_client(server) as wire:
            await wire.send(initialize(revision))
            result = (await wire.receive_object())["result"]
            declared = completes and revision >= "2025-03-26"
            assert result["capabilities"].get("completions") == ({} if declared else None)
            await wire.send(notification("notifications/initialized"))
            if completes:
                assert await suggestions(wire, completing(PROMPT)) == {"values": ["python", "pytorch", "pyside"]}
            else:
                assert (await error_of(wire, completing(PROMPT)))["code"] == METHOD_NOT_FOUND


@EVERY_REVISION
async def test_completion_complete_gets_the_other_arguments_of_a_resource_template(revision: str) -> None:
    async with connected_client(completing_server(), revision=revision) as wire:
        context: Object = {"arguments": {"owner": "me"}}
        found = await suggestions(wire, completing(RESOURCE, "repo", "x", context=context))
        assert found == {"values": ["me/x"]}, "also where it is before its time: nothing can be misunderstood"
        assert await suggestions(wire, completing(RESOURCE, "repo", "")) == {"values": ["nobody/"]}


@EVERY_REVISION
async def test_completion_complete_without_a_completer_has_no_values(revision: str) -> None:
    async with connected_client(completing_server(), revision=revision) as wire:
        assert await suggestions(wire, completing(PROMPT, "style")) == {"values": []}
        assert await suggestions(wire, completing(RESOURCE, "owner")) == {"values": []}


@pytest.mark.spec("2024-11-05..2026-07-28/server/utilities/completion#implementation-considerations-1")
@KINDS
@EVERY_REVISION
async def test_completion_complete_sends_at_most_100_values_in_the_order_of_the_completer(
    kind: str, revision: str
) -> None:
    server = completing_server()

    def giving(values: list[str]) -> Callable[[str], list[str]]:
        return lambda value: values

    for count in (99, 100, 101, 5000):
        values = [f"n{number}" for number in range(count, 0, -1)]
        server.prompts.add(lambda x: x, f"many{count}")
        server.completions.add(f"many{count}", "x", giving(values))
    server.prompts.add(lambda x: x, "told")
    server.completions.add("told", "x", lambda value: Completion(["a"] * 150, total=7000))
    async with connected_client(server, kind, revision) as wire:
        for count in (99, 100, 101, 5000):
            found = await suggestions(wire, completing({"type": "ref/prompt", "name": f"many{count}"}, "x"))
            rest: Object = {"total": count, "hasMore": True} if count > 100 else {}
            assert found == {"values": [f"n{number}" for number in range(count, max(0, count - 100), -1)], **rest}
        told = await suggestions(wire, completing({"type": "ref/prompt", "name": "told"}, "x"))
        assert told == {"values": ["a"] * 100, "total": 7000, "hasMore": True}


@pytest.mark.spec("2025-03-26..2026-07-28/server/utilities/completion#error-handling-2")
@EVERY_REVISION
async def test_completion_complete_unknown_prompt_or_template_is_invalid_params(revision: str) -> None:
    async with connected_client(completing_server(), revision=revision) as wire:
        for ref in (
            {"type": "ref/prompt", "name": "absent"},
            {"type": "ref/prompt", "name": ""},
            {"type": "ref/resource", "uri": "test://absent/{x}"},
            # a prompt's name is not a URI, and a template is not a prompt
            {"type": "ref/resource", "uri": "review"},
            {"type": "ref/prompt", "name": TEMPLATE},
        ):
            assert (await error_of(wire, completing(ref)))["code"] == INVALID_PARAMS, ref  # type: ignore[arg-type]


@pytest.mark.spec(
    "2024-11-05..2026-07-28/server/utilities/completion#security-1",
    "2025-03-26..2026-07-28/server/utilities/completion#error-handling-3",
    "2024-11-05..2026-07-28/server/utilities/completion#implementation-considerations-4",
)
@EVERY_REVISION
async def test_completion_complete_missing_or_ill_typed_params_are_invalid_params(revision: str) -> None:
    wrong: list[JSON] = [
        None, {}, {"ref": PROMPT}, {"argument": {"name": "language", "value": "py"}},
        {"ref": PROMPT, "argument": {"name": "language"}}, {"ref": PROMPT, "argument": {"value": "py"}},
        {"ref": PROMPT, "argument": ["language", "py"]}, completing(PROMPT, 3), completing(PROMPT, value=3),
        completing(PROMPT, value=None), completing(PROMPT, value=["py"]), completing("review"),
        completing({"name": "review"}), completing({"type": "ref/prompt"}),
        completing({"type": "ref/resource", "name": "review"}), completing({"type": "ref/other", "name": "review"}),
        completing({"type": "ref/prompt", "name": {}}),
    ]  # fmt: skip
    if revision >= "2025-06-18":
        wrong += [completing(PROMPT, context="x"), completing(PROMPT, context={"arguments": {"style": 1}})]
    server, called = completing_server(), []

    @server.completion("review", "language")
    async def watched(value: str) -> list[str]:
        called.append(value)
        return []

    async with connected_client(server, revision=revision) as wire:
        for params in wrong:
            assert (await error_of(wire, params))["code"] == INVALID_PARAMS, params
        assert called == []
        assert await suggestions(wire, completing(PROMPT)) == {"values": []}
        assert called == ["py"]


@pytest.mark.spec(
    "2024-11-05..2026-07-28/server/utilities/completion#security-4",
    "2025-03-26..2026-07-28/server/utilities/completion#error-handling-4",
)
@EVERY_REVISION
async def test_completion_complete_failing_completer_is_internal_error_without_details(revision: str) -> None:
    server = completing_server()

    @server.completion("review", "style")
    def failing(value: str) -> list[str]:
        raise LookupError("secret: /home/jane/.netrc")

    async with connected_client(server, revision=revision) as wire:
        error = await error_of(wire, completing(PROMPT, "style"))
        assert error["code"] == INTERNAL_ERROR
        assert "secret" not in json.dumps(error) and "Lookup" not in json.dumps(error)
        assert await suggestions(wire, completing(PROMPT)) == {"values": ["python", "pytorch", "pyside"]}


class Color(enum.Enum):
    RED = "r"


async def test_completion_complete_sends_each_value_as_the_text_that_the_argument_has() -> None:
    server = completing_server()
    values = [Color.RED, 5, True, datetime.date(2026, 1, 2)]
    server.completions.add("review", "style", lambda value: values)
    async with connected_client(server) as wire:
        assert await suggestions(wire, completing(PROMPT, "style")) == {"values": ["r", "5", "true", "2026-01-02"]}


@pytest.mark.parametrize("value", [None, ["a"], {"a": 1}, object()], ids=["None", "list", "dict", "object"])
async def test_completion_complete_with_a_value_that_has_no_text_is_an_internal_error(
    value: object, caplog: pytest.LogCaptureFixture
) -> None:
    server = completing_server()
    server.completions.add("review", "style", lambda text: ["a", value])
    async with connected_client(server) as wire:
        assert (await error_of(wire, completing(PROMPT, "style")))["code"] == INTERNAL_ERROR
    assert "Error: " in caplog.text


@pytest.mark.parametrize(("value", "kind"), [("python", "str"), ({"python": 1}, "dict"), (None, "NoneType")])
async def test_completion_complete_without_a_list_tells_the_author_what_to_return(
    value: object, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    def style(text: str) -> object:
        return value

    server = completing_server()
    server.completions.add("review", "style", style)
    async with connected_client(server) as wire:
        assert (await error_of(wire, completing(PROMPT, "style")))["code"] == INTERNAL_ERROR
    assert f"the completer style must return a list of str or a Completion, not {kind}" in caplog.text


@pytest.mark.parametrize("function", [lambda: [], lambda value, arguments, more: []], ids=["none", "three"])
def test_completions_add_takes_a_function_of_value_and_optional_arguments(function: Callable[..., list[str]]) -> None:
    with pytest.raises(TypeError, match=r"\(value\) or \(value, arguments\)"):
        completing_server().completions.add("review", "style", function)


def test_completions_add_refuses_annotations_of_other_types_than_the_completer_gets() -> None:
    def of_text(value: str, language: str) -> list[str]:
        return [value, language]

    def of_number(value: int) -> list[str]:
        return [str(value)]

    def fitting(value: str | None, arguments: dict[str, str] | None = None) -> list[str]:
        return [value or "", *(arguments or {})]

    completions = completing_server().completions
    with pytest.raises(TypeError, match=r"of_text\(language\): annotate the parameter as dict\[str, str\]$"):
        completions.add("review", "style", of_text)
    with pytest.raises(TypeError, match=r"of_number\(value\): annotate the parameter as str$"):
        completions.add("review", "style", of_number)
    completions.add("review", "style", fitting)


# ------------------------------------------------------------------------------------------------ the client


@LEGACY_REVISIONS
async def test_client_complete_sends_reference_argument_and_context(revision: str) -> None:
    async with raw_session(Client, revision, {"completions": {}} if revision >= "2025-03-26" else {}) as (client, wire):
        for ref, on_the_wire in ((PromptReference("review"), PROMPT), (TemplateReference(TEMPLATE), RESOURCE)):
            result: Object = {"completion": {"values": ["python"], "total": 10, "hasMore": True}}
            found, asked = await serve_call(client.complete(ref, "language", "py", {"owner": "me"}), wire, result)
            assert found == Completion(["python"], 10, True)
            more: Object = {"context": {"arguments": {"owner": "me"}}} if revision >= "2025-06-18" else {}
            assert (asked["method"], asked["params"]) == ("completion/complete", completing(on_the_wire, **more))


@pytest.mark.spec("2024-11-05..2025-11-25/server/utilities/completion#implementation-considerations-7")
@LEGACY_REVISIONS
async def test_client_complete_takes_partial_results(revision: str) -> None:
    async with raw_session(Client, revision, {"completions": {}} if revision >= "2025-03-26" else {}) as (client, wire):
        partial: list[tuple[Object, Completion]] = [
            ({"values": []}, Completion([])),
            ({"values": ["a"], "hasMore": True}, Completion(["a"], None, True)),
        ]
        for sent, expected in partial:
            asking = client.complete(PromptReference("review"), "language", "py")
            assert (await serve_call(asking, wire, {"completion": sent}))[0] == expected


@pytest.mark.parametrize(
    ("target", "argument", "words"),
    [
        ("revue", "language", "'language' of 'revue', but 'revue' is neither a prompt nor a template"),
        ("review", "lang", "'lang' of 'review', but 'review' has no such argument; its arguments are language, style"),
        (TEMPLATE, "user", "has no such argument; its arguments are owner, repo"),
    ],
)
async def test_serving_refuses_a_completion_for_an_argument_that_does_not_exist(
    target: str, argument: str, words: str
) -> None:
    server = completing_server()
    server.completions.add(target, argument, lambda value: [])
    with pytest.raises(ValueError, match=words):
        await Client(server).connect()
    with pytest.raises(ValueError, match=words):
        server.asgi()


async def test_serving_accepts_a_completion_that_was_registered_before_its_prompt() -> None:
    server = Server("s")
    server.completions.add("late", "x", lambda value: [value])
    server.prompts.add(lambda x: x, "late")
    async with Client(server) as client:
        assert (await client.complete(PromptReference("late"), "x", "a")).values == ["a"]
