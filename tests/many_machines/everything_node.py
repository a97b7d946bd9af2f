"""One of four nodes that serve examples/everything.py, for the clients and the suite of other projects."""

import functools
import os

from redis_broadcast import RedisBroadcast
from redis_store import RedisEventStore

import mcp_ref

url = os.environ["REDIS_URL"]
# everything.py creates its server itself, and knows nothing of nodes
mcp_ref.Server = functools.partial(  # type: ignore[misc]
    mcp_ref.Server,
    node=os.environ["NODE"],
    state_key=bytes.fromhex(os.environ["STATE_KEY"]),
    broadcast=RedisBroadcast(url),
)

from tests.interop.peers.served import server  # noqa: E402

server.run_http(
    port=int(os.environ["PORT"]), store=RedisEventStore(url, lease_seconds=2), health=True,
    trusted_proxies=["127.0.0.1"],
)  # fmt: skip
