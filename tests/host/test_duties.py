"""Each duty of a host has a test that names it, or a reason why it has none."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.host.duties import ACCEPTANCE, DUTIES, REASONS
from tests.settings import DATA
from tests.test_requirements import excused, ledger, named


@pytest.mark.skipif(DATA is None, reason="the specification's data are not here")
def test_each_duty_of_a_host_has_a_test_or_a_reason() -> None:
    rows = ledger()
    assert [id for id in DUTIES if id not in rows] == []
    held = {rows[id].hash for id in named() if id in rows} | excused()
    assert [id for id in DUTIES if rows[id].hash not in held and id not in REASONS] == []
    assert [id for id in REASONS if rows[id].hash in held or id not in DUTIES] == []


def test_each_acceptance_test_of_the_host_exists() -> None:
    found: set[str] = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "acceptance":
                found |= {str(id.value) for id in node.args if isinstance(id, ast.Constant)}
    assert found == ACCEPTANCE.keys()
