"""Elicitation at a terminal: the user fills in a form line by line, or agrees to visit a URL.

The client declares elicitation only if standard input and standard error are terminals. The texts for the user go to
standard error, so that standard output contains only results.

Spec:  client/elicitation
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

from ..features.elicitation import (
    ElicitationHandler,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    content_errors,
)
from ..jsonrpc.messages import Object
from .show import note, printable, type_text
from .values import json_types, read_value


def has_terminal() -> bool:
    """Return True if a user can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def elicitation_handler() -> ElicitationHandler | None:
    """Return the elicitation handler for a Client. Return None without a terminal, and on Windows."""
    if os.name == "nt" or not has_terminal():
        return None
    terminal_lock = asyncio.Lock()

    async def ask(request: ElicitRequestFormParams | ElicitRequestURLParams) -> ElicitResult:
        async with terminal_lock:  # show one elicitation at a time, even if the server sends several at once
            return await ask_person(request)

    return ask


async def ask_person(request: ElicitRequestFormParams | ElicitRequestURLParams) -> ElicitResult:
    """Show the elicitation and return the user's action. Ctrl-D declines."""
    # [2025-11-25 client/elicitation#security-considerations] show who asks, and let the user decline
    note(f"\nThe server asks: {request.message}")
    if isinstance(request, ElicitRequestURLParams):
        # [2025-11-25 client/elicitation#safe-url-handling] show the whole URL, and do not open it without consent
        note(f"The server wants you to visit {request.url}\nThis program does not open the URL.")
        try:
            answer = await ask_line("Will you visit the URL? [y/n] ")
        except EOFError:
            answer = "n"
        return ElicitResult("accept" if answer.strip().lower() in ("y", "yes") else "decline")
    note("(an empty line skips a field or keeps its default; Ctrl-D declines the form)")
    while True:
        try:
            content = await fill_in(request.requested_schema)
        except EOFError:
            return ElicitResult("decline")
        errors = content_errors(request.requested_schema, content)
        if not errors:
            return ElicitResult("accept", content)  # type: ignore[arg-type]
        note("\n".join(errors))


async def fill_in(schema: Object) -> Object:
    """Return the content of a form: the typed values, and the defaults of skipped fields."""
    content: Object = {}
    fields = schema.get("properties")
    assert isinstance(fields, dict)  # the client has checked the schema
    for name, field in fields.items():
        assert isinstance(field, dict)
        text = (await ask_line(field_prompt(name, field))).rstrip("\n")
        if text:
            content[name] = read_value(text, json_types(field))
        elif field.get("default") is not None:
            content[name] = field["default"]
    return content


def field_prompt(name: str, field: Object) -> str:
    """Return the text that asks the user for a field."""
    about = [str(field[name]) for name in ("title", "description") if name in field][:1]
    about += [f"default {json.dumps(field['default'])}"] if field.get("default") is not None else []
    return f"{name} ({', '.join([type_text(field), *about])}): "


async def ask_line(prompt: str) -> str:
    """Read one line from the terminal without blocking the event loop. Raise EOFError at the end of input."""
    sys.stderr.write(printable(prompt))  # escape control characters, because the server wrote parts of the text
    sys.stderr.flush()
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(sys.stdin.fileno())
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line
