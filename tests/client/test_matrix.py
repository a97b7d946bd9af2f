"""Every revision of a client with every revision of a server: 6 x 6 pairs negotiate, and run the same features."""

from __future__ import annotations

import asyncio

import pytest

from mcp_ref import (
    CapabilityError,
    Client,
    Completion,
    Context,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    NotInRevision,
    PromptReference,
    RemoteError,
    Server,
    TextContent,
    UnsupportedRevision,
)
from mcp_ref.jsonrpc.messages import Object
from mcp_ref.revisions import REVISIONS, Revision
from tests.forked_python import quick_python
from tests.settings import PATIENCE

PAIRS = [(client, server) for client in REVISIONS for server in REVISIONS]
NAMES = [f"client {client}, server {server}" for client, server in PAIRS]


def featured(revisions: tuple[Revision, ...]) -> Server:
    server = Server("s", revisions=revisions, page_size=2)

    @server.tool()
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool()
    async def work(context: Context) -> str:
        await context.report_progress(1, 2)
        await context.log("info", "half way")
        await context.report_progress(2, 2)
        return "done"

    @server.tool()
    async def ask_model(context: Context) -> str:
        return (await context.sample("hi", max_tokens=5)).text

    @server.tool()
    async def ask_user(context: Context) -> str:
        form: Object = {"type": "object", "properties": {"name": {"type": "string"}}}
        return str((await context.elicit("who?", form)).content)

    @server.tool()
    async def roots(context: Context) -> str:
        return " ".join(root.uri for root in await context.list_roots())

    @server.tool()
    async def touch(context: Context) -> str:
        server.resource_updated("test://text")
        return "touched"

    @server.resource("test://text")
    async def text() -> str:
        return "text"

    @server.resource("test://{name}/blob")
    async def blob(name: str) -> bytes:
        return name.encode()

    @server.prompt()
    async def greet(name: str) -> str:
        return f"Greet {name}"

    @server.completion("greet", "name")
    async def complete_name(value: str) -> Completion:
        return Completion([name for name in ("Ada", "Alan", "Grace") if name.startswith(value)])

    return server


async def model(params: CreateMessageRequestParams) -> CreateMessageResult:
    return CreateMessageResult("assistant", TextContent("hello"), "m")


async def user(question: ElicitRequestFormParams | ElicitRequestURLParams) -> ElicitResult:
    return ElicitResult("accept", {"name": "Ada"})


def connecting(server: Server | list[str] | str, **options: object) -> Client:
    return Client(
        server,
        sampling=model,
        elicitation=user,
        roots=["file:///home/user"],
        timeout=PATIENCE,
        **options,  # type: ignore[arg-type]
    )


async def use_every_feature(client: Client) -> None:
    """Run the suite of every pair, as far as its revision has the features."""
    revision = client.revision
    await client.ping()
    assert [tool.name for tool in await client.list_tools()] == [
        *("add", "work", "ask_model", "ask_user", "roots", "touch")
    ]
    assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
    steps: list[float] = []
    result = await client.call_tool("work", on_progress=lambda progress, total, message: steps.append(progress))
    assert (result.text, steps) == ("done", [1, 2])
    assert (await client.call_tool("ask_model")).text == "hello"
    asked = await client.call_tool("ask_user")
    assert asked.text == "{'name': 'Ada'}" if revision.name >= "2025-06-18" else "elicitation" in asked.text
    assert (await client.call_tool("roots")).text == "file:///home/user"
    with pytest.raises(RemoteError):
        await client.call_tool("no such tool")

    assert [resource.uri for resource in await client.list_resources()] == ["test://text"]
    assert [template.uri_template for template in await client.list_resource_templates()] == ["test://{name}/blob"]
    (contents,) = (await client.read_resource("test://a/blob")).contents
    assert contents.uri == "test://a/blob"
    with pytest.raises(RemoteError) as missing:
        await client.read_resource("test://nothing")
    assert missing.value.code == revision.resource_not_found_code
    async with client.subscribe("test://text") as updates:
        await client.call_tool("touch")
        assert await asyncio.wait_for(anext(updates), PATIENCE) == "test://text"

    assert [prompt.name for prompt in await client.list_prompts()] == ["greet"]
    (message,) = (await client.get_prompt("greet", {"name": "Ada"})).messages
    assert message.content == TextContent("Greet Ada")
    assert (await client.complete(PromptReference("greet"), "name", "A")).values == ["Ada", "Alan"]
    await client.set_logging_level("error")
    if revision.batch:
        first, second = await client.batch(client.ping(), client.call_tool("add", {"a": 3, "b": 4}))
        assert not isinstance(first, Exception)
        assert not isinstance(second, Exception)


@pytest.mark.spec("2024-11-05..2025-11-25/basic/lifecycle#version-negotiation-1")
@pytest.mark.parametrize(("client_revision", "server_revision"), PAIRS, ids=NAMES)
async def test_peers_of_one_revision_each_agree_if_it_is_the_same(
    client_revision: Revision, server_revision: Revision
) -> None:
    client = connecting(featured((server_revision,)), revision=client_revision)
    if client_revision is not server_revision:
        alone = client_revision.era == "modern"  # does not fall back; a legacy server only refuses
        with pytest.raises(UnsupportedRevision, match="earlier revision" if alone else str(server_revision)):
            await client.connect()
        return
    async with client:
        assert client.revision is client_revision
        await use_every_feature(client)


@pytest.mark.parametrize(("client_revision", "server_revision"), PAIRS, ids=NAMES)
async def test_peers_that_know_the_past_meet_at_the_older_ones_latest(
    client_revision: Revision, server_revision: Revision
) -> None:
    """Connect peers that speak their own latest revision and all before it, as most software does."""
    server = featured(REVISIONS[: server_revision.index + 1])
    client = connecting(server)
    client.revisions = REVISIONS[: client_revision.index + 1]
    async with client:
        assert client.revision is min(client_revision, server_revision, key=lambda revision: revision.index)
        await (use_every_feature(client) if REVISIONS[-1] in (client_revision, server_revision) else client.ping())


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
async def test_every_feature_works_with_a_server_process(revision: Revision) -> None:
    source = "from tests.client.test_matrix import featured, REVISIONS\nfeatured(REVISIONS).run()"
    async with connecting(quick_python(source), revision=revision) as client:
        assert client.revision is revision
        await use_every_feature(client)


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
async def test_every_feature_works_over_http(revision: Revision) -> None:
    async with featured(REVISIONS).serve_http() as url, connecting(url, revision=revision) as client:
        assert client.revision is revision
        await use_every_feature(client)


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
async def test_request_refuses_a_method_that_the_revision_lacks_before_it_is_sent(revision: Revision) -> None:
    async with connecting(featured(REVISIONS), revision=revision) as client:
        if not revision.batch:
            with pytest.raises(CapabilityError, match="batch"):
                await client.batch(client.ping())
        elsewhere = "ping" if revision.era == "modern" else "server/discover"
        with pytest.raises(NotInRevision, match=elsewhere):
            await client.session.request(elsewhere, {}, dict, timeout=1)
