"""The map of Streamable HTTP in the package's docstring: every row leads to functions, and every module is on it."""

from __future__ import annotations

import ast
import re

import pytest

from mcp_ref.transports import streamable_http
from tests.settings import ROOT

FOLDER = ROOT / "mcp_ref" / "transports" / "streamable_http"
PLACES = re.findall(r"(\w+\.py): (\w+(?:, \w+)*)", streamable_http.__doc__ or "")


@pytest.mark.parametrize(("module", "names"), PLACES, ids=[f"{module}: {names}" for module, names in PLACES])
def test_map_names_functions_that_exist(module: str, names: str) -> None:
    tree = ast.parse((FOLDER / module).read_text("utf-8"))
    functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert set(names.split(", ")) <= functions


def test_map_has_every_module() -> None:
    modules = {path.name for path in FOLDER.glob("*.py")} - {"__init__.py"}
    assert modules == {module for module, _ in PLACES}
