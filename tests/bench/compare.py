"""Compare the speed and memory of this checkout with another checkout of the project, in the rows of the benchmark.

    git worktree add ../before COMMIT
    python3 -m tests.bench.compare ../before --rows stdio-legacy stdio-modern

The programs and the load are those of this checkout: only the package `mcp_ref` differs. Both run at the same time and
take turns, as in `python3 -m tests.bench`. The table shows the median of each checkout, and the median of the ratios
of neighboring turns.
"""

from __future__ import annotations

import argparse
import os
import statistics
from pathlib import Path

from tests.bench.__main__ import add_options, chosen_rows, run_row
from tests.bench.implementations import CORES, ours
from tests.bench.rows import Size


def main() -> None:
    """Measure both checkouts and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="the folder of the other checkout")
    add_options(parser)
    options = parser.parse_args()
    os.sched_setaffinity(0, CORES[-1:])
    print(f"{'':72} {'before':>10} {'after':>10}")
    for row in chosen_rows(options.rows):
        turns = run_row(row, [ours("before", options.before), ours("after")], options.rounds, Size())
        for index, figure in enumerate(row.figures):
            before, after = ([turn[index] for turn in turns[name]] for name in ("before", "after"))
            ratio = statistics.median(later / earlier for earlier, later in zip(before, after, strict=True))
            title = f"{figure.title}, {figure.unit}"
            print(
                f"{title:64} {statistics.median(before):10.1f} {statistics.median(after):10.1f} {ratio:6.2f}x",
                flush=True,
            )


if __name__ == "__main__":
    main()
