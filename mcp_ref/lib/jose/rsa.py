"""RSA signatures, verification only: RSASSA-PKCS1-v1_5 (RS256, RS384, RS512) and RSASSA-PSS (PS256, PS384, PS512).

A signature, raised to the public exponent, gives a *block* as long as the modulus, which holds the digest of the
message in padding. A verifier that searches the block for the digest can be deceived: in 2006, Bleichenbacher forged
signatures by hiding garbage behind the digest. So nothing is searched here. In PKCS#1 v1.5 a message has exactly one
correct block, which is built and compared. In PSS every byte is checked, and the salt must be as long as the digest.

Spec:  RFC 8017 8.1.2, 8.2.2, 9.1.2, 9.2; RFC 7518 3.3, 3.5
"""

from __future__ import annotations

import hashlib
from typing import Final

_DIGEST_INFO: Final = {
    "sha256": bytes.fromhex("3031300d060960864801650304020105000420"),
    "sha384": bytes.fromhex("3041300d060960864801650304020205000430"),
    "sha512": bytes.fromhex("3051300d060960864801650304020305000440"),
}
"""The DER before a digest in a PKCS#1 v1.5 block, which names the hash (RFC 8017 9.2, note 1)."""


def verify_pkcs1(hash_name: str, key: tuple[int, int], message: bytes, signature: bytes) -> bool:
    """Return True if a PKCS#1 v1.5 signature is valid. The key is the modulus and the exponent."""
    hashed = _DIGEST_INFO[hash_name] + hashlib.new(hash_name, message).digest()
    padding = b"\xff" * (len(signature) - len(hashed) - 3)
    return _block(key, signature) == b"\x00\x01" + padding + b"\x00" + hashed


def verify_pss(hash_name: str, key: tuple[int, int], message: bytes, signature: bytes) -> bool:
    """Return True if a PSS signature is valid. The key is the modulus and the exponent."""
    block = _block(key, signature)
    used_bits = key[0].bit_length() - 1  # one bit shorter than the modulus, so a block is always the smaller number
    block_size = (used_bits + 7) // 8
    digest_size = hashlib.new(hash_name).digest_size
    if block is None or any(block[:-block_size]) or block[-1] != 0xBC:
        return False
    # A block is the masked padding and salt, then a digest, from which the mask is made, then 0xBC (RFC 8017 9.1.2).
    masked_size = block_size - digest_size - 1
    digest = block[-digest_size - 1 : -1]
    masked = int.from_bytes(block[-block_size:][:masked_size])
    masked_bits = used_bits - 8 * (digest_size + 1)
    if masked >> masked_bits:  # the unused bits of the first byte must be 0
        return False
    # MGF1 (RFC 8017 B.2.1): the mask begins the digests of `digest` + 0, `digest` + 1, ..., which are joined
    numbers = range(masked_size // digest_size + 1)
    digests = [hashlib.new(hash_name, digest + number.to_bytes(4)).digest() for number in numbers]
    mask = int.from_bytes(b"".join(digests)[:masked_size])
    unmasked = ((masked ^ mask) % (1 << masked_bits)).to_bytes(masked_size)
    padding, salt = unmasked[:-digest_size], unmasked[-digest_size:]
    hashed = bytes(8) + hashlib.new(hash_name, message).digest() + salt
    return int.from_bytes(padding) == 1 and hashlib.new(hash_name, hashed).digest() == digest


def _block(key: tuple[int, int], signature: bytes) -> bytes | None:
    """Return the block of a signature. Return None if it has another length than the modulus, or is not below it."""
    modulus, exponent = key
    size = (modulus.bit_length() + 7) // 8
    number = int.from_bytes(signature)
    if len(signature) != size or number >= modulus:  # RFC 8017 5.2.2 and 8.1.2
        return None
    return pow(number, exponent, modulus).to_bytes(size)
