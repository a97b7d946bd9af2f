"""Texts that are printed: no hidden character of them reaches a terminal."""

from __future__ import annotations

import io
import random
import sys

import pytest

from mcp_ref import BlobResourceContents, TextResourceContents
from mcp_ref.cli import person, show
from mcp_ref.features.elicitation import ElicitRequestFormParams
from mcp_ref.jsonrpc.errors import InvalidMessage
from mcp_ref.jsonrpc.messages import JSON, Object
from tests.fuzz.texts import PLACES, Place, check_texts


@pytest.mark.attack("terminal-escapes")
@pytest.mark.parametrize("place", dict.fromkeys(PLACES))
@pytest.mark.breaks("everything")
def test_texts_from_others_reach_a_terminal_only_with_their_hidden_characters_escaped(place: Place) -> None:
    for seed in range(12):
        check_texts(random.Random(f"texts:{seed}"), place)


@pytest.mark.attack("forged-approval")
def test_rows_of_a_table_are_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    show.table("Tools", [("add\n  bank.pay  amount: integer\n      Harmless", "to\r\n  x: y", "one\ntwo")])
    assert capsys.readouterr().out.splitlines()[2:] == [
        r"  add\u{a}  bank.pay  amount: integer\u{a}      Harmless  to\u{d}\u{a}  x: y",
        "      one",
    ]


@pytest.mark.attack("forged-approval")
async def test_texts_of_an_elicitation_forge_no_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def ask_line(prompt: str) -> str:
        show.note(prompt)
        raise EOFError

    monkeypatch.setattr(person, "ask_line", ask_line)
    for module in (person, show):
        monkeypatch.setattr(module, "columns", lambda stream: 80)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    forged = "hi".ljust(80) + "Start this server? [y/n]".ljust(80) + "x"
    field: JSON = {"type": "string", "title": forged}
    schema: Object = {"type": "object", "properties": {forged: field}}
    request = ElicitRequestFormParams(f"{forged}\n{forged}", schema)
    assert (await person.ask_person("The server s", request)).action == "decline"
    rows = capsys.readouterr().err.splitlines()
    assert not any(row.lstrip().startswith("Start") for row in rows) and max(map(len, rows)) <= 80


def test_signature_shows_types_choices_and_optional_arguments() -> None:
    number: Object = {"type": "integer"}
    properties: Object = {
        "a": number, "b": {"type": ["string", "null"]}, "c": {"enum": ["x", 1]},
        "d": {"anyOf": [number, number, {"type": "null"}]}, "e": {"oneOf": [{"type": "string"}, True]},
        "f": {"enum": [*range(6)]}, "g": {"type": "integer", "enum": [*range(7)]},
    }  # fmt: skip
    schema: Object = {"properties": properties, "required": ["a"]}
    text = 'a: integer, [b: string|null], [c: "x"|1], [d: integer|null], [e: string|any], [f: 0|1|2|3|4|5]'
    assert show.signature(schema) == f"{text}, [g: integer]" and show.signature({}) == ""


@pytest.mark.parametrize("data", ["!!!!", "-_-_YQ==", "YQ==YQ==", "YQ"])
def test_decode_base64_refuses_data_whose_bytes_would_be_guessed(data: str) -> None:
    assert show.decode_base64("x", "YWFh\r\nYQ==\n") == b"aaaa"
    with pytest.raises(InvalidMessage, match="'x' is not Base64"):
        show.decode_base64("x", data)


def test_write_contents_writes_text_and_bytes_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written := io.BytesIO(), "utf-8"))
    for contents in (
        TextResourceContents("a:b", "1"), BlobResourceContents.of("a:b", b"2"), BlobResourceContents.of("a:b", b"3"),
    ):  # fmt: skip
        show.write_contents(contents)
    assert written.getvalue() == b"123"


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 bytes"), (1, "1 byte"), (2, "2 bytes"), (3, "3 bytes"), (4, "4 bytes")]
)
def test_blob_at_a_terminal_is_described_by_its_type_and_size(size: int, text: str) -> None:
    for mime_type in ("x/y", None):
        contents = BlobResourceContents.of("a:b", b"x" * size, mime_type)
        assert show.contents_text(contents) == f"[{mime_type or 'bytes'}: a:b, {text}]"
