"""Elicitation at a terminal: a server asks, and the user fills in a form line by line, or agrees to visit a URL.

A client command passes `elicitation_handler()` to its `Client`. The client declares elicitation only if standard input
and standard error are terminals. The texts for the user go to standard error, so that standard output contains only
results.

Threats:
    covered-prompt: A server manipulates the user's decision by printing a prompt of its own over a real one, or before
        the next one, so that the user replies to the wrong prompt. The program holds a server's text back until the
        user has replied, marks its rows, and drops keys that were typed before a prompt.

Spec:  client/elicitation
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections import deque
from collections.abc import Iterator

from ..features.elicitation import (
    ElicitationHandler,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    content_errors,
)
from ..host.dangers import url_warnings
from ..jsonrpc.messages import Object
from ..lib.text import fold, show_text
from .show import columns, note, note_from_server, type_text
from .values import json_types, read_value

if os.name != "nt":
    import termios


def has_terminal() -> bool:
    """Return True if a user can be asked. On Windows nobody can, because its event loop cannot wait for a terminal."""
    return os.name != "nt" and sys.stdin.isatty() and sys.stderr.isatty()


class ServerTexts:
    """A printer for the texts of servers, such as log messages, that holds them while a prompt waits for a reply.

    Otherwise a server could cover the prompt with its own text, and the user would reply to something else.
    """

    def __init__(self) -> None:
        self._held_texts: deque[str] | None = None  # None while no prompt waits for a reply

    def show(self, text: str) -> None:
        """Print a text of a server, now or after the reply. Of many waiting texts, only the latest are printed."""
        if self._held_texts is None:
            note_from_server(text)
        else:
            self._held_texts.append(text)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the texts back while a prompt is shown and the user replies, and then print them.

        Lines that were typed before are dropped, because the user meant them for another prompt or program.
        """
        if has_terminal():
            with contextlib.suppress(OSError, termios.error):  # not every terminal can do this
                termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        held_texts = deque[str](maxlen=MAX_WAITING_TEXTS)
        self._held_texts = held_texts
        try:
            yield
        finally:
            self._held_texts = None
            for text in held_texts:
                self.show(text)


MAX_WAITING_TEXTS = 1000
"""Maximum number of texts of servers that wait for the reply to a prompt."""

SERVER_TEXTS = ServerTexts()
"""The only instance, because the process has one terminal for all servers."""


def elicitation_handler(
    server: str = "The server", prompt_lock: asyncio.Lock | None = None
) -> ElicitationHandler | None:
    """Return the elicitation handler for a client of `server`, or None without a terminal.

    Other prompts at the terminal share the `prompt_lock`.
    """
    if not has_terminal():
        return None
    lock = prompt_lock or asyncio.Lock()

    async def ask(request: ElicitRequestFormParams | ElicitRequestURLParams) -> ElicitResult:
        async with lock:  # show one elicitation at a time, even if the server sends several at once
            with SERVER_TEXTS.held():
                return await ask_person(server, request)

    return ask


async def ask_person(server: str, request: ElicitRequestFormParams | ElicitRequestURLParams) -> ElicitResult:
    """Show the elicitation and return the user's action. Ctrl-D declines."""
    # [2025-11-25 client/elicitation#security-considerations] show which server asks, and let the user decline
    note("")
    note_from_server(f"{server} asks: {request.message}")
    if isinstance(request, ElicitRequestURLParams):
        # [2025-11-25 client/elicitation#safe-url-handling] show the whole URL, and do not open it without consent
        note(fold(f"The server wants you to visit {request.url}", columns(sys.stderr)))
        for warning in url_warnings(request.url):
            note(f"warning: {warning}")
        note("This program does not open the URL.")
        return ElicitResult("accept" if await confirms("Will you visit the URL?") else "decline")
    if not request.requested_schema.get("properties"):
        return ElicitResult("accept", {}) if await confirms("Do you accept?") else ElicitResult("decline")
    note("(an empty line skips a field or keeps its default; Ctrl-D declines the form)")
    try:
        return ElicitResult("accept", await fill_in(request.requested_schema))  # type: ignore[arg-type]
    except EOFError:
        return ElicitResult("decline")


async def confirms(prompt: str) -> bool:
    """Return True if the user types y or yes after the prompt. Ctrl-D means no."""
    try:
        return (await ask_line(f"{prompt} [y/n] ")).strip().lower() in ("y", "yes")
    except EOFError:
        return False


async def fill_in(schema: Object) -> Object:
    """Return the content of a form: the typed values, and the defaults of skipped fields."""
    content: Object = {}
    fields, required = schema["properties"], schema.get("required")
    assert isinstance(fields, dict)  # the client has checked the schema
    for name, field in fields.items():
        assert isinstance(field, dict)
        is_required = isinstance(required, list) and name in required
        # check each field as a form of its own, so that the user corrects it before the next one
        form_of_field: Object = {**schema, "properties": {name: field}, "required": [name] if is_required else []}
        value = await ask_field(name, field)
        while errors := content_errors(form_of_field, value):
            note_from_server("\n".join(errors))  # an error quotes the server's schema
            value = await ask_field(name, field)
        content |= value
    return content


async def ask_field(name: str, field: Object) -> Object:
    """Return {name: value} with the value that the user types, or the default. Return {} if there is neither."""
    is_boolean = json_types(field) == {"boolean"}
    text = (await ask_line(field_prompt(name, field, is_boolean))).rstrip("\n")
    if is_boolean and text.lower() in _BOOLEANS:
        return {name: _BOOLEANS[text.lower()]}
    if text:
        return {name: read_value(text, json_types(field))}
    return {name: field["default"]} if field.get("default") is not None else {}


_BOOLEANS = {"y": True, "yes": True, "n": False, "no": False}


def field_prompt(name: str, field: Object, is_boolean: bool) -> str:
    hints = ["y/n" if is_boolean else type_text(field)]
    label = field.get("title", field.get("description"))
    if label is not None:
        hints.append(str(label))
    default = field.get("default")
    if is_boolean and default is not None:
        hints.append(f"default {'y' if default else 'n'}")
    elif default is not None:
        hints.append(f"default {json.dumps(default)}")
    text = f"{name} ({', '.join(hints)}): "
    return fold(text, columns(sys.stderr))  # the server chooses the name, which must not look like another prompt


@contextlib.contextmanager
def hidden_input() -> Iterator[None]:
    """Hide the characters that the user types, because they are a password."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    input_modes, output_modes, control_modes, local_modes, *speeds_and_keys = before
    without_echo = [input_modes, output_modes, control_modes, local_modes & ~termios.ECHO, *speeds_and_keys]
    termios.tcsetattr(descriptor, termios.TCSADRAIN, without_echo)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        note("")  # the line break that the user typed was hidden, too


async def ask_line(prompt: str) -> str:
    """Read one line from the terminal without blocking the event loop. Raise EOFError at the end of input."""
    show_text(prompt, sys.stderr, end="")
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(sys.stdin.fileno())
    line = sys.stdin.readline()  # it does not block, because a terminal is ready only when it has a whole line
    if not line:
        raise EOFError
    return line
