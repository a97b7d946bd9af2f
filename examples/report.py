"""A server that writes a report in a while, and asks the user something half-way.

New here: a *task*. The client gets a handle at once, does other things, and comes back for how far it is and for the
result. The function is written as ever, with `task="optional"` beside it: whoever cannot follow a task waits for the
result instead. What it asks waits in the task until the client comes to look.

In 2025-11-25 tasks are an experimental part of the protocol, and the client says when it wants one. In 2026-07-28 they
are an extension, `io.modelcontextprotocol/tasks`, and the server decides, for clients that know it.

    python3 examples/report.py                  serves over stdio
    python3 examples/report_client.py           begins a report, does something else, and gets it

Watch it fail: nobody is there to be asked.

    python3 -m mcp_ref call write_report year:=2025 -- python3 examples/report.py
"""

import asyncio
from dataclasses import dataclass
from typing import Annotated, Literal

from mcp_ref import Context, Server, ToolError

server = Server("report", "1.0")

EUROS_OF = {"euro": 1.0, "dollar": 1.09, "yen": 161.0}


@dataclass
class Currency:
    """What the user is asked."""

    currency: Literal["euro", "dollar", "yen"] = "euro"


def sales_of(year: int, month: int) -> float:
    """Euros that were earned in a month: made up, and the same each time."""
    return 1000.0 + (year * 31 + month * 97) % 400


@server.tool(task="optional")
async def write_report(year: Annotated[int, {"minimum": 2000, "maximum": 2100}], context: Context) -> str:
    """Add up the sales of a year, month by month, in the currency that the user wants."""
    total = 0.0
    for month in range(1, 13):
        await asyncio.sleep(0.02)  # here something slow would be read
        total += sales_of(year, month)
        await context.set_status(f"{month} of 12 months added up")
        await context.report_progress(month, 12)
    answer = await context.elicit("In which currency?", Currency)
    if answer.action != "accept" or answer.content is None:
        raise ToolError("Without a currency there is no report.")
    currency = str(answer.content["currency"])
    return f"Sales of {year}: {total * EUROS_OF[currency]:,.0f} {currency}"


if __name__ == "__main__":
    server.run()
