"""The servers of a host, as a configuration file lists them.

Each host has its own file, but all files say nearly the same. This module reads them all:

    mcpServers        Claude Desktop, Claude Code (.mcp.json), Cursor, Windsurf, Gemini CLI, Cline, Inspector
    servers, inputs   VS Code (.vscode/mcp.json)
    context_servers   Zed
    mcp_servers       Codex (config.toml)

    {"mcpServers": {
        "files":   {"command": "npx", "args": ["-y", "server-filesystem", "${HOME}/notes"]},
        "weather": {"url": "https://weather.example/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}}}

A cloned project can contain such a file. So reading a file starts no process and opens no connection. A file can never
grant consent: `trust`, `autoApprove` and the like are ignored. A `ServerConfig` contains the texts as written, with
`${TOKEN}`, so that a program can show them; launch.py replaces the variables. An invalid entry stops only its server.

Spec:  architecture/index (the specification does not define configuration files)
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypedDict, cast, get_type_hints

from ..jsonrpc.messages import JSON, Object
from .names import server_name

TOP_KEYS = ("mcpServers", "servers", "context_servers", "mcp_servers")
"""The keys under which files list servers. A file must have exactly one of them."""

MAX_FILE = 1024 * 1024
"""Maximum size of a configuration file, in bytes (1 MiB)."""
MAX_SERVERS = 1000
"""Maximum number of servers in one file."""
MAX_SUGGESTIONS = 10
"""Maximum number of unknown keys of one server for which a warning suggests a known key."""


class Entry(TypedDict, total=False):
    """The keys of one server that the host reads. `_OTHER_NAMES` lists their synonyms."""

    type: str
    command: str
    args: list[str]
    env: dict[str, str | float | None]
    envFile: str
    env_vars: list[str]
    cwd: str
    url: str
    headers: dict[str, str]
    env_http_headers: dict[str, str]
    bearer_token_env_var: str
    disabled: bool
    enabled: bool
    required: bool
    includeTools: list[str]
    excludeTools: list[str]
    roots: list[str]
    startup_timeout_sec: float
    tool_timeout_sec: float
    timeout: float
    """The time limit of a request, in milliseconds."""


_TYPES = get_type_hints(Entry)
_OTHER_NAMES = {
    "transport": "type", "serverUrl": "url", "httpUrl": "url", "http_headers": "headers",
    "enabled_tools": "includeTools", "disabled_tools": "excludeTools",
}  # fmt: skip
_PROCESS_KEYS = {"args", "env", "envFile", "env_vars", "cwd"}
_URL_KEYS = {"headers", "env_http_headers", "bearer_token_env_var"}
_TRANSPORTS = {"stdio": "command", "local": "command", "http": "url", "streamablehttp": "url", "sse": "url"}
"""The values of `type`, without case, hyphens and underscores, and the key that the type needs."""

_CONSENT = re.compile(r"trust|autoApprove|alwaysAllow|.*approval_mode|tools")
_IGNORED = re.compile(r"dev|oauth|auth|scopes|icon|description|name|protocolEra|source")


class ConfigurationError(ValueError):
    """A configuration that cannot be used. The text names the file, the server, the key and the value."""


@dataclass(frozen=True)
class ServerConfig:
    """One server as a file or a program describes it."""

    name: str
    """The server name (names.py)."""
    key: str
    """The name in the file."""
    entry: Entry = field(repr=False, default_factory=Entry)
    file: str | None = None
    """Path of the file, or None if the program itself gave the server."""
    folder: str = "."
    """The folder that `${workspaceFolder}` means."""
    problem: str | None = None
    """The reason why the server cannot be started, or None."""
    warnings: tuple[str, ...] = ()

    @property
    def command(self) -> list[str]:
        """The command and its arguments as written. Empty for a URL."""
        return [self.entry["command"], *self.entry.get("args", [])] if "command" in self.entry else []

    @property
    def is_disabled(self) -> bool:
        return self.entry.get("disabled", False) or not self.entry.get("enabled", True)

    @property
    def place(self) -> str:
        """The file and the server, for an error message."""
        return f"{self.file}: server {self.key!r}" if self.file is not None else f"server {self.key!r}"

    @property
    def digest(self) -> str:
        """The SHA-256 of the server as written."""
        return hashlib.sha256(json.dumps([self.file, self.name, self.entry], sort_keys=True).encode()).hexdigest()

    def call_seconds(self, default: float) -> float:
        """Return the time limit of a request, in seconds."""
        return self.entry.get("tool_timeout_sec", self.entry.get("timeout", default * 1000) / 1000)

    def allows_tool(self, name: str) -> bool:
        """Return True if the file neither excludes the tool, nor includes only other tools."""
        return name in self.entry.get("includeTools", [name]) and name not in self.entry.get("excludeTools", [])

    def input_ids(self) -> list[str]:
        """Return the ids of the inputs that the server uses, in order and without duplicates."""
        return list(dict.fromkeys(re.findall(r"\$\{input:([^{}]*)\}", json.dumps(self.entry, ensure_ascii=False))))


@dataclass(frozen=True)
class Configuration:
    """The servers of one or several files. Raise ConfigurationError if two servers have the same name."""

    servers: tuple[ServerConfig, ...] = ()
    inputs: Mapping[str, tuple[str, bool]] = field(default_factory=dict)
    """The values that the user types for `${input:id}`: by id, the description, and True for a password."""

    def __post_init__(self) -> None:
        first: dict[str, ServerConfig] = {}
        for server in self.servers:
            other = first.setdefault(server.name.lower(), server)
            if other is not server:
                # A cloned project could otherwise replace a server that the user trusts.
                place = f"{other.place} has the same name, {other.name!r}"
                raise ConfigurationError(f"{server.place}: {place}; rename one of them")

    def __add__(self, other: Configuration) -> Configuration:
        """Return the servers of both configurations, such as a user's and a project's."""
        return Configuration(self.servers + other.servers, {**other.inputs, **self.inputs})


def read_config(path: str | os.PathLike[str], *, folder: str | os.PathLike[str] | None = None) -> Configuration:
    """Read a configuration file. This starts no process and opens no connection.

    Args:
        path: Path of a JSON file, which can have comments and trailing commas, or of a TOML file.
        folder: The folder that `${workspaceFolder}` means. Defaults to the current directory.

    Returns:
        The servers. A server with an invalid entry has a `problem`. `read_config(a) + read_config(b)` joins two files.

    Raises:
        ConfigurationError: If the file cannot be read or parsed, lists no servers, or lists a name twice.
    """
    file = os.path.abspath(path)
    try:
        with open(file, "rb") as opened:
            data = opened.read(MAX_FILE + 1)
        document = _parse(data, Path(file).suffix)
        return _read_document(document, file, os.getcwd() if folder is None else os.fspath(folder))
    except ConfigurationError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"cannot read the configuration {file}: {error}") from None


def _parse(data: bytes, suffix: str) -> Object:
    if len(data) > MAX_FILE:
        raise ValueError(f"the file is larger than {MAX_FILE} bytes")
    text = data.decode("utf-8-sig")
    if suffix in (".yaml", ".yml"):
        raise ValueError('YAML is not supported; write these servers as JSON: {"mcpServers": {...}}')
    if suffix == ".toml":
        return cast("Object", tomllib.loads(text))
    for _ in range(2):  # first the comments, then trailing commas; line numbers stay as they are
        text = _COMMENT.sub(_without_comment, text)
    document = json.loads(text, object_pairs_hook=_unique)
    if not isinstance(document, dict):
        raise ValueError("the file must contain a JSON object")
    return document


# A string or comment without an end matches too. Otherwise `re` would search for its end again at the next quote.
_COMMENT = re.compile(r'("(?:[^"\\\n]|\\.)*"?)|//[^\n]*|/\*.*?(?:\*/|\Z)|,(?=\s*[}\]])', re.DOTALL)


def _without_comment(found: re.Match[str]) -> str:
    """Return a string as written, and only the line breaks of a comment."""
    if found[0].startswith("/*") and (len(found[0]) < 4 or not found[0].endswith("*/")):
        raise ValueError("a comment has no end; close it with */")
    return found[1] or "\n" * found[0].count("\n")


def _unique(pairs: list[tuple[str, JSON]]) -> Object:
    members = dict(pairs)
    if len(members) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise ValueError(f"duplicate key {next(name for name in counts if counts[name] > 1)!r:.100}; remove one")
    return members


def _read_document(document: Object, file: str, folder: str) -> Configuration:
    present = [key for key in TOP_KEYS if key in document]
    listed = document[present[0]] if len(present) == 1 else None
    if not isinstance(listed, dict):
        found = ", ".join(present) or "none of them"
        raise ValueError(f"the file must have one of these keys, with an object: {', '.join(TOP_KEYS)}; it has {found}")
    if len(listed) > MAX_SERVERS:
        raise ValueError(f"the file lists {len(listed)} servers; the limit is {MAX_SERVERS}")
    servers = [parse_server(key, entry, file, folder) for key, entry in listed.items()]
    policy = document.get("mcp")  # of Gemini CLI
    if isinstance(policy, dict):
        excluded, allowed = policy.get("excluded"), policy.get("allowed")
        off = set(map(str, excluded)) if isinstance(excluded, list) else set()
        off |= listed.keys() - set(map(str, allowed)) if isinstance(allowed, list) else set()
        servers = [replace(s, entry={**s.entry, "disabled": True}) if s.key in off else s for s in servers]
    inputs = document.get("inputs")
    described = [each for each in inputs if isinstance(each, dict)] if isinstance(inputs, list) else []
    return Configuration(tuple(servers), {
        str(each.get("id")): (str(each.get("description", "")), each.get("password") is True)
        for each in described
    })  # fmt: skip


def parse_server(key: str, entry: object, file: str | None = None, folder: str = ".") -> ServerConfig:
    """Return one server. If its entry is invalid, the server has a `problem`, and the host does not start it."""
    config = ServerConfig(server_name(key), key, Entry(), file, folder)
    if not isinstance(entry, dict):
        return replace(config, problem=f"{config.place}: the entry must be an object, not {entry!r:.80}")
    kept: dict[str, JSON] = {}
    warnings: list[str] = []
    faults = []
    for written, value in entry.items():
        name = _OTHER_NAMES.get(written, written)
        if name not in _TYPES:
            warnings.append(f"{config.place}: {_ignored(written, len(warnings) < MAX_SUGGESTIONS)}")
        elif name in kept:
            faults.append(f"{written!r} repeats {name!r}; write one of them")
        else:
            kept[name] = value
    faults += [f"{name} {fault}" for name, value in kept.items() if (fault := _value_fault(name, value))]
    fault = "; ".join(faults) or _transport_fault(kept)
    if fault is not None:
        return replace(config, problem=f"{config.place}: {fault}", warnings=tuple(warnings))
    config = replace(config, entry=cast("Entry", kept))
    for variable in sorted(set(re.findall(r"\$[A-Za-z_]\w*", " ".join([*config.command, str(kept.get("url", ""))])))):
        warnings.append(f"{config.place}: {variable} stays as it is; write ${{{variable[1:]}}} for a variable")
    return replace(config, warnings=tuple(warnings))


def _ignored(key: str, suggests: bool) -> str:
    """Return the warning about a key that has no effect. `suggests`: True to name a known key that is similar."""
    if _CONSENT.fullmatch(key):
        return f"{key!r} is ignored: a file cannot grant consent; approve= of the program asks the user"
    if key.startswith("sandbox"):
        return f"{key!r} is ignored: the server runs without a sandbox"
    known = [*_TYPES, *_OTHER_NAMES] if suggests and not _IGNORED.fullmatch(key) else []
    near = difflib.get_close_matches(key, known, n=1)
    return f"the key {key!r} is ignored" + (f"; did you mean {near[0]!r}?" if near else "")


def _value_fault(key: str, value: object) -> str | None:
    """Return the fault of one value, or None. The text quotes no environment variable and no header."""
    expected, is_valid = _EXPECTED[_TYPES[key]]
    if key == "timeout" and not (is_valid(value) and cast("float", value) >= 1000):
        return f"is in milliseconds; write 30000 for 30 s, not {value!r:.80}"
    shown = "" if "values" in expected else f", not {value!r:.80}"
    return None if is_valid(value) else f"must be {expected}{shown}"


def _is_texts(value: object, *others: type) -> bool:
    """Return True if the values of an object are strings, or have one of the `others` types."""
    return isinstance(value, dict) and all(type(each) in (str, *others) for each in value.values())


_EXPECTED: dict[object, tuple[str, Callable[[object], bool]]] = {
    str: ("a string", lambda value: isinstance(value, str) and value != ""),
    bool: ("true or false", lambda value: isinstance(value, bool)),
    float: ("a positive number", lambda value: type(value) in (int, float) and cast("float", value) > 0),
    list[str]: ("a list of strings", lambda value: isinstance(value, list) and all(type(e) is str for e in value)),
    dict[str, str]: ("an object whose values are strings", _is_texts),
    dict[str, str | float | None]: (
        "an object whose values are strings", lambda value: _is_texts(value, int, float, type(None))
    ),
}  # fmt: skip
"""For each type of a value: the words for an error, and the check."""


def _transport_fault(entry: Mapping[str, object]) -> str | None:
    """Return the fault of the choice between a command and a URL, or None."""
    kind = str(entry.get("type", "")).lower().replace("-", "").replace("_", "")
    if "type" in entry and kind not in _TRANSPORTS:
        return f"type {entry['type']!r:.80} is not supported; write stdio, http or sse"
    if ("command" in entry) == ("url" in entry):
        return "write a command or a url" + (", not both" if "url" in entry else "")
    if kind and _TRANSPORTS[kind] not in entry:
        return f"type {entry['type']!r} needs {_TRANSPORTS[kind]!r}"
    if "url" in entry and not str(entry["url"]).startswith(("http://", "https://", "${")):
        return f"url must begin with http:// or https://, not {entry['url']!r:.80}"
    used, foreign = ("command", _URL_KEYS) if "command" in entry else ("url", _PROCESS_KEYS)
    wrong = ", ".join(sorted(entry.keys() & foreign))
    return f"{wrong} cannot be used with a {used}" if wrong else None


_PROJECT_FILES = (
    ".mcp.json", "mcp.json", ".cursor/mcp.json", ".vscode/mcp.json", ".gemini/settings.json", ".codex/config.toml",
    ".zed/settings.json",
)  # fmt: skip
_USER_FILES = (
    ".claude.json", ".cursor/mcp.json", ".gemini/settings.json", ".codex/config.toml", ".config/zed/settings.json",
    ".codeium/windsurf/mcp_config.json", ".config/Code/User/mcp.json", ".config/Claude/claude_desktop_config.json",
    "Library/Application Support/Claude/claude_desktop_config.json",
    "AppData/Roaming/Claude/claude_desktop_config.json",
)  # fmt: skip


def find_configs(folder: str | os.PathLike[str]) -> list[Path]:
    """Return the existing configuration files of known hosts, of a project's folder and of the user. Read no file."""
    paths = [*(Path(folder, name) for name in _PROJECT_FILES), *(Path.home() / name for name in _USER_FILES)]
    return [path for path in dict.fromkeys(paths) if path.is_file()]
