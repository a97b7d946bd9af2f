"""The six revisions of the protocol, as data. A revision is a dated version of the specification.

In the *legacy era*, up to 2025-11-25, a handshake opens a session. In the *modern era*, from 2026-07-28 on, each
request carries its revision and capabilities. The reason is scale: with sessions, a load balancer must send all
requests of a client to one process, and a crash loses the session. Any process can serve a stateless request.

2024-10-07  Pre-release: source code without a published specification. A tool's result is in the field `toolResult`;
            lists have no pages. Error code -32001 for an unknown resource.
2024-11-05  First release. Added: pagination, cancellation, content blocks and `isError` in tool results, annotations
            of content (audience, priority), `instructions`, error code -32002 for an unknown resource
2025-03-26  Added: Streamable HTTP; OAuth 2.1 authorization; batches (MAY send, MUST receive); tool annotations; audio;
            `message` in progress; capability `completions`; rules for time limits
    deprecated  HTTP+SSE -> Streamable HTTP: one endpoint, and streams only where they are needed
2025-06-18  Added: structured tool output: programs read it without parsing text; elicitation: a server asks the user;
            resource links; `title` for display beside the identifier `name`; rules for `_meta` keys; `context` in
            completion; header MCP-Protocol-Version (MUST); resource indicators (MUST): a malicious server must not get
            a token for another server; protected resource metadata
    changed respecting the negotiated revision and capabilities: was SHOULD, now MUST
    removed batches
2025-11-25  Added: URL elicitation: the user enters secrets on a web page, unseen by client and model; tools in
            sampling; tasks (experimental); icons; defaults and multiple choice in forms; stream polling: no need to
            hold connections open; Client ID Metadata Documents, OpenID discovery, scope step-up; JSON Schema 2020-12 by
            default; rules for tool names
    changed invalid tool arguments: a protocol error -> `isError`, which the model can correct; bad Origin: HTTP 403
    deprecated  `includeContext` values "thisServer" and "allServers" -> omit them
2026-07-28  Added: `server/discover`; `resultType`; headers Mcp-Method, Mcp-Name, Mcp-Param-*: gateways need not read
            bodies; cache hints `ttlMs`, `cacheScope`; `extensions`; any JSON as structured content; error codes -32020
            to -32022
    replaced  initialize, sessions -> `_meta` in each request; requests of the server -> multi round-trip requests;
            resources/subscribe, GET stream -> subscriptions/listen; logging/setLevel -> `logLevel` in `_meta`; core
            tasks -> extension; error code -32002 -> -32602; on HTTP, notifications/cancelled -> closing the stream
    changed lists do not depend on the connection or earlier requests; error codes -32000 to -32019 get no new meanings
    removed ping, stream resumption (Last-Event-ID), error code -32042, notifications/roots/list_changed,
            notifications/elicitation/complete
    deprecated (not removed before 2027-07-28): roots -> tool parameters; sampling -> the model provider's API;
            logging -> stderr, OpenTelemetry; dynamic client registration -> Client ID Metadata Documents
[2025-03-26 changelog#major-changes] [2025-06-18 changelog#major-changes] [2025-11-25 changelog#major-changes]
[2026-07-28 changelog#major-changes] [2026-07-28 changelog#deprecated]

Each kind of difference between revisions is written in one place. *Vocabulary*: the table `METHODS`. *Behavior*: a
named feature of a `Revision`, such as `revision.batch`; code never compares dates. *Shape*: an `Availability` on a
field of the message's dataclass, read by `codec.py`.

Spec:  basic/versioning (2026-07-28), basic/lifecycle#version-negotiation (legacy), the changelogs
Used by: every module that speaks MCP. `python -m mcp_ref revisions` prints this data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

Era = Literal["legacy", "modern"]
"""Kind of a revision: with handshake, or with stateless requests. [2026-07-28 basic/versioning#terminology]"""


@dataclass(frozen=True, slots=True, eq=False)
class Revision:
    """One revision of the protocol. `number` gives their order: 0 is the oldest. `name` goes on the wire."""

    index: int
    name: str
    era: Era = "legacy"
    batch: bool = False
    """True if a frame may be an array of messages. [2025-03-26 basic/index#batching]"""
    error_id_optional: bool = False
    """True if errors for unreadable requests omit `id`; if False, null. [2025-11-25 basic/index#error-responses]"""
    pagination: bool = True
    """True if lists come in pages, with cursors. [2024-11-05 server/utilities/pagination]"""
    tool_result_is_any_json: bool = False
    """True if a tool's result is `toolResult`, any JSON; if False, it is content blocks."""
    structured_results: bool = True
    """True if tools have output schemas and structured content. [2025-06-18 server/tools#structured-content]"""
    structured_content_is_any_json: bool = False
    """True if structured content is any JSON; if False, an object. [2026-07-28 server/tools#structured-content]"""
    invalid_arguments_are_results: bool = False
    """True if invalid tool arguments give `isError`; if False, -32602. [2025-11-25 server/tools#error-handling]"""
    completions_are_declared: bool = True
    """True if completion has a capability, `completions`. [2025-03-26 server/utilities/completion#capabilities]"""
    elicitation_modes: bool = False
    """True if elicitation has form and URL modes, declared by name. [2025-11-25 client/elicitation#capabilities]"""
    sampling_tools: bool = False
    """True if sampling may offer tools to the model. [2025-11-25 client/sampling#tools-in-sampling]"""
    server_can_close_streams: bool = False
    """True if a server may close a stream before the response, and the client reconnects to resume it. [2025-11-25
    basic/transports#sending-messages-to-the-server]"""
    version_header: bool = True
    """True if each HTTP request has MCP-Protocol-Version. [2025-06-18 basic/transports#protocol-version-header]"""
    tasks_are_core: bool = False
    """True if tasks belong to the protocol, not to an extension. [2025-11-25 basic/utilities/tasks#capabilities]"""
    resource_not_found_code: int = -32002
    """Error code for an unknown resource. [2025-11-25 server/resources#error-handling]"""

    def __lt__(self, other: Revision) -> bool:
        return self.index < other.index

    def __le__(self, other: Revision) -> bool:
        return self.index <= other.index

    def __str__(self) -> str:
        return self.name


R2024_10_07: Final = Revision(
    0, "2024-10-07", pagination=False, tool_result_is_any_json=True, structured_results=False,
    completions_are_declared=False, version_header=False, resource_not_found_code=-32001)  # fmt: skip
R2024_11_05: Final = Revision(
    1, "2024-11-05", structured_results=False, completions_are_declared=False, version_header=False)  # fmt: skip
R2025_03_26: Final = Revision(2, "2025-03-26", batch=True, structured_results=False, version_header=False)
R2025_06_18: Final = Revision(3, "2025-06-18")
R2025_11_25: Final = Revision(
    4, "2025-11-25", error_id_optional=True, invalid_arguments_are_results=True, elicitation_modes=True,
    sampling_tools=True, server_can_close_streams=True, tasks_are_core=True)  # fmt: skip
R2026_07_28: Final = Revision(
    5, "2026-07-28", era="modern", error_id_optional=True, structured_content_is_any_json=True,
    invalid_arguments_are_results=True, elicitation_modes=True, sampling_tools=True,
    resource_not_found_code=-32602)  # fmt: skip

REVISIONS: Final = (R2024_10_07, R2024_11_05, R2025_03_26, R2025_06_18, R2025_11_25, R2026_07_28)
"""All revisions, oldest first."""
LEGACY: Final = tuple(revision for revision in REVISIONS if revision.era == "legacy")
"""The revisions that `initialize` can negotiate, oldest first."""
LATEST_LEGACY: Final = LEGACY[-1]
REVISIONS_BY_NAME: Final = {revision.name: revision for revision in REVISIONS}


def find_revision(name: object) -> Revision | None:
    """Return the revision of that name, or None. Names are looked up, never compared with < or >: "v9" > "2025"."""
    return REVISIONS_BY_NAME.get(name) if type(name) is str else None


def revision_named(name: str) -> Revision:
    """Return the revision of that name. If the name is unknown, raise ValueError with a list of the known names."""
    revision = find_revision(name)
    if revision is None:
        raise ValueError(f"unknown protocol revision {name!r}; the known revisions are {', '.join(REVISIONS_BY_NAME)}")
    return revision


def sorted_revisions(revisions: Sequence[Revision | str]) -> list[Revision]:
    """Return revisions, given as objects or names, oldest first.
    Raise ValueError if the list is empty or has an unknown name, TypeError if it is a string or a single Revision."""
    if isinstance(revisions, str | Revision):
        raise TypeError(f"revisions must be a list, such as [{str(revisions)!r}], even for one revision")
    chosen = sorted({revision_named(each) if isinstance(each, str) else each for each in revisions})
    if not chosen:
        raise ValueError(f"revisions is empty; name at least one revision of {', '.join(REVISIONS_BY_NAME)}")
    return chosen


class NotInRevision(ValueError):
    """A message that the peer's revision cannot express without changing its meaning. It was not sent."""


@dataclass(frozen=True, slots=True)
class Availability:
    """The revisions that have a field. As the class attribute `life`, it gives the revisions that have the whole type.

    Args:
        since: first revision with the field or type; None for the oldest.
        until: first revision without it; None if the latest revision has it.
        if_unsupported: treatment of a value that the peer's revision lacks. "drop" leaves it out.
            "refuse" raises `NotInRevision`: the message would mean something else.
        required_since: first revision that requires the field; before, it is optional.
        fallback: function that takes the value and returns a replacement to send if the peer's revision lacks the type.
    """

    since: Revision | None = None
    until: Revision | None = None
    if_unsupported: Literal["drop", "refuse"] = "drop"
    required_since: Revision | None = None
    fallback: Callable[[object], object] | None = None

    def covers(self, revision: Revision) -> bool:
        """Return True if the revision has the field or type."""
        return (self.since is None or self.since <= revision) and (self.until is None or revision < self.until)

    def requires(self, revision: Revision) -> bool:
        """Return True if the revision requires a field that is optional in others."""
        return self.required_since is not None and self.required_since <= revision and self.covers(revision)


PYTHON_ONLY: Final = Availability(since=R2024_10_07, until=R2024_10_07)
"""The life of a field that exists in Python only. On the wire, JSON expresses its value in another way."""

Sender = Literal["client", "server", "both"]


@dataclass(frozen=True, slots=True)
class Method:
    """One row of the table of methods.

    Args:
        sender: role that sends it.
        params: dataclass of the params, as `module:Class`. The module is imported on first use.
        result: dataclass of the result; None for a notification.
        capability: capability that the receiver of a request, or the sender of a notification, must have declared.
    """

    name: str
    sender: Sender
    params: str
    result: str | None = None
    capability: str | None = None
    since: Revision = R2024_10_07
    until: Revision | None = None

    @property
    def is_notification(self) -> bool:
        return self.result is None


_REQUEST_PARAMS = "basic.meta:RequestParams"
_NOTIFICATION_PARAMS = "basic.meta:NotificationParams"
_EMPTY_RESULT = "basic.meta:EmptyResult"
_LIST_PARAMS = "basic.meta:PaginatedRequestParams"
_TASK_PARAMS = "extensions.tasks.types:TaskRequestParams"
_TASK = "extensions.tasks.types:Task"
_TASKS_EXTENSION = "extensions.io.modelcontextprotocol/tasks"

METHODS: Final = (
    # base protocol
    Method("initialize", "client", "basic.lifecycle:InitializeRequestParams", "basic.lifecycle:InitializeResult",
           until=R2026_07_28),
    Method("notifications/initialized", "client", _NOTIFICATION_PARAMS, until=R2026_07_28),
    Method("ping", "both", _REQUEST_PARAMS, _EMPTY_RESULT, until=R2026_07_28),
    Method("server/discover", "client", _REQUEST_PARAMS, "features.discover:DiscoverResult", since=R2026_07_28),
    Method("subscriptions/listen", "client", "basic.subscriptions:SubscriptionsListenRequestParams", _EMPTY_RESULT,
           since=R2026_07_28),
    Method("notifications/subscriptions/acknowledged", "server",
           "basic.subscriptions:SubscriptionsAcknowledgedNotificationParams", since=R2026_07_28),
    Method("notifications/cancelled", "both", "basic.cancellation:CancelledNotificationParams", since=R2024_11_05),
    Method("notifications/progress", "both", "basic.progress:ProgressNotificationParams"),
    # tasks: first an experiment, then an extension
    Method("tasks/get", "both", _TASK_PARAMS, _TASK, "tasks", since=R2025_11_25, until=R2026_07_28),
    Method("tasks/result", "both", _TASK_PARAMS, "extensions.tasks.types:GetTaskPayloadResult", "tasks",
           since=R2025_11_25, until=R2026_07_28),
    Method("tasks/list", "both", _LIST_PARAMS, "extensions.tasks.types:ListTasksResult", "tasks.list",
           since=R2025_11_25, until=R2026_07_28),
    Method("tasks/cancel", "both", _TASK_PARAMS, _TASK, "tasks.cancel", since=R2025_11_25, until=R2026_07_28),
    Method("notifications/tasks/status", "both", _TASK, capability="tasks", since=R2025_11_25, until=R2026_07_28),
    Method("tasks/get", "client", _TASK_PARAMS, _TASK, _TASKS_EXTENSION, since=R2026_07_28),
    Method("tasks/update", "client", "extensions.tasks.types:UpdateTaskRequestParams", _EMPTY_RESULT, _TASKS_EXTENSION,
           since=R2026_07_28),
    Method("tasks/cancel", "client", _TASK_PARAMS, _EMPTY_RESULT, _TASKS_EXTENSION, since=R2026_07_28),
    Method("notifications/tasks", "server", _TASK, capability=_TASKS_EXTENSION, since=R2026_07_28),
    # server features
    Method("tools/list", "client", _LIST_PARAMS, "features.tools:ListToolsResult", "tools"),
    Method("tools/call", "client", "features.tools:CallToolRequestParams", "features.tools:CallToolResult", "tools"),
    Method("notifications/tools/list_changed", "server", _NOTIFICATION_PARAMS, capability="tools.listChanged"),
    Method("resources/list", "client", _LIST_PARAMS, "features.resources:ListResourcesResult", "resources"),
    Method("resources/templates/list", "client", _LIST_PARAMS, "features.resources:ListResourceTemplatesResult",
           "resources"),
    Method("resources/read", "client", "features.resources:ReadResourceRequestParams",
           "features.resources:ReadResourceResult", "resources"),
    Method("resources/subscribe", "client", "features.resources:SubscribeRequestParams", _EMPTY_RESULT,
           "resources.subscribe", until=R2026_07_28),
    Method("resources/unsubscribe", "client", "features.resources:UnsubscribeRequestParams", _EMPTY_RESULT,
           "resources.subscribe", until=R2026_07_28),
    Method("notifications/resources/updated", "server", "features.resources:ResourceUpdatedNotificationParams",
           capability="resources.subscribe"),
    Method("notifications/resources/list_changed", "server", _NOTIFICATION_PARAMS, capability="resources.listChanged"),
    Method("prompts/list", "client", _LIST_PARAMS, "features.prompts:ListPromptsResult", "prompts"),
    Method("prompts/get", "client", "features.prompts:GetPromptRequestParams", "features.prompts:GetPromptResult",
           "prompts"),
    Method("notifications/prompts/list_changed", "server", _NOTIFICATION_PARAMS, capability="prompts.listChanged"),
    Method("completion/complete", "client", "features.completion:CompleteRequestParams",
           "features.completion:CompleteResult", "completions"),
    Method("logging/setLevel", "client", "features.logging:SetLevelRequestParams", _EMPTY_RESULT, "logging",
           until=R2026_07_28),
    Method("notifications/message", "server", "features.logging:LoggingMessageNotificationParams",
           capability="logging"),
    # client features: requests in the legacy era; in the modern era inside `inputRequests` (basic/mrtr.py)
    Method("roots/list", "server", _REQUEST_PARAMS, "features.roots:ListRootsResult", "roots", until=R2026_07_28),
    Method("notifications/roots/list_changed", "client", _NOTIFICATION_PARAMS, capability="roots.listChanged",
           until=R2026_07_28),
    Method("sampling/createMessage", "server", "features.sampling:CreateMessageRequestParams",
           "features.sampling:CreateMessageResult", "sampling", until=R2026_07_28),
    Method("elicitation/create", "server", "features.elicitation:ElicitRequestParams",
           "features.elicitation:ElicitResult", "elicitation", since=R2025_06_18, until=R2026_07_28),
    Method("notifications/elicitation/complete", "server",
           "features.elicitation:ElicitationCompleteNotificationParams", since=R2025_11_25, until=R2026_07_28),
)  # fmt: skip

_METHODS_BY_NAME: Final = {each.name: [row for row in METHODS if row.name == each.name] for each in METHODS}
"""The rows of each name. A name such as `tasks/get`, which changed its meaning, has several."""


def find_method(name: str, revision: Revision, sender: Literal["client", "server"]) -> Method | None:
    """Return the row of a method, or None if `sender` must not send it in this revision (error -32601)."""
    for method in _METHODS_BY_NAME.get(name, ()):
        if method.since <= revision and (method.until is None or revision < method.until):
            return method if method.sender in ("both", sender) else None
    return None
