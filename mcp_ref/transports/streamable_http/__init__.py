"""The Streamable HTTP transport: sessions, stateless requests, server-sent events, and resumption."""
