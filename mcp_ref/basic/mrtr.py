"""Multi round-trip requests: a server that needs to know something says so in its result, and is asked again.

There are no requests from server to client in this era. A handler that asks the user, `await context.elicit(...)`, ends
the call with an `input_required` result that holds the question; the client answers it by sending the request again,
with the answer. The handler runs anew, from its first line, and this time finds the answer at hand.

    tools/call                                 -> input_required: {"1": elicitation/create}, state
    tools/call, answers: {"1": ...}, state     -> complete

Nothing is kept in between. What was answered in earlier rounds travels in `requestState`, which the client gives back
as it is. It may be anybody's, so it is sealed: with a key, an expiry, whose it is, and the request that it belongs to.

Spec:  2026-07-28 basic/patterns/mrtr
Above: runtime/context.py asks; runtime/stateless.py serves. Below: the standard library's hmac
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from dataclasses import dataclass
from typing import Final

from ..jsonrpc.errors import InvalidMessage, ProtocolError
from ..jsonrpc.messages import INVALID_PARAMS, JSON, Object

STATE_SECONDS: Final = 900
"""Seconds that a state may be given back: as long as a person may take to answer."""

MAX_STATE: Final = 1024 * 1024
"""Characters of a state (1 Mi); a longer one is neither given nor read."""

METHODS: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
"""[2026-07-28 basic/patterns/mrtr#supported-requests] MUST NOT be used for any other request"""


class InputRequired(BaseException):
    """The request cannot be served before the client has answered. Not an Exception, so that
    a handler's `except Exception` lets it pass.

    requests: key -> {"method": ..., "params": ...}
    """

    def __init__(self, requests: dict[str, Object]) -> None:
        super().__init__(f"{len(requests)} questions to the client")
        self.requests = requests


def merge_input_required(group: BaseExceptionGroup[BaseException]) -> InputRequired | None:
    """All questions of a group that failed for nothing else, in one."""
    found, others = group.split(InputRequired)
    if found is None or others is not None:
        return None
    requests: dict[str, Object] = {}
    waiting: list[BaseException] = [found]
    while waiting:
        error = waiting.pop(0)
        if isinstance(error, BaseExceptionGroup):
            waiting.extend(error.exceptions)
        elif isinstance(error, InputRequired):
            requests.update(error.requests)
    return InputRequired(requests)


def request_digest(method: str, params: Object) -> str:
    """What tells one request from another: its method and params, without what changes from round to round."""
    same = {name: value for name, value in params.items() if name not in ("_meta", "inputResponses", "requestState")}
    text = json.dumps([method, same], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def seal(key: bytes, answers: Object, request: str, principal: str | None, now: float) -> str:
    """A state that holds answers, in whatever form. request: its `digest`. now: seconds since the epoch.

    Raises ProtocolError for answers that are too long to be carried back.
    """
    payload: Object = {
        "answers": answers,
        "for": _belonging(request, principal),
        "until": int(now) + STATE_SECONDS,
    }
    text = _encoded(json.dumps(payload, separators=(",", ":")).encode())
    state = f"{text}.{_encoded(_signature(key, text))}"
    if len(state) > MAX_STATE:
        raise ProtocolError(INVALID_PARAMS, "Invalid params: the answers so far are too long; none more can be asked")
    return state


def unseal(key: bytes, state: JSON, request: str, principal: str | None, now: float) -> Object:
    """The answers in a state. Raises ProtocolError for one that is not ours, or not for this request."""
    # [2026-07-28 basic/patterns/mrtr#server-requirements-basic-workflow] MUST treat it as attacker-controlled input
    if not isinstance(state, str) or len(state) > MAX_STATE:
        raise ProtocolError(INVALID_PARAMS, "Invalid params: requestState is not one that this server has given")
    text, _, signature = state.partition(".")
    if not hmac.compare_digest(_encoded(_signature(key, text)).encode(), signature.encode("utf-8", "replace")):
        raise ProtocolError(INVALID_PARAMS, "Invalid params: requestState is not one that this server has given")
    payload = json.loads(base64.urlsafe_b64decode(text))  # we have signed it, so it is as `seal` wrote it
    # the same page: SHOULD verify the principal, an expiry, and the request
    if payload["for"] != _belonging(request, principal):
        raise ProtocolError(INVALID_PARAMS, "Invalid params: requestState belongs to another request")
    if payload["until"] < now:
        raise ProtocolError(INVALID_PARAMS, "Invalid params: requestState has expired; send the request anew")
    answers: Object = payload["answers"]
    return answers


def _belonging(request: str, principal: str | None) -> str:
    """Which request it is for, and whose. The client can read a state, and need not learn how we call its user."""
    return hashlib.sha256(json.dumps([request, principal]).encode()).hexdigest()


def _signature(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode("utf-8", "replace"), "sha256")


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode()


# ---------------------------------------------------------------------------------------------------- client

MAX_ROUNDS: Final = 16
"""Rounds of questions that a client answers for one request, before it gives up."""

MAX_INPUT_REQUESTS: Final = 100
"""Questions that a client answers in one round."""


@dataclass(frozen=True, slots=True)
class InputRequest:
    """What a server asks of a client in the course of a request."""

    method: str
    params: Object


def read_input_requests(result: Object) -> dict[str, InputRequest]:
    """What an `input_required` result asks, by key; empty where it asks nothing but to be called again.

    Raises InvalidMessage.
    """
    requests, state = result.get("inputRequests"), result.get("requestState")
    if requests is None and isinstance(state, str):
        return {}
    if state is not None and not isinstance(state, str):
        raise InvalidMessage("the result has a requestState that is no string")
    if not isinstance(requests, dict):
        # [2026-07-28 basic/patterns/mrtr#server-requirements-basic-workflow] MUST include at least one of the two
        raise InvalidMessage("the result says input_required, but has neither inputRequests nor requestState")
    if len(requests) > MAX_INPUT_REQUESTS:
        raise InvalidMessage(f"the result asks {len(requests)} questions at once; {MAX_INPUT_REQUESTS} are answered")
    questions = {}
    for key, request in requests.items():
        method = request.get("method") if isinstance(request, dict) else None
        params = request.get("params", {}) if isinstance(request, dict) else None
        if not isinstance(method, str) or not isinstance(params, dict):
            raise InvalidMessage(f"inputRequests.{key[:80]} is no request: it has a method, and params")
        questions[key] = InputRequest(method, params)
    return questions


def retry_params(params: Object, result: Object, answers: Object) -> Object:
    """The params of the retry: those of the request, the answers, and the state, as it was given."""
    again = {name: value for name, value in params.items() if name not in ("inputResponses", "requestState")}
    if answers:
        again["inputResponses"] = answers
    # [2026-07-28 basic/patterns/mrtr#client-requirements-basic-workflow] MUST echo it; MUST NOT include one if none
    if result.get("requestState") is not None:
        again["requestState"] = result["requestState"]
    return again
