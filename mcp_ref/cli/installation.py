"""`record --install CONFIG SERVER` puts the recorder into a host's configuration file, and `--uninstall` takes it out.

With it, the host starts `record FILE -- COMMAND` instead of the server's command. The command shows which lines of
the file would change, and writes it only if the user agrees. `recorder/installation.py` edits the file.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import sys

from ..recorder.installation import InstallationError, plan_installation, plan_removal
from . import EXIT_ERROR, UsageError
from .options import PROGRAM
from .show import note, out


def edit_configuration(options: argparse.Namespace) -> int:
    """Show the difference, ask the user, and write the file. Return 1 if the user declines."""
    recording = ""
    try:
        if options.install:
            path, server = options.install
            recording = os.path.abspath(options.file or default_recording(path, server))
            plan = plan_installation(path, server, recording)
        else:
            path, server = options.uninstall
            plan = plan_removal(path, server)
    except InstallationError as error:
        raise UsageError(str(error)) from None
    out(plan.difference())
    if not options.yes and not user_agrees():
        return EXIT_ERROR
    try:
        plan.write()
    except (OSError, InstallationError) as error:
        raise UsageError(f"nothing is changed: {error}") from None
    note(f"{plan.path} is written; restart the host")
    if recording:
        note(f"after you have used the server, judge the conversation: {PROGRAM} check {shlex.quote(recording)}")
    return 0


def default_recording(config_path: str, server: str) -> str:
    """Return the path of a recording beside the configuration file, named for the server."""
    # the name of a server can contain slashes, as in `github.com/owner/server` or `../server`
    name = re.sub(r"[^\w.@-]|^[.]", "_", server)
    return os.path.join(os.path.dirname(config_path), f"{name}.jsonl")


def user_agrees() -> bool:
    """Ask the user whether to write the file. Without a terminal, raise UsageError."""
    if not sys.stdin.isatty():
        raise UsageError("nothing is changed: to write this, repeat the command with --yes")
    reply = ""
    with contextlib.suppress(EOFError):  # Ctrl-D means no
        reply = input("Write this? [y/N] ")
    return reply.strip().lower() in ("y", "yes")
