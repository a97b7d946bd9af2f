"""The relay: it serves each request of a client with a request to a server.

    request of the client -> Namespace: which server? -> BackServer: which client of ours? -> conversion of the params
        -> Call: progress, log messages, input requests -> the server -> conversion of the result -> response

Spec:  2026-07-28 basic/patterns/mrtr, basic/transports/streamable-http;
       server/utilities/logging (2024-11-05 to 2025-11-25)
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from typing import cast

from ..basic import mrtr
from ..basic.headers import check_parameters
from ..basic.lifecycle import declares
from ..basic.versioning import HEADER_MISMATCH
from ..features.logging import LEVELS
from ..host.approval import Refused
from ..jsonrpc.errors import ProtocolError
from ..jsonrpc.messages import INTERNAL_ERROR, INVALID_PARAMS, JSON, METHOD_NOT_FOUND, Object, Request
from ..revisions import SPECIFIED, find_method
from ..server.context import Context
from ..server.session import ServerSession
from ..server.stateless import StatelessRequest
from .back_client import BackClient, Caller, caller_of
from .backs import BackServer
from .calls import Call, SessionCall
from .changes import Changes
from .conversion import converted, params_type
from .exchange import LIST_SECONDS, LISTS, exchange, exchange_simply
from .held import HeldCall, HeldCalls, RefusingCall, ReplayedCall
from .lists import Lists
from .namespaces import Namespace
from .relayed import RelayedObject, sealed, unsealed, without_hop_meta


class Relay:
    """The requests of all clients of a bridge.

    Args:
        servers: The servers behind the bridge, by server name.
        names: The names that clients see.
        held: The held calls.
        holds: False to refuse the input requests of legacy servers to modern clients.
        replayed: The names of the tools that can run again from their start, as clients see them.
    """

    def __init__(
        self, servers: dict[str, BackServer], names: Namespace, held: HeldCalls, holds: bool, replayed: Collection[str]
    ) -> None:
        self.servers, self.names, self.held, self.holds, self.replayed = servers, names, held, holds, replayed
        self.changes = Changes(servers, names)
        self.lists = Lists(servers, names, held.key)

    async def connect(self, caller: Caller) -> None:
        """Connect to all servers for a client. Raise ProtocolError if all of them fail."""
        found = await asyncio.gather(
            *(server.shared(caller) for server in self.servers.values()), return_exceptions=True
        )
        faults = [fault for fault in found if isinstance(fault, BaseException)]
        if len(faults) == len(found):
            raise faults[0]

    def end_session(self, session: ServerSession) -> None:
        """Close what belongs to a legacy session."""
        self.changes.end_session(session)
        for server in self.servers.values():
            server.end_session(session)

    async def serve(self, method: str, params: Object, context: Context) -> Object:
        """Serve a request of a client. Return the result. Raise ProtocolError for an error response."""
        if method in SPECIFIED and find_method(method, context.revision, "client") is None:
            raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {method}")
        if method in LISTS:
            return await self.lists.serve(method, params, context)
        if method in mrtr.INPUT_METHODS:
            return await self._call(method, params, context)
        if method == "logging/setLevel":
            return await self._set_level(params, context)
        if method in ("resources/subscribe", "resources/unsubscribe"):
            return await self.changes.subscribe(method, params, context)
        if method == "completion/complete":
            name, params = self.names.route(method, params)
            return await exchange_simply(self.servers[name], method, params, context)
        return await self._other(method, params, context)

    async def _call(self, method: str, params: Object, context: Context) -> Object:
        """Serve a request whose result can be `input_required`: a tool call, a prompt, or a resource."""
        name, own = self.names.route(method, params)
        server, caller = self.servers[name], caller_of(context)
        if method == "tools/call":
            await self._check_tool(server, own, params, context)
        if server.is_modern is None:
            await server.shared(caller)
        if not server.is_modern and caller.session is None:
            result = await self._call_for_modern_client(server, caller, method, params, own, context)
        else:
            if server.is_modern and caller.session is None:
                own = self._with_open_state(method, params, own, caller)
            call = SessionCall(context, server.losses, self.names.prefix(name))
            client = await server.shared(caller)
            _admit(server, method, own)
            result = await self._exchange_listed(client, method, own, call, context)
        if result.get("resultType") != "input_required":
            return self.names.result_for_client(name, method, self._with_sealed_tasks(result, name, caller))
        return self._with_sealed_state(method, params, result, caller) if server.is_modern else result

    async def _check_tool(self, server: BackServer, own: Object, params: Object, context: Context) -> None:
        """Raise ProtocolError for a tool that is not allowed, or whose arguments differ from the HTTP headers."""
        tool, name = own.get("name"), params.get("name")
        if isinstance(tool, str) and not server.allows(tool):
            raise ProtocolError(INVALID_PARAMS, f"Unknown tool: {tool[:200]}")
        sent = context.access.headers if context.access is not None else None
        if sent is None or not isinstance(context.channel, StatelessRequest) or name in self.lists.headers:
            return  # the endpoint has checked the headers of a known tool
        await self.lists.note_all_headers(server, context)
        # [2026-07-28 basic/transports/streamable-http#server-validation] an intermediary MUST check, or refuse
        check_parameters(sent, params.get("arguments"), self.lists.headers.get(cast(str, name), {}))

    async def _exchange_listed(
        self, client: BackClient, method: str, own: Object, call: Call, context: Context
    ) -> Object:
        """Send a request. If it needs an HTTP header or a task, list the tools, and send it again."""
        try:
            return await exchange(client, method, own, call)
        except ProtocolError as error:
            is_known = method != "tools/call" or own.get("name") in client.back.parameter_headers
            needs_task = error.code == METHOD_NOT_FOUND and client.revision.tasks_are_core
            if is_known or not (error.code == HEADER_MISMATCH or needs_task):
                raise
        await self.lists.note_all_headers(self.servers[client.back.name], context)
        return await exchange(client, method, own, call)

    async def _call_for_modern_client(
        self, server: BackServer, caller: Caller, method: str, params: Object, own: Object, context: Context
    ) -> Object:
        """Send a modern client's request to a legacy server, or give it the responses of a retry (held.py)."""
        state, channel = params.get("requestState"), context.channel
        assert isinstance(channel, StatelessRequest)
        digest = mrtr.request_digest(method, params)
        if state is not None:
            data = mrtr.verify_state(self.held.key, state, digest, caller.principal, time.time())
            if "held" in data:
                responses = params.get("inputResponses", {})
                held = self.held.find(data, caller.principal)
                return await held.resume(context, responses if isinstance(responses, dict) else {})
            channel.rounds.read(Request(context.request_id, method, params), self.held.key, caller.principal)
        own = {key: value for key, value in own.items() if key not in ("requestState", "inputResponses")}
        losses, prefix = server.losses, self.names.prefix(server.name)
        _admit(server, method, own)

        async def call_server(call: Call) -> Object:
            if not server.needs_lease(caller):
                client = await server.shared(caller)
                await self._set_level_for(client, call)
                return await self._exchange_listed(client, method, own, call, context)
            async with server.leased(caller) as client:
                if isinstance(call, HeldCall):
                    call.on_held = client.free_slot
                await self._set_level_for(client, call)
                return await self._exchange_listed(client, method, own, call, context)

        if not caller.capabilities or not self.holds:
            return await call_server(RefusingCall(context, losses, prefix))
        if method == "tools/call" and params.get("name") in self.replayed:
            replayed = ReplayedCall(context, losses, prefix)
            return await replayed.run(call_server(replayed))
        call = HeldCall(context, losses, prefix, digest, caller.principal, self.held)
        call.start(call_server(call))
        return await call.proceed()

    def _with_open_state(self, method: str, params: Object, own: Object, caller: Caller) -> Object:
        """Return the params with the state of the server, which the bridge has signed for this principal."""
        state = params.get("requestState")
        if caller.principal is None or state is None:
            return own
        digest = mrtr.request_digest(method, params)
        data = mrtr.verify_state(self.held.key, state, digest, caller.principal, time.time())
        return {**own, "requestState": data["state"]}

    def _with_sealed_state(self, method: str, params: Object, result: Object, caller: Caller) -> Object:
        """Return an `input_required` result. All principals share the credentials of the bridge, so the server cannot
        bind its state to one of them: the bridge does."""
        requests, prefix = result.get("inputRequests"), self.names.prefix(self.names.route(method, params)[0])
        if prefix and isinstance(requests, dict):
            result = {**result, "inputRequests": {key: _prefixed(each, prefix) for key, each in requests.items()}}
        if caller.principal is None or result.get("requestState") is None:
            return result
        data: Object = {"state": result["requestState"]}
        digest = mrtr.request_digest(method, params)
        return {
            **result, "requestState": mrtr.sign_state(self.held.key, data, digest, caller.principal, time.time())
        }  # fmt: skip

    async def _set_level_for(self, client: BackClient, call: Call) -> None:
        """Set the log level of a leased client, because a modern client names the level in each request."""
        if call.level is not None and call.level != client.level and client.server_can("logging"):
            client.level = call.level
            await client.send("logging/setLevel", {"level": call.level}, None, LIST_SECONDS)

    async def _set_level(self, params: Object, context: Context) -> Object:
        level, channel = params.get("level"), context.channel
        if level not in LEVELS:
            raise ProtocolError(INVALID_PARAMS, f"Invalid params: the level must be one of {', '.join(LEVELS)}")
        channel.logging_level = cast(str, level)
        caller = caller_of(context)
        for server in self.servers.values():
            try:
                client = await server.shared(caller)
            except ProtocolError:
                continue  # a server that cannot be started has no log
            if not client.is_modern and client.server_can("logging"):
                await client.send("logging/setLevel", {"level": level}, None, LIST_SECONDS)
        return {}

    async def _other(self, method: str, params: Object, context: Context) -> Object:
        """Pass on a method of tasks or of an extension. Both sides must have the same era, and the extension."""
        server = next(iter(self.servers.values()))
        client = await server.shared(caller_of(context))
        same = client.revision is context.revision if method in SPECIFIED else client.is_modern == (
            context.revision.era == "modern")  # fmt: skip
        extension = "extensions." + "/".join(method.split("/")[:2])
        if method not in SPECIFIED and client.is_modern:
            same = same and client.server_can(extension) and declares(context.channel.peer_capabilities, extension)
        if not same or not self.names.is_plain:
            raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {method[:200]}")
        caller, call = caller_of(context), SessionCall(context, server.losses)
        if caller.principal is not None and method == "tasks/list":
            # All principals share our credentials, so the server would list the tasks of all of them.
            raise ProtocolError(METHOD_NOT_FOUND, "tasks/list is not available here; keep the ids of your tasks")
        if caller.principal is not None and "taskId" in params:
            _, id = unsealed(self.held.key, "task id", caller.principal, params["taskId"])
            params = {**params, "taskId": id}
        return self._with_sealed_tasks(await exchange(client, method, params, call), server.name, caller)

    def _with_sealed_tasks(self, result: Object, server: str, caller: Caller) -> Object:
        """Return a result whose task ids are valid for this principal only, because all share our credentials."""

        def seal(task: JSON) -> JSON:
            if not isinstance(task, dict) or not isinstance(id := task.get("taskId"), str):
                return task
            return {**task, "taskId": sealed(self.held.key, "task id", server, caller.principal, id)}

        if caller.principal is None:
            return result
        changed = cast(Object, seal(result))
        if isinstance(changed.get("task"), dict):
            changed = {**changed, "task": seal(changed["task"])}
        if isinstance(tasks := changed.get("tasks"), list):
            changed = {**changed, "tasks": [seal(task) for task in tasks]}
        return changed


def _admit(server: BackServer, method: str, own: Object) -> None:
    """Raise ProtocolError for a tool call above a budget, or one that cannot be written to the audit log."""
    if method != "tools/call":
        return
    try:
        server.admit(str(own.get("name")), own.get("arguments"))
    except Refused as error:
        raise ProtocolError(INTERNAL_ERROR, f"{server.name}: {error}") from None


def _prefixed(request: JSON, prefix: str) -> JSON:
    """Return an input request whose message to the user names the server."""
    params = request.get("params") if isinstance(request, dict) else None
    if not isinstance(request, dict) or not isinstance(params, dict) or "message" not in params:
        return request
    return {**request, "params": {**params, "message": f"{prefix}{params['message']}"}}


def pass_to_servers(method: str, params: Object, session: ServerSession, servers: Collection[BackServer]) -> None:
    """Pass a notification of a legacy session on, such as `notifications/roots/list_changed`."""
    for server in servers:
        for client in server.clients:
            if client.caller.session is session and client.is_open:
                client.session.notify(method, RelayedObject(without_hop_meta(params)))


def pass_to_client(client: BackClient, method: str, params: Object) -> None:
    """Pass a notification that belongs to no call on to the legacy session that owns a client."""
    session, back = client.caller.session, client.back
    if session is None or (method in SPECIFIED and find_method(method, session.revision, "server") is None):
        return back.losses.add(f"{method} outside of a call reaches no client")
    wire = params
    if method in SPECIFIED:
        wire = converted(params, params_type(method), client.revision, session.revision, back.losses)
    session.notify(method, RelayedObject(wire))
