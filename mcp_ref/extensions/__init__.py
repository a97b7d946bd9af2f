"""Official extensions of the protocol, which client and server use only if both declare them.

An extension can change faster than the protocol, and a program that does not use it need not know it. The capability
`extensions` (since 2026-07-28) maps the names of extensions, such as `io.modelcontextprotocol/tasks`, to their settings
[2026-07-28 changelog#minor-changes].

    auth/    other ways to get tokens for a protected server, and to protect them
    tasks/   requests whose result the requestor fetches later
"""
