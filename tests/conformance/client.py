"""A small client for the official conformance suite, which starts a server of its own and then this:

    conformance client --command "python3 -m tests.conformance.client" --scenario tools_call

The server's URL is the last argument, and the scenario's name is in MCP_CONFORMANCE_SCENARIO.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable

from mcp_ref import Client, ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult


async def initialize(client: Client) -> None:
    """To have connected is all; one request follows, for which the server need not offer anything."""
    await client.ping()


async def add_numbers(client: Client) -> None:
    """Call a tool with arguments."""
    result = await client.call_tool("add_numbers", {"a": 5, "b": 3})
    assert result.text == "The sum of 5 and 3 is 8", result


async def accept_defaults(client: Client) -> None:
    """Call a tool that asks the user, who accepts the form as it is: see `user`."""
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


SCENARIOS: dict[str, Callable[[Client], Awaitable[None]]] = {
    "initialize": initialize,
    "tools_call": add_numbers,
    "elicitation-sep1034-client-defaults": accept_defaults,
    "sse-retry": wait_for_the_answer,
    "json-schema-2020-12-preservation": return_the_schema,
}


async def user(params: ElicitRequestFormParams | ElicitRequestURLParams) -> ElicitResult:
    """Accept a form without filling anything in: the client adds the defaults."""
    return ElicitResult("accept", {})


async def main(url: str) -> None:
    """Do what the scenario wants."""
    async with Client(url, elicitation=user) as client:
        await SCENARIOS[os.environ["MCP_CONFORMANCE_SCENARIO"]](client)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
