"""A recording as a pytest module: the client's requests, and assertions about the results that the server gave. Pure.

    result = await client.call_tool("add", {"a": 1, "b": 2})
    assert result.text == "3"

The module is made to be read, edited and kept. It uses only `mcp_ref.Client`, so it runs wherever the package is, and
no longer needs the recording. It asserts what a client uses; `replay --client` compares every member of a result.

Threats:
    recording-becomes-code: the user's account; a server, or the author of a recording; puts a line break and code into
        a text; each text is in the module as a literal of Python, also in comments.

Used by: cli/drive.py. Uses: exchanges.py
"""

from __future__ import annotations

import json
import pprint
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ..check.recording import Head
from ..jsonrpc.messages import JSON, Object
from .exchanges import RecordedRequest, member

_PACKAGE: Final = (__package__ or "").rpartition(".")[0]
_WIDTH: Final = 100
_TEMPLATE: Final = '''\
"""The conversation in {name}, recorded at {started}, as a test of the server."""

from __future__ import annotations

import asyncio

import pytest

from {package} import Client, RemoteError

SERVER = {server}


def test_{identifier}() -> None:
    async def conversation() -> None:
        async with Client(SERVER, revision={revision!r}) as client:
{body}

    asyncio.run(conversation())
'''


def to_test(name: str, head: Head, revision: str, requests: Sequence[RecordedRequest]) -> str:
    """Return the source of a pytest module.

    Args:
        name: The name of the recording's file.
        head: Its head.
        revision: The name of the revision that was spoken.
        requests: The recorded requests.
    """
    identifier = "".join(c if c.isalnum() and c.isascii() else "_" for c in name.removesuffix(".jsonl")).strip("_")
    lines = [line for recorded in requests for line in _lines(recorded, requests)][:-1]  # without the last empty one
    source = _TEMPLATE.format(
        name=_in_text(name), started=_in_text(head.started) or "an unknown time",
        package=_PACKAGE, server=_server(head),
        identifier=identifier.lower() or "conversation", revision=revision or None,
        body="\n".join(f"            {line}".rstrip() for line in lines or ["await client.ping()"]),
    )  # fmt: skip
    for unused, mark in (("\nimport pytest\n", "pytest.raises"), (", RemoteError", "raises(RemoteError")):
        source = source if mark in source else source.replace(unused, "", 1)
    return source


def _server(head: Head) -> str:
    if head.command or head.url:
        return json.dumps(list(head.command) or head.url)  # a list of strings is written the same in Python
    return '["python3", "server.py"]  # the recording does not name it'


def _in_text(text: str) -> str:
    """Return a text for a comment or docstring, without characters that could end it."""
    return json.dumps(text[:_WIDTH])[1:-1].replace('\\"', "'").replace("\\", "/")


def _lines(recorded: RecordedRequest, requests: Sequence[RecordedRequest]) -> Iterator[str]:
    """Yield the lines of one request."""
    method, params = str(recorded.request.value["method"]), recorded.request.value.get("params")
    params = params if isinstance(params, dict) else {}
    if recorded.response is None or method not in _CALLS or "cursor" in params:
        return
    call, check = _CALLS[method]
    result = recorded.response.value.get("result")
    if '"***"' in json.dumps(params):
        yield "# put the secret in place of ***"
    if not isinstance(result, dict):
        response = recorded.response.value
        yield f"with pytest.raises(RemoteError) as refused:  # {_in_text(str(member(response, 'error', 'message')))}"
        yield f"    await client.{call(params)}"
        yield f"assert refused.value.code == {_value(member(response, 'error', 'code'))}"
    elif result.get("resultType") in (None, "complete"):
        yield from check(f"await client.{call(params)}", _with_further_pages(result, method, requests))
    yield ""


def _value(value: JSON) -> str:
    return pprint.pformat(value, width=_WIDTH, sort_dicts=False)


def _with_further_pages(result: Object, method: str, requests: Sequence[RecordedRequest]) -> Object:
    """Return the first page of a list with the items of all its pages."""
    pages = {json.dumps(member(recorded.request.value, "params", "cursor")): recorded.response
             for recorded in reversed(requests) if recorded.request.value["method"] == method}  # fmt: skip
    merged = dict(result)
    while (cursor := merged.pop("nextCursor", None)) is not None:
        page = pages.pop(json.dumps(cursor), None)  # once, because wrong cursors can lead back to a page
        found = page.value.get("result") if page is not None else None
        for name, items in found.items() if isinstance(found, dict) else ():
            before = merged.get(name)
            merged[name] = [*before, *items] if isinstance(before, list) and isinstance(items, list) else items
    return merged


def _names(result: Object, list_name: str, attribute: str) -> list[JSON]:
    return [item.get(attribute) for item in _items(result, list_name)]


def _items(result: Object, list_name: str) -> list[Object]:
    items = result.get(list_name)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


Check = Callable[[str, Object], Iterator[str]]
"""A function that yields a call and the assertions about its result."""


def _check_names(list_name: str, attribute: str) -> Check:
    """Return a function that yields an assertion about the names in a list."""

    def check(call: str, result: Object) -> Iterator[str]:
        python_name = "uri_template" if attribute == "uriTemplate" else attribute
        yield f"found = {call}"
        names = _value(_names(result, list_name, attribute))
        yield from f"assert [each.{python_name} for each in found] == {names}".splitlines()

    return check


def _check_call(call: str, result: Object) -> Iterator[str]:
    yield f"result = {call}"
    blocks = _items(result, "content")
    if result.get("isError"):
        yield "assert result.is_error"
    kinds: list[JSON] = [block.get("type") for block in blocks]
    if kinds == ["text"]:
        yield from f"assert result.text == {_value(blocks[0].get('text'))}".splitlines()
    else:
        yield f"assert [block.type for block in result.content] == {_value(kinds)}"
    if "structuredContent" in result:
        yield from f"assert result.structured_content == {_value(result['structuredContent'])}".splitlines()


def _check_contents(call: str, result: Object) -> Iterator[str]:
    uris, texts = _names(result, "contents", "uri"), _names(result, "contents", "text")
    yield f"found = ({call}).contents"
    yield from f"assert [each.uri for each in found] == {_value(uris)}".splitlines()
    yield from f'assert [getattr(each, "text", None) for each in found] == {_value(texts)}'.splitlines()


def _check_messages(call: str, result: Object) -> Iterator[str]:
    roles = _names(result, "messages", "role")
    yield f"prompt = {call}"
    yield f"assert [message.role for message in prompt.messages] == {_value(roles)}"


def _with_arguments(function: str) -> Callable[[Object], str]:
    def call(params: Object) -> str:
        arguments = params.get("arguments")
        second = f", {_value(arguments)}" if arguments else ""
        return f"{function}({_value(params.get('name'))}{second})"

    return call


_CALLS: Final[dict[str, tuple[Callable[[Object], str], Check]]] = {
    "ping": (lambda params: "ping()", lambda call, result: iter([call])),
    "tools/list": (lambda params: "list_tools()", _check_names("tools", "name")),
    "tools/call": (_with_arguments("call_tool"), _check_call),
    "resources/list": (lambda params: "list_resources()", _check_names("resources", "uri")),
    "resources/templates/list": (
        lambda params: "list_resource_templates()", _check_names("resourceTemplates", "uriTemplate")),
    "resources/read": (lambda params: f"read_resource({_value(params.get('uri'))})", _check_contents),
    "prompts/list": (lambda params: "list_prompts()", _check_names("prompts", "name")),
    "prompts/get": (_with_arguments("get_prompt"), _check_messages),
}  # fmt: skip
"""The methods that the module repeats: how to write the call, and the assertions about its result."""
