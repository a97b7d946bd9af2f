"""Hidden characters: which ones are escaped, and which texts stay as they are."""

from __future__ import annotations

import ast
import io
import logging
import re
import sys
import unicodedata

import pytest

from mcp_ref.lib.text import EscapingFormatter, escape_hidden, fold, hidden_characters, is_hidden, show_text
from tests.fuzz.texts import IGNORABLE
from tests.sources import PACKAGE, modules, nodes_of


def test_is_hidden_for_every_default_ignorable_code_point() -> None:
    assert len(IGNORABLE) == 4174
    for character in IGNORABLE:
        assert is_hidden(character), f"U+{ord(character):04X}"


def test_is_hidden_for_no_letter_mark_number_or_punctuation_with_ink() -> None:
    without_ink = set("\u115f\u1160\u3164\uffa0\u034f\u17b4\u17b5\u180b\u180c\u180d\u180f\U00016fe4")
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        is_selector = "VARIATION SELECTOR" in unicodedata.name(character, "")
        if unicodedata.category(character)[0] in "LMNP" and character not in without_ink and not is_selector:
            assert not is_hidden(character), f"U+{code:04X}"


@pytest.mark.parametrize(
    "text",
    [
        *("plain text\n\t\xe4\u20ac\U0001f600", "e\u0301", "\u26a0\ufe0f \u2764\ufe0e", "\u26a0\ufe0f"),
        *("\u2764\ufe0e", "\u3000"),
    ],
)
def test_escape_hidden_keeps_visible_text(text: str) -> None:
    assert escape_hidden(text) == text and not hidden_characters(text)


@pytest.mark.parametrize(
    "character", "\x1b\x00\x9b\u200b\u202e\u2066\ufeff\u2028\U000e0041\ue000\ufe0f\U000e0100\u2800\ud800\U00013439"
)
def test_escape_hidden_escapes_invisible_characters(character: str) -> None:
    assert escape_hidden(f"a{character}b") == f"a\\u{{{ord(character):x}}}b"
    assert hidden_characters(f"a{character}b") == {character}


def test_escape_hidden_escapes_a_variation_selector_that_is_second_or_behind_a_blank() -> None:
    assert escape_hidden("\u26a0\ufe0f\ufe0f") == "\u26a0\ufe0f\\u{fe0f}"
    assert escape_hidden("\u2800\ufe0f") == "\\u{2800}\\u{fe0f}"


def test_escape_hidden_of_one_line_escapes_line_breaks_and_tabs() -> None:
    assert escape_hidden("a\n\tb\r", keep="") == "a\\u{a}\\u{9}b\\u{d}"
    assert escape_hidden("a\n\tb\r") == "a\n\tb\\u{d}"


@pytest.mark.attack("forged-approval")
@pytest.mark.parametrize("filler", [" ", "\u4dc0", "\u754c", "a\u0301", "\n"])
def test_fold_has_no_row_that_a_text_could_forge(filler: str) -> None:
    """Fill a row with characters whose width the terminal decides. They can take one or two columns."""
    for count in range(60):
        rows = fold("label: " + filler * count + "file: x", 40).split("\n")
        assert all(row.startswith("    | ") for row in rows[1:]) and rows[0].startswith("label: ")
        assert all(sum(1 if each.isascii() else 2 for each in row) <= 40 for row in rows)
    assert fold("label: " + "a" * 99, None) == "label: " + "a" * 99
    assert fold("a" * 40, 40) == "a" * 40 and fold("é" * 20, 40) == "é" * 20


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


HOSTILE = "".join(map(chr, [*range(0x20), 0x7F, *range(0x80, 0xA0), 0x202E, 0xFE0F, 0x2800, 0xE0041, 0x115F]))


@pytest.mark.attack("terminal-escapes")
def test_show_text_escapes_hidden_characters_for_a_terminal_only() -> None:
    terminal, file = Terminal(), io.StringIO()
    show_text(f"a{HOSTILE}b", terminal)
    show_text(f"a{HOSTILE}b", file, end="")
    assert not hidden_characters(terminal.getvalue()) and file.getvalue() == f"a{HOSTILE}b"


@pytest.mark.attack("terminal-escapes")
def test_escaping_formatter_escapes_the_message_and_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "x", 1, "said %s", (HOSTILE,), sys.exc_info())
    text = EscapingFormatter().format(record)
    assert "Traceback" in text and not hidden_characters(text)


WRITERS = {
    "lib/text.py": "show_text itself",
    "server/main.py": "the name and the URL come from the author",
    "server/server.py": "the name and the URL come from the author",
    "cli/show.py": "the contents of a resource for a file or pipe",
    "cli/drive.py": "Python source, in which `repr` escapes hidden characters",
    "cli/installation.py": "the question is a text of this program",
    "recorder/replay.py": "messages for a client, as JSON",
    "transports/trace.py": "`Tracer` escapes every line, also for files",
    "demo/screen.py": "`Screen` escapes every line, and adds its own colors",
}
"""The modules that write to standard output or standard error without `show_text`, and the reason."""


def test_show_text_is_the_only_way_to_the_terminal() -> None:
    found = set()
    for path in modules():
        for node in nodes_of(path):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
                name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
                if not re.match("print|input|write", name):
                    continue
                called = ast.unparse(node.func)
                stream = r"(sys\.stdout|sys\.stderr|stream|self\._?out)(\.buffer)?"
                is_write = re.fullmatch(rf"print|input|traceback\.print_\w+|{stream}\.write", called)
                if is_write and "transports/stdio" not in str(path):
                    found.add(path.relative_to(PACKAGE).as_posix())
    assert found - {"__main__.py"} == set(WRITERS)
