"""Our client against the suite: client.py does what each scenario asks for.

These are the client scenarios that need no authorization.
"""

import sys

import pytest

from tests.conformance.conftest import Suite

COMMAND = f"{sys.executable} -m tests.conformance.client"

SKIPPED = {"http-standard-headers": 2}
"""Number of skipped checks, by scenario. They check the headers of a handshake, which the client does not send here."""


@pytest.mark.parametrize(
    ("scenario", "revision", "checks"),
    [
        ("initialize", "2025-06-18", 1),
        ("initialize", "2025-11-25", 1),
        ("tools_call", "2025-06-18", 2),
        ("tools_call", "2025-11-25", 2),
        ("elicitation-sep1034-client-defaults", "2025-11-25", 5),
        ("sse-retry", "2025-11-25", 3),
        ("json-schema-2020-12-preservation", "2025-11-25", 9),
        ("request-metadata", "2026-07-28", 8),
        ("tools_call", "2026-07-28", 2),
        ("sep-2322-client-request-state", "2026-07-28", 5),
        ("http-standard-headers", "2026-07-28", 9),
        ("http-custom-headers", "2026-07-28", 18),
        ("http-invalid-tool-headers", "2026-07-28", 12),
        ("json-schema-ref-no-deref", "2026-07-28", 1),
        ("json-schema-2020-12-preservation", "2026-07-28", 9),
    ],
)
def test_the_client_passes_every_check(suite: Suite, scenario: str, revision: str, checks: int) -> None:
    unmet = {scenario: SKIPPED[scenario]} if scenario in SKIPPED else {}
    outcome = suite("client", "--command", COMMAND, "--scenario", scenario, "--spec-version", revision, unmet=unmet)
    assert outcome.passed == {scenario: checks}, outcome.said
