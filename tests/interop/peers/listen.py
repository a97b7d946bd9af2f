"""listen.py URL: the official Python SDK 2 listens for changes, and says when that begins and how it ends."""

import asyncio
import sys

from mcp import Client


async def main(url: str) -> None:
    async with Client(url) as client:
        async with client.listen(tools_list_changed=True) as subscription:
            print("listening", flush=True)
            async for event in subscription:
                print(event, flush=True)
        print("graceful", flush=True)  # else there would be an exception


asyncio.run(main(sys.argv[1]))
