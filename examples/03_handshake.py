"""Two processes agree on a revision and declare their capabilities: the beginning of an MCP session, up to 2025-11-25.

New here: the *handshake*. In `initialize`, the client offers a revision of the protocol, and the server's result names
the session's revision: the offered one, or another, which the client can accept or refuse. Both sides declare their
capabilities too. After that the client sends `notifications/initialized`, and other requests are allowed.

    python3 examples/03_handshake.py                starts a server process and connects to it
    python3 examples/03_handshake.py --trace        also prints every message on standard error

Watch it fail: send a request without a handshake, or offer a revision that nobody speaks.

    python3 examples/03_handshake.py --hasty
    python3 examples/03_handshake.py --offer 1999-12-31

The server in this file has no tools. Next: 04_tools.py.
"""

import argparse
import asyncio
import sys

from mcp_ref import ConnectionClosed, ProtocolError, tracer
from mcp_ref.jsonrpc.dispatcher import Dispatcher
from mcp_ref.jsonrpc.messages import INVALID_REQUEST, METHOD_NOT_FOUND, Notification, Object, Request
from mcp_ref.transports.stdio.client import StdioClientTransport
from mcp_ref.transports.stdio.server import StdioServerTransport, claimed_stdio

SPOKEN = ["2025-11-25", "2025-06-18"]
"""The revisions that the client and the server support, latest first."""


class Server:
    """The state of the handshake, and the handler of requests. (The client uses only the handler.)"""

    ready = False

    async def serve(self, request: Request) -> Object:
        """Serve one request."""
        if request.method == "initialize":
            offered = request.params.get("protocolVersion")
            return {
                "protocolVersion": offered if offered in SPOKEN else SPOKEN[0],
                "capabilities": {},
                "serverInfo": {"name": "handshake", "version": "1.0"},
            }
        if request.method == "ping":  # allowed before the handshake
            return {}
        if not self.ready:
            raise ProtocolError(INVALID_REQUEST, f"{request.method}: the connection is not initialized yet")
        raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {request.method}")

    def notified(self, notification: Notification) -> None:
        """Receive a notification."""
        self.ready = self.ready or notification.method == "notifications/initialized"


async def serve() -> None:
    """Run the server process with pipes (as in 01_bytes.py), a dispatcher (as in 02_jsonrpc.py) and a `Server`."""
    server, ended = Server(), asyncio.Event()
    with claimed_stdio() as (source, sink):
        transport = StdioServerTransport(source, sink)
        dispatcher = Dispatcher(transport, server.serve, server.notified, on_abandoned=lambda id, reason: None)
        await transport.start(dispatcher.receive, lambda error: ended.set())
        await ended.wait()
        await dispatcher.close()
        await transport.close()


async def connect(offer: str, hasty: bool, trace: bool) -> None:
    """Run the client: start this file as the server, and send `initialize`."""
    transport = StdioClientTransport([sys.executable, __file__, "--serve"], trace=tracer() if trace else None)
    dispatcher = Dispatcher(transport, Server().serve, lambda notification: None, on_abandoned=lambda id, reason: None)
    await transport.start(dispatcher.receive, lambda error: dispatcher.fail_pending(error or ConnectionClosed("gone")))
    try:
        if not hasty:
            params: Object = {"protocolVersion": offer, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
            result = await dispatcher.request("initialize", params, timeout=5)
            print(f"offered {offer}, the server chose {result['protocolVersion']}: {result['serverInfo']}")
            if result["protocolVersion"] != offer:
                raise SystemExit(f"the server speaks {result['protocolVersion']}, the client {offer}: disconnecting")
            dispatcher.notify("notifications/initialized", {})
            await dispatcher.request("ping", {}, timeout=5)
            print("It responds to ping. Which tools does it have?")
        print(await dispatcher.request("tools/list", {}, timeout=5))
    except ProtocolError as error:
        print(f"the server returned an error: {error}")
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
