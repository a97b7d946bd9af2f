"""The store of tasks: its limits, its pages, and the expiry of tasks."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

import pytest

from mcp_ref import MemoryTaskStore, ProtocolError, Task
from mcp_ref.basic.access import Access, current_access
from mcp_ref.extensions.tasks.store import PAGE_SIZE
from mcp_ref.extensions.tasks.types import TaskStatus, new_task, with_status
from mcp_ref.jsonrpc.messages import INTERNAL_ERROR, INVALID_PARAMS, Object
from tests.settings import Clock

NOW = 1_764_066_600.25  # 2025-11-25T10:30:00.25Z


def task_in(status: TaskStatus, id: str) -> Task:
    task = new_task(60_000, 1000, NOW)
    task.task_id = id
    return task if status == "working" else with_status(task, status, NOW)


def test_task_store_get_needs_the_owner_and_ends_at_expiry() -> None:
    clock = Clock(NOW)
    store = MemoryTaskStore(clock=clock)
    for owner in ("", "principal:a", "session:a"):
        store.put(task_in("working", owner), owner, NOW + 10)
    assert store.get("principal:a", "principal:a") is not None
    for owner in ("", "session:a", "principal:b"):
        assert store.get("principal:a", owner) is None
        assert [task.task_id for task in store.page(owner, None)[0]] == [owner] * (owner != "principal:b")
    clock.now += 9.9
    assert store.get("", "") is not None
    clock.now += 0.1
    assert store.get("", "") is None and store.page("", None) == ([], None)
    store.remove("")
    store.remove("")


@pytest.mark.spec(
    "2025-11-25/basic/utilities/tasks#task-listing-1,2", "2025-11-25/basic/utilities/tasks#protocol-errors-2"
)
def test_task_store_page_stays_valid_when_tasks_expire() -> None:
    clock = Clock(NOW)
    store = MemoryTaskStore(max_tasks_per_caller=1000, clock=clock)
    for number in range(2 * PAGE_SIZE + 1):
        store.put(task_in("working", f"{number}"), "principal:a", NOW + (5 if number == PAGE_SIZE - 1 else 10))
        store.put(task_in("working", f"other {number}"), "principal:b", NOW + 10)
    first, cursor = store.page("principal:a", None)
    assert [task.task_id for task in first] == [f"{n}" for n in range(PAGE_SIZE)] and cursor is not None
    clock.now += 6
    second, cursor = store.page("principal:a", cursor)
    assert [task.task_id for task in second] == [f"{n}" for n in range(PAGE_SIZE, 2 * PAGE_SIZE)] and cursor is not None
    third, cursor = store.page("principal:a", cursor)
    assert [task.task_id for task in third] == [f"{2 * PAGE_SIZE}"] and cursor is None
    for wrong in ("", "x", "-1", "1e5", "9" * 50, "\u0663"):
        with pytest.raises(ProtocolError) as caught:
            store.page("principal:a", wrong)
        assert caught.value.code == INVALID_PARAMS


@pytest.mark.spec("2025-11-25/basic/utilities/tasks#resource-management-1")
def test_task_store_number_is_bounded_and_no_running_task_is_dropped_early() -> None:
    clock = Clock(NOW)
    store = MemoryTaskStore(max_tasks=4, max_tasks_per_caller=2, clock=clock)
    for id in ("1", "2"):
        store.put(task_in("working", id), "principal:a", NOW + 5)
    with pytest.raises(ProtocolError, match="you already have 2 tasks") as caught:
        store.put(task_in("working", "3"), "principal:a", NOW + 5)
    assert caught.value.code == INTERNAL_ERROR
    for id in ("4", "5"):
        store.put(task_in("working", id), "principal:b", NOW + 10)
    with pytest.raises(ProtocolError, match="4 tasks"):
        store.put(task_in("working", "6"), "principal:c", NOW + 10)
    store.put(task_in("completed", "5"), "principal:b", NOW + 10)  # a stored task can change
    assert store.get("1", "principal:a") is not None and store.get("6", "principal:c") is None
    clock.now += 5
    for id in ("6", "7"):
        store.put(task_in("working", id), "principal:c", NOW + 10)
    assert len(store.page("principal:c", None)[0]) == 2


@contextlib.contextmanager
def request_of(address: str) -> Iterator[None]:
    """Run the block as a part of an HTTP request from an address."""
    access = Access()
    access.caller = address
    token = current_access.set(access)
    yield
    current_access.reset(token)


def test_task_store_that_is_full_removes_the_oldest_ended_task_of_the_caller_with_most() -> None:
    store = MemoryTaskStore(max_tasks=5, max_tasks_per_caller=3, clock=Clock(NOW))

    def ids() -> list[str]:
        return [task.task_id for task in store.page("", None)[0]]

    with request_of("192.0.2.1"):
        for id in ("1", "2", "3"):
            store.put(task_in("completed", id), "", NOW + 10)
        assert ids() == ["1", "2", "3"]
        store.put(task_in("working", "4"), "", NOW + 10)
        assert ids() == ["2", "3", "4"]
    with request_of("192.0.2.2"):
        store.put(task_in("completed", "5"), "", NOW + 10)
        store.put(task_in("working", "6"), "", NOW + 10)
        assert ids() == ["2", "3", "4", "5", "6"]
        store.put(task_in("working", "7"), "", NOW + 10)
        assert ids() == ["3", "4", "5", "6", "7"]
        store.put(task_in("working", "8"), "", NOW + 10)
        assert ids() == ["3", "4", "6", "7", "8"]  # 3 tasks are running, so this is the last
        with pytest.raises(ProtocolError, match="you already have 3 tasks"):
            store.put(task_in("working", "9"), "", NOW + 10)
    with request_of("192.0.2.3"):
        store.put(task_in("working", "10"), "", NOW + 10)
        with pytest.raises(ProtocolError, match="the store of tasks is full"):
            store.put(task_in("working", "11"), "", NOW + 10)
    assert ids() == ["4", "6", "7", "8", "10"]


def test_task_store_that_is_full_of_bytes_removes_the_tasks_of_the_caller_with_most_bytes() -> None:
    store = MemoryTaskStore(max_bytes=11_200)
    until = 1e12

    def completed(id: str, size: int) -> list[str]:
        store.put(with_status(task_in("working", id), "completed", NOW, result={"text": "x" * size}), "", until)
        return [task.task_id for task in store.page("", None)[0]]

    with request_of("192.0.2.1"):
        completed("small", 100)
        completed("small too", 100)
    with request_of("192.0.2.2"):
        completed("large", 4000)
        assert completed("large too", 4000) == ["small", "small too", "large", "large too"]
    with request_of("192.0.2.3"):
        assert completed("next", 3000) == ["small", "small too", "large too", "next"]
        assert completed("largest", 9000) == ["small", "small too", "largest"]
        with pytest.raises(ProtocolError, match="would exceed 11200 bytes"):
            completed("too large", 12_000)
    assert [task.task_id for task in store.page("", None)[0]] == ["small", "small too", "largest"]


def test_task_store_removes_no_ended_task_for_a_result_that_would_not_fit_anyway() -> None:
    store, until = MemoryTaskStore(max_bytes=10_000), 1e12
    store.put(with_status(task_in("working", "ended"), "completed", NOW, result={"text": "x" * 1000}), "", until)
    large: Object = {"1": {"text": "x" * 6000}}
    store.put(with_status(task_in("working", "asking"), "input_required", NOW, input_requests=large), "", until)
    with pytest.raises(ProtocolError, match="would exceed"):
        store.put(with_status(task_in("working", "next"), "completed", NOW, result=large), "", until)
    assert store.get("ended", "") is not None


def test_task_store_size_is_bounded_and_failure_can_still_be_stored() -> None:
    store = MemoryTaskStore(max_bytes=11_200)
    until = 1e12
    store.put(task_in("working", "a"), "", until)
    store.put(task_in("working", "b"), "", until)
    text = "x" * 6000
    asking = with_status(task_in("working", "a"), "input_required", NOW, input_requests={"1": {"text": text}})
    store.put(asking, "", until)
    with pytest.raises(ProtocolError, match="would exceed"):
        store.put(with_status(task_in("working", "b"), "completed", NOW, result={"text": text}), "", until)
    store.put(with_status(task_in("working", "b"), "failed", NOW, error={"code": 1, "message": "no room"}), "", until)
    kept = store.get("b", "")
    assert kept is not None and json.dumps(kept.error) == '{"code": 1, "message": "no room"}'
    store.remove("a")
    store.put(with_status(task_in("working", "c"), "completed", NOW, result={"text": text}), "", until)
