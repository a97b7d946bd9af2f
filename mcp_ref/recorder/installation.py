"""The recorder in a host's configuration file, so that the host starts a server through `record`:

    before  "command": "npx", "args": ["-y", "server"]
    after   "command": "python3", "args": ["-P", "-m", "mcp_ref", "record", "talk.jsonl", "--", "npx", "-y", "server"]

The file is edited as text. Only these two values change, and the words of the server's own command keep their spelling,
so the removal brings back every byte of the file, including comments, order and spaces. The user sees the difference
before it is written.

    plan_installation, plan_removal -> `Plan.difference` for the user -> `Plan.write`

Used by: cli/installation.py. Uses: host/configuration.py
"""

from __future__ import annotations

import difflib
import itertools
import json
import os
import re
import site
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from ..host.configuration import TOP_KEYS, ConfigurationError, ServerConfig, read_config

_PACKAGE: Final = (__package__ or "").rpartition(".")[0]
"""Name under which this package can be run with `python3 -m`: `mcp_ref`, or a longer one if it is vendored."""
_TOKEN: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/|[^\s"/]', re.DOTALL)
"""A string, a comment or another character of JSON with comments."""
_STRING: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'')
"""A string of JSON or TOML."""
_NEW_ARGUMENTS: Final = ',"args" : ['
"""The text that begins `args` if the server had none. The removal recognizes it by its unusual spaces."""
# `command = "npx"` or `args = [...]` of a TOML table
_TOML_VALUE: Final = re.compile(rf"(command|args)[ \t]*=[ \t]*({_STRING.pattern}|\[(?:{_STRING.pattern}|[^\]\"'])*\])")


class InstallationError(ValueError):
    """A configuration file, or a server in it, that cannot be edited."""


@dataclass(frozen=True)
class Plan:
    """An edit of a file, before it is written."""

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
        descriptor, new_file = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".mcp-")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
                file.write(self.new)
            status = os.stat(path)
            if hasattr(os, "chown"):
                os.chown(new_file, status.st_uid, status.st_gid)  # root must not take a user's file away
            os.chmod(new_file, status.st_mode & 0o7777)
            os.replace(new_file, path)
        except BaseException:
            os.unlink(new_file)
            raise


def plan_installation(path: str, name: str, recording: str) -> Plan:
    """Plan to put the recorder in front of a server. Raise InstallationError if that is impossible."""
    server = _find(path, name)
    if not server.command:
        raise InstallationError(f"{server.place} has a URL: run `record FILE --http URL`, and enter the URL it prints")
    if _recorded_command(server.command) is not None:
        raise InstallationError(f"{server.place} is recorded already")
    command = [sys.executable or "python3", *_record_arguments(), recording, "--", *server.command]
    return _planned(path, server, command, _with_recorder)


def plan_removal(path: str, name: str) -> Plan:
    """Plan to undo `plan_installation`. Raise InstallationError if that is impossible."""
    server = _find(path, name)
    command = _recorded_command(server.command)
    if command is None:
        raise InstallationError(f"{server.place} is not recorded")
    return _planned(path, server, command, _without_recorder)


def _record_arguments() -> list[str]:
    """Return the arguments of Python that start the recorder in any folder, even if the package is not installed."""
    package_folders = _PACKAGE.count(".") + 1
    home = str(Path(__file__).resolve().parents[package_folders + 1])  # the folder that contains the package
    # -P, because a folder in which a host starts its servers can contain an `argparse.py`
    if home in {sysconfig.get_path("purelib"), site.getusersitepackages()}:
        return ["-P", "-m", _PACKAGE, "record"]
    start = f"import sys; sys.path.insert(0, {home!r}); from {_PACKAGE}.__main__ import main; sys.exit(main())"
    return ["-P", "-c", start, "record"]


def _recorded_command(command: list[str]) -> list[str] | None:
    """Return the server's own command in the command of a recorder, or None for another command."""
    match command:
        case [_, "-P", "-m" | "-c", program, "record", *rest] if _PACKAGE in program and "--" in rest:
            return rest[rest.index("--") + 1 :]
    return None


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


class _Span(NamedTuple):
    """The place of a value in a file."""

    start: int
    end: int


_Edit = Callable[[str, _Span, _Span | None, list[str]], str]
"""A function that edits a text, given the places of `command` and `args` in it, and the new command."""


def _planned(path: str, server: ServerConfig, command: list[str], edit: _Edit) -> Plan:
    """Return the plan that gives a server a new command. Raise InstallationError if `edit` changes anything else."""
    old = _read(path)
    find_values = _toml_values if Path(path).suffix == ".toml" else _json_values
    program, arguments = find_values(old, server.key)
    plan = Plan(os.path.abspath(path), old, edit(old, program, arguments, command))
    _check(plan, server, command)
    return plan


def _with_recorder(text: str, program: _Span, arguments: _Span | None, command: list[str]) -> str:
    """Write Python in place of the program, and the recorder's arguments and the program before the arguments."""
    recorder_words = command[: command.index("--") + 1]  # then the server's own words, which keep their spelling
    python, *recorder = [json.dumps(word, ensure_ascii=False) for word in recorder_words]
    inserted = ", ".join([*recorder, text[program.start : program.end]])
    if arguments is None:
        return _replaced(text, {program: f"{python}{_NEW_ARGUMENTS}{inserted}]"})
    has_arguments = _STRING.search(text, *arguments) is not None
    comma = ", " if has_arguments else ""
    after_bracket = arguments.start + 1
    return _replaced(text, {program: python, _Span(after_bracket, after_bracket): inserted + comma})


def _without_recorder(text: str, program: _Span, arguments: _Span | None, command: list[str]) -> str:
    """Write the server's own program, which comes after the two dashes in the arguments, back to its place, and remove
    all arguments before it."""
    strings = [] if arguments is None else list(_STRING.finditer(text, *arguments))
    own_programs = [after for dashes, after in itertools.pairwise(strings) if dashes[0] in ('"--"', "'--'")]
    if arguments is None or not own_programs:
        raise InstallationError("the recorder's arguments are not where they are expected")
    own = own_programs[0]
    after_bracket = arguments.start + 1
    if text[program.end : after_bracket] == _NEW_ARGUMENTS and text[own.end() : arguments.end] == "]":
        # the server had no `args` before, so remove them
        return _replaced(text, {_Span(program.start, arguments.end): own[0]})
    end = own.end() + len(", ") if text.startswith(", ", own.end()) else own.end()
    return _replaced(text, {program: own[0], _Span(after_bracket, end): ""})


def _replaced(text: str, new_values: dict[_Span, str]) -> str:
    """Return the text with a new value in each of these places."""
    # from the end of the text, because each replacement moves the text after it
    for (start, end), value in sorted(new_values.items(), reverse=True):
        text = text[:start] + value + text[end:]
    return text


def _check(plan: Plan, server: ServerConfig, command: list[str]) -> None:
    """Raise InstallationError unless the new text differs in this server's command only."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, Path(plan.path).name)
        copy.write_text(plan.new, "utf-8")
        try:
            new_entries = {each.key: each.entry for each in read_config(copy).servers}
        except ConfigurationError as error:
            raise InstallationError(f"{plan.path} cannot be edited: {error}") from None
    for each in read_config(plan.path).servers:
        expected = {"args": [], **each.entry}  # without `args` means the same as with none
        if each.key == server.key:
            expected |= {"command": command[0], "args": command[1:]}
        if expected != {"args": [], **new_entries.get(each.key, {})}:
            raise InstallationError(f"{plan.path} has an unusual form, so edit it by hand")


def _json_values(text: str, key: str) -> tuple[_Span, _Span | None]:
    """Return the places of `command` and `args` of a server, or None for missing `args`."""
    file_start = next(token.start() for token in _TOKEN.finditer(text) if token[0] == "{")
    servers_start = _object_start(text, file_start, TOP_KEYS)
    server_start = _object_start(text, servers_start, (key,))
    members = _members(text, server_start)
    return members["command"], members.get("args")


def _object_start(text: str, outer_start: int, names: Sequence[str]) -> int:
    """Return the place of an object that is a member of the object at `outer_start`, under the first of these names."""
    members = _members(text, outer_start)
    start = next((members[name].start for name in names if name in members), None)
    if start is None or text[start] != "{":
        raise InstallationError(f"the key {names[0]!r} is not where it is expected")
    return start


def _members(text: str, start: int) -> dict[str, _Span]:
    """Return the names in the object that begins at `start`, with the places of their values."""
    found = dict[str, _Span]()
    depth = 0  # open braces and brackets: 1 directly in the object, more within a value of a member
    name: str | None = None  # of the member that is being read
    value_start: int | None = None  # of this member, once its value has begun
    previous_end = start
    for token in _TOKEN.finditer(text, start):
        symbol = token[0]
        if symbol.startswith(("//", "/*")):
            continue
        if depth == 1:
            if symbol in ",}":  # the end of a member
                if name is not None and value_start is not None:
                    found[name] = _Span(value_start, previous_end)
                name = value_start = None
            elif name is None and symbol.startswith('"'):
                name = json.loads(symbol)
            elif name is not None and value_start is None and symbol != ":":
                value_start = token.start()
        if symbol in ("{", "["):
            depth += 1
        elif symbol in ("}", "]"):
            depth -= 1
        previous_end = token.end()
        if depth == 0:
            break
    return found


def _toml_values(text: str, key: str) -> tuple[_Span, _Span | None]:
    """Return the places of `command` and `args` of a server. Both have to be in its table."""
    escaped_key = re.escape(key)
    table = re.search(rf'^[ \t]*\[mcp_servers\.(?:{escaped_key}|"{escaped_key}")\][^\n]*\n', text, re.MULTILINE)
    if table is None:
        raise InstallationError(f"the table [mcp_servers.{key}] is not where it is expected")
    # the line `[mcp_servers.other]`, but not an array of tables, `[[...]]`
    next_table = re.compile(r"^[ \t]*\[(?!\[)[\w.\"'-]+\]", re.MULTILINE).search(text, table.end())
    end = next_table.start() if next_table is not None else len(text)
    values = {found[1]: _Span(*found.span(2)) for found in _TOML_VALUE.finditer(text, table.end(), end)}
    if "command" not in values or "args" not in values:
        raise InstallationError(f"{key} needs `command` and `args` in its table; add `args = []`")
    return values["command"], values["args"]
