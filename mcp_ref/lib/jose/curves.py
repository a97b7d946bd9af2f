"""ECDSA on the curves P-256 (ES256) and P-384 (ES384): verification, and for P-256 also signing.

A curve is the set of points (x, y) with y² = x³ - 3x + b, modulo a prime. Points can be added, and so multiplied by a
number. A private key is a number; its public key is the product of this number and the *base point*. The functions
write the point (x/z², y/z³) as (x, y, z), which saves a division in every addition; z = 0 is the neutral point.

A *nonce* is the secret number of one signature. An attacker who learns a few bits of many nonces can compute the
private key. Python's integers leak some, because the time of a calculation depends on the numbers. So `sign` takes the
same steps for every nonce, and hides the coordinates behind a random factor. A small risk remains, so if the key is
used for years, sign with the `cryptography` package, a key management service or the `openssl` command.

Spec:  FIPS 186-5 6.4; SEC 1 4.1; RFC 7518 3.4; RFC 6979 3.2, 3.6
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

Point = tuple[int, ...]  # coordinates, in the form that the functions of a curve use
NEUTRAL: Final[Point] = (1, 1, 0)
Add = Callable[[Point, Point], Point]  # the addition of two points, which may be equal, opposite or neutral


def sum_of_products(add: Add, neutral: Point, a: tuple[int, Point], b: tuple[int, Point]) -> Point:
    """Return m·P + n·Q for `a` = (m, P) and `b` = (n, Q), with shared doublings (Shamir's trick).

    Read m and n bit by bit, the highest first. For each bit, double the total, and add P, Q or both if the bit is set
    in m, n or both.
    """
    (m, p), (n, q) = a, b
    p_and_q = add(p, q)
    total = neutral
    for bit in range(max(m, n).bit_length() - 1, -1, -1):
        total = add(total, total)
        in_m, in_n = m >> bit & 1, n >> bit & 1
        if in_m and in_n:
            total = add(total, p_and_q)
        elif in_m:
            total = add(total, p)
        elif in_n:
            total = add(total, q)
    return total


@dataclass(frozen=True, slots=True)
class Curve:
    """A NIST curve, with its base point (x, y). All points are multiples of it, and `order` is their number."""

    prime: int
    order: int
    b: int
    x: int
    y: int

    def contains(self, x: int, y: int) -> bool:
        """Return True for the coordinates of a point. The neutral point has none."""
        return max(x, y) < self.prime and (y * y - x * x * x + 3 * x - self.b) % self.prime == 0

    def add(self, a: Point, b: Point) -> Point:
        """Return the third point of the line through two points, mirrored at the x axis."""
        if a is b:
            return self.double(a)
        p = self.prime
        (x1, y1, z1), (x2, y2, z2) = a, b
        if not z1:
            return b
        if not z2:
            return a
        # With common denominators, `run` and `rise` are the differences of the points, and the slope of their line is
        # rise / z3 for z3 = z1 * z2 * run. The result is x3 = slope² - x1 - x2 and y3 = slope * (x1 - x3) - y1, with
        # the denominators z3² and z3³.
        zz1, zz2 = z1 * z1 % p, z2 * z2 % p
        common_x1, common_y1 = x1 * zz2 % p, y1 * z2 * zz2 % p
        run, rise = (x2 * zz1 - common_x1) % p, (y2 * z1 * zz1 - common_y1) % p
        if not run:  # the points are equal or opposite
            return NEUTRAL if rise else self.double(a)
        square = run * run % p
        cube, scaled_x1 = run * square % p, common_x1 * square % p
        x3 = (rise * rise - cube - 2 * scaled_x1) % p
        return x3, (rise * (scaled_x1 - x3) - common_y1 * cube) % p, z1 * z2 * run % p

    def double(self, a: Point) -> Point:
        """Return the second point of the tangent at a point, mirrored at the x axis."""
        p, (x, y, z) = self.prime, a
        zz, yy = z * z % p, y * y % p
        scaled_x = 4 * x * yy % p
        rise = 3 * (x - zz) * (x + zz) % p  # the tangent's slope, (3x² - 3) / 2y, is rise / z3 in these coordinates
        x3 = (rise * rise - 2 * scaled_x) % p
        return x3, (rise * (scaled_x - x3) - 8 * yy * yy) % p, 2 * y * z % p


P256: Final = Curve(
    prime=2**256 - 2**224 + 2**192 + 2**96 - 1,
    order=0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551,
    b=0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B,
    x=0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    y=0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)
P384: Final = Curve(
    prime=2**384 - 2**128 - 2**96 + 2**32 - 1,
    order=0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFC7634D81F4372DDF581A0DB248B0A77AECEC196ACCC52973,
    b=0xB3312FA7E23EE7E4988E056BE3F82D19181D9C6EFE8141120314088F5013875AC656398D8A2ED19D2A85C8EDD3EC2AEF,
    x=0xAA87CA22BE8B05378EB1C71EF320AD746E1D3B628BA79B9859F741E082542A385502F25DBF55296C3A545E3872760AB7,
    y=0x3617DE4A96262C6F5D9E98BF9292DC29F8F41DBD289A147CE9DA3113B5F0B8C00A60B1CE1D7E819D7A431D7C90EA0E5F,
)


def verify(curve: Curve, key: tuple[int, int], message: bytes, signature: bytes) -> bool:
    """Return True if a signature is valid: r followed by s, each as long as a coordinate. The DER form is refused."""
    n, p, size = curve.order, curve.prime, curve.prime.bit_length() // 8
    r, s = int.from_bytes(signature[:size]), int.from_bytes(signature[size:])
    if len(signature) != 2 * size or not (0 < r < n and 0 < s < n):
        return False
    hashed = int.from_bytes(hashlib.new(f"sha{8 * size}", message).digest())  # SHA-256 or SHA-384
    inverse = pow(s, -1, n)
    base, public = (curve.x, curve.y, 1), (*key, 1)
    x, _, z = sum_of_products(curve.add, NEUTRAL, (hashed * inverse % n, base), (r * inverse % n, public))
    return z != 0 and x * pow(z, -2, p) % p % n == r  # r is the x coordinate of this sum


def public_key(secret: int) -> tuple[int, int]:
    """Return the public key of a private key on P-256, by the same 512 steps for every private key."""
    # Adding the order of the base point once or twice changes no product, and always makes a number of 257 bits.
    scalar = secret + P256.order
    scalar += P256.order * (scalar < 2**256)
    p = P256.prime
    blind = secrets.randbelow(p - 1) + 1  # the random factor that hides the coordinates
    base = (P256.x * blind**2 % p, P256.y * blind**3 % p, blind)
    total: Point = base
    for bit in bin(scalar)[3:]:  # without "0b" and the highest bit, with which `total` begins
        doubled = P256.double(total)
        total = (doubled, P256.add(doubled, base))[bit == "1"]  # both are computed, so the time does not tell the bit
    x, y, z = total
    return x * pow(z, -2, p) % p, y * pow(z, -3, p) % p


def sign(secret: int, message: bytes) -> bytes:
    """Return the ES256 signature of a message, 64 bytes."""
    n = P256.order
    hashed = hashlib.sha256(message).digest()
    nonce = _nonce(secret, hashed, secrets.token_bytes(32))
    r = public_key(nonce)[0] % n
    blind = secrets.randbelow(n - 1) + 1  # hides the nonce and the private key from the division
    s = pow(nonce * blind, -1, n) * (int.from_bytes(hashed) * blind + secret * blind % n * r) % n
    return r.to_bytes(32) + s.to_bytes(32)


def _nonce(secret: int, hashed: bytes, extra: bytes) -> int:
    """Return a nonce that depends on the message, because two messages with one nonce leak the key (RFC 6979 3.2).

    It comes from HMAC_DRBG, a random generator whose state is `key` and `value`. `extra` are further random bytes.
    """
    seed = secret.to_bytes(32) + (int.from_bytes(hashed) % P256.order).to_bytes(32) + extra
    key, value = bytes(32), b"\x01" * 32
    for end in (b"\x00" + seed, b"\x01" + seed):
        key = hmac.digest(key, value + end, "sha256")
        value = hmac.digest(key, value, "sha256")
    value = hmac.digest(key, value, "sha256")
    while not 0 < int.from_bytes(value) < P256.order:
        key = hmac.digest(key, value + b"\x00", "sha256")
        value = hmac.digest(key, hmac.digest(key, value, "sha256"), "sha256")
    return int.from_bytes(value)
