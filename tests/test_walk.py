"""The path of a `tools/call` stays short: a file that only forwards is a file too many."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache

import pytest

from tests.settings import ROOT

MOST_FILES = {
    "stdio_legacy_server": 12,
    "stdio_modern_server": 13,
    "http_session_server": 15,
    "http_stateless_server": 15,
    "stdio_legacy_client": 10,
    "stdio_modern_client": 11,
    "http_legacy_client": 11,
    "http_modern_client": 13,
}
"""Maximum number of files of the package, without `lib/`, that one warm call enters."""


@cache
def _walks() -> dict[str, dict[str, list[str]]]:
    # a process of its own: the fixtures of the test suite call functions of the package too
    command = [sys.executable, "-m", "tests.walk", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    walks: dict[str, dict[str, list[str]]] = json.loads(done.stdout)
    return walks


@pytest.mark.parametrize("name", MOST_FILES)
def test_tools_call_enters_few_files(name: str) -> None:
    walk = _walks()[name]
    assert len(walk) <= MOST_FILES[name], f"{name} enters {len(walk)} files: {' '.join(walk)}"
    assert len(walk) >= 5, f"{name} was not recorded: {walk}"
