"""The command line: its output, its exit codes."""

from __future__ import annotations

import io
import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_ref.__main__ import main
from mcp_ref.cli import show
from mcp_ref.cli.client_commands import is_uri
from mcp_ref.revisions import REVISIONS
from tests.cli.test_person import at_a_terminal
from tests.forked_python import forked, python, quick_python
from tests.settings import ROOT

DEMO = forked("-m", "mcp_ref", "run", "mcp_ref.demo.server")
BARE = quick_python("from mcp_ref import Server; Server('bare').run()")
REFUSES = quick_python(
    """import json
while line := sys.stdin.readline():
    answer = {"jsonrpc": "2.0", "id": json.loads(line)["id"], "error": {"code": -32603, "message": "no room"}}
    print(json.dumps(answer), flush=True)"""
)
Captured = pytest.CaptureFixture[str]


def ask(*words: str, server: list[str] = DEMO) -> int:
    """Run one command with a server and return the exit code."""
    return main([*words, "--env", f"PYTHONPATH={ROOT}", "--", *server])


# ---------------------------------------------------------------------------------------------------- asking


def test_list_shows_what_a_server_offers_and_how_to_call_it(capsys: Captured) -> None:
    assert ask("list") == 0
    out = capsys.readouterr().out
    assert out.startswith("The Demo's Server 1.0, revision 2026-07-28\nCall `add` to add.\n\nTools\n")
    assert "\n  add  a: integer, b: integer\n      Add two numbers." in out
    assert "\nResources\n  notes://today  text/plain\n" in out
    assert "\nResource templates\n  notes://{day}/words  application/json\n" in out
    assert "\nPrompts\n  translate  text, language\n" in out


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
def test_list_json_has_every_page_of_every_list(revision: str, capsys: Captured) -> None:
    assert ask("list", "--json", "--revision", revision) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["protocolVersion"] == revision and listed["serverInfo"]["name"] == "demo"
    assert listed["capabilities"]["tools"] == {"listChanged": True} and listed["instructions"] == "Call `add` to add."
    assert len(listed["tools"]) == 13 and listed["tools"][0]["inputSchema"]["required"] == ["a", "b"]
    assert [resource["uri"] for resource in listed["resources"]] == ["notes://today", "demo://interrupted"]
    assert listed["resourceTemplates"][0]["uriTemplate"] == "notes://{day}/words"
    assert listed["prompts"][0]["name"] == "translate"


def test_list_of_a_server_with_nothing_asks_for_nothing(capsys: Captured) -> None:
    assert ask("list", server=quick_python("from mcp_ref import Server; Server('bare', '2').run()")) == 0
    assert capsys.readouterr().out == "bare 2, revision 2026-07-28\n"


@pytest.mark.parametrize("revision", [revision.name for revision in REVISIONS])
def test_any_revision_can_be_asked_for_and_served_alone_and_list_says_which_is_spoken(
    revision: str, capsys: Captured
) -> None:
    assert ask("list", "--revision", revision) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith(f" 1.0, revision {revision}")
    assert ask("list", server=[*DEMO, "--revision", revision]) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith(f" 1.0, revision {revision}")


def test_call_prints_the_text(capsys: Captured) -> None:
    assert ask("call", "add", "a=1", "b=2") == 0
    assert capsys.readouterr() == ("3\n", "")


def test_options_may_stand_between_the_arguments(capsys: Captured) -> None:
    assert ask("call", "add", "a=1", "--json", "b=2") == 0
    assert json.loads(capsys.readouterr().out)["structuredContent"] == 3


def test_json_output_escapes_control_characters_that_a_terminal_obeys(capsys: Captured) -> None:
    show.print_json({"text": "\x1b[2J \x9b2J \x7f caf\u00e9"})
    printed = capsys.readouterr().out
    assert '"\\u001b[2J \\u009b2J \\u007f caf\u00e9"' in printed
    assert json.loads(printed) == {"text": "\x1b[2J \x9b2J \x7f caf\u00e9"}


def test_call_escapes_a_character_that_standard_output_cannot_encode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out := io.BytesIO(), "ascii"))
    say = 'from mcp_ref import Server\ns = Server("s")\n@s.tool()\ndef say() -> str:\n    return "é"\ns.run()'
    assert ask("call", "say", server=quick_python(say)) == 0
    assert out.getvalue() == b"\\xe9\n"


def test_call_describes_blocks_without_text(capsys: Captured) -> None:
    assert ask("call", "gallery") == 0
    assert capsys.readouterr().out.splitlines() == [
        "some text", "[image: image/gif, 6 bytes]", "[audio: audio/wav, 4 bytes]",
        "[link: notes://today  today's note]",
    ]  # fmt: skip


def test_call_of_a_tool_that_fails_exits_with_1_and_prints_the_text_to_standard_error(capsys: Captured) -> None:
    assert ask("call", "divide", "a=1", "b=0") == 1
    assert capsys.readouterr() == ("", "b is 0: choose another divisor\n")
    assert ask("call", "divide", "a=1", "b=0", "--revision", "2024-10-07") == 1
    assert capsys.readouterr() == ("", '{"error": "b is 0: choose another divisor"}\n')
    assert ask("call", "divide", "a=1", "b=0", "--json") == 1
    assert json.loads(capsys.readouterr().out)["isError"] is True


def test_read_writes_text_as_it_is(capsys: Captured) -> None:
    assert ask("read", "notes://today") == 0
    assert capsys.readouterr().out == "Buy milk."
    assert ask("read", "notes://today", "--json") == 0
    assert json.loads(capsys.readouterr().out)["contents"][0]["uri"] == "notes://today"


def test_read_writes_bytes_as_they_are(tmp_path: Path) -> None:
    everything = forked("-m", "mcp_ref", "run", "examples/everything.py")
    done = subprocess.run(
        forked("-m", "mcp_ref", "read", "test://static-binary", "--", *everything),
        cwd=ROOT, capture_output=True, timeout=30, check=True,
    )  # fmt: skip
    assert done.stdout.startswith(b"\x89PNG\r\n\x1a\n") and len(done.stdout) == 70


def test_prompt_prints_who_says_what(capsys: Captured) -> None:
    assert ask("prompt", "translate", "text=a=b", "language=French") == 0
    assert capsys.readouterr().out == "user: Translate into French: a=b\n"
    assert ask("prompt", "translate", "text=hi", "language=French", "--json") == 0
    assert json.loads(capsys.readouterr().out)["messages"][0]["role"] == "user"


def test_complete_prints_a_suggestion_a_line(capsys: Captured) -> None:
    assert [is_uri(target) for target in ("notes://today", "{day}", "translate")] == [True, True, False]
    for words in (["language=fr"], ["language", "fr"], ["language=fr", "text=hi"], ["language", "fr", "text=hi"]):
        assert ask("complete", "translate", *words) == 0
        assert capsys.readouterr().out == "French\nFrisian\n"
    assert ask("complete", "translate", "language", "--json") == 0
    assert json.loads(capsys.readouterr().out)["values"][0] == "French"
    assert ask("complete", "notes://{day}/words", "day") == 0
    assert capsys.readouterr().out == ""


def test_logs_go_to_standard_error_from_the_level_that_was_asked_for(capsys: Captured) -> None:
    assert ask("call", "count", "to=1", "--log", "info") == 0
    assert capsys.readouterr() == ("done\n", '[info] {"counted": 1}\n')


def test_roots_are_given_to_the_server(capsys: Captured, tmp_path: Path) -> None:
    assert ask("call", "where", "--root", str(tmp_path)) == 0
    assert json.loads(capsys.readouterr().out) == [tmp_path.as_uri()]
    assert ask("call", "where") == 1
    err = capsys.readouterr().err
    assert "needs the client capability roots" in err and "\nadd --root PATH\n" in err and "Client(" not in err
    assert ask("call", "where", "--revision", "2025-11-25") == 1
    assert "the client did not declare roots" in capsys.readouterr().err


@pytest.mark.parametrize("revision", [revision.name for revision in REVISIONS])
def test_trace_shows_every_frame_and_the_revision(revision: str, capsys: Captured) -> None:
    assert ask("call", "add", "a=1", "b=2", "--trace", "--revision", revision) == 0
    lines = capsys.readouterr().err.splitlines()
    assert len([line for line in lines if "  ->  " in line]) >= 4
    assert all(revision in line.split("  ")[1] for line in lines[1:]), lines
    assert '"tools/call"' in lines[-2] and "  <-  " in lines[-1]


def test_env_option_adds_variables_to_the_minimal_environment_of_the_server(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OURS", "kept")
    monkeypatch.setenv("SECRET", "kept back")
    source = """
import os
from mcp_ref import Server
server = Server("env")
@server.tool()
def see() -> list[str]:
    return [os.environ.get(name, "-") for name in ("OURS", "SECRET", "GIVEN")]
server.run()"""
    assert ask("call", "see", "--env", "OURS", "--env", "GIVEN=a=b", server=quick_python(source)) == 0
    assert json.loads(capsys.readouterr().out) == ["kept", "-", "a=b"]
    assert ask("call", "see", "--env", "NO_SUCH_THING", server=quick_python(source)) == 2
    assert "write NO_SUCH_THING=VALUE" in capsys.readouterr().err


def test_stderr_option_shows_the_standard_error_of_the_server(capsys: Captured) -> None:
    source = "import sys; print('starting', file=sys.stderr, flush=True)\nfrom mcp_ref import Server; Server('s').run()"
    assert ask("list", "--stderr", server=quick_python(source)) == 0
    assert capsys.readouterr().err == "starting\n"


# ---------------------------------------------------------------------------------------------------- failures


@pytest.mark.parametrize(
    ("line", "server", "code", "why"),
    [
        ("list", ["no-such-program"], 3, "cannot start the server 'no-such-program'"),
        ("list", quick_python("sys.exit('no license')"), 3, "exited with code 1 ... no license"),
        ("list --revision 2025-11-25", [*DEMO, "--revision", "2024-11-05"], 3, "2025-11-25"),
        ("list --revision 2026-07-28", [*DEMO, "--revision", "2025-11-25"], 3, "2026-07-28"),
        ("list --revision 2025-11-25", [*DEMO, "--revision", "2026-07-28"], 3, "2025-11-25"),
        ("list --revision 2020-01-01", DEMO, 2, "the known revisions are"),
        ("call sleep seconds=30 --timeout 1", DEMO, 3, "tools/call: no response within 1.0 seconds\n"),
        ("call add", BARE, 1, "the server does not offer tools"),
        ("list", REFUSES, 1, "no room (error -32603)"),
        ("call ad a=1", DEMO, 1, "Unknown tool: ad (error -32602); did you mean 'add'?\n"),
        ("read notes://tody", DEMO, 1, "did you mean 'notes://today'?"),
        ("prompt translat", DEMO, 1, "did you mean 'translate'?"),
        ("prompt translate text=hi", DEMO, 1, "translate takes: text, language\n"),
        ("complete translat language fr", DEMO, 1, "did you mean 'translate'?"),
        ("complete notes://{dy}/words day", DEMO, 1, "did you mean 'notes://{day}/words'?"),
        ("call add a=one b=2 --revision 2025-06-18", DEMO, 1, 'Invalid arguments: a: expected an integer, got "one"'),
        ("call add a=one b=2 --revision 2025-11-25", DEMO, 1, 'Invalid arguments: a: expected an integer, got "one"'),
        ("call add --revision 2025-06-18", DEMO, 1, "\nadd takes: a: integer, b: integer\n"),
        ("call add --revision 2025-11-25", DEMO, 1, "\nadd takes: a: integer, b: integer\n"),
        ("call add a:=NaN", DEMO, 2, "the value of a is not JSON: "),
        ("call add a=\udcff", DEMO, 2, "cannot send 'a=\\udcff', because it is not UTF-8"),
        ("read a:\udcff", DEMO, 2, "cannot send 'a:\\udcff', because it is not UTF-8"),
        ("prompt translate text=a text=b", DEMO, 2, "text is given twice\n"),
        ("call add 1 2", DEMO, 2, "cannot read the argument '1': write a=1 b=2\n"),
        ("prompt translate 'tea time'", DEMO, 2, "cannot read the argument 'tea time': write 'NAME=tea time'\n"),
        ("call add a", DEMO, 2, "call: "),
        ("call add =1", DEMO, 2, "call: "),
        ("call add a:=x", DEMO, 2, "call: "),
        ("list --env =secret", DEMO, 2, "list: --env takes NAME=VALUE or NAME\n"),
        ("list --root no-such-folder", DEMO, 2, "list: --root no-such-folder is not a directory\n"),
        ("call count to=1 --log inf", DEMO, 2, "unknown log level 'inf'; did you mean 'info'?"),
    ],
)
def test_command_that_fails_has_its_exit_code_and_says_why(
    line: str, server: list[str], code: int, why: str, capsys: Captured
) -> None:
    assert ask(*shlex.split(line), server=server) == code
    err = capsys.readouterr().err
    assert all(part in err for part in why.split(" ... ")) and "Traceback" not in err


def test_failed_call_mentions_the_option_stderr_if_the_server_has_written_there(capsys: Captured) -> None:
    source = """
from mcp_ref import Server
server = Server("failing")
@server.tool()
def boom() -> str:
    raise RuntimeError("the reason")
@server.resource("test://boom")
def resource() -> str:
    raise RuntimeError("the reason")
server.run()"""
    advice = "the server has written to its standard error: --stderr shows the text\n"
    assert ask("call", "boom", server=quick_python(source)) == 1
    assert capsys.readouterr().err == f"Tool boom failed\n{advice}"
    assert ask("read", "test://boom", server=quick_python(source)) == 1
    assert capsys.readouterr().err.endswith(advice)
    assert ask("call", "boom", "--stderr", server=quick_python(source)) == 1
    err = capsys.readouterr().err
    assert "RuntimeError: the reason" in err and advice not in err


@pytest.mark.parametrize(
    ("reply", "code"),
    [('print(json.dumps({"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "no room"}}), flush=True)', 1),
     ("", 3)],
    ids=["error", "timeout"],
)  # fmt: skip
def test_failed_connection_mentions_the_option_stderr_if_the_server_has_written_there(
    reply: str, code: int, capsys: Captured
) -> None:
    source = f"""import json
print("the reason", file=sys.stderr, flush=True)
for line in sys.stdin:
    {reply or "pass"}"""
    advice = "the server has written to its standard error: --stderr shows the text\n"
    words = ["list", "--revision", "2025-11-25", "--timeout", "1"]
    assert ask(*words, server=quick_python(source)) == code
    assert capsys.readouterr().err.endswith(f"\n{advice}")
    assert ask(*words, "--stderr", server=quick_python(source)) == code
    assert advice not in capsys.readouterr().err


def test_call_without_a_response_mentions_the_option_stderr_if_the_server_has_written_there(capsys: Captured) -> None:
    source = """
import asyncio
from mcp_ref import Server
server = Server("silent")
@server.tool()
async def hang() -> None:
    print("the reason", file=sys.stderr, flush=True)
    await asyncio.sleep(60)
server.run()"""
    assert ask("call", "hang", "--timeout", "1", server=quick_python(source)) == 3
    advice = "the server has written to its standard error: --stderr shows the text\n"
    assert capsys.readouterr().err == f"tools/call: no response within 1.0 seconds\n{advice}"


@pytest.mark.parametrize(
    ("capabilities", "reason"),
    [
        ({"tools": {}}, "the server does not offer logging, so logging/setLevel was not sent"),
        ({"tools": {}, "logging": {}}, "no logs (error -32601)"),
    ],
    ids=["undeclared", "refused"],
)
def test_call_with_a_log_level_works_with_a_server_that_does_not_log(
    capabilities: object, reason: str, capsys: Captured
) -> None:
    source = f"""
import json
results = {{
    "initialize": {{"protocolVersion": "2025-11-25", "capabilities": {capabilities},
                   "serverInfo": {{"name": "old", "version": "1"}}}},
    "tools/list": {{"tools": []}},
    "tools/call": {{"content": [{{"type": "text", "text": "done"}}]}},
}}
for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        method = request["method"]
        error = {{"code": -32601, "message": "no logs"}}
        found = {{"result": results[method]}} if method in results else {{"error": error}}
        print(json.dumps({{"jsonrpc": "2.0", "id": request["id"], **found}}), flush=True)
"""
    assert ask("call", "work", "--log", "debug", "--revision", "2025-11-25", server=quick_python(source)) == 0
    assert capsys.readouterr() == ("done\n", f"--log has no effect: {reason}\n")


def test_list_shows_the_other_lists_of_a_server_that_lacks_one(capsys: Captured) -> None:
    source = """
import json, sys
results = {
    "initialize": {"protocolVersion": "2024-11-05", "capabilities": {"resources": {}, "prompts": {}},
                   "serverInfo": {"name": "old", "version": "1"}},
    "resources/list": {"resources": [{"uri": "memo://insights", "name": "insights"}]},
    "prompts/list": {"prompts": [{"name": "demo"}]},
}
for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        method = request["method"]
        found = {"result": results[method]} if method in results else {"error": {"code": -32601, "message": method}}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **found}), flush=True)
"""
    assert ask("list", server=python(source)) == 0
    out = capsys.readouterr().out
    assert "memo://insights" in out and "\nPrompts\n  demo\n" in out and "templates" not in out


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_interrupted_command_exits_with_130_and_prints_nothing() -> None:
    source = "print('up', file=sys.stderr, flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-m", "mcp_ref", "list", "--stderr", "--", *quick_python(source)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        assert process.stderr.readline() == b"up\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, b"", b"")


@pytest.mark.parametrize("module", ["mcp_ref.cli.options", "mcp_ref.lib.text"])
def test_interrupted_import_exits_with_130_and_prints_nothing(module: str) -> None:
    source = f"""
import runpy, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
sys.argv = ["mcp_ref", "limits"]
runpy.run_module("mcp_ref", run_name="__main__")
"""
    done = subprocess.run([sys.executable, "-c", source], cwd=ROOT, capture_output=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


@pytest.mark.parametrize(
    "arguments",
    [["revisions", "--json"], ["toc", "2024-11-05"], ["--help"], ["call", "--help"], []],
    ids=["long", "short", "help", "help of a command", "help without arguments"],
)
def test_reader_that_closes_the_pipe_causes_no_error(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "mcp_ref", *arguments]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(command, cwd=ROOT, env=env, stdout=writing, stderr=subprocess.PIPE, timeout=30, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["call", "divide", "a=1", "b=0", "--", *DEMO], 1), (["call", "add", "a=1", "b=2", "--trace", "--", *DEMO], 0),
        (["list", "--", "no-such-program"], 3), (["replay", "no-such-file"], 2), (["no-such-command"], 2),
    ],
    ids=["failed tool", "trace", "no connection", "wrong use", "wrong command"],
)  # fmt: skip
def test_reader_that_closes_standard_error_does_not_change_the_exit_code(words: list[str], code: int) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "mcp_ref", *words]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=writing, timeout=30, check=False)
    os.close(writing)
    assert done.returncode == code


@pytest.mark.skipif(os.name == "nt", reason="a shell")
@pytest.mark.parametrize(
    ("redirections", "status", "error"),
    [
        ("<&- >&-", 0, b""),
        pytest.param(">/dev/full", 2, b"python3 -m mcp_ref: cannot write the output: No space left on device\n",
                     marks=pytest.mark.skipif(not os.path.exists("/dev/full"), reason="/dev/full")),
    ],
)  # fmt: skip
def test_closed_standard_streams_cause_no_error_and_a_full_disk_causes_a_short_one(
    redirections: str, status: int, error: bytes
) -> None:
    words = [sys.executable, "list", "--", *DEMO]
    shell = ["sh", "-c", f'exec "$0" -m mcp_ref "$@" {redirections}', *words]
    done = subprocess.run(shell, cwd=ROOT, stderr=subprocess.PIPE, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (status, error)


# ---------------------------------------------------------------------------------------------------- at a terminal


def test_call_at_a_terminal_shows_the_server_and_the_revision() -> None:
    for revision in ("2025-11-25", "2026-07-28"):
        out, terminal = at_a_terminal(b"", "call", "add", "a=1", "b=2", "--revision", revision)
        assert out == "3\n" and terminal.splitlines() == [f"The Demo's Server 1.0, revision {revision}"]


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_watch_prints_what_has_changed_a_line_each_time(revision: str, capsys: Captured) -> None:
    source = """
import threading
from mcp_ref import Server
server = Server("ticker")
server.resource("tick://all")(lambda: "tick")
server.resource("tick://all/{n}")(lambda n: n)
def tick(n=0):
    server.resource_updated(f"tick://all/{n}")
    timer = threading.Timer(0.01, tick, [n + 1])
    timer.daemon = True
    timer.start()
tick()
server.run()"""
    command = ["watch", "tick://all", "--count", "3", "--revision", revision]
    assert ask(*command, server=quick_python(source)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and all(line.startswith("tick://all/") for line in lines) and len(set(lines)) == 3
    assert ask(*command, "--json", server=quick_python(source)) == 0
    assert len([json.loads(line) for line in capsys.readouterr().out.splitlines()]) == 3


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_watch_of_an_unknown_resource_is_1_and_suggests_a_known_one(revision: str, capsys: Captured) -> None:
    assert ask("watch", "notes://tody", "--revision", revision) == 1
    assert "did you mean 'notes://today'?" in capsys.readouterr().err
    assert ask("watch", "notes://today", "--revision", revision, server=BARE) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_progress_is_shown_at_a_terminal() -> None:
    out, terminal = at_a_terminal(b"", "call", "count", "to=2")
    assert out == "done\n" and "1 of 2: counted 1" in terminal
