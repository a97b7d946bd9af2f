"""Options: the keyword arguments that a TypedDict describes, checked when the program runs.

A type checker finds these mistakes earlier. But many programs use none, and a server must not stay open because its
author misspelled `authorization`.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from types import NoneType
from typing import Any, get_origin

_LISTS = {"Collection": Collection, "Iterable": Iterable, "Sequence": Sequence}
_KINDS: dict[str, Any] = _LISTS | {
    "None": NoneType, "bool": bool, "int": int, "float": (int, float), "str": str, "os.PathLike": os.PathLike,
    "Callable": Callable, "Mapping": Mapping, "MutableMapping": MutableMapping,
}  # fmt: skip


def check_names(options: Mapping[str, object], known: type) -> None:
    """Raise TypeError if an option is not a key of the TypedDict `known`."""
    names = list(known.__annotations__)
    for name in options:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"use one of {', '.join(names)}"
            raise TypeError(f"unknown option {name!r}; {hint}")


def check_options(options: Mapping[str, object], known: type) -> None:
    """Raise TypeError for an option with an unknown name, or with a value of the wrong type.

    The contents of lists and mappings, and the parameters of functions, are not checked.

    Args:
        options: The values by name.
        known: The TypedDict, from a module with `from __future__ import annotations`.
    """
    check_names(options, known)
    names = vars(sys.modules[known.__module__])
    for name, value in options.items():
        annotation = known.__annotations__[name].__forward_arg__
        kinds = _members(annotation)
        if any(_is_kind(value, kind, names) for kind in kinds):
            continue
        if isinstance(value, str) and not _LISTS.keys().isdisjoint(kinds):
            raise TypeError(f"{name} must be a list, such as [{value!r}]")
        # Not the value itself, which can be a secret, such as a header.
        raise TypeError(f"the option {name} must have the type {annotation}, not {type(value).__name__}")


def _members(annotation: str) -> list[str]:
    """Return the names of a union's members without their parameters: `str` and `Sequence` for `str | Sequence[A]`."""
    outside, depth = "", 0
    for character in annotation:
        if character == "]":
            depth -= 1
        elif character == "[":
            depth += 1
        elif depth == 0:
            outside += character
    return outside.split(" | ")


def _is_kind(value: object, kind: str, names: Mapping[str, Any]) -> bool:
    """Return True if a value has the type with this name. `names` are the global names of the TypedDict's module."""
    cls = _KINDS.get(kind) or names.get(kind)
    if cls is None:  # imported only for type checkers, so that a program that does not use the class need not load it
        return kind in [base.__name__ for base in type(value).__mro__]
    if isinstance(value, (bool, str)):
        return cls is type(value)  # True is an int, and a text is a sequence of texts, but neither is meant as one
    return isinstance(value, get_origin(cls) or cls)
