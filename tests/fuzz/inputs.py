"""Inputs that several targets share, and the limits of one call of the package."""

from __future__ import annotations

import contextlib
import random
import resource
import signal
from collections.abc import Iterator
from types import FrameType

from mcp_ref.jsonrpc.messages import JSON

MAX_TIME = 0.5
"""Maximum processor time of one call of the package, in seconds. A validation ends after 0.2 s and the rest of its
slice of steps, which takes longer while other programs use the same core."""
MAX_MEMORY = 256 * 1024 * 1024
"""Maximum growth of the process's peak memory in one call of the package, in bytes (256 MiB)."""
MAX_INPUT = 1_000_000
"""Maximum size of an input, in bytes."""

WORDS = ["", "a", "b", "name", "0", "-1", "é", "\u2028", "\U0001f600", "..", "/", "\\", "%41", "\0", "\n", '"', "$ref"]
NUMBERS: list[JSON] = [0, 1, -1, 2, 3, 0.5, 1e-300, 1e308, float("inf"), 2**53 + 1, 10**300, -0.0]
JSON_FRAGMENTS = [
    b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", rb"\ud800", rb"\ud83d\ude00", b"NaN", b"1e999", b"-0", b"9" * 5000,
    b'"id":1,', b'"id":2,', b'"method":"x",', b"null", b"true", b"\xff", b"\xe2\x80\xa8", b" ", b"\n",
]  # fmt: skip


class TookTooLong(BaseException):
    """A call of the package used more processor time than `MAX_TIME`."""


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise TookTooLong(f"more than {MAX_TIME} s of processor time")


@contextlib.contextmanager
def within_limits() -> Iterator[None]:
    """Run a block. Raise TookTooLong or AssertionError if it exceeds a limit."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    previous = signal.signal(signal.SIGPROF, _interrupt)
    signal.setitimer(signal.ITIMER_PROF, MAX_TIME)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)
    growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) * 1024
    assert growth <= MAX_MEMORY, f"the peak memory has grown by {growth} bytes"


def word(rng: random.Random) -> str:
    """Return a short text."""
    return "".join(rng.choices(WORDS, k=rng.randint(1, 3)))


def value(rng: random.Random, depth: int = 3) -> JSON:
    """Return a JSON value with at most `depth` levels of nesting."""
    match rng.randrange(8 if depth else 5):
        case 0:
            return rng.choice([None, True, False])
        case 1 | 2:
            return rng.choice(NUMBERS)
        case 3 | 4:
            return word(rng)
        case 5 | 6:
            return [value(rng, depth - 1) for _ in range(rng.randint(0, 3))]
        case _:
            return {word(rng): value(rng, depth - 1) for _ in range(rng.randint(0, 3))}


def damaged(rng: random.Random, data: bytes, fragments: list[bytes], limit: int = MAX_INPUT) -> bytes:
    """Return data with a few changes: fragments and random bytes inserted, parts left out, copied or replaced.

    One of ten changes repeats a part until the result has up to `limit` bytes, to find slow algorithms.
    """
    for _ in range(rng.randint(1, 3)):
        start = rng.randrange(len(data) + 1)
        end = min(len(data), start + rng.randint(0, 8))
        part = data[start:end]
        match rng.randrange(10):
            case 0:
                part = rng.randbytes(1)
            case 1 | 2:
                part = b""
            case 3 | 4:
                part *= 2
            case 5:
                part = part or rng.choice(fragments)
                part *= limit // len(part) // rng.choice([1, 4, 16])
            case _:
                part = rng.choice(fragments) + part * rng.randrange(2)
        data = data[:start] + part + data[end:]
    return data[:limit]


def pieces(rng: random.Random, data: bytes) -> list[bytes]:
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randint(0, 6)))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
