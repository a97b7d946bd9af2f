"""Large messages on the client: only the response to a request that waits can be large.

To parse 60 MB of JSON can take seconds and half a gigabyte, and a server can send notifications forever. So the
client looks for the id of a large message first, near the start and the end of the text:

    at most `MAX_UNREQUESTED` bytes          -> parsed
    larger, with the id of a waiting request -> parsed, and this request ends
    larger, without such an id               -> refused, without parsing

A response has three members: `jsonrpc`, `id`, and a result or error. Only the last one can be large, so in each order
the id stands in front of it or behind it. In a batch, the first or the last response shows its id. A hostile server can
write the id of a waiting request into another message. But then this request fails, so the server gets only one large
message parsed for each of our requests.

Threats:
    large-notification: the time and the memory of a client, and of its other servers; a hostile server; sends messages
        of 60 MB for which no request waits, with any order of their keys; they are refused before they are parsed.

Spec:  basic/index#responses
Used by: the transports of the client
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from .outline import MAX_UNREQUESTED, search_ends

WaitsFor: TypeAlias = Callable[[RequestId], bool] | None
"""The function `Transport.waits_for`; None if the size of messages is not limited here."""


def decode_from_server(frame: bytes, waits_for: WaitsFor) -> Incoming:
    """Decode a message, or refuse it as `decode_large` does. Never raises."""
    return decode(frame) if len(frame) <= MAX_UNREQUESTED else decode_large(frame, waits_for)


def decode_large(frame: bytes, waits_for: WaitsFor) -> Incoming:
    """Decode a message over `MAX_UNREQUESTED`, or refuse it. Never raises. A refused message becomes `Malformed`."""
    if waits_for is None:
        return decode(frame)
    keys, found = search_ends(frame)
    id = found if is_request_id(found) else None
    if "method" in keys or id is None or not waits_for(id):
        rule = f"a message with more than {MAX_UNREQUESTED} bytes must be the response to a request that waits"
        return Malformed(Error(INVALID_REQUEST, f"Invalid Request: {rule}"), id if "method" in keys else None,
                         expects_no_response="method" not in keys or id is None)  # fmt: skip
    message = decode(frame)
    members: Sequence[object] = message.messages if isinstance(message, Batch) else [message]
    if any(isinstance(member, (Response, ErrorResponse)) and str(member.id) == str(id) for member in members):
        return message
    rule = "it has the id of a request, but is not a response"
    error = message.error if isinstance(message, Malformed) else Error(INVALID_REQUEST, f"Invalid response: {rule}")
    return Malformed(error, id, expects_no_response=True)  # the request fails


def is_response(frame: bytes, waits_for: WaitsFor) -> bool:
    """Return True if a message seems to be the response to a waiting request. Its JSON is not parsed."""
    keys, id = search_ends(frame)
    return is_request_id(id) and "method" not in keys and (waits_for is None or waits_for(id))
