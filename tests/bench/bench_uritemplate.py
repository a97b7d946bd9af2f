"""A benchmark of URI templates with hostile URIs: `python3 -m tests.bench.bench_uritemplate` prints a table.

Each row matches a URI of 10 kB and one of 100 kB, made for the template to try in as many ways as possible. Linear
means that the second takes ten times as long.
"""

from __future__ import annotations

import time

from mcp_ref.lib.uritemplate import UriTemplate
from tests.lib.test_uritemplate import HOSTILE


def milliseconds(template: UriTemplate, uri: str) -> float:
    """Return the shortest time of seven matches, in milliseconds."""
    times = []
    for _ in range(7):
        start = time.perf_counter()
        template.match(uri)
        times.append(time.perf_counter() - start)
    return min(times) * 1000


def main() -> None:
    """Print the table."""
    print(f"{'template':<24}{'10 kB':>10}{'100 kB':>10}   ms, best of 7")
    for text, uri in HOSTILE:
        template = UriTemplate(text)
        template.match("")
        short, long = milliseconds(template, uri[: len(uri) // 10]), milliseconds(template, uri)
        print(f"{text[:22]:<24}{short:>10.2f}{long:>10.2f}")


if __name__ == "__main__":
    main()
