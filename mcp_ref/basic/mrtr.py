"""Multi round-trip requests (MRTR): a result asks for input, and the client repeats the request with this input.

    tools/call                                          -> input_required: {"1": elicitation/create}, requestState
    tools/call, inputResponses {"1": ...}, requestState -> complete

In the legacy era, a server sends its own requests to the client on a stream that stays open. Behind a load balancer the
response may reach another process, so all processes need shared storage. In the modern era, a server MUST NOT send
requests. It puts them into a result instead, and the handler ends. Any process can serve the retry, for which the
handler runs again from its first line; this time, `await context.elicit(...)` returns the response. Everything before
that line has then run twice, side effects included. [2026-07-28 basic/patterns/mrtr#intro]

The server stores no responses, because they are in `requestState`, which the client MUST return unchanged and MUST NOT
read. Since a malicious client can send any state, `sign_state` signs it (without encryption):
    a client changes the state, to skip a consent         the server MUST refuse a wrong signature (HMAC-SHA256)
    a client sends a state that it stole from a user      the state SHOULD contain a digest of the user
    a client uses the state of one request for another    the state SHOULD contain a digest of method and params
    a client sends an old state                           the state SHOULD expire; it does after `STATE_SECONDS`
If a state that is used twice would do harm, the server MUST also remember the states that it has accepted.
[2026-07-28 basic/patterns/mrtr#server-requirements-basic-workflow]

    methods     a server MUST NOT return `input_required` except for tools/call, prompts/get and resources/read
    result      it MUST have `inputRequests`, `requestState` or both, and MUST use only declared client capabilities
    input       elicitation/create, sampling/createMessage or roots/list, without id
    retry       it repeats the params, MUST have a new id, and MUST have `requestState` if and only if the result had it
    server      it SHOULD repeat an input request whose response is missing, and SHOULD ignore unknown responses
    2025-11-25  the server sends requests on the stream of the client's request, or error -32042 with URL elicitations

Spec:  2026-07-28 basic/patterns/mrtr
Wire:  {"jsonrpc": "2.0", "id": 1, "result": {"resultType": "input_required", "requestState": "sealed",
           "inputRequests": {"1": {"method": "roots/list"}}}}
"""

from __future__ import annotations

import base64
import json
import os
from typing import Final, NamedTuple, cast

from ..jsonrpc.errors import InvalidMessage, ProtocolError
from ..jsonrpc.messages import INVALID_PARAMS, JSON, Object
from ..revisions import METHODS

MIN_KEY_BYTES: Final = 16
"""Minimum length of the secret key that signs states, in bytes."""
STATE_SECONDS: Final = 900
"""Time for which a state is valid, and so the time that a person has to respond, in seconds."""
MAX_STATE_LENGTH: Final = 1024 * 1024
"""Maximum length of a state, in characters (1 Mi)."""
MULTI_ROUND_TRIP_METHODS: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
"""The only methods whose result may be `input_required`. [2026-07-28 basic/patterns/mrtr#supported-requests]"""
_INPUT_REQUEST_NAMES: Final = ("elicitation/create", "sampling/createMessage", "roots/list")
INPUT_REQUESTS: Final = {method.name: method for method in METHODS if method.name in _INPUT_REQUEST_NAMES}
"""Methods of input requests, by name. [2026-07-28 basic/patterns/mrtr#server-requirements-basic-workflow]"""


class HandlerNeedsInput(BaseException):  # so that `except Exception` in a handler does not catch it
    """An exception that ends a handler which needs input from the client."""

    def __init__(self, requests: dict[str, Object]) -> None:
        super().__init__(f"the request needs {len(requests)} inputs from the client")
        self.requests = requests


def collect_input_requests(group: BaseExceptionGroup[BaseException]) -> HandlerNeedsInput | None:
    """Return one exception with all input requests of a group, or None if the group has other exceptions."""
    found, others = group.split(HandlerNeedsInput)
    if found is None or others is not None:
        return None
    requests: dict[str, Object] = {}
    for error in found.exceptions:
        inner = collect_input_requests(error) if isinstance(error, BaseExceptionGroup) else error
        assert inner is not None  # `found` has no other exceptions
        requests.update(inner.requests)
    return HandlerNeedsInput(requests)


def request_digest(method: str, params: Object) -> str:
    """Return a digest of a request's method and of the params that a retry does not change."""
    unchanged = {name: params[name] for name in params.keys() - {"_meta", "inputResponses", "requestState"}}
    return _digest(json.dumps([method, unchanged], sort_keys=True, separators=(",", ":")))


def checked_key(key: bytes | None) -> bytes:
    """Return the key, or a random one for None. Raise TypeError or ValueError for an unusable key."""
    key = key if key is not None else os.urandom(32)
    if not isinstance(key, bytes):
        raise TypeError("state_key must be bytes; convert a text setting with bytes.fromhex(setting)")
    if len(key) < MIN_KEY_BYTES:
        raise ValueError(f"state_key must have {MIN_KEY_BYTES} or more random bytes, not {len(key)}")
    return key


def sign_state(key: bytes, data: Object, digest: str, principal: str | None, now: float) -> str:
    """Return a signed state with `data`, bound to a request and a user. Raise ProtocolError if it would be too long.

    All processes need the same secret `key`. `digest` is the `request_digest`. `now` is in seconds since 1970.
    """
    payload: Object = {"answers": data, "for": _binding_digest(digest, principal), "until": int(now) + STATE_SECONDS}
    text = base64.urlsafe_b64encode(json.dumps(payload, separators=(",", ":")).encode()).decode()
    state = f"{text}.{_signature(key, text)}"
    if len(state) > MAX_STATE_LENGTH:
        raise _state_error(f"would be longer than {MAX_STATE_LENGTH} characters; send shorter input responses")
    return state


def verify_state(key: bytes, state: JSON, digest: str, principal: str | None, now: float) -> Object:
    """Return the data in a state. Raise ProtocolError if it is forged or expired, or is for another request or user."""
    import hmac  # lazy: see `_digest`

    # A state that is not a string, or too long, counts as "", whose signature is never valid, so it is refused below.
    signed = state if isinstance(state, str) and len(state) <= MAX_STATE_LENGTH else ""
    text, _, signature = signed.partition(".")
    if not hmac.compare_digest(_signature(key, text).encode(), signature.encode("utf-8", "replace")):
        # [2026-07-28 basic/patterns/mrtr#server-requirements-basic-workflow] the server MUST reject such a state
        raise _state_error("was not issued by this server")
    payload = json.loads(base64.urlsafe_b64decode(text))  # cannot fail, because `sign_state` wrote it
    if payload["for"] != _binding_digest(digest, principal):
        raise _state_error("belongs to another request or another user")
    if payload["until"] < now:
        raise _state_error("has expired; send the request again without it")
    return cast(Object, payload["answers"])


def _state_error(fault: str) -> ProtocolError:
    return ProtocolError(INVALID_PARAMS, f"Invalid params: requestState {fault}")


def _binding_digest(digest: str, principal: str | None) -> str:
    return _digest(json.dumps([digest, principal]))  # hides the principal, because the client can read the state


def _digest(text: str) -> str:
    import hashlib  # lazy: it takes a thirtieth of a server's start-up time, and few servers request input

    return hashlib.sha256(text.encode()).hexdigest()


def _signature(key: bytes, text: str) -> str:
    import hmac  # lazy: see `_digest`

    return base64.urlsafe_b64encode(hmac.digest(key, text.encode("utf-8", "replace"), "sha256")).decode()


MAX_ROUNDS: Final = 16
"""Maximum number of times that a client sends one request again because a result requires input."""
MAX_INPUT_REQUESTS: Final = 100
"""Maximum number of input requests that a client accepts in one result."""


class InputRequest(NamedTuple):
    method: str
    params: Object


def read_input_requests(result: Object) -> dict[str, InputRequest]:
    """Return a result's input requests, by key. Raise InvalidMessage for an invalid `input_required` result."""
    requests, state = result.get("inputRequests"), result.get("requestState")
    if requests is None and isinstance(state, str):
        return {}
    if state is not None and not isinstance(state, str):
        raise InvalidMessage("the requestState of the result must be a string")
    if not isinstance(requests, dict):
        # [2026-07-28 basic/patterns/mrtr#server-requirements-basic-workflow] it MUST include at least one of the two
        fault = "neither inputRequests nor requestState" if requests is None else "inputRequests that are not an object"
        raise InvalidMessage(f"the input_required result is invalid: it has {fault}")
    if len(requests) > MAX_INPUT_REQUESTS:
        raise InvalidMessage(f"a result must have at most {MAX_INPUT_REQUESTS} inputRequests, got {len(requests)}")
    found = {}
    for key, request in requests.items():
        method = request.get("method") if isinstance(request, dict) else None
        params = request.get("params", {}) if isinstance(request, dict) else None
        if not isinstance(method, str) or not isinstance(params, dict):
            raise InvalidMessage(f"inputRequests.{key[:80]} must have a method (a string) and params (an object)")
        found[key] = InputRequest(method, params)
    return found


def retry_params(params: Object, result: Object, responses: Object) -> Object:
    """Return the params of the retry: the original params, the responses, and the result's `requestState`."""
    retry = {name: value for name, value in params.items() if name not in ("inputResponses", "requestState")}
    if responses:
        retry["inputResponses"] = responses
    # [2026-07-28 basic/patterns/mrtr#client-requirements-basic-workflow] a client MUST return the state, not invent one
    if result.get("requestState") is not None:
        retry["requestState"] = result["requestState"]
    return retry
