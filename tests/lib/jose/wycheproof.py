"""Project Wycheproof's test vectors: signatures, keys and tokens that verifiers got wrong before."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.settings import DATA

FOLDER = DATA / "wycheproof" if DATA else None
"""The folder of the vectors. None if the data are missing."""

needs_vectors = pytest.mark.skipif(FOLDER is None, reason="Wycheproof's vectors are not here; set MCP_REF_DATA")


def vectors(name: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield each test of a file, with its group, which holds the key."""
    assert FOLDER is not None
    for group in json.loads((FOLDER / f"{name}_test.json").read_text("utf-8"))["testGroups"]:
        for test in group["tests"]:
            yield group, test


def verdicts(name: str, verify: Callable[[dict[str, Any], dict[str, Any]], bool]) -> tuple[int, int]:
    """Verify each test of a file by its group and its test. Return how many signatures are valid and invalid.

    Fail if one of them is valid where Wycheproof says otherwise.
    """
    counts = Counter[bool]()
    for group, test in vectors(name):
        is_valid = verify(group, test)
        counts[is_valid] += 1
        assert is_valid == (test["result"] == "valid"), test
    return counts[True], counts[False]
