"""Tests of lib/jose/curves.py: the vectors of RFC 6979, Wycheproof's vectors, the group laws, and signing."""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from typing import Any

import pytest

from mcp_ref.lib.jose import curves
from mcp_ref.lib.jose.curves import NEUTRAL, P256, P384, Curve, Point, public_key, sign, verify
from tests.lib.jose.wycheproof import needs_vectors, verdicts

SECRET = 0xC9AFA9D845BA75166B5C215767B1D6934E50C3DB36E89B127B8A622B120F6721
"""The private key of RFC 6979 A.2.5."""
KEY = (
    0x60FED4BA255A9D31C961EB74C6356D68C049B8923B61FA6CE669622E60F29FB6,
    0x7903FE1008B8BC99A41AE9E95628BC64F2F1B20C2D7E9F5177A3C294D4462299,
)
both_curves = pytest.mark.parametrize("curve", [P256, P384], ids=["P-256", "P-384"])


def multiple(curve: Curve, scalar: int, more: int = 0) -> Point:
    """Return a scalar and another scalar times the base point."""
    base = curve.x, curve.y, 1
    return curves.sum_of_products(curve.add, NEUTRAL, (scalar, base), (more, base))


def affine(curve: Curve, point: Point) -> tuple[int, int]:
    """Return x and y of a point."""
    x, y, z = point
    return x * pow(z, -2, curve.prime) % curve.prime, y * pow(z, -3, curve.prime) % curve.prime


@needs_vectors
@pytest.mark.parametrize(
    ("name", "curve", "expected"),
    [("ecdsa_secp256r1_sha256_p1363", P256, (173, 89)), ("ecdsa_secp384r1_sha384_p1363", P384, (193, 87))],
)
def test_verify_agrees_with_wycheproof(name: str, curve: Curve, expected: tuple[int, int]) -> None:
    def verified(group: dict[str, Any], test: dict[str, Any]) -> bool:
        octets, size = bytes.fromhex(group["publicKey"]["uncompressed"])[1:], curve.prime.bit_length() // 8
        key = int.from_bytes(octets[:size]), int.from_bytes(octets[size:])
        assert curve.contains(*key)
        return verify(curve, key, bytes.fromhex(test["msg"]), bytes.fromhex(test["sig"]))

    assert verdicts(name, verified) == expected


@both_curves
def test_base_point_has_the_order_of_the_curve(curve: Curve) -> None:
    assert curve.contains(curve.x, curve.y)
    assert not curve.contains(curve.x, curve.y + 1)
    assert not curve.contains(curve.x + curve.prime, curve.y)
    assert multiple(curve, curve.order)[2] == 0
    assert affine(curve, multiple(curve, curve.order - 1)) == (curve.x, curve.prime - curve.y)


@both_curves
def test_add_equal_opposite_and_neutral_points(curve: Curve) -> None:
    """Add the points at which the usual formula fails: forged signatures lead to them."""
    base: Point = (curve.x, curve.y, 1)
    same: Point = (curve.x * 4 % curve.prime, curve.y * 8 % curve.prime, 2)  # equal, in other coordinates
    opposite: Point = (curve.x, curve.prime - curve.y, 1)
    assert affine(curve, curve.add(base, same)) == affine(curve, curve.double(base))
    assert curve.add(base, opposite)[2] == 0
    assert curve.double(NEUTRAL)[2] == 0
    assert curve.add(NEUTRAL, base) == curve.add(base, NEUTRAL) == base
    assert curve.contains(*affine(curve, curve.add(base, curve.double(base))))


@both_curves
def test_sum_of_products_agrees_with_repeated_addition(curve: Curve) -> None:
    base: Point = (curve.x, curve.y, 1)
    total = base
    for scalar in range(2, 100):
        total = curve.add(total, base)
        product, halves = multiple(curve, scalar), multiple(curve, scalar // 2, scalar - scalar // 2)
        assert affine(curve, total) == affine(curve, product) == affine(curve, halves)


def test_public_key_is_that_of_the_rfc() -> None:
    assert public_key(SECRET) == KEY


@pytest.mark.parametrize("secret", [1, 2, 3, 15, 16, 17, 2**64, 2**255, P256.order - 2, P256.order - 1])
def test_public_key_of_extreme_secrets(secret: int) -> None:
    assert public_key(secret) == affine(P256, multiple(P256, secret))


def test_sign_without_random_bytes_gives_the_signature_of_the_rfc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "token_bytes", lambda size: b"")
    assert sign(SECRET, b"sample").hex() == (
        "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716"
        "f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8"
    )


def test_sign_gives_a_new_valid_signature_each_time() -> None:
    signatures = {sign(SECRET, b"m") for _ in range(5)}
    assert len({signature[:32] for signature in signatures}) == 5
    assert all(verify(P256, KEY, b"m", signature) for signature in signatures)


def test_sign_stays_safe_when_the_random_generator_is_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    """Expect another nonce for another message, because the nonce depends on the message (RFC 6979)."""
    monkeypatch.setattr(secrets, "token_bytes", bytes)
    assert sign(SECRET, b"one")[:32] != sign(SECRET, b"two")[:32]


def test_sign_random_keys_and_messages() -> None:
    for _ in range(10):
        secret, message = secrets.randbelow(P256.order - 1) + 1, secrets.token_bytes(40)
        key, signature = public_key(secret), sign(secret, message)
        assert P256.contains(*key)
        assert verify(P256, key, message, signature)
        assert not verify(P256, key, message + b"\x00", signature)


def test_sign_takes_the_same_steps_for_every_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count the additions and doublings: a number that depends on the secret would show in the time."""
    steps = Counter[str]()
    add, double = Curve.add, Curve.double

    def counted_add(curve: Curve, a: Point, b: Point) -> Point:
        steps["add"] += 1
        return add(curve, a, b)

    def counted_double(curve: Curve, a: Point) -> Point:
        steps["double"] += 1
        return double(curve, a)

    monkeypatch.setattr(Curve, "add", counted_add)
    monkeypatch.setattr(Curve, "double", counted_double)
    for secret in (2**32 + 1, 2**128, P256.order // 3, P256.order - 2**64, SECRET):
        steps.clear()
        public_key(secret)
        assert steps == {"add": 256, "double": 256}


def test_verify_refuses_a_changed_bit() -> None:
    signature = sign(SECRET, b"m")
    for bit in range(0, 512, 37):  # each place in a byte
        changed = (int.from_bytes(signature) ^ 1 << bit).to_bytes(64)
        assert not verify(P256, KEY, b"m", changed)


@both_curves
def test_verify_refuses_numbers_out_of_range_and_other_lengths(curve: Curve) -> None:
    key, size = (curve.x, curve.y), curve.prime.bit_length() // 8
    for r in (0, 1, curve.order - 1, curve.order, curve.order + 1, (1 << curve.prime.bit_length()) - 1):
        for s in (0, 1, curve.order - 1, curve.order, (1 << curve.prime.bit_length()) - 1):
            assert not verify(curve, key, b"m", r.to_bytes(size) + s.to_bytes(size))
    for length in (0, 1, size, 2 * size - 1, 2 * size + 1, 10_000):
        assert not verify(curve, key, b"m", b"\x01" * length)


def test_verify_refuses_another_length_of_a_small_number() -> None:
    """Choose nonce and s = 5, and calculate the private key from them. Zero octets before s do not change its value."""
    hashed = int.from_bytes(hashlib.sha256(b"m").digest())
    r = public_key(7)[0]
    key = public_key((5 * 7 - hashed) * pow(r, -1, P256.order) % P256.order)
    for length in (1, 31, 32, 33, 64):
        assert verify(P256, key, b"m", r.to_bytes(32) + (5).to_bytes(length)) == (length == 32)


def test_verify_a_point_without_an_x() -> None:
    """Choose r = -hash and the base point as key: then the sum is the neutral point, which has no x."""
    hashed = int.from_bytes(hashlib.sha256(b"m").digest()) % P256.order
    r = P256.order - hashed
    assert not verify(P256, (P256.x, P256.y), b"m", r.to_bytes(32) + (1).to_bytes(32))
