"""`python3 -m mcp_ref demo`: a real client and a real server process talk MCP, and every message is explained.

Read `server.py` first: a server with one tool, resource or prompt for each feature. Then `tour.py`: the client, feature
by feature, with the claims that it checks; and `earlier.py`: the same in the revisions that open with a handshake.
`people.py` is who stands behind the client, `ways.py` how the two meet, over pipes or, with `--http`, over HTTP, and
`bare.py` what HTTP adds. `screen.py` is how the messages are put on the terminal.
"""
