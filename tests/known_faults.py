"""The faults that a check still allows, as a table that may only shrink: `known_faults.json`.

    python3 -m tests.known_faults            lowers the numbers that are too high, and takes out what is mended
    python3 -m tests.known_faults --list     prints all faults that are left

A check finds faults: kind -> file -> lines of text. The table has a number for each kind and file. More faults than the
number is a failure, and so is a number that is too high. A fault that moves to another file takes its number along, by
hand.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path

Faults = dict[str, dict[str, list[str]]]
"""Faults by kind, and by file."""

TABLE = Path(__file__).with_suffix(".json")
CHECKS = ("tests.package_imports", "tests.prose")
"""The modules with a function `find_faults() -> Faults`."""


def allowed() -> dict[str, dict[str, int]]:
    """Return the table."""
    table: dict[str, dict[str, int]] = json.loads(TABLE.read_text("utf-8"))
    return table


def differences(kind: str, found: dict[str, list[str]]) -> list[str]:
    """Return a line for each fault too many, and for each number that is too high."""
    known = allowed().get(kind, {})
    lines = []
    for path in sorted({*known, *found}):
        faults, number = found.get(path, []), known.get(path, 0)
        if len(faults) > number:
            lines.append(f"{path}: {len(faults)} faults ({kind}), {number} allowed:")
            lines += [f"    {fault}" for fault in faults]
        elif len(faults) < number:
            lines.append(
                f"{path}: {len(faults)} faults ({kind}), but {number} allowed: run `python3 -m tests.known_faults` "
                f"and commit {TABLE.name}"
            )
    return lines


def _all_faults() -> Faults:
    found: Faults = {}
    for name in CHECKS:
        find_faults: Callable[[], Faults] = importlib.import_module(name).find_faults
        found |= find_faults()
    return found


def shrink() -> None:
    """Lower each number to the number of faults found; never raise one."""
    found, table = _all_faults(), allowed()
    lower = {
        kind: {path: min(number, len(found.get(kind, {}).get(path, []))) for path, number in files.items()}
        for kind, files in table.items()
    }
    left = {kind: {path: number for path, number in files.items() if number} for kind, files in lower.items()}
    write({kind: files for kind, files in left.items() if files})


def write(table: dict[str, dict[str, int]]) -> None:
    """Write the table, one entry a line, so that changes of two people merge."""
    TABLE.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n", "utf-8")


def main() -> None:
    """Print the faults that are left, or shrink the table."""
    if "--list" not in sys.argv:
        return shrink()
    for kind, files in _all_faults().items():
        for path, faults in files.items():
            print("\n".join(f"{path}: {kind}: {fault}" for fault in faults))


if __name__ == "__main__":
    main()
