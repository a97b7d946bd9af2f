"""A conversation that breaks each rule and nothing else, and a close neighbor that is clean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp_ref.check.recording import Event, Head
from tests.check.talk import (
    ALL_OF_SERVER,
    HTTP,
    MODERN,
    PREFIX,
    STARTED,
    Messages,
    Web,
    c,
    done,
    error,
    frames,
    handshake,
    m,
    meta,
    page,
    s,
)

Case = tuple[Sequence[Event], Sequence[Event], Head]
TOOL: dict[str, Any] = {"name": "t", "inputSchema": {"type": "object"}}
TEXT = [{"type": "text", "text": "x"}]


def old(broken: Messages, clean: Messages, revision: str = "2025-11-25", **capabilities: Any) -> Case:
    """Return a case in a session of the legacy era."""
    before = handshake(revision, **capabilities)
    return frames(before + broken), frames(before + clean), STARTED


def raw(broken: Messages, clean: Messages) -> Case:
    return frames(broken), frames(clean), STARTED


def new(broken: Messages, clean: Messages) -> Case:
    """Return a case of stateless requests, after server/discover."""
    before = [m(0, "server/discover"), page(0, supportedVersions=[MODERN], capabilities=ALL_OF_SERVER)]
    return frames(before + broken), frames(before + clean), STARTED


def web(broken: Web, clean: Web) -> Case:
    return broken.events, clean.events, HTTP


def asks(params: Any, revision: str = "2025-11-25", method: str = "sampling/createMessage") -> Messages:
    """Return a request of the server, and its refusal by the user."""
    return [s(1, method, params), c(1, **error(-1))]


def sample(messages: Any, **more: Any) -> dict[str, Any]:
    return {"messages": messages, "maxTokens": 9, **more}


def said(role: str, *blocks: Any) -> dict[str, Any]:
    return {"role": role, "content": [*blocks] if len(blocks) != 1 else blocks[0]}


USE = {"type": "tool_use", "id": "u", "name": "t", "input": {}}
USED = {"type": "tool_result", "toolUseId": "u", "content": []}
HELLO = sample([said("user", *TEXT)])


def listed(*tools: Any, id: Any = 1, **more: Any) -> Messages:
    return [c(id, "tools/list", {}), s(id, result={"tools": [*tools], **more})]


def called(result: Any, tool: Any = TOOL, **params: Any) -> Messages:
    return [*listed(tool), c(2, "tools/call", {"name": "t", **params}), s(2, result=result)]


def stateless(id: Any, method: str, params: Any = None, *answer: Any, **more: Any) -> Messages:
    return [m(id, method, params, **more), *answer]


def form(schema: Any, **more: Any) -> dict[str, Any]:
    return {"message": "?", "requestedSchema": schema, **more}


FLAT = {"type": "object", "properties": {"n": {"type": "integer"}}}
SECRET_CHOICE = {"type": "object", "properties": {"token": {"type": "string", "enum": ["a", "b"]}}}
"""A legal schema whose `enum` is masked as `***`."""
TASK: dict[str, Any] = {"taskId": "T", "status": "working", "createdAt": "2025-11-25T10:30:00Z",
                        "lastUpdatedAt": "2025-11-25T10:30:00Z", "ttl": 1000}  # fmt: skip
TASKS = {**TOOL, "execution": {"taskSupport": "optional"}}
BEGIN: Messages = [*listed(TASKS), c(2, "tools/call", {"name": "t", "task": {}}), s(2, result={"task": TASK})]


def got(id: Any, status: str, method: str = "tasks/get", **more: Any) -> Messages:
    return [c(id, method, {"taskId": "T"}), s(id, result={**TASK, "status": status, **more})]


LISTEN: Messages = [m(1, "subscriptions/listen", {"notifications": {"toolsListChanged": True}})]
SUB = {"_meta": {PREFIX + "subscriptionId": 1}}
ACK: Messages = [
    s(None, "notifications/subscriptions/acknowledged", {"notifications": {"toolsListChanged": True}, **SUB})
]
CHANGED = s(None, "notifications/tools/list_changed", SUB)


def needs(requests: Any = None, id: Any = 1, **more: Any) -> Any:
    """Return an input_required result."""
    members = {"requestState": "S"} if requests is None else {"requestState": "S", "inputRequests": requests}
    return s(
        id,
        result={
            "resultType": "input_required",
            "_meta": {PREFIX + "serverInfo": {"name": "s", "version": "1"}},
            **members,
            **more,
        },
    )


ROOTS = {"r": {"method": "roots/list"}}
CALL = m(1, "tools/call", {"name": "t"})
RETRY = {"name": "t", "requestState": "S", "inputResponses": {"r": {"roots": []}}}
CALLED = done(2, content=[])

CASES: dict[str, Case] = {
    # ------------------------------------------------------------------------------------------------ JSON-RPC
    "json_rpc": old([("client", {"jsonrpc": "1.0", "id": 1, "method": "ping"})], [c(1, "ping"), s(1, result={})]),
    "utf_8": old([("client", b'{"jsonrpc":"2.0","method":"\xff"}')], []),
    "request_id": old([("client", {"jsonrpc": "2.0", "id": None, "method": "ping"})], [c("", "ping"), s("", result={})]),
    "notification_without_id": old(
        [c(1, "notifications/roots/list_changed"), s(1, **error(-32601))], [c(None, "notifications/roots/list_changed")]
    ),
    "result_or_error": old(
        [c(1, "ping"), s(1, result={}, **error(1))], [c(1, "ping"), s(1, **error(1))]
    ),
    "error_object": old([c(1, "ping"), s(1, error={"code": "1"})], [c(1, "ping"), s(1, **error(1, ""))]),
    "response_id": old([c(1, "ping"), s(1, result={}), s(1, result={})], [c(1, "ping"), s(1, result={})]),
    "id_used_once": old(
        [c(1, "ping"), s(1, result={}), c(1, "ping"), s(1, result={})],
        [c(1, "ping"), s(1, result={}), c("1", "ping"), s("1", result={}), s(1, "ping"), c(1, result={})],
    ),
    "id_in_flight": new([*LISTEN, *ACK, m(1, "x")], [*LISTEN, *ACK, m(2, "x"), s(2, **error(-32601))]),
    "no_batch": old([("client", [{"jsonrpc": "2.0", "id": 1, "method": "ping"}])], [c(1, "ping"), s(1, result={})]),
    "specified_code": new([m(1, "x"), s(1, **error(-32050))], [m(1, "x"), s(1, **error(-31050))]),
    "replaced_code": new(
        [m(1, "resources/read", {"uri": "a:b"}), s(1, **error(-32002))],
        [m(1, "resources/read", {"uri": "a:b"}), s(1, **error(-32602))],
    ),
    "reserved_code": new([m(1, "x"), s(1, **error(-32001))], [m(1, "x"), s(1, **error(-1))]),
    "result_type": new([CALL, s(1, result={"content": []})], [CALL, done(1, content=[])]),
    "known_result_type": new(
        [*stateless(1, "tools/call", {"name": "t"}), s(1, result={"resultType": "odd"})], [CALL, done(1, content=[])]
    ),
    "no_request_of_server": new([s(1, "roots/list")], [s(None, "x")]),
    "no_response_of_client": new([c(7, result={})], [c(None, "x")]),
    "never_answered": old([c(1, "ping")], [c(1, "ping"), s(1, result={})]),
    # ---------------------------------------------------------------------------------------------- lifecycle
    "initialize_first": raw([c(1, "tools/list"), s(1, **error(-32600))], [c(1, "ping"), s(1, result={}), *handshake()]),
    "capability_members": raw(
        handshake(server={"tools": {"listChanged": "yes"}}), handshake("2025-06-18", client={"sampling": {"tools": True}})
    ),
    "initialize_alone": raw([("client", [handshake("2025-03-26")[0][1]])], handshake("2025-03-26")),
    "client_waits_for_initialize": raw(
        [handshake()[0], c(1, "tools/list"), *handshake()[1:], s(1, result={"tools": []})],
        [handshake()[0], c(1, "ping"), *handshake()[1:], s(1, result={})],
    ),
    "server_waits_for_initialized": raw(
        [*handshake()[:2], s(1, "roots/list"), handshake()[2], c(1, result={"roots": []})],
        [*handshake()[:2], s(1, "ping"), handshake()[2], c(1, result={})],
    ),
    "initialized_is_sent": raw(
        [*handshake()[:2], c(1, "tools/list"), s(1, result={"tools": []})],
        [*handshake(), c(1, "tools/list"), s(1, result={"tools": []})],
    ),
    "negotiated_revision": raw([handshake()[0], handshake(MODERN)[1]], handshake()[:2]),
    "method_of_revision": old(
        [s(1, "elicitation/create", form(FLAT)), c(1, **error(-32601))],
        [s(1, "roots/list"), c(1, result={"roots": []})], revision="2025-03-26",
    ),
    "capability_of_receiver": old(
        [s(1, "roots/list"), c(1, **error(-32601))], [s(1, "ping"), c(1, result={})], client={}
    ),
    "capability_of_sender": old(
        [s(None, "notifications/tools/list_changed")], [s(None, "notifications/progress", {"progressToken": 1, "progress": 1})][:0],
        server={"tools": {}},
    ),
    "empty_pong": old([c(1, "ping"), s(1, result={"a": 1})], [c(1, "ping"), s(1, result={"_meta": {}})]),
    "supported_is_listed": new(
        [m(1, "x", revision="2030-01-01"), s(1, **error(-32022))],
        [m(1, "x", revision="2030-01-01"), s(1, **error(-32022, data={"supported": [MODERN], "requested": "2030-01-01"}))],
    ),
    "required_capabilities_are_listed": new(
        [m(1, "x"), s(1, **error(-32021))],
        [m(1, "x"), s(1, **error(-32021, data={"requiredCapabilities": {"roots": {}}}))],
    ),
    "discover_is_served": raw(
        [m(1, "tools/list"), page(1, tools=[]), m(2, "server/discover"), s(2, **error(-32601))],
        [m(1, "tools/list"), page(1, tools=[]), m(2, "x"), s(2, **error(-32601))],
    ),
    "probe_comes_first": raw(
        [m(1, "tools/list"), s(1, **error(-32601)), c(2, "initialize", handshake()[0][1]["params"]), s(2, **error(1))],
        [m(1, "server/discover"), s(1, **error(-32601)), c(2, "initialize", handshake()[0][1]["params"]), s(2, **error(1))],
    ),
    "discover_names_modern": raw(
        [m(0, "server/discover"), page(0, supportedVersions=["2025-11-25"], capabilities={})],
        [m(0, "server/discover"), page(0, supportedVersions=[MODERN], capabilities={})],
    ),
    "refusal_names_revisions": new(
        [c(2, "initialize", handshake()[0][1]["params"]), s(2, **error(-32601))],
        [c(2, "initialize", handshake()[0][1]["params"]), s(2, **error(-32601, f"only {MODERN}"))],
    ),
    # --------------------------------------------------------------------------------------------------- _meta
    "meta_keys": old([c(1, "ping", {"_meta": {"-a": 1}}), s(1, result={})], [c(1, "ping", {"_meta": {"a.b/c": 1}}), s(1, result={})]),
    "trace_context": new(
        [c(1, "x", {"_meta": {**meta()["_meta"], "traceparent": "1"}}), s(1, **error(-32601))],
        [c(1, "x", {"_meta": {**meta()["_meta"], "traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}}), s(1, **error(-32601))],
    ),
    "required_meta": new([c(1, "x"), s(1, **error(-32602))], [m(1, "x"), s(1, **error(-32602))]),
    "client_info": new([c(1, "x", {"_meta": {k: v for k, v in meta()["_meta"].items() if "Info" not in k}}), s(1, **error(-32601))],
                       [m(1, "x"), s(1, **error(-32601))]),
    "server_info": new([CALL, s(1, result={"resultType": "complete", "content": []})], [CALL, done(1, content=[])]),
    "server_info_of_discover": raw(
        [m(0, "server/discover"), page(0, supportedVersions=[MODERN], capabilities={}, _meta={})],
        [m(0, "server/discover"), page(0, supportedVersions=[MODERN], capabilities={})],
    ),
    "reverse_dns": old(
        [c(1, "ping", {"_meta": {"example/a": 1}}), s(1, result={})], [c(1, "ping", {"_meta": {"com.x/a": 1}}), s(1, result={})]
    ),
    "extension_names": new(
        [m(1, "x", clientCapabilities={"extensions": {"a": {}}}), s(1, **error(-32601))],
        [m(1, "x", clientCapabilities={"extensions": {"a.b/c": {}}}), s(1, **error(-32601))],
    ),
    # -------------------------------------------------------------------------------------------------- shapes
    "params_fit": old(
        [c(1, "tools/call", {"name": 1}), s(1, **error(-32602))], [c(1, "tools/call", {"name": "t"}), s(1, **error(-32602))]
    ),
    "result_fits": old([c(1, "tools/list"), s(1, result={"tools": [{}]})], listed(TOOL)),
    "meta_fits": new(
        [m(1, "x", clientInfo={"name": "c"}), s(1, **error(-32601))], [m(1, "x"), s(1, **error(-32601))]
    ),
    "progress_token_type": old(
        [c(1, "ping", {"_meta": {"progressToken": 1.5}}), s(1, result={})],
        [c(1, "ping", {"_meta": {"progressToken": ""}}), s(1, result={})],
    ),
    "members_of_revision": old(
        [c(1, "tools/list"), s(1, result={"tools": [{**TOOL, "title": "x"}]})], listed(TOOL), revision="2025-03-26"
    ),
    "output_is_messages": old([("server", b"hello")], [("server", b' {"jsonrpc":"2.0","method":"x"}\r')]),
    "input_is_messages": old([("client", b"hello")], [c(None, "x")]),
    "deprecated": raw(
        [m(1, "x"), s(1, **error(-32601))], [m(1, "x", clientCapabilities={}), s(1, **error(-32601))]
    ),
    # ------------------------------------------------------------------------------- progress and cancellation
    "known_token": old(
        [s(None, "notifications/progress", {"progressToken": "p", "progress": 1})],
        [c(1, "ping", {"_meta": {"progressToken": "p"}}), s(None, "notifications/progress", {"progressToken": "p", "progress": 1}),
         s(1, result={})],
    ),
    "after_response": old(
        [c(1, "ping", {"_meta": {"progressToken": "p"}}), s(1, result={}), s(None, "notifications/progress", {"progressToken": "p", "progress": 1})],
        [c(1, "ping", {"_meta": {"progressToken": "p"}}), s(None, "notifications/progress", {"progressToken": "p", "progress": 1}), s(1, result={})],
    ),
    "growing_value": old(
        [c(1, "ping", {"_meta": {"progressToken": 0}}), *[s(None, "notifications/progress", {"progressToken": 0, "progress": 1})] * 2, s(1, result={})],
        [c(1, "ping", {"_meta": {"progressToken": 0}}), *[s(None, "notifications/progress", {"progressToken": 0, "progress": n}) for n in (1, 1.5)], s(1, result={})],
    ),
    "unique_token": old(
        [c(n, "ping", {"_meta": {"progressToken": 0}}) for n in (1, 2)] + [s(n, result={}) for n in (1, 2)],
        [x for n in (1, 2) for x in (c(n, "ping", {"_meta": {"progressToken": 0}}), s(n, result={}))],
    ),
    "initialize_is_not_cancelled": raw(
        [handshake()[0], c(None, "notifications/cancelled", {"requestId": 0}), *handshake()[1:]], handshake()
    ),
    "own_request": old(
        [c(None, "notifications/cancelled", {"requestId": 9})],
        [c(9, "ping"), c(None, "notifications/cancelled", {"requestId": 9})],
    ),
    "server_cancels_subscription": new(
        [CALL, s(None, "notifications/cancelled", {"requestId": 1}), done(1, content=[])],
        [*LISTEN, *ACK, s(None, "notifications/cancelled", {"requestId": 1, **SUB}), done(1)],
    ),
    "task_is_cancelled_as_task": old(
        [*BEGIN, c(None, "notifications/cancelled", {"requestId": 2})], [*BEGIN, *got(3, "cancelled", "tasks/cancel")]
    ),
    "no_response_after_cancellation": old(
        [c(1, "tools/list"), c(None, "notifications/cancelled", {"requestId": 1}), c(2, "ping"), s(2, result={}), s(1, result={"tools": []})],
        [c(1, "tools/list"), c(2, "ping"), c(None, "notifications/cancelled", {"requestId": 1}), s(2, result={}), s(1, result={"tools": []})],
    ),
    # ------------------------------------------------------------------------------------------- subscriptions
    "subscription_id": new([*LISTEN, *ACK, s(None, "notifications/tools/list_changed")], [*LISTEN, *ACK, CHANGED]),
    "acknowledged_first": new([*LISTEN, CHANGED, *ACK], [*LISTEN, *ACK, CHANGED]),
    "only_requested": new(
        [*LISTEN, *ACK, s(None, "notifications/prompts/list_changed", SUB)], [*LISTEN, *ACK, CHANGED]
    ),
    "subscribed_resource": old(
        [s(None, "notifications/resources/updated", {"uri": "a:b"})],
        [c(1, "resources/subscribe", {"uri": "a:b"}), s(1, result={}), s(None, "notifications/resources/updated", {"uri": "a:b"})],
    ),
    # ----------------------------------------------------------------------------------------------------- MRTR
    "input_of_method": new([m(1, "tools/list"), needs()], [CALL, needs()]),
    "input_or_state": new(
        [CALL, s(1, result={"resultType": "input_required", "_meta": {PREFIX + "serverInfo": {"name": "s", "version": "1"}}})], [CALL, needs()]
    ),
    "input_requests": new([CALL, needs({"r": {"method": "ping"}})], [CALL, needs(ROOTS)]),
    "input_is_declared": new([m(1, "tools/call", {"name": "t"}, clientCapabilities={}), needs(ROOTS)], [CALL, needs(ROOTS)]),
    "retry_has_new_id": new([CALL, needs(ROOTS), m(1, "tools/call", RETRY), done(1, content=[])],
                            [CALL, needs(ROOTS), m(2, "tools/call", RETRY), CALLED]),
    "state_of_request": new([CALL, needs(ROOTS), m(2, "tools/call", {**RETRY, "name": "u"}), CALLED],
                            [CALL, needs(ROOTS), m(2, "tools/call", RETRY), CALLED]),
    "state_is_returned": new([CALL, needs(ROOTS), m(2, "tools/call", {**RETRY, "requestState": "X"}), CALLED],
                             [CALL, needs(ROOTS), m(2, "tools/call", RETRY), CALLED]),
    "input_is_complete": new([CALL, needs(ROOTS), m(2, "tools/call", {**RETRY, "inputResponses": {}}), CALLED],
                             [CALL, needs(ROOTS), m(2, "tools/call", RETRY), CALLED]),
    # ---------------------------------------------------------------------------------------------------- tasks
    "begins_working": old(
        [*BEGIN[:-1], s(2, result={"task": {**TASK, "status": "input_required"}})], BEGIN
    ),
    "unique_task_id": old(
        [*BEGIN, c(3, "tools/call", {"name": "t", "task": {}}), s(3, result={"task": TASK})],
        [*BEGIN, c(3, "tools/call", {"name": "t", "task": {}}), s(3, result={"task": {**TASK, "taskId": "U"}})],
    ),
    "terminal_status": old([*BEGIN, *got(3, "completed"), *got(4, "working")], [*BEGIN, *got(3, "input_required"), *got(4, "working")]),
    "task_times": old([*BEGIN, *got(3, "working", createdAt="now")], [*BEGIN, *got(3, "working", createdAt="2025-11-25T10:30:00.123+01:00")]),
    "task_is_declared": old(
        [c(2, "tools/call", {"name": "t", "task": {}}), s(2, result={"content": []})],
        [c(2, "tools/call", {"name": "t"}), s(2, result={"content": []})], server={"tools": {}},
    ),
    "tool_allows_task": old(
        [*listed(TOOL), c(2, "tools/call", {"name": "t", "task": {}}), s(2, **error(-32601))],
        [*listed(TOOL), c(2, "tools/call", {"name": "t"}), s(2, result={"content": []})],
    ),
    "task_is_returned": old(
        [*BEGIN[:-1], s(2, result={"content": []})], BEGIN
    ),
    "related_task": old(
        [*BEGIN, c(3, "tasks/result", {"taskId": "T"}), s(3, result={"content": []})],
        [*BEGIN, c(3, "tasks/result", {"taskId": "T"}), s(3, result={"content": [], "_meta": {PREFIX + "related-task": {"taskId": "T"}}})],
    ),
    "no_related_task": old(
        [*BEGIN, *got(3, "working", _meta={PREFIX + "related-task": {"taskId": "T"}})], [*BEGIN, *got(3, "working")]
    ),
    "unknown_task": old(
        [c(3, "tasks/get", {"taskId": "X"}), s(3, **error(-32603))], [c(3, "tasks/get", {"taskId": "X"}), s(3, **error(-32602))]
    ),
    "over_is_not_cancelled": old(
        [*BEGIN, *got(3, "cancelled"), *got(4, "cancelled", "tasks/cancel")], [*BEGIN, *got(4, "cancelled", "tasks/cancel")]
    ),
    "cancelled_status": old([*BEGIN, *got(3, "working", "tasks/cancel")], [*BEGIN, *got(3, "cancelled", "tasks/cancel")]),
    "failure_has_message": old([*BEGIN, *got(3, "failed")], [*BEGIN, *got(3, "failed", statusMessage="disk full")]),
    # ---------------------------------------------------------------------------------------------------- tools
    "legal_schemas": old(listed({**TOOL, "inputSchema": {"type": "object", "required": "a"}}), listed({**TOOL, "inputSchema": SECRET_CHOICE})),
    "object_schema": old(listed({**TOOL, "inputSchema": {}}), listed(TOOL)),
    "tool_names": old(listed({**TOOL, "name": "a b"}), listed({**TOOL, "name": "a.b-c_D"})),
    "unique_tool_names": old(listed(TOOL, TOOL), listed(TOOL, {**TOOL, "name": "T"})),
    "parameter_header_names": new(
        [m(1, "tools/list"), page(1, tools=[{**TOOL, "inputSchema": {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "a b"}}}}])],
        [m(1, "tools/list"), page(1, tools=[{**TOOL, "inputSchema": {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "A"}}}}])],
    ),
    "stable_order": new(
        [m(1, "tools/list"), page(1, tools=[TOOL, {**TOOL, "name": "u"}]), m(2, "tools/list"), page(2, tools=[{**TOOL, "name": "u"}, TOOL])],
        [m(1, "tools/list"), page(1, tools=[TOOL, {**TOOL, "name": "u"}]), m(2, "tools/list"), page(2, tools=[TOOL, {**TOOL, "name": "u"}])],
    ),
    "structured_content_fits": old(
        called({"content": TEXT, "structuredContent": {"n": "x"}}, {**TOOL, "outputSchema": FLAT}),
        called({"content": TEXT, "structuredContent": {"n": 1}}, {**TOOL, "outputSchema": FLAT}),
    ),
    "structured_content_as_text": old(
        called({"content": [], "structuredContent": {}}), called({"content": TEXT, "structuredContent": {}})
    ),
    "arguments_fit": old(
        called({"content": []}, {**TOOL, "inputSchema": FLAT}, arguments={"n": "x"}),
        called({"content": [], "isError": True}, {**TOOL, "inputSchema": FLAT}, arguments={"n": "x"}),
    ),
    "embedded_resources": old(
        called({"content": [{"type": "resource", "resource": {"uri": "a:b", "text": ""}}]}), called({"content": []}), server={"tools": {}}
    ),
    "declared_list_is_served": old([c(1, "prompts/list"), s(1, **error(-32601))], [c(1, "prompts/list"), s(1, **error(-32603))]),
    # -------------------------------------------------------------------------------------------------- content
    "media": old(
        called({"content": [{"type": "image", "data": "%", "mimeType": "image/png"}]}),
        called({"content": [{"type": "image", "data": "AA==", "mimeType": "image/png"}]}),
    ),
    "embedded_resource": old(
        [c(1, "prompts/get", {"name": "p"}), s(1, result={"messages": [said("user", {"type": "resource", "resource": {"uri": "a:b", "text": ""}})]})],
        [c(1, "prompts/get", {"name": "p"}),
         s(1, result={"messages": [said("user", {"type": "resource", "resource": {"uri": "a:b", "text": "", "mimeType": "text/plain"}})]})],
    ),
    "resource_uris": old(
        [c(1, "resources/list"), s(1, result={"resources": [{"uri": "no scheme", "name": "r"}]})],
        [c(1, "resources/list"), s(1, result={"resources": [{"uri": "a:b", "name": "r"}]})],
    ),
    "templates": old(
        [c(1, "resources/templates/list"), s(1, result={"resourceTemplates": [{"uriTemplate": "a:{", "name": "r"}]})],
        [c(1, "resources/templates/list"), s(1, result={"resourceTemplates": [{"uriTemplate": "a:{b}", "name": "r"}]})],
    ),
    "icons": old(listed({**TOOL, "icons": [{"src": "file:///x"}]}), listed({**TOOL, "icons": [{"src": "https://x/y"}]})),
    # ------------------------------------------------------------------------------- pagination, caching, logging
    "known_cursor": old(
        [c(1, "tools/list", {"cursor": "X"}), s(1, **error(-32602))],
        [*listed(TOOL, nextCursor="X"), c(2, "tools/list", {"cursor": "X"}), s(2, result={"tools": []})],
    ),
    "cursor_moves": old(
        [*listed(TOOL, nextCursor="X"), c(2, "tools/list", {"cursor": "X"}), s(2, result={"tools": [], "nextCursor": "X"})],
        [*listed(TOOL, nextCursor="X"), c(2, "tools/list", {"cursor": "X"}), s(2, result={"tools": [], "nextCursor": "Y"})],
    ),
    "hints": new([m(1, "tools/list"), done(1, tools=[])], [m(1, "tools/list"), page(1, tools=[])]),
    "negative_ttl": new([m(1, "tools/list"), page(1, tools=[], ttlMs=-1)], [m(1, "tools/list"), page(1, tools=[])]),
    "scope_of_pages": new(
        [m(1, "tools/list"), page(1, tools=[], nextCursor="X"), m(2, "tools/list", {"cursor": "X"}), page(2, tools=[], cacheScope="private")],
        [m(1, "tools/list"), page(1, tools=[], nextCursor="X"), m(2, "tools/list", {"cursor": "X"}), page(2, tools=[])],
    ),
    "level_of_session": old(
        [c(1, "logging/setLevel", {"level": "error"}), s(1, result={}), s(None, "notifications/message", {"level": "info", "data": 1})],
        [c(1, "logging/setLevel", {"level": "error"}), s(1, result={}), s(None, "notifications/message", {"level": "alert", "data": 1})],
    ),
    "asked_for_logs": new(
        [CALL, s(None, "notifications/message", {"level": "info", "data": 1}), done(1, content=[])],
        [m(1, "tools/call", {"name": "t"}, logLevel="info"), s(None, "notifications/message", {"level": "info", "data": 1}), done(1, content=[])],
    ),
    "not_on_subscription": new(
        [*LISTEN, *ACK, m(2, "tools/call", {"name": "t"}, logLevel="info"), s(None, "notifications/message", {"level": "info", "data": 1, **SUB}), CALLED],
        [*LISTEN, *ACK, m(2, "tools/call", {"name": "t"}, logLevel="info"), s(None, "notifications/message", {"level": "info", "data": 1}), CALLED],
    ),
    "unknown_level_is_refused": new(
        [m(1, "tools/call", {"name": "t"}, logLevel="loud"), done(1, content=[])],
        [m(1, "tools/call", {"name": "t"}, logLevel="loud"), s(1, **error(-32602))],
    ),
    # ------------------------------------------------------------------------------------------ client features
    "tools_are_declared": old(asks(sample([said("user", *TEXT)], tools=[])), asks(HELLO), client={"sampling": {}}),
    "context_is_declared": old(asks({**HELLO, "includeContext": "thisServer"}), asks({**HELLO, "includeContext": "none"}), client={"sampling": {}}),
    "tool_uses_have_results": old(
        asks(sample([said("user", *TEXT), said("assistant", USE), said("user", *TEXT)])),
        asks(sample([said("user", *TEXT), said("assistant", USE), said("user", USED)])),
    ),
    "tool_choice": old(
        [s(1, "sampling/createMessage", {**HELLO, "toolChoice": {"mode": "none"}}), c(1, result={**said("assistant", USE), "model": "m"})],
        [s(1, "sampling/createMessage", {**HELLO, "toolChoice": {"mode": "auto"}}), c(1, result={**said("assistant", USE), "model": "m"})],
    ),
    "declared_mode": old(
        [s(1, "elicitation/create", {"mode": "url", "message": "?", "url": "https://a/", "elicitationId": "e"}), c(1, **error(-32602))],
        [s(1, "elicitation/create", form(FLAT)), c(1, result={"action": "decline"})], client={"elicitation": {}},
    ),
    "flat_schema": old(
        [s(1, "elicitation/create", form({"type": "object", "properties": {"o": {"type": "object"}}})), c(1, result={"action": "decline"})],
        [s(1, "elicitation/create", form(SECRET_CHOICE)), c(1, result={"action": "decline"})],
    ),
    "valid_url": old(
        [s(1, "elicitation/create", {"mode": "url", "message": "?", "url": "a b", "elicitationId": "e"}), c(1, result={"action": "decline"})],
        [s(1, "elicitation/create", {"mode": "url", "message": "?", "url": "https://a/", "elicitationId": "e"}), c(1, result={"action": "decline"})],
    ),
    "https_url": old(
        [s(1, "elicitation/create", {"mode": "url", "message": "?", "url": "http://a/", "elicitationId": "e"}), c(1, result={"action": "decline"})],
        [s(1, "elicitation/create", {"mode": "url", "message": "?", "url": "http://localhost/", "elicitationId": "e"}), c(1, result={"action": "decline"})],
    ),
    "content_fits": old(
        [s(1, "elicitation/create", form(FLAT)), c(1, result={"action": "accept", "content": {"n": "x"}})],
        [s(1, "elicitation/create", form(FLAT)), c(1, result={"action": "accept", "content": {"n": 1}})],
    ),
    "required_elicitations": old(
        [c(1, "tools/call", {"name": "t"}), s(1, **error(-32042))],
        [c(1, "tools/call", {"name": "t"}),
         s(1, **error(-32042, data={"elicitations": [{"mode": "url", "message": "?", "url": "https://a/", "elicitationId": "e"}]}))],
    ),
    "known_elicitation": old(
        [s(None, "notifications/elicitation/complete", {"elicitationId": "e"})],
        [s(1, "elicitation/create", {"mode": "url", "message": "?", "url": "https://a/", "elicitationId": "e"}), c(1, result={"action": "accept"}),
         s(None, "notifications/elicitation/complete", {"elicitationId": "e"})],
    ),
    "root_uris": old(
        [s(1, "roots/list"), c(1, result={"roots": [{"uri": "https://a/"}]})], [s(1, "roots/list"), c(1, result={"roots": [{"uri": "file:///a"}]})]
    ),
    "completion_values": old(
        [c(1, "completion/complete", {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}}),
         s(1, result={"completion": {"values": ["x"] * 101}})],
        [c(1, "completion/complete", {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}}),
         s(1, result={"completion": {"values": ["x"] * 100}})],
    ),
}  # fmt: skip

PAIRS: dict[str, tuple[str, Case]] = {
    "feature_is_declared": (
        "capability_of_receiver", old(listed(), [c(1, "tools/list"), s(1, **error(-32601))], server={})),
    "code_for_undeclared_feature": (
        "capability_of_receiver", old(
            [s(1, "roots/list"), c(1, **error(-32603))], [s(1, "roots/list"), c(1, **error(-32601))], client={})),
    "malformed_request_is_refused": (
        "required_meta", new([c(1, "tools/list"), page(1, tools=[])], [c(1, "tools/list"), s(1, **error(-32602))])),
    "invalid_cursor_is_refused": (
        "known_cursor", old([c(1, "tools/list", {"cursor": "X"}), s(1, result={"tools": []})],
                            [c(1, "tools/list", {"cursor": "X"}), s(1, **error(-32602))])),
    "wrong_call_is_refused": (
        "tool_allows_task", old([*listed(TOOL), c(2, "tools/call", {"name": "t", "task": {}}), s(2, result={"task": TASK})],
                                [*listed(TOOL), c(2, "tools/call", {"name": "t", "task": {}}), s(2, **error(-32601))])),
    "undeclared_mode_is_refused": (
        "declared_mode", old(
            [s(1, "elicitation/create", {"mode": "url", "message": "?", "url": "https://a/", "elicitationId": "e"}), c(1, result={"action": "decline"})],
            [s(1, "elicitation/create", {"mode": "url", "message": "?", "url": "https://a/", "elicitationId": "e"}), c(1, **error(-32602))],
            client={"elicitation": {}})),
}  # fmt: skip
"""A rule about the response to a wrong message -> the rule that the message breaks, and the case."""


def _post(message: Any, *, opened: Web | None = None, **more: Any) -> Web:
    return (opened or Web().open()).post(message, **more)


PING = c(5, "ping")[1]
PONG = s(5, result={})[1]
LIST = m(5, "tools/list")[1]
EMPTY = page(5, tools=[])[1]
NOTE = c(None, "notifications/roots/list_changed")[1]
HEADED = {**TOOL, "inputSchema": {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "A"}}}}
BAD_HEADED = {**TOOL, "inputSchema": {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "a b"}}}}
WELL_KNOWN = "/.well-known/oauth-protected-resource"
AUTHORIZE = (
    "/authorize?response_type=code&client_id=x&code_challenge=y&code_challenge_method=S256&state=z&resource=https://a/"
)
OAUTH_SERVER = "/.well-known/oauth-authorization-server"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
STREAMED = [{"sse": None, "id": "1"}, {"sse": PONG, "id": "2"}]


def _auth(target: str = AUTHORIZE, **more: Any) -> Web:
    return Web().open().exchange("GET", target=target, status=302, headers={"Mcp-Session-Id": None}, **more)


def _redirected(more: str) -> Web:
    """Return an authorization of the modern era, whose redirect has a code and `more`."""
    location = {"Location": "http://localhost:1/back?code=z" + more}
    web = Web().post(LIST, reply=EMPTY)
    return web.get(target=AUTHORIZE + "&redirect_uri=http://localhost:1/back", status=302, answer=location)


def _described(path: str, issuer: str) -> Web:
    return Web().post(LIST, reply=EMPTY).get(target=OAUTH_SERVER + path, reply={"issuer": issuer})


def _polled(*times: float) -> Web:
    """Return a task with a pollInterval of a second, and `tasks/get` at some times, in seconds."""
    web = Web().open()
    task = {**TASK, "pollInterval": 1000}
    web.post(BEGIN[0][1], reply=BEGIN[1][1]).post(BEGIN[2][1], reply=s(2, result={"task": task})[1])
    for id, web.at in enumerate(times, 3):
        web.post(c(id, "tasks/get", {"taskId": "T"})[1], reply=s(id, result=task)[1])
    return web


def _token(body: str) -> Web:
    return Web().open().exchange("POST", body.encode(), target="/token", headers=FORM, reply={})


def _challenged(status: int, text: str) -> Web:
    return Web().post(handshake("2025-06-18")[0][1], status=status, answer={"WWW-Authenticate": text})


def _registered(**metadata: Any) -> Web:
    members = {"redirect_uris": ["http://localhost/"], "application_type": "native", "grant_types": ["refresh_token"]}
    return (
        Web()
        .post(LIST, reply=EMPTY)
        .exchange("POST", {**members, **metadata}, target="/register", status=201, reply={})
    )


def _resumed(id: str, at: float, stream: Any) -> Web:
    opened = Web().open().post(PING, stream=[{"sse": None, "id": "1", "retry": 1000}])
    opened.at = at
    return opened.get(headers={"Last-Event-ID": id}, stream=stream)


WEB_CASES: dict[str, Case] = {
    "post_only": web(Web().open().exchange("PUT", PING, status=405), _post(PING, reply=PONG)),
    "post_accepts_both": web(_post(PING, headers={"Accept": "application/json"}, reply=PONG), _post(PING, headers={"Accept": "*/*"}, reply=PONG)),
    "get_accepts_events": web(Web().open().get(headers={"Accept": "text/html"}, status=405), Web().open().get(headers={"Accept": "text/event-stream"}, status=405)),
    "post_is_json": web(_post(PING, headers={"Content-Type": "text/plain"}, reply=PONG), _post(PING, headers={"Content-Type": "application/json; charset=utf-8"}, reply=PONG)),
    "version_header": web(_post(PING, headers={"MCP-Protocol-Version": None}, reply=PONG), _post(PING, reply=PONG)),
    "negotiated_header": web(_post(PING, headers={"MCP-Protocol-Version": "2025-06-18"}, reply=PONG), _post(PING, reply=PONG)),
    "mirrored_headers": web(Web().post(LIST, headers={"Mcp-Method": "tools/call"}, status=400, reply=s(5, **error(-32020))[1]), Web().post(LIST, reply=EMPTY)),
    "session_header": web(_post(PING, headers={"Mcp-Session-Id": None}, status=400), _post(PING, reply=PONG)),
    "ended_session": web(
        Web().open().exchange("DELETE", status=204).post(PING, status=404), Web().open().exchange("DELETE", status=204).post(PING, status=404, connection=2)
    ),
    "ended_session_is_404": web(
        Web().open().exchange("DELETE", status=204).post(PING, reply=PONG, connection=2), Web().open().exchange("DELETE", status=204).post(PING, status=404, connection=2)
    ),
    "visible_session_id": web(Web().open(session="a b"), Web().open(session="a~b")),
    "accepted": web(_post(NOTE, status=200), _post(NOTE, status=202)),
    "response_type": web(_post(PING, reply=PONG, answer={"Content-Type": "text/html"}), _post(PING, stream=STREAMED)),
    "get_is_stream": web(Web().open().get(reply=b"x", answer={"Content-Type": "text/plain"}), Web().open().get(stream=[])),
    "buffering": web(Web().post(LIST, stream=[EMPTY], answer={"X-Accel-Buffering": None}), Web().post(LIST, stream=[EMPTY])),
    "status_of_error": web(Web().post(LIST, reply=EMPTY).post(LIST, reply=s(5, **error(-32601))[1]), Web().post(LIST, reply=EMPTY).post(LIST, status=404, reply=s(5, **error(-32601))[1])),
    "stream_brings_response": web(_post(PING, stream=[]), _post(PING, stream=[], end="client")),
    "retry_before_close": web(_post(PING, stream=[{"sse": None, "id": "1"}]), _post(PING, stream=[{"sse": None, "id": "1", "retry": 5}])),
    "waits_for_retry": web(_resumed("1", 0.1, [{"sse": PONG, "id": "2"}]), _resumed("1", 1.0, [{"sse": PONG, "id": "2"}])),
    "response_is_last": web(
        _post(PING, stream=[{"sse": None, "id": "0"}, PONG, s(None, "x")[1]]), _post(PING, stream=[{"sse": None, "id": "0"}, s(None, "x")[1], PONG])
    ),
    "no_response_on_get": web(_post(PING, stream=[], end="client").get(stream=[PONG]), _post(PING, stream=[], end="client").get(stream=[s(None, "x")[1]])),
    "unique_event_id": web(_post(PING, stream=STREAMED).get(stream=[{"sse": s(None, "x")[1], "id": "2"}]), _post(PING, stream=STREAMED).get(stream=[{"sse": s(None, "x")[1], "id": "3"}])),
    "events_of_stream": web(
        Web().open().get(stream=[{"sse": s(None, "x")[1], "id": "9"}], end="client").post(PING, stream=[{"sse": None, "id": "1", "retry": 0}]).get(headers={"Last-Event-ID": "1"}, stream=[{"sse": s(None, "x")[1], "id": "9"}, {"sse": PONG, "id": "2"}]),
        Web().open().get(stream=[{"sse": s(None, "x")[1], "id": "9"}], end="client").post(PING, stream=[{"sse": None, "id": "1", "retry": 0}]).get(headers={"Last-Event-ID": "1"}, stream=[{"sse": PONG, "id": "2"}]),
    ),
    "known_event_id": web(Web().open().get(headers={"Last-Event-ID": "1"}, stream=[]), _resumed("1", 2.0, [{"sse": PONG, "id": "2"}])),
    "priming_event": web(_post(PING, stream=[PONG]), _post(PING, stream=STREAMED)),
    "graceful_end": web(
        Web().post(LISTEN[0][1], stream=[ACK[0][1]]), Web().post(LISTEN[0][1], stream=[ACK[0][1], done(1)[1]])
    ),
    "no_token_in_query": web(Web().open().get(target="/mcp?access_token=x", status=405), Web().open().get(target="/mcp?a=x", status=405)),
    "authorization_in_each_request": web(
        _post(PING, headers={"Authorization": "Bearer x"}, reply=PONG).post(c(6, "ping")[1], status=401), _post(PING, headers={"Authorization": "Bearer x"}, reply=PONG)
    ),
    "challenge_of_401": web(_challenged(401, "Bearer"), _challenged(401, 'Bearer resource_metadata="https://a/"')),
    "status_of_challenge": web(_challenged(401, 'Bearer error="insufficient_scope", resource_metadata="https://a/"'), _challenged(403, 'Bearer error="insufficient_scope"')),
    "insufficient_scope": web(
        _post(PING, status=403, answer={"WWW-Authenticate": 'Bearer error="insufficient_scope", scope="a"'}),
        _post(PING, status=403, answer={"WWW-Authenticate": 'Bearer error="insufficient_scope", scope="a", resource_metadata="https://a/"'}),
    ),
    "scope_of_401": web(_post(PING, status=401, answer={"WWW-Authenticate": "Bearer"}), _post(PING, status=401, answer={"WWW-Authenticate": 'Bearer scope="a"'})),
    "no_offline_access": web(
        Web().post(LIST, status=401, answer={"WWW-Authenticate": 'Bearer scope="a offline_access"'}), Web().post(LIST, status=401, answer={"WWW-Authenticate": 'Bearer scope="a"'})
    ),
    "resource_metadata": web(
        Web().get(target=WELL_KNOWN, reply={"resource": "https://a/"}), Web().get(target=WELL_KNOWN, reply={"resource": "https://a/", "authorization_servers": ["https://b/"]})
    ),
    "secure_endpoints": web(
        Web().get(target="/.well-known/oauth-authorization-server", reply={"token_endpoint": "http://a/"}),
        Web().get(target="/.well-known/oauth-authorization-server", reply={"token_endpoint": "http://localhost/"}),
    ),
    "issuer": web(_described("/a", "https://b.example/"), _described("/a", "https://b.example/a")),
    "iss_parameter": web(_redirected(""), _redirected("&iss=https://b.example")),
    "poll_interval": web(_polled(1, 1.3, 1.6), _polled(1, 1.3, 2.3, 3.3)),
    "pkce_in_metadata": web(
        _post(PING, reply=PONG).get(target="/.well-known/openid-configuration", reply={"issuer": "https://a"}),
        _post(PING, reply=PONG).get(target="/.well-known/openid-configuration", reply={"code_challenge_methods_supported": ["S256"]}),
    ),
    "pkce": web(_auth(AUTHORIZE.replace("S256", "plain")), _auth()),
    "resource_parameter": web(_token("grant_type=refresh_token"), _token("grant_type=refresh_token&resource=https://a/")),
    "state_parameter": web(_auth(AUTHORIZE.replace("&state=z", "")), _auth()),
    "redirect_uri": web(_auth(AUTHORIZE + "&redirect_uri=http://a/"), _auth(AUTHORIZE + "&redirect_uri=http://127.0.0.1:9/")),
    "client_id_url": web(_auth(AUTHORIZE.replace("client_id=x", "client_id=http://a/b")), _auth(AUTHORIZE.replace("client_id=x", "client_id=https://a/b"))),
    "application_type": web(_registered(application_type=None), _registered()),
    "refresh_grant": web(_registered(grant_types=["authorization_code"]), _registered(grant_types=["authorization_code", "refresh_token"])),
}  # fmt: skip

WEB_PAIRS: dict[str, tuple[str, Case]] = {
    "invalid_version_is_refused": (
        "negotiated_header", web(
            Web().open("2025-06-18").post(PING, headers={"MCP-Protocol-Version": "1999-01-01"}, reply=PONG),
            Web().open("2025-06-18").post(PING, headers={"MCP-Protocol-Version": "1999-01-01"}, status=400))),
    "excluded_tool": (
        "parameter_header_names", web(
            Web().post(m(1, "tools/list")[1], reply=page(1, tools=[BAD_HEADED])[1])
            .post(m(5, "tools/call", {"name": "t"})[1], reply=done(5, content=[])[1]),
            Web().post(m(1, "tools/list")[1], reply=page(1, tools=[BAD_HEADED])[1])
            .post(m(5, "tools/call", {"name": "u"})[1], reply=done(5, content=[])[1]))),
    "mismatch_is_refused": (
        "mirrored_headers", web(Web().post(LIST, headers={"Mcp-Method": "x"}, reply=EMPTY), Web().post(LIST, headers={"Mcp-Method": "x"}, status=400))),
    "missing_session_is_400": (
        "session_header", web(_post(PING, headers={"Mcp-Session-Id": None}, status=404), _post(PING, headers={"Mcp-Session-Id": None}, status=400))),
}  # fmt: skip


def _session(*messages: Any, **capabilities: Any) -> tuple[Sequence[Event], Head]:
    return frames([*handshake(**capabilities), *messages]), STARTED


def _modern(*messages: Any) -> tuple[Sequence[Event], Head]:
    return new([*messages], [])[0], STARTED


def _http(web: Web) -> tuple[Sequence[Event], Head]:
    return web.events, HTTP


def _progress(token: Any) -> Any:
    return s(None, "notifications/progress", {"progressToken": token, "progress": 1})


TOKEN: dict[str, Any] = {"_meta": {"progressToken": 1}}
TRACKED = c(5, "ping", TOKEN)[1]
TRACKED_TASK: Messages = [*listed(TASKS), c(2, "tools/call", {"name": "t", "task": {}, **TOKEN}), s(2, result={"task": TASK})]  # fmt: skip
ILLEGAL_URI = {"type": "resource", "resource": {"uri": "a b", "text": "", "mimeType": "text/plain"}}
TEXT_ONLY = {**said("assistant", *TEXT), "model": "m", "stopReason": "endTurn"}
ANSWERED = sample([said("user", *TEXT), said("assistant", USE), said("user", USED)])
STATELESS_RETRY = {"name": "t", "inputResponses": RETRY["inputResponses"]}


def _acknowledged(has_prompts: bool) -> Any:
    notifications = {"promptsListChanged": has_prompts, "toolsListChanged": True}
    return s(None, "notifications/subscriptions/acknowledged", {"notifications": notifications, **SUB})


FURTHER: list[tuple[str, tuple[Sequence[Event], Head | None]]] = [
    ("json_rpc", _session(c(1, "ping", [1]), s(1, **error(-32602)))),
    ("json_rpc", _session(("client", {"jsonrpc": "2.0", "id": 1, "method": 5}), s(1, **error(-32600)))),
    ("json_rpc", _session(("client", {"jsonrpc": "2.0", "id": 1}))),
    ("notification_without_id", _session(("client", {"jsonrpc": "2.0", "id": None, "method": "notifications/x"}))),
    ("meta_keys", _session(c(1, "ping", {"_meta": {"a b" + "c" * 253: 1}}), s(1, result={}))),
    ("input_requests", _modern(CALL, needs({"r": {"method": "elicitation/create", "params": {"message": 5}}}))),
    ("response_id", _session(c(result={}))),
    ("result_or_error", _session(c(1, "ping"), s(1, result="x"))),
    ("id_used_once response_id", _session(c(1, "ping"), c(1, "ping"), *[s(1, result={})] * 3)),
    ("no_batch", _session(("client", []), revision="2025-03-26")),
    ("", _modern(m(1, "tools/call", {"name": "t"}, capabilities={"extensions": {"a.b/c": {}}}), done(1, resultType="odd"))),
    ("", _modern(m(1, "x", capabilities={"extensions": {PREFIX + "x": {}}}), s(1, **error(-32601)))),
    ("capability_members", _modern(m(1, "x", capabilities={"extensions": {"a.b/c": 5}}), s(1, **error(-32601)))),
    ("capability_members", _session(client={"experimental": {"x": 5}})),
    ("", _modern(m(1, "x", revision="2025-11-25"), s(1, **error(-32022, data={"supported": [MODERN, "2025-11-25"], "requested": "2025-11-25"})))),
    ("supported_is_listed", _modern(m(1, "x"), s(1, **error(-32022, data={"supported": [MODERN], "requested": MODERN})))),
    ("", _session(c(1, "ping"), s(1, result={}), m(2, "server/discover"), s(2, **error(-32601)))),
    ("discover_is_served", (frames([m(1, "server/discover"), s(1, **error(-32601)), m(2, "tools/list"), page(2, tools=[])]), STARTED)),
    ("own_request", _session(c(1, "ping"), s(None, "notifications/cancelled", {"requestId": 1}), s(1, result={}))),
    ("own_request", _session(s(7, "ping"), c(None, "notifications/cancelled", {"requestId": 7}), c(7, result={}))),
    ("", _http(_post(TRACKED, stream=[{"sse": None, "id": "1"}, _progress(1)[1], PONG]))),
    ("", _http(Web().open(session=None).post(TRACKED, stream=[{"sse": None, "id": "1"}, _progress(1)[1], PONG]))),
    ("known_token", _http(_post(TRACKED, stream=[{"sse": None, "id": "1"}, _progress(2)[1], PONG]))),
    ("known_token", _http(Web().open(session=None).post(TRACKED, stream=[{"sse": None, "id": "1"}, _progress(2)[1], PONG]))),
    ("", _http(_post(TRACKED, reply=PONG).get(stream=[_progress(1)[1]]))),
    ("known_token", _http(_post(TRACKED, reply=PONG).get(stream=[_progress(2)[1]]))),
    ("", _http(Web().open().post(TRACKED, status=503).post({**TRACKED, "id": 6}, reply=s(6, result={})[1]))),
    ("", _session(*TRACKED_TASK, _progress(1))),
    ("", _session(*TRACKED_TASK[:-1], s(2, **error(-32603)), _progress(1))),
    ("after_response", _session(*TRACKED_TASK, *got(3, "completed"), _progress(1))),
    ("terminal_status", _session(*BEGIN, s(None, "notifications/tasks/status", {**TASK, "status": "completed"}), *got(3, "working"))),
    ("result_fits", _session(*BEGIN, c(3, "tasks/get", {"taskId": "T"}), s(3, result={**TASK, "status": 5}))),
    ("task_is_declared", _session(*BEGIN[:-1], s(2, result={"content": []}), server={"tools": {}, "tasks": {"list": {}}})),
    ("", _http(_post(c(5, "tasks/get", {"taskId": "X"})[1], reply=s(5, **error(-32603))[1]))),
    ("embedded_resource", _session(c(1, "prompts/get", {"name": "p"}), s(1, result={"messages": [said("user", ILLEGAL_URI)]}))),
    ("flat_schema", _session(s(1, "elicitation/create", form({"type": "array"})), c(1, result={"action": "decline"}))),
    ("flat_schema", _session(s(1, "elicitation/create", form({"type": "object", "properties": {"n": {"type": "text"}}})), c(1, result={"action": "accept", "content": {"n": "x"}}))),
    ("flat_schema", _session(s(1, "elicitation/create", form({"type": "object", "properties": {"n": {"type": "string", "minLength": "5"}}})), c(1, result={"action": "accept", "content": {"n": "x"}}))),
    *(("flat_schema", _session(s(1, "elicitation/create", form({"type": "object", "properties": {"n": field}})), c(1, result={"action": "cancel"})))
      for field in ({"type": "array"}, {"type": "array", "items": {"type": "string"}}, {"type": "string", "format": "uuid"})),
    *(("", _session(s(1, "elicitation/create", form({"type": "object", "properties": {"n": field}})), c(1, result={"action": "cancel"})))
      for field in ({"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}}, {"type": "string", "format": "uri"}, {"type": "number", "format": "double"})),
    ("result_fits", _session(s(1, "elicitation/create", form(FLAT)), c(1, result={"action": "accept", "content": {"data": {}, "n": 1}}))),
    ("capability_of_receiver", _session(s(1, "elicitation/create", form(FLAT)), c(1, **error(-32601)), client={})),
    ("params_fit", _session(*asks({"messages": 5, "maxTokens": 9}))),
    ("tool_choice", _session(s(1, "sampling/createMessage", {**HELLO, "toolChoice": {"mode": "required"}}), c(1, result=TEXT_ONLY))),
    ("", _session(s(1, "sampling/createMessage", {**HELLO, "toolChoice": {"mode": "required"}}), c(1, result={**TEXT_ONLY, "stopReason": "maxTokens"}))),
    ("", _session(s(1, "sampling/createMessage", {**ANSWERED, "toolChoice": {"mode": "required"}}), c(1, result=TEXT_ONLY))),
    ("state_is_returned", _modern(CALL, needs(ROOTS), m(2, "tools/call", STATELESS_RETRY), CALLED)),
    ("", _session(*BEGIN, c(3, "tasks/get", {"taskId": "T"}), s(3, **error(-32603)))),
    ("", _session(c(1, "tasks/list"), s(1, **error(-32601)), revision="2025-06-18")),
    ("legal_schemas", _session(*listed({**TOOL, "outputSchema": {"type": "object", "required": 5}}))),
    ("root_uris", _modern(CALL, needs(ROOTS), m(2, "tools/call", {**RETRY, "inputResponses": {"r": {"roots": [{"uri": "https://a/"}]}}}), CALLED)),
    ("", _modern(CALL, done(1, resultType="input_required", inputRequests=ROOTS), m(2, "tools/call", STATELESS_RETRY), CALLED)),
    ("only_requested", _modern(*LISTEN, _acknowledged(True))),
    ("", _modern(*LISTEN, _acknowledged(False))),
    ("subscription_id", _modern(*LISTEN, *ACK, s(None, "notifications/tools/list_changed", {"_meta": {PREFIX + "subscriptionId": 7}}))),
    ("", _http(Web().get(target=OAUTH_SERVER, reply=b"<html>"))),
    ("pkce", _http(_token("grant_type=authorization_code&resource=https://a/"))),
    ("pkce", _http(_auth(AUTHORIZE.replace("code_challenge=y&", "")))),
    ("pkce", _http(_auth(AUTHORIZE.replace("&code_challenge_method=S256", "")))),
    ("ended_session", _http(Web(session="abc").open())),
    ("ended_session", _http(_post(PING, status=404).post(c(6, "ping")[1], status=404))),
    ("negotiated_header", _http(Web().open("2025-06-18").post(PING, headers={"MCP-Protocol-Version": "2030-01-01"}, reply=PONG))),
    ("response_type", _http(_post(PING, reply=b""))),
    *(("missing_session_is_400 session_header", _http(_post(PING, headers={"Mcp-Session-Id": None}, status=status)))
      for status in (402, 405, 422)),
    ("", _session(c(1, "tools/call", {"name": "t"}), s(1, **error(-32042, data={"elicitations": [{"mode": "url", "message": "?", "url": "https://a/", "elicitationId": "e"}]})),
                  s(None, "notifications/elicitation/complete", {"elicitationId": "e"}))),
    ("response_id result_or_error", _session(c(1, "ping"), s(1, result="x"), s(1, result={}))),
    ("json_rpc", _session(s(1, "ping", [1]), c(1, **error(-32602)))),
    ("request_id", _session(s(True, "ping"), s(1, "ping"), c(1, result={}))),
    ("", _http(_post(PING, status=300))),
    ("", _http(Web().open().exchange("DELETE", status=204).post(PING, status=300, connection=2))),
    ("negotiated_header", _http(Web().open("2025-06-18").post(PING, headers={"MCP-Protocol-Version": "1999-01-01"}, status=300))),
    ("", _session(c(1, "ping"), s(1, result={"resultType": "complete"}))),
    ("", _session(c(1, "logging/setLevel", {"level": "error"}), s(1, result={}), c(2, "logging/setLevel", {"level": "info"}),
                  s(None, "notifications/message", {"level": "info", "data": 1}), s(2, result={}))),
    ("version_header", _http(Web().open().get(headers={"MCP-Protocol-Version": None}, stream=[]))),
    ("version_header", (Web().open().get(headers={"MCP-Protocol-Version": None}, stream=[]).events, None)),
    ("version_header", (Web().open().exchange("DELETE", headers={"MCP-Protocol-Version": None}, status=204).events, None)),
    ("resource_parameter", _http(_token("grant_type=refresh_token&resource=a"))),
    ("resource_parameter", _http(_token("grant_type=refresh_token&resource=https://a/%23b"))),
    ("", _http(_token("grant_type=refresh_token&resource=***"))),
    ("poll_interval", _http(_polled(1, 1.3, 1.8995))),
    ("", _http(_polled(0, 0, 0))),  # a recording without times
    ("", _modern(CALL, needs(ROOTS), m(2, "tools/call", {"name": "t"}), CALLED)),
    ("media", _session(*called({"content": [{"type": "resource", "resource": {"uri": "a:b", "blob": "%"}}]}))),
    ("", _http(Web().open().get(stream=[{"sse": s(None, "x")[1], "id": "1"}]).get(stream=[{"sse": s(None, "x")[1], "id": "1"}]))),
]  # fmt: skip
"""The rules that a conversation breaks, where a case above has not its form, and the conversation."""
