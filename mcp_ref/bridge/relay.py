"""The relay: it serves each request of a client in front with a request to a server.

    a list                        lists.py
    a subscription                changes.py
    a request about a task        tasks.py
    a method of an extension      unchanged, to the only server
    a tool, prompt or resource    namespaces.py finds the server; then a tool call may become a task of the bridge
                                  (tasks.py), and a modern client's call to a legacy server may have to be held
                                  (held.py). Any other call goes over a connection that it shares with other calls.

Spec:  2026-07-28 basic/patterns/mrtr, basic/transports/streamable-http;
       server/utilities/logging (2024-11-05 to 2025-11-25)
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Collection
from typing import cast

from ..basic import mrtr
from ..basic.headers import check_parameters
from ..basic.lifecycle import declares
from ..basic.versioning import HEADER_MISMATCH
from ..features.logging import LEVELS
from ..features.task_augmentation import TASKS_CAPABILITY
from ..host.approval import Refused
from ..jsonrpc.errors import ProtocolError
from ..jsonrpc.messages import INTERNAL_ERROR, INVALID_PARAMS, JSON, METHOD_NOT_FOUND, Object, Request
from ..revisions import SPECIFIED, find_method
from ..server.context import Context
from ..server.session import ServerSession
from ..server.stateless import StatelessRequest
from .back_client import BackClient
from .backs import BackServer
from .callers import Caller, caller_of
from .calls import Call, SessionCall, with_prefix
from .changes import Changes
from .exchange import LISTS, exchange, exchange_on_shared_client
from .held import HeldCall, HeldCalls, ReplayedCall
from .lists import Lists
from .namespaces import Namespace
from .relayed import RelayedObject, sealed, unsealed, without_hop_meta
from .tasks import BridgeTasks


class Relay:
    """The way of the requests of all clients of a bridge to its servers.

    Args:
        servers: The servers, by name.
        names: The names and URIs that clients see.
        held: The held calls, whose key also seals cursors, task ids and states.
        holds: False to refuse the input requests of legacy servers to modern clients.
        replayed: The tools that can run again from their start, by the names that clients see.
    """

    def __init__(
        self, servers: dict[str, BackServer], names: Namespace, held: HeldCalls, holds: bool, replayed: Collection[str]
    ) -> None:
        self.servers, self.names, self.held, self.holds, self.replayed = servers, names, held, holds, replayed
        self.changes = Changes(servers, names)
        self.lists = Lists(servers, names, held.key)
        self._first_server = next(iter(servers.values()))
        # Only a single server that keeps its names has tasks and extensions: their ids and methods name no server, and
        # nothing translates the names and URIs in their results.
        self.tasks = BridgeTasks(self._first_server if names.keeps_names else None, held.key)

    async def connect(self, caller: Caller) -> None:
        """Connect to all servers for a client. Raise ProtocolError if all of them fail."""
        results = await asyncio.gather(
            *(server.shared(caller) for server in self.servers.values()), return_exceptions=True
        )
        errors = [result for result in results if isinstance(result, BaseException)]
        if len(errors) == len(results):
            raise errors[0]

    def end_session(self, session: ServerSession) -> None:
        """Close the subscriptions and the connections of a legacy session."""
        self.changes.end_session(session)
        for server in self.servers.values():
            server.end_session(session)

    def pass_to_servers(self, session: ServerSession, method: str, params: Object) -> None:
        """Pass a notification of a legacy session, such as `notifications/roots/list_changed`, to all servers."""
        for server in self.servers.values():
            for client in server.clients:
                if client.caller.session is session and client.is_open:
                    client.session.notify(method, RelayedObject(without_hop_meta(params)))

    async def serve(self, method: str, params: Object, context: Context) -> Object:
        """Serve a request of a client. Raise ProtocolError for an error response."""
        if method in SPECIFIED and find_method(method, context.revision, "client") is None:
            # a usual server checks this before the handler, but to the front all methods are custom methods
            raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {method}")
        if method in LISTS:
            return self.tasks.with_task_support(await self.lists.serve(method, params, context), context.revision)
        if method in mrtr.MULTI_ROUND_TRIP_METHODS:
            return await self._call(method, params, context)
        if method == "logging/setLevel":
            return await self._set_level(params, context)
        if method in ("resources/subscribe", "resources/unsubscribe"):
            return await self.changes.subscribe(method, params, context)
        if method == "completion/complete":
            name, params = self.names.route(method, params)
            return await exchange_on_shared_client(self.servers[name], method, params, context)
        if method in SPECIFIED:  # a request about a task
            return await self.tasks.serve(method, params, context)
        return await self._extension(method, params, context)

    async def _call(self, method: str, params: Object, context: Context) -> Object:
        """Serve a request whose result can be `input_required`: a tool call, a prompt, or a resource."""
        server_name, routed = self.names.route(method, params)  # the params with the server's own names
        server, caller = self.servers[server_name], caller_of(context)
        if method == "tools/call":
            await self._check_tool(server, cast(str, routed["name"]), params, context)
        if server.is_modern is None:
            await server.shared(caller)  # connects, and so sets `is_modern`
        if method == "tools/call" and await self._becomes_task(server, routed, context):
            return await self._call_as_task(server, caller, routed, context)
        if server.is_modern or caller.session is not None:
            result = await self._call_on_shared_client(server, caller, method, routed, context)
        else:
            result = await self._call_legacy_server(server, caller, method, params, routed, context)
        if result.get("resultType") != "input_required":
            return self.names.result_for_client(server_name, self.tasks.seal(result, caller.principal))
        if server.is_modern:
            return self._input_for_client(result, server_name, caller)
        return result  # from held.py, which has made the input requests for this client

    async def _becomes_task(self, server: BackServer, routed: Object, context: Context) -> bool:
        """Return True if a tool call becomes a task of the bridge itself (tasks.py)."""
        if not self.tasks.are_ours(context.revision):
            return False
        if context.revision.built_in_tasks:
            return "task" in routed
        # a modern client does not ask for a task: any call can become one, unless it is the retry of one that did not
        is_retry = "requestState" in routed
        if is_retry or not declares(context.channel.peer_capabilities, TASKS_CAPABILITY):
            return False
        name = cast(str, routed["name"])
        if name not in server.parameter_headers:  # not listed yet
            await self.lists.note_all_tools(server, context)
        return server.task_support.get(name) in ("optional", "required")

    async def _call_as_task(self, server: BackServer, caller: Caller, routed: Object, context: Context) -> Object:
        """Call a tool as a task of the bridge. Such calls share a client, because input requests name their tasks."""

        async def run_in_task(task: Context) -> Object:
            passes_input_requests = caller.session is not None or self.holds
            call_type = SessionCall if passes_input_requests else Call
            call = call_type(task, server.losses, self.names.prefix(server.name))
            call.allows_task = True
            client = await server.shared(caller)
            if caller.session is None:
                await client.set_level(call.level)
            params = {name: value for name, value in routed.items() if name != "task"}
            return await self._exchange_call(client, "tools/call", params, call, context)

        return await self.tasks.create(run_in_task, routed, context)

    async def _call_on_shared_client(
        self, server: BackServer, caller: Caller, method: str, routed: Object, context: Context
    ) -> Object:
        """Send a request to a modern server, or one of a legacy session. Such calls can share a client, because their
        input requests come as results, or all go to the same session."""
        state = routed.get("requestState")
        if caller.session is None and caller.principal is not None and state is not None:
            # `_input_for_client` has sealed the server's state
            _, server_state = unsealed(self.held.key, "requestState", caller.principal, state, (server.name,))
            routed = {**routed, "requestState": server_state}
        call = SessionCall(context, server.losses, self.names.prefix(server.name))
        return await self._exchange_call(await server.shared(caller), method, routed, call, context)

    async def _check_tool(self, server: BackServer, tool: str, params: Object, context: Context) -> None:
        """Raise ProtocolError for a tool that is not allowed, or whose arguments differ from the HTTP headers."""
        if not server.hosted.config.allows_tool(tool):
            raise ProtocolError(INVALID_PARAMS, f"Unknown tool: {tool[:200]}")
        headers = context.access.headers if context.access is not None else None
        if headers is None or not isinstance(context.channel, StatelessRequest):
            return  # only modern requests over HTTP have such headers
        if tool in server.parameter_headers:
            return  # the endpoint has checked the headers of a known tool (`FrontTools`)
        await self.lists.note_all_tools(server, context)
        # [2026-07-28 basic/transports/streamable-http#server-validation] a server that reads the body MUST compare
        check_parameters(headers, params.get("arguments"), server.parameter_headers.get(tool, {}))

    async def _exchange_call(
        self, client: BackClient, method: str, routed: Object, call: Call, context: Context
    ) -> Object:
        """Send a call. If a tool needs an HTTP header or a task, of which only the list of tools tells, list the tools
        and send the call again.

        Raise ProtocolError for a tool call above a budget, or one that cannot be written to the audit log.
        """
        if method != "tools/call":
            return await exchange(client, method, routed, call)
        tool, back = cast(str, routed["name"]), client.back
        try:
            back.hosted.admit_relayed(tool, routed.get("arguments"))
        except Refused as error:
            raise ProtocolError(INTERNAL_ERROR, f"{back.name}: {error}") from None
        try:
            return await exchange(client, method, routed, call)
        except ProtocolError as error:
            needs_task = error.code == METHOD_NOT_FOUND and client.revision.built_in_tasks
            needs_header = error.code == HEADER_MISMATCH
            is_listed = tool in back.parameter_headers
            if is_listed or not (needs_task or needs_header):
                raise
        await self.lists.note_all_tools(self.servers[back.name], context)
        return await exchange(client, method, routed, call)

    async def _call_legacy_server(
        self, server: BackServer, caller: Caller, method: str, params: Object, routed: Object, context: Context
    ) -> Object:
        """Serve a modern client's request with a legacy server: send it, or give the responses of a retry to the call
        that is held for them (held.py). `params` are the client's, and `routed` those for the server."""
        state = params.get("requestState")
        if state is not None:
            digest = mrtr.request_digest(method, params)
            data = mrtr.verify_state(self.held.key, state, digest, caller.principal, time.time())
            if "held" in data:
                held_call = self.held.find(data, caller.principal)
                return await held_call.resume(context, params.get("inputResponses", {}))
            # otherwise a `ReplayedCall` has made the state, and this retry runs the call again, with the responses
            assert isinstance(context.channel, StatelessRequest)
            request = Request(context.request_id, method, params)
            context.channel.rounds.read(request, self.held.key, caller.principal)
        # the bridge has used these two, of which a legacy server knows nothing
        routed = {key: value for key, value in routed.items() if key not in ("requestState", "inputResponses")}
        prefix = self.names.prefix(server.name)

        async def send(call: Call) -> Object:
            async with server.leased(caller, call) as client:
                await client.set_level(call.level)  # a modern client names the level in each request
                return await self._exchange_call(client, method, routed, call, context)

        if not caller.accepts_input_requests or not self.holds:
            return await send(Call(context, server.losses, prefix))  # which refuses input requests
        is_replayed = method == "tools/call" and params["name"] in self.replayed
        call_type = ReplayedCall if is_replayed else HeldCall
        call = call_type(context, server.losses, prefix, method, params, caller.principal, self.held)
        return await call.run(send(call))

    def _input_for_client(self, result: Object, server: str, caller: Caller) -> Object:
        """Return a modern server's `input_required` result, with the server's name in each message to the user."""
        prefix, requests = self.names.prefix(server), result.get("inputRequests")
        if prefix and isinstance(requests, dict):
            result = {**result, "inputRequests": {key: _prefixed(each, prefix) for key, each in requests.items()}}
        state = result.get("requestState")
        if caller.principal is None or not isinstance(state, str):
            return result
        # All principals use the server with the bridge's credentials. So the server cannot bind its state to one of
        # them, as it otherwise would, and the bridge does it.
        return {**result, "requestState": sealed(self.held.key, "requestState", server, caller.principal, state)}

    async def _set_level(self, params: Object, context: Context) -> Object:
        level, caller = params.get("level"), caller_of(context)
        if not isinstance(level, str) or level not in LEVELS:
            raise ProtocolError(INVALID_PARAMS, f"Invalid params: the level must be one of {', '.join(LEVELS)}")
        context.channel.logging_level = level
        for server in self.servers.values():
            with contextlib.suppress(ProtocolError):  # a server that cannot be started logs nothing
                client = await server.shared(caller)
                await client.set_level(level)
        return {}

    async def _extension(self, method: str, params: Object, context: Context) -> Object:
        """Pass a method of an extension to the only server. Raise ProtocolError if the two sides have not both agreed
        to it: they must have one era and, in the modern era, declare the extension."""
        server = self._first_server
        client = await server.shared(caller_of(context))
        if not self.names.keeps_names or not _is_common(method, client, context):
            raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {method[:200]}")
        return await exchange(client, method, params, SessionCall(context, server.losses))


def _is_common(method: str, client: BackClient, context: Context) -> bool:
    """Return True if both sides have the extension of a method, as far as they declare extensions."""
    if client.revision.era != context.revision.era:
        return False
    if not client.is_modern:
        return True  # the legacy era does not declare extensions
    name = "/".join(method.split("/")[:2])  # a method begins with its extension's name
    capability = f"extensions.{name}"
    return client.server_can(capability) and declares(context.channel.peer_capabilities, capability)


def _prefixed(request: JSON, prefix: str) -> JSON:
    """Return an input request whose message to the user names the server with `prefix`."""
    params = request.get("params") if isinstance(request, dict) else None
    if not isinstance(request, dict) or not isinstance(params, dict):
        return request
    return {**request, "params": with_prefix(params, prefix)}
