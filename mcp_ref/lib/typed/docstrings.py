"""A parser of docstrings. It separates the description of a function from the descriptions of its parameters.

The parser knows three conventions: Google ("Args:" and an indented block), NumPy (an underlined "Parameters") and reST
(":param name: …"). It removes the text about parameters. The rest is the description of the function.
"""

from __future__ import annotations

import inspect
import re

_GOOGLE = ("Args:", "Arguments:", "Parameters:", "Params:", "Keyword Args:", "Keyword Arguments:", "Other Parameters:")
_NUMPY = ("Parameters", "Other Parameters")
# compiled by `re` at their first use, because a server seldom uses more than one convention
_GOOGLE_ENTRY = r"\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:(?:\s+(.*)|$)"  # name (int): text
_NUMPY_ENTRY = r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?()$"  # group 2 is empty: the text is on the next lines
_UNDERLINE = r"-{3,}\s*$"
_REST = r":(param|parameter|arg|argument|key|keyword|type)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)$"  # :param int x: text


def read_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """Return the description of a function, and the text about each parameter by name."""
    text = text or ""
    if "\n" in text or "\t" in text:
        text = inspect.cleandoc(text)
    if ":" not in text and "---" not in text:  # it follows no convention
        return text.strip(), {}
    lines = text.splitlines()
    kept: list[str] = []  # the lines about the function itself
    found: dict[str, str] = {}
    at = 0
    while at < len(lines):  # each round takes a block about parameters, or one line
        line = lines[at].rstrip()
        if line in _GOOGLE:
            end = _end_of_block(lines, at + 1)
            # an empty line first, because `cleandoc` ignores the first line's indentation
            block = inspect.cleandoc("\n".join(["", *lines[at + 1 : end]])).splitlines()
            _read_entries(block, _GOOGLE_ENTRY, found)
        elif line in _NUMPY and _is_underlined(lines, at):
            end = _end_of_section(lines, at + 2)
            _read_entries(lines[at + 2 : end], _NUMPY_ENTRY, found)
        elif line.startswith(":") and (field := re.match(_REST, line)):
            end = _end_of_block(lines, at + 1)
            if field[1] != "type":
                found[field[2]] = _join_lines(field[3], *lines[at + 1 : end])
        else:
            end = at + 1
            kept.append(lines[at])
        at = end
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip(), found


def _end_of_block(lines: list[str], at: int) -> int:
    """Return the index of the line after the indented block that begins at line `at`. A block can have blank lines."""
    end = at
    for index in range(at, len(lines)):
        if lines[index].startswith((" ", "\t")):
            end = index + 1
        elif lines[index]:
            break
    return end


def _end_of_section(lines: list[str], at: int) -> int:
    """Return the index of the line with the next underlined heading, or `len(lines)`."""
    while at < len(lines) and not _is_underlined(lines, at):
        at += 1
    return at


def _is_underlined(lines: list[str], at: int) -> bool:
    return at + 1 < len(lines) and re.match(_UNDERLINE, lines[at + 1]) is not None


def _read_entries(lines: list[str], pattern: str, found: dict[str, str]) -> None:
    """Add the entries of a block to `found`. An entry begins with names, and its text can have several lines."""
    names: list[str] = []
    for line in lines:
        if entry := re.match(pattern, line):  # an indented line does not match: it continues an entry
            names = [name.strip(" *") for name in entry[1].split(",")]
            found.update(dict.fromkeys(names, entry[2] or ""))
        else:
            found.update({name: _join_lines(found[name], line) for name in names})


def _join_lines(*lines: str) -> str:
    return " ".join(filter(None, map(str.strip, lines)))
