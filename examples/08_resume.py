"""A client resumes a broken stream, by hand: no message is lost, and the tool runs only once.

New here: *resumability*, a part of Streamable HTTP from 2025-03-26 to 2025-11-25. The server numbers and stores the
events of a session. After a lost connection, the client sends a GET with the number of the last event that it has
received, and the server sends all later ones. The session id is random, so that no other client can guess it.

    python3 examples/08_resume.py                   breaks the stream after two events and resumes it

Watch it fail: resume the stream with a wrong session id.

    python3 examples/08_resume.py --session guessed

Next: weather.py. In that file, `mcp_ref.Server` does all this work, and a tool is a function.
"""

import http.client
import http.server
import json
import secrets
import sys
import threading
from typing import Any

Object = dict[str, Any]
SESSIONS: dict[str, list[Object]] = {}  # the events of each session; a real server limits their number


def run_tool(request: Object) -> list[Object]:
    """Return the messages of one tools/call: three notifications and the response."""
    notification = {"jsonrpc": "2.0", "method": "notifications/progress"}
    steps = [notification | {"params": {"progressToken": 1, "progress": step}} for step in (1, 2, 3)]
    return [*steps, {"jsonrpc": "2.0", "id": request["id"], "result": {"content": []}}]


class Handler(http.server.BaseHTTPRequestHandler):
    """The server: a POST begins a stream, and a GET resumes the stream."""

    def do_POST(self) -> None:
        """Serve `initialize` with a new session id, and `tools/call` with a stream that breaks after two events."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if request["method"] == "initialize":
            SESSIONS[id := secrets.token_urlsafe(24)] = []
            return self.send(200, {"Mcp-Session-Id": id}, b"{}")  # a real result is as in 03_handshake.py
        SESSIONS[self.headers["Mcp-Session-Id"]] += run_tool(request)
        return self.send_events(0, 2)

    def do_GET(self) -> None:
        """Send the events after Last-Event-ID."""
        if self.headers["Mcp-Session-Id"] not in SESSIONS:
            return self.send(404, {}, b"no such session")
        return self.send_events(int(self.headers["Last-Event-ID"]), None)

    def send_events(self, first: int, end: int | None) -> None:
        """Send the stored events from position `first` to `end`. The id of an event is its position plus one."""
        kept = enumerate(SESSIONS[self.headers["Mcp-Session-Id"]][first:end], first + 1)
        text = "".join(f"id: {id}\ndata: {json.dumps(message)}\n\n" for id, message in kept)
        self.send(200, {"Content-Type": "text/event-stream"}, text.encode())

    def send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        """Send a response, then close the connection."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Log nothing, so that the terminal shows only the messages."""


def exchange(port: int, method: str, message: Object | None, headers: Object) -> tuple[http.client.HTTPResponse, str]:
    """Send one HTTP request. Return its response and the text of the body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(method, "/mcp", json.dumps(message) if message else None, headers)
    response = connection.getresponse()
    return response, response.read().decode()


def main(guessed: str | None) -> None:
    """Begin a session, lose the connection, and resume the stream."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_port
        opened, _ = exchange(port, "POST", {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}, {})
        session = opened.headers["Mcp-Session-Id"]
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "work"}}
        _, seen = exchange(port, "POST", call, {"Mcp-Session-Id": session})
        print(f"POST\n\n{seen}-- the connection broke --")
        last = seen.rpartition("\nid: ")[2].partition("\n")[0]
        resumed, rest = exchange(port, "GET", None, {"Mcp-Session-Id": guessed or session, "Last-Event-ID": last})
        server.shutdown()
    if resumed.status != 200:
        sys.exit(f"the server refused to resume: {rest}")
    print(f"GET, Last-Event-ID: {last}\n\n{rest}")
    assert (seen + rest).count("data: ") == 4


if __name__ == "__main__":
    main(sys.argv[2] if sys.argv[1:2] == ["--session"] else None)
