"""Authorization on the client: each request carries a token, and is repeated with a better token if it is refused.

    request --> a token?  yes: send it, but first refresh an expired one that has a refresh token.  no: send none
       ^            |
       |           401: find the authorization server; refresh, or register and let the user sign in   once
       |           403 insufficient_scope: sign in again, for the old and the new scopes               a few times
       +------------+

`AuthorizedRequests` wraps the HTTP client of a transport, so that the same code serves POST and GET, both eras, and
HTTP+SSE. All requests to one MCP server share one `ServerGrant`, so a hundred requests with an expired token cause only
one refresh. This matters because many authorization servers treat a second use of a refresh token as theft.

Retries are limited, both for each request and for all requests together, because a hostile server could otherwise open
browser windows forever. The set of scopes only grows, or two operations could keep taking away each other's scopes.
After a refusal, the client requests the metadata again, because the MCP server may now name another authorization
server, to which the client MUST NOT send refresh tokens or registrations of the old one.
[2026-07-28 basic/authorization/client-registration#authorization-server-binding]

Each way to get tokens is a subclass of `Authorizer`, such as `Bearer` or `AuthorizationCode` (sign_in.py).

Spec:  2026-07-28 basic/authorization/index#access-token-usage, #scope-selection-strategy, #step-up-authorization-flow,
       #refresh-tokens, #error-handling
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Unpack

from ...jsonrpc.bounded_waits import retrieve_exception
from ...jsonrpc.messages import JSON
from ...lib.fields import CheckedFields
from ...lib.http.client import HttpSender, RequestOptions
from ...lib.http.origin import origin_of
from ...lib.http.response import HttpResponse
from ...revisions import Revision
from .addresses import canonical_resource, check_fetchable
from .authorization_server_discovery import PeerRequests
from .challenges import MAX_SCOPES, NO_CHALLENGE, Challenge, split_scopes, token_challenge
from .errors import AuthorizationError, InsufficientScope, peer_url
from .metadata import ResourceMetadata, ServerMetadata
from .store import MemoryStore
from .token_endpoint import ClientAuthentication, Form, Grant, Prover, request_token

MAX_ATTEMPTS: Final = 5
"""Maximum number of times that one HTTP request is sent."""
MAX_STEP_UPS: Final = 2
"""Maximum number of step-ups (sign-ins for more scopes) for one operation, such as a tool, if it stays refused."""
MAX_STEP_UPS_IN_A_ROW: Final = 3
"""Maximum number of step-ups in a row that do not help, for all operations of one server together."""
MAX_UNACCEPTED: Final = 2
"""Number of new grants in a row that the server may refuse before the client has to wait for the next one."""
UNACCEPTED_SECONDS: Final = 600.0
"""Length of this wait, in seconds, from the time at which the client got the latest of these grants."""
MAX_OPERATIONS: Final = 1000
"""Maximum number of operations whose step-ups are remembered. The oldest are forgotten first."""
RENEWAL_SECONDS: Final = 120.0
"""Time limit for getting a token without the user, in seconds. The time limits of requests are suspended meanwhile."""
CANCEL_SECONDS: Final = 1.0
"""Time that a cancelled sign-in has to free its port, in seconds."""


@dataclass(frozen=True, slots=True)
class Need:
    """The reason for a new token: the refusal of a request."""

    peers: PeerRequests
    challenge: Challenge = NO_CHALLENGE
    grant: Grant | None = None
    """The refused grant, or None if the request had no token."""
    scopes: tuple[str, ...] = ()
    """The scopes that the client has asked for before."""
    wants_scopes: bool = False
    """True if the token was good, but had too few scopes."""


@dataclass(kw_only=True, repr=False, eq=False)
class Authorizer(CheckedFields):
    """A way to get tokens, with one `ServerGrant` for each MCP server. Use it in one event loop at a time."""

    issuer: str | None = None
    """The only authorization server to use. Default: one that the MCP server names."""
    scopes: Sequence[str] = ()
    """Scopes to ask for in addition to those that the server demands."""
    store: MemoryStore = field(default_factory=MemoryStore)
    """The store of client ids, issuers and tokens. Default: one in memory, which ends with the program."""
    dpop: Prover | None = None
    """A `DpopKey`, to which tokens are then bound, so that a thief cannot use them without its private key."""
    resource_parameter: bool = True
    """False to leave out `resource` for an authorization server that refuses it, although a client MUST send it."""
    private_networks: bool = False
    """True if an MCP server on the internet may name authorization servers in the client's private network."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.extensions: dict[str, JSON] = {} if self.dpop is None else {self.dpop.extension: {}}
        """The extensions that the client declares, with their settings."""
        self._servers: dict[str, ServerGrant] = {}

    def server(self, url: str) -> ServerGrant:
        """Return the state for the MCP server at a URL."""
        return self._servers.setdefault(canonical_resource(url), ServerGrant(self))

    def wrap(
        self, http: HttpSender, url: str, revisions: Sequence[Revision],
        while_signing_in: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> AuthorizedRequests:  # fmt: skip
        """Return an HTTP client for the MCP server at a URL. `while_signing_in` suspends its requests' time limits."""
        at_origin = any(revision.authorization_at_origin for revision in revisions)
        return AuthorizedRequests(self, PeerRequests(http, url, self.private_networks, at_origin), while_signing_in)

    def headers(self, grant: Grant, method: str, url: str) -> Mapping[str, str]:
        """Return the headers that prove the authorization of one request."""
        # [2026-07-28 basic/authorization/index#token-requirements] the token MUST be in this header, in every request
        bearer = {"Authorization": f"Bearer {grant.access_token}"}
        return bearer if self.dpop is None else self.dpop.headers(method, url, grant.access_token)

    async def current(self, peers: PeerRequests, grant: Grant | None) -> Grant | None:
        """Return a stored or renewed grant for the next request, or None to send it without a token.

        `grant` is the latest one, whose token has expired or soon will, or None before the first request.
        """
        raise NotImplementedError

    async def obtain(self, need: Need) -> Grant:
        """Return a new grant after a refusal, or raise AuthorizationError."""
        raise NotImplementedError

    async def discard(self, peers: PeerRequests, grant: Grant) -> None:
        """Forget the refresh token of a grant that the server refuses. By default, do nothing."""

    def choose_scopes(self, need: Need, resource: ResourceMetadata, server: ServerMetadata) -> tuple[str, ...]:
        """Return the scopes to ask for: the earlier ones, those that the server demands, and the program's own."""
        # [2026-07-28 basic/authorization/index#scope-selection-strategy] the challenge's, or at first all supported
        demanded = need.challenge.scopes
        if not demanded and not need.scopes:
            demanded = resource.scopes_supported
        # [2026-07-28 basic/authorization/index#step-up-authorization-flow] the union with the earlier scopes
        scopes = dict.fromkeys((*need.scopes, *demanded, *split_scopes(self.scopes)))
        if scopes and "offline_access" in server.scopes_supported:
            # [2026-07-28 basic/authorization/index#refresh-tokens] MAY add it if the authorization server lists it
            scopes["offline_access"] = None
        return tuple(scopes)[:MAX_SCOPES]

    async def request(self, peers: PeerRequests, grant: Grant, authenticate: ClientAuthentication, form: Form) -> Grant:
        """Send a token request, and return the grant with the tokens of the response."""
        if self.resource_parameter:
            # [2026-07-28 basic/authorization/index#resource-parameter-implementation] MUST be in token requests
            # DEVIATION: a program may leave out `resource`, a MUST, because some authorization servers refuse it.
            form = {**form, "resource": grant.resource}
        asked_at, url = time.monotonic(), grant.token_endpoint
        return grant.renewed(await request_token(peers, grant.issuer, url, authenticate, form, self.dpop), asked_at)


class Bearer(Authorizer):
    """A token that the program got elsewhere, such as a personal access token: `Bearer("...")`.

    A refused token is an error, because the client does not know the issuer, from which it could get another one.

    Args:
        token: The token, or an async function that returns the current one. The client calls it for each request.

    Raises:
        ValueError: The token has characters that no header can have. From a function, it is an AuthorizationError.
    """

    def __init__(self, token: str | Callable[[], Awaitable[str]]) -> None:
        super().__init__()
        if not isinstance(token, str) and not callable(token):  # for example None, from a variable that is not set
            raise TypeError(f"the token must be a str or an async function, not an object of {type(token).__name__}")
        self._token = _checked_token(token) if isinstance(token, str) else token

    async def current(self, peers: PeerRequests, grant: Grant | None) -> Grant | None:
        token = self._token if isinstance(self._token, str) else _checked_token(await self._token())
        if grant is not None and grant.access_token == token:
            return grant
        expires_at = None if isinstance(self._token, str) else 0.0  # never fresh, so that the function is called again
        return Grant(token, id=hashlib.sha256(token.encode()).hexdigest(), expires_at=expires_at)

    async def obtain(self, need: Need) -> Grant:
        if need.wants_scopes:
            raise InsufficientScope(need.peers.server, need.challenge.scopes)
        raise AuthorizationError(f"{peer_url(need.peers.server)} refuses the token that this program was given: it has "
                                 "expired, or is for another server; get a new one")  # fmt: skip


def _checked_token(token: str) -> str:
    """Return a token. Raise ValueError, without the token, if it would make the Authorization header invalid."""
    if not isinstance(token, str):
        raise TypeError(f"the token must be a str, not an object of {type(token).__name__}")
    if not re.fullmatch("[!-~]+", token):
        raise ValueError("the token must be visible ASCII characters without spaces: leave out the word `Bearer`, and "
                         "the line break at the end of a file")  # fmt: skip
    return token


@dataclass(slots=True, eq=False)
class _Flow:
    """The task that gets a grant for all requests that wait for one. It is cancelled when the last of them leaves."""

    task: asyncio.Task[None]
    waiters: int = 0


class ServerGrant:
    """An authorizer's state for one MCP server: the grant, and the task that gets another one."""

    def __init__(self, authorizer: Authorizer) -> None:
        self.grant: Grant | None = None
        self.authorizer = authorizer
        self._is_loaded = False  # True after the first request has asked the authorizer for a stored grant
        self.scopes: tuple[str, ...] = ()
        """All scopes that the client has asked for."""
        self._flow: _Flow | None = None
        self._step_ups: dict[tuple[str, str], int] = {}  # by operation: the number of step-ups that did not help
        self._step_ups_in_a_row = 0
        self.unaccepted = 0
        """Number of grants in a row that the client got after a 401, and that the server has not accepted yet."""
        self._unaccepted_at = 0.0  # monotonic time of the latest of them

    @property
    def id(self) -> str | None:
        """The id of the current grant, by which caches keep users apart; None without a grant."""
        return None if self.grant is None else self.grant.id

    @property
    def is_ready(self) -> bool:
        """True if the next request can be sent at once, with or without a token."""
        return self._is_loaded and (self.grant is None or self.grant.is_fresh())

    async def prepare(self, peers: PeerRequests) -> None:
        """Load the stored grant, or refresh the token if it expires soon."""

        async def current() -> Grant | None:
            async with asyncio.timeout(RENEWAL_SECONDS):
                return await self.authorizer.current(peers, self.grant)

        await self._join(current, lambda: self.is_ready)

    async def replace(self, need: Need) -> None:
        """Get another grant after a 401, unless another request has got one since. Raise AuthorizationError at a limit.

        Without the limit, a server that refuses every token would cause one sign-in for each request.
        """

        async def obtain() -> Grant:
            grant = await self.authorizer.obtain(need)
            self.unaccepted += 1
            self._unaccepted_at = time.monotonic()
            return grant

        if self.grant is not need.grant:
            return
        wait = self._unaccepted_at + UNACCEPTED_SECONDS - time.monotonic()
        if self.unaccepted >= MAX_UNACCEPTED and wait > 0:
            refused = f"{peer_url(need.peers.server)} has refused {self.unaccepted} new tokens in a row"
            raise AuthorizationError(f"{refused}; ask its operator, and try again in {wait:.0f} s")
        await self._join(obtain, lambda: self.grant is not need.grant)

    async def step_up(self, need: Need, operation: tuple[str, str]) -> None:
        """Get a grant that also has the challenge's scopes. Raise InsufficientScope at a limit, or if none is new."""
        while self._flow is not None:  # its grant may help this request too, which then counts as no attempt
            await self._wait(self._flow)
        if self.grant is not need.grant:
            return
        # [2026-07-28 basic/authorization/index#step-up-authorization-flow] SHOULD limit attempts, and track failures
        failed = self._step_ups.pop(operation, 0)  # and stored again below, so that the first key is the oldest
        is_within_limits = failed < MAX_STEP_UPS and self._step_ups_in_a_row < MAX_STEP_UPS_IN_A_ROW
        has_new_scopes = not set(need.challenge.scopes) <= set(self.scopes)
        may_ask = is_within_limits and has_new_scopes
        self._step_ups[operation] = failed + 1 if may_ask else failed
        if len(self._step_ups) > MAX_OPERATIONS:
            oldest = next(iter(self._step_ups))
            del self._step_ups[oldest]
        if not may_ask:
            raise InsufficientScope(need.peers.server, need.challenge.scopes)
        self._step_ups_in_a_row += 1
        await self._join(partial(self.authorizer.obtain, need), lambda: self.grant is not need.grant)

    async def give_up(self, need: Need) -> None:
        """Raise the error for a new grant that the server refuses too."""
        if need.grant is not None:
            await self.authorizer.discard(need.peers, need.grant)
        raise AuthorizationError(f"{peer_url(need.peers.server)} refuses a token that was issued for it just now; "
                                 "ask the operator of the server")  # fmt: skip

    def served(self, operation: tuple[str, str]) -> None:
        """Note that the server served an operation after a step-up."""
        if self._step_ups.pop(operation, 0):
            self._step_ups_in_a_row = 0

    async def _join(self, work: Callable[[], Awaitable[Grant | None]], is_done: Callable[[], bool]) -> None:
        """Wait for the running flow, if there is one. Unless `is_done()` is then True, run `work` in a new flow."""
        while self._flow is not None:
            await self._wait(self._flow)
            if is_done():
                return
        self._flow = _Flow(asyncio.create_task(self._run(work)))
        self._flow.task.add_done_callback(retrieve_exception)
        await self._wait(self._flow)

    async def _wait(self, flow: _Flow) -> None:
        flow.waiters += 1
        try:
            await asyncio.shield(flow.task)
        finally:
            flow.waiters -= 1
            is_abandoned = flow.waiters == 0 and not flow.task.done()
            if self._flow is flow and (flow.task.done() or is_abandoned):
                self._flow = None  # so that nobody else waits for it
            if is_abandoned:
                flow.task.cancel()
                await asyncio.wait([flow.task], timeout=CANCEL_SECONDS)

    async def _run(self, work: Callable[[], Awaitable[Grant | None]]) -> None:
        try:
            self.grant = await work()
        except AuthorizationError:
            raise
        except Exception as error:  # of a store, of a function of the program, or of the operating system
            raise AuthorizationError(f"the authorization failed: {type(error).__name__}: {error}") from error
        self._is_loaded = True
        if self.grant is not None:
            self.scopes = tuple(dict.fromkeys((*self.scopes, *self.grant.scopes)))


@dataclass
class _Attempts:
    """The state of one request that may be sent several times."""

    replaced: bool = False
    """True after a 401 for which this request got another grant."""
    operation: tuple[str, str] | None = None
    """The operation that needed more scopes."""
    retried: Grant | None = None
    """The grant of the attempt that was repeated with a new nonce."""


class AuthorizedRequests:
    """The HTTP client that `Authorizer.wrap` returns, which sends a token with each request to one MCP server."""

    def __init__(
        self, authorizer: Authorizer, peers: PeerRequests, while_signing_in: Callable[[], AbstractContextManager[None]]
    ) -> None:
        check_fetchable(peers.server, peers.server)  # [RFC 6750 5.3] clients MUST use TLS, or anyone reads the token
        self._authorizer, self._peers, self._while_signing_in = authorizer, peers, while_signing_in
        self._server, self._origin = authorizer.server(peers.server), origin_of(peers.server)

    async def close(self) -> None:
        await self._peers.http.close()

    @contextlib.asynccontextmanager
    async def request(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, body: bytes = b"", /,
        **options: Unpack[RequestOptions],
    ) -> AsyncIterator[HttpResponse]:  # fmt: skip
        """Send a request with a token, and again with a better token if the server refuses it.

        Raises:
            AuthorizationError: The client got no token that the server accepts.
        """
        if origin_of(url) != self._origin:  # or this server would get the token of another one
            raise AuthorizationError(f"a request to {peer_url(url)} gets no token of {self._origin}")
        attempts = _Attempts()
        for _ in range(MAX_ATTEMPTS):
            if not self._server.is_ready and not attempts.replaced:  # a new token is tried, even if its lifetime is 0
                with self._while_signing_in():
                    await self._server.prepare(self._peers)
            grant = self._server.grant
            token = {} if grant is None else self._authorizer.headers(grant, method, url)
            sending = self._peers.http.request(method, url, {**(headers or {}), **token}, body, **options)
            async with sending as response:
                if grant is not None and self._asks_for_nonce(response, url, grant, attempts):
                    continue  # [RFC 9449 9] one more attempt, with the new nonce but the same token
                need = self._need(response, grant)
                if need is None or method == "DELETE":  # nobody signs in to end a session
                    self._note_accepted(response, attempts)
                    yield response
                    return
                self._peers.address = response.address or ""  # it limits where the server may point
            with self._while_signing_in():
                await self._get_better_grant(need, body, attempts)
        raise AuthorizationError(f"{peer_url(url)} refuses every token; ask the operator of the server")

    def _asks_for_nonce(self, response: HttpResponse, url: str, grant: Grant, attempts: _Attempts) -> bool:
        """Return True if the server wants the proof of a token again with the nonce of this response."""
        dpop = self._authorizer.dpop
        if dpop is None or not dpop.learn(url, response.headers):
            return False
        if attempts.retried is grant:
            raise AuthorizationError(f"{peer_url(url)} refuses every proof; ask its operator")
        attempts.retried = grant
        return True

    def _note_accepted(self, response: HttpResponse, attempts: _Attempts) -> None:
        """End the count of new tokens, and that of step-ups, which limit what a server can ask for in vain."""
        if attempts.replaced:
            self._server.unaccepted = 0
        if attempts.operation is not None and response.status < 400:
            self._server.served(attempts.operation)

    async def _get_better_grant(self, need: Need, body: bytes, attempts: _Attempts) -> None:
        """Get a grant with more scopes after a 403, and another grant after a 401, which a request does once."""
        if need.wants_scopes:
            attempts.operation = _operation(body)
            await self._server.step_up(need, attempts.operation)
        elif self._server.grant is need.grant:  # otherwise, another request has replaced it meanwhile
            if attempts.replaced:
                await self._server.give_up(need)
            attempts.replaced = True
            await self._server.replace(need)

    def _need(self, response: HttpResponse, grant: Grant | None) -> Need | None:
        """Return the reason for a better token than that of `grant`, or None if the server has not refused it."""
        challenge = token_challenge(response.headers.get_all("www-authenticate"))
        wants_scopes = response.status == 403 and challenge.parameters.get("error") == "insufficient_scope"
        if not wants_scopes and response.status != 401:
            return None
        return Need(self._peers, challenge, grant, self._server.scopes, wants_scopes)


def _operation(body: bytes) -> tuple[str, str]:
    """Return the method, and the name or URI, of a refused JSON-RPC request."""
    try:
        message = json.loads(body)
        params = message.get("params") or {}
        return str(message.get("method"))[:200], str(params.get("name", params.get("uri", "")))[:200]
    except (ValueError, AttributeError):  # a GET, or a batch
        return "", ""
