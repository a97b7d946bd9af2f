"""Coverage: which rule decides each normative sentence of the specification, or why no observer can decide it.

The file `sentences.txt` lists the sentences by their ids in the list of requirements. A sentence that several revisions
share is listed once, by its id in the latest of them.

Used by: cli/check.py
Below: rules.py
"""

from __future__ import annotations

import importlib.resources
import re
from dataclasses import dataclass, field

from .rules import RULES, Rule


@dataclass(slots=True)
class Coverage:
    """The sentences that rules decide, and the others."""

    rules: dict[str, Rule] = field(default_factory=dict)
    """Id of a sentence -> the rule that decides it."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Id of a sentence -> the reason why no observer can decide it."""


def read_coverage() -> Coverage:
    """Return the lists in `sentences.txt`. Raise ValueError for a rule that does not exist, or an id that is twice."""
    text = importlib.resources.files(__package__).joinpath("sentences.txt").read_text("utf-8")
    rules = {rule.name: rule for rule in RULES}
    coverage, rule, reason = Coverage(), None, ""
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        heading = re.fullmatch(r"\[(rule )?(\w+)\] (.*)", line)
        if heading is not None:
            rule, reason = (_rule_named(rules, heading[2]), "") if heading[1] else (None, heading[3])
            continue
        page, *sentences = line.split()
        for sentence in sentences:
            id = f"{page}#{sentence}"
            if id in coverage.rules or id in coverage.reasons:
                raise ValueError(f"{id} is listed twice")
            if rule is not None:
                coverage.rules[id] = rule
            else:
                coverage.reasons[id] = reason
    return coverage


def _rule_named(rules: dict[str, Rule], name: str) -> Rule:
    if name not in rules:
        raise ValueError(f"the rule {name} does not exist")
    return rules[name]
