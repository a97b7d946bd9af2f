"""A server that breaks four rules, recorded while a host talks to it, and judged by the specification.

New here: a *recording* of a conversation between any two programs, and its *check*. `mcp_ref record FILE -- COMMAND`
stands between a host and a server, and writes down each message. `mcp_ref check FILE` names each broken rule, the
events that prove it, and the way to repair it. Neither reads the code of the server, so it can be in any language.

    python3 examples/check_server.py                records a conversation with the server below, and prints the report

Watch it fail: `check` can also use a server itself, gently, in each revision that the server speaks.

    python3 -m mcp_ref check -- python3 examples/check_server.py --serve

The four faults are marked. Repair them one by one, and run the check again. Next: put `record` in front of a server of
your own, with `python3 -m mcp_ref record talk.jsonl --install CONFIG SERVER`.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent

HOST: list[dict[str, Any]] = [
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "host", "version": "1"}}},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "weather", "arguments": {"city": "Ghent"}}},
]  # fmt: skip

TOOL = {
    "name": "weather",
    "description": "Get the temperature of a city.",
    "inputSchema": {"properties": {"city": {"type": "string"}}},  # fault 2: "type": "object" is missing
    "outputSchema": {"type": "object", "properties": {"celsius": {"type": "number"}}, "required": ["celsius"]},
}


def result_of(method: str) -> dict[str, Any] | None:
    """Return the result of a request, or None for an unknown method."""
    if method == "initialize":
        server = {"name": "weather", "version": "1"}
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": server}
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        data = {"celsius": "12"}  # fault 3: a string instead of a number
        return {"content": [{"type": "text", "text": json.dumps(data)}], "structuredContent": data}
    return {} if method == "ping" else None


def serve() -> None:
    """Serve a host over standard input and output."""
    print("weather server is starting", flush=True)  # fault 1: this belongs to standard error
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            # fault 4: the server did not declare the capability tools.listChanged
            print(json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}), flush=True)
            continue
        result = result_of(message["method"])
        outcome = (
            {"result": result} if result is not None else {"error": {"code": -32601, "message": "Method not found"}}
        )
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}), flush=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        recording = str(Path(folder) / "talk.jsonl")
        package = [sys.executable, "-m", "mcp_ref"]
        record = [*package, "record", recording, "--", sys.executable, __file__, "--serve"]
        with subprocess.Popen(record, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as server:
            assert server.stdin is not None and server.stdout is not None
            for message in HOST:
                print(json.dumps(message), file=server.stdin, flush=True)
                while "id" in message and '"id"' not in server.stdout.readline():
                    pass  # wait for the response: this line is the text of fault 1, or a notification
        report = subprocess.run([*package, "check", recording], capture_output=True, text=True, cwd=ROOT)
    print(report.stdout, end="")
    sys.exit(0 if report.returncode == 1 and "4 errors" in report.stdout else 1)


if __name__ == "__main__":
    serve() if "--serve" in sys.argv else main()
