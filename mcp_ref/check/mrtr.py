"""Multi round-trip requests: results that ask for input, and the retries that bring it.

Spec:  2026-07-28 basic/patterns/mrtr
Used by: conversation.py
"""

from __future__ import annotations

from typing import Final

from ..basic.mrtr import INPUT_REQUESTS, MULTI_ROUND_TRIP_METHODS, request_digest
from ..codec import ShapeError
from ..jsonrpc.messages import Object
from ..revisions import load_type
from .masking import HIDDEN
from .rules import MUST, Fault, Verdict, modern_rule
from .shapes import decode
from .state import Call, Message, an_object, quoted

_PAGE: Final = "2026-07-28/basic/patterns/mrtr"


def asks_for_input(message: Message) -> bool:
    return message.body.get("resultType") == "input_required"


@modern_rule(MUST, f"{_PAGE}#supported-requests-1", "result", by="server")
def input_of_method(message: Message) -> Verdict:
    """Only tools/call, prompts/get and resources/read ask for input."""
    is_wrong = asks_for_input(message) and message.method not in MULTI_ROUND_TRIP_METHODS and message.method != ""
    return f"the {message.label} is input_required" if is_wrong else None


@modern_rule(MUST, f"{_PAGE}#server-requirements-basic-workflow-10", "result", by="server")
def input_or_state(message: Message) -> Verdict:
    """An input_required result has inputRequests or requestState."""
    is_wrong = asks_for_input(message) and message.body.keys().isdisjoint(("inputRequests", "requestState"))
    return f"the {message.label} has neither inputRequests nor requestState" if is_wrong else None


@modern_rule(MUST, f"{_PAGE}#server-requirements-basic-workflow-2", "result", by="server")
def input_requests(message: Message) -> Verdict:
    """An input request is an elicitation, a sampling request or a roots request."""
    for key, request in input_requests_of(message):
        method = request.get("method")
        if not isinstance(method, str) or method not in INPUT_REQUESTS:
            return f"the input request {quoted(key)} has the method {quoted(method)}"
        try:
            decode(message, load_type(INPUT_REQUESTS[method].params), request.get("params", {}))
        except ShapeError as error:
            return f"the params of the input request {quoted(key)} do not fit the schema: {error}"
    return None


def input_requests_of(message: Message) -> list[tuple[str, Object]]:
    """Return the keys and the requests for input in a result, without the requests that are hidden."""
    if not asks_for_input(message):
        return []
    requests = an_object(message.body.get("inputRequests"))
    return [(key, an_object(value)) for key, value in requests.items() if value != HIDDEN]


@modern_rule(MUST, f"{_PAGE}#server-requirements-basic-workflow-11", "result", by="server")
def input_is_declared(message: Message) -> Verdict:
    """A server asks only for input that the client declared to support."""
    for key, request in input_requests_of(message):
        method = INPUT_REQUESTS.get(str(request.get("method")))
        capability = method.capability if method is not None else None
        if capability is not None and message.client_lacks(capability):
            text = f"the input request {quoted(key)} needs {capability}, which the client did not declare"
            return Fault(text, key=capability)
    return None


def _first_round(message: Message) -> Call | None:
    """Return the request whose result gave the `requestState` that a retry has."""
    return message.dialogue.states.get(str(message.body.get("requestState")))


@modern_rule(MUST, f"{_PAGE}#client-requirements-basic-workflow-5", "request")
def retry_has_new_id(message: Message) -> Verdict:
    """A retry has a new id."""
    first = _first_round(message)
    if first is None or first.id != message.id:
        return None
    return Fault(f"the retry of {message.method} has the id {quoted(message.id)} of the first request", (first.event,))


@modern_rule(MUST, f"{_PAGE}#client-requirements-basic-workflow-6", "request")
def state_of_request(message: Message) -> Verdict:
    """A requestState belongs to one request."""
    first = _first_round(message)
    if first is None or request_digest(message.method, message.body) == first.digest:
        return None
    return Fault(f"the requestState of {first.method} comes with {message.method} and other params", (first.event,))


@modern_rule(MUST, f"{_PAGE}#client-requirements-basic-workflow-2", "request", needs="seen unshared", by="client")
def state_is_returned(message: Message) -> Verdict:
    """A retry has the requestState of the result, unchanged."""
    state, dialogue = message.body.get("requestState"), message.dialogue
    if state is None and "inputResponses" not in message.body:
        return None  # not a retry
    first_round = dialogue.input_rounds.get(request_digest(message.method, message.body))
    if first_round is None:  # any process can serve a retry, so another connection can have had the first round
        return None
    if isinstance(state, str):
        is_unknown = dialogue.states.lacks(state) and not message.masked
        return f"{message.method} has a requestState that no result has given" if is_unknown else None
    event, has_state = first_round
    return Fault(f"the retry of {message.method} lacks the requestState of the result", (event,)) if has_state else None


@modern_rule(MUST, f"{_PAGE}#client-requirements-basic-workflow-1", "request")
def input_is_complete(message: Message) -> Verdict:
    """A retry brings all the input that was asked for."""
    first, given = _first_round(message), an_object(message.body.get("inputResponses"))
    if first is None:
        return None
    missing = [key for key in first.input_keys if key not in given]
    if not missing:
        return None
    return Fault(f"the retry of {message.method} lacks the input {quoted(missing[0])}", (first.event,))
