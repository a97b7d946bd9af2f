"""Store: where a client keeps its client ids and its tokens, in memory or in a file.

    client|<issuer>            a registration: client id, perhaps a secret
    grant|<MCP server's URL>   the tokens, their issuer, and all that a refresh needs
    issuer|<client id>         the only issuer that gets the credentials of a program without a user

A program that keeps them need not ask its user to sign in at each start. But a refresh token works for months, and a
thief would have the user's rights for as long, so clients MUST store tokens securely.
[2026-07-28 basic/authorization/security-considerations#token-theft] `FileStore` therefore
- creates its file readable by its owner alone, from the first byte on, and refuses a file that others could read;
- replaces the file as a whole, so that a crash leaves the old or the new one;
- never overwrites a file that it cannot read;
- has a lock between processes, so that one process refreshes, and the others read its result. Many servers issue a new
  refresh token with each refresh, and treat a second use of the old one as theft, so that all tokens are revoked.

For a keyring, write a class with `get`, `put` and `delete`, derived from `MemoryStore`, which has the lock.

Threats:
    token-file: Another user of the machine steals the user's refresh tokens by reading the file, or by creating it, or
        a link at its path, before the first sign-in. The store makes the file private from its first byte on, and
        refuses a file that is a link, belongs to another user, or is open to others.

Spec:  2026-07-28 basic/authorization/security-considerations#token-theft; 2026-07-28
       basic/authorization/client-registration#authorization-server-binding
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import stat
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from ...jsonrpc.messages import Object, parse_json
from .errors import AuthorizationError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

MAX_FILE: Final = 1024 * 1024
"""Maximum size of the file of a `FileStore`, in bytes."""
LOCK_SECONDS: Final = 60.0
"""Time that a program waits for another one that refreshes the same tokens, in seconds."""
_POLL_SECONDS: Final = 0.05
"""Time between two attempts to get a lock that another program holds, in seconds."""
_VERSION: Final = 1
_IS_WINDOWS: Final = sys.platform == "win32"
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)  # because a link could lead to a file of another user's choice


class MemoryStore:
    """A store in memory, and the base class of all stores. The values are secrets.

    Args of methods:
        key: The name of a value, such as "client|https://auth.example".
        value: A JSON object.
    """

    def __init__(self) -> None:
        self._values: dict[str, Object] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def get(self, key: str) -> Object | None:
        """Return the value of a key, or None."""
        return self._values.get(key)

    async def put(self, key: str, value: Object) -> None:
        """Set the value of a key."""
        self._values[key] = value

    async def delete(self, key: str) -> None:
        """Forget a key. Do nothing if it is unknown."""
        self._values.pop(key, None)

    @contextlib.asynccontextmanager
    async def lock(self, key: str) -> AsyncIterator[None]:
        """Return a lock that only one task holds at a time. Locks of different keys are independent."""
        async with self._locks.setdefault(key, asyncio.Lock()):
            yield


def default_path() -> Path:
    """Return the path of the default file: in XDG_STATE_HOME, on Windows in LOCALAPPDATA."""
    variable, default = ("LOCALAPPDATA", "AppData/Local") if _IS_WINDOWS else ("XDG_STATE_HOME", ".local/state")
    named = os.environ.get(variable)
    folder = Path(named) if named else Path.home() / default
    return folder / "mcp_ref" / "credentials.json"


class FileStore(MemoryStore):
    """A store in a file that only its owner can read, and that all programs with the same path share.

    Because the file is small, it is read at each use, and written as a whole. On Windows its permissions are not
    checked, because the user's folder is protected there.

    Args:
        path: The file. Default: `mcp_ref/credentials.json` in the user's folder for state.

    Raises:
        AuthorizationError: By all methods, if the file is not safe, cannot be read, or would become too large, and if
            another program holds a lock for too long.
        OSError: By `put`, `delete` and `lock`, if the file cannot be written, for example because the disk is full.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        super().__init__()
        self.path = default_path() if path is None else Path(path)

    async def get(self, key: str) -> Object | None:
        value = self._read().get(key)
        return value if isinstance(value, dict) else None

    async def put(self, key: str, value: Object) -> None:
        async with self._file_lock("file"):
            self._write({**self._read(), key: value})

    async def delete(self, key: str) -> None:
        async with self._file_lock("file"):
            values = self._read()
            if values.pop(key, None) is not None:
                self._write(values)

    @contextlib.asynccontextmanager
    async def lock(self, key: str) -> AsyncIterator[None]:
        async with super().lock(key), self._file_lock(hashlib.sha256(key.encode()).hexdigest()[:16]):
            yield

    @contextlib.asynccontextmanager
    async def _file_lock(self, name: str) -> AsyncIterator[None]:
        """Hold a lock file. The operating system frees it when the program ends, even if it is killed."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._check_folder()
        handle = os.open(f"{self.path}.{name}.lock", os.O_RDWR | os.O_CREAT | _NO_LINK, 0o600)
        try:
            waits_until = time.monotonic() + LOCK_SECONDS
            while not _try_lock(handle):
                if time.monotonic() > waits_until:
                    raise AuthorizationError(f"another program has locked {self.path} for {LOCK_SECONDS:g} s: end it")
                await asyncio.sleep(_POLL_SECONDS)
            yield
        finally:
            os.close(handle)

    def _check_folder(self) -> None:
        """Raise AuthorizationError if others can replace the file, as in a shared folder without a sticky bit."""
        status = os.stat(self.path.parent)
        anyone_can_replace = status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX
        if not _IS_WINDOWS and (anyone_can_replace or status.st_uid not in (0, os.geteuid())):
            raise AuthorizationError(f"{self.path} is not used: other users can replace it; choose a private folder")

    def _read(self) -> Object:
        try:
            handle = os.open(self.path, os.O_RDONLY | _NO_LINK | getattr(os, "O_NONBLOCK", 0))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._refusal(f"it cannot be opened ({error.strerror})") from None
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise self._refusal("it is not a regular file")
            if not _IS_WINDOWS and status.st_uid != os.geteuid():
                raise self._refusal("it belongs to another user")
            mode = status.st_mode & 0o777
            if not _IS_WINDOWS and mode & 0o077:
                raise self._refusal(f"other users may access it (mode {mode:o}); its secrets may be known")
            with open(handle, "rb", closefd=False) as file:
                data = file.read(MAX_FILE + 1)
        finally:
            os.close(handle)
        try:
            content = parse_json(data) if len(data) <= MAX_FILE else None
        except ValueError:  # it quotes the file, so it must not become the cause of the refusal below
            content = None
        if isinstance(content, dict) and content.get("version") == _VERSION:
            values = content.get("values")
            if isinstance(values, dict):
                return values
        raise self._refusal(f"it is not a credentials file of version {_VERSION}")

    def _refusal(self, why: str) -> AuthorizationError:
        return AuthorizationError(f"{self.path} is not used: {why}. Remove the file, and sign in again")

    def _write(self, values: Object) -> None:
        """Replace the file. The new one is private from the first byte on, and complete before it gets its name.

        The caller holds the lock, so no other program writes a new file.
        """
        data = json.dumps({"version": _VERSION, "values": values}).encode()
        if len(data) > MAX_FILE:
            raise AuthorizationError(f"{self.path} would have more than {MAX_FILE} bytes: sign out of some servers")
        new = self.path.with_name(f"{self.path.name}.new")
        new.unlink(missing_ok=True)  # of a program that was killed before it gave its file the name
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with open(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(handle)
            os.replace(new, self.path)
        except BaseException:
            new.unlink(missing_ok=True)
            raise


def _try_lock(handle: int) -> bool:
    """Lock an open file. Return False if another program, or another handle, holds the lock."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
