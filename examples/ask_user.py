"""A restaurant that asks the user for the number of guests before it books a table.

New here: *elicitation*. A tool asks the user through the client, and continues with the reply. (In 2026-07-28 the
function runs again from its first line with the reply, so it changes nothing before it asks.) The form is a dataclass,
against which the server checks the reply before the tool receives it. The user can accept, decline, or close the form,
and each outcome has a different text, which tells the model how to continue.

    python3 examples/ask_user.py                        serves over stdio
    python3 examples/ask_user_client.py --ask           asks you
    python3 examples/ask_user_client.py                 replies without a user

Watch it fail: this client cannot ask a user, so the result tells the model to send the missing argument.

    python3 -m mcp_ref call book_table day=2030-01-01 -- python3 examples/ask_user.py

The content of a form passes through the client and can reach the model. For a password, see sign_in.py.
"""

from dataclasses import dataclass
from datetime import date
from typing import Annotated, Literal

from mcp_ref import Context, Server, ToolError

server = Server("restaurant", "1.0", instructions="Call book_table at once. It asks the user for missing details.")
booked: dict[date, int] = {}
SEATS = 12


@dataclass
class Wishes:
    """The form. The client fills in the defaults. It shows the texts in `Annotated` to the user."""

    guests: Annotated[int, "How many people will come", {"minimum": 1, "maximum": SEATS}]
    time: Annotated[Literal["18:00", "19:30", "21:00"], "When"] = "19:30"
    vegetarian: Annotated[bool, "Vegetarian menu"] = False


@server.tool()
async def book_table(day: date, context: Context, guests: Annotated[int | None, {"minimum": 1}] = None) -> str:
    """Book a table. Without `guests`, the tool asks the user how many people will come, and when.

    Args:
        guests: Number of people, if the user has already said how many.
    """
    time = "19:30"
    if guests is None:
        if not context.client_can("elicitation"):
            raise ToolError("How many guests? Ask the user, and call again with `guests`.")
        result = await context.elicit(f"A table on {day:%A, %d %B %Y}.", Wishes)
        if result.action == "decline":
            return "The user does not want a table after all. Nothing was booked."
        if result.action == "cancel" or result.content is None:
            return "The user closed the form without deciding. Nothing was booked; ask what they would like to do."
        wishes = Wishes(**result.content)  # type: ignore[arg-type]  # checked against the schema of Wishes
        guests, time = wishes.guests, wishes.time
    # Count the seats only now, because another guest could have booked while the user filled in the form.
    if booked.get(day, 0) + guests > SEATS:
        raise ToolError(f"On {day}, only {SEATS - booked.get(day, 0)} seats are left.")
    booked[day] = booked.get(day, 0) + guests
    return f"Booked: {guests} people on {day} at {time}."


if __name__ == "__main__":
    server.run()
