"""The authorization server of the examples against the suite, whose client asks a user to open a URL."""

import json
import signal
import socket
import subprocess
import sys
from urllib.request import Request, urlopen

from tests.conformance.conftest import Suite
from tests.settings import PATIENCE, ROOT


def get(url: str, body: bytes | None = None) -> bytes:
    """Return the page at a URL, after redirects."""
    with urlopen(Request(url, body), timeout=PATIENCE) as response:
        return bytes(response.read())


def free_port() -> int:
    """Return a port that no program uses now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_authorization_server_of_the_examples_passes_every_check(suite: Suite) -> None:
    command = [sys.executable, "examples/authorization_server.py", "--yes", "--cimd", "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            issuer = process.stdout.readline().split()[1].rstrip(",")
            metadata = {"redirect_uris": ["http://127.0.0.1/callback"], "token_endpoint_auth_method": "none"}
            client = json.loads(get(f"{issuer}/register", json.dumps(metadata).encode()))["client_id"]
            outcome = suite(
                "authorization", "--url", issuer, "--client-id", client, "--resource", "https://mcp.example/mcp",
                "--port", str(free_port()), browse=get,
            )  # fmt: skip
            expected = {"authorization-server-metadata-endpoint": 2, "authorization-code-grant": 1}
            passed = {name.removeprefix("authorization-server-"): number for name, number in outcome.passed.items()}
            assert passed == expected, outcome.said
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=PATIENCE)[1] == ""
            assert process.returncode == 0
        finally:
            process.kill()
