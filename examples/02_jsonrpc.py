"""Two peers ask each other, several things at a time, in both directions: JSON-RPC 2.0, still nothing of MCP.

New here: an *id* on each request. The answer carries it too, so answers may come in any order and over the same wire
as questions of the other side. `mcp_ref.jsonrpc.Dispatcher` keeps the two tables that this takes: what we have asked,
and what we are asked. It wants a transport below it, and two functions above.

    python3 examples/02_jsonrpc.py                  shows each frame; both peers live in this one program

Watch it fail: ask for what the other side does not have. A failure is an answer too, with a code, and never silence.

    python3 examples/02_jsonrpc.py shout text=hello

Next: 03_handshake.py. Here nobody knows who the other one is, and what it can do.
"""

import asyncio
import sys

from mcp_ref import ProtocolError
from mcp_ref.jsonrpc.dispatcher import Dispatcher
from mcp_ref.jsonrpc.messages import METHOD_NOT_FOUND, Notification, Object, Outgoing, Request, decode, encode
from mcp_ref.jsonrpc.requester import Transport


class Wire(Transport):
    """A transport: it writes a message to bytes, and at the other end reads it again."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.other_end: Dispatcher | None = None

    def send(self, message: Outgoing, related: object = None) -> None:
        """Deliver the message in the next turn of the event loop, as a real wire would: never during `send`."""
        frame = encode(message)
        print(f"  {self.name:6} sends {frame.decode()}")
        assert self.other_end is not None
        asyncio.get_running_loop().call_soon(self.other_end.receive, decode(frame))

    async def drain(self, related: object = None) -> None:
        """This wire is never full."""

    def pause_reading(self) -> None:
        """Nor does it stop."""

    def resume_reading(self) -> None:
        """So it need not go on, either."""


class Peer:
    """One side: what it answers, and a dispatcher to ask with."""

    def __init__(self, name: str) -> None:
        self.wire = Wire(name)
        self.dispatcher = Dispatcher(self.wire, self.serve, self.notified, abandoned=lambda id, reason: None)
        self.told = asyncio.Event()

    async def serve(self, request: Request) -> Object:
        """Answer one request. What is returned is the result; a ProtocolError is the error."""
        match request.method, request.params:
            case "upper", {"text": str(text)}:
                return {"text": text.upper()}
            case "question", _:  # before it answers, it asks back: both directions, one wire
                reply = await self.ask("upper", text="the answer")
                return {"and": reply}
            case method, _:
                raise ProtocolError(METHOD_NOT_FOUND, f"there is no method {method!r} with such params here")

    def notified(self, notification: Notification) -> None:
        """Take what needs no answer, and gets none."""
        self.told.set()

    async def ask(self, method: str, **params: str) -> Object:
        """Send a request and wait for its answer, for at most five seconds: no wait is without an end."""
        return await self.dispatcher.request(method, dict(params), timeout=5)


async def main(method: str | None = None, **params: str) -> None:
    """Connect two peers, and let them talk."""
    client, server = Peer("client"), Peer("server")
    client.wire.other_end, server.wire.other_end = server.dispatcher, client.dispatcher
    if method is not None:
        print(await client.ask(method, **params))
        return
    long, short = await asyncio.gather(client.ask("question"), client.ask("upper", text="hello"))
    assert long == {"and": {"text": "THE ANSWER"}} and short == {"text": "HELLO"}  # the second was answered first
    client.dispatcher.notify("thanks", {})
    await server.told.wait()
    print("Each answer found its question, though they crossed.")


if __name__ == "__main__":
    try:
        asyncio.run(main(*sys.argv[1:2], **dict(pair.split("=", 1) for pair in sys.argv[2:])))
    except ProtocolError as error:
        sys.exit(f"the server answered: {error}")
