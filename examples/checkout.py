"""A shop whose baskets have names: what one call makes, the next one is told.

New here: *explicit handles*. In 2026-07-28 there is no session, so nothing that a server remembers can hang on one.
`create_basket` gives an id that nobody can guess; the model passes it along, from call to call, over any connection and
to any process that shares the baskets. It works in the earlier revisions just as well, and is easier to understand:
what a call depends on stands in its arguments.

Who asks the user in the middle of a call asks first, and does what can be done only once last: in 2026-07-28
`check_out` ends at its question, and runs anew, from its first line, when the answer comes.

    python3 examples/checkout.py                        serves over stdio
    python3 examples/checkout_client.py                 fills a basket over one connection, and pays over another

Watch it fail: a basket that there is not, or not any more. The model reads what to do instead.

    python3 -m mcp_ref call add_item basket_id=bsk_x sku=tea -- python3 examples/checkout.py
"""

import secrets
import time
from dataclasses import dataclass, field
from typing import Annotated, Literal

from mcp_ref import Context, Server, ToolError

server = Server("shop", "1.0", instructions="Begin with create_basket; all other tools want the id that it gives.")
PRICES = {"tea": 4, "coffee": 7, "cups": 12}  # euros
LIFETIME, MAX_BASKETS = 3600.0, 1000  # seconds; a handle that nobody gives back must not stay for ever
Sku = Literal["tea", "coffee", "cups"]


@dataclass
class Basket:
    """What is in it, and until when it is kept."""

    items: dict[str, int] = field(default_factory=dict)
    until: float = 0.0

    def total(self) -> int:
        """What it costs, in euros."""
        return sum(PRICES[sku] * number for sku, number in self.items.items())


baskets: dict[str, Basket] = {}  # in the order of their making; several processes would share a database


def find(basket_id: str) -> Basket:
    """The basket of that name. Where `authenticate=` says who calls, look here, too, whether it is theirs."""
    basket = baskets.get(basket_id)
    if basket is None or basket.until < time.monotonic():
        raise ToolError("There is no such basket, or not any more. Begin a new one with create_basket.")
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
    """Put something into a basket."""
    basket = find(basket_id)
    basket.items[sku] = min(basket.items.get(sku, 0) + number, 99)
    return f"{basket.items[sku]} x {sku}; {basket.total()} euros in all."


@dataclass
class Payment:
    """The form that the user sees."""

    by: Annotated[Literal["card", "invoice"], "How you will pay"] = "card"


@server.tool()
async def check_out(basket_id: str, context: Context) -> str:
    """Have the user pay for a basket. After that, it is gone."""
    total = find(basket_id).total()
    # The question's name has the sum in it: if the basket has changed meanwhile, it is another question.
    answer = await context.elicit(f"Pay {total} euros?", Payment, key=f"pay {total}")
    if answer.action != "accept" or answer.content is None:
        return "Not paid; the basket is still there."
    if find(basket_id).total() != total:  # before 2026-07-28, this function was waiting all the while
        raise ToolError("The basket has changed while the user was asked. Check out again.")
    del baskets[basket_id]  # and only now: whatever comes twice finds no basket
    return f"Paid {total} euros by {answer.content['by']}."


if __name__ == "__main__":
    server.run()
