"""Conversation judges only what it has seen. It can begin in the middle, lose events, and mix connections."""

from __future__ import annotations

import json
from collections.abc import Sized

from mcp_ref.check.conversation import Conversation
from mcp_ref.check.recording import Content, Event, Frame, Gap, Head, content
from tests.check.cases import PING, PONG, TOOL, listed
from tests.check.talk import HTTP, STARTED, Web, broken, c, error, findings, frames, handshake, m, page, s


def test_conversation_that_begins_in_the_middle_has_no_findings_about_its_beginning() -> None:
    middle = [s(7, result={"tools": [TOOL]}), c(8, "prompts/list", {"cursor": "X"}), s(8, result={"prompts": []}),
              s(None, "notifications/progress", {"progressToken": 3, "progress": 1}), s(1, "roots/list")]  # fmt: skip
    assert broken(frames(middle), head=None) == []
    conversation = Conversation()
    conversation.receive(frames(middle)[0])
    assert "connection 1 was not seen from its beginning" in next(iter(conversation.unverified))


def test_lost_events_make_ids_and_order_unknown() -> None:
    events: list[Event] = [
        *frames(handshake()),
        Gap(3, because="the disk was full"),
        *frames([s(7, result={}), s(9, "ping")]),
    ]
    assert broken(events) == []
    conversation = Conversation(head=STARTED)
    for event in events:
        conversation.receive(event)
    assert "3 events are lost at event 4: the disk was full" in conversation.unverified


def test_connections_do_not_share_ids() -> None:
    events = frames([*handshake(), c(1, "ping"), s(1, result={})])
    others = [Frame(each.sender, each.content, connection=2) for each in events if isinstance(each, Frame)]
    assert broken([event for pair in zip(events, others, strict=True) for event in pair]) == []


def test_start_of_a_large_frame_is_enough_to_know_its_id() -> None:
    large = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "result": {"tools": [{**TOOL, "description": "x" * 2_000_000}]}}
    ).encode()
    cut = content(large)
    assert isinstance(cut, Content) and not cut.is_whole
    events = [
        *frames([*handshake(), c(1, "tools/list")]),
        Frame("server", cut, connection=1),
        *frames([c(2, "ping"), s(2, result={})]),
    ]
    assert broken(events) == []


def test_half_a_line_of_a_process_that_died_is_not_a_message() -> None:
    assert broken([*frames(handshake()), Frame("server", content(b'{"jsonrpc"'), partial=True, connection=1)]) == []


def test_masked_value_is_not_judged_by_its_type() -> None:
    result = s(1, result={"tools": [{**TOOL, "name": "***", "description": "***", "inputSchema": "***"}]})
    events = frames([*handshake(), c(1, "tools/list"), result])
    masked = Frame("server", content(json.dumps(result[1]).encode()), connection=1, masked=True)
    assert "result_fits" in broken(events)
    assert "result_fits" not in broken([*events[:-1], masked])


def test_finding_with_one_cause_is_reported_once_and_counts() -> None:
    web = Web().open()
    for _ in range(50):
        web.post(PING, headers={"MCP-Protocol-Version": None}, reply=PONG)
    found = [finding for finding in findings(web.events, HTTP) if finding.rule.name == "version_header"]
    assert [finding.times for finding in found] == [50]


def test_clients_without_a_session_are_not_mixed_up() -> None:
    web = Web()
    for _ in range(2):
        web.open(session=None).post(PING, reply=PONG)
    assert broken(web.events, HTTP) == []


def test_server_is_not_judged_by_a_revision_that_it_never_offered() -> None:
    probe = [
        m(1, "server/discover"),
        s(1, **error(-32001)),
        m(2, "tools/list"),
        s(2, result={"tools": []}),
    ]
    assert broken(frames([*probe, *handshake(), *listed(TOOL, id=3)])) == []
    modern = [m(1, "tools/list"), page(1, tools=[]), m(2, "tools/list"), s(2, result={"tools": []})]
    assert broken(frames(modern)) == ["hints", "result_type"]


def test_memory_does_not_grow_with_the_conversation() -> None:
    conversation = Conversation(head=Head("stdio", command=("server",)))
    for event in frames(handshake()):
        conversation.receive(event)
    for number in range(1, 6000):
        token = {"_meta": {"progressToken": number}}
        for event in frames(
            [c(number, "tools/list", token), s(number, result={"tools": [TOOL], "nextCursor": f"c{number}"})]
        ):
            conversation.receive(event)
    dialogue = conversation._pipes[1]
    tables: list[Sized] = [
        dialogue.client.calls,
        dialogue.client.finished,
        dialogue.client.finished_tokens,
        dialogue.cursors,
    ]
    assert [len(table) for table in tables] == [0, 2000, 2000, 2000]
