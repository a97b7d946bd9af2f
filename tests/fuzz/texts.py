"""Target: texts from others at each place that prints or asks. No hidden character of them reaches the terminal.

A text has characters of all general categories and hidden code points. A case writes it to one place: a command of the
command line against a server with such texts, a usage error, an elicitation, an approval, the trace, the log, or the
screen of the demo. All output goes to a stream that says that it is a terminal.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import logging
import os
import random
import re
import sys
import tempfile
import unicodedata
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeAlias
from unittest import mock

from mcp_ref import Client, Context, ProtocolError, Server
from mcp_ref.__main__ import main, parse
from mcp_ref.basic.content import (
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from mcp_ref.cli import UsageError, client_commands, person
from mcp_ref.cli.show import note
from mcp_ref.demo.screen import PURPOSE, Screen
from mcp_ref.features.completion import CompleteResult, Completion
from mcp_ref.features.elicitation import ElicitRequestFormParams, ElicitRequestURLParams
from mcp_ref.features.prompts import GetPromptResult, ListPromptsResult, Prompt, PromptArgument, PromptMessage
from mcp_ref.features.resources import ListResourcesResult, ReadResourceResult, Resource
from mcp_ref.features.tools import CallToolResult, ListToolsResult, Tool
from mcp_ref.host.approval import Approval, hidden_text_warnings
from mcp_ref.jsonrpc.messages import JSON, Object
from mcp_ref.lib.text import escape_log_records
from mcp_ref.server.middleware import Proceed, ServedRequest
from mcp_ref.transports.trace import tracer

DEFAULT_IGNORABLE = """
00AD 034F 061C 115F..1160 17B4..17B5 180B..180D 180E 180F 200B..200F 202A..202E 2060..2064 2065 2066..206F 3164
FE00..FE0F FEFF FFA0 FFF0..FFF8 1BCA0..1BCA3 1D173..1D17A E0000 E0001 E0002..E001F E0020..E007F E0080..E00FF
E0100..E01EF E01F0..E0FFF
"""
"""The code points with Default_Ignorable_Code_Point in DerivedCoreProperties.txt of Unicode 16.0."""
RANGES = [
    [chr(code) for code in range(int(first, 16), int(last or first, 16) + 1)]
    for first, last in re.findall(r"([0-9A-F]+)(?:\.\.([0-9A-F]+))?", DEFAULT_IGNORABLE)
]
IGNORABLE = [character for characters in RANGES for character in characters]
HIDDEN = frozenset([*IGNORABLE, "\u2800"])
Place: TypeAlias = Callable[[random.Random], None]
"""A function that prints texts, or asks the user about them."""
SEQUENCES = ["\x1b[2J", "\x1b]0;x\x07", "\x9b31m", "\r", "\b", "\u202e", "\u2028", "\u200b", "\0", "\x7f", "\ufe0f"]


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@cache
def characters_by_category() -> dict[str, list[str]]:
    """Return the characters of each general category, at most one of 16 neighbors."""
    found: dict[str, list[str]] = {}
    for code in [*range(0x3000), *range(0x3000, sys.maxunicode, 16)]:
        found.setdefault(unicodedata.category(chr(code)), []).append(chr(code))
    return found


def text(rng: random.Random, surrogates: bool = False) -> str:
    """Return a text with characters of several categories, and at least one that is hidden or obeyed by terminals.

    Args:
        rng: The random generator.
        surrogates: True for a word of a command line, in which Python reads an invalid byte as a surrogate.
    """
    categories = characters_by_category()
    parts = [rng.choice(SEQUENCES), rng.choice(rng.choice([*RANGES, ["\u2800"]])), rng.choice("ab \u26a0")]
    parts += [rng.choice(categories[category]) for category in rng.sample(sorted(categories), 3)]
    rng.shuffle(parts)
    byte = "\udc9b" if surrogates else ""
    return "".join(byte if unicodedata.category(part[0]) == "Cs" else part for part in parts)


def raw_characters(shown: str) -> set[str]:
    """Return the characters of an output that a terminal must not get."""
    return {
        character
        for before, character in zip("x" + shown, shown, strict=False)
        if (unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") or character in HIDDEN)
        and character not in "\n\t"
        and not (character in "\ufe0e\ufe0f" and unicodedata.category(before) == "So")
    }


def check_texts(rng: random.Random, place: Place | None = None) -> None:
    """Write texts to a place, by default a random one, and check that the terminal gets no hidden character."""
    place = place or rng.choice(PLACES)
    terminal = Terminal()
    with (
        contextlib.redirect_stdout(terminal), contextlib.redirect_stderr(terminal),
        mock.patch.dict(os.environ, {"NO_COLOR": "1"}), mock.patch.object(sys, "stdin", io.StringIO()),
    ):  # fmt: skip
        place(rng)
    assert not raw_characters(terminal.getvalue()), (place.__name__, terminal.getvalue())
    assert terminal.getvalue(), place.__name__


def hostile_server(rng: random.Random) -> Server:
    """Return a server that puts such texts into every field."""
    server = Server(text(rng), text(rng), title=rng.choice([None, text(rng)]), instructions=text(rng))
    server.tools.add(lambda: "", name="t")
    server.prompts.add(lambda a: str(a), name="p")
    server.resources.add("x://r", lambda: "")
    server.resources.add("x://{v}", lambda v: v)

    @server.completion("p", "a")
    def complete(value: str) -> list[str]:
        return []

    @server.middleware
    async def respond(request: ServedRequest, context: Context, proceed: Proceed) -> object:
        if request.method in RESULTS:
            if "list" not in request.method:
                await context.log("error", _log_data(rng), logger=text(rng))
                await context.report_progress(1, message=text(rng))
                if rng.random() < 0.3:
                    raise ProtocolError(rng.randint(-32050, -32000), text(rng), {"x": text(rng)})
            return RESULTS[request.method](rng)
        return await proceed(request)

    return server


def _log_data(rng: random.Random) -> JSON:
    return text(rng) if rng.random() < 0.5 else {text(rng): text(rng)}


def _schema(rng: random.Random) -> Object:
    properties: Object = {text(rng): {"type": rng.choice(["string", text(rng)])}, text(rng): {"enum": [text(rng)]}}
    return {"type": "object", "properties": properties, "required": [text(rng), "n"]}


def _call_result(rng: random.Random) -> CallToolResult:
    contents = TextResourceContents(f"x://{text(rng)}", text(rng), text(rng))
    blocks: list[ContentBlock] = [
        TextContent(text(rng)), ImageContent("AA==", text(rng)), EmbeddedResource(contents),
        ResourceLink(f"x://{text(rng)}", text(rng), text(rng)),
    ]  # fmt: skip
    if rng.random() < 0.2:
        return CallToolResult([], {text(rng): text(rng)})
    return CallToolResult(rng.sample(blocks, 2), is_error=rng.random() < 0.3)


RESULTS: dict[str, Callable[[random.Random], object]] = {
    "tools/list": lambda rng: ListToolsResult([Tool(name, _schema(rng), text(rng)) for name in ("t", text(rng))]),
    "resources/list": lambda rng: ListResourcesResult([Resource(f"x://{text(rng)}", text(rng), mime_type=text(rng))]),
    "prompts/list": lambda rng: ListPromptsResult([Prompt("p", text(rng), [PromptArgument(text(rng))])]),
    "tools/call": _call_result,
    "resources/read": lambda rng: ReadResourceResult([TextResourceContents("x://r", text(rng), text(rng))]),
    "prompts/get": lambda rng: GetPromptResult([PromptMessage("user", TextContent(text(rng)))], text(rng)),
    "completion/complete": lambda rng: CompleteResult(Completion([text(rng), text(rng)])),
}


def _command(rng: random.Random) -> None:
    """Run a command against a hostile server, with escaped log records, as `main` runs it."""
    escape_log_records()
    words = rng.choice([
        ["list"], ["list"], ["call", "t", "a=1"], ["call", "t"], ["call", text(rng)], ["read", "x://r"],
        ["prompt", "p"], ["complete", "p", "a=1"], ["call", f"t{text(rng)}"],
        ["prompt", text(rng), f"{text(rng)}=1"],
        ["read", f"x://{text(rng)}"],
    ])  # fmt: skip
    client = Client(
        hostile_server(rng), on_log=client_commands.show_log, trace=rng.choice([None, tracer(color=False)]),
        revision=rng.choice([None, "2025-11-25", "2024-11-05"]),
    )  # fmt: skip
    try:
        options = parse([*words, *rng.choice([[], ["--json"]]), "--", "server"])
        client_commands.run_and_report(client_commands.connect_and_run(client, options))
    except SystemExit:
        note("a text that begins with a dash is an unknown option")
    except UsageError as error:
        note(str(error))
    note(".")


def _usage(rng: random.Random) -> None:
    """Write a wrong command line, with the words of another program."""
    strange = text(rng, surrogates=True).replace("\0", "\x01")
    words = rng.choice([
        [strange], ["list", f"--{strange}", "--", "x"], ["run", f"{strange}.py"], ["revisions", strange],
        ["toc", strange], ["call", "t", "--timeout", strange, "--", "x"], ["list", strange], ["login", strange],
        ["list", "--token-env", strange, "https://mcp.example"], ["call", "t", strange, "--config", f"/no/{strange}"],
        ["list", f"https://{strange}.example/"], ["list", "--header", strange, "http://127.0.0.1:9/"],
    ])  # fmt: skip
    with contextlib.suppress(SystemExit):
        main(words)


def _configuration(rng: random.Random) -> None:
    """List the servers of a file, without consent to start them."""
    servers = {text(rng): {"command": text(rng), "args": [text(rng)]}, "s": {"url": f"http://127.0.0.1:9/{text(rng)}"}}
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, {"XDG_STATE_HOME": folder}):
        path = Path(folder, "mcp.json")
        path.write_text(json.dumps({"mcpServers": servers, text(rng): 1}))
        with contextlib.suppress(SystemExit):
            main([*rng.choice([["list"], ["call", f"s.{text(rng)}"], ["call", text(rng)]]), "--config", str(path)])


def _elicitation(rng: random.Random) -> None:
    """Ask the user for the fields of a form, or to visit a URL."""
    field: Object = {"type": "string", "title": text(rng), "default": text(rng), "description": text(rng)}
    schema: Object = {"type": "object", "properties": {text(rng): field, "n": {"type": "integer"}}, "required": ["n"]}
    form = ElicitRequestFormParams(text(rng), schema)
    url = ElicitRequestURLParams(text(rng), f"https://{text(rng)}/", "i")

    async def ask_line(prompt: str) -> str:
        note(prompt)
        return rng.choice([text(rng), "1", "y", ""])

    with mock.patch.object(person, "ask_line", ask_line):
        asyncio.run(person.ask_person(text(rng), form if rng.random() < 0.7 else url))


def _approval(rng: random.Random) -> None:
    """Print the text of an approval, which is safe by itself, also without a terminal."""
    tool = Tool(text(rng), _schema(rng), text(rng))
    request = Approval(
        "call", text(rng), "model", name=text(rng), file=text(rng), argv=(text(rng),), cwd=text(rng), url=text(rng),
        arguments={text(rng): [text(rng)]}, tool=tool, before=tool, after=frozenset([text(rng)]),
        content={text(rng): text(rng)}, warnings=(text(rng),),
    )  # fmt: skip
    sys.stdout.write(request.text())
    for value in (tool, {"x": [text(rng)]}, {text(rng): 1}):
        assert hidden_text_warnings(value)
        sys.stdout.write(" ".join(hidden_text_warnings(value)))


def _trace(rng: random.Random) -> None:
    trace = tracer(color=False)
    meta: Object = {"io.modelcontextprotocol/protocolVersion": text(rng)}
    message: Object = {"jsonrpc": "2.0", "id": text(rng), "method": text(rng), "params": {"_meta": meta}}
    trace("<-", rng.choice([json.dumps(message).encode(), text(rng).encode()]))
    trace.head("->", f"POST /{text(rng)}", [(text(rng), text(rng))])


def _log(rng: random.Random) -> None:
    """Write a log record with a traceback."""
    main(["--version"])  # as any command, it sets the format of log records
    log = logging.Logger("mcp_ref.hostile")  # without a parent, so without the handlers of pytest
    try:
        raise ValueError(text(rng, surrogates=True))
    except ValueError:
        log.warning("a peer wrote %s", text(rng), exc_info=True)


def _screen(rng: random.Random) -> None:
    screen = Screen(sys.stdout)
    method = rng.choice(sorted(PURPOSE))
    screen("->", json.dumps({"jsonrpc": "2.0", "id": text(rng), "method": method, "params": {"x": text(rng)}},
                            ensure_ascii=rng.random() < 0.5).encode())  # fmt: skip
    screen.http("client", f"POST /{text(rng)}", {text(rng): text(rng)}, text(rng))
    screen.claim(text(rng), True)


def _stderr(rng: random.Random) -> None:
    client_commands.show_stderr(text(rng).encode("utf-8", "surrogatepass") + rng.randbytes(5))


PLACES: list[Place] = [
    *[_command] * 4, *[_usage] * 2, _configuration, _elicitation, _approval, _trace, _log, _screen, _stderr,
]  # fmt: skip
