"""Hidden characters: which ones are escaped, and which texts stay as they are."""

from __future__ import annotations

import re
import sys
import unicodedata

import pytest

from mcp_ref.lib.text import escape_hidden, hidden_characters, is_hidden

DEFAULT_IGNORABLE = """
00AD 034F 061C 115F..1160 17B4..17B5 180B..180D 180E 180F 200B..200F 202A..202E 2060..2064 2065 2066..206F 3164
FE00..FE0F FEFF FFA0 FFF0..FFF8 1BCA0..1BCA3 1D173..1D17A E0000 E0001 E0002..E001F E0020..E007F E0080..E00FF
E0100..E01EF E01F0..E0FFF
"""
"""The code points with Default_Ignorable_Code_Point in DerivedCoreProperties.txt of Unicode 16.0."""


def test_is_hidden_for_every_default_ignorable_code_point() -> None:
    for first, last in re.findall(r"([0-9A-F]+)(?:\.\.([0-9A-F]+))?", DEFAULT_IGNORABLE):
        for code in range(int(first, 16), int(last or first, 16) + 1):
            assert is_hidden(chr(code)), f"U+{code:04X}"


def test_is_hidden_for_no_letter_mark_number_or_punctuation_with_ink() -> None:
    without_ink = set("\u115f\u1160\u3164\uffa0\u034f\u17b4\u17b5\u180b\u180c\u180d\u180f\U00016fe4")
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        is_selector = "VARIATION SELECTOR" in unicodedata.name(character, "")
        if unicodedata.category(character)[0] in "LMNP" and character not in without_ink and not is_selector:
            assert not is_hidden(character), f"U+{code:04X}"


@pytest.mark.parametrize(
    "text", ["plain text\n\t\xe4\u20ac\U0001f600", "e\u0301", "\u26a0\ufe0f \u2764\ufe0e", "\u3000"]
)
def test_escape_hidden_keeps_visible_text(text: str) -> None:
    assert escape_hidden(text) == text and not hidden_characters(text)


@pytest.mark.parametrize(
    "character", "\x1b\x00\x9b\u200b\u202e\u2066\ufeff\u2028\U000e0041\ue000\ufe0f\U000e0100\u2800\ud800"
)
def test_escape_hidden_escapes_invisible_characters(character: str) -> None:
    assert escape_hidden(f"a{character}b") == f"a\\u{{{ord(character):x}}}b"
    assert hidden_characters(f"a{character}b") == {character}


def test_escape_hidden_escapes_a_second_variation_selector_behind_a_symbol() -> None:
    assert escape_hidden("\u26a0\ufe0f\ufe0f") == "\u26a0\ufe0f\\u{fe0f}"


def test_escape_hidden_of_one_line_escapes_line_breaks_and_tabs() -> None:
    assert escape_hidden("a\n\tb\r", keep="") == "a\\u{a}\\u{9}b\\u{d}"
    assert escape_hidden("a\n\tb\r") == "a\n\tb\\u{d}"
