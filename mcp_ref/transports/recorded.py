"""A trace that writes a recording: the messages of a client or server of this package, as this program sees them.

    MCP_REF_TRACE=talk.jsonl python3 server.py      or      Client(..., trace=recording_trace("talk.jsonl", "client"))

The program itself writes each message, as one line (check/recording.py). So unlike a recording by
`python3 -m mcp_ref record`, the file lacks standard error and HTTP heads, and a slow disk slows the program. Secrets
are hidden in the same way.

A program without such a trace does not import this module, and so does not load `check/`, which this module needs.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
import weakref

from ..check.masking import mask
from ..check.recording import Frame, Head, Side, content, format_event, format_head
from .base import Direction, Trace

MAX_SAME_NAMES = 10_000
"""Maximum number of recordings whose names differ only by the number before the ending."""


def open_recording(path: str) -> int:
    """Open a new file for a recording, and return its descriptor. Raise OSError if that is impossible.

    If a file of this name exists, the new one gets a number before its ending, such as `talk-2.jsonl`, because a host
    starts its server with the same command again and again, which must not overwrite the earlier recordings.
    """
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(os.stat(path).st_mode):
            return _open_pipe(path)
    name, number = path, 1
    stem, ending = os.path.splitext(path)
    while True:
        try:
            return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            if number >= MAX_SAME_NAMES:
                raise
        number += 1
        name = f"{stem}-{number}{ending}"


def _open_pipe(path: str) -> int:
    """Open a pipe or device. Refuse one that belongs to another user, because its owner could read the recording."""
    descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)  # opening must not wait for a reader
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) or found.st_uid not in (0, os.geteuid()):
        os.close(descriptor)
        raise PermissionError(errno.EPERM, "it belongs to another user, or has just been replaced", path)
    return descriptor


def now() -> str:
    """Return the time for the head of a recording."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def recording_trace(path: str, side: Side) -> Trace:
    """Return a trace for the `trace` parameter of a `Server` or `Client`, which writes a recording.

    Args:
        path: The new file. An existing file is kept, and the new one gets a number.
        side: The side of this program: "client" or "server".

    Raises:
        OSError: The file cannot be opened.
    """
    descriptor, started = open_recording(path), time.monotonic()
    peer: Side = "server" if side == "client" else "client"

    def write(direction: Direction, frame: bytes) -> None:
        at = time.monotonic() - started
        event = Frame(side if direction == "->" else peer, content(bytes(frame)), at=at, connection=1)
        with contextlib.suppress(OSError):  # a full disk must not stop the conversation
            os.write(descriptor, format_event(mask(event)) + b"\n")

    weakref.finalize(write, os.close, descriptor)  # closes the file when nobody uses the trace any more
    os.write(descriptor, format_head(Head("messages", now())) + b"\n")
    return write
