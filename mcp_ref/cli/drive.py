"""`check -- COMMAND` and `check URL` use a server in each revision, and print its features and its faults.

    2026-07-28  40 tools (1 called), 3 resources (3 read), 1 template, 5 prompts (2 got)
                refuses unknown method (-32601), unknown tool (-32602), wrong cursor (-32602)
    2025-11-25  the same

    everything 1.0: 0 errors, 0 warnings in 233 events

The command calls only tools that declare that they change nothing, and those of `--call`. It also sends wrong requests
on purpose, such as the call of an unknown tool, which the server has to refuse. `recorder/drive.py` sends the requests
and records the messages, and this module judges and prints them.

`check --as-test FILE` prints a recording as a pytest module.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ..check.conversation import Conversation
from ..check.report import JUnitCase, findings_to_show, json_report, junit_report, text_report
from ..check.rules import MUST, Finding
from ..jsonrpc.errors import McpError
from ..jsonrpc.messages import JSON, Object
from ..lib.text import escape_hidden
from ..recorder.as_test import to_test
from ..recorder.drive import DriveOptions, Report, Visit, drive
from ..recorder.exchanges import Cassette
from ..revisions import REVISIONS, revision_named
from . import EXIT_ERROR, EXIT_NOT_CONNECTED, UsageError, usage_errors
from .check import message_of, write_report
from .client_commands import parse_server, report_failure
from .recorder import read_recording
from .show import note, out, print_json
from .values import parse_headers, parse_json

DEFAULT_SECONDS: Final = 10.0
"""Time limit of each request to the server, in seconds."""


def run_drive(options: argparse.Namespace) -> int:
    """Use a server, and judge it. Return 1 if it broke a MUST or accepted a wrong request."""
    server = parse_server(options.command)
    with usage_errors():
        revisions = REVISIONS if options.revision is None else [revision_named(options.revision)]
        drive_options = DriveOptions(
            _parse_calls(options.call), options.timeout or DEFAULT_SECONDS, parse_headers(options.header), revisions
        )
    package_logger = logging.getLogger(__package__.rpartition(".")[0])
    package_logger.setLevel(logging.ERROR)  # the report also has what the log would warn about
    try:
        report = asyncio.run(drive(server, drive_options))
    except McpError as error:
        return report_failure(EXIT_NOT_CONNECTED, error)
    findings, notes = judge(report)
    findings = findings_to_show(findings, options.advice)
    if options.junit is not None:
        write_report(options.junit, junit_report("mcp_ref check", findings, notes, list(_junit_cases(report.visits))))
    if options.json:
        visits: list[JSON] = [dataclasses.asdict(visit) for visit in report.visits]
        judged = json_report(_server_name(report), findings, len(report.events), notes)
        print_json({"visits": visits, "definitions": [*report.misread_definitions], **judged})
    else:
        show_report(report, findings, notes)
    broke_a_must = any(finding.level == MUST for finding in findings)
    accepted_a_wrong_request = any(visit.accepted for visit in report.visits)
    return EXIT_ERROR if broke_a_must or accepted_a_wrong_request else 0


def _server_name(report: Report) -> str:
    """Return the name and version that the server claims, from the first visit (one per revision) that connected.

    There is such a visit, because `drive` raises McpError otherwise.
    """
    return next(visit.server for visit in report.visits if not visit.refusal)


def _parse_calls(call_options: Iterable[str]) -> dict[str, Object]:
    """Return tool -> arguments for the options `--call TOOL=ARGUMENTS`."""
    calls = {}
    for option in call_options:
        name, _, text = option.partition("=")
        try:
            arguments = parse_json(text or "{}")
        except ValueError as error:
            raise UsageError(f"--call {name}: the arguments are not JSON: {error}") from None
        if not isinstance(arguments, dict):
            raise UsageError(
                f"--call {name}: write the arguments as a JSON object, such as --call '{name}={{\"a\": 1}}'"
            )
        calls[name] = arguments
    return calls


def judge(report: Report) -> tuple[list[Finding], list[str]]:
    """Return the findings about the server, and notes on the parts that were not judged.

    Findings about the client are left out, because it has broken rules on purpose.
    """
    conversation = Conversation(head=report.head)
    findings = list[Finding]()
    for event in report.events:
        findings += conversation.receive(event)
    findings += conversation.close()
    return [finding for finding in findings if finding.side != "client"], [*conversation.unverified]


def show_report(report: Report, findings: Sequence[Finding], notes: Sequence[str]) -> None:
    """Print the report for a person: the features by revision, the definitions, and the findings with their proof."""
    previous_lines: list[str] = []
    for visit in report.visits:
        lines = _visit_lines(visit)
        is_same = lines == previous_lines and not visit.refusal
        text = "the same" if is_same else "\n            ".join(lines)  # each further line begins below the first
        out(f"{visit.revision}  {text}")
        previous_lines = lines
    if report.misread_definitions:
        definitions = [escape_hidden(text, keep="") for text in report.misread_definitions]
        out("\ndefinitions that models or hosts misread:\n  " + "\n  ".join(definitions))
    out()
    messages = {number: message_of(event) for number, event in enumerate(report.events, 1)}
    out("\n".join(text_report(_server_name(report), findings, len(report.events), notes, messages)))


def _visit_lines(visit: Visit) -> list[str]:
    if visit.refusal:  # of the revision; `visit.refused` has the wrong requests that the server refused
        return [escape_hidden(f"not spoken: {visit.refusal}", keep="")]
    lines = [", ".join(visit.worked) or "connects, and offers nothing"]
    if visit.refused:
        lines.append(f"refuses {', '.join(visit.refused)}")
    lines += [f"ERROR: accepts {text}" for text in visit.accepted]
    lines += [f"note: {text}" for text in visit.notes]
    return [escape_hidden(line, keep="") for line in lines]  # a server's error must not look like another line


def _junit_cases(visits: Iterable[Visit]) -> Iterator[JUnitCase]:
    """Yield a test case for each feature that worked and for each wrong request. Notes are left out."""
    for visit in visits:
        if visit.refusal:
            continue
        for feature in visit.worked:
            yield JUnitCase(visit.revision, feature)
        for wrong_request in visit.refused:
            yield JUnitCase(visit.revision, f"refuses {wrong_request}")
        for text in visit.accepted:
            wrong_request = text.partition(": ")[0]
            yield JUnitCase(visit.revision, wrong_request, "failure", text)


def show_as_test(options: argparse.Namespace) -> int:
    """Print a recording as a pytest module."""
    head, events = read_recording(options.file)
    cassette = Cassette(events)
    sys.stdout.write(to_test(os.path.basename(options.file), head, cassette.revision, cassette.requests))
    note("the module needs pytest, and the server that its line SERVER names")
    return 0
