"""The policy of a host: its settings, the decisions of the user, the budgets, and the audit log.

All servers of a host share one policy. An `approve` function allows a request if it returns `Allow` or True, and
refuses it if it returns anything else, raises, or takes too long. Without this function, requests of the model and of
servers are refused. The program's own requests are allowed, because its author has written them, but a server in a
configuration file starts only if the file is the user's own, which means that it lies outside the working directory and
is safe from changes by other users.

Threats:
    unasked-start: A cloned project runs code in the user's account by listing a server in its configuration file, if
        the program has no `approve` function. Only the user's own file starts servers without consent.
    input-of-another-file: A cloned project gets a secret that the user has typed for another file, by giving its own
        `${input:id}` the same id. The host uses a typed value only for the file that asked for it.
    data-in-a-spelling: A server whose texts steer the model gets a secret that the model knows, because the model can
        put it into another spelling of an approved URI, such as `weather://city/SECRET/../today`. The host sends the
        spelling that the user has seen.

Spec:  2026-07-28 index#key-principles, server/tools#security-considerations, client/sampling
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, MutableMapping
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Literal, TypeAlias

from ..features.elicitation import ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult
from ..features.sampling import CreateMessageRequestParams, CreateMessageResult
from ..features.tools import Tool
from ..lib.fields import CheckedFields
from ..transports.base import Trace
from .approval import Allow, Approval, Approve, Deny, Refused, Undecided, hidden_text_warnings, quoted
from .configuration import ServerConfig, ServersLike
from .dangers import url_warnings
from .supervisor import ServerStatus

if TYPE_CHECKING:
    from ..basic.authorization.client import Authorizer
    from ..basic.lifecycle import Implementation
    from ..features.logging import LoggingMessageNotificationParams

log = logging.getLogger(__name__)

APPROVE_SECONDS = 900.0
"""Default time limit of one decision, in seconds (15 minutes)."""

MAX_WAITING = 8
"""Maximum number of approvals of one server that wait behind the current one. Further ones are refused."""

ElicitRequest: TypeAlias = ElicitRequestFormParams | ElicitRequestURLParams
HostSampling: TypeAlias = Callable[[str, CreateMessageRequestParams], Awaitable[CreateMessageResult]]
HostElicitation: TypeAlias = Callable[[str, ElicitRequest], Awaitable[ElicitResult]]


class BudgetExceeded(Refused):
    """A request that exceeds a budget. The text names the budget."""


@dataclass(frozen=True)
class Budget(CheckedFields):
    """The limits of the requests of one server, or of all servers of a host. None means no limit."""

    calls: int | None = None
    """Maximum number of tool calls."""
    calls_per_minute: int | None = None
    """Maximum number of tool calls within any 60 seconds."""
    seconds: float | None = None
    """Maximum time of all tool calls together, in seconds. A running call reserves all the time that it may take, so a
    simultaneous call gets only the rest."""
    samples_per_call: int = 3
    """Maximum number of sampling requests during one tool call. Simultaneous calls of one server share the number."""
    sample_tokens: int | None = None
    """Maximum number of tokens of all sampled messages together. A request's `maxTokens` is lowered to the rest."""
    elicitations_per_call: int = 3
    """Maximum number of elicitations during one tool call. Simultaneous calls of one server share the number."""
    result_characters: int = 100_000
    """Maximum length of a result, resource, prompt, error or instructions for a model, in characters. Binary data is
    not counted, and structured content is counted separately."""


@dataclass(eq=False)
class HostOptions(CheckedFields):
    """The settings of a host. Plain functions among them block the event loop, so they must return quickly."""

    servers: ServersLike = field(repr=False)
    _: KW_ONLY
    approve: Approve | None = None
    """Async function that decides about each `Approval`. Without it, the rules in policy.py decide."""
    ask: Callable[[str, str, bool], Awaitable[str]] | None = None
    """Async function that asks the user for `${input:id}`. It gets the id, a description, and True for a password."""
    approvals: MutableMapping[str, str] = field(default_factory=dict)
    """The user's "always" decisions, and the hashes of approved definitions. Store the mapping to keep them."""
    trusted: Collection[str] = ()
    """Names of the servers whose annotations the program trusts."""
    sampling: HostSampling | Mapping[str, HostSampling] | None = None
    """Async function that gets (server name, request) and returns a model's message; or a mapping by server name."""
    sampling_tools: bool = False
    """True if `sampling` can give tools to the model."""
    elicitation: HostElicitation | Mapping[str, HostElicitation] | None = None
    """Async function that gets (server name, form or URL) and asks the user; or a mapping by server name."""
    elicitation_url: bool = False
    """True if `elicitation` can also ask the user to visit a URL."""
    roots: Mapping[str, Iterable[str | os.PathLike[str]]] = field(default_factory=dict)
    """Directories by server name."""
    authorization: Callable[[str], Authorizer | None] | None = field(default=None, repr=False)
    """Function that returns the source of access tokens for a server's URL, or None. It is not asked about a server
    whose configuration has an Authorization header."""
    budget: Budget = field(default_factory=Budget)
    """Limits of the whole host, and of each server without limits of its own."""
    budgets: Mapping[str, Budget] = field(default_factory=dict)
    """Limits by server name."""
    lazy: bool = False
    """True to start each server at the first request to it, unless it is `required`. `list_tools` returns only the
    tools of servers that have started."""
    startup_wait: float = 5.0
    """Maximum time to wait for servers that are not `required` when the host opens, in seconds."""
    timeout: float = 60.0
    """Default time limit of a request, in seconds. The configuration of a server can change it."""
    approve_timeout: float = APPROVE_SECONDS
    """Time limit of one decision, in seconds (15 minutes)."""
    audit: Callable[[str], None] | None = None
    """Called with a line of JSON for each decision and event. If it fails for a decision, the request is refused."""
    audit_arguments: bool = False
    """True if the audit log contains the arguments of calls, which can be secret."""
    on_event: Callable[[ServerStatus], None] | None = None
    """Called with the status of a server when its state or its tools have changed."""
    on_log: Callable[[str, LoggingMessageNotificationParams], None] | None = None
    """Called with the server name and each log message."""
    on_stderr: Callable[[str, bytes], None] | None = None
    """Called with the server name and the bytes of standard error."""
    trace: Trace | None = None
    """Called with the direction and the bytes of each message of all servers. Default: as MCP_REF_TRACE says."""
    environment: Mapping[str, str] | None = field(default=None, repr=False)
    """The variables that replace `${NAME}`. Default: the environment of the process."""
    info: Implementation | None = None
    """The name and version that all servers get."""


class Policy:
    """The decisions of one host, and their records. `options` are the settings of the host."""

    def __init__(self, options: HostOptions) -> None:
        self.options, self.approvals = options, options.approvals
        self.seen_servers: set[str] = set()
        """The servers whose results or errors the model can have seen since the user's last message."""
        self._allowed_for_run: set[str] = set()  # the keys of requests that are allowed for this run
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)  # by server: one approval at a time
        self._undecided: defaultdict[str, int] = defaultdict(int)  # number of approvals without a decision, by server
        self._typed: dict[tuple[str | None, str], str] = {}  # the values of `${input:id}`, by file and id
        self._typing = asyncio.Lock()  # so that the user types one value at a time

    async def check(
        self, request: Approval, key: str | None = None, remember_at_most: Literal["run", "always"] = "always",
        allowed_by_default: bool = False,
    ) -> object:  # fmt: skip
        """Return the edited params of an allowed request, or None if they are unchanged. Raise Refused otherwise.

        An `Allow` is remembered under `key`, if given, for as long as its `remember` says, but `remember_at_most` can
        shorten this. The key must name everything that the decision depends on. Without an `approve` function, the
        request is allowed if `allowed_by_default` is True.
        """
        decision: Allow | Deny
        if self._is_remembered(key):
            decision, source = Allow(), "remembered"
        else:
            warnings = (*request.warnings, *url_warnings(request.url), *hidden_text_warnings(request))
            if warnings and request.kind in ("start", "variable"):
                remember_at_most = "run"  # a dangerous start needs consent in each run
            if self.options.approve is None:
                reason = "; ".join(["nobody can be asked", *warnings, "give approve= to the Host"])
                decision = Allow() if allowed_by_default else Deny(reason)
                source = "default"
            else:
                decision, source = await self._ask(replace(request, warnings=warnings), self.options.approve, key)
        verdict = "allow" if isinstance(decision, Allow) else "deny"
        self.record(request.kind, request.server, request.name, decision=verdict, source=source)
        if isinstance(decision, Deny):
            refusal = Undecided if source == "undecided" else Refused
            name = quoted(request.name or request.server)  # a server chooses the names of its tools
            raise refusal(f"{request.kind} of {name} was refused: {decision.reason}")
        if key is not None and decision.remember != "once":
            if decision.remember == "always" and remember_at_most == "always":
                self.approvals[key] = "allow"
            else:
                self._allowed_for_run.add(key)
        return decision.params

    def _is_remembered(self, key: str | None) -> bool:
        return key is not None and (key in self._allowed_for_run or self.approvals.get(key) == "allow")

    async def _ask(self, request: Approval, approve: Approve, key: str | None) -> tuple[Allow | Deny, str]:
        """Return the decision of the `approve` function, and its source for the audit log."""
        server, seconds = request.server, self.options.approve_timeout
        if self._undecided[server] > MAX_WAITING:  # `>`, because the approval that the user sees also has no decision
            return Deny(f"{MAX_WAITING} other requests of this server wait for a decision"), "undecided"
        self._undecided[server] += 1
        try:
            async with asyncio.timeout(seconds), self._locks[server]:
                if self._is_remembered(key):  # an equal request was allowed while this one waited
                    return Allow(), "remembered"
                decision = await approve(request)
        except TimeoutError:
            return Deny(f"there was no decision within {seconds:g} s"), "undecided"
        except Exception:
            log.exception("the approve function failed, so the request is refused")
            return Deny("the approve function failed; the log has the exception"), "undecided"
        finally:
            self._undecided[server] -= 1
        if not isinstance(decision, Allow | Deny):
            decision = Allow() if decision is True else Deny()
        return decision, "hook"

    def record(self, event: str, server: str, name: str = "", **details: object) -> None:
        """Write one line to the audit log. Raise Refused if this fails, so that nothing happens unrecorded."""
        if self.options.audit is not None:
            line = {"time": round(time.time(), 3), "event": event, "server": server, "name": name, **details}
            try:
                self.options.audit(json.dumps(line))
            except Exception as error:
                log.exception("the audit log failed")
                raise Undecided("the audit log cannot be written, so the request is refused") from error

    async def typed_values(self, config: ServerConfig) -> Mapping[str, str]:
        """Return the values of `${input:id}`. Ask the user only for those that are not known for this file yet."""
        async with self._typing:
            for id, (description, is_password) in config.inputs.items():
                if (config.file, id) not in self._typed and self.options.ask is not None:
                    self._typed[config.file, id] = await self.options.ask(id, description, is_password)
        return {id: value for (file, id), value in self._typed.items() if file == config.file}


class Account:
    """The used part of a server's budget, or of the host's if `server` is "".

    Everything that a server uses counts against the host's budget too (`host_account`). Only the limits of one tool
    call do not, because each server has those for itself.
    """

    def __init__(self, policy: Policy, server: str = "", host_account: Account | None = None) -> None:
        self.budget = policy.options.budgets.get(server, policy.options.budget)
        self._policy, self._server = policy, server
        self._used: defaultdict[str, float] = defaultdict(float)
        self._call_times: deque[float] = deque(maxlen=self.budget.calls_per_minute or 0)  # of the latest tool calls
        own_and_host = [self] if host_account is None else [self, host_account]
        self._accounts: dict[str, list[Account]] = {}
        """The accounts whose budgets set a limit, by the limit's name. Each of them counts its use."""
        for limit in vars(self.budget):  # the names of the fields of Budget
            accounts = [self] if limit.endswith("_per_call") else own_and_host
            self._accounts[limit] = [account for account in accounts if getattr(account.budget, limit) is not None]

    def left(self, limit: str) -> float:
        amounts = [getattr(account.budget, limit) - account._used[limit] for account in self._accounts[limit]]
        return min(amounts, default=math.inf)

    def add(self, limit: str, amount: float) -> None:
        """Count an amount, which may be negative to give seconds back."""
        for account in self._accounts[limit]:
            account._used[limit] += amount

    def use(self, limit: str, amount: float = 1) -> None:
        """Count an amount. Raise BudgetExceeded instead if less is left, or for an amount of 0, if nothing is left."""
        least = max(amount, 0.001)  # a timer may end a moment early, so a rest below a millisecond counts as nothing
        for account in self._accounts[limit]:
            maximum = getattr(account.budget, limit)
            if maximum - account._used[limit] < least:
                owner = f"the server {account._server}" if account._server else "the host"
                text = f"the budget {limit}={maximum} of {owner} is used up"
                self._policy.record("budget", self._server, reason=text)
                raise BudgetExceeded(text)
        self.add(limit, amount)

    def count_call(self, is_only_call: bool) -> None:
        """Count a tool call. If no other call is running, first reset the limits of one call."""
        if is_only_call:
            self._used["samples_per_call"] = self._used["elicitations_per_call"] = 0
        now, accounts = time.monotonic(), self._accounts["calls_per_minute"]
        for account in accounts:
            while account._call_times and now - account._call_times[0] >= 60:
                account._call_times.popleft()
            account._used["calls_per_minute"] = len(account._call_times)
        self.use("seconds", 0)  # raises if the budget has no time left
        self.use("calls_per_minute")
        self.use("calls")
        for account in accounts:  # only now, because a refused call must not count
            account._call_times.append(now)

    def count_sample(self, tokens: int) -> int:
        """Count a sampling request, and return the number of tokens that its message may have."""
        if tokens < 1:
            raise Refused(f"a message cannot have {tokens} tokens")
        self.use("samples_per_call")
        allowed = int(min(tokens, max(1, self.left("sample_tokens"))))  # 1 if none is left, so that `use` raises
        self.use("sample_tokens", allowed)
        return allowed


def definition_hash(tool: Tool) -> str:
    """Return the SHA-256 of a tool without its `_meta`. All other fields count, because any can mislead a model."""
    return digest_of({name: value for name, value in asdict(tool).items() if name != "meta"})


def digest_of(value: object) -> str:
    return sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
