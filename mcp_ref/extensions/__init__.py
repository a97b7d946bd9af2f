"""Official extensions of the protocol. Client and server use an extension only if both declare it.

Client and server declare extensions in the capability `extensions` (since 2026-07-28). A key is the name of an
extension, such as `io.modelcontextprotocol/tasks`. The value contains the settings of the extension
[2026-07-28 changelog#minor-changes].

    tasks/   requests whose result the requestor fetches later
"""
