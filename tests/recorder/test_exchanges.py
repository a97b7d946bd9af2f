"""The requests of a recording: which messages belong to which request."""

from __future__ import annotations

from collections import Counter

from mcp_ref.check.recording import Frame, content
from mcp_ref.jsonrpc.messages import JSON, MAX_DEPTH, Object
from mcp_ref.recorder.exchanges import MAX_IN_FLIGHT, MAX_UNKNOWN, Cassette, Sent, messages_of, requests_of, signature


def test_requests_of_looks_at_each_request_until_its_response_only() -> None:
    reads = Counter[int]()

    class Watched(dict[str, JSON]):
        def __getitem__(self, name: str) -> JSON:
            reads[id(self)] += 1
            return super().__getitem__(name)

    sent: list[Sent] = []
    for number in range(100):
        request: Object = Watched({"jsonrpc": "2.0", "id": number, "method": "ping"})
        response: Object = {"jsonrpc": "2.0", "id": number, "result": {}}
        sent += [Sent(0.0, "client", request), Sent(0.0, "server", response)]
    found = requests_of(sent)
    assert [each.response for each in found] == sent[1::2]
    assert max(reads.values()) == 1


def test_requests_of_gives_a_notification_to_the_request_of_its_token_or_else_of_its_stream() -> None:
    def call(id: int, number: int) -> Sent:
        params: Object = {"_meta": {"progressToken": f"token {id}"}}
        return Sent(0.0, "client", {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}, number)

    def progress(id: int, number: int) -> Sent:
        params: Object = {"progressToken": f"token {id}", "progress": 1}
        return Sent(0.0, "server", {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}, number)

    log: Object = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}}
    sent = [call(1, 1), call(2, 2), progress(1, 2), progress(2, 1), progress(3, 1)]
    sent += [Sent(0.0, "server", log, number) for number in (1, 2, 3)]
    one, two = requests_of(sent)
    assert one.messages == [sent[2], sent[5]]
    assert two.messages == [sent[3], sent[4], sent[6], sent[7]]  # the last request has those of an unknown owner


def test_requests_of_forgets_the_oldest_of_too_many_requests_in_flight() -> None:
    ids = range(MAX_IN_FLIGHT + 1)
    sent = [Sent(0.0, "client", {"jsonrpc": "2.0", "id": id, "method": "ping"}) for id in ids]
    sent += [Sent(0.0, "server", {"jsonrpc": "2.0", "id": id, "result": {}}) for id in (0, 1)]
    assert [each.request.value["id"] for each in requests_of(sent) if each.response is not None] == [1]


def test_cassette_keeps_a_limited_number_of_lines_about_requests_that_were_not_recorded() -> None:
    cassette = Cassette([])
    for id in range(2 * MAX_UNKNOWN):
        assert cassette.note_unknown({"jsonrpc": "2.0", "id": id, "method": f"m{id}"}) == f"not recorded: m{id}"
    assert len(cassette.unrecorded) == MAX_UNKNOWN


def test_messages_of_leaves_out_json_that_is_too_deep_to_be_compared() -> None:
    for depth, number in ((MAX_DEPTH - 1, 1), (MAX_DEPTH, 0)):
        text = '{"jsonrpc": "2.0", "id": 1, "method": "a", "params": %s}' % ('{"a":' * depth + "1" + "}" * depth)
        found = list(messages_of([Frame("client", content(text.encode()))]))
        assert [len(signature(each.value)) > depth for each in found] == [True] * number
