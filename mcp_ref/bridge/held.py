"""Input requests of a legacy server to a modern client: held calls, and their replay.

A legacy server sends a request for input, and waits for the response while it works on a call. A modern client accepts
no requests: it gets input requests in an `input_required` result, which ends its own request, and sends the responses
with a retry of this request. The bridge can bring the two together in different ways:

    held (default)   the call of the server stays open, in this process, while the client's user responds

                     client         bridge                       legacy server
                       |-- call ----->|-- call -------------------->|
                       |              |<------------- elicitation --|
                       |<- input_required, requestState             |     the call is held
                       |-- call, requestState, inputResponses ->|   |
                       |              |-- response --------------->|
                       |<- result ----|<------------------ result --|

    replayed         for the tools in the option `replay`, the bridge cancels the call, and the retry calls the tool
                     again from its start. The state contains all responses, so any process can serve the retry. This
                     is right only for a tool that changes nothing before its input requests
    refused          with `hold=False`, the server gets an error for its input request (calls.py)

If the client has no capability for input requests, the server sends none, so none of this is needed.

A round is one `input_required` result and the retry. The `requestState` of a held call names the call, the round and
the time limit, and is signed for the principal (the authenticated user) and for the request (basic/mrtr.py). It works
only once, because after that the server has its responses. If the client does not retry within 15 minutes, the bridge
refuses the input requests in the name of the user, and cancels the call. If the call is gone, for example after a
restart, the bridge does not call the tool again, because the tool's author did not expect a repetition.

Threats:
    bridge-stolen-state: Another user sends the state of a held call to respond in its user's place, or the user sends
        it with other arguments. The state's signature covers the principal and the params.
    bridge-used-state: A client sends a state again to change its response. A state works only in its own round.
    bridge-abandoned-calls: A client fills the bridge's memory with calls that it never retries. Each call ends after 15
        minutes, and each principal has at most 16, whose params have a limit in bytes.

Spec:  2026-07-28 basic/patterns/mrtr; 2025-11-25 client/elicitation, client/sampling
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, cast

from ..basic import mrtr
from ..jsonrpc.bounded_waits import retrieve_exception
from ..jsonrpc.errors import ProtocolError
from ..jsonrpc.messages import INTERNAL_ERROR, INVALID_PARAMS, JSON, Object
from ..lib.shares import ShareExceeded, Shares, memory_of
from ..revisions import Revision
from ..server.context import Context
from ..server.stateless import StatelessRequest
from .calls import REFUSED, Call
from .conversion import Losses, convert_result

MAX_HELD_PER_PRINCIPAL: Final = 16
"""Maximum number of held calls of one principal. The server gets an error for further input requests."""
MAX_HELD: Final = 256
"""Maximum number of held calls of all principals."""

MAX_HELD_BYTES_PER_PRINCIPAL: Final = 32 * 1024 * 1024
"""Maximum memory for the params of one principal's held calls, in bytes (32 MiB)."""
MAX_HELD_BYTES: Final = 128 * 1024 * 1024
"""Maximum memory for the params of all held calls, in bytes (128 MiB)."""

QUIET_SECONDS: Final = 0.01
"""Time to wait for another input request before the client gets the requests of a round, in seconds."""

MAX_WAITS: Final = 10
"""Maximum number of waits of `QUIET_SECONDS` in one round."""

MAX_KEPT_LOGS: Final = 64
"""Maximum number of log messages that the bridge keeps while a call is held."""


@dataclass(eq=False)
class _OpenRequest:
    """An input request without a response."""

    method: str
    params: Object
    source: Revision
    response: asyncio.Future[Object] = field(default_factory=asyncio.Future)


class HeldCalls:
    """The held calls of a bridge.

    Args:
        key: The secret key that signs the states.
        seconds: Maximum time for the user's responses in one round, in seconds.
    """

    def __init__(self, key: bytes, seconds: float = mrtr.STATE_SECONDS) -> None:
        self.key, self.seconds = key, seconds
        self.calls: dict[str, HeldCall] = {}
        """The calls by their handles: random texts, which their states contain."""
        self._params = Shares("held calls", MAX_HELD_BYTES_PER_PRINCIPAL, MAX_HELD_BYTES)

    def add(self, call: HeldCall) -> None:
        """Add a call, unless it has been added. Raise ShareExceeded if a limit is reached."""
        if call.handle in self.calls:
            return
        of_principal = sum(1 for each in self.calls.values() if each.principal == call.principal)
        if len(self.calls) >= MAX_HELD or of_principal >= MAX_HELD_PER_PRINCIPAL:
            raise ShareExceeded("too many calls wait for their users")
        self._params.take(call.principal or "", call.params_memory)
        self.calls[call.handle] = call

    def remove(self, call: HeldCall) -> None:
        """Remove a call, if it has been added."""
        if self.calls.pop(call.handle, None) is not None:
            self._params.give_back(call.principal or "", call.params_memory)

    def find(self, state: Object, principal: str | None) -> HeldCall:
        """Return the call that a verified state names. Raise ProtocolError for a lost call or a used state."""
        call = self.calls.get(str(state.get("held")))
        if call is None or call.principal != principal:
            raise _state_error("is not held here any more; call the tool again. It may have run in part")
        if call.round != state.get("round"):
            raise _state_error("was used before, and the server has got its responses")
        return call

    async def close(self) -> None:
        """End all held calls."""
        calls = list(self.calls.values())
        for call in calls:
            call.expire()
        await asyncio.gather(*(call.wait_ended() for call in calls))


def _state_error(fault: str) -> ProtocolError:
    return ProtocolError(INVALID_PARAMS, f"Invalid params: the call of this requestState {fault}")


class HeldCall(Call):
    """A modern client's request on which a legacy server works, even while the client's user responds.

        run -> _proceed -----------------------------> the result
                  |  ^
                  |  +-- resume, with the responses <-- a retry
                  +----- _suspend --------------------> an `input_required` result

    Args:
        context, losses, prefix: As for `Call`.
        method, params: The client's request.
        principal: The authenticated user.
        held: The held calls, which this one joins with its first input request.
    """

    def __init__(
        self, context: Context, losses: Losses, prefix: str, method: str, params: Object, principal: str | None,
        held: HeldCalls,
    ) -> None:  # fmt: skip
        super().__init__(context, losses, prefix)
        self.principal, self._held = principal, held
        self._method, self._params = method, params
        self.round = 0
        """Number of results and retries so far. A state is valid in one round only."""
        self.handle = os.urandom(16).hex()
        self._open: dict[str, _OpenRequest] = {}  # by their keys in `inputRequests`
        self._request_count = 0  # number of input requests so far
        self._changed = asyncio.Event()  # set by a new input request, and by the end of the server's work
        self._task: asyncio.Task[Object]  # the server's work
        self._stop_timer: Callable[[], None] = lambda: None  # stops the timer of `expire` while there is one
        self._kept: list[tuple[str, Object, Revision]] = []
        """The arguments of `receive` for the log messages and the latest progress that came while the call was held."""

    @cached_property
    def params_memory(self) -> int:
        """Estimated memory of the client's params, in bytes. The server's work keeps them until it ends."""
        return memory_of(json.dumps(self._params).encode())

    async def run(self, work: Coroutine[object, object, Object]) -> Object:
        """Start `work`, the exchange with the server. Return its result, or an `input_required` result.

        The work is an asyncio task of its own, because it outlives the client's request.
        """
        self._task = asyncio.create_task(work)
        self._task.add_done_callback(self._note_end)
        return await self._proceed()

    def _note_end(self, task: asyncio.Task[Object]) -> None:
        self._changed.set()
        self._refuse_open_requests()  # the server has ended the call without waiting for these responses
        retrieve_exception(task)

    async def ask(self, method: str, params: Object, source: Revision) -> Object:
        wire = self.converted_input_request(method, params, source)
        try:
            self._held.add(self)  # before any wait, because others count the calls meanwhile
        except ShareExceeded as error:
            raise ProtocolError(INTERNAL_ERROR, f"{method} was not sent: {error}") from None
        key = str(self._request_count + 1)
        return await self._response_to(key, _OpenRequest(method, wire, source))

    async def _response_to(self, key: str, request: _OpenRequest) -> Object:
        self._request_count += 1
        self._open[key] = request
        self._changed.set()
        try:
            return await request.response
        finally:
            self._open.pop(key, None)  # the server can have cancelled its request

    async def _proceed(self) -> Object:
        """Wait until the server's work is done, or needs input. Return its result, or an `input_required` result.

        If the client cancels its request meanwhile, end the work.
        """
        try:
            while not self._task.done():
                if self._open:
                    await self._collect_requests()
                    if self._open and not self._task.done():  # both can have changed meanwhile
                        return await self._suspend()
                else:
                    self._changed.clear()
                    await self._changed.wait()
        except asyncio.CancelledError:
            self.expire()
            raise
        finally:
            if self._task.done():
                self._forget()
        if self._task.cancelled():
            raise ProtocolError(INTERNAL_ERROR, "the bridge has ended this call")
        return self._task.result()

    async def _collect_requests(self) -> None:
        """Wait until the server has sent all requests of this round, so that the user gets them at once."""
        for _ in range(MAX_WAITS):
            count = self._request_count
            await asyncio.wait([self._task], timeout=QUIET_SECONDS)
            if count == self._request_count:
                return

    async def _suspend(self) -> Object:
        """Return the `input_required` result. From now on, the call is held until `resume` or `expire`."""
        self.round += 1
        self.context = None
        self.on_held()
        self._stop_timer = self.loop.call_later(self._held.seconds, self.expire).cancel
        data: Object = {"held": self.handle, "round": self.round}
        digest = mrtr.request_digest(self._method, self._params)
        state = mrtr.sign_state(self._held.key, data, digest, self.principal, time.time())
        return {"resultType": "input_required", "inputRequests": {**self._open_requests()}, "requestState": state}

    def _open_requests(self) -> dict[str, Object]:
        return {key: {"method": each.method, "params": each.params} for key, each in self._open.items()}

    async def resume(self, context: Context, responses: JSON) -> Object:
        """Serve the client's retry: give its responses to the server, and proceed. Ask again for a missing response."""
        if not isinstance(responses, dict) or not all(isinstance(each, dict) for each in responses.values()):
            raise ProtocolError(INVALID_PARAMS, "Invalid params: inputResponses must be an object of objects")
        # Convert all of them before anything changes, because the client can correct one and use the state again.
        converted: dict[str, Object] = {}
        for key, request in self._open.items():
            if key in responses:
                response = cast(Object, responses[key])
                converted[key] = convert_result(request.method, response, self.revision, request.source, self.losses)
        self.round += 1  # before any wait, so that a second retry with this state is refused
        self._stop_timer()  # the server can take its time, as in every call with an open request
        self.attach(context)
        kept, self._kept = self._kept, []
        for notification in kept:
            self.receive(*notification)
        for key, response in converted.items():
            request = self._open.pop(key)
            if not request.response.done():
                request.response.set_result(response)
        return await self._proceed()

    def receive(self, method: str, params: Object, source: Revision) -> None:
        if self.context is not None:
            return super().receive(method, params, source)
        # no request of the client is open to which a notification could belong, so it waits for the retry
        is_progress = method == "notifications/progress"
        if is_progress:  # only the latest counts
            self._kept = [each for each in self._kept if each[0] != method]
        if is_progress or len(self._kept) < MAX_KEPT_LOGS:
            self._kept.append((method, params, source))

    def expire(self) -> None:
        """Refuse the open input requests in the name of the user, and cancel the call."""
        self._refuse_open_requests()
        self._forget()
        self._task.add_done_callback(lambda _: self._forget())  # again, because the server can ask again until then
        # later, so that the server gets the responses before the cancellation
        self.loop.call_later(QUIET_SECONDS, self._task.cancel)

    def _refuse_open_requests(self) -> None:
        for request in tuple(self._open.values()):
            if not request.response.done():
                self._refuse(request)

    def _refuse(self, request: _OpenRequest) -> None:
        if request.method == "elicitation/create":
            request.response.set_result({"action": "cancel"})
        else:
            request.response.set_exception(ProtocolError(REFUSED, "the user did not respond in time"))

    async def wait_ended(self) -> None:
        await asyncio.wait([self._task], timeout=1.0)

    def _forget(self) -> None:
        self._held.remove(self)
        self._stop_timer()


class ReplayedCall(HeldCall):
    """A request of a modern client whose tool a legacy server runs again from its start for each retry.

    This works as for a handler of a `Server`: `InputRounds` has the responses of the earlier rounds, and a request
    without a response ends the call with `HandlerNeedsInput`, which becomes the `input_required` result.
    """

    async def ask(self, method: str, params: Object, source: Revision) -> Object:
        wire = self.converted_input_request(method, params, source)
        assert self.context is not None and isinstance(self.context.channel, StatelessRequest)
        try:
            response = self.context.channel.rounds.response_to(method, wire, None)
        except mrtr.HandlerNeedsInput as needed:
            [key] = needed.requests  # the key that the response will have in the retry
            # not raised at once, because `_proceed` first collects the other requests of this round
            return await self._response_to(key, _OpenRequest(method, wire, source))
        return convert_result(method, response, self.revision, source, self.losses)

    async def _suspend(self) -> Object:
        """Cancel the server's work, and raise HandlerNeedsInput for the requests that have no response yet."""
        requests = self._open_requests()
        self._task.cancel()
        await self.wait_ended()
        raise mrtr.HandlerNeedsInput(requests)

    def _refuse(self, request: _OpenRequest) -> None:
        text = f"{request.method} is answered when the client calls the tool again"
        request.response.set_exception(ProtocolError(REFUSED, text))
