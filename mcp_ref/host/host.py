"""`Host`: several servers under one policy.

    async with Host({"weather": ["python3", "weather.py"], "docs": "https://docs.example/mcp"}) as host:
        for tool in await host.list_tools():
            print(tool.full_name, tool.definition.description)
        print((await host.call_tool("weather.forecast", {"city": "Ghent"})).text)

    host = Host("mcp.json", approve=approve)      # the servers of a configuration file, with the user's consent

Each server has its own `Client`, and the clients share nothing. A resource is identified by its server and its URI. The
host never guesses the server from a URI, because a server could claim the URI of another, and leaves URIs as they are.

Spec:  architecture/index (2024-11-05 to 2026-07-28); 2026-07-28 index#key-principles, server/tools#tool-names
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, cast, overload

from ..client.client import Client
from ..client.subscriptions import MAX_RETRY_PAUSE, MIN_RETRY_PAUSE
from ..client.sync import Synchronous, blocking
from ..client.tools import CallOptions, ToolCalls
from ..features.prompts import GetPromptResult, Prompt
from ..features.resources import ReadResourceResult, Resource, ResourceTemplate
from ..features.tools import CallToolResult, Tool
from ..jsonrpc.errors import ConnectionClosed, McpError
from .configuration import ServersLike, check_servers, read_servers
from .hosted import HostedServer
from .names import D, Listed, UnknownName, model_names
from .policy import Account, HostOptions, Policy
from .results import cut_prompt, cut_resource, cut_text
from .supervisor import ServerState, ServerStatus

if TYPE_CHECKING:
    from typing import Unpack

    from .approval import Origin

T = TypeVar("T")

STARTS_AT_ONCE = 8
"""Maximum number of servers that start at the same time."""

CLOSE_SECONDS = 10.0
"""Time that the calls in flight get when `Host.reload` removes their server, in seconds."""

RESUBSCRIBE_SECONDS = 60.0
"""Time that `Host.watch` waits for the restart of a server, in seconds."""


@dataclass(frozen=True)
class ResourceChange:
    """An update of a resource, or of a resource below it."""

    server: str
    uri: str


@dataclass(eq=False)
class Host(HostOptions):
    """Several clients under one policy: an async context manager, which has the arguments of `HostOptions`.

    A request raises UnknownName for an unknown server or tool, Refused if the policy does not allow the request,
    ServerUnavailable if the server is not ready, and the exceptions of `Client`.

    Args of methods:
        server: The server name.
        timeout: Time limit in seconds. Default: the limit of the server.
        wait: Time to wait for a server that is not ready, in seconds.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        check_servers(self.servers)
        if self.approve is None and (self.sampling or self.elicitation or self.roots):
            raise TypeError("sampling, elicitation and roots need approve=: the user must be able to refuse them")
        self._policy = Policy(self)
        self._account = Account(self._policy)
        self._hosted: dict[str, HostedServer] = {}
        self._start_limit = asyncio.Semaphore(STARTS_AT_ONCE)
        self._is_used = False
        self._closing: asyncio.Task[None] | None = None  # runs `_close`

    def __repr__(self) -> str:
        servers = [f"{name} {hosted.status.state.name}" for name, hosted in self._hosted.items()]
        return f"<Host: {', '.join(servers) or 'no servers'}>"

    async def __aenter__(self) -> Host:
        if self._is_used:
            raise RuntimeError("a Host can be opened only once: create a new Host")
        self._is_used = True
        try:
            await self.reload(self.servers)
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all servers, even if the caller is cancelled meanwhile. They cannot be started again."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await asyncio.gather(*(hosted.close() for hosted in self._hosted.values()))

    async def reload(self, servers: ServersLike) -> None:
        """Replace the servers. An unchanged server keeps running, and a changed one starts again.

        A changed server from a file needs the user's consent again. Wait at most `startup_wait` seconds for the new
        servers, but without a limit for `required` ones.

        Args:
            servers: The new servers.

        Raises:
            ConfigurationError: If the file cannot be parsed, in which case nothing changes.
            ServerUnavailable: If a required server did not start.
            RuntimeError: If the host is closed.
        """
        configs = {config.name: config for config in read_servers(servers).servers}
        # a server that an interrupted `reload` has begun to close is replaced, because it cannot start again
        removed = [each for name, each in self._hosted.items() if each.is_closed or configs.get(name) != each.config]
        await asyncio.gather(*(hosted.close(CLOSE_SECONDS) for hosted in removed))
        if self._closing is not None:  # perhaps since the call of `reload`
            raise RuntimeError("the host is closed: create a new Host")
        kept = {name: hosted for name, hosted in self._hosted.items() if hosted not in removed}
        new = {
            name: HostedServer(config, self._policy, self._account, self._start_limit)
            for name, config in configs.items() if name not in kept
        }  # fmt: skip
        self._hosted = kept | new
        eager = [hosted for hosted in new.values() if not hosted.is_lazy]
        for hosted in eager:
            await hosted.start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.startup_wait):
                for hosted in eager:
                    await hosted.attempted.wait()
        for hosted in eager:
            if hosted.config.entry.get("required"):
                await hosted.attempted.wait()
                hosted.check_ready()

    async def restart(self, server: str) -> None:
        """Start a server again, in any state but STOPPED."""
        await self._server(server).start()

    def status(self) -> list[ServerStatus]:
        """Return the state of each server, as plain data without secrets."""
        return [hosted.snapshot() for hosted in self._hosted.values()]

    def client(self, server: str) -> Client:
        """Return the client of a ready server, for example for `Client.complete`. Its requests bypass the policy.

        Raises:
            ServerUnavailable: If the server is not ready.
        """
        return self._server(server).check_ready()

    def begin_turn(self) -> None:
        """Clear `Approval.after`, because the user has written a new message."""
        self._policy.seen_servers.clear()

    def instructions(self) -> dict[str, str]:
        """Return the untrusted instructions of the servers for the model, by server name."""
        found = {name: hosted.client.instructions for name, hosted in self._hosted.items() if hosted.client is not None}
        limits = {name: self.budgets.get(name, self.budget).result_characters for name in found}
        return {name: cut_text(text, limits[name]) for name, text in found.items() if text}

    async def list_tools(self) -> list[Listed[Tool]]:
        """Return the approved tools of all servers, sorted by full name."""
        return self._listed_tools()

    def _listed_tools(self) -> list[Listed[Tool]]:
        return self._named((name, tool) for name, hosted in self._hosted.items() for tool in hosted.tools.values())

    async def list_prompts(self) -> list[Listed[Prompt]]:
        """Return the prompts of all servers that are ready, sorted by full name."""
        return self._named(await self._list_all("prompts", Client.list_prompts))

    def _named(self, found: Iterable[tuple[str, D]]) -> list[Listed[D]]:
        """Return tools or prompts with their model names, sorted by full name."""
        definitions = {(server, definition.name): definition for server, definition in found}
        listed = []
        for model_name, (server, local_name) in model_names(definitions).items():
            is_ready = self._hosted[server].status.state is ServerState.READY
            listed.append(Listed(server, definitions[server, local_name], model_name, is_ready))
        return sorted(listed, key=lambda item: item.full_name)

    async def list_resources(self) -> list[Listed[Resource]]:
        """Return the resources of all servers that are ready, by server."""
        found = await self._list_all("resources", Client.list_resources)
        return [Listed(server, resource) for server, resource in found]

    async def list_resource_templates(self) -> list[Listed[ResourceTemplate]]:
        """Return the resource templates of all servers that are ready, by server."""
        found = await self._list_all("resources", Client.list_resource_templates)
        return [Listed(server, template) for server, template in found]

    async def _list_all(self, capability: str, fetch: Callable[[Client], Awaitable[list[T]]]) -> list[tuple[str, T]]:
        """Return the items of all ready servers. A server that fails adds none, and `status()` shows its error."""

        async def items_of(name: str, hosted: HostedServer) -> list[tuple[str, T]]:
            if hosted.client is None or not hosted.client.server_can(capability):
                return []
            try:
                return [(name, item) for item in await fetch(hosted.client)]
            except McpError as error:
                hosted.status.last_error = hosted.mask(str(error))
                return []

        lists = await asyncio.gather(*(items_of(*each) for each in self._hosted.items()))
        return [item for items in lists for item in items]

    @overload
    async def call_tool(
        self, name: str, arguments: Mapping[str, object] | None = None, *, origin: Origin = ..., wait: float = ...,
        **options: Unpack[CallOptions],
    ) -> CallToolResult: ...  # fmt: skip
    @overload
    async def call_tool(
        self, name: str, arguments: Mapping[str, object] | None = None, *, returns: type[T], origin: Origin = ...,
        wait: float = ..., **options: Unpack[CallOptions],
    ) -> T: ...  # fmt: skip

    async def call_tool(
        self, name: str, arguments: Mapping[str, object] | None = None, *, returns: type[object] | None = None,
        origin: Origin = "program", wait: float = 0.0, **options: Unpack[CallOptions],
    ) -> object:  # fmt: skip
        """Call a tool, if the policy allows it. A lost call is never repeated.

        Args:
            name: Full name or model name of the tool.
            arguments: Arguments by name.
            returns: The type of the tool's data. See `Client.call_tool`.
            origin: "model" if a model has chosen the call, so that the budget limits the text of the result.
            options: See `Client.call_tool`. The default of `timeout` is the limit of the server.

        Returns:
            The result, or the data as an object of the type `returns`.

        Raises:
            UnknownName: If the server does not have this tool.
            ServerUnavailable: If the server is not ready, so that nothing was sent.
            ConnectionClosed: If the connection is lost. Nobody knows whether the tool ran, unless `is_unsent` is True.
            Refused: If the policy does not allow the call.
        """
        server, local_name = self._split(name)
        result = await self._server(server).call_tool(local_name, arguments, origin, wait, options)
        return result if returns is None else ToolCalls.read(name, result, returns)

    async def read_resource(
        self, server: str, uri: str, *, origin: Origin = "program", timeout: float | None = None, wait: float = 0.0
    ) -> ReadResourceResult:
        """Return the contents of a resource.

        Args:
            uri: URI of the resource. Only this server gets it.
            origin: "model" if the contents go to a model, so that `approve` is asked.
        """
        return await self._server(server).fetch(
            "read", uri, None, origin, wait, cut=cut_resource,
            request=lambda client, uri, _: client.read_resource(uri, timeout=timeout),
        )  # fmt: skip

    async def get_prompt(
        self, name: str, arguments: dict[str, str] | None = None, *, origin: Origin = "program",
        timeout: float | None = None, wait: float = 0.0,
    ) -> GetPromptResult:  # fmt: skip
        """Return the messages of a prompt.

        Args:
            name: Full name or model name of the prompt.
            arguments: Arguments by name.
            origin: "model" if the messages go to a model, so that `approve` is asked.
        """
        if "." not in name:  # a model name
            full_names = {each.model_name: each.full_name for each in await self.list_prompts()}
            name = full_names.get(name, name)
        server, _, local_name = name.partition(".")
        return await self._server(server).fetch(
            "prompt", local_name, arguments, origin, wait, cut=cut_prompt,
            request=lambda client, prompt, edited: client.get_prompt(
                prompt, cast("dict[str, str] | None", edited), timeout=timeout),
        )  # fmt: skip

    async def watch(self, server: str, uri: str) -> AsyncIterator[ResourceChange]:
        """Yield the updates of a resource. Whenever the subscription ends, subscribe again, and yield one update.

        Args:
            uri: URI of the resource. The updates include resources whose URI is below this one.
        """
        hosted = self._server(server)
        is_first, pause = True, MIN_RETRY_PAUSE
        while True:
            client = await hosted.ready_client(0.0 if is_first else RESUBSCRIBE_SECONDS)
            with contextlib.suppress(ConnectionClosed):
                async with client.subscribe(uri) as updates:
                    if not is_first:  # a change may have been missed since the last subscription ended
                        yield ResourceChange(server, uri)
                    async for changed in updates:
                        pause = MIN_RETRY_PAUSE
                        yield ResourceChange(server, changed)
            await asyncio.sleep(pause)
            # The pauses grow, because a server over HTTP counts as ready even while it cannot be reached.
            is_first, pause = False, min(2 * pause, MAX_RETRY_PAUSE)

    def _server(self, name: str) -> HostedServer:
        if name not in self._hosted:
            raise UnknownName("server", name, self._hosted)
        return self._hosted[name]

    def _split(self, name: str) -> tuple[str, str]:
        """Return (server name, the tool's name on its server) for a full name or a model name."""
        server, dot, local_name = name.partition(".")
        if dot:
            return server, local_name
        server = name.partition("__")[0]
        found = self._hosted[server].tools.by_model_name.get(name) if server in self._hosted else None
        if found is None:
            is_model_name = "__" in name
            known = [tool.model_name if is_model_name else tool.full_name for tool in self._listed_tools()]
            raise UnknownName("tool", name, known)
        return found


class SyncHost(Synchronous[Host]):
    """A host for programs without asyncio, such as scripts and notebooks, whose methods block until they have a result.

        with SyncHost({"weather": ["python3", "weather.py"]}) as host:
            print(host.call_tool("weather.forecast", {"city": "Ghent"}).text)

    It runs a `Host`, together with `approve` and the other callbacks, on an event loop in a second thread. The methods
    have the same arguments as those of `Host`. `begin_turn`, `instructions` and `client` are methods of the attribute
    `host`.

    Args:
        servers: The servers, as for `Host`; or a new `Host` with your options.
    """

    def __init__(self, servers: Host | ServersLike) -> None:
        self.host = servers if isinstance(servers, Host) else Host(servers)
        super().__init__(self.host, self.host.__aenter__, self.host.close)

    reload = blocking(Host.reload)
    restart = blocking(Host.restart)
    list_tools = blocking(Host.list_tools)
    list_prompts = blocking(Host.list_prompts)
    list_resources = blocking(Host.list_resources)
    list_resource_templates = blocking(Host.list_resource_templates)
    call_tool = blocking(Host.call_tool)
    read_resource = blocking(Host.read_resource)
    get_prompt = blocking(Host.get_prompt)

    def status(self) -> list[ServerStatus]:
        """Return the state of each server, as plain data without secrets."""
        return self.host.status()
