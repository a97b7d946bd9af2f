"""A travel desk that asks the user twice before it books. Any process can serve each step.

New here: *multi round-trip requests* with a sealed state (2026-07-28). A call that must ask ends with a form and a
`requestState`. The client sends the call again, with the reply and that state. The server keeps nothing in between, so
a load balancer can send the next round to another process: the state carries the earlier replies. The processes share a
key that seals the state. Nobody else can write a state, or use it for another call.

    export FLIGHT_KEY=$(python3 -c 'import secrets; print(secrets.token_hex(32))')
    python3 examples/book_flight.py                     serves over stdio; without a key, it makes one for itself
    python3 examples/book_flight_client.py              two processes, one key, and rounds that alternate between them

In older revisions the same function waits for the replies.

Watch it fail: this client has no user.

    python3 -m mcp_ref call book_flight origin=ZRH destination=OSL day=2030-05-01 -- python3 examples/book_flight.py
"""

import hashlib
import os
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Literal

from mcp_ref import Context, Server, ToolError

KEY = os.environ.get("FLIGHT_KEY")
server = Server("travel desk", "1.0", state_key=bytes.fromhex(KEY) if KEY else None)
Airport = Annotated[str, "Three letters, such as ZRH", {"pattern": "^[A-Z]{3}$"}]
DEPARTURES = ("07:15", "12:40", "18:05")
EUROS = {"economy": 120, "business": 480}
bookings: dict[str, str] = {}  # by reference; processes that share the work would share a database


@dataclass
class Flight:
    """The first form."""

    departure: Annotated[Literal["07:15", "12:40", "18:05"], "When to leave"]
    passenger: Annotated[str, "The name, as in the passport", {"minLength": 1, "maxLength": 60}]


@dataclass
class Seat:
    """The second form."""

    cabin: Annotated[Literal["economy", "business"], "economy 120 euros, business 480 euros"] = "economy"


@server.tool()
async def book_flight(origin: Airport, destination: Airport, day: date, context: Context) -> str:
    """Book a flight. The user chooses when to leave, and where to sit."""
    if origin == destination:
        raise ToolError("The origin and the destination are the same airport.")
    # In 2026-07-28 an `await` without a reply ends the call. When the reply comes, the function runs again from its
    # first line, and earlier replies are returned at once. So: ask first, and book last.
    answer = await context.elicit(f"{origin} to {destination} on {day}.", Flight, key="flight")
    if answer.action != "accept" or answer.content is None:
        return "No flight was booked: the user does not want to fly."
    flight = Flight(**answer.content)  # type: ignore[arg-type]  # checked against the form
    answer = await context.elicit(f"The {flight.departure} flight. Which seat?", Seat, key="seat")
    if answer.action != "accept" or answer.content is None:
        return "No flight was booked: the user does not want a seat."
    seat = Seat(**answer.content)  # type: ignore[arg-type]
    # A client may send the last round twice, and a seal cannot prevent that. The same replies give the same reference,
    # so a flight is not booked twice.
    text = f"{origin} {destination} {day} {flight.departure}, {flight.passenger}, {seat.cabin}"
    reference = hashlib.sha256(text.encode()).hexdigest()[:6].upper()
    bookings.setdefault(reference, text)
    return f"Booked {reference}: {text}, {EUROS[seat.cabin]} euros."


if __name__ == "__main__":
    server.run()
