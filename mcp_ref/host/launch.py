"""Launches: the configuration of a server with all variables replaced, ready for its start.

    "Bearer ${TOKEN}"  ->  "Bearer s3cr3t"        from the environment; also ${env:TOKEN}
    "${TOKEN:-none}"   ->  "none"                 a default, if the variable is unset or empty
    "${input:id}"                                 a value that the user has typed
    "$${TOKEN}"        ->  "${TOKEN}"             a literal text

Variables are replaced once: a value that contains `${...}` stays as it is. A variable that is unset and has no default
is an error, because a remote server would otherwise report a wrong token, and nobody would see the reason.

The user's consent is valid for one digest, which contains everything that decides what runs, and where secrets go: the
entry in the file, the absolute path of the program, the arguments, the folder, the variables with their values, the
PATH, the URL and the headers. It leaves out typed texts and secrets (the values of variables and headers whose names
end in TOKEN or KEY, for example), because people often replace tokens, and a token does not decide what runs. It also
leaves out the content of programs and scripts, because that changes with each update, and a script can load any other
file. So the user consents to this program in this folder, updates included. In another folder, the host asks again.

Threats:
    consent-in-another-folder: A second cloned project runs its own program in the user's account, by naming it with the
        relative path that the user allowed in the first project. The digest contains absolute paths and the folder.
    consent-to-another-program: A cloned project runs other code in the user's account by changing its file, its
        `envFile` or the path of its program after the consent. Before each start, the host compares the digest, which
        contains everything that decides what runs.
    dangerous-variable: A cloned project makes a harmless command run other code in the user's account, by setting PATH,
        LD_PRELOAD or NODE_OPTIONS in its file or its `envFile`. The host asks the user about each such variable, which
        `--yes` and a remembered consent do not cover.
    hidden-receiver: The author of a file has the user's secrets sent to another host by `bearer_token_env_var`, headers
        or a default of a variable. The user sees the true host and each variable that it gets.
    default-of-an-input: A cloned project diverts the user's secrets with `${input:id:-https://evil.example}`, an input
        without a description, so that nobody is asked. The user sees the default, with a warning.
    value-of-a-variable: A cloned project gets at the user's account and secrets by setting a variable with a harmless
        name to a file or an address from which a program reads settings. The user sees each value, with a warning.

Spec:  architecture/index (the specification does not define configuration files)
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple
from urllib.parse import quote

from ..client.target import check_url
from ..transports import system
from ..transports.stdio.client import INHERITED_VARIABLES, server_environment
from .approval import Setting, quoted
from .configuration import ConfigurationError, ServerConfig
from .dangers import is_place, is_secret_name, may_be_secret, variable_danger, without_links

MIN_SECRET = 4
"""Minimum length of a secret that is masked in texts, in characters. A shorter one occurs in harmless words too."""

MAX_ENV_FILE = 64 * 1024
"""Maximum size of an `envFile`, in bytes."""

_USER_OF_URL, _QUERY = re.compile("://[^/?#@]*@"), re.compile("([?#]).*", re.DOTALL)
_VARIABLE = re.compile(r"\$\$\{|\$\{([^{}]*)\}")  # the literal text `$${` matches without the group

_Place = Literal["argument", "variable", "header", "url"]


class Text(NamedTuple):
    """A text of the configuration with its variables replaced, in three forms."""

    real: str
    """The text that the server gets."""
    shown: str
    """The text that the user sees: `${NAME}` for a typed text, and for a variable that can be secret."""
    compared: str
    """The text in the digest: `${NAME}` for a typed text, and for a secret, which people may replace with a new one."""


@dataclass(frozen=True)
class Danger:
    """A dangerous variable that a file sets."""

    name: str
    text: str
    """The warning, with the value."""
    file: str | None
    """Path of the file that sets the variable; None if the program sets it."""


@dataclass(frozen=True, repr=False)
class Launch:
    """A server with all variables replaced. It contains secrets, so its `repr` shows nothing."""

    command: list[str]
    """The command. Empty for a URL."""
    url: str | None
    env: dict[str, str | None]
    """The environment variables. None removes an inherited variable."""
    headers: dict[str, str]
    cwd: str | None
    """Absolute path of the folder in which the process starts, or None for a URL."""
    digest: str = ""
    """The SHA-256 of everything that the user's consent depends on."""
    program: str | None = None
    """Absolute path of the program, or None if it was not found."""
    shown_command: tuple[str, ...] = ()
    shown_url: str | None = None
    """The URL with its true host, without secrets."""
    paths: tuple[str, ...] = ()
    """Absolute paths of the files and folders among the arguments."""
    settings: tuple[Setting, ...] = ()
    dangers: tuple[Danger, ...] = ()
    env_file: str = ""
    """The content of the `envFile`."""
    secrets: set[str] = field(default_factory=set)

    @property
    def target(self) -> str | list[str]:
        """The URL, or the command with the path of the program that the user has seen, so that no other can start."""
        return self.url or [self.program or self.command[0], *self.command[1:]]

    def mask(self, text: str) -> str:
        """Replace each secret in a text by `***`, even where the text quotes it in another form."""
        forms = set[str]()
        for secret in self.secrets:
            # as written, quoted by Python and JSON, in a URL, and a secret URL without its fragment
            forms |= {secret, repr(secret)[1:-1], json.dumps(secret)[1:-1], quote(secret, ""), secret.partition("#")[0]}
        longest_first = sorted((form for form in forms if len(form) >= MIN_SECRET), key=len, reverse=True)
        if not longest_first:
            return text
        pattern = "|".join(map(re.escape, longest_first))
        return re.sub(pattern, "***", text, flags=re.IGNORECASE)  # errors can write the host in lower case

    def check(self, config: ServerConfig) -> None:
        """Raise ConfigurationError for a forbidden character in a URL, header or command, without quoting a secret."""
        try:
            if self.url is not None:
                check_url(self.url, self.headers)
            texts = [*self.command, self.cwd or "", *self.env, *(value or "" for value in self.env.values())]
            if b"\0" in os.fsencode("".join(texts)) or any("=" in name for name in self.env):
                raise ValueError("the command, cwd or env contains NUL, or the name of a variable contains '='")
        except ValueError as error:
            # Variables in the URL may be secrets, so replace the quoted URL by the URL as written in the file.
            quoted_url, written_url = f"{self.url!r:.200}", f"{config.entry.get('url')!r:.200}"
            text = str(error).replace(quoted_url, written_url)
            raise ConfigurationError(f"{config.place}: {text}") from None


def launch_of(
    config: ServerConfig, environment: Mapping[str, str], inputs: Mapping[str, str], env_file: str | None = None
) -> Launch:
    """Replace the variables of a server.

    `inputs` are the typed values of `${input:id}`, by id. `env_file` is the content of the `envFile` that the user has
    approved; None to read the file. Raise ConfigurationError if the entry is invalid, a variable is not set, or the
    file cannot be read.
    """
    if config.problem is not None:
        raise ConfigurationError(config.problem)
    entry, variables = config.entry, _Variables(config, environment, inputs)
    path = None
    if "envFile" in entry:
        path = os.path.abspath(os.path.join(config.folder, variables.expand("envFile", entry["envFile"]).real))
        if env_file is None:
            env_file = _read_env_file(config, path)
    env = variables.env(env_file or "")
    headers = variables.headers()
    for name, text in [*env.items(), *headers.items()]:
        if text is not None and text.real and may_be_secret(name):
            variables.secrets.add(text.real.removeprefix("Bearer "))
    compared_env = [[name, None if text is None else text.compared] for name, text in sorted(env.items())]
    # The facts that the user's consent depends on. `_connection` or `_process` adds its own.
    facts: list[object] = [config.digest, sorted(config.inputs.items()), *compared_env]
    if "url" in entry:
        launch = _connection(entry["url"], variables, headers, facts)
    else:
        real_env = {name: None if text is None else text.real for name, text in env.items()}
        launch = _process(config, variables, real_env, facts)
    return replace(
        launch, digest=hashlib.sha256(json.dumps(facts).encode()).hexdigest(), env_file=env_file or "",
        settings=variables.settings, dangers=variables.dangers(env, path), secrets=variables.secrets,
    )  # fmt: skip


def _connection(written: str, variables: _Variables, headers: Mapping[str, Text], facts: list[object]) -> Launch:
    """Return the launch of a URL, and add the facts that the user's consent depends on to `facts`."""
    url = variables.expand("url", written, "url")
    origin = _before_path(url.real)  # the true host, even if it comes from a variable
    facts += [origin, url.compared, sorted((name, value.compared) for name, value in headers.items())]
    real_headers = {name: value.real for name, value in headers.items()}
    shown_path = url.shown[len(_before_path(url.shown)) :]
    return Launch([], url.real, {}, real_headers, None, shown_url=origin + shown_path)


def _process(config: ServerConfig, variables: _Variables, env: dict[str, str | None], facts: list[object]) -> Launch:
    """Return the launch of a process, and add the facts that the user's consent depends on to `facts`."""
    if not config.command:
        return Launch([], None, env, {}, None)  # a server in this program
    program_name = variables.expand("command", config.entry["command"]).real
    arguments = [variables.expand("args", written, "argument", written) for written in config.entry.get("args", [])]
    if "cwd" in config.entry:
        folder = os.path.join(config.folder, variables.expand("cwd", config.entry["cwd"]).real)
    else:
        folder = os.getcwd()
    cwd = without_links(folder)  # a link could later lead to a folder that the user has not seen
    command = [program_name, *(argument.real for argument in arguments)]
    search_path = server_environment(env).get("PATH")
    try:
        program = system.SYSTEM.find_program(command, search_path, cwd)[0]
    except (OSError, ValueError):  # the start reports the reason
        program = None
    # The arguments that are files or folders decide what runs, so they are compared with their variables replaced.
    # A typed text is left out even if it names a file.
    possible = [argument.real for argument in arguments if argument.real and "${input:" not in argument.compared]
    possible_paths = {name: os.path.join(cwd, name) for name in possible}
    existing = {name: path for name, path in possible_paths.items() if os.path.exists(path)}
    compared = [argument.real if argument.real in existing else argument.compared for argument in arguments]
    facts += [program, program_name, compared, cwd, search_path]
    shown = (program_name, *(argument.shown for argument in arguments))
    paths = tuple(path for path in existing.values() if path not in shown)
    return Launch(command, None, env, {}, cwd, program=program, shown_command=shown, paths=paths)


class _Variables:
    """The variables of one server: their replacement, and a record of their sources and of the secrets among them."""

    def __init__(self, config: ServerConfig, environment: Mapping[str, str], inputs: Mapping[str, str]) -> None:
        self.secrets = set[str]()
        self._settings: dict[tuple[_Place, str], list[Setting]] = {}  # a table, because a file can have thousands
        self._config, self._environment, self._inputs = config, environment, inputs
        folder = os.path.abspath(config.folder)
        self._predefined = {
            "workspaceFolder": folder, "workspaceFolderBasename": os.path.basename(folder),
            "userHome": os.path.expanduser("~"), "pathSeparator": os.sep,
        }  # fmt: skip

    @property
    def settings(self) -> tuple[Setting, ...]:
        return tuple(itertools.chain.from_iterable(self._settings.values()))

    def expand(self, key: str, text: str, place: _Place | None = None, name: str = "") -> Text:
        """Replace the variables in a text of the entry's `key`. A text without a `place` decides what runs."""
        pieces: list[Text] = []
        end = 0  # of the latest variable
        for found in _VARIABLE.finditer(text):
            pieces.append(_public(text[end : found.start()]))
            variable = found[1]  # None for the literal text `$${`
            pieces.append(_public("${") if variable is None else self.value_of(key, variable, place, name))
            end = found.end()
        pieces.append(_public(text[end:]))
        real, shown = "".join(piece.real for piece in pieces), "".join(piece.shown for piece in pieces)
        expanded = Text(real, shown, compared="".join(piece.compared for piece in pieces))
        if key == "url" and "${input:" in _before_path(expanded.shown):
            raise self._error(key, f"the host in {text!r:.100} is an input; {_NO_INPUT}")
        return expanded

    def value_of(self, key: str, variable: str, place: _Place | None, name: str) -> Text:
        """Return the value of one variable, and record its use."""
        if variable in self._predefined:
            return _public(self._predefined[variable])
        source, has_default, default = variable.removeprefix("env:").partition(":-")
        if source.startswith("input:"):
            return self._typed_text(key, source.removeprefix("input:"), default if has_default else None, place, name)
        value = self._environment.get(source)
        if has_default and not value:
            return _public(default)
        if value is None:
            advice = f"set this variable, or write ${{{source:.100}:-default}}"
            raise self._error(key, f"the variable {source!r:.100} is not set; {advice}")
        if source in INHERITED_VARIABLES:
            return _public(value)  # such as HOME, which the server inherits anyway
        self.secrets.add(value)
        if place is None:
            return _public(value)  # it decides what runs, so the user sees it
        self._note(Setting(place, name, "environment", source))
        shown = f"${{{source}}}"
        is_secret = is_secret_name(source) or (place in ("variable", "header") and is_secret_name(name))
        return Text(value, shown, shown if is_secret else value)

    def _typed_text(self, key: str, id: str, default: str | None, place: _Place | None, name: str) -> Text:
        if place is None:
            raise self._error(key, f"${{input:{id:.100}}} cannot be used here; {_NO_INPUT}")
        value = self._inputs.get(id)
        if not value and default:
            value = default
        if value is None:
            advice = "describe it in `inputs`, and run the command in a terminal (in a program: give ask= to the Host)"
            raise self._error(key, f"the variable {f'input:{id}'!r:.100} is not set; {advice}")
        self.secrets.add(value)
        self._note(Setting(place, name, "input", id, _without_secret(name, default or "")))
        shown = f"${{input:{id}:-{default}}}" if default else f"${{input:{id}}}"  # because the default may be sent
        return Text(value, shown, f"${{input:{id}}}")

    def env(self, env_file: str) -> dict[str, Text | None]:
        """Return the environment variables of the entry and of its `envFile`, by name."""
        env: dict[str, Text | None] = {}
        for name, value in _parse_env_file(env_file).items():
            shown = _without_secret(name, value)
            self._note(Setting("variable", name, "envFile", value=shown))
            is_secret = is_secret_name(name) and not is_place(value)
            env[name] = Text(value, shown, "" if is_secret else value)
        entry = self._config.entry
        for name in entry.get("env_vars", []):
            if name in self._environment:
                self._settings.pop(("variable", name), None)  # its earlier value, which this one replaces
                env[name] = self.value_of("env_vars", name, "variable", name)
        for name, number_or_text in entry.get("env", {}).items():
            self._settings.pop(("variable", name), None)
            if number_or_text is None:
                env[name] = None
                self._note(Setting("variable", name, "removed"))
            else:
                env[name] = self._with_source(f"env.{name}", str(number_or_text), "variable", name)
        return env

    def headers(self) -> dict[str, Text]:
        entry = self._config.entry
        headers: dict[str, Text] = {}
        for name, value in entry.get("headers", {}).items():
            headers[name] = self._with_source(f"headers.{name}", value, "header", name)
        for name, variable in entry.get("env_http_headers", {}).items():
            headers[name] = self.value_of("env_http_headers", variable, "header", name)
        if "bearer_token_env_var" in entry:
            token = self.value_of("bearer_token_env_var", entry["bearer_token_env_var"], "header", "Authorization")
            headers["Authorization"] = Text(f"Bearer {token.real}", f"Bearer {token.shown}", f"Bearer {token.compared}")
        return headers

    def dangers(self, env: Mapping[str, Text | None], env_file: str | None) -> tuple[Danger, ...]:
        """Return the dangerous variables, except those that keep the value of the user's environment."""
        from_env_file = {setting.name for setting in self.settings if setting.source == "envFile"}
        found = []
        for name, text in env.items():
            reason = variable_danger(name)
            if reason is not None and text is not None and text.real != self._environment.get(name):
                warning = f"{quoted(name)} {reason}; it is set to {quoted(text.shown)}"
                found.append(Danger(name, warning, env_file if name in from_env_file else self._config.file))
        return tuple(found)

    def _with_source(self, key: str, text: str, place: _Place, name: str) -> Text:
        """Replace the variables in a text. Note the file as a source too, unless the text is one recorded variable."""
        expanded = self.expand(key, text, place, name)
        is_recorded = (place, name) in self._settings  # by `value_of`, unless the value is public
        if not (is_recorded and _VARIABLE.fullmatch(text)):
            self._note(Setting(place, name, "file", value=_without_secret(name, expanded.shown)))
        return expanded

    def _note(self, setting: Setting) -> None:
        known = self._settings.setdefault((setting.place, setting.name), [])
        if setting not in known:
            known.append(setting)

    def _error(self, key: str, text: str) -> ConfigurationError:
        return ConfigurationError(f"{self._config.place}, {key:.100}: {text}")


_NO_INPUT = "an input can be in args, env, headers and the path of a url, because the user first sees what starts"


def _public(text: str) -> Text:
    """Return a text that is neither secret nor typed."""
    return Text(text, text, text)


def _without_secret(name: str, value: str) -> str:
    """Return the value of a variable or header as the user may see it: `***` for a secret, a URL without secrets."""
    if not value or not may_be_secret(name):
        return value
    if not is_place(value):
        return "***"
    if "://" not in value:
        return value
    return _QUERY.sub(r"\1***", _USER_OF_URL.sub("://***@", value))


def _before_path(url: str) -> str:
    """Return the scheme and host of a URL, which may be a variable."""
    found = re.match(r"(?:[^:/?#]+://)?[^/?#]*", url)
    return found[0] if found is not None else ""


def _read_env_file(config: ServerConfig, path: str) -> str:
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_ENV_FILE + 1)
        if len(content) > MAX_ENV_FILE:
            raise ValueError(f"it has more than {MAX_ENV_FILE} bytes")
        return str(content, "utf-8")
    except (OSError, ValueError) as error:
        # Name the path as written, because a variable in the path that was read may be a secret.
        written = config.entry["envFile"]
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigurationError(f"{config.place}: cannot read the envFile {written!r:.200}: {reason}") from None


def _parse_env_file(text: str) -> dict[str, str]:
    """Return the variables of lines such as `export NAME="value"`. Other lines are ignored."""
    variables: dict[str, str] = {}
    for line in text.split("\n"):
        found = re.fullmatch(r"(?:export\s+)?([A-Za-z_]\w*)\s*=(.*)", line.strip())
        if found is not None:
            name, value = found[1], found[2].strip()
            variables[name] = re.sub(r"""^(["'])(.*)\1$""", r"\2", value)  # without its quotation marks
    return variables
