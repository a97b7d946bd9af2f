"""What every test of the suite is held to.

- It names the rule it holds: `@pytest.mark.spec("2025-11-25/basic/lifecycle#initialization-1")`, an id of
  requirements.json.
- It leaves nothing behind: no process, thread, file descriptor or unfinished task (`nothing_left_behind`).
- Every message that one of our connections writes in it is valid by the official schema of the revision that is spoken
  (`every_frame_is_valid`).
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_ref.server import stateless
from mcp_ref.session import Session
from tests import settings
from tests.forked_python import process_ids
from tests.frame_schema import FrameChecker, checked_stateless


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that names a rule which the spec does not have is an error. What does not exist is not tested."""
    items[:] = [item for item in items if not _is_nowhere(item)]
    if settings.DATA is None:
        return
    known = {row["id"] for row in json.loads((settings.DATA / "requirements.json").read_text("utf-8"))}
    for item in items:
        for marker in item.iter_markers("spec"):
            unknown = [id for id in marker.args if id not in known]
            if unknown or not marker.args:
                raise pytest.UsageError(f"{item.nodeid}: no such requirement: {unknown}")


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test on an event loop of its own, for at most 30 seconds."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    settings.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


def _is_nowhere(item: pytest.Item) -> bool:
    """HTTP+SSE is of the earlier era: 2026-07-28 is not served over it."""
    callspec = getattr(item, "callspec", None)
    params = callspec.params if callspec is not None else {}
    return params.get("kind") == "http+sse" and params.get("revision") == settings.MODERN


@pytest.fixture(autouse=True)
def nothing_left_behind(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Processes, threads and descriptors are as before. What ends by itself is given a second."""
    before = _threads(), _descriptors(), _children()
    yield
    caplog.get_records("call").clear()  # a logged traceback keeps a server alive, and with it its worker threads
    deadline = time.monotonic() + 1.0
    while True:
        after = _threads(), _descriptors(), _children()
        extra = [sorted(map(str, now - then)) for then, now in zip(before, after, strict=True)]
        if not any(extra):
            return gc.freeze()  # what stays, caches and reports, is not looked at again after each test to come
        if time.monotonic() > deadline:
            pytest.fail(f"left behind: threads {extra[0]}, descriptors {extra[1]}, processes {extra[2]}")
        gc.collect()
        time.sleep(0.01)


def _threads() -> set[str]:
    # asyncio's own workers live until the loop's end; names with numbers are kept, so that one more is seen
    return {thread.name for thread in threading.enumerate() if thread.is_alive()}


def _descriptors() -> set[str]:
    found = set()
    if os.path.isdir("/proc/self/fd"):
        for name in os.listdir("/proc/self/fd"):
            try:
                found.add(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")
            except OSError:
                continue  # the one that listed them
    return found


def _children() -> set[str]:
    children: set[str] = set()
    for path in Path("/proc/self/task").glob("*/children"):
        try:
            children |= set(path.read_text().split()) - process_ids()
        except OSError:
            continue
    return children


@pytest.fixture(autouse=True)
def every_frame_is_valid(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each message that a connection of ours sends is checked against schema.json, of whichever revision it speaks."""
    if settings.DATA is None:
        yield
        return
    faults: list[str] = []
    opened = Session.open

    async def open_checked(self: Session) -> None:
        FrameChecker(self, faults).attach()
        await opened(self)

    monkeypatch.setattr(Session, "open", open_checked)
    monkeypatch.setattr(stateless, "serve", checked_stateless(faults))
    yield
    assert not faults, "\n".join(faults)


@pytest.fixture(autouse=True)
def no_loop_errors(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The event loop's exception handler stays silent: no task dies unseen."""
    seen: list[str] = []
    create = asyncio.new_event_loop

    opened = False

    def watched() -> asyncio.AbstractEventLoop:
        nonlocal opened
        opened = True
        loop = create()
        loop.set_exception_handler(lambda _, context: seen.append(repr(context)))
        return loop

    monkeypatch.setattr(asyncio, "new_event_loop", watched)
    monkeypatch.setattr(asyncio.events, "new_event_loop", watched)
    yield
    if opened:
        gc.collect()  # a task whose exception nobody saw says so when it is collected
    assert not seen, "\n".join(seen)


def pytest_collection_finish() -> None:
    """What exists before the first test is never looked at again by the collections after each: they are quick then."""
    gc.collect()
    gc.freeze()
