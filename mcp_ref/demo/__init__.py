"""`python3 -m mcp_ref demo`: a real client and a real server process talk MCP, and every message is explained.

Read `server.py` first, which has one tool, resource or prompt for each feature, and then `tour.py`, the client that
uses them all. `legacy.py` shows the revisions with a handshake, and `authorization.py` how a client gets a token. The
other files help them: `host.py` simulates the client's model and user, `connections.py` connects over stdio or HTTP,
`plain_http.py` shows HTTP itself, and `screen.py` prints.
"""
