"""`record --install` and `--uninstall` put the recorder into a host's configuration file, and take it out."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import sys

from ..recorder.installation import InstallationError, plan_installation, plan_removal
from . import UsageError
from .options import PROGRAM
from .show import note, out


def edit_configuration(options: argparse.Namespace) -> int:
    """Show the difference, ask the user, and write the file. Return 1 if the user declines."""
    path, server = options.install or options.uninstall
    try:
        if options.install:
            # the name of a server can contain slashes, as in `github.com/owner/server` or `../server`
            name = re.sub(r"[^\w.@-]|^[.]", "_", server)
            file = os.path.abspath(options.file or os.path.join(os.path.dirname(path), f"{name}.jsonl"))
            plan = plan_installation(path, server, file)
        else:
            plan = plan_removal(path, server)
    except InstallationError as error:
        raise UsageError(str(error)) from None
    out(plan.difference())
    if not options.yes:
        if not sys.stdin.isatty():
            raise UsageError("nothing is changed: to write this, repeat the command with --yes")
        answer = ""
        with contextlib.suppress(EOFError):
            answer = input("Write this? [y/N] ")
        if answer.strip().lower() not in ("y", "yes"):
            return 1
    try:
        plan.write()
    except (OSError, InstallationError) as error:
        raise UsageError(f"nothing is changed: {error}") from None
    note(f"{plan.path} is written; restart the host")
    if options.install:
        note(f"after you have used the server, judge the conversation: {PROGRAM} check {shlex.quote(file)}")
    return 0
