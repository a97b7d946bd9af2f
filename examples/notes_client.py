"""A client that is notified when the notes of notes.py change, so that a host can show them on the screen.

New here: a *subscription*. `client.subscribe` is a context manager that yields the URIs of changed resources. An update
does not contain the new text, so the client reads the resource again. The list of resources has its own notification.

    python3 examples/notes_client.py
    python3 examples/notes_client.py --trace            also prints every message on standard error

Watch it fail: a client cannot subscribe to a URI that does not exist.

    python3 examples/notes_client.py note://nowhere
"""

import asyncio
import sys
from pathlib import Path

from mcp_ref import Client, McpError, RemoteError, ResourceTemplateReference, TextResourceContents, tracer

SERVER = [sys.executable, str(Path(__file__).with_name("notes.py"))]


async def read(client: Client, uri: str) -> str:
    """Return the text of a resource."""
    contents = (await client.read_resource(uri)).contents
    return "".join(item.text for item in contents if isinstance(item, TextResourceContents))


async def main(uri: str, trace: bool) -> None:
    """Subscribe to a resource. Then create, change and delete a note."""
    list_changed = asyncio.Event()
    client = Client(SERVER, on_resources_changed=list_changed.set, trace=tracer() if trace else None)
    async with asyncio.timeout(20), client, client.subscribe(uri) as updates:
        for text in ("milk", "milk, eggs"):
            await client.call_tool("write_note", {"name": "shopping", "text": text})
            changed = await anext(updates)  # a loop would be `async for changed in updates`
            print(f"{changed} is now {await read(client, changed)!r}")
            assert await read(client, changed) == text
        await list_changed.wait()
        listed = {resource.uri for resource in await client.list_resources()}
        assert listed == {"note://all", "note://all/shopping"}, listed

        template = ResourceTemplateReference("note://all/{name}")
        assert (await client.complete(template, "name", "sh")).values == ["shopping"]

        list_changed.clear()
        await client.call_tool("delete_note", {"name": "shopping"})
        changed = await anext(updates)
        await list_changed.wait()
        assert [resource.uri for resource in await client.list_resources()] == ["note://all"]
        try:
            await read(client, changed)
            raise AssertionError("a deleted note was read")
        except RemoteError as error:
            print(f"{changed} is gone: {error.message}")


if __name__ == "__main__":
    uris = [word for word in sys.argv[1:] if word != "--trace"] or ["note://all"]
    try:
        asyncio.run(main(uris[0], trace="--trace" in sys.argv))
    except McpError as error:
        sys.exit(f"not watched: {error}")
