"""eras.py COMMAND...: three clients of the official Python SDK 2 call a tool of the server that COMMAND starts, or of
a URL. The first uses 2026-07-28, the second asks for the server's revisions, and the third begins with a handshake.
Prints for each client the revision in which a tool was called, or the error's code.
"""

import asyncio
import json
import os
import sys
import warnings
from typing import Any

from mcp import Client, MCPError, StdioServerParameters


async def outcome(command: list[str], mode: Any) -> Any:
    target: Any = command[0]
    if not target.startswith("http"):
        target = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
    try:
        async with Client(target, mode=mode) as client:
            await client.call_tool("add", {"a": 2, "b": 3})
            return client.protocol_version
    except Exception as error:  # the SDK's own error, within as many groups as it has task groups
        while isinstance(error, ExceptionGroup):
            [error] = error.exceptions
        if not isinstance(error, MCPError):
            raise
        return error.error.code


async def main(command: list[str]) -> list[Any]:
    return [await outcome(command, mode) for mode in ("2026-07-28", "auto", "legacy")]


warnings.simplefilter("ignore")
print(json.dumps(asyncio.run(main(sys.argv[1:]))))
