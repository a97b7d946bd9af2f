"""What is behind `python3 -m mcp_ref`: `ask.py` (list, call, read, watch, prompt, complete), `serve.py` (run),
`changes.py` (revisions); `values.py` reads arguments, `show.py` prints, `person.py` asks the person at the terminal.
"""


class UsageError(Exception):
    """The command line asks for what cannot be; the text says what can. Exit code 2."""
