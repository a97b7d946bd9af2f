"""The demo, as people run it: from a clone, and from a zip file that has it under another name."""

from __future__ import annotations

import asyncio
import io
import json
import os
import py_compile
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlencode

import pytest

from mcp_ref.demo.authorization import STEPS, DemoAuthorizationServer
from mcp_ref.demo.screen import PURPOSE, Screen
from mcp_ref.lib.http.message import Headers, HttpRequest
from mcp_ref.revisions import LEGACY, METHODS
from tests.forked_python import forked, forking_script
from tests.settings import ROOT
from tests.sources import PACKAGE, modules


def demo(folder: Path, command: list[str], variables: dict[str, str]) -> str:
    """Run the demo, and return its output."""
    environment = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "NO_COLOR", "COLUMNS")
    }
    variables |= {"COLUMNS": "80", "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        command, cwd=folder, env=environment | variables, capture_output=True, text=True, encoding="utf-8", timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the output of the demo over each transport. Both run at the same time.

    Over HTTP, it runs from a zip file with the standard library alone. Over pipes, it starts a server for each chapter,
    by a fork.
    """
    archive = tmp_path_factory.mktemp("demo") / "an app.zip"
    with zipfile.ZipFile(archive, "w") as bundle:
        bundle.mkdir("app")
        bundle.mkdir("app/_vendor")  # Python finds a folder without `__init__.py` only by its entry
        bytecode = archive.with_name("bytecode")
        for path in modules():
            name = Path("app", "_vendor", "protocol", path.relative_to(PACKAGE))
            bundle.write(path, name)
            py_compile.compile(str(path), str(bytecode), str(name))
            bundle.write(bytecode, name.with_suffix(".pyc"))  # or each server of the demo would compile the package
    from_zip = [sys.executable, "-S", "-m", "app._vendor.protocol", "demo", "--http"]
    ways: dict[str, Callable[[], str]] = {
        "http": lambda: demo(archive.parent, from_zip, {"PYTHONPATH": str(archive)}),
        "pipes": lambda: demo(ROOT, forked("-m", "mcp_ref", "demo"), forking_script(archive.parent)),
    }
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(ways, pool.map(lambda run: run(), ways.values()), strict=True))


@pytest.fixture(params=["pipes", "http"])
def shown(request: pytest.FixtureRequest, runs: dict[str, str]) -> str:
    """Return the output of the demo over each transport."""
    return runs[str(request.param)]


def test_demo_shows_every_method_of_all_revisions(shown: str) -> None:
    for method in METHODS:
        if method.name != "notifications/tasks":  # our client polls its tasks and does not subscribe to them
            assert re.search(rf"^    (client ->|server <-) .*{re.escape(method.name)}", shown, re.MULTILINE), (
                method.name
            )


def test_demo_has_a_purpose_for_every_method() -> None:
    assert set(PURPOSE) == {method.name for method in METHODS}
    for name, (_, answer) in PURPOSE.items():
        assert bool(answer) == (not name.startswith("notifications/")), name


def test_demo_speaks_every_revision(shown: str) -> None:
    assert '"io.modelcontextprotocol/protocolVersion":"2026-07-28"' in shown
    for revision in LEGACY:
        assert f'"result":{{"protocolVersion":"{revision}"' in shown


def test_demo_ends_with_the_numbers_of_messages_and_claims_and_the_module_to_read_next(shown: str) -> None:
    end = " ".join(shown.splitlines()[-4:])
    claims = len(re.findall(r"^  ok  ", shown, re.MULTILINE))
    messages = len(re.findall(r"^    (?:client ->|server <-) ", shown, re.MULTILINE))
    end = " ".join(end.split())
    assert f"with {messages} messages" in end and f"{claims} claims that held" in end, end
    assert re.search(r"Read next: (mcp_ref|app/_vendor/protocol)/demo/server.py and tour.py", end), end


def test_demo_prints_no_line_wider_than_80_characters(shown: str) -> None:
    assert max(map(len, shown.splitlines())) <= 80


def test_demo_prints_no_color_into_a_file(shown: str) -> None:
    assert "\x1b" not in shown


def test_demo_shows_input_required_results_with_a_sealed_state_and_cache_hints(shown: str) -> None:
    text = "".join(line.strip() for line in shown.splitlines())
    assert text.count('"resultType":"input_required"') >= 4 and '"resultType":"task"' in text
    states = re.findall(r'"requestState":"([^"]+)"', text)
    assert (
        len([state for state in set(states) if states.count(state) >= 2]) >= 2
    )  # the client returns each state unchanged
    assert '"ttlMs":60000,"cacheScope":"public"' in text


def test_demo_shows_a_repeated_meta_object_once() -> None:
    out = io.StringIO()
    screen = Screen(out)
    for id, name in enumerate(("first", "second", "second")):
        meta = {"io.modelcontextprotocol/clientInfo": {"name": name, "version": "1.0"}, "more": "of it"}
        screen(
            "->", json.dumps({"id": id, "method": "ping", "params": {"_meta": meta}}, separators=(",", ":")).encode()
        )
    assert out.getvalue().count('"_meta":{"io') == 2 and out.getvalue().count('"_meta":{...}') == 1


def test_http_demo_shows_the_head_of_each_stateless_request(runs: dict[str, str]) -> None:
    shown = runs["http"]
    modern = shown[: shown.index("The legacy era")]
    assert "Mcp-Method: tools/call" in modern and "Mcp-Name: add" in modern
    own = modern[modern.index("Over HTTP: headers") : modern.index("A client with capabilities")]
    assert re.findall(r"server <- status (\d+)", own) == ["200", "400", "404"] and '"code":-32020' in own
    assert "Mcp-Method" not in runs["pipes"]


def test_http_demo_has_the_same_chapters_and_three_of_its_own(runs: dict[str, str]) -> None:
    pipes, http = (re.findall(r"^\d+\. (.*?)(?:  |$)", runs[way], re.MULTILINE) for way in ("pipes", "http"))
    own = ["Over HTTP: headers", "Over HTTP: sessions", "Over HTTP: streams"]
    assert [title for title in http if title not in own] == pipes and set(own) < set(http)


def test_demo_shows_each_step_to_a_token_with_its_check(shown: str) -> None:
    own = shown[shown.index("Authorization  ") : shown.index("The legacy era: a handshake")]
    sent = re.findall(r"^    client -> (\w+ \S+)$|^    server <- status (\d+)$", own, re.MULTILINE)
    assert [request or status for request, status in sent] == [
        "POST /mcp", "401", "GET /.well-known/oauth-protected-resource/mcp", "200",
        "GET /.well-known/oauth-authorization-server", "200", "POST /register", "201", "GET /authorize", "302",
        "GET /callback", "200", "POST /token", "200", "POST /mcp", "GET /jwks", "200", "200", "POST /mcp", "200",
        "POST /mcp", "401",
    ]  # fmt: skip
    text = " ".join(own.split())
    for before, after in STEPS.values():
        assert text.count(before) == 1 and text.count(" ".join(after.split())) == 1
        assert text.index(before) < text.index(" ".join(after.split()))
        assert re.search(r"(client|server) (\w+ )?(reads|compares|keeps|hashes|verifies|checked)", after), after
        assert "This stops" in after
    assert re.findall(r"^  (\d)\. ", own, re.MULTILINE) == list("12345678")


@pytest.mark.parametrize(
    ("path", "values", "status"),
    [
        ("/authorize", {"client_id": "other"}, 400),
        ("/authorize", {"redirect_uri": "http://127.0.0.1/evil"}, 400),
        ("/authorize", {}, 302),
        ("/elsewhere", {}, 404),
    ],
)
def test_authorization_server_of_the_demo_checks_the_redirect_uri(
    path: str, values: dict[str, str], status: int
) -> None:
    issuer, uri = DemoAuthorizationServer(), "http://127.0.0.1/callback"
    body = json.dumps({"redirect_uris": [uri]}).encode()
    [*_, client] = issuer.respond(HttpRequest("POST", "/register", "", Headers([]), body))
    asked = {"client_id": str(client["client_id"]), "redirect_uri": uri, "state": "s", **values}
    assert issuer.respond(HttpRequest("GET", path, urlencode(asked), Headers([])))[0] == status


def test_authorization_server_of_the_demo_checks_the_verifier() -> None:
    issuer, uri = DemoAuthorizationServer(), "http://127.0.0.1/callback"
    body = json.dumps({"redirect_uris": [uri]}).encode()
    [*_, client] = issuer.respond(HttpRequest("POST", "/register", "", Headers([]), body))
    asked = {"client_id": str(client["client_id"]), "redirect_uri": uri, "state": "s", "code_challenge": "x"}
    _, location, _ = issuer.respond(HttpRequest("GET", "/authorize", urlencode(asked), Headers([])))
    code = re.findall("code=([^&]+)", location)[0]
    form = urlencode({"code": code, "code_verifier": "wrong", "resource": uri}).encode()
    status, _, document = issuer.respond(HttpRequest("POST", "/token", "", Headers([]), form))
    assert (status, document) == (400, {"error": "invalid_grant"})


def test_http_demo_shows_the_session_and_a_stream_that_is_resumed(runs: dict[str, str]) -> None:
    shown = runs["http"]
    own = shown[shown.index("Over HTTP: sessions") : shown.index("Capabilities and settings of a session")]
    assert re.findall(r"server <- status (\d+)", own) == ["200", "202", "400", "200", "200", "204", "404"]
    (session,) = set(re.findall(r"^      Mcp-Session-Id: (\S+)$", own, re.MULTILINE))
    assert own.index(session) > own.index("server <- status 200")  # the server creates the session
    last, ids = re.findall(r"Last-Event-ID: (\S+)", own), re.findall(r"^      id: (\S+)", own, re.MULTILINE)
    assert len(last) == 1 and len(ids) == len(set(ids)) and 0 < ids.index(last[0]) < len(ids) - 1


def test_demo_runs_from_a_zip_file_vendored_under_another_name_and_from_any_folder(runs: dict[str, str]) -> None:
    end = " ".join(runs["http"].split())
    assert "Read next: app/_vendor/protocol/demo/server.py" in end and "claims that held" in end


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("variables", "colored"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_demo_prints_color_only_on_a_terminal_that_allows_it(
    variables: dict[str, str], colored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    terminal = Terminal()
    Screen(terminal).claim("it holds", True)
    assert ("\x1b[" in terminal.getvalue()) is colored


def test_demo_fails_at_a_claim_that_does_not_hold() -> None:
    with pytest.raises(AssertionError, match="the moon is green"):
        Screen(io.StringIO()).claim("the moon is green", False)


def test_demo_fails_at_a_request_that_should_have_been_refused() -> None:
    async def granted() -> None: ...

    with pytest.raises(AssertionError, match="was not refused"):
        asyncio.run(Screen(io.StringIO()).claim_error("a wish", -32602, granted()))


def test_demo_cuts_a_long_message_and_shows_its_length() -> None:
    out = io.StringIO()
    Screen(out)("->", b'{"jsonrpc":"2.0","method":"notifications/message","params":"' + b"x" * 5000 + b'"}')
    lines = out.getvalue().splitlines()
    assert len(lines) == 6 and lines[-1].endswith("... (5062 characters)")


def test_demo_escapes_the_control_characters_of_a_message() -> None:
    out = io.StringIO()
    Screen(out)("<-", b'{"jsonrpc":"2.0","method":"notifications/message","params":"\xc2\x9b31m\x7f"}')
    assert "\x9b" not in out.getvalue() and r"\u{9b}31m\u{7f}" in out.getvalue()
