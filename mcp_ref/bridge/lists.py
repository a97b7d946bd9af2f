"""The lists of a bridge: pages of tools, prompts, resources and templates, of one server or of several.

Lists of several servers come in the order of the configuration, one page of one server at a time. A cursor names its
server, and is sealed (relayed.py). A server that is away contributes its last known page. A client of 2024-10-07, which
has no pages, gets all pages as one.

Spec:  server/utilities/pagination; 2026-07-28 basic/transports/streamable-http#schema-extension
"""

from __future__ import annotations

import logging
from typing import Final, cast

from ..basic.headers import parameter_headers
from ..codec import codec_for
from ..host.supervisor import MAX_PAGES
from ..jsonrpc.errors import ProtocolError
from ..jsonrpc.messages import JSON, Object
from ..server.context import Context
from .back_client import Caller, caller_of
from .backs import BackServer
from .conversion import result_type
from .exchange import LISTS, exchange_simply
from .namespaces import Namespace
from .relayed import sealed, unsealed

log = logging.getLogger(__name__)

MAX_LAST_PAGES: Final = 256
"""Maximum number of pages that the bridge keeps for servers that are away."""


class Lists:
    """The lists of all servers.

    Args:
        servers: The servers behind the bridge, by server name.
        names: The names that clients see.
        key: The key that seals cursors.
    """

    def __init__(self, servers: dict[str, BackServer], names: Namespace, key: bytes) -> None:
        self._servers, self._names, self._key = servers, names, key
        self.headers: dict[str, dict[str, tuple[str, ...]]] = {}
        """The HTTP headers that mirror arguments, by the name of the tool that clients see."""
        self._last_pages: dict[tuple[object, ...], Object] = {}

    async def serve(self, method: str, params: Object, context: Context) -> Object:
        """Return one page of one server; for a revision without pages, all pages of all servers."""
        caller, names = caller_of(context), list(self._servers)
        server, cursor = names[0], params.get("cursor")
        if cursor is not None and self._seals(caller):
            server, cursor = unsealed(self._key, "cursor", caller.principal, cursor)
            cursor = cursor or None
        page = await self._page(method, server, cursor, params, context)
        if context.revision.pagination:
            return self._with_cursor(page, server, caller)
        member = LISTS[method]
        items = list(cast("list[JSON]", page.get(member, [])))
        for _ in range(MAX_PAGES):
            server, cursor = self._following(page, server)
            if not server:
                break
            page = await self._page(method, server, cursor, params, context)
            items += cast("list[JSON]", page.get(member, []))
        page = {name: value for name, value in page.items() if name != "nextCursor"}
        return {**page, member: items}

    def _seals(self, caller: Caller) -> bool:
        return not self._names.is_plain or caller.principal is not None

    def _following(self, page: Object, server: str) -> tuple[str, JSON]:
        """Return the server and the cursor of the next page, or ("", None) after the last page."""
        if page.get("nextCursor") is not None:
            return server, page["nextCursor"]
        names = list(self._servers)
        after = names.index(server) + 1
        return (names[after], None) if after < len(names) else ("", None)

    def _with_cursor(self, page: Object, server: str, caller: Caller) -> Object:
        if not self._seals(caller):
            return page
        following, cursor = self._following(page, server)
        page = {name: value for name, value in page.items() if name != "nextCursor"}
        if following:
            text = cursor if isinstance(cursor, str) else ""
            page["nextCursor"] = sealed(self._key, "cursor", following, caller.principal, text)
        if not self._names.is_plain and "cacheScope" in page:
            # [2026-07-28 server/utilities/caching#interaction-with-pagination] all pages MUST have one scope, but the
            # next page can come from a server with another one
            page["cacheScope"] = "private"
        return page

    async def _page(self, method: str, name: str, cursor: JSON, params: Object, context: Context) -> Object:
        """Return a page of one server, with the names that clients see."""
        server, caller = self._servers[name], caller_of(context)
        own: Object = {key: value for key, value in params.items() if key != "cursor"}
        if cursor is not None:
            own["cursor"] = cursor
        if self._names.is_plain:
            return self._noted(server, await exchange_simply(server, method, own, context))
        last = name, method, caller.principal, caller.revision, cursor
        try:
            await server.shared(caller)
            if not server.offers(method.partition("/")[0]):
                return codec_for(context.revision).encode(result_type(method)([]))
            page = self._noted(server, await exchange_simply(server, method, own, context))
        except ProtocolError as error:
            log.warning("%s is not in the list: %s", name, error)
            return self._last_pages.get(last) or codec_for(context.revision).encode(result_type(method)([]))
        self._last_pages[last] = page
        if len(self._last_pages) > MAX_LAST_PAGES:
            del self._last_pages[next(iter(self._last_pages))]
        return page

    def _noted(self, server: BackServer, page: Object) -> Object:
        """Note the HTTP headers of the listed tools, and leave out the tools that are not allowed."""
        tools = page.get("tools")
        if not isinstance(tools, list):
            return self._names.result_for_client(server.name, "", page)
        kept: list[JSON] = []
        for tool in tools:
            own = tool.get("name") if isinstance(tool, dict) else None
            if not isinstance(own, str) or not server.allows(own):
                continue
            try:
                server.parameter_headers[own] = parameter_headers(cast(Object, tool).get("inputSchema"))
            except ValueError as error:
                # [2026-07-28 basic/transports/streamable-http#schema-extension] MUST exclude the tool, SHOULD log
                log.warning("left out the tool %.100r of %s: %s", own, server.name, error)
                continue
            kept.append(tool)
        shown = self._names.result_for_client(server.name, "", {**page, "tools": kept})
        for before, after in zip(kept, cast("list[JSON]", shown["tools"]), strict=True):
            own_name, name = cast(Object, before)["name"], cast(Object, after)["name"]
            self.headers[cast(str, name)] = server.parameter_headers[cast(str, own_name)]
        return shown

    async def note_all_headers(self, server: BackServer, context: Context) -> None:
        """List the tools of a server, because their headers are needed for a call."""
        params: Object = {}
        for _ in range(MAX_PAGES):
            page = self._noted(server, await exchange_simply(server, "tools/list", params, context))
            if page.get("nextCursor") is None:
                return
            params = {"cursor": page["nextCursor"]}
