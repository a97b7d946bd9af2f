"""The structure of the package: the direction of its imports, and the rules for every module."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.known_faults import differences
from tests.package_imports import OPTIONAL_READING, READING_ORDER, find_faults
from tests.settings import ROOT
from tests.sources import PACKAGE, modules, nodes_of, tree_of

MOST_LINES_FOR_FIRST_READERS = 11_000
"""Maximum number of lines of the modules of `READING_ORDER` that are not in `OPTIONAL_READING`."""


@pytest.mark.parametrize(
    "kind",
    [
        "circle of imports",
        "import from a higher room",
        "import of a later module",
        "reading order",
        "lazy import without a reason",
        "too many lazy imports",
        "folder docstring",
    ],
)
def test_imports_have_no_faults_but_the_known_ones(kind: str) -> None:
    """Hold the graph of imports to the rules of `tests/package_imports.py`."""
    wrong = differences(kind, find_faults().get(kind, {}))
    assert not wrong, "\n".join(["", *wrong])


def test_modules_import_only_the_standard_library_and_relative_names_and_say_what_they_are_about() -> None:
    wrong = []
    for path in modules():
        wrong += [f"{path} imports {name}" for name in _absolute_imports(path) - sys.stdlib_module_names]
        if len(ast.get_docstring(tree_of(path)) or "") <= 40:
            wrong.append(f"{path} does not say what it is about")
    assert not wrong


def _absolute_imports(path: Path) -> set[str]:
    """Return the names of the packages that a module imports, without those that only type checkers need."""
    nodes = nodes_of(path)
    blocks = [node for node in nodes if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    only_for_type_checkers = {id(node) for block in blocks for node in block.body}
    names = set[str]()
    for node in nodes:
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        else:
            found = [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        # type checkers know typing_extensions, so it need not be installed
        names |= {name for name in found if name != "typing_extensions" or id(node) not in only_for_type_checkers}
    return {name.split(".")[0] for name in names}


def test_pages_for_first_readers_do_not_grow() -> None:
    pages = [page for page in READING_ORDER if not page.startswith(OPTIONAL_READING)]
    lines = sum(len((PACKAGE / page).read_text("utf-8").splitlines()) for page in pages)
    advice = "pay for new lines there with deleted ones, and move no page to OPTIONAL_READING for this"
    assert lines <= MOST_LINES_FOR_FIRST_READERS, f"first readers have {lines} lines: {advice}"
    assert lines > MOST_LINES_FOR_FIRST_READERS - 300, f"first readers have only {lines} lines: lower the limit"


def test_only_revisions_py_knows_dates() -> None:
    """Compare no dates outside revisions.py: code reads a named feature of a Revision."""
    for path in modules():
        for node in nodes_of(path):
            if isinstance(node, ast.Compare):
                text = ast.unparse(node)
                assert not re.search(r"R20\d\d_|20\d\d-\d\d-\d\d", text), f"{path}:{node.lineno}: {text}"


MOST_DENSE_PASSAGES = {"conditional in a conditional": 0, "function with many branches": 1, "nested walrus": 0}
"""The number of passages in the package that a reader does not follow at the first reading. It may only shrink."""

BRANCHING = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.match_case, ast.IfExp)

MANY_BRANCHES = 15
"""Number of branches (if, loop, except, case, conditional, and each further operand of and/or) that is still clear."""


def _dense_passages() -> Iterator[tuple[str, str]]:
    for path in modules():
        name = path.relative_to(ROOT)
        for node in nodes_of(path):
            if isinstance(node, ast.IfExp) and _contains(node, ast.IfExp):
                yield "conditional in a conditional", f"{name}:{node.lineno}"
            if isinstance(node, ast.NamedExpr) and _contains(node, ast.NamedExpr):
                yield "nested walrus", f"{name}:{node.lineno}"
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _branches(node) > MANY_BRANCHES:
                yield "function with many branches", f"{name}:{node.lineno} {node.name}"


def _contains(node: ast.AST, kind: type[ast.AST]) -> bool:
    return any(isinstance(each, kind) for each in ast.walk(node) if each is not node)


def _branches(node: ast.AST) -> int:
    """Return the number of branches below a node, without those of functions inside it."""
    count = 0
    for child in ast.iter_child_nodes(node):
        count += len(child.values) - 1 if isinstance(child, ast.BoolOp) else isinstance(child, BRANCHING)
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            count += _branches(child)
    return count


def test_code_has_few_dense_passages() -> None:
    found = list(_dense_passages())
    for kind, most in MOST_DENSE_PASSAGES.items():
        places = [place for each, place in found if each == kind]
        assert len(places) == most, f"{len(places)} of {kind} instead of {most}: rewrite one\n" + "\n".join(places)


_ISOLATED = """
import sys
sys.path[:0] = [{path!r}]
class Blocked:
    def find_spec(self, name, path=None, target=None):
        root = name.split('.')[0]
        if root not in sys.stdlib_module_names and root not in {{{root!r}}}:
            raise ImportError('not in the standard library: ' + name)
sys.meta_path.insert(0, Blocked())
import asyncio, importlib
package = importlib.import_module({name!r})
server = package.Server('vendored')
@server.tool()
def add(a: int, b: int) -> int:
    return a + b
async def main():
    async with package.Client(server) as client:
        result = await client.call_tool('add', {{'a': 1, 'b': 2}})
        print(result.structured_content)
asyncio.run(main())
assert 'mcp' not in sys.modules and ({name!r} == 'mcp_ref' or 'mcp_ref' not in sys.modules)
"""


def _run_isolated(path: Path, name: str) -> str:
    source = _ISOLATED.format(path=str(path), name=name, root=name.split(".")[0])
    command = [sys.executable, "-I", "-S", "-c", source]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, cwd=path.parent, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_package_works_vendored_under_another_name_without_site_packages(tmp_path: Path) -> None:
    (tmp_path / "app" / "_vendor").mkdir(parents=True)
    for folder in (tmp_path / "app", tmp_path / "app" / "_vendor"):
        (folder / "__init__.py").touch()
    shutil.copytree(PACKAGE, tmp_path / "app" / "_vendor" / "mcp_ref", ignore=shutil.ignore_patterns("__pycache__"))
    assert _run_isolated(tmp_path, "app._vendor.mcp_ref") == "3"


def test_package_works_from_a_zip_file(tmp_path: Path) -> None:
    archive = tmp_path / "mcp_ref.zip"
    with zipfile.ZipFile(archive, "w") as bundle:
        for path in modules():
            bundle.write(path, path.relative_to(ROOT))
    assert _run_isolated(archive, "mcp_ref") == "3"


def test_serving_stdio_loads_no_http_and_no_email() -> None:
    source = "import sys, mcp_ref; mcp_ref.Server, mcp_ref.Client\n"
    source += "import mcp_ref.transports.stdio.client\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{source}"],
        capture_output=True, text=True, timeout=30, check=True, env={**os.environ},
    )  # fmt: skip
    loaded = set(done.stdout.split())
    assert not loaded & {"http", "http.client", "http.server", "urllib.request", "email", "xml", "multiprocessing"}


_UNPROTECTED = """
import asyncio, sys
sys.path.insert(0, {root!r})
import mcp_ref
async def main():
    server = mcp_ref.Server("open")
    @server.tool()
    def add(a: int, b: int) -> int:
        return a + b
    from mcp_ref.lib.http.server import start_server
    from mcp_ref.server.http import HttpApp
    app = HttpApp(server.catalog)
    async with await start_server(app.handle) as listener:
        async with mcp_ref.Client("http://127.0.0.1:%d/mcp" % listener.address[1]) as client:
            await client.call_tool("add", {{"a": 1, "b": 2}})
asyncio.run(main())
import mcp_ref.transports.stdio.client
print(*sys.modules)
"""


def test_unprotected_http_and_stdio_load_no_authorization() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _UNPROTECTED.format(root=str(ROOT))],
        capture_output=True, text=True, timeout=30, check=True, env={**os.environ},
    )  # fmt: skip
    loaded = set(done.stdout.split())
    assert "mcp_ref.transports.streamable_http.client" in loaded
    assert not [name for name in loaded if name.startswith(("mcp_ref.basic.authorization", "mcp_ref.lib.jose"))]
    assert not [name for name in loaded if name.startswith(("mcp_ref.check", "mcp_ref.recorder"))]
