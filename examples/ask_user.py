"""A restaurant that asks how many will come, before it books a table.

New here: *elicitation*. A tool stops in the middle, has the client ask its user, and goes on with the answer. (In
2026-07-28 it begins anew, with the answer at hand: so it does nothing before it asks.) The form is a dataclass; what
comes back is checked against it before the tool sees it. "No" is an answer too, and so is closing the form: three
outcomes, each with a text of its own, so that the model does not ask again in vain.

    python3 examples/ask_user.py                        serves over stdio
    python3 examples/ask_user_client.py --ask           you are the user
    python3 examples/ask_user_client.py                 plays the user by itself

Watch it fail: this client cannot ask anybody, so the tool cannot either, and falls back on what the model told it.

    python3 -m mcp_ref call book_table day=2030-01-01 -- python3 examples/ask_user.py

A form's answers pass through the client, and may reach the model: for a password, see sign_in.py.
"""

from dataclasses import dataclass
from datetime import date
from typing import Annotated, Literal

from mcp_ref import Context, Server, ToolError

server = Server("restaurant", "1.0", instructions="Book first; the guests are asked for what is missing.")
booked: dict[date, int] = {}
SEATS = 12


@dataclass
class Wishes:
    """The form. A field with a default is filled in already; the comments in `Annotated` are what the user reads."""

    guests: Annotated[int, "How many people will come", {"minimum": 1, "maximum": SEATS}]
    time: Annotated[Literal["18:00", "19:30", "21:00"], "When"] = "19:30"
    vegetarian: Annotated[bool, "Vegetarian menu"] = False


@server.tool()
async def book_table(day: date, context: Context, guests: Annotated[int | None, {"minimum": 1}] = None) -> str:
    """Book a table. Leave out the guests to have the user say how many will come, and when.

    Args:
        guests: How many people, where the user has said so.
    """
    time = "19:30"
    if guests is None:
        if not context.client_can("elicitation"):
            raise ToolError("How many guests? Ask the user, and call again with `guests`.")
        answer = await context.elicit(f"A table on {day:%A, %d %B %Y}.", Wishes)
        if answer.action == "decline":
            return "The user does not want a table after all. Nothing was booked."
        if answer.action == "cancel" or answer.content is None:
            return "The user closed the form without deciding. Nothing was booked; ask what they would like to do."
        wishes = Wishes(**answer.content)  # type: ignore[arg-type]  # checked against the form that Wishes makes
        guests, time = wishes.guests, wishes.time
    # While the user was thinking, somebody else may have booked: look only now.
    if booked.get(day, 0) + guests > SEATS:
        raise ToolError(f"On {day}, only {SEATS - booked.get(day, 0)} seats are left.")
    booked[day] = booked.get(day, 0) + guests
    return f"Booked: {guests} people on {day} at {time}."


if __name__ == "__main__":
    server.run()
