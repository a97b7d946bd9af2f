"""The policy of a host: approvals, budgets, and the audit log.

A host must get the user's consent before it calls a tool, or gives data to a server [2026-07-28 index#key-principles].
Code cannot judge if a description is honest. So the program gives the host one function, `approve`. The host calls it
with an `Approval` that contains everything a user needs to decide:

    start         before a process is started or a URL is contacted, for a server of a file
    roots         before a server gets directories
    definition    a tool has changed since it was approved, is new, or has hidden characters
    call          before a tool is called; `after` names the servers whose results the model can have seen
    read, prompt  before a resource or a prompt goes to the model
    sample        the server requests a message from the model
    sampled       before the server gets this message
    elicit        the server requests input from the user

Only `Allow` and True allow a request. Any other value, an exception, or no decision in time is a refusal. Without an
`approve` function, the program's own requests are allowed, because the program's code is the consent. A server of a
file then starts only if the file lies outside the working directory, and only its owner can write to the file.

Spec:  2026-07-28 index#key-principles, server/tools#security-considerations, client/sampling,
       client/elicitation#safe-url-handling
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import time
import unicodedata
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from hashlib import sha256
from ipaddress import ip_address
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from ..features.tools import Tool
from ..jsonrpc.errors import McpError

log = logging.getLogger(__name__)

Kind = Literal["start", "roots", "definition", "call", "read", "prompt", "sample", "sampled", "elicit"]
Origin = Literal["program", "model", "server"]
Duration = Literal["once", "run", "always"]

APPROVE_SECONDS = 900.0
"""Default time limit of one decision, in seconds (15 minutes)."""

MAX_WAITING = 8
"""Maximum number of approvals of one server that wait for a decision. Further approvals are refused."""


@dataclass(frozen=True)
class Approval:
    """A request for the user's consent. Fields that a kind does not need are empty."""

    kind: Kind
    server: str
    origin: Origin
    """The origin of the request: the program, the model, or the server."""
    name: str = ""
    """The full name of a tool or prompt, or a URI. For a request of the server, the only call that runs."""
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
        """The host of the URL. A user interface should highlight it."""
        return None if self.url is None else urlsplit(self.url).hostname

    def text(self) -> str:
        """Return all fields as plain text for a user. Hidden characters are escaped, and nothing is cut."""
        shown = {each.name: getattr(self, each.name) for each in fields(self)[3:]} | {"url_host": self.url_host}
        lines = [
            f"{name}: {_plain(value)}" for name, value in shown.items() if value not in (None, "", (), frozenset())
        ]
        return escape_hidden("\n".join([f"{self.kind}: server {self.server}, asked by the {self.origin}", *lines]))


@dataclass(frozen=True)
class Allow:
    """The consent to an `Approval`.

    Args:
        remember: "once" stores nothing; "run" lasts until the host is closed; "always" is stored in `Host.approvals`.
        params: The edited arguments, sampling request or message that the host sends. None changes nothing.
    """

    remember: Duration = "once"
    params: object = None


@dataclass(frozen=True)
class Deny:
    """The refusal of an `Approval`. The program gets the reason. The server never gets it."""

    reason: str = "the user refused"


Approve: TypeAlias = Callable[[Approval], Awaitable["Allow | Deny | bool"]]
"""The function of the program that decides."""


class Refused(McpError):
    """A request that the policy of the host does not allow. Nothing was sent."""


class BudgetExceeded(Refused):
    """A request that exceeds a budget. The text names the budget."""


@dataclass(frozen=True)
class Budget:
    """The limits of the requests of one server, or of all servers of a host. None means no limit."""

    calls: int | None = None
    """Maximum number of tool calls."""
    calls_per_minute: int | None = None
    """Maximum number of tool calls in one minute."""
    seconds: float | None = None
    """Maximum time of all tool calls together, in seconds. The last call gets only the time that is left."""
    samples_per_call: int = 3
    """Maximum number of sampling requests during one tool call. Simultaneous calls of one server share the number."""
    sample_tokens: int | None = None
    """Maximum number of tokens of all messages of the model. It lowers `maxTokens`."""
    elicitations_per_call: int = 3
    """Maximum number of elicitations during one tool call. Simultaneous calls of one server share the number."""
    result_characters: int = 100_000
    """Maximum length of the texts of a tool result that a model gets, in characters."""


class Account:
    """The used parts of a budget. `record` writes to the audit log. `whole` is the account of all servers together."""

    def __init__(
        self, budget: Budget, owner: str, record: Callable[..., None], whole: Account | None = None
    ) -> None:  # fmt: skip
        self.budget, self._owner, self._record, self._whole = budget, owner, record, whole
        self._used: defaultdict[str, float] = defaultdict(float)
        self._minute = 0.0  # the start of the current minute

    def _accounts(self, limit: str) -> list[Account]:
        return [self] if self._whole is None or limit.endswith("_per_call") else [self, self._whole]

    def left(self, limit: str) -> float:
        """Return the unused part of a limit."""
        limits = [(getattr(each.budget, limit), each._used[limit]) for each in self._accounts(limit)]
        return min(math.inf if most is None else most - used for most, used in limits)

    def add(self, limit: str, amount: float) -> None:
        for each in self._accounts(limit):
            each._used[limit] += amount

    def use(self, limit: str, amount: float = 1) -> None:
        """Use a part of a limit. Raise BudgetExceeded, and use nothing, if nothing or less than `amount` is left."""
        for each in self._accounts(limit):
            most = getattr(each.budget, limit)
            if most is not None and most - each._used[limit] < max(amount, 1e-9):
                text = f"the budget {limit}={most} of {each._owner} is used up"
                self._record(reason=text)
                raise BudgetExceeded(text)
        self.add(limit, amount)

    def call(self, is_first: bool) -> None:
        """Count a tool call. `is_first` is True if no other call of the server runs."""
        now = time.monotonic()
        for each in self._accounts("calls_per_minute"):
            if now - each._minute >= 60:
                each._minute, each._used["calls_per_minute"] = now, 0
        if is_first:
            self._used["samples_per_call"] = self._used["elicitations_per_call"] = 0
        self.use("seconds", 0)
        self.use("calls_per_minute")
        self.use("calls")

    def sample(self, tokens: int) -> int:
        """Count a sampling request, and return the number of tokens that its message can have."""
        self.use("samples_per_call")
        tokens = int(min(tokens, max(1, self.left("sample_tokens"))))
        self.use("sample_tokens", tokens)
        return tokens


@dataclass
class Policy:
    """The decisions of one host. `HostOptions` documents the first four fields."""

    approve: Approve | None
    approvals: MutableMapping[str, str]
    audit: Callable[[str], None] | None
    seconds: float
    """Time limit of one decision, in seconds."""
    _run: set[str] = field(default_factory=set)  # the keys of the decisions with "run"
    _locks: dict[str, asyncio.Lock] = field(default_factory=dict)  # by server: one approval at a time
    _waiting: dict[str, int] = field(default_factory=dict)

    async def check(
        self, request: Approval, key: str | None = None, longest: Duration = "once", default: bool = False
    ) -> object:
        """Return the edited params of an allowed request, or None if they are unchanged. Raise Refused otherwise.

        An `Allow` is remembered under `key`, for the shorter of `remember` and `longest`. The key names everything that
        the decision depends on. Without a key, the decision is not remembered. Without an `approve` function, `default`
        decides.
        """
        decision: Allow | Deny
        if key is not None and (key in self._run or self.approvals.get(key) == "allow"):
            decision, source = Allow(), "remembered"
        else:
            warnings = (*request.warnings, *url_warnings(request.url), *hidden_text_warnings(request))
            if warnings and request.kind == "start":
                longest = "run"  # ask for a dangerous start in each run
            if self.approve is None:
                reason = "; ".join(["nobody can be asked", *warnings, "give approve= to the Host"])
                decision, source = Allow() if default else Deny(reason), "default"
            else:
                decision, source = await self._ask(replace(request, warnings=warnings), self.approve), "hook"
        is_allowed = isinstance(decision, Allow)
        self.record(request.kind, request.server, request.name, decision="allow" if is_allowed else "deny",
                    source=source)  # fmt: skip
        if isinstance(decision, Deny):
            raise Refused(f"{request.kind} of {request.name or request.server} was refused: {decision.reason}")
        if key is not None and "always" == decision.remember == longest:
            self.approvals[key] = "allow"
        elif key is not None and decision.remember != "once" and longest != "once":
            self._run.add(key)
        return decision.params

    async def _ask(self, request: Approval, approve: Approve) -> Allow | Deny:
        server = request.server
        if self._waiting.get(server, 0) > MAX_WAITING:
            return Deny(f"{MAX_WAITING} other requests of this server wait for a decision")
        self._waiting[server] = self._waiting.get(server, 0) + 1
        try:
            async with asyncio.timeout(self.seconds), self._locks.setdefault(server, asyncio.Lock()):
                decision = await approve(request)
        except TimeoutError:
            return Deny(f"there was no decision within {self.seconds:g} s")
        except Exception:
            log.exception("the approve function failed, so the request is refused")
            return Deny("the approve function failed")
        finally:
            self._waiting[server] -= 1
        if isinstance(decision, Allow | Deny):
            return decision
        return Allow() if decision is True else Deny()

    def record(self, event: str, server: str, name: str = "", **details: object) -> None:
        """Write one line to the audit log. Raise Refused if this fails, so that nothing happens unrecorded."""
        if self.audit is not None:
            line = {"time": round(time.time(), 3), "event": event, "server": server, "name": name, **details}
            try:
                self.audit(json.dumps(line))
            except Exception as error:
                log.exception("the audit log failed")
                raise Refused("the audit log cannot be written, so the request is refused") from error


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


def definition_hash(tool: Tool) -> str:
    """Return the SHA-256 of a tool without its `_meta`. Names, defaults and choices can mislead a model too."""
    return digest_of({name: value for name, value in asdict(tool).items() if name != "meta"})


def digest_of(value: object) -> str:
    return sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def escape_hidden(text: str) -> str:
    r"""Return a text in which `\u{...}` replaces each control, invisible or direction-changing character."""
    return "".join(f"\\u{{{ord(each):x}}}" if _is_hidden(each) else each for each in text)


def _is_hidden(character: str) -> bool:
    return character not in "\n\t" and unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")


def hidden_text_warnings(value: object) -> tuple[str, ...]:
    """Return a warning if a text inside JSON or a dataclass has hidden characters, else an empty tuple."""
    found, waiting = set[str](), [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            found |= {character for character in each if _is_hidden(character)}
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
    parts, found = urlsplit(url), []
    host = parts.hostname or ""
    if parts.scheme != "https":
        found.append(f"the URL does not use https, but {parts.scheme}")
    if "@" in parts.netloc:
        found.append("the URL contains a user name, which can look like a host")
    if "xn--" in host or not host.isascii():
        found.append(f"the host {host!r} has letters that can look like other letters (Punycode)")
    try:
        ip_address(host)
    except ValueError:
        return tuple(found)
    return (*found, "the host is an address without a name")


def _plain(value: object) -> str:
    if isinstance(value, dict | list | Tool):
        return json.dumps(asdict(value) if isinstance(value, Tool) else value, ensure_ascii=False, default=str)
    return " ".join(map(str, value)) if isinstance(value, tuple | frozenset) else str(value)
