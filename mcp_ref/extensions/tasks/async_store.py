"""The interface of a store of tasks in a database, which several processes share.

Each process runs its own tasks, and can serve requests about all of them. It has a lease of each task that it runs. A
task that is over never changes, which `put` checks in the same step as the write. So one process can complete a task
while another cancels it or finds its lease ended, and the faster one wins.

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
    """The owner. Only requests with the same owner can read the task."""
    expires_at: float
    """The time from which the database does not return the task, in seconds since the epoch."""
    has_lease: bool = True
    """False if the lease of a running task has ended."""


class AsyncTaskStore(ABC):
    """A store of tasks in a database, which several processes share: `Server(task_store=...)`.

    A method can raise any exception if the database fails.

    Args of methods:
        id: The id of the task.
    """

    lease_seconds: float = 10.0
    """Time for which a process has a task after `put` or `renew`, in seconds."""

    @abstractmethod
    async def put(self, stored: OwnedTask) -> bool:
        """Store a new or changed task, in one step with this check: do nothing if the stored task is over.

        If the task is not over, begin a lease of `lease_seconds`.

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
            The tasks that are over, or that the database has lost.
        """

    @abstractmethod
    async def add_responses(self, id: str, responses: dict[str, Object]) -> None:
        """Store the client's responses to the input requests of a task, until `take_responses`.

        Args:
            responses: The responses, by the key of the input request.
        """

    @abstractmethod
    async def take_responses(self, id: str) -> dict[str, Object]:
        """Return the stored responses for a task, and remove them."""

    async def close(self) -> None:
        """Close the connections, because the server has ended. It can begin again."""
        return None
