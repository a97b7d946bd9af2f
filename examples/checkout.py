"""A shop whose baskets have ids: one call creates a basket, and later calls name it.

New here: *explicit handles*. Revision 2026-07-28 has no sessions, so a server cannot store a basket for each session.
`create_basket` returns an id that other users cannot guess. The model passes the id to the next calls, over any
connection, and to any process that can read the baskets. Handles work in older revisions too.

A tool should ask the user first, and make changes last. In 2026-07-28, `check_out` ends when it asks the user, and runs
again from its first line when the reply comes.

    python3 examples/checkout.py                        serves over stdio
    python3 examples/checkout_client.py                 fills a basket over one connection, and pays over another

Watch it fail: a basket that does not exist. The error tells the model how to continue.

    python3 -m mcp_ref call add_item basket_id=bsk_x sku=tea -- python3 examples/checkout.py
"""

import secrets
import time
from dataclasses import dataclass, field
from typing import Annotated, Literal

from mcp_ref import Context, Server, ToolError

server = Server("shop", "1.0", instructions="Begin with create_basket; all other tools need its basket_id.")
PRICES = {"tea": 4, "coffee": 7, "cups": 12}  # euros
LIFETIME, MAX_BASKETS = 3600.0, 1000  # lifetime of a basket, in seconds; maximum number of baskets
Sku = Literal["tea", "coffee", "cups"]


@dataclass
class Basket:
    """The items of a basket, and the time when the basket expires, in seconds of the monotonic clock."""

    items: dict[str, int] = field(default_factory=dict)
    until: float = 0.0

    def total(self) -> int:
        """Return the price of the basket, in euros."""
        return sum(PRICES[sku] * number for sku, number in self.items.items())


baskets: dict[str, Basket] = {}  # oldest first; several processes would need a database


def find(basket_id: str) -> Basket:
    """Return a basket. A server with authentication must also check here that the basket belongs to the caller."""
    basket = baskets.get(basket_id)
    if basket is None or basket.until < time.monotonic():
        raise ToolError("Unknown basket: no such basket exists, or it has expired. Call create_basket for a new one.")
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
    # The key contains the sum. So if the basket has changed, an earlier reply is not used, and the user is asked again.
    result = await context.elicit(f"Pay {total} euros?", Payment, key=f"pay {total}")
    if result.action != "accept" or result.content is None:
        return "Not paid. The basket still exists."
    if find(basket_id).total() != total:  # before 2026-07-28 the function waits here, and the basket can change
        raise ToolError("The basket changed before the user replied. Check out again.")
    del baskets[basket_id]  # so that a second call cannot pay again
    return f"Paid {total} euros by {result.content['by']}."


if __name__ == "__main__":
    server.run()
