"""Keys, tokens and verdicts of PyPI cryptography and PyJWT, for tests/interop/test_jose_peer.py.

    jose_peer.py make SEED GROUPS    writes lines {"alg", "jwk", "token"}: valid tokens of random keys and claims
    jose_peer.py keys SEED COUNT     writes lines {"jwk", "pems"}: private keys in PEM
    jose_peer.py judge               reads lines {"alg", "jwk", "token"}, writes a line true or false for each

PyJWT's base64 decoder skips foreign characters, so `judge` also demands the canonical spelling of each part.
"""

import base64
import json
import random
import sys

import jwt
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

ISSUER, AUDIENCE, EXPIRY = "https://as.example", "https://rs.example/mcp", 4_000_000_000
CURVES = {"ES256": (ec.SECP256R1(), "P-256", 32), "ES384": (ec.SECP384R1(), "P-384", 48)}
ORDERS = {  # a little below: good enough to draw private keys from
    "ES256": 2**256 - 2**225,
    "ES384": 2**384 - 2**200,
}


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value, size=None):
    return encode(value.to_bytes(size or (value.bit_length() + 7) // 8, "big"))


def make_key(alg, dice, rsa_keys):
    """Return a private key and the JWK of its public key."""
    if alg in CURVES:
        curve, name, size = CURVES[alg]
        key = ec.derive_private_key(dice.randrange(1, ORDERS[alg]), curve)
        point = key.public_key().public_numbers()
        return key, {"kty": "EC", "crv": name, "x": number(point.x, size), "y": number(point.y, size)}
    if alg == "EdDSA":
        key = ed25519.Ed25519PrivateKey.from_private_bytes(dice.randbytes(32))
        return key, {
            "kty": "OKP",
            "crv": "Ed25519",
            "x": encode(key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)),
        }
    key = dice.choice(rsa_keys)
    numbers = key.public_key().public_numbers()
    return key, {"kty": "RSA", "n": number(numbers.n), "e": number(numbers.e)}


def sign(alg, key, message):
    bits = int(alg[2:]) if alg != "EdDSA" else 0
    digest = {256: hashes.SHA256, 384: hashes.SHA384, 512: hashes.SHA512}.get(bits, hashes.SHA256)()
    if alg in CURVES:
        r, s = utils.decode_dss_signature(key.sign(message, ec.ECDSA(digest)))
        size = CURVES[alg][2]
        return r.to_bytes(size, "big") + s.to_bytes(size, "big")
    if alg == "EdDSA":
        return key.sign(message)
    pss = padding.PSS(padding.MGF1(digest), digest.digest_size)
    return key.sign(message, pss if alg.startswith("PS") else padding.PKCS1v15(), digest)


def make_claims(dice):
    """Return claims, of which one in three sets is to be refused."""
    claims = {"iss": ISSUER, "aud": AUDIENCE, "exp": EXPIRY, "sub": dice.randbytes(4).hex()}
    if dice.random() < 0.5:
        claims.update(
            dice.choice([{"nbf": 0}, {"iat": 1.5e9}, {"aud": ["x", AUDIENCE]}, {"scope": "a bé"}, {"exp": 4e9}])
        )
    if dice.random() < 0.33:
        claims.update(
            dice.choice(
                [
                    {"exp": 1},
                    {"exp": None},
                    {"exp": "soon"},
                    {"exp": 1.7e9},
                    {"exp": []},
                    {"nbf": EXPIRY},
                    {"nbf": {}},
                    {"iat": EXPIRY},
                    {"iat": "now"},
                    {"iss": ISSUER + "/"},
                    {"iss": None},
                    {"iss": 7},
                    {"aud": AUDIENCE + "/"},
                    {"aud": []},
                    {"aud": None},
                    {"aud": ["x", 1, AUDIENCE]},
                    {"aud": {AUDIENCE: 1}},
                ]
            )
        )
    if dice.random() < 0.05:
        del claims[dice.choice(["iss", "aud", "exp"])]
    return claims


def make(seed, groups):
    dice = random.Random(seed)
    rsa_keys = [rsa.generate_private_key(65537, bits) for bits in (2048, 2048, 2049, 3072, 4096)]
    rsa_keys.append(rsa.generate_private_key(3, 2048))
    for alg, count in json.loads(groups).items():
        for _ in range(count):
            key, jwk = make_key(alg, dice, rsa_keys)
            header = {"alg": alg, **dice.choice([{}, {"typ": "at+jwt"}, {"typ": "JWT", "kid": "1"}, {"x": [1, {}]}])}
            signed = ".".join(encode(json.dumps(part).encode()) for part in (header, make_claims(dice)))
            token = f"{signed}.{encode(sign(alg, key, signed.encode()))}"
            print(json.dumps({"alg": alg, "jwk": jwk, "token": token}))


def keys(seed, count):
    dice = random.Random(seed)
    forms = (PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL)
    for _ in range(int(count)):
        key, jwk = make_key("ES256", dice, [])
        pems = [key.private_bytes(Encoding.PEM, form, NoEncryption()).decode() for form in forms]
        print(json.dumps({"jwk": jwk, "pems": pems}))


def is_canonical(text):
    try:
        return encode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))) == text
    except ValueError:
        return False


def is_valid(case):
    try:
        key = jwt.PyJWK(case["jwk"], algorithm=case["alg"]).key
        options = {"require": ["exp", "iss", "aud"]}
        jwt.decode(case["token"], key, [case["alg"]], options, audience=AUDIENCE, issuer=ISSUER, leeway=30)
    except Exception:  # a malformed token may cause any error
        return False
    return all(map(is_canonical, case["token"].split(".")))


if sys.argv[1] == "make":
    make(*sys.argv[2:])
elif sys.argv[1] == "keys":
    keys(*sys.argv[2:])
else:
    for line in sys.stdin:
        print(json.dumps(is_valid(json.loads(line))))
