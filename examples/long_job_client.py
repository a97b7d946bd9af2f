"""A client that watches long_job.py work, and cancels it halfway: it only stops waiting.

New here: `on_progress`, and the fact that a call is an ordinary `await`. If the wait ends early (a time limit, a
cancelled task, Ctrl-C), the client cancels the request. With `max_timeout`, each progress notification restarts the
time limit: a job may take long, but it may not be silent for long.

    python3 examples/long_job_client.py
    python3 examples/long_job_client.py --trace         the same, with every frame on standard error

Watch it fail: a job that takes a minute or more, and a client with a time limit of two seconds.

    python3 examples/long_job_client.py --impatient
"""

import asyncio
import sys
from pathlib import Path

from mcp_ref import Client, RequestTimeout, tracer

SERVER = [sys.executable, str(Path(__file__).with_name("long_job.py"))]


def show(progress: float, total: float | None, message: str | None) -> None:
    """Draw a bar."""
    done = progress / (total or progress)
    print(f"  [{'#' * int(20 * done):20}] {done:4.0%} {message or ''}")


async def stop_half_way(client: Client) -> None:
    """Call the tool, and cancel the call halfway."""
    far_enough = asyncio.Event()

    def watch(progress: float, total: float | None, message: str | None) -> None:
        show(progress, total, message)
        if total and progress > total / 2:
            far_enough.set()

    call = asyncio.create_task(client.call_tool("count_primes", {"below": 30_000_000}, on_progress=watch))
    await far_enough.wait()
    call.cancel()
    await asyncio.wait([call])
    assert call.cancelled()


async def main() -> None:
    """Let one job finish, cancel another, and let the server count both."""
    async with Client(SERVER, trace=tracer() if "--trace" in sys.argv else None) as client:
        if "--impatient" in sys.argv:
            await client.call_tool("count_primes", {"below": 10**10}, on_progress=show, timeout=2)
        print("To the end:")
        arguments = {"below": 5_000_000}
        result = await client.call_tool("count_primes", {**arguments}, on_progress=show, timeout=10, max_timeout=300)
        assert result.text == "348513", result
        print(f"There are {result.text} primes below {arguments['below']}. And now halfway:")
        await stop_half_way(client)
        # Messages arrive in order: the server has already received the cancellation.
        jobs = (await client.call_tool("list_jobs")).structured_content
        print(f"Stopped. The server says: {jobs}")
        assert jobs == {"running": 0, "finished": 1, "cancelled": 1}, jobs


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except RequestTimeout as error:
        sys.exit(f"gave up: {error}")
