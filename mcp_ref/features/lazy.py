"""The pages of features as attributes, for modules that use a page only at times.

A page is imported when it is first used. So a server that has only tools never loads the page about prompts.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import completion as completion
    from . import elicitation as elicitation
    from . import prompts as prompts
    from . import resources as resources
    from . import roots as roots
    from . import sampling as sampling
    from . import tools as tools


def __getattr__(name: str) -> ModuleType:
    """Import a module when it is first used: a server with tools alone never loads the other modules.

    Raises:
        AttributeError: The page does not exist.
    """
    try:
        return importlib.import_module(f".{name}", __package__)
    except ModuleNotFoundError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
