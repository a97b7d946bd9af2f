"""Configuration files: the formats of known hosts, variables, and everything that a file cannot do."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mcp_ref import ConfigurationError, Host, read_config
from mcp_ref.host.configuration import Configuration, ServerConfig, find_configs, parse_server, read_servers
from mcp_ref.host.launch import Launch, launch_of
from tests.host.peers import Person, error, opened, state
from tests.settings import ROOT

FORMATS = {
    "claude_desktop_config.json": '{"mcpServers": {"fs": {"command": "npx", "args": ["-y", "fs"], "env": {"A": "1"}}}}',
    ".mcp.json": """{"mcpServers": {
        "fs": {"type": "stdio", "command": "${CMD:-npx}", "args": ["-y", "fs"], "env": {"A": "1"}},
        "docs": {"type": "http", "url": "https://docs.example/mcp", "headers": {"X-A": "${A}"}, "timeout": 30000},
        "old": {"type": "sse", "url": "https://old.example/sse"}}}""",
    "cursor.json": '{"mcpServers": {"fs": {"command": "npx", "args": ["-y", "fs"], "env": {"A": "${env:A}"}}}}',
    "vscode.json": """{
        // servers of this project
        "inputs": [{"type": "promptString", "id": "key", "description": "API key", "password": true}],
        "servers": {
            "fs": {"type": "stdio", "command": "npx", "args": ["-y", "fs",], "env": {"A": 1, "B": null},
                   "sandboxEnabled": true},
            "docs": {"type": "http", "url": "https://docs.example/mcp", "headers": {"X-Key": "${input:key}"}}, /* end */
        },
    }""",
    "mcp_config.json": '{"mcpServers": {"docs": {"serverUrl": "https://docs.example/mcp", "headers": {"X-A": "1"}}}}',
    "gemini.json": """{"theme": "dark", "mcp": {"excluded": ["off"]}, "mcpServers": {
        "fs": {"command": "npx", "args": ["-y", "fs"], "cwd": "/", "timeout": 600000, "trust": true},
        "docs": {"httpUrl": "https://docs.example/mcp", "includeTools": ["a", "b"], "excludeTools": ["b"]},
        "off": {"url": "https://off.example/sse"}}}""",
    "gemini-allowed.json": """{"mcp": {"allowed": ["fs"]}, "mcpServers": {
        "fs": {"command": "npx", "args": ["-y", "fs"]}, "off": {"url": "https://off.example/sse"}}}""",
    "config.toml": """
        model = "x"
        [mcp_servers.fs]
        command = "npx"
        args = ["-y", "fs"]
        env = { A = "1" }
        env_vars = ["B"]
        startup_timeout_sec = 20
        enabled = false
        tool_timeout_sec = 45.5
        [mcp_servers.docs]
        url = "https://docs.example/mcp"
        bearer_token_env_var = "TOKEN"
        env_http_headers = { X-B = "B" }
        enabled_tools = ["a"]
        disabled_tools = ["b"]
        required = true
    """,
    "zed.json": '{"context_servers": {"fs": {"source": "custom", "command": "npx", "args": ["-y", "fs"], "env": {}}}}',
    "cline.json": '{"mcpServers": {"fs": {"command": "npx", "args": [], "disabled": true, "alwaysAllow": ["x"]}}}',
}
"""A file of each known host, by name."""

ENVIRONMENT = {"A": "a", "B": "beta", "TOKEN": "t0ken", "HOME": "/home/ada", "EMPTY": ""}


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def servers_of(path: Path) -> dict[str, ServerConfig]:
    return {server.name: server for server in read_config(path, folder="/project").servers}


def launched(entry: dict[str, object], **inputs: str) -> Launch:
    return launch_of(parse_server("s", entry, folder="/project"), ENVIRONMENT, inputs)


def problem(entry: object) -> str:
    return parse_server("s", entry).problem or ""


@pytest.mark.acceptance("1")
@pytest.mark.parametrize("name", FORMATS)
def test_read_config_reads_the_file_of_each_known_host(name: str, tmp_path: Path) -> None:
    servers = servers_of(written(tmp_path, name, FORMATS[name]))
    assert [server.problem for server in servers.values()] == [None] * len(servers)
    launches = {key: launch_of(server, ENVIRONMENT, {"key": "typed"}) for key, server in servers.items()}
    if "fs" in servers and name != "cline.json":
        assert launches["fs"].command == ["npx", "-y", "fs"]
    if "docs" in servers:
        assert launches["docs"].url == "https://docs.example/mcp"
    match name:
        case ".mcp.json":
            assert launches["docs"].headers == {"X-A": "a"}
            assert servers["docs"].call_seconds(60) == 30
        case "vscode.json":
            assert launches["fs"].env == {"A": "1", "B": None}
            assert launches["docs"].headers == {"X-Key": "typed"}
            assert servers["docs"].inputs == {"key": ("API key", True)} and servers["fs"].inputs == {}
        case "gemini-allowed.json":
            assert servers["off"].is_disabled and not servers["fs"].is_disabled
        case "gemini.json":
            assert servers["off"].is_disabled and not servers["fs"].is_disabled
            assert [servers["docs"].allows_tool(name) for name in "abc"] == [True, False, False]
            assert servers["fs"].allows_tool("c") and servers["fs"].call_seconds(60) == 600
        case "config.toml":
            assert launches["fs"].env == {"A": "1", "B": "beta"}
            assert launches["docs"].headers == {"X-B": "beta", "Authorization": "Bearer t0ken"}
            assert servers["fs"].call_seconds(60) == 45.5
            assert servers["fs"].is_disabled and not servers["docs"].is_disabled
        case "cline.json":
            assert servers["fs"].is_disabled


@pytest.mark.acceptance("2")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${A}", "a"), ("${env:A}", "a"), ("${A:-b}", "a"), ("${UNSET:-b}", "b"), ("${EMPTY:-b}", "b"),
        ("${UNSET:-}", ""), ("${input:id}", "typed ${A}"), ("${workspaceFolder}", "/project"),
        ("${workspaceFolderBasename}", "project"), ("${userHome}", os.path.expanduser("~")),
        ("${pathSeparator}", os.sep), ("$${A}", "${A}"), ("x${A}${B}y", "xabetay"), ("$A", "$A"),
    ],
)  # fmt: skip
def test_launch_of_replaces_each_form_of_a_variable_in_each_place(text: str, value: str) -> None:
    launch = launched({"command": "c", "args": [text], "env": {"V": text}}, id="typed ${A}")
    assert (launch.command, launch.env) == (["c", value], {"V": value})
    if "input:" not in text:
        launch = launched({"command": text, "cwd": text})
        assert (launch.command, launch.cwd) == ([value], os.path.abspath(os.path.join("/project", value)))
    remote = launched({"url": "https://x/" + text, "headers": {"H": text}}, id="typed ${A}")
    assert (remote.url, remote.headers) == ("https://x/" + value, {"H": value})


@pytest.mark.parametrize(
    "entry",
    [{"command": "TEXT"}, {"command": "c", "cwd": "TEXT"}, {"command": "c", "envFile": "TEXT"}, {"url": "TEXT"},
     {"url": "https://TEXT/mcp"}, {"url": "https://a.TEXT/mcp"}],
)  # fmt: skip
def test_input_cannot_choose_what_starts_because_the_user_types_it_after_the_question(entry: dict[str, str]) -> None:
    entry = {key: text.replace("TEXT", "${input:id:-https://x}") for key, text in entry.items()}
    with pytest.raises(ConfigurationError, match="the user first sees what starts"):
        launched({**entry}, id="https://typed")


@pytest.mark.acceptance("2")
def test_launch_of_reads_the_env_file_and_env_wins(tmp_path: Path) -> None:
    file = written(tmp_path, ".env", "# c\nexport A='x y'\nB=\"2\"\n C = ${A}\nnonsense\nD=4 \n")
    launch = launched({"command": "c", "envFile": str(file), "env": {"B": "3", "D": None}})
    assert launch.env == {"A": "x y", "B": "3", "C": "${A}", "D": None}
    before = launch.digest
    file.write_text("A=changed")
    assert launched({"command": "c", "envFile": str(file), "env": {"B": "3", "D": None}}).digest != before


def test_launch_of_refuses_a_large_env_file_and_reads_long_blanks_in_linear_time(tmp_path: Path) -> None:
    file = written(tmp_path, ".env", "A" + " " * 65_000 + "\nB=" + "\t" * 500 + "2")
    assert launched({"command": "c", "envFile": str(file)}).env == {"B": "2"}
    file.write_text("A=" + "x" * 65_536)
    with pytest.raises(ConfigurationError, match="more than 65536 bytes"):
        launched({"command": "c", "envFile": str(file)})


@pytest.mark.parametrize("value", [None, "/elsewhere"])
async def test_null_in_env_removes_an_inherited_variable(value: str | None) -> None:
    source = (
        "import os\nfrom mcp_ref import Server\ns = Server('s')\ns.tool('home')(lambda: str(os.environ.get('HOME')))\n"
    )
    env = {"HOME": value, "PYTHONPATH": str(ROOT)}
    entry = {"command": sys.executable, "args": ["-c", source + "s.run()"], "env": env}
    async with opened(Host({"s": entry}, startup_wait=15)) as host:
        assert (await host.call_tool("s.home")).text == str(value)


@pytest.mark.acceptance("3")
async def test_unset_variable_costs_only_its_server(tmp_path: Path) -> None:
    servers = {"bad": {"url": "https://x.example/${UNSET_TOKEN}"}, "off": {"command": "x", "disabled": True}}
    path = written(tmp_path, "mcp.json", json.dumps({"mcpServers": servers}))
    async with opened(Host(path, environment={})) as host:
        assert state(host, "bad") == "misconfigured"
        assert state(host, "off") == "disabled"
        message = host.status()[0].last_error or ""
    assert "'UNSET_TOKEN' is not set" in message and str(path) in message and "'bad', url" in message


@pytest.mark.acceptance("3")
@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"url": "https://[x"}, "the host or port cannot be parsed"),
        ({"url": "http://127.0.0.1:99999/"}, "the host or port cannot be parsed"),
        ({"url": "${TEXT}"}, "must begin with http:// or https:// and a host: '${TEXT}'"),
        ({"url": "http://user:word@127.0.0.1:1/"}, "contains credentials"),
        ({"url": "http://127.0.0.1:1/", "headers": {"A b": "c"}}, "the header 'A b' cannot be sent"),
        ({"url": "http://127.0.0.1:1/", "headers": {"A": "${TEXT}"}}, "the header 'A' cannot be sent"),
        ({"url": "http://127.0.0.1:1/", "headers": {"Content-Length": "1"}}, "the library itself writes the header"),
        ({"command": "true", "env": {"A=B": "c"}}, "the name of a variable contains '='"),
        ({"command": "a\0b"}, "contains NUL"),
        ({"command": "true", "cwd": "\ud800"}, "surrogates not allowed"),
    ],
)
async def test_entry_that_can_never_work_is_misconfigured(entry: dict[str, object], message: str) -> None:
    async with opened(Host({"s": entry}, environment={"TEXT": "some\ntext"}, startup_wait=15)) as host:
        assert (state(host, "s"), host.status()[0].next_try) == ("misconfigured", None)
        assert message in error(host, "s") and "server 's'" in error(host, "s")


@pytest.mark.parametrize("command", ["a\0b", "\ud800"])
async def test_command_in_a_file_that_can_never_start_is_misconfigured(command: str, tmp_path: Path) -> None:
    path = written(tmp_path, "mcp.json", json.dumps({"mcpServers": {"s": {"command": command}}}))
    async with opened(Host(path, approve=Person(), startup_wait=15)) as host:
        assert state(host, "s") == "misconfigured"


async def test_authorization_header_of_an_entry_replaces_the_authorization_of_the_host() -> None:
    asked: list[str] = []
    entry = {"url": "http://127.0.0.1:1/", "headers": {"authorization": "Bearer a"}}
    async with opened(Host({"s": entry}, authorization=lambda url: asked.append(url), startup_wait=15)) as host:
        assert state(host, "s") == "backing_off" and "no program listens there" in error(host, "s")
    assert asked == []


@pytest.mark.acceptance("4")
def test_unknown_and_ignored_keys_warn_once_and_suggest_a_key() -> None:
    others = {"trust": True, "sandboxEnabled": True, "icon": "i", "args": ["$HOME", "$HOME"]}
    config = parse_server("s", {"command": "c", "comand": "d", **others})
    texts = "\n".join(config.warnings)
    assert config.problem is None and len(config.warnings) == 5
    assert "did you mean 'command'" in texts and "without a sandbox" in texts and "write ${HOME}" in texts
    assert "did you mean 'cwd' or 'command'?" in parse_server("s", {"cmd": "c"}).warnings[0]


@pytest.mark.attack("consent-in-a-file")
@pytest.mark.acceptance("5")
@pytest.mark.parametrize("key", ["trust", "autoApprove", "alwaysAllow", "default_tools_approval_mode", "tools"])
def test_configuration_file_cannot_grant_consent(key: str) -> None:
    plain, trusting = parse_server("s", {"command": "c"}), parse_server("s", {"command": "c", key: True})
    assert trusting.entry == plain.entry
    assert "cannot grant consent" in trusting.warnings[0]


def test_configuration_messages_quote_only_the_start_of_a_long_name() -> None:
    long = "é" * 100_000
    unknown, variable = {"command": "c", long: 1}, {"command": f"${'v' * 100_000}"}
    texts = [*parse_server(long, unknown).warnings, *parse_server("s", variable).warnings]
    texts.append(parse_server(long, 5).problem or "")
    with pytest.raises(ConfigurationError, match="the same name") as raised:
        Configuration((parse_server(long, {}), parse_server(long, {})))
    assert [len(text) < 500 for text in (*texts, str(raised.value))] == [True] * 4


@pytest.mark.attack("same-name")
@pytest.mark.acceptance("6", "14")
def test_configuration_of_a_project_cannot_replace_a_server_of_the_user(tmp_path: Path) -> None:
    user = read_config(written(tmp_path, "user.json", '{"mcpServers": {"My mail": {"command": "mail"}}}'))
    project = read_config(written(tmp_path, "project.json", '{"mcpServers": {"my-MAIL": {"command": "evil"}}}'))
    with pytest.raises(ConfigurationError, match=r"project.json.*user.json.*the same name.*rename"):
        user + project
    with pytest.raises(ConfigurationError, match="the same name"):
        read_config(
            written(tmp_path, "both.json", '{"mcpServers": {"a b": {"command": "c"}, "a-b": {"command": "d"}}}')
        )


@pytest.mark.acceptance("7")
async def test_secrets_are_in_no_output(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    servers = {
        "env": {"command": "sh", "args": ["-c", "echo $T $U $API_KEY >&2; exit 1"],
                "env": {"T": "${TOKEN}", "U": "${input:id}", "API_KEY": "MARKER-key"}},
        "remote": {"url": "http://127.0.0.1:1/${TOKEN}", "headers": {"Authorization": "Bearer MARKER-literal"}},
        "bad": {"command": "c", "env": {"T": ["MARKER-list"]}},
    }  # fmt: skip
    text = {"servers": servers, "inputs": [{"id": "id", "description": "value"}]}
    path = written(tmp_path, "mcp.json", json.dumps(text))
    audit: list[str] = []
    shown: list[str] = []
    person = Person()

    async def ask(id: str, description: str, password: bool) -> str:
        return "MARKER-typed"

    environment = {**os.environ, "TOKEN": "MARKER-environment"}
    async with opened(Host(path, approve=person, ask=ask, audit=audit.append, environment=environment)) as host:
        for name in servers:
            with pytest.raises(Exception, match=name) as failure:
                await host.call_tool(f"{name}.x")
            shown.append(repr(failure.value))
        shown += [repr(host.status()), repr(read_config(path)), *audit, caplog.text]
        shown += [request.text() for request in person.asked] + [repr(request) for request in person.asked]
        shown += [
            repr(launch_of(server, environment, {"id": "MARKER-typed"})) for server in read_config(path).servers[:2]
        ]
    assert "***" in shown[0] and len(person.asked) == 2
    assert "MARKER" not in "\n".join(shown)


@pytest.mark.acceptance("2")
def test_variables_have_no_meaning_in_commands_and_urls_of_the_program() -> None:
    servers = read_servers({"a": ["c", "${A}"], "b": "https://x/${A}", "c": {"command": "c", "args": ["${A}"]}}).servers
    first, second, third = (launch_of(server, ENVIRONMENT, {}) for server in servers)
    assert (first.command, second.url, third.command) == (["c", "${A}"], "https://x/${A}", ["c", "a"])


@pytest.mark.acceptance("2")
async def test_user_types_each_input_once(tmp_path: Path) -> None:
    entry = {"command": "/nowhere/server", "env": {"K": "${input:id}"}}
    text = {"servers": {"a": entry, "b": entry}, "inputs": [{"id": "id", "description": "API key", "password": True}]}
    asked: list[tuple[str, str, bool]] = []

    async def ask(id: str, description: str, is_password: bool) -> str:
        asked.append((id, description, is_password))
        return "typed"

    path = written(tmp_path, "mcp.json", json.dumps(text))
    async with opened(Host(path, approve=Person(), ask=ask)) as host:
        assert state(host, "a") == state(host, "b") == "failed"
    assert asked == [("id", "API key", True)]


@pytest.mark.acceptance("8")
def test_read_config_starts_no_process_and_opens_no_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **options: object) -> None:
        raise AssertionError("reading a file must do nothing else")

    for module, names in ((subprocess, ["Popen"]), (os, ["system", "fork"]), (socket, ["socket", "getaddrinfo"])):
        for name in names:
            monkeypatch.setattr(module, name, fail)
    for name, text in FORMATS.items():
        assert read_config(written(tmp_path, name, text)).servers


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (3, "the entry must be an object, not 3"),
        ({}, "write a command or a url"),
        ({"command": "c", "url": "https://x"}, "not both"),
        ({"command": ["c"]}, 'command: expected a string, got ["c"]'),
        ({"command": "c", "args": "x"}, 'args: expected an array, got "x"'),
        ({"command": "c", "env": {"A": True}}, "env.A: expected a string, a number or null"),
        ({"command": "c", "headers": {}}, "headers cannot be used with a command"),
        ({"url": "https://x", "args": []}, "args cannot be used with a url"),
        ({"url": "ftp://x"}, "url must begin with http"),
        ({"url": "https://x", "type": "ws"}, "type 'ws' is not supported"),
        ({"url": "https://x", "type": "stdio"}, "type 'stdio' needs 'command'"),
        ({"command": "c", "timeout": 30}, "at least 1000, got 30; it is in milliseconds, so write 30000 for 30 s"),
        ({"command": "c", "tool_timeout_sec": 0}, "tool_timeout_sec: expected more than 0, got 0"),
        ({"command": "c", "timeout": 10**400}, "timeout: expected at most"),
        ({"command": "c", "startup_timeout_sec": float("nan")}, "got NaN"),
        ({"command": "c", "disabled": "yes"}, 'disabled: expected a boolean, got "yes"'),
        ({"url": "https://x", "httpUrl": "https://y"}, "'httpUrl' repeats 'url'"),
    ],
)
def test_parse_server_names_the_fault_and_the_advice(entry: object, message: str) -> None:
    assert message in problem(entry)
    with pytest.raises(ConfigurationError, match="server 's'"):
        launch_of(parse_server("s", entry), {}, {})


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "c", "args": ["${LONG}"]},
        {"command": "c", "args": ["${input:LONG}"]},
        {"command": "c", "env": {"LONG": "${X}"}},
        {"command": "c", "envFile": "LONG"},
        {"command": "c", "type": f"s{'-' * 10_000}se"},
        {"url": "https://x", "bearer_token_env_var": "LONG"},
        {"url": "https://x", "env_http_headers": {"LONG": "X"}},
        {"url": "https://x", "headers": {"LONG\n": "x"}},
        {"url": "https://x\nLONG"},
    ],
)
def test_launch_of_quotes_long_texts_only_in_part(entry: dict[str, object]) -> None:
    config = parse_server("s", json.loads(json.dumps(entry).replace("LONG", "n" * 10_000)))
    with pytest.raises(ConfigurationError) as failure:
        launch_of(config, {}, {}).check(config)
    assert len(str(failure.value)) < 500


@pytest.mark.parametrize(
    ("server", "why"),
    [
        ([], "command: expected at least 1 character"),
        (["x", 3], "args[0]: expected a string, got 3"),
        ("server.py", "url must begin with http:// or https://"),
        ("https://[x", "invalid URL"),
        (None, "the entry must be an object, not None"),
    ],
)
async def test_host_with_an_unusable_server_of_the_program_marks_it_misconfigured(server: Any, why: str) -> None:
    async with opened(Host({"s": server})) as host:
        assert state(host, "s") == "misconfigured" and why in error(host, "s")


def test_launch_of_quotes_the_path_of_the_env_file_as_written() -> None:
    with pytest.raises(ConfigurationError, match=re.escape("cannot read the envFile '${A}/x': No such file")):
        launch_of(parse_server("s", {"command": "c", "envFile": "${A}/x"}), {"A": "s3cret"}, {})


@pytest.mark.parametrize("kind", ["stdio", "STDIO"])
def test_type_ignores_case_and_hyphens(kind: str) -> None:
    assert not problem({"command": "c", "type": kind})
    assert not any(
        problem({"url": "https://x", "transport": each})
        for each in ("http", "streamable-http", "streamableHttp", "SSE")
    )


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", "{", "cannot read the configuration .*: it is not JSON: Expecting property name"),
        ("a.json", "[]", "must contain a JSON object"),
        ("a.json", "{}", "mcpServers, servers, context_servers, mcp_servers; it has none"),
        ("a.json", '{"mcpServers": {}, "servers": {}}', "it has mcpServers, servers"),
        ("a.json", '{"mcpServers": []}', "with an object: mcpServers, .*; it has mcpServers"),
        ("a.json", '{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}', "duplicate key 'a'"),
        ("a.yaml", "mcpServers:", "write these servers as JSON"),
        ("a.toml", "x = ", "cannot read the configuration"),
        ("a.json", '{"mcpServers":' + "[" * 100_000, "cannot read the configuration"),
        ("a.json", " " * 1024 * 1024 + "{}", "larger than"),
        ("a.toml", ".".join(["a"] * 33_000) + " = 1", "larger than 65536 bytes"),
        ("a.json", '{"mcpServers": {}} /* end', "a comment has no end"),
        ("a.json", "/*/ {}", "a comment has no end"),
        ("a.json", json.dumps({"mcpServers": {f"s{number}": {} for number in range(1001)}}), "lists 1001 servers"),
    ],
)
def test_read_config_raises_for_a_file_that_it_cannot_read(name: str, text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=message) as failure:
        read_config(written(tmp_path, name, text))
    assert str(tmp_path / name) in str(failure.value)


def test_read_config_takes_a_date_in_toml_as_text(tmp_path: Path) -> None:
    (server,) = read_config(written(tmp_path, "a.toml", "mcp_servers.a = {args = [2026-07-28], command = 'c'}")).servers
    assert server.command == ["c", "2026-07-28"]


def test_read_config_keeps_comment_signs_inside_strings(tmp_path: Path) -> None:
    text = '{"mcpServers": {"a": {"url": "https://x/*y*/", "headers": {"H": "a,} // b"}}}, // end\n}'
    (server,) = read_config(written(tmp_path, "a.json", text)).servers
    assert server.entry["url"] == "https://x/*y*/" and server.entry["headers"] == {"H": "a,} // b"}


@pytest.mark.parametrize(
    "text",
    [
        '"' + '\\"' * 250_000,
        "/* " * 250_000,
        "{" + ",".join(f'"{number}":1' for number in range(50_000)) + ',"49999":1}',
    ],
    ids=["unclosed string", "unclosed comments", "duplicate key"],
)
def test_read_config_takes_linear_time_for_a_hostile_file(text: str, tmp_path: Path) -> None:
    path = written(tmp_path, "a.json", text)
    start = time.process_time()
    with contextlib.suppress(ConfigurationError):
        read_config(path)
    assert time.process_time() - start < 2  # in quadratic time, each of these files takes a minute or more


def test_read_config_suggests_known_keys_for_few_unknown_keys(tmp_path: Path) -> None:
    entry = {"command": "x", **{f"comman{number}": 1 for number in range(20)}}
    (server,) = read_config(written(tmp_path, "a.json", json.dumps({"mcpServers": {"a": entry}}))).servers
    assert len(server.warnings) == 20
    assert ["did you mean 'command'" in warning for warning in server.warnings] == [True] * 10 + [False] * 10


def test_find_configs_lists_existing_files_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / ".vscode").mkdir()
    path = written(tmp_path, ".vscode/mcp.json", "not even JSON")
    assert find_configs(tmp_path) == [path]


def test_toml_file_with_thousands_of_dots_is_refused_at_once(tmp_path: Path) -> None:
    start = time.process_time()
    with pytest.raises(ConfigurationError, match="at most 4000 dots"):
        read_config(written(tmp_path, "config.toml", "a." * 32_000 + "a = 1"))
    assert time.process_time() - start < 5.0
