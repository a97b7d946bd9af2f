"""The server's half of authorization: it decides from the Authorization header if a caller has access.

    protection = Protection("https://mcp.example/notes", ["https://auth.example"], JwtVerifier(), scopes={"notes:read"})
    server.run_http(authorization=protection)

The decision, in this order. Every refusal but the last names the metadata document, from which a client learns the
authorization server. [2026-07-28 basic/authorization/index#error-handling]

    no Authorization header                     401   no `error`: the client did nothing wrong [RFC 6750 3.1]
    not one scheme with one token               400   invalid_request
    a token that is not valid here              401   invalid_token
    a caller without the scopes                 403   insufficient_scope, and all scopes of the operation
    the verifier cannot reach its keys          503   Retry-After; a 401 would make all users sign in again

A token is valid here if it is genuine, from one of the issuers, in time, and made for this server. The last check is
easily forgotten. Without it, the operator of any other service could use the tokens that users gave to that service. So
a verifier that has checked the audience itself must say so. All invalid tokens get the same response, which tells an
attacker nothing. [2026-07-28 basic/authorization/security-considerations#access-token-privilege-restriction]

Every request is decided again, because tokens expire. To verify a signature again would cost too much, so the principal
of a verified token is remembered for a minute, but only by the hash of the token.

Spec:  2026-07-28 basic/authorization/index, basic/authorization/authorization-server-discovery,
       basic/authorization/security-considerations; RFC 6750, section 3; RFC 9728, sections 2, 3 and 5; RFC 9449, 7
Above: server/http.py. Below: `verifiers.py` checks tokens; `challenges.py` writes the headers.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, Literal, Protocol, TypeAlias, runtime_checkable
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from ...jsonrpc.messages import Object
from ...lib.http.message import HeaderList, Headers, HttpRequest
from ...lib.jose.tokens import InvalidToken
from ..access import Access, AccessRefused, Principal, checked_scopes
from .addresses import check_fetchable, issuer_metadata_urls, resource_metadata_urls
from .challenges import read_credentials, write_challenge
from .errors import VerificationUnavailable, peer_text
from .metadata import MAX_ISSUERS, MAX_TOKEN, ResourceMetadata

log = logging.getLogger(__name__)

DEFAULT_SKEW: Final = 30.0
"""Tolerance for clocks that differ, in seconds."""
MAX_REMEMBERED: Final = 10_000
"""Maximum number of verified tokens that are remembered, by their hash."""
REMEMBERED_SECONDS: Final = 60.0
"""Time for which a verified token is remembered, in seconds. A revoked token stays valid for this time."""
INVALID_TOKEN: Final = "the access token is not valid here: get another one"
"""The one reason that clients learn about an invalid token."""
INVALID_PROOF: Final = "the DPoP proof is not valid here: send another one"
"""The one reason that clients learn about an invalid proof."""

Verify: TypeAlias = Callable[[str], Awaitable[Principal | None]]
"""A function that returns the principal of a token, or None for an invalid token."""
Implies: TypeAlias = Callable[[frozenset[str], str], bool]
"""A function that returns True if a caller with the scopes (first argument) may do what needs the scope (second)."""


@runtime_checkable
class Verifier(Protocol):
    """A verifier that learns from `Protection` which tokens are valid. Its principals are remembered for a minute."""

    skew: float
    """Tolerance for clocks that differ, in seconds."""

    def for_server(self, resource: str, issuers: Sequence[str]) -> Verify:
        """Return a function that verifies tokens of these issuers, made for this resource."""


class ProofCheck(Protocol):
    """The verifier of DPoP proofs, with which a client shows that it has the key of a token. [RFC 9449 7]"""

    is_required: bool
    """True if tokens without a key are refused."""
    algorithms: Collection[str]
    """The algorithms of proofs."""

    def check(
        self, request: HttpRequest, token: str, principal: Principal, resource: str
    ) -> tuple[str, HeaderList] | None:
        """Return the error code and headers of a refusal, or None for a good proof."""


class Protection:
    """The protection of an MCP server over HTTP.

    Args:
        resource: The URL of the MCP endpoint, as clients and the authorization server know it. Tokens are made for it.
        issuers: The authorization servers whose tokens are valid here, each named by its issuer URL.
        verify: The verifier of tokens: `JwtVerifier()`, `Introspection(...)`, or an async function of yours that
            returns the `Principal` of a token, or None. Its `audience` must contain the resource.
        scopes: The scopes that every request needs.
        needs: The scopes that a method needs in addition, by method: `{"tools/call": {"notes:write"}}`.
        implies: The scopes that a broader scope includes: `{"admin": {"notes:read"}}`; or a function, see `Implies`.
        hide_forbidden: True to leave out of lists the tools, resources and prompts whose scopes the caller lacks.
        dpop: The verifier of DPoP proofs, a `DpopCheck`. Default: a token that is bound to a key is refused.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A URL or scope is invalid. Plain http is allowed on loopback only.
    """

    def __init__(
        self,
        resource: str,
        issuers: Sequence[str],
        verify: Verifier | Verify,
        scopes: Collection[str] = (),
        *,
        needs: Mapping[str, Collection[str]] | None = None,
        implies: Mapping[str, Collection[str]] | Implies | None = None,
        hide_forbidden: bool = False,
        dpop: ProofCheck | None = None,
    ) -> None:
        check_fetchable(resource, resource)
        if "?" in resource:
            raise ValueError(f"the resource must be a URL without a query: {resource[:200]}")
        if isinstance(issuers, str) or not 1 <= len(issuers) <= MAX_ISSUERS:
            raise TypeError(f"issuers is a list of 1 to {MAX_ISSUERS} issuer URLs")
        for issuer in issuers:
            check_fetchable(issuer, resource)
            issuer_metadata_urls(issuer)  # raises ValueError for a query or fragment
        self.resource, self.issuers, self.scopes = resource, tuple(issuers), checked_scopes(scopes)
        self.needs = {method: checked_scopes(needed) for method, needed in (needs or {}).items()}
        self.hide_forbidden, self._dpop = hide_forbidden, dpop
        # The HTTP server reuses the headers of a connection that sends the same head again. Only the syntax is kept.
        self._parsed: WeakKeyDictionary[Headers, tuple[str, str, bytes]] = WeakKeyDictionary()
        self._verified: dict[bytes, tuple[Principal, float]] = {}
        self._implies = implies if callable(implies) else _hierarchy(implies or {})
        self._remembers, self.skew = isinstance(verify, Verifier), DEFAULT_SKEW
        if isinstance(verify, Verifier):
            self._verify, self.skew = verify.for_server(resource, self.issuers), verify.skew
        elif callable(verify) and not isinstance(verify, type):
            self._verify = verify
        else:
            raise TypeError("verify is a verifier, such as JwtVerifier(), or an async function")
        documents = resource_metadata_urls(resource)
        self._document = documents[0]
        self.paths = frozenset(urlsplit(url).path for url in documents)
        """The paths of the metadata document: with the path of the resource, and at the root of the site."""

    def metadata(self) -> Object:
        """Return the protected resource metadata, for a server that must route the well-known URL itself."""
        # [2026-07-28 basic/authorization/authorization-server-discovery#authorization-server-location]
        return ResourceMetadata(self.resource, self.issuers, tuple(sorted(self.scopes))).to_json()

    async def authorize(self, request: HttpRequest) -> Access:
        """Return the access of a request.

        Args:
            request: The head of the request. The body is not used: nothing is read before the token is checked.

        Raises:
            AccessRefused: The request has no valid token.
        """
        scheme, token, digest = self._parsed.get(request.headers) or self._credentials(request.headers)
        principal, until = self._verified.get(digest, (None, 0.0))
        if time.monotonic() >= until:
            principal = await self._verified_principal(token, digest)
        if principal is None or (fault := self._fault(principal, scheme)) is not None:
            log.info("a token was refused: %s", fault if principal is not None else "the verifier does not accept it")
            raise self._refusal(401, INVALID_TOKEN, "invalid_token")
        if scheme == "dpop" and self._dpop is not None:
            refused = self._dpop.check(request, token, principal, self.resource)
            if refused is not None:
                reason = INVALID_TOKEN if refused[0] == "invalid_token" else INVALID_PROOF
                raise self._refusal(401, reason, refused[0], headers=refused[1])
        return TokenAccess(self, principal)

    async def _verified_principal(self, token: str, digest: bytes) -> Principal | None:
        """Return the principal of a token, or None for an invalid token. Remember it by the hash of the token."""
        try:
            principal = await self._verify(token)
        except VerificationUnavailable as unavailable:
            log.warning("no token can be verified now: %s", unavailable)
            retry = ("Retry-After", str(unavailable.retry_after))
            raise AccessRefused(503, "tokens cannot be verified at the moment; try again later", [retry]) from None
        except InvalidToken as fault:
            log.info("a token is invalid: %s", peer_text(str(fault)))
            principal = None
        self._verified.pop(digest, None)
        if principal is not None and self._remembers:
            if len(self._verified) >= MAX_REMEMBERED:
                del self._verified[next(iter(self._verified))]
            self._verified[digest] = principal, time.monotonic() + REMEMBERED_SECONDS
        return principal

    def _credentials(self, headers: Headers) -> tuple[str, str, bytes]:
        """Return the scheme, the token and its hash. Raise AccessRefused without a token."""
        fields = headers.get_all("authorization")
        if not fields:
            raise self._refusal(401, "authentication required: send an access token in the Authorization header")
        try:
            scheme, token = read_credentials(", ".join(fields))
        except ValueError as error:
            raise self._refusal(400, str(error), "invalid_request") from None
        if scheme not in ("bearer", "dpop"):
            raise self._refusal(400, "the scheme of the Authorization header must be Bearer", "invalid_request")
        if len(token) > MAX_TOKEN:
            raise self._refusal(401, INVALID_TOKEN, "invalid_token")
        found = self._parsed[headers] = scheme, token, hashlib.sha256(token.encode()).digest()
        return found

    def _fault(self, principal: Principal, scheme: str) -> str | None:
        """Return the reason why the principal of a genuine token has no access, or None."""
        if principal.issuer not in self.issuers:
            return "its issuer is not one of `issuers`"
        # [2026-07-28 basic/authorization/index#token-handling] MUST validate that tokens were issued for this server
        if not principal.audience_checked:
            audience = [principal.audience] if isinstance(principal.audience, str) else principal.audience
            if not audience:
                log.warning("the verifier returns a Principal without audience: set it, or audience_checked=True")
            if self.resource not in audience:
                return "the `audience` of its Principal does not contain the resource"
        if principal.expires_at is not None and time.time() >= principal.expires_at + self.skew:
            return "it has expired"
        # [RFC 9449 7.2] as a bearer token, a stolen token would work without its key
        if scheme == "bearer" and ("cnf" in principal.claims or (self._dpop is not None and self._dpop.is_required)):
            return "it needs a proof of possession"
        return "the scheme DPoP is not supported" if scheme == "dpop" and self._dpop is None else None

    def _scope_refusal(self, principal: Principal, scopes: Collection[str]) -> AccessRefused | None:
        """Return the refusal of an operation, or None if the principal has its scopes and those of every request."""
        needed, held = self.scopes.union(scopes), principal.scopes
        if all(scope in held or self._implies(held, scope) for scope in needed):
            return None
        # [2026-07-28 basic/authorization/index#runtime-insufficient-scope-errors] all scopes in one challenge
        listed = sorted(needed)
        reason = f"the access token lacks scopes; needed are: {' '.join(listed)}"
        return self._refusal(403, reason, "insufficient_scope", listed)

    def _refusal(
        self,
        status: int,
        reason: str,
        error: str = "",
        scopes: Iterable[str] | None = None,
        headers: HeaderList | None = None,
    ) -> AccessRefused:
        """Return a refusal with a challenge for each scheme that this server accepts."""
        schemes: list[tuple[Literal["Bearer", "DPoP"], Collection[str]]] = [("Bearer", ())]
        if self._dpop is not None:
            proven: tuple[Literal["DPoP"], Collection[str]] = ("DPoP", self._dpop.algorithms)
            schemes = [proven] if self._dpop.is_required else [*schemes, proven]
        challenges = [
            write_challenge(
                scheme,
                resource_metadata=self._document,
                scopes=sorted(self.scopes) if scopes is None else scopes,
                error=error,
                description=reason if error else "",
                algorithms=algorithms,
            )
            for scheme, algorithms in schemes
        ]
        return AccessRefused(status, reason, [("WWW-Authenticate", ", ".join(challenges)), *(headers or [])])


class TokenAccess(Access):
    """The rights of a request with a valid access token."""

    checks_every_message = True

    def __init__(self, protection: Protection, principal: Principal) -> None:
        self.principal, self.id, self.method_scopes = principal, principal.id, protection.needs
        self._protection, self._holder = protection, principal

    @property
    def hides_forbidden(self) -> bool:
        return self._protection.hide_forbidden

    @property
    def ends_at(self) -> float | None:
        return None if self._holder.expires_at is None else self._holder.expires_at + self._protection.skew

    def refusal_for(self, scopes: Collection[str]) -> AccessRefused | None:
        held = self._holder.scopes
        if self._protection.scopes <= held and held.issuperset(scopes):
            return None
        return self._protection._scope_refusal(self._holder, scopes)


def _hierarchy(included: Mapping[str, Collection[str]]) -> Implies:
    """Return the function for a table of scopes. A scope includes also the scopes of those that it includes."""
    reach: dict[str, set[str]] = {}
    for scope in checked_scopes(included):
        found, waiting = set[str](), [scope]
        while waiting:
            for inner in checked_scopes(included.get(waiting.pop(), ())) - found:
                found.add(inner)
                waiting.append(inner)
        reach[scope] = found
    return lambda held, needed: any(needed in reach.get(scope, ()) for scope in held)
