"""The exceptions of this package about a peer or a message.

    McpError                     base class of these exceptions
    ├── ProtocolError            a JSON-RPC error: if a handler raises it, the peer gets it as the error response
    │   └── RemoteError          a JSON-RPC error that the peer sent: the caller of the failed request gets it
    ├── InvalidMessage           the peer's response breaks a rule of its revision
    ├── RequestTimeout           the response did not come in time (also a TimeoutError)
    ├── ConnectionClosed         no connection, or no response on it (also a ConnectionError)
    │   └── UnrecognizedReply    the peer's reply is not a JSON-RPC message
    ├── UnsupportedRevision      client and server have no revision in common (basic/lifecycle.py)
    ├── CapabilityError          the local caller used a feature that the peer did not declare (basic/lifecycle.py)
    └── AuthorizationError       authorization failed on the client (basic/authorization/errors.py)

Mistakes of the local caller that concern no peer are a TypeError, ValueError or RuntimeError instead.

Spec:  basic/index#responses. The specification's page of a feature defines the error codes of that feature.
"""

from __future__ import annotations

from typing import Self

from .messages import JSON, Error


class McpError(Exception):
    """The base class of the exceptions about a peer or a message."""

    is_for_peer = False
    """True if a handler that raises this exception wants its peer to read the text (failures.py)."""
    is_temporary = False
    """True if the authorization failed only because no authorization server responded, so that a retry makes sense."""

    def show_to_peer(self) -> Self:
        """Return this exception, after marking that the peer may read its text, which reveals nothing internal."""
        self.is_for_peer = True
        return self


class ProtocolError(McpError):
    """A JSON-RPC error. If a handler raises it, the peer gets it as the error response.

    `code` is an integer, such as -32602 for invalid params; `message` is one sentence for people, and `data` any JSON.
    """

    is_for_peer = True

    def __init__(self, code: int, message: str, data: JSON = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data

    def __str__(self) -> str:
        details = "" if self.data is None else f": {self.data}"
        return f"{self.message} (error {self.code}){details}"

    def to_error(self) -> Error:
        return Error(self.code, self.message, self.data)


class RemoteError(ProtocolError):
    """A JSON-RPC error that the peer sent in response to a request."""

    is_for_peer = False  # another server may have written the text, with secrets in it
    advice = ""  # to the local caller, at the end of the error's text

    def __str__(self) -> str:
        return f"{super().__str__()}; {self.advice}" if self.advice else super().__str__()


class InvalidMessage(McpError):
    """A response that breaks a rule. The text names the invalid member and the value that was expected."""


class RequestTimeout(McpError, TimeoutError):
    """No response within the caller's time limit."""


class ConnectionClosed(McpError, ConnectionError):
    """No connection, or no response on it. The text gives the reason, such as the exit code of a server process."""

    is_unsent = False  # True if no connection was made, so the request has had no effect
    http_status = 0  # the status of an HTTP response without a JSON-RPC response; 0 without HTTP response


class UnrecognizedReply(ConnectionClosed):
    """A reply that is not a JSON-RPC message. Perhaps the peer does not speak MCP on this transport."""
