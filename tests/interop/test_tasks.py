"""Tasks with other people's programs: their clients follow our server's, and ours follows and serves those of a server
of theirs."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from mcp_ref import (
    Client,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    TextContent,
)
from tests.check.foreign import faults_in
from tests.forked_python import forked
from tests.interop.recorded import Recorded, run_peer
from tests.server_programs import recording

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).parent / "peers" / "tasks.mjs"
SERVER = ["-m", "mcp_ref", "run", "examples/everything.py", "--http", "--port", "0"]
HELD = 60.0
"""Seconds that a test may take."""


def seen_by(peers: Path, recorded: Recorded, which: str) -> dict[str, Any]:
    """Run a client that calls our server's tools as tasks, and return its report. Neither side may break a rule."""
    talk = recorded.folder / "talk.jsonl"
    with (
        recorded.listening(forked(*SERVER), r"everything: (http://[^/\n]+/mcp)\n") as ready,
        recording(talk, ready[1]) as url,
    ):
        ran = run_peer(peers, peers / "node_modules/.bin/node", SCRIPT, which, url)
    assert ran.returncode == 0, ran.stdout + ran.stderr + recorded.stderr
    assert faults_in(talk) == set()
    reported: dict[str, Any] = json.loads(ran.stdout)
    return reported


def test_typescript_sdk_follows_the_tasks_of_2025_11_25(peers: Path, recorded: Recorded) -> None:
    seen = seen_by(peers, recorded, "sdk-1")
    assert seen["greet"] == ["Hello, Bo!"]
    assert (seen["slow_compute"][0], seen["slow_compute"][-1]) == ("working", "x: done")
    assert "input_required" in seen["confirm_delete"] and seen["confirm_delete"][-1] == "f deleted"
    for name in ("failing_job", "protocol_error_job"):
        assert seen[name][-2] == "failed" and seen[name][-1].startswith("error: ")
    assert seen["listed"] == ["completed", "completed", "failed", "failed"]


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_package_of_the_tasks_extension_follows_the_tasks_of_both_eras(
    peers: Path, recorded: Recorded, era: str
) -> None:
    assert seen_by(peers, recorded, era) == {
        "era": era,
        "greet": ["completed", "Hello, Bo!"],
        "slow_compute": ["completed", "x: done"],
        "confirm_delete": ["completed", "f deleted"],
        # a tool that fails: in the experiment its task has failed, in the extension it is completed
        "failing_job": ["failed" if era == "legacy" else "completed", "This job intentionally fails"],
        "protocol_error_job": ["refused" if era == "legacy" else "failed", "This job intentionally cannot be served"],
    }


def test_our_client_follows_the_everything_servers_tasks_and_serves_its_questions_as_tasks(peers: Path) -> None:
    asked: list[str] = []

    async def user(question: ElicitRequestFormParams | ElicitRequestURLParams) -> ElicitResult:
        asked.append("user")
        assert isinstance(question, ElicitRequestFormParams)
        research = "interpretation" in str(question.requested_schema)
        return ElicitResult("accept", {"interpretation": "technical"} if research else {"name": "Ada"})

    async def model(question: CreateMessageRequestParams) -> CreateMessageResult:
        asked.append("model")
        return CreateMessageResult("assistant", TextContent("four"), "a model", "endTurn")

    async def test() -> None:
        script = peers / "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
        command = [str(peers / "node_modules/.bin/node"), str(script), "stdio"]
        async with asyncio.timeout(HELD), Client(command, sampling=model, elicitation=user, tasks=True) as client:
            assert client.revision.built_in_tasks and client.server_can("tasks.requests.tools.call")
            while not (tools := {tool.name for tool in await client.list_tools()}) >= {
                "trigger-sampling-request-async", "trigger-elicitation-request-async",
            }:  # fmt: skip
                await asyncio.sleep(0.05)  # it adds them once it knows what the client can do
            assert "simulate-research-query" in tools
            done = await client.call_tool("simulate-research-query", {"topic": "bread", "ambiguous": True})
            assert "bread (technical)" in done.text and asked == ["user"]

            running = await client.start_tool("simulate-research-query", {"topic": "cheese"}, ttl=60)
            status = await running.status()
            assert status is not None and status.status == "working"
            await running.cancel()
            assert [task.status for task in await client.list_tasks()] == ["completed", "cancelled"]

            done = await client.call_tool("trigger-sampling-request-async", {"prompt": "2 + 2?"})
            assert "[COMPLETED]" in done.text and "four" in done.text
            done = await client.call_tool("trigger-elicitation-request-async")
            assert "Ada" in done.text and asked == ["user", "model", "user"]
            assert [task.status for task in client.tasks.store.page("server", None)[0]] == ["completed"] * 2

    asyncio.run(test())
