"""`--config FILE`: the client commands with the servers of a configuration file, and with the user's consent.

`list` starts all servers, while the other commands start only the server of the given name: `call weather.forecast`.
A downloaded file can name any program, so a server starts only if the user allows it, or with `--yes`. The decisions
are stored in `mcp_ref/approvals.json` in the user's folder for state. If the start of a server (host/launch.py) or the
definition of a tool has changed since, the user must allow the change.

Spec:  architecture/index; 2026-07-28 index#key-principles
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import AsyncIterator, Collection
from dataclasses import replace
from typing import cast

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
from ..lib.text import escape_hidden, fold
from ..session import DEFAULT_TIMEOUT
from ..transports.trace import tracer
from . import UsageError, did_you_mean, show, usage_errors
from .authorization import authorizer_for
from .client_commands import Lists, report_failure, run_and_report, run_command, show_log, show_stderr
from .person import SERVER_TEXTS, ask_line, confirms, elicitation_handler, has_terminal, hidden_input

MAX_APPROVAL_BYTES = 900_000
"""Maximum size of all stored decisions, in bytes. Further decisions are refused, because forgetting an older one would
let its server change a tool unnoticed."""

MAX_ROWS = 20
"""Number of rows above which an approval repeats its most important lines."""
MAX_REPEATED_WARNINGS = 5
"""Maximum number of warnings in the repeated lines."""

SINGLE_SERVER_OPTIONS = ("revision", "env", "header", "root", "token_env", "token_file", "command")
"""The options for one server. A command with `--config` refuses them."""


def refuse_single_server_options(options: argparse.Namespace, allowed: Collection[str] = ()) -> None:
    """Raise UsageError for an option of a single server, such as a token, which all servers would get."""
    for name in SINGLE_SERVER_OPTIONS:
        if name not in allowed and getattr(options, name):
            shown = "the server's command or URL" if name == "command" else f"--{name.replace('_', '-')}"
            raise UsageError(f"{shown} does not work with --config: the file contains the settings of each server")


def run_host_command(options: argparse.Namespace) -> int:
    if options.find:
        for path in find_configs(os.getcwd()):
            show.out(str(path))
        return 0
    refuse_single_server_options(options)
    with usage_errors():
        configuration = read_config(options.config)
    server = "" if options.name == "list" else take_server_name(options, configuration)
    servers = tuple(each for each in configuration.servers if server in ("", each.name))
    # The commands print the state of each server, so hide the warnings of the package `host`.
    logger = logging.getLogger(Host.__module__.rpartition(".")[0])
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        return run_and_report(_run(replace(configuration, servers=servers), server, options))
    finally:
        logger.setLevel(level)


def take_server_name(options: argparse.Namespace, configuration: Configuration) -> str:
    """Return SERVER of the target `SERVER.NAME`, and set the target to NAME. For one server, NAME is enough."""
    names = [each.name for each in configuration.servers]
    if not names:
        raise UsageError(f"{options.config} lists no server")
    server, dot, own = options.target.partition(".")
    if dot and server in names:
        options.target = own
        return str(server)
    if len(names) != 1:
        advice = f"write the server's name and a dot before the name, such as {full_name(names[0], 'NAME')}"
        raise UsageError(advice + did_you_mean(server, names))
    return names[0]


async def _run(configuration: Configuration, server: str, options: argparse.Namespace) -> int:
    consent = Consent(options.yes, full_name(server, options.target))
    person = elicitation_handler(f"The server {server}", consent.terminal)
    async with kept_approvals() as approvals:
        host = Host(
            configuration, approve=consent.approve, ask=consent.ask if has_terminal() else None, approvals=approvals,
            elicitation=None if person is None else lambda _, request: person(request),
            elicitation_url=person is not None, startup_wait=APPROVE_SECONDS,
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
            return report_failure(4 if any(status.needs_sign_in for status in host.status()) else 3, error)
        except UnknownName as error:
            return report_failure(1, error)


class Approvals(dict[str, str]):
    """The decisions of this user. Storing one raises Refused if their file would be too large."""

    def __setitem__(self, key: str, decision: str) -> None:
        size = sum(len(name) + len(text) + 10 for name, text in self.items() if name != key)  # 10 for JSON's quotes
        if size + len(key) + len(decision) > MAX_APPROVAL_BYTES:
            path = default_path().with_name(APPROVALS)
            raise Refused(f"the decision cannot be stored, because {path} is full; delete this file to decide again")
        super().__setitem__(key, decision)


@contextlib.asynccontextmanager
async def kept_approvals() -> AsyncIterator[dict[str, str]]:
    """Return a context manager with the stored decisions. At its end, store the new ones."""
    try:
        store = FileStore(default_path().with_name(APPROVALS))
    except RuntimeError:  # the user has no home directory
        yield {}
        return
    before = cast("dict[str, str]", await store.get("approvals") or {})
    approvals = Approvals(before)
    try:
        yield approvals
    finally:
        if approvals != before:
            meanwhile = await store.get("approvals") or {}  # another program can have stored decisions
            await store.put("approvals", {**meanwhile, **approvals})


APPROVALS = "approvals.json"
"""The name of the file with the stored decisions, in the user's folder for state."""
_PROMPTS = {
    "start": "Start this server?",
    "variable": "Let this file set the variable?",
    "roots": "Give the server these directories?",
}


class Consent:
    """The user's decisions at the terminal. Without a terminal, a server starts only with `--yes` or a stored decision.

    With `--yes`, a changed tool still needs consent, and so does a dangerous variable in a file that is not the user's
    own. `name` is the full name of the tool to call.
    """

    def __init__(self, is_yes: bool, name: str) -> None:
        self.terminal = asyncio.Lock()
        """The lock of the terminal, which shows one request at a time."""
        self.changed_tool: asyncio.Future[Tool | None] = asyncio.get_running_loop().create_future()
        """The changed definition of the tool to call, or None if the user has not allowed it."""
        self._is_yes, self._name = is_yes, name

    async def approve(self, request: Approval) -> Allow | Deny:
        if request.kind == "elicit":
            return Allow()  # the form lets the user decline, and `ask_person` shows the warnings of a URL
        if request.kind == "definition":
            return await self._approve_definition(request)
        if self._is_yes and request.kind != "variable":
            return Allow()
        if not has_terminal():
            advice = "--yes allows the servers of this file"
            if request.kind == "variable":
                advice = (
                    f"the file is not your own, so --yes does not allow it: {'; '.join(request.warnings)}. Run the "
                    f"command at a terminal, or set {quoted(request.name)} to the same value in your own environment"
                )
            return Deny(f"there is no terminal at which a user could allow it; {advice}")
        prompt = _PROMPTS[request.kind]
        if not request.warnings:
            prompt += " (A yes is also valid later, in this folder, until one of these lines changes.)"
        return Allow("always") if await self._confirm(request, prompt) else Deny()

    async def _approve_definition(self, request: Approval) -> Allow | Deny:
        """Show the definition of the tool to call. Deny the other tools, because the command does not need them."""
        is_allowed = False
        try:
            is_allowed = request.name == self._name and await self._confirm(request, "Allow this definition?")
        finally:
            if request.name == self._name and not self.changed_tool.done():
                self.changed_tool.set_result(request.tool if is_allowed else None)
        return Allow() if is_allowed else Deny()

    async def _confirm(self, request: Approval, prompt: str) -> bool:
        if not has_terminal():
            return False
        async with self.terminal:
            with SERVER_TEXTS.held():
                text = request.text(show.columns(sys.stderr))
                show.note(f"\n{text}")
                rows = text.count("\n") + 1
                if rows > MAX_ROWS:  # the most important lines come first, and are out of sight
                    show.note(f"\n(Scroll up to read all {rows} rows.)\n{_summary(request)}")
                return await confirms(prompt)

    async def ask(self, id: str, description: str, is_password: bool) -> str:
        """Return the value that the user types for `${input:id}`."""
        prompt = fold(f"The file asks for {id}: {description or id}: ", show.columns(sys.stderr))
        async with self.terminal:
            try:
                with SERVER_TEXTS.held(), hidden_input() if is_password else contextlib.nullcontext():
                    return (await ask_line(prompt)).rstrip("\n")
            except EOFError:
                raise Refused(f"no value was typed for the input {id}") from None


def _summary(request: Approval) -> str:
    """Return the most important lines of an approval: the server, the first dangers, and the program."""
    shown = replace(
        request, warnings=request.warnings[:MAX_REPEATED_WARNINGS], paths=(), settings=(), arguments=None, content=None
    )
    hidden_count = len(request.warnings) - MAX_REPEATED_WARNINGS
    rest = f"\nand {hidden_count} more warnings" if hidden_count > 0 else ""
    return shown.text(show.columns(sys.stderr)) + rest


async def check_tool(host: Host, server: str, tool: str, consent: Consent) -> Tool:
    """Return the allowed definition of a tool, so that the call does not list the tools again.

    Raise UnknownName for a missing or excluded tool, or Refused if the user does not allow a changed definition.
    """
    name, known = full_name(server, tool), {each.full_name: each.definition for each in await host.list_tools()}
    reason = host.status()[0].unapproved_tools.get(tool)
    if reason == "not stored":  # the host asks nobody about it
        raise Refused(f"the definition of {name} is not allowed, because it could not be stored")
    if reason is not None:
        allowed = await consent.changed_tool  # the host asks in the background
        if allowed is not None:
            return allowed
        advice = "" if has_terminal() else ": call it at a terminal, read its definition, and allow it"
        raise Refused(f"the definition of {name} is not allowed ({reason}){advice}")
    if name not in known:
        raise UnknownName("tool", name, known)
    return known[name]


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
        show.as_json({"servers": servers, **lists.as_json()})
    else:
        for status in states:
            show.out(f"{escape_hidden(status.name, keep='')}  {_state_text(status)}")
            for warning in status.warnings:
                show.note(f"warning: {warning}")
        lists.show()
    not_ready = [status for status in states if status.state not in (ServerState.READY, ServerState.DISABLED)]
    if not not_ready:
        return 0
    return 4 if all(status.needs_sign_in for status in not_ready) else 3


def _state_text(status: ServerStatus) -> str:
    if status.state is not ServerState.READY:
        state = "failed" if status.state is ServerState.BACKING_OFF else status.state.value
        return f"{state}: {status.last_error}".replace("\n", "\n      ") if status.last_error else state
    unapproved = ", ".join(f"{escape_hidden(name, keep='')} ({why})" for name, why in status.unapproved_tools.items())
    return f"ready, revision {status.revision}" + (f"; not allowed: {unapproved}" if unapproved else "")


def show_server_log(name: str, message: LoggingMessageNotificationParams) -> None:
    show_log(replace(message, logger=f"{name} {message.logger or ''}".rstrip()))
