"""The catalog of a server: its tools, resources, prompts, completions and tasks, and the handler of each method.

All clients share one catalog. When a method is first requested, `find_route` (session.py) checks that the revision has
the method and that the server declares its capability, and asks the catalog for the handler.

The server declares a feature when the author adds its first item. Since a client uses only declared capabilities
[2025-11-25 basic/lifecycle#operation], a server without prompts, for example, gets no prompt requests.

Spec:  basic/lifecycle (2024-11-05 to 2025-11-25), 2026-07-28 server/discover, basic/patterns/subscriptions,
       server/tools#list-changed-notification, server/resources#subscriptions (2024-11-05 to 2025-11-25)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, cast

from ..basic.channel import RequestContext
from ..basic.lifecycle import Implementation, ServerCapabilities, declares
from ..basic.meta import RequestParams, checked_extensions
from ..basic.mrtr import checked_key
from ..basic.ping import ping
from ..codec import codec_for
from ..features.caching import hints_by_method
from ..features.task_augmentation import SERVER_TASKS, TASKS_EXTENSION
from ..jsonrpc.messages import Notification, Object, Request
from ..revisions import Method, Revision, sorted_revisions
from ..session import Handler, Route
from .announcements import Announcers
from .context import Context
from .options import ServerOptions, checked_task_store
from .service import Service

if TYPE_CHECKING:
    from ..extensions.tasks.receiver import Tasks
    from ..features.completion import Completions, Reference
    from ..features.custom_methods import CustomMethod
    from ..features.discover import DiscoverResult
    from ..features.prompts import Prompts
    from ..features.registered_tools import Tools
    from ..features.resources import Resources


class Catalog:
    """The tools, resources, prompts, completions and tasks of a server, and the options that its author chose."""

    def __init__(self, info: Implementation, revisions: Sequence[Revision | str], options: ServerOptions) -> None:
        page_size = options.get("page_size", 1000)
        if page_size < 1:
            raise ValueError(f"page_size, the number of items in a page, must be at least 1, not {page_size}")
        self.info, self.instructions = info, options.get("instructions")
        self.info_as_json: dict[Revision, Object] = {}  # cache of `info` in the form that stateless results have
        self.cache_hints = hints_by_method(options.get("cache_ttl", 0.0), options.get("cache_scope", "public"))
        self.state_key = checked_key(options.get("state_key"))
        self.revisions = sorted_revisions(revisions)
        self.routes: dict[str, Route] = {}  # of stateless requests, by method
        self.middleware: list[Callable[[str, Handler], Handler]] = []  # functions that wrap handlers, innermost first
        self.announcers = Announcers()
        self.needs_scopes = False  # True if at least one tool, resource or prompt needs scopes
        self.used_features: set[str] = set()  # features that have, or have had, an item
        self.logging, self._page_size = options.get("logging", True), page_size
        self.service = Service(options.get("executor"), self._close_tasks, options.get("node"))
        self.extensions = checked_extensions(options.get("extensions"))
        self.custom_methods: dict[str, CustomMethod] = {}
        self._task_store = checked_task_store(options.get("task_store"))

    @property
    def legacy_revisions(self) -> list[Revision]:
        return [revision for revision in self.revisions if revision.era == "legacy"]

    @property
    def serves_modern(self) -> bool:
        return self.revisions[-1].era == "modern"

    @cached_property
    def tools(self) -> Tools:
        from ..features.registered_tools import Tools  # lazy: not every server has tools

        changed = partial(self._list_changed, "tools")
        return Tools(Context, self._page_size, changed, lambda *call: self.tasks.call_tool(*call))  # `tasks` stays lazy

    @cached_property
    def resources(self) -> Resources:
        from ..features.resources import Resources  # lazy: not every server has resources

        return Resources(Context, self._page_size, partial(self._list_changed, "resources"))

    @cached_property
    def prompts(self) -> Prompts:
        from ..features.prompts import Prompts  # lazy: not every server has prompts

        return Prompts(Context, self._page_size, partial(self._list_changed, "prompts"))

    @cached_property
    def completions(self) -> Completions:
        from ..features.completion import Completions  # lazy: few servers have completions

        return Completions(Context, self._completable_arguments, partial(self.used_features.add, "completions"))

    @cached_property
    def tasks(self) -> Tasks:
        from ..extensions.tasks.receiver import Tasks  # lazy: few servers use it

        tasks = Tasks(self._task_store, partial(self.announcers.announce, "notifications/tasks"), self.announcers)
        if self.service.broadcaster is not None and tasks.shared is not None:
            self.service.broadcaster.note_task = tasks.shared.note_change  # when another process changes a task
        return tasks

    def _list_changed(self, feature: str) -> None:
        self.used_features.add(feature)
        self.needs_scopes = self.needs_scopes or bool(getattr(self, feature).scopes)
        self.announcers.announce(f"notifications/{feature}/list_changed")

    def _completable_arguments(self, ref: Reference) -> list[str] | None:
        if ref.type == "ref/prompt":
            return self.prompts.arguments_of(ref.name) if "prompts" in self.used_features else None
        return self.resources.variables_of(ref.uri) if "resources" in self.used_features else None

    def check(self) -> None:
        """Raise ValueError if there are completions for an unknown argument. Called before serving begins."""
        if "completions" in self.used_features:
            self.completions.check()

    def capabilities(self) -> ServerCapabilities:
        used = self.used_features
        list_changed: Object = {"listChanged": True}
        has_tasks = "tools" in used and self.tools.can_be_tasks
        task_extension: Object = {TASKS_EXTENSION: {}} if has_tasks else {}
        return ServerCapabilities(
            logging={} if self.logging else None,
            completions={} if "completions" in used else None,
            prompts=list_changed if "prompts" in used else None,
            resources={"subscribe": True, **list_changed} if "resources" in used else None,
            tools=list_changed if "tools" in used else None,
            tasks=SERVER_TASKS if has_tasks else None,
            extensions={**self.extensions, **task_extension} or None)  # fmt: skip

    def declares(self, method: Method) -> bool:
        newest = self.revisions[-1]  # a modern one, because only stateless requests call this method
        capabilities = codec_for(newest).encode(self.capabilities())
        return method.capability is None or declares(capabilities, method.capability)

    def handler(self, method: Method) -> Handler | None:
        if method.capability == "completions" and "completions" not in self.used_features:
            return None  # clients of 2024-11-05 do not check this capability, which is new in 2025-03-26
        custom = self.custom_methods.get(method.name)
        if custom is not None:
            return self.with_middleware(method.name, custom.serve)
        handler_of = HANDLERS.get(method.name)
        return self.with_middleware(method.name, handler_of(self)) if handler_of is not None else None

    def with_middleware(self, method: str, handler: Handler) -> Handler:
        for wrap in self.middleware:
            handler = wrap(method, handler)
        return handler

    def scopes_of(self, call: Request | Notification) -> Collection[str]:
        method, target, used = call.method, call.params, self.used_features
        if method == "completion/complete" and isinstance(target.get("ref"), dict):
            target = cast(Object, target["ref"])  # the prompt or resource template whose argument is completed
        name, uri = target.get("name"), target.get("uri")
        if method == "tools/call" and "tools" in used and isinstance(name, str):
            return self.tools.scopes.get(name, ())
        needed: set[str] = set()
        if method in ("prompts/get", "completion/complete") and "prompts" in used and isinstance(name, str):
            needed |= self.prompts.scopes.get(name, frozenset())
        concerns_resource = method in ("resources/read", "resources/subscribe", "completion/complete")
        if concerns_resource and "resources" in used and isinstance(uri, str):
            needed |= self.resources.access.scopes_of(uri, call.params)
        return needed

    async def discover(self, params: RequestParams, context: RequestContext) -> DiscoverResult:
        from ..features.discover import DiscoverResult  # lazy: legacy clients do not discover

        return DiscoverResult([each.name for each in reversed(self.revisions)], self.capabilities(), self.instructions)

    async def _close_tasks(self) -> None:
        if "tasks" in self.__dict__:  # otherwise reading `self.tasks` would create them
            await self.tasks.close()


def _set_level(catalog: Catalog) -> Handler:
    from ..features.logging import set_level  # lazy: few clients set a log level

    return set_level


HANDLERS: Final[dict[str, Callable[[Catalog], Handler]]] = {
    "ping": lambda catalog: ping,
    "server/discover": lambda catalog: catalog.discover,
    "tools/list": lambda catalog: catalog.tools.list,
    "tools/call": lambda catalog: catalog.tools.call,
    "resources/list": lambda catalog: catalog.resources.list,
    "resources/templates/list": lambda catalog: catalog.resources.list_templates,
    "resources/read": lambda catalog: catalog.resources.read,
    "resources/subscribe": lambda catalog: catalog.resources.subscribe,
    "resources/unsubscribe": lambda catalog: catalog.resources.unsubscribe,
    "prompts/list": lambda catalog: catalog.prompts.list,
    "prompts/get": lambda catalog: catalog.prompts.get,
    "completion/complete": lambda catalog: catalog.completions.complete,
    "logging/setLevel": _set_level,
    "tasks/get": lambda catalog: catalog.tasks.get,
    "tasks/result": lambda catalog: catalog.tasks.result,
    "tasks/list": lambda catalog: catalog.tasks.list,
    "tasks/update": lambda catalog: catalog.tasks.update,
    "tasks/cancel": lambda catalog: catalog.tasks.cancel,
}
"""The handlers of both eras. `initialize` is handled in session.py, `subscriptions/listen` in subscriptions.py."""
