"""The host of the demo's client. A host is an application with a language model, a user, and directories (roots)."""

from __future__ import annotations

import asyncio
from typing import Any

from .. import (
    Client,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    TextContent,
)
from ..revisions import Revision
from .screen import Screen

PROJECT, NOTES = "file:///home/ada/project", "file:///home/ada/notes"


async def model(request: CreateMessageRequestParams) -> CreateMessageResult:
    """Stand in for a language model. A real host calls a model, and lets its user review the messages first."""
    return CreateMessageResult("assistant", TextContent("Groceries"), model="a-model", stop_reason="endTurn")


async def user(request: ElicitRequestFormParams | ElicitRequestURLParams) -> ElicitResult:
    """Stand in for a user: fill in guests and time, keep the default of other fields, and agree to visit each URL."""
    if isinstance(request, ElicitRequestURLParams):
        return ElicitResult("accept")  # a real host shows the whole URL, and opens the URL only with consent
    return ElicitResult("accept", {"guests": 2, "time": "20:00"})


ALL_FEATURES: dict[str, Any] = {"sampling": model, "elicitation": user, "elicitation_url": True, "roots": [PROJECT]}
"""Options of a client that supports sampling, elicitation and roots."""


def claim_server_info(screen: Screen, client: Client, revision: Revision) -> None:
    """Claim that the client knows the revision, and the server's name and capabilities."""
    screen.claim(f"both speak {revision}", client.revision is revision)
    screen.claim("the client knows the server's name", client.server_info.name == "demo")
    screen.claim("the client knows the server's capabilities", client.server_can("resources.subscribe"))


async def cancel_call(client: Client) -> bool:
    """Call the tool `sleep` for 30 seconds, and cancel the call when the tool has begun. Return True if cancelled."""
    begun = asyncio.Event()
    call = asyncio.create_task(client.call_tool("sleep", {"seconds": 30}, on_progress=lambda *_: begun.set()))
    await begun.wait()
    call.cancel()
    await asyncio.wait([call])
    return call.cancelled()
