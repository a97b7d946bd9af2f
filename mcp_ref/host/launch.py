"""The start of a server: its configuration with all variables replaced.

    "Bearer ${TOKEN}"  ->  "Bearer s3cr3t"        from the environment
    "${input:id}"                                 a value that the user has typed
    "${TOKEN:-none}"                              a default, if the variable is unset or empty
    "$${TOKEN}"        ->  "${TOKEN}"             a literal text

Variables are replaced once: a value that contains `${...}` stays as it is. A variable that is unset and has no default
is an error. Otherwise a remote server would report a wrong token, and nobody would see the reason.

Spec:  architecture; the specification does not define configuration files
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from ..transports.stdio import INHERITED_VARIABLES
from .configuration import ConfigurationError, ServerConfig

MIN_SECRET = 4
"""Minimum length of a secret that is masked in texts, in characters. A shorter text occurs in harmless words."""

MIN_LITERAL = 8
"""Minimum length of a value of `env` that is masked although the file contains it, in characters."""

_VARIABLE = re.compile(r"\$\$\{|\$\{([^{}]*)\}")
_SECRET_NAME = re.compile(r"authorization|token|key|secret", re.IGNORECASE)


@dataclass(frozen=True)
class Launch:
    """A server with all variables replaced. It contains secrets, so its `repr` shows nothing."""

    command: list[str] | None = field(repr=False)
    url: str | None = field(repr=False)
    env: dict[str, str] = field(repr=False)
    headers: dict[str, str] = field(repr=False)
    cwd: str | None = field(repr=False)
    digest: str = field(repr=False)
    """The SHA-256 of the server as written, and of its `envFile`. An approval is valid for this digest only."""
    secrets: frozenset[str] = field(repr=False)

    def mask(self, text: str) -> str:
        """Return a text in which `***` replaces each secret."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            if len(secret) >= MIN_SECRET:
                text = text.replace(secret, "***")
        return text


def launch_of(config: ServerConfig, environment: Mapping[str, str], inputs: Mapping[str, str] | None = None) -> Launch:
    """Replace the variables of a server.

    Args:
        config: The server as written.
        environment: The variables that `${NAME}` and `${env:NAME}` mean.
        inputs: The typed values of `${input:id}`, by id.

    Returns:
        The server, ready to be started.

    Raises:
        ConfigurationError: If the entry is invalid, or a variable without a default is not set.
    """
    if config.problem is not None:
        raise ConfigurationError(config.problem)
    values = _Values(config, environment, inputs or {})
    entry = config.entry
    env_file = _read_env_file(config, values.replace("envFile", str(entry["envFile"]))) if "envFile" in entry else ""
    env = _parse_env_file(env_file)
    env |= {name: environment[name] for name in _texts(entry.get("env_vars", [])) if name in environment}
    for name, value in cast("dict[str, object]", entry.get("env", {})).items():
        env.pop(name, None)  # null removes a variable of the `envFile`
        if value is not None:
            env[name] = values.replace(f"env.{name}", str(value))
    headers = {name: values.replace(f"headers.{name}", value) for name, value in _pairs(entry.get("headers"))}
    for name, variable in _pairs(entry.get("env_http_headers")):
        headers[name] = values.value_of("env_http_headers", variable)
    if "bearer_token_env_var" in entry:
        token = values.value_of("bearer_token_env_var", str(entry["bearer_token_env_var"]))
        headers["Authorization"] = f"Bearer {token}"
    secrets = {value for value in env.values() if len(value) >= MIN_LITERAL} | values.secrets
    secrets |= {value.removeprefix("Bearer ") for name, value in headers.items() if _SECRET_NAME.search(name)}
    digest = hashlib.sha256(f"{config.digest} {env_file}".encode()).hexdigest()
    command = None if config.command is None else [values.replace("args", text) for text in config.command]
    url = None if config.url is None else values.replace("url", config.url)
    cwd = None if config.cwd is None else values.replace("cwd", config.cwd)
    return Launch(command, url, env, headers, cwd, digest, frozenset(secrets))


class _Values:
    """The values of the variables of one server."""

    def __init__(self, config: ServerConfig, environment: Mapping[str, str], inputs: Mapping[str, str]) -> None:
        self._config, self._environment, self._inputs = config, environment, inputs
        self.secrets: set[str] = set()
        folder = os.path.abspath(config.folder)
        self._predefined = {
            "workspaceFolder": folder, "workspaceFolderBasename": os.path.basename(folder),
            "userHome": os.path.expanduser("~"), "pathSeparator": os.sep,
        }  # fmt: skip

    def replace(self, key: str, text: str) -> str:
        return _VARIABLE.sub(lambda found: "${" if found[1] is None else self.value_of(key, found[1]), text)

    def value_of(self, key: str, variable: str) -> str:
        """Return the value of a variable. Raise ConfigurationError if it is not set and has no default."""
        if variable in self._predefined:
            return self._predefined[variable]
        if variable.startswith("input:"):
            value = self._inputs.get(variable.removeprefix("input:"))
            advice = "describe it in `inputs`, and give `ask` to the Host"
        else:
            name, has_default, default = variable.removeprefix("env:").partition(":-")
            value = self._environment.get(name)
            advice = f"set this environment variable, or write ${{{name}:-default}}"
            if has_default and not value:
                return default
        if value is None:
            raise ConfigurationError(f"{self._config.place}, {key}: the variable {variable!r} is not set; {advice}")
        if variable.removeprefix("env:") not in INHERITED_VARIABLES:
            self.secrets.add(value)
        return value


def _read_env_file(config: ServerConfig, path: str) -> str:
    try:
        return Path(config.folder, path).read_text("utf-8")
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{config.place}: cannot read the envFile {path!r}: {error}") from None


def _parse_env_file(text: str) -> dict[str, str]:
    """Return the variables of lines such as `export NAME="value"`. Empty lines and comments are ignored."""
    found = {}
    for line in text.splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and not name.startswith("#"):
            value = value.strip()
            is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
            found[name.strip()] = value[1:-1] if is_quoted else value
    return found


def _pairs(value: object) -> list[tuple[str, str]]:
    return list(cast("dict[str, str]", value or {}).items())


def _texts(value: object) -> list[str]:
    return cast("list[str]", value)
