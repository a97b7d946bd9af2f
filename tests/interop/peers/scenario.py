"""The scenario of Python clients: `run` uses every feature of the everything server once, and returns a JSON object.

python_sdk_1.py and python_sdk_2.py connect, each with its version of the SDK, and pass their client to `run`. The
methods have the same names in both versions, and `Dialect` has the differences. scenario.mjs is the same scenario in
TypeScript, and both use the data in scenario.json. test_foreign_clients.py checks the results.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SCENARIO = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
WATCHED = "test://watched-resource"
TIMEOUT = 20.0


@dataclass
class Dialect:
    """The differences between the versions of the SDK, and between the eras of the protocol."""

    uri: Callable[[str], Any]
    page: Callable[[str | None], dict[str, Any]]
    prompt_reference: Any
    #: Calls a tool so that the server may log at this level and above.
    call_logging_at: Callable[[str, str], Awaitable[Any]]
    #: Calls `touch` and returns once an update of WATCHED has arrived; afterwards it is watched no more.
    watch: Callable[[Callable[[], Awaitable[Any]]], Awaitable[None]]
    #: Gives up on the call that this task makes, and tells the server so.
    cancel: Callable[[asyncio.Task[Any]], Awaitable[None]]
    ping: Callable[[], Awaitable[Any]] | None


@dataclass
class Seen:
    """The messages that the server sent without a request, and the callbacks that note them."""

    #: The module with the SDK's types.
    types: Any
    logs: list[Any] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    sampling: list[Any] = field(default_factory=list)
    elicitation: list[Any] = field(default_factory=list)

    async def sample(self, _: Any, params: Any, *__: Any) -> Any:
        self.sampling.append(plain(params))
        return self.types.CreateMessageResult.model_validate(sampled(plain(params)))

    async def elicit(self, _: Any, params: Any) -> Any:
        self.elicitation.append(plain(params))
        return self.types.ElicitResult.model_validate(elicited(plain(params)))

    async def list_roots(self, _: Any) -> Any:
        return self.types.ListRootsResult.model_validate({"roots": SCENARIO["roots"]})

    async def log(self, params: Any) -> None:
        self.logs.append(plain(params))

    async def message(self, message: Any) -> None:
        notification = getattr(message, "root", message)  # version 1 of the SDK wraps it
        if isinstance(notification, self.types.ResourceUpdatedNotification):
            self.updated.append(str(notification.params.uri))


def initialized(client: Any) -> dict[str, Any]:
    """Return what a client of version 2 knows of its server, as the result of `initialize`."""
    return {
        "protocolVersion": client.protocol_version, "serverInfo": plain(client.server_info),
        "capabilities": plain(client.server_capabilities), "instructions": client.instructions,
    }  # fmt: skip


async def run(client: Any, seen: Seen, dialect: Dialect) -> dict[str, Any]:
    report: dict[str, Any] = {"ping": await attempt(dialect.ping()) if dialect.ping else None}
    # Before the tools are listed: the client does not know yet which arguments go into headers, too.
    report["unlisted"] = await attempt(client.call_tool("query_by_region", {"region": "north", "query": "snow"}))

    report["tools"] = await every_page(client.list_tools, "tools", dialect)
    report["resources"] = await every_page(client.list_resources, "resources", dialect)
    report["resourceTemplates"] = await every_page(client.list_resource_templates, "resourceTemplates", dialect)
    report["prompts"] = await every_page(client.list_prompts, "prompts", dialect)

    report["calls"] = [
        [name, arguments, await attempt(client.call_tool(name, arguments))] for name, arguments in SCENARIO["calls"]
    ]
    report["reads"] = [[uri, await attempt(client.read_resource(dialect.uri(uri)))] for uri in SCENARIO["reads"]]
    report["gets"] = [
        [name, arguments, await attempt(client.get_prompt(name, arguments))] for name, arguments in SCENARIO["prompts"]
    ]
    report["completion"] = await attempt(client.complete(dialect.prompt_reference, {"name": "arg1", "value": "par"}))

    report["kept"] = [await read(client, dialect, "kept") for _ in range(2)]
    first = await read(client, dialect, "passing")
    report["passing"] = [first, await later(client, dialect, first)]

    report["progress"] = await progress(client)
    report["logs"] = await logs(client, seen, dialect)
    report["updates"] = await updates(client, seen, dialect)
    report["cancellation"] = await cancellation(client, dialect)

    report["sampling"] = seen.sampling
    report["elicitation"] = seen.elicitation
    return report


async def read(client: Any, dialect: Dialect, name: str) -> int:
    """Return the number of reads of a resource, from its own text. A cached text has the number of an earlier read."""
    result = await attempt(client.read_resource(dialect.uri(f"test://counted/{name}")))
    return int(result["contents"][0]["text"])


async def later(client: Any, dialect: Dialect, first: int) -> int:
    """Return the number of reads after the client's cache has expired."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + 5
    count = first
    while count == first and loop.time() < deadline:
        await asyncio.sleep(0.02)
        count = await read(client, dialect, "passing")
    return count


async def progress(client: Any) -> dict[str, Any]:
    steps: list[Any] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        steps.append({"progress": progress, "total": total, "message": message})

    result = await attempt(client.call_tool("test_tool_with_progress", {}, progress_callback=note))
    await until(lambda: len(steps) >= 3)
    return {"steps": steps, "result": result}


async def logs(client: Any, seen: Seen, dialect: Dialect) -> dict[str, Any]:
    result = await attempt(dialect.call_logging_at("info", "test_tool_with_logging"))
    await until(lambda: len(seen.logs) >= 3)
    heard = list(seen.logs)
    seen.logs.clear()
    await attempt(dialect.call_logging_at("error", "test_tool_with_logging"))
    await barrier(client)
    return {"result": result, "at info": heard, "at error": seen.logs}


async def updates(client: Any, seen: Seen, dialect: Dialect) -> dict[str, Any]:
    async def touch() -> None:
        await client.call_tool("touch_watched", {})

    await asyncio.wait_for(dialect.watch(touch), TIMEOUT)
    heard = list(seen.updated)
    seen.updated.clear()
    await touch()
    await barrier(client)
    return {"while subscribed": heard, "afterwards": seen.updated}


async def cancellation(client: Any, dialect: Dialect) -> dict[str, Any]:
    """Cancel a call that has begun. Then check that other calls still work."""
    began = asyncio.Event()

    async def note(progress: float, total: float | None, message: str | None) -> None:
        began.set()

    call = asyncio.create_task(client.call_tool("slow", {"seconds": 60}, progress_callback=note))
    await asyncio.wait_for(began.wait(), TIMEOUT)
    await dialect.cancel(call)
    await barrier(client)
    return {"cancelled": call.cancelled(), "next call": await attempt(client.call_tool("slow", {"seconds": 0.1}))}


# The replies of a test client. ----------------------------------------------------------------------------------------


def sampled(params: dict[str, Any]) -> dict[str, Any]:
    text = f"sampled: {params['messages'][0]['content']['text']}"
    return {"role": "assistant", "content": {"type": "text", "text": text}, "model": "a model", "stopReason": "endTurn"}


def elicited(params: dict[str, Any]) -> dict[str, Any]:
    if params["message"] in ("decline", "cancel"):
        return {"action": params["message"]}
    properties = params["requestedSchema"]["properties"]
    return {"action": "accept", "content": {name: filled_in(schema) for name, schema in properties.items()}}


def filled_in(schema: dict[str, Any]) -> Any:
    """Return a value for a form's field: its default, or its first choice, or some text."""
    if "default" in schema:
        return schema["default"]
    if schema["type"] == "boolean":
        return True
    if schema["type"] == "array":
        return [filled_in({"type": "string", **schema["items"]})]
    choices = schema.get("enum") or [choice["const"] for choice in schema.get("oneOf") or schema.get("anyOf") or []]
    return choices[0] if choices else "an answer"


# Small tools. ---------------------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """Return a pydantic model as the JSON that was sent."""
    return value.model_dump(mode="json", by_alias=True, exclude_none=True) if hasattr(value, "model_dump") else value


async def attempt(call: Awaitable[Any]) -> Any:
    """Return the result as JSON, or the JSON-RPC error."""
    try:
        return plain(await asyncio.wait_for(call, TIMEOUT))
    except Exception as error:  # both versions of the SDK have a class for it, and it has `error`
        if not hasattr(error, "error"):
            raise
        return {"error": plain(error.error)}


async def every_page(list_page: Callable[..., Awaitable[Any]], items: str, dialect: Dialect) -> list[Any]:
    found: list[Any] = []
    cursor: str | None = None
    for _ in range(20):
        page = await attempt(list_page(**dialect.page(cursor)))
        found += page[items]
        cursor = page.get("nextCursor")
        if cursor is None:
            return found
    raise RuntimeError(f"{items}: the 20th page still has a nextCursor")


async def until(condition: Callable[[], bool]) -> None:
    """Wait at most five seconds for a condition, because the SDK handles notifications in separate tasks."""
    deadline = asyncio.get_running_loop().time() + 5
    while not condition() and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(0.01)


async def barrier(client: Any) -> None:
    """Call a tool twice, so that the client has handled all messages that the server sent before."""
    for _ in range(2):
        await client.call_tool("echo", {"message": "barrier"})
