"""Conversation judges only what it has seen. It can begin in the middle, lose events, and mix connections."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence, Sized
from dataclasses import replace
from typing import Any

import pytest

from mcp_ref.check.conversation import Conversation
from mcp_ref.check.masking import mask
from mcp_ref.check.recording import (
    Content,
    End,
    Event,
    Frame,
    Gap,
    Head,
    HttpEnd,
    HttpEvent,
    HttpRequest,
    Side,
    content,
    format_event,
)
from tests.check.cases import (
    CASES,
    EMPTY_LIST,
    LIST_REQUEST,
    NOTIFICATION,
    PING,
    PONG,
    TASK_BEGUN,
    TEXT,
    TOOL,
    WEB_CASES,
    input_required,
    task_polled,
    tool_called,
    tools_listed,
)
from tests.check.conversations import (
    HTTP,
    MODERN,
    STARTED,
    HttpRecording,
    Messages,
    answered,
    broken_rules,
    cacheable,
    error,
    findings,
    frames,
    from_client,
    from_server,
    handshake,
    stateless,
    stateless_params,
)

SSE = Head("http", url="http://127.0.0.1:8000/sse")


def test_conversation_that_begins_in_the_middle_has_no_findings_about_its_beginning() -> None:
    middle = [
        from_server(7, result={"tools": [TOOL]}),
        *answered(8, "prompts/list", {"cursor": "X"}, result={"prompts": []}),
        from_server(None, "notifications/progress", {"progressToken": 3, "progress": 1}),
        from_server(1, "roots/list"),
    ]
    assert broken_rules(frames(middle), head=None) == []
    conversation = Conversation()
    conversation.receive(frames(middle)[0])
    assert "connection 1 was not seen from its beginning" in next(iter(conversation.unverified))


def test_lost_events_make_ids_and_order_unknown() -> None:
    events: list[Event] = [
        *frames(handshake()),
        Gap(3, because="the disk was full"),
        *frames([from_server(7, result={}), from_server(9, "ping")]),
    ]
    assert broken_rules(events) == []
    assert "3 lost events at event 4: the disk was full" in notes(events, STARTED)
    discovered = frames([stateless(1, "server/discover"), cacheable(1, supportedVersions=[MODERN], capabilities={})])
    # the gap can hold an `initialize`
    events = [*discovered, Gap(1), *frames(tools_listed(TOOL, id=7))]
    assert broken_rules(events) == []
    assert "1 lost event at event 3: unknown reason" in notes(events, STARTED)


def test_list_with_a_tool_twice_is_not_in_another_order() -> None:
    tools = [TOOL, {**TOOL, "name": "u"}, TOOL]
    talk = [
        stateless(1, "tools/list"), cacheable(1, tools=tools), stateless(2, "tools/list"), cacheable(2, tools=tools),
    ]  # fmt: skip
    assert "stable_order" not in broken_rules(frames(talk))


@pytest.mark.parametrize(
    ("head", "rule"), [(STARTED, "output_is_messages"), (Head("messages"), "json_rpc"), (None, "json_rpc")]
)
def test_conversation_without_http_is_judged_by_its_order_and_each_line_by_the_rule_of_its_kind(
    head: Head | None, rule: str
) -> None:
    events = [*CASES["no_response_after_cancellation"][0], Frame("server", content(b"hello"), connection=1)]
    assert broken_rules(events, head) == sorted([rule, "no_response_after_cancellation"])


def test_masked_value_is_not_judged_by_its_type() -> None:
    result = from_server(1, result={"tools": [{**TOOL, "name": "***", "description": "***", "inputSchema": "***"}]})
    events = frames([*handshake(), from_client(1, "tools/list"), result])
    masked = Frame("server", content(json.dumps(result[1]).encode()), connection=1, masked=True)
    assert "result_fits" in broken_rules(events)
    assert "result_fits" not in broken_rules([*events[:-1], masked])


def test_finding_with_one_cause_is_reported_once_and_counts() -> None:
    web = HttpRecording().open()
    for _ in range(50):
        web.post(PING, headers={"MCP-Protocol-Version": None}, reply=PONG)
    found = [finding for finding in findings(web.events, HTTP) if finding.rule.name == "version_header"]
    assert [finding.times for finding in found] == [50]
    illegal = {**TOOL, "outputSchema": {"type": "object", "required": 5}}
    lists = [tools_listed({**illegal, "name": name}, id=id) for id, name in enumerate("tut", 1)]
    found = findings(frames(sum(lists, handshake())))
    assert [finding.times for finding in found] == [2, 1]  # of the tools t and u


def notes(events: Sequence[Event], head: Head) -> list[str]:
    """Return the notes on the parts of a conversation that were not verified."""
    conversation = Conversation(head=head)
    for event in events:
        conversation.receive(event)
    conversation.close()
    return [*conversation.unverified]


def test_clients_without_a_session_are_not_mixed_up() -> None:
    web = HttpRecording()
    for _ in range(2):
        web.open(session=None).post(PING, reply=PONG)
    assert broken_rules(web.events, HTTP) == []
    assert [note[:52] for note in notes(web.events, HTTP)] == ["clients without a session cannot be told apart: thei"]
    assert notes(HttpRecording().post(LIST_REQUEST, reply=EMPTY_LIST).events, HTTP) == []


def test_server_is_not_judged_by_a_revision_that_it_never_offered() -> None:
    probe = [
        stateless(1, "server/discover"), from_server(1, **error(-32001)), stateless(2, "tools/list"),
        from_server(2, result={"tools": []}),
    ]  # fmt: skip
    assert broken_rules(frames([*probe, *handshake(), *tools_listed(TOOL, id=3)])) == []
    modern = [
        stateless(1, "tools/list"), cacheable(1, tools=[]), stateless(2, "tools/list"),
        from_server(2, result={"tools": []}),
    ]  # fmt: skip
    assert broken_rules(frames(modern)) == ["hints", "result_type"]


def test_memory_does_not_grow_with_the_conversation() -> None:
    conversation = Conversation(head=Head("stdio", command=("server",)))
    for event in frames(handshake()):
        conversation.receive(event)
    for number in range(1, 2500):
        token = {"_meta": {"progressToken": number}}
        for event in frames(
            answered(number, "tools/list", token, result={"tools": [TOOL], "nextCursor": f"c{number}"})
        ):
            conversation.receive(event)
    dialogue = conversation._pipes[1]
    tables: list[Sized] = [
        dialogue.client.calls, dialogue.client.finished, dialogue.client.finished_tokens, dialogue.cursors,
    ]  # fmt: skip
    assert [len(table) for table in tables] == [0, 2000, 2000, 2000]


STRICT = {**TOOL, "outputSchema": {"type": "object", "required": ["a"]}}
CALL = from_client(8, "tools/call", {"name": "t"})
LOOSE_RESULT = from_server(8, result={"content": TEXT, "structuredContent": {}})


def cut(message: tuple[Side, Any]) -> Event:
    """Return the frame of a message as a recorder writes it, if the message was larger than it keeps."""
    data = json.dumps(message[1]).encode()[:60] + b"\xc3"  # half of a character
    return Frame(message[0], Content(data, 2_000_000, "digest"), connection=1)


def test_messages_that_were_cut_are_counted_in_the_parts_that_were_not_verified() -> None:
    assert notes([*frames(handshake()), cut(from_client(9, "ping")), cut(from_server(9, result={}))], STARTED) == [
        "messages that are cut, or beyond a limit of this judge, and facts that depend on them: 2"
    ]


@pytest.mark.parametrize("result", [{"content": TEXT}, "malformed"], ids=str)
def test_finished_requests_do_not_keep_large_params(result: object) -> None:
    conversation = Conversation(head=STARTED)
    large = {"name": "t", "arguments": {"text": "x" * 100_000}}
    for event in frames([*handshake(), *answered(1, "tools/call", large, result=result)]):
        conversation.receive(event)
    assert conversation._pipes[1].client.finished[1].params == {}


@pytest.mark.parametrize(("revision", "rules"), [("2025-06-18", []), ("2025-11-25", ["result_fits"])])
def test_result_of_initialize_is_judged_by_the_revision_that_it_names(revision: str, rules: list[str]) -> None:
    messages = [handshake()[0], *handshake(revision)[1:]]
    messages[1][1]["result"]["serverInfo"]["icons"] = "no list"  # a field of 2025-11-25
    assert broken_rules(frames(messages)) == rules


@pytest.mark.parametrize(
    "events",
    [
        frames([*handshake(), *answered(1, "tasks/get", {"taskId": []}, **error(-1))]),
        frames([*handshake(), from_server(1, "elicitation/create", {"mode": "url", "url": "http://[", "message": ""})]),
        frames([stateless(1, "tools/call", {"name": "t"}),
                from_server(1, result={"resultType": "input_required", "inputRequests": {
                    "a": {"method": "elicitation/create", "params": {"mode": []}}}})]),
        frames([*handshake(), *TASK_BEGUN, *task_polled(3, "working", pollInterval=10**400)]),
        frames([*handshake(), *TASK_BEGUN, *task_polled(3, "working", pollInterval=-(10**400))]),
        HttpRecording().open().post(PING, target="//[", reply=PONG).events,
        HttpRecording().get(target="/.well-known/oauth-authorization-server", reply={"token_endpoint": "http://["}).events,
        HttpRecording().open().post(PING, stream=[{"sse": None, "id": "1", "retry": 10**400}])
            .get(headers={"Last-Event-ID": "1"}).events,
        [*HttpRecording().get(end="").events, HttpEvent(1, content(b"http://["), type="endpoint")],
    ],
)  # fmt: skip
def test_hostile_values_do_not_stop_the_judge(events: list[Event]) -> None:
    broken_rules(events, Head("http", url="http://["))
    broken_rules(events)


def test_exchange_that_is_over_does_not_keep_its_bodies() -> None:
    conversation = Conversation(head=HTTP)
    for event in HttpRecording().open().post(PING, stream=[{"sse": PONG, "id": "e1"}]).events:
        conversation.receive(event)
    kept = conversation._exchanges.dialogues["abc"].event_ids["e1"]
    assert (kept.body, kept.response_body, kept.messages, kept.response_messages) == (b"", None, [], [])


def test_notes_on_many_gaps_do_not_grow_without_end() -> None:
    conversation = Conversation(head=STARTED)
    for _ in range(3000):
        conversation.receive(Gap(1))
    assert len(conversation.unverified) == 2000


def test_stream_that_ends_early_is_reported_with_the_request_of_its_batch_that_has_no_response() -> None:
    batch = [from_client(5, "ping")[1], from_client(6, "tools/list")[1]]
    web = HttpRecording().open("2025-03-26").post(batch, stream=[from_server(5, result={})[1]])
    texts = [finding.text for finding in findings(web.events, HTTP) if finding.rule.name == "stream_brings_response"]
    assert texts == ["the stream ends without the response to tools/list"]


def test_conversation_without_faults_has_none_when_its_secrets_are_masked() -> None:
    faults = {}
    for name, (_, clean, head) in {**CASES, **WEB_CASES}.items():
        if found := broken_rules([mask(event) for event in clean], head):
            faults[name] = found
    assert faults == {}


SECRET_EXTENSION: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/oauth-client-credentials": {}}}
SECRET_INPUT = {"token": {"method": "roots/list"}}
SECRET_SCHEMA = {"type": "object", "properties": {"token": {"type": "string", "minLength": 20}}}


@pytest.mark.parametrize(
    "messages",
    [
        [*handshake(), *tools_listed(nextCursor="token=a"),
         *answered(2, "tools/list", {"cursor": "token=a"}, result={"tools": [], "nextCursor": "token=b"})],
        [stateless(1, "server/discover", capabilities=SECRET_EXTENSION),
         cacheable(1, supportedVersions=[MODERN], capabilities={})],
        [stateless(1, "tools/call", {"name": "t"}), input_required(SECRET_INPUT)],
        [*handshake(), *tool_called({"content": TEXT}, {**TOOL, "inputSchema": SECRET_SCHEMA},
                               arguments={"token": "a token of 20 or more"})],
    ],
    ids=["cursors", "extension", "input", "arguments"],
)  # fmt: skip
def test_masked_values_break_no_rule_that_they_did_not_break_before(messages: Messages) -> None:
    events = frames(messages)
    assert broken_rules([mask(event) for event in events], advice=True) == broken_rules(events, advice=True)


def with_secret_ids(event: Event) -> Event:
    """Return the event, with an event id that has a secret in place of its own."""
    if isinstance(event, HttpEvent) and event.id is not None:
        return replace(event, id=f"token=hunter2-{event.id}")
    if isinstance(event, HttpRequest):
        pairs = [
            (name, f"token=hunter2-{value}" if name == "Last-Event-ID" else value) for name, value in event.headers
        ]
        return replace(event, headers=tuple(pairs))
    return event


@pytest.mark.attack("recording-secrets")
@pytest.mark.parametrize("rule", ["unique_event_id", "events_of_stream", "known_event_id", "waits_for_retry"])
def test_events_are_followed_by_their_ids_when_these_are_masked(rule: str) -> None:
    faulty, clean, head = WEB_CASES[rule]
    for events, expected in ((faulty, [rule]), (clean, [])):
        masked = [mask(with_secret_ids(event)) for event in events]
        assert broken_rules(masked, head) == expected
        assert b"hunter2" not in b"".join(map(format_event, masked))


def over_http_sse(messages: Messages, reply: str = "Accepted") -> list[Event]:
    """Return a conversation over HTTP+SSE, whose server responds to each POST with 202 and a text."""
    web = HttpRecording().get(target="/sse", stream=[], end="")
    web.events.append(HttpEvent(1, content(b"/messages?session=1"), type="endpoint"))
    for side, message in messages:
        if side == "client":
            body = json.dumps(message) if reply == "echo" else reply
            web.post(message, target="/messages?session=1", status=202, reply=body.encode())
        else:
            web.events.append(HttpEvent(1, content(json.dumps(message).encode())))
    return web.events


def test_conversation_over_http_sse_is_judged_by_the_declarations_of_its_handshake() -> None:
    messages = [*handshake(server={}), from_server(None, "notifications/message", {"level": "info", "data": 1})]
    assert broken_rules(over_http_sse(messages), SSE) == ["capability_of_sender"]
    assert notes(over_http_sse(messages), SSE) == []


@pytest.mark.parametrize("params", [stateless_params(), {"capabilities": {}}], ids=["stateless", "no version"])
def test_refused_initialize_that_no_legacy_client_sends_needs_no_revision(params: dict[str, Any]) -> None:
    messages = [
        stateless(1, "tools/list"), cacheable(1, tools=[]), *answered(2, "initialize", params, **error(-32602)),
    ]  # fmt: skip
    assert "refusal_names_revisions" not in broken_rules(frames(messages))


def test_clean_conversations_that_begin_anywhere_or_lose_events_have_no_findings() -> None:
    for name, (_, events, head) in (CASES | WEB_CASES).items():
        cut = replace(head, command=()) if head is not None else None  # which would mean that it began with its server
        for position in range(1, len(events)):
            assert (name, broken_rules(events[position:], cut)) == (name, [])
            for lost in (1, 3):
                with_gap = [*events[:position], Gap(lost), *events[position + lost :]]
                assert (name, broken_rules(with_gap, head)) == (name, [])
            assert (name, broken_rules([Gap(position), *events[position:]], head)) == (name, [])


def test_stateless_request_without_a_version_header_can_be_served_by_an_earlier_revision() -> None:
    web = HttpRecording().post(LIST_REQUEST, reply=EMPTY_LIST)
    web.post(
        LIST_REQUEST,
        headers={"MCP-Protocol-Version": None},
        reply=from_server(LIST_REQUEST["id"], result={"tools": []})[1],
    )
    assert broken_rules(web.events, HTTP) == ["mirrored_headers"]


@pytest.mark.parametrize("position", [0, 8])
def test_lost_events_can_be_the_handshake_of_another_client_without_a_session(position: int) -> None:
    events = (
        HttpRecording().open(session=None).post(PING, reply=PONG).post(PING, reply=PONG).events
    )  # the second is the other's
    assert broken_rules(events, HTTP) == ["id_used_once"]
    assert broken_rules([*events[:position], Gap(3), *events[position:]], HTTP) == []


@pytest.mark.spec("2026-07-28/server/tools#tool-1")
@pytest.mark.parametrize(
    ("schema", "is_illegal"),
    [
        ({"$ref": "#/a: expected b"}, False),  # unusable, but the text is the server's own
        ({"pattern": "(?!(x+x+)+y)"}, False),
        ({"pattern": "a" * 9_000}, False),
        ({"$id": "https://a.example/b#c"}, True),
        ({"$schema": 5}, True),
        ({"properties": 5}, True),
    ],
)
def test_schema_is_a_fault_of_the_server_only_if_a_keyword_has_an_illegal_value(schema: Any, is_illegal: bool) -> None:
    found = broken_rules(frames([*handshake(), *tools_listed({**TOOL, "inputSchema": {"type": "object", **schema}})]))
    assert found == (["legal_schemas"] if is_illegal else [])


def session(*messages: tuple[Side, Any]) -> list[Event]:
    return frames([*handshake(), *messages])


def raw(side: Side, data: bytes, **more: Any) -> Frame:
    return Frame(side, content(data), connection=1, **more)


def mixed(events: Sequence[Event]) -> list[Event]:
    """Return the events of two connections in turn, with the same ids."""
    pairs = [(each, replace(each, connection=2)) for each in events if isinstance(each, Frame)]
    return [event for pair in pairs for event in pair]


def without_end(id: str | None, cause: Any) -> list[Event]:
    """Return a stream without a response, which ends after a cancellation or a DELETE."""
    opened = HttpRecording().open().post(PING, stream=[{"sse": None, "id": id}], end="")
    events = opened.exchange("DELETE", end="").events[:-1] if cause is None else opened.post(cause, status=202).events
    return [*events, HttpEnd(3, "complete")]


def unreadable_response() -> list[Event]:
    *events, end = HttpRecording().open().post(PING, stream=[]).events
    assert isinstance(end, HttpEnd)
    return [*events, HttpEvent(end.number, content(b'{"jsonrpc":"2.0","id":1,"result":{"x":%b}}' % DEEP)), end]


DEEP = b"[" * 2000 + b"]" * 2000
LARGE = json.dumps(from_server(1, result={"tools": [{**TOOL, "description": "x" * 2_000_000}]})[1]).encode()
LEGAL = [b'{"jsonrpc":"2.0","id":1.0,"method":"ping"}', b'{"jsonrpc":"2.0","id":1,"method":"ping","x":1,"x":2}',
         b'{"jsonrpc":"2.0","id":1,"method":"ping","x":"\\ud800"}',
         b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":%b}}' % DEEP]  # fmt: skip
"""Legal messages that this package refuses."""
RENAMED = answered(3, "tools/call", {"name": "initialize"}, result={"content": []})
CHALLENGE = {"WWW-Authenticate": 'Bearer resource_metadata="u"'}
NO_VERSION: dict[str, str | None] = {"MCP-Protocol-Version": None}
METADATA = {"resource": "https://a/mcp", "authorization_servers": ["https://a"]}
SECRET_URI = "file:///ü?token=abc"
IN_BASE64 = {"Mcp-Name": f"=?base64?{base64.b64encode(SECRET_URI.encode()).decode()}?="}
SECRET_READ = stateless(1, "resources/read", {"uri": SECRET_URI})[1]
WITH_STATE = from_server(1, result={"resultType": "input_required", "requestState": "s",
                                    "inputRequests": {"a": {"method": "roots/list"}}})  # fmt: skip
STATE_RETRY = {"name": "x", "requestState": "s", "inputResponses": {"a": {"roots": []}}}
CANCELLATION = from_client(None, "notifications/cancelled", {"requestId": PING["id"]})[1]

CLEAN: dict[str, tuple[Sequence[Event], Head | None]] = {
    "two connections with equal ids": (mixed(session(*answered(1))), STARTED),
    "the start of a large frame has its id": ([
        *session(from_client(1, "tools/list")), raw("server", LARGE), *frames(answered(2))], STARTED),
    "half a line of a process that died": ([*session(), raw("server", b'{"jsonrpc"', partial=True)], STARTED),
    **{f"legal message {data[:60]!r}": (
        [*session(), raw("client", data), *frames([from_server(1, result={})])], STARTED) for data in LEGAL},
    "a list that was cut": ([*session(*tools_listed(STRICT), from_client(9, "tools/list")),
        cut(from_server(9, result={"tools": [TOOL]})), *frames([CALL, LOOSE_RESULT])], STARTED),
    "a cursor in a page that was cut": ([*session(from_client(9, "tools/list")),
        cut(from_server(9, result={"tools": [], "nextCursor": "X"})),
        *frames(answered(1, "tools/list", {"cursor": "X"}, result={"tools": []}))], STARTED),
    "a token in a request that was cut": ([
        *session(), cut(from_client(9, "tools/call", {"_meta": {"progressToken": "T"}})),
        *frames([from_server(None, "notifications/progress", {"progressToken": "T", "progress": 1}),
                 from_server(9, result={})])], STARTED),
    "a list before a gap": ([*session(*tools_listed(STRICT)), Gap(1), *frames([CALL, LOOSE_RESULT])], STARTED),
    "a tool that is listed again during its call": (session(
        *tools_listed(TOOL), CALL, *answered(9, "tools/list", result={"tools": [STRICT]}), LOOSE_RESULT), STARTED),
    **{f"a late line {late[0]} after the end of the process": ([
        *session(from_client(5, "ping")), End("server", 1, connection=1), *frames([late])], STARTED)
       for late in (from_client(6, "tools/list"), from_server(5, result={}))},
    "a second session on the pipe": (session(
        *tools_listed(STRICT), CALL, *handshake(), CALL, LOOSE_RESULT, *answered(1)), STARTED),
    "a tool with the name initialize": (frames(RENAMED), Head("messages")),
    "a tool with the name initialize over HTTP": (
        HttpRecording().open().post(RENAMED[0][1], reply=RENAMED[1][1]).events, HTTP),
    **{f"a request again after the status {status}": (HttpRecording().open().post(PING, status=status, answer=CHALLENGE)
        .post(PING, reply=PONG, headers={"Authorization": "Bearer t"}).events, HTTP) for status in (307, 401, 503)},
    "a notification that is redirected": (
        HttpRecording().open().post(NOTIFICATION, status=307, answer={"Location": "/mcp/"}).events, HTTP),
    **{f"{method} of a browser or a proxy": (HttpRecording().open(session=None)
        .exchange(method, headers=NO_VERSION, status=204).events, HTTP) for method in ("OPTIONS", "HEAD")},
    "metadata where the endpoint is unknown": (HttpRecording().open(session=None).get(
        target="/.well-known/oauth-protected-resource", headers=NO_VERSION, reply=METADATA).events, None),
    "a stream with a response that cannot be read": (unreadable_response(), HTTP),
    "a header in Base64 and a masked body": ([*map(mask, HttpRecording().post(
        SECRET_READ, headers=IN_BASE64, reply=cacheable(1, contents=[])[1]).events)], HTTP),
    "a request state that two calls got": (frames([
        stateless(1, "tools/call", {"name": "x"}), WITH_STATE, stateless(2, "tools/call", {"name": "y"}),
        from_server(2, result=WITH_STATE[1]["result"]), stateless(3, "tools/call", STATE_RETRY)]), STARTED),
    **{f"status {status} with JSON of a proxy": (HttpRecording().open().post(
        PING, status=status, reply={"error": "x"}, answer=CHALLENGE).events, HTTP) for status in (401, 500)},
    "an HTTP+SSE server that echoes a message in the response of its POST": (
        over_http_sse([*handshake(), *answered(1)], reply="echo"), SSE),
    "an HTTP+SSE conversation from its middle": (over_http_sse([
        stateless(9, "server/discover"), *handshake(), from_client(1, "ping"),
        from_client(None, "notifications/roots/list_changed")])[3:], SSE),
    **{f"a stream whose first id is {id} ends with its {'session' if cause is None else 'request'}": (
        without_end(id, cause), HTTP) for id in (None, "1") for cause in (CANCELLATION, None)},
    "a stream of an HTTP+SSE client beside a session": (
        HttpRecording().open().get(headers={"Mcp-Session-Id": None, **NO_VERSION}, status=405).events, HTTP),
    "a stream of an HTTP+SSE client beside a client without a session": (
        HttpRecording().open(session=None).get(headers=NO_VERSION, status=405).events, HTTP),
}  # fmt: skip


@pytest.mark.parametrize("name", CLEAN)
def test_conversation_that_looks_wrong_but_is_legal_or_unknown_has_no_findings(name: str) -> None:
    assert broken_rules(*CLEAN[name]) == []


def test_value_whose_validation_exceeds_a_limit_of_this_package_is_not_judged() -> None:
    items: Any = {"not": {"anyOf": [{"const": number} for number in range(900)]}}
    schema = {"type": "object", "properties": {"a": {"items": items}}}
    tool, value = {**TOOL, "inputSchema": schema, "outputSchema": schema}, {"a": [1000] * 1500}
    called = tool_called({"content": TEXT, "structuredContent": value}, tool, arguments=value)
    assert broken_rules(session(*called), advice=True) == []
