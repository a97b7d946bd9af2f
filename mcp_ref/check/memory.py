"""The memory of a dialogue: the declarations of each message, and the requests and tasks that it begins or ends.

Rules judge a message by the state before it. Then `remember` updates the state.

Used by: reader.py, exchanges.py, conversation.py, and the modules that follow a token, a subscription or a task
"""

from __future__ import annotations

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
"""Maximum `pollInterval`, in milliseconds. Larger ones count as this, because an integer may not fit in a float."""


def new_call(message: Message) -> Call:
    """Return the call that a request begins."""
    capabilities = message.meta.get(CLIENT_CAPABILITIES) if is_stateless(message.body) else None
    assert message.id is not None
    return Call(
        event=message.event, id=message.id, method=message.method, params=message.body, sender=message.side,
        revision=message.revision, capabilities=capabilities if isinstance(capabilities, dict) else None,
        exchange=message.exchange, token=progress_token(message.meta), masked=message.masked, size=message.size,
    )  # fmt: skip


def find_call(dialogue: Dialogue, side: Side, id: RequestId | None, exchange: Exchange | None) -> Call | None:
    """Return the request to which a response of `side` belongs, or None if that is not clear."""
    if exchange is not None and side == "server":
        for request in exchange.requests:  # a response most often comes to the POST of its request
            if request.id == id and request.call is not None:
                return request.call
        if exchange.dialogue.is_shared:
            return None  # several clients may use the same id
    call = dialogue.party(OTHER_SIDE[side]).calls.find(id)
    if call is not None and call.copies:
        return None  # several requests in flight have this id
    return call


def remember(message: Message, is_broken: bool) -> None:
    """Update the state of the dialogue with a message that has been judged.

    If `is_broken`, the message does not fit its schema; such a notification changes nothing.
    """
    dialogue, call = message.dialogue, message.call
    dialogue.first_event = dialogue.first_event or message.event
    if message.kind == "request" and call is not None:
        # clients that share an HTTP endpoint can use the same ids
        has_unique_id = not dialogue.is_shared or message.exchange is None
        if has_unique_id:
            _begin(message, call)
        _remember_request(message)
    elif message.kind == "notification" and not is_broken:
        _remember_notification(message)
    elif message.is_response:
        _finish(message)
        if message.kind == "result" and call is not None:
            _remember_result(message, call)
        if call is not None:
            call.shrink()


def forget(dialogue: Dialogue) -> None:
    """Forget everything that lost events may have changed."""
    dialogue.is_fully_seen = False
    if dialogue.revision is None:
        # the lost events may hold the `initialize` of a client that found no modern server
        dialogue.modern_revision = None
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
    if earlier is not None and earlier.cancelled_event is None:  # used twice, so the responses look the same
        earlier.copies += 1
        return
    message.sender.calls[call.id] = call
    if call.token is not None:
        message.sender.tokens[call.token] = call
    is_early = dialogue.negotiated_event is not None and dialogue.initialized_event is None and message.side == "client"
    if is_early and dialogue.early_request_event is None and message.method not in ("ping", "initialize"):
        dialogue.early_request_event = message.event


def _finish(message: Message) -> None:
    """Remember the end of a request, and the facts about the server that its response shows."""
    dialogue, body, call = message.dialogue, message.body, message.call
    if call is not None:
        _finish_call(call, message)
        if message.kind == "result" and ("resultType" in body or "supportedVersions" in body):
            dialogue.served_modern_event = message.event
    elif message.id is not None and message.id in message.receiver.calls:  # `find_call` found several
        message.receiver.calls[message.id].copies -= 1
    if message.method == "server/discover" and message.code == METHOD_NOT_FOUND:
        dialogue.discover_refused_event = message.event
    if message.code == URL_ELICITATION_REQUIRED:
        for each in objects(an_object(body.get("data")).get("elicitations")):
            dialogue.elicitations[str(each.get("elicitationId"))] = message.event


def _finish_call(call: Call, response: Message) -> None:
    requester = response.receiver
    call.is_answered = True
    if requester.calls.get(call.id) is call:
        del requester.calls[call.id]
    if not response.dialogue.is_shared:
        requester.finished[call.id] = call
        if call.token is not None and requester.tokens.get(call.token) is call:
            requester.finished_tokens[call.token] = requester.tokens.pop(call.token)
    requester.latest_answered = max(requester.latest_answered, (call.event, response.event))


def _remember_request(message: Message) -> None:
    dialogue, body = message.dialogue, message.body
    match message.method:
        case "initialize":
            if dialogue.initialize is not None and dialogue.is_ordered:  # a new session on the same pipe
                dialogue.initialized_event = dialogue.negotiated_event = None
                dialogue.revision = dialogue.server.capabilities = None
                forget(dialogue)  # so that late responses of the first session are not reported as unknown
            dialogue.initialize, dialogue.modern_revision = message.call, None
            dialogue.client.capabilities = _capabilities(body)
        case "server/discover":
            dialogue.discover_event = dialogue.discover_event or message.event
        case "logging/setLevel":
            dialogue.log_level_pending = True
        case "tasks/get":
            task = dialogue.tasks.get(str(body.get("taskId")))
            if task is not None:
                task.poll_before_last, task.last_poll = task.last_poll, message.at
        case "elicitation/create":
            id = body.get("elicitationId")
            if isinstance(id, str):
                dialogue.elicitations[id] = message.event


def _remember_notification(message: Message) -> None:
    dialogue, body = message.dialogue, message.body
    match message.method:
        case "notifications/initialized":
            dialogue.initialized_event = message.event
        case "notifications/cancelled":
            # A side that cancels a request of the other side breaks a rule, but has said that no response comes.
            for party in (message.sender, message.receiver):
                call = party.calls.find(body.get("requestId"))
                if call is not None and call.cancelled_event is None:
                    call.cancelled_event = message.event
        case "notifications/progress":
            call, progress = call_of_token(message), body.get("progress")
            if call is not None and isinstance(progress, int | float):
                call.progress = progress
        case "notifications/tools/list_changed":
            dialogue.tools.clear()
            dialogue.tools_are_complete = False
        case "notifications/subscriptions/acknowledged":
            subscription = subscription_of(message)
            if subscription is not None:
                subscription.acknowledged = an_object(body.get("notifications"))
        case "notifications/tasks/status" | "notifications/tasks":
            _remember_tasks(message)


def _remember_result(message: Message, call: Call) -> None:
    dialogue, body = message.dialogue, message.body
    match message.method:
        case "initialize":
            dialogue.revision, dialogue.negotiated_event = find_revision(body.get("protocolVersion")), message.event
            dialogue.server.capabilities = _capabilities(body)
        case "server/discover":
            if dialogue.revision is None and _capabilities(body) is not None:
                dialogue.server.capabilities = _capabilities(body)
        case "resources/subscribe":
            dialogue.subscribed[str(call.params.get("uri"))] = message.event
        case "logging/setLevel":
            level = call.params.get("level")
            dialogue.log_level = level if isinstance(level, str) else None
            dialogue.log_level_pending = False
        case "tools/call" | "sampling/createMessage" | "elicitation/create":
            _remember_input_required(message, call)
            _remember_tasks(message)
            for task in tasks_in(message):
                id = task.get("taskId")
                if isinstance(id, str):
                    call.task_id = id
        case "prompts/get" | "resources/read":
            _remember_input_required(message, call)
        case "tasks/get" | "tasks/cancel":
            _remember_tasks(message)
        case "tasks/result":
            seen = dialogue.tasks.get(str(call.params.get("taskId")))
            if seen is not None:
                seen.event, seen.status = message.event, "over"
        case method if method in LISTS:
            _remember_page(message, call)


def _capabilities(body: Object) -> Object | None:
    declared = body.get("capabilities")
    return declared if isinstance(declared, dict) else None


def _remember_page(message: Message, call: Call) -> None:
    dialogue, cursor = message.dialogue, message.body.get("nextCursor")
    if isinstance(cursor, str):
        dialogue.cursors[message.method, cursor] = message.event, message.body.get("cacheScope")
    if message.method != "tools/list":
        return
    if call.has_known_params and call.params.get("cursor") is None:
        dialogue.tools.clear()
        dialogue.tools.forgot = False  # the first page begins a list of which nothing is forgotten
    for tool in objects(message.body.get("tools")):
        name = tool.get("name")
        if isinstance(name, str):
            dialogue.tools[name] = Tool(message.event, name, tool)
    dialogue.tools_are_complete = cursor is None


def _remember_input_required(message: Message, call: Call) -> None:
    state, dialogue = message.body.get("requestState"), message.dialogue
    if message.body.get("resultType") != "input_required":
        return
    call.input_keys = tuple(an_object(message.body.get("inputRequests")))
    call.digest = request_digest(call.method, call.params)
    if isinstance(state, str):
        earlier = dialogue.states.get(state, call)  # `call` for a new state; None if different calls got this state
        is_of_one_call = earlier is not None and earlier.digest == call.digest
        dialogue.states[state] = call if is_of_one_call else None
    if not dialogue.is_shared:
        dialogue.input_rounds[call.digest] = message.event, isinstance(state, str)


def _remember_tasks(message: Message) -> None:
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
        if task is message.body.get("task") and message.kind == "result":  # a `CreateTaskResult`
            seen.created_event = message.event


def tasks_in(message: Message) -> list[Object]:
    """Return the tasks in a result or a notification."""
    body, task = message.body, message.body.get("task")
    if isinstance(body.get("tasks"), list):
        return list(objects(body["tasks"]))
    if isinstance(task, dict):
        return [task]
    return [body] if "taskId" in body and "status" in body else []


def call_of_token(message: Message) -> Call | None:
    """Return the request that a progress notification reports on, or None if no request in flight has its token."""
    token = message.body.get("progressToken")
    for request in message.exchange.requests if message.exchange is not None else ():
        if request.call is not None and request.call.token == token:
            return request.call
    return message.receiver.tokens.find(token)


def subscription_of(message: Message) -> Call | None:
    """Return the `subscriptions/listen` request to which a notification belongs."""
    if message.exchange is not None:
        return message.exchange.subscription
    call = message.receiver.calls.find(message.meta.get(SUBSCRIPTION_ID))
    return call if call is not None and call.method == "subscriptions/listen" else None
