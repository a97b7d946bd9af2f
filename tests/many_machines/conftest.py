"""Real engines for the tests: nginx, HAProxy, Redis and PostgreSQL, as processes of the test on loopback.

Without an engine, or without its Python library, a test skips and says why. With MCP_REF_ENGINES=1, as in `.ci/run`,
the missing engine is a failure.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from tests.settings import ROOT, run

sys.path.append(str(ROOT / "examples" / "many_machines"))

POSTGRES = [*Path("/usr/lib/postgresql").glob("*/bin")]
"""The folders of PostgreSQL's programs on Debian, which are not in PATH."""


SECONDS = 110.0
"""Maximum time of one test, in seconds. Its programs need some seconds, but much more on a busy machine."""


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test of this folder on an event loop of its own, for at most `SECONDS`."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}), SECONDS)
    return True


def has_library(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # the package that contains the module is missing
        return False


def skip(why: str) -> NoReturn:
    """Skip the test, or fail where `.ci/run` has installed everything."""
    if os.environ.get("MCP_REF_ENGINES"):
        pytest.fail(why)
    pytest.skip(why)


def need(*names: str) -> None:
    """Skip the test, or fail, if a program or a Python library is missing."""
    for name in names:
        is_there = bool(POSTGRES) if name == "postgres" else bool(shutil.which(name)) or has_library(name)
        if not is_there:
            skip(f"{name} is not installed; `.ci/engines` installs it on Debian")


@pytest.fixture
def engines() -> None:
    """Skip the test without a load balancer, Redis, and the libraries of the nodes."""
    need("redis-server", "nginx", "redis", "psycopg")


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Run an empty PostgreSQL. Give the URL of a database."""
    need("postgres", "psycopg")
    # PostgreSQL does not run as root. Its user cannot enter the folders of pytest, which are closed to others.
    as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    folder = Path(tempfile.mkdtemp(prefix="mcp_ref-postgres-"))
    try:
        if as_user:
            shutil.chown(folder, "postgres")
        data, binaries = folder / "data", POSTGRES[-1]
        initdb = [*as_user, str(binaries / "initdb"), "-D", str(data), "-A", "trust", "-N", "-U", "postgres"]
        subprocess.run(initdb, cwd=folder, check=True, stdout=subprocess.DEVNULL, timeout=60)
        from run import free_ports

        (port,) = free_ports(1)
        options = f"-p {port} -h 127.0.0.1 -k {folder} -c fsync=off"
        control = [*as_user, str(binaries / "pg_ctl"), "-D", str(data), "-w", "-l", str(folder / "log")]
        subprocess.run(
            [*control, "-o", options, "start"], cwd=folder, check=True, stdout=subprocess.DEVNULL, timeout=60
        )
        try:
            yield f"postgresql://postgres@127.0.0.1:{port}/postgres"
        finally:
            stop = [*control, "-m", "immediate", "stop"]
            subprocess.run(stop, cwd=folder, check=True, stdout=subprocess.DEVNULL, timeout=60)
    finally:
        shutil.rmtree(folder)
