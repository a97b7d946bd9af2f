"""Tests of lib/jose/ed25519.py: the vectors of RFC 8032 7.1, Wycheproof's vectors, and malleable encodings."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_ref.lib.jose.ed25519 import _BASE, _D, ORDER, PRIME, add, decode_point, verify
from tests.lib.jose.wycheproof import needs_vectors, verdicts

EXAMPLES = {
    "2": (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb430"
        "2aeeb00d291612bb0c00",
    ),
    "SHA(abc)": (
        "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
        "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643c"
        "e80e2a9ac94fa54ca49f",
        "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b58909351fc9ac90b3ecfdfbc7c66431e0303dca179c138a"
        "c17ad9bef1177331a704",
    ),
}
"""Public key, message and signature, from RFC 8032 7.1."""


@pytest.mark.parametrize("name", EXAMPLES)
def test_verify_accepts_the_examples_of_the_rfc(name: str) -> None:
    encoded, message, signature = (bytes.fromhex(text) for text in EXAMPLES[name])
    key = decode_point(encoded)
    assert key is not None
    assert verify(key, message, signature)
    assert not verify(key, message + b"\x00", signature)


@needs_vectors
def test_verify_agrees_with_wycheproof() -> None:
    def verified(group: dict[str, Any], test: dict[str, Any]) -> bool:
        key = decode_point(bytes.fromhex(group["publicKey"]["pk"]))
        assert key is not None
        return verify(key, bytes.fromhex(test["msg"]), bytes.fromhex(test["sig"]))

    assert verdicts("ed25519", verified) == (88, 63)


def test_verify_refuses_a_changed_bit() -> None:
    encoded, message, signature = (bytes.fromhex(text) for text in EXAMPLES["2"])
    key = decode_point(encoded)
    assert key is not None
    for bit in range(0, 512, 37):  # each place in a byte
        changed = (int.from_bytes(signature) ^ 1 << bit).to_bytes(64)
        assert not verify(key, message, changed)


def test_verify_refuses_other_lengths_and_a_second_spelling_of_s() -> None:
    encoded, message, signature = (bytes.fromhex(text) for text in EXAMPLES["2"])
    key = decode_point(encoded)
    assert key is not None
    s = int.from_bytes(signature[32:], "little")
    assert not verify(key, message, signature[:32] + (s + ORDER).to_bytes(32, "little"))
    for other in (b"", signature[:63], signature + b"\x00", signature[32:], bytes(64)):
        assert not verify(key, message, other)


def test_decode_point_refuses_every_point_of_small_order() -> None:
    """Decode the eight points whose order is 1, 2, 4 or 8."""
    order_8 = "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"
    mirrored = "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"
    order_4 = ["00" * 32, "00" * 31 + "80"]
    order_1_and_2 = ["01" + "00" * 31, "ec" + "ff" * 30 + "7f"]
    signed = [bytes.fromhex(text) for text in (order_8, mirrored)]
    points = [bytes.fromhex(text) for text in order_4 + order_1_and_2]
    points += signed + [one[:31] + bytes([one[31] | 0x80]) for one in signed]
    assert len(set(points)) == 8
    for encoded in points:
        number = int.from_bytes(encoded, "little") % 2**255
        x_squared = (number * number - 1) * pow(_D * number * number + 1, -1, PRIME) % PRIME
        assert x_squared == 0 or pow(x_squared, (PRIME - 1) // 2, PRIME) == 1  # it is a point of the curve
        assert decode_point(encoded) is None


@pytest.mark.parametrize("y", [PRIME, PRIME + 1, PRIME + 3, 2**255 - 1], ids=["p", "p+1", "p+3", "2^255-1"])
def test_decode_point_refuses_coordinates_from_the_prime_on(y: int) -> None:
    for sign in (0, 1):
        assert decode_point((y + (sign << 255)).to_bytes(32, "little")) is None


def test_decode_point_refuses_other_lengths_and_points_off_the_curve() -> None:
    encoded = bytes.fromhex(EXAMPLES["2"][0])
    for other in (b"", encoded[:31], encoded + b"\x00", encoded * 2):
        assert decode_point(other) is None
    found = [decode_point(y.to_bytes(32, "little")) for y in range(200)]
    assert 60 < sum(point is None for point in found) < 140  # about half of all y have no x


def test_decode_point_returns_points_of_the_curve_with_the_asked_sign() -> None:
    for y in range(3, 60):
        for sign in (0, 1):
            point = decode_point((y + (sign << 255)).to_bytes(32, "little"))
            if point is not None:
                x = point[0]
                assert point[1] == y and x % 2 == sign
                assert (-x * x + y * y - 1 - _D * x * x * y * y) % PRIME == 0


def test_base_point_has_the_order_of_the_standard() -> None:
    assert decode_point(bytes.fromhex("58" + "66" * 31)) == _BASE
    total, power, scalar = (0, 1, 1, 0), (*_BASE, 1, _BASE[0] * _BASE[1] % PRIME), ORDER
    while scalar:
        total = add(total, power) if scalar & 1 else total  # type: ignore[assignment]
        power, scalar = add(power, power), scalar >> 1  # type: ignore[assignment]
    assert total[0] == 0 and total[1] == total[2]
