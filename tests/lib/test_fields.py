"""A wrong type in a public class is refused where it is given, with an error that names the field and the value."""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import pytest

import mcp_ref
from mcp_ref import (
    AuthorizationCode,
    Bearer,
    CallToolResult,
    Client,
    DpopCheck,
    EndpointLimits,
    Host,
    HttpClient,
    HttpLimits,
    Icon,
    Introspection,
    JwtVerifier,
    MemoryEventStore,
    MemoryTaskStore,
    Protection,
    RouteResponse,
    Server,
    SqliteEventStore,
    Tool,
)
from mcp_ref.client.options import ClientOptions
from mcp_ref.codec import codec_for, members_of
from mcp_ref.features.prompts import PromptOptions
from mcp_ref.features.registered_tools import ToolOptions
from mcp_ref.features.resources import ResourceOptions
from mcp_ref.lib.fields import CheckedFields, check_options, describe, fits, hints_of
from mcp_ref.revisions import PYTHON_ONLY, REVISIONS, Revision
from mcp_ref.server.http_options import HttpOptions
from mcp_ref.server.options import ServerOptions
from mcp_ref.transports.streamable_http.event_store import StoreLimits

MADE_BY_THE_PACKAGE = {"Approval", "HttpRequest", "Revision", "ServedRequest", "ServerStatus", "SessionChange"}
"""The public dataclasses that authors only read."""

HAS_OTHER_ARGUMENTS = {"Bearer"}


CLASSES_WITH_CHECKED_ARGUMENTS = [
    DpopCheck, HttpClient, Introspection, JwtVerifier, MemoryEventStore, MemoryTaskStore, Protection, SqliteEventStore,
]  # fmt: skip
"""The public classes that check their arguments without being dataclasses."""


class Odd:
    """An object of a class that no annotation names."""

    def __repr__(self) -> str:
        return "Odd()"


def _example(hint: object) -> object:
    """Return a value that fits an annotation."""
    candidates: list[object] = [
        "", 0, 0.5, b"", [], {}, (), frozenset(), mcp_ref.TextContent(""), mcp_ref.TextResourceContents("x:", ""),
        mcp_ref.MemoryStore(), mcp_ref.Task("1", "working", "", "", None), lambda: None,
    ]  # fmt: skip
    choices = [*candidates, *re.findall(r"'([\w/]+)'", describe(hint))]
    return next(each for each in choices if fits(hint, each))


def _classes(is_checked_at_construction: bool) -> Iterator[type]:
    for name in sorted(set(mcp_ref.__all__) - MADE_BY_THE_PACKAGE - HAS_OTHER_ARGUMENTS):
        cls: Any = getattr(mcp_ref, name)
        is_checked = isinstance(cls, type) and issubclass(cls, CheckedFields)
        if dataclasses.is_dataclass(cls) and is_checked is is_checked_at_construction:
            yield cls  # type: ignore[misc]  # mypy thinks of an object


def _mistakes(is_checked_at_construction: bool) -> list[Any]:
    return [
        pytest.param(cls, name, id=f"{cls.__name__}-{name}")
        for cls in _classes(is_checked_at_construction)
        for name, hint in hints_of(cls).items()
        if name in {each.name for each in dataclasses.fields(cls)} and not fits(hint, Odd())
    ]


def _build(cls: type, mistaken: str) -> object:
    hints, required = hints_of(cls), {}
    for each in dataclasses.fields(cls):
        if each.default is each.default_factory is dataclasses.MISSING:
            required[each.name] = _example(hints[each.name])
    return cls(**{**required, mistaken: Odd()})


@pytest.mark.parametrize(("cls", "name"), _mistakes(True))
def test_object_of_an_author_with_a_wrong_field_is_a_type_error(cls: type, name: str) -> None:
    with pytest.raises(TypeError, match=rf"^{cls.__name__}\.{name} must be .+, not (Odd\(\)|an object of Odd)$"):
        _build(cls, name)


@pytest.mark.parametrize(("cls", "name"), _mistakes(False))
def test_message_with_a_wrong_field_is_a_type_error_when_it_is_written(cls: type, name: str) -> None:
    (member,) = (each for each in members_of(cls) if each.attribute == name)
    if member.availability == PYTHON_ONLY:
        pytest.skip("no revision writes this field")
    revision = next(each for each in REVISIONS if member.availability.covers(each))
    with pytest.raises(TypeError, match=rf"^{cls.__name__}\.{name} must .+, not Odd\(\)$"):
        codec_for(max(revision, _first_revision(cls))).encode(_build(cls, name))


def _first_revision(cls: type) -> Revision:
    availability = getattr(cls, "availability", None)
    return REVISIONS[0] if availability is None else next(each for each in REVISIONS if availability.covers(each))


@pytest.mark.parametrize(
    "known", [ClientOptions, HttpOptions, PromptOptions, ResourceOptions, ServerOptions, StoreLimits, ToolOptions]
)
def test_option_of_the_wrong_type_is_a_type_error(known: type) -> None:
    for name, hint in hints_of(known).items():
        if not fits(hint, Odd()):
            with pytest.raises(TypeError, match=rf"^the option {name} must have the type .+, not Odd$"):
                check_options({name: Odd()}, known)


@pytest.mark.parametrize("name", ["host", "port", "ssl", "http_limits"])
async def test_serve_http_refuses_an_argument_of_the_wrong_type(name: str) -> None:
    with pytest.raises(TypeError, match=rf"^the option {name} must have the type .+, not Odd$"):
        await Server("s").serve_http(**wrong({name: Odd()})).__aenter__()


def test_check_options_lists_the_possible_texts_of_an_option() -> None:
    server = Server("s")
    with pytest.raises(TypeError, match=r"TaskSupport, not str; choose 'forbidden' or 'optional' or 'required'$"):
        server.tool(task=wrong("maybe"))(lambda: None)
    with pytest.raises(TypeError, match=r"; choose 'public' or 'private'$"):
        Server("s", cache_scope=wrong("shared"))


def test_text_option_with_half_of_a_surrogate_pair_is_a_value_error() -> None:
    advice = re.escape("; replace it with .encode(errors='replace').decode()")
    with pytest.raises(ValueError, match=rf"^the option title has half of a surrogate pair at index 1, .*{advice}$"):
        Server("s").tool("x", title="a\ud800")(lambda: None)


def test_path_option_may_have_half_of_a_surrogate_pair_because_a_file_name_can() -> None:
    client = Client(["server"], cwd="/folder\udc80")
    assert client.connector.target.options.get("cwd") == "/folder\udc80"


async def _async_callback(*_: object) -> None: ...


class _AsyncCallback:
    async def __call__(self, *_: object) -> None: ...


@pytest.mark.parametrize("callback", [_async_callback, _AsyncCallback()], ids=["function", "object"])
async def test_async_function_is_refused_as_a_callback_that_nobody_awaits(callback: Callable[..., object]) -> None:
    advice = "; write `def` instead of `async def`$"
    for options in ({"on_log": callback}, {"on_tools_changed": callback}):
        with pytest.raises(TypeError, match=rf"^the option on_\w+ must have the type .*{advice}"):
            Client(Server("s"), **wrong(options))
    with pytest.raises(TypeError, match=rf"^Host.audit must be a function.*{advice}"):
        Host({}, audit=wrong(callback))
    server = Server("s")
    server.tool(name="x")(lambda: None)
    async with Client(server) as client:
        with pytest.raises(TypeError, match=rf"^on_progress must be a plain function{advice}"):
            await client.call_tool("x", on_progress=wrong(callback))


@pytest.mark.parametrize("cls", CLASSES_WITH_CHECKED_ARGUMENTS)
def test_argument_of_the_wrong_type_is_a_type_error(cls: type) -> None:
    hints = hints_of(cls.__init__)  # type: ignore[misc]  # not of an object
    parameters = inspect.signature(cls).parameters.values()
    required = {each.name: _example(hints[each.name]) for each in parameters if each.default is each.empty}
    required.pop("limits", None)  # keyword arguments, which `check_options` checks
    names = [each.name for each in parameters if not fits(hints[each.name], Odd())]
    assert names
    for name in names:
        with pytest.raises(TypeError, match=rf"^{name} must be .+, not Odd$"):
            cls(**{**required, name: Odd()})


class _Store:
    def put(self) -> None: ...
    def get(self) -> None: ...


@pytest.mark.parametrize("mistake", [5, "redis", MemoryTaskStore, _Store()])
@pytest.mark.parametrize(("name", "wanted"), [("task_store", "TaskStore | AsyncTaskStore"), ("broadcast", "Broadcast")])
def test_server_refuses_an_object_without_the_methods_of_an_option(mistake: object, name: str, wanted: str) -> None:
    options: dict[str, Any] = {name: mistake}
    with pytest.raises(TypeError, match=rf"^the option {name} must have the type {re.escape(wanted)} \| None, not "):
        Server("s", **options)


def wrong(value: object) -> Any:
    """Return a value, so that mypy does not see its type."""
    return value


@pytest.mark.parametrize("limits", [EndpointLimits, HttpLimits])
@pytest.mark.parametrize("seconds", [0, 0.0, -1.0, math.nan])
def test_limits_refuse_a_time_of_0_which_a_server_would_wait_again_and_again(limits: Any, seconds: float) -> None:
    for field in dataclasses.fields(limits):
        if field.type == "float":
            why = rf"{limits.__name__}.{field.name} must be above 0, or math.inf for no limit, not {seconds}"
            with pytest.raises(ValueError, match=why):
                limits(**{field.name: seconds})
            limits(**{field.name: math.inf})


@pytest.mark.parametrize(
    ("mistake", "error"),
    [
        (
            lambda: RouteResponse(200, wrong(b"ok")),
            "RouteResponse.headers must be Mapping[str, str], not b'ok'; did you mean body=b'ok'?",
        ),
        (
            lambda: RouteResponse(headers=wrong({"X-Count": 5})),
            "RouteResponse.headers must be Mapping[str, str], not {",
        ),
        (lambda: AuthorizationCode(scopes="notes:write"), "Sequence[str], not 'notes:write'; write ['notes:write']"),
        (lambda: Bearer(wrong(None)), "the token must be a str or an async function, not an object of NoneType"),
        (lambda: EndpointLimits(sessions=True), "EndpointLimits.sessions must be int, not True"),
        (lambda: MemoryEventStore(max_age=wrong("1h")), "the option max_age must have the type float, not str"),
        (lambda: Server("s").tool(icons=[Icon(wrong(b"x"))])(lambda: "x"), "Icon.src must be str, not b'x'"),
        (lambda: Server("s").tool(annotations=wrong({}))(lambda: "x"), "; write ToolAnnotations(...) instead"),
        (lambda: _written(CallToolResult(wrong("ok"))), "CallToolResult.content must be list["),
        (
            lambda: _written(CallToolResult(wrong(["ok"]))),
            "CallToolResult.content must have objects of TextContent or ",
        ),
        (
            lambda: _written(Tool("x", {}, icons=wrong([{"src": "https://a.example"}]))),
            "Tool.icons must have objects of Icon",
        ),
    ],
)
def test_error_of_a_wrong_type_names_the_field_and_the_value_and_says_what_to_write(
    mistake: Callable[[], object], error: str
) -> None:
    with pytest.raises(TypeError, match=re.escape(error)):
        mistake()


def _written(message: object) -> object:
    return codec_for(REVISIONS[-1]).encode(message)


@pytest.mark.parametrize(
    ("hint", "good", "bad"),
    [
        (int, [0, 10**30], [True, 1.0, "1", None]),
        (float, [0, 0.5, math.inf], [True, "1", None]),
        (bool, [True], [1, None]),
        (str | None, ["", None], [b"", 0]),
        (list[str], [[], ["a"], ("a",)], ["a", [1], {"a"}, None]),
        (Sequence[str], [[], ("a",)], ["a", b"a", [b"a"]]),
        (frozenset[str], [frozenset(("a",))], [{"a"}, frozenset((1,))]),
        (tuple[str, int], [("a", 1)], [("a",), ("a", "b"), ["a", 1]]),
        (tuple[int, ...], [(), (1, 2)], [("a",), [1]]),
        (Mapping[str, int], [{}, {"a": 1}], [{1: 1}, {"a": "b"}, []]),
        (Literal["a", 1], ["a", 1], ["b", True, None]),
        (Callable[[int], str], [print, len], ["print"]),
        (Any, [None, object()], []),
    ],
)
def test_values_fit_an_annotation_or_not(hint: object, good: list[object], bad: list[object]) -> None:
    assert [fits(hint, value) for value in [*good, *bad]] == [True] * len(good) + [False] * len(bad)


def test_check_of_a_protocol_runs_no_property_of_the_value() -> None:
    class LazyStore:
        put = get = remove = print

        @property
        def page(self) -> Callable[..., object]:
            raise RuntimeError("not connected yet")

    Server("s", task_store=wrong(LazyStore()))
