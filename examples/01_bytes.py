"""Two processes exchange JSON, one value on each line, over two pipes. MCP's stdio transport works in this way.

New here: *framing*. A pipe transports only a sequence of bytes, so both sides must agree where a message ends. Because
JSON writes a newline inside a string as the two characters \\n, a real newline can only separate two values.

    python3 examples/01_bytes.py                    starts a second process, sends three values, ends the process

Watch it fail: if the server prints a debug text to standard output, the other side reads a line that is not JSON. So a
server must log to standard error, which is not part of the protocol.

    python3 examples/01_bytes.py --chatty

In this file the n-th reply belongs to the n-th value, so a slow reply delays all later replies. Next: 02_jsonrpc.py.
"""

import json
import subprocess
import sys


def serve(chatty: bool) -> None:
    """Run the second process: reply to each line with one line, and end when the input ends."""
    for line in sys.stdin.buffer:
        if chatty:
            print("got a message!")
        text = json.loads(line)
        reply = {"text": text.upper(), "characters": len(text)}
        # Without the flush, the reply would stay in a buffer of this process, and both sides would wait forever.
        print(json.dumps(reply), flush=True)


def ask(server: "subprocess.Popen[bytes]", text: str) -> object:
    """Send one value and return the reply."""
    assert server.stdin and server.stdout
    server.stdin.write(json.dumps(text).encode() + b"\n")
    server.stdin.flush()
    line = server.stdout.readline()
    if not line.endswith(b"\n"):
        raise EOFError(f"the other process ended in the middle of a message: {line!r}")
    try:
        return json.loads(line)
    except ValueError:
        server.communicate()  # close the server's input and read its remaining output, so that the server can end
        raise SystemExit(f"the server sent a line that is not a message: {line!r}") from None


def main() -> None:
    """Start this file a second time as the server, and send it values."""
    command = [sys.executable, __file__, "--serve", *sys.argv[1:]]
    # The end of the `with` closes the server's input. Then the server knows that no more values come, and ends.
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        for text in ("hello", "two\nlines", "naïve — ☕"):
            reply = ask(server, text)
            print(f"{text!r:14} -> {reply}")
            assert reply == {"text": text.upper(), "characters": len(text)}
    assert server.returncode == 0
    print("Three values sent, three received, and the other process has ended.")


if __name__ == "__main__":
    if "--serve" in sys.argv:
        serve(chatty="--chatty" in sys.argv)
    else:
        main()
