"""The cost of the judge: `python3 -m tests.bench.bench_check` checks recordings of 100,000 frames.

It prints the processor time of a frame, and the memory that the judge needs after a tenth and after the whole.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator

from mcp_ref.check.conversation import Conversation
from mcp_ref.check.recording import Event, format_event, read_events
from tests.check.conversations import (
    ALL_OF_SERVER,
    MODERN,
    STARTED,
    cacheable,
    complete,
    frames,
    from_client,
    from_server,
    handshake,
    stateless,
)

FRAMES = 100_000
TEXT = [{"type": "text", "text": '{"celsius": 12}'}]
NUMBER = {"type": "object", "properties": {"celsius": {"type": "number"}}, "required": ["celsius"]}
TOOL = {
    "name": "weather",
    "inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}},
    "outputSchema": NUMBER,
}
RESULT = {"content": TEXT, "structuredContent": {"celsius": 12}}
CALL = {"name": "weather", "arguments": {"city": "Ghent"}}


def legacy() -> Iterator[Event]:
    """Yield a session of tool calls, each with a progress notification."""
    yield from frames([*handshake(), from_client("l", "tools/list"), from_server("l", result={"tools": [TOOL]})])
    for number in range(1, FRAMES // 3):
        token = {"_meta": {"progressToken": number}}
        yield from frames([
            from_client(number, "tools/call", {**CALL, **token}),
            from_server(None, "notifications/progress", {"progressToken": number, "progress": 1}),
            from_server(number, result=RESULT),
        ])  # fmt: skip


def modern() -> Iterator[Event]:
    """Yield stateless tool calls."""
    opening = [
        stateless("d", "server/discover"),
        cacheable("d", supportedVersions=[MODERN], capabilities=ALL_OF_SERVER),
    ]
    yield from frames([*opening, stateless("l", "tools/list"), cacheable("l", tools=[TOOL])])
    for number in range(1, FRAMES // 2):
        yield from frames([stateless(number, "tools/call", CALL), complete(number, **RESULT)])


def main() -> None:
    for name, source in (("2025-11-25", legacy), (MODERN, modern)):
        lines = [format_event(event) for event in source()]
        begun = time.process_time()
        events = list(read_events(lines))
        read = time.process_time() - begun
        conversation = Conversation(head=STARTED)
        begun = time.process_time()
        found = [finding for event in events for finding in conversation.receive(event) if finding.level != "advice"]
        spent = time.process_time() - begun
        print(f"{name}: {len(events):,} frames, {read:.1f} s to read the lines, {spent:.1f} s to judge them, "
              f"{spent / len(events) * 1e6:.0f} µs a frame, {len(found)} findings")  # fmt: skip
        tracemalloc.start()
        conversation, sizes = Conversation(head=STARTED), []
        for index, event in enumerate(events, 1):
            conversation.receive(event)
            if index in (len(events) // 10, len(events)):
                sizes.append(tracemalloc.get_traced_memory()[0] / 1e6)
        tracemalloc.stop()
        print(f"            memory after a tenth {sizes[0]:.1f} MB, after the whole {sizes[-1]:.1f} MB")


if __name__ == "__main__":
    main()
