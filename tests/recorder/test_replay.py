"""Replay: a client cannot tell the recorded server from the real one, and a changed server shows."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from mcp_ref import Client, RemoteError
from mcp_ref.basic.versioning import PROTOCOL_VERSION, SUBSCRIPTION_ID
from mcp_ref.check.recording import (
    MAX_CONTENT,
    Event,
    Frame,
    HttpBody,
    HttpRequest,
    HttpResponse,
    content,
    format_event,
    format_head,
)
from mcp_ref.check.recording import Head as RecordingHead
from mcp_ref.features.elicitation import ElicitResult
from mcp_ref.features.tools import CallToolResult
from mcp_ref.jsonrpc.messages import Object
from mcp_ref.lib.http.client import HttpClient
from mcp_ref.lib.http.message import Handler
from mcp_ref.lib.http.server import HttpServer, start_server
from mcp_ref.recorder.as_test import to_test
from mcp_ref.recorder.exchanges import Cassette, differences, messages_of, requests_of
from mcp_ref.recorder.proxy import record_http
from mcp_ref.recorder.regression import rerun as rerun_messages
from mcp_ref.recorder.replay import MAX_LINES, MAX_OPEN, Player, replay_http
from mcp_ref.recorder.tape import TapeOptions
from tests.forked_python import forked
from tests.recorder.recordings import events_of, quick_record_command
from tests.server_programs import Program, serving
from tests.settings import HOME, MODERN, ROOT

EVERYTHING = forked("-m", "mcp_ref", "run", "examples/everything.py")
REPLAY = forked("-m", "mcp_ref", "replay")


async def converse(server: list[str] | str, revision: str) -> list[object]:
    """Use a server, and return everything that it said."""
    said: list[object] = []

    async def answer(request: object) -> ElicitResult:
        said.append(getattr(request, "message", None))
        return ElicitResult("accept", {"response": "ada"})

    async with Client(
        server, revision=revision, elicitation=answer, on_log=lambda log: said.append(log.data), cwd=HOME
    ) as client:
        said.append([tool.name for tool in await client.list_tools()])
        for a in (1, 2):
            said.append(await client.call_tool("add", {"a": a, "b": 2}))
        said.append(await client.call_tool("test_tool_with_logging"))
        note = said.append
        said.append(await client.call_tool("test_tool_with_progress", on_progress=lambda *progress: note(progress)))
        said.append(await client.call_tool("test_elicitation", {"message": "Who?"}))
        said.append(await client.call_tool("test_error_handling"))
        said.append([resource.uri for resource in await client.list_resources()])
    return said


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", MODERN])
async def test_replay_over_stdio_is_the_recorded_server(tmp_path: Path, revision: str) -> None:
    path = tmp_path / "a.jsonl"
    real = await converse(quick_record_command(path, *EVERYTHING), revision)
    events_of(path)
    assert await converse([*REPLAY, str(path)], revision) == real


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
async def test_replay_over_http_is_the_server_recorded_over_http(tmp_path: Path, revision: str) -> None:
    path = tmp_path / "a.jsonl"
    with serving("examples/everything.py") as program:
        async with record_http(TapeOptions(str(path)), program.url, "127.0.0.1", 0) as url:
            real = await converse(url, revision)
    async with replaying(*REPLAY, str(path)) as url:
        assert await converse(url, revision) == real


@contextlib.asynccontextmanager
async def replaying(*words: str) -> AsyncIterator[str]:
    """Yield the URL of a replayed server over HTTP. It must find no mistake of the client."""
    with subprocess.Popen([*words, "--http"], cwd=HOME, stderr=subprocess.PIPE) as process:
        try:
            yield Program(process).line().rpartition(" ")[2].strip()
        finally:
            process.terminate()
            _, said = process.communicate(timeout=10)
        assert process.returncode == 0 and b"not recorded" not in said, said


async def test_replay_over_stdio_of_a_recording_over_http_sse_is_the_same_server(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with serving("examples/everything.py") as program:
        target = program.url.replace("/mcp", "/sse")
        async with record_http(TapeOptions(str(path)), target, "127.0.0.1", 0) as url:
            real = await converse(url, "2024-11-05")
    assert await converse([*REPLAY, str(path)], "2024-11-05") == real
    done = rerun(path, *EVERYTHING)
    assert (done.returncode, done.stdout) == (0, b""), done


def write_recording(path: Path, *messages: tuple[str, object]) -> None:
    events: list[Event] = []
    for number, (sender, message) in enumerate(messages):
        side = "client" if sender == "client" else "server"
        events.append(Frame(side, content(json.dumps(message).encode()), at=number / 10, connection=1))  # type: ignore[arg-type]
    lines = [format_head(RecordingHead("stdio")), *map(format_event, events)]
    path.write_bytes(b"\n".join(lines) + b"\n")


def call(id: int, name: str, token: object = None, **arguments: object) -> dict[str, object]:
    params: dict[str, object] = {"name": name, "arguments": arguments}
    params |= {"_meta": {"progressToken": token}} if token is not None else {}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


def result(id: int, **members: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": id, "result": members}


def replayed(path: Path, *messages: object) -> tuple[list[dict[str, object]], int, bytes]:
    """Send messages to the replayed server. Return its messages, its exit code and its standard error."""
    sent = b"".join(json.dumps(message).encode() + b"\n" for message in messages)
    done = subprocess.run([*REPLAY, str(path)], input=sent, capture_output=True, timeout=30, cwd=HOME, check=False)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert {message["jsonrpc"] for message in found} <= {"2.0"}
    return found, done.returncode, done.stderr


def test_replay_answers_equal_requests_in_order_and_repeats_the_last_answer(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_recording(path, ("client", call(1, "roll")), ("server", result(1, n=4)),
                    ("client", call(2, "roll")), ("server", result(2, n=6)))  # fmt: skip
    found, status, _ = replayed(path, call(7, "roll"), call(8, "roll"), call(9, "roll"))
    assert (found, status) == ([result(7, n=4), result(8, n=6), result(9, n=6)], 0)


LARGE = "x" * (MAX_CONTENT + 1)


@pytest.mark.parametrize(
    "large",
    [result(2, text=LARGE), {"result": {"text": LARGE}, "jsonrpc": "2.0", "id": 2},
     {"jsonrpc": "2.0", "id": 2, "error": {"code": 1, "message": LARGE}}],
    ids=["id first", "id last", "error"],
)  # fmt: skip
def test_replay_answers_with_an_error_if_the_recording_has_only_the_start_of_the_response(
    large: object, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    progress = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": "a", "progress": 1}}
    write_recording(path, ("client", call(1, "sleep")), ("server", progress | {"params": {"text": LARGE}}),
                    ("server", result(1, n=1)), ("client", call(2, "export", "a")), ("server", progress),
                    ("server", large))  # fmt: skip
    found, status, _ = replayed(path, call(7, "sleep"), call(8, "export", "a"))
    assert (found[0], found[1], status, len(found)) == (result(7, n=1), progress, 0, 3)
    error = cast(Any, found[2]["error"])
    assert found[2]["id"] == 8 and error["code"] == -32603
    assert "the recording has only the start of this response" in error["message"]


def test_response_of_which_only_the_start_was_recorded_is_neither_compared_nor_asserted(tmp_path: Path) -> None:
    path, other = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    write_recording(path, ("client", call(1, "export")), ("server", result(1, text=LARGE)))
    write_recording(other, ("client", call(1, "export")), ("server", result(1, text="another")))
    done = rerun(path, *REPLAY, str(other))
    assert (done.returncode, done.stdout) == (0, b""), done
    cassette = Cassette(events_of(path))
    assert "export" not in to_test("a.jsonl", RecordingHead("stdio"), "", cassette.requests)


async def test_replay_over_http_ends_the_stream_of_a_response_of_which_only_the_start_was_recorded() -> None:
    asked = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    both = [Frame("client", content(json.dumps(asked).encode())),
            Frame("server", content(json.dumps(result(1, text=LARGE)).encode()))]  # fmt: skip
    async with replay_http(Player(Cassette(both)), "127.0.0.1", 0) as url:
        http = HttpClient()
        async with http.request("POST", url, {}, json.dumps(asked).encode()) as response:
            assert b"only the start" in await response.read(10_000)
        await http.close()


def test_replay_over_stdio_answers_more_lines_than_it_keeps(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_recording(path, ("client", call(1, "roll")), ("server", result(1, n=4)))
    found, _, _ = replayed(path, *(call(id, "roll") for id in range(3 * MAX_LINES)))
    assert [each["id"] for each in found] == [*range(3 * MAX_LINES)]


def test_replay_refuses_more_requests_than_it_keeps(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_recording(path, ("client", call(1, "sleep")))  # it had no response
    found, _, _ = replayed(path, *(call(id, "sleep") for id in range(MAX_OPEN + 1)))
    assert [each["id"] for each in found] == [MAX_OPEN] and "no response yet" in str(found[0]["error"])


def test_replay_of_a_request_that_was_not_recorded_names_the_nearest_one(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_recording(path, ("client", call(1, "add", a=1)), ("server", result(1, n=4)),
                    ("client", call(2, "subtract", a=1)), ("server", result(2, n=6)))  # fmt: skip
    found, status, said = replayed(path, call(5, "add", a=2))
    nearest = 'the nearest recorded request is: tools/call {"arguments": {"a": 1}'
    assert nearest in cast(Any, found[0]["error"])["message"]
    assert status == 1 and b"not recorded: tools/call" in said


def test_replay_gives_progress_the_new_token_and_leaves_it_out_for_a_client_without_one(tmp_path: Path) -> None:
    progress = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": "old", "progress": 1}}
    data = {"progressToken": "old"}  # which is not the token of a progress notification
    log = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": data}}
    path = tmp_path / "a.jsonl"
    write_recording(
        path, ("client", call(1, "slow", "old")), ("server", progress), ("server", log), ("server", result(1))
    )
    found, _, _ = replayed(path, call(2, "slow", 77))
    progress["params"] = {"progressToken": 77, "progress": 1}
    assert found == [progress, log, result(2)]
    assert replayed(path, call(3, "slow"))[0] == [log, result(3)]


def test_replay_gives_a_subscription_the_new_id_and_leaves_the_id_of_another_one(tmp_path: Path) -> None:
    def changed(id: int) -> dict[str, object]:
        meta = {"_meta": {SUBSCRIPTION_ID: id}}
        return {"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": meta}

    path = tmp_path / "a.jsonl"
    write_recording(path, ("client", call(1, "a")), *(("server", changed(id)) for id in (1, 12)), ("server", result(1)))
    assert replayed(path, call(7, "a"))[0] == [changed(7), changed(12), result(7)]


def test_replay_with_a_speed_keeps_the_pauses(tmp_path: Path) -> None:
    log = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "old"}}
    path = tmp_path / "a.jsonl"
    write_recording(path, ("client", call(1, "slow")), *[("server", log)] * 9, ("server", result(1)))  # 1 s
    with subprocess.Popen(
        [*REPLAY, str(path), "--speed", "2"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=HOME
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(call(2, "slow")).encode() + b"\n")
        process.stdin.flush()
        process.stdout.readline()
        begun = time.monotonic()
        assert [process.stdout.readline() for _ in range(9)][-1].startswith(b'{"jsonrpc": "2.0", "id": 2')
        assert time.monotonic() - begun > 0.3
        process.stdin.close()


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_replay_ends_quietly_at_ctrl_c_and_when_the_client_has_left(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_recording(path, ("client", call(1, "a")), ("server", result(1)))
    request = json.dumps(call(2, "a")).encode() + b"\n"
    for is_left in (False, True):
        with subprocess.Popen([sys.executable, "-m", "mcp_ref", "replay", str(path)], cwd=ROOT, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:  # fmt: skip
            assert process.stdin is not None and process.stdout is not None and process.stderr is not None
            process.stdin.write(request)
            process.stdin.flush()
            assert b'"id": 2' in process.stdout.readline()
            if is_left:
                process.stdout.close()
                process.stdin.write(request)
                process.stdin.close()
            else:
                process.send_signal(signal.SIGINT)
            assert (process.stderr.read(), process.wait(timeout=20)) == (b"", 0 if is_left else 130)


def test_replay_finds_the_answer_to_a_request_with_a_secret(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_recording(path, ("client", call(1, "login", password="***")), ("server", result(1, n=4)))
    assert replayed(path, call(2, "login", password="hunter2"))[0] == [result(2, n=4)]


@pytest.mark.parametrize("recorded", [MODERN, "2025-11-25"])
def test_replay_of_another_revision_is_refused_so_that_clients_can_choose(tmp_path: Path, recorded: str) -> None:
    path, opening = tmp_path / "a.jsonl", {"jsonrpc": "2.0", "id": 1, "method": "initialize"}
    asked = call(1, "roll")
    asked["params"] = {"name": "roll", "_meta": {PROTOCOL_VERSION: recorded}}
    if recorded != MODERN:
        asked = {**opening, "params": {"protocolVersion": recorded}}
    write_recording(path, ("client", asked), ("server", result(1, protocolVersion=recorded)))
    params = {"_meta": {PROTOCOL_VERSION: "2030-01-01"}}
    wrong = {"jsonrpc": "2.0", "id": 7, "method": "server/discover", "params": params}
    found, status, _ = replayed(path, wrong)
    hint = f"the recording is of revision {recorded}; `replay --revision` converts it to another one"
    error: object = {"code": -32601, "message": f"server/discover is not in the recording; {hint}"}
    if recorded == MODERN:
        error = {"code": -32022, "message": hint, "data": {"supported": [MODERN], "requested": "2030-01-01"}}
    assert (found, status) == ([{"jsonrpc": "2.0", "id": 7, "error": error}], 0)


@pytest.mark.parametrize(
    ("method", "origin", "status", "allow"),
    [
        ("GET", None, 405, "POST, DELETE"),
        ("DELETE", None, 200, None),
        ("POST", None, 202, None),
        ("POST", "http://localhost:1", 202, None),
        ("POST", "https://a.example", 403, None),
        ("POST", "x", 403, None),
    ],
)
async def test_replay_over_http_has_no_streams_and_refuses_web_pages(
    method: str, origin: str | None, status: int, allow: str | None
) -> None:
    notification, headers = b'{"jsonrpc": "2.0", "method": "notifications/x"}', {"Origin": origin} if origin else {}
    async with (
        replay_http(Player(Cassette([])), "127.0.0.1", 0) as url,
        HttpClient() as http,
        http.request(method, url, headers, notification) as response,
    ):
        assert (response.status, response.headers.get("allow")) == (status, allow)


async def test_replay_at_an_ipv6_address_has_it_in_brackets_in_the_url(monkeypatch: pytest.MonkeyPatch) -> None:
    async def start(handler: Handler, host: str, port: int) -> HttpServer:  # this machine may lack IPv6
        return await start_server(handler, "127.0.0.1", port)

    monkeypatch.setattr("mcp_ref.recorder.replay.start_server", start)
    async with replay_http(Player(Cassette([])), "::1", 0) as url:
        assert url.startswith("http://[::1]:")


@pytest.mark.parametrize(("recorded", "other"), [("2025-06-18", MODERN), (MODERN, "2025-06-18")])
@pytest.mark.parametrize("http", [False, True])
async def test_replay_in_another_revision_is_the_recorded_server_behind_a_bridge(
    tmp_path: Path, recorded: str, other: str, http: bool
) -> None:
    path = tmp_path / "a.jsonl"
    real = await converse(quick_record_command(path, *EVERYTHING), recorded)
    events_of(path)
    words = [*REPLAY, str(path), "--revision", other]
    if http:
        async with replaying(*words) as url:
            found = await converse(url, other)
    else:
        found = await converse(words, other)
    assert [texts_of(said) for said in found] == [texts_of(said) for said in real]


def texts_of(said: object) -> object:
    """Return the part of a result that all revisions have."""
    return [getattr(block, "text", None) for block in said.content] if isinstance(said, CallToolResult) else said


@pytest.mark.parametrize("http", [False, True])
async def test_replay_in_another_revision_counts_only_the_requests_of_the_client_as_not_recorded(
    tmp_path: Path, http: bool
) -> None:
    path = tmp_path / "a.jsonl"
    write_recording(
        path,
        ("client", {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}),
        ("server", result(1, protocolVersion="2025-06-18", capabilities={"tools": {}, "logging": {}},
                          serverInfo={"name": "a", "version": "1"})),
        ("client", call(2, "roll")), ("server", result(2, content=[{"type": "text", "text": "4"}])),
    )  # fmt: skip
    words = [*REPLAY, str(path), "--revision", MODERN]
    if not http:
        async with Client(words, cwd=HOME) as client:
            await client.set_logging_level("debug")
            assert (await client.call_tool("roll")).text == "4"
        return
    async with replaying(*words) as url, Client(url, revision=MODERN) as client:
        assert (await client.call_tool("roll")).text == "4"
    with pytest.raises(AssertionError, match="not recorded: tools/call"):
        async with replaying(*words) as url, Client(url, revision=MODERN) as client:
            with pytest.raises(RemoteError, match="the nearest recorded request is: tools/call"):
                await client.call_tool("throw")


def rerun(path: Path, *server: str) -> subprocess.CompletedProcess[bytes]:
    words = [*REPLAY, str(path), "--client", "--", *server]
    return subprocess.run(words, capture_output=True, timeout=60, cwd=HOME, check=False)


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
async def test_replay_client_finds_no_difference_in_the_same_server_and_each_in_a_changed_one(
    tmp_path: Path, revision: str
) -> None:
    path = tmp_path / "a.jsonl"
    await converse(quick_record_command(path, *EVERYTHING), revision)
    events_of(path)
    done = rerun(path, *EVERYTHING)
    assert (done.returncode, done.stdout) == (0, b""), done
    changed = path.read_text().replace('\\"text\\":\\"3\\"}', '\\"text\\":\\"5\\"}')
    assert changed != path.read_text()
    path.write_text(changed)
    done = rerun(path, *EVERYTHING)
    assert done.returncode == 1 and done.stdout.count(b'result.content[0].text: "5" -> "3"') == 1, done


@pytest.mark.parametrize("data", [{}, {"data": None}, {"data": {"a": None}}])
def test_replay_client_finds_no_difference_in_the_same_error(tmp_path: Path, data: Object) -> None:
    path = tmp_path / "a.jsonl"
    error = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "no", **data}}
    write_recording(path, ("client", call(1, "add")), ("server", error))
    done = rerun(path, *REPLAY, str(path))
    assert (done.returncode, done.stdout) == (0, b""), done
    assert b"1 request, 0 with a different response" in done.stderr


async def test_rerun_ends_the_server(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_recording(path, ("client", call(1, "pid")), ("server", result(1, pid=0)))
    says_its_pid = (
        "import json, os; input(); result = {'pid': os.getpid()}\n"
        "print(json.dumps({'jsonrpc': '2.0', 'id': 1, 'result': result}), flush=True); input()"
    )
    found = await rerun_messages(list(messages_of(events_of(path))), [sys.executable, "-c", says_its_pid])
    pid = int(found[0].lines[0].removeprefix("result.pid: 0 -> "))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_replay_client_with_a_url_that_cannot_be_reached_ends_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_recording(path, ("client", call(1, "add")), ("server", result(1)))
    done = rerun(path, "http://127.0.0.1:1/")
    assert done.returncode == 3 and done.stderr.startswith(b"http://127.0.0.1:1/: 127.0.0.1:1 cannot be reached"), done


def test_replay_client_uses_the_cursor_of_the_new_server(tmp_path: Path) -> None:
    def listing(id: int, cursor: str | None) -> dict[str, object]:
        return {"jsonrpc": "2.0", "id": id, "method": "tools/list", "params": {"cursor": cursor} if cursor else {}}

    recorded, changed = tmp_path / "old.jsonl", tmp_path / "new.jsonl"
    for path, cursor in ((recorded, "c-old"), (changed, "c-new")):
        write_recording(path, ("client", listing(1, None)), ("server", result(1, tools=[], nextCursor=cursor)),
                        ("client", listing(2, cursor)), ("server", result(2, tools=[])))  # fmt: skip
    done = rerun(recorded, *REPLAY, str(changed))
    assert (done.returncode, done.stdout) == (0, b""), done


def test_requests_of_http_belong_to_their_stream() -> None:
    def post(number: int, name: str) -> list[Event]:
        request = HttpRequest(number, "POST", "/mcp", (), content(json.dumps(call(1, name)).encode()))
        return [request, HttpResponse(number, 200, ())]

    bodies = [HttpBody(n, content(json.dumps(result(1, n=n)).encode())) for n in (2, 1)]
    found = requests_of(messages_of([*post(1, "a"), *post(2, "b"), *bodies]))
    assert [each.response.value["result"] if each.response else None for each in found] == [{"n": 1}, {"n": 2}]


def test_differences_name_each_place() -> None:
    one: Object = {"name": "one", "a": 1}
    old: Object = {"a": [1, {"b": True}], "_meta": 1, "gone": 0, "b": [1, 2], "tools": [one, {"name": "two"}]}
    new: Object = {"a": [1, {"b": 1}], "_meta": 2, "more": "é", "b": [1], "tools": [{"name": "new"}, {**one, "a": 2}]}
    assert list(differences(old, new)) == [
        "a[1].b: true -> 1", "gone: 0 -> (missing)", "b[1]: 2 -> (missing)", "tools[one].a: 1 -> 2",
        'tools[two]: {"name": "two"} -> (missing)', 'tools[new]: (missing) -> {"name": "new"}',
        'more: (missing) -> "é"',
    ]  # fmt: skip
    assert list(differences([one, {"name": "b"}], [{"name": "b"}, one], "x")) == ["x: the same items in another order"]
    assert list(differences(["(missing)"], [], "x")) == ['x[0]: "(missing)" -> (missing)']
