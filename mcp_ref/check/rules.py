"""Rules and findings: the demands of the specification as data, and the places where a conversation breaks them.

A rule is a small function under the decorator `rule`, and its docstring is the demand in one line. The function gets a
message, an HTTP exchange, an event of a stream or a whole dialogue, and returns None, or a fault: a sentence with the
wrong values. The decorator takes the id of the sentence of the specification that the rule checks. If several revisions
share the sentence, the id is that of the latest. An id that begins with `schema/` is a demand of the schema.

    @modern_rule(MUST, "2026-07-28/basic/index#result-responses-3", "result", by="server")
    def result_type(message: Message) -> Verdict:
        '''Each result has a resultType.'''
        return None if ... else f"the {message.label} has no resultType"

For each rule, `sentences.txt` has the advice to a side that broke it, and all sentences that the rule checks. It also
lists the sentences that no observer can check.

Each rule belongs to a stage. If a message breaks a rule of an early stage, rules of a later stage do not judge it, so
that one cause gives one finding.

Used by: the modules of check/ that have rules, findings.py, report.py, cli/check.py
"""

from __future__ import annotations

import functools
import importlib.resources
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, TypeVar

from ..revisions import R2026_07_28, Revision
from .recording import Side

Level = Literal["MUST", "SHOULD", "advice"]
MUST: Final = "MUST"
SHOULD: Final = "SHOULD"
ADVICE: Final = "advice"

On = Literal["malformed", "request", "notification", "result", "error", "exchange", "head", "event", "end", "close"]
"""The kind of thing that a rule judges, and the moment when it does. The first five are messages. The next four are
moments of an HTTP exchange: `exchange` when its request is complete, `head` when the head of the response has come,
`event` for each event of a stream, and `end` when the response has ended. `close` is a dialogue that is over."""

FORM, ORDER, SHAPE, MEANING = range(4)
"""The stages of rules, in this order: JSON-RPC; lifecycle and methods; the shape of params and results; all else."""


@dataclass(slots=True)
class Fault:
    """A broken rule.

    Args:
        text: sentence that says what is wrong, and quotes the wrong values.
        events: numbers of earlier events that prove the fault too. For a response, the event of its request is added.
        side: the side at fault. Default: the sender of the message, or for an exchange the side that the rule judges.
        key: name of the cause. Faults with the same rule, side and key become one finding. Default: the method.
    """

    text: str
    events: tuple[int, ...] = ()
    side: Side | None = None
    key: str | None = None


Verdict: TypeAlias = "Fault | str | None"
Judge = Callable[[Any], Verdict]
F = TypeVar("F", bound=Judge)

NEEDS: Final[dict[str, Callable[[Any], bool]]] = {
    # if the beginning was missed, nobody can say that something was never sent
    "seen": lambda subject: subject.dialogue.is_fully_seen,
    # ids, order and capabilities prove nothing if several clients can have sent them
    "unshared": lambda subject: not subject.dialogue.is_shared,
    # both sides see the messages in the recorded order, because they share one pipe
    "ordered": lambda subject: subject.dialogue.is_ordered,
    # no value is hidden by `***`
    "unmasked": lambda subject: not subject.masked,
    # a message is a line of standard input or output
    "stdio": lambda message: message.dialogue.transport == "stdio",
    # the request of the response is known, with its params
    "call": lambda message: message.call is not None and message.call.has_known_params,
    # the exchange is with the MCP server, and not with an authorization server
    "endpoint": lambda exchange: exchange.is_at_endpoint,
    # the exchange is a POST, GET or DELETE of Streamable HTTP
    "mcp": lambda exchange: exchange.is_mcp,
}
"""Names of conditions under which a rule can judge -> a function that returns True if the condition holds."""


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """One demand on a conversation."""

    level: Level
    id: str
    """The stable id: that of the sentence of the specification, or `schema/` and a type."""
    judge: Judge
    on: frozenset[str]
    methods: frozenset[str]
    """JSON-RPC methods of messages, HTTP methods of exchanges, or kinds of malformed messages; empty for all."""
    needs: tuple[Callable[[Any], bool], ...]
    """The conditions under which the rule can judge."""
    by: Side | None
    """The side whose messages the rule judges; None for both."""
    since: Revision | None
    until: Revision | None
    should_until: Revision | None
    """The first revision in which the demand is a MUST. Before, it is a SHOULD."""
    stage: int

    @property
    def name(self) -> str:
        return self.judge.__name__

    @property
    def meaning(self) -> str:
        """The demand in one line. `python -OO` removes docstrings, so there it is the name."""
        return self.judge.__doc__ or self.name

    @property
    def fix(self) -> str:
        """The advice to a side that broke the rule."""
        return read_sentences().fixes[self.name]

    def applies(self, subject: object) -> bool:
        """Return True if the rule can judge the subject. (`all` would make a generator for each message.)"""
        for holds in self.needs:  # noqa: SIM110
            if not holds(subject):
                return False
        return True

    def covers(self, revision: Revision | None) -> bool:
        """Return True if the rule holds in a revision. For None, only rules without `since` and `until` hold."""
        if revision is None:
            return self.since is None and self.until is None
        return (self.since is None or self.since <= revision) and (self.until is None or revision < self.until)

    def level_in(self, revision: Revision | None) -> Level:
        """Return the level of the demand in a revision."""
        if self.should_until is not None and (revision is None or revision < self.should_until):
            return SHOULD
        return self.level


@dataclass(slots=True)
class Finding:
    """A place in a conversation that breaks a rule."""

    rule: Rule
    level: Level
    side: Side
    events: tuple[int, ...]
    """Numbers of the events that prove the fault, from 1. Event 1 is in line 2 of a recording."""
    text: str
    fix: str
    revision: str
    """The revision by which the message was judged, or "" if unknown."""
    times: int = field(default=1, compare=False)
    """Number of times that the same cause was seen. It grows while the conversation goes on."""


RULES: Final[list[Rule]] = []
"""All rules, in the order of their modules."""


@dataclass(slots=True)
class Sentences:
    """The content of `sentences.txt`. If revisions share a sentence, its id is that of the latest one."""

    fixes: dict[str, str] = field(default_factory=dict)
    """Name of a rule -> the advice to a side that broke it."""
    rules: dict[str, str] = field(default_factory=dict)
    """Id of a sentence -> the name of the rule that decides it."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Id of a sentence -> the reason why no observer can decide it."""


@functools.cache
def read_sentences() -> Sentences:
    """Return the content of `sentences.txt`, whose lines are of these kinds:

    [rule NAME] the advice of a rule, which checks the sentences below
    [NAME] the reason why nobody can check the sentences below
    2026-07-28/basic/index page-1 page-2      a page, and its sentences
    """
    sentences = Sentences()
    target, rule_or_reason = sentences.rules, ""
    for line in importlib.resources.files(__package__).joinpath("sentences.txt").read_text("utf-8").splitlines():
        heading = re.fullmatch(r"\[(?P<kind>rule )?(?P<name>\w+)\] (?P<text>.*)", line)
        if heading is not None and heading["kind"]:
            sentences.fixes[heading["name"]] = heading["text"]
            target, rule_or_reason = sentences.rules, heading["name"]
        elif heading is not None:
            target, rule_or_reason = sentences.reasons, heading["text"]
        elif line and not line.startswith("#"):
            page, *numbers = line.split()
            for number in numbers:
                target[f"{page}#{number}"] = rule_or_reason
    return sentences


def rule(
    level: Level, id: str, on: str, *, methods: str = "", needs: str = "", by: Side | None = None,
    since: Revision | None = None, until: Revision | None = None, should_until: Revision | None = None,
    stage: int = MEANING,
) -> Callable[[F], F]:  # fmt: skip
    """Register a function as a rule. `on`, `methods` and `needs` are lists with spaces between their items."""

    def register(judge: F) -> F:
        conditions = tuple(NEEDS[name] for name in needs.split())
        RULES.append(Rule(level, id, judge, frozenset(on.split()), frozenset(methods.split()), conditions, by, since,
                          until, should_until, stage))  # fmt: skip
        return judge

    return register


legacy_rule = functools.partial(rule, until=R2026_07_28)
"""Register a rule of the legacy era."""
modern_rule = functools.partial(rule, since=R2026_07_28)
"""Register a rule of the modern era."""


@functools.lru_cache(maxsize=4096)
def rules_for(on: On, method: str, revision: Revision | None, side: Side) -> tuple[Rule, ...]:
    """Return the rules that judge a kind of message of a side, in the order of their stages."""
    found = [
        each
        for each in RULES
        if on in each.on
        and (not each.methods or method in each.methods)
        and each.by in (None, side)
        and each.covers(revision)
    ]
    return tuple(sorted(found, key=lambda each: each.stage))
