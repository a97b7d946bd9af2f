"""A function, as what a caller may send to it and what it sends back.

Everything is worked out once, by `signature_of`. A call then costs one `bind`, and its result one `to_json`.

Below: annotations.py, docstrings.py. Above: the package's users. Elsewhere: whether arguments satisfy the
schema (a validator's business, before `bind`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, get_args, get_origin

from .annotations import AnnotationScope, Conversion, conversion_of, object_schema, read_members, with_default
from .docstrings import read_docstring
from .unions import Reader, Schema
from .values import UnfitValue


@dataclass
class Parameter:
    """One argument that a caller may send. `default` means nothing where it is required."""

    name: str
    description: str
    required: bool
    default: object
    annotation: object
    schema: Schema = field(repr=False)


@dataclass
class Signature:
    """A function seen from the wire."""

    name: str
    description: str
    """The docstring without the part about the parameters."""
    parameters: list[Parameter]
    input_schema: Schema
    """Closed, so that a misspelled argument is an error and not ignored, unless the function takes **kwargs."""
    output_schema: Schema | None
    """Of any JSON. None where the function promises nothing that a schema can say."""
    context_parameter: str | None
    is_async: bool
    """Whether it is an `async def`. A plain function that returns an awaitable is not looked through."""
    reserved: frozenset[str] = field(repr=False)
    """Names that are the function's own business: the context, and what functools.partial has fixed."""
    readers: dict[str, Reader] = field(repr=False)
    read_rest: Reader | None = field(repr=False)
    """The reader of what **kwargs takes."""

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The keyword arguments to call the function with, from arguments that satisfy `input_schema`.

        Where nothing needs reading, that is `arguments` itself. Raises UnfitValue for what a schema does not see.
        """
        if self.reserved and not self.reserved.isdisjoint(arguments):
            raise UnfitValue("not an argument", min(self.reserved & arguments.keys()))
        readers = self.readers
        if self.read_rest:
            named = {parameter.name for parameter in self.parameters}
            readers = {**readers, **dict.fromkeys(arguments.keys() - named, self.read_rest)}
        return read_members(arguments, readers) if readers else arguments


def signature_of(
    function: Callable[..., Any],
    *,
    context_type: type | None = None,
    result_types: tuple[type, ...] | None = None,
) -> Signature:
    """What a function takes and gives, from its annotations and docstring.

    The parameter annotated with `context_type` is the caller's to fill and is left out. The result is described only
    where `result_types` is given; and not where the function returns one of these, or a list or union with one: then it
    makes its result itself. Arguments that functools.partial gave by name are fixed: no caller may replace them. Raises
    UnsupportedType.
    """
    plain, name, doc = _plain_function(function)
    scope = AnnotationScope(f"{name}()", _closure(plain))
    hints = scope.hints(plain)
    description, docs = read_docstring(doc)
    fixed = _fixed_by_partial(function)
    contexts: list[str] = []
    parameters: list[Parameter] = []
    readers: dict[str, Reader] = {}
    rest = None
    for each in inspect.signature(function).parameters.values():
        annotation = hints.get(each.name, Any)
        at = AnnotationScope(f"{name}({each.name})", scope.names)
        if each.name in fixed:
            continue
        if context_type and _mentions(annotation, (context_type,)):
            contexts.append(each.name)
        elif each.kind is each.VAR_KEYWORD:
            rest = conversion_of(annotation, at)
        elif each.kind in (each.POSITIONAL_ONLY, each.VAR_POSITIONAL):
            raise at.refuse("a parameter without a name", "cannot be sent: arguments are named")
        else:
            conversion = conversion_of(annotation, at)
            parameters.append(_parameter(each, annotation, conversion, docs.get(each.name, "")))
            if conversion.read:
                readers[each.name] = conversion.read
    if len(contexts) > 1:
        raise scope.refuse(f"{' and '.join(contexts)}", "cannot both be the context")
    output_schema = None
    if result_types is not None:
        output_schema = _output(hints.get("return"), result_types, AnnotationScope(f"{name}() result", scope.names))
    return Signature(
        name=name,
        description=description,
        parameters=parameters,
        input_schema=_input(parameters, rest),
        output_schema=output_schema,
        context_parameter=contexts[0] if contexts else None,
        is_async=_is_async(function),
        reserved=fixed.union(contexts),
        readers=readers,
        read_rest=rest.read if rest else None,
    )


# --- the function inside the callable ---


def _plain_function(function: Any) -> tuple[Any, str, str | None]:
    """The `def` behind a partial, a bound method, a decorator that uses functools.wraps or a callable object; its name
    and docstring, which for a callable object may be those of its class."""
    name, doc = "", None
    while not inspect.isfunction(function) or hasattr(function, "__wrapped__"):
        if isinstance(function, functools.partial):
            function = function.func
        elif inspect.ismethod(function):
            function = function.__func__
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        elif inspect.isfunction(call := type(function).__call__):
            name, doc = type(function).__name__, type(function).__doc__
            function = call
        else:
            raise AnnotationScope("function").refuse(function, "is not written in Python; wrap it in a def")
    return function, name or function.__name__, function.__doc__ or doc


def _fixed_by_partial(function: Any) -> frozenset[str]:
    return frozenset(function.keywords) if isinstance(function, functools.partial) else frozenset()


def _closure(plain: Any) -> dict[str, object]:
    """The names of the enclosing functions that the function uses."""
    names: dict[str, object] = {}
    for name, cell in zip(plain.__code__.co_freevars, plain.__closure__ or (), strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return names


def _is_async(function: Any) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _mentions(annotation: Any, classes: tuple[type, ...], enclosing: tuple[object, ...] = ()) -> bool:
    """Whether one of the classes, or a subclass, stands anywhere in an annotation."""
    if isinstance(annotation, type):
        return issubclass(annotation, classes)
    if annotation in enclosing:  # a type alias that contains itself
        return False
    parts = (get_origin(annotation), *get_args(annotation), getattr(annotation, "__value__", None))
    return any(_mentions(part, classes, (*enclosing, annotation)) for part in parts if part)


# --- the schemas of both directions ---


def _parameter(each: inspect.Parameter, annotation: object, conversion: Conversion, doc: str) -> Parameter:
    required = each.default is each.empty
    default = None if required else each.default
    schema = dict(conversion.schema)
    if doc:
        schema.setdefault("description", doc)
    description = str(schema.get("description", ""))
    return Parameter(each.name, description, required, default, annotation, with_default(schema, default))


def _input(parameters: list[Parameter], rest: Conversion | None) -> Schema:
    required = [parameter.name for parameter in parameters if parameter.required]
    schema = object_schema({parameter.name: parameter.schema for parameter in parameters}, required)
    if rest is None:
        schema["additionalProperties"] = False
    elif rest.schema:
        schema["additionalProperties"] = rest.schema
    return schema


def _output(annotation: Any, result_types: tuple[type, ...], scope: AnnotationScope) -> Schema | None:
    if annotation in (None, type(None), Any, object) or _mentions(annotation, result_types):
        return None
    return conversion_of(annotation, scope).schema
