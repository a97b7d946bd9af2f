"""A gentle drive: use a server in each revision that it offers, ask for things that do not exist, and record it all.

    for each revision: connect, list, read, get and call, then send wrong requests -> `Visit`, a report for the user
    every message of both sides                                                    -> events for the judge (check/)

A drive is gentle. It calls only two kinds of tools: those that the user has named, each of them once, and those that
need no arguments and say that they change nothing (`readOnlyHint`). It reads at most `MAX_READ` resources, and declines
each elicitation. A wrong request does no harm even if it is accepted, because it calls no tool but a read-only one.

Used by: cli/drive.py. Uses: client/, proxy.py, wrong_headers.py
"""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
import time
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from ..basic.lifecycle import UnsupportedRevision
from ..basic.meta import PaginatedRequestParams
from ..check.recording import End, ErrorOutput, Event, Frame, Head, Side, content, parse_head, read_events
from ..client.client import Client
from ..features.custom_methods import CustomData
from ..features.elicitation import ElicitResult
from ..features.tools import ListToolsResult, Tool
from ..jsonrpc.errors import ConnectionClosed, McpError, RemoteError
from ..jsonrpc.messages import JSON, Object
from ..lib.http.origin import parse_url
from ..revisions import REVISIONS, NotInRevision, Revision, revision_named
from ..transports.base import Direction, finish
from .proxy import record_http
from .tape import TapeOptions
from .wrong_headers import SUCCESS, Trial, try_wrong_headers

MAX_READ: Final = 20
"""Maximum number of resources that are read in one revision."""
MAX_CALLED, MAX_GOT = 100, 100
"""Maximum number of read-only tools that are called, and of prompts that are got, in one revision."""
MAX_TOOLS: Final = 40
"""Number of tools above which models choose worse, and some hosts refuse the rest."""
NO_SUCH: Final = "mcp-ref-no-such"
"""A name that no tool, resource or prompt has."""
T = TypeVar("T")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""A name of a tool that every host accepts."""


@dataclass
class Visit:
    """The part of a drive in one revision."""

    revision: str
    refusal: str = ""
    """The reason why the server does not speak this revision, or ""."""
    server: str = ""
    """The name and version that the server claims."""
    worked: list[str] = field(default_factory=list)
    """A text for each feature that the server offers, with the number of uses, such as `3 tools (2 called)`."""
    refused: list[str] = field(default_factory=list)
    """The wrong requests that the server has refused, with the error code or the HTTP status."""
    notes: list[str] = field(default_factory=list)
    """Valid requests that failed, wrong requests that a server may accept, and uses that were left out."""
    accepted: list[str] = field(default_factory=list)
    """The wrong requests that the server should have refused."""


@dataclass
class Report:
    """The result of a drive."""

    head: Head
    visits: list[Visit] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    misread_definitions: list[str] = field(default_factory=list)
    """A text for each definition that models or hosts misread."""


@dataclass(frozen=True)
class DriveOptions:
    """The options of a drive."""

    calls: Mapping[str, Object] = field(default_factory=dict)
    """The tools to call once, with their arguments."""
    timeout: float = 10.0
    """Time limit of each request, in seconds."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """HTTP headers of every request."""
    revisions: Sequence[Revision] = REVISIONS


async def drive(server: str | Sequence[str], options: DriveOptions) -> Report:
    """Use a server, given by its URL or its command. Raise ConnectionClosed if it speaks none of the revisions."""
    if not isinstance(server, str):
        report = Report(Head("stdio", command=tuple(server)))
        await _visit_all(report, server, options)
    else:
        report = await _drive_url(server, options)
    if all(visit.refusal for visit in report.visits):
        refusal = report.visits[0].refusal
        if isinstance(server, str):  # the recorder in between has hidden the reason, such as a wrong port
            refusal = await _refusal_of_url(server, options) or refusal
        raise ConnectionClosed(f"the server speaks none of the revisions: {refusal}")
    return report


async def _refusal_of_url(url: str, options: DriveOptions) -> str:
    """Return the reason why a client that speaks all revisions cannot connect without a recorder, or ""."""
    try:
        async with Client(url, timeout=options.timeout, headers=options.headers or None):
            return ""
    except (McpError, UnsupportedRevision) as error:
        return str(error)


async def _drive_url(url: str, options: DriveOptions) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "drive.jsonl")
        # with secrets, because the judge compares headers with bodies; the file is deleted with its folder
        async with record_http(TapeOptions(path, with_secrets=True), url, "127.0.0.1", 0) as own_url:
            report = Report(Head("http", url=url))
            await _visit_all(report, own_url, options)
            await _send_wrong_headers(report, own_url, parse_url(url)[1].is_loopback, options)
        with open(path, "rb") as file:
            parse_head(file.readline())
            report.events += read_events(file)
    return report


async def _send_wrong_headers(report: Report, own_url: str, is_local: bool, options: DriveOptions) -> None:
    """Send requests with wrong headers in the latest revision of each era, and note the outcome in its visit."""
    spoken = [visit for visit in report.visits if not visit.refusal]
    needs_version = all(revision_named(visit.revision).version_header for visit in spoken)
    # the visits begin with the latest revision, so reversed, the latest one of an era replaces the others
    visit_by_era = {revision_named(visit.revision).era: visit for visit in reversed(spoken)}
    for visit in visit_by_era.values():
        trials = await try_wrong_headers(
            own_url, revision_named(visit.revision), options.headers, options.timeout,
            is_local=is_local, needs_version=needs_version,
        )  # fmt: skip
        for trial in trials:
            _note_trial(visit, trial)


def _note_trial(visit: Visit, trial: Trial) -> None:
    if trial.status in SUCCESS:
        notes = visit.accepted if trial.must_be_refused else visit.notes
        notes.append(f"{trial.what}: status {trial.status}, so the server did not refuse it")
    elif 400 <= trial.status < 500:
        visit.refused.append(f"{trial.what} ({trial.status})")
    else:
        visit.notes.append(f"{trial.what}: status {trial.status}")


async def _visit_all(report: Report, server: str | Sequence[str], options: DriveOptions) -> None:
    """Visit the server in each revision, from the latest. The events of a URL's server come from the recorder."""
    started = time.monotonic()
    calls = dict(options.calls)  # each is called in one revision only, and then removed
    is_process = not isinstance(server, str)
    for number, revision in enumerate(sorted(options.revisions, reverse=True), 1):
        events = _ProcessEvents(report.events, number, started)
        visit = Visit(revision.name)
        report.visits.append(visit)
        try:
            async with Client(
                server, revision=revision, timeout=options.timeout, headers=options.headers or None, cache=False,
                elicitation=_decline, roots=[], on_stderr=events.add_stderr,
                trace=events.add_frame if is_process else None,
            ) as client:  # fmt: skip
                await _visit(client, visit, report, calls)
        except (McpError, UnsupportedRevision) as error:
            if visit.server:  # the client had connected
                visit.notes.append(f"the conversation ended: {error}")
            elif isinstance(error, UnsupportedRevision) and error.__cause__ is not None:
                visit.refusal = str(error.__cause__)  # without the advice to name no revision, as the drive names each
            else:
                visit.refusal = str(error)
        if is_process:
            report.events.append(End("server", at=time.monotonic() - started, connection=number))


@dataclass
class _ProcessEvents:
    """The frames and the standard error of one process, which are added to the `events` of the report."""

    events: list[Event]
    connection: int
    """Number of the process."""
    started: float
    """Time of the start of the drive, in seconds of the monotonic clock."""

    def add_frame(self, direction: Direction, frame: bytes) -> None:
        sender: Side = "client" if direction == "->" else "server"
        at = time.monotonic() - self.started
        self.events.append(Frame(sender, content(bytes(frame)), at=at, connection=self.connection))

    def add_stderr(self, data: bytes) -> None:
        self.events.append(ErrorOutput(content(data), at=time.monotonic() - self.started, connection=self.connection))


async def _decline(request: object) -> ElicitResult:
    return ElicitResult("decline")


async def _visit(client: Client, visit: Visit, report: Report, calls: dict[str, Object]) -> None:
    """Use all features of the server, then send wrong requests. Remove the tools that are called from `calls`."""
    info = client.server_info
    visit.server = f"{info.name} {info.version}".strip()
    tools = await _use_tools(client, visit, calls) if client.server_can("tools") else []
    if not report.misread_definitions:
        report.misread_definitions = advice_on(tools)
    if client.server_can("resources"):
        await _use_resources(client, visit)
    if client.server_can("prompts"):
        await _use_prompts(client, visit)
    await _send_wrong_requests(client, visit, tools)


async def _try(visit: Visit, what: str, request: Coroutine[object, object, T]) -> T | None:
    """Send a valid request. Return its result, or note that `what` has failed and return None."""
    try:
        return await request
    except ConnectionClosed:
        raise
    except (McpError, NotInRevision) as error:
        method, _, _ = what.partition(" ")
        reason = str(error).removeprefix(f"{method}: ")  # the text of a timeout names the method, too
        visit.notes.append(f"{what}: {reason}")
        return None


async def _use_tools(client: Client, visit: Visit, calls: dict[str, Object]) -> list[Tool]:
    tools = await _try(visit, "tools/list", client.list_tools())
    if tools is None:
        return []
    called = read_only = 0
    for tool in tools:
        # removed before the call, because a call that ends the connection must not be repeated in the next revision
        arguments = calls.pop(tool.name, None)
        if arguments is None:  # the user has not named it
            if not _is_read_only(tool) or tool.input_schema.get("required"):
                continue
            read_only += 1
            if read_only > MAX_CALLED:
                continue
            arguments = {}
        if await _try(visit, f"call {tool.name}", client.call_tool(tool.name, arguments)) is not None:
            called += 1
    visit.notes += [f"call {name}: there is no such tool" for name in calls]
    calls.clear()
    _note_left_out(visit, read_only, MAX_CALLED, "tool", "called")
    visit.worked.append(_counted(len(tools), "tool", called, "called"))
    return tools


def _is_read_only(tool: Tool) -> bool:
    return tool.annotations is not None and tool.annotations.read_only_hint is True


def _argument_schemas(tool: Tool) -> dict[str, JSON]:
    properties = tool.input_schema.get("properties")
    return properties if isinstance(properties, dict) else {}


async def _use_resources(client: Client, visit: Visit) -> None:
    resources = await _try(visit, "resources/list", client.list_resources())
    templates = await _try(visit, "resources/templates/list", client.list_resource_templates())
    if resources is None:
        return
    read = 0
    for uri in [resource.uri for resource in resources[:MAX_READ]]:
        if await _try(visit, f"read {uri}", client.read_resource(uri)) is not None:
            read += 1
    _note_left_out(visit, len(resources), MAX_READ, "resource", "read")
    text = _counted(len(resources), "resource", read, "read")
    visit.worked.append(f"{text}, {_counted(len(templates), 'template')}" if templates else text)


async def _use_prompts(client: Client, visit: Visit) -> None:
    prompts = await _try(visit, "prompts/list", client.list_prompts())
    if prompts is None:
        return
    without_arguments = [
        prompt.name for prompt in prompts if not any(argument.required for argument in prompt.arguments or [])
    ]
    got = 0
    for name in without_arguments[:MAX_GOT]:
        if await _try(visit, f"get {name}", client.get_prompt(name)) is not None:
            got += 1
    _note_left_out(visit, len(without_arguments), MAX_GOT, "prompt", "got")
    visit.worked.append(_counted(len(prompts), "prompt", got, "got"))


def _note_left_out(visit: Visit, number: int, most: int, name: str, done: str) -> None:
    if number > most:
        visit.notes.append(f"not {done}: {_counted(number - most, name)} (the limit is {most})")


def _counted(number: int, name: str, used: int = 0, done: str = "") -> str:
    """Return a text such as `3 tools (2 called)`."""
    counted = f"{number} {name}" if number == 1 else f"{number} {name}s"
    return f"{counted} ({used} {done})" if used else counted


async def _send_wrong_requests(client: Client, visit: Visit, tools: Sequence[Tool]) -> None:
    """Send requests that a server must refuse. Then cancel a valid one, and check that the server still responds."""
    unknown = client.session.request("mcp-ref/no-such", CustomData({}), CustomData, timeout=client.timeout)
    await _expect_refusal(visit, "unknown method", unknown)
    if client.server_can("tools"):
        await _send_wrong_tool_requests(client, visit, tools)
    if client.server_can("resources"):
        await _expect_refusal(visit, "unknown resource", client.read_resource(f"{NO_SUCH}://a"))
    if client.server_can("prompts"):
        await _expect_refusal(visit, "unknown prompt", client.get_prompt(NO_SUCH))
    if client.server_can("tools"):
        cancelled = asyncio.create_task(client.list_tools())
        await asyncio.sleep(0)  # lets the task send its request
        await finish(cancelled, cancel=True)
        await _try(visit, "tools/list after a cancelled request", client.list_tools())


async def _send_wrong_tool_requests(client: Client, visit: Visit, tools: Sequence[Tool]) -> None:
    await _expect_refusal(visit, "unknown tool", client.call_tool(NO_SUCH, {}))
    if client.revision.pagination:
        cursor = PaginatedRequestParams(cursor=NO_SUCH)
        wrong = client.session.request("tools/list", cursor, ListToolsResult, timeout=client.timeout)
        # [2025-11-25 server/utilities/pagination#error-handling] it SHOULD be refused
        await _expect_refusal(visit, "wrong cursor", wrong, is_required=False)
    # the first argument of a read-only tool that does not take a string
    misused = [(tool.name, name) for tool in tools if _is_read_only(tool) for name in _non_string_arguments(tool)]
    if misused:
        tool_name, argument = misused[0]
        await _expect_refusal(visit, "wrong argument type", client.call_tool(tool_name, {argument: NO_SUCH}))


def _non_string_arguments(tool: Tool) -> list[str]:
    """Return the arguments for which `NO_SUCH` is wrong, even if a lenient server converts strings to numbers."""
    types, schemas = ("integer", "number", "boolean", "array", "object"), _argument_schemas(tool)
    return [name for name, schema in schemas.items() if isinstance(schema, dict) and schema.get("type") in types]


async def _expect_refusal(
    visit: Visit, what: str, request: Coroutine[object, object, object], is_required: bool = True
) -> None:
    """Send a wrong request, and note the outcome. `is_required` is False if a server may accept it."""
    try:
        result = await request
    except RemoteError as error:
        visit.refused.append(f"{what} ({error.code})")
    except ConnectionClosed:
        raise
    except McpError as error:
        visit.notes.append(f"{what}: {error}")
    else:
        if getattr(result, "is_error", False):
            visit.refused.append(f"{what} (isError)")
        elif is_required:
            visit.accepted.append(f"{what}: the server did not refuse it")


def advice_on(tools: Iterable[Tool]) -> list[str]:
    """Return a line for each definition that models or hosts misread."""
    found, tools = list[str](), list(tools)
    if len(tools) > MAX_TOOLS:
        found.append(f"{len(tools)} tools: models choose worse among more than {MAX_TOOLS}")
    for tool in tools:
        if not (tool.description or "").strip():
            found.append(f"{tool.name}: no description, so a model has to guess from the name")
        if _PLAIN_NAME.fullmatch(tool.name) is None:
            found.append(f"{tool.name}: hosts refuse names other than 1 to 64 letters, digits, _ and -")
        schemas = _argument_schemas(tool).items()
        undescribed = [
            name for name, schema in schemas if not isinstance(schema, dict) or not schema.get("description")
        ]
        if undescribed:
            found.append(f"{tool.name}: no description of {', '.join(undescribed)}")
    return found
