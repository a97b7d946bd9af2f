"""Target: configuration files of hosts."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import tempfile
from pathlib import Path

from mcp_ref.host.configuration import Configuration, ConfigurationError, ServerConfig, read_config
from mcp_ref.host.launch import launch_of
from mcp_ref.jsonrpc.messages import JSON, Object
from tests.fuzz.inputs import JSON_FRAGMENTS, damaged, within_limits, word

ENTRIES: dict[str, list[JSON]] = {
    "command": ["npx", "${A}", "", 1], "args": [["-y", "${A:-b}", "$A"], ["${input:i}"], "x", [1]], "trust": [True],
    "env": [{"TOKEN": "${A}", "N": 1, "U": None}, {"B": True}, []], "url": ["https://a/${A}", "file:///x", "x"],
    "headers": [{"Authorization": "Bearer ${env:A}"}, {"A": 1}], "type": ["stdio", "http", "sse", "x", 1, []],
    "disabled": [True, False, "x"], "timeout": [1000, 1, float("inf"), "x"], "startup_timeout_sec": [1, 0, -1, True],
    "autoApprove": [["x"]], "cwd": ["/", "${B}"], "comand": ["x"], "includeTools": [["a"], "a"], "roots": [["."]],
    "bearer_token_env_var": ["A", "${A}"], "transport": ["stdio"], "env_vars": [["A", "B"]], "envFile": ["x"],
}  # fmt: skip
INPUTS: list[JSON] = [[], [{"id": "i"}], 1]
FRAGMENTS = [
    *JSON_FRAGMENTS, b"//", b"/*", b"*/", b'\\"', b"${", b"${input:", b"$$", b"mcpServers", b"'", b"#",
]  # fmt: skip
MAX_CONFIG = 100_000
"""Maximum size of a configuration file of this target, in bytes."""


def check_configuration(rng: random.Random) -> None:
    """Check that comments change nothing, that a file grants no consent, and that only ConfigurationError is raised."""
    servers: Object = {
        word(rng): {name: rng.choice(ENTRIES[name]) for name in rng.sample(sorted(ENTRIES), rng.randint(1, 5))}
        for _ in range(rng.randint(0, 3))
    }
    if rng.random() < 0.02:
        many: Object = {f"k{number}": 1 for number in range(9000)}
        servers |= rng.choice([many, {"a": many}, {"a": {"command": "x", "env": many}}])
    document: Object = {rng.choice(["mcpServers", "servers", "x"]): servers, "inputs": rng.choice(INPUTS)}
    text = json.dumps(document, indent=rng.choice([None, 1]))
    commented = re.sub(r'("(?:[^"\\]|\\.)*"|[\[{,])', r'/* " */\1 // ]" */' + "\n", text)
    toml = "\n".join(f"{json.dumps(name)} = {_toml(member)}" for name, member in document.items())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "mcp.json")
        plain = _read(path, text.encode())
        assert _read(path, commented.encode()) == plain
        changed = _read(path, damaged(rng, text.encode(), FRAGMENTS, MAX_CONFIG))
        other = _read(path.with_suffix(".toml"), damaged(rng, toml.encode(), FRAGMENTS, MAX_CONFIG))
    for configuration in (plain, changed, other):
        for server in configuration.servers[:20] if configuration is not None else ():
            with within_limits():
                _check_server(server)


def _toml(item: JSON) -> str:
    if isinstance(item, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {_toml(member)}" for name, member in item.items()) + "}"
    return "[" + ", ".join(map(_toml, item)) + "]" if isinstance(item, list) else json.dumps(item)


def _read(path: Path, data: bytes) -> Configuration | None:
    path.write_bytes(data)
    try:
        with within_limits():
            return read_config(path)
    except ConfigurationError as error:
        assert len(str(error)) < 5000, str(error)[:100]
        return None


def _check_server(server: ServerConfig) -> None:
    assert re.fullmatch("[0-9a-f]{64}", server.digest) and server.call_seconds(60) > 0
    assert not server.entry.keys() & {"trust", "autoApprove"}
    assert server.allows_tool("a") in (True, False) and server.is_disabled in (True, False)
    with contextlib.suppress(ConfigurationError):
        launch = launch_of(server, {"A": "a", **os.environ}, {"i": "typed"})
        assert (launch.url is None) == bool(launch.command) and server.problem is None
