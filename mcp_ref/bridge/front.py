"""The front: the server that the clients of a bridge see.

It is a usual `Server` of this package, with sessions, stateless requests and all transports, but with a catalog of its
own. A usual catalog has the tools and the other items that an author has registered. This one has a custom method for
every method except `FRONT_METHODS`, which passes each request to the relay (relay.py).

The front serves the `FRONT_METHODS` itself, but connects to the servers before three of them: `initialize` and
`server/discover`, because their results have the servers' capabilities, and `subscriptions/listen`.

Spec:  basic/lifecycle (2024-11-05 to 2025-11-25), 2026-07-28 server/discover
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property, partial
from typing import Final, cast

from ..basic.channel import RequestContext
from ..basic.lifecycle import Implementation, InitializeRequestParams, ServerCapabilities, choose_revision
from ..basic.subscriptions import SubscriptionsListenRequestParams
from ..codec import codec_for
from ..features.registered_tools import Tools
from ..jsonrpc.errors import ProtocolError
from ..jsonrpc.messages import Object
from ..revisions import Revision
from ..server.catalog import Catalog
from ..server.context import Context
from ..server.options import ServerOptions
from ..server.session import FINISH_SECONDS, ServerSession
from ..session import Handler
from .back_client import BackClient
from .callers import caller_of
from .changes import FrontResources
from .relay import Relay
from .relayed import RelayedMethods
from .tasks import FrontTasks

FRONT_METHODS: Final = frozenset({
    "initialize", "ping", "server/discover", "subscriptions/listen", "notifications/initialized",
    "notifications/cancelled", "notifications/progress",
})  # fmt: skip
"""The methods of clients that the front serves itself, instead of passing them to the relay."""

MAX_INSTRUCTIONS: Final = 2000
"""Maximum length of each server's instructions if there are several servers, in characters."""


class FrontTools(Tools):
    """The tools of the front. None is registered here, because the relay serves `tools/list` and `tools/call`. But the
    HTTP endpoint still asks here for the headers that repeat the arguments of a tool."""

    relay: Relay  # set by `FrontCatalog.tools`

    def parameter_headers(self, name: str) -> dict[str, tuple[str, ...]]:
        try:
            server, tool = self.relay.names.split_name(name)
        except ProtocolError:
            return {}
        return self.relay.servers[server].parameter_headers.get(tool, {})


class FrontCatalog(Catalog):
    """The catalog of the front, in which the relay serves every method but those of `FRONT_METHODS`."""

    def __init__(
        self, relay: Relay, info: Implementation, revisions: Sequence[Revision], options: ServerOptions,
        close: Callable[[], Awaitable[None]],
    ) -> None:  # fmt: skip
        super().__init__(info, revisions, options)
        self._relay, self._close_servers = relay, close
        self.announcers = relay.changes.announcers
        self.custom_methods = RelayedMethods(FRONT_METHODS, relay.serve, _ignore_notification)
        self.middleware.append(self._connecting_handler)
        for server in relay.servers.values():
            server.on_connected = self._describe_servers

    # tools and resources are never registered here, so nothing uses their `page_size` and `on_change`

    @cached_property
    def tools(self) -> Tools:
        tools = FrontTools(Context, page_size=1, on_change=lambda: None, start=self.tasks.call_tool)
        tools.relay = self._relay
        return tools

    @cached_property
    def tasks(self) -> FrontTasks:
        return FrontTasks(on_change=partial(self.announcers.announce, "notifications/tasks"))

    @cached_property
    def resources(self) -> FrontResources:
        return FrontResources(Context, page_size=1, on_change=lambda: None)

    def capabilities(self) -> ServerCapabilities:
        """Return the capabilities that at least one server behind the bridge has."""
        merged: dict[str, Object] = {}  # by the attributes of `ServerCapabilities`
        for client in self._latest_clients().values():
            declared = codec_for(client.revision).decode(ServerCapabilities, client.server_capabilities)
            if not client.revision.completions_are_declared and declared.prompts is not None:
                declared.completions = {}  # such a server cannot declare completions, but may have them
            self._relay.tasks.declare(declared)  # changes `declared` to the tasks that the bridge offers
            for name, value in vars(declared).items():
                if value is not None:
                    merged[name] = {**merged.get(name, {}), **value}
        return ServerCapabilities(**merged)

    def _latest_clients(self) -> dict[str, BackClient]:
        """Return the latest client of each server that was ever connected, by the server's name."""
        latest = {name: server.latest_client for name, server in self._relay.servers.items()}
        return {name: client for name, client in latest.items() if client is not None}

    def _describe_servers(self) -> None:
        """Take over the name and the instructions of the only server, or join the instructions of several."""
        clients = self._latest_clients()
        self.info_as_json.clear()  # it caches `info`, which changes below
        if self._relay.names.keeps_names:  # only if the bridge has a single server
            for client in clients.values():
                self.info, self.instructions = client.server_info, client.instructions
            return
        instructions = {name: client.instructions for name, client in clients.items() if client.instructions}
        parts = [f"# {name}\n\n{text[:MAX_INSTRUCTIONS]}" for name, text in instructions.items()]
        self.instructions = "\n\n".join(parts) or None

    def _connecting_handler(self, method: str, handler: Handler) -> Handler:
        """Return the handler of a method. If the method needs the servers, the handler connects to them first."""
        wrappers: dict[str, Callable[..., Awaitable[object]]] = {
            "initialize": self._initialize, "server/discover": self._discover, "subscriptions/listen": self._listen,
        }  # fmt: skip
        wrapper = wrappers.get(method)
        return handler if wrapper is None else partial(wrapper, handler)

    async def _initialize(self, handler: Handler, params: InitializeRequestParams, context: Context) -> object:
        session = cast(ServerSession, context.channel)
        self._relay.end_session(session)  # a second handshake on a transport ends what the first one has opened
        self._note_client(session, params)
        self._close_connections_after(session)
        await self._relay.connect(caller_of(context))
        result = await handler(params, context)
        # from now on, pass the client's notifications to the servers, over the connections made for this session
        pass_to_servers = partial(self._relay.pass_to_servers, session)
        session.custom_methods = RelayedMethods(FRONT_METHODS, self._relay.serve, pass_to_servers)
        # Until the client sets a level, the requests to modern servers name "info", because without a level such a
        # server logs nothing. If all servers are legacy, None leaves the default level of each unchanged.
        has_modern = any(server.is_modern for server in self._relay.servers.values())
        session.logging_level = "info" if has_modern else None
        return result

    def _note_client(self, session: ServerSession, params: InitializeRequestParams) -> None:
        """Set the facts about the client that the connections to the servers need. The handler comes later, and sets
        them again."""
        session.use_revision(choose_revision(params.protocol_version, self.legacy_revisions))
        session.peer_capabilities = session.codec.encode(params.capabilities)
        session.peer_info = params.client_info
        session.logging_level = None  # so that the bridge sets no level at a legacy server, which has its own default

    def _close_connections_after(self, session: ServerSession) -> None:
        """Let the bridge close the session's connections and subscriptions when the session has ended, and its last
        requests have had time to finish."""
        loop = asyncio.get_running_loop()
        session.ended.add_done_callback(lambda _: loop.call_later(FINISH_SECONDS, self._relay.end_session, session))

    async def _discover(self, handler: Handler, params: object, context: Context) -> object:
        await self._relay.connect(caller_of(context))
        return await handler(params, context)

    async def _listen(
        self, handler: Handler, params: SubscriptionsListenRequestParams, context: RequestContext
    ) -> object:
        await self._relay.connect(caller_of(context))
        async with self._relay.tasks.updates(params.notifications, context):
            return await self._relay.changes.listen(handler, params, context)

    async def _close_tasks(self) -> None:
        """End the tasks and the connections to the servers. Called when the last client has left."""
        await super()._close_tasks()
        await self._close_servers()


def _ignore_notification(method: str, params: Object) -> None:
    """Drop a notification from a client without a session, because no connection to a server belongs to it."""
