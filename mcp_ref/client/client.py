"""`Client`: it connects to one server, and has a method for each feature of the server.

    async with Client(["python3", "server.py"]) as client:
        print((await client.call_tool("add", {"a": 1, "b": 2})).text)

A program can also let the server use a model (`sampling`), ask the user (`elicitation`), and see directories (`roots`).
For each of these the client declares a capability. Tool descriptions and results SHOULD be treated as untrusted
[2025-06-18 server/tools#security-considerations], because their text can contain instructions that mislead the model.

Spec:  basic/lifecycle; the pages of server/ (the methods) and of client/ (the handlers)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal, TypeVar, cast, overload

from ..basic.lifecycle import CapabilityError, ClientCapabilities, Implementation
from ..basic.meta import checked_extensions
from ..basic.progress import ProgressHandler
from ..features.caching import ResponseCache
from ..features.task_augmentation import EXTENSION
from ..revisions import REVISIONS, Era, Revision, sorted_revisions
from ..session import DEFAULT_TIMEOUT
from ..version import __version__
from .connector import ConnectionState, Connector
from .negotiation import ClientIdentity
from .requests import ClientRequests
from .session import ClientSession
from .subscriptions import ServerNotifications, Subscription
from .target import InProcessServer, Target

if TYPE_CHECKING:
    import os
    from typing import Unpack

    from ..basic.authorization.client import Authorizer
    from ..extensions.tasks.receiver import Tasks
    from ..extensions.tasks.requestor import RunningTask
    from ..extensions.tasks.types import Task
    from ..features.completion import Completion, Reference
    from ..features.custom_methods import CustomMethod
    from ..features.elicitation import ElicitationHandler
    from ..features.logging import LoggingMessageNotificationParams
    from ..features.prompts import GetPromptResult, Prompt
    from ..features.resources import ReadResourceResult, Resource, ResourceTemplate
    from ..features.sampling import SamplingHandler
    from ..features.tools import CallToolResult, Tool
    from ..jsonrpc.dispatcher import Limits
    from ..lib.http.client import HttpClient
    from ..transports.base import Trace, Transport
    from .handlers import ClientHandlers, LazyRoots, RootPaths
    from .tools import CallOptions, ToolCalls


T = TypeVar("T")


class Client(ClientRequests):
    """An MCP client for one server. Use it as an async context manager. A client connects only once.

    A request raises NotInRevision if the revision lacks the method, and CapabilityError if the server did not declare
    the method's capability. In both cases the client sends nothing. Other failures raise RemoteError (an error response
    of the server), RequestTimeout, ConnectionClosed, or InvalidMessage (a malformed result).

    If the connection to a modern server is lost, the client repeats the requests that change nothing, such as
    `list_tools`. A tool call raises ConnectionClosed, and the caller must find out if the tool has run.

    Args:
        server: The server's command as a list, the server's URL, a `Server` object, or a transport.
        revision: The only revision to speak. Default: the latest revision that client and server both speak.
        revisions: The revisions to speak. Defaults to all six.
        eras: A mapping in which the client stores the server's era, so that later clients connect faster.
        info: The client's name and version, which the server gets.
        sampling: Async function that returns a message from a model. If given, the client declares `sampling`.
        sampling_tools: True if the `sampling` function can give tools to the model.
        elicitation: Async function that shows the user a form. If given, the client declares `elicitation`.
        elicitation_url: True if the `elicitation` function can also ask the user to visit a URL.
        roots: Paths, `file://` URIs or `Root`s that the server can use. Even an empty list declares `roots`. Or
            a function, also an async one, that returns the roots for each request of the server.
        tasks: True if `sampling` and `elicitation` can run as tasks: the server fetches the result later (2025-11-25).
        extensions: The extensions that the program implements: a mapping from name to settings (2026-07-28).
        on_log: Called for each log message of the server. All callbacks block the event loop, so keep them short.
        on_tools_changed: Called when the server's list of tools has changed.
        on_resources_changed: Called when the server's list of resources has changed.
        on_prompts_changed: Called when the server's list of prompts has changed.
        on_elicitation_complete: Called with the elicitation's id when the server reports the end of a visit to a URL.
        timeout: Default time limit of each request, in seconds. None means no limit.
        env: More environment variables for a command. The command gets only these and a few safe ones such as PATH.
            None removes a variable.
        cwd: Working directory of a command.
        on_stderr: Called with the bytes of a command's standard error. By default, only errors quote its last lines.
        headers: HTTP headers of every request to a URL, such as {"Authorization": "Bearer ..."}.
        authorization: The way to get tokens for a protected URL, such as `AuthorizationCode()`.
        http: HTTP client for a URL, with TLS settings, proxy and limits. `Client.close` closes this HTTP client too.
        limits: Limits of the session, such as the maximum number of open requests.
        cache: True for the client's own cache, False for no cache, or a `ResponseCache` to share with other clients.
        trace: Called with the direction and the bytes of each message.

    Raises:
        TypeError: `server` is unusable, such as an empty command, or a text that is not a URL.
        ValueError: The URL or a header is invalid, or another argument is unusable.
    """

    def __init__(
        self, server: Sequence[str] | str | InProcessServer | Transport, *,
        revision: Revision | str | None = None, revisions: Sequence[Revision | str] | None = None,
        eras: MutableMapping[str, Era] | None = None, info: Implementation | None = None,
        sampling: SamplingHandler | None = None, sampling_tools: bool = False,
        elicitation: ElicitationHandler | None = None, elicitation_url: bool = False,
        roots: RootPaths | LazyRoots | None = None, tasks: bool = False,
        extensions: Mapping[str, object] | None = None,
        on_log: Callable[[LoggingMessageNotificationParams], None] | None = None,
        on_tools_changed: Callable[[], None] | None = None, on_resources_changed: Callable[[], None] | None = None,
        on_prompts_changed: Callable[[], None] | None = None,
        on_elicitation_complete: Callable[[str], None] | None = None, timeout: float | None = DEFAULT_TIMEOUT,
        env: Mapping[str, str | None] | None = None, cwd: str | os.PathLike[str] | None = None,
        on_stderr: Callable[[bytes], None] | None = None,
        headers: Mapping[str, str] | None = None, authorization: Authorizer | None = None,
        http: HttpClient | None = None, limits: Limits | None = None, cache: ResponseCache | bool = True,
        trace: Trace | None = None,
    ) -> None:  # fmt: skip
        names = [revision] if revision is not None else REVISIONS if revisions is None else revisions
        self.revisions: Sequence[Revision] = sorted_revisions(names)
        self._info = info or Implementation("mcp_ref", __version__)
        self._handlers: ClientHandlers | None = None
        if sampling is not None or elicitation is not None or roots is not None or tasks:
            from .handlers import ClientHandlers  # lazy: many clients have no handlers

            self._handlers = ClientHandlers(
                sampling, sampling_tools, elicitation, elicitation_url, roots, tasks, on_elicitation_complete
            )
        target = Target(server, env, cwd, on_stderr, headers, http, trace, authorization, self.revisions)
        results = cache if isinstance(cache, ResponseCache) else ResponseCache(max_results=None if cache else 0)
        on_changed = {"tools": on_tools_changed, "resources": on_resources_changed, "prompts": on_prompts_changed}
        invalidate = partial(results.invalidate, target.cache_key[0])
        self._notifications = ServerNotifications(on_log, on_changed, invalidate)
        custom_methods: dict[str, CustomMethod] = {}
        make_session = partial(
            ClientSession, limits, self._handlers, results, lambda: target.cache_key, self._notifications.receive,
            custom_methods)  # fmt: skip
        known_eras = {} if eras is None else eras
        connector = Connector(target, make_session, known_eras, self._notifications.end_subscriptions)
        super().__init__(connector, results, timeout, custom_methods)
        self.extensions = {**checked_extensions(extensions), EXTENSION: {}}
        self.extensions |= {} if authorization is None else authorization.extensions
        self._closing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Client:
        await self.connect()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def connect(self) -> None:
        """Start the server's process or connect to its URL, and negotiate a revision. If this fails, close the client.

        Raises:
            ConnectionClosed: If the server cannot be started or reached, or ends during the negotiation.
            UnsupportedRevision: If client and server have no revision in common.
            RuntimeError: If the client has connected before.
        """
        if self.connector.state is not ConnectionState.NEW:
            raise RuntimeError("a Client can connect only once: create a new Client for a new connection")
        capabilities = self._handlers.capabilities() if self._handlers is not None else ClientCapabilities()
        capabilities.extensions = self.extensions
        try:
            await self.connector.connect(ClientIdentity(self.revisions, self._info, capabilities), self.timeout)
            await self._notifications.listen(self)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close the session, and end the server's process. Any asyncio task can call this, also repeatedly."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)  # closing continues if the caller is cancelled

    async def _close(self) -> None:
        await self.connector.stop_reconnecting()
        await self._notifications.close()
        if "_tools" in self.__dict__:
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
        """Return all tools. Later tool calls check their results against the listed output schemas.

        Args:
            timeout: Time limit for each page, in seconds. Defaults to the client's `timeout`.
        """
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
        """Call a tool. If the server creates a task for the call, wait for the task.

        Args:
            name: Name of the tool.
            arguments: Arguments by name.
            returns: The type of the tool's data, such as a dataclass, `int` or `list[str]`.
            on_progress: Called with progress, total and message.
            timeout: Time limit in seconds. If None, the client's `timeout` limits the request, but not a task.
            max_timeout: Total time limit in seconds. If it is given, each progress notification restarts `timeout`.
            meta: `_meta` of the request, such as trace context.

        Returns:
            Without `returns`, the result. Its `is_error` is True if the tool failed. With `returns`, the data of the
            result as an object of this type. The object is the same in all revisions.

        Raises:
            RemoteError: If the server refuses the call.
            ToolError: If `returns` is given, and the tool failed.
            InvalidMessage: If the result does not fit `returns`.
        """
        params = self._tools.params(name, arguments, meta)
        result = await self._tools.call_tool(params, on_progress, timeout, max_timeout)
        return result if returns is None else self._tools.read(name, result, returns)

    async def start_tool(
        self, name: str, arguments: Mapping[str, object] | None = None, *, ttl: float | None = None,
        on_progress: ProgressHandler | None = None, timeout: float | None = None,
        meta: Mapping[str, object] | None = None,
    ) -> RunningTask[CallToolResult]:  # fmt: skip
        """Call a tool as a task, without waiting for its result. If the tool cannot be a task, wait for its result.

        Args:
            name: Name of the tool.
            arguments: Arguments by name.
            ttl: Time for which the server should store the task, in seconds (2025-11-25 only).
            on_progress: Called with progress, total and message. Tasks report no progress from 2026-07-28 on.
            timeout: Time limit for the request that creates the task, in seconds.
            meta: `_meta` of the request, such as trace context.

        Returns:
            The task, with `status()`, `result()` and `cancel()`.
        """
        return await self._tools.start_tool(self._tools.params(name, arguments, meta), on_progress, timeout, ttl)

    async def find_task(self, id: str, *, timeout: float | None = None) -> RunningTask[CallToolResult]:
        """Return the task of a tool call of this client, or of another client with the same credentials.

        Args:
            id: Id of the task.
            timeout: Time limit in seconds. Defaults to the client's `timeout`.

        Raises:
            RemoteError: If the server has no such task.
        """
        return await self._tools.find_task(id, timeout)

    async def list_tasks(self, *, timeout: float | None = None) -> list[Task]:
        """Return the tasks of this client that the server stores (2025-11-25).

        Args:
            timeout: Time limit for each page, in seconds. Defaults to the client's `timeout`.
        """
        return cast("list[Task]", await self.request_all_pages("tasks/list", "tasks", timeout))

    async def list_resources(self, *, timeout: float | None = None) -> list[Resource]:
        """Return all resources.

        Args:
            timeout: Time limit for each page, in seconds. Defaults to the client's `timeout`.
        """
        return cast("list[Resource]", await self.request_all_pages("resources/list", "resources", timeout))

    async def list_resource_templates(self, *, timeout: float | None = None) -> list[ResourceTemplate]:
        """Return all resource templates.

        Args:
            timeout: Time limit for each page, in seconds. Defaults to the client's `timeout`.
        """
        templates = await self.request_all_pages("resources/templates/list", "resource_templates", timeout)
        return cast("list[ResourceTemplate]", templates)

    async def read_resource(self, uri: str, *, timeout: float | None = None) -> ReadResourceResult:
        """Return the contents of a resource.

        Args:
            uri: URI of the resource.
            timeout: Time limit in seconds. Defaults to the client's `timeout`.

        Raises:
            RemoteError: If the resource does not exist. The error's code depends on the revision.
        """
        return cast("ReadResourceResult", await self.request_by_name("resources/read", timeout, uri=uri))

    def subscribe(self, uri: str) -> Subscription:
        """Return a subscription to the updates of a resource.

            async with client.subscribe(uri) as updates:
                async for changed_uri in updates: ...

        Args:
            uri: URI of the resource. The subscription includes resources whose URI is below this URI.
        """
        return Subscription(self, self._notifications.subscriptions, uri)

    def watch_lists(self, *lists: Literal["tools", "resources", "prompts"]) -> Subscription:
        """Return a subscription to changes of the server's lists.

            async with client.watch_lists("tools", "prompts") as changes:
                async for name in changes: ...

        Args:
            *lists: The lists, at least one. The subscription yields the name of each changed list.

        Raises:
            ValueError: If no list is given.
        """
        if not lists:
            raise ValueError('watch_lists needs the names of the lists, such as "tools"')
        return Subscription(self, self._notifications.subscriptions, "lists", lists)

    async def list_prompts(self, *, timeout: float | None = None) -> list[Prompt]:
        """Return all prompts.

        Args:
            timeout: Time limit for each page, in seconds. Defaults to the client's `timeout`.
        """
        return cast("list[Prompt]", await self.request_all_pages("prompts/list", "prompts", timeout))

    async def get_prompt(
        self, name: str, arguments: dict[str, str] | None = None, *, timeout: float | None = None
    ) -> GetPromptResult:
        """Return the messages of a prompt.

        Args:
            name: Name of the prompt.
            arguments: Arguments by name.
            timeout: Time limit in seconds. Defaults to the client's `timeout`.
        """
        result = await self.request_by_name("prompts/get", timeout, name=name, arguments=arguments)
        return cast("GetPromptResult", result)

    async def complete(
        self, ref: Reference, argument: str, value: str, arguments: dict[str, str] | None = None, *,
        timeout: float | None = None,
    ) -> Completion:  # fmt: skip
        """Return suggestions for the value of an argument while the user types the value.

        Args:
            ref: The prompt or resource template of the argument.
            argument: Name of the argument.
            value: The part of the value that the user has typed.
            arguments: The values that the user has already given for other arguments, by name.
            timeout: Time limit in seconds. Defaults to the client's `timeout`.
        """
        from ..features import completion  # lazy: few clients complete arguments

        context = completion.CompleteContext(arguments) if arguments is not None else None
        params = completion.CompleteRequestParams(ref, completion.CompleteArgument(argument, value), context)
        result = await self.request("completion/complete", params, completion.CompleteResult, timeout)
        return result.completion

    async def set_roots(self, roots: RootPaths | LazyRoots) -> None:
        """Replace the roots, and notify the server.

        Args:
            roots: Paths, `file://` URIs or `Root`s that the server can use, or a function that returns them.

        Raises:
            CapabilityError: If the client was created without `roots`.
        """
        if self._handlers is None or self._handlers.roots is None:
            raise CapabilityError("the client did not declare roots: create it with roots=[], or with a list of roots")
        self._handlers.set_roots(roots)
        self.session.notify("notifications/roots/list_changed")
        await self.session.transport.drain()
