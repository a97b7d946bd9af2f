"""The compiler of schemas. It finds the target of every reference before the first validation.

`Compiler.compile_document` reads a schema, builds the functions of its keywords (model.py), and follows its references.

The value of `$ref` is a URI with a fragment. The URI names a schema resource (resources.py), and the fragment, a JSON
Pointer or an anchor, names a schema in this resource. If `$dynamicRef` names a *dynamic anchor*, the target also
depends on the *dynamic scope*: the resources that a validation enters before it comes to the reference (Core 7.1).
Since the target is in the first of these resources that defines the anchor, a `Scope` stores the first definition of
each dynamic anchor. If references lead to a schema in several scopes, it is compiled once for each scope.

Spec:  Core 7.1, 8.2.3, 9.4.1
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .errors import IllegalSchemaError, SchemaError, quoted
from .expressions import PatternError
from .limits import ValidationLimits
from .model import CompiledSchema, KeywordBuilder, SchemaReader
from .patterns import Pattern
from .resources import SchemaResource, SchemaResources, decode_percent, escape_step
from .values import JSON, Object

Scope = tuple[tuple[str, SchemaResource], ...]
"""Names of dynamic anchors, each with the first resource in the dynamic scope that defines the anchor."""


class ScopedSchema(SchemaReader):
    """The reader of a schema object, with the resource that contains the schema, and with the dynamic scope."""

    __slots__ = ("compiler", "depth", "is_built", "resource", "scope")

    def __init__(
        self, compiler: Compiler, schema: Object, resource: SchemaResource, scope: Scope, location: str, depth: int
    ) -> None:
        asserts_formats = compiler.assert_formats or resource.dialect.asserts_formats
        super().__init__(schema, location, resource.dialect.builders, asserts_formats)
        self.compiler, self.resource, self.scope, self.depth = compiler, resource, scope, depth
        self.is_built = False

    def compile(self, schema: JSON, *steps: str | int) -> CompiledSchema:
        location = self.location + "".join(f"/{escape_step(step)}" for step in steps)
        return self.compiler.compile(schema, self.resource, self.scope, location, self.depth + 1)

    def resolve(self, keyword: str, *, dynamic: bool) -> CompiledSchema:
        reference = self.string(keyword)
        try:
            target = self.compiler.find_target(self, reference, dynamic)
        except SchemaError as error:
            raise type(error)(f"{self.location}/{keyword}: {error}") from None
        self.compiled.in_place.append(target)
        return target

    def pattern(self, keyword: str, source: str) -> Pattern:
        known, limits = self.compiler.patterns, self.compiler.limits
        if source not in known:
            if len(source) > limits.pattern_length:
                raise self.unsupported(keyword, f"a pattern of at most {limits.pattern_length} characters")
            if len(known) >= limits.patterns:
                raise SchemaError(f"the schema has more than {limits.patterns} patterns")
            try:
                known[source] = Pattern(source)
            except PatternError as error:
                # not an IllegalSchemaError, as a pattern only SHOULD be valid (Validation 6.3.3), or is only too slow
                raise self.unsupported(keyword, f"a regular expression ({error})") from None
        return known[source]


class Compiler:
    """A compiler for one document and for all schemas that the document refers to."""

    def __init__(self, documents: Mapping[str, JSON], assert_formats: bool, limits: ValidationLimits) -> None:
        self.assert_formats, self.limits = assert_formats, limits
        self._resources = SchemaResources(documents, limits)
        self._schemas: dict[tuple[int, str, Scope], ScopedSchema] = {}
        self._unbuilt: list[ScopedSchema] = []  # targets of references, to be built later
        self.patterns: dict[str, Pattern] = {}  # by source, so that each pattern is compiled only once

    def compile_document(self, schema: JSON) -> CompiledSchema:
        """Compile a document, with all schemas that it refers to, and return the document's root schema."""
        resource = self._resources.read("", schema)
        root = self.compile(resource.schema, resource, (), "#", 0)
        while self._unbuilt:  # a target can have references of its own, which add further targets
            self._build(self._unbuilt.pop())
        self._refuse_loops()
        return root

    def compile(
        self, schema: JSON, resource: SchemaResource, scope: Scope, location: str, depth: int
    ) -> CompiledSchema:
        """Compile the schema at a location, with all its subschemas."""
        scoped = self._scoped(schema, resource, scope, location, depth)
        self._build(scoped)
        return scoped.compiled

    def find_target(self, origin: ScopedSchema, reference: str, dynamic: bool) -> CompiledSchema:
        """Return the target of a reference (Core 8.2.3.1, 8.2.3.2). Add the target to `_unbuilt`, to be built later."""
        uri, _, fragment = reference.partition("#")
        resource = self._resources.find(uri, origin.resource) if uri else origin.resource
        fragment = decode_percent(fragment)
        if not fragment:
            schema, location = resource.schema, f"{resource.uri}#"
        elif fragment.startswith("/"):
            schema, resource = self._resources.follow_pointer(fragment, resource)
            location = f"{resource.uri}#{fragment}"
        elif fragment in resource.anchors:
            if dynamic and fragment in resource.dynamic_anchors:
                resource = dict(origin.scope).get(fragment, resource)
            schema, location = resource.anchors[fragment]
        else:
            raise SchemaError(f"unknown anchor {quoted(fragment)} in {resource}")
        target = self._scoped(schema, resource, origin.scope, location, 0)
        self._unbuilt.append(target)
        return target.compiled

    def _scoped(self, schema: JSON, resource: SchemaResource, scope: Scope, location: str, depth: int) -> ScopedSchema:
        """Return the ScopedSchema of a schema, which is made only once for each scope.

        Its scope is `scope` with the dynamic anchors of the schema's resource.
        """
        if isinstance(schema, bool):
            scoped = ScopedSchema(self, {}, resource, scope, location, depth)
            scoped.is_built = True
            if not schema:
                scoped.compiled.set_false("false", "no value is allowed here")
            return scoped
        if not isinstance(schema, dict):
            raise IllegalSchemaError(f"{location}: expected a schema (an object, true or false), got {quoted(schema)}")
        if depth > self.limits.depth:
            raise SchemaError(f"{location[:200]}…: schemas are nested deeper than {self.limits.depth} levels")
        resource = self._resources.owner_of(schema, resource)
        defined_before = [name for name, _ in scope]  # the first definition of an anchor counts
        scope += tuple((name, resource) for name in sorted(resource.dynamic_anchors) if name not in defined_before)
        key = id(schema), resource.uri, scope
        if key not in self._schemas:
            if len(self._schemas) >= self.limits.subschemas:
                raise SchemaError(f"the schema has more than {self.limits.subschemas} subschemas")
            self._schemas[key] = ScopedSchema(self, schema, resource, scope, location, depth)
        return self._schemas[key]

    def _build(self, scoped: ScopedSchema) -> None:
        """Build the keywords of a schema, unless that is done or has begun: a schema can refer to itself."""
        if scoped.is_built:
            return
        scoped.is_built = True
        builders = scoped.resource.dialect.builders
        if scoped.resource.dialect.is_draft_07 and "$ref" in scoped.schema:
            builders = {"$ref": builders["$ref"]}  # Draft-07 8.3: all siblings of a $ref are ignored
        ranked_builders: set[tuple[int, KeywordBuilder]] = set()  # a set, because a builder can build several keywords
        for name in scoped.schema:
            ranked_builders.update(builders.get(name, ()))
        for _, build in sorted(ranked_builders):
            keyword = build(scoped)
            if keyword is not None:
                scoped.compiled.keywords.append(keyword)
        scoped.compiled.combine_checks()

    def _refuse_loops(self) -> None:
        """Raise SchemaError if a schema applies itself to the same instance, which would never end (Core 9.4.1)."""
        finished: set[CompiledSchema] = set()
        for scoped in self._schemas.values():
            # A depth-first search without recursion, because paths can be long. `path` is its stack: the schemas from
            # `scoped` to the current one, each with the schemas that it applies and that the search has not visited.
            path: dict[CompiledSchema, Iterator[CompiledSchema]] = {scoped.compiled: iter(scoped.compiled.in_place)}
            while path:
                current, unvisited = next(reversed(path.items()))
                for applied in unvisited:
                    if applied in path:
                        raise SchemaError(f"{applied.location}: the schema refers to itself without end")
                    if applied not in finished:  # search it next, and return to `current` later
                        path[applied] = iter(applied.in_place)
                        break
                else:  # all schemas that this one applies are finished
                    finished.add(current)
                    del path[current]
