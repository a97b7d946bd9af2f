"""The server behind the bridge in the tests, with one item for each of the exchanges in exchanges.py.

Run as a program, it serves one revision over stdio: `python3 -m tests.bridge.back 2024-11-05`.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass

from mcp_ref import Context, Icon, Server, TextContent, ToolAnnotations


@dataclass
class Sum:
    sum: int


def make_back(*revisions: str) -> Server:
    """Return a server of these revisions."""
    server = Server("back", "1.0", revisions=list(revisions) or None, instructions="Use it well.")
    server.tasks.poll_interval = 20  # milliseconds

    @server.tool(title="Add", annotations=ToolAnnotations(read_only_hint=True), icons=[Icon("https://x.example/i.png")])
    def add(a: int, b: int) -> Sum:
        """Add two numbers."""
        return Sum(a + b)

    @server.tool()
    def echo(text: str) -> TextContent:
        return TextContent(text)

    @server.tool()
    def fail() -> None:
        raise ValueError("it broke")

    @server.tool()
    async def work(context: Context) -> str:
        await context.log("warning", "half done")
        await context.report_progress(1, 2, "half")
        return "done"

    @server.tool()
    async def sleep(port: int) -> str:
        """Connect to a port, write a byte, and wait until its owner hangs up. A cancellation writes another byte."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(b"s")
            await reader.read()
        except asyncio.CancelledError:
            writer.write(b"c")
            raise
        finally:
            writer.close()
        return "slept"

    @server.tool()
    async def ask_name(context: Context) -> str:
        result = await context.elicit("Your name?", {"type": "object", "properties": {"name": {"type": "string"}}})
        return f"{result.action} {(result.content or {}).get('name')}"

    @server.tool()
    async def ask_model(context: Context) -> TextContent:
        content = (await context.sample("Hello", max_tokens=100)).content
        return content if isinstance(content, TextContent) else TextContent(repr(content))

    @server.tool()
    async def ask_roots(context: Context) -> TextContent:
        return TextContent(" ".join(root.uri for root in await context.list_roots()))

    @server.tool()
    async def ask_all(context: Context) -> str:
        first, second = await asyncio.gather(ask_name(context), ask_roots(context))
        return f"{first}, {second.text}"

    @server.tool(task="optional")
    def bake() -> TextContent:
        return TextContent("a cake")

    @server.tool()
    async def touch(uri: str) -> str:
        server.resource_updated(uri)
        return "touched"

    @server.tool()
    async def grow() -> str:
        server.tools.add(lambda: "new", "grown")
        return "grown"

    @server.prompt()
    def greet(name: str) -> str:
        return f"Hello, {name}"

    @server.resource("note://{id}")
    def note(id: str) -> str:
        return f"Note {id}"

    @server.resource("file:///list")
    def listed() -> str:
        return "listed"

    @server.completion("greet", "name")
    def names(value: str) -> list[str]:
        return [name for name in ("ann", "bob") if name.startswith(value)]

    return server


if __name__ == "__main__":
    make_back(*sys.argv[1:]).run()
