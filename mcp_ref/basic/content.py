"""Content blocks: the pieces of text, image, audio and resources that tools, prompts and models exchange.

The member `type` of a block names its kind. If the peer's revision lacks audio or links, the codec sends a text block
instead, so that the model at least learns of the content.

    2024-10-07  text, image; in prompts also resource (contents of a resource)
    2024-11-05  added: resource in tool results; `annotations` with audience and priority
    2025-03-26  added: audio
    2025-06-18  added: resource_link (a URI that the client can read); `_meta`; `lastModified` in annotations
    2025-11-25  added: tool_use and tool_result, only in sampling (features/sampling.py); icons (not a content block)

Clients must not trust content from servers. A client MUST accept an icon only from an `https:` or `data:` URI, because
a `file:` URI could read local files and a `javascript:` URI could run code. It must fetch icons without credentials and
without redirects to other origins, so that a server cannot track the user, and must check their bytes, because SVG can
contain scripts. Clients MUST support PNG and JPEG, and SHOULD support SVG and WebP. [2025-11-25 basic/index#icons]

Spec:  server/tools#tool-result, server/prompts#data-types, server/resources#annotations; schema: ContentBlock
Wire:  {"type": "text", "text": "Sunny, 22 degrees"}
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, Self, TypeAlias

from ..codec import ShapeError
from ..jsonrpc.messages import Object
from ..revisions import R2024_11_05, R2025_03_26, R2025_06_18, R2025_11_25, Availability, Revision

Role: TypeAlias = Literal["user", "assistant"]

_MIME_TYPE = r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*(?:\s*;[ -~]*)?"


def check_media(data: str, mime_type: str | None) -> None:
    """Raise ValueError if the data is not Base64 (RFC 4648, section 4) or the MIME type is invalid (RFC 6838, 4.2)."""
    # [2025-11-25 server/prompts#image-content] the data MUST be base64-encoded, with a valid MIME type. Received blocks
    # are not checked, because many applications can still use data with small errors.
    try:
        binascii.a2b_base64(data, strict_mode=True)
    except ValueError as error:
        raise ValueError(f"the data must be Base64 ({error}); to pass raw bytes, use .of(...)") from None
    if mime_type is not None and not re.fullmatch(_MIME_TYPE, mime_type):
        raise ValueError(f"{mime_type[:80]!r} is not a MIME type; write it as in image/png")


@dataclass
class Icon:
    """An image that a user interface shows for a server, tool, prompt or resource.

    `src` is an untrusted `https:` or `data:` URI. `sizes` is a list such as ["48x48"], in pixels; ["any"] for SVG.
    """

    src: str
    mime_type: str | None = None
    sizes: list[str] | None = None
    theme: Literal["light", "dark"] | None = None


@dataclass
class Annotations:
    """Hints about content: its audience, its priority (0 to 1), and the time of its last change (ISO 8601)."""

    audience: list[Role] | None = None
    priority: float | None = None
    last_modified: Annotated[str | None, Availability(since=R2025_06_18)] = None


_OptionalAnnotations = Annotated[Annotations | None, Availability(since=R2024_11_05)]
_OptionalMeta = Annotated[Object | None, Availability(since=R2025_06_18)]


@dataclass
class TextContent:
    """A text for a person or a model."""

    type: Literal["text"] = field(default="text", kw_only=True)
    text: str
    annotations: _OptionalAnnotations = None
    meta: _OptionalMeta = None


@dataclass(eq=False, repr=False)  # its two subclasses have their own methods
class _Media:
    type: str = field(default="", kw_only=True)
    data: str
    mime_type: str
    annotations: _OptionalAnnotations = None
    meta: _OptionalMeta = None

    @classmethod
    def of(cls, data: bytes, mime_type: str) -> Self:
        """Return a content block with these raw bytes, in Base64."""
        return cls(base64.b64encode(data).decode(), mime_type)

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        check_media(self.data, self.mime_type)
        return wire


@dataclass
class ImageContent(_Media):
    """An image. `data` is Base64."""

    type: Literal["image"] = field(default="image", kw_only=True)


def _audio_as_text(audio: AudioContent) -> TextContent:
    return TextContent(f"[audio, {audio.mime_type}: this protocol revision cannot carry it]")


@dataclass
class AudioContent(_Media):
    """A sound. `data` is Base64."""

    availability: ClassVar[Availability] = Availability(since=R2025_03_26, fallback=_audio_as_text)
    type: Literal["audio"] = field(default="audio", kw_only=True)


@dataclass
class TextResourceContents:
    """The contents of a resource, as text."""

    uri: str
    text: str
    mime_type: str | None = None
    meta: _OptionalMeta = None


@dataclass
class BlobResourceContents:
    """The contents of a resource, as bytes in Base64."""

    uri: str
    blob: str
    mime_type: str | None = None
    meta: _OptionalMeta = None

    @classmethod
    def of(cls, uri: str, data: bytes, mime_type: str | None = None) -> Self:
        """Return the contents of the resource `uri`, with the raw bytes `data` and a `mime_type` such as image/png."""
        return cls(uri, base64.b64encode(data).decode(), mime_type)

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        check_media(self.blob, self.mime_type)
        return wire


ResourceContents: TypeAlias = TextResourceContents | BlobResourceContents


@dataclass
class EmbeddedResource:
    """A content block with the contents of a resource."""

    type: Literal["resource"] = field(default="resource", kw_only=True)
    resource: ResourceContents
    annotations: _OptionalAnnotations = None
    meta: _OptionalMeta = None

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        # [2025-11-25 server/prompts#embedded-resources] it MUST have a valid resource URI and the appropriate MIME type
        from ..lib.uri import check_uri  # lazy: few tools and prompts embed resources

        check_uri(self.resource.uri)
        resource = wire["resource"]
        assert isinstance(resource, dict)
        resource.setdefault("mimeType", "text/plain" if "text" in resource else "application/octet-stream")
        return wire

    @staticmethod
    def from_wire(wire: Object, revision: Revision) -> Object:
        # [2025-06-18 server/tools#embedded-resources] in this example, `annotations` are in `resource`, not beside it
        resource = wire.get("resource")
        if "annotations" not in wire and type(resource) is dict and "annotations" in resource:
            return {**wire, "annotations": resource["annotations"]}
        return wire


def _link_as_text(link: ResourceLink) -> TextContent:
    description = f": {link.description}" if link.description else ""
    return TextContent(f"{link.title or link.name} <{link.uri}>{description}")


@dataclass
class ResourceLink:
    """A link to a resource that the client can read, even if `resources/list` does not contain it."""

    availability: ClassVar[Availability] = Availability(since=R2025_06_18, fallback=_link_as_text)
    type: Literal["resource_link"] = field(default="resource_link", kw_only=True)
    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    annotations: Annotations | None = None
    size: int | None = None
    icons: Annotated[list[Icon] | None, Availability(since=R2025_11_25)] = None
    meta: Object | None = None


ContentBlock: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource


def write_structured_content(wire: Object, is_null: bool, revision: Revision) -> Object:
    """Return a tool's result without structured content that the revision forbids, or with null if `is_null`."""
    if revision.structured_content_is_any_json:  # [2026-07-28 server/tools#structured-content] even null
        return {**wire, "structuredContent": None} if is_null else wire
    if type(wire.get("structuredContent")) is not dict:
        wire.pop("structuredContent", None)
    return wire


def read_structured_content(wire: Object, revision: Revision) -> Object:
    """Return a tool's result, with `structuredNull` if its content is null. Raise ShapeError for a forbidden type."""
    data, is_any_json = wire.get("structuredContent"), revision.structured_content_is_any_json
    if not is_any_json and data is not None and type(data) is not dict:
        raise ShapeError("an object", data, "structuredContent")
    is_null = is_any_json and data is None and "structuredContent" in wire
    if is_null or "structuredNull" in wire:  # a peer's own member of this name must not set our field
        return {**wire, "structuredNull": is_null}
    return wire
