"""Recordings of other projects' programs, and the true faults that they are known to have: `foreign_faults.json`.

A person has read each of these findings, together with the source of the program where the messages left a doubt.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mcp_ref.check.rules import ADVICE
from mcp_ref.cli.check import judge_file
from tests.recorder.recordings import events_of

FAULTS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("foreign_faults.json").read_text("utf-8"))


def known_faults(*programs: str) -> set[str]:
    """Return the faults of these programs, such as "server: response_id"."""
    return {f"{fault['side']}: {fault['rule']}" for fault in FAULTS if fault["program"] in programs}


def faults_in(recording: Path) -> set[str]:
    """Return the broken rules of a recording. A server that is started twice has two files."""
    found: set[str] = set()
    files = list(recording.parent.glob(f"{recording.stem}*{recording.suffix}"))
    assert files, f"{recording} was not written"
    for file in files:
        assert events_of(file)  # waits until the recorder has written everything
        found |= {f"{each.side}: {each.rule.name}" for each in judge_file(str(file))[0] if each.level != ADVICE}
    return found
