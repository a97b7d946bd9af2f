"""What a client does for its server: a model that it may use, a user whom it may ask, directories that it may know of.

Each is declared as a capability, and served in both eras: a request of the server, or a question in a result. A server
of 2025-11-25 may want it as a task, too.

Spec:  the pages of client/; 2025-11-25 basic/utilities/tasks
Above: client_connection.py. Below: client/, one page for each
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import cached_property
from inspect import isawaitable
from typing import TYPE_CHECKING, TypeVar

from ..basic.lifecycle import ClientCapabilities
from ..basic.meta import RequestParams, checked_extensions
from ..extensions.tasks.types import CLIENT_CAPABILITY, EXTENSION
from ..features.task_augmentation import TaskMetadata
from ..jsonrpc.messages import Object
from ..revisions import Revision

if TYPE_CHECKING:
    from ..extensions.tasks.receiver import Tasks
    from ..features.elicitation import ElicitationHandler, ElicitRequestParams, ElicitResult
    from ..features.roots import ListRootsResult, Root
    from ..features.sampling import CreateMessageRequestParams, CreateMessageResult, SamplingHandler
    from .session import ClientSession

T = TypeVar("T")

MAX_ELICITATIONS = 1000
"""URLs that the user was sent to and that are not known to be done; the oldest are forgotten."""


class ClientHandlers:
    """What one client declares and serves; see `Client`, which takes the same. roots: None where there are to be none.

    serves_tasks: the server may ask by tasks. on_complete: called with the id of an elicitation by URL that is done.
    """

    def __init__(
        self,
        sampling: SamplingHandler | None,
        sampling_tools: bool,
        elicitation: ElicitationHandler | None,
        elicitation_url: bool,
        roots: list[Root] | None,
        serves_tasks: bool,
        extensions: Mapping[str, object] | None,
        on_complete: Callable[[str], None] | None,
    ) -> None:
        self.roots = roots
        self._sampling, self._sampling_tools = sampling, sampling_tools
        self._elicitation, self._elicitation_url = elicitation, elicitation_url
        self._serves_tasks = serves_tasks
        self._extensions = checked_extensions(extensions)
        self._on_complete = on_complete
        self._open_elicitations: dict[str, None] = {}  # the oldest first

    def capabilities(self) -> ClientCapabilities:
        """What the server is told that it may ask."""
        form_and_url: Object = {"form": {}, "url": {}}
        return ClientCapabilities(
            roots={"listChanged": True} if self.roots is not None else None,
            sampling=({"tools": {}} if self._sampling_tools else {}) if self._sampling is not None else None,
            elicitation=(form_and_url if self._elicitation_url else {}) if self._elicitation is not None else None,
            tasks=CLIENT_CAPABILITY if self._serves_tasks else None,
            extensions={**self._extensions, EXTENSION: {}},
        )

    def check_question(self, params: object, revision: Revision) -> None:
        """Refuse what a server may not ask of us. Raises ProtocolError."""
        from ..features import elicitation, sampling

        if isinstance(params, sampling.CreateMessageRequestParams):
            sampling.check_request(params, {"tools": {}} if self._sampling_tools else {})
        elif isinstance(params, elicitation.ElicitRequestParams):
            modes = {"form", "url"} if self._elicitation_url else {"form"}
            elicitation.check_request(params.request, modes, revision)

    # ------------------------------------------------------------------------------------- roots, model, user

    async def list_roots(self, params: RequestParams, connection: ClientSession) -> ListRootsResult:
        """Serve `roots/list`."""
        from ..features.roots import ListRootsResult

        return ListRootsResult(self.roots or [])

    async def create_message(self, params: CreateMessageRequestParams, connection: ClientSession) -> object:
        """Serve `sampling/createMessage`."""
        self.check_question(params, connection.revision)
        return await self._as_task(params.task, self._sample(params), connection)

    async def _sample(self, params: CreateMessageRequestParams) -> CreateMessageResult:
        from ..features.sampling import CreateMessageResult

        assert self._sampling is not None
        result = await _awaitable(self._sampling(params), "sampling")
        if not isinstance(result, CreateMessageResult):
            raise TypeError(f"the sampling handler gives a CreateMessageResult, not {type(result).__name__}")
        return result

    async def elicit(self, params: ElicitRequestParams, connection: ClientSession) -> object:
        """Serve `elicitation/create`."""
        self.check_question(params, connection.revision)
        return await self._as_task(params.request.task, self._elicit(params), connection)

    async def _elicit(self, params: ElicitRequestParams) -> ElicitResult:
        from ..features.elicitation import ElicitRequestURLParams, ElicitResult, checked_result

        assert self._elicitation is not None
        if isinstance(params.request, ElicitRequestURLParams) and params.request.elicitation_id is not None:
            self.expect_elicitation(params.request.elicitation_id)
        result = await _awaitable(self._elicitation(params.request), "elicitation")
        if not isinstance(result, ElicitResult):
            raise TypeError(f"the elicitation handler gives an ElicitResult, not {type(result).__name__}")
        return checked_result(params.request, result)

    # ------------------------------------------------------------------------------------- visits to a URL

    def expect_elicitation(self, id: str) -> None:
        """Note that the user was sent to a URL, of which the server may say when it is done."""
        self._open_elicitations[id] = None
        if len(self._open_elicitations) > MAX_ELICITATIONS:
            del self._open_elicitations[next(iter(self._open_elicitations))]

    def elicitation_completed(self, id: str) -> None:
        """The server says that one is done."""
        # [2025-11-25 client/elicitation#completion-notifications-for-url-mode-elicitation] unknown ones: ignore
        if id in self._open_elicitations:
            del self._open_elicitations[id]
            if self._on_complete is not None:
                self._on_complete(id)

    # ------------------------------------------------------------------------------------- as tasks

    @cached_property
    def tasks(self) -> Tasks:
        """The tasks that the server has made us begin."""
        from ..extensions.tasks.receiver import Tasks

        return Tasks()

    async def _as_task(
        self, wanted: TaskMetadata | None, work: Coroutine[object, object, object], connection: ClientSession
    ) -> object:
        """Serve a request as a task, where that is wanted and we have said that we can."""
        if wanted is None or not self._serves_tasks or not connection.revision.tasks_are_core:
            return await work
        from ..extensions.tasks.live_task import LiveTask

        return await self.tasks.start(LiveTask(self.tasks, connection, wanted.ttl), work)

    async def close(self) -> None:
        """Stop the tasks that run."""
        if "tasks" in self.__dict__:
            await self.tasks.close()


def _awaitable(given: Awaitable[T], handler: str) -> Awaitable[T]:
    """What a handler's call gave. Raises TypeError where that cannot be awaited."""
    if not isawaitable(given):
        raise TypeError(f"the {handler} handler is to be an `async def` function, so that it may take its time")
    return given
