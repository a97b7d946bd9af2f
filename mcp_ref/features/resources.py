"""Resources: data that a server offers for reading, each under a URI.

`resources/list` says which there are, `resources/templates/list` which families of URIs (RFC 6570), `resources/read`
gives the contents, as text or as bytes in Base64. A client may subscribe to a URI and is told when its contents have
changed.

Spec:  server/resources (2024-10-07 to 2026-07-28); schema: Resource, ResourceTemplate, ReadResourceRequest
Wire:  {"jsonrpc": "2.0", "id": 2, "method": "resources/read", "params": {"uri": "file:///project/README.md"}}
       C->S resources/list, resources/templates/list, resources/subscribe, resources/unsubscribe
       S->C notifications/resources/updated, notifications/resources/list_changed
Below: uritemplate.py. Elsewhere: the contents' types (basic/content.py), as tools and prompts embed them too.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Protocol, TypedDict, cast

from ..basic.content import Annotations, BlobResourceContents, Icon, ResourceContents, TextResourceContents, check_uri
from ..basic.meta import EmptyResult, PaginatedRequestParams, check_meta_keys
from ..jsonrpc.errors import ProtocolError
from ..jsonrpc.messages import INVALID_PARAMS, JSON, Object
from ..lib.jsonschema import Validator, compile_schema
from ..lib.typed import Signature, signature_of, to_json
from ..lib.uritemplate import Matched, UriTemplate
from ..revisions import R2024_11_05, R2025_06_18, R2025_11_25, Life
from .caching import CacheableResult, CacheHints, CacheScope, hints_for
from .invoke import Scope, call, check_options
from .pagination import PAGE_SIZE
from .registry import Registry

if TYPE_CHECKING:
    from typing import Unpack

log = logging.getLogger(__name__)

MAX_SUBSCRIPTIONS = 1000
"""URIs that one connection may be subscribed to at a time."""

MAX_URI = 8192
"""Characters of a URI in a request."""

# ---------------------------------------------------------------------------------------------------- types


@dataclass
class Resource:
    """What a client learns about a resource. `size` is the number of bytes before any encoding, where known."""

    uri: str
    name: str
    title: Annotated[str | None, Life(since=R2025_06_18)] = None
    description: str | None = None
    mime_type: str | None = None
    annotations: Annotated[Annotations | None, Life(since=R2024_11_05)] = None
    size: Annotated[int | None, Life(since=R2024_11_05)] = None
    icons: Annotated[list[Icon] | None, Life(since=R2025_11_25)] = None
    meta: Annotated[Object | None, Life(since=R2025_06_18)] = None


@dataclass
class ResourceTemplate:
    """A family of resources. `uri_template` is RFC 6570, such as `file:///{path}`; `mime_type` only if all share it."""

    uri_template: str
    name: str
    title: Annotated[str | None, Life(since=R2025_06_18)] = None
    description: str | None = None
    mime_type: str | None = None
    annotations: Annotated[Annotations | None, Life(since=R2024_11_05)] = None
    icons: Annotated[list[Icon] | None, Life(since=R2025_11_25)] = None
    meta: Annotated[Object | None, Life(since=R2025_06_18)] = None


@dataclass
class ListResourcesResult(CacheableResult):
    """One page of resources."""

    resources: list[Resource]
    next_cursor: Annotated[str | None, Life(since=R2024_11_05)] = None
    meta: Object | None = None


@dataclass
class ListResourceTemplatesResult(CacheableResult):
    """One page of templates."""

    resource_templates: list[ResourceTemplate]
    next_cursor: Annotated[str | None, Life(since=R2024_11_05)] = None
    meta: Object | None = None


@dataclass
class ReadResourceRequestParams:
    """Which resource to read."""

    uri: str
    meta: Object | None = None


@dataclass
class ReadResourceResult(CacheableResult):
    """What it holds: often one item, several for a resource such as a directory."""

    contents: list[ResourceContents]
    meta: Object | None = None


@dataclass
class SubscribeRequestParams:
    """Which resource to watch."""

    uri: str
    meta: Object | None = None


@dataclass
class UnsubscribeRequestParams:
    """Which resource to watch no longer."""

    uri: str
    meta: Object | None = None


@dataclass
class ResourceUpdatedNotificationParams:
    """Which resource has changed; it may be a part of the one that was subscribed to."""

    uri: str
    meta: Object | None = None


class ResourceOptions(TypedDict, total=False):
    """What can be said about a resource or a template beyond its function."""

    name: str
    title: str
    description: str
    mime_type: str
    annotations: Annotations
    size: int
    icons: list[Icon]
    meta: Object


# ---------------------------------------------------------------------------------------------------- server


class SubscribingScope(Scope, Protocol):
    """The request of a client whose subscriptions are kept."""

    @property
    def subscriptions(self) -> set[str]:
        """The URIs that the client watches."""


@dataclass
class RegisteredResource:
    """A resource and the function that reads it."""

    resource: Resource
    function: Callable[..., object]
    signature: Signature
    hints: CacheHints


@dataclass
class RegisteredTemplate:
    """A template and the function that reads what matches it; the variables become the function's arguments."""

    template: ResourceTemplate
    matcher: UriTemplate
    function: Callable[..., object]
    signature: Signature
    checks: dict[str, Validator]
    """The parameters' schemas, compiled."""
    hints: CacheHints

    def arguments(self, uri: str) -> dict[str, object] | None:
        """What the function is called with for this URI; None where the URI is not one of the family."""
        variables = self.matcher.match(uri)
        if variables is None:
            return None
        arguments: dict[str, object] = {}
        for parameter in self.signature.parameters:
            if parameter.name in variables:
                readings = _readings(variables[parameter.name])
                fitting = [value for value in readings if self.checks[parameter.name].is_valid(value)]
                if not fitting:
                    return None
                arguments[parameter.name] = fitting[0]
            elif parameter.required:
                return None
        try:
            return self.signature.bind(arguments)
        except ValueError:
            return None


class Resources:
    """A server's resources: what is registered, and the requests about them."""

    def __init__(
        self, context_type: type | None = None, page_size: int = PAGE_SIZE, changed: Callable[[], None] = lambda: None
    ) -> None:
        self._context_type = context_type
        self._resources: Registry[RegisteredResource] = Registry("resource", page_size, changed)
        self._templates: Registry[RegisteredTemplate] = Registry("resource template", page_size, changed)

    def add(
        self,
        uri: str,
        function: Callable[..., object],
        *,
        cache_ttl: float = 0.0,
        cache_scope: CacheScope = "private",
        **options: Unpack[ResourceOptions],
    ) -> Resource | ResourceTemplate:
        """Register a function that reads a resource, or, where `uri` has variables, a family of them.

        The function returns str, bytes, contents, or a list of these; anything else is written as JSON. cache_ttl:
        seconds that a client of 2026-07-28 may keep what it has read. cache_scope: "public" where everybody may then be
        given it, "private" where only who has read it. Raises TemplateError for a bad template, ValueError for what is
        no URI, for one that is taken, for a function that lacks a variable, and for hints that cannot be given.
        """
        check_options(options, ResourceOptions)
        check_meta_keys(options.get("meta"))
        hints = hints_for(cache_ttl, cache_scope)
        signature = signature_of(function, context_type=self._context_type)
        matcher = UriTemplate(uri)
        expected = {parameter.name for parameter in signature.parameters if parameter.required}
        if not expected <= set(matcher.variables):
            missing = ", ".join(sorted(expected - set(matcher.variables)))
            raise ValueError(f"{signature.name}() needs {missing}, which {uri!r} does not name as a variable")
        # [2025-11-25 server/resources#custom-uri-schemes] MUST be in accordance with RFC 3986: of a template, what
        # stands before its first variable, which includes the scheme.
        check_uri(UriTemplate(uri.partition("{")[0]).expand({}) if matcher.variables else uri)
        if not matcher.variables:
            resource = replace(Resource(uri, signature.name, description=signature.description or None), **options)
            self._resources.add(uri, RegisteredResource(resource, function, signature, hints))
            return resource
        if unknown := set(matcher.variables) - {parameter.name for parameter in signature.parameters}:
            raise ValueError(f"{signature.name}() has no parameter for {', '.join(sorted(unknown))} of {uri!r}")
        if "size" in options:
            raise TypeError("a template has no size; only a single resource has")
        template = ResourceTemplate(uri, signature.name, description=signature.description or None)
        template = replace(template, **options)  # type: ignore[misc]  # mypy does not see that `size` is not in it
        checks = {parameter.name: compile_schema(parameter.schema) for parameter in signature.parameters}
        self._templates.add(uri, RegisteredTemplate(template, matcher, function, signature, checks, hints))
        return template

    def remove(self, uri: str) -> None:
        """Remove a resource or template; KeyError when there is none."""
        (self._templates if self._templates.get(uri) is not None else self._resources).remove(uri)

    def has(self, uri: str) -> bool:
        """Whether a resource has this URI, or a template this text."""
        return self._resources.get(uri) is not None or self._templates.get(uri) is not None

    def can_be_watched(self, uri: str) -> bool:
        """Whether a URI is that of a resource, or of a template's family: only what can be read can be watched."""
        if len(uri) > MAX_URI:
            return False
        return self._resources.get(uri) is not None or any(
            family.arguments(uri) is not None for family in self._templates
        )

    async def list(self, params: PaginatedRequestParams, scope: Scope) -> ListResourcesResult:
        """Serve `resources/list`."""
        page, following = self._resources.page(params.cursor, scope.revision)
        return ListResourcesResult([registered.resource for registered in page], following)

    async def list_templates(self, params: PaginatedRequestParams, scope: Scope) -> ListResourceTemplatesResult:
        """Serve `resources/templates/list`."""
        page, following = self._templates.page(params.cursor, scope.revision)
        return ListResourceTemplatesResult([registered.template for registered in page], following)

    async def read(self, params: ReadResourceRequestParams, scope: Scope) -> ReadResourceResult:
        """Serve `resources/read`: the resource of that URI, else the first template that matches it."""
        _check_length(params.uri)
        registered = self._resources.get(params.uri)
        if registered is not None:
            value = await call(registered.function, registered.signature, {}, scope)
            return _result_of(params.uri, registered.resource.mime_type, value, registered.hints)
        for family in self._templates:
            arguments = family.arguments(params.uri)
            if arguments is not None:
                value = await call(family.function, family.signature, arguments, scope)
                return _result_of(params.uri, family.template.mime_type, value, family.hints)
        raise not_found(params.uri, scope)

    async def subscribe(self, params: SubscribeRequestParams, scope: SubscribingScope) -> EmptyResult:
        """Serve `resources/subscribe`. Only for what can be read; twice is like once."""
        _check_length(params.uri)
        if not self.can_be_watched(params.uri):
            raise not_found(params.uri, scope)
        if len(scope.subscriptions) >= MAX_SUBSCRIPTIONS and params.uri not in scope.subscriptions:
            raise ProtocolError(INVALID_PARAMS, f"too many subscriptions: at most {MAX_SUBSCRIPTIONS} a connection")
        scope.subscriptions.add(params.uri)
        return EmptyResult()

    async def unsubscribe(self, params: UnsubscribeRequestParams, scope: SubscribingScope) -> EmptyResult:
        """Serve `resources/unsubscribe`; also where there was no subscription."""
        scope.subscriptions.discard(params.uri)
        return EmptyResult()


def _check_length(uri: str) -> None:
    if len(uri) > MAX_URI:
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: uri has more than {MAX_URI} characters")


def not_found(uri: str, scope: Scope) -> ProtocolError:
    """The error for a resource that does not exist; functions that read a template's resources may raise it."""
    # [2025-11-25 server/resources#error-handling] -32002 with the URI as data; the code depends on the revision
    code = scope.revision.resource_not_found_code
    return ProtocolError(code, f"Resource not found: {uri[:200]}", {"uri": uri[:2000]})


def _readings(value: Matched) -> list[JSON]:
    """What a variable of a URI may mean: itself, or the number or boolean that it is the JSON of."""
    if isinstance(value, str) and _NUMBER_OR_BOOLEAN.fullmatch(value):
        with contextlib.suppress(ValueError):  # more digits than Python reads
            return [value, json.loads(value)]
    return [cast(JSON, value)]


_NUMBER_OR_BOOLEAN = re.compile(r"true|false|-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")


def _result_of(uri: str, mime_type: str | None, value: object, hints: CacheHints) -> ReadResourceResult:
    contents = _contents_of(uri, mime_type, value)
    return ReadResourceResult(contents, ttl_ms=hints.ttl_ms, cache_scope=hints.scope)


def _contents_of(uri: str, mime_type: str | None, value: object) -> list[ResourceContents]:
    """Make contents of what a resource's function returned."""
    if isinstance(value, (TextResourceContents, BlobResourceContents)):
        return [value]
    if isinstance(value, list) and any(isinstance(v, (TextResourceContents, BlobResourceContents)) for v in value):
        return [contents for item in value for contents in _contents_of(uri, mime_type, item)]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return [BlobResourceContents.of(uri, bytes(value), mime_type or "application/octet-stream")]
    if isinstance(value, str):
        return [TextResourceContents(uri, value, mime_type or "text/plain")]
    return [TextResourceContents(uri, json.dumps(to_json(value), ensure_ascii=False), mime_type or "application/json")]
