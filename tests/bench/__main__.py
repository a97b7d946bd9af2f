"""Compare the speed and memory of mcp_ref with a minimal program, the limit, and with other implementations.

    python3 -m tests.bench                           # all rows, in less than ten minutes
    python3 -m tests.bench --rows stdio-legacy start --rounds 9
    python3 -m tests.bench --report report.html      # also write a page with bar charts
    python3 -m tests.bench --instructions            # count instructions instead of time; needs Valgrind
    python3 -m tests.bench.compare ../before --rows stdio-legacy    # this checkout against another checkout

The limit is an asyncio.Protocol with `json` and without validation. The other implementations are in the folder that
MCP_REF_PEERS names. All implementations of a row run at the same time. They are measured in short, alternating turns,
because other work on a machine changes its speed within seconds. The table has the medians of the turns. The ratios are
medians too, of the ratios of neighboring turns. Counted instructions, in thousands, are the same in each run, but slow:
they are for the comparison of two versions, and leave out the time of the kernel. The program needs Linux.
"""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.bench.implementations import CORES, LIMIT, Implementation, find_peers, ours
from tests.bench.report import Result, Values, page, summarize, table_head, table_line
from tests.bench.rows import ROWS, Row, Size, Turns


def run_row(row: Row, implementations: Sequence[Implementation], rounds: int, size: Size) -> Values:
    """Measure a row for some implementations, in their order and in the reverse order by turns.

    Each is measured once in each round; in a row of slow turns, once in each third round.
    """
    work: dict[str, Turns] = {each.name: row.measure(each, size) for each in implementations}
    turns: dict[str, list[tuple[float, ...]]] = {name: [] for name in work}
    try:
        for number in range(-(-rounds // 3) if row.is_slow else rounds):
            for name in work if number % 2 == 0 else reversed(work):
                turns[name].append(next(work[name]))
    finally:
        for each in work.values():
            each.close()
    return turns


COUNTED = Size(seconds=0.0, warm_up=2.0, http_calls=1600, calls=640, events=500, streams=100, tools=1000)
"""The amount of work for counted instructions, which take about fifty times as long."""


def in_instructions(row: Row) -> Row:
    """Return a row with units of counted instructions instead of processor time."""
    units = {"processor µs": "1,000 instructions", "processor ms": "millions of instructions"}
    figures = row.figures
    for time, instructions in units.items():
        figures = tuple(replace(each, unit=each.unit.replace(time, instructions)) for each in figures)
    return replace(row, figures=figures)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose rows and rounds."""
    names = [row.name for row in ROWS]
    parser.add_argument("--rows", nargs="+", metavar="NAME", choices=names, default=names, help=", ".join(names))
    parser.add_argument("--rounds", type=int, default=9, help="turns of each implementation (default: 9)")


def chosen_rows(names: Sequence[str]) -> list[Row]:
    return [row for row in ROWS if row.name in names]


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--report", type=Path, metavar="FILE.html", help="a page with a bar chart for each row")
    parser.add_argument("--instructions", action="store_true", help="count instructions, without other implementations")
    options = parser.parse_args()
    os.sched_setaffinity(0, CORES[-1:])
    implementations, size = [LIMIT, ours(), *find_peers()], Size()
    if options.instructions:
        implementations = [replace(each, counts_instructions=True) for each in implementations[:2]]
        size = COUNTED
    missing = [each.name for each in implementations if not each.is_installed()]
    notes = [f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}, {len(CORES)} cores."]
    notes += [f"Not installed: {', '.join(missing)}."] if missing else []
    print(*notes, sep="\n")
    print(table_head([each.name for each in implementations]))
    results: list[Result] = []
    for row in chosen_rows(options.rows):
        row = in_instructions(row) if options.instructions else row
        able = [each for each in implementations if each.is_installed() and row.name not in each.lacks]
        found = summarize(row, run_row(row, able, options.rounds, size), [each.name for each in implementations])
        print(*map(table_line, found), sep="\n", flush=True)
        results += found
    if options.report:
        options.report.write_text(page(results, notes), "utf-8")


if __name__ == "__main__":
    main()
