"""A shop whose baskets have ids: one call creates a basket, and later calls name it.

New here: *explicit handles*. 2026-07-28 has no sessions, so a server cannot attach its memory to a session.
`create_basket` returns an id that nobody can guess. The model passes the id to the next calls, over any connection and
to any process that shares the baskets. This works in older revisions too, and it is easier to understand: a call
depends only on its arguments.

A tool that asks the user asks first, and does last what must happen only once: in 2026-07-28 `check_out` ends when it
asks, and runs again from its first line when the reply comes.

    python3 examples/checkout.py                        serves over stdio
    python3 examples/checkout_client.py                 fills a basket over one connection, and pays over another

Watch it fail: a basket that does not exist. The model reads what to do instead.

    python3 -m mcp_ref call add_item basket_id=bsk_x sku=tea -- python3 examples/checkout.py
"""

import secrets
import time
from dataclasses import dataclass, field
from typing import Annotated, Literal

from mcp_ref import Context, Server, ToolError

server = Server("shop", "1.0", instructions="Begin with create_basket; all other tools want the id that it gives.")
PRICES = {"tea": 4, "coffee": 7, "cups": 12}  # euros
LIFETIME, MAX_BASKETS = 3600.0, 1000  # seconds and baskets: abandoned baskets are deleted
Sku = Literal["tea", "coffee", "cups"]


@dataclass
class Basket:
    """The items of a basket, and the end of its life in seconds of the monotonic clock."""

    items: dict[str, int] = field(default_factory=dict)
    until: float = 0.0

    def total(self) -> int:
        """Return the price of the basket, in euros."""
        return sum(PRICES[sku] * number for sku, number in self.items.items())


baskets: dict[str, Basket] = {}  # oldest first; several processes would share a database


def find(basket_id: str) -> Basket:
    """Return a basket. With `authenticate=`, also check here that it belongs to the caller."""
    basket = baskets.get(basket_id)
    if basket is None or basket.until < time.monotonic():
        raise ToolError("Unknown basket: no such basket exists, or it has expired. Begin a new one with create_basket.")
    basket.until = time.monotonic() + LIFETIME
    return basket


@server.tool()
async def create_basket() -> dict[str, str]:
    """Begin to shop. Pass the basket_id on to the other tools."""
    if len(baskets) >= MAX_BASKETS:
        del baskets[next(iter(baskets))]
    basket_id = f"bsk_{secrets.token_urlsafe(16)}"
    baskets[basket_id] = Basket(until=time.monotonic() + LIFETIME)
    return {"basket_id": basket_id}


@server.tool()
async def add_item(basket_id: str, sku: Sku, number: Annotated[int, {"minimum": 1, "maximum": 99}] = 1) -> str:
    """Add an item to a basket."""
    basket = find(basket_id)
    basket.items[sku] = min(basket.items.get(sku, 0) + number, 99)
    return f"{basket.items[sku]} x {sku}; {basket.total()} euros in all."


@dataclass
class Payment:
    """The form that the user sees."""

    by: Annotated[Literal["card", "invoice"], "How you will pay"] = "card"


@server.tool()
async def check_out(basket_id: str, context: Context) -> str:
    """Let the user pay for a basket. The basket is deleted after that."""
    total = find(basket_id).total()
    # The key contains the sum: if the basket has changed, the user is asked again.
    answer = await context.elicit(f"Pay {total} euros?", Payment, key=f"pay {total}")
    if answer.action != "accept" or answer.content is None:
        return "Not paid; the basket is still there."
    if find(basket_id).total() != total:  # before 2026-07-28 the function waits here, and the basket can change
        raise ToolError("The basket has changed while the user was asked. Check out again.")
    del baskets[basket_id]  # last: a second call then finds no basket
    return f"Paid {total} euros by {answer.content['by']}."


if __name__ == "__main__":
    server.run()
