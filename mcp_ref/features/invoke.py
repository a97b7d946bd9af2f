"""Invocation of the author's functions behind tools, resources, prompts and completers.

An `async def` function runs on the event loop. A plain `def` function runs in a worker thread, because on the event
loop it would stop the requests of all clients while it waits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from inspect import isawaitable
from math import isfinite

from ..basic.channel import RequestContext
from ..basic.mrtr import HandlerNeedsInput, collect_input_requests
from ..codec import codec_for
from ..lib.jsonschema import compile_schema
from ..lib.typed import ConversionError, Signature, signature_of, to_json
from ..lib.typed.unions import TYPE_NAMES, Schema, json_types
from ..revisions import REVISIONS

log = logging.getLogger(__name__)


async def call(
    function: Callable[..., object], signature: Signature, arguments: dict[str, object], context: RequestContext
) -> object:
    """Call a function with arguments by name. If it raises an exception group, raise one exception instead."""
    if signature.context_parameter is not None:
        arguments = {**arguments, signature.context_parameter: context}
    try:
        if signature.is_async:
            return await function(**arguments)  # type: ignore[misc]
        value = await context.run_in_worker(lambda: function(**arguments))
        return await value if isawaitable(value) else value  # a plain function may return a coroutine
    except BaseExceptionGroup as group:
        input_requests = collect_input_requests(group)
        if input_requests is not None:
            raise input_requests  # noqa: B904  # the group is its `__context__`
        # Raise a failure rather than the input requests beside it, or the user would work for a retry that fails again.
        _, failures = group.split(HandlerNeedsInput)
        raise _first_exception(failures or group)  # noqa: B904


def _first_exception(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    _, others = group.split(type(error))
    if others is not None:  # further exceptions of the same type are not worth a warning
        name = type(error).__name__
        log.warning("the handler raised several exceptions; the client is told only of %s", name, exc_info=others)
    return error


def check_description(description: object, options: Mapping[str, object]) -> None:
    """Raise TypeError for a wrong type inside an option, for which clients would refuse the whole list."""
    if options:
        codec_for(REVISIONS[-1]).encode(description)


def _fits_type(schema: Schema, default: object) -> bool:
    """Return True if the `type` or `enum` of a generated schema shows that a default is valid, without a validator."""
    has_json_form = default is None or "default" in schema
    if not has_json_form or not schema.keys() <= {"type", "format", "enum", "description", "default"}:
        return False
    name, types, choices = TYPE_NAMES.get(type(default)), json_types(schema), schema.get("enum")
    if isinstance(choices, list):
        return any(type(choice) is type(default) and choice == default for choice in choices)
    return name in types or (name == "integer" and "number" in types)


def handler_signature(
    function: Callable[..., object], context_type: type | None, schemaless_types: tuple[type, ...] | None = None
) -> Signature:
    """Return the signature of an author's function, with the arguments and exceptions of `signature_of`.

    Raise TypeError also if the default of a parameter does not fit the parameter's own type.
    """
    signature = signature_of(function, context_type=context_type, schemaless_types=schemaless_types)
    for parameter in signature.parameters:
        default = parameter.default
        fault = None if parameter.required else _default_fault(parameter.schema, default, signature.is_generated)
        if fault is not None:
            advice = "allow None in the annotation, as in `str | None`" if default is None else "change one of the two"
            if hasattr(default, "metadata"):  # pydantic's Field
                advice = "put the Field into the annotation, as in `Annotated[int, Field(ge=0)] = 3`"
            where = f"{signature.name}({parameter.name})"
            raise TypeError(f"{where}: the default {default!r:.100} is not a value of the type: {fault}; {advice}")
    return signature


def _default_fault(schema: Schema, default: object, is_generated: bool) -> str | None:
    """Return the reason why a default does not match the schema of its parameter, or None if it does."""
    is_not_finite = type(default) is float and not isfinite(default)  # a number in Python, but not in JSON
    is_model = hasattr(type(default), "model_dump")  # it checks itself, and may write other fields than it reads
    if is_not_finite or is_model or (is_generated and _fits_type(schema, default)):
        return None
    try:
        errors = compile_schema(schema).errors(to_json(default))
    except ConversionError as unfit:  # the default has no JSON form, which only a schema without a type allows
        return unfit.why if schema.keys() - {"description"} else None
    return errors[0].message if errors else None
