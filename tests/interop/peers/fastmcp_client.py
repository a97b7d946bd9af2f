"""fastmcp_client.py ERA COMMAND...: the client of FastMCP, on the server that COMMAND starts, or that is at a URL in
its place: over HTTP+SSE where it ends in /sse, else over Streamable HTTP. ERA is `legacy`, or `auto` for FastMCP's
default: the newest revision that the server supports. Prints one JSON object: see scenario.py.
"""

import asyncio
import json
import os
import sys
import warnings
from types import SimpleNamespace
from typing import Any

import mcp_types as types
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport
from mcp.client.subscriptions import listen
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from scenario import SCENARIO, WATCHED, Dialect, Seen, elicited, initialized, plain, run, until

LOG_LEVEL = "io.modelcontextprotocol/logLevel"


async def main(era: str, command: list[str]) -> dict[str, Any]:
    seen = Seen(types)

    async def elicitation(_: str, __: Any, params: types.ElicitRequestParams, ___: Any) -> ElicitResult[Any]:
        seen.elicitation.append(plain(params))
        return ElicitResult(**elicited(plain(params)))

    async with Client(
        command[0] if command[0].startswith("http") else StdioTransport(command[0], command[1:], dict(os.environ)),
        roots=[types.Root.model_validate(root) for root in SCENARIO["roots"]],
        sampling_handler=seen.sample,
        elicitation_handler=elicitation,
        log_handler=seen.log,
        message_handler=seen.message,
        **({"mode": "legacy"} if era == "legacy" else {}),
    ) as client:
        modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS

        async def call_logging_at(level: Any, tool: str) -> Any:
            if modern:
                return await client.call_tool_mcp(tool, {}, meta={LOG_LEVEL: level})
            await client.set_logging_level(level)
            return await client.call_tool_mcp(tool, {})

        async def watch(touch: Any) -> None:
            if modern:
                async with listen(client.session, resource_subscriptions=[WATCHED]) as events:
                    await touch()
                    await anext(aiter(events))
                return
            await client.session.subscribe_resource(WATCHED)  # this client leaves subscriptions to the SDK below it
            await touch()
            await until(lambda: len(seen.updated) > 0)
            await client.session.unsubscribe_resource(WATCHED)

        async def cancel(call: asyncio.Task[Any]) -> None:
            call.cancel()
            await asyncio.wait([call])

        def call_tool(name: str, arguments: Any, progress_callback: Any = None) -> Any:
            return client.call_tool_mcp(name, arguments, progress_handler=progress_callback)

        dialect = Dialect(
            uri=str,
            page=lambda cursor: {"cursor": cursor},
            prompt_reference=types.PromptReference(type="ref/prompt", name="test_prompt_with_arguments"),
            call_logging_at=call_logging_at,
            watch=watch,
            cancel=cancel,
            ping=None if modern else client.session.send_ping,
        )
        methods = SimpleNamespace(
            list_tools=client.list_tools_mcp, list_resources=client.list_resources_mcp,
            list_resource_templates=client.list_resource_templates_mcp, list_prompts=client.list_prompts_mcp,
            call_tool=call_tool, read_resource=client.read_resource_mcp, get_prompt=client.get_prompt_mcp,
            complete=client.complete_mcp,
        )  # fmt: skip
        return {"initialize": initialized(client), **await run(methods, seen, dialect)}


warnings.simplefilter("ignore")
print(json.dumps(asyncio.run(main(sys.argv[1], sys.argv[2:]))))
