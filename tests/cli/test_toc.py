"""`python3 -m mcp_ref toc`: each page of the specification with the modules that implement it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from mcp_ref.cli.toc import PAGES, RELEASED, pages_of
from tests.settings import DATA, ROOT


def test_toc_has_every_page_with_requirements() -> None:
    if DATA is None:
        pytest.skip("the specification's data are not here; set MCP_REF_DATA")
    rows = json.loads((DATA / "requirements.json").read_text("utf-8"))
    for revision in RELEASED:
        required = {row["page"].partition("/")[2] for row in rows if row["revision"] == revision.name}
        missing = required - {page.path for page in pages_of(revision)}
        assert not missing, f"{revision}: {sorted(missing)}"


def test_toc_names_modules_that_exist() -> None:
    for page in PAGES:
        for module in page.modules:
            assert (ROOT / "mcp_ref" / module).exists(), f"{page.path}: {module}"


def test_toc_command_prints_one_revision_or_all() -> None:
    def printed(*options: str) -> str:
        command = [sys.executable, "-m", "mcp_ref", "toc", *options]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=True).stdout

    assert printed().count("server/tools") == len(RELEASED)
    assert list(json.loads(printed("2026-07-28", "--json"))) == ["2026-07-28"]
