"""What the pages share when they run a user's function: the request it belongs to, and where the function runs.

A page takes the params of a request and calls the function that a user registered for it. `async def` functions run on
the event loop; plain `def` functions run in a worker thread, so that one that blocks never freezes the server.

Above: `runtime/context.py` has the real `Context`, which user functions receive; pages need only what is here.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import TYPE_CHECKING, cast

from ..basic.channel import RequestContext
from ..basic.mrtr import InputRequired, merge_input_required

if TYPE_CHECKING:
    from ..lib.typed import Signature

log = logging.getLogger(__name__)


async def call(
    function: Callable[..., object], signature: Signature, arguments: dict[str, object], context: RequestContext
) -> object:
    """Call a user's function with arguments by name, and with the context where it asks for one.

    Raises what the function raises. Of a group of exceptions that is the first, with which a `TaskGroup` ended.
    """
    if signature.context_parameter is not None:
        arguments = {**arguments, signature.context_parameter: context}
    try:
        if signature.is_async:
            return await cast(Awaitable[object], function(**arguments))
        value = await context.in_worker(lambda: function(**arguments))
        return await value if isawaitable(value) else value  # a plain decorator around an async function
    except BaseExceptionGroup as group:
        failed = group.split(InputRequired)[1] or group  # what failed beside a question is not to be asked about
        raise merge_input_required(group) or _first_of(failed)  # noqa: B904  # a cause of its own stays, and the group is its context anyway


def _first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    others = group.split(type(error))[1]  # those of its own kind say nothing new
    if others is not None:
        log.warning("more was raised than %s, which the caller learns of", type(error).__name__, exc_info=others)
    return error


def check_options(options: Mapping[str, object], known: type) -> None:
    """Hold keyword arguments to a TypedDict, as a type checker would. Raises TypeError for one that it has not."""
    unknown = sorted(options.keys() - known.__annotations__.keys())
    if unknown:
        raise TypeError(f"there is no option {unknown[0]!r}; there are {', '.join(known.__annotations__)}")
