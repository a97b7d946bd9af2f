"""The command line: `python3 -m mcp_ref COMMAND`, to watch, serve, ask and compare without writing a program.

Each command is imported when it is asked for, so that `--help` is as fast as Python starts. What a command prints for
people goes through `cli/show.py`; with `--json` it is one JSON value on standard output, and nothing else is there.

Above: nothing. Below: `cli/`, a module for each kind of command, and `demo/`.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence

OK, REFUSED, USAGE, NO_CONNECTION, INTERRUPTED = 0, 1, 2, 3, 130

PROGRAM = f"python3 -m {__package__}"

EPILOG = f"""\
SERVER is the command that starts the server, or its URL, after two dashes:

  {PROGRAM} list -- python3 server.py
  {PROGRAM} call add a=1 b=2 -- npx -y some-server --its-option
  {PROGRAM} list -- http://127.0.0.1:8000/mcp

Arguments are written NAME=VALUE, and read by the tool's input schema: a text where it takes a text, else JSON.
NAME:=JSON is JSON in any case.

exit codes: 0 done; 1 the server or the tool answered with an error; 2 the command line is wrong; 3 no connection, or
lost, or no answer in time; 130 interrupted
"""


def parsers() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """The parser of the whole, and that of each command."""
    raw = argparse.RawDescriptionHelpFormatter
    whole = argparse.ArgumentParser(
        prog=PROGRAM,
        description="The Model Context Protocol: watch it, serve it, and ask any server.",
        epilog=EPILOG,
        formatter_class=raw,
    )
    whole.add_argument("--version", action="store_true", help="print the version")
    commands = whole.add_subparsers(title="commands", metavar="COMMAND", dest="name")

    def command(name: str, help: str, *, asks: bool = False) -> argparse.ArgumentParser:
        usage = f"{PROGRAM} {name} [options] {{}}" + (" -- SERVER ..." if asks else "")
        made = commands.add_parser(name, help=help, description=f"{help[0].upper()}{help[1:]}.", formatter_class=raw)
        made.set_defaults(asks=asks, command=[])
        made.usage = usage
        if asks:
            made.epilog = EPILOG
            connection_options(made)
        return made

    def takes(made: argparse.ArgumentParser, *positionals: str) -> None:
        made.usage = (made.usage or "").format(" ".join(positionals)).replace("  ", " ")

    made = command("demo", "watch a client and a server use every feature, message by message")
    made.add_argument("--http", action="store_true", help="over Streamable HTTP, with what that adds")
    takes(made)

    made = command("run", "serve a Server object over standard input and output, or over HTTP")
    made.add_argument("target", metavar="FILE[:NAME]", help="a Python file, or a module's dotted name")
    made.add_argument("--revision", metavar="R", help="speak this revision alone")
    made.add_argument("--trace", action="store_true", help="show every message, and HTTP head, on standard error")
    web_options(made)
    takes(made, "FILE[:NAME]")

    made = command("list", "list what a server offers", asks=True)
    takes(made)

    made = command("call", "call a tool", asks=True)
    made.add_argument("tool", metavar="TOOL")
    made.add_argument("arguments", metavar="NAME=VALUE", nargs="*", default=[])
    takes(made, "TOOL [NAME=VALUE ...]")

    made = command("read", "read a resource; to a file or pipe its bytes are written as they are", asks=True)
    made.add_argument("uri", metavar="URI")
    takes(made, "URI")

    made = command("watch", "watch a resource: print its URI, or that of what is below it, when it changes", asks=True)
    made.add_argument("uri", metavar="URI")
    made.add_argument("--count", metavar="N", type=number, help="end after so many changes (Ctrl-C ends it anyway)")
    takes(made, "URI")

    made = command("prompt", "get a prompt's messages", asks=True)
    made.add_argument("prompt", metavar="NAME")
    made.add_argument("arguments", metavar="NAME=VALUE", nargs="*", default=[])
    takes(made, "NAME [NAME=VALUE ...]")

    made = command("complete", "suggest values for an argument of a prompt or resource template", asks=True)
    made.add_argument("ref", metavar="PROMPT|TEMPLATE", help="a prompt's name, or a template such as users://{id}")
    made.add_argument("argument", metavar="ARGUMENT")
    made.add_argument("value", metavar="VALUE", nargs="?", default="", help="what is typed so far")
    made.add_argument("arguments", metavar="NAME=VALUE", nargs="*", default=[],
                      help="the other arguments, where they are known")  # fmt: skip
    takes(made, "PROMPT|TEMPLATE ARGUMENT [VALUE [NAME=VALUE ...]]")

    made = command("revisions", "compare the revisions of the protocol, or tell what one changed")
    made.add_argument("revision", metavar="REVISION", nargs="?")
    made.add_argument("--json", action="store_true", help="print JSON, for programs")
    takes(made, "[REVISION]")
    return whole, commands.choices


def web_options(parser: argparse.ArgumentParser) -> None:
    """How to serve over HTTP."""
    group = parser.add_argument_group("over HTTP")
    group.add_argument("--http", action="store_true", help="serve over HTTP: Streamable HTTP, and HTTP+SSE beside it")
    group.add_argument("--host", metavar="H", help="the address to listen on (127.0.0.1)")
    group.add_argument("--port", metavar="P", type=int, help="the port; 0 takes any that is free (8000)")
    group.add_argument("--path", metavar="/P", help="the path of the endpoint (/mcp)")
    group.add_argument("--json-responses", action="store_true", help="answer by JSON alone, without streams")
    group.add_argument("--allow-host", metavar="NAME", action="append",
                       help="a name that reaches the server; * for any (those of this machine)")  # fmt: skip
    group.add_argument("--allow-origin", metavar="URL", action="append",
                       help="an origin whose web pages may use it; * for any (this machine's)")  # fmt: skip
    group.add_argument("--store", metavar="FILE", help="keep sessions and events in this SQLite file, over a restart")


def seconds(word: str) -> float:
    """A time limit. Zero, less and `nan` are none: every request would be over before it is sent."""
    try:
        value = float(word)
    except ValueError:
        value = 0.0
    if not value > 0:
        raise argparse.ArgumentTypeError(f"a number of seconds above 0, not {word!r}")
    return value


def number(word: str) -> int:
    """How many, at least one."""
    if not word.isdecimal() or int(word) < 1:
        raise argparse.ArgumentTypeError(f"a number, 1 or more, not {word!r}")
    return int(word)


def connection_options(parser: argparse.ArgumentParser) -> None:
    """What can be said about any connection to a server."""
    group = parser.add_argument_group("the connection")
    group.add_argument("--revision", metavar="R", help="speak this revision alone")
    group.add_argument("--timeout", metavar="S", type=seconds,
                       help="seconds for each request (60; 600 for a call, if there is a person to ask)")  # fmt: skip
    group.add_argument("--env", metavar="NAME[=VALUE]", action="append", default=[],
                       help="a variable for the server, which inherits only a few such as PATH")  # fmt: skip
    group.add_argument("--header", metavar="'NAME: VALUE'", action="append", default=[],
                       help="a header for every HTTP request, such as 'Authorization: Bearer ...'")  # fmt: skip
    group.add_argument("--root", metavar="PATH", action="append", help="a directory that the server may know of")
    group.add_argument("--log", metavar="LEVEL", help="ask for log messages from this level on")
    group.add_argument("--stderr", action="store_true", help="show the server's standard error")
    group.add_argument("--trace", action="store_true", help="show every message, and HTTP head, on standard error")
    group.add_argument("--json", action="store_true", help="print JSON, for programs")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options, with what follows `--` as `command`. Raises SystemExit(2) for what cannot be understood."""
    whole, commands = parsers()
    words = list(arguments)
    server = words[words.index("--") + 1 :] if "--" in words else []
    words = words[: words.index("--")] if "--" in words else words
    if words and not words[0].startswith("-"):
        if words[0] not in commands:
            from .cli.show import did_you_mean

            whole.error(f"there is no command {words[0]!r}{did_you_mean(words[0], commands)}")
        parser = commands[words[0]]
        options, surplus = parser.parse_known_intermixed_args(words[1:])
        options.name = words[0]
        misspelled = any(word.startswith("-") for word in surplus)
        if options.asks and not server and not misspelled:
            asked = [word for word in words if word not in surplus]
            parser.error("no server to ask: end with two dashes and the command that starts it, or its URL, as in\n"
                         f"  {PROGRAM} {' '.join(asked)} -- {' '.join(surplus) or 'python3 server.py'}")  # fmt: skip
        if surplus:
            parser.error(f"unrecognized arguments: {' '.join(surplus)}")
        if server and not options.asks:
            parser.error(f"{options.name} takes no server command, so what comes after -- is not used")
        options.command = server
        return options
    options = whole.parse_args(words)
    if not options.version:
        whole.print_help()
        raise SystemExit(OK if not server and not words else USAGE)
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit code. arguments: as after `python3 -m mcp_ref`; by default the process's own."""
    from .cli import UsageError

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # what the terminal cannot show is no reason to fail
    options = parse(sys.argv[1:] if arguments is None else arguments)
    try:
        return run(options)
    except UsageError as error:
        print(f"{PROGRAM} {options.name}: {error}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Who read our output, `head` say, has enough. Nothing must be flushed into the pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK


def run(options: argparse.Namespace) -> int:
    """Run the command that was chosen."""
    if options.name is None:
        from . import __version__

        print(f"mcp_ref {__version__}")
        return OK
    if options.name == "demo":
        import asyncio

        from .demo.tour import tour

        asyncio.run(tour(sys.stdout, options.http))
        return OK
    if options.name == "revisions":
        from .cli.changes import show_revisions

        show_revisions(options.revision, options.json)
        return OK
    if options.name == "run":
        from .cli.serve import serve

        return serve(options)
    from .cli.ask import ask

    return ask(options)


if __name__ == "__main__":
    sys.exit(main())
