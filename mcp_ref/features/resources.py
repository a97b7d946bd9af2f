"""Resources: data that a server offers for reading, such as files or database rows, each under a URI.

A client lists the resources (`resources/list`). It also lists the URI templates (`resources/templates/list`, RFC 6570):
each describes a family of resources. `resources/read` returns text, or bytes in Base64. Resources are controlled by the
application: the host application chooses the resources that go into the model's context, by a heuristic or as the user
wishes [2025-11-25 server/resources]. A client can subscribe to changes of a resource.

Security. A server MUST validate every URI, and SHOULD check permissions before it reads a resource
[2025-11-25 server/resources#security-considerations]. Since 2026-07-28 it also MUST sanitize the paths of `file://`
URIs: otherwise `file:///project/../../etc/passwd` reads a file outside the project. This package reads a URI only if it
is registered or matches a template. No template variable matches a path segment "..". The author's function has to
check symbolic links. A server SHOULD use `https://` only for data that the client can fetch from the web by itself
[2025-11-25 server/resources#https%3A%2F%2F].

    2024-10-07  List, read, subscribe. Text or Base64. Unknown resource: -32001 in an example.
    2024-11-05  Templates, pages, `annotations` (audience, priority) and `size`. Unknown resource: SHOULD be -32002.
    2025-06-18  `title`, `_meta`, `annotations.lastModified`. Custom URI schemes MUST follow RFC 3986.
    2025-11-25  `icons`.
    2026-07-28  Unknown resource: MUST be -32602, as SDKs disagreed on the code (SEP-2164). Clients SHOULD still accept
                -32002. Empty `contents` MUST NOT stand for an unknown resource: they mean an empty resource.
                `subscriptions/listen` with `resourceSubscriptions` replaces `resources/subscribe` and
                `resources/unsubscribe`; the capability `subscribe` announces it. `ttlMs` and `cacheScope` on lists and
                reads. A read may return `input_required`. Paths MUST be sanitized. The list MUST NOT vary per
                connection; it MAY vary by authorization.

Spec:  server/resources (2024-11-05 to 2026-07-28); schema: Resource, ResourceTemplate, ReadResourceRequest
Wire:  {"jsonrpc": "2.0", "id": 1, "method": "resources/templates/list"}
       {"jsonrpc": "2.0", "id": 2, "method": "resources/read", "params": {"uri": "file:///project/README.md"}}
       {"jsonrpc": "2.0", "id": 3, "method": "resources/subscribe", "params": {"uri": "file:///project/README.md"}}
       {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "file:///project/README.md"}}
Above: server/catalog.py (routes). Below: basic/content.py (contents, which tools embed too), lib/uritemplate.py
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
from ..lib.uritemplate import MatchedValue, UriTemplate
from ..revisions import R2024_11_05, R2025_06_18, R2025_11_25, Availability
from .caching import CacheableResult, CacheHints, CacheScope, hints_for
from .invoke import call, check_options
from .registry import Registry

MAX_SUBSCRIPTIONS = 1000
"""Maximum number of URIs that one session may be subscribed to."""

MAX_URI_LENGTH = 8192
"""Maximum length of a URI in a request, in characters."""


@dataclass
class Resource:
    """The description of one resource, as a client sees it. `title` is the name to show to people."""

    uri: str
    name: str
    title: Annotated[str | None, Availability(since=R2025_06_18)] = None
    description: str | None = None
    mime_type: str | None = None
    annotations: Annotated[Annotations | None, Availability(since=R2024_11_05)] = None
    size: Annotated[int | None, Availability(since=R2024_11_05)] = None
    """Size of the raw contents, in bytes, before Base64."""
    icons: Annotated[list[Icon] | None, Availability(since=R2025_11_25)] = None
    meta: Annotated[Object | None, Availability(since=R2025_06_18)] = None


@dataclass
class ResourceTemplate:
    """The description of a family of resources, as a client sees it."""

    uri_template: str
    """A URI template by RFC 6570, such as `file:///{path}`."""
    name: str
    title: Annotated[str | None, Availability(since=R2025_06_18)] = None
    description: str | None = None
    mime_type: str | None = None
    """The MIME type, if all resources of the family have the same."""
    annotations: Annotated[Annotations | None, Availability(since=R2024_11_05)] = None
    icons: Annotated[list[Icon] | None, Availability(since=R2025_11_25)] = None
    meta: Annotated[Object | None, Availability(since=R2025_06_18)] = None


@dataclass
class ListResourcesResult(CacheableResult):
    """One page of resources."""

    resources: list[Resource]
    next_cursor: Annotated[str | None, Availability(since=R2024_11_05)] = None
    meta: Object | None = None


@dataclass
class ListResourceTemplatesResult(CacheableResult):
    """One page of templates."""

    resource_templates: list[ResourceTemplate]
    next_cursor: Annotated[str | None, Availability(since=R2024_11_05)] = None
    meta: Object | None = None


@dataclass
class _UriParams:
    uri: str
    meta: Object | None = None


class ReadResourceRequestParams(_UriParams):
    """The URI of the resource to read."""


@dataclass
class ReadResourceResult(CacheableResult):
    """The contents of a resource: usually one item, or several items for a directory."""

    contents: list[ResourceContents]
    meta: Object | None = None


class SubscribeRequestParams(_UriParams):
    """The URI of the resource to watch."""


class UnsubscribeRequestParams(_UriParams):
    """The URI of the resource to stop watching."""


class ResourceUpdatedNotificationParams(_UriParams):
    """The URI of the changed resource, or of a resource below the URI that the client watches."""


class ResourceOptions(TypedDict, total=False):
    """Options of a resource or template. `name` and `description` default to the function's name and docstring."""

    name: str
    title: str
    description: str
    mime_type: str
    annotations: Annotations
    size: int
    icons: list[Icon]
    meta: Object


@dataclass
class _RegisteredReader:
    function: Callable[..., object]
    """The author's function that reads the resource."""
    signature: Signature
    hints: CacheHints


@dataclass
class RegisteredResource(_RegisteredReader):
    """A resource, and the function that reads it."""

    description: Resource


@dataclass
class RegisteredTemplate(_RegisteredReader):
    """A template, and the function that reads its resources. The template's variables are the function's arguments."""

    description: ResourceTemplate
    matcher: UriTemplate
    parameter_checks: dict[str, Validator]
    """Parameter name -> compiled schema of the parameter."""

    def arguments(self, uri: str) -> dict[str, object] | None:
        """Return the function's arguments for this URI, or None if the template does not match the URI."""
        if (variables := self.matcher.match(uri)) is None:
            return None
        arguments: dict[str, object] = {}
        for parameter in self.signature.parameters:
            if parameter.name in variables:
                possible, check = _possible_values(variables[parameter.name]), self.parameter_checks[parameter.name]
                if not (fitting := [value for value in possible if check.is_valid(value)]):
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

    def __init__(self, context_type: type | None, page_size: int, on_change: Callable[[], None]) -> None:
        self._context_type = context_type
        self._resources: Registry[RegisteredResource] = Registry("resource", page_size, on_change)
        self._templates: Registry[RegisteredTemplate] = Registry("resource template", page_size, on_change)

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

        The function gets the template's variables by name. It returns str, bytes, contents, or a list of contents. Any
        other value is written as JSON.

        For `cache_ttl` seconds, a client of 2026-07-28 may reuse the contents. All users may share them if
        `cache_scope` is "public". Raise ValueError for an invalid or taken URI, an invalid template, or invalid hints.
        """
        check_options(options, ResourceOptions)
        check_meta_keys(options.get("meta"))
        hints = hints_for(cache_ttl, cache_scope)
        signature = signature_of(function, context_type=self._context_type)
        matcher = UriTemplate(uri)
        expected = {parameter.name for parameter in signature.parameters if parameter.required}
        if not expected <= set(matcher.variables):
            missing = ", ".join(sorted(expected - set(matcher.variables)))
            raise ValueError(f"{signature.name}() needs {missing}, but {uri!r} has no such variable")
        # [2025-11-25 server/resources#custom-uri-schemes] MUST follow RFC 3986. The check of a template ends at the
        # first variable, after the scheme.
        check_uri(UriTemplate(uri.partition("{")[0]).expand({}) if matcher.variables else uri)
        if not matcher.variables:
            resource = replace(Resource(uri, signature.name, description=signature.description or None), **options)
            self._resources.add(uri, RegisteredResource(function, signature, hints, resource))
            return resource
        if unknown := set(matcher.variables) - {parameter.name for parameter in signature.parameters}:
            raise ValueError(f"{signature.name}() has no parameter for {', '.join(sorted(unknown))} of {uri!r}")
        if "size" in options:
            raise TypeError("only a single resource can have the option size, not a template")
        template = ResourceTemplate(uri, signature.name, description=signature.description or None)
        template = replace(template, **options)  # type: ignore[misc]  # mypy does not see that `size` was ruled out
        parameter_checks = {parameter.name: compile_schema(parameter.schema) for parameter in signature.parameters}
        self._templates.add(uri, RegisteredTemplate(function, signature, hints, template, matcher, parameter_checks))
        return template

    def remove(self, uri: str) -> None:
        """Remove a resource or template. Raise KeyError if the server does not have the URI or template."""
        (self._templates if self._templates.get(uri) is not None else self._resources).remove(uri)

    def has(self, uri: str) -> bool:
        """Return True if this is the URI of a resource or the text of a template."""
        return self._resources.get(uri) is not None or self._templates.get(uri) is not None

    def accepts_subscription(self, uri: str) -> bool:
        """Return True if a client may subscribe to the URI, because the server can read the URI."""
        return len(uri) <= MAX_URI_LENGTH and self._find(uri) is not None

    def _find(self, uri: str) -> tuple[RegisteredResource | RegisteredTemplate, dict[str, object]] | None:
        """Return the resource with this URI, else the first template that matches, with the function's arguments."""
        if (resource := self._resources.get(uri)) is not None:
            return resource, {}
        for template in self._templates.values():
            if (arguments := template.arguments(uri)) is not None:
                return template, arguments
        return None

    async def list(self, params: PaginatedRequestParams, context: RequestContext) -> ListResourcesResult:
        """Serve `resources/list`."""
        page, following = self._resources.page(params.cursor, context.revision)
        return ListResourcesResult([registered.description for registered in page], following)

    async def list_templates(
        self, params: PaginatedRequestParams, context: RequestContext
    ) -> ListResourceTemplatesResult:
        """Serve `resources/templates/list`."""
        page, following = self._templates.page(params.cursor, context.revision)
        return ListResourceTemplatesResult([registered.description for registered in page], following)

    async def read(self, params: ReadResourceRequestParams, context: RequestContext) -> ReadResourceResult:
        """Serve `resources/read`."""
        _check_length(params.uri)
        if (found := self._find(params.uri)) is None:
            raise not_found(params.uri, context)
        registered, arguments = found
        value = await call(registered.function, registered.signature, arguments, context)
        contents = _contents_of(params.uri, registered.description.mime_type, value)
        return ReadResourceResult(contents, ttl_ms=registered.hints.ttl_ms, cache_scope=registered.hints.scope)

    async def subscribe(self, params: SubscribeRequestParams, context: RequestContext) -> EmptyResult:
        """Serve `resources/subscribe`. A second subscription to the same URI changes nothing."""
        _check_length(params.uri)
        if not self.accepts_subscription(params.uri):
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
    if len(uri) > MAX_URI_LENGTH:
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: uri has more than {MAX_URI_LENGTH} characters")


def not_found(uri: str, context: RequestContext) -> ProtocolError:
    """Return the error for an unknown resource."""
    # [2025-11-25 server/resources#error-handling] -32002; [2026-07-28 server/resources#error-handling] -32602
    code = context.revision.resource_not_found_code
    return ProtocolError(code, f"Resource not found: {uri[:200]}", {"uri": uri[:2000]})


def _possible_values(value: MatchedValue) -> list[JSON]:
    """Return the possible values of a template variable: its text, and the JSON number or boolean in that text."""
    if isinstance(value, str) and _NUMBER_OR_BOOLEAN.fullmatch(value):
        with contextlib.suppress(ValueError):  # Python refuses integers of more than 4300 digits
            return [value, json.loads(value)]
    return [cast(JSON, value)]


_NUMBER_OR_BOOLEAN = re.compile(r"true|false|-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")


def _contents_of(uri: str, mime_type: str | None, value: object) -> list[ResourceContents]:
    """Convert the value that a resource's function returned to contents."""
    if isinstance(value, (TextResourceContents, BlobResourceContents)):
        return [value]
    if isinstance(value, list) and any(isinstance(v, (TextResourceContents, BlobResourceContents)) for v in value):
        return [contents for item in value for contents in _contents_of(uri, mime_type, item)]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return [BlobResourceContents.of(uri, bytes(value), mime_type or "application/octet-stream")]
    if isinstance(value, str):
        return [TextResourceContents(uri, value, mime_type or "text/plain")]
    return [TextResourceContents(uri, json.dumps(to_json(value), ensure_ascii=False), mime_type or "application/json")]
