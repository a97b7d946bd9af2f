"""The stores of tokens: their values, their locks, and the files that they refuse."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mcp_ref import AuthorizationError, FileStore, MemoryStore
from mcp_ref.basic.authorization import store as module
from mcp_ref.basic.authorization.store import MAX_FILE, default_path
from tests.settings import ROOT

posix = pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")


def _file(folder: Path) -> FileStore:
    return FileStore(folder / "deep" / "credentials.json")


@pytest.mark.parametrize("make", [lambda folder: MemoryStore(), _file], ids=["memory", "file"])
async def test_store_keeps_values_until_they_are_deleted(make: Callable[[Path], MemoryStore], tmp_path: Path) -> None:
    store = make(tmp_path)
    assert await store.get("a") is None
    await store.put("a", {"secret": "marker"})
    await store.put("b", {})
    assert await store.get("a") == {"secret": "marker"}
    await store.delete("a")
    await store.delete("a")
    assert (await store.get("a"), await store.get("b")) == (None, {})
    assert "marker" not in repr(store)


@pytest.mark.parametrize("make", [lambda folder: MemoryStore(), _file], ids=["memory", "file"])
async def test_lock_is_held_by_one_task_at_a_time(make: Callable[[Path], MemoryStore], tmp_path: Path) -> None:
    store, inside, seen = make(tmp_path), 0, []

    async def use() -> None:
        nonlocal inside
        async with store.lock("a"):
            inside += 1
            seen.append(inside)
            await store.put("x", {"n": len(seen)})
            await asyncio.sleep(0)
            inside -= 1

    async with asyncio.timeout(10):
        await asyncio.gather(*(use() for _ in range(10)))
        async with store.lock("a"), store.lock("b"):
            pass
    assert seen == [1] * 10 and not store._locks


@pytest.mark.attack("token-file")
@posix
@pytest.mark.spec(
    "2026-07-28/basic/authorization/security-considerations#token-theft-1",
    "2025-06-18..2025-11-25/basic/authorization#token-theft-1",
    "2025-03-26/basic/authorization#security-considerations-2",
)
@pytest.mark.attack("A15")
async def test_file_is_private_from_the_first_byte_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, modes = _file(tmp_path), []
    opened = os.open

    def spy(path: str, flags: int, mode: int = 0o777) -> int:
        handle = opened(path, flags, mode)
        modes.append(stat.S_IMODE(os.fstat(handle).st_mode))
        return handle

    monkeypatch.setattr(os, "open", spy)
    before = os.umask(0)
    try:
        await store.put("a", {"secret": "marker"})
    finally:
        os.umask(before)
    assert modes and set(modes) == {0o600}
    assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700
    assert sorted(path.name for path in store.path.parent.iterdir()) == [
        "credentials.json",
        "credentials.json.file.lock",
    ]


@pytest.mark.spec("2026-07-28/basic/authorization/security-considerations#token-theft-1")
@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"version": 1, "values": {"a": {"marker": 1', "version 1"),
        (b'{"version": 2, "values": {}}', "version 1"),
        (b"[]", "version 1"),
        (b"", "version 1"),
        (b" " * (MAX_FILE + 1), "version 1"),
    ],
    ids=["cut", "later version", "list", "empty", "too large"],
)
@pytest.mark.attack("A15")
async def test_unreadable_file_is_refused_and_never_overwritten(tmp_path: Path, content: bytes, why: str) -> None:
    store = FileStore(tmp_path / "credentials.json")
    store.path.write_bytes(content)
    store.path.chmod(0o600)
    for use in (store.get("a"), store.put("a", {}), store.delete("a")):
        with pytest.raises(AuthorizationError, match=f"{why}.*Remove the file") as caught:
            await use
        assert "marker" not in str(caught.value)
    assert store.path.read_bytes() == content


@pytest.mark.attack("token-file")
@posix
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602, 0o610])
@pytest.mark.attack("A15")
async def test_file_that_others_may_access_is_refused(tmp_path: Path, mode: int) -> None:
    store = FileStore(tmp_path / "credentials.json")
    await store.put("a", {})
    store.path.chmod(mode)
    with pytest.raises(AuthorizationError, match=f"mode {mode:o}"):
        await store.get("a")


@pytest.mark.attack("token-file")
@posix
@pytest.mark.attack("A15")
async def test_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FileStore(tmp_path / "credentials.json")
    await store.put("a", {})
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    with pytest.raises(AuthorizationError, match="another user"):
        await store.get("a")


@pytest.mark.attack("token-file")
@posix
@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
@pytest.mark.attack("A15")
async def test_path_that_is_not_a_regular_file_is_refused(tmp_path: Path, kind: str) -> None:
    store, target = FileStore(tmp_path / "credentials.json"), tmp_path / "target"
    target.write_text('{"version": 1, "values": {}}')
    target.chmod(0o600)
    if kind == "link":
        store.path.symlink_to(target)
    elif kind == "folder":
        store.path.mkdir(mode=0o700)
    else:
        os.mkfifo(store.path, 0o600)
    with pytest.raises(AuthorizationError, match="is not used"):
        await store.get("a")


async def test_file_has_a_maximum_size(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "credentials.json")
    await store.put("a", {"x": "y"})
    with pytest.raises(AuthorizationError, match="more than"):
        await store.put("b", {"x": "y" * MAX_FILE})
    assert await store.get("a") == {"x": "y"} and await store.get("b") is None


async def test_crash_while_writing_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FileStore(tmp_path / "credentials.json")
    await store.put("a", {"n": 1})

    def fail(handle: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        await store.put("a", {"n": 2})
    assert json.loads(store.path.read_text())["values"] == {"a": {"n": 1}}
    assert not list(tmp_path.glob("*.new"))


_OTHER = """
import asyncio, sys
from mcp_ref import FileStore
async def main():
    store = FileStore(sys.argv[1])
    async with store.lock("a"):
        print("locked", flush=True)
        sys.stdin.readline()
        await store.put("x", {"by": "other"})
asyncio.run(main())
"""


async def test_program_that_is_killed_while_it_writes_leaves_no_tokens_after_the_next_write(tmp_path: Path) -> None:
    program = """
import asyncio, os, sys
from mcp_ref import FileStore
os.replace = lambda old, new: os._exit(9)
asyncio.run(FileStore(sys.argv[1]).put("a", {"secret": "marker"}))
"""
    path = tmp_path / "credentials.json"
    for _ in range(2):
        assert subprocess.run([sys.executable, "-c", program, path], cwd=ROOT, timeout=60).returncode == 9
    await FileStore(path).put("b", {})
    assert sorted(each.name for each in tmp_path.iterdir()) == ["credentials.json", "credentials.json.file.lock"]


@pytest.mark.attack("A9")
async def test_lock_holds_between_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FileStore(tmp_path / "credentials.json")
    with subprocess.Popen(
        [sys.executable, "-c", _OTHER, str(store.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    ) as other:
        assert other.stdin is not None and other.stdout is not None
        assert other.stdout.readline() == b"locked\n"
        monkeypatch.setattr(module, "LOCK_SECONDS", 0.1)
        with pytest.raises(AuthorizationError, match="another program"):
            async with store.lock("a"):
                raise AssertionError("the lock is free")
        monkeypatch.undo()
        other.stdin.write(b"\n")
        other.stdin.flush()
        async with store.lock("a"):
            assert await store.get("x") == {"by": "other"}


def test_default_path_is_in_the_folder_for_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert default_path() == FileStore().path == tmp_path / "mcp_ref" / "credentials.json"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.delenv("LOCALAPPDATA")
    folder = Path.home() / ("AppData/Local" if os.name == "nt" else ".local/state")
    assert default_path() == folder / "mcp_ref" / "credentials.json"


@pytest.mark.attack("token-file")
async def test_folder_in_which_others_can_replace_the_file_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    store = FileStore(folder / "tokens.json")
    folder.chmod(0o777)
    with pytest.raises(AuthorizationError, match="other users can replace it"):
        await store.put("a", {})
    folder.chmod(0o1777)
    await store.put("a", {})
