"""A stateless request over HTTP, by hand. A POST transports the request, and the HTTP response transports the response.

New here: *headers that mirror the body*. They repeat the revision, the method and the tool's name, so that a proxy
between client and server can route, count or block requests without parsing a body. The server must compare them with
the body, because an attacker could otherwise show the proxy one tool and call another.

    python3 examples/06_post.py                     starts a server, sends one POST, prints both messages

Watch it fail: send a header that contradicts the body.

    python3 examples/06_post.py --name harmless_tool

In this file, the client receives nothing until the tool is done. Next: 07_stream.py.
"""

import argparse
import http.client
import http.server
import json
import sys
import threading
from email.message import Message
from typing import Any

Object = dict[str, Any]

REVISION = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"


def mismatch(headers: Message, request: Object) -> str | None:
    """Return the name of the first header that does not mirror the body, or None."""
    params = request["params"]
    mirrored = {
        "MCP-Protocol-Version": params["_meta"][f"{PREFIX}protocolVersion"],
        "Mcp-Method": request["method"],
        "Mcp-Name": params["name"],
    }
    return next((name for name, value in mirrored.items() if headers.get(name) != value), None)


class Handler(http.server.BaseHTTPRequestHandler):
    """The server: one POST, one response."""

    def do_POST(self) -> None:
        """Serve one request."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        wrong = mismatch(self.headers, request)
        if wrong is not None:
            error = {"code": -32020, "message": f"Header mismatch: {wrong} differs from the body"}
            return self.respond(400, {"jsonrpc": "2.0", "id": request["id"], "error": error})
        count = str(len(request["params"]["arguments"]["text"].split()))
        result = {"resultType": "complete", "content": [{"type": "text", "text": count}]}
        return self.respond(200, {"jsonrpc": "2.0", "id": request["id"], "result": result})

    def respond(self, status: int, message: Object) -> None:
        """Send one message as the body."""
        body = json.dumps(message).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Log nothing, so that the terminal shows only the messages."""


def main(name: str) -> None:
    """Send one POST to a server in another thread."""
    meta = {f"{PREFIX}protocolVersion": REVISION, f"{PREFIX}clientCapabilities": {}}
    params = {"name": "count_words", "arguments": {"text": "to be or not to be"}, "_meta": meta}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    headers |= {"MCP-Protocol-Version": REVISION, "Mcp-Method": "tools/call", "Mcp-Name": name}
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:  # 127.0.0.1: other machines cannot connect
        threading.Thread(target=server.serve_forever, daemon=True).start()
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
        connection.request("POST", "/mcp", body, headers)
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        server.shutdown()
    print(f"-> POST /mcp, Mcp-Name: {name}\n   {body}\n<- {response.status}\n   {text}")
    if response.status != 200:
        sys.exit("the server refused the request")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", default="count_words", help="the tool's name in the header Mcp-Name")
    main(parser.parse_args().name)
