"""The client: starts or meets a server, and uses what it offers.

    async with Client(["python3", "server.py"]) as client:
        print((await client.call_tool("add", {"a": 1, "b": 2})).text)

What the client offers to the server in turn, it is given at construction: a model (`sampling`), a way to ask the user
(`elicitation`), directories (`roots`). Each one declares the capability.

Spec:  basic/lifecycle; the pages of server/ (what is asked) and of client/ (what is answered)
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, MutableMapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar, cast

from .. import __version__
from ..basic import lifecycle
from ..basic.headers import parameter_headers
from ..basic.lifecycle import ClientCapabilities, Implementation, declares
from ..basic.meta import (
    EmptyResult,
    NotificationParams,
    PaginatedRequestParams,
    RequestParams,
    check_meta_keys,
    checked_extensions,
)
from ..basic.patterns.progress import ProgressHandler
from ..basic.patterns.tasks import (
    CLIENT_CAPABILITY,
    EXTENSION,
    CreateTaskResult,
    Task,
    TaskMetadata,
    TaskRequestParams,
)
from ..basic.versioning import HEADER_MISMATCH
from ..jsonrpc.errors import ConnectionClosed, McpError, RemoteError
from ..jsonrpc.messages import INVALID_PARAMS, METHOD_NOT_FOUND, Object, RequestId
from ..revisions import REVISIONS, Era, Revision, in_order
from ..server.utilities.caching import ResponseCache
from .client_connection import ClientConnection
from .connection import TIMEOUT
from .opening import Greeting, Introduction, greet
from .subscribing import Stream, Subscription

if TYPE_CHECKING:
    import os

    from ..basic.transports import Trace, Transport
    from ..client.elicitation import ElicitationHandler, ElicitRequestParams, ElicitResult
    from ..client.roots import ListRootsResult, Root
    from ..client.sampling import CreateMessageRequestParams, CreateMessageResult, SamplingHandler
    from ..http.client import HttpClient
    from ..jsonrpc.dispatcher import Limits
    from ..server.prompts import GetPromptResult, Prompt
    from ..server.resources import ReadResourceResult, Resource, ResourceTemplate
    from ..server.tools import CallToolAnswer, CallToolRequestParams, CallToolResult, ResultChecker, Tool
    from ..server.utilities.completion import Completion, Reference
    from ..server.utilities.logging import LoggingLevel, LoggingMessageNotificationParams
    from .server import Server
    from .tasks import Tasks
    from .tasks_client import RunningTask

log = logging.getLogger(__name__)
T = TypeVar("T")

MAX_ELICITATIONS = 1000
"""URLs that the user was sent to and that are not known to be done; the oldest are forgotten."""

MAX_RESTARTS = 3
"""Times that a server process which ended is started anew before it has answered anything again."""

LISTEN_SECONDS = 5.0
"""Seconds that a server may take to acknowledge what the `on_…_changed` functions listen for; it is no error then."""


class Client:
    """An MCP client for one server; an async context manager, to be used once.

    server: the command that starts it, as a list; its URL; a `Server`, to be called within this program; or a
    transport. env, cwd, on_stderr: for a command; see `StdioClientTransport`. headers: for a URL, sent with every
    request, such as {"Authorization": "Bearer ..."}; http: makes the requests, with TLS and proxies as you like.
    revision: the only revision to speak; revisions: those to speak, by default all: the latest that the server speaks,
    too, is found when the connection opens. eras: keeps what was found, by server, for clients that come later; any
    mutable mapping, which may be a file's content. info: who we are.

    sampling: asks a model; sampling_tools: it can use tools. elicitation: asks the user, by form, and by URL too where
    `elicitation_url`. roots: paths, `file://` URIs or `Root`s that the server may know of.
    tasks: the server may ask the model and the user by tasks (2025-11-25). extensions: those that the host speaks, by
    name, with their settings; declared in 2026-07-28.
    on_log, on_tools_changed, on_resources_changed, on_prompts_changed, on_elicitation_complete: called, on the event
    loop, for the server's notifications; keep them short.

    timeout: seconds for each request, by default. limits: bounds of the connection. cache: keeps results for as long as
    the server allows; False: nothing is kept; or one of your own, which several clients may share. trace: sees every
    frame.

    Entering raises ConnectionClosed, within a second, where the server cannot be started or leaves at once, and
    UnsupportedRevision where there is no common revision.
    """

    def __init__(
        self,
        server: Sequence[str] | str | Server | Transport,
        *,
        revision: Revision | str | None = None,
        revisions: Sequence[Revision | str] = REVISIONS,
        eras: MutableMapping[str, Era] | None = None,
        info: Implementation | None = None,
        sampling: SamplingHandler | None = None,
        sampling_tools: bool = False,
        elicitation: ElicitationHandler | None = None,
        elicitation_url: bool = False,
        roots: Iterable[Root | str | os.PathLike[str]] | None = None,
        tasks: bool = False,
        extensions: Mapping[str, object] | None = None,
        on_log: Callable[[LoggingMessageNotificationParams], None] | None = None,
        on_tools_changed: Callable[[], None] | None = None,
        on_resources_changed: Callable[[], None] | None = None,
        on_prompts_changed: Callable[[], None] | None = None,
        on_elicitation_complete: Callable[[str], None] | None = None,
        timeout: float | None = TIMEOUT,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        on_stderr: Callable[[bytes], None] | None = None,
        headers: Mapping[str, str] | None = None,
        http: HttpClient | None = None,
        limits: Limits | None = None,
        cache: ResponseCache | bool = True,
        trace: Trace | None = None,
    ) -> None:
        self.revisions: Sequence[Revision] = in_order(revisions if revision is None else [revision])
        self.timeout = timeout
        self._eras: MutableMapping[str, Era] = {} if eras is None else eras
        self._server = server
        self._info = info or Implementation("mcp_ref", __version__)
        self._process_options = {"env": env, "cwd": cwd, "on_stderr": on_stderr}
        self._headers, self._http = headers, http
        self._limits, self._trace = limits, trace
        self._sampling, self._sampling_tools = sampling, sampling_tools
        self._elicitation, self._elicitation_url = elicitation, elicitation_url
        self._roots = _to_roots(roots) if roots is not None else None
        self._serves_tasks = tasks
        self._extensions = checked_extensions(extensions)
        self._on_log = on_log
        self._on_changed = {
            "notifications/tools/list_changed": on_tools_changed,
            "notifications/resources/list_changed": on_resources_changed,
            "notifications/prompts/list_changed": on_prompts_changed,
        }
        self._on_elicitation_complete = on_elicitation_complete
        self._open_elicitations: dict[str, None] = {}  # the oldest first
        self._connection: ClientConnection | None = None
        self._within: asyncio.Task[None] | None = None
        self._greeting: Greeting | None = None
        self.subscriptions: dict[str, list[Subscription]] = {}
        """What is watched in the earlier era, by URI."""
        self._changes: Stream | None = None
        self._checker: ResultChecker | None = None
        self.cache = (ResponseCache() if cache else None) if isinstance(cache, bool) else cache
        """What is kept of earlier results, in the stateless era."""
        self.credential = _digest(headers, env, cwd)
        """Who we are to the server, as far as what it keeps private goes."""
        self._parameters: dict[str, dict[str, tuple[str, ...]]] = {}
        self._task_support: dict[str, str] = {}  # of the tools that were listed
        self._farewells: set[asyncio.Task[None]] = set()  # to tasks that nobody waits for
        self._restarting: asyncio.Task[None] | None = None
        self._restarts = 0
        self._closing = False

    # ------------------------------------------------------------------------------------- opening and closing

    async def __aenter__(self) -> Client:
        await self.connect()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def connect(self) -> None:
        """Start or reach the server, and find out what it speaks. Whatever goes wrong, nothing is left behind."""
        if self._connection is not None:
            raise RuntimeError("a Client connects once; make a new one for a new connection")
        try:
            await self._open(self._eras.get(self.name))
            if self._is_process or isinstance(self._server, str):
                self._eras[self.name] = self.revision.era
            await self._ask_to_be_told()
        except BaseException:
            await asyncio.shield(self.close())
            raise

    async def _open(self, known: Era | None) -> None:
        ours = Introduction(self.revisions, self._info, self._capabilities())
        connection = await self._begin()
        try:
            self._greeting = await greet(connection, ours, self.timeout, known)
        except (ConnectionClosed, RemoteError) as error:
            if known == "legacy" and ours.of("modern"):
                # [2026-07-28 basic/versioning#backward-compatibility-with-initialization-based-versions] what was known
                # fails: find out anew
                again: Era | None = None
            elif self._is_process and connection.ended.done() and ours.of("legacy") and known != "legacy":
                again = "legacy"  # it ends when it is asked what it does not know
            else:
                raise
            log.debug("the server is asked in the other way: %s", error)
            await connection.close()
            self._greeting = await greet(await self._begin(), ours, self.timeout, again)

    async def _begin(self) -> ClientConnection:
        connection = self._connection = ClientConnection(self, self._make_transport(), self._limits)
        await connection.open()
        return connection

    @property
    def _is_process(self) -> bool:
        return isinstance(self._server, (list, tuple))

    @property
    def name(self) -> str:
        """What the server is known by, from one client to the next."""
        if isinstance(self._server, str):
            return self._server
        return "\0".join(self._server) if isinstance(self._server, (list, tuple)) else f"at {id(self._server)}"

    async def _ask_to_be_told(self) -> None:
        """In the stateless era, a server tells of changes, and logs, only to who asks for it."""
        from ..basic.patterns.subscriptions import SubscriptionFilter

        def is_wanted(kind: str) -> bool | None:
            function = self._on_changed[f"notifications/{kind}/list_changed"]
            return True if function is not None and self.server_can(f"{kind}.listChanged") else None

        wanted = SubscriptionFilter(is_wanted("tools"), is_wanted("prompts"), is_wanted("resources"))
        if self.revision.era == "legacy":
            return
        if self._on_log is not None:
            self.connection.log_level = "debug"
        if wanted == SubscriptionFilter():
            return

        def changed(method: str, uri: str | None) -> None:
            if (function := self._on_changed.get(method)) is not None:
                function()

        stream = Stream(self, wanted, changed, _tell_of_the_end)
        try:
            await stream.open(LISTEN_SECONDS)
            self._changes = stream
        except McpError as error:
            log.warning("the server will not tell of changes: %s", error)

    def _make_transport(self) -> Transport:
        from ..basic.transports.trace import trace_from_environment

        trace = self._trace or trace_from_environment()
        if isinstance(self._server, (list, tuple)):
            from ..basic.transports.stdio import StdioClientTransport

            return StdioClientTransport(self._server, trace=trace, **self._process_options)  # type: ignore[arg-type]
        if hasattr(self._server, "serve"):
            from ..basic.transports.memory import memory_pair

            ours, theirs = memory_pair(trace)
            self._within = asyncio.get_running_loop().create_task(cast("Server", self._server).serve(theirs))
            return ours
        if isinstance(self._server, str):
            if not self._server.startswith(("http://", "https://")):
                raise TypeError(f'give a URL, or a command as a list: ["python3", "server.py"], not {self._server!r}')
            from ..basic.transports.streamable_http_client import StreamableHttpClientTransport

            return StreamableHttpClientTransport(
                self._server, headers=self._headers, http=self._http, trace=trace, parameters=self._headers_of
            )
        return cast("Transport", self._server)

    def _capabilities(self) -> ClientCapabilities:
        form_and_url: Object = {"form": {}, "url": {}}
        return ClientCapabilities(
            roots={"listChanged": True} if self._roots is not None else None,
            sampling=({"tools": {}} if self._sampling_tools else {}) if self._sampling is not None else None,
            elicitation=(form_and_url if self._elicitation_url else {}) if self._elicitation is not None else None,
            tasks=CLIENT_CAPABILITY if self._serves_tasks else None,
            extensions={**self._extensions, EXTENSION: {}},
        )

    @cached_property
    def tasks(self) -> Tasks:
        """The tasks that the server has made us begin."""
        from .tasks import Tasks

        return Tasks()

    async def close(self) -> None:
        """End the connection, and the server if we started it. Any number of times, from any task."""
        self._closing = True
        if self._changes is not None:
            await self._changes.close()
        if self._restarting is not None:
            self._restarting.cancel()
            await asyncio.wait([self._restarting])
        if self._farewells:
            await asyncio.wait(self._farewells, timeout=1.0)
        if self._connection is not None:
            await self._connection.close()
        if "tasks" in self.__dict__:
            await self.tasks.close()
        if self._within is not None:
            await asyncio.wait([self._within], timeout=5.0)

    def lost(self, connection: ClientConnection) -> None:
        """A connection has ended: so do its subscriptions; in the stateless era, a server process is started anew."""
        for subscriptions in self.subscriptions.values():
            for subscription in subscriptions:
                subscription.end(ConnectionClosed("the server is gone"))
        if connection is not self._connection or not self._is_process or not self._may_reach_again():
            return
        if not self._is_restarting() and self._restarts < MAX_RESTARTS:
            # [2026-07-28 basic/transports/stdio#unexpected-termination] the client SHOULD restart it
            self._restarting = asyncio.get_running_loop().create_task(self._restart(connection))

    def reaches_again(self) -> bool:
        """Whether a server that was lost can be reached again, without anything that it would have to remember."""
        if not self._may_reach_again():
            return False
        is_there = self._is_restarting() or not self.connection.ended.done()
        return isinstance(self._server, str) or (self._is_process and is_there)

    def _may_reach_again(self) -> bool:
        return not self._closing and self._greeting is not None and self.revision.era == "modern"

    def _is_restarting(self) -> bool:
        return self._restarting is not None and not self._restarting.done()

    async def _restart(self, old: ClientConnection) -> None:
        """Start the server process anew, until it stays for a moment, or enough is enough."""
        while old.ended.done() and self._restarts < MAX_RESTARTS:
            self._restarts += 1
            log.warning("the server process has ended, and is started anew")
            await old.close()
            new = ClientConnection(self, self._make_transport(), self._limits)
            new.take_over(old)
            self._connection = new
            try:
                await new.open()
            except ConnectionClosed as error:
                new.lost(error)
            old = new

    async def live(self) -> ClientConnection:
        """The connection, once a server that is being started anew is there."""
        if self._restarting is not None:
            await asyncio.wait([self._restarting])
        return self.connection

    # ------------------------------------------------------------------------------------- who we talk to

    @property
    def connection(self) -> ClientConnection:
        """The connection; RuntimeError before it is open."""
        if self._connection is None or self._greeting is None:
            raise RuntimeError("not connected: use `async with Client(...) as client`")
        return self._connection

    @property
    def revision(self) -> Revision:
        """The revision that is spoken."""
        return self.connection.revision

    @property
    def server_info(self) -> Implementation:
        """Who the server says it is."""
        return self._greeted.info

    @property
    def server_capabilities(self) -> Object:
        """What the server declared, as on the wire: `{"tools": {"listChanged": True}, ...}`."""
        return self.connection.peer_capabilities

    @property
    def instructions(self) -> str | None:
        """How to use the server, for a model."""
        return self._greeted.instructions

    @property
    def _greeted(self) -> Greeting:
        _ = self.connection
        assert self._greeting is not None
        return self._greeting

    def server_can(self, capability: str) -> bool:
        """Whether the server declared a capability, such as "tools" or "resources.subscribe"."""
        return declares(self.server_capabilities, capability)

    # ------------------------------------------------------------------------------------- asking the server

    # timeout, on all of these: seconds for this request; None for the client's default.

    async def ping(self, *, timeout: float | None = None) -> None:
        """Ask whether the server still answers. The stateless era has no ping; there, the server is asked who it is."""
        method = "ping" if self.revision.era == "legacy" else "server/discover"
        if self.cache is not None:
            self.cache.forget(self.name, method)  # what is kept says nothing of now
        await self.ask(method, RequestParams(), EmptyResult, timeout)

    async def list_tools(self, *, timeout: float | None = None) -> list[Tool]:
        """All tools, page by page. From then on, results are checked against the tools' output schemas."""
        from ..server.tools import ListToolsResult, ResultChecker

        async def page(cursor: str | None) -> tuple[list[Tool], str | None]:
            result = await self.ask("tools/list", PaginatedRequestParams(cursor), ListToolsResult, timeout)
            return result.tools, result.next_cursor

        tools = self._with_good_headers(await self._all("tools/list", page))
        self._checker = self._checker or ResultChecker()
        self._checker.learn(tools)
        self._task_support = {tool.name: str((tool.execution or {}).get("taskSupport")) for tool in tools}
        return tools

    async def _all(self, method: str, page: Callable[[str | None], Awaitable[tuple[list[T], str | None]]]) -> list[T]:
        """All pages of a list."""
        from ..server.utilities.pagination import all_pages

        try:
            return await all_pages(page)
        except RemoteError as error:
            # [2026-07-28 server/utilities/caching#interaction-with-pagination] a cursor from the cache may be invalid
            # by now: SHOULD discard all cached pages
            if error.code != INVALID_PARAMS or self.cache is None or not self.cache.forget(self.name, method):
                raise
        return await all_pages(page)

    def _with_good_headers(self, tools: list[Tool]) -> list[Tool]:
        """Over HTTP, in the stateless era: learn which arguments go in headers; leave out tools that ask wrongly."""
        if not isinstance(self._server, str) or self.revision.era == "legacy":
            return tools
        good, parameters = [], {}
        for tool in tools:
            try:
                parameters[tool.name] = parameter_headers(tool.input_schema)
                good.append(tool)
            except ValueError as error:
                # [2026-07-28 basic/transports/streamable-http#schema-extension] MUST exclude it, SHOULD log a warning
                log.warning("the tool %.100r is left out: %s", tool.name, error)
        self._parameters = parameters
        return good

    def _headers_of(self, tool: str) -> dict[str, tuple[str, ...]]:
        return self._parameters.get(tool, {})

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        on_progress: ProgressHandler | None = None,
        timeout: float | None = None,
        max_timeout: float | None = None,
        meta: Mapping[str, object] | None = None,
    ) -> CallToolResult:
        """Call a tool. What went wrong inside it is in the result, see `is_error`; a refused call raises RemoteError.

        on_progress: called with progress, total and message. max_timeout: with it, each progress starts `timeout` anew,
        up to so many seconds in all. meta: `_meta` for the request, such as trace context.

        Where the server makes a task of it, that is followed to its end, for at most `timeout` seconds; by default, as
        long as the server keeps it. A call that nobody waits for any more cancels its task.
        """
        answer = await self._call(name, arguments, meta, None, on_progress, timeout, max_timeout)
        if answer.result is not None:
            result = answer.result
        else:
            from .tasks_client import give_up

            running = self._running(name, answer)
            try:
                return await running.result(max_timeout if max_timeout is not None else timeout)
            except BaseException:
                give_up(running, self._farewells)
                raise
        self._check(name, result)
        return result

    async def start_tool(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        ttl: float | None = None,
        on_progress: ProgressHandler | None = None,
        timeout: float | None = None,
        meta: Mapping[str, object] | None = None,
    ) -> RunningTask[CallToolResult]:
        """Call a tool as a task, and do not wait for it: `.status()`, `.result()`, `.cancel()` of what this gives do.

        ttl: seconds for which the server is asked to keep it, in 2025-11-25; later, it decides alone. A tool that
        cannot be a task is called as usual, and is over when this returns. timeout: for the request that begins it.
        """
        wanted: TaskMetadata | None = None
        if self.revision.tasks_are_core and self.server_can("tasks.requests.tools.call"):
            if name not in self._task_support:
                await self.list_tools(timeout=timeout)
            # [2025-11-25 basic/utilities/tasks#tool-level-negotiation] MUST NOT be tried where it is forbidden
            if self._task_support.get(name) in ("optional", "required"):
                wanted = TaskMetadata(None if ttl is None else round(ttl * 1000))
        return self._running(name, await self._call(name, arguments, meta, wanted, on_progress, timeout, None))

    async def find_task(self, id: str, *, timeout: float | None = None) -> RunningTask[CallToolResult]:
        """A task of a tool that was begun earlier, by its id: by this client, or one before it. RemoteError where there
        is none."""
        from ..server.tools import CallToolAnswer

        task = await self.ask("tasks/get", TaskRequestParams(id), Task, timeout)
        return self._running(None, CallToolAnswer(task=CreateTaskResult(task)))

    async def list_tasks(self, *, timeout: float | None = None) -> list[Task]:
        """How all of our tasks are that the server still keeps, in 2025-11-25."""
        from ..basic.patterns.tasks import ListTasksResult

        async def page(cursor: str | None) -> tuple[list[Task], str | None]:
            result = await self.ask("tasks/list", PaginatedRequestParams(cursor), ListTasksResult, timeout)
            return result.tasks, result.next_cursor

        return await self._all("tasks/list", page)

    async def _call(
        self,
        name: str,
        arguments: Mapping[str, object] | None,
        meta: Mapping[str, object] | None,
        wanted: TaskMetadata | None,
        on_progress: ProgressHandler | None,
        timeout: float | None,
        max_timeout: float | None,
    ) -> CallToolAnswer:
        """What the server answers to `tools/call`."""
        from ..server.tools import CallToolAnswer, CallToolRequestParams

        check_meta_keys(_object(meta))
        params = CallToolRequestParams(name, _object(arguments), _object(meta), wanted or self._needed_task(name))
        ids: list[RequestId] = []

        async def ask() -> CallToolAnswer:
            return await self.ask("tools/call", params, CallToolAnswer, timeout, max_timeout, on_progress, ids.append)

        try:
            answer = await ask()
        except RemoteError as error:
            if not await self._learns_better(error, params, timeout):
                raise
            answer = await ask()
        if answer.task is not None and on_progress is not None:
            self.connection.hear_progress(ids[-1], on_progress)
        return answer

    async def _learns_better(self, error: RemoteError, params: CallToolRequestParams, timeout: float | None) -> bool:
        """Whether a call that was refused can be made in another way, after a look at the list of tools."""
        if error.code == HEADER_MISMATCH and isinstance(self._server, str):
            # [2026-07-28 basic/transports/streamable-http#client-behavior] SHOULD list the tools, and try again
            before = self._headers_of(params.name)
            if self.cache is not None:
                self.cache.forget(self.name, "tools/list")
            await self.list_tools(timeout=timeout)
            return self._headers_of(params.name) != before
        if error.code == METHOD_NOT_FOUND and params.task is None and self.server_can("tasks.requests.tools.call"):
            await self.list_tools(timeout=timeout)
            params.task = self._needed_task(params.name)
            return params.task is not None
        return False

    def _needed_task(self, name: str) -> TaskMetadata | None:
        """`task` for a tool that can be called in no other way."""
        # [2025-11-25 basic/utilities/tasks#tool-level-negotiation] MUST be called as a task where that is required, and
        # MUST NOT where the server does not declare it
        needed = self.revision.tasks_are_core and self._task_support.get(name) == "required"
        return TaskMetadata() if needed and self.server_can("tasks.requests.tools.call") else None

    def _running(self, name: str | None, answer: CallToolAnswer) -> RunningTask[CallToolResult]:
        from ..server.tools import CallToolResult
        from .tasks_client import RunningTask

        task = answer.task.task if answer.task is not None else None
        if answer.result is not None:
            self._check(name, answer.result)
        return RunningTask(
            self.ask,
            self.revision,
            task,
            CallToolResult,
            answer.result,
            self.connection.answer,
            lambda result: self._check(name, result),
        )

    def _check(self, name: str | None, result: CallToolResult) -> None:
        if name is not None and self._checker is not None and self.revision.structured_results:
            self._checker.check(name, result)

    async def list_resources(self, *, timeout: float | None = None) -> list[Resource]:
        """All resources, page by page."""
        from ..server.resources import ListResourcesResult

        async def page(cursor: str | None) -> tuple[list[Resource], str | None]:
            result = await self.ask("resources/list", PaginatedRequestParams(cursor), ListResourcesResult, timeout)
            return result.resources, result.next_cursor

        return await self._all("resources/list", page)

    async def list_resource_templates(self, *, timeout: float | None = None) -> list[ResourceTemplate]:
        """All resource templates, page by page."""
        from ..server.resources import ListResourceTemplatesResult

        async def page(cursor: str | None) -> tuple[list[ResourceTemplate], str | None]:
            params = PaginatedRequestParams(cursor)
            result = await self.ask("resources/templates/list", params, ListResourceTemplatesResult, timeout)
            return result.resource_templates, result.next_cursor

        return await self._all("resources/templates/list", page)

    async def read_resource(self, uri: str, *, timeout: float | None = None) -> ReadResourceResult:
        """Read a resource. RemoteError where there is none; its code depends on the revision."""
        from ..server.resources import ReadResourceRequestParams, ReadResourceResult

        return await self.ask("resources/read", ReadResourceRequestParams(uri), ReadResourceResult, timeout)

    def subscribe(self, uri: str) -> Subscription:
        """Watch a resource: `async with client.subscribe(uri) as updates: async for changed_uri in updates: ...`"""
        return Subscription(self, uri)

    async def list_prompts(self, *, timeout: float | None = None) -> list[Prompt]:
        """All prompts, page by page."""
        from ..server.prompts import ListPromptsResult

        async def page(cursor: str | None) -> tuple[list[Prompt], str | None]:
            result = await self.ask("prompts/list", PaginatedRequestParams(cursor), ListPromptsResult, timeout)
            return result.prompts, result.next_cursor

        return await self._all("prompts/list", page)

    async def get_prompt(
        self, name: str, arguments: dict[str, str] | None = None, *, timeout: float | None = None
    ) -> GetPromptResult:
        """A prompt's messages, filled in with arguments, which are strings."""
        from ..server.prompts import GetPromptRequestParams, GetPromptResult

        return await self.ask("prompts/get", GetPromptRequestParams(name, arguments), GetPromptResult, timeout)

    async def complete(
        self,
        ref: Reference,
        argument: str,
        value: str,
        arguments: dict[str, str] | None = None,
        *,
        timeout: float | None = None,
    ) -> Completion:
        """Suggestions for an argument that is being typed. arguments: what the others are already."""
        from ..server.utilities import completion

        context = completion.CompleteContext(arguments) if arguments is not None else None
        params = completion.CompleteRequestParams(ref, completion.CompleteArgument(argument, value), context)
        return (await self.ask("completion/complete", params, completion.CompleteResult, timeout)).completion

    async def set_logging_level(self, level: LoggingLevel, *, timeout: float | None = None) -> None:
        """The least severe log messages to receive from now on.

        Until then, an earlier server decides; in the stateless era, a client with `on_log` asks for all.
        """
        from ..server.utilities.logging import SetLevelRequestParams

        if self.revision.era == "modern":
            # [2026-07-28 server/utilities/logging#per-request-log-level] each request says it
            self.connection.log_level = level
            return
        await self.ask("logging/setLevel", SetLevelRequestParams(level), EmptyResult, timeout)

    async def batch(self, *calls: Coroutine[object, object, object]) -> list[object]:
        """Send several requests in one frame, in revision 2025-03-26: `await client.batch(client.ping(), ...)`.

        Gives the results in order, with an exception in the place of each call that failed.
        """
        if self._greeting is None or not self.revision.batch:
            for call in calls:
                call.close()
        if not self.revision.batch:
            raise lifecycle.CapabilityError(f"revision {self.revision} has no batches; send the requests one by one")
        return await self.connection.dispatcher.batched(*calls)

    async def set_roots(self, roots: Iterable[Root | str | os.PathLike[str]]) -> None:
        """Change the roots, and tell the server. Only for a client that was made with roots."""
        if self._roots is None:
            raise lifecycle.CapabilityError("roots were not declared: make the client with roots=[...], empty or not")
        self._roots = _to_roots(roots)
        self.connection.notify("notifications/roots/list_changed", NotificationParams())
        await self.connection.transport.drain()

    async def ask(
        self,
        method: str,
        params: object,
        result: type[T],
        timeout: float | None,
        max_timeout: float | None = None,
        on_progress: ProgressHandler | None = None,
        began: Callable[[RequestId], None] | None = None,
    ) -> T:
        """Send any request of the protocol, and wait for its result. See `Connection.request`."""
        seconds = timeout if timeout is not None else self.timeout
        connection = await self.live()
        answer = await connection.request(
            method, params, result, timeout=seconds, max_timeout=max_timeout, on_progress=on_progress, began=began
        )
        self._restarts = 0
        return answer

    def stale(self, method: str, uri: str | None) -> None:
        """A notification says that something has changed: what was kept of it does not count any more."""
        if self.cache is not None:
            self.cache.invalidate(self.name, method, uri)

    # ------------------------------------------------------------------------------------- answering the server

    async def list_roots(self, params: RequestParams, context: object) -> ListRootsResult:
        """Serve `roots/list`."""
        from ..client.roots import ListRootsResult

        return ListRootsResult(self._roots or [])

    def check_question(self, params: object) -> None:
        """Refuse what a server may not ask of us. Raises ProtocolError."""
        from ..client import elicitation, sampling

        if isinstance(params, sampling.CreateMessageRequestParams):
            sampling.check_request(params, {"tools": {}} if self._sampling_tools else {})
        elif isinstance(params, elicitation.ElicitRequestParams):
            modes = {"form", "url"} if self._elicitation_url else {"form"}
            elicitation.check_request(params.request, modes, self.revision)

    async def create_message(self, params: CreateMessageRequestParams, context: object) -> object:
        """Serve `sampling/createMessage`."""
        self.check_question(params)
        return await self._as_task(params.task, self._sample(params))

    async def _as_task(self, wanted: TaskMetadata | None, work: Coroutine[object, object, object]) -> object:
        """Serve a request as a task, where that is wanted and we have said that we can."""
        if wanted is None or not self._serves_tasks or not self.revision.tasks_are_core:
            return await work
        from .tasks import LiveTask

        return await self.tasks.start(LiveTask(self.tasks, self.connection, wanted.ttl), work)

    async def _sample(self, params: CreateMessageRequestParams) -> CreateMessageResult:
        from ..client.sampling import CreateMessageResult

        assert self._sampling is not None
        result = await self._sampling(params)
        if not isinstance(result, CreateMessageResult):
            raise TypeError(f"the sampling handler gives a CreateMessageResult, not {type(result).__name__}")
        return result

    async def elicit(self, params: ElicitRequestParams, context: object) -> object:
        """Serve `elicitation/create`."""
        self.check_question(params)
        return await self._as_task(params.request.task, self._elicit(params))

    async def _elicit(self, params: ElicitRequestParams) -> ElicitResult:
        from ..client.elicitation import ElicitRequestURLParams, ElicitResult, complete_answer

        assert self._elicitation is not None
        if isinstance(params.request, ElicitRequestURLParams) and params.request.elicitation_id is not None:
            self.expect_elicitation(params.request.elicitation_id)
        result = await self._elicitation(params.request)
        if not isinstance(result, ElicitResult):
            raise TypeError(f"the elicitation handler gives an ElicitResult, not {type(result).__name__}")
        return complete_answer(params.request, result)

    def expect_elicitation(self, id: str) -> None:
        """Note that the user was sent to a URL, of which the server may say when it is done."""
        self._open_elicitations[id] = None
        if len(self._open_elicitations) > MAX_ELICITATIONS:
            del self._open_elicitations[next(iter(self._open_elicitations))]

    def notified(self, method: str, params: object) -> None:
        """Take one of the server's notifications."""
        from ..client.elicitation import ElicitationCompleteNotificationParams
        from ..server.resources import ResourceUpdatedNotificationParams

        self.stale(method, getattr(params, "uri", None))
        if isinstance(params, ResourceUpdatedNotificationParams):
            self._updated(params.uri)
        elif method == "notifications/message" and self._on_log is not None:
            self._on_log(cast("LoggingMessageNotificationParams", params))
        elif isinstance(params, ElicitationCompleteNotificationParams):
            # [2025-11-25 client/elicitation#completion-notifications-for-url-mode-elicitation] unknown ones: ignore
            if params.elicitation_id in self._open_elicitations:
                del self._open_elicitations[params.elicitation_id]
                if self._on_elicitation_complete is not None:
                    self._on_elicitation_complete(params.elicitation_id)
        elif (changed := self._on_changed.get(method)) is not None:
            changed()

    def _updated(self, uri: str) -> None:
        from ..server.resources import covers

        for subscribed, subscriptions in self.subscriptions.items():
            if covers(subscribed, uri):
                for subscription in subscriptions:
                    subscription.put(uri)


def _tell_of_the_end(why: McpError | None) -> None:
    log.warning("the server no longer tells of changes: %s", why or "it has ended the subscription")


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _object(members: Mapping[str, object] | None) -> Object | None:
    """A JSON object of what the caller gave. Whether JSON can hold the values shows when they are written."""
    return None if members is None else cast("Object", dict(members))


def _to_roots(roots: Iterable[Root | str | os.PathLike[str]]) -> list[Root]:
    from ..client.roots import to_roots

    return to_roots(roots)
