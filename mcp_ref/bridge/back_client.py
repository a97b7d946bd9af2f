"""`BackClient`: a client of the bridge, connected to one server, which passes all messages on as JSON.

    a caller's request (`Call`)      -> `send` -> the server
    a request of the server          -> `_call_of`: which call needs this input? -> the caller (calls.py, held.py)
    progress, log messages           -> the call to which they belong -> the caller
    other notifications              -> the caller's legacy session

A caller is a client in front of the bridge. A legacy server's message does not name its call, unless that is a task, so
the bridge has to infer it. For a legacy session that is easy, because all calls are of the same user. Modern callers
that can respond to requests get a client for one call at a time (backs.py), so a request belongs to that call. A log
message is dropped, and counted, while calls of several callers are in flight.

Spec:  basic/lifecycle (2024-11-05 to 2025-11-25), 2026-07-28 basic/versioning, basic/index#statelessness
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import Any, Final, cast

from ..basic.channel import RequestContext
from ..basic.headers import parameter_headers
from ..basic.lifecycle import OPERATING, ClientCapabilities
from ..basic.mrtr import INPUT_REQUESTS, MULTI_ROUND_TRIP_METHODS
from ..basic.progress import progress_token
from ..basic.versioning import CLIENT_CAPABILITIES, LOG_LEVEL, SUBSCRIPTION_ID
from ..client.client import Client
from ..client.connector import ConnectionState
from ..client.session import MAX_FOLLOWED_TASKS, ClientSession, OnSessionEnd
from ..codec import ShapeError, codec_for
from ..features.logging import LoggingLevel
from ..features.task_augmentation import RELATED_TASK, TASKS_EXTENSION
from ..host.hosted import HostedServer
from ..jsonrpc.errors import ConnectionClosed, InvalidMessage, McpError, ProtocolError, RequestTimeout
from ..jsonrpc.messages import INTERNAL_ERROR, JSON, METHOD_NOT_FOUND, Object, RequestId
from ..revisions import SPECIFIED, find_method
from ..server.context import Context
from ..transports.base import Transport
from .callers import Caller
from .calls import Call, OutsideCall
from .conversion import Losses, converted, params_type
from .relayed import RelayedMethods, RelayedObject

log = logging.getLogger(__name__)

QUICK_REQUEST_SECONDS: Final = 60.0
"""Time limit of each request that is not a call, such as a list, in seconds. A call has the client's time limit."""

NEXT_CALL_SECONDS: Final = 30.0
"""Time that a server's request outside of a call, such as `roots/list`, waits for the next call, in seconds."""

IDLE_SECONDS: Final = 600.0
"""Time without requests after which a session's client can be closed for another session, in seconds."""

KEEP_ALIVE_SECONDS: Final = 15.0
"""Pause between the progress notifications for a server that waits for a user, in seconds."""

MAX_TOOLS: Final = 10_000
"""Maximum number of remembered tools of one server. At this number, the next page of a list replaces them all."""

_HANDLED_HERE: Final = frozenset({
    "notifications/cancelled", "notifications/subscriptions/acknowledged", "notifications/resources/updated",
    "notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed",
    "ping",
})  # fmt: skip
"""The messages of a server that the client handles itself."""


class ServerNotes:
    """The facts about one server that all clients for it share; the base class of `BackServer`. `hosted` has the
    server's configuration and its policy."""

    def __init__(self, hosted: HostedServer) -> None:
        self.hosted, self.name = hosted, hosted.config.name
        self.losses = Losses(self.name)
        self.parameter_headers: dict[str, dict[str, tuple[str, ...]]] = {}
        """The HTTP headers that mirror arguments, by the server's own name of each listed tool."""
        self.task_support: dict[str, JSON] = {}
        """The support of the tools for tasks, by the server's own names: "required" if they run only as tasks."""
        self.is_only_server = False
        """True if the bridge has only this server. Otherwise callers cannot use its tasks and extensions, whose ids
        and methods name no server. Set by `BridgeTasks`."""
        self.seal: Callable[[Object, str | None], Object] = lambda message, principal: message
        """Function that replaces the task ids in a message of the server by ids that only the principal, the caller's
        user, can use. Set by `BridgeTasks`."""

    def note_tools(self, page: Object) -> None:
        """Note the tools of a page: their HTTP headers, and their support for tasks."""
        tools = page.get("tools")
        if len(self.task_support) >= MAX_TOOLS:  # a server can rename its tools at each list
            self.parameter_headers.clear()
            self.task_support.clear()
        for tool in tools if isinstance(tools, list) else ():
            if isinstance(tool, dict) and isinstance(tool.get("name"), str):
                self._note_tool(cast(str, tool["name"]), tool)

    def _note_tool(self, name: str, tool: Object) -> None:
        self.parameter_headers.pop(name, None)
        try:
            self.parameter_headers[name] = parameter_headers(tool.get("inputSchema"))
        except ValueError as error:
            # [2026-07-28 basic/transports/streamable-http#schema-extension] we MUST exclude the tool, and SHOULD log it
            log.warning("left out the tool %.100r of %s: %s", name, self.name, error)
        execution = tool.get("execution")
        self.task_support[name] = execution.get("taskSupport") if isinstance(execution, dict) else None


class BackClient(Client):
    """A client of the bridge, which passes all messages on as JSON.

    Args:
        server: The server, as the first argument of `Client`, which also gets all `options`.
        back: The facts about the server.
        caller: The client in front for which this client is connected. Others with the same key can use it too.
    """

    def __init__(self, server: Any, *, back: ServerNotes, caller: Caller, **options: Any) -> None:
        super().__init__(server, **options)
        self.back, self.caller = back, caller
        self.key = caller.key_for_legacy_server
        """The key of the callers that can use this client. Replaced if the server turns out to be modern."""
        self.calls: list[Call] = []
        """The calls in flight to which a log message or an input request of the server can belong."""
        self.is_leased = False
        """True while a call has the client for itself."""
        self.watchers = 0
        """Number of subscriptions and awaited tasks that keep the client open."""
        self._task_tokens: dict[RequestId, RequestId] = {}  # for the progress of tasks: our token -> the caller's
        self._used_at = time.monotonic()
        self._level: str | None = None  # the log level last sent to the server
        self._call_began = asyncio.Event()  # set while there are calls
        self._early_requests: set[asyncio.Future[Object]] = set()  # those that the server has sent before a first call
        self.connector.parameter_headers = back.parameter_headers
        make_session = self.connector.make_session
        methods = RelayedMethods(_HANDLED_HERE, self._serve, self._receive)

        def make_relaying_session(on_end: OnSessionEnd, transport: Transport) -> ClientSession:
            session = make_session(on_end, transport)
            session.custom_methods = methods  # so that all other messages of the server come to `_serve` and `_receive`
            return session

        self.connector.make_session = make_relaying_session

    def capabilities(self) -> ClientCapabilities:
        """Return the caller's capabilities except `tasks`: the bridge passes on no requests for tasks on the caller."""
        wire = {name: value for name, value in self.caller.capabilities.items() if name != "tasks"}
        try:
            declared = codec_for(self.caller.revision).decode(ClientCapabilities, wire)
        except ShapeError:  # malformed capabilities count as none
            declared = ClientCapabilities()
        # a modern server lets only a client with this extension subscribe to its tasks
        declared.extensions = {**(declared.extensions or {}), TASKS_EXTENSION: {}}
        return declared

    @property
    def is_open(self) -> bool:
        return self.connector.state is ConnectionState.CONNECTED

    @property
    def is_unused(self) -> bool:
        """True if the client can be closed for another caller: nobody waits for it, and no session has used it lately.

        If that session returns, it gets a new client, whose server does not know the earlier requests.
        """
        is_recent = self.caller.session is not None and time.monotonic() - self._used_at < IDLE_SECONDS
        if not self.is_open or is_recent or self.is_leased or self.watchers:
            return False
        if self.is_modern:  # it has an open request all the time, with which it listens to changed lists
            return not self.calls
        return not self.session.dispatcher.pending

    @property
    def is_modern(self) -> bool:
        return self.revision.era == "modern"

    async def send(self, method: str, params: Object, call: Call, timeout: float | None = None) -> Object:
        """Send a request, and return the result as JSON, which can be an `input_required` result.

        Raise ProtocolError for an error of the server, and for a lost connection.
        """
        session = self.connector.ready_session or await self.connector.ready()
        is_modern = session.revision.era == "modern"
        if is_modern:
            params = {**params, "_meta": self._meta_for(call, _meta_of(params))}
        if method == "tasks/result":
            call.task_id = params.get("taskId")
        needs_input = method in MULTI_ROUND_TRIP_METHODS or method == "tasks/result"
        if not is_modern and self.caller.session is None and not needs_input:
            # A legacy server requests no input for this method. If it were in `calls` beside the call that has leased
            # this client, `_call_of` could not tell to which of the two a request belongs.
            return await self._request(session, method, params, call, timeout)
        self.calls.append(call)
        self._call_began.set()
        try:
            if self._early_requests:
                # Such a request has waited for this call, whose client can now respond. The server gets the response
                # first: `server-filesystem`, for example, fails a call that it gets before the roots.
                await asyncio.wait(self._early_requests)
            return await self._request(session, method, params, call, timeout)
        finally:
            self.calls.remove(call)
            if not self.calls:
                self._call_began.clear()

    async def _request(
        self, session: ClientSession, method: str, params: Object, call: Call, timeout: float | None
    ) -> Object:
        """Send a request, and give its progress to the call. Raise ProtocolError as `send` does."""
        sent_ids: list[RequestId] = []  # the id of the request, as soon as it is sent

        def progressed(params: object) -> None:
            call.receive("notifications/progress", cast(Object, params), self.revision)

        try:
            result = await session.dispatcher.request(
                method, params, timeout=timeout, before_send=sent_ids.append,
                on_progress=progressed if call.token is not None else None,
            )  # fmt: skip
        except RequestTimeout as error:
            raise ProtocolError(INTERNAL_ERROR, f"{self.back.name}: {error}") from None
        except (ConnectionClosed, InvalidMessage) as error:
            raise self._lost(method, params, error) from None
        finally:
            self._used_at = time.monotonic()
        if call.token is not None and "task" in result:
            token = sent_ids.pop()  # the dispatcher uses the id of a request as its progress token
            self._follow_progress_of_task(token, call.token)
        return result

    def _follow_progress_of_task(self, token: RequestId, caller_token: RequestId) -> None:
        # [2025-11-25 basic/utilities/tasks] the progress token stays valid after the response, with the task
        self._task_tokens[token] = caller_token
        if len(self._task_tokens) > MAX_FOLLOWED_TASKS:
            oldest = next(iter(self._task_tokens))
            del self._task_tokens[oldest]

    def _lost(self, method: str, params: Object, error: Exception) -> ProtocolError:
        """Return the error for a request whose response is lost or invalid."""
        is_first_round = {"inputResponses", "requestState"}.isdisjoint(params)
        effect = "; it is not known whether the tool ran"
        if not isinstance(error, ConnectionClosed):
            fault = "the response is invalid, or was cut off"
        elif error.is_unsent:
            fault = "the server could not be reached"
            if is_first_round:  # otherwise the tool has run until it required input
                effect = "; the tool did not run"
        else:
            fault = "the connection was lost"
        log.warning("%s: %s during %s: %s", self.back.name, fault, method, self.back.hosted.mask(str(error)))
        return ProtocolError(INTERNAL_ERROR, f"{self.back.name}: {fault}{effect if method == 'tools/call' else ''}")

    def _meta_for(self, call: Call, meta: Object) -> Object:
        """Return the `_meta` of a stateless request. `meta` is the `_meta` of the caller's own request. The
        capabilities are the call's and not the client's, because all callers of a principal share the client."""
        capabilities = call.capabilities
        extensions = capabilities.get("extensions")
        if call.revision is not self.revision:
            declared = codec_for(call.revision).decode(ClientCapabilities, capabilities)
            if call.allows_task:  # which the bridge awaits, so the caller need not support tasks
                declared.extensions = {TASKS_EXTENSION: {}}
            capabilities = codec_for(self.revision).encode(declared)
        elif not self.back.is_only_server and isinstance(extensions, dict):
            # callers cannot use the tasks of one server among several
            without_tasks: Object = {name: each for name, each in extensions.items() if name != TASKS_EXTENSION}
            capabilities = {**capabilities, "extensions": without_tasks}
        fields: Object = {**meta, **self.session.request_meta, CLIENT_CAPABILITIES: capabilities}
        if call.level is not None and self.server_can("logging"):
            fields[LOG_LEVEL] = call.level
        return fields

    async def set_level(self, level: str | None) -> None:
        """Set the log level of a legacy server. A modern one gets it in each request."""
        if level is not None and level != self._level and not self.is_modern and self.server_can("logging"):
            self._level = level
            with contextlib.suppress(McpError):  # `Call` drops messages below the level in any case
                await self.set_logging_level(cast(LoggingLevel, level))

    def _receive(self, method: str, params: Object) -> None:
        """Pass a notification of the server on: to the call to which it belongs, otherwise to the caller's session."""
        if method == "notifications/progress":
            return self._receive_progress(params)
        if method == "notifications/tasks":
            return self._pass_to_subscription(method, params)
        call = self._call_of(params)
        awaiting = self._call_awaiting(params.get("taskId"))
        if method == "notifications/message" and call is not None:
            call.receive(method, params, self.revision)
        elif method == "notifications/tasks/status" and awaiting is not None:
            awaiting.set_status(params.get("statusMessage"))
        else:
            self._pass_to_session(method, self._sealed(params))

    def _sealed(self, message: Object) -> Object:
        """Return a message of the server with task ids that only the caller's principal can use (tasks.py)."""
        return self.back.seal(message, self.caller.principal)

    def _receive_progress(self, params: Object) -> None:
        token = progress_token(params)
        if token is None:
            return
        pending = self.session.dispatcher.pending.get(token)
        if pending is not None and pending.on_progress is not None:
            pending.on_progress(params)  # the function `progressed` of `_request`
        elif token in self._task_tokens:  # the request has its result, but the task that it has created still runs
            self._pass_task_progress(params, self._task_tokens[token])

    def _pass_task_progress(self, params: Object, caller_token: RequestId) -> None:
        """Pass the progress of a task to the call that awaits the task, or otherwise to the caller's session."""
        call, sealed = self._call_of(params), self._sealed(params)
        if call is not None:
            call.report_progress(sealed, self.revision, caller_token)
        else:
            self._pass_to_session("notifications/progress", {**sealed, "progressToken": caller_token})

    def _pass_to_subscription(self, method: str, params: Object) -> None:
        """Pass a change of a task to the subscription that it names (`_TaskUpdates` in tasks.py)."""
        subscription = _meta_of(params).get(SUBSCRIPTION_ID)
        listener = self.session.listeners.get(subscription) if type(subscription) is int else None
        if listener is not None:
            listener(method, RelayedObject(self._sealed(params)))

    def _pass_to_session(self, method: str, params: Object) -> None:
        """Pass a notification that belongs to no call to the legacy session that owns this client. Without such a
        session, or if the session's revision lacks the notification, drop and count it."""
        session, losses = self.caller.session, self.back.losses
        if method not in SPECIFIED:  # of an extension
            if session is None or session.phase is not OPERATING or not self.back.is_only_server:
                return losses.add("a notification that no specification defines reaches no client")
        elif session is None or find_method(method, session.revision, "server") is None:
            return losses.add(f"{method} outside of a call reaches no client")
        else:
            params = converted(params, params_type(method), self.revision, session.revision, losses)
        session.notify(method, RelayedObject(params))

    def _call_awaiting(self, task_id: JSON) -> Call | None:
        """Return the call for which the bridge awaits this task, or None if that is unknown."""
        with_task = [call for call in self.calls if call.allows_task]
        calls = [call for call in with_task if call.task_id == task_id]
        if not calls:  # the task can be so new that its call does not know its id yet
            calls = [call for call in with_task if call.task_id == ""]
        return calls[0] if len(calls) == 1 else None

    def _call_of(self, params: Object) -> Call | None:
        """Return the call to which a message of the server belongs; None if that is unknown.

        A message that names a task belongs to the call that awaits the task. Any other belongs to the only call in
        flight or, in a session, to the newest one, since all calls of a session are of the same user. An older one is
        less likely: a client of 2024-10-07 may have given it up by closing its stream, as it cannot cancel.
        """
        related = _meta_of(params).get(RELATED_TASK)
        task_id = related.get("taskId") if isinstance(related, dict) else None
        calls = [call for call in self.calls if call.task_id == task_id]  # without a task, compares null with null
        if not calls and task_id is None:
            calls = self.calls  # all of them await tasks, but a server can leave the task out
        elif not calls:  # the task can be so new that its call does not know its id yet
            calls = [call for call in self.calls if call.task_id == ""]
        is_certain = len(calls) == 1 or self.caller.session is not None
        return calls[-1] if calls and is_certain else None

    async def _serve(self, method: str, params: Object, context: RequestContext) -> Object:
        """Serve a request of the server: pass it to the caller, and report progress while the caller's user thinks."""
        asking = asyncio.ensure_future(self._ask(method, params))
        if not self.calls and self.caller.session is None:
            self._early_requests.add(asking)  # `send` waits for it
            asking.add_done_callback(self._early_requests.discard)
        token = progress_token(context.meta)
        progress = 0
        try:
            while True:
                await asyncio.wait([asking], timeout=KEEP_ALIVE_SECONDS)
                if asking.cancelled():  # together with the call for which the server needs input
                    raise ProtocolError(INTERNAL_ERROR, f"{method}: the call was cancelled meanwhile")
                if asking.done():
                    return asking.result()
                progress += 1
                if token is not None:
                    wire: Object = {"progressToken": token, "progress": progress}
                    context.channel.notify("notifications/progress", RelayedObject(wire), context.request_id)
        except ProtocolError as error:
            # a plain copy, because the caller's own error is a RemoteError, which would not reach the server unchanged
            raise ProtocolError(error.code, error.message, error.data) from None
        except McpError as error:
            raise ProtocolError(METHOD_NOT_FOUND, f"{method} cannot reach the client: {error}") from None
        finally:
            asking.cancel()

    async def _ask(self, method: str, params: Object) -> Object:
        """Pass a request of the server to the caller. Return the response, or raise McpError."""
        if method not in INPUT_REQUESTS:
            raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {method[:200]}")
        call = self._call_of(params) or await self._call_outside(params)
        if call is not None:
            return await call.ask(method, self._sealed(params), self.revision)
        if method == "roots/list" and "roots" in self.caller.capabilities:
            return {"roots": []}
        raise ProtocolError(METHOD_NOT_FOUND, f"{method} came outside of a call, so no client can respond")

    async def _call_outside(self, params: Object) -> Call | None:
        """Return a call for a request that the server has sent outside of calls: in a session, a new `OutsideCall`;
        for a modern caller, which gets requests only as results of its calls, the next call."""
        session = self.caller.session
        if session is not None:
            await asyncio.shield(session.initialized)  # now its revision and its capabilities are known
            return OutsideCall(Context(session, -1, None), self.back.losses)  # no request id, no `_meta`
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(NEXT_CALL_SECONDS):
                await self._call_began.wait()
        return self._call_of(params)


def _meta_of(params: Object) -> Object:
    meta = params.get("_meta")
    return meta if isinstance(meta, dict) else {}
