"""`limits` prints the limits of the package, which it reads from the package's code.

A limit is a positive number with a docstring, which contains the limit's meaning and unit. It is a constant of a
module, or a field of a class such as `HttpLimits`. The folders `cli` and `demo` are skipped.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import is_typeddict

from .. import READING_ORDER
from . import show


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit: its module, its name, its value, and its docstring."""

    module: str
    name: str
    value: float
    meaning: str


def show_limits(json: bool) -> None:
    """Print all limits, one table for each module."""
    found = list(limits())
    if json:
        return show.as_json([asdict(limit) for limit in found])
    for module in dict.fromkeys(limit.module for limit in found):
        rows = [(limit.name, f"{limit.value:,}", limit.meaning) for limit in found if limit.module == module]
        show.table(module, rows)


def limits() -> Iterator[Limit]:
    """Yield the limits of the package, in reading order."""
    package = __package__.rpartition(".")[0]
    for path in READING_ORDER:
        if path.startswith(("cli/", "demo/", "version.py")) or path.endswith(("__init__.py", "__main__.py")):
            continue
        name = f"{package}.{path.removesuffix('.py').replace('/', '.')}"
        module = importlib.import_module(name)
        tree = ast.parse(inspect.getsource(module))  # `getsource` also works in a zip file
        for constant, meaning in _documented(tree.body):
            value = getattr(module, constant)
            if constant.isupper() and type(value) in (int, float) and value > 0:
                yield Limit(path, constant, value, meaning)
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.name.endswith("Limits"):
                cls = getattr(module, node.name)
                defaults = SimpleNamespace(**module.STORE_LIMITS) if is_typeddict(cls) else cls()
                for field, meaning in _documented(node.body):
                    yield Limit(path, f"{node.name}.{field}", getattr(defaults, field), meaning)


def _documented(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Yield each assigned name that has a docstring, with the docstring on one line. `A, B = 1, 2` has one for both."""
    for statement, following in itertools.pairwise(body):
        target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
        text = following.value if isinstance(following, ast.Expr) else None
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            for name in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(name, ast.Name):
                    yield name.id, " ".join(text.value.split())
