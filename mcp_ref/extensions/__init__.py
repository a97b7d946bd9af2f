"""Official extensions of the protocol: parts that both peers must declare before either uses them.

The capability `extensions` came in 2026-07-28. It maps the name of an extension, with a prefix such as in
`io.modelcontextprotocol/tasks`, to settings or {} [2026-07-28 changelog#minor-changes]. An extension can change faster
than the core, and costs nothing in a program that does not use it.

    tasks/   requests whose result is fetched later
"""
