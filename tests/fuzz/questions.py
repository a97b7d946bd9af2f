"""Part of the target consent: the texts that the user reads before a server of a file starts.

Each case writes variables in random forms: literally, as the default of a variable or of an input, below the folder of
the file, and in the `envFile`. The question must show each place that the server gets, with a warning, must show no
secret, and must be asked again for another place.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import tempfile
from dataclasses import dataclass
from pathlib import Path

from mcp_ref.host.approval import Allow, Approval
from mcp_ref.host.configuration import read_config
from mcp_ref.host.hosted import HostedServer
from mcp_ref.host.launch import launch_of
from mcp_ref.host.policy import Account, HostOptions, Policy

NAMES = [
    "SETTINGS", "API_URL", "TOKEN_FILE", "SECRET_PATH", "API_KEY", "MY_TOKEN", "PASSWORD", "KUBECONFIG", "MODE",
    "AUTHORIZATION_URL", "KEY_HELPER", "APP_CREDENTIALS", "x", "TOKEN_2",
]  # fmt: skip
SECRETS = ("API_KEY", "MY_TOKEN", "PASSWORD")
"""The names whose value people replace, unless it is a place."""
ENVIRONMENT = {"HOME": os.path.expanduser("~"), "PATH": "/usr/bin"}
FORMS = ["{}", "${{UNSET:-{}}}", "${{input:id:-{}}}", "${{input:other:-{}}}"]
"""Forms of a literal value. An `inputs` of the file describes `id`, and the user types nothing for it."""
PLACES = [
    "/usr/made/later/{}", "./{}/x", "~/{}", "../{}", "https://{}.example/", "C:\\\\{}", "file:///{}", "/usr/{} x",
]  # fmt: skip
PARTS = ["${{workspaceFolder}}/{}", "${{HOME}}/{}"]
"""Places with a variable whose value is not secret. They cannot be a default."""
COLUMNS = [None, 40, 80, 200]


@dataclass
class Scene:
    """A file with one server, and its `envFile`."""

    folder: Path
    env: dict[str, str]
    env_file: dict[str, str]

    def write(self) -> Path:
        path = self.folder / "mcp.json"
        entry = {"command": "tool", "env": self.env, "envFile": str(self.folder / ".env")}
        path.write_text(json.dumps({"mcpServers": {"s": entry}, "inputs": [{"id": "id"}]}))
        (self.folder / ".env").write_text("".join(f"{name}={value}\n" for name, value in self.env_file.items()))
        return path


def check_question(rng: random.Random) -> None:
    """Check the question of a start with random variables."""
    with tempfile.TemporaryDirectory() as folder:
        scene = Scene(Path(folder), {}, {})
        names = rng.sample(NAMES, rng.randint(1, 4))
        places, secrets = set[str](), set[str]()
        for number, name in enumerate(names):
            mark = f"m{number}x{rng.randrange(1000)}"
            if rng.random() < 0.7:
                places.add(name)
                written = rng.choice(PLACES)
            else:
                secrets |= {mark} if name in (*SECRETS, "TOKEN_2") else set()
                written = "{}"
            if rng.random() < 0.3:
                scene.env_file[name] = written.format(mark)
            elif name in places and rng.random() < 0.2:
                scene.env[name] = rng.choice(PARTS).format(mark)
            else:
                scene.env[name] = rng.choice(FORMS).format(written.format(mark))
        _check(rng, scene, places, secrets)


def _check(rng: random.Random, scene: Scene, places: set[str], secrets: set[str]) -> None:
    asked, sent = asyncio.run(prepared(scene))
    start = asked[0]
    text = start.text()
    for secret in secrets:
        assert secret not in repr(start) and secret not in text, f"{secret} is shown for {scene}"
    for name in places:
        shown = [line for line in text.splitlines() if line.startswith(f'variable: "{name}" ')]
        written = json.dumps(sent[name])[1:-1]
        assert any(written in line for line in shown), f"{sent[name]!r} is not shown for {scene}: {text}"
        assert sum(warning.startswith(f'"{name}" ') for warning in start.warnings) == 1, f"{name}: {start.warnings}"
    columns = rng.choice(COLUMNS)
    rows = start.text(columns).split("\n")
    mark = "    | "
    assert "".join(row.removeprefix(mark) if row.startswith(mark) else f"\n{row}" for row in rows) == f"\n{text}"
    assert columns is None or max(map(len, rows)) <= columns
    before = digest(scene)
    for name, value in list(scene.env_file.items()):
        scene.env_file[name] = value + "b"
        # only a secret can have a new value; a name such as KEY_HELPER is not a secret
        is_secret = name in SECRETS and name not in places
        assert (digest(scene) == before) == is_secret, f"another {name}: {scene}"
        scene.env_file[name] = value


def digest(scene: Scene) -> str:
    """Return the digest for which a consent to the start is valid."""
    config = read_config(scene.write(), folder=scene.folder).servers[0]
    return launch_of(config, ENVIRONMENT, {"id": ""}).digest


async def prepared(scene: Scene) -> tuple[list[Approval], dict[str, str]]:
    """Ask for the start, without starting anything. Return the questions, and the variables that the server gets."""
    asked: list[Approval] = []

    async def approve(request: Approval) -> Allow:
        asked.append(request)
        return Allow("always")

    async def nothing(id: str, description: str, is_password: bool) -> str:
        return ""

    options = HostOptions(scene.write(), approve=approve, ask=nothing, environment=ENVIRONMENT)
    policy = Policy(options)
    config = read_config(scene.folder / "mcp.json", folder=scene.folder).servers[0]
    client = await HostedServer(config, policy, Account(policy), asyncio.Semaphore()).prepare()
    env = client.connector.target.options.get("env") or {}
    return asked, {name: value for name, value in env.items() if value is not None}
