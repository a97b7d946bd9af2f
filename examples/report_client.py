"""Begins report.py's task, does something else meanwhile, and gets the result: in both eras, with the same lines.

New here: `client.start_tool`, which does not wait. What it gives is asked for its `status()` and its `result()`; who
waits for the result also answers, through the client's ordinary functions, what the task asks. `call_tool` would have
done all of it at once.

    python3 examples/report_client.py
    python3 examples/report_client.py --trace           the same, with every frame on standard error

Watch it fail: a report that is cancelled half-way has no result.

    python3 examples/report_client.py --cancel
"""

import asyncio
import sys
from pathlib import Path

from mcp_ref import Client, ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult, McpError, tracer

SERVER = [sys.executable, str(Path(__file__).with_name("report.py"))]


async def user(question: ElicitRequestFormParams | ElicitRequestURLParams) -> ElicitResult:
    """Whom the task asks."""
    print(f"  asked: {question.message} yen")
    return ElicitResult("accept", {"currency": "yen"})


async def report(revision: str) -> None:
    """Have a report written."""
    trace = tracer() if "--trace" in sys.argv else None
    async with Client(SERVER, revision=revision, elicitation=user, trace=trace) as client:
        task = await client.start_tool("write_report", {"year": 2025})
        print(f"In {revision} it has begun. Meanwhile: {len(await client.list_tools())} tool")
        if "--cancel" in sys.argv:
            await task.cancel()
        result = await task.result(timeout=30)
        status = await task.status()
        assert status is not None
        print(f"  {status.status}: {result.text}")
        assert result.text == "Sales of 2025: 2,329,026 yen", result


async def main() -> None:
    """Twice: as an experiment in the protocol, and as the extension that came of it."""
    for revision in ("2025-11-25", "2026-07-28"):
        await report(revision)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except McpError as error:
        sys.exit(f"no report: {error}")
