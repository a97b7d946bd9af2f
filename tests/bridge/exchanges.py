"""The fifteen exchanges of the matrix: played by a client, with the outcome that the data predict.

The prediction of an outcome reads the same data as the bridge: the method table, `Availability`, and the features of
`Revision`. No table of expected outcomes is written by hand.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from mcp_ref import Client, ElicitResult, PromptReference, RemoteError, TextContent
from mcp_ref.basic.progress import ProgressNotificationParams
from mcp_ref.codec import members_of
from mcp_ref.features.sampling import CreateMessageResult
from mcp_ref.features.tools import CallToolResult, Tool
from mcp_ref.revisions import Revision, find_method


@dataclass
class Notes:
    """The messages that a client has received, and the time that a cancellation has to reach the server."""

    cancel_seconds: float
    logs: list[object] = field(default_factory=list)
    logged: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def log(self, data: object) -> None:
        self.logs.append(data)
        self.logged.set()


def client_options(notes: Notes) -> dict[str, Any]:
    """Return the options of a client that can do everything."""

    async def elicit(request: object) -> ElicitResult:
        return ElicitResult("accept", {"name": "Ann"})

    async def sample(request: object) -> CreateMessageResult:
        return CreateMessageResult("assistant", TextContent("Hi"), "model")

    return {
        "elicitation": elicit, "sampling": sample, "roots": ["file:///work"], "timeout": 20.0,
        "on_log": lambda message: notes.log(message.data),
        "on_tools_changed": notes.changed.set,
    }  # fmt: skip


async def list_tools(client: Client, notes: Notes) -> object:
    tools = {tool.name: tool for tool in await client.list_tools()}
    return sorted(name for name in ("title", "output_schema", "annotations", "icons") if getattr(tools["add"], name))


async def call(client: Client, notes: Notes) -> object:
    return (await client.call_tool("echo", {"text": "hello"})).text


async def structured(client: Client, notes: Notes) -> object:
    return (await client.call_tool("add", {"a": 1, "b": 2})).structured_content


async def error(client: Client, notes: Notes) -> object:
    return (await client.call_tool("fail")).is_error


async def prompt(client: Client, notes: Notes) -> object:
    content = (await client.get_prompt("greet", {"name": "Ann"})).messages[0].content
    return content.text if isinstance(content, TextContent) else content


async def read(client: Client, notes: Notes) -> object:
    return getattr((await client.read_resource("note://7")).contents[0], "text", None)


async def subscribe(client: Client, notes: Notes) -> object:
    async with client.subscribe("note://7") as updates, asyncio.timeout(10):
        await client.call_tool("touch", {"uri": "note://7"})
        return await anext(updates)


async def complete(client: Client, notes: Notes) -> object:
    return (await client.complete(PromptReference("greet"), "name", "a")).values


async def log(client: Client, notes: Notes) -> object:
    await client.call_tool("work")
    await notes.logged.wait()
    return notes.logs[0]


async def progress(client: Client, notes: Notes) -> object:
    reports: list[object] = []
    await client.call_tool("work", on_progress=lambda *report: reports.append(report))
    return reports


async def cancel(client: Client, notes: Notes) -> object:
    connected = asyncio.get_running_loop().create_future()
    listener = await asyncio.start_server(lambda *streams: connected.set_result(streams), "127.0.0.1", 0)
    async with listener:
        calling = asyncio.create_task(client.call_tool("sleep", {"port": listener.sockets[0].getsockname()[1]}))
        reader, writer = await connected
        await reader.read(1)
        calling.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await calling
        await client.call_tool("echo", {"text": "later"})  # a cancellation has been sent before it
        try:
            async with asyncio.timeout(notes.cancel_seconds):
                return await reader.read(1) == b"c"
        except TimeoutError:
            return False
        finally:
            writer.close()


async def sampling(client: Client, notes: Notes) -> object:
    return (await client.call_tool("ask_model")).text


async def task(client: Client, notes: Notes) -> object:
    running = await client.start_tool("bake")
    return running.id is not None, (await running.result()).text


async def elicitation(client: Client, notes: Notes) -> object:
    try:
        result = await client.call_tool("ask_name")
    except RemoteError:
        return "refused"
    return "refused" if result.is_error or "accept" not in result.text else result.text


async def roots(client: Client, notes: Notes) -> object:
    return (await client.call_tool("ask_roots")).text


EXCHANGES: dict[str, Callable[[Client, Notes], Awaitable[object]]] = {
    "list": list_tools, "call": call, "structured": structured, "error": error, "prompt": prompt, "read": read,
    "subscribe": subscribe, "complete": complete, "log": log, "progress": progress, "cancel": cancel,
    "sampling": sampling, "elicitation": elicitation, "roots": roots, "task": task,
}  # fmt: skip


def expected(exchange: str, front: Revision, back: Revision) -> object:
    """Return the outcome of an exchange between two revisions, derived from the data of the package."""
    both = (front, back)
    match exchange:
        case "list":
            names = ("title", "output_schema", "annotations", "icons")
            return sorted(name for name in names if all(_has(Tool, name, each) for each in both))
        case "structured":
            has_data = [
                _has(CallToolResult, "structured_content", each) or each.tool_result_is_any_json for each in both
            ]
            return {"sum": 3} if all(has_data) else None
        case "progress":
            has_message = all(_has(ProgressNotificationParams, "message", each) for each in both)
            return [(1, 2, "half" if has_message else None)]
        case "cancel":
            return all(find_method("notifications/cancelled", each, "client") is not None for each in both)
        case "task":
            return all(find_method("tasks/get", each, "client") is not None for each in both), "a cake"
        case "elicitation":
            can_ask = all(_can_ask("elicitation/create", each) for each in both)
            return "accept Ann" if can_ask else "refused"
    return {
        "call": "hello", "prompt": "Hello, Ann", "read": "Note 7", "subscribe": "note://7", "complete": ["ann"],
        "error": True, "log": "half done", "sampling": "Hi", "roots": "file:///work",
    }[exchange]  # fmt: skip


def _has(cls: type, attribute: str, revision: Revision) -> bool:
    return next(m for m in members_of(cls) if m.attribute == attribute).availability.covers(revision)


def _can_ask(method: str, revision: Revision) -> bool:
    return revision.era == "modern" or find_method(method, revision, "server") is not None
