"""`check FILE` judges a recording by the specification. `check --rules` lists the rules.

    talk.jsonl: 1 error, 0 warnings in 9 events

    error: server: the result of prompts/list does not fit the schema: prompts[0].name: expected a string, got nothing
        rule   The result of a request fits the schema of the revision. [2025-11-25/basic/lifecycle#initialization-5]
        proof  event 8, 9, judged by 2025-11-25
               {"jsonrpc":"2.0","id":2,"result":{"prompts":[{"title":"Hello"}]}}
        do     Send the result as the schema of the revision defines it.

Each finding names its rule, the events that prove it, with the message of the last one, and what to do. Event 8 is in
line 9 of the file, because the first line is the head of the recording. `drive.py` judges a live server instead.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from typing import Final

from ..check.conversation import Conversation
from ..check.recording import (
    Event,
    Frame,
    HttpBody,
    HttpEvent,
    HttpRequest,
    RecordingError,
    format_event,
    parse_head,
    read_events,
)
from ..check.report import findings_to_show, json_report, junit_report, sarif_report, text_report
from ..check.rules import MUST, RULES, Finding, read_sentences
from ..jsonrpc.messages import JSON
from ..lib.text import escape_hidden
from ..version import __version__
from . import EXIT_ERROR, UsageError, usage_errors
from .show import out, print_json

MAX_QUOTED_MESSAGE: Final = 200
"""Maximum length of a quoted message, in characters."""
INDENTED_LINE: Final = "\n        "


def check_file(options: argparse.Namespace) -> int:
    """Judge a recording. Return 1 if a side broke a MUST."""
    findings, event_count, notes = judge_file(options.file, options.revision)
    findings = findings_to_show(findings, options.advice)
    name = os.path.basename(options.file)
    if options.junit is not None:
        write_report(options.junit, junit_report(name, findings, notes))
    if options.sarif is not None:
        write_report(options.sarif, json.dumps(sarif_report(options.file, findings, __version__), indent=1))
    if options.json:
        print_json(json_report(name, findings, event_count, notes))
    else:
        # a recording that is a pipe cannot be read twice
        messages = read_messages(options.file, findings) if os.path.isfile(options.file) else {}
        out("\n".join(text_report(name, findings, event_count, notes, messages)))
    return EXIT_ERROR if any(finding.level == MUST for finding in findings) else 0


def judge_file(path: str, revision: str | None = None) -> tuple[list[Finding], int, list[str]]:
    """Return the findings in a recording, the number of its events, and notes on the parts that were not judged.

    The file is read line by line, because a recording can be larger than the memory.
    """
    findings = list[Finding]()
    event_count = 0
    try:
        with open(path, "rb") as file:
            head = parse_head(file.readline())
            with usage_errors():  # an unknown revision
                conversation = Conversation(revision, head)
            for event in read_events(file):
                event_count += 1
                findings += conversation.receive(event)
            findings += conversation.close()
    except (OSError, RecordingError) as error:
        advice = "; to check a server, write two dashes before its command" if path.endswith((".py", ".js")) else ""
        raise UsageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}{advice}") from None
    return findings, event_count, [*conversation.unverified]


def read_messages(path: str, findings: Sequence[Finding]) -> dict[int, str]:
    """Read the recording again. Return event number -> message, for the last event of each finding."""
    wanted_numbers = {finding.events[-1] for finding in findings}
    messages = dict[int, str]()
    with open(path, "rb") as file:
        file.readline()  # the head
        for number, event in enumerate(read_events(file), 1):
            if len(messages) == len(wanted_numbers):
                break
            if number in wanted_numbers:
                messages[number] = message_of(event)
    return messages


def message_of(event: Event) -> str:
    """Return the message of an event, or the event itself, as one line for a report."""
    if isinstance(event, Frame | HttpBody | HttpEvent | HttpRequest):
        text = event.content.data.decode("utf-8", "backslashreplace")
    else:
        text = format_event(event).decode()
    text = escape_hidden(text, keep="")  # escape line breaks too, so that a message cannot imitate another line
    return text if len(text) <= MAX_QUOTED_MESSAGE else f"{text[:MAX_QUOTED_MESSAGE]}..."


def write_report(path: str, text: str) -> None:
    """Write a report to a file. Raise UsageError if that is impossible."""
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text + "\n")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def show_rules(options: argparse.Namespace) -> int:
    """Print each rule with the ids of the sentences of the specification that it decides.

    Then print the sentences that no recording can show to be broken, by the reason.
    """
    rule_of = read_sentences().rules  # id of a sentence -> name of the rule that decides it
    reason_of = read_sentences().reasons  # id of a sentence -> the reason why it cannot be observed
    ids_by_rule, ids_by_reason = keys_by_value(rule_of), keys_by_value(reason_of)
    if options.json:
        rules: list[JSON] = [
            {"id": rule.id, "name": rule.name, "level": rule.level, "meaning": rule.meaning,
             "sentences": [*ids_by_rule.get(rule.name, ())]} for rule in RULES
        ]  # fmt: skip
        print_json({"rules": rules, "notObservable": {**reason_of}})
        return 0
    for rule in RULES:
        ids = ids_by_rule.get(rule.name, [rule.id])
        out(INDENTED_LINE.join([f"{rule.level:<7} {rule.meaning}", *ids]))
    for reason, ids in ids_by_reason.items():
        out(INDENTED_LINE.join([f"\nnot observable ({len(ids)} sentences): {reason}", *ids]))
    out(f"\n{len(RULES)} rules decide {len(rule_of)} sentences; {len(reason_of)} cannot be observed")
    return 0


def keys_by_value(items: Mapping[str, str]) -> dict[str, list[str]]:
    """Return value -> its keys, both in the order of the items."""
    found: dict[str, list[str]] = {}
    for key, value in items.items():
        found.setdefault(value, []).append(key)
    return found
