"""A client that shows the progress of long_job.py, and cancels a call.

New here: `on_progress`, and cancellation of an ordinary `await`. If the `await` ends early (time limit, cancelled task,
Ctrl-C), the client cancels the request. With `max_timeout`, each progress notification restarts the time limit
`timeout`, so a call can take up to `max_timeout` seconds while the server reports progress.

    python3 examples/long_job_client.py
    python3 examples/long_job_client.py --trace         also prints every message on standard error

Watch it fail: the call takes a minute or more, and the client has a time limit of two seconds.

    python3 examples/long_job_client.py --impatient
"""

import asyncio
import sys
from pathlib import Path

from mcp_ref import Client, RequestTimeout, tracer

SERVER = [sys.executable, str(Path(__file__).with_name("long_job.py"))]


def show(progress: float, total: float | None, message: str | None) -> None:
    """Print a progress bar."""
    done = progress / (total or progress)
    print(f"  [{'#' * int(20 * done):20}] {done:4.0%} {message or ''}")


async def stop_early(client: Client) -> None:
    """Call the tool, and cancel the call long before its end."""
    far_enough = asyncio.Event()

    def watch(progress: float, total: float | None, message: str | None) -> None:
        show(progress, total, message)
        if total and progress > total / 100:
            far_enough.set()

    call = asyncio.create_task(client.call_tool("count_primes", {"below": 10**9}, on_progress=watch))
    await far_enough.wait()
    call.cancel()
    await asyncio.wait([call])
    assert call.cancelled()


async def main() -> None:
    """Let one call finish, cancel another, and check that the server counted both."""
    async with Client(SERVER, trace=tracer() if "--trace" in sys.argv else None) as client:
        if "--impatient" in sys.argv:
            await client.call_tool("count_primes", {"below": 10**10}, on_progress=show, timeout=2)
        print("To the end:")
        arguments = {"below": 5_000_000}
        result = await client.call_tool("count_primes", {**arguments}, on_progress=show, timeout=10, max_timeout=300)
        assert result.text == "348513", result
        print(f"There are {result.text} primes below {arguments['below']}. And now only 1 %:")
        await stop_early(client)
        # Messages arrive in order, so the server has already received the cancellation.
        jobs = (await client.call_tool("list_jobs")).structured_content
        print(f"Stopped. The server says: {jobs}")
        assert jobs == {"running": 0, "finished": 1, "cancelled": 1}, jobs


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except RequestTimeout as error:
        sys.exit(f"gave up: {error}")
