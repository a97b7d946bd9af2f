"""Content blocks: the pieces of text, image, audio and resources that tools, prompts and models exchange.

One union, `ContentBlock`, serves them all; its members tell themselves apart by `type`. Blocks that an older peer does
not know are written as text, so that nothing is lost without a trace.

Spec:  server/tools#tool-result, server/prompts#data-types, server/resources#annotations; schema: ContentBlock
Wire:  {"type": "text", "text": "Sunny, 22 degrees"}
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, TypeAlias

from ..codec import ShapeError
from ..jsonrpc.messages import Object
from ..revisions import R2024_11_05, R2025_03_26, R2025_06_18, R2025_11_25, Life, Revision

Role: TypeAlias = Literal["user", "assistant"]

# ---------------------------------------------------------------------------------------------------- what is written

# RFC 3986, appendix A, without its distinction of where "[" and "]" may stand.
_URI = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*:(?:[A-Za-z0-9._~!$&'()*+,;=:@/?\[\]-]|%[0-9A-Fa-f]{2})*"
    r"(?:#(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*)?"
)
# RFC 6838, section 4.2, and parameters.
_MIME_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*(?:\s*;[ -~]*)?")


def check_uri(uri: str) -> None:
    """Raise ValueError for what is no URI by RFC 3986."""
    # [2025-11-25 server/resources#custom-uri-schemes] [2025-11-25 server/prompts#embedded-resources]
    if not _URI.fullmatch(uri):
        raise ValueError(f"{uri[:200]!r} is no URI: it takes a scheme, as in file:///a, and %20 for what RFC 3986 bars")


def check_media(data: str, mime_type: str | None) -> None:
    """Raise ValueError where data are not Base64 (RFC 4648, section 4) or a MIME type is none."""
    # [2025-11-25 server/prompts#image-content] MUST be base64-encoded and include a valid MIME type. Only what we write
    # is checked: who reads a sloppy peer may still make something of it.
    try:
        binascii.a2b_base64(data, strict_mode=True)
    except ValueError as error:
        raise ValueError(f"the data are not Base64 ({error}); for raw bytes there is .of(...)") from None
    if mime_type is not None and not _MIME_TYPE.fullmatch(mime_type):
        raise ValueError(f"{mime_type[:80]!r} is no MIME type such as image/png")


# ---------------------------------------------------------------------------------------------------- the blocks


@dataclass
class Icon:
    """An image that stands for a server, tool, prompt or resource in a user interface.

    src: an `https:` or `data:` URI. sizes: such as ["48x48"] or ["any"]. theme: the background it is made for.
    Whoever fetches it sends no credentials and follows no redirect to another origin. [2025-11-25 basic/index#icons]
    """

    src: str
    mime_type: str | None = None
    sizes: list[str] | None = None
    theme: Literal["light", "dark"] | None = None


@dataclass
class Annotations:
    """Hints on how to use content: for whom, how important (0 to 1), last changed when (ISO 8601)."""

    audience: list[Role] | None = None
    priority: float | None = None
    last_modified: Annotated[str | None, Life(since=R2025_06_18)] = None


_Annotated = Annotated[Annotations | None, Life(since=R2024_11_05)]
_Meta = Annotated[Object | None, Life(since=R2025_06_18)]


@dataclass
class TextContent:
    """Text, for a person or a model."""

    type: Literal["text"] = field(default="text", kw_only=True)
    text: str
    annotations: _Annotated = None
    meta: _Meta = None

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        """Only text is written."""
        if not isinstance(self.text, str):
            raise TypeError(f"a TextContent holds a str, not {type(self.text).__name__}")
        return wire


@dataclass
class ImageContent:
    """An image; `data` is Base64."""

    type: Literal["image"] = field(default="image", kw_only=True)
    data: str
    mime_type: str
    annotations: _Annotated = None
    meta: _Meta = None

    @classmethod
    def of(cls, image: bytes, mime_type: str) -> ImageContent:
        """The content block for raw bytes."""
        return cls(base64.b64encode(image).decode(), mime_type)

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        """Only Base64 is written."""
        check_media(self.data, self.mime_type)
        return wire


def _audio_as_text(audio: object) -> object:
    assert isinstance(audio, AudioContent)
    return TextContent(f"[audio, {audio.mime_type}: this protocol revision cannot carry it]")


@dataclass
class AudioContent:
    """A sound; `data` is Base64."""

    life: ClassVar[Life] = Life(since=R2025_03_26, instead=_audio_as_text)

    type: Literal["audio"] = field(default="audio", kw_only=True)
    data: str
    mime_type: str
    annotations: _Annotated = None
    meta: _Meta = None

    @classmethod
    def of(cls, sound: bytes, mime_type: str) -> AudioContent:
        """The content block for raw bytes."""
        return cls(base64.b64encode(sound).decode(), mime_type)

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        """Only Base64 is written."""
        check_media(self.data, self.mime_type)
        return wire


@dataclass
class TextResourceContents:
    """What a resource holds, as text."""

    uri: str
    text: str
    mime_type: str | None = None
    meta: _Meta = None


@dataclass
class BlobResourceContents:
    """What a resource holds, as bytes in Base64."""

    uri: str
    blob: str
    mime_type: str | None = None
    meta: _Meta = None

    @classmethod
    def of(cls, uri: str, data: bytes, mime_type: str | None = None) -> BlobResourceContents:
        """The contents for raw bytes."""
        return cls(uri, base64.b64encode(data).decode(), mime_type)

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        """Only Base64 is written."""
        check_media(self.blob, self.mime_type)
        return wire


ResourceContents: TypeAlias = TextResourceContents | BlobResourceContents


@dataclass
class EmbeddedResource:
    """A resource's contents, put into a result or a message."""

    type: Literal["resource"] = field(default="resource", kw_only=True)
    resource: ResourceContents
    annotations: _Annotated = None
    meta: _Meta = None

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        """A valid URI, and always a MIME type."""
        # [2025-11-25 server/prompts#embedded-resources] MUST include a valid resource URI, the appropriate MIME type
        check_uri(self.resource.uri)
        resource = wire["resource"]
        assert isinstance(resource, dict)
        is_text = isinstance(self.resource, TextResourceContents)
        resource.setdefault("mimeType", "text/plain" if is_text else "application/octet-stream")
        return wire

    @staticmethod
    def from_wire(wire: Object, revision: Revision) -> Object:
        """The prose puts `annotations` inside `resource`, the schema beside it: written beside, read from both."""
        # [2025-06-18 server/tools#embedded-resources]
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
    """A pointer to a resource, which the client may read or subscribe to. It need not be in `resources/list`."""

    life: ClassVar[Life] = Life(since=R2025_06_18, instead=_link_as_text)

    type: Literal["resource_link"] = field(default="resource_link", kw_only=True)
    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    annotations: Annotations | None = None
    size: int | None = None
    icons: Annotated[list[Icon] | None, Life(since=R2025_11_25)] = None
    meta: Object | None = None


ContentBlock: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource

# ---------------------------------------------------------------------------------------------------- data


def write_structured_content(wire: Object, is_null: bool, revision: Revision) -> Object:
    """Say that the data are JSON's null, where they are; leave out what an older peer could not read."""
    if revision.structured_content_is_any_json:
        # [2026-07-28 server/tools#structured-content] any JSON value, null too
        return {**wire, "structuredContent": None} if is_null else wire
    if type(wire.get("structuredContent", {})) is dict:
        return wire
    return {name: member for name, member in wire.items() if name != "structuredContent"}


def read_structured_content(wire: Object, revision: Revision) -> Object:
    """Tell data that are null from those that are not there. Raises ShapeError for what an older peer cannot mean."""
    data = wire.get("structuredContent")
    if data is not None and type(data) is not dict and not revision.structured_content_is_any_json:
        raise ShapeError("an object", data, "structuredContent")
    is_null = data is None and "structuredContent" in wire and revision.structured_content_is_any_json
    return {**wire, "structuredNull": is_null} if is_null or "structuredNull" in wire else wire
