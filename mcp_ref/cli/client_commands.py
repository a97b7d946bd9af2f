"""`list`, `call`, `read`, `watch`, `prompt` and `complete` connect to a server and print its results.

`run_client_command` is the entry: it makes a `Client` from the options, connects, and runs one function of `COMMANDS`.
The commands leave it to the server to check names and arguments. If the server refuses a name, they suggest similar
ones.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import sys
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ..basic.authorization.errors import SignInNeeded
from ..basic.lifecycle import CapabilityError, UnsupportedRevision
from ..client.client import Client
from ..codec import codec_for
from ..features.completion import PromptReference, ResourceTemplateReference
from ..features.logging import LEVELS, LoggingMessageNotificationParams
from ..features.prompts import Prompt
from ..features.resources import Resource, ResourceTemplate
from ..features.tools import CallToolResult, Tool
from ..jsonrpc.errors import ConnectionClosed, InvalidMessage, McpError, RemoteError, RequestTimeout
from ..jsonrpc.messages import Object
from ..lib.jsonschema import SchemaError, compile_schema
from ..lib.text import show_text
from ..revisions import REVISIONS, NotInRevision
from ..server.input_requests import USER_TIMEOUT
from ..session import DEFAULT_TIMEOUT
from ..transports.trace import tracer
from . import EXIT_ERROR, EXIT_NOT_CONNECTED, EXIT_SIGN_IN, UsageError, did_you_mean, show, usage_errors
from .person import SERVER_TEXTS, elicitation_handler
from .save import make_folder, save_block, save_contents
from .values import check_utf8, parse_environment, parse_headers, read_arguments, read_string_arguments

if TYPE_CHECKING:
    from ..basic.authorization.client import Authorizer

T = TypeVar("T")


def run_client_command(options: argparse.Namespace) -> int:
    return run_and_report(connect_and_run(make_client(options), options))


def run_and_report(command: Coroutine[None, None, int]) -> int:
    """Run a command and return its exit code. Print the error of a command that fails."""
    try:
        return asyncio.run(command)
    except (ConnectionClosed, UnsupportedRevision, RequestTimeout) as error:
        return report_failure(EXIT_NOT_CONNECTED, error)
    except SignInNeeded as error:
        return report_failure(EXIT_SIGN_IN, error)
    except (McpError, NotInRevision) as error:
        return report_failure(EXIT_ERROR, error)


ADVICE = {"roots": "add --root PATH", "elicitation": "run the command in a terminal, so that it can ask you",
          "sampling": "this command has no model: use the server in a host that has a model"}  # fmt: skip
"""Client capability that a server requires -> the advice for a user whose command did not declare it."""

STDERR_HINT = "the server has written to its standard error: --stderr shows the text"


def report_failure(exit_code: int, error: Exception, name: str = "", known: Collection[str] = ()) -> int:
    """Print an error with its notes and advice. If `name` is not a `known` name, suggest similar names.

    Return the exit code, so that a caller can return it as well.
    """
    if isinstance(error, RemoteError):
        error.advice = ""  # it is for programs that use `Client`; ADVICE is for users of the command line
    hint = "" if name in known else did_you_mean(name, known)
    show.note_from_server(f"{error}{hint}")
    for line in getattr(error, "__notes__", ()):
        show.note(line)
    if isinstance(error, RemoteError) and isinstance(error.data, dict):
        required = error.data.get("requiredCapabilities")
        for capability, advice in ADVICE.items():
            if isinstance(required, dict) and capability in required:
                show.note(advice)
    return exit_code


def make_client(options: argparse.Namespace, authorizer: Authorizer | None = None) -> Client:
    """Return the client that the options describe, by default with the stored tokens. Raise UsageError."""
    server = parse_server(options.command)
    refuse_unfit_options(server, options)
    if isinstance(server, str) and authorizer is None:
        from .authorization import authorizer_for  # lazy: the command of a server needs no tokens

        authorizer = authorizer_for(server, options)
    ask_user = elicitation_handler()
    with usage_errors():  # an unknown revision, or an invalid root
        return Client(
            server, headers=parse_headers(options.header), authorization=authorizer, revision=options.revision,
            env=parse_environment(options.env), roots=options.root, elicitation=ask_user,
            elicitation_url=ask_user is not None, on_log=show_log, on_stderr=show_stderr if options.stderr else None,
            timeout=options.timeout or DEFAULT_TIMEOUT,
            trace=tracer() if options.trace else None,
        )  # fmt: skip


def refuse_unfit_options(server: list[str] | str, options: argparse.Namespace) -> None:
    """Raise UsageError for an option that does not work with this kind of server, or for a root that does not exist."""
    is_url = isinstance(server, str)
    if options.header and not is_url:
        raise UsageError("--header works only with the URL of a server, not with a command")
    if (options.token_env is not None or options.token_file is not None) and not is_url:
        raise UsageError("a token works only with the URL of a server, not with a command")
    if options.env and is_url:
        raise UsageError("--env works only with the command of a server, not with a URL")
    for root in options.root or ():
        if "://" not in root and not os.path.isdir(root):
            raise UsageError(f"--root {root} is not a directory")


def parse_server(words: list[str]) -> list[str] | str:
    """Return the command of the server as a list, or its URL as a string. Raise UsageError if words follow the URL."""
    if not words[0].startswith(("http://", "https://")):
        return words
    if len(words) > 1:
        raise UsageError(f"a URL takes no arguments: {' '.join(words[1:])}")
    return words[0]


def show_log(message: LoggingMessageNotificationParams) -> None:
    text = message.data if isinstance(message.data, str) else json.dumps(message.data, ensure_ascii=False)
    logger = f"{message.logger}: " if message.logger else ""
    SERVER_TEXTS.show(f"[{message.level}] {logger}{text}")


def show_stderr(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    if sys.stderr.isatty():
        SERVER_TEXTS.show(text.removesuffix("\n"))
    else:
        show_text(text, sys.stderr, end="")


def show_progress(progress: float, total: float | None, message: str | None) -> None:
    of = f" of {total:g}" if total is not None else ""
    text = f": {message}" if message else ""
    SERVER_TEXTS.show(f"{progress:g}{of}{text}")


async def connect_and_run(client: Client, options: argparse.Namespace) -> int:
    try:
        async with client:
            return await run_command(client, options)
    except (RemoteError, RequestTimeout) as error:  # of the negotiation, as `run_command` reports its own errors
        if has_hidden_text(client, options):
            error.add_note(STDERR_HINT)
        raise


def has_hidden_text(client: Client, options: argparse.Namespace) -> bool:
    """Return True if the server has written to its standard error, and the user has not seen it."""
    # only the transport of a command has this attribute
    return not options.stderr and bool(getattr(client.connector.transport, "stderr_tail", b""))


async def run_command(client: Client, options: argparse.Namespace) -> int:
    """Run a command with a connected client. If the server refuses a request, suggest names that it knows."""
    check_utf8(options.target)
    if sys.stderr.isatty() and options.name != "list":  # `list` prints this line as a part of its result
        show.note(server_line(client))
    if options.log is not None:
        if options.log not in LEVELS:
            raise UsageError(f"unknown log level {options.log!r}{did_you_mean(options.log, LEVELS)}")
        try:
            await client.set_logging_level(options.log)
        except (RemoteError, CapabilityError) as error:
            show.note_from_server(f"--log has no effect: {error}")
    try:
        code = await COMMANDS[options.name](client, options) or 0  # None is success
    except (RemoteError, CapabilityError) as error:
        known = await known_names(client, options) if options.target else []
        code = report_failure(EXIT_ERROR, error, options.target, known)
    except RequestTimeout as error:
        code = report_failure(EXIT_NOT_CONNECTED, error)
    if code != 0 and has_hidden_text(client, options):
        show.note(STDERR_HINT)
    return code


async def known_names(client: Client, options: argparse.Namespace) -> list[str]:
    """Return the names or URIs that the server has for the target of a command."""
    if options.name == "call":
        return [tool.name for tool in await fetch_list(client, "tools", Client.list_tools)]
    if options.name in ("read", "watch"):
        return [resource.uri for resource in await fetch_list(client, "resources", Client.list_resources)]
    if options.name == "complete" and is_uri(options.target):
        templates = await fetch_list(client, "resources", Client.list_resource_templates)
        return [template.uri_template for template in templates]
    return [prompt.name for prompt in await fetch_list(client, "prompts", Client.list_prompts)]


async def fetch_list(client: Client, capability: str, fetch: Callable[[Client], Awaitable[list[T]]]) -> list[T]:
    """Return a list of the server, or an empty list if the server does not have this capability."""
    return await fetch(client) if client.server_can(capability) else []


def server_line(client: Client) -> str:
    info = client.server_info
    return f"{info.title or info.name} {info.version}, revision {client.revision}".strip()


def encode(value: object) -> Object:
    """Return a result as JSON in the format of the latest revision, even if the session has an older revision."""
    try:
        return codec_for(REVISIONS[-1]).encode(value)
    except ValueError as error:  # decoding does not check Base64 and MIME types, but encoding does
        fault = str(error).partition(";")[0]  # the rest is advice for the author of a server
        raise InvalidMessage(f"the server sent an invalid result: {fault}") from None


async def list_all(client: Client, options: argparse.Namespace) -> None:
    """Print the server's name, instructions, tools, resources, resource templates and prompts."""
    lists = Lists(
        await fetch_list(client, "tools", Client.list_tools),
        await fetch_list(client, "resources", Client.list_resources),
        await fetch_list(client, "resources", Client.list_resource_templates),
        await fetch_list(client, "prompts", Client.list_prompts),
    )
    if options.json:
        return show.print_json({
            "protocolVersion": client.revision.name, "serverInfo": encode(client.server_info),
            "capabilities": client.server_capabilities, "instructions": client.instructions, **lists.as_json(),
        })  # fmt: skip
    show.out(server_line(client))
    if client.instructions:
        show.out(client.instructions)
    lists.show()


class Lists(NamedTuple):
    """The four lists of one or several servers."""

    tools: list[Tool]
    resources: list[Resource]
    templates: list[ResourceTemplate]
    prompts: list[Prompt]

    def as_json(self) -> Object:
        return {
            "tools": [encode(tool) for tool in self.tools],
            "resources": [encode(resource) for resource in self.resources],
            "resourceTemplates": [encode(template) for template in self.templates],
            "prompts": [encode(prompt) for prompt in self.prompts],
        }

    def show(self) -> None:
        rows = [(t.name, show.signature(t.input_schema), t.description or t.title) for t in self.tools]
        show.table("Tools", rows)
        show.table("Resources", [(r.uri, r.mime_type or "", r.description or r.title) for r in self.resources])
        rows = [(t.uri_template, t.mime_type or "", t.description or t.title) for t in self.templates]
        show.table("Resource templates", rows)
        show.table("Prompts", [show.prompt_row(prompt) for prompt in self.prompts])


async def call(client: Client, options: argparse.Namespace) -> int:
    """Call a tool and print its result. A tool's error goes to standard error, except with `--json`.

    If the call fails, and the arguments do not match the tool's schema, also print its parameters.
    """
    if options.save is not None:
        make_folder(options.save)
    tool = await find_tool(client, options)
    arguments = read_arguments(options.arguments, tool.input_schema if tool is not None else None)
    default_timeout = USER_TIMEOUT if elicitation_handler() is not None else client.timeout  # a user needs time
    try:
        result = await client.call_tool(
            options.target, arguments, on_progress=show_progress if sys.stderr.isatty() else None,
            timeout=options.timeout or default_timeout,
        )  # fmt: skip
    except RemoteError as error:
        hint = parameters_hint(tool, arguments)
        if hint:
            error.add_note(hint)
        raise
    paths = [save_block(options.save, options.target, block) if options.save else None for block in result.content]
    show_result(result, paths, options.json)
    if not result.is_error:
        return 0
    hint = parameters_hint(tool, arguments)
    if hint:
        show.note(hint)
    return EXIT_ERROR


async def find_tool(client: Client, options: argparse.Namespace) -> Tool | None:
    """Return the definition of the tool to call, or None if the server does not list it."""
    allowed: Tool | None = getattr(options, "tool", None)  # host_commands.py sets it: the user allowed this definition
    if allowed is not None:
        return allowed
    return next((tool for tool in await client.list_tools() if tool.name == options.target), None)


def show_result(result: CallToolResult, paths: Sequence[str | None], json: bool) -> None:
    """Print the result of a tool. `paths` has the file of each block, or None for one that was not saved."""
    if json:
        show.print_json(encode(result))
        note_paths(paths)
    elif result.content or not result.has_structured_content:
        print_text = show.note if result.is_error else show.out
        for block, path in zip(result.content, paths, strict=True):
            print_text(path or show.block_text(block))
    else:
        show.print_json(result.structured_content)


def parameters_hint(tool: Tool | None, arguments: Object) -> str:
    """Return a line with the parameters of a tool if the arguments do not match its schema, else ""."""
    with contextlib.suppress(SchemaError):  # an unusable schema says nothing about the arguments
        if tool is not None and not compile_schema(tool.input_schema).is_valid(arguments):
            return f"{tool.name} takes: {show.signature(tool.input_schema) or 'nothing'}"
    return ""


async def read(client: Client, options: argparse.Namespace) -> None:
    """Print the contents of a resource. With `--save`, print the names of the new files instead of their bytes."""
    if options.save is not None:
        make_folder(options.save)
    result = await client.read_resource(options.target)
    paths = [save_contents(options.save, contents) if options.save else None for contents in result.contents]
    if options.json:
        show.print_json(encode(result))
        return note_paths(paths)
    for contents, path in zip(result.contents, paths, strict=True):
        if path is not None:
            show.out(path)
        else:
            show.write_contents(contents)


def note_paths(paths: Iterable[str | None]) -> None:
    """Print the names of saved files to standard error, because standard output has one JSON value."""
    for path in paths:
        if path is not None:
            show.note(path)


async def watch(client: Client, options: argparse.Namespace) -> None:
    """Print a line with the URI for each change, until Ctrl-C, `--count` changes, or the end of the subscription."""
    numbers = itertools.count() if options.count is None else range(options.count)
    async with client.subscribe(options.target) as updates:
        for _ in numbers:
            uri = await anext(updates, None)
            if uri is None:
                return show.note("the server ended the subscription")
            if options.json:
                show.print_json(uri)
            else:
                show.out(uri)
            sys.stdout.flush()


async def prompt(client: Client, options: argparse.Namespace) -> None:
    """Print the messages of a prompt."""
    try:
        result = await client.get_prompt(options.target, read_string_arguments(options.arguments))
    except RemoteError as error:
        for each in await fetch_list(client, "prompts", Client.list_prompts):
            if each.name == options.target:
                error.add_note(f"{each.name} takes: {show.prompt_row(each)[1] or 'nothing'}")
        raise
    if options.json:
        return show.print_json(encode(result))
    for message in result.messages:
        show.out(f"{message.role}: {show.block_text(message.content)}")


async def complete(client: Client, options: argparse.Namespace) -> None:
    """Print the server's suggestions for an argument, one on each line."""
    ref_type = ResourceTemplateReference if is_uri(options.target) else PromptReference
    name, equals, text = options.argument.partition("=")
    words = list(options.arguments)
    if not equals and words:  # `language fr` means `language=fr`
        text = words.pop(0)
    result = await client.complete(ref_type(options.target), name, text, read_string_arguments(words) or None)
    if options.json:
        return show.print_json(encode(result))
    for value in result.values:
        show.out(value)


def is_uri(target: str) -> bool:
    """Return True for a URI or a URI template, and False for the name of a prompt."""
    return "{" in target or "://" in target


COMMANDS: dict[str, Callable[[Client, argparse.Namespace], Awaitable[int | None]]] = {
    "list": list_all, "call": call, "read": read, "watch": watch, "prompt": prompt, "complete": complete,
}  # fmt: skip
"""The function of each command. It returns the exit code, or None for success."""
