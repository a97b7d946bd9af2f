"""The official conformance suite, which is one of the peers: see tests/installed_peers.py."""

import json
import re
import subprocess
import tempfile
import threading
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

LISTENS = "Callback server started"
"""The line of the suite after which it listens for the user's browser."""

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
    browse: a function that opens the URL that the suite prints for its user.
    judge: False to return the outcome without the checks of the lines above.
    """
    programs = peers / "node_modules/.bin"

    def run(
        *arguments: str, unmet: Mapping[str, int] | None = None, browse: Callable[[str], object] | None = None,
        judge: bool = True,
    ) -> Outcome:  # fmt: skip
        outcome = Outcome("")
        results = tempfile.mkdtemp(dir=tmp_path)
        with subprocess.Popen(
            [programs / "node", programs / "conformance", *arguments, "--output-dir", results],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as ran:
            timer = threading.Timer(SECONDS, ran.kill)
            timer.start()
            try:
                assert ran.stdout is not None
                for line in ran.stdout:
                    outcome.said += line
                    if browse is not None and line.startswith(LISTENS):  # it has printed the URL before
                        browse(re.findall(r"^http\S+", outcome.said, re.MULTILINE)[-1])
            except BaseException:
                ran.kill()
                raise
            finally:
                timer.cancel()
        for file in Path(results).glob("**/checks.json"):
            scenario = file.parent.name.removeprefix("server-")[: -len("-2025-11-25T00-00-00-000Z")]
            outcome.passed[scenario] += 0
            for check in json.loads(file.read_text("utf-8")):
                if check["status"] == "SUCCESS":
                    outcome.passed[scenario] += 1
                elif check["status"] in CHECKED:
                    outcome.others.append(f"{scenario}: {check['id']} {check['status']} {check.get('errorMessage')}")
        if not judge:
            return outcome
        assert Counter(other.partition(":")[0] for other in outcome.others) == (unmet or {}), outcome.others
        assert ran.returncode == 0, outcome.said
        return outcome

    return run
