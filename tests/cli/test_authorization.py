"""The command line with protected servers: signing in and out, tokens from elsewhere, and `run --issuer`."""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

import pytest

from examples.authorization_server import AuthorizationServer, Response, response
from examples.protected import notes, protect, read_notes, server
from examples.registered_clients import OAuthClient
from mcp_ref import Server
from mcp_ref.__main__ import main
from mcp_ref.basic.authorization.metadata import MAX_TOKEN
from mcp_ref.basic.authorization.store import MemoryStore, default_path
from mcp_ref.basic.authorization.token_endpoint import Grant
from mcp_ref.cli import authorization
from mcp_ref.cli.accounts import BufferedStore, show_grant
from mcp_ref.jsonrpc.messages import Object
from mcp_ref.lib.http.message import Exchange, HttpRequest
from mcp_ref.lib.http.server import start_server
from mcp_ref.server.http import HttpApp
from tests.server_programs import serving
from tests.settings import ROOT

Captured = pytest.CaptureFixture[str]
Step = Callable[[HttpRequest], Awaitable[Response]]


class World:
    """A protected server and its authorization server, in a thread, and a browser whose user agrees."""

    def __init__(self) -> None:
        self.issuer = AuthorizationServer(yes=True)
        self.url = ""
        self.paths: list[str] = []
        """The paths of all requests to the authorization server."""
        self.tokens: set[str] = set()
        """The access tokens that the protected server has received."""
        self.opened: list[str] = []
        """The URLs that the browser has opened."""
        self.protects_calls_only = False
        """True if only `tools/call` needs a token."""
        self._loop = asyncio.new_event_loop()
        self._is_ready, self._stop = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._serve()))

    async def _serve(self) -> None:
        async def authorize(exchange: Exchange) -> None:
            self.paths.append(exchange.request.path)
            await self.issuer.handle(exchange)

        async def serve_mcp(exchange: Exchange) -> None:
            await exchange.read_body()
            self.tokens.add((exchange.request.headers.get("authorization") or "").removeprefix("Bearer "))
            is_open = self.protects_calls_only and b'"method":"tools/call"' not in exchange.request.body
            is_open = is_open and not exchange.request.path.startswith("/.well-known/")
            if (rest := (open_app if is_open else app).handle(exchange)) is not None:
                await rest

        async with await start_server(authorize) as first, await start_server(serve_mcp) as second:
            self.issuer.issuer = f"http://127.0.0.1:{first.address[1]}"
            self.url = f"http://127.0.0.1:{second.address[1]}/mcp"
            app = HttpApp(server.catalog, authorization=protect(self.url, self.issuer.issuer))
            open_server = Server("open")
            open_server.tool()(read_notes)
            open_app = HttpApp(open_server.catalog)
            self._is_ready.set()
            await self._stop.wait()
            await app.close()
            await open_app.close()

    def begin(self) -> None:
        """Start both servers."""
        self._thread.start()
        assert self._is_ready.wait(10)

    def end(self) -> None:
        """Stop both servers."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        self._loop.close()

    def browse(self, url: str) -> bool:
        """Open a URL, and follow the redirect to the program."""
        self.opened.append(url)
        with urllib.request.urlopen(url, timeout=10) as page:
            page.read()
        return True


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[World]:
    """Serve, on a machine with a display, and with an empty store."""
    made = World()
    made.begin()
    for name in ("XDG_STATE_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("webbrowser.open", made.browse)
    monkeypatch.setattr(authorization, "has_terminal", lambda: True)
    notes.clear()
    yield made
    made.end()


@pytest.fixture
def alone(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """Serve, for a client without a terminal."""
    monkeypatch.setattr(authorization, "has_terminal", lambda: False)
    return world


def test_list_signs_in_and_the_next_command_uses_the_stored_tokens(world: World, capsys: Captured) -> None:
    assert main(["list", "--", world.url]) == 0
    printed = capsys.readouterr()
    assert "read_notes" in printed.out and "/authorize?" in printed.err
    assert len(world.opened) == 1
    before = len(world.paths)
    assert main(["call", "read_notes", "--", world.url]) == 0
    assert len(world.opened) == 1 and len(world.paths) == before
    if os.name != "nt":
        assert stat.S_IMODE(default_path().stat().st_mode) == 0o600


def test_call_asks_for_a_further_scope(world: World, capsys: Captured) -> None:
    assert main(["call", "add_note", "text=milk", "--", world.url]) == 0
    assert "1" in capsys.readouterr().out
    assert len(world.opened) == 2 and "notes%3Awrite" in world.opened[1]


def test_list_without_a_terminal_exits_with_4_and_names_the_command(alone: World, capsys: Captured) -> None:
    assert main(["list", "--", alone.url]) == 4
    printed = capsys.readouterr()
    assert printed.out == "" and f"\nsign in with: python3 -m mcp_ref login {alone.url}\n" in printed.err
    assert alone.opened == []


def test_command_with_config_that_needs_a_sign_in_exits_with_4_and_names_the_command(
    alone: World, tmp_path: Path, capsys: Captured
) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"notes": {"url": alone.url}}}))
    for words in (["list"], ["call", "read_notes"]):
        assert main([*words, "--config", str(path), "--yes"]) == 4
        printed = capsys.readouterr()
        assert f"sign in with: python3 -m mcp_ref login {alone.url}" in printed.out + printed.err
    assert alone.opened == []


def test_list_with_no_browser_exits_with_4(world: World) -> None:
    assert main(["list", "--no-browser", "--", world.url]) == 4
    assert world.opened == []


def test_step_up_without_a_terminal_names_all_scopes(alone: World, capsys: Captured) -> None:
    assert main(["login", "--", alone.url]) == 0
    assert main(["call", "add_note", "text=milk", "--", alone.url]) == 4
    command = f"python3 -m mcp_ref login --scope 'notes:read notes:write' {alone.url}"
    assert capsys.readouterr().err.splitlines()[-1] == f"sign in for more scopes with: {command}"
    assert main(["login", "--scope", "notes:read notes:write", "--", alone.url]) == 0
    assert main(["call", "add_note", "text=milk", "--", alone.url]) == 0
    assert len(alone.opened) == 2


def test_revoked_sign_in_without_a_terminal_says_to_sign_in_again_for_all_scopes(
    alone: World, capsys: Captured
) -> None:
    assert main(["login", "--scope", "notes:read notes:write", "--", alone.url]) == 0
    path = default_path()
    path.write_text(re.sub(r'("(access|refresh)_token": ?")', r"\1revoked-", path.read_text()))
    assert main(["list", "--", alone.url]) == 4
    command = f"python3 -m mcp_ref login --scope 'notes:read notes:write' {alone.url}"
    assert capsys.readouterr().err.splitlines()[-1] == f"sign in again with: {command}"


def test_whoami_shows_issuer_scopes_and_end_without_a_token(world: World, capsys: Captured) -> None:
    assert main(["whoami", "--", world.url]) == 4
    assert f"login {world.url}" in capsys.readouterr().err
    assert main(["login", "--", world.url]) == 0
    assert main(["whoami", "--", world.url]) == 0
    out = capsys.readouterr().out
    assert f"issuer   {world.issuer.issuer}\n" in out and "scopes   notes:read\n" in out
    assert re.search(r"^expires  20\d\d-.*, then refreshed$", out, re.MULTILINE)
    secrets = re.findall(r'"(?:access|refresh)_token": "([^"]+)"', default_path().read_text())
    assert len(secrets) == 2 and not any(secret in out for secret in secrets)


@pytest.mark.parametrize(
    ("seconds", "refresh_token", "expires"),
    [
        (None, "", "unknown"),
        (None, "x", "unknown, then refreshed"),
        (-1, "", "already: sign in again"),
        (-1, "x", "already, refreshed at the next use"),
    ],
)
def test_grant_is_shown_with_its_end(seconds: float | None, refresh_token: str, expires: str, capsys: Captured) -> None:
    ends = None if seconds is None else time.monotonic() + seconds
    grant = Grant(
        "secret", "https://i/", scopes=("a", "b"), expires_at=ends, refresh_token=refresh_token, client_id="c"
    )
    show_grant("https://s/", grant)
    facts = f"server   https://s/\nissuer   https://i/\nclient   c\nscopes   a b\nexpires  {expires}\n"
    assert capsys.readouterr() == (facts, "")


def test_login_signs_in_again(world: World) -> None:
    assert main(["login", "--", world.url]) == 0
    old = default_path().read_text()
    assert main(["login", "--scope", "notes:write", "--", world.url]) == 0
    assert len(world.opened) == 2 and default_path().read_text() != old
    assert main(["call", "add_note", "text=milk", "--", world.url]) == 0
    assert len(world.opened) == 2  # the new tokens are stored


async def deny(request: HttpRequest) -> Response:
    """Respond to an authorization request as if the user had refused."""
    query = dict(parse_qsl(request.query))
    issuer = f"http://{request.headers.get('host')}"
    refusal = urlencode({"error": "access_denied", "state": query["state"], "iss": issuer})
    return response({}, 302, ("Location", f"{query['redirect_uri']}?{refusal}"))


async def fail(request: HttpRequest) -> Response:
    """Respond as an endpoint that is out of order."""
    return response({"error": "server_error"}, 503)


async def issue_useless_token(request: HttpRequest) -> Response:
    """Respond with a token that no server accepts."""
    return response({"access_token": "useless", "token_type": "Bearer", "expires_in": 3600})


@pytest.mark.parametrize("options", [[], ["--scope", "notes:write"]], ids=["same scopes", "more scopes"])
@pytest.mark.parametrize(
    ("route", "step", "protects_calls_only"),
    [
        ("GET /authorize", deny, False),
        ("GET /authorize", deny, True),
        ("POST /token", fail, False),
        ("POST /token", fail, True),
        ("POST /token", issue_useless_token, False),
    ],
)
def test_login_that_fails_leaves_the_old_sign_in_as_it_is(
    world: World, route: str, step: Step, protects_calls_only: bool, options: list[str]
) -> None:
    world.protects_calls_only = protects_calls_only
    assert main(["login", "--", world.url]) == 0
    stored, works = default_path().read_text(), world.issuer.routes[route]
    world.issuer.routes[route] = step
    assert main(["login", *options, "--", world.url]) != 0
    assert default_path().read_text() == stored and "/revoke" not in world.paths
    world.issuer.routes[route] = works
    end_stored_token()
    opened = len(world.opened)
    assert main(["call", "read_notes", "--", world.url]) == 0  # the old refresh token and its client id are good
    assert len(world.opened) == opened


async def test_new_sign_in_changes_and_deletes_stored_entries_only_when_it_is_written() -> None:
    store, before = MemoryStore(), Object(id="refused")
    await store.put("client", before)
    replacement = BufferedStore(store, "https://a.example/mcp")
    await replacement.delete("client")
    await replacement.put("tokens", {"access": "new"})
    assert [await store.get("client"), await store.get("tokens")] == [before, None]
    await replacement.write()
    assert [await store.get("client"), await store.get("tokens")] == [None, {"access": "new"}]


def test_login_that_fails_without_an_old_sign_in_registers_again(world: World) -> None:
    works = world.issuer.routes["GET /authorize"]
    world.issuer.routes["GET /authorize"] = deny
    assert main(["login", "--", world.url]) != 0
    world.issuer.routes["GET /authorize"] = works
    assert main(["login", "--", world.url]) == 0
    assert world.paths.count("/register") == 2


def test_login_at_a_server_that_protects_calls_only_signs_in(world: World, capsys: Captured) -> None:
    world.protects_calls_only = True
    assert main(["login", "--", world.url]) == 0
    assert f"issuer   {world.issuer.issuer}\n" in capsys.readouterr().out and len(world.opened) == 1
    assert main(["call", "read_notes", "--", world.url]) == 0
    assert len(world.opened) == 1


def test_login_at_a_server_without_metadata_says_that_no_sign_in_is_needed(capsys: Captured) -> None:
    with serving("examples/weather.py") as program:
        assert main(["login", "--", program.url]) == 0
        assert "needs no sign-in" in capsys.readouterr().err


def test_logout_says_that_the_tokens_were_not_revoked(world: World, capsys: Captured) -> None:
    assert main(["login", "--", world.url]) == 0
    world.issuer.routes["POST /revoke"] = fail
    assert main(["logout", "--", world.url]) == 0
    assert "status 503" in (said := capsys.readouterr().err) and "the token was not revoked" in said
    assert main(["whoami", "--", world.url]) == 4


def test_logout_revokes_and_forgets(world: World, capsys: Captured) -> None:
    assert main(["login", "--", world.url]) == 0
    assert main(["logout", "--", world.url]) == 0
    assert "/revoke" in world.paths and world.issuer.grants == {}
    assert f"{world.url}: signed out" in capsys.readouterr().err
    assert main(["whoami", "--", world.url]) == 4
    assert main(["logout", "--", world.url]) == 0
    assert "you were not signed in" in capsys.readouterr().err


def test_token_env_and_token_file_send_a_token_and_ask_nobody(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Captured
) -> None:
    assert main(["login", "--", world.url]) == 0
    [token] = world.tokens - {""}
    assert main(["logout", "--", world.url]) == 0
    monkeypatch.setenv("NOTES_TOKEN", token)
    (tmp_path / "token").write_text(token + "\n")
    assert main(["list", "--token-env", "NOTES_TOKEN", "--", world.url]) == 0
    assert main(["list", "--token-file", str(tmp_path / "token"), "--", world.url]) == 0
    (tmp_path / "token").write_text("wrong")
    assert main(["list", "--token-file", str(tmp_path / "token"), "--", world.url]) == 1
    assert len(world.opened) == 1


def test_longest_token_is_read_from_a_variable_a_file_and_standard_input(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    token, path = "x" * MAX_TOKEN, tmp_path / "token"
    monkeypatch.setenv("NOTES_TOKEN", token)
    path.write_bytes(f"{token}\r\n".encode())
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{token}\r\nmore"))
    for name, file in (("NOTES_TOKEN", None), (None, str(path)), (None, "-")):
        assert authorization.read_token(argparse.Namespace(token_env=name, token_file=file)) == token
    assert authorization.read_token(argparse.Namespace(token_env=None, token_file=None)) is None


def test_mcp_ref_token_is_never_read(alone: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_REF_TOKEN", "secret")
    assert main(["list", "--", alone.url]) == 4
    assert alone.tokens == {""}


@pytest.mark.parametrize("text", ["", "two words", "se\ncret", "secr\u00e9t", "x" * (MAX_TOKEN + 1)])
def test_token_that_cannot_be_sent_is_refused_and_not_printed(text: str, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "token").write_text(text)
    assert main(["list", "--token-file", str(tmp_path / "token"), "--", "http://127.0.0.1:1/mcp"]) == 2
    assert "printable ASCII" in (said := capsys.readouterr().err) and (not text or text not in said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["list", "--token-env", "UNSET_TOKEN", "--", "http://127.0.0.1:1/"], "UNSET_TOKEN: this environment variable"),
        (["list", "--token-file", "/nowhere/at/all", "--", "http://127.0.0.1:1/"], "/nowhere/at/all: No such file"),
        (["list", "--token-env", "HOME", "--", "server.py"], "only with the URL of a server"),
        (["list", "--token-env", "PATH", "--", "http://mcp.example/"], "https"),
        (["login", "--", "http://mcp.example/"], "https"),
        (["whoami", "--", "http://["], "http"),
        (["login", "--", "server.py"], "only with the URL of a server"),
        (["whoami", "--", "server.py"], "only with the URL of a server"),
        (["login", "--client-id", "x", "--", "https://mcp.example/"], "--client-id needs --issuer"),
        (["login", "--client-metadata-url", "http://x/", "--", "https://mcp.example/"], "must be https"),
        (["login", "--client-secret-env", "PATH", "--", "https://mcp.example/"], "needs --client-id"),
        (["run", "examples/protected.py", "--http", "--issuer", "http://auth.example", "--resource",
          "https://mcp.example/"], "https"),
        (["run", "examples/protected.py", "--http", "--issuer", "https://auth.example", "--resource",
          "https://mcp.example/", "--jwks", "http://auth.example/keys"], "https"),
    ],
)  # fmt: skip
def test_options_that_contradict_are_refused(words: list[str], said: str, capsys: Captured) -> None:
    assert main(words) == 2
    assert said in capsys.readouterr().err


@pytest.mark.attack("A14")
def test_trace_shows_no_token(world: World, capsys: Captured) -> None:
    assert main(["list", "--trace", "--", world.url]) == 0
    text = default_path().read_text()
    err = capsys.readouterr().err
    secrets = [*re.findall(r'"(?:access|refresh)_token": "([^"]+)"', text), *(world.tokens - {""})]
    assert "->  POST /mcp" in err and len(secrets) >= 3
    assert not any(secret in err for secret in secrets) and "code=" not in err


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_run_with_an_issuer_refuses_requests_without_a_token() -> None:
    options = ["--issuer", "https://auth.example", "--resource", "https://mcp.example/notes", "--path", "/notes",
               "--require-scope", "notes:read", "--jwks", "https://auth.example/keys"]  # fmt: skip
    with serving("examples/protected.py", *options) as program:
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(urllib.request.Request(program.url, b"{}"), timeout=10)
        with caught.value as refusal:
            assert refusal.status == 401 and 'scope="notes:read"' in refusal.headers["WWW-Authenticate"]
        program.stop(signal.SIGTERM)


def test_login_with_a_client_id_keeps_it_for_the_other_commands(world: World, capsys: Captured) -> None:
    grants = ("authorization_code", "refresh_token")
    world.issuer.clients.add(OAuthClient("app", "App", ("http://127.0.0.1/callback",), grants, "none"))
    assert main(["login", "--client-id", "app", "--issuer", world.issuer.issuer, "--", world.url]) == 0
    assert "client   app\n" in capsys.readouterr().out
    end_stored_token()
    assert main(["list", "--", world.url]) == 0
    assert len(world.opened) == 1 and world.paths.count("/token") == 2
    assert main(["call", "add_note", "text=milk", "--", world.url]) == 0
    assert len(world.opened) == 2 and "/register" not in world.paths


def end_stored_token() -> None:
    """Change the end of the stored token, so that it needs a refresh."""
    text = default_path().read_text()
    default_path().write_text(re.sub(r'"expires_at": [1-9]\d+\.\d+', '"expires_at": 1.0', text))


def test_list_refreshes_a_token_that_has_ended(world: World, capsys: Captured) -> None:
    assert main(["login", "--", world.url]) == 0
    end_stored_token()
    assert main(["whoami", world.url]) == 0
    assert "expires  already, refreshed at the next use\n" in capsys.readouterr().out
    assert main(["list", "--", world.url]) == 0
    assert len(world.opened) == 1 and len(world.tokens - {""}) == 2


def test_login_with_a_secret_opens_no_browser(alone: World, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    alone.issuer.clients.add(OAuthClient("reports", "Reports", secret="marker-secret"))
    monkeypatch.setenv("NOTES_SECRET", "marker-secret")
    assert main(["login", "--client-id", "reports", "--client-secret-env", "NOTES_SECRET", "--", alone.url]) == 0
    assert main(["list", "--trace", "--", alone.url]) == 0
    printed = capsys.readouterr()
    assert "client   reports\n" in printed.out and "marker-secret" not in printed.out + printed.err
    assert alone.opened == [] and alone.paths.count("/token") == 1


@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.attack("A17")
def test_login_ends_at_ctrl_c(world: World) -> None:
    command = [sys.executable, "-m", "mcp_ref", "login", "--no-browser", "--", world.url]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert any("/authorize?" in line for line in process.stderr)
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130


def test_user_without_a_home_directory_can_use_servers(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    def refuse() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr("mcp_ref.basic.authorization.store.default_path", refuse)
    assert main(["list", "--", world.url]) == 0
    assert main(["whoami", "--", world.url]) == 1
    assert "home directory" in capsys.readouterr().err


def test_store_that_others_can_read_is_refused(world: World, capsys: Captured) -> None:
    if os.name == "nt":
        pytest.skip("permissions")
    assert main(["login", "--", world.url]) == 0
    default_path().chmod(0o644)
    assert main(["list", "--", world.url]) == 1
    assert "Remove the file" in capsys.readouterr().err


@pytest.mark.parametrize(("header", "signs_in"), [("authorization : Bearer x", False), ("X-Team: Authorization", True)])
def test_authorizer_for_a_header_with_the_authorization_is_none(header: str, signs_in: bool) -> None:
    options = argparse.Namespace(token_env=None, token_file=None, header=[header], no_browser=True)
    assert (authorization.authorizer_for("https://mcp.example/mcp", options) is not None) is signs_in
