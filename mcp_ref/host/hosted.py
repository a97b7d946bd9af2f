"""One server of a host: the user's consent, the client, and the approved definitions of its tools.

    prepare   replace the variables, and ask for `start` and `roots`
    connect   create a `Client` with handlers that belong to this server alone
    accept    compare each tool with its approved definition, and ask for `definition` if it has changed

The first definition of a tool is approved by the first list. A later change takes the tool out of the list until the
user allows the change. Otherwise a server could win the user's trust first, and change the description later. A server
that changes its behaviour, but not its definitions, is not noticed.

Spec:  2026-07-28 server/tools#security-considerations, client/roots#security-considerations
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, MutableMapping
from dataclasses import KW_ONLY, asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict, Unpack

from ..client.client import Client
from ..client.connector import InProcessServer
from ..features.tools import CallToolResult, Tool
from ..jsonrpc.errors import ConnectionClosed, McpError, RequestTimeout
from ..transports.trace import trace_from_environment
from .configuration import Configuration, ServerConfig, check_names, parse_server, read_config
from .inputs import HostElicitation, HostSampling, ServerInputs, option_of
from .launch import Launch, launch_of
from .names import full_name, server_name
from .policy import (
    APPROVE_SECONDS,
    Account,
    Approval,
    Approve,
    Budget,
    Policy,
    Refused,
    definition_hash,
    digest_of,
    hidden_text_warnings,
    start_warnings,
)
from .supervisor import MAX_PAGES, ServerState, Supervisor, Throttle

if TYPE_CHECKING:
    from ..basic.authorization.client import Authorizer
    from ..basic.lifecycle import Implementation
    from ..basic.progress import ProgressHandler
    from ..features.logging import LoggingMessageNotificationParams

MAX_ITEMS = 10_000
"""Maximum number of items of one list of a server."""

MAX_LOG_RATE = 100
"""Maximum number of log messages of one server in one second. More messages are counted and dropped."""

Ask: TypeAlias = Callable[[str, str, bool], Awaitable[str]]
"""A function that asks the user for a value of the configuration. It gets id, description, and True for a password."""

ServerLike: TypeAlias = "list[str] | str | Mapping[str, object] | InProcessServer"
"""A command, a URL, an entry as in a file, or a `Server` of this program."""

ServersLike: TypeAlias = "Mapping[str, ServerLike] | Configuration | str | os.PathLike[str]"
"""Servers by name, a configuration, or the path of a configuration file."""


@dataclass(frozen=True)
class HostEvent:
    """A change in a host: the state of a server, or its list of tools."""

    server: str
    kind: Literal["state", "tools"]
    state: ServerState


@dataclass(eq=False)
class HostOptions:
    """The settings of a host."""

    servers: ServersLike
    """The servers by name, a `Configuration`, or the path of a configuration file."""
    _: KW_ONLY
    approve: Approve | None = None
    """Async function that decides about each `Approval`. Without it, only the program's own calls are allowed."""
    ask: Ask | None = None
    """Async function that asks the user for the values of `${input:id}`."""
    approvals: MutableMapping[str, str] = field(default_factory=dict)
    """Decisions with "always", and the hashes of the approved definitions, to be kept between runs."""
    trusted: Collection[str] = ()
    """Names of the servers whose annotations the program trusts."""
    sampling: HostSampling | Mapping[str, HostSampling] | None = None
    """Async function that returns a message of a model, or a mapping by server name. Needs `approve`."""
    sampling_tools: bool = False
    """True if `sampling` can give tools to the model."""
    elicitation: HostElicitation | Mapping[str, HostElicitation] | None = None
    """Async function that shows a form or a URL to the user, or a mapping by server name. Needs `approve`."""
    elicitation_url: bool = False
    """True if `elicitation` can also ask the user to visit a URL."""
    roots: Mapping[str, Iterable[str | os.PathLike[str]]] = field(default_factory=dict)
    """Directories by server name. Needs `approve`."""
    authorization: Callable[[str], Authorizer | None] | None = None
    """Function from a URL to the way to get its tokens."""
    budget: Budget = field(default_factory=Budget)
    """Limits of the whole host, and of each server without limits of its own."""
    budgets: Mapping[str, Budget] = field(default_factory=dict)
    """Limits by server name."""
    lazy: bool = False
    """True if a server starts at its first use."""
    startup_wait: float = 5.0
    """Time for which opening the host waits for servers that are not `required`, in seconds."""
    timeout: float = 60.0
    """Default time limit of a request, in seconds. The configuration of a server can change it."""
    approve_timeout: float = APPROVE_SECONDS
    """Time limit of one decision, in seconds."""
    audit: Callable[[str], None] | None = None
    """Called with a line of JSON for each decision and each result. If it raises, the request is refused."""
    audit_arguments: bool = False
    """True if the audit log contains the arguments of calls, which can be secret."""
    on_event: Callable[[HostEvent], None] | None = None
    """Called with each change. All callbacks block the event loop, so keep them short."""
    on_log: Callable[[str, LoggingMessageNotificationParams], None] | None = None
    """Called with the server name and each log message."""
    on_stderr: Callable[[str, bytes], None] | None = None
    """Called with the server name and the bytes of standard error."""
    environment: Mapping[str, str] | None = None
    """The variables that `${NAME}` means. Defaults to the environment of the process."""
    info: Implementation | None = None
    """The name and version that all servers get."""


class CallOptions(TypedDict):
    """The options of a tool call that the host passes on."""

    on_progress: ProgressHandler | None
    timeout: float | None
    max_timeout: float | None
    meta: Mapping[str, object] | None


class HostedServer:
    """One server of a host."""

    def __init__(
        self, config: ServerConfig, server: InProcessServer | None, options: HostOptions, policy: Policy,
        inputs: Callable[[ServerConfig], Awaitable[Mapping[str, str]]], starting: asyncio.Semaphore,
    ) -> None:  # fmt: skip
        self.config, self._in_process, self._options, self._policy = config, server, options, policy
        name = config.name
        self.account = Account(options.budgets.get(name, options.budget), f"server {name}")
        self.is_trusted = name in options.trusted
        self.calls: list[str] = []
        """The full names of the calls in flight."""
        self.requests = ServerInputs(
            name, config.file, policy, self.account, lambda: self.calls[0] if len(self.calls) == 1 else "",
            sampling=option_of(options.sampling, name), elicitation=option_of(options.elicitation, name),
        )  # fmt: skip
        self.supervisor = Supervisor(
            config, self._prepare, self._connect, self._accept, self._report, starting, options.lazy
        )
        transport = "memory" if server is not None else "http" if config.url is not None else "stdio"
        self.supervisor.status.transport = transport
        self._inputs = inputs
        self._asking: dict[str, asyncio.Task[None]] = {}  # by tool name: approvals of changed definitions
        self._definitions: dict[str, Tool] = {}  # the approved definitions of this run
        self._denied: set[str] = set()  # hashes of definitions that the user has refused
        self._roots: list[str] | None = None
        self._log_second, self._log_count = 0, 0

    async def close(self, patience: float = 0.0) -> None:
        """End the server. The calls in flight first get `patience` seconds."""
        deadline = time.monotonic() + patience
        while self.calls and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        for task in self._asking.values():
            task.cancel()
        if self._asking:
            await asyncio.wait(self._asking.values())
        await self.supervisor.stop()

    async def _prepare(self) -> Launch:
        """Return the server with its variables replaced, after the user's consent."""
        options, config = self._options, self.config
        environment = os.environ if options.environment is None else options.environment
        launch = launch_of(config, environment, dict.fromkeys(config.input_ids(), ""))
        if config.file is not None:
            argv = tuple(config.command or ())
            warnings = start_warnings(argv, config.url, os.path.dirname(config.file))
            request = Approval(
                "start", config.name, "program", file=config.file, argv=argv, cwd=config.cwd,
                env_names=config.env_names, url=config.url, warnings=warnings)  # fmt: skip
            longest: Literal["run", "always"] = "run" if warnings else "always"
            default = not _is_suspicious(config.file)
            await self._policy.check(request, f"{launch.digest} start", longest, default)
        if config.input_ids():
            launch = launch_of(config, environment, await self._inputs(config))
        self.requests.digest = launch.digest
        wanted = options.roots.get(config.name, config.roots)
        self._roots = await self.requests.approved_roots(wanted) if options.approve is not None else None
        return launch

    def _connect(self, launch: Launch, supervisor: Supervisor) -> Client:
        options, name, requests = self._options, self.config.name, self.requests
        throttle = Throttle(trace_from_environment()) if self._in_process is None else None
        authorizer = options.authorization(launch.url) if options.authorization and launch.url is not None else None
        client = Client(
            self._in_process or launch.command or launch.url or "", info=options.info,
            sampling=requests.sample if requests.sampling is not None else None,
            sampling_tools=options.sampling_tools,
            elicitation=requests.elicit if requests.elicitation is not None else None,
            elicitation_url=options.elicitation_url and requests.elicitation is not None,
            roots=self._roots, on_log=self._log if options.on_log is not None else None,
            on_tools_changed=supervisor.list_changed, timeout=self.config.call_seconds or options.timeout,
            env=launch.env or None, cwd=launch.cwd, headers=launch.headers or None, authorization=authorizer,
            on_stderr=partial(options.on_stderr, name) if options.on_stderr is not None else None, trace=throttle,
        )  # fmt: skip
        client.max_restarts, client.max_pages, client.max_items = 0, MAX_PAGES, MAX_ITEMS
        if throttle is not None:
            throttle.client = client
        return client

    def _log(self, message: LoggingMessageNotificationParams) -> None:
        second, dropped = int(time.monotonic()), self.supervisor.status.dropped
        self._log_count = self._log_count + 1 if second == self._log_second else 1
        self._log_second = second
        if self._log_count > MAX_LOG_RATE:
            dropped["log messages"] = dropped.get("log messages", 0) + 1
        elif self._options.on_log is not None:
            self._options.on_log(self.config.name, message)

    def _report(self, kind: Literal["state", "tools"]) -> None:
        if self.supervisor.status.state is ServerState.BACKING_OFF and kind == "state":
            self._policy.record("restart", self.config.name)
        if self._options.on_event is not None:
            self._options.on_event(HostEvent(self.config.name, kind, self.supervisor.status.state))

    def _accept(self, launch: Launch, tools: list[Tool]) -> list[Tool]:
        """Return the tools whose definitions are approved. Ask for the others in the background."""
        approvals, accepted = self._policy.approvals, []
        is_first = f"{launch.digest} listed" not in approvals
        approvals[f"{launch.digest} listed"] = "yes"
        for tool in tools:
            key, digest = f"{launch.digest} definition {tool.name}", definition_hash(tool)
            warnings = hidden_text_warnings([tool.name, tool.description, tool.title, tool.input_schema])
            is_allowed = (is_first or self._policy.approve is None) and not warnings
            if is_allowed or approvals.get(key) == digest:
                approvals[key] = digest
                self._definitions[tool.name] = tool
                accepted.append(tool)
            elif tool.name not in self._asking and digest not in self._denied:
                asking = self._ask_definition(key, tool, digest, warnings)
                self._asking[tool.name] = asyncio.create_task(asking)
        self.supervisor.status.unapproved_tools = sorted({tool.name for tool in tools} - {t.name for t in accepted})
        return accepted

    async def _ask_definition(self, key: str, tool: Tool, digest: str, warnings: tuple[str, ...]) -> None:
        """Ask for the consent to a definition that is new or has changed. The next list contains an allowed tool."""
        name = self.config.name
        request = Approval(
            "definition", name, "server", full_name(name, tool.name), self.config.file, tool=tool,
            before=self._definitions.get(tool.name), warnings=warnings)  # fmt: skip
        try:
            await self._policy.check(request)
            self._policy.approvals[key] = digest
            self.supervisor.list_changed()
        except Refused:
            self._denied.add(digest)
        finally:
            self._asking.pop(tool.name, None)

    async def call_tool(
        self, client: Client, name: str, arguments: Mapping[str, object] | None, **options: Unpack[CallOptions]
    ) -> CallToolResult:
        """Call a tool that the policy has allowed. `Host.call_tool` documents the options and exceptions."""
        self.calls.append(full_name(self.config.name, name))
        start, outcome, result = time.monotonic(), "cancelled", None
        try:
            result = await client.call_tool(name, arguments, **options)
            self.supervisor.lost_calls = 0
            outcome = "error" if result.is_error else "result"
        except (ConnectionClosed, RequestTimeout) as error:
            outcome = type(error).__name__
            self.supervisor.lost_calls += 1
            self.supervisor.wake()
            launch = self.supervisor.launch
            if launch is not None and launch.mask(str(error)) != str(error):
                raise type(error)(launch.mask(str(error))) from None
            raise
        except McpError as error:
            outcome = type(error).__name__
            raise
        finally:
            self.calls.remove(full_name(self.config.name, name))
            if self._options.audit is not None:
                self._record_result(name, arguments, outcome, time.monotonic() - start, result)
        return result

    def _record_result(
        self, name: str, arguments: Mapping[str, object] | None, outcome: str, seconds: float,
        result: CallToolResult | None,
    ) -> None:  # fmt: skip
        text = "" if result is None else json.dumps(asdict(result), default=str)
        shown = {"arguments": arguments} if self._options.audit_arguments else {}
        self._policy.record(
            "result", self.config.name, full_name(self.config.name, name), configuration=self.requests.digest,
            outcome=outcome, seconds=round(seconds, 4), arguments_sha256=digest_of(arguments),
            result_sha256=digest_of(text), result_characters=len(text), **shown)  # fmt: skip


def read_servers(servers: ServersLike) -> tuple[Configuration, dict[str, InProcessServer]]:
    """Return the configuration, and the servers of this program by name."""
    if isinstance(servers, Configuration):
        return servers, {}
    if isinstance(servers, str | os.PathLike):
        return read_config(servers), {}
    configs, in_process = [], {}
    for key, value in servers.items():
        if isinstance(value, list | tuple):
            command, *args = (str(word).replace("${", "$${") for word in value)
            configs.append(parse_server(key, {"command": command, "args": list(args)}))
        elif isinstance(value, str):
            configs.append(parse_server(key, {"url": value.replace("${", "$${")}))
        elif isinstance(value, Mapping):
            configs.append(parse_server(key, dict(value)))
        else:
            configs.append(ServerConfig(server_name(key), key))
            in_process[server_name(key)] = value
    return Configuration(check_names(configs)), in_process


def _is_suspicious(file: str) -> bool:
    """Return True if a file lies in the working directory, or if other users can write to it."""
    mode = os.stat(file).st_mode
    return os.path.realpath(file).startswith(os.path.realpath(os.getcwd()) + os.sep) or bool(mode & 0o022)
