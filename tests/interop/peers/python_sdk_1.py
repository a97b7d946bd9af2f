"""python_sdk_1.py COMMAND...: the official Python SDK 1.x as a client of the server that COMMAND starts, or
that is at a URL in its place: over HTTP+SSE where it ends in /sse, else over Streamable HTTP.

This SDK knows the handshake only. Prints one JSON object: see scenario.py.
"""

import asyncio
import json
import os
import sys
from typing import Any

from mcp import ClientSession, StdioServerParameters, stdio_client, types
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from pydantic import AnyUrl
from scenario import WATCHED, Dialect, Seen, plain, run, until


async def main(command: list[str]) -> dict[str, Any]:
    seen = Seen(types)
    async with (
        transport(command) as (reading, writing, *_),
        ClientSession(
            reading, writing, sampling_callback=seen.sample, elicitation_callback=seen.elicit,
            list_roots_callback=seen.list_roots, logging_callback=seen.log, message_handler=seen.message,
        ) as session,
    ):  # fmt: skip
        initialized = plain(await session.initialize())

        async def call_logging_at(level: Any, tool: str) -> Any:
            await session.set_logging_level(level)
            return await session.call_tool(tool, {})

        async def watch(touch: Any) -> None:
            await session.subscribe_resource(AnyUrl(WATCHED))
            await touch()
            await until(lambda: len(seen.updated) > 0)
            await session.unsubscribe_resource(AnyUrl(WATCHED))

        async def cancel(call: asyncio.Task[Any]) -> None:
            # This SDK never tells the server when it gives up on a call: the notification has to be sent by hand, and
            # the id of the last request sent is kept nowhere else.
            cancelled = types.CancelledNotificationParams(requestId=session._request_id - 1, reason="a test")
            await session.send_notification(
                types.ClientNotification(
                    types.CancelledNotification(method="notifications/cancelled", params=cancelled)
                )
            )
            call.cancel()
            await asyncio.wait([call])

        dialect = Dialect(
            uri=AnyUrl,
            page=lambda cursor: {"params": types.PaginatedRequestParams(cursor=cursor)} if cursor is not None else {},
            prompt_reference=types.PromptReference(type="ref/prompt", name="test_prompt_with_arguments"),
            call_logging_at=call_logging_at,
            watch=watch,
            cancel=cancel,
            ping=session.send_ping,
        )
        return {"initialize": initialized, **await run(session, seen, dialect)}


def transport(command: list[str]) -> Any:
    if command[0].endswith("/sse"):
        return sse_client(command[0])
    if command[0].startswith("http"):
        return streamable_http_client(command[0])
    return stdio_client(StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ)))


print(json.dumps(asyncio.run(main(sys.argv[1:]))))
