"""The prose of the package, the examples, the tests and the README follows the rules of `tests/prose.py`."""

from __future__ import annotations

import ast

import pytest

from tests.known_faults import differences
from tests.prose import PHRASES, check_source, find_faults


def test_prose_has_no_violations_but_the_known_ones() -> None:
    wrong = differences("prose", find_faults().get("prose", {}))
    assert not wrong, "\n".join(["", *wrong])


@pytest.mark.parametrize(
    ("source", "advice"),
    [
        ("def f() -> None:\n    'What it does.'\n", "do not begin with 'what'"),
        ("def f() -> None:\n    'The name.'\n", "imperative verb"),
        ("def f() -> None:\n    'See `g`.'\n", "say the fact"),
        ("class A:\n    'Its size.'\n", "noun phrase"),
        ("x = 1  # who asks gets it\n", "headless"),
        ("x = 1  # this is no request\n", "is not a"),
        ("MAX_SIZE = 3\n'Maximum size.'\n", "unit"),
        ("MAX_SIZE = 3\n", "docstring with its unit"),
        ("raise ValueError('opened anew')\n", "again"),
        ("def test_who_asks_is_told() -> None: ...\n", "subject first"),
        ("def f(a: int) -> None:\n    '''Send a.\n\n    Args:\n        b: A number.\n    '''\n", "no parameter b"),
    ],
)
def test_check_source_finds_each_kind_of_violation(source: str, advice: str) -> None:
    ast.parse(source)
    found = [str(violation) for violation in check_source("test_x.py", source, PHRASES)]
    assert any(advice in violation for violation in found), found


def test_check_source_accepts_plain_prose() -> None:
    source = "MAX_SIZE = 3\n'Maximum size of a message, in bytes.'\n\ndef f() -> int:\n    'Return the size.'\n"
    assert list(check_source("test_x.py", source, PHRASES)) == []


def test_check_source_wants_each_parameter_of_a_public_method_in_its_text_or_its_class() -> None:
    about = "'''A client.\n\n    Args of methods:\n        a: A number.\n    '''"
    source = f"class Client:\n    {about}\n\n    def send(self, a: int, b: int) -> None:\n        '''Send %s.'''\n"
    found = [list(check_source("mcp_ref/client/client.py", source % text, PHRASES)) for text in ("b", "`b`")]
    assert [[violation.advice for violation in each] for each in found] == [["send needs `Args:` for b"], []]
