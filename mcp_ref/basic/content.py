"""Content blocks: the pieces of text, image, audio and resources that tools, prompts and models exchange.

They share one union, `ContentBlock`; the member `type` names the kind of a block. A block that the peer's revision does
not have is written as text, so that the model at least learns of it.

    2024-10-07  text, image
    2024-11-05  resource: the contents of a resource, embedded; `annotations`: audience, priority
    2025-03-26  audio
    2025-06-18  resource_link: a URI that the client may read; `_meta` on blocks; `lastModified` in annotations
    2025-11-25  tool_use, tool_result, in sampling only (features/sampling.py); icons (not a content block)

Content comes from the server and is untrusted. An icon's URI MUST be `https:` or `data:`; `file:` or `javascript:`
would read local files or run code. It is fetched without credentials or redirects to other origins, or it would track
the user. Its type is checked by its bytes, because SVG can hold scripts. Clients MUST support PNG and JPEG, and SHOULD
support SVG and WebP. [2025-11-25 basic/index#icons]

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

# RFC 3986, appendix A, but "[" and "]" are allowed everywhere
_URI = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*:(?:[A-Za-z0-9._~!$&'()*+,;=:@/?\[\]-]|%[0-9A-Fa-f]{2})*"
    r"(?:#(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*)?"
)
# RFC 6838, section 4.2, with parameters
_MIME_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*(?:\s*;[ -~]*)?")


def check_uri(uri: str) -> None:
    """Raise ValueError if a URI breaks RFC 3986."""
    # [2025-11-25 server/resources#custom-uri-schemes] [2025-11-25 server/prompts#embedded-resources]
    if not _URI.fullmatch(uri):
        raise ValueError(f"{uri[:200]!r} is not a URI: write a scheme, as in file:///a, and %20 for a space")


def check_media(data: str, mime_type: str | None) -> None:
    """Raise ValueError if the data is not Base64 (RFC 4648, section 4) or the MIME type is invalid."""
    # [2025-11-25 server/prompts#image-content] MUST be base64-encoded and include a valid MIME type. Received blocks
    # are not checked: an application may be able to use a slightly wrong one.
    try:
        binascii.a2b_base64(data, strict_mode=True)
    except ValueError as error:
        raise ValueError(f"the data is not Base64 ({error}); for raw bytes use .of(...)") from None
    if mime_type is not None and not _MIME_TYPE.fullmatch(mime_type):
        raise ValueError(f"{mime_type[:80]!r} is not a MIME type such as image/png")


@dataclass
class Icon:
    """An image that a user interface shows for a server, tool, prompt or resource.

    src: an untrusted `https:` or `data:` URI. sizes: such as ["48x48"], or ["any"] for SVG. theme: background to use.
    """

    src: str
    mime_type: str | None = None
    sizes: list[str] | None = None
    theme: Literal["light", "dark"] | None = None


@dataclass
class Annotations:
    """Hints for the use of content: its audience, its priority (0 to 1), its last change (ISO 8601)."""

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

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        """Raise TypeError if the text is not a str."""
        if not isinstance(self.text, str):
            raise TypeError(f"a TextContent holds a str, not {type(self.text).__name__}")
        return wire


@dataclass
class _Media:
    """The members of images and sounds. `data` is Base64."""

    type: str = field(default="", kw_only=True)
    data: str
    mime_type: str
    annotations: _OptionalAnnotations = None
    meta: _OptionalMeta = None

    @classmethod
    def of(cls, data: bytes, mime_type: str) -> Self:
        """Return the content block for raw bytes."""
        return cls(base64.b64encode(data).decode(), mime_type)

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        """Raise ValueError if the data is not Base64 or the MIME type is invalid."""
        check_media(self.data, self.mime_type)
        return wire


@dataclass
class ImageContent(_Media):
    """An image. `data` is Base64."""

    type: Literal["image"] = field(default="image", kw_only=True)


def _audio_as_text(audio: object) -> object:
    assert isinstance(audio, AudioContent)
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
    def of(cls, uri: str, data: bytes, mime_type: str | None = None) -> BlobResourceContents:
        """Return the contents of the resource `uri` for raw bytes.

        Args:
            uri: URI of the resource.
            data: raw bytes.
            mime_type: MIME type, such as image/png; None if unknown.
        """
        return cls(uri, base64.b64encode(data).decode(), mime_type)

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        """Raise ValueError if the blob is not Base64 or the MIME type is invalid."""
        check_media(self.blob, self.mime_type)
        return wire


ResourceContents: TypeAlias = TextResourceContents | BlobResourceContents


@dataclass
class EmbeddedResource:
    """The contents of a resource, inside a result or a message."""

    type: Literal["resource"] = field(default="resource", kw_only=True)
    resource: ResourceContents
    annotations: _OptionalAnnotations = None
    meta: _OptionalMeta = None

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        """Check the URI, and add a missing MIME type."""
        # [2025-11-25 server/prompts#embedded-resources] MUST include a valid resource URI, the appropriate MIME type
        check_uri(self.resource.uri)
        resource = wire["resource"]
        assert isinstance(resource, dict)
        resource.setdefault("mimeType", "text/plain" if "text" in resource else "application/octet-stream")
        return wire

    @staticmethod
    def from_wire(wire: Object, revision: Revision) -> Object:
        """Accept `annotations` beside `resource`, as in the schema, or inside it, as in the page's examples."""
        # [2025-06-18 server/tools#embedded-resources] the specification has both forms; we write the schema's
        resource = wire.get("resource")
        if "annotations" not in wire and type(resource) is dict and "annotations" in resource:
            return {**wire, "annotations": resource["annotations"]}
        return wire


def _link_as_text(link: object) -> object:
    assert isinstance(link, ResourceLink)
    about = f": {link.description}" if link.description else ""
    return TextContent(f"{link.title or link.name} <{link.uri}>{about}")


@dataclass
class ResourceLink:
    """A link to a resource that the client may read or subscribe to. It need not be in `resources/list`."""

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
    """Return a tool's result with structured content as the revision allows it: null, another value, or left out."""
    if revision.structured_content_is_any_json:
        # [2026-07-28 server/tools#structured-content] any JSON value, null too
        return {**wire, "structuredContent": None} if is_null else wire
    if type(wire.get("structuredContent", {})) is dict:
        return wire
    return {name: member for name, member in wire.items() if name != "structuredContent"}


def read_structured_content(wire: Object, revision: Revision) -> Object:
    """Return a tool's result and mark structured content that is null. Raise ShapeError if it must be an object."""
    data = wire.get("structuredContent")
    if data is not None and type(data) is not dict and not revision.structured_content_is_any_json:
        raise ShapeError("an object", data, "structuredContent")
    is_null = data is None and "structuredContent" in wire and revision.structured_content_is_any_json
    return {**wire, "structuredNull": is_null} if is_null or "structuredNull" in wire else wire
