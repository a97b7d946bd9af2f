"""One node of a server with many nodes. Its notes and its list of tools are in Redis, so all nodes have the same.

Its environment is its configuration:

    NODE        the name of this node, for the load balancer: a, b, c, ...
    STATE_KEY   the secret key of all nodes, 32 random bytes in hexadecimal
    REDIS_URL   the Redis of all nodes
    BROADCAST   the URL of the PostgreSQL that carries the changes; Redis does if it is not set
    LEASE       time after which a dead node loses its sessions and tasks to the others, in seconds; 10 by default
    SESSIONS    maximum number of sessions that one client can have on this node; 1,000 by default
    PORT        the port of this node

`run.py` starts four nodes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass

from redis.asyncio import Redis
from redis_broadcast import RedisBroadcast
from redis_store import RedisEventStore
from redis_tasks import RedisTaskStore

from mcp_ref import Broadcast, Context, EndpointLimits, Server

NODE, REDIS_URL, LEASE = os.environ["NODE"], os.environ["REDIS_URL"], float(os.environ.get("LEASE", "10"))

broadcast: Broadcast = RedisBroadcast(REDIS_URL)
if "BROADCAST" in os.environ:
    from postgres_broadcast import PostgresBroadcast  # needs psycopg

    broadcast = PostgresBroadcast(os.environ["BROADCAST"])
server = Server(
    "notes",
    node=NODE,
    state_key=bytes.fromhex(os.environ["STATE_KEY"]),
    broadcast=broadcast,
    task_store=RedisTaskStore(REDIS_URL, lease_seconds=LEASE),
)
redis = Redis.from_url(REDIS_URL, decode_responses=True)
known_words: set[str] = set()
"""The words for which this node has a tool."""


@server.tool()
async def which_node() -> str:
    """Return the name of the node that serves this call."""
    return NODE


@server.tool()
async def write(name: str, text: str) -> str:
    """Change a note, and notify its subscribers on all nodes."""
    await redis.hset("notes", name, text)
    server.resource_updated(f"notes://{name}")
    return NODE


@server.resource("notes://{name}")
async def note(name: str) -> str:
    """A note."""
    return str(await redis.hget("notes", name) or "")


@dataclass
class Name:
    """The form of `greet`."""

    name: str


@server.tool()
async def greet(context: Context) -> str:
    """Ask the user for a name. In the modern era, the reply can reach another node, which continues the call."""
    reply = await context.elicit("Who are you?", Name, key="name")
    return f"{(reply.content or {}).get('name')} on {NODE}"


@server.tool()
async def slow(seconds: float) -> str:
    """Return after some time."""
    await asyncio.sleep(seconds)
    return NODE


@server.tool(task="required")
async def count_to(number: int) -> str:
    """Count, as a task: the client fetches the result later, from any node."""
    await asyncio.sleep(number / 100)
    return f"{number} on {NODE}"


@server.tool()
async def learn(word: str) -> str:
    """Add a tool that says a word, on all nodes."""
    await redis.sadd("words", word)
    await load_tools()
    return NODE


@server.on_change("tools")
async def load_tools() -> None:
    """Add the tools that other nodes have learned. The server calls this at its start too."""
    words = {str(word) for word in await redis.smembers("words")}
    for word in sorted(words - known_words):
        known_words.add(word)
        server.tools.add(saying(word), f"say_{word}", description=f"Say {word}.")


def saying(word: str) -> Callable[[], str]:
    """Return a function that says a word."""
    return lambda: word


if __name__ == "__main__":
    server.run_http(
        port=int(os.environ["PORT"]),
        store=RedisEventStore(REDIS_URL, lease_seconds=LEASE),
        health=True,
        trusted_proxies=["127.0.0.1"],  # the load balancer
        limits=EndpointLimits(sessions_per_caller=int(os.environ.get("SESSIONS", "1000"))),
    )
