"""What the pages share when they run a user's function: the request it belongs to, and where the function runs.

A page takes the params of a request and calls the function that a user registered for it. `async def` functions run on
the event loop; plain `def` functions run in a worker thread, so that one that blocks never freezes the server.

Above: `runtime/context.py` has the real `Context`, which user functions receive; pages need only what is here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import TYPE_CHECKING, Protocol, cast

from ..revisions import Revision

if TYPE_CHECKING:
    from ..typed import Signature


class Scope(Protocol):
    """The request being served, as far as a page needs to know it."""

    @property
    def revision(self) -> Revision:
        """The revision that the peer speaks."""

    async def in_worker(self, function: Callable[[], object]) -> object:
        """Run a blocking function in a worker thread and give its result."""


async def call(
    function: Callable[..., object], signature: Signature, arguments: dict[str, object], scope: Scope
) -> object:
    """Call a user's function with arguments by name, and with the context where it asks for one."""
    if signature.context_parameter is not None:
        arguments = {**arguments, signature.context_parameter: scope}
    if signature.is_async:
        return await cast(Awaitable[object], function(**arguments))
    value = await scope.in_worker(lambda: function(**arguments))
    return await value if isawaitable(value) else value  # a plain decorator around an async function
