"""examples/everything.py, in one revision, against the suite through a bridge. The failures are predicted as data.

Any other failure is a bug of the bridge, and so is an unexpected pass. The scenarios of tasks are not compared for
servers of revisions without tasks.
"""

import contextlib
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.conformance.conftest import Suite
from tests.conformance.test_server import EVERYTHING
from tests.server_programs import Program, serving
from tests.settings import COMBINATIONS, ROOT

NO_ENUMS = {"elicitation-sep1330-enums": 1}
"""Titled and multiple choice do not exist before 2025-11-25, so the tool of the example fails."""
NO_ELICITATION = {**NO_ENUMS, "tools-call-elicitation": 1, "elicitation-sep1034-defaults": 1}
NO_AUDIO = {**NO_ELICITATION, "tools-call-audio": 1}
"""Audio becomes text before 2025-03-26."""
NO_KEYS = {
    "input-required-result-basic-elicitation": 1,
    "input-required-result-ignore-extra-params": 1,
    "server-stateless": 2,
}
"""A request of a legacy server has no key `user_name`. And a legacy tool fails without the code -32021."""
WRAPPED_TASKS = {"tasks-mrtr-composition": 1, "tasks-required-task-error": 1}
"""A tool of 2025-11-25 can ask only within its task. And the bridge itself waits for the task that a tool requires."""
NO_REPORTS = {"tasks-status-notifications": 1}
"""The suite skips this scenario."""

PREDICTED: list[tuple[str, str, dict[str, int]]] = [
    ("2026-07-28", "2025-11-25", {}),
    ("2025-11-25", "2025-11-25", {}),
    ("2025-06-18", "2025-11-25", NO_ENUMS),
    ("2025-03-26", "2025-11-25", NO_ELICITATION),
    ("2024-11-05", "2025-11-25", NO_AUDIO),
    ("2024-10-07", "2025-11-25", {**NO_AUDIO, "tools-call-error": 1}),
    ("2026-07-28", "2026-07-28", NO_REPORTS),
    ("2025-11-25", "2026-07-28", {**NO_KEYS, **WRAPPED_TASKS, **NO_REPORTS}),
    ("2025-06-18", "2026-07-28", NO_KEYS),
]
"""The revision of the server, the requirements for the client's side, and the number of unmet checks by scenario."""

IN_SHORT = ("2024-11-05", "2025-11-25"), ("2025-11-25", "2026-07-28")
"""The rows that run without MCP_REF_COMBINATIONS=all: one for each mixed kind."""

RUNS = 2
"""The suite waits 500 ms for some answers, which a bridge on a busy machine can miss. A fault fails each run."""


@contextlib.contextmanager
def bridging(url: str) -> Iterator[str]:
    """Run a bridge to the server at a URL. Yield the URL of the bridge."""
    command = [sys.executable, "-m", "mcp_ref", "bridge", "--http", "--port", "0", url]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            yield Program(process).line().rpartition(" ")[2].strip()
        finally:
            process.kill()


@pytest.mark.parametrize(("back", "requirements", "unmet"), PREDICTED)
def test_bridge_has_only_the_predicted_failures(
    suite: Suite, back: str, requirements: str, unmet: dict[str, int]
) -> None:
    if COMBINATIONS != "all" and (back, requirements) not in IN_SHORT:
        pytest.skip("MCP_REF_COMBINATIONS=all runs it")
    with serving(EVERYTHING, "--revision", back) as program, bridging(program.url) as url:
        for _ in range(RUNS):
            outcome = suite("server", "--url", url, "--requirements", requirements, judge=False)
            found = Counter(other.partition(":")[0] for other in outcome.others)
            if back < "2025-11-25":
                found = Counter({name: count for name, count in found.items() if not name.startswith("tasks-")})
            if found == unmet:
                break
    assert found == unmet, "\n".join(outcome.others)
    assert len(outcome.passed) >= 32, outcome.said
