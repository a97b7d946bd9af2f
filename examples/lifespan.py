"""A guest book in a database that the server opens once, and closes at the end.

New here: a *lifespan*. The server enters the context manager `open_book` before it serves the first client, and leaves
it at the end. Over HTTP there can be many clients, but they share one connection to the database. A tool with a
parameter `context: Context[Book]` finds the yielded object in `context.state`.

    python3 examples/lifespan.py                        serves over stdio
    python3 -m mcp_ref call sign name=Ada -- python3 examples/lifespan.py
    python3 -m mcp_ref call guests --stderr -- python3 examples/lifespan.py
    python3 -m mcp_ref call guests -- env BOOK=:memory: python3 examples/lifespan.py

Watch it fail: the folder of the database does not exist. The server says so, and serves nobody.

    python3 -m mcp_ref call guests -- env BOOK=/no/such/folder/book.db python3 examples/lifespan.py
"""

import os
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Annotated

from mcp_ref import Context, Server, ToolAnnotations

MAX_GUESTS = 1000
"""Maximum number of guests in the book. A further guest replaces the oldest."""


class Book:
    """The guest book. The tools are `async def`, so they run one after another on the event loop."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self.database = database
        database.execute("CREATE TABLE IF NOT EXISTS guests (number INTEGER PRIMARY KEY, name TEXT)")

    def add(self, name: str) -> int:
        """Add a guest, and return the number of the guest."""
        with self.database:  # a transaction
            number = self.database.execute("INSERT INTO guests (name) VALUES (?)", (name,)).lastrowid or 0
            self.database.execute("DELETE FROM guests WHERE number <= ?", (number - MAX_GUESTS,))
        return number

    def names(self) -> list[str]:
        """Return the names of all guests, in the order in which they signed."""
        return [name for (name,) in self.database.execute("SELECT name FROM guests ORDER BY number")]


@asynccontextmanager
async def open_book(server: Server) -> AsyncIterator[Book]:
    """Open the database, and close it at the end, also after an error or a signal."""
    path = os.environ.get("BOOK", ":memory:")
    with closing(sqlite3.connect(path)) as database:
        book = Book(database)
        yield book
        print(f"closed {path} with {len(book.names())} guests", file=sys.stderr)


server = Server("guests", "1.0", lifespan=open_book)


@server.tool()
async def sign(name: Annotated[str, {"minLength": 1, "maxLength": 100}], context: Context[Book]) -> str:
    """Write a name into the guest book."""
    return f"Welcome, {name}! You are guest number {context.state.add(name)}."


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def guests(context: Context[Book]) -> list[str]:
    """List the guests, from the first to the last."""
    return context.state.names()


if __name__ == "__main__":
    server.run()
