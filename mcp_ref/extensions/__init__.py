"""Official extensions of the protocol. Client and server use an extension only if both declare it.

An extension can change faster than the protocol, and a program that does without it need not know it. The capability
`extensions` (since 2026-07-28) maps the names of extensions, such as `io.modelcontextprotocol/tasks`, to their settings
[2026-07-28 changelog#minor-changes].

    auth/    other ways to get tokens for a protected server, and to protect them
    tasks/   requests whose result the requestor fetches later
"""
