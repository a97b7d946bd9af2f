"""The clients of one round. Each job opens one client or process, makes some calls, and checks their results."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_ref import Client, ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult, McpError
from tests.chaos.server import children
from tests.settings import MODERN, ROOT

if TYPE_CHECKING:
    from tests.chaos.faults import World

REVISIONS = ["2025-03-26", "2025-06-18", "2025-11-25", "2025-11-25", MODERN, MODERN]
TIMEOUT = 6.0
"""Time limit of a request, in seconds."""
STDIO = b"tests.chaos.server\0"
"""The end of the command line of a server over stdio."""

Outcomes = Counter[str]
"""The number of results and of each exception."""
Job = Callable[["World", random.Random, Outcomes], Coroutine[object, object, None]]


@contextlib.asynccontextmanager
async def counted(outcomes: Outcomes) -> AsyncIterator[None]:
    """Count the end of a block: "done", or the name of a documented exception. Other exceptions pass."""
    try:
        yield
        outcomes["done"] += 1
    except McpError as error:
        outcomes[type(error).__name__] += 1


async def count(world: World, rng: random.Random, outcomes: Outcomes) -> None:
    """Receive a long stream of events. Each event must arrive once and in order, up to the end or a failure."""
    numbers: list[object] = []
    revision, to = rng.choice(REVISIONS), rng.randint(1, 200)
    async with counted(outcomes):
        async with Client(world.proxy.url, revision=revision, timeout=TIMEOUT,
                          on_log=lambda message: numbers.append(message.data)) as client:  # fmt: skip
            result = await client.call_tool("count", {"to": to, "pause": rng.choice([0, 0.002, 0.02])})
        assert result.text == str(to) and numbers == list(range(to)), (revision, to, numbers)
    assert numbers == list(range(len(numbers))), (revision, to, numbers)


async def add(world: World, rng: random.Random, outcomes: Outcomes) -> None:
    """Make many short calls, some of them at the same time."""

    async def one(client: Client, a: int) -> None:
        async with counted(outcomes):
            assert (await client.call_tool("add", {"a": a, "b": 1})).text == str(a + 1)

    async with counted(outcomes), Client(world.proxy.url, revision=rng.choice(REVISIONS), timeout=TIMEOUT) as client:
        for _ in range(rng.randint(1, 20)):
            await asyncio.gather(*(one(client, rng.randrange(1000)) for _ in range(rng.randint(1, 5))))


async def ask(world: World, rng: random.Random, outcomes: Outcomes) -> None:
    """Let the server ask a slow user."""

    async def answer(request: ElicitRequestFormParams | ElicitRequestURLParams) -> ElicitResult:
        await asyncio.sleep(rng.choice([0, 0.3]))
        return ElicitResult("accept", {"name": "Ada"})

    revision = rng.choice(["2025-06-18", "2025-11-25", MODERN])
    async with (
        counted(outcomes),
        Client(world.proxy.url, revision=revision, elicitation=answer, timeout=TIMEOUT) as client,
    ):
        for _ in range(3):
            result = await client.call_tool("ask")
            assert result.is_error or "Ada" in result.text, result  # the tool fails if its session ends


async def mix(world: World, rng: random.Random, outcomes: Outcomes) -> None:
    """Make slow, large and cancelled calls, and listen to changes."""
    async with counted(outcomes), Client(world.proxy.url, revision=rng.choice(REVISIONS), timeout=TIMEOUT,
                                         on_resources_changed=lambda: None) as client:  # fmt: skip
        calls = [
            client.call_tool("block", {"seconds": 0.2}),
            client.call_tool("large", {"size": rng.choice([10, 10**6])}),
            client.call_tool("change"),
            client.call_tool("count", {"to": 1000, "pause": 0.01}, timeout=0.3),
        ]
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(outcome, BaseException) and not isinstance(outcome, McpError):
                raise outcome
            outcomes[type(outcome).__name__ if isinstance(outcome, McpError) else "done"] += 1


async def over_sse(world: World, rng: random.Random, outcomes: Outcomes) -> None:
    """Call over HTTP+SSE."""
    url = world.proxy.url.replace("/mcp", "/sse")
    async with counted(outcomes), Client(url, revision="2024-11-05", timeout=TIMEOUT) as client:
        for number in range(10):
            assert (await client.call_tool("add", {"a": number, "b": 1})).text == str(number + 1)
            await asyncio.sleep(0.02)


async def over_stdio(world: World, rng: random.Random, outcomes: Outcomes) -> None:
    """Call a server in a process of its own, which a signal sometimes kills."""
    command = [sys.executable, "-m", "tests.chaos.server"]
    async with counted(outcomes), Client(command, revision=rng.choice(REVISIONS), cwd=ROOT, timeout=TIMEOUT) as client:
        call = asyncio.create_task(client.call_tool("count", {"to": 20, "pause": 0.02}))
        await asyncio.sleep(rng.uniform(0, 0.4))
        if rng.random() < 0.5:
            with contextlib.suppress(OSError):
                victims = [pid for pid in children() if Path(f"/proc/{pid}/cmdline").read_bytes().endswith(STDIO)]
                os.kill(rng.choice(victims), rng.choice([signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, 40]))
        assert (await call).text == "20"


async def killed_client(world: World, rng: random.Random, outcomes: Outcomes) -> None:
    """Kill a client's process in the middle of a call."""
    command = [sys.executable, "-m", "mcp_ref", "call", "count", "to=1000", "pause=0.01", world.proxy.url]
    null = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=null, stdout=null, stderr=null)
    await asyncio.sleep(rng.uniform(0.2, 1.5))
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await process.wait()
    outcomes["killed"] += 1


JOBS: list[Job] = [count, count, count, add, ask, mix, over_sse, over_stdio, killed_client]
