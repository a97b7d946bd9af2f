r"""Hidden characters: the characters of a text that a person does not see, and a form of the text that shows them.

A text from somebody else can move the cursor of a terminal, reverse the direction of a line, or contain instructions
that only a model reads. `escape_hidden` writes such characters as `\u{202e}`, so that they are seen and have no effect.

Three kinds of characters are hidden:

    by their category    controls, formats (such as direction marks), surrogates, private-use characters,
                         line and paragraph separators
    by their property    Default_Ignorable_Code_Point
    without ink          letters and symbols that draw nothing, such as the Hangul fillers

The variation selectors 15 and 16 are hidden except after a symbol, where their effect is visible: a warning sign, for
example, becomes colored.

Threats:
    terminal-escapes: A server or a client manipulates the user's terminal with escape sequences or hidden characters in
        a name, a result, an error or a log record. `show_text` and `EscapingFormatter` write them as escapes.

Spec:  Unicode 16.0: section 5.21, DerivedCoreProperties.txt
"""

from __future__ import annotations

import logging
import re
import sys
import unicodedata
from collections.abc import Iterator
from typing import Final, TextIO

_HIDDEN_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})

_OTHER_HIDDEN: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff"
    "\U00013439-\U0001343f"  # format characters since Unicode 15, which Python 3.11 does not know
    "\u2800\U00016fe4\U0001d159]"  # without ink: the blank Braille pattern, a Khitan filler, a note without a head
)
"""Hidden characters of other categories: the Default_Ignorable_Code_Point characters, among them unassigned ones, and
characters without ink."""

_PRESENTATION_SELECTORS: Final = "\ufe0e\ufe0f"
"""The variation selectors 15 and 16, which choose the form of the symbol before them."""
_CONTINUED: Final = "    | "
"""The beginning of a row that continues a folded line."""


def is_hidden(character: str) -> bool:
    """Return True for a character that is not drawn itself, such as a line break, a tab or a variation selector."""
    return unicodedata.category(character) in _HIDDEN_CATEGORIES or _OTHER_HIDDEN.match(character) is not None


def hidden_characters(text: str, keep: str = "\n\t") -> set[str]:
    """Return the hidden characters in a text, except those in `keep`."""
    if _PRESENTATION_SELECTORS[0] not in text and _PRESENTATION_SELECTORS[1] not in text:
        # Without a selector, the previous character does not matter, so a repeated character is checked only once.
        return {character for character in set(text) if is_hidden(character) and character not in keep}
    return {character for previous, character in _with_previous(text) if _is_hidden_after(previous, character, keep)}


def escape_hidden(text: str, keep: str = "\n\t") -> str:
    r"""Return a text in which `\u{...}`, with the hexadecimal code point, replaces hidden characters except `keep`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        "\\u{" + format(ord(character), "x") + "}" if _is_hidden_after(previous, character, keep) else character
        for previous, character in _with_previous(text)
    )


def _with_previous(text: str) -> Iterator[tuple[str, str]]:
    """Yield each character with the one before it. "x" stands before the first, because it is not a symbol."""
    return zip("x" + text, text, strict=False)


def fold(line: str, columns: int | None) -> str:
    """Return a line as a person should see it, with its hidden characters escaped.

    Args:
        line: The line.
        columns: Width of the terminal. A longer line is continued in rows that begin with `    | `, so that none of
            them looks like another line. A character outside ASCII can take two columns. None: the line is not folded.
    """
    shown = escape_hidden(line, keep="")
    if columns is None:
        return shown
    pieces = list[str]()
    width = 0  # of the current row
    for character in shown:
        character_width = 1 if character.isascii() else 2
        if width + character_width > columns:
            pieces.append(f"\n{_CONTINUED}")
            width = len(_CONTINUED)
        pieces.append(character)
        width += character_width
    return "".join(pieces)


def show_text(text: str, stream: TextIO, end: str = "\n") -> None:
    """Write a text to a stream. A terminal gets it with its hidden characters escaped, except line breaks and tabs."""
    try:
        print(escape_hidden(text) if stream.isatty() else text, end=end, file=stream, flush=stream is sys.stderr)
    except BrokenPipeError:
        if stream is not sys.stderr:
            raise  # a program without a reader of its errors goes on


class EscapingFormatter(logging.Formatter):
    """The format of log records, tracebacks included, with their hidden characters escaped on a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return escape_hidden(text) if sys.stderr.isatty() else text


def escape_log_records() -> None:
    """Escape the log records of a program that has not configured logging. Python writes these to standard error."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(EscapingFormatter())


def _is_hidden_after(previous: str, character: str, keep: str) -> bool:
    """Return True if a character is hidden when it stands after `previous`, and is not in `keep`."""
    if character in _PRESENTATION_SELECTORS and unicodedata.category(previous) == "So":  # "So" is a symbol
        return is_hidden(previous)  # it changes how the symbol looks, unless the symbol has no ink (blank Braille)
    return is_hidden(character) and character not in keep
