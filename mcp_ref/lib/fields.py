"""Checks of a dataclass's fields, and of keyword arguments, against their annotations.

    @dataclass(frozen=True)
    class Reply(CheckedFields):
        status: int = 200
        body: bytes = b""

    Reply(b"ok")  # TypeError: Reply.status must be int, not b'ok'; did you mean body=b'ok'?

Python does not check annotations, so a wrong type would fail later, in another function, with an error that does not
name the mistake. Objects that authors build once, such as limits, are therefore checked when they are built. Messages
are checked only when they are written, because a check of all messages that are read would cost too much time.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
import types
from collections.abc import Callable, Collection, Iterable, Mapping
from inspect import iscoroutinefunction
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

T = TypeVar("T")

QUOTED = 80
"""Maximum length of a refused value in an error, in characters."""

_TEXT_TYPES = (str, bytes)
"""Texts, which Python also treats as sequences. An author who gives one for a list has forgotten its brackets."""

_WRITE_DEF = "; write `def` instead of `async def`"

_UNTYPED = object()
"""A value that fits an annotation only if every value does, as for `object`."""


class CheckedFields:
    """The base class of dataclasses whose objects refuse a field of the wrong type.

    Raises:
        TypeError: A field has a value of another type than its annotation. The text says what to write instead.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        cls: type = type(self)
        for name, default in _defaults_of(cls):
            given = getattr(self, name)
            if given is not default and not fits(hints_of(cls)[name], given):
                raise wrong_type(cls, name, given)


class CheckedTimes(CheckedFields):
    """The base class of limits whose times must be above 0. A field is a time if its default is a float.

    Raises:
        ValueError: A time is 0, which an author may have meant as "no limit", or negative, or not a number.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        cls: type = type(self)
        for name, default in _defaults_of(cls):
            given = getattr(self, name)
            if isinstance(default, float) and not given > 0:
                raise ValueError(f"{cls.__name__}.{name} must be above 0, or math.inf for no limit, not {given}")


@functools.cache
def _defaults_of(cls: type) -> list[tuple[str, object]]:
    return [(each.name, each.default) for each in dataclasses.fields(cls)]


def check_options(options: Mapping[str, object], known: type) -> None:
    """Check keyword arguments that a TypedDict describes.

    A type checker finds these mistakes earlier, but many programs use none, and a server must not stay open because its
    author misspelled `authorization`. Raise TypeError for an unknown key, or for a value of another type. Raise
    ValueError for a text that UTF-8 cannot hold. No error shows the value, because it can be a secret such as a header.
    """
    names = list(known.__annotations__)
    for name, value in options.items():
        if name not in names:
            import difflib  # lazy: few programs misspell an option

            near = difflib.get_close_matches(name, names, n=1)
            advice = f"did you mean {near[0]!r}?" if near else f"use one of {', '.join(names)}"
            raise TypeError(f"unknown option {name!r}; {advice}")
        if not fits(hints_of(known)[name], value):
            annotation = known.__annotations__[name].__forward_arg__  # its source text
            advice = _advice(hints_of(known)[name], value)
            if not advice and isinstance(value, str):
                advice = _choices(hints_of(known)[name])
            raise TypeError(f"the option {name} must have the type {annotation}, not {_type_of(value)}{advice}")
        if isinstance(value, str) and not _can_be_path(hints_of(known)[name]):
            check_unicode(f"the option {name}", value)


def _can_be_path(hint: object) -> bool:
    """Return True for a type such as `str | os.PathLike[str]`. A path need not be UTF-8, because no message has it."""
    return any(get_origin(each) is os.PathLike for each in get_args(hint))


def check_unicode(what: str, text: str) -> None:
    """Raise ValueError for half of a surrogate pair, which Python puts into the name of a file that is not UTF-8.

    Raise TypeError for a value that is not a str.
    """
    if not isinstance(text, str):
        raise TypeError(f"{what} must be a str, not {_type_of(text)}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        fault = f"half of a surrogate pair at index {error.start}, which UTF-8 cannot hold"
        raise ValueError(f"{what} has {fault}; replace it with .encode(errors='replace').decode()") from None


def check_arguments(function: Callable[..., object], arguments: Mapping[str, object]) -> None:
    """Check arguments of a function, its `locals()`. Raise TypeError for a value of another type, without the value."""
    for name, hint in hints_of(function).items():
        if name in arguments and not fits(hint, arguments[name]):
            advice = _advice(hint, arguments[name])
            raise TypeError(f"{name} must be {describe(hint)}, not {_type_of(arguments[name])}{advice}")


def not_async(name: str, callback: T) -> T:
    """Return a callback. Raise TypeError for an async function, because nobody would await its result."""
    if _is_async(callback):
        raise TypeError(f"{name} must be a plain function{_WRITE_DEF}")
    return callback


def _is_async(value: object) -> bool:
    """Return True for an `async def` function, and for an object whose `__call__` is one."""
    return callable(value) and (iscoroutinefunction(value) or iscoroutinefunction(type(value).__call__))


def _type_of(value: object) -> str:
    """Return the type of a value, and of its items, such as `dict[str, int]`."""
    name = type(value).__name__
    if isinstance(value, dict) and value:
        return f"{name}[{_types_of(value)}, {_types_of(value.values())}]"
    if isinstance(value, (list, tuple, set)) and value:
        return f"{name}[{_types_of(value)}]"
    return name


def _types_of(items: Iterable[object]) -> str:
    return " | ".join(dict.fromkeys(map(_type_of, items)))


class _NamedClass(type):
    """The metaclass of a stand-in for a class that is not imported. It accepts objects of any class with its name."""

    def __instancecheck__(cls, value: object) -> bool:
        return cls.__name__ in [base.__name__ for base in type(value).__mro__]


@functools.cache
def hints_of(cls: type | Callable[..., object]) -> dict[str, object]:
    """Return the types of a class's fields, or of a function's parameters.

    Python cannot resolve an alias that is a string, such as the recursive type JSON, so every value fits it. A class
    that is imported only for type checkers gets a stand-in, because importing it here would load its module.
    """
    modules = [sys.modules[base.__module__] for base in getattr(cls, "__mro__", (cls,))]
    aliases = [name for module in modules for name, value in vars(module).items() if isinstance(value, str)]
    names: dict[str, object] = {**dict.fromkeys(aliases, object), "JSON": object, "Object": dict[str, object]}
    while True:
        try:
            return get_type_hints(cls, localns=names, include_extras=True)
        except NameError as unknown:  # it names one class that is not imported, so add its stand-in and try again
            names[str(unknown.name)] = _NamedClass(str(unknown.name), (), {})


def fits(hint: object, value: object) -> bool:
    """Return True if a value and its items have the types of an annotation. Every value fits a type of another kind."""
    if type(value) is hint or hint in (object, Any):
        return True
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return type(value) in args or any(fits(member, value) for member in args)
    if origin is Annotated:
        return fits(args[0], value)
    if origin is Literal:
        # True does not fit Literal[1], although they are equal
        return any(value == choice and type(value) is type(choice) for choice in args)
    kind = origin or hint
    return not isinstance(kind, type) or _fits_class(kind, args, value)  # a value fits each type variable, for example


def _fits_class(kind: Any, args: tuple[object, ...], value: object) -> bool:
    if getattr(kind, "_is_protocol", False):
        names = _members_of(kind)  # first looked up in the class, because a property could fail, or do some work
        return not isinstance(value, type) and all(hasattr(type(value), name) or hasattr(value, name) for name in names)
    if kind is Callable and args[-1:] in ((None,), (types.NoneType,)) and _is_async(value):
        return False  # a caller that wants no result awaits none, so the function would never run
    if kind in (int, float):  # an int fits float too
        return isinstance(value, (int, kind)) and not isinstance(value, bool)
    if is_typeddict(kind):
        return isinstance(value, Mapping)
    if kind is list:
        kind = list | tuple  # both are the same JSON array
    return isinstance(value, kind) and _items_fit(kind, args, value)


@functools.cache
def _members_of(protocol: type) -> list[str]:
    """Return the names of the public attributes and methods that a Protocol, or a base of it, describes."""
    bases = [base for base in protocol.__mro__ if getattr(base, "_is_protocol", False)]
    names = [name for base in bases for name in (*vars(base), *vars(base).get("__annotations__", ()))]
    return [name for name in names if not name.startswith("_")]


def _items_fit(kind: object, args: tuple[object, ...], value: object) -> bool:
    """Return True if the items of a container fit the arguments of its annotation, such as `str` in `list[str]`."""
    if isinstance(value, Mapping):
        if len(args) != 2:  # a plain `dict`
            return True
        return all(fits(args[0], name) and fits(args[1], member) for name, member in value.items())
    if not args or not isinstance(value, Collection):
        return True
    if isinstance(value, _TEXT_TYPES):
        return False
    if isinstance(value, tuple) and kind is tuple and args[-1] is not ...:  # tuple[str, int], not tuple[str, ...]
        return len(args) == len(value) and all(map(fits, args, value))
    return all(fits(args[0], item) for item in value)


def usual_types(hint: object) -> tuple[object, ...]:
    """Return the types of nearly all values that fit an annotation, for which nobody need call the slow `fits`."""
    inner = without_none(hint)
    if get_origin(inner) is list and dataclasses_of(get_args(inner)[0]):
        return (list,)  # the items are checked when they are written
    if inner == dict[str, object]:
        return (dict,)
    if inner is object:
        return (dict, list, str, int, float, bool)  # the types of JSON, such as the structured content of a result
    members = get_args(inner) if get_origin(inner) in (Union, types.UnionType) else (inner,)
    return (*members, int) if float in members else members


def without_none(hint: object) -> object:
    """Return `A` for the type `A | None`, and every other type as it is."""
    if get_origin(hint) not in (Union, types.UnionType):
        return hint
    members = [member for member in get_args(hint) if member is not types.NoneType]
    return members[0] if len(members) == 1 else hint


def dataclasses_of(hint: object) -> tuple[type, ...]:
    """Return the members of a union, or the type itself, if they all are dataclasses. Otherwise return ()."""
    members = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    classes = tuple(each for each in members if isinstance(each, type) and dataclasses.is_dataclass(each))
    return classes if len(classes) == len(members) else ()


def wrong_type(owner: type, name: str, given: object) -> TypeError:
    """Return the error for a field of the wrong type. The value of a field with `repr=False` is not shown."""
    hints = hints_of(owner)
    if not owner.__dataclass_fields__[name].repr:  # type: ignore[attr-defined]  # it is a dataclass
        return TypeError(f"{owner.__name__}.{name} must be {describe(hints[name])}, not an object of {_type_of(given)}")
    shown = f"{given!r:.{QUOTED}}"
    advice = _advice(hints[name], given)
    if not advice and type(given) is not get_origin(without_none(hints[name])):  # otherwise only its items are wrong
        # perhaps the author has mixed up two fields, so look for one whose type is precise and fits
        fitting = [other for other, hint in hints.items() if fits(hint, given) and not fits(hint, _UNTYPED)]
        if len(fitting) == 1:
            advice = f"; did you mean {fitting[0]}={shown}?"
    return TypeError(f"{owner.__name__}.{name} must be {describe(hints[name])}, not {shown}{advice}")


def _advice(hint: object, given: object) -> str:
    """Return advice about missing brackets, a dict instead of a dataclass, or an async function, else ""."""
    if isinstance(given, _TEXT_TYPES) and fits(hint, [given]):
        return f"; write [{given!r:.{QUOTED}}]"
    if _is_async(given) and fits(hint, describe):  # a plain function fits
        return _WRITE_DEF
    wanted = _dataclass_in(hint)
    first = given[0] if isinstance(given, list) and given else given
    if isinstance(first, dict) and wanted is not None:
        return f"; write {wanted.__name__}(...) instead of a dict"
    return ""


def _choices(hint: object) -> str:
    """Return advice that lists the values of the first Literal in a type, else ""."""
    if get_origin(hint) is Literal:
        return f"; choose {describe(hint)}"
    return next(filter(None, map(_choices, get_args(hint))), "")


def _dataclass_in(hint: object) -> type | None:
    """Return the first dataclass in a type such as `list[Icon] | None`."""
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return hint
    return next(filter(None, map(_dataclass_in, get_args(hint))), None)


def describe(hint: object) -> str:
    """Return a type as an author writes it, such as `list[str] | None`."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return describe(args[0])
    if origin in (Union, types.UnionType):
        return " | ".join(map(describe, args))
    if origin is Literal:
        return " or ".join(map(repr, args))
    if hint is types.NoneType:
        return "None"
    if origin is None:
        return str(getattr(hint, "__name__", hint))
    if getattr(origin, "__name__", "") == "Callable":
        return "a function"
    if not isinstance(origin, type) or not issubclass(origin, Collection):
        return str(hint)
    return f"{origin.__name__}[{', '.join('...' if each is ... else describe(each) for each in args)}]"
