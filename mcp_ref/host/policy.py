"""The policy of a host: approvals, budgets, and the audit log.

A host must get the user's consent before it calls a tool, or gives data to a server [2026-07-28 index#key-principles].
Code cannot judge if a description is honest. So the program gives the host one function, `approve`. The host calls it
with an `Approval` that contains everything a user needs to decide:

    start        before a process is started or a URL is contacted, for a server of a file
    roots        before a server gets directories
    definition   a tool is new or has changed since it was approved, or has hidden characters
    call         before a tool is called; `after` names the servers whose results the model has already seen
    read, prompt before a resource or a prompt goes to the model
    sample       the server requests a message from the model      sampled   before the server gets this message
    elicit       the server requests input from the user

Everything that is not an explicit `Allow` is a refusal: an exception, another value, or no decision in time. Without an
`approve` function, the calls of the program itself are allowed, because the program's code is the consent.

Spec:  2026-07-28 index#security-and-trust-safety, server/tools#security-considerations, client/sampling,
       client/elicitation
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
import unicodedata
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from ipaddress import ip_address
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from ..features.tools import Tool
from ..jsonrpc.errors import McpError

log = logging.getLogger(__name__)

Kind = Literal["start", "roots", "definition", "call", "read", "prompt", "sample", "sampled", "elicit"]
Origin = Literal["program", "model", "server"]

APPROVE_SECONDS = 900.0
"""Default time limit of one decision, in seconds (15 minutes)."""

MAX_WAITING = 8
"""Maximum number of approvals of one server that wait for a decision. Further approvals are refused."""


@dataclass(frozen=True)
class Approval:
    """A request for the user's consent. `name` is a full name or a URI; fields that a kind does not need are empty."""

    kind: Kind
    server: str
    origin: Origin
    """The origin of the request: the program, the model, or the server."""
    name: str = ""
    file: str | None = None
    """Path of the configuration file of the server, or None if the program gave the server."""
    arguments: Mapping[str, object] | None = None
    """The exact arguments of a call or a prompt."""
    argv: tuple[str, ...] = ()
    """The complete command, as written in the file."""
    cwd: str | None = None
    env_names: tuple[str, ...] = ()
    url: str | None = None
    tool: Tool | None = None
    before: Tool | None = None
    """The approved definition of a changed tool. None if the tool is new, or if only its hash was stored."""
    trusted: bool = False
    """True if the program trusts the annotations of this server."""
    after: frozenset[str] = frozenset()
    """The servers whose results the model may have seen since the user's last message."""
    content: object = None
    """The params of an elicitation or a sampling request, the model's message, or the list of directories."""
    warnings: tuple[str, ...] = ()

    @property
    def url_host(self) -> str | None:
        """The host of the URL. A user interface should highlight it."""
        return None if self.url is None else urlsplit(self.url).hostname

    def text(self) -> str:
        """Return all fields as plain text for a user. Hidden characters are escaped, and nothing is cut."""
        lines = [f"{self.kind}: server {self.server}" + (f", {self.name}" if self.name else "")]
        for name in ("file", "argv", "cwd", "env_names", "url", "url_host", "arguments", "tool", "before", "content"):
            value = getattr(self, name)
            if value is not None and value != ():
                lines.append(f"{name}: {_plain(value)}")
        if self.after:
            lines.append(f"after results of: {', '.join(sorted(self.after))}")
        return escape_hidden("\n".join([*lines, *(f"warning: {warning}" for warning in self.warnings)]))


@dataclass(frozen=True)
class Allow:
    """The consent to an `Approval`.

    Args:
        remember: "once"; "run" until the host is closed; "always" in the mapping `approvals` of the host.
        params: The edited arguments, sampling request or message that the host sends. None changes nothing.
    """

    remember: Literal["once", "run", "always"] = "once"
    params: object = None


@dataclass(frozen=True)
class Deny:
    """The refusal of an `Approval`. The caller gets the reason. The server never gets it."""

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
    """Maximum number of tool calls in 60 seconds."""
    seconds: float | None = None
    """Time after the start of the host in which calls are allowed, in seconds."""
    samples_per_call: int = 3
    """Maximum number of sampling requests during one tool call. Simultaneous calls of one server share the number."""
    sample_tokens: int | None = None
    """Maximum number of tokens of all messages of the model. It lowers `maxTokens`."""
    elicitations_per_call: int = 3
    """Maximum number of elicitations during one tool call. Simultaneous calls of one server share the number."""
    result_characters: int = 100_000
    """Maximum length of a result's text that the model gets, in characters."""


class Account:
    """The use of one budget."""

    def __init__(self, budget: Budget, owner: str) -> None:
        self.budget, self._owner = budget, owner
        self._start = time.monotonic()
        self._calls = self._tokens = 0
        self._recent: deque[float] = deque()  # the times of the calls of the last minute
        self._per_call = {"samples": 0, "elicitations": 0}

    def _check(self, name: str, used: float, limit: float | None) -> None:
        if limit is not None and used > limit:
            raise BudgetExceeded(f"the budget {name}={limit} of {self._owner} is used up")

    def call(self, is_first: bool) -> None:
        """Count a tool call. `is_first` is True if no other call of the server runs."""
        budget, now = self.budget, time.monotonic()
        self._check("seconds", now - self._start, budget.seconds)
        self._check("calls", self._calls + 1, budget.calls)
        if budget.calls_per_minute is not None:
            while self._recent and self._recent[0] < now - 60:
                self._recent.popleft()
            self._check("calls_per_minute", len(self._recent) + 1, budget.calls_per_minute)
            self._recent.append(now)
        self._calls += 1
        if is_first:
            self._per_call = {"samples": 0, "elicitations": 0}

    def elicitation(self) -> None:
        self._per_call["elicitations"] += 1
        self._check("elicitations_per_call", self._per_call["elicitations"], self.budget.elicitations_per_call)

    def sample(self, tokens: int) -> int:
        """Count a sampling request, and return the number of tokens that it can have."""
        self._per_call["samples"] += 1
        self._check("samples_per_call", self._per_call["samples"], self.budget.samples_per_call)
        limit = self.budget.sample_tokens
        if limit is not None:
            self._check("sample_tokens", self._tokens + 1, limit)
            tokens = min(tokens, limit - self._tokens)
        self._tokens += tokens
        return tokens


@dataclass
class Policy:
    """The decisions of one host. `Host` documents the fields."""

    approve: Approve | None = None
    approvals: MutableMapping[str, str] = field(default_factory=dict)
    """The decisions with "always", and the hashes of the approved definitions."""
    audit: Callable[[str], None] | None = None
    seconds: float = APPROVE_SECONDS
    _run: set[str] = field(default_factory=set)  # the keys of the decisions with "run"
    _locks: dict[str, asyncio.Lock] = field(default_factory=dict)  # by server: one approval at a time
    _waiting: dict[str, int] = field(default_factory=dict)

    async def check(
        self, request: Approval, key: str | None = None, longest: Literal["once", "run", "always"] = "once",
        default: bool = False,
    ) -> object:  # fmt: skip
        """Return the edited params of an allowed request, or None if they are unchanged.

        Args:
            request: The request.
            key: The digest of the configuration, and everything else that a remembered decision is valid for.
            longest: The longest time for which the decision can be remembered.
            default: The decision if the program has no `approve` function.

        Raises:
            Refused: If the request is not allowed.
        """
        allowed, source, edited, reason = False, "hook", None, ""
        if key is not None and (key in self._run or self.approvals.get(key) == "allow"):
            allowed, source = True, "remembered"
        elif self.approve is None:
            source = "default"
            allowed = default
            reason = "; ".join(
                ["nobody can be asked", *request.warnings, "give approve= to the Host, or --yes to a command"]
            )
        else:
            decision = await self._ask(request, self.approve)
            if isinstance(decision, Allow):
                allowed, edited = True, decision.params
                if key is not None and decision.remember == "always" and longest == "always":
                    self.approvals[key] = "allow"
                elif key is not None and decision.remember != "once" and longest != "once":
                    self._run.add(key)
            else:
                reason = decision.reason
        self.record(request.kind, request.server, request.name, decision="allow" if allowed else "deny", source=source)
        if not allowed:
            raise Refused(f"{request.kind} of {request.name or request.server} was refused: {reason}")
        return edited

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
        if self.audit is None:
            return
        line = {"time": round(time.time(), 3), "event": event, "server": server, "name": name, **details}
        try:
            self.audit(json.dumps(line, ensure_ascii=True))
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
    """Return a warning if a text inside the value has hidden characters, else an empty tuple."""
    found = {escape_hidden(each) for text in _texts(value) for each in text if _is_hidden(each)}
    return (f"the text has hidden characters: {' '.join(sorted(found)[:10])}",) if found else ()


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from (str(name), *_texts(each))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)


def start_warnings(argv: tuple[str, ...], url: str | None, folder: str) -> tuple[str, ...]:
    """Return the dangers of a command or a URL that a user should know."""
    found = []
    programs = [word.rpartition("/")[2] for word in argv]
    if programs and programs[0] in ("sh", "bash", "zsh", "dash", "cmd", "cmd.exe", "powershell", "pwsh"):
        found.append("the command runs a shell, which can run any other program")
    if "sudo" in programs[:2] or "doas" in programs[:2]:
        found.append("the command runs with the rights of another user")
    if argv and argv[0].startswith(("/", "..")) and not argv[0].startswith((folder, "/usr/")):
        found.append("the program lies outside the folder of the project")
    return (*found, *(url_warnings(url) if url is not None else ()), *hidden_text_warnings([*argv, url or ""]))


def url_warnings(url: str) -> tuple[str, ...]:
    """Return the reasons to distrust a URL. [2026-07-28 client/elicitation#safe-url-handling]"""
    parts, found = urlsplit(url), []
    host = parts.hostname or ""
    if parts.scheme != "https":
        found.append(f"the URL does not use https, but {parts.scheme or 'no scheme'}")
    if "@" in parts.netloc:
        found.append("the URL contains a user name, which can look like the host")
    if "xn--" in host or not host.isascii():
        found.append(f"the host {host!r} is written in Punycode or with special letters, and can look like another")
    try:
        ip_address(host)
    except ValueError:
        return tuple(found)
    return (*found, "the host is an address without a name")


def _plain(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(value) if all(isinstance(each, str) for each in value) else repr(value)
    try:
        return json.dumps(value if isinstance(value, dict | list | str) else asdict(value), ensure_ascii=False)  # type: ignore[call-overload]
    except TypeError:
        return repr(value)
