"""`toc` prints the pages of the specification, the modules that implement them, and the lines that cite them.

    toc                                     all pages, with their modules
    toc server/tools 2025-11-25             the places that cite a page, by heading, here for one revision
    toc server/tools#tool-names             the places that cite one heading
    toc --search redirect                   the citations with a word in their text or in the sentence that they support

The modules of a page come from the table `PAGES`, which tests compare with the pages of the specification and with the
package. The citations are read from the source of the package.
"""

from __future__ import annotations

import importlib.resources
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from .. import READING_ORDER
from ..jsonrpc.messages import JSON
from ..revisions import (
    LEGACY,
    R2024_11_05,
    R2025_03_26,
    R2025_06_18,
    R2025_11_25,
    R2026_07_28,
    REVISIONS,
    Revision,
    revision_named,
)
from . import UsageError, did_you_mean, show, usage_errors
from .citations import Citation, citations_in

MAX_SENTENCE = 150
"""Maximum length of a sentence in a table, in characters."""

RELEASED = REVISIONS[1:]
"""The revisions with a published specification. 2024-10-07 has only a schema."""

FROM_2025_03_26 = REVISIONS[REVISIONS.index(R2025_03_26) :]
FROM_2025_06_18 = REVISIONS[REVISIONS.index(R2025_06_18) :]
WITH_HANDSHAKE = LEGACY[LEGACY.index(R2024_11_05) :]
LEGACY_FROM_2025_03_26 = LEGACY[LEGACY.index(R2025_03_26) :]
ONLY_2024_11_05 = (R2024_11_05,)
ONLY_2025_11_25 = (R2025_11_25,)
MODERN = (R2026_07_28,)


@dataclass(frozen=True, slots=True)
class Page:
    """One page of the specification: its path, the revisions that have the page, and the modules that implement it."""

    path: str
    revisions: tuple[Revision, ...]
    modules: tuple[str, ...]


PAGES = (
    Page("index", RELEASED, ("__init__.py",)),
    Page("architecture/index", RELEASED, ("host/",)),
    Page("changelog", FROM_2025_03_26, ("revisions.py",)),
    Page("deprecated", MODERN, ("revisions.py",)),
    Page("schema", FROM_2025_06_18, ("revisions.py", "codec.py")),
    Page("basic/index", RELEASED, ("jsonrpc/messages.py", "jsonrpc/dispatcher.py", "basic/meta.py")),
    Page("basic/messages", ONLY_2024_11_05, ("jsonrpc/messages.py",)),
    Page("basic/lifecycle", WITH_HANDSHAKE, ("basic/lifecycle.py", "session.py", "server/session.py",
         "server/catalog.py", "client/negotiation.py")),
    Page("basic/versioning", MODERN, ("basic/versioning.py", "client/negotiation.py", "server/stateless.py")),
    Page("basic/transports", WITH_HANDSHAKE, ("transports/stdio/", "transports/streamable_http/",
         "transports/http_sse/")),
    Page("basic/transports/index", MODERN, ("transports/base.py",)),
    Page("basic/transports/stdio", MODERN, ("transports/stdio/",)),
    Page("basic/transports/streamable-http", MODERN, ("transports/streamable_http/checks.py",
         "transports/streamable_http/stateless.py", "transports/streamable_http/stateless_client.py",
         "basic/headers.py")),
    Page("basic/authorization", LEGACY_FROM_2025_03_26, ("basic/authorization/", "extensions/auth/")),
    Page("basic/authorization/index", MODERN, ("basic/authorization/challenges.py", "basic/authorization/addresses.py",
         "basic/authorization/authorization_code.py", "basic/authorization/loopback.py",
         "basic/authorization/token_endpoint.py", "basic/authorization/sign_in.py",
         "basic/authorization/client.py", "basic/authorization/server.py", "basic/authorization/verifiers.py",
         "basic/authorization/errors.py", "extensions/auth/")),
    Page("basic/authorization/authorization-server-discovery", MODERN, ("basic/authorization/metadata.py",
         "basic/authorization/authorization_server_discovery.py")),
    Page("basic/authorization/client-registration", MODERN, ("basic/authorization/client_registration.py",)),
    Page("basic/authorization/security-considerations", MODERN, ("basic/authorization/addresses.py",
         "basic/authorization/authorization_code.py", "basic/authorization/store.py",
         "basic/authorization/verifiers.py")),
    Page("basic/utilities/cancellation", WITH_HANDSHAKE, ("basic/cancellation.py",)),
    Page("basic/utilities/ping", WITH_HANDSHAKE, ("basic/ping.py",)),
    Page("basic/utilities/progress", WITH_HANDSHAKE, ("basic/progress.py",)),
    Page("basic/utilities/tasks", ONLY_2025_11_25, ("extensions/tasks/",)),
    Page("basic/patterns/index", MODERN, ("basic/mrtr.py", "basic/subscriptions.py")),
    Page("basic/patterns/cancellation", MODERN, ("basic/cancellation.py",)),
    Page("basic/patterns/mrtr", MODERN, ("basic/mrtr.py", "server/stateless.py", "client/session.py")),
    Page("basic/patterns/progress", MODERN, ("basic/progress.py",)),
    Page("basic/patterns/subscriptions", MODERN, ("basic/subscriptions.py", "server/subscriptions.py",
         "client/subscriptions.py")),
    Page("server/index", RELEASED, ("features/__init__.py",)),
    Page("server/discover", MODERN, ("features/discover.py", "server/catalog.py")),
    Page("server/prompts", RELEASED, ("features/prompts.py",)),
    Page("server/resources", RELEASED, ("features/resources.py",)),
    Page("server/tools", RELEASED, ("features/tools.py", "features/registered_tools.py", "client/tools.py")),
    Page("server/utilities/caching", MODERN, ("features/caching.py",)),
    Page("server/utilities/completion", RELEASED, ("features/completion.py",)),
    Page("server/utilities/logging", RELEASED, ("features/logging.py",)),
    Page("server/utilities/pagination", RELEASED, ("features/pagination.py",)),
    Page("client/elicitation", FROM_2025_06_18, ("features/elicitation.py", "server/input_requests.py")),
    Page("client/roots", RELEASED, ("features/roots.py", "server/input_requests.py")),
    Page("client/sampling", RELEASED, ("features/sampling.py", "server/input_requests.py")),
)  # fmt: skip
"""The pages of all revisions, in the order of the specification."""


def show_toc(arguments: Sequence[str], search: str | None, json: bool) -> None:
    """Print pages with their modules, or the citations of a page, or those that contain the text `search`.

    `arguments` are the name of a revision, or a page such as `server/tools#tool-names`, or both. Raise UsageError if
    one of them is unknown, or nothing is found.
    """
    names = [argument for argument in arguments if re.match(r"\d{4}-", argument)]
    pages = [argument for argument in arguments if argument not in names]
    if len(names) > 1 or len(pages) > 1:
        raise UsageError(f"expected at most one revision and one page, got {' '.join(arguments)}")
    with usage_errors():
        revisions = [revision_named(names[0])] if names else list(RELEASED)
    if pages or search is not None:
        show_citations(pages[0] if pages else None, search, revisions, json)
    else:
        show_pages(revisions, json)


def show_pages(revisions: Sequence[Revision], json: bool) -> None:
    for revision in revisions:
        if not pages_of(revision):
            raise UsageError(f"{revision} has only a schema, and no pages: try `revisions {revision}`")
    if json:
        tables: dict[str, JSON] = {r.name: {page.path: [*page.modules] for page in pages_of(r)} for r in revisions}
        return show.print_json(tables)
    for revision in revisions:
        no_details = ""  # `show_citations` prints the revisions of a citation here
        rows = [(page.path, no_details, ", ".join(page.modules) or "(not implemented)") for page in pages_of(revision)]
        show.table(revision.name, rows)


def pages_of(revision: Revision) -> list[Page]:
    return [page for page in PAGES if revision in page.revisions]


def show_citations(page: str | None, search: str | None, revisions: Sequence[Revision], json: bool) -> None:
    """Print the places of the package that cite a page, by heading, or the places that contain a text."""
    names = {revision.name for revision in revisions}
    found = [citation for citation in citations() if names.intersection(citation.revisions)]
    if page is not None:
        path, _, heading = page.partition("#")
        found = citations_of_page(path, found)
        if heading:
            found = citations_of_heading(path, heading, found)
    if search is not None:
        found = [each for each in found if search.lower() in f"{each.text} {each.words}".lower()]
        if not found:
            raise UsageError(f"no citation contains {search!r}")
    if json:
        return show.print_json([asdict(citation) for citation in found])

    def page_and_heading(citation: Citation) -> tuple[str, str]:
        return citation.page, citation.anchor or ""

    found.sort(key=page_and_heading)  # a stable sort, so the citations of one heading stay in reading order
    for (path, heading), group in itertools.groupby(found, key=page_and_heading):
        title = f"{path}#{heading}" if heading else path
        show.table(title, [(f"{each.path}:{each.line}", _span(each.revisions), _cut(each.words)) for each in group])


def citations_of_page(path: str, found: list[Citation]) -> list[Citation]:
    """Return the citations of a page. Without any, raise UsageError, which suggests pages."""
    of_page = [citation for citation in found if citation.page == path]
    if of_page:
        return of_page
    cited = sorted({citation.page for citation in found})
    same_end = [name for name in cited if name.endswith(f"/{path}")]
    if same_end:
        advice = f"; did you mean {' or '.join(map(repr, same_end))}?"
    else:
        advice = did_you_mean(path, cited) or "; `toc` without a page lists all pages"
    raise UsageError(f"no module cites the page {path}{advice}")


def citations_of_heading(path: str, heading: str, of_page: list[Citation]) -> list[Citation]:
    """Return the citations of one heading of a page. Without any, raise UsageError, which suggests headings."""
    of_heading = [citation for citation in of_page if citation.anchor == heading]
    if of_heading:
        return of_heading
    cited = sorted({citation.anchor for citation in of_page if citation.anchor})
    raise UsageError(f"no module cites the heading {heading} of {path}{did_you_mean(heading, cited)}")


def citations() -> Iterator[Citation]:
    """Yield the citations of the package, in reading order."""
    package = importlib.resources.files(__package__.rpartition(".")[0])  # this also works in a zip file
    for path in READING_ORDER:
        yield from citations_in(path, package.joinpath(path).read_text("utf-8"))


def _span(revisions: Sequence[str]) -> str:
    return revisions[0] if len(revisions) == 1 else f"{revisions[0]} to {revisions[-1]}"


def _cut(sentence: str) -> str:
    return sentence if len(sentence) <= MAX_SENTENCE else sentence[:MAX_SENTENCE].rpartition(" ")[0] + " ..."
