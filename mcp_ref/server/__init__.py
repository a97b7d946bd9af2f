"""The spec's "Server Features": what a server offers a client. Each page has the types, the server's part, the
client's."""
