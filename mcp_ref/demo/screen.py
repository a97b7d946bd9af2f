"""The demo's screen: chapters, sentences, claims, and each message with who sent it and what it is for.

Nothing here is needed to understand MCP. Colour only on a terminal, and never with NO_COLOR set (https://no-color.org).
"""

from __future__ import annotations

import json
import os
import shutil
import textwrap
from collections import Counter
from collections.abc import Iterable
from typing import Literal, TextIO

from ..transports.trace import printable

MOST_LINES = 5
"""Lines of one message that are shown."""

PURPOSE = {
    "initialize": (
        "the revision I would like, and what I can do",
        "the revision to speak, and what I can do",
    ),
    "notifications/initialized": ("ready: from now on, anything goes", ""),
    "ping": ("are you there?", "yes"),
    "tools/list": ("which tools are there?", "these; a `nextCursor` leads to the next page"),
    "tools/call": ("run this tool with these arguments", "what the tool gave"),
    "resources/list": ("which resources are there?", "these"),
    "resources/templates/list": ("which families of URIs are there?", "these, as URI templates (RFC 6570)"),
    "resources/read": ("give me this resource", "its contents"),
    "resources/subscribe": ("tell me when it changes", "agreed"),
    "resources/unsubscribe": ("no need to tell me any more", "agreed"),
    "prompts/list": ("which prompts are there?", "these, with their arguments"),
    "prompts/get": ("this prompt, filled in", "messages for the model"),
    "completion/complete": ("what may this argument become?", "suggestions"),
    "logging/setLevel": ("log messages from this level on, please", "agreed"),
    "sampling/createMessage": ("please ask your model", "what the model said"),
    "elicitation/create": ("please ask your user", "what the user did"),
    "roots/list": ("which directories may I know of?", "these"),
    "notifications/cancelled": ("never mind that request", ""),
    "notifications/progress": ("I have come this far with your request", ""),
    "notifications/message": ("a log message", ""),
    "notifications/resources/updated": ("what you watch has changed", ""),
    "notifications/tools/list_changed": ("my tools have changed", ""),
    "notifications/resources/list_changed": ("my resources have changed", ""),
    "notifications/prompts/list_changed": ("my prompts have changed", ""),
    "notifications/roots/list_changed": ("my roots have changed", ""),
    "notifications/elicitation/complete": ("the user has done it", ""),
    "server/discover": ("who are you, and what do you speak?", "this is who, and what I speak and can do"),
    "subscriptions/listen": ("tell me of changes, until I leave", "that was all"),
    "notifications/subscriptions/acknowledged": ("I tell you of these", ""),
    "tasks/get": ("how is this task?", "this is how"),
    "tasks/result": ("what came of this task? I wait for it", "this"),
    "tasks/list": ("which tasks of mine do you have?", "these"),
    "tasks/cancel": ("never mind this task", "agreed"),
    "tasks/update": ("here are the answers that the task waits for", "thank you"),
    "notifications/tasks/status": ("this is how your task is", ""),
    "notifications/tasks": ("this is how your task is", ""),
}
"""What each method is for: what it says, and what its answer says."""

NOT_YET = {
    "input_required": "first tell me this, and send it again",
    "task": "this takes a while: come back for this task",
}
"""What an answer says that is not the result, by its `resultType`."""

FOLDED = 60
"""Characters from which on a `_meta` is shown once, and as `{...}` when the same comes again; and a state in short."""


class Screen:
    """Where the tour is shown. `out`: a text stream. It counts what it has shown."""

    def __init__(self, out: TextIO) -> None:
        self.claims = self.frames = self.chapters = 0
        self._out = out
        self._color = out.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        self._width = max(60, min(100, shutil.get_terminal_size((100, 24)).columns))
        self._asked: dict[tuple[str, object], str] = {}  # (who asked, id) -> method
        self._metas: set[str] = set()
        self._heads: list[str] = []
        self.sent = Counter[str]()
        """How many requests and notifications of each method there were."""

    def chapter(self, title: str, page: str) -> None:
        """A new feature, and the page of the spec that describes it."""
        self.chapters += 1
        heading = f"{self.chapters}. {title}"
        gap = self._width - len(heading) - len(page)
        between = " " * gap if gap >= 2 else "\n" + " " * (self._width - len(page))
        self._write(f"\n{self._painted('1', heading)}{between}{self._painted('2', page)}\n")

    def say(self, text: str) -> None:
        """What comes next, and why."""
        for line in textwrap.wrap(" ".join(text.split()), self._width - 2):
            self._write(f"  {line}\n")

    def claim(self, text: str, holds: bool) -> None:
        """Something that the reader may rely on; AssertionError where it does not hold."""
        if not holds:
            raise AssertionError(text)
        self.claims += 1
        first, *others = textwrap.wrap(text, self._width - 6)
        self._write(f"  {self._painted('32', 'ok')}  {first}\n")
        for line in others:
            self._write(f"      {line}\n")

    def head(self, direction: Literal["->", "<-"], line: str, headers: Iterable[tuple[str, str]]) -> None:
        """An HTTP head: the headers in which a request of the stateless era says what its body says, too."""
        fields = [f"{name}: {value}" for name, value in headers if name.lower() != "content-type"]
        if any(field.startswith("Mcp-Method") for field in fields):
            self._heads = [f"{line}  {'  '.join(fields)}"]

    def __call__(self, direction: Literal["->", "<-"], frame: bytes) -> None:
        """One message, as it is on the wire: "->" from client to server. A screen is to be given as `trace`."""
        self.frames += 1
        sender = "client" if direction == "->" else "server"
        message = json.loads(frame)
        if isinstance(message, list):
            meant = [self._meaning(sender, member)[0] for member in message]
            about = (f"batch of {len(message)}", " + ".join(meant))
        else:
            about = self._meaning(sender, message)
        self._write(f"    {self._arrow(sender)} {self._painted('1', about[0])}  {about[1]}\n")
        for head in self._heads:
            self.body(head)
        self._heads = []
        self.body(self._without_repetition(frame.decode(), message))

    def _without_repetition(self, text: str, message: object) -> str:
        """The message, with a long `_meta` that was shown before as `{...}`, and the beginning of a state."""
        inner = message.get("params", message.get("result")) if isinstance(message, dict) else None
        state = inner.get("requestState") if isinstance(inner, dict) else None
        if isinstance(state, str) and len(state) > FOLDED:
            text = text.replace(state, f"{state[:12]}...{state[-8:]}")
        meta = inner.get("_meta") if isinstance(inner, dict) else None
        shown = json.dumps(meta, separators=(",", ":"), ensure_ascii=False)
        if len(shown) < FOLDED:
            return text
        if shown in self._metas:
            return text.replace(shown, "{...}")
        self._metas.add(shown)
        return text

    def http(self, sender: Literal["client", "server"], line: str, headers: dict[str, str], body: str = "") -> None:
        """One side of an HTTP exchange: its first line, the headers that matter, and the body if it is known yet."""
        self.frames += 1
        self._write(f"    {self._arrow(sender)} {self._painted('1', line)}\n")
        for name, value in headers.items():
            self.body(f"{name}: {value}")
        self.body(body)

    def body(self, text: str) -> None:
        """What a message says, or a part of it."""
        for line in self._folded(printable(text)) if text else ():
            self._write(f"      {self._painted('2', line)}\n")

    def _arrow(self, sender: str) -> str:
        return self._painted("36", "client ->") if sender == "client" else self._painted("35", "server <-")

    def _folded(self, text: str) -> list[str]:
        """A message in lines, broken behind commas where that is possible; a long one is cut."""
        room, start = self._width - 6, 0
        lines: list[str] = []
        while len(text) - start > room and len(lines) < MOST_LINES - 1:
            comma = text.rfind(",", start + room // 2, start + room) + 1
            end = comma or start + room
            lines.append(text[start:end])
            start = end
        rest, note = text[start:], f" ... ({len(text)} characters)"
        return [*lines, rest if len(rest) <= room else rest[: room - len(note)] + note]

    def _meaning(self, sender: str, message: dict[str, object]) -> tuple[str, str]:
        """What a message is, and what it says, in the demo's words."""
        other = "server" if sender == "client" else "client"
        if "method" in message:
            method = str(message["method"])
            self.sent[method] += 1
            if "id" in message:
                self._asked[sender, message["id"]] = method
            number = f" #{message['id']}" if "id" in message else ""
            return f"{method}{number}", PURPOSE[method][0]
        if "id" not in message:
            return "error", "the request is refused, unread"
        method = self._asked[other, message["id"]]
        if "error" in message:
            return f"error for #{message['id']}", f"{method} is refused"
        result = message["result"]
        kind = str(result.get("resultType")) if isinstance(result, dict) else ""
        return f"answer to #{message['id']}", NOT_YET.get(kind, PURPOSE[method][1])

    def _painted(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._color else text

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
