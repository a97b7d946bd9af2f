"""The approval: everything that a user needs to decide about one request, and warnings about its dangers.

A host must get the user's consent before it calls a tool, or gives data to a server [2026-07-28 index#key-principles].
Because code cannot judge whether a description is honest, the program gives the host a function, `approve`, which is
called with an `Approval` of one of these kinds:

    start         before the process of a server from a file is started, or its URL is contacted
    variable      before a file that is not the user's own sets a dangerous variable, such as PATH (dangers.py)
    roots         before a server gets directories
    definition    a tool has changed since it was approved, is new, or has hidden characters
    call          before a tool is called; `Approval.after` has the servers whose results the model may know
    read, prompt  before a resource or a prompt goes to the model
    sample        the server requests a message from the model
    sampled       before the server gets this message
    elicit        the server requests input from the user

Threats:
    forged-approval: A file or a server misleads the user with line breaks, hidden characters or many spaces, so that a
        value looks like other lines of an approval. Each value is JSON on one line, and continued rows are marked.

Spec:  2026-07-28 index#key-principles, server/tools#security-considerations, client/elicitation#safe-url-handling
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Literal, TypeAlias

from ..features.tools import Tool
from ..jsonrpc.errors import McpError
from ..lib.fields import CheckedFields
from ..lib.text import escape_hidden, fold, hidden_characters
from ..lib.web_url import browser_host

Kind = Literal["start", "variable", "roots", "definition", "call", "read", "prompt", "sample", "sampled", "elicit"]
Origin = Literal["program", "model", "server"]
Duration = Literal["once", "run", "always"]


class Refused(McpError):
    """A request that was not sent, because the policy of the host does not allow it."""


class Undecided(Refused):
    """A refusal without a decision: `approve` failed or took too long, too many requests wait, or the log failed."""


@dataclass(frozen=True)
class Setting:
    """A text that a server gets when it starts, and its source."""

    place: Literal["argument", "variable", "header", "url"]
    """The kind of text: a command-line argument, an environment variable, a header of each request, or the URL."""
    name: str
    """The name of the variable or header, or the argument as written. Empty for the URL."""
    source: Literal["file", "envFile", "environment", "input", "removed"]
    """The configuration file, its `envFile`, the user's environment, or a text that the user types. A removed variable
    is one that the server would inherit otherwise."""
    of: str = ""
    """The name of the variable in the user's environment, or the id of the input."""
    value: str = ""
    """The text that the file sets. Secrets are shown as `***`, and the user's variables as `${NAME}`. For an input, the
    default, which the server gets if the user types nothing."""

    def text(self, host: str | None) -> str:
        """Return the name and the source as text. `host` is the host to which headers and the URL are sent."""
        name = f"{quoted(self.name)} " if self.name else ""
        default = f", or {quoted(self.value)}" if self.value else ""
        sources = {
            "file": f"set by the file to {quoted(self.value)}", "removed": "removed",
            "envFile": f"set by the envFile to {quoted(self.value)}",
            "environment": f"gets your variable {quoted(self.of)}",
            "input": f"gets what you type for {quoted(self.of)}{default}",
        }  # fmt: skip
        receiver = f", sent to {quoted(host)}" if self.place in ("header", "url") else ""
        return f"{name}{sources[self.source]}{receiver}"


@dataclass(frozen=True)
class Approval:
    """A request for the user's consent. Fields that a kind does not need are empty."""

    kind: Kind
    server: str
    origin: Origin
    """The program, the model, or the server, whichever makes the request."""
    name: str = ""
    """The full name of a tool or prompt, or a URI. For a request of the server, the only call in flight, or "" if
    several calls, or no calls, are in flight."""
    file: str | None = None
    """Path of the configuration file of the server, or None if the program gave the server."""
    program: str | None = None
    """Absolute path of the program that starts, or None if it was not found."""
    argv: tuple[str, ...] = ()
    """The complete command. `${NAME}` means a variable of the user's environment, or a text that the user types."""
    paths: tuple[str, ...] = ()
    """Absolute paths of the files and folders among the arguments, such as a script."""
    cwd: str | None = None
    """Absolute path of the folder in which the program starts."""
    settings: tuple[Setting, ...] = ()
    """Environment variables and headers for the server, and arguments or a URL with variables or inputs of the user."""
    url: str | None = None
    """The URL with its true host. `${NAME}` means the same as in `argv`."""
    arguments: Mapping[str, object] | None = None
    """The exact arguments of a call or a prompt."""
    tool: Tool | None = None
    before: Tool | None = None
    """The approved definition of a changed tool. None if this run has not seen it."""
    reason: str = ""
    """The reason why the user is asked about a definition: "new", "changed" or "hidden characters"."""
    trusted: bool = False
    """True if the program trusts the annotations of this server."""
    after: frozenset[str] = frozenset()
    """The servers whose results or errors the model can have seen since the user's last message."""
    content: object = None
    """The params of an elicitation or a sampling request, the message of the model, or the directories."""
    warnings: tuple[str, ...] = ()

    @property
    def url_host(self) -> str | None:
        """The host of the URL, or None if the URL is invalid. A user interface should highlight it."""
        try:
            return None if self.url is None else browser_host(self.url)
        except ValueError:
            return None

    def text(self, columns: int | None = None) -> str:
        """Return the approval as plain text, a line for each fact, the dangers first. Nothing is cut.

        Each value is JSON on one line, so that it cannot look like another line.

        Args:
            columns: Width of the terminal. Longer lines are continued in rows that begin with `    | `, so that no row
                looks like a line of its own. Default: lines are not folded.
        """
        lines = [f"{self.kind}: server {self.server}, asked by the {self.origin}"]
        lines += [f"WARNING: {text}" for text in self.warnings]
        lines += [f"{label}: {quoted(value)}" for label, value in self._facts() if value not in _EMPTY]
        lines += [f"{setting.place}: {setting.text(self.url_host)}" for setting in self.settings]
        if self.file is not None:
            lines.append(f"file: {quoted(self.file)}")
        return "\n".join(fold(line, columns) for line in lines)

    def _facts(self) -> list[tuple[str, object]]:
        """Return the labels and values, except warnings and settings. Those that are usually short come first."""
        facts: list[tuple[str, object]] = [
            ("name", self.name), ("reason", self.reason), ("url_host", self.url_host), ("url", self.url),
            ("program", self.program), ("argv", self.argv), *(("path", path) for path in self.paths),
            ("cwd", self.cwd), ("after", self.after), ("arguments", self.arguments), ("content", self.content),
        ]  # fmt: skip
        if self.argv and self.program is None:
            facts.insert(0, ("program", "not found"))
        if self.tool is not None:
            for field in fields(Tool):
                now = getattr(self.tool, field.name)
                old = getattr(self.before, field.name, None)  # None without `before`, which `text` leaves out
                if self.before is None or now != old:  # for a changed tool, only the fields that differ
                    facts += [(f"before.{field.name}", old), (f"tool.{field.name}", now)]
        return [*facts, ("trusted", self.trusted)]


_EMPTY: tuple[object, ...] = (None, False, "", (), frozenset())
"""The values of fields that a kind does not need, which `Approval.text` leaves out."""


@dataclass(frozen=True)
class Allow(CheckedFields):
    """The consent to an `Approval`.

    Args:
        remember: "once" stores nothing; "run" lasts until the host is closed; "always" is stored in `Host.approvals`.
        params: The edited arguments, sampling request or message that the host sends; None to change nothing.
    """

    remember: Duration = "once"
    params: object = None


@dataclass(frozen=True)
class Deny(CheckedFields):
    """The refusal of an `Approval`. The program gets the reason, but the server never does."""

    reason: str = "the user refused"


Approve: TypeAlias = Callable[[Approval], Awaitable["Allow | Deny | bool"]]
"""The program's function that decides about approvals."""


def ask_unless_read_only(approve: Approve) -> Approve:
    """Return an `approve` function that allows read-only tools of trusted servers, and asks `approve` for the rest.

    Args:
        approve: The function that asks the user.
    """

    async def decide(request: Approval) -> Allow | Deny | bool:
        # [2025-03-26 server/tools#tool] the annotations of an untrusted server MUST NOT be trusted
        if request.kind == "call" and request.trusted and request.tool is not None:
            annotations = request.tool.annotations
            if annotations is not None and annotations.read_only_hint is True:
                return True
        return await approve(request)

    return decide


def hidden_text_warnings(value: object) -> tuple[str, ...]:
    """Return a warning if a text inside JSON or a dataclass has hidden characters, else an empty tuple."""
    found, unread = set[str](), [value]
    while unread:
        part = unread.pop()
        if isinstance(part, str):
            found |= hidden_characters(part)
        elif isinstance(part, Mapping):
            unread += [*part, *part.values()]
        elif isinstance(part, list | tuple):
            unread += part
        elif is_dataclass(part):
            unread += [getattr(part, field.name) for field in fields(part)]
    shown = " ".join(map(escape_hidden, sorted(found)[:10]))
    return (f"the text has hidden characters: {shown}",) if found else ()


def quoted(value: object) -> str:
    """Return a value as JSON on one line, with hidden characters escaped, so that it cannot look like another line."""
    return escape_hidden(json.dumps(value, ensure_ascii=False, default=_as_json), keep="")


def _as_json(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        members = {field.name: getattr(value, field.name) for field in fields(value)}
        return {name: member for name, member in members.items() if member is not None}
    return sorted(value) if isinstance(value, frozenset) else str(value)
