"""Content: images, sounds, embedded resources and icons in any message.

Spec:  server/prompts#data-types, server/resources, basic/index#icons (2025-11-25 on)
Used by: conversation.py
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

from ..basic.content import check_media
from ..jsonrpc.messages import Object
from ..lib.uri import check_uri
from ..lib.uritemplate import TemplateError, parse
from ..revisions import R2025_06_18, R2025_11_25
from .rules import ADVICE, MUST, Verdict, rule
from .state import Message, an_object, objects, quoted

_PAGE: Final = "2026-07-28/server/prompts"
_WITH_ICONS = "tools/list resources/list resources/templates/list prompts/list initialize server/discover"


def _blocks(body: Object) -> Iterator[Object]:
    """Yield the content blocks and the resource contents of a result."""
    for name in ("content", "contents"):
        value = body.get(name)
        yield from objects([value] if isinstance(value, dict) else value)
    for message in objects(body.get("messages")):
        yield from objects([message.get("content")])


@rule(MUST, f"{_PAGE}#image-content-1",
      "result", methods="tools/call prompts/get resources/read sampling/createMessage", needs="unmasked")  # fmt: skip
def media(message: Message) -> Verdict:
    """Images, sounds and blobs are Base64, with a valid MIME type."""
    for block in _blocks(message.body):
        holder = an_object(block.get("resource")) if block.get("type") == "resource" else block
        data, mime_type = holder.get("blob", holder.get("data")), holder.get("mimeType")
        if not isinstance(data, str):
            continue
        try:
            check_media(data, mime_type if isinstance(mime_type, str) else None)
        except ValueError as error:
            return f"the {message.label} has wrong media: {str(error).partition(';')[0]}"
    return None


@rule(MUST, f"{_PAGE}#embedded-resources-1", "result", methods="prompts/get tools/call", since=R2025_06_18)
def embedded_resource(message: Message) -> Verdict:
    """An embedded resource has a valid URI and a MIME type."""
    for block in _blocks(message.body):
        if block.get("type") != "resource":
            continue
        resource = an_object(block.get("resource"))
        if message.method == "prompts/get" and "mimeType" not in resource:
            return f"the embedded resource {quoted(resource.get('uri'))} has no mimeType"
        fault = _uri_fault(resource)
        if fault is not None:
            return fault
    return None


def _uri_fault(resource: Object) -> str | None:
    try:
        check_uri(str(resource.get("uri")))
    except ValueError as error:
        return str(error)
    return None


@rule(MUST, "2026-07-28/server/resources#custom-uri-schemes-1", "result", methods="resources/list", since=R2025_06_18)
def resource_uris(message: Message) -> Verdict:
    """The URIs of resources follow RFC 3986."""
    faults = map(_uri_fault, objects(message.body.get("resources")))
    return next(filter(None, faults), None)


@rule(MUST, "schema/ResourceTemplate", "result", methods="resources/templates/list")
def templates(message: Message) -> Verdict:
    """A uriTemplate follows RFC 6570."""
    for each in objects(message.body.get("resourceTemplates")):
        try:
            parse(str(each.get("uriTemplate")))
        except TemplateError as error:
            return f"the uriTemplate {quoted(each.get('uriTemplate'))} is not valid: {error}"
    return None


@rule(ADVICE, "schema/Icon", "result", methods=_WITH_ICONS, since=R2025_11_25)
def icons(message: Message) -> Verdict:
    """The URI of an icon begins with https:, http: or data:."""
    holders = [an_object(message.body.get("serverInfo"))]
    for name in ("tools", "resources", "resourceTemplates", "prompts"):
        holders += objects(message.body.get(name))
    for icon in itertools.chain.from_iterable(objects(holder.get("icons")) for holder in holders):
        if not str(icon.get("src")).lower().startswith(("https:", "data:", "http:")):
            return f"an icon has the URI {quoted(icon.get('src'))}"
    return None
