"""Models: classes shaped as pydantic's `BaseModel` have their own schema, reader and writer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from mcp_ref import Server
from mcp_ref.jsonrpc.messages import Object
from mcp_ref.lib.typed import ConversionError, UnsupportedType, reader_of, schema_of, signature_of, to_json
from tests.messages import result_of
from tests.raw_peers import connected_client


class Refused(ValueError):
    """pydantic's ValidationError: its text is long, so the messages come from `errors()`."""

    def __init__(self, *errors: dict[str, Any]) -> None:
        super().__init__("2 validation errors, see https://example.com/")
        self._errors = errors

    def errors(self) -> tuple[dict[str, Any], ...]:
        return self._errors


@dataclass
class Seat:
    """A model with an alias, a nested model and a check of its own. A dataclass only for brevity."""

    row: int
    seat_side: str

    @classmethod
    def model_json_schema(cls, mode: str = "validation") -> dict[str, Any]:
        return {
            "title": "Seat",
            "type": "object",
            "$defs": {"Side": {"title": "Side", "enum": ["window", "aisle"], "type": "string"}},
            "properties": {
                "row": {"title": "Row", "type": "integer", "minimum": 1},
                "seatSide": {"$ref": "#/$defs/Side", "title": "Which side?", "default": "aisle"},
            },
            "required": ["row"] if mode == "validation" else ["row", "seatSide"],
        }

    @classmethod
    def model_validate(cls, value: dict[str, Any]) -> Seat:
        if value["row"] == 13:
            raise Refused(
                {"loc": ("row",), "msg": "row 13 does not exist"}, {"loc": ("more", 0, "x"), "msg": "nor this"}
            )
        if value["row"] == 14:
            raise ValueError("the row is full")
        return cls(value["row"], value.get("seatSide", "aisle"))

    def model_dump(self, *, mode: str, by_alias: bool) -> dict[str, Any]:
        assert (mode, by_alias) == ("json", True)
        return {"row": self.row, "seatSide": self.seat_side}


class Tree:
    @classmethod
    def model_json_schema(cls, mode: str) -> dict[str, Any]:
        node = {"properties": {"kids": {"items": {"$ref": "#/$defs/Tree"}, "type": "array"}}, "type": "object"}
        return {"$defs": {"Tree": node}, "$ref": "#/$defs/Tree"}

    @classmethod
    def model_validate(cls, value: object) -> Tree:
        return cls()


READ_SCHEMA = {
    "type": "object",
    "properties": {
        "row": {"type": "integer", "minimum": 1},
        "seatSide": {"enum": ["window", "aisle"], "type": "string", "default": "aisle"},
    },
    "required": ["row"],
}


def test_schema_of_a_model_is_its_own_schema_without_references_and_titles() -> None:
    assert schema_of(Seat) == READ_SCHEMA
    assert schema_of(list[Seat]) == {"type": "array", "items": READ_SCHEMA}


def test_schema_of_a_result_is_the_schema_of_written_values() -> None:
    def book(seat: Seat) -> Seat:
        return seat

    signature = signature_of(book, schemaless_types=())
    assert signature.input_schema["properties"] == {"seat": READ_SCHEMA}
    assert signature.output_schema == {**READ_SCHEMA, "required": ["row", "seatSide"]}


def test_schema_of_refuses_a_model_that_contains_itself() -> None:
    with pytest.raises(UnsupportedType, match=r"Tree contains itself, which a schema without \$ref cannot express"):
        schema_of(Tree)


def test_reader_of_a_model_validates_with_the_model() -> None:
    read = reader_of(list[Seat])
    assert read is not None
    assert read([{"row": 2, "seatSide": "window"}]) == [Seat(2, "window")]
    with pytest.raises(ConversionError) as caught:
        read([{"row": 1}, {"row": 13}])
    assert str(caught.value) == "[1].row: row 13 does not exist; more[0].x: nor this"
    with pytest.raises(ConversionError, match=r"^value: the row is full$"):
        reader_of(Seat)({"row": 14})  # type: ignore[misc]


def test_to_json_writes_a_model_with_its_own_names() -> None:
    assert to_json({"seats": [Seat(1, "aisle")]}) == {"seats": [{"row": 1, "seatSide": "aisle"}]}


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_tools_call_reads_and_writes_models(revision: str) -> None:
    server = Server("s")

    @server.tool()
    def book(seats: list[Seat]) -> Seat:
        return seats[-1]

    async with connected_client(server, revision=revision) as wire:
        booked: Object = {"name": "book", "arguments": {"seats": [{"row": 2, "seatSide": "window"}]}}
        assert result_of(await wire.ask("tools/call", booked))["structuredContent"] == {"row": 2, "seatSide": "window"}
        refused: Object = {"name": "book", "arguments": {"seats": [{"row": 1}, {"row": 13}]}}
        result = result_of(await wire.ask("tools/call", refused))
        text = "Invalid arguments: seats[1].row: row 13 does not exist; more[0].x: nor this"
        assert (result["isError"], result["content"]) == (True, [{"type": "text", "text": text}])
