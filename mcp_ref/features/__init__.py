"""The specification's "Server Features" and "Client Features": one module a page, with the duties of both roles."""
