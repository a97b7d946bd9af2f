"""Invocation: this module calls the functions that an author wrote for tools, resources, prompts and completers.

An `async def` function runs on the event loop. A plain `def` function runs in a worker thread. On the event loop, a
plain function that waits would stop the requests of all clients.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import TYPE_CHECKING, cast

from ..basic.channel import RequestContext
from ..basic.mrtr import HandlerNeedsInput, collect_input_requests

if TYPE_CHECKING:
    from ..lib.typed import Signature

log = logging.getLogger(__name__)


async def call(
    function: Callable[..., object], signature: Signature, arguments: dict[str, object], context: RequestContext
) -> object:
    """Call a function with arguments by name. Convert an exception group that it raises to one exception."""
    if signature.context_parameter is not None:
        arguments = {**arguments, signature.context_parameter: context}
    try:
        if signature.is_async:
            return await cast(Awaitable[object], function(**arguments))
        value = await context.run_in_worker(lambda: function(**arguments))
        return await value if isawaitable(value) else value  # a plain function can return a coroutine
    except BaseExceptionGroup as group:
        # prefer a failure to input requests: after the user has responded, the handler would fail again
        failed = group.split(HandlerNeedsInput)[1] or group
        raise collect_input_requests(group) or _first_exception(failed)  # noqa: B904  # the group is its `__context__`


def _first_exception(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if (others := group.split(type(error))[1]) is not None:  # more exceptions of the same type are not logged
        name = type(error).__name__
        log.warning("the handler raised several exceptions; the client is told only of %s", name, exc_info=others)
    return error


def check_options(options: Mapping[str, object], known: type) -> None:
    """Raise TypeError if an option is not a key of the TypedDict `known`."""
    if unknown := sorted(options.keys() - known.__annotations__.keys()):
        raise TypeError(f"unknown option {unknown[0]!r}; use one of {', '.join(known.__annotations__)}")
