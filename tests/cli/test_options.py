"""The options of the command line: their defaults, their limits, the help, and the advice for a mistake."""

from __future__ import annotations

import subprocess

import pytest

from mcp_ref.__main__ import main, parse
from tests.cli.exit_codes import exit_code
from tests.forked_python import python

COMMANDS = ["demo", "run", "list", "call", "read", "watch", "prompt", "complete", "revisions"]
Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["lst"], "unknown command 'lst'; did you mean 'list'?"),
        (["get"], "unknown command 'get'; the known names are demo, run, bridge, list,"),
        (["list"], "the server is missing: add its URL, or two dashes and its command"),
        (["list", "server.py"], "for example\n  python3 -m mcp_ref list -- python3 server.py\n"),
        (["list", "server.js"], "for example\n  python3 -m mcp_ref list -- node server.js\n"),
        (["list", "localhost:8123/mcp"], "for example\n  python3 -m mcp_ref list http://localhost:8123/mcp\n"),
        (["whoami"], "add its URL, for example\n  python3 -m mcp_ref whoami https://mcp.example/mcp\n"),
        (["whoami", "server.py"], "add its URL, for example\n  python3 -m mcp_ref whoami https://mcp.example/mcp\n"),
        (["list", "ws://localhost:8123/mcp"], "for example\n  python3 -m mcp_ref list http://localhost:8123/mcp\n"),
        (["list", "http://a/", "http://b/"], "unrecognized arguments: http://a/"),
        (["read", "http://a/"], "the following arguments are required: URI\n"),
        (["list", "python3", "server.py", "--json"],
         "for example\n  python3 -m mcp_ref list --json -- python3 server.py\n"),
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
        (["call", "add", "a=1", "python3", "a.py", "--json"],
         "for example\n  python3 -m mcp_ref call add a=1 --json -- python3 a.py\n"),
        (["call", "--", "x"], "the following arguments are required: TOOL\n"),
        (["prompt", "--", "x"], "the following arguments are required: NAME\n"),
        (["complete", "--", "x"], "the following arguments are required: PROMPT|TEMPLATE, ARGUMENT[=VALUE]\n"),
        (["list", "--", ""][:2], "the server is missing"),
        (["demo", "--", "x"], "demo takes no server"),
        (["list", "--tokn-file", "1", "--", "x"],
         "unrecognized arguments: --tokn-file 1; did you mean --token-file?\n"),
        (["run", "x", "--port", "65536"], "--port: expected a port from 0 to 65535, got '65536'\n"),
        (["run", "x", "--drain", "-1"], "--drain: expected 0 or a number of seconds above 0, got '-1'\n"),
        (["watch", "a://b", "--count", "0", "--", "x"], "--count: expected a whole number of at least 1, got '0'\n"),
        (["watch", "a://b", "--count", "1.5", "--", "x"],
         "--count: expected a whole number of at least 1, got '1.5'\n"),
    ],
)  # fmt: skip
def test_invalid_command_line_exits_with_2_and_says_what_to_write(words: list[str], why: str, capsys: Captured) -> None:
    assert exit_code(*words) == 2
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


def test_help_names_every_command_and_exit_code(capsys: Captured) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("mcp_ref 0.")
    for words in ([], ["--help"]):
        assert exit_code(*words) == 0
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
ADDRESS = {"host": None, "port": None}
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
        assert exit_code(*help) == 0
        first, _, rest = capsys.readouterr().out.partition("\n")
        assert first == f"usage: python3 -m mcp_ref {words[0]} [options] {usage}".rstrip()
        assert ("the connection failed" in rest) == bool(options["needs_server"])


def test_help_loads_no_page_of_the_protocol() -> None:
    source = "import sys, mcp_ref.__main__ as m\ntry: m.main(['--help'])\nexcept SystemExit: pass\nprint(*sys.modules)"
    done = subprocess.run(python(source), capture_output=True, text=True, timeout=20, check=True)
    loaded = {name for name in done.stdout.split() if name.startswith("mcp_ref.")}
    assert loaded == {"mcp_ref.__main__", "mcp_ref.cli", "mcp_ref.cli.options", "mcp_ref.version"}
    assert "asyncio" not in done.stdout.split()
