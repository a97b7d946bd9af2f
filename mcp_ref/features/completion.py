"""Completion: suggestions for the argument that a person is typing, of a prompt or of a resource template.

Spec:  server/utilities/completion (2024-10-07 to 2026-07-28); schema: CompleteRequest, CompleteResult
Wire:  {"jsonrpc": "2.0", "id": 1, "method": "completion/complete", "params": {"ref": {"type": "ref/prompt",
        "name": "code_review"}, "argument": {"name": "language", "value": "py"}}}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeAlias, cast

from ..jsonrpc.errors import ProtocolError
from ..jsonrpc.messages import INVALID_PARAMS, Object
from ..lib.typed import Signature, signature_of
from ..revisions import R2025_06_18, Life
from .invoke import Scope, call

MAX_VALUES = 100
"""[2025-11-25 server/utilities/completion#completion-results] maximum 100 items per response"""

# ---------------------------------------------------------------------------------------------------- types


@dataclass
class PromptReference:
    """The prompt whose argument is completed."""

    type: Literal["ref/prompt"] = field(default="ref/prompt", kw_only=True)
    name: str
    title: Annotated[str | None, Life(since=R2025_06_18)] = None


@dataclass
class ResourceTemplateReference:
    """The resource or template whose variable is completed; `uri` may be the template itself."""

    type: Literal["ref/resource"] = field(default="ref/resource", kw_only=True)
    uri: str


@dataclass
class CompleteArgument:
    """The argument being typed, and what there is of it so far."""

    name: str
    value: str


@dataclass
class CompleteContext:
    """What the other arguments are already."""

    arguments: dict[str, str] | None = None


@dataclass
class CompleteRequestParams:
    """What to complete."""

    ref: PromptReference | ResourceTemplateReference
    argument: CompleteArgument
    context: Annotated[CompleteContext | None, Life(since=R2025_06_18)] = None
    meta: Object | None = None


@dataclass
class Completion:
    """Suggestions, best first, at most 100; `total` is how many there are in all, where known."""

    values: list[str]
    total: int | None = None
    has_more: bool | None = None


@dataclass
class CompleteResult:
    """The answer to `completion/complete`."""

    completion: Completion
    meta: Object | None = None


Reference: TypeAlias = PromptReference | ResourceTemplateReference

# ---------------------------------------------------------------------------------------------------- server


class Completions:
    """A server's completions, by what they complete: a prompt's name or a template's URI, and the argument.

    `is_known(ref)` says whether the server has the prompt or the resource that a request refers to.
    """

    def __init__(self, context_type: type | None, is_known: Callable[[Reference], bool]) -> None:
        self._context_type = context_type
        self._is_known = is_known
        self._completers: dict[tuple[str, str], tuple[Callable[..., object], Signature]] = {}

    def add(self, target: str, argument: str, function: Callable[..., object]) -> None:
        """Register `function(value)`, or `function(value, arguments)` to see the other arguments.

        target: a prompt's name, or a resource template. It returns a list of str, or a `Completion`.
        """
        signature = signature_of(function, context_type=self._context_type)
        names = [parameter.name for parameter in signature.parameters]
        if not 1 <= len(names) <= 2:
            raise TypeError(f"{signature.name}() takes (value) or (value, arguments), not ({', '.join(names)})")
        self._completers[target, argument] = (function, signature)

    async def complete(self, params: CompleteRequestParams, scope: Scope) -> CompleteResult:
        """Serve `completion/complete`. What is known but has no completer has no suggestions."""
        target = params.ref.name if isinstance(params.ref, PromptReference) else params.ref.uri
        if not self._is_known(params.ref):
            # [2025-11-25 server/utilities/completion#error-handling] invalid prompt name: -32602
            raise ProtocolError(INVALID_PARAMS, f"Nothing to complete for {target[:200]!r}")
        found = self._completers.get((target, params.argument.name))
        if found is None:
            return CompleteResult(Completion([]))
        function, signature = found
        others = (params.context.arguments if params.context else None) or {}
        names = [parameter.name for parameter in signature.parameters]
        arguments: dict[str, object] = dict(zip(names, (params.argument.value, others), strict=False))
        value = await call(function, signature, arguments, scope)
        completion = (
            value if isinstance(value, Completion) else Completion([str(v) for v in cast(Iterable[object], value)])
        )
        if len(completion.values) > MAX_VALUES:
            total = completion.total if completion.total is not None else len(completion.values)
            completion = Completion(completion.values[:MAX_VALUES], total, True)
        return CompleteResult(completion)
