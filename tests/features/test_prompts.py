"""Prompts: the list, the arguments, and the finished messages."""

from __future__ import annotations

import json
import threading
from enum import Enum
from typing import Annotated, Literal

import pytest

from mcp_ref import (
    AudioContent,
    BlobResourceContents,
    Client,
    EmbeddedResource,
    GetPromptResult,
    Icon,
    ImageContent,
    PromptMessage,
    RemoteError,
    Server,
    TextContent,
    TextResourceContents,
)
from mcp_ref.jsonrpc.messages import INTERNAL_ERROR, INVALID_PARAMS, JSON, Object
from tests.matrix import EVERY_REVISION, KINDS, LATEST_OF_BOTH_ERAS, LEGACY_REVISIONS
from tests.messages import Received, result_of
from tests.raw_peers import Wire, connected_client, raw_session, serve_call


def giving(value: object) -> Server:
    """Return a server with one prompt, `p`, whose function returns a value."""
    server = Server("s")

    async def p():  # type: ignore[no-untyped-def]
        return value

    server.prompts.add(p)
    return server


async def get(wire: Wire, name: str = "p", arguments: JSON = None) -> Received:
    """Return the result of a prompts/get."""
    params: Object = {"name": name, **({"arguments": arguments} if arguments else {})}
    return result_of(await wire.ask("prompts/get", params))


async def contents(wire: Wire) -> list[Received]:
    """Return the content of each message of `p`."""
    return [message["content"] for message in (await get(wire))["messages"]]


async def error_of(wire: Wire, params: JSON) -> Received:
    error: Received = (await wire.ask("prompts/get", params))["error"]  # type: ignore[arg-type]
    return error


@EVERY_REVISION
async def test_prompts_list_shows_the_members_that_the_revision_has(revision: str) -> None:
    server = Server("s")

    @server.prompt(
        "code_review",
        title="Request Code Review",
        icons=[Icon("https://example.com/review.svg", "image/svg+xml", ["any"])],
        meta={"com.example/x": 1},
    )
    async def review(code: str, style: str = "short") -> str:
        """Ask the model to review code.

        Args:
            code: The code.
        """
        return code

    listed: Object = {
        "name": "code_review",
        "description": "Ask the model to review code.",
        "arguments": [
            {"name": "code", "description": "The code.", "required": True},
            {"name": "style", "required": False},
        ],
    }
    if revision >= "2025-06-18":
        listed |= {"title": "Request Code Review", "_meta": {"com.example/x": 1}}
    if revision >= "2025-11-25":
        icon: Object = {"src": "https://example.com/review.svg", "mimeType": "image/svg+xml", "sizes": ["any"]}
        listed["icons"] = [icon]
    async with connected_client(server, revision=revision) as wire:
        assert (await wire.ask("prompts/list"))["result"] == {"prompts": [listed]}


# ------------------------------------------------------------------------------------------------ results


@KINDS
@EVERY_REVISION
async def test_prompts_get_makes_messages_of_the_returned_value(kind: str, revision: str) -> None:
    text = 'line\nbreak\r\n\u2028 "quotes" \\ é 💡 \x00'
    user: Object = {"role": "user", "content": {"type": "text", "text": text}}
    model: Object = {"role": "assistant", "content": {"type": "text", "text": "I see"}}
    seen = PromptMessage("assistant", TextContent("I see"))
    cases: list[tuple[object, list[JSON]]] = [
        (text, [user]),
        (TextContent(text), [user]),
        (seen, [model]),
        ([text, seen, (TextContent(text),)], [user, model, user]),
        ([], []),
        (GetPromptResult([seen]), [model]),
    ]
    for value, messages in cases:
        async with connected_client(giving(value), kind, revision) as wire:
            assert (await get(wire))["messages"] == messages


@EVERY_REVISION
async def test_prompts_get_has_description_and_filled_in_arguments(revision: str) -> None:
    server = Server("s")

    @server.prompt()
    def review(code: str, style: str = "short") -> str:
        "Review."
        return f"{style}: {code} ({threading.current_thread() is threading.main_thread()})"

    async with connected_client(server, revision=revision) as wire:
        result = await get(wire, "review", {"code": "x=1"})
        message: Object = {"role": "user", "content": {"type": "text", "text": "short: x=1 (False)"}}
        assert result == {"description": "Review.", "messages": [message]}
        message["content"] = {"type": "text", "text": "long:  (False)"}
        assert (await get(wire, "review", {"code": "", "style": "long"}))["messages"] == [message]


@pytest.mark.spec("2024-11-05..2026-07-28/server/prompts#embedded-resources-1,2,3")
@EVERY_REVISION
async def test_prompts_get_embedded_resource_has_uri_mime_type_and_text_or_base64(revision: str) -> None:
    uri = "resource://example"
    cases: list[tuple[TextResourceContents | BlobResourceContents, Object]] = [
        (TextResourceContents(uri, "text", "text/markdown"), {"mimeType": "text/markdown", "text": "text"}),
        (TextResourceContents(uri, "text"), {"mimeType": "text/plain", "text": "text"}),
        (BlobResourceContents.of(uri, b"\x00\xff", "image/png"), {"mimeType": "image/png", "blob": "AP8="}),
        (BlobResourceContents(uri, "AP8="), {"mimeType": "application/octet-stream", "blob": "AP8="}),
    ]
    server = giving([EmbeddedResource(resource) for resource, _ in cases])
    async with connected_client(server, revision=revision) as wire:
        sent = [{"type": "resource", "resource": {"uri": uri, **members}} for _, members in cases]
        assert await contents(wire) == sent


# ------------------------------------------------------------------------------------------------ arguments


class Tone(Enum):
    PLAIN = "plain"
    GRAND = "grand"


@pytest.mark.spec("2024-11-05..2026-07-28/server/prompts#implementation-considerations-1")
@EVERY_REVISION
async def test_prompts_get_argument_with_choices_must_be_one_of_them(revision: str) -> None:
    server = Server("s")

    @server.prompt()
    async def p(
        style: Literal["short", "long"],
        tone: Tone = Tone.PLAIN,
        more: Annotated[str | None, {"pattern": "^[a-z]+$"}] = None,
    ) -> str:
        return f"{style} {tone.name} {more}"

    async with connected_client(server, revision=revision) as wire:
        choices: list[Object] = [{"style": "brief"}, {"style": "short", "tone": "PLAIN"}, {"style": ""}]
        choices.append({"style": "short", "more": "NO"})
        for arguments in choices:
            error = await error_of(wire, {"name": "p", "arguments": arguments})
            assert error["code"] == INVALID_PARAMS
            assert str(error["message"]).startswith("Invalid arguments: ")
        result = await get(wire, "p", {"style": "long", "tone": "grand"})
        message: Object = {"role": "user", "content": {"type": "text", "text": "long GRAND None"}}
        assert result == {"messages": [message]}


@pytest.mark.spec(
    "2024-11-05..2026-07-28/server/prompts#error-handling-1,2",
    "2024-11-05..2026-07-28/server/prompts#implementation-considerations-1",
    "2024-11-05..2026-07-28/server/prompts#security-1",
)
@EVERY_REVISION
async def test_prompts_get_unknown_name_or_invalid_arguments_are_invalid_params(revision: str) -> None:
    codes: list[JSON] = [None, 3, True, ["x"], {"x": "y"}]
    arguments: list[JSON] = [{}, {"style": "short"}, *({"code": code} for code in codes), ["x"], "code"]
    arguments += [{"code": "x", other: "y"} for other in ("unknown", "context", "self")]
    names: list[JSON] = [None, 3, ["review"], "", "absent", "Review", "__class__", "review"]
    wrong: list[JSON] = [None, {}, *({"name": name} for name in names)]
    wrong += [{"name": "review", "arguments": each} for each in arguments]
    server = Server("s")
    seen: list[str] = []

    @server.prompt()
    async def review(code: str, style: str = "short") -> str:
        seen.append(code)
        return code

    async with connected_client(server, revision=revision) as wire:
        for params in wrong:
            assert (await error_of(wire, params))["code"] == INVALID_PARAMS, params
        assert seen == []
        await get(wire, "review", {"code": "{style} %s <|im_start|>"})
        assert seen == ["{style} %s <|im_start|>"], "and what is right arrives as it is"


NO_BASE64 = ("\x89PNG", "AAA", "data:image/png;base64,AAAA")
NO_MIME_TYPE = ("", "png", "image/", "image/png\r\nX: y")


@pytest.mark.spec(
    "2024-11-05..2026-07-28/server/prompts#security-1",
    "2024-11-05..2026-07-28/server/prompts#error-handling-3",
    "2024-11-05..2026-07-28/server/prompts#embedded-resources-1,3",
    "2024-11-05..2025-11-25/server/prompts#image-content-1",
    "2025-03-26..2025-11-25/server/prompts#audio-content-1",
)
@LATEST_OF_BOTH_ERAS
@pytest.mark.parametrize(
    "value",
    [
        *(None, 3, {"role": "user"}, [3], object(), "\ud800", PromptMessage("system", TextContent("x"))),  # type: ignore[arg-type]
        TextContent(3),  # type: ignore[arg-type]
        *(block(data, "image/png") for block in (ImageContent, AudioContent) for data in NO_BASE64),
        *(block("AAAA", mime_type) for block in (ImageContent, AudioContent) for mime_type in NO_MIME_TYPE),
        *(EmbeddedResource(TextResourceContents(uri, "x")) for uri in ("", "example.txt", "file:///my file.txt")),
        EmbeddedResource(BlobResourceContents("resource://example", "no base64")),
    ],
    ids=repr,
)
async def test_prompts_get_invalid_message_is_not_sent(revision: str, value: object) -> None:
    async with connected_client(giving(value), revision=revision) as wire:
        error = await error_of(wire, {"name": "p"})
        assert error["code"] == INTERNAL_ERROR and "AAA" not in json.dumps(error)
        assert "result" in await wire.ask("prompts/list")


def test_prompts_add_mistakes_of_the_author_raise() -> None:
    server = giving("x")
    with pytest.raises(ValueError, match=r"^the prompt 'p' is already registered"):
        server.prompts.add(lambda: "", "p")
    with pytest.raises(TypeError, match="unknown option 'titel'; did you mean 'title'"):
        server.prompts.add(lambda: "", "q", titel="Q")  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="'a b' is not a valid _meta key"):
        server.prompts.add(lambda: "", "q", meta={"a b": 1})
    with pytest.raises(TypeError, match="str"):

        @server.prompt()
        def counted(count: int) -> str:
            return ""

    with pytest.raises(KeyError):
        server.prompts.remove("absent")
    with pytest.raises(TypeError, match="parentheses"):
        server.prompt(lambda: "")  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------ the client


@LEGACY_REVISIONS
async def test_client_get_prompt_fills_in_arguments(revision: str) -> None:
    async with raw_session(Client, revision, {"prompts": {}}) as (client, wire):
        messages: list[JSON] = [
            {"role": "user", "content": {"type": "text", "text": "hi"}},
            {"role": "assistant", "content": {"type": "image", "data": "AP8=", "mimeType": "image/png"}},
        ]
        result, asked = await serve_call(client.get_prompt("review", {"code": "x"}), wire, {"messages": messages})
        assert (asked["method"], asked["params"]) == ("prompts/get", {"name": "review", "arguments": {"code": "x"}})
        assert result == GetPromptResult(
            [PromptMessage("user", TextContent("hi")), PromptMessage("assistant", ImageContent("AP8=", "image/png"))]
        )


async def test_client_get_prompt_with_a_number_as_argument_says_that_arguments_are_strings() -> None:
    async with Client(giving("x")) as client:
        with pytest.raises(TypeError) as raised:
            await client.get_prompt("p", {"count": 5})  # type: ignore[dict-item]
    assert str(raised.value) == "GetPromptRequestParams.arguments must be dict[str, str] | None, not {'count': 5}"


async def test_prompts_get_with_a_wrong_return_value_logs_the_name_of_the_prompt(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server("s")
    server.prompts.add(lambda: 3, "number")
    async with Client(server) as client:
        with pytest.raises(RemoteError, match="Internal error"):
            await client.get_prompt("number")
    assert "the prompt number must return str, messages or content, not int" in caplog.text
