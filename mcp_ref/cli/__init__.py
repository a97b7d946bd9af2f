"""Commands behind `python3 -m mcp_ref`: a command's module is imported only if it runs, so that `--help` is fast.

A command prints its result to standard output, and everything else to standard error, so that other programs can read
the result. It ends with an exit code that says which side failed.

- `options.py` has the commands with their options, and the text of `--help`.
- `values.py` parses arguments, `show.py` prints results, `save.py` writes the images of a result to files, and
  `person.py` asks the user at the terminal.
- `client_commands.py` has the commands that connect to a server: list, call, read, watch, prompt and complete.
- `host_commands.py` runs these commands with the servers of a configuration file.
- `authorization.py` finds the tokens for a URL. `accounts.py` has the commands login, logout and whoami.
- `serve.py` has the command `run`, which starts a server. `bridge.py` serves a server of another revision.
- `recorder.py` has `record`, `installation.py` its options for configuration files, and `replay.py` has `replay`.
- `check.py` has `check` for a recording, and `drive.py` for a server.
- `revisions.py`, `toc.py` and `limits.py` have the commands that print facts about this package. `citations.py` finds
  the places that cite the specification.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterable, Iterator


class UsageError(Exception):
    """A wrong command line. The error message says what the user should write. The program then exits with code 2."""


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """Raise a UsageError for a ValueError, whose cause is a value of the command line."""
    try:
        yield
    except ValueError as error:
        raise UsageError(str(error)) from None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of an error message: similar names, else all known names if there are at most 20, else ""."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=3)
    if near:
        return f"; did you mean {' or '.join(repr(n) for n in near)}?"
    if not 0 < len(names) <= 20:
        return ""
    return f"; there {'is' if len(names) == 1 else 'are'} {', '.join(names)}"
