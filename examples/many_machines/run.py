"""Start nginx, Redis and four nodes on free ports, and show what works behind a load balancer.

    python3 examples/many_machines/run.py               needs nginx, redis-server, and the Python package redis
    python3 examples/many_machines/run.py --haproxy     HAProxy instead of nginx
    python3 examples/many_machines/run.py --postgres postgresql://user@host/database     changes go over PostgreSQL

Each line is one observation, for a client of the modern era (2026-07-28) and for one of the legacy era (2025-11-25).
The program ends with exit code 1 if one of them is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1])]

from mcp_ref import Client, ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult, McpError  # noqa: E402

NODES = "abcd"
ERAS = ("2026-07-28", "2025-11-25")
SECONDS = 10.0
"""Time limit of each step, in seconds."""
PROCESS_SECONDS = 60.0
"""Time limit for the start and the end of a program, in seconds: long, for a busy machine."""
SESSIONS = 50
"""Maximum number of sessions that one client can have on one node."""


def free_ports(count: int) -> list[int]:
    """Return ports of the loopback address that no program uses.

    They are below the ports of outgoing connections, or such a connection could take the port of a program that
    restarts.
    """
    free: list[int] = []
    for port in random.sample(range(10_000, 32_000), 1000):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            free.append(port)
        if len(free) == count:
            return free
    raise OSError("no port of 127.0.0.1 is free")


async def wait_until_listening(port: int) -> None:
    """Wait until a program listens on a port."""
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.02)
        else:
            writer.close()
            return


class Cluster:
    """Redis, a load balancer, and the nodes behind it, as processes of this machine.

    Args:
        folder: A folder for the files of Redis and the load balancer.
        environment: Further environment variables of the nodes.
        balancer: "nginx" or "haproxy".
    """

    def __init__(self, folder: Path, environment: dict[str, str] | None = None, balancer: str = "nginx") -> None:
        self.folder, self._balancer = folder, balancer
        self.port, self.redis_port, *ports = free_ports(2 + len(NODES))
        self.ports = dict(zip(NODES, ports, strict=True))
        self.processes: dict[str, asyncio.subprocess.Process] = {}
        """The running programs: "redis", "balancer", and the names of the nodes."""
        self._environment = os.environ | {
            "PYTHONPATH": str(HERE.parents[1]),
            "STATE_KEY": secrets.token_hex(32),
            "LEASE": "2",  # short, so that nobody has to wait
            "SESSIONS": str(SESSIONS),
            "REDIS_URL": f"redis://127.0.0.1:{self.redis_port}",
            **(environment or {}),
        }

    @property
    def url(self) -> str:
        """The URL of the load balancer."""
        return f"http://127.0.0.1:{self.port}/mcp"

    async def start(self, name: str, port: int, *command: str, node: str = "") -> None:
        """Start a program, and wait until it listens."""
        environment = self._environment | {"NODE": node, "PORT": str(port)}
        path = self.folder / f"{name}.log"
        with open(path, "ab") as log:
            process = self.processes[name] = await asyncio.create_subprocess_exec(
                *command, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        started, ended = asyncio.create_task(wait_until_listening(port)), asyncio.create_task(process.wait())
        await asyncio.wait([started, ended], timeout=PROCESS_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        is_listening = started.done() and process.returncode is None
        started.cancel()
        ended.cancel()
        if not is_listening:
            raise RuntimeError(f"{name} does not listen on port {port}: {path.read_text()[-2000:]}")

    async def start_redis(self, *options: str) -> None:
        """Start an empty Redis that writes nothing to the disk."""
        port = str(self.redis_port)
        await self.start("redis", self.redis_port, "redis-server", "--port", port, "--bind", "127.0.0.1",
                         "--save", "", "--dir", str(self.folder), *options)  # fmt: skip

    async def start_node(self, name: str) -> None:
        """Start a node."""
        await self.start(name, self.ports[name], sys.executable, str(HERE / "server.py"), node=name)

    async def start_balancer(self) -> None:
        """Start the load balancer with the configuration of this folder, whose ports are replaced."""
        source = HERE / ("nginx.conf" if self._balancer == "nginx" else "haproxy.cfg")
        ports = {8000: self.port, **{8001 + index: port for index, port in enumerate(self.ports.values())}}
        text = re.sub(r"(?<=127\.0\.0\.1:)\d{4}", lambda found: str(ports[int(found[0])]), source.read_text())
        configuration = self.folder / source.name
        if self._balancer == "nginx":  # without the rights of root, nginx cannot use its usual folders
            kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
            paths = "".join(f"    {kind}_temp_path {self.folder}/{kind};\n" for kind in kinds)
            configuration.write_text(text.replace("http {\n", f"http {{\n{paths}", 1))
            user = ("-g", "user root;") if os.geteuid() == 0 else ()
            command = ("nginx", "-p", str(self.folder), "-c", str(configuration), "-e", "stderr", *user)
        else:
            configuration.write_text(text)
            command = ("haproxy", "-db", "-f", str(configuration))
        await self.start("balancer", self.port, *command)

    async def stop(self, name: str, number: int = signal.SIGTERM) -> int:
        """End a program by a signal, and return its exit code."""
        process = self.processes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)  # a paused process would not handle the next signal
            process.send_signal(number)
        async with asyncio.timeout(PROCESS_SECONDS):
            return await process.wait()

    async def __aenter__(self) -> Cluster:
        try:
            await self.start_redis()
            await asyncio.gather(*(self.start_node(name) for name in NODES))
            await self.start_balancer()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        # nginx and HAProxy have processes of their own, which would survive if their parent were killed
        ends = {name: signal.SIGTERM if name == "balancer" else signal.SIGKILL for name in self.processes}
        await asyncio.gather(*(self.stop(name, number) for name, number in ends.items()))


async def answer(request: ElicitRequestFormParams | ElicitRequestURLParams) -> ElicitResult:
    """Fill in the form of `greet`."""
    return ElicitResult("accept", {"name": "Ada"})


def client_of(url: str, revision: str) -> Client:
    """Return a client whose user answers the server's questions."""
    return Client(url, revision=revision, elicitation=answer, timeout=SECONDS)


async def calls(url: str, revision: str, count: int = 12) -> Counter[str]:
    """Return how many calls each node has served."""
    async with client_of(url, revision) as client:
        return Counter([(await client.call_tool("which_node")).text for _ in range(count)])


async def updates(url: str, revision: str, count: int = 8) -> int:
    """Return how many updates of a note arrive, when other clients change it through the load balancer."""
    async with client_of(url, revision) as client, client.subscribe("notes://shared") as changed:
        arrived = 0
        for number in range(count):
            async with client_of(url, ERAS[0]) as writer:
                await writer.call_tool("write", {"name": "shared", "text": str(number)})
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SECONDS / 5):
                    await anext(changed)
                    arrived += 1
        return arrived


async def tools(cluster: Cluster, revision: str, word: str) -> set[int]:
    """Return the different numbers of tools of the nodes, after one of them has learned a word."""
    async with client_of(cluster.url, revision) as client, client.watch_lists("tools") as changed:
        learned = await client.call_tool("learn", {"word": word})
        assert not learned.is_error, learned.text
        async with asyncio.timeout(SECONDS):
            await anext(changed)
    counts: set[int] = set()
    for _ in range(100):  # the other nodes load their list at the same time
        counts = set()
        for port in cluster.ports.values():
            async with client_of(f"http://127.0.0.1:{port}/mcp", revision) as client:
                counts.add(len(await client.list_tools()))
        if len(counts) == 1:
            break
        await asyncio.sleep(0.05)
    return counts


async def failover(cluster: Cluster, number: int) -> tuple[str, str]:
    """End the node of a session. Return the names of the nodes before and after; "" if the session has ended."""
    handshakes = 0

    def trace(direction: str, frame: bytes) -> None:
        nonlocal handshakes
        if direction == "->" and b'"initialize"' in frame:
            handshakes += 1

    async with Client(cluster.url, revision=ERAS[1], timeout=SECONDS, trace=trace) as client:
        before = (await client.call_tool("which_node")).text
        await cluster.stop(before, number)
        async with asyncio.timeout(2 * SECONDS):
            while True:
                try:
                    after = (await client.call_tool("which_node")).text
                    break
                except McpError:  # until the lease of the killed node has ended
                    await asyncio.sleep(0.1)
        await cluster.start_node(before)
        again = (await client.call_tool("which_node")).text  # the session stays where it is
        has_continued = handshakes == 1 and again == after
        return before, after if has_continued else ""


async def post(port: int, address: str, method: str, params: dict[str, object], session: str = "") -> tuple[int, str]:
    """Send a request as a client with another address. Return the status, and the id of the session."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    lines = [
        "POST /mcp HTTP/1.1", f"Host: 127.0.0.1:{port}", "Connection: close", f"Content-Length: {len(body)}",
        "Content-Type: application/json", "Accept: application/json, text/event-stream",
        *([f"Mcp-Session-Id: {session}"] if session else []),
    ]  # fmt: skip
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
    writer.write("\r\n".join([*lines, "", ""]).encode() + body)
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    writer.close()
    found = re.search(r"(?im)^mcp-session-id: (\S+)", head)
    return int(head.split()[1]), found[1] if found else ""


async def other_clients(cluster: Cluster) -> bool:
    """Return True if a client keeps its session while another one begins more sessions than it can have."""
    about: dict[str, object] = {
        "protocolVersion": ERAS[1],
        "capabilities": {},
        "clientInfo": {"name": "many", "version": "1"},
    }
    status, session = await post(cluster.port, "127.0.0.1", "initialize", about)
    assert status == 200
    for _ in range(len(NODES) * SESSIONS + 1):
        status, _ = await post(cluster.port, "127.0.0.2", "initialize", about)
        assert status == 200
    status, _ = await post(cluster.port, "127.0.0.1", "ping", {}, session)
    return status == 200


async def rolling_restart(cluster: Cluster, revision: str) -> tuple[int, int]:
    """Restart each node while clients call tools. Return the number of calls, and of those that failed."""
    done, made, failed = asyncio.Event(), 0, 0

    async def load(calls: int) -> None:
        nonlocal made, failed
        while not done.is_set():
            try:
                async with client_of(cluster.url, revision) as client:
                    for _ in range(calls):
                        if done.is_set():
                            break
                        made += 1
                        await client.call_tool("slow", {"seconds": 0.01})
            except McpError as error:
                failed += 1
                print(f"    {revision}: {error}", file=sys.stderr)

    async with asyncio.TaskGroup() as group:
        for calls in (20, 20, 10**6, 10**6):  # new sessions begin all the time, and two live through all restarts
            group.create_task(load(calls))
        for name in NODES:
            assert await cluster.stop(name) == 0
            await cluster.start_node(name)
            await asyncio.sleep(0.2)
        done.set()
    return made, failed


async def together(cluster: Cluster) -> AsyncIterator[tuple[str, bool]]:
    """Yield observations of features that work on four nodes as on one, each with True if it is right."""
    for revision in ERAS:
        served = await calls(cluster.url, revision)
        wanted = {3} if revision == ERAS[0] else {12}
        yield f"{revision}: 12 calls: {dict(served)}", set(served.values()) == wanted
        async with client_of(cluster.url, revision) as client:
            texts = [(await client.call_tool("greet")).text for _ in range(4)]
        yield f"{revision}: elicitation: {texts[0]!r}, ...", all(text.startswith("Ada on ") for text in texts)
        async with client_of(cluster.url, revision) as client:
            done = [(await client.call_tool("count_to", {"number": 5})).text for _ in range(4)]
        yield f"{revision}: results of tasks: {done[0]!r}, ...", all(text.startswith("5 on ") for text in done)
        arrived = await updates(cluster.url, revision)
        yield f"{revision}: updates of a resource, changed on any node: {arrived} of 8", arrived == 8
        counts = await tools(cluster, revision, f"w{revision[:4]}")
        yield f"{revision}: tools of the nodes after one has learned one: {counts}", len(counts) == 1
    kept = await other_clients(cluster)
    yield f"{ERAS[1]}: a client keeps its session while another one begins {len(NODES) * SESSIONS + 1}: {kept}", kept


async def failovers(cluster: Cluster) -> AsyncIterator[tuple[str, bool]]:
    """Yield observations of sessions whose nodes end, each with True if it is right."""
    for number, end in ((signal.SIGTERM, "stopped"), (signal.SIGKILL, "killed")):
        before, after = await failover(cluster, number)
        yield f"{ERAS[1]}: a session of a {end} node continues: from {before} on {after}", after not in (before, "")


async def restarts(cluster: Cluster) -> AsyncIterator[tuple[str, bool]]:
    """Yield observations of calls while each node is restarted, each with True if it is right."""
    for revision in ERAS:
        made, failed = await rolling_restart(cluster, revision)
        yield f"{revision}: calls during a restart of each node: {made}, failed: {failed}", made > 0 and failed == 0


async def main(arguments: Iterable[str] | None = None) -> int:
    """Show all observations. Return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--haproxy", action="store_true")
    parser.add_argument("--postgres", metavar="URL")
    options = parser.parse_args(arguments if arguments is None else [*arguments])
    environment = {"BROADCAST": options.postgres} if options.postgres else {}
    all_right = True
    with tempfile.TemporaryDirectory(prefix="mcp_ref-") as folder:
        async with Cluster(Path(folder), environment, "haproxy" if options.haproxy else "nginx") as cluster:
            for observations in (together, failovers, restarts):
                async for text, is_right in observations(cluster):
                    print("right" if is_right else "WRONG", text, flush=True)
                    all_right = all_right and is_right
    return 0 if all_right else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
