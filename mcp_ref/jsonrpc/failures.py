"""Failures: the error that a peer gets when a handler raises an exception.

A handler can raise any exception. Its text may come from another server that the handler called, and may hold secrets
or instructions for a model, so the handler's peer gets only texts that the author, this package, or the peer wrote:

    ProtocolError, ToolError     the exception's text: the author chose it for the peer
    CapabilityError              the exception's text: it names only a capability of the specification
    errors of `context.elicit`   the exception's text: the peer itself caused the error
      and other input requests
    RemoteError                  "a request of the handler returned the error -32602": the code, without the text
    RequestTimeout               "a request of the handler got no response in time"
    every other exception        "Internal error", or "Tool add failed"; the log has the traceback

Threats:
    error-secrets: A client makes the server behind a tool fail, and reads passwords in that server's last output, which
        the tool's error quotes. A client gets only the texts above.

Spec:  basic/index#error-responses (2025-11-25 and 2026-07-28)
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from .errors import InvalidMessage, McpError, ProtocolError, RemoteError, RequestTimeout
from .messages import INTERNAL_ERROR, Error, ErrorResponse, Malformed, Message, Request, Response, encode

log = logging.getLogger(__name__)

INTERRUPTED: Final = "the server stopped serving the request, which may have had effects already"
"""The error message for a request that the server did not serve to its end."""


def text_for_peer(error: BaseException) -> str | None:
    """Return the text that a handler's peer gets for this exception; None for a generic text."""
    if isinstance(error, McpError) and error.is_for_peer:
        return str(error)
    if isinstance(error, RemoteError):
        return f"a request of the handler returned the error {error.code}"
    if isinstance(error, RequestTimeout):
        return "a request of the handler got no response in time"
    return None


def error_for_peer(error: BaseException) -> Error:
    """Return the error that a handler's peer gets for this exception."""
    if isinstance(error, ProtocolError) and error.is_for_peer:
        return error.to_error()
    return Error(INTERNAL_ERROR, text_for_peer(error) or "Internal error")


def error_response(request: Request, error: BaseException, is_cancelled: bool) -> ErrorResponse | None:
    """Return the response for an exception of a request's handler, or None if the request was cancelled."""
    if is_cancelled and isinstance(error, asyncio.CancelledError):
        # [2025-11-25 basic/utilities/cancellation#behavior-requirements] the receiver SHOULD send no response
        return None
    fault = error_for_peer(error)
    peer_gets_text = text_for_peer(error) is not None and fault.message in str(error)
    if not peer_gets_text:  # so only the log can have it
        log.exception("the handler of %s failed", request.method)
    return ErrorResponse(request.id, fault)


def log_notification_failure(method: str, error: BaseException) -> None:
    """Log an exception of a notification's handler. Raise it again if it has to end the program."""
    if isinstance(error, (SystemExit, KeyboardInterrupt)):
        raise error
    log.error("the handler of %s failed", method, exc_info=error)


def handler_fault(text: str) -> InvalidMessage:
    """Log a mistake of a client's handler. Return the error to raise, which ends the server's request, or in the modern
    era, where the server sends no requests, the client's own call."""
    log.error(text)
    return InvalidMessage(text).show_to_peer()


def interrupted_response(request: Request) -> ErrorResponse:
    """Return the response for a request whose handler was cancelled, although the client waits for the response."""
    return ErrorResponse(request.id, Error(INTERNAL_ERROR, INTERRUPTED))


def writable_response(response: Message | Malformed) -> Message:
    """Return the response, or an error response if the result has no JSON form."""
    assert isinstance(response, (Response, ErrorResponse))
    try:
        encode(response)
    except (ValueError, TypeError, RecursionError) as error:
        log.error("the handler of request %r returned a result that cannot be written as JSON: %s", response.id, error)
        text = "Internal error: the result cannot be written as JSON"
        return ErrorResponse(response.id, Error(INTERNAL_ERROR, text))
    return response
