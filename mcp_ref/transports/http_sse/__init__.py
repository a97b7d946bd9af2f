"""The HTTP+SSE transport of 2024-11-05, for clients and servers that know nothing newer."""
