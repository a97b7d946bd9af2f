"""A travel desk that asks the user twice before it books. Each request can go to another process.

New here: *multi round-trip requests* with a signed state (2026-07-28). If a tool asks the user, the result of the call
is a form and a `requestState`, and the client sends the call again, with the user's reply and the same state. Because
the state contains the earlier replies, the server stores nothing, and another process can serve the next request. All
processes sign the state with the same key, so that a client cannot change it or use it for another call.

    export FLIGHT_KEY=$(python3 -c 'import secrets; print(secrets.token_hex(32))')
    python3 examples/book_flight.py                     serves over stdio; without FLIGHT_KEY, it creates a key
    python3 examples/book_flight_client.py              sends requests to two processes with the same key

In older revisions the function waits for the replies.

Watch it fail: this client cannot ask a user.

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
bookings: dict[str, str] = {}  # by reference; several processes would need a database


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
    # In 2026-07-28, an elicitation ends the function. When the reply comes, the function runs again from its first
    # line, and `elicit` returns the earlier replies at once. So ask first, and book last.
    flight = (await context.elicit(f"{origin} to {destination} on {day}.", Flight, key="flight")).data
    if flight is None:  # the user declined, or closed the form
        return "No flight was booked: the user does not want to fly."
    seat = (await context.elicit(f"The {flight.departure} flight. Which seat?", Seat, key="seat")).data
    if seat is None:
        return "No flight was booked: the user does not want a seat."
    # A client can send the last request twice, and the signature does not prevent this. The same replies have the same
    # reference, so the server does not book the flight twice.
    text = f"{origin} {destination} {day} {flight.departure}, {flight.passenger}, {seat.cabin}"
    reference = hashlib.sha256(text.encode()).hexdigest()[:6].upper()
    bookings.setdefault(reference, text)
    return f"Booked {reference}: {text}, {EUROS[seat.cabin]} euros."


if __name__ == "__main__":
    server.run()
