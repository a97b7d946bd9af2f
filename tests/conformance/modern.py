"""examples/everything.py without the handshake: `uvicorn tests.conformance.modern:app`."""

from examples.everything import server
from mcp_ref.revisions import REVISIONS

server.revisions = [revision for revision in REVISIONS if revision.era == "modern"]
app = server.asgi()
