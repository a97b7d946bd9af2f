"""A recorded server plays its part again, over stdio or Streamable HTTP, without the real one.

A request with the method and params of a recorded one gets the messages that the server sent then, in their order:
progress with the new token, log messages, requests of the server (after each of which the replay waits for the client's
response), and the response with the new id. A request that was not recorded gets an error that names the nearest
recorded one.

Spec:  basic/transports (2024-11-05 to 2025-11-25); 2026-07-28 basic/transports/index
Used by: cli/replay.py. Uses: exchanges.py, lib/http/
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import json
import sys
import threading
from collections.abc import AsyncIterator, Callable, Collection
from concurrent.futures import CancelledError
from typing import Final

from ..basic.versioning import PROTOCOL_VERSION, SUBSCRIPTION_ID, UNSUPPORTED_PROTOCOL_VERSION
from ..jsonrpc.messages import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    JSON,
    METHOD_NOT_FOUND,
    Incoming,
    Message,
    Object,
    encode,
    read_message,
)
from ..lib.http.message import Exchange, bracket_ipv6
from ..lib.http.origin import parse_url
from ..lib.http.server import start_server
from ..lib.http.sse import encode_event
from ..transports.base import Transport
from .exchanges import Cassette, RecordedRequest, member, objects_in, with_replaced_members

PROBES: Final = ("server/discover", "initialize", "ping")
"""Methods by which a client finds out the server's revision. A client may send them even if they were not recorded."""
BRIDGE_METHODS: Final = (
    "tools/list", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "subscriptions/listen",
)  # fmt: skip
"""Methods that a bridge also sends on its own, without a request of its client."""
MAX_OPEN: Final = 1000
"""Maximum number of a client's requests without a response. Further requests are refused."""
CLIENT_SECONDS: Final = 60.0
"""Maximum time for a client's response to a request of the server, in seconds."""
MAX_LINES: Final = 100
"""Maximum number of unhandled lines of the client. Above it we stop reading, so the pipe fills and the client waits."""
SESSION: Final = "replay"
"""The session id of every client over HTTP."""

Send = Callable[[Object], object]
"""A function that sends a message to one client."""


class Player:
    """The recorded server. Over stdio it has one client; over HTTP, it serves all clients.

    Args:
        cassette: The recorded requests.
        speed: Factor by which the recorded pauses are shortened. 0 leaves the pauses out.
        tolerated: Methods that are not reported as the client's mistake if they were not recorded.
    """

    def __init__(self, cassette: Cassette, speed: float = 0.0, tolerated: Collection[str] = PROBES) -> None:
        self.cassette, self._speed, self._tolerated = cassette, speed, tolerated
        self._ids = itertools.count(1)
        self._awaited: dict[str, asyncio.Event] = {}
        """An event for each of the server's own requests, by id. It is set when the client has responded."""

    async def answer(self, request: Object, send: Send) -> None:
        """Send the recorded messages that belong to a request. Wait forever if the recorded server did not respond."""
        revision = _named_revision(request)
        names_other_revision = revision is not None and revision != self.cassette.revision
        recorded = None if names_other_revision else self.cassette.take(request)
        if recorded is None:
            outcome = self._unrecorded_outcome(request, names_other_revision)
            send({"jsonrpc": "2.0", "id": request["id"], **outcome})
            return
        sent_before_at = recorded.request.at
        for sent in recorded.messages:
            if self._speed:
                pause = max(0.0, sent.at - sent_before_at)
                await asyncio.sleep(pause / self._speed)
            sent_before_at = sent.at
            await self._send_recorded(sent.value, recorded, request, send)
        if not recorded.is_answered:
            await asyncio.Event().wait()  # until the client cancels the request, or its connection ends

    async def _send_recorded(self, message: Object, recorded: RecordedRequest, request: Object, send: Send) -> None:
        """Send one recorded message for a new request, with the new ids. Wait for the response to a request."""
        if "method" not in message:
            send({**message, "id": request["id"]})
        elif "id" in message:
            await self._request_and_wait(message, send)
        else:
            adapted = _adapted(message, recorded, request)
            if isinstance(adapted, dict):
                send(adapted)

    async def _request_and_wait(self, message: Object, send: Send) -> None:
        """Send a request of the server, and wait until the client has responded, at most `CLIENT_SECONDS`."""
        id, answered = f"replay-{next(self._ids)}", asyncio.Event()
        self._awaited[id] = answered
        send({**message, "id": id})
        try:
            async with asyncio.timeout(CLIENT_SECONDS):
                await answered.wait()
        except TimeoutError:
            pass  # the recorded messages go on without the client's response
        finally:
            del self._awaited[id]

    async def serve(self, transport: Transport) -> None:
        """Serve a client in this program, such as a bridge. Invalid messages of the recording are left out."""
        ended = asyncio.Event()

        def send(value: Object) -> None:
            message = read_message(value)
            if isinstance(message, Message):
                transport.send(message)

        def receive(message: Incoming) -> None:
            if isinstance(message, Message):
                conversation.receive(json.loads(encode(message)))  # the JSON object again, as recordings have it

        conversation = _Conversation(self, send)
        await transport.start(receive, lambda error: ended.set())
        await ended.wait()
        await conversation.finish()

    def note_response(self, response: Object) -> None:
        """Note the client's response to a request of the server."""
        answered = self._awaited.get(str(response.get("id")))
        if answered is not None:
            answered.set()

    def _unrecorded_outcome(self, request: Object, names_other_revision: bool) -> Object:
        """Return the result or the error for a request that was not recorded, or that names another revision."""
        method, recorded = request.get("method"), self.cassette.revision
        hint = f"the recording is of revision {recorded or '(unknown)'}; `replay --revision` converts it to another one"
        # only modern requests name their revision; a session has it in the result of `initialize`
        is_modern = any(_named_revision(each.request.value) == recorded for each in self.cassette.requests)
        if names_other_revision and is_modern:
            data: JSON = {"supported": [recorded], "requested": _named_revision(request)}
            return _error(UNSUPPORTED_PROTOCOL_VERSION, hint, data)
        if method == "ping":
            return {"result": {}}
        if method not in self._tolerated:
            return _error(INVALID_PARAMS, self.cassette.note_unknown(request))
        if method == "tools/list":  # over HTTP, a bridge calls no tool before it has a list
            return {"result": {"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private"}}
        text = f"{method} is not in the recording"
        return _error(METHOD_NOT_FOUND, f"{text}; {hint}" if method in PROBES else text)


def _error(code: int, message: str, data: JSON = None) -> Object:
    error: Object = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return {"error": error}


def _named_revision(request: Object) -> str | None:
    """Return the revision that a stateless request names in its `_meta`; None for a request of a session."""
    name = member(request, "params", "_meta", PROTOCOL_VERSION)
    return name if isinstance(name, str) else None


def _adapted(value: Object, recorded: RecordedRequest, request: Object) -> JSON:
    """Return a notification with the new request's token and id, or None if the client wants no progress."""
    token = member(request, "params", "_meta", "progressToken")
    is_progress = value.get("method") == "notifications/progress"
    if is_progress and token is None:
        return None

    def replace(name: str, each: JSON) -> JSON:
        if is_progress and name == "progressToken" and each == recorded.progress_token:
            return token
        if name == SUBSCRIPTION_ID and each == recorded.request.value["id"]:
            return request["id"]
        return each

    return with_replaced_members(value, replace)


class _Conversation:
    """The requests in flight of one client, over stdio or from a bridge in this program."""

    def __init__(self, player: Player, send: Send) -> None:
        self._player, self._send = player, send
        self._tasks: dict[str, asyncio.Task[None]] = {}  # the requests in flight, by their ids as JSON

    def receive(self, message: Object) -> None:
        """Begin to respond to a request, cancel one, or note a response to a request of the server."""
        if "method" not in message:
            self._player.note_response(message)
        elif "id" in message and len(self._tasks) >= MAX_OPEN:
            error = _error(INVALID_REQUEST, f"{MAX_OPEN} requests have no response yet")
            self._send({"jsonrpc": "2.0", "id": message["id"], **error})
        elif "id" in message:
            key = json.dumps(message["id"])
            self._tasks[key] = asyncio.create_task(self._player.answer(message, self._send))
            self._tasks[key].add_done_callback(functools.partial(self._forget, key))
        elif message["method"] == "notifications/cancelled":
            cancelled = self._tasks.get(json.dumps(member(message, "params", "requestId")))
            if cancelled is not None:
                cancelled.cancel()

    def _forget(self, key: str, done: asyncio.Task[None]) -> None:
        if self._tasks.get(key) is done:  # not if the client has used the id again, for another task
            del self._tasks[key]

    async def finish(self) -> None:
        """Cancel the requests in flight, after they have sent everything that they can send without waiting."""
        await asyncio.sleep(0)  # a task that was just created has not begun yet
        for task in self._tasks.values():
            task.cancel()


async def replay_stdio(player: Player) -> None:
    """Serve one client on the standard streams, until it closes the input."""
    lines: asyncio.Queue[bytes] = asyncio.Queue(MAX_LINES)
    loop = asyncio.get_running_loop()

    def read_lines() -> None:
        """Put the lines of the input into the queue, and b"" at its end. Runs in a thread, because reading blocks."""
        # Not `sys.stdin`: this thread would keep it locked, and Python aborts if it cannot close it at the exit.
        with contextlib.suppress(RuntimeError, CancelledError), open(0, "rb", closefd=False) as own_input:
            # a RuntimeError or CancelledError says that the loop has ended
            for line in itertools.chain(own_input, [b""]):
                asyncio.run_coroutine_threadsafe(lines.put(line), loop).result()  # waits while the queue is full

    def send(message: Object) -> None:
        with contextlib.suppress(BrokenPipeError):  # a client that has left closes our input too, which ends the replay
            sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
            sys.stdout.buffer.flush()

    conversation = _Conversation(player, send)
    threading.Thread(target=read_lines, name="mcp-replay", daemon=True).start()
    while line := await lines.get():
        for message in objects_in(line):
            conversation.receive(message)
    await conversation.finish()


@contextlib.asynccontextmanager
async def replay_http(player: Player, host: str, port: int) -> AsyncIterator[str]:
    """Serve over Streamable HTTP until the end of the `async with`. Yield the URL."""

    async def handle(exchange: Exchange) -> None:
        origin = exchange.request.headers.get("origin")
        if exchange.request.method == "DELETE":
            return exchange.respond(200, [], b"")
        if exchange.request.method != "POST":
            return exchange.respond(405, [("Allow", "POST, DELETE")], b"")
        if origin is not None and not _is_loopback(origin):
            # [2025-11-25 basic/transports#security-warning] a web page of another site must not reach this server
            return exchange.respond(403, [], b"")
        await exchange.read_body()
        await _handle_post(player, exchange)

    async with await start_server(handle, host, port) as server:
        yield f"http://{bracket_ipv6(host)}:{server.address[1]}/mcp"


def _is_loopback(origin: str) -> bool:
    try:
        return parse_url(origin)[1].is_loopback
    except ValueError:
        return False


async def _handle_post(player: Player, exchange: Exchange) -> None:
    """Note the client's responses in a POST. If it has requests, respond with a stream of the recorded messages."""
    messages = objects_in(exchange.request.body)
    requests = [message for message in messages if "method" in message and "id" in message]
    for message in messages:
        if "method" not in message:
            player.note_response(message)
    if not requests:
        return exchange.respond(202, [], b"")
    session = [("Mcp-Session-Id", SESSION)] if requests[0]["method"] == "initialize" else []
    response = exchange.stream(200, [("Content-Type", "text/event-stream"), *session])

    def send(message: Object) -> None:
        response.write(encode_event(json.dumps(message).encode()))

    answers = asyncio.gather(*(player.answer(request, send) for request in requests))
    response.ended.add_done_callback(lambda ended: answers.cancel())
    try:
        await answers
    except asyncio.CancelledError:
        if not response.ended.done():
            raise  # the client is still there, so this task itself was cancelled
    response.close()
