"""The spec's "Client Features": what a client offers a server. Each page has the types, the client's part, the
server's."""
