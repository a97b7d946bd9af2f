"""A client that subscribes to a file in the folder of watch.py, with the same code for both eras.

New here: `client.subscribe(uri)` works in all revisions. It is a context manager that yields the URIs of changed
resources. In 2025-11-25 it sends `resources/subscribe`, while in 2026-07-28 it keeps a `subscriptions/listen` request
open, and sends this request again after a restart of the server process.

    python3 examples/watch_client.py
    python3 examples/watch_client.py --trace            also prints every message on standard error

Watch it fail: a client cannot subscribe to a URI that does not exist, in any revision.

    python3 examples/watch_client.py folder://other
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from mcp_ref import Client, McpError, tracer

SERVER = [sys.executable, str(Path(__file__).with_name("watch.py"))]


async def watch(folder: str, uri: str, revision: str) -> None:
    """Change a file, and receive the update."""
    trace = tracer() if "--trace" in sys.argv else None
    client = Client(SERVER, env={"FOLDER": folder}, revision=revision, trace=trace)
    async with asyncio.timeout(20), client, client.subscribe(uri) as updates:
        for text in ("one", "one, two"):
            Path(folder, "list.txt").write_text(text)
            changed = await anext(updates)  # a loop would be `async for changed in updates`
            print(f"In {revision}: {changed} has changed")
            assert changed == "folder://all/list.txt"


async def main(uri: str) -> None:
    """Subscribe in both eras."""
    for revision in ("2025-11-25", "2026-07-28"):
        with tempfile.TemporaryDirectory(prefix="mcp_ref-") as folder:
            await watch(folder, uri, revision)


if __name__ == "__main__":
    uris = [word for word in sys.argv[1:] if word != "--trace"] or ["folder://all"]
    try:
        asyncio.run(main(uris[0]))
    except McpError as error:
        sys.exit(f"not watched: {error}")
