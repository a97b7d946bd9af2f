"""An agent: a loop in which a model calls the tools of a host, and the user allows each call.

New here: *the loop*. The model gets the definitions of all tools and the messages so far, and responds with a text or
with calls. The host makes each call, if `approve` allows it, and the result is the next message. `origin="model"` says
that a model chose the call; without `approve`, the host refuses such calls. A refusal or an error becomes a result too,
because the model can react to it.

The model here is a script, so that the example needs no key. A real program sends a request to a model provider.
Providers accept the definitions, which are JSON, and the model names of the tools, such as `weather__get_sunrise`.

    python3 examples/agent.py

Watch it fail: the user refuses the second tool, and the model says so.

    python3 examples/agent.py --refuse
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import cast

from mcp_ref import Allow, Approval, Deny, Host, McpError, UnknownName

MAX_TURNS = 8
"""Maximum number of responses of the model to one question, or it could call tools forever."""

Message = dict[str, object]
SERVERS = {name: [sys.executable, str(Path(__file__).with_name(f"{name}.py"))] for name in ("weather", "notes")}


async def model(messages: list[Message], tools: list[Message]) -> Message:
    """Return the next message of the assistant. This script replaces the request to a provider."""
    offered = {tool["name"] for tool in tools}
    assert {"weather__get_sunrise", "notes__write_note"} <= offered, offered
    results = [message for message in messages if message["role"] == "tool"]
    if not results:
        place = {"latitude": 51.05, "longitude": 3.72, "day": "2026-06-21"}
        return {"role": "assistant", "calls": [{"id": "1", "name": "weather__get_sunrise", "arguments": place}]}
    if len(results) == 1:
        note = {"name": "ghent", "text": results[0]["text"]}
        return {"role": "assistant", "calls": [{"id": "2", "name": "notes__write_note", "arguments": note}]}
    saved = "I cannot write the note" if results[1]["is_error"] else "I have written a note"
    return {"role": "assistant", "text": f"{saved}: {results[1]['text']}"}


async def approve(request: Approval) -> Allow | Deny:
    """Show each call with its exact arguments. A real program shows `request.text()`, and waits for the user here."""
    print(f"The model wants to call {request.name} with {json.dumps(request.arguments)}")
    if request.after:
        print(f"  after it has seen results of: {', '.join(request.after)}")
    if "--refuse" in sys.argv and request.server == "notes":
        return Deny("the user does not want a note")
    return Allow()


async def call(host: Host, call: Message) -> Message:
    """Make one call. Errors become a result, with the name of the server that they come from."""
    name, arguments = str(call["name"]), call.get("arguments")
    try:
        if not isinstance(arguments, dict):
            raise TypeError(f"the arguments must be an object, not {arguments!r}")
        result = await host.call_tool(name, arguments, origin="model")
        text, is_error = result.text, result.is_error
    except (McpError, UnknownName, TypeError) as error:
        text, is_error = str(error), True
    print(f"  {'error' if is_error else 'result'}: {text}")
    return {"role": "tool", "id": call["id"], "server": name.partition("__")[0], "text": text, "is_error": is_error}


async def run(host: Host, question: str) -> list[Message]:
    """Return the conversation that begins with the user's question and ends with a text of the model."""
    host.begin_turn()
    messages: list[Message] = [{"role": "user", "text": question}]
    for _ in range(MAX_TURNS):
        tools = [(tool.model_name, tool.definition) for tool in await host.list_tools()]
        offered = [{"name": name, "description": tool.description, "schema": tool.input_schema} for name, tool in tools]
        messages.append(await model(messages, cast("list[Message]", offered)))
        calls = messages[-1].get("calls")
        if not isinstance(calls, list):
            return messages
        messages += [await call(host, each) for each in calls]
    raise RuntimeError(f"the model has not finished after {MAX_TURNS} turns")


async def main() -> None:
    """Ask one question."""
    question = "When does the sun rise in Ghent on June 21? Write it down."
    print(f"The user asks: {question}")
    async with Host(SERVERS, approve=approve, startup_wait=20) as host:
        messages = await run(host, question)
    print(f"The model says: {messages[-1]['text']}")
    if any(message.get("is_error") for message in messages):
        sys.exit(1)


if __name__ == "__main__":
    asyncio.run(main())
