"""Invocation of the author's functions behind tools, resources, prompts and completers.

An `async def` function runs on the event loop. A plain `def` function runs in a worker thread, because on the event
loop it would stop the requests of all clients while it waits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from inspect import isawaitable

from ..basic.channel import RequestContext
from ..basic.mrtr import HandlerNeedsInput, collect_input_requests
from ..codec import codec_for
from ..jsonrpc.messages import Response, encode
from ..lib.typed import Signature, signature_of
from ..revisions import REVISIONS

log = logging.getLogger(__name__)


async def call(
    function: Callable[..., object], signature: Signature, arguments: dict[str, object], context: RequestContext
) -> object:
    """Call a function with arguments by name. If it raises an exception group, raise one exception instead."""
    if signature.context_parameter is not None:
        arguments = {**arguments, signature.context_parameter: context}
    try:
        if signature.is_async:
            return await function(**arguments)  # type: ignore[misc]
        value = await context.run_in_worker(lambda: function(**arguments))
        return await value if isawaitable(value) else value  # a plain function may return a coroutine
    except BaseExceptionGroup as group:
        input_requests = collect_input_requests(group)  # None if the group has other exceptions too
        if input_requests is not None:
            raise input_requests  # noqa: B904  # no `from`, because Python stores the group as `__context__` anyway
        # Raise the failure, and drop any input requests, because the function would fail whatever the user replies.
        _, failures = group.split(HandlerNeedsInput)
        raise _first_exception(failures or group)  # noqa: B904  # there are failures; `or group` satisfies mypy


def _first_exception(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first exception of a group, and log the others unless they are of the same type."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    _, others = group.split(type(error))
    if others is not None:
        name = type(error).__name__
        log.warning("the handler raised several exceptions; the client is told only of %s", name, exc_info=others)
    return error


def check_description(description: object, options: Mapping[str, object]) -> None:
    """Raise TypeError or ValueError if JSON cannot hold an option, because each list request would then fail."""
    if options:  # without options, the description has only texts and a generated schema
        encode(Response(0, codec_for(REVISIONS[-1]).encode(description)))


def handler_signature(
    function: Callable[..., object], context_type: type | None, schemaless_types: tuple[type, ...] | None = None
) -> Signature:
    """Return the result of `signature_of`, which describes the parameters. Raise TypeError for a wrong default, too."""
    signature = signature_of(function, context_type=context_type, schemaless_types=schemaless_types)
    signature.check_defaults()
    return signature
