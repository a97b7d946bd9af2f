"""The servers of a host, as a configuration file lists them.

Each host has its own file, but all files say nearly the same. The host reads them all:

    mcpServers        Claude Desktop, Claude Code (.mcp.json), Cursor, Windsurf, Gemini CLI, Cline, Inspector
    servers, inputs   VS Code (.vscode/mcp.json)
    context_servers   Zed
    mcp_servers       Codex (config.toml)

    {"mcpServers": {
        "files":   {"command": "npx", "args": ["-y", "server-filesystem", "${HOME}/notes"]},
        "weather": {"url": "https://weather.example/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}}}

A file is found, not executed: a cloned project can contain one. So reading starts no process and opens no connection. A
file can ask for a server, but can never grant consent: `trust`, `autoApprove` and the like are ignored.

A `ServerConfig` contains the texts as written, with `${TOKEN}`. So a program can show it to the user. launch.py
replaces the variables. A server with an invalid entry, or with an unset variable, does not start. The others do.

Spec:  architecture; the specification does not define configuration files
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias, cast

from ..jsonrpc.messages import JSON, Object
from .names import server_name

TOP_KEYS = ("mcpServers", "servers", "context_servers", "mcp_servers")
"""The keys under which files list servers. A file must have exactly one of them."""

MAX_FILE = 1024 * 1024
"""Maximum size of a configuration file, in bytes (1 MiB)."""

_TRANSPORTS = {"stdio": "command", "http": "url", "streamablehttp": "url", "sse": "url", "local": "command"}
"""The values of `type`, without case and hyphens, and the key that the type needs."""

_NAMES = {
    "transport": "type", "serverUrl": "url", "httpUrl": "url", "http_headers": "headers", "enabled": "enabled",
    "enabled_tools": "includeTools", "disabled_tools": "excludeTools",
}  # fmt: skip
"""The different names of one key."""

_PROCESS_KEYS = {"command", "args", "env", "envFile", "env_vars", "cwd"}
_URL_KEYS = {"url", "headers", "env_http_headers", "bearer_token_env_var"}
_COMMON_KEYS = {
    "type", "disabled", "enabled", "required", "includeTools", "excludeTools", "roots", "startup_timeout_sec",
    "tool_timeout_sec", "timeout",
}  # fmt: skip
_KNOWN = _PROCESS_KEYS | _URL_KEYS | _COMMON_KEYS

_CONSENT = re.compile(r"trust|autoApprove|alwaysAllow|.*approval_mode|tools")
_IGNORED = re.compile(r"sandbox\w*|dev|oauth|auth|scopes|icon|description|name|protocolEra|source")

_BARE_VARIABLE = re.compile(r"\$[A-Za-z_]\w*")


class ConfigurationError(ValueError):
    """A configuration that cannot be used. The text names the file, the server, the key and the value."""


@dataclass(frozen=True)
class InputVariable:
    """A value that the user types, for `${input:id}`. Only VS Code's files have it."""

    description: str = ""
    password: bool = False


@dataclass(frozen=True)
class ServerConfig:
    """One server as its file or program describes it, with variables such as `${TOKEN}` unreplaced."""

    name: str
    """The server name (names.py)."""
    key: str
    """The name in the file."""
    entry: Object = field(repr=False, default_factory=dict)
    """The entry, with one name for each key."""
    file: str | None = None
    """Path of the file, or None if the program itself gave the server."""
    folder: str = "."
    """The folder that `${workspaceFolder}` means."""
    problem: str | None = None
    """The reason why the server cannot be started, or None."""
    warnings: tuple[str, ...] = ()

    @property
    def command(self) -> list[str] | None:
        """The command and its arguments as written, or None for a URL."""
        command = self.entry.get("command")
        return None if command is None else [str(command), *_strings(self.entry, "args")]

    @property
    def url(self) -> str | None:
        """The URL as written, or None for a command."""
        return cast("str | None", self.entry.get("url"))

    @property
    def cwd(self) -> str | None:
        """The working directory as written, or None for the program's own."""
        return cast("str | None", self.entry.get("cwd"))

    @property
    def is_disabled(self) -> bool:
        return self.entry.get("disabled") is True or self.entry.get("enabled") is False

    @property
    def is_required(self) -> bool:
        return self.entry.get("required") is True

    @property
    def env_names(self) -> tuple[str, ...]:
        """The names of the environment variables, without their values, which can be secret."""
        return (*cast("dict[str, object]", self.entry.get("env", {})), *_strings(self.entry, "env_vars"))

    @property
    def roots(self) -> list[str]:
        """The directories that the file wants to give to the server."""
        return _strings(self.entry, "roots")

    @property
    def startup_seconds(self) -> float | None:
        return cast("float | None", self.entry.get("startup_timeout_sec"))

    @property
    def call_seconds(self) -> float | None:
        """The time limit of a request, in seconds. `timeout` is in milliseconds."""
        milliseconds = cast("float | None", self.entry.get("timeout"))
        default = None if milliseconds is None else milliseconds / 1000
        return cast("float | None", self.entry.get("tool_timeout_sec", default))

    def allows_tool(self, name: str) -> bool:
        """Return True if the file neither excludes the tool, nor includes only other tools."""
        included = self.entry.get("includeTools")
        return (included is None or name in _strings(self.entry, "includeTools")) and name not in _strings(
            self.entry, "excludeTools"
        )

    def input_ids(self) -> list[str]:
        """Return the ids of the inputs that the entry uses, in order."""
        found = re.findall(r"\$\{input:([^{}]*)\}", json.dumps(self.entry, ensure_ascii=False))
        return list(dict.fromkeys(found))

    @property
    def place(self) -> str:
        """The file and the server, for an error message."""
        return f"{_place(self.file)}server {self.key!r}"

    @property
    def digest(self) -> str:
        """The SHA-256 of the entry as written. `Host.reload` restarts a server whose digest changed."""
        return hashlib.sha256(json.dumps([self.file, self.name, self.entry], sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Configuration:
    """The servers of one or several files, or of a program."""

    servers: tuple[ServerConfig, ...] = ()
    inputs: Mapping[str, InputVariable] = field(default_factory=dict)


Pairs: TypeAlias = "list[tuple[str, JSON]]"


def read_config(path: str | os.PathLike[str], *, folder: str | os.PathLike[str] | None = None) -> Configuration:
    """Read a configuration file. This starts no process and opens no connection.

    Args:
        path: Path of a JSON file, which can have comments and trailing commas, or of a TOML file.
        folder: The folder that `${workspaceFolder}` means. Defaults to the current directory.

    Returns:
        The servers. A server with an invalid entry has a `problem`.

    Raises:
        ConfigurationError: If the file cannot be read or parsed, or does not list servers.
    """
    file = os.path.abspath(path)
    try:
        with open(file, "rb") as opened:
            data = opened.read(MAX_FILE + 1)
    except OSError as error:
        raise ConfigurationError(f"cannot read the configuration {file}: {error.strerror or error}") from None
    if len(data) > MAX_FILE:
        raise ConfigurationError(f"{file} is larger than {MAX_FILE} bytes: it is not a configuration of MCP servers")
    try:
        document = parse_document(data.decode("utf-8-sig"), Path(file).suffix)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"cannot parse {file}: {error}") from None
    return parse_config(document, file, os.fspath(folder) if folder is not None else os.getcwd())


def parse_document(text: str, suffix: str) -> Object:
    """Return the content of a file as JSON. Raise ValueError for invalid text, or for duplicate keys."""
    if suffix in (".yaml", ".yml"):
        raise ValueError('YAML is not supported; write these servers as JSON: {"mcpServers": {...}}')
    if suffix == ".toml":
        return cast("Object", tomllib.loads(text))
    document = json.loads(_without_comments(text), object_pairs_hook=_unique)
    if not isinstance(document, dict):
        raise ValueError("the file must be a JSON object")
    return document


_JSONC = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', re.DOTALL)


def _without_comments(text: str) -> str:
    """Remove comments, then trailing commas. Strings and line numbers stay as they are."""
    for _ in range(2):  # a trailing comma can have a comment after it
        text = _JSONC.sub(lambda found: found[1] or "\n" * found[0].count("\n"), text)
    return text


def _unique(pairs: Pairs) -> Object:
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"the key {name!r} is there twice; remove one")
    return dict(pairs)


def parse_config(document: Object, file: str | None, folder: str = ".") -> Configuration:
    """Return the servers of a parsed file. `read_config` documents the rules and the exception."""
    where = _place(file)
    present = [key for key in TOP_KEYS if key in document]
    if len(present) != 1:
        found = f"it has {', '.join(present)}" if present else "it has none of them"
        raise ConfigurationError(f"{where}the file must have exactly one of {', '.join(TOP_KEYS)}: {found}")
    listed = document[present[0]]
    if not isinstance(listed, dict):
        raise ConfigurationError(f"{where}{present[0]} must be an object of servers by name, not {listed!r:.80}")
    policy = document.get("mcp") if present == ["mcpServers"] else None  # of Gemini CLI
    allowed, excluded = (policy.get(key) if isinstance(policy, dict) else None for key in ("allowed", "excluded"))
    servers = []
    for key, entry in listed.items():
        config = parse_server(key, entry, file, folder)
        if key in (excluded or ()) or (isinstance(allowed, list) and key not in allowed):  # type: ignore[operator]
            config = replace(config, entry={**config.entry, "disabled": True})
        servers.append(config)
    return Configuration(check_names(servers), _read_inputs(document.get("inputs")))


def parse_server(key: str, entry: object, file: str | None = None, folder: str = ".") -> ServerConfig:
    """Return one server. If its entry is invalid, the server has a `problem`, and no program can start it.

    Args:
        key: The name in the file.
        entry: The entry, an object.
        file: Path of the file. None means that the program itself gave the entry.
        folder: The folder that `${workspaceFolder}` means.
    """
    where = f"{_place(file)}server {key!r}"
    name = server_name(key)
    if not isinstance(entry, dict):
        return ServerConfig(name, key, {}, file, folder, f"{where}: the entry must be an object, not {entry!r:.80}")
    kept: Object = {}
    warnings, faults = [], []
    for written, value in entry.items():
        known = _NAMES.get(written, written)
        if known in _KNOWN and known in kept:
            faults.append(f"{written!r} repeats {known!r}; write one of them")
        elif known in _KNOWN:
            kept[known] = value
        else:
            warnings.append(f"{where}: {_ignored(written)}")
    faults += [f"{name}: {fault}" for name, value in kept.items() if (fault := _value_fault(name, value))]
    fault = "; ".join(faults) or _transport_fault(kept)
    warnings += [f"{where}: {text} stays as it is; for a variable, write ${{NAME}}" for text in _bare_variables(kept)]
    return ServerConfig(name, key, kept, file, folder, f"{where}: {fault}" if fault else None, tuple(warnings))


def _ignored(key: str) -> str:
    """Return the warning about a key that has no effect."""
    if _CONSENT.fullmatch(key):
        return f"{key!r} is ignored: a file cannot grant consent; the user is asked, or the program's approve= decides"
    if key.startswith("sandbox"):
        return f"{key!r} is ignored: the server runs without a sandbox"
    if _IGNORED.fullmatch(key):
        return f"{key!r} is ignored"
    near = difflib.get_close_matches(key, _KNOWN | _NAMES.keys(), n=1)
    return f"the unknown key {key!r} is ignored" + (f"; did you mean {near[0]!r}?" if near else "")


def _value_fault(key: str, value: JSON) -> str | None:
    """Return the fault of one value, or None."""
    is_text_map = isinstance(value, dict) and all(
        isinstance(each, str) or (key == "env" and (each is None or type(each) in (int, float)))
        for each in value.values()
    )
    is_number = type(value) in (int, float) and cast(float, value) > 0
    if key == "timeout":
        if not is_number or cast(float, value) < 1000:
            return f"timeout is in milliseconds; write 30000 for 30 s, not {value!r:.80}"
    elif key in ("env", "headers", "env_http_headers"):
        if not is_text_map:
            return "must be an object whose values are strings"  # the value can contain a secret
    elif key in ("args", "env_vars", "includeTools", "excludeTools", "roots"):
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            return f"must be a list of strings, not {value!r:.80}"
    elif key in ("disabled", "enabled", "required"):
        if not isinstance(value, bool):
            return f"must be true or false, not {value!r:.80}"
    elif key in ("startup_timeout_sec", "tool_timeout_sec"):
        if not is_number:
            return f"must be a positive number of seconds, not {value!r:.80}"
    elif not isinstance(value, str) or not value:
        return f"must be a string, not {value!r:.80}"
    return None


def _transport_fault(entry: Object) -> str | None:
    """Return the fault of the choice of the transport, or None."""
    kind = entry.get("type")
    needs = None if kind is None else _TRANSPORTS.get(str(kind).lower().replace("-", "").replace("_", ""))
    if kind is not None and needs is None:
        return f"type {kind!r:.80} is not supported; write stdio, http or sse"
    if ("command" in entry) == ("url" in entry):
        return "write a command or a url" + (", not both" if "url" in entry else "")
    if "url" in entry and not str(entry["url"]).startswith(("http://", "https://", "${")):
        return f"the url must begin with http:// or https://, not {entry['url']!r:.80}"
    if needs is not None and needs not in entry:
        return f"type {kind!r} needs {needs!r}"
    foreign = entry.keys() & (_URL_KEYS if "command" in entry else _PROCESS_KEYS)
    if foreign:
        other = "a url" if "command" in entry else "a command"
        return f"{', '.join(sorted(foreign))} works only with {other}"
    return None


def _bare_variables(entry: Object) -> list[str]:
    texts = [str(entry.get("command", "")), str(entry.get("url", "")), *_strings(entry, "args")]
    return sorted({found for text in texts for found in _BARE_VARIABLE.findall(text)})


def _strings(entry: Object, key: str) -> list[str]:
    return cast("list[str]", entry.get(key, []))


def _place(file: str | None) -> str:
    return f"{file}: " if file is not None else ""


def _read_inputs(listed: JSON) -> dict[str, InputVariable]:
    found = {}
    for each in listed if isinstance(listed, list) else []:
        if isinstance(each, dict) and isinstance(id := each.get("id"), str):
            found[id] = InputVariable(str(each.get("description", "")), each.get("password") is True)
    return found


def check_names(servers: list[ServerConfig]) -> tuple[ServerConfig, ...]:
    """Return the servers. If two keys have one server name, only the first server can start."""
    checked: dict[str, ServerConfig] = {}
    for server in servers:
        first = checked.get(server.name.lower())
        if first is None:
            checked[server.name.lower()] = server
        else:
            fault = f"{_place(server.file)}the keys {first.key!r} and {server.key!r} have one name, {server.name!r}"
            raise ConfigurationError(f"{fault}; rename one")
    return tuple(checked.values())


def merge_configurations(user: Configuration, project: Configuration) -> Configuration:
    """Return the servers of a user and of a project.

    Raises:
        ConfigurationError: If a server of the project has the name of a user's server. A cloned project could otherwise
            replace a server that the user trusts.
    """
    names = {server.name.lower(): server for server in user.servers}
    for server in project.servers:
        if server.name.lower() in names:
            raise ConfigurationError(
                f"{_place(server.file)}server {server.key!r}: {names[server.name.lower()].file} has a server with this "
                "name, and a project cannot replace it; rename the server of the project"
            )
    return Configuration((*user.servers, *project.servers), {**project.inputs, **user.inputs})


def find_configs(folder: str | os.PathLike[str]) -> list[Path]:
    """Return the configuration files of known hosts, in a project's folder and for the user. Read none of them."""
    home, project = Path.home(), Path(folder)
    in_project = (".mcp.json", "mcp.json", ".cursor/mcp.json", ".vscode/mcp.json", ".gemini/settings.json",
                  ".codex/config.toml", ".zed/settings.json")  # fmt: skip
    of_user = (".claude.json", ".cursor/mcp.json", ".gemini/settings.json", ".codex/config.toml",
               ".codeium/windsurf/mcp_config.json", ".config/zed/settings.json", ".config/Code/User/mcp.json",
               ".config/Claude/claude_desktop_config.json",
               "Library/Application Support/Claude/claude_desktop_config.json",
               "AppData/Roaming/Claude/claude_desktop_config.json")  # fmt: skip
    paths = [*(project / name for name in in_project), *(home / name for name in of_user)]
    return [path for path in dict.fromkeys(paths) if path.is_file()]
