"""Ed25519 signatures, verification only. JWS calls the algorithm `EdDSA`, or since RFC 9864 `Ed25519`.

The curve is -x² + y² = 1 + d·x²·y², modulo 2²⁵⁵ - 19. The functions write the point (x/z, y/z) as (x, y, z, t) with
t = xy/z, because that saves a division in every addition. A signature and a JWK hold a point as 32 bytes: y, and the
lowest bit of x.

Because two verifiers must agree about every signature, only canonical numbers are accepted: y below the prime, s below
the order. Eight points have the order 1, 2, 4 or 8; as a public key, such a point would accept signatures that nobody
made, so it is refused.

Spec:  RFC 8032 5.1; RFC 8037 3.1; RFC 9864 2.2
"""

from __future__ import annotations

import hashlib
from typing import Final

from .curves import Point, sum_of_products

PRIME: Final = 2**255 - 19
ORDER: Final = 2**252 + 27742317777372353535851937790883648493  # of the base point
_D: Final = -121665 * pow(121666, -1, PRIME) % PRIME
_NEUTRAL: Final = (0, 1, 1, 0)
_BASE: Final = (0x216936D3CD6E53FEC0A4E231FDD6DC5C692CC7609525A7B2C9562D608F25D51A, 4 * pow(5, -1, PRIME) % PRIME)


def add(a: Point, b: Point) -> Point:
    """Return the sum of two points, with the letters of RFC 8032 5.1.4; `left` and `right` are its A and B."""
    (x1, y1, z1, t1), (x2, y2, z2, t2) = a, b
    left, right = (y1 - x1) * (y2 - x2), (y1 + x1) * (y2 + x2)
    c, d = t1 * t2 % PRIME * 2 * _D, 2 * z1 * z2
    e, f, g, h = (right - left) % PRIME, (d - c) % PRIME, (d + c) % PRIME, (right + left) % PRIME
    return e * f % PRIME, g * h % PRIME, f * g % PRIME, e * h % PRIME


def _extended(x: int, y: int) -> Point:
    return x, y, 1, x * y % PRIME


def decode_point(encoded: bytes) -> tuple[int, int] | None:
    """Return x and y of a public key, or None if the bytes are not a canonical point, or its order is small."""
    number = int.from_bytes(encoded, "little")
    lowest_bit_of_x, y = number >> 255, number % 2**255
    if len(encoded) != 32 or y >= PRIME:
        return None
    # RFC 8032 5.1.3: x² = u/v. The power is the square root of u/v or of -u/v, if one of them has a root.
    u, v = (y * y - 1) % PRIME, (_D * y * y + 1) % PRIME
    x = u * v**3 * pow(u * v**7, (PRIME - 5) // 8, PRIME) % PRIME
    if (v * x * x + u) % PRIME == 0:  # the root of -u/v, so multiply it by the root of -1
        x = x * pow(2, (PRIME - 1) // 4, PRIME) % PRIME
    if (v * x * x - u) % PRIME != 0:
        return None  # no point of the curve has this y
    if x % 2 != lowest_bit_of_x:  # it is the other root
        x = PRIME - x
    multiple = _extended(x, y)
    for _ in range(3):  # double it three times, to eight times the point
        multiple = add(multiple, multiple)
    has_small_order = multiple[0] == 0  # eight times such a point is the neutral point
    return None if has_small_order else (x, y)


def verify(key: tuple[int, int], message: bytes, signature: bytes) -> bool:
    """Return True if a signature is valid: if s·B - k·A has exactly the bytes of R (RFC 8032 5.1.7)."""
    s = int.from_bytes(signature[32:], "little")
    if len(signature) != 64 or s >= ORDER:
        return False
    k = int.from_bytes(hashlib.sha512(signature[:32] + _encode_point(*key) + message).digest(), "little") % ORDER
    minus_key = _extended(PRIME - key[0], key[1])
    x, y, z, _ = sum_of_products(add, _NEUTRAL, (s, _extended(*_BASE)), (k, minus_key))
    inverse = pow(z, -1, PRIME)
    return _encode_point(x * inverse % PRIME, y * inverse % PRIME) == signature[:32]


def _encode_point(x: int, y: int) -> bytes:
    return (y + (x % 2 << 255)).to_bytes(32, "little")
