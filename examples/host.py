"""A host: two servers from a configuration file, one policy, and a server that dies.

New here: `Host` has one client for each server. Tools have full names, such as `weather.get_sunrise`. The host calls
`approve` before a server of the file starts, and before the first call of each tool. A server that dies does not
disturb the others: calls of its tools fail at once, `status()` gives the reason, and the host starts the server again
after a pause.

    python3 examples/host.py
    python3 examples/host.py --audit                    also prints the log of all decisions

Watch it fail: the user does not allow the servers.

    python3 examples/host.py --forbid
"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path

from mcp_ref import Allow, Approval, ConnectionClosed, Deny, Host, ServerUnavailable

FOLDER = Path(__file__).parent
DYING = """
import os
from mcp_ref import Server
dying = Server("dying")
@dying.tool()
def die() -> None:
    os._exit(9)
dying.run()
"""


async def approve(request: Approval) -> Allow | Deny:
    """Decide like a user who reads the question. A real program shows `request.text()` in a dialog."""
    print(f"May I {request.kind} {request.name or request.server}?", *request.warnings)
    if "--forbid" in sys.argv:
        return Deny("the user does not know these servers")
    if request.kind == "call" and "notes" in request.after and request.server == "weather":
        return Deny("the model has read the notes, so it must not use the web")
    return Allow("run")  # do not ask again until the host is closed


async def main(config: Path) -> None:
    """Open the host, call tools of two servers, and read a note while the third server is away."""
    audit = print if "--audit" in sys.argv else None
    async with Host(config, approve=approve, audit=audit, startup_wait=20) as host:
        for status in host.status():
            print(f"{status.name}: {status.state.value}, {status.tools} tools", status.last_error or "")
            if status.state.value != "ready":
                sys.exit(1)
        for tool in await host.list_tools():
            print(f"  {tool.full_name} (for a model: {tool.model_name})")
        result = await host.call_tool("weather.get_sunrise", {"latitude": 51, "longitude": 4, "day": "2026-03-01"})
        print("weather says", result.text)
        await host.call_tool("notes.write_note", {"name": "sun", "text": "rises in the east"})
        note = await host.read_resource("notes", "note://all/sun")
        print("notes says", note.contents[0])

        try:
            await host.call_tool("dying.die")
        except ConnectionClosed as error:
            print("The call was lost, and is not repeated:", str(error).partition(";")[0])
        try:
            await host.call_tool("dying.die")
        except ServerUnavailable as error:
            print("At once:", str(error).partition(":")[0])
        assert (await host.read_resource("notes", "note://all/sun")).contents == note.contents
        while any(status.state.value != "ready" for status in host.status()):
            await asyncio.sleep(0.1)
        [restarts] = [status.restarts for status in host.status() if status.name == "dying"]
        print("dying runs again, after", restarts, "restart")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="mcp_ref-") as folder:
        scripts = {name: [str(FOLDER / f"{name}.py")] for name in ("weather", "notes")} | {"dying": ["-c", DYING]}
        servers = {
            name: {"command": sys.executable, "args": args, "env": {"PYTHONPATH": str(FOLDER)}}
            for name, args in scripts.items()
        }
        path = Path(folder, "mcp.json")
        path.write_text(json.dumps({"mcpServers": servers}))
        asyncio.run(main(path))
