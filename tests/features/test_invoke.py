"""Running a user's function: on the loop or in a worker thread, with the context where it asks for one."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

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
def test_a_function_that_may_block_runs_in_a_worker_and_what_is_awaitable_is_awaited_on_the_loop(
    function: Callable[..., object], result: str, workers: int
) -> None:
    desk = Desk()
    assert run(call(function, signature_of(function), {"name": "Ann"}, desk)) == result
    assert desk.in_workers == workers


def test_the_context_is_handed_over_and_the_arguments_of_the_request_stay_as_they_were() -> None:
    def tool(name: str, desk: Desk) -> tuple[str, Desk]:
        return name, desk

    desk, arguments = Desk(), {"name": "Ann"}
    signature = signature_of(tool, context_type=Desk)
    assert run(call(tool, signature, signature.bind(arguments), desk)) == ("Ann", desk)
    assert arguments == {"name": "Ann"}


def test_a_group_of_exceptions_is_raised_as_its_first_with_the_cause_that_it_had() -> None:
    cause = KeyError("k")
    error = ValueError("v")
    error.__cause__ = cause

    def fails() -> None:
        raise ExceptionGroup("outer", [ExceptionGroup("inner", [error]), TypeError("t")])

    async def fails_too() -> None:
        fails()

    for function in (fails, fails_too):
        with pytest.raises(ValueError) as raised:
            run(call(function, signature_of(function), {}, Desk()))
        assert raised.value is error and error.__cause__ is cause
