"""The conversion of one message from a revision (the source) to another (the target), and a count of the losses.

    equal revisions          the JSON object passes as it is, except for `_meta` that belongs to one hop (relayed.py)
    different revisions      JSON -> the codec of the source -> a dataclass -> the codec of the target -> JSON

The target's codec leaves out the fields that the target lacks, or refuses the message if its meaning would change
without a field; the `Availability` of the field says which. Each kind of loss is counted, and logged once for a server.
A content block of an unknown type becomes a text block, because a model can still read it.

Error codes change too. An unknown resource has a code of its own in each era, and the modern era forbids the codes
-32000 to -32019, which earlier servers have chosen themselves.

Spec:  2026-07-28 changelog, basic/index#error-codes; 2025-11-25 server/resources#error-handling
"""

from __future__ import annotations

import dataclasses
import functools
import json
import logging
from collections.abc import Iterator
from typing import Final, cast, get_args

from ..basic.versioning import MODERN_ERROR_CODES
from ..codec import ShapeError, codec_for, members_of
from ..features.caching import CacheableResult
from ..features.elicitation import URL_ELICITATION_REQUIRED
from ..features.task_augmentation import RELATED_TASK
from ..jsonrpc.errors import ProtocolError
from ..jsonrpc.messages import INTERNAL_ERROR, INVALID_PARAMS, JSON, Object
from ..revisions import METHODS, REVISIONS, Availability, NotInRevision, Revision, load_type
from .relayed import without_hop_meta

log = logging.getLogger(__name__)

MAX_ERROR_TEXT: Final = 2000
"""Maximum length of the text of an error that is passed on, in characters."""

_BLOCK_TYPES: Final = frozenset({"text", "image", "audio", "resource", "resource_link", "tool_use", "tool_result"})
_METHODS_BY_NAME: Final = {method.name: method for method in METHODS}
_LEGACY_NOT_FOUND: Final = frozenset(each.resource_not_found_code for each in REVISIONS if each.era == "legacy")
"""The error codes of an unknown resource in the legacy era."""


class Losses:
    """Counts of the values of one server that a client of another revision could not get."""

    def __init__(self, server: str) -> None:
        self.server = server
        self.counts: dict[str, int] = {}
        """Number of lost values by kind, such as "Tool.outputSchema is not in 2025-03-26"."""

    def add(self, kind: str) -> None:
        """Count a loss. Log the first one of its kind."""
        if kind not in self.counts:
            log.info("%s: %s, so the bridge leaves it out", self.server, kind)
        self.counts[kind] = self.counts.get(kind, 0) + 1


def params_type(method: str) -> type:
    return load_type(_METHODS_BY_NAME[method].params)


def result_type(method: str) -> type:
    type_name = _METHODS_BY_NAME[method].result
    assert type_name is not None, f"{method} is a notification"
    return load_type(type_name)


def converted(wire: Object, cls: type, source: Revision, target: Revision, losses: Losses) -> Object:
    """Return params or a result, whose dataclass is `cls`, as JSON in the target's revision.

    Raise NotInRevision if the target's revision cannot express it. Raise ShapeError if it is malformed.
    """
    if source is target:
        return without_hop_meta(wire)
    codec = codec_for(source)
    try:
        value: object = codec.decode(cls, wire)
    except ShapeError:  # perhaps because of a content block of an unknown type
        value = codec.decode(cls, cast(Object, _with_known_blocks(wire)))
    if isinstance(value, CacheableResult) and source.era != target.era:
        # Only the modern era has these hints. A modern client MUST get some, so a legacy server's result gets those
        # that forbid caching; a legacy client gets none, and the defaults here are not counted as a loss.
        value.ttl_ms, value.cache_scope = 0, "private"
    for name in lost_members(value, source, target):
        losses.add(f"{name} is not in {target}")
    encoded = without_hop_meta(codec_for(target).encode(value))
    meta = encoded.get("_meta")
    if isinstance(meta, dict) and RELATED_TASK in meta:  # the other side does not know this task
        encoded["_meta"] = {key: member for key, member in meta.items() if key != RELATED_TASK}
    return encoded


@functools.cache
def lost_fields(cls: type, source: Revision, target: Revision) -> dict[str, str]:
    """Return the fields of a dataclass and of the dataclasses in it that the source has and the target lacks, with a
    text for each: `{"Tool.title": "2025-06-18 -> 2025-03-26: left out"}`."""
    return _fields_lost_in(cls, source, target, set())


def _fields_lost_in(cls: type, source: Revision, target: Revision, seen: set[type]) -> dict[str, str]:
    """Return the `lost_fields`, but none of a class that was `seen` before, because some classes contain themselves."""
    availability: Availability = getattr(cls, "availability", Availability())
    if cls in seen or not availability.covers(source):
        return {}
    if not availability.covers(target):
        outcome = "as text" if availability.fallback else "refused"
        return {cls.__name__: f"{source} -> {target}: {outcome}"}
    seen.add(cls)
    lost: dict[str, str] = {}
    for member in members_of(cls):
        if not member.availability.covers(source):
            continue
        if member.availability.covers(target):
            for nested in _dataclasses_in(member.hint):
                lost |= _fields_lost_in(nested, source, target, seen)
        else:
            outcome = "refused" if member.availability.if_unsupported == "refuse" else "left out"
            lost[f"{cls.__name__}.{member.name}"] = f"{source} -> {target}: {outcome}"
    return lost


def _dataclasses_in(hint: object) -> Iterator[type]:
    """Yield the dataclasses in a type hint, such as `Tool` in `list[Tool] | None`."""
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        yield hint
    for part in get_args(hint):
        yield from _dataclasses_in(part)


def lost_members(value: object, source: Revision, target: Revision) -> Iterator[str]:
    """Yield the names of the members of a dataclass instance that the target's revision lacks, such as `Tool.icons`."""
    if isinstance(value, list):
        for item in value:
            yield from lost_members(item, source, target)
        return
    cls: type = type(value)
    if not dataclasses.is_dataclass(value) or not lost_fields(cls, source, target):
        return  # no instance of this class can lose anything, so its members need not be visited
    availability: Availability = getattr(cls, "availability", Availability())
    if not availability.covers(target):
        yield cls.__name__
        return
    for member in members_of(cls):
        content = getattr(value, member.attribute)
        is_absent = content is None or content == member.default  # in the JSON, as far as can be told
        if is_absent or not member.availability.covers(source):
            continue
        if member.availability.covers(target):
            yield from lost_members(content, source, target)
        else:
            yield f"{cls.__name__}.{member.name}"


def _with_known_blocks(value: JSON) -> JSON:
    """Return the value with each content block of an unknown type as a text block."""
    if isinstance(value, list):
        return [_with_known_blocks(item) for item in value]
    if not isinstance(value, dict):
        return value
    changed: Object = {}
    for name, member in value.items():
        if name != "content":
            changed[name] = _with_known_blocks(member)
        elif isinstance(member, list):
            changed[name] = [_known_block(each) for each in member]
        else:  # a message of sampling has one block instead of a list
            changed[name] = _known_block(member)
    return changed


def _known_block(block: JSON) -> JSON:
    block_type = block.get("type") if isinstance(block, dict) else None
    if isinstance(block_type, str) and block_type not in _BLOCK_TYPES:
        return {"type": "text", "text": f"[{block_type} {json.dumps(block, ensure_ascii=False)}]"}
    return block


def convert_params(method: str, wire: Object, source: Revision, target: Revision, losses: Losses) -> Object:
    """Return the params of a request for the target. Raise ProtocolError if its revision cannot express them."""
    try:
        return converted(wire, params_type(method), source, target, losses)
    except (ShapeError, NotInRevision) as error:
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: {error}") from None


def convert_result(method: str, wire: Object, source: Revision, target: Revision, losses: Losses) -> Object:
    """Return the result of a request for the target. Raise ProtocolError if it is malformed or cannot be expressed."""
    try:
        return converted(wire, result_type(method), source, target, losses)
    except (ShapeError, NotInRevision) as error:
        text = f"the result of {losses.server} for {method} cannot be passed on: {error}"
        raise ProtocolError(INTERNAL_ERROR, text[:MAX_ERROR_TEXT]) from None


def convert_error(error: ProtocolError, method: str, source: Revision, target: Revision) -> ProtocolError:
    """Return the error of a server for a client of another revision."""
    code, data, text = error.code, error.data, error.message[:MAX_ERROR_TEXT]
    if source is target:
        return ProtocolError(code, text, data)
    if method == "resources/read" and _is_not_found(error, source):
        return ProtocolError(target.resource_not_found_code, text, data)
    if target.era == "legacy" and code in MODERN_ERROR_CODES:
        return ProtocolError(INTERNAL_ERROR, f"{text} (error {code} of {source})", data)
    if code == URL_ELICITATION_REQUIRED and not target.elicitation_modes:
        urls = ", ".join(_urls_in(data))
        return ProtocolError(INTERNAL_ERROR, f"{text}: visit {urls} first, then try again"[:MAX_ERROR_TEXT])
    if target.era == "modern" and -32019 <= code <= -32000:
        # [2026-07-28 basic/index#error-codes] earlier servers chose these codes, so they have no common meaning
        return ProtocolError(INTERNAL_ERROR, text, {"code": code, "data": data})
    return ProtocolError(code, text, data)


def _is_not_found(error: ProtocolError, source: Revision) -> bool:
    """Return True for the error of an unknown resource."""
    if source.era == "modern" and error.code == INVALID_PARAMS:
        return isinstance(error.data, dict) and "uri" in error.data  # other invalid params have the same code
    return error.code in _LEGACY_NOT_FOUND


def _urls_in(data: JSON) -> list[str]:
    """Return the URLs in the data of an error -32042, which says that the user has to visit them."""
    listed = data.get("elicitations") if isinstance(data, dict) else None
    if not isinstance(listed, list):
        return []
    urls = [each.get("url") for each in listed if isinstance(each, dict)]
    return [url for url in urls if isinstance(url, str)]
