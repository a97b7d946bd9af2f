"""JSON Web Keys: public keys that verify tokens, and private keys on P-256 that sign them.

    keys = parse_key_set(b'{"keys": [{"kty": "EC", "crv": "P-256", "x": "...", "y": "...", "kid": "1"}]}')
    private = parse_private_key(pem_text)
    private.public.verify("ES256", message, private.sign(message))  # True

A key fits one kind of algorithm. Shared secrets (`HS256`) and `none` do not exist here, so nobody can pass off an RSA
key as an HMAC secret. A key is refused if it is weak, off its curve, meant for encryption, published with its
private part, or if its numbers are not in the one spelling that RFC 7518 prescribes. So a key has only one thumbprint.

Spec:  RFC 7517 (JWK), RFC 7518 6, RFC 7638 (thumbprint), RFC 8037 2; RFC 5208 (PKCS#8), RFC 5915 (SEC1), RFC 7468 (PEM)
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import re
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from . import curves, ed25519, rsa

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
MAX_KEY_SET: Final = 256 * 1024
"""Maximum size of a JWK Set, in bytes."""
MAX_KEYS: Final = 100
"""Maximum number of keys in a JWK Set."""
MAX_BRACKETS: Final = 500
"""Maximum number of arrays and objects in a JWK Set or a part of a token. It limits their nesting, too."""
MIN_RSA_BITS: Final = 2048
"""Minimum length of an RSA modulus, in bits (RFC 7518 3.3)."""
MAX_RSA_BITS: Final = 8192
"""Maximum length of an RSA modulus, in bits. It limits the time of a verification, as the next limit does."""
MAX_RSA_EXPONENT: Final = 2**32 - 1
"""Maximum public exponent of an RSA key: 32 bits."""


class Algorithm(NamedTuple):
    """A signature algorithm: the kind of its keys, and its verification with a key's numbers."""

    kind: str
    verify: Callable[[tuple[int, int], bytes, bytes], bool]


ALGORITHMS: Final = {
    **{f"RS{bits}": Algorithm("RSA", partial(rsa.verify_pkcs1, f"sha{bits}")) for bits in (256, 384, 512)},
    **{f"PS{bits}": Algorithm("RSA", partial(rsa.verify_pss, f"sha{bits}")) for bits in (256, 384, 512)},
    "ES256": Algorithm("P-256", partial(curves.verify, curves.P256)),
    "ES384": Algorithm("P-384", partial(curves.verify, curves.P384)),
    **dict.fromkeys(("EdDSA", "Ed25519"), Algorithm("Ed25519", ed25519.verify)),
}
"""The algorithms by their names in the `alg` of a header or key. The last two names mean the same."""


class JoseError(ValueError):
    """A key or token is refused. The text contains the reason, but nothing that would help to use the key or token."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key that `parse_jwk` has checked. Without `algorithm`, the key fits all algorithms of its kind."""

    kind: str
    numbers: tuple[int, int]
    members: dict[str, str]
    """The members of the JWK that the thumbprint covers, such as `n` and `e`, sorted by name."""
    kid: str | None = None
    algorithm: str | None = None

    @property
    def thumbprint(self) -> str:
        """The name of the key (RFC 7638 3): the SHA-256 of its `members` as JSON without spaces."""
        text = json.dumps(self.members, separators=(",", ":"))  # `parse_jwk` has sorted them
        return encode_base64url(hashlib.sha256(text.encode()).digest())

    def fits(self, algorithm: str) -> bool:
        """Return True if the key may verify signatures of an algorithm."""
        wanted = ALGORITHMS.get(algorithm)
        if wanted is None or wanted.kind != self.kind:
            return False
        return self.algorithm is None or ALGORITHMS.get(self.algorithm) == wanted

    def verify(self, algorithm: str, message: bytes, signature: bytes) -> bool:
        """Return True if the key fits the algorithm, and the signature of the message is valid."""
        return self.fits(algorithm) and ALGORITHMS[algorithm].verify(self.numbers, message, signature)


@dataclass(frozen=True, slots=True)
class PrivateKey:
    """A private key on P-256. `curves.py` describes the risk of signing."""

    secret: int = field(repr=False)
    public: PublicKey

    def sign(self, message: bytes) -> bytes:
        """Return the ES256 signature of a message."""
        return curves.sign(self.secret, message)


def parse_key_set(text: bytes) -> tuple[PublicKey, ...]:
    """Return the usable keys of a JWK Set, and skip the others (RFC 7517 5). Raise JoseError if all are unusable."""
    keys = parse_object(text).get("keys") if len(text) <= MAX_KEY_SET else None
    if not isinstance(keys, list) or len(keys) > MAX_KEYS:
        raise JoseError(f"a key set must have at most {MAX_KEY_SET} bytes, and at most {MAX_KEYS} `keys` in an array")
    usable, reasons = [], []
    for key in keys:
        try:
            usable.append(parse_jwk(key))
        except JoseError as reason:
            reasons.append(reason)
    if reasons and not usable:
        raise JoseError(f"no key of the key set is usable. The first one: {reasons[0]}")
    return tuple(usable)


_CURVES: Final = {"P-256": curves.P256, "P-384": curves.P384}
_MEMBERS: Final = {"RSA": ("e", "kty", "n"), "EC": ("crv", "kty", "x", "y"), "OKP": ("crv", "kty", "x")}


def parse_jwk(jwk: JSON) -> PublicKey:
    """Return the public key in a JWK. Raise JoseError if it is malformed, weak, private, or for another use."""
    kty = jwk.get("kty") if isinstance(jwk, dict) else None
    if not isinstance(jwk, dict) or not isinstance(kty, str) or kty not in _MEMBERS:
        raise JoseError("a key must be an object with the kty RSA, EC or OKP")
    if jwk.keys() & {"d", "p", "q", "dp", "dq", "qi", "oth", "k"}:
        raise JoseError("the key has its private part. Replace the key, and publish the public part alone")
    operations, algorithm, kid = jwk.get("key_ops", ["verify"]), jwk.get("alg"), jwk.get("kid")
    if jwk.get("use", "sig") != "sig" or not isinstance(operations, list) or "verify" not in operations:
        raise JoseError("the use or key_ops of the key exclude verification")
    texts = {name: value for name, value in jwk.items() if isinstance(value, str)}
    members = {name: texts[name] for name in _MEMBERS[kty] if name in texts}  # in the order of the thumbprint
    if len(members) < len(_MEMBERS[kty]) or not isinstance(kid, str | None) or not isinstance(algorithm, str | None):
        raise JoseError(f"a key must have {', '.join(_MEMBERS[kty])}, as strings; alg and kid can only be strings")
    key = PublicKey(*_numbers(members), members, kid, algorithm)
    if algorithm is not None and not key.fits(algorithm):
        raise JoseError(f"{algorithm[:20]!r} is not a known signature algorithm for {key.kind}")
    return key


def _numbers(members: dict[str, str]) -> tuple[str, tuple[int, int]]:
    """Return the kind of a key, and its numbers: modulus and exponent, or x and y."""
    kty, kind = members["kty"], members.get("crv", "RSA")
    curve = _CURVES.get(kind)
    numbers = None
    if kty == "RSA":
        numbers = _rsa_numbers(decode_base64url(members["n"]), decode_base64url(members["e"]))
    elif kty == "EC" and curve is not None:
        numbers = _curve_numbers(curve, decode_base64url(members["x"]), decode_base64url(members["y"]))
    elif kty == "OKP" and kind == "Ed25519":
        numbers = ed25519.decode_point(decode_base64url(members["x"]))
    if numbers is None:
        wanted = f"RSA ({MIN_RSA_BITS} to {MAX_RSA_BITS} bits), P-256, P-384 or Ed25519"
        raise JoseError(f"expected a key of {wanted}, with its numbers in the spelling of RFC 7518")
    return kind, numbers


def _rsa_numbers(modulus_octets: bytes, exponent_octets: bytes) -> tuple[int, int] | None:
    """Return modulus and exponent, or None if they are weak or have zeros before them (RFC 7518 2)."""
    modulus, exponent = int.from_bytes(modulus_octets), int.from_bytes(exponent_octets)
    has_zeros_before = modulus_octets.startswith(b"\x00") or exponent_octets.startswith(b"\x00")
    is_strong = MIN_RSA_BITS <= modulus.bit_length() <= MAX_RSA_BITS and 3 <= exponent <= MAX_RSA_EXPONENT
    are_odd = modulus % 2 == exponent % 2 == 1
    return (modulus, exponent) if is_strong and are_odd and not has_zeros_before else None


def _curve_numbers(curve: curves.Curve, x_octets: bytes, y_octets: bytes) -> tuple[int, int] | None:
    """Return x and y, or None if they are not a point of the curve or lack octets (RFC 7518 6.2.1.2)."""
    x, y = int.from_bytes(x_octets), int.from_bytes(y_octets)
    is_full = 8 * len(x_octets) == 8 * len(y_octets) == curve.prime.bit_length()
    return (x, y) if is_full and curve.contains(x, y) else None


def make_private_key(secret: int | None = None) -> PrivateKey:
    """Return a private key. Without a secret, make a new one from the random numbers of the operating system."""
    secret = secrets.randbelow(curves.P256.order - 1) + 1 if secret is None else secret
    x, y = (encode_base64url(number.to_bytes(32)) for number in curves.public_key(secret))
    return PrivateKey(secret, parse_jwk({"kty": "EC", "crv": "P-256", "x": x, "y": y}))


# the possessive `++` and `*+` never try a shorter match, so a long text without an end takes linear time
_PEM: Final = re.compile(r"-----BEGIN ((?:EC )?PRIVATE KEY)-----([A-Za-z0-9+/\s]++={0,2}+\s*+)-----END \1-----")
_EC, _P256 = bytes.fromhex("06072a8648ce3d0201"), bytes.fromhex("06082a8648ce3d030107")  # object identifiers in DER
_BEFORE_SECRET: Final = bytes.fromhex("0201010420")
"""The bytes before the secret in SEC1: the version 1, then the head of an octet string with 32 bytes."""


def parse_private_key(pem: str) -> PrivateKey:
    """Return the P-256 private key in a PEM text: PKCS#8 ("PRIVATE KEY") or SEC1 ("EC PRIVATE KEY"), not encrypted.

    Apart from two optional parts, a key has only one encoding in DER. So instead of parsing DER, build each possible
    encoding, and compare it, which also checks the public key. Raise JoseError unless the text has one such key.
    """
    blocks = _PEM.findall(pem)
    label, text = blocks[0] if len(blocks) == 1 else ("", "")
    text = "".join(text.split())
    der = base64.b64decode(text[: len(text) // 4 * 4])  # an incomplete last group would raise an exception
    octets = der.partition(_BEFORE_SECRET)[2][:32]
    if len(octets) == 32 and 0 < int.from_bytes(octets) < curves.P256.order:
        key = make_private_key(int.from_bytes(octets))
        if any(text == base64.b64encode(encoding).decode() for encoding in _der_encodings(key, label)):
            return key
    raise JoseError("expected one unencrypted P-256 private key in PEM, PKCS#8 or SEC1, as openssl writes it")


def _der_encodings(key: PrivateKey, label: str) -> Iterator[bytes]:
    """Yield the encodings of a key in the format of a PEM label, with and without the two optional parts."""
    # Tags: 0x02 integer, 0x03 bit string, 0x04 octet string, 0x30 sequence; 0xA0 and 0xA1 mark the optional parts.
    octets = key.secret.to_bytes(32)
    # 0: the last byte of the bit string has no unused bits. 4: the point is not compressed.
    point = b"\x00\x04" + b"".join(number.to_bytes(32) for number in key.public.numbers)
    for public in (b"", _tlv(0xA1, _tlv(0x03, point))):
        for curve in (b"", _tlv(0xA0, _P256)):
            sec1 = _tlv(0x30, b"\x02\x01\x01", _tlv(0x04, octets), curve, public)
            if label == "PRIVATE KEY":
                yield _tlv(0x30, b"\x02\x01\x00", _tlv(0x30, _EC, _P256), _tlv(0x04, sec1))
            elif curve:  # SEC1 alone must name its curve
                yield sec1


def _tlv(tag: int, *contents: bytes) -> bytes:
    """Return an element of DER (tag, length, value), whose value has at most 255 bytes."""
    value = b"".join(contents)
    size = len(value)
    head = bytes([tag, size]) if size < 128 else bytes([tag, 0x81, size])  # 0x81: one byte with the length follows
    return head + value


def encode_base64url(data: bytes) -> str:
    """Return bytes in base64url without padding (RFC 7515 2)."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode_base64url(text: str) -> bytes:
    """Return the bytes of a base64url text. Raise JoseError if `encode_base64url` would not write the same text."""
    is_base64url = re.fullmatch("(?:[A-Za-z0-9_-]{4})*(?:[A-Za-z0-9_-]{2,3})?", text)
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)) if is_base64url else b""
    if encode_base64url(data) != text:
        raise JoseError("expected base64url without padding, line breaks or bits after the last byte")
    return data


def parse_object(text: bytes) -> dict[str, JSON]:
    """Return the JSON object in a UTF-8 text. Raise JoseError for a text that two parsers could read differently."""
    value = None
    if text.count(b"[") + text.count(b"{") <= MAX_BRACKETS:  # deep nesting could crash some Pythons
        with contextlib.suppress(ValueError):
            parsed = json.loads(text.decode(), object_pairs_hook=_unique, parse_constant=int)  # int fails for NaN
            json.dumps(parsed, ensure_ascii=False).encode()  # fails for half of a surrogate pair
            value = parsed
    if not isinstance(value, dict):
        raise JoseError(f"expected a JSON object without duplicate keys and with at most {MAX_BRACKETS} brackets")
    return value


def _unique(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("duplicate key")
    return dict(pairs)
