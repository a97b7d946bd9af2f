"""The options of a client: their names and types are checked, and the errors do not repeat their values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcp_ref import Client, HttpClient, Implementation, Limits, Server, SyncClient
from mcp_ref.client.options import ClientOptions
from mcp_ref.features.caching import ResponseCache
from mcp_ref.revisions import LATEST_LEGACY
from tests.settings import PATIENCE

OPTIONS = list(ClientOptions.__annotations__)
COMMAND = ["python3", "server.py"]


@pytest.mark.parametrize("create", [Client, SyncClient])
@pytest.mark.parametrize("name", OPTIONS)
def test_client_refuses_a_misspelled_option_and_suggests_the_right_name(create: Any, name: str) -> None:
    with pytest.raises(TypeError, match=rf"unknown option '{name[:-1]}x'; did you mean '\w+'\?"):
        create(COMMAND, **{name[:-1] + "x": None})


@pytest.mark.parametrize("name", OPTIONS)
def test_client_refuses_an_option_of_the_wrong_type_and_accepts_none_only_if_documented(name: str) -> None:
    annotation = ClientOptions.__annotations__[name].__forward_arg__
    wrong: dict[str, Any] = {name: object()}
    with pytest.raises(TypeError, match=f"the option {name} must have the type .*, not object"):
        Client(COMMAND, **wrong)
    nothing: dict[str, Any] = {name: None}
    if "None" in annotation.rpartition("]")[2].split(" | "):
        Client(COMMAND, **nothing)
    else:
        with pytest.raises(TypeError, match=f"the option {name} must have the type .*, not NoneType"):
            Client(COMMAND, **nothing)


@pytest.mark.parametrize(
    ("name", "value"),
    [("timeout", "5"), ("timeout", True), ("tasks", 1), ("revision", 2025), ("roots", 5), ("limits", {}), ("env", []),
     ("elicitation", True)],
)  # fmt: skip
def test_client_refuses_a_value_that_is_close_to_the_right_type(name: str, value: object) -> None:
    options: dict[str, Any] = {name: value}
    with pytest.raises(TypeError, match=f"the option {name} must have the type .*, not {type(value).__name__}$"):
        Client(COMMAND, **options)


def test_client_error_about_the_type_of_headers_does_not_repeat_the_secret() -> None:
    secret: dict[str, Any] = {"headers": "Authorization: Bearer hunter2"}
    with pytest.raises(TypeError, match="headers must have the type") as refused:
        Client("https://example.com/mcp", **secret)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("roots", [[], {Path("/tmp")}, iter(["/tmp"]), list[str]])
def test_client_accepts_values_of_the_documented_types(roots: Any) -> None:
    Client(COMMAND, roots=roots, revision=LATEST_LEGACY, timeout=5, cwd=Path("/tmp"), eras={}, limits=Limits())
    info = Implementation("a", "1")
    Client("http://x/", http=HttpClient(), cache=ResponseCache(), info=info, revisions=["2025-11-25"])


async def test_repr_of_client_and_session_tells_name_state_and_revision_without_secrets() -> None:
    async with Client(Server("calc"), revision="2025-11-25", env={"TOKEN": "hunter2"}) as client:
        session = "<ClientSession with 'calc', 2025-11-25, open requests: 0>"
        assert repr(client) == f"<Client CONNECTED: {session}>"
        assert repr(client.session) == session
    assert repr(client) == "<Client CLOSED: <ClientSession with 'calc', ended, 2025-11-25, open requests: 0>>"
    url = "https://example.com/mcp?key=hunter2"
    for secret in (Client(url, headers={"Authorization": "hunter2"}), Client(["x", "hunter2"], env={"A": "hunter2"})):
        assert repr(secret) == "<Client NEW>"


def test_sync_client_refuses_options_beside_a_client() -> None:
    with pytest.raises(TypeError, match="give the option timeout to the Client, which exists already"):
        SyncClient(Client(COMMAND), timeout=PATIENCE)
