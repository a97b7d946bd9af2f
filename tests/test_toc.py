"""The table of the specification's pages has every page with a MUST sentence, and no gap."""

from __future__ import annotations

import re

import pytest

from tests.settings import DATA, ROOT
from tests.test_requirements import LEVELS, ledger
from tests.threats import Threat, attacks, threats, threats_of
from tests.toc import deviations, entries

needs_data = pytest.mark.skipif(DATA is None, reason="the specification's data are not here; set MCP_REF_DATA")


@needs_data
def test_toc_has_every_page_with_a_must_sentence() -> None:
    listed = {f"{entry.revision}/{entry.page.path}" for entry in entries()}
    assert {row.page for row in ledger().values() if row.level in LEVELS} <= listed


@needs_data
def test_toc_has_no_gap_and_each_page_has_modules() -> None:
    for entry in entries():
        assert not entry.gaps and entry.page.modules, entry


def test_deviations_have_a_reason_and_follow_the_form() -> None:
    text = "".join(path.read_text("utf-8") for path in (ROOT / "mcp_ref").rglob("*.py"))
    found = list(deviations())
    assert len(found) == len(re.findall(r"# DEVIATION\b", text))
    assert all(len(line.split(": ", 1)[1]) > 20 for line in found), found


def test_threats_have_unique_labels_and_each_is_played_by_a_test() -> None:
    labels = [threat.label for threat in threats()]
    assert len(labels) == len(set(labels)), sorted(label for label in labels if labels.count(label) > 1)
    assert set(labels) == set(attacks()), sorted(set(labels) ^ set(attacks()))


def test_threats_of_splits_each_entry_after_its_first_sentence() -> None:
    entries = "a-flood: A client sends `x. Y`,\n        e.g. `b.c`. `D` stops it. So does E.\n    b-flood: A peer. No."
    assert list(threats_of(f"X.\n\nThreats:\n    {entries}\n\nSpec:  x\n", "x")) == [
        Threat("a-flood", "x", "A client sends `x. Y`, e.g. `b.c`.", "`D` stops it. So does E."),
        Threat("b-flood", "x", "A peer.", "No."),
    ]


@pytest.mark.parametrize(
    "entry",
    [
        "flood: A client floods. The server stops it.",
        "a-flood A client floods. The server stops it.",
        "a-flood: A client floods.",
        "a-flood: A client sends `x. Y` to the server.",
        "a-flood: A client sends text, e.g. Latin text.",
        "a-flood: A client floods. The server stops it",
        "a-flood: A client floods. the server stops it.",
        "a-flood: the server; a client; floods; a limit stops it.",
        "a-flood: the server; a client; floods; a limit stops it. It is low.",
    ],
)
def test_threat_of_another_form_is_an_error(entry: str) -> None:
    with pytest.raises(ValueError, match="some-label: The attack"):
        list(threats_of(f"X.\n\nThreats:\n    {entry}\n", "x"))
