"""`login`, `logout` and `whoami`: the commands about the user's accounts at servers that require a sign-in.

login https://mcp.example/notes     open a browser, and store the tokens, which replace older ones
whoami https://mcp.example/notes    print issuer, scopes and expiry, but never a token
logout https://mcp.example/notes    revoke and forget the tokens
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Final

from ..basic.authorization.addresses import check_fetchable, resource_metadata_urls
from ..basic.authorization.authorization_server_discovery import PeerRequests
from ..basic.authorization.client import Authorizer, Need
from ..basic.authorization.client_registration import OAuthClient
from ..basic.authorization.errors import TokenRefused
from ..basic.authorization.loopback import open_in_browser
from ..basic.authorization.sign_in import AuthorizationCode, grant_key
from ..basic.authorization.store import FileStore, MemoryStore
from ..basic.authorization.token_endpoint import Grant
from ..extensions.auth.headless import ClientCredentials
from ..jsonrpc.messages import Object
from ..lib.http.client import HttpClient
from ..lib.http.response import HttpError
from . import EXIT_ERROR, EXIT_SIGN_IN, UsageError, show, usage_errors
from .authorization import environment_variable, login_advice
from .client_commands import make_client, parse_server, report_failure, run_and_report

_REDIRECT_URI: Final = "http://127.0.0.1:0/callback"
"""The address to which the browser returns from the sign-in. Port 0 stands for a free port."""


def run_account_command(options: argparse.Namespace) -> int:
    url = parse_server(options.command)
    if not isinstance(url, str):
        raise UsageError(f"{options.name} works only with the URL of a server, which begins with https:// or http://")
    command = {"login": login, "logout": logout, "whoami": whoami}[options.name]
    try:
        with usage_errors():
            check_fetchable(url, url)
            return run_and_report(command(options, url))
    except (OSError, RuntimeError, HttpError) as error:
        return report_failure(EXIT_ERROR, error)  # the store or the network failed, or the user has no home directory


class BufferedStore(MemoryStore):
    """A store for a sign-in that replaces an older one: it buffers all changes until `write`.

    The sign-in can fail until its very end. It may register the client again, but the old grant can only be refreshed
    with the old registration, so nothing may be written before the sign-in succeeds. Until then, the old grant is
    hidden, because the sign-in would refresh it instead of asking the user.
    """

    def __init__(self, store: MemoryStore, url: str) -> None:
        super().__init__()
        self._store = store
        self._changes: dict[str, Object | None] = {grant_key(url): None}  # None: the key is deleted

    async def get(self, key: str) -> Object | None:
        if key in self._changes:
            return self._changes[key]
        return await self._store.get(key)

    async def put(self, key: str, value: Object) -> None:
        self._changes[key] = value

    async def delete(self, key: str) -> None:
        self._changes[key] = None

    @contextlib.asynccontextmanager
    async def lock(self, key: str) -> AsyncIterator[None]:
        async with self._store.lock(key):
            yield

    async def write(self) -> None:
        for key, value in self._changes.items():
            if value is None:
                await self._store.delete(key)
            else:
                await self._store.put(key, value)


def authorizer_of_login(options: argparse.Namespace, store: MemoryStore) -> Authorizer:
    """Return the object that gets tokens as the options of `login` say. Raise ValueError or UsageError.

    A user signs in with a browser, while `--client-secret-env` signs in a program.
    """
    scopes = " ".join(options.scope).split()  # an option can have several scopes with spaces between them
    if options.client_secret_env is None:
        if options.client_id is not None and options.issuer is None:
            raise UsageError("--client-id needs --issuer: a client id belongs to one authorization server")
        return AuthorizationCode(
            store=store, client_id=options.client_id, client_metadata_url=options.client_metadata_url,
            issuer=options.issuer, scopes=scopes, redirect_uri=_REDIRECT_URI,
            open_browser=None if options.no_browser else open_in_browser)  # fmt: skip
    if options.client_id is None:
        raise UsageError("--client-secret-env needs --client-id")
    secret = environment_variable("--client-secret-env", options.client_secret_env)
    return ClientCredentials(options.client_id, secret, issuer=options.issuer, scopes=scopes, store=store)


async def login(options: argparse.Namespace, url: str) -> int:
    """Sign in, even if the user is signed in already, and print the new sign-in.

    A failure leaves the old sign-in as it is. Even a success does not revoke the old tokens, because some authorization
    servers would then revoke all tokens that this user has for this client, including the new ones.
    """
    file = FileStore()
    store: MemoryStore = file
    if await AuthorizationCode(store=file).stored(url) is not None:  # else write at once, so a retry need not register
        store = BufferedStore(file, url)
    authorizer = authorizer_of_login(options, store)
    async with make_client(options, authorizer):  # a server that refuses to connect without a token makes us sign in
        grant = authorizer.server(url).grant
    if grant is None:
        grant = await sign_in_after_connecting(authorizer, url)
    if grant is None:
        show.note(f"{url} needs no sign-in: it serves clients without a token, and names no authorization server")
        return 0
    if isinstance(authorizer, ClientCredentials):  # unlike AuthorizationCode, it has not stored its grant
        await store.put(grant_key(url), grant.to_json())
    elif options.client_id or options.client_metadata_url == grant.client_id:
        # The client id is from the options, so no registration has stored it, but a refresh of the tokens needs it.
        client = OAuthClient(grant.client_id, "", grant.auth_method, (_REDIRECT_URI,))
        await store.put(f"client|{grant.issuer}", client.to_json())
    if isinstance(store, BufferedStore):
        await store.write()
    show_grant(url, grant)
    return 0


async def sign_in_after_connecting(authorizer: Authorizer, url: str) -> Grant | None:
    """Sign in at a server that lets a client connect without a token, and needs tokens only for some methods.

    Return None if the server has no resource metadata, which would name its authorization server.
    """
    async with HttpClient() as http:
        peers = PeerRequests(http, url)
        for metadata_url in resource_metadata_urls(url):
            async with http.request("GET", metadata_url, redirects=0) as response:  # or another server could respond
                peers.address = response.address or ""  # its network limits where its metadata may lead us
            if response.status == 200:
                return await authorizer.obtain(Need(peers))
    return None


async def logout(options: argparse.Namespace, url: str) -> int:
    """Revoke and forget the tokens for a URL."""
    signed_out = True
    async with HttpClient() as http:
        try:
            signed_out = await AuthorizationCode(store=FileStore()).sign_out(url, http)
        except TokenRefused as error:
            show.note(f"the tokens are forgotten here, but some of them stay valid until they expire: {error}")
    show.note(f"{url}: {'signed out' if signed_out else 'you were not signed in'}")
    return 0


async def whoami(options: argparse.Namespace, url: str) -> int:
    """Print the stored sign-in at a server, without its tokens."""
    grant = await AuthorizationCode(store=FileStore()).stored(url)
    if grant is None:
        show.note(f"you are not signed in to {url}\n{login_advice(url)}")
        return EXIT_SIGN_IN
    show_grant(url, grant)
    return 0


def show_grant(url: str, grant: Grant) -> None:
    """Print who has issued the tokens, for which client and scopes, and when they expire."""
    show.out(f"server   {url}\nissuer   {grant.issuer}\nclient   {grant.client_id}\nscopes   {' '.join(grant.scopes)}")
    show.out(f"expires  {expiry_text(grant)}")


def expiry_text(grant: Grant) -> str:
    """Return when the access token expires, in local time, and what happens then."""
    if not grant.is_fresh(0):
        return "already, refreshed at the next use" if grant.refresh_token else "already: sign in again"
    text = "unknown"
    if grant.expires_at is not None:
        seconds_left = grant.expires_at - time.monotonic()
        text = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time.time() + seconds_left))
    return f"{text}, then refreshed" if grant.refresh_token else text
