"""Texts that are printed: no hidden character of them reaches a terminal."""

from __future__ import annotations

import random

import pytest

from tests.fuzz.texts import PLACES, Place, check_texts


@pytest.mark.attack("terminal-escapes")
@pytest.mark.parametrize("place", dict.fromkeys(PLACES))
def test_texts_from_others_reach_a_terminal_only_with_their_hidden_characters_escaped(place: Place) -> None:
    for seed in range(12):
        check_texts(random.Random(f"texts:{seed}"), place)
