"""The command `toc [REVISION]`: print the pages of the specification, and the modules that implement each page.

Tests compare the table `PAGES` with the pages of the specification and with the modules of the package.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..jsonrpc.messages import JSON
from ..revisions import LEGACY, REVISIONS, Revision, revision_named
from . import UsageError, show, usage_errors

RELEASED = REVISIONS[1:]
"""The revisions with a published specification. 2024-10-07 has only a schema."""

FROM_2025_03_26 = REVISIONS[2:]
FROM_2025_06_18 = REVISIONS[3:]
WITH_HANDSHAKE = LEGACY[1:]
ONLY_2024_11_05 = LEGACY[1:2]
ONLY_2025_11_25 = LEGACY[4:]
WITH_AUTHORIZATION = LEGACY[2:]
MODERN = REVISIONS[5:]


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
    Page("basic/lifecycle", WITH_HANDSHAKE, ("basic/lifecycle.py", "session.py", "client/negotiation.py")),
    Page("basic/versioning", MODERN, ("basic/versioning.py", "client/negotiation.py", "server/stateless.py")),
    Page("basic/transports", WITH_HANDSHAKE, ("transports/stdio/", "transports/streamable_http/",
         "transports/http_sse/")),
    Page("basic/transports/index", MODERN, ("transports/base.py",)),
    Page("basic/transports/stdio", MODERN, ("transports/stdio/",)),
    Page("basic/transports/streamable-http", MODERN, ("transports/streamable_http/checks.py",
         "transports/streamable_http/stateless.py", "transports/streamable_http/stateless_client.py",
         "basic/headers.py")),
    Page("basic/authorization", WITH_AUTHORIZATION, ("basic/authorization/", "extensions/auth/")),
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
    Page("server/discover", MODERN, ("features/discover.py",)),
    Page("server/prompts", RELEASED, ("features/prompts.py",)),
    Page("server/resources", RELEASED, ("features/resources.py",)),
    Page("server/tools", RELEASED, ("features/tools.py", "features/registered_tools.py", "client/tools.py")),
    Page("server/utilities/caching", MODERN, ("features/caching.py",)),
    Page("server/utilities/completion", RELEASED, ("features/completion.py",)),
    Page("server/utilities/logging", RELEASED, ("features/logging.py",)),
    Page("server/utilities/pagination", RELEASED, ("features/pagination.py",)),
    Page("client/elicitation", FROM_2025_06_18, ("features/elicitation.py",)),
    Page("client/roots", RELEASED, ("features/roots.py",)),
    Page("client/sampling", RELEASED, ("features/sampling.py",)),
)  # fmt: skip
"""The pages of all revisions, in the order of the specification."""


def show_toc(name: str | None, json: bool) -> None:
    """Print the pages of one revision, or of every revision, with their modules."""
    with usage_errors():
        revisions = [revision_named(name)] if name is not None else list(RELEASED)
    for revision in revisions:
        if not pages_of(revision):
            raise UsageError(f"{revision} has a schema and no pages: try `revisions {revision}`")
    if json:
        tables: dict[str, JSON] = {r.name: {page.path: [*page.modules] for page in pages_of(r)} for r in revisions}
        return show.as_json(tables)
    for revision in revisions:
        rows = [(page.path, "", ", ".join(page.modules) or "(not implemented)") for page in pages_of(revision)]
        show.table(revision.name, rows)


def pages_of(revision: Revision) -> list[Page]:
    return [page for page in PAGES if revision in page.revisions]
