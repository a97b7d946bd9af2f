"""Tests of lib/jose/tokens.py: the examples of the RFCs, Wycheproof's tokens, claims, and hostile tokens."""

from __future__ import annotations

import json
import random
import time
from collections import Counter

import pytest

from mcp_ref.lib.jose.keys import (
    JSON,
    JoseError,
    PublicKey,
    decode_base64url,
    encode_base64url,
    make_private_key,
    parse_jwk,
    parse_key_set,
    parse_object,
    parse_private_key,
)
from mcp_ref.lib.jose.tokens import (
    MAX_DATE,
    MAX_SKEW,
    MAX_TOKEN,
    Jws,
    UnknownKey,
    check_claims,
    choose_key,
    parse_jws,
    read_date,
    sign_jwt,
    verify,
)
from tests.lib.jose import examples
from tests.lib.jose.examples import EC_JWK, ES256_TOKEN, OKP_JWK, PKCS8, RS256_TOKEN, RSA_JWK
from tests.lib.jose.wycheproof import needs_vectors, vectors

NOW = 1_800_000_000
PRIVATE = parse_private_key(PKCS8)
ISSUERS, AUDIENCES, TYPES = {"https://as.example"}, {"https://rs.example/mcp", "rs"}, {"at+jwt", "jwt", None}
CLAIMS: dict[str, JSON] = {"iss": "https://as.example", "aud": "https://rs.example/mcp", "exp": NOW + 60, "sub": "ada"}


def make(claims: JSON = None, header: dict[str, JSON] | None = None) -> str:
    """Return a token signed by PRIVATE."""
    signed = ".".join(
        encode_base64url(json.dumps(part).encode())
        for part in ({"alg": "ES256", **(header or {})}, CLAIMS if claims is None else claims)
    )
    return f"{signed}.{encode_base64url(PRIVATE.sign(signed.encode()))}"


def raw(header: str | bytes, payload: str | bytes = "{}", signature: bytes = b"s") -> str:
    """Return a token made of texts."""
    octets = [part.encode() if isinstance(part, str) else part for part in (header, payload)]
    return ".".join(map(encode_base64url, [*octets, signature]))


# ---------------------------------------------------------------------------------------------------- examples


@pytest.mark.parametrize(
    ("token", "jwk", "algorithm"),
    [(RS256_TOKEN, RSA_JWK, "RS256"), (ES256_TOKEN, EC_JWK, "ES256"), (examples.EDDSA_TOKEN, OKP_JWK, "EdDSA")],
)
def test_verify_accepts_the_tokens_of_the_rfcs(token: str, jwk: dict[str, JSON], algorithm: str) -> None:
    jws = parse_jws(token)
    assert (jws.algorithm, jws.kid, jws.type) == (algorithm, None, None)
    others = [parse_jwk(one) for one in (RSA_JWK, EC_JWK, OKP_JWK)]
    assert choose_key(jws, others) == parse_jwk(jwk)
    verify(jws, others)
    with pytest.raises(JoseError, match="not allowed"):
        parse_jws(token, {"PS512"})


def test_proof_of_the_rfc_is_verified_with_the_key_in_its_header() -> None:
    """Verify a proof of possession, the only use of a key from a header: `parse_jws` itself ignores such keys."""
    jws = parse_jws(examples.DPOP_PROOF)
    key = parse_jwk(jws.header["jwk"])
    assert jws.type == "dpop+jwt"
    assert key.verify(jws.algorithm, jws.signed, jws.signature)
    with pytest.raises(UnknownKey):
        verify(jws, [])


REFUSED_GROUPS = {"hs256", "base64", "HS256", "HS384", "HS512", "jws_keyset"}
"""Wycheproof's groups with shared secrets, which are never accepted."""
REFUSED_TESTS = {
    ("rfc7520", "Figure20"): "the key is for PS256, the token is PS384",
    ("rfc7520WithKeyOps", "Figure20"): "the key is for PS256, the token is PS384",
    ("rfc7520", "Figure27"): "P-521 is not supported",
    ("rfc7520WithKeyOps", "Figure27"): "P-521 is not supported",
    ("rfc7520", "Figure35"): "a shared secret",
}
"""Valid tests that are refused, with the reason."""
ACCEPTED_TESTS = {("jws_rsa_roca_key", "rejectsKeyWithRocaVulnerability"): "a test of the generator of a key"}
"""Invalid tests that are accepted, with the reason."""


@needs_vectors
@pytest.mark.parametrize(("name", "expected"), [("json_web_signature", (32, 369)), ("json_web_key", (2, 24))])
def test_verify_agrees_with_wycheproof(name: str, expected: tuple[int, int]) -> None:
    verdicts: Counter[bool] = Counter()
    for group, test in vectors(name):
        published = group.get("public") or group["private"]
        keys = published if "keys" in published else {"keys": [published]}
        try:
            verify(parse_jws(test["jws"]), parse_key_set(json.dumps(keys).encode()))
            is_valid = True
        except ValueError:
            is_valid = False
        verdicts[is_valid] += 1
        case = group["comment"], test["comment"]
        should = test["result"] == "valid" and group["comment"] not in REFUSED_GROUPS and case not in REFUSED_TESTS
        assert is_valid == (should or case in ACCEPTED_TESTS), test
    assert (verdicts[True], verdicts[False]) == expected


@needs_vectors
def test_verify_accepts_the_tokens_of_rfc_7520() -> None:
    """Verify figures 13 (RS256) and 20 (PS384) with the key of the RFC, which has no `alg`."""
    algorithms = []
    for group, test in vectors("json_web_signature"):
        if group["comment"] == "rfc7520" and test["comment"] in ("Figure13", "Figure20"):
            jws = parse_jws(test["jws"])
            verify(jws, [parse_jwk({name: value for name, value in group["public"].items() if name != "alg"})])
            algorithms.append(jws.algorithm)
    assert algorithms == ["RS256", "PS384"]


# ---------------------------------------------------------------------------------------------------- syntax

GOOD = make()


@pytest.mark.parametrize(
    "token",
    [
        *("", ".", "..", "...", GOOD.rpartition(".")[0], GOOD + ".", GOOD + ".AAAA", "." + GOOD, GOOD + "="),
        *(GOOD + "\n", " " + GOOD, GOOD.replace(".", ". "), "é" + GOOD, "Bearer " + GOOD),
        *(json.dumps({"payload": "", "signatures": []}), raw("[]"), raw('"ES256"'), raw("null"), raw("{")),
        *(raw("{}"), raw('{"alg": null}'), raw('{"alg": ["ES256"]}'), raw('{"alg": {}}'), raw('{"alg": ""}')),
        *(raw('{"alg": "none"}', signature=b""), raw('{"alg": "nOnE"}', signature=b"")),
        *(raw('{"alg": "HS256"}'), raw('{"alg": "es256"}'), raw('{"alg": "RSA1_5"}'), raw('{"alg": "ES256K"}')),
        *(raw('{"alg": "ES512"}'), raw('{"alg": "RS256", "alg": "none"}')),
        *(raw('{"alg": "none", "alg": "RS256"}'), raw('{"alg": "RS256", "\\u0061lg": "ES256"}')),
        *(raw('{"alg": "RS256", "crit": []}'), raw('{"alg": "RS256", "crit": null}')),
        raw('{"alg": "RS256", "crit": ["b64"], "b64": false}'),
        *(raw('{"alg": "RS256", "b64": false}'), raw('{"alg": "RS256", "kid": 1}')),
        *(raw('{"alg": "RS256", "kid": ["a"]}'), raw('{"alg": "RS256", "typ": {}}')),
        *(raw('{"alg": "RS256", "kid": "\\ud800"}'), raw('{"alg": "RS256", "x": NaN}')),
        *(raw('\ufeff{"alg": "RS256"}'), raw(b'{"alg": "RS256", "kid": "\xff"}')),
        raw('{"alg": "RS256", "a": ' + "[" * 5000 + "]" * 5000 + "}"),
        *(raw('{"alg": "RS256", "a": ' + "1" * 5000 + "}"), raw('{"alg": ' + "[" * 490 + "]" * 490 + "}")),
        raw('{"alg": "RS256", "kid": ' + "[" * 490 + "]" * 490 + "}"),
    ],
)
@pytest.mark.attack("A1")
def test_parse_jws_refuses(token: str) -> None:
    with pytest.raises(JoseError):
        parse_jws(token)


def test_parse_jws_refuses_a_second_spelling_of_each_part() -> None:
    """Add spare bits to the last character of a part. A lenient decoder reads the same bytes."""
    for index, part in enumerate(GOOD.split(".")):
        others = [part[:-1] + last for last in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"]
        spellings = [[*GOOD.split(".")[:index], other, *GOOD.split(".")[index + 1 :]] for other in others]
        accepted = []
        for spelling in spellings:
            try:
                verify(parse_jws(".".join(spelling)), [PRIVATE.public])
                accepted.append(spelling)
            except JoseError:
                pass
        assert accepted == [GOOD.split(".")]


@pytest.mark.parametrize("algorithm", ["none", "HS256", "RSA1_5", "ES512"])
def test_parse_jws_refuses_algorithms_that_do_not_exist_even_if_they_are_allowed(algorithm: str) -> None:
    with pytest.raises(JoseError, match="not allowed"):
        parse_jws(raw(json.dumps({"alg": algorithm})), {algorithm})


def test_parse_jws_limits_the_length() -> None:
    fill = MAX_TOKEN - len(raw('{"alg": "RS256"}', b"", b"")) - 2
    token = raw('{"alg": "RS256"}', b" " * (fill * 3 // 4), b"")
    assert MAX_TOKEN - 4 < len(token) <= MAX_TOKEN
    assert len(parse_jws(token).payload) == fill * 3 // 4
    with pytest.raises(JoseError, match=str(MAX_TOKEN)):
        parse_jws(token + "A" * 4)


@pytest.mark.attack("A13")
def test_parse_jws_of_hostile_tokens_ends_soon() -> None:
    hostile = ["." * 10_000_000, "A" * 10_000_000, raw('{"a":' * 2400), raw('{"alg": "RS256"}', "[" * 12_000)]
    start = time.process_time()
    for token in hostile:
        with pytest.raises(JoseError):
            check_token(token)
    assert time.process_time() - start < 1


def test_type_is_compared_without_case_and_prefix() -> None:
    for written in ("at+jwt", "AT+JWT", "application/at+jwt", "Application/AT+JWT"):
        assert parse_jws(make(header={"typ": written})).type == "at+jwt"
    assert parse_jws(GOOD).type is None


def test_jws_and_errors_never_show_the_token() -> None:
    jws = parse_jws(make(header={"kid": "k"}))
    signature = encode_base64url(jws.signature)
    assert "ada" not in repr(jws) and signature not in repr(jws) and str(jws.signature) not in repr(jws)
    with pytest.raises(UnknownKey) as caught:
        verify(jws, [])
    assert "'k'" in str(caught.value) and signature not in str(caught.value)
    with pytest.raises(UnknownKey) as caught:
        verify(parse_jws(make(header={"kid": "\x1b[2J" + "k" * 1000})), [])
    assert "\x1b" not in str(caught.value) and len(str(caught.value)) < 200
    with pytest.raises(UnknownKey, match=r"^no ES256 key is known$"):
        verify(parse_jws(make()), [])


# ---------------------------------------------------------------------------------------------------- keys


def keyed(kid: str | None, jwk: dict[str, JSON] | None = None, **members: JSON) -> PublicKey:
    """Return a public key with a kid, by default that of PRIVATE."""
    named: dict[str, JSON] = {} if kid is None else {"kid": kid}
    return parse_jwk({**(jwk or dict(PRIVATE.public.members)), **named, **members})


def with_kid(kid: str | None) -> Jws:
    return parse_jws(make(header={} if kid is None else {"kid": kid}))


def test_choose_key_by_kid() -> None:
    keys = [keyed("1"), keyed("2"), keyed(None), keyed("1", RSA_JWK), keyed("3", EC_JWK)]
    assert choose_key(with_kid("1"), keys) is keys[0]
    assert choose_key(with_kid("3"), keys) is keys[4]
    for kid in ("4", "", "11"):
        with pytest.raises(UnknownKey, match="ES256 key with the kid"):
            choose_key(with_kid(kid), keys)


def test_choose_key_without_kid_needs_exactly_one_key_that_fits() -> None:
    assert choose_key(with_kid(None), [keyed("1", RSA_JWK), keyed("2"), keyed("3", OKP_JWK)]).kid == "2"
    with pytest.raises(JoseError, match="several keys fit"):
        choose_key(with_kid(None), [keyed("1"), keyed("2")])
    with pytest.raises(JoseError, match="several keys fit"):
        choose_key(with_kid("1"), [keyed("1"), keyed("1", EC_JWK)])
    with pytest.raises(UnknownKey):
        choose_key(with_kid(None), [keyed(None, RSA_JWK)])


def test_choose_key_ignores_keys_of_another_algorithm() -> None:
    rs256 = parse_jws(RS256_TOKEN)
    assert choose_key(rs256, [keyed("1", RSA_JWK, alg="PS256"), keyed("2", RSA_JWK, alg="RS256")]).kid == "2"
    with pytest.raises(UnknownKey):
        choose_key(rs256, [keyed("1", RSA_JWK, alg="RS512")])


@pytest.mark.parametrize("name", ["jwk", "jku", "x5u", "x5c", "x5t"])
@pytest.mark.attack("A1")
def test_verify_ignores_keys_that_the_sender_put_into_the_header(name: str) -> None:
    own = make_private_key()
    header: dict[str, JSON] = {"alg": "ES256", name: {**own.public.members}}
    token = sign_jwt(header, CLAIMS, own.sign)
    with pytest.raises(JoseError, match="signature is wrong"):
        verify(parse_jws(token), [PRIVATE.public])


def test_verify_refuses_a_changed_character() -> None:
    """Change some characters of each part of a token in one bit of their values."""
    random.seed(2)
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    for index, character in list(enumerate(GOOD))[::7]:
        other = alphabet[alphabet.index(character) ^ 1 << random.randrange(6)] if character != "." else "A"
        with pytest.raises(JoseError):
            verify(parse_jws(GOOD[:index] + other + GOOD[index + 1 :]), [PRIVATE.public])


def test_verify_refuses_signatures_of_another_algorithm() -> None:
    signed = RS256_TOKEN.split(".")
    for algorithm in ("RS384", "RS512", "PS256", "PS384", "PS512"):
        header = encode_base64url(json.dumps({"alg": algorithm}).encode())
        with pytest.raises(JoseError, match="signature is wrong"):
            verify(parse_jws(".".join([header, *signed[1:]])), [parse_jwk(RSA_JWK)])


def test_verify_refuses_ecdsa_signatures_in_der() -> None:
    jws = parse_jws(GOOD)
    half = [b"\x02\x21\x00" + part for part in (jws.signature[:32], jws.signature[32:])]
    der = b"\x30" + bytes([len(b"".join(half))]) + b"".join(half)
    with pytest.raises(JoseError, match="signature is wrong"):
        verify(parse_jws(GOOD.rpartition(".")[0] + "." + encode_base64url(der)), [PRIVATE.public])


# ---------------------------------------------------------------------------------------------------- claims


def check(claims: JSON, skew: float = 30, **header: JSON) -> dict[str, JSON]:
    """Sign and check claims."""
    return check_token(make(claims, header), skew)


def check_token(token: str, skew: float = 30) -> dict[str, JSON]:
    claims = parse_object(parse_jws(token, types=TYPES).payload)
    check_claims(claims, ISSUERS, AUDIENCES, NOW, skew)
    return claims


def test_check_claims_returns_the_claims() -> None:
    assert check(CLAIMS) == CLAIMS
    assert check({**CLAIMS, "aud": ["other", "rs"]})["aud"] == ["other", "rs"]
    assert check({**CLAIMS, "nbf": NOW, "iat": NOW - 5.5, "exp": NOW + 0.5})["sub"] == "ada"
    for written in ("JWT", "at+jwt", "application/at+JWT"):
        assert check(CLAIMS, typ=written) == CLAIMS


BAD_CLAIMS: dict[str, tuple[dict[str, JSON], str]] = {
    "iss missing": ({"iss": None}, "iss"),
    "iss with a slash": ({"iss": "https://as.example/"}, "iss"),
    "iss in upper case": ({"iss": "https://AS.example"}, "iss"),
    "iss part": ({"iss": "https://as"}, "iss"),
    "iss list": ({"iss": ["https://as.example"]}, "iss"),
    "iss object": ({"iss": {}}, "iss"),
    "aud null": ({"aud": None}, "aud"),
    "aud other": ({"aud": "https://rs.example"}, "aud"),
    "aud part": ({"aud": "r"}, "aud"),
    "aud with a slash": ({"aud": "https://rs.example/mcp/"}, "aud"),
    "aud empty list": ({"aud": []}, "aud"),
    "aud list of others": ({"aud": ["a", "b"]}, "aud"),
    "aud list with a number": ({"aud": ["rs", 1]}, "aud"),
    "aud nested": ({"aud": [["rs"]]}, "aud"),
    "aud object": ({"aud": {"rs": True}}, "aud"),
    "exp null": ({"exp": None}, "exp"),
    "exp text": ({"exp": "1900000000"}, "exp"),
    "exp true": ({"exp": True}, "exp"),
    "exp list": ({"exp": [NOW + 60]}, "exp"),
    "exp negative": ({"exp": -1}, "exp"),
    "exp past": ({"exp": NOW - 30}, "expired"),
    "exp beyond": ({"exp": MAX_DATE + 1}, "exp"),
    "exp in milliseconds": ({"exp": (NOW + 60) * 1000}, "exp"),
    "exp huge": ({"exp": 10**400}, "exp"),
    "nbf ahead": ({"nbf": NOW + 31}, "not valid yet"),
    "nbf text": ({"nbf": "0"}, "nbf"),
    "nbf null": ({"nbf": None}, "nbf"),
    "iat ahead": ({"iat": NOW + 31}, "not valid yet"),
    "nbf negative": ({"nbf": -1}, "nbf"),
    "iat false": ({"iat": False}, "iat"),
}


@pytest.mark.parametrize("name", BAD_CLAIMS)
def test_check_claims_refuses(name: str) -> None:
    changes, reason = BAD_CLAIMS[name]
    with pytest.raises(JoseError, match=reason):
        check({**CLAIMS, **changes})


@pytest.mark.parametrize("name", ["iss", "aud", "exp"])
def test_check_claims_refuses_a_token_without(name: str) -> None:
    with pytest.raises(JoseError, match=name):
        check({key: value for key, value in CLAIMS.items() if key != name})


@pytest.mark.parametrize("payload", ["", "[]", "null", '"x"', "{", '{"exp": 1, "exp": 2}', "\xa0{}"])
def test_check_claims_refuses_payloads_that_are_not_claims(payload: str) -> None:
    with pytest.raises(JoseError):
        check_token(raw('{"alg": "ES256"}', payload))


def test_check_claims_tolerates_clocks_by_the_skew() -> None:
    for skew in (0, 30, MAX_SKEW):
        assert check({**CLAIMS, "exp": NOW - skew + 1, "nbf": NOW + skew, "iat": NOW + skew}, skew)
        for late in ({"exp": NOW - skew}, {"nbf": NOW + skew + 1}, {"iat": NOW + skew + 1}):
            with pytest.raises(JoseError):
                check({**CLAIMS, **late}, skew)


def test_parse_jws_refuses_other_types() -> None:
    for written in ("dpop+jwt", "id+jwt", "", "at+jwt "):
        with pytest.raises(JoseError, match="typ"):
            check(CLAIMS, typ=written)
    with pytest.raises(JoseError, match="typ"):
        parse_jws(make(CLAIMS), types={"at+jwt"})


def test_check_claims_refuses_an_infinite_exp() -> None:
    claims = json.dumps({**CLAIMS, "exp": 0}).replace('"exp": 0', '"exp": 1e999')
    with pytest.raises(JoseError, match="exp"):
        check_token(raw('{"alg": "ES256"}', claims))


def test_read_date() -> None:
    assert read_date({"iat": 5}, "iat") == 5
    assert read_date({"iat": 0.5}, "iat") == 0.5
    assert read_date({}, "iat") is None
    assert read_date({"iat": 0}, "iat") == 0


# ---------------------------------------------------------------------------------------------------- signing


def test_sign_jwt_makes_a_token_that_verifies() -> None:
    token = sign_jwt({"alg": "ES256", "kid": "1", "typ": "at+jwt"}, {**CLAIMS, "name": "Adä"}, PRIVATE.sign)
    jws = parse_jws(token, {"ES256"})
    assert check_token(token)["name"] == "Adä"
    verify(jws, [keyed("1")])
    assert b" " not in decode_base64url(token.split(".")[1])


def test_sign_jwt_refuses_claims_that_json_cannot_hold() -> None:
    with pytest.raises(ValueError):
        sign_jwt({"alg": "ES256"}, {"exp": float("inf")}, PRIVATE.sign)
