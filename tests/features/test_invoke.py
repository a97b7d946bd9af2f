"""Running a user's function: on the loop or in a worker thread, with the context where it asks for one."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from mcp_ref import Server
from mcp_ref.basic.channel import RequestContext
from mcp_ref.features.invoke import call
from mcp_ref.lib.typed import signature_of
from tests.settings import run


class Desk(RequestContext):
    """A request being served: it runs what blocks in place, and notes that it did."""

    __slots__ = ("in_workers",)

    def __init__(self) -> None:
        self.in_workers = 0

    async def run_in_worker(self, function: Callable[[], object]) -> object:
        self.in_workers += 1
        return function()


async def waits(name: str) -> str:
    return f"waited for {name}"


def blocks(name: str) -> str:
    return f"blocked for {name}"


@functools.wraps(waits)
def hides(*args: object, **kwargs: object) -> object:
    return waits(*args, **kwargs)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("function", "result", "workers"),
    [(waits, "waited for Ann", 0), (blocks, "blocked for Ann", 1), (hides, "waited for Ann", 1)],
)
def test_call_runs_a_plain_function_in_a_worker_and_awaits_an_awaitable_on_the_loop(
    function: Callable[..., object], result: str, workers: int
) -> None:
    desk = Desk()
    assert run(call(function, signature_of(function), {"name": "Ann"}, desk)) == result
    assert desk.in_workers == workers


def test_call_passes_the_context_and_leaves_the_arguments_unchanged() -> None:
    def tool(name: str, desk: Desk) -> tuple[str, Desk]:
        return name, desk

    desk, arguments = Desk(), {"name": "Ann"}
    signature = signature_of(tool, context_type=Desk)
    assert run(call(tool, signature, signature.bind(arguments), desk)) == ("Ann", desk)
    assert arguments == {"name": "Ann"}


def text_for_number(days: int = "3") -> None: ...  # type: ignore[assignment]


def test_registration_refuses_a_default_that_is_not_a_value_of_the_type() -> None:
    server = Server("s")
    for register in (server.tools.add, server.prompts.add, partial(server.resources.add, "test://a")):
        with pytest.raises(TypeError, match=r"text_for_number\(days\): the default '3' "):
            register(text_for_number)


@pytest.mark.parametrize("member", [object(), math.nan, {1, 2}], ids=["object", "nan", "set"])
def test_registration_refuses_an_option_that_cannot_be_written_as_json(member: object) -> None:
    server = Server("s")  # otherwise `tools/list` would fail, with all its other tools
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"default": member}}}
    meta: dict[str, Any] = {"a": member}
    resource, template = server.resource("test://a", meta=meta), server.resource("test://{a}", meta=meta)
    for registering in (server.tool(input_schema=schema), server.prompt(meta=meta), resource, template):
        with pytest.raises((TypeError, ValueError), match="JSON"):
            registering(lambda a="": "x")


class Calculator:
    """A class whose methods are tools."""

    def add(self, a: int, b: int) -> int:
        return a + b

    @classmethod
    def name(cls, a: int) -> str:
        return cls.__name__


def test_registration_takes_the_method_of_an_object() -> None:
    server = Server("s")
    assert list(server.tools.add(Calculator().add).input_schema["properties"]) == ["a", "b"]  # type: ignore[arg-type]
    assert list(server.tools.add(Calculator.name).input_schema["properties"]) == ["a"]  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["add", "name"])
def test_registration_refuses_a_method_without_its_object(name: str) -> None:
    with pytest.raises(TypeError, match=rf"Calculator.{name}\(\) is a method: .*its method: add\(obj.{name}\)"):
        Server("s").tool()(Calculator.__dict__[name])
