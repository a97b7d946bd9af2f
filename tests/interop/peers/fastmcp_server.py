"""A server made with FastMCP, for our client: it stands for all the servers that people write with it."""

from dataclasses import dataclass

from fastmcp import Context, FastMCP

server: FastMCP[None] = FastMCP("fastmcp-server")


@dataclass
class Answer:
    name: str
    age: int = 30


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
async def ask(question: str, context: Context) -> str:
    """Ask the user, with a form made from a type."""
    answer = await context.elicit(question, response_type=Answer)
    return f"{answer.action}: {answer.data if answer.action == 'accept' else None}"


@server.tool
async def count(to: int, context: Context) -> int:
    """Report progress and log, step by step."""
    for step in range(1, to + 1):
        await context.info(f"step {step}")
        await context.report_progress(step, to)
    return to


@server.tool
def fail() -> None:
    """Raise an exception."""
    raise ValueError("a bug of the server")


@server.resource("config://{section}")
def config(section: str) -> str:
    """A resource template."""
    return f"section {section}"


if __name__ == "__main__":
    server.run(show_banner=False)
