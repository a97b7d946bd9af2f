"""A command at a terminal, and a person who replies to each prompt."""

from __future__ import annotations

import os
import re
import select
import subprocess
import time
from collections.abc import Callable

import pytest

from tests.forked_python import forked
from tests.settings import ROOT

SECONDS = 30.0
"""Time limit of one command, in seconds."""

_PROMPT = re.compile(rb"(?:: |\[y/n\] )\Z")
_KEYS = re.compile(rb"[^\n\x04]*[\n\x04]")


def run_at_terminal(
    typed: bytes, *words: str, before_typing: Callable[[], object] = lambda: None
) -> tuple[int, str, str]:
    """Run a command whose input and error output are a terminal.

    Args:
        typed: The lines to type, each after a prompt. Ctrl-D is `\\x04`.
        words: The words of the command.
        before_typing: Called at each prompt.

    Returns:
        The exit code, the output, and the terminal's text.
    """
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    command = forked("-m", "mcp_ref", *words)
    try:
        with subprocess.Popen(command, cwd=ROOT, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs) as process:
            shown, lines, end = b"", _KEYS.findall(typed), time.monotonic() + SECONDS
            while process.poll() is None and time.monotonic() < end:
                if select.select([ours], [], [], 0.02)[0]:
                    shown += os.read(ours, 65536)
                    if lines and _PROMPT.search(shown):
                        before_typing()
                        os.write(ours, lines.pop(0))
            process.kill()
            out = process.communicate()[0]
        while select.select([ours], [], [], 0)[0]:
            shown += os.read(ours, 65536)
        return process.returncode, out.decode(), shown.decode()
    finally:
        os.close(ours)
        os.close(theirs)
