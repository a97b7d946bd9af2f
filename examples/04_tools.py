"""A server with a tool, by hand: the messages `tools/list` and `tools/call`, without `mcp_ref.Server`.

New here: a *feature*. The server declares the capability `tools`; `tools/list` describes each tool, with a JSON Schema
for its arguments, and `tools/call` calls one. It is the server of 03_handshake.py with thirty more lines. The client is
`mcp_ref.Client`, which accepts this server, because any program that sends the right messages is an MCP server.

    python3 examples/04_tools.py                    starts the server, lists its tool, calls it
    python3 examples/04_tools.py --trace            also prints every message on standard error

Watch it fail in two ways. If the client calls an unknown tool, the response is an error. If a tool fails, the response
is a result with `isError` instead, so that the model reads it and can try again.

    python3 examples/04_tools.py count_sheep text=baa
    python3 examples/04_tools.py count_words language=en

Next: 05_stateless.py. A server stores the facts of a handshake, so one process must serve all requests of a client.
"""

import asyncio
import sys

from mcp_ref import Client, ProtocolError, tracer
from mcp_ref.jsonrpc.dispatcher import Dispatcher
from mcp_ref.jsonrpc.messages import INVALID_PARAMS, METHOD_NOT_FOUND, Object, Request
from mcp_ref.transports.stdio.server import StdioServerTransport, claimed_stdio

COUNT_WORDS: Object = {
    "name": "count_words",
    "description": "Count the words of a text.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}


def call_tool(params: Object) -> Object:
    """Serve tools/call."""
    if params.get("name") != "count_words":
        raise ProtocolError(INVALID_PARAMS, f"Unknown tool: {params.get('name')}")
    arguments = params.get("arguments")
    text = arguments.get("text") if isinstance(arguments, dict) else None
    if not isinstance(text, str):
        return {"content": [{"type": "text", "text": "give me a `text` to count"}], "isError": True}
    return {"content": [{"type": "text", "text": str(len(text.split()))}]}


async def handle(request: Request) -> Object:
    """Serve one request. (Unlike 03_handshake.py, this server also serves requests before the handshake.)"""
    match request.method:
        case "initialize":
            return {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "by hand", "version": "1.0"},
            }
        case "ping":
            return {}
        case "tools/list":
            return {"tools": [COUNT_WORDS]}
        case "tools/call":
            return call_tool(request.params)
        case method:
            raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {method}")


async def serve() -> None:
    """Run the server process, as in 03_handshake.py."""
    ended = asyncio.Event()
    with claimed_stdio() as (source, sink):
        transport = StdioServerTransport(source, sink)
        dispatcher = Dispatcher(transport, handle, lambda notification: None, on_abandoned=lambda id, reason: None)
        await transport.start(dispatcher.receive, lambda error: ended.set())
        await ended.wait()
        await dispatcher.close()
        await transport.close()


async def main(trace: bool, name: str = "count_words", *pairs: str) -> None:
    """Run the client."""
    if not all("=" in pair for pair in pairs):
        sys.exit("write TOOL NAME=VALUE ..., such as: count_words text=hello")
    arguments: Object = {**dict(pair.split("=", 1) for pair in pairs or ["text=to be or not to be"])}
    async with Client([sys.executable, __file__, "--serve"], trace=tracer() if trace else None) as client:
        tools = await client.list_tools()
        print(f"{client.server_info.name} speaks {client.revision} and has {[tool.name for tool in tools]}")
        result = await client.call_tool(name, arguments)
        print(f"{name}({arguments}) -> {result.text}{' (isError)' if result.is_error else ''}")
        assert result.is_error or result.text == str(len(str(arguments["text"]).split()))


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    try:
        asyncio.run(serve() if "--serve" in sys.argv else main("--trace" in sys.argv, *words))
    except ProtocolError as error:
        sys.exit(f"the request was refused: {error}")
