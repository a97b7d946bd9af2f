"""Multi round-trip requests (MRTR): a server that needs input returns a request for it, and the client calls again.

    tools/call                                          -> input_required: {"1": elicitation/create}, requestState
    tools/call, inputResponses {"1": ...}, requestState -> complete

Up to revision 2025-11-25, the server sent its own requests to the client, on a stream that it held open. Behind a load
balancer the response could reach another process, so servers needed shared storage. Now the requests travel in a
result, the handler ends, and any process can serve the retry. On the retry, the handler runs again from its first line.
Its `await context.elicit(...)` then returns the response, so side effects before that line happen twice.
[2026-07-28 basic/patterns/mrtr#intro]

The server keeps nothing: responses of earlier rounds travel in `requestState`, which the client MUST return unchanged
and MUST NOT read. So it is attacker-controlled input. `sign_state` signs it (without encryption), against:
    a forged or altered state (to skip a consent)               HMAC-SHA256 (MUST protect its integrity, MUST reject it)
    a state stolen from another user                            it contains a digest of the principal (SHOULD)
    a state of another request (consent to a smaller payment)   it contains a digest of method and params (SHOULD)
    an old state                                                it expires after `STATE_SECONDS` (SHOULD)
Until then, a client can send the same state twice. If a second use would do harm, the server MUST remember which states
it has accepted. [2026-07-28 basic/patterns/mrtr#server-requirements-basic-workflow]

    requests    only tools/call, prompts/get and resources/read may get an `input_required` result (MUST)
    result      `inputRequests`, `requestState` or both (MUST); it requests only features the client declared (MUST)
    inputs      elicitation/create, sampling/createMessage, roots/list, without id
    retry       the same params, a different id (MUST), `requestState` only if the result had one (MUST)
    server      asks again for missing responses and ignores unknown ones (SHOULD); the client may decide never to retry
    2025-11-25  the server sends requests on the stream of the client's request, or error -32042 with URL elicitations
    2026-07-28  servers MUST NOT send requests, so clients send no responses

Spec:  2026-07-28 basic/patterns/mrtr
Wire:  {"jsonrpc": "2.0", "id": 1, "result": {"resultType": "input_required", "requestState": "sealed",
           "inputRequests": {"1": {"method": "roots/list"}}}}
Above: `server/context.py` requests input; `server/stateless.py` serves the retry; `client/session.py` sends it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from dataclasses import dataclass
from typing import Final, cast

from ..jsonrpc.errors import InvalidMessage, ProtocolError
from ..jsonrpc.messages import INVALID_PARAMS, JSON, Object

STATE_SECONDS: Final = 900
"""Time that a state is valid, in seconds: a person needs time to respond."""
MAX_STATE_LENGTH: Final = 1024 * 1024
"""Maximum length of a state, in characters (1 Mi)."""
INPUT_METHODS: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Methods that may return `input_required`. [2026-07-28 basic/patterns/mrtr#supported-requests]"""


class HandlerNeedsInput(BaseException):  # not an Exception: the handler's own `except Exception` must not catch it
    """An exception that ends a handler, because it needs input from the client."""

    def __init__(self, requests: dict[str, Object]) -> None:
        super().__init__(f"the request needs {len(requests)} inputs from the client")
        self.requests = requests


def collect_input_requests(group: BaseExceptionGroup[BaseException]) -> HandlerNeedsInput | None:
    """Return all input requests of an exception group, or None if it holds other exceptions."""
    found, others = group.split(HandlerNeedsInput)
    if found is None or others is not None:
        return None
    requests: dict[str, Object] = {}
    for error in found.exceptions:
        inner = collect_input_requests(error) if isinstance(error, BaseExceptionGroup) else error
        requests.update(inner.requests if inner is not None else {})
    return HandlerNeedsInput(requests)


def request_digest(method: str, params: Object) -> str:
    """Return a digest of a request's method and params. Members that differ in each round are left out."""
    same = {name: value for name, value in params.items() if name not in ("_meta", "inputResponses", "requestState")}
    text = json.dumps([method, same], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def sign_state(key: bytes, responses: Object, request: str, principal: str | None, now: float) -> str:
    """Return a signed state with the responses so far. Raise ProtocolError if it is too long.

    All processes share the secret `key`. `request` is the result of `request_digest`; `now` is in seconds since 1970.
    """
    data: Object = {"answers": responses, "for": _binding_digest(request, principal), "until": int(now) + STATE_SECONDS}
    text = base64.urlsafe_b64encode(json.dumps(data, separators=(",", ":")).encode()).decode()
    state = f"{text}.{_signature(key, text)}"
    if len(state) > MAX_STATE_LENGTH:
        raise _state_error("cannot carry the responses so far, which are too long")
    return state


def verify_state(key: bytes, state: JSON, request: str, principal: str | None, now: float) -> Object:
    """Return a state's responses. Raise ProtocolError if it is forged, has expired, or belongs to another request."""
    text, _, signature = (
        state.partition(".") if isinstance(state, str) and len(state) <= MAX_STATE_LENGTH else ("", "", "")
    )
    if not hmac.compare_digest(_signature(key, text).encode(), signature.encode("utf-8", "replace")):
        # [2026-07-28 basic/patterns/mrtr#server-requirements-basic-workflow] MUST reject state that fails verification
        raise _state_error("was not issued by this server")
    payload = json.loads(base64.urlsafe_b64decode(text))  # signed by us, so it has the form that `sign_state` wrote
    if payload["for"] != _binding_digest(request, principal):
        raise _state_error("belongs to another request")
    if payload["until"] < now:
        raise _state_error("has expired; send the request again without it")
    return cast(Object, payload["answers"])


def _state_error(fault: str) -> ProtocolError:
    return ProtocolError(INVALID_PARAMS, f"Invalid params: requestState {fault}")


def _binding_digest(request: str, principal: str | None) -> str:
    # A digest: the client can read the state, and must not learn the principal that the server uses for it.
    return hashlib.sha256(json.dumps([request, principal]).encode()).hexdigest()


def _signature(key: bytes, text: str) -> str:
    return base64.urlsafe_b64encode(hmac.digest(key, text.encode("utf-8", "replace"), "sha256")).decode()


MAX_ROUNDS: Final = 16
"""Maximum number of rounds that a client follows for one request."""
MAX_INPUT_REQUESTS: Final = 100
"""Maximum number of input requests that a client handles in one round."""


@dataclass(frozen=True, slots=True)
class InputRequest:
    """A request for input inside a result: elicitation, sampling or roots."""

    method: str
    params: Object


def read_input_requests(result: Object) -> dict[str, InputRequest]:
    """Return a result's input requests by key, {} if it has only a `requestState`. Raise InvalidMessage if invalid."""
    requests, state = result.get("inputRequests"), result.get("requestState")
    if requests is None and isinstance(state, str):
        return {}
    if state is not None and not isinstance(state, str):
        raise InvalidMessage("the result has a requestState that is not a string")
    if not isinstance(requests, dict):
        # [2026-07-28 basic/patterns/mrtr#server-requirements-basic-workflow] MUST include at least one of the two
        raise InvalidMessage("the result says input_required, but has neither inputRequests nor requestState")
    if len(requests) > MAX_INPUT_REQUESTS:
        raise InvalidMessage(f"the result has {len(requests)} inputRequests; at most {MAX_INPUT_REQUESTS} are handled")
    found = {}
    for key, request in requests.items():
        method = request.get("method") if isinstance(request, dict) else None
        params = request.get("params", {}) if isinstance(request, dict) else None
        if not isinstance(method, str) or not isinstance(params, dict):
            raise InvalidMessage(f"inputRequests.{key[:80]} is not a request with a method and params")
        found[key] = InputRequest(method, params)
    return found


def retry_params(params: Object, result: Object, responses: Object) -> Object:
    """Return the params of the retry: those of the original request, the responses, and the same `requestState`."""
    retry = {name: value for name, value in params.items() if name not in ("inputResponses", "requestState")}
    if responses:
        retry["inputResponses"] = responses
    # [2026-07-28 basic/patterns/mrtr#client-requirements-basic-workflow] MUST send it back unchanged, MUST NOT add one
    if result.get("requestState") is not None:
        retry["requestState"] = result["requestState"]
    return retry
