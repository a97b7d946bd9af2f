"""Two peers send requests to each other, several at a time, in both directions: JSON-RPC 2.0, still without MCP.

New here: an *id* in each request, which the response repeats, so that responses can arrive in any order and both
directions can share one connection. `mcp_ref.jsonrpc.Dispatcher` stores our requests that wait for a response, and the
peer's requests that we serve. It sends messages with a transport, and passes received messages to two functions.

    python3 examples/02_jsonrpc.py                  shows each frame; both peers live in this one program

Watch it fail: request a method that the other side does not have. The response then contains an error with a code.

    python3 examples/02_jsonrpc.py shout text=hello

In this file, a peer does not know the name, the revision or the capabilities of the other. Next: 03_handshake.py.
"""

import asyncio
import sys

from mcp_ref import ProtocolError
from mcp_ref.jsonrpc.dispatcher import Dispatcher
from mcp_ref.jsonrpc.messages import METHOD_NOT_FOUND, Notification, Object, Outgoing, Request, decode, encode
from mcp_ref.jsonrpc.requester import MessageTransport


class Wire(MessageTransport):
    """A transport that writes messages to bytes and reads them at the other end."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.other_end: Dispatcher | None = None

    def send(self, message: Outgoing, related: object = None) -> None:
        """Deliver the message after `send` has returned, as a real connection does."""
        frame = encode(message)
        print(f"  {self.name:6} sends {frame.decode()}")
        assert self.other_end is not None
        asyncio.get_running_loop().call_soon(self.other_end.receive, decode(frame))

    async def drain(self, related: object = None) -> None:
        """Return at once, because this transport is never full."""

    def pause_reading(self) -> None:
        """Do nothing, because this transport cannot pause."""

    def resume_reading(self) -> None:
        """Do nothing, because this transport cannot pause."""


class Peer:
    """One of the two sides: its handlers, and the dispatcher that sends its requests."""

    def __init__(self, name: str) -> None:
        self.wire = Wire(name)
        self.dispatcher = Dispatcher(self.wire, self.serve, self.notified, on_abandoned=lambda id, reason: None)
        self.notification_received = asyncio.Event()

    async def serve(self, request: Request) -> Object:
        """Serve one request. Return the result, or raise a ProtocolError, which becomes the error response."""
        match request.method, request.params:
            case "upper", {"text": str(text)}:
                return {"text": text.upper()}
            case "question", _:  # send a request in the other direction before the response
                reply = await self.ask("upper", text="the answer")
                return {"and": reply}
            case method, _:
                raise ProtocolError(METHOD_NOT_FOUND, f"unknown method {method!r}")

    def notified(self, notification: Notification) -> None:
        """Receive a notification, which gets no response."""
        self.notification_received.set()

    async def ask(self, method: str, **params: str) -> Object:
        """Send a request and wait at most five seconds for its result."""
        return await self.dispatcher.request(method, dict(params), timeout=5)


async def main(method: str | None = None, **params: str) -> None:
    """Connect two peers and let them exchange messages."""
    client, server = Peer("client"), Peer("server")
    client.wire.other_end, server.wire.other_end = server.dispatcher, client.dispatcher
    if method is not None:
        print(await client.ask(method, **params))
        return
    long, short = await asyncio.gather(client.ask("question"), client.ask("upper", text="hello"))
    assert long == {"and": {"text": "THE ANSWER"}} and short == {"text": "HELLO"}  # the second response arrived first
    client.dispatcher.notify("thanks", {})
    await server.notification_received.wait()
    print("Each response found its request, although the responses came in another order.")


if __name__ == "__main__":
    if not all("=" in pair for pair in sys.argv[2:]):
        sys.exit("write METHOD NAME=VALUE ..., such as: upper text=hello")
    try:
        asyncio.run(main(*sys.argv[1:2], **dict(pair.split("=", 1) for pair in sys.argv[2:])))
    except ProtocolError as error:
        sys.exit(f"the server returned an error: {error}")
