"""The client: starts or meets a server, and uses what it offers.

    async with Client(["python3", "server.py"]) as client:
        print((await client.call_tool("add", {"a": 1, "b": 2})).text)

What the client offers to the server in turn, it is given at construction: a model (`sampling`), a way to ask the user
(`elicitation`), directories (`roots`). Each one declares the capability.

Spec:  basic/lifecycle; the pages of server/ (what is asked) and of client/ (what is answered)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from ..basic.lifecycle import CapabilityError, Implementation
from ..basic.meta import EmptyResult, NotificationParams, RequestParams
from ..basic.progress import ProgressHandler
from ..extensions.tasks.types import Task
from ..features.caching import ResponseCache, ServerCache
from ..jsonrpc.messages import Object
from ..revisions import REVISIONS, Era, Revision, in_order
from ..session import TIMEOUT
from ..version import __version__
from .connector import Connector, Target
from .handlers import ClientHandlers
from .hearing import News
from .negotiation import ClientIdentity
from .session import ClientSession
from .subscriptions import Subscription
from .tools import ToolCall, ToolCalls

if TYPE_CHECKING:
    import os

    from ..extensions.tasks.receiver import Tasks
    from ..extensions.tasks.requestor import RunningTask
    from ..features.completion import Completion, Reference
    from ..features.elicitation import ElicitationHandler
    from ..features.logging import LoggingLevel, LoggingMessageNotificationParams
    from ..features.prompts import GetPromptResult, Prompt
    from ..features.resources import ReadResourceResult, Resource, ResourceTemplate
    from ..features.roots import Root
    from ..features.sampling import SamplingHandler
    from ..features.tools import CallToolResult, Tool
    from ..jsonrpc.dispatcher import Limits
    from ..lib.http.client import HttpClient
    from ..server.server import Server
    from ..transports.base import Trace, Transport

T = TypeVar("T")


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

    In the stateless era, a request that changes nothing is sent once more where its answer broke off; a tool's call is
    not: it raises ConnectionClosed, and what became of it is for the caller to find out.

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
        self.cache = (ResponseCache() if cache else None) if isinstance(cache, bool) else cache
        """What is kept of earlier results, in the stateless era."""
        self._info = info or Implementation("mcp_ref", __version__)
        address = Target(server, env, cwd, on_stderr, headers, http, trace)
        kept = ServerCache(self.cache, address.identity, address.credential)
        self._answers = ClientHandlers(
            sampling,
            sampling_tools,
            elicitation,
            elicitation_url,
            _to_roots(roots) if roots is not None else None,
            tasks,
            extensions,
            on_elicitation_complete,
        )
        on_changed = {"tools": on_tools_changed, "resources": on_resources_changed, "prompts": on_prompts_changed}
        news = News(on_log, on_changed, kept)
        self._connector = Connector(address, self._answers, news, kept, timeout, limits, {} if eras is None else eras)
        self._tools = ToolCalls(self._connector)
        self._closing: asyncio.Task[None] | None = None

    # ------------------------------------------------------------------------------------- opening and closing

    async def __aenter__(self) -> Client:
        await self.connect()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def connect(self) -> None:
        """Start or reach the server, and find out what it speaks. Whatever goes wrong, nothing is left behind."""
        if self._connector.is_used:
            raise RuntimeError("a Client connects once; make a new one for a new connection")
        try:
            await self._connector.open(ClientIdentity(self.revisions, self._info, self._answers.capabilities()))
            await self._connector.news.listen(self._connector)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End the connection, and the server if we started it. Any number of times, from any task."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)  # whoever waits for it may be cancelled; it goes on

    async def _close(self) -> None:
        await self._connector.stay_away()
        await self._connector.news.close()
        await self._tools.close()
        await self._connector.close()
        await self._answers.close()

    # ------------------------------------------------------------------------------------- who we talk to

    @property
    def session(self) -> ClientSession:
        """The session with the server. Raises RuntimeError before `connect`."""
        return self._connector.session

    @property
    def revision(self) -> Revision:
        """The revision that is spoken."""
        return self._connector.revision

    @property
    def server_info(self) -> Implementation:
        """Who the server says it is."""
        return self._connector.server_identity.info

    @property
    def server_capabilities(self) -> Object:
        """What the server declared, as on the wire: `{"tools": {"listChanged": True}, ...}`."""
        return self.session.peer_capabilities

    @property
    def instructions(self) -> str | None:
        """How to use the server, for a model."""
        return self._connector.server_identity.instructions

    def server_can(self, capability: str) -> bool:
        """Whether the server declared a capability, such as "tools" or "resources.subscribe"."""
        return self._connector.server_can(capability)

    @property
    def timeout(self) -> float | None:
        """Seconds for each request, by default."""
        return self._connector.timeout

    @timeout.setter
    def timeout(self, seconds: float | None) -> None:
        self._connector.timeout = seconds

    @property
    def subscriptions(self) -> dict[str, list[Subscription]]:
        """What is watched in the earlier era, by URI."""
        return self._connector.news.watched

    @property
    def tasks(self) -> Tasks:
        """The tasks that the server has made us begin."""
        return self._answers.tasks

    # ------------------------------------------------------------------------------------- asking the server

    # timeout, on all of these: seconds for this request; None for the client's default.

    async def ping(self, *, timeout: float | None = None) -> None:
        """Ask whether the server still answers. The stateless era has no ping; there, the server is asked who it is."""
        method = "ping" if self.revision.era == "legacy" else "server/discover"
        self._connector.cache.forget(method)  # what is kept says nothing of now
        await self._connector.ask(method, RequestParams(), EmptyResult, timeout)

    async def list_tools(self, *, timeout: float | None = None) -> list[Tool]:
        """All tools, page by page. From then on, results are checked against the tools' output schemas."""
        return await self._tools.list_tools(timeout)

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
        return await self._tools.call_tool(ToolCall(name, arguments, meta, on_progress, timeout, max_timeout))

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
        on_progress: as for `call_tool`; in 2026-07-28 a task has no progress, only its `status_message`.
        """
        return await self._tools.start_tool(ToolCall(name, arguments, meta, on_progress, timeout), ttl)

    async def find_task(self, id: str, *, timeout: float | None = None) -> RunningTask[CallToolResult]:
        """A task of a tool that was begun earlier, by its id: by this client, or one before it. RemoteError where there
        is none."""
        return await self._tools.find_task(id, timeout)

    async def list_tasks(self, *, timeout: float | None = None) -> list[Task]:
        """How all of our tasks are that the server still keeps, in 2025-11-25."""
        from ..extensions.tasks.types import ListTasksResult

        return await self._connector.ask_all("tasks/list", ListTasksResult, lambda page: page.tasks, timeout)

    async def list_resources(self, *, timeout: float | None = None) -> list[Resource]:
        """All resources, page by page."""
        from ..features.resources import ListResourcesResult

        return await self._connector.ask_all(
            "resources/list", ListResourcesResult, lambda page: page.resources, timeout
        )

    async def list_resource_templates(self, *, timeout: float | None = None) -> list[ResourceTemplate]:
        """All resource templates, page by page."""
        from ..features.resources import ListResourceTemplatesResult

        return await self._connector.ask_all(
            "resources/templates/list", ListResourceTemplatesResult, lambda page: page.resource_templates, timeout
        )

    async def read_resource(self, uri: str, *, timeout: float | None = None) -> ReadResourceResult:
        """Read a resource. RemoteError where there is none; its code depends on the revision."""
        from ..features.resources import ReadResourceRequestParams, ReadResourceResult

        return await self._connector.ask("resources/read", ReadResourceRequestParams(uri), ReadResourceResult, timeout)

    def subscribe(self, uri: str) -> Subscription:
        """Watch a resource: `async with client.subscribe(uri) as updates: async for changed_uri in updates: ...`"""
        return Subscription(self._connector, uri)

    async def list_prompts(self, *, timeout: float | None = None) -> list[Prompt]:
        """All prompts, page by page."""
        from ..features.prompts import ListPromptsResult

        return await self._connector.ask_all("prompts/list", ListPromptsResult, lambda page: page.prompts, timeout)

    async def get_prompt(
        self, name: str, arguments: dict[str, str] | None = None, *, timeout: float | None = None
    ) -> GetPromptResult:
        """A prompt's messages, filled in with arguments, which are strings."""
        from ..features.prompts import GetPromptRequestParams, GetPromptResult

        return await self._connector.ask(
            "prompts/get", GetPromptRequestParams(name, arguments), GetPromptResult, timeout
        )

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
        from ..features import completion

        context = completion.CompleteContext(arguments) if arguments is not None else None
        params = completion.CompleteRequestParams(ref, completion.CompleteArgument(argument, value), context)
        return (await self._connector.ask("completion/complete", params, completion.CompleteResult, timeout)).completion

    async def set_logging_level(self, level: LoggingLevel, *, timeout: float | None = None) -> None:
        """The least severe log messages to receive from now on.

        Until then, an earlier server decides; in the stateless era, a client with `on_log` asks for all.
        """
        from ..features.logging import SetLevelRequestParams

        if self.revision.era == "modern":
            # [2026-07-28 server/utilities/logging#per-request-log-level] each request says it
            self.session.log_level = level
            return
        await self._connector.ask("logging/setLevel", SetLevelRequestParams(level), EmptyResult, timeout)

    async def batch(self, *calls: Coroutine[object, object, object]) -> list[object]:
        """Send several requests in one frame, in revision 2025-03-26: `await client.batch(client.ping(), ...)`.

        Gives the results in order, with an exception in the place of each call that failed.
        """
        if not self._connector.is_open or not self.revision.batch:
            for call in calls:
                call.close()
        if not self.revision.batch:
            raise CapabilityError(f"revision {self.revision} has no batches; send the requests one by one")
        return await self.session.dispatcher.batch(*calls)

    async def set_roots(self, roots: Iterable[Root | str | os.PathLike[str]]) -> None:
        """Change the roots, and tell the server. Only for a client that was made with roots."""
        if self._answers.roots is None:
            raise CapabilityError("roots were not declared: make the client with roots=[...], empty or not")
        self._answers.roots = _to_roots(roots)
        self.session.notify("notifications/roots/list_changed", NotificationParams())
        await self.session.transport.drain()


def _to_roots(roots: Iterable[Root | str | os.PathLike[str]]) -> list[Root]:
    from ..features.roots import to_roots

    return to_roots(roots)
