"""A client that opens a server's web page for its user. It first shows the whole URL and asks the user.

New here: `elicitation_url=True` declares that the client can open a URL. The handler returns as soon as the user
agrees. The tool's result says if the sign-in succeeded. (In 2025-11-25 the server also sends a notification.)

    python3 examples/sign_in_client.py                  visits the page, and searches all messages for the key
    python3 examples/sign_in_client.py --browser        asks you, and opens your browser

Watch it fail: the user declines.

    python3 examples/sign_in_client.py --decline
"""

import asyncio
import sys
import webbrowser
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import urlopen

from mcp_ref import Client, ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult

SERVER = [sys.executable, str(Path(__file__).with_name("sign_in.py"))]
KEY = "correct horse battery staple"
Question = ElicitRequestFormParams | ElicitRequestURLParams
browsing: list[asyncio.Task[str]] = []


async def ask(question: Question) -> ElicitResult:
    """Show the URL, and open the page only if the user agrees."""
    assert isinstance(question, ElicitRequestURLParams)
    print(f"{question.message}\n  The server wants to open {question.url} (on {urlsplit(question.url).hostname})")
    if "--browser" not in sys.argv:
        if "--decline" in sys.argv:
            return ElicitResult("decline")
        browsing.append(asyncio.create_task(asyncio.to_thread(visit, question.url)))
    elif await asyncio.to_thread(input, "  Open it? [y/N] ") == "y":
        webbrowser.open(question.url)
    else:
        return ElicitResult("decline")
    return ElicitResult("accept")


def visit(url: str) -> str:
    """Act as a user with a browser. First check that the response to a wrong path is 404."""
    try:
        with urlopen(f"http://{urlsplit(url).netloc}/guess", timeout=10):
            raise AssertionError("a guessed path was served")
    except HTTPError as error:
        assert error.code == 404
        error.close()
    with urlopen(url, timeout=10) as page:
        assert b"<form" in page.read()
    with urlopen(url, urlencode({"key": KEY}).encode(), timeout=10) as page:
        return str(page.read(), "utf-8")


async def main() -> None:
    """Sign in, and check that no message contains the key."""
    frames: list[bytes] = []
    done = asyncio.Event()
    async with Client(
        SERVER,
        elicitation=ask,
        elicitation_url=True,
        on_elicitation_complete=lambda name: done.set(),
        trace=lambda direction, frame: frames.append(frame),
    ) as client:
        result = await client.call_tool("sign_in", timeout=400)
        print(result.text)
        if result.is_error:
            sys.exit(1)
        async with asyncio.timeout(10):
            if client.revision.name == "2025-11-25":
                await done.wait()
            for task in browsing:
                print("The page says:", await task)
    assert not any(KEY.encode() in frame or b"correct" in frame for frame in frames)
    print(f"{len(frames)} messages were exchanged, all without the key.")


if __name__ == "__main__":
    asyncio.run(main())
