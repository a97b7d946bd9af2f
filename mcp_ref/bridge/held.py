"""Input requests of a legacy server to a modern client: held calls, and their replay.

A legacy server sends a request, and waits for the response while it works on a call. A modern client gets input
requests only in a result, which ends its own request. Four ways are possible:

    held (default)   the call of the server stays open, in this process, while the client's user responds

                     client         bridge                       legacy server
                       |-- call ----->|-- call -------------------->|
                       |              |<------------- elicitation --|
                       |<- input_required, requestState             |     the call is held
                       |-- call, requestState, inputResponses ->|   |
                       |              |-- response --------------->|
                       |<- result ----|<------------------ result --|

    replayed         the tools of the option `replay`: the bridge cancels the call, and each retry calls the tool again
                     from its start. The state has all responses, so any process can serve the retry. This is only
                     right for a tool that changes nothing before its input requests
    refused          without `hold`, the server gets an error for its input request
    none             a client without capabilities: the server does not ask

The state of a held call names the call, the round, and the time limit, and is signed for the principal and for the
request (basic/mrtr.py). A used state is refused, because the server has got its responses already. If the call is gone,
for example after a restart, the bridge does not call the tool again: its author did not expect that.

Threats:
    bridge-stolen-state: the response of a user; another user, or the same one with other arguments; sends the state of
        a held call; the signature covers the principal and the params.
    bridge-used-state: the effect of a second response; a client; sends a state again; the round does not fit.
    bridge-abandoned-calls: the memory of the bridge; a client; begins calls and never retries; each one ends after 15
        minutes, and each principal has at most 16.

Spec:  2026-07-28 basic/patterns/mrtr; 2025-11-25 client/elicitation, client/sampling
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from ..basic import mrtr
from ..basic.lifecycle import declares
from ..jsonrpc.errors import ProtocolError
from ..jsonrpc.messages import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, Object
from ..revisions import Revision
from ..server.context import Context
from ..server.stateless import StatelessRequest
from .calls import REFUSED, Call, read_response
from .conversion import Losses

MAX_HELD_PER_PRINCIPAL: Final = 16
"""Maximum number of held calls of one principal. The server gets an error for further input requests."""
MAX_HELD: Final = 256
"""Maximum number of held calls of all principals."""

QUIET_SECONDS: Final = 0.01
"""Time without another input request after which the client gets the requests of a round, in seconds."""

COLLECT_SECONDS: Final = 0.1
"""Maximum time between the first input request of a round and the result for the client, in seconds."""

MAX_KEPT_LOGS: Final = 64
"""Maximum number of log messages that the bridge keeps while a call is held."""

_REFUSAL: Final[dict[str, Object]] = {"elicitation/create": {"action": "cancel"}}


@dataclass(eq=False)
class _OpenRequest:
    """An input request without a response."""

    method: str
    params: Object
    source: Revision
    response: asyncio.Future[Object] = field(default_factory=asyncio.Future)


class HeldCalls:
    """The held calls of a bridge, by their handles."""

    def __init__(self, key: bytes, seconds: float = mrtr.STATE_SECONDS) -> None:
        self.key, self.seconds = key, seconds
        self.calls: dict[str, HeldCall] = {}

    def has_room(self, principal: str | None) -> bool:
        of_principal = sum(1 for call in self.calls.values() if call.principal == principal)
        return len(self.calls) < MAX_HELD and of_principal < MAX_HELD_PER_PRINCIPAL

    def find(self, state: Object, principal: str | None) -> HeldCall:
        """Return the call of a verified state. Raise ProtocolError if it is gone, or if the state was used."""
        call = self.calls.get(str(state.get("held")))
        if call is None or call.principal != principal:
            raise _error("is not held here any more; call the tool again. It may have run in part")
        if call.round != state.get("round"):
            raise _error("was used before, and the server has got its responses")
        return call

    async def close(self) -> None:
        """End all held calls."""
        for call in tuple(self.calls.values()):
            call.expire()
        await asyncio.gather(*(call.wait_ended() for call in tuple(self.calls.values())))


def _error(fault: str) -> ProtocolError:
    return ProtocolError(INVALID_PARAMS, f"Invalid params: the call of this requestState {fault}")


class HeldCall(Call):
    """A request of a modern client that a legacy server serves, also while the client has no open request.

    Args:
        context: The client's first request.
        losses: The losses of the server.
        prefix: See `Call`.
        digest: The `request_digest` of the client's request.
        principal: The authenticated caller.
        held: The table of held calls.
    """

    def __init__(
        self, context: Context, losses: Losses, prefix: str, digest: str, principal: str | None, held: HeldCalls
    ) -> None:
        super().__init__(context, losses, prefix)
        self.principal, self.round, self._digest, self._held = principal, 0, digest, held
        self.handle = os.urandom(16).hex()
        self.on_held: Callable[[], None] = lambda: None
        """Called each time when the client has to respond to input requests."""
        self._open: dict[str, _OpenRequest] = {}
        self._count = 0
        self._changed = asyncio.Event()
        self._task: asyncio.Task[Object] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._kept_logs: list[tuple[Object, Revision]] = []
        self._kept_progress: tuple[Object, Revision] | None = None

    def start(self, work: Awaitable[Object]) -> None:
        """Begin the work of the server, which outlives the client's request."""

        async def run() -> Object:
            return await work

        self._task = asyncio.create_task(run())
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Object]) -> None:
        self._changed.set()
        self._refuse_open()  # the server has responded without waiting for them
        if not task.cancelled():
            task.exception()  # reading the exception stops asyncio from logging it

    async def ask(self, method: str, params: Object, source: Revision) -> Object:
        capability = mrtr.INPUT_REQUESTS[method].capability or ""
        wire = self.read_input_request(method, params, source)
        if not declares(self.capabilities, capability):
            raise ProtocolError(METHOD_NOT_FOUND, f"the client did not declare {capability}")
        if self.handle not in self._held.calls and not self._held.has_room(self.principal):
            raise ProtocolError(INTERNAL_ERROR, f"{method} was not sent: too many calls wait for their users")
        self._held.calls[self.handle] = self  # now, because several calls can begin at once
        self._count += 1
        key, request = str(self._count), _OpenRequest(method, wire, source)
        self._open[key] = request
        self._changed.set()
        try:
            return await request.response
        finally:
            self._open.pop(key, None)  # the server can have cancelled its request

    async def proceed(self) -> Object:
        """Wait for the result, or for input requests. Return the result, or an `input_required` result.

        If the client cancels its request meanwhile, end the work.
        """
        assert self._task is not None
        try:
            while not self._task.done() and not self._open:
                self._changed.clear()
                await self._changed.wait()
            if not self._task.done():
                await self._collect()
            if not self._task.done() and self._open:
                return self._suspend()
            await asyncio.wait([self._task])
        except asyncio.CancelledError:
            self.expire()
            raise
        finally:
            if self._task.done():
                self._forget()
        if self._task.cancelled():
            raise ProtocolError(INTERNAL_ERROR, "the bridge has ended this call")
        return self._task.result()

    async def _collect(self) -> None:
        """Wait until the server has sent all requests of this round, so that the user gets them at once."""
        end = self.loop.time() + COLLECT_SECONDS
        while (left := end - self.loop.time()) > 0:
            self._changed.clear()
            try:
                async with asyncio.timeout(min(QUIET_SECONDS, left)):
                    await self._changed.wait()
            except TimeoutError:
                return

    def _suspend(self) -> Object:
        """Return the input requests to the client, and hold the call until it sends the responses."""
        self.round += 1
        self.context = None
        self.on_held()
        self._timer = self.loop.call_later(self._held.seconds, self.expire)
        data: Object = {"held": self.handle, "round": self.round}
        requests: Object = {key: {"method": each.method, "params": each.params} for key, each in self._open.items()}
        state = mrtr.sign_state(self._held.key, data, self._digest, self.principal, time.time())
        return {"resultType": "input_required", "inputRequests": requests, "requestState": state}

    async def resume(self, context: Context, responses: Object) -> Object:
        """Give the client's responses to the server, and proceed. A response that is missing is requested again."""
        read = {
            key: read_response(each.method, responses[key], self.revision, each.source, self.losses)
            for key, each in self._open.items() if key in responses
        }  # fmt: skip
        self.round += 1  # now, so that a second retry with this state is refused
        self._stop_timer()  # the server can take its time, as in every call with an open request
        retry = Call(context, self.losses)
        self.context, self.capabilities = context, retry.capabilities
        self.token, self.level = retry.token, retry.level
        self._send_kept()
        for key, response in read.items():
            request = self._open.pop(key)
            if not request.response.done():
                request.response.set_result(response)
        self._changed.clear()
        return await self.proceed()

    def _send_kept(self) -> None:
        logs, self._kept_logs = self._kept_logs, []
        progress, self._kept_progress = self._kept_progress, None
        for message, source in logs:
            self.log(message, source)
        if progress is not None:
            self.report_progress(*progress)

    def report_progress(self, params: Object, source: Revision) -> None:
        if self.context is None:
            self._kept_progress = params, source
        else:
            super().report_progress(params, source)

    def log(self, params: Object, source: Revision) -> None:
        if self.context is not None:
            super().log(params, source)
        elif len(self._kept_logs) < MAX_KEPT_LOGS:
            self._kept_logs.append((params, source))

    def expire(self) -> None:
        """Refuse the open input requests in the name of the user, and cancel the call."""
        self._refuse_open()
        self._forget()
        if self._task is not None:
            # later, so that the server gets the responses before the cancellation
            self.loop.call_later(QUIET_SECONDS, self._task.cancel)

    def _refuse_open(self) -> None:
        for request in tuple(self._open.values()):
            refusal = _REFUSAL.get(request.method)
            if request.response.done():
                continue
            if refusal is not None:
                request.response.set_result(refusal)
            else:
                request.response.set_exception(ProtocolError(REFUSED, "the user did not respond in time"))

    async def wait_ended(self) -> None:
        if self._task is not None:
            await asyncio.wait([self._task], timeout=1.0)

    def _forget(self) -> None:
        self._held.calls.pop(self.handle, None)
        self._stop_timer()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class ReplayedCall(Call):
    """A request of a modern client whose tool a legacy server runs again for each retry."""

    def __init__(self, context: Context, losses: Losses, prefix: str) -> None:
        super().__init__(context, losses, prefix)
        assert isinstance(context.channel, StatelessRequest)
        self._rounds = context.channel.rounds
        self.needed: asyncio.Future[mrtr.HandlerNeedsInput] = self.loop.create_future()
        """Done if an input request has no response yet."""
        self._missing: dict[str, Object] = {}
        self._is_over = asyncio.Event()

    async def ask(self, method: str, params: Object, source: Revision) -> Object:
        wire = self.read_input_request(method, params, source)
        try:
            response = self._rounds.response_to(method, wire, None)
        except mrtr.HandlerNeedsInput as needed:
            self._missing |= needed.requests
            if not self.needed.done():
                self.loop.call_later(QUIET_SECONDS, self._report)
            await self._is_over.wait()
            raise ProtocolError(REFUSED, f"{method} is answered when the client calls the tool again") from None
        return read_response(method, response, self.revision, source, self.losses)

    def _report(self) -> None:
        if not self.needed.done():
            self.needed.set_result(mrtr.HandlerNeedsInput(self._missing))

    async def run(self, work: Awaitable[Object]) -> Object:
        """Return the result of the work. Raise HandlerNeedsInput, and end the work, if it needs a further response."""
        task: asyncio.Future[Object] = asyncio.ensure_future(work)
        waiting: list[asyncio.Future[Any]] = [task, self.needed]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise self.needed.result()
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task], timeout=1.0)
            self.needed.cancel()
            self._is_over.set()


class RefusingCall(Call):
    """A request of a modern client, without a way for the input requests of a legacy server."""

    async def ask(self, method: str, params: Object, source: Revision) -> Object:
        raise ProtocolError(METHOD_NOT_FOUND, f"{method} is refused: this bridge holds no calls")
