"""Each normative sentence of the specification has a rule in mcp_ref/check/, or a reason why nobody can observe it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter

import pytest

from mcp_ref.check.rules import RULES, read_sentences
from tests.check.foreign import FAULTS
from tests.settings import DATA, ROOT

COUNTS = {"rules": 180, "sentences with a rule": 699, "sentences without": 1260}
"""Numbers of rules, and of sentences of five revisions. A sentence that several revisions share counts in each."""


@pytest.mark.skipif(DATA is None, reason="needs requirements.json")
def test_each_sentence_has_a_rule_or_a_reason() -> None:
    assert DATA is not None
    requirements = json.loads((DATA / "requirements.json").read_text("utf-8"))
    latest = {each["hash"]: each["id"] for each in requirements}
    sentences = read_sentences()
    assert {*sentences.rules, *sentences.reasons} == set(latest.values())
    assert not sentences.rules.keys() & sentences.reasons.keys()
    assert sentences.fixes.keys() == {rule.name for rule in RULES}
    has_rule = Counter(latest[each["hash"]] in sentences.rules for each in requirements)
    counts = {"rules": len(RULES), "sentences with a rule": has_rule[True], "sentences without": has_rule[False]}
    print(counts)
    assert counts == COUNTS


@pytest.mark.skipif(DATA is None, reason="needs requirements.json")
def test_the_id_of_a_rule_is_a_sentence_with_a_rule_or_a_type_of_the_schema() -> None:
    sentences = read_sentences()
    for rule in RULES:
        if not rule.id.startswith("schema/"):
            assert rule.id in sentences.rules, f"{rule.name}: {rule.id} is not listed"


def test_plain_server_and_client_load_no_module_of_check_or_recorder() -> None:
    program = (
        "import asyncio, sys, mcp_ref\n"
        "async def main():\n"
        "    async with mcp_ref.Client(mcp_ref.Server('s')) as client:\n"
        "        pass\n"
        "asyncio.run(main())\n"
        "print([name for name in sys.modules if name.startswith(('mcp_ref.check', 'mcp_ref.recorder'))])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, cwd=ROOT, check=True
    )
    assert done.stdout.strip() == "[]"


def test_faults_of_other_programs_name_rules() -> None:
    assert {fault["rule"] for fault in FAULTS} <= {rule.name for rule in RULES}
