"""One server of a host: the user's consent, the client, the approved tools, and the requests of the server.

    prepare      replace the variables; request the approvals `start` and `roots`; create a `Client` for this server
    accepted     compare each tool with its approved definition; request the approval `definition` if it has changed
    sample       budget -> approval of the request -> the program's model -> approval of the message -> the server
    elicit       budget -> approval, with the server's name and the host of a URL -> the program's form -> the server

The host approves all definitions of a server's first list, except those with hidden characters. With an `approve`
function, a later change takes the tool out of the list until the user allows the change. Otherwise a server could win
the user's trust first, and change the description later. The host cannot notice a server that changes its behaviour,
but not its definitions.

Spec:  2026-07-28 server/tools#security-considerations, client/roots, client/sampling#user-interaction-model,
       client/elicitation#safe-url-handling
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, MutableMapping
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar, Unpack

from ..client.client import Client
from ..client.target import InProcessServer
from ..features.elicitation import ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult
from ..features.sampling import USER_REJECTED, CreateMessageRequestParams, CreateMessageResult
from ..features.tools import CallToolResult, Tool
from ..jsonrpc.errors import ConnectionClosed, ProtocolError, RequestTimeout
from ..transports.trace import trace_from_environment
from .configuration import Configuration, ServerConfig, parse_server, read_config
from .launch import Launch, launch_of
from .names import full_name, server_name
from .policy import (
    APPROVE_SECONDS,
    Account,
    Approval,
    Approve,
    Budget,
    BudgetExceeded,
    Kind,
    Policy,
    Refused,
    command_warnings,
    definition_hash,
    digest_of,
    hidden_text_warnings,
)
from .supervisor import MAX_PAGES, ServerState, ServerStatus, Supervisor
from .throttle import Throttle

if TYPE_CHECKING:
    from ..basic.authorization.client import Authorizer
    from ..basic.lifecycle import Implementation
    from ..client.tools import CallOptions
    from ..features.logging import LoggingMessageNotificationParams

T = TypeVar("T")

MAX_ITEMS = 10_000
"""Maximum number of items of one list of a server."""

MAX_LOG_RATE = 100
"""Maximum number of log messages of one server in one second. More messages are counted and dropped."""

ElicitRequest: TypeAlias = ElicitRequestFormParams | ElicitRequestURLParams
HostSampling: TypeAlias = Callable[[str, CreateMessageRequestParams], Awaitable[CreateMessageResult]]
HostElicitation: TypeAlias = Callable[[str, ElicitRequest], Awaitable[ElicitResult]]

ServersLike: TypeAlias = (
    "Mapping[str, list[str] | str | Mapping[str, object] | InProcessServer] | Configuration | str | os.PathLike[str]"
)
"""Servers by name, a `Configuration`, or the path of a configuration file. A server is a command, a URL, an entry as in
a file, or a `Server` of this program."""


@dataclass(frozen=True)
class HostEvent:
    """A change in a host: the state of a server, or its list of tools."""

    server: str
    kind: Literal["state", "tools"]
    state: ServerState


@dataclass(eq=False)
class HostOptions:
    """The settings of a host. A plain function among them blocks the event loop, so keep it short."""

    servers: ServersLike
    _: KW_ONLY
    approve: Approve | None = None
    """Async function that decides about each `Approval`. Without it, the rules in policy.py decide."""
    ask: Callable[[str, str, bool], Awaitable[str]] | None = None
    """Async function that asks the user for `${input:id}`. It gets id, description, and True for a password."""
    approvals: MutableMapping[str, str] = field(default_factory=dict)
    """The decisions with "always", and the hashes of approved definitions. Store the mapping to keep them."""
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
    authorization: Callable[[str], Authorizer | None] | None = None
    """Function that returns the source of access tokens for a server's URL, or None."""
    budget: Budget = field(default_factory=Budget)
    """Limits of the whole host, and of each server without limits of its own."""
    budgets: Mapping[str, Budget] = field(default_factory=dict)
    """Limits by server name."""
    lazy: bool = False
    """True to start each server at the first request to it. `list_tools` lists the tools of started servers only. A
    `required` server starts at once."""
    startup_wait: float = 5.0
    """Time for which opening the host waits for servers that are not `required`, in seconds."""
    timeout: float = 60.0
    """Default time limit of a request, in seconds. The configuration of a server can change it."""
    approve_timeout: float = APPROVE_SECONDS
    """Time limit of one decision, in seconds (15 minutes)."""
    audit: Callable[[str], None] | None = None
    """Called with a line of JSON for each decision and event. If it fails for a decision, the request is refused."""
    audit_arguments: bool = False
    """True if the audit log contains the arguments of calls, which can be secret."""
    on_event: Callable[[HostEvent], None] | None = None
    """Called when the state or the tools of a server have changed."""
    on_log: Callable[[str, LoggingMessageNotificationParams], None] | None = None
    """Called with the server name and each log message."""
    on_stderr: Callable[[str, bytes], None] | None = None
    """Called with the server name and the bytes of standard error."""
    environment: Mapping[str, str] | None = None
    """The variables that replace `${NAME}`. Default: the environment of the process."""
    info: Implementation | None = None
    """The name and version that all servers get."""


class HostedServer(Supervisor):
    """One server of a host. `whole` is the host's account. `inputs` returns the user's values for `${input:id}`."""

    def __init__(
        self, config: ServerConfig, server: InProcessServer | None, options: HostOptions, policy: Policy,
        whole: Account, inputs: Callable[[ServerConfig], Awaitable[Mapping[str, str]]], starting: asyncio.Semaphore,
    ) -> None:  # fmt: skip
        name, transport = config.name, "memory" if server else "http" if "url" in config.entry else "stdio"
        status = ServerStatus(name, transport, config.file, list(config.warnings))
        super().__init__(config, status, starting, options.lazy)
        self._options, self._policy, self._inputs = options, policy, inputs
        self.in_process = server
        """The server of this program, or None for a command or a URL."""
        record = partial(policy.record, "budget", name)
        self.account = Account(options.budgets.get(name, options.budget), f"the server {name}", record, whole)
        self.calls: list[str] = []
        """The full names of the calls in flight."""
        self.digest = ""
        """The digest of the configuration for which the user's decisions are valid."""
        self._sampling, self._elicitation = _option_for(options.sampling, name), _option_for(options.elicitation, name)
        self._asking: dict[str, asyncio.Task[None]] = {}  # by tool name: approvals of definitions
        self._denied: set[str] = set()  # hashes of the definitions that were refused
        self._definitions: dict[str, Tool] = {}  # the approved definitions that this run has seen
        self.definition_hashes: dict[str, str] = {}
        """The hashes of the approved definitions, by tool name."""
        self._log_second, self._logs = 0, 0

    async def close(self, patience: float = 0.0) -> None:
        """End the server. The calls in flight first get `patience` seconds."""
        deadline = time.monotonic() + patience
        while self.calls and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        for task in self._asking.values():
            task.cancel()
        if self._asking:
            await asyncio.wait(self._asking.values())
        await self.stop()
        self._change(ServerState.STOPPED)
        self.attempted.set()

    def approval(self, kind: Kind, name: str = "") -> Approval:
        """Return an approval of a request of the server. The caller adds the details."""
        only_call = self.calls[0] if len(self.calls) == 1 else ""
        return Approval(kind, self.config.name, "server", name or only_call, self.config.file)

    async def prepare(self) -> Client:
        """Replace the variables, ask for the user's consent, and return a client for this server alone."""
        options, config = self._options, self.config
        environment = os.environ if options.environment is None else options.environment
        launch = launch_of(config, environment, dict.fromkeys(config.input_ids(), ""))
        self.digest = launch.digest
        if config.file is not None:
            argv, url = tuple(config.command), config.entry.get("url")
            request = replace(
                self.approval("start"), origin="program", argv=argv, url=url, cwd=config.entry.get("cwd"),
                env_names=(*config.entry.get("env", {}), *config.entry.get("env_vars", [])),
                warnings=command_warnings(argv, os.path.dirname(config.file)),
            )  # fmt: skip
            await self._policy.check(request, f"{self.digest} start", "always", not _is_suspicious(config.file))
        if config.input_ids():
            launch = launch_of(config, environment, await self._inputs(config))
        self.launch = launch
        return self._new_client(launch, await self._approved_roots() if options.approve is not None else None)

    async def _approved_roots(self) -> list[str] | None:
        """Return the existing directories to give to the server, or None without directories or consent."""
        wanted = self._options.roots.get(self.config.name, self.config.entry.get("roots", []))
        # [2025-11-25 client/roots#security-considerations] only existing directories, and no path traversal
        paths = [os.path.realpath(os.fspath(path).removeprefix("file://")) for path in wanted]
        existing = [path for path in paths if os.path.isdir(path)]
        try:
            if existing:
                request = replace(self.approval("roots"), content=existing)
                await self._policy.check(request, f"{self.digest} roots {existing}", "always")
        except Refused:
            return None
        return existing or None

    def _new_client(self, launch: Launch, roots: list[str] | None) -> Client:
        options, name = self._options, self.config.name
        throttle = None if self.in_process else Throttle(trace_from_environment())
        authorizer = options.authorization(launch.url) if options.authorization and launch.url else None
        client = Client(
            self.in_process or launch.url or launch.command, info=options.info, roots=roots,
            sampling=self._sample if self._sampling else None, sampling_tools=options.sampling_tools,
            elicitation=self._elicit if self._elicitation else None,
            elicitation_url=options.elicitation_url and self._elicitation is not None,
            on_log=self._log if options.on_log else None, on_tools_changed=self.list_changed,
            timeout=self.config.call_seconds(options.timeout), env=launch.env or None, cwd=launch.cwd,
            on_stderr=partial(options.on_stderr, name) if options.on_stderr else None,
            headers=launch.headers or None, authorization=authorizer, trace=throttle,
        )  # fmt: skip
        client.max_restarts, client.max_pages, client.max_items = 0, MAX_PAGES, MAX_ITEMS
        if throttle is not None:
            throttle.client = client
        return client

    def report(self, kind: Literal["state", "tools"]) -> None:
        """Write a restart to the audit log, and tell the program of the change."""
        if kind == "state" and self.status.state is ServerState.BACKING_OFF:
            with contextlib.suppress(Refused):
                self._policy.record("restart", self.config.name, reason=self.status.last_error)
        if self._options.on_event is not None:
            self._options.on_event(HostEvent(self.config.name, kind, self.status.state))

    def accepted(self, tools: list[Tool]) -> list[Tool]:
        """Return the tools with approved definitions. Request the other approvals in the background."""
        approvals, found = self._policy.approvals, []
        is_first = f"{self.digest} listed" not in approvals
        approvals[f"{self.digest} listed"] = "yes"
        unapproved: dict[str, str] = {}
        for tool in tools:
            if not self.config.allows_tool(tool.name):
                continue
            key, digest = f"{self.digest} definition {tool.name}", definition_hash(tool)
            warnings, before = hidden_text_warnings(tool), approvals.get(key)
            if before == digest or ((is_first or self._policy.approve is None) and not warnings):
                approvals[key] = digest
                self._definitions[tool.name], self.definition_hashes[tool.name] = tool, digest
                found.append(tool)
                continue
            unapproved[tool.name] = "hidden characters" if warnings else "changed" if before else "new"
            if tool.name not in self._asking and digest not in self._denied:
                self._asking[tool.name] = asyncio.create_task(self._ask_definition(key, tool, digest))
        self.status.unapproved_tools = unapproved
        return found

    async def _ask_definition(self, key: str, tool: Tool, digest: str) -> None:
        """Request approval of a definition. After an `Allow`, the next list contains the tool."""
        request = self.approval("definition", full_name(self.config.name, tool.name))
        before = self._definitions.get(tool.name)
        try:
            await self._policy.check(replace(request, tool=tool, before=before))
            self._policy.approvals[key] = digest
            self.list_changed()
        except Refused:
            self._denied.add(digest)
        finally:
            self._asking.pop(tool.name, None)

    async def _sample(self, params: CreateMessageRequestParams) -> CreateMessageResult:
        """Return a message of the program's model after two approvals. A server never gets the reason of a refusal."""
        assert self._sampling is not None
        key, approval = f"{self.digest} sample", self.approval("sample")
        try:
            # [2026-07-28 client/sampling#sampling-parameters] MUST respect maxTokens: the budget only lowers it
            tokens = self.account.sample(params.max_tokens)
            # A server never gets the context of other servers, or of the conversation.
            params = replace(params, max_tokens=tokens, include_context=params.include_context and "none")
            edited = await self._policy.check(replace(approval, content=params), key, "run")
            if isinstance(edited, CreateMessageRequestParams):
                params = replace(edited, max_tokens=min(edited.max_tokens, tokens))
            result = await self._sampling(self.config.name, params)
            approval = replace(approval, kind="sampled", content=result)
            edited = await self._policy.check(approval, f"{key}d", "run")
            return edited if isinstance(edited, CreateMessageResult) else result
        except Refused as error:
            raise ProtocolError(USER_REJECTED, "User rejected sampling request") from error

    async def _elicit(self, request: ElicitRequest) -> ElicitResult:
        """Return the user's decision, after an approval with the true name of the server."""
        assert self._elicitation is not None
        url = request.url if isinstance(request, ElicitRequestURLParams) else None
        try:
            self.account.use("elicitations_per_call")
            await self._policy.check(replace(self.approval("elicit"), content=request, url=url))
        except Refused as error:
            return ElicitResult("cancel" if isinstance(error, BudgetExceeded) else "decline")
        return await self._elicitation(self.config.name, request)

    def _log(self, message: LoggingMessageNotificationParams) -> None:
        second = int(time.monotonic())
        self._logs = self._logs + 1 if second == self._log_second else 1
        self._log_second = second
        if self._logs > MAX_LOG_RATE:
            self.status.dropped["log messages"] = self.status.dropped.get("log messages", 0) + 1
        elif self._options.on_log is not None:
            self._options.on_log(self.config.name, message)

    async def call_tool(
        self, client: Client, name: str, arguments: Mapping[str, object] | None, **options: Unpack[CallOptions]
    ) -> CallToolResult:
        """Call a tool that the policy has allowed. `Host.call_tool` documents the options and exceptions."""
        full, start = full_name(self.config.name, name), time.monotonic()
        self.calls.append(full)
        result, outcome, is_lost = None, "failed", False
        try:
            left = self.account.left("seconds")
            if left < math.inf:
                options["timeout"] = min(left, options.get("timeout") or client.timeout or left)
                if (most := options.get("max_timeout")) is not None:
                    options["max_timeout"] = min(left, most)
            with self.masking():
                result = await client.call_tool(name, arguments, **options)
            outcome = "error" if result.is_error else "result"
        except (ConnectionClosed, RequestTimeout) as error:
            outcome, is_lost = "lost", True
            raise type(error)(f"{error}; it is not known if the tool ran") from None
        finally:
            self.calls.remove(full)
            self.call_ended(is_lost)
            seconds = time.monotonic() - start
            self.account.add("seconds", seconds)
            if self._options.audit is not None:
                text = "" if result is None else json.dumps(asdict(result), default=str)
                shown = {"arguments": arguments} if self._options.audit_arguments else {}
                with contextlib.suppress(Refused):  # the result cannot be refused: the tool has run
                    self._policy.record(
                        "result", self.config.name, full, configuration=self.digest, outcome=outcome,
                        seconds=round(seconds, 4), arguments_sha256=digest_of(arguments),
                        result_sha256=digest_of(text), result_characters=len(text), **shown)  # fmt: skip
        return result


def _option_for(option: T | Mapping[str, T] | None, server: str) -> T | None:
    """Return the value for a server, of an option with one value for all servers or a mapping by server name."""
    return option.get(server) if isinstance(option, Mapping) else option


def _is_suspicious(file: str) -> bool:
    """Return True if a file lies in the working directory, is missing, or if other users can write to it."""
    is_here = os.path.realpath(file).startswith(os.path.realpath(os.getcwd()) + os.sep)
    try:
        return is_here or bool(os.stat(file).st_mode & 0o022)
    except OSError:
        return True


def read_servers(servers: ServersLike) -> tuple[Configuration, dict[str, InProcessServer]]:
    """Return the configuration, and the servers of this program by name."""
    if isinstance(servers, Configuration):
        return servers, {}
    if isinstance(servers, str | os.PathLike):
        return read_config(servers), {}
    configs: list[ServerConfig] = []
    in_process: dict[str, InProcessServer] = {}
    for key, value in servers.items():
        if isinstance(value, InProcessServer):
            configs.append(ServerConfig(server_name(key), key))
            in_process[server_name(key)] = value
        elif isinstance(value, Mapping):
            configs.append(parse_server(key, dict(value)))
        else:  # `$` has no meaning in the program's own commands and URLs
            words = [word.replace("${", "$${") for word in ([value] if isinstance(value, str) else value)]
            entry = {"url": words[0]} if isinstance(value, str) else {"command": words[0], "args": words[1:]}
            configs.append(parse_server(key, entry))
    return Configuration(tuple(configs)), in_process
