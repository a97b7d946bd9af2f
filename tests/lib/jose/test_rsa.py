"""Tests of lib/jose/rsa.py: Wycheproof's vectors, and forgeries that a lenient verifier accepts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from mcp_ref.lib.jose.rsa import _DIGEST_INFO, verify_pkcs1, verify_pss
from tests.lib.jose.wycheproof import needs_vectors, verdicts

FORGEABLE = ((1 << 2048) - 1942289, 1)
"""A key whose exponent 1 makes every block its own signature. `keys.py` refuses it."""
HASHES = sorted(_DIGEST_INFO)


@needs_vectors
@pytest.mark.parametrize(
    ("verify", "file", "expected"),
    [
        (verify_pkcs1, "rsa_signature_2048_sha256", (9, 250)),
        (verify_pkcs1, "rsa_signature_3072_sha256", (8, 251)),
        (verify_pkcs1, "rsa_signature_4096_sha256", (7, 251)),
        (verify_pss, "rsa_pss_2048_sha256_mgf1_32", (63, 45)),
    ],
)
def test_verify_agrees_with_wycheproof(verify: Callable[..., bool], file: str, expected: tuple[int, int]) -> None:
    """Refuse also the vector that Wycheproof calls acceptable: a DigestInfo without NULL."""

    def verified(group: dict[str, Any], test: dict[str, Any]) -> bool:
        key = int(group["publicKey"]["modulus"], 16), int(group["publicKey"]["publicExponent"], 16)
        return verify("sha256", key, bytes.fromhex(test["msg"]), bytes.fromhex(test["sig"]))

    assert verdicts(file, verified) == expected


def pkcs1_block(hash_name: str, message: bytes) -> bytes:
    """Return the only correct block of 256 bytes, as RFC 8017 9.2 writes it."""
    hashed = _DIGEST_INFO[hash_name] + hashlib.new(hash_name, message).digest()
    return b"\x00\x01".ljust(255 - len(hashed), b"\xff") + b"\x00" + hashed


@pytest.mark.parametrize("hash_name", HASHES)
def test_verify_pkcs1_accepts_one_block_only(hash_name: str) -> None:
    block = pkcs1_block(hash_name, b"m")
    assert verify_pkcs1(hash_name, FORGEABLE, b"m", block)
    for index in range(256):
        changed = block[:index] + bytes([block[index] ^ 1]) + block[index + 1 :]
        assert not verify_pkcs1(hash_name, FORGEABLE, b"m", changed)
    hashed = _DIGEST_INFO[hash_name] + hashlib.new(hash_name, b"m").digest()
    garbage_behind = (b"\x00\x01" + b"\xff" * 8 + b"\x00" + hashed).ljust(256, b"\x11")  # Bleichenbacher, 2006
    assert not verify_pkcs1(hash_name, FORGEABLE, b"m", garbage_behind)


def pss_block(hash_name: str, message: bytes, salt: bytes, length: int = 256) -> bytes:
    """Return a block for a modulus of 8·length bits, encoded as RFC 8017 9.1.1 says."""
    digest = hashlib.new(hash_name, bytes(8) + hashlib.new(hash_name, message).digest() + salt).digest()
    plain = b"\x01".rjust(length - len(digest) - len(salt) - 1, b"\x00") + salt
    mask = b"".join(hashlib.new(hash_name, digest + bytes([0, 0, 0, i])).digest() for i in range(16))
    masked = bytes(a ^ b for a, b in zip(plain, mask, strict=False))
    return bytes([masked[0] & 0x7F]) + masked[1:] + digest + b"\xbc"


@pytest.mark.parametrize("hash_name", HASHES)
def test_verify_pss_checks_every_byte_and_the_length_of_the_salt(hash_name: str) -> None:
    size = hashlib.new(hash_name).digest_size
    block = pss_block(hash_name, b"m", b"s" * size)
    assert verify_pss(hash_name, FORGEABLE, b"m", block)
    assert not verify_pss(hash_name, FORGEABLE, b"n", block)
    for index in range(256):
        changed = block[:index] + bytes([block[index] ^ 1]) + block[index + 1 :]
        assert not verify_pss(hash_name, FORGEABLE, b"m", changed)
    for salt in (b"", b"s" * (size - 1), b"s" * (size + 1)):
        assert not verify_pss(hash_name, FORGEABLE, b"m", pss_block(hash_name, b"m", salt))
    assert not verify_pss(hash_name, FORGEABLE, b"m", bytes([block[0] | 0x80]) + block[1:])


def test_verify_pss_with_an_odd_length_of_the_modulus() -> None:
    """Use a modulus of 8n + 1 bits: the block then begins with a zero byte before the encoded message."""
    key = ((1 << 2048) + 981, 1)
    digest = hashlib.sha256(bytes(8) + hashlib.sha256(b"m").digest() + b"s" * 32).digest()
    plain = b"\x01".rjust(256 - 65, b"\x00") + b"s" * 32
    mask = b"".join(hashlib.sha256(digest + bytes([0, 0, 0, i])).digest() for i in range(8))
    block = bytes(a ^ b for a, b in zip(plain, mask, strict=False)) + digest + b"\xbc"
    assert verify_pss("sha256", key, b"m", b"\x00" + block)
    assert not verify_pss("sha256", key, b"m", block)
    assert not verify_pss("sha256", ((1 << 2049) - 1, 1), b"m", b"\x01" + block)  # the first byte is not zero


@pytest.mark.parametrize("verify", [verify_pkcs1, verify_pss])
@pytest.mark.parametrize("hash_name", HASHES)
def test_verify_refuses_signatures_of_another_length_or_size(verify: object, hash_name: str) -> None:
    assert callable(verify)
    block = pkcs1_block(hash_name, b"m") if verify is verify_pkcs1 else pss_block(hash_name, b"m", b"s" * 32)
    beyond = (int.from_bytes(block) + FORGEABLE[0]).to_bytes(257)
    for signature in (b"", block[1:], b"\x00" + block, block + b"\x00", b"\xff" * 256, beyond, bytes(256)):
        assert not verify(hash_name, FORGEABLE, b"m", signature)
