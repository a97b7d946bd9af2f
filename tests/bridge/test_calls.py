"""The input requests of a call that a bridge passes on: their rounds, and their failures."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mcp_ref.basic.lifecycle import CapabilityError
from mcp_ref.basic.mrtr import MAX_ROUNDS
from mcp_ref.bridge.calls import MAX_NOTIFICATIONS, Call, complete_call, refusal, with_prefix
from mcp_ref.bridge.conversion import Losses
from mcp_ref.jsonrpc.errors import ConnectionClosed, McpError, ProtocolError, RemoteError
from mcp_ref.jsonrpc.messages import Object
from mcp_ref.revisions import revision_named

CORE, MODERN = "2025-11-25", revision_named("2026-07-28")


class Refusing:
    async def ask(self, *request: object) -> Object:
        raise RemoteError(-1, "no")


class Responding:
    async def ask(self, *request: object) -> Object:
        return {"roots": []}


@pytest.mark.parametrize("rounds", [0, 1, MAX_ROUNDS, MAX_ROUNDS + 1])
async def test_complete_call_responds_to_so_many_rounds_and_no_more(rounds: int) -> None:
    sent: list[Object] = []

    async def send(params: Object) -> Object:
        sent.append(params)
        if len(sent) > rounds:
            return {"resultType": "complete"}
        requests: Object = {"r": {"method": "roots/list"}}
        return {"resultType": "input_required", "requestState": str(len(sent)), "inputRequests": requests}

    completing = complete_call(cast(Any, Responding()), {"name": "t"}, send, MODERN)
    if rounds > MAX_ROUNDS:
        with pytest.raises(ProtocolError, match=f"still requires input after {MAX_ROUNDS} rounds"):
            await completing
    else:
        assert await completing == {"resultType": "complete"}
    retries = [
        {"name": "t", "requestState": str(number), "inputResponses": {"r": {"roots": []}}}
        for number in range(1, min(rounds, MAX_ROUNDS) + 1)
    ]
    assert sent == [{"name": "t"}, *retries]


async def test_complete_call_whose_input_request_is_refused_fails_with_the_refusal() -> None:
    async def send(params: Object) -> Object:
        return {"resultType": "input_required", "inputRequests": {"r": {"method": "roots/list"}}}

    with pytest.raises(ProtocolError, match="the user refused, or the client failed: no"):
        await complete_call(cast(Any, Refusing()), {}, send, MODERN)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (RemoteError(-1, "no"), "the user refused, or the client failed: no"),
        (ProtocolError(-32601, "no roots"), "an input request of the server cannot be passed on: no roots"),
        (CapabilityError("no roots"), "an input request of the server failed: no roots"),
        (ConnectionClosed("secret"), "an input request of the server failed: the client did not respond"),
        (ValueError("secret"), "an input request of the server failed: the client did not respond"),
    ],
)
def test_refusal_of_an_input_request_has_a_text_for_the_peer_only(error: Exception, text: str) -> None:
    found = refusal(error)
    assert (found.code, found.message) == (-32603, text)


def test_prefix_names_the_server_in_a_message_to_the_user() -> None:
    assert with_prefix({"message": "Name?", "x": 1}, "[a] ") == {"message": "[a] Name?", "x": 1}
    assert with_prefix({"message": "Name?"}, "") == {"message": "Name?"}
    assert with_prefix({"messages": []}, "[a] ") == {"messages": []}


class Sent(list[tuple[str, Object]]):
    """The notifications that a call has sent to its client, whose request is `context`."""

    def __init__(self, revision: str, **capabilities: Object) -> None:
        channel = SimpleNamespace(
            revision=revision_named(revision), peer_capabilities=capabilities, logging_level=None,
            is_serving=lambda id: id == "r", notify=lambda method, params, id: self.append((method, params.members)),
            set_status=lambda message: self.append(("status", {})),
        )  # fmt: skip
        meta: Object = {"progressToken": "p"}
        self.context: Any = SimpleNamespace(revision=channel.revision, channel=channel, meta=meta, request_id="r")


@pytest.mark.parametrize(
    ("method", "params", "outcome"),
    [
        ("elicitation/create", {"message": "?"}, "elicitation/create does not exist in 2025-03-26"),
        ("roots/list", {}, "the client did not declare the capability for roots/list"),
        ("com.example/odd", {}, "com.example/odd does not exist in 2025-03-26"),
        ("sampling/createMessage", {"includeContext": "allServers"}, {"includeContext": "none"}),
        ("sampling/createMessage", {"messages": []}, {"messages": []}),
    ],
)
async def test_call_passes_on_the_input_requests_that_its_client_accepts(
    method: str, params: Object, outcome: Object | str
) -> None:
    call = Call(Sent("2025-03-26", sampling={}).context, Losses("back"), "[back] ")
    with pytest.raises(ProtocolError, match=outcome) if isinstance(outcome, str) else nullcontext():
        assert call.converted_input_request(method, params, call.revision) == outcome


@pytest.mark.parametrize(
    ("capabilities", "reason"),
    [({}, "the client did not declare the capability for roots/list"), ({"roots": {}}, "does not hold calls open")],
)
async def test_call_that_is_not_held_refuses_input_requests_with_the_true_reason(
    capabilities: dict[str, Object], reason: str
) -> None:
    call = Call(Sent("2026-07-28", **capabilities).context, Losses("back"))
    with pytest.raises(ProtocolError, match=reason):
        await call.ask("roots/list", {}, revision_named(CORE))


async def test_call_gives_the_url_of_a_modern_server_an_id_and_reports_its_end_once() -> None:
    sent = Sent(CORE, elicitation={"url": {}})
    call = Call(sent.context, Losses("back"))
    url: Object = {"mode": "url", "message": "?", "url": "https://a.example/"}
    request = "elicitation/create", url
    wire = call.converted_input_request(*request, MODERN)
    call.end()
    call.end()
    assert sent == [("notifications/elicitation/complete", {"elicitationId": wire["elicitationId"]})]
    with pytest.raises(McpError, match="url"):
        Call(Sent(CORE, elicitation={"form": {}}).context, Losses("back")).converted_input_request(*request, MODERN)
    own: Object = {**url, "elicitationId": "own"}
    assert call.converted_input_request("elicitation/create", own, revision_named(CORE)) == own


@pytest.mark.spec(
    "2026-07-28/server/utilities/logging#per-request-log-level-1", "2025-11-25/basic/utilities/progress#progress-flow-3"
)
@pytest.mark.parametrize(
    ("front", "expected"), [(CORE, ["log debug", "log error", "half"]), ("2026-07-28", ["status", "half", "status"])]
)
async def test_call_sends_the_messages_of_the_era_of_its_client_until_the_request_ends(
    front: str, expected: list[str]
) -> None:
    sent = Sent(front)
    call = Call(sent.context, Losses("back"))
    for id in ("r", "ended"):
        sent.context.request_id = id
        for level in ("debug", "loud", "error"):  # the client has chosen no level
            call.receive("notifications/message", {"level": level, "data": f"log {level}"}, MODERN)
        if id == "r":
            for _ in range(2):  # as a modern server does that runs the call again after an input request
                half: Object = {"progressToken": "own", "progress": 1, "message": "half"}
                call.receive("notifications/progress", half, MODERN)
    call.context = None
    call.set_status("nobody waits")
    assert [params.get("data", params.get("message", method)) for method, params in sent] == expected


@pytest.mark.spec("2025-11-25/basic/utilities/progress#implementation-notes-2")
async def test_call_sends_a_limited_number_of_notifications_in_a_second() -> None:
    sent, lost, now = Sent(CORE), Losses("back"), [0.0]
    call = Call(sent.context, lost)
    call.loop = cast(Any, SimpleNamespace(time=lambda: now[0]))
    for second in (7.0, 7.9, 8.0):
        now[0] = second
        for number in range(MAX_NOTIFICATIONS // 2 + 1):
            progress = 10_000 * second + number
            call.receive("notifications/progress", {"progressToken": "own", "progress": progress}, MODERN)
    assert len(sent) == MAX_NOTIFICATIONS + MAX_NOTIFICATIONS // 2 + 1
    assert sent[-1] == ("notifications/progress", {"progressToken": "p", "progress": 80_000 + MAX_NOTIFICATIONS // 2})
    assert lost.counts == {"notifications/progress came too often": 2}
