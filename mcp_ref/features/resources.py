"""Resources: data that a client can read from a server, such as files or database rows. Every resource has a URI.

The client lists the resources (`resources/list`) and the URI templates (`resources/templates/list`, RFC 6570), each of
which describes a family of resources. `resources/read` returns text, or bytes in Base64. The client application, and
not the model, chooses the resources that go into the model's context, for example those that the user picks
[2025-11-25 server/resources]. It can also subscribe to the changes of a resource.

Security. A server MUST validate every URI, and SHOULD check permissions before it reads a resource
[2025-11-25 server/resources#security-considerations]. Since 2026-07-28 it also MUST sanitize the paths of `file://`
URIs, such as `file:///a/../../etc/passwd`. This package serves a URI only if its canonical form (lib/uri.py) is
registered or matches a registered template. Only the function that reads a file can check for symbolic links. A server
SHOULD use `https://` only for data that clients can fetch from the web [2025-11-25 server/resources#https%3A%2F%2F].

    2024-10-07  The client can list, read and subscribe. The error for an unknown resource is -32001 in an example.
    2024-11-05  Adds pagination, `annotations`, `size`. The error for an unknown resource SHOULD be -32002.
    2025-06-18  Adds `title`, `_meta`, `annotations.lastModified`. Custom URI schemes MUST follow RFC 3986.
    2025-11-25  Adds `icons`.
    2026-07-28  The error for an unknown resource MUST be -32602, because SDKs had used different codes (SEP-2164), but
                clients SHOULD accept -32002 too. A server MUST NOT return empty `contents` instead, which can also
                mean an empty resource. `subscriptions/listen` replaces `resources/subscribe` and
                `resources/unsubscribe`. Adds `ttlMs` and `cacheScope`. `resources/read` can return `input_required`.
                A list MUST NOT depend on the connection, but MAY depend on the authorization.

Threats:
    resource-path: A client reads files outside a published directory by giving a template's variable a value such as
        "..", `..%2F`, or, on Windows, `C:x`. `lib/uritemplate.py` decodes each value, and then refuses these.

Spec:  server/resources (2024-11-05 to 2026-07-28); schema: Resource, ResourceTemplate, ReadResourceRequest
Wire:  {"jsonrpc": "2.0", "id": 2, "method": "resources/read", "params": {"uri": "file:///project/README.md"}}
       {"jsonrpc": "2.0", "id": 3, "method": "resources/subscribe", "params": {"uri": "file:///project/README.md"}}
       {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "file:///project/README.md"}}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Annotated, TypedDict, Unpack, cast

from ..basic import content
from ..basic.access import Access, SubscribedResource, Subscriptions
from ..basic.channel import RequestContext
from ..basic.content import Annotations, BlobResourceContents, Icon, ResourceContents, TextResourceContents
from ..basic.meta import Cursor, EmptyResult, PaginatedRequestParams, check_meta_keys
from ..jsonrpc.errors import ProtocolError
from ..jsonrpc.messages import INVALID_PARAMS, JSON, Object
from ..lib.fields import check_options
from ..lib.jsonschema import Validator, compile_schema
from ..lib.typed import Signature, to_json
from ..lib.uri import MAX_URI_LENGTH, canonical_uri
from ..lib.uritemplate import UriTemplate, canonical_template, checked_template, possible_values
from ..revisions import R2024_11_05, R2025_06_18, R2025_11_25, Availability
from .caching import CacheableResult, CacheHints, CacheScope, hints_for
from .invoke import call, check_description, handler_signature
from .resource_access import ResourceAccess


@dataclass
class Resource:
    uri: str
    name: str
    title: Annotated[str | None, Availability(since=R2025_06_18)] = None
    description: str | None = None
    mime_type: str | None = None
    annotations: Annotated[Annotations | None, Availability(since=R2024_11_05)] = None
    size: Annotated[int | None, Availability(since=R2024_11_05)] = None  # in bytes, before Base64 encoding
    icons: Annotated[list[Icon] | None, Availability(since=R2025_11_25)] = None
    meta: Annotated[Object | None, Availability(since=R2025_06_18)] = None


@dataclass
class ResourceTemplate:
    uri_template: str  # RFC 6570, such as `file:///{path}`
    name: str
    title: Annotated[str | None, Availability(since=R2025_06_18)] = None
    description: str | None = None
    mime_type: str | None = None  # only if all matching resources have this type
    annotations: Annotated[Annotations | None, Availability(since=R2024_11_05)] = None
    icons: Annotated[list[Icon] | None, Availability(since=R2025_11_25)] = None
    meta: Annotated[Object | None, Availability(since=R2025_06_18)] = None


@dataclass
class ListResourcesResult(CacheableResult):
    """One page of a server's list of resources."""

    resources: list[Resource]
    next_cursor: Cursor = None
    meta: Object | None = None


@dataclass
class ListResourceTemplatesResult(CacheableResult):
    """One page of a server's list of resource templates."""

    resource_templates: list[ResourceTemplate]
    next_cursor: Cursor = None
    meta: Object | None = None


@dataclass
class _UriParams:
    uri: str
    meta: Object | None = None


class ReadResourceRequestParams(_UriParams): ...


@dataclass
class ReadResourceResult(CacheableResult):
    """The contents of a resource, in several items if it is, for example, a directory."""

    contents: list[ResourceContents]
    meta: Object | None = None


class SubscribeRequestParams(_UriParams): ...


class UnsubscribeRequestParams(_UriParams): ...


class ResourceUpdatedNotificationParams(_UriParams):
    """The URI of the changed resource, which may be below the subscribed one, as `file:///a/b` is below `file:///a`."""


class ResourceNotFound(Exception):
    """The error of a template's function for a URI that matches the template but names no resource."""


class ResourceOptions(TypedDict, total=False):
    """Options of a resource or template. `name` and `description` default to the function's name and docstring."""

    name: str
    title: str | None
    description: str | None
    mime_type: str | None
    annotations: Annotations | None
    size: int | None
    icons: list[Icon] | None
    meta: Object | None
    cache_ttl: float
    """Time for which a client may reuse the contents, in seconds. Only for 2026-07-28. Default: 0."""
    cache_scope: CacheScope
    """"public" if all users may get the cached contents, "private" (the default) if only the requesting user may."""
    scopes: Collection[str]
    """Scopes that a caller needs, as in `ToolOptions`: those of every resource and template that matches the URI."""
    absolute_paths: bool
    """True to allow absolute paths for `{+path}` or `{?path}`, and colons, as in `C:x` or `10:30`. Default: False."""


@dataclass
class _RegisteredReader:
    function: Callable[..., object]
    signature: Signature
    hints: CacheHints


@dataclass
class RegisteredResource(_RegisteredReader):
    description: Resource


@dataclass
class RegisteredTemplate(_RegisteredReader):
    description: ResourceTemplate
    matcher: UriTemplate
    parameter_checks: dict[str, Validator]

    def arguments(self, uri: str) -> dict[str, object] | None:
        """Return the function's arguments for a URI, or None if the template or a parameter's type does not match."""
        variables = self.matcher.match(uri)
        if variables is None:
            return None
        arguments: dict[str, object] = {}
        for parameter in self.signature.parameters:
            name = parameter.name
            if name in variables:  # "12" stays a string if the parameter's type allows it, and else becomes a number
                check = self.parameter_checks[name]
                fitting = [value for value in possible_values(variables[name]) if check.is_valid(cast(JSON, value))]
                if not fitting:
                    return None
                arguments[name] = fitting[0]
            elif parameter.required:
                return None
        try:
            return self.signature.bind(arguments)
        except ValueError:
            return None


class Resources:
    """The registered resources and templates of a server, and the handlers of the `resources/` methods."""

    def __init__(self, context_type: type | None, page_size: int, on_change: Callable[[], None]) -> None:
        self._context_type = context_type
        self.access = ResourceAccess[RegisteredResource, RegisteredTemplate](page_size, on_change)
        self._resources, self._templates = self.access.resources, self.access.templates

    def __len__(self) -> int:
        return len(self._resources) + len(self._templates)

    def add(
        self, uri: str, function: Callable[..., object], **options: Unpack[ResourceOptions]
    ) -> Resource | ResourceTemplate:
        """Register a function that returns the contents of a resource or, if `uri` is a template, of many resources.

        The function gets the template's variables by name. It returns str, bytes, a `TextResourceContents`, a
        `BlobResourceContents`, or a list with such an object; any other value except None is sent as JSON.
        """
        check_options(options, ResourceOptions)
        check_meta_keys(options.get("meta"))
        hints = hints_for(options.pop("cache_ttl", 0.0), options.pop("cache_scope", "private"))
        scopes = options.pop("scopes", ())
        # [2025-11-25 server/resources#custom-uri-schemes] URIs MUST follow RFC 3986
        key = checked_template(uri)
        matcher = UriTemplate(key, options.pop("absolute_paths", False))
        signature = handler_signature(function, self._context_type)
        if missing := {each.name for each in signature.parameters if each.required} - set(matcher.variables):
            raise ValueError(f"{signature.name}() requires {', '.join(sorted(missing))}, which {uri!r} does not have")
        schemas = {parameter.name: parameter.schema for parameter in signature.parameters}
        if unknown := set(matcher.variables) - schemas.keys():
            raise ValueError(f"{signature.name}() has no parameter for {', '.join(sorted(unknown))} in {uri!r}")
        matcher.check_types(schemas)
        if matcher.variables and "size" in options:
            raise TypeError("a template must not have the option size; only a resource can have it")
        kind = ResourceTemplate if matcher.variables else Resource
        item = kind(uri, signature.name, description=signature.description or None)
        item = replace(item, **options)  # type: ignore[arg-type, misc]  # mypy counts the popped options
        check_description(item, options)
        if isinstance(item, Resource):
            self._resources.add(key, RegisteredResource(function, signature, hints, item), scopes)
        else:
            checks = {name: compile_schema(schema) for name, schema in schemas.items()}
            template = RegisteredTemplate(function, signature, hints, item, matcher, checks)
            self._templates.add(key, template, scopes)
        return item

    def remove(self, uri: str) -> None:
        key = canonical_template(uri) or uri
        (self._templates if key in self._templates else self._resources).remove(key)

    def variables_of(self, uri: str) -> list[str] | None:
        """Return the names of a template's variables, [] for a resource, or None if the URI is not registered."""
        key = canonical_template(uri) or uri
        template = self._templates.get(key)
        if template is not None:
            return list(template.matcher.variables)
        return [] if key in self._resources else None

    def accepts_subscription(self, uri: str) -> bool:
        """Return True if the URI is registered or matches a template."""
        return len(uri) <= MAX_URI_LENGTH and self._find(uri) is not None

    @property
    def scopes(self) -> dict[str, frozenset[str]]:
        return {**self._resources.scopes, **self._templates.scopes}

    def update_for(
        self, subscriptions: Subscriptions, changed: str, meta: Object | None = None, latest: Access | None = None
    ) -> object:
        """Return the params of a client's update, or None if the client must not get it (see `updated_uri`)."""
        uri = self.access.updated_uri(subscriptions, changed, latest)
        return None if uri is None else ResourceUpdatedNotificationParams(uri, meta)

    def _find(self, uri: str) -> tuple[RegisteredResource | RegisteredTemplate, dict[str, object]] | None:
        """Return the resource with this URI, or the first template that matches, and its function's arguments."""
        canonical = canonical_uri(uri)
        if canonical is None:
            return None
        resource = self._resources.get(canonical)
        if resource is not None:
            return resource, {}
        for template in self._templates.values():
            arguments = template.arguments(canonical)
            if arguments is not None:
                return template, arguments
        return None

    async def list(self, params: PaginatedRequestParams, context: RequestContext) -> ListResourcesResult:
        page, next_cursor = self._resources.page(params.cursor, context)
        return ListResourcesResult([registered.description for registered in page], next_cursor)

    async def list_templates(
        self, params: PaginatedRequestParams, context: RequestContext
    ) -> ListResourceTemplatesResult:
        page, next_cursor = self._templates.page(params.cursor, context)
        return ListResourceTemplatesResult([registered.description for registered in page], next_cursor)

    async def read(self, params: ReadResourceRequestParams, context: RequestContext) -> ReadResourceResult:
        _check_length(params.uri)
        found = self._find(params.uri)
        if found is None:
            raise _not_found(params.uri, context)
        registered, arguments = found
        try:
            value = await call(registered.function, registered.signature, arguments, context)
        except ResourceNotFound:
            raise _not_found(params.uri, context) from None
        contents = _contents_of(params.uri, registered.description.mime_type, value)
        # A shared cache must not hold the contents of a protected resource.
        scope = "private" if self.access.scopes_of(params.uri) else registered.hints.scope
        return ReadResourceResult(contents, ttl_ms=registered.hints.ttl_ms, cache_scope=scope)

    async def subscribe(self, params: SubscribeRequestParams, context: RequestContext) -> EmptyResult:
        """Add a subscription. A second one to the same URI has no effect."""
        _check_length(params.uri)
        if not self.accepts_subscription(params.uri):
            raise _not_found(params.uri, context)
        access = context.access
        kept = access.without_headers() if access is not None else None  # headers would stay in memory for hours
        context.channel.subscriptions.add(canonical_uri(params.uri) or params.uri, SubscribedResource(params.uri, kept))
        return EmptyResult()

    async def unsubscribe(self, params: UnsubscribeRequestParams, context: RequestContext) -> EmptyResult:
        context.channel.subscriptions.remove(canonical_uri(params.uri) or params.uri)
        return EmptyResult()


def _check_length(uri: str) -> None:
    if len(uri) > MAX_URI_LENGTH:
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: uri must have at most {MAX_URI_LENGTH} characters")


def _not_found(uri: str, context: RequestContext) -> ProtocolError:
    # [2025-11-25 server/resources#error-handling] -32002; [2026-07-28 server/resources#error-handling] -32602
    code = context.revision.resource_not_found_code
    return ProtocolError(code, f"Resource not found: {uri[:200]}", {"uri": uri[:2000]})


def _contents_of(uri: str, mime_type: str | None, value: object) -> list[ResourceContents]:
    if isinstance(value, ResourceContents):
        return [value]
    if isinstance(value, list) and any(isinstance(item, (ResourceContents, content.ContentBlock)) for item in value):
        return [contents for item in value for contents in _contents_of(uri, mime_type, item)]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return [BlobResourceContents.of(uri, bytes(value), mime_type or "application/octet-stream")]
    if isinstance(value, str):
        return [TextResourceContents(uri, value, mime_type or "text/plain")]
    if value is None or isinstance(value, content.ContentBlock):  # the function lacks `return`, or returns tool content
        wanted = "a str, bytes, JSON or TextResourceContents"
        raise TypeError(f"the resource {uri:.200} must return {wanted}, not {type(value).__name__}")
    return [TextResourceContents(uri, json.dumps(to_json(value), ensure_ascii=False), mime_type or "application/json")]
