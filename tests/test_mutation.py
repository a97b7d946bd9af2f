"""The program that changes the package makes valid changes, and knows the tests of each module."""

from __future__ import annotations

import ast

import pytest

from tests.mutation.__main__ import MODULES, all_replacements, change, files_with_tests, other_files_of_folder, sample
from tests.settings import DATA, ROOT


@pytest.mark.parametrize("module", MODULES)
def test_changes_of_a_module_are_valid_python_and_differ_from_it(module: str) -> None:
    source = (ROOT / "mcp_ref" / module).read_bytes()
    unchanged = ast.dump(ast.parse(source))
    for each in all_replacements(source.decode())[::97]:
        made = change(module, source.decode(), *each)
        changed = source[: made.start] + made.after.encode() + source[made.end :]
        assert ast.dump(ast.parse(changed)) != unchanged, made


@pytest.mark.skipif(DATA is None, reason="the specification's data are not here; set MCP_REF_DATA")
def test_each_module_that_is_changed_has_tests() -> None:
    package = ROOT / "mcp_ref"
    for module in package.rglob("*.py"):
        files = [file for group in files_with_tests(module.relative_to(package).as_posix()) for file in group]
        assert files and all((ROOT / file).exists() for file in files), module


@pytest.mark.skipif(DATA is None, reason="the specification's data are not here; set MCP_REF_DATA")
def test_other_files_of_a_folder_are_not_those_of_the_module() -> None:
    others = other_files_of_folder("lib/http/origin.py")
    assert "tests/lib/http/test_client.py" in others and "tests/lib/http/test_origin.py" not in others
    assert other_files_of_folder("server/service.py") == []  # has all tests of its folder


def test_sample_is_of_the_whole_package_and_the_same_for_the_same_seed() -> None:
    chosen = sample(60, 1)
    assert sum(map(len, chosen.values())) == 60 and {module.partition("/")[0] for module in chosen} >= {"lib", "basic"}
    assert chosen == sample(60, 1)
