"""A tap on the package's own conversations: each session and each stateless request of a test is judged.

A peer of a test can be wrong on purpose, so only findings about the package's own side count.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from mcp_ref.check.conversation import Conversation
from mcp_ref.check.recording import Frame, Head, Side, content
from mcp_ref.check.rules import ADVICE, Finding
from mcp_ref.jsonrpc.errors import ProtocolError
from mcp_ref.jsonrpc.messages import (
    Batch,
    ErrorResponse,
    Incoming,
    Malformed,
    Notification,
    Object,
    Outgoing,
    Request,
    RequestFailure,
    RequestId,
    Response,
    encode,
)
from mcp_ref.session import Session
from mcp_ref.transports.base import OnEnd, Receive

_STARTED = Head("stdio", command=("a test",))
_PEERS: dict[str, Side] = {"client": "server", "server": "client"}


class Tap:
    """The judge of one conversation, from one of its ends."""

    def __init__(self, own_side: Side, findings: list[Finding]) -> None:
        self._conversation, self._own, self._findings = Conversation(head=_STARTED), own_side, findings
        self._is_over = False

    def see(self, side: Side, message: Outgoing | Incoming) -> None:
        members = message.messages if isinstance(message, Batch) else [message]
        # the bytes of a malformed message are not known here, so its response could not be judged
        self._is_over = self._is_over or any(isinstance(each, Malformed | RequestFailure) for each in members)
        if self._is_over:
            return
        assert not isinstance(message, Malformed | RequestFailure)
        with contextlib.suppress(ValueError, TypeError, RecursionError):  # the session cannot send it either
            found = self._conversation.receive(Frame(side, content(encode(message)), connection=1))
            self._findings.extend(f for f in found if f.side == self._own and f.level != ADVICE)

    def close(self) -> None:
        self._findings.extend(f for f in self._conversation.close() if f.side == self._own and f.level != ADVICE)


def attach(session: Session, findings: list[Finding]) -> None:
    """Judge all messages of a session."""
    tap, transport = Tap(session.role, findings), session.transport
    send, round_trip, start = transport.send, transport.round_trip, transport.start

    def watched_round_trip(request: Request) -> Awaitable[None] | None:
        trip = round_trip(request)
        if trip is not None:
            tap.see(session.role, request)
        return trip

    def watched_send(message: Outgoing, related: RequestId | None = None) -> None:
        send(message, related)
        tap.see(session.role, message)

    async def watched_start(receive: Receive, on_end: OnEnd) -> None:
        def watched_receive(message: Incoming) -> None:
            tap.see(_PEERS[session.role], message)
            receive(message)

        await start(watched_receive, on_end)

    transport.send = watched_send  # type: ignore[method-assign]
    transport.round_trip = watched_round_trip  # type: ignore[method-assign]
    transport.start = watched_start  # type: ignore[method-assign]


def watched_stateless(serve: Callable[..., Coroutine[object, object, Object]], findings: list[Finding]) -> Any:
    """Return a `stateless.serve_request` that judges each request, its notifications and its response."""

    async def watched(
        catalog: Any, subscriptions: Any, request: Request, notify: Any, *rest: Any, **more: Any
    ) -> Object:
        tap = Tap("server", findings)
        tap.see("client", request)

        def watched_notify(method: str, params: Object) -> None:
            tap.see("server", Notification(method, params))
            notify(method, params)

        try:
            result = await serve(catalog, subscriptions, request, watched_notify, *rest, **more)
        except ProtocolError as error:
            tap.see("server", ErrorResponse(request.id, error.to_error()))
            raise
        tap.see("server", Response(request.id, result))
        return result

    return watched
