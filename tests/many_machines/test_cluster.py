"""The example with four nodes behind real load balancers: each row of its README, and the cost of a call."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from run import ERAS, NODES, SECONDS, Cluster, client_of, failovers, restarts, together

from mcp_ref import HttpClient
from mcp_ref.jsonrpc.errors import McpError
from tests.many_machines.conftest import need
from tests.raw_http_client import ServedApp
from tests.settings import ROOT

EXAMPLE = ROOT / "examples" / "many_machines"
BALANCERS = pytest.mark.parametrize("balancer", ["nginx", "haproxy"])
MODERN, LEGACY = ERAS


@BALANCERS
@pytest.mark.parametrize("observations", [together, failovers, restarts])
async def test_observations_of_run_are_right(balancer: str, observations: Any, tmp_path: Path) -> None:
    need(balancer, "redis-server", "redis", "psycopg")
    async with Cluster(tmp_path, balancer=balancer) as cluster:
        seen = [(text, is_right) async for text, is_right in observations(cluster)]
    assert seen and all(is_right for _, is_right in seen), seen


async def test_changes_reach_the_subscribers_of_all_nodes_over_postgres(tmp_path: Path, postgres: str) -> None:
    need("nginx", "redis-server", "redis")
    from run import updates

    async with Cluster(tmp_path, {"BROADCAST": postgres}) as cluster:
        assert [await updates(cluster.url, revision) for revision in ERAS] == [8, 8]


@BALANCERS
async def test_request_of_a_dead_nodes_session_gets_404_and_the_client_begins_a_new_session(
    balancer: str, tmp_path: Path
) -> None:
    need(balancer, "redis-server", "redis", "psycopg")
    async with Cluster(tmp_path, balancer=balancer) as cluster, client_of(cluster.url, LEGACY) as client:
        node = (await client.call_tool("which_node")).text
        await cluster.stop(node, signal.SIGKILL)
        async with asyncio.timeout(SECONDS):
            while True:  # HAProxy notices the end of the node at its next check
                try:
                    other = (await client.call_tool("which_node")).text
                    break
                except McpError:
                    await asyncio.sleep(0.05)
        assert other in set(NODES) - {node}


@BALANCERS
async def test_operators_paths_and_foreign_node_names_are_not_forwarded(balancer: str, tmp_path: Path) -> None:
    need(balancer, "redis-server", "redis", "psycopg")
    async with Cluster(tmp_path, balancer=balancer) as cluster, HttpClient() as http:
        for path in ("livez", "readyz", "metrics"):
            async with http.request("GET", f"http://127.0.0.1:{cluster.port}/{path}", {}) as response:
                assert response.status == 404
            async with http.request("GET", f"http://127.0.0.1:{cluster.ports['a']}/{path}", {}) as response:
                assert response.status == 200
        for id in ("evil.example", "z.x", "a.unknown", "."):
            headers = {"Mcp-Session-Id": id, "Accept": "text/event-stream"}
            async with http.request("GET", cluster.url, headers) as response:
                assert response.status == 404


@BALANCERS
async def test_http_sse_reaches_the_node_of_its_stream(balancer: str, tmp_path: Path) -> None:
    need(balancer, "redis-server", "redis", "psycopg")
    async with Cluster(tmp_path, balancer=balancer) as cluster:
        web = ServedApp(None, ("127.0.0.1", cluster.port))  # type: ignore[arg-type]
        try:
            for _ in range(4):  # one stream on each node
                stream = await web.ask("GET", "/sse")
                event = await stream.event()
                assert event is not None
                body = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
                post = await web.ask("POST", event["data"], body, "Content-Type: application/json")
                assert post.status == 202
                assert "jsonrpc" in await stream.object()
        finally:
            await web.close()


async def unsaved_sessions(cluster: Cluster) -> int:
    """Return the number of sessions with changes that a node has not saved yet."""
    count = 0
    async with HttpClient() as http:
        for port in cluster.ports.values():
            async with http.request("GET", f"http://127.0.0.1:{port}/metrics", {}) as response:
                found = re.search(rb"^mcp_unsaved_sessions (\d+)$", await response.read(100_000), re.MULTILINE)
                assert found is not None
                count += int(found[1])
    return count


async def test_stateless_call_costs_no_command_of_redis_and_a_change_costs_one(tmp_path: Path) -> None:
    need("nginx", "redis-server", "redis", "psycopg")
    from redis.asyncio import Redis

    async with Cluster(tmp_path, {"LEASE": "1000"}) as cluster:  # long, so that no renewal is counted
        redis = Redis.from_url(f"redis://127.0.0.1:{cluster.redis_port}")

        async def commands() -> dict[str, int]:
            """Return the number of calls of each command, except those of this test and of idle connections."""
            found = await redis.info("commandstats")
            counts = {name.removeprefix("cmdstat_"): int(each["calls"]) for name, each in found.items()}
            own = ("info", "ping", "hello", "client|setinfo", "client|setname")
            return {name: count for name, count in counts.items() if name not in own}

        async def wait_for(wanted: dict[str, int]) -> None:
            async with asyncio.timeout(SECONDS):
                while await commands() != wanted:
                    await asyncio.sleep(0.02)

        started = {"subscribe": len(NODES), "smembers": len(NODES)}
        await wait_for(started)
        async with client_of(cluster.url, MODERN) as client:
            for _ in range(20):
                await client.call_tool("which_node")
            assert await commands() == started
            await client.call_tool("write", {"name": "x", "text": "y"})
            await wait_for({**started, "hset": 1, "publish": 1})
        async with client_of(cluster.url, LEGACY) as client:
            await client.call_tool("which_node")
            async with asyncio.timeout(SECONDS):
                while await unsaved_sessions(cluster):  # the node saves the new session, and the events of the call
                    await asyncio.sleep(0.02)
            before = (await commands())["eval"]
            for _ in range(20):
                await client.call_tool("greet")  # two exchanges: the question, and the result
            assert (await commands())["eval"] - before <= 2 * 20
        await redis.aclose()


def test_nginx_accepts_the_configuration_for_kubernetes(tmp_path: Path) -> None:
    need("nginx")
    text = (EXAMPLE / "kubernetes.yaml").read_text()
    block = re.search(r"  nginx\.conf: \|\n((?:    .*\n|\n)+)", text)
    assert block is not None
    # outside of Kubernetes, its name server is unknown
    configuration = block[1].replace("kube-dns.kube-system.svc.cluster.local", "127.0.0.1")
    (tmp_path / "nginx.conf").write_text(f"pid {tmp_path}/nginx.pid;\n{configuration}")
    command = ["nginx", "-t", "-e", "stderr", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
