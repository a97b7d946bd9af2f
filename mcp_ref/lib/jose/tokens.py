"""Signed tokens: JSON Web Signatures (JWS) in compact form, and JSON Web Tokens (JWT), whose payload is claims.

    jws = parse_jws(token)                           # syntax only: nothing in it is trusted yet
    claims = check_claims(jws, rules, time.time())   # issuer, audience, times: cheap, so they come first
    verify(jws, keys)                                # now the claims are true

A token is `header.payload.signature`, each in base64url. The sender writes the header, which names the algorithm and
may contain keys. Many verifiers fell for that. So the receiver has a list of algorithms, and the algorithm must also
fit the key. Keys come from the receiver alone: `jwk`, `jku`, `x5u` and `x5c` in the header are ignored. `crit` demands
extensions, and is refused. Each part has one spelling, so that two readers never see two tokens in one.

Spec:  RFC 7515 (JWS), RFC 7519 4.1 (claims), RFC 8725 3 (best practice)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from .keys import ALGORITHMS, JSON, PublicKey, decode_base64url, encode_base64url, parse_object

MAX_TOKEN: Final = 16 * 1024
"""Maximum length of a token, in characters."""
MAX_SKEW: Final = 300
"""Maximum tolerance for clocks that differ, in seconds."""
MAX_DATE: Final = 253_402_300_799
"""Latest date in a claim, in seconds since 1970: the end of the year 9999."""


class InvalidToken(ValueError):
    """A token to refuse. The text contains the reason, and nothing that helps to use the token."""


class UnknownKey(InvalidToken):
    """A token that no known key fits. Its issuer may have published new keys."""


@dataclass(frozen=True, slots=True)
class Jws:
    """A token as it was received. All of it may be forged until `verify` has returned."""

    algorithm: str
    kid: str | None
    type: str | None  # in lower case, and without "application/" (RFC 7515 4.1.9)
    header: dict[str, JSON] = field(repr=False)
    payload: bytes = field(repr=False)
    signed: bytes = field(repr=False)
    signature: bytes = field(repr=False)


def parse_jws(token: str, algorithms: Collection[str] = frozenset(ALGORITHMS)) -> Jws:
    """Return the parts of a token in compact form. Raise InvalidToken for malformed ones and other algorithms."""
    parts = token.split(".", 3) if len(token) <= MAX_TOKEN else []
    if len(parts) != 3:
        raise InvalidToken(f"a token has three parts and at most {MAX_TOKEN} characters")
    head, payload, signature = (decode_base64url(part, InvalidToken) for part in parts)
    header = parse_object(head, InvalidToken)
    algorithm, kid, kind = (header.get(name) for name in ("alg", "kid", "typ"))
    if header.keys() & {"crit", "b64"}:
        raise InvalidToken("the header demands extensions (crit, b64), and none are supported")
    if not isinstance(algorithm, str) or not isinstance(kid, str | None) or not isinstance(kind, str | None):
        raise InvalidToken("a header has the string alg, and kid and typ are strings if present")
    if algorithm not in ALGORITHMS or algorithm not in algorithms:
        raise InvalidToken(f"the algorithm {algorithm[:20]!r} is not allowed")
    kind = kind.lower().removeprefix("application/") if kind is not None else None
    return Jws(algorithm, kid, kind, header, payload, token.rpartition(".")[0].encode(), signature)


def choose_key(jws: Jws, keys: Iterable[PublicKey]) -> PublicKey:
    """Return the only key with the algorithm and the kid of a token. Raise UnknownKey or, for several, InvalidToken."""
    fitting = [key for key in keys if key.fits(jws.algorithm) and jws.kid in (None, key.kid)]
    if not fitting:
        raise UnknownKey(f"no {jws.algorithm} key with the kid {str(jws.kid)[:80]!r} is known")
    if len(fitting) > 1:
        raise InvalidToken("several keys fit the token: give each key a kid of its own, and name it in the header")
    return fitting[0]


def verify(jws: Jws, keys: Iterable[PublicKey]) -> None:
    """Check the signature of a token. Raise UnknownKey if no key fits, InvalidToken if the signature is wrong."""
    if not choose_key(jws, keys).verify(jws.algorithm, jws.signed, jws.signature):
        raise InvalidToken("the signature is wrong")


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """The accepted issuers, audiences and types (None: no `typ`), and the tolerance for clocks, in seconds.

    The audiences are the names of the receiver. Another receiver may pass on its tokens, so they are refused.
    """

    issuers: Collection[str]
    audiences: Collection[str]
    types: Collection[str | None]
    skew: float = 30

    def __post_init__(self) -> None:
        if any(isinstance(names, str) or not names for names in (self.issuers, self.audiences, self.types)):
            raise ValueError("issuers, audiences and types are sets of at least one string")  # "ab" contains "a"
        if not 0 <= self.skew <= MAX_SKEW:
            raise ValueError(f"skew must be 0 to {MAX_SKEW} seconds")


def check_claims(jws: Jws, rules: ClaimRules, now: float) -> dict[str, JSON]:
    """Return the claims of a token that is for this receiver and valid `now`, in seconds since 1970.

    The signature is not checked here. Raise InvalidToken for a claim that is missing, malformed or not accepted.
    """
    claims = parse_object(jws.payload, InvalidToken)
    audiences = audience if isinstance(audience := claims.get("aud"), list) else [audience]
    if jws.type not in rules.types:
        raise InvalidToken(f"the type (typ) {str(jws.type)[:20]!r} is not accepted")
    if claims.get("iss") not in [*rules.issuers]:
        raise InvalidToken("the issuer (iss) is not accepted")
    if not all(isinstance(one, str) for one in audiences) or not any(name in audiences for name in rules.audiences):
        raise InvalidToken("the token is for another audience (aud)")
    expires, starts, issued = (read_date(claims, name) for name in ("exp", "nbf", "iat"))
    if expires is None or now >= expires + rules.skew:
        raise InvalidToken("the token has expired" if expires is not None else "the token has no expiry (exp)")
    if max(starts or 0, issued or 0) > now + rules.skew:
        raise InvalidToken("the token is not valid yet (nbf or iat)")
    return claims


def read_date(claims: dict[str, JSON], name: str) -> float | None:
    """Return a date in seconds since 1970. None if it is missing. Raise InvalidToken if it is anything else."""
    value = claims.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_DATE:
        raise InvalidToken(f"{name} is not a number of seconds since 1970, before the year 10000")
    return value if name in claims else None


def sign_jwt(header: dict[str, JSON], claims: dict[str, JSON], sign: Callable[[bytes], bytes]) -> str:
    """Return a signed token. The header names the algorithm of `sign`, for example ES256 of `PrivateKey.sign`."""
    parts = (json.dumps(part, separators=(",", ":"), allow_nan=False).encode() for part in (header, claims))
    signed = ".".join(map(encode_base64url, parts))
    return f"{signed}.{encode_base64url(sign(signed.encode()))}"
