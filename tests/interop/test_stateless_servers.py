"""Our client and servers of 2026-07-28 made with other people's SDKs: peers/stateless_server.py and its TypeScript
sibling, over stdio and Streamable HTTP. Nothing is configured: the client finds out what they speak."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from mcp_ref import PromptReference, RemoteError, RequestTimeout, TextContent
from tests.interop.recorded import Recorded
from tests.interop.test_foreign_servers import SCRIPTS, Host, Where, left_clean

LIBRARIES = {
    "python-sdk-2": ("python-sdk-2/bin/python", "stateless_server.py"),
    "typescript-sdk-2": ("node_modules/.bin/node", "stateless_server.mjs"),
}
TRANSPORTS = ["stdio", "streamable-http"]
COUNTED = "test://counted"


@dataclass
class Shared:
    """A server for all tests. It listens, and has a record; or it is started by each client."""

    command: list[str | Path]
    recorded: Recorded | None = None
    url: str = ""


@pytest.fixture(scope="module", params=[f"{library} {transport}" for library in LIBRARIES for transport in TRANSPORTS])
def shared(request: pytest.FixtureRequest, peers: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    library, transport = request.param.split()
    program, script = LIBRARIES[library]
    command: list[str | Path] = [peers / program, SCRIPTS / script, transport]
    if transport == "stdio":
        yield Shared(["env", f"MCP_REF_PEERS={peers}", *command])
        return
    recorded = Recorded(tmp_path_factory.mktemp(library))
    with recorded.listening(command, r"running on (http://\S+)", {"MCP_REF_PEERS": str(peers)}) as ready:
        yield Shared(command, recorded, ready[1] + "/mcp")
    assert recorded.alive() == []
    assert "Exception in ASGI application" not in recorded.stderr


@pytest.fixture
def where(shared: Shared, recorded: Recorded) -> Iterator[Where]:
    if shared.url:
        yield shared.url
        return
    with left_clean(recorded):
        yield recorded.command(shared.command)


async def cancelled(recorded: Recorded, times: int) -> None:
    """Wait until the server has seen this number of cancelled calls."""
    async with asyncio.timeout(10):
        while recorded.stderr.count("slow: cancelled") < times:
            await asyncio.sleep(0.02)


async def test_tools_prompts_and_completion(where: Where) -> None:
    host, steps, frames = Host(), [], bytearray()
    async with host.client(where, trace=lambda direction, frame: frames.extend(frame)) as client:
        assert client.revision.name == "2026-07-28"
        assert client.server_info.name == "stateless" and client.instructions == "Ask."
        await client.ping()

        # Over HTTP it is refused at first: which arguments go into headers, too, stands in the list of tools.
        asked = await client.call_tool("by_region", {"region": " Z\u00fcrich", "query": "rain"})
        assert asked.text == "rain in  Z\u00fcrich"
        assert (b"-32020" in frames) == isinstance(where, str)

        tools = {tool.name: tool for tool in await client.list_tools()}
        assert tools["add"].output_schema is not None
        assert (await client.call_tool("add", {"a": 2, "b": 3})).structured_content == {"result": 5}
        with pytest.raises(RemoteError):
            await client.read_resource("test://nowhere")

        counted = await client.call_tool("count", {"to": 3}, on_progress=lambda *step: steps.append(step))
        assert counted.structured_content == {"result": 3}
        assert steps == [(1, 3, None), (2, 3, None), (3, 3, None)]
        assert [log.data for log in host.logs] == ["step 1", "step 2", "step 3"]
        host.logs.clear()
        await client.set_logging_level("error")
        await client.call_tool("count", {"to": 3})
        assert host.logs == []

        greeting = await client.get_prompt("greet", {"name": "Bob"})
        [message] = greeting.messages
        assert isinstance(message.content, TextContent) and message.content.text == "Greet Bob, Ada."
        completion = await client.complete(PromptReference("greet"), "name", "Ad")
        assert completion.values == ["Ada"]


async def test_several_rounds_of_questions(where: Where) -> None:
    host = Host()
    async with host.client(where, roots=["file:///home/ada"]) as client:
        trips = await asyncio.gather(*(client.call_tool("plan_trip") for _ in range(5)))
        assert [trip.text for trip in trips] == ["Ada four 1 accept"] * 5
    assert sorted(form.message for form in host.elicitation) == ["Sure?"] * 5 + ["Where to?"] * 5
    assert len(host.sampling) == 5 and host.sampling[0].max_tokens == 5


async def test_client_receives_changes_and_reads_a_changed_resource_again(where: Where) -> None:
    changed = asyncio.Event()
    async with Host().client(where, on_tools_changed=changed.set) as client:

        async def count() -> str:
            [contents] = (await client.read_resource(COUNTED)).contents
            assert contents.uri == COUNTED
            return contents.text  # type: ignore[union-attr]

        assert [await count() for _ in range(3)] == ["1", "1", "1"]
        async with client.subscribe(COUNTED) as updates:
            for expected in ("2", "3"):
                await client.call_tool("touch")
                async with asyncio.timeout(10):
                    assert await anext(aiter(updates)) == COUNTED
                    await changed.wait()
                changed.clear()
                assert [await count(), await count()] == [expected, expected]
        await client.call_tool("touch")
        async with asyncio.timeout(10):
            await changed.wait()
        assert await count() == "3"  # nobody told


async def test_cancelled_call_ends_at_the_server_and_the_next_call_works(
    where: Where, shared: Shared, recorded: Recorded
) -> None:
    record = shared.recorded or recorded
    began = asyncio.Event()
    async with Host().client(where) as client:
        call = asyncio.create_task(client.call_tool("slow", on_progress=lambda *step: began.set()))
        async with asyncio.timeout(10):
            await began.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await cancelled(record, 1)
        with pytest.raises(RequestTimeout):
            await client.call_tool("slow", timeout=0.2)
        await cancelled(record, 2)
        assert (await client.call_tool("add", {"a": 2, "b": 3})).text == "5"
