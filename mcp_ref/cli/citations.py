"""Find the citations of the specification in the docstrings and comments of a Python file, for the command `toc`.

A citation has one of two forms:

- A bracket with a revision, a page and perhaps headings, such as `2025-11-25 basic/transports#session-management`,
  `2025-06-18 changelog#major-changes` or `2025-03-26 schema`.
- `Spec:  basic/lifecycle#shutdown (2024-11-05 to 2025-11-25); schema: CallToolResult` in the docstring of a module:
  pages, with the revisions before or after them, and types of the schema.

A citation that names no revisions is about all of them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..revisions import REVISIONS

_REVISION_NAMES = tuple(revision.name for revision in REVISIONS)
_PAGE = r"(?:(?:basic|server|client)(?:/[a-z-]+)+|changelog|architecture/index|schema|deprecated|index)"
_BRACKET = r"\[(20\d\d-\d\d-\d\d\s[^\]]*)\]"
_IN_BRACKET = re.compile(rf"(20\d\d-\d\d-\d\d) ({_PAGE})((?:,? ?#[\w.%-]+)*)")
"""The revision, the page, and all headings of a citation in a bracket."""
_NEXT_ITEM = re.compile(r"; |, (?=#|basic/|server/|client/|20\d\d-|the |schema)")
"""The end of one item of `Spec:`. A comma ends it only before a heading, page, revision, "the" or "schema"."""
_IN_ITEM = re.compile(
    rf"""
    (?:(20\d\d-\d\d-\d\d)[ ])?                 # perhaps a revision
    (?<![\w/])({_PAGE}(?![\w/:.])|(?=\#))      # a page, but no part of a longer path; or "" before a heading
    (?:\#([\w%-]+))?                           # perhaps a heading
    """,
    re.VERBOSE,
)
"""A citation in an item of `Spec:`. A heading without a page belongs to the page of the item before it."""
_OTHER_SOURCES = r"JSON-RPC|JSON Schema|RFC|OAuth|draft-ietf|https?:|standard|changelog|extension|the pages of|schema/<"
"""Sources that an item of `Spec:` can name instead of a page."""


@dataclass(frozen=True)
class Citation:
    """A place in a Python file that cites a page, or one heading of it, in at least one revision."""

    path: str
    """The file with the citation."""
    text: str
    """The citation as it is written."""
    revisions: tuple[str, ...]
    page: str
    anchor: str | None
    """The heading, or None for the whole page."""
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
        # If the bracket continues on a second line of a comment, the text contains `#` or `#:` from its beginning.
        text = " ".join(re.sub(r"\n\s*#:?\s", " ", bracket[1]).split())
        match = _IN_BRACKET.fullmatch(text)
        if match is None:
            raise ValueError(f"{path}: [{text}] is not [REVISION page#heading]")
        revision, page, headings = match.groups()
        line = source.count("\n", 0, bracket.start()) + 1
        words = _sentence(source, bracket.start(), bracket.end())
        for anchor in re.findall(r"#([\w.%-]+)", headings) or [None]:
            yield Citation(path, text, (revision,), page, anchor, line, words)


def of_module(path: str, source: str) -> Iterator[Citation]:
    """Yield the citations of `Spec:`. Raise ValueError for an item that names no page, schema type or standard."""
    line = source.count("\n", 0, source.find("\nSpec:") + 1) + 1
    words = source.lstrip().removeprefix('"""').partition("\n")[0]  # the first line of the docstring
    page = ""  # an item such as `#shutdown` is a heading of the page before it
    for item in _NEXT_ITEM.split(spec_section(source)):
        text = item.strip()
        types = re.match(r"schema: (.*)", text)
        if types:
            for name in re.findall(r"[A-Z]\w+", types[1]):
                yield Citation(path, text, _REVISION_NAMES, "schema", name, line, words)
            continue
        text = re.sub(r"\[.*?\]", "", text)  # `bracketed` yields the citations in brackets
        matches = list(_IN_ITEM.finditer(text))
        for match in matches:
            revision, page_here, anchor = match.groups()
            page = page_here or page
            yield Citation(path, text, (revision,) if revision else _range(text), page, anchor, line, words)
        is_about_mcp = "lib/" not in path  # the libraries implement other standards
        if text and not matches and is_about_mcp and not re.search(_OTHER_SOURCES, text):
            raise ValueError(f"{path}: Spec: {text!r} names no page")


def spec_section(source: str) -> str:
    """Return the text behind `Spec:` in a module's docstring, or "" without one."""
    docstring = source.partition('"""')[2].partition('"""')[0]
    found = re.search(r"^Spec: +(.*(?:\n +.*)*)", docstring, re.MULTILINE)
    return " ".join(found[1].split()) if found else ""


def _range(text: str) -> tuple[str, ...]:
    """Return the revisions of `(2024-11-05 to 2025-11-25)` or `(2026-07-28)`, by default all."""
    dates = re.findall(r"20\d\d-\d\d-\d\d", text)
    if not dates:
        return _REVISION_NAMES
    return tuple(name for name in _REVISION_NAMES if dates[0] <= name <= dates[-1])


def _sentence(source: str, start: int, end: int) -> str:
    """Return the sentence before the bracket of a citation, or after it if the bracket begins the text.

    If the comment contains only citations, return the code below it. `start` and `end` are the places of the bracket.
    """
    *lines_above, begin_of_line = source[:start].split("\n")
    end_of_line, *lines_below = source[end:].split("\n")
    comment = re.match(r"(?P<code>|.*\S  )\s*# ?(?P<text>.*)", begin_of_line)
    if comment is None:  # the bracket is in a docstring
        upwards = list(_paragraph(begin_of_line, reversed(lines_above)))
        downwards = list(_paragraph(end_of_line, lines_below))
    else:
        upwards = [comment["text"]]
        if not comment["code"]:  # the comment has lines of its own, perhaps several
            upwards += itertools.takewhile(_is_comment, reversed(lines_above))
        downwards = [end_of_line, *itertools.takewhile(_is_comment, lines_below)]
    text_before, text_after = _plain(upwards[::-1]), _plain(downwards)
    if text_before.strip(".,;- "):
        return re.split(r"(?<=[.:]) ", text_before)[-1]
    if text_after:
        return re.split(r"(?<=\.) ", text_after)[0]
    return next((line.strip() for line in lines_below if line.strip()), "")


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def _paragraph(line: str, next_lines: Iterable[str]) -> Iterator[str]:
    """Yield a line of a docstring, and the next lines up to the end of its paragraph or of the docstring."""
    yield line
    if '"""' in line:
        return
    for next_line in next_lines:
        if not next_line.strip():
            return
        yield next_line
        if '"""' in next_line:
            return


def _plain(lines: list[str]) -> str:
    """Return lines as one text, without quotes, the marks of comments, and other citations in brackets."""
    text = " ".join(line.strip().removeprefix("#").strip() for line in lines).replace('"""', "")
    return " ".join(re.sub(_BRACKET, "", text).split())
