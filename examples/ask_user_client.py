"""A client that shows a server's form to its user, field by field, and returns the reply.

New here: an *elicitation handler*. A client that has one declares the capability `elicitation`. The handler receives a
message and the schema of a form, lets the user refuse, and returns `accept`, `decline` or `cancel`.

    python3 examples/ask_user_client.py                 replies without a user, in three ways
    python3 examples/ask_user_client.py --ask           asks you on the terminal; an empty line means the value in []

Watch it fail: a reply with thirteen guests. The form allows at most 12, so the client does not send this reply.

    python3 examples/ask_user_client.py --guests 13
"""

import asyncio
import sys
from pathlib import Path

from mcp_ref import Client, ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult, McpError

SERVER = [sys.executable, str(Path(__file__).with_name("ask_user.py"))]
Question = ElicitRequestFormParams | ElicitRequestURLParams


async def ask(question: Question) -> ElicitResult:
    """Ask the user on the terminal. Convert each text to the type that the schema demands."""
    assert isinstance(question, ElicitRequestFormParams)
    print(f"The server asks: {question.message} (n for no)")
    content: dict[str, str | int | float | bool | list[str]] = {}
    fields = question.requested_schema["properties"]
    assert isinstance(fields, dict)
    for name, field in fields.items():
        assert isinstance(field, dict)
        choices = f" {field['enum']}" if "enum" in field else ""
        default = f" [{field['default']}]" if "default" in field else ""
        try:
            typed = await asyncio.to_thread(input, f"  {field.get('description', name)}{choices}{default}: ")
        except EOFError:  # Ctrl-D closes the form
            return ElicitResult("cancel")
        if typed == "n":
            return ElicitResult("decline")
        if typed:  # leave out an empty field, so that the client fills in the default
            match field["type"]:
                case "integer":
                    content[name] = int(typed)
                case "boolean":
                    content[name] = typed in ("y", "yes")
                case _:
                    content[name] = typed
    return ElicitResult("accept", content)


async def call(reply: ElicitResult) -> str:
    """Book a table. The user always gives the same reply."""

    async def handler(question: Question) -> ElicitResult:
        print(f"  asked: {question.message} answered: {reply.action} {reply.content or ''}")
        return reply

    async with Client(SERVER, elicitation=handler) as client:
        result = await client.call_tool("book_table", {"day": "2030-01-01"})
        print(result.text)
        return result.text


async def main() -> None:
    """Give every kind of reply, or the reply from the command line."""
    if "--ask" in sys.argv:
        async with Client(SERVER, elicitation=ask) as client:
            print((await client.call_tool("book_table", {"day": "2030-01-01"}, timeout=600)).text)
    elif "--guests" in sys.argv:
        text = await call(ElicitResult("accept", {"guests": int(sys.argv[-1])}))
        sys.exit(0 if text.startswith("Booked") else 1)
    else:
        assert await call(ElicitResult("accept", {"guests": 4})) == "Booked: 4 people on 2030-01-01 at 19:30."
        assert "Nothing was booked" in await call(ElicitResult("decline"))
        assert "Nothing was booked" in await call(ElicitResult("cancel"))


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except McpError as error:
        sys.exit(f"not booked: {error}")
