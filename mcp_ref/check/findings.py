"""The findings of a conversation: apply the rules to a message or an exchange, and report each cause once.

A client that forgets a header forgets it in each request. So findings with the same rule, side and key are one finding,
which counts how often the cause was seen.

Used by: conversation.py, exchanges.py
"""

from __future__ import annotations

from typing import Final

from ..revisions import Revision
from .recording import Side
from .rules import ADVICE, MEANING, Fault, Finding, On, Rule, rules_for
from .state import Call, Dialogue, Exchange, Message, StreamEvent

MAX_CAUSES: Final = 10_000
"""Maximum number of causes that are remembered. Beyond them, each occurrence of a new cause is a finding of its own."""


class FindingTable:
    """The findings of a conversation, one for each cause."""

    def __init__(self) -> None:
        self.new: list[Finding] = []
        """The findings since the last call of `take`."""
        self._known: dict[tuple[str, str, str], Finding] = {}

    def take(self) -> list[Finding]:
        """Return the findings since the last call."""
        if not self.new:
            return []
        found, self.new = self.new, []
        return found

    def judge(
        self, on: On, subject: Message | Exchange | StreamEvent | Dialogue, method: str, revision: Revision | None,
        side: Side, event: int,
    ) -> bool:  # fmt: skip
        """Apply the rules in the order of their stages, and stop after the first stage with a broken MUST or SHOULD.

        Return True if there is such a stage before the last one, `MEANING`. Then the caller cannot rely on the subject.
        """
        last_stage = MEANING
        for rule in rules_for(on, method, revision, side):
            if rule.stage > last_stage:
                break  # later stages would report the same cause again
            if rule.needs and not rule.applies(subject):  # `needs` first, which is faster than a call
                continue
            verdict = rule.judge(subject)
            if verdict is None:
                continue
            fault = verdict if type(verdict) is Fault else Fault(str(verdict))
            self._add(rule, fault, side, (*_earlier_events(subject), event), method, revision)
            if rule.level != ADVICE:
                last_stage = rule.stage
        return last_stage < MEANING

    def _add(
        self, rule: Rule, fault: Fault, sender: Side, proof: tuple[int, ...], method: str, revision: Revision | None
    ) -> None:
        side = fault.side or sender
        cause = rule.name, side, method if fault.key is None else fault.key
        known = self._known.get(cause)
        if known is not None:
            known.times += 1
            return
        events = tuple(sorted({*fault.events, *proof}))
        name = revision.name if revision is not None else ""
        finding = Finding(rule, rule.level_in(revision), side, events, fault.text, rule.fix, name)
        if len(self._known) < MAX_CAUSES:
            self._known[cause] = finding
        self.new.append(finding)


def _earlier_events(subject: Message | Exchange | StreamEvent | Dialogue) -> tuple[int, ...]:
    """Return the earlier events that help to prove a fault: for a fault in a response, the event of its request."""
    match subject:
        case Message(kind="result" | "error", call=Call() as call):
            return (call.event,)
        case Exchange():
            return (subject.event,)
        case StreamEvent():
            return (subject.exchange.event,)
    return ()
