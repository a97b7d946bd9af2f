"""The data to which citations of the specification must lead. `mcp_ref/cli/citations.py` finds the citations."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from mcp_ref.cli.citations import Citation, bracketed, citations_in, spec_section
from tests.settings import DATA, ROOT

REVISIONS = ("2024-10-07", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")

EXTENSIONS = {
    "io.modelcontextprotocol/tasks", "SEP-2663",
    "io.modelcontextprotocol/oauth-client-credentials", "SEP-1046",
    "io.modelcontextprotocol/enterprise-managed-authorization", "SEP-990",
    "io.modelcontextprotocol/auth/wif", "SEP-1933",
    "io.modelcontextprotocol/auth/dpop", "SEP-1932",
}  # fmt: skip
"""The extensions that are cited, and the proposals that define them."""


def files() -> list[Path]:
    """Return the files with citations."""
    return [*sorted((ROOT / "mcp_ref").rglob("*.py")), *sorted((ROOT / "examples").glob("*.py")), ROOT / "README.md"]


def citations(path: Path) -> Iterator[Citation]:
    """Yield all citations of a file. Raise ValueError for one of another form, or of an unknown extension."""
    name, text = path.relative_to(ROOT).as_posix(), path.read_text("utf-8")
    yield from citations_in(name, text) if path.suffix == ".py" else bracketed(name, text)
    for word in re.findall(r"io\.modelcontextprotocol/[\w/-]+|SEP-\d+", spec_section(text)):
        if word not in EXTENSIONS:
            raise ValueError(f"{name}: {word} is not in EXTENSIONS")


@cache
def _headings() -> dict[str, set[str]]:
    """Return the headings under which requirements.json has sentences, by `REVISION page`."""
    assert DATA is not None
    found: dict[str, set[str]] = {}
    for row in json.loads((DATA / "requirements.json").read_text("utf-8")):
        revision, _, page = row["page"].partition("/")
        found.setdefault(f"{revision} {page}", set()).add(row["anchor"])
    return found


@cache
def _types(revision: str) -> set[str]:
    assert DATA is not None
    path = DATA / "mcp-schema" / revision / "schema.json"
    if not path.is_file():
        return set()
    schema = json.loads(path.read_text("utf-8"))
    return set(schema.get("$defs") or schema["definitions"])


def resolve(citation: Citation) -> set[str]:
    """Return the headings or pages that a citation is about and that the data know: empty if it does not resolve."""
    found = set()
    for revision in citation.revisions:
        where = f"{revision} {citation.page}"
        if citation.page == "schema":
            if citation.anchor is None or citation.anchor in _types(revision):
                found.add(where)
        elif citation.anchor is None:
            if where in _headings() or where in PAGES_WITHOUT_REQUIREMENTS:
                found.add(where)
        elif (
            is_in_requirements(f"{where}#{citation.anchor}")
            or f"{where}#{citation.anchor}" in HEADINGS_WITHOUT_REQUIREMENTS
        ):
            found.add(f"{where}#{citation.anchor}")
    return found


def is_in_requirements(text: str) -> bool:
    """Return True if requirements.json has the page or heading `REVISION page#heading`."""
    where, _, anchor = text.partition("#")
    return where in _headings() and (not anchor or anchor in _headings()[where])


PAGES_WITHOUT_REQUIREMENTS = {
    *(f"{revision} architecture/index" for revision in REVISIONS[1:]),
    "2026-07-28 server/index",
}
"""The cited pages of the specification on which no sentence demands anything."""

HEADINGS_WITHOUT_REQUIREMENTS = {
    "2026-07-28 index#key-principles",
    "2026-07-28 basic/authorization/index#access-token-usage",
    "2026-07-28 basic/authorization/index#authorization-flow-steps",
    "2024-11-05 basic/transports#http-with-sse",
    "2025-03-26 changelog#major-changes",
    "2025-06-18 basic/index#_meta",
    "2025-06-18 changelog#major-changes",
    "2025-11-25 basic/index#_meta",
    "2025-11-25 basic/lifecycle#shutdown",
    "2025-11-25 basic/transports#backwards-compatibility",
    "2025-11-25 changelog#major-changes",
    "2025-11-25 changelog#minor-changes",
    "2025-11-25 client/elicitation#response-actions",
    "2025-11-25 server/resources#subscriptions",
    "2025-11-25 server/utilities/completion#completion-results",
    "2026-07-28 basic/index#_meta",
    "2026-07-28 basic/transports/streamable-http#request-metadata",
    "2026-07-28 basic/versioning#terminology",
    "2026-07-28 changelog#deprecated",
    "2026-07-28 server/prompts#data-types",
    "2026-07-28 server/resources#annotations",
    "2026-07-28 server/tools#tool-result",
    "2026-07-28 server/utilities/caching#interaction-with-notifications",
}
"""The cited headings of the specification under which no sentence demands anything."""
