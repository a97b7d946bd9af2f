"""Streamable HTTP, the client's side: each message is a POST; answers come back as JSON or as a stream of events.

    send(message) -> POST -> 200 JSON: one message | 200 events: messages, until the answer has come
                             202 for what has no answer
                             404 for a session that is no more: a new one is begun, once
                             400, 404, 405 for the very first one: the URL is of the older transport, perhaps

A stream that breaks is taken up again where it broke, by a GET with the id of its last event. After the handshake,
another GET listens for what belongs to no request of ours. A request of the stateless era has none of this.

Spec:  basic/transports#streamable-http (2025-03-26 to 2025-11-25)
Below: mcp_ref/http (sockets and events), http_sse_client.py (the older transport), http_alone_client.py (the later
       one). Elsewhere: the server's side (streamable_http.py)
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Mapping
from typing import Final

from ...basic.headers import ParameterHeaders
from ...basic.versioning import MODERN_ERRORS, is_stateless
from ...jsonrpc.errors import ConnectionClosed
from ...jsonrpc.messages import (
    JSON,
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
    Undelivered,
    decode,
    encode,
)
from ...lib.http.client import ClientLimits, HttpClient, HttpError, HttpResponse
from ...lib.http.sse import EventParser, EventTooLarge
from ...revisions import Revision, find_revision
from ..base import Lost, Receive, Trace, Transport
from ..http_sse.client import SseClientTransport
from ..trace import traced_requests
from .checks import JSON_TYPE, SESSION_HEADER, SSE_TYPE, VERSION_HEADER, media_type, public_url
from .stateless_client import MAX_ANSWER, StatelessRequests, refusal

log = logging.getLogger(__name__)

MAX_RETRY: Final = 60.0
"""Seconds that a server can make us wait before we come back for a stream, at most."""

MIN_RETRY: Final = 0.05
"""Seconds that we wait at least, whatever the server says."""

ATTEMPTS: Final = 5
"""Times that a broken stream is taken up again without any event in between, before its requests fail."""

NOTICE_SECONDS: Final = 30.0
"""Seconds that a server may take to accept what has no answer."""

RENEWAL_SECONDS: Final = 30.0
"""Seconds that a server may take to begin a new session in the place of one that it has ended."""

LAST_NOTICE_SECONDS: Final = 1.0
"""Seconds that `close` waits until what was said last, a cancellation say, is accepted."""

DELETE_SECONDS: Final = 2.0
"""Seconds that `close` waits for the server to delete the session."""

# Requests wait for a connection when all are in use. What they may be waiting for goes out on one more: our answers to
# the server's questions, one after the other, and the streams that listen, one each.
# How long an answer may take is for the caller to say, who has a time limit for each request.
HTTP_LIMITS: Final = ClientLimits(first_byte=None, idle=None)

_CONTROL: Final = re.compile(rb"[\x00-\x1f\x7f]")
_Take = Callable[[Incoming], None]


class StreamableHttpClientTransport(Transport):
    """The transport of one session with the server at `url`, which may also turn out to speak HTTP+SSE.

    headers: sent with every request, such as {"Authorization": "Bearer ..."}. http: makes the requests; closed with
    the transport. trace: sees every message, and every head if it has a method for that, see trace.py.
    parameters: for the stateless era, see `headers.ParameterHeaders`.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        http: HttpClient | None = None,
        trace: Trace | None = None,
        parameters: ParameterHeaders = lambda name: {},
    ) -> None:
        self.url = url
        self._own_headers = dict(headers or {})
        self._http = traced_requests(http or HttpClient(limits=HTTP_LIMITS), trace)
        self._trace = trace
        self._stateless = StatelessRequests(url, self._own_headers, self._http, trace, parameters)
        self._receive: Receive | None = None
        self._lost: Lost | None = None
        self._opening: Request | None = None
        self._session: str | None = None
        self._revision: Revision | None = None
        self._posts: set[asyncio.Task[None]] = set()
        self._asking: dict[RequestId, asyncio.Task[None]] = {}
        self._last_notice: asyncio.Task[None] | None = None
        self._listener: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[str | None] | None = None
        self._older: SseClientTransport | None = None
        self._closing: asyncio.Task[None] | None = None

    # ------------------------------------------------------------------------------------- for the connection

    async def start(self, receive: Receive, lost: Lost) -> None:
        """Nothing is opened before the first message."""
        self._receive, self._lost = receive, lost

    def send(self, message: Outgoing, related: RequestId | None = None) -> None:
        """POST a message. What has no answer is accepted by the server before anything later is sent."""
        if self._closing is not None:
            return
        if isinstance(message, Request) and is_stateless(message.params):
            self._stateless.send(message, self._hand_in)
            return
        if self._cancels(message):
            return
        if self._older is not None:
            self._older.send(message, related)
            return
        frame = encode(message)
        if isinstance(message, Request) and message.method == "initialize":
            self._opening = message
        ids = _asked(message)
        task = asyncio.get_running_loop().create_task(self._deliver(message, frame, ids, self._last_notice))
        self._posts.add(task)
        task.add_done_callback(self._posts.discard)
        for id in ids:
            self._asking[id] = task
        if ids:
            task.add_done_callback(lambda _: self._answered(ids, task))
        else:
            self._last_notice = task
        if isinstance(message, Notification):
            self._after_notice(message, task)

    def _cancels(self, message: Outgoing) -> bool:
        """Whether a message is a cancellation in the stateless era; it is done then, and nothing is to be sent."""
        if not isinstance(message, Notification) or message.method != "notifications/cancelled":
            return False
        # Without a handshake, no other request is under way: one that is not found has just been answered.
        return self._stateless.cancel(message.params.get("requestId")) or self._opening is None

    def _after_notice(self, notice: Notification, task: asyncio.Task[None]) -> None:
        if notice.method == "notifications/initialized":
            self._stateless.leave()  # what was asked in the other era is not waited for any more
            self._listener = asyncio.get_running_loop().create_task(self._listen(task))
        elif notice.method == "notifications/cancelled":
            id: JSON = notice.params.get("requestId")
            asked = self._asking.pop(id, None) if isinstance(id, (str, int)) else None
            if asked is not None and asked not in self._asking.values():  # else others of its batch still wait
                # [2025-11-25 basic/utilities/cancellation#behavior-requirements] its answer will not come, or not count
                task.add_done_callback(lambda _: asked.cancel())

    def _answered(self, ids: list[RequestId], task: asyncio.Task[None]) -> None:
        for id in ids:
            if self._asking.get(id) is task:
                del self._asking[id]

    async def drain(self, related: RequestId | None = None) -> None:
        """Wait until what has no answer was accepted."""
        if self._older is not None:
            await self._older.drain(related)
        elif self._last_notice is not None and not self._last_notice.done():
            await asyncio.wait([self._last_notice])

    def pause_reading(self) -> None:
        """Nothing: what a server asks comes in the answers to our requests, and both are bounded."""

    def resume_reading(self) -> None:
        """See pause_reading."""

    async def close(self) -> None:
        """End the session, and everything that is under way."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)  # whoever waits for it may be cancelled; it goes on

    async def _close(self) -> None:
        if self._last_notice is not None and not self._last_notice.done():
            await asyncio.wait([self._last_notice], timeout=LAST_NOTICE_SECONDS)
        await self._stateless.close()
        tasks = [task for task in (*self._posts, self._listener, self._renewing) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=5.0)
        if self._session is not None:
            await self._delete()
        if self._older is not None:
            await self._older.close()
        await self._http.close()
        if self._lost is not None:
            lost, self._lost = self._lost, None
            lost(ConnectionClosed("the connection was closed"))

    async def _delete(self) -> None:
        # [2025-11-25 basic/transports#session-management] SHOULD DELETE a session that is no longer needed
        try:
            async with (
                asyncio.timeout(DELETE_SECONDS),
                self._http.request("DELETE", self.url, self._headers(), extra=True),
            ):
                pass
        except (HttpError, TimeoutError) as error:
            log.debug("the session was not deleted: %s", error)

    # ------------------------------------------------------------------------------------- one POST

    async def _deliver(
        self, message: Outgoing, frame: bytes, ids: list[RequestId], before: asyncio.Task[None] | None
    ) -> None:
        for other in (before, self._renewing):
            if other is not None and not other.done():
                await asyncio.wait([other])
        try:
            if ids:
                await self._post(message, frame, ids, self._hand_in)
            else:
                async with asyncio.timeout(NOTICE_SECONDS):
                    await self._post(message, frame, ids, self._hand_in)
        except TimeoutError:
            log.warning("%s did not accept a message within %g s", public_url(self.url), NOTICE_SECONDS)
        except (HttpError, ConnectionClosed, EventTooLarge, ValueError) as error:
            self._fail(ids, str(error), self._hand_in)

    async def _post(self, message: Outgoing, frame: bytes, ids: list[RequestId], take: _Take) -> None:
        posting = self._http.request("POST", self.url, self._post_headers(message), frame, extra=not ids)
        if self._trace is not None:
            self._trace("->", frame)
        session = self._session if message is not self._opening else None
        dead = False
        async with posting as response:
            if response.status == 404 and session is not None:
                dead = True
            elif response.status in (400, 404, 405) and message is self._opening and take == self._hand_in:
                await self._refused_at_first(response, ids)
            elif response.status >= 300:
                self._refused(response, await response.read(MAX_ANSWER), ids, take)
            else:
                if message is self._opening:
                    # [2025-11-25 basic/transports#session-management] MUST be on all requests from now on
                    self._session = response.headers.get(SESSION_HEADER)
                await self._read_answer(response, ids, take)
        if dead:
            await self._renew(session)
            if not isinstance(message, (Response, ErrorResponse)):  # whoever asked in the old session is no more
                await self._post_again(message, frame, ids, take)

    async def _post_again(self, message: Outgoing, frame: bytes, ids: list[RequestId], take: _Take) -> None:
        """In the new session; that it is gone, too, is an error."""
        async with self._http.request("POST", self.url, self._post_headers(message), frame, extra=not ids) as response:
            if response.status >= 300:
                self._refused(response, await response.read(MAX_ANSWER), ids, take)
            else:
                await self._read_answer(response, ids, take)

    async def _read_answer(self, response: HttpResponse, ids: list[RequestId], take: _Take) -> None:
        kind = media_type(response.headers)
        unanswered = set(ids)
        # [2025-11-25 basic/transports#sending-messages-to-the-server] the client MUST support both
        if kind == SSE_TYPE:
            await self._follow(response, unanswered, take)
        elif kind == JSON_TYPE:
            body = await response.read(MAX_ANSWER)
            if body:
                self._take(body, unanswered, take)
        else:
            await response.read(MAX_ANSWER)
            if ids:
                why = f"the answer is {kind or 'of no content type'}, not {JSON_TYPE} or {SSE_TYPE}"
                return self._fail(ids, why, take)
        if unanswered:
            self._fail(list(unanswered), "the server ended its answer without the response", take)

    def _refused(self, response: HttpResponse, body: bytes, ids: list[RequestId], take: _Take) -> None:
        """An HTTP error. Its body may be a JSON-RPC error, which says more."""
        text, found = refusal(response, body), decode(body) if body else None
        if not isinstance(found, ErrorResponse) or (self._opening is not None and ids == [self._opening.id]):
            return self._fail(ids, text, take)
        if not ids:
            log.warning("a message was refused: %s", text)
        for id in ids:
            take(ErrorResponse(id, Error(found.error.code, text, found.error.data)))

    async def _refused_at_first(self, response: HttpResponse, ids: list[RequestId]) -> None:
        """The first POST was refused in a way that a server of the older transport does: try that."""
        # [2025-11-25 basic/transports#backwards-compatibility] 400, 404, 405: GET, and expect an endpoint event
        assert self._opening is not None
        body = await response.read(MAX_ANSWER)
        found = decode(body) if body else None
        if isinstance(found, ErrorResponse) and found.error.code in MODERN_ERRORS:
            # [2026-07-28 basic/transports/streamable-http#httpsse-transport-2024-11-05] unless it is a modern error
            return self._hand_in(ErrorResponse(self._opening.id, found.error))
        older = SseClientTransport(self.url, headers=self._own_headers, http=self._http, trace=self._trace)
        try:
            await older.start(self._hand_in, self._older_lost)
        except ConnectionClosed as error:
            log.debug("nor does it speak HTTP+SSE: %s", error)
            await older.close()
            return self._refused(response, body, ids, self._hand_in)
        except BaseException:
            await older.close()
            raise
        self._older = older
        older.send(self._opening)

    def _older_lost(self, error: Exception | None) -> None:
        if self._lost is not None:
            lost, self._lost = self._lost, None
            lost(ConnectionClosed(str(error) if error else "the server ended the stream"))

    # ------------------------------------------------------------------------------------- streams

    async def _follow(self, response: HttpResponse, unanswered: set[RequestId], take: _Take) -> None:
        """Read a stream of events until its requests are answered, taking it up again when it breaks."""
        parser = EventParser(MAX_ANSWER)
        await self._read_events(response, parser, unanswered, take)
        attempts = 0
        # [2025-11-25 basic/transports#resumability-and-redelivery] to resume: a GET with the last event's id
        while unanswered and _resuming(parser) and attempts < ATTEMPTS:
            before = parser.last_event_id
            await asyncio.sleep(_pause(parser, attempts))
            parser = parser.resumed()
            try:
                async with self._http.request("GET", self.url, self._get_headers(parser), extra=True) as again:
                    if again.status == 200 and media_type(again.headers) == SSE_TYPE:
                        await self._read_events(again, parser, unanswered, take)
                    elif again.status < 500:
                        return  # the server does not know the stream any more
            except HttpError as error:
                log.debug("a stream was not taken up again: %s", error)
            attempts = 0 if parser.last_event_id != before else attempts + 1

    async def _read_events(
        self, response: HttpResponse, parser: EventParser, unanswered: set[RequestId] | None, take: _Take
    ) -> None:
        """Hand in what a response carries, until it ends; for a POST's stream, until there is no request unanswered."""
        try:
            async for piece in response:
                for event in parser.feed(piece):
                    # an event without data primes: it only says where the stream is
                    if event.data and event.event == "message":
                        self._take(event.data.encode(), unanswered, take)
                if unanswered is not None and not unanswered:
                    return
        except HttpError as error:
            log.debug("a stream broke: %s", error)

    async def _listen(self, before: asyncio.Task[None] | None = None) -> None:
        """Hold a stream open for what belongs to no request, where the server offers one."""
        if before is not None:
            await asyncio.wait([before])
        parser = EventParser(MAX_ANSWER)
        loop = asyncio.get_running_loop()
        attempts = 0
        heard = None
        while True:
            began, last, session = loop.time(), parser.last_event_id, self._session
            parser = parser.resumed()
            dead = False
            try:
                async with self._http.request("GET", self.url, self._get_headers(parser), extra=True) as response:
                    if response.status == 200 and media_type(response.headers) == SSE_TYPE:
                        heard = session
                        await self._read_events(response, parser, None, self._hand_in)
                    elif response.status == 404 and session is not None and heard == session:
                        dead = True
                    elif 400 <= response.status < 500 and (last or self._session != session):
                        parser = EventParser(MAX_ANSWER)  # what we missed is gone; listen from now on
                    elif response.status < 500:
                        # [2025-11-25 basic/transports#listening-for-messages-from-the-server] 405: there is none
                        return
                if dead:
                    parser = EventParser(MAX_ANSWER)
                    await self._renew(session)
            except ConnectionClosed:
                return  # the next call tries again
            except (HttpError, EventTooLarge) as error:
                log.debug("the listening stream broke: %s", error)
            useful = parser.last_event_id != last or loop.time() > began + MAX_RETRY / 2
            attempts = 0 if useful else attempts + 1
            await asyncio.sleep(_pause(parser, attempts))

    # ------------------------------------------------------------------------------------- sessions

    async def _renew(self, dead: str | None) -> None:
        """Begin a new session in the place of a dead one; several who find it dead share one new one."""
        if self._renewing is None or self._renewing.done():
            if self._session != dead:
                return
            self._renewing = asyncio.create_task(self._begin_again())
        why = await asyncio.shield(self._renewing)
        if why is not None:
            raise ConnectionClosed(f"the server has ended the session, and refused a new one: {why}")

    async def _begin_again(self) -> str | None:
        """[2025-11-25 basic/transports#session-management] a 404: MUST start a new session, without the old id.

        Gives the reason where that fails; the dead one stays then, for others to find.
        """
        opening, session, revision = self._opening, self._session, self._revision
        assert opening is not None
        log.info("%s has ended the session; a new one begins", public_url(self.url))
        answers: list[Incoming] = []
        try:
            async with asyncio.timeout(RENEWAL_SECONDS):
                await self._post(opening, encode(opening), [opening.id], answers.append)
                why = _refusal(answers) or ("it speaks another revision now" if self._revision != revision else None)
                if why is None:
                    notice = Notification("notifications/initialized")
                    async with self._http.request(
                        "POST", self.url, self._post_headers(notice), encode(notice), extra=True
                    ):
                        pass
        except TimeoutError:
            why = f"it took more than {RENEWAL_SECONDS:g} s"
        except (HttpError, EventTooLarge) as error:
            why = str(error)
        if why is not None:
            self._session, self._revision = session, revision
        elif self._listener is not None and self._listener.done():
            self._listener = asyncio.create_task(self._listen())
        return why

    # ------------------------------------------------------------------------------------- small parts

    def _headers(self) -> dict[str, str]:
        headers = dict(self._own_headers)
        if self._session is not None:
            headers[SESSION_HEADER] = self._session
        if self._revision is not None and self._revision.version_header:
            # [2025-11-25 basic/transports#protocol-version-header] MUST include it on all subsequent requests
            headers[VERSION_HEADER] = self._revision.name
        return headers

    def _post_headers(self, message: Outgoing) -> dict[str, str]:
        headers = dict(self._own_headers) if message is self._opening else self._headers()
        # [2025-11-25 basic/transports#sending-messages-to-the-server] MUST list both
        return {**headers, "Content-Type": JSON_TYPE, "Accept": f"{JSON_TYPE}, {SSE_TYPE}"}

    def _get_headers(self, parser: EventParser) -> dict[str, str]:
        return {**self._headers(), "Accept": SSE_TYPE, **_resuming(parser)}

    def _take(self, frame: bytes, unanswered: set[RequestId] | None, take: _Take) -> None:
        """Hand in a message that came, and note what it answers."""
        if self._trace is not None:
            self._trace("<-", frame)
        message = decode(frame)
        for answered in _answers(message):
            if self._opening is not None and answered == self._opening.id and isinstance(message, Response):
                self._revision = find_revision(message.result.get("protocolVersion"))
            if unanswered is not None:
                unanswered.discard(answered)
        take(message)

    def _hand_in(self, message: Incoming) -> None:
        if self._receive is not None:
            self._receive(message)

    def _fail(self, ids: list[RequestId], why: str, take: _Take) -> None:
        """No answer will come to these requests."""
        if not ids:
            log.warning("a message was not delivered: %s: %s", public_url(self.url), why)
        for id in ids:
            take(Undelivered(id, f"{public_url(self.url)}: {why}"))


def _resuming(parser: EventParser) -> dict[str, str]:
    """The header that says where a stream broke; empty where there is no telling."""
    # an id is text of any kind, and is sent in UTF-8; but a header takes no control characters
    last = parser.last_event_id.encode()
    return {"Last-Event-ID": last.decode("latin-1")} if last and not _CONTROL.search(last) else {}


def _refusal(answers: list[Incoming]) -> str | None:
    """Why `initialize` failed; None where it did not."""
    for answer in answers:
        if isinstance(answer, Response):
            return None
        if isinstance(answer, ErrorResponse):
            return answer.error.message
        if isinstance(answer, Undelivered):
            return answer.reason
    return "it did not answer"


def _pause(parser: EventParser, attempts: int) -> float:
    """Seconds before coming back: what the server asked for, and longer from one vain attempt to the next."""
    # [2025-11-25 basic/transports#sending-messages-to-the-server] MUST respect the retry field
    asked = parser.retry / 1000 if parser.retry is not None else 1.0
    return float(min(max(asked, MIN_RETRY) * 2 ** min(attempts, 10), MAX_RETRY))


def _asked(message: Outgoing) -> list[RequestId]:
    """The requests in a message that we send."""
    members = message.messages if isinstance(message, Batch) else [message]
    return [member.id for member in members if isinstance(member, Request)]


def _answers(message: Incoming) -> list[RequestId]:
    """The requests that a message answers, rightly or wrongly."""
    members = message.messages if isinstance(message, Batch) else [message]
    kinds = (Response, ErrorResponse, Malformed)
    return [member.id for member in members if isinstance(member, kinds) and member.id is not None]
