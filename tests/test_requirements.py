"""Every MUST of the specification has a test that names it, or a reason why it has none.

The ledger is requirements.json: one row for each normative sentence of each revision; sentences that did not change
have the same hash. A test names the rows it holds with `@pytest.mark.spec("2025-11-25/basic/lifecycle#operation-1")`,
or several with `"2025-06-18..2025-11-25/server/tools#tool-1,2"`: the sentences 1 and 2 in both revisions.
A sentence that no test can hold is in `tests/untested/<part>.py`, by its newest id, with the reason.

    python3 -m tests.toc      prints the counts, page by page
"""

from __future__ import annotations

import ast
import importlib
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.settings import DATA, REVISIONS, requirement_ids

TESTS = Path(__file__).parent
COMPLETE_PAGES = ("basic/utilities/tasks",)
"""The pages of which the recommendations are held too."""

LEVELS = ("MUST", "MUST NOT", "REQUIRED", "SHALL", "SHALL NOT")
RECOMMENDATIONS = ("SHOULD", "SHOULD NOT", "RECOMMENDED")

pytestmark = pytest.mark.skipif(DATA is None, reason="the specification's data are not here")


@dataclass(frozen=True)
class Row:
    """One normative sentence of one revision."""

    id: str
    revision: str
    page: str
    level: str
    sentence: str
    hash: str


@cache
def ledger() -> dict[str, Row]:
    """Return all rows of the revisions above, by id."""
    assert DATA is not None
    rows = json.loads((DATA / "requirements.json").read_text("utf-8"))
    fields = ("id", "revision", "page", "level", "sentence", "hash")
    found = [Row(*(row[name] for name in fields)) for row in rows if row["revision"] in REVISIONS]
    return {row.id: row for row in found}


@cache
def musts() -> list[Row]:
    """Return the rows that need a test or a reason, newest revision first."""
    rows = [
        row
        for row in ledger().values()
        if row.level in LEVELS + RECOMMENDATIONS * (row.page.partition("/")[2] in COMPLETE_PAGES)
    ]
    return sorted(rows, key=lambda row: row.revision, reverse=True)


@cache
def named() -> dict[str, list[str]]:
    """Return the ids that tests name, with the files of these tests."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "spec":
                for named in node.args:
                    assert isinstance(named, ast.Constant), f"{path}:{node.lineno}: an id is a literal"
                    for id in requirement_ids(str(named.value)):
                        found.setdefault(id, []).append(str(path.relative_to(TESTS)))
    return found


@cache
def untested() -> dict[str, str]:
    """Return the ids in tests/untested, with their reasons."""
    found: dict[str, str] = {}
    for path in sorted((TESTS / "untested").glob("*.py")):
        reasons: dict[str, str] = importlib.import_module(f"tests.untested.{path.stem}").UNTESTED
        twice = reasons.keys() & found.keys()
        assert not twice, f"{path.name} repeats {sorted(twice)}"
        found |= reasons
    return found


def excused() -> set[str]:
    """Return the hashes of the sentences in tests/untested."""
    return {ledger()[id].hash for id in untested() if id in ledger()}


def test_each_must_has_a_test_or_a_reason() -> None:
    missing = [row for row in musts() if row.id not in named() and row.hash not in excused()]
    assert not missing, f"{len(missing)} rows have neither a test nor a reason: " + " ".join(row.id for row in missing)


def test_a_sentence_with_a_reason_has_no_test() -> None:
    held = {ledger()[id].hash for id in named() if id in ledger()}
    both = [id for id in untested() if id in ledger() and ledger()[id].hash in held]
    assert not both, f"tested after all, so take it out of tests/untested: {both}"


def test_a_reason_stands_with_the_newest_id_of_a_must() -> None:
    newest: dict[str, str] = {}
    for row in musts():
        newest.setdefault(row.hash, row.id)
    stale = [id for id in untested() if id not in newest.values()]
    assert not stale, f"no MUST, or not its newest id: {stale}"
    assert all(reason.strip() for reason in untested().values())


def test_every_id_that_a_test_names_is_in_the_ledger() -> None:
    assert DATA is not None
    known = {row["id"] for row in json.loads((DATA / "requirements.json").read_text("utf-8"))}
    unknown = {id: files for id, files in named().items() if id not in known}
    assert not unknown
