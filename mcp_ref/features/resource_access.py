"""Access to resources: the scopes that a caller needs to read a URI, or to be told of its changes.

A server can have a template for all notes, and a resource with a scope for one of them. A URI that matches both needs
the scope, whichever function serves it. The function of a template gets decoded values: for `notes://{team}/{name}` it
cannot tell `r%26d` from `r&d`, and if it opens a file, it cannot tell `a//b` from `a/b`. So a URI has several
`readings`, which are the texts that a function could take it for (lib/uri.py). This module requires the scopes of every
resource and template that one of the readings matches:

- A protected resource `docs://report?v=1` includes all URIs with this path and with `v=1` in the query, even if they
  have other parts or a fragment. A protected `docs://report{?v}` includes `docs://report` with any query.
- The types of a template's parameters do not count: if `items://{id}` is protected, `items://x` needs its scopes too,
  although `id` is an integer and the function never gets this URI.
- A function that gets a number cannot tell `items://1.0` from `items://1`, nor a default from an equal value. So the
  readings include those of other URIs that give the function equal arguments (expansions.py), both for the URI in a
  request and for that of a protected resource.
- A user name before the host, or dots and spaces at the end of a segment, do not bypass the scopes of a resource.

Paths that differ in capital letters are different URIs. If a function opens files where `Keys` and `keys` are the same
file, follows links, or converts text itself (`int("01")`), only that function can check the access.

A subscriber to a URI also gets the updates of the URIs below it, but only of those that it is allowed to read.

Threats:
    resource-spelling: A caller reads a resource without its scope by spelling the URI in another way, such as
        `docs://%61dmin/keys`. Lookups compare canonical forms, and scopes compare all readings of a URI.
    resource-query: A caller reads a resource without its scope by adding a fragment or query, changing its order, or
        leaving out a part that has a default. A protected query includes all queries that contain its parts.
    resource-value: A caller reads a resource without its scope by writing a number, a date or another value in a
        different form, such as `1.0` for 1. The server also checks the URI as its template would write it.
    resource-overlap: A caller reads a resource without its scope through a more general template. A URI needs the
        scopes of all resources and templates that it matches.
    list-of-hidden-resource: A caller learns the name of a resource below a template whose scope it lacks, by listing
        the resources or completing a variable. Both need the scopes that a read of these URIs needs.
    update-of-hidden-child: A subscriber to a resource learns the URI of a child whose scope it lacks, from the child's
        updates. The server checks the scopes for each update, and never sends a text that is not a URI.
    subscription-of-an-old-token: A legacy client whose newer token has fewer scopes learns which protected resources
        change, by subscribing with the old token and keeping the session. After the old token has expired, the scopes
        of the session's newest token count.
    public-copy-of-secret: Another user of a shared cache reads contents that need a scope, because the function's own
        hint is "public". The server always marks such contents as private.

Spec:  server/resources#security-considerations (2024-11-05 to 2026-07-28), RFC 3986, section 6.2.2
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from ..basic.access import Access, Subscriptions
from ..jsonrpc.messages import Object
from ..lib.uri import MAX_URI_LENGTH, Reading, bare_path, canonical_uri, parents, parts_of_query, readings, respelled
from ..lib.uritemplate import Expression, TemplateError, UriTemplate, Value, canonical_template
from .expansions import Template, converts, expansions, filled_in
from .registry import Registry

R = TypeVar("R")
T = TypeVar("T", bound=Template)


class _ProtectedTemplate(NamedTuple):
    matcher: UriTemplate
    path_matcher: UriTemplate
    """A template that matches the paths of readings, not whole URIs."""
    literal_parts: frozenset[str]
    """The literal parts of the query. A URI that has all of them matches, with any values of the variables."""
    scopes: frozenset[str]

    def covers(self, uris: Iterable[str], their_readings: Iterable[Reading]) -> bool:
        """Return True if the template matches one of the URIs or readings, regardless of its parameters' types."""
        if any(self.matcher.match(uri) is not None for uri in uris):
            return True
        for reading in their_readings:
            if self.literal_parts <= reading.rest and self.path_matcher.match(reading.path) is not None:
                return True
        return False


class _Index(NamedTuple):
    """The scopes of all registered resources and templates."""

    changes: int  # `ResourceAccess._changes` when the index was made
    all_templates: tuple[Template, ...]
    """All templates, protected or not."""
    resources: dict[str, set[Reading]]
    """URI of each resource that needs scopes -> the readings of the URI and of its expansions by all templates."""
    by_path: Mapping[str, list[tuple[Reading, frozenset[str]]]]
    """Path -> the readings with this path, of all resources that need scopes, and the scopes."""
    protected_templates: list[_ProtectedTemplate]
    latest_scopes: dict[str, frozenset[str]]
    """The latest URI -> its scopes, because a change of one resource is checked for each of its subscribers."""
    listed_scopes: dict[str, frozenset[str]]
    """Key of each resource or template that was in a list -> its scopes."""


class _Registry(Registry[R]):
    """The resources or the templates. A list shows a caller only those that it may read."""

    def __init__(self, kind: str, page_size: int, access: ResourceAccess[Any, Any]) -> None:
        super().__init__(kind, page_size, access.changed)
        self._access = access

    def _scopes_of(self, key: str) -> frozenset[str]:
        return self._access.listed_scopes_of(key)


class ResourceAccess(Generic[R, T]):
    """The resources and templates of a server, with their scopes.

    Args:
        page_size: Maximum number of items in a page of a list.
        on_change: Called after a resource or template was added or removed.
    """

    def __init__(self, page_size: int, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self.resources: Registry[R] = _Registry("resource", page_size, self)
        self.templates: Registry[T] = _Registry("resource template", page_size, self)
        self._changes = 1
        self._index = _Index(0, (), {}, {}, [], {}, {})  # the first use replaces it, because of its 0 changes

    def changed(self) -> None:
        """Note that a resource or template was added or removed."""
        self._changes += 1
        self._on_change()

    def scopes_of(self, uri: str, params: Object | None = None) -> frozenset[str]:
        """Return the scopes that a caller needs for a URI or a registered template.

        A template needs its own scopes, and the scopes that all its URIs share. `params` are the params of the request:
        a completion also needs the scopes of the URI that its arguments make.
        """
        if not (self.templates.scopes or self.resources.scopes) or len(uri) > MAX_URI_LENGTH:
            return frozenset()
        key = canonical_template(uri)
        if key is None:  # an invalid URI, which nobody can read
            return frozenset()
        template = self.templates.get(key)
        if template is None:
            return self._scopes_of_uri(key)
        short_uri, long_uri = _samples(template.matcher)
        needed_by_all = self._scopes_of_uri(short_uri) & self._scopes_of_uri(long_uri)
        needed = self.templates.scopes.get(key, frozenset()) | needed_by_all
        completed_uri = _completed_uri(template.matcher, params or {})
        if completed_uri is not None:
            needed |= self._scopes_of_uri(completed_uri)
        return needed

    def _scopes_of_uri(self, uri: str) -> frozenset[str]:
        index = self._current_index()
        known = index.latest_scopes.get(uri)
        if known is not None:
            return known
        uris = {uri, *self._expansions_of(uri)}
        their_readings = {reading for one_uri in uris for reading in readings(one_uri)}
        their_readings |= {reading._replace(path=bare_path(reading.path)) for reading in their_readings}
        needed = frozenset[str]()
        for reading in their_readings:
            for protected, scopes in index.by_path.get(reading.path, ()):
                if protected.rest <= reading.rest:  # a handler can ignore the other parts
                    needed |= scopes
        for template in index.protected_templates:
            if not template.scopes <= needed and template.covers(uris, their_readings):
                needed |= template.scopes
        index.latest_scopes.clear()  # only the latest URI is kept
        index.latest_scopes[uri] = needed
        return needed

    def _expansions_of(self, uri: str) -> set[str]:
        """Return other URIs that lead to the same call: the same template's function, with equal arguments."""
        if uri in self.resources:
            return set()
        for template in tuple(self.templates.values()):
            found = expansions(template, uri)
            if found.with_arguments or found.without_defaults:
                return found.with_arguments | found.without_defaults
        return set()

    def listed_scopes_of(self, key: str) -> frozenset[str]:
        """Return the scopes of a registered resource or template. They are stored, because each list needs them all."""
        index = self._current_index()
        known = index.listed_scopes.get(key)
        if known is None:
            known = index.listed_scopes[key] = self.scopes_of(key)
        return known

    def _current_index(self) -> _Index:
        if self._index.changes != self._changes:
            self._index = self._make_index()
        return self._index

    def _make_index(self) -> _Index:
        changes = self._changes  # read first, because another thread can add a resource meanwhile
        templates = tuple(self.templates.values())
        # Matching all resources takes long, so keep their readings if only resources were added.
        known_readings = self._index.resources if self._index.all_templates == templates else {}
        resources: dict[str, set[Reading]] = {}
        by_path = defaultdict[str, list[tuple[Reading, frozenset[str]]]](list)
        for uri, scopes in tuple(self.resources.scopes.items()):
            resources[uri] = known_readings.get(uri) or _guarded_readings(uri, templates)
            for reading in resources[uri]:
                by_path[reading.path].append((reading, scopes))
        converting_templates = [template for template in templates if converts(template)]
        protected_templates = list[_ProtectedTemplate]()
        for key, scopes in tuple(self.templates.scopes.items()):
            matcher = self.templates[key].matcher
            protected_templates.append(_protected(key, matcher, scopes))
            for other in _respelled_templates(matcher, converting_templates):
                protected_templates.append(_protected(other, UriTemplate(other, absolute_paths=True), scopes))
        return _Index(changes, templates, resources, by_path, protected_templates, {}, {})

    def updated_uri(self, subscriptions: Subscriptions, changed: str, latest: Access | None = None) -> str | None:
        """Return the URI in the update for a client with these subscriptions, or None if it must not get an update.

        The URI is in the client's spelling, because many clients compare it with the URI that they sent.

        Args:
            subscriptions: The subscriptions of the client.
            changed: The canonical URI of the changed resource.
            latest: The rights of the session's newest token, which count after a subscription's token has expired.
        """
        for parent in parents(changed):
            subscribed = subscriptions.get(parent)
            if subscribed is None:
                continue
            access = subscribed.access
            if access is not None and access.has_ended:
                access = latest or access
            if access is None or self._may_learn_of(access, changed):
                return respelled(changed, parent, subscribed.uri)
        return None

    def _may_learn_of(self, access: Access, changed: str) -> bool:
        if access.has_ended:
            return False
        # An author can announce a text that no client can read, such as a path with a space. Its scopes are unknown.
        is_readable = len(changed) <= MAX_URI_LENGTH and canonical_uri(changed) is not None
        if not is_readable and (self.templates.scopes or self.resources.scopes):
            return False
        return access.refusal_for(self.scopes_of(changed)) is None


def _samples(template: UriTemplate) -> tuple[str, str]:
    """Return a short and a long URI of a template. Another template that matches both is likely to match all its URIs.

    The long URI has nine items in a list and nine folders in a path, because no author writes nine variables for them.
    """
    long: dict[str, Value] = {}
    for operator, variables in _expressions(template):
        for variable in variables:
            if variable.explode:
                long[variable.name] = ["~"] * 9
            else:
                long[variable.name] = "~/" * 9 if operator.keeps_reserved else "~"
    return template.expand(_required_values(template)), template.expand(long)


def _required_values(template: UriTemplate) -> dict[str, Value]:
    """Return values for the variables that every URI of a template has."""
    required = (expression.variables for expression in _expressions(template) if not expression.operator.first)
    return {variable.name: "~" for variables in required for variable in variables}


def _expressions(template: UriTemplate) -> list[Expression]:
    return [part for part in template.parts if isinstance(part, Expression)]


def _completed_uri(template: UriTemplate, params: Object) -> str | None:
    """Return the URI that the arguments of a completion make, or None for another request."""
    argument, context = params.get("argument"), params.get("context")
    if not isinstance(argument, dict):
        return None
    others = context.get("arguments") if isinstance(context, dict) else None
    known = others.items() if isinstance(others, dict) else ()
    values = {**_required_values(template), **{name: text for name, text in known if isinstance(text, str)}}
    name, typed = argument.get("name"), argument.get("value")
    if isinstance(name, str) and isinstance(typed, str):  # without its unfinished segment: `pay` can become `payday`
        values[name] = typed[: typed.rfind("/") + 1] + "~"
    return filled_in(template, values)


def _guarded_readings(uri: str, templates: Iterable[Template]) -> set[Reading]:
    """Return the readings by which a URI is recognized as a protected resource."""
    uris = {uri}
    for template in templates:
        # not `without_defaults`, or a resource `report?v=1` would also protect `report?v=2` if `v` is 1 by default
        uris |= expansions(template, uri).with_arguments
    found = set[Reading]()
    for one_uri in uris:
        its_readings = readings(one_uri)
        found |= {its_readings.as_sent, its_readings.as_path}  # not `decoded`: `what%3F` would also protect `what`
    return found


def _protected(key: str, matcher: UriTemplate, scopes: frozenset[str]) -> _ProtectedTemplate:
    """Return a protected template with a matcher for the readings of all URIs that it matches."""
    query = re.search(r"[?#]|\{[?#&]", key)  # a query or a fragment begins with such a character or expression
    start = len(key) if query is None else query.start()
    path, rest = key[:start], key[start:]
    path_matcher = UriTemplate(_path_reading(path), absolute_paths=True)
    # A part of the query is literal if it has no variable. `?v=1&team={t}{&w}` becomes `?v=1&team={}&`: only `v=1`.
    rest = re.sub(r"\{[?#&][^}]*\}", "&", rest)
    rest = re.sub(r"\{[^}]*\}", "{}", rest)
    literal_parts = frozenset(part for part in parts_of_query(rest) if "{}" not in part)
    return _ProtectedTemplate(matcher, path_matcher, literal_parts, scopes)


def _respelled_templates(protected: UriTemplate, converting: Iterable[Template]) -> set[str]:
    """Return the protected template in the spellings that other templates would give to its literals.

    For `a/1.0/{p}`, return `a/1/{+p}` if there is a template `a/{n}/{p}` whose `n` is a number. To find `p` in a URI of
    the other template, this function fills in a mark for it, once a text and once a number.
    """
    found = set[str]()
    for marks in _marks_for(protected.variables):
        try:
            uri = filled_in(protected, _values_for(protected, marks))
        except TemplateError:
            continue
        others = {other for template in converting for other in expansions(template, uri).with_arguments} - {uri}
        complete = [other for other in others if all(mark in other for mark in marks.values())]
        found.update(_with_variables(other, marks) for other in complete)
    return found


MAX_COMBINED_VARIABLES: Final = 3
"""Maximum number of variables of a protected template that get marks in all combinations of texts and numbers."""


def _marks_for(names: Sequence[str]) -> Iterator[dict[str, str]]:
    """Yield marks for the variables of a template. They are values that no author would write."""
    texts = [f"zq7~{place}~" for place in range(len(names))]
    numbers = [str(7_310_965_000 + place) for place in range(len(names))]
    if len(names) > MAX_COMBINED_VARIABLES:
        yield dict(zip(names, texts, strict=True))
        return
    for marks in itertools.product(*zip(texts, numbers, strict=True)):
        yield dict(zip(names, marks, strict=True))


def _with_variables(uri: str, marks: Mapping[str, str]) -> str:
    for name, mark in marks.items():
        uri = uri.replace(mark, f"{{+{name}}}")
    return uri


def _values_for(template: UriTemplate, texts: Mapping[str, str]) -> dict[str, Value]:
    """Return values for all variables of a template, as a list for a variable such as `{/path*}`."""
    values: dict[str, Value] = {}
    for expression in _expressions(template):
        for variable in expression.variables:
            text = texts[variable.name]
            values[variable.name] = [text] if variable.explode else text
    return values


def _path_reading(template: str) -> str:
    """Return the first reading of a canonical template that has no query. Its expressions stay as they are."""
    pieces = re.split(r"(\{[^}]*\})", template)  # texts and expressions in turn
    texts = readings("%00".join(pieces[::2])).as_sent.path.split("%00")  # no text of a template contains %00
    if len(texts) != len(pieces[::2]):
        return template  # such as `%2F..` after an expression, which would remove it
    pieces[::2] = texts
    return "".join(pieces).replace("/{/", "{/")  # `{/name}` has its own slash
