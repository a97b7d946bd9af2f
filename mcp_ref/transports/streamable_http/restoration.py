"""Restoration: another process continues a session. It handles stored requests again, and reports the lost ones.

    the first request for the session -> session_table.py: _restore
        -> repeat_requests: the stored `initialize`, then the kept requests, as if the client sent them again
    GET with the last event of a stream whose request was in flight -> add_error

The caller may have lost a scope, so the process checks scopes for the kept requests (log level, subscriptions) again.
It sends one update for each subscribed resource, which may have changed while no process had the session.

A request that was in flight is lost with its process. The name of its stream contains the request's id, so when the
client resumes the stream, the server can end it with an error, and the client need not wait for a time limit.

Spec:  basic/transports#resumability-and-redelivery, #session-management (2025-03-26 to 2025-11-25)
Used by: session_table.py, server.py. Uses: kept_requests.py, session.py
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial
from typing import Final, Protocol, cast

from ...basic.access import Access, AccessRefused, ScopeTable
from ...jsonrpc.messages import (
    INTERNAL_ERROR,
    Batch,
    Error,
    ErrorResponse,
    Incoming,
    Notification,
    Request,
    Response,
    decode,
    encode,
)
from ...lib.uri import canonical_uri
from .checks import HttpRefusal
from .event_store import Event
from .kept_requests import STATE_METHODS, KeptRequests, request_id_of, stored_requests
from .session import HttpSession

log = logging.getLogger(__name__)

LOST: Final = "the process that served the request has ended; send the request again"
"""The message of the error for a request that was in flight."""


class _Announcer(Protocol):
    """The server's side of a session. It sends an update only if the client has subscribed to the resource."""

    def announce(self, method: str, subject: str | None) -> None: ...


def note_requests(session: HttpSession, message: Incoming) -> None:
    """Note the requests of a message that set the session's state, if the session is stored."""
    if session.store is None:
        return
    for member in message.messages if isinstance(message, Batch) else (message,):
        if isinstance(member, Request) and member.method in STATE_METHODS:
            session.kept = session.kept or KeptRequests(partial(session.store.keep_requests, session.id))
            session.kept.note(member)


async def repeat_requests(
    session: HttpSession, initialize: Request, kept: bytes, access: Access, scopes: ScopeTable
) -> bool:
    """Handle a session's stored requests again, although no client sends them. Return False if that fails.

    Args:
        session: The session.
        initialize: The stored `initialize` request.
        kept: The kept requests, as the event store has them.
        access: The rights of the caller whose request has restored the session.
        scopes: The scopes that requests need.
    """
    try:
        return await _repeat_all(session, initialize, kept, access, scopes)
    except Exception:  # for example because another version of this package has stored the kept requests
        log.exception("a stored session could not be restored, so it has ended")
        return False


async def _repeat_all(
    session: HttpSession, initialize: Request, kept: bytes, access: Access, scopes: ScopeTable
) -> bool:
    await _repeat(session, initialize)
    if not await asyncio.shield(session.initialized):
        return False
    await session.wait_until_reading()
    session.receive(Notification("notifications/initialized"), b"")
    for request in stored_requests(kept, session.stream_prefix):
        if session.has_ended:
            break
        with contextlib.suppress(AccessRefused):  # the caller has lost the scope, so the session loses the subscription
            access.check_scopes(request, scopes)
            await _repeat(session, request)
    session.restoration = None
    return True


async def _repeat(session: HttpSession, request: Request) -> None:
    await session.wait_until_reading()
    session.open_stream((request.id,))
    if session.store is not None:
        session.kept = session.kept or KeptRequests(partial(session.store.keep_requests, session.id))

        def announce_soon() -> None:  # not at once, because the client is not subscribed before the response is sent
            asyncio.get_running_loop().call_soon(_announce, session, request.params.get("uri"))

        session.kept.note(request, announce_soon)
    session.receive(request, b"")


def _announce(session: HttpSession, uri: object) -> None:
    if isinstance(uri, str) and session.served is not None and not session.has_ended:
        cast(_Announcer, session.served).announce("notifications/resources/updated", canonical_uri(uri) or uri)


def served_elsewhere() -> HttpRefusal:
    """Return the refusal of a request for a session that another process serves."""
    # the load balancer has sent the request to the wrong process, or the lease of a dead process has not ended yet
    return HttpRefusal(503, "another process serves the session; try again in a second", [("Retry-After", "1")])


def add_error(session: HttpSession, stream: str, last: str, missed: list[Event]) -> list[Event]:
    """Return the events that a client has missed on a stream that has ended, with an error for a lost request.

    Args:
        session: The session.
        stream: The name of the stream.
        last: The id of the last event that the client has.
        missed: The later events of the stream.

    Raises:
        HttpRefusal: The client has all events, including the response, or the stream's name has no request id.
    """
    if stream.startswith(f"{session.stream_prefix}-"):
        return missed  # a stream of this process
    id, stored = request_id_of(stream), session.events_from(last)
    last_data = stored[-1].data if stored else b""
    has_response = last_data != b"" and isinstance(decode(last_data), (Response, ErrorResponse))
    if id is not None and not has_response:
        error = encode(ErrorResponse(id, Error(INTERNAL_ERROR, LOST)))
        return [*missed, Event(session.store_event(stream, error), error)]
    if not missed:
        # After an empty response, the client would reconnect again and again.
        raise HttpRefusal(400, f"no event follows {last!r:.102}: its stream is complete, or a restart ended it")
    return missed
