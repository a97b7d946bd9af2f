"""Signed tokens: JSON Web Signatures (JWS) in compact form, and JSON Web Tokens (JWT), whose payload is claims.

    jws = parse_jws(token)                       # syntax only: nothing in it is trusted yet
    claims = parse_object(jws.payload)
    check_claims(claims, issuers, audiences, time.time())    # cheap, so it comes before the signature
    verify(jws, keys)                            # now the claims are true

A token is `header.payload.signature`, each in base64url. The sender writes the header, which names the algorithm and
may contain keys, and many verifiers have wrongly obeyed it. Here the receiver lists the algorithms that it allows, and
the algorithm must also fit the key. Keys come from the receiver alone, so `jwk`, `jku`, `x5u` and `x5c` in the header
are ignored. `crit` demands extensions, and is refused. The base64url and the JSON must be strict, so that no two
parsers read one token differently.

Spec:  RFC 7515 (JWS), RFC 7519 4.1 (claims), RFC 8725 3 (best practice)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from .keys import ALGORITHMS, JSON, JoseError, PublicKey, decode_base64url, encode_base64url, parse_object

MAX_TOKEN: Final = 16 * 1024
"""Maximum length of a token, in characters."""
MAX_SKEW: Final = 300
"""Maximum tolerance for clocks that differ, in seconds."""
MAX_DATE: Final = 253_402_300_799
"""Latest date in a claim, in seconds since 1970: the end of the year 9999."""


class UnknownKey(JoseError):
    """A token that no known key fits, perhaps because its issuer has published new keys."""


@dataclass(frozen=True, slots=True)
class Jws:
    """A token as it was received. All of it may be forged until `verify` has returned."""

    algorithm: str
    kid: str | None
    type: str | None  # in lower case, and without "application/"
    header: dict[str, JSON] = field(repr=False)
    payload: bytes = field(repr=False)
    signed: bytes = field(repr=False)
    signature: bytes = field(repr=False)


def parse_jws(
    token: str, algorithms: Collection[str] = ALGORITHMS.keys(), types: Collection[str | None] | None = None
) -> Jws:
    """Return the parts of a token in compact form. Raise JoseError if it is malformed, or alg or typ is refused."""
    if len(token) > MAX_TOKEN or token.count(".") != 2:
        raise JoseError(f"a token must have three parts and at most {MAX_TOKEN} characters")
    head, payload, signature = map(decode_base64url, token.split("."))
    header = parse_object(head)
    algorithm, kid, kind = header.get("alg"), header.get("kid"), header.get("typ")
    if header.keys() & {"crit", "b64"}:
        raise JoseError("the header demands extensions (crit, b64), and none are supported")
    if not isinstance(algorithm, str) or not isinstance(kid, str | None) or not isinstance(kind, str | None):
        raise JoseError("a header must have the string alg; kid and typ, if present, must be strings")
    if algorithm not in ALGORITHMS or algorithm not in algorithms:
        raise JoseError(f"the algorithm {algorithm[:20]!r} is not allowed")
    kind = kind.lower().removeprefix("application/") if kind is not None else None  # RFC 7515 4.1.9
    if types is not None and kind not in types:
        raise JoseError(f"the type (typ) {str(kind)[:20]!r} is not accepted")
    return Jws(algorithm, kid, kind, header, payload, token.rpartition(".")[0].encode(), signature)


def choose_key(jws: Jws, keys: Iterable[PublicKey]) -> PublicKey:
    """Return the only key with a token's algorithm and kid. Raise UnknownKey for none, JoseError for several."""
    fitting = [key for key in keys if key.fits(jws.algorithm) and jws.kid in (None, key.kid)]
    if not fitting:
        with_kid = "" if jws.kid is None else f" with the kid {jws.kid[:80]!r}"
        raise UnknownKey(f"no {jws.algorithm} key{with_kid} is known")
    if len(fitting) > 1:
        raise JoseError("several keys fit the token: give each key a kid of its own, and name it in the header")
    return fitting[0]


def verify(jws: Jws, keys: Iterable[PublicKey]) -> None:
    """Check the signature of a token. Raise UnknownKey if no key fits, JoseError if the signature is wrong."""
    if not choose_key(jws, keys).verify(jws.algorithm, jws.signed, jws.signature):
        raise JoseError("the signature is wrong")


def check_claims(
    claims: dict[str, JSON], issuers: Collection[str], audiences: Collection[str], now: float, skew: float = 30
) -> None:
    """Check that claims are from one of the issuers, for one of the audiences (the receiver's names), and valid `now`.

    The skew is the tolerance for clocks, in seconds. Raise JoseError for a claim that is missing, malformed or refused.
    """
    audience = claims.get("aud")
    claimed = audience if isinstance(audience, list) else [audience]
    if claims.get("iss") not in [*issuers]:  # a list, because an unhashable claim would be a TypeError in a set
        raise JoseError("the issuer (iss) is not accepted")
    if not all(isinstance(name, str) for name in claimed) or not any(name in claimed for name in audiences):
        # without this check, the server for which the token was issued could use it here
        raise JoseError(f"the token is for another audience (aud) than {' or '.join(audiences)}")
    expires, starts, issued = read_date(claims, "exp"), read_date(claims, "nbf"), read_date(claims, "iat")
    if expires is None or now >= expires + skew:
        raise JoseError("the token has expired" if expires is not None else "the token has no expiry (exp)")
    if max(starts or 0, issued or 0) > now + skew:
        raise JoseError("the token is not valid yet (nbf or iat)")


def read_date(claims: dict[str, JSON], name: str) -> float | None:
    """Return a date in seconds since 1970, or None if it is missing. Raise JoseError if it is anything else."""
    if name not in claims:
        return None
    value = claims[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_DATE:
        raise JoseError(f"{name} is not a number of seconds since 1970, before the year 10000")
    return value


def sign_jwt(header: dict[str, JSON], claims: dict[str, JSON], sign: Callable[[bytes], bytes]) -> str:
    """Return a signed token. The header must name the algorithm of `sign`, such as ES256 for `PrivateKey.sign`."""
    parts = (json.dumps(part, separators=(",", ":"), allow_nan=False).encode() for part in (header, claims))
    signing_input = ".".join(map(encode_base64url, parts))
    return f"{signing_input}.{encode_base64url(sign(signing_input.encode()))}"
