"""The cost of the recorder: the same calls with and without it, in turns, so that both see the same machine.

python3 -m tests.bench.bench_record           stdio: the time of a call, and a result of 100 MB
python3 -m tests.bench.bench_record --http    HTTP: calls through the recorder, nginx, and no proxy at all
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.recorder.recordings import record_command
from tests.server_programs import serving
from tests.settings import HOME

ROUNDS, CALLS = 7, 1000
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"progressToken":1}}}\n'
ECHO = [sys.executable, "-c", "import os\nwhile d := os.read(0, 65536): os.write(1, d)"]
LARGE = [sys.executable, "-c", "import os\nfor _ in range(1600): os.write(1, b'x' * 65536)\nos.write(1, b'\\n')"]
NGINX = """
worker_processes 1; daemon off; pid {folder}/pid; error_log {folder}/error;
events {{}} http {{ access_log off; server {{ listen 127.0.0.1:{port};
  location / {{ proxy_pass http://127.0.0.1:{target}; proxy_http_version 1.1; proxy_set_header Connection "";
    proxy_buffering off; }} }} }}
"""


def call_seconds(command: list[str]) -> list[float]:
    """Return the time of each call of a server over stdio."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, cwd=HOME) as process:
        assert process.stdin is not None and process.stdout is not None
        found = []
        for number in range(CALLS + 50):
            begun = time.perf_counter()
            process.stdin.write(PING)
            process.stdout.readline()
            if number >= 50:
                found.append(time.perf_counter() - begun)
        process.stdin.close()
    return found


def large_seconds(command: list[str]) -> float:
    """Return the time until 100 MB have arrived, from the first byte on."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, cwd=HOME) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdout.read(1)
        begun = time.perf_counter()
        while process.stdout.read(1 << 20):
            pass
        process.stdin.close()
    return time.perf_counter() - begun


def stdio(folder: Path) -> None:
    """Print the figures of stdio."""
    added, ratios = [], []
    for number in range(ROUNDS):
        plain = statistics.median(call_seconds(ECHO))
        behind = statistics.median(call_seconds(record_command(folder / f"{number}.jsonl", *ECHO)))
        added.append(behind - plain)
        plain_large, recorded = large_seconds(LARGE), large_seconds(record_command(folder / f"l{number}.jsonl", *LARGE))
        ratios.append(recorded / plain_large)
        print(
            f"  call {plain * 1e6:.0f} us, recorded {behind * 1e6:.0f} us; 100 MB {plain_large:.2f} s, {recorded:.2f} s"
        )
    print(f"added to the median call: {statistics.median(added) * 1e3:.3f} ms (best {min(added) * 1e3:.3f})")
    print(f"100 MB: {statistics.median(ratios):.2f} times the time without the recorder")


@contextlib.contextmanager
def recorder(folder: Path, target: int) -> Iterator[int]:
    """Run the recorder in front of a port. Yield its port."""
    words = [
        sys.executable,
        "-m",
        "mcp_ref",
        "record",
        str(folder / "h.jsonl"),
        "--http",
        f"http://127.0.0.1:{target}/mcp",
    ]
    with subprocess.Popen(words, stderr=subprocess.PIPE, cwd=HOME, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline().strip()
        try:
            yield int(line.removesuffix("/mcp").rpartition(":")[2])
        finally:
            process.terminate()


@contextlib.contextmanager
def nginx(folder: Path, target: int) -> Iterator[int]:
    """Run nginx in front of a port. Yield its port."""
    port = 20_000 + target % 10_000
    (folder / "conf").write_text(NGINX.format(folder=folder, port=port, target=target))
    with subprocess.Popen(
        ["nginx", "-c", str(folder / "conf"), "-p", str(folder)], stderr=subprocess.DEVNULL
    ) as process:
        try:
            time.sleep(0.5)
            yield port
        finally:
            process.terminate()


def http_seconds(port: int) -> float:
    """Return the time of the median call over HTTP."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
               "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "add"}  # fmt: skip
    meta = '{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}'
    call = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2},"_meta":%s}}'
    found = []
    for _ in range(CALLS // 2):
        begun = time.perf_counter()
        connection.request("POST", "/mcp", call % meta, headers)
        response = connection.getresponse()
        body = response.read()
        found.append(time.perf_counter() - begun)
        assert response.status == 200, body
    connection.close()
    return statistics.median(found)


def over_http(folder: Path) -> None:
    """Print the figures of HTTP."""
    with contextlib.ExitStack() as stack:
        program = stack.enter_context(serving("examples/everything.py"))
        target = int(program.url.removesuffix("/mcp").rpartition(":")[2])
        ports = {"none": target, "recorder": stack.enter_context(recorder(folder, target))}
        if shutil.which("nginx"):
            ports["nginx"] = stack.enter_context(nginx(folder, target))
        times: dict[str, list[float]] = {name: [] for name in ports}
        for _ in range(ROUNDS):
            for name, port in ports.items():
                times[name].append(http_seconds(port))
            print("  " + ", ".join(f"{name} {found[-1] * 1e6:.0f} us" for name, found in times.items()))
        plain = times.get("nginx", times["none"])
        ratios = [recorded / other for recorded, other in zip(times["recorder"], plain, strict=True)]
        print(f"median call: {statistics.median(ratios):.2f} times {'nginx' if 'nginx' in times else 'no proxy'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--http", action="store_true")
    measure = over_http if parser.parse_args().http else stdio
    with tempfile.TemporaryDirectory() as name:
        measure(Path(name))
