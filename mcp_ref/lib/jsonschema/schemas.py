"""Schemas: what they are called, how they refer to each other, and how they become nodes.

Four ideas of Core 8 and 9 are here.

- A *resource* is a schema with a URI of its own: a document's root, or a subschema with `$id`. `$anchor` and
  `$dynamicAnchor` name places in a resource. One pass over a document finds them all (`_scan`).
- A *reference* is a URI: a resource, and in it a JSON pointer or an anchor. Nothing is ever fetched: a resource is in
  the documents that were handed in, or the reference is an error.
- A *dialect* says which keywords mean something: draft-07, or the vocabularies of 2020-12 that a metaschema chooses.
- `$dynamicRef` asks which resources were passed on the way here, the *dynamic scope*. Of all that was passed, only one
  fact matters: to which resource each dynamic anchor's name was bound first. So a schema is compiled once for each
  such binding that it is reached with (nearly always one, the empty one), and then every reference is a fixed one.

Below: applicators.py, assertions.py. Above: `compile_schema`.
"""

from __future__ import annotations

from .applicators import (
    APPLICATOR,
    CORE,
    UNEVALUATED,
    dependencies_on_schemas,
    dependent_schemas,
    items,
    items_of_draft_07,
    ref,
)
from .assertions import FORMAT, VALIDATION, VALIDATION_2020_12, dependencies_on_names
from .expressions import PatternError
from .model import Node, SchemaError
from .patterns import Pattern
from .values import is_integer, is_number
from .words import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import TypeAlias

    from .model import JSON, Keyword, Limits

    Builder: TypeAlias = "Callable[[Place], Keyword | None]"
    Rows: TypeAlias = "tuple[tuple[Builder, *tuple[str, ...]], ...]"
    Scope: TypeAlias = "tuple[tuple[str, Resource], ...]"

DRAFT_2020_12 = "https://json-schema.org/draft/2020-12/"
DRAFT_7 = "http://json-schema.org/draft-07/schema"

ONE, MANY, BY_NAME, ONE_OR_MANY = "one", "many", "by name", "one or many"
PLACES = {
    "$defs": BY_NAME,
    "additionalItems": ONE,
    "additionalProperties": ONE,
    "allOf": MANY,
    "anyOf": MANY,
    "contains": ONE,
    "contentSchema": ONE,
    "definitions": BY_NAME,
    "dependencies": BY_NAME,
    "dependentSchemas": BY_NAME,
    "else": ONE,
    "if": ONE,
    "items": ONE_OR_MANY,
    "not": ONE,
    "oneOf": MANY,
    "patternProperties": BY_NAME,
    "prefixItems": MANY,
    "properties": BY_NAME,
    "propertyNames": ONE,
    "then": ONE,
    "unevaluatedItems": ONE,
    "unevaluatedProperties": ONE,
}
"""Where schemas stand in schemas: the same in both dialects, save keywords that the other does not have."""


class Dialect:
    """Which keywords mean something, and what reads them."""

    def __init__(self, rows: Rows, *, asserts_formats: bool = False, is_draft_07: bool = False) -> None:
        self.asserts_formats, self.is_draft_07 = asserts_formats, is_draft_07
        self.builders: dict[str, list[tuple[int, Builder]]] = {}
        for rank, (builder, *names) in enumerate(rows):
            for name in names:
                self.builders.setdefault(name, []).append((rank, builder))


VOCABULARIES: dict[str, Rows] = {
    "core": CORE,
    "applicator": APPLICATOR,
    "unevaluated": UNEVALUATED,
    "validation": VALIDATION_2020_12,
    "format-annotation": FORMAT,
    "format-assertion": FORMAT,
    "content": (),
    "meta-data": (),
}
"""Core 8.1.2. Validation 8, contentMediaType and its like, and 9, title and its like, only annotate."""

_ALL = (*CORE, *VALIDATION_2020_12, *FORMAT, *APPLICATOR, *UNEVALUATED)


_DRAFT_07: Rows = (
    (ref, "$ref"),
    *VALIDATION,
    *FORMAT,
    (items_of_draft_07, "items", "additionalItems"),
    *(row for row in APPLICATOR if row[0] not in (items, dependent_schemas)),
    (dependencies_on_names, "dependencies"),
    (dependencies_on_schemas, "dependencies"),
)
"""Draft-07 has no vocabularies: this is all of it."""


class Resource:
    """A schema with a URI. anchors: its named places. dynamic: those names that are dynamic anchors."""

    __slots__ = ("anchors", "dialect", "dynamic", "schema", "uri")

    def __init__(self, uri: str, schema: JSON, dialect: Dialect) -> None:
        self.uri, self.schema, self.dialect = uri, schema, dialect
        self.anchors: dict[str, tuple[JSON, str]] = {}
        self.dynamic: set[str] = set()


class Place:
    """A schema on its way to be compiled: where it is, and what a keyword's function may ask about it."""

    __slots__ = ("at", "compiler", "depth", "is_built", "keywords", "node", "resource", "schema", "scope")

    def __init__(
        self, compiler: Compiler, schema: dict[str, JSON], resource: Resource, scope: Scope, at: str, depth: int
    ) -> None:
        self.compiler, self.schema, self.resource, self.scope = compiler, schema, resource, scope
        self.at, self.depth = at, depth
        self.keywords: list[Keyword] = []  # those made so far
        self.node = Node(at)
        self.is_built = False

    @property
    def limits(self) -> Limits:
        """The limits that are in force."""
        return self.compiler.limits

    @property
    def asserts_formats(self) -> bool:
        """Whether the caller, or the dialect, wants formats asserted."""
        return self.compiler.assert_formats or self.resource.dialect.asserts_formats

    def __contains__(self, keyword: str) -> bool:
        return keyword in self.schema and keyword in self.resource.dialect.builders

    def error(self, keyword: str, expected: str) -> SchemaError:
        """A keyword's value is not what it must be."""
        return SchemaError(f"{self.at}/{keyword}: expected {expected}, got {shown(self.schema[keyword])}")

    # -- values

    def text(self, keyword: str) -> str:
        """A string."""
        value = self.schema[keyword]
        if not isinstance(value, str):
            raise self.error(keyword, "a string")
        return value

    def texts(self, keyword: str, value: JSON) -> list[str]:
        """An array of different strings."""
        if isinstance(value, list):
            found = [item for item in value if isinstance(item, str)]
            if len(set(found)) == len(value):
                return found
        raise self.error(keyword, "an array of different strings")

    def number(self, keyword: str) -> int | float:
        """A number."""
        value = self.schema[keyword]
        if not is_number(value):
            raise self.error(keyword, "a number")
        return value  # type: ignore[return-value]

    def size(self, keyword: str) -> int:
        """An integer from 0 on."""
        value = self.schema[keyword]
        if not is_integer(value) or value < 0:  # type: ignore[operator]
            raise self.error(keyword, "an integer, at least 0")
        return int(value)  # type: ignore[arg-type]

    def mapping(self, keyword: str) -> dict[str, JSON]:
        """An object."""
        value = self.schema[keyword]
        if not isinstance(value, dict):
            raise self.error(keyword, "an object")
        return value

    def pattern(self, keyword: str, source: str) -> Pattern:
        """A regular expression."""
        if len(source) > self.limits.pattern:
            raise self.error(keyword, f"patterns of at most {self.limits.pattern} characters")
        try:
            return self.compiler.pattern(source)
        except PatternError as error:
            raise self.error(keyword, f"a regular expression ({error})") from None

    # -- subschemas

    def child(self, schema: JSON, *steps: str | int) -> Node:
        """A subschema, compiled."""
        at = self.at + "".join(f"/{_escaped(step)}" for step in steps)
        return self.compiler.compile(schema, self.resource, self.scope, at, self.depth + 1)

    def one(self, keyword: str) -> Node:
        """A keyword's value, which is a schema."""
        return self.child(self.schema[keyword], keyword)

    def many(self, keyword: str, may_be_empty: bool = False) -> list[Node]:
        """A keyword's value, which is an array of schemas."""
        value = self.schema[keyword]
        if not isinstance(value, list) or not (value or may_be_empty):
            raise self.error(keyword, "an array of schemas")
        return [self.child(schema, keyword, index) for index, schema in enumerate(value)]

    def by_name(self, keyword: str) -> dict[str, Node]:
        """A keyword's value, which is an object of schemas."""
        return {name: self.child(schema, keyword, name) for name, schema in self.mapping(keyword).items()}

    def in_place(self, nodes: list[Node]) -> list[Node]:
        """Note that these are applied to the same instance."""
        self.node.neighbours += nodes
        return nodes

    def refer(self, keyword: str, reference: str, dynamic: bool) -> Node:
        """The node that a reference leads to. It may not be compiled yet."""
        try:
            target = self.compiler.target(self, reference, dynamic)
        except SchemaError as error:
            raise SchemaError(f"{self.at}/{keyword}: {error}") from None
        self.node.neighbours.append(target)
        return target


class Compiler:
    """Makes nodes of schemas, each once."""

    def __init__(self, documents: Mapping[str, JSON], assert_formats: bool, limits: Limits) -> None:
        self.assert_formats, self.limits = assert_formats, limits
        self._documents = {uri.removesuffix("#"): schema for uri, schema in documents.items()}
        self._resources: dict[str, Resource] = {}
        self._resource_of: dict[int, Resource] = {}  # by the identity of its root schema
        self._dialects: dict[str, Dialect] = {}
        self._places: dict[tuple[int, str, Scope], Place] = {}
        self._waiting: list[Place] = []  # targets of references: compiled one after the other, not one in the other
        self._patterns: dict[str, Pattern] = {}
        self._scanned = 0

    def root(self, schema: JSON) -> Node:
        """Compile a document, and all that it refers to."""
        resource = self._read("", schema, self._dialect(DRAFT_2020_12 + "schema"))
        node = self.compile(resource.schema, resource, (), "#", 0)
        while self._waiting:
            self._build(self._waiting.pop())
        self._refuse_loops()
        return node

    # -- resources

    def _read(self, uri: str, schema: JSON, default: Dialect) -> Resource:
        """Take in a document, under the URI that it was found at."""
        resource = Resource(uri, schema, self._dialect_of(schema, default))
        self._resources[uri] = resource
        if isinstance(schema, dict):
            self._resource_of[id(schema)] = resource
            own = self._own_uri(schema, resource)
            if own is not None:
                resource.uri = own
                self._resources.setdefault(own, resource)
            self._scan(schema, resource, "#", 0)
        return resource

    def _scan(self, schema: JSON, resource: Resource, at: str, depth: int) -> None:
        """Find the resources and anchors of a document."""
        if not isinstance(schema, dict):
            return
        self._scanned += 1
        if self._scanned > self.limits.subschemas:
            raise SchemaError(f"more than {self.limits.subschemas} subschemas")
        if depth > self.limits.depth:
            raise SchemaError(f"{at[:200]}…: schemas nested deeper than {self.limits.depth}")
        own = self._own_uri(schema, resource) if schema is not resource.schema else None
        if own is not None:  # Core 8.2.1: a subschema with $id is a resource, and the base of all URIs in it
            resource = Resource(own, schema, self._dialect_of(schema, resource.dialect))
            at = own + "#"
            self._resources[own] = self._resource_of[id(schema)] = resource
        self._name_anchors(schema, resource, at)
        for keyword in schema.keys() & PLACES.keys():
            value, kind = schema[keyword], PLACES[keyword]
            if isinstance(value, dict) and kind == BY_NAME:
                for name, part in value.items():
                    self._scan(part, resource, f"{at}/{keyword}/{_escaped(name)}", depth + 1)
            elif isinstance(value, list) and kind in (MANY, ONE_OR_MANY):
                for index, part in enumerate(value):
                    self._scan(part, resource, f"{at}/{keyword}/{index}", depth + 1)
            elif kind in (ONE, ONE_OR_MANY):
                self._scan(value, resource, f"{at}/{keyword}", depth + 1)

    def _own_uri(self, schema: dict[str, JSON], resource: Resource) -> str | None:
        """The URI that a schema gives itself, if it does."""
        own = schema.get("$id")
        if not isinstance(own, str):
            return None
        uri, _, fragment = own.partition("#")
        if resource.dialect.is_draft_07:
            if "$ref" in schema or not uri:
                return None  # Draft-07 8.3: $ref hides all beside it; 8.2.3: a mere fragment is an anchor
        elif fragment:
            raise SchemaError(f"$id {shown(own)}: Core 8.2.1 allows no fragment")
        return _joined(resource.uri, uri)

    def _name_anchors(self, schema: dict[str, JSON], resource: Resource, at: str) -> None:
        if resource.dialect.is_draft_07:
            own = schema.get("$id")
            if isinstance(own, str) and "$ref" not in schema and len(own.partition("#")[2]) > 0:
                resource.anchors[own.partition("#")[2]] = schema, at  # Draft-07 8.2.3
            return
        for keyword in ("$anchor", "$dynamicAnchor"):  # Core 8.2.2
            name = schema.get(keyword)
            if isinstance(name, str):
                if resource.anchors.setdefault(name, (schema, at))[0] is not schema:
                    raise SchemaError(f"{at}/{keyword}: {shown(name)} is used twice in {resource.uri or 'the schema'}")
                if keyword == "$dynamicAnchor":
                    resource.dynamic.add(name)

    def _resource(self, uri: str, place: Place) -> Resource:
        """A resource by its URI, from those that are known or were handed in (Core 9.1.2), as a place refers to it."""
        if uri not in self._resources and uri in self._documents:
            self._read(uri, self._documents[uri], default=place.resource.dialect)
        if uri not in self._resources:
            raise SchemaError(f"no schema {shown(uri)} was handed in, and none is ever fetched")
        return self._resources[uri]

    # -- dialects

    def _dialect_of(self, schema: JSON, default: Dialect) -> Dialect:
        """Core 8.1.1: `$schema` at the root of a resource."""
        uri = schema.get("$schema") if isinstance(schema, dict) else None
        if uri is None:
            return default
        if not isinstance(uri, str):
            raise SchemaError(f"$schema: expected a URI, got {shown(uri)}")
        return self._dialect(uri.removesuffix("#"))

    def _dialect(self, uri: str) -> Dialect:
        if uri not in self._dialects:
            self._dialects[uri] = self._new_dialect(uri)
        return self._dialects[uri]

    def _new_dialect(self, uri: str) -> Dialect:
        if uri == DRAFT_2020_12 + "schema":
            return Dialect(_ALL)
        if uri.replace("https:", "http:") == DRAFT_7:
            return Dialect(_DRAFT_07, is_draft_07=True)
        metaschema = self._documents.get(uri)
        chosen = metaschema.get("$vocabulary") if isinstance(metaschema, dict) else None
        if not isinstance(chosen, dict):
            raise SchemaError(f"$schema {shown(uri)}: known are {DRAFT_2020_12}schema and {DRAFT_7}#")
        names = []
        for vocabulary, is_required in chosen.items():
            name = vocabulary.removeprefix(DRAFT_2020_12 + "vocab/")
            if name in VOCABULARIES:
                names.append(name)
            elif is_required:  # Core 8.1.2: a vocabulary that is required and not known: refuse to process the schema
                raise SchemaError(f"$schema {shown(uri)} requires the unknown vocabulary {shown(vocabulary)}")
        rows = {row for name in ["core", *names] for row in VOCABULARIES[name]}
        return Dialect(tuple(row for row in _ALL if row in rows), asserts_formats="format-assertion" in names)

    # -- nodes

    def compile(self, schema: JSON, resource: Resource, scope: Scope, at: str, depth: int) -> Node:
        """The node of a schema, compiled with all its subschemas."""
        place = self._place(schema, resource, scope, at, depth)
        self._build(place)
        return place.node

    def pattern(self, source: str) -> Pattern:
        """A regular expression, each compiled once."""
        if source not in self._patterns:
            if len(self._patterns) >= self.limits.patterns:
                raise SchemaError(f"more than {self.limits.patterns} patterns")
            self._patterns[source] = Pattern(source)
        return self._patterns[source]

    def target(self, place: Place, reference: str, dynamic: bool) -> Node:
        """The node that a reference at a place leads to, perhaps not compiled yet. Core 8.2.3.1 and 8.2.3.2."""
        uri, _, fragment = reference.partition("#")
        resource = self._resource(_joined(place.resource.uri, uri), place) if uri else place.resource
        if "%" in fragment:
            from urllib.parse import unquote  # costly to import, rarely needed

            fragment = unquote(fragment)
        if not fragment:
            schema, at = resource.schema, f"{resource.uri}#"
        elif fragment.startswith("/"):
            schema, resource = self._pointed_at(fragment, resource)
            at = f"{resource.uri}#{fragment}"
        elif fragment in resource.anchors:
            if dynamic and fragment in resource.dynamic:
                resource = dict(place.scope).get(fragment, resource)
            schema, at = resource.anchors[fragment]
        else:
            raise SchemaError(f"there is no anchor {shown(fragment)} in {resource.uri or 'the schema'}")
        target = self._place(schema, resource, place.scope, at, 0)
        self._waiting.append(target)
        return target.node

    def _pointed_at(self, pointer: str, resource: Resource) -> tuple[JSON, Resource]:
        """What a JSON pointer (RFC 6901) leads to, and in which resource that is."""
        value = resource.schema
        for token in pointer[1:].split("/"):
            step = token.replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict) and step in value:
                value = value[step]
            elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
                value = value[int(step)]
            else:
                raise SchemaError(f"{shown(pointer)} leads nowhere in {resource.uri or 'the schema'}")
            resource = self._resource_of.get(id(value), resource)
        return value, resource

    def _place(self, schema: JSON, resource: Resource, scope: Scope, at: str, depth: int) -> Place:
        if isinstance(schema, bool):
            place = Place(self, {}, resource, scope, at, depth)
            place.is_built = True
            if not schema:
                place.node.refuse("false", "nothing is allowed here")
            return place
        if not isinstance(schema, dict):
            raise SchemaError(f"{at}: expected a schema (an object, true or false), got {shown(schema)}")
        if depth > self.limits.depth:
            raise SchemaError(f"{at[:200]}…: schemas nested deeper than {self.limits.depth}")
        resource = self._resource_of.get(id(schema), resource)
        bound = [name for name, _ in scope]
        scope += tuple((name, resource) for name in sorted(resource.dynamic) if name not in bound)
        key = id(schema), resource.uri, scope
        if key not in self._places:
            if len(self._places) >= self.limits.subschemas:
                raise SchemaError(f"more than {self.limits.subschemas} subschemas")
            self._places[key] = Place(self, schema, resource, scope, at, depth)
        return self._places[key]

    def _build(self, place: Place) -> None:
        """Make the keywords of a schema."""
        if place.is_built:
            return
        place.is_built = True
        known = place.resource.dialect.builders
        if place.resource.dialect.is_draft_07 and "$ref" in place.schema:
            known = {"$ref": known["$ref"]}  # Draft-07 8.3: all other properties beside a $ref are ignored
        for _, builder in sorted({row for name in place.schema if name in known for row in known[name]}, key=_rank):
            keyword = builder(place)
            if keyword is not None:
                place.keywords.append(keyword)
        place.node.assemble(place.keywords)

    def _refuse_loops(self) -> None:
        """Core 9.4.1: a schema that applies itself, by whatever way, to the same instance would never end."""
        finished: set[Node] = set()
        for place in self._places.values():
            open_nodes: dict[Node, Iterator[Node]] = {place.node: iter(place.node.neighbours)}
            while open_nodes:
                node, following = next(reversed(open_nodes.items()))
                for neighbour in following:
                    if neighbour in open_nodes:
                        raise SchemaError(f"{neighbour.at}: refers to itself without end")
                    if neighbour not in finished:
                        open_nodes[neighbour] = iter(neighbour.neighbours)
                        break
                else:
                    finished.add(node)
                    del open_nodes[node]


def _rank(row: tuple[int, Builder]) -> int:
    return row[0]


def _joined(base: str, uri: str) -> str:
    """RFC 3986 5.2: a reference, seen from a base."""
    if not base or not uri:
        return uri or base
    from urllib.parse import urljoin  # costly to import, rarely needed

    return urljoin(base, uri)


def _escaped(step: str | int) -> str:
    """A step of a JSON pointer."""
    return str(step).replace("~", "~0").replace("/", "~1")
