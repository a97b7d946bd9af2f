"""The command line over HTTP: `run --http`, and requests to a URL."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from mcp_ref import Server
from mcp_ref.__main__ import main
from mcp_ref.jsonrpc.messages import Object
from mcp_ref.revisions import LEGACY, REVISIONS
from tests.cli.exit_codes import exit_code
from tests.forked_python import forked
from tests.messages import initialize, notification, request
from tests.raw_http_client import SSE_TYPE, RawSession, Reply, web_at
from tests.server_programs import serving
from tests.settings import ROOT

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals")
Captured = pytest.CaptureFixture[str]

DEMO = "mcp_ref.demo.server"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Serve the demo's server for all tests of this file, and return its URL."""
    with serving(DEMO) as program:
        yield program.url
        assert program.stop(signal.SIGTERM) == b""


@dataclass
class Answering:
    """A server that has one answer to everything."""

    url: str
    seen: list[dict[str, str]] = field(default_factory=list)


@contextlib.contextmanager
def answering(status: int, body: str, kind: str = "application/json") -> Iterator[Answering]:
    """Return a handler that sends this response and notes the headers of each request."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            made.seen.append({name.lower(): value for name, value in self.headers.items()})
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(body.encode())

        do_GET = do_POST

        def log_message(self, format: str, *arguments: object) -> None:
            """Do nothing."""

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        made = Answering(f"http://127.0.0.1:{server.server_port}/mcp")
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join()


# ---------------------------------------------------------------------------------------------------- asking a URL


def test_every_client_command_accepts_a_url(url: str, capsys: Captured) -> None:
    for words, printed in (
        (["call", "add", "a=1", "b=2"], "3\n"),
        (["read", "notes://today"], "Buy milk."),
        (["prompt", "translate", "text=hi", "language=French"], "user: Translate into French: hi\n"),
        (["complete", "translate", "language", "fr"], "French\nFrisian\n"),
    ):
        assert main([*words, "--", url]) == 0
        assert capsys.readouterr() == (printed, "")
    assert main(["list", "--", url]) == 0
    listed = capsys.readouterr().out
    assert main(["list", "--", sys.executable, "-c", f"import runpy; runpy.run_module({DEMO!r}, {{}}, '__main__')",
                 ]) == 0  # fmt: skip
    assert capsys.readouterr().out == listed  # over stdio it is the same


@pytest.mark.parametrize(
    ("revision", "path"),
    [(revision.name, "/mcp") for revision in REVISIONS] + [(revision.name, "/sse") for revision in LEGACY],
)
def test_call_accepts_a_url_of_either_http_transport_in_any_revision(
    revision: str, path: str, url: str, capsys: Captured
) -> None:
    where = url.replace("/mcp", path)
    assert main(["call", "add", "a=1", "b=2", "--revision", revision, "--", where]) == 0
    assert capsys.readouterr() == ("3\n", "")


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_trace_shows_every_message_and_head_and_leaves_secrets_out(revision: str, url: str, capsys: Captured) -> None:
    words = ["call", "add", "a=1", "b=2", "password=hunter2", "--trace", "--header", "Authorization: Bearer s3cret"]
    assert main([*words, "--revision", revision, "--", url]) == 1  # the tool takes no password
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[2] for line in lines[:4]] == ["->", "->", "<-", "<-"]
    assert lines[0].split()[3:5] == ["POST", "/mcp"] and lines[2].split()[3] == "200"
    assert ('"initialize"' if revision == "2025-11-25" else '"server/discover"') in lines[1]
    call = next(line for line in lines if '"tools/call"' in line)
    assert '"password": "***"' in call and call.split()[1] == revision
    head = lines[lines.index(call) - 1]
    assert f"MCP-Protocol-Version: {revision}" in head
    assert ("Mcp-Session-Id: " in head) is (revision == "2025-11-25")
    assert ("Mcp-Method: tools/call  Mcp-Name: add" in head) is (revision == "2026-07-28")
    assert "hunter2" not in "".join(lines) and "s3cret" not in "".join(lines)


def test_header_option_is_sent_with_every_request(capsys: Captured) -> None:
    with answering(500, "oh no", "text/plain") as server:
        words = ["list", "--header", "Authorization: Bearer a:b", "--header", "X-Team:  blue "]
        assert main([*words, "--", server.url]) == 3
    assert [(seen["authorization"], seen["x-team"]) for seen in server.seen] == [("Bearer a:b", "blue")]


@pytest.mark.parametrize("word", ["X: a\nY: b", "X Y: b", "X: \u65e5", "Host: elsewhere"])
def test_header_option_with_an_invalid_header_exits_with_2_and_sends_nothing(word: str, capsys: Captured) -> None:
    with answering(500, "oh no") as server:
        assert main(["list", "--header", word, "--", server.url]) == 2
        assert not server.seen
    err = capsys.readouterr().err
    assert "header" in err and "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["list", "--header", "X: y", "--", "some-server"], "--header works only with the URL of a server"),
        (["list", "--header", "no colon", "--", "http://127.0.0.1:1/"], "list: --header takes 'Name: value'"),
        (["list", "--header", ": no name", "--", "http://127.0.0.1:1/"], "list: --header takes 'Name: value'"),
        (["list", "--header", "", "--", "http://127.0.0.1:1/"], "list: --header takes 'Name: value'"),
        (["list", "--env", "A=b", "--", "http://127.0.0.1:1/"], "--env works only with the command of a server"),
        (["list", "--", "http://127.0.0.1:1/", "more"], "a URL takes no arguments: more"),
        (["list", "--", "http://"], "URL"),
        (["list", "--", "http:///mcp"], "URL"),
        (["list", "--", "http://127.0.0.1:99999/mcp"], "URL"),
        (["list", "--", "http://[::1/mcp"], "URL"),
    ],
)
def test_url_or_option_that_makes_no_sense_is_2_with_one_line(words: list[str], why: str, capsys: Captured) -> None:
    assert main(words) == 2
    err = capsys.readouterr().err
    assert why in err and len(err.splitlines()) == 1


# ---------------------------------------------------------------------------------------------------- no connection


def test_url_where_nothing_listens_exits_with_3(capsys: Captured) -> None:
    with socket.socket() as taken:  # bound, and never listening
        taken.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["list", "--", f"http://{where}/mcp"]) == 3
    err = capsys.readouterr().err
    assert f"{where} cannot be reached: no program listens there (is the server running?)" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("words", [["call", "add", "a=1", "b=2", "URL"], ["call", "URL", "add", "a=1", "b=2"]])
def test_url_needs_no_dashes_before_it(words: list[str], url: str, capsys: Captured) -> None:
    assert main([url if word == "URL" else word for word in words]) == 0
    assert capsys.readouterr().out == "3\n"


def test_uri_of_a_resource_can_be_an_http_url_before_the_url_of_the_server(url: str, capsys: Captured) -> None:
    assert main(["read", "https://example.com/page", url]) == 1
    assert "https://example.com/page" in capsys.readouterr().err


def test_https_url_of_a_server_without_tls_says_so(url: str, capsys: Captured) -> None:
    assert main(["list", url.replace("http://", "https://")]) == 3
    assert "does not use TLS: write http:// in place of https://" in capsys.readouterr().err


REFUSAL = json.dumps({"jsonrpc": "2.0", "error": {"code": -32600, "message": "show your badge"}})


@pytest.mark.parametrize("status", [403, 404, 500, 503])
def test_url_with_an_error_status_exits_with_3_and_shows_the_status_and_the_reason(
    status: int, capsys: Captured
) -> None:
    with answering(status, REFUSAL) as server:
        assert main(["list", "--", server.url]) == 3
    err = capsys.readouterr().err
    asked = "initialize" if status == 404 else "server/discover"  # which alone says that it is of another era, perhaps
    assert err == f"{asked}: {server.url}: the server answered HTTP {status}: show your badge\n"
    with answering(status, "<h1>No</h1>", "text/html") as server:
        assert main(["list", "--", server.url]) == 3
    hint = "; is there an MCP server at this URL? Its path is often /mcp" if status == 404 else ""
    assert capsys.readouterr().err == f"{asked}: {server.url}: the server answered HTTP {status}{hint}\n"


def test_url_with_401_and_without_an_authorization_server_is_1_and_says_what_to_do(capsys: Captured) -> None:
    with answering(401, REFUSAL) as server:
        assert main(["list", "--", server.url]) == 1
    registration = server.url.replace("/mcp", "/register")
    assert capsys.readouterr().err == (
        f"found no authorization server of {server.url} ({registration}: status 401). It publishes no metadata either, "
        "so perhaps it wants an API key, or a token that you get elsewhere.\n"
    )


def test_url_of_a_web_page_exits_with_3_and_names_the_content_type(capsys: Captured) -> None:
    with answering(200, "<h1>Welcome</h1>", "text/html") as server:
        assert main(["list", "--", server.url]) == 3
    assert "the response is text/html, not application/json or text/event-stream" in capsys.readouterr().err


# ---------------------------------------------------------------------------------------------------- run --http


async def post(url: str, host: str = "127.0.0.1", **headers: str) -> Reply:
    """Open a session as a bare client, and return the response."""
    web = web_at(url)
    lines = RawSession(web).lines(**headers)
    reply = await web.ask("POST", web.site.path, json.dumps(initialize()).encode(), *lines, host=host)
    await web.close()
    return reply


async def kind_of_answer(url: str, session: str) -> str | None:
    """Return the content type of the response to a call that reports progress."""
    web = web_at(url)
    call: Object = {"name": "count", "arguments": {"to": 1}, "_meta": {"progressToken": 1}}
    await RawSession(web, session).post(notification("notifications/initialized"))
    reply = await RawSession(web, session).post(request("tools/call", call))
    await web.close()
    return reply.kind


async def test_by_default_it_is_on_the_loopback_interface_alone_at_mcp(url: str) -> None:
    assert url.startswith("http://127.0.0.1:") and url.endswith("/mcp")
    assert (await post(url)).status == 200
    assert (await post(url, "app.example")).status == (await post(url, Origin="https://app.example")).status == 403


def test_run_http_gets_the_options_of_the_command_line_or_their_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    monkeypatch.setattr(Server, "run_http", lambda self, *where, **options: seen.append((where, options)))
    given = ["--host", "::1", "--port", "0", "--path", "p", "--json-responses", "--allow-host", "a", "--health",
             "--allow-origin", "https://b", "--trust-proxy", "10.0.0.1", "--drain", "0.0"]  # fmt: skip
    for options in ([], given, ["--path", "/p"]):
        assert main(["run", DEMO, "--http", *options]) == 0
    assert seen == [
        (("127.0.0.1", 8000), {"json_responses": False, "drain_seconds": 10.0}),
        (("::1", 0), {"json_responses": True, "drain_seconds": 0.0, "path": "/p", "allowed_hosts": ["a"],
                      "allowed_origins": ["https://b"], "trusted_proxies": ["10.0.0.1"], "health": True}),
        (("127.0.0.1", 8000), {"json_responses": False, "drain_seconds": 10.0, "path": "/p"}),
    ]  # fmt: skip


async def test_options_of_run_over_http_take_effect() -> None:
    options = ["--host", "localhost", "--path", "tools/v1", "--json-responses"]
    options += ["--allow-host", "app.example", "--allow-host", "127.0.0.1", "--allow-origin", "https://app.example"]
    with serving(DEMO, *options) as program:
        assert program.url.endswith("/tools/v1")  # a slash is put before it
        reply = await post(program.url, "app.example", Origin="https://app.example")
        assert (reply.status, reply.headers["access-control-allow-origin"]) == (200, "https://app.example")
        reply = await post(program.url, "other.example")
        assert reply.status == 403 and "--allow-host" in reply.why
        reply = await post(program.url, Origin="http://localhost")  # only the given origins are allowed
        assert reply.status == 403 and "--allow-origin" in reply.why
        assert program.stop(signal.SIGTERM) == b""


async def test_with_a_store_a_session_goes_on_in_the_next_process(tmp_path: Path) -> None:
    store = str(tmp_path / "events.db")
    with serving(DEMO, "--store", store) as program:
        session = (await post(program.url)).headers["mcp-session-id"]
        assert program.stop(signal.SIGTERM) == b""
    with serving(DEMO, "--store", store) as program:
        assert await kind_of_answer(program.url, session) == SSE_TYPE
        assert program.stop(signal.SIGTERM) == b""


async def test_run_traces_what_it_is_sent_over_http() -> None:
    with serving(DEMO, "--trace") as program:
        await post(program.url)
        assert "<-  POST /mcp  " in program.line()
        assert '<-  {"jsonrpc": "2.0", "id": "init", "method": "initialize"' in program.line()
        assert '->  {"jsonrpc": "2.0", "id": "init", "result"' in program.line()
        assert "->  200  Content-Type: application/json  Mcp-Session-Id: " in program.line()
        assert program.stop(signal.SIGTERM) == b""


def test_run_on_a_port_in_use_exits_with_1_and_one_line(url: str, capsys: Captured) -> None:
    port = url.rpartition(":")[2].partition("/")[0]
    assert exit_code("run", DEMO, "--http", "--port", port) == 1
    out, err = capsys.readouterr()
    assert err.startswith(f"demo: cannot serve on 127.0.0.1:{port}: ") and "in use" in err
    assert (out, len(err.splitlines())) == ("", 1)


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (["--http", "--port", "65536"], 2, "--port: expected a port from 0 to 65535, got '65536'"),
        (["--http", "--port", "-1"], 2, "--port: expected a port from 0 to 65535, got '-1'"),
        (["--http", "--host", "192.0.2.1"], 1, "demo: cannot serve on 192.0.2.1:8000: this machine does not have"),
        (["--http", "--host", "no.such.host.invalid"], 1, "demo: cannot serve on no.such.host.invalid"),
        (["--http", "--drain", "nan"], 2, "--drain: expected 0 or a number of seconds above 0, got 'nan'"),
        (["--http", "--allow-origin", "a.example"], 2, "an allowed origin must be like 'https://app.example'"),
        (["--http", "--allow-host", "http://a.example"], 2, "an allowed host must be like 'app.example'"),
        (["--http", "--path", "/a b"], 2, "path must be like '/mcp', percent-encoded, not '/a b'"),
        (["--http", "--path", "http://a/mcp"], 2, "--path http://a/mcp: write a path, such as /mcp"),
        (["--http", "--trust-proxy", "10.0.0.1/8"], 2, "or a network such as 10.0.0.0/8: 10.0.0.1/8 has host bits"),
        (["--port", "0"], 2, "--port needs --http"),
        (["--json-responses"], 2, "--json-responses needs --http"),
        (["--store", "x.db"], 2, "--store needs --http"),
        (["--http", "--port", "http"], 2, "--port: expected a port from 0 to 65535, got 'http'"),
        (["--http", "--store", "/no/such/folder/x.db"], 2, "--store /no/such/folder/x.db: No such file or directory"),
        (["--http", "--", "x"], 2, "run takes no server"),
        *(
            (["--http", *protection], 2, "a protected server needs both --issuer and --resource")
            for protection in (
                ["--issuer", "https://a/"], ["--resource", "https://a/"], ["--require-scope", "a"],
                ["--jwks", "https://a/"],
            )
        ),
    ],
)  # fmt: skip
def test_server_that_cannot_be_served_says_why(words: list[str], code: int, why: str, capsys: Captured) -> None:
    assert exit_code("run", DEMO, *words) == code
    err = capsys.readouterr().err
    assert why in err and (code == 2 or len(err.splitlines()) == 1)


def test_server_with_scopes_but_without_an_issuer_is_2_with_one_line(capsys: Captured) -> None:
    assert main(["run", str(ROOT / "examples/protected.py"), "--http", "--port", "0"]) == 2
    err = capsys.readouterr().err
    assert "--issuer and --resource" in err and len(err.splitlines()) == 1


HOSTILE = 'import sys; sys.exit("hostile")'


@cache
def replaceable_modules() -> set[str]:
    """Return the modules of the standard library that are not loaded yet when __main__.py begins."""
    list_modules = "import sys, runpy, contextlib, mcp_ref; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", list_modules], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    return {*sys.stdlib_module_names} - {*sys.builtin_module_names, *loaded.stdout.split()}


@pytest.mark.attack("folder-with-modules")
@pytest.mark.parametrize("words", [["--help"], ["limits"], ["list", "--find"], ["list", "http://127.0.0.1:9/mcp"]])
def test_command_imports_nothing_from_the_current_folder(tmp_path: Path, words: list[str]) -> None:
    for name in replaceable_modules():
        (tmp_path / f"{name}.py").write_text(HOSTILE)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "mcp_ref", *words], cwd=tmp_path, env=environment, capture_output=True, text=True,
        timeout=30, check=False,
    )  # fmt: skip
    assert "hostile" not in done.stderr and done.returncode in (0, 3), done.stderr


def test_server_file_imports_modules_of_its_folder_and_of_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "outer.py").write_text("")
    (tmp_path / "inner" / "beside.py").write_text("")
    source = "import outer, beside\nfrom mcp_ref import Server\nserver = Server('s')"
    (tmp_path / "inner" / "served.py").write_text(source)
    done = subprocess.run(
        forked("-m", "mcp_ref", "run", "inner/served.py"), cwd=tmp_path, input="", text=True, timeout=30,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
