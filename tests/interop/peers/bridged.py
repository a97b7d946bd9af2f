"""The server of served.py behind a bridge, which speaks one revision with it: that of the variable BACK_REVISION."""

import os
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[3]), str(Path(__file__).parent)]

import served  # noqa: E402

from mcp_ref.bridge.bridge import Bridge  # noqa: E402

revision = os.environ.get("BACK_REVISION")
info = served.server.info
server = Bridge(servers={"back": served.server}, info=info, back_revisions=[revision] if revision else None).server
