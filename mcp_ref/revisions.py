"""The revisions of the protocol, as data: what each one calls its methods, how it behaves, and when a field lived.

Three kinds of fact, each with one home:

- *Vocabulary* is the table `METHODS` below: method, who sends it, since and until when, its params and its result.
- *Behaviour* is a `Revision` record with named features. Code asks `revision.batch`; it never compares dates.
- *Shape* stands on each field, in the page that owns the type: `title: Annotated[str | None, Life(since=R2025_06_18)]`.
  `codec.py` reads it.

Spec:  basic/versioning (2026-07-28), basic/lifecycle#version-negotiation (earlier), and the changelogs
Above: everything that speaks MCP. Below: nothing.
Elsewhere: `python -m mcp_ref revisions` prints this data; `__main__.py` does the printing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

# ---------------------------------------------------------------------------------------------------- behaviour


Era = Literal["legacy", "modern"]
"""legacy, in our texts the earlier era: opened by a handshake. modern, the stateless era: every request stands alone.
[2026-07-28 basic/versioning#terminology]"""


@dataclass(frozen=True, slots=True, eq=False)
class Revision:
    """One revision of the protocol. Revisions are ordered by `number`, their age; `name` is what goes on the wire."""

    number: int
    name: str
    era: Era = "legacy"
    batch: bool = False
    """A frame may be an array of messages. [2025-03-26 basic/index#batching]"""
    error_id_optional: bool = False
    """An error whose request could not be read omits `id`; before, it is null. [2025-11-25
    basic/index#error-responses]"""
    pagination: bool = True
    """Lists come in pages, with cursors. [2024-11-05 server/utilities/pagination]"""
    tool_result_is_bare: bool = False
    """A tool's result is `toolResult`, any JSON, instead of content blocks."""
    structured_results: bool = True
    """Tools have output schemas, and results data that match them. [2025-06-18 server/tools#structured-content]"""
    structured_content_is_any_json: bool = False
    """That data is any JSON, and its schema any schema; before, both are of an object. [2026-07-28
    server/tools#structured-content]"""
    invalid_arguments_are_results: bool = False
    """Arguments that break a tool's schema give `isError`, not -32602. [2025-11-25 server/tools#error-handling]"""
    completions_are_declared: bool = True
    """`completion/complete` needs the server capability `completions`. [2025-03-26
    server/utilities/completion#capabilities]"""
    elicitation_modes: bool = False
    """Elicitation has form and URL modes, declared by name. [2025-11-25 client/elicitation#capabilities]"""
    sampling_tools: bool = False
    """Sampling may offer tools to the model. [2025-11-25 client/sampling#tools-in-sampling]"""
    streams_are_polled: bool = False
    """A server may close a stream's connection early; the client comes back. [2025-11-25
    basic/transports#sending-messages-to-the-server]"""
    names_itself_in_http: bool = True
    """Each HTTP request names the revision in a header. [2025-06-18 basic/transports#protocol-version-header]"""
    tasks_are_core: bool = False
    """Tasks are a part of the protocol, asked for by the requestor; later they are an extension. [2025-11-25
    basic/utilities/tasks#capabilities]"""
    resource_not_found_code: int = -32002
    """The error code for an unknown resource. [2025-11-25 server/resources#error-handling]"""

    def __lt__(self, other: Revision) -> bool:
        return self.number < other.number

    def __le__(self, other: Revision) -> bool:
        return self.number <= other.number

    def __str__(self) -> str:
        return self.name


R2024_10_07: Final = Revision(
    0,
    "2024-10-07",
    pagination=False,
    tool_result_is_bare=True,
    structured_results=False,
    completions_are_declared=False,
    names_itself_in_http=False,
    resource_not_found_code=-32001,
)
R2024_11_05: Final = Revision(
    1, "2024-11-05", structured_results=False, completions_are_declared=False, names_itself_in_http=False
)
R2025_03_26: Final = Revision(2, "2025-03-26", batch=True, structured_results=False, names_itself_in_http=False)
R2025_06_18: Final = Revision(3, "2025-06-18")
R2025_11_25: Final = Revision(
    4,
    "2025-11-25",
    error_id_optional=True,
    invalid_arguments_are_results=True,
    elicitation_modes=True,
    sampling_tools=True,
    streams_are_polled=True,
    tasks_are_core=True,
)
R2026_07_28: Final = Revision(
    5,
    "2026-07-28",
    era="modern",
    error_id_optional=True,
    structured_content_is_any_json=True,
    invalid_arguments_are_results=True,
    elicitation_modes=True,
    sampling_tools=True,
    resource_not_found_code=-32602,
)

REVISIONS: Final = (R2024_10_07, R2024_11_05, R2025_03_26, R2025_06_18, R2025_11_25, R2026_07_28)
"""All revisions, oldest first."""

LEGACY: Final = tuple(revision for revision in REVISIONS if revision.era == "legacy")
"""The revisions that `initialize` can negotiate, oldest first."""

LATEST_LEGACY: Final = LEGACY[-1]

_BY_NAME: Final = {revision.name: revision for revision in REVISIONS}


def find_revision(name: object) -> Revision | None:
    """The revision of that name, or None. A set membership, as `"v999" > "2025-11-25"` would be true."""
    return _BY_NAME.get(name) if type(name) is str else None


def revision_named(name: str) -> Revision:
    """The revision of that name; raises ValueError, listing the known names, when there is none."""
    revision = find_revision(name)
    if revision is None:
        raise ValueError(f"unknown protocol revision {name!r}; known are {', '.join(_BY_NAME)}")
    return revision


def in_order(revisions: Sequence[Revision | str]) -> list[Revision]:
    """Revisions, some by name, oldest first. Raises ValueError for none and for unknown ones, TypeError for no list."""
    if isinstance(revisions, str | Revision):
        raise TypeError(f"revisions is a list, such as [{str(revisions)!r}], also of one")
    chosen = sorted({revision_named(each) if isinstance(each, str) else each for each in revisions})
    if not chosen:
        raise ValueError(f"at least one revision is to be spoken; known are {', '.join(_BY_NAME)}")
    return chosen


# ---------------------------------------------------------------------------------------------------- shape


class NotInRevision(ValueError):
    """A message cannot be said in the peer's revision without changing its meaning; it was not sent."""


@dataclass(frozen=True, slots=True)
class Life:
    """The revisions in which a field, or (as the class attribute `life`) a whole type, exists.

    since: the first revision that has it, None for the first of all. until: the first that no longer has it.
    loss: what happens to a value that a peer's revision lacks. "drop": it is left out, the rest still means the same.
    "refuse": the message would mean something else, so sending it raises `NotInRevision`.
    required_since: from then on it must be present; before, it is optional.
    instead: for types, a function that gives another value to write in its place, in any revision.
    """

    since: Revision | None = None
    until: Revision | None = None
    loss: Literal["drop", "refuse"] = "drop"
    required_since: Revision | None = None
    instead: Callable[[object], object] | None = None

    def covers(self, revision: Revision) -> bool:
        """True when the revision has it."""
        return (self.since is None or self.since <= revision) and (self.until is None or revision < self.until)

    def requires(self, revision: Revision) -> bool:
        """True when the revision demands it, for a field that is optional elsewhere."""
        return self.required_since is not None and self.required_since <= revision and self.covers(revision)


NOT_ON_THE_WIRE: Final = Life(since=R2024_10_07, until=R2024_10_07)
"""The life of a field that no revision has: it says in Python what JSON says otherwise."""

# ---------------------------------------------------------------------------------------------------- vocabulary

Direction = Literal["client", "server", "both"]


@dataclass(frozen=True, slots=True)
class Method:
    """One row of the vocabulary.

    sender: who sends it. params, result: `page:Type`, the module below this package and the dataclass in it; a page is
    imported when a message first needs it. result is None for a notification. capability: what the *receiver* of a
    request, or the sender of a notification, must have declared, as a path into its capabilities.
    """

    name: str
    sender: Direction
    params: str
    result: str | None = None
    capability: str | None = None
    since: Revision = R2024_10_07
    until: Revision | None = None

    @property
    def is_notification(self) -> bool:
        return self.result is None


_EMPTY = "basic.meta:RequestParams"
_NOTICE = "basic.meta:NotificationParams"
_DONE = "basic.meta:EmptyResult"
_ONE_TASK = "extensions.tasks.types:TaskRequestParams"
_TASK = "extensions.tasks.types:Task"
_TASKS = "extensions.io.modelcontextprotocol/tasks"

METHODS: Final = (
    # base protocol
    Method(
        "initialize", "client", "basic.lifecycle:InitializeRequestParams", "basic.lifecycle:InitializeResult",
        until=R2026_07_28,
    ),
    Method("notifications/initialized", "client", _NOTICE, until=R2026_07_28),
    Method("ping", "both", _EMPTY, _DONE, until=R2026_07_28),
    Method("server/discover", "client", _EMPTY, "features.discover:DiscoverResult", since=R2026_07_28),
    Method(
        "subscriptions/listen", "client", "basic.subscriptions:SubscriptionsListenRequestParams", _DONE,
        since=R2026_07_28,
    ),
    Method(
        "notifications/subscriptions/acknowledged", "server",
        "basic.subscriptions:SubscriptionsAcknowledgedNotificationParams", since=R2026_07_28,
    ),
    Method(
        "notifications/cancelled", "both", "basic.cancellation:CancelledNotificationParams", since=R2024_11_05
    ),
    Method("notifications/progress", "both", "basic.progress:ProgressNotificationParams"),
    # tasks: first an experiment, then an extension
    Method("tasks/get", "both", _ONE_TASK, _TASK, "tasks", since=R2025_11_25, until=R2026_07_28),
    Method(
        "tasks/result", "both", _ONE_TASK, "extensions.tasks.types:GetTaskPayloadResult", "tasks", since=R2025_11_25,
        until=R2026_07_28,
    ),
    Method(
        "tasks/list", "both", "basic.meta:PaginatedRequestParams", "extensions.tasks.types:ListTasksResult",
        "tasks.list", since=R2025_11_25, until=R2026_07_28,
    ),
    Method("tasks/cancel", "both", _ONE_TASK, _TASK, "tasks.cancel", since=R2025_11_25, until=R2026_07_28),
    Method("notifications/tasks/status", "both", _TASK, capability="tasks", since=R2025_11_25, until=R2026_07_28),
    Method("tasks/get", "client", _ONE_TASK, _TASK, _TASKS, since=R2026_07_28),
    Method(
        "tasks/update", "client", "extensions.tasks.types:UpdateTaskRequestParams", _DONE, _TASKS, since=R2026_07_28
    ),
    Method("tasks/cancel", "client", _ONE_TASK, _DONE, _TASKS, since=R2026_07_28),
    Method("notifications/tasks", "server", _TASK, capability=_TASKS, since=R2026_07_28),
    # server features
    Method("tools/list", "client", "basic.meta:PaginatedRequestParams", "features.tools:ListToolsResult", "tools"),
    Method("tools/call", "client", "features.tools:CallToolRequestParams", "features.tools:CallToolResult", "tools"),
    Method("notifications/tools/list_changed", "server", _NOTICE, capability="tools.listChanged"),
    Method(
        "resources/list", "client", "basic.meta:PaginatedRequestParams", "features.resources:ListResourcesResult",
        "resources",
    ),
    Method(
        "resources/templates/list", "client", "basic.meta:PaginatedRequestParams",
        "features.resources:ListResourceTemplatesResult", "resources",
    ),
    Method(
        "resources/read", "client", "features.resources:ReadResourceRequestParams",
        "features.resources:ReadResourceResult", "resources",
    ),
    Method(
        "resources/subscribe", "client", "features.resources:SubscribeRequestParams", _DONE, "resources.subscribe",
        until=R2026_07_28,
    ),
    Method(
        "resources/unsubscribe", "client", "features.resources:UnsubscribeRequestParams", _DONE, "resources.subscribe",
        until=R2026_07_28,
    ),
    Method(
        "notifications/resources/updated", "server", "features.resources:ResourceUpdatedNotificationParams",
        capability="resources.subscribe",
    ),
    Method("notifications/resources/list_changed", "server", _NOTICE, capability="resources.listChanged"),
    Method(
        "prompts/list", "client", "basic.meta:PaginatedRequestParams", "features.prompts:ListPromptsResult", "prompts"
    ),
    Method(
        "prompts/get", "client", "features.prompts:GetPromptRequestParams", "features.prompts:GetPromptResult",
        "prompts",
    ),
    Method("notifications/prompts/list_changed", "server", _NOTICE, capability="prompts.listChanged"),
    Method(
        "completion/complete", "client", "features.completion:CompleteRequestParams",
        "features.completion:CompleteResult", "completions",
    ),
    Method(
        "logging/setLevel", "client", "features.logging:SetLevelRequestParams", _DONE, "logging",
        until=R2026_07_28,
    ),
    Method(
        "notifications/message", "server", "features.logging:LoggingMessageNotificationParams",
        capability="logging",
    ),
    # client features
    Method("roots/list", "server", _EMPTY, "features.roots:ListRootsResult", "roots", until=R2026_07_28),
    Method("notifications/roots/list_changed", "client", _NOTICE, capability="roots.listChanged", until=R2026_07_28),
    Method(
        "sampling/createMessage", "server", "features.sampling:CreateMessageRequestParams",
        "features.sampling:CreateMessageResult", "sampling", until=R2026_07_28,
    ),
    Method(
        "elicitation/create", "server", "features.elicitation:ElicitRequestParams", "features.elicitation:ElicitResult",
        "elicitation", since=R2025_06_18, until=R2026_07_28,
    ),
    Method(
        "notifications/elicitation/complete", "server",
        "features.elicitation:ElicitationCompleteNotificationParams", since=R2025_11_25, until=R2026_07_28,
    ),
)  # fmt: skip

_METHODS_BY_NAME: Final = {each.name: [row for row in METHODS if row.name == each.name] for each in METHODS}
"""Several rows for a name, one after the other, where it has come to mean something else."""


def find_method(name: str, revision: Revision, sender: Literal["client", "server"]) -> Method | None:
    """The row for a method that `sender` may send in this revision. None means: method not found, -32601."""
    for method in _METHODS_BY_NAME.get(name, ()):
        if method.since <= revision and (method.until is None or revision < method.until):
            return method if method.sender in ("both", sender) else None
    return None
