"""A recording as a pytest module: the client's requests, and assertions about the server's results. Pure.

    result = await client.call_tool("add", {"a": 1, "b": 2})
    assert result.text == "3"

A developer can edit the module, and keep it as a test of the server. It uses only `mcp_ref.Client`, so it runs wherever
the package is installed, even without the recording. It asserts only the members of a result that a client reads most:
names, texts and types. (`replay --client` compares all members, see regression.py.)

Threats:
    recording-becomes-code: A server, or the author of a recording, runs code in the user's account by putting a line
        break and code into a text. `to_test` writes each text as a literal of Python, or with escapes in a comment.

Used by: cli/drive.py. Uses: exchanges.py
"""

from __future__ import annotations

import json
import pprint
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ..check.recording import Head
from ..jsonrpc.messages import JSON, Object
from .exchanges import RecordedRequest, member

_PACKAGE: Final = (__package__ or "").rpartition(".")[0]
_WIDTH: Final = 100
"""Maximum length of a line before its indentation, and of a text in a comment, in characters."""
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
    """Return the source of a pytest module that repeats the requests of the recording in the file `name`."""
    identifier = re.sub("[^A-Za-z0-9]", "_", name.removesuffix(".jsonl")).strip("_")
    statements = [each for recorded in requests for each in _statements(recorded, requests)]
    source = _TEMPLATE.format(
        name=_in_comment(name), started=_in_comment(head.started) or "an unknown time",
        package=_PACKAGE, server=_server(head),
        identifier=identifier.lower() or "conversation", revision=revision or None,
        body=textwrap.indent("\n".join(statements).rstrip() or "await client.ping()", " " * 12),
    )  # fmt: skip
    if "pytest.raises(RemoteError)" not in source:  # remove the imports that only this statement needs
        source = source.replace("\nimport pytest\n", "", 1).replace(", RemoteError", "", 1)
    return source


def _server(head: Head) -> str:
    if head.command or head.url:
        return repr(list(head.command) or head.url)
    return '["python3", "server.py"]  # the recording does not name it'


def _in_comment(text: str) -> str:
    """Return a text for a comment or docstring, without characters that could end it."""
    escaped = json.dumps(text[:_WIDTH])[1:-1]
    return escaped.replace('\\"', "'").replace("\\", "/")  # an escape of JSON must not become one of Python


def _statements(recorded: RecordedRequest, requests: Sequence[RecordedRequest]) -> Iterator[str]:
    """Yield the statements that repeat one request and check its result, and an empty line after them. Yield none for a
    request without a response, or that a client sends on its own."""
    method, params = str(recorded.request.value["method"]), recorded.request.value.get("params")
    params = params if isinstance(params, dict) else {}
    if recorded.response is None or method not in _CALLS or "cursor" in params:  # the client itself gets all pages
        return
    response = recorded.response.value
    result = response.get("result")
    if isinstance(result, dict) and result.get("resultType") not in (None, "complete"):
        return  # the client handles input requests and tasks, and repeats the request
    write_call, check = _CALLS[method]
    call = f"await client.{write_call(params)}"
    if '"***"' in json.dumps(params):
        yield "# put the secret in place of ***"
    if isinstance(result, dict):
        yield from check(call, _with_further_pages(result, method, requests))
    else:
        message = _in_comment(str(member(response, "error", "message")))
        yield f"with pytest.raises(RemoteError) as refused:  # {message}".rstrip()
        yield textwrap.indent(call, " " * 4)
        yield f"assert refused.value.code == {_literal(member(response, 'error', 'code'))}"
    yield ""


def _literal(value: JSON) -> str:
    """Return the Python literal of a value, on several lines if it is long."""
    return pprint.pformat(value, width=_WIDTH, sort_dicts=False)


def _with_further_pages(result: Object, method: str, requests: Sequence[RecordedRequest]) -> Object:
    """Return the first page of a list with the items of all its pages. A result without pages stays as it is."""
    # of two requests with the same cursor, the first one counts, so it comes last
    page_by_cursor = {json.dumps(member(recorded.request.value, "params", "cursor")): recorded.response
                      for recorded in reversed(requests) if recorded.request.value["method"] == method}  # fmt: skip
    merged = dict(result)
    cursor = merged.pop("nextCursor", None)
    while cursor is not None:
        # each page is taken once, because a wrong cursor can lead back to a page
        response = page_by_cursor.pop(json.dumps(cursor), None)
        page = response.value.get("result") if response is not None else None
        if not isinstance(page, dict):
            break
        for name, items in page.items():
            before = merged.get(name)
            if isinstance(before, list) and isinstance(items, list):
                merged[name] = [*before, *items]
            else:  # such as the `nextCursor` of this page
                merged[name] = items
        cursor = merged.pop("nextCursor", None)
    return merged


def _members(result: Object, list_name: str, name: str) -> list[JSON]:
    """Return the member `name` of each item in a list of the result, such as the name of each tool in `tools`."""
    items = result.get(list_name)
    if not isinstance(items, list):
        return []
    return [item.get(name) for item in items if isinstance(item, dict)]


Check = Callable[[str, Object], Iterator[str]]
"""A function that gets a call, as Python, and its recorded result. It yields the statements that make the call and
check its result."""


def _check_names(list_name: str, member_name: str) -> Check:
    """Return the check of a list, which compares one member of its items, such as their names."""

    def check(call: str, result: Object) -> Iterator[str]:
        attribute = "uri_template" if member_name == "uriTemplate" else member_name
        yield f"found = {call}"
        yield f"assert [each.{attribute} for each in found] == {_literal(_members(result, list_name, member_name))}"

    return check


def _check_call(call: str, result: Object) -> Iterator[str]:
    yield f"result = {call}"
    if result.get("isError"):
        yield "assert result.is_error"
    types = _members(result, "content", "type")
    if types == ["text"]:
        yield f"assert result.text == {_literal(_members(result, 'content', 'text')[0])}"
    else:
        yield f"assert [block.type for block in result.content] == {_literal(types)}"
    if "structuredContent" in result:
        yield f"assert result.structured_content == {_literal(result['structuredContent'])}"


def _check_contents(call: str, result: Object) -> Iterator[str]:
    yield f"found = ({call}).contents"
    yield f"assert [each.uri for each in found] == {_literal(_members(result, 'contents', 'uri'))}"
    yield f'assert [getattr(each, "text", None) for each in found] == {_literal(_members(result, "contents", "text"))}'


def _check_messages(call: str, result: Object) -> Iterator[str]:
    yield f"prompt = {call}"
    yield f"assert [message.role for message in prompt.messages] == {_literal(_members(result, 'messages', 'role'))}"


def _with_arguments(client_method: str) -> Callable[[Object], str]:
    """Return the function that writes a call such as `call_tool("add", {"a": 1})` from the params of a request."""

    def write_call(params: Object) -> str:
        arguments = params.get("arguments")
        second = f", {_literal(arguments)}" if arguments else ""
        return f"{client_method}({_literal(params.get('name'))}{second})"

    return write_call


_CALLS: Final[dict[str, tuple[Callable[[Object], str], Check]]] = {
    "ping": (lambda params: "ping()", lambda call, result: iter([call])),
    "tools/list": (lambda params: "list_tools()", _check_names("tools", "name")),
    "tools/call": (_with_arguments("call_tool"), _check_call),
    "resources/list": (lambda params: "list_resources()", _check_names("resources", "uri")),
    "resources/templates/list": (
        lambda params: "list_resource_templates()", _check_names("resourceTemplates", "uriTemplate")),
    "resources/read": (lambda params: f"read_resource({_literal(params.get('uri'))})", _check_contents),
    "prompts/list": (lambda params: "list_prompts()", _check_names("prompts", "name")),
    "prompts/get": (_with_arguments("get_prompt"), _check_messages),
}  # fmt: skip
"""By JSON-RPC method: a function that writes the call of the client from the params, and the check of its result."""
