"""Expansions: the other URIs of a template that give its function the same arguments as one URI.

    @server.resource("items://{id}{?page}")
    def item(id: int, page: int = 1) -> str: ...

    `items://1.0` gives the function 1, so its expansions are `items://1` and, with the default, `items://1?page=1`
    `items://1?page=1` has the expansions `items://1?page=1` and, without the default, `items://1`

The function cannot tell these URIs apart, so a caller needs the same scopes for all of them (resource_access.py).

Spec:  RFC 6570 (URI templates)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from datetime import UTC, datetime
from enum import Enum
from numbers import Number
from typing import NamedTuple, Protocol, cast

from ..lib.typed import ConversionError, Signature, to_json
from ..lib.uri import canonical_uri
from ..lib.uritemplate import TemplateError, UriTemplate, Value


class Template(Protocol):
    """A registered template."""

    matcher: UriTemplate
    signature: Signature

    def arguments(self, uri: str) -> dict[str, object] | None:
        """Return the function's arguments for a URI, or None if the template or a parameter's type does not match."""


def converts(template: Template) -> bool:
    """Return True if a function gets a converted value, such as a number, and so cannot see the text in the URI."""
    return any(parameter.schema.get("type") != "string" for parameter in template.signature.parameters)


class Expansions(NamedTuple):
    """The URIs that a template makes from its function's arguments for one URI. Equal values get one spelling."""

    with_arguments: set[str]
    """The URI that has the given arguments, and the URI that also has the defaults of the others."""
    without_defaults: set[str]
    """The URI that leaves out arguments that equal their defaults."""


def expansions(template: Template, uri: str) -> Expansions:
    """Return the expansions of a URI. They are empty if the template does not match."""
    arguments = template.arguments(uri)
    if arguments is None:
        return Expansions(set(), set())
    optional = (parameter for parameter in template.signature.parameters if not parameter.required)
    defaults = {parameter.name: _template_value(parameter.default) for parameter in optional}
    given = {name: _template_value(value) for name, value in arguments.items()}
    changed = {name: value for name, value in given.items() if name not in defaults or value != defaults[name]}
    with_arguments = _fill_in_each(template.matcher, given, {**defaults, **given})
    return Expansions(with_arguments, _fill_in_each(template.matcher, changed))


def _fill_in_each(template: UriTemplate, *all_values: Mapping[str, Value]) -> set[str]:
    uris = set[str]()
    for values in all_values:
        with suppress(TemplateError):  # `{x:3}` with a list
            uris.add(filled_in(template, values))
    return uris


def _template_value(value: object) -> Value:
    """Return an argument of a function, or a default, as a value for a template. Equal arguments get equal values."""
    try:
        plain = to_json(value)
        if isinstance(value, Set):
            return sorted({_text_of(item) for item in value})
        if isinstance(plain, list):
            return [_text_of(item) for item in cast(Sequence[object], value)]
        if isinstance(plain, dict):
            return {name: _text_of(member) for name, member in plain.items()}
        return None if plain is None else _text_of(value)
    except ConversionError:  # only a default can have no JSON form
        return None


def _text_of(value: object) -> str:
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, datetime):
        with suppress(OverflowError):  # in the year 1 or 9999
            value = value.astimezone(UTC)
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = to_json(value)
    if not isinstance(text, str):
        return json.dumps(text)
    if isinstance(value, Number) and "." in text:  # a Decimal
        text = text.rstrip("0").rstrip(".")
    return "0" if isinstance(value, Number) and text == "-0" else text


def filled_in(template: UriTemplate, values: Mapping[str, Value]) -> str:
    """Return the canonical URI of a template with these values. Raise TemplateError if it cannot have them."""
    text = template.expand(values)
    return canonical_uri(text) or text  # not a URI if it has "#" twice
