"""protected_client.py ERA URL PASSWORD: a client of a protected server, made with the installed library.

The library is FastMCP, or the official Python SDK 2.x. ERA is `legacy`, or `auto` for the newest revision. The script
plays the browser: it posts the consent form. Prints one JSON object.
"""

import asyncio
import json
import sys
import time
import webbrowser
from contextlib import asynccontextmanager
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

import httpx2
from browser import consent
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

try:
    import fastmcp
    from fastmcp.client.auth import OAuth
except ImportError:
    from mcp import Client

ERA, URL, PASSWORD = sys.argv[1:]


class Storage:
    """Tokens and client id, in memory."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client: OAuthClientInformationFull) -> None:
        self.client = client


def sdk_provider() -> OAuthClientProvider:
    callbacks: list[str] = []

    async def redirect(url: str) -> None:
        callbacks.append(await asyncio.to_thread(consent, url, PASSWORD))

    async def callback() -> AuthorizationCodeResult:
        query = parse_qs(urlsplit(callbacks.pop()).query)
        return AuthorizationCodeResult(**{name: query[name][0] for name in ("code", "state", "iss")})

    metadata = OAuthClientMetadata(client_name="sdk", redirect_uris=["http://127.0.0.1:3333/callback"])
    return OAuthClientProvider(URL, metadata, Storage(), redirect, callback)


@asynccontextmanager
async def sdk_client(provider: OAuthClientProvider) -> Any:
    async with (
        httpx2.AsyncClient(auth=provider, timeout=20) as http,
        Client(streamable_http_client(URL, http_client=http), mode=ERA) as client,
    ):
        yield client


def browse(url: str) -> bool:
    """Open a URL, sign in, and go to the program's callback server as soon as it listens."""

    def visit() -> None:
        callback = consent(url, PASSWORD)
        for _ in range(200):
            try:
                with urlopen(callback, timeout=10) as page:
                    page.read()
                return
            except OSError:
                time.sleep(0.05)

    Thread(target=visit, daemon=True).start()
    return True


async def main() -> dict[str, Any]:
    if "fastmcp" in sys.modules:
        webbrowser.open = browse  # type: ignore[assignment]
        provider: OAuthClientProvider = OAuth(URL)
        connection = fastmcp.Client(URL, auth=provider, **({"mode": "legacy"} if ERA == "legacy" else {}))
    else:
        provider = sdk_provider()
        connection = sdk_client(provider)
    async with connection as client:
        texts = [text(await client.call_tool("read_notes", {}))]
        texts.append(text(await client.call_tool("add_note", {})))
        provider.context.token_expiry_time = time.time() - 1  # as if the token's time were over
        texts.append(text(await client.call_tool("read_notes", {})))
        return {"revision": client.protocol_version, "texts": texts}


def text(result: Any) -> str:
    [block] = result.content
    return str(block.text)


print(json.dumps(asyncio.run(main())))
