"""Multi round-trip requests (MRTR): a result asks the client for input, and the client sends the request again.

    tools/call                                          -> input_required: {"1": elicitation/create}, requestState
    tools/call, inputResponses {"1": ...}, requestState -> complete

In the legacy era, a server sends its own requests to the client, on a stream that stays open. With a load balancer, the
response can reach another process, so the processes need shared storage. In the modern era, a server MUST NOT send
requests. Its input requests are in a result, and the handler ends. Any process can serve the retry. The handler runs
again from its first line. Then `await context.elicit(...)` returns the response. Code before this line runs twice, with
its side effects. [2026-07-28 basic/patterns/mrtr#intro]

The server stores no responses. `requestState` contains them. The client MUST return it unchanged and MUST NOT read it.
A malicious client can send any state, so `sign_state` signs the state (without encryption). Attacks and protections:
    a client changes the state, to skip a consent         the server MUST refuse a wrong signature (HMAC-SHA256)
    a client sends a state that it stole from a user      the state has a digest of the authenticated user (SHOULD)
    a client uses the state of one request for another    the state has a digest of method and params (SHOULD)
    a client sends an old state                           the state expires after `STATE_SECONDS` (SHOULD)
A client can send the same state twice before it expires. If the second use would do harm, the server MUST remember the
states that it has accepted. [2026-07-28 basic/patterns/mrtr#server-requirements-basic-workflow]

    methods     only tools/call, prompts/get and resources/read can have an `input_required` result (MUST)
    result      has `inputRequests`, `requestState` or both (MUST); uses only declared client capabilities (MUST)
    input       elicitation/create, sampling/createMessage or roots/list, without id
    retry       has the same params, a new id (MUST), and `requestState` only if the result had one (MUST)
    server      repeats an input request if its response is missing, and ignores unknown responses (SHOULD)
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

MIN_KEY_BYTES: Final = 16
"""Minimum length of the secret key that signs states, in bytes."""
STATE_SECONDS: Final = 900
"""Time that a state is valid, in seconds. A person must have time to respond."""
MAX_STATE_LENGTH: Final = 1024 * 1024
"""Maximum length of a state, in characters (1 Mi)."""
INPUT_METHODS: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Methods whose result can be `input_required`. For all others, the server MUST NOT return such a result.
[2026-07-28 basic/patterns/mrtr#supported-requests]"""


class HandlerNeedsInput(BaseException):  # `except Exception` in a handler must not catch it
    """An exception that ends a handler, because the handler needs input from the client."""

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
        requests.update(inner.requests if inner is not None else {})
    return HandlerNeedsInput(requests)


def request_digest(method: str, params: Object) -> str:
    """Return a digest of a request's method and params, without the params that a retry changes."""
    unchanged = {name: params[name] for name in params.keys() - {"_meta", "inputResponses", "requestState"}}
    text = json.dumps([method, unchanged], sort_keys=True, separators=(",", ":"))
    return _digest(text)


def checked_key(key: bytes | None) -> bytes:
    """Return the key, or a new one for None. Raise TypeError if it is not bytes, ValueError if it is too short."""
    key = key if key is not None else os.urandom(32)
    if not isinstance(key, bytes):
        raise TypeError("state_key must be bytes; convert a text setting with bytes.fromhex(setting)")
    if len(key) < MIN_KEY_BYTES:
        raise ValueError(f"state_key must have {MIN_KEY_BYTES} or more random bytes, not {len(key)}")
    return key


def sign_state(key: bytes, data: Object, digest: str, principal: str | None, now: float) -> str:
    """Return a signed state with `data`, such as all responses so far. Raise ProtocolError if the state is too long.

    All processes must have the same secret `key`. `digest` is a `request_digest`. `now` is in seconds since 1970.
    """
    payload: Object = {"answers": data, "for": _binding_digest(digest, principal), "until": int(now) + STATE_SECONDS}
    text = base64.urlsafe_b64encode(json.dumps(payload, separators=(",", ":")).encode()).decode()
    state = f"{text}.{_signature(key, text)}"
    if len(state) > MAX_STATE_LENGTH:
        raise _state_error(f"would be longer than {MAX_STATE_LENGTH} characters; send shorter input responses")
    return state


def verify_state(key: bytes, state: JSON, digest: str, principal: str | None, now: float) -> Object:
    """Return the data in a state. Raise ProtocolError for a forged or expired state, or a state of another request."""
    signed = state if isinstance(state, str) and len(state) <= MAX_STATE_LENGTH else ""
    import hmac  # lazy: see `_digest`

    text, _, signature = signed.partition(".")
    if not hmac.compare_digest(_signature(key, text).encode(), signature.encode("utf-8", "replace")):
        # [2026-07-28 basic/patterns/mrtr#server-requirements-basic-workflow] MUST reject state that fails verification
        raise _state_error("was not issued by this server")
    payload = json.loads(base64.urlsafe_b64decode(text))  # no error is possible: `sign_state` wrote it
    if payload["for"] != _binding_digest(digest, principal):
        raise _state_error("belongs to another request or another user")
    if payload["until"] < now:
        raise _state_error("has expired; send the request again without it")
    return cast(Object, payload["answers"])


def _state_error(fault: str) -> ProtocolError:
    return ProtocolError(INVALID_PARAMS, f"Invalid params: requestState {fault}")


def _binding_digest(digest: str, principal: str | None) -> str:
    # The principal (the authenticated user) is hidden in a digest, because the client can read the state.
    return _digest(json.dumps([digest, principal]))


def _digest(text: str) -> str:
    import hashlib  # lazy: it takes a thirtieth of the start of a server, and few servers request input

    return hashlib.sha256(text.encode()).hexdigest()


def _signature(key: bytes, text: str) -> str:
    import hmac  # lazy: see `_digest`

    return base64.urlsafe_b64encode(hmac.digest(key, text.encode("utf-8", "replace"), "sha256")).decode()


MAX_ROUNDS: Final = 16
"""Maximum number of times that a client sends one request again because a result requires input."""
MAX_INPUT_REQUESTS: Final = 100
"""Maximum number of input requests that a client accepts in one result."""


class InputRequest(NamedTuple):
    """A request for input inside a result: elicitation, sampling or roots."""

    method: str
    params: Object


def read_input_requests(result: Object) -> dict[str, InputRequest]:
    """Return a result's input requests: key -> request. Raise InvalidMessage for an invalid `input_required` result."""
    requests, state = result.get("inputRequests"), result.get("requestState")
    if requests is None and isinstance(state, str):
        return {}
    if state is not None and not isinstance(state, str):
        raise InvalidMessage("the requestState of the result must be a string")
    if not isinstance(requests, dict):
        # [2026-07-28 basic/patterns/mrtr#server-requirements-basic-workflow] MUST include at least one of the two
        raise InvalidMessage("the input_required result is invalid: it has neither inputRequests nor requestState")
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
    """Return the params of the retry: the original params, the responses, and the `requestState` of the result."""
    retry = {name: value for name, value in params.items() if name not in ("inputResponses", "requestState")}
    if responses:
        retry["inputResponses"] = responses
    # [2026-07-28 basic/patterns/mrtr#client-requirements-basic-workflow] MUST send it back unchanged, MUST NOT add one
    if result.get("requestState") is not None:
        retry["requestState"] = result["requestState"]
    return retry
