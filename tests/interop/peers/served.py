"""examples/everything.py, and two resources that say how often they were read: what a client keeps, it reads once."""

from itertools import count

from examples.everything import server

__all__ = ["server"]

KEPT, PASSING = count(1), count(1)


@server.resource("test://counted/kept", cache_ttl=60)
def kept() -> str:
    """May be kept for a minute."""
    return str(next(KEPT))


@server.resource("test://counted/passing", cache_ttl=0.1)
def passing() -> str:
    """May be kept for a moment."""
    return str(next(PASSING))
