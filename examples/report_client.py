"""A client that begins the task of report.py, does other work, and then fetches the result, in both eras.

New here: `client.start_tool` does not wait for the result, but returns an object with `status()` and `result()`. While
`result()` waits, the client's handlers serve the elicitations of the task. `call_tool` does all these steps at once.

    python3 examples/report_client.py
    python3 examples/report_client.py --trace           also prints every message on standard error

Watch it fail: a cancelled task has no result.

    python3 examples/report_client.py --cancel
"""

import asyncio
import sys
from pathlib import Path

from mcp_ref import Client, ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult, McpError, tracer

SERVER = [sys.executable, str(Path(__file__).with_name("report.py"))]


async def user(question: ElicitRequestFormParams | ElicitRequestURLParams) -> ElicitResult:
    """Fill in the form of an elicitation."""
    print(f"  asked: {question.message} yen")
    return ElicitResult("accept", {"currency": "yen"})


async def report(revision: str) -> None:
    """Request a report as a task."""
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
    """Request a report in both eras."""
    for revision in ("2025-11-25", "2026-07-28"):
        await report(revision)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except McpError as error:
        sys.exit(f"no report: {error}")
