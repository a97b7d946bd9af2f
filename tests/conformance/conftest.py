"""The official conformance suite, which is one of the peers: see tests/installed_peers.py."""

import json
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.installed_peers import peers
from tests.settings import ROOT

__all__ = ["peers"]

SECONDS = 120
"""Time limit for a whole run of the suite, in seconds."""

CHECKED = {"SUCCESS", "FAILURE", "WARNING", "SKIPPED"}
"""A check is one of these; INFO is the suite's diary."""


@dataclass
class Outcome:
    """The results of the suite."""

    said: str
    passed: Counter[str] = field(default_factory=Counter)
    """Number of passed checks, by scenario."""
    others: list[str] = field(default_factory=list)
    """The checks that were not passed."""


Suite = Callable[..., Outcome]


@pytest.fixture
def suite(peers: Path, tmp_path: Path) -> Suite:
    """Run `conformance ARGUMENTS` and read the results that it saves. All checks must pass.

    unmet: how many checks of which scenarios are not passed; said where it is given, with the reason.
    """
    programs = peers / "node_modules/.bin"

    def run(*arguments: str, unmet: Mapping[str, int] | None = None) -> Outcome:
        ran = subprocess.run(
            [programs / "node", programs / "conformance", *arguments, "--output-dir", tmp_path],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        outcome = Outcome(ran.stdout + ran.stderr)
        for file in tmp_path.glob("**/checks.json"):
            scenario = file.parent.name.removeprefix("server-")[: -len("-2025-11-25T00-00-00-000Z")]
            outcome.passed[scenario] += 0
            for check in json.loads(file.read_text("utf-8")):
                if check["status"] == "SUCCESS":
                    outcome.passed[scenario] += 1
                elif check["status"] in CHECKED:
                    outcome.others.append(f"{scenario}: {check['id']} {check['status']} {check.get('errorMessage')}")
        assert Counter(other.partition(":")[0] for other in outcome.others) == (unmet or {}), outcome.others
        assert ran.returncode == 0, outcome.said
        return outcome

    return run
