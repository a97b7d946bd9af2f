"""`Host`: several servers, one policy.

    async with Host({"weather": ["python3", "weather.py"], "docs": "https://docs.example/mcp"}) as host:
        for tool in await host.list_tools():
            print(tool.full_name, tool.definition.description)
        print((await host.call_tool("weather.forecast", {"city": "Ghent"})).text)

    host = Host("mcp.json", approve=approve)      # the servers of a configuration file, with consent

Each server has its own `Client`, and the clients share nothing. A resource is the pair of a server and a URI: the host
changes no URI, because a server could claim the URI of another server.

Spec:  architecture (all revisions); 2026-07-28 index#security-and-trust-safety, server/tools#tool-names
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from ..basic.content import TextContent
from ..client.client import Client
from ..features.prompts import GetPromptResult, Prompt
from ..features.resources import ReadResourceResult, Resource, ResourceTemplate
from ..features.tools import CallToolResult, Tool
from ..jsonrpc.errors import ConnectionClosed, McpError
from ..jsonrpc.messages import JSON
from ..lib.jsonschema import compile_schema
from .configuration import ServerConfig
from .hosted import HostedServer, HostOptions, ServersLike, read_servers
from .names import UnknownName, full_name, model_names, split_full_name
from .policy import Account, Approval, Policy, Refused, definition_hash, hidden_text_warnings
from .supervisor import ServerStatus

if TYPE_CHECKING:
    from ..basic.progress import ProgressHandler
    from ..features.completion import Completion, Reference
    from .policy import Kind, Origin

T = TypeVar("T")
D = TypeVar("D", Tool, Prompt, Resource, ResourceTemplate)

STARTS_AT_ONCE = 8
"""Maximum number of servers that start at the same time."""

RESUBSCRIBE_SECONDS = 60.0
"""Minimum time that `Host.watch` waits for a server that has ended, in seconds."""

CLOSE_SECONDS = 10.0
"""Time that the calls in flight get when `Host.reload` removes their server, in seconds."""


@dataclass(frozen=True)
class Listed(Generic[D]):
    """A tool, prompt, resource or resource template of one server."""

    server: str
    definition: D
    model_name: str = ""
    """The name of a tool or prompt for a model provider (names.py)."""
    available: bool = True
    """False if the server is away. Its tools stay in the list for a minute."""

    @property
    def full_name(self) -> str:
        """The server name, a dot, and the name, URI or URI template."""
        of = self.definition
        if isinstance(of, Resource):
            return full_name(self.server, of.uri)
        return full_name(self.server, of.uri_template if isinstance(of, ResourceTemplate) else of.name)

    @property
    def display_name(self) -> str:
        """The name for people. It contains the server name, because a server can choose any title."""
        of = self.definition
        return f"{of.display_name if isinstance(of, Tool) else of.title or of.name} ({self.server})"


@dataclass(frozen=True)
class ResourceChange:
    """An update of a resource: its URI, or a URI below it."""

    server: str
    uri: str


@dataclass(eq=False)
class Host(HostOptions):
    """Several clients with one policy. Use it as an async context manager. `HostOptions` documents the arguments.

    A request raises UnknownName for an unknown server or tool, Refused or BudgetExceeded if the policy does not allow
    the request, ServerUnavailable if the server is away, and the exceptions of `Client`.
    """

    def __post_init__(self) -> None:
        if self.approve is None and (self.sampling is not None or self.elicitation is not None or self.roots):
            raise TypeError("sampling, elicitation and roots need approve=: the user must be able to refuse them")
        self._policy = Policy(self.approve, self.approvals, self.audit, self.approve_timeout)
        self._account = Account(self.budget, "the host")
        self._servers: dict[str, HostedServer] = {}
        self._after: set[str] = set()
        self._typed: dict[str, str] = {}  # the values of `${input:id}`
        self._asking_input, self._starting = asyncio.Lock(), asyncio.Semaphore(STARTS_AT_ONCE)
        self._is_plain = self.approve is None and self.audit is None

    async def __aenter__(self) -> Host:
        if self._servers:
            raise RuntimeError("a Host can be opened only once: create a new Host")
        self._add(self.servers)
        try:
            await self._wait_for_start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    def _add(self, servers: ServersLike) -> None:
        configuration, in_process = read_servers(servers)
        self._inputs = configuration.inputs
        for config in configuration.servers:
            if config.name in self._servers:
                continue  # `reload` keeps an unchanged server
            server = in_process.get(config.name)
            hosted = HostedServer(config, server, self, self._policy, self._input_values, self._starting)
            self._servers[config.name] = hosted
            hosted.supervisor.start()

    async def _wait_for_start(self) -> None:
        """Wait for all servers at most `startup_wait` seconds. Wait for required servers until they are ready."""
        supervisors = [hosted.supervisor for hosted in self._servers.values()]
        waiting = [asyncio.ensure_future(each.attempted.wait()) for each in supervisors if not self.lazy]
        try:
            if waiting:
                await asyncio.wait(waiting, timeout=self.startup_wait)
            for supervisor in supervisors:
                if supervisor.config.is_required:
                    await supervisor.attempted.wait()
                    await supervisor.ready_client()
        finally:
            for each in waiting:
                each.cancel()

    async def close(self) -> None:
        """Close all servers at the same time."""
        await asyncio.gather(*(hosted.close() for hosted in self._servers.values()))

    async def reload(self, servers: ServersLike) -> None:
        """Use another configuration. Unchanged servers continue. A changed server needs consent again.

        Args:
            servers: The new servers. If their file cannot be parsed, nothing changes.

        Raises:
            ConfigurationError: If the file cannot be parsed.
        """
        wanted = {config.name: config.digest for config in read_servers(servers)[0].servers}
        gone = [hosted for name, hosted in self._servers.items() if hosted.config.digest != wanted.get(name)]
        for hosted in gone:
            del self._servers[hosted.config.name]
        await asyncio.gather(*(hosted.close(CLOSE_SECONDS) for hosted in gone))
        self._add(servers)
        await self._wait_for_start()

    async def restart(self, server: str) -> None:
        """Start a server again, from every state.

        Args:
            server: The server name.
        """
        await self._hosted(server).supervisor.restart()

    def status(self) -> list[ServerStatus]:
        """Return the state of each server, as plain data without secrets."""
        return [replace(each.supervisor.status, in_flight=len(each.calls)) for each in self._servers.values()]

    def client(self, server: str) -> Client:
        """Return the client of a server. Requests of this client bypass the policy of the host.

        Args:
            server: The server name.

        Raises:
            ServerUnavailable: If the server is away.
        """
        supervisor = self._hosted(server).supervisor
        if supervisor.client is None:
            raise supervisor.unavailable()
        return supervisor.client

    def begin_turn(self) -> None:
        """Note a new message of the user: `Approval.after` is empty again."""
        self._after.clear()

    def instructions(self) -> dict[str, str]:
        """Return the instructions of the servers for the model, by server name. They are untrusted."""
        ready = {name: hosted.supervisor.client for name, hosted in self._servers.items()}
        return {name: client.instructions for name, client in ready.items() if client and client.instructions}

    async def list_tools(self) -> list[Listed[Tool]]:
        """Return the approved tools of all servers, sorted by full name."""
        await self._start_lazy()
        found = [(hosted, tool) for hosted in self._servers.values() for tool in hosted.supervisor.tools.values()]
        names = _inverse((hosted.config.name, tool.name) for hosted, tool in found)
        listed = [
            Listed(hosted.config.name, tool, names[hosted.config.name, tool.name], hosted.supervisor.client is not None)
            for hosted, tool in found
        ]
        return sorted(listed, key=lambda each: each.full_name)

    async def list_prompts(self) -> list[Listed[Prompt]]:
        """Return the prompts of all servers that are ready, sorted by full name."""
        found = await self._list_all("prompts", Client.list_prompts)
        names = _inverse((server, prompt.name) for server, prompt in found)
        return [Listed(server, prompt, names[server, prompt.name]) for server, prompt in found]

    async def list_resources(self) -> list[Listed[Resource]]:
        """Return the resources of all servers that are ready, by server."""
        return [Listed(*each) for each in await self._list_all("resources", Client.list_resources)]

    async def list_resource_templates(self) -> list[Listed[ResourceTemplate]]:
        """Return the resource templates of all servers that are ready, by server."""
        return [Listed(*each) for each in await self._list_all("resources", Client.list_resource_templates)]

    async def call_tool(
        self, name: str, arguments: Mapping[str, object] | None = None, *, origin: Origin = "program",
        on_progress: ProgressHandler | None = None, timeout: float | None = None, max_timeout: float | None = None,
        meta: Mapping[str, object] | None = None, wait: float = 0.0,
    ) -> CallToolResult:  # fmt: skip
        """Call a tool, if the policy allows it. A call that was lost is never repeated.

        Args:
            name: Full name or model name of the tool.
            arguments: Arguments by name.
            origin: "model" if a model has chosen the call. Then the text of the result is limited by the budget.
            on_progress: Called with progress, total and message.
            timeout: Time limit in seconds. Defaults to the limit of the server.
            max_timeout: Total time limit in seconds, see `Client.call_tool`.
            meta: `_meta` of the request.
            wait: Time to wait for a server that is away, in seconds.

        Returns:
            The result. Its `is_error` is True if the tool failed.

        Raises:
            UnknownName: If the server does not have this tool.
            ServerUnavailable: If the server is away. Nothing was sent.
            ConnectionClosed: If the server died during the call. It is not known if the tool ran.
            Refused: If the policy does not allow the call.
        """
        server, own = self._split(name)
        hosted = self._hosted(server)
        client = await hosted.supervisor.ready_client(wait)
        tool = hosted.supervisor.tools.get(own)
        if tool is None:
            raise UnknownName("tool", name, (full_name(server, each) for each in hosted.supervisor.tools))
        checked = await self._check_call(hosted, tool, arguments, origin)
        result = await hosted.call_tool(
            client, own, checked, on_progress=on_progress, timeout=timeout, max_timeout=max_timeout, meta=meta
        )
        self._after.add(server)
        return _cut(result, hosted.account.budget.result_characters) if origin == "model" else result

    async def _check_call(
        self, hosted: HostedServer, tool: Tool, arguments: Mapping[str, object] | None, origin: Origin
    ) -> Mapping[str, object] | None:
        """Return the arguments to send, after the budgets and the approval."""
        is_first = not hosted.calls
        try:
            hosted.account.call(is_first)
            self._account.call(is_first)
        except Refused as error:
            self._policy.record("budget", hosted.config.name, tool.name, reason=str(error))
            raise
        if self._is_plain and origin == "program":
            return arguments
        request = Approval(
            "call", hosted.config.name, origin, full_name(hosted.config.name, tool.name), hosted.config.file,
            arguments=arguments, tool=tool, trusted=hosted.is_trusted, after=frozenset(self._after),
            warnings=hidden_text_warnings(arguments))  # fmt: skip
        key = f"{hosted.requests.digest} call {tool.name} {definition_hash(tool)}"
        edited = await self._policy.check(request, key, "always", default=origin == "program")
        if edited is None:
            return arguments
        faults = [str(error) for error in compile_schema(tool.input_schema).errors(cast("JSON", edited))]
        if not isinstance(edited, Mapping) or faults:
            raise Refused(f"the edited arguments of {request.name} are invalid: {'; '.join(faults) or edited!r:.300}")
        return edited

    async def read_resource(
        self, server: str, uri: str, *, origin: Origin = "program", timeout: float | None = None, wait: float = 0.0
    ) -> ReadResourceResult:
        """Return the contents of a resource.

        Args:
            server: The server name.
            uri: URI of the resource. It goes to this server only.
            origin: "model" if the contents go to a model. Then `approve` is asked.
            timeout: Time limit in seconds. Defaults to the limit of the server.
            wait: Time to wait for a server that is away, in seconds.
        """
        client = await self._hosted(server).supervisor.ready_client(wait)
        if origin == "model":
            await self._check_data("read", server, uri, None)
        self._after.add(server)
        return await client.read_resource(uri, timeout=timeout)

    async def get_prompt(
        self, name: str, arguments: dict[str, str] | None = None, *, origin: Origin = "program",
        timeout: float | None = None, wait: float = 0.0,
    ) -> GetPromptResult:  # fmt: skip
        """Return the messages of a prompt.

        Args:
            name: Full name of the prompt.
            arguments: Arguments by name.
            origin: "model" if a model has chosen the prompt. Then `approve` is asked.
            timeout: Time limit in seconds. Defaults to the limit of the server.
            wait: Time to wait for a server that is away, in seconds.
        """
        server, own = split_full_name(name)
        client = await self._hosted(server).supervisor.ready_client(wait)
        if origin == "model":
            await self._check_data("prompt", server, own, arguments)
        self._after.add(server)
        return await client.get_prompt(own, arguments, timeout=timeout)

    async def _check_data(self, kind: Kind, server: str, name: str, arguments: Mapping[str, object] | None) -> None:
        hosted = self._hosted(server)
        shown = name if kind == "read" else full_name(server, name)
        request = Approval(
            kind, server, "model", shown, hosted.config.file, arguments=arguments, after=frozenset(self._after),
            warnings=hidden_text_warnings([name, arguments]))  # fmt: skip
        await self._policy.check(request, f"{hosted.requests.digest} {kind} {name}", "always")

    async def complete(
        self, server: str, ref: Reference, argument: str, value: str, arguments: dict[str, str] | None = None, *,
        wait: float = 0.0,
    ) -> Completion:  # fmt: skip
        """Return suggestions for an argument, see `Client.complete`.

        Args:
            server: The server name.
            ref: The prompt or resource template of the argument, with the server's own name.
            argument: Name of the argument.
            value: The part of the value that the user has typed.
            arguments: The values of other arguments, by name.
            wait: Time to wait for a server that is away, in seconds.
        """
        client = await self._hosted(server).supervisor.ready_client(wait)
        return await client.complete(ref, argument, value, arguments)

    async def watch(self, server: str, uri: str, *, wait: float = 0.0) -> AsyncIterator[ResourceChange]:
        """Yield the updates of a resource. After a restart of the server, subscribe again and yield one update.

        Args:
            server: The server name.
            uri: URI of the resource.
            wait: Time to wait for a server that is away, in seconds. A restart gets at least a minute.
        """
        supervisor = self._hosted(server).supervisor
        while True:
            client = await supervisor.ready_client(wait)
            try:
                async with client.subscribe(uri) as updates:
                    if wait >= RESUBSCRIBE_SECONDS:
                        yield ResourceChange(server, uri)  # an update could have been missed
                    async for changed in updates:
                        yield ResourceChange(server, changed)
                return
            except ConnectionClosed:
                wait = max(wait, RESUBSCRIBE_SECONDS)

    def _hosted(self, server: str) -> HostedServer:
        if server not in self._servers:
            raise UnknownName("server", server, self._servers)
        return self._servers[server]

    def _split(self, name: str) -> tuple[str, str]:
        """Return the server name and the own name of a tool, for its full name or its model name."""
        server, dot, own = name.partition(".")
        if dot and server in self._servers:
            return server, own
        pairs = [(each.config.name, tool) for each in self._servers.values() for tool in each.supervisor.tools]
        table = model_names(pairs)
        if name not in table:
            raise UnknownName("tool", name, [full_name(*pair) for pair in pairs])
        return table[name]

    async def _start_lazy(self) -> None:
        """Start all lazy servers that were not used yet, and wait for them."""
        if self.lazy:
            starting = (each.supervisor.ready_client() for each in self._servers.values())
            await asyncio.gather(*starting, return_exceptions=True)

    async def _list_all(self, capability: str, fetch: Callable[[Client], Awaitable[list[T]]]) -> list[tuple[str, T]]:
        """Return a list of all ready servers. A server that fails contributes nothing, and `status()` says so."""
        await self._start_lazy()
        ready = [each.supervisor for each in self._servers.values() if each.supervisor.client is not None]
        able = [each for each in ready if each.client and each.client.server_can(capability)]
        lists = await asyncio.gather(*(fetch(each.client) for each in able if each.client), return_exceptions=True)
        found = []
        for supervisor, listed in zip(able, lists, strict=True):
            if isinstance(listed, McpError):
                supervisor.status.last_error = str(listed)
            elif isinstance(listed, BaseException):
                raise listed
            else:
                found += [(supervisor.config.name, item) for item in listed]
        return found

    async def _input_values(self, config: ServerConfig) -> Mapping[str, str]:
        """Return the typed values of `${input:id}`. Ask once for each id, one at a time."""
        described = self._inputs
        async with self._asking_input:
            for id in config.input_ids():
                if id not in self._typed and self.ask is not None and id in described:
                    self._typed[id] = await self.ask(id, described[id].description, described[id].password)
        return self._typed


def _inverse(names: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    return {pair: name for name, pair in model_names(names).items()}


def _cut(result: CallToolResult, limit: int) -> CallToolResult:
    """Return a result whose texts have at most `limit` characters, with a note where a text was cut."""
    content, left = [], limit
    for block in result.content:
        if isinstance(block, TextContent):
            if len(block.text) > left:
                block = replace(block, text=block.text[:left] + f"\n[cut: the result has more than {limit} characters]")
            left = max(0, left - len(block.text))
        content.append(block)
    return replace(result, content=content)
