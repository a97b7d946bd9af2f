"""The names of servers, tools and prompts in a host that has several servers.

Two servers may have a tool with the same name. A host SHOULD make the names of such tools different, but SHOULD NOT use
`serverInfo.name` for that, because a server chooses it itself [2026-07-28 server/tools#tool-names]. So the host uses
the server's key in the configuration:

    key in the configuration    "Weather service"
    server name                 "Weather-service"               letters, digits and hyphens; at most 24 characters
    full name                   "Weather-service.forecast"      for programs, logs and people; the first dot separates
    model name                  "Weather-service__forecast"     for the APIs of model providers, which refuse dots

A model name does not depend on other servers, so that prompt caches stay valid. Its first "__" ends the server name,
which has no underscore. The rest may be a changed name, so the host looks it up in a table of the server's tools.

Spec:  2026-07-28 server/tools#tool-names
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from ..features.prompts import Prompt
from ..features.resources import Resource, ResourceTemplate
from ..features.tools import Tool
from ..lib.text import escape_hidden

D = TypeVar("D", Tool, Prompt, Resource, ResourceTemplate)

MAX_SERVER_NAME = 24
"""Maximum length of a server name, in characters."""

MAX_MODEL_NAME = 60
"""Maximum length of a model name, in characters. All known model providers and hosts allow 60."""

_ALLOWED_IN_MODEL_NAME = re.compile(r"[A-Za-z0-9_-]+")


class UnknownName(LookupError):
    """A name of a server or tool that the host does not have.

    Args:
        kind: "server" or "tool".
        name: The unknown name.
        known: The names that the host has. The error suggests similar ones.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = sorted(escape_hidden(text, keep="") for text in known)  # a server chooses the names of its tools
        suggested = [text for text in names if name and text.endswith(f".{name}")][:3]  # only the server is missing
        if not suggested:
            suggested = difflib.get_close_matches(name, names, n=3)
        if not suggested and len(names) <= 12:  # few enough to list them all
            suggested = names
        hint = f"did you mean {' or '.join(suggested)}?" if suggested else f"the host has {len(names) or 'none'}"
        super().__init__(f"unknown {kind} {name[:200]!r}; {hint}")


def _hash_digits(text: str, count: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:count]


def server_name(key: str) -> str:
    """Return the server name for a key of the configuration: a letter, then letters, digits and single hyphens."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", key)
    name = re.sub(r"^[^A-Za-z]+|-$", "", name)
    if not name:
        return f"server-{_hash_digits(key, 4)}"
    if len(name) > MAX_SERVER_NAME:
        return f"{name[: MAX_SERVER_NAME - 5].rstrip('-')}-{_hash_digits(key, 4)}"
    return name


def full_name(server: str, name: str) -> str:
    """Return the full name of a tool or prompt, which contains `name` unchanged."""
    return f"{server}.{name}"


def model_name(server: str, name: str, digits: int = 8) -> str:
    """Return the model name, which matches `^[A-Za-z][A-Za-z0-9_-]{0,59}$`. A changed name ends with a hash."""
    joined = f"{server}__{name}"
    if _ALLOWED_IN_MODEL_NAME.fullmatch(name) and len(joined) <= MAX_MODEL_NAME:
        return joined
    suffix = "_" + _hash_digits(full_name(server, name), digits)
    return re.sub(r"[^A-Za-z0-9_-]", "_", joined)[: MAX_MODEL_NAME - len(suffix)] + suffix


def model_names(names: Iterable[tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Return the table from model name to (server name, name on the server).

    If two names would get the same model name, it goes to the name that needs no change, or else to the first in
    alphabetical order. The other gets a model name with more digits.
    """

    def unchanged_first(pair: tuple[str, str]) -> tuple[bool, tuple[str, str]]:
        is_changed = model_name(*pair) != "__".join(pair)
        return is_changed, pair

    table: dict[str, tuple[str, str]] = {}
    for server, name in sorted(set(names), key=unchanged_first):
        unique_name = model_name(server, name)
        if unique_name in table:
            unique_name = model_name(server, name, digits=16)
        table[unique_name] = (server, name)
    return table


@dataclass(frozen=True)
class Listed(Generic[D]):
    """A tool, prompt, resource or resource template of one server."""

    server: str
    definition: D
    model_name: str = ""
    """The name of a tool or prompt for a model provider (names.py)."""
    available: bool = True
    """False while the server is not ready. Its tools stay in the list for a minute."""

    @property
    def full_name(self) -> str:
        """The server name, a dot, and the name, URI or URI template."""
        defined = self.definition
        if isinstance(defined, ResourceTemplate):
            return full_name(self.server, defined.uri_template)
        return full_name(self.server, defined.uri if isinstance(defined, Resource) else defined.name)

    @property
    def display_name(self) -> str:
        """The name for people, with the server name, because a server can choose any title."""
        defined = self.definition
        name = defined.display_name if isinstance(defined, Tool) else defined.title or defined.name
        return f"{name} ({self.server})"
