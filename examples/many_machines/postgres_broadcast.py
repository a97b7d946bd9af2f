"""A broadcast over PostgreSQL, with `LISTEN` and `NOTIFY`: for a server that has a database, and no Redis.

    Server("notes", broadcast=PostgresBroadcast("postgresql://mcp@10.0.0.6/notes"))

A payload of `NOTIFY` has less than 8,000 bytes, so a change is only a key, such as the URI of a resource. The processes
read the content from the database. `NOTIFY` takes part in transactions: a tool that changes a row, and announces it
after its commit, is safe.

A connection that listens must stay open, so no pooler such as PgBouncer may stand in between, except in session mode.
"""

from __future__ import annotations

from collections.abc import Callable

from psycopg import AsyncConnection, sql

CONNECT_SECONDS = 2
"""Time limit of a connection, in seconds."""


class PostgresBroadcast:
    """A channel of PostgreSQL.

    Args:
        url: The connection string, such as "postgresql://user:password@host/database".
        channel: The name of the channel, different for each server that uses the same database.
    """

    def __init__(self, url: str, channel: str = "mcp") -> None:
        self._url, self._channel = url, channel
        self._publisher: AsyncConnection | None = None

    async def publish(self, change: bytes) -> None:
        """Send a message to all processes."""
        if self._publisher is None or self._publisher.closed:
            self._publisher = await self._connect()
        await self._publisher.execute("SELECT pg_notify(%s, %s)", (self._channel, change.decode()))

    async def listen(self, receive: Callable[[bytes], None], gap: Callable[[], None]) -> None:
        """Receive the messages of all processes until the task is cancelled, or PostgreSQL cannot be reached."""
        try:
            async with await self._connect() as connection:
                await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
                gap()
                async for notification in connection.notifies():
                    receive(notification.payload.encode())
        finally:  # the server stops, or calls `listen` again
            if self._publisher is not None:
                await self._publisher.close()

    async def _connect(self) -> AsyncConnection:
        # with TCP keepalive, so that a connection to a dead machine ends after about 11 seconds
        return await AsyncConnection.connect(
            self._url, autocommit=True, connect_timeout=CONNECT_SECONDS, keepalives_idle=5, keepalives_interval=2,
            keepalives_count=3,
        )  # fmt: skip
