"""Official extensions of the protocol. Client and server use an extension only if both declare it.

They declare it in the capability `extensions` (since 2026-07-28). Its keys are names of extensions, such as
`io.modelcontextprotocol/tasks`. Its values are the settings of each extension [2026-07-28 changelog#minor-changes].

    tasks/   requests whose result the requestor fetches later
"""
