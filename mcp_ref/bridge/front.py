"""The front: the catalog of a `Server` whose requests all go to other servers.

The front is a usual server of this package, with sessions, stateless requests and all transports. It differs in its
catalog only: every method is a custom method that the relay serves. `initialize`, `server/discover` and
`subscriptions/listen` stay as they are, after the bridge has connected to its servers.

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
from ..revisions import Revision
from ..server.catalog import Catalog
from ..server.context import Context
from ..server.options import ServerOptions
from ..server.session import FINISH_SECONDS, ServerSession
from ..session import Handler
from .back_client import BackClient, caller_of
from .changes import FrontResources
from .relay import Relay
from .relayed import RelayedMethods
from .tasks import FrontTasks

NATIVE: Final = frozenset({
    "initialize", "ping", "server/discover", "subscriptions/listen", "notifications/initialized",
    "notifications/cancelled", "notifications/progress",
})  # fmt: skip
"""The methods of clients that the front serves itself."""

MAX_INSTRUCTIONS: Final = 2000
"""Maximum length of each server's instructions if there are several servers, in characters."""


class FrontTools(Tools):
    """The tools of the servers for the HTTP endpoint, which asks only for their headers. No tool is registered here."""

    relay: Relay

    def parameter_headers(self, name: str) -> dict[str, tuple[str, ...]]:
        try:
            server, tool = self.relay.names.split_name(name)
        except ProtocolError:
            return {}
        return self.relay.servers[server].parameter_headers.get(tool, {})


class FrontCatalog(Catalog):
    """The catalog of the front, in which the relay serves every method but those of `NATIVE`."""

    def __init__(
        self, relay: Relay, info: Implementation, revisions: Sequence[Revision], options: ServerOptions,
        close: Callable[[], Awaitable[None]],
    ) -> None:  # fmt: skip
        super().__init__(info, revisions, options)
        self._relay, self._close_servers = relay, close
        self.announcers = relay.changes.announcers
        self.custom_methods = RelayedMethods(NATIVE, relay.serve, lambda method, params: None)
        self.middleware.append(self._wrap)
        for server in relay.servers.values():
            server.on_connected = self._describe_servers

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
        merged = ServerCapabilities()
        for client in self._latest_clients().values():
            declared = codec_for(client.revision).decode(ServerCapabilities, client.server_capabilities)
            if not client.revision.completions_are_declared and declared.prompts is not None:
                declared.completions = {}
            self._relay.tasks.declare(declared)
            for name, value in vars(declared).items():
                if value is not None:
                    setattr(merged, name, {**(getattr(merged, name) or {}), **value})
        return merged

    def _latest_clients(self) -> dict[str, BackClient]:
        """Return the latest client of each server that was ever connected, by the server's name."""
        latest = {name: server.latest_client for name, server in self._relay.servers.items()}
        return {name: client for name, client in latest.items() if client is not None}

    def _describe_servers(self) -> None:
        """Take over the name and the instructions of a single server, or the instructions of all servers."""
        clients = self._latest_clients()
        self.info_as_json.clear()
        if self._relay.names.is_plain:
            for client in clients.values():  # at most one
                self.info, self.instructions = client.server_info, client.instructions
            return
        instructions = {name: client.instructions for name, client in clients.items() if client.instructions}
        parts = [f"# {name}\n\n{text[:MAX_INSTRUCTIONS]}" for name, text in instructions.items()]
        self.instructions = "\n\n".join(parts) or None

    def _wrap(self, method: str, handler: Handler) -> Handler:
        wrappers: dict[str, Callable[..., Awaitable[object]]] = {
            "initialize": self._initialize, "server/discover": self._discover, "subscriptions/listen": self._listen,
        }  # fmt: skip
        return partial(wrappers[method], handler) if method in wrappers else handler

    async def _initialize(self, handler: Handler, params: InitializeRequestParams, context: Context) -> object:
        session = cast(ServerSession, context.channel)
        # `connect` needs these facts about the client, which a session sets only after its handler.
        session.use_revision(choose_revision(params.protocol_version, self.legacy_revisions))
        session.peer_capabilities = session.codec.encode(params.capabilities)
        session.peer_info = params.client_info
        session.logging_level = None
        self._relay.end_session(session)  # close what an earlier handshake on this transport has opened
        loop = asyncio.get_running_loop()  # the session's last requests have `FINISH_SECONDS` to finish
        session.ended.add_done_callback(lambda _: loop.call_later(FINISH_SECONDS, self._relay.end_session, session))
        await self._relay.connect(caller_of(context))
        result = await handler(params, context)
        session.custom_methods = RelayedMethods(
            NATIVE, self._relay.serve, partial(self._relay.pass_to_servers, session)
        )
        # A modern server logs nothing unless the request names a level; a legacy one chooses its level itself.
        has_modern = any(server.is_modern for server in self._relay.servers.values())
        session.logging_level = "info" if has_modern else None
        return result

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
        await super()._close_tasks()
        await self._close_servers()
