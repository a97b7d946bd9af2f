"""zeromcp, a server without dependencies: `zeromcp_server.py http|stdio TOOLS`."""

import contextlib
import os
import socket
import sys
import threading
from typing import TypedDict

from zeromcp import McpServer

server = McpServer("bench")


class Sum(TypedDict):
    result: int


@server.tool
def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return {"result": a + b}


def add_tool(number: int) -> None:
    def tool(a: int, b: int) -> Sum:
        """Add three numbers."""
        return {"result": a + b + number}

    tool.__name__ = f"tool_{number}"
    server.tool(tool)


def main(kind: str, tools: str) -> None:
    for number in range(int(tools)):
        add_tool(number)
    if kind == "stdio":
        return server.stdio()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with open(os.devnull, "w") as ignored, contextlib.redirect_stdout(ignored):
        server.serve("127.0.0.1", port)
    print(f"http://127.0.0.1:{port}/mcp", flush=True)
    threading.Event().wait()


main(*sys.argv[1:])
