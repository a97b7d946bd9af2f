"""Verifiers of access tokens: they check that a token is genuine, not expired, and made for this server.

    JwtVerifier     the token is signed, a JWT; the issuer publishes its keys          RFC 9068, RFC 7517
    Introspection   the token is a random text; the issuer is asked about it           RFC 7662

    issuer -> its metadata -> jwks_uri -> keys -> signature        one request for all tokens of ten minutes
           -> its metadata -> introspection_endpoint -> active?    one request for each token and minute

All trust rests on the keys, so the requests for them have rules:

- Only the configured issuers are asked, over https, without redirects. A key server that a token names is ignored.
- Each issuer has its own keys, because one issuer could otherwise sign tokens in the name of another.
- An unknown key id leads to a request at most every `RETRY_SECONDS`, because an attacker can invent key ids.
- Old keys stay valid for `HELD_SECONDS`, so that a failing key server does not sign out all users. Without keys the
  response is 503, because a 401 would send each user to a sign-in that cannot help.

Because verifying a signature takes up to 5 ms, the claims are checked first, and most bad tokens fail there.

Spec:  2026-07-28 basic/authorization/index#token-handling; 2026-07-28
       basic/authorization/security-considerations#access-token-privilege-restriction; RFC 7519; RFC 8725
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final, Generic, TypeVar
from urllib.parse import urlencode

from ...jsonrpc.messages import JSON
from ...lib.fields import check_arguments
from ...lib.http.client import HttpClient, fetch
from ...lib.http.response import HttpError
from ...lib.jose.keys import ALGORITHMS, MAX_KEY_SET, JoseError, PublicKey, parse_key_set, parse_object
from ...lib.jose.tokens import MAX_SKEW, UnknownKey, check_claims, parse_jws, read_date, verify
from ..principal import Principal
from .addresses import check_fetchable, issuer_metadata_urls
from .challenges import basic_credentials, split_scopes
from .errors import VerificationUnavailable, peer_text, peer_url
from .metadata import MAX_DOCUMENT, ServerMetadata, parse_server_metadata
from .server import DEFAULT_SKEW, Verifier, Verify

log = logging.getLogger(__name__)
T = TypeVar("T")

FRESH_SECONDS: Final = 600.0
"""Time for which the keys of an issuer are used without a new request, in seconds."""
HELD_SECONDS: Final = 24 * 3600.0
"""Time for which keys stay valid while the issuer is out of reach, in seconds."""
HURRY_SECONDS: Final = 1.0
"""Time that a request waits for newer keys while old ones are valid, in seconds."""
RETRY_SECONDS: Final = 30.0
"""Minimum time between two requests for the keys of an issuer, in seconds."""
FETCH_SECONDS: Final = 5.0
"""Time that an issuer has for one document, in seconds."""
MAX_INTROSPECTIONS: Final = 32
"""Maximum number of tokens that are introspected at a time. Requests with further tokens get 503."""


class _Fetched(Generic[T]):
    """A value that an issuer publishes, fetched when it is first needed, and then kept."""

    def __init__(self, name: str, fetch_value: Callable[[], Awaitable[T]]) -> None:
        self.has_failed = False
        """True if the latest request has failed."""
        self._name, self._fetch_value = name, fetch_value
        self._value: T | None = None
        self._fetched_at = self._asked_at = -HELD_SECONDS  # monotonic times, at first long ago
        self._fetching: asyncio.Task[None] | None = None

    async def get(self, renew: bool = False) -> T:
        """Return the value, after fetching it if it is old or `renew` is True, or raise VerificationUnavailable."""
        now = time.monotonic()
        can_use_old = self._value is not None and not renew
        is_fresh = now < self._fetched_at + FRESH_SECONDS
        if not can_use_old or not is_fresh:
            if self._fetching is None or now >= self._asked_at + RETRY_SECONDS:
                self._asked_at = now
                self._fetching = asyncio.create_task(self._fetch())
            if not self._fetching.done():  # all requests wait for one task, and none of them cancels it
                await asyncio.wait([self._fetching], timeout=HURRY_SECONDS if can_use_old else None)
        if self._value is None or time.monotonic() >= self._fetched_at + HELD_SECONDS:
            left = self._asked_at + RETRY_SECONDS - time.monotonic()
            raise VerificationUnavailable(f"{self._name} are out of reach", retry_after=max(1, round(left)))
        return self._value

    async def _fetch(self) -> None:
        self.has_failed = True  # until it succeeds
        try:
            self._value = await self._fetch_value()
            self._fetched_at = time.monotonic()
            self.has_failed = False
        except (HttpError, ValueError) as error:
            log.warning("%s could not be fetched: %s", self._name, peer_text(str(error)))


async def _fetch_body(method: str, url: str, limit: int, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    """Return the body of a response with status 200, following no redirect. Raise HttpError for another status."""
    headers = {"Accept": "application/json", **headers}
    async with HttpClient() as http:
        found = await fetch(http, method, url, headers, body, limit=limit, seconds=FETCH_SECONDS)
    if found.status != 200:
        raise HttpError(f"{peer_url(url)} sent status {found.status}")
    return found.body


async def _fetch_metadata(issuer: str, resource: str) -> ServerMetadata:
    """Return the metadata of a configured issuer, from the first of its well-known URLs that has them."""
    faults = []
    for url in issuer_metadata_urls(issuer):
        try:
            return parse_server_metadata(await _fetch_body("GET", url, MAX_DOCUMENT, {}), issuer, resource)
        except (HttpError, ValueError) as error:
            faults.append(peer_text(str(error)))
    raise HttpError("; ".join(faults))


async def _fetch_keys(issuer: str, resource: str, url: str | None) -> tuple[PublicKey, ...]:
    """Return the public keys of an issuer, from `url` or else from the URL in its metadata."""
    url = url or (await _fetch_metadata(issuer, resource)).jwks_uri
    if not url:
        raise ValueError(f"the metadata of {issuer} have no jwks_uri: use Introspection, or your own verifier")
    return parse_key_set(await _fetch_body("GET", url, MAX_KEY_SET, {}))


async def _fetch_introspection_endpoint(issuer: str, resource: str) -> str:
    found = (await _fetch_metadata(issuer, resource)).introspection_endpoint
    if not found:
        raise ValueError("the metadata have no introspection_endpoint: use JwtVerifier, or your own verifier")
    return found


def _principal_of(claims: dict[str, JSON], issuer: str) -> Principal:
    # Authorization servers name client and scopes in different ways.
    clients = [claims.get(name) for name in ("client_id", "azp", "appid")]
    client = next((value for value in clients if isinstance(value, str)), "")
    scope = claims.get("scope", claims.get("scp"))
    subject, audience = claims.get("sub", ""), claims.get("aud")
    texts = scope if isinstance(scope, list) else [scope]
    scopes = split_scopes(text for text in texts if isinstance(text, str))
    if not isinstance(subject, str) or not (subject or client):
        raise JoseError("the token names neither a user (sub) nor a client (client_id)")
    audiences = audience if isinstance(audience, list) else [audience]
    return Principal(issuer, subject, client, frozenset(scopes), MappingProxyType(claims), read_date(claims, "exp"),
                     [str(name) for name in audiences], audience_checked=True)  # fmt: skip


def _check_sets(**sets: Collection[str | None] | None) -> None:
    """Raise ValueError if an argument is a string, or an empty set. None stands for a default."""
    for name, given in sets.items():
        if given is not None and (isinstance(given, str) or not given):
            raise ValueError(f"{name} must be a set of at least one string")


class JwtVerifier(Verifier):
    """A verifier of tokens that are JWTs, with the keys that each issuer publishes.

    Args:
        audiences: The names of this server in the `aud` of tokens. Default: the resource of the `Protection`. Give
            them if the authorization server ignores the `resource` parameter, for example `{"api://notes"}`.
        algorithms: The allowed signature algorithms. Default: all of `lib/jose`, which has none with shared secrets.
        types: The allowed types (`typ`) of tokens. Default: "at+jwt", as RFC 9068 demands, "jwt", and None for no type.
        skew: Tolerance for clocks that differ, in seconds, 0 to 300.
        jwks: URL of the keys, for an issuer whose metadata do not name it. It is used for all issuers.

    Raises:
        ValueError: An argument is out of its bounds.
    """

    def __init__(
        self, audiences: Collection[str] | None = None, algorithms: Collection[str] = tuple(ALGORITHMS),
        types: Collection[str | None] = ("at+jwt", "jwt", None), skew: float = DEFAULT_SKEW, jwks: str | None = None,
    ) -> None:  # fmt: skip
        _check_sets(audiences=audiences, algorithms=algorithms, types=types or ())
        check_arguments(JwtVerifier.__init__, locals())
        if not set(algorithms) <= ALGORITHMS.keys():
            raise ValueError(f"algorithms must be a set of some of {', '.join(ALGORITHMS)}")
        if not 0 <= skew <= MAX_SKEW:
            raise ValueError(f"skew must be 0 to {MAX_SKEW} seconds")
        self.skew, self._audiences, self._algorithms, self._types = skew, audiences, frozenset(algorithms), types
        self._jwks = jwks

    def for_server(self, resource: str, issuers: Sequence[str]) -> Verify:
        if self._jwks is not None:
            check_fetchable(self._jwks, resource)
        keys = {one: _Fetched(f"the keys of {one}", partial(_fetch_keys, one, resource, self._jwks)) for one in issuers}

        async def verify_token(token: str) -> Principal:
            jws = parse_jws(token, self._algorithms, self._types)
            claims = parse_object(jws.payload)
            check_claims(claims, issuers, self._audiences or (resource,), time.time(), self.skew)
            principal = _principal_of(claims, str(claims["iss"]))
            source = keys[principal.issuer]
            try:
                verify(jws, await source.get())
            except UnknownKey:
                newer = await source.get(renew=True)
                if source.has_failed:
                    raise VerificationUnavailable("a token has a new key, which is out of reach") from None
                verify(jws, newer)
            return principal

        return verify_token


class Introspection(Verifier):
    """A verifier of tokens that only their issuer understands. It asks the issuer about each of them.

    Args:
        issuer: The authorization server.
        client_id: The name under which this server is registered there.
        secret: The secret of that registration.
        audiences: The names of this server in the `aud` of tokens. Default: the resource of the `Protection`.

    Raises:
        ValueError: `audiences` is empty.
    """

    def __init__(self, issuer: str, client_id: str, secret: str, audiences: Collection[str] | None = None) -> None:
        _check_sets(audiences=audiences)
        check_arguments(Introspection.__init__, locals())
        credentials = basic_credentials(client_id, secret)
        self._headers = {"Authorization": credentials, "Content-Type": "application/x-www-form-urlencoded"}
        self._issuer, self._audiences = issuer, audiences

    def for_server(self, resource: str, issuers: Sequence[str]) -> Verify:
        if self._issuer not in issuers:
            raise ValueError(f"issuers must contain {self._issuer}, the issuer of the Introspection")
        find = partial(_fetch_introspection_endpoint, self._issuer, resource)
        endpoint = _Fetched(f"the metadata of {self._issuer}", find)
        running: dict[str, asyncio.Task[Principal | None]] = {}  # not shared: another server has another audience

        async def verify_token(token: str) -> Principal | None:
            task = running.get(token)
            if task is None:
                if len(running) >= MAX_INTROSPECTIONS:  # because an attacker can invent any number of tokens
                    raise VerificationUnavailable("too many introspections are in flight", retry_after=1)
                asking = self._introspect(endpoint, self._audiences or (resource,), token)
                task = running[token] = asyncio.create_task(asking)
                task.add_done_callback(lambda _: running.pop(token))
            return await asyncio.shield(task)  # all requests with one token share the response

        return verify_token

    async def _introspect(self, endpoint: _Fetched[str], audiences: Collection[str], token: str) -> Principal | None:
        body = urlencode({"token": token, "token_type_hint": "access_token"}).encode()
        try:
            claims = parse_object(await _fetch_body("POST", await endpoint.get(), MAX_DOCUMENT, self._headers, body))
        except (HttpError, ValueError) as error:
            raise VerificationUnavailable(f"introspection failed: {peer_text(str(error))}", retry_after=5) from None
        if claims.get("active") is not True:  # [RFC 7662 2.2] otherwise the other members are not reliable
            return None
        defaults: dict[str, JSON] = {"iss": self._issuer, "exp": time.time() + 1}  # [RFC 7662 2.2] both are OPTIONAL
        check_claims(defaults | claims, [self._issuer], audiences, time.time(), self.skew)
        return _principal_of(claims, self._issuer)
