"""The servers of a host, as a program or a configuration file lists them.

Each known host has its own file format, but these differ little, so this module reads them all:

    mcpServers        Claude Desktop, Claude Code (.mcp.json), Cursor, Windsurf, Gemini CLI, Cline, Inspector
    servers, inputs   VS Code (.vscode/mcp.json)
    context_servers   Zed
    mcp_servers       Codex (config.toml)

    {"mcpServers": {
        "files":   {"command": "npx", "args": ["-y", "server-filesystem", "${HOME}/notes"]},
        "weather": {"url": "https://weather.example/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}}}

Because a cloned project may contain such a file, reading it starts no process and opens no connection, and the file can
never grant consent: keys such as `trust` and `autoApprove` are ignored. A `ServerConfig` contains the texts as written,
with `${TOKEN}`, so that a program can show them; launch.py replaces the variables when the server starts. An invalid
entry stops only its own server.

Threats:
    consent-in-a-file: A cloned project grants itself the user's consent with `trust` or `autoApprove` in its file.
        These keys have no effect, and a warning says so.
    same-name: A cloned project misuses the user's consent to a server, by listing another server of the same name. Two
        servers with one name are an error.

Spec:  architecture/index (the specification does not define configuration files)
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
from typing import Annotated, TypeAlias, TypedDict, cast

from ..client.target import InProcessServer
from ..jsonrpc.messages import JSON, Object
from ..lib.fields import CheckedFields
from ..lib.jsonschema import ValidationError, compile_schema
from ..lib.typed import schema_of
from .names import server_name

TOP_KEYS = ("mcpServers", "servers", "context_servers", "mcp_servers")
"""The keys under which files list servers. A file must have exactly one of them."""

MAX_FILE = 1024 * 1024
"""Maximum size of a configuration file, in bytes (1 MiB)."""
MAX_TOML_FILE = 64 * 1024
"""Maximum size of a TOML file, in bytes (64 KiB), because `tomllib` takes quadratic time for a key with many dots."""
MAX_TOML_DOTS = 4000
"""Maximum number of dots in a TOML file, because that time grows with the dots."""
MAX_SERVERS = 1000
"""Maximum number of servers in one file."""
MAX_SUGGESTIONS = 10
"""Maximum number of unknown keys of one server for which a warning suggests a known key."""


_Text = Annotated[str, {"minLength": 1}]
_Seconds = Annotated[float, {"exclusiveMinimum": 0, "maximum": 1e9}]


class Entry(TypedDict, total=False):
    """The keys of one server that the host reads. `_OTHER_NAMES` lists their synonyms."""

    type: _Text
    command: _Text
    args: list[str]
    env: dict[str, str | float | None]
    envFile: _Text
    env_vars: list[str]
    cwd: _Text
    url: _Text
    headers: dict[str, str]
    env_http_headers: dict[str, str]
    bearer_token_env_var: _Text
    disabled: bool
    enabled: bool
    required: bool
    includeTools: list[str]
    excludeTools: list[str]
    roots: list[str]
    startup_timeout_sec: _Seconds
    tool_timeout_sec: _Seconds
    timeout: Annotated[float, {"minimum": 1000, "maximum": 1e12}]
    """The time limit of a request, in milliseconds."""


_SCHEMA = compile_schema(schema_of(Entry))
_OTHER_NAMES = {
    "transport": "type", "serverUrl": "url", "httpUrl": "url", "http_headers": "headers",
    "enabled_tools": "includeTools", "disabled_tools": "excludeTools",
}  # fmt: skip
_PROCESS_KEYS = {"args", "env", "envFile", "env_vars", "cwd"}
_URL_KEYS = {"headers", "env_http_headers", "bearer_token_env_var"}
_TRANSPORTS = {"stdio": "command", "local": "command", "http": "url", "streamablehttp": "url", "sse": "url"}
"""The values of `type`, in lower case without hyphens and underscores, and the key that each of them needs."""

_IGNORED = {
    "trust|autoApprove|alwaysAllow|.*approval_mode|tools":
        ": a file cannot grant consent; approve= of the program asks the user",
    "sandbox.*": ": the server runs without a sandbox",
    "dev|oauth|auth|scopes|icon|description|name|protocolEra|source": "",
}  # fmt: skip
"""The keys of known hosts that have no effect here, as regular expressions, each with the end of its warning."""


class ConfigurationError(ValueError):
    """A configuration that cannot be used. The text names the file, the server, the key and the value."""


@dataclass(frozen=True)
class ServerConfig:
    """One server as a file or a program describes it."""

    name: str
    """The name that users and models see, made from `key` (names.py)."""
    key: str
    """The name as the file spells it."""
    entry: Entry = field(repr=False, default_factory=Entry)
    file: str | None = None
    """Path of the file, or None if the program itself gave the server."""
    folder: str = "."
    """The folder that `${workspaceFolder}` means."""
    inputs: Mapping[str, tuple[str, bool]] = field(default_factory=dict)
    """The inputs to ask the user for: id in `${input:id}` -> (description, True for a password)."""
    server: InProcessServer | None = None
    """The server, if it runs in this program. Its entry is empty."""
    problem: str | None = None
    """The reason why the server cannot be started, or None."""
    warnings: tuple[str, ...] = ()

    @property
    def command(self) -> list[str]:
        """The command and its arguments as written. Empty for a URL."""
        return [self.entry["command"], *self.entry.get("args", [])] if "command" in self.entry else []

    @property
    def transport(self) -> str:
        """The transport: "stdio", "http" or "memory"."""
        if self.server is not None:
            return "memory"
        return "http" if "url" in self.entry else "stdio"

    @property
    def is_disabled(self) -> bool:
        return self.entry.get("disabled", False) or not self.entry.get("enabled", True)

    @property
    def place(self) -> str:
        """The file and the server, for an error message."""
        return f"{self.file}: server {self.key!r:.100}" if self.file is not None else f"server {self.key!r:.100}"

    @property
    def digest(self) -> str:
        """The SHA-256 of the server as written. A server that changes needs a new consent."""
        return hashlib.sha256(json.dumps([self.file, self.name, self.entry], sort_keys=True).encode()).hexdigest()

    def call_seconds(self, default: float) -> float:
        """Return the time limit of a request, in seconds."""
        if "tool_timeout_sec" in self.entry:
            return self.entry["tool_timeout_sec"]
        return self.entry["timeout"] / 1000 if "timeout" in self.entry else default

    def allows_tool(self, name: str) -> bool:
        """Return True if the tool is not in `excludeTools`, and is in `includeTools` if the file has that key."""
        included, excluded = self.entry.get("includeTools"), self.entry.get("excludeTools", [])
        return (included is None or name in included) and name not in excluded


@dataclass(frozen=True)
class Configuration(CheckedFields):
    """The servers of one or several files. Raise ConfigurationError if two servers have the same name."""

    servers: tuple[ServerConfig, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        first: dict[str, ServerConfig] = {}
        for server in self.servers:
            other = first.setdefault(server.name.lower(), server)
            if other is not server:
                # Otherwise a cloned project could replace a server that the user trusts.
                fault = f"{other.place} has the same name, {other.name!r}; rename one of them"
                raise ConfigurationError(f"{server.place}: {fault}")

    def __add__(self, other: Configuration) -> Configuration:
        """Return the servers of both configurations, such as a user's and a project's."""
        return Configuration(self.servers + other.servers)


ServersLike: TypeAlias = (
    "Mapping[str, list[str] | str | Mapping[str, object] | InProcessServer] | Configuration | str | os.PathLike[str]"
)
"""Servers by name, a `Configuration`, or the path of a configuration file. A server is a command, a URL, an entry as in
a file, or a `Server` of this program."""


def check_servers(servers: ServersLike) -> None:
    """Raise TypeError if the value cannot be the servers of a host."""
    if not isinstance(servers, (Configuration, str, os.PathLike, Mapping)):
        kinds = "a mapping from name to server, a Configuration, or the path of a file"
        raise TypeError(f"servers must be {kinds}, not an object of {type(servers).__name__}")


def read_servers(servers: ServersLike) -> Configuration:
    """Return the servers that a program gives to its host."""
    check_servers(servers)
    if isinstance(servers, Configuration):
        return servers
    if isinstance(servers, str | os.PathLike):
        return read_config(servers)
    found = []
    for key, value in servers.items():
        if isinstance(value, InProcessServer):
            found.append(ServerConfig(server_name(key), key, server=value))
        elif isinstance(value, str):
            found.append(parse_server(key, {"url": escaped(value)}))
        elif isinstance(value, (list, tuple)):
            words = [escaped(word) for word in value] or [""]  # `parse_server` refuses an empty command
            found.append(parse_server(key, {"command": words[0], "args": words[1:]}))
        else:
            found.append(parse_server(key, dict(value) if isinstance(value, Mapping) else value))
    return Configuration(tuple(found))


def escaped(text: str) -> str:
    """Return a text in which `${` has no meaning, because the program's own commands and URLs have no variables."""
    if not isinstance(text, str):
        return text  # `parse_server` reports it, as it does for a file
    return text.replace("${", "$${")


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
        return Configuration(_servers_of(document, file, os.fspath(folder or os.getcwd())))
    except ConfigurationError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"cannot read the configuration {file}: {why}") from None


def _parse(data: bytes, suffix: str) -> Object:
    limit = MAX_TOML_FILE if suffix == ".toml" else MAX_FILE
    if len(data) > limit:
        raise ValueError(f"the file is larger than {limit} bytes")
    text = data.decode("utf-8-sig")
    if suffix in (".yaml", ".yml"):
        raise ValueError('YAML is not supported; write these servers as JSON: {"mcpServers": {...}}')
    if suffix == ".toml":
        if text.count(".") > MAX_TOML_DOTS:
            raise ValueError(f"a TOML file must have at most {MAX_TOML_DOTS} dots")
        document: Object = json.loads(json.dumps(tomllib.loads(text), default=str))  # dates become strings
        return document
    for _ in range(2):  # twice, because a comma can become a trailing one when the comment after it is removed
        text = _STRING_OR_COMMENT.sub(_without_comment, text)
    try:
        document = json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise ValueError("the file must contain a JSON object")
    return document


# Each match is a string (in the group), a comment or a trailing comma. A string or comment without an end matches too,
# because `re` would otherwise search the rest of the file from each quotation mark.
_STRING_OR_COMMENT = re.compile(r'("(?:[^"\\\n]|\\.)*"?)|//[^\n]*|/\*.*?(?:\*/|\Z)|,(?=\s*[}\]])', re.DOTALL)


def _without_comment(found: re.Match[str]) -> str:
    """Return a string unchanged. Replace a comment by its line breaks, so that later lines keep their numbers."""
    if found[0].startswith("/*") and not found[0][2:].endswith("*/"):
        raise ValueError("a comment has no end; close it with */")
    return found[1] or "\n" * found[0].count("\n")


def _unique(pairs: list[tuple[str, JSON]]) -> Object:
    members: Object = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"duplicate key {name!r:.100}; remove one")
        members[name] = value
    return members


def _servers_of(document: Object, file: str, folder: str) -> tuple[ServerConfig, ...]:
    present = [key for key in TOP_KEYS if key in document]
    listed = document[present[0]] if len(present) == 1 else None
    if not isinstance(listed, dict):
        found = ", ".join(present) or "none of them"
        keys = ", ".join(TOP_KEYS)
        raise ValueError(f"the file must have exactly one of these keys, with an object: {keys}; it has {found}")
    if len(listed) > MAX_SERVERS:
        raise ValueError(f"the file lists {len(listed)} servers; the limit is {MAX_SERVERS}")
    inputs: dict[str, tuple[str, bool]] = {}
    for declared in _as_list(document.get("inputs")):
        if isinstance(declared, dict):
            description, is_password = str(declared.get("description", "")), declared.get("password") is True
            inputs[str(declared.get("id"))] = (description, is_password)
    servers = {key: parse_server(key, entry, file, folder, inputs) for key, entry in listed.items()}
    for key in servers.keys() & _disabled_servers(document, listed):
        servers[key] = replace(servers[key], entry={**servers[key].entry, "disabled": True})
    return tuple(servers.values())


def _disabled_servers(document: Object, listed: Object) -> set[str]:
    """Return the keys of the servers that Gemini CLI would not start, because of the lists in its key `mcp`."""
    policy = document.get("mcp")
    if not isinstance(policy, dict):
        return set()
    disabled = set(map(str, _as_list(policy.get("excluded"))))
    if isinstance(policy.get("allowed"), list):
        disabled |= listed.keys() - set(map(str, _as_list(policy["allowed"])))
    return disabled


def _as_list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []


def parse_server(
    key: str, entry: object, file: str | None = None, folder: str = ".",
    inputs: Mapping[str, tuple[str, bool]] | None = None,
) -> ServerConfig:  # fmt: skip
    """Return one server. If its entry is invalid, it has a `problem`, and the host does not start it."""
    config = ServerConfig(server_name(key), key, Entry(), file, folder)
    if not isinstance(entry, dict):
        return replace(config, problem=f"{config.place}: the entry must be an object, not {entry!r:.80}")
    known: dict[str, JSON] = {}
    warnings: list[str] = []
    faults = []
    for written, value in entry.items():
        name = _OTHER_NAMES.get(written, written)
        if name not in Entry.__annotations__:
            warnings.append(_warning(written, suggests=len(warnings) < MAX_SUGGESTIONS))
        elif name in known:
            faults.append(f"{written!r} repeats {name!r}; write one of them")
        else:
            known[name] = value
    faults += map(_fault_text, _SCHEMA.errors(known))
    fault = "; ".join(faults) or _transport_fault(known)
    if fault is None:
        used_ids = re.findall(r"\$\{input:([^{}]*)\}", json.dumps(known, ensure_ascii=False))
        used_inputs = {id: inputs[id] for id in used_ids if inputs is not None and id in inputs}
        config = replace(config, entry=cast("Entry", known), inputs=used_inputs)
        texts = " ".join([*config.command, config.entry.get("url", "")])
        for variable in sorted(set(re.findall(r"\$([A-Za-z_]\w*)", texts))):  # `$NAME`, without braces
            warnings.append(f"${variable:.100} stays as it is; write ${{{variable:.100}}} for a variable")
    else:
        config = replace(config, problem=f"{config.place}: {fault}")
    return replace(config, warnings=tuple(f"{config.place}: {text}" for text in warnings))


def _warning(key: str, suggests: bool) -> str:
    """Return the warning about a key that has no effect. `suggests`: True to name a known key that is similar."""
    for pattern, reason in _IGNORED.items():
        if re.fullmatch(pattern, key):
            return f"the key {key!r:.100} is ignored{reason}"
    near = difflib.get_close_matches(key, [*Entry.__annotations__, *_OTHER_NAMES], n=2) if suggests else []
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    return f"the key {key!r:.100} is ignored{hint}"


def _fault_text(error: ValidationError) -> str:
    """Return the fault of a value, without quoting an environment variable or a header, which may be secret."""
    if error.path[0] in ("env", "headers"):
        return str(error).partition(", got ")[0]
    if error.path[0] == "timeout":
        return f"{error}; it is in milliseconds, so write 30000 for 30 s"
    return str(error)


def _transport_fault(entry: Mapping[str, object]) -> str | None:
    """Return the fault of an entry that has neither a command nor a URL, or mixes the two; None without a fault."""
    kind = str(entry.get("type", "")).lower().replace("-", "").replace("_", "")
    if "type" in entry and kind not in _TRANSPORTS:
        return f"type {entry['type']!r:.80} is not supported; write stdio, http or sse"
    if "command" in entry and "url" in entry:
        return "write a command or a url, not both"
    if "command" not in entry and "url" not in entry:
        return "write a command or a url"
    if kind and _TRANSPORTS[kind] not in entry:
        return f"type {entry['type']!r:.80} needs {_TRANSPORTS[kind]!r}"
    if "url" in entry and not str(entry["url"]).startswith(("http://", "https://", "${")):
        return f"url must begin with http:// or https://, not {entry['url']!r:.80}"
    used = "command" if "command" in entry else "url"
    wrong_keys = entry.keys() & (_URL_KEYS if used == "command" else _PROCESS_KEYS)
    return f"{', '.join(sorted(wrong_keys))} cannot be used with a {used}" if wrong_keys else None


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
