"""Dialects and schema resources: the keywords that a schema can use, and the URIs that a reference can name.

A *dialect* is a set of keywords: draft-07, or vocabularies of 2020-12 that a metaschema lists in `$vocabulary`.
A *schema resource* (Core 4.3.5) is a schema with a URI of its own: the root of a document, or a subschema with `$id`.
An *anchor* names a subschema of a resource. One scan of a document finds all resources and anchors.

The validator never fetches a URI, which is only a name (Core 9.1.2). If it opened the URIs in a schema, the author of
the schema could read files (`file:///etc/passwd`) or send requests to servers inside our network (server-side request
forgery, SSRF). So all documents come from the caller of `compile_schema`.

Spec:  Core 8.1 (dialects and vocabularies), 8.2 ($id and anchors), 9.1 and 9.2; RFC 3986 5.2; RFC 6901
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from .applicators import APPLICATOR, CORE, REFERENCE, dependent_schemas, items_of_draft_07
from .assertions import FORMAT, VALIDATION, VALIDATION_2020_12, dependent_names
from .errors import IllegalSchemaError, SchemaError, quoted
from .limits import ValidationLimits
from .model import KeywordBuilder, Vocabulary
from .unevaluated import UNEVALUATED
from .values import JSON

_URI_2020_12 = "https://json-schema.org/draft/2020-12/"
_URI_DRAFT_07 = "http://json-schema.org/draft-07/schema"
_URIS_DRAFT_07 = [_URI_DRAFT_07, _URI_DRAFT_07.replace("http:", "https:")]

# Keywords of both dialects whose value is a subschema, an array of subschemas, or an object with subschemas as members.
# The scan ignores all other keywords, because their values are data.
_WITH_SUBSCHEMA = {
    "additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not",
    "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
}  # fmt: skip
_WITH_SUBSCHEMA_ARRAY = {"allOf", "anyOf", "items", "oneOf", "prefixItems"}
_WITH_SUBSCHEMA_MAP = {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}

_VOCABULARIES: dict[str, Vocabulary] = {
    "core": CORE, "applicator": APPLICATOR, "unevaluated": UNEVALUATED, "validation": VALIDATION_2020_12,
    "format-annotation": FORMAT, "format-assertion": FORMAT, "content": (), "meta-data": (),
}  # fmt: skip
"""The vocabularies of 2020-12 (Core 8.1.2). The last two never refuse an instance (Validation 8 and 9)."""

_KEYWORDS_2020_12 = (*CORE, *VALIDATION_2020_12, *FORMAT, *APPLICATOR, *UNEVALUATED)

_KEYWORDS_DRAFT_07: Vocabulary = (
    *REFERENCE, *VALIDATION, *FORMAT, (items_of_draft_07, "items", "additionalItems"),
    *(row for row in APPLICATOR if "prefixItems" not in row and "dependentSchemas" not in row),
    dependent_names("dependencies"), dependent_schemas("dependencies"),
)  # fmt: skip
"""The keywords of draft-07, which has no vocabularies."""


class Dialect:
    """The keywords of a dialect.

    `builders` has the builders of each keyword. A schema has its keywords in any order, but a validation needs them in
    that of the vocabulary, so each builder comes with its rank there.
    """

    def __init__(self, vocabulary: Vocabulary, *, asserts_formats: bool = False, is_draft_07: bool = False) -> None:
        self.asserts_formats, self.is_draft_07 = asserts_formats, is_draft_07
        self.builders: dict[str, list[tuple[int, KeywordBuilder]]] = {}
        for rank, (builder, *names) in enumerate(vocabulary):
            for name in names:
                self.builders.setdefault(name, []).append((rank, builder))


_DIALECTS = {
    _URI_2020_12 + "schema": Dialect(_KEYWORDS_2020_12),
    **dict.fromkeys(_URIS_DRAFT_07, Dialect(_KEYWORDS_DRAFT_07, is_draft_07=True)),
}


class SchemaResource:
    """A schema with a URI, and its anchors. `dynamic_anchors` are the names from `$dynamicAnchor`."""

    def __init__(self, uri: str, schema: JSON, dialect: Dialect) -> None:
        self.uri, self.schema, self.dialect = uri, schema, dialect
        self.anchors: dict[str, tuple[JSON, str]] = {}  # by name: the subschema and its location
        self.dynamic_anchors: set[str] = set()

    def __str__(self) -> str:
        return self.uri or "the schema"


class SchemaResources:
    """All resources of the documents that were read so far, by URI."""

    def __init__(self, documents: Mapping[str, JSON], limits: ValidationLimits) -> None:
        self._documents = {uri.removesuffix("#"): schema for uri, schema in documents.items()}
        self._limits = limits
        self._by_uri: dict[str, SchemaResource] = {}
        self._by_schema: dict[int, SchemaResource] = {}  # by the id() of the resource's root schema
        self._dialects = dict(_DIALECTS)
        self._scanned = 0

    def read(self, uri: str, schema: JSON, default: Dialect | None = None) -> SchemaResource:
        """Scan a document, and store it by its URI. `default` is the dialect of a document without `$schema`."""
        resource = SchemaResource(uri, schema, self._dialect_of(schema, default))
        self._by_uri[uri] = resource
        if isinstance(schema, dict):
            self._by_schema[id(schema)] = resource
            own_uri = self._own_uri(schema, resource)
            if own_uri is not None:
                resource.uri = own_uri
                self._by_uri.setdefault(own_uri, resource)
            self._scan(schema, resource, "#", 0)
        return resource

    def find(self, uri: str, base: SchemaResource) -> SchemaResource:
        """Return the resource of a URI, which can be relative to the URI of `base`. Read its document if necessary."""
        uri = resolve_uri(base.uri, uri)
        if uri not in self._by_uri and uri in self._documents:
            self.read(uri, self._documents[uri], default=base.dialect)
        if uri not in self._by_uri:
            raise SchemaError(f"unknown schema {quoted(uri)}: pass it in `documents`, because no URI is fetched")
        return self._by_uri[uri]

    def owner_of(self, schema: JSON, parent: SchemaResource) -> SchemaResource:
        """Return the resource whose root is this schema, or else `parent`."""
        return self._by_schema.get(id(schema), parent)

    def follow_pointer(self, pointer: str, resource: SchemaResource) -> tuple[JSON, SchemaResource]:
        """Return the value that a JSON Pointer (RFC 6901) leads to, and the resource that the value belongs to."""
        value = resource.schema
        for token in pointer[1:].split("/"):
            step = token.replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict) and step in value:
                value = value[step]
            elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
                value = value[int(step)]
            else:
                raise SchemaError(f"the pointer {quoted(pointer)} names no value in {resource}")
            resource = self.owner_of(value, resource)
        return value, resource

    def _scan(self, schema: JSON, resource: SchemaResource, location: str, depth: int) -> None:
        """Find the resources and anchors in a schema and its subschemas. `resource` contains the schema."""
        if not isinstance(schema, dict):
            return
        self._scanned += 1
        if self._scanned > self._limits.subschemas:
            raise SchemaError(f"the schema has more than {self._limits.subschemas} subschemas")
        if depth > self._limits.depth:
            raise SchemaError(f"{location[:200]}…: schemas are nested deeper than {self._limits.depth} levels")
        is_root = schema is resource.schema  # whose `$id` `read` has already used
        own_uri = None if is_root else self._own_uri(schema, resource)
        if own_uri is not None:  # Core 8.2.1: $id makes a subschema a resource, and is the base of its relative URIs
            resource = SchemaResource(own_uri, schema, self._dialect_of(schema, resource.dialect))
            location = own_uri + "#"
            self._by_uri[own_uri] = self._by_schema[id(schema)] = resource
        self._add_anchors(schema, resource, location)
        for keyword, value in schema.items():
            if keyword in _WITH_SUBSCHEMA_MAP and isinstance(value, dict):
                for name, part in value.items():
                    self._scan(part, resource, f"{location}/{keyword}/{escape_step(name)}", depth + 1)
            elif keyword in _WITH_SUBSCHEMA_ARRAY and isinstance(value, list):
                for index, part in enumerate(value):
                    self._scan(part, resource, f"{location}/{keyword}/{index}", depth + 1)
            elif keyword in _WITH_SUBSCHEMA:
                self._scan(value, resource, f"{location}/{keyword}", depth + 1)

    def _own_uri(self, schema: dict[str, JSON], resource: SchemaResource) -> str | None:
        """Return the URI of a schema from its `$id`, or None if it has no URI of its own."""
        own_id = schema.get("$id")
        if not isinstance(own_id, str):
            return None
        uri, _, fragment = own_id.partition("#")
        if resource.dialect.is_draft_07:
            if "$ref" in schema or not uri:
                return None  # Draft-07 8.3: $ref disables $id. Draft-07 8.2.3: a fragment alone is an anchor
        elif fragment:
            raise IllegalSchemaError(f"$id {quoted(own_id)}: Core 8.2.1 allows no fragment")
        return resolve_uri(resource.uri, uri)

    def _add_anchors(self, schema: dict[str, JSON], resource: SchemaResource, location: str) -> None:
        if resource.dialect.is_draft_07:
            own_id = schema.get("$id")
            anchor = own_id.partition("#")[2] if isinstance(own_id, str) else ""
            if anchor and "$ref" not in schema:
                resource.anchors[anchor] = schema, location  # Draft-07 8.2.3
            return
        for keyword in ("$anchor", "$dynamicAnchor"):  # Core 8.2.2
            name = schema.get(keyword)
            if isinstance(name, str):
                known, _ = resource.anchors.setdefault(name, (schema, location))
                if known is not schema:
                    raise SchemaError(f"{location}/{keyword}: the anchor {quoted(name)} is defined twice in {resource}")
                if keyword == "$dynamicAnchor":
                    resource.dynamic_anchors.add(name)

    def _dialect_of(self, schema: JSON, default: Dialect | None) -> Dialect:
        """Return the dialect that `$schema` names (Core 8.1.1), or the default."""
        uri = schema.get("$schema") if isinstance(schema, dict) else None
        if uri is None:
            return default or _DIALECTS[_URI_2020_12 + "schema"]
        if not isinstance(uri, str):
            raise IllegalSchemaError(f"$schema: expected a URI, got {quoted(uri)}")
        uri = uri.removesuffix("#")
        if uri not in self._dialects:
            self._dialects[uri] = self._dialect_of_metaschema(uri)
        return self._dialects[uri]

    def _dialect_of_metaschema(self, uri: str) -> Dialect:
        """Return the dialect of a metaschema in `documents`, which lists vocabularies of 2020-12 (Core 8.1.2)."""
        metaschema = self._documents.get(uri)
        vocabularies = metaschema.get("$vocabulary") if isinstance(metaschema, dict) else None
        if not isinstance(vocabularies, dict):
            raise SchemaError(f"unknown $schema {quoted(uri)}: use {_URI_2020_12}schema or {_URI_DRAFT_07}#")
        names = ["core"]  # which every dialect has
        for vocabulary, is_required in vocabularies.items():
            name = vocabulary.removeprefix(_URI_2020_12 + "vocab/")
            if name in _VOCABULARIES:
                names.append(name)
            elif is_required:  # Core 8.1.2: refuse a schema that requires an unknown vocabulary
                raise SchemaError(f"$schema {quoted(uri)} requires the unknown vocabulary {quoted(vocabulary)}")
        used = {row for name in names for row in _VOCABULARIES[name]}
        in_build_order = tuple(row for row in _KEYWORDS_2020_12 if row in used)
        return Dialect(in_build_order, asserts_formats="format-assertion" in names)


_URI = re.compile(r"^([a-zA-Z][a-zA-Z0-9+.-]*:)?(//[^/?]*)?([^?]*)(\?.*)?", re.DOTALL)
"""Scheme, authority, path and query of a URI, each with its delimiter (RFC 3986 appendix B)."""


def resolve_uri(base: str, reference: str) -> str:
    """Resolve a reference without a fragment against a base URI, and return the resulting URI (RFC 3986 5.2.2)."""
    own_scheme, authority, path, query = _URI.findall(reference)[0]
    if not base or own_scheme:
        return reference
    scheme, base_authority, base_path, base_query = _URI.findall(base)[0]
    if not authority:  # the reference takes from the base all parts before its own first one
        authority = base_authority
        if not path:
            path, query = base_path, query or base_query
        elif not path.startswith("/"):
            folder = base_path[: base_path.rfind("/") + 1]
            if authority and not base_path:
                folder = "/"
            path = f"{folder}{path}"
    return f"{scheme}{authority}{_without_dot_segments(path)}{query}"


def _without_dot_segments(path: str) -> str:
    """Return a path without its `.` and `..` segments (RFC 3986 5.2.4)."""
    kept: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            if len(kept) > 1:  # the first one, which is empty before the first slash, stays
                kept.pop()
        elif segment != ".":
            kept.append(segment)
    return "/".join(kept) + ("/" if path.endswith(("/.", "/..")) else "")


def decode_percent(text: str) -> str:
    """Return a text with its percent-encoded bytes decoded as UTF-8."""

    def decoded(escapes: re.Match[str]) -> str:
        return bytes.fromhex(escapes[0].replace("%", "")).decode(errors="replace")

    return re.sub("(?:%[0-9a-fA-F]{2})+", decoded, text)


def escape_step(step: str | int) -> str:
    """Return a property name or index as a step of a JSON Pointer."""
    return str(step).replace("~", "~0").replace("/", "~1")
