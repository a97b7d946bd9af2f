"""Output of the demo: chapters, explanations, checked claims, and each message with its sender and its meaning.

The screen prints colors only on a terminal, and not if NO_COLOR is set (no-color.org).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import textwrap
from collections import Counter
from collections.abc import Awaitable, Iterable
from typing import Literal, TextIO

from ..jsonrpc.errors import RemoteError
from ..lib.text import escape_hidden

MAX_MESSAGE_LINES = 5
"""Maximum number of lines of one message on the screen."""

MAX_FULL_LENGTH = 60
"""Length in characters above which the screen shortens a `requestState`, or a repeated `_meta`."""

BREAK = re.compile(r',(?=["{])| ')
"""A place between two members or two words, where the screen can start a new line."""

PURPOSE = {
    "initialize": ("offer a revision; declare capabilities", "the chosen revision; the server's capabilities"),
    "notifications/initialized": ("the handshake is complete", ""),
    "ping": ("check that the server is alive", "the server is alive"),
    "tools/list": ("list the tools", "tools; a `nextCursor` leads to the next page"),
    "tools/call": ("run this tool with these arguments", "the result of the tool"),
    "resources/list": ("list the resources", "resources"),
    "resources/templates/list": ("list the URI templates of resources", "URI templates (RFC 6570)"),
    "resources/read": ("read this resource", "its contents"),
    "resources/subscribe": ("subscribe to the changes of this resource", "subscribed"),
    "resources/unsubscribe": ("end the subscription", "unsubscribed"),
    "prompts/list": ("list the prompts", "prompts with their arguments"),
    "prompts/get": ("fill in this prompt", "messages for the model"),
    "completion/complete": ("suggest values for this argument", "suggestions"),
    "logging/setLevel": ("send log messages of this level and above", "the level is set"),
    "sampling/createMessage": ("ask the client's model", "the model's reply"),
    "elicitation/create": ("ask the user", "the user's action"),
    "roots/list": ("list the user's directories", "directories"),
    "notifications/cancelled": ("cancel this request", ""),
    "notifications/progress": ("report the progress of a request", ""),
    "notifications/message": ("a log message", ""),
    "notifications/resources/updated": ("this resource has changed", ""),
    "notifications/elicitation/complete": ("the user has finished", ""),
    "server/discover": ("ask for the server's name and capabilities", "name, revisions, capabilities"),
    "subscriptions/listen": ("send notifications of these changes", "the subscription has ended"),
    "notifications/subscriptions/acknowledged": ("the subscription starts", ""),
    "tasks/get": ("get the status of this task", "the status"),
    "tasks/result": ("wait for the result of this task", "the result of the tool"),
    "tasks/list": ("list the tasks of this client", "tasks"),
    "tasks/cancel": ("cancel this task", "the task is cancelled"),
    "tasks/update": ("send the input that the task waits for", "the server has the input"),
    "notifications/tasks/status": ("the status of a task", ""),
    "notifications/tasks": ("the status of a task", ""),
    "notifications/tools/list_changed": ("the list has changed", ""),
    "notifications/resources/list_changed": ("the list has changed", ""),
    "notifications/prompts/list_changed": ("the list has changed", ""),
    "notifications/roots/list_changed": ("the list has changed", ""),
}
"""For each method, the meaning of its request or notification, and the meaning of its result."""

UNFINISHED_RESULTS = {
    "input_required": "call again with the requested input",
    "task": "get the result from this task later",
}
"""The meaning of a `resultType` that does not finish the call."""


class Screen:
    """A printer for the demo, which counts chapters, messages and claims. A `Client` gets the screen as its `trace`."""

    def __init__(self, out: TextIO) -> None:
        self.claims = self.messages = self.chapters = 0
        self._out = out
        self._color = out.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        self._width = max(60, min(100, shutil.get_terminal_size((100, 24)).columns))
        self._requests: dict[tuple[str, object], str] = {}  # (sender, id) -> method
        self._shown_metas: set[str] = set()  # each long `_meta` that the screen has shown
        self._head = ""  # the HTTP method, path and headers of the next message
        self.sent_counts = Counter[str]()
        """Number of requests and notifications for each method."""

    def chapter(self, title: str, page: str) -> None:
        """Print the title of a chapter, and the page of the specification that describes the feature."""
        self.chapters += 1
        heading = f"{self.chapters}. {title}"
        gap = self._width - len(heading) - len(page)
        between = " " * gap if gap >= 2 else "\n" + " " * (self._width - len(page))
        self._write(f"\n{self._colored('1', heading)}{between}{self._colored('2', page)}\n")

    def say(self, text: str) -> None:
        """Print an explanation."""
        self._write(textwrap.indent(textwrap.fill(" ".join(text.split()), self._width - 2), "  ") + "\n")

    def claim(self, text: str, holds: bool) -> None:
        """Print a claim if it holds. Raise AssertionError if the claim does not hold."""
        if not holds:
            raise AssertionError(text)
        self.claims += 1
        lines = "\n      ".join(textwrap.wrap(escape_hidden(text), self._width - 6))
        self._write(f"  {self._colored('32', 'ok')}  {lines}\n")

    async def claim_error(self, subject: str, code: int, request: Awaitable[object]) -> None:
        """Await a request, and claim that its response is an error with this code."""
        try:
            await request
        except RemoteError as error:
            self.claim(f"{subject} is an error: {error}", error.code == code)
        else:
            raise AssertionError(f"{subject} was not refused")

    def head(self, direction: Literal["->", "<-"], line: str, headers: Iterable[tuple[str, str]]) -> None:
        """Store the HTTP method, path and headers of a stateless request, to print them with the next message."""
        fields = [f"{name}: {value}" for name, value in headers if name.lower() != "content-type"]
        if any(field.startswith("Mcp-Method") for field in fields):
            self._head = f"{line}  {'  '.join(fields)}"

    def __call__(self, direction: Literal["->", "<-"], frame: bytes) -> None:
        """Print one message. The direction "->" means: from the client to the server."""
        self.messages += 1
        sender = "client" if direction == "->" else "server"
        message = json.loads(frame)
        if isinstance(message, list):
            members = [self._meaning(sender, member)[0] for member in message]
            name, meaning = f"batch of {len(message)}", " + ".join(members)
        else:
            name, meaning = self._meaning(sender, message)
        self._write(f"    {self._arrow(sender)} {self._colored('1', name)}  {meaning}\n")
        self.print_content(self._head)
        self._head = ""
        self.print_content(self._without_repetition(frame.decode(), message))

    def _without_repetition(self, text: str, message: object) -> str:
        """Return the text of a message. `{...}` replaces a repeated long `_meta`; `...` shortens a long state."""
        inner = message.get("params", message.get("result")) if isinstance(message, dict) else None
        if not isinstance(inner, dict):
            return text
        state, meta = inner.get("requestState"), inner.get("_meta")
        if isinstance(state, str) and len(state) > MAX_FULL_LENGTH:
            text = text.replace(state, f"{state[:12]}...{state[-8:]}")
        shown = json.dumps(meta, separators=(",", ":"), ensure_ascii=False)  # as in `text`, so that `replace` finds it
        if shown in self._shown_metas:
            return text.replace(shown, "{...}")
        if len(shown) >= MAX_FULL_LENGTH:
            self._shown_metas.add(shown)
        return text

    def http(self, sender: Literal["client", "server"], line: str, headers: dict[str, str], body: str = "") -> None:
        """Print the first line of an HTTP request or response, its important headers, and its body."""
        self.messages += 1
        self._write(f"    {self._arrow(sender)} {self._colored('1', line)}\n")
        for name, value in headers.items():
            self.print_content(f"{name}: {value}")
        self.print_content(body)

    def print_content(self, text: str) -> None:
        """Print a message, or a part of a message."""
        for line in self._wrapped(escape_hidden(text, keep="")) if text else ():
            self._write(f"      {self._colored('2', line)}\n")

    def _arrow(self, sender: str) -> str:
        return self._colored("36", "client ->") if sender == "client" else self._colored("35", "server <-")

    def _wrapped(self, text: str) -> list[str]:
        """Return the lines of a message, broken between members or words if possible. Cut a long message."""
        width, start = self._width - 6, 0
        lines: list[str] = []
        while len(text) - start > width and len(lines) < MAX_MESSAGE_LINES - 1:
            ends = [found.end() for found in BREAK.finditer(text, start + width // 2, start + width)]
            end = ends[-1] if ends else start + width
            lines.append(text[start:end])
            start = end
        rest, note = text[start:], f" ... ({len(text)} characters)"
        return [*lines, rest if len(rest) <= width else rest[: width - len(note)] + note]

    def _meaning(self, sender: str, message: dict[str, object]) -> tuple[str, str]:
        """Return the name of a message, and the message's meaning from `PURPOSE`."""
        if "method" in message:
            method = str(message["method"])
            self.sent_counts[method] += 1
            purpose, _ = PURPOSE[method]
            if "id" not in message:
                return method, purpose
            self._requests[sender, message["id"]] = method
            return f"{method} #{message['id']}", purpose
        if "id" not in message:
            return "error", "the server refuses the request"
        method = self._requests["server" if sender == "client" else "client", message["id"]]
        if "error" in message:
            return f"error for #{message['id']}", f"{method} failed"
        result = message["result"]
        assert isinstance(result, dict)
        kind = result.get("resultType", "")
        if not kind and method == "tools/call" and "task" in result:  # in 2025-11-25
            kind = "task"
        _, meaning = PURPOSE[method]
        return f"result for #{message['id']}", UNFINISHED_RESULTS.get(kind, meaning)

    def _colored(self, code: str, text: str) -> str:
        shown = escape_hidden(text)
        return f"\x1b[{code}m{shown}\x1b[0m" if self._color else shown

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
