"""The signature of a function, with JSON Schemas for its arguments and for its result.

A program calls `signature_of` once for each function. For each function call, a validator first checks the arguments
against `input_schema`. Then `Signature.bind` converts the arguments to Python, and `to_json` converts the result.
"""

from __future__ import annotations

import builtins
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from types import FunctionType, NoneType
from typing import Any, Final, NamedTuple, get_args, get_origin

from ..jsonschema import compile_schema
from .annotations import (
    SIMPLE_CONVERSIONS,
    AnnotationScope,
    Conversion,
    conversion_of,
    convert_members,
    object_schema,
    with_default,
)
from .docstrings import read_docstring
from .unions import TYPE_NAMES, Reader, Schema, json_types
from .values import ConversionError, to_json

MAX_SHARED_PARAMETERS: Final = 1024
"""Maximum number of parameters that functions share. Most functions have parameters with the same few names."""

_NO_NAMES: Final[frozenset[str]] = frozenset()
_NAMED: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Parameter(NamedTuple):
    """One parameter of a function, for which a caller can send an argument."""

    name: str
    description: str
    """Text from the annotation, or else from the docstring. It can be empty."""
    required: bool
    """True if the parameter has no default."""
    default: object
    """The default as a Python value, or None if the parameter is required."""
    schema: Schema
    """The JSON Schema of the parameter, with description and default."""


@dataclass(slots=True, eq=False, repr=False)
class Signature:
    """The name, the description and the schemas of a function, and the conversion of its arguments."""

    name: str
    description: str
    """The docstring without the text about parameters. It can be empty."""
    parameters: list[Parameter]
    input_schema: Schema
    """The schema of an object with all arguments. It refuses unknown names, unless the function has **kwargs."""
    output_schema: Schema | None
    """The schema of the result, or None. The type of the result need not be an object."""
    context_parameter: str | None
    """The name of the parameter for the context object, or None."""
    is_async: bool
    """True for an `async def`. False for a plain function that returns an awaitable."""
    reserved_names: frozenset[str]
    """Names that a caller must not send: the context parameter, and the keyword arguments of a functools.partial."""
    readers: dict[str, Reader]
    """The functions that convert arguments, by name. An argument that needs no conversion has no reader."""
    read_extra: Reader | None
    """The function that converts each further argument (**kwargs), or None."""
    is_generated: bool
    """False if an annotation adds keywords to a schema, or has its own schema, which must then be checked."""

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments for a function call: `arguments` itself, or a copy with converted values.

        Args:
            arguments: JSON that satisfies `input_schema`.

        Raises:
            ConversionError: An argument has a reserved name, or a fault that a schema cannot express.
        """
        if self.reserved_names and not self.reserved_names.isdisjoint(arguments):
            raise ConversionError("not an argument", min(self.reserved_names & arguments.keys()))
        readers = self.readers
        if self.read_extra:
            named = {parameter.name for parameter in self.parameters}
            readers = {**readers, **dict.fromkeys(arguments.keys() - named, self.read_extra)}
        return convert_members(arguments, readers) if readers else arguments

    def check_defaults(self) -> None:
        """Check the defaults of the parameters.

        Raises:
            TypeError: A default does not fit the schema of its parameter.
        """
        for parameter in self.parameters:
            default = parameter.default
            fault = None if parameter.required else _default_fault(parameter.schema, default, self.is_generated)
            if fault is not None:
                advice = "change one of the two"
                if default is None:
                    advice = "allow None in the annotation, as in `str | None`"
                elif hasattr(default, "metadata"):  # pydantic's Field
                    advice = "put the Field into the annotation, as in `Annotated[int, Field(ge=0)] = 3`"
                where = f"{self.name}({parameter.name})"
                raise TypeError(f"{where}: the default {default!r:.100} is not a value of the type: {fault}; {advice}")


def _default_fault(schema: Schema, default: object, is_generated: bool) -> str | None:
    """Return the reason why a default does not match the schema of its parameter, or None if it does."""
    is_not_finite = type(default) is float and not isfinite(default)  # a number in Python, but not in JSON
    is_model = hasattr(type(default), "model_dump")  # it checks itself, and may write other fields than it reads
    if is_not_finite or is_model:
        return None
    if is_generated and _fits_type(schema, default):  # usual, and much faster than a validator
        return None
    try:
        errors = compile_schema(schema).errors(to_json(default))
    except ConversionError as unfit:  # the default has no JSON form, which only a schema without a type allows
        return unfit.why if schema.keys() - {"description"} else None
    return errors[0].message if errors else None


def _fits_type(schema: Schema, default: object) -> bool:
    """Return True if the `type` or `enum` of a generated schema shows that a default is valid, without a validator."""
    has_json_form = default is None or "default" in schema
    if not has_json_form or not schema.keys() <= {"type", "format", "enum", "description", "default"}:
        return False
    choices = schema.get("enum")
    if isinstance(choices, list):
        return any(type(choice) is type(default) and choice == default for choice in choices)
    name, types = TYPE_NAMES.get(type(default)), json_types(schema)
    return name in types or (name == "integer" and "number" in types)


def signature_of(
    function: Callable[..., Any], *, context_type: type | None = None, schemaless_types: tuple[type, ...] | None = None
) -> Signature:
    """Return the signature of a function, from its annotations and its docstring.

    Args:
        function: A function, method, callable object or functools.partial. Callers cannot send a partial's arguments.
        context_type: The class of the context object. The program, not the caller, passes this object to a function.
        schemaless_types: Types without a JSON Schema. A function whose return annotation contains one of these types
            gets no `output_schema`. If None (the default), no function gets an `output_schema`.

    Raises:
        UnsupportedType: An annotation is not supported, a parameter is positional, two parameters are contexts, or a
            parameter `context` has no annotation.
        TypeError: The function is a method without its object.
    """
    plain, name, doc = _plain_function(function)
    python_parameters = _parameters(function, plain)
    scope = AnnotationScope(f"{name}()", _closure_names(plain))
    hints = _classes(plain, scope.names) or scope.type_hints(plain)
    description, descriptions = read_docstring(doc)
    fixed = frozenset(function.keywords) if isinstance(function, functools.partial) else _NO_NAMES
    contexts: list[str] = []  # names of parameters for the context object
    parameters: list[Parameter] = []
    readers: dict[str, Reader] = {}
    extra: Conversion | None = None  # of **kwargs
    is_generated = True
    for each in python_parameters:
        if each.name in fixed:
            continue
        conversion = _conversion(each, hints, scope, context_type)
        if conversion is None:
            contexts.append(each.name)
            continue
        is_generated = is_generated and conversion.is_generated
        if each.kind is each.VAR_KEYWORD:
            extra = conversion
            continue
        parameters.append(_parameter(each, conversion, descriptions.get(each.name, "")))
        if conversion.read:
            readers[each.name] = conversion.read
    if len(contexts) > 1:
        raise scope.error(" and ".join(contexts), "cannot both be the context")
    result: Conversion | None = None
    if _has_output_schema(hints.get("return"), schemaless_types):
        result = conversion_of(hints["return"], AnnotationScope(f"{name}() result", scope.names, is_result=True))
        is_generated = is_generated and result.is_generated
    return Signature(
        name, description, parameters, _input_schema(parameters, extra), result.schema if result else None,
        context_parameter=contexts[0] if contexts else None, is_async=_is_async(function),
        reserved_names=fixed.union(contexts) if contexts else fixed,  # `_NO_NAMES` is shared, to save memory
        readers=readers, read_extra=extra.read if extra else None, is_generated=is_generated,
    )  # fmt: skip


def _conversion(
    each: inspect.Parameter, hints: dict[str, Any], function: AnnotationScope, context_type: type | None
) -> Conversion | None:
    """Return the conversion of a parameter, or None for the context object.

    Raise UnsupportedType for a parameter that a caller cannot send, or for an unsupported annotation.
    """
    annotation, kind = hints.get(each.name, each.annotation), each.kind  # a `__signature__` is not in `hints`
    if annotation is each.empty or isinstance(annotation, str):
        annotation = Any
    simple = SIMPLE_CONVERSIONS.get(annotation) if isinstance(annotation, type) else None
    if simple is not None and kind in _NAMED:  # most parameters
        return simple
    at = function._replace(path=f"{function.path[:-1]}{each.name})")  # "forecast()" becomes "forecast(city)"
    if context_type and each.name == "context" and annotation is Any and "context" not in hints:
        advice = f"write `context: {context_type.__name__}`, or the type of an argument"
        raise at.error("a parameter `context` without a type", f"is ambiguous: {advice}")
    if context_type and _contains_type(annotation, (context_type,)):
        return None
    if kind in (each.POSITIONAL_ONLY, each.VAR_POSITIONAL):
        unnamed = "a *parameter" if kind is each.VAR_POSITIONAL else "a positional-only parameter"
        advice = "if a decorator has made this function, its wrapper needs @functools.wraps"
        raise at.error(unnamed, f"is not supported, because callers send arguments by name; {advice}")
    return conversion_of(annotation, at)


def _has_output_schema(result: object, schemaless_types: tuple[type, ...] | None) -> bool:
    if schemaless_types is None or result in (None, type(None), Any, object):
        return False
    return not _contains_type(result, schemaless_types)


def _plain_function(function: Any) -> tuple[Any, str, str | None]:
    """Return the `def` behind a callable, its name and its docstring. A callable object gets its class's name.

    Several layers can be around the `def`, such as a partial of a method, so take them off one by one.
    """
    name, doc = "", None
    while not inspect.isfunction(function) or hasattr(function, "__wrapped__"):
        if isinstance(function, functools.partial):
            function = function.func
        elif inspect.ismethod(function):
            function = function.__func__
        elif hasattr(function, "dispatch") and getattr(function, "__globals__", None) is vars(functools):
            why = "is a singledispatch function, which needs an argument without a name; wrap it in a def"
            raise AnnotationScope("function", {}).error(function, why)
        elif hasattr(function, "__wrapped__"):  # by a decorator with @functools.wraps
            function = inspect.unwrap(function)  # all such decorators, because the outermost calls the others itself
        elif inspect.isfunction(type(function).__call__):  # a callable object
            name, doc = type(function).__name__, type(function).__doc__
            function = type(function).__call__
        else:
            raise AnnotationScope("function", {}).error(function, "is not a Python function; wrap it in a def")
    return function, name or function.__name__, function.__doc__ or doc


def _parameters(function: Any, plain: Any) -> list[inspect.Parameter]:
    """Return the parameters. Raise TypeError for a method without its object, as a decorator inside a class sees it."""
    is_method = not callable(function)  # a classmethod or staticmethod object
    if not is_method:
        is_simple = function is plain and not hasattr(plain, "__signature__") and _has_only_simple_parameters(plain)
        found = _simple_parameters(plain) if is_simple else list(inspect.signature(function).parameters.values())
        is_method = bool(found) and found[0].name in ("self", "cls") and found[0].annotation is inspect.Parameter.empty
    if is_method:
        raise TypeError(
            f"{plain.__qualname__}() is a method: a decorator inside the class cannot know the object; create the "
            f"object, and add its method: add(obj.{plain.__name__})"
        )
    return found


def _has_only_simple_parameters(plain: Any) -> bool:
    code = plain.__code__
    has_stars = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    return not (has_stars or code.co_posonlyargcount or code.co_kwonlyargcount)


def _simple_parameters(plain: Any) -> list[inspect.Parameter]:
    """Return the parameters of a `def` without `/` and `*` in less time than `inspect.signature` needs."""
    names = plain.__code__.co_varnames[: plain.__code__.co_argcount]
    values = plain.__defaults__ or ()
    defaults = dict(zip(names[len(names) - len(values) :], values, strict=True))
    hints, empty = plain.__annotations__, inspect.Parameter.empty
    parameters = []
    for name in names:
        if name in defaults:
            parameters.append(_named_parameter(name, hints.get(name, empty), defaults[name]))
        else:
            parameters.append(_shared_parameter(name, name in hints))
    return parameters


def _named_parameter(name: str, annotation: object, default: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=annotation)


@functools.lru_cache(maxsize=MAX_SHARED_PARAMETERS)
def _shared_parameter(name: str, has_annotation: bool) -> inspect.Parameter:
    """Return a parameter without a default, which functions share, because it takes long to make and never changes."""
    empty = inspect.Parameter.empty
    return _named_parameter(name, Any if has_annotation else empty, empty)


def _closure_names(plain: Any) -> dict[str, object]:
    """Return the variables of enclosing functions that a function uses, by name."""
    names: dict[str, object] = {}
    for name, cell in zip(plain.__code__.co_freevars, plain.__closure__ or (), strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return names


def _classes(plain: Any, closure: dict[str, object]) -> dict[str, Any] | None:
    """Return the annotations of a function if each of them is a class or the name of a class, else None.

    `typing.get_type_hints` would find the same classes, but it compiles each name, which is 40 % of `signature_of`.
    """
    if getattr(plain, "__type_params__", ()):  # Python 3.12: `def f[T]`, whose T hides other names
        return None
    module, hints = plain.__globals__, {}
    for name, hint in plain.__annotations__.items():
        if isinstance(hint, str):
            hint = closure.get(hint, module.get(hint, _BUILTINS.get(hint)))  # in the order in which Python looks
        if not isinstance(hint, type):
            return None
        hints[name] = hint
    return hints


_BUILTINS: Final = {**vars(builtins), "None": NoneType}


def _is_async(function: Any) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, FunctionType) and function.__code__.co_flags & inspect.CO_COROUTINE:
        return True  # `inspect.iscoroutinefunction` takes ten times as long
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _contains_type(annotation: Any, classes: tuple[type, ...], enclosing: tuple[object, ...] = ()) -> bool:
    """Return True if an annotation, or a part of it, is one of the classes or a subclass."""
    if isinstance(annotation, type):
        return issubclass(annotation, classes)
    if annotation in enclosing:  # a type alias that contains itself
        return False
    value_of_alias = getattr(annotation, "__value__", None)  # of `type X = ...`
    parts = (get_origin(annotation), *get_args(annotation), value_of_alias)
    return any(_contains_type(part, classes, (*enclosing, annotation)) for part in parts if part)


def _parameter(each: inspect.Parameter, conversion: Conversion, doc: str) -> Parameter:
    """Return a parameter with its schema. `doc` is the text about it in the function's docstring, or ""."""
    schema = dict(conversion.schema)
    if doc:
        schema.setdefault("description", doc)
    description = str(schema.get("description", ""))
    if each.default is each.empty:
        return Parameter(each.name, description, True, None, schema)
    return Parameter(each.name, description, False, each.default, with_default(schema, each.default))


def _input_schema(parameters: list[Parameter], extra: Conversion | None) -> Schema:
    """Return the schema of all arguments together. `extra` is the conversion of **kwargs, if the function has them."""
    required = [parameter.name for parameter in parameters if parameter.required]
    schema = object_schema({parameter.name: parameter.schema for parameter in parameters}, required)
    if extra is None:
        schema["additionalProperties"] = False
    elif extra.schema:
        schema["additionalProperties"] = extra.schema
    return schema
