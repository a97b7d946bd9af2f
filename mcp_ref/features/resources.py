"""Resources: data that a server offers for reading, such as files or database rows, each under a URI.

A client lists the resources (`resources/list`) and the families of resources, URI templates by RFC 6570
(`resources/templates/list`), and reads one (`resources/read`): text, or bytes in Base64. Resources are controlled by
the application: the host decides which of them go into the model's context, by the user's choice or by a heuristic
[2025-11-25 server/resources]. A client can ask to be notified when a resource changes.

Security. A server MUST validate every URI, and SHOULD check permissions before it reads
[2025-11-25 server/resources#security-considerations]. Since 2026-07-28 it also MUST sanitize the paths of `file://`
URIs: otherwise `file:///project/../../etc/passwd` reads a file outside the project. This package reads a URI only if it
is registered or matches a template, and no template variable takes a path segment "..". The author's function has to
check symbolic links. A server SHOULD use `https://` only for data that the client can fetch from the web by itself
[2025-11-25 server/resources#https%3A%2F%2F].

    2024-10-07  List, read, subscribe. Text or Base64. Unknown resource: -32001 in an example.
    2024-11-05  Templates, pages, `annotations` (audience, priority) and `size`. Unknown resource: SHOULD be -32002.
    2025-06-18  `title`, `_meta`, `annotations.lastModified`. Custom URI schemes MUST follow RFC 3986.
    2025-11-25  `icons`.
    2026-07-28  Unknown resource: MUST be -32602, as SDKs disagreed on the code (SEP-2164). Clients SHOULD still accept
                -32002. An unknown resource MUST NOT have empty `contents`, which would mean an empty resource.
                `subscriptions/listen` with `resourceSubscriptions` replaces `resources/subscribe` and
                `resources/unsubscribe`; the capability `subscribe` announces it. `ttlMs` and `cacheScope` on lists and
                reads. A read may return `input_required`. Paths MUST be sanitized. The list MUST NOT vary per
                connection; it MAY vary by authorization.

Spec:  server/resources (2024-11-05 to 2026-07-28); schema: Resource, ResourceTemplate, ReadResourceRequest
Wire:  {"jsonrpc": "2.0", "id": 1, "method": "resources/templates/list"}
       {"jsonrpc": "2.0", "id": 2, "method": "resources/read", "params": {"uri": "file:///project/README.md"}}
       {"jsonrpc": "2.0", "id": 3, "method": "resources/subscribe", "params": {"uri": "file:///project/README.md"}}
       {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "file:///project/README.md"}}
Above: server/offer.py (routes). Below: basic/content.py (contents, which tools embed too), lib/uritemplate.py
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, TypedDict, Unpack, cast

from ..basic.channel import RequestContext
from ..basic.content import Annotations, BlobResourceContents, Icon, ResourceContents, TextResourceContents, check_uri
from ..basic.meta import EmptyResult, PaginatedRequestParams, check_meta_keys
from ..jsonrpc.errors import ProtocolError
from ..jsonrpc.messages import INVALID_PARAMS, JSON, Object
from ..lib.jsonschema import Validator, compile_schema
from ..lib.typed import Signature, signature_of, to_json
from ..lib.uritemplate import Matched, UriTemplate
from ..revisions import R2024_11_05, R2025_06_18, R2025_11_25, Life
from .caching import CacheableResult, CacheHints, CacheScope, hints_for
from .invoke import call, check_options
from .pagination import PAGE_SIZE
from .registry import Registry

MAX_SUBSCRIPTIONS = 1000
"""Maximum number of URIs that one session may be subscribed to."""

MAX_URI = 8192
"""Maximum length of a URI in a request, in characters."""

# ---------------------------------------------------------------------------------------------------- types


@dataclass
class Resource:
    """The description of one resource, as a client sees it."""

    uri: str
    name: str
    title: Annotated[str | None, Life(since=R2025_06_18)] = None
    """The name to show to people."""
    description: str | None = None
    mime_type: str | None = None
    annotations: Annotated[Annotations | None, Life(since=R2024_11_05)] = None
    size: Annotated[int | None, Life(since=R2024_11_05)] = None
    """Size of the raw contents, in bytes, before Base64."""
    icons: Annotated[list[Icon] | None, Life(since=R2025_11_25)] = None
    meta: Annotated[Object | None, Life(since=R2025_06_18)] = None


@dataclass
class ResourceTemplate:
    """The description of a family of resources."""

    uri_template: str
    """A URI template by RFC 6570, such as `file:///{path}`."""
    name: str
    title: Annotated[str | None, Life(since=R2025_06_18)] = None
    """The name to show to people."""
    description: str | None = None
    mime_type: str | None = None
    """The MIME type, if all resources of the family have the same."""
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
    """The URI of the resource to read."""

    uri: str
    meta: Object | None = None


@dataclass
class ReadResourceResult(CacheableResult):
    """The contents of a resource: usually one item, several for a directory."""

    contents: list[ResourceContents]
    meta: Object | None = None


@dataclass
class SubscribeRequestParams:
    """The URI of the resource to watch."""

    uri: str
    meta: Object | None = None


@dataclass
class UnsubscribeRequestParams:
    """The URI of the resource to stop watching."""

    uri: str
    meta: Object | None = None


@dataclass
class ResourceUpdatedNotificationParams:
    """The URI of the changed resource. It may lie below the URI that the client watches."""

    uri: str
    meta: Object | None = None


class ResourceOptions(TypedDict, total=False):
    """Options of a resource or template. The function's name and docstring give `name` and `description`."""

    name: str
    title: str
    description: str
    mime_type: str
    annotations: Annotations
    size: int
    icons: list[Icon]
    meta: Object


# ---------------------------------------------------------------------------------------------------- server


@dataclass
class RegisteredResource:
    """A resource, and the function that reads it."""

    resource: Resource
    function: Callable[..., object]
    signature: Signature
    hints: CacheHints


@dataclass
class RegisteredTemplate:
    """A template, and the function that reads its resources; the variables become the function's arguments."""

    template: ResourceTemplate
    matcher: UriTemplate
    function: Callable[..., object]
    signature: Signature
    checks: dict[str, Validator]
    """Parameter name -> its compiled schema."""
    hints: CacheHints

    def arguments(self, uri: str) -> dict[str, object] | None:
        """Return the function's arguments for this URI, or None if the URI does not belong to the family."""
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
    """The resources of a server: those registered, and the handlers of the `resources/` methods."""

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
        """Register a function that reads a resource or, if `uri` is a template, a family of resources.

        The function gets the template's variables by name. It returns str, bytes, contents, or a list of these; any
        other value is written as JSON. cache_ttl: seconds that a client of 2026-07-28 may keep the contents.
        cache_scope: "public" if everybody may get the kept contents, "private" if only the reader may. Raise ValueError
        for a URI that is invalid or taken, an invalid template (TemplateError), or a caching hint out of range.
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
        # [2025-11-25 server/resources#custom-uri-schemes] MUST follow RFC 3986. Of a template, only the part before the
        # first variable can be checked; it includes the scheme.
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
        template = replace(template, **options)  # type: ignore[misc]  # mypy does not see that `size` was ruled out
        checks = {parameter.name: compile_schema(parameter.schema) for parameter in signature.parameters}
        self._templates.add(uri, RegisteredTemplate(template, matcher, function, signature, checks, hints))
        return template

    def remove(self, uri: str) -> None:
        """Remove a resource or template. Raise KeyError if it is unknown."""
        (self._templates if self._templates.get(uri) is not None else self._resources).remove(uri)

    def has(self, uri: str) -> bool:
        """Return True if this is the URI of a resource or the text of a template."""
        return self._resources.get(uri) is not None or self._templates.get(uri) is not None

    def can_be_watched(self, uri: str) -> bool:
        """Return True if the URI can be read: only such a resource can be watched."""
        if len(uri) > MAX_URI:
            return False
        return self._resources.get(uri) is not None or any(
            family.arguments(uri) is not None for family in self._templates.values()
        )

    async def list(self, params: PaginatedRequestParams, context: RequestContext) -> ListResourcesResult:
        """Serve `resources/list`."""
        page, following = self._resources.page(params.cursor, context.revision)
        return ListResourcesResult([registered.resource for registered in page], following)

    async def list_templates(
        self, params: PaginatedRequestParams, context: RequestContext
    ) -> ListResourceTemplatesResult:
        """Serve `resources/templates/list`."""
        page, following = self._templates.page(params.cursor, context.revision)
        return ListResourceTemplatesResult([registered.template for registered in page], following)

    async def read(self, params: ReadResourceRequestParams, context: RequestContext) -> ReadResourceResult:
        """Serve `resources/read`: read the resource with that URI, else the first template that matches."""
        _check_length(params.uri)
        registered = self._resources.get(params.uri)
        if registered is not None:
            value = await call(registered.function, registered.signature, {}, context)
            return _result_of(params.uri, registered.resource.mime_type, value, registered.hints)
        for family in self._templates.values():
            arguments = family.arguments(params.uri)
            if arguments is not None:
                value = await call(family.function, family.signature, arguments, context)
                return _result_of(params.uri, family.template.mime_type, value, family.hints)
        raise not_found(params.uri, context)

    async def subscribe(self, params: SubscribeRequestParams, context: RequestContext) -> EmptyResult:
        """Serve `resources/subscribe`. A second subscription to the same URI changes nothing."""
        _check_length(params.uri)
        if not self.can_be_watched(params.uri):
            raise not_found(params.uri, context)
        if len(context.channel.subscriptions) >= MAX_SUBSCRIPTIONS and params.uri not in context.channel.subscriptions:
            raise ProtocolError(INVALID_PARAMS, f"too many subscriptions: at most {MAX_SUBSCRIPTIONS} a session")
        context.channel.subscriptions.add(params.uri)
        return EmptyResult()

    async def unsubscribe(self, params: UnsubscribeRequestParams, context: RequestContext) -> EmptyResult:
        """Serve `resources/unsubscribe`. A URI without a subscription is ignored."""
        context.channel.subscriptions.discard(params.uri)
        return EmptyResult()


def _check_length(uri: str) -> None:
    if len(uri) > MAX_URI:
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: uri has more than {MAX_URI} characters")


def not_found(uri: str, context: RequestContext) -> ProtocolError:
    """Return the error for an unknown resource. A template's function may raise it, too."""
    # [2025-11-25 server/resources#error-handling] -32002; [2026-07-28 server/resources#error-handling] -32602
    code = context.revision.resource_not_found_code
    return ProtocolError(code, f"Resource not found: {uri[:200]}", {"uri": uri[:2000]})


def _readings(value: Matched) -> list[JSON]:
    """Return the possible meanings of a URI's variable: the text, and the number or boolean that it spells."""
    if isinstance(value, str) and _NUMBER_OR_BOOLEAN.fullmatch(value):
        with contextlib.suppress(ValueError):  # Python reads at most 4300 digits
            return [value, json.loads(value)]
    return [cast(JSON, value)]


_NUMBER_OR_BOOLEAN = re.compile(r"true|false|-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")


def _result_of(uri: str, mime_type: str | None, value: object, hints: CacheHints) -> ReadResourceResult:
    contents = _contents_of(uri, mime_type, value)
    return ReadResourceResult(contents, ttl_ms=hints.ttl_ms, cache_scope=hints.scope)


def _contents_of(uri: str, mime_type: str | None, value: object) -> list[ResourceContents]:
    """Return the contents for the value that a resource's function returned."""
    if isinstance(value, (TextResourceContents, BlobResourceContents)):
        return [value]
    if isinstance(value, list) and any(isinstance(v, (TextResourceContents, BlobResourceContents)) for v in value):
        return [contents for item in value for contents in _contents_of(uri, mime_type, item)]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return [BlobResourceContents.of(uri, bytes(value), mime_type or "application/octet-stream")]
    if isinstance(value, str):
        return [TextResourceContents(uri, value, mime_type or "text/plain")]
    return [TextResourceContents(uri, json.dumps(to_json(value), ensure_ascii=False), mime_type or "application/json")]
