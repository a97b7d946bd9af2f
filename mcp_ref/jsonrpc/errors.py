"""The exceptions of this package. Each type tells which side broke a rule.

    McpError                     base class: everything raised on purpose about a peer or a message
    ├── ProtocolError            a JSON-RPC error; a handler raises it to send it to the peer
    │   └── RemoteError          a JSON-RPC error that the peer sent; raised at the `await` of the request that failed
    ├── InvalidMessage           the peer's response breaks a rule of its revision
    ├── RequestTimeout           no response in time (also a TimeoutError)
    ├── ConnectionClosed         the connection ended before the response (also a ConnectionError)
    │   └── UnrecognizedReply        the peer's reply is not a message of this protocol
    ├── UnsupportedRevision      client and server have no revision in common (basic/lifecycle.py)
    └── CapabilityError          the local caller used a feature that the peer did not declare (basic/lifecycle.py)

Other mistakes of the local caller are ordinary TypeErrors, ValueErrors and RuntimeErrors.

Spec:  basic/index#responses. Each page of the specification defines the error codes of its feature.
"""

from __future__ import annotations

from .messages import JSON, Error


class McpError(Exception):
    """The base class of the exceptions about a peer or a message."""


class ProtocolError(McpError):
    """A JSON-RPC error. If a handler raises it, the peer gets it as the error response.

    Args:
        code: error code, an integer, such as -32602 for invalid params.
        message: one sentence for people.
        data: more about the error, as JSON; left out when None.
    """

    def __init__(self, code: int, message: str, data: JSON = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data

    def __str__(self) -> str:
        details = "" if self.data is None else f": {self.data}"
        return f"{self.message} (error {self.code}){details}"

    def to_error(self) -> Error:
        """Return the `error` member of the response."""
        return Error(self.code, self.message, self.data)


class RemoteError(ProtocolError):
    """A JSON-RPC error that the peer sent in response to a request."""


class InvalidMessage(McpError):
    """A response that breaks a rule. The exception's text names the place in the message and the expected value."""


class RequestTimeout(McpError, TimeoutError):
    """No response within the caller's time limit. The peer was told that nobody waits any more."""


class ConnectionClosed(McpError, ConnectionError):
    """The end of a connection. The text has the reason, such as the exit code and last output of a server process."""


class UnrecognizedReply(ConnectionClosed):
    """A reply that is not a message of this protocol: the peer may speak another one."""
