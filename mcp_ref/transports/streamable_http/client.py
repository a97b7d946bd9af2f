"""Streamable HTTP on the client: the client sends each message by POST. The response is JSON or an event stream.

    send(message) -> POST -> 200 JSON     the body is one message
                             200 events   the last event is the response; a broken stream is resumed
                             202          the server has accepted a notification or a response
                             404          the server has ended the session; the client repeats requests in a new session
                             400, 404 or 405 to `initialize`: the client tries HTTP+SSE, the older transport

After the handshake, the client sends a GET, whose response is the listening stream, for messages of the server that
belong to no request. Stateless requests (from 2026-07-28) need neither a handshake nor the GET.

After a 404, the client MUST begin a new session, so that the user does not notice that the server has restarted. A
client that closes SHOULD delete its session, which the server would otherwise store until its idle time ends.

Spec:  basic/transports#streamable-http (2025-03-26 to 2025-11-25)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from typing import Final, cast

from ...basic.headers import ParameterHeaders
from ...basic.versioning import MODERN_ERROR_CODES, is_stateless
from ...jsonrpc.errors import ConnectionClosed, McpError
from ...jsonrpc.large_messages import decode_large, responds_to
from ...jsonrpc.messages import (
    Batch,
    Notification,
    Outgoing,
    Request,
    RequestFailure,
    RequestId,
    Response,
    decode,
    encode,
)
from ...jsonrpc.outline import MAX_UNREQUESTED, same_id
from ...lib.http.client import HttpClient, HttpSender
from ...lib.http.origin import public_url
from ...lib.http.response import ClientLimits, HttpError, HttpResponse, is_unsent
from ...lib.http.sse import EventTooLarge
from ...lib.time_limits import TimeLimits
from ...revisions import Revision, find_revision
from ..base import EndReport, OnEnd, Receive, Trace, Transport, finish
from ..http_sse.client import SseClientTransport
from ..trace import traced_http_client
from .checks import JSON_TYPE, SESSION_HEADER, SSE_TYPE, VERSION_HEADER
from .resumption import HandshakeReceiver, listen, read_and_resume
from .stateless_client import CLOSE_SECONDS, MAX_RESPONSE, NOT_AN_ENDPOINT, StatelessRequests, error_in, http_error_text

log = logging.getLogger(__name__)

ACCEPT_SECONDS: Final = 30.0
"""Time that a server has to accept a notification or a response, in seconds."""
MAX_POSTS: Final = 2048
"""Number of POSTs in progress above which the client no longer responds to the server's requests."""
RENEWAL_SECONDS: Final = 30.0
"""Time that a server has to begin a new session after it has ended the previous one, in seconds."""
CLOSE_ACCEPT_SECONDS: Final = 1.0
"""Time that `close` waits until the server has accepted the last notification or response, in seconds."""
DELETE_SECONDS: Final = 2.0
"""Time that `close` waits until the server has deleted the session, in seconds."""

# No time limits, because the client's session limits the time of each request. A request may wait for a connection, but
# notifications, responses and GETs use extra connections, because a request in flight may be waiting for them.
HTTP_LIMITS: Final = ClientLimits(head_time=None, idle=None)


class StreamableHttpClientTransport(Transport):
    """The client's transport to the server at `url`.

        stateless requests --`initialize`--> a session --400, 404 or 405, but a GET works--> HTTP+SSE
                                              | ^
                                              +-+ 404: a new session

    Args:
        url: The MCP endpoint, or the stream of an HTTP+SSE server.
        http: The HTTP client, which `close` closes too. Default: a new HTTP client.
        parameters: The `parameter_headers` of the tools, which the caller may fill later (modern era).
        authorize: Function that wraps the HTTP client, so that requests carry tokens.
    """

    def __init__(
        self, url: str, *, headers: Mapping[str, str] | None = None, http: HttpClient | None = None,
        trace: Trace | None = None, parameters: ParameterHeaders | None = None,
        authorize: Callable[[HttpSender], HttpSender] | None = None, time_limits: TimeLimits | None = None,
    ) -> None:  # fmt: skip
        self.url = url
        self._own_headers = dict(headers or {})
        self._http = traced_http_client(http or HttpClient(limits=HTTP_LIMITS), trace)
        self._time_limits = time_limits or TimeLimits()
        if authorize is not None:
            self._http = authorize(self._http)
        self._trace = trace
        parameters = {} if parameters is None else parameters
        self._stateless = StatelessRequests(url, self._own_headers, self._http, trace, parameters)
        self._receive: Receive = lambda message: None  # until `start`
        self._end_report = EndReport()
        self._initialize: Request | None = None  # before this request, only stateless requests are in flight
        self._use_session(None, None)
        self._posts: dict[asyncio.Task[None], set[RequestId]] = {}  # POST -> ids of the requests that are not cancelled
        self._last_one_way_post: asyncio.Task[None] | None = None  # the last POST of a notification or response
        self._listener: asyncio.Task[None] | None = None
        self._renewal: asyncio.Task[str | None] | None = None
        self._http_sse: SseClientTransport | None = None  # sends the messages, if the server speaks HTTP+SSE
        self._closing: asyncio.Task[None] | None = None  # not None after `close`

    async def start(self, receive: Receive, on_end: OnEnd) -> None:
        """Store both functions. The first message that is sent will connect to the server."""
        self._receive = receive
        self._end_report.deliver_to(on_end)

    def round_trip(self, request: Request) -> Coroutine[object, object, None] | None:
        if self._http_sse is not None or self._closing is not None:
            return None
        if is_stateless(request.params):
            return self._stateless.round_trip(request, self._receive)
        if request.method == "initialize":
            self._initialize = request
        return self._post_in_order(request, encode(request), [request.id], self._last_one_way_post)

    def send(self, message: Outgoing, related: RequestId | None = None) -> None:
        """POST a message. A legacy message first waits until all earlier notifications and responses are accepted."""
        if self._closing is not None:
            return
        if self._http_sse is not None:
            return self._http_sse.send(message)
        is_cancellation = isinstance(message, Notification) and message.method == "notifications/cancelled"
        if self._revision is None and is_cancellation:  # without a handshake, all requests are stateless
            # [2026-07-28 basic/patterns/cancellation#transport-specific-cancellation] closing the response cancels
            return self._cancel_post(message)
        members = message.messages if isinstance(message, Batch) else [message]
        ids = [member.id for member in members if isinstance(member, Request)]
        if not ids and not isinstance(message, Notification) and len(self._posts) >= MAX_POSTS:
            return  # drop our response, because a server that sends requests but accepts none could fill our memory
        post = self.round_trip(message) if isinstance(message, Request) else None
        if post is None:
            post = self._post_in_order(message, encode(message), ids, self._last_one_way_post)
        task = asyncio.Task(post)  # never an eager task, which could end before it is in the table
        self._posts[task] = set(ids)
        task.add_done_callback(self._posts.pop)
        if not ids:
            self._last_one_way_post = task
        if is_cancellation:
            # [2025-11-25 basic/utilities/cancellation#behavior-requirements] we SHOULD ignore a late response
            task.add_done_callback(lambda _: self._cancel_post(message))
        elif isinstance(message, Notification) and message.method == "notifications/initialized":
            self._listener = asyncio.get_running_loop().create_task(self._listen(task))

    def _cancel_post(self, cancellation: Outgoing) -> None:
        """Cancel a request's POST, unless its batch has other requests. The caller of `round_trip` cancels its own."""
        assert isinstance(cancellation, Notification)
        id = cast(RequestId, cancellation.params.get("requestId"))
        for post, ids in self._posts.items():
            if id in ids:
                ids.remove(id)
                if not ids:
                    post.cancel()

    async def drain(self, related: RequestId | None = None) -> None:
        """Wait until the server has accepted the last notification or response."""
        if self._http_sse is not None:
            await self._http_sse.drain()
        elif self._last_one_way_post is not None and not self._last_one_way_post.done():
            await finish(self._last_one_way_post)

    def pause_reading(self) -> None:
        self._stateless.readable.clear()

    def resume_reading(self) -> None:
        self._stateless.readable.set()

    async def close(self) -> None:
        """End all requests in flight and the session. Nothing is sent afterwards."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)  # which continues even if the caller is cancelled

    async def _close(self) -> None:
        await finish(self._last_one_way_post, timeout=CLOSE_ACCEPT_SECONDS)
        await finish(*self._posts, self._listener, self._renewal, cancel=True, timeout=CLOSE_SECONDS)
        if self._session is not None:
            # [2025-11-25 basic/transports#session-management] a client SHOULD DELETE a session it no longer needs
            deleting = self._http.request("DELETE", self.url, self._headers, extra=True)
            try:
                async with asyncio.timeout(DELETE_SECONDS), deleting:
                    pass
            except (HttpError, McpError, TimeoutError) as error:
                log.debug("the session was not deleted: %s", error)
        if self._http_sse is not None:
            await self._http_sse.close()
        await self._http.close()
        self._end_report.send(ConnectionClosed("the connection was closed"))

    async def _post_in_order(
        self, message: Outgoing, frame: bytes, ids: list[RequestId], earlier_post: asyncio.Task[None] | None
    ) -> None:
        try:
            for earlier in (earlier_post, self._renewal):
                if earlier is not None and not earlier.done():
                    await finish(earlier)
            if isinstance(message, Request) and message is self._initialize:
                await self._post_initialize(message, self._receive)
            elif ids:  # the session limits the time of its requests
                await self._post(message, frame, ids)
            else:
                with self._time_limits.timeout(ACCEPT_SECONDS):
                    await self._post(message, frame, ids)
        except TimeoutError:
            log.warning("%s did not accept a message within %g s", public_url(self.url), ACCEPT_SECONDS)
        except (HttpError, McpError, EventTooLarge, ValueError) as error:
            self._fail_requests(ids, str(error), self._receive, error)

    async def _post_initialize(self, initialize: Request, deliver: Receive) -> None:
        """Begin a session. In place of the first one, use HTTP+SSE if the server speaks only that."""
        frame = encode(initialize)
        posting = self._http.request("POST", self.url, self._stateless.headers, frame)  # traces its head
        if self._trace is not None:
            self._trace("->", frame)
        async with posting as response:
            if response.status < 300:
                # [2025-11-25 basic/transports#session-management] the client MUST send this id in later requests
                self._use_session(response.headers.get(SESSION_HEADER), self._revision)
                return await self._read(response, [initialize.id], deliver)
            body = await response.read(MAX_UNREQUESTED)
            may_be_http_sse = response.status in (400, 404, 405) and self._session is None
            if not may_be_http_sse or not await self._try_http_sse(initialize, body):
                self._fail_requests([initialize.id], http_error_text(response, body), deliver, status=response.status)

    async def _post(self, message: Outgoing, frame: bytes, ids: list[RequestId], repeated: bool = False) -> None:
        """POST a message and read the response. If the session has ended, begin another and repeat the POST, once."""
        session = self._session
        posting = self._http.request("POST", self.url, self._post_headers, frame, extra=not ids)  # traces its head
        if self._trace is not None and not repeated:
            self._trace("->", frame)
        async with posting as response:
            session_has_ended = response.status == 404 and session is not None and not repeated
            if response.status < 300:
                await self._read(response, ids, self._receive)
            elif not session_has_ended:
                self._deliver_refusal(response, await response.read(MAX_UNREQUESTED), ids)
        if session_has_ended:  # handled here, after the response has given back its connection
            await self._renew_session(session)
            if ids or isinstance(message, Notification):  # a response is useless, its request being of the old session
                await self._post(message, frame, ids, repeated=True)

    async def _read(self, response: HttpResponse, ids: list[RequestId], deliver: Receive) -> None:
        kind, unanswered = response.headers.media_type, set(ids)
        # [2025-11-25 basic/transports#sending-messages-to-the-server] the client MUST support both types
        if kind == SSE_TYPE:
            await read_and_resume(response, unanswered, partial(self._deliver_frame, unanswered, deliver), self._get)
        else:
            body = await response.read(MAX_RESPONSE)
            if kind != JSON_TYPE and ids:
                why = f"the response is {kind or 'without content type'}, not {JSON_TYPE} or {SSE_TYPE}"
                return self._fail_requests(ids, f"{why}; {NOT_AN_ENDPOINT}", deliver)
            if kind == JSON_TYPE and body:
                self._deliver(unanswered, deliver, body)
                if not ids:
                    await self._stateless.readable.wait()
        if unanswered:
            self._fail_requests(list(unanswered), "the HTTP response ended without the JSON-RPC response", deliver)

    def _deliver_refusal(self, response: HttpResponse, body: bytes, ids: list[RequestId]) -> None:
        """Deliver an HTTP error to a POST's requests, with the JSON-RPC error in it, if any."""
        text, found = http_error_text(response, body), error_in(body)
        if found is None or not ids:
            return self._fail_requests(ids, text, self._receive, status=response.status)
        for id in ids:
            self._receive(replace(found, id=id, error=replace(found.error, message=text)))

    async def _try_http_sse(self, initialize: Request, body: bytes) -> bool:
        """Open an HTTP+SSE stream after the refusal of `initialize`. Return False if the server does not speak it."""
        if (found := error_in(body)) is not None and found.error.code in MODERN_ERROR_CODES:
            # [2026-07-28 basic/transports/streamable-http#httpsse-transport-2024-11-05] a modern error: no HTTP+SSE
            self._receive(replace(found, id=initialize.id))
            return True
        # [2025-11-25 basic/transports#backwards-compatibility] 400, 404, 405: GET, and expect an endpoint event
        http_sse = SseClientTransport(
            self.url, http=self._http, readable=self._stateless.readable, headers=self._own_headers, trace=self._trace,
            time_limits=self._time_limits, waits_for=self.waits_for)  # fmt: skip
        try:
            await http_sse.start(self._receive, self._end_report.send)
        except ConnectionClosed as error:
            log.debug("the server does not speak HTTP+SSE either: %s", error)
            return False
        self._http_sse = http_sse
        http_sse.send(initialize)
        return True

    async def _listen(self, after: asyncio.Task[None] | None = None) -> None:
        await finish(after)
        read = partial(self._deliver_frame, set(), self._receive)
        await listen(self._get, read, lambda: self._session, partial(self._renew_session, restarts_listener=False))

    async def _renew_session(self, ended: str | None, restarts_listener: bool = True) -> None:
        """Begin a new session after the one with the id `ended`. Concurrent calls share one handshake."""
        if self._renewal is None or self._renewal.done():
            if self._session != ended:  # an earlier call has renewed it
                return
            self._renewal = asyncio.create_task(self._repeat_handshake(restarts_listener))
        if (why := await asyncio.shield(self._renewal)) is not None:
            raise ConnectionClosed(f"the server has ended the session, and no new session could begin: {why}")

    async def _repeat_handshake(self, restarts_listener: bool) -> str | None:
        """Repeat the handshake. If it fails, restore the old session id and return the reason."""
        initialize, session, revision = self._initialize, self._session, self._revision
        assert initialize is not None
        log.info("%s has ended the session; a new one begins", public_url(self.url))
        receiver = HandshakeReceiver(initialize.id, self._receive)
        try:
            with self._time_limits.timeout(RENEWAL_SECONDS):
                # [2025-11-25 basic/transports#session-management] after a 404, a client MUST begin a new one without id
                await self._post_initialize(initialize, receiver)
                why = receiver.failure or ("the revision has changed" if self._revision != revision else None)
                if why is None:
                    notice = encode(Notification("notifications/initialized"))
                    async with self._http.request("POST", self.url, self._post_headers, notice, extra=True):
                        pass
        except TimeoutError:
            why = f"the handshake took more than {RENEWAL_SECONDS:g} s"
        except (HttpError, McpError, EventTooLarge) as error:
            why = str(error)
        if why is not None:
            self._use_session(session, revision)
            return why
        if self._listener is not None and (restarts_listener or self._listener.done()):
            self._listener.cancel()  # perhaps it waits to reconnect to the old session
            self._listener = asyncio.create_task(self._listen())
        if self.on_new_session is not None:
            self.on_new_session()
        return None

    def _use_session(self, session: str | None, revision: Revision | None) -> None:
        self._session, self._revision = session, revision
        self._headers = dict(self._own_headers)
        if session is not None:
            self._headers[SESSION_HEADER] = session
        if revision is not None and revision.version_header:
            # [2025-11-25 basic/transports#protocol-version-header] the client MUST send this header from now on
            self._headers[VERSION_HEADER] = revision.name
        # [2025-11-25 basic/transports#sending-messages-to-the-server] the client MUST list both types in Accept
        self._post_headers = {**self._headers, "Content-Type": JSON_TYPE, "Accept": f"{JSON_TYPE}, {SSE_TYPE}"}

    def _get(self, resume_header: dict[str, str]) -> AbstractAsyncContextManager[HttpResponse]:
        return self._http.request("GET", self.url, {**self._headers, "Accept": SSE_TYPE, **resume_header}, extra=True)

    async def _deliver_frame(self, unanswered: set[RequestId], deliver: Receive, frame: bytes) -> None:
        was_one_request = len(unanswered) == 1
        self._deliver(unanswered, deliver, frame)
        if unanswered or not was_one_request:  # not after the response to a single request, for which its caller waits
            await self._stateless.readable.wait()

    def _deliver(self, unanswered: set[RequestId], deliver: Receive, frame: bytes) -> None:
        if self._trace is not None:
            self._trace("<-", frame)
        message = decode(frame) if len(frame) <= MAX_UNREQUESTED else decode_large(frame, self.waits_for)
        if isinstance(message, Response) and self._initialize is not None and same_id(message.id, self._initialize.id):
            self._use_session(self._session, find_revision(message.result.get("protocolVersion")))
        if type(message) is Response and message.id in unanswered:  # the usual case, without a search
            unanswered.remove(message.id)
        else:
            unanswered -= {id for id in unanswered if responds_to(message, id)}
        deliver(message)

    def _fail_requests(
        self, ids: list[RequestId], why: str, deliver: Receive, error: Exception | None = None, status: int = 0
    ) -> None:
        refusal = error if isinstance(error, McpError) and not isinstance(error, ConnectionClosed) else None
        reason = f"{public_url(self.url)}: {why}"
        if not ids:
            log.warning("a message was not delivered: %s", reason)
        for id in ids:
            deliver(RequestFailure(id, reason, unsent=is_unsent(error), error=refusal, http_status=status))
