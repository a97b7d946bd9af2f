"""A database server: a language model can read an SQLite file, but cannot change it.

New here: *a server does not trust the input from a model*. The server opens the file read-only. An authorizer function
allows only SELECT, and refuses ATTACH, PRAGMA and extensions. Time, memory, rows and bytes have limits.

    python3 examples/database.py                        serves a sample, or the file that DATABASE names
    python3 -m mcp_ref call query "sql=SELECT name FROM planets WHERE moons > 20" -- python3 examples/database.py
    python3 -m mcp_ref read db://schema -- python3 examples/database.py

Watch it fail: the server refuses the first statement. The value of the second statement is larger than the limit.

    python3 -m mcp_ref call query "sql=DELETE FROM planets" -- python3 examples/database.py
    python3 -m mcp_ref call query "sql=SELECT zeroblob(1000000000)" -- python3 examples/database.py
"""

import atexit
import os
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from mcp_ref import Server, ToolAnnotations, ToolError

STEPS, ROWS, BYTES = 20_000_000, 200, 100_000  # limits of one query; the steps take about one second


def sample() -> str:
    """Create a small database in a file that is deleted at the end."""
    folder = tempfile.TemporaryDirectory(prefix="mcp_ref-")
    atexit.register(folder.cleanup)
    with closing(sqlite3.connect(f"{folder.name}/planets.db")) as db, db:
        db.execute("CREATE TABLE planets (name TEXT PRIMARY KEY, radius_km INTEGER, moons INTEGER)")
        db.execute("INSERT INTO planets VALUES ('Earth', 6371, 1), ('Mars', 3390, 2), ('Jupiter', 69911, 97)")
    return f"{folder.name}/planets.db"


DATABASE = Path(os.environ.get("DATABASE") or sample()).resolve()
server = Server("database", "1.0", instructions="Read db://schema, then use the query tool with SQLite's SQL.")


@dataclass
class Rows:
    """The result of a query."""

    columns: list[str]
    rows: list[list[str | int | float | None]]


def allow(action: int, *names: str | None) -> int:
    """Allow or deny an action of a statement. SQLite calls this while it compiles the statement."""
    reading = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE, sqlite3.SQLITE_FUNCTION}
    return sqlite3.SQLITE_OK if action in reading and "load_extension" not in names else sqlite3.SQLITE_DENY


def connect() -> sqlite3.Connection:
    """Open a connection for one query, with all limits set."""
    db = sqlite3.connect(DATABASE.as_uri() + "?mode=ro", uri=True)
    db.text_factory = lambda text: text.decode("utf-8", "replace")  # SQLite does not check that a text is UTF-8
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, BYTES)
    db.set_progress_handler(lambda: True, STEPS)  # SQLite calls this after STEPS steps; True ends the query
    db.executescript("PRAGMA temp_store = MEMORY; PRAGMA hard_heap_limit = 50000000")
    db.set_authorizer(allow)
    return db


def to_json(value: str | int | float | bytes | None) -> str | int | float | None:
    """Return a value as JSON. Bytes and infinity become strings, because JSON has neither."""
    plain = value.hex() if isinstance(value, bytes) else value
    return str(plain) if plain in (9e999, -9e999) else plain


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def query(sql: Annotated[str, "One SELECT statement, in SQLite's dialect", {"maxLength": 10_000}]) -> Rows:
    """Run a SELECT statement."""
    rows, size = [], 0
    try:
        with closing(connect()) as db, closing(db.execute(sql)) as cursor:
            for row in cursor:
                rows.append([to_json(value) for value in row])
                size += sum(len(str(value)) for value in rows[-1])
                if size > BYTES or len(rows) > ROWS:
                    raise ToolError(f"The result has more than {ROWS} rows or {BYTES} bytes: use a LIMIT clause")
            return Rows([column[0] for column in cursor.description or ()], rows)
    except (sqlite3.Error, ValueError, MemoryError) as error:
        raise ToolError(f"SQLite says: {str(error) or 'out of memory'}") from None


@server.resource("db://schema", mime_type="application/sql")
def schema() -> str:
    """The SQL statements that created the tables and views."""
    with closing(connect()) as db:
        return ";\n".join(sql for (sql,) in db.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"))


if __name__ == "__main__":
    server.run()
