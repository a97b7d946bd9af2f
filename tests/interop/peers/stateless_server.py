"""stateless_server.py stdio|streamable-http: a server of 2026-07-28 for our client, made with the Python SDK 2.

It has every feature that a stateless request can use. stateless_server.mjs is the same server in TypeScript.
"""

import itertools
import sys
import warnings
from typing import Annotated, Any

import anyio
import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.mcpserver import Context, MCPServer
from pydantic import Field

warnings.simplefilter("ignore")  # it deprecates logging and sampling

KEPT = CacheHint(ttl_ms=60_000, scope="public")
server: Any = MCPServer("stateless", instructions="Ask.", cache_hints={"tools/list": KEPT, "resources/read": KEPT})
reads = itertools.count(1)


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def by_region(
    region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})], query: str, context: Context
) -> str:
    """Ask one region, which also stands in a header."""
    return f"{query} in {region}"


def ask_form(message: str, field: str) -> types.ElicitRequest:
    schema = {"type": "object", "properties": {field: {"type": "string"}}, "required": [field]}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


@server.tool()
async def plan_trip(context: Context) -> str | types.InputRequiredResult:
    """Ask the user, then the model and for the roots at once, then the user again."""
    answers: Any = context.input_responses or {}
    match context.request_state:
        case None:
            return types.InputRequiredResult(
                input_requests={"where": ask_form("Where to?", "name")}, request_state="1 \u2603"
            )
        case "1 \u2603":
            ask = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="How long?"))
            sample = types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[ask], max_tokens=5))
            name = answers["where"].content["name"]
            return types.InputRequiredResult(
                input_requests={"how long": sample, "roots": types.ListRootsRequest()}, request_state=f"2 {name}"
            )
        case state if state.startswith("2 "):
            days, roots = answers["how long"].content.text, len(answers["roots"].roots)
            return types.InputRequiredResult(
                input_requests={"again": ask_form("Sure?", "name")}, request_state=f"3{state[1:]} {days} {roots}"
            )
        case state:
            return f"{state[2:]} {answers['again'].action}"


@server.tool()
async def count(to: int, context: Context) -> int:
    """Report progress and log, step by step."""
    for step in range(1, to + 1):
        await context.info(f"step {step}")
        await context.report_progress(step, to)
    return to


@server.tool()
async def slow(context: Context) -> str:
    """Take a minute, and tell when it is cut short."""
    try:
        await context.report_progress(0, 60)
        await anyio.sleep(60)
    except anyio.get_cancelled_exc_class():
        print("slow: cancelled", file=sys.stderr, flush=True)
        raise
    return "slept"


@server.tool()
async def touch(context: Context) -> str:
    """Tell that the resource has changed."""
    await context.notify_resource_updated("test://counted")
    await context.notify_tools_changed()
    return "touched"


@server.resource("test://counted")
def counted() -> str:
    """The number of reads of this resource."""
    return str(next(reads))


@server.prompt()
async def greet(name: str, context: Context) -> str | types.InputRequiredResult:
    """A prompt that asks."""
    if not context.input_responses:
        return types.InputRequiredResult(input_requests={"how": ask_form("How?", "name")})
    answers: Any = context.input_responses
    return f"Greet {name}, {answers['how'].content['name']}."


@server.completion()
async def complete(ref: Any, argument: types.CompletionArgument, context: Any) -> types.Completion:
    return types.Completion(values=[name for name in ("Ada", "Alan") if name.startswith(argument.value)])


options = {} if sys.argv[1] == "stdio" else {"port": 0}
server.run(transport=sys.argv[1], **options)
