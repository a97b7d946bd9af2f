"""A dice server that logs each request, and limits the number of tool calls of each caller.

New here: *middleware*. `@server.middleware` runs a function around each request that the server serves, in all
revisions and on every transport: also around `initialize` and `server/discover`. The function calls `proceed(request)`
to get the result. Before this call, it can raise an error to refuse the request, or change the params, and after it, it
can change the result. The function that was added first is the outermost, so here the log also contains the requests
that the limit refuses.

    python3 examples/middleware.py                      serves over stdio
    python3 -m mcp_ref call roll dice=2 --stderr -- python3 examples/middleware.py

Watch it fail: the limit is 0 calls in a minute. The error has the code 1.

    python3 -m mcp_ref call roll -- env CALLS=0 python3 examples/middleware.py
"""

import os
import random
import sys
import time
from collections import OrderedDict, deque
from typing import Annotated

from mcp_ref import Context, Proceed, ProtocolError, ServedRequest, Server

CALLS = int(os.environ.get("CALLS", "30"))  # maximum number of tool calls of one caller in a minute
CALLERS = 10_000  # number of callers that the server remembers; otherwise callers could fill its memory
BUSY = 1  # [2026-07-28 basic/index#error-codes] a new code lies outside -32768 to -32000

server = Server("dice", "1.0")
recent_calls: OrderedDict[str, deque[float]] = OrderedDict()  # caller -> times of its latest calls, in seconds


@server.middleware
async def log(request: ServedRequest, context: Context, proceed: Proceed) -> object:
    """Write a line for each request to standard error: method, caller, time and outcome."""
    begin, outcome = time.perf_counter(), "failed"
    try:
        result = await proceed(request)
        outcome = "is an error" if getattr(result, "is_error", False) else "is done"
        return result
    finally:
        milliseconds = 1000 * (time.perf_counter() - begin)
        print(f"{request.method} of {caller(context)} {outcome} after {milliseconds:.1f} ms", file=sys.stderr)


@server.middleware
async def limit(request: ServedRequest, context: Context, proceed: Proceed) -> object:
    """Refuse a caller that has called too many tools in the last minute."""
    if request.method == "tools/call":
        calls = recent_calls.setdefault(caller(context), deque(maxlen=max(CALLS, 1)))
        recent_calls.move_to_end(caller(context))
        if len(recent_calls) > CALLERS:
            recent_calls.popitem(last=False)
        now = time.monotonic()
        if CALLS == 0 or (len(calls) == CALLS and now - calls[0] < 60):
            raise ProtocolError(BUSY, f"at most {CALLS} tool calls in a minute; try again later")
        calls.append(now)
    return await proceed(request)


def caller(context: Context) -> str:
    """Return a name for the caller: the user of the access token, else the IP address, else "the client"."""
    if context.principal is not None:
        return context.principal.subject
    if context.http is not None and context.http.address is not None:
        return context.http.address[0]
    return "the client"


@server.tool()
def roll(dice: Annotated[int, {"minimum": 1, "maximum": 100}] = 1) -> list[int]:
    """Roll dice."""
    return [random.randint(1, 6) for _ in range(dice)]


if __name__ == "__main__":
    server.run()
