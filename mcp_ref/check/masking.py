"""The events of a recording without their secrets: `***` replaces each value whose name suggests one.

The names are those in JSON, headers, queries and forms, and the words in them that suggest a secret are those of the
trace (`transports/trace.py`). If content is not JSON, or only its start was kept, nobody can tell where a secret ends,
so all text after such a word is replaced.

Threats:
    recording-secrets: A reader of a recording finds passwords and tokens in a message, a header, a query, a form, an
        argument of the command, or bytes that are not JSON. `mask` replaces them.

Used by: recorder/, programs that write a recording, and the rules
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import re
import secrets
from collections.abc import Iterable
from typing import Final

from ..jsonrpc.messages import JSON
from ..transports.trace import SECRET_NAMES, is_query_secret, redact, redact_query, suggests_secret
from .recording import Content, ErrorOutput, Event, Frame, Gap, Head, HttpBody, HttpEvent, HttpRequest, HttpResponse

HIDDEN: Final = "***"
"""The text in place of a secret."""
# headers whose values are the names of others, such as Authorization
_NOT_SECRET_HEADERS: Final = frozenset({"access-control-allow-headers", "vary"})
_ADDRESS_HEADERS: Final = frozenset({"location", "referer", "link", "content-location", "www-authenticate"})
"""Headers that have URLs in their values, for example the `resource_metadata` of `WWW-Authenticate`."""
_SECRET_HEADER_ENDS: Final = ("key", "auth", "dpop")
"""Ends of header names that mark a secret too, as in `X-Functions-Key`, which has none of the `SECRET_NAMES`."""

_SEPARATORS: Final = r"[-_. \0]*"
"""Characters that can stand between two letters of a word, as in `api_key`. In UTF-16, a NUL follows each letter."""
_SECRET_WORD: Final = re.compile("|".join(_SEPARATORS.join(word) for word in SECRET_NAMES).encode(), re.IGNORECASE)
_PRIVATE_KEY: Final = re.compile(_SEPARATORS.join("privatekey").encode(), re.IGNORECASE)
"""The word before a secret that has several lines."""
_CLUES: Final = tuple(
    word.encode()
    for word in (*SECRET_NAMES, "bearer", "basic", "dpop", "code=", "assertion=", "key=", "auth=", "sig=", "signature=")
)
"""The words, without separators, that suggest a secret in content."""
_DISGUISES: Final = (b"\\u", b"%", "\u017f".encode(), "\u212a".encode(), "\u0131".encode())
"""Escapes, and letters outside ASCII that are equal to `s`, `k` or `i` if the case is ignored. They can hide a clue."""
_FORM: Final = re.compile(rb"[\w.%+-]+=[^\s{}<>\"]*[\r\n]*")
"""The body of a form, such as `grant_type=refresh_token&refresh_token=a`."""
_PASSWORD: Final = re.compile(rb"://[^/\s]*@")
"""The place in a URL that can have a user and a password."""
_ASSIGNMENT: Final = re.compile(r"([^=:\s]+)[=:](?=\S+\Z)")
"""The name in an argument such as `--token=a`, `TOKEN=a` or `X-Api-Key:a`."""
_OPTION: Final = re.compile("-[A-Za-z]|--[A-Za-z].*")
"""An option such as `-t` or `--token`. Another argument that begins with a hyphen can be a token itself."""


def mask_head(head: Head) -> Head:
    """Return the head without secrets in the options of the command and in the URL."""
    command, is_next_secret = list[str](), False
    for argument in head.command:
        is_option, assignment = _OPTION.fullmatch(argument) is not None, _ASSIGNMENT.match(argument)
        if is_next_secret and not is_option:
            command.append(HIDDEN)
        elif assignment is not None and suggests_secret(assignment[1]):
            command.append(assignment[0] + HIDDEN)
        else:
            command.append(_mask_argument(argument))
        is_next_secret = is_option and assignment is None and suggests_secret(argument)
    return dataclasses.replace(head, command=tuple(command), url=_mask_address(head.url))


def _mask_argument(argument: str) -> str:
    if len(argument.split()) <= 1:
        return _mask_text(argument)
    # several words can be a script, such as the argument of `sh -c`, in which nobody knows where a secret ends
    return _mask_after_word(argument.encode("utf-8", "surrogateescape")).decode("utf-8", "replace")


def mask(event: Event) -> Event:
    """Return the event without its secrets. `masked` is True if there were any."""
    shown: dict[str, object] = {}
    if isinstance(event, Frame | ErrorOutput | HttpRequest | HttpBody | HttpEvent):
        shown["content"] = _mask_content(event.content, is_log=isinstance(event, ErrorOutput))
    match event:
        case HttpRequest():
            body_has_secrets = shown["content"] is not event.content
            shown |= {"target": _mask_address(event.target), "headers": _mask_headers(event.headers, body_has_secrets)}
        case HttpResponse():
            shown["headers"] = _mask_headers(event.headers)
        case HttpEvent(id=str(id)):
            shown["id"] = _mask_event_id(id)
        case Gap():  # the reason can quote bytes that are not HTTP
            shown["because"] = _mask_after_word(event.because.encode()).decode()
    if all(getattr(event, name) == value for name, value in shown.items()):
        return event
    return dataclasses.replace(event, masked=True, **shown)  # type: ignore[arg-type]


def _mask_headers(headers: Iterable[tuple[str, str]], body_has_secrets: bool = False) -> tuple[tuple[str, str], ...]:
    return tuple((name, _mask_header(name.lower(), value, body_has_secrets)) for name, value in headers)


def _mask_header(name: str, value: str, body_has_secrets: bool) -> str:
    if name in _NOT_SECRET_HEADERS:
        return value
    if suggests_secret(name) or name.endswith(_SECRET_HEADER_ENDS):
        return HIDDEN
    if body_has_secrets and name.startswith("mcp-param-"):  # it can repeat a secret under another name
        return HIDDEN
    if name == "last-event-id":
        return _mask_event_id(value)
    return _mask_address(value) if name in _ADDRESS_HEADERS else _mask_text(value)


def _mask_event_id(id: str) -> str:
    """Return the id, or a hash if it has a secret. Equal ids get equal hashes, so that rules can follow the stream."""
    if _mask_text(id) == id:
        return id
    return f"event-{hashlib.blake2b(id.encode('utf-8', 'surrogatepass'), key=_hash_key(), digest_size=8).hexdigest()}"


@functools.cache
def _hash_key() -> bytes:
    """Return the random key of this process, which keeps others from finding a secret by hashing their guesses."""
    return secrets.token_bytes(16)


def _mask_text(text: str) -> str:
    shown = redact(text)
    return shown if isinstance(shown, str) else HIDDEN  # always a string, but its type is JSON


def _mask_address(url: str) -> str:
    """Return a URL without a password, and without the secrets in its query."""
    return redact_query(re.sub(r"(?<=//)[^/@\s]*@", f"{HIDDEN}@", url))


def _mask_content(content: Content, is_log: bool) -> Content:
    """Return the content without secrets, or the same object if it has none. In a log, a secret ends with its line."""
    if not _may_have_secret(content.data):
        return content
    data = _mask_json(content.data) if content.is_whole else None
    if data is None:
        data = _mask_non_json(content.data, is_log)
    if data == content.data:
        return content
    size = len(data) if content.is_whole else content.size
    return dataclasses.replace(content, data=data, size=size)


def _may_have_secret(data: bytes) -> bool:
    """Return False if nothing in the bytes suggests a secret, so that most messages need not be parsed."""
    # without separators, so that `_CLUES` fit, and without the name progressToken, which many harmless messages have
    compact = data.lower().translate(None, b"-_. \0").replace(b'"progresstoken"', b"")
    has_clue = any(clue in compact for clue in _CLUES) or any(disguise in data for disguise in _DISGUISES)
    return has_clue or (b"://" in data and _PASSWORD.search(data) is not None)


def _mask_json(data: bytes) -> bytes | None:
    """Return JSON without secrets, or None if the bytes are not JSON, or have a duplicate name."""
    try:
        value = json.loads(data.decode(), object_pairs_hook=_members)
        shown = redact(value)
    except (ValueError, RecursionError):
        return None
    return data if shown == value else json.dumps(shown, ensure_ascii=False).encode("utf-8", "backslashreplace")


def _members(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    """Return an object. Raise ValueError for a duplicate name, because a dict would lose its first value."""
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a name is not unique")
    return members


def _mask_non_json(data: bytes, is_log: bool) -> bytes:
    if not is_log and _FORM.fullmatch(data):
        return b"&".join(_mask_field(field) for field in data.split(b"&"))
    ends_with_line = is_log and _PRIVATE_KEY.search(data) is None
    lines = data.splitlines(keepends=True) if ends_with_line else [data]
    return b"".join(_mask_after_word(line) for line in lines)


def _mask_field(field: bytes) -> bytes:
    name = field.partition(b"=")[0]
    return name + b"=***" if is_query_secret(name.decode("latin-1")) else field


def _mask_after_word(line: bytes) -> bytes:
    """Return a line in which `***` replaces all text after the first word that suggests a secret."""
    found = _SECRET_WORD.search(line)
    if found is None:
        return _mask_text(line.decode("latin-1")).encode("latin-1")
    end = b"\n" if line.endswith(b"\n") else b""
    return _mask_text(line[: found.end()].decode("latin-1")).encode("latin-1") + HIDDEN.encode() + end
