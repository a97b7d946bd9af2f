"""Seeded mutations of clean conversations: one change each, in all revisions and transports.

A mutation names the rules that it breaks, of which at least one must be found, and the rules that can be broken as a
consequence. Any other finding is false. `MCP_REF_MUTATIONS=20000` runs more of them.
"""

from __future__ import annotations

import copy
import itertools
import json
import os
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from mcp_ref.check.recording import Event, Frame, Head, HttpBody, HttpEvent, HttpRequest, HttpResponse, content
from mcp_ref.revisions import R2024_11_05, R2025_03_26, R2025_06_18, R2025_11_25
from tests.check.conversations import (
    ALL_OF_SERVER,
    HTTP,
    MODERN,
    PREFIX,
    STARTED,
    HttpRecording,
    answered,
    asked,
    broken_rules,
    cacheable,
    complete,
    error,
    frames,
    from_client,
    from_server,
    handshake,
    stateless,
)

NUMBER = int(os.environ.get("MCP_REF_MUTATIONS", "1000"))
LEGACY = [str(each) for each in (R2024_11_05, R2025_03_26, R2025_06_18, R2025_11_25)]
TEXT = [{"type": "text", "text": '{"n": 1}'}]
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
PROGRESS = "notifications/progress"


def legacy_messages(revision: str) -> list[Any]:
    """Return a session that uses most of a revision."""
    structured = revision >= "2025-06-18"
    tool = {"name": "t", "inputSchema": SCHEMA} | ({"outputSchema": SCHEMA} if structured else {})
    result = {"content": TEXT} | ({"structuredContent": {"n": 1}} if structured else {})
    messages = [
        *handshake(revision),
        *answered(1, "tools/list", result={"tools": [tool], "nextCursor": "P2"}),
        *answered(2, "tools/list", {"cursor": "P2"}, result={"tools": [{"name": "u", "inputSchema": {"type": "object"}}]}),
        from_client(3, "tools/call", {"name": "t", "arguments": {"n": 1}, "_meta": {"progressToken": "p"}}),
        *(from_server(None, PROGRESS, {"progressToken": "p", "progress": n, "total": 3}) for n in (1, 2, 3)), from_server(3, result=result),
        *answered(4, "prompts/get", {"name": "x"}, result={"messages": [{"role": "user", "content": TEXT[0]}]}),
        *answered(5, "resources/read", {"uri": "a:b"}, result={"contents": [{"uri": "a:b", "text": "x"}]}),
        *asked(1, "roots/list", result={"roots": [{"uri": "file:///a", "name": "a"}]}),
        *asked(2, "sampling/createMessage", {"messages": [{"role": "user", "content": TEXT[0]}], "maxTokens": 5}, result={"role": "assistant", "content": TEXT[0], "model": "m"}),
        *answered(6, "logging/setLevel", {"level": "warning"}),
        from_server(None, "notifications/message", {"level": "error", "data": "x"}),
        *answered(7, "resources/subscribe", {"uri": "a:b"}),
        from_server(None, "notifications/resources/updated", {"uri": "a:b"}), from_server(None, "notifications/tools/list_changed"),
        *answered(8, "completion/complete", {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": ""}}, result={"completion": {"values": ["y"]}}),
        *answered(9), *answered(10, "tools/call", {"name": "zz"}, **error(-32602)),
    ]  # fmt: skip
    return messages


def modern_messages() -> list[Any]:
    tool = {"name": "t", "inputSchema": SCHEMA, "outputSchema": SCHEMA}
    ask = {"r": {"method": "roots/list"}}
    subscription = {"_meta": {PREFIX + "subscriptionId": 20}}
    input_required = {
        "resultType": "input_required",
        "requestState": "S",
        "inputRequests": ask,
        "_meta": {PREFIX + "serverInfo": {"name": "s", "version": "1"}},
    }
    return [
        stateless(0, "server/discover"), cacheable(0, supportedVersions=[MODERN], capabilities=ALL_OF_SERVER),
        stateless(1, "tools/list"), cacheable(1, tools=[tool], nextCursor="P2"),
        stateless(2, "tools/list", {"cursor": "P2"}), cacheable(2, tools=[]),
        stateless(3, "tools/call", {"name": "t", "arguments": {"n": 1}}, logLevel="info"),
        from_server(None, "notifications/message", {"level": "error", "data": "x"}),
        complete(3, content=TEXT, structuredContent={"n": 1}),
        stateless(4, "tools/call", {"name": "v"}), from_server(4, result=input_required),
        stateless(5, "tools/call", {"name": "v", "requestState": "S", "inputResponses": {"r": {"roots": [{"uri": "file:///a"}]}}}),
        complete(5, content=[]),
        stateless(20, "subscriptions/listen", {"notifications": {"toolsListChanged": True}}),
        from_server(None, "notifications/subscriptions/acknowledged", {"notifications": {"toolsListChanged": True}, **subscription}),
        from_server(None, "notifications/tools/list_changed", subscription),
        stateless(6, "resources/read", {"uri": "a:b"}), cacheable(6, contents=[{"uri": "a:b", "text": "x"}]),
        stateless(7, "prompts/get", {"name": "x"}), complete(7, messages=[{"role": "user", "content": TEXT[0]}]),
        stateless(8, "tools/call", {"name": "zz"}), from_server(8, **error(-32602)), complete(20),
    ]  # fmt: skip


def legacy_web(revision: str) -> list[Event]:
    """Return the requests of the client in a session over Streamable HTTP, some of them with streams."""
    messages = [message for _, message in legacy_messages(revision)[3:]]
    headers = {"MCP-Protocol-Version": None} if revision < "2025-06-18" else {}
    web = HttpRecording().open(revision)
    if headers:
        web = HttpRecording().open(revision)
        web._revision = None
    pairs = [(q, r) for q, r in itertools.pairwise(messages)
             if "method" in q and "id" in q and "method" not in r and q["id"] == r.get("id") and q["method"] not in
             ("roots/list", "sampling/createMessage")]  # fmt: skip
    for number, (sent, answer) in enumerate(pairs):
        if number % 2:
            web.post(sent, stream=[{"sse": None, "id": f"{number}-0"}, {"sse": answer, "id": f"{number}-1"}])
        else:
            web.post(sent, reply=answer)
    web.post(from_client(None, "notifications/roots/list_changed")[1], status=202)
    return web.get(
        stream=[{"sse": from_server(None, "notifications/tools/list_changed")[1], "id": "g-0"}], end="client"
    ).events


def modern_web() -> list[Event]:
    web, messages = HttpRecording(), [message for _, message in modern_messages()]
    for number, sent in enumerate(messages):
        answers = [each for each in messages[number + 1 :] if each.get("id") == sent.get("id") and "method" not in each]
        if "method" not in sent or "id" not in sent or sent["method"] == "subscriptions/listen":
            continue
        if sent["id"] == 3:
            web.post(sent, stream=[messages[number + 1], answers[0]])
        else:
            web.post(sent, reply=answers[0])
    listen = next(each for each in messages if each.get("method") == "subscriptions/listen")
    return web.post(listen, stream=[*messages[14:16], messages[-1]]).events


BASES: dict[str, tuple[list[Event], Head]] = {
    **{f"stdio {revision}": (frames(legacy_messages(revision)), STARTED) for revision in LEGACY},
    f"stdio {MODERN}": (frames(modern_messages()), STARTED),
    **{f"http {revision}": (legacy_web(revision), HTTP) for revision in LEGACY[1:]},
    f"http {MODERN}": (modern_web(), HTTP),
}


@dataclass
class Change:
    """A mutated message or event, the rules of which one must be found, and those that may be found too."""

    event: Event | list[Event]
    must: set[str]
    may: set[str]


def payload(event: Event) -> Any:
    """Return the message in an event, or None."""
    if isinstance(event, Frame | HttpRequest | HttpBody | HttpEvent) and event.content.size:
        return json.loads(event.content.data)
    return None


@dataclass
class Place:
    """An event that a mutator can change, in one of the clean conversations."""

    rng: random.Random
    event: Event
    message: Any
    """The message in the event, or None."""
    base: str
    at: int
    """Number of the event, from 0."""

    def holding(self, message: Any) -> Event:
        """Return the event with another message, or other bytes."""
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        return replace(self.event, content=content(data))  # type: ignore[call-arg]


Mutator = Callable[[Place], Change | None]
MUTATORS: dict[str, Mutator] = {}
LOST = {"response_id", "never_answered", "known_token", "known_cursor", "invalid_cursor_is_refused", "subscribed_resource",
        "subscription_id", "acknowledged_first", "asked_for_logs", "state_is_returned", "initialized_is_sent",
        "capability_of_receiver", "level_of_session", "only_requested"}  # fmt: skip
"""The rules that a lost or unreadable message can break later."""


HANDSHAKE = {"initialize_first", "client_waits_for_initialize", "server_waits_for_initialized"}
"""The rules that a lost message of the handshake can break later."""


def mutator(function: Mutator) -> Mutator:
    MUTATORS[function.__name__] = function
    return function


@mutator
def no_json(place: Place) -> Change | None:
    names = {"output_is_messages", "input_is_messages", "json_rpc", "utf_8"}
    data = place.rng.choice([b"hello", b'{"jsonrpc": "2.0", ', b'{"jsonrpc":"2.0","method":"\xff"}', b"[1]", b"3", b""])
    if isinstance(place.event, HttpBody | HttpRequest | HttpEvent) and not data:
        return None
    return Change(place.holding(data), names | {"no_batch"}, LOST | HANDSHAKE | {"response_type", "accepted"})


@mutator
def wrong_version(place: Place) -> Change:
    changed = {**place.message, "jsonrpc": place.rng.choice(["1.0", 2.0, None])}
    return Change(
        place.holding(changed),
        {"json_rpc"} if "method" in place.message else {"json_rpc", "result_or_error"},
        LOST | {"initialize_first", "accepted", "response_type"},
    )


@mutator
def two_responses(place: Place) -> Change | None:
    if "method" in place.message or not isinstance(place.event, Frame | HttpEvent):
        return None
    again = replace(place.event, id=None) if isinstance(place.event, HttpEvent) else place.event
    return Change([place.event, again], {"response_id", "response_is_last"}, {"response_id", "response_is_last"})


@mutator
def lost_member(place: Place) -> Change | None:
    part = place.message.get("params") or place.message.get("result")
    names = [name for name in part or () if name in REQUIRED]
    if not names:
        return None
    name = place.rng.choice(names)
    changed = copy.deepcopy(place.message)
    wrong = place.rng.choice(["drop", 7, [7], {"a": 7}])
    target = changed.get("params") or changed["result"]
    if wrong == "drop":
        del target[name]
    elif type(wrong) is type(target[name]) and not isinstance(wrong, list):
        return None
    else:
        target[name] = wrong
    may = LOST | {"mirrored_headers", "structured_content_fits", "state_of_request", "input_is_complete", "arguments_fit",
                  "subscribed_resource", "unknown_level_is_refused", "discover_names_modern", "mismatch_is_refused",
                  "structured_content_as_text", "client_waits_for_initialize", "method_of_revision"}  # fmt: skip
    return Change(
        place.holding(changed), {"params_fit", "result_fits", "hints", "input_is_complete", "known_token"}, may
    )


REQUIRED = {"name", "uri", "contents", "messages", "roots", "tools", "progressToken", "progress", "level", "completion",
            "ref", "argument", "protocolVersion", "capabilities", "clientInfo", "serverInfo", "notifications",
            "supportedVersions", "maxTokens", "model"}  # fmt: skip


@mutator
def undeclared(place: Place) -> Change | None:
    part = place.message.get("params") or place.message.get("result") or {}
    capabilities = part.get("capabilities")
    if not isinstance(capabilities, dict) or MODERN in place.base or "protocolVersion" not in part:
        return None
    used = [
        name
        for name in (
            ("tools", "prompts", "resources", "logging") if "result" in place.message else ("roots", "sampling")
        )
        if name in capabilities
    ]
    name = place.rng.choice(used)
    if "http" in place.base and name in ("roots", "sampling"):
        return None
    changed = copy.deepcopy(place.message)
    del (changed.get("params") or changed["result"])["capabilities"][name]
    rules = {"capability_of_receiver", "capability_of_sender", "feature_is_declared"}
    return Change(place.holding(changed), rules, rules | {"level_of_session", "subscribed_resource"})


@mutator
def other_method(place: Place) -> Change | None:
    revision = place.base.split()[1]
    if place.message.get("method") != "ping" and (
        place.message.get("method") != "prompts/get" or MODERN not in place.base
    ):
        return None
    foreign = (
        ["elicitation/create"]
        if revision < "2025-06-18"
        else ["tasks/list"]
        if revision < "2025-11-25"
        else ["resources/subscribe"]
    )
    if MODERN not in place.base and revision >= "2025-06-18":
        foreign = ["server/discover", "subscriptions/listen"]
    changed = {**place.message, "method": place.rng.choice(foreign)}
    return Change(
        place.holding(changed), {"method_of_revision"}, {"mirrored_headers", "mismatch_is_refused", "result_fits"}
    )


@mutator
def lost_meta(place: Place) -> Change | None:
    meta = place.message.get("params", {}).get("_meta", {})
    if PREFIX + "protocolVersion" not in meta:
        return None
    changed = copy.deepcopy(place.message)
    name = place.rng.choice(["protocolVersion", "clientCapabilities"])
    if place.rng.random() < 0.5:
        del changed["params"]["_meta"][PREFIX + name]
    else:
        changed["params"]["_meta"][PREFIX + name] = 5
    may = LOST | {"malformed_request_is_refused", "initialize_first", "status_of_error", "input_is_declared"}
    if place.at == 0 or name == "protocolVersion":
        may |= {"required_meta"}
    return Change(place.holding(changed), {"required_meta", "initialize_first"}, may)


@mutator
def header(place: Place) -> Change | None:
    if not isinstance(place.event, HttpRequest) or place.at < 8:
        return None
    rules = {"accept": {"post_accepts_both", "get_accepts_events"}, "mcp-session-id": {"session_header"},
             "mcp-protocol-version": {"version_header", "mirrored_headers"}, "mcp-method": {"mirrored_headers"},
             "mcp-name": {"mirrored_headers"}, "content-type": {"post_is_json"}}  # fmt: skip
    present = [name for name, _ in place.event.headers if name.lower() in rules]
    name = place.rng.choice(present)
    headers = tuple((n, v) for n, v in place.event.headers if n != name)
    may = {
        *("mismatch_is_refused", "missing_session_is_400", "initialize_first", "get_is_stream"),
        "invalid_version_is_refused",
    }
    return Change(replace(place.event, headers=headers), rules[name.lower()], may)


@mutator
def status(place: Place) -> Change | None:
    if not isinstance(place.event, HttpResponse) or place.event.status != 202 or place.at < 8:
        return None
    return Change(replace(place.event, status=place.rng.choice([200, 204, 201])), {"accepted"}, set())


@mutator
def response_kind(place: Place) -> Change | None:
    if not isinstance(place.event, HttpResponse) or place.event.status != 200 or place.at < 8:
        return None
    headers = tuple((n, "text/html" if n == "Content-Type" else v) for n, v in place.event.headers)
    return Change(replace(place.event, headers=headers), {"response_type", "get_is_stream"}, LOST)


def at(message: Any, *path: str) -> Any:
    """Return a member of a member of a message, or None."""
    for name in path:
        message = message.get(name) if isinstance(message, dict) else None
    return message


DROPPED = object()
"""In place of a value: the member is removed."""


@dataclass
class Member:
    """A mutation of one member, in the messages that have it and for which `where` is true."""

    path: tuple[str, ...]
    values: list[Any]
    must: set[str]
    may: set[str] = field(default_factory=set)
    where: Callable[[Place], object] = lambda place: True

    def __call__(self, place: Place) -> Change | None:
        if at(place.message, *self.path) is None or not self.where(place):
            return None
        changed = copy.deepcopy(place.message)
        *parents, name = self.path
        value = place.rng.choice(self.values)
        if value is DROPPED:
            del at(changed, *parents)[name]
        else:
            at(changed, *parents)[name] = value
        return Change(place.holding(changed), self.must, self.may)


def is_legacy(place: Place) -> bool:
    return MODERN not in place.base


MUTATORS |= {
    "null_id": Member(("id",), [None, 1.5, [], {}], {"request_id"}, LOST | {"accepted", "response_type", "initialize_first"},
                      lambda place: "method" in place.message),
    "other_response_id": Member(("id",), [999, "x", ""], {"response_id"}, LOST | HANDSHAKE | {"stream_brings_response"},
                                lambda place: "method" not in place.message),
    "used_id": Member(("id",), [1], {"id_used_once"}, LOST, lambda place: (
        "stdio" in place.base and is_legacy(place) and place.message.get("method") == "ping")),
    "shrinking_progress": Member(("params", "progress"), [0, -1, 1], {"growing_value"}, where=lambda place: (
        place.message["params"]["progress"] != 1)),
    "unknown_token": Member(("params", "progressToken"), ["q", 3, ""], {"known_token"}),
    "other_cursor": Member(("params", "cursor"), ["P3", "", "p2"], {"known_cursor"}, {"invalid_cursor_is_refused"}, is_legacy),
    "wrong_structure": Member(("result", "structuredContent"), [{}, {"n": "x"}, {"n": None}], {"structured_content_fits"}),
    "lost_result_type": Member(("result", "resultType"), [DROPPED], {"result_type", "result_fits"}, LOST | {"state_is_returned"},
                               lambda place: place.at >= 4),
    "wrong_ttl": Member(("result", "ttlMs"), [-1, "0", None], {"hints", "negative_ttl"}, {"scope_of_pages"}),
    "wrong_scope": Member(("result", "cacheScope"), ["all", None], {"hints"}, {"scope_of_pages"}),
    "other_state": Member(("params", "requestState"), ["S "], {"state_is_returned"}, where=lambda place: "stdio" in place.base),
    "lost_subscription_id": Member(("params", "_meta", PREFIX + "subscriptionId"), [DROPPED, "other", True, 1.5, {}], {"subscription_id"},
                                   {"acknowledged_first"}),
    "unasked_log": Member(("params", "_meta", PREFIX + "logLevel"), [DROPPED], {"asked_for_logs"}),
    "quiet_level": Member(("params", "level"), ["debug", "info", "notice"], {"level_of_session"}, where=lambda place: (
        place.message.get("method") == "notifications/message" and is_legacy(place))),
}  # fmt: skip


def mutations(number: int) -> list[tuple[str, str, list[Event], Head, Change]]:
    """Return seeded mutations: mutator, base, events, head, and the rules to expect."""
    found = []
    for seed in range(number):
        rng = random.Random(seed)
        name = list(MUTATORS)[seed % len(MUTATORS)]
        change = None
        while change is None:
            base = rng.choice(list(BASES))
            events, head = BASES[base]
            at = rng.randrange(len(events))
            message = payload(events[at])
            if isinstance(message, dict) or name in ("header", "status", "response_kind"):
                change = MUTATORS[name](Place(rng, events[at], message, base, at))
        new = change.event if isinstance(change.event, list) else [change.event]
        found.append((name, base, [*events[:at], *new, *events[at + 1 :]], head, change))
    return found


@pytest.mark.parametrize("base", BASES)
def test_base_of_the_mutations_is_clean(base: str) -> None:
    assert broken_rules(*BASES[base]) == []


def test_mutations_are_found_and_nothing_else() -> None:
    missed, false, total = Counter[str](), Counter[str](), Counter[str]()
    for name, base, events, head, change in mutations(NUMBER):
        found = set(broken_rules(events, head))
        total[name] += 1
        if not found & change.must:
            missed[f"{name} in {base}"] += 1
        false.update(f"{rule} by {name} in {base}" for rule in found - change.must - change.may)
    share = 1 - missed.total() / total.total()
    print(f"{total.total()} mutations, {share:.1%} found, {false.total()} false findings")
    assert not false, false.most_common(40)
    assert total.total() == NUMBER and share >= 0.95, missed.most_common(40)
