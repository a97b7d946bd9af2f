"""The pages of the specification, with their modules, requirements and tests.

    python3 -m tests.toc                 page, modules, sentences, sentences with a test, tests; pages with gaps first
    python3 -m tests.toc --deviations    the places where the package departs from the specification
    python3 -m tests.toc --threats       the attacks that the package resists: where, how, and the tests that play them

A gap is a MUST sentence that has neither a test nor a reason in `tests/untested`, or a page without a module.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from mcp_ref.cli.toc import PAGES, Page
from tests.settings import DATA, ROOT
from tests.test_requirements import LEVELS, TESTS, Row, excused, ledger, named
from tests.threats import attacks, threats


@dataclass(frozen=True)
class Entry:
    """One page in one revision, with its MUST sentences."""

    revision: str
    page: Page
    rows: list[Row]

    @property
    def tested(self) -> list[Row]:
        """The sentences that a test names."""
        return [row for row in self.rows if row.id in named()]

    @property
    def gaps(self) -> list[Row]:
        """The sentences without a test and without a reason."""
        return [row for row in self.rows if row.id not in named() and row.hash not in excused()]

    @property
    def tests(self) -> list[str]:
        """The files of the tests that name a sentence of the page, the most frequent first."""
        files = [file for row in self.rows for file in named().get(row.id, ())]
        return sorted(set(files), key=lambda file: (-files.count(file), file))


@cache
def entries() -> list[Entry]:
    """Return all pages of all revisions: those with the most gaps first."""
    rows: dict[str, list[Row]] = {}
    for row in ledger().values():
        if row.level in LEVELS:
            rows.setdefault(row.page, []).append(row)
    found = [
        Entry(revision.name, page, rows.get(f"{revision.name}/{page.path}", []))
        for page in PAGES
        for revision in page.revisions
    ]
    return sorted(found, key=lambda entry: -len(entry.gaps))


def deviations() -> Iterator[str]:
    """Yield `file:line: reason` for each place that departs from the specification."""
    for path in sorted((ROOT / "mcp_ref").rglob("*.py")):
        lines = path.read_text("utf-8").splitlines()
        for number, line in enumerate(lines, 1):
            found = re.search(r"# DEVIATION: (.*)", line)
            if found:
                reason, following = found[1], number
                while following < len(lines) and re.match(r"\s*# (?!DEVIATION)", lines[following]):
                    reason += " " + lines[following].strip().removeprefix("# ")
                    following += 1
                yield f"{path.relative_to(ROOT)}:{number}: {reason}"


def show_threats() -> None:
    """Print each threat with its module and its tests."""
    for threat in threats():
        print(f"{threat.label} ({threat.module})\n    attack    {threat.attack}\n    defense   {threat.defense}")
        for test in dict.fromkeys(attacks().get(threat.label, [])):
            print(f"    test      {test}")


def main() -> None:
    """Print the table, the deviations, or the threats."""
    if "--deviations" in sys.argv:
        return print("\n".join(deviations()) or "none")
    if "--threats" in sys.argv:
        return show_threats()
    if DATA is None:
        sys.exit("the specification's requirements.json is missing: set MCP_REF_DATA to its folder")
    print(f"{'revision':12}{'page':52}{'MUST':>5}{'tested':>8}{'reason':>8}{'gap':>5}  modules; tests in {TESTS.name}/")
    for entry in entries():
        reasons = len(entry.rows) - len(entry.tested) - len(entry.gaps)
        counts = f"{len(entry.rows):5}{len(entry.tested):8}{reasons:8}{len(entry.gaps):5}"
        modules = ", ".join(entry.page.modules)
        print(f"{entry.revision:12}{entry.page.path:52}{counts}  {modules}; {', '.join(entry.tests) or '(no tests)'}")


if __name__ == "__main__":
    main()
