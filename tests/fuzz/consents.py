"""Target: the consent to the start of a server. It ends if another program runs, or if secrets go elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import os
import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from mcp_ref.host.approval import Allow, Approval
from mcp_ref.host.configuration import read_config
from mcp_ref.host.hosted import HostedServer
from mcp_ref.host.policy import Account, HostOptions, Policy
from tests.fuzz.questions import check_question

PROCESSES: list[dict[str, object]] = [
    {"command": "tool", "args": ["server.py"]},
    {"command": "tool", "args": ["${workspaceFolder}/server.py", "--token", "${A_TOKEN}"], "cwd": "sub"},
    {"command": "./tool", "args": ["${MODE}", "x y", "z"], "env": {"LEVEL": "1", "API_KEY": "${A_TOKEN}"}},
    {"command": "tool", "args": ["-y", "${MODE:-fast}"], "envFile": ".env", "env_vars": ["MODE", "A_TOKEN"]},
    {"command": "${PROGRAM}", "args": ["server.py"], "cwd": "/"},
    {"command": "tool", "args": [], "cwd": "${workspaceFolder}", "env": {"X": "${MODE}", "TERM": None}},
]
"""Entries of processes. The folder of a scene contains all programs and files that they name."""
URLS: list[dict[str, object]] = [
    {"url": "https://a.example/mcp", "headers": {"X-Mode": "${MODE}", "Authorization": "Bearer ${A_TOKEN}"}},
    {"url": "https://${HOST}/mcp?key=${A_TOKEN}", "bearer_token_env_var": "A_TOKEN"},
    {"url": "https://${HOST:-b.example}:8443/${MODE}", "env_http_headers": {"X-Key": "A_TOKEN", "X-B": "MODE"}},
]


@dataclass
class Scene:
    """Everything that the start of one server depends on. All paths are below `root`."""

    root: Path
    entry: dict[str, object]
    folder: str = "first"
    file: str = "mcp.json"
    key: str = "server"
    bin: str = "bin"
    installed: bool = False
    """True if another `tool` was installed in a folder that comes first on the PATH."""
    env_file: dict[str, str] = field(default_factory=lambda: {"COLOR": "red", "API_KEY": "k1"})
    environment: dict[str, str] = field(
        default_factory=lambda: {"MODE": "m", "A_TOKEN": "t1", "B_TOKEN": "b", "PROGRAM": "tool", "HOST": "c.example"}
    )

    def args(self) -> list[str]:
        found = self.entry["args"]
        assert isinstance(found, list)
        return found

    def mapping(self, key: str) -> dict[str, object]:
        found = self.entry.setdefault(key, {})
        assert isinstance(found, dict)
        return found

    def uses(self, name: str) -> bool:
        return name in json.dumps(self.entry)

    @contextlib.contextmanager
    def made(self) -> Iterator[Path]:
        """Write the files, and work in the folder. Return the path of the configuration file."""
        path, before, folder = self.root / self.file, os.getcwd(), self.root / self.folder
        path.write_text(json.dumps({"mcpServers": {self.key: self.entry}}))
        (folder / ".env").write_text("".join(f"{name}={value}\n" for name, value in self.env_file.items()))
        os.chdir(folder)
        first = self.root / "early" / "tool"
        first.touch(0o755) if self.installed else first.unlink(missing_ok=True)
        try:
            with patch.dict(
                os.environ, {"PATH": os.pathsep.join([str(self.root / "early"), str(self.root / self.bin), "/usr/bin"])}
            ):
                yield path
        finally:
            os.chdir(before)


def _changes_of_any(rng: random.Random, scene: Scene) -> Iterator[Callable[[], object]]:
    yield lambda: setattr(scene, "file", "other.json")
    yield lambda: setattr(scene, "key", "server2")
    for name in ("MODE", "HOST"):
        if scene.uses(name):
            yield lambda name=name: scene.environment.update({name: f"{name}.changed"})  # type: ignore[misc]
    if scene.uses("A_TOKEN"):
        yield lambda: setattr(scene, "entry", json.loads(json.dumps(scene.entry).replace("A_TOKEN", "B_TOKEN")))
    if "url" in scene.entry:
        url = str(scene.entry["url"])
        headers = scene.mapping("headers")
        yield lambda: scene.entry.update(url=url + "/x")
        yield lambda: scene.entry.update(url=url.replace("https", "http"))
        yield lambda: scene.entry.update(
            url=url.replace(".example", ".example.evil").replace("${HOST}", "evil.example")
        )
        yield lambda: headers.update({"X-New": "1"})
        if headers:
            yield lambda: headers.update(
                {f"{name}2" if name == "X-Mode" else name: text for name, text in headers.items()}
            )
            yield lambda: headers.update({rng.choice(sorted(headers)): "Bearer literal"})


def _changes_of_a_process(rng: random.Random, scene: Scene) -> Iterator[Callable[[], object]]:
    new, args = f"new{rng.randrange(100)}", scene.args()
    yield lambda: scene.entry.update(command="tool2" if scene.entry["command"] == "tool" else "tool")
    yield lambda: args.insert(rng.randint(0, len(args)), new)
    if args:
        place = rng.randrange(len(args))
        yield lambda: args.pop(place)
        yield lambda: args.__setitem__(place, args[place] + " ")
        yield lambda: args.__setitem__(slice(place, place + 2), [" ".join(args[place : place + 2])])
    if scene.entry.get("cwd") != "/":
        yield lambda: setattr(scene, "folder", "second")
    yield lambda: setattr(scene, "bin", "bin2")
    if scene.entry["command"] == "tool":
        yield lambda: setattr(scene, "installed", True)
    if scene.uses("PROGRAM"):
        yield lambda: scene.environment.update(PROGRAM="tool2")
    yield lambda: scene.entry.update(cwd="sub" if scene.entry.get("cwd") != "sub" else ".")
    yield lambda: scene.mapping("env").update({"LEVEL": "2"})
    yield lambda: scene.mapping("env").update({"HOME_PAGE": "x"})
    yield lambda: scene.mapping("env").update({"LANG": None})
    if "envFile" in scene.entry:
        yield lambda: scene.env_file.update(COLOR="blue")
        yield lambda: scene.env_file.update(MORE="1")
        yield lambda: scene.env_file.pop("COLOR")
        yield lambda: scene.env_file.pop("API_KEY")


def _make_root(root: Path) -> None:
    for folder in ("first", "second"):
        (root / folder / "sub").mkdir(parents=True)
        for name in ("server.py", "sub/server.py"):
            (root / folder / name).touch()
    (root / "early").mkdir()
    for folder in ("bin", "bin2", "first", "second", "first/sub", "second/sub"):
        (root / folder).mkdir(exist_ok=True)
        for name in ("tool", "tool2"):
            (root / folder / name).touch(0o755)


def check_consent(rng: random.Random) -> None:
    """Check that a consent is valid for equal starts, also with new secrets, and that each change is asked again."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        _make_root(root)
        scene = Scene(root, copy.deepcopy(rng.choice([*PROCESSES, *URLS])))
        approvals: dict[str, str] = {}
        assert is_asked(scene, approvals), "the first start"
        assert not is_asked(scene, approvals), "an equal start"
        scene.environment["A_TOKEN"] = scene.env_file["API_KEY"] = "replaced"
        assert not is_asked(scene, approvals), "new secrets"
        scene.entry = dict(rng.sample(sorted(scene.entry.items()), len(scene.entry)))
        assert not is_asked(scene, approvals), "the keys in another order"
        changed = copy.deepcopy(scene)
        changes = list(_changes_of_any(rng, changed))
        if "command" in scene.entry:
            changes += _changes_of_a_process(rng, changed)
        rng.choice(changes)()
        if changed != scene:
            assert is_asked(changed, approvals), f"{changed} is not asked after the consent to {scene}"
        assert not is_asked(scene, approvals), "the first start again"
    check_question(rng)


def is_asked(scene: Scene, approvals: dict[str, str]) -> bool:
    """Prepare the start, without starting anything. Return True if the user was asked. The user always says yes."""
    return asyncio.run(_is_asked(scene, approvals))


async def _is_asked(scene: Scene, approvals: dict[str, str]) -> bool:
    asked: list[str] = []

    async def approve(request: Approval) -> Allow:
        asked.append(request.kind)
        assert request.warnings == () or request.url is not None, request.warnings
        return Allow("always")

    with scene.made() as path:
        options = HostOptions(path, approve=approve, approvals=approvals, environment=scene.environment)
        policy = Policy(options)
        config = read_config(path).servers[0]
        await HostedServer(config, policy, Account(policy), asyncio.Semaphore()).prepare()
    return bool(asked)
