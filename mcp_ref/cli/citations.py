"""Citations of the specification in the docstrings and comments of a Python file.

- A bracket with a revision, a page and perhaps headings, such as `2025-11-25 basic/transports#session-management`,
  `2025-06-18 changelog#major-changes` or `2025-03-26 schema`.
- `Spec:  basic/lifecycle#shutdown (2024-11-05 to 2025-11-25); schema: CallToolResult` in the docstring of a module:
  pages, with the revisions before or after them, and types of the schema.

A citation that names no revisions is about all of them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ..revisions import REVISIONS

_NAMES = tuple(revision.name for revision in REVISIONS)
_PAGE = r"(?:(?:basic|server|client)(?:/[a-z-]+)+|changelog|architecture/index|schema|deprecated|index)"
_BRACKET = r"\[(20\d\d-\d\d-\d\d\s[^\]]*)\]"
_OTHER_SOURCES = r"JSON-RPC|JSON Schema|RFC|OAuth|draft-ietf|https?:|standard|changelog|extension|the pages of|schema/<"


@dataclass(frozen=True)
class Citation:
    """A page, or one heading of it, in at least one of its revisions."""

    path: str
    text: str
    revisions: tuple[str, ...]
    page: str
    anchor: str | None
    line: int = 0
    words: str = ""
    """The sentence that the citation supports, or the first sentence of the module."""


def citations_in(path: str, source: str) -> Iterator[Citation]:
    """Yield all citations of a Python file. Raise ValueError for a malformed one."""
    yield from bracketed(path, source)
    yield from of_module(path, source)


def bracketed(path: str, source: str) -> Iterator[Citation]:
    """Yield the citations in brackets. Raise ValueError for a malformed one."""
    for bracket in re.finditer(_BRACKET, source):
        text = " ".join(bracket[1].replace("#:", "#").split()).replace(" # ", " ")  # without the marks of a comment
        found = re.fullmatch(rf"(20\d\d-\d\d-\d\d) ({_PAGE})((?:,? ?#[\w.%-]+)*)", text)
        if found is None:
            raise ValueError(f"{path}: [{text}] is not [REVISION page#heading]")
        line, words = source.count("\n", 0, bracket.start()) + 1, _sentence(source, bracket.start(), bracket.end())
        for anchor in re.findall(r"#([\w.%-]+)", found[3]) or [None]:
            yield Citation(path, text, (found[1],), found[2], anchor, line, words)


def of_module(path: str, source: str) -> Iterator[Citation]:
    """Yield the citations of `Spec:`. Raise ValueError for an item that names no page, schema type or standard."""
    page, words = "", source.lstrip().removeprefix('"""').partition("\n")[0]  # the first line of its docstring
    line = source.count("\n", 0, source.find("\nSpec:") + 1) + 1
    for item in re.split(r"; |, (?=#|basic/|server/|client/|20\d\d-|the |schema)", spec_section(source)):
        text, is_known = item.strip(), False
        if not text:
            continue
        types = re.match(r"schema: (.*)", text)
        if types:
            for name in re.findall(r"[A-Z]\w+", types[1]):
                yield Citation(path, text, _NAMES, "schema", name, line, words)
            continue
        text = re.sub(r"\[.*?\]", "", text)  # citations in brackets have a form of their own
        pages = rf"(?:(20\d\d-\d\d-\d\d) )?(?<![\w/])({_PAGE}(?![\w/:.])|(?=#))(?:#([\w%-]+))?"
        for found in re.finditer(pages, text):
            page, is_known = found[2] or page, True
            yield Citation(path, text, (found[1],) if found[1] else _range(text), page, found[3], line, words)
        if not is_known and "lib/" not in path and not re.search(_OTHER_SOURCES, text):
            raise ValueError(f"{path}: Spec: {text!r} names no page")


def spec_section(source: str) -> str:
    """Return the text behind `Spec:` in a module's docstring, or "" without one."""
    docstring = source.partition('"""')[2].partition('"""')[0]
    found = re.search(r"^Spec: +(.*(?:\n +.*)*)", docstring, re.MULTILINE)
    return " ".join(found[1].split()) if found else ""


def _range(text: str) -> tuple[str, ...]:
    """Return the revisions of `(2024-11-05 to 2025-11-25)` or `(2026-07-28)`, by default all."""
    named = re.findall(r"20\d\d-\d\d-\d\d", text)
    return tuple(name for name in _NAMES if not named or named[0] <= name <= named[-1])


def _sentence(source: str, start: int, end: int) -> str:
    """Return the sentence before the bracket of a citation, or after it if the bracket begins the text.

    If the comment contains only citations, return the code below it.
    """
    above, below = source[:start].split("\n")[::-1], source[end:].split("\n")  # both begin with the line of the bracket
    comment = re.match(r"(?P<code>|.*\S  )\s*# ?(?P<text>.*)", above[0])
    if comment is None:
        before, after = list(_paragraph(above)), list(_paragraph(below))
    else:
        before, after = [comment["text"]], [below[0], *itertools.takewhile(_is_comment, below[1:])]
        if not comment["code"]:  # a comment on its own lines
            before += itertools.takewhile(_is_comment, above[1:])
    text_before = _plain(before[::-1])
    if text_before.strip(".,;- "):
        return re.split(r"(?<=[.:]) ", text_before)[-1]
    code_lines = filter(None, map(str.strip, below[1:]))
    return re.split(r"(?<=\.) ", _plain(after))[0] or next(code_lines, "")


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def _paragraph(lines: list[str]) -> Iterator[str]:
    """Yield the lines up to the end of a docstring's paragraph. The first line is that of the citation."""
    for number, line in enumerate(lines):
        if number and not line.strip():
            return
        yield line
        if '"""' in line:
            return


def _plain(lines: list[str]) -> str:
    """Return lines as one text, without quotes, the marks of comments, and other citations."""
    text = " ".join(line.strip().removeprefix("#").strip() for line in lines).replace('"""', "")
    return " ".join(re.sub(_BRACKET, "", text).split())
