"""The names and URIs that clients of a bridge see: with several servers, each contains the name of its server.

    server, its own name or URI          name or URI that clients see
    weather, the tool "forecast"         weather__forecast         as a host names tools for a model (host/names.py)
    docs, the resource note://1          mcp://docs/note://1       the server's URI after a prefix
    docs, the app ui://panel             ui://docs/panel           because MCP Apps need this scheme

A bridge of one server leaves all names and URIs as they are. A bridge of several servers changes every URI, not only
those that two servers have in common. Otherwise a server could claim the URI of another one later. The server's URI is
not encoded in the new one, so a URI template stays a template, and the original is found by removing the prefix.

URIs in texts, structured content and file contents stay, because the bridge cannot know that they are URIs. But a
model passes the URIs that it has seen to tools, so in the arguments of a tool, the bridge changes the URIs of the
tool's server back to the server's own.

Spec:  2026-07-28 server/tools#tool-names, server/resources
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, cast

from ..host.names import model_name, model_names
from ..jsonrpc.errors import ProtocolError
from ..jsonrpc.messages import INVALID_PARAMS, JSON, Object

_AUTHORS_DATA: Final = frozenset(
    {"structuredContent", "text", "blob", "data", "inputSchema", "outputSchema", "toolResult"}
)
"""Members of results that hold the data of the server's author, in which the bridge changes nothing."""
_URI_MEMBERS: Final = frozenset({"uri", "uriTemplate", "resourceUri"})
"""Members of results whose value is a URI, or a template of URIs."""

MAX_NAMES: Final = 10_000
"""Maximum number of remembered names of one server. When it is reached, the next page of a list clears them first."""


def wrapped_uri(server: str, uri: str) -> str:
    """Return the URI that clients of a bridge of several servers see, from the server's own URI."""
    if uri.startswith("ui://"):
        return f"ui://{server}/{uri.removeprefix('ui://')}"
    return f"mcp://{server}/{uri}"


def unwrapped_uri(server: str, uri: str) -> str | None:
    """Return the server's own URI, from a URI that clients see; None for the URI of another server."""
    prefix, app_prefix = f"mcp://{server}/", f"ui://{server}/"
    if uri.startswith(prefix):
        return uri.removeprefix(prefix)
    if uri.startswith(app_prefix):
        return f"ui://{uri.removeprefix(app_prefix)}"
    return None


class Namespace:
    """The names that clients of a bridge see, and the server of each name.

    Args:
        servers: The server names.
        keeps_names: True to leave names and URIs as they are. Only for one server.
    """

    def __init__(self, servers: Iterable[str], keeps_names: bool) -> None:
        self.servers, self.keeps_names = list(servers), keeps_names
        self._own_names: dict[str, dict[str, str]] = {server: {} for server in self.servers}
        """By server: its own name for each name that a list has shown to clients."""

    def prefix(self, server: str) -> str:
        """Return the text to put before a server's message to the user, so that the user sees who has written it."""
        return "" if self.keeps_names else f"[{server}] "

    def split_name(self, name: JSON) -> tuple[str, str]:
        """Return the server of a tool or prompt, and its name there. Raise ProtocolError for an unknown name."""
        if not isinstance(name, str):
            raise ProtocolError(INVALID_PARAMS, "Invalid params: name must be a string")
        if self.keeps_names:
            return self.servers[0], name
        server, _, rest = name.partition("__")  # a server's name has no underscore, so this splits after it
        if server in self._own_names:
            own_names = self._own_names[server]
            if name in own_names:
                return server, own_names[name]  # differs from `rest` if it is too long, or has odd characters
            if model_name(server, rest) == name:  # not listed yet, but `rest` needs no change
                return server, rest
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: unknown name {name[:200]!r}")

    def split_uri(self, uri: JSON) -> tuple[str, str]:
        """Return the server of a resource, and its URI there. Raise ProtocolError if no server fits."""
        if not isinstance(uri, str):
            raise ProtocolError(INVALID_PARAMS, "Invalid params: uri must be a string")
        if self.keeps_names:
            return self.servers[0], uri
        for server in self.servers:
            original = unwrapped_uri(server, uri)
            if original is not None:
                return server, original
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: no server has {uri[:200]!r}", {"uri": uri[:200]})

    def uri_for_client(self, server: str, uri: str) -> str:
        return uri if self.keeps_names else wrapped_uri(server, uri)

    def route(self, method: str, params: Object) -> tuple[str, Object]:
        """Return the server of a request, and the params with the server's own names and URIs.

        The request names a tool or prompt (also in the `ref` of a completion), or it has the URI of a resource.
        """
        if method in ("tools/call", "prompts/get"):
            server, own_name = self.split_name(params.get("name"))
            if self.keeps_names:
                return server, params
            routed: Object = {**params, "name": own_name}
            if "arguments" in params:
                routed["arguments"] = _unwrap_arguments(server, params["arguments"])
            return server, routed
        if method == "completion/complete":
            ref = params.get("ref")
            server, own_ref = self._route_reference(ref if isinstance(ref, dict) else {})
            return server, {**params, "ref": own_ref}
        server, own_uri = self.split_uri(params.get("uri"))
        return server, {**params, "uri": own_uri}

    def _route_reference(self, ref: Object) -> tuple[str, Object]:
        if "name" in ref:
            server, own_name = self.split_name(ref["name"])
            return server, {**ref, "name": own_name}
        server, own_uri = self.split_uri(ref.get("uri"))
        return server, {**ref, "uri": own_uri}

    def result_for_client(self, server: str, result: Object) -> Object:
        """Return a result with the names that clients see."""
        if self.keeps_names:
            return result
        changed = cast(Object, _wrap_members(server, result))
        for member in ("tools", "prompts"):
            definitions = changed.get(member)
            if isinstance(definitions, list):
                changed[member] = self._renamed(server, definitions)
        return changed

    def _renamed(self, server: str, definitions: list[JSON]) -> list[JSON]:
        """Return the tools or prompts that have names, renamed for clients, and with the server in their titles.

        Two of a server's names never get the same name for clients, not even if they come in two pages.
        """
        own_names = self._own_names[server]
        if len(own_names) >= MAX_NAMES:  # a server can rename its tools at each list
            own_names.clear()
        named = [each for each in definitions if isinstance(each, dict) and isinstance(each.get("name"), str)]
        # `model_names` keeps only the names of one call apart, so it also gets the names of earlier pages.
        all_own_names = {*own_names.values(), *(cast(str, each["name"]) for each in named)}
        table = model_names((server, own_name) for own_name in all_own_names)
        name_by_own_name = {own_name: name for name, (_, own_name) in table.items()}
        changed: list[JSON] = []
        for each in named:
            own_name = cast(str, each["name"])
            name = name_by_own_name[own_name]
            title = each.get("title") or own_name
            own_names[name] = own_name
            changed.append({**each, "name": name, "title": f"{title} ({server})"})
        return changed


def _unwrap_arguments(server: str, value: JSON) -> JSON:
    """Return a tool's arguments with the server's own URIs, instead of those that clients see."""
    if isinstance(value, str):
        original = unwrapped_uri(server, value)
        return value if original is None else original
    if isinstance(value, list):
        return [_unwrap_arguments(server, item) for item in value]
    if isinstance(value, dict):
        return {name: _unwrap_arguments(server, member) for name, member in value.items()}
    return value


def _wrap_members(server: str, value: JSON) -> JSON:
    """Return the value with each URI as clients see it, except in the author's data."""
    if isinstance(value, list):
        return [_wrap_members(server, item) for item in value]
    if not isinstance(value, dict):
        return value
    changed: Object = {}
    for name, member in value.items():
        if name in _URI_MEMBERS and isinstance(member, str):
            changed[name] = wrapped_uri(server, member)
        elif name in _AUTHORS_DATA:
            changed[name] = member
        else:
            changed[name] = _wrap_members(server, member)
    return changed
