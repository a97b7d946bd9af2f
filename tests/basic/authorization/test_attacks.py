"""The attacks on authorization, and the tests that show the defenses.

Each of these tests has the marker `attack` with a label of this table. Find the tests of a row with
`grep -rn 'attack("A9"' tests`. The tests of a defense that is in one module are beside the tests of this module. The
tests below need several modules, or a second process.

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
import json
import logging
import os
import sys
import time
from pathlib import Path

import pytest

from mcp_ref import AuthorizationCode, AuthorizationError, Client, DiscoveryFailed, FileStore, HttpClient, SignInRefused
from mcp_ref.lib.http.message import Exchange
from mcp_ref.lib.jose.keys import JSON, make_private_key
from mcp_ref.lib.jose.tokens import sign_jwt
from tests.basic.authorization.hostile_documents import HARMLESS, PLACES, ROUNDS, hostile_documents
from tests.basic.authorization.key_server import RESOURCE
from tests.basic.authorization.protected_server import modern_call
from tests.protected_servers import PRM_PATH, protected, silence, status
from tests.settings import MODERN, ROOT, eventually

MAX_GROWTH = 6_000_000
"""Maximum growth of the memory of an attacked process, in bytes. One hostile document has 10 MB."""


async def sign_in(url: str, login: AuthorizationCode) -> None:
    """Connect a client to a protected server, and close it."""
    async with Client(url, revision=MODERN, authorization=login):
        pass


async def start(*words: str) -> asyncio.subprocess.Process:
    """Start a Python program with pipes to its stdin and stdout."""
    return await asyncio.create_subprocess_exec(
        sys.executable, *words, cwd=ROOT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )


async def line_of(program: asyncio.subprocess.Process, said: str | None = None) -> str:
    """Write a line to a program, if any, and return the next line that it prints."""
    assert program.stdin is not None and program.stdout is not None
    if said is not None:
        program.stdin.write(f"{said}\n".encode())
    return (await program.stdout.readline()).decode().strip()


async def end(*programs: asyncio.subprocess.Process) -> None:
    """Close the stdin of programs, and wait for their end."""
    for program in programs:
        await program.communicate(b"")


@pytest.mark.attack("A13")
async def test_hostile_metadata_are_an_error_of_the_client_and_its_memory_stays_flat() -> None:
    async with hostile_documents() as base:
        program = await start("-m", "tests.basic.authorization.hostile_documents", "client", base)
        report = json.loads(await line_of(program))
        await end(program)
    assert len(report["errors"]) == 10 and all("found no" in error for error in report["errors"].values())
    assert report["slowest"] < 5 and report["growth"] < MAX_GROWTH, report


@pytest.mark.attack("A13")
async def test_hostile_keys_are_503_and_the_memory_of_the_server_stays_flat() -> None:
    key = make_private_key()
    async with hostile_documents() as base, HttpClient() as http:
        program = await start("-m", "tests.basic.authorization.hostile_documents", "server", base)
        url = await line_of(program)

        async def post(place: str, attack: str) -> None:
            claims: dict[str, JSON] = {
                "iss": f"{base}/{place}/{attack}",
                "aud": RESOURCE,
                "sub": "a",
                "exp": time.time() + 60,
            }
            token = sign_jwt({"alg": "ES256", "typ": "at+jwt", "kid": "1"}, claims, key.sign)
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            began = time.monotonic()
            async with http.request("POST", url, headers, json.dumps(modern_call("x")).encode()) as response:
                await response.read(10_000)
            assert response.status == (401 if attack == HARMLESS else 503), (place, attack)
            assert time.monotonic() - began < 5, (place, attack)

        await post("keys", HARMLESS)
        before = int(await line_of(program, "memory"))
        for _ in range(ROUNDS):
            for place in ("issuer", "keys"):
                for attack in PLACES[place]:
                    await post(place, attack)
        growth = int(await line_of(program, "memory")) - before
        await end(program)
    assert growth < MAX_GROWTH, growth


# ------------------------------------------------------------------------------------------------ other processes


_CALLER = """
import asyncio, sys
from mcp_ref import AuthorizationCode, Client, FileStore

async def refuse(url):
    raise AssertionError("the user must not be asked again")

async def main():
    print("ready", flush=True)
    sys.stdin.readline()
    login = AuthorizationCode(store=FileStore(sys.argv[2]), open_browser=refuse)
    print("calling", flush=True)
    async with Client(sys.argv[1], authorization=login) as client:
        print((await client.call_tool("read")).text, flush=True)

asyncio.run(main())
"""


@pytest.mark.attack("A9")
async def test_processes_that_share_a_credential_store_send_one_refresh_request(tmp_path: Path) -> None:
    path, both_call = tmp_path / "credentials.json", asyncio.Event()
    async with protected() as world:
        world.auth.token_response["expires_in"] = 0
        await sign_in(world.url, AuthorizationCode(store=FileStore(path), open_browser=world.browse))
        world.auth.token_response["expires_in"] = 3600
        spent = set(world.auth.refresh_tokens)

        async def refresh(exchange: Exchange) -> None:
            await both_call.wait()
            world.auth.refresh_tokens.clear()  # the refresh token rotates
            await status(200, world.auth.issue({"read"}))(exchange)

        world.auth.instead("/token", refresh)
        programs = [await start("-c", _CALLER, world.url, str(path)) for _ in range(2)]
        assert [await line_of(program) for program in programs] == ["ready", "ready"]
        assert [await line_of(program, "go") for program in programs] == ["calling", "calling"]
        both_call.set()
        assert [await line_of(program) for program in programs] == ["read", "read"]
        await end(*programs)
        [_, refreshed] = world.auth.requests("/token")
        assert {refreshed.values["refresh_token"]} == spent and len(world.opened) == 1
        await sign_in(world.url, AuthorizationCode(store=FileStore(path), open_browser=None))
        assert len(world.auth.requests("/token")) == 2  # the new refresh token is in the file


_OPENER = """
import asyncio, sys, threading
from mcp_ref.basic.authorization.loopback import open_in_browser
asyncio.run(open_in_browser(sys.argv[1]))
for thread in threading.enumerate():
    if thread.name == "mcp-browser":
        thread.join(10)
"""


@pytest.mark.attack("A5")
@pytest.mark.skipif(os.name == "nt", reason="the fake browser is a shell script")
async def test_authorization_url_is_one_argument_of_the_browser_and_no_shell_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser, marker = tmp_path / "browser", tmp_path / "marker"
    browser.write_text(f"#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n")
    browser.chmod(0o700)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    monkeypatch.setenv("DISPLAY", ":0")
    async with protected() as world:
        found: list[str] = []

        async def open_elsewhere(url: str) -> None:
            program = await start("-c", _OPENER, url)
            found.append(await line_of(program))
            await end(program)
            raise RuntimeError("the browser has opened the URL")

        hostile = f"/authorize\"';touch {marker};`touch {marker}`$(touch {marker})|&"
        world.auth.metadata["authorization_endpoint"] = (world.auth.base + hostile).replace(" ", "${IFS}")
        with pytest.raises(AuthorizationError, match="the browser has opened"):
            await sign_in(world.url, AuthorizationCode(open_browser=open_elsewhere))
        [arguments] = found
        assert len(json.loads(arguments)) == 1 and not set(arguments[2:-2]) & set("\"`$()|;' <>\\")
    assert not marker.exists()


# ------------------------------------------------------------------------------------------------ several modules


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


@pytest.mark.attack("A4")
async def test_page_after_an_error_response_shows_nothing_of_the_response() -> None:
    pages: list[bytes] = []
    async with protected() as world, HttpClient() as http:

        async def browse(url: str) -> None:
            query = dict(part.split("=", 1) for part in url.partition("?")[2].split("&"))
            issuer = str(world.auth.metadata["issuer"])
            uri = query["redirect_uri"].replace("%3A", ":").replace("%2F", "/")
            error = "error=%3Cscript%3Emarker&error_description=%3Cb%3Emarker&error_uri=https://marker.example"
            async with http.request("GET", f"{uri}?{error}&state={query['state']}&iss={issuer}") as response:
                pages.append(await response.read(10_000))

        with pytest.raises(SignInRefused):
            await sign_in(world.url, AuthorizationCode(open_browser=browse))
        assert len(pages) == 1 and b"marker" not in pages[0] and b"script" not in pages[0]
        assert world.auth.requests("/token") == []


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
