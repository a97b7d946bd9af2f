"""The user's consent to the definitions of a server's tools: their names, descriptions and schemas.

The host approves all definitions of a server's first list, except those with hidden characters. With an `approve`
function, a later change takes the tool out of the list until the user allows it, because a server could otherwise win
the user's trust first and change the description later. A server that changes its behavior but not its definitions goes
unnoticed.

    a list of tools -> `approved`: is the hash of the tool's definition stored?   yes: the tool stays in the list
        -> no: the tool leaves the list -> `Approval` of the kind `definition` -> stored -> the list is fetched again

Threats:
    changed-definition: A server changes a tool's description or schema after the user has consented to the tool. With
        an `approve` function, the changed tool leaves the list until the user allows the new definition.

Spec:  2026-07-28 server/tools#security-considerations
Used by: hosted.py
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from ..features.tools import Tool
from ..jsonrpc.bounded_waits import CANCEL_SECONDS
from ..transports.base import finish
from .approval import Approval, Refused, Undecided, hidden_text_warnings, quoted
from .names import full_name
from .policy import Policy, definition_hash, digest_of

log = logging.getLogger(__name__)


class Definitions:
    """The approved definitions of one server's tools.

    Args:
        server: The server's name.
        policy: The policy of the host, which asks the user and stores the approvals.
        new_request: Function that takes the full name of a tool, and returns a request for consent to its definition.
        fetch_again: Makes the host fetch the list again, after the user allowed a definition, or could not decide.
    """

    def __init__(
        self, server: str, policy: Policy, new_request: Callable[[str], Approval], fetch_again: Callable[[], None]
    ) -> None:
        self.unapproved: dict[str, str] = {}
        """The tools of the latest list that are not approved, with the reasons."""
        self._server, self._policy, self._new_request, self._fetch_again = server, policy, new_request, fetch_again
        self._digest = ""  # of the configuration for which the stored definitions are valid
        self._last_approved: dict[str, Tool] = {}  # by name: the latest approved ones, for `Approval.before`
        self._undecided: list[Tool] = []  # the listed tools whose definitions are not approved
        self._asking: asyncio.Task[None] | None = None  # requests the approvals of `_undecided`
        self._denied: set[str] = set()  # hashes of the definitions that were refused

    def approved(self, tools: list[Tool], digest: str) -> list[Tool]:
        """Return the tools with approved definitions, and store these. Ask the user about the others in the background.

        Args:
            tools: The tools of a list.
            digest: Digest of the server's configuration. Another configuration needs new approvals.
        """
        self._digest = digest
        stored = self._stored()
        # Trust on first use: without an earlier list, or without `approve`, only hidden characters are refused.
        trusts_all = stored is None or self._policy.options.approve is None
        definitions = dict(stored or {})
        approved = list[Tool]()
        self.unapproved = {}
        self._undecided = []
        for tool in tools:
            reason = _reason_to_ask(tool, definitions, trusts_all)
            if reason is None:
                definitions[_name_hash(tool.name)] = definition_hash(tool)
                self._last_approved[tool.name] = tool
                approved.append(tool)
            else:
                self._undecided.append(tool)
                self.unapproved[tool.name] = reason
        if definitions != stored:
            try:
                self._store(definitions)
            except Exception:  # without the record, a definition that changes later would look like a first one
                log.exception("the definitions of %s could not be stored, so new tools are refused",
                              quoted(self._server))  # fmt: skip
                approved = self._only_stored(approved, stored or {})
        if self._undecided and (self._asking is None or self._asking.done()):
            self._asking = asyncio.create_task(self._ask())
        return approved

    def _only_stored(self, tools: list[Tool], stored: Mapping[str, str]) -> list[Tool]:
        """Return the tools whose definitions are stored. Note the others as not approved."""
        kept = list[Tool]()
        for tool in tools:
            if stored.get(_name_hash(tool.name)) == definition_hash(tool):
                kept.append(tool)
            else:
                self.unapproved[tool.name] = "not stored"
        return kept

    def _stored(self) -> dict[str, str] | None:
        """Return the hashes of the approved definitions, by `_name_hash`. None if no list was approved yet."""
        stored = self._policy.approvals.get(f"{self._digest} definitions")
        if stored is None:
            return None
        definitions = {}
        for entry in stored.split():
            name_hash, _, definition = entry.partition(":")
            definitions[name_hash] = definition
        return definitions

    def _store(self, definitions: Mapping[str, str]) -> None:
        # One entry for all tools, because a changed tool whose own entry got lost would look like a new one.
        text = " ".join(f"{name_hash}:{definition}" for name_hash, definition in definitions.items())
        self._policy.approvals[f"{self._digest} definitions"] = text

    async def _ask(self) -> None:
        """Ask the user about one definition after the other. The next list contains those that are allowed.

        If the user does not decide in time, `fetch_again` makes the host fetch the list and ask again. The host doubles
        the pause before each fetch (supervisor.py).
        """
        while self._undecided:
            tool = self._undecided.pop(0)
            name_hash, definition = _name_hash(tool.name), definition_hash(tool)
            if definition in self._denied or (self._stored() or {}).get(name_hash) == definition:
                continue  # the user has already decided, perhaps after the list was fetched
            request = replace(
                self._new_request(full_name(self._server, tool.name)), tool=tool,
                before=self._last_approved.get(tool.name), reason=self.unapproved.get(tool.name, ""),
            )  # fmt: skip
            try:
                await self._policy.check(request)
                self._store({**(self._stored() or {}), name_hash: definition})
            except Undecided as error:
                log.warning("%s; the host asks again later", error)
            except Refused:
                self._denied.add(definition)
                continue  # the tool stays out of the list, so the list need not be fetched again
            except Exception:
                log.exception("the approval of %s could not be stored; the host asks again later", request.name)
            self._fetch_again()  # after a failure too, so that the next list asks again

    async def close(self) -> None:
        await finish(self._asking, cancel=True, timeout=CANCEL_SECONDS)


def _name_hash(name: str) -> str:
    """Return a short text that stands for the name of a tool, because a name may have 64 KiB."""
    return digest_of(name)[:16]


def _reason_to_ask(tool: Tool, definitions: Mapping[str, str], trusts_all: bool) -> str | None:
    """Return the reason why the user must decide about a definition, or None if it is approved or trusted.

    `definitions` contains the hashes of the approved definitions, by `_name_hash`. `trusts_all` is True to trust every
    definition without hidden characters.
    """
    name_hash = _name_hash(tool.name)
    if definitions.get(name_hash) == definition_hash(tool):
        return None
    if hidden_text_warnings(tool):
        return "hidden characters"
    if trusts_all:
        return None
    return "changed" if name_hash in definitions else "new"
