"""Tests of lib/uritemplate.py: the examples and the grammar of RFC 6570, and matching of hostile URIs."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Iterator

import pytest

from mcp_ref.lib.uritemplate import MAX_TEMPLATE, MatchedValue, TemplateError, UriTemplate, Value, possible_values
from tests.settings import DATA

SUITE = DATA / "uritemplate-suite" if DATA else None


def examples(*files: str) -> Iterator[tuple[str, int, str, dict[str, Value], object]]:
    """Yield section, level, template, values and expansion: a string, a list of valid strings, or False."""
    for file in files if SUITE else ():
        assert SUITE
        for section, group in json.loads((SUITE / file).read_text("utf-8")).items():
            for template, expected in group["testcases"]:
                yield section, group.get("level", 4), template, group["variables"], expected


needs_suite = pytest.mark.skipif(SUITE is None, reason="the URI Template test suite is not here (MCP_REF_DATA)")


@needs_suite
def test_expand_follows_every_example_of_the_rfc() -> None:
    wrong = []
    count = 0
    for section, _, template, values, expected in examples("spec-examples.json", "spec-examples-by-section.json"):
        count += 1
        allowed = expected if isinstance(expected, list) else [expected]
        if UriTemplate(template).expand(values) not in allowed:
            wrong.append((section, template))
    assert not wrong
    assert count == 181


@needs_suite
def test_template_error_for_every_negative_case_of_the_suite() -> None:
    accepted = []
    for _, _, template, values, expected in examples("negative-tests.json"):
        assert expected is False
        try:
            accepted.append((template, UriTemplate(template).expand(values)))
        except TemplateError:
            continue
    assert not accepted


@needs_suite
def test_match_of_an_expanded_template_up_to_level_3_expands_to_the_same_uri() -> None:
    refused = []
    count = 0
    for _, _, template, values, _ in examples("spec-examples.json", "spec-examples-by-section.json"):
        parsed = UriTemplate(template, absolute_paths=True)
        if "*" in template or ":" in template or any(isinstance(values.get(n), (list, dict)) for n in parsed.variables):
            continue  # level 4, or a value of level 4
        count += 1
        uri = parsed.expand(values)
        found = parsed.match(uri)
        if found is None:
            refused.append(template)
            continue
        assert parsed.expand(found) == uri, template
    # in these, a value has an encoded slash where the template expects one segment
    assert set(refused) == {"{base}index", "{/who,dub}"}
    assert count > 80


@pytest.mark.parametrize(
    ("template", "uri", "expected"),
    [
        ("test://{id}/data", "test://42/data", {"id": "42"}),
        ("test://{id}/data", "test:///data", {}),
        ("test://{id}/data", "test://a/b/data", None),
        ("test://{id}/data", "test://42/data/", None),
        ("test://{id}/data", "test://42/data\n", None),
        ("file:///{+path}", "file:///src/main.c", {"path": "src/main.c"}),
        ("file:///{+path}/history", "file:///a/history/history", {"path": "a/history"}),
        ("doc://{name}.json", "doc://a.b.json", {"name": "a.b"}),
        ("doc://{name}.json", "doc://a.json.json", {"name": "a.json"}),
        ("doc://{name}{.ext}", "doc://a.b.c", {"name": "a", "ext": "b.c"}),
        ("x://{a}-{b}", "x://1-2-3", {"a": "1", "b": "2-3"}),
        ("x://{a,b}", "x://1,2", {"a": "1", "b": "2"}),
        ("x://{a,b}", "x://1", {"a": "1"}),
        ("x://{a}{?q,n}", "x://1?n=2&q=a%20b", {"a": "1", "q": "a b", "n": "2"}),
        ("x://{a}{?q,n}", "x://1", {"a": "1"}),
        ("x://{a}{?q,n}", "x://1?n=2&n=3", None),
        ("x://{a}{?q,n}", "x://1?other=2", None),
        ("x://{?q*}", "x://?a=1&b=2", {"q": {"a": "1", "b": "2"}}),
        ("x://{?q*}", "x://?q=1&q=2", {"q": ["1", "2"]}),
        ("x://{a}?fixed=1{&q}", "x://1?fixed=1&q=2", {"a": "1", "q": "2"}),
        ("x://h{/path*}", "x://h/a/b/c", {"path": ["a", "b", "c"]}),
        ("x://h{;v}", "x://h;v=1", {"v": "1"}),
        ("x://{a:1}/{a}", "x://v/value", {"a": "value"}),
        ("x://{a:1}/{a}", "x://w/value", None),
        ("x://{a:1}", "x://value", None),
        ("x://{a}/{a}", "x://1/1", {"a": "1"}),
        ("x://{a}/{a}", "x://1/2", None),
        ("x://{up}/{+path}", "x://abc/def/g", {"up": "abc", "path": "def/g"}),
        ("x://{name}", "x://Hello!", {"name": "Hello!"}),
        ("x://{name}", "x://user@host", {"name": "user@host"}),
        ("x://{name}", "x://café", {"name": "café"}),
        ("x://{name}", "x://caf%C3%A9", {"name": "café"}),
        ("x://café/{name}", "x://café/1", {"name": "1"}),
        ("x://café/{name}", "x://caf%C3%A9/1", {"name": "1"}),
        ("x://{a}2F", "x://b%2F", None),
        ("x://{a}2Fz", "x://b2Fz", {"a": "b"}),
        ("x://fixed", "x://fixed", {}),
        ("x://fixed", "x://fixed2", None),
    ],
)
def test_match_returns_the_values_of_a_uri(template: str, uri: str, expected: object) -> None:
    assert UriTemplate(template).match(uri) == expected


SEGMENT_TEMPLATES = ["f://{x}", "f://{x}/end", "f://d{/x}", "f://d{.x}", "f://d{;x}", "f://{y,x}", "f://d{/x*}"]
SPANNING_TEMPLATES = ["f://{+x}", "f://d{#x}", "f://d{?x}", "f://d?a=b{&x}", "f://{?x*}"]
PREFIXES = {
    "d{/": "d/",
    "d{.": "d.",
    "d{;": "d;x=",
    "d{#": "d#",
    "d{?": "d?x=",
    "{y": "1,",
    "d?a": "d?a=b&x=",
    "{?": "?x=",
}


def uri_with(template: str, value: str) -> str:
    """Return a URI in which `x` of the template has this value."""
    start = next((PREFIXES[key] for key in PREFIXES if template.startswith("f://" + key)), "")
    return "f://" + start + value + ("/end" if template.endswith("/end") else "")


@pytest.mark.parametrize("template", SEGMENT_TEMPLATES)
@pytest.mark.parametrize(
    "value", ["..", "%2e%2e", "..%2F", "..%2fetc%2Fpasswd", "a%2Fb", "a%5Cb", "..%5c", "%2F", "x%00", "%2E.", "a%2f.."]
)
def test_match_refuses_values_that_leave_their_segment(template: str, value: str) -> None:
    assert UriTemplate(template).match(uri_with(template, "fine")) is not None
    assert UriTemplate(template).match(uri_with(template, value)) is None


@pytest.mark.parametrize("template", SPANNING_TEMPLATES)
def test_match_refuses_parent_segments_in_values_that_span_segments(template: str) -> None:
    parsed = UriTemplate(template)
    assert parsed.match(uri_with(template, "a%2Fb%2F..c")) is not None
    for value in ["..", "a%2F..%2Fb", "..%2Fa", "a%5C..", "%2e%2e%2Fetc", "a%2F%2E%2E", "%00"]:
        assert parsed.match(uri_with(template, value)) is None, value
    assert UriTemplate("f://{+x}").match("f://a/../b") is None


WINDOWS = ["C:secret.txt", "c%3asecret.txt", "file.txt:stream", "a%3A%3A$DATA", "..%20", "...", ".. .", "%2e%2e%2e"]


@pytest.mark.attack("resource-path")
@pytest.mark.parametrize("template", SEGMENT_TEMPLATES)
@pytest.mark.parametrize("value", WINDOWS)
def test_match_refuses_drives_and_streams_and_parents_of_windows(template: str, value: str) -> None:
    assert UriTemplate(template).match(uri_with(template, value)) is None
    allowed = UriTemplate(template, absolute_paths=True).match(uri_with(template, value)) is not None
    assert allowed == (":" in value or "%3a" in value.lower())  # the author's choice is about colons only


@pytest.mark.attack("resource-path")
@pytest.mark.parametrize("template", [*SPANNING_TEMPLATES, "f://d{#x*}"])
@pytest.mark.parametrize("value", ["/etc", "%2Fetc", "C:/x", "c%3A%5Cx", "%5C%5Chost%5Cx", "D:", "C:x", "c%3Ax"])
def test_match_refuses_absolute_paths_also_in_queries_unless_the_template_allows_them(
    template: str, value: str
) -> None:
    assert UriTemplate(template).match(uri_with(template, value)) is None
    assert UriTemplate(template, absolute_paths=True).match(uri_with(template, value)) is not None
    for relative in ("10:30", "etc/CC:/x"):
        assert UriTemplate(template).match(uri_with(template, relative)) is not None


@pytest.mark.parametrize(
    "uri", ["f://%ff", "f://%", "f://%2", "f://%zz", "f://\ud800", "f://a b", "f://a\n", "f://<a>", ""]
)
def test_match_of_an_invalid_uri_is_none(uri: str) -> None:
    assert UriTemplate("f://{x}").match(uri) is None
    assert UriTemplate("f://{+x}").match(uri) is None


@pytest.mark.parametrize(
    "template", ["{", "}", "a{b", "a}b", "{}", "{,}", "{a,}", "{a b}", "a b", "{a:}", "{a:1*}", "{|a}", "a\ud800"]
)
def test_template_error_names_the_fault(template: str) -> None:
    with pytest.raises(TemplateError, match="RFC 6570"):
        UriTemplate(template)


def test_template_over_max_template_is_an_error() -> None:
    UriTemplate("a" * MAX_TEMPLATE)
    with pytest.raises(TemplateError, match="8192"):
        UriTemplate("a" * (MAX_TEMPLATE + 1))


def test_variables_are_listed_once_in_order() -> None:
    assert UriTemplate("{b}{a,b}{?c*,a:3}").variables == ("b", "a", "c")
    assert UriTemplate("plain").variables == ()


def test_expand_writes_numbers_as_text_and_none_as_nothing() -> None:
    assert UriTemplate("x://{a}{?b,c,d}").expand({"a": 1, "b": 2.5, "c": None, "d": []}) == "x://1?b=2.5"


HOSTILE = [
    ("a://{+p}/x", "a://" + "/" * 100_000),
    ("a://{+p}/x{q}", "a://" + "/x" * 50_000 + "/"),
    ("a://{x}{+y}{z}", "a://" + "%2e" * 33_000 + "%"),
    ("{+a}/{+b}/{+c}/{+d}/!", "/" * 100_000),
    ("{a}-{b}-{c}-{d}/", "-" * 100_000),
    ("{?a*}", "?" + "a=1&" * 25_000),
    ("{?a*}", "?" + "".join(f"{n}=&" for n in range(16_000))),
    ("a://{+p}/" + "x/" * 50, "a://" + "/x" * 50_000),
    ("{/a*}", "/." * 50_000),
    ("{+x}{+y}{+z}{+w}!", "a" * 100_000),
]


@pytest.mark.parametrize(("template", "uri"), HOSTILE)
def test_match_of_a_hostile_uri_does_not_backtrack(template: str, uri: str) -> None:
    # No repetition gives back characters. The benchmark has the times; here, quadratic time would exceed the limit.
    parsed = UriTemplate(template)
    # each repetition stands in a lookahead, whose text is then taken as a whole
    outside = re.sub(r"\(\?=\(\?P<atomic(\d+)>.*?\)\)\(\?P=atomic\1\)", "", parsed._pattern.pattern)
    assert not re.search(r"(?<!\\)[*?+]", outside), outside
    start = time.process_time()
    parsed.match(uri)
    assert time.process_time() - start < 5


def test_match_returns_the_random_values_of_an_expanded_uri() -> None:
    rng = random.Random(6570)
    templates = [
        "x://{a}/{b}", "x://h{/a,b}", "x://h{?a,b}", "x://h{;a,b}", "x://{a}{?b}", "x://{+a}#{b}", "x://{a}:{b}!{&c}",
    ]  # fmt: skip
    alphabet = "abzAZ09-_~ %é日😀<>{}|\"'\u0301^`"
    for _ in range(2_000):
        values: dict[str, Value] = {name: "".join(rng.choices(alphabet, k=rng.randint(1, 8))) for name in "ab"}
        template = UriTemplate(rng.choice(templates))
        uri = template.expand(values)
        assert uri.isascii()
        if template.template.startswith("x://{+a}") and "%" in str(values["a"]):
            continue  # encoded characters stay encoded: "%41" and "A" make the same URI
        assert template.match(uri) == values, (template, values, uri)


@pytest.mark.parametrize(
    ("value", "possible"),
    [
        ("12", ["12", 12]),
        ("-1.5e3", ["-1.5e3", -1500.0]),
        ("true", ["true", True]),
        ("012", ["012"]),
        ("x", ["x"]),
        (["1"], [["1"]]),
        ("9" * 5000, ["9" * 5000]),
    ],
)
def test_possible_values_of_a_text_are_a_number_or_boolean_too(value: MatchedValue, possible: list[object]) -> None:
    assert possible_values(value) == possible
