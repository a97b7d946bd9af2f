"""Rules for stdio, where each line is one message, and advice against deprecated features.

Spec:  basic/transports#stdio (2024-11-05 to 2025-11-25), 2026-07-28 basic/transports/stdio, deprecated
Used by: conversation.py
"""

from __future__ import annotations

from typing import Final

from .rules import ADVICE, FORM, MUST, Fault, Verdict, modern_rule, rule
from .state import Message

_PAGE: Final = "2026-07-28/basic/transports/stdio"
_DEPRECATED: Final = {
    "roots": "tool parameters, resource URIs or the server's configuration",
    "sampling": "the API of a model's provider",
    "logging": "standard error, or OpenTelemetry",
}


# The next two rules always find a fault, because they judge only lines that are not messages: `methods="text"` selects
# the malformed messages that are not even a JSON object (`kind_of_fault` in messages.py).


@rule(MUST, f"{_PAGE}#intro-3", "malformed", methods="text", needs="stdio", by="server", stage=FORM)
def output_is_messages(message: Message) -> Verdict:
    """Each line of standard output is a message."""
    return f"a line of standard output is not a message: {message.fault}"


@rule(MUST, f"{_PAGE}#intro-4", "malformed", methods="text", needs="stdio", by="client", stage=FORM)
def input_is_messages(message: Message) -> Verdict:
    """Each line of standard input is a message."""
    return f"a line of standard input is not a message: {message.fault}"


@modern_rule(ADVICE, "2026-07-28/deprecated#intro-1", "request result")
def deprecated(message: Message) -> Verdict:
    """Deprecated features are not adopted."""
    for feature, replacement in _DEPRECATED.items():
        if feature in message.declared:
            # the key makes one finding for each feature, although a modern client declares it in every request
            return Fault(f"the {message.side} declares {feature}, which is deprecated: use {replacement}", key=feature)
    return None
