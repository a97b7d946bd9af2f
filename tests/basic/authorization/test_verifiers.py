"""The verifiers of access tokens, against an issuer over HTTP that behaves, fails or attacks."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
import json
import logging
import time
import tracemalloc
from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest

from mcp_ref import Introspection, JwtVerifier, Principal, Protection, Server, TextContent
from mcp_ref.basic.authorization import server as server_half
from mcp_ref.basic.authorization import verifiers
from mcp_ref.basic.authorization.errors import VerificationUnavailable
from mcp_ref.basic.authorization.server import Verify
from mcp_ref.basic.authorization.verifiers import FRESH_SECONDS, HELD_SECONDS, MAX_INTROSPECTIONS, RETRY_SECONDS
from mcp_ref.jsonrpc.messages import JSON, Object
from mcp_ref.lib.jose.keys import JoseError, PublicKey, encode_base64url, make_private_key
from mcp_ref.lib.jose.tokens import Jws
from mcp_ref.lib.jose.tokens import verify as verify_signature
from mcp_ref.transports.trace import tracer
from tests.basic.authorization.key_server import (
    RESOURCE,
    KeyServer,
    Misbehave,
    dripping,
    failing,
    flooding,
    key_server,
    saying,
    send,
)
from tests.basic.authorization.protected_server import bearer, modern_call
from tests.raw_http_client import ServedApp, served_over_http
from tests.settings import eventually

METADATA = "/.well-known/oauth-authorization-server"


class Clock:
    """The clocks of the verifiers, which a test can set forward."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.offset = 0.0
        fake = SimpleNamespace(monotonic=lambda: time.monotonic() + self.offset, time=lambda: time.time() + self.offset)
        monkeypatch.setattr(verifiers, "time", fake)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def or_none(verify: Verify) -> Verify:
    """Return the verifier with None for an invalid token."""

    async def verify_token(token: str) -> Principal | None:
        try:
            return await verify(token)
        except JoseError:
            return None

    return verify_token


def jwt_verifier(issuer: KeyServer, verifier: JwtVerifier | None = None) -> Verify:
    return or_none((verifier or JwtVerifier()).for_server(RESOURCE, [issuer.issuer]))


@contextlib.asynccontextmanager
async def protected_by(issuer: KeyServer, server: Server | None = None) -> AsyncIterator[ServedApp]:
    """Serve a server, by default one without tools, for the tokens of an issuer."""
    protection = Protection(RESOURCE, [issuer.issuer], JwtVerifier())
    async with served_over_http(server or Server("s"), authorization=protection) as web:
        yield web


def part(value: JSON | bytes) -> str:
    """Return a part of a token."""
    return encode_base64url(value if isinstance(value, bytes) else json.dumps(value).encode())


def with_header(token: str, header: bytes) -> str:
    """Return the token with another header."""
    return ".".join([part(header), *token.split(".")[1:]])


# ------------------------------------------------------------------------------------------------ JWT


async def test_jwt_verifier_returns_the_principal_of_a_good_token() -> None:
    async with key_server() as issuer:
        end = time.time() + 100
        verify = jwt_verifier(issuer)
        found = await verify(issuer.token({"scope": "notes:read notes:write", "exp": end, "extra": "private"}))
        assert found is not None
        assert (found.issuer, found.subject, found.client_id) == (issuer.issuer, "alice", "c")
        assert found.scopes == {"notes:read", "notes:write"} and found.expires_at == end
        assert found.claims["extra"] == "private" and "private" not in repr(found)
        assert json.loads(found.id) == [issuer.issuer, "alice", "c"]
        assert issuer.asked == [METADATA, "/jwks"]


@pytest.mark.parametrize(
    ("claims", "client", "scopes"),
    [
        ({"scp": ["a", "b", 1]}, "c", {"a", "b"}),
        ({"scope": ["a"]}, "c", {"a"}),
        ({"client_id": None}, "", set()),
        ({"sub": None}, "c", set()),
    ],
)
async def test_jwt_verifier_reads_the_spellings_of_common_servers(
    claims: Object, client: str, scopes: set[str]
) -> None:
    async with key_server() as issuer:
        found = await jwt_verifier(issuer)(issuer.token(claims))
        assert found is not None and found.client_id == client and found.scopes == scopes


@pytest.mark.parametrize("kind", ["at+jwt", "AT+JWT", "application/at+jwt", "JWT", None])
async def test_jwt_verifier_accepts_the_usual_types(kind: str | None) -> None:
    async with key_server() as issuer:
        assert await jwt_verifier(issuer)(issuer.token(header={"typ": kind})) is not None


async def test_jwt_verifier_jwks_replaces_the_metadata() -> None:
    async with key_server() as issuer:
        issuer.documents[METADATA] = failing(404)
        verify = jwt_verifier(issuer, JwtVerifier(jwks=f"{issuer.issuer}/jwks"))
        assert await verify(issuer.token()) is not None
        assert issuer.asked == ["/jwks"]
        with pytest.raises(ValueError, match="https"):
            jwt_verifier(issuer, JwtVerifier(jwks="http://keys.example/jwks"))


async def test_jwt_verifier_audiences_replace_the_resource() -> None:
    async with key_server() as issuer:
        verify = jwt_verifier(issuer, JwtVerifier(audiences={"api://notes"}))
        assert await verify(issuer.token({"aud": "api://notes"})) is not None
        assert await verify(issuer.token()) is None


@pytest.mark.parametrize(
    "options",
    [
        {"audiences": ()}, {"audiences": "api://notes"}, {"algorithms": ()}, {"algorithms": ["none"]},
        {"algorithms": ["HS256"]}, {"algorithms": "ES256"}, {"types": ()}, {"types": None}, {"skew": -1}, {"skew": 301},
        {"skew": float("nan")},
    ],
)  # fmt: skip
def test_jwt_verifier_refuses_an_unsafe_configuration(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"algorithms|audiences|types|skew"):
        JwtVerifier(**options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="audiences"):
        Introspection("https://auth.example", "id", "secret", audiences=())


@pytest.mark.attack("A1")
async def test_issuer_cannot_sign_tokens_in_the_name_of_another() -> None:
    async with key_server() as honest, key_server() as other:
        verify = or_none(JwtVerifier().for_server(RESOURCE, [other.issuer, honest.issuer]))
        assert await verify(honest.token()) is not None
        assert await verify(other.token()) is not None
        assert await verify(other.token({"iss": honest.issuer})) is None


def attacks(issuer: KeyServer) -> dict[str, str]:
    """Return the bad tokens, by name."""
    now, good = time.time(), issuer.token()
    head, payload, signature = good.split(".")
    public = json.dumps(issuer.keys["1"].public.members).encode()
    hs256 = f"{part({'alg': 'HS256', 'kid': '1'})}.{payload}"
    stranger = make_private_key()
    embedded: Object = {"jwk": {**stranger.public.members}, "kid": None}
    issuer.keys["stranger"] = stranger
    foreign = issuer.token(sign_with="stranger", header=embedded)
    unknown = issuer.token(sign_with="stranger", kid="stranger")
    other_key = issuer.token(sign_with="stranger")
    del issuer.keys["stranger"]
    return {
        "other audience": issuer.token({"aud": "https://other.example/mcp"}),
        "no audience": issuer.token({"aud": None}),
        "audience of an ancestor": issuer.token({"aud": "http://127.0.0.1:8000"}),
        "audience not text": issuer.token({"aud": [RESOURCE, 1]}),
        "other issuer": issuer.token({"iss": "https://evil.example"}),
        "issuer with a slash": issuer.token({"iss": issuer.issuer + "/"}),
        "expired": issuer.token({"exp": now - 60}),
        "no expiry": issuer.token({"exp": None}),
        "expiry as text": issuer.token({"exp": "9999999999"}),
        "not yet": issuer.token({"nbf": now + 60}),
        "issued ahead": issuer.token({"iat": now + 60}),
        "alg none": f"{part({'alg': 'none'})}.{payload}.",
        "alg none with a signature": f"{part({'alg': 'none', 'kid': '1'})}.{payload}.{signature}",
        "HS256 with the public key": f"{hs256}.{part(hmac.digest(public, hs256.encode(), 'sha256'))}",
        "crit": issuer.token(header={"crit": ["x"], "x": 1}),
        "embedded key": foreign,
        "unknown kid": unknown,
        "key of another": other_key,
        "cut signature": good[:-4],
        "no signature": f"{head}.{payload}.",
        "changed payload": f"{head}.{part({'iss': issuer.issuer, 'aud': RESOURCE, 'exp': now + 60})}.{signature}",
        "duplicate alg": with_header(good, b'{"alg":"none","alg":"ES256","kid":"1","typ":"at+jwt"}'),
        "identity token": issuer.token({"aud": "c", "nonce": "n"}, header={"typ": "JWT"}),
        "logout token": issuer.token(header={"typ": "logout+jwt"}),
        "proof": issuer.token(header={"typ": "dpop+jwt"}),
        "bound to a key": issuer.token({"cnf": {"jkt": "x"}}),
        "no subject": issuer.token({"sub": None, "client_id": None}),
        "four parts": good + ".x",
        "not a token": "abc",
    }


@pytest.mark.spec(
    "2026-07-28/basic/authorization/index#token-handling-1,7",
    "2026-07-28/basic/authorization/security-considerations#access-token-privilege-restriction-2,4",
    "2025-06-18..2025-11-25/basic/authorization#token-handling-7",
    "2025-06-18..2025-11-25/basic/authorization#access-token-privilege-restriction-2,4",
)
@pytest.mark.attack("A1")
async def test_bad_tokens_are_401_with_one_body_and_the_handler_does_not_run() -> None:
    ran, server = list[str](), Server("s")

    @server.tool()
    async def run() -> TextContent:
        ran.append("run")
        return TextContent("ran")

    async with key_server() as issuer, protected_by(issuer, server) as web:
        responses = set()
        for name, token in attacks(issuer).items():
            reply = await bearer(web, token).post(modern_call("run"))
            assert reply.status == 401, name
            responses.add((reply.headers["www-authenticate"], reply.body))
        assert len(responses) == 1 and not ran
        assert (await bearer(web, issuer.token()).post(modern_call("run"))).status == 200
    assert ran == ["run"]


# ------------------------------------------------------------------------------------------------ the keys


async def test_keys_are_fetched_once_for_many_requests_at_a_time() -> None:
    async with key_server() as issuer:
        verify = jwt_verifier(issuer)
        found = await asyncio.gather(*(verify(issuer.token({"jti": str(number)})) for number in range(10)))
        assert all(found)
        assert issuer.asked == [METADATA, "/jwks"]


async def test_keys_are_fetched_again_when_they_are_old(clock: Clock) -> None:
    async with key_server() as issuer:
        verify = jwt_verifier(issuer)
        await verify(issuer.token())
        clock.offset = FRESH_SECONDS - 5
        await verify(issuer.token({"jti": "2", "exp": time.time() + 7200}))
        assert issuer.asked.count("/jwks") == 1
        clock.offset = FRESH_SECONDS + 5
        await verify(issuer.token({"jti": "3", "exp": time.time() + 7200}))
        assert issuer.asked.count("/jwks") == 2


@pytest.mark.attack("A19")
async def test_new_kid_fetches_the_keys_again_at_most_every_30_seconds(clock: Clock) -> None:
    async with key_server() as issuer:
        verify = jwt_verifier(issuer)
        assert await verify(issuer.token()) is not None
        clock.offset = RETRY_SECONDS + 1
        issuer.keys["2"] = make_private_key()
        assert await verify(issuer.token(kid="2", sign_with="2")) is not None
        assert issuer.asked.count("/jwks") == 2
        for number in range(20):  # invented names
            assert await verify(issuer.token(kid=f"invented {number}")) is None
        assert issuer.asked.count("/jwks") == 2
        clock.offset += RETRY_SECONDS + 1
        del issuer.keys["1"]
        assert await verify(issuer.token(kid="invented", sign_with="2")) is None  # fetches; key 1 is gone
        issuer.keys["1"] = make_private_key()
        assert await verify(issuer.token(kid="1")) is None


@pytest.mark.attack("A19")
async def test_keys_out_of_reach_at_the_start_are_503_and_one_request_in_30_seconds(clock: Clock) -> None:
    async with key_server() as issuer, protected_by(issuer) as web:
        issuer.documents["/jwks"] = failing(500)
        talk = bearer(web, issuer.token())
        for _ in range(5):
            reply = await talk.post(modern_call("x"))
            assert reply.status == 503 and 25 <= int(reply.headers["retry-after"]) <= 30
        assert issuer.asked.count("/jwks") == 1
        del issuer.documents["/jwks"]
        clock.offset = RETRY_SECONDS + 1
        assert (await talk.post(modern_call("x"))).status == 404  # the server has no tools


@pytest.mark.attack("A19")
async def test_old_keys_hold_for_a_day_while_the_issuer_is_out_of_reach(clock: Clock) -> None:
    async with key_server() as issuer:
        verify = jwt_verifier(issuer)
        assert await verify(issuer.token()) is not None
        issuer.documents[METADATA] = failing(503)
        end = time.time() + 2 * HELD_SECONDS
        for number in range(1, 21):  # ten minutes
            clock.offset = number * 30.0
            assert await verify(issuer.token({"jti": f"{number}", "exp": end})) is not None
        asked = len(issuer.asked)
        assert asked <= 2 + 3 * 21
        clock.offset = HELD_SECONDS - 60
        assert await verify(issuer.token({"jti": "day", "exp": end})) is not None
        issuer.keys["2"] = make_private_key()
        clock.offset += RETRY_SECONDS + 1
        with pytest.raises(VerificationUnavailable):  # perhaps a new key
            await verify(issuer.token({"jti": "new", "exp": end}, kid="2", sign_with="2"))
        clock.offset = HELD_SECONDS + 60
        with pytest.raises(VerificationUnavailable):
            await verify(issuer.token({"jti": "late", "exp": end}))


@pytest.mark.attack("A19")
async def test_silent_issuer_delays_requests_with_old_keys_by_a_second_at_most(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifiers, "HURRY_SECONDS", 0.05)
    async with key_server() as issuer:
        verify = jwt_verifier(issuer)
        await verify(issuer.token())
        issuer.documents[METADATA] = dripping
        clock.offset = FRESH_SECONDS + 1
        began = time.monotonic()
        assert await verify(issuer.token({"jti": "2", "exp": time.time() + 7200})) is not None
        assert time.monotonic() - began < 5


async def test_request_that_is_cancelled_does_not_cancel_the_fetch_of_others() -> None:
    async with key_server() as issuer:
        go = asyncio.Event()

        async def slow(exchange: object) -> None:
            await go.wait()
            await send(exchange, issuer.jwks())  # type: ignore[arg-type]

        issuer.documents["/jwks"] = slow
        verify = jwt_verifier(issuer)
        first, second = (asyncio.ensure_future(verify(issuer.token({"jti": jti}))) for jti in "12")
        await eventually(lambda: "/jwks" in issuer.asked)
        first.cancel()
        go.set()
        assert await second is not None
        assert issuer.asked.count("/jwks") == 1


def _keys(count: int, **members: JSON) -> bytes:
    key: Object = {**make_private_key().public.members, **members}
    return json.dumps({"keys": [{**key, "kid": str(number)} for number in range(count)]}).encode()


def _rsa(modulus: int, exponent: int) -> bytes:
    numbers = {name: encode_base64url(value.to_bytes((value.bit_length() + 7) // 8)) for name, value in
               (("n", modulus), ("e", exponent))}  # fmt: skip
    return json.dumps({"keys": [{"kty": "RSA", "kid": "1", **numbers}]}).encode()


HOSTILE: dict[str, Misbehave] = {
    "10 MB": saying(b'{"keys": [' + b" " * 10_000_000 + b"]}"),
    "flood": flooding,
    "drip": dripping,
    "1000 keys": saying(_keys(1000)),
    "depth": saying(b'{"keys": ' + b"[" * 10_000 + b"]" * 10_000 + b"}"),
    "RSA of 64 Kbit": saying(_rsa((1 << 65_535) + 1, 65_537)),
    "exponent of 2000 bits": saying(_rsa((1 << 2047) + 1, (1 << 2000) + 1)),
    "private key": saying(_keys(1, d="AAAA")),
    "duplicate member": saying(b'{"keys": [], "keys": []}'),
    "not JSON": saying(b"<html>"),
    "list": saying(b"[]"),
    "redirect": failing(307, ("Location", "/elsewhere")),
    "other redirect": failing(302, ("Location", "http://localhost/elsewhere")),
}


KEYS = {"1000 keys", "RSA of 64 Kbit", "exponent of 2000 bits", "private key", "duplicate member"}
"""The names of the documents that are hostile as a set of keys only."""


@pytest.mark.parametrize(
    ("path", "name"), [("/jwks", name) for name in HOSTILE] + [(METADATA, name) for name in HOSTILE if name not in KEYS]
)
@pytest.mark.attack("A13")
async def test_hostile_documents_are_503_within_the_limits(
    path: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifiers, "FETCH_SECONDS", 0.2 if name == "drip" else 4.0)
    async with key_server() as issuer:
        issuer.documents[path] = HOSTILE[name]
        began = time.monotonic()
        tracemalloc.start()
        try:
            with pytest.raises(VerificationUnavailable):
                await jwt_verifier(issuer)(issuer.token())
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert time.monotonic() - began < 5
        assert "/elsewhere" not in issuer.asked
        if name != "10 MB":
            assert peak < 8_000_000


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://evil.example"},
        {"jwks_uri": "http://keys.example/jwks"},
        {"jwks_uri": "file:///etc/passwd"},
        {"jwks_uri": None},
    ],
)
@pytest.mark.attack("A3")
async def test_metadata_with_another_issuer_or_an_unsafe_key_server_are_not_used(metadata: Object) -> None:
    async with key_server() as issuer:
        issuer.metadata = metadata
        with pytest.raises(VerificationUnavailable):
            await jwt_verifier(issuer)(issuer.token())
        assert "/jwks" not in issuer.asked


async def test_openid_configuration_is_used_if_it_is_the_only_metadata() -> None:
    async with key_server() as issuer:
        issuer.documents[METADATA] = failing(404)
        openid: Object = {"issuer": issuer.issuer, "jwks_uri": f"{issuer.issuer}/jwks"}
        issuer.documents["/.well-known/openid-configuration"] = saying(json.dumps(openid).encode())
        assert await jwt_verifier(issuer)(issuer.token()) is not None


# ------------------------------------------------------------------------------------------------ the memory


async def test_verified_token_is_remembered_for_a_minute_and_its_end_is_still_checked(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    verified = list[Jws]()

    def count(jws: Jws, keys: tuple[PublicKey, ...]) -> None:
        verified.append(jws)
        verify_signature(jws, keys)

    monkeypatch.setattr(verifiers, "verify", count)
    monkeypatch.setattr(server_half, "time", verifiers.time)  # type: ignore[attr-defined]
    async with key_server() as issuer, protected_by(issuer) as web:
        talk = bearer(web, issuer.token({"exp": time.time() + 100}))
        for offset, status, count_so_far in ((0, 404, 1), (50, 404, 1), (70, 404, 2), (120, 404, 2), (131, 401, 2)):
            clock.offset = offset
            assert (await talk.post(modern_call("x"))).status == status  # 404: the server has no tools
            assert len(verified) == count_so_far


@pytest.mark.attack("A14")
async def test_remembered_token_ends_after_a_suspend_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set only the wall clock forward: the monotonic clock stands still during a suspend."""
    wall = SimpleNamespace(monotonic=time.monotonic, time=time.time)
    monkeypatch.setattr(server_half, "time", wall)
    monkeypatch.setattr(verifiers, "time", wall)
    async with key_server() as issuer, protected_by(issuer) as web:
        talk = bearer(web, issuer.token({"exp": time.time() + 100}))
        assert (await talk.post(modern_call("x"))).status == 404
        wall.time = lambda: time.time() + 131
        assert (await talk.post(modern_call("x"))).status == 401


async def test_memory_is_bounded_and_holds_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_half, "MAX_REMEMBERED", 3)
    async with key_server() as issuer:
        protection = Protection(RESOURCE, [issuer.issuer], JwtVerifier())
        async with served_over_http(Server("s"), authorization=protection) as web:
            for number in range(5):
                token = issuer.token({"jti": str(number)})
                for each in (token, token + "x"):
                    await bearer(web, each).post(modern_call("x"))
        assert len(protection._remembered) == 3
        assert all(isinstance(key, bytes) and len(key) == 32 for key in protection._remembered)


# ------------------------------------------------------------------------------------------------ introspection


def introspection(issuer: KeyServer, **options: object) -> Verify:
    verifier = Introspection(issuer.issuer, "my:id", "s%cret", **options)  # type: ignore[arg-type]
    return or_none(verifier.for_server(RESOURCE, [issuer.issuer]))


def active(**claims: JSON) -> Object:
    usual: Object = {"active": True, "sub": "alice", "client_id": "c", "aud": RESOURCE, "exp": time.time() + 60}
    return {name: value for name, value in {**usual, **claims}.items() if value is not None}


async def test_introspection_asks_once_for_a_token_and_authenticates_with_encoded_credentials() -> None:
    async with key_server() as issuer:
        issuer.introspected["opaque"] = active(scope="notes:read")
        verifier = Introspection(issuer.issuer, "my:id", "s%cret")
        protection = Protection(RESOURCE, [issuer.issuer], verifier, {"notes:read"})
        async with served_over_http(Server("s"), authorization=protection) as web:
            for _ in range(3):
                assert (await bearer(web, "opaque").post(modern_call("x"))).status == 404  # the server has no tools
        assert issuer.asked == [METADATA, "/introspect"]
        encoded = issuer.heads[1]["authorization"].removeprefix("Basic ")
        assert base64.b64decode(encoded) == b"my%3Aid:s%25cret"
        assert issuer.introspections == ["token=opaque&token_type_hint=access_token"]


@pytest.mark.parametrize(
    "claims",
    [
        {"active": False}, {"active": "true"}, {"active": 1}, {"active": None}, {"aud": "https://other.example"},
        {"aud": None}, {"iss": "https://evil.example"}, {"nbf": 1e11}, {"exp": "soon"},
        {"sub": None, "client_id": None},
    ],
)  # fmt: skip
async def test_introspection_refuses_a_token_that_is_not_active_here(claims: Object) -> None:
    async with key_server() as issuer:
        issuer.introspected["opaque"] = active(**claims)  # with an end from now, not from the import
        assert await introspection(issuer)("opaque") is None


async def test_introspection_audiences_replace_the_resource() -> None:
    async with key_server() as issuer:
        issuer.introspected["opaque"] = active(aud="notes")
        assert await introspection(issuer, audiences={"notes"})("opaque") is not None


@pytest.mark.attack("A1")
async def test_introspection_of_two_servers_lets_each_check_its_own_audience() -> None:
    async with key_server() as issuer:
        issuer.introspected["opaque"] = active()
        shared = Introspection(issuer.issuer, "my:id", "s%cret")
        resources = (RESOURCE, "http://127.0.0.1/other")
        own, other = (or_none(shared.for_server(resource, [issuer.issuer])) for resource in resources)
        found = await asyncio.gather(own("opaque"), other("opaque"))
        assert found[0] is not None and found[1] is None


@pytest.mark.parametrize(
    "misbehave",
    [failing(401), failing(500), failing(307, ("Location", "/elsewhere")), saying(b"{"), saying(b"[]"), dripping],
)
async def test_introspection_out_of_reach_is_503(misbehave: Misbehave, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifiers, "FETCH_SECONDS", 0.2)
    async with key_server() as issuer:
        issuer.documents["/introspect"] = misbehave
        with pytest.raises(VerificationUnavailable):
            await introspection(issuer)("opaque")
        issuer.metadata = {"introspection_endpoint": ""}
        with pytest.raises(VerificationUnavailable, match="are out of reach"):
            await introspection(issuer)("opaque")
        assert "/elsewhere" not in issuer.asked


async def test_introspection_of_too_many_tokens_at_a_time_is_503() -> None:
    async with key_server() as issuer:
        go = asyncio.Event()

        async def slow(exchange: object) -> None:
            await go.wait()
            await send(exchange, {"active": False})  # type: ignore[arg-type]

        verify = introspection(issuer)
        await verify("first")
        issuer.documents["/introspect"] = slow
        running = [asyncio.ensure_future(verify(f"invented {number}")) for number in range(MAX_INTROSPECTIONS)]
        await asyncio.sleep(0)
        with pytest.raises(VerificationUnavailable):
            await verify("one more")
        running.append(asyncio.ensure_future(verify("invented 0")))  # waits for the first one
        go.set()
        assert await asyncio.gather(*running) == [None] * (MAX_INTROSPECTIONS + 1)
        assert issuer.asked.count("/introspect") == 1 + MAX_INTROSPECTIONS
        assert await verify("later") is None


def test_introspection_of_an_issuer_that_is_not_configured_is_an_error() -> None:
    with pytest.raises(ValueError, match="issuers must contain"):
        Protection("https://a.example", ["https://b.example"], Introspection("https://c.example", "id", "s"))


# ------------------------------------------------------------------------------------------------ secrets


@pytest.mark.attack("A14")
async def test_tokens_and_secrets_are_in_no_log_trace_or_repr(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    asyncio.get_running_loop().set_debug(True)
    async with key_server() as issuer:
        tokens = [*[*attacks(issuer).values()][::4], issuer.token(), "marker-opaque"]
        server = Server("s", trace=tracer())
        issuer.introspected["marker-opaque"] = active(aud="https://other.example", username="marker-name")
        jwt = Protection(RESOURCE, [issuer.issuer], JwtVerifier())
        asking = Protection(RESOURCE, [issuer.issuer], Introspection(issuer.issuer, "id", "marker-secret"))
        bodies = []
        for protection in (jwt, asking):
            for path in ("", "/jwks", "/introspect"):
                issuer.documents = {path: failing(500)} if path else {}
                async with served_over_http(server, authorization=protection) as web:
                    bodies += [await bearer(web, token).post(modern_call("x")) for token in tokens]
        seen = "".join([caplog.text, *capsys.readouterr(), *(f"{reply.headers}{reply.body!r}" for reply in bodies)])
        seen += f"{jwt!r}{asking!r}{vars(jwt)!r}"
    assert "marker" not in seen
    signatures = {token.rpartition(".")[2] for token in tokens if len(token) > 40} - {"", "x"}
    assert not [one for one in signatures if one in seen]
