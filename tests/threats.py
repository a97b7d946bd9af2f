"""The threats that the package defends against, and the tests that play the attacks.

A module's docstring lists its threats in a part `Threats:`, each with a label and at least two sentences:

    Threats:
        header-flood: A hostile server blocks the client's event loop with a tool that has thousands of `x-mcp-header`
            annotations. Each name is looked up in a set.

The first sentence is the attack: it names the attacker and the asset at risk. The others are the defense. Each test
that plays the attack has the marker `attack("header-flood")`. The attacks on authorization, A1 to A20, are in a table
of their own, in tests/basic/authorization/test_attacks.py, because most of them concern several modules.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.settings import ROOT
from tests.sources import modules, tree_of

ATTACKS = ROOT / "tests" / "basic" / "authorization" / "test_attacks.py"
"""The file with the table of the attacks on authorization."""

ENTRY = re.compile(r"([a-z0-9]+(?:-[a-z0-9]+)+): ([A-Z](?:`[^`]*`|[^`])+?(?<!\be\.g)(?<!\bi\.e)\.) ([A-Z`].*\.)")
"""The pattern of a threat: label, attack, defense. A period in code or after "e.g" or "i.e" does not end the attack."""


@dataclass(frozen=True)
class Threat:
    """One threat, and the module that defends against it."""

    label: str
    module: str
    attack: str
    defense: str


def threats() -> list[Threat]:
    """Return the threats of all modules, in the order of their paths. Raise ValueError for one of another form."""
    docstrings = {path: ast.get_docstring(tree_of(path)) or "" for path in modules()}
    found = [threat for path, text in docstrings.items() for threat in threats_of(text, str(path.relative_to(ROOT)))]
    return [*found, *_attacks_on_authorization()]


def threats_of(docstring: str, module: str) -> Iterator[Threat]:
    """Yield the threats in a module's docstring. Raise ValueError for one of another form."""
    section = re.search(r"^Threats:\n((?:    .*\n?)+)", docstring, re.MULTILINE)
    if section is None:
        return
    for text in re.split(r"\n(?=    \S)", section[1].rstrip()):
        entry = " ".join(text.split())
        parts = ENTRY.fullmatch(entry)
        if parts is None:
            raise ValueError(f"{module}: {entry!r} is not `some-label: The attack. The defense.`")
        label, attack, defense = parts.groups()
        yield Threat(label, module, attack, defense)


def _attacks_on_authorization() -> Iterator[Threat]:
    docstring = ast.get_docstring(ast.parse(ATTACKS.read_text("utf-8"))) or ""
    for label, attack in re.findall(r"^    (A\d+) +(.*)$", docstring, re.MULTILINE):
        yield Threat(label, "mcp_ref/basic/authorization/", attack, "see the tests")


@cache
def attacks() -> dict[str, list[str]]:
    """Return the tests with the marker `attack`, as `file::test`, by label."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        text = path.read_text("utf-8")
        if "mark.attack(" in text:
            for label, test in _marked(text, path):
                found.setdefault(label, []).append(test)
    return found


def _marked(text: str, path: Path) -> Iterator[tuple[str, str]]:
    """Yield the labels of markers, with the test around each, or the file for a marker of a whole module."""
    tree, name = ast.parse(text), str(path.relative_to(ROOT))
    for statement in tree.body:
        test = f"::{statement.name}" if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) else ""
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.attack":
                for argument in node.args:
                    yield ast.literal_eval(argument), name + test
