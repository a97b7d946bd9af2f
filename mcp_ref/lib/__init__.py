"""Other people's standards, with no knowledge of MCP: HTTP/1.1, JSON Schema, URI templates, typed functions."""
