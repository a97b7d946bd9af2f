"""Two processes agree on a revision and say what they can do: how MCP connections began, up to revision 2025-11-25.

New here: the *lifecycle*. The client's `initialize` offers a revision of the protocol; the server's answer names the
one that is spoken from now on, which is the same, or another that the client may take or leave. Both declare their
capabilities. Then the client says `notifications/initialized`, and only now anything else may be asked.

    python3 examples/03_handshake.py                starts a server process, and shakes hands with it
    python3 examples/03_handshake.py --trace        the same, with every frame on standard error

Watch it fail: ask without a handshake, or offer a revision that nobody speaks.

    python3 examples/03_handshake.py --hasty
    python3 examples/03_handshake.py --offer 1999-12-31

Next: 04_tools.py. This server is polite, and can do nothing.
"""

import argparse
import asyncio
import sys

from mcp_ref import ConnectionClosed, ProtocolError, tracer
from mcp_ref.jsonrpc.dispatcher import Dispatcher
from mcp_ref.jsonrpc.messages import INVALID_REQUEST, METHOD_NOT_FOUND, Notification, Object, Request
from mcp_ref.transports.stdio import StdioClientTransport, StdioServerTransport, claimed_stdio

SPOKEN = ["2025-11-25", "2025-06-18"]
"""The revisions that both sides of this file speak, the best one first."""


class Server:
    """How far the handshake is, and what is answered when."""

    ready = False

    async def serve(self, request: Request) -> Object:
        """Answer one request."""
        if request.method == "initialize":
            offered = request.params.get("protocolVersion")
            return {
                "protocolVersion": offered if offered in SPOKEN else SPOKEN[0],
                "capabilities": {},
                "serverInfo": {"name": "handshake", "version": "1.0"},
            }
        if request.method == "ping":  # the one request that needs no handshake
            return {}
        if not self.ready:
            raise ProtocolError(INVALID_REQUEST, f"{request.method}: the connection is not initialized yet")
        raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {request.method}")

    def notified(self, notification: Notification) -> None:
        """Take a notification."""
        self.ready = self.ready or notification.method == "notifications/initialized"


async def serve() -> None:
    """The server process: 01_bytes.py's pipes below, 02_jsonrpc.py's dispatcher in between, `Server` above."""
    server, ended = Server(), asyncio.Event()
    with claimed_stdio() as (source, sink):
        transport = StdioServerTransport(source, sink)
        dispatcher = Dispatcher(transport, server.serve, server.notified, abandoned=lambda id, reason: None)
        await transport.start(dispatcher.receive, lambda error: ended.set())
        await ended.wait()
        await dispatcher.close()
        await transport.close()


async def connect(offer: str, hasty: bool, trace: bool) -> None:
    """The client: start this very file as the server, and greet it."""
    transport = StdioClientTransport([sys.executable, __file__, "--serve"], trace=tracer() if trace else None)
    dispatcher = Dispatcher(transport, Server().serve, lambda notification: None, abandoned=lambda id, reason: None)
    await transport.start(dispatcher.receive, lambda error: dispatcher.fail_pending(error or ConnectionClosed("gone")))
    try:
        if not hasty:
            me: Object = {"name": "client", "version": "1.0"}
            greeting: Object = {"protocolVersion": offer, "capabilities": {}, "clientInfo": me}
            answer = await dispatcher.request("initialize", greeting, timeout=5)
            print(f"offered {offer}, the server says {answer['protocolVersion']}: {answer['serverInfo']}")
            if answer["protocolVersion"] != offer:
                raise SystemExit(f"the server speaks {answer['protocolVersion']}, we wanted {offer}: we hang up")
            dispatcher.notify("notifications/initialized", {})
            await dispatcher.request("ping", {}, timeout=5)
            print("It answers pings. Now, what can it do?")
        print(await dispatcher.request("tools/list", {}, timeout=5))
    except ProtocolError as error:
        print(f"the server answered: {error}")
        assert error.code == (INVALID_REQUEST if hasty else METHOD_NOT_FOUND)
    finally:
        await dispatcher.close()
        await transport.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--offer", default=SPOKEN[0], help="the revision to offer")
    for flag in ("--hasty", "--trace", "--serve"):
        parser.add_argument(flag, action="store_true")
    options = parser.parse_args()
    asyncio.run(serve() if options.serve else connect(options.offer, options.hasty, options.trace))
