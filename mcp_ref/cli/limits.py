"""`limits` prints the limits of the package, and the memory that a peer can fill within them.

It reads them from the package's code, so that the list is never out of date. A limit is a constant of a module that is
a positive number, or a field of a class such as `HttpLimits`. Its docstring, in the line below it, has its meaning and
unit. The folders `cli` and `demo` are skipped.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from types import SimpleNamespace
from typing import is_typeddict

from .. import READING_ORDER
from . import show

CONNECTION_COST = 8 * 1024
"""Memory of a connection without its data, in bytes."""


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit: its module, its name, its value, and its docstring."""

    module: str
    name: str
    value: float
    meaning: str


def show_limits(json: bool) -> None:
    """Print all limits, one table for each module."""
    if json:
        return show.print_json([asdict(limit) for limit in limits()])
    for module in dict.fromkeys(limit.module for limit in limits()):
        rows = [(limit.name, f"{limit.value:,}", limit.meaning) for limit in limits() if limit.module == module]
        show.table(module, rows)
    figures = memory()
    show.table(
        "Memory that one caller can fill in a server, in bytes",
        [(f.contents, f"{f.one_peer:,}", f"all callers: {f.all_peers:,}") for f in figures if f.all_peers],
    )
    show.table(
        "Memory that one server can fill in a client or host, in bytes",
        [(f.contents, f"{f.one_peer:,}", "") for f in figures if not f.all_peers],
    )


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory that peers can fill with one kind of contents, in bytes."""

    contents: str
    one_peer: int
    all_peers: int = 0
    """The memory that all callers of a server can fill together; 0 for a client, which has only one server."""


def memory() -> list[Memory]:
    """Return the memory that peers can fill, computed from the limits."""
    values = {limit.name: int(limit.value) for limit in limits()}
    character_bytes = 4  # in a string that has characters above U+FFFF
    uri_bytes = character_bytes * values["MAX_URI_LENGTH"]
    proof_bytes = 300  # a text of 43 characters, a time, and the place in a dict
    connections = values["HttpLimits.connections"]
    # Each connection can hold a little memory that does not count for the limit of all connections together.
    unfinished_bytes = connections * (values["MIN_COUNTED_SIZE"] + CONNECTION_COST) + values["HttpLimits.bodies_size"]
    unread_bytes = connections * values["MAX_UNCOUNTED"] + values["HttpLimits.unread_size"]
    in_flight_bytes, event_bytes = values["Limits.max_bytes_in_flight"], values["StoreLimits.max_bytes"]
    return [
        Memory("subscriptions: URIs", values["MAX_SUBSCRIBED_BYTES_PER_CALLER"], values["MAX_SUBSCRIBED_BYTES"]),
        Memory("tasks", values["MAX_TASK_BYTES_PER_CALLER"], values["MAX_TASK_BYTES"]),
        Memory("arguments of running tasks", values["MAX_ARGUMENT_BYTES_PER_CALLER"], values["MAX_ARGUMENT_BYTES"]),
        Memory("params of a bridge's held calls", values["MAX_HELD_BYTES_PER_PRINCIPAL"], values["MAX_HELD_BYTES"]),
        Memory("requests in flight over HTTP", values["EndpointLimits.request_bytes_per_caller"],
               values["EndpointLimits.request_bytes"]),
        Memory("requests in flight over stdio", in_flight_bytes, in_flight_bytes),
        Memory("HTTP sessions without events", values["EndpointLimits.session_bytes_per_caller"],
               values["EndpointLimits.session_bytes"]),
        Memory("events for clients that resume or listen", event_bytes, event_bytes),
        Memory("changes for unread streams", values["MAX_QUEUED_BYTES_PER_CALLER"], values["MAX_QUEUED_BYTES"]),
        Memory("DPoP proofs", proof_bytes * values["MAX_PROOFS_PER_CALLER"], proof_bytes * values["MAX_PROOFS"]),
        Memory("connections with heads, bodies and pipelined requests", unfinished_bytes, unfinished_bytes),
        Memory("unread responses", unread_bytes, unread_bytes),
        Memory("requests of the server in flight", in_flight_bytes),
        Memory("one response, as text", values["MAX_RESPONSE"]),
        Memory("pages of one list, as text", values["MAX_LIST_SIZE"]),
        Memory("cached results, as text", values["MAX_CACHED_BYTES"]),
        Memory("unread updates of one subscription", uri_bytes * values["MAX_UPDATES"]),
        Memory("ids of open elicitations", character_bytes * values["MAX_ID_LENGTH"] * values["MAX_ELICITATIONS"]),
        Memory("definitions of tools in a host, as text", values["MAX_TOOLS_BYTES"]),
    ]  # fmt: skip


@cache
def limits() -> tuple[Limit, ...]:
    """Return the limits of the package, in reading order."""
    return tuple(_limits())


def _limits() -> Iterator[Limit]:
    package = __package__.rpartition(".")[0]
    for path in READING_ORDER:
        if path.startswith(("cli/", "demo/", "version.py")) or path.endswith(("__init__.py", "__main__.py")):
            continue
        name = f"{package}.{path.removesuffix('.py').replace('/', '.')}"
        module = importlib.import_module(name)
        tree = ast.parse(inspect.getsource(module))  # `getsource` also works in a zip file
        for constant, meaning in _documented_names(tree.body):
            value = getattr(module, constant)
            if constant.isupper() and type(value) in (int, float) and value > 0:  # not a bool, which is an int too
                yield Limit(path, constant, value, meaning)
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.name.endswith("Limits"):
                cls = getattr(module, node.name)
                # `STORE_LIMITS` has the defaults of the only TypedDict, `StoreLimits`
                defaults = SimpleNamespace(**module.STORE_LIMITS) if is_typeddict(cls) else cls()
                for field, meaning in _documented_names(node.body):
                    yield Limit(path, f"{node.name}.{field}", getattr(defaults, field), meaning)


def _documented_names(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Yield (name, docstring) for each assigned name with a docstring below it. In `A, B = 1, 2`, both share it."""
    for statement, following in itertools.pairwise(body):
        match following:
            case ast.Expr(value=ast.Constant(value=str() as docstring)):
                for name in _assigned_names(statement):
                    yield name, " ".join(docstring.split())


def _assigned_names(statement: ast.stmt) -> list[str]:
    """Return the names that a statement such as `A = 1`, `A, B = 1, 2` or `A: int = 1` assigns, else none."""
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=targets)]):
            return [target.id for target in targets if isinstance(target, ast.Name)]
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case _:
            return []
