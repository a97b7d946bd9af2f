"""The names and URIs of a bridge: unchanged for one server, and with the name of the server for several.

    tools and prompts   weather__forecast              the model name of a host (host/names.py)
    resources           mcp://docs/note://1            the URI of the server after a literal prefix
                        ui://docs/panel                for `ui://panel`, because MCP Apps need this scheme

A bridge of several servers changes every URI, not only those that two servers have. Otherwise a server could claim the
URI of another one later. A template stays a template, and nothing is encoded, so the original is always found again.
Texts, structured content and file contents are not changed. If an argument of a tool is a changed URI of the tool's
server, it is changed back, because a model passes on the URIs that it has seen.

Spec:  2026-07-28 server/tools#tool-names, server/resources
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, cast

from ..host.names import model_name, model_names
from ..jsonrpc.errors import ProtocolError
from ..jsonrpc.messages import INVALID_PARAMS, JSON, Object

_UNCHANGED: Final = frozenset(
    {"structuredContent", "text", "blob", "data", "inputSchema", "outputSchema", "toolResult"}
)
_URI_MEMBERS: Final = frozenset({"uri", "uriTemplate", "resourceUri"})

MAX_NAMES: Final = 10_000
"""Maximum number of remembered names of one server. At this number, the next page of a list replaces them all."""


def wrapped_uri(server: str, uri: str) -> str:
    """Return the URI that clients of a bridge of several servers see."""
    if uri.startswith("ui://"):
        return f"ui://{server}/{uri.removeprefix('ui://')}"
    return f"mcp://{server}/{uri}"


def unwrapped_uri(server: str, uri: str) -> str | None:
    """Return the server's own URI, or None for the URI of another server."""
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
        is_plain: True to leave names and URIs as they are. Only for one server.
    """

    def __init__(self, servers: Iterable[str], is_plain: bool) -> None:
        self.servers, self.is_plain = list(servers), is_plain
        self._names: dict[str, dict[str, str]] = {server: {} for server in self.servers}
        """By server: the names that lists have shown, with the server's own names."""

    def prefix(self, server: str) -> str:
        """Return the text before a message to the user, so that the user sees which server has written it."""
        return "" if self.is_plain else f"[{server}] "

    def split_name(self, name: JSON) -> tuple[str, str]:
        """Return the server of a tool or prompt, and its name there. Raise ProtocolError for an unknown name."""
        if not isinstance(name, str):
            raise ProtocolError(INVALID_PARAMS, "Invalid params: name must be a string")
        if self.is_plain:
            return self.servers[0], name
        server, _, original = name.partition("__")  # a server's name has no underscore, so this splits after it
        shown = self._names.get(server)
        if shown is not None and name in shown:
            return server, shown[name]
        if shown is not None and model_name(server, original) == name:
            return server, original
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: unknown name {name[:200]!r}")

    def split_uri(self, uri: JSON) -> tuple[str, str]:
        """Return the server of a resource, and its URI there. Raise ProtocolError if no server fits."""
        if not isinstance(uri, str):
            raise ProtocolError(INVALID_PARAMS, "Invalid params: uri must be a string")
        if self.is_plain:
            return self.servers[0], uri
        for server in self.servers:
            original = unwrapped_uri(server, uri)
            if original is not None:
                return server, original
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: no server has {uri[:200]!r}", {"uri": uri[:200]})

    def uri_for_client(self, server: str, uri: str) -> str:
        return uri if self.is_plain else wrapped_uri(server, uri)

    def route(self, method: str, params: Object) -> tuple[str, Object]:
        """Return the server of a request, and the params with the server's own names."""
        if method in ("tools/call", "prompts/get"):
            server, original = self.split_name(params.get("name"))
            if self.is_plain:
                return server, params
            routed: Object = {**params, "name": original}
            if "arguments" in params:
                routed["arguments"] = _unwrap_arguments(server, params["arguments"])
            return server, routed
        if method == "completion/complete":
            ref = params.get("ref")
            ref = ref if isinstance(ref, dict) else {}
            if "name" in ref:
                server, original = self.split_name(ref["name"])
                return server, {**params, "ref": {**ref, "name": original}}
            server, original = self.split_uri(ref.get("uri"))
            return server, {**params, "ref": {**ref, "uri": original}}
        server, original = self.split_uri(params.get("uri"))
        return server, {**params, "uri": original}

    def result_for_client(self, server: str, result: Object) -> Object:
        """Return a result with the names that clients see."""
        if self.is_plain:
            return result
        changed = cast(Object, _wrap_members(server, result))
        for member in ("tools", "prompts"):
            definitions = changed.get(member)
            if isinstance(definitions, list):
                changed[member] = self._named(server, definitions)
        return changed

    def _named(self, server: str, definitions: list[JSON]) -> list[JSON]:
        """Return the tools or prompts that have names, with their names for clients and the server in their titles.

        Two of a server's names never get the same name for clients, not even if they come in two pages.
        """
        shown = self._names[server]
        if len(shown) >= MAX_NAMES:  # a server can rename its tools at each list
            shown.clear()
        named = [each for each in definitions if isinstance(each, dict) and isinstance(each.get("name"), str)]
        originals = {*shown.values(), *(cast(str, each["name"]) for each in named)}
        by_name = model_names((server, original) for original in originals)
        names = {original: name for name, (_, original) in by_name.items()}
        changed: list[JSON] = []
        for each in named:
            original = cast(str, each["name"])
            shown[names[original]] = original
            changed.append({**each, "name": names[original], "title": f"{each.get('title') or original} ({server})"})
        return changed


def _unwrap_arguments(server: str, value: JSON) -> JSON:
    if isinstance(value, str):
        original = unwrapped_uri(server, value)
        return value if original is None else original
    if isinstance(value, list):
        return [_unwrap_arguments(server, item) for item in value]
    if isinstance(value, dict):
        return {name: _unwrap_arguments(server, member) for name, member in value.items()}
    return value


def _wrap_members(server: str, value: JSON) -> JSON:
    """Return the value with wrapped URIs, except in texts and structured content."""
    if isinstance(value, list):
        return [_wrap_members(server, item) for item in value]
    if not isinstance(value, dict):
        return value
    changed: Object = {}
    for name, member in value.items():
        if name in _URI_MEMBERS and isinstance(member, str):
            changed[name] = wrapped_uri(server, member)
        else:
            changed[name] = member if name in _UNCHANGED else _wrap_members(server, member)
    return changed
