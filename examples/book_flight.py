"""A travel desk that asks twice before it books, whatever process gets the answers.

New here: *multi round-trip requests* with a sealed state (2026-07-28). A call that has to ask ends with the question
and a `requestState`; the client sends the call again, with the answer and that state. Nothing is kept in between, so
the next round may reach another process, behind a load balancer say: the state brings along what was answered before.
It is sealed, with a key that the processes share: nobody else can write one, or use it for another call.

    export FLIGHT_KEY=$(python3 -c 'import secrets; print(secrets.token_hex(32))')
    python3 examples/book_flight.py                     serves over stdio; without a key, it makes one for itself
    python3 examples/book_flight_client.py              two processes, one key, and every round goes to the other one

In the earlier revisions the same function simply waits for the answers.

Watch it fail: nobody is there to be asked.

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
        raise ToolError("That is no flight.")
    # In 2026-07-28 each `await` that is not answered yet ends the call; when the answer comes, the function runs anew,
    # from its first line, and those before are answered at once. So: ask first, do what counts last.
    answer = await context.elicit(f"{origin} to {destination} on {day}.", Flight, key="flight")
    if answer.action != "accept" or answer.content is None:
        return "No flight was booked: the user does not want to fly."
    flight = Flight(**answer.content)  # type: ignore[arg-type]  # checked against the form
    answer = await context.elicit(f"The {flight.departure} flight. Which seat?", Seat, key="seat")
    if answer.action != "accept" or answer.content is None:
        return "No flight was booked: the user does not want a seat."
    seat = Seat(**answer.content)  # type: ignore[arg-type]
    # A client may send the last round twice, and no seal can tell. The same answers give the same reference, and a
    # booking that is there already is not made again.
    text = f"{origin} {destination} {day} {flight.departure}, {flight.passenger}, {seat.cabin}"
    reference = hashlib.sha256(text.encode()).hexdigest()[:6].upper()
    bookings.setdefault(reference, text)
    return f"Booked {reference}: {text}, {EUROS[seat.cabin]} euros."


if __name__ == "__main__":
    server.run()
