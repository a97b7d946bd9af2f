"""python_sdk_2.py ERA COMMAND...: the official Python SDK 2.x as a client of the server that COMMAND starts, or
that is at a URL in its place: over HTTP+SSE where it ends in /sse, else over Streamable HTTP.

ERA is `legacy` for the handshake, or `auto` for a client that asks with server/discover first and speaks the newest
revision to a server that offers it. Prints one JSON object: see scenario.py.
"""

import asyncio
import json
import os
import sys
import warnings
from typing import Any

import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from scenario import WATCHED, Dialect, Seen, initialized, run, until

LOG_LEVEL = "io.modelcontextprotocol/logLevel"


async def main(era: str, command: list[str]) -> dict[str, Any]:
    seen = Seen(types)
    async with Client(
        target(command), mode="legacy" if era == "legacy" else "auto", sampling_callback=seen.sample,
        elicitation_callback=seen.elicit, list_roots_callback=seen.list_roots, logging_callback=seen.log,
        message_handler=seen.message,
    ) as client:  # fmt: skip
        modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS

        async def call_logging_at(level: Any, tool: str) -> Any:
            if modern:
                return await client.call_tool(tool, {}, meta={LOG_LEVEL: level})
            await client.set_logging_level(level)
            return await client.call_tool(tool, {})

        async def watch(touch: Any) -> None:
            if modern:
                async with client.listen(resource_subscriptions=[WATCHED]) as events:
                    await touch()
                    await anext(aiter(events))
                return
            await client.subscribe_resource(WATCHED)
            await touch()
            await until(lambda: len(seen.updated) > 0)
            await client.unsubscribe_resource(WATCHED)

        async def cancel(call: asyncio.Task[Any]) -> None:
            call.cancel()  # the SDK tells the server
            await asyncio.wait([call])

        dialect = Dialect(
            uri=str,
            page=lambda cursor: {"cursor": cursor},
            prompt_reference=types.PromptReference(type="ref/prompt", name="test_prompt_with_arguments"),
            call_logging_at=call_logging_at,
            watch=watch,
            cancel=cancel,
            ping=None if modern else client.send_ping,
        )
        return {"initialize": initialized(client), **await run(client, seen, dialect)}


def target(command: list[str]) -> Any:
    if command[0].endswith("/sse"):
        return sse_client(command[0])
    if command[0].startswith("http"):
        return command[0]
    return StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))


warnings.simplefilter("ignore")  # the SDK deprecates what the newest revision does; the older ones are tested here too
print(json.dumps(asyncio.run(main(sys.argv[1], sys.argv[2:]))))
