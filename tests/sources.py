"""The syntax trees of the project's files, for the tests that check its code.

A module of the package is parsed only once, because several tests read the whole package, and most of their time would
go into parsing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.settings import ROOT

PACKAGE = ROOT / "mcp_ref"


@cache
def modules() -> tuple[Path, ...]:
    """Return the files of the package's modules, sorted."""
    return tuple(sorted(PACKAGE.rglob("*.py")))


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the tree of a module of the package, which no caller may change."""
    return ast.parse(path.read_text("utf-8"))


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    """Return all nodes of a module of the package, in the order of `ast.walk`."""
    return list(ast.walk(tree_of(path)))


def statements_below(node: ast.AST, is_in_function: bool = False) -> Iterator[tuple[ast.stmt, bool]]:
    """Yield each statement below a node, and True if it is inside a function."""
    is_in_function = is_in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child, is_in_function
        if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from statements_below(child, is_in_function)
