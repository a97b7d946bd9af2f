"""Reports of findings: for people, and as JSON, JUnit XML and SARIF 2.1.0 for programs.

Used by: cli/check.py, recorder/
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple
from xml.sax.saxutils import escape, quoteattr

from ..jsonrpc.messages import JSON, Object
from ..lib.jsonschema.errors import format_count
from ..lib.text import escape_hidden
from .rules import ADVICE, MUST, SHOULD, Finding, Level, Rule

_LEVEL_WORDS: Final[dict[Level, str]] = {MUST: "error", SHOULD: "warning", ADVICE: "advice"}
_SARIF_LEVELS: Final[dict[Level, str]] = {MUST: "error", SHOULD: "warning", ADVICE: "note"}
_SPECIFICATION: Final = "https://modelcontextprotocol.io/specification/"


def findings_to_show(findings: Sequence[Finding], with_advice: bool) -> list[Finding]:
    """Return the findings for a report, errors first."""
    order = [MUST, SHOULD, ADVICE]
    kept = [finding for finding in findings if with_advice or finding.level != ADVICE]
    return sorted(kept, key=lambda finding: (order.index(finding.level), finding.events))


def link(rule: Rule) -> str:
    """Return the URL of the rule's section in the specification, or "" for a rule that comes from its schema."""
    page, _, sentence = rule.id.partition("#")
    anchor = sentence.rpartition("-")[0]  # the section, without the number of the sentence in it
    return f"{_SPECIFICATION}{page}#{anchor}" if anchor and not page.startswith("schema") else ""


def summary(findings: Sequence[Finding]) -> str:
    """Return a text such as "1 error, 2 warnings, 3 advice"."""
    count = Counter(finding.level for finding in findings)
    words = [format_count(count[level], f"{_LEVEL_WORDS[level]}s") for level in (MUST, SHOULD)]
    if count[ADVICE]:
        words.append(f"{count[ADVICE]} advice")
    return ", ".join(words)


def text_report(
    name: str, findings: Sequence[Finding], events: int, notes: Sequence[str], messages: Mapping[int, str]
) -> list[str]:
    """Return the lines of a report for people.

    Args:
        name: The name of the recording.
        findings: The findings.
        events: Number of all events.
        notes: The sentences that say what could not be verified.
        messages: The messages to quote, by event number. Each proof quotes the message of its last event.
    """
    lines = [f"{name}: {summary(findings)} in {format_count(events, 'events')}"]
    for finding in findings:
        times = f" ({finding.times} times)" if finding.times > 1 else ""
        numbers = ", ".join(str(number) for number in finding.events)
        revision = f", judged by {finding.revision}" if finding.revision else ""
        lines += [
            "",
            f"{_LEVEL_WORDS[finding.level]}: {finding.side}: {finding.text}{times}",
            f"    rule   {finding.rule.meaning} [{finding.rule.id}]",
            f"    proof  event {numbers}{revision}",
        ]
        if finding.events and finding.events[-1] in messages:
            lines.append(f"           {messages[finding.events[-1]]}")
        lines.append(f"    do     {finding.fix}")
    if notes:
        lines += ["", *(f"not verified: {note}" for note in notes)]
    return [escape_hidden(line, keep="") for line in lines]  # a name in a message must not look like another line


def _finding_json(finding: Finding) -> Object:
    return {
        "rule": finding.rule.id, "name": finding.rule.name, "level": finding.level, "side": finding.side,
        "revision": finding.revision or None, "events": [*finding.events], "times": finding.times,
        "text": finding.text, "meaning": finding.rule.meaning, "fix": finding.fix, "page": link(finding.rule) or None,
    }  # fmt: skip


def json_report(name: str, findings: Sequence[Finding], events: int, notes: Sequence[str] = ()) -> Object:
    """Return the findings as JSON."""
    found: list[JSON] = [_finding_json(finding) for finding in findings]
    return {"recording": name, "events": events, "findings": found, "notVerified": [*notes]}


class JUnitCase(NamedTuple):
    """A test case of a JUnit file."""

    group: str
    name: str
    outcome: Literal["passed", "failure", "skipped", "system-out"] = "passed"
    """The element in the test case. `system-out` is a passed case with output."""
    text: str = ""


def junit_report(
    name: str, findings: Sequence[Finding], notes: Sequence[str] = (), tried: Sequence[JUnitCase] = ()
) -> str:
    """Return the findings as JUnit XML: an error is a failed test case; others are passed ones with output.

    Args:
        name: The name of the test suite.
        findings: The findings.
        notes: The sentences that say what could not be verified. Each is a skipped test case.
        tried: The test cases for the features and wrong requests that the check tried. They come before the findings.
    """
    # the name of a case is that of the rule, so that a CI server recognises the case in the next run
    found = [
        JUnitCase(each.rule.id, each.rule.name, "failure" if each.level == MUST else "system-out", _sentence(each))
        for each in findings
    ]
    cases = [*tried, *found] or [JUnitCase(name, "conversation")]  # nothing found: one passed case
    cases += [JUnitCase("not verified", note, "skipped") for note in notes]
    failures = sum(case.outcome == "failure" for case in cases)
    counts = f'tests="{len(cases)}" failures="{failures}" skipped="{len(notes)}"'
    start = f'<?xml version="1.0" encoding="utf-8"?>\n<testsuite name={quoteattr(_printable(name))} {counts}>'
    return "\n".join([start, *map(_junit_case, cases), "</testsuite>"])


def _junit_case(case: JUnitCase) -> str:
    group, name, text = (_printable(each) for each in (case.group, case.name, case.text))
    start = f"  <testcase classname={quoteattr(group)} name={quoteattr(name)}"
    end = f"><{case.outcome}>{escape(text)}</{case.outcome}></testcase>" if case.outcome != "passed" else "/>"
    return start + end


def _printable(text: str) -> str:
    """Return a text without the characters that XML does not allow."""
    return re.sub("[\ufffe\uffff]", "\N{REPLACEMENT CHARACTER}", escape_hidden(text, keep=""))


def _sentence(finding: Finding) -> str:
    return f"{finding.side}: {finding.text}. {finding.fix}"


def sarif_report(name: str, findings: Sequence[Finding], version: str) -> Object:
    """Return the findings as SARIF 2.1.0. Each points to the lines of its events in the recording."""
    rules = {finding.rule.id: finding.rule for finding in findings}
    described: list[JSON] = [
        {
            "id": id,
            "name": rule.name,
            "shortDescription": {"text": rule.meaning},
            "defaultConfiguration": {"level": _SARIF_LEVELS[rule.level]},
            **({"helpUri": link(rule)} if link(rule) else {}),
        }
        for id, rule in rules.items()
    ]
    results: list[JSON] = [_sarif_result(name, finding) for finding in findings]
    driver: Object = {"name": "mcp_ref check", "version": version, "rules": described}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def _sarif_result(name: str, finding: Finding) -> Object:
    lines = [number + 1 for number in finding.events] or [1]  # line 1 is the head of the recording
    places: list[JSON] = [
        {"physicalLocation": {"artifactLocation": {"uri": name}, "region": {"startLine": line}}} for line in lines
    ]
    return {
        "ruleId": finding.rule.id,
        "level": _SARIF_LEVELS[finding.level],
        "message": {"text": _sentence(finding)},
        "locations": places[-1:],  # the latest event completes the proof
        "relatedLocations": places[:-1],
    }
