"""The errors that a peer gets: of all exceptions, only those of the author and of this package give their texts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from mcp_ref import AuthorizationError, Context, McpError, ProtocolError, RemoteError, RequestTimeout, Server
from mcp_ref.basic.lifecycle import CapabilityError
from mcp_ref.host.approval import Refused
from mcp_ref.host.supervisor import ServerUnavailable
from mcp_ref.jsonrpc.errors import ConnectionClosed, InvalidMessage
from mcp_ref.jsonrpc.failures import error_for_peer, error_response, writable_response
from mcp_ref.jsonrpc.messages import INTERNAL_ERROR, Error, ErrorResponse, Object, Request, Response
from tests.raw_peers import connected_client
from tests.settings import MODERN

SECRET = "its standard error ends with: connecting with postgres://app:s3cr3t@db"

FOREIGN: list[Callable[[], McpError]] = [
    lambda: ServerUnavailable(SECRET),
    lambda: Refused(SECRET),
    lambda: AuthorizationError(SECRET),
    lambda: ConnectionClosed(SECRET),
    lambda: InvalidMessage(SECRET),
    lambda: RequestTimeout(SECRET),
    lambda: RemoteError(-32603, SECRET, {"detail": SECRET}),
    lambda: RemoteError(-32042, SECRET, {"elicitations": [{"mode": "url", "url": "https://s3cr3t.example"}]}),
]
"""Exceptions with texts of other programs, as a handler gets them that calls another server."""


def subclasses(cls: type[McpError]) -> Iterator[type[McpError]]:
    for each in cls.__subclasses__():
        yield each
        yield from subclasses(each)


def test_error_for_peer_has_the_text_of_no_exception_but_those_of_the_list() -> None:
    assert error_for_peer(ProtocolError(-32001, "closed today", 1)).message == "closed today"
    assert error_for_peer(CapabilityError("the client did not declare roots")).message.endswith("declare roots")
    assert error_for_peer(InvalidMessage("the form is not valid").show_to_peer()).message == "the form is not valid"
    assert error_for_peer(ValueError(SECRET)).message == "Internal error"
    listed = {each for each in subclasses(McpError) if issubclass(each, (ProtocolError, CapabilityError))}
    for each in set(subclasses(McpError)) - listed | {RemoteError}:
        error = each.__new__(each)
        Exception.__init__(error, SECRET)
        error.code = -1  # type: ignore[attr-defined]  # a RemoteError has it
        assert "s3cr3t" not in error_for_peer(error).message, each


async def test_error_response_for_an_exception_without_a_text_is_internal_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Unprintable(Exception):
        def __str__(self) -> str:
            raise RuntimeError("this exception has no text")

    internal = ErrorResponse(1, Error(INTERNAL_ERROR, "Internal error"))
    assert error_response(Request(1, "x"), Unprintable(), False) == internal
    assert error_response(Request(1, "x"), ValueError("Internal error in a library"), False) == internal
    assert len(caplog.records) == 2


async def test_error_response_logs_an_exception_whose_text_the_peer_does_not_get(
    caplog: pytest.LogCaptureFixture,
) -> None:
    request = Request(1, "x")
    assert error_response(request, ProtocolError(-32001, "shut"), False) == ErrorResponse(1, Error(-32001, "shut"))
    assert not caplog.records
    internal = ErrorResponse(1, Error(INTERNAL_ERROR, "Internal error"))
    assert error_response(request, ValueError(SECRET), True) == internal
    assert "the handler of x failed" in caplog.text


def test_writable_replaces_only_a_result_without_a_json_form() -> None:
    response = Response(1, {})
    assert writable_response(response) is response
    error = Error(INTERNAL_ERROR, "Internal error: the result cannot be written as JSON")
    assert writable_response(Response(1, {"a": object()})) == ErrorResponse(1, error)  # type: ignore[dict-item]


@pytest.mark.attack("error-secrets")
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
@pytest.mark.parametrize("error", FOREIGN, ids=lambda error: repr(error()).partition("(")[0])
async def test_handler_that_fails_with_the_text_of_another_server_does_not_pass_it_on(
    error: Callable[[], McpError], revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("s")

    async def fails(context: Context) -> str:
        raise error()

    server.tools.add(fails, "t")
    server.prompts.add(fails, "p")
    server.resources.add("a://b", fails)
    requests: list[tuple[str, Object]] = [
        ("tools/call", {"name": "t"}),
        ("prompts/get", {"name": "p"}),
        ("resources/read", {"uri": "a://b"}),
    ]
    async with connected_client(server, revision=revision, capabilities={"elicitation": {"url": {}}}) as wire:
        for method, params in requests:
            assert "s3cr3t" not in json.dumps(await wire.ask(method, params, method))
    assert caplog.text.count("s3cr3t") >= len(requests), "the log has the text"
