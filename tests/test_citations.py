"""Every citation of the specification leads to a page, heading or type that exists."""

from __future__ import annotations

from functools import cache

import pytest

from mcp_ref.cli.citations import Citation, bracketed, of_module
from tests.citations import (
    HEADINGS_WITHOUT_REQUIREMENTS,
    PAGES_WITHOUT_REQUIREMENTS,
    citations,
    files,
    is_in_requirements,
    resolve,
)
from tests.settings import DATA

pytestmark = pytest.mark.skipif(DATA is None, reason="the specification's data are not here; set MCP_REF_DATA")


@cache
def _citations() -> tuple[Citation, ...]:
    return tuple(one for path in files() for one in citations(path))


def test_every_citation_resolves() -> None:
    lost = sorted({f"{one.path}: {one.text}" for one in _citations() if not resolve(one)})
    assert not lost, "\n".join(["not a page or heading of that revision (or missing in tests/citations.py):", *lost])


def test_the_lists_of_citations_have_only_what_is_cited_and_missing_in_the_requirements() -> None:
    used = {found for one in _citations() for found in resolve(one)}
    listed = PAGES_WITHOUT_REQUIREMENTS | HEADINGS_WITHOUT_REQUIREMENTS
    assert not listed - used, "not cited"
    assert not {text for text in listed if is_in_requirements(text)}, "in requirements.json"


def test_a_citation_of_another_form_is_an_error() -> None:
    with pytest.raises(ValueError, match="is not"):
        list(bracketed("x.py", "# [2025-11-25 x]"))
    with pytest.raises(ValueError, match="names no page"):
        list(of_module("x.py", '"""A page.\n\nSpec:  nowhere\n"""'))


@pytest.mark.parametrize("page", ["basic/nowhere", "server/tools"])
def test_a_heading_that_does_not_exist_is_not_resolved(page: str) -> None:
    assert not resolve(Citation("x.py", page, ("2025-11-25",), page, "nowhere"))
