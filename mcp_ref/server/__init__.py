"""The server: `Server`, which holds what is offered, and its parts, which serve the clients."""
