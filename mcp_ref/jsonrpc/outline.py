"""The outline of a message: its depth, its keys and its id, found without parsing the JSON text.

A message that is not valid JSON cannot be parsed, and one that is too deep, or too large (large_messages.py), must not
be. Even so, its sender needs an error with the id of the message.

Used by: messages.py, large_messages.py, the transports of the client
"""

from __future__ import annotations

import itertools
import json
import re
from typing import Final

MAX_UNREQUESTED: Final = 1024 * 1024
"""Maximum size of a server's message that is not the response to a waiting request, in bytes (1 MiB)."""
SEARCHED_BYTES: Final = 1024
"""Number of bytes at the start, and at the end, of a large message that are searched for its id."""


# A string without an end matches too, or the search would look for that end again from each quote.
STRING: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?'
"""A pattern for a JSON string."""
_TOKEN: Final = STRING + r'|[\[\]{},:]|[^\s"\[\]{},:]++'
# `*+`, `++` and `?+` never backtrack, which keeps hostile texts cheap. re compiles these patterns at their first use.
_MEMBER: Final = rb'\s*+"\w++"\s*+:\s*+(?:"[^"\\]*+"|-?+\d++(?:\.0++)?+)\s*+'  # with a string or an integer
_FIRST_MEMBERS: Final = rb"\s*+(?:\[\s*+)?+\{((?:" + _MEMBER + rb",)*+)"
_LAST_MEMBERS: Final = rb"((?:," + _MEMBER + rb")++)\}\s*+(?:\]\s*+)?+\Z"
_NEXT_KEY: Final = rb'\s*+"(\w++)"\s*+:'

_AS_ARRAYS = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def nesting_depth(text: str) -> int:
    """Return the nesting depth of a JSON text. If the text is invalid, return at least the depth up to the fault."""
    brackets = re.sub(STRING, "", text).encode().translate(_AS_ARRAYS, _NOT_BRACKETS)
    for depth in range(8):  # most texts end here: removing the innermost level eight times is faster than counting
        if not brackets:
            return depth
        brackets = brackets.replace(b"[]", b"")
    # Count the levels that are left. "[" is byte 91 and "]" is byte 93, so 92 minus the byte is a step in or out.
    return 8 + max(itertools.accumulate(map((92).__sub__, brackets)), default=0)


def same_id(one: str | int | None, other: str | int | None) -> bool:
    """Return True if a response with one id is for the request with the other. Some peers send "1" in response to 1."""
    return one == other or str(one) == str(other)


def search_members(text: str) -> tuple[set[str], object]:
    """Return the keys of an unreadable object, and its id, or None if it has no string or number as its id.

    The search does not recurse, so deep nesting cannot exhaust the stack.
    """
    depth, keys = 0, set[str]()
    name = ""  # the latest key of the outer object
    previous = ""  # the token before the current one
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
    """Return keys of a large object, and its id, or None if no id is found.

    Only members that are strings or integers are found, at the start and the end of the object, up to the first member
    of another type. The key of that member is found too.
    """
    keys = set[str]()
    id: object = None
    start = frame[:SEARCHED_BYTES]
    at_start = re.match(_FIRST_MEMBERS, start)
    if at_start is not None:
        next_key = re.match(_NEXT_KEY, start[at_start.end() :])
        if next_key is not None:
            keys.add(next_key[1].decode())
    at_end = re.search(_LAST_MEMBERS, frame[-SEARCHED_BYTES:])
    for found in (at_start, at_end):
        if found is None:
            continue
        try:
            members: dict[str, object] = json.loads(b"{%b}" % found[1].strip(b","))
        except ValueError:  # not UTF-8, a control character, or too many digits
            continue
        keys |= members.keys()
        id = members.get("id") if id is None else id
    if isinstance(id, float) and id.is_integer():  # some peers write 1 as 1.0
        id = int(id)
    return keys, id
