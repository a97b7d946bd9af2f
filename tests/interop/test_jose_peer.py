"""Our verification of tokens against PyPI `cryptography` and `PyJWT`: random keys, claims and mutations.

Both judge every token, and any disagreement fails the test. Known differences are not generated.
Ours refuses these, and PyJWT accepts them:

- duplicate keys in the header or the claims,
- dates that are strings of digits, or lie beyond the year 9999,
- Ed25519 keys of small order,
- RSA signatures without their leading zero bytes (RFC 8017 8.1.2 and 8.2.2 demand the length of the modulus).
"""

import json
import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal, TypedDict

import pytest

from mcp_ref.lib.jose import curves, ed25519
from mcp_ref.lib.jose.keys import JSON, decode_base64url, encode_base64url, make_private_key, parse_jwk, parse_object
from mcp_ref.lib.jose.keys import parse_private_key as parse_pem
from mcp_ref.lib.jose.tokens import check_claims, parse_jws, sign_jwt, verify

PEER = Path(__file__).parent / "peers" / "jose_peer.py"
TIMES = int(os.environ.get("MCP_REF_TOKENS", "1"))
"""Factor of the number of tokens: 2,340 by default, and 23,400 for 10."""
GROUPS = {
    **dict.fromkeys(["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"], 50 * TIMES),
    "ES256": 200 * TIMES,
    "ES384": 80 * TIMES,
    "EdDSA": 200 * TIMES,
}
"""Number of valid signatures, by algorithm. The elliptic ones have a key each."""
MUTATIONS_PER_TOKEN = 2
ISSUER, AUDIENCE = "https://as.example", "https://rs.example/mcp"
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
ORDERS = {"ES256": curves.P256.order, "ES384": curves.P384.order, "EdDSA": ed25519.ORDER}


class Case(TypedDict):
    """A token, with the only algorithm and key that its receiver accepts."""

    alg: str
    jwk: dict[str, str]
    token: str


def run_peer(peers: Path, *arguments: str, lines: Iterable[object] = ()) -> list[str]:
    """Run the peer's program on lines of JSON, and return the lines that it prints."""
    command = [str(peers / "python-sdk-2/bin/python"), str(PEER), *arguments]
    text = "\n".join(map(json.dumps, lines))
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True, timeout=300)
    return done.stdout.splitlines()


def is_valid(case: Case) -> bool:
    """Return our verdict."""
    jwk: dict[str, JSON] = {**case["jwk"]}
    try:
        jws = parse_jws(case["token"], {case["alg"]}, {"at+jwt", "jwt", None})
        check_claims(parse_object(jws.payload), {ISSUER}, {AUDIENCE}, time.time())
        verify(jws, [parse_jwk({**jwk, "kid": jws.kid} if jws.kid else jwk)])
    except ValueError:
        return False
    return True


def flip_bit(data: bytes, dice: random.Random) -> bytes:
    return (int.from_bytes(data) ^ 1 << dice.randrange(8 * len(data))).to_bytes(len(data)) if data else b"\x00"


def change_part(case: Case, dice: random.Random, index: int) -> Case:
    """Return a token with a changed bit in one part, in canonical base64url."""
    parts = case["token"].split(".")
    parts[index] = encode_base64url(flip_bit(decode_base64url(parts[index]), dice))
    return {**case, "token": ".".join(parts)}


def change_character(case: Case, dice: random.Random) -> Case:
    """Return a token with one other, missing or additional character."""
    token, at = case["token"], dice.randrange(len(case["token"]))
    character = dice.choice([*ALPHABET, "=", ".", " ", "\n", "+", "/", "é", ""])
    return {**case, "token": token[:at] + character + token[at + dice.randrange(2) :]}


def change_end(case: Case, dice: random.Random) -> Case:
    """Return a token with another last character: often another spelling of the same bytes."""
    return {**case, "token": case["token"][:-1] + dice.choice(ALPHABET)}


def change_length(case: Case, dice: random.Random) -> Case:
    """Return a token whose signature is longer or shorter."""
    signed, _, end = case["token"].rpartition(".")
    signature = decode_base64url(end)
    others = [b"", b"\x00" + signature, signature + b"\x00", signature[:-1], signature * 2]
    if signature[0]:  # without a leading zero, a signature of RSA stays the same number: a known difference
        others.append(signature[1:])
    other = dice.choice(others)
    return {**case, "token": f"{signed}.{encode_base64url(other)}"}


def change_numbers(case: Case, dice: random.Random) -> Case:
    """Return a token with other numbers in its signature, some of which are equal modulo the order."""
    signed, _, end = case["token"].rpartition(".")
    signature, order = decode_base64url(end), ORDERS.get(case["alg"])
    half = len(signature) // 2
    if order is None:
        modulus = int.from_bytes(decode_base64url(case["jwk"]["n"]))
        value = int.from_bytes(signature)
        chosen = dice.choice([modulus - value, modulus, 0, 1, modulus - 1, modulus + 1])
        return {**case, "token": f"{signed}.{encode_base64url(chosen.to_bytes(len(signature)))}"}
    order_of_bytes: Literal["little", "big"] = "little" if case["alg"] == "EdDSA" else "big"
    r, s = signature[:half], int.from_bytes(signature[half:], order_of_bytes)
    s = dice.choice([order - s, s + order, 0, 1, order, order - 1])
    r = dice.choice([r, r, r, bytes(half), b"\xff" * half])
    octets = (s % 2 ** (8 * half)).to_bytes(half, order_of_bytes)
    return {**case, "token": f"{signed}.{encode_base64url(r + octets)}"}


def change_algorithm(case: Case, dice: random.Random) -> Case:
    """Return a token whose header names another algorithm, or demands extensions."""
    header = json.loads(decode_base64url(case["token"].split(".")[0]))
    names: list[JSON] = [*GROUPS, "none", "HS256", "", None, 1, case["alg"].lower()]
    header |= dice.choice([{"alg": dice.choice(names)}, {"crit": ["exp"], "exp": 1}, {"kid": 7}, {"b64": False}])
    text = encode_base64url(json.dumps(header).encode())
    return {**case, "token": ".".join([text, *case["token"].split(".")[1:]])}


def change_key(case: Case, dice: random.Random) -> Case:
    """Return a token with a changed bit in the receiver's key."""
    name = dice.choice([name for name in case["jwk"] if name not in ("kty", "crv")])
    other = encode_base64url(flip_bit(decode_base64url(case["jwk"][name]), dice))
    return {**case, "jwk": {**case["jwk"], name: other}}


MUTATIONS: list[Callable[[Case, random.Random], Case]] = [
    lambda case, dice: change_part(case, dice, 2), lambda case, dice: change_part(case, dice, 1),
    lambda case, dice: change_part(case, dice, 0), change_character, change_end, change_length, change_numbers,
    change_algorithm, change_key,
]  # fmt: skip


def test_verify_agrees_with_pyjwt(peers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dice = random.Random(7)
    cases: list[Case] = []
    for line in run_peer(peers, "make", "7", json.dumps(GROUPS)):
        good: Case = json.loads(line)
        cases += [good, *(dice.choice(MUTATIONS)(good, dice) for _ in range(MUTATIONS_PER_TOKEN))]
    theirs = [json.loads(line) for line in run_peer(peers, "judge", lines=cases)]
    counts: Counter[bool] = Counter()
    for case, verdict in zip(cases, theirs, strict=True):
        assert is_valid(case) == verdict, f"PyJWT says {verdict} of {json.dumps(case)}"
        counts[verdict] += 1
    with capsys.disabled():
        print(f" {len(cases)} tokens: {counts[True]} accepted by both, {counts[False]} refused by both ", end="")
    assert len(cases) >= 2_000 * TIMES
    assert min(counts.values()) > 400 * TIMES, counts  # neither verdict is rare


def test_sign_is_accepted_by_pyjwt(peers: Path) -> None:
    cases: list[Case] = []
    for index in range(300):
        key = make_private_key()
        claims: dict[str, JSON] = {"iss": ISSUER, "aud": AUDIENCE, "exp": 4_000_000_000, "sub": str(index)}
        token = sign_jwt({"alg": "ES256"}, claims, key.sign)
        cases.append({"alg": "ES256", "jwk": key.public.members, "token": token})
    assert run_peer(peers, "judge", lines=cases) == ["true"] * len(cases)


def test_parse_private_key_reads_the_keys_of_cryptography(peers: Path) -> None:
    for line in run_peer(peers, "keys", "8", "100"):
        case = json.loads(line)
        for pem in case["pems"]:
            assert parse_pem(pem).public.members == parse_jwk(case["jwk"]).members
