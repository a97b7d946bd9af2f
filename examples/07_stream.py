"""A response as a stream of server-sent events, by hand: progress first, the result last.

New here: a *stream*. Instead of one JSON body the server sends `Content-Type: text/event-stream`: events, separated by
empty lines, with one message each. Notifications about the request come first, and the response comes last.

    python3 examples/07_stream.py                   calls a slow tool and prints each event when it arrives

Watch it fail: the server closes the connection after two events. In 2026-07-28 a client cannot resume a stream, but can
only send the request again, because a server treats a closed connection as a cancellation of the request.

    python3 examples/07_stream.py --cut 2

Next: 08_resume.py. A tool that changes something, such as a payment, should not run twice.
"""

import argparse
import http.client
import http.server
import json
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

Object = dict[str, Any]

PREFIX = "io.modelcontextprotocol/"
STEPS = 4


def messages(request: Object) -> Iterator[Object]:
    """Yield a progress notification for each step of the work, and then the response."""
    token = request["params"]["_meta"]["progressToken"]
    for step in range(1, STEPS + 1):
        time.sleep(0.05)  # the work
        params = {"progressToken": token, "progress": step, "total": STEPS}
        yield {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
    result = {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}
    yield {"jsonrpc": "2.0", "id": request["id"], "result": result}


class Handler(http.server.BaseHTTPRequestHandler):
    """The server: one POST, one stream."""

    cut = 0

    def do_POST(self) -> None:
        """Serve one request. (A real server also compares the headers with the body, as in 06_post.py.)"""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()  # no Content-Length: the stream ends when the connection closes
        for number, message in enumerate(messages(request), 1):
            self.wfile.write(b"data: " + json.dumps(message).encode() + b"\n\n")
            if number == self.cut:
                return

    def log_message(self, *arguments: object) -> None:
        """Log nothing, so that the terminal shows only the messages."""


def events(response: http.client.HTTPResponse) -> Iterator[Object]:
    """Yield the message of each event. (An event can have several data lines, but this server sends only one.)"""
    for line in response:
        if line.startswith(b"data: "):
            yield json.loads(line.removeprefix(b"data: "))


def main(cut: int) -> None:
    """Send one POST and read the stream in the response."""
    Handler.cut = cut
    meta = {f"{PREFIX}protocolVersion": "2026-07-28", f"{PREFIX}clientCapabilities": {}, "progressToken": "p"}
    params = {"name": "work", "arguments": {}, "_meta": meta}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    headers |= {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "work"}
    last: Object = {}
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
        connection.request("POST", "/mcp", body, headers)
        for last in events(connection.getresponse()):
            print("<-", json.dumps(last))
        connection.close()
        server.shutdown()
    if "result" not in last:
        sys.exit("the stream broke before the response: the result is lost")
    assert last["result"]["content"][0]["text"] == "done"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cut", type=int, default=0, help="break the connection after this number of events")
    main(parser.parse_args().cut)
