"""One of several equal servers behind a proxy, for test_round_robin.py: they share nothing but a key."""

import os
from dataclasses import dataclass

from mcp_ref import Context, Server

server = Server("replica", state_key=bytes.fromhex(os.environ["STATE_KEY"]))


@dataclass
class Line:
    """A form with one field."""

    line: str


@server.tool()
def add(a: int, b: int) -> list[int]:
    """Return the sum, and the id of this process."""
    return [a + b, os.getpid()]


@server.tool()
async def order(number: int, context: Context) -> list[str]:
    """Elicit an order and its confirmation, and return both with the id of this process.

    The keys make the elicitations the same in every process.
    """
    what = await context.elicit(f"{os.getpid()}: what is order {number}?", Line, key="what")
    thing = str((what.content or {})["line"])
    sure = await context.elicit(f"{os.getpid()}: {thing}?", Line, key=f"sure of {thing}")
    return [thing, str((sure.content or {})["line"]), str(os.getpid())]
