"""A server that counts prime numbers for a long time, reports progress, and stops when its client cancels.

New here: *progress* and *cancellation*. A client that wants progress notifications puts a token into its request. The
tool always calls `report_progress`, which sends nothing to a client without a token. If the client cancels, the `await`
in the tool raises CancelledError. The tool must raise this exception again. A cancelled request gets no response.

A thread counts the primes, in slices of a few milliseconds. So the server can respond to other requests, and the tool
can stop between two slices. (Python cannot stop a thread in the middle of its work.)

    python3 examples/long_job.py                        serves over stdio
    python3 examples/long_job_client.py                 runs one call to its end, and cancels another

Watch it fail: the client has a time limit that is too short, so it cancels the request.

    python3 -m mcp_ref call count_primes below:=10000000000 --timeout 1 -- python3 examples/long_job.py
"""

import asyncio
from dataclasses import dataclass
from math import isqrt
from typing import Annotated

from mcp_ref import Context, Server, ToolAnnotations

server = Server("long job", "1.0")
SLICE = 1_000_000  # count of numbers in one slice, which takes a few milliseconds


@dataclass
class Jobs:
    """The number of calls in each state."""

    running: int = 0
    finished: int = 0
    cancelled: int = 0


jobs = Jobs()


def small_primes(limit: int) -> list[int]:
    """Return the primes up to a limit, with the sieve of Eratosthenes."""
    is_prime = bytearray([0, 0]) + bytearray([1]) * (limit - 1)
    for number in range(2, isqrt(limit) + 1):
        if is_prime[number]:
            is_prime[number * number :: number] = bytes(len(range(number * number, limit + 1, number)))
    return [number for number in range(2, limit + 1) if is_prime[number]]


def primes_between(start: int, end: int, small: list[int]) -> int:
    """Count the primes from `start` to `end` - 1. `small` contains the primes up to the square root of `end`."""
    is_prime = bytearray([1]) * (end - start)
    for prime in small:
        first_multiple = -(-start // prime) * prime  # `start` or the next multiple after it
        first = max(prime * prime, first_multiple) - start
        is_prime[first::prime] = bytes(len(range(first, end - start, prime)))
    return is_prime.count(1)


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def count_primes(below: Annotated[int, {"minimum": 3, "maximum": 10**10}], context: Context) -> int:
    """Count the prime numbers below a limit."""
    jobs.running += 1
    try:
        small = await asyncio.to_thread(small_primes, isqrt(below))
        count = 0
        for start in range(2, below, SLICE):
            end = min(start + SLICE, below)
            count += await asyncio.to_thread(primes_between, start, end, small)
            await context.report_progress(end, below, f"{count} primes so far")
        jobs.finished += 1
        return count
    except asyncio.CancelledError:
        jobs.cancelled += 1
        raise  # always, because otherwise the tool would continue
    finally:
        jobs.running -= 1


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def list_jobs() -> Jobs:
    """Return the number of calls in each state."""
    return jobs


if __name__ == "__main__":
    server.run()
