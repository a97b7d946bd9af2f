"""The rules for every test of the suite.

- It names the requirement that it holds: `@pytest.mark.spec("2025-11-25/basic/lifecycle#initialization-1")`, an id of
  requirements.json. `2025-06-18..2025-11-25/server/tools#tool-1,2` are the sentences 1 and 2 in both revisions.
- It leaves nothing behind: no process, thread, file descriptor or unfinished task (`nothing_left_behind`), and no
  variable of the environment (`same_environment`).
- It ends: each wait of a test, a fixture or a cleanup has a time limit (`settings.PHASE_SECONDS`).
- Every message that the package sends in it is valid by the official schema of the revision (`every_frame_is_valid`).
- Every conversation of the package in it breaks no rule of `mcp_ref/check/` (`every_conversation_is_clean`).
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hashlib
import importlib
import inspect
import itertools
import json
import os
import re
import signal
import threading
import time
from collections.abc import Generator, Iterator
from types import FrameType
from typing import NoReturn

import pytest

from mcp_ref.check.rules import Finding
from mcp_ref.server import stateless
from mcp_ref.session import Session
from mcp_ref.transports.http_sse.server import SseEndpoint
from mcp_ref.transports.streamable_http.server import StreamableHttpEndpoint
from tests import settings, workers
from tests.check import http_tap, tap
from tests.forked_python import process_ids
from tests.frame_schema import FrameChecker, checked_stateless

HAS_PROC = os.path.isdir("/proc/self/fd")
"""True on Linux, whose folder /proc has the descriptors and the children of this process."""


def pytest_configure() -> None:
    """Accept SIGINT, also if it is ignored, as for `nohup pytest &`. Programs inherit an ignored signal.

    Switch the garbage collector off until the tests are collected, which takes a third longer with it.
    """
    gc.disable()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, _end_phase)


def _end_phase(number: int, frame: FrameType | None) -> NoReturn:
    for process in _children():
        os.kill(int(process), signal.SIGKILL)  # the end of `with Popen(...)` waits for the process
    pytest.fail(f"took longer than {settings.PHASE_SECONDS:g} seconds")


def _phase_in_time() -> Generator[None]:
    """Fail a test whose setup, call or teardown takes longer than `PHASE_SECONDS`."""
    if not hasattr(signal, "setitimer"):
        return (yield)
    # The interval ends a cleanup that waits, too.
    signal.setitimer(signal.ITIMER_REAL, settings.PHASE_SECONDS, settings.PATIENCE)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


pytest_runtest_setup = pytest.hookimpl(wrapper=True)(_phase_in_time)
pytest_runtest_call = pytest.hookimpl(wrapper=True)(_phase_in_time)
pytest_runtest_teardown = pytest.hookimpl(wrapper=True)(_phase_in_time)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Raise UsageError for a test that names an unknown requirement. Skip combinations that the protocol lacks."""
    items[:] = [item for item in items if not _is_impossible(item)]
    if settings.COMBINATIONS != "all":
        items[:] = select_combinations(items, settings.COMBINATIONS == "pairs")
    if settings.DATA is None:
        return
    known = {row["id"] for row in json.loads((settings.DATA / "requirements.json").read_text("utf-8"))}
    for item in items:
        for marker in item.iter_markers("spec"):
            unknown = [id for named in marker.args for id in settings.requirement_ids(named) if id not in known]
            if unknown or not marker.args:
                raise pytest.UsageError(f"{item.nodeid}: no such requirement: {unknown}")


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests in several processes, if there are many tests."""
    number = workers.count(session)
    if number == 1 or session.testsfailed:
        return None
    workers.run(session, number)
    return True


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test on an event loop of its own, for at most a minute."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    settings.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


def _params(item: pytest.Item) -> dict[str, object]:
    callspec = getattr(item, "callspec", None)
    return callspec.params if callspec is not None else {}


def _is_impossible(item: pytest.Item) -> bool:
    """Return True for 2026-07-28 over HTTP+SSE, a transport of the legacy era."""
    params = _params(item)
    return params.get("kind") == "http+sse" and params.get("revision") == settings.MODERN


def select_combinations(items: list[pytest.Item], every_pair: bool) -> list[pytest.Item]:
    """Return the items without the combinations of parameters that repeat others. Tests without a transport keep all.

    Most faults show in a combination of two values. So a test keeps enough items for each pair of values of two of its
    parameters. For a transport or a revision, each value is enough; with `every_pair`, its pairs with others count too.
    """
    covered: dict[str, set[tuple[tuple[str, object], ...]]] = {}

    def covers_more(item: pytest.Item) -> bool:
        params = _params(item)
        if "kind" not in params:
            return True
        # by identity: the items of a test share the values, and not every value can be hashed or compared
        values = [(name, value if isinstance(value, str) else id(value)) for name, value in sorted(params.items())]
        combinations: set[tuple[tuple[str, object], ...]] = {(value,) for value in values}
        for pair in itertools.combinations(values, 2):
            number_of_kind_and_revision = len({"kind", "revision"} & dict(pair).keys())
            if number_of_kind_and_revision == 0 or (every_pair and number_of_kind_and_revision == 1):
                combinations.add(pair)
        before = covered.setdefault(item.nodeid.partition("[")[0], set())
        added = combinations - before
        before |= added
        return bool(added)

    def hash_of_name(item: pytest.Item) -> bytes:
        # without the addresses of objects, or each run would keep others
        name = re.sub(" at 0x[0-9a-f]+", "", item.nodeid)
        return hashlib.sha256(name.encode("utf-8", "replace")).digest()

    # In the order of a hash, consecutive items differ in all parameters, so that few of them have all the pairs.
    shuffled = sorted(items, key=hash_of_name)
    kept = {item for item in shuffled if covers_more(item)}
    return [item for item in items if item in kept]


@pytest.fixture(autouse=True)
def rules_of_every_test(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Hold the rules in one fixture, because pytest needs as long for a fixture as most rules do for a test."""
    with contextlib.ExitStack() as ends:  # the last rule ends first, and each of them ends even if another is broken
        patch = ends.enter_context(pytest.MonkeyPatch.context())
        for rule in (
            nothing_left_behind(caplog),
            same_environment(),
            every_frame_is_valid(patch),
            every_conversation_is_clean(request, patch),
            no_loop_errors(patch),
        ):
            next(rule)  # each rule is a generator, which `ends` continues after its `yield` at the end of the test
            ends.callback(next, rule, None)
        yield


def nothing_left_behind(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail if a process, thread or descriptor of the test is left after a second."""
    before = _threads(), _descriptors(), _children()
    yield
    caplog.get_records("call").clear()  # a logged traceback keeps a server alive, and with it its worker threads
    deadline = time.monotonic() + 1.0
    while True:
        after = _threads(), _descriptors(), _children()
        extra = [sorted(map(str, now - then)) for then, now in zip(before, after, strict=True)]
        if not any(extra):
            return gc.freeze()  # the collections after later tests skip caches and reports
        if time.monotonic() > deadline:
            pytest.fail(f"left behind: threads {extra[0]}, descriptors {extra[1]}, processes {extra[2]}")
        gc.collect()
        time.sleep(0.001)


def _threads() -> set[str]:
    # asyncio's own workers live until the loop's end; names with numbers are kept, so that one more is seen
    return {thread.name for thread in threading.enumerate() if thread.is_alive()}


def _descriptors() -> set[str]:
    found = set()
    for name in os.listdir("/proc/self/fd") if HAS_PROC else ():
        try:
            found.add(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")
        except OSError:
            continue  # the one that listed them
    return found


def _children() -> set[str]:
    children: set[str] = set()
    for thread in os.listdir("/proc/self/task") if HAS_PROC else ():
        # unbuffered bytes, because a file object that decodes text takes as long as all else here
        with contextlib.suppress(OSError), open(f"/proc/self/task/{thread}/children", "rb", 0) as file:
            children.update(file.read().decode().split())
    return children - process_ids()


def same_environment() -> Iterator[None]:
    """Fail if the test has changed a variable of the environment, which the later tests of the process would see."""
    before = dict(os.environ)
    yield
    changed = {name for name, _ in before.items() ^ dict(os.environ).items()} - {"PYTEST_CURRENT_TEST"}
    if changed:
        os.environ.clear()
        os.environ.update(before)
        pytest.fail(f"changed variables of the environment: {sorted(changed)}")


@pytest.fixture
def short_finish(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the time that open requests have to finish at the end of their session or server."""
    names = ("server.session", "server.http", "server.listening", "bridge.front")
    # Import all of them first: some take the value from others, and would keep the short one.
    for module in [importlib.import_module(f"mcp_ref.{name}") for name in names]:
        monkeypatch.setattr(module, "FINISH_SECONDS", 0.01)


def every_frame_is_valid(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Check each message that the package sends against the schema.json of its revision."""
    if settings.DATA is None or not settings.IS_JUDGED:
        yield
        return
    faults: list[str] = []
    opened = Session.open

    async def open_checked(self: Session) -> None:
        FrameChecker(self, faults).attach()
        await opened(self)

    patch.setattr(Session, "open", open_checked)
    patch.setattr(stateless, "serve_request", checked_stateless(faults))
    yield
    assert not faults, "\n".join(faults)


def every_conversation_is_clean(request: pytest.FixtureRequest, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Judge each conversation of the package. A test that breaks rules on purpose has `breaks("rule ...")`.

    `breaks("everything")` is for tests that measure memory, which a judge needs too.
    """
    findings: list[Finding] = []
    allowed = {name for mark in request.node.iter_markers("breaks") for name in str(mark.args[0]).split()}
    if "everything" in allowed or not settings.IS_JUDGED:
        yield
        return
    opened = Session.open

    async def open_watched(self: Session) -> None:
        tap.attach(self, findings)
        await opened(self)

    patch.setattr(Session, "open", open_watched)
    patch.setattr(stateless, "serve_request", tap.watched_stateless(stateless.serve_request, findings))
    for endpoint in (StreamableHttpEndpoint, SseEndpoint):
        patch.setattr(endpoint, "handle", http_tap.watched_handle(endpoint.handle, findings))
    yield
    wrong = [f"{each.rule.name} ({each.side}): {each.text}" for each in findings if each.rule.name not in allowed]
    assert not wrong, "\n".join(wrong)


def no_loop_errors(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail if the event loop reports an exception, as it does for a task whose exception nobody reads.

    This rule ends before `nothing_left_behind`, whose `gc.freeze` would hide the test's tasks from the collector.
    """
    errors: list[str] = []
    new_event_loop = asyncio.new_event_loop
    has_loop = False

    def new_watched_loop() -> asyncio.AbstractEventLoop:
        nonlocal has_loop
        has_loop = True
        loop = new_event_loop()
        loop.set_exception_handler(lambda _, context: errors.append(repr(context)))
        return loop

    patch.setattr(asyncio, "new_event_loop", new_watched_loop)
    patch.setattr(asyncio.events, "new_event_loop", new_watched_loop)
    yield
    if has_loop:
        gc.collect()  # a task whose exception nobody saw says so when it is collected
    assert not errors, "\n".join(errors)


def pytest_collection_finish() -> None:
    """Freeze all objects, so that the collection after each test skips them and is quick."""
    gc.collect()
    gc.freeze()
    gc.enable()
