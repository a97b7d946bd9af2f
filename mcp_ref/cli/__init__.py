"""The commands behind `python3 -m mcp_ref`.

- `values.py` reads arguments, `show.py` prints, and `person.py` asks the person at the terminal
- `ask.py`: the commands list, call, read, watch, prompt and complete
- `serve.py`: the command run
- `revisions.py`, `toc.py`, `limits.py`: the commands that print what the package knows of itself
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UsageError(Exception):
    """A wrong command line. The text says what to write instead. The exit code is 2."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'list'?`, or the known names if there are at most 12, or an empty string."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=3)
    if near:
        return f"; did you mean {' or '.join(repr(n) for n in near)}?"
    return f"; there are {', '.join(names)}" if 0 < len(names) <= 12 else ""
