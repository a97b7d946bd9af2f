"""A protected server: a client needs an access token, and one tool needs a scope that the user grants separately.

New here: `authorization=Protection(...)`. The server refuses requests without a token, and tells clients which
authorization server issues tokens. It accepts only tokens with its own URL in them: a token for another server is
refused. `context.principal` is the user who has agreed, so each user has separate notes.

    python3 examples/authorization_server.py        in a first terminal, until Ctrl-C
    python3 examples/protected.py                   in a second one, until Ctrl-C
    python3 examples/protected_client.py --alone    runs both and a client, and prints all requests

Watch it fail: run the server without its protection.

    python3 -m mcp_ref run examples/protected.py --http
"""

from mcp_ref import Context, JwtVerifier, Protection, Server, ToolError

ISSUER = "http://127.0.0.1:9000"  # authorization_server.py
MAX_NOTES = 100
"""Maximum number of notes of a user."""

server = Server("protected notes", "1.0")
notes: dict[str, list[str]] = {}


def notes_of(context: Context) -> list[str]:
    """Return the notes of the user."""
    assert context.principal is not None
    return notes.setdefault(context.principal.subject, [])


@server.tool()
async def read_notes(context: Context) -> list[str]:
    """Read all notes."""
    return notes_of(context)


@server.tool(scopes={"notes:write"})
async def add_note(text: str, context: Context) -> str:
    """Add a note."""
    own = notes_of(context)
    if len(own) >= MAX_NOTES:
        raise ToolError("There are too many notes.")
    own.append(text)
    return f"Number of notes: {len(own)}."


def protect(resource: str, issuer: str = ISSUER) -> Protection:
    """Return the protection of the server at a URL. All requests need the scope notes:read."""
    return Protection(resource, [issuer], JwtVerifier(), scopes={"notes:read"})


if __name__ == "__main__":
    server.run_http(port=8000, authorization=protect("http://127.0.0.1:8000/mcp"))
