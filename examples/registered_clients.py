"""The clients of `authorization_server.py`: registration, and proof of identity.

New here: a client has a `client_id`, and the redirect URIs at which it receives responses. An authorization server gets
to know a client in three ways:

    the operator adds it               a nightly job, which acts for itself and has a secret or a key
    it sends a registration            Dynamic Client Registration: anybody can register, under any name
    its client_id is an https URL      Client ID Metadata Document: the server fetches the metadata from there, so the
                                       owner of the domain vouches for them

At /token, a *confidential* client proves its identity with a secret or a signature. A program on the user's machine
cannot keep a secret from its user, so it is a *public* client: it proves nothing, and PKCE protects its codes.

    python3 examples/registered_clients.py              prints the terms of a registration
    python3 examples/protected_client.py --alone        prints all requests, including the registration

Watch it fail: the response to this client would cross a network without encryption.

    python3 examples/registered_clients.py http://app.example/callback

Spec:  2026-07-28 basic/authorization/client-registration; 2026-07-28
       basic/authorization/security-considerations#client-id-metadata-document-security; RFC 7591 (registration),
       RFC 7523 (private_key_jwt), RFC 6749 2.3 (secrets), Client ID Metadata Document (draft 00)
"""

import asyncio
import base64
import hmac
import json
import re
import secrets
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import parse_qsl, unquote_plus

from mcp_ref.basic.authorization.addresses import Reach, reach_of
from mcp_ref.lib.http.client import HttpClient
from mcp_ref.lib.http.response import HttpError
from mcp_ref.lib.jose.keys import JSON, PublicKey, parse_key_set, parse_object
from mcp_ref.lib.jose.tokens import check_claims, parse_jws, verify
from mcp_ref.lib.text import hidden_characters

MAX_ENTRIES = 1000
"""Maximum number of entries of each table."""
MAX_DOCUMENT = 5 * 1024
"""Maximum size of a client metadata document, in bytes."""
FETCH_SECONDS = 5
"""Time to fetch a client metadata document, in seconds."""
METHODS = ("none", "client_secret_basic", "client_secret_post", "private_key_jwt")
PLAIN = re.compile(r"[!\"$-~]{1,500}")  # ASCII without spaces and "#"
LOOPBACK = re.compile(r"http://(127\.0\.0\.1|\[::1\]|localhost)(:\d{1,5})?(?=/|$)", re.ASCII)
WEB_URL = re.compile(r"https://[a-z0-9.-]+(:\d{1,5})?(?=/)(?!.*/\.\.?(/|$))", re.ASCII)  # no credentials, no `/../`
Value = TypeVar("Value")
Fetch = Callable[[str], Awaitable[tuple[bytes, float]]]


class Refused(Exception):
    """A refusal: an error code of OAuth, and a text for the developer of the client."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """A client. The defaults fit a program that the operator adds, and that acts for itself."""

    id: str
    name: str
    redirect_uris: tuple[str, ...] = ()
    grant_types: tuple[str, ...] = ("client_credentials",)
    method: str = "client_secret_basic"  # the way to prove its identity
    secret: str = field(default="", repr=False)
    keys: tuple[PublicKey, ...] = ()

    def accepts(self, redirect_uri: str) -> bool:
        """Return True if a redirect URI is registered. On loopback any port will do: the program takes a free one."""
        # [2026-07-28 basic/authorization/security-considerations#open-redirection] exact; [RFC 8252 7.3] for any port
        registered = [LOOPBACK.sub(r"http://\1", uri) for uri in self.redirect_uris]  # without the ports
        return LOOPBACK.sub(r"http://\1", redirect_uri) in registered

    def terms(self) -> dict[str, JSON]:
        """Return the response to the registration of this client."""
        secret: dict[str, JSON] = {"client_secret": self.secret, "client_secret_expires_at": 0} if self.secret else {}
        return {
            "client_id": self.id,
            "client_name": self.name,
            "redirect_uris": [*self.redirect_uris],
            "grant_types": [*self.grant_types],
            "response_types": ["code"],
            "token_endpoint_auth_method": self.method,
            **secret,
        }


def store(table: dict[str, Value], key: str, value: Value) -> None:
    """Put an entry into a table. Delete the oldest entry if the table is full."""
    table[key] = value
    if len(table) > MAX_ENTRIES:
        del table[next(iter(table))]


def same(one: str, other: str) -> bool:
    """Return True if two secrets are equal. The time that this takes does not reveal where they differ."""
    return hmac.compare_digest(one.encode(), other.encode())


def parse_form(text: str) -> dict[str, str]:
    """Return the parameters of a query or form."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=50)
    except ValueError:
        raise Refused("invalid_request", "the parameters cannot be parsed") from None
    if len(dict(pairs)) < len(pairs):  # another program could read the other value
        raise Refused("invalid_request", "a parameter occurs twice")
    return dict(pairs)


def parse_client(id: str, found: Mapping[str, JSON]) -> OAuthClient:
    """Return the client that a registration or a document describes. Raise Refused for unusable metadata."""
    uris, kinds = found.get("redirect_uris"), found.get("grant_types", ["authorization_code"])
    name, method = found.get("client_name", id), found.get("token_endpoint_auth_method", "client_secret_basic")
    if not isinstance(name, str) or not isinstance(kinds, list) or method not in METHODS:
        raise Refused("invalid_client_metadata", f"wrong client_name, grant_types or method ({', '.join(METHODS)})")
    if hidden_characters(name, keep=""):
        raise Refused("invalid_client_metadata", "client_name has hidden characters, which could garble the page")
    redirect_uris = tuple(str(uri) for uri in uris) if isinstance(uris, list) and len(uris) <= 10 else ()
    # [2026-07-28 basic/authorization/security-considerations#communication-security] MUST be localhost or https
    are_usable = [PLAIN.fullmatch(uri) and (LOOPBACK.match(uri) or WEB_URL.match(uri)) for uri in redirect_uris]
    if not redirect_uris or not all(are_usable):
        raise Refused("invalid_redirect_uri", "redirect_uris must be 1 to 10 URIs: https, or http on loopback")
    if found.get("application_type") == "web" and any(map(LOOPBACK.match, redirect_uris)):
        raise Refused("invalid_redirect_uri", "a client on the user's machine must have application_type native")
    try:
        keys = parse_key_set(json.dumps(found.get("jwks")).encode()) if method == "private_key_jwt" else ()
    except ValueError as error:
        raise Refused("invalid_client_metadata", f"private_key_jwt needs the public keys in jwks: {error}") from None
    # Only clients that the operator adds get tokens without a user, so nobody can register for client_credentials.
    grant_types = tuple(kind for kind in ("authorization_code", "refresh_token") if kind in kinds)
    secret = secrets.token_urlsafe(32) if "secret" in str(method) else ""
    return OAuthClient(id, name[:80], redirect_uris, grant_types, str(method), secret, keys)


async def fetch_document(url: str) -> tuple[bytes, float]:
    """Return the client metadata document at a URL, and the time until which it is valid."""
    # [2026-07-28 basic/authorization/security-considerations#authorization-server-abuse-protection] The client chooses
    # the URL. Refuse redirects and private addresses, or it could make this server request URLs of our network (SSRF).
    async with (
        asyncio.timeout(FETCH_SECONDS),
        HttpClient(proxies={}) as http,
        http.request("GET", url, redirects=0, may_connect=lambda ip: reach_of(ip) is Reach.INTERNET) as response,
    ):
        if response.status != 200:
            raise ValueError(f"status {response.status}")
        age = re.search(r"\bmax-age=(\d{1,5})\b", response.headers.get("cache-control") or "")
        return await response.read(MAX_DOCUMENT), time.time() + (int(age[1]) if age else 0)


class Clients:
    """The known clients. `fetch` returns client metadata documents. Without it, a client id cannot be a URL."""

    def __init__(self, fetch: Fetch | None = None) -> None:
        self.fetch = fetch
        self.registered: dict[str, OAuthClient] = {}
        self.documents: dict[str, tuple[OAuthClient, float]] = {}
        self.used: dict[str, None] = {}  # the ids of signed assertions

    def register(self, body: bytes) -> OAuthClient:
        """Register a client."""
        try:
            client = parse_client(secrets.token_urlsafe(12), parse_object(body))
        except ValueError as error:
            raise Refused("invalid_client_metadata", str(error)) from None
        self.add(client)
        return client

    def add(self, client: OAuthClient) -> None:
        """Add a client of the operator, for example `OAuthClient("job", "Nightly job", secret="...")`."""
        store(self.registered, client.id, client)

    async def find(self, id: str) -> OAuthClient:
        """Return the client with an id. Raise Refused for an unknown client."""
        if id in self.registered:
            return self.registered[id]
        client, ends = self.documents.get(id, (None, 0.0))
        if client is not None and time.time() < ends:
            return client
        if self.fetch is None or not PLAIN.fullmatch(id) or not WEB_URL.match(id):
            raise Refused("invalid_client", "this client_id is unknown: register again")
        try:
            text, ends = await self.fetch(id)
            found = parse_object(text)
        except (OSError, HttpError, ValueError) as error:
            raise Refused("invalid_client", f"the client metadata document cannot be read: {error}") from None
        # [2026-07-28 basic/authorization/client-registration#implementation-requirements] MUST match the URL exactly
        if found.get("client_id") != id or "client_name" not in found:
            raise Refused("invalid_client", "the document must have its own URL as client_id, and a client_name")
        client = parse_client(id, {"token_endpoint_auth_method": "none"} | found)
        if client.secret:  # a document is public
            raise Refused("invalid_client", "a client with a document has the method none or private_key_jwt")
        store(self.documents, id, (client, ends))
        return client

    async def authenticate(self, header: str | None, form: Mapping[str, str], issuer: str) -> OAuthClient:
        """Return the client that sent a form to /token or /revoke. Raise Refused without proof of its identity."""
        id, proof, method = form.get("client_id", ""), form.get("client_secret", ""), "none"
        try:
            if header is not None:
                id, _, proof = base64.b64decode(header.removeprefix("Basic "), validate=True).decode().partition(":")
                id, proof, method = unquote_plus(id), unquote_plus(proof), "client_secret_basic"
            elif "client_assertion" in form:
                proof, method = form["client_assertion"], "private_key_jwt"
                id = str(parse_object(parse_jws(proof).payload).get("sub"))
            elif proof:
                method = "client_secret_post"
            client = await self.find(id)
            # Accept only the registered method, or an empty secret would pass for a client that has a key instead.
            if method != client.method or form.get("client_id", id) != id:
                raise ValueError(f"this client must use {client.method}")
            if method == "private_key_jwt":
                self.check_assertion(proof, client, issuer)
            elif not same(proof, client.secret):
                raise ValueError("the secret is wrong")
        except ValueError as error:
            raise Refused("invalid_client", f"the client has not proven its identity: {error}") from None
        return client

    def check_assertion(self, assertion: str, client: OAuthClient, issuer: str) -> None:
        """Check a token that the client has signed, for this server, for one request. [RFC 7523 3]"""
        jws = parse_jws(assertion, {"ES256"}, {None, "jwt"})
        claims = parse_object(jws.payload)
        check_claims(claims, {client.id}, {issuer}, time.time())
        verify(jws, client.keys)
        id = claims.get("jti")
        if not isinstance(id, str) or id in self.used:
            raise ValueError("the assertion has no jti, or was used before")
        store(self.used, id, None)


if __name__ == "__main__":
    uri = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:4711/callback"
    try:
        client = Clients().register(json.dumps({"client_name": "Notes", "redirect_uris": [uri]}).encode())
    except Refused as refusal:
        sys.exit(f"{refusal.code}: {refusal}")
    print(json.dumps(client.terms(), indent=4))
