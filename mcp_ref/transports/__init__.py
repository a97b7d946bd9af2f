"""Transports move messages between two peers. They know JSON-RPC, but no method and no feature."""
