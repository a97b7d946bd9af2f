"""A protected server for tests, and a verifier whose tokens are names in a table."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from mcp_ref import Context, Principal, Protection, Server, TextContent
from mcp_ref.basic.authorization.challenges import Challenge, parse_challenges
from mcp_ref.jsonrpc.messages import JSON
from tests.messages import Received, request, stateless_request
from tests.raw_http_client import RawSession, Reply, ServedApp, call

RESOURCE = "https://mcp.example/mcp"
ISSUER = "https://auth.example"
DOCUMENT = "https://mcp.example/.well-known/oauth-protected-resource/mcp"
WELL_KNOWN = "/.well-known/oauth-protected-resource"


class Tokens:
    """A verifier. A token is a name; `grant` adds one.

    Args:
        names: Tokens without scopes.
        scoped: Tokens with their scopes.
    """

    def __init__(self, *names: str, **scoped: Sequence[str]) -> None:
        self.known: dict[str, Principal] = {}
        self.asked: list[str] = []
        for token, scopes in {**dict.fromkeys(names, ()), **scoped}.items():
            self.grant(token, *scopes)

    def grant(self, token: str, *scopes: str, subject: str = "alice", **changes: object) -> str:
        """Add a token for one hour, and return it."""
        given = Principal(ISSUER, subject, "client", frozenset(scopes), {}, time.time() + 3600, {RESOURCE})
        self.known[token] = replace(given, **changes)  # type: ignore[arg-type]
        return token

    async def __call__(self, token: str) -> Principal | None:
        self.asked.append(token)
        return self.known.get(token)


def protection(tokens: Tokens, *scopes: str, **options: object) -> Protection:
    """Return a protection whose tokens are in a table."""
    return Protection(RESOURCE, [ISSUER], tokens, scopes, **options)  # type: ignore[arg-type]


def notes() -> tuple[Server, list[str]]:
    """Return a server with a tool, a resource, a template and a prompt for each scope, and the list of their calls."""
    server, calls = Server("notes"), list[str]()

    @server.tool()
    async def whoami(context: Context) -> TextContent:
        calls.append("whoami")
        return TextContent(context.principal.subject if context.principal else "nobody")

    @server.tool(scopes={"notes:write"})
    async def add() -> TextContent:
        calls.append("add")
        return TextContent("added")

    @server.tool()
    async def remove(number: int, context: Context) -> TextContent:
        if number < 0:
            await context.log("info", "a notification opens the stream")
        context.require("notes:admin")
        calls.append("remove")
        return TextContent("removed")

    @server.tool()
    def remove_in_thread(context: Context) -> TextContent:
        context.require("notes:admin")
        return TextContent("removed")

    @server.resource("notes://secret", scopes={"notes:secret"})
    async def secret() -> str:
        calls.append("secret")
        return "secret"

    @server.resource("notes://team/{name}", scopes={"notes:team"})
    async def team(name: str) -> str:
        return name

    @server.resource("notes://open")
    async def opened(context: Context) -> str:
        return "open"

    @server.prompt(scopes={"notes:prompt"})
    async def plan(topic: str) -> str:
        return topic

    @server.completion("plan", "topic")
    async def topics(value: str) -> list[str]:
        calls.append("topics")
        return ["work"]

    @server.completion("notes://team/{name}", "name")
    async def names(value: str) -> list[str]:
        calls.append("names")
        return ["blue"]

    return server, calls


def bearer(web: ServedApp, token: str | None) -> RawSession:
    """Return a client that sends this token."""
    return RawSession(web, authorization=f"Bearer {token}" if token is not None else None)


def challenges(reply: Reply) -> list[Challenge]:
    """Return the challenges of a response."""
    return parse_challenges([reply.headers["www-authenticate"]])


def challenge(reply: Reply) -> Challenge:
    """Return the only challenge of a response."""
    [found] = challenges(reply)
    assert found.scheme == "bearer" and found.parameters["resource_metadata"] == DOCUMENT
    return found


def modern_call(tool: str, **arguments: JSON) -> Received:
    """Return a stateless request that calls a tool."""
    return stateless_request("tools/call", {"name": tool, "arguments": arguments})


def legacy_call(tool: str, **arguments: JSON) -> Received:
    """Return a request of a session that calls a tool."""
    return call(tool, 1, **arguments)


def read(uri: str) -> Received:
    """Return a request that reads a resource."""
    return request("resources/read", {"uri": uri})
