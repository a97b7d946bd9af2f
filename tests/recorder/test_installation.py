"""The recorder in a host's configuration file: put in front of one server, and taken out without a trace."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcp_ref.host.configuration import read_config
from mcp_ref.recorder.installation import InstallationError, plan_installation, plan_removal
from tests.settings import HOME

CLAUDE = """{
  // my servers
  "mcpServers": {
    "files": {"command": "npx", "args": ["-y", "server --", "${HOME}/a b"], "env": {"A": "1"}, "trust": true},
    "plain": { "command" : "uvx"  },
    "odd, name": {"args": [  ], "command": "C:\\\\tools\\\\x.exe", /* a } comment */ "disabled": false,},
    "web": {"url": "https://mcp.example/mcp"},
    "another": {"command": "python3", "args": ["-P", "-m", "another", "record", "--", "x"]},
  },
  "other": {"args": ["-m"]}
}
"""
LINES = '{"servers": {"a": {\n\t"type": "stdio",\r\n\t"command": "node",\n\t"args": [\n\t\t"a.js",\n\t\t"--x"\n\t]\n}}}'
ZED = '{"theme": "x", "context_servers": {"a": {"source": "custom", "command": "node", "args": []}}}'
CODEX = """model = "o"
[mcp_servers.other]
command = "x"
args = []

[mcp_servers."a"] # mine
args = [
  'a"b', "[x]",
]
command = 'npx'
[mcp_servers.a.env]
command = "no"
"""


@pytest.mark.parametrize(
    ("name", "text", "server"),
    [
        *(("claude.json", CLAUDE, server) for server in ("files", "plain", "odd, name")),
        ("mcp.json", LINES, "a"), ("settings.json", ZED, "a"), ("config.toml", CODEX, "a"),
    ],
)  # fmt: skip
def test_record_install_changes_one_server_and_uninstall_brings_every_byte_back(
    tmp_path: Path, name: str, text: str, server: str
) -> None:
    path = tmp_path / name
    path.write_bytes(text.encode())
    path.chmod(0o640)
    before = {each.key: each for each in read_config(path).servers}
    plan_installation(str(path), server, "/r/ü b.jsonl").write()
    assert "/r/ü b.jsonl" in path.read_text("utf-8")
    after = {each.key: each for each in read_config(path).servers}
    assert after[server].command[-len(before[server].command) - 2 :] == ["/r/ü b.jsonl", "--", *before[server].command]
    assert repr(str(HOME)) in after[server].command[3]  # from which the recorder is imported
    assert after[server].entry.get("env") == before[server].entry.get("env")
    assert {key: each.entry for key, each in after.items() if key != server} == {
        key: each.entry for key, each in before.items() if key != server
    }
    with pytest.raises(InstallationError, match="already"):
        plan_installation(str(path), server, "/r/b.jsonl")
    plan_removal(str(path), server).write()
    assert path.read_bytes() == text.encode() and path.stat().st_mode & 0o777 == 0o640
    assert [each.name for each in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("server", "advice"),
    [("web", "record FILE --http"), ("none", "it has files"), ("files", "not recorded"), ("another", "not recorded")],
)
def test_record_install_and_uninstall_say_why_a_server_is_not_suitable(
    tmp_path: Path, server: str, advice: str
) -> None:
    path = tmp_path / "claude.json"
    path.write_text(CLAUDE)
    with pytest.raises(InstallationError, match=advice):
        if advice == "not recorded":
            plan_removal(str(path), server)
        else:
            plan_installation(str(path), server, "x")


@pytest.mark.parametrize(
    ("name", "text", "advice"),
    [
        ("a.toml", '[mcp_servers.a]\ncommand = "x"\n[other]\nargs = []', "add `args = \\[\\]`"),
        ("a.toml", '[mcp_servers.a]\nargs = []\n"command" = "x"', "add `args = \\[\\]`"),
        ("a.toml", 'mcp_servers = {a = {command = "x", args = []}}', "the table .* is not where it is expected"),
        ("a.json", "[", "cannot read the configuration"),
        ("a.json", '{"servers": {"a": {"command": 5}}}', "expected a string, got 5"),
    ],
)
def test_record_install_refuses_a_file_of_an_unusual_form(tmp_path: Path, name: str, text: str, advice: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InstallationError, match=advice):
        plan_installation(str(tmp_path / name), "a", "x")


def test_record_install_refuses_a_file_that_changed_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "claude.json"
    path.write_text(CLAUDE)
    plan = plan_installation(str(path), "files", "/r/a.jsonl")
    path.write_text(ZED)
    with pytest.raises(InstallationError, match="changed"):
        plan.write()
    assert path.read_text() == ZED


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a file away")
def test_record_install_by_root_leaves_the_file_to_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "claude.json"
    path.write_text(CLAUDE)
    os.chown(path, 12345, 12346)
    plan_installation(str(path), "files", "/r/a.jsonl").write()
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 12346)
