"""The package's front door: its names are the same for readers, for type checkers and at run time."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import mcp_ref
from tests.settings import ROOT

INIT = Path(mcp_ref.__file__)


def imported_for_type_checkers() -> dict[str, str]:
    """Return the public names with the module of each, from the `if TYPE_CHECKING` block."""
    found: dict[str, str] = {}
    for node in ast.walk(ast.parse(INIT.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            for alias in node.names:
                assert alias.asname == alias.name, f"{alias.name}: only `import X as X` is public to a type checker"
                found[alias.name] = str(node.module)
    return found


def test_type_checkers_and_the_running_program_see_the_same_names() -> None:
    assert imported_for_type_checkers() == mcp_ref._MODULE_BY_NAME
    assert [*mcp_ref._MODULE_BY_NAME, "OPTIONAL_READING", "READING_ORDER"] == mcp_ref.__all__ == [*mcp_ref.__all__]
    assert dir(mcp_ref) == sorted(mcp_ref.__all__)


def test_every_public_name_can_be_imported() -> None:
    for name in mcp_ref.__all__:
        assert getattr(mcp_ref, name) is not None


def test_import_in_python_3_10_says_which_version_is_needed() -> None:
    source = "import sys; sys.version_info = (3, 10, 4, 'final', 0); before = {*sys.modules}\n"
    source += "try: import mcp_ref\nexcept ImportError as error: print(error, {*sys.modules} - before)"
    done = subprocess.run(
        [sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, timeout=20, check=True
    )
    assert done.stdout.startswith("mcp_ref needs Python 3.11 or later, this is 3.10 {'__future__'}")


def test_signatures_of_server_and_client_show_no_object_of_a_revision() -> None:
    for kind in (mcp_ref.Server, mcp_ref.Client):
        assert "Revision(" not in str(inspect.signature(kind))


def test_importing_the_package_imports_none_of_its_pages() -> None:
    source = "import sys, mcp_ref; print([m for m in sys.modules if m.startswith('mcp_ref.')])"
    done = subprocess.run(
        [sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, timeout=20, check=True
    )
    assert done.stdout.strip() == "[]"
