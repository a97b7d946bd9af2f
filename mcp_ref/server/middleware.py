"""Middleware: the author's functions around each request that the server serves, for logs, limits and policies.

    @server.middleware
    async def refuse_at_night(request: ServedRequest, context: Context, proceed: Proceed) -> object:
        if request.method == "tools/call" and datetime.now().hour < 6:
            raise ProtocolError(INVALID_REQUEST, "the tools rest until six o'clock")
        return await proceed(request)

    message -> checks, decoding -> first middleware -> ... -> last middleware -> handler
    message <- encoding         <- first middleware <- ... <- last middleware <- handler

Middleware sees every request that reaches a handler, in all revisions, including `initialize`, `ping`,
`server/discover` and `subscriptions/listen`. It does not see notifications, or requests that are refused earlier for an
unknown method, malformed params or a missing scope. During `initialize` it cannot request input, because the client is
waiting for the response.

If a tool fails, `proceed` raises nothing, but returns a result with `is_error`. For `subscriptions/listen`, it returns
when the subscription ends; for a tool call that becomes a task, when the task has begun. In 2026-07-28, a handler that
needs input ends with the exception `HandlerNeedsInput`, which `except Exception` does not catch. The client then
repeats the request with the input, and the middleware sees that request too.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, is_dataclass
from functools import partial
from typing import Any, TypeAlias

from ..basic.channel import RequestContext
from ..jsonrpc.errors import ProtocolError
from ..jsonrpc.messages import INTERNAL_ERROR
from ..session import Handler
from .catalog import Catalog
from .context import Context


@dataclass(frozen=True, slots=True)
class ServedRequest:
    """A request, as middleware sees it. `dataclasses.replace` makes a copy with other params."""

    method: str
    """The method, such as "tools/call"."""
    params: Any  # the type depends on the method
    """The params: a dataclass such as `CallToolRequestParams`, of the same type in all revisions."""


Proceed: TypeAlias = Callable[[ServedRequest], Awaitable[object]]
"""A function that passes a request on, to the next middleware or the handler, and returns the result, a dataclass."""

Middleware: TypeAlias = Callable[[ServedRequest, "Context[Any]", Proceed], Awaitable[object]]  # Any: its `state`
"""A coroutine function that returns the result of a request, or raises ProtocolError to refuse it."""


def add_middleware(catalog: Catalog, function: Middleware) -> None:
    """Run a function around all handlers of the catalog, inside the middleware that was added before.

    Raises:
        TypeError: The function is a plain `def`, a class (pass an object of it), or not callable.
        RuntimeError: The server serves clients already, whose requests would bypass the middleware.
    """
    is_plain = inspect.isroutine(function) and not inspect.iscoroutinefunction(function)
    if is_plain or isinstance(function, type) or not callable(function):
        wanted = f"`async def {getattr(function, '__name__', 'name')}(request, context, proceed)`"
        raise TypeError(f"middleware must be async: write {wanted}, not {function!r:.100}")
    if catalog.service.members:  # sessions and HTTP applications
        raise RuntimeError("the server serves clients already: add middleware before it serves")
    catalog.middleware.insert(0, partial(_wrap, function))  # the list begins with the innermost
    catalog.routes.clear()  # because their handlers lack the new middleware


def _wrap(middleware: Middleware, method: str, handler: Handler) -> Handler:
    """Return a handler that calls the middleware, whose `proceed` calls the given handler."""

    async def serve(params: object, context: RequestContext) -> object:
        async def proceed(request: ServedRequest) -> object:
            if request.method != method:
                raise ValueError(f"middleware can change the params of {method}, but not the method")
            return await handler(request.params, context)

        assert isinstance(context, Context)
        try:
            result = await middleware(ServedRequest(method, params), context, proceed)
        except TimeoutError as error:  # for example from `async with asyncio.timeout(5): return await proceed(request)`
            raise ProtocolError(INTERNAL_ERROR, f"{method} timed out on the server") from error
        if not is_dataclass(result):
            name, kind = getattr(middleware, "__name__", repr(middleware)), type(result).__name__
            raise TypeError(f"the middleware {name} returned {kind}: it must return the result of `proceed`")
        return result

    return serve
