"""A bridge: a new client uses old servers, and old clients use a new server.

New here: the command `bridge` speaks with each side in its own revision. The servers below ask the user (elicitation)
or the client's model (sampling) in the middle of a call. An old server sends a request for that, and a new one returns
a result that requires input. The bridge turns one into the other, and the code of both sides stays the same.

    python3 examples/bridge.py
    python3 examples/bridge.py --explain                prints what a 2024-11-05 client of a 2026-07-28 server loses

Watch it fail: this bridge keeps no call open while the user replies, so the old server gets an error instead.

    python3 examples/bridge.py --no-hold
"""

import asyncio
import subprocess
import sys
from pathlib import Path

from mcp_ref import Client, CreateMessageResult, ElicitResult, TextContent

HERE = Path(__file__).resolve().parent
PROGRAM = [sys.executable, "-m", "mcp_ref"]
ARGUMENTS: dict[str, dict[str, object]] = {
    "ask_user.py": {"day": "2030-01-01"},
    "summarize.py": {"text": "Tea is a drink. It is hot."},
}


def bridged(server: str, server_revision: str, *options: str) -> list[str]:
    """Return the command of a bridge to an example that speaks one revision."""
    back = [*PROGRAM, "run", str(HERE / server), "--revision", server_revision]
    return [*PROGRAM, "bridge", *options, "--", *back]


async def user(request: object) -> ElicitResult:
    print(f"    the user of the client is asked: {getattr(request, 'message', '')}")
    return ElicitResult("accept", {"guests": 2})


async def model(request: object) -> CreateMessageResult:
    print("    the model of the client is asked")
    return CreateMessageResult("assistant", TextContent("Two lines about tea."), "a-model")


async def show(server: str, server_revision: str, client_revision: str, options: list[str]) -> None:
    """Call the tool of a server through a bridge."""
    print(f"a client of {client_revision} uses a server of {server_revision}")
    command = bridged(server, server_revision, *options)
    async with Client(
        command, revision=client_revision, elicitation=user, elicitation_url=True, sampling=model, cwd=HERE.parent
    ) as client:
        [tool, *_] = await client.list_tools()
        result = await client.call_tool(tool.name, ARGUMENTS[server])
        print(f"    {tool.name}: {result.text}")
        if result.is_error:
            raise SystemExit(1)


async def main(options: list[str]) -> None:
    await show("summarize.py", "2024-11-05", "2026-07-28", options)
    await show("ask_user.py", "2025-06-18", "2026-07-28", options)  # the first revision with elicitation
    await show("summarize.py", "2026-07-28", "2024-11-05", options)
    await show("ask_user.py", "2026-07-28", "2025-06-18", options)


if __name__ == "__main__":
    if sys.argv[1:] == ["--explain"]:
        explain = ["bridge", "--explain", "--revision", "2024-11-05", "--back-revision", "2026-07-28"]
        subprocess.run([*PROGRAM, *explain], cwd=HERE.parent, check=True)
    else:
        asyncio.run(main(sys.argv[1:]))
