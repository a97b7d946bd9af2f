"""A session in another process: its log level, its subscriptions, and the names of its streams."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mcp_ref import Context, Server, SqliteEventStore
from mcp_ref.jsonrpc.messages import JSON, Error, ErrorResponse, Object, Request, Response
from mcp_ref.transports.streamable_http.kept_requests import (
    MAX_UNSETTLED,
    KeptRequests,
    name_with_id,
    request_id_of,
    stored_requests,
)
from tests.messages import request, result_of
from tests.raw_http_client import RawSession, served_over_http

URI = "notes://1"


def server_of() -> Server:
    """Return a server that logs at two levels, and changes a note."""
    server = Server("s")

    @server.tool()
    async def work(context: Context) -> None:
        await context.log("info", "quiet")
        await context.log("error", "loud")
        for number in (1, 2):
            server.resource_updated(f"notes://{number}")

    server.resource("notes://{id}")(lambda id: id)
    return server


@contextlib.asynccontextmanager
async def in_two_processes(path: str, *messages: Object) -> AsyncIterator[RawSession]:
    """Send messages in a session of one process, and give the session in the next process."""
    with contextlib.closing(SqliteEventStore(path)) as store:
        async with served_over_http(server_of(), store=store) as web:
            talk = RawSession(web)
            await talk.handshake("2025-11-25")
            for number, message in enumerate(messages):
                result_of((await talk.post({**message, "id": number})).json)
    with contextlib.closing(SqliteEventStore(path)) as store:
        async with served_over_http(server_of(), store=store) as web:
            yield RawSession(web, talk.id)


async def said(talk: RawSession, updated_first: bool = False) -> list[JSON]:
    """Call the tool, and return the log messages and the updates that the client gets."""
    listening = await talk.get()
    found: list[JSON] = []
    if updated_first:
        first = await listening.object()
        found.append(first["params"]["uri"])
    reply = await talk.post(request("tools/call", {"name": "work"}))
    for message in await reply.messages() if reply.kind == "text/event-stream" else []:
        if isinstance(message, dict) and message.get("method") == "notifications/message":
            found.append(message["params"]["data"])
    await talk.post(request("resources/subscribe", {"uri": "notes://end"}))
    talk.web.site._catalog.announcers.announce("notifications/resources/updated", "notes://end")
    while True:
        message = await listening.object()
        uri = message["params"]["uri"]
        if uri == "notes://end":
            return found
        found.append(uri)


async def test_log_level_and_subscriptions_continue_in_another_process(tmp_path: Path) -> None:
    messages = [
        request("logging/setLevel", {"level": "debug"}),
        request("resources/subscribe", {"uri": URI}),
        request("resources/subscribe", {"uri": "notes://2"}),
        request("resources/unsubscribe", {"uri": "NOTES://2"}),
        request("logging/setLevel", {"level": "warning"}),
    ]
    path = str(tmp_path / "events.sqlite")
    async with in_two_processes(path, *messages) as talk:
        # first the update that the session can have missed, and then that of the tool
        assert await said(talk, updated_first=True) == [URI, "loud", URI]
    async with in_two_processes(str(tmp_path / "other.sqlite")) as talk:
        assert await said(talk) == ["quiet", "loud"]


def response(id: int) -> Response:
    return Response(id, {})


def test_kept_requests_are_those_with_a_result() -> None:
    saved: list[bytes] = []
    kept = KeptRequests(saved.append)
    for id, uri in enumerate(["notes://1", "notes://2", "Notes://1"]):
        kept.note(Request(id, "resources/subscribe", {"uri": uri, "_meta": {"progressToken": 1}}))
    kept.settle(response(7))
    kept.settle(Request(1, "ping"))  # a request of the server with the id of one of the client
    kept.settle(ErrorResponse(1, Error(-32002, "?")))
    assert not saved
    for id in (0, 2, 2):
        kept.settle(response(id))
    assert len(saved) == 2
    (one,) = stored_requests(saved[-1], "x")
    assert one == Request("x-0", "resources/subscribe", {"uri": "Notes://1"})
    kept.note(Request(9, "initialize"))
    kept.settle(response(9))
    assert saved.pop() == b"[]"
    for id in range(MAX_UNSETTLED + 1):  # cancelled, so without a response
        kept.note(Request(id, "logging/setLevel", {"level": "debug"}))
    kept.settle(response(0))
    assert len(saved) == 2
    kept.settle(response(1))
    assert len(saved) == 3


@pytest.mark.parametrize("id", ["", "7", "a.b-c", "ä" * 64])
def test_stream_has_the_id_of_its_request_in_its_name(id: str) -> None:
    name = name_with_id("5f3a-1", (id,))
    assert name.startswith("5f3a-1-") and "." not in name and name.isascii() and request_id_of(name) == id
    assert name_with_id("5f3a-1", ("x" * 65,)) == name_with_id("5f3a-1", ("1", "2")) == "5f3a-1"


@pytest.mark.parametrize("id", [0, -7, 10**20])
def test_name_of_a_stream_is_read_with_a_number_as_id(id: int) -> None:
    assert request_id_of(name_with_id("5f3a-1", (id,))) == id and request_id_of("5f3a-1") is None
    assert name_with_id("5f3a-1", (10**64,)) == "5f3a-1"  # each event would repeat it
