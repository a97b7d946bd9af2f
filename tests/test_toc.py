"""The table of the specification's pages has every page with a MUST sentence, and no gap."""

from __future__ import annotations

import re

import pytest

from tests.settings import DATA, ROOT
from tests.test_requirements import LEVELS, ledger
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
