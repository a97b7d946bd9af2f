"""A gentle drive: use a server in each revision that it offers, ask for things that do not exist, and record it all.

    for each revision: connect, list, read, get and call, then send wrong requests -> `Visit`
    every message of both sides                                                    -> events for the judge

A drive is gentle: it calls only the tools that the user has named, each of them once, and tools that need no arguments
and say that they change nothing (`readOnlyHint`). It reads at most `MAX_READ` resources, and declines each elicitation.
A wrong request does no harm even if it is accepted, because it calls no tool but a read-only one.

Used by: cli/drive.py. Uses: client/, proxy.py
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import tempfile
import time
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from ..basic.lifecycle import UnsupportedRevision
from ..basic.meta import PaginatedRequestParams
from ..basic.versioning import CLIENT_CAPABILITIES, PROTOCOL_VERSION
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
from ..version import __version__
from .proxy import record_http
from .tape import TapeOptions

MAX_READ: Final = 20
"""Maximum number of resources that are read in one revision."""
MAX_CALLED, MAX_GOT = 100, 100
"""Maximum number of read-only tools that are called, and of prompts that are got, in one revision."""
MAX_TOOLS: Final = 40
"""Number of tools above which models choose worse, and some hosts refuse the rest."""
NO_SUCH: Final = "mcp-ref-no-such"
"""A name that no tool, resource, prompt or session has."""
T = TypeVar("T")
_SUCCESS: Final = range(200, 300)
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


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
    advice: list[str] = field(default_factory=list)
    """Definitions that models or hosts misread."""


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
    """Use a server, by its URL or its command. Raise ConnectionClosed if it speaks none of the revisions."""
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
            spoken = [visit for visit in report.visits if not visit.refusal]
            has_header = all(revision_named(visit.revision).version_header for visit in spoken)
            # the visits begin with the latest revision, so reversed, the latest one of an era replaces the others
            visit_by_era = {revision_named(visit.revision).era: visit for visit in reversed(spoken)}
            for visit in visit_by_era.values():
                await _send_wrong_headers(visit, own_url, parse_url(url)[1].is_loopback, has_header, options)
        with open(path, "rb") as file:
            parse_head(file.readline())
            report.events += read_events(file)
    return report


async def _visit_all(report: Report, server: str | Sequence[str], options: DriveOptions) -> None:
    started = time.monotonic()
    calls = dict(options.calls)  # each is called in one revision only, and then removed
    for number, revision in enumerate(sorted(options.revisions, reverse=True), 1):
        witness = _Witness(report.events, number, started)
        visit = Visit(revision.name)
        report.visits.append(visit)
        try:
            async with Client(
                server, revision=revision, timeout=options.timeout, headers=options.headers or None, cache=False,
                elicitation=_decline, roots=[], on_stderr=witness.stderr,
                trace=None if isinstance(server, str) else witness,
            ) as client:  # fmt: skip
                await _visit(client, visit, report, calls)
        except (McpError, UnsupportedRevision) as error:
            if visit.server:  # the client had connected
                visit.notes.append(f"the conversation ended: {error}")
            else:
                visit.refusal = str(error)
        if not isinstance(server, str):
            report.events.append(End("server", at=time.monotonic() - started, connection=number))


@dataclass
class _Witness:
    """A trace that keeps the frames and the standard error of one process as events."""

    events: list[Event]
    connection: int
    started: float

    def __call__(self, direction: Direction, frame: bytes) -> None:
        sender: Side = "client" if direction == "->" else "server"
        at = time.monotonic() - self.started
        self.events.append(Frame(sender, content(bytes(frame)), at=at, connection=self.connection))

    def stderr(self, data: bytes) -> None:
        self.events.append(ErrorOutput(content(data), at=time.monotonic() - self.started, connection=self.connection))


async def _decline(request: object) -> ElicitResult:
    return ElicitResult("decline")


async def _visit(client: Client, visit: Visit, report: Report, calls: dict[str, Object]) -> None:
    info = client.server_info
    visit.server = f"{info.name} {info.version}".strip()
    tools = await _use_tools(client, visit, calls) if client.server_can("tools") else []
    if not report.advice:
        report.advice = advice_on(tools)
    if client.server_can("resources"):
        await _use_resources(client, visit)
    if client.server_can("prompts"):
        await _use_prompts(client, visit)
    await _send_wrong_requests(client, visit, tools)


async def _try(visit: Visit, what: str, request: Coroutine[object, object, T]) -> T | None:
    """Send a valid request. Return its result, or note that it failed and return None."""
    try:
        return await request
    except ConnectionClosed:
        raise
    except (McpError, NotInRevision) as error:
        visit.notes.append(f"{what}: {error}")
        return None


async def _use_tools(client: Client, visit: Visit, calls: dict[str, Object]) -> list[Tool]:
    tools = await _try(visit, "tools/list", client.list_tools())
    if tools is None:
        return []
    called = read_only = 0
    for tool in tools:
        # removed before the call, because a call that ends the connection must not be repeated in the next revision
        arguments = calls.pop(tool.name, None)
        if arguments is None and _is_read_only(tool) and not tool.input_schema.get("required"):
            read_only += 1
            arguments = {} if read_only <= MAX_CALLED else None
        if arguments is None:
            continue
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
    without_arguments = [each.name for each in prompts if not any(one.required for one in each.arguments or [])]
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
    session, seconds = client.session, client.timeout
    unknown = session.request("mcp-ref/no-such", CustomData({}), CustomData, timeout=seconds)
    await _expect_refusal(visit, "unknown method", unknown)
    if client.server_can("tools"):
        await _expect_refusal(visit, "unknown tool", client.call_tool(NO_SUCH, {}))
        if client.revision.pagination:
            cursor = PaginatedRequestParams(cursor=NO_SUCH)
            wrong = session.request("tools/list", cursor, ListToolsResult, timeout=seconds)
            # [2025-11-25 server/utilities/pagination#error-handling] it SHOULD be refused
            await _expect_refusal(visit, "wrong cursor", wrong, is_required=False)
    misused = [(tool.name, name) for tool in tools if _is_read_only(tool) for name in _non_string_arguments(tool)]
    if misused:
        tool_name, argument = misused[0]
        await _expect_refusal(visit, "wrong argument type", client.call_tool(tool_name, {argument: NO_SUCH}))
    if client.server_can("resources"):
        await _expect_refusal(visit, "unknown resource", client.read_resource(f"{NO_SUCH}://a"))
    if client.server_can("prompts"):
        await _expect_refusal(visit, "unknown prompt", client.get_prompt(NO_SUCH))
    if client.server_can("tools"):
        cancelled = asyncio.create_task(client.list_tools())
        await asyncio.sleep(0)  # lets the task send its request
        await finish(cancelled, cancel=True)
        await _try(visit, "tools/list after a cancelled request", client.list_tools())


def _non_string_arguments(tool: Tool) -> list[str]:
    """Return the arguments for which `NO_SUCH` is wrong, even if a lenient server converts strings to numbers."""
    types, schemas = ("integer", "number", "boolean", "array", "object"), _argument_schemas(tool)
    return [name for name, schema in schemas.items() if isinstance(schema, dict) and schema.get("type") in types]


async def _expect_refusal(
    visit: Visit, what: str, request: Coroutine[object, object, object], is_required: bool = True
) -> None:
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


async def _send_wrong_headers(visit: Visit, url: str, is_local: bool, has_header: bool, options: DriveOptions) -> None:
    """Send requests whose headers a server must refuse, if it accepts the same request with valid headers.

    Args:
        visit: The visit in the latest revision of an era that the server speaks.
        url: The URL of the recorder.
        is_local: True if the server is on this machine.
        has_header: True if all revisions of the server have the header MCP-Protocol-Version.
        options: The time limit, and the headers of every request.
    """
    usual = {"Host": str(parse_url(url)[1]), "Content-Type": "application/json",
             "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": visit.revision,
             **options.headers}  # fmt: skip
    is_modern = revision_named(visit.revision).era == "modern"
    if is_modern:
        method = "tools/list"
        params: Object = {"_meta": {PROTOCOL_VERSION: visit.revision, CLIENT_CAPABILITIES: {}}}
        usual["Mcp-Method"] = method
    else:
        client: Object = {"name": "mcp_ref", "version": __version__}
        method, params = "initialize", {"protocolVersion": visit.revision, "capabilities": {}, "clientInfo": client}

    async def status(changed: Mapping[str, str | None], method: str = method, params: Object = params) -> int:
        """Return the status of a request with changed headers. None leaves a header out."""
        headers = {name: value for name, value in {**usual, **changed}.items() if value is not None}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        return await _post(url, headers, body, options.timeout)

    if await status({}) not in _SUCCESS:
        return  # the server needs a token, for example, or speaks HTTP+SSE
    _note_status(visit, "a foreign Origin", await status({"Origin": "https://mcp-ref.invalid"}), visit.accepted)
    if is_local:  # a note only: no revision demands this check, but it keeps out web pages that use DNS rebinding
        _note_status(visit, "a foreign Host", await status({"Host": "mcp-ref.invalid"}), visit.notes)
    if is_modern:
        accepted = visit.accepted if has_header else visit.notes  # without the header, it fits an earlier revision
        without = await status({"MCP-Protocol-Version": None})
        _note_status(visit, "a request without MCP-Protocol-Version", without, accepted)
    else:
        unknown = await status({"Mcp-Session-Id": NO_SUCH}, "ping", {})
        if unknown not in _SUCCESS:  # a server without sessions may ignore the id
            _note_status(visit, "an unknown session", unknown, visit.accepted)


def _note_status(visit: Visit, what: str, status: int, accepted: list[str]) -> None:
    if status in _SUCCESS:
        accepted.append(f"{what}: status {status}, so the server did not refuse it")
    elif 400 <= status < 500:
        visit.refused.append(f"{what} ({status})")
    else:
        visit.notes.append(f"{what}: status {status}")


async def _post(url: str, headers: Mapping[str, str], body: bytes, seconds: float) -> int:
    """Send a POST. Return the status, or 0 without a response. (`HttpClient` would send its own Host.)"""
    parts, origin = parse_url(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = [f"POST {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    lines += ["Connection: close", f"Content-Length: {len(body)}", "", ""]
    with contextlib.suppress(OSError, TimeoutError, ValueError, IndexError):
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_connection(origin.host, origin.port)
            try:
                writer.write("\r\n".join(lines).encode("latin-1") + body)
                return int((await reader.readline()).split()[1])
            finally:
                writer.close()
    return 0


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
        bare = [name for name, schema in schemas if not isinstance(schema, dict) or not schema.get("description")]
        if bare:
            found.append(f"{tool.name}: no description of {', '.join(bare)}")
    return found
