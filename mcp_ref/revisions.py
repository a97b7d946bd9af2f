"""The six revisions of the protocol, as data. A revision is a dated version of the specification.

In the *legacy era*, up to 2025-11-25, a handshake opens a session, so a load balancer has to send all requests of a
client to one process, and if that crashes, the session is lost. In the *modern era*, from 2026-07-28 on, each request
is a *stateless request*, which carries its own revision and capabilities and can be served by any process.

2024-10-07  Pre-release: source code without a published specification. Lists have no pages.
2024-11-05  First release. Added: pagination, cancellation, content blocks and `isError` in tool results, annotations
            of content (audience, priority), `instructions`
2025-03-26  Added: Streamable HTTP; OAuth 2.1 authorization; batches (MAY send, MUST receive); tool annotations; audio;
            `message` in progress; capability `completions`; rules for time limits
    deprecated: HTTP+SSE (use Streamable HTTP, which has one endpoint and opens streams only when needed)
2025-06-18  Added: structured tool output (programs read it without parsing text); elicitation (a server asks the user);
            resource links; `title` for display beside the identifier `name`; rules for `_meta` keys; `context` in
            completion; header MCP-Protocol-Version; resource indicators (MUST), so that a malicious server cannot get
            a token for another server; protected resource metadata
    changed: both sides MUST (before: SHOULD) respect the negotiated revision and capabilities
    removed: batches
2025-11-25  Added: URL elicitation (the user enters secrets on a web page, which client and model do not see); tools in
            sampling; tasks (experimental); icons; more defaults and multiple choice in forms; stream polling (a server
            can close a connection while a request runs); Client ID Metadata Documents, OpenID discovery;
            scope step-up (a client asks for more scopes); JSON Schema 2020-12 by default; rules for tool names
    changed: invalid tool arguments give a result with `isError` (features/tools.py); a forbidden Origin gives HTTP 403
    deprecated: `includeContext` values "thisServer" and "allServers" (omit the field)
2026-07-28  Added: `server/discover`; `resultType`; headers Mcp-Method, Mcp-Name, Mcp-Param-*, so that gateways need not
            read bodies; cache hints `ttlMs`, `cacheScope`; `extensions`; any JSON as structured content; error codes
            -32020 to -32022
    replaced (old -> new): initialize, sessions -> `_meta` in each request; requests of the server -> multi round-trip
            requests; resources/subscribe, GET stream -> subscriptions/listen; logging/setLevel -> `logLevel` in
            `_meta`; tasks in the core -> tasks extension; error code -32002 -> -32602; notifications/cancelled on HTTP
            -> the client closes the stream
    changed: lists do not depend on the connection or earlier requests; error codes -32000 to -32019 get no new meanings
    removed: ping, stream resumption (Last-Event-ID), error code -32042, notifications/roots/list_changed,
            notifications/elicitation/complete
    deprecated, not removed before 2027-07-28 (old -> new): roots -> tool parameters; sampling -> API of the model's
            provider; logging -> stderr, OpenTelemetry; dynamic client registration -> Client ID Metadata Documents
[2025-03-26 changelog#major-changes] [2025-06-18 changelog#major-changes] [2025-11-25 changelog#major-changes]
[2026-07-28 changelog#major-changes] [2026-07-28 changelog#deprecated]

Each kind of difference has one place: the methods are in the table `METHODS`, behaviors are fields of `Revision`, which
other modules test instead of comparing dates, and the fields of messages have an `Availability`, which codec.py reads.
`python3 -m mcp_ref revisions` prints these differences.

Spec:  basic/versioning (2026-07-28), basic/lifecycle#version-negotiation (legacy), the changelogs
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, cast

Era = Literal["legacy", "modern"]  # with handshake or stateless requests [2026-07-28 basic/versioning#terminology]


@dataclass(frozen=True, slots=True, eq=False)
class Revision:
    """One revision. `index` is its position in `REVISIONS`. A field is True if its name holds (see its comment)."""

    index: int
    name: str
    era: Era = "legacy"
    batch: bool = False  # a frame can be an array of messages [2025-03-26 basic/index#batching]
    error_id_optional: bool = False  # an unreadable id is omitted, not null [2025-11-25 basic/index#error-responses]
    pagination: bool = True  # lists come in pages, with cursors [2024-11-05 server/utilities/pagination]
    tool_result_is_any_json: bool = False  # in the member `toolResult`, instead of content blocks
    structured_results: bool = True  # tools can have output schemas [2025-06-18 server/tools#structured-content]
    structured_content_is_any_json: bool = False  # not only an object [2026-07-28 server/tools#structured-content]
    invalid_arguments_are_results: bool = False  # of tools, with `isError` [2025-11-25 server/tools#error-handling]
    completions_are_declared: bool = True  # by servers [2025-03-26 server/utilities/completion#capabilities]
    elicitation_modes: bool = False  # clients declare them: form, URL [2025-11-25 client/elicitation#capabilities]
    sampling_tools: bool = False  # sampling requests can have tools [2025-11-25 client/sampling#tools-in-sampling]
    server_can_close_streams: bool = False  # before the response, after which the client reconnects and resumes
    # [2025-11-25 basic/transports#sending-messages-to-the-server]
    version_header: bool = True  # on HTTP, except in `initialize` [2025-06-18 basic/transports#protocol-version-header]
    authorization_at_origin: bool = False  # a server can be its own authorization server, without metadata
    # [2025-03-26 basic/authorization#fallbacks-for-servers-without-metadata-discovery]
    built_in_tasks: bool = False  # tasks are not an extension [2025-11-25 basic/utilities/tasks#capabilities]
    resource_not_found_code: int = -32002  # for an unknown resource [2025-11-25 server/resources#error-handling]

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
R2025_03_26: Final = Revision(
    2, "2025-03-26", batch=True, structured_results=False, version_header=False,
    authorization_at_origin=True)  # fmt: skip
R2025_06_18: Final = Revision(3, "2025-06-18")
R2025_11_25: Final = Revision(
    4, "2025-11-25", error_id_optional=True, invalid_arguments_are_results=True, elicitation_modes=True,
    sampling_tools=True, server_can_close_streams=True, built_in_tasks=True)  # fmt: skip
R2026_07_28: Final = Revision(
    5, "2026-07-28", era="modern", error_id_optional=True, structured_content_is_any_json=True,
    invalid_arguments_are_results=True, elicitation_modes=True, sampling_tools=True,
    resource_not_found_code=-32602)  # fmt: skip

REVISIONS: Final = (R2024_10_07, R2024_11_05, R2025_03_26, R2025_06_18, R2025_11_25, R2026_07_28)  # oldest first
LEGACY: Final = tuple(revision for revision in REVISIONS if revision.era == "legacy")
"""The revisions that `initialize` can negotiate, oldest first."""
LATEST_LEGACY: Final = LEGACY[-1]
REVISIONS_BY_NAME: Final = {revision.name: revision for revision in REVISIONS}


def find_revision(name: object) -> Revision | None:
    return REVISIONS_BY_NAME.get(name) if type(name) is str else None


def revision_named(name: str) -> Revision:
    """Return the revision of that name. Raise ValueError, which lists the known names, if the name is unknown."""
    revision = find_revision(name)
    if revision is None:
        raise ValueError(f"unknown protocol revision {name!r}; the known revisions are {', '.join(REVISIONS_BY_NAME)}")
    return revision


def sorted_revisions(revisions: Sequence[Revision | str]) -> list[Revision]:
    """Return the revisions, oldest first. Raise ValueError for an empty list or an unknown name."""
    if isinstance(revisions, str | Revision):
        raise TypeError(f"revisions must be a list, such as [{str(revisions)!r}], even for one revision")
    chosen = sorted({each if isinstance(each, Revision) else revision_named(each) for each in revisions})
    if not chosen:
        raise ValueError(f"revisions must not be empty; the known revisions are {', '.join(REVISIONS_BY_NAME)}")
    return chosen


class NotInRevision(ValueError):
    """The error for a message that was not sent, because the peer's revision has no way to express it."""


class Availability(NamedTuple):
    """The revisions that have a field or a dataclass. That of a dataclass is its class attribute `availability`.

    Args:
        since: first revision with the field or type; None for the oldest revision.
        until: first revision without the field or type; None if the latest revision has it.
        if_unsupported: "drop" to leave out a field that the peer's revision lacks, but to read it if the peer sends it;
            "ignore" to drop it in both directions; "refuse" to raise `NotInRevision`, as its loss changes the meaning.
        required_since: first revision that requires the field, which is optional in earlier ones.
        fallback: function that converts an object of a type that the revision lacks to one that the revision has.
    """

    since: Revision | None = None
    until: Revision | None = None
    if_unsupported: Literal["drop", "refuse", "ignore"] = "drop"
    required_since: Revision | None = None
    fallback: Callable[[Any], object] | None = None

    def covers(self, revision: Revision) -> bool:
        return (self.since is None or self.since <= revision) and (self.until is None or revision < self.until)

    def requires(self, revision: Revision) -> bool:
        return self.required_since is not None and self.required_since <= revision and self.covers(revision)


PYTHON_ONLY: Final = Availability(since=R2024_10_07, until=R2024_10_07)  # for a field that is never sent to a peer


class Method(NamedTuple):
    """A request method or notification method, in the revisions from `since` (included) to `until` (excluded).

    Args:
        sender: role that sends the request or notification.
        params: dataclass of the params, as `module:Class`, whose module is imported on first use.
        result: dataclass of the result, as `module:Class`; None for a notification.
        capability: capability that the receiver of a request, or the sender of a notification, must have declared.
    """

    name: str
    sender: Literal["client", "server", "both"]
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
_TASK_EXTENSION = "extensions.io.modelcontextprotocol/tasks"

_legacy = functools.partial(Method, until=R2026_07_28)
_modern = functools.partial(Method, since=R2026_07_28)
_only_2025_11_25 = functools.partial(Method, since=R2025_11_25, until=R2026_07_28)

METHODS: Final = (
    # base protocol
    _legacy("initialize", "client", "basic.lifecycle:InitializeRequestParams", "basic.lifecycle:InitializeResult"),
    _legacy("notifications/initialized", "client", _NOTIFICATION_PARAMS),
    _legacy("ping", "both", _REQUEST_PARAMS, _EMPTY_RESULT),
    _modern("server/discover", "client", _REQUEST_PARAMS, "features.discover:DiscoverResult"),
    _modern("subscriptions/listen", "client", "basic.subscriptions:SubscriptionsListenRequestParams", _EMPTY_RESULT),
    _modern("notifications/subscriptions/acknowledged", "server",
            "basic.subscriptions:SubscriptionsAcknowledgedNotificationParams"),
    Method("notifications/cancelled", "both", "basic.cancellation:CancelledNotificationParams", since=R2024_11_05),
    Method("notifications/progress", "both", "basic.progress:ProgressNotificationParams"),
    # tasks: in 2025-11-25 part of the protocol, from 2026-07-28 an extension
    _only_2025_11_25("tasks/get", "both", _TASK_PARAMS, _TASK, "tasks"),
    _only_2025_11_25("tasks/result", "both", _TASK_PARAMS, "extensions.tasks.types:GetTaskPayloadResult", "tasks"),
    _only_2025_11_25("tasks/list", "both", _LIST_PARAMS, "extensions.tasks.types:ListTasksResult", "tasks.list"),
    _only_2025_11_25("tasks/cancel", "both", _TASK_PARAMS, _TASK, "tasks.cancel"),
    _only_2025_11_25("notifications/tasks/status", "both", _TASK, None, "tasks"),
    _modern("tasks/get", "client", _TASK_PARAMS, _TASK, _TASK_EXTENSION),
    _modern("tasks/update", "client", "extensions.tasks.types:UpdateTaskRequestParams", _EMPTY_RESULT, _TASK_EXTENSION),
    _modern("tasks/cancel", "client", _TASK_PARAMS, _EMPTY_RESULT, _TASK_EXTENSION),
    _modern("notifications/tasks", "server", _TASK, None, _TASK_EXTENSION),
    # server features
    Method("tools/list", "client", _LIST_PARAMS, "features.tools:ListToolsResult", "tools"),
    Method("tools/call", "client", "features.tools:CallToolRequestParams", "features.tools:CallToolResult", "tools"),
    Method("notifications/tools/list_changed", "server", _NOTIFICATION_PARAMS, None, "tools.listChanged"),
    Method("resources/list", "client", _LIST_PARAMS, "features.resources:ListResourcesResult", "resources"),
    Method("resources/templates/list", "client", _LIST_PARAMS, "features.resources:ListResourceTemplatesResult",
           "resources"),
    Method("resources/read", "client", "features.resources:ReadResourceRequestParams",
           "features.resources:ReadResourceResult", "resources"),
    _legacy("resources/subscribe", "client", "features.resources:SubscribeRequestParams", _EMPTY_RESULT,
            "resources.subscribe"),
    _legacy("resources/unsubscribe", "client", "features.resources:UnsubscribeRequestParams", _EMPTY_RESULT,
            "resources.subscribe"),
    Method("notifications/resources/updated", "server", "features.resources:ResourceUpdatedNotificationParams", None,
           "resources.subscribe"),
    Method("notifications/resources/list_changed", "server", _NOTIFICATION_PARAMS, None, "resources.listChanged"),
    Method("prompts/list", "client", _LIST_PARAMS, "features.prompts:ListPromptsResult", "prompts"),
    Method("prompts/get", "client", "features.prompts:GetPromptRequestParams", "features.prompts:GetPromptResult",
           "prompts"),
    Method("notifications/prompts/list_changed", "server", _NOTIFICATION_PARAMS, None, "prompts.listChanged"),
    Method("completion/complete", "client", "features.completion:CompleteRequestParams",
           "features.completion:CompleteResult", "completions"),
    _legacy("logging/setLevel", "client", "features.logging:SetLevelRequestParams", _EMPTY_RESULT, "logging"),
    Method("notifications/message", "server", "features.logging:LoggingMessageNotificationParams", None, "logging"),
    # client features: in the modern era, these requests are in `inputRequests` of a result (basic/mrtr.py)
    _legacy("roots/list", "server", _REQUEST_PARAMS, "features.roots:ListRootsResult", "roots"),
    _legacy("notifications/roots/list_changed", "client", _NOTIFICATION_PARAMS, None, "roots.listChanged"),
    _legacy("sampling/createMessage", "server", "features.sampling:CreateMessageRequestParams",
            "features.sampling:CreateMessageResult", "sampling"),
    _legacy("elicitation/create", "server", "features.elicitation:ElicitRequestParams",
            "features.elicitation:ElicitResult", "elicitation", since=R2025_06_18),
    _legacy("notifications/elicitation/complete", "server",
            "features.elicitation:ElicitationCompleteNotificationParams", since=R2025_11_25),
)  # fmt: skip

_METHODS_BY_REVISION: Final = {
    revision: {each.name: each for each in METHODS
               if each.since <= revision and (each.until is None or revision < each.until)}
    for revision in REVISIONS
}  # fmt: skip
"""The methods of each revision, by name. A method that has changed, such as `tasks/get`, is in `METHODS` twice."""

SPECIFIED: Final = frozenset(method.name for method in METHODS)
"""The method names of all revisions. All others are custom methods (features/custom_methods.py)."""


@functools.lru_cache(maxsize=256)
def load_type(path: str) -> type:
    """Import the module in a path such as `features.tools:Tool`, and return the dataclass after the colon."""
    module, _, name = path.partition(":")
    return cast(type, getattr(importlib.import_module(f".{module}", __package__), name))


def find_method(name: str, revision: Revision, sender: Literal["client", "server"]) -> Method | None:
    """Return a method as this revision defines it, or None if `sender` MUST NOT send it there."""
    method = _METHODS_BY_REVISION[revision].get(name)
    return method if method is not None and method.sender in ("both", sender) else None
