"""A broadcast over Redis: the processes of a server announce their changes on one channel of `PUBLISH` and `SUBSCRIBE`.

    Server("notes", broadcast=RedisBroadcast("redis://10.0.0.5:6379"))

Redis stores nothing: a process that is not connected misses a message. It learns this from Redis itself, because each
new subscription begins with a message of the type "subscribe". The client library subscribes again after a lost
connection, so this message also shows a gap.
"""

from __future__ import annotations

from collections.abc import Callable

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

CHECK_SECONDS = 5.0
"""Time without a message after which a ping checks the connection, in seconds."""
CONNECT_SECONDS = 2.0
"""Time limit of a connection and of a command, in seconds."""


class RedisBroadcast:
    """A channel of Redis.

    Args:
        url: The URL of Redis, such as "redis://:password@10.0.0.5:6379" or "rediss://..." for TLS.
        channel: The name of the channel, different for each server that uses the same Redis.
    """

    def __init__(self, url: str, channel: str = "mcp") -> None:
        self._channel = channel
        # No retries by the library, because the server itself tries again, and logs that Redis cannot be reached.
        no_retry = Retry(NoBackoff(), 0)
        self._publisher = Redis.from_url(
            url, socket_connect_timeout=CONNECT_SECONDS, socket_timeout=CONNECT_SECONDS, retry=no_retry
        )
        self._subscriber = Redis.from_url(
            url, socket_connect_timeout=CONNECT_SECONDS, socket_keepalive=True, retry=no_retry,
            health_check_interval=CHECK_SECONDS,
        )  # fmt: skip

    async def publish(self, change: bytes) -> None:
        """Send a message to all processes."""
        await self._publisher.publish(self._channel, change)

    async def listen(self, receive: Callable[[bytes], None], gap: Callable[[], None]) -> None:
        """Receive the messages of all processes until the task is cancelled, or Redis cannot be reached."""
        try:
            async with self._subscriber.pubsub() as channel:
                await channel.subscribe(self._channel)
                while True:
                    # with a time limit, because the library checks the connection only when it is asked for a message
                    message = await channel.get_message(timeout=CHECK_SECONDS)
                    if message is not None and message["type"] == "subscribe":
                        gap()
                    elif message is not None and message["type"] == "message":
                        receive(message["data"])
        finally:  # the server stops, or calls `listen` again: both connect again when they are used
            await self._subscriber.aclose()
            await self._publisher.aclose()
