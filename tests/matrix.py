"""The transports and revisions that a test runs over, as marks."""

from __future__ import annotations

import pytest

from mcp_ref.revisions import LEGACY
from tests.settings import MODERN, SERVER_TRANSPORTS, STATELESS_TRANSPORTS

NAMES = [revision.name for revision in LEGACY]
"""The names of the revisions of the legacy era."""

KINDS = pytest.mark.parametrize("kind", SERVER_TRANSPORTS)
"""Every kind of `raw_client`."""

STATELESS_KINDS = pytest.mark.parametrize("kind", STATELESS_TRANSPORTS)
"""The kinds that 2026-07-28 has."""

CONNECTED_KINDS = pytest.mark.parametrize("kind", ["memory", "stdio"])
"""The kinds on which all messages of 2026-07-28 share one connection."""

EVERY_REVISION = pytest.mark.parametrize("revision", [*NAMES, MODERN])
LEGACY_REVISIONS = pytest.mark.parametrize("revision", NAMES)
LATEST_OF_BOTH_ERAS = pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
