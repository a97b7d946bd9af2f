"""Access to resources: the scopes that a caller needs to read a URI, or to hear of its changes.

A server can have a template for all notes, and a resource with a scope for one of them. A URI that matches both needs
the scope, whichever function serves it. Such a function gets decoded values: for `notes://{team}/{name}` it cannot tell
`r%26d` from `r&d`, and if it opens a file, it cannot tell `a//b` from `a/b`. So this module compares all `readings` of
a URI (lib/uri.py), and adds the scopes of everything that one of them matches. It never takes a scope away.

A path with other capital letters is another URI. If a function opens files where `Keys` and `keys` are one file, or
follows links, only that function can check the access.

A subscriber to a URI also gets the updates of the URIs below it, but only of those that it is allowed to read.

Threats:
    resource-spelling: resources that need a scope; a caller without it; spells the URI in another way, such as
        `docs://%61dmin/keys`; lookups compare canonical forms, and scopes compare all readings of a URI.
    resource-overlap: resources that need a scope; a caller without it; reads the URI through a more general template;
        a URI needs the scopes of all resources and templates that it matches.
    update-of-hidden-child: the URI of a resource that needs a scope; a subscriber to its parent; waits for updates;
        each update is checked with the subscriber's scopes.

Spec:  server/resources#security-considerations (2024-11-05 to 2026-07-28), RFC 3986, section 6.2.2
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from ..basic.access import Subscriptions
from ..lib.uri import canonical_uri, parents, readings, respelled
from ..lib.uritemplate import UriTemplate, canonical_template
from .registry import Registry

MAX_URI_LENGTH: Final = 8192
"""Maximum length of a URI in a request, in characters."""


class Template(Protocol):
    """A registered template."""

    matcher: UriTemplate

    def arguments(self, uri: str, matcher: UriTemplate) -> dict[str, object] | None:
        """Return the function's arguments for a URI, or None if the template or a parameter's type does not match."""


R = TypeVar("R")
T = TypeVar("T", bound=Template)


class _Index(NamedTuple):
    """The scopes of all registered resources and templates, after a number of changes."""

    changes: int
    by_reading: dict[str, frozenset[str]]
    """Reading of the URI of each resource that needs scopes -> the scopes."""
    templates: list[tuple[Template, UriTemplate, frozenset[str]]]
    """Each template that needs scopes, a template for readings, and the scopes."""
    latest: dict[str, frozenset[str]]
    """The latest URI, and its scopes. One change of a resource is checked for all its subscribers."""


class ResourceAccess(Generic[R, T]):
    """The scopes of a server's resources and templates.

    Args:
        on_change: Called after a resource or template was added or removed.
    """

    resources: Registry[R]
    templates: Registry[T]

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._changes = 1
        self._index = _Index(0, {}, [], {})  # outdated, so it is made at the first use

    def changed(self) -> None:
        """Note that a resource or template was added or removed."""
        self._changes += 1
        self._on_change()

    def scopes_of(self, uri: str) -> frozenset[str]:
        """Return the scopes that a caller needs for this URI. `uri` can also be a registered template."""
        if not (self.templates.scopes or self.resources.scopes) or len(uri) > MAX_URI_LENGTH:
            return frozenset()
        if (key := canonical_template(uri)) is None:
            return frozenset()
        return self.templates.scopes.get(key, frozenset()) if key in self.templates else self._scopes_of_uri(key)

    def _scopes_of_uri(self, uri: str) -> frozenset[str]:
        index = self._index
        if index.changes != self._changes:
            index = self._index = self._make_index()
        if (known := index.latest.get(uri)) is not None:
            return known
        texts = dict.fromkeys(readings(uri))
        needed = frozenset[str]().union(*(index.by_reading.get(text, ()) for text in texts))
        for template, loose, scopes in index.templates:
            tries = [(uri, template.matcher), *((text, loose) for text in texts)]
            if not scopes <= needed and any(template.arguments(*each) is not None for each in tries):
                needed |= scopes
        index.latest.clear()
        index.latest[uri] = needed
        return needed

    def _make_index(self) -> _Index:
        changes = self._changes  # first of all: another thread can add a resource meanwhile
        by_reading: dict[str, frozenset[str]] = {}
        for uri, scopes in tuple(self.resources.scopes.items()):
            for reading in readings(uri)[:2]:  # not the third: a query can make another resource
                by_reading[reading] = by_reading.get(reading, frozenset()) | scopes
        items = tuple(self.templates.scopes.items())
        templates = [(self.templates[key], _loose(key), scopes) for key, scopes in items]
        return _Index(changes, by_reading, [*templates], {})

    def updated_uri(self, subscriptions: Subscriptions, changed: str) -> str | None:
        """Return the URI in the update for a client with these subscriptions, or None if it must not get an update.

        The URI is in the client's spelling, because many clients compare it with the URI that they sent.

        Args:
            subscriptions: The subscriptions of the client.
            changed: The canonical URI of the changed resource.
        """
        for parent in parents(changed):
            if (subscribed := subscriptions.get(parent)) is None:
                continue
            if subscribed.access is None or subscribed.access.refusal_for(self.scopes_of(changed)) is None:
                return respelled(changed, parent, subscribed.uri)
        return None


def _loose(template: str) -> UriTemplate:
    """Return a template that matches the readings of all URIs that the given template matches."""
    return UriTemplate(canonical_template(template, _first_reading) or template, absolute_paths=True)


def _first_reading(uri: str) -> str | None:
    canonical = canonical_uri(uri)
    return None if canonical is None else readings(canonical)[0]
