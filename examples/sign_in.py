"""A server that needs a secret of its user, and gets it past the client: on a web page of its own.

New here: *elicitation by URL* (from 2025-11-25 on). The client shows the address and asks for consent; `accept` means
that the user agreed to go there, not that it is done. What they type goes from their browser to this process; neither
the client nor the model ever sees it: not in a message, not in a log, not in the address.

    python3 examples/sign_in.py                         serves over stdio
    python3 examples/sign_in_client.py --browser        opens your browser, after asking you
    python3 examples/sign_in_client.py                  plays the user by itself

Watch it fail: this client does not do URLs. And a visitor who does not know the whole address gets nothing.

    python3 -m mcp_ref call sign_in -- python3 examples/sign_in.py
"""

import secrets
import socketserver
import time
from hashlib import sha256
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs

from mcp_ref import Context, Server, ToolError

server = Server("sign in", "1.0")
PATIENCE = 300.0  # seconds that somebody has to type it in
FORM = "<title>Sign in</title><form method=post><label>API key <input name=key type=password></label><button>Save"
keys: list[str] = []  # in this process's memory and nowhere else; a real server would use it to call the service
sites: list["Site"] = []  # the one that the user is asked to visit, until they answer


class Page(BaseHTTPRequestHandler):
    """GET shows the form, POST takes what was typed in. Both only at the address that nobody can guess."""

    timeout = 5.0

    def do_GET(self) -> None:
        """Show the form."""
        if self.is_ours():
            self.answer(FORM)

    def do_POST(self) -> None:
        """Take the key."""
        length = self.headers.get("Content-Length", "")
        if self.is_ours() and length.isdecimal():
            keys[:] = parse_qs(self.rfile.read(min(int(length), 10_000)).decode("latin-1")).get("key", [])
            self.answer("Thank you. You can close this page.")

    def is_ours(self) -> bool:
        """Whether the whole address is known; else say that there is nothing."""
        known = secrets.compare_digest(self.path.encode(), f"/{self.server.name}".encode())  # type: ignore[attr-defined]
        if not known:
            self.send_error(404)
        return known

    def answer(self, html: str) -> None:
        """Send a page that no other site can frame, and that tells none where its visitor comes from."""
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        self.wfile.write(html.encode())

    def log_message(self, format: str, *values: object) -> None:
        """Log nothing: the address is a secret."""


class Site(socketserver.TCPServer):
    """Where the page is, for one visit: on this machine only."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Page)
        self.name = secrets.token_urlsafe()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/{self.name}"


@server.tool()
def sign_in(context: Context) -> str:
    """Have the user type in their API key, on a page that only they see."""
    # In 2026-07-28 this function ends where it asks, and runs anew with the answer: the page must be the same then.
    sites[:] = sites or [Site()]
    # A browser that is quicker than the client's answer waits in the socket's queue.
    answer = context.run(context.elicit_url("Please sign in with your API key.", sites[0].url, sites[0].name))
    with sites.pop() as site:
        if answer.action != "accept":
            raise ToolError("The user did not agree to sign in.")
        keys.clear()
        deadline, site.timeout = time.monotonic() + PATIENCE, 1.0
        while not keys and time.monotonic() < deadline:
            site.handle_request()
    if not keys:
        raise ToolError("Nobody signed in.")
    context.run(context.elicitation_complete(site.name))
    return f"Signed in. The key's fingerprint is {sha256(keys[0].encode()).hexdigest()[:8]}."


if __name__ == "__main__":
    server.run()
