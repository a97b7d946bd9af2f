"""The names that clients of a bridge of several servers see."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import pytest

from mcp_ref.bridge import namespaces
from mcp_ref.bridge.namespaces import Namespace
from mcp_ref.host.names import model_name, model_names
from mcp_ref.jsonrpc.errors import ProtocolError
from mcp_ref.jsonrpc.messages import JSON, Object


def shown(names: Namespace, *own: str) -> list[str]:
    tools: list[JSON] = [{"name": each} for each in own]
    return [tool["name"] for tool in cast(Any, names.result_for_client("a", {"tools": tools})["tools"])]


def test_names_of_a_list_are_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def make(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, str]]:
        calls.append(1)
        return model_names(pairs)

    monkeypatch.setattr(namespaces, "model_names", make)
    assert shown(Namespace(["a", "b"], False), "x", "y", "z") == ["a__x", "a__y", "a__z"]
    assert len(calls) == 1


def test_uri_belongs_to_the_only_server_or_to_the_one_that_it_names() -> None:
    assert Namespace(["a"], True).split_uri("note://1") == ("a", "note://1")
    assert Namespace(["a"], True).split_name("t") == ("a", "t")
    names = Namespace(["a", "b"], False)
    for uri in ("note://1", "ui://w"):
        assert names.split_uri(names.uri_for_client("b", uri)) == ("b", uri)
    assert names.uri_for_client("b", "ui://w") == "ui://b/w"


def test_result_has_the_names_that_clients_see_but_its_texts_and_data_are_unchanged() -> None:
    names, contents = Namespace(["a", "b"], False), [{"uri": "n:1", "_meta": {"uri": "n:2"}, "blob": {"uri": "n:3"}}]
    result: Any = {"contents": contents, "prompts": [{"name": "p", "title": "P"}, {"title": "no name"}, 5]}
    assert names.result_for_client("a", result) == {
        "contents": [{"uri": "mcp://a/n:1", "_meta": {"uri": "mcp://a/n:2"}, "blob": {"uri": "n:3"}}],
        "prompts": [{"name": "a__p", "title": "P (a)"}],
    }
    assert (names.prefix("a"), Namespace(["a"], True).prefix("a")) == ("[a] ", "")


@pytest.mark.parametrize(
    ("method", "params", "routed"),
    [
        ("tools/call", {"name": "b__t"}, {"name": "t"}),
        ("tools/call", {"name": "b__t", "arguments": {"l": ["mcp://b/a:b", 5, "mcp://a/a:b"], "u": "ui://b/w"}},
                       {"name": "t", "arguments": {"l": ["a:b", 5, "mcp://a/a:b"], "u": "ui://w"}}),
        ("prompts/get", {"name": "b__p"}, {"name": "p"}),
        ("completion/complete", {"ref": {"name": "b__p", "x": 1}}, {"ref": {"name": "p", "x": 1}}),
        ("completion/complete", {"ref": {"uri": "mcp://b/a:b"}}, {"ref": {"uri": "a:b"}}),
        ("resources/read", {"uri": "ui://b/w"}, {"uri": "ui://w"}),
        ("tools/call", {"name": 5}, None),
        ("tools/call", {"name": "c__t"}, None),
        ("tools/call", {"name": "b__t.x"}, None),
        ("completion/complete", {"ref": 5}, None),
        ("resources/read", {"uri": "a:b"}, None),
    ],
)  # fmt: skip
def test_route_names_the_server_and_unwraps_its_names_and_uris(
    method: str, params: Object, routed: Object | None
) -> None:
    names = Namespace(["a", "b"], False)
    if routed is not None:
        assert names.route(method, params) == ("b", routed)
    else:
        with pytest.raises(ProtocolError, match="Invalid params") as refused:
            names.route(method, params)
        assert refused.value.data == (params if params == {"uri": "a:b"} else None)


def test_names_of_one_list_differ_although_one_tool_has_the_changed_name_of_another() -> None:
    names = Namespace(["a", "b"], False)
    changed = model_name("a", "x.y")
    found = shown(names, "x.y", changed.removeprefix("a__"))
    assert found[1] == changed and found[0] != changed
    assert [names.split_name(each) for each in found] == [("a", "x.y"), ("a", changed.removeprefix("a__"))]
