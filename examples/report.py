"""A server that writes a report in the background, and asks the user for a currency at the end.

New here: a *task*. The client receives a task id at once, does other work, and later requests the status and the
result. The tool is an ordinary function, registered with `task="optional"`: a client that does not support tasks waits
for the result. If the task asks the user, the elicitation waits until the client requests the task's status or result.

In 2025-11-25 tasks are experimental, and the client decides if a call becomes a task. In 2026-07-28 tasks are the
extension `io.modelcontextprotocol/tasks`, and the server decides, but only for clients that declare the extension.

    python3 examples/report.py                  serves over stdio
    python3 examples/report_client.py           begins a report, does other work, and fetches the result

Watch it fail: this client cannot ask a user.

    python3 -m mcp_ref call write_report year:=2025 -- python3 examples/report.py
"""

import asyncio
from dataclasses import dataclass
from typing import Annotated, Literal

from mcp_ref import Context, Server, ToolError

server = Server("report", "1.0")

FOR_ONE_EURO = {"euro": 1.0, "dollar": 1.09, "yen": 161.0}


@dataclass
class Currency:
    """The form that the user fills in."""

    currency: Literal["euro", "dollar", "yen"] = "euro"


def sales_of(year: int, month: int) -> float:
    """Return the invented sales of a month, in euros."""
    return 1000.0 + (year * 31 + month * 97) % 400


@server.tool(task="optional")
async def write_report(year: Annotated[int, {"minimum": 2000, "maximum": 2100}], context: Context) -> str:
    """Add up the sales of a year, month by month, in the currency that the user wants."""
    total = 0.0
    for month in range(1, 13):
        await asyncio.sleep(0.02)  # the slow work
        total += sales_of(year, month)
        await context.set_status(f"{month} of 12 months added up")
        await context.report_progress(month, 12)
    result = await context.elicit("In which currency?", Currency)
    if result.action != "accept" or result.content is None:
        raise ToolError("A report needs a currency.")
    currency = str(result.content["currency"])
    return f"Sales of {year}: {total * FOR_ONE_EURO[currency]:,.0f} {currency}"


if __name__ == "__main__":
    server.run()
