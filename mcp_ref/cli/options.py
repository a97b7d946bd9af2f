"""The commands of the command line with their options, as parsers of `argparse`.

`build_parsers` returns one parser for each command, so that `COMMAND --help` shows only the options of this command.
The parsers never see the words that name the server, such as `-- python3 server.py`, because `__main__.py` has split
them off before.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import sys
from collections.abc import Callable
from typing import NoReturn

PACKAGE = __package__.rpartition(".")[0]

PROGRAM = f"python3 -m {PACKAGE}"

EPILOG = f"""\
Name a server by its URL, or by the command that starts it. Write the command after two dashes:

  {PROGRAM} list http://127.0.0.1:8000/mcp
  {PROGRAM} list -- python3 server.py
  {PROGRAM} call add a=1 b=2 -- npx -y some-server --its-option

--config FILE uses the servers of a configuration file of Claude, Cursor, VS Code, Codex or another host. Write the name
of the server and a dot before the name of a tool, resource or prompt, unless the file has only one server:

  {PROGRAM} list --config mcp.json
  {PROGRAM} call weather.forecast city=Ghent --config mcp.json

Write an argument as NAME=VALUE. VALUE is a string if the tool's input schema requires a string; otherwise it is JSON.
In NAME:=JSON, the value is always JSON.

In a folder that you do not trust, use python3 -P -m {PACKAGE}: without -P, Python can import files of this folder.
"""

ACCOUNT_COMMANDS = "login", "logout", "whoami"

URL_OPTIONS = "--issuer", "--client-metadata-url", "--resource", "--jwks", "--allow-origin"
"""The options whose value is a URL, which `__main__.py` must not take for the URL of the server."""

ACCOUNT_EPILOG = f"""\
URL is the address of an MCP server. After `login`, the other commands use the tokens:

  {PROGRAM} login https://mcp.example/mcp
  {PROGRAM} list https://mcp.example/mcp
"""

EXIT_CODES = """
exit codes: 0 success; 1 the server or the tool returned an error; 2 the command line is wrong; 3 the connection failed
or was lost, a request timed out, or no user approved the server; 4 a user must sign in; 130 the user pressed Ctrl-C
"""


class Parser(argparse.ArgumentParser):
    """A parser that escapes hidden characters in its errors, which quote words that another program may have chosen."""

    def error(self, message: str) -> NoReturn:
        text = importlib.import_module(f"{PACKAGE}.lib.text")  # imported here, so that --help starts fast
        super().error(text.escape_hidden(message) if sys.stderr.isatty() else message)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        sys.stdout.flush()  # the help; Python's flush at exit would print an error if the pipe is closed
        super().exit(status, message)

    def refuse_surplus(self, surplus: list[str]) -> NoReturn:
        """End the program with an error about words that the parser did not understand.

        If one of them looks like a misspelled option, suggest the most similar option.
        """
        hint = ""
        misspelled = [word.partition("=")[0].strip("-") for word in surplus if word.startswith("-")]
        if misspelled:
            # compare the names without their dashes, which would make all options look similar
            options = {option.strip("-"): option for option in self._option_string_actions}
            for name in difflib.get_close_matches(misspelled[0], options, n=1):
                hint = f"; did you mean {options[name]}?"
        self.error(f"unrecognized arguments: {' '.join(surplus)}{hint}")


def build_parsers() -> tuple[Parser, dict[str, Parser]]:
    """Return the parser of the whole command line, and a dict: command name -> parser of that command."""
    keep_line_breaks = argparse.RawDescriptionHelpFormatter
    main_parser = Parser(
        prog=PROGRAM,
        description="Watch the Model Context Protocol (MCP), run a server, and use any server. Begin with: demo",
        epilog=EPILOG + EXIT_CODES,
        formatter_class=keep_line_breaks,
    )
    main_parser.add_argument("--version", action="store_true", help="print the version")
    commands = main_parser.add_subparsers(title="commands", metavar="COMMAND", dest="name")

    def command(name: str, positionals: str, help: str, *, needs_server: bool = False) -> Parser:
        description = f"{help[0].upper()}{help[1:]}."
        parser = commands.add_parser(name, help=help, description=description, formatter_class=keep_line_breaks)
        # `__main__.py` reads these. `needs_server`: the user must give a URL, a command after `--`, or --config.
        # `takes_command`: the user may give a command after `--`. `command`: the words of that command.
        parser.set_defaults(needs_server=needs_server, takes_command=False, command=[])
        usage = [PROGRAM, name, "[options]", positionals]
        if name in ACCOUNT_COMMANDS:
            usage.append("URL")
            parser.epilog = ACCOUNT_EPILOG + EXIT_CODES
        elif needs_server:
            usage.append("(URL | -- COMMAND ... | --config FILE)")
            parser.epilog = EPILOG + EXIT_CODES
        parser.usage = " ".join(filter(None, usage))
        if needs_server and name not in ("logout", "whoami"):
            add_connection_options(parser, name)
        return parser

    demo = command("demo", "", "watch a client and a server use every feature, message by message")
    demo.add_argument("--http", action="store_true", help="use Streamable HTTP, and show the HTTP heads")
    add_server_commands(command)
    add_client_commands(command)
    add_account_commands(command)
    add_recording_commands(command)
    add_commands_about_the_package(command)
    return main_parser, commands.choices


AddCommand = Callable[..., Parser]
"""The function `command` above, which adds a command by its name, its positional arguments, and its help."""


def add_server_commands(command: AddCommand) -> None:
    parser = command("run", "FILE[:NAME]", "serve a Server object over standard input and output, or over HTTP")
    parser.add_argument("target", metavar="FILE[:NAME]", help="a Python file, or a module's dotted name")
    parser.add_argument("--revision", metavar="R", help="speak only this revision, such as 2025-11-25")
    parser.add_argument("--trace", action="store_true", help="show every message, and HTTP head, on standard error")
    add_http_options(parser)

    parser = command("bridge", "", "serve a server of any revision to clients of any revision", needs_server=True)
    parser.add_argument("--back-revision", metavar="R", help="speak only this revision with the server")
    parser.add_argument("--explain", action="store_true",
                        help="only print what the bridge keeps, converts and loses between two revisions")  # fmt: skip
    parser.add_argument("--replay", metavar="TOOL", action="append", default=[],
                        help="a tool to run again from its start when the user has replied, instead of holding its "
                             "call open until then")  # fmt: skip
    parser.add_argument("--no-hold", action="store_true",
                        help="hold no call open until the user has replied, but refuse a legacy server's requests for "
                             "input from the user of a modern client")  # fmt: skip
    parser.add_argument("--clients", metavar="N", type=positive_integer, default=4,
                        help="maximum number of connections to a legacy server for all modern clients of one user "
                             "(default: 4)")  # fmt: skip
    parser.add_argument("--prefix", action="store_true",
                        help="put the server's name before the names of tools even if there is only one server; the "
                             "bridge then offers no tasks, because the results of tasks have names without the "
                             "prefix")  # fmt: skip
    eras = "A legacy server or client speaks a revision up to 2025-11-25, a modern one a later revision."
    parser.epilog = f"{eras}\n\n{parser.epilog}"
    add_http_options(parser)


def add_client_commands(command: AddCommand) -> None:
    parser = command("list", "", "list the tools, resources and prompts of a server", needs_server=True)
    parser.set_defaults(target="")
    parser.add_argument("--find", action="store_true",
                        help="only list the configuration files of known hosts, without starting a server")  # fmt: skip

    parser = command("call", "TOOL [NAME=VALUE ...]", "call a tool", needs_server=True)
    parser.add_argument("target", metavar="TOOL", help="the name of a tool, as the command list prints it")
    parser.add_argument("arguments", metavar="NAME=VALUE", nargs="*", default=[],
                        help="an argument of the tool; NAME:=JSON always reads the value as JSON")  # fmt: skip
    add_save_option(parser)

    parser = command("read", "URI", "print a resource, or write its exact bytes to a file or pipe",
                     needs_server=True)  # fmt: skip
    parser.add_argument("target", metavar="URI", help="the URI of a resource, as the command list prints it")
    add_save_option(parser)

    parser = command("watch", "URI", "print the URI each time a resource, or a resource below it, changes",
                     needs_server=True)  # fmt: skip
    parser.add_argument("target", metavar="URI", help="the URI of a resource, as the command list prints it")
    parser.add_argument("--count", metavar="N", type=positive_integer, help="stop after N changes (default: at Ctrl-C)")

    parser = command("prompt", "NAME [NAME=VALUE ...]", "print the messages of a prompt", needs_server=True)
    parser.add_argument("target", metavar="NAME", help="the name of a prompt, as the command list prints it")
    parser.add_argument("arguments", metavar="NAME=VALUE", nargs="*", default=[], help="an argument of the prompt")

    parser = command("complete", "PROMPT|TEMPLATE ARGUMENT[=VALUE] [NAME=VALUE ...]",
                     "suggest values for an argument of a prompt or resource template", needs_server=True)  # fmt: skip
    parser.add_argument("target", metavar="PROMPT|TEMPLATE", help="a prompt's name, or a template such as users://{id}")
    parser.add_argument("argument", metavar="ARGUMENT[=VALUE]", help="the argument, and the beginning of its value")
    parser.add_argument("arguments", metavar="NAME=VALUE", nargs="*", default=[],
                        help="another argument, whose value is already known")  # fmt: skip


def add_account_commands(command: AddCommand) -> None:
    parser = command("login", "", "sign in with a browser, and keep the tokens for other commands", needs_server=True)
    parser.add_argument(
        "--scope", metavar="S", action="append", default=[], help="a further scope to ask for, such as notes:write"
    )
    parser.add_argument("--client-id", metavar="ID", help="a client id that the authorization server has given you")
    parser.add_argument("--issuer", metavar="URL", help="the only authorization server to use")
    parser.add_argument("--client-metadata-url", metavar="URL",
                        help="an https URL that has this client's metadata, and is its client id")  # fmt: skip
    parser.add_argument("--client-secret-env", metavar="NAME",
                        help="sign in as a program instead of a user; this environment variable has the secret of "
                             "--client-id")  # fmt: skip

    command("logout", "", "revoke and forget the tokens for a server", needs_server=True)
    command("whoami", "", "print who issued your tokens, for which scopes, and until when", needs_server=True)


def add_commands_about_the_package(command: AddCommand) -> None:
    revisions = command("revisions", "[REVISION]",
                        "compare the revisions of the protocol, or list the changes of one revision")  # fmt: skip
    revisions.add_argument("revision", metavar="REVISION", nargs="?", help="a revision, such as 2025-11-25")

    toc = command("toc", "[PAGE[#HEADING]] [REVISION]",
                  "list the pages of the specification with their modules, or the lines that cite a page")  # fmt: skip
    toc.add_argument("words", metavar="PAGE", nargs="*", help="a page such as server/tools, a revision, or both")
    toc.add_argument("--search", metavar="WORD", help="list the citations and cited sentences that contain this word")

    limits = command("limits", "", "list the limits of the package with their defaults")
    for parser in (revisions, toc, limits):
        parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def add_recording_commands(command: AddCommand) -> None:
    parser = command("record", "FILE (-- COMMAND ... | --http URL)",
                     "write down what a host and a server say to each other, without either noticing it")  # fmt: skip
    parser.set_defaults(takes_command=True)
    parser.epilog = f"To judge the conversation: {PROGRAM} check FILE"
    parser.add_argument("file", metavar="FILE", nargs="?",
                        help="the new recording, such as talk.jsonl; if it exists, talk-2.jsonl and so on")  # fmt: skip
    parser.add_argument("--http", metavar="URL", help="record in front of this server, as a reverse proxy")
    add_address_options(parser)
    parser.add_argument("--with-secrets", action="store_true", help="write passwords and tokens down, too")
    parser.add_argument("--max-mb", metavar="N", type=positive_integer, default=256,
                        help="from this size in MB on, only count the events (default: 256)")  # fmt: skip
    parser.add_argument("--install", metavar=("CONFIG", "SERVER"), nargs=2,
                        help="put the recorder in front of a server in a host's configuration file")  # fmt: skip
    parser.add_argument("--uninstall", metavar=("CONFIG", "SERVER"), nargs=2, help="take the recorder out again")
    parser.add_argument("--yes", action="store_true", help="write the configuration file without asking you")

    parser = command("replay", "FILE [--revision R] [--http] | --client FILE (URL | -- COMMAND ...)",
                     "play back the server of a recording, or send its requests to a server and print what "
                     "differs")  # fmt: skip
    parser.set_defaults(takes_command=True)
    parser.add_argument("file", metavar="FILE", help="a recording")
    parser.add_argument("--client", action="store_true", help="send the recorded requests to a server")
    parser.add_argument("--http", action="store_true", help="serve over Streamable HTTP instead of standard input")
    add_address_options(parser)
    parser.add_argument("--speed", metavar="N", type=positive_number, default=0.0,
                        help="keep the recorded pauses, N times as fast (default: no pauses)")  # fmt: skip
    parser.add_argument("--revision", metavar="R", help="speak this revision, whatever the recorded server spoke")

    parser = command("check", "(FILE | -- COMMAND ... | URL | --as-test FILE | --rules)",
                     "check a recording or a live server against the specification, calling only read-only "
                     "tools")  # fmt: skip
    parser.set_defaults(takes_command=True)
    parser.epilog = ("An error breaks a MUST of the specification, a warning a SHOULD. Event 1 is line 2 of the "
                     "file, because line 1 describes the recording.\n\n"
                     "exit codes: 0 no error; 1 an error; 2 the command line is wrong; 3 no server was "
                     "reached")  # fmt: skip
    parser.add_argument("file", metavar="FILE|URL", nargs="?", help="a recording, or the URL of a server")
    text = "list the rules, and the specification's sentences that no check can observe"
    parser.add_argument("--rules", action="store_true", help=text)
    parser.add_argument("--as-test", action="store_true", help="print a recording as a pytest module")
    parser.add_argument("--call", metavar="NAME=JSON", action="append", default=[],
                        help="a tool to call once with its arguments (default: tools that change nothing)")  # fmt: skip
    parser.add_argument("--advice", action="store_true", help="add advice that goes beyond every MUST and SHOULD")
    parser.add_argument("--revision", metavar="R", help="use only this revision")
    parser.add_argument("--timeout", metavar="S", type=positive_seconds,
                        help="seconds to wait for each response (default: 10)")  # fmt: skip
    parser.add_argument("--header", metavar="'NAME: VALUE'", action="append", default=[],
                        help="a header for every HTTP request")  # fmt: skip
    parser.add_argument("--junit", metavar="FILE", help="write the results to this file, for CI servers")
    parser.add_argument(
        "--sarif", metavar="FILE", help="write the findings in a recording to this file, as SARIF 2.1.0"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def add_address_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", metavar="H", help="listen on this address (default: 127.0.0.1)")
    parser.add_argument("--port", metavar="P", type=port_number, help="listen on this port (default: a free port)")


def add_save_option(parser: argparse.ArgumentParser) -> None:
    text = "write images, audio and blobs to new files in this directory, and print their names"
    parser.add_argument("--save", metavar="DIR", help=text)


def add_http_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("over HTTP")
    group.add_argument("--http", action="store_true", help="serve Streamable HTTP and HTTP+SSE")
    group.add_argument("--host", metavar="H", help="the address to listen on (default: 127.0.0.1)")
    group.add_argument("--port", metavar="P", type=port_number, help="the port; 0 chooses a free port (default: 8000)")
    group.add_argument("--path", metavar="/P", help="the path of the endpoint (default: /mcp)")
    group.add_argument("--json-responses", action="store_true", help="respond with JSON only, without streams")
    group.add_argument("--allow-host", metavar="NAME", action="append",
                       help="a Host header to accept; * accepts any (default: the names of this machine)")  # fmt: skip
    group.add_argument("--allow-origin", metavar="URL", action="append",
                       help="a web origin to accept; * accepts any (default: origins on this machine)")  # fmt: skip
    group.add_argument(
        "--trust-proxy",
        metavar="NETWORK",
        action="append",
        help="the address or network, such as 10.0.0.0/8, of a proxy whose X-Forwarded-For or Forwarded header names "
        "the client",
    )
    group.add_argument("--health", action="store_true", help="serve /livez, /readyz and /metrics too")
    group.add_argument("--drain", metavar="SECONDS", type=drain_seconds,
                       help="time for requests in flight to finish after SIGTERM (default: 10; 0: none)")  # fmt: skip
    group.add_argument("--issuer", metavar="URL", action="append",
                       help="require access tokens of this authorization server; needs --resource")  # fmt: skip
    group.add_argument("--resource", metavar="URL", help="the URL of this server, for which tokens must be issued")
    group.add_argument("--require-scope", metavar="S", action="append", help="a scope that every request needs")
    group.add_argument("--jwks", metavar="URL",
                       help="the URL of the keys that sign the tokens (default: the one in the issuer's "
                            "metadata)")  # fmt: skip
    group.add_argument("--store", metavar="FILE", help="keep sessions and events in this SQLite file across restarts")


def positive_number(text: str, expected: str = "a number above 0") -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0  # not a number, so refuse it as well
    if not value > 0:  # unlike `value <= 0`, this also refuses `nan`
        raise argparse.ArgumentTypeError(f"expected {expected}, got {text!r}")
    return value


def positive_seconds(text: str) -> float:
    """Return a time limit in seconds. It is above 0, because with 0 no request could succeed."""
    return positive_number(text, "a number of seconds above 0")


def drain_seconds(text: str) -> float:
    return 0.0 if text in ("0", "0.0") else positive_number(text, "0 or a number of seconds above 0")


def positive_integer(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return int(text)


def port_number(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"expected a port from 0 to 65535, got {text!r}")
    return int(text)


def add_connection_options(parser: argparse.ArgumentParser, command: str) -> None:
    """Add the options that say how to connect to a server. `login` and `bridge` lack some of them."""
    group = parser.add_argument_group("the connection")
    clients = " with the clients" if command == "bridge" else ""
    group.add_argument("--revision", metavar="R", help=f"speak only this revision{clients}, such as 2025-11-25")
    group.add_argument("--header", metavar="'NAME: VALUE'", action="append", default=[],
                       help="a header for every HTTP request, such as 'Authorization: Bearer ...'")  # fmt: skip
    group.add_argument("--trace", action="store_true", help="show every message, and HTTP head, on standard error")
    if command != "bridge":
        longer = "; 600 at a terminal, where the tool can ask you" if command == "call" else ""
        group.add_argument("--timeout", metavar="S", type=positive_seconds,
                           help=f"seconds to wait for each response (default: 60{longer})")  # fmt: skip
    if command == "login":
        group.add_argument("--no-browser", action="store_true", help="print the URL of the sign-in, and do not open it")
        # `make_client` reads these options, which the other commands have
        parser.set_defaults(env=[], root=None, log=None, stderr=False, token_env=None, token_file=None)
        return
    group.add_argument("--env", metavar="NAME[=VALUE]", action="append", default=[],
                       help="an environment variable for the server, which inherits only a few of yours")  # fmt: skip
    group.add_argument("--no-browser", action="store_true",
                       help="if a user must sign in, open no browser, and end with exit code 4")  # fmt: skip
    tokens = group.add_mutually_exclusive_group()
    tokens.add_argument("--token-env", metavar="NAME", help="send the access token in this environment variable")
    tokens.add_argument("--token-file", metavar="PATH", help="send the access token in this file, or - for stdin")
    group.add_argument("--stderr", action="store_true", help="show the server's standard error")
    if command == "bridge":
        parser.set_defaults(root=None)  # the roots, log messages and timeouts of a bridge are those of its clients
    else:
        group.add_argument("--root", metavar="PATH", action="append", help="offer this directory to the server as root")
        group.add_argument("--log", metavar="LEVEL", help="receive log messages of this level (such as info) and above")
        group.add_argument("--json", action="store_true", help="print JSON, for programs")
    servers = parser.add_argument_group("several servers")
    servers.add_argument("--config", metavar="FILE", help="use the servers of this configuration file")
    servers.add_argument("--yes", action="store_true", help="start the servers of the file without asking you")
    parser.set_defaults(find=False)  # `__main__.py` reads --find, which only `list` has
