"""The requests of a recording: which messages belong to which request."""

from __future__ import annotations

from collections import Counter

from mcp_ref.jsonrpc.messages import JSON, Object
from mcp_ref.recorder.exchanges import Sent, requests_of


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
