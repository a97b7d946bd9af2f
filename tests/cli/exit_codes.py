"""The exit code of a command line, whichever part of the program refuses it."""

from __future__ import annotations

import sys

from mcp_ref.__main__ import main


def exit_code(*words: str) -> int:
    """Run a command line, and do with SystemExit what Python does: print its text, or return its code."""
    try:
        return main([*words])
    except SystemExit as error:
        if isinstance(error.code, int):
            return error.code
        print(error.code, file=sys.stderr)
        return 1
