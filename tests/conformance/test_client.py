"""Our client against the suite: client.py does what each scenario asks for.

These are the client scenarios of 2025-11-25 that need no authorization.
"""

import sys

import pytest

from tests.conformance.conftest import Suite

COMMAND = f"{sys.executable} -m tests.conformance.client"


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
    ],
)
def test_the_client_passes_every_check(suite: Suite, scenario: str, revision: str, checks: int) -> None:
    outcome = suite("client", "--command", COMMAND, "--scenario", scenario, "--spec-version", revision)
    assert outcome.passed == {scenario: checks}, outcome.said
