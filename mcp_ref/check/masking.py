"""The events of a recording without their secrets: `***` replaces each value whose name suggests one.

The names are those of the trace (`transports/trace.py`), in JSON, headers, queries and forms. If a content is not JSON,
or has only its start, nobody can tell where a secret ends. Then everything after a word that suggests one is replaced.

Threats:
    recording-secrets: passwords and tokens in a conversation; a reader of its recording; finds one in a message, a
        header, a query, a form, an argument of the command, or bytes that are not JSON; `mask` replaces it.

Used by: recorder/, and programs that write a recording. Below: recording.py, transports/trace.py
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable
from typing import Final

from ..jsonrpc.messages import JSON
from ..transports.trace import SECRET_NAMES, is_query_secret, redact, redact_query, suggests_secret
from .recording import Content, ErrorOutput, Event, Frame, Gap, Head, HttpBody, HttpEvent, HttpRequest, HttpResponse

HIDDEN: Final = "***"
"""The text in place of a secret."""
# their values are the names of other headers, such as Authorization
_NOT_SECRET_HEADERS: Final = frozenset({"access-control-allow-headers", "vary"})
_ADDRESS_HEADERS: Final = frozenset({"location", "referer", "link", "content-location", "www-authenticate"})
_SECRET_HEADER_ENDS: Final = ("key", "auth", "dpop")
"""Ends of the names of headers that are secrets, although `SECRET_NAMES` has no word of them."""

# Separators between letters, because `api_key` is a secret too, and so is the UTF-16 form of the word
_SECRET_WORD: Final = re.compile("|".join(map(r"[-_. \0]*".join, SECRET_NAMES)).encode(), re.IGNORECASE)
_WORDS: Final = tuple(
    word.encode()
    for word in (*SECRET_NAMES, "bearer", "basic", "dpop", "code=", "assertion=", "key=", "auth=", "sig=", "signature=")
)
_DISGUISES: Final = (b"\\u", b"%", "\u017f".encode(), "\u212a".encode(), "\u0131".encode())
"""Escapes, and letters outside ASCII that are equal to `s`, `k` or `i` if the case is ignored."""
_KEY_WORD: Final = re.compile(r"[-_. \0]*".join("privatekey").encode(), re.IGNORECASE)
"""The word before a secret of several lines."""
_FORM: Final = re.compile(rb"[\w.%+-]+=[^\s{}<>\"]*[\r\n]*")
_PASSWORD: Final = re.compile(rb"://[^/\s]*@")
_ASSIGNMENT: Final = re.compile(r"([^=:\s]+)[=:](?=\S+\Z)")
"""The name in an argument such as `--token=a`, `TOKEN=a` or `X-Api-Key:a`."""
_OPTION: Final = re.compile("-[A-Za-z]|--[A-Za-z].*")
"""An argument that begins an option. A token can begin with a hyphen, too."""


def mask_head(head: Head) -> Head:
    """Return the head without secrets in the options of the command and in the URL."""
    words, hides_next = list[str](), False
    for word in head.command:
        assignment = _ASSIGNMENT.match(word)
        if hides_next and _OPTION.fullmatch(word) is None:
            words.append(HIDDEN)
        elif assignment is not None and suggests_secret(assignment[1]):
            words.append(assignment[0] + HIDDEN)
        else:
            words.append(_mask_word(word))
        hides_next = assignment is None and _OPTION.fullmatch(word) is not None and suggests_secret(word)
    return dataclasses.replace(head, command=tuple(words), url=_mask_address(head.url))


def _mask_word(word: str) -> str:
    """Return a word of a command. If it has several words, such as a script, nobody knows where a secret ends."""
    data = word.encode("utf-8", "surrogateescape")
    return _cut(data).decode("utf-8", "replace") if len(word.split()) > 1 else _mask_text(word)


def mask(event: Event) -> Event:
    """Return the event without its secrets. `masked` is True if there were any."""
    match event:
        case HttpEvent():
            data, id = _mask_content(event.content, False), None if event.id is None else _mask_text(event.id)
            is_same = data is event.content and id == event.id
            return event if is_same else dataclasses.replace(event, content=data, id=id, masked=True)
        case Frame() | ErrorOutput() | HttpBody():
            data = _mask_content(event.content, isinstance(event, ErrorOutput))
            return event if data is event.content else dataclasses.replace(event, content=data, masked=True)
        case HttpRequest():
            return _mask_request(event)
        case HttpResponse():
            headers = _mask_headers(event.headers, False)
            return event if headers == event.headers else dataclasses.replace(event, headers=headers, masked=True)
        case Gap():  # the reason can quote bytes that are not HTTP
            because = _cut(event.because.encode()).decode()
            return event if because == event.because else dataclasses.replace(event, because=because, masked=True)
        case _:
            return event


def _mask_request(event: HttpRequest) -> HttpRequest:
    body, target = _mask_content(event.content, False), _mask_address(event.target)
    headers = _mask_headers(event.headers, body is not event.content)
    if body is event.content and (target, headers) == (event.target, event.headers):
        return event
    return dataclasses.replace(event, target=target, headers=headers, content=body, masked=True)


def _mask_headers(headers: Iterable[tuple[str, str]], has_secrets: bool) -> tuple[tuple[str, str], ...]:
    """Return the headers without secrets.

    Args:
        headers: Names and values.
        has_secrets: True if the body has secrets. A `Mcp-Param-...` header can repeat one under another name.
    """
    return tuple((name, _mask_header(name.lower(), value, has_secrets)) for name, value in headers)


def _mask_header(name: str, value: str, has_secrets: bool) -> str:
    if name in _NOT_SECRET_HEADERS:
        return value
    if suggests_secret(name) or name.endswith(_SECRET_HEADER_ENDS) or (has_secrets and name.startswith("mcp-param-")):
        return HIDDEN
    return _mask_address(value) if name in _ADDRESS_HEADERS else _mask_text(value)


def _mask_text(text: str) -> str:
    shown = redact(text)
    return shown if isinstance(shown, str) else HIDDEN


def _mask_address(url: str) -> str:
    """Return a URL without a password, and without the secrets in its query."""
    return redact_query(re.sub(r"(?<=//)[^/@\s]*@", f"{HIDDEN}@", url))


def _mask_content(content: Content, is_log: bool) -> Content:
    """Return the content without secrets, or the same object if it has none.

    Args:
        content: The content.
        is_log: True if a secret ends with its line. Else it ends with the content.
    """
    if _is_harmless(content.data):
        return content
    data = _mask_json(content.data) if content.is_whole else None
    if data is None:
        data = _mask_unreadable(content.data, is_log)
    if data == content.data:
        return content
    size = len(data) if content.is_whole else content.size
    return dataclasses.replace(content, data=data, size=size)


def _is_harmless(data: bytes) -> bool:
    """Return True if no word in the bytes suggests a secret. Most messages have none, and need not be parsed for it."""
    compact = data.lower().translate(None, b"-_. \0").replace(b'"progresstoken"', b"")
    has_word = any(word in compact for word in _WORDS) or any(part in data for part in _DISGUISES)
    return not has_word and (b"://" not in data or _PASSWORD.search(data) is None)


def _mask_json(data: bytes) -> bytes | None:
    """Return JSON without secrets, or None if the bytes are not JSON of which this program sees every value."""
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


def _mask_unreadable(data: bytes, is_log: bool) -> bytes:
    if not is_log and _FORM.fullmatch(data):
        return b"&".join(_mask_field(field) for field in data.split(b"&"))
    has_lines = is_log and _KEY_WORD.search(data) is None
    lines = data.splitlines(keepends=True) if has_lines else [data]
    return b"".join(_cut(line) for line in lines)


def _mask_field(field: bytes) -> bytes:
    name = field.partition(b"=")[0]
    return name + b"=***" if is_query_secret(name.decode("latin-1")) else field


def _cut(line: bytes) -> bytes:
    """Return a line up to the first word that suggests a secret, because nobody knows where the secret ends."""
    found = _SECRET_WORD.search(line)
    if found is None:
        return _mask_text(line.decode("latin-1")).encode("latin-1")
    end = b"\n" if line.endswith(b"\n") else b""
    return _mask_text(line[: found.end()].decode("latin-1")).encode("latin-1") + HIDDEN.encode() + end
