"""The approval: everything that a user needs to decide about one request, and warnings about its dangers.

A host must get the user's consent before it calls a tool, or gives data to a server [2026-07-28 index#key-principles].
Code cannot judge if a description is honest. So the program gives the host one function, `approve`. The host calls it
with an `Approval` of one of these kinds:

    start         before a process is started or a URL is contacted, for a server of a file
    roots         before a server gets directories
    definition    a tool has changed since it was approved, is new, or has hidden characters
    call          before a tool is called; `after` names the servers whose results the model can have seen
    read, prompt  before a resource or a prompt goes to the model
    sample        the server requests a message from the model
    sampled       before the server gets this message
    elicit        the server requests input from the user

Spec:  2026-07-28 index#key-principles, server/tools#security-considerations, client/elicitation#safe-url-handling
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from ipaddress import ip_address
from typing import Literal, TypeAlias

from ..features.tools import Tool
from ..jsonrpc.errors import McpError
from ..lib.fields import CheckedFields
from ..lib.text import escape_hidden, hidden_characters
from ..lib.web_url import browser_host, look_alike_warnings

Kind = Literal["start", "roots", "definition", "call", "read", "prompt", "sample", "sampled", "elicit"]
Origin = Literal["program", "model", "server"]
Duration = Literal["once", "run", "always"]


class Refused(McpError):
    """A request that the policy of the host does not allow. Nothing was sent."""


class Undecided(Refused):
    """A refusal without a decision: `approve` failed or took too long, too many requests wait, or the log failed."""


@dataclass(frozen=True)
class Approval:
    """A request for the user's consent. Fields that a kind does not need are empty."""

    kind: Kind
    server: str
    origin: Origin
    """The origin of the request: the program, the model, or the server."""
    name: str = ""
    """The full name of a tool or prompt, or a URI. For a request of the server: the only call that runs, or ""."""
    file: str | None = None
    """Path of the configuration file of the server, or None if the program gave the server."""
    argv: tuple[str, ...] = ()
    """The complete command, as written in the file."""
    cwd: str | None = None
    env_names: tuple[str, ...] = ()
    url: str | None = None
    arguments: Mapping[str, object] | None = None
    """The exact arguments of a call or a prompt."""
    tool: Tool | None = None
    before: Tool | None = None
    """The approved definition of a changed tool. None if this run has not seen it."""
    trusted: bool = False
    """True if the program trusts the annotations of this server."""
    after: frozenset[str] = frozenset()
    """The servers whose results the model can have seen since the user's last message."""
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

    def text(self) -> str:
        """Return the fields with a value as plain text. Hidden characters are escaped, and nothing is cut."""
        shown = {each.name: getattr(self, each.name) for each in fields(self)[3:]} | {"url_host": self.url_host}
        empty: tuple[object, ...] = (None, False, "", (), frozenset())
        lines = [f"{name}: {_plain(value)}" for name, value in shown.items() if value not in empty]
        return escape_hidden("\n".join([f"{self.kind}: server {self.server}, asked by the {self.origin}", *lines]))


@dataclass(frozen=True)
class Allow(CheckedFields):
    """The consent to an `Approval`.

    Args:
        remember: "once" stores nothing; "run" lasts until the host is closed; "always" is stored in `Host.approvals`.
        params: The edited arguments, sampling request or message that the host sends. None changes nothing.
    """

    remember: Duration = "once"
    params: object = None


@dataclass(frozen=True)
class Deny(CheckedFields):
    """The refusal of an `Approval`. The program gets the reason. The server never gets it."""

    reason: str = "the user refused"


Approve: TypeAlias = Callable[[Approval], Awaitable["Allow | Deny | bool"]]
"""The function of the program that decides."""


def ask_unless_read_only(approve: Approve) -> Approve:
    """Return an `approve` function that allows read-only tools of trusted servers, and asks `approve` for the rest.

    Args:
        approve: The function that asks the user.
    """

    async def decide(request: Approval) -> Allow | Deny | bool:
        # [2025-03-26 server/tools#tool] the annotations of an untrusted server MUST NOT be trusted
        annotations = request.tool.annotations if request.tool is not None and request.trusted else None
        is_read_only = request.kind == "call" and annotations is not None and annotations.read_only_hint is True
        return True if is_read_only else await approve(request)

    return decide


def hidden_text_warnings(value: object) -> tuple[str, ...]:
    """Return a warning if a text inside JSON or a dataclass has hidden characters, else an empty tuple."""
    found, waiting = set[str](), [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            found |= hidden_characters(each)
        elif isinstance(each, Mapping):
            waiting += [*each, *each.values()]
        elif isinstance(each, list | tuple):
            waiting += each
        elif is_dataclass(each):
            waiting += [getattr(each, one.name) for one in fields(each)]
    shown = " ".join(map(escape_hidden, sorted(found)[:10]))
    return (f"the text has hidden characters: {shown}",) if found else ()


_SHELLS = {"sh", "bash", "zsh", "dash", "cmd", "cmd.exe", "powershell", "pwsh"}


def command_warnings(argv: tuple[str, ...], folder: str) -> tuple[str, ...]:
    """Return the dangers of a command that a user should know. `folder` is the folder of the file."""
    path = argv[0] if argv else ""
    program = path.rpartition("/")[2]
    found = ["the command runs a shell, which can run any other program"] if program in _SHELLS else []
    found += ["the command runs with the rights of another user"] if program in ("sudo", "doas") else []
    if "/" in path and not os.path.abspath(path).startswith((folder + os.sep, "/usr/")):
        found.append("the program lies outside the folder of the file")
    return tuple(found)


def url_warnings(url: str | None) -> tuple[str, ...]:
    """Return the reasons to distrust a URL. [2026-07-28 client/elicitation#safe-url-handling]"""
    if url is None:
        return ()
    try:
        host = browser_host(url)
    except ValueError as error:
        return (f"the URL is invalid: {error}",)
    found = [] if url.lower().startswith("https:") else ["the URL does not use https"]
    try:
        ip_address(host)
    except ValueError:
        return (*found, *look_alike_warnings(host))
    return (*found, "the host is an address without a name")


def _plain(value: object) -> str:
    if isinstance(value, dict | list | Tool):
        return json.dumps(asdict(value) if isinstance(value, Tool) else value, ensure_ascii=False, default=str)
    return " ".join(map(str, value)) if isinstance(value, tuple | frozenset) else str(value)
