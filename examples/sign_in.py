"""A server that needs a secret from its user. The user types the secret on a web page of the server, not in the client.

New here: *elicitation by URL* (from 2025-11-25 on). The client shows the URL and asks for consent. `accept` means only
that the user agrees to open the URL, not that the user has typed the secret. Because the browser sends the secret
directly to this process, the client and the model never see it: messages, logs and URLs do not contain it.

    python3 examples/sign_in.py                         serves over stdio
    python3 examples/sign_in_client.py --browser        asks you, and opens your browser
    python3 examples/sign_in_client.py                  visits the page without a user

Watch it fail: this client does not support elicitation by URL.

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
PATIENCE = 300.0  # time for the user to type the key, in seconds
FORM = "<title>Sign in</title><form method=post><label>API key <input name=key type=password></label><button>Save"
keys: list[str] = []  # the typed key; a real server would use it to call a service
sites: list["Site"] = []  # the page of the current visit


class Page(BaseHTTPRequestHandler):
    """The web page: GET shows the form, and POST receives the key. Only the user knows the path, which is random."""

    timeout = 5.0

    def do_GET(self) -> None:
        """Show the form."""
        if self.has_secret_path():
            self.send_page(FORM)

    def do_POST(self) -> None:
        """Store the typed key."""
        length = self.headers.get("Content-Length", "")
        if self.has_secret_path() and length.isdecimal():
            keys[:] = parse_qs(self.rfile.read(min(int(length), 10_000)).decode("latin-1")).get("key", [])
            self.send_page("Thank you. You can close this page.")

    def has_secret_path(self) -> bool:
        """Return True if the request has the secret path. Otherwise send a 404."""
        known = secrets.compare_digest(self.path.encode(), f"/{self.server.name}".encode())  # type: ignore[attr-defined]
        if not known:
            self.send_error(404)
        return known

    def send_page(self, html: str) -> None:
        """Send a page that other sites cannot show in a frame. The browser does not send its URL to other sites."""
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        self.wfile.write(html.encode())

    def log_message(self, format: str, *values: object) -> None:
        """Log nothing, because the path is a secret."""


class Site(socketserver.TCPServer):
    """The web server of one visit, on this machine only."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Page)
        self.name = secrets.token_urlsafe()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/{self.name}"


@server.tool()
def sign_in(context: Context) -> str:
    """Let the user type an API key on a page that only the user sees."""
    # In 2026-07-28 the function ends here and runs again with the reply. Both runs must use the same page.
    sites[:] = sites or [Site()]
    # If the browser connects before the client replies, the operating system queues the connection.
    result = context.run(context.elicit_url("Please sign in with your API key.", sites[0].url, sites[0].name))
    with sites.pop() as site:
        if result.action != "accept":
            raise ToolError("The user did not agree to sign in.")
        keys.clear()
        deadline, site.timeout = time.monotonic() + PATIENCE, 1.0
        while not keys and time.monotonic() < deadline:
            site.handle_request()
    if not keys:
        raise ToolError("The user did not sign in in time.")
    context.run(context.elicitation_complete(site.name))
    return f"Signed in. The key's fingerprint is {sha256(keys[0].encode()).hexdigest()[:8]}."


if __name__ == "__main__":
    server.run()
