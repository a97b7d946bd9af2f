"""`revisions` on the command line: the table, and the changes of each revision."""

from __future__ import annotations

import dataclasses
import json

import pytest

from mcp_ref.__main__ import main
from mcp_ref.cli import revisions
from mcp_ref.revisions import LEGACY, METHODS, R2025_03_26, R2025_06_18, REVISIONS, Revision

Captured = pytest.CaptureFixture[str]


def test_revisions_command_prints_the_data_of_the_revisions(capsys: Captured) -> None:
    assert main(["revisions"]) == 0
    header, *rows, space, hint = capsys.readouterr().out.splitlines()
    assert header == " " * 31 + "  ".join(revision.name for revision in REVISIONS)
    assert (space, hint) == ("", "For the changes of one revision: revisions REVISION")
    table = {row[:31].strip(): [row[at : at + 12].strip() for at in range(31, 31 + 12 * 6, 12)] for row in rows}
    assert table["batch"] == ["yes" if revision.batch else "-" for revision in REVISIONS]
    assert table["era"] == ["legacy"] * len(LEGACY) + ["modern"]
    names = [field.name for field in dataclasses.fields(Revision)]
    assert list(table) == [*(name.replace("_", " ") for name in names if name not in ("index", "name")), "methods"]
    numbers = [sum(m.since <= each and (m.until is None or each < m.until) for m in METHODS) for each in REVISIONS]
    assert table["methods"] == [str(number) for number in numbers]
    assert max(map(len, rows)) <= 100


def test_revisions_command_lists_all_that_the_first_revision_has(capsys: Captured) -> None:
    assert main(["revisions", "2024-10-07"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("2024-10-07, the first\n\nBehavior\n  era: legacy\n")
    assert ", was" not in out and "\n  - " not in out and "\n  + initialize\n" in out
    changed = revisions.changes(REVISIONS[0])
    assert (changed["after"], changed["stateless"]) == (None, {})


def test_revisions_command_derives_the_changes_of_one_revision(capsys: Captured) -> None:
    assert main(["revisions", "2025-06-18"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("2025-06-18, after 2025-03-26\n")
    for line in ("batch: no, was yes", "+ elicitation/create", "+ Tool.outputSchema", "+ ResourceLink"):
        assert f"\n  {line}\n" in out
    assert "ResourceLink." not in out and "\n  + _" not in out


def test_2026_07_28_tells_what_it_has_in_the_place_of_a_handshake(capsys: Captured) -> None:
    assert main(["revisions", "2026-07-28"]) == 0
    out = capsys.readouterr().out
    for line in (
        "_meta of a request:\n    io.modelcontextprotocol/protocolVersion",
        "headers of a POST:\n    MCP-Protocol-Version\n    Mcp-Method",
        *("requests in an input_required result:", "era: modern, was legacy", "+ server/discover"),
        *("- initialize", "+ ListToolsResult.ttlMs"),
    ):
        assert f"\n  {line}\n" in out
    assert main(["revisions", "2025-11-25"]) == 0
    assert "handshake" not in capsys.readouterr().out


def test_revisions_in_json(capsys: Captured) -> None:
    assert main(["revisions", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["2025-03-26"]["batch"] is True
    assert main(["revisions", "2025-06-18", "--json"]) == 0
    changed = json.loads(capsys.readouterr().out)
    assert changed == revisions.changes(R2025_06_18)
    assert changed["methods"] == {"added": ["elicitation/create"], "removed": []}
    assert changed["behavior"]["batch"] == [True, False]


def test_changes_of_all_revisions_add_up_to_the_method_table() -> None:
    present: set[str] = set()
    for revision in REVISIONS:
        methods = revisions.changes(revision)["methods"]
        assert isinstance(methods, dict) and isinstance(methods["added"], list) and isinstance(methods["removed"], list)
        present = (present | set(map(str, methods["added"]))) - set(map(str, methods["removed"]))
        now = {m.name for m in METHODS if m.since <= revision and (m.until is None or revision < m.until)}
        assert present == now


def test_changes_list_a_new_type_without_its_members() -> None:
    born, _ = revisions.members(R2025_03_26)
    assert "AudioContent" in born and not [name for name in born if name.startswith("AudioContent.")]


@pytest.mark.parametrize("line", ["revisions 2025", "run mcp_ref.demo.server --revision 2020-01-01"])
def test_revisions_command_exits_with_2_for_an_unknown_revision(line: str, capsys: Captured) -> None:
    assert main(line.split()) == 2
    assert "the known revisions are 2024-10-07" in capsys.readouterr().err
