"""The start of a server: its configuration with all variables replaced.

    "Bearer ${TOKEN}"  ->  "Bearer s3cr3t"        from the environment; also ${env:TOKEN}
    "${TOKEN:-none}"   ->  "none"                 a default, if the variable is unset or empty
    "${input:id}"                                 a value that the user has typed
    "$${TOKEN}"        ->  "${TOKEN}"             a literal text

Variables are replaced once: a value that contains `${...}` stays as it is. A variable that is unset and has no default
is an error. Otherwise a remote server would report a wrong token, and nobody would see the reason.

Spec:  architecture/index (the specification does not define configuration files)
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..client.target import check_url
from ..transports.stdio.client import INHERITED_VARIABLES
from .configuration import ConfigurationError, ServerConfig

MIN_SECRET = 4
"""Minimum length of a secret that is masked in texts, in characters. A shorter text occurs in harmless words."""

MAX_ENV_FILE = 64 * 1024
"""Maximum size of an `envFile`, in bytes."""

_VARIABLE = re.compile(r"\$\$\{|\$\{([^{}]*)\}")
_SECRET_NAME = re.compile(r"authorization|token|key|secret|passw", re.IGNORECASE)


@dataclass(frozen=True, repr=False)
class Launch:
    """A server with all variables replaced. It contains secrets, so its `repr` shows nothing."""

    command: list[str]
    url: str | None
    env: dict[str, str | None]
    """The environment variables. None removes an inherited variable."""
    headers: dict[str, str]
    cwd: str | None
    digest: str
    """The SHA-256 of the server as written, and of its `envFile`. An approval is valid for this digest only."""
    secrets: set[str] = field(default_factory=set)

    def mask(self, text: str) -> str:
        """Return a text in which `***` replaces each secret."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(secret, "***") if len(secret) >= MIN_SECRET else text
        return text

    def check(self, config: ServerConfig) -> None:
        """Raise ConfigurationError for a forbidden character in a URL, header or command. Quote no variable's value."""
        try:
            if self.url is not None:
                check_url(self.url, self.headers)
            texts = [*self.command, self.cwd or "", *self.env, *(value or "" for value in self.env.values())]
            if b"\0" in os.fsencode("".join(texts)) or any("=" in name for name in self.env):
                raise ValueError("the command, cwd or env contains NUL, or the name of a variable contains '='")
        except ValueError as error:
            text = str(error).replace(f"{self.url!r:.200}", f"{config.entry.get('url')!r:.200}")
            raise ConfigurationError(f"{config.place}: {text}") from None


def launch_of(config: ServerConfig, environment: Mapping[str, str], inputs: Mapping[str, str]) -> Launch:
    """Replace the variables of a server. `inputs` are the typed values of `${input:id}`, by id.

    Raises:
        ConfigurationError: If the entry is invalid, a variable is not set, or `envFile` cannot be read.
    """
    if config.problem is not None:
        raise ConfigurationError(config.problem)
    entry, secrets, folder = config.entry, set[str](), os.path.abspath(config.folder)
    predefined = {
        "workspaceFolder": folder, "workspaceFolderBasename": os.path.basename(folder),
        "userHome": os.path.expanduser("~"), "pathSeparator": os.sep,
    }  # fmt: skip

    def value_of(key: str, variable: str) -> str:
        if variable in predefined:
            return predefined[variable]
        name, has_default, default = variable.removeprefix("env:").partition(":-")
        if name.startswith("input:"):
            value, advice = inputs.get(name[6:]), "describe it in `inputs`, and give ask= to the Host"
        else:
            value, advice = environment.get(name), f"set this variable, or write ${{{name:.100}:-default}}"
        if has_default and not value:
            return default
        if value is None:
            raise ConfigurationError(f"{config.place}, {key:.100}: the variable {name!r:.100} is not set; {advice}")
        if name not in INHERITED_VARIABLES:
            secrets.add(value)
        return value

    def expand(key: str, text: str) -> str:
        return _VARIABLE.sub(lambda found: "${" if found[1] is None else value_of(key, found[1]), text)

    text = _read_env_file(config, expand("envFile", entry["envFile"])) if "envFile" in entry else ""
    env: dict[str, str | None] = {**_parse_env_file(text)}
    env |= {name: value_of("env_vars", name) for name in entry.get("env_vars", []) if name in environment}
    for name, value in entry.get("env", {}).items():
        env[name] = None if value is None else expand(f"env.{name}", str(value))
    headers = {name: expand(f"headers.{name}", value) for name, value in entry.get("headers", {}).items()}
    for name, variable in entry.get("env_http_headers", {}).items():
        headers[name] = value_of("env_http_headers", variable)
    if "bearer_token_env_var" in entry:
        headers["Authorization"] = f"Bearer {value_of('bearer_token_env_var', entry['bearer_token_env_var'])}"
    named = [value for name, value in {**env, **headers}.items() if value and _SECRET_NAME.search(name)]
    secrets |= {value.removeprefix("Bearer ") for value in named}
    return Launch(
        [expand("args", word) for word in config.command], expand("url", entry["url"]) if "url" in entry else None,
        env, headers, expand("cwd", entry["cwd"]) if "cwd" in entry else None,
        hashlib.sha256(f"{config.digest} {text}".encode()).hexdigest(), secrets,
    )  # fmt: skip


def _read_env_file(config: ServerConfig, path: str) -> str:
    try:
        with open(Path(config.folder, path), "rb") as file:
            content = file.read(MAX_ENV_FILE + 1)
        if len(content) > MAX_ENV_FILE:
            raise ValueError(f"it has more than {MAX_ENV_FILE} bytes")
        return str(content, "utf-8")
    except (OSError, ValueError) as error:
        # not the path that was read: a variable in it can be a secret
        written, reason = config.entry["envFile"], error.strerror if isinstance(error, OSError) else error
        raise ConfigurationError(f"{config.place}: cannot read the envFile {written!r:.200}: {reason}") from None


def _parse_env_file(text: str) -> dict[str, str]:
    """Return the variables of lines such as `export NAME="value"`. Other lines are ignored."""
    lines = [re.fullmatch(r"(?:export\s+)?([A-Za-z_]\w*)\s*=(.*)", line.strip()) for line in text.split("\n")]
    pairs = [(found[1], found[2].strip()) for found in lines if found is not None]
    return {name: re.sub(r"""^(["'])(.*)\1$""", r"\2", value) for name, value in pairs}
