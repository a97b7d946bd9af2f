"""WWW-Authenticate: the grammar of RFC 9110 is read exactly, and nothing that a peer chose can add a parameter."""

from __future__ import annotations

import time

import pytest

from mcp_ref.basic.authorization.challenges import (
    MAX_CHALLENGES,
    MAX_FIELD,
    MAX_SCOPES,
    Challenge,
    parse_challenges,
    read_credentials,
    split_scopes,
    token_challenge,
    write_challenge,
)

PRM = "https://mcp.example/.well-known/oauth-protected-resource"


def _parsed(*fields: str) -> list[tuple[str, dict[str, str], str]]:
    return [(one.scheme, dict(one.parameters), one.token68) for one in parse_challenges(fields)]


@pytest.mark.spec(
    "2026-07-28/basic/authorization/authorization-server-discovery#protected-resource-metadata-discovery-requirements-4",
    "2025-11-25/basic/authorization#protected-resource-metadata-discovery-requirements-8",
    "2025-06-18/basic/authorization#authorization-server-location-4",
)
@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("", []),
        (" , ,", []),
        ("Bearer", [("bearer", {}, "")]),
        ("BEARER Scope=a", [("bearer", {"scope": "a"}, "")]),
        ('Bearer scope = "a b"', [("bearer", {"scope": "a b"}, "")]),
        ('Bearer scope="a",error=b', [("bearer", {"scope": "a", "error": "b"}, "")]),
        ('Bearer scope="a" ,, error=b , ', [("bearer", {"scope": "a", "error": "b"}, "")]),
        ('Bearer realm=""', [("bearer", {"realm": ""}, "")]),
        (r'Bearer x="a \"b\" \\c"', [("bearer", {"x": r'a "b" \c'}, "")]),
        (r'Bearer x="scope=\"all\", scope=all"', [("bearer", {"x": 'scope="all", scope=all'}, "")]),
        ("Negotiate abc/+~==", [("negotiate", {}, "abc/+~==")]),
        ("Negotiate a=, Bearer b=c", [("negotiate", {}, "a="), ("bearer", {"b": "c"}, "")]),
        ('Basic realm="x, Bearer y=z", Bearer', [("basic", {"realm": "x, Bearer y=z"}, ""), ("bearer", {}, "")]),
        ("Newauth a=1, b=2, Basic c=3", [("newauth", {"a": "1", "b": "2"}, ""), ("basic", {"c": "3"}, "")]),
        ('Bearer x="caf\xe9"', [("bearer", {"x": "caf\xe9"}, "")]),
    ],
)
@pytest.mark.attack("A16")
def test_parse_challenges_reads_the_grammar(field: str, expected: list[tuple[str, dict[str, str], str]]) -> None:
    assert _parsed(field) == expected


@pytest.mark.parametrize(
    "field",
    [
        'Bearer scope="a', 'Bearer scope="a\\"', 'Bearer scope="a"b', "Bearer scope=a b",
        "Bearer error_description=No token given", "Bearer scope=a; error=b", 'Bearer "scope"=a', "Bearer\tscope=a",
        'Bearer scope="a\nb"', 'Bearer scope="a\\\x00b"', "=a", "Bearer (x)", "Bearer a==b", 'Bearer scope="a"\n',
    ],
)  # fmt: skip
@pytest.mark.attack("A16")
def test_parse_challenges_ignores_a_field_that_breaks_the_grammar(field: str) -> None:
    assert _parsed(field, "Basic realm=x") == [("basic", {"realm": "x"}, "")]


@pytest.mark.attack("A16")
def test_parse_challenges_ignores_a_challenge_with_a_duplicate_parameter() -> None:
    assert _parsed('Bearer scope=a, SCOPE="b", Basic realm=x') == [("basic", {"realm": "x"}, "")]


@pytest.mark.attack("A16")
def test_parse_challenges_limits_size_and_number() -> None:
    assert _parsed("Bearer x=" + "a" * (MAX_FIELD - 8)) == []
    assert len(_parsed("Bearer x=" + "a" * (MAX_FIELD - 9))) == 1
    assert len(_parsed(*["Basic, Digest, Bearer"] * 100)) == MAX_CHALLENGES


@pytest.mark.parametrize(
    "hostile",
    [
        "Bearer " + "," * 8000, "Bearer" + " " * 8000, "a=" * 4000, "Bearer " + "a=b," * 2000,
        'Bearer x="' + "\\" * 8000, "Bearer x" + " " * 8000 + "y", "a, " * 2700 + '"', "Bearer " + "=" * 8000,
        "a " * 4000,
    ],
)  # fmt: skip
@pytest.mark.attack("A16")
def test_parse_challenges_of_hostile_fields_is_fast(hostile: str) -> None:
    begin = time.process_time()
    parse_challenges([hostile[:MAX_FIELD]] * 5)
    assert time.process_time() - begin < 0.5


def test_token_challenge_is_the_first_that_names_metadata() -> None:
    fields = ["Bearer scope=a", f'Negotiate abc, Bearer scope=b, resource_metadata="{PRM}"', "Bearer scope=c"]
    challenge = token_challenge(fields)
    assert challenge.parameters["resource_metadata"] == PRM and challenge.scopes == ("b",)
    assert token_challenge(["Basic realm=x", "Bearer scope=a"]) == Challenge("bearer", {"scope": "a"})
    assert token_challenge(["Basic realm=x", "Bearer abc"]) == Challenge("", {})
    assert token_challenge([]) == Challenge("", {})


@pytest.mark.spec(
    "2026-07-28/basic/authorization/index#scope-selection-strategy-3",
    "2025-11-25/basic/authorization#protected-resource-metadata-discovery-requirements-6",
)
@pytest.mark.attack("A16")
def test_challenge_scopes_are_those_of_the_parameter_scope_alone() -> None:
    field = r'Bearer error_description="needs scope=\"admin\", scope=root", scope="files:read  files:read files:write"'
    assert parse_challenges([field])[0].scopes == ("files:read", "files:write")
    assert parse_challenges(["Bearer"])[0].scopes == ()


def test_split_scopes_leaves_out_invalid_scopes_and_stops_at_the_limit() -> None:
    assert split_scopes([f'a "b" c\\d {"x" * 201}', f"{'y' * 200} \xe9 e\tf g"]) == ("a", "y" * 200, "g")
    assert len(split_scopes(map(str, range(10**5)))) == MAX_SCOPES


@pytest.mark.spec(
    "2026-07-28/basic/authorization/index#scope-selection-strategy-1",
    "2025-11-25/basic/authorization#protected-resource-metadata-discovery-requirements-4",
    "2026-07-28/basic/authorization/index#runtime-insufficient-scope-errors-4",
)
def test_write_challenge_of_a_refusal_has_all_parameters() -> None:
    challenge = write_challenge(
        "Bearer",
        error="insufficient_scope",
        scopes=["files:read", "files:write"],
        resource_metadata=PRM,
        description="Write permission required",
    )
    assert challenge == (
        'Bearer error="insufficient_scope", error_description="Write permission required", '
        f'scope="files:read files:write", resource_metadata="{PRM}"'
    )
    assert write_challenge("Bearer") == "Bearer"
    assert write_challenge("DPoP", algorithms=["ES256", "EdDSA"]) == 'DPoP algs="ES256 EdDSA"'


def test_write_challenge_filters_characters_that_would_add_parameters() -> None:
    evil = 'a", error="x\\\r\nSet-Cookie: b=c \u20ac'
    field = write_challenge("Bearer", scopes=[evil, "good"], description=evil, error=evil)
    assert field.isascii() and field.isprintable()
    [(_, parameters, _)] = _parsed(field)
    assert set(parameters) == {"error", "error_description", "scope"}
    assert parameters["scope"] == "a?,?error=?x???Set-Cookie:?b=c?? good"
    assert parameters["error_description"] == "a?, error=?x???Set-Cookie: b=c ?"


def test_read_credentials_returns_scheme_and_token() -> None:
    assert read_credentials("Bearer abc.DEF-_~+/==") == ("bearer", "abc.DEF-_~+/==")
    assert read_credentials(" dpop  x ") == ("dpop", "x")


@pytest.mark.spec(
    "2026-07-28/basic/authorization/index#error-handling-1",
    "2025-03-26..2025-11-25/basic/authorization#error-handling-1",
)
@pytest.mark.parametrize(
    "field",
    ["", "Bearer", "Bearer ", "xyz", "Bearer a b", "Bearer a,Bearer b", 'Bearer x="y"', "Bearer \xe9", "Bearer a\n"],
)
def test_read_credentials_of_a_malformed_field_is_an_error_that_does_not_quote(field: str) -> None:
    with pytest.raises(ValueError, match="a scheme and a token") as caught:
        read_credentials(field)
    assert field.strip() in ("", "Bearer") or field not in str(caught.value)
