"""small_server.py stdio|streamable-http|sse|stateless: a small server for our client, made with the installed library.

The library is FastMCP, or the official Python SDK, 2.x or 1.x. The server is an example of the servers that people
write with this library. Over HTTP the server uses any free port, which uvicorn prints.
`stateless` is Streamable HTTP without sessions.
"""

import sys
import warnings
from typing import Any

from pydantic import BaseModel

warnings.simplefilter("ignore")  # the newest libraries deprecate what the newest revision does

is_sdk_1 = False
try:
    from fastmcp import Context, FastMCP

    server: Any = FastMCP("small")
    options: dict[str, Any] = {"show_banner": False}
except ImportError:
    try:
        from mcp.server.mcpserver import Context, MCPServer

        server = MCPServer("small")
        options = {}
    except ImportError:
        from mcp.server.fastmcp import Context, FastMCP

        server = FastMCP("small", port=0)
        options, is_sdk_1 = {}, True


class Answer(BaseModel):
    name: str
    age: int = 30


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def ask(question: str, context: Context) -> str:
    """Ask the user, with a form made from a type."""
    answer = await context.elicit(question, Answer)
    return f"{answer.action}: {answer.data if answer.action == 'accept' else None}"


@server.tool()
async def count(to: int, context: Context) -> int:
    """Report progress and log, step by step."""
    for step in range(1, to + 1):
        await context.info(f"step {step}")
        await context.report_progress(step, to)
    return to


@server.tool()
def fail() -> None:
    """Raise an exception."""
    raise ValueError("a bug of the server")


@server.resource("config://{section}")
def config(section: str) -> str:
    """A resource template."""
    return f"section {section}"


if __name__ == "__main__":
    transport = sys.argv[1]
    if transport != "stdio" and not is_sdk_1:
        options["port"] = 0
    if transport == "stateless":
        transport = "streamable-http"
        if is_sdk_1:
            server.settings.stateless_http = True
        else:
            options["stateless_http"] = True
    server.run(transport=transport, **options)
