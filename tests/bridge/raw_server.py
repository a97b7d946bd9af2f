"""A legacy server without this package. It requests the roots as soon as it is initialized, as `server-filesystem`.

Its tool `roots_now` does not wait for them. Its tool `strange` sends a notification, a request, and a result with a
content block and members, that no revision has.
"""

from __future__ import annotations

import json
import sys


def send(message: dict[str, object]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def main() -> None:
    roots, waiting = None, []
    for line in sys.stdin:
        message = json.loads(line)
        id, method = message.get("id"), message.get("method")
        if method == "initialize":
            info = {"name": "eager", "version": "1"}
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
            send({"method": "notifications/com.example/early"})
            send({"id": id, "result": result})
        elif method == "notifications/initialized":
            send({"id": "roots", "method": "roots/list"})
        elif method == "tools/list":
            send({"id": id, "result": {"tools": [{"name": "roots", "inputSchema": {"type": "object"}}]}})
        elif method == "tools/call" and message["params"]["name"] == "strange":
            blocks = [{"type": "hologram", "x": 1.5}, {"type": "text", "text": "ok"}]
            seen = message["params"]["arguments"]
            send({"method": "notifications/com.example/odd", "params": {"x": [1.5], "com.example": None}})
            send({"id": "odd", "method": "com.example/odd"})
            send({"id": id, "result": {"content": blocks, "com.example": [None, {"b": 10**20}], "a": {}, "seen": seen}})
        elif method == "tools/call" and message["params"]["name"] == "roots_now":
            send({"id": id, "result": {"content": [{"type": "text", "text": roots or "unknown"}]}})
        elif method == "tools/call":
            waiting.append(id)
        elif method is not None and id is not None:
            send({"id": id, "error": {"code": -32601, "message": "Method not found"}})
        elif id == "roots" and "result" in message:
            roots = " ".join(root["uri"] for root in message["result"]["roots"])
        while roots is not None and waiting:
            send({"id": waiting.pop(), "result": {"content": [{"type": "text", "text": roots}]}})


if __name__ == "__main__":
    main()
