"""The official Python SDK: `python_sdk.py http|sse|stdio|client`, as in ours.py."""

import asyncio
import logging
import socket
import sys
import warnings

warnings.simplefilter("ignore")
logging.disable(logging.ERROR)


def make_tool(number):
    async def tool(a: int, b: int) -> int:
        """Add three numbers."""
        return a + b + number

    return tool


def make_server(extra: int):
    from mcp.server.mcpserver import Context, MCPServer

    server = MCPServer("bench", log_level="ERROR")

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

    sessions = []

    @server.tool()
    async def join(context: Context) -> int:
        """Remember the session: the SDK announces nothing to all sessions."""
        sessions.append(context.session)
        return 0

    @server.tool()
    async def announce(context: Context) -> int:
        """Announce a change of the tools."""
        for session in sessions:
            await session.send_tool_list_changed()
        await context.notify_tools_changed()
        return 0

    for number in range(extra):
        server.add_tool(make_tool(number), f"tool_{number}")
    return server


def serve_http(server, json_response: bool) -> None:
    import uvicorn

    app = server.streamable_http_app(json_response=json_response)
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # or asyncio keeps Nagle's delay
    listener.bind(("127.0.0.1", 0))
    listener.listen(1024)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])


async def run_client(target: list[str]) -> None:
    from mcp import Client, StdioServerParameters

    where = target[0] if target[0].startswith("http") else StdioServerParameters(command=target[0], args=target[1:])
    async with Client(where) as client:

        async def work(calls: int) -> None:
            for _ in range(calls):
                await client.call_tool("add", {"a": 1, "b": 2})

        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            await asyncio.gather(*(work(int(line) // 64) for _ in range(64)))
            print("done", flush=True)


def main(kind: str, *rest: str) -> None:
    if kind == "client":
        asyncio.run(run_client(list(rest)))
    elif kind == "stdio":
        make_server(int(rest[0])).run()
    else:
        serve_http(make_server(int(rest[0])), kind == "http")


main(*sys.argv[1:])
