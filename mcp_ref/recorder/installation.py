"""The recorder in a host's configuration file, which starts the server through `record` from then on.

    "command": "npx", "args": ["-y", "server"]
    "command": "python3", "args": ["-P", "-m", "mcp_ref", "record", "talk.jsonl", "--", "npx", "-y", "server"]

Only these two values change, and the server's own words stay as they are spelled, so the removal brings back every byte
of the file: comments, order and spaces too. A person sees the difference before it is written.

Used by: cli/installation.py. Uses: host/configuration.py
"""

from __future__ import annotations

import difflib
import json
import os
import re
import site
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..host.configuration import TOP_KEYS, ConfigurationError, ServerConfig, read_config

_PACKAGE: Final = (__package__ or "").rpartition(".")[0]
"""Name under which this package can be run with `python3 -m`."""
_TOKEN: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/|[^\s"/]', re.DOTALL)
"""A string, a comment or another character of JSON with comments."""
_STRING: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'')
"""A string of JSON or TOML."""
_TOML_VALUE: Final = re.compile(rf"(command|args)[ \t]*=[ \t]*({_STRING.pattern}|\[(?:{_STRING.pattern}|[^\]\"'])*\])")


class InstallationError(ValueError):
    """A configuration file in which this server cannot be edited."""


@dataclass(frozen=True)
class Plan:
    """A new text for a file."""

    path: str
    old: str
    new: str

    def difference(self) -> str:
        """Return the lines that change, as `diff -u` prints them."""
        old, new = self.old.splitlines(), self.new.splitlines()
        return "\n".join(difflib.unified_diff(old, new, self.path, f"{self.path} (new)", lineterm=""))

    def write(self) -> None:
        """Replace the file, if it still has the old text. Its owner and mode stay."""
        path = os.path.realpath(self.path)
        if _read(path) != self.old:
            raise InstallationError(f"{path} has changed meanwhile")
        descriptor, name = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".mcp-")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
                file.write(self.new)
            status = os.stat(path)
            if hasattr(os, "chown"):
                os.chown(name, status.st_uid, status.st_gid)  # root must not take a user's file away
            os.chmod(name, status.st_mode & 0o7777)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise


def plan_installation(path: str, name: str, recording: str) -> Plan:
    """Return the file with the recorder in front of a server. Raise InstallationError."""
    server = _find(path, name)
    words = server.command
    if not words:
        raise InstallationError(
            f"{server.place} has a URL: start `record FILE --http URL`, and write the URL it prints"
        )
    if _recorded_command(words) is not None:
        raise InstallationError(f"{server.place} is recorded already")
    words = [sys.executable or "python3", *_record_words(), recording, "--", *words]
    return _planned(path, server, words, _with_recorder)


def plan_removal(path: str, name: str) -> Plan:
    """Return the file as it was before `plan_installation`. Raise InstallationError."""
    server = _find(path, name)
    words = _recorded_command(server.command)
    if words is None:
        raise InstallationError(f"{server.place} is not recorded")
    return _planned(path, server, words, _without_recorder)


def _record_words() -> list[str]:
    """Return the words after `python3` that start the recorder in any folder, also if the package is not installed."""
    home = str(Path(__file__).resolve().parents[_PACKAGE.count(".") + 2])
    if home in {sysconfig.get_path("purelib"), site.getusersitepackages()}:
        return ["-P", "-m", _PACKAGE, "record"]
    start = f"import sys; sys.path.insert(0, {home!r}); from {_PACKAGE}.__main__ import main; sys.exit(main())"
    return ["-P", "-c", start, "record"]  # -P, because a folder in which a host starts can contain an `argparse.py`


def _recorded_command(words: list[str]) -> list[str] | None:
    """Return the server's own command in the command of a recorder, or None."""
    starts_package = words[2:3] in (["-m"], ["-c"]) and _PACKAGE in "".join(words[3:4])
    starts_recorder = words[1:2] == ["-P"] and starts_package and words[4:5] == ["record"]
    return words[words.index("--") + 1 :] if starts_recorder and "--" in words else None


def _find(path: str, name: str) -> ServerConfig:
    try:
        servers = read_config(path).servers
    except ConfigurationError as error:
        raise InstallationError(str(error)) from None
    for server in servers:
        if name in (server.key, server.name):
            if server.problem is not None:
                raise InstallationError(server.problem)
            return server
    raise InstallationError(f"{path} has no server {name!r}; it has {', '.join(each.key for each in servers)}")


def _read(path: str) -> str:
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()


_Span = tuple[int, int]
"""Start and end of a value in a file."""
_Edit = Callable[[str, _Span, _Span | None, list[str]], str]
"""A function from a text, the places of `command` and `args` in it, and the new command to the new text."""


def _planned(path: str, server: ServerConfig, words: list[str], edit: _Edit) -> Plan:
    old = _read(path)
    find = _toml_values if Path(path).suffix == ".toml" else _json_values
    command, arguments = find(old, server.key)
    plan = Plan(os.path.abspath(path), old, edit(old, command, arguments, words))
    _check(plan, server, words)
    return plan


def _with_recorder(text: str, command: _Span, arguments: _Span | None, words: list[str]) -> str:
    own_words = words.index("--") + 1
    inserted = [*(_quoted(word) for word in words[1:own_words]), text[command[0] : command[1]]]
    if arguments is None:
        return f"{text[: command[0]]}{_quoted(words[0])}{_NEW_ARGUMENTS}{', '.join(inserted)}]{text[command[1] :]}"
    start = arguments[0] + 1
    comma = ", " if _STRING.search(text, *arguments) else ""
    return _replaced(text, {command: _quoted(words[0]), (start, start): ", ".join(inserted) + comma})


def _without_recorder(text: str, command: _Span, arguments: _Span | None, words: list[str]) -> str:
    strings = [] if arguments is None else list(_STRING.finditer(text, *arguments))
    dashes = next((index for index, found in enumerate(strings) if found[0][1:-1] == "--"), len(strings))
    if arguments is None or dashes + 1 >= len(strings):
        raise InstallationError("the words of the recorder are not where they are expected")
    own, start = strings[dashes + 1], arguments[0] + 1
    end = own.end() + (2 if text.startswith(", ", own.end()) else 0)
    if text[own.end() : arguments[1]] == "]" and text[command[1] : start] == _NEW_ARGUMENTS:
        return text[: command[0]] + own[0] + text[arguments[1] :]
    return _replaced(text, {command: own[0], (start, end): ""})


_NEW_ARGUMENTS: Final = ',"args" : ['
"""The text between `command` and the words of the recorder, if the server had no arguments. Its spaces are unusual, so
that the removal knows it."""


def _quoted(word: str) -> str:
    return json.dumps(word, ensure_ascii=False)


def _replaced(text: str, values: dict[_Span, str]) -> str:
    for (start, end), value in sorted(values.items(), reverse=True):
        text = text[:start] + value + text[end:]
    return text


def _check(plan: Plan, server: ServerConfig, words: list[str]) -> None:
    """Raise InstallationError unless the new text differs in this server's command only."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, Path(plan.path).name)
        copy.write_text(plan.new, "utf-8")
        try:
            found = {each.key: each.entry for each in read_config(copy).servers}
        except ConfigurationError as error:
            raise InstallationError(f"{plan.path} cannot be edited: {error}") from None
    for each in read_config(plan.path).servers:
        changed = {"command": words[0], "args": words[1:]} if each.key == server.key else {}
        if {"args": [], **each.entry, **changed} != {"args": [], **found.get(each.key, {})}:
            raise InstallationError(f"{plan.path} cannot be edited: its form is not known here; edit it by hand")


def _json_values(text: str, key: str) -> tuple[_Span, _Span | None]:
    """Return the places of `command` and `args` of a server. `args` can be missing."""
    start = next(found.start() for found in _TOKEN.finditer(text) if found[0] == "{")
    for names in (TOP_KEYS, (key,)):
        members = dict(_members(text, start))
        start = next((members[name][0] for name in names if name in members), -1)
        if start < 0 or text[start] != "{":
            raise InstallationError(f"the key {names[0]!r} is not where it is expected")
    members = dict(_members(text, start))
    return members["command"], members.get("args")


def _members(text: str, start: int) -> list[tuple[str, _Span]]:
    """Return the names in the object that begins at `start`, with the places of their values."""
    found, depth, name, begin, end = list[tuple[str, _Span]](), 0, None, -1, -1
    for token in _TOKEN.finditer(text, start):
        word = token[0]
        if word.startswith(("//", "/*")):
            continue
        if depth == 1 and word in ",}" and name is not None:
            found.append((name, (begin, end)))
            name, begin = None, -1
        elif depth == 1 and name is None and word.startswith('"'):
            name = json.loads(word)
        elif depth == 1 and word != ":" and begin < 0 and name is not None:
            begin = token.start()
        if word in ("{", "["):
            depth += 1
        elif word in ("}", "]"):
            depth -= 1
        end = token.end()
        if depth == 0:
            break
    return found


def _toml_values(text: str, key: str) -> tuple[_Span, _Span | None]:
    """Return the places of `command` and `args` of a server."""
    quoted = re.escape(key)
    table = re.search(rf'^[ \t]*\[mcp_servers\.(?:{quoted}|"{quoted}")\][^\n]*\n', text, re.MULTILINE)
    if table is None:
        raise InstallationError(f"the table [mcp_servers.{key}] is not where it is expected")
    following = re.compile(r"^[ \t]*\[(?!\[)[\w.\"'-]+\]", re.MULTILINE).search(text, table.end())
    end = following.start() if following is not None else len(text)
    values = {found[1]: found.span(2) for found in _TOML_VALUE.finditer(text, table.end(), end)}
    if "command" not in values or "args" not in values:
        raise InstallationError(f"{key} needs `command` and `args` in its table; add `args = []`")
    return values["command"], values["args"]
