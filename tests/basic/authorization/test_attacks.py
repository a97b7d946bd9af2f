"""The attacks on authorization, and the tests that show the defenses.

Each of these tests has the marker `attack` with a label of this table. Find the tests of a row with
`grep -rn 'attack("A9"' tests`. The tests of a defense that is in one module are beside the tests of this module. The
tests below need several modules.

    A1   tokens that are forged, changed, expired, or made for another server or another purpose
    A2   a server that claims the `resource` of another server
    A3   an authorization server that poses as another one
    A4   responses to a sign-in that belong to another sign-in, or come from another authorization server
    A5   authorization endpoints that are scripts, files, options, or commands for a shell
    A6   redirects of requests with secrets
    A7   metadata URLs that point into the network of the client
    A8   a server that changes its authorization server, to collect the credentials of the old one
    A9   many requests and programs that use one refresh token at the same time
    A10  refusals without end
    A11  sessions, tasks, states and events of another user
    A12  web pages and programs that send requests to the loopback receiver
    A13  documents that are huge, deep, slow, or expensive to verify
    A14  secrets in logs, errors, traces and the debug output of asyncio
    A15  token files that others can read, have written, or have replaced
    A16  WWW-Authenticate headers whose texts look like parameters
    A17  sign-ins that never end
    A18  the headers of the program, sent to others than the MCP server
    A19  key servers that are out of reach
    A20  ways to a protected server past its check
"""

from __future__ import annotations

import asyncio
import logging

import pytest

from mcp_ref import AuthorizationCode, AuthorizationError, Client, DiscoveryFailed
from tests.protected_servers import PRM_PATH, protected, silence, status
from tests.settings import MODERN, eventually


async def sign_in(url: str, login: AuthorizationCode) -> None:
    """Connect a client to a protected server, and close it."""
    async with Client(url, revision=MODERN, authorization=login):
        pass


@pytest.mark.attack("A2")
async def test_resource_in_another_spelling_is_sent_as_the_server_publishes_it() -> None:
    async with protected() as world:
        spelled = world.url.replace("http://", "HTTP://") + "/"
        world.mcp.metadata = {**(world.mcp.metadata or {}), "resource": spelled}
        await sign_in(world.url, AuthorizationCode(open_browser=world.browse))
        sent = [*world.auth.requests("/authorize"), *world.auth.requests("/token")]
        assert [seen.values["resource"] for seen in sent] == [spelled, spelled]


@pytest.mark.attack("A2")
async def test_ancestor_as_resource_in_a_document_that_the_401_names_is_refused() -> None:
    async with protected() as world:
        document = status(200, {**(world.mcp.metadata or {}), "resource": world.mcp.base})
        world.mcp.always("/own-document", document)
        challenge = f'Bearer resource_metadata="{world.mcp.base}/own-document"'
        world.mcp.always("/mcp", status(401, b"", ("WWW-Authenticate", challenge)))
        world.mcp.metadata = None
        with pytest.raises(DiscoveryFailed, match="own-document: its resource is"):
            await sign_in(world.url, AuthorizationCode(open_browser=world.browse))
        assert world.auth.seen == [] and world.opened == []


@pytest.mark.attack("A7")
@pytest.mark.parametrize(
    "document", ["http://169.254.169.254/latest", "http://[::ffff:10.0.0.1]/x", "http://10.0.0.1/x", "file:///etc/x"]
)
async def test_metadata_url_of_a_401_that_points_elsewhere_gets_no_request(document: str) -> None:
    async with protected() as world:
        challenge = f'Bearer resource_metadata="{document}"'
        world.mcp.always("/mcp", status(401, b"", ("WWW-Authenticate", challenge)))
        world.mcp.always(f"{PRM_PATH}/mcp", status(404))
        with pytest.raises(DiscoveryFailed, match="must be"):
            await sign_in(world.url, AuthorizationCode(open_browser=world.browse))


@pytest.mark.attack("A14")
async def test_secrets_of_the_client_are_in_no_log_and_not_in_the_debug_output_of_asyncio(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    asyncio.get_running_loop().set_debug(True)
    errors: list[BaseException] = []
    failures = [status(500), status(400, {"error": "invalid_grant"}), status(200, b"<html>"), status(200, {"a": 1})]
    async with protected() as world:
        world.auth.registration = {"client_secret": "marker-secret", "token_endpoint_auth_method": "client_secret_post"}
        login = AuthorizationCode(open_browser=world.browse)
        for failure in failures:
            world.auth.instead("/token", failure)
            with pytest.raises(AuthorizationError) as caught:
                await sign_in(world.url, login)
            errors.append(caught.value)
        async with Client(world.url, revision=MODERN, authorization=login) as client:
            for failure in failures:
                world.auth.tokens.clear()
                world.auth.instead("/token", failure)
                try:
                    await client.call_tool("read")
                except AuthorizationError as error:
                    errors.append(error)
        sent = [*world.auth.requests("/token"), *world.auth.requests("/authorize")]
        names = ("code", "code_verifier", "refresh_token", "state", "client_secret")
        secrets = {seen.values[name] for seen in sent for name in names if name in seen.values}
        secrets |= {seen.token for seen in world.mcp.requests_with_tokens}
        shown = "".join([caplog.text, *capsys.readouterr(), *(f"{error}{error!r}" for error in errors)])
    assert len(secrets) > 10 and len(errors) >= 7
    assert not [secret for secret in secrets if secret in shown]


@pytest.mark.attack("A17")
@pytest.mark.parametrize("path", ["/register", "/token"])
async def test_client_that_closes_ends_a_sign_in_at_a_silent_authorization_server(path: str) -> None:
    async with protected() as world:
        world.auth.always(path, silence)
        client = Client(world.url, revision=MODERN, authorization=AuthorizationCode(open_browser=world.browse))
        connecting = asyncio.create_task(client.connect())
        await eventually(lambda: path in world.auth.paths)
        await client.close()
        await asyncio.wait([connecting], timeout=5)
        assert connecting.done() and not connecting.cancelled() and connecting.exception() is not None
        assert [task for task in asyncio.all_tasks() if "_run" in repr(task.get_coro())] == []
