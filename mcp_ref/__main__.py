"""The command line: `python3 -m mcp_ref COMMAND`.

The commands show the demo, serve a Python file, send requests to any server, and compare the revisions. This module
parses the command line, and the modules in `cli/` and `demo/` run the commands. With the option `--json`, a command
prints one JSON value to standard output, and nothing else.

Threats:
    folder-with-modules: The author of a downloaded folder runs code in the user's account with an `argparse.py`, which
        `python3 -m` finds first. The current directory leaves the search path before the imports below. Only
        `python3 -P -m mcp_ref` and the script `mcp_ref` also protect the earlier imports of Python itself.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__" and sys.path[:1] in ([""], [os.getcwd()]):
    del sys.path[0]

EXIT_OK, EXIT_USAGE, EXIT_INTERRUPTED = 0, 2, 130

try:
    import argparse
    import errno
    import importlib
    import io
    import re
    from collections.abc import Sequence
    from types import ModuleType

    from .cli import UsageError, did_you_mean
    from .cli.options import ACCOUNT_COMMANDS, PROGRAM, URL_OPTIONS, Parser, build_parsers
    from .version import __version__
except KeyboardInterrupt:  # the imports take long enough for a user to press Ctrl-C
    sys.exit(EXIT_INTERRUPTED)


def split_server(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words before `--`, and the words after it."""
    at = words.index("--") if "--" in words else len(words)
    return list(words[:at]), list(words[at + 1 :])


def split_url(words: list[str]) -> tuple[list[str], list[str]]:
    """Return the words without the URL of the server, and this URL: the last URL that is not the value of an option."""
    for at in reversed(range(1, len(words))):
        if words[at].startswith(("http://", "https://")) and words[at - 1] not in URL_OPTIONS:
            return words[:at] + words[at + 1 :], [words[at]]
    return words, []


def suggested_server(words: list[str]) -> str:
    """Return the server as a correct command line names it, given the words of a wrong one."""
    if len(words) == 1:
        words = [_import_module("transports.stdio.client").corrected_command(words[0]) or words[0]]
    return words[0] if words[0].startswith(("http://", "https://")) else f"-- {' '.join(words)}"


def likely_command(options: argparse.Namespace) -> list[str]:
    """Return the arguments from the first program on, which are probably a server's command without its two dashes."""
    arguments: list[str] = getattr(options, "arguments", [])
    program = r"python[\d.]*|node|npx|uvx?|docker|[^=]*[/\\][^=]*|[^=]*\.(py|js)"
    for at, word in enumerate(arguments):
        if re.fullmatch(program, word):
            return arguments[at:]
    return []


def missing_server(words: list[str], surplus: list[str]) -> str:
    """Return the error for a command without a server. `surplus` are the words that the parser did not understand."""
    if words[0] in ACCOUNT_COMMANDS:
        advice, server = "add its URL", ["https://mcp.example/mcp"]
    else:
        advice, server = "add its URL, or two dashes and its command", surplus or ["python3", "server.py"]
    understood = [word for word in words if word not in surplus]
    example = " ".join([*understood, suggested_server(server)])
    return f"the server is missing: {advice}, for example\n  {PROGRAM} {example}"


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options. `options.command` has the words of the server. Raise SystemExit for invalid options."""
    main_parser, commands = build_parsers()
    words, server = split_server(arguments)
    if words[:1] in (["-h"], ["--help"]):
        words = [*words[1:], "--help"]  # so that `--help COMMAND` shows the help of this command
    if words and not words[0].startswith("-"):
        if words[0] not in commands:
            main_parser.error(f"unknown command {words[0]!r}{did_you_mean(words[0], commands)}")
        return parse_command(commands[words[0]], words, server)
    misplaced = next((word for word in words if word in commands), "")
    if misplaced or server:
        main_parser.error(f"write the command first, such as {PROGRAM} {misplaced or 'list'} ...")
    options = main_parser.parse_args(words)
    if not options.version:
        main_parser.print_help()
        main_parser.exit()
    return options


def parse_command(parser: Parser, words: list[str], server: list[str]) -> argparse.Namespace:
    """Return the options of one command, whose name is the first of the words."""
    has_config = any(word.startswith(("--find", "--config")) for word in words)
    takes_url = parser.get_default("needs_server") or words[0] == "replay"
    if not server and takes_url and not has_config:
        words, server = split_url(words)
    options, surplus = parser.parse_known_intermixed_args(words[1:])
    options.name = words[0]
    is_misspelled = any(word.startswith("-") for word in surplus)
    may_lack_server = has_config or "--explain" in words  # two revisions can be explained without a server
    if options.needs_server and not (server or is_misspelled or may_lack_server):
        parser.error(missing_server(words, surplus or likely_command(options)))
    if surplus:
        parser.refuse_surplus(surplus)
    if server and not (options.needs_server or options.takes_command):
        parser.error(f"{options.name} takes no server: leave out -- and the words after it")
    options.command = server
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. `arguments` are the words after `python3 -m mcp_ref`."""
    open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # print must not fail if the terminal lacks a character
    try:
        options = parse(sys.argv[1:] if arguments is None else arguments)
        _import_module("lib.text").escape_log_records()
        status = run(options)
        sys.stdout.flush()  # Python's flush at exit would print an error if the pipe is closed
        return status
    except UsageError as error:
        _show_error(f"{PROGRAM} {options.name}: {error}")
        return EXIT_USAGE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except OSError as error:
        if not isinstance(error, BrokenPipeError) and error.errno != errno.ENOSPC:
            raise
        _discard_output(sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # a program such as `head` has closed the pipe
            return EXIT_OK
        _show_error(f"{PROGRAM}: cannot write the output: {error.strerror}")
        return EXIT_USAGE
    finally:
        try:
            sys.stderr.flush()
        except OSError:  # nobody reads it
            _discard_output(sys.stderr.fileno())


def _discard_output(descriptor: int) -> None:
    """Send the unwritten output of a stream to the null device, because Python's flush at exit would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def _show_error(message: str) -> None:
    _import_module("lib.text").show_text(message, sys.stderr)


def open_closed_streams() -> None:
    """Open the null device for each standard stream that the parent process has closed, as a shell does for `<&-`."""
    for name in ("stdin", "stdout", "stderr"):  # in this order, because a file gets the lowest free descriptor
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115 - open until the exit


def run(options: argparse.Namespace) -> int:
    match options.name:
        case None:  # `--version` without a command
            print(f"mcp_ref {__version__}")
        case "demo":
            _import_module("demo.tour").main(options.http)
        case "revisions":
            _import_module("cli.revisions").show_revisions(options.revision, options.json)
        case "toc":
            _import_module("cli.toc").show_toc(options.words, options.search, options.json)
        case "limits":
            _import_module("cli.limits").show_limits(options.json)
        case "record":
            if options.install or options.uninstall:
                return int(_import_module("cli.installation").edit_configuration(options))
            return int(_import_module("cli.recorder").record(options))
        case "replay":
            return int(_import_module("cli.replay").replay(options))
        case "bridge":
            return int(_import_module("cli.bridge").run_bridge(options))
        case "check":
            return run_check(options)
        case "run":
            return int(_import_module("cli.serve").serve(options))
        case "login" | "logout" | "whoami":
            return int(_import_module("cli.accounts").run_account_command(options))
        case _ if options.config is not None or options.find:
            return int(_import_module("cli.host_commands").run_host_command(options))
        case _:
            return int(_import_module("cli.client_commands").run_client_command(options))
    return EXIT_OK


def run_check(options: argparse.Namespace) -> int:
    """Judge a recording or a server, print a recording as a test, or list the rules."""
    if options.rules:
        return int(_import_module("cli.check").show_rules(options))
    file: str | None = options.file  # of a recording, or the URL of a server
    if file is not None and options.command:
        raise UsageError("name either a recording or URL, or two dashes and the command of a server")
    if options.as_test:
        if file is None:
            raise UsageError("--as-test needs a recording: name its file")
        return int(_import_module("cli.drive").show_as_test(options))
    is_url = file is not None and file.startswith(("http://", "https://"))
    if file is not None and not is_url:
        refuse_options(options, ("call", "header", "timeout"), "a server: its URL, or two dashes and its command")
        return int(_import_module("cli.check").check_file(options))
    refuse_options(options, ("sarif",), "a recording")
    if is_url:
        options.command = [file]
    else:
        refuse_options(options, ("header",), "the URL of a server")
    if not options.command:
        raise UsageError("name a recording, or a server: its URL, or two dashes and its command")
    return int(_import_module("cli.drive").run_drive(options))


def refuse_options(options: argparse.Namespace, names: Sequence[str], target: str) -> None:
    """Raise UsageError for an option that would have no effect, because it works only with another target."""
    for name in names:
        if getattr(options, name):
            raise UsageError(f"--{name} works only with {target}")


def _import_module(path: str) -> ModuleType:
    """Import a module of the package when a command needs it, so that `--help` is fast."""
    return importlib.import_module(f".{path}", __package__)


if __name__ == "__main__":
    sys.exit(main())
