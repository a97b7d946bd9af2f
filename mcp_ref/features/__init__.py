"""The specification's "Server Features" and "Client Features", one module a page, for clients and servers.

invoke.py              the call of the author's function
pagination.py          long lists in pages
registry.py            a server's tools, resources or prompts
caching.py             the time for which a client may reuse a result
task_augmentation.py   the fields of a request that asks for a task
discover.py            a server's offer, without a handshake
tools.py               functions for the model (controlled by the model)
resources.py           data for reading (controlled by the application)
prompts.py             templates of messages (controlled by the user)
completion.py          suggestions for arguments
logging.py             log messages for the client (deprecated since 2026-07-28)
roots.py               the directories that a server should work in (deprecated since 2026-07-28)
elicitation.py         requests to the client's user for information
sampling.py            requests to the client's model (deprecated since 2026-07-28)
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
        return importlib.import_module(f".{name}", __name__)
    except ModuleNotFoundError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
