"""`Server`, whose decorators register tools, resources and prompts, and whose other methods serve clients.

    server = Server("calculator")

    @server.tool()
    def add(a: int, b: int) -> int:
        "Add two numbers."
        return a + b

    server.run()

A plain `def` function runs in a thread, so it can block. An `async def` function runs on the event loop, so all clients
would wait if it blocked. One server can serve many clients at the same time, over all transports and in all revisions.

Spec:  server/index, basic/lifecycle (2024-11-05 to 2025-11-25)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeVar

from ..basic.lifecycle import Implementation
from ..features.registry import registering
from ..lib.fields import check_options
from ..revisions import REVISIONS, Revision, find_method
from ..transports.base import Transport
from ..transports.stdio.server import StdioServerTransport, claimed_stdio
from ..transports.system import chosen_trace
from .catalog import Catalog
from .context import Context
from .main import run_http_program, run_program
from .options import ServerOptions
from .session import begin

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from ssl import SSLContext
    from typing import Unpack

    from ..basic.content import Icon
    from ..extensions.tasks.receiver import Tasks
    from ..features.completion import Completions
    from ..features.prompts import PromptOptions, Prompts
    from ..features.registered_tools import ToolOptions, Tools
    from ..features.resources import ResourceOptions, Resources
    from ..lib.http.asgi import Application
    from ..lib.http.message import HttpLimits
    from .http_options import HttpOptions
    from .middleware import Middleware
    from .service import ServerStats

    M = TypeVar("M", bound=Middleware)

F = TypeVar("F", bound=Callable[..., object])


class Server:
    """An MCP server.

    `name` and `version` are for programs, `title`, `description`, `icons` and `website_url` for people.

    Args:
        revisions: The revisions that the server speaks, as `Revision` objects or names, in any order. Default: all.
        lifespan: A function that returns an async context manager, which the server enters before it serves and leaves
            at the end. The value that it yields is `context.state`. See lifespan.py. Default: none.
    """

    def __init__(
        self, name: str, version: str = "0.0.0", *, title: str | None = None, description: str | None = None,
        icons: list[Icon] | None = None, website_url: str | None = None,
        revisions: Sequence[Revision | str] | None = None,
        lifespan: Callable[[Server], AbstractAsyncContextManager[object]] | None = None,
        **options: Unpack[ServerOptions],
    ) -> None:  # fmt: skip
        check_options(options, ServerOptions)
        self.info = Implementation(name, version, title, description, icons, website_url)
        self.catalog = Catalog(self.info, REVISIONS if revisions is None else revisions, options)
        """The tools, resources, prompts, completions and tasks of this server."""
        self.limits, self.trace = options.get("limits"), options.get("trace")
        service = self.catalog.service
        if lifespan is not None:
            from .lifespan import Lifespan  # lazy: few servers need it

            service.lifespan = Lifespan(name, lifespan, self, service.fail)
        broadcast = options.get("broadcast")
        if broadcast is not None:
            from .broadcast import Broadcaster  # lazy: few servers have several processes

            service.broadcaster = Broadcaster(broadcast, self.catalog.announcers, self.catalog.used_features,
                                              service.reloads, service.run_in_worker)  # fmt: skip

    def __repr__(self) -> str:
        loaded = vars(self.catalog)  # because reading `self.tools` would load a feature that may be unused
        counts = [f"{name}: {len(loaded[name])}" for name in ("tools", "resources", "prompts") if name in loaded]
        members = f"sessions and HTTP applications: {len(self.catalog.service.members)}"
        return f"<Server {self.info.name!r}, {', '.join([*counts, members])}>"

    @property
    def revisions(self) -> list[Revision]:
        """The revisions that the server speaks, oldest first. Change them only before the first client connects."""
        return self.catalog.revisions

    @revisions.setter
    def revisions(self, revisions: list[Revision]) -> None:
        self.catalog.revisions = revisions

    @property
    def tools(self) -> Tools:
        """The tools. `@server.tool()` is the usual way to add one."""
        return self.catalog.tools

    @property
    def resources(self) -> Resources:
        """The resources and resource templates. `@server.resource(uri)` is the usual way to add one."""
        return self.catalog.resources

    @property
    def prompts(self) -> Prompts:
        """The prompts. `@server.prompt()` is the usual way to add one."""
        return self.catalog.prompts

    @property
    def completions(self) -> Completions:
        """The functions that suggest values for arguments. `@server.completion(target, argument)` adds one."""
        return self.catalog.completions

    @property
    def tasks(self) -> Tasks:
        """The tool calls whose results the client fetches later. `@server.tool(task=...)` lets a tool run as a task."""
        return self.catalog.tasks

    @property
    def state(self) -> object:
        """The value that the lifespan has yielded, for code outside of handlers; None unless the server is serving."""
        return self.catalog.service.state

    def tool(self, name: str | None = None, **options: Unpack[ToolOptions]) -> Callable[[F], F]:
        """Return a decorator that registers a tool, whose input schema and default `name` come from the function."""
        return registering("tool", name, lambda function: self.tools.add(function, name, **options))

    def resource(self, uri: str, **options: Unpack[ResourceOptions]) -> Callable[[F], F]:
        """Return a decorator for a function that returns the contents of a resource or resource template.

        `uri` can be a template such as `users://{id}/profile`. This `id` arrives in lower case, because it is the host
        of the URI. For a URI that does not exist, the function raises `ResourceNotFound()`.
        """
        return registering("resource", uri, lambda function: self.resources.add(uri, function, **options))

    def prompt(self, name: str | None = None, **options: Unpack[PromptOptions]) -> Callable[[F], F]:
        """Return a decorator that registers a prompt, whose `str` arguments and default `name` are the function's."""
        return registering("prompt", name, lambda function: self.prompts.add(function, name, **options))

    def completion(self, target: str, argument: str) -> Callable[[F], F]:
        """Return a decorator for a function that suggests values for an `argument` of a prompt or resource template.

        `target` is the prompt's name, or the template's URI, whose variables are its arguments. The function gets the
        text so far and, if it has a second parameter, a dict of the other arguments. It returns a list of str.
        """
        return registering("completion", target, partial(self.completions.add, target, argument))

    def middleware(self, function: M) -> M:
        """Run the coroutine function `function` around each request from now on. Return it, as a decorator must.

        It gets the request (`ServedRequest`), the context, and the function `proceed`, which returns the result. The
        function added first is the outermost (middleware.py). Raise RuntimeError if the server already serves clients.
        """
        from .middleware import add_middleware  # lazy: few servers need it

        add_middleware(self.catalog, function)
        return function

    def method(self, name: str, *, extension: str | None = None, notification: bool = False) -> Callable[[F], F]:
        """Return a decorator that registers a handler of a custom method, which the specification does not define.

        The function has at most one parameter for the params, such as a dataclass, and optionally a `Context`. It
        returns the result, such as a dataclass, or None.

        Args:
            name: The method, such as `com.example/search`.
            extension: The method's extension, which modern clients must declare. Default: the name's first two parts.
            notification: True for notifications, whose function is a plain `def` without a `Context` or a result.
        """
        from ..features.custom_methods import registrar  # lazy: few servers have custom methods

        return registrar(self.catalog.custom_methods, self.catalog.extensions, Context, name, extension, notification)

    def on_change(self, feature: Literal["tools", "resources", "prompts"]) -> Callable[[F], F]:
        """Return a decorator for a function without parameters that reloads the list of a `feature`.

        The function runs when another process has announced a change, before the clients of this process are notified.
        """
        self._changed_method(feature)  # raises ValueError for any other feature
        functions = self.catalog.service.reloads.setdefault(feature, [])
        return registering("on_change", feature, lambda function: functions.append(function))

    def list_changed(self, feature: Literal["tools", "resources", "prompts"]) -> None:
        """Notify the clients that a `feature`'s list has changed, as `add` and `remove` do. Safe on any thread."""
        self.catalog.announcers.announce(self._changed_method(feature))

    def _changed_method(self, feature: str) -> str:
        method = f"notifications/{feature}/list_changed"
        if not find_method(method, self.revisions[-1], "server"):
            raise ValueError(f"feature must be tools, resources or prompts, not {feature!r}")
        return method

    def resource_updated(self, uri: str) -> None:
        """Notify the clients that subscribed to the resource `uri` or to a parent of it. Safe on any thread."""
        from ..lib.uri import canonical_uri  # lazy: not every server has resources

        self.catalog.announcers.announce("notifications/resources/updated", canonical_uri(uri) or uri)

    async def serve(self, transport: Transport) -> None:
        """Serve one client until it closes the `transport`, and give its open requests 0.75 seconds to finish."""
        self.catalog.check()
        session = await begin(self.catalog, transport, self.limits, serves_stateless=True)
        await session.finish()

    async def serve_stdio(self) -> None:
        """Serve the client on standard input and output, until the input ends.

        Meanwhile `print` writes to standard error and `input()` reads nothing, so that tools cannot corrupt messages.
        """
        with claimed_stdio() as (source, sink):
            await self.serve(StdioServerTransport(source, sink, trace=chosen_trace(self.trace, "server")))

    def serve_http(
        self, host: str = "127.0.0.1", port: int = 0, *, ssl: SSLContext | None = None,
        http_limits: HttpLimits | None = None, **options: Unpack[HttpOptions],
    ) -> AbstractAsyncContextManager[str]:  # fmt: skip
        """Return a context manager that serves over HTTP: `async with server.serve_http(port=8000) as url: ...`

        Args:
            host: The address to listen on, by default loopback. "" means all addresses.
            port: The port. Default: 0 for any free port, which the URL contains.
            ssl: An `SSLContext` with a certificate, for HTTPS.
            http_limits: Limits on sizes, times and the number of connections.

        Raise OSError if the address is in use or does not belong to this machine.
        """
        from .listening import serve_http  # lazy: a server on stdio loads no HTTP

        return serve_http(self.catalog, self.limits, self.trace, host, port, ssl, http_limits, **options)

    def asgi(self, **options: Unpack[HttpOptions]) -> Application:
        """Return this server as an ASGI application, for an ASGI server such as uvicorn."""
        from .http import HttpApp, application  # lazy: a server on stdio loads no HTTP

        app = HttpApp(self.catalog, self.limits, self.trace, **options)
        app.reopens = True  # to serve again after the lifespan has failed
        return application(app.handle, app.close, start=app.start)

    def stats(self) -> ServerStats:
        """Return the numbers of sessions, streams and requests of this process. `health=True` serves them over HTTP."""
        return self.catalog.service.stats()

    async def drain(self, seconds: float = 10.0) -> None:
        """Prepare to stop: begin no more sessions, end the subscriptions, and wait at most `seconds` for open requests.

        `run_http` does so at SIGTERM. Under a framework that gets the signal itself, call this before `close()`.
        """
        await self.catalog.service.drain(seconds)

    async def close(self) -> None:
        """End all sessions, requests and tasks, leave the lifespan, and end the worker threads.

        Servers do it at their end. Call it only for a framework that mounts `asgi()` and forwards no lifespan events.
        """
        await self.catalog.service.close()

    def run(self) -> None:
        """Run a program that serves on standard input and output, until the input ends or SIGINT or SIGTERM arrives.

        Raise RuntimeError if an event loop is already running, and SystemExit if the lifespan failed.
        """
        if sys.stdin is not None and sys.stdin.isatty():
            wait = "waiting for the messages of a client on standard input; press Ctrl-D or Ctrl-C to stop"
            print(f"{self.info.name}: {wait}", file=sys.stderr, flush=True)
        run_program(self.serve_stdio, self.catalog.service, "`await server.serve_stdio()`")

    def run_http(
        self, host: str = "127.0.0.1", port: int = 8000, *, ssl: SSLContext | None = None,
        http_limits: HttpLimits | None = None, drain_seconds: float = 10.0, **options: Unpack[HttpOptions],
    ) -> None:  # fmt: skip
        """Run a program that serves over HTTP until SIGINT or SIGTERM arrives. Print the URL on standard error.

        After SIGTERM, requests in flight have `drain_seconds` to finish (main.py). `host`, `port`, `ssl`, `http_limits`
        and the options are as in `serve_http`. Raise SystemExit without a free address, and other errors as `run` does.
        """
        listening = self.serve_http(host, port, ssl=ssl, http_limits=http_limits, **options)
        run_http_program(listening, self.catalog.service, self.info.name, f"{host}:{port}", drain_seconds)
