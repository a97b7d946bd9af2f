"""A conversation that breaks each rule and nothing else, and a close neighbor that is clean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp_ref.check.recording import Event, Head
from tests.check.conversations import (
    ALL_OF_SERVER,
    HTTP,
    MODERN,
    PREFIX,
    STARTED,
    HttpRecording,
    Messages,
    answered,
    asked,
    cacheable,
    complete,
    error,
    frames,
    from_client,
    from_server,
    handshake,
    stateless,
    stateless_params,
)

Case = tuple[Sequence[Event], Sequence[Event], Head]
TOOL: dict[str, Any] = {"name": "t", "inputSchema": {"type": "object"}}
TEXT = [{"type": "text", "text": "x"}]


def legacy_case(broken: Messages, clean: Messages, revision: str = "2025-11-25", **capabilities: Any) -> Case:
    """Return a case in a session of the legacy era."""
    before = handshake(revision, **capabilities)
    return frames(before + broken), frames(before + clean), STARTED


def case_without_handshake(broken: Messages, clean: Messages) -> Case:
    """Return a case that writes its own first messages."""
    return frames(broken), frames(clean), STARTED


def modern_case(broken: Messages, clean: Messages) -> Case:
    """Return a case of stateless requests, after server/discover."""
    before = [stateless(0, "server/discover"), cacheable(0, supportedVersions=[MODERN], capabilities=ALL_OF_SERVER)]
    return frames(before + broken), frames(before + clean), STARTED


def http_case(broken: HttpRecording, clean: HttpRecording) -> Case:
    return broken.events, clean.events, HTTP


def progress(token: Any, value: Any) -> Any:
    return from_server(None, "notifications/progress", {"progressToken": token, "progress": value})


def cancelled(id: Any) -> Any:
    return from_client(None, "notifications/cancelled", {"requestId": id})


def refused_request(params: Any, revision: str = "2025-11-25", method: str = "sampling/createMessage") -> Messages:
    """Return a request of the server, and its refusal by the user."""
    return asked(1, method, params, **error(-1))


def sampling_params(messages: Any, **more: Any) -> dict[str, Any]:
    return {"messages": messages, "maxTokens": 9, **more}


def chat_message(role: str, *blocks: Any) -> dict[str, Any]:
    return {"role": role, "content": [*blocks] if len(blocks) != 1 else blocks[0]}


TOOL_USE = {"type": "tool_use", "id": "u", "name": "t", "input": {}}
TOOL_RESULT = {"type": "tool_result", "toolUseId": "u", "content": []}
HELLO = sampling_params([chat_message("user", *TEXT)])


def tools_listed(*tools: Any, id: Any = 1, **more: Any) -> Messages:
    return answered(id, "tools/list", {}, result={"tools": [*tools], **more})


def tool_called(result: Any, tool: Any = TOOL, **params: Any) -> Messages:
    return [*tools_listed(tool), *answered(2, "tools/call", {"name": "t", **params}, result=result)]


def form_params(schema: Any, **more: Any) -> dict[str, Any]:
    return {"message": "?", "requestedSchema": schema, **more}


FLAT = {"type": "object", "properties": {"n": {"type": "integer"}}}
SECRET_CHOICE = {"type": "object", "properties": {"token": {"type": "string", "enum": ["a", "b"]}}}
"""A legal schema whose `enum` is masked as `***`."""
TASK: dict[str, Any] = {"taskId": "T", "status": "working", "createdAt": "2025-11-25T10:30:00Z",
                        "lastUpdatedAt": "2025-11-25T10:30:00Z", "ttl": 1000}  # fmt: skip
TASKS = {**TOOL, "execution": {"taskSupport": "optional"}}
TASKS_ONLY, NO_TASKS = ({**TOOL, "execution": {"taskSupport": support}} for support in ("required", "forbidden"))
TASK_BEGUN: Messages = [
    *tools_listed(TASKS),
    *answered(2, "tools/call", {"name": "t", "task": {}}, result={"task": TASK}),
]


def task_polled(id: Any, status: str, method: str = "tasks/get", **more: Any) -> Messages:
    return answered(id, method, {"taskId": "T"}, result={**TASK, "status": status, **more})


LISTEN: Messages = [stateless(1, "subscriptions/listen", {"notifications": {"toolsListChanged": True}})]
SUBSCRIPTION_META = {"_meta": {PREFIX + "subscriptionId": 1}}
ACKNOWLEDGED: Messages = [
    from_server(
        None,
        "notifications/subscriptions/acknowledged",
        {"notifications": {"toolsListChanged": True}, **SUBSCRIPTION_META},
    )
]
CHANGED = from_server(None, "notifications/tools/list_changed", SUBSCRIPTION_META)


def input_required(requests: Any = None, id: Any = 1, **more: Any) -> Any:
    """Return an input_required result."""
    members = {"requestState": "S"} if requests is None else {"requestState": "S", "inputRequests": requests}
    return from_server(
        id,
        result={
            "resultType": "input_required",
            "_meta": {PREFIX + "serverInfo": {"name": "s", "version": "1"}},
            **members,
            **more,
        },
    )


ROOTS = {"r": {"method": "roots/list"}}
CALL = stateless(1, "tools/call", {"name": "t"})
RETRY = {"name": "t", "requestState": "S", "inputResponses": {"r": {"roots": []}}}
CALLED = complete(2, content=[])

CASES: dict[str, Case] = {
    # ------------------------------------------------------------------------------------------------ JSON-RPC
    "json_rpc": legacy_case([("client", {"jsonrpc": "1.0", "id": 1, "method": "ping"})], answered(1)),
    "utf_8": legacy_case([("client", b'{"jsonrpc":"2.0","method":"\xff"}')], []),
    "request_id": legacy_case([("client", {"jsonrpc": "2.0", "id": None, "method": "ping"})], answered("")),
    "notification_without_id": legacy_case(answered(1, "notifications/roots/list_changed", **error(-32601)), [from_client(None, "notifications/roots/list_changed")]),
    "result_or_error": legacy_case(answered(1, "ping", result={}, **error(1)), answered(1, "ping", **error(1))),
    "error_object": legacy_case(answered(1, "ping", error={"code": "1"}), answered(1, "ping", **error(1, ""))),
    "response_id": legacy_case([*answered(1), from_server(1, result={})], answered(1)),
    "id_used_once": legacy_case([*answered(1), *answered(1)], [*answered(1), *answered("1"), *asked(1)]),
    "id_in_flight": modern_case([*LISTEN, *ACKNOWLEDGED, stateless(1, "x")], [*LISTEN, *ACKNOWLEDGED, stateless(2, "x"), from_server(2, **error(-32601))]),
    "no_batch": legacy_case([("client", [{"jsonrpc": "2.0", "id": 1, "method": "ping"}])], answered(1)),
    "specified_code": modern_case([stateless(1, "x"), from_server(1, **error(-32050))], [stateless(1, "x"), from_server(1, **error(-31050))]),
    "replaced_code": modern_case([stateless(1, "resources/read", {"uri": "a:b"}), from_server(1, **error(-32002))],
        [stateless(1, "resources/read", {"uri": "a:b"}), from_server(1, **error(-32602))]),
    "reserved_code": modern_case([stateless(1, "x"), from_server(1, **error(-32001))], [stateless(1, "x"), from_server(1, **error(-1))]),
    "result_type": modern_case([CALL, from_server(1, result={"content": []})], [CALL, complete(1, content=[])]),
    "known_result_type": modern_case([CALL, from_server(1, result={"resultType": "odd"})], [CALL, complete(1, content=[])]),
    "no_request_of_server": modern_case([from_server(1, "roots/list")], [from_server(None, "x")]),
    "no_response_of_client": modern_case([from_client(7, result={})], [from_client(None, "x")]),
    "never_answered": legacy_case([from_client(1, "ping")], answered(1)),
    # ---------------------------------------------------------------------------------------------- lifecycle
    "initialize_first": case_without_handshake(answered(1, "tools/list", **error(-32600)), [*answered(1), *handshake()]),
    "capability_members": case_without_handshake(handshake(server={"tools": {"listChanged": "yes"}}), handshake("2025-06-18", client={"sampling": {"tools": True}})),
    "initialize_alone": case_without_handshake([("client", [handshake("2025-03-26")[0][1]])], handshake("2025-03-26")),
    "client_waits_for_initialize": case_without_handshake([handshake()[0], from_client(1, "tools/list"), *handshake()[1:], from_server(1, result={"tools": []})],
        [handshake()[0], from_client(1, "ping"), *handshake()[1:], from_server(1, result={})]),
    "server_waits_for_initialized": case_without_handshake([*handshake()[:2], from_server(1, "roots/list"), handshake()[2], from_client(1, result={"roots": []})],
        [*handshake()[:2], from_server(1, "ping"), handshake()[2], from_client(1, result={})]),
    "initialized_is_sent": case_without_handshake([*handshake()[:2], *answered(1, "tools/list", result={"tools": []})], [*handshake(), *answered(1, "tools/list", result={"tools": []})]),
    "negotiated_revision": case_without_handshake([handshake()[0], handshake(MODERN)[1]], handshake()[:2]),
    "method_of_revision": legacy_case(asked(1, "elicitation/create", form_params(FLAT), **error(-32601)), asked(1, "roots/list", result={"roots": []}), revision="2025-03-26"),
    "capability_of_receiver": legacy_case(asked(1, "roots/list", **error(-32601)), asked(1), client={}),
    "capability_of_sender": legacy_case([from_server(None, "notifications/tools/list_changed")], [progress(1, 1)][:0], server={"tools": {}}),
    "empty_pong": legacy_case(answered(1, "ping", result={"a": 1}), answered(1, "ping", result={"_meta": {}})),
    "supported_is_listed": modern_case([stateless(1, "x", revision="2030-01-01"), from_server(1, **error(-32022))],
        [stateless(1, "x", revision="2030-01-01"), from_server(1, **error(-32022, data={"supported": [MODERN], "requested": "2030-01-01"}))]),
    "required_capabilities_are_listed": modern_case([stateless(1, "x"), from_server(1, **error(-32021))],
        [stateless(1, "x"), from_server(1, **error(-32021, data={"requiredCapabilities": {"roots": {}}}))]),
    "discover_is_served": case_without_handshake([stateless(1, "tools/list"), cacheable(1, tools=[]), stateless(2, "server/discover"), from_server(2, **error(-32601))],
        [stateless(1, "tools/list"), cacheable(1, tools=[]), stateless(2, "x"), from_server(2, **error(-32601))]),
    "probe_comes_first": case_without_handshake([stateless(1, "tools/list"), from_server(1, **error(-32601)), *answered(2, "initialize", handshake()[0][1]["params"], **error(1))],
        [stateless(1, "server/discover"), from_server(1, **error(-32601)), *answered(2, "initialize", handshake()[0][1]["params"], **error(1))]),
    "discover_names_modern": case_without_handshake([stateless(0, "server/discover"), cacheable(0, supportedVersions=["2025-11-25"], capabilities={})],
        [stateless(0, "server/discover"), cacheable(0, supportedVersions=[MODERN], capabilities={})]),
    "refusal_names_revisions": modern_case(answered(2, "initialize", handshake()[0][1]["params"], **error(-32601)),
        answered(2, "initialize", handshake()[0][1]["params"], **error(-32601, f"only {MODERN}"))),
    # --------------------------------------------------------------------------------------------------- _meta
    "meta_keys": legacy_case(answered(1, "ping", {"_meta": {"-a": 1}}), answered(1, "ping", {"_meta": {"a.b/c": 1}})),
    "trace_context": modern_case(answered(1, "x", {"_meta": {**stateless_params()["_meta"], "traceparent": "1"}}, **error(-32601)),
        answered(1, "x", {"_meta": {**stateless_params()["_meta"], "traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}}, **error(-32601))),
    "required_meta": modern_case(answered(1, "x", **error(-32602)), [stateless(1, "x"), from_server(1, **error(-32602))]),
    "client_info": modern_case(answered(1, "x", {"_meta": {k: v for k, v in stateless_params()["_meta"].items() if "Info" not in k}}, **error(-32601)),
        [stateless(1, "x"), from_server(1, **error(-32601))]),
    "server_info": modern_case([CALL, from_server(1, result={"resultType": "complete", "content": []})], [CALL, complete(1, content=[])]),
    "server_info_of_discover": case_without_handshake([stateless(0, "server/discover"), cacheable(0, supportedVersions=[MODERN], capabilities={}, _meta={})],
        [stateless(0, "server/discover"), cacheable(0, supportedVersions=[MODERN], capabilities={})]),
    "reverse_dns": legacy_case(answered(1, "ping", {"_meta": {"example/a": 1}}), answered(1, "ping", {"_meta": {"com.x/a": 1}})),
    "extension_names": modern_case([stateless(1, "x", clientCapabilities={"extensions": {"a": {}}}), from_server(1, **error(-32601))],
        [stateless(1, "x", clientCapabilities={"extensions": {"a.b/c": {}}}), from_server(1, **error(-32601))]),
    # -------------------------------------------------------------------------------------------------- shapes
    "params_fit": legacy_case(answered(1, "tools/call", {"name": 1}, **error(-32602)), answered(1, "tools/call", {"name": "t"}, **error(-32602))),
    "result_fits": legacy_case(answered(1, "tools/list", result={"tools": [{}]}), tools_listed(TOOL)),
    "meta_fits": modern_case([stateless(1, "x", clientInfo={"name": "c"}), from_server(1, **error(-32601))], [stateless(1, "x"), from_server(1, **error(-32601))]),
    "progress_token_type": legacy_case(answered(1, "ping", {"_meta": {"progressToken": 1.5}}), answered(1, "ping", {"_meta": {"progressToken": ""}})),
    "members_of_revision": legacy_case(answered(1, "tools/list", result={"tools": [{**TOOL, "title": "x"}]}), tools_listed(TOOL), revision="2025-03-26"),
    "output_is_messages": legacy_case([("server", b"hello")], [("server", b' {"jsonrpc":"2.0","method":"x"}\r')]),
    "input_is_messages": legacy_case([("client", b"hello")], [from_client(None, "x")]),
    "deprecated": case_without_handshake([stateless(1, "x"), from_server(1, **error(-32601))], [stateless(1, "x", clientCapabilities={}), from_server(1, **error(-32601))]),
    # ------------------------------------------------------------------------------- progress and cancellation
    "known_token": legacy_case([progress("p", 1)], [from_client(1, "ping", {"_meta": {"progressToken": "p"}}), progress("p", 1), from_server(1, result={})]),
    "after_response": legacy_case([*answered(1, "ping", {"_meta": {"progressToken": "p"}}), progress("p", 1)],
        [from_client(1, "ping", {"_meta": {"progressToken": "p"}}), progress("p", 1), from_server(1, result={})]),
    "growing_value": legacy_case([from_client(1, "ping", {"_meta": {"progressToken": 0}}), *[progress(0, 1)] * 2, from_server(1, result={})],
        [from_client(1, "ping", {"_meta": {"progressToken": 0}}), *[progress(0, n) for n in (1, 1.5)], from_server(1, result={})]),
    "unique_token": legacy_case([from_client(n, "ping", {"_meta": {"progressToken": 0}}) for n in (1, 2)] + [from_server(n, result={}) for n in (1, 2)],
        [x for n in (1, 2) for x in (from_client(n, "ping", {"_meta": {"progressToken": 0}}), from_server(n, result={}))]),
    "initialize_is_not_cancelled": case_without_handshake([handshake()[0], cancelled(0), *handshake()[1:]], handshake()),
    "own_request": legacy_case([cancelled(9)], [from_client(9, "ping"), cancelled(9)]),
    "server_cancels_subscription": modern_case([CALL, from_server(None, "notifications/cancelled", {"requestId": 1}), complete(1, content=[])],
        [*LISTEN, *ACKNOWLEDGED, from_server(None, "notifications/cancelled", {"requestId": 1, **SUBSCRIPTION_META}), complete(1)]),
    "task_is_cancelled_as_task": legacy_case([*TASK_BEGUN, cancelled(2)], [*TASK_BEGUN, *task_polled(3, "cancelled", "tasks/cancel")]),
    "no_response_after_cancellation": legacy_case([from_client(1, "tools/list"), cancelled(1), *answered(2), from_server(1, result={"tools": []})],
        [from_client(1, "tools/list"), from_client(2, "ping"), cancelled(1), from_server(2, result={}), from_server(1, result={"tools": []})]),
    # ------------------------------------------------------------------------------------------- subscriptions
    "subscription_id": modern_case([*LISTEN, *ACKNOWLEDGED, from_server(None, "notifications/tools/list_changed")], [*LISTEN, *ACKNOWLEDGED, CHANGED]),
    "acknowledged_first": modern_case([*LISTEN, CHANGED, *ACKNOWLEDGED], [*LISTEN, *ACKNOWLEDGED, CHANGED]),
    "only_requested": modern_case([*LISTEN, *ACKNOWLEDGED, from_server(None, "notifications/prompts/list_changed", SUBSCRIPTION_META)], [*LISTEN, *ACKNOWLEDGED, CHANGED]),
    "subscribed_resource": legacy_case([from_server(None, "notifications/resources/updated", {"uri": "a:b"})],
        [*answered(1, "resources/subscribe", {"uri": "a:b"}), from_server(None, "notifications/resources/updated", {"uri": "a:b"})]),
    # ----------------------------------------------------------------------------------------------------- MRTR
    "input_of_method": modern_case([stateless(1, "tools/list"), input_required()], [CALL, input_required()]),
    "input_or_state": modern_case([CALL, from_server(1, result={"resultType": "input_required", "_meta": {PREFIX + "serverInfo": {"name": "s", "version": "1"}}})], [CALL, input_required()]),
    "input_requests": modern_case([CALL, input_required({"r": {"method": "ping"}})], [CALL, input_required(ROOTS)]),
    "input_is_declared": modern_case([stateless(1, "tools/call", {"name": "t"}, clientCapabilities={}), input_required(ROOTS)], [CALL, input_required(ROOTS)]),
    "retry_has_new_id": modern_case([CALL, input_required(ROOTS), stateless(1, "tools/call", RETRY), complete(1, content=[])],
                            [CALL, input_required(ROOTS), stateless(2, "tools/call", RETRY), CALLED]),
    "state_of_request": modern_case([CALL, input_required(ROOTS), stateless(2, "tools/call", {**RETRY, "name": "u"}), CALLED],
                            [CALL, input_required(ROOTS), stateless(2, "tools/call", RETRY), CALLED]),
    "state_is_returned": modern_case([CALL, input_required(ROOTS), stateless(2, "tools/call", {**RETRY, "requestState": "X"}), CALLED],
                             [CALL, input_required(ROOTS), stateless(2, "tools/call", RETRY), CALLED]),
    "input_is_complete": modern_case([CALL, input_required(ROOTS), stateless(2, "tools/call", {**RETRY, "inputResponses": {}}), CALLED],
                             [CALL, input_required(ROOTS), stateless(2, "tools/call", RETRY), CALLED]),
    # ---------------------------------------------------------------------------------------------------- tasks
    "begins_working": legacy_case([*TASK_BEGUN[:-1], from_server(2, result={"task": {**TASK, "status": "input_required"}})], TASK_BEGUN),
    "unique_task_id": legacy_case([*TASK_BEGUN, *answered(3, "tools/call", {"name": "t", "task": {}}, result={"task": TASK})],
        [*TASK_BEGUN, *answered(3, "tools/call", {"name": "t", "task": {}}, result={"task": {**TASK, "taskId": "U"}})]),
    "terminal_status": legacy_case([*TASK_BEGUN, *task_polled(3, "completed"), *task_polled(4, "working")], [*TASK_BEGUN, *task_polled(3, "input_required"), *task_polled(4, "working")]),
    "task_times": legacy_case([*TASK_BEGUN, *task_polled(3, "working", createdAt="now")], [*TASK_BEGUN, *task_polled(3, "working", createdAt="2025-11-25T10:30:00.123+01:00")]),
    "task_is_declared": legacy_case(answered(2, "tools/call", {"name": "t", "task": {}}, result={"content": []}),
        answered(2, "tools/call", {"name": "t"}, result={"content": []}), server={"tools": {}}),
    "tool_allows_task": legacy_case([*tools_listed(TOOL), *answered(2, "tools/call", {"name": "t", "task": {}}, **error(-32601))],
        [*tools_listed(TOOL), *answered(2, "tools/call", {"name": "t"}, result={"content": []})]),
    "task_is_returned": legacy_case([*TASK_BEGUN[:-1], from_server(2, result={"content": []})], TASK_BEGUN),
    "related_task": legacy_case([*TASK_BEGUN, *answered(3, "tasks/result", {"taskId": "T"}, result={"content": []})],
        [*TASK_BEGUN, *answered(3, "tasks/result", {"taskId": "T"}, result={"content": [], "_meta": {PREFIX + "related-task": {"taskId": "T"}}})]),
    "no_related_task": legacy_case([*TASK_BEGUN, *task_polled(3, "working", _meta={PREFIX + "related-task": {"taskId": "T"}})], [*TASK_BEGUN, *task_polled(3, "working")]),
    "unknown_task": legacy_case(answered(3, "tasks/get", {"taskId": "X"}, **error(-32603)), answered(3, "tasks/get", {"taskId": "X"}, **error(-32602))),
    "ended_task_is_not_cancelled": legacy_case(
        [*TASK_BEGUN, *task_polled(3, "cancelled"), *task_polled(4, "cancelled", "tasks/cancel")], [*TASK_BEGUN, *task_polled(4, "cancelled", "tasks/cancel")]),
    "cancelled_status": legacy_case([*TASK_BEGUN, *task_polled(3, "working", "tasks/cancel")], [*TASK_BEGUN, *task_polled(3, "cancelled", "tasks/cancel")]),
    "failure_has_message": legacy_case([*TASK_BEGUN, *task_polled(3, "failed")], [*TASK_BEGUN, *task_polled(3, "failed", statusMessage="disk full")]),
    # ---------------------------------------------------------------------------------------------------- tools
    "legal_schemas": legacy_case(tools_listed({**TOOL, "inputSchema": {"type": "object", "required": "a"}}), tools_listed({**TOOL, "inputSchema": SECRET_CHOICE})),
    "object_schema": legacy_case(tools_listed({**TOOL, "inputSchema": {}}), tools_listed(TOOL)),
    "tool_names": legacy_case(tools_listed({**TOOL, "name": "a b"}), tools_listed({**TOOL, "name": "a.b-c_D"})),
    "unique_tool_names": legacy_case(tools_listed(TOOL, TOOL), tools_listed(TOOL, {**TOOL, "name": "T"})),
    "parameter_header_names": modern_case([stateless(1, "tools/list"), cacheable(1, tools=[{**TOOL, "inputSchema": {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "a b"}}}}])],
        [stateless(1, "tools/list"), cacheable(1, tools=[{**TOOL, "inputSchema": {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "A"}}}}])]),
    "stable_order": modern_case([stateless(1, "tools/list"), cacheable(1, tools=[TOOL, {**TOOL, "name": "u"}]), stateless(2, "tools/list"), cacheable(2, tools=[{**TOOL, "name": "u"}, TOOL])],
        [stateless(1, "tools/list"), cacheable(1, tools=[TOOL, {**TOOL, "name": "u"}]), stateless(2, "tools/list"), cacheable(2, tools=[TOOL, {**TOOL, "name": "u"}])]),
    "structured_content_fits": legacy_case(tool_called({"content": TEXT, "structuredContent": {"n": "x"}}, {**TOOL, "outputSchema": FLAT}),
        tool_called({"content": TEXT, "structuredContent": {"n": 1}}, {**TOOL, "outputSchema": FLAT})),
    "structured_content_as_text": legacy_case(tool_called({"content": [], "structuredContent": {}}), tool_called({"content": TEXT, "structuredContent": {}})),
    "arguments_fit": legacy_case(tool_called({"content": []}, {**TOOL, "inputSchema": FLAT}, arguments={"n": "x"}),
        tool_called({"content": [], "isError": True}, {**TOOL, "inputSchema": FLAT}, arguments={"n": "x"})),
    "embedded_resources": legacy_case(tool_called({"content": [{"type": "resource", "resource": {"uri": "a:b", "text": ""}}]}), tool_called({"content": []}), server={"tools": {}}),
    "declared_list_is_served": legacy_case(answered(1, "prompts/list", **error(-32601)), answered(1, "prompts/list", **error(-32603))),
    # -------------------------------------------------------------------------------------------------- content
    "media": legacy_case(tool_called({"content": [{"type": "image", "data": "%", "mimeType": "image/png"}]}),
        tool_called({"content": [{"type": "image", "data": "AA==", "mimeType": "image/png"}]})),
    "embedded_resource": legacy_case(answered(1, "prompts/get", {"name": "p"}, result={"messages": [chat_message("user", {"type": "resource", "resource": {"uri": "a:b", "text": ""}})]}),
        answered(1, "prompts/get", {"name": "p"}, result={"messages": [chat_message("user", {"type": "resource", "resource": {"uri": "a:b", "text": "", "mimeType": "text/plain"}})]})),
    "resource_uris": legacy_case(answered(1, "resources/list", result={"resources": [{"uri": "no scheme", "name": "r"}]}),
        answered(1, "resources/list", result={"resources": [{"uri": "a:b", "name": "r"}]})),
    "templates": legacy_case(answered(1, "resources/templates/list", result={"resourceTemplates": [{"uriTemplate": "a:{", "name": "r"}]}),
        answered(1, "resources/templates/list", result={"resourceTemplates": [{"uriTemplate": "a:{b}", "name": "r"}]})),
    "icons": legacy_case(tools_listed({**TOOL, "icons": [{"src": "file:///x"}]}), tools_listed({**TOOL, "icons": [{"src": "https://x/y"}]})),
    # ------------------------------------------------------------------------------- pagination, caching, logging
    "known_cursor": legacy_case(answered(1, "tools/list", {"cursor": "X"}, **error(-32602)),
        [*tools_listed(TOOL, nextCursor="X"), *answered(2, "tools/list", {"cursor": "X"}, result={"tools": []})]),
    "cursor_moves": legacy_case([*tools_listed(TOOL, nextCursor="X"), *answered(2, "tools/list", {"cursor": "X"}, result={"tools": [], "nextCursor": "X"})],
        [*tools_listed(TOOL, nextCursor="X"), *answered(2, "tools/list", {"cursor": "X"}, result={"tools": [], "nextCursor": "Y"})]),
    "hints": modern_case([stateless(1, "tools/list"), complete(1, tools=[])], [stateless(1, "tools/list"), cacheable(1, tools=[])]),
    "negative_ttl": modern_case([stateless(1, "tools/list"), cacheable(1, tools=[], ttlMs=-1)], [stateless(1, "tools/list"), cacheable(1, tools=[])]),
    "scope_of_pages": modern_case([stateless(1, "tools/list"), cacheable(1, tools=[], nextCursor="X"), stateless(2, "tools/list", {"cursor": "X"}), cacheable(2, tools=[], cacheScope="private")],
        [stateless(1, "tools/list"), cacheable(1, tools=[], nextCursor="X"), stateless(2, "tools/list", {"cursor": "X"}), cacheable(2, tools=[])]),
    "level_of_session": legacy_case([*answered(1, "logging/setLevel", {"level": "error"}), from_server(None, "notifications/message", {"level": "info", "data": 1})],
        [*answered(1, "logging/setLevel", {"level": "error"}), from_server(None, "notifications/message", {"level": "alert", "data": 1})]),
    "asked_for_logs": modern_case([CALL, from_server(None, "notifications/message", {"level": "info", "data": 1}), complete(1, content=[])],
        [stateless(1, "tools/call", {"name": "t"}, logLevel="info"), from_server(None, "notifications/message", {"level": "info", "data": 1}), complete(1, content=[])]),
    "not_on_subscription": modern_case([*LISTEN, *ACKNOWLEDGED, stateless(2, "tools/call", {"name": "t"}, logLevel="info"), from_server(None, "notifications/message", {"level": "info", "data": 1, **SUBSCRIPTION_META}), CALLED],
        [*LISTEN, *ACKNOWLEDGED, stateless(2, "tools/call", {"name": "t"}, logLevel="info"), from_server(None, "notifications/message", {"level": "info", "data": 1}), CALLED]),
    "unknown_level_is_refused": modern_case([stateless(1, "tools/call", {"name": "t"}, logLevel="loud"), complete(1, content=[])],
        [stateless(1, "tools/call", {"name": "t"}, logLevel="loud"), from_server(1, **error(-32602))]),
    # ------------------------------------------------------------------------------------------ client features
    "tools_are_declared": legacy_case(refused_request(sampling_params([chat_message("user", *TEXT)], tools=[])), refused_request(HELLO), client={"sampling": {}}),
    "context_is_declared": legacy_case(refused_request({**HELLO, "includeContext": "thisServer"}), refused_request({**HELLO, "includeContext": "none"}), client={"sampling": {}}),
    "tool_uses_have_results": legacy_case(refused_request(sampling_params([chat_message("user", *TEXT), chat_message("assistant", TOOL_USE), chat_message("user", *TEXT)])),
        refused_request(sampling_params([chat_message("user", *TEXT), chat_message("assistant", TOOL_USE), chat_message("user", TOOL_RESULT)]))),
    "tool_choice": legacy_case(asked(1, "sampling/createMessage", {**HELLO, "toolChoice": {"mode": "none"}}, result={**chat_message("assistant", TOOL_USE), "model": "m"}),
        asked(1, "sampling/createMessage", {**HELLO, "toolChoice": {"mode": "auto"}}, result={**chat_message("assistant", TOOL_USE), "model": "m"})),
    "declared_mode": legacy_case(asked(1, "elicitation/create", {"mode": "url", "message": "?", "url": "https://a/", "elicitationId": "e"}, **error(-32602)),
        asked(1, "elicitation/create", form_params(FLAT), result={"action": "decline"}), client={"elicitation": {}}),
    "flat_schema": legacy_case(asked(1, "elicitation/create", form_params({"type": "object", "properties": {"o": {"type": "object"}}}), result={"action": "decline"}),
        asked(1, "elicitation/create", form_params(SECRET_CHOICE), result={"action": "decline"})),
    "valid_url": legacy_case(asked(1, "elicitation/create", {"mode": "url", "message": "?", "url": "a b", "elicitationId": "e"}, result={"action": "decline"}),
        asked(1, "elicitation/create", {"mode": "url", "message": "?", "url": "https://a/", "elicitationId": "e"}, result={"action": "decline"})),
    "https_url": legacy_case(asked(1, "elicitation/create", {"mode": "url", "message": "?", "url": "http://a/", "elicitationId": "e"}, result={"action": "decline"}),
        asked(1, "elicitation/create", {"mode": "url", "message": "?", "url": "http://localhost/", "elicitationId": "e"}, result={"action": "decline"})),
    "content_fits": legacy_case(asked(1, "elicitation/create", form_params(FLAT), result={"action": "accept", "content": {"n": "x"}}),
        asked(1, "elicitation/create", form_params(FLAT), result={"action": "accept", "content": {"n": 1}})),
    "required_elicitations": legacy_case(answered(1, "tools/call", {"name": "t"}, **error(-32042)),
        answered(1, "tools/call", {"name": "t"}, **error(-32042, data={"elicitations": [{"mode": "url", "message": "?", "url": "https://a/", "elicitationId": "e"}]}))),
    "known_elicitation": legacy_case([from_server(None, "notifications/elicitation/complete", {"elicitationId": "e"})],
        [*asked(1, "elicitation/create", {"mode": "url", "message": "?", "url": "https://a/", "elicitationId": "e"}, result={"action": "accept"}),
        from_server(None, "notifications/elicitation/complete", {"elicitationId": "e"})]),
    "root_uris": legacy_case(asked(1, "roots/list", result={"roots": [{"uri": "https://a/"}]}), asked(1, "roots/list", result={"roots": [{"uri": "file:///a"}]})),
    "completion_values": legacy_case(answered(1, "completion/complete", {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}}, result={"completion": {"values": ["x"] * 101}}),
        answered(1, "completion/complete", {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}}, result={"completion": {"values": ["x"] * 100}})),
}  # fmt: skip

PAIRS: dict[str, tuple[str, Case]] = {
    "feature_is_declared": (
        "capability_of_receiver", legacy_case(tools_listed(), answered(1, "tools/list", **error(-32601)), server={})),
    "code_for_undeclared_feature": (
        "capability_of_receiver", legacy_case(
            asked(1, "roots/list", **error(-32603)), asked(1, "roots/list", **error(-32601)), client={})),
    "malformed_request_is_refused": (
        "required_meta", modern_case([from_client(1, "tools/list"), cacheable(1, tools=[])], answered(1, "tools/list", **error(-32602)))),
    "invalid_cursor_is_refused": (
        "known_cursor", legacy_case(answered(1, "tools/list", {"cursor": "X"}, result={"tools": []}),
                            answered(1, "tools/list", {"cursor": "X"}, **error(-32602)))),
    "wrong_call_is_refused": (
        "tool_allows_task", legacy_case([*tools_listed(TOOL), *answered(2, "tools/call", {"name": "t", "task": {}}, result={"task": TASK})],
                                [*tools_listed(TOOL), *answered(2, "tools/call", {"name": "t", "task": {}}, **error(-32601))])),
    "undeclared_mode_is_refused": (
        "declared_mode", legacy_case(
            asked(1, "elicitation/create", {"mode": "url", "message": "?", "url": "https://a/", "elicitationId": "e"}, result={"action": "decline"}),
            asked(1, "elicitation/create", {"mode": "url", "message": "?", "url": "https://a/", "elicitationId": "e"}, **error(-32602)),
            client={"elicitation": {}})),
}  # fmt: skip
"""A rule about the response to a wrong message -> the rule that the message breaks, and the case."""


def _post(message: Any, *, opened: HttpRecording | None = None, **more: Any) -> HttpRecording:
    return (opened or HttpRecording().open()).post(message, **more)


PING = from_client(5, "ping")[1]
PONG = from_server(5, result={})[1]
LIST_REQUEST = stateless(5, "tools/list")[1]
EMPTY_LIST = cacheable(5, tools=[])[1]
NOTIFICATION = from_client(None, "notifications/roots/list_changed")[1]
TOOL_WITH_BAD_HEADER = {
    **TOOL,
    "inputSchema": {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "a b"}}},
}
WELL_KNOWN = "/.well-known/oauth-protected-resource"
AUTHORIZE = (
    "/authorize?response_type=code&client_id=x&code_challenge=y&code_challenge_method=S256&state=z&resource=https://a/"
)
OAUTH_SERVER = "/.well-known/oauth-authorization-server"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
RESUMABLE_STREAM = [{"sse": None, "id": "1"}, {"sse": PONG, "id": "2"}]


def _authorization(target: str = AUTHORIZE, **more: Any) -> HttpRecording:
    return HttpRecording().open().exchange("GET", target=target, status=302, headers={"Mcp-Session-Id": None}, **more)


def _redirected(more: str) -> HttpRecording:
    """Return an authorization of the modern era, whose redirect has a code and `more`."""
    location = {"Location": "http://localhost:1/back?code=z" + more}
    web = HttpRecording().post(LIST_REQUEST, reply=EMPTY_LIST)
    return web.get(target=AUTHORIZE + "&redirect_uri=http://localhost:1/back", status=302, answer=location)


def _issuer_metadata(path: str, issuer: str) -> HttpRecording:
    return (
        HttpRecording().post(LIST_REQUEST, reply=EMPTY_LIST).get(target=OAUTH_SERVER + path, reply={"issuer": issuer})
    )


def _polled(*times: float) -> HttpRecording:
    """Return a task with a pollInterval of a second, and `tasks/get` at some times, in seconds."""
    web = HttpRecording().open()
    task = {**TASK, "pollInterval": 1000}
    web.post(TASK_BEGUN[0][1], reply=TASK_BEGUN[1][1]).post(
        TASK_BEGUN[2][1], reply=from_server(2, result={"task": task})[1]
    )
    for id, web.at in enumerate(times, 3):
        web.post(from_client(id, "tasks/get", {"taskId": "T"})[1], reply=from_server(id, result=task)[1])
    return web


def _token(body: str) -> HttpRecording:
    return HttpRecording().open().exchange("POST", body.encode(), target="/token", headers=FORM, reply={})


def _challenged(status: int, text: str) -> HttpRecording:
    return HttpRecording().post(handshake("2025-06-18")[0][1], status=status, answer={"WWW-Authenticate": text})


def _registered(**metadata: Any) -> HttpRecording:
    members = {"redirect_uris": ["http://localhost/"], "application_type": "native", "grant_types": ["refresh_token"]}
    return (
        HttpRecording()
        .post(LIST_REQUEST, reply=EMPTY_LIST)
        .exchange("POST", {**members, **metadata}, target="/register", status=201, reply={})
    )


def _resumed(id: str, at: float, stream: Any) -> HttpRecording:
    opened = HttpRecording().open().post(PING, stream=[{"sse": None, "id": "1", "retry": 1000}])
    opened.at = at
    return opened.get(headers={"Last-Event-ID": id}, stream=stream)


WEB_CASES: dict[str, Case] = {
    "post_only": http_case(HttpRecording().open().exchange("PUT", PING, status=405), _post(PING, reply=PONG)),
    "post_accepts_both": http_case(_post(PING, headers={"Accept": "application/json"}, reply=PONG), _post(PING, headers={"Accept": "*/*"}, reply=PONG)),
    "get_accepts_events": http_case(HttpRecording().open().get(headers={"Accept": "text/html"}, status=405), HttpRecording().open().get(headers={"Accept": "text/event-stream"}, status=405)),
    "post_is_json": http_case(_post(PING, headers={"Content-Type": "text/plain"}, reply=PONG), _post(PING, headers={"Content-Type": "application/json; charset=utf-8"}, reply=PONG)),
    "version_header": http_case(_post(PING, headers={"MCP-Protocol-Version": None}, reply=PONG), _post(PING, reply=PONG)),
    "negotiated_header": http_case(_post(PING, headers={"MCP-Protocol-Version": "2025-06-18"}, reply=PONG), _post(PING, reply=PONG)),
    "mirrored_headers": http_case(HttpRecording().post(LIST_REQUEST, headers={"Mcp-Method": "tools/call"}, status=400, reply=from_server(5, **error(-32020))[1]), HttpRecording().post(LIST_REQUEST, reply=EMPTY_LIST)),
    "session_header": http_case(_post(PING, headers={"Mcp-Session-Id": None}, status=400), _post(PING, reply=PONG)),
    "ended_session": http_case(
        HttpRecording().open().exchange("DELETE", status=204).post(PING, status=404), HttpRecording().open().exchange("DELETE", status=204).post(PING, status=404, connection=2)),
    "ended_session_is_404": http_case(
        HttpRecording().open().exchange("DELETE", status=204).post(PING, reply=PONG, connection=2), HttpRecording().open().exchange("DELETE", status=204).post(PING, status=404, connection=2)),
    "visible_session_id": http_case(HttpRecording().open(session="a b"), HttpRecording().open(session="a~b")),
    "accepted": http_case(_post(NOTIFICATION, status=200), _post(NOTIFICATION, status=202)),
    "response_type": http_case(_post(PING, reply=PONG, answer={"Content-Type": "text/html"}), _post(PING, stream=RESUMABLE_STREAM)),
    "get_is_stream": http_case(HttpRecording().open().get(reply=b"x", answer={"Content-Type": "text/plain"}), HttpRecording().open().get(stream=[])),
    "buffering": http_case(HttpRecording().post(LIST_REQUEST, stream=[EMPTY_LIST], answer={"X-Accel-Buffering": None}), HttpRecording().post(LIST_REQUEST, stream=[EMPTY_LIST])),
    "status_of_error": http_case(HttpRecording().post(LIST_REQUEST, reply=EMPTY_LIST).post(LIST_REQUEST, reply=from_server(5, **error(-32601))[1]), HttpRecording().post(LIST_REQUEST, reply=EMPTY_LIST).post(LIST_REQUEST, status=404, reply=from_server(5, **error(-32601))[1])),
    "stream_brings_response": http_case(_post(PING, stream=[]), _post(PING, stream=[], end="client")),
    "retry_before_close": http_case(_post(PING, stream=[{"sse": None, "id": "1"}]), _post(PING, stream=[{"sse": None, "id": "1", "retry": 5}])),
    "waits_for_retry": http_case(_resumed("1", 0.1, [{"sse": PONG, "id": "2"}]), _resumed("1", 1.0, [{"sse": PONG, "id": "2"}])),
    "response_is_last": http_case(
        _post(PING, stream=[{"sse": None, "id": "0"}, PONG, from_server(None, "x")[1]]), _post(PING, stream=[{"sse": None, "id": "0"}, from_server(None, "x")[1], PONG])),
    "no_response_on_get": http_case(_post(PING, stream=[], end="client").get(stream=[PONG]), _post(PING, stream=[], end="client").get(stream=[from_server(None, "x")[1]])),
    "unique_event_id": http_case(_post(PING, stream=RESUMABLE_STREAM).get(stream=[{"sse": from_server(None, "x")[1], "id": "2"}]), _post(PING, stream=RESUMABLE_STREAM).get(stream=[{"sse": from_server(None, "x")[1], "id": "3"}])),
    "events_of_stream": http_case(HttpRecording().open().get(stream=[{"sse": from_server(None, "x")[1], "id": "9"}], end="client").post(PING, stream=[{"sse": None, "id": "1", "retry": 0}]).get(headers={"Last-Event-ID": "1"}, stream=[{"sse": from_server(None, "x")[1], "id": "9"}, {"sse": PONG, "id": "2"}]),
        HttpRecording().open().get(stream=[{"sse": from_server(None, "x")[1], "id": "9"}], end="client").post(PING, stream=[{"sse": None, "id": "1", "retry": 0}]).get(headers={"Last-Event-ID": "1"}, stream=[{"sse": PONG, "id": "2"}])),
    "known_event_id": http_case(HttpRecording().open().get(headers={"Last-Event-ID": "1"}, stream=[]), _resumed("1", 2.0, [{"sse": PONG, "id": "2"}])),
    "priming_event": http_case(_post(PING, stream=[PONG]), _post(PING, stream=RESUMABLE_STREAM)),
    "graceful_end": http_case(HttpRecording().post(LISTEN[0][1], stream=[ACKNOWLEDGED[0][1]]), HttpRecording().post(LISTEN[0][1], stream=[ACKNOWLEDGED[0][1], complete(1)[1]])),
    "no_token_in_query": http_case(HttpRecording().open().get(target="/mcp?access_token=x", status=405), HttpRecording().open().get(target="/mcp?a=x", status=405)),
    "authorization_in_each_request": http_case(
        _post(PING, headers={"Authorization": "Bearer x"}, reply=PONG).post(from_client(6, "ping")[1], status=401), _post(PING, headers={"Authorization": "Bearer x"}, reply=PONG)),
    "challenge_of_401": http_case(_challenged(401, "Bearer"), _challenged(401, 'Bearer resource_metadata="https://a/"')),
    "status_of_challenge": http_case(_challenged(401, 'Bearer error="insufficient_scope", resource_metadata="https://a/"'), _challenged(403, 'Bearer error="insufficient_scope"')),
    "insufficient_scope": http_case(_post(PING, status=403, answer={"WWW-Authenticate": 'Bearer error="insufficient_scope", scope="a"'}),
        _post(PING, status=403, answer={"WWW-Authenticate": 'Bearer error="insufficient_scope", scope="a", resource_metadata="https://a/"'})),
    "scope_of_401": http_case(_post(PING, status=401, answer={"WWW-Authenticate": "Bearer"}), _post(PING, status=401, answer={"WWW-Authenticate": 'Bearer scope="a"'})),
    "no_offline_access": http_case(
        HttpRecording().post(LIST_REQUEST, status=401, answer={"WWW-Authenticate": 'Bearer scope="a offline_access"'}), HttpRecording().post(LIST_REQUEST, status=401, answer={"WWW-Authenticate": 'Bearer scope="a"'})),
    "resource_metadata": http_case(
        HttpRecording().get(target=WELL_KNOWN, reply={"resource": "https://a/"}), HttpRecording().get(target=WELL_KNOWN, reply={"resource": "https://a/", "authorization_servers": ["https://b/"]})),
    "secure_endpoints": http_case(HttpRecording().get(target="/.well-known/oauth-authorization-server", reply={"token_endpoint": "http://a/"}),
        HttpRecording().get(target="/.well-known/oauth-authorization-server", reply={"token_endpoint": "http://localhost/"})),
    "issuer": http_case(_issuer_metadata("/a", "https://b.example/"), _issuer_metadata("/a", "https://b.example/a")),
    "iss_parameter": http_case(_redirected(""), _redirected("&iss=https://b.example")),
    "poll_interval": http_case(_polled(1, 1.3, 1.6), _polled(1, 1.3, 2.3, 3.3)),
    "pkce_in_metadata": http_case(_post(PING, reply=PONG).get(target="/.well-known/openid-configuration", reply={"issuer": "https://a"}),
        _post(PING, reply=PONG).get(target="/.well-known/openid-configuration", reply={"code_challenge_methods_supported": ["S256"]})),
    "pkce": http_case(_authorization(AUTHORIZE.replace("S256", "plain")), _authorization()),
    "resource_parameter": http_case(_token("grant_type=refresh_token"), _token("grant_type=refresh_token&resource=https://a/")),
    "state_parameter": http_case(_authorization(AUTHORIZE.replace("&state=z", "")), _authorization()),
    "redirect_uri": http_case(_authorization(AUTHORIZE + "&redirect_uri=http://a/"), _authorization(AUTHORIZE + "&redirect_uri=http://127.0.0.1:9/")),
    "client_id_url": http_case(_authorization(AUTHORIZE.replace("client_id=x", "client_id=http://a/b")), _authorization(AUTHORIZE.replace("client_id=x", "client_id=https://a/b"))),
    "application_type": http_case(_registered(application_type=None), _registered()),
    "refresh_grant": http_case(_registered(grant_types=["authorization_code"]), _registered(grant_types=["authorization_code", "refresh_token"])),
}  # fmt: skip

WEB_PAIRS: dict[str, tuple[str, Case]] = {
    "invalid_version_is_refused": (
        "negotiated_header", http_case(
            HttpRecording().open("2025-06-18").post(PING, headers={"MCP-Protocol-Version": "1999-01-01"}, reply=PONG),
            HttpRecording().open("2025-06-18").post(PING, headers={"MCP-Protocol-Version": "1999-01-01"}, status=400))),
    "excluded_tool": (
        "parameter_header_names", http_case(
            HttpRecording().post(stateless(1, "tools/list")[1], reply=cacheable(1, tools=[TOOL_WITH_BAD_HEADER])[1])
            .post(stateless(5, "tools/call", {"name": "t"})[1], reply=complete(5, content=[])[1]),
            HttpRecording().post(stateless(1, "tools/list")[1], reply=cacheable(1, tools=[TOOL_WITH_BAD_HEADER])[1])
            .post(stateless(5, "tools/call", {"name": "u"})[1], reply=complete(5, content=[])[1]))),
    "mismatch_is_refused": (
        "mirrored_headers", http_case(HttpRecording().post(LIST_REQUEST, headers={"Mcp-Method": "x"}, reply=EMPTY_LIST), HttpRecording().post(LIST_REQUEST, headers={"Mcp-Method": "x"}, status=400))),
    "missing_session_is_400": (
        "session_header", http_case(_post(PING, headers={"Mcp-Session-Id": None}, status=404), _post(PING, headers={"Mcp-Session-Id": None}, status=400))),
}  # fmt: skip


def _session(*messages: Any, **capabilities: Any) -> tuple[Sequence[Event], Head]:
    return frames([*handshake(**capabilities), *messages]), STARTED


def _modern(*messages: Any) -> tuple[Sequence[Event], Head]:
    return modern_case([*messages], [])[0], STARTED


def _http(web: HttpRecording) -> tuple[Sequence[Event], Head]:
    return web.events, HTTP


TOKEN: dict[str, Any] = {"_meta": {"progressToken": 1}}
TRACKED = from_client(5, "ping", TOKEN)[1]
TRACKED_TASK: Messages = [*tools_listed(TASKS), *answered(2, "tools/call", {"name": "t", "task": {}, **TOKEN}, result={"task": TASK})]  # fmt: skip
ILLEGAL_URI = {"type": "resource", "resource": {"uri": "a b", "text": "", "mimeType": "text/plain"}}
TEXT_ONLY = {**chat_message("assistant", *TEXT), "model": "m", "stopReason": "endTurn"}
ANSWERED = sampling_params(
    [chat_message("user", *TEXT), chat_message("assistant", TOOL_USE), chat_message("user", TOOL_RESULT)]
)
STATELESS_RETRY = {"name": "t", "inputResponses": RETRY["inputResponses"]}


def _acknowledged(has_prompts: bool) -> Any:
    notifications = {"promptsListChanged": has_prompts, "toolsListChanged": True}
    return from_server(
        None, "notifications/subscriptions/acknowledged", {"notifications": notifications, **SUBSCRIPTION_META}
    )


FURTHER: list[tuple[str, tuple[Sequence[Event], Head | None]]] = [
    ("json_rpc", _session(*answered(1, "ping", [1], **error(-32602)))),
    ("json_rpc", _session(("client", {"jsonrpc": "2.0", "id": 1, "method": 5}), from_server(1, **error(-32600)))),
    ("json_rpc", _session(("client", {"jsonrpc": "2.0", "id": 1}))),
    ("notification_without_id", _session(("client", {"jsonrpc": "2.0", "id": None, "method": "notifications/x"}))),
    ("meta_keys", _session(*answered(1, "ping", {"_meta": {"a b" + "c" * 253: 1}}))),
    ("input_requests", _modern(CALL, input_required({"r": {"method": "elicitation/create", "params": {"message": 5}}}))),
    ("response_id", _session(from_client(result={}))),
    ("result_or_error", _session(*answered(1, "ping", result="x"))),
    ("id_used_once response_id", _session(from_client(1, "ping"), from_client(1, "ping"), *[from_server(1, result={})] * 3)),
    ("no_batch", _session(("client", []), revision="2025-03-26")),
    ("", _modern(stateless(1, "tools/call", {"name": "t"}, capabilities={"extensions": {"a.b/c": {}}}), complete(1, resultType="odd"))),
    ("", _modern(stateless(1, "x", capabilities={"extensions": {PREFIX + "x": {}}}), from_server(1, **error(-32601)))),
    ("capability_members", _modern(stateless(1, "x", capabilities={"extensions": {"a.b/c": 5}}), from_server(1, **error(-32601)))),
    ("capability_members", _session(client={"experimental": {"x": 5}})),
    ("", _modern(stateless(1, "x", revision="2025-11-25"), from_server(1, **error(-32022, data={"supported": [MODERN, "2025-11-25"], "requested": "2025-11-25"})))),
    ("supported_is_listed", _modern(stateless(1, "x"), from_server(1, **error(-32022, data={"supported": [MODERN], "requested": MODERN})))),
    ("", _session(*answered(1), stateless(2, "server/discover"), from_server(2, **error(-32601)))),
    ("discover_is_served", (frames([stateless(1, "server/discover"), from_server(1, **error(-32601)), stateless(2, "tools/list"), cacheable(2, tools=[])]), STARTED)),
    ("own_request", _session(from_client(1, "ping"), from_server(None, "notifications/cancelled", {"requestId": 1}), from_server(1, result={}))),
    ("own_request", _session(from_server(7, "ping"), cancelled(7), from_client(7, result={}))),
    ("", _session(from_client(1, "tools/list"), from_server(1, "ping"), cancelled(1), from_client(1, result={}))),
    ("params_fit", _session(from_client(1, "ping"), from_client(None, "notifications/cancelled", {"requestId": []}), from_server(1, result={}))),
    ("", _modern(*LISTEN, *ACKNOWLEDGED, cancelled(1), stateless(2, "tools/call", {"name": "t"}), CALLED, complete(1))),
    ("required_meta", _session(stateless(2, "tools/list"), cacheable(2, tools=[]), stateless(3, "tools/list", revision=5), from_server(3, **error(-32602)))),
    ("json_rpc", _http(_post(PING, reply={"result": {}}))),
    ("error_object", _http(_post(PING, status=400, reply={"jsonrpc": "2.0", "id": 5, "error": {}}))),
    ("", _http(_post(TRACKED, stream=[{"sse": None, "id": "1"}, progress(1, 1)[1], PONG]))),
    ("", _http(HttpRecording().open(session=None).post(TRACKED, stream=[{"sse": None, "id": "1"}, progress(1, 1)[1], PONG]))),
    ("known_token", _http(_post(TRACKED, stream=[{"sse": None, "id": "1"}, progress(2, 1)[1], PONG]))),
    ("known_token", _http(HttpRecording().open(session=None).post(TRACKED, stream=[{"sse": None, "id": "1"}, progress(2, 1)[1], PONG]))),
    ("", _http(_post(TRACKED, reply=PONG).get(stream=[progress(1, 1)[1]]))),
    ("known_token", _http(_post(TRACKED, reply=PONG).get(stream=[progress(2, 1)[1]]))),
    ("", _http(HttpRecording().open().post(TRACKED, status=503).post({**TRACKED, "id": 6}, reply=from_server(6, result={})[1]))),
    ("", _session(*TRACKED_TASK, progress(1, 1))),
    ("", _session(*TRACKED_TASK[:-1], from_server(2, **error(-32603)), progress(1, 1))),
    ("after_response", _session(*TRACKED_TASK, *task_polled(3, "completed"), progress(1, 1))),
    ("terminal_status", _session(*TASK_BEGUN, from_server(None, "notifications/tasks/status", {**TASK, "status": "completed"}), *task_polled(3, "working"))),
    ("result_fits", _session(*TASK_BEGUN, *answered(3, "tasks/get", {"taskId": "T"}, result={**TASK, "status": 5}))),
    ("task_is_declared", _session(*TASK_BEGUN[:-1], from_server(2, result={"content": []}), server={"tools": {}, "tasks": {"list": {}}})),
    ("", _http(_post(from_client(5, "tasks/get", {"taskId": "X"})[1], reply=from_server(5, **error(-32603))[1]))),
    ("embedded_resource", _session(*answered(1, "prompts/get", {"name": "p"}, result={"messages": [chat_message("user", ILLEGAL_URI)]}))),
    ("flat_schema", _session(*asked(1, "elicitation/create", form_params({"type": "array"}), result={"action": "decline"}))),
    ("flat_schema", _session(*asked(1, "elicitation/create", form_params({"type": "object", "properties": {"n": {"type": "text"}}}), result={"action": "accept", "content": {"n": "x"}}))),
    ("flat_schema", _session(*asked(1, "elicitation/create", form_params({"type": "object", "properties": {"n": {"type": "string", "minLength": "5"}}}), result={"action": "accept", "content": {"n": "x"}}))),
    *(("flat_schema", _session(*asked(1, "elicitation/create", form_params({"type": "object", "properties": {"n": field}}), result={"action": "cancel"})))
      for field in ({"type": "array"}, {"type": "array", "items": {"type": "string"}}, {"type": "string", "format": "uuid"})),
    *(("", _session(*asked(1, "elicitation/create", form_params({"type": "object", "properties": {"n": field}}), result={"action": "cancel"})))
      for field in ({"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}}, {"type": "string", "format": "uri"}, {"type": "number", "format": "double"})),
    ("result_fits", _session(*asked(1, "elicitation/create", form_params(FLAT), result={"action": "accept", "content": {"data": {}, "n": 1}}))),
    ("capability_of_receiver", _session(*asked(1, "elicitation/create", form_params(FLAT), **error(-32601)), client={})),
    ("params_fit", _session(*refused_request({"messages": 5, "maxTokens": 9}))),
    ("tool_choice", _session(*asked(1, "sampling/createMessage", {**HELLO, "toolChoice": {"mode": "required"}}, result=TEXT_ONLY))),
    ("", _session(*asked(1, "sampling/createMessage", {**HELLO, "toolChoice": {"mode": "required"}}, result={**TEXT_ONLY, "stopReason": "maxTokens"}))),
    ("", _session(*asked(1, "sampling/createMessage", {**ANSWERED, "toolChoice": {"mode": "required"}}, result=TEXT_ONLY))),
    ("state_is_returned", _modern(CALL, input_required(ROOTS), stateless(2, "tools/call", STATELESS_RETRY), CALLED)),
    ("", _session(*TASK_BEGUN, *answered(3, "tasks/get", {"taskId": "T"}, **error(-32603)))),
    ("", _session(*answered(1, "tasks/list", **error(-32601)), revision="2025-06-18")),
    ("legal_schemas", _session(*tools_listed({**TOOL, "outputSchema": {"type": "object", "required": 5}}))),
    ("root_uris", _modern(CALL, input_required(ROOTS), stateless(2, "tools/call", {**RETRY, "inputResponses": {"r": {"roots": [{"uri": "https://a/"}]}}}), CALLED)),
    ("", _modern(CALL, complete(1, resultType="input_required", inputRequests=ROOTS), stateless(2, "tools/call", STATELESS_RETRY), CALLED)),
    ("only_requested", _modern(*LISTEN, _acknowledged(True))),
    ("", _modern(*LISTEN, _acknowledged(False))),
    *((rule, _modern(*LISTEN, *ACKNOWLEDGED, from_server(None, "notifications/tools/list_changed", {"_meta": {PREFIX + "subscriptionId": id}})))
      for rule, id in (("subscription_id", 7), ("subscription_id", True), ("subscription_id", 1.5), ("subscription_id", [1]), ("", 1.0))),
    ("", _http(HttpRecording().get(target=OAUTH_SERVER, reply=b"<html>"))),
    ("pkce", _http(_token("grant_type=authorization_code&resource=https://a/"))),
    ("", _http(_token("grant_type=authorization_code&code_verifier=x&resource=https://a/"))),
    ("pkce", _http(_authorization(AUTHORIZE.replace("code_challenge=y&", "")))),
    ("pkce", _http(_authorization(AUTHORIZE.replace("&code_challenge_method=S256", "")))),
    ("ended_session", _http(HttpRecording(session="abc").open())),
    ("ended_session", _http(_post(PING, status=404).post(from_client(6, "ping")[1], status=404))),
    ("negotiated_header", _http(HttpRecording().open("2025-06-18").post(PING, headers={"MCP-Protocol-Version": "2030-01-01"}, reply=PONG))),
    ("response_type", _http(_post(PING, reply=b""))),
    *(("missing_session_is_400 session_header", _http(_post(PING, headers={"Mcp-Session-Id": None}, status=status)))
      for status in (402, 405, 422)),
    ("", _session(*answered(1, "tools/call", {"name": "t"}, **error(-32042, data={"elicitations": [{"mode": "url", "message": "?", "url": "https://a/", "elicitationId": "e"}]})),
                  from_server(None, "notifications/elicitation/complete", {"elicitationId": "e"}))),
    ("response_id result_or_error", _session(*answered(1, "ping", result="x"), from_server(1, result={}))),
    ("json_rpc", _session(*asked(1, "ping", [1], **error(-32602)))),
    ("request_id", _session(from_server(True, "ping"), *asked(1))),
    ("", _http(_post(PING, status=300))),
    ("", _http(HttpRecording().open().exchange("DELETE", status=204).post(PING, status=300, connection=2))),
    ("negotiated_header", _http(HttpRecording().open("2025-06-18").post(PING, headers={"MCP-Protocol-Version": "1999-01-01"}, status=300))),
    ("", _session(*answered(1, "ping", result={"resultType": "complete"}))),
    ("", _session(*answered(1, "logging/setLevel", {"level": "error"}), from_client(2, "logging/setLevel", {"level": "info"}),
                  from_server(None, "notifications/message", {"level": "info", "data": 1}), from_server(2, result={}))),
    ("params_fit unknown_level_is_refused", _session(*answered(1, "logging/setLevel", {"level": "odd"}))),
    ("version_header", _http(HttpRecording().open().get(headers={"MCP-Protocol-Version": None}, stream=[]))),
    ("version_header", (HttpRecording().open().get(headers={"MCP-Protocol-Version": None}, stream=[]).events, None)),
    ("version_header", (HttpRecording().open().exchange("DELETE", headers={"MCP-Protocol-Version": None}, status=204).events, None)),
    ("resource_parameter", _http(_token("grant_type=refresh_token&resource=a"))),
    ("resource_parameter", _http(_token("grant_type=refresh_token&resource=https://a/%23b"))),
    ("", _http(_token("grant_type=refresh_token&resource=***"))),
    ("poll_interval", _http(_polled(1, 1.3, 1.8995))),
    ("poll_interval", _http(_polled(0.1, 0.2, 0.3))),
    ("", _session(*LISTEN, *ACKNOWLEDGED)),
    ("tools_are_declared", _modern(stateless(1, "tools/call", {"name": "t"}, capabilities={"sampling": {}}), input_required({"r": {"method": "sampling/createMessage", "params": {**HELLO, "tools": []}}}))),
    ("task_is_returned", _session(*tools_listed(TASKS_ONLY), *answered(2, "tools/call", {"name": "t", "task": {}}, result={"content": []}))),
    ("tool_allows_task", _session(*tools_listed(TASKS_ONLY), *answered(2, "tools/call", {"name": "t"}, **error(-32601)))),
    ("tool_allows_task", _session(*tools_listed(NO_TASKS), *answered(2, "tools/call", {"name": "t", "task": {}}, **error(-32601)))),
    ("", _session(*tools_listed(TASKS_ONLY), *answered(2, "tools/call", {"name": "t", "task": {}}, result={"task": TASK}))),
    ("", _session(*tools_listed(NO_TASKS), *answered(2, "tools/call", {"name": "t"}, result={"content": []}))),
    ("", _http(_polled(0, 0, 0))),  # a recording without times
    ("", _modern(CALL, input_required(ROOTS), stateless(2, "tools/call", {"name": "t"}), CALLED)),
    ("media", _session(*tool_called({"content": [{"type": "resource", "resource": {"uri": "a:b", "blob": "%"}}]}))),
    ("", _http(HttpRecording().open().get(stream=[{"sse": from_server(None, "x")[1], "id": "1"}]).get(stream=[{"sse": from_server(None, "x")[1], "id": "1"}]))),
]  # fmt: skip
"""The rules that a conversation breaks, where a case above has not its form, and the conversation."""
