"""examples/everything.py with two more resources, whose text is the number of reads. Clients can cache one of them."""

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
