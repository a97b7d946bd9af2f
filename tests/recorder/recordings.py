"""Recordings that the tests make: the command, its file, and hostile bytes to send through it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from mcp_ref.check.recording import Event, Frame, parse_head, read_events
from tests.forked_python import forked
from tests.settings import HOME, PATIENCE

ECHO = ("cat",)
"""A server that sends every byte back."""


def record_command(path: Path | str, *command: str, options: Sequence[str] = ()) -> list[str]:
    """Return the words that start a server behind the recorder."""
    return [sys.executable, "-m", "mcp_ref", "record", *options, str(path), "--", *command]


def quick_record_command(path: Path | str, *command: str, options: Sequence[str] = ()) -> list[str]:
    """Return a command like that of `record_command`, for a process that starts quickly."""
    return forked(*record_command(path, *command, options=options)[1:])


def start(path: Path | str, *command: str) -> subprocess.Popen[bytes]:
    """Start a server behind the recorder, as a host does."""
    return _with_pipes(record_command(path, *command))


def quick_start(path: Path | str, *command: str, options: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """Do the same by a fork, for a test that needs neither the process id nor the signals of the server."""
    return _with_pipes(quick_record_command(path, *command, options=options))


def _with_pipes(words: list[str]) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, cwd=HOME)


def wait_until(is_true: Callable[[], object]) -> None:
    """Wait until a condition is true, for at most `PATIENCE` seconds."""
    deadline = time.monotonic() + PATIENCE
    while not is_true():
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(0.005)


def writers(path: Path | str) -> list[int]:
    """Return the processes that have this file open."""
    found = []
    for folder in Path("/proc").glob("[0-9]*/fd"):
        try:
            links = [os.readlink(entry) for entry in folder.iterdir()]
        except OSError:
            continue  # the process has ended
        if str(path) in links:
            found.append(int(folder.parent.name))
    return found


def events_of(path: Path) -> list[Event]:
    """Wait until the recording is complete, and return its events."""
    wait_until(lambda: not writers(path))
    head, *lines = path.read_bytes().splitlines()
    parse_head(head)
    return list(read_events(lines))


def frames(events: Sequence[Event], sender: str) -> bytes:
    """Return the bytes that one side has sent, as the recording has them."""
    found = [event for event in events if isinstance(event, Frame) and event.sender == sender]
    return b"".join(event.content.data + (b"" if event.partial else b"\n") for event in found)


def hostile(seed: int) -> bytes:
    """Return one broken or hostile input: bytes, lines, messages and pieces of them, also of HTTP."""
    random_ = random.Random(seed)
    message = json.dumps({"jsonrpc": "2.0", "id": random_.randrange(9), "method": "ping"}).encode()
    kinds: list[Callable[[], bytes]] = [
        lambda: random_.randbytes(random_.randrange(1, 300)),
        lambda: message + b"\n",
        lambda: message[: random_.randrange(len(message))],
        lambda: message.replace(b",", b",\n"),
        lambda: message + b"\r\n\x00\n\n",
        lambda: b"\xff\xfe" + message.decode().encode("utf-16-le") + b"\n",
        lambda: b"{" * random_.randrange(1, 5000) + b"\n",
        lambda: b'{"a": "' + random_.randbytes(20) + b'"}\n',
        lambda: b"[" + b",".join([message] * random_.randrange(1, 40)) + b"]\n",
        lambda: b'{"id": 1' + b"0" * random_.randrange(1, 9000) + b"}\n",
        lambda: b"\x1b[2J\x07 \xe2\x80\xae\n",
        lambda: b"x" * random_.randrange(1, 100_000),
        lambda: b"POST /mcp HTTP/1.1\r\nContent-Length: 5\r\n\r\n" + message,
        lambda: b'{"\\ud800": "\\udfff"}\n',
    ]
    return random_.choice(kinds)()
