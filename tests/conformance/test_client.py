"""Our client against the suite: client.py does what each scenario asks for, and authorization.py signs in."""

from pathlib import Path

import pytest

from tests.check.foreign import faults_in, known_faults
from tests.conformance import authorization
from tests.conformance.conftest import Suite
from tests.forked_python import forking_script


@pytest.fixture
def command(tmp_path: Path) -> str:
    """Return the command that starts the client, by a fork."""
    forking_script(tmp_path)
    return f"{tmp_path / 'python3'} -m tests.conformance.client"


SKIPPED = {"http-standard-headers": 2}
"""Number of skipped checks, by scenario. They check the headers of a handshake, which the client does not send here."""

TESTED = {
    "request-metadata": {"server: supported_is_listed"},
    "sep-2322-client-request-state": {"server: result_type"},
    "http-invalid-tool-headers": {"server: parameter_header_names"},
}
"""Rules that the suite's server breaks on purpose, by scenario."""


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
def test_client_with_a_recorder_in_between_passes_every_check_and_breaks_no_rule(
    suite: Suite, command: str, scenario: str, revision: str, checks: int, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    file = tmp_path / "talk.jsonl"
    monkeypatch.setenv("MCP_CONFORMANCE_RECORDING", str(file))
    unmet = {scenario: SKIPPED[scenario]} if scenario in SKIPPED else {}
    outcome = suite("client", "--command", command, "--scenario", scenario, "--spec-version", revision, unmet=unmet)
    assert outcome.passed == {scenario: checks}, outcome.said
    assert faults_in(file) - known_faults("@modelcontextprotocol/conformance") == TESTED.get(scenario, set())


CHECKS = {
    "2026-07-28": [18, 18, 18, 18, 12, 14, 14, 14, 25, 11, 19, 19, 19, 13, 2, 12, 14, 27, 14, 14, 8, 8, 8, 8, 3],
    "2025-11-25": [19, 19, 19, 19, 14, 15, 15, 15, 23, 10, 20, 20, 20, 15],
    "2025-06-18": [20, 20, 20],
    "2025-03-26": [13, 8],
}
"""The number of checks of each authorization scenario. One of them is repeated for each request."""


@pytest.mark.parametrize(
    ("revision", "scenario", "checks"),
    [
        (revision, scenario, checks)
        for revision, scenarios in authorization.SCENARIOS_OF.items()
        for scenario, checks in zip(scenarios, CHECKS[revision], strict=True)
    ],
)
def test_client_passes_every_check_of_authorization(
    suite: Suite, command: str, revision: str, scenario: str, checks: int
) -> None:
    outcome = suite("client", "--command", command, "--scenario", scenario, "--spec-version", revision)
    assert outcome.passed.total() == checks, outcome.said


@pytest.mark.parametrize(("scenario", "checks"), [*zip(authorization.EXTENSIONS, (9, 9, 10, 12, 14, 9), strict=True)])
def test_client_passes_every_check_of_authorization_extensions(
    suite: Suite, command: str, scenario: str, checks: int
) -> None:
    outcome = suite("client", "--command", command, "--scenario", scenario)
    assert outcome.passed.total() == checks, outcome.said
