"""The client's handlers for requests of the server.

A server can request three things: a message from a language model (sampling), input from the user (elicitation), and
the directories that it may use (roots). A legacy server sends these requests, while a modern one puts them into a
result, as input requests. In both eras, the client declares a capability for each kind that the program handles.

Spec:  client/roots, client/sampling, client/elicitation (all revisions); 2025-11-25 basic/utilities/tasks
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from inspect import isawaitable
from typing import TypeVar

from ..basic.channel import RequestContext
from ..basic.lifecycle import ClientCapabilities
from ..basic.meta import RequestParams
from ..codec import codec_for
from ..extensions.tasks.receiver import Tasks
from ..extensions.tasks.types import CLIENT_TASKS
from ..features import elicitation, sampling
from ..features.elicitation import ElicitRequestParams, ElicitRequestURLParams, ElicitResult
from ..features.roots import LazyRoots, ListRootsResult, Root, RootPaths, called_roots, to_roots
from ..features.sampling import CreateMessageRequestParams, CreateMessageResult
from ..features.task_augmentation import TaskMetadata
from ..jsonrpc.errors import RemoteError
from ..jsonrpc.failures import handler_fault
from ..jsonrpc.messages import MAX_ID_LENGTH, Object
from ..revisions import Revision
from ..session import Handler
from .options import ClientOptions

P = TypeVar("P")
T = TypeVar("T")

MAX_ELICITATIONS = 1000
"""Maximum number of stored elicitation ids, one for each URL to visit. Above it, the oldest is dropped."""


class ClientHandlers:
    """The handlers of one client, and the capabilities that it declares for them."""

    def __init__(self, options: ClientOptions) -> None:
        self.set_roots(options.get("roots"))
        self._sampling, self._elicitation = options.get("sampling"), options.get("elicitation")
        self._sampling_settings: Object = {"tools": {}} if options.get("sampling_tools") else {}
        self._elicitation_modes: Object = {"form": {}, "url": {}} if options.get("elicitation_url") else {}
        self._serves_tasks = options.get("tasks", False)
        self._on_elicitation_complete = options.get("on_elicitation_complete")
        self._open_elicitations: dict[str, None] = {}  # ids of URLs that the user has to visit, oldest first
        self.tasks = Tasks()  # which the server creates on this client

    def set_roots(self, roots: RootPaths | LazyRoots | None) -> None:
        """Replace the roots. Raise ValueError if one is neither a path nor a `file://` URI."""
        self.roots: list[Root] | LazyRoots | None = roots if roots is None or callable(roots) else to_roots(roots)

    def capabilities(self) -> ClientCapabilities:
        return ClientCapabilities(
            roots={"listChanged": True} if self.roots is not None else None,
            sampling=self._sampling_settings if self._sampling is not None else None,
            elicitation=self._elicitation_modes if self._elicitation is not None else None,  # {} allows only forms
            tasks=CLIENT_TASKS if self._serves_tasks else None)  # fmt: skip

    def find(self, method: str) -> Handler | None:
        handlers: dict[str, Handler] = {
            "roots/list": self.list_roots, "sampling/createMessage": self.create_message,
            "elicitation/create": self.elicit, "tasks/get": self.tasks.get, "tasks/result": self.tasks.result,
            "tasks/list": self.tasks.list, "tasks/cancel": self.tasks.cancel}  # fmt: skip
        return handlers.get(method)

    def check_request(self, params: object, revision: Revision) -> None:
        """Raise ProtocolError if a request needs an undeclared capability, such as elicitation by URL."""
        if isinstance(params, CreateMessageRequestParams):
            sampling.check_request(params, self._sampling_settings)
        elif isinstance(params, ElicitRequestParams):
            elicitation.check_request(params.request, elicitation.supported_modes(self._elicitation_modes), revision)

    async def list_roots(self, params: RequestParams, context: RequestContext) -> ListRootsResult:
        roots = self.roots or []
        return ListRootsResult(await called_roots(roots) if callable(roots) else roots)

    async def create_message(self, params: CreateMessageRequestParams, context: RequestContext) -> object:
        self.check_request(params, context.revision)
        assert self._sampling is not None
        work = partial(_call, "sampling", self._sampling, params, CreateMessageResult, context.revision)
        return await self._run_or_start_task(params.task, work, context)

    async def elicit(self, params: ElicitRequestParams, context: RequestContext) -> object:
        self.check_request(params, context.revision)
        work = partial(self._elicit, params, context.revision)
        return await self._run_or_start_task(params.request.task, work, context)

    async def _elicit(self, params: ElicitRequestParams, revision: Revision) -> ElicitResult:
        assert self._elicitation is not None
        if isinstance(params.request, ElicitRequestURLParams) and params.request.elicitation_id is not None:
            self._store_elicitation(params.request.elicitation_id)
        result = await _call("elicitation", self._elicitation, params.request, ElicitResult, revision)
        try:
            return elicitation.checked_result(params.request, result)
        except ValueError as error:
            raise handler_fault(str(error)) from None

    async def _run_or_start_task(
        self, task: TaskMetadata | None, work: Callable[[], Coroutine[object, object, object]], context: RequestContext
    ) -> object:
        if task is None or not self._serves_tasks or not context.revision.built_in_tasks:
            return await work()
        return await self.tasks.start(lambda channel: work(), context.channel, task.ttl)  # the task, not yet its result

    def _store_elicitation(self, id: str) -> None:
        if len(id) <= MAX_ID_LENGTH:  # because a server could fill our memory with long ones
            self._open_elicitations[id] = None
        if len(self._open_elicitations) > MAX_ELICITATIONS:
            del self._open_elicitations[next(iter(self._open_elicitations))]

    def store_elicitations(self, error: RemoteError) -> None:
        """Store the ids that an error -32042 lists. The user must visit their URLs before the request can succeed."""
        for id in elicitation.url_elicitations(error):
            self._store_elicitation(id)

    def report_elicitation_end(self, id: str) -> None:
        """Tell the program that, according to the server, the user has finished the elicitation with this id."""
        # [2025-11-25 client/elicitation#completion-notifications-for-url-mode-elicitation] we MUST ignore other ids
        if id in self._open_elicitations:
            del self._open_elicitations[id]
            if self._on_elicitation_complete is not None:
                self._on_elicitation_complete(id)

    async def close(self) -> None:
        await self.tasks.close()


async def _call(name: str, handler: Callable[[P], Awaitable[T]], params: P, cls: type[T], revision: Revision) -> T:
    """Call a handler of the program. Return its result, which is an object of `cls` that the codec can write."""
    returned = handler(params)
    if not isawaitable(returned):
        raise handler_fault(f"the {name} handler must be an `async def` function, not a plain `def` function")
    result = await returned
    if not isinstance(result, cls):
        raise handler_fault(f"the {name} handler must return {cls.__name__}(...), not {type(result).__name__}")
    try:
        codec_for(revision).encode(result)
    except TypeError as error:
        raise handler_fault(f"the {name} handler returned an invalid result: {error}") from None
    return result
