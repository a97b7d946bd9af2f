"""The start of a server: its configuration with all variables replaced.

    "Bearer ${TOKEN}"  ->  "Bearer s3cr3t"        from the environment; also ${env:TOKEN}
    "${TOKEN:-none}"   ->  "none"                 a default, if the variable is unset or empty
    "${input:id}"                                 a value that the user has typed
    "$${TOKEN}"        ->  "${TOKEN}"             a literal text

Variables are replaced once: a value that contains `${...}` stays as it is. A variable that is unset and has no default
is an error, because a remote server would otherwise report a wrong token, and nobody would see the reason.

The user's consent is valid for one digest, which contains everything that decides what runs, and where secrets go: the
entry in the file, the absolute path of the program, the arguments, the folder, the variables with their values, the
PATH, the URL and the headers. Only a secret (the value of a variable or header whose name ends like TOKEN or KEY) can
have a new value, because people replace tokens often, and because a token decides nothing. Nor does the digest contain
the content of programs and scripts, because it changes with each update, and a script can load any other file. So the
consent is to this program in this folder, with its updates, and the host asks again in another folder.

Threats:
    consent-in-another-folder: the user's account; a second cloned project; contains a program at the path that the user
        allowed in the first project; the digest contains absolute paths and the working directory.
    consent-to-another-program: the user's account; a cloned project; changes its file, its `envFile` or a program
        after the consent; the digest contains everything that decides what runs, and is compared before the start.
    dangerous-variable: the user's account; a cloned project; sets PATH, LD_PRELOAD or NODE_OPTIONS in its file or its
        `envFile`, so that a harmless command runs its own code; the user is asked for each such variable, which --yes
        and a remembered consent do not cover.
    hidden-receiver: the user's secrets; a file; sends them to its own host by `bearer_token_env_var`, headers or a
        default of a variable; the user sees the true host and each variable that it gets.
    default-of-an-input: the user's secrets; a cloned project; writes `${input:id:-https://evil.example}`, and describes
        no such input, so that nobody is asked; the user sees the default, with a warning.
    value-of-a-variable: the user's account and secrets; a cloned project; sets a variable with a harmless name to a
        file or an address, from which a program reads settings; the user sees each value, with a warning.

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
from .dangers import is_place, is_secret_name, may_be_secret, variable_danger

MIN_SECRET = 4
"""Minimum length of a secret that is masked in texts, in characters. A shorter text occurs in harmless words."""

MAX_ENV_FILE = 64 * 1024
"""Maximum size of an `envFile`, in bytes."""

_USER_OF_URL, _QUERY = re.compile("://[^/?#@]*@"), re.compile("([?#]).*", re.DOTALL)
_VARIABLE = re.compile(r"\$\$\{|\$\{([^{}]*)\}")

_Place = Literal["argument", "variable", "header", "url"]


class Text(NamedTuple):
    """A text of the configuration with its variables replaced, in three forms."""

    real: str
    """The text that the server gets."""
    shown: str
    """The text for the user: `${NAME}` for a variable of the environment, which can be secret, and for a typed text."""
    compared: str
    """The text in the digest: `${NAME}` for a secret that people replace, and for a typed text."""


@dataclass(frozen=True)
class Danger:
    """A dangerous variable that a file sets."""

    name: str
    text: str
    """The warning, with the value."""
    file: str | None
    """Path of the file that sets the variable, or None for the program."""


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
        """The URL, or the command with the program that the user has seen, so that the PATH is not searched again."""
        return self.url or [self.program or self.command[0], *self.command[1:]]

    def mask(self, text: str) -> str:
        """Return a text in which `***` replaces each secret, also in the forms in which a text quotes it."""
        forms = set[str]()
        for secret in self.secrets:
            # in Python and JSON, in a URL, and in a URL without its fragment
            forms |= {secret, repr(secret)[1:-1], json.dumps(secret)[1:-1], quote(secret, ""), secret.partition("#")[0]}
        shown = sorted((each for each in forms if len(each) >= MIN_SECRET), key=len, reverse=True)
        pattern = "|".join(map(re.escape, shown))
        return re.sub(pattern, "***", text, flags=re.IGNORECASE) if pattern else text  # a host is in lower case

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


def launch_of(
    config: ServerConfig, environment: Mapping[str, str], inputs: Mapping[str, str], env_file: str | None = None
) -> Launch:
    """Replace the variables of a server.

    `inputs` are the typed values of `${input:id}`, by id. `env_file` is the content of the `envFile` that the user has
    approved; by default, the file is read. Raise ConfigurationError if the entry is invalid, a variable is not set, or
    the file cannot be read.
    """
    if config.problem is not None:
        raise ConfigurationError(config.problem)
    entry, texts = config.entry, _Texts(config, environment, inputs)
    path = None
    if "envFile" in entry:
        path = os.path.abspath(os.path.join(config.folder, texts.expand("envFile", entry["envFile"]).real))
        env_file = _read_env_file(config, path) if env_file is None else env_file
    env = texts.variables(env_file or "")
    headers = texts.headers()
    secrets = [each.real for name, each in [*env.items(), *headers.items()] if each and may_be_secret(name)]
    texts.secrets |= {secret.removeprefix("Bearer ") for secret in secrets if secret}
    facts: list[object] = [
        config.digest, sorted(config.inputs.items()),
        *([name, None if each is None else each.compared] for name, each in sorted(env.items())),
    ]  # fmt: skip
    if "url" in entry:
        launch = _connection(entry["url"], texts, headers, facts)
    else:
        launch = _process(config, texts, {name: each and each.real for name, each in env.items()}, facts)
    return replace(
        launch, digest=hashlib.sha256(json.dumps(facts).encode()).hexdigest(), env_file=env_file or "",
        settings=texts.settings, dangers=_dangers(config, env, texts, environment, path), secrets=texts.secrets,
    )  # fmt: skip


def _connection(written: str, texts: _Texts, headers: Mapping[str, Text], facts: list[object]) -> Launch:
    """Return the connection to a URL, and add to `facts` what the user's consent depends on."""
    url = texts.expand("url", written, "url")
    origin = _before_path(url.real)  # the true host, even if a variable contains it
    facts += [origin, url.compared, sorted((name, each.compared) for name, each in headers.items())]
    real = {name: each.real for name, each in headers.items()}
    return Launch([], url.real, {}, real, None, shown_url=origin + url.shown[len(_before_path(url.shown)) :])


def _process(config: ServerConfig, texts: _Texts, env: dict[str, str | None], facts: list[object]) -> Launch:
    """Return the start of a process, and add to `facts` what the user's consent depends on."""
    if not config.command:
        return Launch([], None, env, {}, None)  # a server in this program
    word = texts.expand("command", config.entry["command"]).real
    arguments = [texts.expand("args", each, "argument", each) for each in config.entry.get("args", [])]
    written = texts.expand("cwd", config.entry["cwd"]).real if "cwd" in config.entry else None
    cwd = _without_links(os.getcwd() if written is None else os.path.join(config.folder, written))
    command = [word, *(each.real for each in arguments)]
    search = server_environment(env).get("PATH")
    try:
        program = system.SYSTEM.find_program(command, search, cwd)[0]
    except (OSError, ValueError):  # the start reports the reason
        program = None
    # by argument, the absolute paths of those that exist: a path is not a secret, and it decides what runs
    possible = {each.real: os.path.join(cwd, each.real) for each in arguments if "${input:" not in each.compared}
    existing = {argument: path for argument, path in possible.items() if argument and os.path.exists(path)}
    compared = [each.real if each.real in existing else each.compared for each in arguments]
    facts += [program, word, compared, cwd, search]
    shown = (word, *(each.shown for each in arguments))
    paths = tuple(path for path in existing.values() if path not in shown)
    return Launch(command, None, env, {}, cwd, program=program, shown_command=shown, paths=paths)


class _Texts:
    """The texts of one server with their variables replaced, and a record of the variables."""

    def __init__(self, config: ServerConfig, environment: Mapping[str, str], inputs: Mapping[str, str]) -> None:
        self.secrets = set[str]()
        self._settings: dict[tuple[_Place, str], list[Setting]] = {}  # by place and name; a file can have thousands
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
        """Replace the variables of a text of the entry's `key`. `place` and `name` say where the server gets it."""
        pieces, end = list[Text](), 0
        for found in _VARIABLE.finditer(text):
            literal = _public(text[end : found.start()] + ("${" if found[1] is None else ""))
            pieces.append(literal)
            if found[1] is not None:
                pieces.append(self.value_of(key, found[1], place, name))
            end = found.end()
        pieces.append(_public(text[end:]))
        expanded = Text(*("".join(forms) for forms in zip(*pieces, strict=True)))  # each of the three forms by itself
        if key == "url" and "${input:" in _before_path(expanded.shown):
            raise self._error(key, f"the host in {text!r:.100} is an input; {_NO_INPUT}")
        return expanded

    def value_of(self, key: str, variable: str, place: _Place | None, name: str) -> Text:
        """Return the value of one variable, and record its use."""
        if variable in self._predefined:
            return _public(self._predefined[variable])
        source, has_default, default = variable.removeprefix("env:").partition(":-")
        if source.startswith("input:"):
            return self._typed(key, source[6:], default if has_default else None, place, name)
        value = self._environment.get(source)
        if has_default and not value:
            return _public(default)
        if value is None:
            advice = f"set this variable, or write ${{{source:.100}:-default}}"
            raise self._error(key, f"the variable {source!r:.100} is not set; {advice}")
        if source in INHERITED_VARIABLES:
            return _public(value)
        self.secrets.add(value)
        if place is None:
            return _public(value)  # it decides what runs, so the user sees it
        self._note(Setting(place, name, "environment", source))
        shown = f"${{{source}}}"
        is_replaced = is_secret_name(source) or (place in ("variable", "header") and is_secret_name(name))
        return Text(value, shown, shown if is_replaced else value)

    def _typed(self, key: str, id: str, default: str | None, place: _Place | None, name: str) -> Text:
        if place is None:
            raise self._error(key, f"${{input:{id:.100}}} cannot be used here; {_NO_INPUT}")
        value = self._inputs.get(id)
        if not value and default:
            value = default
        if value is None:
            advice = "describe it in `inputs`, and give ask= to the Host"
            raise self._error(key, f"the variable {f'input:{id}'!r:.100} is not set; {advice}")
        self.secrets.add(value)
        self._note(Setting(place, name, "input", id, _without_secret(name, default or "")))
        shown = f"${{input:{id}:-{default}}}" if default else f"${{input:{id}}}"  # without a typed text, it is sent
        return Text(value, shown, f"${{input:{id}}}")

    def variables(self, env_file: str) -> dict[str, Text | None]:
        """Return the environment variables of the entry and of its `envFile`, by name."""
        env: dict[str, Text | None] = {}
        for name, value in _parse_env_file(env_file).items():
            shown = _without_secret(name, value)
            self._note(Setting("variable", name, "envFile", value=shown))
            env[name] = Text(value, shown, "" if is_secret_name(name) and not is_place(value) else value)
        entry = self._config.entry
        for name in entry.get("env_vars", []):
            if name in self._environment:
                self._settings.pop(("variable", name), None)  # the sources of the value that is replaced
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
        headers = {
            name: self._with_source(f"headers.{name}", value, "header", name)
            for name, value in entry.get("headers", {}).items()
        }
        for name, variable in entry.get("env_http_headers", {}).items():
            headers[name] = self.value_of("env_http_headers", variable, "header", name)
        if "bearer_token_env_var" in entry:
            token = self.value_of("bearer_token_env_var", entry["bearer_token_env_var"], "header", "Authorization")
            headers["Authorization"] = Text(*(f"Bearer {form}" for form in token))
        return headers

    def _with_source(self, key: str, text: str, place: _Place, name: str) -> Text:
        """Replace the variables of a text. If it is more than one variable of the user, its source is also the file."""
        expanded = self.expand(key, text, place, name)
        if (place, name) not in self._settings or not _VARIABLE.fullmatch(text):
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
    """Return the value of a variable or header as the user sees it."""
    if not value or not may_be_secret(name):
        return value
    if not is_place(value):
        return "***"
    if "://" not in value:
        return value
    return _QUERY.sub(r"\1***", _USER_OF_URL.sub("://***@", value))


def _before_path(url: str) -> str:
    """Return the scheme and host of a URL, or the variable that stands for them."""
    found = re.match(r"(?:[^:/?#]+://)?[^/?#]*", url)
    return found[0] if found is not None else ""


def _without_links(folder: str) -> str:
    """Return the true path of a folder, because a link may later lead to another folder than the user has seen."""
    try:
        return os.path.realpath(folder)
    except ValueError:  # NUL or half of a surrogate pair, which the start reports
        return os.path.abspath(folder)


def _dangers(
    config: ServerConfig, env: Mapping[str, Text | None], texts: _Texts, environment: Mapping[str, str],
    env_file: str | None,
) -> tuple[Danger, ...]:  # fmt: skip
    """Return the dangerous variables, except those that keep the user's own value."""
    from_env_file = {each.name for each in texts.settings if each.source == "envFile"}
    found = []
    for name, text in env.items():
        reason = variable_danger(name)
        if reason is not None and text is not None and text.real != environment.get(name):
            warning = f"{quoted(name)} {reason}; it is set to {quoted(text.shown)}"
            found.append(Danger(name, warning, env_file if name in from_env_file else config.file))
    return tuple(found)


def _read_env_file(config: ServerConfig, path: str) -> str:
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_ENV_FILE + 1)
        if len(content) > MAX_ENV_FILE:
            raise ValueError(f"it has more than {MAX_ENV_FILE} bytes")
        return str(content, "utf-8")
    except (OSError, ValueError) as error:
        # Name the path as written, because a variable in the path that was read may be a secret.
        written, reason = config.entry["envFile"], error.strerror if isinstance(error, OSError) else error
        raise ConfigurationError(f"{config.place}: cannot read the envFile {written!r:.200}: {reason}") from None


def _parse_env_file(text: str) -> dict[str, str]:
    """Return the variables of lines such as `export NAME="value"`. Other lines are ignored."""
    lines = [re.fullmatch(r"(?:export\s+)?([A-Za-z_]\w*)\s*=(.*)", line.strip()) for line in text.split("\n")]
    pairs = [(found[1], found[2].strip()) for found in lines if found is not None]
    return {name: re.sub(r"""^(["'])(.*)\1$""", r"\2", value) for name, value in pairs}
