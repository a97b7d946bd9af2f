"""The types of tasks: transitions, both shapes on the wire, and owners."""

from __future__ import annotations

import re

import pytest

from mcp_ref import ProtocolError, Task
from mcp_ref.basic.lifecycle import declares
from mcp_ref.codec import ShapeError, codec_for
from mcp_ref.extensions.tasks.types import (
    DEFAULT_POLL_INTERVAL,
    DEFAULT_TTL,
    MAX_TTL,
    CreateTaskResult,
    GetTaskPayloadResult,
    TaskStatus,
    becomes_task,
    chosen_ttl,
    new_task,
    timestamp,
    with_status,
)
from mcp_ref.features.task_augmentation import TASKS_CAPABILITY, TASKS_EXTENSION, owner_of
from mcp_ref.features.tools import CallToolRequestParams
from mcp_ref.jsonrpc.messages import METHOD_NOT_FOUND, Object
from mcp_ref.revisions import LEGACY, R2025_11_25, R2026_07_28, Revision

OPEN: list[TaskStatus] = ["working", "input_required"]
OVER: list[TaskStatus] = ["completed", "failed", "cancelled"]
NOW = 1_764_066_600.25  # 2025-11-25T10:30:00.25Z


def task_in(status: TaskStatus, id: str | None = None) -> Task:
    task = new_task(60_000, 1000, NOW)
    task.task_id = task.task_id if id is None else id
    return task if status == "working" else with_status(task, status, NOW)


# ------------------------------------------------------------------------------------------------ its life


@pytest.mark.spec(
    "2025-11-25/basic/utilities/tasks#task-status-lifecycle-1",
    "2025-11-25/basic/utilities/tasks#task-id-requirements-1,3",
    "2025-11-25/basic/utilities/tasks#task-isolation-and-access-control-3",
)
def test_new_task_is_working_with_an_unguessable_id() -> None:
    ids = {new_task(60_000, 1000, NOW).task_id for _ in range(1000)}
    assert len(ids) == 1000 and all(re.fullmatch(r"[\w-]{32}", id) for id in ids)  # 24 random bytes
    task = new_task(60_000, 1000, NOW)
    assert (task.status, task.ttl, task.poll_interval) == ("working", 60_000, 1000)
    assert task.created_at == task.last_updated_at == "2025-11-25T10:30:00.250Z"


@pytest.mark.parametrize("before", OPEN)
@pytest.mark.parametrize("after", [*OPEN, *OVER])
@pytest.mark.spec("2025-11-25/basic/utilities/tasks#task-status-lifecycle-2,3")
def test_task_status_open_may_become_any_status(before: TaskStatus, after: TaskStatus) -> None:
    task = with_status(task_in(before), after, NOW + 1, "so it is")
    assert (task.status, task.status_message) == (after, "so it is")
    assert (task.created_at, task.last_updated_at) == ("2025-11-25T10:30:00.250Z", "2025-11-25T10:30:01.250Z")
    assert task.is_over is (after in OVER)


@pytest.mark.parametrize("before", OVER)
@pytest.mark.parametrize("after", [*OPEN, *OVER])
@pytest.mark.spec("2025-11-25/basic/utilities/tasks#task-status-lifecycle-4")
def test_task_status_terminal_never_changes(before: TaskStatus, after: TaskStatus) -> None:
    with pytest.raises(ValueError, match=f"cannot change from {before} to {after}"):
        with_status(task_in(before), after, NOW)


def test_task_status_message_is_kept_until_the_task_is_over() -> None:
    said = with_status(task_in("working"), "working", NOW, "halfway")
    assert with_status(said, "input_required", NOW, input_requests={"a": {}}).status_message == "halfway"
    assert with_status(said, "completed", NOW).status_message is None


@pytest.mark.spec("2025-11-25/basic/utilities/tasks#resource-management-2")
@pytest.mark.parametrize(
    ("wanted", "given"),
    [(None, DEFAULT_TTL), (0, DEFAULT_POLL_INTERVAL), (-5, DEFAULT_POLL_INTERVAL), (5000, 5000), (10**15, MAX_TTL)],
)
def test_task_ttl_is_the_wanted_one_within_bounds(wanted: int | None, given: int) -> None:
    assert chosen_ttl(wanted) == given


def test_task_times_are_iso_8601() -> None:
    assert [timestamp(t) for t in (0, 0.0004, 1.9996)] == [
        "1970-01-01T00:00:00.000Z", "1970-01-01T00:00:00.000Z", "1970-01-01T00:00:01.999Z",
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------------ decision for a task

DECLARED: Object = {"extensions": {TASKS_EXTENSION: {}}}


@pytest.mark.spec("2025-11-25/basic/utilities/tasks#tool-level-negotiation-3,5")
def test_tools_call_task_in_2025_11_25_is_chosen_by_the_client_within_task_support() -> None:
    assert becomes_task("optional", True, R2025_11_25, {}) is True
    assert becomes_task("required", True, R2025_11_25, {}) is True
    for support, wanted in (("forbidden", True), ("required", False)):
        with pytest.raises(ProtocolError) as caught:
            becomes_task(support, wanted, R2025_11_25, {})  # type: ignore[arg-type]
        assert caught.value.code == METHOD_NOT_FOUND


@pytest.mark.parametrize("wanted", [False, True])
def test_tools_call_task_in_the_extension_is_chosen_by_the_server(wanted: bool) -> None:
    assert [becomes_task(s, wanted, R2026_07_28, DECLARED) for s in ("forbidden", "optional", "required")] == [
        False, True, True,
    ]  # fmt: skip
    assert [becomes_task(s, wanted, R2026_07_28, {}) for s in ("forbidden", "optional")] == [False, False]
    with pytest.raises(ProtocolError) as caught:
        becomes_task("required", wanted, R2026_07_28, {})
    assert caught.value.code == -32021
    assert caught.value.data == {"requiredCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}}


def test_tasks_extension_name_is_one_step_of_a_capability_path() -> None:
    assert declares(DECLARED, TASKS_CAPABILITY)
    assert not declares({"extensions": {"io": {"modelcontextprotocol/tasks": {}}}}, TASKS_CAPABILITY)


# ------------------------------------------------------------------------------------------------ its two shapes


@pytest.mark.spec("2025-11-25/basic/utilities/tasks#ttl-and-resource-management-1,2,3")
def test_task_shapes_of_2025_11_25_and_of_the_extension() -> None:
    task = with_status(task_in("working", "t"), "completed", NOW, result={"content": []})
    times = {"createdAt": "2025-11-25T10:30:00.250Z", "lastUpdatedAt": "2025-11-25T10:30:00.250Z"}
    core = {"taskId": "t", "status": "completed", **times, "ttl": 60_000, "pollInterval": 1000}
    extension = {"taskId": "t", "status": "completed", **times, "ttlMs": 60_000, "pollIntervalMs": 1000}
    assert codec_for(R2025_11_25).encode(task) == core
    assert codec_for(R2026_07_28).encode(task) == {**extension, "result": {"content": []}}
    assert codec_for(R2025_11_25).encode(CreateTaskResult(task)) == {"task": core}
    assert codec_for(R2026_07_28).encode(CreateTaskResult(task))["resultType"] == "task"
    for revision in (R2025_11_25, R2026_07_28):
        codec = codec_for(revision)
        assert codec.decode(Task, codec.encode(task)).status == "completed"
        assert codec.decode(CreateTaskResult, codec.encode(CreateTaskResult(task))).task.ttl == 60_000


@pytest.mark.parametrize(("revision", "name"), [(R2025_11_25, "ttl"), (R2026_07_28, "ttlMs")])
def test_task_ttl_may_be_null_but_must_be_present(revision: Revision, name: str) -> None:
    codec = codec_for(revision)
    task = task_in("working")
    task.ttl = None
    wire = codec.encode(task)
    assert wire[name] is None and codec.decode(Task, wire) == task
    del wire[name]
    with pytest.raises(ShapeError):
        codec.decode(Task, wire)


def test_tasks_result_payload_is_written_unchanged() -> None:
    codec = codec_for(R2025_11_25)
    assert codec.encode(GetTaskPayloadResult({"content": [], "x": 1})) == {"content": [], "x": 1}
    assert codec.decode(GetTaskPayloadResult, {"a": {}}).payload == {"a": {}}


@pytest.mark.parametrize("revision", [r for r in (*LEGACY, R2026_07_28) if not r.built_in_tasks], ids=str)
def test_task_param_is_ignored_where_tasks_are_not_core(revision: Revision) -> None:
    for value in ({"ttl": 5}, 5, "x", None):
        assert codec_for(revision).decode(CallToolRequestParams, {"name": "t", "task": value}).task is None  # type: ignore[dict-item]
    with pytest.raises(ShapeError):
        codec_for(R2025_11_25).decode(CallToolRequestParams, {"name": "t", "task": 5})


def test_task_owners_cannot_be_confused() -> None:
    eras, principals, sessions = ("legacy", "modern"), ("a", "", "legacy:a", "session:a"), ("a", "legacy:a")
    known = {owner_of(principal, era) for era in eras for principal in principals}
    unknown = {owner_of(None, era, session) for era in eras for session in sessions}
    assert len(known) == 8 and len(unknown) == 2 and len({owner_of(None, "modern"), *known, *unknown}) == 11
    assert owner_of("a", "legacy", "b") == owner_of("a", "legacy")
