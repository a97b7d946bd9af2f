"""A client that offers a model to summarize.py. Its user can refuse each request.

New here: a *sampling handler*. A client with this handler declares the capability `sampling`. In your own client,
replace `first_sentences` with a call of your model's API. The user sees a request before the model does, and can refuse
it. A refusal is an error with its own code. (Before 2026-07-28, the server receives this error. In 2026-07-28 the
error ends `call_tool` in the client, because the server does not wait for a reply.)

    python3 examples/summarize_client.py                summarizes a text without a real model
    python3 examples/summarize_client.py --ask          asks you before each use of the model

Watch it fail: the user refuses.

    python3 examples/summarize_client.py --deny
"""

import asyncio
import re
import sys
from pathlib import Path

from mcp_ref import Client, CreateMessageRequestParams, CreateMessageResult, ProtocolError, TextContent
from mcp_ref.features.sampling import USER_REJECTED

SERVER = [sys.executable, str(Path(__file__).with_name("summarize.py"))]
TEXT = """The Model Context Protocol connects programs with language models. It is spoken between a client and a server.
The client starts the server. They shake hands.

A server offers tools, resources and prompts. A client offers roots, sampling and elicitation. Each side says first
what it has. Nothing else is used."""


one_at_a_time = asyncio.Lock()


def first_sentences(question: str) -> str:
    """Return the first sentences of a text. This replaces a model, so that the program runs anywhere."""
    rule, _, text = question.removesuffix("\n</text>").partition("\n<text>\n")
    limit = int("".join(filter(str.isdecimal, rule)))  # the number in "Summarize in at most 3 sentences."
    return " ".join(re.split(r"(?<=\.)\s+", text)[:limit])


async def use_model(params: CreateMessageRequestParams) -> CreateMessageResult:
    """Serve one sampling request at a time."""
    async with one_at_a_time:  # a server can send several requests at the same time
        return await use_model_now(params)


async def use_model_now(params: CreateMessageRequestParams) -> CreateMessageResult:
    """Show the request to the user, and use the model if the user agrees."""
    blocks = [block for message in params.messages for block in message.blocks]
    question = "\n".join(block.text for block in blocks if isinstance(block, TextContent))
    print(f"The server asks the model, for at most {params.max_tokens} tokens: {question[:70]!r}…")
    if "--ask" in sys.argv:
        agreed = await asyncio.to_thread(input, "  Agreed? [y/N] ") == "y"
    else:
        agreed = "--deny" not in sys.argv
    if not agreed:
        raise ProtocolError(USER_REJECTED, "User rejected sampling request")
    return CreateMessageResult("assistant", TextContent(first_sentences(question)), "first-sentences", "endTurn")


async def main() -> None:
    """Call the tool with a text."""
    async with Client(SERVER, sampling=use_model) as client:
        result = await client.call_tool("summarize", {"text": TEXT, "sentences": 2}, timeout=600)
        print(result.text)
        if result.is_error:
            sys.exit(1)
        assert result.text == TEXT.splitlines()[0], result.text


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except ProtocolError as error:
        sys.exit(f"not summarized: {error.message}")
