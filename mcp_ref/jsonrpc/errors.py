"""What can go wrong between two peers, each error saying who broke the rule.

    McpError                     everything this package raises on purpose about a peer or a message
    ├── ProtocolError            a JSON-RPC error, raised by a handler to be sent to the peer
    │   └── RemoteError          one that the peer sent, raised where its request is awaited
    ├── InvalidMessage           the peer answered with something that its revision does not allow
    ├── RequestTimeout           the peer did not answer in time (also a TimeoutError)
    ├── ConnectionClosed         the connection ended before the answer came (also a ConnectionError)
    │   └── ForeignAnswer        the peer answered with what is no message at all
    ├── UnsupportedRevision      client and server have no revision in common (basic/lifecycle.py)
    └── CapabilityError          the local caller used what the peer did not declare (basic/lifecycle.py)

Other mistakes of the local caller are ordinary TypeErrors, ValueErrors and RuntimeErrors.

Spec:  basic/index#responses; the codes of each revision stand with the feature that uses them
"""

from __future__ import annotations

from .messages import JSON, Error


class McpError(Exception):
    """The root of the exceptions about a peer or a message."""


class ProtocolError(McpError):
    """A JSON-RPC error. A handler raises it to answer with exactly this `code`, `message` and `data`."""

    def __init__(self, code: int, message: str, data: JSON = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def __str__(self) -> str:
        details = "" if self.data is None else f": {self.data}"
        return f"{self.message} (error {self.code}){details}"

    def to_error(self) -> Error:
        """The `error` member to put on the wire."""
        return Error(self.code, self.message, self.data)


class RemoteError(ProtocolError):
    """The peer answered a request with this error."""


class InvalidMessage(McpError):
    """The peer sent what its revision does not allow; the text says where and what was expected."""


class RequestTimeout(McpError, TimeoutError):
    """No answer within the time the caller gave, in seconds. The peer was told that nobody waits any more."""


class ConnectionClosed(McpError, ConnectionError):
    """The connection is gone. The text says why, with the exit code and the last words of a server process."""


class ForeignAnswer(ConnectionClosed):
    """The peer is there, but what it answered is no message: perhaps it speaks something else."""
