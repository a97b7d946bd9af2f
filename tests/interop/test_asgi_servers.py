"""lib/http/asgi.py in foreign ASGI servers."""

from __future__ import annotations

import http.client
from pathlib import Path

import pytest

from tests.interop.recorded import Recorded
from tests.settings import PATIENCE, ROOT

CUT = """
from mcp_ref.lib.http.asgi import application

async def handler(exchange):
    response = exchange.stream(200, [])
    response.write(b"half")
    await response.drain()
    raise ValueError("the handler failed")

app = application(handler)
"""


@pytest.mark.parametrize("server", ["uvicorn --port 0 cut:app", "hypercorn --bind 127.0.0.1:0 cut:app"])
def test_asgi_handler_that_fails_in_a_stream_cuts_the_body(
    peers: Path, recorded: Recorded, tmp_path: Path, server: str
) -> None:
    (tmp_path / "cut.py").write_text(CUT, "utf-8")
    command, environment = [str(peers / "asgi/bin/python"), "-m", *server.split()], {"PYTHONPATH": f"{tmp_path}:{ROOT}"}
    with recorded.listening(command, r"[Rr]unning on http://([\d.]+:\d+)", environment) as ready:
        connection = http.client.HTTPConnection(ready[1], timeout=PATIENCE)
        connection.request("GET", "/")
        with pytest.raises(http.client.IncompleteRead) as cut:
            connection.getresponse().read()
        assert cut.value.partial == b"half"
        connection.close()
