"""A gentle drive: use a server in each revision that it offers, ask for things that do not exist, and record it all.

    for each revision: connect, list everything to the last page, read, get, call, ask wrongly -> `Visit`
    everything that both sides said                                                           -> events for the judge

It is gentle: besides the tools that the user has named, which it calls once, it calls only tools that need no arguments
and say that they change nothing (`readOnlyHint`). It reads at most `MAX_READ` resources, and declines each elicitation.
Every server can refuse the wrong requests without harm.

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
from ..jsonrpc.messages import Object
from ..lib.http.origin import parse_url
from ..revisions import REVISIONS, NotInRevision, Revision, revision_named
from ..transports.base import Direction
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
"""A name that no server has."""
T = TypeVar("T")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass
class Visit:
    """The use of a server in one revision."""

    revision: str
    refusal: str = ""
    """The reason why the server does not speak this revision, or ""."""
    server: str = ""
    """The name and version that the server claims."""
    worked: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """The wrong requests that the server has refused, with its error codes."""
    notes: list[str] = field(default_factory=list)
    """Requests that failed, although nothing was wrong with them, and wrong ones that a server can accept."""
    accepted: list[str] = field(default_factory=list)
    """The wrong requests that the server has not refused."""


@dataclass
class Report:
    """The whole drive."""

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
    """Use a server, by its URL or its command. Raise ConnectionClosed if it cannot be reached at all."""
    if not isinstance(server, str):
        report = Report(Head("stdio", command=tuple(server)))
        await _visit_all(report, server, options)
    else:
        report = await _drive_url(server, options)
    if all(visit.refusal for visit in report.visits):
        raise ConnectionClosed(f"the server speaks none of the revisions: {report.visits[0].refusal}")
    return report


async def _drive_url(url: str, options: DriveOptions) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "drive.jsonl")
        # with secrets, because the judge compares headers with bodies; the file is deleted below
        async with record_http(TapeOptions(path, with_secrets=True), url, "127.0.0.1", 0) as own_url:
            report = Report(Head("http", url=url))
            await _visit_all(report, own_url, options)
            served = [visit for visit in reversed(report.visits) if not visit.refusal]
            has_header = all(revision_named(visit.revision).version_header for visit in served)
            of_each_era = {is_stateless(visit.revision): visit for visit in served}
            for visit in of_each_era.values():
                await _ask_wrongly_over_http(visit, own_url, parse_url(url)[1].is_loopback, has_header, options)
        with open(path, "rb") as file:
            parse_head(file.readline())
            report.events += read_events(file)
    return report


def is_stateless(name: str) -> bool:
    """Return True for the name of a revision of the modern era."""
    return revision_named(name).era == "modern"


async def _visit_all(report: Report, server: str | Sequence[str], options: DriveOptions) -> None:
    started, calls = time.monotonic(), dict(options.calls)
    for number, revision in enumerate(sorted(options.revisions, reverse=True), 1):
        witness = _Witness(report.events, number, started)
        visit = Visit(revision.name)
        report.visits.append(visit)
        try:
            async with Client(
                server, revision=revision, timeout=options.timeout, headers=options.headers or None, cache=False,
                elicitation=_decline, roots=[], on_stderr=witness.stderr,
                trace=witness if not isinstance(server, str) else None,
            ) as client:  # fmt: skip
                await _visit(client, visit, report, calls)
        except (McpError, UnsupportedRevision) as error:
            if visit.server:
                visit.notes.append(f"the conversation ended: {error}")
            else:
                visit.refusal = str(error)
        if not isinstance(server, str):
            report.events.append(End("server", at=time.monotonic() - started, connection=number))


@dataclass
class _Witness:
    """A trace that keeps the frames of one process as events."""

    events: list[Event]
    connection: int
    started: float

    def __call__(self, direction: Direction, frame: bytes) -> None:
        """Keep a frame."""
        sender: Side = "client" if direction == "->" else "server"
        at = time.monotonic() - self.started
        self.events.append(Frame(sender, content(bytes(frame)), at=at, connection=self.connection))

    def stderr(self, data: bytes) -> None:
        """Keep a piece of standard error."""
        self.events.append(ErrorOutput(content(data), at=time.monotonic() - self.started, connection=self.connection))


async def _decline(request: object) -> ElicitResult:
    return ElicitResult("decline")


async def _visit(client: Client, visit: Visit, report: Report, calls: dict[str, Object]) -> None:
    info = client.server_info
    visit.server = f"{info.name} {info.version}".strip()
    tools = await _tools(client, visit, calls) if client.server_can("tools") else []
    if not report.advice:
        report.advice = advice_on(tools)
    if client.server_can("resources"):
        await _resources(client, visit)
    if client.server_can("prompts"):
        await _prompts(client, visit)
    await _ask_wrongly(client, visit, tools)


async def _try(visit: Visit, what: str, request: Coroutine[object, object, T]) -> T | None:
    """Send a request that has to work. Return its result, or None if it failed."""
    try:
        return await request
    except ConnectionClosed:
        raise
    except (McpError, NotInRevision) as error:
        visit.notes.append(f"{what}: {error}")
        return None


async def _tools(client: Client, visit: Visit, calls: dict[str, Object]) -> list[Tool]:
    tools = await _try(visit, "tools/list", client.list_tools())
    if tools is None:
        return []
    called, harmless = 0, 0
    for tool in tools:
        arguments = calls.pop(tool.name, None)  # before the call: one that ends the connection is not repeated
        if arguments is None and _is_harmless(tool) and not tool.input_schema.get("required"):
            harmless += 1
            arguments = {} if harmless <= MAX_CALLED else None
        if arguments is not None:
            called += await _try(visit, f"call {tool.name}", client.call_tool(tool.name, arguments)) is not None
    visit.notes += [f"call {name}: there is no such tool" for name in calls]
    calls.clear()
    _note_rest(visit, harmless, MAX_CALLED, "tool", "called")
    visit.worked.append(_counted(len(tools), "tool", called, "called"))
    return tools


def _is_harmless(tool: Tool) -> bool:
    return tool.annotations is not None and tool.annotations.read_only_hint is True


def _typed(tool: Tool) -> list[str]:
    """Return the arguments that cannot be a text, also not after a conversion by a lenient server."""
    properties = tool.input_schema.get("properties")
    members = properties.items() if isinstance(properties, dict) else ()
    others = ("integer", "number", "boolean", "array", "object")
    return [name for name, schema in members if isinstance(schema, dict) and schema.get("type") in others]


async def _resources(client: Client, visit: Visit) -> None:
    resources = await _try(visit, "resources/list", client.list_resources())
    templates = await _try(visit, "resources/templates/list", client.list_resource_templates())
    if resources is None:
        return
    read = 0
    for uri in [resource.uri for resource in resources[:MAX_READ]]:
        read += await _try(visit, f"read {uri}", client.read_resource(uri)) is not None
    _note_rest(visit, len(resources), MAX_READ, "resource", "read")
    text = _counted(len(resources), "resource", read, "read")
    visit.worked.append(f"{text}, {_counted(len(templates), 'template')}" if templates else text)


async def _prompts(client: Client, visit: Visit) -> None:
    prompts = await _try(visit, "prompts/list", client.list_prompts())
    if prompts is None:
        return
    simple = [p.name for p in prompts if not any(argument.required for argument in p.arguments or [])]
    got = 0
    for name in simple[:MAX_GOT]:
        got += await _try(visit, f"get {name}", client.get_prompt(name)) is not None
    _note_rest(visit, len(simple), MAX_GOT, "prompt", "got")
    visit.worked.append(_counted(len(prompts), "prompt", got, "got"))


def _note_rest(visit: Visit, number: int, most: int, name: str, done: str) -> None:
    """Note how many things the limit has left out."""
    if number > most:
        were = "was" if number == most + 1 else "were"
        visit.notes.append(f"{_counted(number - most, name)} {were} not {done}: at most {most} are")


def _counted(number: int, name: str, used: int = 0, done: str = "") -> str:
    """Return a text such as `3 tools (2 called)`."""
    return f"{number} {name}{'' if number == 1 else 's'}" + (f" ({used} {done})" if used else "")


async def _ask_wrongly(client: Client, visit: Visit, tools: Sequence[Tool]) -> None:
    """Send requests that a server must refuse. Then cancel one, and see that the server still responds."""
    session, seconds = client.session, client.timeout
    unknown = session.request("mcp-ref/no-such", CustomData({}), CustomData, timeout=seconds)
    wrong: dict[str, Coroutine[object, object, object]] = {"unknown method": unknown}
    if client.server_can("tools"):
        wrong["unknown tool"] = client.call_tool(NO_SUCH, {})
        cursor = PaginatedRequestParams(cursor=NO_SUCH)
        if client.revision.pagination:
            wrong["wrong cursor"] = session.request("tools/list", cursor, ListToolsResult, timeout=seconds)
    misused = next(((tool.name, name) for tool in tools if _is_harmless(tool) for name in _typed(tool)), None)
    if misused is not None:
        wrong["wrong argument type"] = client.call_tool(misused[0], {misused[1]: NO_SUCH})
    if client.server_can("resources"):
        wrong["unknown resource"] = client.read_resource(f"{NO_SUCH}://a")
    if client.server_can("prompts"):
        wrong["unknown prompt"] = client.get_prompt(NO_SUCH)
    for what, request in wrong.items():
        await _expect_refusal(visit, what, request)
    if client.server_can("tools"):
        cancelled = asyncio.create_task(client.list_tools())
        await asyncio.sleep(0)  # the request is sent
        cancelled.cancel()
        await asyncio.wait([cancelled])
        await _try(visit, "tools/list after a cancelled request", client.list_tools())


async def _expect_refusal(visit: Visit, what: str, request: Coroutine[object, object, object]) -> None:
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
        elif what != "wrong cursor":  # [2025-11-25 server/utilities/pagination#error-handling] only SHOULD be an error
            visit.accepted.append(f"{what}: the server did not refuse it")


async def _ask_wrongly_over_http(
    visit: Visit, url: str, is_local: bool, has_header: bool, options: DriveOptions
) -> None:
    """Send a request with headers that a server must refuse. Without them it has to work, or nothing is known.

    Args:
        visit: The visit of the last revision of an era.
        url: The URL of the recorder.
        is_local: True if the server is on this machine.
        has_header: True if all revisions of the server have the header MCP-Protocol-Version.
        options: The time limit, and the headers of every request.
    """
    method, params = "tools/list", Object(_meta={PROTOCOL_VERSION: visit.revision, CLIENT_CAPABILITIES: {}})
    if not is_stateless(visit.revision):
        client: Object = {"name": "mcp_ref", "version": __version__}
        method, params = "initialize", {"protocolVersion": visit.revision, "capabilities": {}, "clientInfo": client}
    usual = {"Host": str(parse_url(url)[1]), "Content-Type": "application/json",
             "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": visit.revision,
             **options.headers}  # fmt: skip
    if is_stateless(visit.revision):
        usual["Mcp-Method"] = method

    async def status(changed: Mapping[str, str | None], method: str = method, params: Object = params) -> int:
        """Return the status of a request with changed headers. None leaves a header out."""
        headers = {name: value for name, value in {**usual, **changed}.items() if value is not None}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        return await _status(url, headers, body, options.timeout)

    if not _is_accepted(await status({})):
        return  # such as a protected server, or one over HTTP+SSE
    _note(visit, "a foreign Origin", await status({"Origin": "https://mcp-ref.invalid"}), visit.accepted)
    if is_local:  # the check of Host is advice: without it, a web page can reach the server by DNS rebinding
        _note(visit, "a foreign Host", await status({"Host": "mcp-ref.invalid"}), visit.notes)
    if is_stateless(visit.revision):
        accepted = visit.accepted if has_header else visit.notes  # it can be a request of an earlier revision
        _note(visit, "a request without MCP-Protocol-Version", await status({"MCP-Protocol-Version": None}), accepted)
    else:
        unknown = await status({"Mcp-Session-Id": NO_SUCH}, "ping", {})
        _note(visit, "an unknown session", unknown, [])  # a server without sessions can ignore it


def _is_accepted(status: int) -> bool:
    return 200 <= status < 300


def _note(visit: Visit, what: str, status: int, accepted: list[str]) -> None:
    if _is_accepted(status):
        accepted.append(f"{what}: status {status}, so the server did not refuse it")
    elif 400 <= status < 500:
        visit.refused.append(f"{what} ({status})")
    else:
        visit.notes.append(f"{what}: status {status}")


async def _status(url: str, headers: Mapping[str, str], body: bytes, seconds: float) -> int:
    """Return the status of a response, or 0 without one. `HttpClient` would not send a foreign Host."""
    parts, origin = parse_url(url)
    lines = [f"POST {parts.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
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
        properties = tool.input_schema.get("properties")
        members = properties.items() if isinstance(properties, dict) else ()
        bare = [name for name, schema in members if not isinstance(schema, dict) or not schema.get("description")]
        if bare:
            found.append(f"{tool.name}: no description of {', '.join(bare)}")
    return found
