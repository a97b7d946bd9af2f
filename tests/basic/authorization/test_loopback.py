"""The loopback receiver: it takes one response, and ignores all other requests."""

from __future__ import annotations

import asyncio
import re
import socket
import sys
import webbrowser

import pytest

from mcp_ref import HttpClient
from mcp_ref.basic.authorization import loopback
from mcp_ref.basic.authorization.authorization_code import SignIn
from mcp_ref.basic.authorization.loopback import check_receivable, open_in_browser, print_url, receive
from tests.settings import PATIENCE

SIGN_IN = SignIn("https://auth.example", False, "http://127.0.0.1/callback", "https://auth.example/", "state-1", "v")
GOOD = "?code=c1&state=state-1"
EVIL = "?state=wrong&code=<script>alert(1)</script>&error=evil"


async def _get(http: HttpClient, url: str, method: str = "GET", host: str = "") -> tuple[int, dict[str, str], bytes]:
    async with http.request(method, url) as response:
        headers = {name.lower(): value for name, value in response.headers}
        return response.status, headers, await response.read(100_000)


@pytest.mark.attack("A4")
@pytest.mark.parametrize("query", [GOOD, "?error=%3Cscript%3Emarker&error_description=%3Cb%3Emarker&state=state-1"])
async def test_receiver_returns_the_query_of_the_response_and_shows_nothing_of_it(query: str) -> None:
    async with HttpClient() as http:
        async with receive("http://127.0.0.1:0/callback") as receiver:
            receiver.expected = SIGN_IN
            code, headers, page = await _get(http, receiver.redirect_uri + query)
            assert await receiver.query == query[1:]
        assert code == 200 and not re.search(b"c1|marker|script", page)
        assert headers["content-security-policy"] == "default-src 'none'"
        assert (headers["referrer-policy"], headers["cache-control"]) == ("no-referrer", "no-store")
        with pytest.raises(Exception, match="reached"):
            await _get(http, receiver.redirect_uri)


async def test_receiver_takes_a_response_with_many_cookies_of_other_programs() -> None:
    async with HttpClient() as http, receive("http://127.0.0.1:0/callback") as receiver:
        receiver.expected = SIGN_IN
        async with http.request("GET", receiver.redirect_uri + GOOD, {"Cookie": "a=" + "x" * 20_000}) as response:
            assert response.status == 200


@pytest.mark.attack("A12")
async def test_receiver_has_its_port_for_itself_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    options: list[int] = []

    class Socket(socket.socket):
        def setsockopt(self, *option: int) -> None:  # type: ignore[override]
            options.append(option[1])

    monkeypatch.setattr(socket, "SO_EXCLUSIVEADDRUSE", -5, raising=False)
    monkeypatch.setattr(socket, "socket", Socket)
    async with receive("http://127.0.0.1:0/callback"):
        assert options[0] == -5


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", f"/callback{EVIL}", 400),
        ("GET", "/callback?code=c1", 400),
        ("GET", "/callback?code=c1&state=state-1&state=state-1", 400),
        ("GET", "/callback/?code=c1&state=state-1", 404),
        ("GET", "/callback/..?code=c1&state=state-1", 404),
        ("GET", "/favicon.ico", 404),
        ("HEAD", f"/callback{GOOD}", 405),
        ("POST", f"/callback{GOOD}", 405),
        ("OPTIONS", f"/callback{GOOD}", 405),
    ],
)
@pytest.mark.attack("A12")
async def test_receiver_ignores_other_requests_and_continues_to_wait(method: str, path: str, status: int) -> None:
    async with HttpClient() as http, receive("http://127.0.0.1:0/callback") as receiver:
        receiver.expected = SIGN_IN
        base = receiver.redirect_uri.removesuffix("/callback")
        code, _, page = await _get(http, base + path, method)
        assert code == status and b"script" not in page and b"evil" not in page
        await _get(http, receiver.redirect_uri + GOOD)
        assert await receiver.query == GOOD[1:]


@pytest.mark.attack("A12")
async def test_receiver_takes_one_response_only() -> None:
    async with HttpClient() as http, receive("http://127.0.0.1:0/callback") as receiver:
        assert (await _get(http, receiver.redirect_uri + GOOD))[0] == 400  # no sign-in has begun
        receiver.expected = SIGN_IN
        assert (await _get(http, receiver.redirect_uri + GOOD))[0] == 200
        assert (await _get(http, f"{receiver.redirect_uri}?code=c2&state=state-1"))[0] == 400
        assert await receiver.query == GOOD[1:]


@pytest.mark.attack("A12")
async def test_receiver_survives_guesses_in_parallel_and_a_slow_client() -> None:
    async with HttpClient() as http, receive("http://127.0.0.1:0/callback") as receiver:
        receiver.expected = SIGN_IN
        port = int(receiver.redirect_uri.split(":")[2].split("/")[0])
        _, slow = await asyncio.open_connection("127.0.0.1", port)
        slow.write(b"GET /callback")
        guesses = [_get(http, f"{receiver.redirect_uri}?code=x&state={number}") for number in range(50)]
        assert {code for code, _, _ in await asyncio.gather(*guesses)} == {400}
        async with HttpClient() as browser:
            assert (await _get(browser, receiver.redirect_uri + GOOD))[0] == 200
        assert await receiver.query == GOOD[1:]
        slow.close()


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "localhost", ""])
@pytest.mark.attack("A12")
async def test_receiver_refuses_a_foreign_host(host: str) -> None:
    async with receive("http://127.0.0.1:0/callback") as receiver:
        receiver.expected = SIGN_IN
        port = int(receiver.redirect_uri.split(":")[2].split("/")[0])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET /callback{GOOD} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        async with asyncio.timeout(PATIENCE):
            assert (await reader.readline()).split()[1] in (b"404", b"400")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await receiver.query
        writer.close()


async def test_receiver_of_localhost_keeps_the_name_and_listens_on_the_address() -> None:
    async with HttpClient() as http, receive("http://localhost:0/") as receiver:
        assert receiver.redirect_uri.startswith("http://localhost:")
        receiver.expected = SIGN_IN
        assert (await _get(http, receiver.redirect_uri + GOOD))[0] == 200


async def test_receiver_needs_a_free_port() -> None:
    async with receive("http://127.0.0.1:0/callback") as receiver:
        with pytest.raises(OSError, match=f"redirect URI {receiver.redirect_uri}: .*in use"):
            async with receive(receiver.redirect_uri):
                pass


@pytest.mark.spec(
    "2026-07-28/basic/authorization/security-considerations#communication-security-3",
    "2025-06-18..2025-11-25/basic/authorization#communication-security-3",
    "2025-03-26/basic/authorization#security-considerations-6",
)
@pytest.mark.parametrize(
    "uri",
    ["https://127.0.0.1/callback", "http://client.example/callback", "http://127.0.0.1/x?y=1", "http://127.0.0.1/#x",
     "app://callback", "com.example:/callback", "http://10.0.0.1/"],
)  # fmt: skip
def test_redirect_uri_that_cannot_be_received_is_refused(uri: str) -> None:
    with pytest.raises(ValueError, match="redirect URI"):
        check_receivable(uri)
    for accepted in ("http://127.0.0.1:4711/callback", "http://localhost/callback", "http://[::1]:0/"):
        check_receivable(accepted)


@pytest.mark.parametrize("display", [True, False])
async def test_browser_opens_only_with_a_display_and_the_url_is_printed(
    display: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def fake(url: str) -> bool:
        loop.call_soon_threadsafe(opened.put_nowait, url)
        raise webbrowser.Error("no browser")

    monkeypatch.setattr(webbrowser, "open", fake)
    monkeypatch.setattr(loopback, "has_display", lambda: display)
    await open_in_browser("https://auth.example/authorize")
    assert "https://auth.example/authorize" in capsys.readouterr().err
    if display:
        async with asyncio.timeout(PATIENCE):
            assert await opened.get() == "https://auth.example/authorize"
    await print_url("https://auth.example/x")
    assert opened.empty()


def test_display_is_told_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert not loopback.has_display()
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    assert loopback.has_display()
