"""A small client for the official conformance suite, which starts a server of its own and then this:

    conformance client --command "python3 -m tests.conformance.client" --scenario tools_call

The server's URL is the last argument. The scenario's name is in MCP_CONFORMANCE_SCENARIO, and further data for the
client are in MCP_CONFORMANCE_CONTEXT, as JSON. With MCP_CONFORMANCE_RECORDING=FILE, the client records itself: the
recorder stands between it and the suite's server.
"""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Awaitable, Callable

from mcp_ref import (
    Client,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
)
from mcp_ref.recorder.proxy import record_http
from mcp_ref.recorder.tape import MEGABYTE, TapeOptions
from tests.conformance.authorization import SCENARIOS as AUTHORIZATION_SCENARIOS
from tests.conformance.authorization import authorization


async def connect(client: Client) -> None:
    """Send one request that every server supports."""
    await client.ping()


async def add_numbers(client: Client) -> None:
    """Call a tool with arguments."""
    result = await client.call_tool("add_numbers", {"a": 5, "b": 3})
    assert result.text == "The sum of 5 and 3 is 8", result


async def accept_defaults(client: Client) -> None:
    """Call a tool that asks the user. `user` accepts the form without a change."""
    result = await client.call_tool("test_client_elicitation_defaults")
    assert not result.is_error, result


async def wait_for_the_answer(client: Client) -> None:
    """Call a tool whose connection the server closes before it answers: the client waits, and comes back for it."""
    result = await client.call_tool("test_reconnection")
    assert result.text == "Reconnection test completed successfully", result


async def return_the_schema(client: Client) -> None:
    """Send back a tool's schema as it was received."""
    [schema] = [tool.input_schema for tool in await client.list_tools() if tool.name == "json_schema_2020_12_tool"]
    await client.call_tool("json_schema_echo", {"schema": schema})


async def answer_and_come_back(client: Client) -> None:
    """Call tools that ask for a yes, with and without a state to bring back, and one in between that asks nothing."""
    for tool in ("echo_state", "no_state", "unrelated", "no_result_type"):
        result = await client.call_tool(f"test_mrtr_{tool}")
        assert not result.is_error, result


async def name_in_headers(client: Client) -> None:
    """List and use all tools, resources and prompts. The headers must repeat the method and the name."""
    for tool in await client.list_tools():
        await client.call_tool(tool.name)
    for resource in await client.list_resources():
        await client.read_resource(resource.uri)
    for prompt in await client.list_prompts():
        await client.get_prompt(prompt.name)


async def arguments_in_headers(client: Client) -> None:
    """Call the tools that the context names, with its arguments."""
    await client.list_tools()
    for call in json.loads(os.environ["MCP_CONFORMANCE_CONTEXT"])["toolCalls"]:
        await client.call_tool(call["name"], call["arguments"])


async def call_what_is_listed(client: Client) -> None:
    """Call each tool that the client lists: those with forbidden header names it leaves out."""
    for tool in await client.list_tools():
        required = tool.input_schema["required"]
        assert isinstance(required, list)
        await client.call_tool(tool.name, {str(name): "a value" for name in required})


async def list_tools(client: Client) -> None:
    """List the tools; nothing that their schemas refer to elsewhere is fetched."""
    assert await client.list_tools()


SCENARIOS: dict[str, Callable[[Client], Awaitable[None]]] = {
    "initialize": connect, "request-metadata": connect, "tools_call": add_numbers,
    "elicitation-sep1034-client-defaults": accept_defaults, "sse-retry": wait_for_the_answer,
    "json-schema-2020-12-preservation": return_the_schema, "json-schema-ref-no-deref": list_tools,
    "sep-2322-client-request-state": answer_and_come_back, "http-standard-headers": name_in_headers,
    "http-custom-headers": arguments_in_headers, "http-invalid-tool-headers": call_what_is_listed,
}  # fmt: skip


async def authorize(client: Client) -> None:
    """Use a protected server: list its tools, and call the first."""
    tools = await client.list_tools()
    if tools:
        await client.call_tool(tools[0].name)


SCENARIOS |= dict.fromkeys(AUTHORIZATION_SCENARIOS, authorize)


async def user(params: ElicitRequestFormParams | ElicitRequestURLParams) -> ElicitResult:
    """Accept a form without filling anything in: the client adds the defaults."""
    return ElicitResult("accept", {})


async def model(params: CreateMessageRequestParams) -> CreateMessageResult:
    """Raise an error, because no scenario uses the model that the client declares."""
    raise NotImplementedError


async def main(url: str) -> None:
    """Do what the scenario wants."""
    scenario = os.environ["MCP_CONFORMANCE_SCENARIO"]
    login = authorization(url) if scenario in AUTHORIZATION_SCENARIOS else None
    async with contextlib.AsyncExitStack() as stack:
        if file := os.environ.get("MCP_CONFORMANCE_RECORDING"):
            tape = TapeOptions(file, 10 * MEGABYTE)
            url = await stack.enter_async_context(record_http(tape, url, "127.0.0.1", 0))
        client = Client(url, elicitation=user, sampling=model, roots=[], authorization=login)
        await SCENARIOS[scenario](await stack.enter_async_context(client))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
