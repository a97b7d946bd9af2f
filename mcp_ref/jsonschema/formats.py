"""formats"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
FORMATS: dict[str, Callable[[str], bool]] = {}
