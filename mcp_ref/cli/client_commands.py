"""The commands that connect to a server and print its results: `list`, `call`, `read`, `watch`, `prompt`, `complete`.

The server checks names and arguments. If the server refuses a name, these commands suggest similar names.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import sys
from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING

from ..basic.lifecycle import CapabilityError, UnsupportedRevision
from ..client.client import Client
from ..codec import codec_for
from ..features.completion import PromptReference, ResourceTemplateReference
from ..features.logging import LEVELS, LoggingMessageNotificationParams
from ..features.prompts import Prompt
from ..features.resources import Resource, ResourceTemplate
from ..features.tools import Tool
from ..jsonrpc.errors import ConnectionClosed, McpError, RemoteError, RequestTimeout
from ..jsonrpc.messages import Object
from ..lib.jsonschema import SchemaError, compile_schema
from ..revisions import REVISIONS, NotInRevision
from ..server.input_requests import USER_TIMEOUT
from ..session import DEFAULT_TIMEOUT
from ..transports.trace import tracer
from . import UsageError, did_you_mean, show
from .person import elicitation_handler
from .values import parse_environment, parse_headers, read_arguments, read_string_arguments

if TYPE_CHECKING:
    from ..basic.authorization.client import Authorizer


def run_client_command(options: argparse.Namespace) -> int:
    """Run one of the commands and return its exit code."""
    return run_and_report(connect_and_run(make_client(options), options))


def run_and_report(command: Coroutine[None, None, int]) -> int:
    """Run a command and return its exit code. Print the error of a command that fails."""
    try:
        return asyncio.run(command)
    except (ConnectionClosed, UnsupportedRevision, RequestTimeout) as error:
        return report_failure(3, error)
    except (McpError, NotInRevision) as error:
        code = report_failure(1, error)
        for line in getattr(error, "__notes__", ()):  # of a SignInNeeded: the command that signs in
            show.note(line)
            code = 4
        return code


ADVICE = {"roots": "add --root PATH", "elicitation": "run the command in a terminal, so that it can ask you"}
"""Capability that a server needs, and that this client did not declare -> the way to declare it."""


def report_failure(code: int, error: Exception, name: str = "", known: Iterable[str] = ()) -> int:
    """Print an error. If `name` is not a `known` name, suggest similar names. Return the exit code."""
    show.note(f"{error}{'' if name in known else did_you_mean(name, known)}")
    details = error.data if isinstance(error, RemoteError) and isinstance(error.data, dict) else {}
    for capability, advice in ADVICE.items():
        if capability in str(details.get("requiredCapabilities")):
            show.note(advice)
    return code


def make_client(options: argparse.Namespace, authorizer: Authorizer | None = None) -> Client:
    """Return the client that the options describe, by default with the stored tokens. Raise UsageError."""
    person = elicitation_handler()
    server = parse_server(options.command)
    if options.header and not isinstance(server, str):
        raise UsageError("--header works only with the URL of a server, not with a command")
    if isinstance(server, str) and authorizer is None:
        from .authorization import authorizer_for  # lazy: the command of a server needs no tokens

        authorizer = authorizer_for(server, options)
    elif options.token_env is not None or options.token_file is not None:
        raise UsageError("a token works only with the URL of a server, not with a command")
    if options.env and isinstance(server, str):
        raise UsageError("--env works only with the command of a server, not with a URL")
    try:
        return Client(
            server,
            headers=parse_headers(options.header),
            authorization=authorizer,
            revision=options.revision,
            env=parse_environment(options.env),
            roots=options.root,
            elicitation=person,
            elicitation_url=person is not None,
            on_log=show_log,
            on_stderr=show_stderr if options.stderr else None,
            timeout=options.timeout if options.timeout is not None else DEFAULT_TIMEOUT,
            trace=tracer() if options.trace else None,
        )
    except ValueError as error:  # an unknown revision, or an invalid root
        raise UsageError(str(error)) from None


def parse_server(words: list[str]) -> list[str] | str:
    """Return the command as a list, or the URL. Raise UsageError if words follow the URL."""
    if not words[0].startswith(("http://", "https://")):
        return words
    if len(words) > 1:
        raise UsageError(f"a URL takes no arguments: {' '.join(words[1:])}")
    return words[0]


def show_log(message: LoggingMessageNotificationParams) -> None:
    text = message.data if isinstance(message.data, str) else json.dumps(message.data, ensure_ascii=False)
    show.note(f"[{message.level}] {message.logger + ': ' if message.logger else ''}{text}")


def show_stderr(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    sys.stderr.write(show.printable(text) if sys.stderr.isatty() else text)


def show_progress(progress: float, total: float | None, message: str | None) -> None:
    of = f" of {total:g}" if total is not None else ""
    show.note(f"{progress:g}{of}{': ' + message if message else ''}")


async def connect_and_run(client: Client, options: argparse.Namespace) -> int:
    async with client:
        return await run_command(client, options)


async def run_command(client: Client, options: argparse.Namespace) -> int:
    """Run a command with a client that is connected."""
    if sys.stderr.isatty() and options.name != "list":
        show.note(server_line(client))
    if options.log is not None:
        if options.log not in LEVELS:
            raise UsageError(f"unknown log level {options.log!r}{did_you_mean(options.log, LEVELS)}")
        await client.set_logging_level(options.log)
    code = await COMMANDS[options.name](client, options)
    hidden = b"" if options.stderr else getattr(client.session.transport, "stderr_tail", b"")
    if code != 0 and hidden:
        show.note("the server has written to its standard error: --stderr shows the text")
    return code


def server_line(client: Client) -> str:
    """Return a line with the server's name, its version, and the revision."""
    info = client.server_info
    return f"{info.title or info.name} {info.version}, revision {client.revision}".strip()


def encode(value: object) -> Object:
    """Return a result as JSON in the format of the latest revision, even if the session has an older revision."""
    return codec_for(REVISIONS[-1]).encode(value)


async def list_all(client: Client, options: argparse.Namespace) -> int:
    """Print the server's name, instructions, tools, resources, resource templates and prompts."""
    tools = await client.list_tools() if client.server_can("tools") else []
    resources = await client.list_resources() if client.server_can("resources") else []
    templates = await client.list_resource_templates() if client.server_can("resources") else []
    prompts = await client.list_prompts() if client.server_can("prompts") else []
    if options.json:
        show.as_json(
            {
                "protocolVersion": client.revision.name,
                "serverInfo": encode(client.server_info),
                "capabilities": client.server_capabilities,
                "instructions": client.instructions,
                **lists_as_json(tools, resources, templates, prompts),
            }
        )
        return 0
    show.out(server_line(client))
    if client.instructions:
        show.out(client.instructions)
    show_lists(tools, resources, templates, prompts)
    return 0


def lists_as_json(
    tools: list[Tool], resources: list[Resource], templates: list[ResourceTemplate], prompts: list[Prompt]
) -> Object:
    """Return the four lists of a server as JSON."""
    lists = {"tools": tools, "resources": resources, "resourceTemplates": templates, "prompts": prompts}
    return {name: [encode(item) for item in items] for name, items in lists.items()}  # type: ignore[attr-defined]


def show_lists(
    tools: list[Tool], resources: list[Resource], templates: list[ResourceTemplate], prompts: list[Prompt]
) -> None:
    """Print the four lists of a server as tables."""
    show.table("Tools", [show.tool_row(tool) for tool in tools])
    show.table("Resources", [(r.uri, r.mime_type or "", r.description or r.title) for r in resources])
    show.table("Resource templates", [(t.uri_template, t.mime_type or "", t.description or t.title) for t in templates])
    show.table("Prompts", [show.prompt_row(prompt) for prompt in prompts])


async def call(client: Client, options: argparse.Namespace) -> int:
    """Call a tool and print its result. Return 1 for an error. Without `--json`, its text goes to standard error."""
    tools = {tool.name: tool for tool in await client.list_tools()}
    tool = tools.get(options.tool)
    arguments = read_arguments(options.arguments, tool.input_schema if tool is not None else None)
    default_timeout = USER_TIMEOUT if elicitation_handler() is not None else client.timeout  # a user needs time
    try:
        result = await client.call_tool(
            options.tool,
            arguments,
            on_progress=show_progress if sys.stderr.isatty() else None,
            timeout=options.timeout if options.timeout is not None else default_timeout,
        )
    except RemoteError as error:
        report_failure(1, error, options.tool, tools)
        show_expected_arguments(tool, arguments)
        return 1
    if options.json:
        show.as_json(encode(result))
    elif result.content or not result.has_structured_content:
        for block in result.content:
            (show.note if result.is_error else show.out)(show.block_text(block))
    else:
        show.as_json(result.structured_content)
    if result.is_error:
        show_expected_arguments(tool, arguments)
    return 1 if result.is_error else 0


def show_expected_arguments(tool: Tool | None, arguments: Object) -> None:
    """Print the parameters of a tool, if the arguments do not match the tool's schema."""
    with contextlib.suppress(SchemaError):
        if tool is not None and not compile_schema(tool.input_schema).is_valid(arguments):
            show.note(f"{tool.name} takes: {show.signature(tool.input_schema) or 'nothing'}")


async def read(client: Client, options: argparse.Namespace) -> int:
    """Print the contents of a resource."""
    try:
        result = await client.read_resource(options.uri)
    except RemoteError as error:
        return report_failure(1, error, options.uri, [resource.uri for resource in await client.list_resources()])
    if options.json:
        show.as_json(encode(result))
    else:
        for contents in result.contents:
            show.write_contents(contents)
    return 0


async def watch(client: Client, options: argparse.Namespace) -> int:
    """Print a line with the URI for each change, until Ctrl-C, `--count` changes, or the end of the subscription."""
    try:
        async with client.subscribe(options.uri) as updates:
            for _ in range(options.count) if options.count is not None else itertools.count():
                uri = await anext(updates, None)
                if uri is None:
                    show.note("the server ended the subscription")
                    return 0
                show.as_json(uri) if options.json else show.out(uri)
                sys.stdout.flush()
    except (RemoteError, CapabilityError) as error:
        known = await client.list_resources() if client.server_can("resources") else []
        return report_failure(1, error, options.uri, [resource.uri for resource in known])
    return 0


async def prompt(client: Client, options: argparse.Namespace) -> int:
    """Print the messages of a prompt."""
    try:
        result = await client.get_prompt(options.prompt, read_string_arguments(options.arguments))
    except RemoteError as error:
        prompts = {prompt.name: prompt for prompt in await client.list_prompts()}
        report_failure(1, error, options.prompt, prompts)
        if options.prompt in prompts:
            show.note(f"{options.prompt} takes: {show.prompt_row(prompts[options.prompt])[1] or 'nothing'}")
        return 1
    if options.json:
        show.as_json(encode(result))
    else:
        for message in result.messages:
            show.out(f"{message.role}: {show.block_text(message.content)}")
    return 0


async def complete(client: Client, options: argparse.Namespace) -> int:
    """Print the server's suggestions for an argument, one on each line."""
    is_uri = "{" in options.ref or "://" in options.ref
    ref = ResourceTemplateReference(options.ref) if is_uri else PromptReference(options.ref)
    known = read_string_arguments(options.arguments) or None
    try:
        result = await client.complete(ref, options.argument, options.value, known)
    except RemoteError as error:
        return report_failure(1, error, options.ref, await completion_references(client, is_uri))
    if options.json:
        show.as_json(encode(result))
    else:
        for value in result.values:
            show.out(value)
    return 0


async def completion_references(client: Client, is_uri: bool) -> list[str]:
    """Return the server's URI templates if `is_uri`, else the names of its prompts."""
    if is_uri:
        templates = await client.list_resource_templates() if client.server_can("resources") else []
        return [template.uri_template for template in templates]
    return [prompt.name for prompt in await client.list_prompts()] if client.server_can("prompts") else []


COMMANDS = {"list": list_all, "call": call, "read": read, "watch": watch, "prompt": prompt, "complete": complete}
