"""Negotiation of the era and the revision, over stdio and over HTTP, and its errors."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from mcp_ref import Client, ConnectionClosed, HttpClient, RemoteError, RequestTimeout, Server, UnsupportedRevision
from mcp_ref.client import negotiation as opening
from mcp_ref.jsonrpc.messages import JSON, Object
from mcp_ref.revisions import LEGACY, REVISIONS, Era
from mcp_ref.transports.base import OnEnd, Receive
from mcp_ref.transports.memory import MemoryTransport
from mcp_ref.transports.stdio.client import StdioClientTransport
from tests.forked_python import quick_python
from tests.messages import Received
from tests.raw_peers import Wire, raw_server
from tests.raw_stateless_server import INFO, META, MODERN, answer, asked_for, discovered, meta_of, params_of, refusal
from tests.scripted_http_server import Step, error, events, frame, respond_with, result, scripted, status
from tests.settings import PATIENCE, eventually, pass_time

LATEST = "2025-11-25"


Make = Callable[[MemoryTransport], Client]
"""A function that makes a client of a transport."""


def of(transport: MemoryTransport) -> Client:
    return Client(transport)


def alone(transport: MemoryTransport) -> Client:
    return Client(transport, revision=MODERN)


@contextlib.asynccontextmanager
async def probed(make: Make = of) -> AsyncIterator[tuple[Client, Wire, Received, asyncio.Task[None]]]:
    """Give a client that connects, its raw server, its `server/discover`, and the task that connects it."""
    async with raw_server(make) as (client, wire):
        connecting = asyncio.create_task(client.connect())
        yield client, wire, await asked_for(wire, "server/discover"), connecting


async def greeted(wire: Wire, connecting: asyncio.Task[None], revision: str = LATEST) -> None:
    """Respond to `initialize`, and wait until the client has connected."""
    asked = await wire.receive_object()
    assert asked["method"] == "initialize", asked
    assert "_meta" not in params_of(asked) and params_of(asked)["protocolVersion"] == LATEST
    await wire.send(answer(asked, {"protocolVersion": revision, "capabilities": {}, "serverInfo": INFO}))
    assert (await wire.receive_object())["method"] == "notifications/initialized"
    await connecting


async def refused(make: Make, said: Object, expected: type[Exception], match: str) -> str:
    """Respond to the probe so that the client gives up, without asking anything else. Return its error message."""
    async with probed(make) as (_, wire, asked, connecting):
        await wire.send({"jsonrpc": "2.0", **said, "id": asked["id"]})
        with pytest.raises(expected, match=match) as found:
            await connecting
        await asyncio.wait_for(wire.closed.wait(), PATIENCE)
        assert wire.frames.empty()
        return str(found.value)


# ------------------------------------------------------------------------------------------------ a modern server


@pytest.mark.spec(
    "2026-07-28/basic/transports/stdio#backward-compatibility-1",
    "2026-07-28/server/discover#when-to-call-1",
    "2026-07-28/basic/index#meta-6,9",
)
@pytest.mark.parametrize("make", [of, alone], ids=["both eras", "modern alone"])
async def test_client_sends_server_discover_first(make: Make) -> None:
    async with probed(make) as (client, wire, asked, connecting):
        assert params_of(asked).keys() == {"_meta"}
        assert meta_of(asked)[f"{META}clientInfo"] == {"name": "mcp_ref", "version": client._info.version}
        members: Object = {"instructions": "be kind"}
        await wire.send(answer(asked, discovered(MODERN, capabilities={"tools": {}}, **members)))
        await connecting
        assert wire.frames.empty()  # nothing else is said before something is wanted
        assert str(client.revision) == MODERN and client.server_can("tools") and client.instructions == "be kind"
        assert (client.server_info.name, client.server_info.version) == ("raw", "1")


@pytest.mark.spec(
    "2026-07-28/server/discover#discoverresult-2",
    "2026-07-28/basic/index#resulttype-3",
    "2026-07-28/changelog#major-changes-5",
)
@pytest.mark.parametrize(
    ("result", "name"),
    [
        (discovered(_meta={}), ""),
        (discovered(_meta={f"{META}serverInfo": 5}), ""),
        (discovered(_meta={f"{META}serverInfo": {"name": "x"}}), ""),
        (discovered(_meta={}, serverInfo={"name": "draft", "version": "1"}), "draft"),
        ({"supportedVersions": ["1999-01-01", MODERN], "capabilities": {}}, ""),
    ],
    ids=["no name", "a number", "no version", "as in a draft", "no type and no hints"],
)
async def test_discover_result_may_omit_the_server_info_and_the_result_type(result: Object, name: str) -> None:
    async with probed() as (client, wire, asked, connecting):
        await wire.send(answer(asked, result))
        await connecting
        assert str(client.revision) == MODERN and client.server_info.name == name


@pytest.mark.spec("2026-07-28/basic/versioning#protocol-version-negotiation-2")
@pytest.mark.parametrize("versions", [["2030-01-01"], ["DRAFT-2026-v1", "2030-01-01"], []])
@pytest.mark.parametrize("how", ["result", "error"])
@pytest.mark.parametrize("make", [of, alone], ids=["both eras", "modern alone"])
async def test_server_of_other_revisions_raises_unsupported_revision_that_lists_them(
    versions: list[str], how: str, make: Make
) -> None:
    supported: list[JSON] = [*versions]
    if how == "result":
        said: Object = {"result": discovered() | {"supportedVersions": supported}}
    else:
        said = refusal({"id": 1}, -32022, "Unsupported protocol version", {"supported": supported, "requested": MODERN})
    match = versions[0] if versions else "speaks other revisions"
    assert MODERN in await refused(make, said, UnsupportedRevision, match)


@pytest.mark.spec("2026-07-28/basic/versioning#protocol-version-negotiation-2")
@pytest.mark.parametrize("make", [of, alone], ids=["both eras", "modern alone"])
@pytest.mark.parametrize("times", [1, 2])
async def test_server_discover_is_repeated_once_for_a_server_that_refuses_the_revision_it_names(
    times: int, make: Make
) -> None:
    async with probed(make) as (_, wire, asked, connecting):
        data: Object = {"supported": [MODERN], "requested": MODERN}
        await wire.send(refusal(asked, -32022, "no", data))
        asked = await asked_for(wire, "server/discover")
        if times == 1:
            await wire.send(answer(asked, discovered()))
            return await connecting
        await wire.send(refusal(asked, -32022, "no", data))
        with pytest.raises(UnsupportedRevision, match=MODERN):
            await connecting
        await asyncio.wait_for(wire.closed.wait(), PATIENCE)
        assert wire.frames.empty()


@pytest.mark.parametrize("data", [None, 5, "x", [], {"supported": MODERN}, {"supported": [5, None, {}, [], True]}])
async def test_server_discover_error_without_a_list_of_revisions_is_only_an_error(data: JSON) -> None:
    await refused(of, refusal({"id": 1}, -32022, "no", data), UnsupportedRevision, MODERN)


@pytest.mark.parametrize("code", [-32020, -32021])
@pytest.mark.parametrize("make", [of, alone], ids=["both eras", "modern alone"])
async def test_modern_error_to_the_probe_is_raised_without_a_handshake(code: int, make: Make) -> None:
    await refused(make, refusal({"id": 1}, code, "fix that"), RemoteError, "fix that")


# ------------------------------------------------------------------------------------------------ an earlier server

CODES = (-32601, -32602, -32600, -32603, -32000, -32002, 0, 7)
NOT_MODERN: list[Object] = [
    *[refusal({"id": 1}, code) for code in CODES],
    {"result": {}},
    {"result": {"supportedVersions": 5, "capabilities": {}}},
    {"result": {"tools": []}},
    {"result": 5},
    {"error": "no"},
]
"""Responses to the probe that no modern server sends."""
ONLY_LEGACY: list[Object] = [
    {"result": discovered(LATEST, "2025-06-18")},
    refusal({"id": 1}, -32022, "no", {"supported": [LATEST, "2024-11-05"], "requested": MODERN}),
]
"""Responses to the probe of servers that know both eras, and speak only revisions of the legacy era."""


@pytest.mark.spec(
    "2026-07-28/basic/transports/stdio#backward-compatibility-2", "2026-07-28/server/discover#when-to-call-1"
)
@pytest.mark.parametrize("said", NOT_MODERN + ONLY_LEGACY, ids=json.dumps)
async def test_any_other_answer_is_of_an_earlier_server_which_is_shaken_hands_with(
    said: Object, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with probed() as (client, wire, asked, connecting):
        await wire.send({"jsonrpc": "2.0", **said, "id": asked["id"]})
        await greeted(wire, connecting, "2025-06-18")
        assert str(client.revision) == "2025-06-18"
        ping = asyncio.create_task(client.ping())
        asked = await wire.receive_object()
        assert asked["method"] == "ping" and "_meta" not in asked.get("params", {})
        await wire.send(answer(asked, {}))
        await ping
    assert ("the server speaks no modern revision: " in caplog.text) is (said in NOT_MODERN)


@pytest.mark.spec(
    "2026-07-28/basic/versioning#compatibility-matrix-1", "2026-07-28/basic/transports/stdio#backward-compatibility-3"
)
@pytest.mark.parametrize("said", NOT_MODERN, ids=json.dumps)
async def test_modern_only_client_says_how_to_speak_to_a_legacy_server(said: Object) -> None:
    await refused(alone, said, UnsupportedRevision, "leave `revision` out")


@pytest.mark.parametrize("how", ["at once", "after the handshake was refused"])
async def test_late_discover_result_still_selects_the_modern_era(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "PROBE_SECONDS", 0.02)
    async with probed() as (client, wire, asked, connecting):
        greeting = await wire.receive_object()
        assert greeting["method"] == "initialize"
        if how != "at once":
            await wire.send(refusal(greeting, -32601))
        await wire.send(answer(asked, discovered(capabilities={"tools": {}})))
        await connecting
        assert client.revision.era == "modern" and client.server_can("tools")
        listing = asyncio.create_task(client.list_tools())
        result: Object = {"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "public"}
        await wire.send(answer(await asked_for(wire, "tools/list"), result))
        assert await listing == []


@pytest.mark.spec("2026-07-28/basic/transports/stdio#backward-compatibility-1")
async def test_silent_server_gets_initialize_and_a_discover_result_after_the_handshake_is_ignored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(opening, "PROBE_SECONDS", 0.02)
    async with probed() as (client, wire, asked, connecting):
        await greeted(wire, connecting)
        assert str(client.revision) == LATEST
        await wire.send(answer(asked, discovered()))
        ping = asyncio.create_task(client.ping())
        asked = await wire.receive_object()
        assert asked["method"] == "ping"
        await wire.send(answer(asked, {}))
        await ping
        assert str(client.revision) == LATEST


@pytest.mark.parametrize("make", [of, alone], ids=["both eras", "modern alone"])
async def test_server_that_never_responds_raises_an_error_at_the_time_limit(make: Make) -> None:
    async with raw_server(make) as (client, wire):
        client.timeout = 0.3  # long enough for a loaded machine to send both requests
        both = make is of
        with pytest.raises(RequestTimeout if both else UnsupportedRevision, match="no response within"):
            await client.connect()
        await asyncio.wait_for(wire.closed.wait(), PATIENCE)
        methods = [json.loads(wire.frames.get_nowait())["method"] for _ in range(wire.frames.qsize())]
        assert methods == ["server/discover", "initialize"][: 2 if both else 1]


async def test_negotiation_with_both_requests_ends_at_the_time_limit_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a legacy server that ignores the probe gets `initialize` when half of the time is over."""
    monkeypatch.setattr(opening, "PROBE_SECONDS", 1000.0)
    async with raw_server(of) as (client, wire):
        client.timeout = PATIENCE
        connecting = asyncio.create_task(client.connect())
        await asked_for(wire, "server/discover")
        pass_time(monkeypatch, PATIENCE / 2)
        await greeted(wire, connecting)


# ------------------------------------------------------------------------------------------------ earlier clients


@pytest.mark.parametrize("revisions", [[LATEST], [revision.name for revision in LEGACY]])
async def test_legacy_only_client_begins_with_initialize(revisions: list[str]) -> None:
    async with raw_server(lambda t: Client(t, revisions=revisions)) as (client, wire):
        await greeted(wire, asyncio.create_task(client.connect()))


# ------------------------------------------------------------------------------------------------ server processes

DIES_AT_THE_PROBE = """
import json, sys
line = json.loads(sys.stdin.readline())
with open({seen!r}, "a") as seen:
    seen.write(line["method"] + " ")
if line["method"] != "initialize":
    sys.exit("expected initialize request")
said = {{"protocolVersion": "2025-06-18", "capabilities": {{}}, "serverInfo": {{"name": "strict", "version": "1"}}}}
print(json.dumps({{"jsonrpc": "2.0", "id": line["id"], "result": said}}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        print(json.dumps({{"jsonrpc": "2.0", "id": message["id"], "result": {{}}}}), flush=True)
"""


@pytest.mark.spec("2026-07-28/basic/versioning#backward-compatibility-with-initialization-based-versions-1")
async def test_server_process_that_ends_at_the_probe_is_started_again_for_initialize(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    eras: dict[str, Era] = {}
    command = quick_python(DIES_AT_THE_PROBE.format(seen=str(tmp_path / "seen")))
    for _ in range(2):  # the second time, it is known
        async with Client(command, eras=eras) as client:
            assert str(client.revision) == "2025-06-18" and client.server_info.name == "strict"
            await client.ping()
    assert (tmp_path / "seen").read_text().split() == ["server/discover", "initialize", "initialize"]
    assert list(eras.values()) == ["legacy"]
    assert "the negotiation failed and is tried again: " in caplog.text


async def test_server_process_that_ends_before_the_probe_is_started_again_too(monkeypatch: pytest.MonkeyPatch) -> None:
    start, exits = StdioClientTransport.start, StdioClientTransport._exits_within

    async def start_and_exit(self: StdioClientTransport, receive: Receive, on_end: OnEnd) -> None:
        await start(self, receive, on_end)
        assert await exits(self, PATIENCE)

    monkeypatch.setattr(StdioClientTransport, "start", start_and_exit)
    client = Client(quick_python("pass"))
    with pytest.raises(ConnectionClosed, match=r"the server .* exited with code 0"):
        await client.connect()
    assert client.connector.starts == 2


@pytest.mark.parametrize("other", ["cwd", "env", "removed", "folder", "PATH"])
async def test_era_of_a_command_is_for_its_folder_and_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    eras: dict[str, Era] = {}
    command = quick_python(DIES_AT_THE_PROBE.format(seen=str(tmp_path / "seen")))
    env: dict[str, str | None] = {"MODE": "s3cret-1"}
    async with Client(command, eras=eras, env=env):
        pass
    cwd = tmp_path if other == "cwd" else None
    if other in ("env", "removed"):
        env = {"MODE": "s3cret-2" if other == "env" else None}
    elif other == "folder":
        monkeypatch.chdir(tmp_path)
    elif other == "PATH":
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    for _ in range(2):
        async with Client(command, eras=eras, env=env, cwd=cwd):
            assert len(eras) == 2
    assert (tmp_path / "seen").read_text().split() == ["server/discover", "initialize"] * 2 + ["initialize"]
    assert "s3cret" not in "".join(eras)  # a program can store them


@pytest.mark.parametrize("revision", [None, MODERN, LATEST])
async def test_server_process_that_exits_raises_connection_closed_with_its_standard_error(
    revision: str | None,
) -> None:
    with pytest.raises(ConnectionClosed, match="so be it"):
        command = quick_python("import sys; sys.stdin.readline(); sys.exit('so be it')")
        await Client(command, revision=revision).connect()


@pytest.mark.spec("2026-07-28/basic/versioning#backward-compatibility-with-initialization-based-versions-1")
@pytest.mark.parametrize("kind", ["stdio", "http"])
@pytest.mark.parametrize("known", ["modern", "legacy"])
@pytest.mark.parametrize("speaks", ["modern", "legacy"])
async def test_eras_are_remembered_by_server_and_probed_again_if_wrong(kind: str, known: Era, speaks: Era) -> None:
    async with a_server(speaks, kind) as server:
        name = Client(server).connector.target.era_key
        assert name is not None
        eras: dict[str, Era] = {name: known}
        async with Client(server, eras=eras, timeout=PATIENCE) as client:
            assert client.revision.era == speaks
            await client.ping()
        assert eras == {name: speaks}


async def test_http_client_is_still_open_for_the_fallback_to_the_other_era() -> None:
    async with scripted() as site:
        refused = frame({"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "no"}})
        site.on("initialize", status(400, refused))
        site.on("server/discover", respond_with(discovered()))
        eras: dict[str, Era] = {site.url: "legacy"}
        async with Client(site.url, http=HttpClient(), eras=eras, timeout=PATIENCE) as client:
            assert client.revision.era == "modern"
        assert site.keys == ["initialize", "GET", "server/discover"]


async def test_legacy_only_client_remembers_no_era_for_later_clients() -> None:
    async with Server("s", "1").serve_http() as url:
        eras: dict[str, Era] = {}
        async with Client(url, revision=LATEST, eras=eras):
            assert eras == {}
        async with Client(url, eras=eras) as client:
            assert client.revision.era == "modern" and eras == {url: "modern"}


@pytest.mark.parametrize("known", ["modern", "legacy"])
@pytest.mark.parametrize("when", ["while it starts", "while it is asked"])
async def test_client_that_is_closed_while_it_connects_starts_no_second_process(
    known: Era, when: str, tmp_path: Path
) -> None:
    log = tmp_path / "starts"
    command = quick_python(f"""
import os, sys
open({str(log)!r}, "a").write(f"{{os.getpid()}} ")
sys.stdin.read()
""")
    eras: dict[str, Era] = {}
    client = Client(command, eras=eras)
    eras[client.connector.target.era_key or ""] = known
    connecting = asyncio.create_task(client.connect())
    if when == "while it is asked":
        await eventually(log.exists)
    else:
        await asyncio.sleep(0)
    await client.close()
    with pytest.raises(ConnectionClosed):
        await connecting
    pids = log.read_text().split() if log.exists() else []
    assert len(pids) <= 1
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


# ------------------------------------------------------------------------------------------------ the matrix

SIDES = {"modern": [MODERN], "dual": [each.name for each in REVISIONS], "legacy": [each.name for each in LEGACY]}


@contextlib.asynccontextmanager
async def a_server(speaks: str, kind: str) -> AsyncIterator[str | list[str]]:
    """Run a server of one era, or of both, as a command or behind a URL."""
    if kind == "stdio":
        yield quick_python(f"import mcp_ref\nmcp_ref.Server('s', '1', revisions={SIDES[speaks]!r}).run()")
        return
    async with Server("s", "1", revisions=SIDES[speaks]).serve_http() as url:
        yield url


@pytest.mark.spec(
    "2026-07-28/basic/versioning#compatibility-matrix-1",
    "2026-07-28/basic/versioning#backward-compatibility-with-initialization-based-versions-2",
)
@pytest.mark.parametrize("kind", ["stdio", "http"])
@pytest.mark.parametrize("theirs", SIDES)
@pytest.mark.parametrize("ours", SIDES)
async def test_client_and_server_of_each_era_agree_with_the_compatibility_matrix(
    ours: str, theirs: str, kind: str
) -> None:
    async with a_server(theirs, kind) as server:
        client = Client(server, revisions=SIDES[ours], timeout=PATIENCE)
        if {ours, theirs} == {"modern", "legacy"}:
            with pytest.raises(UnsupportedRevision) as found:
                await client.connect()
            if theirs == "modern":
                assert f"the server speaks {MODERN}" in str(found.value)
            else:
                assert "an earlier revision" in str(found.value) or f"the server speaks {LATEST}" in str(found.value)
            return
        async with client:
            assert client.revision.era == ("legacy" if "legacy" in (ours, theirs) else "modern")
            await client.ping()


# ------------------------------------------------------------------------------------------------ HTTP


FALLS_BACK: dict[str, Step] = {
    "400 of nothing": status(400),
    "400 of text": status(400, b"Bad Request: No valid session ID provided", ("Content-Type", "text/plain")),
    "400 of an error": status(400, error(None, "Bad Request: Server not initialized")),
    "404": status(404),
    "404 of unknown method": status(404, frame({"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "?"}})),
    "405": status(405),
    "406": status(406),
    "422": status(422, b"{}"),
    "200 of an error": status(200, frame({"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "no"}})),
    "200 of another result": status(200, result(1)),
    "200 of a batch": status(200, b"[]"),
    "202": status(202),
    "events of an error": events(b'data: {"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}\n\n'),
    "events without an answer": events(b": nothing\n\n"),
}


@pytest.mark.spec("2026-07-28/basic/transports/streamable-http#backward-compatibility-1")
@pytest.mark.parametrize("how", FALLS_BACK)
async def test_http_probe_without_a_modern_response_is_followed_by_initialize(how: str) -> None:
    async with scripted() as site:
        site.on("server/discover", FALLS_BACK[how])
        async with Client(site.url, timeout=PATIENCE) as client:
            assert str(client.revision) == LATEST
            await client.ping()
        assert site.keys[:3] == ["server/discover", "initialize", "notifications/initialized"]
        first, then = site.headers("server/discover")[0], site.headers("initialize")[0]
        assert (first["mcp-protocol-version"], first["mcp-method"]) == (MODERN, "server/discover")
        assert "mcp-protocol-version" not in then and "mcp-method" not in then


@pytest.mark.parametrize("how", FALLS_BACK)
async def test_http_modern_only_client_says_how_to_speak_to_a_legacy_server(how: str) -> None:
    async with scripted() as site:
        site.on("server/discover", FALLS_BACK[how])
        with pytest.raises(UnsupportedRevision, match="leave `revision` out"):
            await Client(site.url, revision=MODERN, timeout=PATIENCE).connect()
        assert site.keys == ["server/discover"]


@pytest.mark.parametrize("revision", [None, MODERN])
@pytest.mark.parametrize(
    ("code", "media_type", "body", "words"),
    [
        *((code, "text/plain", b"no", ": no") for code in (403, 407, 408, 429, 500, 502, 503, 504)),
        (401, "application/json", error(None, "wrong token"), ": wrong token"),
        (401, "application/json", error(1, "wrong token"), ": wrong token"),
        (401, "application/json", b'{"error": "invalid_token"}', ': {"error": "invalid_token"}'),
        (401, "text/plain; charset=utf-8", b"wrong\n token", ": wrong token"),
        (401, "text/plain", b"x" * 100_000, ": " + "x" * 200),
        (401, "text/html", b"<h1>no</h1>", ""),
        (401, "text/plain", b"", ""),
    ],
)
async def test_http_error_without_a_hint_of_the_era_is_raised_and_nothing_else_is_sent(
    code: int, media_type: str, body: bytes, words: str, revision: str | None
) -> None:
    async with scripted() as site:
        site.on("server/discover", status(code, body, ("Content-Type", media_type)))
        with pytest.raises(ConnectionClosed) as found:
            await Client(site.url, revision=revision, timeout=PATIENCE).connect()
        assert str(found.value) == f"server/discover: {site.url}: the server answered HTTP {code}{words}"
        assert site.keys == ["server/discover"]


@pytest.mark.spec("2026-07-28/basic/transports/streamable-http#backward-compatibility-1")
@pytest.mark.parametrize("code", [-32020, -32021, -32022])
@pytest.mark.parametrize("id", [1, None])
async def test_over_http_a_400_with_a_modern_error_is_of_a_modern_server_and_no_handshake_is_tried(
    code: int, id: JSON
) -> None:
    async with scripted() as site:
        body = frame({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "look here"}})
        site.on("server/discover", status(400, body))
        with pytest.raises(UnsupportedRevision if code == -32022 else RemoteError):
            await Client(site.url, timeout=PATIENCE).connect()
        assert site.keys == ["server/discover"]


async def test_over_http_silence_is_followed_by_the_handshake_and_the_question_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(opening, "PROBE_SECONDS", 0.02)
    async with scripted() as site:
        site.on("server/discover", events(b": wait\n\n", hold=True))
        async with Client(site.url, timeout=PATIENCE) as client:
            assert client.revision.era == "legacy"
            await eventually(lambda: site.under_way == 0)
            await client.ping()
        assert "notifications/cancelled" not in site.keys  # closing the response was the cancellation


async def test_over_http_a_modern_server_gets_no_session_no_listening_get_and_no_delete() -> None:
    async with scripted() as site:
        site.on("server/discover", *[respond_with(discovered())] * 2)
        async with Client(site.url, timeout=PATIENCE) as client:
            assert client.revision.era == "modern"
            await client.ping()
        assert site.keys == ["server/discover", "server/discover"]


@pytest.mark.spec("2026-07-28/basic/versioning#backward-compatibility-with-initialization-based-versions-2")
async def test_http_initialize_refused_by_a_modern_server_does_not_try_http_sse() -> None:
    async with scripted() as site:
        data: Object = {"supported": [MODERN], "requested": LATEST}
        told: Object = {"code": -32022, "message": "Unsupported protocol version", "data": data}
        site.on("initialize", status(400, frame({"jsonrpc": "2.0", "id": None, "error": told})))
        with pytest.raises(UnsupportedRevision, match=f"the server speaks {MODERN}"):
            await Client(site.url, revision=LATEST, timeout=PATIENCE).connect()
        assert site.keys == ["initialize"]
