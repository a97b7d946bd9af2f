"""Streamable HTTP, the client's side: each message is a POST; answers come back as JSON or as a stream of events.

A stream that breaks is taken up again where it broke, with the id of its last event. A session that the server has
forgotten is begun anew, once. After the handshake, a GET listens for what belongs to no request of ours.

    send(message) -> POST -> JSON: one message | events: messages, until the answer has come
                             202 for what has no answer; 404 for a session that is no more

Spec:  basic/transports#streamable-http (2025-03-26 to 2025-11-25)
Below: mcp_ref/http (sockets and events). Elsewhere: the server's side, streamable_http.py.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from ...http.client import HttpClient, HttpError, HttpResponse
from ...http.sse import EventParser
from ...jsonrpc.errors import ConnectionClosed, McpError
from ...jsonrpc.messages import (
    INTERNAL_ERROR,
    Batch,
    Error,
    ErrorResponse,
    Incoming,
    Malformed,
    Notification,
    Outgoing,
    Request,
    RequestId,
    Response,
    decode,
    encode,
)
from ...revisions import Revision, find_revision
from . import Lost, Receive, Trace
from .http_gate import SESSION_HEADER, VERSION_HEADER

log = logging.getLogger(__name__)

MAX_BODY = 64 * 1024 * 1024
"""Bytes of one JSON answer (64 MiB); an event has the same limit."""

MAX_RETRY = 60.0
"""Seconds that a server's `retry` can make us wait, at most."""

ATTEMPTS = 5
"""Times that a broken stream is taken up again without any event in between, before its requests fail."""


class StreamableHttpClientTransport:
    """The transport of one session with the server at `url`.

    headers: sent with every request, such as {"Authorization": "Bearer …"}.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        http: HttpClient | None = None,
        trace: Trace | None = None,
    ) -> None:
        self.url = url
        self._own_headers = dict(headers or {})
        self._http = http or HttpClient()
        self._trace = trace
        self._receive: Receive | None = None
        self._lost: Lost | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._last_notice: asyncio.Task[None] | None = None
        self._session: str | None = None
        self._revision: Revision | None = None
        self._opening: Request | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._listener: asyncio.Task[None] | None = None
        self._closed = False

    # ------------------------------------------------------------------------------------- for the connection

    async def start(self, receive: Receive, lost: Lost) -> None:
        """Nothing is opened before the first message."""
        self._receive, self._lost = receive, lost

    def send(self, message: Outgoing, related: RequestId | None = None) -> None:
        """POST a message. What has no answer is accepted by the server before anything later is sent."""
        if self._closed:
            return
        frame = encode(message)
        ids = _ids(message)
        if isinstance(message, Request) and message.method == "initialize":
            self._opening = message
        task = asyncio.get_running_loop().create_task(self._deliver(frame, ids, self._last_notice))
        if not ids:
            self._last_notice = task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if isinstance(message, Notification) and message.method == "notifications/initialized":
            self._listener = asyncio.get_running_loop().create_task(self._listen(task))

    async def drain(self) -> None:
        """Wait until what has no answer was accepted."""
        if self._last_notice is not None and not self._last_notice.done():
            await asyncio.wait([self._last_notice])

    def pause_reading(self) -> None:
        """Nothing: the server asks in answer to our requests, which are bounded."""

    def resume_reading(self) -> None:
        """See pause_reading."""

    async def close(self) -> None:
        """End the session, and everything that is under way."""
        if self._closed:
            return
        self._closed = True
        tasks = [
            task for task in (*self._tasks, self._listener, self._renewing) if task is not None and not task.done()
        ]
        notice = self._last_notice
        if notice is not None and not notice.done():
            await asyncio.wait([notice], timeout=1.0)  # a cancellation, say, still goes out
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=5.0)
        if self._session is not None:
            # [2025-11-25 basic/transports#session-management] SHOULD DELETE a session that is no longer needed
            try:
                async with asyncio.timeout(2.0):
                    async with self._http.request("DELETE", self.url, self._headers(), b""):
                        pass
            except (HttpError, TimeoutError) as error:
                log.debug("the session was not deleted: %s", error)
        await self._http.close()
        if self._lost is not None:
            lost, self._lost = self._lost, None
            lost(ConnectionClosed("the connection was closed"))

    # ------------------------------------------------------------------------------------- one POST

    async def _deliver(self, frame: bytes, ids: list[RequestId], before: asyncio.Task[None] | None) -> None:
        if before is not None and not before.done():
            await asyncio.wait([before])
        try:
            await self._post(frame, ids)
        except asyncio.CancelledError:
            raise
        except McpError as error:
            self._fail(ids, str(error))
        except HttpError as error:
            self._fail(ids, f"{self.url}: {error}")

    async def _post(self, frame: bytes, ids: list[RequestId], renewed: bool = False) -> None:
        if self._trace is not None:
            self._trace("->", frame)
        opening = self._opening is not None and ids == [self._opening.id]
        headers = self._headers(opening)
        headers["Content-Type"] = "application/json"
        headers["Accept"] = "application/json, text/event-stream"
        session = self._session
        async with self._http.request("POST", self.url, headers, frame) as response:
            if response.status == 404 and session is not None and not opening and not renewed:
                # [2025-11-25 basic/transports#session-management] MUST start a new session
                await self._renew(session)
            elif response.status >= 400:
                return self._refused(response, await response.read(MAX_BODY), ids)
            else:
                if opening:
                    self._session = response.headers.get(SESSION_HEADER)
                return await self._read_answer(response, ids)
        await self._post(frame, ids, renewed=True)

    async def _read_answer(self, response: HttpResponse, ids: list[RequestId]) -> None:
        kind = (response.headers.get("content-type") or "").partition(";")[0].strip().lower()
        open_ids = set(ids)
        if kind == "text/event-stream":
            await self._follow(response, open_ids)
        elif kind == "application/json":
            body = await response.read(MAX_BODY)
            if body:
                self._take(body, open_ids)
        else:
            await response.read(MAX_BODY)
            if ids:
                return self._fail(ids, f"the server answered {response.status} with {kind or 'no content type'}")
        if open_ids:
            self._fail(list(open_ids), "the server's answer did not hold the response")

    def _refused(self, response: HttpResponse, body: bytes, ids: list[RequestId]) -> None:
        """An HTTP error. Its body may be a JSON-RPC error, which says more."""
        found = decode(body) if body else None
        text = f"the server answered HTTP {response.status}"
        if isinstance(found, ErrorResponse):
            text += f": {found.error.message}"
            for id in ids:
                self._hand_in(ErrorResponse(id, Error(found.error.code, text, found.error.data)))
            if ids:
                return
        self._fail(ids, text)

    # ------------------------------------------------------------------------------------- streams

    async def _follow(self, response: HttpResponse, open_ids: set[RequestId]) -> None:
        """Read a stream of events until its requests are answered, taking it up again when it breaks."""
        reader = _Reader()
        attempts = 0
        current: HttpResponse | None = response
        while True:
            before = reader.last_event_id
            if current is not None:
                await self._read_events(current, reader, open_ids)
            if not open_ids or self._closed:
                return
            if reader.last_event_id is None:
                return  # [2025-11-25 basic/transports#resumability-and-redelivery] nothing to resume with
            attempts = 0 if reader.last_event_id != before else attempts + 1
            if attempts > ATTEMPTS:
                return
            # [2025-11-25 basic/transports#sending-messages-to-the-server] MUST respect the retry field
            await asyncio.sleep(min(reader.retry, MAX_RETRY) * (2 ** max(attempts - 1, 0)))
            current = None
            try:
                async with self._http.request(
                    "GET", self.url, self._resume_headers(reader.last_event_id), b""
                ) as again:
                    if again.status == 200:
                        await self._read_events(again, reader, open_ids)
                    elif again.status < 500:
                        return  # the server no longer knows the stream
            except HttpError as error:
                log.debug("a stream was not taken up again: %s", error)

    async def _read_events(self, response: HttpResponse, reader: _Reader, open_ids: set[RequestId] | None) -> None:
        parser = EventParser(MAX_BODY)
        try:
            async for chunk in response:
                for event in parser.feed(chunk):
                    if event.data and event.event in ("", "message"):
                        self._take(event.data.encode(), open_ids)
                    if open_ids is not None and not open_ids:
                        return
                reader.note(parser)
        except HttpError as error:
            log.debug("a stream broke: %s", error)
        finally:
            reader.note(parser)

    async def _listen(self, before: asyncio.Task[None]) -> None:
        """Hold a stream open for what belongs to no request, where the server has one."""
        await asyncio.wait([before])
        reader = _Reader()
        attempts = 0
        while not self._closed and attempts <= ATTEMPTS:
            try:
                async with self._http.request(
                    "GET", self.url, self._resume_headers(reader.last_event_id), b""
                ) as response:
                    kind = (response.headers.get("content-type") or "").partition(";")[0].strip()
                    if response.status != 200 or kind != "text/event-stream":
                        return  # [2025-11-25 basic/transports#listening-for-messages-from-the-server] 405: it has none
                    attempts = 0
                    await self._read_events(response, reader, None)
            except HttpError as error:
                log.debug("the listening stream broke: %s", error)
                attempts += 1
            await asyncio.sleep(min(reader.retry, MAX_RETRY) * 2**attempts)

    # ------------------------------------------------------------------------------------- sessions

    async def _renew(self, dead: str) -> None:
        """Begin a new session in the place of a dead one; several who find it dead share one new one."""
        if self._session != dead:
            return
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._begin_again())
        await asyncio.shield(self._renewing)

    async def _begin_again(self) -> None:
        assert self._opening is not None
        self._session = None
        log.info("the server has ended the session; a new one begins")
        greeting = self._receive
        answers: list[Incoming] = []
        self._receive = answers.append
        try:
            await self._post(encode(self._opening), [self._opening.id])
        finally:
            self._receive = greeting
        if not any(isinstance(answer, Response) for answer in answers):
            raise ConnectionClosed("the server ended the session and refused a new one")
        await self._post(encode(Notification("notifications/initialized")), [], renewed=True)

    # ------------------------------------------------------------------------------------- small parts

    def _headers(self, opening: bool = False) -> dict[str, str]:
        headers = dict(self._own_headers)
        if not opening:
            if self._session is not None:
                headers[SESSION_HEADER] = self._session
            if self._revision is not None and self._revision.names_itself_in_http:
                # [2025-11-25 basic/transports#protocol-version-header] MUST include it on all subsequent requests
                headers[VERSION_HEADER] = self._revision.name
        return headers

    def _resume_headers(self, last_event_id: str | None) -> dict[str, str]:
        headers = {**self._headers(), "Accept": "text/event-stream"}
        if last_event_id is not None:
            headers["Last-Event-ID"] = last_event_id
        return headers

    def _take(self, frame: bytes, open_ids: set[RequestId] | None) -> None:
        """Hand in a message that came, and note what it answers."""
        if self._trace is not None:
            self._trace("<-", frame)
        message = decode(frame)
        for answered in _answers(message):
            if self._opening is not None and answered == self._opening.id and isinstance(message, Response):
                self._revision = find_revision(message.result.get("protocolVersion"))
            if open_ids is not None:
                open_ids.discard(answered)
        self._hand_in(message)

    def _hand_in(self, message: Incoming) -> None:
        if self._receive is not None:
            self._receive(message)

    def _fail(self, ids: list[RequestId], why: str) -> None:
        """No answer will come to these requests."""
        if not ids:
            log.warning("a message was not delivered: %s", why)
        for id in ids:
            self._hand_in(Malformed(Error(INTERNAL_ERROR, why), id, answer=True))


class _Reader:
    """What is remembered of a stream from one response to the next. `retry` in seconds."""

    def __init__(self) -> None:
        self.last_event_id: str | None = None
        self.retry = 1.0

    def note(self, parser: EventParser) -> None:
        if parser.last_event_id:
            self.last_event_id = parser.last_event_id
        if parser.retry is not None:
            self.retry = parser.retry / 1000


def _ids(message: Outgoing) -> list[RequestId]:
    """The requests in a message that we send."""
    members = message.messages if isinstance(message, Batch) else [message]
    return [member.id for member in members if isinstance(member, Request)]


def _answers(message: Incoming) -> list[RequestId]:
    """The requests that a message answers."""
    members = message.messages if isinstance(message, Batch) else [message]
    return [m.id for m in members if isinstance(m, (Response, ErrorResponse)) and m.id is not None]
