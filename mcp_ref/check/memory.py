"""The memory of a dialogue: the facts that each message declares, begins and ends.

Rules judge a message by the state before it. Then `remember` updates the state.

Used by: conversation.py, exchanges.py
Below: state.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..basic.mrtr import request_digest
from ..basic.progress import progress_token
from ..basic.versioning import CLIENT_CAPABILITIES, SUBSCRIPTION_ID, is_stateless
from ..features.elicitation import URL_ELICITATION_REQUIRED
from ..jsonrpc.messages import METHOD_NOT_FOUND, Object, RequestId
from ..revisions import find_revision
from .recording import Side
from .state import LISTS, OTHER_SIDE, Call, Dialogue, Exchange, Message, SeenTask, Tool, an_object, objects

MAX_POLL_INTERVAL: Final = 2**31
"""Maximum `pollInterval` that is judged, in milliseconds, because JSON can have larger numbers than a float."""


def new_call(message: Message, exchange: Exchange | None) -> Call:
    """Return the call that a request begins."""
    capabilities = message.meta.get(CLIENT_CAPABILITIES) if is_stateless(message.body) else None
    assert message.id is not None
    return Call(
        message.event, message.id, message.method, message.body, message.side, message.revision,
        capabilities if isinstance(capabilities, dict) else None, exchange, progress_token(message.meta),
        size=message.size,
    )  # fmt: skip


def find_call(dialogue: Dialogue, side: Side, id: RequestId, exchange: Exchange | None) -> Call | None:
    """Return the request to which a response of `side` belongs."""
    if exchange is not None and side == "server":
        for request in exchange.requests:
            if request.id == id and request.call is not None:
                return request.call
        if exchange.dialogue.is_shared:
            return None
    call = dialogue.party(OTHER_SIDE[side]).calls.get(id)
    return None if call is not None and call.copies else call


def remember(message: Message, is_broken: bool = False) -> None:
    """Update the state of the dialogue with a message that has been judged.

    A notification that `is_broken`, which means that it does not fit its schema, has no effect.
    """
    dialogue, call = message.dialogue, message.call
    dialogue.first = dialogue.first or message.event
    if message.kind == "request" and call is not None:
        if not (dialogue.is_shared and message.exchange is not None):
            _begin(message, call)
    elif message.kind in ("result", "error"):
        _finish(message)
    update = _UPDATES.get((message.kind, message.method))
    if update is not None and not (is_broken and message.kind == "notification"):
        update(message)
    if message.kind in ("result", "error") and call is not None:
        call.shrink()


def forget(dialogue: Dialogue) -> None:
    """Forget all of a dialogue that lost events could contradict."""
    dialogue.is_whole = False
    if dialogue.revision is None:
        dialogue.modern = None  # a client that found no modern server can have begun a session
    for party in (dialogue.client, dialogue.server):
        for table in (party.calls, party.finished, party.tokens, party.finished_tokens):
            table.clear()
    dialogue.tools.clear()
    dialogue.tasks.clear()
    dialogue.log_level, dialogue.log_level_pending = None, False


def forget_refused(exchange: Exchange) -> None:
    """Forget the requests of a POST that HTTP refused, because its client can send them again with the same ids.

    A client does so after a redirect, with a new access token, or if the connection was lost before the response.
    """
    client = exchange.dialogue.client
    for request in exchange.requests:
        call = request.call
        if call is None:
            continue
        for table in (client.calls, client.finished):
            if table.get(call.id) is call:
                del table[call.id]
        if call.token is not None and client.tokens.get(call.token) is call:
            del client.tokens[call.token]


def _begin(message: Message, call: Call) -> None:
    dialogue, earlier = message.dialogue, message.sender.calls.get(call.id)
    if earlier is not None and earlier.cancelled is None:  # the id is used twice, so the responses look the same
        earlier.copies += 1
        return
    message.sender.calls[call.id] = call
    if call.token is not None:
        message.sender.tokens[call.token] = call
    is_late = dialogue.negotiated is not None and dialogue.initialized is None and message.side == "client"
    if is_late and dialogue.used_before_initialized is None and message.method not in ("ping", "initialize"):
        dialogue.used_before_initialized = message.event


def _finish(message: Message) -> None:
    dialogue, body, party, call = message.dialogue, message.body, message.receiver, message.call
    if call is not None:
        if party.calls.get(call.id) is call:
            del party.calls[call.id]
        if not dialogue.is_shared:
            party.finished[call.id] = call
            if call.token is not None and party.tokens.get(call.token) is call:
                party.finished_tokens[call.token] = party.tokens.pop(call.token)
        party.latest_answered = max(party.latest_answered, (call.event, message.event))
        if message.kind == "result" and ("resultType" in body or "supportedVersions" in body):
            dialogue.served_modern = message.event
    elif message.id is not None and message.id in party.calls:  # one of several requests with this id
        party.calls[message.id].copies -= 1
    if message.kind == "error" and body.get("code") == URL_ELICITATION_REQUIRED:
        for each in objects(an_object(body.get("data")).get("elicitations")):
            dialogue.elicitations[str(each.get("elicitationId"))] = message.event


def _initialize(message: Message) -> None:
    dialogue = message.dialogue
    if dialogue.initialize is not None and dialogue.is_ordered:  # a new session on the same pipe
        dialogue.initialized = dialogue.negotiated = dialogue.revision = dialogue.server.capabilities = None
        forget(dialogue)  # responses of the first session can still come
    dialogue.initialize, dialogue.modern = message.call, None
    dialogue.client.capabilities = _capabilities(message)


def _negotiated(message: Message) -> None:
    dialogue = message.dialogue
    dialogue.revision, dialogue.negotiated = find_revision(message.body.get("protocolVersion")), message.event
    dialogue.server.capabilities = _capabilities(message)


def _capabilities(message: Message) -> Object | None:
    declared = message.body.get("capabilities")
    return declared if isinstance(declared, dict) else None


def _initialized(message: Message) -> None:
    message.dialogue.initialized = message.event


def _asked_to_discover(message: Message) -> None:
    message.dialogue.discover = message.dialogue.discover or message.event


def _discover_refused(message: Message) -> None:
    if message.body.get("code") == METHOD_NOT_FOUND:
        message.dialogue.discover_refused = message.event


def _discovered(message: Message) -> None:
    capabilities = _capabilities(message)
    if message.dialogue.revision is None and capabilities is not None:
        message.dialogue.server.capabilities = capabilities


def _cancelled(message: Message) -> None:
    id = message.body.get("requestId")
    if isinstance(id, str | int):
        for party in (message.sender, message.receiver):
            call = party.calls.get(id)
            if call is not None and call.cancelled is None:
                call.cancelled = message.event


def _progress(message: Message) -> None:
    call, progress = call_of_token(message), message.body.get("progress")
    if call is not None and isinstance(progress, int | float):
        call.progress = progress


def call_of_token(message: Message) -> Call | None:
    """Return the request that a progress notification reports on, or None if no request in flight has its token."""
    token = message.body.get("progressToken")
    related = message.exchange.requests if message.exchange is not None else []
    for request in related:
        if request.call is not None and request.call.token == token:
            return request.call
    return message.receiver.tokens.get(token) if isinstance(token, str | int) else None


def _listed(message: Message) -> None:
    dialogue, call = message.dialogue, message.call
    cursor = message.body.get("nextCursor")
    if isinstance(cursor, str):
        dialogue.cursors[message.method, cursor] = message.event, message.body.get("cacheScope")
    if message.method != "tools/list":
        return
    if call is not None and call.is_known and call.params.get("cursor") is None:
        dialogue.tools.clear()
        dialogue.tools.forgot = False
    for tool in objects(message.body.get("tools")):
        name = tool.get("name")
        if isinstance(name, str):
            dialogue.tools[name] = Tool(message.event, tool)
    dialogue.tools_are_complete = cursor is None


def _tools_changed(message: Message) -> None:
    message.dialogue.tools.clear()
    message.dialogue.tools_are_complete = False


def _subscribed(message: Message) -> None:
    if message.call is not None and isinstance(uri := message.call.params.get("uri"), str):
        message.dialogue.subscribed[uri] = message.event


def _log_level(message: Message) -> None:
    dialogue = message.dialogue
    if message.kind == "request":
        dialogue.log_level_pending = True
    else:
        level = message.call.params.get("level") if message.call is not None else None
        dialogue.log_level = level if isinstance(level, str) else None
        dialogue.log_level_pending = False


def subscription_of(message: Message) -> Call | None:
    """Return the `subscriptions/listen` request to which a notification belongs."""
    if message.exchange is not None:
        calls = [request.call for request in message.exchange.requests if request.method == "subscriptions/listen"]
        return calls[0] if calls else None
    id = message.meta.get(SUBSCRIPTION_ID)
    call = message.receiver.calls.get(id) if isinstance(id, str | int) else None
    return call if call is not None and call.method == "subscriptions/listen" else None


def _acknowledged(message: Message) -> None:
    call = subscription_of(message)
    if call is not None:
        call.acknowledged = an_object(message.body.get("notifications"))


def _input_required(message: Message) -> None:
    call, state, dialogue = message.call, message.body.get("requestState"), message.dialogue
    if message.body.get("resultType") != "input_required" or call is None:
        return
    call.input_keys = tuple(an_object(message.body.get("inputRequests")))
    call.digest = request_digest(call.method, call.params)
    if isinstance(state, str):
        earlier = dialogue.states.get(state, call)
        is_same = earlier is not None and earlier.digest == call.digest
        dialogue.states[state] = call if is_same else None
    if not dialogue.is_shared:
        dialogue.input_rounds[call.digest] = message.event, isinstance(state, str)


def tasks_in(message: Message) -> list[Object]:
    """Return the tasks in a result or a notification."""
    body, task = message.body, message.body.get("task")
    if isinstance(body.get("tasks"), list):
        return list(objects(body["tasks"]))
    if isinstance(task, dict):
        return [task]
    return [body] if "taskId" in body and "status" in body else []


def _task_seen(message: Message) -> None:
    for task in tasks_in(message):
        id, status, interval = task.get("taskId"), task.get("status"), task.get("pollInterval")
        if not isinstance(id, str) or not isinstance(status, str):
            continue
        seen = message.dialogue.tasks.get(id)
        if seen is None:
            seen = message.dialogue.tasks[id] = SeenTask()
        seen.event, seen.status = message.event, status
        if isinstance(interval, int | float):
            seen.poll_interval = min(max(interval, 0), MAX_POLL_INTERVAL) / 1000
        if task is message.body.get("task") and message.kind == "result":
            seen.created = message.event


def _polled(message: Message) -> None:
    seen = message.dialogue.tasks.get(str(message.body.get("taskId")))
    if seen is not None:
        seen.polls = seen.polls[1], message.at


def _called(message: Message) -> None:
    _input_required(message)
    _task_seen(message)
    for task in tasks_in(message):
        if message.call is not None and isinstance(id := task.get("taskId"), str):
            message.call.task_id = id


def _elicitation(message: Message) -> None:
    if isinstance(id := message.body.get("elicitationId"), str):
        message.dialogue.elicitations[id] = message.event


def _task_result(message: Message) -> None:
    id = message.call.params.get("taskId") if message.call is not None else None
    seen = message.dialogue.tasks.get(str(id))
    if seen is not None:
        seen.event, seen.status = message.event, "over"


_UPDATES: dict[tuple[str, str], Callable[[Message], None]] = {
    ("request", "initialize"): _initialize,
    ("result", "initialize"): _negotiated,
    ("notification", "notifications/initialized"): _initialized,
    ("request", "server/discover"): _asked_to_discover,
    ("error", "server/discover"): _discover_refused,
    ("result", "server/discover"): _discovered,
    ("notification", "notifications/cancelled"): _cancelled,
    ("notification", "notifications/progress"): _progress,
    **{("result", method): _listed for method in LISTS},
    ("notification", "notifications/tools/list_changed"): _tools_changed,
    ("request", "resources/subscribe"): _subscribed,
    ("request", "logging/setLevel"): _log_level,
    ("result", "logging/setLevel"): _log_level,
    ("notification", "notifications/subscriptions/acknowledged"): _acknowledged,
    ("result", "prompts/get"): _input_required,
    ("result", "resources/read"): _input_required,
    **{("result", method): _called for method in ("tools/call", "sampling/createMessage", "elicitation/create")},
    **{("result", method): _task_seen for method in ("tasks/get", "tasks/cancel")},
    **{("notification", method): _task_seen for method in ("notifications/tasks/status", "notifications/tasks")},
    ("result", "tasks/result"): _task_result,
    ("request", "tasks/get"): _polled,
    ("request", "elicitation/create"): _elicitation,
}
"""Kind and method of a message -> the function that remembers it."""
