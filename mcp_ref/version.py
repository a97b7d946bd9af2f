"""The version of mcp_ref, and the changes of each version.

CHANGES

0.2.0
- Modules moved to rooms by role. `Server` is in `server/server.py`, `Client` in `client/client.py`, each page of the
  specification in `basic/` or `features/`, tasks in `extensions/tasks/`, transports in `transports/`, and other
  people's standards in `lib/`. The names in `mcp_ref.__all__` are the same; imports of inner modules change.
- `Client.connection` is now `Client.session`.
- A capability is declared when something is registered. Reading `server.prompts` declares nothing any more.
- `READING_ORDER` and `OPTIONAL_READING` say in which order to read the modules, and which a first reader can skip.
- New commands: `python3 -m mcp_ref toc` and `python3 -m mcp_ref limits`.
- Error and log messages have new words. The messages on the wire have the same structure as before.
- The option `older` of a server over HTTP is now `http_sse`.
- The package is under the MIT licence.

0.1.0
- First version: client and server, six revisions, stdio, Streamable HTTP, HTTP+SSE.
"""

__version__ = "0.2.0"
