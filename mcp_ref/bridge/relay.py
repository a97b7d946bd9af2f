"""The relay: it serves each request of a client with a request to a server.

    request of the client -> Namespace: which server? -> BackServer: which client of ours? -> conversion of the params
        -> Call: progress, log messages, input requests -> the server -> conversion of the result -> response

Lists of several servers come in the order of the configuration, one page of one server at a time. A cursor names its
server, and is sealed (relayed.py). A server that is away contributes its last known page.

Spec:  2026-07-28 server/utilities/pagination, basic/patterns/mrtr, basic/transports/streamable-http;
       server/utilities/logging (2024-11-05 to 2025-11-25)
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection
from typing import Final, cast

from ..basic import mrtr
from ..basic.headers import check_parameters, parameter_headers
from ..basic.lifecycle import declares
from ..basic.versioning import HEADER_MISMATCH
from ..codec import codec_for
from ..features.logging import LEVELS
from ..host.supervisor import MAX_PAGES
from ..jsonrpc.errors import ProtocolError
from ..jsonrpc.messages import INVALID_PARAMS, JSON, METHOD_NOT_FOUND, Object, Request
from ..revisions import SPECIFIED, find_method
from ..server.context import Context
from ..server.session import ServerSession
from ..server.stateless import StatelessRequest
from .backs import BackClient, BackServer, Caller, caller_of
from .calls import Call, SessionCall, complete_call
from .changes import Changes
from .conversion import convert_error, convert_params, convert_result, converted, params_type, result_type
from .held import HeldCall, HeldCalls, RefusingCall, ReplayedCall
from .namespaces import Namespace
from .relayed import RelayedObject, sealed, unsealed, without_hop_meta

log = logging.getLogger(__name__)

LISTS: Final = {
    "tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}  # fmt: skip
"""The list methods, and the members of their results."""

MAX_LAST_PAGES: Final = 256
"""Maximum number of pages that the bridge keeps for servers that are away."""

LIST_SECONDS: Final = 60.0
"""Time limit of each request that is not a call, in seconds. A call has the time limit of the client."""


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
        self.headers: dict[str, dict[str, tuple[str, ...]]] = {}
        """The HTTP headers that mirror arguments, by the name of the tool that clients see."""
        self._last_pages: dict[tuple[str, str, str | None], Object] = {}

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
            return await self._list(method, params, context)
        if method in mrtr.INPUT_METHODS:
            return await self._call(method, params, context)
        if method == "logging/setLevel":
            return await self._set_level(params, context)
        if method in ("resources/subscribe", "resources/unsubscribe"):
            return await self.changes.subscribe(method, params, context)
        if method == "completion/complete":
            name, params = self.names.route(method, params)
            return await self._exchange_simply(self.servers[name], method, params, context)
        return await self._other(method, params, context)

    # ------------------------------------------------------------------------------------------------ one exchange

    async def _exchange_simply(self, server: BackServer, method: str, params: Object, context: Context) -> Object:
        client = await server.shared(caller_of(context))
        return await self.exchange(client, method, params, SessionCall(context, server.losses), LIST_SECONDS)

    async def exchange(
        self, client: BackClient, method: str, params: Object, call: Call, timeout: float | None = None
    ) -> Object:
        """Send a request to a server, and return the result, both converted. Raise ProtocolError for its error."""
        front, back = call.revision, client.revision
        if method in SPECIFIED and find_method(method, back, "client") is None:
            raise ProtocolError(METHOD_NOT_FOUND, f"{method} does not exist in {back}, the revision of the server")
        wire = convert_params(method, params, front, back, call.losses) if method in SPECIFIED else params
        try:
            if front.era == "legacy" and back.era == "modern" and method in mrtr.INPUT_METHODS:

                async def send(params: Object) -> Object:
                    return await client.send(method, params, call, timeout)

                result = await complete_call(call, wire, send, back)
            elif method == "tools/call" and not front.tasks_are_core and wire["name"] in client.back.task_tools:
                # [2025-11-25 basic/utilities/tasks#tool-level-negotiation] MUST request a task, if the tool requires it
                created = await client.send(method, {**wire, "task": {}}, call, timeout)
                id = cast(Object, created["task"])["taskId"]
                result = await client.send("tasks/result", {"taskId": id}, call, timeout)
            else:
                result = await client.send(method, wire, call, timeout)
        except ProtocolError as error:
            raise convert_error(error, method, back, front) from None
        finally:
            call.end()
        if result.get("resultType") == "input_required" or method not in SPECIFIED:
            return result
        if method == "tools/list" and back.tasks_are_core:
            client.back.note_task_tools(result)
        shown = convert_result(method, result, back, front, call.losses)
        if method in LISTS and result.get("nextCursor") is not None:
            shown["nextCursor"] = result["nextCursor"]  # also for a client without pages, which gets all of them
        return shown

    # ------------------------------------------------------------------------------------------------ lists

    async def _list(self, method: str, params: Object, context: Context) -> Object:
        """Return one page of one server; for a revision without pages, all pages of all servers."""
        caller, names = caller_of(context), list(self.servers)
        server, cursor = names[0], params.get("cursor")
        if cursor is not None and self._seals(caller):
            server, cursor = unsealed(self.held.key, "cursor", caller.principal, cursor)
            cursor = cursor or None
        page = await self._page(method, server, cursor, params, context)
        if context.revision.pagination:
            return self._with_cursor(page, server, caller)
        member = LISTS[method]
        items = list(cast("list[JSON]", page.get(member, [])))
        for _ in range(MAX_PAGES):
            server, cursor = self._following(page, server)
            if not server:
                break
            page = await self._page(method, server, cursor, params, context)
            items += cast("list[JSON]", page.get(member, []))
        page = {name: value for name, value in page.items() if name != "nextCursor"}
        return {**page, member: items}

    def _seals(self, caller: Caller) -> bool:
        return not self.names.is_plain or caller.principal is not None

    def _following(self, page: Object, server: str) -> tuple[str, JSON]:
        """Return the server and the cursor of the next page, or ("", None) after the last page."""
        if page.get("nextCursor") is not None:
            return server, page["nextCursor"]
        names = list(self.servers)
        after = names.index(server) + 1
        return (names[after], None) if after < len(names) else ("", None)

    def _with_cursor(self, page: Object, server: str, caller: Caller) -> Object:
        if not self._seals(caller):
            return page
        following, cursor = self._following(page, server)
        page = {name: value for name, value in page.items() if name != "nextCursor"}
        if following:
            text = cursor if isinstance(cursor, str) else ""
            page["nextCursor"] = sealed(self.held.key, "cursor", following, caller.principal, text)
        return page

    async def _page(self, method: str, name: str, cursor: JSON, params: Object, context: Context) -> Object:
        """Return a page of one server, with the names that clients see."""
        server, caller = self.servers[name], caller_of(context)
        own: Object = {key: value for key, value in params.items() if key != "cursor"}
        if cursor is not None:
            own["cursor"] = cursor
        if self.names.is_plain:
            return self._noted(server, await self._exchange_simply(server, method, own, context))
        last = name, method, caller.principal
        try:
            await server.shared(caller)
            if not server.offers(method.partition("/")[0]):
                return codec_for(context.revision).encode(result_type(method)([]))
            page = self._noted(server, await self._exchange_simply(server, method, own, context))
        except ProtocolError as error:
            log.warning("%s is not in the list: %s", name, error)
            return self._last_pages.get(last) or codec_for(context.revision).encode(result_type(method)([]))
        self._last_pages[last] = page
        if len(self._last_pages) > MAX_LAST_PAGES:
            del self._last_pages[next(iter(self._last_pages))]
        return page

    def _noted(self, server: BackServer, page: Object) -> Object:
        """Note the HTTP headers of the listed tools, and leave out the tools that are not allowed."""
        tools = page.get("tools")
        if not isinstance(tools, list):
            return self.names.result_for_client(server.name, "", page)
        kept: list[JSON] = []
        for tool in tools:
            own = tool.get("name") if isinstance(tool, dict) else None
            if not isinstance(own, str) or not server.allows(own):
                continue
            try:
                server.parameter_headers[own] = parameter_headers(cast(Object, tool).get("inputSchema"))
            except ValueError as error:
                # [2026-07-28 basic/transports/streamable-http#schema-extension] MUST exclude the tool, SHOULD log
                log.warning("left out the tool %.100r of %s: %s", own, server.name, error)
                continue
            kept.append(tool)
        shown = self.names.result_for_client(server.name, "", {**page, "tools": kept})
        for before, after in zip(kept, cast("list[JSON]", shown["tools"]), strict=True):
            own_name, name = cast(Object, before)["name"], cast(Object, after)["name"]
            self.headers[cast(str, name)] = server.parameter_headers[cast(str, own_name)]
        return shown

    async def _note_all_headers(self, server: BackServer, context: Context) -> None:
        """List the tools of a server, because their headers are needed for a call."""
        params: Object = {}
        for _ in range(MAX_PAGES):
            page = self._noted(server, await self._exchange_simply(server, "tools/list", params, context))
            if page.get("nextCursor") is None:
                return
            params = {"cursor": page["nextCursor"]}

    # ------------------------------------------------------------------------------------------------ calls

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
        if sent is None or not isinstance(context.channel, StatelessRequest) or name in self.headers:
            return  # the endpoint has checked the headers of a known tool
        await self._note_all_headers(server, context)
        # [2026-07-28 basic/transports/streamable-http#server-validation] an intermediary MUST check, or refuse
        check_parameters(sent, params.get("arguments"), self.headers.get(cast(str, name), {}))

    async def _exchange_listed(
        self, client: BackClient, method: str, own: Object, call: Call, context: Context
    ) -> Object:
        """Send a request. If it needs an HTTP header or a task, list the tools, and send it again."""
        try:
            return await self.exchange(client, method, own, call)
        except ProtocolError as error:
            is_known = method != "tools/call" or own.get("name") in client.back.parameter_headers
            needs_task = error.code == METHOD_NOT_FOUND and client.revision.tasks_are_core
            if is_known or not (error.code == HEADER_MISMATCH or needs_task):
                raise
        await self._note_all_headers(client.back, context)
        return await self.exchange(client, method, own, call)

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

    # ------------------------------------------------------------------------------------------------ other methods

    async def _set_level(self, params: Object, context: Context) -> Object:
        level, channel = params.get("level"), context.channel
        if level not in LEVELS:
            raise ProtocolError(INVALID_PARAMS, f"Invalid params: the level must be one of {', '.join(LEVELS)}")
        channel.logging_level = cast(str, level)
        caller = caller_of(context)
        for server in self.servers.values():
            client = await server.shared(caller)
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
        if caller.principal is not None and "taskId" in params:
            _, id = unsealed(self.held.key, "task id", caller.principal, params["taskId"])
            params = {**params, "taskId": id}
        return self._with_sealed_tasks(await self.exchange(client, method, params, call), server.name, caller)

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
            if client.caller.session is session and not client.is_modern:
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
