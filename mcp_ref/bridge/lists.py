"""The lists of a bridge: pages of tools, prompts, resources and templates, of one server or of several.

Each page of a list comes from one server: first the pages of the first server in the configuration, then those of the
next one. So a cursor of the bridge contains the name of a server and that server's cursor, and is signed so that no
other user can use it (`sealed` in relayed.py). If one of several servers fails, the client gets the page that this
server returned last time, instead of an error. A client of 2024-10-07, a revision without pages, gets all pages as one.

Spec:  server/utilities/pagination; 2026-07-28 basic/transports/streamable-http#schema-extension
"""

from __future__ import annotations

import json
import logging
from typing import Final, cast

from ..codec import codec_for
from ..host.supervisor import MAX_PAGES
from ..jsonrpc.errors import ProtocolError
from ..jsonrpc.messages import JSON, Object
from ..server.context import Context
from .backs import BackServer
from .callers import caller_of
from .conversion import result_type
from .exchange import LISTS, exchange_on_shared_client
from .namespaces import Namespace
from .relayed import sealed, unsealed

log = logging.getLogger(__name__)

MAX_LAST_PAGES: Final = 256
"""Maximum number of pages that the bridge keeps in case their servers fail."""
MAX_LAST_CHARACTERS: Final = 32 * 1024 * 1024
"""Maximum total length of the kept pages, in characters."""


class Lists:
    """The lists of all servers. `key` seals the cursors."""

    def __init__(self, servers: dict[str, BackServer], names: Namespace, key: bytes) -> None:
        self._servers, self._names, self._key = servers, names, key
        self._last_pages: dict[tuple[object, ...], str] = {}  # as JSON, oldest first

    async def serve(self, method: str, params: Object, context: Context) -> Object:
        """Return one page of one server; for a revision without pages, all pages of all servers."""
        if not context.revision.pagination:
            return await self._all_pages(method, params, context)
        principal, server_names = caller_of(context).principal, list(self._servers)
        # A bridge that keeps the names has only one server, so its cursors need not contain the server's name. For a
        # principal they are sealed all the same, so that no other principal can use them.
        is_sealed = not self._names.keeps_names or principal is not None
        server_name, cursor = server_names[0], params.get("cursor")
        if cursor is not None and is_sealed:
            server_name, cursor = unsealed(self._key, "cursor", principal, cursor, server_names)
        page = await self._page(method, server_name, cursor, params, context)
        if not is_sealed:
            return page
        next_page = self._next_page(page, server_name)
        page = _without_cursor(page)
        if next_page is not None:
            next_server, next_cursor = next_page
            page["nextCursor"] = sealed(self._key, "cursor", next_server, principal, next_cursor)
        if not self._names.keeps_names and "cacheScope" in page:
            # [2026-07-28 server/utilities/caching#interaction-with-pagination] all pages MUST have one scope, but the
            # next page can come from a server with another one
            page["cacheScope"] = "private"
        return page

    async def _all_pages(self, method: str, params: Object, context: Context) -> Object:
        member, items, page = LISTS[method], list[JSON](), Object()
        next_page: tuple[str, JSON] | None = next(iter(self._servers)), None
        for _ in range(MAX_PAGES):
            if next_page is None:
                break
            server_name, cursor = next_page
            page = await self._page(method, server_name, cursor, params, context)
            items += cast("list[JSON]", page.get(member, []))
            next_page = self._next_page(page, server_name)
        return {**_without_cursor(page), member: items}

    def _next_page(self, page: Object, server_name: str) -> tuple[str, JSON] | None:
        """Return the server of the next page, and the server's cursor (None for its first page); None after the last
        page of the last server."""
        if page.get("nextCursor") is not None:
            return server_name, page["nextCursor"]
        server_names = list(self._servers)
        index = server_names.index(server_name) + 1
        return (server_names[index], None) if index < len(server_names) else None

    async def _page(self, method: str, server_name: str, cursor: JSON, params: Object, context: Context) -> Object:
        """Return one page of a server, as clients see it. If one of several servers fails, return its last known page,
        or an empty one."""
        server, caller = self._servers[server_name], caller_of(context)
        params = {key: value for key, value in params.items() if key != "cursor"}
        if cursor is not None:
            params["cursor"] = cursor
        if self._names.keeps_names:  # if the only server fails, so does the list
            return self._for_client(server, await exchange_on_shared_client(server, method, params, context))
        page_key = server_name, method, caller.principal, caller.revision, repr(cursor)
        empty = codec_for(context.revision).encode(result_type(method)([]))
        try:
            client = await server.shared(caller)
            capability = method.partition("/")[0]  # "tools", "prompts" or "resources"
            if not client.server_can(capability):
                return empty
            page = self._for_client(server, await exchange_on_shared_client(server, method, params, context))
        except ProtocolError as error:
            log.warning("the list has no new page of %s: %s", server_name, error)
            last_page = self._last_pages.get(page_key)
            return empty if last_page is None else cast(Object, json.loads(last_page))
        self._keep(page_key, json.dumps(page))
        return page

    def _keep(self, page_key: tuple[object, ...], page: str) -> None:
        """Keep a page in case its server fails later, and drop the oldest pages above the limits."""
        self._last_pages.pop(page_key, None)  # so that it becomes the newest
        self._last_pages[page_key] = page
        while sum(map(len, self._last_pages.values())) > MAX_LAST_CHARACTERS or len(self._last_pages) > MAX_LAST_PAGES:
            oldest = next(iter(self._last_pages))
            del self._last_pages[oldest]

    def _for_client(self, server: BackServer, page: Object) -> Object:
        """Return a page with the names that clients see, without tools that are forbidden or have invalid headers."""

        def is_shown(tool: JSON) -> bool:
            name = tool.get("name") if isinstance(tool, dict) else None
            if not isinstance(name, str) or name not in server.parameter_headers:
                return False  # `ServerNotes.note_tools` notes only tools whose headers are valid
            return server.hosted.config.allows_tool(name)

        tools = page.get("tools")
        if isinstance(tools, list):
            page = {**page, "tools": [tool for tool in tools if is_shown(tool)]}
        return self._names.result_for_client(server.name, page)

    async def note_all_tools(self, server: BackServer, context: Context) -> None:
        """Request all pages of a server's tools. `server` notes their headers and task support, which a call needs."""
        params: Object = {}
        for _ in range(MAX_PAGES):
            page = await exchange_on_shared_client(server, "tools/list", params, context)
            if page.get("nextCursor") is None:
                return
            params = {"cursor": page["nextCursor"]}


def _without_cursor(page: Object) -> Object:
    return {name: value for name, value in page.items() if name != "nextCursor"}
