"""mcp_ref: `ours.py http|sse|stdio|client|host`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial

from mcp_ref import Context, Server
from mcp_ref.jsonrpc.messages import Object

server = Server("bench")


@server.tool()
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def count(to: int, context: Context) -> int:
    """Report progress."""
    for number in range(to):
        await context.report_progress(number + 1, to)
    return to


@server.tool()
async def announce() -> int:
    """Change the tools."""
    server.list_changed("tools")
    return 0


@server.tool()
async def join() -> int:
    """Do nothing: the server knows its sessions."""
    return 0


def make_tool(number: int) -> Callable[[int, int], Coroutine[None, None, int]]:
    """Return a new function."""

    async def tool(a: int, b: int) -> int:
        """Add three numbers."""
        return a + b + number

    return tool


async def serve_http(json_responses: bool) -> None:
    """Serve until the process is killed."""
    async with server.serve_http(json_responses=json_responses, http_sse=False) as url:
        print(url, flush=True)
        await asyncio.Event().wait()


async def run_client(target: list[str]) -> None:
    """Call the server at a URL, or the server that a command starts."""
    from mcp_ref import Client  # a server does not import the client

    async with Client(target[0] if target[0].startswith("http") else target) as client:
        await make_calls(partial(client.call_tool, "add"))


async def run_host(url: str) -> None:
    """Make the same calls through a host."""
    from mcp_ref import Host

    async with Host({"s": url}) as host:
        await make_calls(partial(host.call_tool, "s.add"))


async def make_calls(call: Callable[[Object], Awaitable[object]]) -> None:
    """Make as many calls as each line of stdin says, 64 at a time, and print a line after each turn."""

    async def work(calls: int) -> None:
        for _ in range(calls):
            await call({"a": 1, "b": 2})

    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        await asyncio.gather(*(work(int(line) // 64) for _ in range(64)))
        print("done", flush=True)


def main(kind: str, *rest: str) -> None:
    """Run as a server or as a client."""
    if kind == "client":
        return asyncio.run(run_client(list(rest)))
    if kind == "host":
        return asyncio.run(run_host(rest[0]))
    for number in range(int(rest[0])):
        server.tools.add(make_tool(number), f"tool_{number}")
    if kind == "stdio":
        return server.run()
    asyncio.run(serve_http(kind == "http"))


main(*sys.argv[1:])
