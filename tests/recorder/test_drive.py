"""The gentle drive: a server is used in each of its revisions, and judged by its messages."""

from __future__ import annotations

import dataclasses
import functools
import json
import logging
import socket
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest

from mcp_ref import Client, Server, ToolAnnotations
from mcp_ref.__main__ import main
from mcp_ref.check.recording import Head, read_events
from mcp_ref.cli.drive import judge, show_report
from mcp_ref.features.tools import Tool
from mcp_ref.jsonrpc.errors import ConnectionClosed, RequestTimeout
from mcp_ref.jsonrpc.messages import JSON, Object
from mcp_ref.recorder import drive, wrong_headers
from mcp_ref.recorder.as_test import to_test
from mcp_ref.recorder.drive import DriveOptions, Report, Visit, advice_on
from mcp_ref.recorder.exchanges import Cassette
from mcp_ref.recorder.wrong_headers import Trial
from mcp_ref.revisions import R2024_11_05, R2025_03_26, REVISIONS
from tests.check.conversations import Messages, cacheable, frames, from_client, from_server, handshake, stateless
from tests.cli.exit_codes import exit_code
from tests.forked_python import forked, quick_python
from tests.recorder.recordings import events_of, quick_record_command
from tests.scripted_http_server import scripted
from tests.server_programs import serving
from tests.settings import HOME, MODERN

EVERYTHING = forked("-m", "mcp_ref", "run", "examples/everything.py")

WRONG = [
    "unknown method (-32601)", "unknown tool (-32602)", "wrong cursor (-32602)", "unknown resource (-32002)",
    "unknown prompt (-32602)",
]  # fmt: skip
"""The wrong requests of a drive, and how a server of 2025-11-25 refuses them."""

BROKEN = """
import json, sys
print("starting ...", flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message: continue
    method, answer = message["method"], {}
    if method == "initialize":
        if message["params"]["protocolVersion"] != "2025-06-18":
            answer = {"error": {"code": -32602, "message": "no"}}
        answer = answer or {"result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                                       "serverInfo": {"name": "broken", "version": "1"}}}
    elif method == "tools/list":
        answer = {"result": {"tools": [{"name": "a b", "inputSchema": {"type": "object", "properties": {"x": {}}}},
                                       {"name": "c", "annotations": {"readOnlyHint": True}, "inputSchema": {
                                        "type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}}
                                       ]}}
    elif method == "tools/call":
        answer = {"result": {"content": [{"type": "text", "text": 7}]}} if message["params"]["name"] == "a b" else {
                  "result": {"content": []}}
    elif method == "server/discover" or "/" in method:
        answer = {"error": {"code": -32601, "message": "no"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **(answer or {"result": {}})}), flush=True)
"""


def check(*words: str) -> subprocess.CompletedProcess[str]:
    command = forked("-m", "mcp_ref", "check", *words)
    return subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=HOME, check=False)


def test_check_of_a_correct_server_over_stdio_finds_nothing_in_any_revision() -> None:
    done = check("--call", 'add={"a": 1, "b": 2}', "--", *EVERYTHING)
    assert done.returncode == 0, done
    used = "3 resources (3 read), 1 template, 5 prompts (3 got)\n            refuses"
    refused = ", ".join(WRONG)
    first, second = (f"{tools}, {used} {refused}\n" for tools in ("40 tools (1 called)", "40 tools"))
    beginning = f"2026-07-28  {first}2025-11-25  {second}".replace("-32002", "-32602", 1)
    assert done.stdout.startswith(f"{beginning}2025-06-18  the same\n")
    assert "everything 1.0: 0 errors, 0 warnings in" in done.stdout


def test_check_of_a_correct_server_over_http_sends_wrong_headers_too() -> None:
    with serving("examples/everything.py") as program:
        done = check("--json", program.url)
    assert done.returncode == 0, done
    report = json.loads(done.stdout)
    visits = [(visit["revision"], visit["server"], visit["worked"][0], visit["accepted"]) for visit in report["visits"]]
    assert visits == [(revision.name, "everything 1.0", "40 tools", []) for revision in reversed(REVISIONS)]
    forged = ["a foreign Origin (403)", "a foreign Host (403)"]
    assert [visit["refused"] for visit in report["visits"]] == [
        [*WRONG[:3], "unknown resource (-32602)", WRONG[4], *forged, "a request without MCP-Protocol-Version (400)"],
        [*WRONG, *forged, "an unknown session (404)"],
        *[WRONG] * 3,
        [*WRONG[:2], "unknown resource (-32001)", WRONG[4]],  # this revision has no pages
    ]
    assert [finding for finding in report["findings"] if finding["level"] != "advice"] == []


@pytest.mark.parametrize(
    ("status", "place"),
    [(0, "notes"), (200, "accepted"), (202, "accepted"), (307, "notes"), (400, "refused"), (499, "refused"),
     (500, "notes")],
)  # fmt: skip
def test_drive_takes_a_status_of_4xx_for_a_refusal_and_one_of_2xx_for_a_fault(status: int, place: str) -> None:
    visit = Visit(MODERN)
    drive._note_trial(visit, Trial("x", status, must_be_refused=True))
    shown = {"notes": "x: status {}", "accepted": "x: status {}, so the server did not refuse it", "refused": "x ({})"}
    assert [visit.notes, visit.accepted, visit.refused] == [
        [text.format(status)] if name == place else [] for name, text in shown.items()
    ]


async def test_drive_of_a_server_that_speaks_no_revision_quotes_its_refusal_of_the_latest() -> None:
    source = """import json
for line in sys.stdin:
    message = json.loads(line)
    error = {"code": -32602, "message": "not " + message["params"]["protocolVersion"]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)"""
    with pytest.raises(ConnectionClosed, match=r"^the server speaks none of the revisions: .*not 2025-03-26"):
        await drive.drive(quick_python(source), DriveOptions(revisions=[R2024_11_05, R2025_03_26]))


def test_check_of_a_broken_server_shows_its_faults_with_their_proof(tmp_path: Path) -> None:
    program, junit = tmp_path / "server.py", tmp_path / "junit.xml"
    program.write_text(BROKEN)
    done = check("--call", "a b={}", "--junit", str(junit), "--", sys.executable, str(program))
    assert done.returncode == 1, done
    assert "ERROR: accepts unknown tool" in done.stdout and "ERROR: accepts wrong argument type" in done.stdout
    assert "starting ..." in done.stdout  # the line that is not a message, as a proof
    assert "2026-07-28  not spoken: no (error -32601)\n2025-11-25  not spoken" in done.stdout  # without any advice
    assert "a b: hosts refuse names" in done.stdout and "a b: no description of x" in done.stdout
    suite = ElementTree.parse(junit).getroot()
    assert int(suite.attrib["failures"]) >= 2


def test_check_calls_a_named_tool_once_even_if_it_ends_the_server(tmp_path: Path) -> None:
    program, calls = tmp_path / "server.py", tmp_path / "calls"
    stops = f'if message.get("params", {{}}).get("name") == "a b": open({str(calls)!r}, "a").write("x"); sys.exit()'
    broken = BROKEN.replace('    if "id" not', f'    {stops}\n    if "id" not')
    program.write_text(broken.replace('"2025-06-18"', 'message["params"]["protocolVersion"]'))
    check("--call", "a b", "--", sys.executable, str(program))
    assert calls.read_text() == "x"


def test_check_of_a_server_that_cannot_start_ends_with_exit_code_3() -> None:
    done = check("--", "no-such-program-here")
    assert done.returncode == 3 and "no-such-program-here" in done.stderr


def test_check_of_a_server_silences_only_the_logger_of_this_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_ref.cli.drive.__package__", "host.vendor.mcp_ref.cli")
    assert main(["check", "--", "no-such-program-here"]) == 3
    levels = [logging.getLogger(name).level for name in ("host", "host.vendor", "host.vendor.mcp_ref")]
    assert levels == [logging.NOTSET, logging.NOTSET, logging.ERROR]


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ((), "name a recording, or a server"),
        (("--call", "a=[]", "--", "cat"), "write the arguments as a JSON object"),
        (("--call", "a={", "--", "cat"), "the arguments are not JSON"),
        (("--call", "a=" + "[" * 9999, "--", "cat"),
         "the arguments are not JSON: arrays and objects are nested deeper than 200 levels"),
        (("--as-test", "none"), "cannot read none"),
        (("--as-test",), "name its file"),
        (("README.md", "--", "cat"), "name either"),
        (("README.md",), "cannot read README.md: not a recording"),
        (("examples/weather.py",), "; to check a server, write two dashes before its command"),
        (("/dev/null", "--revision", "x"), "not a recording"),
        (("/dev/null", "--timeout", "5"), "--timeout works only with a server: its URL, or two dashes and its command"),
        (("--sarif", "a", "--", "cat"), "--sarif works only with a recording"),
        (("--header", "a: b", "--", "cat"), "--header works only with the URL of a server"),
    ],
)  # fmt: skip
def test_check_with_a_wrong_command_line_ends_with_exit_code_2(
    words: tuple[str, ...], advice: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(HOME)
    assert exit_code("check", *words) == 2
    assert advice in capsys.readouterr().err


def test_check_of_an_unreachable_url_says_why_as_without_a_recorder() -> None:
    with socket.socket() as silent, serving("mcp_ref.demo.server") as program:
        silent.bind(("127.0.0.1", 0))  # and does not listen
        closed, wrong_path = f"http://127.0.0.1:{silent.getsockname()[1]}/mcp", program.url.replace("/mcp", "/mpc")
        for url, reason in ((closed, "no program listens there"), (wrong_path, "the MCP endpoint is /mcp")):
            done = check(url)
            assert done.returncode == 3 and f"{url}: " in done.stderr and reason in done.stderr


async def test_drive_calls_reads_and_gets_at_most_as_many_as_its_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAX_CALLED", "MAX_READ", "MAX_GOT"):
        monkeypatch.setattr(drive, name, 2)
    server, used = Server("s"), list[str]()
    for number in range(4):

        def use(name: str = f"n{number}") -> str:
            used.append(name)
            return "text"

        server.tool(f"n{number}", annotations=ToolAnnotations(read_only_hint=True))(use)
        server.prompt(f"n{number}")(functools.partial(use, f"n{number}"))
        server.resource(f"n://{number}")(functools.partial(use, f"n{number}"))
    visit = Visit(MODERN)
    async with Client(server, revision=MODERN) as client:
        await drive._use_tools(client, visit, {"n3": {}, "none": {}})
        await drive._use_resources(client, visit)
        await drive._use_prompts(client, visit)
    assert used == ["n0", "n1", "n3", "n0", "n1", "n0", "n1"]
    counts = ("called: 1 tool", "read: 2 resources", "got: 2 prompts")
    limits = [f"not {count} (the limit is 2)" for count in counts]
    assert visit.notes == ["call none: there is no such tool", *limits]
    assert visit.worked == ["4 tools (3 called)", "4 resources (2 read)", "4 prompts (2 got)"]


async def test_note_of_a_request_that_failed_names_its_method_once() -> None:
    async def request() -> None:
        raise RequestTimeout("tools/list: no response within 10.0 seconds")

    visit = Visit(MODERN)
    await drive._try(visit, "tools/list", request())
    await drive._try(visit, "tools/list after a cancelled request", request())
    assert visit.notes == [
        "tools/list: no response within 10.0 seconds",
        "tools/list after a cancelled request: no response within 10.0 seconds",
    ]


@pytest.mark.parametrize(("target", "path", "query"), [("", "/", ""), ("/mcp?a=b", "/mcp", "a=b")])
async def test_drive_sends_wrong_headers_also_without_a_path_and_with_a_query(
    target: str, path: str, query: str
) -> None:
    async with scripted() as site:
        url = site.url.removesuffix("/mcp") + target
        assert await wrong_headers._post(url, {"Host": "a"}, b'{"id": 1, "method": "ping"}', 10.0) == 200
    assert [(request.path, request.query) for _, request in site.asked] == [(path, query)]


def test_advice_names_definitions_that_models_misread() -> None:
    schema: Object = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"description": "A city."}}}
    tools = [Tool("plain", schema, description="Add."), Tool("odd name", {"type": "object"}, description="x")]
    assert advice_on(tools) == [
        "plain: no description of a",
        "odd name: hosts refuse names other than 1 to 64 letters, digits, _ and -",
    ]
    assert advice_on([Tool(f"t{n}", {"type": "object"}, description="x") for n in range(41)])[0].startswith("41 tools")


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
async def test_as_test_writes_a_module_that_passes_with_the_recorded_server(tmp_path: Path, revision: str) -> None:
    path = tmp_path / "talk.jsonl"
    async with Client(quick_record_command(path, *EVERYTHING), revision=revision, cwd=HOME) as client:
        await client.list_tools()
        await client.call_tool("add", {"a": 1, "b": 2})
        await client.call_tool("test_multiple_content_types")
        await client.read_resource("test://static-text")
        await client.get_prompt("test_simple_prompt")
        with pytest.raises(Exception, match="nope"):
            await client.call_tool("nope")
    events_of(path)
    done = check("--as-test", str(path))
    assert done.returncode == 0 and "assert result.text == '3'" in done.stdout
    assert done.stderr == "the module needs pytest, and the server that its line SERVER names\n"
    source = tmp_path / "test_talk.py"
    source.write_text(done.stdout)
    words = forked("-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", str(source))
    passed = subprocess.run(words, cwd=HOME, capture_output=True, text=True, timeout=60, check=False)
    assert passed.returncode == 0, passed.stdout


@pytest.mark.attack("recording-becomes-code")
def test_as_test_of_a_hostile_recording_contains_its_texts_only_as_literals() -> None:
    bomb = '"""\'\'\'\r\n\x0c\u2028\\\nraise SystemExit("owned")\n# \U0001f4a3'
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": bomb, "arguments": {bomb: bomb}}}
    results: list[Object] = [
        {"result": {"content": [{"type": "text", "text": bomb}], "structuredContent": {bomb: bomb}}},
        {"result": {"content": [{"type": bomb}], "isError": bomb}},
        {"error": {"code": bomb, "message": bomb}},
    ]
    for outcome in results:
        answered = {"jsonrpc": "2.0", "id": 1, **outcome}
        frames = [{"from": "client", "frame": json.dumps(call)}, {"from": "server", "frame": json.dumps(answered)}]
        cassette = Cassette(read_events(json.dumps(frame).encode() for frame in frames))
        source = to_test(bomb, Head("stdio", bomb, (bomb,)), bomb, cassette.requests)
        names: dict[str, object] = {}
        exec(compile(source, "made", "exec"), names)  # only definitions: the hostile code would end the program
        assert names["SERVER"] == [bomb] and [name for name in names if name.startswith("test_")]


def written(*exchanges: tuple[str, Object, Object], name: str = "a.jsonl", head: Head = Head("stdio")) -> str:  # noqa: B008
    """Return the module for requests with these methods and params, and their results or errors."""
    frames: list[Object] = []
    for method, params, outcome in exchanges:
        asked: Object = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        frames += [{"from": "client", "frame": json.dumps(asked)}]
        frames += [{"from": "server", "frame": json.dumps({"jsonrpc": "2.0", "id": 1, **outcome})}] if outcome else []
    cassette = Cassette(read_events(json.dumps(frame).encode() for frame in frames))
    return to_test(name, head, MODERN, cassette.requests)


def test_as_test_asserts_the_names_of_all_pages_once_also_if_their_cursors_lead_back() -> None:
    pages: list[Object] = [{"result": {"tools": [{"name": f"on {cursor}"}], f"more on {cursor}": [], "nextCursor": "c"}}
                           for cursor in (None, "c")]  # fmt: skip
    source = written(("tools/list", {}, pages[0]), ("tools/list", {"cursor": "c"}, pages[1]))
    assert "assert [each.name for each in found] == ['on None', 'on c']" in source
    lost: Object = {"result": {"tools": [{"name": "a"}], "nextCursor": "lost"}}
    assert "assert [each.name for each in found] == ['a']" in written(("tools/list", {}, lost))


def test_as_test_writes_a_statement_for_each_request_and_a_check_of_its_result() -> None:
    text: list[JSON] = [{"type": "text", "text": "3"}]
    two: JSON = [{"uri": "a:b", "text": "x"}, {"uri": "a:c", "blob": "eA=="}]
    source = written(
        ("tools/call", {"name": "add", "arguments": {"a": 1, "token": "***"}}, {"result": {"content": text}}),
        ("tools/call", {"name": "b"}, {"result": {"content": [*text, *text], "isError": True, "structuredContent": 5}}),
        ("tools/call", {"name": "asks"}, {"result": {"resultType": "input_required"}}),
        ("tools/call", {"name": "done"}, {"result": {"resultType": "complete", "content": []}}),
        ("tools/call", {"name": "none"}, {"error": {"code": -32602, "message": "no"}}),
        ("tools/call", {"name": "lost"}, {}),
        ("resources/read", {"uri": "a:b"}, {"result": {"contents": two}}),
        ("resources/templates/list", {}, {"result": {"resourceTemplates": [{"uriTemplate": "a:{b}"}]}}),
        ("prompts/get", {"name": "p", "arguments": {"a": "b"}}, {"result": {"messages": [{"role": "user"}]}}),
        ("ping", {}, {"result": {}}),
        ("x/y", {}, {"result": {}}),
        name="_My talk.jsonl", head=Head("http", "2026", url="http://a/"),
    )  # fmt: skip
    assert (
        source
        == f'''"""The conversation in _My talk.jsonl, recorded at 2026, as a test of the server."""

from __future__ import annotations

import asyncio

import pytest

from mcp_ref import Client, RemoteError

SERVER = 'http://a/'


def test_my_talk() -> None:
    async def conversation() -> None:
        async with Client(SERVER, revision='{MODERN}') as client:
            # put the secret in place of ***
            result = await client.call_tool('add', {{'a': 1, 'token': '***'}})
            assert result.text == '3'

            result = await client.call_tool('b')
            assert result.is_error
            assert [block.type for block in result.content] == ['text', 'text']
            assert result.structured_content == 5

            result = await client.call_tool('done')
            assert [block.type for block in result.content] == []

            with pytest.raises(RemoteError) as refused:  # no
                await client.call_tool('none')
            assert refused.value.code == -32602

            found = (await client.read_resource('a:b')).contents
            assert [each.uri for each in found] == ['a:b', 'a:c']
            assert [getattr(each, "text", None) for each in found] == ['x', None]

            found = await client.list_resource_templates()
            assert [each.uri_template for each in found] == ['a:{{b}}']

            prompt = await client.get_prompt('p', {{'a': 'b'}})
            assert [message.role for message in prompt.messages] == ['user']

            await client.ping()

    asyncio.run(conversation())
'''
    )


def test_as_test_of_a_recording_without_requests_is_a_ping_of_an_unknown_server() -> None:
    source = written(name="-.jsonl")
    assert source.startswith('"""The conversation in -.jsonl, recorded at an unknown time, as a test of the server."""')
    assert "\n\nfrom mcp_ref import Client\n\n" in source and "import pytest" not in source
    assert '\nSERVER = ["python3", "server.py"]  # the recording does not name it\n' in source
    assert "\ndef test_conversation() -> None:\n" in source and "            await client.ping()\n" in source


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ([], DriveOptions({}, 10.0, {}, REVISIONS)),
        (["--timeout", "3", "--header", "A: b", "--revision", MODERN, "--call", "t", "--call", 'u={"a": 1}'],
         DriveOptions({"t": {}, "u": {"a": 1}}, 3.0, {"A": "b"}, [REVISIONS[-1]])),
    ],
)  # fmt: skip
def test_check_of_a_server_gives_the_drive_its_options(
    words: list[str], options: DriveOptions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def wait(server: str, given: DriveOptions) -> Report:
        assert (server, given) == ("http://a/", options)
        raise RequestTimeout("no response")

    monkeypatch.setattr("mcp_ref.cli.drive.drive", wait)
    monkeypatch.setattr("mcp_ref.cli.drive.__package__", "host.vendor.mcp_ref.cli")  # whose logger is silenced
    assert main(["check", "http://a/", *words]) == 3
    assert capsys.readouterr().err == "no response\n"


ADVISED = [
    stateless(0, "server/discover", capabilities={"roots": {}}),
    cacheable(0, supportedVersions=[MODERN], capabilities={"logging": {}}),
]


@pytest.mark.parametrize(
    ("accepted", "messages", "words", "status", "levels"),
    [
        ([], [], [], 0, []),
        (["x: the server did not refuse it"], [], [], 1, []),
        ([], [*handshake(), from_client(1, "ping"), from_server(1, result={"a": 1})], [], 1, ["MUST"]),
        ([], ADVISED, [], 0, []),
        ([], ADVISED, ["--advice"], 0, ["advice"]),
    ],
)
def test_check_of_a_server_exits_with_1_for_an_error_and_writes_what_worked(
    accepted: list[str], messages: Messages, words: list[str], status: int, levels: list[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    visit = Visit(MODERN, server="a 1", worked=["1 tool"], refused=["unknown tool (-32602)"], accepted=accepted)
    report = Report(Head("stdio", command=("a",)), [Visit("2025-11-25", "no"), visit], frames(messages), ["t: odd"])

    async def drive(server: list[str], options: DriveOptions) -> Report:
        return report

    monkeypatch.setattr("mcp_ref.cli.drive.drive", drive)
    monkeypatch.setattr("mcp_ref.cli.drive.__package__", "host.vendor.mcp_ref.cli")
    path = tmp_path / "junit.xml"
    assert main(["check", *words, "--json", "--junit", str(path), "--", "a"]) == status
    written = json.loads(capsys.readouterr().out)
    assert written["visits"] == [dataclasses.asdict(each) for each in report.visits]
    assert (written["definitions"], written["recording"], written["events"]) == (["t: odd"], "a 1", len(messages))
    assert [finding["level"] for finding in written["findings"]] == levels
    cases = [
        (case.get("classname"), case.get("name"), [each.tag for each in case])
        for case in ElementTree.parse(path).getroot()
    ]
    expected = [
        (MODERN, "1 tool", []),
        (MODERN, "refuses unknown tool (-32602)", []),
        *[(MODERN, "x", ["failure"])] * len(accepted),
    ]
    assert cases[: len(expected)] == expected


@pytest.mark.attack("terminal-escapes")
def test_check_report_has_a_paragraph_for_each_revision_and_one_line_for_each_text_of_the_server(
    capsys: pytest.CaptureFixture[str],
) -> None:
    used = Visit(
        MODERN, "", "a\n1", ["2 tools (1 called)", "1 prompt"], ["x (-32602)", "y (403)"], ["ping: no\n\na 1: 0"]
    )
    used.accepted = ["z: the server did not refuse it"]
    visits = [used, replace(used, revision="2025-11-25"), *[Visit("2025-06-18", "no\x1b[2J\nfake")] * 2,
              Visit("2024-11-05", server="a 1")]  # fmt: skip
    events = frames([*handshake(), from_client(1, "ping"), from_server(1, result={"a": 1})])
    report = Report(Head("stdio", command=("a",)), visits, events, misread_definitions=["t: odd", "u\nv: odd"])
    show_report(report, *judge(report))
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines[:14] == [
        "2026-07-28  2 tools (1 called), 1 prompt", "refuses x (-32602), y (403)",
        "ERROR: accepts z: the server did not refuse it", r"note: ping: no\u{a}\u{a}a 1: 0", "2025-11-25  the same",
        *[r"2025-06-18  not spoken: no\u{1b}[2J\u{a}fake"] * 2, "2024-11-05  connects, and offers nothing", "",
        "definitions that models or hosts misread:", "t: odd", r"u\u{a}v: odd", "",
        r"a\u{a}1: 1 error, 0 warnings in 5 events",
    ]  # fmt: skip
    assert lines[15] == "error: server: the result of ping has the member a"
    assert '{"jsonrpc": "2.0", "id": 1, "result": {"a": 1}}' in lines[16:]
