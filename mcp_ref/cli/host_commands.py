"""`--config FILE`: the client commands with the servers of a configuration file, and with the user's consent.

`list` starts all servers, while `call weather.forecast` and the other commands start only the server that they name.
A downloaded file can name any program, so a server starts only if the user allows it, or with `--yes`. The decisions
are stored in `mcp_ref/approvals.json` in the user's folder for state. If the file later starts a server in another way,
or a tool's definition changes, the user is asked again.

Spec:  architecture/index; 2026-07-28 index#key-principles
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import sys
from collections.abc import AsyncIterator, Collection
from dataclasses import replace

from ..basic.authorization.store import FileStore, default_path
from ..features.logging import LoggingMessageNotificationParams
from ..features.tools import Tool
from ..host.approval import Allow, Approval, Deny, Refused, quoted
from ..host.configuration import Configuration, find_configs, read_config
from ..host.host import Host
from ..host.names import UnknownName, full_name
from ..host.policy import APPROVE_SECONDS
from ..host.supervisor import ServerState, ServerStatus, ServerUnavailable
from ..jsonrpc.messages import JSON
from ..lib.jsonschema.errors import format_count
from ..lib.text import escape_hidden, fold
from ..session import DEFAULT_TIMEOUT
from ..transports.trace import tracer
from . import EXIT_ERROR, EXIT_NOT_CONNECTED, EXIT_SIGN_IN, UsageError, did_you_mean, show, usage_errors
from .authorization import authorizer_for
from .client_commands import Lists, report_failure, run_and_report, run_command, show_log, show_stderr
from .person import SERVER_TEXTS, ask_line, confirms, elicitation_handler, has_terminal, hidden_input

MAX_APPROVAL_BYTES = 900_000
"""Maximum size of all stored decisions, in bytes. Further ones are refused instead of replacing older ones: without its
stored decision, a server could change a tool unnoticed."""

APPROVALS = "approvals.json"
"""The name of the file with the stored decisions, in the user's folder for state."""

MAX_ROWS = 20
"""Number of rows above which the most important lines of an approval are repeated at its end."""
MAX_REPEATED_WARNINGS = 5
"""Maximum number of warnings in the repeated lines."""

SINGLE_SERVER_OPTIONS = ("revision", "env", "header", "root", "token_env", "token_file", "command")
"""The options for one server. A command with `--config` refuses them."""


def refuse_single_server_options(options: argparse.Namespace, allowed: Collection[str] = ()) -> None:
    """Raise UsageError for an option that is meant for one server, such as a token: all servers would get it."""
    for name in SINGLE_SERVER_OPTIONS:
        if name not in allowed and getattr(options, name):
            shown = "the server's command or URL" if name == "command" else f"--{name.replace('_', '-')}"
            raise UsageError(f"{shown} does not work with --config: the file contains the settings of each server")


def run_host_command(options: argparse.Namespace) -> int:
    if options.find:
        paths = find_configs(os.getcwd())
        if options.json:
            show.print_json([str(path) for path in paths])
            return 0
        for path in paths:
            show.out(str(path))
        if not paths:
            show.note("found no configuration file of a known host")
        return 0
    refuse_single_server_options(options)
    with usage_errors():
        configuration = read_config(options.config)
    if options.name == "list":
        server = ""  # all servers
    else:
        server, options.target = split_target(options, configuration)
        configuration = replace(
            configuration, servers=tuple(each for each in configuration.servers if each.name == server)
        )
    # The commands print the state of each server, so hide the warnings of the package `host`.
    logger = logging.getLogger(Host.__module__.rpartition(".")[0])
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        return run_and_report(_run(configuration, server, options))
    finally:
        logger.setLevel(level)


def split_target(options: argparse.Namespace, configuration: Configuration) -> tuple[str, str]:
    """Return SERVER and NAME of the target `SERVER.NAME`. If the file has only one server, NAME is enough."""
    names = [each.name for each in configuration.servers]
    if not names:
        raise UsageError(f"{options.config} lists no server")
    server, dot, name = options.target.partition(".")
    if dot and server in names:
        return server, name
    if len(names) != 1:
        advice = f"write the server's name and a dot before the name, such as {full_name(names[0], 'NAME')}"
        raise UsageError(advice + did_you_mean(server, names))
    return names[0], options.target


async def _run(configuration: Configuration, server: str, options: argparse.Namespace) -> int:
    """Run a command with the servers of the configuration: `list` with all, another command with the only one."""
    consent = Consent(options.yes, full_name(server, options.target))
    ask_user = elicitation_handler(f"The server {server}", consent.prompt_lock)
    async with kept_approvals() as approvals:
        host = Host(
            configuration, approve=consent.approve, ask=consent.ask if has_terminal() else None, approvals=approvals,
            elicitation=None if ask_user is None else lambda _, request: ask_user(request),
            elicitation_url=ask_user is not None, startup_wait=APPROVE_SECONDS,
            authorization=lambda url: authorizer_for(url, options),
            timeout=options.timeout or DEFAULT_TIMEOUT, on_log=show_server_log,
            on_stderr=(lambda name, data: show_stderr(data)) if options.stderr else None,
            trace=tracer() if options.trace else None,
        )  # fmt: skip
        try:
            async with host:
                if options.name == "list":
                    return await list_all(host, options)
                client = host.client(server)
                if options.name == "call":
                    options.tool = await check_tool(host, server, options.target, consent)
                return await run_command(client, options)
        except (ServerUnavailable, Refused) as error:
            needs_sign_in = any(status.needs_sign_in for status in host.status())
            return report_failure(EXIT_SIGN_IN if needs_sign_in else EXIT_NOT_CONNECTED, error)
        except UnknownName as error:
            return report_failure(EXIT_ERROR, error)


class Approvals(dict[str, str]):
    """The decisions of this user. Storing one raises Refused if their file would be too large."""

    def __setitem__(self, key: str, decision: str) -> None:
        if len(json.dumps({**self, key: decision})) > MAX_APPROVAL_BYTES:
            path = default_path().with_name(APPROVALS)
            raise Refused(f"the decision cannot be stored, because {path} is full; delete this file to decide again")
        super().__setitem__(key, decision)


@contextlib.asynccontextmanager
async def kept_approvals() -> AsyncIterator[dict[str, str]]:
    """Return a context manager with the stored decisions of this user. At its end, store the new ones."""
    try:
        store = FileStore(default_path().with_name(APPROVALS))
    except RuntimeError:  # the user has no home directory
        yield {}
        return
    stored = await store.get("approvals") or {}
    before = {key: decision for key, decision in stored.items() if isinstance(decision, str)}
    approvals = Approvals(before)
    try:
        yield approvals
    finally:
        if approvals != before:
            meanwhile = await store.get("approvals") or {}  # another program may have stored decisions of its own
            await store.put("approvals", {**meanwhile, **approvals})


_PROMPTS = {
    "start": "Start this server?",
    "variable": "Let this file set the variable?",
    "roots": "Give the server these directories?",
}


class Consent:
    """The user's decisions at the terminal, for which a host asks before it starts a server or accepts a changed tool.

    Without a terminal, a server starts only with `--yes` or a stored decision. Even with `--yes`, a changed tool needs
    consent, and so does a dangerous variable in a file that is not the user's own.

    Args:
        is_yes: True with the option `--yes`.
        tool_name: The full name of the tool to call, such as `weather.forecast`.
    """

    def __init__(self, is_yes: bool, tool_name: str) -> None:
        self.prompt_lock = asyncio.Lock()
        """Held while the terminal shows a prompt, so that it shows one at a time."""
        self.changed_tool: asyncio.Future[Tool | None] = asyncio.get_running_loop().create_future()
        """The changed definition of the tool to call, or None if the user has not allowed it. `check_tool` waits."""
        self._is_yes = is_yes
        self._tool_name = tool_name

    async def approve(self, request: Approval) -> Allow | Deny:
        """Decide about a request of the host, if need be with the user."""
        if request.kind == "elicit":
            return Allow()  # the form lets the user decline, and `ask_person` shows the warnings of a URL
        if request.kind == "definition":
            return await self._approve_definition(request)
        if self._is_yes and request.kind != "variable":
            return Allow()
        if not has_terminal():
            return Deny(f"there is no terminal at which a user could allow it; {_advice_without_terminal(request)}")
        prompt = _PROMPTS[request.kind]
        if not request.warnings:
            prompt += " (A yes is also valid later, in this folder, until one of these lines changes.)"
        return Allow("always") if await self._confirm(request, prompt) else Deny()

    async def _approve_definition(self, request: Approval) -> Allow | Deny:
        """Show the definition of the tool to call. Deny the other tools, because the command does not need them."""
        if request.name != self._tool_name:
            return Deny()
        is_allowed = False
        try:
            is_allowed = await self._confirm(request, "Allow this definition?")
        finally:  # even if the prompt fails, because `check_tool` waits for the decision
            if not self.changed_tool.done():
                self.changed_tool.set_result(request.tool if is_allowed else None)
        return Allow() if is_allowed else Deny()

    async def _confirm(self, request: Approval, prompt: str) -> bool:
        if not has_terminal():
            return False
        async with self.prompt_lock:
            with SERVER_TEXTS.held():
                text = request.text(show.columns(sys.stderr))
                show.note(f"\n{text}")
                rows = text.count("\n") + 1
                if rows > MAX_ROWS:  # the most important lines come first, and have scrolled out of sight
                    show.note(f"\n(Scroll up to read all {rows} rows.)\n{_summary(request)}")
                return await confirms(prompt)

    async def ask(self, id: str, description: str, is_password: bool) -> str:
        """Return the value that the user types for `${input:id}`."""
        prompt = fold(f"The file asks for {id}: {description or id}: ", show.columns(sys.stderr))
        async with self.prompt_lock:
            try:
                with SERVER_TEXTS.held(), hidden_input() if is_password else contextlib.nullcontext():
                    return (await ask_line(prompt)).rstrip("\n")
            except EOFError:
                raise Refused(f"no value was typed for the input {id}") from None


def _advice_without_terminal(request: Approval) -> str:
    if request.kind != "variable":
        return "--yes allows the servers of this file"
    return (
        f"the file is not your own, so --yes does not allow it: {'; '.join(request.warnings)}. Run the command at a "
        f"terminal, or set {quoted(request.name)} to the same value in your own environment"
    )


def _summary(request: Approval) -> str:
    """Return the most important lines of an approval: the server, its first warnings, and the program."""
    first_warnings = request.warnings[:MAX_REPEATED_WARNINGS]
    shortened = replace(request, warnings=first_warnings, paths=(), settings=(), arguments=None, content=None)
    text = shortened.text(show.columns(sys.stderr))
    hidden_count = len(request.warnings) - len(first_warnings)
    return f"{text}\nand {format_count(hidden_count, 'more warnings')}" if hidden_count else text


async def check_tool(host: Host, server: str, tool: str, consent: Consent) -> Tool:
    """Return the allowed definition of a tool, so that the call does not list the tools again.

    Raises:
        UnknownName: The server has no such tool, or the file excludes it.
        Refused: The user does not allow its changed definition.
    """
    name = full_name(server, tool)
    definitions = {each.full_name: each.definition for each in await host.list_tools()}
    status_of_server = host.status()[0]  # the host has no other server
    reason = status_of_server.unapproved_tools.get(tool)  # `list_tools` leaves out a tool that is not allowed
    if reason is None:
        if name not in definitions:
            raise UnknownName("tool", name, definitions)
        return definitions[name]
    if reason == "not stored":  # the host does not ask the user, because it cannot remember a definition
        raise Refused(f"the definition of {name} is not allowed, because it could not be stored")
    allowed = await consent.changed_tool  # the host asks the user in the background
    if allowed is not None:
        return allowed
    advice = "" if has_terminal() else ": call it at a terminal, read its definition, and allow it"
    raise Refused(f"the definition of {name} is not allowed ({reason}){advice}")


async def list_all(host: Host, options: argparse.Namespace) -> int:
    """Print the state of each server, and all tools, resources, templates and prompts with their full names."""
    lists = Lists(
        [replace(each.definition, name=each.full_name) for each in await host.list_tools()],
        [replace(each.definition, uri=each.full_name) for each in await host.list_resources()],
        [replace(each.definition, uri_template=each.full_name) for each in await host.list_resource_templates()],
        [replace(each.definition, name=each.full_name) for each in await host.list_prompts()],
    )
    states = host.status()
    if not states:
        show.note(f"{options.config} lists no server")
    if options.json:
        servers: list[JSON] = [{"name": s.name, "state": s.state.value, "error": s.last_error} for s in states]
        show.print_json({"servers": servers, **lists.as_json()})
    else:
        for status in states:
            show.out(f"{escape_hidden(status.name, keep='')}  {_state_text(status)}")
            for warning in status.warnings:
                show.note(f"warning: {warning}")
        lists.show()
    not_ready = [status for status in states if status.state not in (ServerState.READY, ServerState.DISABLED)]
    if not not_ready:
        return 0
    return EXIT_SIGN_IN if all(status.needs_sign_in for status in not_ready) else EXIT_NOT_CONNECTED


def _state_text(status: ServerStatus) -> str:
    if status.state is ServerState.READY:
        text = f"ready, revision {status.revision}"
        if status.unapproved_tools:
            tools = [f"{escape_hidden(name, keep='')} ({why})" for name, why in status.unapproved_tools.items()]
            text += f"; not allowed: {', '.join(tools)}"
        return text
    # the host would try again later, but this command ends now
    state = "failed" if status.state is ServerState.BACKING_OFF else status.state.value
    if not status.last_error:
        return state
    return f"{state}: {status.last_error}".replace("\n", "\n      ")


def show_server_log(name: str, message: LoggingMessageNotificationParams) -> None:
    """Print a log message whose logger begins with the name of the server."""
    show_log(replace(message, logger=f"{name} {message.logger or ''}".rstrip()))
