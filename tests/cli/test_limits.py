"""`python3 -m mcp_ref limits`: every bound in the code is listed with its default."""

from __future__ import annotations

import ast
import json
import re

import pytest

from mcp_ref.__main__ import main
from mcp_ref.cli.limits import limits, memory
from tests.sources import PACKAGE, modules, tree_of


def test_limits_lists_every_constant_named_max() -> None:
    listed = {(limit.module, limit.name) for limit in limits()}
    for path in modules():
        module = path.relative_to(PACKAGE).as_posix()
        if module.startswith(("cli/", "demo/")):
            continue
        for targets in re.findall(r"^([A-Z][A-Z_, ]*)(?:: \w+)? = ", path.read_text("utf-8"), re.MULTILINE):
            for name in re.findall(r"\bMAX_\w+", targets):
                assert (module, name) in listed, f"{module}: {name} has no docstring"


def test_limits_lists_every_field_of_a_limits_class() -> None:
    listed = {(limit.module, limit.name) for limit in limits()}
    for path in modules():
        module = path.relative_to(PACKAGE).as_posix()
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef) and node.name.endswith("Limits"):
                for field in node.body:
                    if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                        assert (module, f"{node.name}.{field.target.id}") in listed, f"{module}: {field.target.id}"


def test_limits_are_positive_numbers() -> None:
    for limit in limits():
        assert limit.value > 0, limit


def test_limits_command_prints_tables_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["limits"]) == 0
    printed = capsys.readouterr().out
    assert "MAX_BATCH  1,000" in printed and "CANCEL_SECONDS  0.5" in printed
    server, client = (f"\nMemory that one {peer}, in bytes\n" for peer in (
        "caller can fill in a server", "server can fill in a client or host"))  # fmt: skip
    of_server, of_client = printed.partition(server)[2].split(client)
    for each in memory():
        row = f"  {each.contents}  {each.one_peer:,}\n"
        is_in = (f"{row}      all callers: {each.all_peers:,}\n" in of_server, row in of_client)
        assert is_in == (bool(each.all_peers), not each.all_peers)
    assert main(["limits", "--json"]) == 0
    assert {"jsonrpc/messages.py"} <= {entry["module"] for entry in json.loads(capsys.readouterr().out)}


@pytest.mark.spec("2025-11-25/basic/utilities/tasks#resource-management-4,5")
def test_limits_of_tasks_are_documented() -> None:
    documented = {limit.name: limit.meaning for limit in limits() if "extensions/tasks/" in limit.module}
    assert "milliseconds" in documented["MAX_TTL"] and "tasks" in documented["MAX_TASKS_PER_CALLER"]
