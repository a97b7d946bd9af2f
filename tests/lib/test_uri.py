"""Tests of lib/uri.py: the canonical form of RFC 3986, section 6.2, and the comparison of URIs."""

from __future__ import annotations

import random
import timeit

import pytest

from mcp_ref.lib.uri import bare_path, canonical_uri, check_uri, includes_uri, parents, readings, respelled
from mcp_ref.lib.uritemplate import UriTemplate, canonical_template, checked_template
from tests.fuzz.spellings import other_spelling, random_uri


@pytest.mark.parametrize(
    ("uri", "canonical"),
    [
        ("notes://payroll", "notes://payroll"),
        ("NOTES://PAYROLL/Keys", "notes://payroll/Keys"),
        ("docs://%61dmin/%6Beys", "docs://admin/keys"),
        ("docs://%41dmin/%2d%2e%5f%7e", "docs://admin/-._~"),
        ("docs://a/%2f%3f%c3%a9", "docs://a/%2F%3F%C3%A9"),
        ("docs://Caf%c3%89/é", "docs://caf%C3%89/%C3%A9"),
        ("docs://a/./b/../c", "docs://a/c"),
        ("docs://a/%2e/b/%2E%2e/c", "docs://a/c"),
        ("docs://a/b/..", "docs://a/"),
        ("docs://a/../../b", "docs://a/b"),
        ("docs://a/..%2Fb", "docs://a/..%2Fb"),
        ("docs://a/b//c/", "docs://a/b//c/"),
        ("docs:/.//admin/keys", "docs:/.//admin/keys"),
        ("docs:/a/..//admin/keys", "docs:/.//admin/keys"),
        ("docs:a/../b", "docs:b"),
        ("docs:../a/.", "docs:a/"),
        ("docs://a:/b", "docs://a/b"),
        ("docs://a:0080/b", "docs://a:80/b"),
        ("docs://a:0/b", "docs://a:0/b"),
        ("HTTPS://Me:Pw@Host:443/", "https://Me:Pw@host/"),
        ("https://host:0443", "https://host"),
        ("https://host:80/", "https://host:80/"),
        ("http://[::A]:80/", "http://[::a]/"),
        ("docs://a?B=%62&c=%26#D%64", "docs://a?B=b&c=%26#Dd"),
        ("docs://a?/../b", "docs://a?/../b"),
        ("file:/a", "file:///a"),
        ("file://LOCALHOST/a", "file:///a"),
        ("file://host/a", "file://host/a"),
        ("urn:ISBN:1", "urn:ISBN:1"),
        ("x:", "x:"),
    ],
)
def test_canonical_uri_has_one_form_for_all_spellings(uri: str, canonical: str) -> None:
    assert canonical_uri(uri) == canonical
    assert canonical_uri(canonical) == canonical


@pytest.mark.parametrize(
    "text",
    ["", "a", "/a", "1:a", "a b:c", "a:b c", "a:%", "a:%4", "a:%zz", "a:%%41", "a:\ud800", "a:\n", "a:\x00", "a:<b>",
     "a:b#c#d", "a:{b}", "%61:b", "é:b", "a:b\n"],
)  # fmt: skip
def test_canonical_uri_of_an_invalid_uri_is_none(text: str) -> None:
    assert canonical_uri(text) is None
    with pytest.raises(ValueError, match="is not a URI"):
        check_uri(text)


@pytest.mark.parametrize(
    ("path", "bare"),
    [("docs:/ada@host./a/b", "docs:/host/a/b"), ("docs:a b%20/c%20d. ./e", "docs:a%20b/c%20d/e"), ("docs:a", "docs:a")],
)
def test_bare_path_has_no_user_and_no_dots_and_spaces_at_the_ends(path: str, bare: str) -> None:
    assert bare_path(path) == bare


def test_canonical_uri_is_equal_for_random_spellings_and_stable() -> None:
    rng = random.Random(3986)
    for _ in range(3_000):
        uri = random_uri(rng)
        canonical = canonical_uri(uri)
        assert canonical is not None and canonical_uri(canonical) == canonical, uri
        other = other_spelling(rng, uri)
        assert canonical_uri(other) == canonical, (uri, other)


@pytest.mark.parametrize("path", ["//admin/" + "a/" * 4000, "./" * 4000, "/" + "../" * 2700, "%41" * 2700, "." * 8000])
def test_canonical_uri_of_a_long_uri_is_made_in_linear_time(path: str) -> None:
    uri = f"x:{path}"
    assert min(timeit.repeat(lambda: canonical_uri(uri), number=1, repeat=5)) < 0.1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("docs://r&d/a", "docs://r%26d/a"),
        ("docs://a/b/c", "docs://a%2Fb/c"),
        ("docs://a/b", "docs://a%5Cb"),
        ("docs://a/b", "docs://a//b/"),
        ("docs://a/b", "docs://a/x%2F..%2Fb"),
        ("docs://a/b?x=/c", "docs://a/b?x=%2Fc"),
        ("docs://a/b?x=c?d", "docs://a/b?x=c%3Fd"),
        ("docs://a/[b]", "docs://a/%5bb]"),
        ("docs://a/%3Fb", "docs://a%2F%3Fb"),
    ],
)
def test_readings_are_equal_if_decoding_makes_uris_equal(one: str, other: str) -> None:
    assert canonical_uri(one) != canonical_uri(other)
    assert readings(canonical_uri(one) or "") == readings(canonical_uri(other) or "")


@pytest.mark.parametrize(
    ("uri", "as_sent", "as_decoded", "as_path"),
    [
        ("a://b/c?z=1&y=2#d", ("a:/b/c", "z=1 y=2 d"), ("a:/b/c", "z=1 y=2 d"), "a:/b/c%3Fz=1&y=2%23d"),
        ("a://b/c#?z=1&&", ("a:/b/c", "z=1"), ("a:/b/c", "z=1"), "a:/b/c%23%3Fz=1&&"),
        ("a://b/_//", ("a:/b/_", ""), ("a:/b/_", ""), "a:/b/_"),
        ("a://b%3Fc?d", ("a:/b%3Fc", "d"), ("a:/b", "c d"), "a:/b%3Fc%3Fd"),
        ("a://b?c=x%26d%3Fe%23f", ("a:/b", "c=x d e f"), ("a:/b", "c=x d e f"), "a:/b%3Fc=x&d%3Fe%23f"),
    ],
)
def test_readings_take_marks_as_plain_or_as_escaped(
    uri: str, as_sent: tuple[str, str], as_decoded: tuple[str, str], as_path: str
) -> None:
    expected = [(path, frozenset(rest.split())) for path, rest in (as_sent, as_decoded, (as_path, ""))]
    assert [*readings(uri)] == expected


def test_parents_are_the_uris_that_include_a_uri() -> None:
    rng = random.Random(1)
    for _ in range(500):
        uri = canonical_uri(random_uri(rng)) or ""
        prefixes = [uri[:end] for end in range(len(uri), 0, -1)]
        assert [parent for parent in prefixes if includes_uri(parent, uri)] == list(parents(uri))


@pytest.mark.parametrize(
    ("uri", "parent", "spelling", "expected"),
    [
        ("a://b/c", "a://b/c", "A://B/%63", "A://B/%63"),
        ("a://b/c/d", "a://b/c", "A://B/c", "A://B/c/d"),
        ("a://b/c/d", "a://b/c/", "a://b/c/.", "a://b/c/./d"),
        ("a://b/c/d", "a://b/c/", "A://b/c/", "A://b/c/d"),
    ],
)
def test_respelled_uri_begins_with_the_spelling_of_its_parent(
    uri: str, parent: str, spelling: str, expected: str
) -> None:
    assert respelled(uri, parent, spelling) == expected
    assert canonical_uri(expected) == uri


@pytest.mark.parametrize(
    ("template", "canonical"),
    [
        ("DOCS://%61dmin/{Page}", "docs://admin/{Page}"),
        ("docs://A{b}C/D%65{/f*}{?G,h}", "docs://a{b}c/De{/f*}{?G,h}"),
        ("https://H:443{+path}", "https://h{+path}"),
        ("https://h:{port}/a", "https://h:{port}/a"),
        ("docs://{+any}/Tail", "docs://{+any}/Tail"),
        ("docs://Host{+any}", "docs://host{+any}"),
        ("file:/{+path}", "file:///{+path}"),
        ("docs://a/b/../{c}", "docs://a/{c}"),
        ("docs://café/{x}", "docs://caf%C3%A9/{x}"),
        ("docs://a", "docs://a"),
        ("docs://a/{b}/../c", None),
        ("docs://a/%00/{b}", None),
        ("docs://a b/{c}", None),
        ("docs://a/{b", None),
        ("{scheme}://a", None),
    ],
)
def test_canonical_template_changes_only_literal_texts(template: str, canonical: str | None) -> None:
    assert canonical_template(template) == canonical
    if canonical is not None:
        assert canonical_template(canonical) == canonical == checked_template(template)
        assert UriTemplate(canonical).variables == UriTemplate(template).variables


@pytest.mark.parametrize(
    ("template", "words"),
    [("a://b{c", "RFC 6570"), ("{scheme}://a", "have a scheme"), ("a://b/{c}/..", "after a variable")],
)
def test_checked_template_says_what_is_wrong(template: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        checked_template(template)
