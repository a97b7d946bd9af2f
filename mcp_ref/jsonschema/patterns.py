"""Patterns. (First version: Python's own.)"""

from __future__ import annotations

import re


class PatternError(ValueError):
    """No regular expression."""


class Pattern:
    def __init__(self, source: str) -> None:
        try:
            self._re = re.compile(source)
        except re.error as error:
            raise PatternError(str(error)) from None

    def search(self, text: str) -> bool:
        return self._re.search(text) is not None

    def steps(self, length: int) -> int:
        return length // 16
