"""Roots: the directories that a client offers to a server. Completion: at most 100 suggestions.

Spec:  client/roots, server/utilities/completion (2024-11-05 to 2026-07-28)
Used by: conversation.py
"""

from __future__ import annotations

from ..features.completion import MAX_VALUES
from ..features.roots import Root, checked_root
from ..jsonrpc.messages import Object
from .rules import MUST, Fault, Verdict, rule
from .state import Message, an_object, objects


@rule(MUST, "2026-07-28/client/roots#root-1", "request result")
def root_uris(message: Message) -> Verdict:
    """A root is a file:// URI without '..'."""
    if message.kind == "result":
        results: list[Object] = [message.body] if message.method == "roots/list" else []
    else:  # since 2026-07-28, the result is in the client's next request
        results = [an_object(each) for each in an_object(message.body.get("inputResponses")).values()]
    for result in results:
        for root in objects(result.get("roots")):
            try:
                checked_root(Root(str(root.get("uri"))))
            except ValueError as error:
                return Fault(str(error), side="client")
    return None


@rule(MUST, "schema/CompleteResult", "result", methods="completion/complete")
def completion_values(message: Message) -> Verdict:
    """A completion has at most 100 values."""
    values = an_object(message.body.get("completion")).get("values")
    count = len(values) if isinstance(values, list) else 0
    return f"the completion has {count} values" if count > MAX_VALUES else None
