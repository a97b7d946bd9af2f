"""A stateless request by hand: one line to the server and one line back, without a handshake.

New here: *statelessness* (from revision 2026-07-28 on). After a handshake the server must remember the capabilities of
its client, so only the process that received the handshake can serve the client's requests. A stateless request has
these facts in its own `_meta`, so any process can serve it, and a server can restart between two requests.

    python3 examples/05_stateless.py                calls the tool of 04_tools.py with a single request

Watch it fail: name a revision that the server does not speak, or leave out the client's capabilities.

    python3 examples/05_stateless.py --revision 2025-11-25
    python3 examples/05_stateless.py --no-capabilities

Next: 06_post.py. A pipe connects two processes of one machine, while HTTP connects different machines.
"""

import argparse
import json
import subprocess
import sys
from typing import Any

Object = dict[str, Any]

REVISION = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"


class Refused(Exception):
    """An error that becomes the response. Its arguments are a JSON-RPC error code, a message, and data."""


def check_meta(params: Object) -> None:
    """Raise Refused if `_meta` does not contain our revision and the client's capabilities."""
    meta = params.get("_meta", {})
    asked = meta.get(f"{PREFIX}protocolVersion")
    if asked != REVISION:
        raise Refused(-32022, "Unsupported protocol version", {"supported": [REVISION], "requested": asked})
    if not isinstance(meta.get(f"{PREFIX}clientCapabilities"), dict):
        raise Refused(-32602, f"Invalid params: _meta has no {PREFIX}clientCapabilities", None)


def serve_request(request: Object) -> Object:
    """Return the response to one request. The function remembers nothing."""
    try:
        check_meta(request["params"])
        if (request["method"], request["params"].get("name")) != ("tools/call", "count_words"):
            raise Refused(-32601, f"Method not found: {request['method']}", None)
        count = str(len(request["params"]["arguments"]["text"].split()))
        # Every result has a type from 2026-07-28 on: "complete", or "input_required" if the client must ask the user.
        result = {"resultType": "complete", "content": [{"type": "text", "text": count}]}
        return {"jsonrpc": "2.0", "id": request["id"], "result": result}
    except Refused as refused:
        code, message, data = refused.args
        error = {"code": code, "message": message}
        if data is not None:
            error["data"] = data
        return {"jsonrpc": "2.0", "id": request["id"], "error": error}


def call(revision: str, capabilities: bool) -> Object:
    """Return a request that calls the tool."""
    meta: Object = {f"{PREFIX}protocolVersion": revision}
    if capabilities:
        meta[f"{PREFIX}clientCapabilities"] = {}
    params = {"name": "count_words", "arguments": {"text": "to be or not to be"}, "_meta": meta}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def main(revision: str, capabilities: bool) -> None:
    """Start this file again as the server, send it one line, and read one line."""
    request = call(revision, capabilities)
    print("->", json.dumps(request))
    done = subprocess.run(
        [sys.executable, __file__, "--serve"],
        input=json.dumps(request) + "\n",
        text=True,
        stdout=subprocess.PIPE,
        check=True,
    )
    print("<-", done.stdout, end="")
    response = json.loads(done.stdout)
    if "error" in response:
        sys.exit(f"the server refused the request: {response['error']['message']}")
    assert response["result"]["content"][0]["text"] == "6"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--revision", default=REVISION, help="the revision to name in the request")
    parser.add_argument("--no-capabilities", action="store_true", help="leave out the client's capabilities")
    parser.add_argument("--serve", action="store_true", help="run the server, not the client")
    options = parser.parse_args()
    if options.serve:
        for line in sys.stdin:
            print(json.dumps(serve_request(json.loads(line))), flush=True)
    else:
        main(options.revision, not options.no_capabilities)
