"""The commands of `python3 -m mcp_ref`. A command's module is imported only when the command runs, so `--help` is fast.

A command prints its result to standard output and everything else to standard error, so that other programs can read
the result. Its exit code says which side failed.

- `options.py` has the commands with their options, and the text of `--help`.
- `values.py` parses arguments, `show.py` prints results, `save.py` writes the images, audio and blobs of a result to
  files, and `person.py` asks the user at the terminal.
- `client_commands.py` has the commands that connect to a server: list, call, read, watch, prompt and complete.
- `host_commands.py` runs these commands with the servers of a configuration file.
- `authorization.py` finds the tokens for a URL. `accounts.py` has the commands login, logout and whoami.
- `serve.py` has the command `run`, which starts a server. `bridge.py` has `bridge`, through which clients of one
  revision use a server of another.
- `recorder.py` has `record`, `installation.py` its options for configuration files, and `replay.py` has `replay`.
- `check.py` has `check FILE`, which judges a recording, and `drive.py` has `check URL`, which judges a live server.
- `revisions.py`, `toc.py` and `limits.py` have the commands that print facts about this package. `citations.py` finds
  the places that cite the specification.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterable, Iterator
from typing import Final

EXIT_ERROR: Final = 1
"""Exit code if the server or the tool returned an error."""
EXIT_NOT_CONNECTED: Final = 3
"""Exit code if the connection failed or was lost, a request timed out, or no user allowed the server."""
EXIT_SIGN_IN: Final = 4
"""Exit code if a user must sign in first."""


class UsageError(Exception):
    """A wrong command line. Its message tells the user what to write instead, and the program exits with code 2."""


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """Turn a ValueError into a UsageError, where only a value of the command line can be its cause."""
    try:
        yield
    except ValueError as error:
        raise UsageError(str(error)) from None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of an error about an unknown name: similar names, or else all known names unless they are many."""
    names = list(known)
    similar = difflib.get_close_matches(name, names, n=3)
    if similar:
        return f"; did you mean {' or '.join(map(repr, similar))}?"
    if not names or len(names) > MAX_LISTED_NAMES:
        return ""
    return f"; the known names are {', '.join(names)}" if len(names) > 1 else f"; the only known name is {names[0]}"


MAX_LISTED_NAMES = 20
"""Maximum number of known names that an error lists."""
