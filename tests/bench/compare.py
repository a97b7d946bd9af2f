"""Compare the speed and memory of this checkout with another checkout of the project, interleaved in one run.

    git worktree add ../before COMMIT
    python3 -m tests.bench.compare ../before

Other work on a machine changes its speed within seconds. So both servers run at the same time and are measured in
short turns: one checkout, then the other, in alternating order. The table shows the median of each checkout, and the
median of the ratios of neighboring turns. On a machine with two cores, the HTTP servers get one core and the load gets
the other.
"""

from __future__ import annotations

import argparse
import compileall
import os
import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.bench import bench_stdio, bench_streamable_http
from tests.bench.bench_streamable_http import requests_a_second

ROOT = Path(__file__).resolve().parent.parent.parent
TURNS = 8
"""The number of turns of each checkout in a round."""
TURN_SECONDS = 0.5
"""The length of a turn of HTTP load, in seconds."""

Pairs = dict[str, list[tuple[float, float]]]
"""The values of each figure: a pair for each turn, the other checkout first."""


def take_turns(pairs: Pairs, turns: int, measure: list[Callable[[], dict[str, float]]]) -> None:
    """Measure both checkouts `turns` times, in alternating order."""
    for turn in range(turns):
        order = (0, 1) if turn % 2 == 0 else (1, 0)
        found = {index: measure[index]() for index in order}
        for figure in found[0]:
            pairs.setdefault(figure, []).append((found[0][figure], found[1][figure]))


def show(title: str, pairs: Pairs) -> None:
    """Print a row for each figure."""
    for figure, values in pairs.items():
        before, after = (statistics.median(column) for column in zip(*values, strict=True))
        ratio = statistics.median(later / earlier for earlier, later in values)
        print(f"{f'{title}: {figure}':55} {before:12,.3f} {after:12,.3f} {ratio:6.2f}x", flush=True)


def using(checkout: Path, source: str) -> str:
    """Return a program that imports the package of a checkout."""
    return f"import sys; sys.path.insert(0, {str(checkout.resolve())!r})\n{source}"


def compare_stdio(checkouts: list[Path], rounds: int, stateless: bool) -> None:
    """Print start-up, memory, latency and throughput over stdio."""
    source = bench_stdio.OURS.replace("EXTRA", "0")
    commands = [[sys.executable, "-c", using(path, source)] for path in checkouts]

    def start(command: list[str]) -> dict[str, float]:
        peer = bench_stdio.Peer(command, stateless)
        peer.close()
        return {"spawn to first answer, ms": peer.start * 1000}

    def work(peer: bench_stdio.Peer) -> dict[str, float]:
        return {
            "tools/call p50, ms": peer.latency(500) * 1000,
            "64 in flight, calls/s": peer.throughput(1000),
            "2 MiB there and back, s": peer.large(2 * 1024 * 1024),
        }

    pairs: Pairs = {}
    for _ in range(rounds):
        take_turns(pairs, TURNS, [partial(start, command) for command in commands])
        peers = [bench_stdio.Peer(command, stateless) for command in commands]
        for peer in peers:
            peer.latency(500)
        pairs.setdefault("resident memory, MiB", []).append((peers[0].resident(), peers[1].resident()))
        take_turns(pairs, TURNS, [partial(work, peer) for peer in peers])
        for peer in peers:
            peer.close()
    show("stdio, stateless" if stateless else "stdio, session", pairs)


def compare_http(checkouts: list[Path], rounds: int, kind: type[bench_streamable_http.Session]) -> None:
    """Print requests a second over HTTP with 16 connections, by the clock and by processor time of the server."""
    cores = sorted(os.sched_getaffinity(0))
    core = cores[0] if len(cores) > 1 else None
    if core is not None:
        os.sched_setaffinity(0, {cores[-1]})

    def load(peer: bench_streamable_http.Peer) -> dict[str, float]:
        by_clock, _, by_processor = requests_a_second(peer, 16, TURN_SECONDS, kind)
        return {"requests/s": by_clock, "requests/s by processor time": by_processor}

    pairs: Pairs = {}
    for _ in range(rounds):
        sources = [using(path, bench_streamable_http.OURS) for path in checkouts]
        peers = [bench_streamable_http.Peer(sys.executable, source, True, core) for source in sources]
        try:
            for peer in peers:
                load(peer)
            take_turns(pairs, TURNS, [partial(load, peer) for peer in peers])
        finally:
            for peer in peers:
                peer.close()
    show(f"HTTP, {kind.__name__.lower()}", pairs)
    os.sched_setaffinity(0, cores)


def main() -> None:
    """Measure both checkouts and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="the folder of the other checkout")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    checkouts = [options.before, ROOT]
    for path in checkouts:
        compileall.compile_dir(path / "mcp_ref", quiet=1)  # else one of them may start slowly, without cached bytecode
    print(f"{'':55} {'before':>12} {'after':>12}")
    for stateless in (False, True):
        compare_stdio(checkouts, options.rounds, stateless)
    for kind in (bench_streamable_http.Session, bench_streamable_http.Alone):
        compare_http(checkouts, options.rounds, kind)


if __name__ == "__main__":
    main()
