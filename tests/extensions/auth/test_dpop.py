"""DPoP on both sides: proofs and nonces of the client, and the check of proofs on the server."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest

from mcp_ref import (
    AuthorizationError,
    Client,
    ClientCredentials,
    DpopCheck,
    DpopKey,
    JwtVerifier,
    MemoryStore,
    Principal,
    Protection,
    Server,
    TokenRefused,
    es256_signer,
)
from mcp_ref.basic.authorization.challenges import write_challenge
from mcp_ref.extensions.auth import dpop
from mcp_ref.extensions.auth.dpop import MAX_AGE, MAX_NONCES
from mcp_ref.jsonrpc.messages import Object
from mcp_ref.lib.http.message import Exchange, Headers, HttpRequest
from mcp_ref.lib.jose.keys import (
    JSON,
    JoseError,
    PrivateKey,
    encode_base64url,
    make_private_key,
    parse_jwk,
    parse_object,
)
from mcp_ref.lib.jose.tokens import Jws, parse_jws, sign_jwt
from mcp_ref.revisions import R2025_11_25, R2026_07_28, Revision
from mcp_ref.server.http import HttpApp
from tests.basic.authorization import key_server
from tests.basic.authorization.protected_server import (
    RESOURCE,
    Tokens,
    bearer,
    challenges,
    modern_call,
    notes,
    protection,
)
from tests.extensions.auth.test_client_credentials import PEM, declared, read, token_requests
from tests.protected_servers import World, protected, status
from tests.raw_http_client import RawSession, Reply, ServedApp, served_over_http

# ------------------------------------------------------------------------------------------------ the client


class Bound:
    """Servers that bind tokens to the key of the proof, and that look at all proofs."""

    def __init__(self, world: World, nonce: str = "") -> None:
        self.world, self.nonce, self.issued = world, nonce, 0
        self.proofs: list[tuple[Jws, dict[str, JSON]]] = []
        world.auth.always("/token", self.token)
        world.mcp.always("/mcp", self.mcp)

    def read(self, exchange: Exchange) -> dict[str, JSON]:
        """Verify the only proof of a request, and return its claims."""
        [proof] = exchange.request.headers.get_all("dpop")
        jws = parse_jws(proof)
        assert jws.type == "dpop+jwt" and jws.header.keys() == {"typ", "alg", "jwk"}
        assert parse_jwk(jws.header["jwk"]).verify("ES256", jws.signed, jws.signature)
        claims = parse_object(jws.payload)
        assert claims["htm"] == exchange.request.method
        self.proofs.append((jws, claims))
        return claims

    async def token(self, exchange: Exchange) -> None:
        claims = self.read(exchange)
        assert claims["htu"] == f"{self.world.auth.base}/token" and "ath" not in claims
        if claims.get("nonce", "") != self.nonce:
            refusal: Object = {"error": "use_dpop_nonce"}
            return await status(400, refusal, ("DPoP-Nonce", self.nonce))(exchange)
        self.issued += 1
        await status(200, {**self.world.auth.issue({"read"}), "token_type": "DPoP"})(exchange)

    async def mcp(self, exchange: Exchange) -> None:
        scheme, _, token = (exchange.request.headers.get("authorization") or "").partition(" ")
        if token:
            claims = self.read(exchange)
            assert scheme == "DPoP" and "ath" in claims and claims["htu"] == self.world.url
            if claims.get("nonce", "") != self.nonce and self.nonce:
                challenge = 'Bearer realm="x", DPoP error="use_dpop_nonce", algs="ES256"'
                fields = ("WWW-Authenticate", challenge), ("DPoP-Nonce", self.nonce)
                return await status(401, b"", *fields)(exchange)
        if token not in self.world.auth.tokens:
            return await self.world.mcp._refuse(exchange, 401, "read", "")
        if (rest := self.world.mcp.app.handle(exchange)) is not None:
            await rest


@pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)
async def test_dpop_client_sends_another_proof_with_each_request(revision: Revision) -> None:
    async with protected() as world:
        bound = Bound(world)
        async with Client(world.url, revision=revision, authorization=world.login(dpop=DpopKey())) as client:
            for _ in range(3):
                assert (await client.call_tool("read")).text == "read"
        assert len(bound.proofs) > 4 and len({str(claims["jti"]) for _, claims in bound.proofs}) == len(bound.proofs)
        assert len({json.dumps(jws.header["jwk"]) for jws, _ in bound.proofs}) == 1
        assert bound.issued == len(world.opened) == 1


async def test_dpop_client_declares_the_extension() -> None:
    async with protected() as world:
        Bound(world)
        await read(world, world.login(dpop=DpopKey()))
        assert "io.modelcontextprotocol/auth/dpop" in declared(world)


async def test_dpop_client_repeats_each_request_once_with_the_nonce() -> None:
    async with protected() as world:
        bound = Bound(world, "n1")
        async with Client(world.url, revision=R2026_07_28, authorization=world.login(dpop=DpopKey())) as client:
            await client.call_tool("read")
            first = len(bound.proofs)
            bound.nonce = "n2"
            await client.call_tool("read")
            await client.call_tool("read")
        assert [claims.get("nonce") for _, claims in bound.proofs[:4]] == [None, "n1", None, "n1"]
        assert [claims.get("nonce") for _, claims in bound.proofs[first:]] == ["n1", "n2", "n2"]
        assert bound.issued == 1


async def test_dpop_client_credentials_make_another_assertion_with_the_nonce() -> None:
    async with protected() as world:
        bound = Bound(world, "n1")
        login = ClientCredentials("reports", signer=es256_signer(PEM), dpop=DpopKey())
        assert await read(world, login) == "read"
        assertions = [form["client_assertion"] for form in token_requests(world)]
        assert len(assertions) == len(set(assertions)) == 2 and bound.issued == 1
        assert {*login.extensions} == {"io.modelcontextprotocol/oauth-client-credentials", DpopKey.extension}


async def test_dpop_client_takes_over_the_nonce_of_a_response() -> None:
    key = DpopKey()
    assert not key.learn("https://mcp.example/a", Headers([("DPoP-Nonce", "n1")]))
    for url, nonce in (("https://mcp.example/b", "n1"), ("https://other.example/a", None)):
        jws = parse_jws(key.headers("POST", url)["DPoP"])
        assert parse_object(jws.payload).get("nonce") == nonce


@pytest.mark.attack("A10")
async def test_dpop_client_gives_up_if_the_server_refuses_every_nonce() -> None:
    async with protected() as world:
        Bound(world)
        async with Client(world.url, revision=R2026_07_28, authorization=world.login(dpop=DpopKey())) as client:
            await client.call_tool("read")
            asked, opened = len(world.mcp.seen), len(world.opened)
            fields = ("WWW-Authenticate", write_challenge("DPoP", error="use_dpop_nonce")), ("DPoP-Nonce", "n")
            world.mcp.always("/mcp", status(401, b"", *fields))
            with pytest.raises(AuthorizationError, match="every proof"):
                await client.call_tool("read")
            assert (len(world.mcp.seen), len(world.opened)) == (asked + 2, opened)


@pytest.mark.attack("A10")
async def test_dpop_client_gives_up_if_the_authorization_server_refuses_every_nonce() -> None:
    async with protected() as world:
        Bound(world)
        world.auth.always("/token", status(400, {"error": "use_dpop_nonce"}, ("DPoP-Nonce", "n")))
        with pytest.raises(TokenRefused, match="use_dpop_nonce"):
            await read(world, world.login(dpop=DpopKey()))
        assert len(world.auth.requests("/token")) == 2


async def test_dpop_client_refuses_a_token_that_is_not_bound() -> None:
    async with protected() as world:  # a server that ignores the proof
        with pytest.raises(TokenRefused, match="type that this client cannot use"):
            await read(world, world.login(dpop=DpopKey()))
        assert not world.mcp.requests_with_tokens


async def test_client_without_dpop_refuses_a_bound_token() -> None:
    async with protected() as world:
        world.auth.token_response = {"token_type": "DPoP"}
        with pytest.raises(TokenRefused, match="type that this client cannot use"):
            await read(world, world.login())


async def test_dpop_client_uses_stored_tokens_again_with_the_same_key() -> None:
    async with protected() as world:
        bound, store = Bound(world), MemoryStore()
        for _ in range(2):
            await read(world, world.login(store=store, dpop=DpopKey(PEM)))
        assert bound.issued == len(world.opened) == 1


@pytest.mark.parametrize("nonces", [["a b"], ['"'], ["a", "b"], ["\x7f"], [""]])
def test_dpop_client_ignores_malformed_nonces(nonces: list[str]) -> None:
    key = DpopKey()
    key.learn("https://mcp.example", Headers([("DPoP-Nonce", nonce) for nonce in nonces]))
    assert "nonce" not in parse_object(parse_jws(key.headers("GET", "https://mcp.example")["DPoP"]).payload)


def test_dpop_client_remembers_the_nonces_of_few_origins() -> None:
    key = DpopKey()
    for number in range(MAX_NONCES + 5):
        key.learn(f"https://{number}.example", Headers([("DPoP-Nonce", "n")]))
    assert len(key._nonces) <= MAX_NONCES


def test_dpop_proof_names_the_url_without_query_and_in_lower_case() -> None:
    for url, target in {
        "HTTPS://Mcp.Example:443/Notes?q=1#f": "https://mcp.example/Notes",
        "https://mcp.example": "https://mcp.example/",
    }.items():
        claims = parse_object(parse_jws(DpopKey().headers("GET", url)["DPoP"]).payload)
        assert claims["htu"] == target


# ------------------------------------------------------------------------------------------------ the server

KEY = make_private_key()


def proof(
    key: PrivateKey = KEY,
    changes: dict[str, JSON] | None = None,
    sign: Callable[[bytes], bytes] | None = None,
    **claims: JSON,
) -> str:
    """Return a good proof for the token `good`, but for these members. None leaves one out."""
    usual: dict[str, JSON] = {
        "jti": str(time.perf_counter_ns()), "htm": "POST", "htu": RESOURCE, "iat": int(time.time()),
        "ath": "dw5gdiTWiSZcpsRIhNCAfZsFTSPEc8EGxyvp3gi3N2w", **claims,
    }  # fmt: skip
    head: dict[str, JSON] = {"typ": "dpop+jwt", "alg": "ES256", "jwk": {**key.public.members}, **(changes or {})}
    return sign_jwt(_without_none(head), _without_none(usual), sign or key.sign)


def _without_none(members: dict[str, JSON]) -> dict[str, JSON]:
    return {name: value for name, value in members.items() if value is not None}


def checked(
    dpop: DpopCheck | None, jkt: JSON = KEY.public.thumbprint, server: Server | None = None
) -> AbstractAsyncContextManager[ServedApp]:
    """Serve notes to the holders of the token `good`, which is bound to a key, and `free`, which is not."""
    tokens = Tokens("free")
    tokens.grant("good", claims={"cnf": {"jkt": jkt}})
    return served_over_http(server or notes()[0], authorization=protection(tokens, dpop=dpop))


async def ask(web: ServedApp, *proofs: str, token: str = "good", scheme: str = "DPoP") -> Reply:
    """Call a tool with a token and proofs."""
    talk, body = RawSession(web), json.dumps(modern_call("whoami")).encode()
    lines = [*talk.lines(Authorization=f"{scheme} {token}", MCP_Protocol_Version="2026-07-28", Mcp_Method="tools/call",
                         Mcp_Name="whoami"), *(f"DPoP: {one}" for one in proofs)]  # fmt: skip
    return await web.ask("POST", web.site.path, body, *lines)


def errors(reply: Reply) -> dict[str, str]:
    """Return the error code of each challenge, by scheme."""
    return {one.scheme: one.parameters.get("error", "") for one in challenges(reply)}


RFC_TOKEN = "Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU"
RFC_THUMBPRINT = "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"
RFC_PROOF = (
    "eyJ0eXAiOiJkcG9wK2p3dCIsImFsZyI6IkVTMjU2IiwiandrIjp7Imt0eSI6IkVDIiwieCI6Imw4dEZyaHgtMzR0VjNoUklDUkRZOXpDa0RscEJo"
    "RjQyVVFVZldWQVdCRnMiLCJ5IjoiOVZFNGpmX09rX282NHpiVFRsY3VOSmFqSG10NnY5VERWclUwQ2R2R1JEQSIsImNydiI6IlAtMjU2In19.eyJq"
    "dGkiOiJlMWozVl9iS2ljOC1MQUVCIiwiaHRtIjoiR0VUIiwiaHR1IjoiaHR0cHM6Ly9yZXNvdXJjZS5leGFtcGxlLm9yZy9wcm90ZWN0ZWRyZXNv"
    "dXJjZSIsImlhdCI6MTU2MjI2MjYxOCwiYXRoIjoiZlVIeU8ycjJaM0RaNTNFc05yV0JiMHhXWG9hTnk1OUlpS0NBcWtzbVFFbyJ9.2oW9RP35yRqz"
    "hrtNP86L-Ey71EOptxRimPPToA1plemAgR6pxHF8y6-yqyVnmcw6Fy1dqd-jfxSYoMxhAJpLjA"
)
"""The proof of RFC 9449 7.1, with its token and the thumbprint of its key (RFC 9449 6.1)."""


def test_dpop_check_accepts_the_proof_of_the_standard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1562262618.0)
    request = HttpRequest("GET", "/protectedresource", "", Headers([("DPoP", RFC_PROOF)]))
    caller = Principal("", "", claims={"cnf": {"jkt": RFC_THUMBPRINT}})
    check, url = DpopCheck(), "https://resource.example.org/protectedresource"
    assert check.check(request, "another", caller, url) == ("invalid_dpop_proof", [])
    assert check.check(request, RFC_TOKEN, caller, url) is None
    assert check.check(request, RFC_TOKEN, caller, url) == ("invalid_dpop_proof", [])


async def test_protection_accepts_a_good_proof_and_refuses_it_the_second_time() -> None:
    async with checked(DpopCheck()) as web:
        good = proof()
        assert (await ask(web, good)).status == 200
        again = await ask(web, good)
        assert again.status == 401 and errors(again) == dict.fromkeys(("bearer", "dpop"), "invalid_dpop_proof")
        assert (await ask(web, proof())).status == 200


@pytest.mark.parametrize("htu", ["HTTPS://MCP.example:443/mcp?query", "https://mcp.example/mcp#f"])
async def test_protection_accepts_other_spellings_of_the_url_in_a_proof(htu: str) -> None:
    async with checked(DpopCheck()) as web:
        assert (await ask(web, proof(htu=htu))).status == 200


BAD: dict[str, Callable[[], str]] = {
    "other method": lambda: proof(htm="GET"),
    "other path": lambda: proof(htu=RESOURCE + "2"),
    "other host": lambda: proof(htu="https://other.example/mcp"),
    "other scheme": lambda: proof(htu="http://mcp.example/mcp"),
    "no URL": lambda: proof(htu=None),
    "URL with credentials": lambda: proof(htu="https://a@mcp.example/mcp"),
    "old": lambda: proof(iat=int(time.time()) - MAX_AGE - 2),
    "ahead": lambda: proof(iat=int(time.time()) + MAX_AGE + 2),
    "no time": lambda: proof(iat=None),
    "time as a text": lambda: proof(iat="now"),
    "infinite time": lambda: proof(iat=10**400),
    "other token": lambda: proof(ath="x"),
    "no token": lambda: proof(ath=None),
    "no jti": lambda: proof(jti=None),
    "jti as a number": lambda: proof(jti=1),
    "other type": lambda: proof(changes={"typ": "JWT"}),
    "no type": lambda: proof(changes={"typ": None}),
    "no key": lambda: proof(changes={"jwk": None}),
    "private key": lambda: proof(changes={"jwk": {**KEY.public.members, "d": "AA"}}),
    "algorithm none": lambda: proof(changes={"alg": "none"}, sign=lambda message: b""),
    "algorithm of another key": lambda: proof(changes={"alg": "RS256"}),
    "HMAC with the public key": lambda: proof(changes={"alg": "HS256"}),
    "wrong signature": lambda: proof(sign=make_private_key().sign),
    "no signature": lambda: proof(sign=lambda message: b""),
    "critical extension": lambda: proof(changes={"crit": ["x"]}),
    "not a token": lambda: "x",
    "too long": lambda: proof(jti="x" * 16_384),
}


@pytest.mark.parametrize("bad", BAD)
async def test_protection_refuses_a_bad_proof(bad: str) -> None:
    server, calls = notes()
    async with checked(DpopCheck(), server=server) as web:
        reply = await ask(web, BAD[bad]())
        assert reply.status == 401 and errors(reply)["dpop"] == "invalid_dpop_proof"
        assert "the DPoP proof is not valid here" in reply.headers["www-authenticate"]
    assert not calls


async def test_protection_refuses_other_numbers_of_proofs_than_one() -> None:
    async with checked(DpopCheck()) as web:
        assert (await ask(web)).status == 401
        assert (await ask(web, proof(), proof())).status in (400, 401)


@pytest.mark.parametrize("jkt", ["x", None, 1, ["x"], "\u00e9"])
async def test_protection_refuses_the_proof_of_another_key(jkt: JSON) -> None:
    async with checked(DpopCheck(), jkt) as web:
        reply = await ask(web, proof())
        assert reply.status == 401 and errors(reply)["dpop"] == "invalid_token"
        assert "the access token is not valid here" in reply.headers["www-authenticate"]


@pytest.mark.parametrize("is_on", [True, False])
@pytest.mark.attack("A1")
async def test_protection_refuses_a_bound_token_as_bearer_and_an_unbound_one_as_dpop(is_on: bool) -> None:
    async with checked(DpopCheck() if is_on else None) as web:
        assert (await ask(web, proof(), scheme="Bearer")).status == 401
        assert (await ask(web, proof(), token="free")).status == 401
        assert (await bearer(web, "free").post(modern_call("whoami"))).status == 200


async def test_remembered_token_is_refused_with_the_other_scheme() -> None:
    async with key_server.key_server() as issuer:
        guard = Protection(key_server.RESOURCE, [issuer.issuer], JwtVerifier(), dpop=DpopCheck())
        bound, free = issuer.token({"cnf": {"jkt": KEY.public.thumbprint}}), issuer.token()

        def proof_for(token: str) -> str:
            return proof(htu=key_server.RESOURCE, ath=encode_base64url(hashlib.sha256(token.encode()).digest()))

        async with served_over_http(notes()[0], authorization=guard) as web:
            assert (await ask(web, proof_for(bound), token=bound)).status == 200
            assert (await ask(web, proof_for(bound), token=bound, scheme="Bearer")).status == 401
            assert (await ask(web, token=free, scheme="Bearer")).status == 200
            assert (await ask(web, proof_for(free), token=free)).status == 401


async def test_protection_that_requires_dpop_refuses_bearer_tokens() -> None:
    async with checked(DpopCheck(required=True)) as web:
        reply = await bearer(web, "free").post(modern_call("whoami"))
        assert reply.status == 401 and errors(reply) == {"dpop": "invalid_token"}
        assert "ES256" in challenges(reply)[0].parameters["algs"]
        assert (await ask(web, proof())).status == 200


async def test_protection_demands_its_nonce() -> None:
    async with checked(DpopCheck(nonce_key=b"k" * 32)) as web:
        for claims in ({}, {"nonce": "guessed"}, {"nonce": 1}):
            reply = await ask(web, proof(**claims))
            assert reply.status == 401 and errors(reply)["dpop"] == "use_dpop_nonce"
        assert (await ask(web, proof(nonce=reply.headers["dpop-nonce"]))).status == 200
        wrong = await ask(web, proof(nonce=reply.headers["dpop-nonce"], sign=lambda message: b""))
        assert errors(wrong)["dpop"] == "invalid_dpop_proof"


def test_dpop_nonce_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    check, other = DpopCheck(nonce_key=b"k" * 32), DpopCheck(nonce_key=b"l" * 32)
    monkeypatch.setattr(time, "time", lambda: 1_000_000.0)
    [new, old] = check._nonces()
    assert not {new, old} & {*other._nonces()}
    monkeypatch.setattr(time, "time", lambda: 1_000_000.0 + MAX_AGE)
    assert check._nonces()[1] == new
    monkeypatch.setattr(time, "time", lambda: 1_000_000.0 + 2 * MAX_AGE)
    assert not {new, old} & {*check._nonces()}


def test_dpop_nonce_key_must_be_long() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        DpopCheck(nonce_key=b"short")


def test_dpop_memory_is_bounded_in_number_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dpop, "MAX_PROOFS_PER_CALLER", 100)
    monkeypatch.setattr(dpop, "MAX_PROOFS", 300)
    check = DpopCheck()
    monkeypatch.setattr(time, "time", lambda: 1000.0)
    for number in range(500):
        check._use("one", str(number))
        check._use(f"caller {number}", "only")
        assert sum(map(len, check._proofs.values())) == check._count <= 300 and len(check._proofs["one"]) <= 100
    monkeypatch.setattr(time, "time", lambda: 1000.0 + 2 * MAX_AGE)
    with pytest.raises(JoseError):
        check._use("one", "499")
    monkeypatch.setattr(time, "time", lambda: 1001.0 + 2 * MAX_AGE)
    check._use("one", "499")
    assert check._proofs == {"one": {"499": 1001.0 + 2 * MAX_AGE}} and check._count == 1


@pytest.mark.attack("proof-replay-by-flood")
def test_dpop_proofs_of_one_principal_do_not_evict_those_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dpop, "MAX_PROOFS_PER_CALLER", 100)
    monkeypatch.setattr(dpop, "MAX_PROOFS", 150)
    check = DpopCheck()
    check._use("user", "stolen")
    for number in range(1000):
        check._use(f"thief {number % 2}", str(number))
    with pytest.raises(JoseError, match="used before"):
        check._use("user", "stolen")


async def test_dpop_client_and_protection_agree() -> None:
    """Use both halves of this package, with nonces of the server."""
    server, calls = notes()
    tokens = Tokens()
    async with protected() as world:
        bound = Bound(world)

        async def issue(exchange: Exchange) -> None:
            await bound.token(exchange)
            jws, _ = bound.proofs[-1]
            jkt = parse_jwk(jws.header["jwk"]).thumbprint
            for token in world.auth.tokens:
                tokens.grant(token, "read", issuer=world.auth.base, claims={"cnf": {"jkt": jkt}}, audience={world.url})

        guard = Protection(
            world.url, [world.auth.base], tokens, ["read"], dpop=DpopCheck(required=True, nonce_key=b"k" * 32)
        )
        app = HttpApp(server.catalog, authorization=guard)
        world.auth.always("/token", issue)

        async def handle(exchange: Exchange) -> None:
            if (rest := app.handle(exchange)) is not None:
                await rest

        world.mcp.always("/mcp", handle)
        async with Client(world.url, authorization=world.login(dpop=DpopKey())) as client:
            await client.call_tool("whoami")
            await client.call_tool("whoami")
        await app.close()
        assert calls == ["whoami", "whoami"]
        assert len(world.opened) == 1
