"""The options of `Server`, apart from its name, its revisions and its lifespan.

Spec:  basic/lifecycle (2024-11-05 to 2025-11-25), 2026-07-28 server/discover, server/utilities/caching
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Protocol, TypedDict

from ..features.caching import CacheScope
from ..jsonrpc.dispatcher import Limits
from ..transports.base import Trace

if TYPE_CHECKING:
    from ..extensions.tasks.async_store import AsyncTaskStore
    from ..extensions.tasks.store import TaskStore
    from .broadcast import Broadcast
else:  # only the methods that `check_options` looks for, so that it need not load the modules

    class TaskStore(Protocol):
        put = get = page = remove = None

    class Broadcast(Protocol):
        publish = listen = None

    AsyncTaskStore = TaskStore


class ServerOptions(TypedDict, total=False):
    """The options of a server. The default of each option is in brackets."""

    instructions: str | None
    """A text that explains to the client's model how to use the server. [none]"""
    logging: bool
    """True if the server sends log messages. [True]"""
    page_size: int
    """Number of items in one page of a list. [1000]"""
    executor: Executor | None
    """The executor for plain `def` functions. In a program such as Blender, whose functions must run on the main
    thread, give an executor that uses the main thread. [96 threads, of which one client uses at most 32]"""
    limits: Limits | None
    """The limits of each session. [`Limits()`]"""
    trace: Trace | None
    """Called with every sent and received message, for debugging. [none]"""
    state_key: bytes | None
    """The secret key that signs `requestState`, the state of a tool call that waits for the user: at least 16 random
    bytes. Processes that serve the same clients need the same key. [a new key]"""
    extensions: Mapping[str, object] | None
    """The extensions that your handlers implement: a mapping from name to settings. Only for 2026-07-28. [none]"""
    cache_ttl: float | Mapping[str, float]
    """Time for which a client can reuse the results of `server/discover` and the list methods, in seconds. One number
    for all methods, or a mapping such as `{"tools/list": 300.0}`. Only for 2026-07-28. [0.0]"""
    cache_scope: CacheScope | Mapping[str, CacheScope]
    """"public" if all users can get a cached result, "private" if only the requesting user can. ["public"]"""
    task_store: TaskStore | AsyncTaskStore | None
    """The store of the tasks. An `AsyncTaskStore` keeps them in a database that several processes share. [in memory]"""
    node: str | None
    """The name of this process, with which the ids of its sessions and tasks begin: 1 to 32 letters of ASCII, digits
    and hyphens. A load balancer can then send each request about a session or a task to its process. [none]"""
    broadcast: Broadcast | None
    """The channel through which the processes of a server tell each other about changes (broadcast.py). [none]"""


def checked_task_store(store: TaskStore | AsyncTaskStore | None) -> TaskStore | AsyncTaskStore | None:
    """Return the store of tasks. Raise TypeError for an `async def`, unless the store is an `AsyncTaskStore`."""
    if "AsyncTaskStore" in [base.__name__ for base in type(store).__mro__]:  # by name: to import the class costs time
        return store
    for name in ("put", "get", "page", "remove"):
        if iscoroutinefunction(getattr(type(store), name, None)):
            advice = "write a plain `def`, or derive the class from AsyncTaskStore"
            raise TypeError(f"{type(store).__name__}.{name} of the task_store is an `async def`: {advice}")
    return store
