"""The relay, which serves each request of a client with a request to a server (see the folder's docstring).

Spec:  2026-07-28 basic/patterns/mrtr, basic/transports/streamable-http;
       server/utilities/logging (2024-11-05 to 2025-11-25)
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Collection
from functools import partial
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
from .back_client import BackClient, Caller, caller_of
from .backs import BackServer
from .calls import Call, SessionCall, with_prefix
from .changes import Changes
from .exchange import LISTS, exchange, exchange_on_shared_client
from .held import HeldCall, HeldCalls, ReplayedCall
from .lists import Lists
from .namespaces import Namespace
from .relayed import RelayedObject, sealed, unsealed, without_hop_meta
from .tasks import BridgeTasks


class Relay:
    """The requests of all clients of a bridge.

    Args:
        holds: False to refuse the input requests of legacy servers to modern clients.
        replayed: The tools that can run again from their start, by the names that clients see.
    """

    def __init__(
        self, servers: dict[str, BackServer], names: Namespace, held: HeldCalls, holds: bool, replayed: Collection[str]
    ) -> None:
        self.servers, self.names, self.held, self.holds, self.replayed = servers, names, held, holds, replayed
        self.changes = Changes(servers, names)
        self.lists = Lists(servers, names, held.key)
        self.tasks = BridgeTasks(next(iter(servers.values())) if names.is_plain else None, held.key)

    async def connect(self, caller: Caller) -> None:
        """Connect to all servers for a client. Raise ProtocolError if all of them fail."""
        results = await asyncio.gather(
            *(server.shared(caller) for server in self.servers.values()), return_exceptions=True
        )
        faults = [fault for fault in results if isinstance(fault, BaseException)]
        if len(faults) == len(results):
            raise faults[0]

    def end_session(self, session: ServerSession) -> None:
        """Close the subscriptions and the connections of a legacy session."""
        self.changes.end_session(session)
        for server in self.servers.values():
            server.end_session(session)

    def pass_to_servers(self, session: ServerSession, method: str, params: Object) -> None:
        """Pass on a notification of a legacy session, such as `notifications/roots/list_changed`."""
        for server in self.servers.values():
            for client in server.clients:
                if client.caller.session is session and client.is_open:
                    client.session.notify(method, RelayedObject(without_hop_meta(params)))

    async def serve(self, method: str, params: Object, context: Context) -> Object:
        """Serve a request of a client. Raise ProtocolError for an error response."""
        if method in SPECIFIED and find_method(method, context.revision, "client") is None:
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
        name, routed = self.names.route(method, params)
        server, caller = self.servers[name], caller_of(context)
        if method == "tools/call":
            await self._check_tool(server, cast(str, routed["name"]), params, context)
        if server.is_modern is None:
            await server.shared(caller)  # connects, and so sets `is_modern`
        if method == "tools/call" and await self._becomes_task(server, routed, context):
            return await self._call_as_task(server, caller, routed, context)
        if not server.is_modern and caller.session is None:
            result = await self._call_legacy_server(server, caller, method, params, routed, context)
        else:
            if caller.session is None and caller.principal is not None and routed.get("requestState") is not None:
                _, state = unsealed(self.held.key, "requestState", caller.principal, routed["requestState"], (name,))
                routed = {**routed, "requestState": state}
            call = SessionCall(context, server.losses, self.names.prefix(name))
            result = await self._send(await server.shared(caller), method, routed, call, context)
        if result.get("resultType") != "input_required":
            return self.names.result_for_client(name, self.tasks.seal(result, caller.principal))
        # a legacy server's input requests are for the client already, because held.py has made the result
        return self._input_for_client(result, name, caller) if server.is_modern else result

    async def _becomes_task(self, server: BackServer, routed: Object, context: Context) -> bool:
        """Return True if a tool call becomes a task of the bridge itself (tasks.py)."""
        if not self.tasks.are_ours(context.revision):
            return False
        if context.revision.built_in_tasks:
            return "task" in routed
        if "requestState" in routed or not declares(context.channel.peer_capabilities, TASKS_CAPABILITY):
            return False  # the retry of a call that is not a task, or a client without tasks
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
            await client.set_level(call.level if caller.session is None else None)
            params = {name: value for name, value in routed.items() if name != "task"}
            return await self._send(client, "tools/call", params, call, context)

        return await self.tasks.create(run_in_task, routed, context)

    async def _check_tool(self, server: BackServer, tool: str, params: Object, context: Context) -> None:
        """Raise ProtocolError for a tool that is not allowed, or whose arguments differ from the HTTP headers."""
        if not server.hosted.config.allows_tool(tool):
            raise ProtocolError(INVALID_PARAMS, f"Unknown tool: {tool[:200]}")
        headers = context.access.headers if context.access is not None else None
        if headers is None or not isinstance(context.channel, StatelessRequest) or tool in server.parameter_headers:
            return  # the endpoint has checked the headers of a known tool
        await self.lists.note_all_tools(server, context)
        # [2026-07-28 basic/transports/streamable-http#server-validation] a server that reads the body MUST compare
        check_parameters(headers, params.get("arguments"), server.parameter_headers.get(tool, {}))

    async def _send(self, client: BackClient, method: str, routed: Object, call: Call, context: Context) -> Object:
        """Send a request. If a tool call needs an HTTP header or a task, list the tools, and send it again.

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
            if tool in back.parameter_headers or not (needs_task or error.code == HEADER_MISMATCH):
                raise  # a list of the tools would not help
        await self.lists.note_all_tools(self.servers[back.name], context)
        return await exchange(client, method, routed, call)

    async def _call_legacy_server(
        self, server: BackServer, caller: Caller, method: str, params: Object, routed: Object, context: Context
    ) -> Object:
        """Send a modern client's request to a legacy server, or its retry's responses to the held call (held.py)."""
        state, channel = params.get("requestState"), context.channel
        assert isinstance(channel, StatelessRequest)
        digest = partial(mrtr.request_digest, method, params)  # a function, because few calls need it
        if state is not None:
            data = mrtr.verify_state(self.held.key, state, digest(), caller.principal, time.time())
            if "held" in data:
                held_call = self.held.find(data, caller.principal)
                return await held_call.resume(context, params.get("inputResponses", {}))
            # this retry runs a replayed call again, which finds the client's responses in `rounds`
            channel.rounds.read(Request(context.request_id, method, params), self.held.key, caller.principal)
        routed = {key: value for key, value in routed.items() if key not in ("requestState", "inputResponses")}
        prefix = self.names.prefix(server.name)

        async def send(call: Call) -> Object:
            async with server.leased(caller, call) as client:
                await client.set_level(call.level)  # a modern client names the level in each request
                return await self._send(client, method, routed, call, context)

        if not caller.accepts_input_requests or not self.holds:
            return await send(Call(context, server.losses, prefix))
        is_replayed = method == "tools/call" and params["name"] in self.replayed
        call_type = ReplayedCall if is_replayed else HeldCall
        call = call_type(context, server.losses, prefix, digest, caller.principal, self.held)
        return await call.run(send(call))

    def _input_for_client(self, result: Object, server: str, caller: Caller) -> Object:
        """Return a modern server's `input_required` result, with the server's name in each message to the user."""
        prefix, requests = self.names.prefix(server), result.get("inputRequests")
        if prefix and isinstance(requests, dict):
            result = {**result, "inputRequests": {key: _prefixed(each, prefix) for key, each in requests.items()}}
        state = result.get("requestState")
        if caller.principal is None or not isinstance(state, str):
            return result
        # all principals share our credentials, so the server cannot bind its state to one of them
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
        """Pass on a method of an extension. Both sides must have one era, and declare the extension if it is modern."""
        server = next(iter(self.servers.values()))  # the only one, unless refused below
        client = await server.shared(caller_of(context))
        is_common = client.revision.era == context.revision.era and self.names.is_plain
        if is_common and client.is_modern:
            extension = "extensions." + "/".join(method.split("/")[:2])  # a method begins with its extension's name
            is_common = client.server_can(extension) and declares(context.channel.peer_capabilities, extension)
        if not is_common:
            raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {method[:200]}")
        return await exchange(client, method, params, SessionCall(context, server.losses))


def _prefixed(request: JSON, prefix: str) -> JSON:
    params = request.get("params") if isinstance(request, dict) else None
    if not isinstance(request, dict) or not isinstance(params, dict):
        return request
    return {**request, "params": with_prefix(params, prefix)}
