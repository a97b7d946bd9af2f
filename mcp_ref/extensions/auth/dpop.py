"""DPoP: a client proves with each request that it has the private key to which its token is bound.

    POST /token  DPoP: <proof>                                   the token in the response is bound to the proof's key
    POST /notes  DPoP: <proof>  Authorization: DPoP <token>
    proof: {"typ": "dpop+jwt", "alg": "ES256", "jwk": <public key>}
           {"htm": "POST", "htu": "https://mcp.example/notes",
            "iat": 1790000000, "jti": <random>, "ath": <hash of the token>}

A bearer token works for everybody who gets hold of it: in a log, in a backup, on a hostile server. A bound token is
useless without its key. A stolen proof does not help either, because it is valid for one method, URL and token, for a
few minutes, and once. A server may also demand that the proof contains a *nonce*, a value that the server chose, so
that nobody can make proofs in advance. It then refuses the request with `use_dpop_nonce` and the header `DPoP-Nonce`,
and the client repeats the request with a new proof.

Threats:
    proof-replay-by-flood: The thief of a user's proof and token repeats the user's request, after thousands of proofs
        of its own account have made the server forget the stolen one. Each principal has its own share of the memory.

Spec:  the extension io.modelcontextprotocol/auth/dpop (SEP-1932, draft); RFC 9449; RFC 7638
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import secrets
import time
from typing import Final

from ...basic.authorization.addresses import authorization_base_url
from ...basic.authorization.challenges import parse_challenges
from ...basic.authorization.server import ProofCheck, Refusal
from ...basic.authorization.token_endpoint import Prover
from ...basic.principal import Principal
from ...lib.fields import check_arguments
from ...lib.http.message import Headers, HttpRequest
from ...lib.http.origin import parse_url
from ...lib.jose import keys
from ...lib.jose.keys import JSON, JoseError, encode_base64url, parse_jwk, parse_object
from ...lib.jose.tokens import parse_jws, read_date, sign_jwt

log = logging.getLogger(__name__)

MAX_NONCES: Final = 100
"""Maximum number of origins whose nonces a client remembers. At this number, the next nonce replaces them all."""
MAX_AGE: Final = 300
"""Maximum difference between a proof's time and the server's clock, and time until the nonce changes, in seconds."""
MAX_PROOFS_PER_CALLER: Final = 10_000
"""Maximum number of proofs of one principal that a server remembers, each for `2 * MAX_AGE` seconds: about 3 MB."""
MAX_PROOFS: Final = 50_000
"""Maximum number of proofs that a server remembers. One more replaces the oldest of the principal with the most."""


def _sha256(text: str) -> str:
    return encode_base64url(hashlib.sha256(text.encode()).digest())


def _target(url: str) -> str:
    """Return a URL in normal form, without its query, to compare it. [RFC 9449 4.2] [RFC 9449 4.3]"""
    return authorization_base_url(url) + (parse_url(url)[0].path or "/")


class DpopKey(Prover):
    """The key of a client: `AuthorizationCode(dpop=DpopKey())`. The authorization server must support DPoP.

    Args:
        pem: A P-256 private key in PEM. Default: a new key, with which tokens stored before a restart are useless.
    """

    extension = "io.modelcontextprotocol/auth/dpop"

    def __init__(self, pem: str | None = None) -> None:
        self._key = keys.make_private_key() if pem is None else keys.parse_private_key(pem)
        self._nonces: dict[str, str] = {}  # by origin

    def headers(self, method: str, url: str, token: str = "") -> dict[str, str]:
        header: dict[str, JSON] = {"typ": "dpop+jwt", "alg": "ES256", "jwk": {**self._key.public.members}}
        claims: dict[str, JSON] = {"jti": secrets.token_urlsafe(16), "htm": method, "htu": _target(url),
                                   "iat": int(time.time())}  # fmt: skip
        if token:
            claims["ath"] = _sha256(token)
        nonce = self._nonces.get(authorization_base_url(url))
        if nonce:
            claims["nonce"] = nonce
        proof = sign_jwt(header, claims, self._key.sign)
        return {"DPoP": proof, "Authorization": f"DPoP {token}"} if token else {"DPoP": proof}

    def learn(self, url: str, headers: Headers, error: str = "") -> bool:
        nonces = headers.get_all("dpop-nonce")
        if len(nonces) == 1 and re.fullmatch(r"[!#-\[\]-~]+", nonces[0]):  # [RFC 9449 8.1]
            if len(self._nonces) >= MAX_NONCES:
                self._nonces.clear()
            self._nonces[authorization_base_url(url)] = nonces[0]
        challenges = parse_challenges(headers.get_all("www-authenticate"))
        errors = [challenge.parameters.get("error") for challenge in challenges if challenge.scheme == "dpop"]
        return "use_dpop_nonce" in (error, *errors)


class DpopCheck(ProofCheck):
    """The check of proofs on a server: `Protection(dpop=DpopCheck())`.

    Args:
        required: True to refuse tokens that are not bound to a key.
        nonce_key: At least 32 random bytes, to demand nonces. Processes that serve the same URL need the same key.

    Raises:
        ValueError: The nonce key is too short.
    """

    def __init__(self, required: bool = False, nonce_key: bytes | None = None) -> None:
        check_arguments(DpopCheck.__init__, locals())
        if nonce_key is not None and len(nonce_key) < 32:
            raise ValueError("nonce_key must have at least 32 bytes, or clients could guess nonces")
        self.is_required, self._nonce_key = required, nonce_key
        # Principal -> hash of a proof's key and `jti` -> time of its arrival. The latest is the last in both dicts.
        self._proofs: dict[str, dict[str, float]] = {}
        self._count = 0  # number of proofs of all principals

    def check(self, request: HttpRequest, token: str, principal: Principal, resource: str) -> Refusal | None:
        try:
            [proof] = request.headers.get_all("dpop")  # ValueError unless there is exactly one
            jws = parse_jws(proof, types={"dpop+jwt"})
            key, claims = parse_jwk(jws.header.get("jwk")), parse_object(jws.payload)
            confirmation = principal.claims.get("cnf")  # names the key to which the token is bound
            if not isinstance(confirmation, dict) or confirmation.get("jkt") != key.thumbprint:
                return "invalid_token", []
            targets = _target(resource), authorization_base_url(resource) + request.root + request.path
            wrong = _wrong_claims(claims, request.method, targets, token)
            if wrong:
                raise JoseError(f"wrong: {', '.join(wrong)}")
            sent_nonce, nonces = str(claims.get("nonce")).encode(), self._nonces()
            if nonces and not any(hmac.compare_digest(sent_nonce, nonce) for nonce in nonces):
                return "use_dpop_nonce", [("DPoP-Nonce", nonces[0].decode())]
            if not key.verify(jws.algorithm, jws.signed, jws.signature):
                raise JoseError("the signature is wrong")
            self._use(principal.id, _sha256(f"{key.thumbprint} {claims['jti']}"))
        except ValueError as error:
            log.info("a DPoP proof was refused: %s", error)
            return "invalid_dpop_proof", []
        return None

    def _nonces(self) -> list[bytes]:
        """Return the nonces of this and the previous window of `MAX_AGE` seconds. They are computed, not stored."""
        if self._nonce_key is None:
            return []
        key, window = self._nonce_key, int(time.time() // MAX_AGE)
        return [hmac.new(key, b"%d" % number, "sha256").hexdigest().encode() for number in (window, window - 1)]

    def _use(self, caller: str, proof: str) -> None:
        """Note a proof of a principal. Raise JoseError if it was used before."""
        now = time.time()
        oldest_usable = now - 2 * MAX_AGE  # a proof that arrived earlier is too old to pass the other checks again
        self._forget_principals_silent_since(oldest_usable)
        used = self._proofs.pop(caller, {})
        while used and (len(used) >= MAX_PROOFS_PER_CALLER or next(iter(used.values())) < oldest_usable):
            self._forget_oldest(used)
        self._proofs[caller] = used  # as the last, because this principal has sent the latest proof
        if proof in used:
            raise JoseError("the proof was used before")
        used[proof] = now
        self._count += 1
        if self._count > MAX_PROOFS:
            largest = max(self._proofs, key=lambda principal: len(self._proofs[principal]))
            self._forget_oldest(self._proofs[largest])
            if not self._proofs[largest]:
                del self._proofs[largest]

    def _forget_principals_silent_since(self, arrival: float) -> None:
        while self._proofs:
            longest_silent = next(iter(self._proofs))
            latest_arrival = next(reversed(self._proofs[longest_silent].values()))
            if latest_arrival >= arrival:
                return
            self._count -= len(self._proofs.pop(longest_silent))

    def _forget_oldest(self, used: dict[str, float]) -> None:
        del used[next(iter(used))]
        self._count -= 1


def _wrong_claims(claims: dict[str, JSON], method: str, targets: tuple[str, str], token: str) -> list[str]:
    """Return the names of a proof's claims that do not fit the request. [RFC 9449 4.3]"""
    issued, jti = read_date(claims, "iat"), claims.get("jti")
    is_right = {
        "htm": claims.get("htm") == method,
        "htu": _target(str(claims.get("htu"))) in targets,
        "iat": issued is not None and abs(time.time() - issued) <= MAX_AGE,
        "ath": claims.get("ath") == _sha256(token),
        "jti": isinstance(jti, str) and jti != "",
    }
    return [name for name in is_right if not is_right[name]]
