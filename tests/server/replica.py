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
    """The sum, and who has added."""
    return [a + b, os.getpid()]


@server.tool()
async def order(number: int, context: Context) -> list[str]:
    """Ask twice: what is ordered, and whether that is what was meant. Gives both answers, and who has asked.

    The keys say that a question is the same, whichever process asks it.
    """
    what = await context.elicit(f"{os.getpid()}: what is order {number}?", Line, key="what")
    thing = str((what.content or {})["line"])
    sure = await context.elicit(f"{os.getpid()}: {thing}?", Line, key=f"sure of {thing}")
    return [thing, str((sure.content or {})["line"]), str(os.getpid())]
