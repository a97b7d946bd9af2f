"""The client's limit on large messages: only the response to a waiting request may be large.

Parsing 60 MB of JSON can take seconds and fill half a gigabyte, and a server can send notifications forever. So before
the client parses a large message, it looks for the id near the start and the end of the text:

    at most `MAX_UNREQUESTED` bytes          -> parsed
    larger, with the id of a waiting request -> parsed, and this request ends
    larger, without such an id               -> refused, without parsing

This works because a response has three members, `jsonrpc`, `id`, and a result or error. Only the result or error may be
large, so in any order of the members, the id is near the start or the end. In a batch, the id that is found belongs
to the first or the last response, and decides about the whole batch. A hostile server can write the id of a waiting
request into another message, but that request then fails, so the server gets at most one large message parsed for each
of our requests.

Threats:
    large-notification: A hostile server sends messages of 60 MB for which no request waits, until the client has no
        time and memory left for its other servers. The client refuses them unparsed, even if they end with an id.

Spec:  basic/index#responses
Used by: the transports of the client
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from .messages import (
    INVALID_REQUEST,
    Batch,
    Error,
    ErrorResponse,
    Incoming,
    Malformed,
    RequestId,
    Response,
    decode,
    is_request_id,
)
from .outline import MAX_UNREQUESTED, same_id, search_ends

WaitsFor: TypeAlias = Callable[[RequestId], bool] | None
"""The function `Transport.waits_for`; None if the size of messages is not limited here."""


def decode_from_server(frame: bytes, waits_for: WaitsFor) -> Incoming:
    """Decode a message. A large one goes to `decode_large`, which may refuse it. Never raises."""
    return decode(frame) if len(frame) <= MAX_UNREQUESTED else decode_large(frame, waits_for)


def decode_large(frame: bytes, waits_for: WaitsFor) -> Incoming:
    """Decode a message over `MAX_UNREQUESTED` if a request waits for it. Otherwise return `Malformed`. Never raises."""
    if waits_for is None:
        return decode(frame)
    keys, found = search_ends(frame)
    id = found if is_request_id(found) else None
    has_method = "method" in keys  # so it is a request or a notification, not a response
    if has_method or id is None or not waits_for(id):
        rule = f"a message with more than {MAX_UNREQUESTED} bytes must be the response to a request that waits"
        error = Error(INVALID_REQUEST, f"Invalid Request: {rule}")
        if has_method and id is not None:  # a request
            return Malformed(error, id)
        return Malformed(error, expects_no_response=True)
    message = decode(frame)
    if responds_to(message, id):
        return message
    fault = "it has the id of a request, but is not a response"
    error = message.error if isinstance(message, Malformed) else Error(INVALID_REQUEST, f"Invalid response: {fault}")
    return Malformed(error, id, expects_no_response=True)  # this makes the waiting request fail


def responds_to(message: object, id: RequestId) -> bool:
    """Return True if a message, or one message of a batch, is a valid or invalid response to this request."""
    if isinstance(message, (Response, ErrorResponse)):
        return same_id(message.id, id)
    if isinstance(message, Malformed):  # an invalid request expects a response, but an invalid response does not
        return message.expects_no_response and same_id(message.id, id)
    return isinstance(message, Batch) and any(responds_to(member, id) for member in message.messages)


def is_response(frame: bytes, waits_for: WaitsFor) -> bool:
    """Return True if a message seems to be the response to a waiting request, without parsing its JSON."""
    keys, id = search_ends(frame)
    return is_request_id(id) and "method" not in keys and (waits_for is None or waits_for(id))


def waits_only_for(id: RequestId) -> Callable[[RequestId], bool]:
    """Return the `waits_for` function of one request."""
    return lambda other: same_id(other, id)
