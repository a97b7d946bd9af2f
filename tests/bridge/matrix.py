"""The matrix of the bridge: 6 x 6 revisions, over stdio and HTTP on each side, with fifteen exchanges in each cell.

    python3 -m tests.bridge.matrix            all 144 cells, printed as a table
    python3 -m tests.bridge.matrix http-http  the cells of one combination of transports

A cell shows the number of exchanges with the predicted outcome. Exchanges with another outcome follow the table.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Literal

from mcp_ref import Client
from mcp_ref.bridge.bridge import Bridge
from mcp_ref.revisions import REVISIONS, Revision
from tests.bridge.back import make_back
from tests.bridge.exchanges import EXCHANGES, Notes, client_options, expected
from tests.forked_python import forked
from tests.settings import PATIENCE, ROOT

TransportName = Literal["stdio", "http", "memory"]
TRANSPORTS: tuple[TransportName, ...] = ("stdio", "http")


@asynccontextmanager
async def cell(
    front: Revision, back: Revision, front_transport: TransportName, back_transport: TransportName, notes: Notes
) -> AsyncIterator[Client]:
    """Return a context manager with a client that is connected to a server through a bridge."""
    async with AsyncExitStack() as stack:
        entry: Any = make_back(back.name)
        if back_transport == "http":
            entry = {"url": _older_path(await stack.enter_async_context(entry.serve_http()), back)}
        elif back_transport == "stdio":
            command, *arguments = forked("-m", "tests.bridge.back", back.name)
            entry = {"command": command, "args": arguments, "cwd": str(ROOT)}
        options = client_options(notes)
        if front_transport == "stdio":
            assert back_transport != "memory"
            words = [entry["url"]] if back_transport == "http" else ["--", entry["command"], *entry["args"]]
            chosen = ["--revision", front.name, "--back-revision", back.name]
            server: Any = forked("-m", "mcp_ref", "bridge", *chosen, *words)
            options["cwd"] = ROOT
        else:
            server = Bridge(servers={"back": entry}, revisions=[front], back_revisions=[back])
            server.server.tasks.poll_interval = 20  # milliseconds
            if front_transport == "http":
                server = _older_path(await stack.enter_async_context(server.server.serve_http()), front)
        yield await stack.enter_async_context(Client(server, **options))


def _older_path(url: str, revision: Revision) -> str:
    """Return the URL of HTTP+SSE for the revisions that have no other HTTP transport."""
    return url.replace("/mcp", "/sse") if revision <= REVISIONS[1] else url


async def outcomes(
    front: Revision, back: Revision, front_transport: TransportName, back_transport: TransportName
) -> dict[str, tuple[object, object]]:
    """Return the exchanges of a cell whose outcome is not the predicted one: (outcome, prediction)."""
    wrong: dict[str, tuple[object, object]] = {}
    notes = Notes(PATIENCE if expected("cancel", front, back) else 0.05)
    async with cell(front, back, front_transport, back_transport, notes) as client:
        for name, play in EXCHANGES.items():
            try:
                async with asyncio.timeout(30):
                    outcome = await play(client, notes)
            except Exception as error:
                outcome = error
            predicted = expected(name, front, back)
            if outcome != predicted:
                wrong[name] = (outcome, predicted)
    return wrong


async def main(only: str = "") -> int:
    logging.disable(logging.ERROR)
    faults = 0
    for front_transport in TRANSPORTS:
        for back_transport in TRANSPORTS:
            if only not in ("", f"{front_transport}-{back_transport}"):
                continue
            print(f"\nclient over {front_transport}, server over {back_transport}; rows: client, columns: server")
            print(" " * 12 + "  ".join(each.name for each in REVISIONS))
            notes = []
            for front in REVISIONS:
                cells = []
                for back in REVISIONS:
                    wrong = await outcomes(front, back, front_transport, back_transport)
                    cells.append(f"{len(EXCHANGES) - len(wrong)}/{len(EXCHANGES)}".rjust(10))
                    notes += [f"{front} {back} {name}: {value!r:.300}" for name, value in wrong.items()]
                print(front.name + "  " + "  ".join(cells), flush=True)
            print("\n".join(notes))
            faults += len(notes)
    print(f"{faults} exchanges with another outcome than predicted")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:2])))
