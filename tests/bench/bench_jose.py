"""The cost of tokens: `python3 -m tests.bench.bench_jose` prints a table, in milliseconds of one core.

The RSA rows use exponent 65537, except for the slowest allowed key.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from functools import partial

from mcp_ref.lib.jose import curves, ed25519, keys, rsa
from mcp_ref.lib.jose.tokens import check_claims, parse_jws, sign_jwt, verify
from tests.lib.jose import examples
from tests.lib.jose.test_ed25519 import EXAMPLES


def row(name: str, call: Callable[[], object]) -> None:
    """Print the cost of a call, the best of some rounds."""
    times = []
    for _ in range(60):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    print(f"{name:<34}{min(times) * 1000:>8.2f}")


def main() -> None:
    """Print the table."""
    print(f"{'':<34}{'ms':>8}")
    for bits, exponent in ((2048, 65537), (3072, 65537), (4096, 65537), (8192, 65537), (8192, keys.MAX_RSA_EXPONENT)):
        arguments = "sha256", ((1 << bits) - 1, exponent), b"m", (3**1000).to_bytes(bits // 8)
        row(f"RSA, {bits} bits, e = {exponent}", partial(rsa.verify_pkcs1, *arguments))
        row(f"RSA-PSS, {bits} bits, e = {exponent}", partial(rsa.verify_pss, *arguments))
    private = keys.parse_private_key(examples.PKCS8)
    signature = private.sign(b"m")
    row("ES256", lambda: private.public.verify("ES256", b"m", signature))
    p384 = curves.P384
    r = (-int.from_bytes(hashlib.sha384(b"m").digest()) % p384.order).to_bytes(48)
    row("ES384", lambda: curves.verify(p384, (p384.x, p384.prime - p384.y), b"m", r + (7).to_bytes(48)))
    encoded, message, ed_signature = (bytes.fromhex(text) for text in EXAMPLES["3"])
    point = ed25519.decode_point(encoded)
    assert point is not None
    row("EdDSA", lambda: ed25519.verify(point, message, ed_signature))
    row("sign ES256", lambda: private.sign(b"m"))
    row("parse_jwk of Ed25519", lambda: keys.parse_jwk(examples.OKP_JWK))
    row("parse_jwk of RSA", lambda: keys.parse_jwk(examples.RSA_JWK))
    row("parse_private_key", lambda: keys.parse_private_key(examples.PKCS8))
    token = sign_jwt({"alg": "ES256"}, {"iss": "a", "aud": "b", "exp": 2_000_000_000}, private.sign)
    row(
        "parse_jws and check_claims", lambda: check_claims(keys.parse_object(parse_jws(token).payload), "a", "b", 1.9e9)
    )
    row("all of a token, ES256", lambda: verify(parse_jws(token), [private.public]))


if __name__ == "__main__":
    main()
