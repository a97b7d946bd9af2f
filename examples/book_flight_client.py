"""A client that books a flight, by hand. It sends its requests alternately to two server processes with the same key.

New here: the work of `client.call_tool`. A result of the type `input_required` contains requests for the user. The
client sends its own request again under another id, with the replies and the unchanged `requestState`. Each POST is a
stateless request, so any process can serve it.

    python3 examples/book_flight_client.py

Watch it fail: the second process has another key, so it refuses the state from the first process.

    python3 examples/book_flight_client.py --other-key
"""

import json
import secrets
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

HERE = Path(__file__).resolve().parent
COMMAND = [sys.executable, "-m", "mcp_ref", "run", str(HERE / "book_flight.py"), "--http", "--port", "0"]
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
}
HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "tools/call",
    "Mcp-Name": "book_flight",
}
CALL = {"name": "book_flight", "arguments": {"origin": "ZRH", "destination": "OSL", "day": "2030-05-01"}}
USER = {"flight": {"departure": "12:40", "passenger": "Ada Lovelace"}, "seat": {"cabin": "economy"}}


def serve(key: str, processes: ExitStack) -> str:
    """Start a server process with this key and return its URL."""
    process = processes.enter_context(
        subprocess.Popen(COMMAND, cwd=HERE.parent, env={"FLIGHT_KEY": key}, stderr=subprocess.PIPE, text=True)
    )
    processes.callback(process.terminate)
    assert process.stderr is not None
    return process.stderr.readline().split()[-1]  # "travel desk: http://127.0.0.1:..."


def post(url: str, id: int, params: dict[str, Any]) -> dict[str, Any]:
    """Send one stateless request and return its result."""
    request = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {**params, "_meta": META}}
    try:
        with urlopen(Request(url, json.dumps(request).encode(), HEADERS), timeout=10) as response:
            message = json.load(response)
    except HTTPError as error:
        with error:
            message = json.load(error)
    if "error" in message:
        sys.exit(f"process {url} refused: {message['error']['message']}")
    return dict(message["result"])


def main() -> None:
    """Send the call again and again until the result is complete."""
    key = secrets.token_hex(32)
    second_key = secrets.token_hex(32) if "--other-key" in sys.argv else key
    with ExitStack() as processes:
        urls = [serve(key, processes), serve(second_key, processes)]
        url, rounds = urls[0], 1
        result = post(url, rounds, CALL)
        while result["resultType"] == "input_required":
            responses = {}
            for name, asked in result["inputRequests"].items():
                print(f"{url} asks: {asked['params']['message']}")
                responses[name] = {"action": "accept", "content": USER[name]}
            again = {**CALL, "inputResponses": responses, "requestState": result["requestState"]}
            url = urls[rounds % 2]  # the other process
            rounds += 1
            result = post(url, rounds, again)
        text = result["content"][0]["text"]
        print(text)
        assert rounds == 3 and "Ada Lovelace, economy, 120 euros" in text


if __name__ == "__main__":
    main()
