"""The interface of a store of tasks in a database, which several processes share.

Each process runs its own tasks, and can serve requests about all of them. It holds a lease on each task that it runs,
and must renew it in time, so that the others notice when a process dies. A task that is over never changes: `put`
checks this and writes in a single step. So if one process completes a task while another cancels it, the first wins.

Spec:  2025-11-25 basic/utilities/tasks; the extension io.modelcontextprotocol/tasks (SEP-2663) beside 2026-07-28
Used by: shared_tasks.py. Uses: types.py. An adapter: examples/many_machines/redis_tasks.py
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ...jsonrpc.messages import Object
from ...lib.fields import CheckedFields
from .types import Task


@dataclass(frozen=True, slots=True)
class OwnedTask(CheckedFields):
    """A task in a database."""

    task: Task
    owner: str
    """The principal or session that created the task ("" without both). Only requests of the same owner can read it."""
    expires_at: float
    """The time from which the database no longer returns the task, in seconds since the epoch."""
    has_lease: bool = True
    """True unless the task is running without a valid lease, which means that its process is probably dead."""


class AsyncTaskStore(ABC):
    """A store of tasks in a database, which several processes share: `Server(task_store=...)`.

    A method may raise any exception if the database fails.

    Args of methods:
        id: The id of the task.
    """

    lease_seconds: float = 10.0
    """Duration of a lease, which begins with `put` or `renew`, in seconds."""

    @abstractmethod
    async def put(self, stored: OwnedTask) -> bool:
        """Store a new or changed task, unless the stored task is over. The check and the write MUST be a single step.

        If the new state is not terminal, begin a lease of `lease_seconds`.

        Args:
            stored: The task, which replaces the stored task with the same id.

        Returns:
            False if the stored task is over.

        Raises:
            ProtocolError: The owner has too many tasks.
        """

    @abstractmethod
    async def get(self, id: str) -> OwnedTask | None:
        """Return a task, or None if the task is unknown or expired."""

    @abstractmethod
    async def page(self, owner: str, cursor: str | None) -> tuple[list[OwnedTask], str | None]:
        """Return one page of an owner's tasks, and the next cursor (None after the last page).

        Args:
            owner: The owner of the tasks.
            cursor: The next cursor that the call for the previous page returned; None for the first page.

        Raises:
            ProtocolError: The cursor is unknown.
        """

    @abstractmethod
    async def remove(self, id: str) -> None:
        """Remove a task. Do nothing if the store does not have the task."""

    @abstractmethod
    async def renew(self, ids: Sequence[str]) -> Collection[str]:
        """Begin new leases of running tasks.

        Args:
            ids: The ids of all tasks that this process runs.

        Returns:
            The ids of those that are over, or that the database no longer has.
        """

    @abstractmethod
    async def add_responses(self, id: str, responses: dict[str, Object]) -> None:
        """Keep the client's responses to the input requests of a task until `take_responses` returns them.

        Args:
            responses: The responses, each with the key of its input request.
        """

    @abstractmethod
    async def take_responses(self, id: str) -> dict[str, Object]:
        """Return the stored responses for a task, and remove them."""

    async def close(self) -> None:
        """Close the connections when the server ends. It can start again, so a later call must open new ones."""
        return None
