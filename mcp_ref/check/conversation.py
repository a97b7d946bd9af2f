"""The judge of a conversation: events go in, findings come out.

    conversation = Conversation()
    for event in read_events(lines):
        for finding in conversation.receive(event):
            print(finding.text)
    conversation.close()

It judges both sides by their declarations only (revision, capabilities, tools), and reports only faults that it has
seen. A conversation can begin in the middle, lose events, or mix several connections: then missing facts count as
unknown, and no rule relies on them.

Used by: cli/check.py, recorder/. Uses: exchanges.py, findings.py, and a module for each page of the specification
"""

from __future__ import annotations

from typing import Final

from ..lib.jsonschema.errors import format_count
from ..revisions import Revision, revision_named
from . import (  # noqa: F401 - each module registers the rules of one page
    authorization,
    caching,
    cancellation,
    content,
    elicitation,
    lifecycle,
    logging,
    messages,
    meta,
    mrtr,
    pagination,
    progress,
    roots,
    sampling,
    shapes,
    stdio,
    streamable_http,
    subscriptions,
    tasks,
    tools,
    versioning,
)
from .exchanges import Exchanges
from .findings import FindingTable
from .memory import forget
from .reader import Reader, Source, opens_session
from .recording import End, Event, Frame, Gap, Head, HttpBody, HttpEnd, HttpEvent, HttpRequest, HttpResponse
from .rules import Finding
from .state import Bounded, Dialogue

MAX_PIPES: Final = 1000
"""Maximum number of pipes (processes) that are observed at the same time."""


class Conversation:
    """The judge of one recording, or of a live conversation.

    Args:
        revision: The revision of messages that do not name one. Default: the revision that the two sides negotiate.
        head: The first line of the recording. If it has a command, the recorder started the server, so nothing came
            before the recording.
    """

    def __init__(self, revision: Revision | str | None = None, head: Head | None = None) -> None:
        self._named_revision = revision_named(revision) if isinstance(revision, str) else revision
        self._head = head
        self._number = 0  # of the latest event
        self._unread = 0
        """Number of messages of closed dialogues that were not judged (see `Dialogue.unread`)."""
        self._table = FindingTable()
        self._reader = Reader(self._table)
        self._exchanges = Exchanges(
            self._table, self._reader, head.url if head is not None else "", self._named_revision
        )
        self._pipes: Bounded[int, Dialogue] = Bounded(MAX_PIPES)
        self._ended: Bounded[int, bool] = Bounded(MAX_PIPES)
        """The numbers of the pipes whose servers have ended. A line can still come after the end."""
        self._has_lost_events = False
        self.unverified: Bounded[str, None] = Bounded()
        """The parts of the conversation that could not be judged, and why, for the report. Only the latest are kept."""

    def receive(self, event: Event) -> list[Finding]:
        """Return the findings that an event shows or completes. Events are numbered from 1."""
        self._number += 1
        match event:
            case Frame():
                self._receive_frame(event)
            case HttpRequest() | HttpResponse() | HttpBody() | HttpEvent() | HttpEnd():
                self._exchanges.receive(event, self._number)
            case Gap():
                self._lose_events(event)
            case End() if event.side == "server":
                if event.connection in self._pipes:
                    self._close_dialogue(self._pipes.pop(event.connection))
                self._ended[event.connection] = True
        return self._table.take()

    def close(self) -> list[Finding]:
        """Return the findings about messages that never came."""
        if any(map(_mixes_clients, self._exchanges.dialogues.values())):
            text = "clients without a session cannot be told apart: their ids, order and capabilities are not judged"
            self.unverified[text] = None
        for dialogue in (*self._pipes.values(), *self._exchanges.dialogues.values()):
            self._close_dialogue(dialogue)
        if self._unread:
            text = "messages that are cut, or beyond a limit of this judge, and facts that depend on them"
            self.unverified[f"{text}: {self._unread}"] = None
        return self._table.take()

    def _receive_frame(self, event: Frame) -> None:
        if event.partial:
            return  # the process died in the middle of a line
        dialogue = self._pipes.get(event.connection)
        if dialogue is None:
            dialogue = self._pipes[event.connection] = self._new_pipe(event)
        self._reader.read(Source(event, self._number, event.sender, dialogue))

    def _new_pipe(self, event: Frame) -> Dialogue:
        transport = self._head.transport if self._head is not None else "messages"
        dialogue = Dialogue("stdio" if transport == "stdio" else "messages", self._named_revision)
        is_leftover = event.connection in self._ended  # a line after the end of its server
        is_started_here = self._head is not None and bool(self._head.command) and not is_leftover
        begins_session = event.sender == "client" and opens_session(event.content.data)
        dialogue.is_fully_seen = (is_started_here or begins_session) and not self._has_lost_events
        if not dialogue.is_fully_seen:
            text = "was not seen from its beginning: order, unknown ids and capabilities are not judged"
            self.unverified[f"connection {event.connection} {text}"] = None
        return dialogue

    def _lose_events(self, gap: Gap) -> None:
        because = gap.because or "unknown reason"
        self.unverified[f"{format_count(gap.events, 'lost events')} at event {self._number}: {because}"] = None
        self._exchanges.lose()
        self._has_lost_events = True
        for dialogue in self._pipes.values():
            forget(dialogue)

    def _close_dialogue(self, dialogue: Dialogue) -> None:
        # A fault that names no side is the server's, because only its responses can be missing at the end.
        self._table.judge("close", dialogue, "", dialogue.known_revision, "server", self._number)
        self._unread += dialogue.unread


def _mixes_clients(dialogue: Dialogue) -> bool:
    """Return True if the dialogue has messages of legacy clients without a session id, perhaps of several clients."""
    return dialogue.is_shared and dialogue.modern_revision is None and dialogue.first_event is not None
