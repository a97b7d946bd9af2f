"""Tests of lib/jose/keys.py: JWK and JWK Set with their limits, thumbprints, and private keys in PEM."""

from __future__ import annotations

import base64
import json
import re
import time

import pytest

from mcp_ref.lib.jose.curves import P256, P384
from mcp_ref.lib.jose.keys import (
    ALGORITHMS,
    JSON,
    MAX_BRACKETS,
    MAX_KEY_SET,
    MAX_KEYS,
    JoseError,
    decode_base64url,
    encode_base64url,
    make_private_key,
    parse_jwk,
    parse_key_set,
    parse_object,
    parse_private_key,
)
from tests.lib.jose import examples
from tests.lib.jose.examples import EC_JWK, OKP_JWK, PKCS8, RSA_JWK, SEC1

SECRET = 0xC9AFA9D845BA75166B5C215767B1D6934E50C3DB36E89B127B8A622B120F6721


def number(value: int, length: int | None = None) -> str:
    """Return a number as a JWK holds it."""
    return encode_base64url(value.to_bytes(length or (value.bit_length() + 7) // 8))


def key_set(*keys: JSON) -> bytes:
    """Return the text of a JWK Set."""
    return json.dumps({"keys": keys}).encode()


# ---------------------------------------------------------------------------------------------------- JWK


def test_parse_jwk_reads_the_kinds_of_the_rfcs() -> None:
    assert parse_jwk(RSA_JWK).kind == "RSA"
    assert parse_jwk(RSA_JWK).numbers[1] == 65537
    assert parse_jwk(EC_JWK).kind == "P-256"
    assert parse_jwk(OKP_JWK).kind == "Ed25519"
    p384: JSON = {"kty": "EC", "crv": "P-384", "x": number(P384.x, 48), "y": number(P384.y, 48)}
    assert parse_jwk(p384).numbers == (P384.x, P384.y)


def test_thumbprints_are_those_of_the_rfcs() -> None:
    assert parse_jwk(examples.THUMBPRINT_JWK).thumbprint == examples.THUMBPRINT
    assert parse_jwk(OKP_JWK).thumbprint == examples.OKP_THUMBPRINT
    assert parse_jwk({**EC_JWK, "kid": "1", "use": "sig"}).thumbprint == parse_jwk(EC_JWK).thumbprint


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_key_fits_the_algorithms_of_its_kind(algorithm: str) -> None:
    kind = ALGORITHMS[algorithm][0]
    for jwk in (RSA_JWK, EC_JWK, OKP_JWK):
        key = parse_jwk(jwk)
        assert key.fits(algorithm) == (key.kind == kind)
        assert not key.verify(algorithm, b"m", b"\x01" * 64)


def test_key_with_an_algorithm_fits_this_one_only() -> None:
    key = parse_jwk({**RSA_JWK, "alg": "PS256"})
    assert [name for name in ALGORITHMS if key.fits(name)] == ["PS256"]
    for name in ("EdDSA", "Ed25519"):  # two names of one algorithm (RFC 9864)
        key = parse_jwk({**OKP_JWK, "alg": name})
        assert key.fits("EdDSA") and key.fits("Ed25519")


@pytest.mark.parametrize("algorithm", ["none", "None", "", "HS256", "RSA1_5", "ES256K", "ES512", "Ed448", "rs256"])
def test_algorithms_that_do_not_exist_fit_no_key(algorithm: str) -> None:
    for jwk in (RSA_JWK, EC_JWK, OKP_JWK):
        assert not parse_jwk(jwk).fits(algorithm)
        with pytest.raises(JoseError):
            parse_jwk({**jwk, "alg": algorithm})


MODULUS = int.from_bytes(decode_base64url(str(RSA_JWK["n"])))
P = P256.prime
BAD_KEYS: dict[str, JSON] = {
    "not an object": ["RSA"],
    "null": None,
    "empty": {},
    "shared secret": {"kty": "oct", "k": "AAAA"},
    "unknown kty": {**RSA_JWK, "kty": "rsa"},
    "kty is a list": {**RSA_JWK, "kty": ["RSA"]},
    "kty is deep": {**RSA_JWK, "kty": json.loads("[" * 490 + "]" * 490)},
    "kty is missing": {name: value for name, value in RSA_JWK.items() if name != "kty"},
    "kty of another kind": {**EC_JWK, "kty": "RSA"},
    "kty of a third kind": {**EC_JWK, "kty": "OKP"},
    "use is enc": {**RSA_JWK, "use": "enc"},
    "use is null": {**RSA_JWK, "use": None},
    "use is a list": {**RSA_JWK, "use": ["sig"]},
    "key_ops without verify": {**RSA_JWK, "key_ops": ["sign"]},
    "key_ops empty": {**RSA_JWK, "key_ops": []},
    "key_ops is a string": {**RSA_JWK, "key_ops": "verify"},
    "kid is a number": {**RSA_JWK, "kid": 1},
    "alg is a number": {**RSA_JWK, "alg": 256},
    "alg of another kind": {**RSA_JWK, "alg": "ES256"},
    "alg of another curve": {**EC_JWK, "alg": "ES384"},
    "alg for encryption": {**RSA_JWK, "alg": "RSA-OAEP"},
    "n missing": {"kty": "RSA", "e": "AQAB"},
    "n is a number": {**RSA_JWK, "n": 65537},
    "n empty": {**RSA_JWK, "n": ""},
    "n with a zero octet": {**RSA_JWK, "n": number(MODULUS, 257)},
    "n padded": {**RSA_JWK, "n": f"{RSA_JWK['n']}=="},
    "n in plain base64": {**RSA_JWK, "n": str(RSA_JWK["n"]).replace("-", "+").replace("_", "/")},
    "n with a line break": {**RSA_JWK, "n": f"{RSA_JWK['n']}\n"},
    "n with spare bits": {**RSA_JWK, "n": str(RSA_JWK["n"])[:-1] + "R"},
    "n not in ASCII": {**RSA_JWK, "n": f"{RSA_JWK['n']}ä"},
    "n even": {**RSA_JWK, "n": number(MODULUS - 1)},
    "n of 2047 bits": {**RSA_JWK, "n": number(MODULUS >> 1 | 1)},
    "n of 1024 bits": {**RSA_JWK, "n": number((1 << 1023) + 1)},
    "n of 8193 bits": {**RSA_JWK, "n": number((1 << 8192) + 1)},
    "n of 65536 bits": {**RSA_JWK, "n": number((1 << 65535) + 1)},
    "e empty": {**RSA_JWK, "e": ""},
    "e of 1": {**RSA_JWK, "e": "AQ"},
    "e even": {**RSA_JWK, "e": number(65536)},
    "e with a zero octet": {**RSA_JWK, "e": number(65537, 4)},
    "e of 33 bits": {**RSA_JWK, "e": number((1 << 32) + 1)},
    "e of 2001 bits": {**RSA_JWK, "e": number((1 << 2000) + 1)},
    "crv of P-521": {**EC_JWK, "crv": "P-521"},
    "crv of secp256k1": {**EC_JWK, "crv": "secp256k1"},
    "crv of another size": {**EC_JWK, "crv": "P-384"},
    "crv is RSA": {**EC_JWK, "crv": "RSA"},
    "crv is a list": {**EC_JWK, "crv": ["P-256"]},
    "x and y zero": {**EC_JWK, "x": number(0, 32), "y": number(0, 32)},
    "point not on the curve": {**EC_JWK, "y": EC_JWK["x"]},
    "x short": {**EC_JWK, "x": str(EC_JWK["x"])[:40]},
    "x long": {**EC_JWK, "x": number(P256.x, 33), "y": number(P256.y, 32)},
    "x and y split wrongly": {**EC_JWK, "x": number(P256.x, 33), "y": number(P256.y % 2**248, 31)},
    "x not reduced": {**EC_JWK, "x": number(P + 5, 32), "y": number(P256.y, 32)},
    "y missing": {"kty": "EC", "crv": "P-256", "x": EC_JWK["x"]},
    "crv of X25519": {**OKP_JWK, "crv": "X25519"},
    "crv of Ed448": {**OKP_JWK, "crv": "Ed448"},
    "OKP with P-256": {**EC_JWK, "kty": "OKP"},
    "EC with Ed25519": {**EC_JWK, "crv": "Ed25519"},
    "OKP of small order": {**OKP_JWK, "x": number(1 << 248, 32)},
    "OKP not reduced": {**OKP_JWK, "x": encode_base64url(b"\xff" * 31 + b"\x7f")},
    "OKP short": {**OKP_JWK, "x": encode_base64url(b"\x01" * 31)},
    **{f"private {name}": {**EC_JWK, name: "AA"} for name in ("d", "p", "q", "dp", "dq", "qi", "k")},
    "private oth": {**RSA_JWK, "oth": []},
}


@pytest.mark.parametrize("name", BAD_KEYS)
@pytest.mark.attack("A13")
def test_parse_jwk_refuses(name: str) -> None:
    with pytest.raises(JoseError):
        parse_jwk(BAD_KEYS[name])


def test_parse_jwk_accepts_odd_but_allowed_members() -> None:
    extra: dict[str, JSON] = {"kid": "", "use": "sig", "key_ops": ["verify", 1], "x5c": ["AAAA"], "other": None}
    assert parse_jwk({**RSA_JWK, **extra}).kid == ""
    assert parse_jwk({**RSA_JWK, "e": "Aw"}).numbers[1] == 3
    assert parse_jwk({**RSA_JWK, "n": number((1 << 8191) + 1)}).numbers[0].bit_length() == 8192


# ---------------------------------------------------------------------------------------------------- JWK Set


def test_parse_key_set_skips_keys_for_other_uses() -> None:
    encryption: JSON = {**RSA_JWK, "use": "enc"}
    keys = parse_key_set(key_set(encryption, EC_JWK, {"kty": "AKP"}, 7, OKP_JWK))
    assert [key.kind for key in keys] == ["P-256", "Ed25519"]
    assert parse_key_set(b'{"keys": [], "other": 1}') == ()


def test_parse_key_set_tells_why_all_keys_are_unusable() -> None:
    with pytest.raises(JoseError, match=r"no key of the key set is usable.*exclude verification"):
        parse_key_set(key_set({**RSA_JWK, "use": "enc"}, {"kty": "oct"}))


@pytest.mark.attack("A13")
def test_parse_key_set_limits() -> None:
    start = time.process_time()  # keys on Edwards' curve cost the most: a square root each
    assert len(parse_key_set(key_set(*[OKP_JWK] * MAX_KEYS))) == MAX_KEYS
    assert time.process_time() - start < 2
    with pytest.raises(JoseError, match=str(MAX_KEYS)):
        parse_key_set(key_set(*[OKP_JWK] * (MAX_KEYS + 1)))
    text = key_set(OKP_JWK)
    assert len(parse_key_set(text.ljust(MAX_KEY_SET))) == 1
    with pytest.raises(JoseError, match=str(MAX_KEY_SET)):
        parse_key_set(text.ljust(MAX_KEY_SET + 1))


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"null", b"[]", b"{}", b'{"keys": {}}', b'{"keys": null}', b'{"keys": []'),
        *(b'{"keys": [], "keys": []}', b'{"keys": [NaN]}', b'{"keys": [], "a": Infinity}'),
        *(b'{"keys": [], "a": "\\ud800"}', b'{"keys": [], "a": "\xff"}', b'\xef\xbb\xbf{"keys": []}'),
        *('{"keys": []}'.encode("utf-16"), b'{"keys": [], "a": ' + b"9" * 5000 + b"}"),
        b'{"keys": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"keys":' * 20_000,
    ],
)
def test_parse_key_set_refuses_texts_that_are_not_strict_json(text: bytes) -> None:
    with pytest.raises(JoseError):
        parse_key_set(text)


def test_parse_object_counts_brackets() -> None:
    inner = "[" * (MAX_BRACKETS // 2) + "]" * (MAX_BRACKETS // 2)
    assert parse_object(f'{{"a": {inner}}}'.encode()).keys() == {"a"}
    with pytest.raises(JoseError, match=str(MAX_BRACKETS)):
        parse_object(b'{"a": [' + b"[]," * MAX_BRACKETS + b"0]}")


def test_decode_base64url_accepts_one_spelling_of_bytes() -> None:
    for length in range(70):
        data = bytes(range(190, 190 + length % 66))
        assert decode_base64url(encode_base64url(data)) == data
    assert encode_base64url(b"\xfb\xff") == "-_8"
    for text in ("-_8=", "+/8", "-_9", "-_8 ", " -_8", "-_\n8", "A", "AAAAA", "-_8\x00", "é", "=", "A==="):
        with pytest.raises(JoseError):
            decode_base64url(text)


# ---------------------------------------------------------------------------------------------------- private keys


@pytest.mark.parametrize("pem", [PKCS8, examples.PKCS8_WITHOUT_PUBLIC_KEY, SEC1, examples.SEC1_WITHOUT_PUBLIC_KEY])
def test_parse_private_key_reads_every_form_that_openssl_writes(pem: str) -> None:
    for text in (pem, pem.replace("\n", "\r\n"), f"A comment.\n{pem}Another comment.\n"):
        key = parse_private_key(text)
        assert key.secret == SECRET
        assert key.public.verify("ES256", b"m", key.sign(b"m"))
    parameters = "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
    assert parse_private_key(parameters + pem).secret == SECRET


def pem_of(der: bytes, label: str = "PRIVATE KEY") -> str:
    return f"-----BEGIN {label}-----\n{base64.encodebytes(der).decode()}-----END {label}-----\n"


def der_of(pem: str) -> bytes:
    return base64.b64decode("".join(pem.splitlines()[1:-1]))


@pytest.mark.parametrize("pem", [PKCS8, examples.PKCS8_WITHOUT_PUBLIC_KEY, SEC1, examples.SEC1_WITHOUT_PUBLIC_KEY])
def test_parse_private_key_refuses_every_changed_byte(pem: str) -> None:
    """Change a bit of each byte. Only a changed private key without its public key is another valid key.

    Of the secret and the public number, every eighth byte is enough.
    """
    der, label = der_of(pem), pem.splitlines()[0].strip("-").removeprefix("BEGIN ")
    key = parse_private_key(pem_of(der, label))
    assert key.secret == SECRET
    secret = der.index(SECRET.to_bytes(32))
    public = der.find(b"".join(number.to_bytes(32) for number in key.public.numbers))
    in_numbers = {*range(secret, secret + 32), *(range(public, public + 64) if public >= 0 else ())}
    for index in [index for index in range(len(der)) if index not in in_numbers or index % 8 == 0]:
        changed = der[:index] + bytes([der[index] ^ 1 << index % 8]) + der[index + 1 :]
        if index in range(secret, secret + 32) and len(der) < 100:
            assert parse_private_key(pem_of(changed, label)).secret != SECRET
            continue
        with pytest.raises(JoseError):
            parse_private_key(pem_of(changed, label))
    for changed in (der + b"\x00", der[:-1], b"\x00" + der, der * 2, b""):
        with pytest.raises(JoseError):
            parse_private_key(pem_of(changed, label))


def test_parse_private_key_refuses_other_encodings_of_a_key() -> None:
    der = der_of(PKCS8)
    assert der[:3] == b"\x30\x81\x87"
    indefinite = b"\x30\x80" + der[3:] + b"\x00\x00"
    long_length = b"\x30\x82\x00\x87" + der[3:]
    for other in (indefinite, long_length):
        with pytest.raises(JoseError):
            parse_private_key(pem_of(other))


def sec1_of(secret: int) -> str:
    """Return a private key in SEC1 without its public key."""
    der = der_of(examples.SEC1_WITHOUT_PUBLIC_KEY).replace(SECRET.to_bytes(32), secret.to_bytes(32))
    return pem_of(der, "EC PRIVATE KEY")


def test_parse_private_key_refuses_secrets_out_of_range() -> None:
    assert parse_private_key(sec1_of(1)).public.numbers == (P256.x, P256.y)
    assert parse_private_key(sec1_of(P256.order - 1)).public.numbers == (P256.x, P256.prime - P256.y)
    for secret in (0, P256.order, 2**256 - 1):
        with pytest.raises(JoseError):
            parse_private_key(sec1_of(secret))


@pytest.mark.parametrize(
    "pem",
    [
        "",
        PKCS8 + PKCS8,
        PKCS8 + SEC1,
        PKCS8.replace("PRIVATE KEY", "EC PRIVATE KEY"),
        SEC1.replace("EC PRIVATE KEY", "PRIVATE KEY"),
        PKCS8.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY"),
        PKCS8.replace("PRIVATE KEY", "RSA PRIVATE KEY"),
        PKCS8.replace("-----END PRIVATE", "-----END EC PRIVATE"),
        SEC1.replace("-----\n", "-----\nProc-Type: 4,ENCRYPTED\n", 1),
        PKCS8.replace("MIGH", "MIG*"),
        PKCS8.replace("RiKZ", "RiK="),
        "-----BEGIN PRIVATE KEY-----\n=\n-----END PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nAAAAA=\n-----END PRIVATE KEY-----",
        # SEC1 without the name of its curve: any curve of 256 bits could be meant
        pem_of(bytes.fromhex("30250201010420") + SECRET.to_bytes(32), "EC PRIVATE KEY"),
    ],
)
def test_parse_private_key_refuses_other_texts(pem: str) -> None:
    with pytest.raises(JoseError, match="expected one unencrypted P-256 private key"):
        parse_private_key(pem)


def test_parse_private_key_of_a_huge_text_ends_soon() -> None:
    for text in ("-----BEGIN PRIVATE KEY-----" * 20_000, "-----BEGIN PRIVATE KEY-----" + " " * 500_000 + "x"):
        start = time.process_time()
        with pytest.raises(JoseError):
            parse_private_key(text)
        assert time.process_time() - start < 1


def test_private_key_never_shows_its_secret() -> None:
    key = parse_private_key(PKCS8)
    for text in (repr(key), str(key), f"{key!r}"):
        assert str(SECRET) not in text and hex(SECRET)[2:] not in text.lower()
    assert not re.search(r"secret=", repr(key))
    with pytest.raises(JoseError) as caught:
        parse_private_key(PKCS8.replace("MIGH", "MIGI"))
    assert "ya+p2EW6" not in str(caught.value)


def test_make_private_key_makes_a_new_key_each_time() -> None:
    keys = [make_private_key() for _ in range(5)]
    assert len({key.public.thumbprint for key in keys}) == 5
    assert all(key.public.verify("ES256", b"m", key.sign(b"m")) for key in keys)
    assert not keys[0].public.verify("ES256", b"m", keys[1].sign(b"m"))
