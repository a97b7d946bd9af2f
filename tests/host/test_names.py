"""The names of servers and tools: unique, valid for every model provider, and independent of other servers."""

from __future__ import annotations

import random
import re

import pytest

from mcp_ref.features.resources import Resource, ResourceTemplate
from mcp_ref.features.tools import Tool
from mcp_ref.host.names import Listed, UnknownName, model_name, model_names, server_name

PROVIDERS = {
    "MCP": r"[A-Za-z0-9_.-]{1,128}",
    "OpenAI": r"[a-zA-Z0-9_-]{1,64}",
    "Anthropic": r"[a-zA-Z0-9_-]{1,128}",
    "Claude Desktop": r"[a-zA-Z0-9_-]{1,64}",
    "Gemini": r"[a-zA-Z_][a-zA-Z0-9_.-]{0,62}",
    "Bedrock Converse": r"[a-zA-Z0-9_-]{1,64}",
    "Mistral": r"[a-zA-Z0-9_-]{1,64}",
    "Cursor": r"[a-zA-Z0-9_-]{1,60}",
}
"""The names that each reader of our names accepts."""


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("weather", "weather"),
        ("Weather service", "Weather-service"),
        ("github.com/owner/repo", "github-com-owner-repo"),
        ("__x__", "x"),
        ("1password", "password"),
        ("a" * 24, "a" * 24),
        ("a" * 25, "a" * 19 + "-2f52"),
        ("東京", "server-1300"),
        ("\ud800", "server-91a6"),
    ],
)
def test_server_name_has_letters_digits_and_hyphens(key: str, name: str) -> None:
    found = server_name(key)
    assert re.fullmatch("[A-Za-z][A-Za-z0-9-]{0,23}", found)
    assert found == name


def random_name(chance: random.Random) -> str:
    alphabet = chance.choice(["ab_", "aB0-._/ ", "xyz__", "é€😀a", "\x00\n. "])
    return "".join(chance.choices(alphabet, k=chance.choice([1, 2, 5, 20, 64, 128])))


@pytest.mark.acceptance("9")
@pytest.mark.spec("2026-07-28/server/tools#tool-names-6,7")
def test_model_names_of_random_servers_are_unique_valid_and_reversible() -> None:
    chance = random.Random(9)
    for _ in range(200):
        servers = {server_name(random_name(chance)) for _ in range(2)}
        pairs = {(server, random_name(chance)) for server in servers for _ in range(20)}
        table = model_names(pairs)
        assert sorted(table.values()) == sorted(pairs)
        for name in table:
            for provider, pattern in PROVIDERS.items():
                assert re.fullmatch(pattern, name), (provider, name)


@pytest.mark.acceptance("10")
def test_model_name_depends_on_its_server_and_tool_only() -> None:
    alone = model_names([("weather", "fore.cast"), ("weather", "now")])
    together = model_names([("mail", "now"), ("weather", "now"), ("a", "x"), ("weather", "fore.cast")])
    assert alone.items() <= together.items()


def test_model_name_of_a_valid_name_is_unchanged() -> None:
    assert model_name("weather", "forecast") == "weather__forecast"
    assert model_name("s", "t" * 57) == "s__" + "t" * 57
    assert re.fullmatch("weather__fore_cast_[0-9a-f]{8}", model_name("weather", "fore.cast"))


@pytest.mark.acceptance("A6")
def test_model_names_with_a_collision_prefer_the_unchanged_name() -> None:
    forged = model_name("a", "b.c").removeprefix("a__")
    table = model_names([("a", "b.c"), ("a", forged)])
    assert table == {f"a__{forged}": ("a", forged), model_name("a", "b.c", 16): ("a", "b.c")}


@pytest.mark.parametrize(
    ("name", "known", "advice"),
    [
        ("add", ["a.add", "b.add", "c.add", "d.add", "e.other"], "did you mean a.add or b.add or c.add?"),
        ("a.ad", ["a.add", "b.other"], "did you mean a.add?"),
        ("x", ["a.add", "b.other"], "did you mean a.add or b.other?"),
        ("s.to", [f"s.to{each}" for each in range(4)], "did you mean s.to3 or s.to2 or s.to1?"),
        ("x", [*"abcdefghijkl"], f"did you mean {' or '.join('abcdefghijkl')}?"),
        ("x", [f"s.tool{each}" for each in range(13)], "the host has 13"),
        ("x", [], "the host has none"),
    ],
)
def test_unknown_name_suggests_at_most_three_names_or_all_of_a_few(name: str, known: list[str], advice: str) -> None:
    assert str(UnknownName("tool", name, known)) == f"unknown tool {name!r}; {advice}"


def test_listed_full_name_has_the_name_uri_or_uri_template() -> None:
    assert Listed("s", Tool("a.b", {})).full_name == "s.a.b"
    assert Listed("s", Resource("x://a", "n")).full_name == "s.x://a"
    assert Listed("s", ResourceTemplate("x://{a}", "n")).full_name == "s.x://{a}"
