"""The modules of this folder as attributes of one module. Each is imported when it is first used.

So a server that has only tools never loads the module for prompts, and starts faster.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import completion as completion
    from . import custom_methods as custom_methods
    from . import discover as discover
    from . import elicitation as elicitation
    from . import logging as logging
    from . import prompts as prompts
    from . import registered_tools as registered_tools
    from . import resources as resources
    from . import roots as roots
    from . import sampling as sampling
    from . import tools as tools
    from . import typed_json as typed_json


def __getattr__(name: str) -> ModuleType:
    """Import a module of this folder.

    Raises:
        AttributeError: The module does not exist.
    """
    try:
        module = globals()[name] = importlib.import_module(f".{name}", __package__)
        return module
    except ModuleNotFoundError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
