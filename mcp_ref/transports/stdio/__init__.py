"""stdio: the client starts the server as a child process, and they talk over the child's standard input and output.

Each message is one line of UTF-8 JSON, so it MUST NOT contain a newline (JSON writes a line break in a string as
`\\n`). The server needs neither a port nor authentication, because only the program that started it can write to its
input. It MAY write logs of any kind to standard error [2025-11-25 basic/transports#stdio], so since 2025-11-25 a client
SHOULD NOT take text there for an error.

In 2025-03-26, a line can also be a batch (an array of messages). From 2026-07-28 on, the server MUST NOT send requests,
so the client sends no responses [2026-07-28 basic/transports/stdio#receiving-messages].

`lines.py` splits bytes into messages, `server.py` is the server's side, and `client.py` the client's side.

Wire:  {"jsonrpc":"2.0","id":1,"method":"tools/list"}
       {"jsonrpc":"2.0","id":1,"result":{"tools":[]}}
Spec:  basic/transports#stdio, basic/lifecycle#shutdown (2024-11-05 to 2025-11-25); 2026-07-28 basic/transports/stdio
"""
