"""The server: what it offers, and the conversations it has about it.

    server = Server("calculator")

    @server.tool()
    def add(a: int, b: int) -> int:
        "Add two numbers."
        return a + b

    server.run()

A `Server` holds what is registered and no state of any client; each client has a `ServerSession`. One server may
serve many clients at a time, over any transports.

Spec:  basic/lifecycle, server/index
Below: the pages of `server/`, each imported when a server first uses it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar, cast

from ..basic.lifecycle import (
    Implementation,
    ServerCapabilities,
    declares,
)
from ..basic.meta import RequestParams, checked_extensions
from ..codec import codec_for
from ..extensions.tasks.types import EXTENSION, SERVER_CAPABILITY, CreateTaskResult, becomes_task
from ..features.caching import hints_by_method
from ..jsonrpc.dispatcher import Limits
from ..jsonrpc.messages import Object, Request
from ..revisions import REVISIONS, Method, Revision, in_order
from ..session import Handler
from . import stateless
from .context import Context
from .main import WORKER_NAME, run_program
from .session import ServerSession

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from contextlib import AbstractAsyncContextManager
    from ssl import SSLContext
    from typing import Unpack

    from ..basic.content import Icon
    from ..extensions.tasks.receiver import Tasks
    from ..extensions.tasks.types import TaskStore
    from ..features.caching import CacheScope
    from ..features.completion import Completions, Reference
    from ..features.discover import DiscoverResult
    from ..features.invoke import Scope
    from ..features.prompts import PromptOptions, Prompts
    from ..features.resources import ResourceOptions, Resources
    from ..features.task_augmentation import TaskMetadata
    from ..features.tools import CallToolResult, RegisteredTool, ToolOptions, Tools, Work
    from ..lib.http.asgi import Application
    from ..lib.http.message import HttpLimits
    from ..transports.base import Drain, Tell, Trace, Transport
    from .http import HttpApp, HttpOptions
    from .subscriptions import Listener, Subscriptions

log = logging.getLogger(__name__)
F = TypeVar("F", bound=Callable[..., object])
T = TypeVar("T")

GRACE = 0.75
"""Seconds that requests in flight may still take when the client has closed its side."""

WORKERS = 32
"""Worker threads for plain `def` functions, at most."""

KEY_BYTES = 16
"""The least length of the key that seals what clients carry for a server."""


class Server:
    """An MCP server.

    name, version, title, description, icons, website_url: who it is. instructions: for the client's model, how to use
    it. revisions: those it speaks, also by name, in any order. logging: whether it offers log messages. page_size:
    items in one page of a list. executor: where plain `def` functions run, anything with the `submit` of
    `concurrent.futures.Executor`; give one that queues to your main thread where a host such as Blender demands it.
    task_store: keeps tasks, by default in memory.

    extensions: those that the author's own handlers speak, by name, with their settings; declared in 2026-07-28.

    cache_ttl, cache_scope: how many seconds, in 2026-07-28, a client may keep what the server says of itself and its
    lists, and whether it is "public" or "private" then: one for all, or by method, such as {"tools/list": 300.0}. What
    a resource holds has hints of its own, see `resource`.

    limits: bounds of each connection. trace: sees every frame. state_key: at least 16 random bytes, by which a server
    knows what it gave a client to carry (`requestState`); servers that answer for each other share one, by default each
    has its own.
    """

    def __init__(
        self,
        name: str,
        version: str = "0.0.0",
        *,
        title: str | None = None,
        description: str | None = None,
        icons: list[Icon] | None = None,
        website_url: str | None = None,
        instructions: str | None = None,
        revisions: Sequence[Revision | str] = REVISIONS,
        logging: bool = True,
        page_size: int = 1000,
        executor: Executor | None = None,
        limits: Limits | None = None,
        trace: Trace | None = None,
        state_key: bytes | None = None,
        extensions: Mapping[str, object] | None = None,
        cache_ttl: float | Mapping[str, float] = 0.0,
        cache_scope: CacheScope | Mapping[str, CacheScope] = "public",
        task_store: TaskStore | None = None,
    ) -> None:
        self.info = Implementation(name, version, title, description, icons, website_url)
        self.instructions = instructions
        self.revisions = in_order(revisions)
        self.limits = limits
        self.trace = trace
        self.state_key = state_key if state_key is not None else secrets.token_bytes(32)
        self.cache_hints = hints_by_method(cache_ttl, cache_scope)
        self.routes: dict[str, stateless.Route] = {}
        """What serves the methods of the stateless era, of those that were asked for."""
        self.listeners: set[Listener] = set()
        """The subscriptions that are open."""
        self._infos: dict[Revision, Object] = {}
        if not isinstance(self.state_key, bytes):
            raise TypeError("state_key is bytes, such as bytes.fromhex(...) of a setting")
        if len(self.state_key) < KEY_BYTES:
            raise ValueError(f"state_key has at least {KEY_BYTES} random bytes, not {len(self.state_key)}")
        if page_size < 1:
            raise ValueError(f"page_size is the number of items in a page, at least 1, not {page_size}")
        self._extensions = checked_extensions(extensions)
        self._logging = logging
        self._page_size = page_size
        self._executor = executor
        self._workers: Executor | None = None
        self._connections: set[ServerSession] = set()
        self.sites: set[HttpApp] = set()
        """Where it is offered over HTTP."""
        self._task_store = task_store

    # ------------------------------------------------------------------------------------- what it offers

    # A feature's page is imported, and its capability declared, once the feature is used.

    @cached_property
    def tools(self) -> Tools:
        """The tools; `@server.tool()` is the usual way to add one."""
        from ..features.tools import Tools

        changed = lambda: self._announce("notifications/tools/list_changed")  # noqa: E731
        return Tools(Context, self._page_size, changed, self._start_task)

    @cached_property
    def resources(self) -> Resources:
        """The resources and templates; `@server.resource(uri)` is the usual way to add one."""
        from ..features.resources import Resources

        return Resources(Context, self._page_size, lambda: self._announce("notifications/resources/list_changed"))

    @cached_property
    def prompts(self) -> Prompts:
        """The prompts; `@server.prompt()` is the usual way to add one."""
        from ..features.prompts import Prompts

        return Prompts(Context, self._page_size, lambda: self._announce("notifications/prompts/list_changed"))

    @cached_property
    def completions(self) -> Completions:
        """The completions; `@server.completion(target, argument)` is the usual way to add one."""
        from ..features.completion import Completions

        return Completions(Context, self._is_completable)

    @cached_property
    def tasks(self) -> Tasks:
        """The tasks that run or are kept: `@server.tool(task="optional")` is the usual way to have some."""
        from ..extensions.tasks.receiver import Tasks

        return Tasks(self._task_store, lambda id: self._tell_listeners("notifications/tasks", id))

    async def _start_task(
        self, work: Work, tool: RegisteredTool, wanted: TaskMetadata | None, scope: Scope
    ) -> CallToolResult | CreateTaskResult:
        """Call a tool that can be a task, as one or not."""
        from ..extensions.tasks.live_task import TaskChannel

        context = cast(Context, scope)
        if not becomes_task(tool.task, wanted is not None, context.revision, context.client_capabilities):
            return await work(context)
        line = TaskChannel(self.tasks, context._channel, wanted.ttl if wanted is not None else None)
        within = Context(line, context.request_id, context.meta)
        started = await self.tasks.start(line, work(within), late=tool.asks_first)
        return cast("CallToolResult | CreateTaskResult", started)

    def _offers(self, feature: str) -> bool:
        return feature in self.__dict__  # where cached_property keeps what was used

    def _is_completable(self, ref: Reference) -> bool:
        if ref.type == "ref/prompt":
            return self._offers("prompts") and self.prompts.has(ref.name)
        return self._offers("resources") and self.resources.has(ref.uri)

    def tool(self, name: str | None = None, **options: Unpack[ToolOptions]) -> Callable[[F], F]:
        """Make a function a tool. Its signature and docstring are the tool's schema and description; see
        `ToolOptions`."""
        _not_bare(name, "tool")

        def register(function: F) -> F:
            self.tools.add(function, name, **options)
            return function

        return register

    def resource(
        self,
        uri: str,
        *,
        cache_ttl: float = 0.0,
        cache_scope: CacheScope = "private",
        **options: Unpack[ResourceOptions],
    ) -> Callable[[F], F]:
        """Make a function the reader of a resource, or of all that match a template such as `users://{id}/profile`.

        See `Resources.add`.
        """
        _not_bare(uri, "resource")

        def register(function: F) -> F:
            self.resources.add(uri, function, cache_ttl=cache_ttl, cache_scope=cache_scope, **options)
            return function

        return register

    def prompt(self, name: str | None = None, **options: Unpack[PromptOptions]) -> Callable[[F], F]:
        """Make a function a prompt. Its parameters, all str, are the prompt's arguments."""
        _not_bare(name, "prompt")

        def register(function: F) -> F:
            self.prompts.add(function, name, **options)
            return function

        return register

    def completion(self, target: str, argument: str) -> Callable[[F], F]:
        """Make a function suggest values for an argument of a prompt (its name) or a resource template (its URI)."""

        def register(function: F) -> F:
            self.completions.add(target, argument, function)
            return function

        return register

    def resource_updated(self, uri: str) -> None:
        """Tell the clients that watch this resource, or one above it, that it has changed. From any thread."""
        for connection in tuple(self._connections):
            _soon(connection.loop, connection.resource_updated, uri)
        self._tell_listeners("notifications/resources/updated", uri)

    def _announce(self, method: str) -> None:
        for connection in tuple(self._connections):
            _soon(connection.loop, connection.announce, method)
        self._tell_listeners(method, None)

    def _tell_listeners(self, method: str, uri: str | None) -> None:
        for listener in tuple(self.listeners):
            if listener.wants(method, uri):
                _soon(listener.loop, listener.announce, method, uri)

    def capabilities(self) -> ServerCapabilities:
        """What this server declares: what has been used of it so far."""
        changing: Object = {"listChanged": True}
        has_tasks = self._offers("tools") and self.tools.can_be_tasks
        return ServerCapabilities(
            logging={} if self._logging else None,
            completions={} if self._offers("completions") else None,
            prompts=changing if self._offers("prompts") else None,
            resources={"subscribe": True, **changing} if self._offers("resources") else None,
            tools=changing if self._offers("tools") else None,
            tasks=SERVER_CAPABILITY if has_tasks else None,
            extensions={**self._extensions, **({EXTENSION: {}} if has_tasks else {})} or None,
        )

    def offers(self, method: Method) -> bool:
        """Whether what a method belongs to has been used, and so is declared."""
        if method.capability is None:
            return True
        return declares(codec_for(self.revisions[-1]).encode(self.capabilities()), method.capability)

    def handler(self, method: Method) -> Handler:
        """The function that serves a method, in any revision; what it belongs to is there."""
        feature, _, action = method.name.partition("/")
        match feature, action:
            case "server", "discover":
                return cast("Handler", self._discover)
            case "subscriptions", "listen":
                from .subscriptions import listen

                return cast("Handler", listen)
            case "completion", "complete":
                return cast("Handler", self.completions.complete)
            case "resources", "templates/list":
                return cast("Handler", self.resources.list_templates)
            case _:
                # tools/call is Tools.call, and so on
                return cast("Handler", getattr(getattr(self, feature), action))

    async def _discover(self, params: RequestParams, context: Context) -> DiscoverResult:
        from ..features.discover import DiscoverResult

        names = [revision.name for revision in reversed(self.revisions)]
        return DiscoverResult(names, self.capabilities(), self.instructions)

    def info_on_wire(self, revision: Revision) -> Object:
        """Who this is, as on the wire."""
        info = self._infos.get(revision)
        if info is None:
            info = self._infos[revision] = codec_for(revision).encode(self.info)
        return info

    def parameter_headers(self, tool: str) -> dict[str, tuple[str, ...]]:
        """The headers that carry arguments of a tool over HTTP, and the path to each. [2026-07-28
        basic/transports/streamable-http#custom-headers-from-tool-parameters]"""
        return self.tools.parameter_headers(tool) if self._offers("tools") else {}

    @property
    def handshakes(self) -> list[Revision]:
        """The revisions that a handshake can agree on, oldest first."""
        return [revision for revision in self.revisions if revision.era == "legacy"]

    @property
    def serves_stateless(self) -> bool:
        """Whether it speaks a revision in which each request stands alone."""
        return self.revisions[-1].era == "modern"

    # ------------------------------------------------------------------------------------- serving

    @property
    def executor(self) -> Executor:
        """Where plain `def` functions run: the caller's executor, or worker threads of our own, started when needed."""
        if self._executor is not None:
            return self._executor
        if self._workers is None:
            from concurrent.futures import ThreadPoolExecutor

            self._workers = ThreadPoolExecutor(WORKERS, WORKER_NAME)
        return self._workers

    async def serve(self, transport: Transport, *, modern: bool = True) -> None:
        """Have one conversation, until the client ends it. What is in flight then may finish within `GRACE` seconds.

        modern: whether requests of the stateless era are served too, where this server speaks it.
        """
        connection = ServerSession(self, transport, modern)
        self._connections.add(connection)
        try:
            await connection.open()
            try:
                await asyncio.shield(connection.ended)
            finally:
                await connection.farewell()
            await connection.dispatcher.finish(GRACE)
        finally:
            self._connections.discard(connection)
            await connection.close()
            await self.end_tasks()

    async def end_tasks(self) -> None:
        """Stop the tasks that run, if nobody is served any more."""
        if not self._connections and not self.sites and self._offers("tasks"):
            await self.tasks.close()

    def serve_stateless(
        self,
        request: Request,
        tell: Tell,
        drain: Drain,
        principal: str | None = None,
        subscriptions: Subscriptions | None = None,
    ) -> Coroutine[object, object, Object]:
        """Serve a request of the stateless era; gives its result. Raises ProtocolError.

        tell: sends a notification that belongs to it, by method and params. drain: waits until the client has taken
        enough of them. principal: who has sent it, where that is known. subscriptions: those that are open on whatever
        carries it.
        """
        return stateless.serve(self, request, tell, drain, principal, subscriptions)

    async def serve_stdio(self) -> None:
        """Serve the client on standard input and output, until the input ends.

        For as long as it runs, `print` goes to standard error, and reading standard input gives nothing.
        """
        from ..transports.stdio import StdioServerTransport, claimed_stdio
        from ..transports.trace import trace_from_environment

        with claimed_stdio() as (source, sink):
            await self.serve(StdioServerTransport(source, sink, trace=self.trace or trace_from_environment()))

    def serve_http(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        ssl: SSLContext | None = None,
        http_limits: HttpLimits | None = None,
        **options: Unpack[HttpOptions],
    ) -> AbstractAsyncContextManager[str]:
        """Serve over HTTP while the block runs: `async with server.serve_http(port=8000) as url: ...`

        host: the address to listen on; "" for all of them. port: 0 for any that is free; the URL has it. ssl: a
        context with a certificate, for HTTPS. http_limits: sizes, times, and how many connections. options: see
        `HttpOptions`. Raises OSError where it cannot listen.
        """
        from .http import serving

        return serving(self, host, port, ssl, http_limits, options)

    def run_http(
        self,
        host: str = "127.0.0.1",
        port: int = 8000,
        *,
        ssl: SSLContext | None = None,
        http_limits: HttpLimits | None = None,
        **options: Unpack[HttpOptions],
    ) -> None:
        """Serve over HTTP as the whole program, until SIGINT or SIGTERM. The URL is printed on standard error.

        Takes what `serve_http` takes.
        """

        async def listen() -> None:
            async with self.serve_http(host, port, ssl=ssl, http_limits=http_limits, **options) as url:
                print(f"{self.info.name}: {url}", file=sys.stderr, flush=True)
                await asyncio.Event().wait()

        run_program(listen, lambda: self._workers)

    def asgi(self, **options: Unpack[HttpOptions]) -> Application:
        """This server as an ASGI application, to be run by uvicorn and the like, or mounted in another application."""
        from ..lib.http.asgi import application
        from .http import HttpApp

        site = HttpApp(self, **options)
        return application(site.handle, site.close)

    def run(self) -> None:
        """Serve on standard input and output, as the whole program: what a server file ends with. From any thread.

        Returns when the client has closed the input, or at SIGINT or SIGTERM.
        """
        run_program(self.serve_stdio, lambda: self._workers)


def _soon(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *arguments: object) -> None:
    """Call something on its loop, from any thread."""
    with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile, and there is nobody to be told
        loop.call_soon_threadsafe(function, *arguments)


def _not_bare(argument: object, decorator: str) -> None:
    if callable(argument):
        raise TypeError(f"write @server.{decorator}(...), with parentheses")
