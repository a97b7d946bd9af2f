"""`run FILE[:NAME]` finds the `Server` object in a Python file or module, and serves it over stdio or HTTP.

The command imports the file, so its block `if __name__ == "__main__":` does not run. Text that it prints goes to
standard error, because standard output must contain only messages of the protocol.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from ..revisions import revision_named
from ..server.server import Server
from ..transports.stdio.server import claimed_stdio
from ..transports.trace import tracer
from . import UsageError, did_you_mean, usage_errors
from .show import note

if TYPE_CHECKING:
    from ..basic.authorization.server import Protection
    from ..transports.streamable_http.sqlite_store import SqliteEventStore


def serve(options: argparse.Namespace) -> int:
    """Serve over stdio until the client disconnects, or over HTTP until a signal. Return the exit code."""
    path, name = split_target(options.target)
    check_http_options(options)
    try:
        with claimed_stdio():
            module = load(path)
    except UsageError:
        raise
    except Exception as error:
        show_failure(path, error)
        return 1
    server = find_server(module, path, name)
    if options.revision is not None:
        with usage_errors():
            server.revisions = [revision_named(options.revision)]
    if options.trace:
        server.trace = tracer()
    if options.http:
        return serve_http(server, options)
    server.run()
    return 0


_HTTP_OPTIONS = ("host", "port", "path", "json_responses", "allow_host", "allow_origin", "trust_proxy", "health",
                 "drain", "store", "issuer", "resource", "require_scope", "jwks")  # fmt: skip


def check_http_options(options: argparse.Namespace) -> None:
    """Raise UsageError for an option that needs `--http`, and for a path that is a URL."""
    values = {option: getattr(options, option) for option in _HTTP_OPTIONS}
    # not `if value`, because the 0 of `--port 0` is given, too
    given = [option for option, value in values.items() if value is not None and value is not False]
    if given and not options.http:
        raise UsageError(f"--{given[0].replace('_', '-')} needs --http")
    if "://" in (options.path or ""):
        raise UsageError(f"--path {options.path}: write a path, such as /mcp")


def serve_http(server: Server, options: argparse.Namespace) -> int:
    """Serve over HTTP until Ctrl-C or SIGTERM. Return the exit code."""
    from ..server.http_options import HttpOptions  # lazy: a stdio server loads no HTTP

    http_options = HttpOptions(json_responses=options.json_responses)
    if options.path:
        http_options["path"] = options.path if options.path.startswith("/") else f"/{options.path}"
    if options.allow_host:
        http_options["allowed_hosts"] = options.allow_host
    if options.allow_origin:
        http_options["allowed_origins"] = options.allow_origin
    if options.trust_proxy:
        http_options["trusted_proxies"] = options.trust_proxy
    if options.health:
        http_options["health"] = True
    if options.store:
        http_options["store"] = open_store(options.store)
    if options.issuer or options.resource or options.require_scope or options.jwks:
        http_options["authorization"] = protection(options)
    host = options.host or "127.0.0.1"
    port = 8000 if options.port is None else options.port
    drain_seconds = 10.0 if options.drain is None else options.drain
    with usage_errors():
        server.run_http(host, port, drain_seconds=drain_seconds, **http_options)
    return 0


def protection(options: argparse.Namespace) -> Protection:
    """Return the check of access tokens that the options describe. Raise UsageError if it is incomplete or invalid."""
    from .. import JwtVerifier, Protection  # lazy: an unprotected server loads no authorization

    if not options.issuer or not options.resource:
        raise UsageError("a protected server needs both --issuer and --resource")
    scopes = " ".join(options.require_scope or ()).split()  # an option can have several scopes with spaces between them
    with usage_errors():
        return Protection(options.resource, options.issuer, JwtVerifier(jwks=options.jwks), scopes)


def open_store(path: str) -> SqliteEventStore:
    """Return the event store of an SQLite file. Raise UsageError if the file cannot be used."""
    import sqlite3  # lazy: only --store needs it

    from ..transports.streamable_http.sqlite_store import SqliteEventStore  # lazy: a stdio server loads no HTTP

    try:
        return SqliteEventStore(path)
    except (OSError, sqlite3.Error) as error:
        raise UsageError(f"--store {path}: {getattr(error, 'strerror', None) or error}") from None


def split_target(target: str) -> tuple[str, str | None]:
    """Split `server.py:app` into the file or module and the name of the object, or None without a colon."""
    path, colon, name = target.rpartition(":")
    if colon and name.isidentifier() and not os.path.exists(target):  # a file's own name may contain a colon
        return path, name
    return target, None


def load(path: str) -> ModuleType:
    """Import a file, or a module by its dotted name. Raise UsageError if the file or module does not exist."""
    is_dotted_name = all(part.isidentifier() for part in path.split(".")) and not path.endswith(".py")
    if is_dotted_name and not os.path.exists(path):
        return load_module(path)
    return load_file(path)


def load_module(dotted_name: str) -> ModuleType:
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(dotted_name)
    except ModuleNotFoundError as error:
        if error.name is None or not dotted_name.startswith(error.name):
            raise  # the module exists, but it imports a missing one
        raise UsageError(f"no file and no module named {dotted_name!r}") from None


def load_file(path: str) -> ModuleType:
    file = Path(path).resolve()
    if file.is_dir():
        raise UsageError(f"{path!r} is a folder; name a Python file in it")
    if not file.is_file():
        neighbors = sorted(each.name for each in file.parent.glob("*.py")) if file.parent.is_dir() else []
        raise UsageError(f"no file named {path!r}{did_you_mean(file.name, neighbors)}")
    sys.path[:0] = [str(file.parent), os.getcwd()]  # for its imports; both are as trusted as the file itself
    name = f"mcp_run_{file.stem}"  # not `file.stem`: that name could replace a loaded module, such as argparse
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path!r} is not a Python file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def find_server(module: ModuleType, path: str, name: str | None) -> Server:
    """Return the server called `name`, or the only server of the module. Raise UsageError if it does not exist."""
    servers = {key: value for key, value in vars(module).items() if isinstance(value, Server)}
    if name is not None:
        if name not in servers:
            raise UsageError(f"{path} has no Server called {name!r}{did_you_mean(name, servers)}")
        return servers[name]
    if not servers:
        refuse_server_of_another_copy(module, path)
        raise UsageError(f"{path} has no Server at its top level; write `server = Server(...)` outside any function")
    first, *others = servers.values()
    if any(other is not first for other in others):  # one server with two names is clear
        raise UsageError(f"{path} has several servers; choose one: {', '.join(f'{path}:{key}' for key in servers)}")
    return first


def refuse_server_of_another_copy(module: ModuleType, path: str) -> None:
    """Raise UsageError if the module has a `Server` of a vendored copy of this package, whose class is not ours."""
    this_package = __package__.rpartition(".")[0]
    for key, value in vars(module).items():
        cls = type(value)
        if cls.__name__ == "Server" and cls.__module__.endswith(".server.server"):
            package = cls.__module__.removesuffix(".server.server")
            raise UsageError(f"{path}: {key!r} is a Server of another copy of this package; "
                             f"run it with that copy: python3 -m {package} (this copy is {this_package})")  # fmt: skip


def show_failure(path: str, error: Exception) -> None:
    """Print the traceback of a failed import, from the first frame that is not of importlib or this module."""
    first = error.__traceback__
    while first is not None and first.tb_next is not None:
        file = first.tb_frame.f_code.co_filename
        if not file.startswith("<frozen importlib") and file not in (__file__, importlib.__file__):
            break
        first = first.tb_next
    note("".join(traceback.format_exception(type(error), error, first)).rstrip())
    note(f"{path} could not be imported")
