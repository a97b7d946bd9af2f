"""Completion: the server suggests values while a user types an argument, as an editor suggests words.

The client sends the text so far, and the server returns at most 100 values, the best first. It can complete arguments
of prompts (`ref/prompt`) and variables of resource templates (`ref/resource`), but not arguments of tools.

Suggestions MUST NOT disclose sensitive data [2025-11-25 server/utilities/completion#security], because an attacker who
tries one letter after another could read a whole list of users, files or customers. So a completer (the function that
returns suggestions) must suggest only values that the user is allowed to see. Servers MUST limit the rate of requests,
and clients SHOULD debounce, which means to wait for a pause in the typing.

    2024-10-07  Adds `completion/complete`. No capability announces the method, so a client has to try it.
    2025-03-26  Servers MUST declare the capability `completions`. A server without completion SHOULD return -32601. An
                unknown prompt or a missing argument SHOULD be -32602.
    2025-06-18  Adds `context.arguments`, which the user has already filled in.

Spec:  server/utilities/completion (2024-11-05 to 2026-07-28); schema: CompleteRequest, CompleteResult
Wire:  {"jsonrpc": "2.0", "id": 1, "method": "completion/complete", "params": {"ref": {"type": "ref/prompt",
        "name": "review"}, "argument": {"name": "language", "value": "py"}}}
       {"jsonrpc": "2.0", "id": 1, "result": {"completion": {"values": ["python"], "total": 1, "hasMore": false}}}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeAlias

from ..basic.channel import RequestContext
from ..jsonrpc.errors import ProtocolError
from ..jsonrpc.messages import INVALID_PARAMS, JSON, Object
from ..lib.fields import check_unicode
from ..lib.typed import Signature, to_json
from ..lib.uritemplate import canonical_template
from ..revisions import R2025_06_18, Availability
from .invoke import call, handler_signature

MAX_VALUES = 100
"""Maximum number of values in one result. [2025-11-25 server/utilities/completion#completion-results]"""
_PARAMETER_TYPES = (("string", "str"), ("object", "dict[str, str]"))
"""The types of a completer's parameters, in JSON and in Python: the text so far, and the other arguments."""


@dataclass
class PromptReference:
    """The prompt whose argument the user is typing."""

    type: Literal["ref/prompt"] = field(default="ref/prompt", kw_only=True)
    name: str
    title: Annotated[str | None, Availability(since=R2025_06_18)] = None


@dataclass
class ResourceTemplateReference:
    """The resource template whose variable the user is typing."""

    type: Literal["ref/resource"] = field(default="ref/resource", kw_only=True)
    uri: str
    """The URI template, or a URI."""


@dataclass
class CompleteArgument:
    name: str
    value: str
    """The text that the user has typed so far."""


@dataclass
class CompleteContext:
    """The arguments that the user has already filled in."""

    arguments: dict[str, str] | None = None


@dataclass
class CompleteRequestParams:
    ref: PromptReference | ResourceTemplateReference
    argument: CompleteArgument
    context: Annotated[CompleteContext | None, Availability(since=R2025_06_18)] = None
    meta: Object | None = None


@dataclass
class Completion:
    """The suggestions for one argument."""

    values: list[str]
    """At most 100 values, the best first."""
    total: int | None = None
    """Number of all matching values; None if unknown."""
    has_more: bool | None = None
    """True if `values` does not contain all matching values."""


@dataclass
class CompleteResult:
    completion: Completion
    meta: Object | None = None


Reference: TypeAlias = PromptReference | ResourceTemplateReference


class Completions:
    """The completers of a server, and the handler of `completion/complete`."""

    def __init__(
        self,
        context_type: type | None,
        arguments_of: Callable[[Reference], list[str] | None],
        on_add: Callable[[], None],
    ) -> None:
        self._on_add = on_add
        self._context_type = context_type
        self._arguments_of = arguments_of
        self._completers: dict[tuple[str, str], tuple[Callable[..., object], Signature]] = {}
        self._unchecked: list[tuple[str, str]] = []  # keys of completers whose target may not be registered yet

    def add(self, target: str, argument: str, function: Callable[..., object]) -> None:
        """Register a completer for an argument. `target` is the prompt's name, or the URI template of the resource.

        The completer is `function(value)` or `function(value, arguments)`. `arguments` maps the names of the other
        arguments to their values. The completer returns a list of str, or a `Completion`.
        """
        for text in (target, argument):
            check_unicode(f"the target or argument {text!r:.80} of a completion", text)
        signature = handler_signature(function, self._context_type)
        names = [parameter.name for parameter in signature.parameters]
        if not 1 <= len(names) <= 2:
            raise TypeError(f"{signature.name}() must take (value) or (value, arguments), not ({', '.join(names)})")
        for parameter, (json_type, annotation) in zip(signature.parameters, _PARAMETER_TYPES, strict=False):
            types = parameter.schema.get("type", json_type)
            if types != json_type and not (isinstance(types, list) and json_type in types):
                raise TypeError(f"{signature.name}({parameter.name}): annotate the parameter as {annotation}")
        # A prompt is found by its exact name, a template by its canonical form, and `target` may be either.
        for name in (target, _canonical(target)):
            self._completers[name, argument] = (function, signature)
        self._unchecked.append((target, argument))
        self._on_add()

    def check(self) -> None:
        """Raise ValueError if a completer is for an unknown prompt, template or argument.

        `add` does not raise this error, because the prompt can be registered after its completer.
        """
        while self._unchecked:
            target, argument = self._unchecked[-1]
            of_prompt = self._arguments_of(PromptReference(target))
            of_template = self._arguments_of(ResourceTemplateReference(target))
            known = [*(of_prompt or ()), *(of_template or ())]
            fault = f"a completion is for {argument!r} of {target!r}, but {target!r}"
            if of_prompt is None and of_template is None:
                raise ValueError(f"{fault} is neither a prompt nor a template")
            if argument not in known:
                raise ValueError(f"{fault} has no such argument; its arguments are {', '.join(known) or 'none'}")
            self._unchecked.pop()  # not before, so that the next `check` raises the same error

    async def complete(self, params: CompleteRequestParams, context: RequestContext) -> CompleteResult:
        """Return suggestions, which are empty for an argument without a completer."""
        target = params.ref.name if isinstance(params.ref, PromptReference) else params.ref.uri
        if self._arguments_of(params.ref) is None:
            # [2025-11-25 server/utilities/completion#error-handling] an invalid prompt name SHOULD be -32602
            raise ProtocolError(INVALID_PARAMS, f"Unknown prompt or resource template: {target[:200]!r}")
        if not isinstance(params.ref, PromptReference):
            target = _canonical(target)
        completer = self._completers.get((target, params.argument.name))
        if completer is None:
            return CompleteResult(Completion([]))
        function, signature = completer
        others = params.context.arguments if params.context is not None else None
        names = [parameter.name for parameter in signature.parameters]
        values = (params.argument.value, others or {})  # a completer with one parameter gets only the first
        arguments: dict[str, object] = dict(zip(names, values, strict=False))
        value = await call(function, signature, arguments, context)
        completion = value if isinstance(value, Completion) else Completion(_values_of(value, signature.name))
        if len(completion.values) > MAX_VALUES:
            total = completion.total if completion.total is not None else len(completion.values)
            completion = Completion(completion.values[:MAX_VALUES], total, has_more=True)
        return CompleteResult(completion)


def _canonical(target: str) -> str:
    return canonical_template(target) or target


def _values_of(value: object, name: str) -> list[str]:
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        raise TypeError(f"the completer {name} must return a list of str or a Completion, not {type(value).__name__}")
    return [_text_of(to_json(each), name) for each in value]


def _text_of(value: JSON, name: str) -> str:
    if value is None or isinstance(value, (list, dict)):
        raise TypeError(f"the completer {name} returned a list with {value!r:.80}, which cannot be the text of a value")
    return value if isinstance(value, str) else json.dumps(value)
