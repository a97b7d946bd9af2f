"""Our client drives other people's servers: the official everything, filesystem and memory servers (TypeScript SDK 1),
git and time servers (Python SDK 2), and small ones made with each of the SDKs. Over stdio, and where they have it over
Streamable HTTP and HTTP+SSE."""

import asyncio
import base64
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from mcp_ref import (
    CapabilityError,
    Client,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    EmbeddedResource,
    ImageContent,
    PromptReference,
    RemoteError,
    RequestTimeout,
    ResourceLink,
    ResourceTemplateReference,
    Root,
    TextContent,
)
from mcp_ref.transports.stdio.client import StdioClientTransport
from tests.interop.recorded import Recorded

SECONDS = 60.0
"""Maximum time of a conversation, in seconds: some servers start slowly, on a machine that does other things too."""

SCRIPTS = Path(__file__).parent / "peers"

Where: TypeAlias = list[str] | str
"""A command, or a URL."""

TRANSPORTS = {"stdio": "", "streamableHttp": "/mcp", "sse": "/sse"}
"""As the everything server calls them; and the path that it serves them at."""


@dataclass
class Host:
    """A program with everything a server may ask for, which remembers what it was asked."""

    logs: list[Any] = field(default_factory=list)
    sampling: list[CreateMessageRequestParams] = field(default_factory=list)
    elicitation: list[ElicitRequestFormParams | ElicitRequestURLParams] = field(default_factory=list)
    resources_changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def sample(self, params: CreateMessageRequestParams) -> CreateMessageResult:
        self.sampling.append(params)
        return CreateMessageResult("assistant", TextContent("four"), "a model", "endTurn")

    async def elicit(self, params: ElicitRequestFormParams | ElicitRequestURLParams) -> ElicitResult:
        self.elicitation.append(params)
        return ElicitResult("accept", {"name": "Ada"} if isinstance(params, ElicitRequestFormParams) else None)

    def client(self, where: Where, **options: Any) -> Client:
        return Client(
            where, sampling=self.sample, elicitation=self.elicit, elicitation_url=True, on_log=self.logs.append,
            on_resources_changed=self.resources_changed.set, **options,
        )  # fmt: skip


def node_server(peers: Path, name: str, *arguments: str | Path) -> list[str | Path]:
    """Return the command that starts one of the official servers for Node.js."""
    script = peers / f"node_modules/@modelcontextprotocol/server-{name}/dist/index.js"
    return [peers / "node_modules/.bin/node", script, *arguments]


@contextmanager
def everything_by(transport: str, peers: Path, recorded: Recorded) -> Iterator[Where]:
    node, *arguments = node_server(peers, "everything", transport)
    if transport == "stdio":
        yield recorded.command([node, *arguments])
        return
    command = [node, "--import", SCRIPTS / "tell_port.mjs", *arguments]
    with recorded.listening(command, r"listening on port (\d+)\n", {"PORT": "0"}) as ready:
        yield f"http://127.0.0.1:{ready[1]}{TRANSPORTS[transport]}"


@pytest.fixture(scope="module", params=TRANSPORTS)
def shared_everything(
    request: pytest.FixtureRequest, peers: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Where | None]:
    """Start one `everything` for all tests over HTTP. Over stdio each client starts its own, and this yields None."""
    if request.param == "stdio":
        yield None
        return
    recorded = Recorded(tmp_path_factory.mktemp(request.param))
    with everything_by(request.param, peers, recorded) as where:
        yield where
    assert recorded.alive() == []


@pytest.fixture
def everything(shared_everything: Where | None, peers: Path, recorded: Recorded) -> Iterator[Where]:
    if shared_everything is not None:
        yield shared_everything
        return
    with everything_by("stdio", peers, recorded) as where, left_clean(recorded):
        yield where


@pytest.fixture(params=TRANSPORTS)
def busy_everything(request: pytest.FixtureRequest, peers: Path, recorded: Recorded) -> Iterator[Where]:
    """Start `everything` for a test in which a tool still runs at the end, so that only a signal ends the server."""
    with everything_by(request.param, peers, recorded) as where:
        yield where
    assert len(recorded.pids) == 1
    assert recorded.alive() == []


@contextmanager
def left_clean(recorded: Recorded, clients: int = 1) -> Iterator[None]:
    """Check after the block that the server of each client has ended without a signal, because its input was closed.

    Within the block, a client sends the signal only after `SECONDS`, because on a busy machine some servers need more
    than the usual time to end.
    """
    defaults = StdioClientTransport.__init__.__kwdefaults__
    assert defaults is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(defaults, "grace", SECONDS)
        yield
    assert len(recorded.pids) == clients
    assert recorded.alive() == []
    assert recorded.statuses == [0] * clients


# ---------------------------------------------------------------------------------------------------- everything


async def test_client_learns_the_info_and_the_capabilities_of_the_server(everything: Where) -> None:
    async with Client(everything) as client:
        assert client.revision.name == "2025-11-25"
        assert client.server_info.name == "mcp-servers/everything"
        assert client.server_info.title == "Everything Reference Server"
        assert client.instructions is not None and client.instructions.startswith("# Everything Server")
        for capability in ("logging", "prompts", "resources.subscribe", "tools", "completions"):
            assert client.server_can(capability)
        await client.ping()


@pytest.mark.parametrize("revision", ["2024-10-07", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_client_speaks_every_revision_of_the_server(everything: Where, revision: str) -> None:
    async with Client(everything, revision=revision) as client:
        assert client.revision.name == revision
        assert (await client.call_tool("get-sum", {"a": 2, "b": 3})).text == "The sum of 2 and 3 is 5."


async def test_tools_depend_on_what_the_client_declared(everything: Where) -> None:
    async with Host().client(everything, roots=["file:///home/ada"]) as client:
        await client.ping()  # this server adds tools when it is told that the client is initialized
        assert {tool.name for tool in await client.list_tools()} >= {
            "get-roots-list", "trigger-elicitation-request", "trigger-sampling-request", "trigger-url-elicitation",
        }  # fmt: skip
        await client.call_tool("get-roots-list")  # else it asks 350 ms later, and waits a minute for the answer


async def test_without_client_features_no_tool_asks_for_them(everything: Where) -> None:
    async with Client(everything) as client:
        tools = {tool.name: tool for tool in await client.list_tools()}
        assert "trigger-sampling-request" not in tools
        assert tools["echo"].title == "Echo Tool"
        assert tools["echo"].annotations is not None and tools["echo"].annotations.read_only_hint is True
        assert tools["echo"].input_schema["required"] == ["message"]
        assert tools["get-structured-content"].output_schema is not None


async def test_tools_give_every_kind_of_content(everything: Where) -> None:
    async with Client(everything) as client:
        message = "snowman \u2603, line\u2028break, emoji \U0001f600"
        assert (await client.call_tool("echo", {"message": message})).text == f"Echo: {message}"

        image = (await client.call_tool("get-tiny-image")).content[1]
        assert isinstance(image, ImageContent) and image.mime_type == "image/png"
        assert base64.b64decode(image.data).startswith(b"\x89PNG")

        success = {"messageType": "success", "includeImage": True}
        text, image = (await client.call_tool("get-annotated-message", success)).content
        assert isinstance(text, TextContent) and text.annotations is not None
        assert (text.annotations.audience, text.annotations.priority) == (["user"], 0.7)
        assert isinstance(image, ImageContent) and image.annotations is not None

        _, *links = (await client.call_tool("get-resource-links", {"count": 2})).content
        assert all(isinstance(link, ResourceLink) for link in links)
        assert [link.uri for link in links] == [  # type: ignore[union-attr]
            "demo://resource/dynamic/blob/1",
            "demo://resource/dynamic/text/2",
        ]

        reference = {"resourceType": "Blob", "resourceId": 3}
        _, embedded, _ = (await client.call_tool("get-resource-reference", reference)).content
        assert isinstance(embedded, EmbeddedResource)
        assert embedded.resource.uri == "demo://resource/dynamic/blob/3"


async def test_structured_results_are_held_against_the_listed_schema(everything: Where) -> None:
    async with Client(everything) as client:
        await client.list_tools()
        result = await client.call_tool("get-structured-content", {"location": "Chicago"})
        assert result.structured_content == {"temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82}
        assert json.loads(result.text) == result.structured_content


async def test_this_server_reports_even_unknown_tools_in_the_result(everything: Where) -> None:
    """Expect a result with `isError` from TypeScript SDK 1, although the specification demands a protocol error."""
    async with Client(everything) as client:
        unknown = await client.call_tool("no-such-tool")
        assert unknown.is_error
        assert "-32602" in unknown.text and "no-such-tool" in unknown.text
        wrong = await client.call_tool("get-sum", {"a": "two", "b": 3})
        assert wrong.is_error and "expected number" in wrong.text
        # Its one tool that must run as a task; our client has no tasks.
        task_only = await client.call_tool("simulate-research-query", {"topic": "tasks"})
        assert task_only.is_error and "-32601" in task_only.text


async def test_resources_are_listed_and_read(everything: Where) -> None:
    async with Client(everything) as client:
        resources = await client.list_resources()
        assert "demo://resource/static/document/features.md" in [resource.uri for resource in resources]
        templates = await client.list_resource_templates()
        assert [template.uri_template for template in templates] == [
            "demo://resource/dynamic/text/{resourceId}",
            "demo://resource/dynamic/blob/{resourceId}",
        ]
        [text] = (await client.read_resource("demo://resource/dynamic/text/7")).contents
        assert text.mime_type == "text/plain"
        assert text.text.startswith("Resource 7: This is a plaintext resource")  # type: ignore[union-attr]
        [blob] = (await client.read_resource("demo://resource/dynamic/blob/7")).contents
        decoded = base64.b64decode(blob.blob)  # type: ignore[union-attr]
        assert decoded.startswith(b"Resource 7: This is a base64 blob")

        # The spec's code for it is -32002; TypeScript SDK 1 answers -32602, as the newest revision does.
        with pytest.raises(RemoteError) as caught:
            await client.read_resource("demo://nowhere")
        assert caught.value.code == -32602


async def test_prompts_are_listed_and_filled_in(everything: Where) -> None:
    async with Client(everything) as client:
        prompts = {prompt.name: prompt for prompt in await client.list_prompts()}
        assert prompts.keys() >= {"simple-prompt", "args-prompt", "completable-prompt", "resource-prompt"}
        arguments = prompts["args-prompt"].arguments or []
        assert [(argument.name, argument.required) for argument in arguments] == [("city", True), ("state", False)]

        [message] = (await client.get_prompt("args-prompt", {"city": "Bath"})).messages
        assert message.role == "user"
        assert isinstance(message.content, TextContent) and message.content.text == "What's weather in Bath?"

        _, resource = (await client.get_prompt("resource-prompt", {"resourceType": "Text", "resourceId": "1"})).messages
        assert isinstance(resource.content, EmbeddedResource)

        for name in ("args-prompt", "no-such-prompt"):  # without a required argument; an unknown prompt
            with pytest.raises(RemoteError) as caught:
                await client.get_prompt(name)
            assert caught.value.code == -32602


async def test_completion_knows_the_other_arguments(everything: Where) -> None:
    async with Client(everything) as client:
        ref = PromptReference("completable-prompt")
        assert (await client.complete(ref, "department", "S")).values == ["Sales", "Support"]
        assert (await client.complete(ref, "name", "A", {"department": "Engineering"})).values == ["Alice"]
        assert (await client.complete(ref, "name", "A", {"department": "Sales"})).values == []
        template = ResourceTemplateReference("demo://resource/dynamic/text/{resourceId}")
        assert (await client.complete(template, "resourceId", "12")).values == ["12"]


async def test_sampling_is_answered(everything: Where) -> None:
    host = Host()
    async with host.client(everything) as client:
        await client.ping()
        result = await client.call_tool("trigger-sampling-request", {"prompt": "2 + 2?", "maxTokens": 5})
        assert json.loads(result.text.removeprefix("LLM sampling result: "))["content"]["text"] == "four"
    [asked] = host.sampling
    assert (asked.max_tokens, asked.temperature) == (5, 0.7)
    assert asked.system_prompt == "You are a helpful test server."
    assert isinstance(asked.messages[0].content, TextContent) and "2 + 2?" in asked.messages[0].content.text


async def test_elicitation_is_answered_with_defaults_filled_in(everything: Where) -> None:
    host = Host()
    async with host.client(everything) as client:
        await client.ping()
        result = await client.call_tool("trigger-elicitation-request")
        answer = json.loads(result.text[result.text.index("Raw result: ") + len("Raw result: ") :])
        assert answer["action"] == "accept"
        assert answer["content"]["name"] == "Ada"
        assert answer["content"]["integer"] == 42  # a default of the form, which the user left alone
        assert answer["content"]["titledMultipleSelectEnum"] == ["fish-1"]
    [form] = host.elicitation
    assert isinstance(form, ElicitRequestFormParams)
    assert form.message == "Please provide inputs for the following fields:"


async def test_elicitation_by_url_is_answered(everything: Where) -> None:
    host = Host()
    visit = {"url": "https://example.org/sign-in", "message": "Please sign in", "elicitationId": "visit-1"}
    async with host.client(everything) as client:
        await client.ping()
        assert "URL elicitation flow" in (await client.call_tool("trigger-url-elicitation", visit)).text
        [page] = host.elicitation
        assert isinstance(page, ElicitRequestURLParams)
        assert (page.url, page.message, page.elicitation_id) == tuple(visit.values())

        # The other way to ask: refuse the call until the user has been there.
        with pytest.raises(RemoteError) as caught:
            await client.call_tool("trigger-url-elicitation", {**visit, "errorPath": True})
        assert caught.value.code == -32042
        assert isinstance(caught.value.data, dict)
        assert isinstance(elicitations := caught.value.data["elicitations"], list)
        assert [isinstance(each, dict) and each["mode"] for each in elicitations] == ["url"]


async def test_roots_are_given(everything: Where) -> None:
    async with Client(everything, roots=[Root("file:///home/ada", "home")]) as client:
        await client.ping()
        listed = (await client.call_tool("get-roots-list")).text
        assert "1 total" in listed and "home" in listed and "file:///home/ada" in listed


async def test_changed_roots_are_asked_for_again(everything: Where) -> None:
    told = asyncio.Event()

    def on_log(log: Any) -> None:
        if "Roots updated: 2 root(s)" in str(log.data):
            told.set()

    async with Client(everything, roots=["file:///one"], on_log=on_log) as client:
        await client.ping()
        await client.call_tool("get-roots-list")  # from here on, this server listens for changes
        await client.set_roots(["file:///one", "file:///two"])
        await asyncio.wait_for(told.wait(), 10)
        assert "file:///two" in (await client.call_tool("get-roots-list")).text


async def test_log_messages_arrive_from_the_chosen_level(everything: Where) -> None:
    host = Host()
    async with host.client(everything) as client:
        await client.set_logging_level("emergency")
        async with client.subscribe("demo://resource/dynamic/text/7"):
            pass  # this server logs both steps, at level info
        await client.ping()
        assert [log for log in host.logs if "Subscribe" in str(log.data)] == []
        await client.set_logging_level("debug")
        async with client.subscribe("demo://resource/dynamic/text/7"):
            pass
        await client.ping()
        levels = [log.level for log in host.logs if "ubscribe Resource request" in str(log.data)]
        assert levels == ["info", "info"]


async def test_subscription_yields_updates(everything: Where) -> None:
    async with Client(everything) as client, client.subscribe("demo://resource/dynamic/text/7") as updates:
        await client.call_tool("toggle-subscriber-updates")  # the first update comes at once
        assert await asyncio.wait_for(anext(aiter(updates)), 10) == "demo://resource/dynamic/text/7"
        await client.call_tool("toggle-subscriber-updates")


async def test_new_resource_is_announced(everything: Where) -> None:
    host = Host()
    async with host.client(everything) as client:
        file = {"name": "hello.gz", "data": "data:text/plain;base64,aGVsbG8=", "outputType": "resourceLink"}
        [link] = (await client.call_tool("gzip-file-as-resource", file)).content
        assert isinstance(link, ResourceLink)
        await asyncio.wait_for(host.resources_changed.wait(), 10)
        assert link.uri in [resource.uri for resource in await client.list_resources()]


async def test_progress_is_reported_in_order(everything: Where) -> None:
    steps: list[tuple[float, float | None]] = []
    async with Client(everything) as client:
        result = await client.call_tool(
            "trigger-long-running-operation",
            {"duration": 0.5, "steps": 5},
            on_progress=lambda progress, total, message: steps.append((progress, total)),
        )
        assert result.text == "Long running operation completed. Duration: 0.5 seconds, Steps: 5."
    # Its last step comes in the same moment as the result.
    assert steps == [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]


async def test_call_that_is_cancelled_or_times_out_leaves_the_connection_usable(busy_everything: Where) -> None:
    began = asyncio.Event()
    forever = {"duration": 600, "steps": 60_000}
    async with Client(busy_everything) as client:
        call = asyncio.create_task(
            client.call_tool("trigger-long-running-operation", forever, on_progress=lambda *step: began.set())
        )
        await asyncio.wait_for(began.wait(), 10)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        with pytest.raises(RequestTimeout):
            await client.call_tool("trigger-long-running-operation", forever, timeout=0.1)
        assert (await client.call_tool("echo", {"message": "still here"})).text == "Echo: still here"


async def test_many_calls_at_once_each_get_their_own_answer(everything: Where) -> None:
    async with Client(everything) as client:
        calls = [client.call_tool("get-sum", {"a": n, "b": 1}) for n in range(100)]
        texts = [result.text for result in await asyncio.gather(*calls)]
        assert texts == [f"The sum of {n} and 1 is {n + 1}." for n in range(100)]


async def test_large_message_passes_in_both_directions(everything: Where) -> None:
    async with Client(everything) as client:
        message = "x" * 4_000_000
        assert (await client.call_tool("echo", {"message": message})).text == f"Echo: {message}"


# ---------------------------------------------------------------------------------------------------- the way it ends


async def test_server_behind_a_launcher_ends_with_the_launcher(peers: Path, recorded: Recorded) -> None:
    """Start a process that is not the server but the parent of the server, as npx is."""
    server = recorded.command(node_server(peers, "everything", "stdio"))
    async with Client(["sh", "-c", '"$@"; exit', "launcher", *server]) as client:
        await client.ping()
    assert len(recorded.pids) == 1
    assert recorded.alive() == []


async def test_exception_inside_the_client_leaves_no_server(everything: Where) -> None:
    with pytest.raises(KeyError, match="a bug of the host"):
        async with Client(everything) as client:
            await client.ping()
            raise KeyError("a bug of the host")


async def test_cancelled_host_leaves_no_server(busy_everything: Where) -> None:
    connected = asyncio.Event()

    async def host() -> None:
        async with Client(busy_everything) as client:
            connected.set()
            await client.call_tool("trigger-long-running-operation", {"duration": 600, "steps": 1})

    task = asyncio.create_task(host())
    await asyncio.wait_for(connected.wait(), 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# ---------------------------------------------------------------------------------------------------- the other servers


async def test_filesystem(peers: Path, recorded: Recorded, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    command = recorded.command(node_server(peers, "filesystem", folder))
    with left_clean(recorded):
        async with Client(command) as client:
            assert client.server_info.name == "secure-filesystem-server"
            assert not client.server_can("resources")
            assert {"write_file", "read_text_file", "list_directory"} <= {
                tool.name for tool in await client.list_tools()
            }

            path = str(folder / "a.txt")
            assert not (await client.call_tool("write_file", {"path": path, "content": "one\ntwo\n"})).is_error
            assert (folder / "a.txt").read_text() == "one\ntwo\n"
            result = await client.call_tool("read_text_file", {"path": path, "head": 1})
            assert result.text == "one"
            assert result.structured_content == {"content": "one"}
            assert (await client.call_tool("list_directory", {"path": str(folder)})).text == "[FILE] a.txt"

            outside = await client.call_tool("read_text_file", {"path": "/etc/hostname"})
            assert outside.is_error and "Access denied" in outside.text

            with pytest.raises(CapabilityError, match="resources"):  # refused on our side: it declared none
                await client.list_resources()


async def test_filesystem_takes_its_folders_from_the_roots(peers: Path, recorded: Recorded, tmp_path: Path) -> None:
    command = recorded.command(node_server(peers, "filesystem"))
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()

    async def allowed(client: Client, folder: Path) -> bool:
        """Ask until the server uses the new roots, because it sends no message then."""
        for _ in range(500):
            if str(folder) in (await client.call_tool("list_allowed_directories")).text:
                return True
        return False

    with left_clean(recorded):
        async with Client(command, roots=[first]) as client:
            assert await allowed(client, first)
            await client.set_roots([second])
            assert await allowed(client, second)
            assert (await client.call_tool("list_directory", {"path": str(first)})).is_error


async def test_memory(peers: Path, recorded: Recorded, tmp_path: Path) -> None:
    command = recorded.command(node_server(peers, "memory"))
    with left_clean(recorded):
        async with Client(command, env={"MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")}) as client:
            await client.list_tools()
            ada = {"name": "Ada", "entityType": "person", "observations": ["wrote programs"]}
            uri = "memory://knowledge-graph"
            async with client.subscribe(uri) as updates:
                await client.call_tool("create_entities", {"entities": [ada]})
                assert await asyncio.wait_for(anext(aiter(updates)), 10) == uri
            graph = (await client.call_tool("read_graph")).structured_content
            assert graph == {"entities": [ada], "relations": []}
            [resource] = (await client.read_resource(uri)).contents
            assert json.loads(resource.text) == graph  # type: ignore[union-attr]


async def test_git(peers: Path, recorded: Recorded, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", repository], check=True)
    (repository / "a.txt").write_text("one\n")
    with left_clean(recorded):
        async with Client(recorded.command([peers / "python-sdk-2/bin/mcp-server-git", "-r", repository])) as client:
            assert client.server_info.name == "mcp-git"
            at = {"repo_path": str(repository)}
            assert "a.txt" in (await client.call_tool("git_status", at)).text
            assert not (await client.call_tool("git_add", {**at, "files": ["a.txt"]})).is_error
            assert "+one" in (await client.call_tool("git_diff_staged", at)).text

            elsewhere = await client.call_tool("git_status", {"repo_path": "/"})
            assert elsewhere.is_error
            assert await client.list_resources() == []
            assert await client.list_prompts() == []


async def test_time(peers: Path, recorded: Recorded) -> None:
    command = recorded.command([peers / "python-sdk-2/bin/mcp-server-time", "--local-timezone", "UTC"])
    with left_clean(recorded):
        async with Client(command) as client:
            tools = {tool.name: tool for tool in await client.list_tools()}
            assert tools["convert_time"].output_schema is not None
            question = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
            answer = (await client.call_tool("convert_time", question)).structured_content
            assert answer is not None and "T21:00:00+09:00" in json.dumps(answer)
            assert (await client.call_tool("get_current_time", {"timezone": "Nowhere/Town"})).is_error


@dataclass
class Library:
    """A library for servers, and the special behavior of its servers."""

    program: str
    transports: list[str]
    bug: str = "a bug of the server"
    """The text that a client receives for the exception of a tool."""
    unknown_tool_is_an_error: bool = False
    """As the spec has it; others put it into a result."""
    missing: int = -32602
    """The code for a resource that there is not: in the spec -32002, and that of the newest revision for many."""
    stateless: tuple[str, ...] = ()
    """The transports over which it speaks 2026-07-28, too."""


PYTHON = ["stdio", "streamable-http", "sse", "stateless"]
STATELESS = ("stdio", "streamable-http", "stateless")

LIBRARIES = {
    "fastmcp": Library("fastmcp/bin/python", PYTHON, stateless=STATELESS),
    "python-sdk-1": Library("python-sdk-1/bin/python", PYTHON, missing=0),
    "python-sdk-2": Library("python-sdk-2/bin/python", PYTHON, bug="Error executing tool fail", stateless=STATELESS),
    "typescript-sdk-2": Library(
        "node_modules/.bin/node", ["stdio", "streamable-http", "stateless"], unknown_tool_is_an_error=True,
        stateless=("stateless",),
    ),
}  # fmt: skip


@contextmanager
def small_server(library: str, transport: str, peers: Path, recorded: Recorded, clients: int = 1) -> Iterator[Where]:
    """Start the server that peers/small_server.py or peers/small_server.mjs makes with a library, for some clients."""
    program = LIBRARIES[library].program
    script = SCRIPTS / ("small_server.mjs" if program.endswith("node") else "small_server.py")
    command: list[str | Path] = [peers / program, script, transport]
    env = {"MCP_REF_PEERS": str(peers)}
    if transport == "stdio":
        with left_clean(recorded, clients):
            yield ["env", *(f"{name}={value}" for name, value in env.items()), *recorded.command(command)]
        return
    with recorded.listening(command, r"running on (http://\S+)", env) as ready:
        yield ready[1] + ("/sse" if transport == "sse" else "/mcp")
    assert recorded.alive() == []
    assert "Exception in ASGI application" not in recorded.stderr


@pytest.mark.parametrize(
    ("library", "transport"), [(name, way) for name, library in LIBRARIES.items() for way in library.transports]
)
async def test_client_uses_a_small_server_of_each_library_in_each_revision(
    peers: Path, recorded: Recorded, library: str, transport: str
) -> None:
    both = transport in LIBRARIES[library].stateless

    async def test(where: Where, revision: str) -> None:
        host, steps = Host(), []
        # Nothing is said of revisions, but where the handshake is wanted with a server that can do without.
        legacy = both and revision == "2025-11-25"
        async with host.client(where, **({"revision": revision} if legacy else {})) as client:
            assert client.revision.name == revision
            tools = {tool.name: tool for tool in await client.list_tools()}
            assert tools["add"].output_schema is not None
            assert (await client.call_tool("add", {"a": 2, "b": 3})).structured_content == {"result": 5}

            if transport != "stateless" and revision == "2025-11-25":  # otherwise the server cannot receive a reply
                asked = await client.call_tool("ask", {"question": "Who is there?"})
                assert asked.text == "accept: name='Ada' age=30"  # the age is the form's default
                [form] = host.elicitation
                assert isinstance(form, ElicitRequestFormParams) and form.message == "Who is there?"

            counted = await client.call_tool("count", {"to": 3}, on_progress=lambda *step: steps.append(step))
            assert counted.structured_content == {"result": 3}
            assert steps == [(1, 3, None), (2, 3, None), (3, 3, None)]
            data = [log.data["msg"] if library == "fastmcp" else log.data for log in host.logs]
            assert data == ["step 1", "step 2", "step 3"]

            failed = await client.call_tool("fail")
            assert failed.is_error and LIBRARIES[library].bug in failed.text
            if LIBRARIES[library].unknown_tool_is_an_error:
                with pytest.raises(RemoteError, match="no_such_tool") as caught:
                    await client.call_tool("no_such_tool")
                assert caught.value.code == -32602
            else:
                unknown = await client.call_tool("no_such_tool")
                assert unknown.is_error and "no_such_tool" in unknown.text

            [contents] = (await client.read_resource("config://colors")).contents
            assert contents.text == "section colors"  # type: ignore[union-attr]
            with pytest.raises(RemoteError) as caught:
                await client.read_resource("nowhere://colors")
            assert caught.value.code == LIBRARIES[library].missing

    with small_server(library, transport, peers, recorded, clients=1 + both) as where:
        await test(where, "2025-11-25")
        if both:
            await test(where, "2026-07-28")
