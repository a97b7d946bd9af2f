"""The duties of a host, and the acceptance tests of ours: each has a test that names it, or a reason."""

from __future__ import annotations

ACCEPTANCE = {
    "1": "the file of each known host is read",
    "2": "each form of a variable is replaced in each place",
    "3": "an unset variable costs one server",
    "4": "unknown and ignored keys warn once",
    "5": "a file cannot grant consent",
    "6": "a project cannot replace a server of the user",
    "7": "no output contains a secret",
    "8": "reading a file starts no process and opens no socket",
    "9": "model names are unique, valid for every provider, and reversible",
    "10": "another server renames nothing",
    "14": "two keys with one name are refused",
    "15": "each kind of approval has its server and its origin",
    "16": "without approve no capability is on the wire",
    "17": "a changed definition is asked again",
    "18": "remembered decisions end with a changed configuration",
    "19": "an approve function that raises, hangs or returns nonsense denies",
    "20": "edited arguments are validated",
    "21": "each budget has its error",
    "22": "each decision has an audit line, and a failing log refuses",
    "23": "a missing command",
    "24": "a silent server",
    "25": "a server that dies in a call",
    "26": "a server that responds and exits",
    "27": "a server that floods",
    "28": "a list that changes itself",
    "29": "the grace period of the tools",
    "30": "a changed configuration",
    "31": "no child of a server is left",
    "32": "a server without responses is suspended",
    "A1": "a changed command under an approved name",
    "A2": "a hostile file in the working directory",
    "A3": "a description that changes after the approval",
    "A4": "instructions in a schema, and hidden characters",
    "A5": "a second server with the same tool, title and URI",
    "A6": "a name that imitates another name",
    "A7": "data of one server that goes to another server",
    "A8": "sampling without end",
    "A9": "phishing by elicitation",
    "A13": "floods and loops",
    "A14": "death in every state",
    "A15": "users that never decide",
}
"""The acceptance tests, by number; A for an attack. The missing numbers are for a bridge and for a loop of a model."""

_PAGES: dict[str, int | tuple[int, int]] = {
    "index#implementation-guidelines": 5,
    "server/tools#user-interaction-model": (2, 4),
    "server/tools#security-considerations": (5, 10),
    "server/tools#tool": (2, 2),
    "server/tools#tool-names": (6, 7),
    "client/sampling#user-interaction-model": 4,
    "client/sampling#security-considerations": 7,
    "client/sampling#sampling-parameters": 1,
    "client/elicitation#user-interaction-model": (3, 6),
    "client/elicitation#safe-url-handling": (5, 12),
    "client/elicitation#form-mode-security": (2, 2),
    "client/roots#security-considerations": 4,
    "client/roots#implementation-guidelines": 4,
    "basic/index#icons": (5, 12),
    "basic/patterns/cancellation#timeouts": 4,
    "basic/patterns/cancellation#implementation-notes": (2, 2),
    "basic/transports/stdio#unexpected-termination": 1,
    "basic/patterns/subscriptions#graceful-closure": (2, 2),
    "basic/index#statelessness": (4, 4),
    "basic/patterns/mrtr#client-requirements-basic-workflow": 6,
    "server/utilities/caching#cache-key": 2,
    "server/utilities/caching#cache-scope-field": 1,
    "basic/transports/streamable-http#server-validation": (6, 8),
    "basic/authorization/security-considerations#confused-deputy-problem": 1,
}

DUTIES = [
    f"2026-07-28/{page}-{number}"
    for page, numbers in _PAGES.items()
    for number in (range(1, numbers + 1) if isinstance(numbers, int) else range(numbers[0], numbers[1] + 1))
]
"""The sentences of the specification that a host must obey, or that only a host can obey, by id."""

_UI = "a duty of the program with the user interface; the host gives it `status()`, `on_event` and `Approval`"
_BETWEEN = "a duty of a proxy between client and server; the host is the client"

REASONS = {
    "2026-07-28/index#implementation-guidelines-1": "it is about the whole program; each kind of `Approval` has a test",
    "2026-07-28/index#implementation-guidelines-2": "it demands documentation, such as the docstring of policy.py",
    "2026-07-28/index#implementation-guidelines-3": "it is about the whole program; the rules of roots have tests",
    "2026-07-28/index#implementation-guidelines-4": "it points to practices, of which those for a host have tests",
    "2026-07-28/index#implementation-guidelines-5": "it demands a thought; `after` and roots have tests",
    "2026-07-28/server/tools#user-interaction-model-2": _UI,
    "2026-07-28/server/tools#user-interaction-model-3": _UI,
    "2026-07-28/basic/patterns/cancellation#implementation-notes-2": _UI,
    "2026-07-28/client/elicitation#safe-url-handling-12": _UI,
    "2026-07-28/client/roots#implementation-guidelines-2": _UI,
    "2026-07-28/client/roots#implementation-guidelines-4": "a server gets the directories that exist at its start; "
    "`Client.set_roots` tells it of a change",
    "2026-07-28/client/sampling#security-considerations-2": "the codec refuses malformed messages in both directions",
    "2026-07-28/client/sampling#security-considerations-3": "a duty of the program, which chooses the model",
    "2026-07-28/client/sampling#security-considerations-7": "the budget of sampling requests is per call; a loop of a "
    "server's tools is inside the program's `sampling` function",
    "2026-07-28/basic/transports/streamable-http#server-validation-7": _BETWEEN,
    "2026-07-28/basic/transports/streamable-http#server-validation-8": _BETWEEN,
}
"""The reasons of the duties without a test. The duties that are a MUST can have theirs in tests/untested instead."""
