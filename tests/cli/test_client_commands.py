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

from mcp_ref.__main__ import main, parse
from mcp_ref.cli import UsageError, revisions, show
from mcp_ref.cli.client_commands import is_uri
from mcp_ref.cli.values import json_types, read_arguments, read_string_arguments
from mcp_ref.jsonrpc.messages import JSON, Object
from mcp_ref.revisions import LEGACY, METHODS, R2025_03_26, R2025_06_18, REVISIONS
from tests.forked_python import forked, python, quick_python
from tests.settings import ROOT
from tests.terminals import run_at_terminal

DEMO = forked("-m", "mcp_ref", "run", "mcp_ref.demo.server")
BARE = quick_python("from mcp_ref import Server; Server('bare').run()")
REFUSES = quick_python(
    """import json
while line := sys.stdin.readline():
    answer = {"jsonrpc": "2.0", "id": json.loads(line)["id"], "error": {"code": -32603, "message": "no room"}}
    print(json.dumps(answer), flush=True)"""
)
COMMANDS = ["demo", "run", "list", "call", "read", "watch", "prompt", "complete", "revisions"]
Captured = pytest.CaptureFixture[str]


def ask(*words: str, server: list[str] = DEMO) -> int:
    """Run one command with a server and return the exit code."""
    return main([*words, "--env", f"PYTHONPATH={ROOT}", "--", *server])


def usage_error(*words: str) -> None:
    """Run a command line that argparse refuses."""
    with pytest.raises(SystemExit) as caught:
        main(list(words))
    assert caught.value.code == 2


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
    show.as_json({"text": "\x1b[2J \x9b2J \x7f caf\u00e9"})
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
        "some text",
        "[image: image/gif, 6 bytes]",
        "[audio: audio/wav, 4 bytes]",
        "[link: notes://today  today's note]",
    ]


def test_call_of_a_tool_that_fails_exits_with_1_and_prints_the_text_to_standard_error(capsys: Captured) -> None:
    assert ask("call", "divide", "a=1", "b=0") == 1
    assert capsys.readouterr() == ("", "b is 0: choose another divisor\n")
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
        ("call add a:=[1e999]", DEMO, 2, "the value of a is not JSON: "),
        ("call add a=\udcff", DEMO, 2, "cannot send 'a=\\udcff', because it is not UTF-8"),
        ("read a:\udcff", DEMO, 2, "cannot send 'a:\\udcff', because it is not UTF-8"),
        ("call add a = 1", DEMO, 2, "write an argument without spaces, such as a=1\n"),
        ("""call add '{"a": 1, "b": [2]}'""", DEMO, 2, "write a:=1 'b:=[2]'\n"),
        ("prompt translate text=a text=b", DEMO, 2, "text is given twice\n"),
        ("call add 1 2", DEMO, 2, "cannot read the argument '1': write a=1 b=2\n"),
        ("call add b=2 1 3", DEMO, 2, "cannot read the argument '1': write b=2 a=1 NAME=3\n"),
        ("prompt translate 'tea time'", DEMO, 2, "cannot read the argument 'tea time': write 'NAME=tea time'\n"),
        ("call add a", DEMO, 2, "call: "),
        ("call add =1", DEMO, 2, "call: "),
        ("call add a:=x", DEMO, 2, "call: "),
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


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["lst"], "unknown command 'lst'; did you mean 'list'?"),
        (["get"], "unknown command 'get'; there are demo, run, bridge, list,"),
        (["list"], "the server is missing: add its URL, or two dashes and its command"),
        (["list", "server.py"], "for example\n  python3 -m mcp_ref list -- python3 server.py\n"),
        (["list", "server.js"], "for example\n  python3 -m mcp_ref list -- node server.js\n"),
        (["list", "localhost:8123/mcp"], "for example\n  python3 -m mcp_ref list http://localhost:8123/mcp\n"),
        (["whoami"], "add its URL, for example\n  python3 -m mcp_ref whoami https://mcp.example/mcp\n"),
        (["whoami", "server.py"], "add its URL, for example\n  python3 -m mcp_ref whoami https://mcp.example/mcp\n"),
        (["list", "ws://localhost:8123/mcp"], "for example\n  python3 -m mcp_ref list http://localhost:8123/mcp\n"),
        (["list", "http://a/", "http://b/"], "unrecognized arguments: http://a/"),
        (["read", "http://a/"], "the following arguments are required: URI\n"),
        (
            ["list", "python3", "server.py", "--json"],
            "for example\n  python3 -m mcp_ref list --json -- python3 server.py\n",
        ),
        (["read", "a://b", "npx", "some-server"], "for example\n  python3 -m mcp_ref read a://b -- npx some-server\n"),
        (["list", "--timeout", "nan", "--", "x"], "--timeout: expected a number of seconds above 0, got 'nan'"),
        (["list", "--timeout", "-1", "--", "x"], "--timeout: expected a number of seconds above 0, got '-1'"),
        (["list", "--timeout", "soon", "--", "x"], "--timeout: expected a number of seconds above 0, got 'soon'"),
        (["list", "--tiemout", "1"], "unrecognized arguments: --tiemout 1; did you mean --timeout?\n"),
        (["bridge", "--root", "x", "--", "y"], "unrecognized arguments: --root x\n"),  # which other commands have
        (["--json", "list"], "write the command first, such as python3 -m mcp_ref list ...\n"),
        (["--version", "list"], "write the command first, such as python3 -m mcp_ref list ...\n"),
        (["--", "python3", "server.py"], "write the command first, such as python3 -m mcp_ref list ...\n"),
        (["call", "add", "1", "2"], "for example\n  python3 -m mcp_ref call add 1 2 -- python3 server.py\n"),
        (
            ["call", "add", "a=1", "python3", "a.py", "--json"],
            "for example\n  python3 -m mcp_ref call add a=1 --json -- python3 a.py\n",
        ),
        (["call", "--", "x"], "the following arguments are required: TOOL\n"),
        (["prompt", "--", "x"], "the following arguments are required: NAME\n"),
        (["complete", "--", "x"], "the following arguments are required: PROMPT|TEMPLATE, ARGUMENT[=VALUE]\n"),
        (["list", "--", ""][:2], "the server is missing"),
        (["demo", "--", "x"], "demo takes no server"),
        (
            ["list", "--tokn-file", "1", "--", "x"],
            "unrecognized arguments: --tokn-file 1; did you mean --token-file?\n",
        ),
        (["run", "x", "--port", "65536"], "--port: expected a port from 0 to 65535, got '65536'\n"),
        (["run", "x", "--drain", "-1"], "--drain: expected a number of seconds above 0, got '-1'\n"),
        (["watch", "a://b", "--count", "0", "--", "x"], "--count: expected a whole number of at least 1, got '0'\n"),
        (
            ["watch", "a://b", "--count", "1.5", "--", "x"],
            "--count: expected a whole number of at least 1, got '1.5'\n",
        ),
    ],
)
def test_invalid_command_line_exits_with_2_and_says_what_to_write(words: list[str], why: str, capsys: Captured) -> None:
    usage_error(*words)
    assert why in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "option", "value"),
    [
        ("run x --port 0", "port", 0),
        ("run x --port 65535", "port", 65535),
        ("run x --drain 0", "drain", 0.0),
        ("run x --drain 0.0", "drain", 0.0),
        ("replay x --speed 0.5", "speed", 0.5),
        ("watch a://b --count 1 -- x", "count", 1),
        ("record x --install a b", "install", ["a", "b"]),
    ],
)
def test_option_takes_the_smallest_and_the_largest_value(line: str, option: str, value: object) -> None:
    assert vars(parse(line.split()))[option] == value


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


@pytest.mark.parametrize("arguments", [["revisions", "--json"], ["toc", "2024-11-05"]], ids=["long", "short"])
def test_reader_that_closes_the_pipe_causes_no_error(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "mcp_ref", *arguments]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(command, cwd=ROOT, env=env, stdout=writing, stderr=subprocess.PIPE, timeout=30, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


# ---------------------------------------------------------------------------------------------------- help and version


def test_help_names_every_command_and_exit_code(capsys: Captured) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("mcp_ref 0.")
    for words in ([], ["--help"]):
        with pytest.raises(SystemExit) as caught:
            main(words)
        assert caught.value.code == 0
        out = capsys.readouterr().out
        assert all(word in out for word in (*COMMANDS, "130", "the connection failed"))


NO_SERVER: dict[str, object] = {"needs_server": False, "takes_command": False, "command": []}
SERVER = {**NO_SERVER, "needs_server": True, "command": ["x"]}
RECORDING = {**NO_SERVER, "takes_command": True, "command": ["x"], "file": "f"}
ACCOUNT = {**SERVER, "command": ["http://x/"]}
LINK: dict[str, object] = {
    **dict.fromkeys(["revision", "token_env", "token_file", "config", "root"]), "header": [], "env": [],
    **dict.fromkeys(["no_browser", "stderr", "trace", "yes", "find"], False),
}  # fmt: skip
CLIENT = {**SERVER, **LINK, "timeout": None, "log": None, "json": False}
PATH = {**CLIENT, "target": "t", "save": None}
HTTP = {**dict.fromkeys(["host", "port", "path", "allow_host", "allow_origin", "trust_proxy", "drain", "issuer"]),
        **dict.fromkeys(["resource", "require_scope", "jwks", "store"]),
        **dict.fromkeys(["http", "json_responses", "health"], False)}  # fmt: skip
ADDRESS = {"host": "127.0.0.1", "port": 0}
MANY = "(URL | -- COMMAND ... | --config FILE)"
ARGUMENTS = "[NAME=VALUE ...]"


@pytest.mark.parametrize(
    ("line", "usage", "options"),
    [
        ("demo", "", {**NO_SERVER, "http": False}),
        ("run t", "FILE[:NAME]", {**NO_SERVER, **HTTP, "target": "t", "revision": None, "trace": False}),
        ("bridge -- x", MANY, {**SERVER, **LINK, **HTTP, "back_revision": None, "explain": False, "replay": [],
                               "no_hold": False, "clients": 4, "prefix": False}),
        ("list -- x", MANY, {**CLIENT, "target": ""}),
        ("call t -- x", f"TOOL {ARGUMENTS} {MANY}", {**PATH, "arguments": []}),
        ("read t -- x", f"URI {MANY}", PATH),
        ("watch t -- x", f"URI {MANY}", {**CLIENT, "target": "t", "count": None}),
        ("prompt t -- x", f"NAME {ARGUMENTS} {MANY}", {**CLIENT, "target": "t", "arguments": []}),
        ("complete t a -- x", f"PROMPT|TEMPLATE ARGUMENT[=VALUE] {ARGUMENTS} {MANY}",
         {**CLIENT, "target": "t", "argument": "a", "arguments": []}),
        ("login http://x/", "URL", {**ACCOUNT, "revision": None, "timeout": None, "header": [], "no_browser": False,
                                    "trace": False, "scope": [], "client_id": None, "issuer": None, "env": [],
                                    "client_metadata_url": None, "client_secret_env": None, "root": None, "log": None,
                                    "stderr": False, "token_env": None, "token_file": None}),
        ("logout http://x/", "URL", ACCOUNT),
        ("whoami http://x/", "URL", ACCOUNT),
        ("record f -- x", "FILE (-- COMMAND ... | --http URL)",
         {**RECORDING, **ADDRESS, "http": None, "with_secrets": False, "max_mb": 256, "install": None,
          "uninstall": None, "yes": False}),
        ("replay f -- x", "FILE [--revision R] [--http] | --client FILE (URL | -- COMMAND ...)",
         {**RECORDING, **ADDRESS, "client": False, "http": False, "speed": 0.0, "revision": None}),
        ("check f -- x", "(FILE | -- COMMAND ... | URL | --as-test FILE | --rules)",
         {**RECORDING, "rules": False, "as_test": False, "call": [], "advice": False, "revision": None,
          "timeout": None, "header": [], "junit": None, "sarif": None, "json": False}),
        ("revisions", "[REVISION]", {**NO_SERVER, "revision": None, "json": False}),
        ("toc", "[PAGE[#HEADING]] [REVISION]", {**NO_SERVER, "words": [], "search": None, "json": False}),
        ("limits", "", {**NO_SERVER, "json": False}),
    ],
)  # fmt: skip
def test_command_has_its_usage_and_the_default_of_each_option(
    line: str, usage: str, options: dict[str, object], capsys: Captured
) -> None:
    words = line.split()
    assert vars(parse(words)) == {**options, "name": words[0]}
    for help in ([words[0], "--help"], ["--help", words[0]]):
        with pytest.raises(SystemExit) as caught:
            main(help)
        assert caught.value.code == 0
        first, _, rest = capsys.readouterr().out.partition("\n")
        assert first == f"usage: python3 -m mcp_ref {words[0]} [options] {usage}".rstrip()
        assert ("the connection failed" in rest) == bool(options["needs_server"])


def test_help_loads_no_page_of_the_protocol() -> None:
    source = "import sys, mcp_ref.__main__ as m\ntry: m.main(['--help'])\nexcept SystemExit: pass\nprint(*sys.modules)"
    done = subprocess.run(python(source), capture_output=True, text=True, timeout=20, check=True)
    loaded = {name for name in done.stdout.split() if name.startswith("mcp_ref.")}
    assert loaded == {"mcp_ref.__main__", "mcp_ref.cli", "mcp_ref.cli.options", "mcp_ref.version"}
    assert "asyncio" not in done.stdout.split()


# ---------------------------------------------------------------------------------------------------- values


SCHEMA: Object = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "flag": {"type": "boolean"},
        "list": {"type": "array"},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "either": {"type": ["number", "string"]},
        "mixed": {"type": ["string", "boolean", "array", "object", "null"]},
        "choice": {"enum": ["1", "2"]},
        "fixed": {"const": "7"},
        "linked": {"$ref": "#/$defs/x"},
        "open": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/x"}]},
    },
}


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("text=3", "3"),
        ("text=", ""),
        ("text=a=b:=c", "a=b:=c"),
        ("text:=3", 3),
        ("count=3", 3),
        ("count=three", "three"),
        ("count=", ""),
        ("ratio=3", 3),
        ("ratio=0.5", 0.5),
        ("flag=true", True),
        ("flag=yes", "yes"),
        ("list=[1, 2]", [1, 2]),
        ("maybe=null", None),
        ("maybe=5", "5"),
        ("either=5", 5),
        ("either=3.0", 3.0),
        ("either=five", "five"),
        ("either=true", "true"),
        ("mixed=true", True),
        ("mixed=[1]", [1]),
        ("mixed={}", {}),
        ("mixed=null", None),
        ("mixed=1", "1"),
        ("choice=1", "1"),
        ("fixed=7", "7"),
        ("linked=7", 7),
        ("linked=seven", "seven"),
        ("open={}", {}),
        ("unknown=7", 7),
        ("unknown=seven", "seven"),
        ('unknown={"a": [1]}', {"a": [1]}),
        ("unknown=NaN", "NaN"),
        ("ratio=1e999", "1e999"),
    ],
)
def test_read_arguments_converts_a_value_by_the_schema(word: str, value: JSON) -> None:
    (found,) = read_arguments([word], SCHEMA).values()
    assert found == value and type(found) is type(value)


def test_without_a_schema_a_value_is_json_or_text() -> None:
    assert read_arguments(["a=1", "b=x"], None) == {"a": 1, "b": "x"}
    assert read_arguments([], None) == {}
    assert json_types(True) is None


def test_read_arguments_refuses_a_name_that_is_given_twice() -> None:
    with pytest.raises(UsageError, match="a is given twice"):
        read_arguments(["a=1", "a=2"], None)
    with pytest.raises(UsageError, match="the value of a is not JSON: the key 'b' must not appear twice"):
        read_arguments(['a:={"b": 1, "b": 2}'], None)


def test_read_string_arguments_leaves_values_as_text() -> None:
    assert read_string_arguments(["a=1", "b=[x"]) == {"a": "1", "b": "[x"}


# ---------------------------------------------------------------------------------------------------- serving


def serving(tmp_path: Path, source: str) -> str:
    """Write a file with this source."""
    path = tmp_path / "my server.py"
    path.write_text(source, "utf-8")
    return str(path)


def run_file(*words: str) -> subprocess.CompletedProcess[bytes]:
    """Run `run` as a process, with one ping on its input."""
    return subprocess.run(
        forked("-m", "mcp_ref", "run", *words), cwd=ROOT, input=b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n',
        capture_output=True, timeout=30, check=False,
    )  # fmt: skip


PONG = b'{"jsonrpc":"2.0","id":1,"result":{}}\n'


def test_run_serves_the_only_server_of_a_file(tmp_path: Path) -> None:
    source = "import helper\nfrom mcp_ref import Server\napp = Server(helper.NAME)\n"
    source += "if __name__ == '__main__':\n    raise SystemExit(9)\n"
    (tmp_path / "helper.py").write_text("NAME = 'helped'", "utf-8")
    done = run_file(serving(tmp_path, source))
    assert (done.stdout, done.stderr, done.returncode) == (PONG, b"", 0)


def test_run_serves_the_one_that_is_named_of_several(tmp_path: Path) -> None:
    path = serving(tmp_path, "from mcp_ref import Server\na = Server('a')\nb = Server('b')\n")
    assert run_file(f"{path}:b").stdout == PONG
    done = run_file(path)
    assert done.returncode == 2 and f"choose one: {path}:a, {path}:b" in done.stderr.decode()
    done = run_file(f"{path}:c")
    assert done.returncode == 2 and "has no Server called 'c'; there are a, b" in done.stderr.decode()


def test_prints_of_an_imported_file_do_not_reach_the_client(tmp_path: Path) -> None:
    source = "import os\nprint('hi')\nos.write(1, b'ho')\nfrom mcp_ref import Server\nserver = Server('s')\n"
    done = run_file(serving(tmp_path, source))
    assert done.stdout == PONG
    assert b"hi" in done.stderr and b"ho" in done.stderr


def test_run_traces_to_standard_error() -> None:
    done = run_file("mcp_ref.demo.server", "--trace")
    assert done.stdout == PONG and b'<-  {"jsonrpc": "2.0", "id": 1, "method": "ping"}' in done.stderr


def test_run_of_a_file_that_fails_exits_with_1_and_the_traceback_of_the_file(tmp_path: Path) -> None:
    done = run_file(serving(tmp_path, "import json\njson.loads('{')\n"))
    err = done.stderr.decode()
    assert done.returncode == 1 and "line 2, in <module>" in err and "JSONDecodeError" in err
    assert "serve.py" not in err and "frozen importlib" not in err
    done = run_file(serving(tmp_path, "import no_such_module\n"))
    assert done.returncode == 1 and b"No module named 'no_such_module'" in done.stderr
    done = run_file(serving(tmp_path, "def\n"))
    assert done.returncode == 1 and b"SyntaxError" in done.stderr


def test_run_names_a_server_of_another_copy_of_the_package(tmp_path: Path) -> None:
    copy = "class Server:\n    def run(self): pass\n\nServer.__module__ = 'vendor.protocol.server.server'\n"
    done = run_file(serving(tmp_path, f"{copy}server = Server()\n"))
    assert done.returncode == 2
    assert (
        b"'server' is a Server of another copy of this package; run it with that copy: python3 -m vendor.protocol"
        in done.stderr
    )


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("examples/everythin.py", "no file named 'examples/everythin.py'; did you mean 'everything.py'?"),
        ("examples", "'examples' is a folder; name a Python file in it"),
        ("nowhere/x.py", "no file named"),
        ("mcp_ref.nothing", "no file and no module named 'mcp_ref.nothing'"),
        ("mcp_ref.revisions", "has no Server at its top level"),
        ("README.md", "is not a Python file"),
    ],
)
def test_run_of_an_invalid_target_exits_with_2(target: str, why: str) -> None:
    done = run_file(target)
    assert done.returncode == 2 and why in done.stderr.decode() and b"Traceback" not in done.stderr


# ---------------------------------------------------------------------------------------------------- a person


def at_a_terminal(typed: bytes, *words: str, server: list[str] = DEMO) -> tuple[str, str]:
    """Run a command at a terminal, at which a person types. Return the output and the terminal's text."""
    return run_at_terminal(typed, *words, "--env", f"PYTHONPATH={ROOT}", "--", *server)[1:]


def curious(body: str) -> list[str]:
    """Return the command of a server with a tool `ask` that has this body."""
    head = "from mcp_ref import Context, Server\nserver = Server('curious')\n@server.tool()\n"
    return quick_python(f"{head}async def ask(context: Context) -> str:{body}\nserver.run()")


def test_call_at_a_terminal_lets_the_user_fill_in_a_form() -> None:
    out, terminal = at_a_terminal(b"2\n20:00\n\n", "call", "book_table")
    assert out == "a table for 2 at 20:00\n"
    assert "The server asks: A table for tonight?" in terminal
    assert "guests (integer): " in terminal and 'time ("18:00"|"20:00"): ' in terminal
    assert "window (y/n, default n): " in terminal


def test_form_asks_again_only_for_the_field_with_the_invalid_value() -> None:
    out, terminal = at_a_terminal(b"many\n4\n19:00\n18:00\nperhaps\ny\n", "call", "book_table")
    assert out == "a table for 4 at 18:00\n"
    assert 'guests: expected an integer, got "many"' in terminal
    assert [terminal.count(f"{name} (") for name in ("guests", "time", "window")] == [2, 2, 2]


@pytest.mark.parametrize(("typed", "value"), [("y", True), ("No", False), ("YES", True), ("n", False), ("true", True)])
def test_form_takes_y_and_n_for_a_boolean(typed: str, value: bool) -> None:
    server = curious("""
    form = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}
    return str((await context.elicit("Sure?", form)).content)""")
    out, terminal = at_a_terminal(f"\n{typed}\n".encode(), "call", "ask", server=server)
    assert out == f"{{'sure': {value}}}\n" and terminal.count("sure (y/n): ") == 2


@pytest.mark.parametrize(("typed", "action"), [(b"y\n", "accept"), (b"n\n", "decline"), (b"\x04", "decline")])
def test_form_without_fields_asks_for_consent(typed: bytes, action: str) -> None:
    server = curious("""
    return (await context.elicit("Delete all?", {"type": "object", "properties": {}})).action""")
    out, terminal = at_a_terminal(typed, "call", "ask", server=server)
    assert out == f"{action}\n" and "Delete all?" in terminal


def test_form_on_the_terminal_contains_no_control_characters_of_the_server() -> None:
    server = curious("""
    field = {"type": "string", "title": "\\x1b[2Jtitle", "default": "\\x9b2J"}
    return (await context.elicit("\\x1b[2J?", {"type": "object", "properties": {"a\\x1b[2J": field}})).action""")
    out, terminal = at_a_terminal(b"a\n", "call", "ask", server=server)
    assert out == "accept\n" and "title" in terminal
    assert "\x1b" not in terminal and "\x9b" not in terminal


def test_end_of_input_declines_the_form() -> None:
    out, _ = at_a_terminal(b"\x04", "call", "book_table")
    assert out == "no table then\n"


def test_forms_of_concurrent_requests_are_shown_one_after_the_other() -> None:
    server = curious("""
    forms = [{"type": "object", "properties": {name: {"type": "string"}}} for name in ("first", "second")]
    answers = await context.gather_inputs(*(context.elicit("Tell me", form) for form in forms))
    return " ".join(f"{name}={value}" for answer in answers for name, value in answer.content.items())""")
    for revision in ("2025-11-25", "2026-07-28"):
        out, terminal = at_a_terminal(b"a\nb\n", "call", "ask", "--revision", revision, server=server)
        assert out == "first=a second=b\n", terminal
        assert terminal.index("first (string): ") < terminal.rindex("The server asks") < terminal.index("second")


@pytest.mark.parametrize(
    ("typed", "result"), [(b"y\n", "connected\n"), (b"n\n", "not connected\n"), (b"\x04", "not connected\n")]
)
def test_url_elicitation_shows_the_whole_url_and_asks_for_consent(typed: bytes, result: str) -> None:
    out, terminal = at_a_terminal(typed, "call", "connect_account")
    assert out == result and "https://example.com/sign-in" in terminal


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


# ---------------------------------------------------------------------------------------------------- revisions


def test_revisions_command_prints_the_data_of_the_revisions(capsys: Captured) -> None:
    assert main(["revisions"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == [revision.name for revision in REVISIONS]
    table = {row[:30].strip(): row[30:].split() for row in rows}
    assert table["batch"] == ["yes" if revision.batch else "-" for revision in REVISIONS]
    assert table["era"] == ["legacy"] * len(LEGACY) + ["modern"]
    assert max(map(len, rows)) <= 100


def test_revisions_command_derives_the_changes_of_one_revision(capsys: Captured) -> None:
    assert main(["revisions", "2025-06-18"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("2025-06-18, after 2025-03-26\n")
    for line in ("batch: no, was yes", "+ elicitation/create", "+ Tool.outputSchema", "+ ResourceLink"):
        assert f"\n  {line}\n" in out
    assert "ResourceLink." not in out and "\n  + _" not in out


def test_2026_07_28_tells_what_it_has_in_the_place_of_a_handshake(capsys: Captured) -> None:
    assert main(["revisions", "2026-07-28"]) == 0
    out = capsys.readouterr().out
    for line in (
        "_meta of a request:\n    io.modelcontextprotocol/protocolVersion",
        "headers of a POST:\n    MCP-Protocol-Version\n    Mcp-Method",
        *("requests in an input_required result:", "era: modern, was legacy", "+ server/discover"),
        *("- initialize", "+ ListToolsResult.ttlMs"),
    ):
        assert f"\n  {line}\n" in out
    assert main(["revisions", "2025-11-25"]) == 0
    assert "handshake" not in capsys.readouterr().out


def test_revisions_in_json(capsys: Captured) -> None:
    assert main(["revisions", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["2025-03-26"]["batch"] is True
    assert main(["revisions", "2025-06-18", "--json"]) == 0
    changed = json.loads(capsys.readouterr().out)
    assert changed == revisions.changes(R2025_06_18)
    assert changed["methods"] == {"added": ["elicitation/create"], "removed": []}
    assert changed["behavior"]["batch"] == [True, False]


def test_changes_of_all_revisions_add_up_to_the_method_table() -> None:
    present: set[str] = set()
    for revision in REVISIONS:
        methods = revisions.changes(revision)["methods"]
        assert isinstance(methods, dict) and isinstance(methods["added"], list) and isinstance(methods["removed"], list)
        present = (present | set(map(str, methods["added"]))) - set(map(str, methods["removed"]))
        now = {m.name for m in METHODS if m.since <= revision and (m.until is None or revision < m.until)}
        assert present == now


def test_changes_list_a_new_type_without_its_members() -> None:
    born, _ = revisions.members(R2025_03_26)
    assert "AudioContent" in born and not [name for name in born if name.startswith("AudioContent.")]


@pytest.mark.parametrize("line", ["revisions 2025", "run mcp_ref.demo.server --revision 2020-01-01"])
def test_revisions_command_exits_with_2_for_an_unknown_revision(line: str, capsys: Captured) -> None:
    assert main(line.split()) == 2
    assert "the known revisions are 2024-10-07" in capsys.readouterr().err
