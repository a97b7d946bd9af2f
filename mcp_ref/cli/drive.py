"""`check -- COMMAND` and `check URL` use a server gently in each revision, and print its features and its faults.

    everything 1.0
    2026-07-28  40 tools (1 called), 3 resources (3 read), 1 template, 5 prompts (2 got)
                refuses unknown method (-32601), unknown tool (-32602), wrong cursor (-32602)
    2025-11-25  the same
    no finding in 233 messages

`check --as-test FILE` prints a recording as a pytest module.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Final
from xml.sax.saxutils import quoteattr

from ..check.conversation import Conversation
from ..check.recording import Event, Frame, HttpBody, HttpEvent, HttpRequest, parse_head
from ..check.rules import ADVICE, MUST, Finding
from ..jsonrpc.errors import McpError
from ..jsonrpc.messages import JSON, Object
from ..lib.text import escape_hidden
from ..recorder.as_test import to_test
from ..recorder.drive import DriveOptions, Report, Visit, drive
from ..recorder.exchanges import Cassette
from ..revisions import REVISIONS, revision_named
from . import UsageError, usage_errors
from .client_commands import parse_server, report_failure
from .recordings import read_recording
from .show import as_json, note, out
from .values import parse_headers

SHOWN_PROOF: Final = 200
"""Maximum length of a quoted message, in characters."""
DEFAULT_SECONDS: Final = 10.0
"""Time limit of each request of a drive, in seconds."""


def run_drive(options: argparse.Namespace) -> int:
    """Use a server, and judge it. Return 1 if it broke a MUST or accepted a wrong request."""
    server = parse_server(options.command)
    with usage_errors():
        revisions = REVISIONS if options.revision is None else [revision_named(options.revision)]
        chosen = DriveOptions(
            _calls(options.call), options.timeout or DEFAULT_SECONDS, parse_headers(options.header), revisions
        )
    try:
        report = asyncio.run(drive(server, chosen))
    except McpError as error:
        return report_failure(3, error)
    findings = judge(report)
    if options.junit is not None:
        _write_junit(options.junit, report, findings)
    if options.json:
        as_json(to_json(report, findings))
    else:
        show_report(report, findings, options.advice)
    is_wrong = any(finding.level == MUST for finding in findings) or any(visit.accepted for visit in report.visits)
    return 1 if is_wrong else 0


def _calls(words: Iterable[str]) -> dict[str, Object]:
    calls = {}
    for word in words:
        name, _, text = word.partition("=")
        try:
            arguments = json.loads(text or "{}")
        except ValueError as error:
            raise UsageError(f"--call {name}: the arguments are not JSON: {error}") from None
        if not isinstance(arguments, dict):
            raise UsageError(
                f"--call {name}: write the arguments as a JSON object, such as --call '{name}={{\"a\": 1}}'"
            )
        calls[name] = arguments
    return calls


def judge(report: Report) -> list[Finding]:
    """Return the findings about the server. Those about the client are left out, because a drive breaks rules."""
    conversation = Conversation(head=report.head)
    findings = [finding for event in report.events for finding in conversation.receive(event)]
    findings += conversation.close()
    return [finding for finding in findings if finding.side != "client"]


def show_report(report: Report, findings: Sequence[Finding], with_advice: bool) -> None:
    """Print the report for a person."""
    out(next(visit.server for visit in report.visits if not visit.refusal))
    last: list[str] = []
    for visit in report.visits:
        lines = _visit_lines(visit)
        shown = ["the same"] if lines == last and not visit.refusal else lines
        out(f"{visit.revision}  " + f"\n{'':12}".join(shown))
        last = lines
    if report.advice:
        out("\ndefinitions that models or hosts misread:\n  " + "\n  ".join(report.advice))
    shown_findings = [finding for finding in findings if with_advice or finding.level != ADVICE]
    for finding in shown_findings:
        show_finding(finding, report.events)
    messages = sum(isinstance(event, Frame | HttpRequest | HttpBody | HttpEvent) for event in report.events)
    hidden = len(findings) - len(shown_findings)
    more = f"; {hidden} more with --advice" if hidden else ""
    number = f"findings: {len(shown_findings)}" if shown_findings else "no finding"
    out(f"\n{number} in {messages} messages{more}")


def _visit_lines(visit: Visit) -> list[str]:
    if visit.refusal:
        return [f"not spoken: {visit.refusal}"]
    lines = [", ".join(visit.worked) or "connects, and offers nothing"]
    lines += [f"refuses {', '.join(visit.refused)}"] if visit.refused else []
    lines += [f"ERROR: accepts {text}" for text in visit.accepted]
    return [*lines, *(f"failed: {text}" for text in visit.failed)]


def show_finding(finding: Finding, events: Sequence[Event]) -> None:
    """Print one finding: the sentence, its proof and the way to repair it."""
    times = f", {finding.times} times" if finding.times > 1 else ""
    out(f"\n{finding.level}  {finding.text}")
    out(f"    rule: {finding.rule.id} ({finding.rule.meaning.rstrip('.')}){times}")
    for number in finding.events[:2]:
        if 0 < number <= len(events):
            out(f"    event {number}: {_proof(events[number - 1])}")
    out(f"    to do: {finding.fix}")


def _proof(event: Event) -> str:
    if isinstance(event, Frame | HttpBody | HttpEvent):
        text = event.content.data.decode("utf-8", "backslashreplace")
    elif isinstance(event, HttpRequest):
        text = f"{event.method} {event.target} {event.content.data.decode('utf-8', 'backslashreplace')}"
    else:
        text = repr(event)
    return text if len(text) <= SHOWN_PROOF else f"{text[:SHOWN_PROOF]}..."


def to_json(report: Report, findings: Sequence[Finding]) -> JSON:
    """Return the report as JSON."""
    visits: list[JSON] = [dataclasses.asdict(visit) for visit in report.visits]
    found: list[JSON] = [
        {"rule": finding.rule.id, "level": finding.level, "side": finding.side, "events": list(finding.events),
         "text": finding.text, "fix": finding.fix, "revision": finding.revision, "times": finding.times}
        for finding in findings
    ]  # fmt: skip
    advice: list[JSON] = [*report.advice]
    return {"visits": visits, "definitions": advice, "findings": found, "events": len(report.events)}


def _write_junit(path: str, report: Report, findings: Sequence[Finding]) -> None:
    """Write a JUnit file: a case for each use of the server, and one for each finding."""
    cases = list[str]()
    for visit in (visit for visit in report.visits if not visit.refusal):
        right = [*visit.worked, *(f"refuses {text}" for text in visit.refused)]
        cases += [_case(visit.revision, text, "") for text in right]
        cases += [_case(visit.revision, text.partition(": ")[0], text) for text in visit.accepted]
    # the name of a case is the rule, so that a CI server knows the case again; failed uses are not errors
    cases += [_case(finding.rule.id, finding.rule.name, f"{finding.text} {finding.fix}")
              for finding in findings if finding.level == MUST]  # fmt: skip
    failures = sum("<failure" in case for case in cases)
    head = f'<testsuite name="mcp_ref check" tests="{len(cases)}" failures="{failures}">'
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(['<?xml version="1.0" encoding="utf-8"?>', head, *cases, "</testsuite>"]) + "\n")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def _case(group: str, name: str, fault: str) -> str:
    attributes = f"classname={quoteattr(group)} name={quoteattr(escape_hidden(name, keep=''))}"
    if not fault:
        return f"  <testcase {attributes}/>"
    return f"  <testcase {attributes}><failure message={quoteattr(escape_hidden(fault, keep=''))}/></testcase>"


def show_as_test(options: argparse.Namespace) -> int:
    """Print a recording as a pytest module."""
    cassette = Cassette(read_recording(options.file))
    with open(options.file, "rb") as file:
        head = parse_head(file.readline())
    sys.stdout.write(to_test(os.path.basename(options.file), head, cassette.revision, cassette.requests))
    note("the module needs pytest, and the server in its line SERVER")
    return 0
