"""The person at the terminal, for servers that ask: a form is filled in line by line, a URL is shown for consent.

Only where standard input and standard error are both a terminal; otherwise the client does not declare elicitation.
Questions go to standard error, so that the output stays what was asked for.

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
from .show import kind, note, printable
from .values import kinds, read_value


def asker() -> ElicitationHandler | None:
    """The handler to give to a Client, or None where nobody could be asked."""
    if os.name == "nt" or not sys.stdin.isatty() or not sys.stderr.isatty():
        return None
    turn = asyncio.Lock()

    async def ask(request: ElicitRequestFormParams | ElicitRequestURLParams) -> ElicitResult:
        async with turn:  # a server may ask several things at once, and there is one terminal
            return await ask_person(request)

    return ask


async def ask_person(request: ElicitRequestFormParams | ElicitRequestURLParams) -> ElicitResult:
    """Show the question, and wait for what the person does. End of input (Ctrl-D) declines."""
    # [2025-11-25 client/elicitation#security-considerations] it is the server that asks, and the user may say no
    note(f"\nThe server asks: {request.message}")
    if isinstance(request, ElicitRequestURLParams):
        # [2025-11-25 client/elicitation#safe-url-handling] the whole URL, and nothing is opened without consent
        note(f"It wants you to visit {request.url}\nNothing is opened for you.")
        answer = await ask_line("Will you visit it? [y/n] ")
        return ElicitResult("accept" if answer.strip().lower() in ("y", "yes") else "decline")
    note("(an empty line leaves a field out, or keeps its default; Ctrl-D says no to the whole form)")
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
    """The person's answers to a form's fields, with the defaults of those left alone."""
    content: Object = {}
    fields = schema.get("properties")
    assert isinstance(fields, dict)  # checked before the handler is called
    for name, field in fields.items():
        assert isinstance(field, dict)
        text = (await ask_line(question(name, field))).rstrip("\n")
        if text:
            content[name] = read_value(text, kinds(field))
        elif field.get("default") is not None:
            content[name] = field["default"]
    return content


def question(name: str, field: Object) -> str:
    """What is shown before the cursor."""
    about = [str(field[name]) for name in ("title", "description") if name in field][:1]
    about += [f"default {json.dumps(field['default'])}"] if field.get("default") is not None else []
    return f"{name} ({', '.join([kind(field), *about])}): "


async def ask_line(prompt: str) -> str:
    """One line of the terminal, while the connection goes on. Raises EOFError at the end of input."""
    sys.stderr.write(printable(prompt))  # the server has had a hand in it
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
