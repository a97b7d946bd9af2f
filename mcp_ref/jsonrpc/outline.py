"""The outline of a message: its keys and its id, found without parsing the JSON text.

Two kinds of messages are not parsed: those that cannot be, and some large ones (large_messages.py). Their senders still
need an error with the id of the message.

Used by: messages.py, large_messages.py
"""

from __future__ import annotations

import json
import re
from typing import Final

MAX_UNREQUESTED: Final = 1024 * 1024
"""Maximum size of a server's message that is not the response to a waiting request, in bytes (1 MiB)."""
SEARCHED_BYTES: Final = 1024
"""Number of bytes at the start, and at the end, of a large message that are searched for its id."""


# A string without an end matches too. Otherwise the search would look for its end again at each quote.
STRING: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?'
"""A pattern for a JSON string."""
_TOKEN: Final = STRING + r'|[\[\]{},:]|[^\s"\[\]{},:]++'
_MEMBER: Final = rb'\s*+"\w++"\s*+:\s*+(?:"[^"\\]*+"|-?+\d++)\s*+'
# The module re compiles these patterns at the first use. Most peers never send a large message.
_FIRST_MEMBERS: Final = rb"\s*+(?:\[\s*+)?+\{((?:" + _MEMBER + rb",)*+)"
_LAST_MEMBERS: Final = rb"((?:," + _MEMBER + rb")++)\}\s*+(?:\]\s*+)?+\Z"
_NEXT_KEY: Final = rb'\s*+"(\w++)"\s*+:'


def search_members(text: str) -> tuple[set[str], object]:
    """Return the keys of an unreadable object, and its id, or None without an id that is a string or a number.

    The search does not use recursion, so deep nesting cannot exhaust the stack.
    """
    depth, name, previous, keys = 0, "", "", set[str]()
    id: object = None
    for match in re.finditer(_TOKEN, text):
        token = match[0]
        if token in "[{":
            depth += 1
        elif token in "]}":
            depth -= 1
        elif depth == 1 and token == ":":
            name = previous.strip('"')
            keys.add(name)
        elif depth == 1 and previous == ":" and name == "id" and id is None:
            try:
                id = json.loads(token)
                str(id).encode()  # raises UnicodeEncodeError, a ValueError, for half of a surrogate pair
            except ValueError:
                id = None
        previous = token
    return keys, id


def search_ends(frame: bytes) -> tuple[set[str], object]:
    """Return the keys of a large object whose members are strings or integers, and its id, or None without an id.

    Only members in front of all other members, and behind them, are found. The key of the first other member is found
    too.
    """
    keys = set[str]()
    id: object = None
    start = frame[:SEARCHED_BYTES]
    first = re.match(_FIRST_MEMBERS, start)
    if first is not None and (following := re.match(_NEXT_KEY, start[first.end() :])) is not None:
        keys.add(following[1].decode())
    last = re.search(_LAST_MEMBERS, frame[-SEARCHED_BYTES:])
    for text in (first[1][:-1] if first is not None else b"", last[1][1:] if last is not None else b""):
        try:
            members: dict[str, object] = json.loads(b"{%b}" % text)
        except ValueError:  # not UTF-8, a control character, or too many digits
            continue
        keys |= members.keys()
        id = members.get("id") if id is None else id
    return keys, id
