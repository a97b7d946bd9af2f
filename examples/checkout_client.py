"""A client that fills a basket of checkout.py over one connection and pays over another, in both eras.

New here: the calls share only the basket's id. The program opens a connection to fill the basket, and another to pay.
In a chat, the model copies the id from a result to the next call.

    python3 examples/checkout_client.py

Watch it fail: pay twice. The first payment deletes the basket.

    python3 examples/checkout_client.py --twice
"""

import asyncio
import sys

from checkout import server  # type: ignore[import-not-found]  # the file beside this one

from mcp_ref import Client, ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult


async def user(question: ElicitRequestFormParams | ElicitRequestURLParams) -> ElicitResult:
    """Accept every form, and pay by invoice."""
    print(f"  asked: {question.message}")
    return ElicitResult("accept", {"by": "invoice"})


async def shop(url: str, revision: str) -> None:
    """Order tea over one connection, and cups over another."""
    async with Client(url, revision=revision) as client:
        made = (await client.call_tool("create_basket")).structured_content
        assert isinstance(made, dict)
        basket = {"basket_id": made["basket_id"]}
        await client.call_tool("add_item", {**basket, "sku": "tea", "number": 2})
    async with Client(url, revision=revision, elicitation=user) as client:
        print((await client.call_tool("add_item", {**basket, "sku": "cups"})).text)
        paid = await client.call_tool("check_out", basket)
        print(f"In {revision}: {paid.text}")
        assert paid.text == "Paid 20 euros by invoice."
        if "--twice" in sys.argv:
            again = await client.call_tool("check_out", basket)
            sys.exit(f"not paid again: {again.text}" if again.is_error else 0)


async def main() -> None:
    """Serve both revisions with one server."""
    async with server.serve_http() as url:
        for revision in ("2025-11-25", "2026-07-28"):
            await shop(url, revision)


if __name__ == "__main__":
    asyncio.run(main())
