"""Official extensions of the protocol: parts that both peers must declare before either uses them.

The capability `extensions` came in 2026-07-28: extension name -> settings. A name has a prefix, such as
`io.modelcontextprotocol/tasks`, and {} stands for no settings [2026-07-28 changelog#minor-changes]. An extension can
change faster than the core, and those who do not need it do not pay for it.

    tasks/   requests whose result is fetched later
"""
