"""Target: URI templates."""

from __future__ import annotations

import random
import re

from mcp_ref.lib.uritemplate import OPERATORS, MatchedValue, TemplateError, UriTemplate, Value
from tests.fuzz.inputs import damaged, within_limits, word

TEMPLATE_FRAGMENTS = [b"{", b"}", b"*", b":3", b",", b"{+a}", b"{a,b}", b"{?a*}", b"%2F", b"/", b"..", b"\\", b"a" * 99]
MAX_URI = 100_000
"""Maximum length of a URI of this target, in bytes. Servers refuse URIs over `MAX_URI_LENGTH`."""
LITERALS = ["x://h/", "/", ":", "a", "-", ".md", "?q=1", "%20", "é"]


def _values_are_safe(template: UriTemplate, found: dict[str, MatchedValue], absolute: bool) -> bool:
    """Return True if no value leaves its path segment or its directory, by a second implementation of the rules."""
    for expression in template.parts:
        if isinstance(expression, str):
            continue
        keeps_reserved = expression.operator.keeps_reserved
        may_have_slash = keeps_reserved or expression.operator.first in ("?", "&")
        for variable in expression.variables:
            value = found.get(variable.name, "")
            if isinstance(value, dict):
                value = [*value, *value.values()]
            for text in [value] if isinstance(value, str) else value:
                steps = re.split(r"[/\\]", text)
                is_absolute = re.match(r"[/\\]|[a-zA-Z]:", text) is not None
                if "\0" in text or ".." in steps or (len(steps) > 1 and not may_have_slash):
                    return False
                if keeps_reserved and is_absolute and not absolute:
                    return False
    return True


def _round_trip(rng: random.Random) -> None:
    """Check that a template whose values cannot contain its literal texts finds all values again."""
    text, values = "", dict[str, Value]()
    for name in rng.sample("abcde", rng.randint(1, 5)):
        operator, modifier = rng.choice(["", "/", ";", "?", "&"]), rng.choice(["", "*", ":9"])
        text += f"{rng.choice(['!', 'x://', '[', '!/'])}{{{operator}{name}{modifier}}}"
        words = [rng.choice(["a", "é", "0", "-1", "\U0001f600", "a b", '"']) for _ in range(rng.randint(1, 3))]
        values[name] = words if modifier == "*" else words[0]
        if modifier == "*" and operator in ("?", "&", ";") and rng.random() < 0.5:
            values[name] = {f"k{index}": each for index, each in enumerate(words)}
    template = UriTemplate(text)
    uri = template.expand(values)
    assert template.match(uri) == values, (text, values, uri, template.match(uri))


def check_template(rng: random.Random) -> None:
    """Check that values are found again where a template is unambiguous, and that all values found are safe."""
    _round_trip(rng)
    parts = []
    for _ in range(rng.randint(1, 4)):
        variables = [rng.choice("abc") + rng.choice(["", "", "", "*", ":2"]) for _ in range(rng.randint(1, 3))]
        parts += [
            "{" + rng.choice(list(OPERATORS)) + ",".join(variables) + "}",
            rng.choice(LITERALS) * rng.randrange(2),
        ]
    text = "".join(parts)
    if rng.random() < 0.3:
        text = damaged(rng, text.encode(), TEMPLATE_FRAGMENTS).decode("utf-8", "replace")
    values: dict[str, Value] = {
        name: rng.choice([word(rng), word(rng), [word(rng)], {word(rng): word(rng)}, None]) for name in "abc"
    }
    absolute = rng.random() < 0.5
    try:
        with within_limits():
            template = UriTemplate(text, absolute)
            uri = template.expand(values)
    except TemplateError as error:
        assert len(str(error)) < 10_000
        return
    assert uri.isascii()
    for given in (uri, damaged(rng, uri.encode(), TEMPLATE_FRAGMENTS, MAX_URI).decode("utf-8", "replace")):
        with within_limits():
            found = template.match(given)
        if found is not None and len(template.variables) == text.count("{") + text.count(","):  # no duplicates
            assert _values_are_safe(template, found, absolute), (text, given, found)
