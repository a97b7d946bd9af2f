"""Stateless requests behind a proxy that gives each to the next server: two processes that share a state key."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import secrets
import signal
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import cast

import pytest

from mcp_ref import Client, ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult
from tests.server_programs import Program, serving
from tests.settings import PATIENCE

REPLICA = Path(__file__).parent / "replica.py"
CALLS = 150
AT_ONCE = 16
SECONDS = 60.0


@contextlib.asynccontextmanager
async def round_robin(programs: Sequence[Program], served: list[int]) -> AsyncIterator[str]:
    """Run a proxy, and return its URL. Each request goes to the next server, over a connection of its own.

    `served` counts the requests of each server.
    """
    ports = [int(re.findall(r":(\d+)/", program.url)[0]) for program in programs]
    turns = itertools.cycle(range(len(ports)))
    under_way = set[asyncio.Task[None]]()
    served[:] = [0] * len(ports)

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        under_way.add(cast("asyncio.Task[None]", asyncio.current_task()))
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            body = await reader.readexactly(int(re.findall(rb"(?i)\r\nContent-Length: *(\d+)", head)[0]))
            turn = next(turns)
            served[turn] += 1
            answer, ask = await asyncio.open_connection("127.0.0.1", ports[turn])
            try:
                ask.write(head.replace(b"\r\n", b"\r\nConnection: close\r\n", 1) + body)
                while piece := await answer.read(65536):
                    writer.write(piece)
                    await writer.drain()
            finally:
                await _close(ask)
        finally:
            await _close(writer)

    proxy = await asyncio.start_server(forward, "127.0.0.1", 0)
    async with proxy:
        yield f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}/mcp"
        await asyncio.wait_for(asyncio.gather(*under_way), PATIENCE)


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def answer(params: ElicitRequestFormParams | ElicitRequestURLParams) -> ElicitResult:
    """Return a thing for a number, and "yes" for a thing, with the id of the process that sent the elicitation."""
    who, question = params.message.split(": ")
    number = re.findall(r"what is order (\d+)\?", question)
    line = f"thing {number[0]}" if number else f"yes, {question[:-1]}"
    return ElicitResult("accept", {"line": f"{line} ({who})"})


@pytest.mark.spec("2026-07-28/basic/index#statelessness-1,3")
async def test_request_state_is_accepted_by_every_server_with_the_same_state_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STATE_KEY", secrets.token_hex(32))
    served, moved, room = list[int](), {False: 0, True: 0}, asyncio.Semaphore(AT_ONCE)

    async def call(client: Client, number: int) -> None:
        async with room, asyncio.timeout(PATIENCE):
            if number % 3:
                result = await client.call_tool("add", {"a": number, "b": 1})
                assert cast("list[int]", result.structured_content)[0] == number + 1
                return
            result = await client.call_tool("order", {"number": number})
            thing, sure, last = cast("list[str]", result.structured_content)
            first = re.fullmatch(rf"thing {number} \((\d+)\)", thing)
            second = re.fullmatch(rf"yes, {re.escape(thing)} \((\d+)\)", sure)
            assert first and second, result
            moved[len({first[1], second[1], last}) > 1] += 1

    with serving(REPLICA) as one, serving(REPLICA) as other:
        async with (
            round_robin([one, other], served) as url,
            Client(url, elicitation=answer, revision="2026-07-28") as client,
            asyncio.TaskGroup() as tasks,
        ):
            for number in range(CALLS):
                tasks.create_task(call(client, number))
        for program in (one, other):
            assert program.stop(signal.SIGTERM) == b""
    orders = len(range(0, CALLS, 3))
    assert sum(served) == 1 + CALLS + 2 * orders  # once it was asked who it is; an order takes two rounds
    assert abs(served[0] - served[1]) <= 1
    assert sum(moved.values()) == orders and moved[True] > orders / 4, moved
