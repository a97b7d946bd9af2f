"""Compare the speed and memory of this checkout with another checkout of the project, interleaved in one run.

    git worktree add ../before COMMIT
    python3 -m tests.bench.compare ../before

Each round measures both checkouts, one after the other, so that noise hits both. The table shows medians and the ratio
of this checkout to the other one. On a machine with two cores, the HTTP server and the load each get a core.
"""

from __future__ import annotations

import argparse
import compileall
import os
import statistics
import sys
from pathlib import Path

from tests.bench import bench_stdio, bench_streamable_http
from tests.bench.bench_streamable_http import requests_a_second

ROOT = Path(__file__).resolve().parent.parent.parent


def using(checkout: Path, source: str) -> str:
    """Return a program that imports the package of a checkout."""
    return f"import sys; sys.path.insert(0, {str(checkout.resolve())!r})\n{source}"


def stdio(checkouts: dict[str, Path], rounds: int, stateless: bool) -> None:
    """Print start-up, memory, latency and throughput over stdio."""
    source = bench_stdio.OURS.replace("EXTRA", "0")
    commands = {name: [sys.executable, "-c", using(path, source)] for name, path in checkouts.items()}
    table = bench_stdio.measure(commands, rounds, 2000, stateless)
    for figure in table["after"]:
        show(
            f"stdio, {'stateless' if stateless else 'session'}: {figure}",
            table["before"][figure],
            table["after"][figure],
        )


def http(checkouts: dict[str, Path], rounds: int, kind: type[bench_streamable_http.Session]) -> None:
    """Print requests a second over HTTP with 16 connections, by the clock and by processor time of the server."""
    cores = sorted(os.sched_getaffinity(0))
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in checkouts}
    for _ in range(rounds):
        for name, path in checkouts.items():
            source = using(path, bench_streamable_http.OURS)
            peer = bench_streamable_http.Peer(sys.executable, source, True, cores[0] if len(cores) > 1 else None)
            try:
                requests_a_second(peer, 16, 0.5, kind)
                found[name].append(requests_a_second(peer, 16, 3.0, kind))
            finally:
                peer.close()
    before, after = ([statistics.median(column) for column in zip(*found[name], strict=True)] for name in checkouts)
    for figure, index in (("requests/s", 0), ("requests/s by processor time", 2)):
        show(f"HTTP, {kind.__name__.lower()}: {figure}", before[index], after[index])


def show(figure: str, before: float, after: float) -> None:
    """Print one row."""
    print(f"{figure:55} {before:12,.3f} {after:12,.3f} {after / before:6.2f}x", flush=True)


def main() -> None:
    """Measure both checkouts and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="the folder of the other checkout")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    checkouts = {"before": options.before, "after": ROOT}
    for path in checkouts.values():
        compileall.compile_dir(path / "mcp_ref", quiet=1)  # else one of them may start slowly, without cached bytecode
    print(f"{'':55} {'before':>12} {'after':>12}")
    for stateless in (False, True):
        stdio(checkouts, options.rounds, stateless)
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        os.sched_setaffinity(0, {cores[-1]})
    for kind in (bench_streamable_http.Session, bench_streamable_http.Alone):
        http(checkouts, options.rounds, kind)


if __name__ == "__main__":
    main()
