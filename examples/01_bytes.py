"""Two processes exchange JSON, one value a line, over a pipe each way: all that MCP's stdio transport is.

New here: *framing*. A pipe carries bytes without borders, so somebody must say where a message ends. JSON writes a
newline inside a string as the two characters \\n; so a newline between two values can mean only one thing.

    python3 examples/01_bytes.py                    starts a second process, asks it three things, ends it

Watch it fail: the output belongs to the messages. One `print` for the curious, and the other side has a line that is
no JSON. (So a server logs to standard error, which is nobody's protocol.)

    python3 examples/01_bytes.py --chatty

Next: 02_jsonrpc.py. Here the n-th answer belongs to the n-th question, and a slow one holds up all behind it.
"""

import json
import subprocess
import sys


def serve(chatty: bool) -> None:
    """The second process: for each line that comes in, one that goes out. It ends when its input does."""
    for line in sys.stdin.buffer:
        if chatty:
            print("got a message!")
        text = json.loads(line)
        answer = {"text": text.upper(), "characters": len(text)}
        # Without the flush, the answer would stay in this process's buffer, and both sides would wait for ever.
        print(json.dumps(answer), flush=True)


def ask(server: "subprocess.Popen[bytes]", text: str) -> object:
    """One value out, one value back."""
    assert server.stdin and server.stdout
    server.stdin.write(json.dumps(text).encode() + b"\n")
    server.stdin.flush()
    line = server.stdout.readline()
    if not line.endswith(b"\n"):
        raise EOFError(f"the other process ended in the middle of a message: {line!r}")
    try:
        return json.loads(line)
    except ValueError:
        server.communicate()  # close its input and read what is left, so that it can end in order
        raise SystemExit(f"this is no message, and now nobody knows where the next one begins: {line!r}") from None


def main() -> None:
    """Start this very file a second time, as the server, and talk to it."""
    command = [sys.executable, __file__, "--serve", *sys.argv[1:]]
    # Leaving the `with` closes the server's input, which is how it learns that the conversation is over.
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        for text in ("hello", "two\nlines", "naïve — ☕"):
            answer = ask(server, text)
            print(f"{text!r:14} -> {answer}")
            assert answer == {"text": text.upper(), "characters": len(text)}
    assert server.returncode == 0
    print("Three values there, three back, and the other process has left.")


if __name__ == "__main__":
    if "--serve" in sys.argv:
        serve(chatty="--chatty" in sys.argv)
    else:
        main()
