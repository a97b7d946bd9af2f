"""The server's half of authorization, which decides from the Authorization header whether a caller has access.

    protection = Protection("https://mcp.example/notes", ["https://auth.example"], JwtVerifier(), scopes={"notes:read"})
    server.run_http(authorization=protection)

A server MUST refuse a request with the status that fits. Every refusal but the 503 names the metadata document, from
which a client learns the authorization server. [2026-07-28 basic/authorization/index#error-handling]

    no Authorization header                     401   without `error`, as the client did nothing wrong [RFC 6750 3.1]
    not exactly one scheme and one token        400   invalid_request
    a token that is not valid here              401   invalid_token
    a caller without the scopes                 403   insufficient_scope, and all scopes of the operation
    the verifier cannot reach its keys          503   Retry-After; a 401 would make all users sign in again

A token is valid here if it is genuine, from one of the issuers, not expired, and made for this server, all of which the
server MUST check. The last check is easily forgotten, but without it, the operator of any other service could send us
the tokens that its users gave to it, and act as these users. So the token's audience (the servers that it was made for)
must contain this server, unless the verifier says that it has checked the audience itself. All invalid tokens get the
same response, which tells an attacker nothing.
[2026-07-28 basic/authorization/security-considerations#access-token-privilege-restriction]

Because verifying a signature for every request would cost too much, `Protection` remembers the rights of a token that a
`Verifier` has accepted, by the hash of the token, for a minute or until the token expires.

Spec:  2026-07-28 basic/authorization/index, basic/authorization/authorization-server-discovery,
       basic/authorization/security-considerations; RFC 6750, section 3; RFC 9728, sections 2, 3 and 5; RFC 9449, 7
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, Literal, Protocol, TypeAlias
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from ...jsonrpc.messages import Object
from ...lib.fields import check_arguments
from ...lib.http.message import HeaderList, Headers, HttpRequest
from ...lib.jose.keys import ALGORITHMS, JoseError
from ...lib.jose.tokens import MAX_DATE
from ..access import Access, AccessRefused, checked_scopes
from ..principal import Principal
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
"""Time for which a verified token is remembered, even if it is revoked meanwhile, in seconds."""
MAX_REPORTED: Final = 10
"""Maximum number of different reasons for refused tokens that are logged as warnings."""
INVALID_TOKEN: Final = "the access token is not valid here: get another one"
"""The only reason that clients learn about an invalid token."""
INVALID_PROOF: Final = "the DPoP proof is not valid here: send another one"
"""The only reason that clients learn about an invalid proof."""

Verify: TypeAlias = Callable[[str], Awaitable[Principal | None]]
"""A function that returns the principal of a token, or None for an invalid token."""
Implies: TypeAlias = Callable[[frozenset[str], str], bool]
"""A function that returns True if the scopes of a caller (first argument) include a scope (second argument)."""
Refusal: TypeAlias = tuple[str, HeaderList]
"""The error code and the headers of a refused request."""


class Verifier:
    """The base class of verifiers. `Protection` gives them resource and issuers, and remembers their principals."""

    skew = DEFAULT_SKEW
    """Tolerance for clocks that differ, in seconds."""

    def for_server(self, resource: str, issuers: Sequence[str]) -> Verify:
        """Return a function that verifies tokens of these issuers, made for this resource."""
        raise NotImplementedError


class ProofCheck(Protocol):
    """A check of DPoP proofs, with which a client shows that it has the key of a token. [RFC 9449 4.3]"""

    is_required: bool
    """True if tokens that are not bound to a key are refused."""

    def check(self, request: HttpRequest, token: str, principal: Principal, resource: str) -> Refusal | None:
        """Return the refusal of a request for the resource if its proof is bad, else None."""


class Protection:
    """The settings of a protected MCP server over HTTP, and the check of its requests.

    Args:
        resource: The URL of the MCP endpoint, as clients and the authorization server know it. Tokens are made for it.
        issuers: The authorization servers whose tokens are valid here, each named by its issuer URL.
        verify: The verifier of tokens: `JwtVerifier()`, `Introspection(...)`, or an async function of yours that
            returns the `Principal` of a token, or None. The principal's `audience` must contain the resource.
        scopes: The scopes that every request needs.
        needs: The scopes that a method needs in addition, by method: `{"tools/call": {"notes:write"}}`.
        implies: The scopes that a broader scope includes: `{"admin": {"notes:read"}}`; or a function, see `Implies`.
        hide_forbidden: True to list only the tools, resources and prompts whose scopes the caller has.
        dpop: The verifier of DPoP proofs, a `DpopCheck`. Default: a token that is bound to a key is refused.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A URL or scope is invalid. Plain http is allowed on loopback only.
    """

    def __init__(
        self, resource: str, issuers: Sequence[str], verify: Verifier | Verify, scopes: Collection[str] = (), *,
        needs: Mapping[str, Collection[str]] | None = None,
        implies: Mapping[str, Collection[str]] | Implies | None = None, hide_forbidden: bool = False,
        dpop: ProofCheck | None = None,
    ) -> None:  # fmt: skip
        check_arguments(Protection.__init__, locals())
        check_fetchable(resource, resource)
        if "?" in resource:
            raise ValueError(f"the resource must be a URL without a query: {resource[:200]}")
        if not 1 <= len(issuers) <= MAX_ISSUERS:
            raise TypeError(f"issuers must be a list of 1 to {MAX_ISSUERS} issuer URLs")
        for issuer in issuers:
            check_fetchable(issuer, resource)
            issuer_metadata_urls(issuer)  # raises ValueError for a query or fragment
        self.resource, self.issuers, self.scopes = resource, tuple(issuers), checked_scopes(scopes)
        self.needs = {method: checked_scopes(needed) for method, needed in (needs or {}).items()}
        self.implies = implies if callable(implies) else _hierarchy(implies or {})
        self.hide_forbidden, self._dpop, self._remembers = hide_forbidden, dpop, isinstance(verify, Verifier)
        # The credentials in a head, valid or not. Equal heads have the same `Headers` object (lib/http/parser.py).
        self._parsed: WeakKeyDictionary[Headers, tuple[str, str, bytes]] = WeakKeyDictionary()
        # By the token's hash: its rights, the end of the entry (monotonic clock), the end of the token (since 1970).
        self._remembered: dict[bytes, tuple[TokenAccess, float, float]] = {}
        self._schemes: Sequence[Literal["Bearer", "DPoP"]] = ("Bearer", "DPoP") if dpop is not None else ("Bearer",)
        if dpop is not None and dpop.is_required:
            self._schemes = ("DPoP",)
        self._reported: set[str] = set()  # reasons for refused tokens, each of which is a warning once
        self.skew = DEFAULT_SKEW
        if isinstance(verify, Verifier):
            self._verify, self.skew = verify.for_server(resource, self.issuers), verify.skew
        elif callable(verify) and not isinstance(verify, type):
            self._verify = verify
        else:
            raise TypeError("verify must be a verifier, such as JwtVerifier(), or an async function")
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
            request: The head of the request. Its body is not read before the token is checked.

        Raises:
            AccessRefused: The request has no valid token or proof, or no token can be verified now.
        """
        scheme, token, digest = self._parsed.get(request.headers) or self._credentials(request.headers)
        access, until, ends_at = self._remembered.get(digest, (None, 0.0, 0.0))
        if access is None or time.monotonic() >= until or time.time() >= ends_at:
            access = await self._access(scheme, token, digest)
        if scheme == "dpop" and self._dpop is not None:
            refused = self._dpop.check(request, token, access.principal, self.resource)
            if refused is not None:
                error, headers = refused
                reason = INVALID_TOKEN if error == "invalid_token" else INVALID_PROOF
                raise self._refusal(401, reason, error, headers=headers)
        return access.copy()

    async def _access(self, scheme: str, token: str, digest: bytes) -> TokenAccess:
        """Return the rights that a token gives, and remember them. Raise AccessRefused for an invalid token."""
        principal: Principal | None = None
        fault: str | None = None
        try:
            principal = await self._verify(token)
        except VerificationUnavailable as unavailable:
            log.warning("no token can be verified now: %s", unavailable)
            retry = ("Retry-After", str(unavailable.retry_after))
            raise AccessRefused(503, "tokens cannot be verified at the moment; try again later", [retry]) from None
        except JoseError as error:
            fault = peer_text(str(error))
        self._remembered.pop(digest, None)  # so that a new entry is the last, and the first entry is always the oldest
        if not isinstance(principal, Principal | None):
            returned = type(principal).__name__
            raise TypeError(f"the verifier returned an object of {returned}; it must return a Principal, or None")
        if principal is not None:
            fault = self._fault(principal, scheme)
        if principal is None or fault is not None:
            self._log_refusal(fault or "the verifier does not accept it")
            raise self._refusal(401, INVALID_TOKEN, "invalid_token")
        access = TokenAccess(self, principal)
        if self._remembers:
            if len(self._remembered) >= MAX_REMEMBERED:
                oldest = next(iter(self._remembered))
                del self._remembered[oldest]
            ends_at = MAX_DATE if access.ends_at is None else access.ends_at
            self._remembered[digest] = access, time.monotonic() + REMEMBERED_SECONDS, ends_at
        return access

    def _log_refusal(self, fault: str) -> None:
        """Log why a token was refused. The first time, it is a warning, because the settings may be wrong."""
        if fault in self._reported or len(self._reported) >= MAX_REPORTED:
            log.info("a token was refused: %s", fault)
        else:
            self._reported.add(fault)
            log.warning("a token was refused: %s (the log level INFO shows all refusals)", fault)

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
        credentials = scheme, token, hashlib.sha256(f"{scheme} {token}".encode()).digest()
        self._parsed[headers] = credentials
        return credentials

    def _fault(self, principal: Principal, scheme: str) -> str | None:
        """Return the reason why the principal of a genuine token has no access, or None."""
        if principal.issuer not in self.issuers:
            return "its issuer is not one of `issuers`"
        # [2026-07-28 basic/authorization/index#token-handling] we MUST validate that tokens were issued for this server
        if not principal.audience_checked:
            audience = [principal.audience] if isinstance(principal.audience, str) else principal.audience
            if not audience:
                log.warning("the verifier returns a Principal without audience: set it, or audience_checked=True")
            if self.resource not in audience:
                return "the `audience` of its Principal does not contain the resource"
        # `not ... <` and not `>=`, so that a token whose expiry is NaN has expired: comparisons with NaN are False
        if principal.expires_at is not None and not time.time() < principal.expires_at + self.skew:
            return "it has expired"
        # [RFC 9449 7.2] a bearer token must not be bound to a key, or a thief could use it without the key
        if scheme == "bearer" and ("cnf" in principal.claims or "Bearer" not in self._schemes):
            return "it needs a proof of possession"
        if scheme == "dpop" and self._dpop is None:
            return "the scheme DPoP is not supported"
        return None

    def _refusal(
        self, status: int, reason: str, error: str = "", scopes: Iterable[str] | None = None,
        headers: Iterable[tuple[str, str]] = (),
    ) -> AccessRefused:  # fmt: skip
        """Return a refusal with a challenge for each scheme that this server accepts."""
        scopes = sorted(self.scopes if scopes is None else scopes)
        challenges = [
            write_challenge(scheme, resource_metadata=self._document, scopes=scopes, error=error,
                            description=reason if error else "", algorithms=ALGORITHMS if scheme == "DPoP" else ())
            for scheme in self._schemes
        ]  # fmt: skip
        return AccessRefused(status, reason, [("WWW-Authenticate", ", ".join(challenges)), *headers])


class TokenAccess(Access):
    """The rights of a request with a valid access token."""

    principal: Principal

    def __init__(self, protection: Protection, principal: Principal) -> None:
        self.principal, self.id, self._protection = principal, principal.id, protection
        self.method_scopes, self.hides_forbidden = protection.needs, protection.hide_forbidden
        self.ends_at = None if principal.expires_at is None else principal.expires_at + protection.skew
        # A caller with the scopes of every request needs no further check, unless some methods need more.
        self.checks_every_message = bool(protection.needs) or self.refusal_for(()) is not None

    def refusal_for(self, scopes: Collection[str]) -> AccessRefused | None:
        held, needed = self.principal.scopes, self._protection.scopes.union(scopes)
        if needed <= held or all(scope in held or self._protection.implies(held, scope) for scope in needed):
            return None
        # [2026-07-28 basic/authorization/index#runtime-insufficient-scope-errors] all scopes in one challenge
        reason = f"the access token lacks scopes; needed are: {' '.join(sorted(needed))}"
        return self._protection._refusal(403, reason, "insufficient_scope", needed)


def _hierarchy(included: Mapping[str, Collection[str]]) -> Implies:
    """Return the function for a table of scopes. If a scope includes a second one, it has all that the second has."""
    table = {scope: checked_scopes(included[scope]) for scope in checked_scopes(included)}

    def implies(held: frozenset[str], needed: str) -> bool:
        while needed not in held:
            widened = held.union(*(table.get(scope, ()) for scope in held))
            if widened == held:
                return False
            held = widened
        return True

    return implies
