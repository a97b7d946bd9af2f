"""`check` uses servers of other projects over each transport that they have: all that it finds are true faults."""

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.check.foreign import known_faults
from tests.forked_python import forked
from tests.interop.recorded import ROOT, Recorded
from tests.interop.test_foreign_servers import SCRIPTS, Where, everything_by

BENCH = ROOT / "tests/bench/programs"

SERVERS: dict[str, tuple[list[str | Path], str]] = {
    "mcp (Python SDK) 1, HTTP": (["python-sdk-1/bin/python", SCRIPTS / "small_server.py", "streamable-http"], "/mcp"),
    "mcp (Python SDK) 1, HTTP+SSE": (["python-sdk-1/bin/python", SCRIPTS / "small_server.py", "sse"], "/sse"),
    "mcp (Python SDK) 2, stateless": (["python-sdk-2/bin/python", SCRIPTS / "small_server.py", "stateless"], "/mcp"),
    "zeromcp, stdio": (["zeromcp/bin/python", BENCH / "zeromcp_server.py", "stdio", "0"], ""),
    "zeromcp, HTTP": (["zeromcp/bin/python", BENCH / "zeromcp_server.py", "http", "0"], "/mcp"),
    "zeromcp, HTTP+SSE": (["zeromcp/bin/python", BENCH / "zeromcp_server.py", "http", "0"], "/sse"),
    "mcp-lite, HTTP": (["node_modules/.bin/node", BENCH / "mcp_lite.mjs", "sse", "0"], "/mcp"),
}
"""Name of the program and transport -> command below the folder of the peers, and the path of the URL."""
EVERYTHING = "@modelcontextprotocol/server-everything"


@contextlib.contextmanager
def served(name: str, peers: Path, recorded: Recorded) -> Iterator[Where]:
    program, _, transport = name.partition(", ")
    if program == EVERYTHING:
        with everything_by(transport, peers, recorded) as where:
            yield where
        return
    (executable, *arguments), path = SERVERS[name]
    command = ["sh", "-c", 'exec "$@" >&2' if path else 'exec "$@"', "sh", peers / executable, *arguments]
    if not path:
        yield recorded.command(command)
        return
    with recorded.listening(command, r"(http://127\.0\.0\.1:[1-9]\d+)", {"MCP_REF_PEERS": str(peers)}) as ready:
        yield ready[1] + path


@pytest.mark.parametrize("name", [*SERVERS, f"{EVERYTHING}, streamableHttp", f"{EVERYTHING}, sse"])
def test_check_of_a_server_finds_only_true_faults(name: str, peers: Path, recorded: Recorded) -> None:
    # a tool of the everything server, which says that it only reads, takes longer than any time limit
    options = ["--revision", "2025-11-25", "--timeout", "4"] if EVERYTHING in name else []
    with served(name, peers, recorded) as where:
        target = [where] if isinstance(where, str) else ["--", *where]
        command = forked("-m", "mcp_ref", "check", "--json", *options, *target)
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    report = json.loads(done.stdout)
    found = {f"{each['side']}: {each['name']}" for each in report["findings"] if each["level"] != "advice"}
    assert found and found <= known_faults(name.partition(", ")[0].rstrip(" 12"))
    assert {text.partition(":")[0] for each in report["visits"] for text in each["accepted"]} <= {"a foreign Origin"}
