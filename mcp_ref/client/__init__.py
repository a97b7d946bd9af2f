"""The client: `Client`, which connects to one server, and its parts, which hold the conversation."""
