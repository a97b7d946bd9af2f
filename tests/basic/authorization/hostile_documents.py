"""Hostile metadata and key sets, and the two programs that request them: a client, and a protected MCP server.

    python3 -m tests.basic.authorization.hostile_documents client BASE     tries to sign in, and prints a report
    python3 -m tests.basic.authorization.hostile_documents server BASE     serves MCP, and prints its memory

The test that starts the programs serves the documents, so their size is in another process.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from mcp_ref import AuthorizationCode, AuthorizationError, Client, JwtVerifier, Protection, Server
from mcp_ref.basic.authorization import authorization_server_discovery, verifiers
from mcp_ref.basic.authorization.challenges import write_challenge
from mcp_ref.jsonrpc.messages import JSON, Object
from mcp_ref.lib.http.message import Exchange
from mcp_ref.lib.http.server import start_server
from mcp_ref.lib.jose.keys import encode_base64url, make_private_key
from tests.basic.authorization.key_server import RESOURCE, Misbehave, dripping, saying, send

DOCUMENT_SECONDS = 0.2
"""Time that both programs give a peer for a document, in seconds. It replaces the 5 s of the package."""
ROUNDS = 2
"""Number of times that each program meets each attack."""

HARMLESS = "harmless"
"""The name of documents that lead to an error, too, but need little memory: they have no keys and no PKCE."""
Attack = Callable[[Object], Misbehave]
"""A function from a good document to a hostile response."""


def rsa_key(modulus: int, exponent: int) -> Object:
    """Return an RSA key with these numbers."""
    numbers = {name: encode_base64url(number.to_bytes((number.bit_length() + 7) // 8))
               for name, number in (("n", modulus), ("e", exponent))}  # fmt: skip
    return {"kty": "RSA", "kid": "1", **numbers}


def _with_text(text: str) -> Attack:
    return lambda document: saying(json.dumps(document).removesuffix("}").encode() + f', "x": {text}}}'.encode())


def _with_keys(*keys: JSON) -> Attack:
    return lambda document: saying(json.dumps({"keys": [*keys]}).encode())


async def flooding(exchange: Exchange) -> None:
    """Send a text of 10 MB without its length."""
    response = exchange.stream(200, [("Content-Type", "application/json")])
    for _ in range(160):
        response.write(b" " * 64 * 1024)
        await response.drain()


DOCUMENTS: dict[str, Attack] = {
    "size": _with_text(f'"{"x" * 10_000_000}"'),
    "scopes": _with_text('0, "scopes_supported": [' + '"a", ' * 10**6 + '"a"]'),
    "depth": _with_text("[" * 10_000 + "]" * 10_000),
    "flood": lambda document: flooding,
    "drip": lambda document: dripping,
}
"""The attacks of all documents, by name."""
_KEY: Object = {**make_private_key().public.members}
KEY_SETS: dict[str, Attack] = {
    **DOCUMENTS,
    "number": _with_keys(*[{**_KEY, "kid": str(number)} for number in range(1_000)]),
    "modulus": _with_keys(rsa_key((1 << 65_535) + 1, 65_537)),
    "exponent": _with_keys(rsa_key((1 << 2_047) + 1, (1 << 2_000) + 1)),
}
"""The attacks of key sets."""
PLACES = {"resource": DOCUMENTS, "issuer": DOCUMENTS, "keys": KEY_SETS}
"""The three documents that a peer chooses: protected resource metadata, issuer metadata, and keys."""


@contextlib.asynccontextmanager
async def hostile_documents() -> AsyncIterator[str]:
    """Serve all documents, and yield the origin. `/PLACE/ATTACK` is the path of an MCP server and of its issuer."""

    async def respond(exchange: Exchange) -> None:
        # `/PLACE/ATTACK`, perhaps after the name of a document, as in `/.well-known/NAME/PLACE/ATTACK`
        segments = exchange.request.path.split("/")[1:]
        name, place, attack = ["", "", *segments][-3:]
        url = f"{base}/{place}/{attack}"
        documents: dict[str, tuple[str, Object]] = {
            "oauth-protected-resource": ("resource", {"resource": url, "authorization_servers": [url]}),
            "oauth-authorization-server": ("issuer", {"issuer": url, "jwks_uri": f"{base}/jwks/keys/{attack}"}),
            "jwks": ("keys", {"keys": []}),
        }
        if name not in documents:
            challenge = write_challenge("Bearer", resource_metadata="", scopes=["a"], error="")
            return await send(exchange, {}, 404 if place == ".well-known" else 401, ("WWW-Authenticate", challenge))
        kind, document = documents[name]
        if kind != place or attack == HARMLESS:
            return await send(exchange, document)
        await PLACES[place][attack](document)(exchange)

    async with await start_server(respond) as listening:
        base = f"http://127.0.0.1:{listening.address[1]}"
        yield base


def peak_memory() -> int:
    """Return the largest size of this process's resident memory so far, in bytes."""
    # Linux: the peak of `getrusage` includes the parent process, from which this process was forked
    if sys.platform == "linux":
        return int(re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[0]) * 1024
    import resource  # Windows has no such module

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


async def run_client(base: str) -> None:
    """Try to sign in at each server, and print the errors, the slowest time, and the growth of the memory."""

    async def never(url: str) -> None:
        raise AssertionError("a hostile document has led to a sign-in")

    async def connect(place: str, attack: str) -> str:
        try:
            async with Client(f"{base}/{place}/{attack}", authorization=AuthorizationCode(open_browser=never)):
                raise AssertionError(f"{place}, {attack}: no error")
        except AuthorizationError as error:
            return str(error)

    authorization_server_discovery.DOCUMENT_SECONDS = DOCUMENT_SECONDS  # type: ignore[misc]
    await connect("issuer", HARMLESS)
    before, slowest, errors = peak_memory(), 0.0, dict[str, str]()
    for place, attack in [(place, attack) for place in ("resource", "issuer") for attack in DOCUMENTS] * ROUNDS:
        began = time.monotonic()
        errors[f"{place} {attack}"] = await connect(place, attack)
        slowest = max(slowest, time.monotonic() - began)
    print(json.dumps({"errors": errors, "slowest": slowest, "growth": peak_memory() - before}))


async def run_server(base: str) -> None:
    """Serve MCP with all issuers, and print the URL. Print the peak of the memory for each line of stdin."""
    verifiers.FETCH_SECONDS, verifiers.RETRY_SECONDS = DOCUMENT_SECONDS, 0.0  # type: ignore[misc]
    issuers = [f"{base}/{place}/{attack}" for place in ("issuer", "keys") for attack in PLACES[place]]
    protection = Protection(RESOURCE, [*issuers, f"{base}/keys/{HARMLESS}"], JwtVerifier())
    async with Server("s").serve_http(port=0, authorization=protection) as url:
        print(url, flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            print(peak_memory(), flush=True)


if __name__ == "__main__":
    asyncio.run({"client": run_client, "server": run_server}[sys.argv[1]](sys.argv[2]))
