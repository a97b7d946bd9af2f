"""Who stands behind the demo's client, a model and a user, and what is claimed of both eras alike.

Above: `tour.py` and `earlier.py`.
"""

from __future__ import annotations

from .. import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    RemoteError,
    TextContent,
)
from .screen import Screen


async def model(request: CreateMessageRequestParams) -> CreateMessageResult:
    """Stand in for a language model: a real client calls one here, and lets its user see and change what is sent."""
    return CreateMessageResult("assistant", TextContent("Groceries"), model="a-model", stop_reason="endTurn")


async def user(request: ElicitRequestFormParams | ElicitRequestURLParams) -> ElicitResult:
    """Stand in for a person, who fills in two of three fields, and agrees to visit the page."""
    if isinstance(request, ElicitRequestURLParams):
        return ElicitResult("accept")  # a real client shows the whole URL first, and opens it only on a yes
    return ElicitResult("accept", {"guests": 2, "time": "20:00"})


async def refused(screen: Screen, what: str, code: int, request: object) -> None:
    """Await a request, and claim that it is answered by an error with this code."""
    try:
        await request  # type: ignore[misc]
    except RemoteError as error:
        screen.claim(f"{what} is refused: {error}", error.code == code)
    else:
        raise AssertionError(f"{what} was not refused")
