"""Each rule of mcp_ref/check/ is broken by one conversation, which breaks nothing else, and by no close neighbor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from mcp_ref.check.recording import Event, Head
from mcp_ref.check.rules import RULES
from tests.check.cases import (
    CASES,
    FURTHER,
    NO_TASKS,
    PAIRS,
    PING,
    TASKS_ONLY,
    TOOL,
    WEB_CASES,
    WEB_PAIRS,
    _http,
    _modern,
    _post,
    _session,
    tools_listed,
)
from tests.check.conversations import (
    MODERN,
    STARTED,
    answered,
    asked,
    broken_rules,
    error,
    findings,
    frames,
    from_client,
    from_server,
    handshake,
    stateless,
)

ALONE = {**CASES, **WEB_CASES}
BESIDE = {**PAIRS, **WEB_PAIRS}
LEVELS = {rule.name: rule.level for rule in RULES}


def _task_call(tool: Any, **params: Any) -> Sequence[Event]:
    call = from_client(2, "tools/call", {"name": "t", **params})
    return frames([*handshake(), *tools_listed(tool), call, from_server(2, **error(-32601))])


@pytest.mark.parametrize("name", ALONE)
def test_rule_is_broken_alone_and_its_neighbor_is_clean(name: str) -> None:
    wrong, clean, head = ALONE[name]
    is_advice = LEVELS[name] == "advice"
    found = broken_rules(wrong, head, is_advice)
    assert name in found if is_advice else found == [name]
    kept = broken_rules(clean, head, is_advice)
    assert name not in kept if is_advice else kept == []


@pytest.mark.parametrize("name", BESIDE)
def test_rule_about_the_response_to_a_wrong_message_is_broken_beside_the_rule_of_the_message(name: str) -> None:
    cause, (wrong, clean, head) = BESIDE[name]
    assert broken_rules(wrong, head) == sorted([cause, name])
    assert broken_rules(clean, head) == [cause]


@pytest.mark.parametrize(("rules", "case"), FURTHER)
def test_rules_are_broken_in_another_form_and_by_no_legal_neighbor(
    rules: str, case: tuple[Sequence[Event], Head | None]
) -> None:
    assert broken_rules(*case) == rules.split()


@pytest.mark.parametrize("member", ["tools", "resources", "resourceTemplates", "prompts"])
def test_icons_are_looked_at_in_each_list(member: str) -> None:
    method = {"resourceTemplates": "resources/templates"}.get(member, member) + "/list"
    item = {**TOOL, "uri": "a:b", "uriTemplate": "a:{b}", "icons": [{"src": "file:///x"}]}
    session = [*handshake("2025-11-25"), *answered(1, method, result={member: [item]})]
    assert "icons" in broken_rules(frames(session), STARTED, True)


@pytest.mark.parametrize(("revision", "level"), [("2024-11-05", "SHOULD"), ("2025-11-25", "MUST")])
def test_level_of_a_rule_is_the_one_of_the_revision(revision: str, level: str) -> None:
    session = [*handshake(revision, client={}), *asked(1, "roots/list", **error(-32601))]
    assert [finding.level for finding in findings(frames(session))] == [level]


@pytest.mark.parametrize(
    ("events", "text"),
    [
        (PAIRS["invalid_cursor_is_refused"][1][0], "tools/list with the cursor 'X', which no page had, gets a result"),
        (_task_call(TASKS_ONLY), "the tool is called not as a task, but its taskSupport is required"),
        (_task_call(NO_TASKS, task={}), "the tool is called as a task, but its taskSupport is forbidden"),
    ],
)
def test_finding_says_what_was_asked_and_what_came_of_it(events: Sequence[Event], text: str) -> None:
    assert text in [finding.text for finding in findings(events)]


@pytest.mark.parametrize(
    ("conversation", "events"),
    [
        (_session(*answered(1, "ping", result={"_meta": 5})), (4, 5)),
        (
            _modern(
                stateless(1, "x"), from_server(1, **error(-32022, data={"supported": [MODERN], "requested": MODERN}))
            ),
            (3, 4),
        ),
        (_session(*asked(1, "roots/list", **error(-32601)), client={}), (4,)),
        (_http(_post(PING, reply=b"")), (8, 11)),
        (WEB_CASES["unique_event_id"][::2], (8, 13, 15)),
    ],
    ids=["result", "error", "request", "exchange", "stream"],
)
def test_finding_names_the_events_that_prove_it(
    conversation: tuple[Sequence[Event], Head], events: tuple[int, ...]
) -> None:
    found = [finding for finding in findings(*conversation) if finding.level != "advice"]
    assert [finding.events for finding in found] == [events]


def test_rules_have_a_test_case_each() -> None:
    assert {rule.name for rule in RULES} == {*ALONE, *BESIDE, "http_sse"}
