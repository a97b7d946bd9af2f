"""MUSTs of the base protocol that no test holds, and why."""

from __future__ import annotations

UNTESTED: dict[str, str] = {}
