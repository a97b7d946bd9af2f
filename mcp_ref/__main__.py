"""The command line: serve a file, or talk to any server. `python3 -m mcp_ref --help`

    python3 -m mcp_ref demo                                            every feature, explained while it happens
    python3 -m mcp_ref run examples/everything.py                      serve a file over stdio
    python3 -m mcp_ref list -- python3 server.py                       what a server offers
    python3 -m mcp_ref call add a=1 b=2 -- python3 server.py           call a tool
    python3 -m mcp_ref revisions 2025-06-18                            what a revision has, and what it changed

Exit codes: 0 it worked; 1 the server, or its tool, answered with an error; 2 the command was wrong; 3 there is no
server to talk to, or no longer.

Above: nothing. Below: everything; only what a command needs is imported.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from .jsonrpc.messages import JSON, Object
    from .revisions import Life, Revision
    from .runtime.client import Client
    from .server.tools import Tool

WORKED, REFUSED, WRONG, NO_SERVER = 0, 1, 2, 3
"""Exit codes."""

Command: TypeAlias = "Callable[[Client, argparse.Namespace], Awaitable[int]]"


class WrongCommand(Exception):
    """What the user typed cannot be done; the text says what can."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command; gives the exit code."""
    typed = sys.argv[1:] if arguments is None else arguments
    own, server = _split(typed)
    options = _parser().parse_args(own)
    options.server = server
    try:
        code: int = options.do(options)
        sys.stdout.flush()
        return code
    except WrongCommand as error:
        print(f"mcp_ref: {error}", file=sys.stderr)
        return WRONG
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stderr.close()
        return WORKED
    except KeyboardInterrupt:
        return 130


def _split(typed: list[str]) -> tuple[list[str], list[str]]:
    """Our own arguments, and behind `--` the server's command."""
    at = typed.index("--") if "--" in typed else len(typed)
    return typed[:at], typed[at + 1 :]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mcp_ref",
        description="The Model Context Protocol: serve a file, or talk to any server.",
        epilog=(
            "Commands that talk to a server take the command that starts it behind --, as in: "
            "mcp_ref list -- python3 server.py. Exit codes: 0 it worked, 1 the server or its tool answered with an "
            "error, 2 the command was wrong, 3 there is no server to talk to."
        ),
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    demo = commands.add_parser("demo", help="watch a client and a server talk, through every feature")
    demo.set_defaults(do=_demo)

    run = commands.add_parser("run", help="serve a file over stdio")
    run.add_argument("file", metavar="FILE[:NAME]", help="a Python file, and the server's name in it, if not `server`")
    run.add_argument("--trace", action="store_true", help="show every frame on standard error")
    run.set_defaults(do=_run)

    revisions = commands.add_parser("revisions", help="what each revision of the protocol has, and what it changed")
    revisions.add_argument("revision", nargs="?", help="such as 2025-06-18; without it, all")
    revisions.add_argument("--json", action="store_true", help="print JSON")
    revisions.set_defaults(do=_revisions)

    asking = argparse.ArgumentParser(add_help=False)
    asking.add_argument("--json", action="store_true", help="print JSON, as it came")
    asking.add_argument("--trace", action="store_true", help="show every frame on standard error")
    asking.add_argument("--revision", help="speak this revision only, such as 2025-03-26")
    asking.add_argument("--timeout", type=float, default=60.0, help="seconds that an answer may take (60)")

    def ask(name: str, help: str, command: Command) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=help, parents=[asking], epilog="The server's command follows --.")
        added.set_defaults(do=lambda options: _talk(options, command))
        return added

    ask("list", "what a server offers", _list)
    call = ask("call", "call a tool", _call)
    call.add_argument("tool", metavar="TOOL")
    call.add_argument("arguments", nargs="*", metavar="key=value", help="key=value, or key:=JSON")
    read = ask("read", "read a resource", _read)
    read.add_argument("uri", metavar="URI")
    prompt = ask("prompt", "get a prompt", _prompt)
    prompt.add_argument("name", metavar="NAME")
    prompt.add_argument("arguments", nargs="*", metavar="key=value")
    complete = ask("complete", "suggest values for an argument", _complete)
    complete.add_argument("target", metavar="NAME|TEMPLATE", help="a prompt's name, or a resource template's URI")
    complete.add_argument("argument", metavar="key=value", help="the argument, and what is typed of it so far")
    complete.add_argument("others", nargs="*", metavar="key=value", help="what other arguments are already")
    return parser


# ------------------------------------------------------------------------------------------------ serving


def _demo(options: argparse.Namespace) -> int:
    from .demo import main as demo

    return demo()


def _run(options: argparse.Namespace) -> int:
    """Serve the server that a file defines."""
    from .basic.transports.trace import tracer
    from .runtime.server import Server

    path, _, name = options.file.partition(":") if ".py:" in options.file else (options.file, "", "")
    found = _load(path)
    servers = {key: value for key, value in found.items() if isinstance(value, Server)}
    server = servers.get(name or "server") or (next(iter(servers.values())) if len(servers) == 1 and not name else None)
    if server is None:
        known = f"it has {', '.join(servers)}" if servers else "it makes no mcp_ref.Server"
        raise WrongCommand(f"{path} has no server named {name or 'server'}; {known}")
    if options.trace:
        server.trace = tracer()
    server.run()
    return WORKED


def _load(path: str) -> dict[str, object]:
    """The names that a file defines, `mcp_ref` being this package, also where it is vendored under another name."""
    import os
    import runpy

    if not os.path.isfile(path):
        raise WrongCommand(f"there is no file {path}")
    sys.modules.setdefault("mcp_ref", sys.modules[__package__])
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    return runpy.run_path(path)


# ------------------------------------------------------------------------------------------------ talking to a server


def _talk(options: argparse.Namespace, command: Command) -> int:
    """Start the server, run one command with it, and end it."""
    from .jsonrpc.errors import ConnectionClosed, InvalidMessage, McpError, RemoteError, RequestTimeout

    if not options.server:
        raise WrongCommand("which server? Put the command that starts it behind --, as in: -- python3 server.py")
    try:
        return asyncio.run(_converse(options, command))
    except RemoteError as error:
        data = "" if error.data is None else f" {json.dumps(error.data, ensure_ascii=False)}"
        print(f"mcp_ref: the server answered with error {error.code}: {_shown(error.message + data)}", file=sys.stderr)
        return REFUSED
    except (ConnectionClosed, RequestTimeout) as error:
        print(f"mcp_ref: {_shown(str(error))}", file=sys.stderr)
        return NO_SERVER
    except (McpError, InvalidMessage, ValueError) as error:
        print(f"mcp_ref: {_shown(str(error))}", file=sys.stderr)
        return REFUSED if isinstance(error, McpError) else WRONG


async def _converse(options: argparse.Namespace, command: Command) -> int:
    from .basic.transports.trace import tracer
    from .runtime.client import Client

    client = Client(
        options.server,
        revision=options.revision,
        timeout=options.timeout,
        on_log=lambda entry: _note(
            f"[{entry.level}] {entry.data if isinstance(entry.data, str) else _dump(entry.data)}"
        ),
        trace=tracer() if options.trace else None,
    )
    async with client:
        return await command(client, options)


async def _list(client: Client, options: argparse.Namespace) -> int:
    tools = await client.list_tools() if client.server_can("tools") else []
    resources = await client.list_resources() if client.server_can("resources") else []
    templates = await client.list_resource_templates() if client.server_can("resources") else []
    prompts = await client.list_prompts() if client.server_can("prompts") else []
    encode = client.connection.codec.encode
    if options.json:
        lists: dict[str, Sequence[object]] = {
            "tools": tools,
            "resources": resources,
            "resourceTemplates": templates,
            "prompts": prompts,
        }
        found: Object = {key: [encode(item) for item in items] for key, items in lists.items()}
        return _print_json({"serverInfo": encode(client.server_info), "protocolVersion": client.revision.name, **found})
    print(_shown(f"{client.server_info.name} {client.server_info.version}, speaking {client.revision}"))
    if client.instructions:
        print(_shown(client.instructions))
    _print_list("tools", [(f"{tool.name}({_parameters(tool)})", tool.description) for tool in tools])
    _print_list("resources", [(resource.uri, resource.description) for resource in resources])
    _print_list("resource templates", [(template.uri_template, template.description) for template in templates])
    _print_list(
        "prompts",
        [(f"{p.name}({', '.join(argument.name for argument in p.arguments or [])})", p.description) for p in prompts],
    )
    return WORKED


async def _call(client: Client, options: argparse.Namespace) -> int:
    tools = {tool.name: tool for tool in await client.list_tools()}
    if options.tool not in tools:
        raise WrongCommand(f"the server has no tool {options.tool!r}; {_near(options.tool, list(tools))}")
    arguments = _arguments(options.arguments, tools[options.tool].input_schema)
    result = await client.call_tool(options.tool, arguments, on_progress=_show_progress)
    if options.json:
        _print_json(client.connection.codec.encode(result))
    else:
        for block in result.content:
            _print_block(client.connection.codec.encode(block))
        if not result.content and result.structured_content is not None:
            _print_json(result.structured_content)
    return REFUSED if result.is_error else WORKED


async def _read(client: Client, options: argparse.Namespace) -> int:
    result = await client.read_resource(options.uri)
    if options.json:
        return _print_json(client.connection.codec.encode(result))
    for contents in result.contents:
        _print_block({"type": "resource", "resource": client.connection.codec.encode(contents)})
    return WORKED


async def _prompt(client: Client, options: argparse.Namespace) -> int:
    result = await client.get_prompt(options.name, {key: str(value) for key, value in _pairs(options.arguments)})
    if options.json:
        return _print_json(client.connection.codec.encode(result))
    for message in result.messages:
        print(f"{message.role}:")
        _print_block(client.connection.codec.encode(message.content))
    return WORKED


async def _complete(client: Client, options: argparse.Namespace) -> int:
    from .server.utilities.completion import PromptReference, Reference, ResourceTemplateReference

    ref: Reference = PromptReference(options.target)
    if "://" in options.target:
        ref = ResourceTemplateReference(options.target)
    ((name, typed),) = _pairs([options.argument])
    others = {key: str(value) for key, value in _pairs(options.others)}
    found = await client.complete(ref, name, str(typed), others or None)
    if options.json:
        return _print_json(client.connection.codec.encode(found))
    for value in found.values:
        print(_shown(value))
    return WORKED


# ------------------------------------------------------------------------------------------------ key=value


def _pairs(texts: list[str]) -> list[tuple[str, JSON]]:
    """key=value as text, key:=value as JSON."""
    pairs: list[tuple[str, JSON]] = []
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.rstrip(":"):
            raise WrongCommand(f"{text!r} is no argument; write key=value, or key:=JSON")
        if key.endswith(":"):
            try:
                pairs.append((key[:-1], json.loads(value)))
            except ValueError as error:
                raise WrongCommand(f"{text!r}: what follows := must be JSON ({error})") from None
        else:
            pairs.append((key, value))
    return pairs


def _arguments(texts: list[str], schema: Object) -> Object:
    """A tool's arguments: a text stays one where the schema admits a string, and is read as JSON where it does not."""
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    arguments: Object = {}
    for text, (key, value) in zip(texts, _pairs(texts), strict=True):
        if isinstance(value, str) and not text.partition("=")[0].endswith(":"):
            value = _as_the_schema_wants(value, known.get(key))
        arguments[key] = value
    return arguments


def _as_the_schema_wants(text: str, schema: JSON) -> JSON:
    from .jsonschema import SchemaError, compile_schema

    try:
        if not isinstance(schema, dict) or compile_schema(schema).is_valid(text):
            return text
        value: JSON = json.loads(text)
        return value
    except (ValueError, SchemaError):
        return text  # the server will say what is wrong with it


def _near(name: str, known: list[str]) -> str:
    """Names that may have been meant."""
    import difflib

    close = difflib.get_close_matches(name, known, 3)
    return f"did you mean {' or '.join(close)}?" if close else f"it has {', '.join(sorted(known)[:20]) or 'none'}"


# ------------------------------------------------------------------------------------------------ printing


def _print_json(value: JSON) -> int:
    print(json.dumps(value, ensure_ascii=False, indent=2))
    return WORKED


def _dump(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False)


def _print_list(title: str, rows: list[tuple[str, str | None]]) -> None:
    if rows:
        print(f"\n{title}")
        for name, description in rows:
            first = (description or "").strip().partition("\n")[0]
            print(_shown(f"  {name}" + (f"  - {first}" if first else "")))


def _parameters(tool: Tool) -> str:
    properties, required = tool.input_schema.get("properties"), tool.input_schema.get("required")
    names = list(properties) if isinstance(properties, dict) else []
    return ", ".join(name if isinstance(required, list) and name in required else f"[{name}]" for name in names)


def _print_block(block: Object) -> None:
    """Text as it is; of what no terminal can show, what and how much it is."""
    contents = block.get("resource")
    inner = contents if isinstance(contents, dict) else block
    text, data = inner.get("text"), inner.get("data") or inner.get("blob")
    if isinstance(text, str):
        print(_shown(text))
    elif isinstance(data, str):
        print(_shown(f"[{inner.get('mimeType') or block.get('type')}: {len(data) * 3 // 4} bytes; --json shows them]"))
    else:
        print(_shown(f"[{block.get('type')}: {inner.get('uri') or _dump(block)}]"))


def _show_progress(progress: float, total: float | None, message: str | None) -> None:
    of = f" of {total:g}" if total is not None else ""
    _note(f"[progress] {progress:g}{of}{': ' + message if message else ''}")


def _note(text: str) -> None:
    print(_shown(text), file=sys.stderr)


def _shown(text: str) -> str:
    """A peer's text, without the control characters that could rewrite the terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


# ------------------------------------------------------------------------------------------------ revisions


def _revisions(options: argparse.Namespace) -> int:
    """Print the data of revisions.py."""
    from .revisions import REVISIONS, revision_named

    try:
        chosen = [revision_named(options.revision)] if options.revision else list(REVISIONS)
    except ValueError as error:
        raise WrongCommand(str(error)) from None
    described = [_describe(revision) for revision in chosen]
    if options.json:
        return _print_json(described[0] if options.revision else [*described])
    for number, facts in enumerate(described):
        print("\n" * (number > 0) + f"{facts.pop('revision')}, {facts.pop('era')} era")
        for title, entries in facts.items():
            if isinstance(entries, list) and entries:
                print(f"  {title}")
                for entry in entries:
                    print(f"    {entry}")
    return WORKED


def _describe(revision: Revision) -> dict[str, JSON]:
    """What a revision has, and what it changed of the one before it."""
    from .revisions import METHODS, REVISIONS, Life, Revision

    before = REVISIONS[revision.number - 1] if revision.number else None
    methods = {method.name for method in METHODS if Life(method.since, method.until).covers(revision)}
    earlier = {method.name for method in METHODS if before and Life(method.since, method.until).covers(before)}
    behaviour: list[JSON] = []
    for feature in fields(Revision)[3:]:  # behind number, name and era
        now, was = getattr(revision, feature.name), getattr(before, feature.name, None)
        behaviour.append(f"{feature.name} = {now}" + (f" (was {was})" if before and was != now else ""))
    shapes = list(_shapes())
    return {
        "revision": revision.name,
        "era": revision.era,
        "methods": [*sorted(methods & earlier if before else methods)],
        "new methods": [*sorted(methods - earlier)] if before else [],
        "methods no more": [*sorted(earlier - methods)],
        "behaviour": behaviour,
        "new types and fields": [*sorted(name for name, life in shapes if life.since is revision)],
        "types and fields no more": [*sorted(name for name, life in shapes if life.until is revision)],
    }


def _shapes() -> Iterator[tuple[str, Life]]:
    """Every type and field of the messages, and the revisions in which it exists."""
    from importlib import import_module

    from .codec import lives_of
    from .revisions import METHODS

    paths = [path for method in METHODS for path in (method.params, method.result) if path]
    for page in sorted({path.partition(":")[0] for path in paths} | {"basic.content"}):
        module = import_module(f".{page}", __package__)
        for cls in vars(module).values():
            if isinstance(cls, type) and is_dataclass(cls) and cls.__module__ == module.__name__:
                if "life" in vars(cls):
                    yield cls.__name__, vars(cls)["life"]
                for name, life in lives_of(cls).items():
                    yield f"{cls.__name__}.{name}", life


if __name__ == "__main__":
    sys.exit(main())
