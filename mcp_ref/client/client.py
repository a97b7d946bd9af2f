"""`Client`, which connects to one server, and has a method for each feature of the server.

    async with Client(["python3", "server.py"]) as client:
        print((await client.call_tool("add", {"a": 1, "b": 2})).text)

A program SHOULD treat tool descriptions and results as untrusted [2025-06-18 server/tools#security-considerations],
because their text can contain instructions that mislead the model.

Spec:  basic/lifecycle; the pages of server/
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal, TypeVar, cast, overload

from ..basic.lifecycle import CapabilityError, ClientCapabilities, Implementation
from ..basic.meta import checked_extensions
from ..basic.progress import ProgressHandler
from ..extensions.tasks.types import CreateTaskResult
from ..features.caching import ResponseCache
from ..features.task_augmentation import TASKS_EXTENSION
from ..lib.fields import check_options
from ..revisions import REVISIONS, Revision, sorted_revisions
from ..session import DEFAULT_TIMEOUT
from ..version import __version__
from .connector import ConnectionState, Connector
from .negotiation import ClientOffer
from .options import ClientOptions
from .requests import ClientRequests
from .session import ClientSession
from .subscriptions import ServerNotifications, Subscription
from .target import InProcessServer, Target

if TYPE_CHECKING:
    from typing import Unpack

    from ..extensions.tasks.receiver import Tasks
    from ..extensions.tasks.requestor import RunningTask
    from ..extensions.tasks.types import Task
    from ..features.completion import Completion, Reference
    from ..features.custom_methods import CustomMethod
    from ..features.prompts import GetPromptResult, Prompt
    from ..features.resources import ReadResourceResult, Resource, ResourceTemplate
    from ..features.roots import LazyRoots, RootPaths
    from ..features.tools import CallToolResult, Tool
    from ..transports.base import Transport
    from .handlers import ClientHandlers
    from .tools import CallOptions, ToolCalls

T = TypeVar("T")


class Client(ClientRequests):
    """An MCP client for one server, to be used as an async context manager, once, and on one event loop.

    A request raises NotInRevision if the revision lacks the method, and CapabilityError if the server did not declare
    the method's capability; in both cases nothing is sent. Other failures raise RemoteError (an error response of the
    server), RequestTimeout, ConnectionClosed, or InvalidMessage (a malformed result).

    If the connection to a modern server is lost, the client repeats the requests that change nothing, such as
    `list_tools`. A tool call raises ConnectionClosed instead, and the caller has to find out whether the tool has run.

    Args:
        server: The server's command as a list, the server's URL, a `Server` object, or a transport.

    Args of methods:
        timeout: Time limit of the request (of each page, for a list), in seconds. Default: the client's `timeout`.
        meta: `_meta` of the request, such as trace context.
        on_progress: Called with progress, total and message.
    """

    def __init__(
        self, server: Sequence[str] | str | InProcessServer | Transport, **options: Unpack[ClientOptions]
    ) -> None:
        check_options(options, ClientOptions)
        revision, revisions = options.get("revision"), options.get("revisions")
        names = REVISIONS if revisions is None else revisions
        self.revisions: Sequence[Revision] = sorted_revisions(names if revision is None else [revision])
        self._info = options.get("info") or Implementation("mcp_ref", __version__)
        self._handlers: ClientHandlers | None = None
        if options.get("tasks") or any(options.get(name) is not None for name in ("sampling", "elicitation", "roots")):
            from .handlers import ClientHandlers  # lazy: many clients have no handlers

            self._handlers = ClientHandlers(options)
        target = Target(server, options, self.revisions)
        cache = options.get("cache", True)
        if not isinstance(cache, ResponseCache):
            cache = ResponseCache(max_results=None if cache else 0)
        self._notifications = ServerNotifications(options, partial(cache.invalidate, target.cache_key[0]))
        custom_methods: dict[str, CustomMethod] = {}
        make_session = partial(
            ClientSession, limits=options.get("limits"), handlers=self._handlers, cache=cache,
            cache_key=lambda: target.cache_key, on_notification=self._notifications.receive,
            custom_methods=custom_methods)  # fmt: skip
        eras = options.get("eras")
        connector = Connector(target, make_session, {} if eras is None else eras, self._notifications.end_subscriptions)
        super().__init__(connector, cache, options.get("timeout", DEFAULT_TIMEOUT), custom_methods)
        authorization = options.get("authorization")
        self.extensions = {**checked_extensions(options.get("extensions")), TASKS_EXTENSION: {}}
        self.extensions |= {} if authorization is None else authorization.extensions
        self._closing: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        state, session = self.connector.state.name, self.connector.ready_session
        return f"<Client {state}>" if session is None else f"<Client {state}: {session!r}>"  # no URL: it can be secret

    async def __aenter__(self) -> Client:
        await self.connect()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def connect(self) -> None:
        """Start the server's process or connect to its URL, and negotiate a revision. A failure closes the client.

        Raise ConnectionClosed if the server cannot be started or reached, or ends during the negotiation,
        UnsupportedRevision without a common revision, and RuntimeError if the client has connected before.
        """
        if self.connector.state is not ConnectionState.NEW:
            raise RuntimeError("a Client can connect only once: create a new Client for a new connection")
        try:
            await self.connector.connect(ClientOffer(self.revisions, self._info, self.capabilities(), self.timeout))
            await self._notifications.listen(self)
        except BaseException:
            await self.close()
            raise

    def capabilities(self) -> ClientCapabilities:
        """Return the capabilities that this client declares."""
        capabilities = self._handlers.capabilities() if self._handlers is not None else ClientCapabilities()
        capabilities.extensions = self.extensions
        return capabilities

    async def close(self) -> None:
        """Close the session, and end the server's process. Safe to call from any task, and more than once."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)  # which continues even if the caller is cancelled

    async def _close(self) -> None:
        await self.connector.stop_reconnecting()
        await self._notifications.close()
        if "_tools" in self.__dict__:  # the cached property: the program has used tools
            await self._tools.close()
        try:
            await self.connector.close()
        finally:
            if self._handlers is not None:
                await self._handlers.close()

    @property
    def tasks(self) -> Tasks:
        """The tasks that the server has created on this client. Raises CapabilityError without handlers."""
        if self._handlers is None:
            raise CapabilityError("a client has tasks only if it is created with sampling, elicitation, roots or tasks")
        return self._handlers.tasks

    @cached_property
    def _tools(self) -> ToolCalls:
        from .tools import ToolCalls  # lazy: a client that calls no tools needs no schemas

        return ToolCalls(self)

    async def list_tools(self, *, timeout: float | None = None) -> list[Tool]:
        """Return all tools. Later tool calls check their results against the listed output schemas."""
        return await self._tools.list_tools(timeout)

    @overload
    async def call_tool(
        self, name: str, arguments: Mapping[str, object] | None = None, **options: Unpack[CallOptions]
    ) -> CallToolResult: ...
    @overload
    async def call_tool(
        self, name: str, arguments: Mapping[str, object] | None = None, *, returns: type[T],
        **options: Unpack[CallOptions],
    ) -> T: ...  # fmt: skip

    async def call_tool(
        self, name: str, arguments: Mapping[str, object] | None = None, *, returns: type[object] | None = None,
        on_progress: ProgressHandler | None = None, timeout: float | None = None, max_timeout: float | None = None,
        meta: Mapping[str, object] | None = None,
    ) -> object:  # fmt: skip
        """Call the tool `name` with these `arguments`. If the server turns the call into a task, wait for its result.

        Args:
            returns: The type of the tool's data, such as a dataclass, `int` or `list[str]`.
            timeout: Time limit in seconds. If None, the client's `timeout` limits the request, but not a task.
            max_timeout: Total time limit in seconds. If it is given, each progress notification restarts `timeout`.

        Returns:
            The result, whose `is_error` is True if the tool failed. With `returns`, its data as an object of this type,
            the same in all revisions; then raises ToolError if the tool failed, InvalidMessage if the data do not fit.
        """
        result = await self._tools.call(self._tools.params(name, arguments, meta), on_progress, timeout, max_timeout)
        if isinstance(result, CreateTaskResult):
            result = await self._tools.task_result(name, result, timeout if max_timeout is None else max_timeout)
        return result if returns is None else self._tools.read(name, result, returns)

    async def start_tool(
        self, name: str, arguments: Mapping[str, object] | None = None, *, ttl: float | None = None,
        on_progress: ProgressHandler | None = None, timeout: float | None = None,
        meta: Mapping[str, object] | None = None,
    ) -> RunningTask[CallToolResult]:  # fmt: skip
        """Call the tool `name` with these `arguments` as a task. Return the task without waiting for its result.

        If the call cannot be a task, wait for the result, and return a finished task. In 2025-11-25, `ttl` is the time
        in seconds for which the server should store the task. From 2026-07-28 on, tasks report no progress.
        """
        return await self._tools.start_tool(self._tools.params(name, arguments, meta), on_progress, timeout, ttl)

    async def find_task(self, id: str, *, timeout: float | None = None) -> RunningTask[CallToolResult]:
        """Return the task with this `id`, begun by a client with the same credentials. Raise RemoteError if unknown."""
        return await self._tools.find_task(id, timeout)

    async def list_tasks(self, *, timeout: float | None = None) -> list[Task]:
        """Return the tasks of this client that the server stores (2025-11-25)."""
        return cast("list[Task]", await self.request_all_pages("tasks/list", "tasks", timeout))

    async def list_resources(self, *, timeout: float | None = None) -> list[Resource]:
        """Return all resources."""
        return cast("list[Resource]", await self.request_all_pages("resources/list", "resources", timeout))

    async def list_resource_templates(self, *, timeout: float | None = None) -> list[ResourceTemplate]:
        """Return all resource templates."""
        templates = await self.request_all_pages("resources/templates/list", "resource_templates", timeout)
        return cast("list[ResourceTemplate]", templates)

    async def read_resource(self, uri: str, *, timeout: float | None = None) -> ReadResourceResult:
        """Return the contents of the resource with this `uri`. Raise RemoteError if it does not exist."""
        return cast("ReadResourceResult", await self.request_by_name("resources/read", timeout, uri=uri))

    def subscribe(self, uri: str) -> Subscription:
        """Return a subscription to the updates of a resource, and of those whose URI is below `uri`.

        async with client.subscribe(uri) as updates:
            async for changed_uri in updates: ...
        """
        return Subscription(self, self._notifications.subscriptions, uri)

    def watch_lists(self, *lists: Literal["tools", "resources", "prompts"]) -> Subscription:
        """Return a subscription to changes of the server's `lists`. Raise ValueError if no list is given.

        async with client.watch_lists("tools", "prompts") as changes:
            async for changed_list in changes: ...
        """
        if not lists:
            raise ValueError('watch_lists needs the names of the lists, such as "tools"')
        return Subscription(self, self._notifications.subscriptions, "lists", lists)

    async def list_prompts(self, *, timeout: float | None = None) -> list[Prompt]:
        """Return all prompts."""
        return cast("list[Prompt]", await self.request_all_pages("prompts/list", "prompts", timeout))

    async def get_prompt(
        self, name: str, arguments: dict[str, str] | None = None, *, timeout: float | None = None
    ) -> GetPromptResult:
        """Return the messages of the prompt `name` with these `arguments`."""
        result = await self.request_by_name("prompts/get", timeout, name=name, arguments=arguments)
        return cast("GetPromptResult", result)

    async def complete(
        self, ref: Reference, argument: str, value: str, arguments: dict[str, str] | None = None, *,
        timeout: float | None = None,
    ) -> Completion:  # fmt: skip
        """Return suggestions for the value of an argument that the user is typing.

        Args:
            ref: The prompt or resource template of the argument.
            argument: Name of the argument.
            value: The part of the value that the user has typed.
            arguments: The values that the user has already given for other arguments, by name.
        """
        from ..features import completion  # lazy: few clients complete arguments

        context = completion.CompleteContext(arguments) if arguments is not None else None
        params = completion.CompleteRequestParams(ref, completion.CompleteArgument(argument, value), context)
        return (await self.request("completion/complete", params, completion.CompleteResult, timeout)).completion

    async def set_roots(self, roots: RootPaths | LazyRoots) -> None:
        """Replace the `roots` (`ClientOptions`), and notify the server. Raise CapabilityError without that option."""
        if self._handlers is None or self._handlers.roots is None:
            raise CapabilityError("the client did not declare roots: create it with roots=[], or with a list of roots")
        self._handlers.set_roots(roots)
        self.session.notify("notifications/roots/list_changed")
        await self.session.transport.drain()
